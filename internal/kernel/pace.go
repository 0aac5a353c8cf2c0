package kernel

import (
	"time"

	"github.com/shoal-go/shoal/internal/grow"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how submitters that are far ahead of the workers let them follow. To submit a task
// takes some nanoseconds. So submitters that never pause would keep the CPUs from the workers, and the
// queue would grow without end. And two CPUs that submit hinder each other more than one that submits
// and one that works.
//
// A lease is for mostLease tasks at most, so submitters come to the lock once in that many. Under
// Block, a submitter that comes there while more tasks wait than far, and perTask for each that runs,
// parks after its own task was admitted, unless it is a task of the family. A worker that sees in its
// tick that half of what waited, or of farAhead, is taken wakes the submitter that has been parked for
// longest, and some more if few wait. Workers with long tasks do not look. So if the alarm finds that so
// many are taken, it wakes a submitter for each worker.
//
// Parking is no use if tasks are long, or in a pause, or if workers wait for a submitter, or if
// submitters that do not park feed the queue. Then far grows with the queue, so that a submitter
// loses time only each time that the queue has grown to four times its length, or to twice if such
// submitters feed it.
//
// Invariant: while a submitter is parked here, the alarm is set, or has rung and is on its way to the
// lock; and in a lane that is not open none is parked. The alarm rings every 10 ms, and wakes
// submitters that have waited for 100 ms.

// Two figures were measured, on two CPUs with one or more submitters of tasks of some nanoseconds:
// farAhead and paceTime. The others follow from these. What the simulated scheduler of package grow says
// of them stands in its plant_pace_test.go.
const (
	// farAhead tasks that wait are plenty for the workers, and fit into the caches. The garbage
	// collector scans what waits: with twice as many, tasks that allocate take 10 to 20 % longer.
	// With half as many, those of 100 submitters took up to 1.5 times as long.
	farAhead  = 1 << 15 >> (13 * sy.Shorter / 3)
	mostLease = 1 << 12 >> (10 * sy.Shorter / 3) // farAhead / 8

	// While a task runs, perTask more may wait. A worker may not look at the queue if its tasks take
	// longer than grow.ShortStep, 20 µs, and takes so many at most until the alarm rings. Without that, a
	// million tasks that sleep 10 ms on up to 50,000 workers take 1.1 to 1.8 times as long. While 2,000
	// run, a queue of 1<<20 is full before a submitter is far ahead.
	perTask = uint64(int64(paceTime)/grow.ShortStep) >> (8 * sy.Shorter / 3)

	// Parking is in vain if in paceTime, after which Go's scheduler takes the CPU from a goroutine,
	// fewer tasks than mostLease were taken or submitted: 2 µs a task. If nothing moves at all,
	// firstTime suffices.
	paceTime  = 10 * time.Millisecond
	firstTime = paceTime / 40
	mostSlow  = 10 >> sy.Shorter // rings in a row with fewer than mostLease tasks taken before each; after one more it is in vain
	mostTime  = 10 * paceTime    // a submitter is parked for no longer than this and one paceTime
)

// pacing is the state by which a lane slows submitters. The lock of the family guards it, except wakeAt.
type pacing struct {
	far    uint64    // a submitter that sees more tasks wait, and perTask for each that runs, is far ahead
	parked []*waiter // parked submitters, in the order in which they came
	wakeAt sy.Uint64 // ticket of head from which on one of them is to be woken, and bit 0; 0: none is parked

	slow int    // rings of the alarm in a row with fewer than mostLease tasks taken before each
	head uint64 // tickets of head and of tail when it was set
	tail uint64
}

// isFarAhead reports whether a submitter that comes now is far ahead. It makes pacing when more than
// farAhead wait, and resets far when the queue is short. Locked.
func (l *Lane) isFarAhead() bool {
	if l.capacity <= farAhead { // then none ever is
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
	return p != nil && n > p.far+perTask*numOf(l.head.Load())
}

// openLease gives out a lease, unless l is idle. Locked.
func (l *Lane) openLease() {
	if l.leaf().Queued() || l.isMuted() && l.kids() == nil {
		l.lease(mostLease)
	}
}

// pace lists a submitter that is far ahead. The submitter must call awaitWorkers then. Locked.
func (l *Lane) pace() *waiter {
	p := sy.PeekPointer(&l.pacing)
	sy.Reach("ahead")
	w := &waiter{woken: sy.MakeEvent(), since: l.crew.clock.Now()}
	if p.parked = append(p.parked, w); len(p.parked) == 1 {
		l.wakeAtHalf(p)
		if l.paces.stop == nil {
			p.slow = 0
			l.setPaceAlarm(p, firstTime)
		}
	}
	return w
}

// awaitWorkers parks a submitter that is far ahead until it is woken, or its context, whose Done is cancel, ends.
func (l *Lane) awaitWorkers(w *waiter, cancel <-chan struct{}) {
	if !w.woken.WaitOr(cancel) {
		sy.Reach("no longer ahead")
		l.crew.enter()
		p := sy.PeekPointer(&l.pacing)
		remove(&p.parked, w)
		p.wake(0)
		l.crew.leave()
	}
}

// wakeAtHalf makes workers wake a submitter when they have taken half of what waits, or of farAhead. Locked.
func (l *Lane) wakeAtHalf(p *pacing) {
	p.wakeAt.Store((ticketOf(l.head.Load())+min(l.backlog(), farAhead)/2)<<ticketBit | 1)
}

// wake wakes the first n parked submitters. Locked.
func (p *pacing) wake(n int) {
	for _, w := range p.parked[:n] {
		w.woken.Set()
	}
	if p.parked = p.parked[n:]; len(p.parked) == 0 {
		p.parked = nil
		p.wakeAt.Store(0)
	}
}

// endPacing wakes all parked submitters. Locked.
func (l *Lane) endPacing() {
	if p := sy.PeekPointer(&l.pacing); p != nil {
		p.wake(len(p.parked))
	}
}

// mayWake reports whether it is time to wake a submitter.
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
		wake := 1
		if l.backlog() < mostLease {
			wake = farAhead / mostLease // they bring farAhead tasks at most
		}
		l.wakeNext(p, wake)
		l.crew.leave()
	}
}

