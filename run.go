package shoal

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is what happens around a task: panics, runtime.Goexit, and tasks
// that run on goroutines that are no workers.

// fault is called, deferred, when a task did not return: because of a panic of
// value r, or of runtime.Goexit, where r is nil. It counts the task and, for a
// panic, reports whether the worker goes on. After Goexit the goroutine ends
// whatever is returned; leave sees to the rest.
func (w *worker) fault(r any) (again bool) {
	p := w.p
	w.inTask = false
	if w.guest != nil { // runtime.Goexit in a task of a sub-pool, which has counted it
		w.unserve()
		return false
	}
	c := w.cur
	var err error = ErrGoexit
	defer func() { // also if the panic handler ends the goroutine
		w.cur = nil
		w.call.Store(nil)
		defer w.faulted(c, r == nil, &err)
		if c != nil {
			c.over(err)
		}
	}()
	if r == nil {
		return false
	}
	err = p.report(r)
	return true
}

// faulted is the end of fault, also if a Tracer ends the goroutine.
func (w *worker) faulted(c *call, exits bool, why *error) {
	p, err := w.p, *why
	w.endTiming()
	turns := c != nil && c.turns && !exits
	w.finish(func() {
		p.failed++
		w.faults++
		if turns {
			p.turning++
		}
	})
	w.left--
	w.watched.Store(false)
	if c != nil {
		c.body.resolve(err)
		switch {
		case turns:
			p.runTurnsOn(w, c)
		case c.turns:
			p.runTurns(c, nil)
		}
	}
	pprof.SetGoroutineLabels(p.labels)
}

// report tells the panic handler, or the log, about the panic of value r.
func (p *Pool) report(r any) (e *PanicError) {
	e = &PanicError{Value: r, Stack: debug.Stack(), Pool: p.name}
	if p.onPanic == nil {
		p.logPanic(e)
		return e
	}
	defer func() {
		if r := recover(); r != nil {
			p.logPanic(&PanicError{Value: r, Stack: debug.Stack(), Pool: p.name})
		}
	}()
	p.onPanic(e)
	return e
}

// log is where the pool logs.
func (p *Pool) log() *slog.Logger {
	if p.logger != nil {
		return p.logger
	}
	return slog.Default()
}

func (p *Pool) logPanic(e *PanicError) {
	defer func() { recover() }() // a log that panics: there is nobody left to tell
	p.log().Error(e.Error(), "stack", string(e.Stack))
}

func (p *Pool) logHookGoexit(hook string) {
	defer func() { recover() }() // as there
	p.log().Error("shoal: worker hook called runtime.Goexit; later workers run without it",
		"pool", p.name, "hook", hook)
}

// guard runs f, a function of the user that is no task, and reports a panic.
func (p *Pool) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			p.report(r)
		}
	}()
	p.asTask(f)
}

// startHook calls the start hook, unless that has ended a worker before.
func (w *worker) startHook() {
	p := w.p
	p.mu.Lock()
	broken := p.hookBroken
	p.mu.Unlock()
	if broken {
		return
	}
	if p.onStart != nil {
		w.inHook = true
		w.apart(&p.starting, func() { p.onStart(w.id) })
		w.inHook = false
	}
	w.hooked = true
}

// apart runs f, a function of the user, on a new worker. It takes as long as
// it likes, so the worker is not on standby meanwhile (W6) but counted in n.
func (w *worker) apart(n *int, f func()) {
	p := w.p
	p.mu.Lock()
	*n++
	w.apartIn = n
	p.setAvailLocked(-w.dropStandby())
	p.mu.Unlock()
	p.rearm()
	p.guard(f)
	p.mu.Lock()
	*n--
	w.apartIn = nil
	w.standby = true
	p.setAvailLocked(+1)
	p.mu.Unlock()
}

// inGoexit tells, in a deferred function, runtime.Goexit from a panic without
// recovering it.
func inGoexit() bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.Goexit":
			return true
		case strings.HasPrefix(f.Function, "runtime.gopanic"):
			return false
		case !more:
			return false
		}
	}
}

