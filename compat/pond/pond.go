// Package pond has the API of github.com/alitto/pond v1.9.2 on the engine of
// shoal. A program that uses pond changes its import path,
//
//	import "github.com/shoal-go/shoal/compat/pond"
//
// and nothing else. Pond's documentation holds, with these differences.
//
// What pond documents is kept: Submit panics with [ErrSubmitOnStoppedPool] after
// a stop, ignores a nil task, and blocks while the queue is full; options out of
// range are put right silently; the counters count what theirs count; strategies
// are asked under the same conditions.
//
// What is broken there is not kept:
//
//   - A task that calls [runtime.Goexit], as t.FailNow does, ends like any other.
//     Pond loses the worker, and every Wait and stop hangs.
//   - SubmitAndWait and Wait of a group return when the pool is stopped with
//     their tasks still queued. These count as neither successful nor failed.
//   - SubmitAndWait, and Wait of a group, do not use up the workers when tasks
//     call them: they run what they wait for.
//   - When the context of [Context] has ended, Submit drops the task and TrySubmit
//     returns false. In pond Submit blocks for ever once the queue is full.
//   - A task of a group with a context that panics is an error of the group, a
//     [*shoal.PanicError]. In pond Wait returns nil.
//   - Submit and a stop may race: the task is accepted and run, or Submit panics
//     with ErrSubmitOnStoppedPool; never with "send on closed channel". That is so
//     for a Submit that waits for room, too, where pond waits for it. A task of a
//     group that is refused so late is left out; with a context, Wait returns
//     [shoal.ErrClosed], and of tasks that a stop dropped [shoal.ErrDropped].
//   - A task that calls Submit while the queue is full runs the new task itself, at
//     once: do not hold a lock then that the new task takes.
//   - Tasks that a group's context keeps from running count as neither submitted
//     nor completed. In pond they are taken, skipped, and count as successful.
//   - A strategy delays growth, but never leaves a task waiting behind a busy
//     worker while more workers may start.
//   - RatedResizer(1), which is Eager and never says no, is shoal's Auto: the workers
//     are started, too, but where the tasks compute and all CPUs are busy one after
//     the other, 10 ms or more apart. Pond starts them at once, and has them get in
//     each other's way. To the counters every task has its worker at once, as there.
//     Who wants them at once all the same has a strategy of his own that says yes.
//   - Idle workers are reclaimed by age, all that are due, not one in each timeout.
//     IdleTimeout(0) has them leave when the queue is empty; in pond it panics.
//   - StopAndWaitFor leaves nothing behind but tasks that run. A stop that a task
//     of the pool calls begins and does not wait, as it cannot; in pond it hangs.
//
// Docs: docs/migrate.md of shoal says how to go on to shoal's own API.
package pond

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/internal/settle"
)

const defaultIdleTimeout = 5 * time.Second

// ErrSubmitOnStoppedPool is what Submit and its kin panic with when the pool has
// been stopped.
var ErrSubmitOnStoppedPool = errors.New("worker pool has been stopped and is no longer accepting tasks")

// ResizingStrategy decides, when a task comes and no worker is idle, whether to
// start another worker now. It may be called by several goroutines.
type ResizingStrategy interface {
	Resize(runningWorkers, minWorkers, maxWorkers int) bool
}

var maxProcs = runtime.GOMAXPROCS(0)

// The strategies that pond comes with.
var (
	// Eager starts a worker whenever none is idle, and a CPU has use for it. It is
	// the default.
	Eager = func() ResizingStrategy { return RatedResizer(1) }
	// Balanced starts one for every GOMAXPROCS/2 tasks.
	Balanced = func() ResizingStrategy { return RatedResizer(maxProcs / 2) }
	// Lazy starts one for every GOMAXPROCS tasks.
	Lazy = func() ResizingStrategy { return RatedResizer(maxProcs) }
)

// RatedResizer is the strategy that starts a worker for every rate tasks that
// find none idle. A rate below 1 is 1.
func RatedResizer(rate int) ResizingStrategy { return &rated{rate: uint64(max(1, rate))} }

