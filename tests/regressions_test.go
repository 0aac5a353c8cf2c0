package tests

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// What broke in other pools, as tests of this one. Each names where it was
// found. Those that concern only groups, streams or futures are not here.

func TestRegressions(t *testing.T) {
	noLog(t)
	for _, r := range regressions {
		t.Run(r.name, func(t *testing.T) {
			if r.bubble {
				inBubble(t, r.run)
			} else {
				r.run(t)
			}
		})
	}
}

// rounds is how often a race is provoked.
func rounds(n int) int { return testpool.Reps(n, max(1, n/10), max(1, n/10)) }

// submitN submits n tasks that must be accepted and returns how many have run.
func submitN(t *testing.T, p *shoal.Pool, n int) *atomic.Int64 {
	t.Helper()
	var ran atomic.Int64
	for range n {
		if err := p.Submit(func() { ran.Add(1) }); err != nil {
			t.Errorf("Submit: %v", err)
		}
	}
	return &ran
}

var regressions = []struct {
	name   string // the number in our list, and where it was
	bubble bool   // in a testing/synctest bubble: "never ends" is then a failure, not a time-out
	run    func(t *testing.T)
}{
	// ----- lost wake-ups and stalls -----

	{"01 alitto/pond#33, the idle worker retires between a look and a push", true, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithIdleTimeout(time.Millisecond))
		for i := range 200 {
			submitN(t, p, 2)
			p.Wait()
			time.Sleep(time.Millisecond - time.Duration(i%3)*time.Microsecond)
		}
		shutClean(t, p)
	}},
	{"02 alitto/pond#108, a small queue and many workers stop accepting", false, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(100), shoal.WithQueueCapacity(5))
		for range rounds(200) {
			ran := submitN(t, p, 300)
			p.Wait()
			if ran.Load() != 300 {
				t.Fatalf("%d of 300 ran", ran.Load())
			}
		}
		shutClean(t, p)
	}},
	{"03 alitto/pond PR#115, two submitters wait, both tasks are released", true, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		gates := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		for _, gate := range gates { // one runs, one waits
			if err := p.Submit(func() { <-gate }); err != nil {
				t.Fatal(err)
			}
		}
		a, b := inBackground(func() { submitN(t, p, 1) }), inBackground(func() { submitN(t, p, 1) })
		synctest.Wait()
		close(gates[0])
		close(gates[1])
		<-a
		<-b
		p.Wait()
		if n := p.Stats().Completed; n != 4 {
			t.Errorf("%d of 4 ran", n)
		}
		shutClean(t, p)
	}},
	{"04 alitto/pond PR#83, a queue of one used again and again", true, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		for range 50 {
			ran := submitN(t, p, 2)
			p.Wait()
			if ran.Load() != 2 {
				t.Fatalf("%d of 2 ran", ran.Load())
			}
		}
		shutClean(t, p)
	}},
	{"05 alitto/pond#74, the worker is there before its task", false, func(t *testing.T) {
		for range rounds(400) {
			p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithIdleTimeout(0))
			ran := submitN(t, p, 1)
			shutClean(t, p)
			if ran.Load() != 1 {
				t.Fatal("the task did not run")
			}
		}
	}},
	{"06 panjf2000/ants#146, #147, after a panic the next task waits for a timer", true, func(t *testing.T) {
		start := time.Now()
		p := newPool(t, shoal.WithMaxWorkers(1))
		for range 5 {
			if err := p.Submit(func() { panic("on purpose") }); err != nil {
				t.Fatal(err)
			}
		}
		p.Wait()
		if d := time.Since(start); d != 0 {
			t.Errorf("five tasks took %v", d)
		}
		shutClean(t, p)
	}},
	{"07 panjf2000/ants#205, a larger size does not wake who waits", true, func(t *testing.T) {
		p := newPool(t, fixed(2, shoal.WithQueueCapacity(0))...)
		release := hold(t, p, 2)
		third := inBackground(func() { submitN(t, p, 1) })
		synctest.Wait()
		if isClosed(third) {
			t.Error("the third was accepted by two busy workers")
		}
		if err := p.Resize(2, 3); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !isClosed(third) {
			t.Error("the third still waits")
		}
		release()
		shutClean(t, p)
	}},
	{"08 panjf2000/ants#272, the last worker is purged as somebody comes to wait", true, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithIdleTimeout(10*time.Millisecond))
		for range 200 {
			a := inBackground(func() { submitN(t, p, 1) })
			b := inBackground(func() { submitN(t, p, 1) })
			<-a
			<-b
			p.Wait()
			time.Sleep(10 * time.Millisecond) // the moment of the timeout
		}
		shutClean(t, p)
	}},
	{"09 panjf2000/ants#50, a worker that leaves over the size stays counted", true, func(t *testing.T) {
		p := newPool(t, fixed(4)...)
		for range 20 {
			release := hold(t, p, 4)
			if err := p.Resize(0, 1); err != nil {
				t.Fatal(err)
			}
			release()
			p.Wait()
			synctest.Wait()
			if n := p.Stats().Workers; n > 1 {
				t.Fatalf("%d workers, of 1", n)
			}
			if err := p.Resize(4, 4); err != nil {
				t.Fatal(err)
			}
		}
		shutClean(t, p)
	}},
	{"10 tokio-rs/tokio#525, the worker goes to sleep unseen", false, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2))
		done := make(chan struct{}, 1)
		for range rounds(100_000) {
			if err := p.Submit(func() { done <- struct{}{} }); err != nil {
				t.Fatal(err)
			}
			<-done // no time-out anywhere
		}
		shutClean(t, p)
	}},
	{"11 openziti/foundation#391, #452, no workers and a queue that is not empty", false, func(t *testing.T) {
		for _, least := range []int{0, 1} {
			p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithMinWorkers(least), shoal.WithIdleTimeout(0))
			for range rounds(20_000) {
				ran := submitN(t, p, 1)
				p.Wait()
				if ran.Load() != 1 {
					t.Fatal("the task did not run")
				}
			}
			shutClean(t, p)
		}
	}},
	{"12 golang/go#37852, who waits behind a cancelled one is not woken", true, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		release := hold(t, p, 1)
		ctx, cancel := context.WithCancel(context.Background())
		first := inBackground(func() {
			wantErr(t, "SubmitContext", p.SubmitContext(ctx, func(context.Context) { t.Error("it ran") }), context.Canceled)
		})
		synctest.Wait()
		next := inBackground(func() { submitN(t, p, 1) })
		synctest.Wait()
		cancel()
		<-first
		release()
		<-next
		shutClean(t, p)
	}},
	{"13 e2b-dev/infra#3629, cancelled between the look at ctx and the wait", false, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		for range rounds(1000) {
			release := hold(t, p, 1)
			ctx, cancel := context.WithCancel(context.Background())
			waiter := inBackground(func() { _ = p.SubmitContext(ctx, func(context.Context) {}) })
			cancel()
			<-waiter // although the pool stays full
			release()
		}
		shutClean(t, p)
	}},
	{"14 golang/go#45867, #55160, a CPU stays idle beside runnable work", false, func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
		p := newPool(t, shoal.WithMaxWorkers(2))
		for range rounds(20_000) {
			var both sync.WaitGroup
			both.Add(2)
			for range 2 {
				if err := p.Submit(func() { both.Done(); both.Wait() }); err != nil {
					t.Fatal(err)
				}
			}
			both.Wait()
		}
		shutClean(t, p)
	}},

	// ----- deadlocks -----

	{"15 alitto/pond#61, PR#62, #71, the context ends with a task queued", true, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		p := newPool(t, fixed(1, shoal.WithContext(ctx))...)
		release := hold(t, p, 1)
		submitN(t, p, 1)
		cancel()
		release()
		closeAll(t, p)
	}},
	{"16 alitto/pond#138, the same, and somebody waits for the task", true, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		p := newPool(t, fixed(1, shoal.WithContext(ctx))...)
		release := hold(t, p, 1)
		waiter := inBackground(func() {
			wantErr(t, "SubmitWait", p.SubmitWait(context.Background(), func(context.Context) error { return nil }), shoal.ErrDropped)
		})
		synctest.Wait()
		cancel()
		<-waiter
		release()
		closeAll(t, p)
	}},
	{"17 panjf2000/ants#141, #202, the end while a submitter waits", true, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		release := hold(t, p, 1)
		waiter := inBackground(func() { wantErr(t, "Submit", p.Submit(func() { t.Error("it ran") }), shoal.ErrClosed) })
		synctest.Wait()
		end := inBackground(func() { shutClean(t, p) })
		<-waiter
		release()
		<-end
	}},
	{"18 panjf2000/ants#197, Submit inside Submit with size 1", true, func(t *testing.T) {
		for _, capacity := range []int{0, 1} {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
			var ran *atomic.Int64
			if err := p.Submit(func() { ran = submitN(t, p, 5) }); err != nil {
				t.Fatal(err)
			}
			p.Wait()
			if ran.Load() != 5 {
				t.Errorf("%d of 5 ran", ran.Load())
			}
			shutClean(t, p)
		}
	}},
	{"19 sourcegraph/conc#88, all workers wait for a context that the next task would end", true, func(t *testing.T) {
		p := newPool(t, fixed(10, shoal.WithQueueCapacity(0))...)
		ctx, cancel := context.WithCancel(context.Background())
		submitter := inBackground(func() {
			for range 90 {
				if err := p.SubmitContext(ctx, func(ctx context.Context) { <-ctx.Done() }); err != nil {
					wantErr(t, "SubmitContext", err, context.Canceled)
				}
			}
		})
		synctest.Wait()
		cancel()
		<-submitter
		shutClean(t, p)
	}},
	{"20 sourcegraph/conc PR#112, a worker that was started for one task is taken by another", true, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1000), shoal.WithQueueCapacity(0))
		gate := make(chan struct{})
		for range 500 {
			if err := p.Submit(func() { <-gate }); err != nil { // none of them waits
				t.Fatal(err)
			}
		}
		close(gate)
		shutClean(t, p)
	}},
	{"21 golang/go#27837, #70284, a limit of 0; submitting while another waits", true, func(t *testing.T) {
		if _, err := shoal.New(shoal.WithMaxWorkers(0)); !errors.Is(err, shoal.ErrConfig) {
			t.Errorf("New with no workers: %v", err)
		}
		p := newPool(t, shoal.WithMaxWorkers(2))
		waiter := inBackground(func() {
			for range 100 {
				p.Wait()
			}
		})
		ran := submitN(t, p, 1000)
		<-waiter
		shutClean(t, p)
		if ran.Load() != 1000 {
			t.Errorf("%d of 1000 ran", ran.Load())
		}
	}},
	{"22 gammazero/workerpool d1d3180, two Pauses at once", true, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		a, b := inBackground(p.Pause), inBackground(p.Pause)
		<-a
		<-b
		p.Resume()
		runsMore(t, p, 10)
		shutClean(t, p)
	}},
	{"23 gammazero/workerpool#42, Pause waits for the tasks that run", true, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		release := hold(t, p, 2)
		p.Pause() // returns although they run
		p.Resume()
		release()
		shutClean(t, p)
	}},
	{"24 fatih/semgroup#2, a refused task is waited for", true, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		release := hold(t, p, 1)
		wantErr(t, "SubmitContext", p.SubmitContext(canceledContext(), func(context.Context) {}), context.Canceled)
		wantErr(t, "TrySubmit", p.TrySubmit(func() {}), shoal.ErrQueueFull)
		release()
		p.Wait()
		shutClean(t, p)
	}},
	{"25 apache/devlake#1373, a pool that feeds itself fills up", true, func(t *testing.T) {
		p := newPool(t, fixed(4, shoal.WithQueueCapacity(2))...)
		var ran atomic.Int64
		for range 20 {
			if err := p.Submit(func() {
				for range 20 {
					if err := p.Submit(func() { ran.Add(1) }); err != nil {
						t.Errorf("Submit: %v", err)
					}
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		p.Wait()
		if ran.Load() != 400 {
			t.Errorf("%d of 400 ran", ran.Load())
		}
		shutClean(t, p)
	}},

	// ----- the end -----

	{"26 alitto/pond#20, #43, #49, submitting in a loop while it ends; ending from a task", false, func(t *testing.T) {
		stormAndEnd(t, rounds(200), "Shutdown", shutdown)
		p := newPool(t, fixed(2)...)
		var err error
		if e := p.SubmitContext(context.Background(), func(ctx context.Context) { err = p.Shutdown(ctx) }); e != nil {
			t.Fatal(e)
		}
		p.Wait()
		wantErr(t, "Shutdown in a task", err, shoal.ErrWouldDeadlock)
		closeAll(t, p)
	}},
	{"27 alitto/pond PR#27, the purger after the end", true, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithIdleTimeout(time.Second))
		submitN(t, p, 10)
		p.Wait()
		shutClean(t, p)
		time.Sleep(time.Hour)
	}},
	{"28 alitto/pond PR#104, #105, a submission while it ends is refused", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		end := inBackground(func() { shutClean(t, p) })
		synctest.Wait()
		wantErr(t, "Submit", p.Submit(func() { t.Error("it ran") }), shoal.ErrClosed)
		release()
		<-end
	}},
	{"29 alitto/pond PR#87, something is due after the end", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		if _, err := p.SubmitAfter(time.Second, func() { t.Error("it ran") }); err != nil {
			t.Fatal(err)
		}
		closeAll(t, p)
		time.Sleep(time.Hour)
	}},
	{"30 alitto/pond PR#28, two ends at once", false, func(t *testing.T) {
		for range rounds(400) {
			p := newPool(t, fixed(2)...)
			submitN(t, p, 3)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if err := p.Shutdown(context.Background()); err != nil {
						t.Errorf("Shutdown: %v", err)
					}
				})
			}
			wg.Wait()
		}
	}},
	{"31 gammazero/workerpool#76, #66, #77, PR#80, a try that checks, then sends", false, func(t *testing.T) {
		for range rounds(150) {
			p := newPool(t, fixed(2, shoal.WithQueueCapacity(4))...)
			y := newTally(200)
			var wg sync.WaitGroup
			for u := range 4 {
				wg.Go(func() {
					for i := u; i < len(y.words); i += 4 {
						_ = y.note(i, p.TrySubmit(y.task(i)))
					}
				})
			}
			shutClean(t, p)
			y.seal()
			wg.Wait()
			y.checkAccepted(t)
		}
	}},
	{"32 gammazero/workerpool#5, #21, the second end waits too", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		first := inBackground(func() { _ = p.Shutdown(context.Background()) })
		synctest.Wait()
		second := inBackground(func() { _ = p.Shutdown(context.Background()) })
		third := inBackground(func() { _ = p.Close() })
		synctest.Wait()
		if isClosed(first) || isClosed(second) || isClosed(third) {
			t.Error("an end returned while a task ran")
		}
		release()
		<-first
		<-second
		<-third
	}},
	{"33 gammazero/workerpool 85cc841, the end returns before the workers are gone", false, func(t *testing.T) {
		for range rounds(200) {
			p := newPool(t, fixed(8)...)
			submitN(t, p, 20)
			shutClean(t, p) // looks at the goroutines at once
		}
	}},
	{"34 towns-protocol/towns#3592, a task submits into a pool that has ended", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		gate := make(chan struct{})
		if err := p.Submit(func() {
			<-gate
			wantErr(t, "Submit", p.Submit(func() { t.Error("it ran") }), shoal.ErrClosed)
		}); err != nil {
			t.Fatal(err)
		}
		end := inBackground(func() { closeAll(t, p) })
		synctest.Wait()
		close(gate)
		<-end
	}},
	{"35 infiniflow/ragflow#18646, who waits for room is not seen by the drain", true, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		release := hold(t, p, 1)
		y := newTally(3)
		if err := y.note(0, p.Submit(y.task(0))); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := 1; i < 3; i++ {
			wg.Go(func() { _ = y.note(i, p.Submit(y.task(i))) })
		}
		synctest.Wait()
		end := inBackground(func() { shutClean(t, p) })
		synctest.Wait()
		release()
		<-end
		y.seal()
		wg.Wait()
		y.checkAccepted(t)
	}},
	{"36 simplesurance/baur#334, waiting and submitting: run or refused", false, func(t *testing.T) {
		stormAndEnd(t, rounds(200), "Shutdown", func(p *shoal.Pool) error {
			p.Wait()
			return shutdown(p)
		})
	}},
	{"37 sourcegraph/conc#103, PR#108, a submission after the end", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		shutClean(t, p)
		wantErr(t, "Submit", p.Submit(func() { t.Error("it ran") }), shoal.ErrClosed)
	}},
	{"38 flock 3136cf4 pool.go:306, seen open, drained, then pushed", false, func(t *testing.T) {
		stormAndEnd(t, rounds(150), "Shutdown", shutdown)
	}},
	{"38b ants v2.12.1 pool.go, a task runs after the end; nil is a task", false, func(t *testing.T) {
		stormAndEnd(t, rounds(150), "Close", (*shoal.Pool).Close)
		p := newPool(t, fixed(1)...)
		wantErr(t, "Submit(nil)", p.Submit(nil), shoal.ErrNilTask)
		runsMore(t, p, 3)
		shutClean(t, p)
	}},
	{"39 gofr-dev/gofr#3801, ended before it has begun", false, func(t *testing.T) {
		var late atomic.Bool
		for range rounds(400) {
			var over atomic.Bool
			p := newPool(t, fixed(2, shoal.WithWorkerHooks(func(int) {
				if over.Load() {
					late.Store(true)
				}
			}, nil))...)
			shutClean(t, p)
			over.Store(true)
		}
		if late.Load() { // one of the last round would have had no time; those before had
			t.Error("a worker began after the end")
		}
	}},
	{"40 facebook/folly#2093, rayon#768, the pool touches what the waiter has given up", false, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		for range rounds(20_000) {
			word := 0 // no atomics: the race detector would see a late touch
			if err := p.SubmitWait(context.Background(), func(context.Context) error { word++; return nil }); err != nil {
				t.Fatal(err)
			}
			word++
			if err := p.Submit(func() { word++ }); err != nil {
				t.Fatal(err)
			}
			p.Wait()
			if word != 3 {
				t.Fatalf("%d instead of 3", word)
			}
		}
		shutClean(t, p)
	}},

	// ----- bounds -----

	{"41 panjf2000/ants#374, PR#376, more run than may", false, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(3), shoal.WithIdleTimeout(0))
		var now atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range rounds(2000) {
					if err := p.Submit(func() {
						if n := now.Add(1); n > 3 {
							t.Errorf("%d at once", n)
						}
						runtime.Gosched()
						now.Add(-1)
					}); err != nil {
						t.Errorf("Submit: %v", err)
					}
				}
			})
		}
		wg.Wait()
		shutClean(t, p)
		if n := p.Stats().PeakWorkers; n > 3 {
			t.Errorf("%d workers", n)
		}
	}},
	{"42 alitto/pond PR#102, #105, Resize after the context has ended; 0 is not unlimited", true, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		p := newPool(t, fixed(2, shoal.WithContext(ctx))...)
		if err := p.Resize(0, 0); !errors.Is(err, shoal.ErrConfig) {
			t.Errorf("Resize(0, 0) = %v", err)
		}
		cancel()
		synctest.Wait()
		wantErr(t, "Resize", p.Resize(4, 4), shoal.ErrClosed)
		closeAll(t, p)
	}},
	{"43 deadpool-rs/deadpool#380, a count goes below 0 while sizes change", false, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4))
		var wg sync.WaitGroup
		for u := range 4 {
			wg.Go(func() {
				for i := range rounds(2000) {
					if u == 0 {
						if err := p.Resize(i%2, 1+i%5); err != nil {
							t.Errorf("Resize: %v", err)
						}
						checkIdentity(t, p.Stats())
						continue
					}
					if err := p.Submit(func() {}); err != nil {
						t.Errorf("Submit: %v", err)
					}
				}
			})
		}
		wg.Wait()
		shutClean(t, p)
	}},

	// ----- memory and goroutines -----

	{"44 alitto/pond#110, the last task is held on to", false, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		freed := make(chan struct{})
		func() {
			big := new([1 << 20]byte)
			runtime.AddCleanup(big, func(struct{}) { close(freed) }, struct{}{})
			if err := p.Submit(func() { big[0]++ }); err != nil {
				t.Fatal(err)
			}
		}()
		p.Wait()
		collect(freed)
		shutClean(t, p)
	}},
	{"45 panjf2000/ants#107, #113, slots of workers that have left", false, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(8), shoal.WithIdleTimeout(0))
		var freed sync.WaitGroup
		freed.Add(8)
		release := make(chan struct{})
		for range 8 {
			big := new([1 << 16]byte)
			runtime.AddCleanup(big, func(struct{}) { freed.Done() }, struct{}{})
			if err := p.Submit(func() { <-release; big[0]++ }); err != nil {
				t.Fatal(err)
			}
		}
		close(release)
		p.Wait()
		collect(inBackground(freed.Wait))
		shutClean(t, p)
	}},
	{"46 panjf2000/ants#263, #212, #323, milvus#41893, goroutines of pools that have ended", false, func(t *testing.T) {
		for range 100 {
			p := newPool(t, fixed(3, shoal.WithIdleTimeout(time.Millisecond))...)
			submitN(t, p, 3)
			shutClean(t, p)
		}
		testpool.NoGoroutines(t, "after 100 pools")
	}},
	{"47 panjf2000/ants PR#8, the purger is off by one", true, func(t *testing.T) {
		for _, least := range []int{0, 1, 3} {
			p := newPool(t, shoal.WithMaxWorkers(7), shoal.WithMinWorkers(least), shoal.WithIdleTimeout(time.Second))
			hold(t, p, 7)()
			p.Wait()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n := p.Stats().Workers; n != least {
				t.Errorf("%d workers are left, want %d", n, least)
			}
			shutClean(t, p)
		}
	}},
	{"48 panjf2000/ants PR#317, an error of New leaves something behind", false, func(t *testing.T) {
		for range 100 {
			if p, err := shoal.New(shoal.WithMaxWorkers(-1), shoal.WithMinWorkers(4)); err == nil || p != nil {
				t.Fatalf("New = %v, %v", p, err)
			}
		}
		testpool.NoGoroutines(t)
	}},
	{"49 golang/sync#14, #15, the limit changes while tasks run", true, func(t *testing.T) {
		p := newPool(t, fixed(3, shoal.WithQueueCapacity(0))...)
		release := hold(t, p, 3)
		for _, n := range []int{1, 5, 2, 4} {
			if err := p.Resize(0, n); err != nil {
				t.Fatal(err)
			}
		}
		more := inBackground(func() { submitN(t, p, 20) })
		synctest.Wait()
		release()
		<-more
		shutClean(t, p)
	}},
	{"50 clickhouse_sinker#73, gammazero/workerpool#71, a queue without a bound", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		if n := p.Stats().QueueCapacity; n != shoal.DefaultQueueCapacity {
			t.Errorf("the default capacity is %d", n)
		}
		shutClean(t, p)
		p = newPool(t, fixed(1, shoal.WithQueueCapacity(10))...)
		release := hold(t, p, 1)
		submitN(t, p, 10)
		wantErr(t, "the eleventh", p.TrySubmit(func() {}), shoal.ErrQueueFull)
		release()
		shutClean(t, p)
	}},

	// ----- panics and Goexit -----

	{"51 alitto/pond#135, PR#136, #137, Goexit in a task, as of gomock", true, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		for range 10 {
			if err := p.Submit(runtime.Goexit); err != nil {
				t.Fatal(err)
			}
		}
		runsMore(t, p, 5)
		shutClean(t, p)
	}},
	{"52 panjf2000/ants#35, #364, a panic kills the worker", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		for range 10 {
			if err := p.Submit(func() { panic("on purpose") }); err != nil {
				t.Fatal(err)
			}
		}
		p.Wait()
		if s := p.Stats(); s.Workers != 1 || s.Failed != 10 || s.PeakWorkers != 1 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	}},
	{"55 golang/go#53757, panic and Goexit reach who waits", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		var e *shoal.PanicError
		if err := p.SubmitWait(context.Background(), func(context.Context) error { panic("on purpose") }); !errors.As(err, &e) || e.Value != "on purpose" {
			t.Errorf("SubmitWait of a panic = %v", err)
		}
		err := p.SubmitWait(context.Background(), func(context.Context) error { runtime.Goexit(); return nil })
		wantErr(t, "SubmitWait of Goexit", err, shoal.ErrGoexit)
		shutClean(t, p)
	}},

	// ----- counters and races -----

	{"57 alitto/pond#97, PR#85, #100, tasks that are missing in the counters", true, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		submitN(t, p, 4)
		if s := p.Stats(); s.Queued != 4 || s.Running != 1 || s.InFlight != 5 {
			t.Errorf("%+v", s)
		}
		end := inBackground(func() { closeAll(t, p) })
		synctest.Wait()
		release()
		<-end
		if s := p.Stats(); s.Dropped != 4 || s.Completed != 1 || s.Submitted != 5 {
			t.Errorf("%+v", s)
		}
	}},
	{"58 alitto/pond PR#14, the count of waiting tasks wraps", false, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4))
		var over atomic.Bool
		sampler := inBackground(func() {
			for !over.Load() {
				if s := p.Stats(); s.Queued < 0 || s.Queued > 1<<20 || p.Queued() < 0 {
					t.Errorf("%+v", s)
					return
				}
			}
		})
		submitN(t, p, rounds(50_000))
		over.Store(true)
		<-sampler
		shutClean(t, p)
	}},
	{"61 alitto/pond PR#37, gammazero/workerpool PR#18, #19, reading lengths is a data race", false, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(8))
		reader := inBackground(func() {
			for range 1000 {
				_ = p.Queued()
				_ = p.Stats()
				for range p.Workers() {
				}
				_ = p.State()
			}
		})
		submitN(t, p, 5000)
		<-reader
		shutClean(t, p)
	}},
	{"62 alitto/pond PR#39, panjf2000/ants PR#278, alignment on 32 bits, and sums that overflow", false, func(t *testing.T) {
		// The alignment is what GOARCH=386 runs of all tests show. The sums: the
		// largest sizes that may be given.
		p := newPool(t, shoal.WithMaxWorkers(shoal.MaxWorkers), shoal.WithQueueCapacity(shoal.Unbounded))
		runsMore(t, p, 10)
		shutClean(t, p)
	}},
	{"golang/go#63615, accepted although the context is done", true, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		for range 100 {
			wantErr(t, "SubmitContext", p.SubmitContext(canceledContext(), func(context.Context) { t.Error("it ran") }), context.Canceled)
		}
		if s := p.Stats(); s.Submitted != 0 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	}},
	{"CVE-2021-32810, two workers take one task", false, func(t *testing.T) {
		p := newPool(t, fixed(8)...)
		y := newTally(rounds(200_000))
		for i := range y.words {
			if err := y.note(i, p.Submit(y.task(i))); err != nil {
				t.Fatal(err)
			}
		}
		shutClean(t, p)
		y.seal()
		y.check(t)
	}},
}

// stormAndEnd submits from 8 goroutines while end ends the pool: at that moment
// every accepted task has run or was dropped, and none runs later.
func stormAndEnd(t *testing.T, rounds int, name string, end func(p *shoal.Pool) error) {
	t.Helper()
	for round := range rounds {
		raceEnd(t, []shoal.Option{shoal.WithMaxWorkers(1 + round%4)}, 50, submitPlain, name, end, false)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// collect runs the collector until something was collected.
func collect(freed <-chan struct{}) {
	for !isClosed(freed) { // or the test times out, with the stacks of all goroutines
		runtime.GC()
		runtime.Gosched()
	}
}
