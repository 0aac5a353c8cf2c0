package shoal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// Submit submits task to be run once, on one of the pool's workers. It returns
// nil if the task was accepted. An accepted task runs, unless [Pool.Close],
// [WithContext], or a [Pool.Shutdown] whose context ends, of the pool or of one
// above it, drops it, or, under [DropOldest], a newer task displaces it.
//
// The workers take the tasks that one goroutine submits from the queue in the
// order of their submission. With one worker they also run in it. These tasks do
// not: one of a [Keyed], one that [Spawn] or
// [CallerRuns] runs, one that a task runs itself because the queue of its pool
// is full, and one that is run by the task that waits for it.
//
// If there is no free capacity (see [WithQueueCapacity]), Submit follows the
// pool's [FullPolicy]. Under [Block], the default, it parks until there is some,
// or the pool is shut down. Under the other policies it does not wait for
// capacity; under [CallerRuns] it returns when the task has ended. A task
// that goes into the queue costs no allocation.
//
// Under Block, Submit slows down goroutines that submit tasks without pause. While
// more tasks wait than 32,768 plus 500 for each task that runs, it parks now and
// then after the task was accepted: if one goroutine submits, about once in 4,096
// calls; if thousands do, each of them after a few calls. It parks for a few
// milliseconds as a rule and at most for about 100. So the workers get the CPUs,
// and an unbounded queue of short tasks stays short. If the workers take fewer
// than some 400,000 tasks a second, this happens only each time that the queue
// has grown four-fold, for 10 ms as a rule. Tasks of the pool, and
// [Pool.TrySubmit], do not park.
//
// A task may call Submit. If the queue of its own pool, or of a pool above that,
// is full, under Block, the task runs the new task itself, because to wait for free
// capacity could stop the whole pool. So it must not hold a lock that the new task
// takes, the new task must not wait for what the submitter does later, nor for its end,
// and if the new task calls [runtime.Goexit], the submitter ends too. If the submitter is nested
// in 64 other tasks, the new one is accepted beyond the capacity instead. So is one
// that a task submits to a pool of its family that is neither its own nor
// above it; see [Pool.Sub].
//
// The pool recognizes its tasks by their stacks. A goroutine that a task has
// started, and an iterator under [iter.Pull], have stacks of their own. There use
// [Pool.SubmitContext] with a context derived from the task's. Otherwise the call
// waits while the queue is full, and for ever if all workers wait for such calls.
//
// A task that calls [runtime.LockOSThread] should unlock the thread before it
// returns. A worker that stays locked to its thread is slower from then on, by ten
// times with short tasks, and Go offers the pool no way to find out.
//
// Errors: [ErrNilTask], [ErrClosed] and, under [Reject] and DropOldest,
// [ErrQueueFull]; also under CallerRuns and Spawn, if 1<<24 - 1 tasks run so.
func (p *Pool) Submit(task func()) error {
	if task == nil {
		return ErrNilTask
	}
	it := queue.Func(task)
	if p.lane.Submit(it) {
		return nil
	}
	return p.lane.SubmitSlow(it, kernel.Policy(p.policy), context.Background())
}

// TrySubmit is [Pool.Submit], but never waits: if there is no free capacity it
// returns [ErrQueueFull], whatever the pool's policy.
func (p *Pool) TrySubmit(task func()) error {
	if task == nil {
		return ErrNilTask
	}
	return p.put(queue.Func(task), kernel.Reject, context.Background())
}

// SubmitContext is [Pool.Submit] with a context. If ctx ends before there is free
// capacity, it returns ctx's error. If ctx ends after the task was accepted and
// before it starts, the task does not run, and counts in [Stats].Canceled. A
// task that starts is given a context derived from ctx. That context ends with
// ctx, when the task returns, and when the pool is closed; [context.Cause] then
// returns [ErrClosed].
//
// So a task that is to outlive the one that submits it must not get that task's
// context. Pass on the context of the program, which ends with Ctrl-C, say, or
// [context.WithoutCancel] of the task's if nothing is to stop the new task. Where the
// pool knows the task only by its context (see [Pool.Submit]), do both:
//
//	c, cancel := context.WithCancel(context.WithoutCancel(ctx)) // shows the task
//	stop := context.AfterFunc(program, cancel)                  // ends with the program
//	err := pool.SubmitContext(c, func(ctx context.Context) {
//		defer stop() // else program keeps c in memory
//		…
//	})
//
// If err is not nil, call stop there. If accepted tasks may be dropped before the program
// ends, use [Go], and call stop when the Future is done. If such tasks submit each other
// without end, give them the program's context: each context keeps the one before it in
// memory.
//
// Nothing reports that an accepted task did not run. Use [Pool.SubmitWait] or
// [Go] for a task whose result matters.
//
// The methods of ctx must neither panic nor end the pool, here and wherever the pool is
// given a context. If Err panics, that may end the process.
//
// Errors: those of Submit, [ErrConfig] for a nil ctx, and ctx's own error if
// ctx ends before the task is accepted. If ctx has ended before the call, the
// task is not accepted even if there is free capacity.
func (p *Pool) SubmitContext(ctx context.Context, task func(context.Context)) error {
	c := &contextTask{f: task}
	return c.submit(c, ctx, p, task != nil, "SubmitContext", p.byPolicy)
}

