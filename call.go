package shoal

import (
	"context"
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A call is a task that is more than a func(): it has a context, and perhaps
// somebody who waits for its result. It is also the context that the task is
// given, so that a task with a context costs one allocation beside its
// closure.
//
// As a context it is the caller's one, plus: it tells the pool that it belongs
// to one of the pool's tasks (inTask), it ends when the task returns, and the
// pool can end it. What that needs is made when somebody asks for Done.
type call struct {
	parent context.Context
	pool   *Pool
	run    func(context.Context)       // this
	runErr func(context.Context) error // or this
	err    error                       // the result; written before done is opened
	done   sy.Latch                    // opened as the last touch of a waited call; else not made

	mu     sy.Mutex // guards what follows
	inner  context.Context
	cancel context.CancelCauseFunc
	cause  error // why the context ended by itself; nil while it has not
	last   error // what Err says from then on, where there is no inner
}

func newWaitedCall(f func(context.Context) error) *call {
	return &call{runErr: f, done: sy.MakeLatch()}
}

func (c *call) bind(ctx context.Context, p *Pool) { c.parent, c.pool = ctx, p }

// resolve gives whoever waits the result.
func (c *call) resolve(err error) {
	if c.runErr == nil {
		return
	}
	c.err = err
	c.done.Open()
}

// invoke runs the task, from the given site.
func (c *call) invoke(site uint8) (err error) {
	callAs(site, func() {
		if c.runErr != nil {
			err = c.runErr(c)
		} else {
			c.run(c)
		}
	})
	return err
}

// discard resolves a task that will not run.
func discard(it queue.Item, err error) {
	if it.IsRecord() {
		queue.As[call](it).resolve(err)
	}
}

// inTaskKey is the key under which a task's context tells its pool's tasks
// from others.
type inTaskKey struct{ p *Pool }

// inTask reports whether ctx is, or is derived from, the context of a task of
// p that has not returned.
func (p *Pool) inTask(ctx context.Context) bool {
	if ctx == nil {
		return false
	}
	c, ok := ctx.Value(inTaskKey{p}).(*call)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause != context.Canceled
}

// Deadline, Done, Err and Value make a call the context of its task.
func (c *call) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.makeInnerLocked()
	return c.inner.Done()
}

func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner != nil {
		return c.inner.Err()
	}
	if c.cause != nil {
		return c.last
	}
	return c.parent.Err()
}

func (c *call) Value(key any) any {
	if k, ok := key.(inTaskKey); ok && k.p == c.pool {
		return c
	}
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
	}
	return c.parent.Value(key)
}

func (c *call) makeInnerLocked() {
	if c.inner != nil {
		return
	}
	c.inner, c.cancel = context.WithCancelCause(c.parent)
	if c.cause != nil {
		c.cancel(c.cause)
	}
}

// end ends the context because of cause. A cause of [context.Canceled] means
// that the task has returned.
func (c *call) end(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		if c.last = c.parent.Err(); c.last == nil {
			c.last = context.Canceled
		}
	}
	if c.cause != context.Canceled {
		c.cause = cause
	}
	if cause != context.Canceled {
		c.makeInnerLocked() // so that context.Cause can tell
	}
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause) // it may run functions of the user: not under mu
	}
}
