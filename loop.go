package shoal

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how the loops of Range, ForEachSlice and MapSlice are run.
//
// What is left of a loop lies with its participants. Each of them has a span of items, in one
// word: it takes from the front of its own, and whoever has nothing left takes half of
// the largest. This is work stealing with lazy splitting (Cilk, Tzannes' lazy binary
// splitting): a loop that nobody joins costs its caller a compare-and-swap per chunk. A
// shared counter in its place would be one word that all participants write for every item.
//
// Loops nest: a participant that calls Range in a chunk begins a loop below itself,
// and the loops that hang together this way have one crew. A goroutine that looks for work
// goes down from the outermost loop, where spans are largest. The caller of a loop who
// has nothing left in it helps only in the loops below it, which it waits for: it
// may hold a lock that others need. So the participants are the caller and hands, tasks
// of the pool, of which one at a time waits in the queue: one that has found work calls the next.
//
//	R1. An item is in one span, or was taken from one, once. Spans change by
//	    compare-and-swap, but for an empty one, which only its owner fills, under loop.mu.
//	R2. Whenever loop.mu is free, what no span of the loop has was taken by its participants. So whoever
//	    finds all spans empty under mu knows that all items have been given to f.
//	R3. Where there is something to be had and the crew is not complete, a hand is in the
//	    queue, or somebody is about to put it there. Who begins a loop publishes it, and then looks
//	    at crew.calls. A hand sets calls when it begins and when it is counted out, and then
//	    looks for something, and calls the next. Where the queue was full, participants
//	    call again between two chunks when a worker is free.
//	R4. A caller that waits has announced that in crew.waiting, and then found nothing
//	    below its loop. Who begins a loop publishes it, and then looks at waiting.
//	R5. A participant has taken one item, or what it did at its last speed in chunkTime, and
//	    never more than half of its span, rounded up. The rest can be taken by others.

// chunkTime is how long a chunk of more than one item is to take. What a chunk costs
// beside its items, reading the clock most of all, is a few hundredths of that.
const chunkTime = 5 * time.Microsecond

// maxSpan is the most items of one loop, as many as fit into half of a word. Where there are
// more, they are several loops, one after the other.
const maxSpan = math.MaxUint32

type loopFunc = func(ctx context.Context, lo, hi int) error

type loopOptions struct {
	most  uint32      // items in a chunk
	limit int         // participants; 0: as many as the pool may have workers
	errs  *loopErrors // where errors are collected; nil: the first one ends the loop
	span  uint64      // items of one loop; 0: maxSpan
}

// A loop is one call of Range or its kin.
type loop struct {
	// Constant once others may join.
	crew   *crew
	up     *participant    // whose chunk it was called in; nil: in nobody's
	parent context.Context // of what f is given
	done   <-chan struct{} // ends it: that of parent, or of an outer one of its kind
	f      loopFunc
	base   int
	most   uint32
	limit  int32
	errs   *loopErrors

	failed sy.Bool // err is set, and the context has ended: no chunk begins any more
	shared sy.Bool // somebody has joined, or is about to

	ctx sy.Pointer[lazyContext] // made when somebody asks for what parent does not tell; overContext: nobody has, and it is over

	mu      sy.Mutex // guards what follows
	inside  int      // those who have joined, and not left
	joined  *participant
	err     error // what ended it
	waiting bool  // its caller waits for event
	event   sy.Event

	own participant // its caller
}

// A participant is a goroutine's part in a loop. It is also the context that f is given there.
type participant struct {
	l     *loop
	call  *call            // the task that it is in
	next  *participant     // guarded by loop.mu
	at    int              // the first item of the chunk that it is in; its own
	inner sy.Pointer[loop] // the loop that was called in that chunk
	left  sy.Uint64        // its span: the first item in the upper half, the one behind the last in the lower
}

// A rootLoop is a loop that is nested in no other one of its pool. It is a task where it is
// not part of one.
type rootLoop struct {
	loop
	call
	all    crew
	n      uint32
	result error
}

// rangeKey is the key under which the context of a participant tells which one that is.
type rangeKey struct{ p *Pool }

// overContext takes the place of a loop's context that nobody has asked for.
var overContext = new(lazyContext)

// loop runs f for [0, n).
func (p *Pool) loop(ctx context.Context, n int, f loopFunc, o loopOptions) error {
	switch {
	case ctx == nil:
		return errNilContext
	case p == nil:
		return ErrClosed
	case f == nil:
		return errNilFunc
	case n < 0:
		return fmt.Errorf("%w: Range(n = %d): want at least 0", ErrConfig, n)
	}
	span := cmp.Or(o.span, maxSpan)
	for base := 0; base < n; {
		k := min(uint64(n-base), span)
		if err := p.loopOver(ctx, base, uint32(k), f, &o); err != nil {
			return o.errs.join(err)
		}
		base += int(k)
	}
	return o.errs.join(nil)
}

