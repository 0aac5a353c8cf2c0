package shoal

import "context"

// A Future is the result of a task that [Go] has submitted. It is resolved
// exactly once: when the task has returned, panicked or called
// [runtime.Goexit], when it will not run, or at once where it was not
// accepted. Its methods may be called by any number of goroutines.
//
// The zero Future never has a result.
//
// The end of the task synchronizes before the return of a Wait that gives its
// result, and before Done is closed.
type Future[T any] struct{ t futureTask[T] }

type futureTask[T any] struct {
	waitedCall
	f   func(context.Context) (T, error)
	val T // written before it is resolved
}

// Go has p run f, and returns what will be its result. It follows the rules of
// [Pool.SubmitContext], and blocks as that does; where that would return an
// error the Future has it: [ErrNilTask], [ErrClosed] (also if p is nil),
// [ErrQueueFull], ctx's error.
//
// f is given a context derived from ctx, which ends with ctx, when f returns,
// and when the pool is closed. If ctx ends before f has started, f does not run
// and the result is ctx's error; if the task is discarded, it is [ErrDropped]; a
// panic is a [*PanicError]; runtime.Goexit is [ErrGoexit].
func Go[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) *Future[T] {
	u := &Future[T]{futureTask[T]{f: f}}
	if err := u.t.submit(ctx, p); err != nil {
		u.t.state.Store(callOver)
		u.t.resolve(err)
	}
	return u
}

func (t *futureTask[T]) submit(ctx context.Context, p *Pool) error {
	switch {
	case t.f == nil:
		return ErrNilTask
	case p == nil:
		return ErrClosed
	case ctx == nil:
		return errNilContext
	}
	t.bind(t, ctx, p)
	return p.submitCall(&t.contextCall, "Future")
}

func (t *futureTask[T]) run() (err error) {
	f := t.f
	t.f = nil // what it captured is not needed for as long as the result
	t.val, err = f(t.given(&t.contextCall))
	return err
}

// resolve lets go of what f captured, also where it did not run.
func (t *futureTask[T]) resolve(err error) {
	t.f = nil
	t.waitedCall.resolve(err)
}

// Wait parks until there is a result, and returns it, or until ctx ends; then
// it returns ctx's error, and the task goes on.
//
// Called by a task of the same pool whose context, or one derived from it, is
// ctx, Wait runs f itself, there and then, if no worker has begun with it. So
// tasks that wait for tasks finish, however few the workers are. (Where ctx is
// another one Wait tries to find out that it is called by a task, if all
// workers are busy; but a context tells for sure.) While the pool is paused
// that is done too, and runtime.Goexit in f ends the waiter's goroutine. A task
// that waits for itself, or for a task it runs inside of as ctx tells, gets
// [ErrWouldDeadlock]. A task's context is to be used on its own goroutine: several
// of a task's goroutines that wait with it run what they wait for at the same time,
// beyond the pool's limit.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	var none T
	if ctx == nil {
		return none, errNilContext
	}
	if err := f.t.await(ctx); err != nil {
		return none, err
	}
	return f.t.val, f.t.err
}

// Done is closed when there is a result.
func (f *Future[T]) Done() <-chan struct{} { return f.t.latch().C() }

// Cancel keeps f from being run, if no worker has begun with it, and reports
// whether it did. The result is [context.Canceled] then, and the task counts in
// [Stats].Canceled. Its place in the queue becomes free when a worker comes to it.
// A task that runs is not interrupted: cancel its context.
func (f *Future[T]) Cancel() bool {
	t := &f.t
	return t.pool != nil && t.pool.withdraw(&t.call, context.Canceled)
}
