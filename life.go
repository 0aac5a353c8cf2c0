package shoal

import (
	"context"
	"fmt"

	"github.com/shoal-go/shoal/internal/queue"
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

var stateNames = [...]string{"Open", "Paused", "Draining", "Closed"}

// String is the state's name.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// made reports whether p was made by New. The zero Pool has no clock.
func (p *Pool) made() bool { return !p.epoch.IsZero() }

// State returns the pool's state.
func (p *Pool) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stateLocked()
}

func (p *Pool) stateLocked() State {
	switch {
	case !p.made() || p.done.IsOpen():
		return Closed
	case p.phase != phaseOpen:
		return Draining
	case p.paused:
		return Paused
	}
	return Open
}

// Pause stops the workers from taking tasks. After Pause has returned, no task
// is taken from the queue until [Pool.Resume]. A task that was taken before
// runs on, or may be just about to start. The queue accepts tasks up to its
// capacity. Pause does not block. On a pool that is paused or closed it does
// nothing. Shutdown and Close end a pause.
func (p *Pool) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase != phaseOpen || p.paused {
		return
	}
	p.paused = true
	p.setAttentionLocked() // from here on no worker takes a ticket
	p.setAvailLocked(0)
	p.limit.Store(0) // there is less room now: have submitters look
	p.revokeLocked()
}

// Resume ends a pause. On a pool that is not paused it does nothing.
func (p *Pool) Resume() {
	p.mu.Lock()
	p.unpauseLocked()
	p.setAttentionLocked()
	p.setAvailLocked(0)
	p.promoteLocked()
	p.mu.Unlock()
	p.rearm()
}

// unpauseLocked ends a pause, if there is one.
func (p *Pool) unpauseLocked() {
	if p.paused && p.watch != nil {
		p.watch.outAt = p.now() // a pool is not stalled while it is paused
	}
	p.paused = false
}

// Resize sets the minimum and the maximum of workers. It does not wait until
// the pool has that size. More workers start when tasks need them, and
// submitters that wait for room get it at once. If there are too many workers,
// parked ones leave now, and others when their tasks end.
//
// Values outside 0 ≤ min ≤ max and 1 ≤ max ≤ 1<<24 change nothing and return an
// error that matches [ErrConfig]. On a pool that is shut down Resize returns
// [ErrClosed].
func (p *Pool) Resize(min, max int) error {
	if min < 0 || max < 1 || max > MaxWorkers || min > max {
		return fmt.Errorf("%w: Resize(%d, %d): want 0 ≤ min ≤ max and 1 ≤ max ≤ %d", ErrConfig, min, max, MaxWorkers)
	}
	if p.up != nil && min > 0 {
		return fmt.Errorf("%w: Resize(%d, %d): the workers of a sub-pool are its parent's, want a minimum of 0", ErrConfig, min, max)
	}
	var off []*worker
	p.mu.Lock()
	if p.phase != phaseOpen {
		p.mu.Unlock()
		return ErrClosed
	}
	if max < p.max {
		p.revokeLocked()
	}
	p.min, p.max = min, max
	for p.idle.n > 0 && (p.tooManyLocked() || p.config.idle == 0 && p.live-p.departing > min) {
		w := p.idle.bottom
		p.idle.remove(w)
		w.parked = false
		p.departLocked(w)
		off = append(off, w)
	}
	fresh := p.fillLocked()
	p.setAttentionLocked()
	p.limit.Store(0)
	p.promoteLocked()
	p.armReclaimLocked(p.now())
	p.mu.Unlock()
	startAll(fresh)
	for _, w := range off {
		w.wakeup.Set()
	}
	p.rearm()
	p.nudge()
	return nil
}

// A quieter is a goroutine that waits for the pool to be quiet.
type quieter struct {
	woken sy.Event
	tail  uint64 // when it began to wait; a moment before does not count
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
	if p.inTask(ctx) {
		return ErrWouldDeadlock
	}
	if err := ctx.Err(); err != nil { // it is a question
		p.mu.Lock()
		_, ok := p.quietLocked()
		p.mu.Unlock()
		switch {
		case ok:
			return nil
		case p.onOwnWorker():
			return ErrWouldDeadlock
		}
		return err
	}
	q := &quieter{woken: sy.MakeEvent()}
	p.waiting.Add(1) // before the look; pairs with quiet
	defer p.waiting.Add(-1)
	p.mu.Lock()
	if _, ok := p.quietLocked(); ok {
		p.mu.Unlock()
		return nil
	}
	q.tail = p.tail.Load() &^ sealedBit
	p.quieters = append(p.quieters, q)
	p.mu.Unlock()
	if p.onOwnWorker() {
		p.forget(q)
		return ErrWouldDeadlock
	}
	if q.woken.WaitOr(ctx.Done()) || !p.forget(q) {
		return nil
	}
	return ctx.Err()
}

// forget takes q off the list, unless it was woken.
func (p *Pool) forget(q *quieter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.quieters {
		if o == q {
			p.quieters = append(p.quieters[:i], p.quieters[i+1:]...)
			return true
		}
	}
	return false
}

