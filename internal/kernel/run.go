package kernel

import (
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is what happens around a task: its context, panics, runtime.Goexit, and tasks that
// run on goroutines that do not take tickets: inline, in a goroutine that waits or submits, or
// detached, in one of their own.
//
// The order at the end of a task is always the same: its context ends, then it is counted, then
// those who wait get its result. So counters are right for whoever has seen a result. What is
// counted is written under the lock of the family; the fields of a Worker are its own.

// An Owner is what a lane's pool does around tasks.
type Owner interface {
	// Panicked says what becomes of a panic of value v in a task, or of r, if that is not nil.
	// It is called in the deferred function that has recovered it. If it is about to end the
	// process it calls uncounted first, with what it would have returned.
	Panicked(v any, r *Record, uncounted func(err error)) error
	// Guard calls f, a function of the user that is no task, and reports a panic.
	Guard(f func())
	// Region is f as a region of runtime/trace.
	Region(f func()) func()
	// Traced runs the task of r, as a region of runtime/trace.
	Traced(r *Record) error
	// Timed is told how long a task waited and ran, in nanoseconds.
	Timed(waited, ran int64)
	// Leaves is called when w ends, on its goroutine, and for tasks that run inline when they end.
	Leaves(w *Worker)
	// HookBroken is told that the start hook has ended its goroutine.
	HookBroken()
}

// runSlow runs a task that is a record, or is timed or traced.
func (w *Worker) runSlow(it queue.Item) {
	if it.IsRecord() {
		w.runRecord(queue.As[Record](it))
	} else {
		f := it.Func()
		if trace.IsEnabled() {
			f = w.at.owner.Region(f)
		}
		w.inTask = true
		f()
		w.inTask = false
		w.ran()
	}
	w.endTiming()
}

// runRecord runs r, passes its tombstone, or cancels it.
func (w *Worker) runRecord(r *Record) {
	l := w.at
	if !r.take() {
		sy.Reach("tombstone")
		w.timed = -1
		w.finishWith(func() { l.tombs-- })
		return
	}
	if err := r.body.Refused(); err != nil {
		r.End(err)
		w.timed = -1
		res := r.passed()
		w.finishWith(func() { l.canceled++ })
		res.Resolve(err)
		return
	}
	r.worker = w
	w.cur = r
	w.call.Store(r)
	if l.stops.Load() {
		r.body.Cut(ErrClosed)
	}
	w.inTask = true
	err := r.run()
	r.End(err)
	w.inTask = false
	w.cur = nil
	w.call.Store(nil)
	w.ran()
	if err != nil {
		w.endTiming()
		res := r.passed()
		w.finishWith(func() { l.failed++; w.failed++ })
		res.Resolve(err)
		return
	}
	w.ended = r
}

// run runs the task of r.
func (r *Record) run() error {
	if trace.IsEnabled() {
		return r.lane.owner.Traced(r)
	}
	return r.body.Run()
}

// settle gives those who wait for the last task, which is counted now, the result.
func (w *Worker) settle() {
	res := w.pending
	w.pending = nil
	res.Resolve(nil)
}

// pass has the strand of the last task, if it was of one, go on elsewhere, before w ceases to be
// busy.
func (w *Worker) pass() {
	r := w.ended
	w.ended, w.turns = nil, 0
	w.pending = r.passed()
}

// mostTurns is how many tasks of a strand a worker runs one after the other. Then the tasks of
// others that are queued by now have their turn.
const mostTurns = 32 >> (4 * sy.Shorter / 3)

// carryOn goes on with the strand of the last task, unless something else is asked of w. The
// permit of the next task comes back: w is busy already.
func (w *Worker) carryOn() (it queue.Item, ok bool) {
	r, l, c := w.ended, w.at, w.crew
	s, strand := r.body.(Strand)
	if !strand || w.turns >= mostTurns || l.head.Load()&flag != 0 || c.solo.Load() != l || !s.More() {
		return it, false
	}
	c.enter()
	if ok = l.phase != stopping && !l.slow && c.said.only == l; ok { // look once more: Pause may have returned
		l.giveBack(1)
		c.touch(l)
	}
	c.leave()
	if !ok {
		return it, false
	}
	sy.Reach("carry on")
	w.ended = nil
	w.turns++
	first, _ := s.Next()
	r.Again()
	first.Resolve(nil)
	return queue.Record(r), true
}

// finishWith counts the task that w has done with, together with what count changes, so that a
// snapshot sees both or neither.
func (w *Worker) finishWith(count func()) {
	c := w.crew
	c.enter()
	count()
	w.stopLocked()
	c.leave()
}

// fault is called, deferred, if a task did not return: because of a panic of value v, or of
// runtime.Goexit. It reports whether the worker goes on. After Goexit the goroutine ends whatever
// is returned.
func (w *Worker) fault(v any, goexit bool) (again bool) {
	w.inTask = false
	if goexit {
		w.faulted(ErrGoexit)
		return false
	}
	err := w.at.owner.Panicked(v, w.cur, w.faulted)
	w.faulted(err)
	return true
}

// faulted counts the task that w is in as ended by err, and tells those who wait for it.
func (w *Worker) faulted(err error) {
	r, l := w.cur, w.at
	w.cur = nil
	w.call.Store(nil)
	w.ran()
	w.endTiming()
	var res Result
	if r != nil {
		r.End(err)
		res = r.passed()
	}
	w.finishWith(func() { l.failed++; w.failed++ })
	if r != nil {
		res.Resolve(err)
	}
	pprof.SetGoroutineLabels(w.crew.Labels)
}

// InGoexit tells, in a deferred function, runtime.Goexit from a panic without recovering it.
func InGoexit() bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.Goexit":
			return true
		case strings.HasPrefix(f.Function, "runtime.gopanic"), !more:
			return false
		}
	}
}

