// Package pond has the API of github.com/alitto/pond v1.9.2 on the engine of
// shoal. To move a program, change its import path,
//
//	import "github.com/shoal-go/shoal/compat/pond"
//
// and nothing else. Pond's documentation holds. The differences: Balanced and Lazy
// start a worker earlier than pond does if a task would have to wait for tasks that
// block; Eager starts workers one after the other if the CPUs are busy; a
// task may call [runtime.Goexit], wait for tasks that it has submitted, and stop its
// own pool; a stopped or cancelled pool leaves no caller waiting.
//
// What pond documents is kept. Submit panics with [ErrSubmitOnStoppedPool] after
// a stop, ignores a nil task (also one of a group, which panics in pond), and blocks while the
// queue is full. Options out of range are corrected silently. The counters count what pond's count.
//
// A strategy of your own, and [RatedResizer] with a rate that you chose, hold the
// pool where pond's does: a strategy that answers running < 3 never has more than
// 3 workers. It is asked when pond asks it: when a task is submitted, no worker is
// idle, and the maximum is not reached. Its answer stands until the next task, so a
// task that was refused a worker waits until one is free, as in pond. One thing
// differs: the pool always has a first worker. [Balanced] and [Lazy] are no bounds
// that a program sets. Here they delay a worker only while the existing workers take
// tasks, so the pool accepts as many tasks as if all its workers had started. In pond a
// task to which they have refused a worker waits behind a busy one, even if that never
// ends.
//
// What is broken in pond is not kept:
//
//   - A task that calls [runtime.Goexit], as t.FailNow does, ends like any other. A panic
//     handler that does so ends the process, as one that panics does there and here.
//     Pond loses the worker, and every Wait and stop hangs.
//   - SubmitAndWait and Wait of a group return if the pool is stopped while
//     their tasks are queued. Those tasks count as neither successful nor failed, but
//     as waiting, as in pond all that a stop drops do. In pond both hang.
//   - If a task calls SubmitAndWait, or Wait of a group that it has made, it runs the tasks
//     that it waits for; one of these that calls Goexit ends it too. In pond such tasks can use
//     up all workers, and hang, as they can here in a group that was made outside of the task.
//     A Wait that runs a task returns when that has ended, though another one has failed or
//     the group's context has ended meanwhile; in pond it returns at once. So tasks of such a
//     group must heed its context, and must not wait for what comes after Wait.
//   - When the context of [Context] has ended, Submit drops the task, SubmitAndWait returns
//     without having run it, and TrySubmit returns false. In pond a task for which a worker is
//     started runs all the same, and Submit blocks for ever once the queue is full.
//   - If a stop drops what is queued (Stop, StopAndWaitFor at its deadline, the end of the
//     context of [Context]), the contexts of the groups whose tasks run end too, and their Wait
//     returns [context.Canceled] at once. In pond those tasks go on, and Wait waits for them.
//   - If a task of a group with a context panics, the context ends, and Wait returns a
//     [*shoal.PanicError]; if it calls Goexit, [shoal.ErrGoexit]. In pond the group goes on,
//     and Wait returns nil.
//   - The panic handler is called before the task counts as failed, and before SubmitAndWait,
//     or Wait of its group, returns; in pond after that. So the handler must not wait for
//     whoever waits for the task.
//   - While a task runs inside another one, it counts as waiting, or as on a worker of its own.
//   - Submit and a stop may race: either the task is accepted and runs, or Submit
//     panics with ErrSubmitOnStoppedPool. It never panics with "send on closed
//     channel". The same holds for a Submit that waits because the queue is full. In
//     pond the stop waits for that Submit.
//     A task of a group that is refused so late is left out. If the group has a
//     context that has not ended, Wait returns [shoal.ErrClosed] then, and
//     [shoal.ErrDropped] if a stop dropped a task that was accepted.
//   - If a task calls Submit, also of a group, while the queue is full, it runs the new
//     task itself, at once, and Submit returns when that has ended. Do not hold a lock that
//     the new task takes, and the new task must not wait for what its submitter does later:
//     that would last for ever, while in pond another worker may come.
//   - While more tasks wait than 32,768 plus 500 for each task that runs, a goroutine that
//     submits without pause parks now and then after its task was accepted, for a few
//     milliseconds as a rule and at most for about 100, so that the workers get the CPUs.
//     Tasks of the pool, and TrySubmit, do not park.
//   - [Eager], which is RatedResizer(1), is shoal's Auto. If the tasks compute
//     and all CPUs are busy, its workers start one after the other, up to 10 ms
//     or more apart; pond starts them at once. The counters count every task as if
//     its worker had started. To have the workers at once, use a strategy of your own
//     that answers true.
//   - Queued tasks start in the order of their submission. In pond a new worker starts
//     with the task that was submitted last, before those that wait.
//   - Idle workers leave by age, all that are due; pond ends one in each timeout.
//     With IdleTimeout(0) a worker leaves when the queue is empty; pond panics.
//   - After Stop, RunningWorkers and IdleWorkers count the workers that are left,
//     until both are 0. In pond RunningWorkers is 0 at once, though workers run
//     tasks, and IdleWorkers counts those that end their tasks, and stays so.
//   - StopAndWaitFor leaves nothing behind but tasks that run. If a task calls a
//     stop of its own pool, the stop begins and does not wait; in pond it hangs.
//
// To go on to shoal's own API, see docs/migrate.md.
package pond

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/internal/settle"
	"github.com/shoal-go/shoal/internal/peek"
)

