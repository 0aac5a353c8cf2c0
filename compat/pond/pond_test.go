package pond_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/internal/expect"
	"github.com/shoal-go/shoal/compat/pond"
)

// Every exported name of pond v1.9.2, with its type.
var (
	_ error                                   = pond.ErrSubmitOnStoppedPool
	_ func() pond.ResizingStrategy            = pond.Eager
	_ func() pond.ResizingStrategy            = pond.Balanced
	_ func() pond.ResizingStrategy            = pond.Lazy
	_ func(int) pond.ResizingStrategy         = pond.RatedResizer
	_ func(context.Context) pond.Option       = pond.Context
	_ func(time.Duration) pond.Option         = pond.IdleTimeout
	_ func(int) pond.Option                   = pond.MinWorkers
	_ func(func(interface{})) pond.Option     = pond.PanicHandler
	_ func(pond.ResizingStrategy) pond.Option = pond.Strategy

	_ func(int, int, ...pond.Option) *pond.WorkerPool = pond.New

	_ interface {
		CompletedTasks() uint64
		FailedTasks() uint64
		Group() *pond.TaskGroup
		GroupContext(context.Context) (*pond.TaskGroupWithContext, context.Context)
		IdleWorkers() int
		MaxCapacity() int
		MaxWorkers() int
		MinWorkers() int
		RunningWorkers() int
		Stop() context.Context
		StopAndWait()
		StopAndWaitFor(time.Duration)
		Stopped() bool
		Strategy() pond.ResizingStrategy
		Submit(func())
		SubmitAndWait(func())
		SubmitBefore(func(), time.Duration)
		SubmittedTasks() uint64
		SuccessfulTasks() uint64
		TrySubmit(func()) bool
		WaitingTasks() uint64
	} = (*pond.WorkerPool)(nil)
	_ interface {
		Submit(func())
		Wait()
	} = (*pond.TaskGroup)(nil)
	_ interface {
		Submit(func() error)
		Wait() error
	} = (*pond.TaskGroupWithContext)(nil)
	_ interface {
		Resize(running, min, max int) bool
	} = pond.ResizingStrategy(nil)
)

func TestCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pond.New(2, 3, pond.MinWorkers(1), pond.PanicHandler(func(any) {}))
		counts := func() [8]int {
			synctest.Wait()
			return [8]int{p.RunningWorkers(), p.IdleWorkers(), int(p.SubmittedTasks()), int(p.WaitingTasks()),
				int(p.SuccessfulTasks()), int(p.FailedTasks()), int(p.CompletedTasks()), p.MaxCapacity()}
		}
		expect.Equal(t, "at first", counts(), [8]int{1, 1, 0, 0, 0, 0, 0, 3})
		for range 4 {
			p.Submit(func() { time.Sleep(time.Second) })
		}
		p.Submit(func() { panic("so") })
		p.Submit(nil)
		expect.Equal(t, "while two of five run", counts(), [8]int{2, 0, 5, 3, 0, 0, 0, 3})
		expect.Equal(t, "TrySubmit while full", p.TrySubmit(func() {}), false)
		expect.Equal(t, "TrySubmit of nil", p.TrySubmit(nil), false)
		time.Sleep(3 * time.Second)
		expect.Equal(t, "after all", counts(), [8]int{2, 2, 5, 0, 4, 1, 5, 3})
		time.Sleep(6 * time.Second)
		expect.Equal(t, "idle", counts(), [8]int{1, 1, 5, 0, 4, 1, 5, 3})
		expect.Equal(t, "Stopped", p.Stopped(), false)
		p.StopAndWait()
		expect.Equal(t, "stopped", counts(), [8]int{0, 0, 5, 0, 4, 1, 5, 3})
		expect.Equal(t, "Stopped", p.Stopped(), true)
		expect.Equal(t, "TrySubmit of a stopped pool", p.TrySubmit(func() {}), false)
	})
}

func TestOptionsOutOfRange(t *testing.T) {
	p := pond.New(0, -1, pond.MinWorkers(5), pond.IdleTimeout(-1), pond.Strategy(nil), nil)
	defer p.StopAndWait()
	expect.Equal(t, "MaxWorkers", p.MaxWorkers(), 1)
	expect.Equal(t, "MinWorkers", p.MinWorkers(), 1)
	expect.Equal(t, "MaxCapacity", p.MaxCapacity(), 0)
	expect.Equal(t, "Strategy", p.Strategy() != nil, true)
	big := pond.New(1<<30, 1<<30)
	expect.Equal(t, "MaxWorkers", big.MaxWorkers(), 1<<30)
	big.SubmitAndWait(func() {})
	big.StopAndWait()
}

