package kernel

import "github.com/shoal-go/shoal/internal/sy"

// This file is the lock of a family; no other file unlocks it. Code under the lock changes state
// and marks the lanes in which R, L or the flags may have to be restored (touch). The exit, leave,
// does the rest: it restores what must hold whenever the lock is free.
//
//	R  In no lane does a waiter or a reservation wait for capacity that is free.
//	W  If a ready lane has a task and a worker is available, one is searching, or is in a function
//	   of the user after which it searches (mayHire); or a submitter searches (leaveAndYield).
//	L  A lane that is not ready has no task and no lease; or it is muted: at its maximum, or paused.
//
// restore announces, then looks, then acts, until there is nothing to do. A goroutine can break R or
// W without the lock: by a step on head that frees capacity, by a put, or when it ceases to search.
// It does so before it looks at what is announced, and comes to the lock if that says so. So one of
// the two sees the other. Nobody breaks L without the lock: a putter needs a lease, and workers leave
// lanes under the lock, except a lane that is the only ready one.

func (c *Crew) enter() { c.mu.Lock() }

// enterOpen takes the lock if l accepts tasks, and reports whether it does.
func (l *Lane) enterOpen() bool {
	if l.crew == nil {
		return false
	}
	if l.crew.enter(); l.phase == open {
		return true
	}
	l.crew.leave()
	return false
}

// leaveAndYield leaves, and yields once, for a submitter without capacity. Meanwhile the flag
// submitter is set in wake. So a worker that takes the first task of a full queue need not wake
// another one, which would find no task if tasks are short: see stopSearch. The submitter comes to
// the lock next, and its exit looks for a worker. The flag is cleared even if others still yield:
// each of them comes to the lock too. Locked.
func (l *Lane) leaveAndYield() {
	c := l.crew
	sy.Reach("submitter yields")
	c.wake.Or(submitter)
	c.leave()
	sy.Yield()
	c.noSubmitter()
}

// read calls f under the lock, and wakes no goroutine afterwards. So f may change only what keeps a
// lane from its end, or what may wait for the next leave. If c is nil there is nothing to read.
func (c *Crew) read(f func()) {
	if c != nil {
		c.mu.Lock()
		f()
		c.mu.Unlock()
	}
}

// touch is called under the lock for a lane whose state was changed.
func (c *Crew) touch(l *Lane) {
	if !l.dirty {
		l.dirty, l.next, c.dirty = true, c.dirty, l
	}
}

// deeds are the actions to take once the lock is free.
type deeds struct {
	workers *Worker  // to be woken or started
	calls   []func() // to be called
	over    bool     // the last goroutine has left: done is to be opened
}

// wakeLater notes that w is to be woken or started.
func (c *Crew) wakeLater(w *Worker) { w.next, c.deeds.workers = c.deeds.workers, w }

// later makes leave call f once the lock is free. l does not end before f has returned.
func (l *Lane) later(f func()) {
	l.retain()
	l.crew.deeds.calls = append(l.crew.deeds.calls, func() {
		f()
		l.Release()
	})
}

// Go calls f on a goroutine of its own, unless l has ended. l does not end before f has returned.
func (l *Lane) Go(f func()) {
	ended := false
	l.crew.read(func() {
		if ended = l.ended; !ended {
			l.retain()
		}
	})
	if ended {
		return
	}
	sy.Go(func() {
		defer l.Release()
		f()
	})
}

// retain keeps l from its end until release. Locked.
func (l *Lane) retain() { l.holds++ }

func (l *Lane) release() {
	l.holds--
	l.crew.touch(l)
}

// Release ends what retain began. It may be the last act of a goroutine of the pool.
func (l *Lane) Release() {
	l.crew.enter()
	l.release()
	l.crew.leave()
}

// leave makes R, W and L true, unlocks, and does the deeds.
func (c *Crew) leave() {
	c.restore()
	if c.deeds.workers != nil {
		c.wakeSamplers()
	}
	d := c.deeds
	c.deeds = deeds{}
	c.check()
	c.mu.Unlock()
	for w := d.workers; w != nil; {
		next := w.next
		w.next = nil
		w.resume()
		w = next
	}
	for _, f := range d.calls {
		f()
	}
	if d.over {
		c.root.done.Open()
	}
}

