package shoal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	_ "sync/atomic" // so that the compiler inlines the atomics, to which package sy gives other names
	"time"

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
// would wait for itself; [Stats].Stalled shows that.
type Group struct {
	p       *Pool
	parent  context.Context
	outer   helper // the task of p that the group was made in, if any
	collect bool
	limit   *groupLimit
	invalid error // why the group takes no tasks; constant

	// state is, in one word, the number of tasks that have not ended, in units
	// of groupOne, and bits. A task that ends sees by it, in the step that
	// counts it, whether somebody waits; who waits sees in the step that says so
	// whether a task is left. So neither misses the other.
	state sy.Uint64
	round sy.Pointer[round] // the latest

	mu    sy.Mutex // guards what follows
	idle  sy.Latch // opened for those in Wait who help or may give up: no task is left, or one to help with has come
	first round    // saves an allocation
}

const (
	groupOpen    = 1 << iota // the latest round is not over
	groupWaited              // somebody is in Wait
	groupBlocked             // somebody is in Go, at the limit
	groupOne                 // a task
)

// A round is what happens from the first Go to the return of Wait. It is the
// group's context too.
type round struct {
	lazyContext
	g      *Group
	ended  sy.Bool      // the context ends, by the group
	err    error        // the first error; guarded by Group.mu until the round is over
	errs   *groupErrors // where they are collected
	oldest *groupTask   // where the group has an outer task, its tasks, but for some that have begun; guarded by Group.mu
	newest *groupTask
	over   sy.Gate               // opened when the round is over, for those in Wait who only wait
	shut   bool                  // over is; guarded by Group.mu
	spare  sy.Pointer[groupTask] // first, until a Go has taken it
	first  groupTask             // saves an allocation
}

type groupErrors struct {
	all []groupError
	n   int // tasks
}

type groupError struct {
	i   int
	err error
}

// A groupLimit is guarded by Group.mu, but for n.
type groupLimit struct {
	n       int
	blocked []sy.Event // calls of Go at the limit
}

// A groupTask is a task of a group, and the context it is given.
type groupTask struct {
	call
	r    *round
	f    func(context.Context) error
	next *groupTask // guarded by Group.mu
	i    int
}

// A GroupOption configures a [Group].
type GroupOption interface{ applyGroup(*Group) }

type groupOption func(*Group)

func (o groupOption) applyGroup(g *Group) { o(g) }

// CollectErrors makes Wait return all errors of the group's tasks, joined by
// [errors.Join] in the order of Go, and not only the first. An error then does
// not cancel the group's context.
func CollectErrors() GroupOption { return groupOption(func(g *Group) { g.collect = true }) }

// Limit bounds the tasks of the group that are accepted and have not ended:
// there are at most n at any time, and [Group.Go] waits. n must be at least 1.
// Without Limit only the pool limits the group's tasks.
//
// A task of the pool must not wait at the limit, so its Go runs the new task
// itself, beyond the limit. Neither must a task of another pool of the family,
// or one that is nested in more than 64 others; these leave the new task to the
// pool. Give the group's pool a maximum of its own if that matters.
func Limit(n int) GroupOption {
	return groupOption(func(g *Group) {
		g.limit = &groupLimit{n: n}
		if n < 1 {
			g.invalid = fmt.Errorf("%w: Limit(%d): want at least 1", ErrConfig, n)
		}
	})
}

// Group makes a group of tasks on p. Its context is derived from ctx. If the
// group cannot work, because of a nil pool, a nil ctx or an invalid option, it
// runs nothing, and its Wait returns the reason.
//
// A task of p, or of a pool of p's family, that makes a group may wait for it.
// Wait then runs the tasks of the group that have not started, so groups in
// groups finish on one worker. Within one pool this holds whichever context the
// group is given: if ctx is not that of a running task, Group asks the stack,
// which takes about a microsecond. The stack does not tell on goroutines that
// the task has started, nor in an iterator under [iter.Pull]. Pass the task's
// context on there.
//
// If the tasks of a group on one pool of a family make groups on another one,
// give each group its task's context. Such a task may run on another worker than
// the task that waits for it, and then need that task's place under the maximum
// of a sub-pool. Only the context tells which task that is. Without it, these
// tasks may wait for each other for ever.
func (p *Pool) Group(ctx context.Context, opts ...GroupOption) *Group {
	g := &Group{p: p, parent: ctx}
	g.apply(opts)
	switch {
	case ctx == nil:
		g.invalid = errNilContext
	case p == nil:
		g.invalid = ErrClosed
	}
	if g.invalid == nil {
		g.outer = outerOf(&p.lane, ctx)
	}
	g.startLocked(&g.first)
	return g
}

