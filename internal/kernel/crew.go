package kernel

import (
	"container/list"
	"context"
	"time"
	"weak"

	"github.com/shoal-go/shoal/internal/fair"
	"github.com/shoal-go/shoal/internal/grow"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Crew is the workers of a family of lanes, and what they share.
//
// Invariants: live ≤ the maximum of the root, except after Resize has lowered it, until workers
// have departed. A worker is in at most one of these: parked (in idle), searching (in wake),
// busy in a lane (in its head), in a function of the user (apart, asking), or on its way out. But one that
// has taken a ticket while it searched is both busy and searching until stopSearch.
//
// In wake, the number of available workers changes under mu; any goroutine may change the others.
// clock guards itself. solo, urgent and branched are written under mu, and read without it. mu
// guards all else.
type Crew struct {
	Config
	clock grow.Crew

	_        sy.Pad
	solo     sy.Pointer[Lane] // the only ready lane: workers enter and leave it without the lock
	urgent   sy.Int64         // the priority of the lane that comes first
	branched sy.Bool          // there were lanes below the root

	_    sy.Pad
	wake sy.Uint64

	_  sy.Pad
	mu sy.Mutex // gate.go only

	root      *Lane
	ready     fair.Queue[*Lane] // kids of the root
	staff     staff
	idle      []*Worker            // parked workers, the latest last: it is woken first, as its stack is hot
	live      int                  // workers that exist, from before their start to after their stop hook
	departing int                  // of these, told to leave
	apart     int                  // of these, in the start hook
	asking    int                  // of these, asking the Sizer
	inline    int                  // tasks in all lanes that run inline, or in the place of a worker (hosts)
	calls     slots[Record]        // tasks with a record that run inline: the end of their lane cuts their contexts
	dirty     *Lane                // lanes whose state was changed
	cold      []weak.Pointer[Lane] // lanes that keep their cells when they are idle; see cool
	deeds     deeds
	subs      list.List            // the *place of each lane below the root, in the order of making
	served    uint64               // turns begun under the lock
	reclaim   alarm                // see armReclaim
	resting   []weak.Pointer[Lane] // lanes whose samplers rest
}

// A Config is what a crew is made with.
type Config struct {
	Min            int
	Spin           int           // looks before a worker parks
	Idle           time.Duration // how long an idle worker lives; 0: it leaves at once; Forever: it stays
	TasksPerWorker int           // 0: no limit
	Pin            bool
	Crash          bool
	Eager          bool              // never ask before a worker is added
	Sizer          func(Sizing) bool // nil: package grow
	Start, Stop    func(id int)      // hooks; may be nil
	Labels         context.Context   // pprof labels
	Keeps          *sy.Bool          // whether something may be in a Keep
}

// Forever is the idle time of workers that stay.
const Forever = time.Duration(1<<63 - 1)

// A Sizing is what a Sizer decides by. See shoal.Sizing.
type Sizing struct{ Workers, Idle, Min, Max, Queued int }

// staff is the workers by id.
type staff struct {
	slots[Worker] // by id
	peak          int
	hookBroken    bool  // a start hook ended its goroutine: later workers have no hooks
	replaces      bool  // a worker has left: one that this exit hires does not ask whether to grow
	busy          int64 // of workers that have left: see busyFor; nanoseconds
	seenBusy      int64 // the most that a snapshot has reported
}

// slots holds values at indexes, which are used again.
type slots[T any] struct {
	all  []*T  // nil where the place is free
	free []int // the latest last
}

func (s *slots[T]) add(v *T) (place int) {
	if n := len(s.free); n > 0 {
		place, s.free = s.free[n-1], s.free[:n-1]
		s.all[place] = v
		return place
	}
	s.all = append(s.all, v)
	return len(s.all) - 1
}

func (s *slots[T]) remove(place int) {
	s.all[place], s.free = nil, append(s.free, place)
}

// hire makes a worker that searches; leave starts it.
func (c *Crew) hire() *Worker {
	c.chargeAlone(0)
	w := &Worker{crew: c}
	w.cycle = w.loop
	w.status.Store(idleBit)
	w.busy.Store(c.clock.Now())
	s := &c.staff
	w.ID = s.add(w)
	c.live++
	s.peak = max(s.peak, c.live)
	c.rouse(w)
	return w
}

// mayHire reports whether one more worker is to be hired. None is hired while a Sizer is asked, nor while
// as many workers search or are in start hooks as tasks wait. A ready lane counts as one task at least, so
// few lanes are looked at.
func (c *Crew) mayHire() bool {
	n := c.apart + c.searching()
	return c.asking == 0 && c.ready.Sum(n+1, func(l *Lane) int { return int(max(1, min(l.backlog(), numMask))) }) > n
}

// fill hires workers up to the minimum. Locked.
func (c *Crew) fill() {
	for c.root.phase == open && c.live-c.departing < c.Min && c.live < c.root.max() {
		c.hire()
	}
}

// rouse makes leave wake or start w, which searches from now on.
func (c *Crew) rouse(w *Worker) {
	w.search()
	if c.arrived(); c.Sizer == nil && !w.seat.Short() {
		c.wake.Or(coming)
	}
	c.wakeLater(w)
}

// dismiss tells the worker that has been parked for longest to leave.
func (c *Crew) dismiss() {
	w := c.unpark(0)
	c.depart(w)
	c.wakeLater(w)
}

// depart tells w to leave. Its searching is over. Locked.
func (c *Crew) depart(w *Worker) {
	w.leaving = true
	c.departing++
	w.cease()
}

// arrived clears the flag coming: no worker is on its way that may need a second one.
func (c *Crew) arrived() { c.wake.And(^uint64(coming)) }

// noSubmitter notes that no submitter searches, and returns the new wake.
func (c *Crew) noSubmitter() uint64 { return c.wake.And(^uint64(submitter)) &^ submitter }

// search counts w as searching. Meanwhile submitters need not wake another worker.
func (w *Worker) search() {
	if !w.searches {
		w.searches = true
		w.crew.wake.Add(searchOne)
	}
}

// cease ends the search of w. It returns the new wake, or 0 if w did not search.
func (w *Worker) cease() (wake uint64) {
	if w.searches {
		w.searches = false
		wake = w.crew.wake.Add(^uint64(searchOne - 1))
	}
	return wake
}

// searching is how many workers search.
func (c *Crew) searching() int { return int(c.wake.Load() & searchMask / searchOne) }

// understaffed reports whether wake says that a worker is available, and that nobody searches; or that
// only a worker does that was just woken, and a second one is to be woken too.
func (c *Crew) understaffed(wake uint64) bool {
	n := wake & (submitter | searchMask | coming)
	return wake >= availOne && (n <= coming || n == searchOne+coming && c.wantsSecond())
}

// wantsSecond reports whether a second worker is to be woken while the first one is on its way:
// several tasks have come to a pool that runs none, and there is more than one CPU. If only the
// first were woken, it would wake the second when it has come. Then the second would be in runnext
// of a CPU that is in use, and Go's scheduler takes it from there only after 60 µs or more
// (Latency/50). But a first worker that has run many short tasks comes alone (coming): it has most
// of them done by then. So does one that a Sizer has to allow. And while other goroutines wait for a CPU,
// look wakes no second one: it would run at once, and the first, which is to ask for more workers, would
// wait behind all those (Mixed/beside=spinning).
func (c *Crew) wantsSecond() bool {
	l := c.solo.Load()
	return l != nil && c.clock.Procs() > 1 && numOf(l.head.Load()) == 0 && l.backlog() > 1
}

// tooMany reports whether there are more workers than there may be: the root has ended, or Resize
// has lowered the maximum.
func (c *Crew) tooMany() bool { return c.live-c.departing > c.most() }

// most is how many workers there may be.
func (c *Crew) most() int {
	if c.root.ended {
		return 0
	}
	return c.root.max()
}

// gone removes w, which has ended, from the crew. Locked.
func (c *Crew) gone(w *Worker) {
	c.live--
	c.staff.replaces = true
	if w.leaving {
		c.departing--
	}
	s := &c.staff
	s.busy += ^w.busy.Load() // its life is over: see busyFor
	if s.remove(w.ID); c.live == 0 {
		s.slots, c.idle = slots[Worker]{}, nil // memory returns after a burst
	}
	c.fill()
	c.lastAct()
}

// lastAct makes leave open done if the root has ended and no worker is left. Locked.
func (c *Crew) lastAct() {
	if c.root.ended && c.live == 0 {
		c.deeds.over = true
	}
}

func (c *Crew) park(w *Worker) {
	if w.wakeup.IsZero() { // many workers leave without having parked
		w.wakeup = sy.MakeEvent()
	}
	w.parked = true
	c.idle = append(c.idle, w)
	c.noSubmitter() // the queue is not full any more: w has found no task
}

// unpark takes the worker at i, which is the first or the last, off the list.
func (c *Crew) unpark(i int) *Worker {
	c.chargeAlone(0)
	w := c.idle[i]
	c.idle[i], w.parked = nil, false
	if last := len(c.idle) - 1; i == last {
		c.idle = c.idle[:last]
	} else {
		c.idle = c.idle[1:]
	}
	return w
}

// nothing is for an alarm that needs no function before the lock, or none under it.
func nothing() {}

// armReclaim sets the timer by which idle workers leave, if it is needed and not set. One timer
// serves the crew: it fires when the worker that has been parked for longest is to leave. With an idle time of
// 0 a worker parks only while a task waits, but another one may take that. Locked.
func (c *Crew) armReclaim() {
	a := &c.reclaim
	if c.Idle == Forever || a.stop != nil || c.root.phase != open || len(c.idle) == 0 || c.live-c.departing <= c.Min {
		return
	}
	wait := time.Duration(c.idle[0].parkedAt + int64(c.Idle) - c.clock.Now())
	c.root.set(a, wait, nothing, c.reclaimIdle)
}

// reclaimIdle dismisses all workers that have been idle for long enough. Locked.
func (c *Crew) reclaimIdle() {
	now := c.clock.Now()
	for c.live-c.departing > c.Min && len(c.idle) > 0 && c.idle[0].parkedAt+int64(c.Idle) <= now {
		sy.Reach("reclaim")
		c.dismiss()
	}
	c.armReclaim()
}
