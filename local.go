package shoal

import (
	"context"
	"errors"

	"github.com/shoal-go/shoal/internal/sy"
)

// ErrNotInTask means that a context is not that of a running task of the pool
// in question.
var ErrNotInTask = errors.New("shoal: context is not that of a running task of this pool")

// A Local is a resource of which every worker of a pool has one: a connection,
// a buffer, an encoder. A worker's is opened when a task on that worker first
// asks for it, and closed when the worker leaves, whatever the reason. Only one
// task at a time runs on a worker, so tasks need not lock it. A Local is made
// by [NewLocal].
//
// Make a Local once, when the pool is made, and not per task or request: what a
// worker has opened for a Local that nobody uses any more stays open, and in
// memory, until that worker leaves, and [Local.Get] looks through all Locals that
// its worker has used.
type Local[S any] struct {
	p     *Pool
	open  func(worker int) (S, error)
	close func(S)
}

// NewLocal makes a Local of p. open is called with the worker's id, on its
// goroutine, by the task that asks first; close, unless it is nil, on its
// goroutine before the worker's stop hook. A panic of close is reported as
// those of tasks are. A worker closes its resources in the reverse order in which
// their opens returned; so open may get another Local's resource, which is closed
// after its own. The workers of a sub-pool are those of the pool that it is
// part of: what they have opened stays while they do, also after the sub-pool.
func NewLocal[S any](p *Pool, open func(worker int) (S, error), close func(S)) *Local[S] {
	if p != nil {
		p.root().kept.Store(true)
	}
	return &Local[S]{p, open, close}
}

// Get returns the resource of the worker that runs the task whose context is
// ctx, or is derived from it; it opens it if there is none. The error is that of
// open, which is called again the next time; or [ErrNotInTask] where ctx is not
// of a running task of the pool or of one of its sub-pools; or [ErrWouldDeadlock]
// if open itself gets the resource that it is about to open. Another goroutine that
// gets it meanwhile waits until open returns.
//
// A task that runs on a goroutine that is no worker's, by the policies [Spawn]
// and [CallerRuns], or inside of another one that waits for it, has a resource of
// its own, with the id -1, which is closed when the task has ended: so it does
// not meddle with what the other one is doing with its own. It has none, and is told
// [ErrNotInTask], if it began before the pool's first Local was made. What a task does with
// the resource after its end, or in several goroutines at once, is up to it.
func (l *Local[S]) Get(ctx context.Context) (S, error) {
	var none S
	if l.p == nil || l.open == nil {
		return none, errNilFunc
	}
	c := l.p.taskOf(ctx)
	if c == nil || c.w == nil {
		return none, ErrNotInTask
	}
	w := c.w.base()
	r := w.kept.of(l)
	if r == nil {
		return none, ErrNotInTask // the worker has left since
	}
	if r.opening.Load() && l.p.onOwnWorker() {
		return none, ErrWouldDeadlock
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		if err := l.openIn(r, w); err != nil {
			return none, err
		}
	}
	v, _ := r.v.(S)
	return v, nil
}

// openIn opens the resource of w, whose r is locked.
func (l *Local[S]) openIn(r *kept, w *worker) error {
	r.opening.Store(l.p.onOwnWorker())
	defer r.opening.Store(false) // also in a panic
	v, err := l.open(w.id)
	if err != nil {
		return err
	}
	if l.close != nil {
		shut := func() { l.close(v) }
		if !w.kept.opened(shut) {
			l.p.guard(shut)
			return ErrNotInTask // the worker has left since
		}
	}
	r.v, r.open = v, true
	return nil
}

// A keep is what a worker has for Locals.
type keep struct {
	mu     sy.Mutex // guards what follows
	all    []*kept
	close  []func() // what was opened, in the order in which it was
	closed bool
}

// A kept is what a worker has for one Local.
type kept struct {
	key     any     // the *Local
	opening sy.Bool // the worker's task is in the user's open: who is too must not wait for it

	mu   sy.Mutex // held while the user's open runs, by a task of the worker
	open bool
	v    any
}

// of returns what is kept for key; nil after the end.
func (k *keep) of(key any) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	for _, r := range k.all {
		if r.key == key {
			return r
		}
	}
	r := &kept{key: key}
	k.all = append(k.all, r)
	return r
}

// opened has shut called when the worker leaves, unless it has left.
func (k *keep) opened(shut func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.close = append(k.close, shut)
	}
	return !k.closed
}

// closeAll closes what was opened, the latest first, also where one of the
// functions ends the goroutine.
func (k *keep) closeAll(p *Pool) {
	k.mu.Lock()
	all := k.close
	k.all, k.close, k.closed = nil, nil, true
	k.mu.Unlock()
	closeFrom(p, all)
}

func closeFrom(p *Pool, all []func()) {
	if len(all) == 0 {
		return
	}
	defer closeFrom(p, all[:len(all)-1])
	p.guard(all[len(all)-1])
}
