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
// A loop counts the items that were given out. Its participants take chunks by adding to that
// counter. They are the goroutine that calls, and helpers, which are tasks of the pool. Of all the
// loops that are nested on a goroutine, one helper at a time waits in the queue. A helper that begins
// calls the next one, if items are left. So helpers come as fast as workers do, and a short loop calls
// one. A participant with a new chunk calls one too, if a worker is free. Nested loops share nothing
// else: a caller without items left does not look for work below its loop. Such a caller was tried: it
// needs a tree of loops and of their contexts, and gains only if the tree is lopsided.
//
//	R1. An item is given out once: each participant adds to the counter what it takes. The
//	    counter only grows, and may end above n.
//	R2. A loop never waits for a task that has not begun: a caller that finds nothing left
//	    withdraws the helper that waits in the queue, and waits for those that have begun.
//	    Helpers run chunks and nothing else.
//	R3. A loop calls at most as many helpers as it may have participants beside its caller.
//	    A helper is offered to the pool and listed under the lock, and wants becomes 0 for
//	    good under the lock. So the caller finds all helpers.
//	R4. A chunk is one item, or as many as take less than chunkTime at the participant's last
//	    speed, and no more than its share of half of what was left a moment before.

// Range runs f for all of [0, n), in chunks, on p and on the calling goroutine,
// and returns when f runs nowhere any more. The chunks [lo, hi) do not overlap,
// and together they are [0, n). Use it for items that may be too short to be a
// task each:
//
//	err := shoal.Range(ctx, p, len(v), func(_ context.Context, lo, hi int) error {
//		for i := lo; i < hi; i++ {
//			v[i] = math.Sqrt(v[i])
//		}
//		return nil
//	})
//
// The caller begins at once and is one of the participants; the others are
// tasks of p. There are at most as many participants as p may have workers when
// Range is called. The caller does not count against that maximum, unless it is
// a task of p. So k goroutines that call Range at the same time may add k calls
// of f to it. Use a [Group] or [ForEach] if the maximum protects something that
// f uses. Range asks for one more worker when it begins and when one has joined, and,
// if p has workers to spare, when a participant takes a chunk. If f calls Range, workers
// join the outer loop first. A participant that calls [runtime.Goexit], or that [DropOldest]
// displaces before it has joined, is not replaced. Range never waits for free capacity of p,
// and never for a task that has not started. So nested calls, to any depth, need
// one worker, and on a pool that is busy or paused the caller does everything
// itself.
//
// A participant begins with chunks of one item. It takes larger ones only while
// its chunks take less than 5 µs, and smaller ones again towards the end. So if
// items take longer than 5 µs, no participant is idle while an item waits. An
// item that takes unexpectedly long delays only the rest of its own chunk.
// [ForEachSlice] and [MapSlice] have no chunks.
//
// To sum up, let each chunk use a variable of its own, and add that to the whole
// under a mutex at its end. A [Local] is no faster. If the addition takes more
// than a microsecond, as with a large table, let an item be a block of some
// thousand values.
//
// The first error that f returns ends the loop: no further chunk begins, the
// context that f is given ends, and Range returns the error. A panic of f
// counts as a [*PanicError], [runtime.Goexit] as [ErrGoexit]. That holds on the
// caller's goroutine too, with two exceptions: Goexit ends that goroutine, and
// under [WithCrashOnPanic] the panic goes on. Both happen after the other
// participants have ended. Range returns the first error only. Panics that it does
// not return are logged, unless [WithPanicHandler] has set a handler.
//
// If ctx ends or p is closed, no further chunk begins, and Range returns ctx's error or
// [ErrClosed] unless all items were done. [Pool.Shutdown]
// waits until the loop has ended.
//
// f is given a context derived from ctx, which ends when the loop does. Pass it
// on to a Range, a Group or a Future inside f: it shows that they are in a task
// of p.
//
// If ctx is that of a task of p, Range is a part of that task. Otherwise the
// caller's share counts as a task, as under [CallerRuns]. Each other
// participant counts as a task, and as canceled if it comes too late.
//
// Errors about the arguments: [ErrConfig] for a negative n or a nil ctx,
// [ErrNilTask] for a nil f, and [ErrClosed] for a pool that is closed, or that is shut down unless
// ctx is that of one of its tasks.
func Range(ctx context.Context, p *Pool, n int, f func(ctx context.Context, lo, hi int) error) error {
	return p.loop(ctx, n, f, math.MaxUint32, groupConfig{})
}

// chunkTime is how long a chunk of more than one item is to take. The overhead of a chunk, most of
// which is to read the clock, is a fiftieth of that.
const chunkTime = 5 * time.Microsecond

type loopFunc = func(ctx context.Context, lo, hi int) error

// A loop is one call of Range, ForEachSlice or MapSlice. If it is not part of a task, it is a call
// itself, which its caller runs. It is the context that f is given on the caller's goroutine, and
// the parent of the contexts of helpers.
type loop struct {
	waitedCall // waker.mu guards helpers and what follows it
	// Constant once others may join.
	groupConfig        // limit bounds the participants
	most        uint64 // items in a chunk
	p           *Pool
	f           loopFunc
	n           uint64
	root        *loop           // the outermost of the loops that are nested on this goroutine
	ctx         context.Context // l, unless l is traced

	wants  sy.Int64            // how many more helpers may be called; written under lock
	latest sy.Pointer[helping] // in the root: the last helper that it, or a loop nested in it, has called

	helpers *helping // the latest one; see helping.before
	errs    failures

	_    sy.Pad    // keeps what participants read for each item off the cache line that they write
	next sy.Uint64 // R1: items below were given out
}

// A helping is a task that takes part in a loop.
type helping struct {
	waitedCall
	l      *loop
	before *helping // the one that the loop has called before this one
}

