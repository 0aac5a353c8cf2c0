package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

var bg = context.Background()

func one(context.Context) (int, error) { return 1, nil }

// wantResult fails the test unless f has that result.
func wantResult[T comparable](t testing.TB, what string, f *shoal.Future[T], want T, wantE error) {
	t.Helper()
	got, err := f.Wait(bg)
	if got != want || !errors.Is(err, wantE) {
		t.Errorf("%s: %v, %v, want %v, %v", what, got, err, want, wantE)
	}
	select {
	case <-f.Done():
	default:
		t.Errorf("%s: Wait has returned and Done is open", what)
	}
	if f.Cancel() {
		t.Errorf("%s: there was a result, and Cancel has changed it", what)
	}
}

func TestFutureHasTheResultOfItsTask(t *testing.T) {
	noLog(t)
	boom := errors.New("boom")
	p := newPool(t, shoal.WithMaxWorkers(2))
	wantResult(t, "a value", shoal.Go(bg, p, one), 1, nil)
	wantResult(t, "a value and an error", shoal.Go(bg, p, func(context.Context) (string, error) { return "part", boom }), "part", boom)
	wantResult(t, "a panic", shoal.Go(bg, p, func(context.Context) (int, error) { panic(boom) }), 0, boom)
	wantResult(t, "Goexit", shoal.Go(bg, p, func(context.Context) (int, error) { runtime.Goexit(); return 1, nil }), 0, shoal.ErrGoexit)
	f := shoal.Go(bg, p, func(context.Context) (int, error) { panic("text") })
	var e *shoal.PanicError
	if _, err := f.Wait(bg); !errors.As(err, &e) || e.Value != "text" || len(e.Stack) == 0 {
		t.Errorf("a panic: %v, want a PanicError with its value and stack", err)
	}
	p.Wait()
	if s := p.Stats(); s.Submitted != 5 || s.Completed != 5 || s.Failed != 4 {
		t.Errorf("of 5 tasks 4 fail: %+v", s)
	}
	shutClean(t, p)
}

func TestFutureOfABadCallSaysWhy(t *testing.T) {
	p := newPool(t)
	wantResult(t, "nil task", shoal.Go[int](bg, p, nil), 0, shoal.ErrNilTask)
	wantResult(t, "nil pool", shoal.Go(bg, nil, one), 0, shoal.ErrClosed)
	wantResult(t, "zero pool", shoal.Go(bg, new(shoal.Pool), one), 0, shoal.ErrClosed)
	var none context.Context
	if _, err := shoal.Go(none, p, one).Wait(bg); err == nil {
		t.Error("nil context: no error")
	}
	if _, err := shoal.Go(bg, p, one).Wait(none); err == nil {
		t.Error("Wait with a nil context: no error")
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	wantResult(t, "a context that has ended", shoal.Go(ctx, p, one), 0, context.Canceled)
	shutClean(t, p)
	wantResult(t, "after the end", shoal.Go(bg, p, one), 0, shoal.ErrClosed)
}

func TestFutureOfATaskThatDoesNotRunIsResolved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))...)
		release := hold(t, p, 1)
		oldest := shoal.Go(bg, p, one)
		ctx, cancel := context.WithCancel(bg)
		late := shoal.Go(ctx, p, one)
		wantResult(t, "the oldest", oldest, 0, shoal.ErrDropped)
		cancel()
		synctest.Wait()
		select {
		case <-late.Done():
			t.Error("its context has ended, no worker has come by, and there is a result")
		default:
		}
		if _, err := late.Wait(ctx); err != context.Canceled {
			t.Errorf("Wait with a context that has ended: %v", err)
		}
		release()
		wantResult(t, "the one whose context has ended", late, 0, context.Canceled)
		p.Wait()

		release = hold(t, p, 1)
		queued := shoal.Go(bg, p, one)
		go func() { release() }()
		closeAll(t, p)
		if _, err := queued.Wait(bg); err != nil && err != shoal.ErrDropped {
			t.Errorf("queued when the pool was closed: %v", err)
		}
	})
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))...)
		release := hold(t, p, 1)
		wantResult(t, "no room", shoal.Go(bg, p, one), 0, shoal.ErrQueueFull)
		release()
		shutClean(t, p)
	})
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		running := shoal.Go(bg, p, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) })
		synctest.Wait()
		queued := shoal.Go(bg, p, one)
		closeAll(t, p)
		wantResult(t, "running when the pool was closed", running, 0, shoal.ErrClosed)
		wantResult(t, "queued when the pool was closed", queued, 0, shoal.ErrDropped)
	})
}

