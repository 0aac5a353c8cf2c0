package tests

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/shoal-go/shoal"
)

// When Wait returns, all tasks that were accepted before the call have ended: also one that waits
// behind a task of its key which DropOldest displaces.
func TestReviewWaitBesideDropOldestAndAKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest),
			shoal.WithTracer(refusingTracer{func(error) { <-gate }}))...)
		k := shoal.NewKeyed[string](p)
		release := hold(t, p, 1)
		var second atomic.Bool
		must(t, k.SubmitContext(bg, "a", func(context.Context) {}))
		must(t, k.SubmitContext(bg, "a", func(context.Context) { second.Store(true) }))
		displaced := inBackground(func() { p.Submit(func() {}) })
		synctest.Wait() // the first task of the key was displaced, and its Tracer is being told
		waited := inBackground(func() {
			p.Wait()
			if !second.Load() {
				t.Errorf("Wait has returned, and a task that was accepted before has not run: %d queued", p.Stats().Queued)
			}
		})
		synctest.Wait() // it waits
		release()
		synctest.Wait()
		close(gate)
		<-displaced
		<-waited
		shutClean(t, p)
	})
}

// After Pause no worker takes a task, not even one of the sub-pool that it serves.
func TestReviewPauseOfAParentEndsTurnsInSubPools(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		var paused atomic.Bool
		var ran atomic.Int64
		end := make(chan struct{})
		for range 2 {
			s := newSub(t, p)
			must(t, s.Submit(func() { <-end }))
			for range 20 {
				must(t, s.Submit(func() {
					if paused.Load() {
						ran.Add(1)
					}
				}))
			}
		}
		release()
		synctest.Wait() // the worker is in a task of one of them
		p.Pause()
		paused.Store(true)
		close(end)
		synctest.Wait()
		if n := ran.Load(); n > 0 {
			t.Errorf("%d tasks were taken after Pause had returned", n)
		}
		paused.Store(false)
		p.Resume()
		shutClean(t, p)
	})
}

// What a sub-pool has accepted runs, though the sub-pool is not referenced any more. This holds also if
// it was paused, because the end of its parent ends the pause.
func TestTasksOfAPausedSubPoolThatWasDroppedRun(t *testing.T) {
	p := newPool(t, fixed(1)...)
	var ran atomic.Int32
	func() {
		s := newSub(t, p)
		s.Pause()
		for range 3 {
			must(t, s.Submit(func() { ran.Add(1) }))
		}
	}()
	for range 5 { // what is found in one is taken in the next
		runtime.GC()
	}
	must(t, p.Shutdown(bg))
	if n := ran.Load(); n != 3 {
		t.Errorf("of 3 accepted tasks %d ran", n)
	}
}

// A task that waits for one of a pool below its own, and runs it, is on one worker.
func TestATaskThatRunsAnotherIsOnOneWorker(t *testing.T) {
	p := newPool(t, fixed(1)...)
	middle := newSub(t, p)
	below := newSub(t, middle)
	must(t, middle.SubmitWait(bg, func(ctx context.Context) error {
		_, err := shoal.Go(ctx, below, func(context.Context) (int, error) {
			for _, q := range []*shoal.Pool{p, middle, below} {
				if s := q.Stats(); s.Workers > s.MaxWorkers || s.Running > s.Workers {
					t.Errorf("%d workers, %d running, the maximum is %d", s.Workers, s.Running, s.MaxWorkers)
				}
			}
			return 0, nil
		}).Wait(ctx)
		return err
	}))
	if n := middle.Stats().PeakWorkers; n != 1 {
		t.Errorf("there were %d workers at once", n)
	}
	shutClean(t, p)
}

// A statsContext ends when it is told, and its Err asks a pool for its statistics.
type statsContext struct {
	context.Context
	p     *shoal.Pool
	ended chan struct{}
	asked atomic.Bool // for its error, since it has ended
}

func (c *statsContext) Done() <-chan struct{} { return c.ended }

func (c *statsContext) Err() error {
	select {
	case <-c.ended:
		c.asked.Store(true)
		c.p.Stats()
		return context.Canceled
	default:
		return nil
	}
}

