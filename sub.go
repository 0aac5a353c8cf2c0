package shoal

import (
	"context"
	"slices"

	"github.com/shoal-go/shoal/internal/sy"
)

// This file is sub-pools: pools that have no goroutines but borrow those of
// another pool, their parent.
//
// A sub-pool is a pool like any other, with words, a queue and a life of its
// own, and with workers of its own. But such a worker is no goroutine: where a
// pool would start one it asks its parent for one, by putting the worker into
// its lane there (lend). A worker of the parent that is free takes it from
// there and runs its main, as if it were a task. That worker then takes tasks
// from the sub-pool's queue until there are none, or until it is called back
// because others are to have their turn (recall), and returns. It never parks.
//
// So for the parent lanes are a second source of work, beside its queue. A
// worker in a lane counts as backlog, and sets attention in head, which sends
// every worker that is about to take a task to the lock (takeLocked), where
// pickLocked decides whose turn it is. Wake-up is that of tasks: lend puts, then
// looks at wake; workers announce, then look at the backlog (docs/engine.md, W).
// For the sub-pool a worker in a lane is on standby.
//
// The order of locks is Pool.mu of the sub-pool or Pool.mu of the parent, never
// both.

// A lane is where the workers of one sub-pool wait for goroutines of the parent,
// or stands for the parent's own tasks. Guarded by the parent's mu.
type lane struct {
	sub              *Pool
	priority, weight int
	want             fifo[*worker]
	waits            bool  // of the parent's own: it has tasks, as of the last look
	out              int   // workers of the parent that are lent; of the parent's own: in its tasks, as of the last look
	credit           int64 // how much time it may use before others have their turn, in nanoseconds
	usual            int64 // the time that a turn took lately
}

// A turn is a stretch of work of a worker of a pool that has sub-pools: for a
// lane, or for the pool itself.
type turn struct {
	lane    *lane // nil: none
	began   int64
	ended   int64 // 0: it goes on
	charged int64 // to the lane, beforehand
	looked  int64 // when it was last seen whether others need the worker
	done    int64 // the tasks that the worker had run before
}

const (
	// A turn of weight 1 is so long, if others wait; but never shorter than a
	// task.
	turnTime = int64(100_000)
	// What a turn costs at least, so that turns count where the clock stands
	// still.
	leastTurn = 1000
	// And at most, so that sums of charges fit into an int64: eleven days.
	mostTurn = int64(1e15)
	// How often a worker yields to a lane that comes next but has not asked.
	maxOwed = 4
)

