package shoal

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"strings"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Pool runs tasks on a bounded number of goroutines, its workers. It is made
// by [New], and any number of goroutines may use it. The zero Pool is closed.
//
// In the terminology of the Go memory model, a call of Submit synchronizes
// before the start of its task, and the end of a task synchronizes before the
// return of a Wait, SubmitWait, Shutdown or Close that waited for it.
type Pool struct {
	lane kernel.Lane // the queue and the workers: see package kernel

	// Constant after New.
	name     string
	capacity int
	policy   FullPolicy
	onPanic  func(*PanicError)
	logger   *slog.Logger
	tracer   Tracer
	crash    bool
	kept     *sy.Bool // there are Locals in the family
	foreign  *sy.Bool // goroutines of the family run functions of the user that are not tasks

	times  sy.Pointer[struct{ wait, run recorder }] // how long tasks waited, and ran
	panics sy.Uint64                                // of tasks

	mu    sy.Mutex // guards what follows
	watch watchdog
}

// New makes a pool. Its error matches [ErrConfig] and names every invalid
// option.
//
// End a pool with [Pool.Shutdown] or [Pool.Close]. A pool that is dropped
// without either runs what it has accepted. Then its workers leave, each after
// the idle timeout, and the garbage collector takes the pool. It stays for ever
// if it has a minimum of workers, the idle timeout [Forever], or tasks that do
// not end. With [WithContext] it stays as long as the context lives.
//
// So a pool in a package variable need not be ended: after the idle timeout it
// has no goroutines. But tasks that have not ended when the process does are lost.
func New(opts ...Option) (*Pool, error) { return defaults().pool(opts) }

// pool makes a pool of c and opts.
func (c *config) pool(opts []Option) (*Pool, error) {
	apply(c, opts)
	if err := c.validate(); err != nil {
		return nil, err
	}
	p, w, sizer := c.Pool, &c.crew, c.sizer // the closure below does not keep c, and its context
	_, isAuto := sizer.(auto)
	r, isRated := sizer.(*rated)
	watched := min(p.watch.stallAfter, p.watch.slowTask) != Forever
	if p.tracer != nil || watched || w.Start != nil || w.Stop != nil || !isAuto && !isRated {
		p.foreign.Store(true)
	}
	c.lane.Owner = (*owner)(p)
	if watched {
		c.lane.Sample, c.lane.Every = p.sample, p.watch.period()
	}
	if c.up == nil {
		if !isAuto {
			w.Sizer = func(s kernel.Sizing) bool { return sizer.Grow(Sizing(s)) }
		}
		w.Eager = isRated && r.n <= 1
		w.Crash, w.Keeps, w.Labels = p.crash, p.kept, context.Background()
		if p.name != "" {
			w.Labels = pprof.WithLabels(w.Labels, pprof.Labels("pool", p.name))
		}
		kernel.New(&p.lane, c.lane, *w)
	} else if err := c.up.lane.Sub(&p.lane, c.lane); err != nil {
		return nil, err
	}
	if c.parent != context.Background() {
		end := func() { p.lane.End(true, ErrClosed) }
		p.lane.Follow(c.parent, end)
		if c.parent.Err() != nil {
			end() // now, not when the function runs
		}
	}
	return p, nil
}

// Must returns p, or panics with err if that is not nil. It is for package
// variables and examples: shoal.Must(shoal.New(…)).
func Must(p *Pool, err error) *Pool {
	if err != nil {
		panic(err)
	}
	return p
}

// made reports whether p was made by New.
func (p *Pool) made() bool { return p.kept != nil }

