package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
)

// Every rule about time is tested under testing/synctest: its clock stands
// still while anything runs, so "exactly" in a name means to the nanosecond.
// A bubble whose goroutines do not all end fails its test.

// openPool makes a pool that is closed when the test ends.
func openPool(t testing.TB, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	p, err := shoal.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// must fails the test for an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// occupyEach has n tasks block inside p, and returns when all of them run. The
// returned function lets one of them return.
func occupyEach(t testing.TB, p *shoal.Pool, n int) (releaseOne func()) {
	t.Helper()
	started, gate := make(chan struct{}, n), make(chan struct{})
	for range n {
		must(t, p.Submit(func() { started <- struct{}{}; <-gate }))
	}
	for range n {
		<-started
	}
	return func() { gate <- struct{}{} }
}

// parkWorkers leaves n workers of p parked. It must run in a bubble.
func parkWorkers(t testing.TB, p *shoal.Pool, n int) {
	t.Helper()
	hold(t, p, n)()
	wantWorkers(t, p, n)
}

// wantWorkers checks the number of workers once all other goroutines of the
// bubble are parked.
func wantWorkers(t testing.TB, p *shoal.Pool, want int) {
	t.Helper()
	synctest.Wait()
	if got := p.Stats().Workers; got != want {
		t.Fatalf("%d workers, want %d", got, want)
	}
}

// workerIDs are the ids of the live workers.
func workerIDs(p *shoal.Pool) (ids []int) {
	for w := range p.Workers() {
		ids = append(ids, w.ID)
	}
	return ids
}

// selfID identifies the calling goroutine.
func selfID() int64 {
	var b [64]byte
	s := strings.TrimPrefix(string(b[:runtime.Stack(b[:], false)]), "goroutine ")
	id, err := strconv.ParseInt(s[:strings.IndexByte(s, ' ')], 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

func TestIdleWorkersLeaveAllAtOnceExactlyAtTheTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const d, n = 3 * time.Second, 7
		p := openPool(t, shoal.WithMaxWorkers(n), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(d))
		parkWorkers(t, p, n)
		time.Sleep(d - 1)
		wantWorkers(t, p, n)
		time.Sleep(time.Nanosecond)
		wantWorkers(t, p, 0)
		// And the pool is as good as new.
		parkWorkers(t, p, n)
		time.Sleep(d)
		wantWorkers(t, p, 0)
	})
}

func TestIdleWorkersLeaveByDefaultAfterFiveSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithSizing(shoal.Eager()))
		parkWorkers(t, p, 2)
		time.Sleep(shoal.DefaultIdleTimeout - 1)
		wantWorkers(t, p, 2)
		time.Sleep(time.Nanosecond)
		wantWorkers(t, p, 0)
		if shoal.DefaultIdleTimeout != 5*time.Second {
			t.Errorf("default idle timeout %v", shoal.DefaultIdleTimeout)
		}
	})
}

func TestIdleWorkersLeaveInTheOrderTheyWereLastUsed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const d, n = 10 * time.Second, 5
		p := openPool(t, shoal.WithMaxWorkers(n), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(d))
		release := occupyEach(t, p, n)
		var order []int // ids, as they park, one a second
		for range n {
			time.Sleep(time.Second)
			release()
			synctest.Wait()
			for w := range p.Workers() {
				if w.State == shoal.WorkerParked && !slices.Contains(order, w.ID) {
					order = append(order, w.ID)
				}
			}
		}
		if len(order) != n {
			t.Fatalf("%d workers parked one by one, want %d", len(order), n)
		}
		time.Sleep(d - (n-1)*time.Second - 1) // a moment before the first is due
		for i := range n {
			synctest.Wait()
			want := slices.Sorted(slices.Values(order[i:]))
			if got := workerIDs(p); !slices.Equal(got, want) {
				t.Fatalf("just before worker %d is due: %v live, want %v", order[i], got, want)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if slices.Contains(workerIDs(p), order[i]) {
				t.Fatalf("worker %d did not leave when due", order[i])
			}
			time.Sleep(time.Second - 1)
		}
	})
}

func TestIdleWorkerLivesTheTimeoutFromItsLastTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const d = 4 * time.Second
		p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(d))
		parkWorkers(t, p, 3)
		time.Sleep(d - 1)
		must(t, p.Submit(func() { time.Sleep(time.Second) })) // one works on
		time.Sleep(time.Nanosecond)
		wantWorkers(t, p, 1)
		for range 10 { // used again just in time, again and again
			time.Sleep(d - 1)
			wantWorkers(t, p, 1)
			must(t, p.Submit(func() {}))
			synctest.Wait()
		}
		time.Sleep(d - 1)
		wantWorkers(t, p, 1)
		time.Sleep(time.Nanosecond)
		wantWorkers(t, p, 0)
	})
}

