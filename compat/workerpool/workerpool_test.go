package workerpool_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/compat/internal/expect"
	"github.com/shoal-go/shoal/compat/workerpool"
)

// Every exported name of gammazero/workerpool v1.3, with its type.
var (
	_ time.Duration                                          = workerpool.DefaultIdleTimeout
	_ error                                                  = workerpool.ErrStopped
	_ func(time.Duration) workerpool.Option                  = workerpool.WithIdleTimeout
	_ func(int, ...workerpool.Option) *workerpool.WorkerPool = workerpool.New
	_ interface {
		Do(func()) error
		DoWait(func()) error
		Pause(context.Context)
		Size() int
		Stop()
		StopWait()
		Stopped() bool
		Submit(func())
		SubmitWait(func())
		WaitingQueueSize() int
	} = (*workerpool.WorkerPool)(nil)
)

// Its documented example.
func Example() {
	wp := workerpool.New(2)
	requests := []string{"alpha", "beta", "gamma", "delta", "epsilon"}
	for _, r := range requests {
		wp.Submit(func() {
			fmt.Println("Handling request:", r)
		})
	}
	wp.StopWait()
	// Unordered output:
	// Handling request: alpha
	// Handling request: beta
	// Handling request: gamma
	// Handling request: delta
	// Handling request: epsilon
}

func TestQueueAndStopWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := workerpool.New(3)
		expect.Equal(t, "Size", p.Size(), 3)
		var running, most, ran atomic.Int32
		for range 10 {
			p.Submit(func() {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				ran.Add(1)
			})
		}
		p.Submit(nil)
		expect.Equal(t, "Do(nil)", p.Do(nil), nil)
		expect.Equal(t, "DoWait(nil)", p.DoWait(nil), nil)
		expect.Equal(t, "WaitingQueueSize", p.WaitingQueueSize(), 7)
		start := time.Now()
		p.StopWait()
		expect.Equal(t, "it took", time.Since(start), 4*time.Second)
		expect.Equal(t, "tasks that ran", ran.Load(), 10)
		expect.Equal(t, "at once", most.Load(), 3)
		expect.Equal(t, "Stopped", p.Stopped(), true)
		expect.Equal(t, "Do", p.Do(func() {}), workerpool.ErrStopped)
		expect.Equal(t, "DoWait", p.DoWait(func() {}), workerpool.ErrStopped)
		expect.Equal(t, "Submit", expect.Panic(func() { p.Submit(func() {}) }), any(workerpool.ErrStopped))
		expect.Equal(t, "SubmitWait", expect.Panic(func() { p.SubmitWait(func() {}) }), any(workerpool.ErrStopped))
		p.Stop()
		p.StopWait()
	})
}

func TestStopAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := workerpool.New(1)
		var ran atomic.Int32
		for range 5 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		waited := make(chan error, 1)
		go func() { waited <- p.DoWait(func() {}) }()
		synctest.Wait()
		p.Stop()
		expect.Equal(t, "tasks that ran", ran.Load(), 1)
		expect.Equal(t, "WaitingQueueSize", p.WaitingQueueSize(), 5)
		expect.Equal(t, "DoWait", <-waited, workerpool.ErrStopped)
	})
}

func TestTheFirstStopDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := workerpool.New(1)
		var ran atomic.Int32
		for range 5 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		var wg sync.WaitGroup
		wg.Go(p.StopWait)
		synctest.Wait()
		p.Stop()
		expect.Equal(t, "tasks that ran", ran.Load(), 5)
		wg.Wait()
	})
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := workerpool.New(3)
		var ran atomic.Int32
		for range 4 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		ctx, cancel := context.WithCancel(context.Background())
		p.Pause(ctx)
		expect.Equal(t, "tasks that ran before", ran.Load(), 4)
		p.Submit(func() { ran.Add(1) })
		time.Sleep(time.Hour)
		expect.Equal(t, "tasks that ran meanwhile", ran.Load(), 4)
		second, cancelSecond := context.WithCancel(context.Background())
		paused := make(chan struct{})
		go func() { p.Pause(second); close(paused) }()
		synctest.Wait()
		select {
		case <-paused:
			t.Error("the second Pause did not wait for the end of the first")
		default:
		}
		cancel()
		<-paused
		expect.Equal(t, "tasks that ran between", ran.Load(), 5)
		p.Submit(func() { ran.Add(1) })
		p.StopWait() // a stop ends a pause
		expect.Equal(t, "tasks that ran", ran.Load(), 6)
		cancelSecond()
		p.Pause(context.Background()) // of a stopped pool it returns
	})
}

func TestStopWhilePauseWaits(t *testing.T) {
	for _, stop := range []func(*workerpool.WorkerPool){(*workerpool.WorkerPool).Stop, (*workerpool.WorkerPool).StopWait} {
		synctest.Test(t, func(t *testing.T) {
			p := workerpool.New(2)
			p.Submit(func() { time.Sleep(time.Second) })
			var wg sync.WaitGroup
			wg.Go(func() { p.Pause(context.Background()) })
			synctest.Wait()
			stop(p)
			wg.Wait()
		})
	}
}

func TestIdleWorkersLeave(t *testing.T) { // H17, H23
	synctest.Test(t, func(t *testing.T) {
		p := workerpool.New(20, workerpool.WithIdleTimeout(time.Second))
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(context.Background())
		p.Pause(ctx)
		cancel()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		expect.AtMost(t, "goroutines of an idle pool", before)
		p.SubmitWait(func() {})
		p.StopWait()
	})
	synctest.Test(t, func(t *testing.T) {
		p := workerpool.New(1, workerpool.WithIdleTimeout(-1), nil)
		before := runtime.NumGoroutine()
		p.SubmitWait(func() {})
		time.Sleep(time.Hour)
		expect.AtMost(t, "goroutines", before+1)
		p.Stop()
	})
}

func TestGoexit(t *testing.T) { // H1
	p := workerpool.New(2)
	var ran atomic.Int32
	for range 20 {
		p.Submit(runtime.Goexit)
		p.Submit(func() { ran.Add(1) })
	}
	expect.Equal(t, "DoWait", p.DoWait(runtime.Goexit), nil)
	p.StopWait()
	expect.Equal(t, "tasks that ran", ran.Load(), 20)
}

func TestTasksThatWaitForTasks(t *testing.T) { // H2
	p := workerpool.New(1)
	n := 0
	var nest func(depth int)
	nest = func(depth int) {
		if n++; depth > 0 {
			p.SubmitWait(func() { nest(depth - 1) })
		}
	}
	p.SubmitWait(func() { nest(15) })
	expect.Equal(t, "depth", n, 16)
	p.SubmitWait(p.StopWait) // H30
	p.StopWait()
}

func TestDoRacingAStop(t *testing.T) { // H3
	for i := range 200 {
		p := workerpool.New(2)
		var accepted, ran atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 1000 { // the queue has no bound
					if p.Do(func() { ran.Add(1) }) != nil {
						return
					}
					accepted.Add(1)
				}
			})
		}
		runtime.Gosched()
		if i%2 == 0 {
			p.StopWait()
			wg.Wait()
			expect.Equal(t, "tasks that ran", ran.Load(), accepted.Load())
		} else {
			p.Stop()
			wg.Wait()
			expect.Equal(t, "tasks that ran or were abandoned", int(ran.Load())+p.WaitingQueueSize(), int(accepted.Load()))
		}
	}
}

func TestAPanicCrashesTheProgram(t *testing.T) {
	expect.Crash(t, "as documented", func() {
		workerpool.New(1).SubmitWait(func() { panic("as documented") })
	})
}
