package kernel

import (
	"context"
	"time"
	"weak"

	"github.com/shoal-go/shoal/internal/grow"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Crew is the workers of a family of lanes, and what they share.
//
// Invariants: live ≤ the maximum of the root, except after Resize has lowered it, until workers
// have departed. A worker is in exactly one of these: parked (in idle), searching (in wake),
// busy in a lane (in its head), in a function of the user (apart), or on its way out.
//
// Words are written by anybody, as word.go says; solo and urgent by announce; the rest is guarded
// by mu.
type Crew struct {
	Config
	clock grow.Crew

	_        pad
	solo     sy.Pointer[Lane] // the only ready lane: workers enter and leave it without the lock
	urgent   sy.Int64         // the priority of the lane that comes first
	branched sy.Bool          // there were lanes below the root

	_    pad
	wake sy.Uint64

	_  pad
	mu sy.Mutex // enter and leave only

	root      *Lane
	staff     staff
	idle      idleList
	live      int // workers that exist, from before their start to after their stop hook
	departing int // of these, told to leave
	apart     int // of these, in a function of the user before their first task
	asking    int // of these, asking the Sizer
	searching int // change of wake's searching workers that is not published yet
	said      said
	dirty     *Lane // lanes whose state was changed
	cold      cold  // head of the ring
	colds     int
	deeds     deeds
	subs      map[uint64]sub
	lastID    uint64
	served    uint64 // turns begun under the lock
	reclaim   reclaim
	resting   map[uint64]weak.Pointer[Lane] // lanes, by number, whose samplers rest
}

// A Config is what a crew is told once.
type Config struct {
	Min            int
	Spin           int           // looks before a worker parks
	Idle           time.Duration // an idle worker lives for so long; 0: it leaves; Forever
	TasksPerWorker int           // 0: no limit
	Pin            bool
	Crash          bool
	Eager          bool              // never ask before a worker is added
	Sizer          func(Sizing) bool // nil: package grow
	Start, Stop    func(id int)      // hooks; may be nil
	Labels         context.Context   // pprof labels
	Keeps          *sy.Bool          // workers may keep something for a client: see Owner.Leaves
}

// Forever is the idle time of workers that stay.
const Forever = time.Duration(1<<63 - 1)

// A Sizing is what a Sizer decides by. See shoal.Sizing.
type Sizing struct{ Workers, Idle, Min, Max, Queued int }

// staff is the workers by id.
type staff struct {
	all        []*Worker // nil where the id is free
	freeIDs    []int     // the latest last
	peak       int
	hookBroken bool // a start hook ended its goroutine: later workers go without
	replaces   bool // a worker has left: the next one that is hired does not ask
}

// hire makes a worker that searches; leave starts it.
func (c *Crew) hire() *Worker {
	w := &Worker{crew: c, searches: true, timed: -1}
	w.cycle = func() { w.again = w.loop() }
	w.status.Store(idleBit)
	s := &c.staff
	if n := len(s.freeIDs); n > 0 {
		w.id = s.freeIDs[n-1]
		s.freeIDs = s.freeIDs[:n-1]
		s.all[w.id] = w
	} else {
		w.id = len(s.all)
		s.all = append(s.all, w)
	}
	c.live++
	s.peak = max(s.peak, c.live)
	c.searching++
	c.wakeLater(w)
	return w
}

// mayHire reports whether one more worker is to be hired. While it is being decided whether to
// grow, none is; nor while enough workers are in their start hooks.
func (c *Crew) mayHire() bool {
	return c.asking == 0 && (c.apart == 0 || c.backlogCount() > c.apart)
}

// backlogCount is how many tasks wait for workers, at least.
func (c *Crew) backlogCount() int {
	l := c.top()
	if l == nil {
		return 0
	}
	return int(l.backlog()) + c.root.kids.Len() - 1
}

// fill hires the workers that are missing to the minimum. Locked.
func (c *Crew) fill() {
	for c.root.phase == open && c.live-c.departing < c.Min && c.live < c.root.max {
		c.hire()
	}
}

// rouse wakes a parked worker, which searches then.
func (c *Crew) rouse(w *Worker) {
	c.unpark(w)
	w.searches = true
	c.searching++
	c.wakeLater(w)
}

// dismiss tells a parked worker to leave.
func (c *Crew) dismiss(w *Worker) {
	c.unpark(w)
	c.depart(w)
	c.wakeLater(w)
}

// depart tells w to leave. Its searching is over. Locked.
func (c *Crew) depart(w *Worker) {
	sy.Reach("depart")
	if !w.leaving {
		w.leaving = true
		c.departing++
	}
	c.stopSearch(w)
}

func (c *Crew) stopSearch(w *Worker) {
	if w.searches {
		w.searches = false
		c.searching--
	}
}

// tooMany reports whether there are more workers than there may be: Resize has lowered the
// maximum.
func (c *Crew) tooMany() bool { return c.live-c.departing > c.root.max }

// gone counts w out: it is no worker any more. Locked.
func (c *Crew) gone(w *Worker) {
	c.live--
	c.staff.replaces = true
	if w.leaving {
		c.departing--
	}
	s := &c.staff
	s.all[w.id] = nil
	s.freeIDs = append(s.freeIDs, w.id)
	if c.live == 0 {
		s.all, s.freeIDs = nil, nil // memory returns after a burst
	}
	c.fill()
	c.lastAct()
}

// lastAct has done opened once no worker is left of a root that has ended. Locked.
func (c *Crew) lastAct() {
	if c.root.ended && c.live == 0 {
		c.deeds.calls = append(c.deeds.calls, c.root.done.Open)
	}
}

// An idleList is the parked workers, the latest on top: the hottest stack is used first, and the
// bottom has been idle for longest.
type idleList struct {
	top, bottom *Worker
	n           int
}

func (c *Crew) park(w *Worker) {
	i := &c.idle
	w.parked = true
	if w.next = i.top; i.top == nil {
		i.bottom = w
	} else {
		i.top.prev = w
	}
	i.top = w
	i.n++
}

func (c *Crew) unpark(w *Worker) {
	i := &c.idle
	if w.prev == nil {
		i.top = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		i.bottom = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev, w.parked = nil, nil, false
	i.n--
}

// reclaim is the timer by which idle workers leave. One timer serves the crew: it is due when the
// bottom of the idle list is.
type reclaim struct {
	timer *sy.Timer // nil until first needed
	armed bool      // it is set, or its function runs: the root does not end
}

// armReclaim sets the timer, if it is needed and not set. Locked.
func (c *Crew) armReclaim(now int64) {
	if c.Idle == 0 || c.Idle == Forever || c.reclaim.armed || c.root.phase != open ||
		c.idle.n == 0 || c.live-c.departing <= c.Min {
		return
	}
	c.reclaim.armed = true
	c.root.retain()
	wait := time.Duration(c.idle.bottom.parkedAt + int64(c.Idle) - now)
	if c.reclaim.timer == nil {
		c.reclaim.timer = sy.AfterFunc(wait, c.reclaimIdle)
	} else {
		c.reclaim.timer.Reset(wait)
	}
}

// stopReclaim stops the timer. Locked.
func (c *Crew) stopReclaim() {
	if c.reclaim.armed && c.reclaim.timer.Stop() {
		c.reclaim.armed = false
		c.root.release()
	}
}

// reclaimIdle sends all workers away that have been idle for long enough.
func (c *Crew) reclaimIdle() {
	now := c.clock.Now()
	c.enter()
	c.reclaim.armed = false
	for c.root.phase == open && c.live-c.departing > c.Min {
		w := c.idle.bottom
		if w == nil || w.parkedAt+int64(c.Idle) > now {
			break
		}
		sy.Reach("reclaim")
		c.dismiss(w)
	}
	c.armReclaim(now)
	c.root.release()
	c.leave()
}
