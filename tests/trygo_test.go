package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shoal-go/shoal"
)

var policies = []shoal.FullPolicy{shoal.Block, shoal.Reject, shoal.Spawn, shoal.CallerRuns, shoal.DropOldest}

// Whatever the policy, TryGo neither waits, nor runs its function, nor displaces
// another task.
func TestTryGoNeverWaits(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy))...)
				release := hold(t, p, 1)
				f, err := shoal.TryGo(bg, p, func(context.Context) (int, error) { return 4, errBoom })
				if err != nil {
					t.Fatalf("there is room: %v", err)
				}
				g, err := shoal.TryGo(bg, p, func(context.Context) (int, error) { t.Error("it ran"); return 0, nil })
				if g != nil || err != shoal.ErrQueueFull {
					t.Errorf("there is no room: %v, %v", g, err)
				}
				if s := p.Stats(); s.Rejected != 1 || s.Submitted != 2 {
					t.Errorf("one rejected: %+v", s)
				}
				release()
				if v, err := f.Wait(bg); v != 4 || err != errBoom {
					t.Errorf("Wait = %v, %v", v, err)
				}
				shutClean(t, p)
			})
		})
	}
}

func TestTryGoReturnsWhyItWasNotAccepted(t *testing.T) {
	open, closed := openPool(t), newPool(t)
	closed.Close()
	f := func(context.Context) (int, error) { t.Error("it ran"); return 0, nil }
	for what, c := range map[string]struct {
		ctx  context.Context
		p    *shoal.Pool
		f    func(context.Context) (int, error)
		want error
	}{
		"nil function":  {bg, open, nil, shoal.ErrNilTask},
		"nil pool":      {bg, nil, f, shoal.ErrClosed},
		"zero pool":     {bg, new(shoal.Pool), f, shoal.ErrClosed},
		"closed pool":   {bg, closed, f, shoal.ErrClosed},
		"ended context": {canceledContext(), open, f, context.Canceled},
	} {
		if got, err := shoal.TryGo(c.ctx, c.p, c.f); got != nil || err != c.want {
			t.Errorf("%s: %v, %v; want %v", what, got, err, c.want)
		}
	}
	//lint:ignore SA1012 that is the point
	if got, err := shoal.TryGo(nil, open, f); got != nil || err == nil {
		t.Errorf("nil context: %v, %v", got, err)
	}
	open.Wait()
}

// What is accepted has one result, also beside Close and Shutdown.
func TestTryGoBesideTheEndOfThePool(t *testing.T) {
	for _, end := range []func(*shoal.Pool){func(p *shoal.Pool) { p.Close() }, func(p *shoal.Pool) { p.Shutdown(bg) }} {
		for range rounds(100) {
			p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(3))
			g := p.Group(bg)
			var futures, ran atomic.Int64
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for {
						g.TryGo(fine)
						f, err := shoal.TryGo(bg, p, func(context.Context) (int, error) { ran.Add(1); return 1, nil })
						switch {
						case err == shoal.ErrQueueFull:
							runtime.Gosched()
							continue
						case err == shoal.ErrClosed:
							g.TryGo(fine) // the pool may have ended after the one above
							return
						case err != nil:
							t.Errorf("TryGo: %v", err)
							return
						}
						if v, err := f.Wait(bg); v == 1 && err == nil {
							futures.Add(1)
						} else if err != shoal.ErrDropped {
							t.Errorf("Wait = %v, %v", v, err)
						}
					}
				})
			}
			runtime.Gosched()
			end(p)
			wg.Wait()
			if futures.Load() != ran.Load() {
				t.Errorf("%d results of %d tasks that ran", futures.Load(), ran.Load())
			}
			// Close ends the context of a task that has not started, and drops it: either may
			// be first.
			if err := g.Wait(); !errors.Is(err, shoal.ErrClosed) && !errors.Is(err, shoal.ErrDropped) && !errors.Is(err, context.Canceled) {
				t.Errorf("Wait of the group = %v", err)
			}
			checkEnded(t, p)
		}
	}
}

func TestGroupTryGoAtTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4))
		g := p.Group(bg, shoal.Limit(2))
		gate := make(chan struct{})
		wait := func(context.Context) error { <-gate; return nil }
		no := func(context.Context) error { t.Error("it ran"); return errBoom }
		for range 2 {
			if !g.TryGo(wait) {
				t.Error("false below the limit")
			}
		}
		if g.TryGo(no) {
			t.Error("true at the limit")
		}
		waits := inBackground(func() { g.Go(fine) })
		synctest.Wait()
		if isClosed(waits) || g.TryGo(no) {
			t.Error("true beside a Go that waits")
		}
		close(gate)
		<-waits
		if err := g.Wait(); err != nil {
			t.Errorf("what did not run is no error: %v", err)
		}
		if !g.TryGo(func(context.Context) error { return errBoom }) {
			t.Error("false, and nothing runs")
		}
		wantErr(t, "Wait", g.Wait(), errBoom)
		if s := p.Stats(); s.Rejected != 0 || s.Completed != 4 {
			t.Errorf("the limit is not the pool's: %+v", s)
		}
		shutClean(t, p)
	})
}

