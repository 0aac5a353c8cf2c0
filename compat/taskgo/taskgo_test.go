package taskgo_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/internal/expect"
	"github.com/shoal-go/shoal/compat/taskgo"
)

// Every exported name of the page, with its type.
var (
	_ taskgo.Job                           = func() {}
	_ func(int) taskgo.Option              = taskgo.WithConcurrency
	_ func(time.Duration) taskgo.Option    = taskgo.WithMaxIdle
	_ func(int) taskgo.Option              = taskgo.WithMaxJobs
	_ func(int) taskgo.Option              = taskgo.WithMaxPending
	_ func(int) taskgo.Option              = taskgo.WithMaxBatchSize
	_ func(time.Duration) taskgo.Option    = taskgo.WithTimeout
	_ func(func(any)) taskgo.Option        = taskgo.WithPanicHandler
	_ func(...taskgo.Option) *taskgo.Queue = taskgo.New
	_ queue[taskgo.Job]                    = (*taskgo.Queue)(nil)
	_ queue[string]                        = (*taskgo.Task[string])(nil)

	_ func(func(int), ...taskgo.Option) *taskgo.Task[int] = taskgo.NewTask[int]
)

// A queue of T is what both kinds of queues are.
type queue[T any] interface {
	Push(T)
	PushBatch([]T) int
	Submit(T) bool
	SubmitBatch([]T) int
	TrySubmitBatch([]T) bool
	Len() int
	Stop(context.Context) error
}

// both runs f with a queue of either kind. Its values are indices of tasks.
func both(t *testing.T, f func(t *testing.T, q queue[int], tasks *[]func()), opts ...taskgo.Option) {
	t.Helper()
	tasks := new([]func())
	t.Run("Queue", func(t *testing.T) {
		q := jobs{taskgo.New(opts...), tasks}
		f(t, q, tasks)
	})
	t.Run("Task", func(t *testing.T) {
		*tasks = nil
		f(t, taskgo.NewTask(func(i int) { (*tasks)[i]() }, opts...), tasks)
	})
}

// jobs is a [taskgo.Queue] whose jobs are functions by their index.
type jobs struct {
	*taskgo.Queue
	tasks *[]func()
}

func (q jobs) job(i int) taskgo.Job { return func() { (*q.tasks)[i]() } }

func (q jobs) all(values []int) (all []taskgo.Job) {
	for _, i := range values {
		all = append(all, nil, q.job(i)) // nil is left out
	}
	return all
}

func (q jobs) Push(i int)                       { q.Queue.Push(q.job(i)) }
func (q jobs) PushBatch(values []int) int       { return q.Queue.PushBatch(q.all(values)) }
func (q jobs) Submit(i int) bool                { return q.Queue.Submit(q.job(i)) }
func (q jobs) SubmitBatch(values []int) int     { return q.Queue.SubmitBatch(q.all(values)) }
func (q jobs) TrySubmitBatch(values []int) bool { return q.Queue.TrySubmitBatch(q.all(values)) }

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
	expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
	expect.Equal(t, "sum", sum.Load(), 55*total)
}

func TestConcurrencyAndLen(t *testing.T) {
	for n, opts := range map[int][]taskgo.Option{
		8: {nil},
		3: {taskgo.WithConcurrency(3), taskgo.WithMaxIdle(time.Second)},
		2: {taskgo.WithConcurrency(2), taskgo.WithMaxJobs(1)},
	} {
		synctest.Test(t, func(t *testing.T) {
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
			expect.Equal(t, "Len", q.Len(), 40-n)
			start := time.Now()
			expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
			expect.Equal(t, "it took", time.Since(start), time.Duration((40+n-1)/n)*time.Second)
			expect.Equal(t, "at once", int(most.Load()), n)
		})
	}
}

// A task is queued until it starts, also if a worker is free, or on its way to it.
func TestLenCountsWhatHasNotStarted(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // workers run when this goroutine pauses
	for range 100 {                                 // it may be paused where it must not
		q := taskgo.New()
		for range 3 {
			q.Push(func() {})
		}
		n := q.Len()
		expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
		expect.Equal(t, "Len of an empty queue", q.Len(), 0)
		if n == 3 {
			return
		}
	}
	t.Error("Len was never 3 after 3 tasks were pushed")
}

