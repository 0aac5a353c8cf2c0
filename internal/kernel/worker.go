package kernel

import (
	"context"
	"runtime"
	"runtime/pprof"
	"runtime/trace"

	"github.com/shoal-go/shoal/internal/grow"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Worker is a goroutine that takes tasks from one lane at a time: the only one that is ready,
// or the one whose turn it is. Its fields are its own, unless they say otherwise.
//
// Invariant: a worker that sees no task announces that it is available, under the lock, before
// the last look that lets it park; and a worker that ceases to search looks for tasks after that.
type Worker struct {
	// What every task touches comes first: while a task sleeps, its worker grows cold.
	crew     *Crew
	at       *Lane  // it is busy there
	seen     uint64 // tickets before this one were given out, in at, and may be taken in this turn
	seenFor  uint64 // that many tickets before seen; 0: it never looked
	seat     grow.Seat
	status   sy.Uint64 // tasks run, and bits; see idleBit
	watched  sy.Bool   // set by a reader; cleared before each task
	searches bool      // counted in wake; also set, under mu, by whoever wakes or starts it
	asks     bool      // begins by asking whether to grow; set like searches
	inTask   bool
	due      bool    // a tick is due
	yields   bool    // it yields when it has stopped
	keeps    *Lane   // where it has kept its place while it yielded
	leaving  bool    // told to leave; set like searches
	ended    *Record // the last task, if it was a record and its strand has not gone on
	pending  Result  // of the last task, to be resolved after that was counted
	timed    int64   // when the task it is in started; -1: that is not timed
	waited   int64   // how long that task waited

	turn turn
	run  // what it runs, and in whose name
	id   int

	wakeup     sy.Event // made at the first park
	next, prev *Worker  // in the idle list, or among the deeds; guarded by mu
	parked     bool     // guarded by mu
	parkedAt   int64    // guarded by mu
	apartIn    *int     // while it runs a function of the user: where that is counted; guarded by mu
	readers
	client
}

// run is what a worker runs.
type run struct {
	cycle  func()             // loop, whose result is again; made once
	again  bool               // what loop has returned
	named  sy.Pointer[Lane]   // in whose name loop was called
	held   queue.Item         // a task of at, which is not named yet
	cur    *Record            // the task it is in, if that is a record
	call   sy.Pointer[Record] // cur, for those who cancel; pairs with Lane.stops
	turns  int                // of strands, one after the other
	inHook bool               // in the start hook
	hooked bool               // the start hook has returned
}

// readers is what those who look at a worker keep there.
type readers struct {
	since     sy.Int64 // when the current task started, if status has exactBit; written by the worker
	failed    uint64   // tasks that failed; guarded by mu
	watchedAt int64    // when watched was set; guarded by mu
}

// client is a place for what a client keeps for the worker.
type client struct {
	mu sy.Mutex
	v  any
}

// Client is what a client keeps for w. If there is nothing, it is what make makes, unless that
// is nil.
func (w *Worker) Client(make func() any) any {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	if w.v == nil && make != nil {
		w.v = make()
	}
	return w.v
}

// ID is the worker's number; -1 if it stands for a goroutine that is no worker.
func (w *Worker) ID() int { return w.id }

// Worker.status is the number of tasks run, as of the last time it was written, and these bits.
const (
	idleBit    = 1 // not inside a task
	exactBit   = 2 // since is when the current task started
	statusBits = 2
)

// maxSeen bounds how long a look at tail is good for. Tickets are compared modulo 1<<38: a worker
// that comes out of a task after so many tickets that they have wrapped must not take an old look
// for a new one. That could happen only within maxSeen tickets of where it looked.
const maxSeen = 1 << 10

// main is the worker's life.
func (w *Worker) main() {
	defer w.end()
	c := w.crew
	if c.Pin {
		runtime.LockOSThread()
	}
	pprof.SetGoroutineLabels(c.Labels)
	if w.asks && c.Sizer != nil {
		w.asks = !w.askSizer() // before the start hook; if it says no it is asked again
	}
	w.startHook()
	for w.named.Store(c.root); ; {
		w.named.Load().Call(w.cycle) // so the stack of a task tells whose it is
		if !w.again {
			return
		}
	}
}

// loop takes and runs tasks of one lane until the worker has to leave, and returns false, or a
// task panics, or the worker comes to another lane, and returns true. So to recover from panics
// costs a deferred call per loop, not per task. After runtime.Goexit it does not return.
func (w *Worker) loop() (again bool) {
	c := w.crew
	defer func() {
		if w.inTask && (!c.Crash || InGoexit()) { // else a panic ends the process, as it is
			again = w.fault(recover())
		}
	}()
	for {
		if w.due && !w.tick() {
			return false
		}
		if w.asks {
			w.ask()
			w.asks = false
		}
		it, ok := w.hand()
		if !ok {
			w.finish()
			switch {
			case w.leaving:
				return false
			case w.named.Load() != c.root: // it rests in nobody's name, and keeps no lane in memory
				w.named.Store(c.root)
				return true
			case !w.rest():
				return false
			}
			continue
		}
		if w.pending != nil {
			w.settle()
		}
		if w.seat.Stale(&c.clock) {
			w.seat.Begin(&c.clock)
		}
		if w.searches {
			w.stopSearch()
		}
		if w.at != w.named.Load() {
			w.held = it
			w.named.Store(w.at)
			return true
		}
		if w.watched.Load() {
			w.watched.Store(false)
		}
		if it.IsRecord() || w.timed >= 0 || trace.IsEnabled() {
			w.runSlow(it)
		} else {
			w.inTask = true
			it.Func()()
			w.inTask = false
			w.ran()
		}
		pprof.SetGoroutineLabels(c.Labels)
	}
}

// ran counts a task that has returned.
func (w *Worker) ran() { w.due = w.seat.Ended() || w.crew.TasksPerWorker > 0 }

// hand is the next task: one that was taken already, the next one of a strand, or the next one
// of the line.
func (w *Worker) hand() (it queue.Item, ok bool) {
	if !w.held.IsZero() {
		it, w.held = w.held, queue.Item{}
		return it, true
	}
	if w.ended != nil {
		if it, ok = w.carryOn(); ok {
			return it, true
		}
		w.pass()
	}
	return w.take()
}

// take takes the next task. Without one it returns false, and w may be told to leave.
func (w *Worker) take() (queue.Item, bool) {
	c, l := w.crew, w.at
	if l == nil {
		if l = c.solo.Load(); l == nil || w.keeps != nil {
			return w.takeLocked()
		}
	}
	for {
		h := l.head.Load()
		seg := l.front.Load() // between the two: see offer
		alone := c.solo.Load() == l
		if h&flag != 0 || !alone && (w.turn.began == 0 || w.turn.single || c.urgent.Load() > l.prio) {
			return w.takeLocked()
		}
		t := ticketOf(h)
		if w.at == nil || w.seenFor == 0 || (w.seen-t-1)&mask >= w.seenFor {
			ahead := (ticketOf(l.tail.Load()) - t) & mask
			switch {
			case ahead == 0 && alone:
				return queue.Item{}, false
			case ahead == 0 || w.at == nil && (seg == nil || numOf(h) >= l.limit.Load()):
				return w.takeLocked()
			case w.at == nil:
				if !l.head.CompareAndSwap(h, h+ticketOne+1) {
					continue
				}
				w.begin(l, turn{})
				w.seen, w.seenFor = (t+ahead)&mask, min(ahead, maxSeen)
				return w.fetch(seg, t), true
			}
			n := uint64(maxSeen)
			if alone {
				w.turn = turn{noted: w.turn.noted}
			} else {
				n = w.more()
			}
			if n = min(n, ahead); n == 0 {
				return w.takeLocked() // its turn is over
			}
			w.seen, w.seenFor = (t+n)&mask, n
		}
		if l.head.CompareAndSwap(h, h+ticketOne) {
			return w.fetch(seg, t), true
		}
	}
}

// fetch empties the cell of ticket t and, if the ticket is timed, begins its timing. seg was
// loaded from front before t was taken.
func (w *Worker) fetch(seg *queue.Segment, t uint64) queue.Item {
	l := w.at
	it, seg := l.fetch(seg, t)
	if t&l.stampMask == 0 && !l.stampOff {
		w.timed = sy.Since(l.epoch)
		w.waited = w.timed - *seg.Stamp(t)
		w.since.Store(w.timed + grow.Ahead)
		w.publish(exactBit)
	}
	return it
}

// endTiming notes how long the task took, if fetch noted its start.
func (w *Worker) endTiming() {
	if w.timed >= 0 {
		l := w.at
		l.owner.Timed(w.waited, sy.Since(l.epoch)-w.timed)
		w.timed = -1
		w.publish(0)
	}
}

// begin makes w busy in l, where it has taken a ticket.
func (w *Worker) begin(l *Lane, t turn) {
	w.at, w.turn, w.seenFor = l, t, 0
	w.publish(0)
}

// A turn is the time from a worker's coming into a lane to its next look whose turn it is.
type turn struct {
	began, looked int64 // 0: nobody else is ready, nothing is charged
	charged       int64 // to the lane, beforehand
	step          uint8 // tasks between two looks at the clock
	single        bool  // it ends with the task, and is counted in the lanes above
	noted         bool  // the schedule knows of it
}

// more is how many tasks may be taken before the next look at the clock.
func (w *Worker) more() uint64 {
	now, t := w.crew.clock.Now(), &w.turn
	d := now - t.looked
	t.looked = now
	switch {
	case now-t.began >= turnTime:
		return 0
	case d < turnTime/16:
		t.step = min(2*t.step, 32)
	case d > turnTime/4:
		t.step = max(t.step/2, 1)
	}
	return uint64(t.step)
}

// takeLocked stops, has free capacity given away, and takes the next task, in one section.
func (w *Worker) takeLocked() (it queue.Item, ok bool) {
	c := w.crew
	c.enter()
	if l := w.keeps; l != nil {
		w.keeps = nil
		l.below--
		c.freed(l)
		l.release()
	}
	now := w.stopLocked()
	if c.root.ended || c.tooMany() {
		c.depart(w)
		c.leave()
		return
	}
	c.settle() // before it takes: the capacity it has freed is for who waits longest
	for {
		l := c.top()
		if l == nil {
			c.leave()
			return
		}
		seg, t, got := l.takeLocked(uint64(l.max + l.inline))
		if !got {
			continue // another took it, or the last place, without the lock
		}
		c.served++
		tn := turn{}
		if len(c.subs) > 0 {
			if now == 0 {
				now = c.clock.Now()
			}
			tn = turn{began: now, looked: now, step: max(l.step/2, 1), charged: turnTime, noted: true, single: !l.isLeafOfRoot()}
			c.serve(l, +1)
			c.charge(l, turnTime)
			l.came(nil)
			l.most = max(l.most, l.workersIn()+l.below)
		}
		w.begin(l, tn)
		c.touch(l)
		c.leave()
		return w.fetch(seg, t), true
	}
}

// stopLocked counts the last task as finished, if there is one that is not, and ends the turn. It
// returns the time, if it had to look.
func (w *Worker) stopLocked() (now int64) {
	l, c := w.at, w.crew
	if l == nil {
		return 0
	}
	w.publish(idleBit)
	if h := l.exit(); l.waiting.Load() != 0 {
		if at, ok := l.quietAfter(h); ok { // it may have passed when leave looks
			l.wakeQuieters(at)
		}
	}
	if t := &w.turn; t.began != 0 {
		now = c.clock.Now()
		c.charge(l, now-t.began-t.charged)
		l.step = t.step
	}
	if w.turn.noted {
		c.serve(l, -1)
	}
	if w.yields && l.up != nil && c.said.only != l {
		// It keeps its place meanwhile: else a lane whose workers yield is never at its maximum,
		// and those of lower priority starve.
		l.below++
		l.retain()
		w.keeps = l
	}
	if w.turn.single {
		l.left(nil)
	} else {
		c.freed(l)
	}
	w.stopped()
	return now
}

// stopped is called when w is busy no more. If it is about to yield it counts as yielding at
// once: between the two it counts nowhere.
func (w *Worker) stopped() {
	w.at, w.seenFor, w.turn = nil, 0, turn{}
	if w.yields {
		w.yields = false
		w.seat.Yields(&w.crew.clock)
	}
}

// finish counts the last task as finished, if there is one that is not, and tells those who wait
// for it.
func (w *Worker) finish() {
	if w.ended != nil {
		w.pass()
	}
	if l := w.at; l != nil {
		if w.turn.noted || w.crew.solo.Load() != l {
			w.finishWith(func() {})
		} else {
			w.finishAlone()
		}
	}
	if w.pending != nil {
		w.settle()
	}
}

// finishAlone is finish in the only lane that is ready: it takes the lock only if somebody waits.
func (w *Worker) finishAlone() {
	l, c := w.at, w.crew
	w.publish(idleBit)
	h := l.exit()
	w.stopped()
	at, quiet := uint64(0), false
	if numOf(h) == 0 && l.waiting.Load() != 0 {
		at, quiet = l.quietAfter(h) // it may have passed when the lock is ours
	}
	if quiet || h&flag != 0 || c.solo.Load() != l {
		c.enter()
		if quiet {
			l.wakeQuieters(at)
		}
		c.freed(l)
		c.leave()
	}
}

// stopSearch is called by a searching worker that has taken a task. A submitter that saw it
// search relies on its look.
func (w *Worker) stopSearch() {
	w.searches = false
	c := w.crew
	if s := c.wake.Add(^uint64(0)); s&searchMask == 0 && s >= availOne && c.backlog() {
		c.look()
	}
}

// backlog reports whether tasks wait for workers. It is a guess that may be too high.
func (c *Crew) backlog() bool {
	if l := c.solo.Load(); l != nil {
		return l.waits()
	}
	return c.urgent.Load() != none
}

// rest looks for tasks a few times, then parks. It returns false if the worker is to leave.
func (w *Worker) rest() bool {
	c := w.crew
	if c.Spin > 0 {
		if !w.searches {
			w.searches = true
			c.wake.Add(1) // submitters need wake nobody meanwhile
		}
		for i := range c.Spin {
			if c.backlog() {
				if i > 0 {
					w.seat.Found()
				}
				return true
			}
			if i == 0 {
				w.seat.Rest(&c.clock)
			}
		}
	}
	return w.sleep()
}

// sleep parks until w is woken, unless there is a reason to leave.
func (w *Worker) sleep() bool {
	c := w.crew
	var now int64
	if c.Idle > 0 && c.Idle != Forever {
		now = c.clock.Now()
	}
	w.seat.Away(&c.clock)
	c.enter()
	c.stopSearch(w)
	if c.root.ended || c.tooMany() || c.Idle == 0 && c.live-c.departing > c.Min && c.top() == nil {
		c.depart(w)
		c.leave()
		return false
	}
	sy.Reach("park")
	if w.wakeup.IsZero() {
		w.wakeup = sy.MakeEvent()
	}
	w.watched.Store(false) // whoever set it looked at the last task; mu is held, as it is then
	w.parkedAt = now
	c.park(w)
	c.rest()
	c.armReclaim(now)
	c.leave() // announces that it is available, then looks, and may wake it
	w.wakeup.Wait()
	return !w.leaving
}

// resume has w begin, or go on.
func (w *Worker) resume() {
	if w.named.Load() == nil {
		sy.Go(w.main)
		return
	}
	w.wakeup.Set()
}

// publish tells readers how many tasks w has run, and bits.
func (w *Worker) publish(bits uint64) {
	w.status.Store(uint64(w.seat.Done())<<statusBits | bits)
}

// tick is called now and then between two tasks. It returns false if w is to leave.
func (w *Worker) tick() bool {
	c := w.crew
	w.due = false
	if n := c.TasksPerWorker; n > 0 && w.seat.Done() >= int64(n) {
		w.finish()
		return false
	}
	inTask, began := 1, uint64(0)
	if l := w.at; l != nil {
		h := l.head.Load()
		inTask, began = int(numOf(h)), ticketOf(h)
	}
	yield, aside := w.seat.Tick(&c.clock, inTask, began)
	bits := uint64(0)
	if w.seat.EachTask() {
		bits = exactBit
		w.since.Store(w.seat.Now())
	}
	if w.at != nil {
		w.publish(bits)
	}
	switch {
	case aside && c.Sizer == nil:
		w.finish()
		return w.sleep() // though tasks wait: leave looks, and may wake it at once, to ask
	case yield && c.backlog():
		if w.yields = w.at != nil; !w.yields {
			w.seat.Yields(&c.clock)
		}
		w.finish() // who waits for the task must not wait for the yield
		sy.Reach("yield")
		w.seat.Yield(&c.clock)
	}
	return true
}

// ask has the searching worker yield until the pool is to grow, or there is nothing to do.
func (w *Worker) ask() {
	c := w.crew
	still, last := 0, uint64(0)
	for l := (grow.Look{}); c.backlog() && c.urgent.Load() != most; l.Hold(&c.clock) {
		inTask, began, starves := c.progress()
		var start bool
		if c.Sizer == nil {
			start = l.Ask(&c.clock, inTask, began, began-uint64(inTask))
		} else {
			if began != last {
				still, last = 0, began
			}
			still++
			start = still > mostLooks>>sy.Shorter || w.askSizer()
		}
		if start || starves {
			return
		}
	}
}

// mostLooks is how often a Sizer may say no while no task begins.
const mostLooks = 8

// progress is how many workers are inside tasks, and a number that grows as tasks begin. It
// reports whether a lane waits that none of them will come to.
func (c *Crew) progress() (inTask int, began uint64, starves bool) {
	if l := c.solo.Load(); l != nil {
		h := l.head.Load()
		return int(numOf(h)), ticketOf(h), false
	}
	c.read(func() {
		inTask = max(0, c.live-c.idle.n-c.apart-int(c.wake.Load()&searchMask))
		began, starves = c.served, c.starves()
	})
	return inTask, began, starves
}

// askSizer asks the Sizer. One that panics has said yes.
func (w *Worker) askSizer() (grow bool) {
	c := w.crew
	grow = true
	var s Sizing
	w.stepOut(&c.asking, func() {
		others := c.live - 1
		s = Sizing{Workers: others, Idle: max(0, others-c.root.workersIn()), Min: c.Min, Max: c.root.max, Queued: int(c.root.backlog())}
	}, func() { grow = c.Sizer(s) })
	return grow
}

// startHook calls the start hook, unless that has ended a worker before.
func (w *Worker) startHook() {
	c := w.crew
	if c.Start == nil && c.Stop == nil {
		return
	}
	broken := false
	if c.Start != nil {
		w.inHook = true
		w.stepOut(&c.apart, func() { broken = c.staff.hookBroken }, func() {
			if !broken {
				c.Start(w.id)
			}
		})
		w.inHook = false
	}
	w.hooked = !broken
}

// stepOut runs f, a function of the user, on a worker that searches. It takes as long as it
// likes, so the worker does not search meanwhile, but is counted in n. look is called first,
// under the lock.
func (w *Worker) stepOut(n *int, look, f func()) {
	c := w.crew
	c.enter()
	look()
	*n++
	w.apartIn = n
	c.stopSearch(w)
	c.leave()
	c.root.owner.Guard(f)
	c.enter()
	c.stepIn(w)
	if !w.leaving {
		w.asks = w.asks && c.wake.Load()&searchMask == 0 // one at a time
		w.searches = true
		c.searching++
	}
	c.leave()
}

// stepIn ends the stepOut of w. Locked.
func (c *Crew) stepIn(w *Worker) {
	*w.apartIn--
	w.apartIn = nil
}

// end ends the worker's life, also after runtime.Goexit.
func (w *Worker) end() {
	if w.inTask {
		return // a panic that is not recovered: the process is about to die
	}
	c := w.crew
	defer func() {
		pprof.SetGoroutineLabels(context.Background()) // who looks at this goroutine in its last moment sees no pool's name
		c.enter()
		c.gone(w)
		c.leave()
	}()
	w.seat.Away(&c.clock)
	if w.apartIn != nil { // a function of the user has ended the goroutine
		c.enter()
		c.stepIn(w)
		c.staff.replaces = true
		c.staff.hookBroken = c.staff.hookBroken || w.inHook // the next one would end the same way, without end
		c.leave()
		if w.inHook {
			c.root.owner.HookBroken()
		}
	}
	defer func() {
		if w.hooked && c.Stop != nil {
			c.root.owner.Guard(func() { c.Stop(w.id) })
		}
	}()
	c.root.owner.Leaves(w)
}
