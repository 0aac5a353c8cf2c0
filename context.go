package shoal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// A call is what the queue holds of a task that is more than a func(): one that
// has a context, or somebody who waits for it. It is the first part of the
// types that are its body.
type call = kernel.Record

// A lazyContext ends with its parent, or when it is told to. What a context
// needs for that is made when somebody asks for Done.
type lazyContext struct {
	parent context.Context
	ended  sy.Bool // cause is set

	mu     sy.Mutex // guards what follows
	inner  context.Context
	cancel context.CancelCauseFunc
	cause  error // why it ended by itself; nil while it has not
	last   error // what Err says from then on, where there is no inner
}

// Deadline, Done and Err are as in [context.Context].
func (l *lazyContext) Deadline() (time.Time, bool) { return l.parent.Deadline() }

func (l *lazyContext) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.makeInnerLocked()
	return l.inner.Done()
}

func (l *lazyContext) Err() error {
	if !l.ended.Load() {
		return l.parent.Err() // an inner context ends after that, and must not be alive again
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last // whatever has become of the parent since
}

// String lets who prints the context not look into it, which others may be changing.
func (l *lazyContext) String() string {
	if s, ok := l.parent.(fmt.Stringer); ok {
		return s.String() + ".WithTask"
	}
	return fmt.Sprintf("%T.WithTask", l.parent)
}

// Value is the parent's, or where there is one the inner context's, by which
// the contexts that are derived from this one find it.
func (l *lazyContext) Value(key any) any {
	l.mu.Lock()
	inner := l.inner
	l.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return l.parent.Value(key)
}

func (l *lazyContext) makeInnerLocked() {
	if l.inner != nil {
		return
	}
	l.inner, l.cancel = sy.WithCancelCause(l.parent)
	if l.cause != nil {
		l.cancel(l.cause)
	}
}

// end ends the context because of cause. A cause of [context.Canceled] is no
// news: it makes nothing that is not there.
func (l *lazyContext) end(cause error) {
	l.mu.Lock()
	if l.cause == nil {
		if l.last = l.parent.Err(); l.last == nil {
			l.last = context.Canceled
		}
	}
	if l.cause != context.Canceled {
		l.cause = cause
	}
	l.ended.Store(true)
	if cause != context.Canceled {
		l.makeInnerLocked() // so that context.Cause can tell
	}
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(cause) // it may run functions of the user: not under mu
	}
}

// A contextCall is a call with a context of its own. It is that context too,
// so that a task with a context costs one allocation beside its closure.
type contextCall struct {
	call
	lazyContext
}

func (c *contextCall) bind(b kernel.Body, ctx context.Context, p *Pool) {
	c.Init(b, &p.lane)
	c.parent = ctx
}

// The methods of kernel.Body, but for Run.

func (c *contextCall) Refused() error {
	if c.Kept && !c.Take() {
		return errWithdrawn
	}
	return c.parent.Err()
}

func (c *contextCall) Over(err error) {
	if c.Kept && err == errWithdrawn {
		return
	}
	c.SetOver()
	c.end(context.Canceled)
}

func (c *contextCall) Cut(cause error)    { c.end(cause) }
func (c *contextCall) Returns(error) bool { return false }
func (c *contextCall) Resolve(error)      {}

// errWithdrawn is why a task of a key whose turn comes must not run if it was withdrawn.
// Whoever has withdrawn it tells its end and its result.
var errWithdrawn = errors.New("shoal: withdrawn")

func (c *contextCall) Outer() context.Context { return c.parent }

// Value tells the pool that the context belongs to one of its tasks.
func (c *contextCall) Value(key any) any {
	if v, ok := c.call.Value(key); ok {
		return v
	}
	return c.lazyContext.Value(key)
}

// A contextTask is a task of SubmitContext.
type contextTask struct {
	contextCall
	f func(context.Context)
}

func (c *contextTask) Run() error {
	f := c.f
	c.f = nil // what it captured is not needed for as long as the context
	f(given(&c.call, &c.contextCall))
	return nil
}

// A waitedCall is a call that somebody may wait for.
type waitedCall struct {
	contextCall
	err      error    // the result; written before resolved
	resolved bool     // guarded by lazyContext.mu, as is done
	done     sy.Latch // made by the first who asks for it
	wake     sy.Latch // made by the first who waits
}

func (c *waitedCall) Returns(error) bool { return true }

func (c *waitedCall) Resolve(err error) {
	c.mu.Lock()
	c.err = err
	c.resolved = true
	done, wake := c.done, c.wake
	c.mu.Unlock()
	open(done)
	open(wake)
}

// open opens l, if somebody has made it.
func open(l sy.Latch) {
	if !l.IsZero() {
		l.Open()
	}
}

// latch is opened when c is resolved.
func (c *waitedCall) latch() sy.Latch { return c.made(&c.done) }

// waker is opened when c is resolved, or nudged.
func (c *waitedCall) waker() sy.Latch { return c.made(&c.wake) }

// made is l, one of c's two latches.
func (c *waitedCall) made(l *sy.Latch) sy.Latch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.IsZero() {
		*l = sy.MakeLatch()
		if c.resolved {
			l.Open()
		}
	}
	return *l
}

// isResolved reports whether there is a result.
func (c *waitedCall) isResolved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resolved
}