// SubmitWait runs task on the pool, waits for it, and returns its error. A
// panic comes back as a [*PanicError], [runtime.Goexit] as [ErrGoexit], a task
// that was discarded as [ErrDropped].
//
// SubmitWait returns when the task does not run any more. If ctx ends before the
// task has started, the task never starts, and SubmitWait returns ctx's error at
// once. If ctx ends while the task runs, the task sees its context end, and
// SubmitWait returns the task's own result when the task has returned. So
// nothing that task captured is written after the call. A caller that wants to
// leave while the task runs uses [Go], [Future.Wait] with ctx, and then [Future.Cancel].
//
// If a task of the pool or of its sub-pools calls SubmitWait, it runs the new task
// itself, so that tasks that wait for tasks cannot use up the workers. A pool that is
// shut down refuses the new task all the same. If ctx does not show the caller's task,
// SubmitWait asks the stack, which takes microseconds; and if the caller is nested in
// 64 other tasks, it submits the new one by the [FullPolicy] instead. With the task's
// context nothing bounds how deep tasks nest. If the new task calls runtime.Goexit in
// the outer one, that ends too. If a goroutine that a task has started calls SubmitWait
// with the task's context, that goroutine runs the new task, beside its own task and
// beyond the pool's limit.
//
// It waits for capacity as [Pool.SubmitContext] does, and returns that call's errors if the
// task was not accepted.
func (p *Pool) SubmitWait(ctx context.Context, task func(context.Context) error) error {
	c := &resultTask{f: task}
	put := func(it queue.Item, _ context.Context) error {
		switch {
		case !p.mayBeInTask():
		case p.lane.TaskIn(ctx) != nil: // there is no need to ask the stack
			return p.lane.RunInline(it, 0)
		case p.lane.Task(ctx) != nil && p.lane.Submit(it): // await runs it, or asks the stack if that matters
			return nil
		default:
			if n := p.lane.Nesting(ctx); kernel.Nests(n) {
				return p.lane.RunInline(it, n+1)
			}
		}
		return p.byPolicy(it, ctx)
	}
	if err := c.submit(c, ctx, p, task != nil, "SubmitWait", put); err != nil {
		return err
	}
	if err := c.await(ctx); err != nil && !c.Withdraw(err) {
		sy.Reach("outlive the context")
		c.latch().Wait() // it has begun, or is being dropped
	}
	c.f = nil // c is in memory until a worker comes to its ticket, also if it did not run
	return c.err
}

// A putFunc submits it. ctx bounds the wait for free capacity.
type putFunc = func(it queue.Item, ctx context.Context) error

// submitBy submits c by put, unless the context at up has ended. If c is not accepted, c is over,
// and its Tracer is called. See trace for own, up and kind.
func (p *Pool) submitBy(put putFunc, c *call, own context.Context, up *context.Context, kind string) error {
	err := (*up).Err()
	p.trace(c, own, up, kind)
	if err == nil {
		err = put(queue.Record(c), *up)
	}
	if err != nil {
		c.Body.Over(err)
	}
	return err
}

// put submits it. ctx bounds the wait for free capacity.
func (p *Pool) put(it queue.Item, policy kernel.Policy, ctx context.Context) error {
	if p.lane.Submit(it) {
		return nil
	}
	return p.lane.SubmitSlow(it, policy, ctx)
}

// byPolicy is put by the pool's policy.
func (p *Pool) byPolicy(it queue.Item, ctx context.Context) error {
	return p.put(it, kernel.Policy(p.policy), ctx)
}