// loopOver runs f for the n items from base on.
func (p *Pool) loopOver(ctx context.Context, base int, n uint32, f loopFunc, o *loopOptions) error {
	up, _ := ctx.(*participant)
	done := (<-chan struct{})(nil)
	if up != nil && up.l.crew.p == p {
		done = up.l.done
	} else if up, _ = ctx.Value(rangeKey{p}).(*participant); up != nil {
		done = ctx.Done()
	}
	if up != nil && !up.l.isOver() {
		l := &loop{up: up, parent: ctx, done: done}
		l.set(up.l.crew, up.call, base, n, f, o)
		if up.inner.CompareAndSwap(nil, l) { // else this is another goroutine, which f has started
			return l.run(n)
		}
	}
	r := &rootLoop{n: n}
	r.parent = ctx
	p.mu.Lock()
	r.all.limit = p.max
	p.mu.Unlock()
	r.all.p, r.all.root = p, &r.loop
	r.all.calls.Store(r.all.limit > 1)
	if c := p.taskOf(ctx); c != nil {
		r.set(&r.all, c, base, n, f, o)
		r.done = ctx.Done()
		return r.loop.run(n)
	}
	r.set(&r.all, &r.call, base, n, f, o)
	r.body, r.pool = r, p
	t, ctx := r.follow(ctx, "Range")
	if t != nil {
		r.parent, r.body, t.own = ctx, t, ctx
	}
	if err := p.runHere(queue.Record(&r.call)); err != nil {
		t.refuse(err)
		return err
	}
	return r.result
}

// isOver reports whether l's context has ended, because l is over or has failed.
func (l *loop) isOver() bool {
	c := l.ctx.Load()
	return c != nil && (c == overContext || c.Err() != nil)
}

// set makes l a loop over the n items from base on, which are all its caller's. That is in
// task c.
func (l *loop) set(crew *crew, c *call, base int, n uint32, f loopFunc, o *loopOptions) {
	l.crew, l.base, l.f, l.most, l.errs = crew, base, f, o.most, o.errs
	l.limit = int32(crew.limit)
	if o.limit > 0 {
		l.limit = int32(min(o.limit, crew.limit))
	}
	l.own.l, l.own.call = l, c
	l.own.left.Store(uint64(n))
}

