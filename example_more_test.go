package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
)

// A name tells pools apart in errors, statistics and goroutine profiles (where
// it is the label "pool").
func ExampleWithName() {
	pool := shoal.Must(shoal.New(
		shoal.WithName("indexer"),
		shoal.WithPanicHandler(func(*shoal.PanicError) {}),
	))
	defer pool.Close()

	err := pool.SubmitWait(context.Background(), func(context.Context) error { panic("bad index") })
	fmt.Println(err)
	fmt.Println(pool.Stats().Name)
	// Output:
	// shoal: task of pool "indexer" panicked: bad index
	// indexer
}

// Every worker says when it comes and goes, for instance to open and close a
// connection of its own.
func ExampleWithWorkerHooks() {
	pool := shoal.Must(shoal.New(
		shoal.WithMaxWorkers(1),
		shoal.WithWorkerHooks(
			func(id int) { fmt.Println("worker", id, "connects") },
			func(id int) { fmt.Println("worker", id, "hangs up") },
		),
	))
	pool.Submit(func() { fmt.Println("a query") })
	pool.Submit(func() { fmt.Println("another query") })
	pool.Wait()
	pool.Close()
	// Output:
	// worker 0 connects
	// a query
	// another query
	// worker 0 hangs up
}

// A task that panics does not take the process, or even its worker, along.
func ExampleWithPanicHandler() {
	pool := shoal.Must(shoal.New(
		shoal.WithName("mail"),
		shoal.WithPanicHandler(func(e *shoal.PanicError) {
			fmt.Println(e) // e.Stack is where it happened
		}),
	))
	defer pool.Close()

	pool.Submit(func() {
		var inbox []string
		fmt.Println(inbox[3])
	})
	pool.Wait()
	fmt.Println("failed:", pool.Stats().Failed)
	// Output:
	// shoal: task of pool "mail" panicked: runtime error: index out of range [3] with length 0
	// failed: 1
}

// A caller that waits for a task gets its panic as an error.
func ExamplePanicError() {
	pool := shoal.Must(shoal.New(shoal.WithPanicHandler(func(*shoal.PanicError) {})))
	defer pool.Close()

	err := pool.SubmitWait(context.Background(), func(context.Context) error {
		panic(fmt.Errorf("reading: %w", io.ErrUnexpectedEOF))
	})
	var pe *shoal.PanicError
	fmt.Println(errors.As(err, &pe), pe.Value)
	fmt.Println(errors.Is(err, io.ErrUnexpectedEOF))
	// Output:
	// true reading: unexpected EOF
	// true
}

// backlog is a Sizer: another worker for every ten tasks that wait.
type backlog struct{}

func (backlog) Grow(s shoal.Sizing) bool { return s.Queued >= 10*s.Workers }

// A Sizer of one's own. It may hold growth back while the workers keep up, but
// no task is left waiting behind workers that are blocked.
func ExampleSizer() {
	fmt.Println("2 workers, 5 waiting: ", backlog{}.Grow(shoal.Sizing{Workers: 2, Queued: 5}))
	fmt.Println("2 workers, 50 waiting:", backlog{}.Grow(shoal.Sizing{Workers: 2, Queued: 50}))

	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(100), shoal.WithSizing(backlog{})))
	defer pool.Close()
	answer := make(chan int)
	pool.Submit(func() { fmt.Println("the answer is", <-answer) }) // blocks until
	pool.Submit(func() { answer <- 42 })                           // this one runs
	pool.Wait()
	// Output:
	// 2 workers, 5 waiting:  false
	// 2 workers, 50 waiting: true
	// the answer is 42
}

// The Sizers that come with the package.
func ExampleWithSizing() {
	for name, sizer := range map[string]shoal.Sizer{
		"Auto":     shoal.Auto(),     // as many as the CPUs can use, more while workers block; the default
		"Eager":    shoal.Eager(),    // one for every task that finds no idle worker
		"Balanced": shoal.Balanced(), // one for every GOMAXPROCS/2 of them
		"Lazy":     shoal.Lazy(),     // one for every GOMAXPROCS of them
		"Rated":    shoal.Rated(20),  // one for every 20 of them
	} {
		pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(50), shoal.WithSizing(sizer)))
		for range 1000 {
			pool.Submit(func() {})
		}
		pool.Wait()
		fmt.Println(name, pool.Stats().Completed)
		pool.Close()
	}
	// Unordered output:
	// Auto 1000
	// Eager 1000
	// Balanced 1000
	// Lazy 1000
	// Rated 1000
}

