package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// One test or more for every hole that was found in other pools; the numbers
// are theirs. Futures, groups, maps and sub-pools have their own.

// H1: completion is counted also for a task that ends its goroutine.

func TestH1_GoexitIsCountedAndTheWorkerReplaced(t *testing.T) {
	var starts, stops atomic.Int32
	p := newPool(t, fixed(2, shoal.WithWorkerHooks(
		func(int) { starts.Add(1) },
		func(int) { stops.Add(1) }))...)
	for range 4 {
		if err := p.Submit(runtime.Goexit); err != nil {
			t.Fatal(err)
		}
	}
	p.Wait()
	if s := p.Stats(); s.Completed != 4 || s.Failed != 4 || s.InFlight != 0 {
		t.Errorf("after 4 tasks that called Goexit: %+v", s)
	}
	runsMore(t, p, 100)
	hold(t, p, 2)() // both places are there
	shutClean(t, p)
	if a, b := starts.Load(), stops.Load(); a != 6 || b != 6 {
		t.Errorf("%d start and %d stop hooks, want 6: two workers, four replaced", a, b)
	}
}

func TestH1_SubmitWaitReturnsErrGoexit(t *testing.T) {
	p := newPool(t, fixed(1)...)
	fakeT := new(testing.T) // FailNow on it is what gomock does
	for _, f := range []func(context.Context) error{
		func(context.Context) error { runtime.Goexit(); return nil },
		func(context.Context) error { fakeT.FailNow(); return nil },
	} {
		wantErr(t, "SubmitWait", p.SubmitWait(t.Context(), f), shoal.ErrGoexit)
	}
	runsMore(t, p, 100)
	shutClean(t, p)
}

func TestH1_GoexitInEveryKindOfTaskReleasesWaitAndShutdown(t *testing.T) {
	for _, policy := range allPolicies {
		t.Run(policy.String(), func(t *testing.T) {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy))...)
			release := hold(t, p, 1)
			y := newTally(6)
			for i := range 3 { // the second and third find the queue full
				done := inBackground(func() { // a caller may be the one to end
					if i == 0 {
						y.note(i, p.Submit(func() { y.hit(i); runtime.Goexit() }))
					} else {
						y.note(i, p.SubmitContext(t.Context(), func(context.Context) { y.hit(i); runtime.Goexit() }))
					}
				})
				if policy == shoal.Block && i > 0 {
					release()
				}
				<-done
				if policy == shoal.CallerRuns && i > 0 {
					if y.ran(i) != 1 {
						t.Errorf("task %d did not run on its caller", i)
					}
					y.accept(i) // Submit did not return to say so
				}
			}
			release()
			p.Wait()
			s := p.Stats()
			checkIdentity(t, s)
			if int(s.Failed) != y.checkDropped(t, s.Dropped)-int(s.Dropped) {
				t.Errorf("Failed %d, want one for each that ran: %+v", s.Failed, s)
			}
			runsMore(t, p, 1)
			shutClean(t, p)
		})
	}
}

// H2: a task may wait for tasks.

func TestH2_NestedSubmitWaitOnOneWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const depth = 15
		for _, capacity := range []int{0, 1, 64} {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
			y := newTally(depth + 1)
			var nest func(ctx context.Context, left int) error
			nest = func(ctx context.Context, left int) error {
				y.hit(left)
				if left == 0 {
					return errors.ErrUnsupported
				}
				return p.SubmitWait(ctx, func(ctx context.Context) error { return nest(ctx, left-1) })
			}
			err := p.SubmitWait(t.Context(), func(ctx context.Context) error { return nest(ctx, depth) })
			wantErr(t, "the innermost error", err, errors.ErrUnsupported)
			y.check(t)
			if s := p.Stats(); s.Submitted != depth+1 || s.Completed != depth+1 || s.Failed != depth+1 {
				t.Errorf("capacity %d: %+v", capacity, s)
			}
			shutClean(t, p)
		}
	})
}

func TestH2_NestedSubmitWaitFansOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, workers := range []int{1, 2} {
			p := newPool(t, fixed(workers, shoal.WithQueueCapacity(2))...)
			var sum func(ctx context.Context, n int) int
			sum = func(ctx context.Context, n int) int { // 2^n leaves
				if n == 0 {
					return 1
				}
				total := 0
				for range 2 {
					if err := p.SubmitWait(ctx, func(ctx context.Context) error {
						total += sum(ctx, n-1)
						return nil
					}); err != nil {
						t.Errorf("SubmitWait: %v", err)
					}
				}
				return total
			}
			if got := sum(t.Context(), 8); got != 256 {
				t.Errorf("%d leaves, want 256", got)
			}
			shutClean(t, p)
		}
	})
}

// H3: Submit while Shutdown runs returns nil or ErrClosed. The storms are in
// life_test.go.

func TestH3_SubmitWhileShutdownRunsReturnsErrClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		release := hold(t, p, 1)
		var queued atomic.Bool
		if err := p.Submit(func() { queued.Store(true) }); err != nil {
			t.Fatal(err)
		}
		blocked := make(chan error, 1)
		go func() { blocked <- p.Submit(func() { t.Error("a refused task ran") }) }()
		synctest.Wait()
		down := inBackground(func() {
			if err := p.Shutdown(context.Background()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
		synctest.Wait()
		if isClosed(down) {
			t.Error("Shutdown returned while a task ran")
		}
		wantErr(t, "a Submit that waited for room", <-blocked, shoal.ErrClosed)
		wantErr(t, "a Submit during the drain", p.Submit(func() { t.Error("a refused task ran") }), shoal.ErrClosed)
		release()
		<-down
		if !queued.Load() {
			t.Error("an accepted task did not run")
		}
		wantErr(t, "a Submit after the end", p.Submit(func() {}), shoal.ErrClosed)
	})
}

// H4: graceful, then immediate, in any order and number, has one outcome.

func TestH4_GracefulThenImmediateShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		y := newTally(10)
		for i := range 10 {
			y.note(i, p.Submit(y.task(i)))
		}
		var errs [4]error
		graceful1 := inBackground(func() { errs[0] = p.Shutdown(context.Background()) })
		synctest.Wait()
		immediate := inBackground(func() { errs[1] = p.Close() })
		synctest.Wait()
		graceful2 := inBackground(func() { errs[2] = p.Shutdown(context.Background()) })
		immediate2 := inBackground(func() { errs[3] = p.Close() })
		synctest.Wait()
		if isClosed(graceful1) || isClosed(immediate) || isClosed(graceful2) || isClosed(immediate2) {
			t.Error("a call returned while a task ran")
		}
		release()
		<-graceful1
		<-immediate
		<-graceful2
		<-immediate2
		testpool.NoGoroutines(t)
		var inc *shoal.ShutdownError
		if !errors.As(errs[0], &inc) || inc.Dropped != 10 {
			t.Errorf("the graceful call: %v, want ShutdownError with 10 dropped", errs[0])
		}
		if errs[2] != errs[0] || errs[1] != nil || errs[3] != nil {
			t.Errorf("outcomes %v", errs)
		}
		y.checkDropped(t, 10)
		checkEnded(t, p)
	})
}

// H5: accepted means run.

func TestH5_ShutdownRunsWhatWasAcceptedUnderEveryPolicy(t *testing.T) {
	for _, policy := range allPolicies {
		t.Run(policy.String(), func(t *testing.T) {
			const submitters, each = 3, 1000
			p := newPool(t, fixed(2, shoal.WithQueueCapacity(16), shoal.WithFullPolicy(policy))...)
			y := newTally(submitters * each)
			var wg sync.WaitGroup
			for s := range submitters {
				wg.Go(func() {
					for i := range each {
						y.note(s*each+i, p.Submit(y.task(s*each+i)))
					}
				})
			}
			wg.Wait()
			shutClean(t, p)
			s := p.Stats()
			if policy != shoal.DropOldest && s.Dropped != 0 {
				t.Errorf("%d dropped", s.Dropped)
			}
			if got := y.checkDropped(t, s.Dropped); uint64(got) != s.Submitted || uint64(submitters*each-got) != s.Rejected {
				t.Errorf("accepted %d of %d: %+v", got, submitters*each, s)
			}
		})
	}
}

// H6: a Submit that reports success has stored the task.

