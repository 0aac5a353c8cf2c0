package shoal

import (
	"context"
	"fmt"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/queue"
)

// A Reservation is a number of places of a pool: workers without a task,
// present or yet to be started. It is made by [Pool.Reserve]. Its methods never
// block, and any number of goroutines may call them.
type Reservation struct {
	p *Pool
	k *kernel.Reservation
}

// Reserve parks until a worker, present or yet to be started, is free. It then
// reserves all that are free, up to n, for tasks that the caller is going to
// fetch from elsewhere. So a consumer of a queue takes no more jobs than it can
// run. Calls that wait are served in order.
//
// A worker is free if no accepted task needs it. None is free while tasks or
// submitters wait, or while the pool is paused. A task that waits for its key
// needs no worker until its turn comes. A reserved place counts as an accepted
// task, also at capacity 0. Other submitters may use the queue meanwhile, up to
// its capacity; their tasks run on any worker, and before a task that the
// reservation submits later. A Submit, or a step of a SubmitBatch, that runs at
// the same time may still take a place.
//
// In a family of pools (see [Pool.Sub]) the places are those of the pool that
// was asked, under its own maximum. A place of a sub-pool does not promise a
// worker of its parent at that moment, and a place of a parent does not keep
// its workers from its sub-pools.
//
// Use the places with [Reservation.Submit], or give them back with
// [Reservation.Release].
//
// Errors: [ErrConfig] if n is not positive, [ErrClosed], ctx's own error, and
// [ErrWouldDeadlock] if ctx is that of one of the pool's own tasks.
func (p *Pool) Reserve(ctx context.Context, n int) (*Reservation, error) {
	switch {
	case n < 1:
		return nil, fmt.Errorf("%w: Reserve(%d): want at least 1", ErrConfig, n)
	case ctx == nil:
		return nil, errNilContext
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !p.made():
		return nil, ErrClosed
	case p.lane.InTask(ctx):
		return nil, ErrWouldDeadlock
	}
	k, err := p.lane.Reserve(ctx, n)
	if err != nil {
		return nil, err
	}
	return &Reservation{p, k}, nil
}

// Len is the number of places that are not used yet.
func (r *Reservation) Len() int { return r.k.Len() }

// Submit uses one of the places for task. A worker starts the task at once,
// unless other tasks were submitted to the pool's queue since. As with
// [Pool.SubmitWait] the task is given a context derived from ctx, does not
// start if ctx has ended by then, and counts as failed if it returns an error.
// But no caller waits for it. If an accepted task does not run, lost is called
// once, unless it is nil, with the reason: ctx's error, or [ErrDropped]. It is
// called on the goroutine that finds this out, so it must be brief. If it calls
// [runtime.Goexit], that is a bug and ends the process.
//
// Errors: [ErrNilTask], [ErrClosed], ctx's own error, and [ErrQueueFull] if no
// place is left.
func (r *Reservation) Submit(ctx context.Context, task func(context.Context) error, lost func(error)) error {
	switch {
	case task == nil:
		return ErrNilTask
	case ctx == nil:
		return errNilContext
	case ctx.Err() != nil:
		return ctx.Err()
	}
	p := r.p
	c := &reservedTask{f: task, lost: lost, p: p}
	c.bind(c, ctx, p)
	t := p.trace(&c.contextCall, "Reservation")
	ok, err := r.k.Submit(queue.Record(&c.call))
	if !ok && err == nil {
		err = fmt.Errorf("%w: no place is left of the reservation", ErrQueueFull)
	}
	if err != nil {
		t.refuse(err)
	}
	return err
}

// A reservedTask is a task of [Reservation.Submit].
type reservedTask struct {
	contextCall
	p    *Pool
	f    func(context.Context) error
	lost func(error)
}

func (c *reservedTask) Run() error {
	c.lost = nil
	return c.f(c.given())
}

func (c *reservedTask) Resolve(err error) {
	if lost := c.lost; lost != nil {
		c.lost = nil
		c.p.guard(func() { c.p.noGoexit("the lost function of a Reservation", func() { lost(err) }) })
	}
}

// Release gives back the places that are not used. Further calls do nothing.
func (r *Reservation) Release() { r.k.Release() }

// Revoked returns a channel that is closed if the pool is paused, resized to
// fewer workers, or shut down while places are left. A goroutine that waits for
// something to submit should then release the places and reserve again. Until
// it does they remain, except in a pool that is shut down.
func (r *Reservation) Revoked() <-chan struct{} { return r.k.Revoked().C() }
