package shoal_test

import (
	"fmt"

	"github.com/shoal-go/shoal"
)

// full makes a pool that has no room: its only worker is busy until release
// is called, and one task, "oldest", waits.
func full(policy shoal.FullPolicy) (pool *shoal.Pool, release func()) {
	pool = shoal.Must(shoal.New(
		shoal.WithMaxWorkers(1),
		shoal.WithQueueCapacity(1),
		shoal.WithFullPolicy(policy),
	))
	started, busy := make(chan struct{}), make(chan struct{})
	pool.Submit(func() { close(started); <-busy })
	<-started
	pool.Submit(func() { fmt.Println("oldest runs") })
	return pool, func() { close(busy) }
}

// The default: Submit waits for room.
func ExampleWithFullPolicy_block() {
	pool, release := full(shoal.Block)
	defer pool.Close()

	submitted := make(chan error)
	go func() { submitted <- pool.Submit(func() { fmt.Println("newest runs") }) }()
	release()
	fmt.Println(<-submitted == nil, pool.Stats().Rejected)
	pool.Wait()
	// Unordered output:
	// oldest runs
	// newest runs
	// true 0
}

// Say no: for callers that have something better to do.
func ExampleWithFullPolicy_reject() {
	pool, release := full(shoal.Reject)
	defer pool.Close()

	fmt.Println(pool.Submit(func() { fmt.Println("newest runs") }))
	release()
	pool.Wait()
	// Output:
	// shoal: queue full
	// oldest runs
}

// A goroutine of its own: nobody waits, and the limit is only for the pool.
func ExampleWithFullPolicy_spawn() {
	pool, release := full(shoal.Spawn)
	defer pool.Close()

	ran := make(chan struct{})
	pool.Submit(func() { fmt.Println("newest runs"); close(ran) })
	<-ran // beside the worker
	release()
	pool.Wait()
	// Output:
	// newest runs
	// oldest runs
}

// The submitter does the work itself, and submits nothing meanwhile: the
// simplest way to slow down whoever is too fast.
func ExampleWithFullPolicy_callerRuns() {
	pool, release := full(shoal.CallerRuns)
	defer pool.Close()

	pool.Submit(func() { fmt.Println("newest runs") })
	fmt.Println("Submit returns")
	release()
	pool.Wait()
	// Output:
	// newest runs
	// Submit returns
	// oldest runs
}

// Only the latest matters: prices, positions, frames.
func ExampleWithFullPolicy_dropOldest() {
	pool, release := full(shoal.DropOldest)
	defer pool.Close()

	pool.Submit(func() { fmt.Println("newest runs") })
	release()
	pool.Wait()
	fmt.Println("dropped:", pool.Stats().Dropped)
	// Output:
	// newest runs
	// dropped: 1
}