func TestH6_ManyProducersExactlyOnce(t *testing.T) {
	const producers = 16
	each := testpool.Reps(4000, 1000, 1000)
	for _, capacity := range []int{1, 64, shoal.Unbounded} {
		p := newPool(t, fixed(2, shoal.WithQueueCapacity(capacity))...)
		y := newTally(producers * each)
		var wg sync.WaitGroup
		for s := range producers {
			wg.Go(func() {
				for i := range each {
					if err := p.Submit(y.task(s*each + i)); err != nil {
						t.Errorf("Submit: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		p.Wait()
		y.check(t)
		shutClean(t, p)
	}
}

// H7: no task waits behind a task.

func TestH7_NoTaskIsStuckBehindABlockedWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, sizer := range []shoal.Sizer{shoal.Auto(), shoal.Eager(), shoal.Balanced(), shoal.Lazy()} {
			const workers = 10
			p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithSizing(sizer))
			y := newTally(200)
			gate := make(chan struct{})
			for i := range 200 {
				task := y.task(i)
				if i%22 == 0 { // 10 in all, but let one place go free
					if i > 0 {
						task = func() { y.hit(i); <-gate }
					}
				}
				if err := p.Submit(task); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			y.check(t)
			close(gate)
			shutClean(t, p)
		}
	})
}

func TestH7_BatchedTasksDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(8))
		meet := make(chan struct{}) // each pair of tasks meets here
		y := newTally(8)
		var batch []func()
		for i := range 8 {
			batch = append(batch, func() {
				if i%2 == 0 {
					meet <- struct{}{}
				} else {
					<-meet
				}
				y.hit(i)
			})
		}
		if n, err := p.SubmitBatch(batch); n != 8 || err != nil {
			t.Fatal(n, err)
		}
		p.Wait()
		y.check(t)
		shutClean(t, p)
	})
}

// H8, H22: Wait and Submit together.

func TestH8_WaitWhileOthersSubmit(t *testing.T) {
	const submitters, waiters, each = 4, 4, 500
	p := newPool(t, fixed(2)...)
	y := newTally(submitters * each)
	var wg sync.WaitGroup
	for s := range submitters {
		wg.Go(func() {
			for i := range each {
				id := s*each + i
				if err := p.Submit(y.task(id)); err != nil {
					t.Errorf("Submit: %v", err)
				}
				if i%8 == 0 {
					p.Wait()
					if y.ran(id) != 1 {
						t.Errorf("Wait returned before task %d, which was accepted before it, had run", id)
					}
				}
			}
		})
	}
	for range waiters {
		wg.Go(func() {
			for range each {
				p.Wait()
			}
		})
	}
	wg.Wait()
	p.Wait()
	y.check(t)
	shutClean(t, p)
}

func TestH22_SubmitDuringWaitIsAllowedAndWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		first := hold(t, p, 1)
		waited := inBackground(p.Wait)
		synctest.Wait()
		started, gate := make(chan struct{}), make(chan struct{})
		if err := p.Submit(func() { close(started); <-gate }); err != nil {
			t.Fatal(err)
		}
		first()
		<-started
		synctest.Wait()
		if isClosed(waited) {
			t.Error("Wait returned while a task ran")
		}
		close(gate)
		<-waited
		// Tasks that tasks submitted are waited for as well.
		y := newTally(100)
		var chain func(i int) func()
		chain = func(i int) func() {
			return func() {
				y.hit(i)
				if i+1 < 100 {
					if err := p.Submit(chain(i + 1)); err != nil {
						t.Errorf("Submit: %v", err)
					}
				}
			}
		}
		if err := p.Submit(chain(0)); err != nil {
			t.Fatal(err)
		}
		p.Wait()
		y.check(t)
		shutClean(t, p)
	})
}

// H9: a task that comes to an idle pool starts, and no time passes.

func TestH9_ATaskWakesAnIdlePoolAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, spin := range []int{0, 30} {
			p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithIdleTimeout(shoal.Forever), shoal.WithSpin(spin))
			begin := time.Now()
			for round := range 2000 {
				if round%7 == 0 {
					synctest.Wait() // all workers are parked
				}
				ran := make(chan struct{})
				if err := p.Submit(func() { close(ran) }); err != nil {
					t.Fatal(err)
				}
				<-ran
			}
			if d := time.Since(begin); d != 0 {
				t.Errorf("spin %d: %v passed", spin, d)
			}
			shutClean(t, p)
		}
	})
}

// H10: the counters keep their identity, and nothing underflows.

func TestH10_QueuedAndRunningAreOfOneMoment(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(3))
	var over atomic.Bool
	feeder := inBackground(func() {
		for !over.Load() {
			for range 10 {
				p.Submit(func() {})
			}
			p.Wait()
		}
	})
	for range 20_000 {
		if s := p.Stats(); s.Queued+s.Running != s.InFlight {
			t.Errorf("%d are queued and %d run, of %d", s.Queued, s.Running, s.InFlight)
			break
		}
	}
	over.Store(true)
	<-feeder
	shutClean(t, p)
}

func TestH10_CountersKeepTheirIdentityUnderLoad(t *testing.T) {
	noLog(t)
	for _, policy := range allPolicies {
		t.Run(policy.String(), func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(3), shoal.WithQueueCapacity(4), shoal.WithFullPolicy(policy),
				shoal.WithTiming(shoal.TimingOff))
			const submitters, each = 4, 300
			stop := make(chan struct{})
			watched := inBackground(func() {
				var last shoal.Stats
				for !isClosed(stop) {
					s := p.Stats()
					checkIdentity(t, s)
					if s.Submitted < last.Submitted || s.Completed < last.Completed || s.Failed < last.Failed ||
						s.Rejected < last.Rejected || s.Dropped < last.Dropped || s.Canceled < last.Canceled || s.Spawned < last.Spawned {
						t.Errorf("a counter went back:\n%+v\n%+v", last, s)
					}
					if s.Workers > 3 || s.Queued > 4 || t.Failed() {
						t.Errorf("%+v", s)
						return
					}
					last = s
					runtime.Gosched()
				}
			})
			var accepted, refused, wantFailed, ranFailed atomic.Uint64
			var wg sync.WaitGroup
			for s := range submitters {
				wg.Go(func() {
					for i := range each {
						ctx, cancel := context.WithCancel(t.Context())
						var err error
						switch (s + i) % 5 {
						case 0:
							err = p.Submit(func() {})
						case 1:
							err = p.Submit(func() { ranFailed.Add(1); panic("on purpose") })
						case 2:
							err = p.TrySubmit(func() {})
						case 3:
							if i%2 == 0 {
								cancel()
							}
							err = p.SubmitContext(ctx, func(context.Context) {})
						case 4:
							n, e := p.SubmitBatch([]func(){func() {}, func() { ranFailed.Add(1); panic("on purpose") }})
							accepted.Add(uint64(n))
							if e != nil {
								refused.Add(1)
							}
							cancel()
							continue
						}
						switch {
						case err == nil:
							accepted.Add(1)
						case errors.Is(err, shoal.ErrQueueFull):
							refused.Add(1)
						}
						cancel()
					}
				})
			}
			wg.Wait()
			p.Wait()
			close(stop)
			<-watched
			s := p.Stats()
			checkIdentity(t, s)
			wantFailed.Store(ranFailed.Load())
			if s.InFlight != 0 || s.Queued != 0 || s.Submitted != accepted.Load() || s.Rejected != refused.Load() || s.Failed != wantFailed.Load() {
				t.Errorf("accepted %d, refused %d, failed %d: %+v", accepted.Load(), refused.Load(), wantFailed.Load(), s)
			}
			if (policy != shoal.Spawn && s.Spawned != 0) || (policy != shoal.DropOldest && s.Dropped != 0) {
				t.Errorf("%v: %+v", policy, s)
			}
			shutClean(t, p)
		})
	}
}

// H11: a submitter that waits for free capacity is parked.

func TestH11_BlockedSubmittersArePark(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		release := hold(t, p, 1)
		const n = 10
		y := newTally(n)
		var returned atomic.Int32
		for i := range n {
			go func() {
				y.note(i, p.Submit(y.task(i)))
				returned.Add(1)
			}()
		}
		synctest.Wait() // it would not return while anybody spins
		if got := returned.Load(); got != 1 {
			t.Errorf("%d submitters returned, want the one for whom there was room", got)
		}
		release()
		synctest.Wait()
		if y.checkAccepted(t) != n {
			t.Error("not all were accepted")
		}
		shutClean(t, p)
	})
}

func TestH11_SubmittersThatAreTheWorkersGoOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, workers := range []int{1, 2, 8} {
			for _, capacity := range []int{0, 1, 2} {
				p := newPool(t, fixed(workers, shoal.WithQueueCapacity(capacity))...)
				const roots, children = 8, 20
				y := newTally(roots * (1 + children))
				for r := range roots {
					if err := p.Submit(func() {
						y.hit(r)
						for c := range children {
							if err := p.Submit(y.task(roots + r*children + c)); err != nil {
								t.Errorf("Submit: %v", err)
							}
						}
					}); err != nil {
						t.Fatal(err)
					}
				}
				p.Wait()
				y.check(t)
				shutClean(t, p)
			}
		}
	})
}

