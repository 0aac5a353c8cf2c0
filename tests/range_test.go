package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// each is f for a Range whose items are independent.
func each(f func(ctx context.Context, i int) error) func(context.Context, int, int) error {
	return func(ctx context.Context, lo, hi int) error {
		for i := lo; i < hi; i++ {
			if err := f(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
}

// shutDown demands that nothing is left in p.
func shutDown(t *testing.T, p *shoal.Pool) {
	t.Helper()
	must(t, p.Shutdown(bg))
	checkEnded(t, p)
}

// items are 0 … n-1.
func items(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// loops are the ways to run f for [0, n).
var loops = map[string]func(ctx context.Context, p *shoal.Pool, n int, f func(ctx context.Context, i int) error) error{
	"Range": func(ctx context.Context, p *shoal.Pool, n int, f func(ctx context.Context, i int) error) error {
		return shoal.Range(ctx, p, n, each(f))
	},
	"ForEachSlice": func(ctx context.Context, p *shoal.Pool, n int, f func(ctx context.Context, i int) error) error {
		return shoal.ForEachSlice(ctx, p, items(n), f)
	},
	"MapSlice": func(ctx context.Context, p *shoal.Pool, n int, f func(ctx context.Context, i int) error) error {
		_, err := shoal.MapSlice(ctx, p, items(n), func(ctx context.Context, i int) (int, error) { return i, f(ctx, i) })
		return err
	},
}

func TestLoopsRunEveryItemOnce(t *testing.T) {
	for name, loop := range loops {
		for _, workers := range []int{1, 2, 3, 8} {
			p := openPool(t, shoal.WithMaxWorkers(workers))
			for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 16, 63, 1000, testpool.Reps(50_000, 5000, 5000)} {
				ran := make([]atomic.Int32, n)
				wantErr(t, name, loop(bg, p, n, func(_ context.Context, i int) error {
					ran[i].Add(1)
					if i%7 == 0 {
						runtime.Gosched()
					}
					return nil
				}), nil)
				for i := range ran {
					if got := ran[i].Load(); got != 1 {
						t.Fatalf("%s, %d workers: item %d of %d ran %d times", name, workers, i, n, got)
					}
				}
			}
			shutDown(t, p)
		}
	}
}

func TestRangeGivesChunksInOrderAndInside(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1))
	next := 0
	wantErr(t, "Range", shoal.Range(bg, p, 10_000, func(_ context.Context, lo, hi int) error {
		if lo != next || hi <= lo || hi > 10_000 {
			t.Errorf("f(%d, %d) after %d", lo, hi, next)
		}
		next = hi
		return nil
	}), nil)
	if next != 10_000 {
		t.Errorf("it ended at %d", next)
	}
}

// An item that blocks until all others have run, wherever it is: nothing may wait behind it
// but what f was given together with it.
func TestNoItemWaitsBehindAnother(t *testing.T) {
	const n = 40
	for workers := 2; workers <= 4; workers++ {
		p := openPool(t, shoal.WithMaxWorkers(workers))
		for blocks := range n {
			var left atomic.Int32
			left.Store(n)
			all := make(chan struct{})
			done := func(k int) {
				if left.Add(-int32(k)) == 0 {
					close(all)
				}
			}
			wantErr(t, "Range", shoal.Range(bg, p, n, func(_ context.Context, lo, hi int) error {
				done(hi - lo)
				if lo <= blocks && blocks < hi {
					<-all
				}
				return nil
			}), nil)
		}
		for name, loop := range loops {
			if name == "Range" {
				continue
			}
			for first := range n {
				// As many as there are participants, but one, wait for the others.
				var blocked [n]bool
				for k := range workers - 1 {
					blocked[(first+k*k*k)%n] = true
				}
				var left atomic.Int32
				for _, b := range blocked {
					if !b {
						left.Add(1)
					}
				}
				all := make(chan struct{})
				wantErr(t, name, loop(bg, p, n, func(_ context.Context, i int) error {
					if blocked[i] {
						<-all
					} else if left.Add(-1) == 0 {
						close(all)
					}
					return nil
				}), nil)
			}
		}
		shutDown(t, p)
	}
}

func TestLoopsInLoopsNeedOneWorker(t *testing.T) {
	for name, loop := range loops {
		for workers := 1; workers <= 4; workers++ {
			for _, pass := range []bool{true, false} {
				p := openPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(workers-1))
				var leaves atomic.Int64
				var tree func(ctx context.Context, depth int) error
				tree = func(ctx context.Context, depth int) error {
					if depth == 0 {
						leaves.Add(1)
						return nil
					}
					return loop(ctx, p, 3, func(inner context.Context, i int) error {
						if !pass {
							inner = bg
						}
						return tree(inner, depth-1)
					})
				}
				wantErr(t, name, tree(bg, 5), nil)
				must(t, p.SubmitWait(bg, func(ctx context.Context) error { return tree(ctx, 5) }))
				if n := leaves.Load(); n != 2*243 {
					t.Errorf("%s, %d workers: %d leaves", name, workers, n)
				}
				shutDown(t, p)
			}
		}
	}
}