// The option changes nothing, whatever its value: a worker claims no task that another
// worker could run.
func TestMaxBatchSizeIsNotUsed(t *testing.T) {
	for _, size := range []int{-1, 0, 1, 1 << 30} {
		synctest.Test(t, func(t *testing.T) {
			q := taskgo.New(taskgo.WithConcurrency(2), taskgo.WithMaxBatchSize(size))
			release := make(chan struct{})
			var ran atomic.Int32
			q.Push(func() { <-release })
			for range 100 {
				q.Push(func() { ran.Add(1) })
			}
			synctest.Wait()
			expect.Equal(t, "tasks that ran beside one that waits", ran.Load(), 100)
			close(release)
			expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
		})
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	q := taskgo.New(taskgo.WithConcurrency(-1), taskgo.WithMaxIdle(-1), taskgo.WithMaxJobs(-1), taskgo.WithTimeout(-1), taskgo.WithPanicHandler(nil))
	done := make(chan struct{})
	q.Push(func() { close(done) })
	<-done
	expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
}

func TestStopGivesUpAndTheTasksGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := taskgo.New(taskgo.WithConcurrency(1), taskgo.WithTimeout(2600*time.Millisecond))
		var ran atomic.Int32
		for range 5 {
			q.Push(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		start := time.Now()
		expect.Equal(t, "Stop", q.Stop(context.Background()), context.DeadlineExceeded)
		expect.Equal(t, "it took", time.Since(start), 2600*time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		expect.Equal(t, "Stop with a context that has ended", q.Stop(ctx), context.Canceled)
		q.Push(func() { ran.Add(1) })                                     // dropped
		expect.Equal(t, "Stop", q.Stop(context.Background()), error(nil)) // H18: it waits too
		expect.Equal(t, "it took", time.Since(start), 5*time.Second)      // H19: to the moment
		expect.Equal(t, "tasks that ran", ran.Load(), 5)
		expect.Equal(t, "Stop of what has ended", q.Stop(ctx), nil) // T13: a clean end is clean
	})
}

func TestMaxIdle(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			before := runtime.NumGoroutine()
			q := taskgo.New(taskgo.WithMaxIdle(idle))
			q.Push(func() {})
			time.Sleep(idle / 2)
			synctest.Wait()
			parked := 0
			if idle > 0 {
				parked = 1
			}
			expect.AtMost(t, "goroutines after the task", before+parked)
			time.Sleep(idle)
			synctest.Wait()
			expect.AtMost(t, "goroutines after the timeout", before)
			expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
		})
	}
}