// H12: every accepted task resolves.

func TestH12_SubmitWaitGetsErrDroppedOnClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(5))...)
		release := hold(t, p, 1)
		const n = 8 // 5 queued, 3 waiting for room
		var errs [n]error
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				errs[i] = p.SubmitWait(context.Background(), func(context.Context) error {
					t.Error("a dropped task ran")
					return nil
				})
			})
			synctest.Wait()
		}
		closed := inBackground(func() { p.Close() })
		wg.Wait() // although a task still runs
		for i, err := range errs {
			want := shoal.ErrDropped
			if i >= 5 {
				want = shoal.ErrClosed
			}
			wantErr(t, fmt.Sprintf("SubmitWait %d", i), err, want)
		}
		release()
		<-closed
		if s := p.Stats(); s.Dropped != 5 || s.Completed != 1 || s.Submitted != 6 {
			t.Errorf("%+v", s)
		}
		checkEnded(t, p)
	})
}

func TestH12_SubmitWaitGetsErrDroppedOnShutdownAndDropOldest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))...)
		release := hold(t, p, 1)
		nop := func(context.Context) error { return nil }
		errs := make(chan error, 2)
		go func() { errs <- p.SubmitWait(context.Background(), nop) }()
		synctest.Wait()
		go func() { errs <- p.SubmitWait(context.Background(), nop) }()
		wantErr(t, "displaced", <-errs, shoal.ErrDropped)
		p.Shutdown(canceledContext())
		wantErr(t, "discarded by a Shutdown that ran out of time", <-errs, shoal.ErrDropped)
		release()
		<-p.Done()
		closeAll(t, p)
	})
}

// H13: the pool's context ends.

func TestH13_SubmitAfterThePoolsContextEndedReturnsErrClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.Background())
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithContext(parent))...)
		release := hold(t, p, 1)
		y := newTally(3)
		y.note(0, p.Submit(y.task(0)))
		blocked := inBackground(func() { wantErr(t, "blocked Submit", y.note(1, p.Submit(y.task(1))), shoal.ErrClosed) })
		synctest.Wait()
		cancel()
		<-blocked
		wantErr(t, "Submit", y.note(2, p.Submit(y.task(2))), shoal.ErrClosed)
		release()
		<-p.Done()
		closeAll(t, p)
		y.checkDropped(t, 1)
	})
}

// H14: no helper goroutine.

func TestH14_ADeadlineOnShutdownLeaksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for range 50 {
			p := newPool(t, fixed(1)...)
			release := hold(t, p, 1)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			before := len(testpool.Goroutines())
			wantErr(t, "Shutdown", p.Shutdown(ctx), context.DeadlineExceeded)
			if n := len(testpool.Goroutines()); n != before {
				t.Errorf("%d goroutines of pools, %d before Shutdown ran out of time", n, before)
			}
			release()
			<-p.Done()
			cancel()
			closeAll(t, p)
		}
	})
}

// H16: growth may be delayed by a Sizer, not denied.

// never says no.
type never struct{ asked atomic.Int64 }

func (n *never) Grow(shoal.Sizing) bool { n.asked.Add(1); return false }

func TestH16_TasksStartBesideBlockedOnesWhateverTheSizerSays(t *testing.T) {
	for _, test := range []struct {
		name  string
		sizer func() shoal.Sizer
	}{
		{"Auto", shoal.Auto},
		{"Eager", shoal.Eager},
		{"Balanced", shoal.Balanced},
		{"Lazy", shoal.Lazy},
		{"Rated(1000)", func() shoal.Sizer { return shoal.Rated(1000) }},
		{"never", func() shoal.Sizer { return new(never) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const workers = 100
				p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithSizing(test.sizer()), shoal.WithQueueCapacity(shoal.Unbounded))
				y := newTally(workers)
				gate := make(chan struct{})
				for i := range workers - 1 {
					if err := p.Submit(func() { y.hit(i); <-gate }); err != nil {
						t.Fatal(err)
					}
					if i%9 == 0 {
						synctest.Wait()
					}
				}
				if err := p.Submit(y.task(workers - 1)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the blocked ones are still blocked
				y.check(t)
				close(gate)
				shutClean(t, p)
			})
		})
	}
}

func TestH16_TheSizerIsAskedAgainWhileTasksWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		sizer := new(never)
		p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithSizing(sizer))
		release := hold(t, p, 1)
		was := sizer.asked.Load()
		release2 := hold(t, p, 1)
		if n := sizer.asked.Load() - was; n < 2 {
			t.Errorf("asked %d times for a task behind a blocked one, want more than once", n)
		}
		release()
		release2()
		shutClean(t, p)
	})
}

// H17: idle workers leave by age, all that are due.

func TestH17_AllIdleWorkersLeaveAtTheTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const d = 3 * time.Second
		p := newPool(t, shoal.WithMaxWorkers(100), shoal.WithMinWorkers(10), shoal.WithIdleTimeout(d))
		hold(t, p, 100)()
		synctest.Wait()
		if n := p.Stats().Workers; n != 100 {
			t.Errorf("%d workers, want 100", n)
		}
		<-time.After(d - 1)
		synctest.Wait()
		if n := p.Stats().Workers; n != 100 {
			t.Errorf("%d workers before the timeout, want 100", n)
		}
		<-time.After(1)
		synctest.Wait()
		if n := p.Stats().Workers; n != 10 {
			t.Errorf("%d workers at the timeout, want the minimum of 10", n)
		}
		runsMore(t, p, 100)
		shutClean(t, p)
	})
}

func TestH17_IdleTimeoutZeroLeavesWhenTheQueueDrains(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(20), shoal.WithMinWorkers(2), shoal.WithIdleTimeout(0))
		hold(t, p, 20)()
		synctest.Wait()
		if n := p.Stats().Workers; n != 2 {
			t.Errorf("%d workers after the queue drained, want 2", n)
		}
		runsMore(t, p, 100)
		shutClean(t, p)
	})
}

// H18: a second Shutdown waits as the first.

func TestH18_EveryShutdownWaitsForTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		var calls []<-chan struct{}
		for range 4 {
			calls = append(calls, inBackground(func() {
				if err := p.Shutdown(context.Background()); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
				checkEnded(t, p)
			}))
			synctest.Wait()
		}
		for i, c := range calls {
			if isClosed(c) {
				t.Errorf("call %d returned while a task ran", i)
			}
		}
		release()
		for _, c := range calls {
			<-c
		}
	})
}

// H19: Shutdown is driven by events, and leaves nothing.

func TestH19_ShutdownTakesNoTimeAndLeavesNoTimer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(50), shoal.WithIdleTimeout(time.Hour))
		hold(t, p, 50)()
		synctest.Wait() // parked, with the reclaimer armed
		begin := time.Now()
		shutClean(t, p)
		if d := time.Since(begin); d != 0 {
			t.Errorf("Shutdown took %v", d)
		}
		<-time.After(2 * time.Hour) // nothing is due
		synctest.Wait()
		testpool.NoGoroutines(t)
	})
}

// H20: tasks per worker are counted over a life.

func TestH20_TasksPerWorkerAreCountedOverALife(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const per, lives = 3, 5
		var mu sync.Mutex
		var log []string
		note := func(s string) { mu.Lock(); log = append(log, s); mu.Unlock() }
		p := newPool(t, fixed(1, shoal.WithMaxTasksPerWorker(per), shoal.WithWorkerHooks(
			func(int) { note("start") }, func(int) { note("stop") }))...)
		var want []string
		for i := range per * lives {
			if i%per == 0 {
				want = append(want, "start")
			}
			want = append(want, "task")
			if i%per == per-1 {
				want = append(want, "stop")
			}
			synctest.Wait() // the worker is parked
			if err := p.Submit(func() { note("task") }); err != nil {
				t.Fatal(err)
			}
			p.Wait()
		}
		synctest.Wait()
		want = append(want, "start") // the minimum
		mu.Lock()
		if !slices.Equal(log, want) {
			t.Errorf("%v\nwant %v", log, want)
		}
		mu.Unlock()
		shutClean(t, p)
	})
}

// H23: an idle pool is its parked workers and nothing else.