// runHere runs it on the calling goroutine, as an accepted task of the pool,
// unless the pool takes no more. A task that has to wait for its key is queued.
func (p *Pool) runHere(it queue.Item) error {
	p.mu.Lock()
	if p.phase != phaseOpen {
		p.mu.Unlock()
		return ErrClosed
	}
	if it.IsRecord() {
		if c := queue.As[call](it); c.turns && !c.body.(turnTaker).takeFirst() {
			// Others come before it, and could wait for the caller.
			p.forceLocked(it)
			p.mu.Unlock()
			p.published()
			return nil
		}
	}
	p.outsideLocked(it)
	p.mu.Unlock()
	sy.Reach("run here")
	p.runOutside(it)
	return nil
}

// runSpawned runs it on a goroutine of its own. outsideLocked was called, and
// helpers counts the goroutine.
func (p *Pool) runSpawned(it queue.Item) {
	sy.Reach("spawn")
	sy.Go(func() {
		defer p.helperDone()
		pprof.SetGoroutineLabels(p.labels)
		p.runOutside(it)
	})
}

// outsideLocked accepts it as a task that runs on a goroutine that is no
// worker.
func (p *Pool) outsideLocked(it queue.Item) {
	p.outside++
	p.outTotal++
	if it.IsRecord() {
		c := queue.As[call](it)
		c.state.Store(callTaken) // before others know of it
		c.accepted()
		p.outCalls.add(c)
	}
}

// leaveOutsideLocked counts n tasks out of outside, after they took tickets for what
// they have left to others: see quiet.
func (p *Pool) leaveOutsideLocked(n int) {
	p.outside -= n
	p.outLeft.Add(1)
}

// asTask calls f in the name of p, and of the pools whose workers p's tasks run
// on, as it is if a worker calls it.
func (p *Pool) asTask(f func()) {
	if p.up == nil {
		p.id.Call(f)
		return
	}
	p.up.asTask(func() { p.id.Call(f) })
}

func (p *Pool) invoke(c *call) (err error) {
	p.asTask(func() { err = c.runBody() })
	return err
}

// runOutside runs it, as a worker would, and reports whether it failed.
func (p *Pool) runOutside(it queue.Item) (failed bool) {
	var c *call
	var err error
	returned, canceled := false, false
	if it.IsRecord() {
		if c = queue.As[call](it); c.turns && !p.takeTurnOutside(c) {
			return false
		}
	}
	var temporary *worker
	if c != nil && c.w == nil && p.root().kept.Load() {
		temporary = &worker{p: p, id: -1} // only a place for what Locals open
		c.w = temporary
	}
	defer func() {
		defer func() { p.outsideDone(c, err, canceled) }() // also if the handler ends the goroutine
		if temporary != nil {
			defer temporary.kept.closeAll(p)
		}
		if returned {
			return
		}
		err = ErrGoexit
		if p.crash {
			return
		}
		if r := recover(); r != nil {
			failed = true
			err = p.report(r)
		}
	}()
	if c != nil {
		if err = c.body.refused(); err != nil {
			canceled = true
		} else {
			err = p.invoke(c)
		}
	} else {
		p.asTask(p.inRegion(it.Func()))
	}
	returned = true
	return err != nil && !canceled
}

func (p *Pool) outsideDone(c *call, err error, canceled bool) {
	defer p.outsideEnded(c, err, canceled) // also if a Tracer ends the goroutine
	if c != nil {
		c.over(err)
	}
}

func (p *Pool) outsideEnded(c *call, err error, canceled bool) {
	p.mu.Lock()
	p.leaveOutsideLocked(1)
	if p.watch != nil {
		p.watch.outAt = p.now()
	}
	switch {
	case canceled:
		p.canceled++
		p.outCanceled++
	case err != nil:
		p.failed++
		fallthrough
	default:
		p.outDone++
	}
	p.outCalls.remove(c)
	p.notifyLocked()
	last := p.endLocked()
	p.mu.Unlock()
	if c != nil {
		c.body.resolve(err)
		if c.turns {
			p.runTurns(c, nil) // also in a panic, which the submitter may recover from
		}
	}
	if last {
		p.finish()
	}
}