// quietLocked reports whether nothing is queued or running, and tail.
func (p *Pool) quietLocked() (tail uint64, ok bool) {
	h := p.head.Load() // first: tail is never behind it
	tail = p.tail.Load() &^ sealedBit
	return tail, headBusy(h) == p.lent && p.outside == 0 && p.turning == 0 && ahead(tail, headTicket(h)) == p.husks.Load()
}

// quiet is called by a worker that made the head word h by finishing a task.
// If that was a quiet moment, it wakes those who wait for one. A goroutine
// that begins to wait counts itself in waiting, then looks at head; here head
// was changed before the look at waiting.
func (p *Pool) quiet(h uint64) {
	if p.waiting.Load() == 0 {
		return
	}
	if p.lends.Load() || p.husks.Load() > 0 {
		p.mu.Lock() // who is busy may serve a sub-pool, what is queued be husks
		p.notifyLocked()
		p.mu.Unlock()
		return
	}
	// What runs outside may submit tasks, or leave turns that become tickets, before
	// it ends: either tail shows these, or it ended after this, and then that moment
	// was not quiet.
	left := p.outLeft.Load()
	tail := p.tail.Load() &^ sealedBit
	if headBusy(h) != 0 || tail&ticketMask != headTicket(h) {
		return
	}
	p.mu.Lock()
	if p.outLeft.Load() == left {
		p.wakeQuietersLocked(tail)
	} else {
		p.notifyLocked()
	}
	p.mu.Unlock()
}

// notifyLocked wakes those who wait for a quiet moment, if this is one.
func (p *Pool) notifyLocked() {
	if len(p.quieters) == 0 {
		return
	}
	if tail, ok := p.quietLocked(); ok {
		p.wakeQuietersLocked(tail)
	}
}

// wakeQuietersLocked wakes those who wait, after a moment when all tickets up
// to tail were finished and no more were given out. It may have passed: who
// began to wait after it, and perhaps submitted before, must not be woken.
func (p *Pool) wakeQuietersLocked(tail uint64) {
	if p.outside != 0 || p.turning != 0 {
		return
	}
	keep := p.quieters[:0]
	for _, q := range p.quieters {
		if q.tail <= tail {
			q.woken.Set()
		} else {
			keep = append(keep, q)
		}
	}
	clear(p.quieters[len(keep):])
	p.quieters = keep
}

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
	if p.inTask(ctx) {
		return ErrWouldDeadlock
	}
	if !p.made() {
		return nil
	}
	p.end(phaseDraining, nil)
	if !p.done.IsOpen() && p.onOwnWorker() {
		return ErrWouldDeadlock
	}
	if !p.done.WaitOr(ctx.Done()) {
		p.end(phaseStopping, ctx.Err())
		if err := p.cutShort(ctx.Err()); err != nil {
			return err
		}
	}
	p.join()
	return p.result()
}

// Drain begins what [Pool.Shutdown] does, and does not wait. The pool refuses
// new tasks, and ends when those that were accepted have run; [Pool.Done] tells
// when that is. A task of the pool may call Drain.
func (p *Pool) Drain() {
	if p.made() {
		p.end(phaseDraining, nil)
	}
}

// cutShort is called by a Shutdown whose context has ended. It returns nil
// where nothing but goroutines of the pool's own code is left, so that joining
// them takes no time of the user's.
func (p *Pool) cutShort(cause error) error {
	below := p.subsRunning()
	foreign := p.runsForeign()
	p.mu.Lock()
	defer p.mu.Unlock()
	running := headBusy(p.head.Load()) + p.outside + below
	switch {
	case p.outcome != nil:
		return p.outcome
	case running > 0: // Close came first, and there was nothing to drop
		p.outcome = &ShutdownError{Running: running, Cause: cause}
		return p.outcome
	case foreign && !p.done.IsOpen(): // that may be what is waited for, for how long is unknown
		p.outcome = &ShutdownError{Cause: cause}
		return p.outcome
	}
	return nil
}

// runsForeign reports whether workers of p, or of its sub-pools, run functions of the user
// that are no tasks.
func (p *Pool) runsForeign() bool {
	if p.foreign || p.kept.Load() {
		return true
	}
	for _, s := range p.Subs() {
		if s.runsForeign() {
			return true
		}
	}
	return false
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
	p.end(phaseStopping, ErrClosed)
	if !p.done.IsOpen() && p.onOwnWorker() {
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
	return p.done.C()
}

// join waits for the last goroutine of the pool. That goroutine opens done as
// its last act, but takes a moment to be gone. Where done was open already it
// may be in that moment now, on another CPU; letting the scheduler have a look
// takes longer than that.
func (p *Pool) join() {
	p.done.Wait()
	for range 3 {
		sy.Yield()
	}
}

// result is what all calls of Shutdown report.
func (p *Pool) result() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outcome != nil {
		return p.outcome
	}
	return nil
}