// Sub makes a sub-pool of p: a pool with a limit, a queue, a policy, statistics
// and a life of its own, whose tasks run on the workers of p. It has no
// goroutines. Its maximum is that of p at that time unless [WithMaxWorkers] sets
// another. One above that of p is accepted and never reached, so
// [Stats.Utilization] stays low. A sub-pool may have sub-pools. A family is a
// pool, its sub-pools, and theirs.
//
// A parent does not keep its sub-pools. One that is idle and not referenced is
// collected, and its counts with it, unless its Done was called. Keep the *Pool while
// you want it in [Pool.Subs], on a page or in metrics.
//
// While there are too few workers for all pools of a family, those with the
// highest [WithPriority] come first, and those of equal priority share the
// workers' time by their [WithWeight]. The tasks of p itself have priority 0
// and weight 1. No worker is idle while a pool of the family could use it.
//
// Closing a sub-pool leaves p open. Shutting p down shuts its sub-pools down in
// the same way and waits for them. Pausing p, or lowering its maximum, takes
// workers from sub-pools as their tasks end.
//
// The statistics of p and its Wait are about the tasks that were submitted to p
// itself. But a worker that runs a task of a sub-pool counts as running in p too,
// and the [ShutdownError] of p counts the tasks of its sub-pools.
//
// Each pool of a family counts its own tasks alone against its capacity. A worker
// that runs a task of a sub-pool takes none of p's: p accepts as many tasks as if
// that worker were idle, also at capacity 0, and they wait for a worker.
//
// When the Wait or the Shutdown of a sub-pool returns, the last worker that ran
// its tasks is available to p only a moment later.
//
// A sub-pool takes no options about goroutines: [WithMinWorkers], [WithSizing],
// [WithIdleTimeout], [WithMaxTasksPerWorker], [WithSpin], [WithThreadPinning]
// and [WithWorkerHooks]; and not [WithCrashOnPanic], which holds for the family.
// It has the panic handler, the logger and the [Tracer] of p unless it is given
// its own. It inherits nothing else: not the name, the capacity, the [FullPolicy],
// the [Timing], [WithStallAfter], [WithSlowTask] and [WithAlarmHandler].
//
// A sub-pool with WithMaxWorkers(1) runs one task at a time, as a [Keyed] does for a
// key. But it has a queue of its own, with a capacity and a policy such as
// [DropOldest].
//
// Errors: [ErrConfig] for an invalid option, [ErrClosed] if p is shut down.
//
// # Deadlocks
//
// Under [Block] a task of the family never waits for free capacity of a
// sub-pool. If a task submits to its own pool, or to a pool above that, and the
// queue is full, the task runs the new task itself, as [Pool.Submit] says. If it
// submits to another pool of the family, the new task is accepted beyond the
// capacity. So nothing slows down a pipeline whose tasks submit to the sub-pool of
// the next stage: chain calls of [Map] instead.
//
// A task may wait for the Future of any pool of the family, or for a Group that it
// has made itself. As in [Future.Wait] it runs the awaited tasks itself where that
// is possible, within the limits of their pools and of the pools between. A task
// whose context is derived from that of another task counts as a part of that
// other task. Two rules follow:
//
//   - If two sub-pools are at their limits, their tasks must not wait for tasks
//     of each other that have not started. Let them wait in one direction only, or
//     give the wait a deadline.
//   - A task that waits for a whole sub-pool, by its Wait or Shutdown, keeps its
//     worker meanwhile. If that is the only one, it waits for ever.
//
// A task may close a pool that it does not run in, such as a sibling of its own.
// Close waits for the tasks that run there, so these must not wait for the task.
//
// A task of a sub-pool that runs on no worker, by [Spawn] or [CallerRuns], is
// outside the limits of the pools above it. It runs what it waits for itself,
// beside their workers.
func (p *Pool) Sub(opts ...Option) (*Pool, error) {
	if p == nil || !p.made() {
		return nil, ErrClosed
	}
	c := defaults()
	c.up, c.kept, c.foreign = p, p.kept, p.foreign
	c.lane.Max = p.lane.Max()
	c.onPanic, c.crash, c.logger, c.tracer = p.onPanic, p.crash, p.logger, p.tracer
	return c.pool(opts)
}

// Subs returns the sub-pools of p that have not ended, in the order in which they
// were made. One that is idle and that nothing refers to may be missing: see
// [Pool.Sub].
func (p *Pool) Subs() []*Pool {
	var subs []*Pool
	for _, l := range p.lane.Below() {
		subs = append(subs, (*Pool)(l.Owner().(*owner)))
	}
	return subs
}

// A State is a stage in the life of a pool.
type State uint8

// The four states.
const (
	Open     State = iota // accepts and runs tasks
	Paused                // accepts tasks; its workers take none
	Draining              // refuses tasks; accepted ones may still run
	Closed                // no goroutine of the pool exists
)

// String is the state's name.
func (s State) String() string {
	return nameOf(int(s), "State", "Open", "Paused", "Draining", "Closed")
}

// nameOf is the name of value n of a type whose values have these names.
func nameOf(n int, kind string, names ...string) string {
	if n < 0 || n >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, n)
	}
	return names[n]
}

// State returns the pool's state.
func (p *Pool) State() State { return stateOf(p.lane.Stage()) }

func stateOf(open, paused, ended bool) State {
	switch {
	case ended:
		return Closed
	case !open:
		return Draining
	case paused:
		return Paused
	}
	return Open
}

