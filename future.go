package shoal

import (
	"context"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

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
// [ErrConfig] for a nil ctx, [ErrQueueFull], or ctx's error.
//
// f is given a context derived from ctx. That context ends with ctx, when f
// returns, and when the pool is closed. If ctx ends before f has started, f
// does not run, and the result is ctx's error: at once if somebody is in
// [Future.Wait], else when a worker comes to the task. The result of a task that
// is discarded is [ErrDropped], that of a panic a [*PanicError], which is not
// logged, that of runtime.Goexit [ErrGoexit].
func Go[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) *Future[T] {
	u, _ := start(ctx, p, f, p.byPolicy)
	return u
}

// TryGo is [Go], but never waits: if there is no free capacity it returns
// [ErrQueueFull], whatever the pool's policy, as [Pool.TrySubmit] does. If f is not
// accepted, TryGo returns the reason, and no Future.
func TryGo[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error)) (*Future[T], error) {
	u, err := start(ctx, p, f, func(it queue.Item, ctx context.Context) error { return p.put(it, kernel.Reject, ctx) })
	if err != nil {
		return nil, err
	}
	return u, nil
}

// start makes f a task of p and submits it by put. If it is not accepted, the reason is also the
// result of the Future.
func start[T any](ctx context.Context, p *Pool, f func(context.Context) (T, error), put putFunc) (*Future[T], error) {
	u := &Future[T]{futureTask[T]{f: f}}
	err := u.t.submit(&u.t, ctx, p, f != nil, "Future", put)
	if err != nil {
		u.t.Resolve(err)
	}
	return u, err
}

func (t *futureTask[T]) Run() (err error) {
	t.val, err = take(&t.f)(t.given())
	return err
}

// Resolve drops f with what it captured, also if f did not run.
func (t *futureTask[T]) Resolve(err error) {
	t.f = nil
	t.waitedCall.Resolve(err)
}

// Wait parks until there is a result and returns it. If ctx ends first, Wait
// returns ctx's error, and the task goes on, unless its own context has ended before
// it has started.
//
// If ctx is the context of a task of the same pool, or derived from it, and f
// has not started, Wait runs f itself, on the spot. So tasks that wait for
// tasks finish, however few workers there are. This holds while the pool is
// paused too. If f calls [runtime.Goexit] there, it ends the goroutine of the
// waiting task. Without such a ctx, Wait may block for ever if all workers wait.
//
// A Wait that runs f returns when f does, even if ctx ends meanwhile. A task that is
// to leave at that moment selects on Done and on the end of ctx instead. But then
// f needs another worker, and if all of them wait in this way, f does not start.
//
// If ctx shows that a task waits for itself, or for a task that it runs inside
// of, Wait returns [ErrWouldDeadlock]; see also [GoKeyed]. ctx shows the tasks whose
// contexts it is derived from.
//
// Use a task's context on the task's own goroutine. Other goroutines that wait
// with it run what they wait for at the same time, beyond the pool's limit.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	var none T
	if ctx == nil {
		return none, errNilContext
	}
	if err := f.t.await(ctx); err != nil {
		if up := f.t.parent; up != nil && up.Err() != nil { // ctx may be that, or end with it
			f.t.contextEnded()
		}
		return none, err
	}
	return f.t.val, f.t.err
}

// Done returns a channel that is closed when there is a result.
func (f *Future[T]) Done() <-chan struct{} { return f.t.latch().C() }

// Cancel prevents the task from running if it has not started, and reports
// whether it did. The result is [context.Canceled] then, and the task counts in
// [Stats].Canceled. Its place in the queue is given back then; if its context ends while
// nobody is in Wait, it is not. For a task of a key see [GoKeyed]. Cancel does not
// interrupt a task that runs: for that, cancel its context.
func (f *Future[T]) Cancel() bool {
	return f.t.Withdraw(context.Canceled)
}

// A waitedCall is a call that goroutines may wait for.
type waitedCall struct {
	contextCall
	waker
	err      error    // the result; written before resolved
	resolved bool     // guarded by waker.mu, as is done
	done     sy.Latch // made by the first call of latch
}

func (c *waitedCall) Returns(error) bool { return true }

func (c *waitedCall) Resolve(err error) {
	c.mu.Lock()
	c.err = err
	c.resolved = true
	open(c.done) // before a Wait returns
	c.unlock(true)
}

// latch returns a latch that is opened when c is resolved.
func (c *waitedCall) latch() sy.Latch { return c.latchAt(&c.done, c.isResolved) }