// Sub makes a sub-pool of p: a pool with a limit, a queue, a policy, statistics
// and a life of its own, whose tasks run on the workers of p. It has no
// goroutines. Its maximum is that of p unless [WithMaxWorkers] sets another. A
// sub-pool may have sub-pools. A family is a pool, its sub-pools, and theirs.
//
// While there are too few workers for all pools of a family, those with the
// highest [WithPriority] come first, and those of equal priority share the
// workers' time by their [WithWeight]. The tasks of p itself have priority 0
// and weight 1. No worker is idle while a pool of the family could use it.
//
// Closing a sub-pool leaves p open. Shutting p down shuts its sub-pools down in
// the same way and waits for them. Pausing p, or lowering its maximum, takes
// workers from sub-pools as their tasks end.
//
// The statistics of p, its Wait, and the tasks that its Shutdown reports are
// those that were submitted to p itself. But a worker that runs a task of a
// sub-pool counts as running in p too.
//
// When the Wait or the Shutdown of a sub-pool returns, its last worker is p's
// again only a moment later.
//
// A sub-pool takes no options about goroutines: [WithMinWorkers], [WithSizing],
// [WithIdleTimeout], [WithMaxTasksPerWorker], [WithSpin], [WithThreadPinning]
// and [WithWorkerHooks]. It has the panic handler, the logger and the [Tracer]
// of p unless it is given its own.
//
// Errors: [ErrConfig] for an invalid option, [ErrClosed] if p is shut down.
//
// # Deadlocks
//
// Under [Block] a task of the family never waits for room in a sub-pool. A task
// that submits to its own pool, which is full, runs the new task itself, as
// [Pool.Submit] says. If it submits to another pool of the family, the new task
// is accepted beyond the capacity.
//
// A task may wait for the Future or the Group of any pool of the family. As in
// [Future.Wait] it runs the awaited tasks itself where that is possible, within
// the limits of their pools and of the pools between. A task counts as a part
// of the one from whose context its own is derived. Two rules follow:
//
//   - If two sub-pools are at their limits, their tasks must not wait for tasks
//     of each other that have not started.
//   - A task that waits for a whole sub-pool, by its Wait or Shutdown, keeps its
//     worker meanwhile. If that is the only one, it waits for ever.
//
// A task of a sub-pool that runs on no worker, by [Spawn] or [CallerRuns], is
// outside the limits of the pools above it. It runs what it waits for itself,
// beside their workers.
func (p *Pool) Sub(opts ...Option) (*Pool, error) {
	if p == nil || !p.made() {
		return nil, ErrClosed
	}
	c := defaults()
	c.sub = true
	c.maxWorkers = p.Stats().MaxWorkers
	c.sizer, c.idle, c.spin = nil, notGiven, notGiven
	c.onPanic, c.crash, c.logger, c.tracer = p.onPanic, p.crash, p.logger, p.tracer
	for _, o := range opts {
		if o != nil {
			o.apply(&c)
		}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.sizer, c.idle, c.spin = Eager(), 0, 0
	s := newPool(c, 0)
	s.up, s.epoch = p, p.epoch // one clock for the family
	s.lane = &lane{sub: s, priority: c.priority, weight: c.weight}
	p.mu.Lock()
	if p.phase != phaseOpen {
		p.mu.Unlock()
		s.Close()
		return nil, ErrClosed
	}
	if p.own == nil {
		p.own = &lane{weight: 1}
		p.lanes = append(p.lanes, p.own)
		p.lends.Store(true)
	}
	p.lanes = append(p.lanes, s.lane)
	p.mu.Unlock()
	if c.parent != nil {
		s.follow(c.parent)
	}
	return s, nil
}

// notGiven is the value of a sub-pool's option that is to stay away.
const notGiven = -1 << 31

// WithPriority sets the priority of a sub-pool: -1<<20 … 1<<20, by default 0.
// While there are too few workers, pools of higher priority come first,
// whatever that means for the others. A worker that runs a task of lower
// priority changes over when the task has ended. See [Pool.Sub].
func WithPriority(n int) Option {
	return option(func(c *config) { c.priority, c.prioritized = n, true })
}

// WithWeight sets the weight of a sub-pool: 1 … 1<<20, by default 1. While
// there are too few workers, pools of the same priority share the workers' time
// in proportion to their weights. See [Pool.Sub].
func WithWeight(n int) Option {
	return option(func(c *config) { c.weight, c.prioritized = n, true })
}

const maxWeight = 1 << 20

// validateSub names the problems with the options of a sub-pool.
func (c *config) validateSub(bad func(format string, args ...any)) {
	if !c.sub {
		if c.prioritized {
			bad("WithPriority and WithWeight: want a sub-pool")
		}
		return
	}
	for name, given := range map[string]bool{
		"WithMinWorkers":        c.minWorkers != 0,
		"WithSizing":            c.sizer != nil,
		"WithIdleTimeout":       c.idle != notGiven,
		"WithSpin":              c.spin != notGiven,
		"WithMaxTasksPerWorker": c.tasksPerWorker != 0,
		"WithThreadPinning":     c.pin,
		"WithWorkerHooks":       c.onStart != nil || c.onStop != nil,
	} {
		if given {
			bad("%s: a sub-pool borrows the workers of its parent; set it there", name)
		}
	}
	if c.priority < -maxWeight || c.priority > maxWeight {
		bad("WithPriority(%d): want %d … %d", c.priority, -maxWeight, maxWeight)
	}
	if c.weight < 1 || c.weight > maxWeight {
		bad("WithWeight(%d): want 1 … %d", c.weight, maxWeight)
	}
}

// root is the pool whose goroutines run p's tasks.
func (p *Pool) root() *Pool {
	for p.up != nil {
		p = p.up
	}
	return p
}

// isBelow reports whether p is a sub-pool of q, or of one of its sub-pools, or
// is q.
func (p *Pool) isBelow(q *Pool) bool {
	for ; p != nil; p = p.up {
		if p == q {
			return true
		}
	}
	return false
}

// base is the worker whose goroutine w runs on.
func (w *worker) base() *worker {
	for w.host != nil {
		w = w.host
	}
	return w
}

// launch has w begin, on a goroutine of its own or of its pool's parent.
func (p *Pool) launch(w *worker) {
	if p.up == nil {
		sy.Go(w.main)
		return
	}
	p.up.lend(w)
}

// lend has w, a worker of a sub-pool, begin on a goroutine of p.
func (p *Pool) lend(w *worker) {
	sy.Reach("lend")
	p.mu.Lock()
	w.p.lane.want.push(w)
	p.wanted.Add(1)
	p.setAttentionLocked() // a step on head, as taking it is: see takeLocked
	p.mu.Unlock()
	p.published()
	w.p.tidyLane()
	w.p.nudge() // who needs its place could not have it before
}

// tidyLane takes p's workers out of its lane if p ends and there is nothing for
// them to do: they need not wait for a goroutine of the parent to find that out.
// It is called after p's phase has changed, after a worker was put there, after husks were
// taken, and after a sub-pool of p's own has ended, so none stays. (A parent that stops runs none; it has changed the phase of its
// sub-pools, or is about to.)
func (p *Pool) tidyLane() {
	if p.up == nil {
		return
	}
	p.mu.Lock()
	idle := p.phase == phaseStopping || p.phase == phaseDraining && !p.backlog()
	p.mu.Unlock()
	if !idle {
		return
	}
	for w := p.up.unlend(p); w != nil; w = p.up.unlend(p) {
		sy.Reach("unlend")
		w.countOut()
	}
}

// unlend takes a worker of sub that nobody has begun to run out of its lane.
func (p *Pool) unlend(sub *Pool) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := sub.lane
	if l.want.len() == 0 {
		return nil
	}
	w := l.want.pop()
	p.wanted.Add(-1)
	p.setAttentionLocked()
	return w
}

