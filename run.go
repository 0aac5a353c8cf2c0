package shoal

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
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
	w.inTask = false
	switch {
	case w.guest != nil: // runtime.Goexit in a task of a sub-pool, which has counted it
		w.unserve()
		return false
	case r == nil:
		w.faulted(ErrGoexit, false)
		return false
	}
	e := w.p.panicked(r)
	w.p.report(e, func() bool { return w.cur.returns(e) }, func() { w.faulted(e, false) })
	w.faulted(e, true)
	return true
}

// faulted counts the task that w is in as ended because of err, and tells those who wait
// for it. again says that the worker goes on.
func (w *worker) faulted(err error, again bool) {
	p, c := w.p, w.cur
	if c != nil {
		c.over(err)
	}
	w.cur = nil
	w.call.Store(nil)
	w.endTiming()
	turns := c != nil && c.turns && again
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

// panicked is what becomes of a panic of value r. It is for the deferred function that
// has recovered it.
func (p *Pool) panicked(r any) *PanicError {
	return &PanicError{Value: r, Stack: userStack(), Pool: p.name}
}

// userStack is the calling goroutine's stack, without what the runtime and the pool have
// put on it since a function of the user panicked or called runtime.Goexit. It is for
// deferred functions.
func userStack() []byte { return fromUser(debug.Stack()) }

// fromUser is userStack for a stack as debug.Stack prints it.
func fromUser(stack []byte) []byte {
	head, frames, _ := bytes.Cut(stack, []byte("\n"))
	lines := bytes.SplitAfter(frames, []byte("\n")) // two for each frame: the call, the place
	frame := func(i int, prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(s string) bool { return bytes.HasPrefix(lines[i], []byte(s)) })
	}
	for i := 0; i+1 < len(lines); i += 2 {
		if !frame(i, "panic(", "runtime.Goexit(") {
			continue
		}
		for i += 2; i+1 < len(lines) && frame(i, "runtime.", "internal/runtime/"); {
			i += 2 // where the runtime itself panics, as for an index out of range
		}
		return bytes.Join([][]byte{head, bytes.Join(lines[i:], nil)}, []byte("\n"))
	}
	return stack
}

// report gives e to the panic handler. Without one it goes into the log, unless returned
// says that somebody gets it. A handler that panics or calls runtime.Goexit ends the
// process, after uncounted, which does what is left to do for the task.
func (p *Pool) report(e *PanicError, returned func() bool, uncounted func()) {
	if p.onPanic == nil {
		if !returned() {
			p.logPanic(e)
		}
		return
	}
	over := false
	defer func() {
		if over {
			return
		}
		r, stack := recover(), userStack()
		uncounted()
		die(func() string {
			if r == nil {
				return fmt.Sprintf("%v; the panic handler called runtime.Goexit\n\n%s", e, stack)
			}
			return fmt.Sprintf("%v; the panic handler panicked: %v\n\n%s", e, r, stack)
		})
	}()
	p.onPanic(e)
	over = true
}

// nobody is for report: the panic is returned to nobody.
func nobody() bool { return false }

// noGoexit calls f, a function of the user, of that name, that must not end its goroutine:
// if it does, the process ends. A panic of f goes on.
func (p *Pool) noGoexit(name string, f func()) {
	returned := false
	defer func() {
		if !returned && inGoexit() {
			stack := userStack()
			die(func() string {
				return fmt.Sprintf("shoal: %s of pool %q called runtime.Goexit\n\n%s", name, p.name, stack)
			})
		}
	}()
	f()
	returned = true
}

// die ends the process by a panic with that text, and does not return. The panic is on a
// goroutine of its own: on this one a submitter, or a task around, could recover it.
func die(text func() string) {
	sy.Go(func() {
		s := "shoal: a panic handler has failed, and what it panicked with cannot be printed"
		defer func() { panic(s) }() // also if a method of the user's, in text, ends the goroutine
		s = text()
	})
	sy.MakeLatch().Wait()
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
	p.noGoexit("the log", func() { p.log().Error(e.Error(), "stack", string(e.Stack)) })
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
			p.report(p.panicked(r), nobody, func() {})
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
		if c = queue.As[call](it); c.turns {
			if !p.takeTurnOutside(c) {
				return false
			}
			if p.canceling.Load() { // whoever ends the contexts may have come before
				c.body.end(ErrClosed)
			}
		}
	}
	var temporary *worker
	if c != nil && c.w == nil && p.root().kept.Load() {
		temporary = &worker{p: p, id: -1} // only a place for what Locals open
		c.w = temporary
	}
	defer func() {
		defer func() { p.outsideDone(c, err, canceled) }() // also if the end of a Local ends the goroutine
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
			e := p.panicked(r)
			failed, err = true, e
			p.report(e, func() bool { return c.returns(e) }, func() { p.outsideDone(c, e, false) })
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
	if c != nil {
		c.over(err)
	}
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