// isResolved reports whether there is a result. Locked.
func (c *waitedCall) isResolved() bool { return c.resolved }

// await parks until c is resolved, or until ctx ends: then it returns ctx's
// error. If ctx, or the stack, shows that a task of c's family is the caller,
// await runs c, if c has not started. If c's own context ends meanwhile, c is withdrawn.
func (c *waitedCall) await(ctx context.Context) error {
	if c.is(c.isResolved) {
		return nil
	}
	h, err := helperWith(&c.call, ctx)
	if err != nil {
		return err
	}
	help := func(n kernel.Nudger) kernel.Outcome { return h.claim(&c.call, n) }
	return c.waker.await(ctx, c.Lane, c.isResolved, help, func() func() { return follow(c.parent, ctx.Done(), c) })
}

func (c *waitedCall) contextEnded() { c.Withdraw(c.parent.Err()) }

// A waker wakes the goroutines that wait for something.
type waker struct {
	mu   sy.Mutex // guards wake, and what the waiters wait for
	wake sy.Latch // made by the first waiter, and used by all until it is opened
}

// is calls over with the lock, and returns what it reports.
func (w *waker) is(over func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return over()
}

// await parks until over, which it calls with the lock, reports true, or until ctx ends: then it
// returns ctx's error. Before it parks it calls help, which runs awaited tasks of l if it can. When help
// has run nothing for the first time, await calls follow, unless that is nil, and stop when it returns: meanwhile
// the end of another context withdraws tasks.
func (w *waker) await(ctx context.Context, l *kernel.Lane, over func() bool, help func(kernel.Nudger) kernel.Outcome, follow func() (stop func())) error {
	var n kernel.Nudger // notified when the limit that kept help from running a task may be gone
	stop := func() {}
	defer func() { stop() }()
	for !w.is(over) {
		if err := ctx.Err(); err != nil && !w.is(over) {
			return err // and does not help
		}
		got := help(nil)
		if got == kernel.Ran {
			continue
		}
		if follow != nil {
			stop, follow = follow(), nil
		}
		if got == kernel.NoPlace && n == nil {
			n = &struct{ *waker }{w} // each waiter has its own
			defer l.ForgetNudger(n)
		}
		wake := w.latchAt(&w.wake, nil)
		if w.is(over) { // what came before latchAt has woken nobody
			break
		}
		if got = help(n); got == kernel.NotClaimed || got == kernel.NoPlace && n != nil {
			wake.WaitOr(ctx.Done())
		}
	}
	return nil
}

// follow makes the end of ctx call f's contextEnded, until stop is called; if ctx has ended by then, that has
// returned when stop returns. If ctx's Done is known, or panics, follow does nothing.
func follow(ctx context.Context, known <-chan struct{}, f interface{ contextEnded() }) (stop func()) {
	stop = func() {}
	defer func() { _ = recover() }()
	if done := ctx.Done(); done == nil || done == known {
		return stop
	}
	over := sy.MakeLatch()
	undo := sy.AfterDone(ctx, func() {
		defer over.Open()
		f.contextEnded()
	})
	return func() {
		switch {
		case !undo():
			over.Wait() // the pool may end once the caller has returned
		case ctx.Err() != nil:
			f.contextEnded()
		}
	}
}

// latchAt returns the latch at l, which the first call makes. It is open then if over, unless
// that is nil, reports true.
func (w *waker) latchAt(l *sy.Latch, over func() bool) sy.Latch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.IsZero() {
		*l = sy.MakeLatch()
		if over != nil && over() {
			l.Open()
		}
	}
	return *l
}

// Nudge makes the waiters look again.
func (w *waker) Nudge() {
	w.mu.Lock()
	w.unlock(true)
}

// unlock unlocks. If wakes is set, the waiters look again.
func (w *waker) unlock(wakes bool) {
	var wake sy.Latch
	if wakes {
		wake = take(&w.wake)
	}
	w.mu.Unlock()
	open(wake)
}

// An awaited holds tasks that a waiter may run itself, or withdraw, while they have not begun.
type awaited struct {
	waker
	oldest, newest *call // of those that are listed: tasks that have not begun, and some that have
}

// list lists c, unless it has begun. If wakes is set, the waiters look again: one of them may
// have to run c.
func (a *awaited) list(c *call, wakes bool) {
	a.mu.Lock()
	if c.Waits() {
		if a.trim(); a.oldest == nil {
			a.oldest = c
		} else {
			a.newest.Next = c
		}
		a.newest = c
	}
	a.unlock(wakes)
}