// restore makes R, W and L true.
func (c *Crew) restore() {
	c.settle()
	for c.announce(); c.understaffed(c.wake.Load()); c.announce() {
		first, l, parked := c.searching() == 0, c.top(), len(c.idle)
		if l == nil || parked == 0 && !c.mayHire() {
			c.announce() // top mutes lanes
			break
		}
		if !first {
			sy.Reach("second")
		}
		if parked > 0 {
			sy.Reach("rouse")
			w := c.unpark(parked - 1)
			w.asks = first && c.Sizer == nil // a Sizer is asked about new workers only
			c.rouse(w)
		} else {
			sy.Reach("hire")
			c.hire().asks = first && !c.Eager && !c.staff.replaces
		}
	}
	c.staff.replaces = false
}

// settle restores R and L in the lanes that touch has marked.
func (c *Crew) settle() {
	for l := c.dirty; l != nil; l = c.dirty {
		c.dirty, l.next, l.dirty = l.next, nil, false
		l.settle()
	}
}

// said is what is announced of the crew's state: solo, urgent, and the available workers of wake.
type said struct {
	only   *Lane
	urgent int64
	avail  int
}

// announced is what was announced last. It is written under the lock only.
func (c *Crew) announced() said {
	return said{sy.PeekPointer(&c.solo), c.urgent.Load(), int(sy.Peek(&c.wake) >> availBit)}
}

// toSay is what is to be announced now.
func (c *Crew) toSay() (s said) {
	s.urgent = none
	if it := c.ready.First(); it != nil {
		s.urgent = it.Prio()
		if c.ready.Len() == 1 && it.Of.isLeafOfRoot() {
			s.only = it.Of
		}
	}
	switch {
	case c.tooMany():
		s.only, s.urgent = nil, most
	case c.root.paused:
		s.only, s.urgent = nil, none
	}
	if !c.root.paused {
		s.avail = len(c.idle) + max(0, c.most()-c.live)
	}
	return s
}

// announce publishes what differs from what was announced last.
func (c *Crew) announce() {
	s, was := c.toSay(), c.announced()
	if s.only != was.only {
		c.chargeAlone(0)
		c.solo.Store(s.only)
		if s.only != nil && c.subs.Len() > 0 {
			s.only.charge(c.clock.Now(), s.only.serving())
		}
	}
	if s.urgent != was.urgent {
		c.urgent.Store(s.urgent)
	}
	if d := int64(s.avail-was.avail) << availBit; d != 0 {
		c.wake.Add(uint64(d))
	}
}

// settle restores R and L in l: it announces, looks and acts.
func (l *Lane) settle() {
	l.compact()
	for {
		l.mark(l.isMuted(), l.wantsSlowPath())
		w := l.firstBlocked()
		if w == nil || w.called || l.findCapacity() <= 0 {
			break
		}
		if l.strict() {
			sy.Reach("admit")
			l.accept(w.it) // first: the submitter returns without the lock, and what it submits next comes after this
			l.unlist(w, nil)
		} else {
			sy.Reach("call")
			w.call(true)
		}
	}
	l.grantReservations()
	l.settleQuiet()
	switch {
	case l.ended:
	case !l.leaf().Queued():
		l.crew.cool(l)
	case !l.waits():
		l.crew.rest(l) // at once: while it is in the schedule, it counts among those that share the time
	}
}

// wantsSlowPath reports whether workers that are about to take a task here, or have ceased to be busy,
// must come to the lock.
func (l *Lane) wantsSlowPath() bool {
	w := l.firstBlocked()
	return w != nil && !w.called || len(l.reservers)+len(l.nudgers) > 0 || l.paused || l.crew.root.paused || l.workersIn()+l.below > l.max() ||
		ticketOf(l.head.Load())+1 == l.fenced
}

// look is called without the lock, after a task was put into a lane that was not muted, or after a
// worker has ceased to search.
func (c *Crew) look() {
	switch wake := c.wake.Load(); {
	case !c.understaffed(wake):
	case wake&searchMask != 0 && c.clock.Runnable() > 1: // not under the lock: it may take a while
		c.arrived() // the first waits for a CPU, as others do: a second would only be ahead of it
	default:
		c.enter()
		c.leave()
	}
}

// backlog reports whether tasks wait for workers. It is a guess: there may be none.
func (c *Crew) backlog() bool {
	if l := c.solo.Load(); l != nil {
		return l.waits()
	}
	return c.urgent.Load() != none
}