func TestLoopsHaveNoMoreParticipantsThanWorkersMayBe(t *testing.T) {
	for name, loop := range loops {
		for workers := 1; workers <= 4; workers++ {
			p := openPool(t, shoal.WithMaxWorkers(workers))
			var running gauge
			wantErr(t, name, loop(bg, p, 500, func(context.Context, int) error { running.pass(); return nil }), nil)
			if most := running.most.Load(); most > int64(workers) {
				t.Errorf("%s: %d at once with %d workers", name, most, workers)
			}
			sub, err := p.Sub(shoal.WithMaxWorkers(1))
			must(t, err)
			var alone gauge
			wantErr(t, name, loop(bg, sub, 100, func(context.Context, int) error { alone.pass(); return nil }), nil)
			if most := alone.most.Load(); most > 1 {
				t.Errorf("%s: %d at once in a sub-pool of one worker", name, most)
			}
			shutDown(t, p)
		}
	}
}

func TestMapSliceWithALimit(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(8))
	for limit := 1; limit <= 3; limit++ {
		var running gauge
		_, err := shoal.MapSlice(bg, p, items(300), func(_ context.Context, i int) (int, error) { running.pass(); return i, nil }, shoal.Limit(limit))
		must(t, err)
		if most := running.most.Load(); most > int64(limit) {
			t.Errorf("%d at once with a limit of %d", most, limit)
		}
	}
}

func TestTheFirstErrorEndsALoop(t *testing.T) {
	oops := errors.New("oops")
	for name, loop := range loops {
		if name == "ForEachSlice" {
			continue
		}
		for workers := 1; workers <= 3; workers++ {
			p := openPool(t, shoal.WithMaxWorkers(workers))
			var ran atomic.Int32
			var seen context.Context
			err := loop(bg, p, 100_000, func(ctx context.Context, i int) error {
				ran.Add(1)
				if i == 3 {
					seen = ctx
					return oops
				}
				if i > 50 {
					<-ctx.Done() // it ends: this returns
				}
				return nil
			})
			if err != oops {
				t.Errorf("%s: %v, want the error itself", name, err)
			}
			if n := ran.Load(); n > 60_000 {
				t.Errorf("%s: %d items ran", name, n)
			}
			if seen.Err() != context.Canceled || !isClosed(seen.Done()) {
				t.Errorf("%s: the context after the end: %v", name, seen.Err())
			}
			shutDown(t, p)
		}
	}
}

func TestALoopOfALoopThatFailsEnds(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	oops := errors.New("oops")
	inner := make(chan error, 1)
	begun := make(chan struct{})
	err := shoal.ForEachSlice(bg, p, items(1), func(ctx context.Context, _ int) error {
		_, err := shoal.MapSlice(ctx, p, items(2), func(ctx context.Context, i int) (int, error) {
			if i == 0 {
				<-begun
				return 0, oops
			}
			inner <- shoal.Range(ctx, p, 1<<30, func(ctx context.Context, lo, hi int) error {
				if lo == 0 {
					close(begun)
				}
				<-ctx.Done()
				return nil
			})
			return 0, nil
		})
		return err
	})
	if !errors.Is(err, oops) {
		t.Error(err)
	}
	wantErr(t, "the inner loop", <-inner, context.Canceled)
}

func TestALoopWhoseContextEnds(t *testing.T) {
	for name, loop := range loops {
		for workers := 1; workers <= 3; workers++ {
			p := openPool(t, shoal.WithMaxWorkers(workers))
			ctx, cancel := context.WithCancel(bg)
			var ran atomic.Int32
			err := loop(ctx, p, 100_000, func(ctx context.Context, i int) error {
				if ran.Add(1) == 5 {
					cancel()
				}
				if ran.Load() > 50 {
					<-ctx.Done()
				}
				return nil
			})
			wantErr(t, name, unjoin(err), context.Canceled)
			if n := ran.Load(); n > 60_000 {
				t.Errorf("%s: %d items ran", name, n)
			}
			wantErr(t, name+" of one that has ended", unjoin(loop(ctx, p, 3, func(context.Context, int) error { t.Error("it runs"); return nil })), context.Canceled)
			shutDown(t, p)
		}
	}
	// All items have run: that ctx has ended does not matter.
	ctx, cancel := context.WithCancel(bg)
	p := openPool(t, shoal.WithMaxWorkers(1))
	wantErr(t, "Range", shoal.Range(ctx, p, 1, func(context.Context, int, int) error { cancel(); return nil }), nil)
}