var errNilContext = fmt.Errorf("%w: nil context", ErrConfig)

// SubmitBatch submits tasks in their order and returns how many were accepted.
// If that is not all of them, the error says why it stopped there. If a task is
// nil, it accepts none, and the error matches [ErrNilTask]. It takes capacity for up to 64
// tasks in one step, and looks for workers once a step. Otherwise it follows
// the rules of [Pool.Submit]. A call that ends with [ErrQueueFull] counts once in
// [Stats].Rejected.
func (p *Pool) SubmitBatch(tasks []func()) (int, error) {
	if i := slices.IndexFunc(tasks, func(f func()) bool { return f == nil }); i >= 0 {
		return 0, fmt.Errorf("%w: index %d of %d", ErrNilTask, i, len(tasks))
	}
	n := 0
	for n < len(tasks) {
		k := p.lane.SubmitSome(tasks[n:])
		if k == 0 {
			if err := p.lane.SubmitSlow(queue.Func(tasks[n]), kernel.Policy(p.policy), context.Background()); err != nil {
				return n, err
			}
			k = 1
		}
		n += k
	}
	return n, nil
}

// SubmitAfter submits task after d has passed, or at once if d ≤ 0. It does not
// block. Its error is [ErrNilTask] or [ErrClosed]. A call of stop prevents the
// task from being submitted, and reports whether it did. It returns false if
// the task was due, dropped or stopped before.
//
// A task that is not due yet counts nowhere, and [Pool.Wait] does not wait for
// it. When it is due, it takes its place in the queue. If there is no free
// capacity it waits for some, whatever the [FullPolicy], and others may be accepted
// before it. If the pool is shut down first, the task is dropped, and nobody is
// told. Then it counts in [Stats].Submitted and Dropped, but not in
// [ShutdownError].Dropped.
func (p *Pool) SubmitAfter(d time.Duration, task func()) (stop func() bool, err error) {
	if task == nil {
		return nil, ErrNilTask
	}
	t, err := p.lane.SubmitAfter(d, queue.Func(task))
	if err != nil {
		return nil, err
	}
	return t.Stop, nil
}

// A Func runs one function on a pool for many values. f.Submit(v) does what
// p.Submit(func() { f(v) }) does, without a closure for each v. It is made by
// [NewFunc], and any number of goroutines may use it.
type Func[T any] struct {
	p    *Pool
	f    func(T)
	free sync.Pool // of *funcTask[T] that are not in use
}

// A funcTask holds a value until f gets it. It is reused.
type funcTask[T any] struct {
	of  *Func[T]
	v   T
	run func() // its method call, made once
}

// NewFunc makes a Func that calls f on p.
func NewFunc[T any](p *Pool, f func(T)) *Func[T] { return &Func[T]{p: p, f: f} }

// Submit submits a call of f with v. It follows the rules of [Pool.Submit] and
// returns its errors; a nil f is [ErrNilTask], a nil pool [ErrClosed]. It
// allocates only to grow its free list, which the garbage collector may shrink.
func (f *Func[T]) Submit(v T) error { return f.submit(v, (*Pool).Submit) }

// TrySubmit is Submit by the rules of [Pool.TrySubmit]: it never waits.
func (f *Func[T]) TrySubmit(v T) error { return f.submit(v, (*Pool).TrySubmit) }

func (f *Func[T]) submit(v T, by func(*Pool, func()) error) error {
	if err := checkArgs(context.Background(), f.p, f.f != nil); err != nil {
		return err
	}
	t, _ := f.free.Get().(*funcTask[T])
	if t == nil {
		t = &funcTask[T]{of: f}
		t.run = t.call
	}
	t.v = v
	err := by(f.p, t.run)
	if err != nil {
		t.take()
	}
	return err
}

func (t *funcTask[T]) call() { t.of.f(t.take()) }

// take takes the value out, and gives t back to the free list.
func (t *funcTask[T]) take() T {
	v := take(&t.v)
	t.of.free.Put(t)
	return v
}

// A Reservation is a number of places of a pool: workers without a task,
// present or yet to be started. It is made by [Pool.Reserve]. Its methods never
// block, and any number of goroutines may call them.
type Reservation struct {
	p *Pool
	k *kernel.Reservation
}

