package shoal_test

import (
	"fmt"

	"github.com/shoal-go/shoal"
)

// A fixed number of workers, there from the start.
func ExampleWithMinWorkers() {
	pool := shoal.Must(shoal.New(shoal.WithMinWorkers(4), shoal.WithMaxWorkers(4)))
	defer pool.Close()

	fmt.Println(pool.Stats().Workers)
	// Output: 4
}

// Hand-off: a task is accepted when a worker is free to take it.
func ExampleWithQueueCapacity() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0)))
	defer pool.Close()

	finish := make(chan struct{})
	for range 3 {
		fmt.Println(pool.TrySubmit(func() { <-finish }))
	}
	close(finish)
	// Output:
	// <nil>
	// <nil>
	// shoal: queue full
}

// Workers that leave as soon as there is nothing to do, and keep no memory.
func ExampleWithIdleTimeout() {
	gone := make(chan int)
	pool := shoal.Must(shoal.New(
		shoal.WithIdleTimeout(0),
		shoal.WithWorkerHooks(nil, func(id int) { gone <- id }),
	))
	defer pool.Close()

	pool.Submit(func() {})
	fmt.Println("worker", <-gone, "has left")
	// Output: worker 0 has left
}

// A fresh worker after every 100 tasks, against whatever tasks leave behind on
// their goroutine.
func ExampleWithMaxTasksPerWorker() {
	started := 0
	pool := shoal.Must(shoal.New(
		shoal.WithMaxWorkers(1),
		shoal.WithMaxTasksPerWorker(100),
		shoal.WithWorkerHooks(func(int) { started++ }, nil),
	))
	for range 250 {
		pool.Submit(func() {})
	}
	pool.Wait()
	pool.Close()
	fmt.Println(started, "workers")
	// Output: 3 workers
}