// One call for all there is to watch.
func ExamplePool_Stats() {
	pool := shoal.Must(shoal.New(
		shoal.WithName("resize-images"),
		shoal.WithMaxWorkers(1),
		shoal.WithQueueCapacity(4),
		shoal.WithFullPolicy(shoal.Reject),
	))
	defer pool.Close()

	started, finish := make(chan struct{}), make(chan struct{})
	pool.Submit(func() { close(started); <-finish })
	<-started
	for range 5 {
		pool.Submit(func() {})
	}

	s := pool.Stats()
	fmt.Printf("%s: %d of %d workers busy, %d waiting, queue %.0f %% full, %d rejected\n",
		s.Name, s.Running, s.MaxWorkers, s.Queued, 100*s.QueueFill(), s.Rejected)

	close(finish)
	pool.Wait()
	s = pool.Stats()
	fmt.Printf("%d submitted = %d completed + %d dropped + %d canceled + %d in flight\n",
		s.Submitted, s.Completed, s.Dropped, s.Canceled, s.InFlight)
	// Output:
	// resize-images: 1 of 1 workers busy, 4 waiting, queue 100 % full, 1 rejected
	// 5 submitted = 5 completed + 0 dropped + 0 canceled + 0 in flight
}

// How long tasks wait and run. One task in 64 is measured, unless all are to
// be.
func ExampleWithTiming() {
	pool := shoal.Must(shoal.New(shoal.WithTiming(shoal.TimingFull)))
	defer pool.Close()

	for range 100 {
		pool.Submit(func() {})
	}
	pool.Wait()
	run := pool.Stats().RunTime
	fmt.Println("measured:", run.Count)
	fmt.Println("median below the maximum:", run.Quantile(0.5) <= run.Max())
	fmt.Println("99 % took less than a minute:", run.Quantile(0.99) < time.Minute)
	// Output:
	// measured: 100
	// median below the maximum: true
	// 99 % took less than a minute: true
}

// Which workers are busy, and since when.
func ExamplePool_Workers() {
	pool := shoal.Must(shoal.New(
		shoal.WithMinWorkers(1),
		shoal.WithMaxWorkers(1),
		shoal.WithIdleTimeout(shoal.Forever),
	))
	defer pool.Close()

	ctx := context.Background()
	for i := range 3 {
		pool.SubmitWait(ctx, func(context.Context) error {
			if i == 1 {
				return errors.New("no such host")
			}
			return nil
		})
	}
	started, finish := make(chan struct{}), make(chan struct{})
	pool.Submit(func() { close(started); <-finish })
	<-started
	for w := range pool.Workers() {
		fmt.Printf("worker %d is %v, busy for less than an hour: %t\n", w.ID, w.State, w.TaskAge < time.Hour)
	}
	close(finish)
	pool.Wait()
	for w := range pool.Workers() {
		fmt.Printf("worker %d has executed %d, of which %d failed\n", w.ID, w.Executed, w.Failed)
	}
	// Output:
	// worker 0 is running, busy for less than an hour: true
	// worker 0 has executed 4, of which 1 failed
}

// A consumer takes no more from a queue elsewhere than it can run at once.
func ExamplePool_Reserve() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	defer pool.Close()
	queue := []string{"a", "b", "c", "d", "e"} // elsewhere

	ctx := context.Background()
	var sent atomic.Int32
	for len(queue) > 0 {
		places, err := pool.Reserve(ctx, 10) // waits until a worker is free
		if err != nil {
			fmt.Println(err)
			return
		}
		batch := queue[:min(places.Len(), len(queue))]
		queue = queue[len(batch):]
		for range batch {
			err := places.Submit(ctx, func(context.Context) error {
				sent.Add(1)
				return nil
			}, func(err error) { fmt.Println("lost:", err) })
			if err != nil {
				fmt.Println(err)
			}
		}
		places.Release() // those that are left
	}
	pool.Wait()
	fmt.Println("sent:", sent.Load())
	// Output: sent: 5
}

