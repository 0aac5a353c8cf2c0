package kernel

import (
	"cmp"
	"fmt"

	"github.com/shoal-go/shoal/internal/sy"
)

// fault returns what if is holds, and no text otherwise.
func fault(is bool, what string) string {
	if is {
		return what
	}
	return ""
}

// audit says what is broken of the invariants that hold whenever the lock is about to be released.
// It is for tests and models. R and W are not here: a goroutine that breaks them without the lock
// is on its way to the lock.
func (c *Crew) audit() string {
	wake := sy.Peek(&c.wake)
	departing, live, parked, ask, listed := 0, 0, 0, 0, true
	for i, w := range c.staff.all {
		if w == nil {
			continue
		}
		live++
		listed = listed && w.ID == i
		if w.parked {
			parked++
		}
		if w.leaving {
			departing++
		}
		if sy.Shorter > 0 && w.asks && w.searches { // outside of models these are the worker's own
			ask++
		}
	}
	for _, w := range c.idle {
		listed = listed && w.parked && !w.leaving
	}
	what := cmp.Or(
		fault(!listed, "the list of the workers or of the parked is broken"),
		fault(ask > 1 && c.Sizer == nil, "several workers ask whether to grow"),
		fault(live != c.live || departing != c.departing || parked != len(c.idle), "workers are miscounted"),
		fault(c.tooMany() && c.urgent.Load() != most, "too many workers, and none is called"),
		fault(c.root.phase == open && c.live-c.departing < c.Min && c.live < c.root.max(), "too few workers"),
		fault(c.tooMany() && len(c.idle) > 0, "too many workers, and some are parked"),
		fault(c.dirty != nil || c.apart < 0 || c.asking < 0, "something is left over"),
		fault(wake&searchMask/searchOne > uint64(c.live), "more workers search than there are"),
		fault(c.toSay() != c.announced(), "something else is to be said"),
	)
	if what != "" {
		return fmt.Sprintf("%s: live %d of %d to %d, departing %d, parked %d, apart %d, asking %d, wake %x, said %+v, to say %+v; seen live %d, departing %d, parked %d",
			what, c.live, c.Min, c.root.max(), c.departing, len(c.idle), c.apart, c.asking, wake, c.announced(), c.toSay(), live, departing, parked)
	}
	if what = c.root.audit(); what != "" {
		return "root: " + what
	}
	n, inline := 0, c.root.inline+int(c.root.hosts)
	for e := c.subs.Front(); e != nil; e = e.Next() {
		n++
		p := e.Value.(*place)
		if l := p.lane.Value(); l != nil {
			inline += l.inline + int(l.hosts)
			if what = cmp.Or(l.audit(), fault(l.ended || l.place != p || p.listed != e || p.up.holds == 0, "it is listed, and has ended")); what != "" {
				return fmt.Sprintf("lane %d: %s", n, what)
			}
		}
	}
	if inline != c.inline {
		return fmt.Sprintf("%d tasks run inline or are hosted, and %d are counted", inline, c.inline)
	}
	return ""
}

// audit says what is broken in l.
func (l *Lane) audit() string {
	h, t := sy.Peek(&l.head), sy.Peek(&l.tail)
	backlog, busy, lease := (ticketOf(t)-ticketOf(h))&mask, numOf(h), numOf(t)
	parked := (l.granted - uint64(l.reserved) - lease - ticketOf(t)) & mask
	reserved := 0
	for r := range l.reserves {
		reserved += r.n
	}
	waiters, called, listed := 0, false, true
	for e := l.blocked.Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		listed = listed && w.place == e && !(w.called && waiters > 0)
		waiters++
		called = called || w.called
	}
	ahead, wakes, alarmed := false, false, l.paces.stop != nil
	if p := sy.PeekPointer(&l.pacing); p != nil {
		ahead, wakes = len(p.parked) > 0, sy.Peek(&p.wakeAt) != 0
	}
	queued, idle := l.leaf().Queued(), lease == 0 && backlog == 0
	what := cmp.Or(
		fault(!listed, "the list of the blocked is broken"),
		fault(backlog > mask/2 || parked > mask/2, "there are fewer than no tasks"),
		fault(l.isMuted() && (l.up == nil || l.turn.Queued()), "muted, and ready or the root"),
		fault(!(l.isMuted() && l.kids() == nil) && !queued && !idle, "neither muted nor ready nor idle"),
		fault(l.kids() != nil && !l.kids().Sound(), "its heap is none, or is not where it is to be in the one above"),
		fault(l.inline < 0 || int(busy) < l.inline, "busy beyond its limit"),
		fault(l.below < 0 || l.holds < 0 || l.reserved != reserved, "something is miscounted"),
		fault(l.tombs > backlog+busy, "more tombstones than tickets"),
		fault(waiters > 0 && !called && !l.isSlow(), "somebody waits for capacity, and workers do not see it"),
		fault(ahead != wakes || ahead && (!alarmed || l.phase != open), "submitters are ahead, and nobody is to wake them"),
		fault(l.phase != open && (lease != 0 || waiters != 0 || len(l.reservers) != 0 || l.reserved != 0 || l.paused), "closed, and somebody waits or has places"),
		fault(l.ended && (l.phase == open || !idle || alarmed || busy != 0 || parked != 0), "ended, and there are tasks or an alarm"),
	)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("%s: backlog %d, lease %d, busy %d, inline %d, maximum %d, in strands %d, tombstones %d, reserved %d of %d, below %d, holds %d, waiters %d, reservers %d, muted %v, slow %v, ready %v, paused %v, phase %d",
		what, backlog, lease, busy, l.inline, l.max(), parked, l.tombs, reserved, l.reserved, l.below, l.holds, waiters, len(l.reservers), l.isMuted(), l.isSlow(), queued, l.paused, l.phase)
}
