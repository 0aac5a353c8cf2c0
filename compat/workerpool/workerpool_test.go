package workerpool_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

func panics(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

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
	bubble(t, func(t *testing.T) {
		p := workerpool.New(3)
		equal(t, "Size", p.Size(), 3)
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
		equal(t, "Do(nil)", p.Do(nil), nil)
		equal(t, "DoWait(nil)", p.DoWait(nil), nil)
		equal(t, "WaitingQueueSize", p.WaitingQueueSize(), 7)
		start := time.Now()
		p.StopWait()
		equal(t, "it took", time.Since(start), 4*time.Second)
		equal(t, "tasks that ran", ran.Load(), 10)
		equal(t, "at once", most.Load(), 3)
		equal(t, "Stopped", p.Stopped(), true)
		equal(t, "Do", p.Do(func() {}), workerpool.ErrStopped)
		equal(t, "DoWait", p.DoWait(func() {}), workerpool.ErrStopped)
		equal(t, "Submit", panics(func() { p.Submit(func() {}) }), any(workerpool.ErrStopped))
		equal(t, "SubmitWait", panics(func() { p.SubmitWait(func() {}) }), any(workerpool.ErrStopped))
		p.Stop()
		p.StopWait()
	})
}

func TestStopAbandons(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := workerpool.New(1)
		var ran atomic.Int32
		for range 5 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		waited := make(chan error, 1)
		go func() { waited <- p.DoWait(func() {}) }()
		synctest.Wait()
		p.Stop()
		equal(t, "tasks that ran", ran.Load(), 1)
		equal(t, "WaitingQueueSize", p.WaitingQueueSize(), 5)
		equal(t, "DoWait", <-waited, workerpool.ErrStopped)
	})
}

func TestTheFirstStopDecides(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := workerpool.New(1)
		var ran atomic.Int32
		for range 5 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		var wg sync.WaitGroup
		wg.Go(p.StopWait)
		synctest.Wait()
		p.Stop()
		equal(t, "tasks that ran", ran.Load(), 5)
		wg.Wait()
	})
}

func TestPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := workerpool.New(3)
		var ran atomic.Int32
		for range 4 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		ctx, cancel := context.WithCancel(context.Background())
		p.Pause(ctx)
		equal(t, "tasks that ran before", ran.Load(), 4)
		p.Submit(func() { ran.Add(1) })
		time.Sleep(time.Hour)
		equal(t, "tasks that ran meanwhile", ran.Load(), 4)
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
		equal(t, "tasks that ran between", ran.Load(), 5)
		p.Submit(func() { ran.Add(1) })
		p.StopWait() // a stop ends a pause
		equal(t, "tasks that ran", ran.Load(), 6)
		cancelSecond()
		p.Pause(context.Background()) // of a stopped pool it returns
	})
}

func TestStopWhilePauseWaits(t *testing.T) {
	for _, stop := range []func(*workerpool.WorkerPool){(*workerpool.WorkerPool).Stop, (*workerpool.WorkerPool).StopWait} {
		bubble(t, func(t *testing.T) {
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
	bubble(t, func(t *testing.T) {
		p := workerpool.New(20, workerpool.WithIdleTimeout(time.Second))
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(context.Background())
		p.Pause(ctx)
		cancel()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		atMost(t, "goroutines of an idle pool", before)
		p.SubmitWait(func() {})
		p.StopWait()
	})
	bubble(t, func(t *testing.T) {
		p := workerpool.New(1, workerpool.WithIdleTimeout(-1), nil)
		before := runtime.NumGoroutine()
		p.SubmitWait(func() {})
		time.Sleep(time.Hour)
		atMost(t, "goroutines", before+1)
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
	equal(t, "DoWait", p.DoWait(runtime.Goexit), nil)
	p.StopWait()
	equal(t, "tasks that ran", ran.Load(), 20)
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
	equal(t, "depth", n, 16)
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
			equal(t, "tasks that ran", ran.Load(), accepted.Load())
		} else {
			p.Stop()
			wg.Wait()
			equal(t, "tasks that ran or were abandoned", int(ran.Load())+p.WaitingQueueSize(), int(accepted.Load()))
		}
	}
}

func TestAPanicCrashesTheProgram(t *testing.T) {
	if os.Getenv("CRASH") != "" {
		workerpool.New(1).SubmitWait(func() { panic("as documented") })
		os.Exit(0)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestAPanicCrashesTheProgram$")
	c.Env = append(os.Environ(), "CRASH=1")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: as documented") {
		t.Errorf("%v\n%s", err, out)
	}
}