// unjoin is the only error in err.
func unjoin(err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok && len(all.Unwrap()) == 1 {
		return all.Unwrap()[0]
	}
	return err
}

func TestALoopWhoseItemPanics(t *testing.T) {
	noLog(t)
	for name, loop := range loops {
		for workers := 1; workers <= 2; workers++ {
			p := openPool(t, shoal.WithMaxWorkers(workers))
			for range 20 {
				err := loop(bg, p, 50, func(_ context.Context, i int) error {
					if i == 33 {
						panic("oops")
					}
					return nil
				})
				var e *shoal.PanicError
				if !errors.As(err, &e) || e.Value != "oops" || !strings.Contains(string(e.Stack), "TestALoopWhoseItemPanics") {
					t.Fatalf("%s: %v", name, err)
				}
			}
			shutDown(t, p)
		}
	}
}

func TestALoopWhoseItemExits(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	for name, loop := range loops {
		// On a worker: the caller waits in the item that it has.
		caller := goid()
		for range 20 {
			begun := make(chan struct{})
			var ran atomic.Int32
			err := unjoin(loop(bg, p, 20, func(context.Context, int) error {
				ran.Add(1)
				if goid() != caller {
					if isClosed(begun) {
						return nil
					}
					close(begun)
					runtime.Goexit()
				}
				<-begun
				return nil
			}))
			wantErr(t, name, err, shoal.ErrGoexit)
			if name == "ForEachSlice" && ran.Load() != 20 {
				t.Errorf("%d of 20 items have run", ran.Load())
			}
		}
		// On the caller's goroutine, which ends when nobody else is in the loop.
		var inside atomic.Int32
		returned := false
		<-inBackground(func() {
			caller := goid()
			begun, both := make(chan struct{}), make(chan struct{})
			loop(bg, p, 2, func(context.Context, int) error {
				if goid() == caller {
					close(both)
					<-begun
					runtime.Goexit()
				}
				<-both // else the worker could take both items
				inside.Add(1)
				close(begun)
				for range 100 {
					runtime.Gosched()
				}
				inside.Add(-1)
				return nil
			})
			returned = true
		})
		if returned || inside.Load() != 0 {
			t.Errorf("%s: returned %v, %d inside", name, returned, inside.Load())
		}
	}
	shutDown(t, p)
}

// loopPlaces are where a loop can be called: f is given a context to call it with.
var loopPlaces = map[string]func(p *shoal.Pool, f func(ctx context.Context)){
	"alone": func(_ *shoal.Pool, f func(ctx context.Context)) { f(bg) },
	"in a loop": func(p *shoal.Pool, f func(ctx context.Context)) {
		shoal.Range(bg, p, 1, each(func(ctx context.Context, _ int) error { f(ctx); return nil }))
	},
	"in a task": func(p *shoal.Pool, f func(ctx context.Context)) {
		p.SubmitWait(bg, func(ctx context.Context) error { f(ctx); return nil })
	},
}