// nextTurnLocked ends the turn of w, and begins the next one.
func (w *worker) nextTurnLocked() {
	p := w.p
	w.endTurnLocked()
	w.beginOwnTurn(p.now())
	if p.wanted.Load() > 0 {
		l := p.pickLocked()
		w.turn.lane, w.turn.charged = l, max(l.usual, leastTurn)
		l.credit -= w.turn.charged
	}
}

// beginOwnTurn begins a turn of w for its own pool.
func (w *worker) beginOwnTurn(now int64) {
	w.turn = turn{lane: w.p.own, began: now, looked: now, done: w.done()}
}

// pickLocked decides whose turn it is: that of p's own tasks or that of a lane,
// where a worker wants one. It comes to that with credit; if there is none, all
// get as much as it takes for one to have it.
func (p *Pool) pickLocked() (l *lane) {
	p.lookAtOwnLocked()
	for _, c := range p.lanes {
		switch {
		case c.waiting():
			if l == nil || c.before(l) {
				l = c
			}
		case c.out == 0 && !c.needs():
			c.credit = 0 // it has nothing to do: it saves nothing, and owes nothing
		}
	}
	rounds := l.lacks()
	if rounds == 0 {
		return l
	}
	longest := turnTime
	for _, c := range p.lanes {
		if c.priority == l.priority && (c.waiting() || c.out > 0) {
			c.credit += min(rounds*turnTime, most/int64(c.weight)) * int64(c.weight)
			longest = max(longest, c.usual/int64(c.weight))
		}
	}
	for _, c := range p.lanes {
		// One that needs no worker is at its limit: it saves no more than a few
		// turns. Nobody saves, or owes, more than fits.
		limit := most
		if !c.needs() {
			limit = min(most/int64(c.weight), 4*longest) * int64(c.weight)
		}
		c.credit = max(-most, min(c.credit, limit))
	}
	return l
}

// most is the most credit or debt of a lane: days.
const most = int64(1) << 60

// owesLocked reports whether a lane needs a worker and comes before those that
// have asked for one, but has not asked yet.
func (p *Pool) owesLocked() bool {
	if p.own == nil {
		return false
	}
	p.own.waits = p.ownWaitsLocked(0)
	var owed, asked *lane
	for _, l := range p.lanes {
		switch {
		case l.waiting():
			if asked == nil || l.before(asked) {
				asked = l
			}
		case l.needs():
			if owed == nil || l.before(owed) {
				owed = l
			}
		}
	}
	return owed != nil && (asked == nil || owed.before(asked))
}