type rated struct {
	rate uint64
	hits atomic.Uint64
}

func (r *rated) Resize(runningWorkers, minWorkers, maxWorkers int) bool {
	return r.rate == 1 || runningWorkers == 0 || r.hits.Add(1)%r.rate == 1
}

// sizer makes a strategy one of shoal's.
type sizer struct{ ResizingStrategy }

func (s sizer) Grow(z shoal.Sizing) bool { return s.Resize(z.Workers, z.Min, z.Max) }

// An Option configures a pool.
type Option func(*WorkerPool)

// IdleTimeout sets for how long a worker may be idle before it leaves. The
// default, also for a negative value, is 5 seconds.
func IdleTimeout(idleTimeout time.Duration) Option {
	return func(p *WorkerPool) { p.idleTimeout = idleTimeout }
}

// MinWorkers sets how many workers are started at once and never leave.
func MinWorkers(minWorkers int) Option { return func(p *WorkerPool) { p.minWorkers = minWorkers } }

// Strategy sets the resizing strategy.
func Strategy(strategy ResizingStrategy) Option { return func(p *WorkerPool) { p.strategy = strategy } }

// PanicHandler sets what is called with the value of a panic in a task. The
// default prints it with its stack to standard output.
func PanicHandler(panicHandler func(interface{})) Option {
	return func(p *WorkerPool) { p.panicHandler = panicHandler }
}

// Context has the pool stop at once when parentCtx ends.
func Context(parentCtx context.Context) Option { return func(p *WorkerPool) { p.context = parentCtx } }

// A WorkerPool is a pool of workers. It is made by [New].
type WorkerPool struct {
	pool         *shoal.Pool
	maxWorkers   int
	maxCapacity  int
	minWorkers   int
	idleTimeout  time.Duration
	strategy     ResizingStrategy
	panicHandler func(interface{})
	context      context.Context
	stopped      atomic.Bool
	eager        bool        // the strategy never says no
	unfollow     func() bool // p does not stop with its context any more
}

// New makes a pool of up to maxWorkers workers, at least 1, with a queue for
// maxCapacity tasks, at least 0.
func New(maxWorkers, maxCapacity int, options ...Option) *WorkerPool {
	p := &WorkerPool{maxWorkers: maxWorkers, maxCapacity: maxCapacity, idleTimeout: defaultIdleTimeout}
	for _, o := range options {
		if o != nil {
			o(p)
		}
	}
	p.maxWorkers = max(1, p.maxWorkers)
	p.minWorkers = min(p.minWorkers, p.maxWorkers)
	p.maxCapacity = max(0, p.maxCapacity)
	if p.idleTimeout < 0 {
		p.idleTimeout = defaultIdleTimeout
	}
	if p.strategy == nil {
		p.strategy = Eager()
	}
	capacity := p.maxCapacity
	if capacity > math.MaxInt32 {
		capacity = shoal.Unbounded
	}
	workers := min(p.maxWorkers, shoal.MaxWorkers)
	sizing := shoal.Sizer(sizer{p.strategy})
	if r, ok := p.strategy.(*rated); ok && r.rate == 1 {
		p.eager, sizing = true, shoal.Auto()
	}
	p.pool = shoal.Must(shoal.New( // all of it is in range
		shoal.WithMaxWorkers(workers),
		shoal.WithMinWorkers(min(max(0, p.minWorkers), workers)),
		shoal.WithQueueCapacity(capacity),
		shoal.WithIdleTimeout(p.idleTimeout),
		shoal.WithSizing(sizing),
		shoal.WithTiming(shoal.TimingOff),
		shoal.WithPanicHandler(p.panicked),
	))
	p.unfollow = func() bool { return false }
	if p.context != nil {
		p.unfollow = context.AfterFunc(p.context, p.stopNow)
	}
	return p
}