// Under WithCrashOnPanic a panic goes on on the caller's goroutine, where somebody can recover from it.
func TestALoopIsOverWhenItsPanicIsRecovered(t *testing.T) {
	for name, loop := range loops {
		for where, call := range loopPlaces {
			p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithCrashOnPanic())
			var inside atomic.Int32
			var over atomic.Bool
			release := make(chan struct{})
			call(p, func(ctx context.Context) {
				caller, joined := goid(), make(chan struct{})
				join := sync.OnceFunc(func() { close(joined) })
				var kept context.Context
				got := panicOf(func() {
					loop(ctx, p, 6, func(ctx context.Context, i int) error {
						switch {
						case over.Load():
							t.Errorf("%s %s: an item begins when the loop is over", name, where)
							return nil
						case goid() == caller:
							kept = ctx
							<-joined
							panic("oops")
						}
						inside.Add(1)
						defer inside.Add(-1)
						join()
						select {
						case <-ctx.Done():
						case <-release:
						}
						return nil
					})
				})
				over.Store(true)
				if got != "oops" || inside.Load() != 0 || kept.Err() == nil {
					t.Errorf("%s %s: panic %v, %d inside, the context's error is %v", name, where, got, inside.Load(), kept.Err())
				}
				close(release)
			})
			shutDown(t, p)

			// The task that it has called does not stay in the queue.
			if where == "in a task" {
				continue // which would not start either
			}
			p = openPool(t, shoal.WithMaxWorkers(2), shoal.WithCrashOnPanic())
			p.Pause()
			call(p, func(ctx context.Context) {
				got := panicOf(func() { loop(ctx, p, 6, func(context.Context, int) error { panic("oops") }) })
				if got != "oops" {
					t.Errorf("%s %s: panic %v", name, where, got)
				}
			})
			if s := p.Stats(); s.InFlight != 0 {
				t.Fatalf("%s %s: a task is left: %+v", name, where, s)
			}
			p.Resume()
			shutDown(t, p)
		}
	}
}

// panicOf is what f panics with.
func panicOf(f func()) (r any) {
	defer func() { r = recover() }()
	f()
	return nil
}

// A caller that exits, and a worker that has exited before, leave items that nobody runs.
func TestACallerThatExitsAndPanicsEndsItsLoop(t *testing.T) {
	noLog(t)
	p := openPool(t, shoal.WithMaxWorkers(2))
	var once sync.Once
	returned := false
	<-inBackground(func() {
		caller, gone := goid(), make(chan struct{})
		shoal.ForEachSlice(bg, p, items(100), func(context.Context, int) error {
			if goid() != caller {
				p.Pause() // no worker comes in its place
				defer once.Do(func() { close(gone) })
				runtime.Goexit()
			}
			<-gone
			defer func() { panic("on the way out") }()
			runtime.Goexit()
			return nil
		})
		returned = true
	})
	if returned {
		t.Error("it has returned")
	}
	p.Resume()
	shutDown(t, p)
}

// A worker is in a loop of a goroutine that f has started, and waits for the end of the loop above.
func TestALoopDoesNotWaitForWhatWaitsForItsEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, loop := range loops {
			p := openPool(t, shoal.WithMaxWorkers(2))
			met, over := make(chan struct{}), make(chan error, 1)
			must(t, shoal.Range(bg, p, 1, func(ctx context.Context, _, _ int) error {
				go func() {
					over <- loop(ctx, p, 2, func(ctx context.Context, _ int) error {
						met <- struct{}{}
						<-ctx.Done()
						return nil
					})
				}()
				<-met
				<-met
				return nil
			}))
			must(t, <-over) // all items have run
			shutDown(t, p)
		}
	})
}

// A loop of a goroutine that f has started ends with the loop whose context it has.
func TestALoopEndsWithTheOneAbove(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, loop := range loops {
			for workers := 1; workers <= 2; workers++ {
				for depth := range 3 {
					p := openPool(t, shoal.WithMaxWorkers(workers))
					begun, gone, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
					begin := sync.OnceFunc(func() { close(begun) })
					var run func(ctx context.Context, depth int) error
					run = func(ctx context.Context, depth int) error {
						return loop(ctx, p, 100-99*min(depth, 1), func(ctx context.Context, _ int) error {
							if depth > 0 {
								return run(ctx, depth-1)
							}
							if isClosed(gone) {
								t.Errorf("%s, %d workers, depth %d: an item begins", name, workers, depth)
							}
							begin()
							<-gone
							return nil
						})
					}
					must(t, shoal.Range(bg, p, 1, func(ctx context.Context, _, _ int) error {
						go func() { over <- run(ctx, depth) }()
						<-begun
						if workers == 2 {
							synctest.Wait() // until the other one is in there
						}
						go func() {
							<-ctx.Done()
							synctest.Wait() // until Range has returned, or waits for the other one
							close(gone)
						}()
						return nil
					}))
					wantErr(t, name, <-over, context.Canceled)
					shutDown(t, p)
				}
			}
		}
	})
}

