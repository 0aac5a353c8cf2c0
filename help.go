package shoal

import (
	"context"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how a task of a pool waits for other tasks of that pool without
// keeping them from being run: it runs what it waits for itself, if that has
// not started. The idea is that of fork and join (Blumofe and Leiserson's Cilk,
// Lea's fork/join framework), but a waiter here runs nothing that it does not
// wait for: another task could take a lock that the waiter holds, or take long.
//
// The waiter claims the task where it lies in the queue. Its ticket stays there
// as a husk; who takes it later finds that the task was begun and goes on. So
// nothing has to be taken out of the middle of a queue, and a claimed task
// keeps its place in the capacity until a worker comes by.
//
// Why nobody waits in vain: who waits on a worker waits for tasks that have
// begun, or has run them. The tasks that have begun run, or wait on a worker
// themselves, for tasks that have begun. Unless tasks wait for each other in a
// circle, somebody runs.

// helpWith is claim for a waiter that has ctx. The error is [ErrWouldDeadlock]
// where it is called by c itself, or by a task that cannot run c.
func (p *Pool) helpWith(c *call, ctx context.Context, n nudger) (claimed, error) {
	h := p.helperOf(ctx)
	if h.c == nil && (c.kept || c.state.Load() == callWaiting) && p.allBusy() {
		// ctx does not tell, the stack does. Finding out takes long, so it is
		// asked only where it matters.
		h.own = p.calledFrom()
	}
	switch {
	case !h.any():
		return notClaimed, nil
	case c.kept: // others of its key come first
		return notClaimed, ErrWouldDeadlock
	}
	for o := h.c; o != nil; o = o.next(p.root()) {
		if o == c {
			return notClaimed, ErrWouldDeadlock
		}
	}
	return p.claim(c, h, n), nil
}

// outerOf tells who is calling: ctx does, or else the stack. Unlike helperOf it is asked
// before it is known whether that will matter. Workers that are free now may wait for the
// caller later, in tasks that began meanwhile.
func (p *Pool) outerOf(ctx context.Context) helper {
	h := helper{c: p.root().taskOf(ctx)}
	switch {
	case !p.made():
	case h.c == nil && p.mayBeInTask():
		h.own = p.calledFrom()
	case h.c != nil:
		h.own = p.calledBelow(h)
	}
	return h
}

// calledFrom is the pool that the calling goroutine runs a task of: p, or the first one above
// it, as the stack tells. nil: it is in none of them.
func (p *Pool) calledFrom() *Pool {
	for p != nil && !p.onOwnWorker() {
		p = p.up
	}
	return p
}

// mayBeInTask returns false if no task of p's family runs, so that none can be calling.
func (p *Pool) mayBeInTask() bool {
	if p.up != nil || p.lends.Load() || headBusy(p.head.Load()) > 0 {
		return true // what runs in sub-pools is not counted here
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outside > 0
}

// calledBelow is calledFrom, for h, whose context tells of a task. It is nil unless the stack
// tells of a pool nearer to p: one of the task around that task.
func (p *Pool) calledBelow(h helper) *Pool {
	for !h.in(p) {
		if p.onOwnWorker() {
			return p
		}
		p = p.up
	}
	return nil
}

// allBusy reports whether every worker that p may have, or that the pools above it may
// lend it, is inside a task.
func (p *Pool) allBusy() bool {
	busy := headBusy(p.head.Load())
	p.mu.Lock()
	all := busy+p.turning+p.guests >= p.max
	p.mu.Unlock()
	return all || p.up != nil && p.up.allBusy()
}

// claimed is what became of an attempt to claim a task.
type claimed uint8

const (
	notClaimed claimed = iota // it has begun, or will not run
	ran                       // it was claimed, and has run
	stranded                  // its pool has as many workers as it may
)

// claim runs c on the calling goroutine, which is that of h, unless it has
// begun. Where h is of another pool of the family it takes the place of a worker
// of p; if there is none n, unless it is nil, is told when there is.
func (p *Pool) claim(c *call, h helper, n nudger) claimed {
	if c.state.Load() != callWaiting {
		return notClaimed
	}
	stay := h.poolOn(p)
	if !p.borrowPlaces(stay, n) {
		return stranded
	}
	begun := false
	defer func() { p.returnPlaces(stay, begun) }()
	p.mu.Lock()
	// In a pool that stops, c is about to be dropped. While p is paused c runs:
	// it is part of the task that waits for it.
	if p.phase == phaseStopping || !c.state.CompareAndSwap(callWaiting, callClaimed) {
		p.mu.Unlock()
		return notClaimed
	}
	begun = true
	if p != stay { // a guest
		p.inside++
		c.shell = p.shells < mostShells && !p.late.has(c.at)
		if !c.shell {
			p.limit.Store(0) // there is less room now: have submitters look
		}
	}
	p.outside++
	p.outCalls.add(c)
	p.huskAndUnlock(c)
	if p != stay {
		p.up.enterPlaces(stay)
	}
	sy.Reach("help")
	p.runOutside(queue.Record(c))
	return ran
}

// mostShells is how many husks of guests take no room at once: such a guest could wait for
// tasks for ever, and the one at the front of the queue might never be taken.
const mostShells = 1 << 10

// withdraw keeps c from being run, and reports whether it did: it resolves
// with err.
func (p *Pool) withdraw(c *call, err error) bool {
	p.mu.Lock()
	if p.phase == phaseStopping || !c.state.CompareAndSwap(callWaiting, callClaimed) {
		p.mu.Unlock()
		return false
	}
	p.helpers++ // the pool is not over before somebody was told
	defer p.helperDone()
	if c.kept {
		p.mu.Unlock() // it counts when its turn comes
	} else {
		p.canceled++
		p.outCanceled++
		p.huskAndUnlock(c)
	}
	sy.Reach("withdraw")
	c.over(err)
	c.body.resolve(err)
	return true
}

// sweep is finish for a husk.
func (w *worker) sweep(c *call) {
	p := w.p
	sy.Reach("husk")
	w.notRun()
	w.finish(func() {
		p.huskGoneLocked(c)
		p.passed++
	})
}

// huskAndUnlock ends the critical section in which the caller has claimed c. It counts the
// husk, or takes its ticket where that is at the front of the queue, and those of the
// husks that come next: so tasks that go on forever, submit, and wait for what they
// submit, do not fill the queue with husks.
func (p *Pool) huskAndUnlock(c *call) {
	seg := p.front.Load() // before the ticket, as for takeCell
	swept := uint64(0)
	h := p.head.Load()
	for headTicket(h) == c.at && swept == 0 {
		if p.head.CompareAndSwap(h, h+ticketOne) {
			swept++
		}
		h = p.head.Load()
	}
	if swept > 0 {
		_, seg = p.takeCell(seg, c.at)
	} else {
		p.husks.Add(1)
		p.huskAt.put(c.at, c)
		if c.shell {
			p.shells++
		}
	}
	for swept < batchStep { // others, and those who come next, are not to wait for long
		h := p.head.Load()
		o := p.huskAt.m[headTicket(h)]
		if o == nil {
			break
		}
		if p.head.CompareAndSwap(h, h+ticketOne) {
			_, seg = p.takeCell(seg, o.at)
			p.huskGoneLocked(o)
			swept++
		}
	}
	p.watch.movedLocked() // only now: who came before saw a task in front of its own
	promoted, ends := false, false
	if swept > 0 {
		sy.Reach("sweep")
		p.passed += swept
		p.displaced.Add(swept)
		ends = p.phase != phaseOpen
	}
	if swept > 0 || c.shell { // there may be room
		promoted = p.promoteLocked()
	}
	p.notifyLocked()
	p.mu.Unlock()
	if promoted {
		p.published()
	}
	if ends {
		p.tidyLane()
	}
}

// isShellLocked reports whether ticket t is the husk of a guest.
func (p *Pool) isShellLocked(t uint64) bool {
	c := p.huskAt.m[t]
	return c != nil && c.shell
}

// huskGoneLocked counts the husk of c out: its ticket was taken.
func (p *Pool) huskGoneLocked(c *call) {
	p.husks.Add(^uint64(0))
	p.huskAt.remove(c.at)
	if c.shell {
		p.shells--
		p.limit.Store(0) // where there are more workers than there may be, to take the ticket has made room
	}
}

// seizeLocked is called by who has taken ticket t, not to run it. It reports
// the task if that is a husk; if not, nobody can claim it from here on. Where its
// putter has not put it yet neither is known.
func (p *Pool) seizeLocked(seg *queue.Segment, t uint64) (husk *call, put bool) {
	it := p.front.Seek(seg, t).Cell(t).Peek()
	switch {
	case it.IsZero():
		return nil, false
	case !it.IsRecord():
		return nil, true
	}
	c := queue.As[call](it)
	if !c.take() {
		return c, true
	}
	if c.turns {
		c.body.(turnTaker).goes() // now, lest a later task of its key goes
	}
	return nil, true
}

// seizeLate is seizeLocked for a ticket that was not put then, and counted as
// passed and in outside.
func (p *Pool) seizeLate(it queue.Item, t uint64) {
	sy.Reach("seize late")
	p.mu.Lock()
	p.late.remove(t)
	p.leaveOutsideLocked(1)
	if it.IsRecord() && !queue.As[call](it).take() {
		p.huskGoneLocked(queue.As[call](it)) // somebody has claimed it meanwhile
	} else {
		p.dropped++
		p.outDropped++
	}
	p.notifyLocked()
	p.unlockEnding()
}

// husksLocked counts out the husks among the n tickets from first on, which the caller
// has taken, and tells how many there are. Nobody claims any more, and nobody has emptied their cells.
func (p *Pool) husksLocked(seg *queue.Segment, first, n uint64) (husks uint64) {
	if p.husks.Load() == 0 {
		return 0
	}
	for i := range n {
		t := (first + i) & ticketMask
		seg = p.front.Seek(seg, t)
		if it := seg.Cell(t).Peek(); isHusk(it) {
			husks++
			p.huskGoneLocked(queue.As[call](it))
		}
	}
	return husks
}