// Pause stops the workers from taking tasks. After Pause has returned, no task
// is taken from the queue until [Pool.Resume]. A task that was taken before
// runs on, or may be just about to start. A paused pool accepts as many tasks as
// it would without the pause: its maximum of workers and its capacity. Pause
// does not block. On a pool that is paused or closed it does nothing. Shutdown
// and Close end a pause.
//
// To wait for the tasks that run, call [Pool.Stats] until Running is 0. From then on no
// worker takes a task of the pool or of its sub-pools until the pause ends. The pause
// does not hold back a task that a task of another pool of the family waits for and
// runs itself (see [Future.Wait]), nor tasks that run on no worker, which Running does
// not count: those of [CallerRuns] and [Spawn], and what a loop such as [Range] runs on
// its caller.
func (p *Pool) Pause() { p.lane.Pause() }

// Resume ends a pause, however many calls of Pause there were. On a pool that is not
// paused it does nothing.
func (p *Pool) Resume() { p.lane.Resume() }

// Resize sets the minimum and the maximum of workers. It does not wait until
// the pool has that size. A higher minimum starts workers at once. If the maximum
// grows, more start when tasks need them, and submitters that wait for free
// capacity get it at once. If there are too many workers, parked ones leave now,
// and others when their tasks end. Until then the tasks beyond the new maximum
// count against the capacity. Tasks that wait beyond the new bound stay in the
// queue.
//
// The maximums of sub-pools stay as they are. The minimum of a sub-pool is always 0.
//
// Values outside 0 ≤ min ≤ max and 1 ≤ max ≤ 1<<24, and a min above 0 for a
// sub-pool, change nothing and return an error that matches [ErrConfig]. On a pool that is shut down Resize returns
// [ErrClosed].
func (p *Pool) Resize(min, max int) error {
	if min < 0 || max < 1 || max > MaxWorkers || min > max || min > 0 && p.lane.Up() != nil {
		return fmt.Errorf("%w: Resize(%d, %d): want 0 ≤ min ≤ max, 1 ≤ max ≤ %d, and min = 0 for a sub-pool", ErrConfig, min, max, MaxWorkers)
	}
	return p.lane.Resize(min, max)
}

// Wait parks until no task of the pool is queued or running. The pool stays
// open, and others may submit meanwhile. If one does so at the moment when the last
// task ends, Wait may miss that moment, and waits for the next one. When Wait returns, all tasks that were
// accepted before the call have ended, with their deferred functions, panic
// handlers and counts. Wait does not wait for tasks of [Pool.SubmitAfter] that
// are not due yet or wait for free capacity, nor for the tasks of sub-pools. If
// the pool is paused with tasks in its queue, Wait returns only after
// [Pool.Resume].
//
// If a task of the pool or of its sub-pools calls Wait while tasks of the pool are
// queued or running, Wait panics with an error that wraps [ErrWouldDeadlock],
// because it could wait for itself. [Pool.WaitContext] returns that error instead. In a goroutine that a task has started, and in an iterator
// under [iter.Pull], Wait cannot detect this. There it waits for the task, and
// for ever if the task waits for it: use WaitContext with the task's context.
func (p *Pool) Wait() {
	if err := p.WaitContext(context.Background()); err != nil {
		panic(waitPanic{err})
	}
}

// A waitPanic is what Wait panics with.
type waitPanic struct{ error }

func (p waitPanic) Error() string {
	return strings.Replace(p.error.Error(), "called", "Wait called", 1)
}
func (p waitPanic) Unwrap() error { return p.error }

// WaitContext is [Pool.Wait] with a context. If ctx ends first, it returns
// ctx's error. If ctx is that of a task of the pool or of its sub-pools, it
// returns [ErrWouldDeadlock] at once. With a ctx that has already ended it does not
// wait: it returns nil if nothing is queued or running, and ctx's error
// otherwise. Just after a task in the queue was canceled, it may return
// ctx's error although nothing is left.
func (p *Pool) WaitContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if p.lane.TaskIn(ctx) != nil {
		return ErrWouldDeadlock
	}
	switch quiet, stopped := p.lane.Wait(ctx, p.onOwnWorker); {
	case quiet:
		return nil
	case stopped:
		return ErrWouldDeadlock
	}
	return ctx.Err()
}

// onOwnWorker reports whether the calling goroutine runs a task of p. A context would show that, but
// Wait, Close and Submit have none. So tasks are called in the name of their pool, which the stack
// shows: see package caller. Asking the stack takes microseconds, so only calls that are about to
// park do. The answer is no in goroutines that a task has started, and in iterators that iter.Pull
// runs: these have stacks of their own.
func (p *Pool) onOwnWorker() bool { return p.mayBeInTask() && p.lane.Inside() }

// mayBeInTask returns false if the caller is in no function that a pool of the family has called.
func (p *Pool) mayBeInTask() bool { return p.made() && (p.foreign.Load() || p.lane.MayBeInTask()) }