func TestMaxJobsOfALife(t *testing.T) { // H20: parks do not begin the count anew
	synctest.Test(t, func(t *testing.T) {
		q := taskgo.New(taskgo.WithConcurrency(1), taskgo.WithMaxIdle(time.Hour), taskgo.WithMaxJobs(2))
		workers := make(map[string]int)
		for range 6 {
			q.Push(func() { workers[goroutine()]++ })
			synctest.Wait() // it has parked
		}
		expect.Equal(t, "workers", len(workers), 3)
		for w, n := range workers {
			expect.Equal(t, "tasks of "+w, n, 2)
		}
		expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
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
	expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
	if len(got) != 2 || got[0] != "so" || got[1] != 7 {
		t.Errorf("the handler got %v", got)
	}
}

func TestAPanicCrashesTheProgramWithoutAHandler(t *testing.T) {
	expect.Crash(t, "as documented", func() {
		q := taskgo.New()
		q.Push(func() { panic("as documented") })
		q.Stop(context.Background())
	})
}

func TestATaskStopsItsQueue(t *testing.T) { // H30
	q := taskgo.New()
	result := make(chan error, 1)
	q.Push(func() { result <- q.Stop(context.Background()) })
	expect.Equal(t, "Stop by a task", <-result, shoal.ErrWouldDeadlock)
	expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
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
		expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
		before := ran.Load()
		wg.Wait()
		expect.Equal(t, "tasks that ran after Stop", ran.Load(), before)
	}
}

func TestMaxPending(t *testing.T) {
	both(t, func(t *testing.T, q queue[int], tasks *[]func()) {
		started, release := make(chan struct{}), make(chan struct{})
		ended := make(chan int, 20)
		*tasks = append(*tasks, func() { close(started); <-release; ended <- 0 })
		for i := 1; i < 20; i++ {
			*tasks = append(*tasks, func() { ended <- i })
		}
		expect.Equal(t, "Submit", q.Submit(0), true)
		<-started
		expect.Equal(t, "TrySubmitBatch of too many", q.TrySubmitBatch([]int{1, 2, 3}), false)
		expect.Equal(t, "Len", q.Len(), 0)
		expect.Equal(t, "TrySubmitBatch", q.TrySubmitBatch([]int{1}), true)
		expect.Equal(t, "SubmitBatch", q.SubmitBatch([]int{2, 3, 4}), 1)
		expect.Equal(t, "Submit at the limit", q.Submit(5), false)
		expect.Equal(t, "SubmitBatch at the limit", q.SubmitBatch([]int{5}), 0)
		expect.Equal(t, "TrySubmitBatch of nothing", q.TrySubmitBatch(nil), true)
		expect.Equal(t, "PushBatch", q.PushBatch([]int{6, 7}), 2) // is not limited
		q.Push(8)
		expect.Equal(t, "Len", q.Len(), 5)
		close(release)
		for _, want := range []int{0, 1, 2, 6, 7, 8} {
			expect.Equal(t, "ended", <-ended, want)
		}
		for range 3 { // there is room again, for as many as ran before and were not pushed
			for !q.Submit(9) {
				runtime.Gosched()
			}
		}
		expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
		expect.Equal(t, "Submit after Stop", q.Submit(1), false)
		expect.Equal(t, "PushBatch after Stop", q.PushBatch([]int{1}), 0)
		expect.Equal(t, "SubmitBatch after Stop", q.SubmitBatch([]int{1}), 0)
		expect.Equal(t, "TrySubmitBatch after Stop", q.TrySubmitBatch(nil), false)
		expect.Equal(t, "tasks that ran", len(ended), 3)
	}, taskgo.WithConcurrency(1), taskgo.WithMaxPending(3))
}

func TestNoLimitOfPendingTasks(t *testing.T) {
	both(t, func(t *testing.T, q queue[int], tasks *[]func()) {
		var ran atomic.Int32
		*tasks = append(*tasks, func() { ran.Add(1) })
		expect.Equal(t, "Submit", q.Submit(0), true)
		expect.Equal(t, "SubmitBatch", q.SubmitBatch(make([]int, 1000)), 1000)
		expect.Equal(t, "TrySubmitBatch", q.TrySubmitBatch(make([]int, 1000)), true)
		expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
		expect.Equal(t, "Submit after Stop", q.Submit(0), false)
		expect.Equal(t, "tasks that ran", ran.Load(), 2001)
	}, taskgo.WithMaxPending(-1))
}

// A task that panics or calls Goexit is not pending any more.
func TestPendingTasksThatDoNotReturn(t *testing.T) {
	both(t, func(t *testing.T, q queue[int], tasks *[]func()) {
		*tasks = append(*tasks, func() { panic("so") }, runtime.Goexit)
		for i := range 10 {
			for !q.Submit(i % 2) {
				runtime.Gosched()
			}
		}
		expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
	}, taskgo.WithMaxPending(1), taskgo.WithPanicHandler(func(any) {}))
}

func TestATaskIsPendingWhileItsPanicIsHandled(t *testing.T) {
	var submit func() bool
	accepted := make(chan bool, 1)
	both(t, func(t *testing.T, q queue[int], tasks *[]func()) {
		*tasks = append(*tasks, func() { panic("so") }, func() {})
		submit = func() bool { return q.Submit(1) }
		expect.Equal(t, "Submit", q.Submit(0), true)
		expect.Equal(t, "Submit in the panic handler", <-accepted, false)
		for !submit() {
			runtime.Gosched()
		}
		expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
	}, taskgo.WithMaxPending(1), taskgo.WithPanicHandler(func(v any) {
		expect.Equal(t, "the panic", v, any("so"))
		accepted <- submit()
	}))
}

// The handler of a task that counts as pending is no other than that of a pushed one.
func TestPanicHandlerThatFailsForAPendingTask(t *testing.T) {
	for end, fail := range map[string]func(){
		"panicked: the handler too": func() { panic("the handler too") },
		"called runtime.Goexit":     runtime.Goexit,
	} {
		t.Run(strings.Fields(end)[0], func(t *testing.T) {
			expect.Crash(t, "shoal: task panicked: so; the panic handler "+end, func() {
				q := taskgo.New(taskgo.WithConcurrency(1), taskgo.WithMaxPending(2), taskgo.WithPanicHandler(func(any) { fail() }))
				q.Submit(func() { panic("so") })
				q.Submit(func() { os.Exit(0) }) // the worker goes on
				select {}
			})
		})
	}
}

func TestNoBatchIsSplitByStop(t *testing.T) {
	for range 40 {
		both(t, func(t *testing.T, q queue[int], tasks *[]func()) {
			var ran, accepted atomic.Int32
			*tasks = append(*tasks, func() { ran.Add(1) })
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for {
						n := q.PushBatch(make([]int, 10))
						m := q.SubmitBatch(make([]int, 10))
						accepted.Add(int32(n + m))
						if q.TrySubmitBatch(make([]int, 10)) {
							accepted.Add(10)
							continue
						}
						if n%10 != 0 || m%10 != 0 {
							t.Errorf("PushBatch %d, SubmitBatch %d", n, m)
						}
						return
					}
				})
			}
			runtime.Gosched()
			expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
			wg.Wait()
			expect.Equal(t, "tasks that ran", ran.Load(), accepted.Load())
		})
	}
}