// widen changes the number of tasks that run inline. Locked, by whoever is busy. At none, those
// that ran when somebody began to wait have ended.
func (l *Lane) widen(d int) {
	if l.inline += d; l.inline == 0 {
		for _, q := range l.quieters {
			q.apart = false
		}
	}
	l.limit.Store(uint64(l.max + l.inline))
}

// beginInline accepts it as a task that runs on a goroutine that takes no ticket. It returns what
// is to be run: nothing if the task has joined a busy strand. Locked.
func (l *Lane) beginInline(it queue.Item) queue.Item {
	if it = joined(it); it.IsZero() {
		l.granted++
		return it
	}
	if it.IsRecord() {
		r := queue.As[Record](it)
		r.state.Store(taken) // before others know of it
		l.cuts(r)
	}
	l.extra++
	l.enterInline()
	return it
}

// enterInline makes a goroutine busy here that does not count against the maximum, and endInline
// ends that. Locked.
func (l *Lane) enterInline() {
	l.enterLocked(-1)
	l.widen(+1)
}

func (l *Lane) endInline() {
	l.widen(-1) // first: the limit is never above what busy may be
	l.head.Add(^uint64(0))
	l.crew.freed(l)
}

// runInline runs it on the calling goroutine, as an accepted task. The caller has the lock, which
// is left.
func (l *Lane) runInline(it queue.Item) error {
	it = l.beginInline(it)
	l.crew.leave()
	if !it.IsZero() {
		sy.Reach("run here")
		l.runHere(it, l)
	}
	return nil
}

// RunInline is SubmitSlow for a task that the caller runs itself.
func (l *Lane) RunInline(it queue.Item) error {
	if !l.enterOpen() {
		return ErrClosed
	}
	return l.runInline(it)
}

// spawn runs it on a goroutine of its own. The caller has the lock, which is left.
func (l *Lane) spawn(it queue.Item) error {
	l.spawned++
	if it = l.beginInline(it); it.IsZero() {
		l.crew.leave()
		return nil
	}
	l.retain()
	l.crew.leave()
	sy.Reach("spawn")
	sy.Go(func() {
		defer l.Release()
		pprof.SetGoroutineLabels(l.crew.Labels)
		l.runHere(it, l)
	})
	return nil
}

// runHere runs it, as a worker would, on a goroutine that is counted as busy in l: inline, or, if
// stay is another lane, in place of a worker.
func (l *Lane) runHere(it queue.Item, stay *Lane) {
	var r *Record
	var err error
	returned, canceled := false, false
	if it.IsRecord() {
		r = queue.As[Record](it)
	}
	var place *Worker
	if r != nil && l.crew.Keeps.Load() {
		place = &Worker{crew: l.crew, id: -1} // only a place for what Locals open
	}
	defer func() {
		defer func() { l.endHere(r, err, canceled, stay) }() // also if what the place kept ends the goroutine
		if place != nil {
			defer l.owner.Leaves(place)
		}
		if returned {
			return
		}
		err = ErrGoexit
		if l.crew.Crash {
			return
		}
		if v := recover(); v != nil {
			err = errPanicked
			err = l.owner.Panicked(v, r, func(e error) { l.endHere(r, e, false, stay) })
		}
	}()
	switch {
	case r == nil:
		f := it.Func()
		if trace.IsEnabled() {
			f = l.owner.Region(f)
		}
		l.Call(f)
	default:
		r.worker = place
		if err = r.body.Refused(); err != nil {
			canceled = true
			break
		}
		if l.stops.Load() { // only now a strand knows which task that is
			r.body.Cut(ErrClosed)
		}
		err = l.invoke(r)
	}
	returned = true
}

// invoke runs r in the name of l.
func (l *Lane) invoke(r *Record) (err error) {
	l.Call(func() { err = r.run() })
	return err
}

func (l *Lane) endHere(r *Record, err error, canceled bool, stay *Lane) {
	var res Result
	if r != nil {
		r.End(err)
		res = r.passed()
	}
	l.crew.enter()
	switch {
	case canceled:
		l.canceled++
	case err != nil:
		l.failed++
	}
	if r != nil {
		delete(l.calls, r)
	}
	if l == stay {
		l.endInline()
	} else {
		l.head.Add(^uint64(0))
		l.left(stay)
	}
	l.crew.leave()
	if r != nil {
		res.Resolve(err)
	}
}

// cuts has Close end the context of r, which runs inline. Locked.
func (l *Lane) cuts(r *Record) {
	if l.calls == nil {
		l.calls = map[*Record]struct{}{}
	}
	l.calls[r] = struct{}{}
}
