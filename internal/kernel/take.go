package kernel

import (
	"github.com/shoal-go/shoal/internal/grow"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how a worker takes tickets from a lane, and how it ceases to be busy there. It goes on to
// the next task by a step on head, unless the slow-path flag is set or its turn is over. By such a step
// it also enters and leaves the only lane that is ready, unless that is at its maximum.

// maxSeen is how many tickets may be taken after one look at tail. Tickets are compared modulo 1<<38.
// If they wrap while a worker is in one task, it may take an old look for a new one, but only within
// maxSeen tickets of where it looked.
const maxSeen = 1 << 10

// take takes the next task. If there is none it returns false, and w may have been told to leave.
func (w *Worker) take() (queue.Item, bool) {
	c, l, step := w.crew, w.at, uint64(ticketOne)
	if l == nil { // it enters the only lane that is ready, by the step that takes the ticket
		if l = c.solo.Load(); l == nil || w.keeps != nil {
			return w.takeLocked()
		}
		step, w.seenFor = ticketOne+1, 0 // what it has seen may be of another lane
	}
	for {
		h := l.head.Load()
		seg := l.front.Load() // after head is loaded, and before the ticket is taken: see offer
		alone := c.solo.Load() == l
		// Where other lanes are ready, w goes on while its turn lasts and no lane of a higher
		// priority is ready. In a lane that is neither the root nor a leaf right below it, a turn is one task.
		if h&flag != 0 || !alone && (w.turn.began == 0 || c.urgent.Load() > l.turn.Prio()) {
			return w.takeLocked()
		}
		t := ticketOf(h)
		if (w.seen-t-1)&mask >= uint64(w.seenFor) {
			ahead, n := (ticketOf(l.tail.Load())-t)&mask, uint64(maxSeen)
			switch {
			case ahead == 0 && alone:
				return queue.Item{}, false
			case ahead == 0:
				return w.takeLocked()
			case alone:
				w.turn = turn{noted: w.turn.noted}
			default:
				n = w.more()
			}
			if n = min(n, ahead); n == 0 {
				return w.takeLocked() // its turn is over
			}
			w.seen, w.seenFor = (t+n)&mask, uint16(n)
		}
		if w.at == nil && (seg == nil || numOf(h) >= l.limit.Load()) {
			return w.takeLocked()
		}
		if l.head.CompareAndSwap(h, h+step) {
			if w.at == nil {
				w.begin(l, turn{})
			}
			return w.fetch(seg, t), true
		}
	}
}

// takePlain is the fast path of take from one plain task to the next. It takes a ticket that is not
// timed of the only lane that is ready. If anything else is to be done it returns no task, and take
// does it. If the task is a record it puts that into held, and returns no task either.
func (w *Worker) takePlain(c *Crew, l *Lane) (it queue.Item) {
	h := l.head.Load()
	seg := l.front.Load() // see take
	t := ticketOf(h)
	switch {
	case h&flag != 0, c.solo.Load() != l, (w.seen-t-1)&mask >= uint64(w.seenFor), l.timed(t), w.seat.Stale(&c.clock):
		return it
	case !l.head.CompareAndSwap(h, h+ticketOne):
		return it
	case !seg.Holds(t): // as line.fetch does; the call would be 1 to 2 % of an empty task
		seg = l.front.Seek(seg, t)
	}
	sy.Reach("plain")
	if it = seg.Take(t); it.IsRecord() {
		w.held = it
		return queue.Item{}
	}
	return it
}

// fetch empties the cell of ticket t and, if the ticket is timed, begins its timing. seg was
// loaded from front before t was taken.
func (w *Worker) fetch(seg *queue.Segment, t uint64) queue.Item {
	l := w.at
	it, seg := l.fetch(seg, t)
	if l.timed(t) && *seg.Stamp(t) != untimed {
		w.timed, w.started = true, sy.Since(*l.epoch)
		w.waited = w.started - *seg.Stamp(t)
		w.since.Store(w.started + grow.Ahead)
		w.publish(exactBit)
	}
	return it
}

// endTiming notes how long the task took, if fetch noted its start.
func (w *Worker) endTiming() {
	if w.timed {
		l := w.at
		l.owner.Timed(w.waited, sy.Since(*l.epoch)-w.started)
		w.timed = false
		w.publish(0)
	}
}

// begin makes w busy in l, where it has taken a ticket.
func (w *Worker) begin(l *Lane, t turn) {
	w.at, w.turn = l, t
	w.publish(0)
}

// A turn is the time from a worker's coming into a lane until it next looks whose turn it is.
type turn struct {
	began int64 // 0: the lane is alone, or was
	step  uint8 // tasks until the next look at the clock; 0: the turn ends with the task
	noted bool  // the schedule counts the worker: see fair.Item.Begin
}

// more is how many tasks may be taken before the next look at the clock.
func (w *Worker) more() uint64 {
	t := &w.turn
	if t.step > 0 {
		switch spent := w.crew.clock.Now() - t.began; {
		case spent >= turnTime:
			return 0
		case spent < turnTime/4:
			t.step = min(2*t.step, 32)
		}
	}
	return uint64(t.step)
}

// takeLocked makes w cease to be busy, gives free capacity to waiters, and takes the next task, in
// one critical section.
func (w *Worker) takeLocked() (it queue.Item, ok bool) {
	c := w.crew
	c.enter()
	if l := w.keeps; l != nil {
		w.keeps = nil
		l.below--
		c.freed(l)
		l.release()
	}
	now := w.stopLocked()
	if c.tooMany() {
		c.depart(w)
		c.leave()
		return
	}
	c.settle() // before w takes a task: the first waiter is to get the capacity that w has freed
	for {
		l := c.top()
		if l == nil {
			c.leave()
			return
		}
		seg, t, got := l.takeLocked(uint64(l.max() + l.inline))
		if !got {
			continue // another took it, or the last place, without the lock
		}
		c.served++
		tn := turn{}
		if c.subs.Len() > 0 {
			if now == 0 {
				now = c.clock.Now()
			}
			l.charge(now, l.serving()-1) // without w
			if tn = (turn{began: now, noted: true}); l.isLeafOfRoot() {
				tn.step = 1
			}
			l.leaf().Begin()
			l.came(nil)
			l.most = max(l.most, int32(min(l.workersIn()+l.below, l.max()))) // below includes places that are kept
		}
		w.begin(l, tn)
		w.seenFor = 0
		c.touch(l)
		c.leave()
		return w.fetch(seg, t), true
	}
}

// stopLocked counts w's last task as finished, if that is still to be done, and ends the turn. It
// returns the time if it has read the clock, else 0.
func (w *Worker) stopLocked() (now int64) {
	l, c, t, yields := w.at, w.crew, w.turn, w.yields
	if l == nil {
		return 0
	}
	w.publish(idleBit)
	if c.subs.Len() > 0 {
		if now = c.clock.Now(); c.solo.Load() != l {
			c.chargeAlone(0) // w was not there, but may be there next
		}
		l.charge(now, l.serving())
	}
	if at, quiet := l.quietAfter(w.stop()); quiet { // that moment may have passed when leave looks
		l.wakeQuietWaiters(at)
	}
	if t.noted {
		turn := int64(0)
		if t.began != 0 {
			turn = now - t.began
		}
		l.leaf().End(turn)
	}
	if yields && l.up != nil && c.solo.Load() != l {
		// w counts against l's maximum meanwhile. Otherwise a lane whose workers yield would never be at
		// its maximum, and lanes of lower priority would starve.
		l.below++
		l.retain()
		w.keeps = l
	}
	l.left(nil)
	return now
}

// finishAlone counts the last task as finished in the only lane that is ready. It takes the lock only if
// the flag is set, the lane may be quiescent, or other lanes are ready by now.
func (w *Worker) finishAlone() {
	l, c := w.at, w.crew
	w.publish(idleBit)
	h := w.stop()
	at, quiet := l.quietAfter(h) // that moment may have passed when w has the lock

	// If nobody is busy now, only tombstones may be left: then settle sees that l is quiescent.
	if numOf(h) == 0 && l.waiting.Load() != 0 || h&flag != 0 || c.solo.Load() != l {
		c.enter()
		if quiet {
			l.wakeQuietWaiters(at)
		}
		c.freed(l)
		c.leave()
	}
}

// stop subtracts w from busy, and returns the new head word. If w is about to yield it counts as
// yielding at once: between the two steps it counts as neither.
func (w *Worker) stop() (h uint64) {
	h = w.at.exit()
	w.at, w.seenFor, w.turn = nil, 0, turn{}
	if w.yields {
		w.yields = false
		w.seat.Yields(&w.crew.clock)
	}
	return h
}

// publish stores for readers how many tasks w has run, and bits.
func (w *Worker) publish(bits uint64) {
	w.status.Store(uint64(w.seat.Done())<<statusBits | bits)
}
