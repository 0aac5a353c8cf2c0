package shoal

import (
	"cmp"
	"context"
	"fmt"
	_ "sync/atomic" // so that the compiler inlines the atomics, to which package sy gives other names

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Group runs tasks on a pool and waits for all of them. It is made by
// [Pool.Group]. Its contract is that of golang.org/x/sync/errgroup: the first
// task that fails cancels the group's context, and Wait returns its error. It
// goes further where errgroup stops: a panic is an error too, Go stops waiting
// when the context ends, and tasks that have not started by then do not start.
//
// A group may be used again after Wait. It begins anew, with a context of its
// own and no error. Any number of goroutines may call its methods, also its own
// tasks. Only Wait and Stop must not be called by a task of the group, which
// would wait for itself for ever. [Stats].Stalled shows that if no worker is left and
// others wait.
type Group struct {
	p      *Pool
	parent context.Context
	groupConfig
	helps bool // it was made in a task of the family: that task runs tasks of the group itself

	round sy.Pointer[round] // the latest
	first round             // saves an allocation
}

type groupConfig struct {
	collect bool
	limit   int   // 0: none
	invalid error // why the group takes no tasks
}

// A round is what happens from the first Go to the return of Wait. It is the
// group's context too. It is over once Wait was called and no task is left. The
// next Go begins another round.
type round struct {
	lazyContext
	awaited // the group's tasks; its lock guards what follows, up to gate
	g       *Group
	tasks   int        // that have not ended, also those whose Go waits
	places  int        // calls of Go so far; the number of a call is its place
	atLimit []sy.Event // of calls of Go that wait at the limit, in order: set when the task may start
	waited  bool       // a goroutine is in Wait, or has given up waiting
	gate    sy.Gate    // shut while a goroutine is in Wait and tasks are left

	errs  failures
	first groupTask // saves an allocation
}

// A groupTask is a task of a group, and the context it is given.
type groupTask struct {
	call
	context.Context // the round, or one that is derived from that
	r               *round
	f               func(context.Context) error
	place           int
}

// A GroupOption configures a [Group].
type GroupOption interface{ apply(*groupConfig) }

type groupOption func(*groupConfig)

func (o groupOption) apply(c *groupConfig) { o(c) }

// CollectErrors makes Wait return all errors of the group's tasks, joined by
// [errors.Join] in the order of Go, and not only the first. So the text of the result
// may have several lines. If the group's context ends, its error counts once, however many
// tasks return it. No error of a task cancels the context.
func CollectErrors() GroupOption { return groupOption(func(c *groupConfig) { c.collect = true }) }

// Limit bounds the tasks of the group that are accepted and have not ended:
// [Group.Go] waits while there are n. n must be at least 1.
// Without Limit only the pool limits the group's tasks.
//
// A task must not wait at the limit. So if a task of the pool or of its sub-pools
// calls Go there, Go runs the new task itself, beyond the limit. If the caller is
// a task of another pool of the family, or is nested in 64 others, Go
// submits the new task, beyond the limit. So Limit does not bound a walk of a tree in
// which tasks call Go. Bound the pool instead, or a sub-pool.
func Limit(n int) GroupOption {
	return groupOption(func(c *groupConfig) {
		c.limit = n
		if n < 1 {
			c.invalid = fmt.Errorf("%w: Limit(%d): want at least 1", ErrConfig, n)
		}
	})
}

// Group makes a group of tasks on p. Its context is derived from ctx. If the
// group cannot work, because of a nil pool, a nil ctx or an invalid option, it
// runs nothing, its context has ended, and its Wait returns the reason. A nil
// Group and the zero Group are like that too, with [ErrClosed].
//
// A group has one pool. If an error of any of several groups is to end all of them,
// give them one context of [context.WithCancelCause], and let a task that fails call
// its cancel with the error. If tasks of two groups call Go of each other's group,
// neither Wait is the end of both.
//
// A task of p, or of a pool of p's family, that makes a group may wait for it.
// Wait then runs the tasks of the group that have not started, so groups in
// groups finish on one worker. Within one pool this holds whichever context the
// group is given: if ctx is not that of a running task, Group asks the stack,
// which takes microseconds. A task that waits for a group that no task has
// made runs none of its tasks, and keeps its worker meanwhile: with one worker it
// may wait for ever. A goroutine that the task has started, and an iterator under
// [iter.Pull], have stacks of their own: pass the task's context on there.
//
// If the tasks of a group on one pool of a family make groups on another one,
// give each group its task's context. Such a task may run on another worker than
// the task that waits for it, and then has to take that task's place under the
// maximum of a sub-pool. Only the context shows which task that is. Without it,
// these tasks may wait for each other for ever.
func (p *Pool) Group(ctx context.Context, opts ...GroupOption) *Group {
	g := &Group{p: p, parent: ctx}
	apply(&g.groupConfig, opts)
	switch {
	case ctx == nil:
		g.parent, g.invalid = context.Background(), errNilContext
	case p == nil || !p.made():
		g.invalid = ErrClosed
	case g.invalid == nil:
		g.helps = callerIn(p, ctx).any()
	}
	g.round.Store(g.begin(&g.first))
	if g.invalid != nil {
		g.first.end(g.invalid)
	}
	return g
}

// unable is why g runs nothing; nil: it does.
func (g *Group) unable() error {
	if g == nil || g.p == nil && g.invalid == nil {
		return ErrClosed
	}
	return g.invalid
}

// begin makes r a round of g.
func (g *Group) begin(r *round) *round {
	r.g, r.parent, r.errs.collect = g, g.parent, g.collect
	return r
}

// lock locks the latest round. If that is over, it begins another one.
func (g *Group) lock() *round {
	for {
		r := g.round.Load()
		r.mu.Lock()
		if !r.over() {
			return r
		}
		r.mu.Unlock()
		g.round.CompareAndSwap(r, g.begin(new(round)))
	}
}

// Go submits f to the pool. It follows the rules of [Pool.SubmitContext] and of
// Submit, blocks as they do, and also at the group's limit; see [Limit]. If f is not
// accepted, the reason is an error of the group: [ErrNilTask], [ErrClosed], or
// [ErrQueueFull].
//
// f is given a context derived from the group's. When the group's context ends
// (see [Group.Context]), tasks that have not started do not start, and a Go that
// waits returns.
func (g *Group) Go(f func(context.Context) error) {
	if g.unable() != nil {
		return
	}
	r, place, turn := g.enter(refuseAtLimit)
	put := func(it queue.Item, _ context.Context) error { return g.p.byPolicy(it, r) }
	if place == 0 {
		then := waitAtLimit
		if n := g.p.lane.Nesting(g.parent); n > 0 {
			then = passLimit
			if kernel.Nests(n) {
				put = func(it queue.Item, _ context.Context) error { return g.p.lane.RunInline(it, n+1) }
			}
		}
		r, place, turn = g.enter(then)
	}
	if !turn.IsZero() {
		sy.Reach("limit")
		turn.WaitOr(r.Done()) // after which no task of r starts
	}
	r.submit(f, place, put, nil)
}

// TryGo is a [Group.Go] that never waits. It reports whether f was accepted. If
// the group's limit is reached, or the pool has no free capacity, TryGo returns
// false, whatever the pool's policy, and f does not run. This is no error of the
// group. If f is not accepted for another reason, TryGo returns false too, and
// the reason is an error of the group, as with Go.
//
// After [Group.Wait] a call of TryGo makes the group begin anew, as one of Go
// does, also if it returns false.
func (g *Group) TryGo(f func(context.Context) error) bool {
	if g.unable() != nil {
		return false
	}
	r, place, _ := g.enter(refuseAtLimit)
	put := func(it queue.Item, _ context.Context) error { return g.p.put(it, kernel.Reject, r) }
	return place > 0 && r.submit(f, place, put, ErrQueueFull)
}

// over reports whether no task is left, and none comes any more. Locked.
func (r *round) over() bool { return r.waited && r.tasks == 0 }

// What becomes of a task that comes when the limit is reached.
const (
	refuseAtLimit = iota // it is not counted, and its place is 0
	waitAtLimit          // turn is set when it is to start
	passLimit            // it starts, beyond the limit
)

// enter counts a task of the latest round, and returns its place. At the limit it does what atLimit
// says.
func (g *Group) enter(atLimit int) (r *round, place int, turn sy.Event) {
	r = g.lock()
	defer r.mu.Unlock()
	if atLimit != passLimit && r.isFull() {
		if atLimit == refuseAtLimit {
			return r, 0, turn
		}
		turn = sy.MakeEvent()
		r.atLimit = append(r.atLimit, turn)
	}
	r.tasks++
	r.places++
	return r, r.places, turn
}

// isFull reports whether the limit is reached by tasks that do not wait there. Locked.
func (r *round) isFull() bool { return r.g.limit > 0 && r.tasks-len(r.atLimit) >= r.g.limit }

// submit hands f, as a task that was counted, to put, which submits it. It reports whether f was
// accepted. If not, the reason is the group's error, unless it is excuse.
func (r *round) submit(f func(context.Context) error, place int, put putFunc, excuse error) bool {
	p := r.g.p
	t := &r.first
	if place > 1 || p.follows() { // a traced task refers to more than the group does
		t = new(groupTask)
	}
	t.Context, t.r, t.f, t.place = r, r, f, place
	t.Init(t, &p.lane)
	err := ErrNilTask
	if f != nil {
		err = p.submitBy(put, &t.call, t, &t.Context, "Group")
	}
	switch err {
	case nil:
		if r.list(&t.call, r.g.helps); r.Err() != nil { // whoever withdraws may have found the list without t
			r.contextEnded()
		}
		return true
	case excuse:
		err = nil
	}
	t.f = nil // t may live as long as the group
	r.leave(place, err)
	return false
}

// end ends r's context because of cause, and starts a goroutine that withdraws what has not begun: the caller may
// be a worker. If the pool stops, all that is dropped.
func (r *round) end(cause error) {
	r.lazyContext.end(cause)
	if r.unbegun() != nil && !r.g.p.lane.Stops() {
		r.g.p.lane.Go(r.contextEnded)
	}
}

// follow makes the end of the parent, too, withdraw what has not begun, until stop is called.
func (r *round) follow() (stop func()) { return follow(r.parent, nil, r) }

func (r *round) contextEnded() { r.withdraw(r) }

// leave counts a task as ended, with err. The last one ends the round, if Wait was called.
func (r *round) leave(place int, err error) {
	if err != nil {
		r.fail(place, err)
	}
	r.mu.Lock()
	r.trim() // so that it holds no task that has ended
	for r.tasks--; len(r.atLimit) > 0 && !r.isFull(); r.atLimit = r.atLimit[1:] {
		r.atLimit[0].Set() // also if its Go does not wait any more
	}
	over := r.over()
	if r.unlock(over); over {
		r.gate.Open()
		r.end(context.Canceled) // those in Wait do that too, if there are any yet
	}
}

// fail notes an error, and reports whether Wait returns it. The error of the ended context is noted once, and
// unless errors are collected, any other one comes before it.
func (r *round) fail(place int, err error) (kept bool) {
	ended := same(err, r.Err())
	if ended && !r.g.collect {
		r.errs.noteLast(err)
		return false
	}
	return r.errs.note(place, err, ended, r.end)
}

// Wait parks until all of the group's tasks have ended, and returns the first
// error, or all errors with [CollectErrors]. The error of a task that panicked
// is a [*PanicError]. If the task called [runtime.Goexit], the error is
// [ErrGoexit]; if it was discarded, [ErrDropped]; and if it was not started because
// the context had ended, the context's error. Without CollectErrors that one is
// returned only if there is no other. Wait does not wait until a worker comes to such
// a task: once the context has ended, it waits only for those that run.
//
// In the task that made the group, Wait runs tasks of the group itself; if one
// of them calls runtime.Goexit, it ends that goroutine. Call Wait in the task,
// not on another goroutine: that one would run them too.
//
// The end of each task synchronizes before the return of Wait. Wait may be
// called any number of times, and returns the same errors until Go or TryGo is called again.
func (g *Group) Wait() error { return g.WaitContext(context.Background()) }

// WaitContext is [Group.Wait] with a context. If ctx ends first, it returns the
// group's first error if there is one and [CollectErrors] is not set, and ctx's
// error otherwise. The group's tasks go on. The group begins anew when they
// have ended, as after Wait.
func (g *Group) WaitContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if err := g.unable(); err != nil {
		return err
	}
	r := g.round.Load()
	var h helper
	if g.helps {
		h = callerIn(g.p, g.parent) // it may be another goroutine than that of Group
	}
	r.mu.Lock()
	if !r.waited && r.tasks > 0 {
		r.gate.Shut()
	}
	r.waited = true
	over := r.over()
	r.mu.Unlock()
	var err error
	switch {
	case over:
	case h.any() || ctx.Done() != nil:
		sy.Reach("wait for a group")
		err = r.await(ctx, &g.p.lane, r.over, func(n kernel.Nudger) kernel.Outcome { return h.help(r.unbegun, n) }, r.follow)
	default:
		sy.Reach("wait for a round")
		defer r.follow()()
		r.gate.Wait()
	}
	switch {
	case err == nil:
		r.end(context.Canceled) // the goroutine that has ended the round may not have done that yet
	case g.collect:
		return err
	}
	return cmp.Or(r.errs.result(), err)
}

