package shoal

import (
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A worker is a goroutine that takes tasks from the queue, one at a time, and
// runs them. Its fields are its own unless they say otherwise.
type worker struct {
	// What every task touches comes first, in one cache line: while a task
	// sleeps, its worker grows cold.
	p          *Pool
	status     sy.Uint64 // tasks run, and bits; see idleBit
	since      sy.Int64  // when the current task started, if status has exactBit; written by the worker
	seen       uint64    // tickets before this one were given out, when w last looked at tail
	tasks      int64     // run until the last tick
	lastTick   int64     // by the pool's clock
	step, left int8      // tasks between two ticks; tasks until the next
	seenFor    uint16    // that many of the tickets before seen; 0: never looked
	busy       bool      // counted in head
	standby    bool      // counted in wake; also set, under mu, by whoever wakes or starts the worker
	inTask     bool      // inside a task
	fresh      bool      // since is when the last task ended
	marked     bool      // mark is set
	rested     bool      // need not let others run before until
	owes       bool      // pending is to be resolved
	watched    sy.Bool   // set by a reader; cleared by the worker after each task

	until int64  // 0: a window after the next tick
	mark  uint64 // the next ticket at the last tick
	back  int64  // when it last let others run

	pending *call // finished, to be resolved after it was counted
	cur     *call // the task it is in, if that is a call
	timed   int64 // when the task it is in started, if that is timed
	waited  int64 // how long that task waited

	id      int
	cycle   func() // loop, whose result is again; made once
	again   bool   // what loop has returned
	gentle  bool   // begins by giving way; set like standby
	luck    int8   // whether to let others run before parking; see rest
	asks    bool   // begins by asking the Sizer; set like standby
	aside   bool   // parks although tasks wait
	served  bool   // took no task but served a sub-pool
	leaving bool   // told to leave; set like standby
	inHook  bool   // in a function of the user that is the start hook
	hooked  bool   // its start hook has returned
	parked  bool   // guarded by mu
	apartIn *int   // while it runs a function of the user: where that is counted; guarded by mu

	wakeup     sy.Event         // made at the first park
	parkedAt   int64            // guarded by mu
	prev, next *worker          // in the idle list; guarded by mu
	faults     uint64           // tasks that failed; guarded by mu
	call       sy.Pointer[call] // cur, for those who cancel; pairs with Pool.canceling
	watchedAt  int64            // when watched was set; guarded by mu
	slow       int64            // when the task began that was said to be slow, plus 1; guarded by mu
	lent       bool             // serves a sub-pool; guarded by mu
	kept       keep
	host       *worker // of a sub-pool's worker, the one whose goroutine it runs on
	guest      *worker // the one of a sub-pool that runs on w's goroutine
	turn       turn
}

// worker.status is the number of tasks run, as of the last time it was
// written, shifted by statusBits, and these bits.
const (
	idleBit    = 1 // the worker is not inside a task
	exactBit   = 2 // since is when the current task started
	statusBits = 2
)

// maxSeen bounds how long a look at tail is good for. Tickets are compared
// modulo 1<<38: a worker that comes out of a task after so many tickets that
// they have wrapped must not take an old look for a new one. That could happen
// only within maxSeen tickets of where it looked.
const maxSeen = 1 << 10

const (
	maxStep   = 64
	shortStep = 20 * time.Microsecond  // a step shorter than this may grow
	longStep  = 40 * time.Microsecond  // a longer one shrinks
	window    = 100 * time.Microsecond // in which the pool yields once per CPU
)

// main is the worker's life.
func (w *worker) main() {
	defer w.leave()
	p := w.p
	if p.pin {
		runtime.LockOSThread()
	}
	pprof.SetGoroutineLabels(p.labels)
	if w.asks {
		w.gentle = !w.askSizer()
	}
	if p.hooked {
		w.startHook()
	}
	for {
		if w.gentle {
			w.giveWay()
		}
		p.id.Call(w.cycle) // so the stack of a task tells whose it is
		if !w.again || w.left <= 0 && !w.tick() {
			return
		}
	}
}

// loop takes and runs tasks until the worker has to leave, and returns false,
// or a task panics, or the worker is to give way, and returns true: then it is
// to be called again. That way recovering from panics costs a deferred call per
// loop, not per task. After runtime.Goexit it does not return.
func (w *worker) loop() (again bool) {
	p := w.p
	defer func() {
		if !w.inTask {
			return
		}
		if p.crash || w.guest != nil { // who runs on this goroutine has seen to its own panics
			if !inGoexit() {
				return // a panic: let the process die of it, as it is
			}
			w.fault(nil)
			return
		}
		again = w.fault(recover())
	}()
	for {
		it, ticket, ok := w.take()
		if !ok {
			if w.served {
				w.served = false
				w.watched.Store(false)
				pprof.SetGoroutineLabels(p.labels)
				if w.left--; w.left <= 0 && !w.tick() {
					return false
				}
				continue
			}
			w.idle()
			if w.leaving || !w.rest() {
				return false
			}
			if w.gentle {
				return true
			}
			continue
		}
		if w.owes {
			w.settle()
		}
		if w.standby {
			w.leaveStandby(ticket)
		}
		if it.IsRecord() || ticket&p.stampMask == 0 || trace.IsEnabled() {
			w.runSlow(it)
		} else {
			w.inTask = true
			it.Func()()
			w.inTask = false
		}
		pprof.SetGoroutineLabels(p.labels)
		if w.watched.Load() {
			w.watched.Store(false)
		}
		if w.left--; w.left <= 0 && !w.tick() {
			return false
		}
	}
}

// take takes the next task from the queue. Without one it returns false, and
// w may be told to leave.
func (w *worker) take() (queue.Item, uint64, bool) {
	p := w.p
	seg := p.front.Load() // before the ticket: queue, Q3
	for {
		h := p.head.Load()
		if h&attention != 0 {
			return w.takeLocked()
		}
		t := headTicket(h)
		if n := ahead(w.seen, t); n == 0 || n > uint64(w.seenFor) {
			// What was seen is used up, by this worker or by others.
			n = ahead(p.tail.Load(), t)
			if n == 0 {
				return queue.Item{}, 0, false
			}
			n = min(n, maxSeen)
			w.seen, w.seenFor = (t+n)&ticketMask, uint16(n)
		}
		next := h + ticketOne
		if !w.busy {
			next += busyOne
		}
		if p.head.CompareAndSwap(h, next) {
			if !w.busy {
				w.busy = true
				w.publish(w.done(), w.fresh)
			}
			return w.fetch(seg, t), t, true
		}
	}
}

// fetch empties the cell of ticket t and, if the ticket is timed, begins its
// timing. seg was loaded from front before t was taken.
func (w *worker) fetch(seg *queue.Segment, t uint64) queue.Item {
	if !seg.Holds(t) {
		seg = w.p.front.Seek(seg, t)
	}
	it := seg.Take(t)
	if t&w.p.stampMask == 0 {
		w.begin(seg, t)
	}
	return it
}

// begin notes how long the task of ticket t waited, and that it starts now.
func (w *worker) begin(seg *queue.Segment, t uint64) {
	p := w.p
	if p.timing == TimingOff {
		return
	}
	w.timed = p.now()
	w.waited = w.timed - *seg.Stamp(t)
	w.since.Store(w.timed)
	w.publish(w.done(), true)
}

// takeLocked is take while the attention bit is set.
func (w *worker) takeLocked() (it queue.Item, ticket uint64, ok bool) {
	p := w.p
	w.idle() // the room may be this worker's own place
	p.mu.Lock()
	if p.own != nil {
		p.awaitOwedLocked()
	}
	switch {
	case p.phase == phaseStopping, p.tooManyLocked():
		p.departLocked(w)
		p.mu.Unlock()
		p.rearm()
		return
	case p.paused:
		p.mu.Unlock()
		return
	}
	if p.own != nil {
		if w.nextTurnLocked(); w.turn.lane != p.own {
			w.served = true
			w.serve()
			return
		}
		p.setAttentionLocked()
	}
	// Somebody waits for room. The room that this worker's place is was given away by
	// idle; to take a ticket makes none: one more place in the queue, one free worker less
	// (docs/engine.md, R1; it rests on the look at live above, in this critical section).
	seg := p.front.Load()
	for {
		h := p.head.Load()
		t := headTicket(h)
		if p.tail.Load()&ticketMask == t {
			break
		}
		if p.head.CompareAndSwap(h, h+ticketOne+busyOne) {
			w.busy, ticket, ok = true, t, true
			w.publish(w.done(), w.fresh)
			break
		}
	}
	w.seenFor = 0
	p.mu.Unlock()
	if ok {
		it = w.fetch(seg, ticket)
	}
	return
}

// leaveStandby is called by a worker on standby that took the ticket. It
// hands its standby to another worker if more tasks wait and not enough others
// are on standby; else it gives it up and looks at the queue again, for a
// submitter that saw it on standby relies on that (docs/engine.md, W2).
func (w *worker) leaveStandby(ticket uint64) {
	p := w.p
	w.standby = false
	more := w.seenFor != 0 && w.seen != (ticket+1)&ticketMask // or was, when last looked
	wake := p.wake.Load()
	if more && wake >= availOne && int64(wake&standbyMask) <= p.procs.Load() {
		sy.Reach("hand standby on")
		p.arm(standbyOne)
		return
	}
	now := p.wake.Add(^uint64(0)) // standby - 1
	if now&standbyMask == 0 && now >= availOne && p.backlog() {
		p.arm(0)
	}
}

// backlog reports whether tasks wait.
func (p *Pool) backlog() bool {
	h := p.head.Load() // first: tail is never behind it
	return p.tail.Load()&ticketMask != headTicket(h) || p.wanted.Load() > 0
}

// runSlow runs a task that has a context, or is timed or traced.
func (w *worker) runSlow(it queue.Item) {
	p := w.p
	if it.IsRecord() {
		w.runCall(queue.As[call](it))
	} else {
		w.inTask = true
		p.inRegion(it.Func())()
		w.inTask = false
	}
	w.endTiming()
}

// endTiming notes how long the task took, if begin noted its start.
func (w *worker) endTiming() {
	if w.timed >= 0 {
		record(&w.p.wtime, w.waited)
		record(&w.p.rtime, w.p.now()-w.timed)
		w.timed = -1
		if w.watched.Load() {
			w.watched.Store(false)
		}
		w.publish(w.done()+1, false)
	}
}

// runCall runs c, unless it was begun by others, or cancels it if its context
// has ended.
func (w *worker) runCall(c *call) {
	p := w.p
	if !c.take() {
		w.sweep(c)
		return
	}
	if c.turns && !w.takeTurn(c) {
		return
	}
	if err := c.body.refused(); err != nil {
		c.over(err)
		w.notRun()
		w.finishCall(c, err, func() { p.canceled++ })
		return
	}
	c.w = w
	w.cur = c
	w.call.Store(c)
	if p.canceling.Load() {
		c.body.end(ErrClosed)
	}
	w.inTask = true
	err := c.runBody()
	c.over(err)
	w.inTask = false
	w.cur = nil
	w.call.Store(nil)
	switch {
	case err != nil:
		w.endTiming()
		w.finishCall(c, err, func() { p.failed++; w.faults++ })
	case c.turns && !c.body.(turnTaker).free():
		w.endTiming()
		w.finishCall(c, nil, func() {})
	default:
		w.pending, w.owes = c, true
	}
}

// finishCall finishes c, tells its result, and sees to the turns that were left to
// it. count is for finish.
func (w *worker) finishCall(c *call, err error, count func()) {
	p := w.p
	w.finish(func() {
		count()
		if c.turns {
			p.turning++
		}
	})
	c.body.resolve(err)
	if c.turns {
		p.runTurnsOn(w, c)
	}
}

// notRun makes the ticket that w has taken count as no task of w's.
func (w *worker) notRun() {
	w.timed = -1
	w.tasks-- // loop counts it as run
}

// finish counts the task that w has just done with, together with whatever
// count changes under the lock, so that a snapshot sees both or neither.
func (w *worker) finish(count func()) {
	w.p.mu.Lock()
	w.finishLocked(count)
}

// finishLocked is the part of finish under the lock. It unlocks.
func (w *worker) finishLocked(count func()) {
	p := w.p
	if p.watch != nil {
		w.since.Store(p.now())
	}
	w.endsTask(w.done() + 1)
	w.status.Store(uint64(w.done()+1)<<statusBits | idleBit) // loop counts it later
	h := p.head.Add(^uint64(0))                              // busy - 1
	w.busy = false
	count()
	promoted := false
	if h&attention != 0 {
		promoted = p.promoteLocked()
	}
	p.mu.Unlock()
	if promoted {
		p.published()
	}
	p.quiet(h)
}

// idle counts the last task as finished, if there is one that is not.
func (w *worker) idle() {
	if h, was := w.stop(); was {
		w.tell(h)
	}
}

// stop is the first half of idle. If there was a task, tell must follow, with the same h.
func (w *worker) stop() (h uint64, was bool) {
	if !w.busy {
		if w.status.Load()&idleBit == 0 { // tick or a turn has said otherwise
			w.status.Store(uint64(w.done())<<statusBits | idleBit)
		}
		return 0, false
	}
	p := w.p
	if p.watch != nil {
		w.since.Store(p.now())
	}
	w.endsTask(w.done())
	w.status.Store(uint64(w.done())<<statusBits | idleBit)
	h = p.head.Add(^uint64(0)) // busy - 1
	w.busy = false
	return h, true
}

// tell has those go on who wait for the end of the last task: for room, for the pool, or
// for the result.
func (w *worker) tell(h uint64) {
	p := w.p
	if h&attention != 0 {
		p.promote()
	}
	p.quiet(h)
	if w.owes {
		w.settle()
	}
}

// settle gives whoever waits for the last task its result. The task was
// counted before, so that the counters are right for those who waited.
func (w *worker) settle() {
	w.pending.body.resolve(nil)
	w.pending, w.owes = nil, false
}

// publish tells readers how many tasks w has run, and whether since is the
// start of the next one.
func (w *worker) publish(done int64, exact bool) {
	s := uint64(done) << statusBits
	if exact {
		s |= exactBit
	}
	w.status.Store(s)
}

// done is the number of tasks w has run.
func (w *worker) done() int64 { return w.tasks + int64(w.step-w.left) }

// tick is called every step tasks. It returns false when the worker has done
// all tasks of its life. It reads the clock, so it must be rare for short
// tasks, but for long ones it should not be missed: step adapts.
func (w *worker) tick() bool {
	p := w.p
	w.tasks += int64(w.step - w.left)
	if n := p.tasksPerWorker; n > 0 && w.tasks >= int64(n) {
		w.step, w.left = 0, 0
		w.idle()
		return false
	}
	if p.up != nil {
		return w.lentTick()
	}
	now := p.now()
	took := time.Duration(now - w.lastTick)
	w.lastTick = now
	crowded := w.crowded(now, took)
	w.setStep(nextStep(w.step, took))
	if p.lends.Load() {
		w.tickTurn(now)
	}
	// If every task is timed this way, then also the one that comes now.
	if w.fresh = w.step == 1; w.fresh {
		w.since.Store(now)
	}
	w.publish(w.tasks, w.fresh)
	if crowded {
		return w.stepAside()
	}
	if !w.justRested(now) && !p.hasSlept(took) && p.yieldDue(now) && !sy.FreeCPU() {
		// Whoever waits for what is done must not wait for the yield. But to
		// those who decide about growth this worker stays busy: see active.
		h, was := w.stop()
		p.yielding.Add(1) // at once: between the two this worker counts nowhere
		sy.Reach("let others run")
		if was {
			w.tell(h)
		}
		w.yield(now)
		p.yielding.Add(-1)
		w.marked, w.lastTick = false, w.back
		w.turn.ended = 0 // it goes on
		if w.fresh {
			w.since.Store(w.back)
		}
	}
	return true
}

// hasSlept reports whether others have most likely run in a worker's step that took so
// long: a slice, while most workers block.
func (p *Pool) hasSlept(took time.Duration) bool {
	return took >= slice && headBusy(p.head.Load()) >= mostBlock*int(p.procs.Load())
}

const (
	soloStep   = 16                     // tasks come in shorter steps only if they are long
	soloFresh  = 100 * time.Millisecond // for how long a measurement of one worker alone is good
	soloTrial  = 50 * time.Microsecond  // for how long one works alone to be measured
	soloFor    = time.Millisecond       // and because that was better
	soloLook   = 4 * time.Microsecond   // how often the others look whether it gets on
	soloYields = 64                     // and after how many yields
	soloRounds = 2                      // and in how many looks it may stand still
)

// crowded is called at the end of a step. It reports whether the workers
// hinder each other, so that one alone would get more done. That is so for the
// shortest tasks: if two workers take turns, each task has the cache lines of
// the queue, and often of what the tasks share, cross from one CPU to the
// other, which costs more than the task. How much it costs depends on the
// machine and the hour, so it is measured: what a worker alone did in a step,
// against what all did while this one did its step. If nobody knows what one
// alone would do, that is reason enough to try.
func (w *worker) crowded(now int64, took time.Duration) bool {
	p := w.p
	if w.step < soloStep || !p.auto {
		w.marked = false
		return false
	}
	h := p.head.Load()
	taken := ahead(headTicket(h), w.mark)
	step := uint64(w.step)
	valid := w.marked && took < longStep && taken >= step
	w.mark, w.marked = headTicket(h), true
	switch {
	case !valid:
		return false
	case taken < step+step/8:
		p.soloTime.Store(int64(took) / int64(step))
		p.soloAt.Store(now)
		return false
	case headBusy(h) < 2:
		return false
	}
	together := int64(took) / int64(taken)
	switch {
	case now-p.soloAt.Load() > int64(soloFresh):
		p.soloUntil.Store(now + int64(soloTrial))
	case p.soloTime.Load() < together-together/8:
		p.soloUntil.Store(now + int64(soloFor))
	default:
		return false
	}
	return true
}

// stepAside makes room for the other workers. If one is on standby w parks,
// although tasks wait; else it goes on standby, and gives way. It returns as
// rest does.
func (w *worker) stepAside() bool {
	p := w.p
	w.idle()
	w.fresh, w.marked = false, false
	if p.wake.Load()&standbyMask != 0 {
		w.aside = true
		if !w.park() {
			return false
		}
		if w.gentle {
			w.giveWay()
		}
		return true
	}
	w.standby = true
	p.wake.Add(standbyOne)
	w.giveWay()
	return true
}

// justRested reports whether w was parked not long ago, so that others had
// their turn then, or is to go on.
func (w *worker) justRested(now int64) bool {
	if !w.rested {
		return false
	}
	if w.until == 0 {
		w.back, w.until = now, now+int64(window)
	}
	w.rested = now < w.until
	return w.rested
}

const (
	goOnFor   = 5 * time.Millisecond // at most; Go's scheduler allows 10
	longYield = 5 * time.Millisecond
	longTurn  = time.Millisecond // of a goroutine that does not yield
)

// yielders counts the workers of all pools that let others run.
var yielders sy.Int64

// yield lets others run. now is the time before.
func (w *worker) yield(now int64) {
	ran := now - w.back
	yielders.Add(1)
	sy.Yield()
	others := yielders.Add(-1)
	w.back = w.p.now()
	if away := w.back - now; away > int64(longYield) {
		if d := goOn(away, ran, others, w.p.procs.Load(), int64(sy.Runnable())-givingWay.Load()); d > 0 {
			w.rested, w.until = true, w.back+d
		}
	}
}

// goOn is for how long a worker need not let others run again when it was away for that
// purpose and had run for ran before. others are the workers of all pools that let others
// run now, and runnable the goroutines that wait for a CPU, these included.
//
// Who computes beside the pools and does not yield keeps a CPU for the 10 ms that Go's
// scheduler allows. Workers that gave it back after a window each time would have
// a hundredth of the CPUs beside some of them, and nobody would be less late for that. So
// the workers that take turns go on until they have together what others had of the CPUs,
// but none for longer than goOnFor.
//
// That is only for others that are there still, and whose turns are long. If workers took
// each other for them, or workers of other pools, they would have each other go on, and
// what the machine takes away once would last. So the others may have had, each, what
// this one had before, and that is subtracted.
func goOn(away, ran, others, procs, runnable int64) int64 {
	foreign := away*procs - others*min(ran, int64(goOnFor))
	n := runnable - others
	if n < 1 || foreign < int64(longYield)*procs || foreign < n*int64(longTurn) {
		return 0
	}
	return min(foreign/(procs+others), int64(goOnFor))
}

// nextStep is the length of the step after one of n tasks.
func nextStep(n int8, took time.Duration) int8 {
	switch {
	case took < shortStep && n <= maxStep/2:
		return max(1, 2*n)
	case took > longStep:
		return max(1, n/2)
	}
	return max(1, n)
}

// setStep begins a step of n tasks, or fewer if the worker's life is shorter.
func (w *worker) setStep(n int8) {
	if m := w.p.tasksPerWorker; m > 0 {
		n = int8(min(int64(n), int64(m)-w.tasks))
	}
	w.step, w.left = n, n
}

// yieldDue reports whether the calling worker should let others run. Go's
// scheduler lets a goroutine compute for 10 ms, and looks at timers only
// between two goroutines; so a pool that computes makes everything else in the
// process late, unless it yields. It suffices that somebody yields on each CPU
// in each window. A worker need not know on which CPU it is: the pool as a
// whole spends one yield per CPU and window, and workers that compute take
// turns. Whether anything is runnable is no criterion: a timer that is due is
// not a runnable goroutine.
func (p *Pool) yieldDue(now int64) bool {
	const countBits = 12
	w := uint64(now) / uint64(window) << countBits
	for {
		q := p.quota.Load()
		next := q + 1
		if q>>countBits != w>>countBits {
			next = w + 1
			p.procs.Store(int64(sy.Procs()))
		} else if q&(1<<countBits-1) >= min(uint64(p.procs.Load()), 1<<countBits-1) {
			return false
		}
		if p.quota.CompareAndSwap(q, next) {
			return true
		}
	}
}
