package kernel

import (
	"context"
	"slices"

	"github.com/shoal-go/shoal/internal/sy"
)

// Quiescence: a moment when nothing of a lane is queued or running. Every task is a ticket, or
// makes a goroutine busy, or waits in a strand, which has a ticket or makes a goroutine busy. So a
// lane was quiescent when head had the ticket of tail, but for tombstones, and nobody was busy.
//
// A worker that finishes the last task makes such a head word without the lock. A goroutine that
// begins to wait counts itself in waiting, then looks at head; the worker changes head, then looks at
// waiting. So one of the two sees the other. The moment may have passed when the worker has the lock.
// A goroutine that has begun to wait after it, and perhaps submitted before that, must not be woken.
//
// Any goroutine may change waiting; quietWaiters is guarded by the lock of the family.

// A quietWaiter waits for quiescence.
type quietWaiter struct {
	woken sy.Event
	given uint64 // a moment at which fewer tickets were given out may be from before the wait
}

// quietAfter reports whether a quietWaiter waits, and l was quiescent when head was h. at is the
// number of tickets given out then.
func (l *Lane) quietAfter(h uint64) (at uint64, ok bool) {
	return ticketOf(h), numOf(h) == 0 && l.waiting.Load() != 0 && ticketOf(l.tail.Load()) == ticketOf(h)
}

// If l is quiescent, settleQuiet wakes the quietWaiters, and ends l if it has nothing left to do. Locked.
func (l *Lane) settleQuiet() {
	if len(l.quietWaiters) == 0 && l.phase == open {
		return
	}
	at, ok := l.quiet()
	if !ok {
		return
	}
	l.wakeQuietWaiters(at + 1) // all of them: their waits have begun
	if l.phase == open || l.holds > 0 || !l.sampler.stopped() || !l.follows.stopped() || !l.paces.stopped() || l.up == nil && !l.crew.reclaim.stopped() {
		return
	}
	if l.letGo != nil { // the alarm of follows does not ring any more
		l.later(l.letGo) // after that, settleQuiet is called again
		l.letGo = nil
		return
	}
	for range l.from(l.takeManyLocked(mask)) { // so that a pool that is kept for its Stats keeps no results
		l.tombstones(-1)
	}
	if l.tombs == 0 && !l.ended { // else it has ended, or a worker that has come to a tombstone comes here when it has passed it
		l.finish()
	}
}

// quiet reports whether l is quiescent, and how many tickets are given out. Tombstones do not
// count, but a worker that has taken one is busy until it has passed it. Locked.
func (l *Lane) quiet() (at uint64, ok bool) {
	h := l.head.Load() // before tail: others take tickets
	at = ticketOf(l.tail.Load())
	return at, numOf(h) == 0 && (at-ticketOf(h))&mask == l.tombs && l.inStrands() == 0
}

// wakeQuietWaiters wakes the quietWaiters that wait for a moment when at tickets were given out, or fewer.
// Locked.
func (l *Lane) wakeQuietWaiters(at uint64) {
	l.quietWaiters = slices.DeleteFunc(l.quietWaiters, func(q *quietWaiter) bool {
		wake := reached(at, q.given)
		if wake {
			q.woken.Set()
		}
		return wake
	})
}

// Wait parks until l was quiescent, or ctx ends; then quiet is false. It calls asked before it
// parks. If asked returns true, Wait does not park, and stopped is true.
func (l *Lane) Wait(ctx context.Context, asked func() bool) (quiet, stopped bool) {
	c := l.crew
	if c == nil {
		return true, false
	}
	q := &quietWaiter{woken: sy.MakeEvent()}
	l.waiting.Add(1) // before the look
	defer l.waiting.Add(-1)
	c.enter()
	if _, ok := l.quiet(); ok {
		c.leave()
		return true, false
	}
	if q.given = ticketOf(l.tail.Load()); l.inline > 0 {
		q.given++ // inline tasks have no tickets: a moment at which no more were given out may be from before them
	}
	l.quietWaiters = append(l.quietWaiters, q)
	c.touch(l)
	c.leave() // looks whether l is quiescent
	stopped = asked()
	return !stopped && q.woken.WaitOr(ctx.Done()) || !l.forget(q), stopped
}

// forget takes q off the list, unless it was woken.
func (l *Lane) forget(q *quietWaiter) (listed bool) {
	l.crew.read(func() { listed = remove(&l.quietWaiters, q) })
	return listed
}