func (g *Group) apply(opts []GroupOption) {
	for _, o := range opts {
		if o != nil {
			o.applyGroup(g)
		}
	}
}

// startLocked makes r the latest round.
func (g *Group) startLocked(r *round) {
	r.g = g
	if g.collect {
		r.errs = new(groupErrors)
	}
	if r.parent = g.parent; r.parent == nil {
		r.parent = context.Background()
	}
	r.spare.Store(&r.first)
	g.round.Store(r)
	g.state.Or(groupOpen)
}

// Go submits f to the pool. It follows the rules of [Pool.SubmitContext] and
// blocks as that does, and also at the group's limit; see [Limit]. If f is not
// accepted, the reason is an error of the group: [ErrNilTask], [ErrClosed], or
// [ErrQueueFull].
//
// f is given a context derived from the group's. When the group's context ends,
// because a task failed or the context ended that the group was made with,
// tasks that have not started do not start, and a Go that waits returns.
func (g *Group) Go(f func(context.Context) error) {
	if g.invalid != nil || g.p == nil {
		return
	}
	r, here, err := g.enter()
	if err != nil {
		g.fail(r, g.place(r), err)
		return
	}
	g.add(r, f, here, g.p.policy, nil)
}

// TryGo is a [Group.Go] that never waits. It reports whether f was accepted. If
// the group's limit is reached, or the pool has no room, TryGo returns false,
// whatever the pool's policy, and f does not run; that is no error of the group.
// If f is not accepted for another reason, TryGo returns false too, and the
// reason is an error of the group, as with Go.
//
// After [Group.Wait] a call of TryGo makes the group begin anew, as one of Go
// does, also if it returns false.
func (g *Group) TryGo(f func(context.Context) error) bool {
	if g.invalid != nil || g.p == nil || !g.tryEnter() {
		return false
	}
	return g.add(g.open(), f, false, Reject, ErrQueueFull)
}

// place is the place of the next task of r among those whose errors are
// collected.
func (g *Group) place(r *round) (i int) {
	if g.collect {
		g.mu.Lock()
		r.errs.n++
		i = r.errs.n
		g.mu.Unlock()
	}
	return i
}

// add submits f, by policy, as a task that was counted in r, or with here set runs
// it. It reports whether f was accepted; the reason why not is the group's error,
// unless it is excuse.
func (g *Group) add(r *round, f func(context.Context) error, here bool, policy FullPolicy, excuse error) bool {
	i := g.place(r)
	err := ErrNilTask
	if f != nil {
		err = r.refusal()
	}
	if err != nil {
		g.leave(r, i, err)
		return false
	}
	t := r.newTask()
	t.r, t.f, t.i = r, f, i
	t.Init(t, &g.p.lane)
	t.trace(g.p)
	it := queue.Record(&t.call)
	switch {
	case here:
		err = g.p.lane.RunInline(it)
	case !g.p.lane.Submit(it):
		err = g.p.lane.SubmitSlow(it, kernel.Policy(policy), r)
	}
	if err != nil {
		t.f = nil // t may live as long as the group
		fault := err
		if err == excuse {
			fault = nil
		}
		t.Body.Over(err)
		g.leave(r, t.i, fault)
		return false
	}
	if g.outer.any() {
		g.list(t)
	}
	return true
}

// newTask is a task that nobody has used. One that is followed refers to more than
// the group does.
func (r *round) newTask() *groupTask {
	if t := r.spare.Load(); t != nil && !r.g.p.follows() && r.spare.CompareAndSwap(t, nil) {
		return t
	}
	return new(groupTask)
}