func TestSubmitToAStoppedPoolPanics(t *testing.T) {
	p := pond.New(1, 1)
	g := p.Group()
	gc, _ := p.GroupContext(context.Background())
	p.StopAndWait()
	for name, f := range map[string]func(){
		"Submit":        func() { p.Submit(func() {}) },
		"SubmitAndWait": func() { p.SubmitAndWait(func() {}) },
		"SubmitBefore":  func() { p.SubmitBefore(func() {}, time.Hour) },
		"Group":         func() { g.Submit(func() {}) },
		"GroupContext":  func() { gc.Submit(func() error { return nil }) },
	} {
		expect.Equal(t, name, expect.Panic(f), any(pond.ErrSubmitOnStoppedPool))
	}
	expect.Equal(t, "Submit(nil)", expect.Panic(func() { p.Submit(nil) }), nil)
	g.Wait()
}

func TestSubmitBlocksWhileFull(t *testing.T) { // and SubmitBefore skips what is late
	synctest.Test(t, func(t *testing.T) {
		p := pond.New(1, 1)
		start := time.Now()
		for range 3 {
			p.Submit(func() { time.Sleep(time.Second) })
		}
		expect.Equal(t, "it took", time.Since(start), time.Second)
		var ran []int
		p.SubmitBefore(func() { ran = append(ran, 0) }, time.Hour)
		p.SubmitBefore(func() { ran = append(ran, 1) }, time.Millisecond)
		p.StopAndWait()
		if len(ran) != 1 || ran[0] != 0 {
			t.Errorf("ran %v", ran)
		}
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pond.New(2, 10)
		var ran atomic.Int32
		for range 5 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		ctx := p.Stop()
		if ctx.Err() != nil {
			t.Error("it has waited")
		}
		<-ctx.Done()
		expect.Equal(t, "error", ctx.Err(), context.Canceled)
		expect.Equal(t, "tasks that ran", ran.Load(), 2)
		<-p.Stop().Done() // once more
	})
}

// What a stop has dropped waits for ever, so that every task is in a counter.
func TestCountersOfWhatAStopHasDropped(t *testing.T) {
	for _, strategy := range []pond.ResizingStrategy{pond.Eager(), pond.Lazy(), bound(1)} {
		for name, end := range map[string]func(p *pond.WorkerPool, cancel func()){
			"Stop":           func(p *pond.WorkerPool, _ func()) { p.Stop() },
			"StopAndWaitFor": func(p *pond.WorkerPool, _ func()) { p.StopAndWaitFor(time.Millisecond) },
			"the context":    func(_ *pond.WorkerPool, cancel func()) { cancel() },
		} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				p := pond.New(1, 10, pond.Strategy(strategy), pond.Context(ctx), pond.PanicHandler(func(any) {}))
				p.Submit(func() { panic("so") })
				synctest.Wait()
				for range 5 {
					p.Submit(func() { time.Sleep(time.Second) })
				}
				counts := func(when string, want [5]uint64) {
					t.Helper()
					synctest.Wait()
					got := [5]uint64{uint64(p.RunningWorkers()), p.SubmittedTasks(), p.WaitingTasks(), p.SuccessfulTasks(), p.FailedTasks()}
					expect.Equal(t, name+": "+when, got, want)
				}
				counts("before", [5]uint64{1, 6, 4, 0, 1})
				end(p, cancel)
				counts("while a task runs", [5]uint64{1, 6, 4, 0, 1})
				p.StopAndWait()
				counts("stopped", [5]uint64{0, 6, 4, 1, 1})
				expect.Equal(t, "IdleWorkers", p.IdleWorkers(), 0)
			})
		}
	}
}

func TestStopOfAPoolThatAStrategyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pond.New(20, 10, pond.Strategy(bound(2)))
		var ran atomic.Int32
		for range 7 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		<-p.Stop().Done()
		expect.Equal(t, "tasks that ran", ran.Load(), 2)

		p = pond.New(20, 10, pond.Strategy(bound(2)))
		for range 7 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		p.StopAndWaitFor(1500 * time.Millisecond)
		p.StopAndWait()
		expect.Equal(t, "tasks that ran of both", ran.Load(), 2+4)
	})
}

func TestStopAndWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // H14: the bubble ends only when no goroutine is left
		p := pond.New(1, 10)
		var ran atomic.Int32
		for range 5 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		start := time.Now()
		p.StopAndWaitFor(2500 * time.Millisecond)
		expect.Equal(t, "it took", time.Since(start), 2500*time.Millisecond)
		p.StopAndWait()
		expect.Equal(t, "tasks that ran", ran.Load(), 3)
	})
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		p := pond.New(1, 1, pond.Context(ctx))
		var ran atomic.Int32
		for range 2 {
			p.Submit(func() { <-ctx.Done(); time.Sleep(time.Second); ran.Add(1) })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		for range 5 { // H13: it blocks for ever there
			p.Submit(func() { ran.Add(1) })
		}
		expect.Equal(t, "TrySubmit", p.TrySubmit(func() {}), false)
		p.SubmitAndWait(func() { ran.Add(1) })
		p.StopAndWait()
		expect.Equal(t, "tasks that ran", ran.Load(), 1)
	})
}

// What is queued when the context ends does not start, however fast the worker is.
func TestNoQueuedTaskStartsAfterTheEndOfTheContext(t *testing.T) {
	for range 500 {
		ctx, cancel := context.WithCancel(context.Background())
		p := pond.New(1, 5, pond.Context(ctx))
		var ran atomic.Int32
		task := func() { ran.Add(1); <-ctx.Done() }
		p.Submit(task)
		p.Submit(task)
		p.TrySubmit(task)
		g := p.Group()
		g.Submit(task)
		gc, _ := p.GroupContext(context.Background())
		gc.Submit(func() error { task(); return nil })
		cancel()
		g.Wait()
		if err := gc.Wait(); err != shoal.ErrDropped && err != context.Canceled { // the stop may come while it is being skipped
			t.Errorf("Wait of a group whose task was dropped: %v", err)
		}
		p.StopAndWait()
		expect.Equal(t, "tasks that ran", ran.Load(), 1)
		expect.Equal(t, "successful", p.SuccessfulTasks(), 1)
		expect.Equal(t, "completed", p.CompletedTasks(), 1)
		expect.Equal(t, "waiting", p.WaitingTasks(), p.SubmittedTasks()-1)
	}
}

func TestGroup(t *testing.T) {
	p := pond.New(3, 10, pond.PanicHandler(func(any) {}))
	var ran atomic.Int32
	g := p.Group()
	for i := range 20 {
		g.Submit(func() {
			ran.Add(1)
			switch i {
			case 3:
				panic("so")
			case 4:
				runtime.Goexit() // H1
			}
		})
	}
	g.Submit(nil)
	g.Wait()
	g.Wait()
	expect.Equal(t, "tasks that ran", ran.Load(), 20)
	expect.Equal(t, "failed", p.FailedTasks(), 2)
	p.StopAndWait()
}

func TestGroupContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pond.New(2, 10, pond.PanicHandler(func(any) {}))
		boom := errors.New("boom")
		g, ctx := p.GroupContext(context.Background())
		var ran atomic.Int32
		g.Submit(func() error { time.Sleep(time.Second); return boom })
		g.Submit(func() error { time.Sleep(time.Minute); return nil })
		for range 5 {
			g.Submit(func() error { ran.Add(1); return nil })
		}
		start := time.Now()
		expect.Equal(t, "Wait", g.Wait(), boom) // and not after the second task
		expect.Equal(t, "it took", time.Since(start), time.Second)
		expect.Equal(t, "the context", ctx.Err() != nil, true)
		g.Submit(func() error { ran.Add(1); return nil })
		expect.Equal(t, "Wait", g.Wait(), boom)
		time.Sleep(2 * time.Minute)
		expect.Equal(t, "tasks that ran after the error", ran.Load(), 0)

		g, ctx = p.GroupContext(context.Background())
		g.Submit(func() error { return nil })
		expect.Equal(t, "Wait", g.Wait(), nil)
		expect.Equal(t, "the context after Wait", ctx.Err(), context.Canceled)

		parent, cancel := context.WithCancel(context.Background())
		g, _ = p.GroupContext(parent)
		g.Submit(func() error { time.Sleep(time.Second); return nil })
		cancel()
		expect.Equal(t, "Wait", g.Wait(), context.Canceled)

		g, _ = p.GroupContext(context.Background())
		g.Submit(func() error { panic("so") }) // H15
		var e *shoal.PanicError
		if err := g.Wait(); !errors.As(err, &e) || e.Value != "so" {
			t.Errorf("Wait = %v", err)
		}
		expect.Equal(t, "GroupContext(nil)", expect.Panic(func() { p.GroupContext(nil) }) != nil, true) //lint:ignore SA1012 that is the point
		p.StopAndWait()
		expect.Equal(t, "failed", p.FailedTasks(), 1) // an error is no failure
	})
}

