package shoal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// Errors that the methods of a [Pool] return. A context's own error is
// returned as it is.
var (
	// ErrConfig is matched by every error about an invalid value: an option of
	// [New], an argument of [Pool.Resize] or of another call, a nil context.
	ErrConfig = errors.New("shoal: invalid configuration")
	// ErrNilTask means that the task was nil, or the function of a loop or of a [Local].
	ErrNilTask = errors.New("shoal: nil task")
	// ErrQueueFull means that there was no free capacity, and that the call does
	// not wait.
	ErrQueueFull = kernel.ErrQueueFull
	// ErrClosed means that the pool accepts no more tasks.
	ErrClosed = kernel.ErrClosed
	// ErrDropped is the result of an accepted task that was discarded before
	// it started: by [Pool.Close], [WithContext], or a [Pool.Shutdown] whose
	// context ended, of its pool or of one above it, or by the policy [DropOldest].
	ErrDropped = kernel.ErrDropped
	// ErrGoexit is the result of a task that ended its goroutine with
	// [runtime.Goexit], as t.FailNow does.
	ErrGoexit = kernel.ErrGoexit
	// ErrWouldDeadlock means that a task asked its own pool, or another pool of
	// its family, for something that might never happen while the task runs. A
	// function that the pool calls, such as a hook, a handler or a method of a
	// [Tracer], counts as a task here, and when it submits to a full queue.
	ErrWouldDeadlock = errors.New("shoal: called from a task of the same pool, could wait for ever")
)

// A PanicError is a panic that the pool has recovered, of a task or of a
// function that the pool was given.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // the stack of the goroutine when it panicked, from the function that did
	Pool  string // the pool's name
}

// Error describes the panic, without the stack.
func (e *PanicError) Error() string {
	if e.Pool == "" {
		return fmt.Sprintf("shoal: task panicked: %v", e.Value) // also if a method of Value's panics
	}
	return fmt.Sprintf("shoal: task of pool %q panicked: %v", e.Pool, e.Value)
}

// Unwrap returns Value if that is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A ShutdownError is what [Pool.Shutdown] returns if its context ended before
// every accepted task had run to its end, or if [Pool.Close] dropped tasks. If
// both counts are 0, every task had ended, and only callbacks may have been
// running: hooks, handlers, a Sizer, a Tracer, functions of a Local or a Reservation.
type ShutdownError struct {
	Dropped int   // queued tasks, of sub-pools too, that were discarded before they started; no delayed ones
	Running int   // tasks that were still running when the pool stopped waiting
	Cause   error // why the pool stopped waiting: the context's error, or ErrClosed after Close
}

// Error says how many tasks were left, and why.
func (e *ShutdownError) Error() string {
	return fmt.Sprintf("shoal: shutdown incomplete: %d dropped, %d running: %v", e.Dropped, e.Running, e.Cause)
}

// Unwrap returns Cause.
func (e *ShutdownError) Unwrap() error { return e.Cause }

// The rest of this file is what a pool does with panics, and with functions of the user that are not
// tasks.

// An owner is a Pool as the kernel sees it; see [kernel.Owner].
type owner Pool

func (o *owner) Panicked(v any, r *call, uncounted func(error)) error {
	p := (*Pool)(o)
	e := p.panicked(v)
	p.panics.Add(1)
	p.report(e, r != nil && r.Body.Returns(e), func() { uncounted(e) })
	return e
}

func (o *owner) Guard(f func()) { (*Pool)(o).guard(f) }

func (o *owner) HookBroken() {
	(*Pool)(o).logs(func(l *slog.Logger) {
		l.Error("shoal: worker hook called runtime.Goexit; later workers run without it", "pool", o.name, "hook", "start")
	})
}

func (o *owner) Timed(waited, ran int64) {
	t := made(&o.times)
	t.wait.record(waited)
	t.run.record(ran)
}

// panicked is the error of a panic of value r. The deferred function that has recovered r
// calls it.
func (p *Pool) panicked(r any) *PanicError {
	return &PanicError{Value: r, Stack: userStack(), Pool: p.name}
}

// userStack is the calling goroutine's stack, without what the runtime and the pool have
// put on it since a function of the user panicked or called runtime.Goexit. Deferred
// functions call it.
func userStack() []byte {
	stack := debug.Stack()
	lines := strings.SplitAfter(string(stack), "\n") // the heading, then two for each frame: the call, the place
	for i := 1; i < len(lines); i += 2 {
		if begins(lines[i], "panic(", "runtime.Goexit(") {
			return []byte(lines[0] + strings.Join(lines[i+2:], ""))
		}
	}
	return stack
}

