package shoal

import (
	"context"
	"fmt"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how a program asks for free workers before it has tasks for them.
//
// A reserved place is a task that was accepted and is yet to come: admission (roomLocked)
// counts it like one that waits. The task that comes for it is admitted whatever the
// room, and the place is a reserved one no longer, so what is left for others does not
// change.
//
// Who waits for a place is listed, like who waits for room, and workers see that by the
// attention bit: room.go says why nobody waits in vain.

// A Reservation is a number of places of a pool: workers without a task,
// present or yet to be started. It is made by [Pool.Reserve]. Its methods never
// block, and any number of goroutines may call them.
type Reservation struct {
	p       *Pool
	n       int      // places left; guarded by Pool.mu
	revoked sy.Latch // opened under Pool.mu
}

// A reserver is a goroutine that waits for free places. Guarded by mu.
type reserver struct {
	want  int
	got   *Reservation // written before woken is set
	woken sy.Event
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
	case p.inTask(ctx):
		return nil, ErrWouldDeadlock
	}
	p.mu.Lock()
	if p.phase != phaseOpen {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	q := &reserver{want: n, woken: sy.MakeEvent()}
	p.reservers = append(p.reservers, q)
	p.setAttentionLocked() // before the look
	p.grantLocked()
	p.mu.Unlock()
	if q.woken.WaitOr(ctx.Done()) || !p.forgetReserver(q) {
		if q.got == nil {
			return nil, ErrClosed
		}
		return q.got, nil
	}
	return nil, ctx.Err()
}

// forgetReserver takes q off the list, unless it was woken.
func (p *Pool) forgetReserver(q *reserver) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.reservers {
		if o == q {
			p.reservers = append(p.reservers[:i], p.reservers[i+1:]...)
			p.setAttentionLocked()
			return true
		}
	}
	return false
}

// grantLocked gives free places to those who wait for some.
func (p *Pool) grantLocked() {
	for len(p.reservers) > 0 && p.freeLocked() > 0 {
		p.limit.Store(0) // there will be less room: have submitters look, before the look that counts
		q := p.reservers[0]
		n := min(q.want, p.freeLocked())
		if n <= 0 {
			return
		}
		sy.Reach("grant")
		q.got = &Reservation{p: p, n: n, revoked: sy.MakeLatch()}
		p.reservations.add(q.got)
		p.reserved += n
		p.reservers[0] = nil
		p.reservers = p.reservers[1:]
		p.setAttentionLocked()
		q.woken.Set()
	}
}

// freeLocked is how many workers, present or yet to be started, nobody has a task for.
func (p *Pool) freeLocked() int {
	if p.paused || p.phase != phaseOpen || !p.room.empty() {
		return 0
	}
	h := p.head.Load() // first: tail is never behind it
	free := int64(p.max-headBusy(h)-p.turning-p.guests-p.reserved) - int64(ahead(p.tail.Load()&^sealedBit, headTicket(h)))
	return int(max(0, free+int64(p.shells)))
}

// endReservationsLocked ends all waits for places with ErrClosed, and takes all places
// away.
func (p *Pool) endReservationsLocked() {
	for _, q := range p.reservers {
		q.woken.Set()
	}
	p.reservers = nil
	p.revokeLocked()
	for r := range p.reservations.m {
		r.giveLocked(r.n)
	}
}

// revokeLocked tells those who hold places that they are not wanted any more.
func (p *Pool) revokeLocked() {
	for r := range p.reservations.m {
		if !r.revoked.IsOpen() {
			sy.Reach("revoke")
			r.revoked.Open()
		}
	}
}

// giveLocked takes n places from r.
func (r *Reservation) giveLocked(n int) {
	r.n -= n
	r.p.reserved -= n
	if r.n == 0 {
		r.p.reservations.remove(r)
	}
}

// Len is the number of places that are not used yet.
func (r *Reservation) Len() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.n
}

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
	c := &reservedTask{f: task, lost: lost}
	c.bind(c, ctx, p)
	t := c.trace("Reservation")
	var err error
	p.mu.Lock()
	switch {
	case p.phase != phaseOpen:
		err = ErrClosed
	case r.n == 0:
		err = fmt.Errorf("%w: no place is left of the reservation", ErrQueueFull)
	}
	if err != nil {
		p.mu.Unlock()
		t.refuse(err)
		return err
	}
	p.forceLocked(queue.Record(&c.call))
	r.giveLocked(1)
	sy.Reach("submit reserved")
	p.unlockPushed(false)
	return nil
}

// A reservedTask is a task of [Reservation.Submit].
type reservedTask struct {
	contextCall
	f    func(context.Context) error
	lost func(error)
}

func (c *reservedTask) run() error {
	c.lost = nil
	return c.f(c.given(&c.contextCall))
}

func (c *reservedTask) resolve(err error) {
	if lost := c.lost; lost != nil {
		c.lost = nil
		c.pool.guard(func() { c.pool.noGoexit("the lost function of a Reservation", func() { lost(err) }) })
	}
}

// Release gives back the places that are not used. Further calls do nothing.
func (r *Reservation) Release() {
	p := r.p
	p.mu.Lock()
	r.giveLocked(r.n)
	p.promoteAndUnlock()
}

// Revoked returns a channel that is closed if the pool is paused, resized to
// fewer workers, or shut down while places are left. A goroutine that waits for
// something to submit should then release the places and reserve again. Until
// it does they remain, except in a pool that is shut down.
func (r *Reservation) Revoked() <-chan struct{} { return r.revoked.C() }