// enter counts a task, when there is room for it, and returns the round it is
// in. With here set, there is none, and the caller, which must not wait, is to
// run the task. The error is that of the group's context, which ended first.
func (g *Group) enter() (r *round, here bool, err error) {
	if g.tryEnter() {
		return g.open(), false, nil
	}
	r = g.open()
	if n := g.p.lane.Nesting(r); n > 0 {
		g.state.Add(groupOne)
		return g.open(), kernel.Nests(n), nil
	}
	w := sy.MakeEvent()
	g.mu.Lock()
	g.limit.blocked = append(g.limit.blocked, w)
	g.state.Or(groupBlocked) // before the look: see leave
	g.unblockLocked()
	if slices.Contains(g.limit.blocked, w) {
		r = g.openLocked() // it stays while w is listed
	}
	g.mu.Unlock()
	sy.Reach("limit")
	if w.WaitOr(r.Done()) {
		return g.open(), false, nil
	}
	g.mu.Lock()
	i := slices.Index(g.limit.blocked, w)
	first := false
	if i >= 0 {
		place := 0 // as Go would give it
		if g.collect {
			place = r.errs.n + 1
		}
		first = g.failLocked(r, place, r.Err()) // as long as it is listed the round does not end
		g.limit.blocked = slices.Delete(g.limit.blocked, i, i+1)
		g.unblockLocked()
	}
	g.mu.Unlock()
	if first {
		r.stop(r.Err())
	}
	if i >= 0 {
		return r, false, r.Err()
	}
	w.Wait() // it was let in before the end was noticed
	return g.open(), false, nil
}

// tryEnter counts a task, unless the limit is reached, or others wait there.
func (g *Group) tryEnter() bool {
	if g.limit == nil {
		g.state.Add(groupOne)
		return true
	}
	for s := g.state.Load(); s&groupBlocked == 0 && int(s/groupOne) < g.limit.n; s = g.state.Load() {
		if g.state.CompareAndSwap(s, s+groupOne) {
			return true
		}
	}
	return false
}