// run is the caller's part in l: it works, and waits until nobody else does.
func (l *loop) run(n uint32) error {
	returned := false
	defer func() {
		if returned || l.crew.p.crash && !inGoexit() { // a panic that nobody recovers from
			return
		}
		for !l.isQuiet() { // runtime.Goexit
			l.wait()
		}
		l.end()
	}()
	if n > 1 {
		l.published()
	}
	for l.own.work() {
	}
	for !l.isQuiet() {
		switch s := (*participant)(nil); {
		case l.refill(&l.own):
			for l.own.work() {
			}
		default:
			if s = l.find(l.own.call); s != nil {
				s.join()
			} else {
				l.wait()
			}
		}
	}
	returned = true
	l.end()
	if !l.failed.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// published is called when l can be shared: see R3 and R4.
func (l *loop) published() {
	c := l.crew
	if l.limit > 1 && c.calls.Load() {
		c.callHand()
	}
	if c.waiting.Load() > 0 {
		for up := l.up; up != nil; up = up.l.up {
			up.l.wake()
		}
	}
}

// end is called when nobody is in l any more.
func (l *loop) end() {
	if l.up != nil {
		l.up.inner.Store(nil)
	} else {
		l.crew.end()
	}
	if !l.ctx.CompareAndSwap(nil, overContext) {
		l.ctx.Load().end(context.Canceled)
	}
}

// work runs chunks until there are none to be had in the loop, or it ends. It reports whether
// it is to be called again, after a panic.
func (s *participant) work() (again bool) {
	returned := false
	defer func() {
		switch p := s.l.crew.p; {
		case returned:
		case p.crash && !inGoexit(): // let the process die of it, as it is
		default:
			if r := recover(); r != nil {
				e := p.panicked(r)
				p.report(e, func() bool { return s.l.errs != nil || s.l.fail(e) }, func() { s.fail(e) })
				again = s.fail(e)
			} else {
				s.fail(ErrGoexit)
				if s == &s.l.own {
					s.l.fail(ErrGoexit)
				}
			}
		}
	}()
	s.chunks()
	returned = true
	return false
}

// chunks is work, for what returns.
func (s *participant) chunks() {
	l := s.l
	c := l.crew
	step, seen := uint32(1), uint64(0)
	since := int64(-1) // when the last chunk ended, if that was timed
	for {
		lo, n, rest := s.take(step)
		if n == 0 {
			if l.refill(s) {
				continue
			}
			return
		}
		if fails := c.fails.Load(); fails != seen || l.done != nil && sy.IsDone(l.done) {
			if l.isEnded() {
				return
			}
			seen = fails
		}
		if rest > 0 && c.full.Load() && c.p.wake.Load() != 0 && l.hasPlace() {
			c.callHand()
		}
		timed := step < l.most && rest > step // else the next chunk cannot be larger
		if timed && since < 0 {
			since = c.p.now()
		}
		s.at = l.base + int(lo)
		if err := l.f(s, s.at, s.at+int(n)); err != nil && !s.fail(err) {
			return
		}
		if !timed {
			since = -1
			continue
		}
		now := c.p.now()
		step = nextChunk(n, now-since, l.most)
		since = now
	}
}

// nextChunk is how many items a participant takes after n of them took so long.
func nextChunk(n uint32, took int64, most uint32) uint32 {
	most = min(most, 1<<30)
	k := 2 * uint64(min(n, most))
	if took > int64(chunkTime)/2 {
		k = uint64(n) * uint64(chunkTime) / uint64(took)
	}
	return uint32(max(1, min(k, uint64(most))))
}

// take takes up to step items from the front of s's span, at most half of it, rounded up, and
// tells how many are left there.
func (s *participant) take(step uint32) (lo, n, rest uint32) {
	for {
		w := s.left.Load()
		lo, hi := uint32(w>>32), uint32(w)
		if lo >= hi {
			return 0, 0, 0
		}
		n := min(step, hi-lo-(hi-lo)/2)
		if s.left.CompareAndSwap(w, uint64(lo+n)<<32|uint64(hi)) {
			return lo, n, hi - lo - n
		}
	}
}

// steal takes the second half of s's span, rounded up.
func (s *participant) steal() (span uint64) {
	for {
		w := s.left.Load()
		lo, hi := w>>32, w&math.MaxUint32
		if lo >= hi {
			return 0
		}
		mid := lo + (hi-lo)/2
		if s.left.CompareAndSwap(w, lo<<32|mid) {
			return mid<<32 | hi
		}
	}
}

// size is how many items are in the span.
func (s *participant) size() uint32 {
	w := s.left.Load()
	return uint32(w) - min(uint32(w>>32), uint32(w))
}

// fail notes an error of s, and reports whether s goes on.
func (s *participant) fail(err error) bool {
	if h, ok := s.call.body.(*hand); ok {
		h.crew.mu.Lock()
		h.err = cmp.Or(h.err, err)
		h.crew.mu.Unlock()
	}
	if s.l.errs != nil {
		s.l.errs.add(s.at, err)
		return true
	}
	s.l.fail(err)
	return false
}

// fail ends l because of err, unless it has ended before, and reports whether it did.
func (l *loop) fail(err error) (first bool) {
	l.mu.Lock()
	first = l.err == nil
	if first {
		l.err = err
	}
	l.mu.Unlock()
	if first {
		l.context().end(err)
		l.failed.Store(true) // before it is counted, as isEnded looks
		l.crew.fails.Add(1)
	}
	return first
}

// isEnded reports whether no chunk of l may begin any more. It ends l if its context has ended.
func (l *loop) isEnded() bool {
	ended := l.done != nil && sy.IsDone(l.done)
	for up := l.up; up != nil && !ended; up = up.l.up {
		ended = up.l.failed.Load()
	}
	if ended {
		l.fail(cmp.Or(l.parent.Err(), context.Canceled))
	}
	return l.failed.Load()
}

// join is s's part in a loop that it has joined.
func (s *participant) join() {
	defer s.leave() // also after runtime.Goexit
	for s.work() {
	}
}

// leave counts s out.
func (s *participant) leave() {
	l := s.l
	l.mu.Lock()
	l.inside--
	if s.size() == 0 { // else its rest is for others
		at := &l.joined
		for *at != s {
			at = &(*at).next
		}
		*at = s.next
	}
	l.unlockAndWake(l.inside == 0 || s.size() > 0)
}

// wake has the caller of l look again, if it waits.
func (l *loop) wake() {
	l.mu.Lock()
	l.unlockAndWake(true)
}

func (l *loop) unlockAndWake(wake bool) {
	wake = wake && l.waiting
	if wake {
		l.waiting = false
	}
	l.mu.Unlock()
	if wake {
		l.event.Set()
	}
}

// isQuiet reports whether nobody but the caller is in l, which has nothing left itself, and
// nothing was left behind.
func (l *loop) isQuiet() bool {
	if !l.shared.Load() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inside == 0 && (l.failed.Load() || l.largestLocked() == nil)
}

// wait parks the caller of l until it may be quiet, or there may be something to help with.
func (l *loop) wait() {
	c := l.crew
	l.mu.Lock()
	l.waiting = true
	if l.event.IsZero() {
		l.event = sy.MakeEvent()
	}
	l.mu.Unlock()
	c.waiting.Add(1)
	if l.isQuiet() || l.canJoin() {
		l.mu.Lock()
		waiting := l.waiting
		l.waiting = false
		l.mu.Unlock()
		if !waiting {
			l.event.Wait() // somebody has set it, or is about to
		}
	} else {
		sy.Reach("wait for a loop")
		l.event.Wait()
	}
	c.waiting.Add(-1)
}

// largestLocked is the participant with the largest span; nil if all are empty.
func (l *loop) largestLocked() *participant {
	s := &l.own
	for o := l.joined; o != nil; o = o.next {
		if o.size() > s.size() {
			s = o
		}
	}
	if s.size() == 0 {
		return nil
	}
	return s
}

// stealLocked takes half of the largest span.
func (l *loop) stealLocked() uint64 {
	if l.failed.Load() {
		return 0
	}
	for {
		s := l.largestLocked()
		if s == nil {
			return 0
		}
		if span := s.steal(); span != 0 {
			return span
		}
	}
}

// refill gives s, whose span is empty, a new one.
func (l *loop) refill(s *participant) bool {
	if !l.shared.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	span := l.stealLocked()
	if span == 0 {
		return false
	}
	sy.Reach("refill")
	s.left.Store(span)
	return true
}

// hasPlace reports whether one more may join.
func (l *loop) hasPlace() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hasPlaceLocked()
}