const defaultIdleTimeout = 5 * time.Second

// ErrSubmitOnStoppedPool is the value with which Submit, SubmitAndWait and
// SubmitBefore panic if the pool has been stopped.
var ErrSubmitOnStoppedPool = errors.New("worker pool has been stopped and is no longer accepting tasks")

// An Option configures a pool.
type Option func(*WorkerPool)

// IdleTimeout sets how long a worker may be idle before it leaves. The default,
// also for a negative value, is 5 seconds.
func IdleTimeout(idleTimeout time.Duration) Option {
	return func(p *WorkerPool) { p.idleTimeout = idleTimeout }
}

// MinWorkers sets how many workers are started at once and never leave.
func MinWorkers(minWorkers int) Option { return func(p *WorkerPool) { p.minWorkers = minWorkers } }

// Strategy sets the resizing strategy.
func Strategy(strategy ResizingStrategy) Option { return func(p *WorkerPool) { p.strategy = strategy } }

// PanicHandler sets the function that is called with the value of a panic in a task.
// The default prints the value and the stack to standard output.
func PanicHandler(panicHandler func(interface{})) Option {
	return func(p *WorkerPool) { p.panicHandler = panicHandler }
}

// Context makes the pool stop at once, as [WorkerPool.Stop] does, when parentCtx ends.
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
	skipped      atomic.Uint64 // tasks that came to a worker after the context had ended
	successful   atomic.Uint64 // see ended
	held         *holder       // of a strategy that holds the pool; else nil
	atOnce       bool          // a task for which there may be a worker counts as if it had one
	unfollow     func() bool   // p does not stop with its context any more; nil if it has none
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
	most := min(p.maxWorkers, shoal.MaxWorkers)
	least := min(max(0, p.minWorkers), most)
	var sizing shoal.Sizer
	p.atOnce = true
	switch r := p.strategy.(type) {
	case preset:
		p.atOnce, sizing = false, r
	case *rated:
		if r.rate == 1 {
			sizing = shoal.Auto()
		}
	}
	if sizing == nil {
		sizing = shoal.Eager()
		p.held = &holder{p: p, least: least, most: most}
		least = p.held.first()
		most = max(1, least)
	}
	p.pool = shoal.Must(shoal.New( // all of it is in range
		shoal.WithMaxWorkers(most),
		shoal.WithMinWorkers(least),
		shoal.WithQueueCapacity(capacity),
		shoal.WithIdleTimeout(p.idleTimeout),
		shoal.WithSizing(sizing),
		shoal.WithTiming(shoal.TimingOff),
		shoal.WithPanicHandler(p.panicked),
	))
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
// about to start. In the terms of a [ResizingStrategy] they are the running ones.
func (p *WorkerPool) RunningWorkers() int {
	s := p.pool.Stats()
	return max(s.Workers, p.busy(s))
}

