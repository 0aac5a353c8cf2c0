package kernel

import (
	"fmt"

	"github.com/shoal-go/shoal/internal/sy"
)

// audit says what does not hold that must whenever the lock is about to be left. It is for
// tests and models. R and W are not here: who breaks them without the lock is on its way to it.
func (c *Crew) audit() (fault string) {
	wake := sy.Peek(&c.wake)
	departing, live, parked, ask := 0, 0, 0, 0
	for i, w := range c.staff.all {
		if w == nil {
			continue
		}
		live++
		if w.parked {
			parked++
		}
		if w.id != i {
			return fmt.Sprintf("worker %d is listed as %d", w.id, i)
		}
		if w.leaving {
			departing++
		}
		if sy.Shorter > 0 && w.asks && w.searches { // elsewhere these are the worker's own
			ask++
		}
	}
	for _, w := range c.idle {
		if !w.parked || w.leaving {
			return fmt.Sprintf("worker %d: parked %v, leaving %v, in the list of the parked", w.id, w.parked, w.leaving)
		}
	}
	ring := 0
	for e := c.cold.newer; e != &c.cold; e = e.newer {
		ring++
		if e.newer.older != e {
			return "the ring of cold lanes is broken"
		}
	}
	switch {
	case ask > 1:
		return fmt.Sprintf("%d workers ask whether to grow", ask)
	case live != c.live || departing != c.departing || parked != len(c.idle):
		return fmt.Sprintf("live %d, departing %d, parked %d; counted are %d, %d, %d", live, departing, parked, c.live, c.departing, len(c.idle))
	case c.live > c.root.max+c.departing && c.said.urgent != most:
		return fmt.Sprintf("%d workers of at most %d, and %d told to leave", c.live, c.root.max, c.departing)
	case c.root.phase == open && c.live-c.departing < c.Min && c.live < c.root.max:
		return fmt.Sprintf("%d workers of at least %d, and %d told to leave", c.live, c.Min, c.departing)
	case c.tooMany() && len(c.idle) > 0:
		return fmt.Sprintf("%d workers of at most %d, and %d are parked", c.live, c.root.max, len(c.idle))
	case ring != c.colds:
		return fmt.Sprintf("%d cold lanes, counted are %d", ring, c.colds)
	case c.dirty != nil || c.apart < 0 || c.asking < 0:
		return fmt.Sprintf("left over: dirty %v, apart %d, asking %d", c.dirty != nil, c.apart, c.asking)
	case int(wake>>availBit) != c.said.avail || wake&searchMask > uint64(c.live):
		return fmt.Sprintf("wake says available %d, searching %d; said was %d, live are %d", wake>>availBit, wake&searchMask, c.said.avail, c.live)
	case c.toSay() != c.said:
		return fmt.Sprintf("said was %+v, to be said is %+v", c.said, c.toSay())
	case sy.PeekPointer(&c.solo) != c.said.only:
		return "solo is not what was said"
	}
	if f := c.root.audit(); f != "" {
		return "root: " + f
	}
	for n, weak := range c.subs {
		if l := weak.lane.Value(); l != nil {
			if f := l.audit(); f != "" {
				return fmt.Sprintf("lane %d: %s", n, f)
			}
			if l.ended || l.number != n || l.up.holds == 0 {
				return fmt.Sprintf("lane %d is listed and has ended", n)
			}
		}
	}
	return ""
}

// audit says what does not hold in l.
func (l *Lane) audit() string {
	h, t := sy.Peek(&l.head), sy.Peek(&l.tail)
	backlog := (ticketOf(t) - ticketOf(h)) & mask
	parked := (l.granted - uint64(l.reserved) - numOf(t) - ticketOf(t)) & mask
	reserved := 0
	for r := range l.reserves {
		reserved += r.n
	}
	waiters, called := 0, false
	for e := l.blocked.Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		if w.place != e || w.called && waiters > 0 {
			return "the list of the blocked is broken"
		}
		waiters++
		called = called || w.called
	}
	_, it := l.leaf()
	queued := it.Queued()
	switch {
	case backlog > mask/2 || parked > mask/2:
		return fmt.Sprintf("backlog %d, tasks in strands %d", int64(backlog<<ticketBit)>>ticketBit, int64(parked<<ticketBit)>>ticketBit)
	case l.muted != (t&flag != 0) || l.slow != (h&flag != 0):
		return fmt.Sprintf("muted %v, slow path %v; published %v, %v", l.muted, l.slow, t&flag != 0, h&flag != 0)
	case l.muted && queued:
		return "muted and ready"
	case !l.muted && !queued && (numOf(t) != 0 || backlog != 0):
		return fmt.Sprintf("idle with lease %d, backlog %d", numOf(t), backlog)
	case l.kids != nil && !l.kids.Sound():
		return "its heap is none"
	case l.kids != nil && l.up != nil && l.held == l.turn.Queued() && (l.held || l.kids.Len() > 0):
		return fmt.Sprintf("held %v, ready %v, %d ready below", l.held, l.turn.Queued(), l.kids.Len())
	case l.inline < 0 || int(numOf(h)) < l.inline || sy.Peek(&l.limit) != uint64(l.max+l.inline):
		return fmt.Sprintf("inline %d, busy %d, maximum %d, limit %d", l.inline, numOf(h), l.max, sy.Peek(&l.limit))
	case l.below < 0 || l.holds < 0 || l.reserved != reserved:
		return fmt.Sprintf("below %d, holds %d, reserved %d, counted are %d", l.below, l.holds, l.reserved, reserved)
	case l.tombs > backlog+numOf(h):
		return fmt.Sprintf("%d tombstones, %d tickets, %d busy", l.tombs, backlog, numOf(h))
	case waiters > 0 && !called && !l.slow:
		return "somebody waits for room, and workers do not see it"
	case l.phase != open && (numOf(t) != 0 || waiters != 0 || len(l.reservers) != 0 || l.reserved != 0 || l.paused):
		return fmt.Sprintf("closed with lease %d, blocked %d, reservers %d, reserved %d, paused %v", numOf(t), waiters, len(l.reservers), l.reserved, l.paused)
	case l.ended && (l.phase == open || backlog != 0 || numOf(h) != 0 || parked != 0):
		return fmt.Sprintf("ended with backlog %d, busy %d, in strands %d", backlog, numOf(h), parked)
	}
	return ""
}