func TestGroupTryGoOnAFullPool(t *testing.T) {
	for _, policy := range policies {
		for _, opts := range [][]shoal.GroupOption{nil, {shoal.Limit(5)}, {shoal.CollectErrors()}} {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy))...)
				release := hold(t, p, 1)
				g := p.Group(bg, opts...)
				ran := false
				if !g.TryGo(func(context.Context) error { ran = true; return nil }) {
					t.Error("false, and there is room")
				}
				if g.TryGo(func(context.Context) error { t.Error("it ran"); return nil }) {
					t.Error("true, and there is no room")
				}
				waited := inBackground(func() { wantErr(t, "Wait", g.Wait(), nil) })
				synctest.Wait()
				if isClosed(waited) {
					t.Error("Wait has returned, and a task is left")
				}
				release()
				<-waited
				if !ran {
					t.Error("what was accepted did not run")
				}
				shutClean(t, p)
			})
		}
	}
}

// What is refused for ever is the group's error, as with Go.
func TestGroupTryGoThatCannotSucceed(t *testing.T) {
	closed, open := newPool(t), openPool(t)
	closed.Close()
	no := func(context.Context) error { t.Error("it ran"); return nil }
	for what, c := range map[string]struct {
		g    *shoal.Group
		f    func(context.Context) error
		want error
	}{
		"nil function":  {open.Group(bg), nil, shoal.ErrNilTask},
		"closed pool":   {closed.Group(bg), no, shoal.ErrClosed},
		"ended context": {open.Group(canceledContext()), no, context.Canceled},
		"nil pool":      {(*shoal.Pool)(nil).Group(bg), no, shoal.ErrClosed},
		"invalid limit": {open.Group(bg, shoal.Limit(0)), no, shoal.ErrConfig},
		"zero group":    {new(shoal.Group), no, shoal.ErrClosed},
	} {
		if c.g.TryGo(c.f) {
			t.Errorf("%s: true", what)
		}
		wantErr(t, what, c.g.Wait(), c.want)
	}
	g := open.Group(bg)
	g.Go(func(context.Context) error { return errBoom })
	for g.Context().Err() == nil {
		runtime.Gosched()
	}
	if g.TryGo(no) {
		t.Error("true after an error")
	}
	wantErr(t, "Wait", g.Wait(), errBoom)
}

// A task that finds the limit reached goes on: TryGo does not run f in place.
func TestGroupTryGoInATask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		g := p.Group(bg, shoal.Limit(1))
		g.Go(func(ctx context.Context) error {
			if g.TryGo(func(context.Context) error { t.Error("it ran"); return nil }) {
				t.Error("true at the limit")
			}
			inner := p.Group(ctx, shoal.Limit(1))
			ran := false
			if !inner.TryGo(func(context.Context) error { ran = true; return nil }) {
				t.Error("false below the limit")
			}
			if ran {
				t.Error("TryGo has run it")
			}
			if err := inner.Wait(); err != nil || !ran {
				t.Errorf("Wait = %v, ran %v", err, ran)
			}
			return nil
		})
		must(t, g.Wait())
		shutClean(t, p)
	})
}

// As many as are accepted run, and no more than the limit at once.
func TestGroupTryGoManyAtOnce(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(8), shoal.WithQueueCapacity(4))
	g := p.Group(bg, shoal.Limit(3))
	var accepted, ran, running, most atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range rounds(2000) {
				if g.TryGo(func(context.Context) error {
					if n := running.Add(1); n > 3 {
						most.Store(n)
					}
					runtime.Gosched()
					running.Add(-1)
					ran.Add(1)
					return nil
				}) {
					accepted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	must(t, g.Wait())
	if accepted.Load() != ran.Load() || accepted.Load() == 0 || most.Load() != 0 {
		t.Errorf("%d accepted, %d ran, up to %d at once; want as many, 3", accepted.Load(), ran.Load(), most.Load())
	}
	shutClean(t, p)
}

// Answer at once what can be started now, and refuse the rest.
func ExampleTryGo() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1)))
	defer pool.Close()

	hold := make(chan struct{})
	var answers []*shoal.Future[int]
	for request := range 4 {
		f, err := shoal.TryGo(context.Background(), pool, func(context.Context) (int, error) {
			<-hold
			return request * request, nil
		})
		if errors.Is(err, shoal.ErrQueueFull) {
			fmt.Println(request, "try again later")
			continue
		}
		answers = append(answers, f)
	}
	close(hold)
	for _, f := range answers {
		fmt.Println(f.Wait(context.Background()))
	}
	// Output:
	// 2 try again later
	// 3 try again later
	// 0 <nil>
	// 1 <nil>
}

// Give half of the work away while there is somebody to take it.
func ExampleGroup_TryGo() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	defer pool.Close()

	group := pool.Group(context.Background(), shoal.Limit(2))
	var sum atomic.Int64
	var count func(lo, hi int64)
	count = func(lo, hi int64) {
		for hi-lo > 10 {
			mid, end := (lo+hi)/2, hi
			if !group.TryGo(func(context.Context) error { count(mid, end); return nil }) {
				break // all are busy: do all of it here
			}
			hi = mid
		}
		for ; lo < hi; lo++ {
			sum.Add(lo)
		}
	}
	count(0, 1000)
	fmt.Println(group.Wait(), sum.Load())
	// Output: <nil> 499500
}