// Stop cancels the group's context, and then waits and returns as [Group.Wait] does. Use it
// with defer: no task of the group outlives the function. If tasks did not start because of
// Stop, and none failed, it returns [context.Canceled].
func (g *Group) Stop() error {
	if g.unable() == nil {
		g.round.Load().end(context.Canceled)
	}
	return g.Wait()
}

// Context returns the group's context. It ends when a task fails, unless
// [CollectErrors] is set; when all tasks have ended and Wait returns; when Stop is
// called; when the pool is closed while a task runs; and when the
// context that the group was made with ends. [context.Cause] returns why. After Wait,
// Context returns the context that has ended, until Go or TryGo is called again.
func (g *Group) Context() context.Context {
	if g == nil || g.round.Load() == nil {
		ctx, cancel := context.WithCancel(context.Background()) // the nil or zero Group
		cancel()
		return ctx
	}
	return g.round.Load()
}

// Run and the methods below make a groupTask the body of its call.
func (t *groupTask) Run() error {
	return take(&t.f)(given(&t.call, t))
}

func (t *groupTask) Refused() error         { return cmp.Or(t.r.Err(), t.Context.Err()) }
func (t *groupTask) Outer() context.Context { return t.r.parent }
func (t *groupTask) Over(error)             { t.SetOver() }
func (t *groupTask) Cut(cause error)        { t.r.end(cause) }

// Returns reports whether Wait returns e. If only the first error is returned, it notes e already,
// since e is logged if it is not the first one.
func (t *groupTask) Returns(e error) bool { return t.r.g.collect || t.r.fail(t.place, e) }

func (t *groupTask) Resolve(err error) {
	t.f = nil
	t.r.leave(t.place, err)
}

// Value shows the pool that the context belongs to one of its tasks.
func (t *groupTask) Value(key any) any { return t.call.Value(key, t.Context) }
func (t *groupTask) String() string    { return fmt.Sprint(t.Context) }
