package shoal

import "context"

// A Future is the result of a task that was submitted by [Go]. It is resolved
// exactly once: when the task has returned, panicked or called
// [runtime.Goexit], when it is known that the task will not run, or at once if
// the task was not accepted. Any number of goroutines may call its methods.
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

// Go submits f to p and returns the Future of its result. It follows the rules
// of [Pool.SubmitContext] and blocks as that does. If the task is not accepted,
// the Future holds the reason: [ErrNilTask], [ErrClosed] (also for a nil p),
// [ErrQueueFull], or ctx's error.
//
// f is given a context derived from ctx. That context ends with ctx, when f
// returns, and when the pool is closed. If ctx ends before f has started, f
// does not run and the result is ctx's error. The result of a task that is
// discarded is [ErrDropped], that of a panic a [*PanicError], which is not
// logged, that of runtime.Goexit [ErrGoexit].
func Go[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) *Future[T] {
	u := &Future[T]{futureTask[T]{f: f}}
	err := u.t.make(ctx, p)
	if err == nil {
		err = p.submitCall(&u.t.contextCall, p.policy, "Future")
	}
	if err != nil {
		u.t.fail(err)
	}
	return u
}

// TryGo is [Go], but never waits: if there is no room it returns [ErrQueueFull],
// whatever the pool's policy, as [Pool.TrySubmit] does. If f is not accepted TryGo
// returns the reason, and no Future.
func TryGo[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) (*Future[T], error) {
	u := &Future[T]{futureTask[T]{f: f}}
	if err := u.t.make(ctx, p); err != nil {
		return nil, err
	}
	if err := p.submitCall(&u.t.contextCall, Reject, "Future"); err != nil {
		return nil, err
	}
	return u, nil
}

// make makes t a task of p, unless something is missing.
func (t *futureTask[T]) make(ctx context.Context, p *Pool) error {
	switch {
	case t.f == nil:
		return ErrNilTask
	case p == nil:
		return ErrClosed
	case ctx == nil:
		return errNilContext
	}
	t.bind(t, ctx, p)
	return nil
}

// fail resolves t, which was not accepted because of err.
func (t *futureTask[T]) fail(err error) {
	t.SetOver()
	t.Resolve(err)
}

func (t *futureTask[T]) Run() (err error) {
	f := t.f
	t.f = nil // what it captured is not needed for as long as the result
	t.val, err = f(given(&t.call, &t.contextCall))
	return err
}

// Resolve lets go of what f captured, also where it did not run.
func (t *futureTask[T]) Resolve(err error) {
	if err == errWithdrawn {
		return
	}
	t.f = nil
	t.waitedCall.Resolve(err)
}

// Wait parks until there is a result and returns it. If ctx ends first, Wait
// returns ctx's error, and the task goes on.
//
// If ctx is the context of a task of the same pool, or derived from it, and f
// has not started, Wait runs f itself, on the spot. So tasks that wait for
// tasks finish, however few workers there are. This holds while the pool is
// paused too. If f calls [runtime.Goexit] there, it ends the goroutine of the
// waiting task. Without such a ctx, Wait may block for ever if all workers wait.
//
// A task that waits for itself, or for a task that it runs inside of as ctx
// tells, gets [ErrWouldDeadlock]; see also [GoKeyed].
//
// Use a task's context on the task's own goroutine. Other goroutines that wait
// with it run what they wait for at the same time, beyond the pool's limit.
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

// Done returns a channel that is closed when there is a result.
func (f *Future[T]) Done() <-chan struct{} { return f.t.latch().C() }

// Cancel prevents the task from running if it has not started, and reports
// whether it did. The result is [context.Canceled] then, and the task counts in
// [Stats].Canceled. Its place in the queue may be taken until a worker comes to
// it. For a task of a key see [GoKeyed]. Cancel does not interrupt a task that
// runs: for that, cancel its context.
func (f *Future[T]) Cancel() bool {
	return f.t.Withdraw(context.Canceled)
}
