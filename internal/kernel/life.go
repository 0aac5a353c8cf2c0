package kernel

import (
	"container/list"
	"runtime"
	"slices"
	"time"
	"weak"

	"github.com/shoal-go/shoal/internal/caller"
	"github.com/shoal-go/shoal/internal/fair"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is the life of a lane. It is open, then it drains or stops, then it has ended; a phase
// only moves forward. A lane ends when it is no longer open, it is quiescent, no lane below it is
// left, no alarm of it rings, and nothing holds it (retain). When the root has ended the workers
// leave, and the last one opens done as its last act.

// life is the state of a lane's life. Guarded by the lock of the family, except stops and done.
type life struct {
	phase   phase
	paused  bool
	ended   bool
	stops   sy.Bool // contexts of tasks are cut; changes only from false to true
	holds   int     // what keeps the lane from its end, including the lanes right below it
	place   *place  // nil: it is the root
	outcome *Cut    // set once
	follows alarm   // see Follow
	paces   alarm   // of pacing
	letGo   func()  // cancels the context that follows is set for; nil: there is none
	done    sy.Latch
}

type phase uint8

const (
	open     phase = iota
	draining       // refuses tasks; runs those that it accepted
	stopping       // refuses tasks; has dropped those that had not started
)

// tally counts what the account does not.
type tally struct {
	dropped, canceled, failed, spawned, rejected uint64

	passed  uint64 // tombstones that workers have come to, and tasks that were found canceled when they were to begin
	stirred uint64 // other signs that l is not stuck: a task is claimed, a pause begins or ends
}

// moves is a number for l, whose count is n. It grows when a task of l begins on a worker, or ends,
// and never falls. A worker that takes a ticket counts, even if it then begins no task. If neither
// that nor stirred has changed while l was at its maximum, l has made no progress. Locked.
func (l *Lane) moves(n Count) uint64 {
	return 2*(n.Submitted-n.InFlight-l.dropped-l.canceled) + uint64(n.Busy-l.inline) + l.passed
}

// A LaneConfig is what a lane is made with.
type LaneConfig struct {
	Max, Capacity    int
	Priority, Weight int
	Timing           Timing
	First            uint64 // the first ticket
	Owner            Owner
	Sample           func()        // called while a worker is awake, one call at a time; nil: nothing
	Every            time.Duration // how often
}

// Timing says which tickets are timed.
type Timing int

const (
	TimingSampled Timing = iota
	TimingOff
	TimingFull
)

// FirstTicket is added to LaneConfig.First. Only tests change it.
var FirstTicket uint64

// New makes l the root of a family, and its crew.
func New(l *Lane, lc LaneConfig, cc Config) {
	c := &Crew{Config: cc, root: l}
	c.clock.Init(time.Now())
	l.setup(c, lc)
	l.turn.Split(&c.ready)
	c.enter()
	l.nextSample()
	c.fill()
	c.leave()
}

func (l *Lane) setup(c *Crew, lc LaneConfig) {
	l.crew, l.owner, l.id = c, lc.Owner, caller.NewID()
	l.turn.Of = l
	l.done = sy.MakeLatch()
	l.epoch = &c.clock.Epoch
	l.sampler = sampler{every: lc.Every, sample: lc.Sample}
	switch lc.Timing {
	case TimingSampled:
		l.stampMask = queue.StampEvery - 1
	case TimingOff:
		l.stampAt = 1 // none
	}
	l.account.init((FirstTicket+lc.First)&mask, lc.Capacity, lc.Max)
}

// Sub makes l a lane below up.
func (up *Lane) Sub(l *Lane, lc LaneConfig) error {
	if !up.enterOpen() {
		return ErrClosed
	}
	c := up.crew
	l.up = up
	l.setup(c, lc)
	if up.kids() == nil {
		up.turn.Split(new(fair.Queue[*Lane]))
		up.fence() // workers in the lanes below count from now on
	}
	c.branched.Store(true)
	if c.subs.Len() == 0 {
		c.root.charged = c.clock.Now() // nobody has charged it until now
	}
	up.kids().Init(&l.turn, int64(lc.Priority), int64(lc.Weight))
	p := &place{lane: weak.Make(l), up: up}
	l.place, p.listed = p, c.subs.PushBack(p)
	up.retain()
	l.nextSample()
	c.leave()
	if sy.Shorter == 0 {
		runtime.AddCleanup(l, (*place).collected, p)
	}
	return nil
}

// A place stands for a lane below up, and does not keep that lane in memory.
type place struct {
	lane   weak.Pointer[Lane]
	up     *Lane
	listed *list.Element // in Crew.subs; nil: the lane has ended, or was collected
	moves  uint64        // of the lane, as the last snapshot counted them for the lanes above
	muted  *Lane         // the lane while it is muted: no queue keeps it, and its tasks, in memory then
	kept   *Lane         // the lane, once somebody may wait for its end who does not keep it
}

// collected forgets a lane that was dropped without an end. Nobody waits for that: End forgets such
// lanes itself. It must wake no goroutine, as it runs outside of every testing/synctest bubble.
func (p *place) collected() {
	p.up.crew.read(func() { p.up.crew.forget(p) })
}

// forget is called when a lane below another one has ended, or was collected. What it has added to the
// moves of the lanes above stays there.
func (c *Crew) forget(p *place) {
	if p.listed != nil {
		c.subs.Remove(p.listed)
		p.listed, p.muted, p.kept = nil, nil, nil
		for a := p.up; a != nil; a = a.up {
			a.stirred += p.moves
		}
		remove(&c.resting, p.lane)
		p.up.release()
	}
}

// finish ends l, which has nothing left to do and accepts no more. Locked.
func (l *Lane) finish() {
	c := l.crew
	l.ended = true
	if l.up == nil {
		sy.Reach("closing")
		for len(c.idle) > 0 {
			c.dismiss()
		}
		c.lastAct()
		return
	}
	l.leaf().Remove()
	l.place.moves = l.moves(l.count()) // its last tasks may have ended since the last snapshot
	c.forget(l.place)
	l.done.Open() // before that of the lane above, which waits for it
}

// Pause keeps workers from taking tasks. When it has returned, none is taken.
func (l *Lane) Pause() { l.setPaused(true) }

// Resume ends a pause.
func (l *Lane) Resume() { l.setPaused(false) }

func (l *Lane) setPaused(paused bool) {
	if !l.enterOpen() {
		return
	}
	defer l.crew.leave()
	if l.paused == paused {
		return
	}
	l.paused = paused
	l.stirred++
	l.revoke()
	l.fenceBelow()
	l.crew.freed(l) // sets the slow-path flag, or makes l, and the lanes below it, ready again
}

// fenceBelow fences the lanes below l, where workers take tasks without the lock too. Locked.
func (l *Lane) fenceBelow() {
	for _, b := range l.crew.under(l) {
		b.fence()
	}
}

// Resize sets the least and the most workers.
func (l *Lane) Resize(min, max int) error {
	if !l.enterOpen() {
		return ErrClosed
	}
	c := l.crew
	defer c.leave()
	if max < l.max() {
		l.revoke()
		l.fence()
		l.fenceBelow()
	}
	l.setMax(max)
	l.recall()
	c.freed(l)
	if l.up == nil {
		c.Min = min
		for len(c.idle) > 0 && (c.tooMany() || c.Idle == 0 && c.live-c.departing > min) {
			c.dismiss()
		}
		c.fill()
		c.armReclaim()
	}
	return nil
}

// A Cut is what the end of a lane has cut short.
type Cut struct {
	Dropped, Running int
	Cause            error
}

// End begins the end of l and of the lanes below it, for the reason cause. They refuse new tasks,
// and run those that they accepted. If stop is set they drop tasks that have not begun instead, and
// cut the contexts of those that have. End does not wait.
func (l *Lane) End(stop bool, cause error) {
	c := l.crew
	if c == nil {
		return
	}
	c.enter()
	sums := map[*Lane]Cut{}                                                // by lane, of the lanes right below it
	for _, b := range slices.Backward(append([]*Lane{l}, c.under(l)...)) { // a lane after those below it
		dropped, stops := b.endLocked(stop)
		cut, up := sums[b], sums[b.up]
		cut.Dropped, cut.Running = cut.Dropped+dropped, cut.Running+int(numOf(b.head.Load()))
		sums[b.up] = Cut{Dropped: up.Dropped + cut.Dropped, Running: up.Running + cut.Running}
		if stops && (cut.Dropped > 0 || cut.Running > 0 && cause != ErrClosed) {
			b.outcome = &Cut{cut.Dropped, cut.Running, cause}
		}
	}
	if stop {
		c.cutCalls()
	}
	c.leave()
}

// cutCalls cuts the contexts of the tasks that run in lanes that stop; a second cut changes nothing. Locked.
func (c *Crew) cutCalls() {
	note := func(r *Record) {
		if r != nil && r.Lane.Stops() {
			r.Lane.later(func() { r.Body.Cut(ErrClosed) })
		}
	}
	for _, w := range c.staff.all {
		if w != nil {
			note(w.call.Load())
		}
	}
	for _, r := range c.calls.all {
		note(r)
	}
}

// under is the lanes below l, in the order in which they were made.
func (c *Crew) under(l *Lane) (all []*Lane) {
	for e := c.subs.Front(); e != nil && l.kids() != nil; {
		p := e.Value.(*place)
		e = e.Next()
		if b := p.lane.Value(); b == nil {
			c.forget(p) // its cleanup is about to run
		} else if b != l && b.IsBelow(l) {
			all = append(all, b)
		}
	}
	return all
}

// endLocked is End for l alone. It reports whether l begins to stop, and how many tasks it has dropped. Locked.
func (l *Lane) endLocked(stop bool) (dropped int, stops bool) {
	l.paused = false
	l.crew.freed(l)
	if l.phase == open {
		l.phase = draining
		l.waiting.Add(1) // for ever: so the worker that finishes the last task comes to the lock
		l.recall()
		l.refuse()
		l.dropDelayed()
		l.endReservations()
		l.endPacing()
	}
	if !stop || l.phase == stopping {
		return 0, false
	}
	l.phase = stopping
	dropped = l.dropAll()
	l.stops.Store(true) // before the look at the workers' calls: cutCalls
	return dropped, true
}

// dropAll drops all tasks that wait, in the line and in strands, and returns how many there were.
func (l *Lane) dropAll() int {
	inStrands := l.inStrands() // they may wait in a strand that runs inline, while the line has no cells
	l.giveBack(inStrands)
	seg, t, n := l.takeManyLocked(mask)
	dropped := n + inStrands
	for i, s := uint64(0), seg; i < n && l.tombs > 0; i++ {
		at := (t + i) & mask
		if s = l.front.Seek(s, at); isTombstone(s.Cell(at).Peek()) {
			l.tombstones(-1)
			dropped--
		}
	}
	l.dropped += dropped
	if n > 0 {
		l.later(func() { // a putter may be slow
			for it := range l.from(seg, t, n) {
				discard(it, ErrDropped)
			}
		})
	}
	return int(dropped)
}

// Ending is Done for a caller that may keep the latch and not l: l is in memory until it has ended.
func (l *Lane) Ending() sy.Latch {
	l.crew.read(func() {
		if p := l.place; p != nil && p.listed != nil {
			p.kept = l
		}
	})
	return l.Done()
}

// Done is opened when the last goroutine of the lane has left.
func (l *Lane) Done() (done sy.Latch) {
	if done = l.done; l.crew == nil {
		done = sy.MakeLatch()
		done.Open()
	}
	return done
}

// Outcome is what the end of l has cut short; nil: nothing. If nothing is noted yet, and tasks run in
// l or below it, Outcome notes that they are cut short, because of cause. If none runs and foreign is
// set, other functions of the user may run. Then Outcome notes a Cut of no tasks, unless done is open.
func (l *Lane) Outcome(foreign bool, cause error) (o *Cut) {
	l.crew.read(func() {
		running := int(numOf(l.head.Load()))
		for _, b := range l.crew.under(l) {
			running += int(numOf(b.head.Load()))
		}
		if l.outcome == nil && (running > 0 || foreign && !l.done.IsOpen()) { // Close came first, and dropped nothing
			l.outcome = &Cut{Running: running, Cause: cause}
		}
		o = l.outcome
	})
	return o
}

// Stops reports whether the contexts of l's tasks are being cut.
func (l *Lane) Stops() bool { return l.stops.Load() }

// Max is the most workers that l may have.
func (l *Lane) Max() int { return int(l.limit.Load()) }

// Below is the lanes right below l that have not ended, in the order in which they were made.
func (l *Lane) Below() (below []*Lane) {
	l.crew.read(func() {
		for _, b := range l.crew.under(l) {
			if b.up == l {
				below = append(below, b)
			}
		}
	})
	return below
}

// Owner is the owner that was given to New or Sub.
func (l *Lane) Owner() Owner { return l.owner }