// A context is a function of the user: it may use the pool.
func TestTheContextOfABlockedSubmitMayAskThePool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		release := hold(t, p, 1)
		c := &statsContext{Context: bg, p: p, ended: make(chan struct{})}
		blocked := inBackground(func() {
			if err := p.SubmitContext(c, func(context.Context) {}); err != context.Canceled {
				t.Errorf("SubmitContext: %v", err)
			}
		})
		synctest.Wait() // it waits for room
		close(c.ended)
		<-blocked
		if !c.asked.Load() {
			t.Error("nobody asked the context for its error")
		}
		release()
		shutClean(t, p)
	})
}

func TestAWorkerLeavesAfterTheLastTaskOfItsLifeHasPanicked(t *testing.T) {
	for _, spin := range []int{0, 30} {
		inBubble(t, func(t *testing.T) {
			l := newHookLog()
			p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithMaxTasksPerWorker(1), shoal.WithIdleTimeout(shoal.Forever), shoal.WithSpin(spin),
				l.option(), shoal.WithPanicHandler(func(*shoal.PanicError) {}))
			must(t, p.Submit(func() { panic(1) }))
			p.Wait()
			synctest.Wait()
			l.want(t, "after a panic", 1, 1)
			if n := p.Stats().Workers; n != 0 {
				t.Errorf("%d workers", n)
			}
			must(t, p.Close())
		})
	}
}

func TestAnIdleWorkerWhoseTaskHasPanickedKeepsNoSubPoolInMemory(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithIdleTimeout(shoal.Forever), shoal.WithPanicHandler(func(*shoal.PanicError) {}))
	ref := func() weak.Pointer[shoal.Pool] {
		s, err := p.Sub(shoal.WithMaxWorkers(1))
		must(t, err)
		must(t, s.Submit(func() { panic(1) }))
		s.Wait()
		must(t, s.Shutdown(context.Background()))
		return weak.Make(s)
	}()
	if alive(0, ref) > 0 {
		t.Error("the closed sub-pool stays in memory")
	}
	must(t, p.Close())
}

// A context that panics in Done harms the call that it was given to, and no other: neither another
// submitter without capacity, nor the capacity.
func TestReviewAContextThatPanicsHoldsNoCapacity(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		release := hold(t, p, 1)
		must(t, p.Submit(func() {}))
		if panicOf(func() { p.SubmitContext(panickingContext{bg}, func(context.Context) {}) }) == nil {
			t.Error("no panic in SubmitContext")
		}
		if n := p.Stats().Blocked; n != 0 {
			t.Errorf("%d submitters are blocked, want none", n)
		}
		release()
		synctest.Wait()
		if panicOf(func() { p.Reserve(panickingContext{bg}, 1) }) == nil {
			t.Error("no panic in Reserve")
		}
		if n := p.Stats().Reserved; n != 0 {
			t.Errorf("%d places are reserved, want none", n)
		}
		shutClean(t, p)
	})
}

// Nor does it harm the goroutine that ends the task's context for a reason of its own.
func TestReviewAContextThatPanicsCanBeEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		ctx := panickingContext{bg}
		asks := func(ctx context.Context) error { ctx.Done(); return nil }
		var e *shoal.PanicError
		g := p.Group(ctx)
		g.Go(asks)
		if err := g.Wait(); !errors.As(err, &e) {
			t.Errorf("Wait returned %v, want the panic", err)
		}
		err := shoal.Range(ctx, p, 10, func(ctx context.Context, _, _ int) error { return asks(ctx) })
		if !errors.As(err, &e) {
			t.Errorf("Range returned %v, want the panic", err)
		}
		must(t, p.SubmitContext(ctx, func(ctx context.Context) {
			p.Close()
			if ctx.Err() != context.Canceled {
				t.Errorf("Err is %v after Close", ctx.Err())
			}
		}))
		must(t, p.Shutdown(bg))
	})
}

// A panickingContext panics when a goroutine is about to wait for its end.
type panickingContext struct{ context.Context }

func (panickingContext) Done() <-chan struct{} { panic("Done") }