// busy is the number of workers that run a task. A worker that is on its way to its
// task counts as if it were there.
func (p *WorkerPool) busy(s shoal.Stats) int {
	if p.atOnce {
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

// SubmittedTasks is the number of tasks that were accepted, or whose Submit waits. Tasks
// that a group skipped count too.
func (p *WorkerPool) SubmittedTasks() uint64 {
	s := p.pool.Stats()
	return s.Submitted + uint64(s.Blocked)
}

// WaitingTasks is the number of tasks that have not started. Those whose Submit waits
// count too, and so do those that a stop has dropped.
func (p *WorkerPool) WaitingTasks() uint64 {
	skipped := p.skipped.Load() // first, so that no task counts as queued too
	s := p.pool.Stats()
	n := uint64(s.Blocked) + s.Dropped + skipped
	if p.atOnce {
		return n + uint64(s.InFlight-p.busy(s))
	}
	return n + settle.Waiting(s)
}

// SuccessfulTasks is the number of tasks that have returned, or that their group
// skipped because its context had ended.
func (p *WorkerPool) SuccessfulTasks() uint64 {
	successful, _ := p.ended()
	return successful
}

// FailedTasks is the number of tasks that have panicked, or called
// [runtime.Goexit].
func (p *WorkerPool) FailedTasks() uint64 { return p.pool.Stats().Failed }

// ended is the numbers of tasks that have ended, without those that were skipped at the end
// of the context. Such a task is skipped a moment before it ends. So what is read here may be too
// low, never too high, and successful is the most that was read.
func (p *WorkerPool) ended() (successful, failed uint64) {
	s := p.pool.Stats()
	n := s.Completed + s.Canceled
	n -= min(n, s.Failed+p.skipped.Load())
	for most := p.successful.Load(); n > most && !p.successful.CompareAndSwap(most, n); most = p.successful.Load() {
	}
	return p.successful.Load(), s.Failed
}

// CompletedTasks is the sum of [WorkerPool.SuccessfulTasks] and
// [WorkerPool.FailedTasks].
func (p *WorkerPool) CompletedTasks() uint64 {
	successful, failed := p.ended()
	return successful + failed
}

// Stopped reports whether the pool has been stopped.
func (p *WorkerPool) Stopped() bool { return p.stopped.Load() }

// Submit queues task and blocks while the queue is full. A nil task is ignored. It
// panics with [ErrSubmitOnStoppedPool] if the pool has been stopped.
func (p *WorkerPool) Submit(task func()) {
	if task == nil {
		return
	}
	p.refuse() // while Stop waits for tasks that are about to start the engine would accept it
	task, leave := p.held.enter(func() func() { return p.guard(task, nil) })
	defer leave()
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

// TrySubmit queues task unless the queue is full, and reports whether it did.
func (p *WorkerPool) TrySubmit(task func()) bool {
	if task == nil || p.Stopped() {
		return false
	}
	task, leave := p.held.enter(func() func() { return p.guard(task, nil) })
	defer leave()
	return p.pool.TrySubmit(task) == nil
}

// SubmitAndWait is [WorkerPool.Submit], and waits until the task has ended. A task that a
// stop drops is not waited for.
func (p *WorkerPool) SubmitAndWait(task func()) {
	if task == nil {
		return
	}
	p.refuse()
	task, leave := p.held.enter(func() func() { return p.guard(task, nil) })
	err := p.pool.SubmitWait(context.Background(), func(context.Context) error {
		task()
		return nil
	})
	leave()
	if err == shoal.ErrClosed {
		p.refuse()
	}
}

// guard is task for a pool with a context. As in pond, a task that has no worker when it is
// submitted does not start once the context has ended. Instead it calls skip, if that is not
// nil. The guard is needed because the pool below is stopped a moment after its context ends,
// and a worker may be faster.
func (p *WorkerPool) guard(task, skip func()) func() {
	if p.context == nil {
		return task
	}
	if s := peek.Snapshot(p.pool); s.InFlight < uint64(s.Max) {
		return task
	}
	return func() {
		if p.context.Err() == nil {
			task()
			return
		}
		p.skipped.Add(1)
		if skip != nil {
			skip()
		}
	}
}

// SubmitBefore is [WorkerPool.Submit], but the task is skipped if it has not started
// within deadline.
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

// Stop makes the pool accept no more tasks and drop those that are queued; tasks
// that run go on, but the contexts of their groups end. It does not wait: the context that it returns ends when no
// worker is left.
func (p *WorkerPool) Stop() context.Context {
	p.close()
	p.stopNow()
	return end{p.pool.Done()}
}

// close refuses what comes from now on.
func (p *WorkerPool) close() {
	again := p.stopped.Swap(true)
	if p.context == nil {
		return
	}
	if p.context.Err() != nil {
		p.stopNow() // before, not after
	}
	if again {
		return
	}
	go func() { // until p has ended, the end of the context drops what is queued
		<-p.pool.Done()
		p.unfollow() // else the context would keep p for as long as it lives
	}()
}

// stopNow drops what is queued, and does not wait.
func (p *WorkerPool) stopNow() { settle.StopSoon(p.pool, !p.atOnce) }

// StopAndWait makes the pool accept no more tasks, and waits until all that were
// accepted have ended and no worker is left. If a task of the pool calls it, it
// does not wait.
func (p *WorkerPool) StopAndWait() {
	p.close()
	p.pool.Shutdown(context.Background())
}

// StopAndWaitFor is StopAndWait, but when deadline has passed it drops what is
// queued and returns.
func (p *WorkerPool) StopAndWaitFor(deadline time.Duration) {
	p.close()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	switch settle.Drain(ctx, p.pool) {
	case nil:
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
