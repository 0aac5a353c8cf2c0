package tests

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

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

// After Pause no worker takes a task, also not one of a sub-pool in which it has a turn.
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