// awaitOwedLocked gives a lane that comes next a moment to ask.
func (p *Pool) awaitOwedLocked() {
	for n := 0; n < maxOwed && p.owesLocked(); n++ {
		p.mu.Unlock()
		sy.Yield()
		p.mu.Lock()
	}
}

// before reports whether l comes before m.
func (l *lane) before(m *lane) bool {
	return l.priority > m.priority || l.priority == m.priority && l.lacks() < m.lacks()
}

// lacks is in how many rounds the lane will have credit.
func (l *lane) lacks() int64 {
	if l.credit > 0 {
		return 0
	}
	return -l.credit/l.share() + 1
}

// waiting reports whether there is something to do for the lane.
func (l *lane) waiting() bool { return l.waits || l.want.len() > 0 }

// share is what it gets in a round.
func (l *lane) share() int64 { return turnTime * int64(l.weight) }

// needs reports whether the lane could use one more of the parent's workers. It is
// waiting as soon as its sub-pool has asked for one; that takes a moment, as the
// worker that has got the last one asks for the next.
func (l *lane) needs() bool {
	return l.waiting() || l.sub != nil && l.sub.wake.Load() != 0 && l.sub.backlog()
}

// endTurnLocked charges for the turn of w, instead of what was expected, what it
// took.
func (w *worker) endTurnLocked() {
	l := w.turn.lane
	if l == nil {
		return
	}
	l.credit += w.turn.charged
	if w.turn.ended != 0 { // else it came to nothing
		took := min(max(w.turn.ended-w.turn.began, leastTurn), mostTurn)
		l.credit -= took
		l.usual += (took - l.usual) / 8
	}
	w.turn = turn{}
}

// endsTask notes, if w is in a turn, that it has run done tasks.
func (w *worker) endsTask(done int64) {
	if w.turn.lane != nil && w.turn.done != done {
		w.turn.ended = w.p.now()
	}
}

// tickTurn is called now and then while w runs tasks of its own pool, which has
// sub-pools. It charges for them, unless nobody else needs w.
func (w *worker) tickTurn(now int64) {
	p := w.p
	p.mu.Lock()
	w.turn.ended = 0
	if p.neededLocked(p.own) {
		w.turn.ended = now
	}
	w.endTurnLocked()
	w.beginOwnTurn(now)
	p.mu.Unlock()
}

// neededLocked reports whether a lane of l's priority or a higher one needs a
// worker, beside l.
func (p *Pool) neededLocked(l *lane) bool {
	for _, c := range p.lanes {
		if c != l && c.priority >= l.priority && c.needs() {
			return true
		}
	}
	return false
}

// serve runs v, a worker of a sub-pool, on the goroutine of w. The caller holds
// mu, and has picked the lane.
func (w *worker) serve() {
	p, l := w.p, w.turn.lane
	v := l.want.pop()
	p.wanted.Add(-1)
	l.out++
	p.lent++
	w.lent = true
	if p.watch != nil {
		p.watch.outAt = p.now() // to be lent is to begin
	}
	p.head.Add(busyOne)
	w.busy = true
	w.publish(w.done(), false)
	p.limit.Store(0) // there is less room now: have submitters look
	p.setAttentionLocked()
	p.mu.Unlock()
	sy.Reach("serve")
	w.seenFor = 0
	if w.standby {
		w.leaveStandby(0)
	}
	v.host = w
	w.guest = v
	w.inTask = true
	v.main()
	w.inTask = false
	w.unserve()
}

// unserve is called when the guest of w has returned.
func (w *worker) unserve() {
	p := w.p
	w.guest = nil
	w.tasks-- // loop counts it as run
	now := p.now()
	w.turn.ended = now
	w.finish(func() {
		p.lent--
		w.lent = false
		w.turn.lane.out--
		w.endTurnLocked()
		w.beginOwnTurn(now) // it may go on with a task of p's
		p.limit.Store(0)
	})
}