// unbegun is the oldest task that is listed and has not begun; nil: there is none. It does not leave
// the list while a waiter tries to claim it: the claim may fail because a lane is at its maximum, and
// others that look meanwhile must not conclude that no task is left.
func (a *awaited) unbegun() *call {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trim()
	return a.oldest
}

// withdraw cancels the tasks that are listed and have not begun: they resolve with the error of ctx, which has ended,
// before withdraw returns. Meanwhile others may begin some of them.
func (a *awaited) withdraw(ctx context.Context) {
	for c := a.unbegun(); c != nil; c = a.unbegun() {
		if !c.Withdraw(ctx.Err()) && c.Waits() {
			return // its lane stops, and is about to drop it, and all others
		}
	}
}

// trim drops the oldest tasks that have begun. Locked.
func (a *awaited) trim() {
	for a.oldest != nil && !a.oldest.Waits() {
		a.oldest = take(&a.oldest.Next) // a task that has ended must not hold others in memory
	}
	if a.oldest == nil {
		a.newest = nil
	}
}

// open opens l, if l was made.
func open(l sy.Latch) {
	if !l.IsZero() {
		l.Open()
	}
}

// A helper is a task that waits for other tasks of its family. It runs itself those that have not
// started, and nothing else (inline join, or restricted helping). So its wait does not keep them from
// being run. See [kernel.Record].
type helper struct {
	task *call        // nil: the context does not show it
	own  *kernel.Lane // the pool that it has a worker of, as the stack shows; takes precedence over task
}

// callerIn is the caller as a helper, if ctx, or else the stack, shows that it is a task of p's
// family. It asks the stack even while workers are free: they may wait for the caller later, in
// tasks that begin meanwhile.
func callerIn(p *Pool, ctx context.Context) helper {
	h := helper{task: p.lane.Task(ctx)}
	if p.mayBeInTask() {
		h.askStack(&p.lane)
	}
	return h
}

// helperWith is the caller as a helper with c, for which it waits with ctx. The error is
// [ErrWouldDeadlock] if the caller is c itself, runs inside c, or must not run c.
func helperWith(c *call, ctx context.Context) (helper, error) {
	l := c.Lane
	if l == nil {
		return helper{}, nil // of the zero Future
	}
	h := helper{task: l.Task(ctx)}
	if (c.InStrand || c.Waits()) && !h.in(l) && l.AllBusy() {
		h.askStack(l) // this is slow: only if it matters
	}
	if c.InStrand && h.any() { // other tasks of its key come first
		return h, ErrWouldDeadlock
	}
	for o := h.task; o != nil && !c.Waits(); o = o.Outer() { // a task that waits has none inside of it
		if o == c {
			return h, ErrWouldDeadlock
		}
	}
	return h, nil
}

// any reports whether there is a helper.
func (h helper) any() bool { return h.task != nil || h.own != nil }

// askStack looks on the stack for a task of a lane that is nearer to l than what is known.
func (h *helper) askStack(l *kernel.Lane) {
	for ; l != nil && !h.in(l); l = l.Up() {
		if l.Inside() {
			h.own = l
		}
	}
}

// in reports whether the task, or a task that it runs inside of, has a worker of l. A task that has
// ended has none, though its context may have been kept.
func (h helper) in(l *kernel.Lane) bool {
	if h.own != nil {
		return h.own.IsBelow(l)
	}
	for c := h.task; c != nil; c = c.Outer() {
		if c.Lane.IsBelow(l) && !c.IsOver() {
			return true
		}
	}
	return h.task != nil && l.Up() == nil
}

// claim runs c, unless there is no helper, or c has begun, or c's lane or one above it is at its maximum. In the last
// case n is notified when that may have changed.
func (h helper) claim(c *call, n kernel.Nudger) kernel.Outcome {
	if !h.any() || !c.Waits() {
		return kernel.NotClaimed
	}
	stay := c.Lane
	for !h.in(stay) {
		stay = stay.Up()
	}
	return c.Claim(stay, n)
}

// help claims the first task that next returns and that has not begun.
func (h helper) help(next func() *call, n kernel.Nudger) kernel.Outcome {
	for {
		c := next()
		if c == nil {
			return kernel.NotClaimed
		}
		if got := h.claim(c, n); got != kernel.NotClaimed || c.Waits() { // it waits if it is about to be dropped
			return got
		}
	}
}