func TestH23_AnIdlePoolHasNoGoroutineBesideItsParkedWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		before := len(testpool.Goroutines()) // of a test that failed
		p := newPool(t, shoal.WithMaxWorkers(20), shoal.WithMinWorkers(5))
		synctest.Wait()
		if n := len(testpool.Goroutines()) - before; n != 5 {
			t.Errorf("%d goroutines in a new pool, want its 5 workers", n)
		}
		hold(t, p, 20)()
		synctest.Wait()
		if n := len(testpool.Goroutines()) - before; n != 20 {
			t.Errorf("%d goroutines in an idle pool, want its 20 workers", n)
		}
		if n := len(workerIDs(p)); n != 20 {
			t.Errorf("Workers has %d, want 20", n)
		}
		for w := range p.Workers() {
			if w.State != shoal.WorkerParked {
				t.Errorf("worker %d is %v", w.ID, w.State)
			}
		}
		shutClean(t, p)

		p = newPool(t, shoal.WithMaxWorkers(20))
		if n := len(testpool.Goroutines()) - before; n != 0 {
			t.Errorf("%d goroutines in a new pool without a minimum", n)
		}
		shutClean(t, p)
	})
}

// H24: a panic handler that panics, or calls runtime.Goexit, ends the process, after the
// task was counted and its waiters have got its result.

// A lateValue is what a task panics with. To print it, as the end of the process does,
// waits until the counters and the waiters were seen to be right.
type lateValue struct{ seen chan struct{} }

func (v lateValue) Error() string { <-v.seen; return "the task's own" }

// failingHandler is a name to find in a stack.
//
//go:noinline
func failingHandler(how string) {
	if how == "Goexit" {
		runtime.Goexit()
	}
	panic("in the handler")
}

// failInHandler is what the other process does. The task is of that kind.
func failInHandler(kind, how string) {
	full := map[string]shoal.FullPolicy{"Spawn": shoal.Spawn, "CallerRuns": shoal.CallerRuns}
	v := lateValue{make(chan struct{})}
	opts := fixed(1, shoal.WithName("h24"), shoal.WithPanicHandler(func(*shoal.PanicError) { failingHandler(how) }))
	if policy, ok := full[kind]; ok {
		opts = append(opts, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))
	}
	p := shoal.Must(shoal.New(opts...))
	ctx := context.Background()
	fail := func(context.Context) error { panic(v) }
	result := make(chan error, 1)
	wait := func(s *shoal.Pool) error {
		s.Wait()
		return &shoal.PanicError{Value: v} // as from the others
	}
	completed := uint64(1)
	switch kind {
	case "Submit":
		p.Submit(func() { panic(v) })
		result <- wait(p)
	case "SubmitWait":
		result <- p.SubmitWait(ctx, fail)
	case "Future":
		_, err := shoal.Go(ctx, p, func(ctx context.Context) (int, error) { return 0, fail(ctx) }).Wait(ctx)
		result <- err
	case "Group":
		g := p.Group(ctx)
		g.Go(fail)
		result <- g.Wait()
	case "Map":
		for _, err := range shoal.Map(ctx, p, upTo(1), func(ctx context.Context, _ int) (int, error) { return 0, fail(ctx) }) {
			result <- err
		}
	case "Keyed": // and one that has left its turn
		k := shoal.NewKeyed[int](p)
		began, gate := make(chan struct{}), make(chan struct{})
		k.Submit(1, func() { close(began); <-gate; panic(v) })
		<-began
		k.Submit(1, func() {}) // which nobody runs any more
		close(gate)
		for p.Stats().Failed == 0 {
			runtime.Gosched()
		}
		result <- &shoal.PanicError{Value: v}
	case "Spawn", "CallerRuns":
		began, gate := make(chan struct{}), make(chan struct{})
		p.Submit(func() { close(began); <-gate })
		<-began
		go func() {
			defer func() { recover() }() // which must not save the process
			p.Submit(func() { panic(v) })
		}()
		for p.Stats().Failed == 0 {
			runtime.Gosched()
		}
		close(gate)
		result <- wait(p)
		completed = 2
	case "inside a task that waits":
		f := make(chan *shoal.Future[int], 1)
		go p.Submit(func() {
			defer func() { recover() }()
			u := shoal.Go(ctx, p, func(ctx context.Context) (int, error) { return 0, fail(ctx) })
			f <- u
			u.Wait(ctx)
		})
		_, err := (<-f).Wait(ctx)
		result <- err
	case "sub-pool":
		s, _ := p.Sub(shoal.WithName("h24"))
		s.Submit(func() { panic(v) })
		result <- wait(s)
		p = s
	}
	var e *shoal.PanicError
	if !errors.As(<-result, &e) || e.Value != v {
		fmt.Println("the waiter got something else")
	}
	if s := p.Stats(); s.Failed != 1 || s.Completed != completed {
		fmt.Printf("%+v\n", s)
	}
	fmt.Println("served")
	close(v.seen)
	select {}
}

func TestH24_APanicHandlerThatFailsEndsTheProcess(t *testing.T) {
	if kind := os.Getenv(crashEnv); kind != "" {
		kind, how, _ := strings.Cut(kind, "/")
		go failInHandler(kind, how)
		select {}
	}
	for _, kind := range []string{"Submit", "SubmitWait", "Future", "Group", "Map", "Keyed", "Spawn", "CallerRuns", "inside a task that waits", "sub-pool"} {
		for how, text := range map[string]string{
			"panics": "the panic handler panicked: in the handler", "Goexit": "the panic handler called runtime.Goexit",
		} {
			t.Run(kind+"/"+how, func(t *testing.T) {
				stdout, stderr := wantCrash(t, kind+"/"+how, `panic: shoal: task of pool "h24" panicked: the task's own; `+text)
				if stdout != "served\n" {
					t.Errorf("it printed %q", stdout)
				}
				// Two lines down is the handler's goroutine, and then the handler.
				if _, stack, _ := strings.Cut(stderr, text); !regexp.MustCompile(`^\n\s*\n\s*goroutine .*\n\s*github.com/shoal-go/shoal/tests\.failingHandler\(`).MatchString(stack) {
					t.Errorf("the stack does not begin with the handler:\n%s", stderr)
				}
			})
		}
	}
}

// wantCrash has the calling test run again, alone, in another process, which must end with
// status 2 and text among what it prints.
func wantCrash(t *testing.T, kind, text string) (stdout, stderr string) {
	t.Helper()
	cmd := crashCommand(t, kind)
	cmd.Args = append(cmd.Args, "-test.timeout=1m")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("the process ended with %v, want status 2", err)
	}
	if !strings.Contains(errs.String(), text) {
		t.Errorf("no %q in what it printed:\n%s%s", text, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// What must not call runtime.Goexit: that is a bug, which ends the process.
func TestH24_GoexitWhereItMustNotBeEndsTheProcess(t *testing.T) {
	ctx := context.Background()
	nop := func(context.Context) error { return nil }
	pool := func(opts ...shoal.Option) *shoal.Pool {
		return shoal.Must(shoal.New(fixed(1, append(opts, shoal.WithName("h24"))...)...))
	}
	traced := func(in string) *shoal.Pool { return pool(shoal.WithTracer(exitingTracer{in})) }
	cases := map[string]func(){
		"Tracer.Submitted":             func() { traced("Submitted").SubmitWait(ctx, nop) },
		"Tracer.Started":               func() { traced("Started").SubmitWait(ctx, nop) },
		"the end function of a Tracer": func() { traced("end").SubmitWait(ctx, nop) },
		"Tracer.Refused": func() {
			p := traced("Refused")
			p.Close()
			p.SubmitWait(ctx, nop)
		},
		"the alarm handler": func() {
			p := pool(shoal.WithSlowTask(time.Millisecond), shoal.WithAlarmHandler(func(shoal.Alarm) { runtime.Goexit() }),
				shoal.WithLogger(slog.New(slog.DiscardHandler)))
			p.Submit(func() { select {} })
		},
		"the log": func() {
			pool(shoal.WithLogger(slog.New(exitingLog{slog.DiscardHandler}))).Submit(func() { panic("to be logged") })
		},
		"the log, of an error": func() { pool().Submit(func() { panic(exitingError{}) }) },
		"the lost function of a Reservation": func() {
			p := pool()
			r, _ := p.Reserve(ctx, 1)
			ended, cancel := context.WithCancel(ctx)
			began, gate := make(chan struct{}), make(chan struct{})
			p.Submit(func() { close(began); <-gate })
			<-began
			r.Submit(ended, nop, func(error) { runtime.Goexit() })
			cancel()
			close(gate)
		},
	}
	if kind := os.Getenv(crashEnv); kind != "" {
		go cases[kind]()
		select {}
	}
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			who, _, _ := strings.Cut(name, ",")
			wantCrash(t, name, "panic: shoal: "+who+` of pool "h24" called runtime.Goexit`)
		})
	}
}

// An exitingError ends the goroutine that prints it.
type exitingError struct{}