func TestTasksThatWaitForTasks(t *testing.T) { // H2
	for workers := 1; workers <= 3; workers++ {
		p := pond.New(workers, 2)
		var leaves atomic.Int32
		var tree func(depth int)
		tree = func(depth int) {
			if depth == 0 {
				leaves.Add(1)
				return
			}
			p.SubmitAndWait(func() { leaves.Add(1) })
			g := p.Group()
			g.Submit(func() { tree(depth - 1) })
			g.Submit(func() { tree(depth - 1) })
			g.Wait()
		}
		done := make(chan struct{})
		p.Submit(func() { tree(8); close(done) })
		<-done
		p.StopAndWait()
		expect.Equal(t, "leaves", leaves.Load(), 1<<9-1) // 1<<8 of the tree, and one of each inner task
	}
}

func TestStopWithTasksThatAreWaitedFor(t *testing.T) { // H12
	synctest.Test(t, func(t *testing.T) {
		p := pond.New(1, 10)
		p.Submit(func() { time.Sleep(time.Second) })
		g := p.Group()
		g.Submit(func() {})
		var wg sync.WaitGroup
		wg.Go(func() { p.SubmitAndWait(func() {}) })
		wg.Go(g.Wait)
		synctest.Wait()
		<-p.Stop().Done()
		wg.Wait()
	})
}

func TestGoexitAndThenStop(t *testing.T) { // H1
	p := pond.New(2, 10)
	for range 20 {
		p.Submit(runtime.Goexit)
	}
	p.SubmitAndWait(runtime.Goexit)
	p.StopAndWait()
	expect.Equal(t, "failed", p.FailedTasks(), 21)
}

func TestSubmitRacingAStop(t *testing.T) { // H3
	for range 200 {
		p := pond.New(2, 4)
		var accepted, ran atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if v := expect.Panic(func() { p.Submit(func() { ran.Add(1) }) }); v != nil {
						if v != pond.ErrSubmitOnStoppedPool {
							t.Errorf("panic: %v", v)
						}
						return
					}
					accepted.Add(1)
				}
			})
		}
		runtime.Gosched()
		p.StopAndWait()
		wg.Wait()
		expect.Equal(t, "tasks that ran", ran.Load(), accepted.Load())
	}
}

func TestThePresetsDelayAndDoNotDeny(t *testing.T) { // H16
	for name, strategy := range map[string]func() pond.ResizingStrategy{"Balanced": pond.Balanced, "Lazy": pond.Lazy} {
		synctest.Test(t, func(t *testing.T) {
			p := pond.New(100, 100, pond.Strategy(strategy()))
			release := make(chan struct{})
			for range 99 {
				p.Submit(func() { <-release })
			}
			synctest.Wait()
			ran := make(chan struct{})
			p.Submit(func() { close(ran) })
			<-ran // the others still run
			expect.Equal(t, name+": running", p.RunningWorkers(), 100)
			close(release)
			p.StopAndWait()
		})
	}
}

// A bound is a strategy that allows so many workers.
type bound int

func (b bound) Resize(running, min, max int) bool { return running < int(b) }

func TestAStrategyHoldsThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pond.New(20, 100, pond.Strategy(bound(3)), pond.MinWorkers(1))
		var at, most, ran atomic.Int32
		task := func() {
			n := at.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Second)
			at.Add(-1)
			ran.Add(1)
		}
		g := p.Group()
		gc, _ := p.GroupContext(context.Background())
		var wg sync.WaitGroup
		for range 6 {
			p.Submit(task)
			p.TrySubmit(task)
			p.SubmitBefore(task, time.Hour)
			g.Submit(task)
			gc.Submit(func() error { task(); return nil })
			wg.Go(func() { p.SubmitAndWait(task) })
		}
		synctest.Wait()
		expect.Equal(t, "running", p.RunningWorkers(), 3)
		expect.Equal(t, "idle", p.IdleWorkers(), 0)
		expect.Equal(t, "waiting", p.WaitingTasks(), 33)
		expect.Equal(t, "MaxWorkers", p.MaxWorkers(), 20)
		start := time.Now()
		wg.Wait()
		g.Wait()
		expect.Equal(t, "Wait", gc.Wait(), nil)
		time.Sleep(20*time.Second - time.Since(start)) // two workers have left
		expect.Equal(t, "running", p.RunningWorkers(), 1)
		for range 10 {
			p.Submit(task)
		}
		expect.Equal(t, "running", p.RunningWorkers(), 3)
		p.StopAndWait()
		expect.Equal(t, "tasks that ran", ran.Load(), 46)
		expect.Equal(t, "at once", most.Load(), 3)
	})
}

func TestAStrategyBoundsTheRoom(t *testing.T) { // as it bounds the workers that tasks are handed to
	p := pond.New(20, 1, pond.Strategy(bound(2)))
	release := make(chan struct{})
	for i, want := range []bool{true, true, true, false} {
		if got := p.TrySubmit(func() { <-release }); got != want {
			t.Errorf("TrySubmit %d: %v", i, got)
		}
	}
	close(release)
	p.StopAndWait()
}

