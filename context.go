package shoal

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// A call is what the queue holds for a task that is more than a func(): one that
// has a context or a waiter. It is the first part of the types that are its
// body.
type call = kernel.Record

// A lazyContext ends with its parent, or by a call of end. The inner context that
// this takes is made at the first call of Done, or by end for a cause.
type lazyContext struct {
	parent context.Context
	ended  sy.Bool // err is set

	innerMu sy.Mutex // guards what follows
	inner   context.Context
	cancel  context.CancelCauseFunc
	err     error // what Err says once it has ended by itself
}

// Deadline, Done and Err are as in [context.Context].
func (l *lazyContext) Deadline() (time.Time, bool) { return l.parent.Deadline() }

func (l *lazyContext) Done() <-chan struct{} {
	l.innerMu.Lock()
	defer l.innerMu.Unlock()
	l.makeInnerLocked()
	return l.inner.Done()
}

func (l *lazyContext) Err() error {
	if !l.ended.Load() {
		return l.parent.Err() // an inner context ends after that, and must not be alive again
	}
	l.innerMu.Lock()
	defer l.innerMu.Unlock()
	return l.err // even if the parent has ended since
}

// String keeps fmt from reading the fields of the context, which other goroutines may be changing.
func (l *lazyContext) String() string {
	if s, ok := l.parent.(fmt.Stringer); ok {
		return s.String() + ".WithTask"
	}
	return fmt.Sprintf("%T.WithTask", l.parent)
}

// Value asks the inner context if there is one, and else the parent. This is how
// contexts that are derived from this one find the inner context.
func (l *lazyContext) Value(key any) any {
	l.innerMu.Lock()
	ctx := cmp.Or(l.inner, l.parent)
	l.innerMu.Unlock()
	return ctx.Value(key)
}

func (l *lazyContext) makeInnerLocked() {
	if l.inner != nil {
		return
	}
	l.inner, l.cancel = sy.WithCancelCause(l.parent)
	if l.err != nil {
		l.cancel(nil)
	}
}

// tryInnerLocked is makeInnerLocked, but makes no inner context if a method of the parent panics.
func (l *lazyContext) tryInnerLocked() {
	defer func() { _ = recover() }()
	l.makeInnerLocked()
}

// end ends the context because of cause. If cause is [context.Canceled], end
// makes no inner context for it.
func (l *lazyContext) end(cause error) {
	l.innerMu.Lock()
	if cause != context.Canceled {
		l.tryInnerLocked() // so that context.Cause returns cause
	}
	if l.err == nil {
		l.err = cmp.Or(l.parent.Err(), context.Canceled)
		l.ended.Store(true)
	}
	cancel := l.cancel
	l.innerMu.Unlock()
	if cancel != nil {
		cancel(cause) // it may run functions of the user: not under the lock
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

// submit makes c, whose body is b, a task of p, and submits it by put, which gets the context
// that bounds the wait for free capacity. task says whether the user gave a task. kind is for a
// Tracer.
func (c *contextCall) submit(b kernel.Body, ctx context.Context, p *Pool, task bool, kind string, put putFunc) error {
	if err := checkArgs(ctx, p, task); err != nil {
		return err
	}
	c.bind(b, ctx, p)
	return p.submitBy(put, &c.call, c, &c.parent, kind)
}

// The methods of kernel.Body, but for Run.

func (c *contextCall) Refused() error         { return c.parent.Err() }
func (c *contextCall) Over(error)             { c.SetOver(); c.end(context.Canceled) }
func (c *contextCall) Cut(cause error)        { c.end(cause) }
func (c *contextCall) Returns(error) bool     { return false }
func (c *contextCall) Resolve(error)          {}
func (c *contextCall) Outer() context.Context { return c.parent }

// Value shows the pool that the context belongs to one of its tasks.
func (c *contextCall) Value(key any) any { return c.call.Value(key, &c.lazyContext) }

// given is the context that the task is given.
func (c *contextCall) given() context.Context { return given(&c.call, c) }

// A contextTask is a task of SubmitContext.
type contextTask struct {
	contextCall
	f func(context.Context)
}

func (c *contextTask) Run() error {
	take(&c.f)(c.given())
	return nil
}

// A resultTask is a task of SubmitWait.
type resultTask struct {
	waitedCall
	f func(context.Context) error
}

func (c *resultTask) Run() error {
	return take(&c.f)(c.given())
}

// take returns the value at p and clears p. So what a task has captured does not stay in memory as
// long as the task's context, or its result.
func take[T any](p *T) T {
	v := *p
	*p = *new(T)
	return v
}

// checkArgs returns an error if the task, the pool that is to run it, or its context is missing.
func checkArgs(ctx context.Context, p *Pool, task bool) error {
	switch {
	case !task:
		return ErrNilTask
	case p == nil:
		return ErrClosed
	case ctx == nil:
		return errNilContext
	}
	return nil
}