// begins reports whether line begins with one of these.
func begins(line string, with ...string) bool {
	return slices.ContainsFunc(with, func(w string) bool { return strings.HasPrefix(line, w) })
}

// report passes e to the panic handler. Without a handler it logs e, unless e is returned
// to a caller. A handler that panics or calls runtime.Goexit ends the process. Before that,
// report calls uncounted, which does what is left to do for the task.
func (p *Pool) report(e *PanicError, returned bool, uncounted func()) {
	if p.onPanic == nil {
		if !returned {
			p.logs(func(l *slog.Logger) { l.Error(e.Error(), "stack", string(e.Stack)) })
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
		if r == nil {
			die("%v; the panic handler called runtime.Goexit\n\n%s", e, stack)
		}
		die("%v; the panic handler panicked: %v\n\n%s", e, r, stack)
	}()
	p.onPanic(e)
	over = true
}

// noGoexit calls f, a function of the user with that name. If f ends its goroutine, the
// process ends. A panic of f goes on.
func (p *Pool) noGoexit(name string, f func()) {
	returned := false
	defer func() {
		if !returned && kernel.InGoexit() {
			die("shoal: %s of pool %q called runtime.Goexit\n\n%s", name, p.name, userStack())
		}
	}()
	f()
	returned = true
}

// die ends the process by a panic with a text, as of fmt.Sprintf, and does not return. The panic is
// on a goroutine of its own, since on this one a submitter or an enclosing task could recover it.
func die(format string, args ...any) {
	sy.Go(func() {
		s := "shoal: a panic handler has failed, and what it panicked with cannot be printed"
		defer func() { panic(s) }() // also if a method of one of args ends the goroutine
		s = fmt.Sprintf(format, args...)
	})
	sy.MakeLatch().Wait()
}

// same reports whether a is b. Errors of a type that cannot be compared are not the same.
func same(a, b error) (is bool) {
	defer func() { _ = recover() }()
	return a == b
}

// log is where the pool logs.
func (p *Pool) log() *slog.Logger { return cmp.Or(p.logger, slog.Default()) }

// logs calls f, which logs something.
func (p *Pool) logs(f func(*slog.Logger)) {
	defer func() { recover() }() // a panic of the log cannot be reported anywhere
	p.noGoexit("the log", func() { f(p.log()) })
}

// guard runs f, a function of the user that is not a task, and reports a panic.
func (p *Pool) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			p.report(p.panicked(r), false, func() {})
		}
	}()
	p.lane.Call(f)
}

// callback is guard for a function with that name, which must not end its goroutine.
func (p *Pool) callback(name string, f func()) { p.guard(func() { p.noGoexit(name, f) }) }

// A failures holds the errors of tasks, or of items: the first one, which ends the others, or all.
type failures struct {
	mu      sy.Mutex    // guards what follows
	collect bool        // constant
	first   error       // that ended the others
	last    error       // if errors are not collected: what is returned if there is no other one
	all     []taskError // if errors are collected
}

// A taskError is the error of a task, or an item, and its place among others.
type taskError struct {
	place int
	err   error
}

// note notes an error, and reports whether result returns it. If errors are not collected, or if
// ends is set, the error ends the others: note calls end with the first such error.
func (f *failures) note(place int, err error, ends bool, end func(error)) (kept bool) {
	f.mu.Lock()
	ends = ends || !f.collect
	first := ends && f.first == nil
	if first {
		f.first = err
	}
	if kept = first || !ends; kept && f.collect {
		f.all = append(f.all, taskError{place, err})
	}
	f.mu.Unlock()
	if first {
		end(err)
	}
	return kept
}

// noteLast notes an error that is returned only if there is no other one. It ends nothing.
func (f *failures) noteLast(err error) {
	f.mu.Lock()
	f.last = err
	f.mu.Unlock()
}

// result is the first error, or all, in the order of their places.
func (f *failures) result() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.collect {
		return cmp.Or(f.first, f.last)
	}
	slices.SortStableFunc(f.all, func(a, b taskError) int { return cmp.Compare(a.place, b.place) })
	errs := make([]error, len(f.all))
	for i, e := range f.all {
		errs[i] = e.err
	}
	return errors.Join(errs...)
}