func (p *WorkerPool) panicked(e *shoal.PanicError) {
	if p.panicHandler != nil {
		p.panicHandler(e.Value)
		return
	}
	fmt.Printf("Worker exits from a panic: %v\nStack trace: %s\n", e.Value, e.Stack)
}

// RunningWorkers is the number of workers that are live, idle ones included, or
// about to start.
func (p *WorkerPool) RunningWorkers() int {
	s := p.pool.Stats()
	return max(s.Workers, p.busy(s))
}

// busy is the number of workers that run a task. While Eager's workers are on their way
// to their tasks they count as if they were there.
func (p *WorkerPool) busy(s shoal.Stats) int {
	if p.eager {
		return min(s.InFlight, s.MaxWorkers)
	}
	return s.Workers - s.Idle
}

// IdleWorkers is the number of workers that run no task.
func (p *WorkerPool) IdleWorkers() int {
	s := p.pool.Stats()
	return max(0, s.Workers-p.busy(s))
}

// MinWorkers is the minimum of workers.
func (p *WorkerPool) MinWorkers() int { return p.minWorkers }

// MaxWorkers is the maximum of workers.
func (p *WorkerPool) MaxWorkers() int { return p.maxWorkers }

// MaxCapacity is how many tasks may be queued.
func (p *WorkerPool) MaxCapacity() int { return p.maxCapacity }

// Strategy is the resizing strategy.
func (p *WorkerPool) Strategy() ResizingStrategy { return p.strategy }

// SubmittedTasks is the number of tasks that were accepted, or whose Submit waits for
// room.
func (p *WorkerPool) SubmittedTasks() uint64 {
	s := p.pool.Stats()
	return s.Submitted + uint64(s.Blocked)
}

// WaitingTasks is the number of tasks that have not started, those whose Submit waits
// for room among them.
func (p *WorkerPool) WaitingTasks() uint64 {
	s := p.pool.Stats()
	if p.eager {
		return uint64(s.InFlight - p.busy(s) + s.Blocked)
	}
	return settle.Waiting(s) + uint64(s.Blocked)
}

// SuccessfulTasks is the number of tasks that have returned.
func (p *WorkerPool) SuccessfulTasks() uint64 {
	s := p.pool.Stats()
	return s.Completed - s.Failed
}

// FailedTasks is the number of tasks that have panicked, or called
// [runtime.Goexit].
func (p *WorkerPool) FailedTasks() uint64 { return p.pool.Stats().Failed }

// CompletedTasks is the number of tasks that have ended in either way.
func (p *WorkerPool) CompletedTasks() uint64 { return p.pool.Stats().Completed }

// Stopped reports whether the pool has been stopped.
func (p *WorkerPool) Stopped() bool { return p.stopped.Load() }

// Submit queues task and blocks while the queue is full. A nil task is ignored. It
// panics with [ErrSubmitOnStoppedPool] if the pool has been stopped.
func (p *WorkerPool) Submit(task func()) {
	if task == nil {
		return
	}
	p.refuse() // while Stop waits for tasks that are about to start the engine would accept it
	if p.pool.Submit(task) != nil {
		p.refuse()
	}
}

// refuse panics if the pool has been stopped. Else its context has ended.
func (p *WorkerPool) refuse() {
	if p.stopped.Load() {
		panic(ErrSubmitOnStoppedPool)
	}
}

// TrySubmit queues task if there is room, and reports whether there was.
func (p *WorkerPool) TrySubmit(task func()) bool {
	return !p.Stopped() && p.pool.TrySubmit(task) == nil
}

// SubmitAndWait is Submit, and waits for the task to end.
func (p *WorkerPool) SubmitAndWait(task func()) {
	if task == nil {
		return
	}
	p.refuse()
	err := p.pool.SubmitWait(context.Background(), func(context.Context) error {
		task()
		return nil
	})
	if err == shoal.ErrClosed {
		p.refuse()
	}
}

