package kernel

import (
	"container/list"
	"weak"

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
//	idle   no ticket waits, and the lease is 0: whoever submits comes to the lock
//	ready  in the queue of its parent: whoever submits looks at wake
//	muted  at its maximum, or paused; flagged in tail: whoever submits does nothing more, and
//	       the worker that leaves it, which it does under the lock, makes it ready
//
// While several lanes are ready, workers leave a lane only under the lock. If exactly one is
// ready, solo publishes it, and workers enter and leave it without the lock. It stays ready when
// it is empty.
//
// Everything is guarded by the lock of the family, except what account and line say, waiting,
// limit and rejected.
type Lane struct {
	account
	crew     *Crew
	up       *Lane // the parent; nil: this is the root
	prio     int64 // the priority that it, or the lane above it, has below the root
	owner    Owner
	id       caller.ID // in whose name its tasks are called
	waiting  sy.Int64  // goroutines that wait for quiescence; one more from the end of open
	rejected sy.Uint64

	sched
	life
	tally
	sampler sampler

	blocked   list.List      // waiters, in the order of their arrival
	reservers []*Reservation // those who wait for places
	quieters  []*quieter
	nudgers   map[Nudger]struct{} // those who wait for a place here
	reserves  map[*Reservation]struct{}
}

// sched is a lane's part in the schedule of the crew.
type sched struct {
	turn  fair.Item[*Lane]   // it, and what is below it, in the queue of its parent
	own   fair.Item[*Lane]   // its own tasks, in kids
	kids  *fair.Queue[*Lane] // whose turn it is below it; nil: there never was a lane below
	below int                // workers in the lanes below it
	most  int                // workers in it and below it that were seen at once
	noted int                // workers in it that the schedule knows of
	held  bool               // turn is kept out of the queue: it is at its maximum, or paused
	dirty bool
	next  *Lane // dirty
	cold  *cold // its place in the ring of lanes that have cells but nothing to do
}

const (
	none = -1 << 63  // urgent: no lane is ready
	most = 1<<63 - 1 // urgent: every worker is to come to the lock

	turnTime = int64(100_000) // ns: a worker stays in a lane for so long while others are ready
	keepCold = 64             // idle lanes that keep their cells
)

// isLeafOfRoot reports whether workers may serve l without the lock while no other lane is ready.
func (l *Lane) isLeafOfRoot() bool { return l.up == nil || l.kids == nil && l.up.up == nil }

// leaf is what stands for l's own tasks in a queue, and that queue.
func (l *Lane) leaf() (*fair.Queue[*Lane], *fair.Item[*Lane]) {
	if l.kids != nil {
		return l.kids, &l.own
	}
	return l.up.kids, &l.turn
}

// free reports whether one more worker may be busy in l.
func (l *Lane) free() bool { return !l.paused && l.workersIn()+l.below < l.max }

// list makes l ready.
func (c *Crew) list(l *Lane) {
	if l.muted {
		return
	}
	q, it := l.leaf()
	if !it.Queued() {
		c.warm(l)
		q.Put(it)
	}
	for a := l.inner(); a != nil && a.up != nil && !a.held; a = a.up {
		a.up.kids.Put(&a.turn)
	}
}

// inner is the lane in whose queue l stands.
func (l *Lane) inner() *Lane {
	if l.kids != nil {
		return l
	}
	return l.up
}

// withhold keeps l, and what is below it, from the crew: it is at its maximum, or paused.
func (c *Crew) withhold(l *Lane) {
	l.held = true
	l.up.kids.Remove(&l.turn)
}

func (c *Crew) mute(l *Lane) {
	sy.Reach("mute")
	q, it := l.leaf()
	q.Remove(it)
	l.mark(true, l.slow)
}

// freed is called when a worker has left l or a lane below it, or when its maximum was raised
// or a pause ended.
func (c *Crew) freed(l *Lane) {
	if l.held {
		l.held = false
		if l.kids.Len() > 0 {
			c.list(l.kids.First().Of)
		}
	}
	if l.muted {
		sy.Reach("unmute")
		l.mark(false, l.slow)
		c.list(l)
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
	for a := c.root; ; {
		it := a.kids.First()
		switch {
		case it == nil && a == c.root:
			return nil
		case it == nil:
			a.up.kids.Remove(&a.turn)
			a = c.root
			continue
		case it.Of != a && it.Of.kids != nil: // an inner one
			if a = it.Of; !a.free() {
				c.withhold(a)
				a = c.root
			}
			continue
		}
		l := it.Of
		switch {
		case !l.free():
			if c.solo.Load() == l { // from here on workers leave it under the lock; but look once more
				c.solo.Store(nil)
				continue
			}
			c.mute(l)
			a = c.root
			continue
		case l.waits():
			return l
		case a == c.root && a.kids.Len() == 1:
			return nil // it stays ready: it may be the only one that is used
		}
		l.recall() // from here on who submits comes to the lock; but look once more
		if l.waits() {
			sy.Reach("not idle")
			return l
		}
		a.kids.Remove(it)
		c.cool(l)
		a = c.root
	}
}

// rest is called when a worker has parked. If no worker is awake the root takes the place of the
// only ready lane, which would be kept in memory by that.
func (c *Crew) rest() {
	l := c.solo.Load()
	if l == nil || l.up == nil || len(c.idle) < c.live {
		return
	}
	if l.recall(); !l.waits() { // from here on who submits comes to the lock; but look once more
		q, it := l.leaf()
		q.Remove(it)
		c.cool(l)
		c.list(c.root)
	}
}

// charge adds ns of a worker's time to l, and to the lanes that it is below.
func (c *Crew) charge(l *Lane, ns int64) {
	q, it := l.leaf()
	q.Charge(it, ns)
	for a := l.inner(); a != nil && a.up != nil; a = a.up {
		a.up.kids.Charge(&a.turn, ns)
	}
}

// serve notes that a worker serves l from now on, or with d < 0 that it ceases to.
func (c *Crew) serve(l *Lane, d int) {
	l.noted += d
	q, it := l.leaf()
	for a := l.inner(); ; q, it, a = a.up.kids, &a.turn, a.up {
		if d > 0 {
			q.Begin(it)
		} else {
			q.End(it)
		}
		if a.up == nil {
			return
		}
	}
}

// starves reports whether a lane waits that no worker will come to: see fair.
func (c *Crew) starves() bool {
	for l := c.root; ; {
		if l.kids.Starves() {
			return true
		}
		it := l.kids.First()
		if it == nil || it.Of == l || it.Of.kids == nil {
			return false
		}
		l = it.Of
	}
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

// cool is called where l may have ceased to have anything to do. If there are many such lanes,
// the one that has had nothing to do for longest gives its cells back.
func (c *Crew) cool(l *Lane) {
	_, it := l.leaf()
	if it.Queued() || l.muted || l.cold != nil && l.cold.older != nil || l.back.Load() == nil ||
		numOf(l.head.Load()) != 0 || l.waits() || l.parked() > 0 || l.reserved > 0 || l.blocked.Len() > 0 {
		return
	}
	if l.cold == nil {
		l.cold = &cold{lane: weak.Make(l)}
	}
	ring, e := &c.cold, l.cold
	e.older, e.newer = ring.older, ring
	e.older.newer, ring.older = e, e
	for c.colds++; c.colds > keepCold>>(3*sy.Shorter); {
		sy.Reach("drop cells")
		e := ring.newer
		if l := e.lane.Value(); l != nil {
			c.drop(l)
		} else {
			c.unlink(e) // it was dropped itself
		}
	}
}

// A cold is a lane's place in the ring, which keeps no lane in memory.
type cold struct {
	lane         weak.Pointer[Lane]
	older, newer *cold
}

// drop gives the cells of a cold lane back.
func (c *Crew) drop(l *Lane) {
	c.warm(l)
	l.skip(l.dropCells())
}

func (c *Crew) warm(l *Lane) {
	if l.cold != nil && l.cold.older != nil {
		c.unlink(l.cold)
	}
}

func (c *Crew) unlink(e *cold) {
	e.older.newer, e.newer.older = e.newer, e.older
	e.older, e.newer = nil, nil
	c.colds--
}