func TestAStrategyIsAskedForTheMinimum(t *testing.T) {
	p := pond.New(20, 10, pond.Strategy(bound(2)), pond.MinWorkers(5))
	expect.Equal(t, "MinWorkers", p.MinWorkers(), 5)
	expect.Equal(t, "running", p.RunningWorkers(), 2)
	p.StopAndWait()
	p = pond.New(20, 10, pond.Strategy(bound(0)))
	p.SubmitAndWait(func() {}) // the first worker is there whatever the strategy says
	p.StopAndWait()
}

// A strategy that says yes each time is asked for each of the tasks that come at
// once, so that none of them is without a worker.
func TestTasksThatComeAtOnceEachHaveAWorker(t *testing.T) {
	const workers = 50
	for range 20 {
		p := pond.New(workers, 100, pond.Strategy(bound(workers)))
		var started, wg sync.WaitGroup
		started.Add(workers)
		g := p.Group()
		task := func() { started.Done(); started.Wait() }
		for i := range workers {
			wg.Go(func() {
				switch i % 3 {
				case 0:
					p.Submit(task)
				case 1:
					p.SubmitAndWait(task)
				case 2:
					g.Submit(task)
				}
			})
		}
		wg.Wait()
		g.Wait()
		p.StopAndWait()
	}
}

func TestTasksThatAreWaitedForReachThePanicHandler(t *testing.T) {
	var got []any
	p := pond.New(1, 10, pond.PanicHandler(func(v any) { got = append(got, v) }))
	p.SubmitAndWait(func() { panic(1) })
	g := p.Group()
	g.Submit(func() { panic(2) })
	g.Wait()
	gc, _ := p.GroupContext(context.Background())
	gc.Submit(func() error { panic(3) })
	gc.Wait()
	p.StopAndWait()
	if len(got) != 3 || got[0] != 1 || got[1] != 2 || got[2] != 3 {
		t.Errorf("the handler got %v", got)
	}
}

func TestRatedResizer(t *testing.T) {
	r := pond.RatedResizer(3)
	var got []bool
	for range 7 {
		got = append(got, r.Resize(1, 0, 10))
	}
	for i, want := range []bool{true, false, false, true, false, false, true} {
		expect.Equal(t, "answer", got[i], want)
	}
	expect.Equal(t, "without workers", r.Resize(0, 0, 10), true)
	expect.Equal(t, "rate 0", pond.RatedResizer(0).Resize(5, 0, 10), true)
}

func TestIdleWorkersLeaveByAge(t *testing.T) { // H17
	synctest.Test(t, func(t *testing.T) {
		p := pond.New(100, 0, pond.IdleTimeout(time.Second))
		for range 100 {
			p.Submit(func() { time.Sleep(time.Second) })
		}
		expect.Equal(t, "running", p.RunningWorkers(), 100)
		time.Sleep(2500 * time.Millisecond)
		expect.Equal(t, "running after the timeout", p.RunningWorkers(), 0)
		p.StopAndWait()
		p = pond.New(1, 0, pond.IdleTimeout(0))
		p.SubmitAndWait(func() {})
		p.StopAndWait()
	})
}

func TestATaskStopsItsPool(t *testing.T) { // H30
	p := pond.New(1, 1)
	both := make(chan struct{}) // a stopped pool refuses with a panic
	p.Submit(func() { <-both; p.StopAndWait() })
	p.Submit(func() {})
	close(both)
	p.StopAndWait()
}

func TestTheContextEndsWhileAStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		p := pond.New(1, 100, pond.Context(ctx))
		var ran atomic.Int32
		for range 20 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		p.StopAndWait()
		expect.Equal(t, "tasks that ran", ran.Load(), 3)
	})
}

func TestATaskStopsItsPoolNow(t *testing.T) {
	for name, stop := range map[string]func(p *pond.WorkerPool){
		"Stop":           func(p *pond.WorkerPool) { p.Stop() },
		"StopAndWaitFor": func(p *pond.WorkerPool) { p.StopAndWaitFor(time.Millisecond) },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := pond.New(1, 100)
			var ran atomic.Int32
			full := make(chan struct{})
			p.Submit(func() { <-full; stop(p); time.Sleep(time.Second) })
			for range 20 {
				p.Submit(func() { ran.Add(1) })
			}
			close(full)
			p.StopAndWait()
			expect.Equal(t, name+": tasks that ran after it", ran.Load(), 0)
		})
	}
}

