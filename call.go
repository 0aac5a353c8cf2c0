package shoal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A call is what the queue holds of a task that is more than a func(): one that
// has a context, or somebody who waits for it. It is the first part of the
// types that are its body.
type call struct {
	body  body
	pool  *Pool
	state sy.Uint64 // callWaiting, then callTaken or callClaimed, then callOver
	turns bool      // body is a turnTaker
	kept  bool      // it stands in the line of its key, and has no ticket of its own
	shell bool      // a guest has claimed it, and its ticket counts: see Pool.shells; guarded by Pool.mu
	at    uint64    // the ticket; written before it is put
	w     *worker   // whose goroutine it runs on, if that is a worker's; written before it starts
}

const (
	callWaiting = iota // nobody has begun with it
	callTaken          // by who took its ticket
	callClaimed        // by somebody else: what lies in the queue is a husk
	callOver           // it has returned, or will not run
)

// A body is what a call does.
type body interface {
	refused() error // why it must not start: its context has ended
	outer() context.Context
	run() error                  // the task itself
	end(cause error)             // ends its context; context.Canceled: it has returned
	returned(e *PanicError) bool // reports whether somebody gets e, which is about to be its result
	resolve(err error)           // gives who waits the result; once, as the last touch
}

// take makes the caller the one who runs c, or gives it its result.
func (c *call) take() bool { return c.state.CompareAndSwap(callWaiting, callTaken) }

// isHusk reports whether somebody else than the owner of its ticket, who asks,
// has begun with it.
func isHusk(it queue.Item) bool {
	if !it.IsRecord() {
		return false
	}
	s := queue.As[call](it).state.Load()
	return s == callClaimed || s == callOver
}

// returns reports whether somebody gets e, which is about to be the result of c. c may be nil.
func (c *call) returns(e *PanicError) bool { return c != nil && c.body.returned(e) }

// returned is that of a body whose result nobody gets.
func (c *call) returned(*PanicError) bool { return false }

// over ends the context of a call that has returned err, or because of err will not
// run.
func (c *call) over(err error) {
	if c.kept && err == errWithdrawn {
		return
	}
	if t, ok := c.body.(*traced); ok {
		t.over(err)
	}
	if c.turns {
		c.body.(turnTaker).overTurn(err)
	}
	c.state.Store(callOver)
	c.body.end(context.Canceled)
}

// discard resolves a task that will not run. The caller owns its ticket.
func discard(it queue.Item, err error) {
	if it.IsRecord() && !isHusk(it) {
		c := queue.As[call](it)
		c.over(err)
		c.body.resolve(err)
	}
}

// inTaskKey is the key under which a task's context tells its pool's tasks
// from others: the value is the *call.
type inTaskKey struct{ p *Pool }

// taskOf returns the task of p that ctx is the context of, or is derived from,
// unless that has returned.
func (p *Pool) taskOf(ctx context.Context) *call {
	if ctx == nil {
		return nil
	}
	c, ok := ctx.Value(inTaskKey{p}).(*call)
	if !ok || c.state.Load() == callOver {
		return nil
	}
	return c
}

// inTask reports whether ctx is, or is derived from, the context of a task of
// p that has not returned.
func (p *Pool) inTask(ctx context.Context) bool { return p.taskOf(ctx) != nil }

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

func (c *contextCall) bind(b body, ctx context.Context, p *Pool) {
	c.body, c.pool, c.parent = b, p, ctx
}

func (c *contextCall) refused() error {
	if c.kept && !c.take() {
		return errWithdrawn
	}
	return c.parent.Err()
}

// errWithdrawn is why a task of a key whose turn comes must not run if it was withdrawn.
// Whoever has withdrawn it tells its end and its result.
var errWithdrawn = errors.New("shoal: withdrawn")

func (c *contextCall) outer() context.Context { return c.parent }

// Value tells the pool that the context belongs to one of its tasks.
func (c *contextCall) Value(key any) any {
	if k, ok := key.(inTaskKey); ok && c.pool.isBelow(k.p) {
		return &c.call
	}
	return c.lazyContext.Value(key)
}

// A contextTask is a task of SubmitContext.
type contextTask struct {
	contextCall
	f func(context.Context)
}

func (c *contextTask) run() error {
	f := c.f
	c.f = nil // what it captured is not needed for as long as the context
	f(c.given(&c.contextCall))
	return nil
}

func (c *contextTask) resolve(error) {}

// A waitedCall is a call that somebody may wait for.
type waitedCall struct {
	contextCall
	err      error    // the result; written before resolved
	resolved bool     // guarded by lazyContext.mu, as is done
	done     sy.Latch // made by the first who asks for it
	wake     sy.Latch // made by the first who waits
}

func (c *waitedCall) returned(*PanicError) bool { return true }

func (c *waitedCall) resolve(err error) {
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
	var n nudger // told when there is a place to run c
	for !c.isResolved() {
		if err := ctx.Err(); err != nil && !c.isResolved() {
			return err // and does not help
		}
		if c.pool == nil {
			return waitFor(c.waker(), ctx)
		}
		wake := sy.Latch{}
		if n != nil {
			wake = c.waker() // before it may be told
		}
		switch got, err := c.pool.helpWith(&c.call, ctx, n); {
		case err != nil:
			return err
		case got == stranded && n == nil:
			n = &waiting{c}
			defer c.pool.unstrand(n)
			continue
		case got == ran:
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

// nudge has those who wait look again whether to help.
func (c *waitedCall) nudge() {
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

func (c *resultTask) run() error {
	f := c.f
	c.f = nil // as there
	return f(c.given(&c.contextCall))
}
