package shoal_test

import (
	"fmt"
	"sync/atomic"

	"github.com/shoal-go/shoal"
)

// Many tasks at once cost less than one by one.
func ExamplePool_SubmitBatch() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	var sum atomic.Int64
	var tasks []func()
	for i := range 1000 {
		tasks = append(tasks, func() { sum.Add(int64(i)) })
	}
	n, err := pool.SubmitBatch(tasks)
	pool.Wait()
	fmt.Println(n, err, sum.Load())
	// Output: 1000 <nil> 499500
}

// Where there is no room for all, the first ones are accepted.
func ExamplePool_SubmitBatch_full() {
	pool := shoal.Must(shoal.New(shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.Reject)))
	defer pool.Close()

	pool.Pause() // so that none of them starts
	task := func() {}
	fmt.Println(pool.SubmitBatch([]func(){task, task, task, task}))
	// Output: 2 shoal: queue full
}