// An endless context counts what waits for its end.
type endless struct {
	context.Context
	done  chan struct{}
	waits atomic.Int32
}

func (c *endless) Done() <-chan struct{} { return c.done }

// AfterFunc is what package context calls for a context that is not its own.
func (c *endless) AfterFunc(func()) (stop func() bool) {
	c.waits.Add(1)
	return func() bool { c.waits.Add(-1); return true }
}

// The context of a pool, which may live for as long as the program, keeps no pool that has ended.
func TestTheContextLetsGoOfAPoolThatHasEnded(t *testing.T) {
	for name, stop := range map[string]func(p *pond.WorkerPool){
		"Stop":                       func(p *pond.WorkerPool) { p.Stop() },
		"StopAndWait":                func(p *pond.WorkerPool) { p.StopAndWait() },
		"StopAndWaitFor long enough": func(p *pond.WorkerPool) { p.StopAndWaitFor(time.Hour) },
		"StopAndWaitFor too short":   func(p *pond.WorkerPool) { p.StopAndWaitFor(time.Millisecond) },
	} {
		for _, inTask := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", in a task: ", inTask), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := &endless{Context: context.Background(), done: make(chan struct{})}
					p := pond.New(1, 10, pond.Context(ctx))
					for i := range 5 {
						p.Submit(func() {
							time.Sleep(time.Second)
							if inTask && i == 0 {
								stop(p)
							}
						})
					}
					expect.Equal(t, "pools that wait for the context", ctx.waits.Load(), 1)
					if !inTask {
						stop(p)
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					expect.Equal(t, "pools that still wait for the context", ctx.waits.Load(), 0)
				})
			})
		}
	}
}

func TestTheContextEndsAfterATaskHasStoppedItsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer cancel()
		p := pond.New(1, 100, pond.Context(ctx))
		var ran atomic.Int32
		for i := range 20 {
			p.Submit(func() {
				time.Sleep(time.Second)
				if ran.Add(1); i == 0 {
					p.StopAndWait()
				}
			})
		}
		time.Sleep(time.Minute)
		expect.Equal(t, "tasks that ran", ran.Load(), 3)
	})
}

func TestStopAndWaitForNoTime(t *testing.T) { // a task that found a worker free runs
	for range 50 {
		p := pond.New(4, 10)
		var ran atomic.Int32
		for range 4 {
			p.Submit(func() { ran.Add(1) })
		}
		p.StopAndWaitFor(0)
		p.StopAndWait()
		expect.Equal(t, "tasks that ran", ran.Load(), 4)
	}
}

func TestGroupWhoseContextHasEndedFails(t *testing.T) {
	p := pond.New(2, 10)
	defer p.StopAndWait()
	for _, submitted := range []int{0, 1} {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		g, _ := p.GroupContext(ctx)
		for range submitted {
			g.Submit(func() error { return nil })
		}
		if err := g.Wait(); err != context.Canceled {
			t.Errorf("Wait of a group of a context that has ended, %d submitted: %v", submitted, err)
		}
	}
}

// TestGroupOfThePoolsContext: the end of the context stops the pool, which drops tasks of the group.
func TestGroupOfThePoolsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		p := pond.New(1, 10, pond.Context(ctx))
		defer p.StopAndWait()
		g, _ := p.GroupContext(ctx)
		for range 2 {
			g.Submit(func() error { time.Sleep(time.Second); return nil })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		expect.Equal(t, "tasks that wait", p.WaitingTasks(), 1) // dropped
		expect.Equal(t, "Wait", g.Wait(), context.Canceled)
	})
}

func TestCountersOfSubmittersThatWait(t *testing.T) {
	p := pond.New(1, 0)
	release := make(chan struct{})
	p.Submit(func() { <-release })
	done := make(chan struct{})
	go func() { p.Submit(func() {}); close(done) }()
	for p.WaitingTasks() != 1 || p.SubmittedTasks() != 2 {
		runtime.Gosched()
	}
	close(release)
	<-done
	p.StopAndWait()
	if n := p.SubmittedTasks(); n != 2 {
		t.Errorf("%d submitted, want 2", n)
	}
}

func TestNothingIsAcceptedOnceStopped(t *testing.T) {
	for range 20 {
		p := pond.New(64, 1000, pond.Strategy(pond.Eager()))
		var ran, accepted atomic.Int64
		task := func() { ran.Add(1); time.Sleep(time.Millisecond) }
		for range 200 {
			p.Submit(task)
		}
		go p.Stop()
		for !p.Stopped() {
			runtime.Gosched()
		}
		if p.TrySubmit(func() {}) {
			accepted.Add(1)
		}
		func() {
			defer func() { recover() }()
			p.Submit(func() {})
			accepted.Add(1)
		}()
		p.StopAndWait()
		if accepted.Load() > 0 {
			t.Fatalf("%d accepted by a pool that says that it is stopped", accepted.Load())
		}
	}
}