func TestALoopWithoutCancelGoesOnWhenTheOneAboveFails(t *testing.T) {
	oops := errors.New("oops")
	inBubble(t, func(t *testing.T) {
		for name, loop := range loops {
			p := openPool(t, shoal.WithMaxWorkers(2))
			begun := make(chan struct{})
			var ran atomic.Int32
			_, err := shoal.MapSlice(bg, p, items(2), func(ctx context.Context, i int) (int, error) {
				if i == 0 {
					<-begun
					return 0, oops
				}
				wantErr(t, name, loop(context.WithoutCancel(ctx), p, 100, func(context.Context, int) error {
					if ran.Add(1) == 1 {
						close(begun)
						<-ctx.Done()
						synctest.Wait() // until it has failed
					}
					return nil
				}), nil)
				return 0, nil
			})
			wantErr(t, "MapSlice", err, oops)
			if ran.Load() != 100 {
				t.Errorf("%s: %d of 100 items have run", name, ran.Load())
			}
			shutDown(t, p)
		}
	})
}

func TestALoopInATaskOfAPoolThatIsClosed(t *testing.T) {
	for name, loop := range loops {
		for workers := 1; workers <= 2; workers++ {
			p := openPool(t, shoal.WithMaxWorkers(workers))
			var closer sync.WaitGroup
			closing := sync.OnceFunc(func() { closer.Go(func() { p.Close() }) })
			must(t, p.SubmitWait(bg, func(ctx context.Context) error {
				wantErr(t, name, unjoin(loop(ctx, p, 100, func(ctx context.Context, _ int) error {
					closing()
					<-ctx.Done()
					return nil
				})), shoal.ErrClosed)
				wantErr(t, name+" of nothing", loop(ctx, p, 0, func(context.Context, int) error { return nil }), shoal.ErrClosed)
				return nil
			}))
			closer.Wait()
			wantErr(t, name+" of nothing then", loop(bg, p, 0, func(context.Context, int) error { return nil }), shoal.ErrClosed)
		}
	}
}

// An errContext calls told whenever it is asked for its error.
type errContext struct {
	context.Context
	told func()
}

func (c errContext) Err() error { c.told(); return c.Context.Err() }

// The race detector is the judge.
func TestCloseWhileALoopBegins(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1))
	caller, closing := goid(), make(chan struct{})
	var closer sync.WaitGroup
	begin := sync.OnceFunc(func() { closer.Go(func() { p.Close() }) })
	end := sync.OnceFunc(func() { close(closing) })
	err := shoal.Range(errContext{bg, func() {
		if goid() == caller {
			begin() // it is accepted, and has not begun
		} else {
			end()
		}
	}}, p, 1, func(context.Context, int, int) error { <-closing; return nil })
	if err != nil { // it may have run before
		wantErr(t, "Range", err, shoal.ErrClosed)
	}
	closer.Wait()
}

func TestALoopOnAPoolThatIsClosedInTheMiddle(t *testing.T) {
	for name, loop := range loops {
		p := openPool(t, shoal.WithMaxWorkers(2))
		var inside atomic.Int32
		err := unjoin(loop(bg, p, 1<<20, func(ctx context.Context, i int) error {
			if i == 0 {
				inside.Add(1)
				closed := inBackground(func() {
					p.Close()
					if inside.Load() != 0 {
						t.Errorf("%s: Close returned before f", name)
					}
				})
				<-ctx.Done()
				if isClosed(closed) {
					t.Errorf("%s: Close has returned while f runs", name)
				}
				inside.Add(-1)
			} else {
				<-ctx.Done()
			}
			return nil
		}))
		wantErr(t, name, err, shoal.ErrClosed)
		<-p.Done()
		wantErr(t, name+" then", unjoin(loop(bg, p, 1, func(context.Context, int) error { return nil })), shoal.ErrClosed)
	}
}

func TestALoopOnAPoolThatIsShutDownInTheMiddle(t *testing.T) {
	for name, loop := range loops {
		p := openPool(t, shoal.WithMaxWorkers(2))
		ran := newTally(1000)
		shut := make(chan error, 1)
		begun := sync.OnceFunc(func() {
			p.Drain()
			go func() { shut <- p.Shutdown(bg) }()
		})
		wantErr(t, name, loop(bg, p, 1000, func(ctx context.Context, i int) error {
			begun()
			ran.accept(i)
			ran.hit(i)
			// In a task, loops go on while the pool drains.
			if i%100 == 0 {
				return loop(ctx, p, 2, func(context.Context, int) error { return nil })
			}
			return nil
		}), nil)
		must(t, <-shut)
		ran.check(t)
	}
}