// SubmitBefore is Submit, but the task is skipped if it has not started after
// deadline.
func (p *WorkerPool) SubmitBefore(task func(), deadline time.Duration) {
	if task == nil {
		return
	}
	asked := time.Now()
	p.Submit(func() {
		if time.Since(asked) < deadline {
			task()
		}
	})
}

// Stop has the pool accept no more tasks and drop those that are queued; tasks
// that run go on. It does not wait: the context that it returns ends when no
// worker is left.
func (p *WorkerPool) Stop() context.Context {
	p.close()
	p.stopNow()
	p.unfollow()
	return end{p.pool.Done()}
}

// close refuses what comes from now on.
func (p *WorkerPool) close() {
	p.stopped.Store(true)
	if p.context != nil && p.context.Err() != nil {
		p.stopNow() // before, not after
	}
}

// stopNow drops what is queued, and does not wait.
func (p *WorkerPool) stopNow() { settle.StopSoon(p.pool, !p.eager) }

// StopAndWait has the pool accept no more tasks, and waits until all that were
// accepted have ended and no worker is left.
func (p *WorkerPool) StopAndWait() {
	p.close()
	if p.pool.Shutdown(context.Background()) != shoal.ErrWouldDeadlock {
		p.unfollow()
	}
}

// StopAndWaitFor is StopAndWait, but when deadline has passed it drops what is
// queued and returns.
func (p *WorkerPool) StopAndWaitFor(deadline time.Duration) {
	p.close()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	switch settle.Drain(ctx, p.pool) {
	case nil:
		p.unfollow()
	case shoal.ErrWouldDeadlock:
		time.AfterFunc(deadline, p.stopNow)
	default:
		p.stopNow()
	}
}

// An end is a context that is cancelled when done is closed.
type end struct{ done <-chan struct{} }

func (e end) Deadline() (time.Time, bool) { return time.Time{}, false }
func (e end) Done() <-chan struct{}       { return e.done }
func (e end) Value(any) any               { return nil }
func (e end) Err() error {
	select {
	case <-e.done:
		return context.Canceled
	default:
		return nil
	}
}

// Group makes a group of tasks.
func (p *WorkerPool) Group() *TaskGroup {
	return &TaskGroup{p, p.pool.Group(context.Background(), shoal.CollectErrors())} // no failure cancels the others
}

// GroupContext makes a group of tasks, and a context derived from ctx that ends
// when one of them fails or Wait returns. It panics if ctx is nil.
func (p *WorkerPool) GroupContext(ctx context.Context) (*TaskGroupWithContext, context.Context) {
	if ctx == nil {
		panic("a non-nil context needs to be specified when using GroupContext")
	}
	ctx, cancel := context.WithCancel(ctx)
	g := &TaskGroupWithContext{TaskGroup: TaskGroup{p, p.pool.Group(ctx)}, above: ctx, cancel: cancel}
	g.ctx = g.group.Context()
	return g, g.ctx
}

// A TaskGroup is some tasks of a pool that are waited for together.
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
	above  context.Context // does not end with Wait
	cancel context.CancelFunc
	once   sync.Once
	err    atomic.Pointer[error]
}

// Submit is [WorkerPool.Submit] of a task of the group. It is skipped if the
// group's context has ended.
func (g *TaskGroupWithContext) Submit(task func() error) {
	if task == nil {
		return
	}
	g.pool.refuse()
	if g.ctx.Err() != nil {
		return
	}
	g.group.Go(func(context.Context) error {
		if err := task(); err != nil {
			g.fail(err) // to the pool it has not failed: it has returned
		}
		return nil
	})
}

func (g *TaskGroupWithContext) fail(err error) {
	g.once.Do(func() {
		g.err.Store(&err)
		g.cancel()
	})
}

// Wait waits until all tasks of the group have ended, or one of them fails, or the
// group's context ends, and returns the first error.
func (g *TaskGroupWithContext) Wait() error {
	err := g.group.WaitContext(g.ctx)
	if err == nil {
		err = g.above.Err() // tasks were skipped, perhaps
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
