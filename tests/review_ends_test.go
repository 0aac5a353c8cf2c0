package tests

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// An askingContext calls ask in its methods. If ask needs the lock of a pool, they must not be called
// under that lock.
type askingContext struct {
	context.Context
	ask func()
}

func (c askingContext) Done() <-chan struct{} { c.ask(); return c.Context.Done() }
func (c askingContext) Err() error            { c.ask(); return c.Context.Err() }
func (c askingContext) Value(key any) any     { c.ask(); return c.Context.Value(key) }

// An askingAfterContext tells of its end by a method, as package context lets it.
type askingAfterContext struct{ askingContext }

func (c askingAfterContext) AfterFunc(f func()) (stop func() bool) {
	c.ask()
	stop = context.AfterFunc(c.Context, f)
	return func() bool { c.ask(); return stop() }
}

// The context of WithContext is the user's: its methods may ask the pool, when a pool begins to
// follow it and when it ceases to.
func TestReviewTheContextOfAPoolMayAskIt(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, sub := range []bool{false, true} {
			for _, ended := range []bool{false, true} {
				inBubble(t, func(t *testing.T) {
					parent := newPool(t)
					var asked atomic.Pointer[shoal.Pool]
					asked.Store(parent)
					ctx, cancel := context.WithCancel(bg)
					defer cancel()
					asking := askingContext{ctx, func() { asked.Load().Stats() }}
					var given context.Context = asking
					if after {
						given = askingAfterContext{asking}
					}
					p := parent
					if sub {
						p = newSub(t, parent, shoal.WithContext(given))
					} else {
						p = newPool(t, shoal.WithContext(given))
						asked.Store(p)
					}
					runsMore(t, p, 1)
					if ended {
						cancel()
						<-p.Done()
					} else {
						must(t, p.Shutdown(bg))
					}
					checkLetsGo(t)
					must(t, parent.Shutdown(bg))
				})
			}
		}
	}
}

// A sub-pool may have ended before it begins to follow its context.
func TestReviewASubPoolEndsWhileItsContextIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t)
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		s := newSub(t, p, shoal.WithContext(askingContext{ctx, func() { p.Close() }}))
		<-s.Done()
		checkEnded(t, s)
		checkLetsGo(t)
		closeAll(t, p)
	})
}

// checkLetsGo fails the test if a goroutine of package context still watches the context of a pool.
func checkLetsGo(t *testing.T) {
	t.Helper()
	synctest.Wait()
	buf := make([]byte, 1<<20)
	if all := string(buf[:runtime.Stack(buf, true)]); strings.Contains(all, "propagateCancel") {
		t.Errorf("a goroutine still watches the context of a pool that has ended:\n%s", all)
	}
}

// When its context ends, Shutdown does not wait for a function of the user: also if that is not of
// a task.
func TestReviewShutdownDoesNotWaitForCallbacks(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	reserve := func(t *testing.T, p *shoal.Pool) *shoal.Reservation {
		r, err := p.Reserve(bg, 1)
		must(t, err)
		return r
	}
	for name, test := range map[string]struct {
		opts []shoal.Option
		call func(t *testing.T, p *shoal.Pool, callback func(error)) // has it called
	}{
		"lost, of a canceled task": {nil, func(t *testing.T, p *shoal.Pool, callback func(error)) {
			r := reserve(t, p)
			ctx, cancel := context.WithCancel(bg)
			p.Pause()
			must(t, r.Submit(ctx, nothing, callback))
			cancel()
			p.Resume()
		}},
		"lost, of a task that DropOldest displaces": {
			[]shoal.Option{shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest)},
			func(t *testing.T, p *shoal.Pool, callback func(error)) {
				r := reserve(t, p)
				p.Pause()
				must(t, r.Submit(bg, nothing, callback))
				must(t, p.Submit(func() {}))
				go p.Submit(func() {})
			},
		},
		"Tracer.Refused": {nil, func(t *testing.T, p *shoal.Pool, callback func(error)) {
			p.Pause()
			f := shoal.Go(bg, p, one)
			go f.Cancel()
		}},
	} {
		for _, sub := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				in, out := make(chan struct{}), make(chan struct{})
				callback := func(error) { close(in); <-out }
				opts := append(test.opts, shoal.WithMaxWorkers(1))
				if name == "Tracer.Refused" {
					opts = append(opts, shoal.WithTracer(refusingTracer{callback}))
				}
				var p, its *shoal.Pool
				if sub {
					p = newPool(t)
					its = newSub(t, p, opts...)
				} else {
					p = newPool(t, opts...)
					its = p
				}
				test.call(t, its, callback)
				<-in
				ctx, cancel := context.WithCancel(bg)
				var err error
				down := inBackground(func() { err = p.Shutdown(ctx) })
				synctest.Wait()
				if isClosed(down) {
					t.Errorf("%s, in a sub-pool %v: Shutdown has returned %v, and the callback runs", name, sub, err)
				}
				cancel()
				synctest.Wait()
				if !isClosed(down) {
					t.Errorf("%s, in a sub-pool %v: Shutdown waits, and its context has ended", name, sub)
				}
				close(out)
				<-down
				var cut *shoal.ShutdownError
				if !errors.As(err, &cut) || cut.Dropped != 0 || cut.Running != 0 || !errors.Is(err, context.Canceled) {
					t.Errorf("%s, in a sub-pool %v: Shutdown: %v", name, sub, err)
				}
				<-p.Done()
			})
		}
	}
}

// WithCrashOnPanic holds for the family: what a sub-pool's loop panics with goes on there too.
func TestReviewALoopOnASubPoolCrashes(t *testing.T) {
	p := newPool(t, fixed(1, shoal.WithCrashOnPanic())...)
	s := newSub(t, p)
	release := hold(t, p, 1) // so the caller does all
	got := panicOf(func() {
		err := shoal.Range(bg, s, 2, func(context.Context, int, int) error { panic("oops") })
		t.Errorf("Range: %v", err)
	})
	if got != "oops" {
		t.Errorf("panic %v", got)
	}
	release()
	shutClean(t, p)
}

// A worker's tasks are counted over the family.
func TestReviewMaxTasksPerWorkerCountsTasksOfSubPools(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var left atomic.Int32
		p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithMaxTasksPerWorker(4),
			shoal.WithWorkerHooks(nil, func(int) { left.Add(1) }))
		s := newSub(t, p)
		for i := range 24 {
			pool := []*shoal.Pool{p, s, s}[i%3]
			must(t, pool.SubmitWait(bg, func(context.Context) error { return nil }))
			synctest.Wait()
			if got, want := int(left.Load()), (i+1)/4; got > want || got < want-1 {
				t.Errorf("after %d tasks %d workers have left", i+1, got)
			}
		}
		shutClean(t, p)
		if n := left.Load(); n != 6 {
			t.Errorf("24 tasks, 4 for each worker: %d workers were there", n)
		}
	})
}

// The context of WithContext keeps a pool that was dropped, and closes it when it ends.
func TestReviewAContextKeepsAPoolThatWasDropped(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	p := weak.Make(newPool(t, shoal.WithContext(ctx)))
	runtime.GC()
	kept := p.Value()
	if kept == nil {
		t.Fatal("the pool was collected, and its context lives")
	}
	cancel()
	<-kept.Done()
	testpool.NoGoroutines(t)
}
