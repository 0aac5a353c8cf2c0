package kernel

import (
	"context"
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how submitters that are far ahead of the workers let them follow. To submit a task
// takes some nanoseconds. So submitters that never pause would keep the CPUs from the workers, and the
// queue would grow without end. And two CPUs that submit hinder each other more than one that submits
// and one that works.
//
// A lease is for mostLease tasks at most, so submitters come to the lock once in that many. Under Block,
// whoever comes there while more than far tasks wait parks when its own task was admitted, unless it is
// a task of the family. A worker that sees in its tick that half of what waited is taken wakes the
// first of those who are parked, and more of them if that does not bring enough tasks.
//
// That is no use where tasks are long, or in a pause, or where workers wait for a submitter, or where
// others feed the queue, who do not park. Then far grows with the queue, so that a submitter loses
// time only each time that the queue has grown to four times of what it was.
//
// Invariant: while somebody is parked here, the alarm is set, or has rung and is on its way to the
// lock; and in a lane that is not open nobody is. The alarm rings every 10 ms, and wakes whoever has
// waited for 100 ms.

// Two figures were measured, on two CPUs with one or more submitters and tasks of some nanoseconds:
// farAhead and paceTime. The others are parts of them.
const (
	// farAhead tasks that wait are plenty for the workers, and fit into the caches. With twice as many
	// the tasks of one submitter take 8 % longer, and those of 100 submitters 20 to 40 %. A burst of
	// 100,000 takes 3 to 6 % longer than without a limit.
	farAhead  = 1 << 16 >> (14 * sy.Shorter / 3)
	mostLease = 1 << 12 >> (10 * sy.Shorter / 3) // farAhead / 16

	// It is in vain if in paceTime, after which Go's scheduler takes the CPU from a goroutine, fewer tasks
	// than mostLease were taken or submitted: 2 µs a task. If nothing moves at all firstTime is enough.
	paceTime  = 10 * time.Millisecond
	firstTime = paceTime / 40
	mostSlow  = 10 >> sy.Shorter // times paceTime, in which mostLease were submitted and fewer were taken
	mostTime  = 10 * paceTime    // that somebody is parked, and one paceTime
)

// pacing is a lane's part in that. But for wakeAt, it is guarded by the lock of the family.
type pacing struct {
	far    uint64    // a submitter that sees more tasks wait is far ahead
	parked []pacer   // those who wait, in the order in which they came
	wakeAt sy.Uint64 // head's ticket from which on one of them is to be woken, and 1; 0: none waits
	sent   uint64    // ticket of tail when some were last woken
	woken  int       // how many; 0: none yet

	alarm alarm
	slow  int    // how often it has rung since many tasks were taken
	head  uint64 // tickets when it was set
	tail  uint64
}

// A pacer is a submitter that waits.
type pacer struct {
	woken sy.Event
	since int64
}

// isFarAhead reports whether a submitter is that. It makes pacing when one is for the first time, and
// has far begin anew in a short queue. Locked.
func (l *Lane) isFarAhead() bool {
	if l.capacity <= farAhead { // it never is
		return false
	}
	p, n := sy.PeekPointer(&l.pacing), l.backlog()
	if p == nil && n > farAhead {
		p = &pacing{far: farAhead}
		l.pacing.Store(p)
	}
	if p != nil && n <= farAhead/2 {
		p.far = farAhead
	}
	return p != nil && n > p.far
}

// leaseFor gives a lease. If its caller is to wait here beside n others it is for n tasks only, so
// that others come here too, but not all of thousands at once. A lane that is idle gets none. Locked.
func (l *Lane) leaseFor(ahead bool) {
	n := int64(mostLease)
	if ahead {
		n = min(n, int64(len(sy.PeekPointer(&l.pacing).parked)))
	}
	if l.leaf().Queued() || l.muted && l.kids == nil {
		l.lease(n)
	}
}

// pace lists a submitter that is far ahead. It is to call awaitWorkers then. Locked.
func (l *Lane) pace() pacer {
	c, p := l.crew, sy.PeekPointer(&l.pacing)
	sy.Reach("ahead")
	w := pacer{sy.MakeEvent(), c.clock.Now()}
	if p.parked = append(p.parked, w); len(p.parked) == 1 {
		p.woken = 0
		l.wakeAfter(p, min(l.backlog()-p.far/2, farAhead/2))
		if p.alarm.stop == nil {
			p.slow = 0
			l.setPaceAlarm(p, firstTime)
		}
	}
	return w
}

// awaitWorkers parks a submitter that is far ahead until it is woken, or ctx ends.
func (l *Lane) awaitWorkers(w pacer, ctx context.Context) {
	if !w.woken.WaitOr(doneOf(ctx)) {
		sy.Reach("no longer ahead")
		l.crew.enter()
		p := sy.PeekPointer(&l.pacing)
		remove(&p.parked, w)
		p.wake(0)
		l.crew.leave()
	}
}

// wakeAfter has workers wake somebody when they have taken n more tasks. Locked.
func (l *Lane) wakeAfter(p *pacing, n uint64) {
	p.wakeAt.Store((ticketOf(l.head.Load())+n)<<ticketBit | 1)
}

// wake wakes the first n. Locked.
func (p *pacing) wake(n int) {
	for _, w := range p.parked[:n] {
		w.woken.Set()
	}
	if p.parked = p.parked[n:]; len(p.parked) == 0 {
		p.parked = nil
		p.wakeAt.Store(0)
	}
}

// endPacing wakes all. Locked.
func (l *Lane) endPacing() {
	if p := sy.PeekPointer(&l.pacing); p != nil {
		p.wake(len(p.parked))
	}
}

// pacingStopped is stopped of the alarm. Locked.
func (l *Lane) pacingStopped() bool {
	p := sy.PeekPointer(&l.pacing)
	return p == nil || p.alarm.stopped()
}

// mayWake reports whether it is time to wake somebody.
func (l *Lane) mayWake(p *pacing) bool {
	at := p.wakeAt.Load()
	return at != 0 && reached(ticketOf(l.head.Load()), ticketOf(at))
}

// follow is called by a worker of l in its tick, unless its tasks are long: then the alarm is quick
// enough.
func (l *Lane) follow() {
	if p := l.pacing.Load(); p != nil && l.mayWake(p) {
		sy.Reach("follow")
		l.crew.enter()
		l.wakeSome(p)
		l.crew.leave()
	}
}

// wakeSome wakes some submitters, if it is time. They are to bring half of what lacks to half of
// farAhead, if each brings as many tasks as those did who were woken last. To wake for all of it would
// be too many: of those some may have begun just now. Locked.
func (l *Lane) wakeSome(p *pacing) {
	if !l.mayWake(p) {
		return
	}
	n, sent, wake := l.backlog(), ticketOf(l.tail.Load()), uint64(1)
	if p.woken > 0 && n < farAhead/2 {
		sy.Reach("wake some")
		wake = max(1, (farAhead/2-n)*uint64(p.woken)/(2*max(1, (sent-p.sent)&mask)))
	}
	p.far = farAhead
	p.woken, p.sent = int(min(wake, uint64(len(p.parked)))), sent
	l.wakeAfter(p, min(n/2, farAhead/2))
	p.wake(p.woken)
}

// setPaceAlarm has the alarm ring after d. Locked.
func (l *Lane) setPaceAlarm(p *pacing, d time.Duration) {
	p.head, p.tail = ticketOf(l.head.Load()), ticketOf(l.tail.Load())
	p.alarm.stop = sy.AfterFunc(d, func() { l.checkPace(p, d) }).Stop
}

// checkPace is what the alarm calls. It wakes all who wait in vain, and those who have waited for long.
func (l *Lane) checkPace(p *pacing, d time.Duration) {
	c := l.crew
	c.enter()
	defer c.leave()
	p.alarm.stop = nil
	c.touch(l) // its end may wait for that
	l.wakeSome(p)
	taken := (ticketOf(l.head.Load()) - p.head) & mask
	moved := taken + (ticketOf(l.tail.Load())-p.tail)&mask
	if p.slow++; taken >= mostLease {
		p.slow = 0
	}
	switch {
	case len(p.parked) == 0:
	case moved == 0, d == paceTime && moved < mostLease, p.slow > mostSlow:
		sy.Reach("in vain")
		p.far = 4 * l.backlog()
		p.wake(len(p.parked))
	default:
		long := 0
		for now := c.clock.Now(); long < len(p.parked) && now-p.parked[long].since >= int64(mostTime); {
			long++
		}
		p.wake(long)
		l.setPaceAlarm(p, paceTime)
	}
}