// lentTick is tick for a worker of a sub-pool, after every task.
func (w *worker) lentTick() bool {
	p := w.p
	w.setStep(1)
	w.fresh = false
	w.publish(w.tasks, false)
	now := p.now()
	if p.lends.Load() {
		w.tickTurn(now) // p has sub-pools too
	}
	r := w.base()
	if now-r.p.lentAt.Load() >= int64(window) {
		r.p.lentAt.Store(now)
	}
	if w.recalled(now) {
		sy.Reach("recall")
		w.idle()
		return false
	}
	if !r.justRested(now) && r.p.yieldDue(now) && !sy.FreeCPU() {
		w.idle()
		r.yield(now)
	}
	return true
}

// recalled reports whether w is to give its goroutine back.
func (w *worker) recalled(now int64) bool {
	for w.host != nil {
		if w.host.wanted(now) {
			return true
		}
		w = w.host
	}
	return false
}

// wanted reports whether w, which has a guest, is wanted back. Time in which
// nobody else needs w is not charged.
func (w *worker) wanted(now int64) bool {
	p, t := w.p, &w.turn
	if p.head.Load()&attention == 0 && !p.backlog() && now-t.looked < turnTime {
		return false // nobody has asked
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopsTakingLocked() {
		return true
	}
	t.looked = now
	p.own.waits = p.ownWaitsLocked(1)
	for _, c := range p.lanes {
		switch l := t.lane; {
		case c == l || !c.waiting():
		case c.priority > l.priority, c.priority == l.priority && now-t.began >= l.share():
			return true
		}
	}
	if !p.neededLocked(t.lane) {
		t.began = now
	}
	return false
}

// starves reports whether there is something to do for a lane that has no worker.
// p has, or had, sub-pools.
func (p *Pool) starves() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookAtOwnLocked()
	return slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.waiting() && l.out == 0 })
}

// lookAtOwnLocked brings the lane of p's own tasks up to date.
func (p *Pool) lookAtOwnLocked() {
	p.own.waits = p.ownWaitsLocked(0)
	p.own.out = headBusy(p.head.Load()) - p.lent
}

// ownWaitsLocked reports whether p has tasks of its own to start: in the queue, or
// waiting for room that there is when the workers in question, who serve
// sub-pools, are back.
func (p *Pool) ownWaitsLocked(back int64) bool {
	t := p.tail.Load()
	return t&ticketMask != headTicket(p.head.Load()) || !p.room.empty() && p.roomLocked(t)+back > 0
}

// endSubs shuts the sub-pools down as p is.
func (p *Pool) endSubs(to phase, cause error) {
	for _, s := range p.Subs() {
		s.end(to, cause)
	}
}

// subsRunning is how many tasks of sub-pools, and of theirs, run on no worker of p's.
func (p *Pool) subsRunning() (n int) {
	for _, s := range p.Subs() {
		s.mu.Lock()
		n += s.outside - s.turning - int(s.parked.Load())
		s.mu.Unlock()
		n += s.subsRunning()
	}
	return n
}

// Subs returns the sub-pools of p that have not ended, in the order in which they
// were made.
func (p *Pool) Subs() []*Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var subs []*Pool
	for _, l := range p.lanes {
		if l.sub != nil {
			subs = append(subs, l.sub)
		}
	}
	return subs
}

// removeSub forgets sub, which has ended, and opens its done. It returns as endLocked
// does.
func (p *Pool) removeSub(sub *Pool) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock() // until then nobody else finds p at its end
	lanes := make([]*lane, 0, len(p.lanes))
	for _, l := range p.lanes {
		if l.sub != sub {
			lanes = append(lanes, l)
		}
	}
	p.lanes = lanes
	last = p.endLocked()
	sub.done.Open() // before p is done, which waits for its sub-pools
	return last
}

// A helper is a task that waits for others.
type helper struct {
	c   *call // nil: nobody may help
	own *Pool // the pool that it has a worker of, where c does not tell; it goes before c
}

// any reports whether there is one.
func (h helper) any() bool { return h.c != nil || h.own != nil }

// helperOf tells who helps, if ctx is that of a task that runs on a goroutine of
// p's root. It tells both what ctx does and, where the stack knows better, that.
func (p *Pool) helperOf(ctx context.Context) helper {
	h := helper{c: p.root().taskOf(ctx)}
	if h.c != nil && p.up != nil && !h.in(p) && p.made() && p.allBusy() {
		h.own = p.calledBelow(h) // asked only where there would be no place for h
	}
	return h
}