func TestALoopOnAPausedPoolIsTheCallers(t *testing.T) {
	for name, loop := range loops {
		p := openPool(t, shoal.WithMaxWorkers(4))
		p.Pause()
		caller := goid()
		wantErr(t, name, loop(bg, p, 100, func(context.Context, int) error {
			if goid() != caller {
				t.Error("it runs on a worker")
			}
			return nil
		}), nil)
		if s := p.Stats(); s.InFlight != 0 || s.Queued != 0 {
			t.Errorf("%s: %+v is left", name, s)
		}
		p.Resume()
		shutDown(t, p)
	}
}

func TestALoopOnAFullPoolIsTheCallers(t *testing.T) {
	for name, loop := range loops {
		for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Reject, shoal.Spawn, shoal.CallerRuns, shoal.DropOldest} {
			p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy))
			release := hold(t, p, 2)
			must(t, p.Submit(nothing))
			wantErr(t, name, loop(bg, p, 100, func(context.Context, int) error { return nil }), nil)
			s := p.Stats()
			if s.Rejected != 0 || s.Queued != 1 || s.Dropped != 0 || s.Spawned != 0 {
				t.Errorf("%s: %+v", name, s)
			}
			release()
			shutDown(t, p)
		}
	}
}

// The caller is busy with its first item when a worker becomes free.
func TestALoopIsJoinedByAWorkerThatBecomesFree(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	release := hold(t, p, 2)
	caller, other := goid(), make(chan struct{})
	wantErr(t, "ForEachSlice", shoal.ForEachSlice(bg, p, items(2), func(context.Context, int) error {
		if goid() != caller {
			close(other)
			return nil
		}
		release()
		<-other
		return nil
	}), nil)
}

func TestNoItemBeginsAfterTheFirstError(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	oops := errors.New("oops")
	caller, joined := goid(), make(chan struct{})
	var ran atomic.Int32
	_, err := shoal.MapSlice(bg, p, items(100), func(ctx context.Context, i int) (int, error) {
		ran.Add(1)
		if goid() == caller {
			<-joined
			return 0, oops
		}
		close(joined)
		<-ctx.Done()
		return 0, nil
	})
	wantErr(t, "MapSlice", err, oops)
	if n := ran.Load(); n != 2 {
		t.Errorf("%d items have run, want the two that had begun", n)
	}
}

// Workers that are free only later come then.
func TestALoopCallsWorkersThatBecomeFree(t *testing.T) {
	for _, capacity := range []int{0, 1} {
		inBubble(t, func(t *testing.T) {
			p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(capacity))
			release := hold(t, p, 2)
			if capacity > 0 {
				must(t, p.Submit(nothing))
			}
			caller, helped := goid(), make(chan struct{})
			wantErr(t, "ForEachSlice", shoal.ForEachSlice(bg, p, items(1000), func(_ context.Context, i int) error {
				switch {
				case goid() != caller:
					select {
					case <-helped:
					default:
						close(helped)
					}
				case i == 10:
					release()
					synctest.Wait() // until both are parked
				case i == 20:
					<-helped
				}
				return nil
			}), nil)
		})
	}
}

func TestALoopCountsItsParticipantsAsTasks(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	oops := errors.New("oops")
	wantErr(t, "Range", shoal.Range(bg, p, 2, func(_ context.Context, lo, _ int) error { return oops }), oops)
	s := p.Stats()
	if s.Submitted != s.Completed+s.Canceled || s.Completed < 1 || s.Failed < 1 || s.InFlight != 0 {
		t.Errorf("%+v", s)
	}
	before := s.Submitted
	must(t, p.SubmitWait(bg, func(ctx context.Context) error {
		return shoal.Range(ctx, p, 1, func(context.Context, int, int) error { return nil })
	}))
	if s = p.Stats(); s.Submitted != before+1 {
		t.Errorf("a Range in a task is not part of it: %+v", s)
	}
}

func TestTimeOfALoopInABubble(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, loop := range loops {
			p := openPool(t, shoal.WithMaxWorkers(4), shoal.WithSizing(shoal.Eager()))
			begun := time.Now()
			wantErr(t, name, loop(bg, p, 16, func(context.Context, int) error { time.Sleep(time.Second); return nil }), nil)
			if took := time.Since(begun); took != 4*time.Second {
				t.Errorf("%s: 16 items of 1 s on 4 took %v", name, took)
			}
			must(t, p.Close())
		}
	})
}