func TestIdleTimeoutNeverGoesBelowTheMinimum(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const d = time.Second
		p := openPool(t, shoal.WithMinWorkers(2), shoal.WithMaxWorkers(6),
			shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(d))
		wantWorkers(t, p, 2)
		time.Sleep(100 * d)
		wantWorkers(t, p, 2)
		parkWorkers(t, p, 6)
		time.Sleep(d - 1)
		wantWorkers(t, p, 6)
		time.Sleep(time.Nanosecond)
		wantWorkers(t, p, 2)
		time.Sleep(1000 * time.Hour)
		wantWorkers(t, p, 2)
	})
}

// A busy worker counts towards the minimum; it is the idle ones that leave.
func TestIdleTimeoutCountsBusyWorkersTowardsTheMinimum(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const d = time.Second
		p := openPool(t, shoal.WithMinWorkers(2), shoal.WithMaxWorkers(4),
			shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(d))
		release := occupyEach(t, p, 4)
		release() // one idle, three busy
		time.Sleep(d)
		wantWorkers(t, p, 3)
		release() // two idle, none to spare beyond that
		release()
		time.Sleep(d - 1)
		wantWorkers(t, p, 3)
		time.Sleep(time.Nanosecond)
		wantWorkers(t, p, 2)
		time.Sleep(100 * d)
		wantWorkers(t, p, 2)
		release()
	})
}

func TestZeroIdleTimeoutLeavesWhenTheQueueDrains(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMinWorkers(1), shoal.WithMaxWorkers(4),
			shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(0))
		release := occupyEach(t, p, 4)
		for range 3 {
			must(t, p.Submit(func() { time.Sleep(time.Second) }))
		}
		for range 4 {
			release()
		}
		wantWorkers(t, p, 3) // three tasks to go: only the fourth worker left
		time.Sleep(time.Second)
		wantWorkers(t, p, 1)
	})
}

func TestForeverIdleTimeoutKeepsWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(4), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(shoal.Forever))
		parkWorkers(t, p, 4)
		for range 50 {
			time.Sleep(365 * 24 * time.Hour)
		}
		wantWorkers(t, p, 4)
	})
}

func TestLongestIdleTimeoutShortOfForeverDoesNotOverflow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(shoal.Forever-1))
		time.Sleep(time.Hour)
		parkWorkers(t, p, 2)
		time.Sleep(10 * 365 * 24 * time.Hour)
		wantWorkers(t, p, 2)
	})
}

func TestResizeOfTheMinimumMovesWhereReclaimingStops(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const d = time.Second
		p := openPool(t, shoal.WithMinWorkers(4), shoal.WithMaxWorkers(6),
			shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(d))
		time.Sleep(10 * d)
		wantWorkers(t, p, 4)
		must(t, p.Resize(1, 6)) // three are overdue
		wantWorkers(t, p, 1)
		must(t, p.Resize(5, 6)) // started at once
		wantWorkers(t, p, 5)
		time.Sleep(10 * d)
		wantWorkers(t, p, 5)
		parkWorkers(t, p, 6) // used just now: they live d from here
		must(t, p.Resize(0, 6))
		time.Sleep(d - 1)
		wantWorkers(t, p, 6)
		time.Sleep(time.Nanosecond)
		wantWorkers(t, p, 0)
	})
}

func TestResizeOfTheMaximumSendsParkedWorkersAwayAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(8), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(shoal.Forever))
		parkWorkers(t, p, 8)
		must(t, p.Resize(0, 3))
		wantWorkers(t, p, 3)
	})
}

func TestIdleTimeoutHoldsWhilePaused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const d = time.Second
		p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(d))
		parkWorkers(t, p, 3)
		p.Pause()
		ran := false
		must(t, p.Submit(func() { ran = true }))
		time.Sleep(d)
		wantWorkers(t, p, 0)
		p.Resume() // what waits is run by a new worker
		synctest.Wait()
		if !ran {
			t.Error("the task did not run after Resume")
		}
	})
}

