//go:build !poolsim

package queue

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// parked waits until a taker has parked in c, and reports whether one has.
func parked(c *Cell) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if atomic.LoadPointer(&c.p) != nil {
			return true
		}
	}
	return false
}

// TestTakeParksUntilItsPutterComes: a taker that went on yielding would keep the CPU from a putter whose thread was
// interrupted for it.
func TestTakeParksUntilItsPutterComes(t *testing.T) {
	s := newShort(0, false)
	for ticket := range uint64(firstSize) {
		ran := false
		taken := make(chan Item)
		go func() { taken <- s.Take(ticket) }()
		if !parked(s.Cell(ticket)) {
			t.Fatal("the taker does not park")
		}
		early := s.Cell(ticket).Put(Func(func() { ran = true }))
		select {
		case <-taken:
			t.Fatal("the taker went on before it was woken")
		default:
		}
		early.Wake()
		if (<-taken).Func()(); !ran {
			t.Error("it has taken another task")
		}
		if it := s.Cell(ticket).Peek(); !it.IsZero() {
			t.Error("the cell is not empty")
		}
	}
}

// TestNoTimePassesInABubbleWhileATakerIsParked: there a timer must not fire because a putter is slow; and a taker that
// slept would sleep for ever beside a goroutine that never blocks.
func TestNoTimePassesInABubbleWhileATakerIsParked(t *testing.T) {
	s := newShort(0, false)
	slow, stop := make(chan struct{}), new(atomic.Bool)
	go func() { // a putter outside of the bubble
		defer close(slow)
		parked(s.Cell(0))
		time.Sleep(10 * time.Millisecond)
		s.Cell(0).Put(Func(func() {})).Wake()
	}()
	synctest.Test(t, func(t *testing.T) {
		fired := time.AfterFunc(time.Hour, func() { t.Error("an hour has passed") })
		s.Take(0)
		fired.Stop()
		go func() {
			for !stop.Load() {
				runtime.Gosched()
			}
		}()
		go func() {
			parked(s.Cell(1))
			s.Cell(1).Put(Func(func() {})).Wake()
		}()
		s.Take(1)
		stop.Store(true)
	})
	<-slow
}