// await parks until c is resolved or ctx ends; that is the error then. Where
// ctx, or the stack, tells that it is called by a task of c's pool, it runs c,
// if that has not started.
func (c *waitedCall) await(ctx context.Context) error {
	var n kernel.Nudger // told when there is a place to run c
	for !c.isResolved() {
		if err := ctx.Err(); err != nil && !c.isResolved() {
			return err // and does not help
		}
		if c.Lane == nil {
			return waitFor(c.waker(), ctx)
		}
		wake := sy.Latch{}
		if n != nil {
			wake = c.waker() // before it may be told
		}
		switch got, err := helpWith(&c.call, ctx, n); {
		case err != nil:
			return err
		case got == kernel.NoPlace && n == nil:
			n = &waiting{c}
			defer c.Lane.Unstrand(n)
			continue
		case got == kernel.Ran:
			continue
		}
		if wake.IsZero() {
			wake = c.waker()
		}
		if err := waitFor(wake, ctx); err != nil && !c.isResolved() {
			return err
		}
	}
	return nil
}

func waitFor(l sy.Latch, ctx context.Context) error {
	if l.WaitOr(ctx.Done()) {
		return nil
	}
	return ctx.Err()
}

// Nudge has those who wait look again whether to help.
func (c *waitedCall) Nudge() {
	c.mu.Lock()
	wake := c.wake
	if c.resolved {
		wake = sy.Latch{} // it is open, or will be
	} else {
		c.wake = sy.Latch{}
	}
	c.mu.Unlock()
	open(wake)
}

// A resultTask is a task of SubmitWait.
type resultTask struct {
	waitedCall
	f func(context.Context) error
}

func (c *resultTask) Run() error {
	f := c.f
	c.f = nil // as there
	return f(given(&c.call, &c.contextCall))
}

// This is how a task waits for other tasks of its family without keeping them
// from being run: it runs what it waits for itself, if that has not started. See
// [kernel.Record].

// waiting is a Nudger for one of those who wait for the same thing, each of whom is to be
// told.
type waiting struct{ kernel.Nudger }

// A helper is a task that waits for others.
type helper struct {
	c   *call        // nil: the context does not tell
	own *kernel.Lane // the pool that it has a worker of, as the stack tells; it goes before c
}

// any reports whether there is one.
func (h helper) any() bool { return h.c != nil || h.own != nil }

// helperOf tells who helps with tasks of l, if ctx is that of a task of the family. It tells
// both what ctx does and, where the stack knows better, that.
func helperOf(l *kernel.Lane, ctx context.Context) helper {
	h := helper{c: l.Task(ctx)}
	if h.c != nil && l.Up() != nil && !h.in(l) && l.AllBusy() {
		h.own = calledBelow(l, h) // asked only where there would be no place for h
	}
	return h
}

// outerOf tells who is calling: ctx does, or else the stack. Unlike helperOf it is asked
// before it is known whether that will matter. Workers that are free now may wait for the
// caller later, in tasks that began meanwhile.
func outerOf(l *kernel.Lane, ctx context.Context) helper {
	h := helper{c: l.Task(ctx)}
	switch {
	case h.c == nil && l.MayBeInTask():
		h.own = calledFrom(l)
	case h.c != nil:
		h.own = calledBelow(l, h)
	}
	return h
}

// calledFrom is the lane that the calling goroutine runs a task of: l, or the first one above
// it, as the stack tells. nil: it is in none of them.
func calledFrom(l *kernel.Lane) *kernel.Lane {
	for l != nil && l.Depth() == 0 {
		l = l.Up()
	}
	return l
}

// calledBelow is calledFrom, for h, whose context tells of a task. It is nil unless the stack
// tells of a lane nearer to l: one of the task around that task.
func calledBelow(l *kernel.Lane, h helper) *kernel.Lane {
	for !h.in(l) {
		if l.Depth() > 0 {
			return l
		}
		l = l.Up()
	}
	return nil
}

// in reports whether the task, or one that it runs inside of, has a worker of l. One that has
// ended, and whose context somebody has kept, has none.
func (h helper) in(l *kernel.Lane) bool {
	if h.own != nil {
		return h.own.IsBelow(l)
	}
	for c := h.c; c != nil; c = c.Outer() {
		if c.Lane.IsBelow(l) && !c.IsOver() {
			return true
		}
	}
	return l.Up() == nil
}

// laneOn is the first lane that h is in, from l on upwards.
func (h helper) laneOn(l *kernel.Lane) *kernel.Lane {
	for !h.in(l) {
		l = l.Up()
	}
	return l
}

// helpWith has c run by a waiter that has ctx. The error is [ErrWouldDeadlock] if it is called
// by c itself, or by a task that cannot run c.
func helpWith(c *call, ctx context.Context, n kernel.Nudger) (kernel.Outcome, error) {
	l := c.Lane
	h := helperOf(l, ctx)
	if h.c == nil && (c.Kept || c.Waits()) && l.AllBusy() {
		// ctx does not tell, the stack does. Finding out takes long, so it is
		// asked only where it matters.
		h.own = calledFrom(l)
	}
	switch {
	case !h.any():
		return kernel.NotClaimed, nil
	case c.Kept: // others of its key come first
		return kernel.NotClaimed, ErrWouldDeadlock
	}
	for o := h.c; o != nil; o = o.Outer() {
		if o == c {
			return kernel.NotClaimed, ErrWouldDeadlock
		}
	}
	return c.Claim(h.laneOn(l), n), nil
}