// A timer that is armed keeps its pool from being collected. So a pool that
// was closed and is collected has left no timer, context or table entry.
func TestClosedPoolLeavesNoTimerBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, use := range map[string]func(*shoal.Pool){
		"idle timeout": func(p *shoal.Pool) {
			must(t, p.Submit(func() {}))
			p.Wait()
		},
		"SubmitAfter": func(p *shoal.Pool) {
			_, err := p.SubmitAfter(time.Hour, func() {})
			must(t, err)
		},
		"SubmitAfter, stopped": func(p *shoal.Pool) {
			stop, err := p.SubmitAfter(time.Hour, func() {})
			must(t, err)
			if !stop() {
				t.Error("stop() = false")
			}
		},
		"SubmitContext": func(p *shoal.Pool) {
			must(t, p.SubmitContext(ctx, func(ctx context.Context) { ctx.Done() }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ref := func() weak.Pointer[shoal.Pool] {
				p := openAndForget(t, shoal.WithMaxWorkers(2), shoal.WithIdleTimeout(time.Hour), shoal.WithContext(ctx))
				use(p)
				must(t, p.Shutdown(context.Background()))
				return weak.Make(p)
			}
			// Shutdown reports what SubmitAfter lost only by counting it.
			if alive(0, ref()) > 0 {
				t.Error("something still refers to a pool that was shut down")
			}
		})
	}
}

func openAndForget(t testing.TB, opts ...shoal.Option) *shoal.Pool {
	p, err := shoal.New(opts...)
	must(t, err)
	return p
}

func TestSubmitAfterSubmitsExactlyWhenDue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t)
		start := time.Now()
		var at time.Duration
		_, err := p.SubmitAfter(5*time.Second, func() { at = time.Since(start) })
		must(t, err)
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		if s := p.Stats(); s.Submitted != 0 || s.InFlight != 0 || s.Queued != 0 || p.Queued() != 0 {
			t.Errorf("a task that is not yet due counts: %+v", s)
		}
		p.Wait() // does not wait for it
		if d := time.Since(start); d != 5*time.Second-1 {
			t.Errorf("Wait waited for a task that is not yet due, until %v", d)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if at != 5*time.Second {
			t.Errorf("ran after %v, want 5s", at)
		}
		if s := p.Stats(); s.Submitted != 1 || s.Completed != 1 {
			t.Errorf("counted %d submitted, %d completed, want 1, 1", s.Submitted, s.Completed)
		}
	})
}

func TestSubmitAfterOfZeroOrLessSubmitsAtOnce(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -time.Hour, -shoal.Forever - 1} {
		inBubble(t, func(t *testing.T) {
			p := openPool(t)
			ran := make(chan struct{})
			_, err := p.SubmitAfter(d, func() { close(ran) })
			must(t, err)
			start := time.Now()
			<-ran
			if late := time.Since(start); late != 0 {
				t.Errorf("SubmitAfter(%v) ran %v later", d, late)
			}
		})
	}
}

func TestSubmitAfterStopKeepsTheTaskFromRunning(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t)
		stop, err := p.SubmitAfter(time.Second, func() { t.Error("a stopped task ran") })
		must(t, err)
		time.Sleep(time.Second - 1)
		if !stop() {
			t.Error("first stop() = false, want true")
		}
		if stop() {
			t.Error("second stop() = true, want false")
		}
		time.Sleep(time.Hour)
		if s := p.Stats(); s.Submitted+s.Dropped+s.Canceled != 0 {
			t.Errorf("a stopped task was counted: %+v", s)
		}
	})
}

func TestSubmitAfterStopIsFalseOnceSubmitted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t)
		ran := false
		stop, err := p.SubmitAfter(time.Second, func() { ran = true })
		must(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		if stop() || !ran {
			t.Errorf("stop() = true or not run (ran: %t)", ran)
		}
	})
}

// Stop, the timer and the close of the pool at one moment: whichever comes first,
// the task runs, or is stopped, or dropped, once.
func TestSubmitAfterStoppedClosedAndDueAtTheSameMoment(t *testing.T) {
	for range 200 {
		inBubble(t, func(t *testing.T) {
			p := openAndForget(t, shoal.WithMaxWorkers(2))
			var ran atomic.Int32
			stop, err := p.SubmitAfter(time.Second, func() { ran.Add(1) })
			must(t, err)
			stopped := false
			go func() { time.Sleep(time.Second); stopped = stop() }()
			time.Sleep(time.Second)
			must(t, p.Close())
			synctest.Wait()
			s := p.Stats()
			n := uint64(ran.Load()) + s.Dropped
			if stopped {
				n++
			}
			if n != 1 || s.Completed != uint64(ran.Load()) || s.InFlight != 0 {
				t.Fatalf("ran %d, stopped %t, dropped %d, completed %d, in flight %d",
					ran.Load(), stopped, s.Dropped, s.Completed, s.InFlight)
			}
		})
	}
}

