package kernel

import (
	"context"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"sync/atomic"

	"github.com/shoal-go/shoal/internal/grow"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Worker is a goroutine that takes tasks from one lane at a time: the only one that is ready, or
// the one whose turn it is. Only that goroutine writes its fields, unless they say otherwise.
// Others read the atomic ones and ID, and, under mu while it is parked, seat.
//
// Invariant: a worker that sees no task announces, under the lock, that it is available before the
// last look that lets it park; and a worker that ceases to search looks for tasks after that.
type Worker struct {
	// Fields that each task uses come first, in two cache lines: while a task sleeps, they drop out
	// of the caches.
	crew     *Crew
	seat     grow.Seat
	seenFor  uint16 // the last so many tickets before seen may be taken without another look at tail
	searches bool   // counted in wake; also set, under mu, by the goroutine that wakes or starts w
	asks     bool   // begins by asking whether to grow; set like searches
	leaving  bool   // it was told to leave; set like searches
	due      bool   // a tick is due
	inTask   bool
	timed    bool             // the task it is in is timed
	at       *Lane            // the lane that it is busy in
	status   sy.Uint64        // tasks run, and bits; see idleBit
	since    sy.Int64         // when the current task started, if status has exactBit
	seen     uint64           // tickets of at before this one were given out, and may be taken in this turn
	named    sy.Pointer[Lane] // the lane in whose name loop was called; nil: it has not come to its first task
	held     queue.Item       // a task of at that was taken, and has yet to be run
	cur      *Record          // the task it is in; or the last one, if its strand has not gone on
	watched  sy.Bool          // set by a reader; cleared before each task
	pause    pause            // what it is to do in main

	yields bool  // it yields when it has stopped
	hooked bool  // the start hook has returned
	parked bool  // guarded by mu
	keeps  *Lane // the lane against whose maximum it still counts while it yields
	turn   turn
	run

	wakeup   sy.Event // made at the first park
	next     *Worker  // the next one in deeds.workers; guarded by mu until leave has taken that list
	parkedAt int64    // guarded by mu while it is parked
	readers
	Keep
	_ [16]byte // so that the size is a multiple of a cache line, and each worker begins with one
}

// run is what a worker runs.
type run struct {
	cycle   func()             // loop; made once
	call    sy.Pointer[Record] // cur, for the goroutine that cuts contexts; pairs with Lane.stops
	pending *Record            // the last task, to be resolved after it was counted
	turns   int                // tasks of a strand that were run one after the other
	started int64              // when the task it is in started, if it is timed
	waited  int64              // how long that task waited
}

// A pause is what a worker does before it runs tasks again.
type pause uint8

const (
	toRun pause = iota // it goes on
	toYield
	toRest
	toSleep
)

// readers is what other goroutines read of a worker, and what they keep there.
type readers struct {
	failed    uint64 // tasks that failed; guarded by mu
	watchedAt int64  // when watched was set; guarded by mu

	busy atomic.Int64 // see busyFor; nothing is decided by it, so the explorer need not see it
}

// Worker.status is the number of tasks run, as of the last time it was written, and these bits.
const (
	idleBit    = 1 // not inside a task
	exactBit   = 2 // since is when the current task started
	statusBits = 2
)

// main is the worker's life.
func (w *Worker) main() {
	defer w.end()
	c := w.crew
	if c.Pin {
		runtime.LockOSThread()
	}
	c.arrived()
	pprof.SetGoroutineLabels(c.Labels)
	if w.asks && c.Sizer != nil {
		w.asks = !w.askSizer() // before the start hook; if the Sizer says no it is asked again
	}
	if w.hooked = c.Start == nil; !w.hooked {
		w.startHook()
	}
	for w.named.Store(c.root); !w.leaving; {
		// The runtime's metrics are read from here, with rare exceptions: that needs so much stack that
		// 2 KB suffice only if the stack is not deep.
		switch p := w.pause; p {
		case toYield:
			if !sy.FreeCPU() { // a free CPU runs the others; if w yields, it could run w, away from w's caches
				sy.Yield()
			}
			w.seat.Yielded(&c.clock)
		case toRest, toSleep:
			if w.named.Load() != c.root {
				w.named.Store(c.root) // so that w keeps no lane in memory
			}
			if p == toRest {
				w.rest()
			} else {
				w.sleep()
			}
		}
		w.pause = toRun
		if w.asks {
			w.ask()
			w.asks = false
		}
		switch l := w.named.Load(); { // the stack of a task tells whose it is
		case w.leaving:
		case l == c.root:
			l.id.Call(w.cycle) // as l.Call would, with less stack
		default:
			l.Call(w.cycle)
		}
	}
}

// loop takes and runs tasks of one lane until there is none, or the worker has to leave or to
// yield, or comes to another lane, or a task panics. In the root, if tasks are short, w also rests in
// it. So recovering from panics costs a deferred call per loop, not per task. After runtime.Goexit loop does not return.
func (w *Worker) loop() {
	c := w.crew
	defer func() {
		if w.inTask && (!c.Crash || InGoexit()) { // else the panic is not recovered, and ends the process
			w.fault(recover())
		}
	}()
	for !w.leaving && !w.asks && w.pause == toRun {
		if w.due {
			w.tick()
			continue
		}
		it, ok := w.hand()
		if !ok {
			w.finish()
			switch {
			case w.named.Load() != c.root || w.seat.EachTask():
				w.pause = toRest
			case !w.leaving:
				w.rest()
			}
			continue
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
			return
		}
		if it.IsRecord() || w.timed || trace.IsEnabled() {
			w.unwatch()
			w.runSlow(it)
			pprof.SetGoroutineLabels(c.Labels)
			continue
		}
		l := w.at
		for !it.IsZero() { // none of the above changes from one plain task to the next
			w.unwatch()
			w.inTask = true
			it.Func()()
			w.inTask = false
			w.ran()
			pprof.SetGoroutineLabels(c.Labels)
			if w.due || trace.IsEnabled() {
				break
			}
			it = w.takePlain(c, l)
		}
	}
}

// unwatch lets a reader that has marked w know that the next task is another one.
func (w *Worker) unwatch() {
	if w.watched.Load() {
		w.watched.Store(false)
	}
}

// hand is the next task: one that was taken already, the next one of a strand, or the next one
// of the line.
func (w *Worker) hand() (it queue.Item, ok bool) {
	if !w.held.IsZero() {
		it, w.held = w.held, queue.Item{}
		return it, true
	}
	if w.cur == nil {
		return w.take()
	}
	if it, ok = w.pass(true); ok {
		return it, true
	}
	if it, ok = w.take(); ok && w.pending != nil {
		w.settle() // now it is counted
	}
	return it, ok
}

// finish counts the last task as finished, if that is still to be done, and gives its result to its
// waiters.
func (w *Worker) finish() {
	if w.cur != nil {
		w.pass(false)
	}
	switch l := w.at; {
	case l == nil:
	case w.turn.noted || w.crew.solo.Load() != l:
		w.finishWith(func() {})
	default:
		w.finishAlone()
	}
	if w.pending != nil {
		w.settle()
	}
}

// stopSearch is called by a searching worker that has taken a task. A submitter that saw it search
// has woken no worker, and relies on the look here.
func (w *Worker) stopSearch() {
	c, wake := w.crew, w.cease()
	if wake&submitter != 0 && !w.seat.Short() {
		wake = c.noSubmitter() // it may take long to come, if other goroutines compute
	}
	if c.understaffed(wake) && c.backlog() {
		c.look()
	}
}

// rest looks for tasks a few times, then parks.
func (w *Worker) rest() {
	c := w.crew
	if c.Spin > 0 {
		w.search()
		for i := range c.Spin {
			if c.backlog() {
				if i > 0 {
					w.seat.Found()
				}
				return
			}
			if i == 0 {
				w.seat.Rest(&c.clock)
			}
		}
	}
	w.sleep()
}

// sleep parks until w is woken, unless there is a reason to leave.
func (w *Worker) sleep() {
	c := w.crew
	w.parkedAt = c.clock.Now()
	w.busy.Store(^w.busyFor(w.parkedAt))
	w.seat.Away(&c.clock)
	c.enter()
	c.chargeAlone(1)
	w.cease()
	if c.tooMany() || c.Idle == 0 && c.live-c.departing > c.Min && c.top() == nil {
		c.depart(w)
		c.leave()
		return
	}
	w.unwatch() // a reader that has marked w saw the last task; readers hold mu too
	c.park(w)
	c.armReclaim()
	c.leave() // announces that w is available, then looks, and may wake w
	w.wakeup.Wait()
	c.arrived()
	now := c.clock.Now()
	w.busy.Store(now - ^w.busy.Load())
	w.seat.Woken(now - w.parkedAt)
}

// busyFor is for how long, in all, w has not been parked at time now. While w is parked that is
// ^busy, and busy is negative. Otherwise it is as if w had begun at busy and had never parked.
func (w *Worker) busyFor(now int64) int64 {
	if b := w.busy.Load(); b < 0 {
		return ^b
	} else {
		return now - b
	}
}

// resume starts w, or wakes it.
func (w *Worker) resume() {
	if w.named.Load() == nil {
		sy.Go(w.main)
		return
	}
	w.wakeup.Set()
}

// tick, now and then between two tasks, ends a worker that has run its share (TasksPerWorker), lets
// submitters that are far ahead go on, and asks package grow whether w is to yield or to park.
func (w *Worker) tick() {
	c := w.crew
	w.due = false
	if n := c.TasksPerWorker; n > 0 && w.seat.Done() >= int64(n) {
		w.finish()
		c.enter()
		c.chargeAlone(1)
		c.depart(w)
		c.fill()
		c.leave()
		return
	}
	inTask, began := 1, uint64(0)
	if l := w.at; l != nil && !w.seat.EachTask() { // else they do not matter
		l.follow()
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
		w.pause = toSleep // although tasks wait: leave may wake w at once, to ask whether to grow
	case yield && c.backlog():
		if w.yields = w.at != nil; !w.yields {
			w.seat.Yields(&c.clock)
		}
		w.finish() // a waiter for the task must not wait for the yield
		sy.Reach("yield")
		w.pause = toYield
	}
}

// ask makes a searching worker yield until the pool is to grow, or there is nothing to do.
func (w *Worker) ask() {
	c := w.crew
	still, last := 0, uint64(0)
	for l := (grow.Look{}); c.backlog() && c.urgent.Load() != most; l.Hold(&c.clock) {
		inTask, began, ended, starves := c.progress()
		var start bool
		if c.Sizer == nil {
			start = l.Ask(&c.clock, inTask, began, ended)
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

// mostLooks is how often a Sizer may say no after its first no, while no task begins.
const mostLooks = 8

// progress is the number of workers inside tasks, and how many tasks or turns have begun and ended,
// without those of workers that do not come to what waits: see fair.Queue.Ahead. If no worker comes
// to it, it starves.
func (c *Crew) progress() (inTask int, began, ended uint64, starves bool) {
	if l := c.solo.Load(); l != nil {
		h := l.head.Load()
		return int(numOf(h)), ticketOf(h), ticketOf(h) - numOf(h), false
	}
	c.read(func() {
		ahead, turns := c.ready.Ahead(c.root.max(), func(l *Lane) int { return l.max() })
		inTask = max(0, c.live-len(c.idle)-c.apart-c.clock.Yielding()-c.searching())
		began = c.served - turns
		ended, starves = began-uint64(max(0, inTask-ahead)), ahead > 0 && inTask <= ahead
	})
	return inTask, began, ended, starves
}

// askSizer asks the Sizer. If the Sizer panics, that counts as yes.
func (w *Worker) askSizer() (grow bool) {
	c := w.crew
	grow = true
	var s Sizing
	w.stepOut(&c.asking, func() {
		// One that yields wants its CPU back. If it were idle, whoever counts the CPUs in use, as Auto does, would
		// always say yes: w mostly has its CPU from such a worker.
		idle := len(c.idle) + c.apart + c.asking + c.departing + c.searching() - 1 // w searches
		s = Sizing{Workers: c.live - 1, Idle: idle, Min: c.Min, Max: c.root.max(), Queued: int(c.root.count().Waiting)}
	}, func() { grow = c.Sizer(s) })
	return grow
}

// startHook calls the start hook, unless the hook has ended a worker's goroutine before.
func (w *Worker) startHook() {
	c := w.crew
	broken := false
	w.stepOut(&c.apart, func() { broken = c.staff.hookBroken }, func() {
		if !broken {
			c.Start(w.ID)
		}
	})
	w.hooked = !broken
}

// stepOut runs f, a function of the user, on a searching worker. f may take any time, so meanwhile
// the worker does not count as searching, but in n. look is called first, under the lock.
func (w *Worker) stepOut(n *int, look, f func()) {
	c := w.crew
	c.enter()
	look()
	*n++
	w.cease()
	c.leave()
	returned := false
	defer func() {
		c.enter()
		*n--
		if returned {
			w.asks = w.asks && (c.Sizer != nil || c.searching() == 0) // one at a time asks package grow
			w.search()
		} else { // f has ended the goroutine
			c.staff.replaces = true
			if n == &c.apart { // or each next worker would end the same way, for ever
				c.staff.hookBroken = true
				c.root.later(c.root.owner.HookBroken)
			}
		}
		c.leave()
	}()
	c.root.owner.Guard(f)
	returned = true
}

// end ends the worker's life, also after runtime.Goexit.
func (w *Worker) end() {
	if w.inTask {
		return // a panic that is not recovered: the process is about to die
	}
	c := w.crew
	defer func() {
		pprof.SetGoroutineLabels(context.Background()) // a profile of its last moment shows no pool's name
		c.enter()
		c.gone(w)
		c.leave()
	}()
	w.busy.Store(^w.busyFor(c.clock.Now()))
	w.seat.Away(&c.clock)
	defer func() {
		if w.hooked && c.Stop != nil {
			c.root.owner.Guard(func() { c.Stop(w.ID) })
		}
	}()
	w.closeAll()
}