func TestAFutureInALoopNeedsOneWorker(t *testing.T) {
	for name, loop := range loops {
		p := openPool(t, shoal.WithMaxWorkers(1))
		local := shoal.NewLocal(p, func(id int) (int, error) { return id, nil }, nil)
		item := func(ctx context.Context, i int) error {
			if _, err := local.Get(ctx); err != nil {
				return err
			}
			_, err := shoal.Go(ctx, p, func(context.Context) (int, error) { return i, nil }).Wait(ctx)
			return err
		}
		wantErr(t, name, loop(bg, p, 20, item), nil)
		must(t, p.SubmitWait(bg, func(ctx context.Context) error { return loop(ctx, p, 20, item) }))
		shutDown(t, p)
	}
}

type rangeTestKey struct{}

func TestTheContextOfALoop(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	ctx, cancel := context.WithTimeout(context.WithValue(bg, rangeTestKey{}, 1), time.Hour)
	defer cancel()
	for name, loop := range loops {
		var kept, derived context.Context
		wantErr(t, name, loop(ctx, p, 1, func(ctx context.Context, _ int) error {
			return loop(ctx, p, 1, func(ctx context.Context, _ int) error {
				_, ok := ctx.Deadline()
				if ctx.Value(rangeTestKey{}) != 1 || ctx.Err() != nil || !ok || fmt.Sprint(ctx) == "" {
					t.Errorf("%s: %v", name, ctx)
				}
				kept = ctx
				var cancel context.CancelFunc
				derived, cancel = context.WithCancel(ctx)
				t.Cleanup(cancel)
				if isClosed(derived.Done()) {
					t.Errorf("%s: it has ended", name)
				}
				return nil
			})
		}), nil)
		<-derived.Done()
		if kept.Err() != context.Canceled || !isClosed(kept.Done()) || ctx.Err() != nil {
			t.Errorf("%s: after the end: %v, %v", name, kept.Err(), ctx.Err())
		}
		// It may be used then, for what little it is worth.
		wantErr(t, name+" with a context of a loop that is over", unjoin(loop(kept, p, 2, func(context.Context, int) error { return nil })), context.Canceled)
	}
	// One that nobody asks before the end.
	var kept context.Context
	must(t, shoal.Range(ctx, p, 1, func(ctx context.Context, _, _ int) error { kept = ctx; return nil }))
	if kept.Err() != context.Canceled || !isClosed(kept.Done()) || kept.Value(rangeTestKey{}) != 1 {
		t.Errorf("%v, %v", kept.Err(), kept.Value(rangeTestKey{}))
	}
}

// Goroutines that f starts may call Range with its context, at once.
func TestLoopsOfGoroutinesThatALoopStarts(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	for range testpool.Reps(100, 20, 10) {
		var ran atomic.Int32
		must(t, shoal.Range(bg, p, 2, each(func(ctx context.Context, _ int) error {
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					shoal.Range(ctx, p, 50, each(func(context.Context, int) error { ran.Add(1); return nil }))
				})
			}
			shoal.Range(ctx, p, 50, each(func(context.Context, int) error { ran.Add(1); return nil }))
			wg.Wait()
			return nil
		})))
		if ran.Load() != 2*4*50 {
			t.Fatalf("%d items", ran.Load())
		}
	}
}

func TestMapSlice(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(3))
	out, err := shoal.MapSlice(bg, p, items(1000), func(_ context.Context, i int) (string, error) { return fmt.Sprint(i), nil })
	must(t, err)
	for i, s := range out {
		if s != fmt.Sprint(i) {
			t.Fatalf("result %d is %s", i, s)
		}
	}
	if len(out) != 1000 {
		t.Errorf("%d results", len(out))
	}
	if out, err := shoal.MapSlice(bg, p, []int(nil), func(_ context.Context, i int) (int, error) { return i, nil }); len(out) != 0 || err != nil {
		t.Error(out, err)
	}
}

func TestMapSliceCollectsErrors(t *testing.T) {
	noLog(t)
	for workers := 1; workers <= 3; workers++ {
		p := openPool(t, shoal.WithMaxWorkers(workers))
		out, err := shoal.MapSlice(bg, p, items(100), func(_ context.Context, i int) (int, error) {
			switch {
			case i == 20:
				panic("twenty")
			case i%10 == 0:
				return -i, fmt.Errorf("no %d", i)
			}
			return i, nil
		}, shoal.CollectErrors())
		want := "no 0\nno 10\nshoal: task panicked: twenty\nno 30\nno 40\nno 50\nno 60\nno 70\nno 80\nno 90"
		if err == nil || err.Error() != want {
			t.Errorf("%d workers: %v", workers, err)
		}
		if len(out) != 100 {
			t.Errorf("%d workers: %d results", workers, len(out))
		}
		for i, v := range out {
			switch {
			case i == 20 && v == 0, i != 20 && i%10 == 0 && v == -i, i%10 != 0 && v == i:
			default:
				t.Errorf("%d workers: result %d is %d", workers, i, v)
			}
		}
		shutDown(t, p)
	}
}