func TestSubmitAfterWaitsForRoomInItsTurn(t *testing.T) {
	for _, policy := range allPolicies {
		t.Run(policy.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				// One worker, busy until 10 s; one task queued; two due at 2 s and 3 s.
				p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy))
				start := time.Now()
				ran := map[string]time.Duration{}
				task := func(name string, d time.Duration) func() {
					return func() { ran[name] = time.Since(start); time.Sleep(d) }
				}
				must(t, p.Submit(task("running", 10*time.Second)))
				must(t, p.Submit(task("queued", time.Second)))
				_, err := p.SubmitAfter(3*time.Second, task("second", time.Second))
				must(t, err)
				_, err = p.SubmitAfter(2*time.Second, task("first", time.Second))
				must(t, err)
				time.Sleep(time.Hour)
				synctest.Wait()
				want := map[string]time.Duration{"running": 0, "queued": 10 * time.Second, "first": 11 * time.Second, "second": 12 * time.Second}
				if !maps.Equal(ran, want) {
					t.Errorf("ran at %v, want %v", ran, want)
				}
				s := p.Stats()
				if s.Submitted != 4 || s.Completed != 4 || s.Rejected+s.Dropped+s.Spawned != 0 || s.InFlight != 0 {
					t.Errorf("want 4 submitted and completed, nothing else: %+v", s)
				}
			})
		})
	}
}

// Under DropOldest a task that is due and waits for capacity is in front of a task
// that is submitted now. It must not cost the queue all it holds.
func TestSubmitBehindADueTaskDropsNoMoreThanItNeeds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(4), shoal.WithFullPolicy(shoal.DropOldest))
		release := hold(t, p, 1)
		defer release()
		for range 4 {
			must(t, p.Submit(func() {}))
		}
		_, err := p.SubmitAfter(time.Second, func() {})
		must(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		err = p.Submit(func() {}) // one place for the task that was due, one for this
		if s := p.Stats(); err != nil || s.Dropped > 2 || s.Queued != 4 {
			t.Errorf("Submit = %v, dropped %d, queued %d; want nil, at most 2, 4", err, s.Dropped, s.Queued)
		}
	})
}

func TestSubmitAfterOfATaskWithoutRoomIsDroppedByShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0))
		must(t, p.Submit(func() { time.Sleep(10 * time.Second) }))
		_, err := p.SubmitAfter(2*time.Second, func() { t.Error("ran") })
		must(t, err)
		time.Sleep(3 * time.Second)
		must(t, p.Shutdown(context.Background()))
		if s := p.Stats(); s.Submitted != 2 || s.Completed != 1 || s.Dropped != 1 {
			t.Errorf("submitted %d, completed %d, dropped %d, want 2, 1, 1", s.Submitted, s.Completed, s.Dropped)
		}
	})
}

func TestSubmitAfterWaitsWhilePaused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t)
		p.Pause()
		start := time.Now()
		var at time.Duration
		_, err := p.SubmitAfter(time.Second, func() { at = time.Since(start) })
		must(t, err)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if p.Queued() != 1 || at != 0 {
			t.Errorf("Queued() = %d, ran at %v; want 1 queued", p.Queued(), at)
		}
		p.Resume()
		synctest.Wait()
		if at != 3*time.Second {
			t.Errorf("ran at %v, want 3s", at)
		}
	})
}

func TestSubmitAfterIsDroppedAndCountedAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(*shoal.Pool) error{
		"Shutdown": func(p *shoal.Pool) error { return p.Shutdown(context.Background()) },
		"Close":    (*shoal.Pool).Close,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := openPool(t)
				var stops []func() bool
				for i := range 10 {
					stop, err := p.SubmitAfter(time.Duration(i+1)*time.Second, func() {})
					must(t, err)
					stops = append(stops, stop)
				}
				time.Sleep(4 * time.Second)
				synctest.Wait()
				start := time.Now()
				must(t, end(p))
				if d := time.Since(start); d != 0 {
					t.Errorf("%s waited %v for tasks that are not yet due", name, d)
				}
				if s := p.Stats(); s.Completed != 4 || s.Dropped != 6 || s.Submitted != 10 || s.InFlight != 0 {
					t.Errorf("completed %d, dropped %d, submitted %d, in flight %d; want 4, 6, 10, 0",
						s.Completed, s.Dropped, s.Submitted, s.InFlight)
				}
				for i, stop := range stops {
					if stop() {
						t.Errorf("stop of task %d = true after the end", i)
					}
				}
				if _, err := p.SubmitAfter(1, func() {}); !errors.Is(err, shoal.ErrClosed) {
					t.Errorf("SubmitAfter after the end: %v", err)
				}
				if _, err := p.SubmitAfter(1, nil); !errors.Is(err, shoal.ErrNilTask) {
					t.Errorf("SubmitAfter(nil): %v", err)
				}
			})
		})
	}
}

