package shoal

import (
	"context"
	"fmt"
	"slices"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// A State is a stage in the life of a pool.
type State uint8

// The four states.
const (
	Open     State = iota // accepts and runs tasks
	Paused                // accepts tasks, starts none
	Draining              // refuses tasks; its goroutines are on their way out
	Closed                // no goroutine of the pool exists
)

var stateNames = []string{"Open", "Paused", "Draining", "Closed"}

// String is the state's name.
func (s State) String() string { return nameOf(int(s), "State", stateNames) }

// nameOf is the name of value n of a type.
func nameOf(n int, kind string, names []string) string {
	if n < 0 || n >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, n)
	}
	return names[n]
}

// State returns the pool's state.
func (p *Pool) State() State { return stateOf(p.lane.Snapshot()) }

func stateOf(s kernel.Snapshot) State {
	switch {
	case s.Ended:
		return Closed
	case !s.Open:
		return Draining
	case s.Paused:
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
func (p *Pool) Pause() { p.lane.Pause() }

// Resume ends a pause. On a pool that is not paused it does nothing.
func (p *Pool) Resume() { p.lane.Resume() }

// Resize sets the minimum and the maximum of workers. It does not wait until
// the pool has that size. More workers start when tasks need them, and
// submitters that wait for room get it at once. If there are too many workers,
// parked ones leave now, and others when their tasks end. Until then the tasks
// beyond the new maximum count against the capacity. Tasks that wait beyond the
// new bound stay in the queue.
//
// Values outside 0 ≤ min ≤ max and 1 ≤ max ≤ 1<<24 change nothing and return an
// error that matches [ErrConfig]. On a pool that is shut down Resize returns
// [ErrClosed].
func (p *Pool) Resize(min, max int) error {
	if min < 0 || max < 1 || max > MaxWorkers || min > max {
		return fmt.Errorf("%w: Resize(%d, %d): want 0 ≤ min ≤ max and 1 ≤ max ≤ %d", ErrConfig, min, max, MaxWorkers)
	}
	if p.lane.Up() != nil && min > 0 {
		return fmt.Errorf("%w: Resize(%d, %d): the workers of a sub-pool are its parent's, want a minimum of 0", ErrConfig, min, max)
	}
	return p.lane.Resize(min, max)
}

// Wait parks until no task of the pool is queued or running. The pool stays
// open, and others may submit meanwhile. When Wait returns, all tasks that were
// accepted before the call have ended, with their deferred functions, panic
// handlers and counts. Wait does not wait for tasks of [Pool.SubmitAfter] that
// are not due yet, nor for the tasks of sub-pools. If the pool is paused with
// tasks in its queue, Wait returns only after [Pool.Resume].
//
// Called by one of the pool's own tasks, Wait would wait for itself. It panics
// with an error that wraps [ErrWouldDeadlock]; [Pool.WaitContext] returns that
// error instead. In a goroutine that a task has started, and in an iterator
// under [iter.Pull], Wait cannot tell. It waits for the task, and for ever if
// the task waits for it. Use WaitContext with the task's context there.
func (p *Pool) Wait() {
	if p.wait(context.Background()) != nil {
		panic(waitPanic{})
	}
}

// A waitPanic is what Wait panics with.
type waitPanic struct{}

func (waitPanic) Error() string {
	return "shoal: Wait " + ErrWouldDeadlock.Error()[len("shoal: "):]
}

func (waitPanic) Unwrap() error { return ErrWouldDeadlock }

// WaitContext is [Pool.Wait] with a context. If ctx ends first, it returns
// ctx's error. If ctx is that of one of the pool's own tasks, it returns
// [ErrWouldDeadlock] at once. With a ctx that has already ended it does not
// wait: it returns nil if nothing is queued or running, and ctx's error
// otherwise.
func (p *Pool) WaitContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return p.wait(ctx)
}

func (p *Pool) wait(ctx context.Context) error {
	if p.lane.InTask(ctx) {
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

// onOwnWorker reports whether the calling goroutine runs a task of p. A context tells, but Wait,
// Close and Submit have none. So tasks are called in the name of their pool, and the stack tells;
// see package caller. To ask takes microseconds, and only calls that are about to park ask. The
// answer is no for goroutines that a task has started, and in iterators that iter.Pull runs: these
// have stacks of their own.
func (p *Pool) onOwnWorker() bool { return p.lane.Depth() > 0 }

// Shutdown ends the pool gracefully. It refuses new tasks, runs those that were
// accepted, and returns nil when no goroutine of the pool exists any more.
//
// If ctx ends first, Shutdown drops what is queued, cancels the contexts of
// running tasks, and returns a [*ShutdownError] without waiting for them. The
// error counts the dropped and the running tasks, and unwraps to ctx's error.
// [Pool.Done] tells when the running tasks have ended. If nothing was dropped
// or running at that moment, the result is nil, unless a callback, such as a
// worker hook, was still running: then it is a ShutdownError with both counts
// 0.
//
// Shutdown and [Pool.Close] may be called any number of times, in any order,
// from any goroutine. All calls of Shutdown return the same result. If several
// calls run at once, the first context that ends decides it. A call whose own
// context has not ended returns it when the running tasks have ended.
//
// Shutdown ends a pause. Submitters that wait for room get [ErrClosed]. Tasks
// of [Pool.SubmitAfter] that are not due yet are dropped.
//
// If ctx is that of one of the pool's own tasks, Shutdown returns
// [ErrWouldDeadlock] and does nothing else.
func (p *Pool) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if p.lane.InTask(ctx) {
		return ErrWouldDeadlock
	}
	if !p.made() {
		return nil
	}
	p.end(false, nil)
	if done := p.lane.Done(); !done.IsOpen() && p.onOwnWorker() {
		return ErrWouldDeadlock
	} else if !done.WaitOr(ctx.Done()) {
		p.end(true, ctx.Err())
		if cut := p.cutShort(ctx.Err()); cut != nil {
			return (*ShutdownError)(cut)
		}
	}
	p.join()
	if cut := p.lane.Outcome(); cut != nil {
		return (*ShutdownError)(cut)
	}
	return nil
}

// Drain begins what [Pool.Shutdown] does, and does not wait. The pool refuses
// new tasks, and ends when those that were accepted have run; [Pool.Done] tells
// when that is. A task of the pool may call Drain.
func (p *Pool) Drain() {
	if p.made() {
		p.end(false, nil)
	}
}

// cutShort is called by a Shutdown whose context has ended. It returns nil if nothing but
// goroutines of the pool's own code is left: to join them takes no time of the user's.
func (p *Pool) cutShort(cause error) *kernel.Cut {
	foreign := p.runsForeign()
	return p.lane.SetOutcome(func(running int, ended bool) *kernel.Cut {
		if running > 0 || foreign && !ended { // Close came first, and there was nothing to drop
			return &kernel.Cut{Running: running, Cause: cause}
		}
		return nil
	})
}

// runsForeign reports whether workers of p, or of its sub-pools, run functions of the user
// that are no tasks.
func (p *Pool) runsForeign() bool {
	return p.foreign || p.kept.Load() || slices.ContainsFunc(p.Subs(), (*Pool).runsForeign)
}

// Close ends the pool at once. It refuses new tasks and drops what is queued:
// those tasks count in [Stats].Dropped, and callers that wait for them get
// [ErrDropped]. It cancels the contexts of running tasks, waits for them, and
// returns nil when no goroutine of the pool exists any more. A task without a
// context cannot be interrupted; Close waits for it too.
//
// Called by one of the pool's own tasks, Close begins all that and returns
// [ErrWouldDeadlock], since it cannot wait for the task that calls it. A
// goroutine that a task has started, and an iterator under [iter.Pull], do not
// count as the task here: if the task waits for them, Close must not be called
// there.
func (p *Pool) Close() error {
	if !p.made() {
		return nil
	}
	p.end(true, ErrClosed)
	if !p.lane.Done().IsOpen() && p.onOwnWorker() {
		return ErrWouldDeadlock
	}
	p.join()
	return nil
}

// Done returns a channel that is closed when the last goroutine of the pool has
// left.
func (p *Pool) Done() <-chan struct{} {
	if !p.made() {
		c := make(chan struct{})
		close(c)
		return c
	}
	return p.lane.Done().C()
}

// join waits for the last goroutine of the pool. That goroutine opens done as
// its last act, but takes a moment to be gone. If done was open already it
// may be in that moment now, on another CPU; letting the scheduler have a look
// takes longer than that.
func (p *Pool) join() {
	p.lane.Done().Wait()
	for range 3 {
		sy.Yield()
	}
}

// end moves p, and its sub-pools, towards their end, because of cause: they drain, or with stop
// drop what is queued.
func (p *Pool) end(stop bool, cause error) {
	p.seal()
	p.lane.End(stop, cause)
}

// seal cancels what is yet to come: no task of SubmitAfter comes any more.
func (p *Pool) seal() {
	p.dropDelayed()
	for _, s := range p.Subs() {
		s.seal()
	}
}

// follow closes the pool when parent is done.
func (p *Pool) follow(parent context.Context) {
	p.lane.Follow(parent, func() { p.end(true, ErrClosed) })
	if parent.Err() != nil {
		p.end(true, ErrClosed) // now, not when the function runs
	}
}
