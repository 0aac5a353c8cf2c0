package shoal

import (
	"math"
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
//
// Who cannot go on with the turns gives some of them back, as tickets at the end of
// the queue: two for each task that it has run, so that a task costs no more where
// many wait for its key. Who comes to such a ticket takes others too. So while turns are
// left the line is running, or has a ticket in the queue. Under DropOldest all are
// given back: what is dropped is tickets, and a line that does not run must have one for
// each of its tasks. How many that are is bounded by the capacity then.

// A turnTaker is the body of a call that may have to leave its turn.
type turnTaker interface {
	body
	accepted()                 // its place in line is certain; Pool.mu may be held
	takeFirst() bool           // takes its turn if no task of its key is accepted, which also accepts it; Pool.mu is held
	takeTurn() bool            // false: a task of its key is running
	leaveTurn() bool           // to that one, unless it has ended; Pool.mu is held
	free() bool                // the task has ended: free the line, unless a turn was left
	next() queue.Item          // the task whose turn was left; Pool.mu is held
	giveBack(most int) []*call // tickets for turns that were left, and free the line; Pool.mu is held
	goes()                     // the ticket is discarded: the first task of the line goes, and is told in resolve; Pool.mu may be held
	overTurn(err error)        // call.over, for the task that had this turn
}

// dropKept resolves a task of a key that will not run, unless somebody has withdrawn it.
func dropKept(it queue.Item) {
	if !it.IsRecord() {
		return
	}
	if c := queue.As[call](it); c.take() {
		c.over(ErrDropped)
		c.body.resolve(ErrDropped)
	}
}

// admitted tells it, if it wants to know, that it has ticket t.
func admitted(it queue.Item, t uint64) {
	if it.IsRecord() {
		c := queue.As[call](it)
		c.at = t & ticketMask
		c.accepted()
	}
}

// accepted tells c, which has a place in line now, if it wants to know.
func (c *call) accepted() {
	if c.turns {
		c.body.(turnTaker).accepted()
	}
}

// takeTurn reports whether the turn of c has come. If not w is done with it.
func (w *worker) takeTurn(c *call) bool {
	p := w.p
	t := c.body.(turnTaker)
	for !t.takeTurn() {
		p.mu.Lock()
		if t.leaveTurn() {
			w.notRun()
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
			p.outCalls.remove(c)
			p.parkLocked()
			p.notifyLocked()
			p.unlockEnding()
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
	}
	p.limit.Store(0) // a worker that this frees need not be room: have submitters look
}

// dropParkedLocked drops all tasks that are parked. Those who run the others of
// their keys throw them away.
func (p *Pool) dropParkedLocked() (n int) {
	n = int(p.parked.Load())
	p.parked.Add(-int64(n))
	p.leaveOutsideLocked(n)
	p.dropped += uint64(n)
	p.outDropped += uint64(n)
	return n
}

// maxTurns is how many turns a worker takes, one after the other. With maxStep it
// fits in worker.left.
const maxTurns = 32

// turnsBack is how many turns are given back for a task that was run.
const turnsBack = 1 + 1>>sy.Shorter

// runTurns runs the tasks that have left their turn to c, which has ended, on
// worker w; or gives turns back, as tickets at the end of the queue: after some, where
// w is to stop or is wanted elsewhere, and where w is nil, which is a goroutine that is no
// worker's or is about to end. In a pool that stops they are dropped.
func (p *Pool) runTurns(c *call, w *worker) {
	t := c.body.(turnTaker)
	for n := 0; !t.free(); n++ {
		back := w == nil || n == maxTurns || w.host != nil && w.recalled(p.now()) || p.tasksPerWorker > 0 && w.done()+1 >= int64(p.tasksPerWorker) // the task that has ended counts later
		p.mu.Lock()
		back = back || p.stopsTakingLocked() || p.own != nil && p.neededLocked(p.own)
		if back && p.phase != phaseStopping {
			sy.Reach("give turns back")
			most := turnsBack * (n + 1)
			if p.policy == DropOldest && p.capacity != Unbounded {
				most = math.MaxInt
			}
			for _, ticket := range t.giveBack(most) {
				p.parked.Add(-1)
				p.outTotal-- // it has a ticket again, which counts as submitted
				p.forceLocked(queue.Record(ticket))
				p.leaveOutsideLocked(1)
			}
			p.mu.Unlock()
			p.published()
			return
		}
		it := t.next()
		if p.phase == phaseStopping {
			p.mu.Unlock()
			dropKept(it) // it counts as dropped
			continue
		}
		p.parked.Add(-1)
		if it.IsRecord() {
			p.outCalls.add(queue.As[call](it))
		}
		p.promoteAndUnlock()
		sy.Reach("run a turn")
		p.runTurn(it, c, w)
	}
}

// runTurnsOn is runTurns on worker w, which was counted in turning when c was finished:
// between the tasks of a key it is as busy as in them.
func (p *Pool) runTurnsOn(w *worker, c *call) {
	defer func() {
		p.mu.Lock()
		p.turning--
		p.notifyLocked() // until now it was as good as in a task
		p.promoteAndUnlock()
	}()
	p.runTurns(c, w)
}

// runTurn runs a task, and if that ends the goroutine sees to the other turns too.
func (p *Pool) runTurn(it queue.Item, c *call, w *worker) {
	failed, returned := true, false
	defer func() {
		if w != nil && failed {
			p.mu.Lock()
			w.faults++
			p.mu.Unlock()
		}
		if returned {
			return
		}
		if w != nil { // as in finish: the goroutine is about to end, and in no task
			if p.watch != nil {
				w.since.Store(p.now())
			}
			w.status.Store(uint64(w.done()+1)<<statusBits | idleBit)
		}
		p.runTurns(c, nil)
	}()
	if w != nil {
		w.left-- // it counts as run, and towards the next tick
		w.watched.Store(false)
		if p.watch != nil {
			w.since.Store(p.now())
		}
		w.publish(w.done(), p.watch != nil)
		if it.IsRecord() {
			queue.As[call](it).w = w
		}
	}
	failed = p.runOutside(it)
	if w != nil {
		pprof.SetGoroutineLabels(p.labels)
	}
	returned = true
}
