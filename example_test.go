package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
)

// Count words in many texts, four at a time. This is a whole program.
func Example() {
	pool, err := shoal.New(shoal.WithMaxWorkers(4))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close() // whatever happens below, nothing is left behind

	texts := []string{"to be or not to be", "that is the question", "whether tis nobler in the mind"}
	var words atomic.Int64
	for _, text := range texts {
		err := pool.Submit(func() {
			words.Add(int64(len(strings.Fields(text))))
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	// Shutdown runs what was accepted, then ends the workers.
	if err := pool.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(words.Load(), "words")
	// Output: 16 words
}

// New names every invalid option, not just the first.
func ExampleNew() {
	_, err := shoal.New(
		shoal.WithMaxWorkers(0),
		shoal.WithQueueCapacity(-1),
	)
	fmt.Println(errors.Is(err, shoal.ErrConfig))
	fmt.Println(err)
	// Output:
	// true
	// shoal: invalid configuration: WithMaxWorkers(0): want 1 … 16777216
	// shoal: invalid configuration: WithQueueCapacity(-1): want 0 … 68719476736, or Unbounded
}

// For a pool in a package variable.
func ExampleMust() {
	thumbnails := shoal.Must(shoal.New(shoal.WithName("thumbnails"), shoal.WithMaxWorkers(2)))
	defer thumbnails.Close()

	fmt.Println(thumbnails.State())
	// Output: Open
}

// The pool ends with the context of the service it belongs to.
func ExampleWithContext() {
	service, stop := context.WithCancel(context.Background())
	pool := shoal.Must(shoal.New(shoal.WithContext(service)))

	started := make(chan struct{})
	pool.SubmitContext(context.Background(), func(ctx context.Context) {
		close(started)
		<-ctx.Done()
		fmt.Println("the task is told to stop")
	})
	<-started

	stop()
	<-pool.Done()
	fmt.Println(pool.State())
	fmt.Println(pool.Submit(func() {}))
	// Output:
	// the task is told to stop
	// Closed
	// shoal: pool closed
}

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

// full makes a pool without free capacity: its only worker is busy until release
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

// The default: Submit waits for free capacity.
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

// A goroutine of its own: Submit does not wait, and the task is beyond the limit.
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
// simplest way to slow down a submitter that is too fast.
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

// A server that would rather say no than let requests wait.
func ExamplePool_TrySubmit() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1)))
	defer pool.Close()

	finish := make(chan struct{})
	request := func() { <-finish }
	for i := range 3 {
		switch err := pool.TrySubmit(request); {
		case errors.Is(err, shoal.ErrQueueFull):
			fmt.Println("request", i, "503 Service Unavailable")
		case err == nil:
			fmt.Println("request", i, "accepted")
		}
	}
	close(finish)
	// Output:
	// request 0 accepted
	// request 1 accepted
	// request 2 503 Service Unavailable
}

// A task whose client has gone before a worker came to it does not start.
func ExamplePool_SubmitContext() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	busy := make(chan struct{})
	pool.Submit(func() { <-busy })

	ctx, hangUp := context.WithCancel(context.Background())
	pool.SubmitContext(ctx, func(context.Context) { fmt.Println("answering nobody") })
	pool.SubmitContext(context.Background(), func(ctx context.Context) { fmt.Println("answering, context:", ctx.Err()) })
	hangUp()
	close(busy)

	pool.Wait()
	fmt.Println("canceled:", pool.Stats().Canceled)
	// Output:
	// answering, context: <nil>
	// canceled: 1
}

// Have a result, and the number of tasks bounded.
func ExamplePool_SubmitWait() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(8)))
	defer pool.Close()

	var text []byte
	err := pool.SubmitWait(context.Background(), func(ctx context.Context) (err error) {
		text, err = os.ReadFile("no such file")
		return err
	})
	fmt.Println(len(text), errors.Is(err, fs.ErrNotExist))
	// Output: 0 true
}

// SubmitWait returns when its task has returned, also if ctx ends meanwhile. So the
// task may write to what the caller goes on using.
func ExamplePool_SubmitWait_canceled() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	ctx, cancel := context.WithCancel(context.Background())
	var cleanedUp bool
	err := pool.SubmitWait(ctx, func(ctx context.Context) error {
		cancel()     // meanwhile the client goes away
		<-ctx.Done() // a request that takes too long
		cleanedUp = true
		return fmt.Errorf("reading the catalogue: %w", ctx.Err())
	})
	fmt.Println(err)
	fmt.Println(cleanedUp)
	// Output:
	// reading the catalogue: context canceled
	// true
}

// A task that waits for a task of its own pool runs it right there. So even
// one worker is enough for any depth.
func ExamplePool_SubmitWait_nested() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	var factorial func(ctx context.Context, n int) (int, error)
	factorial = func(ctx context.Context, n int) (f int, err error) {
		if n == 0 {
			return 1, nil
		}
		err = pool.SubmitWait(ctx, func(ctx context.Context) error { // the task's own ctx
			f, err = factorial(ctx, n-1)
			return err
		})
		return n * f, err
	}
	fmt.Println(factorial(context.Background(), 10))
	// Output: 3628800 <nil>
}

// Submit several tasks, and learn how many of them were accepted.
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

// If there is not enough capacity for all, the first ones are accepted.
func ExamplePool_SubmitBatch_full() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.Reject)))
	defer pool.Close()

	pool.Pause() // so that none of them starts
	task := func() {}
	fmt.Println(pool.SubmitBatch([]func(){task, task, task, task}))
	// Output: 3 shoal: queue full
}

// Try again later, without a goroutine that sleeps. If the pool ends first, the task is dropped and nobody
// is told. So wait for the end of the pool too.
func ExamplePool_SubmitAfter() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	delivered := make(chan int, 1)
	var deliver func(attempt int) func()
	deliver = func(attempt int) func() {
		return func() {
			if attempt < 3 { // the receiver does not answer
				pool.SubmitAfter(time.Millisecond<<attempt, deliver(attempt+1))
				return
			}
			delivered <- attempt
		}
	}
	pool.Submit(deliver(1))
	select {
	case attempt := <-delivered:
		fmt.Println("delivered by attempt", attempt)
	case <-pool.Done():
		fmt.Println("given up")
	}

	stop, err := pool.SubmitAfter(time.Hour, func() { fmt.Println("a reminder") })
	fmt.Println("not needed any more:", stop(), err)
	// Output:
	// delivered by attempt 3
	// not needed any more: true <nil>
}

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

// Hold the tasks back while their database is being migrated.
func ExamplePool_Pause() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	pool.Pause()
	for i := range 3 {
		pool.Submit(func() { fmt.Println("order", i) })
	}
	fmt.Println(pool.State(), "with", pool.Queued(), "orders waiting")

	pool.Resume()
	pool.Wait()
	fmt.Println(pool.State(), "with", pool.Queued(), "orders waiting")
	// Output:
	// Paused with 3 orders waiting
	// order 0
	// order 1
	// order 2
	// Open with 0 orders waiting
}

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

// Drain ends a pool without waiting. When the accepted tasks have run, nothing of
// the pool is left.
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
