package kernel

import (
	"container/list"
	"slices"

	"github.com/shoal-go/shoal/internal/caller"
	"github.com/shoal-go/shoal/internal/fair"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Lane is a pool as the kernel knows it: a line with an account, a maximum and a life of its
// own, served by the crew of its family. The lane of a pool with goroutines of its own is the
// root of a family; that of a sub-pool is below another lane.
//
// For the crew a lane is in one of three states, which change under the lock only:
//
//	idle   no ticket waits, and the lease is 0: a submitter comes to the lock
//	ready  in the queue of its parent: a submitter looks at wake after its put
//	muted  at its maximum, or paused; flagged in tail: a submitter does nothing after its put. A
//	       worker leaves the lane under the lock, and makes it ready. For the crew the lanes
//	       below it are muted too, but they are not flagged. The root never is: see mute
//
// While several lanes are ready, workers leave a lane only under the lock. If exactly one is ready,
// and it is the root or a leaf right below it, solo publishes it, and workers enter and leave it
// without the lock. Such a lane stays ready when it is empty; a sub-pool only while a worker is awake.
//
// The lock of the family guards everything except waiting, limit, stops and done, and what account, line and
// pacing change without it.
type Lane struct {
	account
	crew    *Crew
	up      *Lane // the parent; nil: this is the root
	owner   Owner
	id      caller.ID // the name in which its tasks are called
	waiting sy.Int64  // goroutines that wait for quiescence; one more once it is not open any more

	sched
	life
	tally
	sampler sampler

	blocked      list.List // waiters, in the order of their arrival
	delayed      map[*Delayed]struct{}
	reservers    []*Reservation // they wait for places
	quietWaiters []*quietWaiter
	nudgers      map[Nudger]struct{} // they wait for a place here
	reserves     map[*Reservation]struct{}
}

// sched is a lane's part in the schedule of the crew.
type sched struct {
	turn   fair.Item[*Lane] // stands for it, and the lanes below it, in the queue of its parent
	below  int              // workers in the lanes below it, and places here of workers that yield
	hosts  int32            // its tasks that run a task of a lane below, in the place of a worker
	guests int32            // its tasks that a task of a lane above runs so
	most   int32            // the most workers in it and below it that were seen at once
	dirty  bool             // its state was changed under the lock
	cools  bool             // it is in Crew.cold

	charged int64 // until when its workers' time was charged
	next    *Lane // the next lane in Crew.dirty

	fenced uint64 // the ticket of head at the last fence, plus 1
}

const (
	none = -1 << 63  // urgent: no lane is ready
	most = 1<<63 - 1 // urgent: every worker is to come to the lock

	turnTime = fair.Turn // ns that a worker stays in a lane while other lanes are ready
	keepCold = 64        // idle lanes that keep their cells, at most
)

// kids is the queue of its own tasks and the lanes below it; nil: there never was one below.
func (l *Lane) kids() *fair.Queue[*Lane] { return l.turn.Below() }

// isLeafOfRoot reports whether workers may serve l without the lock while no other lane is ready.
func (l *Lane) isLeafOfRoot() bool { return l.up == nil || l.kids() == nil && l.up.up == nil }

// leaf is the item that stands for l's own tasks in the schedule. The item turn stands for those of
// the lanes below too: for all tasks that count against l's maximum.
func (l *Lane) leaf() *fair.Item[*Lane] {
	if l.kids() != nil {
		return &l.kids().Own
	}
	return &l.turn
}

// atMax reports whether l has its maximum of busy workers, with those in the lanes below it. Locked.
func (l *Lane) atMax() bool { return l.workersIn()+l.below >= l.max() }

// free reports whether one more worker may be busy in l. Locked.
func (l *Lane) free() bool { return !l.paused && !l.atMax() }

// freeUpTo reports whether l, and each lane above it, up to but not including a, is neither paused nor at a maximum that
// is lower than a's. Locked.
func (l *Lane) freeUpTo(a *Lane) bool {
	for ; l != a; l = l.up {
		if l.paused || l.max() < a.max() && l.atMax() {
			return false
		}
	}
	return true
}

// fence makes each goroutine that has looked at l, or at what bounds l, and is about to take a task
// without the lock, come to the lock instead. That look is out of date: fewer workers may be busy
// from now on, or a claimer takes a worker's place. Since head may return to its old value, its flag
// stays set until its ticket has changed. It is no memory fence. Locked.
func (l *Lane) fence() {
	l.mark(l.isMuted(), true)
	l.fenced = ticketOf(l.head.Load()) + 1
}

// list makes l ready, and the lanes above it, up to the first that is muted.
func (c *Crew) list(l *Lane) {
	if it := l.leaf(); !it.Queued() {
		c.chargeAlone(0)
		it.Put()
	}
}

// serving is how many workers' time l is charged for. The time of a task that runs in the place of a worker is charged to
// the lane of that worker.
func (l *Lane) serving() int { return l.workersIn() - int(l.guests) }

// charge tells the schedule that so many workers have served l until now. It is called before their number changes
// under the lock. Locked.
func (l *Lane) charge(now int64, workers int) {
	if workers > 0 {
		l.leaf().Charge(now-l.charged, workers)
	}
	l.charged = now
}

// chargeAlone is charge for the only lane that is ready, where workers come and go without the lock. It is called before
// another one is ready, before a goroutine with the lock changes how many workers are awake, and before a worker parks
// or ends: left is 1 then, since it has just left. A worker that comes and leaves in between is not seen. If nobody
// serves it, and no other lane of its class is active, it makes up for what it is owed as if one
// worker served it.
func (c *Crew) chargeAlone(left int) {
	if l := sy.PeekPointer(&c.solo); l != nil && c.subs.Len() > 0 && l.leaf().Queued() { // else it is about to be solo no more
		n := l.serving() + left
		if n == 0 && l.leaf().Only() {
			n = 1
		}
		l.charge(c.clock.Now(), n)
	}
}

// mute keeps the crew from l and the lanes below it, as l is at its maximum or paused. l is not the
// root: while that is paused there is no top, and while that is at its maximum all workers are busy.
func (c *Crew) mute(l *Lane) {
	sy.Reach("mute")
	l.place.muted = l
	l.turn.Hold()
	l.mark(true, l.isSlow())
}

// freed unmutes l, and nudges those that wait until it is below its maximum. It is called when a
// worker has left l or a lane below it, or when its maximum or pause was changed. If l may still
// have no worker, top mutes it again.
func (c *Crew) freed(l *Lane) {
	if l.isMuted() {
		sy.Reach("unmute")
		l.place.muted = nil
		l.mark(false, l.isSlow())
		c.chargeAlone(0)
		l.turn.Free()
	}
	for n := range l.nudgers {
		c.deeds.calls = append(c.deeds.calls, n.Nudge)
	}
	l.nudgers = nil
	c.touch(l)
}

// top is the lane whose turn it is, if there is one with a task that a worker may take.
func (c *Crew) top() *Lane {
	if c.root.paused {
		return nil
	}
	for it := c.ready.First(); it != nil; {
		l := it.Of
		switch free := l.free(); { // one look, before the look at solo: workers come and leave without the lock
		case !free && c.solo.Load() == l: // from here on workers leave it under the lock; but look once more
			c.solo.Store(nil)
		case !free:
			c.mute(l)
		case it != l.leaf():
			it = l.kids().First()
			continue
		case l.waits():
			return l
		case !c.rest(l) && !l.waits():
			return nil // the putter of a task that comes now looks for a worker
		}
		it = c.ready.First()
	}
	return nil
}

// rest makes l, which is ready and seems to have no task, idle, and reports whether it did. A lane with a task does
// not become idle, nor does one that may be the only lane in use. A ready lane is kept in memory, so a sub-pool
// stays ready only while a worker is awake.
func (c *Crew) rest(l *Lane) bool {
	if c.ready.Len() == 1 && l.isLeafOfRoot() && (l.up == nil || len(c.idle) < c.live) {
		return false
	}
	l.recall() // from here on submitters come to the lock; but look once more
	if l.waits() {
		sy.Reach("not idle")
		return false
	}
	l.leaf().Remove()
	c.cool(l)
	return true
}

// came and left count a worker in and out of the lanes above l, up to but not including stay
// and the root, whose maximum is that of the crew.
func (l *Lane) came(stay *Lane) {
	for a := l.up; a != stay && a.up != nil; a = a.up {
		a.below++
	}
}

func (l *Lane) left(stay *Lane) {
	l.crew.freed(l)
	for a := l.up; a != stay && a.up != nil; a = a.up {
		a.below--
		l.crew.freed(a)
	}
}

// isCold reports whether l has cells without need: nobody is busy in it, and it is neither ready nor
// muted, so by L it has no task and no lease. Without a lease, tasks are put there under the lock only.
func (l *Lane) isCold() bool {
	return l.back.Load() != nil && !l.leaf().Queued() && !l.isMuted() && numOf(l.head.Load()) == 0
}

// cool is called when l may have become cold. So that a lane that goes idle again and again need
// not allocate, the cold lanes that came here last keep their cells. A lane that is not cold any
// more keeps its position among them. The root keeps its cells always.
func (c *Crew) cool(l *Lane) {
	if l.up == nil || l.cools || !l.isCold() {
		return
	}
	l.cools = true
	c.cold = append(c.cold, l.place.lane) // weak: a *place would keep the lane above in memory
	for len(c.cold) > keepCold>>(3*sy.Shorter) {
		o := c.cold[0].Value()
		c.cold = slices.Delete(c.cold, 0, 1)
		if o == nil {
			continue
		}
		if o.cools = false; o.isCold() {
			sy.Reach("drop cells")
			o.dropCells()
		}
	}
}
