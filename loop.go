package shoal

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file runs the loops of Range, ForEachSlice and MapSlice.
//
// A loop has one counter, of the items that were given out, and its participants take
// chunks from it: the goroutine that calls, and helpers, which are tasks of the pool. One
// helper at a time waits in the queue, also of all the loops that are nested on a goroutine.
// When it begins it calls the next one, if there is something left; so helpers come as fast
// as workers do, and a short loop calls one. A participant with a new chunk calls one too, if
// there is a worker to spare. Loops in loops share nothing else: a caller that
// has nothing left does not look for work below its loop. (It was tried: a caller that helps
// there needs a tree of loops and of their contexts, and gains where a tree is lopsided.)
//
//	R1. An item is given out once: each participant moves the counter by what it takes, and
//	    it only grows. It may end a few above n.
//	R2. A loop never waits for a task that has not begun: when the caller finds nothing left,
//	    it takes back the helper that waits in the queue, and waits for those that have begun.
//	    They run chunks and nothing else.
//	R3. A loop calls at most as many helpers as it may have participants beside its caller.
//	    A helper is offered to the pool and listed under lock, and wants is cleared under
//	    lock: so the caller finds all of them.
//	R4. A chunk is one item, or as many as take less than chunkTime at the participant's last
//	    speed, and no more than its share of half of what is left.

// chunkTime is how long a chunk of more than one item is to take. What a chunk costs beside
// its items, above all to read the clock, is a fiftieth of that.
const chunkTime = 5 * time.Microsecond

type loopFunc = func(ctx context.Context, lo, hi int) error

type loopOptions struct {
	most    uint64 // items in a chunk
	limit   int    // participants; 0: as many as the pool may have workers
	collect bool   // errors; else the first one ends the loop
}

// A loop is one call of Range or its kin. It is the context that f is given on the caller's
// goroutine, and the parent of the contexts of helpers.
type loop struct {
	lazyContext
	// Constant once others may join.
	p       *Pool
	f       loopFunc
	n       uint64
	most    uint64
	limit   int // participants
	all     int // workers that p may have
	collect bool
	root    *loop // the outermost of the loops that are nested on this goroutine

	wants sy.Bool             // more helpers may be called; written under lock
	first sy.Pointer[helping] // of a root, the helper of all its loops that has not begun

	lock    sy.Mutex // guards what follows
	helpers []*helping
	err     error       // what ended it
	errs    []taskError // those that were collected

	_    [64]byte  // keeps what participants read for each item off the line that they write
	next sy.Uint64 // R1: items below were given out
}

// A helping is a task that takes part in a loop.
type helping struct {
	waitedCall
	l *loop
}

// A loopTask is a loop that is not part of a task, and so is one itself.
type loopTask struct {
	waitedCall
	l loop
}

// loop runs f for [0, n).
func (p *Pool) loop(ctx context.Context, n int, f loopFunc, o loopOptions) error {
	err := checkArgs(ctx, p, true)
	switch {
	case err != nil:
		return err
	case f == nil:
		return errNilFunc
	case n < 0:
		return fmt.Errorf("%w: Range(n = %d): want at least 0", ErrConfig, n)
	}
	up, _ := ctx.(*loop)
	if up != nil && (up.p != p || up.ended.Load()) {
		up = nil
	}
	if up != nil || p.lane.InTask(ctx) {
		l := new(loop)
		l.set(up, p, n, f, o)
		return l.run(ctx)
	}
	t := new(loopTask)
	t.bind(t, ctx, p)
	t.l.set(nil, p, n, f, o)
	return p.runHere(&t.waitedCall, "Range")
}

// Run makes a loopTask the body of its call.
func (t *loopTask) Run() error { return t.l.run(t.given()) }

// set makes l a loop of [0, n). up is the one that it is nested in on this goroutine, if any.
func (l *loop) set(up *loop, p *Pool, n int, f loopFunc, o loopOptions) {
	l.p, l.f, l.n, l.most, l.collect = p, f, uint64(n), o.most, o.collect
	if up != nil {
		l.all, l.root = up.all, up.root
	} else {
		l.all, l.root = p.lane.Max(), l
	}
	l.limit = min(cmp.Or(o.limit, l.all), l.all)
	l.wants.Store(l.limit > 1)
}

// run is the caller's part in l. Its context is derived from ctx.
func (l *loop) run(ctx context.Context) (err error) {
	l.parent = ctx
	if l.p.lane.Stops() {
		return ErrClosed
	}
	returns := false
	defer func() {
		if !returns { // a panic that crashes, or runtime.Goexit
			l.stop(ErrGoexit)
		}
		l.join()
		if err = l.err; l.collect {
			err = joined(append(l.errs, taskError{math.MaxInt, err})) // nil is none
		}
	}()
	if l.n > 1 {
		l.call()
	}
	for l.work(l) {
	}
	returns = true
	return nil
}