func (exitingError) Error() string { runtime.Goexit(); return "" }

// An exitingLog ends the goroutine that logs.
type exitingLog struct{ slog.Handler }

func (exitingLog) Enabled(context.Context, slog.Level) bool { runtime.Goexit(); return false }

// checkPanicError checks that err is what a panic of value becomes.
func checkPanicError(t testing.TB, err error, value any) {
	t.Helper()
	var e *shoal.PanicError
	if !errors.As(err, &e) || e == nil {
		t.Errorf("%T, nil inside: %v; want a *PanicError", err, e == nil)
		return
	}
	if e.Value != value || len(e.Stack) == 0 || !strings.Contains(e.Error(), "panicked") {
		t.Errorf("Value %v, %d bytes of stack, %v; want Value %v", e.Value, len(e.Stack), e, value)
	}
	if cause, ok := value.(error); ok {
		wantErr(t, "unwrapped", err, cause)
	}
}

// H25: memory returns after a burst, and nothing holds what tasks held.

func TestH25_MemoryReturnsAfterABurst(t *testing.T) {
	p := newPool(t, fixed(2, shoal.WithQueueCapacity(shoal.Unbounded))...)
	runsMore(t, p, 1000)
	before := heapInUse()
	const n = 1 << 20
	p.Pause()
	var ran atomic.Int64
	task := func() { ran.Add(1) }
	for range n {
		if err := p.Submit(task); err != nil {
			t.Fatal(err)
		}
	}
	peak := heapInUse()
	p.Resume()
	p.Wait()
	after := heapInUse()
	if ran.Load() != n {
		t.Errorf("%d tasks ran, want %d", ran.Load(), n)
	}
	if word := int64(4 << (^uint(0) >> 63)); peak-before < n*word {
		t.Errorf("the burst took %d bytes; is this test looking at the right thing?", peak-before)
	}
	if kept := after - before; kept > 1<<20 {
		t.Errorf("%d bytes kept after a burst that took %d", kept, peak-before)
	}
	shutClean(t, p)
}

func TestH25_AnIdlePoolHoldsNoClosure(t *testing.T) {
	type big [1 << 20]byte
	var refs []weak.Pointer[big]
	capture := func() *big {
		b := new(big)
		refs = append(refs, weak.Make(b))
		return b
	}
	p := newPool(t, fixed(2, shoal.WithIdleTimeout(shoal.Forever), shoal.WithQueueCapacity(4))...)
	use := func(b *big) func() { return func() { b[0]++ } }
	nop := func() {}

	for range 6 {
		b := capture()
		if err := p.Submit(use(b)); err != nil {
			t.Fatal(err)
		}
	}
	func() { // with a context, and a result
		b := capture()
		if err := p.SubmitContext(context.WithValue(t.Context(), b, b), func(context.Context) { b[0]++ }); err != nil {
			t.Fatal(err)
		}
		if err := p.SubmitWait(t.Context(), func(context.Context) error { b[1]++; return errors.ErrUnsupported }); err == nil {
			t.Error("no error")
		}
	}()
	func() { // that panics
		b := capture()
		p.SubmitWait(t.Context(), func(context.Context) error { b[0]++; runtime.Goexit(); return nil })
	}()
	func() { // that is not yet due, and stopped
		b := capture()
		stop, err := p.SubmitAfter(time.Hour, use(b))
		if err != nil || !stop() {
			t.Error(err)
		}
	}()
	func() { // that was displaced, or never admitted
		p.Pause()
		for range 4 + 2 { // the capacity, and the workers
			if err := p.Submit(use(capture())); err != nil {
				t.Fatal(err)
			}
		}
		wantErr(t, "TrySubmit", p.TrySubmit(use(capture())), shoal.ErrQueueFull)
		ctx, cancel := context.WithCancel(t.Context())
		b := capture()
		waits := inBackground(func() { p.SubmitContext(ctx, func(context.Context) { b[0]++ }) })
		for p.Stats().Blocked == 0 {
			runtime.Gosched()
		}
		cancel()
		<-waits
		p.Resume()
	}()
	p.Wait()
	hold(t, p, 2)() // both workers have seen another task
	if err := p.Submit(nop); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	alive(0, refs...)
	for i, r := range refs {
		if r.Value() != nil {
			t.Errorf("object %d of %d, captured by a task, is still reachable", i, len(refs))
		}
	}
	shutClean(t, p)
}

func TestH25_TasksBesideTheWorkersAreNotHeldEither(t *testing.T) {
	type big [1 << 16]byte
	for _, policy := range []shoal.FullPolicy{shoal.Spawn, shoal.CallerRuns} {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))...)
		release := hold(t, p, 1)
		ref := func() weak.Pointer[big] {
			b := new(big)
			for range 3 {
				if err := p.SubmitContext(t.Context(), func(ctx context.Context) {
					runtime.KeepAlive(b)
					ctx.Done() // so that the context is more than the task
				}); err != nil {
					t.Fatal(err)
				}
			}
			return weak.Make(b)
		}()
		release()
		p.Wait()
		if alive(0, ref) > 0 {
			t.Errorf("%v: an object captured by a task is still reachable", policy)
		}
		shutClean(t, p)
	}
}

func TestH25_AClosedPoolHoldsNothing(t *testing.T) {
	type big [1 << 16]byte
	b := new(big)
	ref := weak.Make(b)
	p := newPool(t, fixed(1)...)
	release := hold(t, p, 1)
	for range 10 {
		if err := p.Submit(func() { b[0]++ }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.SubmitAfter(time.Hour, func() { b[0]++ }); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Shutdown", p.Shutdown(canceledContext()), context.Canceled)
	b = nil
	release()
	closeAll(t, p)
	if alive(0, ref) > 0 {
		t.Error("an object captured by dropped tasks is still reachable")
	}
	if s := p.Stats(); s.Dropped != 11 {
		t.Errorf("%+v", s)
	}
}

// H26: everything 64 bits wide is aligned, on 32-bit machines too. This test
// is the same everywhere; GOARCH=386 is where it could fail.

func TestH26_EveryCounterIsTouched(t *testing.T) {
	noLog(t)
	p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1), shoal.WithTiming(shoal.TimingFull), shoal.WithSizing(shoal.Rated(3)))
	release := hold(t, p, 2)
	y := newTally(3)
	y.note(0, p.Submit(y.task(0)))
	wantErr(t, "TrySubmit", y.note(1, p.TrySubmit(y.task(1))), shoal.ErrQueueFull)
	release()
	p.Wait()
	y.note(2, p.Submit(func() { y.hit(2); panic("on purpose") }))
	p.Wait()
	y.checkAccepted(t)
	s := p.Stats()
	if s.Submitted != 4 || s.Completed != 4 || s.Failed != 1 || s.Rejected != 1 || s.RunTime.Count != 4 || s.WaitTime.Count != 4 {
		t.Errorf("%+v", s)
	}
	var executed, failed uint64
	for w := range p.Workers() {
		executed += w.Executed
		failed += w.Failed
	}
	if executed != 4 || failed != 1 {
		t.Errorf("the workers executed %d, failed %d", executed, failed)
	}
	shutClean(t, p)
}

// H27: never more workers than the maximum, also while one replaces another.

func TestH27_NeverMoreWorkersThanTheMaximum(t *testing.T) {
	const limit, n = 3, 5000
	var live, most atomic.Int32
	p := newPool(t, shoal.WithMaxWorkers(limit), shoal.WithMinWorkers(1), shoal.WithMaxTasksPerWorker(1),
		shoal.WithIdleTimeout(0), shoal.WithWorkerHooks(
			func(int) {
				if l := live.Add(1); l > limit {
					most.Store(l)
				}
			},
			func(int) { live.Add(-1) }))
	stop := make(chan struct{})
	watched := inBackground(func() {
		for !isClosed(stop) {
			if s := p.Stats(); s.Workers > limit || s.PeakWorkers > limit || s.Running > limit {
				t.Errorf("%+v", s)
				return
			}
			runtime.Gosched()
		}
	})
	y := newTally(n)
	for i := range n {
		task := y.task(i)
		if i%50 == 0 {
			task = func() { y.hit(i); runtime.Goexit() }
		}
		if err := p.Submit(task); err != nil {
			t.Fatal(err)
		}
	}
	p.Wait()
	y.check(t)
	close(stop)
	<-watched
	if m := most.Load(); m != 0 {
		t.Errorf("%d workers at once between their hooks, want at most %d", m, limit)
	}
	shutClean(t, p)
}

// H28: what one task does to its goroutine does not reach the next.

// labelled reports whether any goroutine carries the label value.
func labelled(t testing.TB, value string) bool {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		t.Error(err)
	}
	return strings.Contains(b.String(), value)
}