// loop runs f for [0, n), in chunks of most items at most.
func (p *Pool) loop(ctx context.Context, n int, f loopFunc, most uint64, c groupConfig) error {
	if err := checkArgs(ctx, p, f != nil); err != nil {
		return err
	}
	if n < 0 {
		return fmt.Errorf("%w: Range(n = %d): want at least 0", ErrConfig, n)
	}
	if n == 0 {
		ctx = context.WithoutCancel(ctx) // its end does not matter: nothing is left to be done
	}
	all := p.lane.Max() // workers that p may have
	c.limit = min(cmp.Or(c.limit, all), all)
	l := &loop{p: p, f: f, n: uint64(n), most: most, groupConfig: c}
	l.parent, l.root = ctx, l
	if up, _ := ctx.(*loop); up != nil && up.p == p && !up.ended.Load() {
		l.root = up.root
	} else if p.lane.TaskIn(ctx) == nil {
		here := func(it queue.Item, _ context.Context) error { return p.lane.RunInline(it, 0) }
		if err := l.submit(l, ctx, p, true, "Range", here); err != nil {
			return err
		}
		return l.err
	}
	return l.Run()
}

// Run is the caller's part in l.
func (l *loop) Run() (err error) {
	l.ctx = l
	if ctx := given(&l.call, l); ctx != l.ctx { // traced: f is given a loop below ctx, so that nested loops find it
		in := &loop{groupConfig: l.groupConfig, most: l.most, p: l.p, f: l.f, n: l.n}
		in.root, in.parent = in, ctx
		return in.Run()
	}
	l.errs.collect = l.collect
	l.wants.Store(int64(l.limit - 1))
	if l.p.lane.Stops() {
		return ErrClosed
	}
	returns := false
	defer func() {
		if !returns { // a panic that crashes, or runtime.Goexit
			l.stop(ErrGoexit)
		}
		l.join()
		err = l.errs.result()
	}()
	if l.n > 1 {
		l.callHelper()
	}
	for l.work(l.ctx) {
	}
	returns = true
	return nil
}

// callHelper submits one more helper, if there may be one.
func (l *loop) callHelper() {
	latest := l.root.latest.Load()
	if l.wants.Load() == 0 || latest != nil && latest.Waits() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &helping{l: l}
	h.bind(h, l.ctx, l.p)
	if l.wants.Load() == 0 || !l.root.latest.CompareAndSwap(latest, h) {
		return
	}
	// A helper is useful only if a worker is free. So the policy does not apply, and no task counts as
	// rejected.
	if l.p.put(queue.Record(&h.call), kernel.Offer, context.Background()) != nil {
		l.root.latest.CompareAndSwap(h, nil)
		return
	}
	h.before, l.helpers = l.helpers, h
	l.wants.Add(-1)
}

// Run makes a helping the body of its call. The helper has left the queue, so the next one may be
// called.
func (h *helping) Run() error {
	l := h.l
	if l.next.Load() < l.n {
		l.callHelper()
	}
	for l.work(h.given()) {
	}
	return nil
}

// join ends l: it waits until no participant works on l any more. See R2 and R3.
func (l *loop) join() {
	l.mu.Lock()
	l.wants.Store(0)
	l.mu.Unlock()
	for h := take(&l.helpers); h != nil; h = take(&h.before) {
		if h.Withdraw(context.Canceled) {
			h.l, h.parent = nil, nil // h is in memory until a worker comes to its ticket
		} else {
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
		if returned || l.p.crash && !kernel.InGoexit() { // a panic goes on as it is
			return
		}
		r := recover()
		if r == nil {
			l.fail(ctx, at, ErrGoexit)
			return
		}
		e := l.p.panicked(r)
		kept := l.fail(ctx, at, e)
		again = l.collect
		l.p.report(e, kept, func() {})
	}()
	step := uint64(1)
	since := int64(-1) // when the last chunk ended, if that was timed
	for {
		lo, n := l.take(step)
		if n == 0 || l.isOver() {
			break
		}
		rest := l.n - lo - n
		if rest > 0 && l.wants.Load() > 0 && l.p.lane.HasSpare() {
			l.callHelper()
		}
		timed := step < l.most && l.share(rest) > step // else the next chunk cannot be larger
		if timed && since < 0 {
			since = l.p.lane.Now()
		}
		at = int(lo)
		if err := l.f(ctx, at, at+int(n)); err != nil {
			l.fail(ctx, at, err)
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
	if step > 1 {
		step = max(1, min(step, l.share(l.n-min(l.n, l.next.Load()))))
	}
	lo = min(l.next.Add(step)-step, l.n)
	return lo, min(step, l.n-lo)
}

// share is a participant's share of half of what is left.
func (l *loop) share(left uint64) uint64 { return left / uint64(2*l.limit) }

// nextChunk is the size of a participant's next chunk. The last one had n items, and took nanoseconds.
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
	over, err := l.ended.Load(), l.ctx.Err()
	if l.p.lane.Stops() { // which comes before the end of the contexts
		err = ErrClosed
	}
	if err != nil {
		l.stop(err)
	}
	return over || err != nil
}

// fail notes an error of the chunk that begins with item at and was given ctx, and reports whether the loop
// returns it. The error of the context is noted once. If the pool may have ended ctx, that is ErrClosed.
func (l *loop) fail(ctx context.Context, at int, err error) (kept bool) {
	if l.p.lane.Stops() && same(err, ctx.Err()) {
		l.stop(ErrClosed)
		return true
	}
	return l.errs.note(at, err, same(err, l.parent.Err()), l.end)
}

// stop ends l because of err, unless it has ended before.
func (l *loop) stop(err error) { l.errs.note(math.MaxInt, err, true, l.end) }