// One pool for all tenants of a server. Each has a share of the workers while
// all are busy, and what one leaves unused the others have; a health check comes
// before all of them.
func ExamplePool_Sub() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4), shoal.WithName("server")))
	defer pool.Close()
	tenant := func(name string, weight int) *shoal.Pool {
		return shoal.Must(pool.Sub(
			shoal.WithName(name),
			shoal.WithWeight(weight),
			shoal.WithMaxWorkers(3),         // never more than that at once
			shoal.WithQueueCapacity(10_000), // what it may have waiting
		))
	}
	free, paying := tenant("free", 1), tenant("paying", 5)
	health := shoal.Must(pool.Sub(shoal.WithName("health"), shoal.WithPriority(10)))

	var done atomic.Int32
	for range 1000 {
		for _, t := range []*shoal.Pool{free, paying} {
			if err := t.Submit(func() { done.Add(1) }); err != nil {
				fmt.Println(err)
			}
		}
	}
	err := health.SubmitWait(context.Background(), func(context.Context) error { return nil })
	fmt.Println("healthy:", err == nil)

	free.Close() // the tenant has left; what it had waiting is dropped
	paying.Wait()
	s, f := paying.Stats(), free.Stats()
	fmt.Println(s.Completed, f.Completed+f.Dropped)
	// Output:
	// healthy: true
	// 1000 1000
}

// Retire the sub-pool of a tenant while requests may be about to submit to it: no
// task is lost, and no count.
func ExamplePool_Drain_tenant() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()
	ctx := context.Background()

	var mu sync.Mutex // guards tenants
	tenants := map[string]*shoal.Pool{}
	tenant := func(name string) (*shoal.Pool, error) {
		mu.Lock()
		defer mu.Unlock()
		if p := tenants[name]; p != nil {
			return p, nil
		}
		p, err := pool.Sub(shoal.WithName(name), shoal.WithMaxWorkers(2))
		if err == nil {
			tenants[name] = p
		}
		return p, err
	}
	serve := func(name string, task func(context.Context) error) error {
		for pool.State() < shoal.Draining {
			p, err := tenant(name)
			if err == nil {
				err = p.SubmitWait(ctx, task)
			}
			if err != shoal.ErrClosed { // else the tenant was retired meanwhile
				return err
			}
		}
		return shoal.ErrClosed
	}
	retire := func(name string) (completed uint64) {
		mu.Lock()
		p := tenants[name]
		delete(tenants, name)
		mu.Unlock()
		p.Drain()
		<-p.Done()
		return p.Stats().Completed
	}

	hello := func(context.Context) error { return nil }
	fmt.Println(serve("ada", hello), serve("ada", hello))
	fmt.Println(retire("ada"), "completed")
	fmt.Println(serve("ada", hello)) // by a new sub-pool
	// Output:
	// <nil> <nil>
	// 2 completed
	// <nil>
}

// All workers wait for something, and the tasks that would bring it are queued behind
// them: the watchdog tells which tasks those are.
func ExampleWithStallAfter() {
	told := make(chan shoal.Alarm, 1)
	pool := shoal.Must(shoal.New(
		shoal.WithName("orders"),
		shoal.WithMaxWorkers(2),
		shoal.WithStallAfter(10*time.Millisecond), // in a program, rather a minute
		shoal.WithAlarmHandler(func(a shoal.Alarm) { told <- a }),
		shoal.WithLogger(slog.New(slog.DiscardHandler)),
	))
	defer pool.Close()

	paid := make(chan struct{})
	for range 2 {
		pool.Submit(func() { waitForPayment(paid) })
	}
	pool.Submit(func() { close(paid) }) // no worker is left for it

	alarm := <-told
	fmt.Println(alarm.Kind, "of", alarm.Stats.Name, "with", alarm.Count, "running and", alarm.Stats.Queued, "queued")
	fmt.Println("they are in waitForPayment:", strings.Contains(alarm.Tasks[0].Stack, "waitForPayment"))
	pool.Resize(0, 3)
	pool.Wait()
	fmt.Println("told of", pool.Stats().Stalls)
	// Output:
	// stall of orders with 2 running and 1 queued
	// they are in waitForPayment: true
	// told of 1
}

func waitForPayment(paid <-chan struct{}) { <-paid }

// A task that takes too long is reported while it runs.
func ExampleWithSlowTask() {
	told := make(chan struct{})
	pool := shoal.Must(shoal.New(
		shoal.WithName("reports"),
		shoal.WithSlowTask(10*time.Millisecond),
		shoal.WithAlarmHandler(func(shoal.Alarm) { close(told) }),
		shoal.WithLogger(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
			ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr { // what is the same each time
				switch {
				case len(groups) > 0, a.Key == slog.TimeKey, a.Key == "for", a.Key == "max":
					return slog.Attr{}
				}
				return a
			},
		}))),
	))
	defer pool.Close()
	pool.Submit(func() { <-told })
	pool.Wait()
	// Output:
	// level=WARN msg="shoal: tasks have become slow" pool=reports tasks=1 running=1 queued=0
}