func TestLoopsOfABadCallSayWhy(t *testing.T) {
	p := openPool(t)
	ok := func(context.Context, int, int) error { t.Error("it runs"); return nil }
	one := func(context.Context, int) error { t.Error("it runs"); return nil }
	mapped := func(_ context.Context, i int) (int, error) { t.Error("it runs"); return i, nil }
	var none context.Context
	results := func(_ []int, err error) error { return err }
	for _, c := range []struct {
		what string
		err  error
		is   error
		says string
	}{
		{"n", shoal.Range(bg, p, -3, ok), shoal.ErrConfig, "n = -3"},
		{"f", shoal.Range(bg, p, 1, nil), shoal.ErrNilTask, "nil task"},
		{"ctx", shoal.Range(none, p, 1, ok), shoal.ErrConfig, "nil context"},
		{"pool", shoal.Range(bg, nil, 1, ok), shoal.ErrClosed, "closed"},
		{"zero pool", shoal.Range(bg, new(shoal.Pool), 1, ok), shoal.ErrClosed, "closed"},
		{"slice f", shoal.ForEachSlice(bg, p, []int{1}, nil), shoal.ErrNilTask, "nil task"},
		{"slice ctx", shoal.ForEachSlice(none, p, []int{1}, one), shoal.ErrConfig, "nil context"},
		{"slice pool", shoal.ForEachSlice(bg, nil, []int{1}, one), shoal.ErrClosed, "closed"},
		{"map f", results(shoal.MapSlice[int, int](bg, p, []int{1}, nil)), shoal.ErrNilTask, "nil task"},
		{"map ctx", results(shoal.MapSlice(none, p, []int{1}, mapped)), shoal.ErrConfig, "nil context"},
		{"map pool", results(shoal.MapSlice(bg, nil, []int{1}, mapped)), shoal.ErrClosed, "closed"},
		{"limit", results(shoal.MapSlice(bg, p, []int{1}, mapped, nil, shoal.Limit(0))), shoal.ErrConfig, "Limit(0)"},
	} {
		if c.err == nil || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
}

func TestWhatALoopAllocates(t *testing.T) {
	weighs(t)
	p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithTiming(shoal.TimingOff))
	f := func(context.Context, int, int) error { return nil }
	if n := testing.AllocsPerRun(1000, func() { must(t, shoal.Range(bg, p, 1, f)) }); n > 1 {
		t.Errorf("a loop of one item makes %v allocations", n)
	}
	// The loop and a helper; sometimes what its caller waits by.
	if n := testing.AllocsPerRun(1000, func() { must(t, shoal.Range(bg, p, 1000, f)) }); n > 3 {
		t.Errorf("a loop makes %v allocations", n)
	}
	must(t, shoal.Range(bg, p, 1, func(ctx context.Context, _, _ int) error {
		if n := testing.AllocsPerRun(1000, func() { must(t, shoal.Range(ctx, p, 1, f)) }); n > 1 {
			t.Errorf("a loop in a loop makes %v allocations", n)
		}
		return nil
	}))
	in := slices.Repeat([]int{1}, 1000)
	if n := testing.AllocsPerRun(1000, func() {
		must(t, shoal.ForEachSlice(bg, p, in, func(context.Context, int) error { return nil }))
	}); n > 9 {
		t.Errorf("ForEachSlice makes %v allocations", n)
	}
}

func TestARangeUnderStressWithNestingAndErrors(t *testing.T) {
	noLog(t)
	p := openPool(t, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(2))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for round := range testpool.Reps(300, 60, 40) {
				var ran atomic.Int64
				bad := -1
				if round%3 == 0 {
					bad = round % 60
				}
				err := shoal.Range(bg, p, 60, each(func(ctx context.Context, i int) error {
					return shoal.Range(ctx, p, i, func(_ context.Context, lo, hi int) error {
						ran.Add(int64(hi - lo))
						if i == bad && g%2 == 0 {
							panic(i)
						} else if i == bad {
							return shoal.ErrDropped
						}
						return nil
					})
				}))
				if bad <= 0 && (err != nil || ran.Load() != 59*60/2) || bad > 0 && err == nil {
					t.Errorf("bad %d: %v after %d items", bad, err, ran.Load())
				}
			}
		})
	}
	wg.Wait()
	shutDown(t, p)
}