func TestSubmitAfterManyEachAtItsOwnTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 3000
		p := openPool(t, shoal.WithMaxWorkers(4))
		rng := rand.New(rand.NewPCG(1, 2))
		start := time.Now()
		want, got := make([]time.Duration, n), make([]time.Duration, n)
		for i := range n {
			want[i] = time.Duration(rng.Int64N(int64(time.Hour)))
			_, err := p.SubmitAfter(want[i], func() { got[i] = time.Since(start) })
			must(t, err)
		}
		time.Sleep(time.Hour)
		p.Wait()
		for i := range n {
			if got[i] != want[i] {
				t.Fatalf("task %d ran at %v, want %v", i, got[i], want[i])
			}
		}
	})
}

func TestShutdownReturnsExactlyAtItsDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1))
		start := time.Now()
		var canceledAt, endedAt time.Duration
		var cause error
		must(t, p.SubmitContext(context.Background(), func(ctx context.Context) {
			<-ctx.Done()
			canceledAt, cause = time.Since(start), context.Cause(ctx)
			time.Sleep(time.Minute) // it takes its time
			endedAt = time.Since(start)
		}))
		for range 5 {
			must(t, p.Submit(func() { t.Error("a task ran after the deadline") }))
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		err := p.Shutdown(ctx)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("Shutdown returned after %v, want 3s", d)
		}
		var inc *shoal.ShutdownError
		if !errors.As(err, &inc) || inc.Dropped != 5 || inc.Running != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown = %#v, want 5 dropped, 1 running, deadline exceeded", err)
		}
		if s := p.State(); s != shoal.Draining {
			t.Errorf("state %v while a task still runs, want Draining", s)
		}
		<-p.Done()
		if d := time.Since(start); d != 63*time.Second || endedAt != d {
			t.Errorf("Done closed after %v, the task ended after %v, want 1m3s", d, endedAt)
		}
		if canceledAt != 3*time.Second || !errors.Is(cause, shoal.ErrClosed) {
			t.Errorf("the task's context ended after %v because of %v, want 3s, ErrClosed", canceledAt, cause)
		}
		if again := p.Shutdown(context.Background()); again != err {
			t.Errorf("a later Shutdown reports %v, not the one outcome", again)
		}
		if s := p.Stats(); s.Dropped != 5 || s.Completed != 1 || s.Submitted != 6 {
			t.Errorf("dropped %d, completed %d, submitted %d, want 5, 1, 6", s.Dropped, s.Completed, s.Submitted)
		}
	})
}

func TestShutdownThatNeedsNotWaitReturnsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMinWorkers(3), shoal.WithMaxWorkers(3))
		start := time.Now()
		must(t, p.Submit(func() { time.Sleep(time.Second) }))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		must(t, p.Shutdown(ctx))
		if d := time.Since(start); d != time.Second {
			t.Errorf("Shutdown returned after %v, want 1s: when the last task ended", d)
		}
	})
}

// The deadline and the end of the last task fall together: the result is
// either a clean end, or one task that was running. Never anything else, and
// never a hang.
func TestShutdownDeadlineAtTheMomentTheLastTaskEnds(t *testing.T) {
	for range 200 {
		inBubble(t, func(t *testing.T) {
			p := openPool(t, shoal.WithMaxWorkers(1))
			must(t, p.Submit(func() { time.Sleep(time.Second) }))
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			err := p.Shutdown(ctx)
			var inc *shoal.ShutdownError
			if err != nil && !(errors.As(err, &inc) && inc.Dropped == 0 && inc.Running == 1) {
				t.Fatalf("Shutdown = %#v", err)
			}
			<-p.Done()
			if s := p.Stats(); s.Completed != 1 || s.Dropped != 0 {
				t.Fatalf("completed %d, dropped %d", s.Completed, s.Dropped)
			}
		})
	}
}

func TestShutdownWithAnEndedContextOfAnIdlePoolIsClean(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMinWorkers(4), shoal.WithMaxWorkers(4))
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		must(t, p.Shutdown(ctx))
		if s := p.State(); s != shoal.Closed {
			t.Errorf("state %v after Shutdown returned nil", s)
		}
	})
}

func TestSubmitContextIsADeadlineForTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1))
		must(t, p.Submit(func() { time.Sleep(10 * time.Second) }))
		start := time.Now()
		var ranAt []time.Duration
		for _, d := range []time.Duration{9 * time.Second, 11 * time.Second} {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			must(t, p.SubmitContext(ctx, func(ctx context.Context) {
				ranAt = append(ranAt, time.Since(start))
				if end, ok := ctx.Deadline(); !ok || !end.Equal(start.Add(d)) {
					t.Errorf("the task's deadline is %v, %t", end, ok)
				}
				<-ctx.Done() // and once it runs, the same deadline ends its context
				if now := time.Since(start); now != d || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Errorf("context ended at %v with %v, want %v", now, ctx.Err(), d)
				}
			}))
		}
		time.Sleep(9500 * time.Millisecond)
		if s := p.Stats(); s.Canceled != 0 || s.InFlight != 3 {
			t.Errorf("before a worker came to it: canceled %d, in flight %d, want 0, 3", s.Canceled, s.InFlight)
		}
		p.Wait()
		if len(ranAt) != 1 || ranAt[0] != 10*time.Second {
			t.Errorf("ran at %v, want only the one with the later deadline, at 10s", ranAt)
		}
		if s := p.Stats(); s.Canceled != 1 || s.Completed != 2 || s.Failed != 0 {
			t.Errorf("canceled %d, completed %d, failed %d; want 1, 2, 0", s.Canceled, s.Completed, s.Failed)
		}
	})
}

func TestSubmitContextGivesUpWaitingForRoomExactlyAtItsDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1))
		must(t, p.Submit(func() { time.Sleep(10 * time.Second) }))
		must(t, p.Submit(func() {}))
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		err := p.SubmitContext(ctx, func(context.Context) { t.Error("ran") })
		if d := time.Since(start); err != context.DeadlineExceeded || d != 4*time.Second {
			t.Errorf("SubmitContext = %v after %v, want deadline exceeded after 4s", err, d)
		}
		ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ran := false
		must(t, p.SubmitContext(ctx, func(context.Context) { ran = true })) // the place of the first is not lost
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("there was room after %v, want 10s", d)
		}
		p.Wait()
		if s := p.Stats(); !ran || s.Submitted != 3 || s.Canceled != 0 {
			t.Errorf("ran %t, submitted %d, canceled %d; want true, 3, 0", ran, s.Submitted, s.Canceled)
		}
	})
}

func TestSubmitWaitReturnsExactlyWhenItsTaskIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1))
		start := time.Now()
		deadline := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			t.Cleanup(cancel)
			return ctx
		}
		// While it runs: the task sees the end of its context.
		var saw time.Duration
		err := p.SubmitWait(deadline(2*time.Second), func(ctx context.Context) error {
			<-ctx.Done()
			saw = time.Since(start)
			time.Sleep(8 * time.Second)
			return nil
		})
		if d := time.Since(start); err != nil || d != 10*time.Second || saw != 2*time.Second {
			t.Errorf("SubmitWait = %v after %v, its context ended after %v; want nil after 10s, 2s", err, d, saw)
		}
		// While it is queued behind another one: it does not start any more.
		must(t, p.Submit(func() { time.Sleep(10 * time.Second) }))
		err = p.SubmitWait(deadline(3*time.Second), func(context.Context) error { t.Error("ran"); return nil })
		if d := time.Since(start); err != context.DeadlineExceeded || d != 13*time.Second {
			t.Errorf("SubmitWait = %v after %v, want deadline exceeded after 13s", err, d)
		}
		p.Wait()
		if d := time.Since(start); d != 20*time.Second {
			t.Errorf("quiet after %v, want 20s", d)
		}
		if s := p.Stats(); s.Canceled != 1 || s.Completed != 2 {
			t.Errorf("canceled %d, completed %d, want 1, 2", s.Canceled, s.Completed)
		}
	})
}

func TestWaitReturnsExactlyWhenTheLastTaskEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithSizing(shoal.Eager()))
		start := time.Now()
		for i := range 9 { // three at a time: 1+4+7, 2+5+8, 3+6+9 seconds
			must(t, p.Submit(func() { time.Sleep(time.Duration(i+1) * time.Second) }))
		}
		waited := make(chan time.Duration)
		for range 5 {
			go func() { p.Wait(); waited <- time.Since(start) }()
		}
		for range 5 {
			if d := <-waited; d != 18*time.Second {
				t.Errorf("Wait returned after %v, want 18s", d)
			}
		}
	})
}

func TestWaitContextReturnsExactlyAtItsDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t)
		must(t, p.Submit(func() { time.Sleep(10 * time.Second) }))
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		if err := p.WaitContext(ctx); err != context.DeadlineExceeded {
			t.Errorf("WaitContext = %v", err)
		}
		if d := time.Since(start); d != 4*time.Second {
			t.Errorf("WaitContext returned after %v, want 4s", d)
		}
		ctx, cancel = context.WithTimeout(context.Background(), 7*time.Second)
		defer cancel()
		must(t, p.WaitContext(ctx))
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("WaitContext returned after %v, want 10s", d)
		}
	})
}

func TestParentContextDeadlineClosesExactlyThen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p := openPool(t, shoal.WithContext(ctx), shoal.WithMaxWorkers(1))
		start := time.Now()
		err := p.SubmitWait(context.Background(), func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if d := time.Since(start); d != 5*time.Second || !errors.Is(err, shoal.ErrClosed) {
			t.Errorf("the task's context ended after %v because of %v, want 5s, ErrClosed", d, err)
		}
		<-p.Done()
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("closed after %v, want 5s", d)
		}
	})
}

// inBucketOf reports whether q is an upper bound of d that is at most 1/16 too
// large.
func inBucketOf(q, d time.Duration) bool { return q >= d && q <= d+d/16 }

func TestFullTimingMeasuresWaitAndRunExactly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.TimingFull))
		runs := []time.Duration{time.Microsecond, time.Millisecond, 10 * time.Millisecond, 3 * time.Second, time.Hour}
		var waits []time.Duration
		var run, wait time.Duration
		time.Sleep(time.Minute)  // what a task waits counts from its Submit
		for _, d := range runs { // all at once: each waits for those before it
			must(t, p.Submit(func() { time.Sleep(d) }))
			waits = append(waits, run)
			wait += run
			run += d
		}
		p.Wait()
		synctest.Wait()
		s := p.Stats()
		for _, c := range []struct {
			name    string
			h       shoal.Histogram
			samples []time.Duration
			sum     time.Duration
		}{{"RunTime", s.RunTime, runs, run}, {"WaitTime", s.WaitTime, waits, wait}} {
			n := len(c.samples)
			if c.h.Count != uint64(n) || c.h.Sum() != c.sum || c.h.Mean() != c.sum/time.Duration(n) || c.h.Max() != c.samples[n-1] {
				t.Errorf("%s: count %d, sum %v, mean %v, max %v; want %d, %v, %v, %v", c.name,
					c.h.Count, c.h.Sum(), c.h.Mean(), c.h.Max(), n, c.sum, c.sum/time.Duration(n), c.samples[n-1])
			}
			for i, d := range c.samples {
				if q := c.h.Quantile(float64(i+1) / float64(n)); !inBucketOf(q, d) {
					t.Errorf("%s: quantile %d/%d is %v, want %v or a little more", c.name, i+1, n, q, d)
				}
			}
		}
	})
}

func TestFullTimingMeasuresEveryTaskHoweverItEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.TimingFull),
			shoal.WithPanicHandler(func(*shoal.PanicError) {}))
		for range 10 {
			must(t, p.Submit(func() { time.Sleep(time.Second) }))
			must(t, p.Submit(func() { time.Sleep(time.Second); panic("boom") }))
			must(t, p.Submit(func() { time.Sleep(time.Second); runtime.Goexit() }))
			must(t, p.SubmitContext(t.Context(), func(context.Context) { time.Sleep(time.Second) }))
			if err := p.SubmitWait(t.Context(), func(context.Context) error {
				time.Sleep(time.Second)
				return errors.ErrUnsupported
			}); !errors.Is(err, errors.ErrUnsupported) {
				t.Fatal(err)
			}
		}
		p.Wait()
		synctest.Wait()
		s := p.Stats()
		if s.RunTime.Count != 50 || s.WaitTime.Count != 50 || s.RunTime.Sum() != 50*time.Second {
			t.Errorf("measured %d runs of %v in all and %d waits, want 50 of 50s, 50",
				s.RunTime.Count, s.RunTime.Sum(), s.WaitTime.Count)
		}
	})
}