func (l *loop) hasPlaceLocked() bool { return l.inside+1 < int(l.limit) }

// find joins l, or a loop below it, on the goroutine of task c. It returns nil if there is
// nothing to be had.
func (l *loop) find(c *call) *participant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed.Load() {
		return nil
	}
	if l.hasPlaceLocked() {
		l.shared.Store(true) // before anything is taken: see isQuiet
		if span := l.stealLocked(); span != 0 {
			s := &participant{l: l, call: c, next: l.joined}
			s.left.Store(span)
			l.joined = s
			l.inside++
			return s
		}
	}
	for in := range l.innerLocked {
		if s := in.find(c); s != nil {
			return s
		}
	}
	return nil
}

// canJoin reports whether find would find something.
func (l *loop) canJoin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed.Load() {
		return false
	}
	if l.hasPlaceLocked() && l.largestLocked() != nil {
		return true
	}
	for in := range l.innerLocked {
		if in.canJoin() {
			return true
		}
	}
	return false
}

// innerLocked yields the loops right below l.
func (l *loop) innerLocked(yield func(*loop) bool) {
	if in := l.own.inner.Load(); in != nil && !yield(in) {
		return
	}
	for s := l.joined; s != nil; s = s.next {
		if in := s.inner.Load(); in != nil && !yield(in) {
			return
		}
	}
}

// run, refused, outer, end and resolve make a rootLoop the body of its call.
func (r *rootLoop) run() error {
	r.parent = r.given(r.parent)
	r.done = r.parent.Done()
	return r.loop.run(r.n)
}

func (r *rootLoop) refused() error         { return r.parent.Err() }
func (r *rootLoop) outer() context.Context { return r.parent }

func (r *rootLoop) end(cause error) {
	if cause != context.Canceled { // else it has returned
		r.fail(ErrClosed)
	}
}

func (r *rootLoop) resolve(err error) { r.result = err }

// context is what f's context asks for what parent does not tell.
func (l *loop) context() *lazyContext {
	c := l.ctx.Load()
	if c == nil {
		if c = (&lazyContext{parent: l.parent}); !l.ctx.CompareAndSwap(nil, c) {
			c = l.ctx.Load()
		}
	}
	if c == overContext {
		c = &lazyContext{parent: l.parent, cause: context.Canceled, last: context.Canceled}
	}
	return c
}

// Deadline, Done, Err and Value make a participant the context that f is given.
func (s *participant) Deadline() (time.Time, bool) { return s.l.parent.Deadline() }
func (s *participant) Done() <-chan struct{}       { return s.l.context().Done() }

func (s *participant) Err() error {
	if s.l.ctx.Load() == nil {
		return s.l.parent.Err()
	}
	return s.l.context().Err()
}

func (s *participant) Value(key any) any {
	switch k := key.(type) {
	case inTaskKey:
		if s.l.crew.p.isBelow(k.p) {
			return s.call
		}
	case rangeKey:
		if k.p == s.l.crew.p {
			return s
		}
	}
	if s.l.ctx.Load() == nil {
		return s.l.parent.Value(key)
	}
	return s.l.context().Value(key)
}

func (s *participant) String() string { return fmt.Sprintf("%v.WithRange", s.l.parent) }