func TestH28_LabelsOfATaskDoNotReachTheNext(t *testing.T) {
	noLog(t)
	for name, end := range map[string]func(){
		"return": func() {},
		"panic":  func() { panic("on purpose") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1, shoal.WithName("h28-pool"))...)
				const label = "h28-of-one-task"
				set := func(ctx context.Context) {
					pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("task", label)))
					if !labelled(t, label) {
						t.Error("the profile does not show the label while the task runs")
					}
				}
				check := func() {
					if labelled(t, label) {
						t.Error("the next task carries the label")
					}
					if !labelled(t, "h28-pool") {
						t.Error("the next task does not carry the pool's name")
					}
				}
				for _, next := range []func(){
					func() { must(t, p.Submit(check)) },
					func() { must(t, p.SubmitContext(t.Context(), func(context.Context) { check() })) },
				} {
					// One after the other without a pause between them.
					release := hold(t, p, 1)
					p.Submit(func() { set(context.Background()); end() })
					next()
					release()
					p.Wait()
					// And after an idle moment.
					p.SubmitContext(t.Context(), func(ctx context.Context) { set(ctx); end() })
					synctest.Wait()
					if labelled(t, label) {
						t.Error("an idle worker carries the label")
					}
					next()
					p.Wait()
				}
				shutClean(t, p)
			})
		})
	}
}

func TestH28_LabelsOfASubmitterDoNotReachTheTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const label = "h28-of-the-submitter"
		p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		var found atomic.Int32
		gate := make(chan struct{})
		submitted := inBackground(func() {
			pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("submitter", label)))
			p.Submit(func() { <-gate }) // on a worker that is started here
			p.Submit(func() { <-gate }) // on a goroutine of its own
		})
		<-submitted
		synctest.Wait()
		if labelled(t, label) {
			found.Add(1)
		}
		close(gate)
		if found.Load() != 0 {
			t.Error("the tasks carry the label of the goroutine that submitted them")
		}
		shutClean(t, p)
	})
}

// H29: a pool can be used wholly inside a bubble, and the package keeps
// nothing of it.

func TestH29_APoolInsideABubbleTwice(t *testing.T) {
	noLog(t)
	for range 2 {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(2), shoal.WithName("bubble"))
			runsMore(t, p, 100)
			hold(t, p, 4)()
			p.Submit(func() { panic("on purpose") })
			p.Submit(runtime.Goexit)
			begin := time.Now()
			due := make(chan time.Time, 1)
			if _, err := p.SubmitAfter(time.Minute, func() { due <- time.Now() }); err != nil {
				t.Fatal(err)
			}
			if d := (<-due).Sub(begin); d != time.Minute {
				t.Errorf("due after %v", d)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := p.SubmitWait(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			wantErr(t, "SubmitWait", err, context.DeadlineExceeded)
			cancel()
			p.Wait()
			shutClean(t, p)
		})
	}
}

// H30: the wrong thing done has a documented result.

func TestH30_WaitFromAnOwnTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		var panicked any
		p.Submit(func() {
			defer func() { panicked = recover() }()
			p.Wait()
		})
		must(t, p.SubmitContext(t.Context(), func(ctx context.Context) {
			wantErr(t, "WaitContext(the task's)", p.WaitContext(ctx), shoal.ErrWouldDeadlock)
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			wantErr(t, "WaitContext(derived)", p.WaitContext(derived), shoal.ErrWouldDeadlock)
			wantErr(t, "WaitContext(another)", p.WaitContext(context.Background()), shoal.ErrWouldDeadlock)
			wantErr(t, "WaitContext(one that has ended)", p.WaitContext(canceledContext()), shoal.ErrWouldDeadlock)
		}))
		p.Wait()
		err, _ := panicked.(error)
		wantErr(t, "the panic of Wait in an own task", err, shoal.ErrWouldDeadlock)
		if s := fmt.Sprint(panicked); !strings.HasPrefix(s, "shoal: Wait called from a task") {
			t.Errorf("Wait from an own task: panic %v, want one that says so", panicked)
		}
		shutClean(t, p)
	})
}

func TestH30_ShutdownAndCloseFromAnOwnTask(t *testing.T) {
	for name, end := range map[string]func(p *shoal.Pool, ctx context.Context) error{
		"Shutdown(the task's)": func(p *shoal.Pool, ctx context.Context) error { return p.Shutdown(ctx) },
		"Shutdown(another)":    func(p *shoal.Pool, _ context.Context) error { return p.Shutdown(context.Background()) },
		"Close":                func(p *shoal.Pool, _ context.Context) error { return p.Close() },
	} {
		for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn, shoal.CallerRuns} {
			t.Run(name+"/"+policy.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))...)
					release := func() {}
					if policy != shoal.Block {
						release = hold(t, p, 1) // so the task runs elsewhere
					}
					var got error
					err := p.SubmitContext(t.Context(), func(ctx context.Context) { got = end(p, ctx) })
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					release()
					synctest.Wait()
					wantErr(t, name, got, shoal.ErrWouldDeadlock)
					if closed := p.State() == shoal.Closed; closed != (name != "Shutdown(the task's)") {
						t.Errorf("%v afterwards", p.State())
					}
					closeAll(t, p)
				})
			})
		}
	}
}

func TestH30_ResizeAndPauseFromAnOwnTaskWork(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		err := p.SubmitWait(t.Context(), func(context.Context) error {
			p.Pause()
			p.Resume()
			return p.Resize(2, 4)
		})
		if err != nil {
			t.Error(err)
		}
		hold(t, p, 4)()
		shutClean(t, p)
	})
}

// More pools may be alive than the pool has ways to recognize its own tasks
// by their stacks. A task must not hang for that.
func TestH30_AnOwnTaskIsKnownAmongManyPools(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var pools []*shoal.Pool
		for range 70 {
			pools = append(pools, newPool(t, fixed(1, shoal.WithQueueCapacity(0))...))
		}
		for i, p := range pools {
			done := make(chan struct{})
			y := newTally(2)
			p.Submit(func() {
				y.hit(0)
				y.note(1, p.Submit(y.task(1)))
				close(done)
			})
			synctest.Wait()
			if !isClosed(done) {
				t.Errorf("pool %d of %d: Submit from a task of its own, the queue full, blocks for ever", i+1, len(pools))
				p.Resize(2, 2) // make room
				<-done
				break
			}
			y.check(t)
		}
		for _, p := range pools {
			if err := p.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		}
		testpool.NoGoroutines(t)
	})
}

// TestH30_ATaskIsKnownHoweverItRuns: a SubmitWait without the task's context runs its task right there.
func TestH30_ATaskIsKnownHoweverItRuns(t *testing.T) {
	ways := map[string]func(p *shoal.Pool, task func()) error{
		"Submit": (*shoal.Pool).Submit,
		"a claimed task": func(p *shoal.Pool, task func()) error {
			return p.Submit(func() {
				ctx := context.Background()
				g := p.Group(ctx)
				g.Go(func(context.Context) error { task(); return nil })
				g.Wait()
			})
		},
		"a task of a key": func(p *shoal.Pool, task func()) error { return shoal.NewKeyed[int](p).Submit(1, task) },
		"Range": func(p *shoal.Pool, task func()) error {
			return shoal.Range(context.Background(), p, 1, func(context.Context, int, int) error { task(); return nil })
		},
		"Reserve": func(p *shoal.Pool, task func()) error {
			r, err := p.Reserve(context.Background(), 1)
			if err != nil {
				return err
			}
			return r.Submit(context.Background(), func(context.Context) error { task(); return nil }, nil)
		},
		"a full queue": func(p *shoal.Pool, task func()) error {
			release := make(chan struct{})
			for p.TrySubmit(func() { <-release }) == nil {
			}
			err := p.Submit(task)
			close(release)
			return err
		},
	}
	for how, submit := range ways {
		for depth := range 3 { // sub-pools, one below the other
			for _, policy := range []shoal.FullPolicy{shoal.Spawn, shoal.CallerRuns} {
				name := fmt.Sprintf("%s, %d pools above, %v", how, depth, policy)
				opts := []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy)}
				root := newPool(t, opts...)
				p := root
				for range depth {
					p = newSub(t, p, opts...)
				}
				ran := make(chan bool, 1)
				must(t, submit(p, func() {
					outer, inner := goid(), ""
					if err := p.SubmitWait(context.Background(), func(context.Context) error { inner = goid(); return nil }); err != nil {
						t.Errorf("%s: SubmitWait: %v", name, err)
					}
					ran <- inner == outer
				}))
				if !<-ran {
					t.Errorf("%s: the task of SubmitWait ran elsewhere", name)
				}
				shutClean(t, root)
			}
		}
	}
}