// A batch may be large. Stop does not wait for it longer than it may.
func TestStopGivesUpWhileABatchIsQueued(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for want, ctx := range map[error]context.Context{context.Canceled: canceled, context.DeadlineExceeded: context.Background()} {
		q := taskgo.New(taskgo.WithTimeout(time.Millisecond))
		release := q.HoldBatch()
		expect.Equal(t, "Stop", q.Stop(ctx), want)
		release()
		for q.PushBatch([]taskgo.Job{func() {}}) != 0 { // the stop comes after the batch
			runtime.Gosched()
		}
		expect.Equal(t, "Submit after the stop", q.Submit(func() {}), false)
		for q.Stop(context.Background()) != nil { // it waits a millisecond
		}
	}
}

// Also while a batch is being queued, and then Stop can only give up.
func TestNothingIsAcceptedAfterStop(t *testing.T) {
	both(t, func(t *testing.T, q queue[int], tasks *[]func()) {
		*tasks = append(*tasks, func() { t.Error("a task that came after Stop") })
		release := q.(interface{ HoldBatch() func() }).HoldBatch()
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		for range 3 {
			expect.Equal(t, "Stop", q.Stop(canceled), context.Canceled)
			q.Push(0)
			expect.Equal(t, "Submit", q.Submit(0), false)
			expect.Equal(t, "PushBatch", q.PushBatch([]int{0}), 0)
			expect.Equal(t, "SubmitBatch", q.SubmitBatch([]int{0}), 0)
			expect.Equal(t, "TrySubmitBatch", q.TrySubmitBatch([]int{0}), false)
		}
		release()
		expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
	})
}

func TestTaskTakesTheZeroValue(t *testing.T) {
	got := make(chan *int, 1)
	q := taskgo.NewTask(func(v *int) { got <- v })
	q.Push(nil)
	expect.Equal(t, "the value", <-got, nil)
	expect.Equal(t, "Stop", q.Stop(context.Background()), nil)
	expect.Equal(t, "NewTask(nil)", expect.Panic(func() { taskgo.NewTask[int](nil) }) != nil, true)
	expect.Equal(t, "Submit(nil)", taskgo.New().Submit(nil), false)
}

func TestPanicHandlerThatPanicsEndsTheProcess(t *testing.T) {
	expect.Crash(t, "shoal: task panicked: so; the panic handler panicked: the handler too", func() {
		q := taskgo.New(taskgo.WithConcurrency(1), taskgo.WithPanicHandler(func(any) { panic("the handler too") }))
		q.Push(func() { panic("so") })
		q.Push(func() { os.Exit(0) }) // the worker goes on
		select {}
	})
}