// call has the pool run one more helper, if there may be one.
func (l *loop) call() {
	if !l.wants.Load() || l.root.first.Load() != nil {
		return
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if !l.wants.Load() {
		return
	}
	h := &helping{l: l}
	h.bind(h, l, l.p)
	if !l.root.first.CompareAndSwap(nil, h) {
		return
	}
	// It is worth that only if a worker is free. So the policy is not asked, and nothing is rejected.
	if l.p.put(queue.Record(&h.call), kernel.Offer, nil) != nil {
		h.begun()
		return
	}
	l.helpers = append(l.helpers, h)
	l.wants.Store(len(l.helpers)+1 < l.limit)
}

// begun lets others call the next one.
func (h *helping) begun() { h.l.root.first.CompareAndSwap(h, nil) }

// Run and Resolve make a helping the body of its call.
func (h *helping) Run() error {
	h.begun()
	l := h.l
	if l.next.Load() < l.n {
		l.call()
	}
	for l.work(h.given()) {
	}
	return nil
}

func (h *helping) Resolve(err error) {
	h.begun()
	h.waitedCall.Resolve(err)
}

// join ends l: it waits until nobody works on it any more. See R2 and R3.
func (l *loop) join() {
	l.lock.Lock()
	l.wants.Store(false)
	l.lock.Unlock()
	for _, h := range l.helpers {
		if !h.Withdraw(context.Canceled) {
			sy.Reach("wait for a helper")
			h.latch().Wait()
		}
	}
	l.end(context.Canceled)
}

// work gives f chunks until there are none left, or the loop ends. It reports whether it is
// to be called again, after a panic.
func (l *loop) work(ctx context.Context) (again bool) {
	returned, at := false, 0
	defer func() {
		switch {
		case returned:
		case l.p.crash && !kernel.InGoexit(): // let the process die of it, as it is
		default:
			if r := recover(); r != nil {
				e := l.p.panicked(r)
				kept := l.fail(at, e)
				again = l.collect
				l.p.report(e, func() bool { return kept }, func() {})
			} else {
				l.fail(at, ErrGoexit)
			}
		}
	}()
	step := uint64(1)
	since := int64(-1) // when the last chunk ended, if that was timed
	for {
		lo, n := l.take(step)
		if n == 0 || l.isOver() {
			break
		}
		rest := l.n - lo - n
		if rest > 0 && l.wants.Load() && l.p.lane.HasSpare() {
			l.call()
		}
		timed := step < l.most && l.share(rest) > step // else the next chunk cannot be larger
		if timed && since < 0 {
			since = l.p.lane.Now()
		}
		at = int(lo)
		if err := l.f(ctx, at, at+int(n)); err != nil {
			l.fail(at, err)
		}
		if timed {
			now := l.p.lane.Now()
			step = nextChunk(n, now-since, l.most)
			since = now
		}
	}
	returned = true
	return false
}

// take takes up to step items, no more than its share.
func (l *loop) take(step uint64) (lo, n uint64) {
	if step == 1 {
		if lo = l.next.Add(1) - 1; lo < l.n {
			return lo, 1
		}
		return 0, 0
	}
	for {
		lo := l.next.Load()
		if lo >= l.n {
			return 0, 0
		}
		n := max(1, min(step, l.share(l.n-lo)))
		if l.next.CompareAndSwap(lo, lo+n) {
			return lo, n
		}
	}
}

// share is a participant's share of half of what is left.
func (l *loop) share(left uint64) uint64 { return left / uint64(2*l.limit) }

// nextChunk is how many items a participant takes after n of them took so long.
func nextChunk(n uint64, took int64, most uint64) uint64 {
	k := 2 * n
	if took > int64(chunkTime)/2 {
		k = uint64(float64(n) * float64(chunkTime) / float64(took))
	}
	return max(1, min(k, most))
}

// isOver reports whether no chunk may begin any more. It ends l if its context has ended, or
// the pool is closed.
func (l *loop) isOver() bool {
	if l.ended.Load() {
		return true
	}
	err := l.parent.Err()
	if l.p.lane.Stops() { // which comes before the end of the contexts
		err = ErrClosed
	}
	if err != nil {
		l.stop(err)
	}
	return err != nil
}

// fail notes an error of the chunk that begins with item at, and reports whether the loop returns
// it. Unless errors are collected the first one ends l.
func (l *loop) fail(at int, err error) (kept bool) {
	if !l.collect {
		return l.stop(err)
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	l.errs = append(l.errs, taskError{at, err})
	return true
}

// stop ends l because of err, unless it has ended before.
func (l *loop) stop(err error) (first bool) {
	l.lock.Lock()
	if first = l.err == nil; first {
		l.err = err
	}
	l.lock.Unlock()
	if first {
		l.end(err)
	}
	return first
}

func (l *loop) String() string { return fmt.Sprintf("%v.WithRange", l.parent) }