// in reports whether the task, or one that it runs inside of, has a worker of p. One that has
// ended, and whose context somebody has kept, has none.
func (h helper) in(p *Pool) bool {
	if h.own != nil {
		return h.own.isBelow(p)
	}
	root := p.root()
	for c := h.c; c != nil; c = c.next(root) {
		if c.pool.isBelow(p) && c.state.Load() != callOver {
			return true
		}
	}
	return p == root
}

// poolOn is the first pool that h is in, from p on upwards.
func (h helper) poolOn(p *Pool) *Pool {
	for !h.in(p) {
		p = p.up
	}
	return p
}

// next is the task that c was called from, as far as contexts tell.
func (c *call) next(root *Pool) *call {
	ctx := c.body.outer()
	if ctx == nil {
		return nil
	}
	n, _ := ctx.Value(inTaskKey{root}).(*call)
	if n == c {
		return nil
	}
	return n
}

// A nudger waits for tasks that it could run itself if there were a place.
type nudger interface{ nudge() }

// waiting is a nudger for one of those who wait for the same thing, each of whom is to be
// told.
type waiting struct{ nudger }

// borrowPlace makes room under p's maximum of workers for a helper from
// elsewhere: there is some, or a worker of a sub-pool that has not begun gives
// its place. If there is none, n, unless it is nil, is told when there may be.
func (p *Pool) borrowPlace(n nudger) bool {
	p.mu.Lock()
	if p.live+p.guests < p.max {
		p.addGuestLocked(n)
		p.mu.Unlock()
		return true
	}
	if n != nil { // before the look at the lane: see lend
		sy.Reach("stranded")
		if p.stranded == nil {
			p.stranded = make(map[nudger]struct{})
		}
		p.stranded[n] = struct{}{}
	}
	p.mu.Unlock()
	if p.up == nil {
		return false
	}
	w := p.up.unlend(p)
	if w == nil {
		return false
	}
	p.mu.Lock()
	ok := p.live-1+p.guests < p.max // w is live and does not run; but there may be fewer than there were
	p.departLocked(w)
	if ok {
		p.addGuestLocked(n)
	}
	p.mu.Unlock()
	w.countOut() // it looks for tasks, for w was on standby
	return ok
}

// addGuestLocked counts the guest who was told of places as n.
func (p *Pool) addGuestLocked(n nudger) {
	p.guests++
	delete(p.stranded, n)
	p.setAvailLocked(0)
}

// borrowPlaces borrows a place in p, and in the pools between that and stay, where the
// caller is, beginning with these: a place that is given back tells those who wait for it,
// which must not be the one who gives it back.
func (p *Pool) borrowPlaces(stay *Pool, n nudger) bool {
	if p == stay {
		return true
	}
	if !p.up.borrowPlaces(stay, n) {
		return false
	}
	if !p.borrowPlace(n) {
		p.up.returnPlaces(stay, false)
		return false
	}
	return true
}

// enterPlaces is for a guest, who is in stay, that has claimed a task of a sub-pool of p, and
// has places there and in p.
func (p *Pool) enterPlaces(stay *Pool) {
	for ; p != stay; p = p.up {
		p.mu.Lock()
		p.inside++
		p.limit.Store(0) // there is less room now: have submitters look
		p.mu.Unlock()
	}
}

// returnPlaces gives back what was borrowed. With inside set the guest has claimed its task.
func (p *Pool) returnPlaces(stay *Pool, inside bool) {
	for ; p != stay; p = p.up {
		p.returnPlace(inside)
	}
}

// unstrand forgets n, which waits no more.
func (p *Pool) unstrand(n nudger) {
	for ; p != nil; p = p.up {
		p.mu.Lock()
		delete(p.stranded, n)
		p.mu.Unlock()
	}
}

// returnPlace gives a place that was borrowed back.
func (p *Pool) returnPlace(inside bool) {
	p.mu.Lock()
	p.guests--
	if inside {
		p.inside--
	}
	p.setAvailLocked(0)
	p.setAttentionLocked()
	p.promoteAndUnlock()
	p.rearm()
	p.nudge()
}

// nudge tells those who wait for a place that there may be one.
func (p *Pool) nudge() {
	p.mu.Lock()
	all := p.stranded
	p.stranded = nil
	p.mu.Unlock()
	for n := range all {
		n.nudge()
	}
}