// wakeNext wakes the first n parked submitters, if it is time. Locked.
func (l *Lane) wakeNext(p *pacing, n int) {
	if l.mayWake(p) {
		p.far = farAhead
		l.wakeAtHalf(p)
		p.wake(min(n, len(p.parked)))
	}
}

// setPaceAlarm makes the alarm ring after d. Locked.
func (l *Lane) setPaceAlarm(p *pacing, d time.Duration) {
	p.head, p.tail = ticketOf(l.head.Load()), ticketOf(l.tail.Load())
	l.set(&l.paces, d, nothing, func() { l.checkPace(p, d) })
}

// checkPace is what the alarm calls. It wakes submitters if it is time and, if parking is in vain, all of
// them, else those that have waited for long. Locked.
func (l *Lane) checkPace(p *pacing, d time.Duration) {
	// If no worker has followed, their tasks are long, and each may soon want one. If farAhead waited, no more
	// come than were taken, so the queue does not grow.
	had := len(p.parked) > 0
	l.wakeNext(p, min(l.crew.live, farAhead/2))
	taken := (ticketOf(l.head.Load()) - p.head) & mask
	moved := taken + (ticketOf(l.tail.Load())-p.tail)&mask
	if p.slow++; taken >= mostLease {
		p.slow = 0
	}
	switch {
	case !had:
	case len(p.parked) > 0 && (moved == 0 || d == paceTime && moved < mostLease || p.slow > mostSlow):
		sy.Reach("in vain")
		p.far = 4 * l.backlog()
		p.wake(len(p.parked))
	default:
		long := 0
		for now := l.crew.clock.Now(); long < len(p.parked) && now-p.parked[long].since >= int64(mostTime); {
			long++
		}
		p.wake(long)
		l.setPaceAlarm(p, paceTime)
	}
}