// Reserve parks until a worker, present or yet to be started, is free. It then
// reserves all that are free, up to n, for tasks that the caller is going to
// fetch from elsewhere. So a consumer of a queue takes no more jobs than it can
// run. Calls that wait are served in order.
//
// A worker is free if no accepted task needs it: each task that waits needs one. None
// is free while submitters wait, or while the pool is paused. A task that waits
// behind others of its key needs no worker until they have ended. A reserved
// place counts as an accepted task, also at capacity 0. Other submitters may use
// the queue meanwhile, up to its capacity. Their tasks run on any worker, and
// before a task that the reservation submits later. A Submit, or a step of a
// SubmitBatch, that runs at the same time as Reserve may still take a place.
//
// In a family of pools (see [Pool.Sub]) the places are those of p alone, under
// its own maximum. A place of a sub-pool does not promise a worker of its parent
// at that moment, and a place of a parent does not keep its workers from its
// sub-pools.
//
// Use the places with [Reservation.Submit], or give them back with
// [Reservation.Release]. If the pool is shut down at that moment, there may be none:
// Len is 0, and Submit returns ErrClosed.
//
// Errors: [ErrConfig] if n is not positive, [ErrClosed], ctx's own error, and
// [ErrWouldDeadlock] if ctx is that of a task of the pool or of its sub-pools. Only
// ctx shows that: a task that calls Reserve with another context may wait for ever.
func (p *Pool) Reserve(ctx context.Context, n int) (*Reservation, error) {
	switch {
	case n < 1:
		return nil, fmt.Errorf("%w: Reserve(%d): want at least 1", ErrConfig, n)
	case ctx == nil:
		return nil, errNilContext
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.lane.TaskIn(ctx) != nil:
		return nil, ErrWouldDeadlock
	}
	k, err := p.lane.Reserve(ctx, n)
	if err != nil {
		return nil, err
	}
	return &Reservation{p, k}, nil
}

// held is r as the kernel knows it; one without places if r was not made by Reserve.
func (r *Reservation) held() *kernel.Reservation {
	if r == nil || r.k == nil {
		return new(kernel.Reservation)
	}
	return r.k
}

// Len is the number of places that are not used yet.
func (r *Reservation) Len() int { return r.held().Len() }

// Submit uses one of the places for task. A worker starts the task at once,
// unless other tasks were submitted to the pool's queue since. As with
// [Pool.SubmitWait] the task is given a context derived from ctx, does not
// start if ctx has ended by then, and counts as failed if it returns an error.
// But no caller waits for it. If an accepted task does not run, and lost is not
// nil, lost is called once with the reason: ctx's error, [ErrDropped], or a
// [*PanicError] if Started of the pool's [Tracer] panics. The goroutine that
// finds this out calls it, so it must be brief. If it calls [runtime.Goexit],
// that is a bug and ends the process.
//
// Errors: [ErrNilTask], [ErrClosed], [ErrConfig] for a nil ctx, ctx's own error,
// and one that matches [ErrQueueFull] if no place is left.
func (r *Reservation) Submit(ctx context.Context, task func(context.Context) error, lost func(error)) error {
	if r == nil {
		return ErrClosed
	}
	if lost != nil && r.p != nil {
		r.p.foreign.Store(true)
	}
	c := &reservedTask{f: task, lost: lost, p: r.p}
	return c.submit(c, ctx, r.p, task != nil, "Reservation", r.put)
}

func (r *Reservation) put(it queue.Item, _ context.Context) error {
	if ok, err := r.k.Submit(it); ok || err != nil {
		return err
	}
	return fmt.Errorf("%w: no place is left of the reservation", ErrQueueFull)
}

// A reservedTask is a task of [Reservation.Submit].
type reservedTask struct {
	contextCall
	p    *Pool
	f    func(context.Context) error
	lost func(error)
}

func (c *reservedTask) Run() error {
	c.lost = nil
	return c.f(c.given())
}

func (c *reservedTask) Resolve(err error) {
	if lost := take(&c.lost); lost != nil {
		c.p.callback("the lost function of a Reservation", func() { lost(err) })
	}
}

// Release gives back the places that are not used. Further calls do nothing, nor
// does one for a nil or zero Reservation.
func (r *Reservation) Release() { r.held().Release() }

// Revoked returns a channel that is closed if the pool is paused, resized to
// fewer workers, or shut down while places are left. A goroutine that waits for
// something to submit should then release the places and reserve again. Until
// it does they remain, except in a pool that is shut down. For a nil or zero
// Reservation the channel is nil.
func (r *Reservation) Revoked() <-chan struct{} { return r.held().Revoked().C() }