// TestH30_WhoClosesALocalIsKnown: the worker has no task any more, and the pool waits for it.
func TestH30_WhoClosesALocalIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for depth := range 2 {
			p := newPool(t, fixed(1, shoal.WithMaxTasksPerWorker(1))...)
			if depth > 0 {
				newSub(t, p)
			}
			got := make(chan error, 1)
			l := shoal.NewLocal(p, func(int) (int, error) { return 1, nil }, func(int) { got <- p.Close() })
			must(t, p.SubmitWait(t.Context(), func(ctx context.Context) error {
				_, err := l.Get(ctx)
				return err
			}))
			wantErr(t, "Close from the close function of a Local", <-got, shoal.ErrWouldDeadlock)
			<-p.Done()
		}
	})
}

// TestH30_ATaskThatOutlivesTheTaskItRunsInIsKnown: a goroutine of a task runs a task of a sub-pool as a part
// of the first task. Meanwhile the first task ends, and has no worker any more.
func TestH30_ATaskThatOutlivesTheTaskItRunsInIsKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		s := newSub(t, p)
		ran, ended, got := make(chan struct{}), make(chan struct{}), make(chan error, 2)
		must(t, p.SubmitContext(t.Context(), func(ctx context.Context) {
			go func() {
				shoal.Go(context.Background(), s, func(context.Context) (int, error) {
					close(ran)
					<-ended
					got <- s.WaitContext(context.Background())
					got <- s.Close()
					return 0, nil
				}).Wait(ctx)
			}()
			<-ran
		}))
		<-ran
		synctest.Wait() // the worker is parked
		close(ended)
		wantErr(t, "Wait", <-got, shoal.ErrWouldDeadlock)
		wantErr(t, "Close", <-got, shoal.ErrWouldDeadlock)
		<-s.Done()
		shutClean(t, p)
	})
}

// A context that is not the task's must not make a task wait for itself.
func TestH30_AnOwnTaskWithAForeignContextDoesNotHang(t *testing.T) {
	for name, submit := range map[string]func(p *shoal.Pool, y *tally) error{
		"SubmitContext": func(p *shoal.Pool, y *tally) error {
			return p.SubmitContext(context.Background(), y.taskCtx(0))
		},
		"SubmitWait": func(p *shoal.Pool, y *tally) error {
			return p.SubmitWait(context.Background(), func(context.Context) error { y.hit(0); return nil })
		},
	} {
		for _, capacity := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/capacity=%d", name, capacity), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
					y := newTally(1)
					done := make(chan error, 1)
					p.Submit(func() { done <- submit(p, y) })
					synctest.Wait()
					var err error
					select {
					case err = <-done:
					default:
						t.Error("it hangs")
						p.Resize(2, 2)
						err = <-done
					}
					p.Wait()
					if err == nil {
						y.check(t)
					} else {
						wantErr(t, name, err, shoal.ErrWouldDeadlock)
					}
					shutClean(t, p)
				})
			})
		}
	}
}

func TestH30_PanicsInHooksAreContained(t *testing.T) {
	for _, broken := range []string{"start", "stop", "both"} {
		t.Run(broken, func(t *testing.T) {
			var reported atomic.Int32
			var inStart, inStop int32
			hook := func(mine string) func(int) {
				return func(int) {
					if broken == mine || broken == "both" {
						panic(errors.New("in the hook"))
					}
				}
			}
			p := newPool(t, fixed(2, shoal.WithWorkerHooks(hook("start"), hook("stop")),
				shoal.WithPanicHandler(func(e *shoal.PanicError) { reported.Add(1) }))...)
			runsMore(t, p, 100)
			if broken != "stop" {
				inStart = 2
			}
			if broken != "start" {
				inStop = 2
			}
			shutClean(t, p)
			if n := reported.Load(); n != inStart+inStop {
				t.Errorf("%d panics reported, want %d", n, inStart+inStop)
			}
			if s := p.Stats(); s.Failed != 0 {
				t.Errorf("a hook's panic counts as a task's: %+v", s)
			}
		})
	}
}

func TestH30_EitherHookMayBeNil(t *testing.T) {
	var starts, stops atomic.Int32
	p := newPool(t, fixed(2, shoal.WithWorkerHooks(func(int) { starts.Add(1) }, nil))...)
	runsMore(t, p, 10)
	shutClean(t, p)
	p = newPool(t, fixed(2, shoal.WithWorkerHooks(nil, func(int) { stops.Add(1) }))...)
	runsMore(t, p, 10)
	shutClean(t, p)
	p = newPool(t, fixed(2, shoal.WithWorkerHooks(nil, nil))...)
	runsMore(t, p, 10)
	shutClean(t, p)
	if starts.Load() != 2 || stops.Load() != 2 {
		t.Errorf("%d calls of a start hook without a stop hook, %d of a stop hook without a start hook, want 2 each",
			starts.Load(), stops.Load())
	}
}

func TestH30_NilContexts(t *testing.T) {
	p := newPool(t, fixed(1)...)
	var null context.Context
	noTask := func(context.Context) {}
	noError := func(context.Context) error { return nil }
	number := func(context.Context) (int, error) { return 1, nil }
	same := func(_ context.Context, i int) (int, error) { return i, nil }
	noItem := func(context.Context, int) error { return nil }
	second := func(_ any, err error) error { return err }
	last := func(seq iter.Seq2[int, error]) (err error) {
		for _, err = range seq {
		}
		return err
	}
	keyed := shoal.NewKeyed[int](p)
	var future shoal.Future[int]
	r, err := p.Reserve(bg, 1)
	must(t, err)
	for name, f := range map[string]func() error{
		"SubmitContext":       func() error { return p.SubmitContext(null, noTask) },
		"SubmitWait":          func() error { return p.SubmitWait(null, noError) },
		"WaitContext":         func() error { return p.WaitContext(null) },
		"Shutdown":            func() error { return p.Shutdown(null) },
		"WithContext":         func() error { _, err := shoal.New(shoal.WithContext(null)); return err },
		"Reserve":             func() error { return second(p.Reserve(null, 1)) },
		"Reservation.Submit":  func() error { return r.Submit(null, noError, nil) },
		"Go":                  func() error { return second(shoal.Go(null, p, number).Wait(bg)) },
		"TryGo":               func() error { return second(shoal.TryGo(null, p, number)) },
		"Future.Wait":         func() error { return second(future.Wait(null)) },
		"Group":               func() error { return p.Group(null).Wait() },
		"Group.WaitContext":   func() error { return p.Group(bg).WaitContext(null) },
		"Keyed.SubmitContext": func() error { return keyed.SubmitContext(null, 1, noTask) },
		"GoKeyed":             func() error { return second(shoal.GoKeyed(null, keyed, 1, number).Wait(bg)) },
		"Range":               func() error { return shoal.Range(null, p, 1, func(context.Context, int, int) error { return nil }) },
		"ForEachSlice":        func() error { return shoal.ForEachSlice(null, p, []int{1}, noItem) },
		"MapSlice":            func() error { return second(shoal.MapSlice(null, p, []int{1}, same)) },
		"ForEach":             func() error { return shoal.ForEach(null, p, upTo(1), noItem) },
		"Map":                 func() error { return last(shoal.Map(null, p, upTo(1), same)) },
		"MapUnordered":        func() error { return last(shoal.MapUnordered(null, p, upTo(1), same)) },
		"an iterator for Map": func() error { return last(shoal.Map(bg, p, nil, same)) },
	} {
		err := f()
		wantErr(t, name+"(nil)", err, shoal.ErrConfig)
		if err == nil || !strings.Contains(err.Error(), "shoal: ") || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s(nil): %v, want an error that says so", name, err)
		}
	}
	r.Release()
	if s := p.Stats(); s.Submitted != 0 || s.State != shoal.Open {
		t.Errorf("%+v", s)
	}
	shutClean(t, p)
}

func TestH30_TheZeroPoolIsAClosedOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var p shoal.Pool
		checkRefusesAll(t, &p)
		p.Pause()
		p.Resume()
		p.Wait()
		if err := p.WaitContext(t.Context()); err != nil {
			t.Errorf("WaitContext: %v", err)
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if !isClosed(p.Done()) {
			t.Error("Done is open")
		}
		for range p.Workers() {
			t.Error("it has a worker")
		}
		checkEnded(t, &p)
	})
}

