package flock_test

import (
	"fmt"

	"github.com/shoal-go/shoal/compat/flock"
)

func Example() {
	pool, err := flock.NewPool(flock.WithNumWorkers(1))
	if err != nil {
		panic(err)
	}
	defer pool.Shutdown(true)
	for i := 0; i < 3; i++ {
		taskID := i
		pool.Submit(func() {
			fmt.Printf("Task %d executing\n", taskID)
		})
	}
	pool.Wait()
	fmt.Println(pool.Stats().Completed)
	// Output:
	// Task 0 executing
	// Task 1 executing
	// Task 2 executing
	// 3
}
