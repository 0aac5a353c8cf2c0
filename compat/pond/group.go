package pond

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/shoal-go/shoal"
)

// This file is tasks that are waited for together, with and without a context.

// Group makes a group of tasks.
func (p *WorkerPool) Group() *TaskGroup {
	return &TaskGroup{p, p.pool.Group(context.Background(), shoal.CollectErrors())} // no failure cancels the others
}

// GroupContext makes a group of tasks, and a context derived from ctx that ends
// when one of them fails, Wait returns, or a stop drops what is queued. It panics if ctx is nil.
func (p *WorkerPool) GroupContext(ctx context.Context) (*TaskGroupWithContext, context.Context) {
	if ctx == nil {
		panic("a non-nil context needs to be specified when using GroupContext")
	}
	above, cancel := context.WithCancel(ctx)
	g := &TaskGroupWithContext{TaskGroup: TaskGroup{p, p.pool.Group(above)}, parent: ctx, above: above, cancel: cancel}
	g.ctx = g.group.Context()
	return g, g.ctx
}

// A TaskGroup is some tasks of a pool that are waited for together. It keeps the panics of
// its tasks until Wait returns.
type TaskGroup struct {
	pool  *WorkerPool
	group *shoal.Group
}

// Submit is [WorkerPool.Submit] of a task of the group.
func (g *TaskGroup) Submit(task func()) {
	if task == nil {
		return
	}
	g.pool.refuse()
	g.submit(task, nil)
}

func (g *TaskGroup) submit(task, skip func()) {
	task, leave := g.pool.held.enter(func() func() { return g.pool.guard(task, skip) })
	defer leave()
	g.group.Go(func(context.Context) error {
		task()
		return nil
	})
}

// Wait waits until all tasks of the group have ended.
func (g *TaskGroup) Wait() { g.group.Wait() }

// A TaskGroupWithContext is a group whose first error cancels its context, after
// which no task of it starts.
type TaskGroupWithContext struct {
	TaskGroup
	ctx    context.Context
	parent context.Context // has its error before the pool, or a group, sees its end
	above  context.Context // ends also when a task fails, and when Wait has returned
	cancel context.CancelFunc
	once   sync.Once
	err    atomic.Pointer[error]
}

// Submit is [WorkerPool.Submit] of a task of the group. The task is skipped if the
// group's context has ended before it starts; it counts as successful then, as in
// pond. If the context ends while Submit waits because the queue is full, Submit returns,
// and the task does not count.
func (g *TaskGroupWithContext) Submit(task func() error) {
	if task == nil {
		return
	}
	if g.ctx.Err() != nil {
		g.pool.Submit(func() {})
		return
	}
	g.pool.refuse()
	g.submit(func() {
		if err := task(); err != nil {
			g.fail(err) // to the pool it has not failed: it has returned
		}
	}, func() { g.fail(cmp.Or(g.parent.Err(), error(shoal.ErrDropped))) })
}

func (g *TaskGroupWithContext) fail(err error) {
	g.once.Do(func() {
		g.err.Store(&err)
		g.cancel()
	})
}

// Wait waits until all tasks of the group have ended, or one of them fails, or the
// group's context ends, and returns the first error. In the task that has made the group it
// may be running one of the tasks then, and returns when that has ended.
func (g *TaskGroupWithContext) Wait() error {
	err := g.group.WaitContext(g.ctx)
	if err == nil || err == shoal.ErrDropped || err == shoal.ErrClosed { // tasks were skipped, dropped or refused, perhaps
		err = cmp.Or(g.parent.Err(), g.above.Err(), err)
	}
	if err != nil {
		g.fail(err)
	}
	g.cancel()
	if first := g.err.Load(); first != nil {
		return *first
	}
	return nil
}
