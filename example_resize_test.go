package shoal_test

import (
	"errors"
	"fmt"
	"sync"

	"github.com/shoal-go/shoal"
)

// More workers for the night. Tasks that wait get them at once.
func ExamplePool_Resize() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	var meet sync.WaitGroup // four tasks that need each other
	meet.Add(4)
	for range 4 {
		pool.Submit(func() { meet.Done(); meet.Wait() })
	}
	if err := pool.Resize(0, 4); err != nil {
		fmt.Println(err)
	}
	pool.Wait()
	fmt.Println("peak:", pool.Stats().PeakWorkers)

	fmt.Println(errors.Is(pool.Resize(5, 2), shoal.ErrConfig))
	// Output:
	// peak: 4
	// true
}
