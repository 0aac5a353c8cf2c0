package taskgo_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/taskgo"
)

// Every exported name of the page, with its type.
var (
	_ taskgo.Job                           = func() {}
	_ func(int) taskgo.Option              = taskgo.WithConcurrency
	_ func(time.Duration) taskgo.Option    = taskgo.WithMaxIdle
	_ func(int) taskgo.Option              = taskgo.WithMaxJobs
	_ func(time.Duration) taskgo.Option    = taskgo.WithTimeout
	_ func(func(any)) taskgo.Option        = taskgo.WithPanicHandler
	_ func(...taskgo.Option) *taskgo.Queue = taskgo.New
	_ interface {
		Push(taskgo.Job)
		Len() int
		Stop(context.Context) error
	} = (*taskgo.Queue)(nil)
)

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// atMost fails the test if there are more goroutines than that; those that have
// ended, also of other tests, may take a moment to go.
func atMost(t *testing.T, what string, most int) {
	t.Helper()
	n := runtime.NumGoroutine()
	for i := 0; i < 1000 && n > most; i++ {
		runtime.Gosched()
		n = runtime.NumGoroutine()
	}
	if n > most {
		t.Errorf("%s: %d, want %d at most", what, n, most)
	}
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

// The program of the page.
func TestThePage(t *testing.T) {
	q := taskgo.New(
		taskgo.WithConcurrency(16),
		taskgo.WithMaxIdle(time.Second),
	)
	const total = 10000
	var sum atomic.Int64
	var wg sync.WaitGroup
	wg.Add(total)
	for i := 0; i < total; i++ {
		q.Push(func() {
			sum.Add(int64(fib(10)))
			wg.Done()
		})
	}
	wg.Wait()
	equal(t, "Stop", q.Stop(context.Background()), nil)
	equal(t, "sum", sum.Load(), 55*total)
}

func TestConcurrencyAndLen(t *testing.T) {
	for n, opts := range map[int][]taskgo.Option{
		8: {nil},
		3: {taskgo.WithConcurrency(3), taskgo.WithMaxIdle(time.Second)},
		2: {taskgo.WithConcurrency(2), taskgo.WithMaxJobs(1)},
	} {
		bubble(t, func(t *testing.T) {
			q := taskgo.New(opts...)
			var running, most atomic.Int32
			for range 40 {
				q.Push(func() {
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Second)
					running.Add(-1)
				})
			}
			q.Push(nil)
			synctest.Wait()
			equal(t, "Len", q.Len(), 40-n)
			start := time.Now()
			equal(t, "Stop", q.Stop(context.Background()), nil)
			equal(t, "it took", time.Since(start), time.Duration((40+n-1)/n)*time.Second)
			equal(t, "at once", int(most.Load()), n)
		})
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	q := taskgo.New(taskgo.WithConcurrency(-1), taskgo.WithMaxIdle(-1), taskgo.WithMaxJobs(-1), taskgo.WithTimeout(-1), taskgo.WithPanicHandler(nil))
	done := make(chan struct{})
	q.Push(func() { close(done) })
	<-done
	equal(t, "Stop", q.Stop(context.Background()), nil)
}

func TestStopGivesUpAndTheTasksGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		q := taskgo.New(taskgo.WithConcurrency(1), taskgo.WithTimeout(2600*time.Millisecond))
		var ran atomic.Int32
		for range 5 {
			q.Push(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		start := time.Now()
		equal(t, "Stop", q.Stop(context.Background()), context.DeadlineExceeded)
		equal(t, "it took", time.Since(start), 2600*time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		equal(t, "Stop with a context that has ended", q.Stop(ctx), context.Canceled)
		q.Push(func() { ran.Add(1) })                              // dropped
		equal(t, "Stop", q.Stop(context.Background()), error(nil)) // H18: it waits too
		equal(t, "it took", time.Since(start), 5*time.Second)      // H19: to the moment
		equal(t, "tasks that ran", ran.Load(), 5)
		equal(t, "Stop of what has ended", q.Stop(ctx), nil) // T13: a clean end is clean
	})
}

func TestMaxIdle(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Second} {
		bubble(t, func(t *testing.T) {
			before := runtime.NumGoroutine()
			q := taskgo.New(taskgo.WithMaxIdle(idle))
			q.Push(func() {})
			time.Sleep(idle / 2)
			synctest.Wait()
			parked := 0
			if idle > 0 {
				parked = 1
			}
			atMost(t, "goroutines after the task", before+parked)
			time.Sleep(idle)
			synctest.Wait()
			atMost(t, "goroutines after the timeout", before)
			equal(t, "Stop", q.Stop(context.Background()), nil)
		})
	}
}

func TestMaxJobsOfALife(t *testing.T) { // H20: parks do not begin the count anew
	bubble(t, func(t *testing.T) {
		q := taskgo.New(taskgo.WithConcurrency(1), taskgo.WithMaxIdle(time.Hour), taskgo.WithMaxJobs(2))
		workers := make(map[string]int)
		for range 6 {
			q.Push(func() { workers[goroutine()]++ })
			synctest.Wait() // it has parked
		}
		equal(t, "workers", len(workers), 3)
		for w, n := range workers {
			equal(t, "tasks of "+w, n, 2)
		}
		equal(t, "Stop", q.Stop(context.Background()), nil)
	})
}

// goroutine names the calling goroutine.
func goroutine() string {
	buf := make([]byte, 64)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
	return name
}

func TestPanics(t *testing.T) {
	var got []any
	q := taskgo.New(taskgo.WithConcurrency(1), taskgo.WithPanicHandler(func(v any) { got = append(got, v) }))
	q.Push(func() { panic("so") })
	q.Push(runtime.Goexit) // H1
	q.Push(func() { panic(7) })
	equal(t, "Stop", q.Stop(context.Background()), nil)
	if len(got) != 2 || got[0] != "so" || got[1] != 7 {
		t.Errorf("the handler got %v", got)
	}
}

func TestAPanicCrashesTheProgramWithoutAHandler(t *testing.T) {
	if os.Getenv("CRASH") != "" {
		q := taskgo.New()
		q.Push(func() { panic("as documented") })
		q.Stop(context.Background())
		os.Exit(0)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestAPanicCrashesTheProgramWithoutAHandler$")
	c.Env = append(os.Environ(), "CRASH=1")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: as documented") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestATaskStopsItsQueue(t *testing.T) { // H30
	q := taskgo.New()
	result := make(chan error, 1)
	q.Push(func() { result <- q.Stop(context.Background()) })
	equal(t, "Stop by a task", <-result, shoal.ErrWouldDeadlock)
	equal(t, "Stop", q.Stop(context.Background()), nil)
}

func TestPushRacingStop(t *testing.T) { // H3, and nothing accepted is lost
	for range 200 {
		q := taskgo.New(taskgo.WithConcurrency(2))
		var ran atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50 {
					q.Push(func() { ran.Add(1) })
				}
			})
		}
		runtime.Gosched()
		equal(t, "Stop", q.Stop(context.Background()), nil)
		before := ran.Load()
		wg.Wait()
		equal(t, "tasks that ran after Stop", ran.Load(), before)
	}
}
