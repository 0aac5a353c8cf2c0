package shoal_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
)

// One pool, round after round. Wait leaves it open, and waits for tasks that
// tasks have submitted too.
func ExamplePool_Wait() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	for round := range 2 {
		var visited atomic.Int32
		var visit func(depth int) func()
		visit = func(depth int) func() {
			return func() {
				visited.Add(1)
				if depth < 5 {
					pool.Submit(visit(depth + 1))
					pool.Submit(visit(depth + 1))
				}
			}
		}
		pool.Submit(visit(0))
		pool.Wait()
		fmt.Println("round", round, "visited", visited.Load())
	}
	// Output:
	// round 0 visited 63
	// round 1 visited 63
}

// Wait, but not for ever.
func ExamplePool_WaitContext() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	finish := make(chan struct{})
	pool.Submit(func() { <-finish })

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(pool.WaitContext(ctx))

	close(finish)
	fmt.Println(pool.WaitContext(context.Background()))
	// Output:
	// context deadline exceeded
	// <nil>
}