// open returns the round that is open, or opens one. It stays so while the
// caller's task is counted.
func (g *Group) open() *round {
	if g.state.Load()&groupOpen != 0 {
		return g.round.Load()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openLocked()
}

func (g *Group) openLocked() *round {
	if g.state.Load()&groupOpen == 0 {
		g.startLocked(new(round))
	}
	return g.round.Load()
}

// unblockLocked lets those in who wait for the limit, while there is room, on
// their behalf.
func (g *Group) unblockLocked() {
	l := g.limit
	if l == nil {
		return
	}
	for len(l.blocked) > 0 && int(g.state.Load()/groupOne) < l.n {
		g.state.Add(groupOne)
		l.blocked[0].Set()
		l.blocked = l.blocked[1:]
	}
	if len(l.blocked) == 0 {
		g.state.And(^uint64(groupBlocked))
		l.blocked = nil
	}
}

// list keeps t for those who help, unless it has begun.
func (g *Group) list(t *groupTask) {
	r := t.r
	g.mu.Lock()
	for r.oldest != nil && !r.oldest.Waits() {
		r.unlistLocked()
	}
	if !t.Waits() {
		g.mu.Unlock()
		return
	}
	if r.oldest == nil {
		r.oldest = t
	} else {
		r.newest.next = t
	}
	r.newest = t
	g.mu.Unlock()
	g.nudge() // whoever is in Wait may have to run it
}

func (r *round) unlistLocked() {
	t := r.oldest
	r.oldest, t.next = t.next, nil
}

// help runs the tasks of r that have not started, on the goroutine of outer, and
// reports whether there were any. It stops when ctx has ended. Where the pool is a sub-pool
// without a place for that, n is told when there is one.
func (g *Group) help(ctx context.Context, r *round, outer helper, n kernel.Nudger) (any bool) {
	var tried *groupTask
	for ctx.Err() == nil {
		// It stays listed until it was claimed: others who look meanwhile must not
		// take it that there is none, should there be no place to run it here.
		g.mu.Lock()
		for r.oldest != nil && (r.oldest == tried || !r.oldest.Waits()) {
			r.unlistLocked()
		}
		t := r.oldest
		g.mu.Unlock()
		if t == nil {
			return any
		}
		switch t.Claim(outer.laneOn(&g.p.lane), n) {
		case kernel.Ran:
			any = true
		case kernel.NoPlace:
			return any
		}
		tried = t
	}
	return any
}

// nudge has those in Wait look again whether to help.
func (g *Group) nudge() { g.mu.Lock(); g.unlockAndWake() }

// A groupNudger is a Group as a kernel.Nudger.
type groupNudger Group

func (g *groupNudger) Nudge() { (*Group)(g).nudge() }

// unlockAndWake unlocks and has those in Wait look again.
func (g *Group) unlockAndWake() {
	idle := g.idle
	g.idle = sy.Latch{}
	g.mu.Unlock()
	open(idle)
}

// leave counts a task of r as ended, with err.
func (g *Group) leave(r *round, i int, err error) {
	if err != nil {
		g.fail(r, i, err)
	}
	s := g.state.Add(^uint64(groupOne - 1))
	if s&groupBlocked != 0 {
		g.mu.Lock()
		g.unblockLocked()
		g.mu.Unlock()
		s = g.state.Load()
	}
	if s < groupOne && s&groupWaited != 0 {
		g.finish(r)
	}
}

// fail notes an error of task i of r, and reports whether the group returns it as the first.
func (g *Group) fail(r *round, i int, err error) (first bool) {
	g.mu.Lock()
	first = g.failLocked(r, i, err)
	g.mu.Unlock()
	if first {
		r.stop(err)
	}
	return first
}

// failLocked is fail, but reports whether the caller must stop r, after unlocking.
func (g *Group) failLocked(r *round, i int, err error) (stop bool) {
	first := r.err == nil
	switch {
	case !g.collect:
		if first {
			r.err = err
		}
	case err != r.refusal():
		r.errs.all = append(r.errs.all, groupError{i, err})
	case first: // the context has ended: that is said once
		r.err = err
		r.errs.all = append(r.errs.all, groupError{i, err})
	}
	return first && !g.collect
}

// finish ends the round, if no task is left, and wakes those who wait.
func (g *Group) finish(r *round) {
	g.mu.Lock()
	if g.round.Load() != r { // a later one has begun
		g.mu.Unlock()
		return
	}
	g.unblockLocked() // those at the limit are in this round: its context must not end for them
	over := false
	for s := g.state.Load(); s < groupBlocked && s&groupOpen != 0; s = g.state.Load() { // no task, and nobody at the limit
		over = g.state.CompareAndSwap(s, s&^(groupOpen|groupWaited))
	}
	shut := over && r.shut
	g.unlockAndWake()
	if shut {
		r.over.Open()
	}
	if over {
		r.stop(context.Canceled) // those in Wait do that too, if there are any yet
	}
}

// Wait parks until all of the group's tasks have ended, and returns the first
// error, or all errors with [CollectErrors]. The error of a task that panicked
// is a [*PanicError], of one that called [runtime.Goexit] [ErrGoexit], of one
// that was discarded [ErrDropped], and of one that was not started because the
// context had ended the context's error.
//
// In the task that made the group, Wait runs tasks of the group itself; if one
// of them calls runtime.Goexit, it ends that goroutine. Call Wait in the task,
// not on another goroutine: that one would run them too.
//
// The end of each task synchronizes before the return of Wait. Wait may be
// called any number of times, and returns the same until Go is called again.
func (g *Group) Wait() error { return g.wait(context.Background()) }

// WaitContext is [Group.Wait] with a context. If ctx ends first, it returns the
// group's first error if there is one and [CollectErrors] is not set, and ctx's
// error otherwise. The group's tasks go on. The group begins anew when they
// have ended, as after Wait.
func (g *Group) WaitContext(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return g.wait(ctx)
}

func (g *Group) wait(ctx context.Context) error {
	if g.invalid != nil {
		return g.invalid
	}
	r := g.round.Load() // before the state: if a round is open then, r is, or has been
	if g.state.Load()&groupOpen == 0 {
		g.mu.Lock() // startLocked's two steps are one here
		r = g.round.Load()
		g.mu.Unlock()
	}
	if r == nil {
		return ErrClosed // the zero Group
	}
	outer := g.outer
	if outer.own != nil || outer.c != nil && outer.c.IsOver() {
		// The stack told then, or ctx was that of a task that has ended. This may be
		// another goroutine, in a task of another pool of the family.
		outer.own = calledFrom(&g.p.lane)
	}
	helps := outer.own != nil || outer.c != nil && !outer.c.IsOver()
	var n kernel.Nudger // told when there is a place to help
	if helps && g.p.lane.Up() != nil {
		n = &waiting{(*groupNudger)(g)}
		defer g.p.lane.Unstrand(n)
	}
	for {
		s := g.state.Load()
		switch {
		case s&groupOpen == 0, g.round.Load() != r:
			r.stop(context.Canceled)
			return r.result()
		case s < groupOne:
			g.finish(r)
			continue
		}
		if helps && g.help(ctx, r, outer, nil) {
			continue
		}
		only := !helps && ctx.Done() == nil
		g.mu.Lock()
		if g.state.Load()&groupOpen == 0 || g.round.Load() != r {
			g.mu.Unlock()
			continue // it is over: the bit would be the next round's
		}
		switch {
		case only && !r.shut:
			r.shut = true
			r.over.Shut()
		case !only && g.idle.IsZero():
			g.idle = sy.MakeLatch()
		}
		idle := g.idle
		s = g.state.Or(groupWaited) // before the look: see leave
		g.mu.Unlock()
		if s < groupOne || helps && g.help(ctx, r, outer, n) {
			continue
		}
		if only {
			sy.Reach("wait for a round")
			r.over.Wait()
			continue
		}
		sy.Reach("wait for a group")
		if err := waitFor(idle, ctx); err != nil && g.state.Load()&groupOpen != 0 && g.round.Load() == r {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.collect || r.err == nil {
				return err
			}
			return r.err
		}
	}
}

// result is what Wait returns when r is over.
func (r *round) result() error {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.collect {
		return r.err
	}
	return errors.Join(inOrder(r.errs.all)...)
}

// inOrder sorts all by place, and returns the errors.
func inOrder(all []groupError) []error {
	slices.SortStableFunc(all, func(a, b groupError) int { return cmp.Compare(a.i, b.i) })
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e.err
	}
	return errs
}

