package kernel

import (
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"strings"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is what happens around a task: its context, panics, runtime.Goexit. It also runs tasks
// on goroutines that do not take tickets: inline, in a goroutine that waits or submits, or
// detached, in one of their own.
//
// The order at the end of a task is always the same: its context ends, then it is counted, then its
// waiters get its result. So the counters are right for a goroutine that has seen a result.
// Counters are written under the lock of the family; the fields of a Worker are its own.

// An Owner is what a lane's pool does around tasks.
type Owner interface {
	// Panicked handles a panic of value v in a task, or in r, if that is not nil, and returns the
	// task's error. It is called in the deferred function that has recovered the panic. If it is about
	// to end the process, it calls uncounted first, with what it would have returned.
	Panicked(v any, r *Record, uncounted func(err error)) error
	// Guard calls f, a function of the user that is no task, and reports a panic.
	Guard(f func())
	// Region begins a region of runtime/trace, for a task or for r, and returns what ends it.
	Region(r *Record) (end func())
	// Timed gets how long a task waited and ran, in nanoseconds.
	Timed(waited, ran int64)
	// HookBroken is called when the start hook has ended its goroutine.
	HookBroken()
}

// attempt runs task it of l, unless it must not begin: then it is canceled. w is the worker that runs
// it; nil: it runs inline.
func (l *Lane) attempt(it queue.Item, w *Worker) (canceled bool, err error) {
	r := recordOf(it)
	if r != nil {
		if err := r.Body.Refused(); err != nil {
			return true, err
		}
		if w != nil {
			w.call.Store(r) // once the task is sure to start, and before the look at stops
		}
		if l.stops.Load() { // not earlier: only now a strand has the task that is to be cut
			r.Body.Cut(ErrClosed)
		}
	}
	if trace.IsEnabled() {
		defer l.owner.Region(r)()
	}
	if r != nil {
		return false, r.Body.Run()
	}
	it.Func()()
	return false, nil
}

// ends counts a task that has ended with err, or was canceled. Locked.
func (l *Lane) ends(canceled bool, err error) {
	switch {
	case canceled:
		l.canceled++
		l.passed++
	case err != nil:
		l.failed++
	}
}

// runSlow runs a task that is a record, or is timed or traced. If it is a tombstone, runSlow passes it,
// and those that follow.
func (w *Worker) runSlow(it queue.Item) {
	l := w.at
	if r := recordOf(it); r != nil {
		if !r.Take() {
			sy.Reach("tombstone")
			w.timed = false
			w.finishWith(l.passTombstones)
			return
		}
		r.Keep, w.cur = &w.Keep, r
	}
	w.inTask = true
	canceled, err := l.attempt(it, w)
	w.inTask = false
	w.over(canceled, err)
}

// passTombstones is called by a worker that has taken the ticket of a tombstone, and is about to cease to be
// busy in l. It also takes the tombstones that follow, up to the end of a segment, so that no worker comes to
// the lock for each of them. It sets the slow-path flag: from then on nobody else takes a ticket, so it may
// peek at the cells. settle computes the flag anew. Locked.
func (l *Lane) passTombstones() {
	l.mark(l.isMuted(), true)
	seg, t, n := l.front.Load(), ticketOf(l.head.Load()), uint64(0)
	for seg.Holds(t+n) && isTombstone(seg.Cell(t+n).Peek()) {
		sy.Reach("another tombstone")
		n++
	}
	for range l.from(l.takeManyLocked(n)) {
	}
	l.tombstones(-int(n + 1))
	l.passed++
}

// over is called when the task that w is in has ended with err, or was canceled. A record that
// has not failed is passed later: see hand.
func (w *Worker) over(canceled bool, err error) {
	r, l := w.cur, w.at
	if r != nil {
		w.call.Store(nil)
	}
	if canceled {
		w.timed = false
	} else {
		w.ran()
		w.endTiming()
	}
	switch {
	case err != nil:
		w.cur = nil
		r.end(err, func() {
			w.finishWith(func() {
				l.ends(canceled, err)
				if !canceled {
					w.failed++
				}
			})
		})
	case r != nil:
		r.Body.Over(nil)
	}
}

// ran counts a task that has returned.
func (w *Worker) ran() {
	if w.seat.Ended() || w.crew.TasksPerWorker > 0 {
		w.due = true
	}
}

// settle gives the waiters for the last task, which is counted now, the result.
func (w *Worker) settle() {
	r := w.pending
	w.pending = nil
	r.Body.Resolve(nil)
}

// mostTurns is how many more tasks of a strand a worker runs after its first one. Then the other tasks
// that are queued by now have their turn.
const mostTurns = 32 >> (4 * sy.Shorter / 3)

// pass makes the strand of the last task, if there is one, go on before w ceases to be busy. If
// stay is set, and w is not needed elsewhere, w itself is to run the next task, which is returned.
func (w *Worker) pass(stay bool) (it queue.Item, ok bool) {
	r := w.cur
	w.cur = nil
	first, more := r.next()
	if more && r.Lane.goOn(r, stay && w.turns < mostTurns) {
		w.turns++
		first.resolve(nil)
		return queue.Record(r), true
	}
	w.turns, w.pending = 0, first
	return it, false
}

// finishWith counts w's last task as finished, together with what count changes, so that a snapshot
// sees both or neither.
func (w *Worker) finishWith(count func()) {
	c := w.crew
	c.enter()
	count()
	w.stopLocked()
	c.leave()
}

// fault is called, deferred, if a task did not return: because of a panic of value v or, if v is
// nil, of runtime.Goexit.
func (w *Worker) fault(v any) {
	w.inTask = false
	err := ErrGoexit
	if v != nil {
		err = w.at.owner.Panicked(v, w.cur, func(err error) { w.over(false, err) })
	}
	w.over(false, err)
	pprof.SetGoroutineLabels(w.crew.Labels)
}

// InGoexit reports, in a deferred function, whether that runs because of runtime.Goexit and not of
// a panic. It recovers no panic.
func InGoexit() bool {
	above, _, found := strings.Cut(string(debug.Stack()), "\nruntime.Goexit(")
	return found && !strings.Contains(above, "\npanic(")
}

// widen adds d to the number of tasks that run inline. Locked; the caller is busy.
func (l *Lane) widen(d int) {
	l.crew.inline += d
	l.inline += d
}

// enterFrom makes the calling goroutine, which is in a task of stay or is to run a task of l
// inline, busy in l. If l is stay, the goroutine counts as inline, and not against the maximum.
// Otherwise it counts like a worker, in l and the lanes between l and stay; if one of these is at
// its maximum, enterFrom returns that lane instead. Locked.
func (l *Lane) enterFrom(stay *Lane) (full *Lane) {
	if l == stay {
		l.enterLocked()
		l.widen(+1)
		return nil
	}
	// From here on no worker comes without the lock, and one that leaves sees the flag. The flag
	// stays until the ticket of head moves: then a step on an older word fails. While a Nudger waits,
	// the flag stays.
	l.fence()
	for a := l; a != stay; a = a.up {
		if a.atMax() {
			return a
		}
	}
	l.enterLocked()
	l.came(stay)
	l.crew.inline++
	stay.hosts++
	l.guests++
	return nil
}

// exitTo ends what enterFrom began. Locked.
func (l *Lane) exitTo(stay *Lane) {
	if l == stay {
		l.widen(-1)
		l.exit()
		l.crew.freed(l)
		return
	}
	l.crew.inline--
	stay.hosts--
	l.guests--
	l.exit()
	l.left(stay)
}

// runInline accepts task it, and runs it on the calling goroutine or, if detached, on one of its
// own, where Nesting is depth; 0: that is not known. The caller holds the lock, which is released.
func (l *Lane) runInline(it queue.Item, detached bool, depth int) error {
	it, own := l.join(it)
	if !own {
		l.crew.leave()
		return nil
	}
	place := 0
	if r := recordOf(it); r != nil {
		r.state.Store(begun) // before others see it
		place = l.crew.calls.add(r)
	}
	l.extra++
	l.enterFrom(l)
	if !detached {
		l.crew.leave()
		sy.Reach("run here")
		l.runHere(it, place, l, depth)
		return nil
	}
	l.spawned++
	l.crew.leave()
	sy.Reach("spawn")
	l.Go(func() { // l does not end before that, since the caller is busy in it
		pprof.SetGoroutineLabels(l.crew.Labels)
		l.runHere(it, place, l, 0)
	})
	return nil
}

// RunInline is SubmitSlow for a task that the caller runs itself, where Nesting is depth; 0: that is not known.
func (l *Lane) RunInline(it queue.Item, depth int) error {
	if !l.enterOpen() {
		return ErrClosed
	}
	return l.runInline(it, false, depth)
}

// runHere runs task it, as a worker would, on a goroutine that is counted as busy in l: inline, or,
// if stay is another lane, in place of a worker. place is that of the task's record, if it has one, in calls.
func (l *Lane) runHere(it queue.Item, place int, stay *Lane, depth int) {
	r := recordOf(it)
	if r != nil {
		r.Keep = nil
		if l.crew.Keeps.Load() {
			r.Keep = &Keep{ID: -1}
		}
	}
	canceled, err := false, ErrGoexit // unless it returns
	defer func() {
		defer func() { l.endHere(r, place, canceled, err, stay) }() // also if closeAll ends the goroutine
		if r != nil && r.Keep != nil {
			defer r.Keep.closeAll()
		}
		if l.crew.Crash {
			return
		}
		if v := recover(); v != nil {
			err = l.owner.Panicked(v, r, func(err error) { l.endHere(r, place, false, err, stay) })
		}
	}()
	l.callAt(depth, func() { canceled, err = l.attempt(it, nil) })
}

// endHere ends the task that runHere has run.
func (l *Lane) endHere(r *Record, place int, canceled bool, err error, stay *Lane) {
	r.end(err, func() {
		l.crew.enter()
		l.ends(canceled, err)
		if r != nil {
			l.crew.calls.remove(place)
		}
		l.exitTo(stay)
		l.crew.leave()
	})
}