func TestStopDropsNoTaskThatHadAWorker(t *testing.T) {
	const workers = 500
	p := pond.New(workers, 0)
	var ran atomic.Int64
	for range workers {
		p.Submit(func() {
			ran.Add(1)
			for start := time.Now(); time.Since(start) < 200*time.Microsecond; {
			}
		})
	}
	<-p.Stop().Done()
	if n := ran.Load(); n != workers {
		t.Errorf("%d of %d tasks ran, each of which had a worker", n, workers)
	}
}

// Eager's workers are started one after the other where all CPUs are busy. To those
// who count each task has its worker at once, as in pond.
func TestEagerCountsAsIfTheWorkersWereThere(t *testing.T) {
	const workers, queued = 40, 3
	p := pond.New(workers, queued)
	var stop atomic.Bool
	task := func() {
		for !stop.Load() {
			runtime.Gosched()
		}
	}
	counts := func(when string, running, idle int, waiting uint64) {
		t.Helper()
		if r, i, w := p.RunningWorkers(), p.IdleWorkers(), p.WaitingTasks(); r != running || i != idle || w != waiting {
			t.Errorf("%s: %d running, %d idle, %d waiting; want %d, %d, %d", when, r, i, w, running, idle, waiting)
		}
	}
	counts("new", 0, 0, 0)
	for i := range workers {
		p.Submit(task)
		counts("computing", i+1, 0, 0)
	}
	for i := range uint64(queued) {
		p.Submit(task)
		counts("full", workers, 0, i+1)
	}
	stop.Store(true)
	p.StopAndWait()
	counts("stopped", 0, 0, 0)
}

// A stop that cannot know yet which tasks have no worker refuses what comes, all the same.
func TestStopWhileWorkersAreOnTheirWay(t *testing.T) {
	for name, end := range map[string]func(p *pond.WorkerPool, cancel func()){
		"Stop":           func(p *pond.WorkerPool, _ func()) { p.Stop() },
		"StopAndWaitFor": func(p *pond.WorkerPool, _ func()) { p.StopAndWaitFor(time.Nanosecond) },
		"the context":    func(p *pond.WorkerPool, cancel func()) { cancel(); p.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			const workers = 100
			p := pond.New(workers, 10, pond.Context(ctx))
			var stop atomic.Bool
			var ran atomic.Int64
			for range workers {
				p.Submit(func() {
					for ran.Add(1); !stop.Load(); {
						runtime.Gosched()
					}
				})
			}
			end(p, cancel)
			if p.TrySubmit(func() {}) {
				t.Error("TrySubmit after the stop")
			}
			stop.Store(true)
			<-p.Stop().Done()
			if n := ran.Load(); n != workers {
				t.Errorf("%d of %d tasks ran, each of which had a worker", n, workers)
			}
		})
	}
}

func TestPanicHandlerThatPanicsEndsTheProcess(t *testing.T) {
	expect.Crash(t, "shoal: task panicked: so; the panic handler panicked: the handler too", func() {
		p := pond.New(1, 10, pond.PanicHandler(func(any) { panic("the handler too") }))
		p.Submit(func() { panic("so") })
		p.Submit(func() { os.Exit(0) }) // the worker goes on
		select {}
	})
}

type countingStrategy struct{ asked *atomic.Int32 }

func (s countingStrategy) Resize(int, int, int) bool { s.asked.Add(1); return false }

// TestAStrategyIsNotAskedWhileAWorkerIsIdle: also after a task that ran in another one, because the queue was full,
// has called Goexit.
func TestAStrategyIsNotAskedWhileAWorkerIsIdle(t *testing.T) {
	var asked atomic.Int32
	p := pond.New(2, 1, pond.Strategy(countingStrategy{&asked}))
	began, gate := make(chan struct{}), make(chan struct{})
	p.Submit(func() {
		close(began)
		<-gate
		p.Submit(runtime.Goexit)
	})
	<-began
	p.Submit(func() {})
	close(gate)
	for p.IdleWorkers() != 1 || p.WaitingTasks() != 0 || p.CompletedTasks() < 2 {
		runtime.Gosched()
	}
	before := asked.Load()
	p.SubmitAndWait(func() {})
	if n := asked.Load() - before; n != 0 {
		t.Errorf("asked %d times though a worker was idle", n)
	}
	p.StopAndWait()
}

// An endedContext has ended once it is set, and does not say when: so the pool is not stopped.
type endedContext struct {
	context.Context
	set *atomic.Bool
}

