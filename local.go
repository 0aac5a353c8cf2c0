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
type Local[S any] struct {
	p     *Pool
	open  func(worker int) (S, error)
	close func(S)
}

// NewLocal makes a Local of p. open is called with the worker's id, on its
// goroutine, by the task that asks first; close, unless it is nil, on its
// goroutine before the worker's stop hook. A panic of close is reported as
// those of tasks are. The workers of a sub-pool are those of the pool that it is
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
// of a running task of the pool or of one of its sub-pools.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		v, err := l.open(w.id)
		if err != nil {
			return none, err
		}
		r.v, r.open = v, true
		if l.close != nil {
			r.close = func() { l.close(v) }
		}
	}
	v, _ := r.v.(S)
	return v, nil
}

// A keep is what a worker has opened for Locals.
type keep struct {
	mu     sy.Mutex
	all    []*kept
	closed bool
}

// A kept is what a worker has for one Local.
type kept struct {
	key any // the *Local

	mu    sy.Mutex // held while the user's open runs, by a task of the worker
	open  bool
	v     any
	close func()
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

// closeAll closes what was opened, the latest first, also where one of the
// functions ends the goroutine.
func (k *keep) closeAll(p *Pool) {
	k.mu.Lock()
	all := k.all
	k.all, k.closed = nil, true
	k.mu.Unlock()
	closeFrom(p, all)
}

func closeFrom(p *Pool, all []*kept) {
	if len(all) == 0 {
		return
	}
	last := all[len(all)-1]
	defer closeFrom(p, all[:len(all)-1])
	if last.close != nil {
		p.guard(last.close)
	}
}
