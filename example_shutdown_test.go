package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shoal-go/shoal"
)

// Give the tasks some time to finish, and no more.
func ExamplePool_Shutdown() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	started := make(chan struct{})
	pool.SubmitContext(context.Background(), func(ctx context.Context) {
		close(started)
		<-ctx.Done() // a long task looks at its context
	})
	pool.Submit(func() { fmt.Println("too late") })
	<-started

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := pool.Shutdown(ctx)
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))

	<-pool.Done() // what was still running has ended too
	fmt.Println(pool.State())
	// Output:
	// shoal: shutdown incomplete: 1 dropped, 1 running: context deadline exceeded
	// true
	// Closed
}

// Shutdown without a limit runs everything that was accepted.
func ExamplePool_Shutdown_drain() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	for i := range 3 {
		pool.Submit(func() { fmt.Println("task", i) })
	}
	fmt.Println(pool.Shutdown(context.Background()))
	fmt.Println(pool.Submit(func() {}))
	// Output:
	// task 0
	// task 1
	// task 2
	// <nil>
	// shoal: pool closed
}

// Close drops what has not started and interrupts what runs.
func ExamplePool_Close() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	started := make(chan struct{})
	pool.SubmitContext(context.Background(), func(ctx context.Context) {
		close(started)
		<-ctx.Done()
		fmt.Println("interrupted:", context.Cause(ctx))
	})
	for range 5 {
		pool.Submit(func() { fmt.Println("not reached") })
	}
	<-started
	pool.Close()
	fmt.Println("dropped:", pool.Stats().Dropped)
	// Output:
	// interrupted: shoal: pool closed
	// dropped: 5
}

// Drain lets go of a pool: nobody has to wait for its end, and it leaves nothing
// behind.
func ExamplePool_Drain() {
	p := shoal.Must(shoal.New())
	p.Submit(func() { fmt.Println("accepted, so it runs") })
	p.Drain()
	fmt.Println(p.Submit(func() {}) == shoal.ErrClosed)
	<-p.Done()
	// Unordered output:
	// accepted, so it runs
	// true
}