func (c endedContext) Err() error {
	if c.set.Load() {
		return context.Canceled
	}
	return nil
}

// TestASkippedTaskCountsOnce: it is not taken for one that is queued too.
func TestASkippedTaskCountsOnce(t *testing.T) {
	const tasks = 10_000
	c := endedContext{context.Background(), new(atomic.Bool)}
	p := pond.New(1, tasks, pond.Context(c))
	gate := make(chan struct{})
	p.Submit(func() { <-gate })
	for range tasks {
		p.Submit(func() {})
	}
	c.set.Store(true)
	close(gate)
	for p.IdleWorkers() == 0 {
		if n := p.WaitingTasks(); n > tasks {
			t.Fatalf("%d tasks wait, and there are %d", n, tasks)
		}
	}
	if n := p.WaitingTasks(); n != tasks {
		t.Errorf("%d tasks have not started, want %d", n, tasks)
	}
	p.StopAndWait()
}

// TestCompletedTasksDoesNotGoBack while tasks are skipped because the context has ended.
func TestCompletedTasksDoesNotGoBack(t *testing.T) {
	const before, skipped = 100, 20_000
	for range 20 {
		c := endedContext{context.Background(), new(atomic.Bool)}
		p := pond.New(1, 2*skipped, pond.Context(c))
		for range before - 1 {
			p.SubmitAndWait(func() {})
		}
		began, gate := make(chan struct{}), make(chan struct{})
		p.Submit(func() { close(began); <-gate })
		<-began
		for range skipped {
			p.Submit(func() {})
		}
		c.set.Store(true)
		most := p.CompletedTasks()
		close(gate)
		for p.IdleWorkers() == 0 {
			n := p.CompletedTasks()
			if n < most {
				t.Fatalf("CompletedTasks is %d, and was %d before", n, most)
			}
			most = n
		}
		if n := p.CompletedTasks(); n != before {
			t.Errorf("CompletedTasks is %d at the end, want %d", n, before)
		}
		p.StopAndWait()
	}
}

// A switchedStrategy says what yes is, and counts how often it is asked.
type switchedStrategy struct {
	yes   *atomic.Bool
	asked *atomic.Int32
}

func (s switchedStrategy) Resize(int, int, int) bool { s.asked.Add(1); return s.yes.Load() }

// TestAStrategyIsNotAskedWhileATaskRunsInAnother, because the queue was full, and a worker is idle: the task
// counts once.
func TestAStrategyIsNotAskedWhileATaskRunsInAnother(t *testing.T) {
	s := switchedStrategy{new(atomic.Bool), new(atomic.Int32)}
	s.yes.Store(true)
	p := pond.New(10, 1, pond.Strategy(s))
	submits, inner, others := make(chan struct{}), make(chan struct{}), make(chan struct{})
	innerBegan := make(chan struct{})
	hold := func(f func()) {
		began := make(chan struct{})
		p.Submit(func() { close(began); f() })
		<-began
	}
	hold(func() {
		<-submits
		p.Submit(func() { close(innerBegan); <-inner }) // the queue is full
	})
	hold(func() { <-others })
	hold(func() { <-others })
	s.yes.Store(false)
	p.Submit(func() {}) // fills the queue
	close(submits)
	<-innerBegan
	close(others)
	for p.CompletedTasks() != 3 {
		runtime.Gosched()
	}
	if n := p.IdleWorkers(); n < 1 {
		t.Errorf("%d idle workers, want 1 at least", n)
	}
	s.asked.Store(0)
	done := make(chan struct{})
	p.Submit(func() { close(done) })
	if n := s.asked.Load(); n != 0 {
		t.Errorf("asked %d times though a worker was idle", n)
	}
	<-done
	close(inner)
	p.StopAndWait()
}

// TestATaskThatIsGrantedAWorkerIsNotSkipped, though the context ends before the worker comes.
func TestATaskThatIsGrantedAWorkerIsNotSkipped(t *testing.T) {
	s := switchedStrategy{new(atomic.Bool), new(atomic.Int32)}
	s.yes.Store(true)
	for range 100 {
		c := endedContext{context.Background(), new(atomic.Bool)}
		p := pond.New(10, 10, pond.Strategy(s), pond.Context(c))
		gate, began := make(chan struct{}), make(chan struct{})
		p.Submit(func() { close(began); <-gate })
		<-began
		var ran atomic.Bool
		p.Submit(func() { ran.Store(true) })
		c.set.Store(true)
		close(gate)
		p.StopAndWait()
		if !ran.Load() {
			t.Fatal("it was skipped")
		}
	}
}
