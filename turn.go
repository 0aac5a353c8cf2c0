package shoal

import (
	"runtime/pprof"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how a task that must not run yet, because another one of its key
// does, leaves its turn to that one: the worker that came to it goes on, and
// whoever runs the other one runs this one next. Until then it is parked: no
// ticket in the queue is its, but it counts as queued, against the capacity
// too. For that, and so that the room never shrinks but by a submitter's move
// (A2), a task becomes parked in the critical section that frees its worker,
// and ceases to be in the one that makes somebody busy with it.
//
// A turn is left with Pool.mu held and the line's lock. The one who runs the
// other task takes such turns, and finds out that there is none, with the
// line's lock held. So either it sees the turn, or the line is free before the
// turn is left, and then it is not.

// A turnTaker is the body of a call that may have to leave its turn.
type turnTaker interface {
	body
	accepted()       // its place in line is certain; Pool.mu may be held
	takeTurn() bool  // false: a task of its key is running
	leaveTurn() bool // to that one, unless it has ended; Pool.mu is held
	free() bool      // the task has ended: free the line, unless a turn was left
	next() func()    // the task whose turn was left; Pool.mu is held
}

// takeTicket admits a task if that can be done without a lock; see push. The
// caller puts it, and calls pushed.
func (p *Pool) takeTicket() (ticket uint64, ok bool) {
	for {
		t := p.tail.Load()
		if t >= p.limit.Load() {
			return 0, false
		}
		if p.tail.CompareAndSwap(t, t+1) {
			return t, true
		}
	}
}

// accepted tells it, which has a place in line now, if it wants to know.
func accepted(it queue.Item) {
	if it.IsRecord() {
		if c := queue.As[call](it); c.turns {
			c.body.(turnTaker).accepted()
		}
	}
}

// takeTurn reports whether the turn of c has come. If not w is done with it.
func (w *worker) takeTurn(c *call) bool {
	p := w.p
	t := c.body.(turnTaker)
	for !t.takeTurn() {
		p.mu.Lock()
		if t.leaveTurn() {
			w.timed = -1
			w.tasks-- // loop counts it as run
			w.status.Store(uint64(w.done()+1)<<statusBits | idleBit)
			w.finishLocked(func() {
				p.passed++
				p.outside++
				p.parkLocked()
			})
			return false
		}
		p.mu.Unlock()
	}
	return true
}

// takeTurnOutside is takeTurn for a task that runs on no worker, and counts in
// outside.
func (p *Pool) takeTurnOutside(c *call) bool {
	t := c.body.(turnTaker)
	for !t.takeTurn() {
		p.mu.Lock()
		if t.leaveTurn() {
			delete(p.outCalls, c)
			p.parkLocked()
			p.notifyLocked()
			last := p.endLocked()
			p.mu.Unlock()
			if last {
				p.finish()
			}
			return false
		}
		p.mu.Unlock()
	}
	return true
}

// parkLocked counts a task in outside as parked. In a pool that stops it is
// dropped.
func (p *Pool) parkLocked() {
	sy.Reach("leave a turn")
	p.parked.Add(1)
	if p.phase == phaseStopping {
		p.dropParkedLocked()
	} else if headBusy(p.head.Load()) >= p.max {
		p.limit.Store(0) // there are too many workers: what they free is no room
	}
}

// dropParkedLocked drops all tasks that are parked. Those who run the others of
// their keys throw them away.
func (p *Pool) dropParkedLocked() (n int) {
	n = int(p.parked.Load())
	p.parked.Add(-int64(n))
	p.outside -= n
	p.dropped += uint64(n)
	p.outDropped += uint64(n)
	return n
}

// runTurns runs the tasks that have left their turn to c, which has ended. w is
// the worker whose goroutine it is, or nil.
func (p *Pool) runTurns(c *call, w *worker) {
	t := c.body.(turnTaker)
	for !t.free() {
		p.mu.Lock()
		f := t.next()
		if p.phase == phaseStopping {
			p.mu.Unlock()
			continue // it counts as dropped
		}
		p.parked.Add(-1)
		p.handed++
		p.mu.Unlock()
		sy.Reach("run a turn")
		p.runTurn(f, c, w)
	}
}

// runTurn runs f, and if that ends the goroutine the other turns too.
func (p *Pool) runTurn(f func(), c *call, w *worker) {
	returned := false
	defer func() {
		if !returned {
			p.runTurns(c, w)
		}
	}()
	if w != nil {
		w.tasks++
		w.publish(w.done(), false)
	}
	p.runOutside(queue.Func(f), true)
	if w != nil {
		pprof.SetGoroutineLabels(p.labels)
	}
	returned = true
}