func TestFutureCancel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		f := shoal.Go(bg, p, func(context.Context) (int, error) { t.Error("a canceled task runs"); return 1, nil })
		waiting := make(chan error)
		go func() { _, err := f.Wait(bg); waiting <- err }()
		synctest.Wait()
		if !f.Cancel() {
			t.Error("Cancel of a task that waits = false")
		}
		if err := <-waiting; err != context.Canceled {
			t.Errorf("who waited got %v", err)
		}
		wantResult(t, "canceled", f, 0, context.Canceled)
		s := p.Stats()
		checkIdentity(t, s)
		if s.Canceled != 1 || s.InFlight != 1 || s.Queued != 0 || p.Queued() != 0 {
			t.Errorf("one runs, one is canceled: %+v, Queued %d", s, p.Queued())
		}
		release()
		p.Wait()
		if s := p.Stats(); s.Canceled != 1 || s.Completed != 1 || s.Submitted != 2 {
			t.Errorf("one ran, one was canceled: %+v", s)
		}
		running := make(chan struct{})
		f = shoal.Go(bg, p, func(context.Context) (int, error) { close(running); time.Sleep(time.Second); return 2, nil })
		<-running
		if f.Cancel() {
			t.Error("Cancel of a task that runs = true")
		}
		wantResult(t, "not canceled", f, 2, nil)
		shutClean(t, p)
	})
}

// tree adds up 2^depth leaves with two futures at each node.
func tree(p *shoal.Pool, in func(), depth int) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		if depth == 0 {
			in()
			return 1, nil
		}
		l := shoal.Go(ctx, p, tree(p, in, depth-1))
		r := shoal.Go(ctx, p, tree(p, in, depth-1))
		a, err := l.Wait(ctx)
		b, err2 := r.Wait(ctx)
		return a + b, errors.Join(err, err2)
	}
}

// A gauge knows how many are in it, and the most there ever were.
type gauge struct{ n, most atomic.Int64 }

func (g *gauge) enter() {
	n := g.n.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
}

func (g *gauge) pass() { g.enter(); runtime.Gosched(); g.n.Add(-1) }

func TestFuturesThatWaitForFuturesNeedOneWorker(t *testing.T) {
	for workers := 1; workers <= 3; workers++ {
		for _, capacity := range []int{0, 1, 8, shoal.Unbounded} {
			for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.CallerRuns} {
				t.Run(fmt.Sprintf("%d workers, capacity %d, %v", workers, capacity, policy), func(t *testing.T) {
					var g gauge
					p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy))
					before := len(testpool.Goroutines())
					f := shoal.Go(bg, p, tree(p, func() {
						g.pass()
						if n := p.Stats().Workers; n > workers {
							t.Errorf("%d workers", n)
						}
					}, 10))
					if n := len(testpool.Goroutines()) - before; n > workers {
						t.Errorf("%d goroutines", n)
					}
					wantResult(t, "the tree", f, 1<<10, nil)
					if m := g.most.Load(); m > int64(workers) {
						t.Errorf("%d leaves at once", m)
					}
					p.Wait()
					if s := p.Stats(); s.Submitted != 1<<11-1 || s.Completed != s.Submitted || s.PeakWorkers > workers {
						t.Errorf("%d tasks: %+v", 1<<11-1, s)
					}
					shutClean(t, p)
				})
			}
		}
	}
}

func TestFuturesNestFifteenDeepOnOneWorker(t *testing.T) {
	depth := testpool.Reps(15, 11, 11)
	p := newPool(t, shoal.WithMaxWorkers(1))
	wantResult(t, "the tree", shoal.Go(bg, p, tree(p, func() {}, depth)), 1<<depth, nil)
	if s := p.Stats(); s.PeakWorkers != 1 {
		t.Errorf("%d workers", s.PeakWorkers)
	}
	shutClean(t, p)
}