// end moves the pool to phase to, if it has not been there, because of cause.
func (p *Pool) end(to phase, cause error) {
	var (
		roused  []*worker
		orphans []queue.Item
		calls   []*call
		seg     *queue.Segment
		ticket  uint64
		queued  uint64
	)
	below := 0
	if to == phaseStopping && p.lends.Load() {
		below = p.subsRunning()
	}
	p.mu.Lock()
	if p.phase == phaseOpen {
		p.phase = phaseDraining
		p.sealLocked()
		p.unpauseLocked()
		orphans = p.refuseLocked()
		p.endReservationsLocked()
		p.dropOutsideLocked(len(orphans))
		p.dropDelayedLocked()
		if p.reclaimAt != 0 && p.reclaim.Stop() {
			p.reclaimAt = 0
			p.helpers--
		}
	}
	if to == phaseStopping && p.phase != phaseStopping {
		p.phase = phaseStopping
		seg = p.front.Load()
		var left int
		ticket, queued, left = p.dropAllLocked(seg)
		p.canceling.Store(true) // before the look at the workers' calls
		calls = p.runningCallsLocked()
		left += p.dropParkedLocked()
		running := headBusy(p.head.Load()) + p.outside + below
		if left > 0 || running > 0 && cause != ErrClosed {
			p.outcome = &ShutdownError{Dropped: left, Running: running, Cause: cause}
		}
	}
	p.setAttentionLocked()
	p.setAvailLocked(0)
	for w := p.idle.top; w != nil; w = p.idle.top {
		p.rouseLocked(w, 1)
		roused = append(roused, w)
	}
	p.notifyLocked()
	last := false
	if len(orphans) > 0 || queued > 0 || len(calls) > 0 {
		p.helpers++ // to tell of them calls functions of the user: the pool is not over before
		defer p.helperDone()
	} else {
		last = p.endLocked()
	}
	p.mu.Unlock()

	for _, w := range roused {
		w.wakeup.Set()
	}
	if p.lends.Load() {
		p.endSubs(to, cause)
	}
	p.tidyLane()
	p.rearm()
	for _, it := range orphans {
		discard(it, ErrDropped)
	}
	for ; queued > 0; queued-- {
		var it queue.Item
		it, seg = p.takeCell(seg, ticket&ticketMask)
		ticket++
		discard(it, ErrDropped)
	}
	for _, c := range calls {
		c.body.end(ErrClosed)
	}
	if last {
		p.finish()
	}
}

// sealLocked seals tail: from here on nobody is admitted.
func (p *Pool) sealLocked() {
	for {
		t := p.tail.Load()
		if t&sealedBit != 0 || p.tail.CompareAndSwap(t, t|sealedBit) {
			return
		}
	}
}

// dropAllLocked takes all n tickets that wait, from first on. tail is sealed.
// The caller empties the cells. Of the tasks dropped are discarded; others were
// begun, by who claimed them. seg is from front.
func (p *Pool) dropAllLocked(seg *queue.Segment) (first, n uint64, dropped int) {
	for {
		h := p.head.Load()
		first = headTicket(h)
		n = ahead(p.tail.Load(), first)
		if p.head.CompareAndSwap(h, h+n<<ticketBit) {
			husks := p.husksLocked(seg, first, n)
			p.passed += husks
			p.dropped += n - husks
			return first, n, int(n - husks)
		}
	}
}

// runningCallsLocked returns the tasks that run and have a context. One that
// starts now is not among them, and sees canceling.
func (p *Pool) runningCallsLocked() (calls []*call) {
	for _, w := range p.workers {
		if w != nil {
			if c := w.call.Load(); c != nil {
				calls = append(calls, c)
			}
		}
	}
	for c := range p.outCalls.m {
		calls = append(calls, c)
	}
	return calls
}

// finish opens done. It is the last act of the pool's last goroutine.
func (p *Pool) finish() {
	switch {
	case p.up == nil:
		p.done.Open()
	case p.up.removeSub(p):
		p.up.finish()
	default:
		p.up.tidyLane()
	}
}

// endLocked reports whether the calling goroutine is the pool's last: then it
// must call finish, as its last act.
func (p *Pool) endLocked() bool {
	if p.phase < phaseDraining || p.ending || p.live > 0 || p.helpers > 0 || p.outside > 0 || p.backlog() || len(p.lanes) > 1 {
		return false
	}
	if !p.watch.stopLocked() {
		return false
	}
	if p.stopParent != nil {
		if !p.stopParent() {
			return false // its function runs, and will come here
		}
		p.stopParent = nil
	}
	p.ending = true
	p.setAvailLocked(0) // nobody is started any more
	return true
}

// follow closes the pool when parent is done.
func (p *Pool) follow(parent context.Context) {
	defer func() {
		if parent.Err() != nil {
			p.end(phaseStopping, ErrClosed) // now, not when the function runs
		}
	}()
	fired := false
	stop := sy.AfterDone(parent, func() {
		p.mu.Lock()
		fired = true
		p.helpers++
		p.stopParent = nil
		p.mu.Unlock()
		p.end(phaseStopping, ErrClosed)
		p.helperDone()
	})
	p.mu.Lock()
	over := p.ending
	if !fired && !over {
		p.stopParent = stop
	}
	p.mu.Unlock()
	if over {
		stop() // it would keep p for as long as parent lives
	}
}