// Stop cancels the group's context and then waits as [Group.Wait] does. Use it
// with defer: no task of the group outlives the function.
func (g *Group) Stop() error {
	if r := g.round.Load(); r != nil {
		r.stop(context.Canceled)
	}
	return g.Wait()
}

// Context returns the group's context. It ends when a task fails, unless
// [CollectErrors] is set; when all tasks have ended and Wait returns; and when
// the context ends that the group was made with. After Wait it is the context
// that has ended, until Go is called again.
func (g *Group) Context() context.Context {
	r := g.round.Load()
	if r == nil {
		ctx, cancel := context.WithCancel(context.Background()) // the zero Group
		cancel()
		return ctx
	}
	return r
}

// stop ends the round's context.
func (r *round) stop(cause error) {
	r.ended.Store(true)
	r.end(cause)
}

// refusal is why a task of r must not start.
func (r *round) refusal() error {
	if r.ended.Load() {
		return r.Err()
	}
	return r.parent.Err()
}

func (t *groupTask) Refused() error         { return t.r.refusal() }
func (t *groupTask) Outer() context.Context { return t.r.parent }
func (t *groupTask) Over(error)             { t.SetOver() }

func (t *groupTask) Run() error {
	f := t.f
	t.f = nil
	return f(given(&t.call, t))
}

func (t *groupTask) Cut(cause error) { t.r.stop(cause) }

// Returns notes e, unless all errors are returned: whether it is the first one must be known
// before it is logged.
func (t *groupTask) Returns(e error) bool {
	g := t.r.g
	return g.collect || g.fail(t.r, t.i, e)
}

func (t *groupTask) Resolve(err error) {
	t.f = nil
	t.r.g.leave(t.r, t.i, err)
}

// Deadline, Done, Err and Value make a groupTask the context of its task.
func (t *groupTask) String() string              { return t.r.String() }
func (t *groupTask) Deadline() (time.Time, bool) { return t.r.Deadline() }
func (t *groupTask) Done() <-chan struct{}       { return t.r.Done() }
func (t *groupTask) Err() error                  { return t.r.Err() }

func (t *groupTask) Value(key any) any {
	if v, ok := t.call.Value(key); ok {
		return v
	}
	return t.r.Value(key)
}