func TestFutureWaitRunsOnlyWhatItWaitsFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var order []string
		p := newPool(t, fixed(1)...)
		note := func(s string) func(context.Context) (int, error) {
			return func(context.Context) (int, error) { order = append(order, s); return 0, nil }
		}
		wantResult(t, "outer", shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			other := shoal.Go(bg, p, note("other")) // ctx would end with this task
			awaited := shoal.Go(ctx, p, note("awaited"))
			awaited.Wait(ctx)
			order = append(order, "outer")
			_ = other
			return 0, nil
		}), 0, nil)
		shutClean(t, p)
		if got := fmt.Sprint(order); got != "[awaited outer other]" {
			t.Errorf("they ran in the order %v", got)
		}
	})
}

func TestFutureWaitHelpsWithoutTheTasksContextWhereAllWorkersAreBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		ran := false
		if err := p.Submit(func() { shoal.Go(bg, p, one).Wait(bg); ran = true }); err != nil {
			t.Fatal(err)
		}
		shutClean(t, p)
		if !ran {
			t.Error("the task did not end")
		}
	})
}

func TestFutureWaitDoesNotHelpFromOutside(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		other := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		f := shoal.Go(bg, p, func(context.Context) (bool, error) { return true, nil })
		// Neither a goroutine that is in no task nor a task of another pool runs it.
		got := shoal.Go(bg, other, func(ctx context.Context) (bool, error) { return f.Wait(ctx) })
		waited := inBackground(func() { f.Wait(bg) })
		synctest.Wait()
		select {
		case <-f.Done():
			t.Error("somebody else than its pool ran it")
		default:
		}
		release()
		wantResult(t, "the result", got, true, nil)
		<-waited // else it may still be there, and looks like one of a pool's
		must(t, p.Shutdown(bg))
		shutClean(t, other)
	})
}

func TestFutureThatWaitsForItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		ch := make(chan *shoal.Future[int], 1)
		f := shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			self := <-ch
			if _, err := self.Wait(ctx); err != shoal.ErrWouldDeadlock {
				t.Errorf("waiting for oneself: %v", err)
			}
			// Also from a task that it runs itself.
			return shoal.Go(ctx, p, func(ctx context.Context) (int, error) { return self.Wait(ctx) }).Wait(ctx)
		})
		ch <- f
		wantResult(t, "its child", f, 0, shoal.ErrWouldDeadlock)
		shutClean(t, p)
	})
}

func TestFutureIsHelpedWhileThePoolIsPaused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		f := shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			p.Pause()
			return shoal.Go(ctx, p, one).Wait(ctx)
		})
		wantResult(t, "the outer one", f, 1, nil)
		checkIdentity(t, p.Stats())
		shutClean(t, p)
	})
}

func TestFutureFaultsInATaskThatTheWaiterRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		boom := errors.New("boom")
		p := newPool(t, fixed(1)...)
		f := shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			_, err := shoal.Go(ctx, p, func(context.Context) (int, error) { panic(boom) }).Wait(ctx)
			return 7, err
		})
		wantResult(t, "a panic", f, 7, boom)
		// Goexit ends the goroutine, which is the waiter's too.
		var inner *shoal.Future[int]
		f = shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			inner = shoal.Go(ctx, p, func(context.Context) (int, error) { runtime.Goexit(); return 1, nil })
			return inner.Wait(ctx)
		})
		wantResult(t, "Goexit, the outer one", f, 0, shoal.ErrGoexit)
		wantResult(t, "Goexit, the inner one", inner, 0, shoal.ErrGoexit)
		runsMore(t, p, 10)
		if s := p.Stats(); s.Failed != 4 {
			t.Errorf("4 tasks have failed: %+v", s)
		}
		shutClean(t, p)
	})
}

func TestStatsShowAStall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		result := make(chan int, 1)
		if err := p.Submit(func() {
			p.Submit(func() { result <- 1 })
			<-result // behind this task in the queue: the pool cannot know
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := p.Stats(); s.Stalled != 0 {
			t.Errorf("at first sight: stalled for %v", s.Stalled)
		}
		time.Sleep(3 * time.Second)
		p.Resume() // it is not paused, so that does nothing
		if s := p.Stats(); s.Stalled != 3*time.Second {
			t.Errorf("stalled for %v, want 3s", s.Stalled)
		}
		result <- 1
		p.Wait()
		if s := p.Stats(); s.Stalled != 0 {
			t.Errorf("all is done, but stalled for %v", s.Stalled)
		}
		release := hold(t, p, 1)
		if p.Stats(); p.Stats().Stalled != 0 {
			t.Error("nothing waits, but it is stalled")
		}
		release()
		shutClean(t, p)
	})
}