// checkRefusesAll checks that p, which is closed, refuses everything.
func checkRefusesAll(t testing.TB, p *shoal.Pool) {
	t.Helper()
	task := func() { t.Error("a refused task ran") }
	ctxTask := func(context.Context) { task() }
	errTask := func(context.Context) error { task(); return nil }
	wantErr(t, "Submit", p.Submit(task), shoal.ErrClosed)
	wantErr(t, "TrySubmit", p.TrySubmit(task), shoal.ErrClosed)
	wantErr(t, "SubmitContext", p.SubmitContext(context.Background(), ctxTask), shoal.ErrClosed)
	wantErr(t, "SubmitWait", p.SubmitWait(context.Background(), errTask), shoal.ErrClosed)
	n, err := p.SubmitBatch([]func(){task, task})
	wantErr(t, "SubmitBatch", err, shoal.ErrClosed)
	if n != 0 {
		t.Errorf("SubmitBatch accepted %d", n)
	}
	stop, err := p.SubmitAfter(0, task)
	wantErr(t, "SubmitAfter", err, shoal.ErrClosed)
	if stop != nil && stop() {
		t.Error("a refused task was stopped")
	}
	wantErr(t, "Resize", p.Resize(1, 1), shoal.ErrClosed)
}

func TestH30_NilOptions(t *testing.T) {
	p := newPool(t, nil, shoal.WithMaxWorkers(3), nil)
	if n := p.Stats().MaxWorkers; n != 3 {
		t.Errorf("%d workers", n)
	}
	shutClean(t, p)
	p = newPool(t, shoal.WithPanicHandler(nil))
	noLog(t)
	p.Submit(func() { panic("on purpose") })
	runsMore(t, p, 1)
	shutClean(t, p)
	if _, err := shoal.New(shoal.WithSizing(nil)); !errors.Is(err, shoal.ErrConfig) {
		t.Errorf("WithSizing(nil): %v", err)
	}
}

// H31: goroutines that keep the CPUs busy do not stop the pool from growing.

// spin starts 4 × GOMAXPROCS goroutines that compute, until stop is called.
func spin() (stop func()) {
	var wg sync.WaitGroup
	var end atomic.Bool
	for range 4 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for x := uint64(1); !end.Load(); {
				for range 1000 {
					x ^= x << 13
					x ^= x >> 7
					x ^= x << 17
				}
			}
		})
	}
	return func() { end.Store(true); wg.Wait() }
}

func TestH31_BlockedTasksFinishBesideBusyNeighbours(t *testing.T) {
	const n = 64
	p := newPool(t, shoal.WithMaxWorkers(n))
	stop := spin()
	defer stop()
	y := newTally(n)
	var all sync.WaitGroup // each task waits for all later ones
	all.Add(n)
	for i := range n {
		if err := p.Submit(func() { all.Done(); all.Wait(); y.hit(i) }); err != nil {
			t.Fatal(err)
		}
	}
	p.Wait()
	stop()
	y.check(t)
	shutClean(t, p)
}

// S12: code for errgroup, ported by the letter. The tasks make their groups from the
// context of the group that they are in, not from their own, and one of these is under a
// sync.Once for which all other workers wait.
func TestS12_NestedGroupsWhateverTheirContext(t *testing.T) {
	family := func(p *shoal.Pool) *shoal.Pool {
		s, err := p.Sub()
		must(t, err)
		return s
	}
	for name, pools := range map[string]func(p *shoal.Pool) (of, on *shoal.Pool){
		"one pool":               func(p *shoal.Pool) (of, on *shoal.Pool) { return p, p },
		"a sub-pool":             func(p *shoal.Pool) (of, on *shoal.Pool) { s := family(p); return s, s },
		"from the parent":        func(p *shoal.Pool) (of, on *shoal.Pool) { return p, family(p) },
		"from a sub-pool":        func(p *shoal.Pool) (of, on *shoal.Pool) { return family(p), p },
		"from another sub-pool":  func(p *shoal.Pool) (of, on *shoal.Pool) { return family(p), family(p) },
		"a sub-pool of the next": func(p *shoal.Pool) (of, on *shoal.Pool) { s := family(p); return s, family(s) },
	} {
		for _, workers := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s, %d workers", name, workers), func(t *testing.T) {
				of, on := pools(openPool(t, fixed(workers)...))
				nested := func(ctx context.Context, n int) {
					g := on.Group(ctx)
					for range n {
						g.Go(func(context.Context) error {
							inner := on.Group(g.Context())
							inner.Go(func(context.Context) error { return nil })
							return inner.Wait()
						})
					}
					must(t, g.Wait())
				}
				outer := of.Group(t.Context())
				var once sync.Once
				made, others := make(chan struct{}), make(chan struct{}, workers)
				outer.Go(func(context.Context) error {
					once.Do(func() {
						g := on.Group(outer.Context()) // while other workers are free
						close(made)
						for range workers - 1 {
							<-others // has its worker
						}
						g.Go(func(context.Context) error { nested(g.Context(), 3); return nil })
						must(t, g.Wait())
					})
					return nil
				})
				<-made
				for range workers - 1 {
					outer.Go(func(context.Context) error {
						others <- struct{}{}
						once.Do(func() { t.Error("it is done twice") })
						nested(outer.Context(), 2)
						return nil
					})
				}
				for range 4 {
					outer.Go(func(context.Context) error { nested(outer.Context(), 2); return nil })
				}
				must(t, outer.Wait())
			})
		}
	}
}

// S12: the context may be that of a task around the one that makes the group and waits,
// and that task may end before.
func TestS12_AGroupWithTheContextOfATaskThatEnds(t *testing.T) {
	for _, sub := range []bool{false, true} {
		p := openPool(t, fixed(2)...)
		if sub {
			var err error
			p, err = p.Sub()
			must(t, err)
		}
		made, ended, taken, done := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
		must(t, p.SubmitContext(context.Background(), func(ctx context.Context) {
			must(t, p.Submit(func() {
				g := p.Group(context.WithoutCancel(ctx))
				close(made)
				<-taken
				g.Go(func(context.Context) error { return nil })
				must(t, g.Wait())
				close(done)
			}))
			<-made
			defer close(ended)
		}))
		<-ended
		must(t, p.Submit(func() { close(taken); <-done })) // has the other worker
		<-done
		p.Wait()
	}
}

// S12: a group that was made in a task, without its context, is used again by another task
// of the family.
func TestS12_AGroupThatAnotherTaskUsesAgain(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for i := range 8 {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(workers)...)
				s := newSub(t, p, shoal.WithMaxWorkers(1))
				pick := func(bit int) *shoal.Pool { return []*shoal.Pool{p, s}[i>>bit&1] }
				var g *shoal.Group
				use := func() {
					g.Go(func(context.Context) error { return nil })
					must(t, g.Wait())
				}
				must(t, pick(0).Submit(func() { g = pick(1).Group(bg); use() }))
				p.Wait()
				s.Wait()
				must(t, pick(2).Submit(use))
				p.Wait()
				s.Wait()
				shutClean(t, p)
			})
		}
	}
}

// S12, H2: a task that waits for one of another pool of its family runs it, if it must,
// also without its context.
func TestS12_WaitingInTheFamilyWithoutAContext(t *testing.T) {
	for _, most := range []int{1, 2} { // workers of the sub-pools
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1)...)
			pools := []*shoal.Pool{p, newSub(t, p, shoal.WithMaxWorkers(most)), newSub(t, p, shoal.WithMaxWorkers(most))}
			pools = append(pools, newSub(t, pools[1]))
			nop := func(context.Context) error { return nil }
			for _, of := range pools {
				for _, on := range pools {
					must(t, of.Submit(func() {
						must(t, on.SubmitWait(bg, nop))
						_, err := shoal.Go(bg, on, func(context.Context) (int, error) { return 1, nil }).Wait(bg)
						must(t, err)
						g := on.Group(bg)
						g.Go(nop)
						must(t, g.Wait())
						must(t, shoal.Range(bg, on, 10, func(context.Context, int, int) error { return nil }))
					}))
				}
			}
			for _, q := range pools {
				q.Wait()
			}
			shutClean(t, p)
		})
	}
}

// S12: the context tells of a task of the parent, and the stack of the one around that, in
// a pool between the two.
func TestS12_WaitingInTheFamilyWithTheContextOfATaskAbove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		between := newSub(t, p, shoal.WithMaxWorkers(1))
		below := newSub(t, between, shoal.WithMaxWorkers(1))
		nop := func(context.Context) error { return nil }
		must(t, between.SubmitWait(bg, func(context.Context) error {
			return p.SubmitWait(bg, func(ctx context.Context) error {
				must(t, below.SubmitWait(ctx, nop))
				g := below.Group(ctx)
				g.Go(nop)
				return g.Wait()
			})
		}))
		shutClean(t, p)
	})
}