// Shutdown ends the pool gracefully. It refuses new tasks, runs those that were
// accepted, and returns nil when no goroutine of the pool exists any more.
//
// It refuses also what the accepted tasks submit, by Submit, SubmitWait, a Group, a
// Future or a Map: they get [ErrClosed]. Range, MapSlice and ForEachSlice go on if they are
// given the context of the task. So if tasks submit tasks, stop those who begin the
// work, call Wait, and then Shutdown.
//
// If ctx ends first, Shutdown drops what is queued, cancels the contexts of
// running tasks, and returns a [*ShutdownError] without waiting for them. The
// error counts the dropped and the running tasks, and unwraps to ctx's error.
// [Pool.Done] is closed when the running tasks have ended. If nothing was
// dropped or running at that moment, the result is nil. But if a callback, such
// as a worker hook, may have been running, it is a ShutdownError with both counts 0.
// If [Pool.Close] or [WithContext] dropped tasks before, it is a ShutdownError
// that unwraps to [ErrClosed].
//
// Shutdown and [Pool.Close] may be called any number of times, in any order,
// from any goroutine. All calls of Shutdown return the same result. If several
// calls run at once, the first context that ends decides the result. A call
// whose own context has not ended returns it when the running tasks have ended.
//
// Shutdown ends a pause. Submitters that wait for free capacity get [ErrClosed].
// Tasks of [Pool.SubmitAfter] that are not due yet are dropped, which is no error.
//
// If ctx is that of a task of the pool or of its sub-pools, Shutdown returns
// [ErrWouldDeadlock] and does nothing else. If only the stack shows the task, it
// returns ErrWouldDeadlock too, but the shutdown has begun, as by [Pool.Drain].
func (p *Pool) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if p.lane.TaskIn(ctx) != nil {
		return ErrWouldDeadlock
	}
	p.lane.End(false, nil)
	if done := p.lane.Done(); !done.IsOpen() && p.onOwnWorker() {
		return ErrWouldDeadlock
	} else if !done.WaitOr(ctx.Done()) {
		p.lane.End(true, ctx.Err())
		// If no function of the user runs, the goroutines that are left run only the pool's own
		// code, and do not keep join waiting. Such a function may run on a worker that has left the
		// lane of its task, and that lane may have ended. So both flags are those of the family.
		if cut := p.lane.Outcome(p.foreign.Load(), ctx.Err()); cut != nil {
			return (*ShutdownError)(cut)
		}
	}
	p.join()
	if cut := p.lane.Outcome(false, nil); cut != nil {
		return (*ShutdownError)(cut)
	}
	return nil
}

// Drain begins what [Pool.Shutdown] does, and does not wait. The pool refuses
// new tasks, and ends when those that were accepted have run. Then [Pool.Done]
// is closed. A task of the pool may call Drain.
//
// To retire a sub-pool to which others may be about to submit, take it out of the
// table in which they look it up, and call Drain: Close would drop their tasks.
// Those who get [ErrClosed] look it up again, and get a new one. Keep the old one
// until it is done, and then add its [Pool.Stats] to the total.
func (p *Pool) Drain() { p.lane.End(false, nil) }

// Close ends the pool at once. It refuses new tasks and drops what is queued:
// those tasks count in [Stats].Dropped, and callers that wait for them get
// [ErrDropped]. It cancels the contexts of running tasks, waits for them, and
// returns nil when no goroutine of the pool exists any more, but for the last
// instructions of one that ends. A task without a context cannot be interrupted;
// Close waits for it too.
//
// If a task of the pool or of its sub-pools calls Close, it begins all that and
// returns [ErrWouldDeadlock], since it cannot wait for the task that calls it. A
// goroutine that a task has started, and an iterator under [iter.Pull], do not
// count as the task here: if the task waits for them, Close must not be called
// there.
func (p *Pool) Close() error {
	p.lane.End(true, ErrClosed)
	if !p.lane.Done().IsOpen() && p.onOwnWorker() {
		return ErrWouldDeadlock
	}
	p.join()
	return nil
}

// Done returns a channel that is closed when the last goroutine of the pool has
// left. A sub-pool whose Done was called stays in memory until it has ended.
func (p *Pool) Done() <-chan struct{} { return p.lane.Ending().C() }

// join waits for the last goroutine of the pool. That goroutine opens done as
// its last act, and exits a moment later. If done was open already, it may be
// exiting just now on another CPU. A few yields take longer than that.
func (p *Pool) join() {
	p.lane.Done().Wait()
	for range 3 {
		sy.Yield()
	}
}