// A Wait sees the end of the task's own context, and frees the task's place, although no worker comes to it.
func TestFutureWaitDoesNotWaitForAWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		must(t, p.Submit(func() { time.Sleep(time.Hour) }))
		keys := shoal.NewKeyed[int](p)
		f := func(context.Context) (int, error) { t.Error("the task starts"); return 0, nil }
		for i, begin := range []func(ctx context.Context) *shoal.Future[int]{
			func(ctx context.Context) *shoal.Future[int] { return shoal.Go(ctx, p, f) },
			func(ctx context.Context) *shoal.Future[int] { return shoal.Go(ctx, p, f) },
			func(ctx context.Context) *shoal.Future[int] { return shoal.GoKeyed(ctx, keys, 1, f) },
		} {
			own := i == 0
			ctx, cancel := context.WithTimeout(bg, time.Second)
			u := begin(ctx)
			other, cancelOther := context.WithTimeout(bg, time.Minute)
			if own {
				other = ctx
			}
			began := time.Now()
			_, err := u.Wait(other)
			wantErr(t, "Wait", err, context.DeadlineExceeded)
			if d := time.Since(began); d != time.Second {
				t.Errorf("Wait returned after %v, want a second", d)
			}
			select {
			case <-u.Done():
			default:
				t.Error("there is no result")
			}
			cancel()
			cancelOther()
		}
		must(t, p.Close())
	})
}

func TestFutureMakesTwoAllocations(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	if n := testing.AllocsPerRun(5000, func() { shoal.Go(bg, p, one).Wait(bg) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
	if n := p.Stats().Completed; n < 5000 {
		t.Errorf("only %d tasks ran", n)
	}
}

var errNoFuture = errors.New("not submitted")

// TestFuturesResolveOnceWhateverHappens has futures waited for, helped with and
// canceled while the pool ends or drops.
func TestFuturesResolveOnceWhateverHappens(t *testing.T) {
	for round := range rounds(400) {
		r := rand.New(rand.NewPCG(uint64(round), 1))
		policy := allPolicies[r.IntN(len(allPolicies))]
		p := newPool(t, shoal.WithMaxWorkers(1+r.IntN(3)), shoal.WithQueueCapacity(r.IntN(8)), shoal.WithFullPolicy(policy))
		const n = 32
		y := newTally(n * 3)
		resolved := slices.Repeat([]error{errNoFuture}, n*3)
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(bg)
		for i := range n {
			cancelIt, kind := r.IntN(4) == 0, r.IntN(3)
			wg.Go(func() {
				f := shoal.Go(ctx, p, func(ctx context.Context) (int, error) {
					y.hit(3 * i)
					if kind == 0 {
						return 0, nil
					}
					a := shoal.Go(ctx, p, func(context.Context) (int, error) { y.hit(3*i + 1); return 0, nil })
					b := shoal.Go(bg, p, func(context.Context) (int, error) { y.hit(3*i + 2); return 0, nil })
					if kind == 1 {
						b.Cancel()
					}
					_, resolved[3*i+1] = a.Wait(ctx)
					_, resolved[3*i+2] = b.Wait(bg)
					return 0, nil
				})
				if cancelIt {
					f.Cancel()
				}
				_, resolved[3*i] = f.Wait(bg)
			})
		}
		end := r.IntN(3)
		wg.Go(func() {
			runtime.Gosched()
			switch end {
			case 0:
				p.Close()
			case 1:
				cancel()
			}
		})
		wg.Wait()
		if err := p.Shutdown(bg); err != nil && end != 0 {
			t.Errorf("round %d: Shutdown: %v", round, err)
		}
		cancel()
		for i, err := range resolved {
			ran := y.ran(i)
			if err == errNoFuture {
				continue // its parent did not run, or had no children
			}
			ended := errors.Is(err, context.Canceled) || errors.Is(err, shoal.ErrDropped) ||
				errors.Is(err, shoal.ErrClosed) || errors.Is(err, shoal.ErrQueueFull)
			switch {
			case ran > 1:
				t.Errorf("round %d (%v): task %d ran %d times", round, policy, i, ran)
			case err == nil && ran != 1:
				t.Errorf("round %d (%v): task %d has a result but did not run", round, policy, i)
			case err != nil && !ended:
				t.Errorf("round %d (%v): task %d: %v", round, policy, i, err)
			}
		}
		checkOver(t, p, round)
	}
}
