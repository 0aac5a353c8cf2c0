package shoal

import (
	"context"
	"errors"

	"github.com/shoal-go/shoal/internal/caller"
	"github.com/shoal-go/shoal/internal/sy"
)

// ErrNotInTask means that a context is not that of a running task of the pool.
var ErrNotInTask = errors.New("shoal: context is not that of a running task of this pool")

// A Local is a resource of which each worker of a pool has one: a connection, a
// buffer, an encoder. A worker's resource is opened when a task on that worker
// first asks for it, and closed when the worker leaves, whatever the reason.
// Only one task at a time runs on a worker, so tasks need no lock. A Local is
// made by [NewLocal].
//
// Make a Local once, when the pool is made, and not for each task or request.
// What a worker has opened for a Local that is not used any more stays open,
// and in memory, until that worker leaves.
type Local[S any] struct {
	p     *Pool
	id    caller.ID // in whose name open is called
	open  func(worker int) (S, error)
	close func(S)
}

// NewLocal makes a Local of p. The task that asks first calls open, on the
// worker's goroutine and with the worker's id. The worker calls close, unless
// it is nil, on its goroutine before its stop hook. A panic of close is
// reported like that of a task of p, also after p, if it is a sub-pool, has ended.
//
// A worker closes its resources in the reverse order in which their opens
// returned. So open may get the resource of another Local, which is closed
// after its own. The workers of a sub-pool are those of its parent: what they
// have opened stays open while they live, also after the sub-pool has ended.
func NewLocal[S any](p *Pool, open func(worker int) (S, error), close func(S)) *Local[S] {
	if p != nil && p.made() {
		p.foreign.Store(true) // its close
		p.kept.Store(true)
	}
	return &Local[S]{p, caller.NewID(), open, close}
}

// Get returns the resource of the worker that runs the task whose context is
// ctx, or from which ctx is derived; of several, the innermost. It opens the
// resource if there is none. If open returns an error, Get returns it, and the
// next call opens again. The error is [ErrNotInTask] if ctx is not that of a
// running task of the pool or of one of its sub-pools, [ErrNilTask] if the
// Local has no pool or no open, and [ErrWouldDeadlock] if open gets a resource
// of its own Local that is being opened. Other goroutines that get the resource
// meanwhile wait until open returns. Get asks the stack whether open is the
// caller. A goroutine that open has started, and an iterator under [iter.Pull],
// have stacks of their own, so open must not wait for a Get there.
//
// Only tasks that are given a context can call Get: not those of [Pool.Submit],
// [Pool.TrySubmit], [Pool.SubmitBatch], [Pool.SubmitAfter], [Keyed.Submit] and
// [Func]. Use [Pool.SubmitContext], [Keyed.SubmitContext], [Go] or a [Group].
//
// A task that runs on no worker, by [Spawn] or [CallerRuns], or inside the task
// that waits for it or has submitted it, has a resource of its own with the id -1. The resource is
// closed when the task has ended. So the task does not disturb what the task
// around it does with its own resource. The same holds for the caller's share of a
// [Range], [ForEachSlice] or [MapSlice] that is not called in a task: each call may
// open and close a resource. To avoid that, call the loop in a task of
// [Pool.SubmitWait]. For memory that tasks of nested groups use, a [sync.Pool] is
// cheaper. If a task that runs on no worker began before the pool's
// first Local was made, Get returns ErrNotInTask. So make the Local before you
// submit tasks.
//
// A task must not use the resource after its end, or in several goroutines at
// once, unless the resource allows that.
func (l *Local[S]) Get(ctx context.Context) (S, error) {
	var none S
	if l.p == nil || l.open == nil {
		return none, ErrNilTask
	}
	c := l.p.lane.Task(ctx) // not one around it: that may run on another worker
	if c == nil || !c.Lane.IsBelow(&l.p.lane) || c.Keep == nil {
		return none, ErrNotInTask
	}
	r, _ := c.Keep.Of(l, func() any { return new(kept[S]) }).(*kept[S])
	if r == nil {
		return none, ErrNotInTask // the worker has left since
	}
	if r.opening.Load() && l.id.Inside() {
		return none, ErrWouldDeadlock
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.v != nil {
		return *r.v, nil
	}
	r.opening.Store(true)
	defer r.opening.Store(false) // also in a panic
	v := new(S)
	var err error
	l.id.Call(func() { *v, err = l.open(c.Keep.ID) })
	if err != nil {
		return none, err
	}
	shut := func() { l.p.guard(func() { l.close(*v) }) }
	if l.close != nil && !c.Keep.Opened(shut) {
		shut()
		return none, ErrNotInTask // the worker has left since
	}
	r.v = v
	return *v, nil
}

// A kept is what a worker has for one Local.
type kept[S any] struct {
	opening sy.Bool // the user's open runs: a Get inside of it must not wait for it

	mu sy.Mutex // held while the user's open runs
	v  *S       // the resource; nil: it is not open
}