// A task that was cancelled before its start has neither waited until its
// start nor run.
func TestCanceledTaskIsNotMeasured(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.TimingFull))
		must(t, p.Submit(func() { time.Sleep(time.Second) }))
		ctx, cancel := context.WithCancel(t.Context())
		for range 5 {
			must(t, p.SubmitContext(ctx, func(context.Context) { t.Error("ran") }))
		}
		cancel()
		p.Wait()
		synctest.Wait()
		s := p.Stats()
		if s.Canceled != 5 || s.Completed != 1 {
			t.Fatalf("canceled %d, completed %d, want 5, 1", s.Canceled, s.Completed)
		}
		if s.RunTime.Count != 1 || s.WaitTime.Count != 1 {
			t.Errorf("1 task ran, but RunTime has %d and WaitTime %d measurements", s.RunTime.Count, s.WaitTime.Count)
		}
	})
}

func TestTaskAgeIsHowLongTheTaskHasRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1))
		wantAge := func(want time.Duration, state shoal.WorkerState) {
			t.Helper()
			synctest.Wait()
			if n := len(workerIDs(p)); n != 1 {
				t.Errorf("%d workers", n)
			}
			for w := range p.Workers() {
				if w.TaskAge != want || w.State != state {
					t.Fatalf("worker %d: %v, age %v; want %v, %v", w.ID, w.State, w.TaskAge, state, want)
				}
			}
		}
		time.Sleep(time.Minute)
		must(t, p.Submit(func() { time.Sleep(10 * time.Second) }))
		wantAge(0, shoal.WorkerRunning) // from the first look on
		time.Sleep(4 * time.Second)
		wantAge(4*time.Second, shoal.WorkerRunning)
		time.Sleep(5 * time.Second)
		wantAge(9*time.Second, shoal.WorkerRunning)
		time.Sleep(time.Second)
		wantAge(0, shoal.WorkerParked)
		time.Sleep(time.Second)
		wantAge(0, shoal.WorkerParked)
	})
}

// The first look may find a task older than it says, never younger than it is:
// an age says for how long the current task has been running, at most.
func TestTaskAgeIsNeverMoreThanTheTasksOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1))
		// Short tasks first, so that the worker has got used to them.
		for range 500 {
			must(t, p.Submit(func() {}))
		}
		synctest.Wait()
		start := time.Now()
		var begun atomic.Int64 // since start
		for range 10 {
			must(t, p.Submit(func() { begun.Store(int64(time.Since(start))); time.Sleep(10 * time.Second) }))
		}
		for i := range 10 {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			seen := 0
			for w := range p.Workers() {
				seen++
				if own := time.Since(start) - time.Duration(begun.Load()); w.TaskAge > own {
					t.Errorf("long task %d has run for %v, but TaskAge is %v", i, own, w.TaskAge)
				}
			}
			if seen != 1 {
				t.Errorf("%d workers", seen)
			}
			time.Sleep(5 * time.Second)
		}
	})
}

func TestTaskAgeOfATimedTaskIsExact(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Second} { // before the task
		t.Run(fmt.Sprint("idle=", idle), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.TimingFull))
				time.Sleep(idle)
				must(t, p.Submit(func() { time.Sleep(10 * time.Second) }))
				time.Sleep(6 * time.Second)
				synctest.Wait()
				seen := 0
				for w := range p.Workers() {
					seen++
					if w.TaskAge != 6*time.Second {
						t.Errorf("TaskAge %v of a timed task that started 6s ago", w.TaskAge)
					}
				}
				if seen != 1 {
					t.Errorf("%d workers", seen)
				}
			})
		})
	}
}

// A pool needs no timer to notice a task: while the clock stands still, a
// thousand tasks are handed to a parked worker, one by one.
func TestParkedWorkerIsWokenByTheTaskNotByTheClock(t *testing.T) {
	for _, spin := range []int{0, shoal.DefaultSpin, 10_000} {
		t.Run(fmt.Sprint("spin=", spin), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithSpin(spin))
				start := time.Now()
				done := make(chan struct{})
				for range 1000 {
					synctest.Wait()
					must(t, p.Submit(func() { done <- struct{}{} }))
					<-done
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("the clock had to move by %v", d)
				}
			})
		})
	}
}

// TestIdleTimeoutLeavesTheMinimumAlone: as many leave as are too many, and none
// leaves to be replaced.
func TestIdleTimeoutLeavesTheMinimumAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var started, stopped atomic.Int32
		p := newPool(t, shoal.WithMinWorkers(2), shoal.WithMaxWorkers(5), shoal.WithIdleTimeout(time.Second),
			shoal.WithWorkerHooks(func(int) { started.Add(1) }, func(int) { stopped.Add(1) }))
		hold(t, p, 5)()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if a, b := started.Load(), stopped.Load(); a != 5 || b != 3 {
			t.Errorf("%d workers were started, %d have left; want 5, 3", a, b)
		}
		shutClean(t, p)
	})
}