// What the workers of a pool that is stuck are doing.
func ExamplePool_OldestTasks() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()
	paid, started := make(chan struct{}), make(chan struct{})
	pool.Submit(func() { close(started); waitForPayment(paid) })
	<-started

	for _, task := range pool.OldestTasks(10) {
		fmt.Println("worker", task.Worker, "is in this example:", strings.Contains(task.Stack, "ExamplePool_OldestTasks"))
	}
	close(paid)
	// Output:
	// worker 0 is in this example: true
}

// A printer is a Tracer that prints.
type printer struct{}

type requestKey struct{}

func (printer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	fmt.Println(ctx.Value(requestKey{}), "submitted to", p.Name(), "by", kind)
	return ctx
}

func (printer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	fmt.Println(ctx.Value(requestKey{}), "started")
	return ctx, func(err error) { fmt.Println(ctx.Value(requestKey{}), "ended:", err) }
}

func (printer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	fmt.Println(ctx.Value(requestKey{}), "refused:", err)
}

// A Tracer sees tasks come and go. For OpenTelemetry's there is contrib/otel.
func ExampleWithTracer() {
	pool := shoal.Must(shoal.New(shoal.WithName("orders"), shoal.WithTracer(printer{})))
	ctx := context.WithValue(context.Background(), requestKey{}, "request 7")

	pool.SubmitWait(ctx, func(context.Context) error { return fmt.Errorf("out of stock") })
	pool.Close()
	pool.SubmitContext(ctx, func(context.Context) {})
	// Output:
	// request 7 submitted to orders by SubmitWait
	// request 7 started
	// request 7 ended: out of stock
	// request 7 submitted to orders by SubmitContext
	// request 7 refused: shoal: pool closed
}

// until yields the values of in up to the first error, which it stores in err.
func until[T any](in iter.Seq2[T, error], err *error) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v, e := range in {
			if e != nil {
				*err = e
				return
			}
			if !yield(v) {
				return
			}
		}
	}
}

// A pipeline. Each stage has a sub-pool, and pulls the results of the one before. So
// the queues bound how many items are under way. The first error ends the input.
func ExampleMap_pipeline() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()
	stage := func(workers int) *shoal.Pool {
		return shoal.Must(pool.Sub(shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(8)))
	}
	ctx := context.Background()

	parse := func(_ context.Context, s string) (int, error) { return strconv.Atoi(s) }
	square := func(_ context.Context, n int) (int, error) { return n * n, nil }

	var failed error
	lines := slices.Values([]string{"1", "2", "three", "4"})
	numbers := until(shoal.Map(ctx, stage(1), lines, parse), &failed)
	squares := until(shoal.Map(ctx, stage(3), numbers, square), &failed)
	for n := range squares {
		fmt.Println(n)
	}
	fmt.Println(failed)
	// Output:
	// 1
	// 4
	// strconv.Atoi: parsing "three": invalid syntax
}

// Quicksort in which no task waits for another one: the tasks add tasks to the group,
// and only the caller waits.
func ExampleGroup_Go() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()
	v := make([]int, 100_000)
	for i := range v {
		v[i] = i * 7919 % len(v)
	}

	group := pool.Group(context.Background())
	var sort func(v []int) func(context.Context) error
	sort = func(v []int) func(context.Context) error {
		return func(context.Context) error {
			for len(v) > 2000 {
				k := partition(v)
				group.Go(sort(v[:k]))
				v = v[k+1:]
			}
			slices.Sort(v)
			return nil
		}
	}
	group.Go(sort(v))
	fmt.Println(group.Wait(), slices.IsSorted(v))
	// Output: <nil> true
}

// partition moves an element of v to its place in order, k, with smaller ones before it.
func partition(v []int) (k int) {
	last := len(v) - 1
	v[len(v)/2], v[last] = v[last], v[len(v)/2]
	for i := range last {
		if v[i] < v[last] {
			v[i], v[k] = v[k], v[i]
			k++
		}
	}
	v[k], v[last] = v[last], v[k]
	return k
}

// A periodic job. It submits itself again when it has ended, so it never overlaps, and
// the end of its sub-pool is the end of the job.
func ExamplePool_SubmitAfter_periodic() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()
	sweeper := shoal.Must(pool.Sub(shoal.WithName("sweeper")))

	runs, third := 0, make(chan struct{})
	var sweep func()
	sweep = func() {
		defer sweeper.SubmitAfter(time.Millisecond, sweep) // also after a panic; not once sweeper is shut down
		if runs++; runs == 3 {
			close(third)
		}
	}
	sweeper.Submit(sweep)
	<-third
	fmt.Println(sweeper.Shutdown(context.Background()), runs >= 3) // waits for the run, drops the next one
	// Output: <nil> true
}
