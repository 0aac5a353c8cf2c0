package shoal

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

var (
	errNilIterator = fmt.Errorf("%w: nil iterator", ErrConfig)
	errNilFunc     = fmt.Errorf("%w: nil function", ErrNilTask)
)

// Map runs f for every item of in, on p, and yields the results in the order of
// the items. An item whose f fails, panics or is discarded yields its error, as
// described at [Go], and does not end the others.
//
// The goroutine that ranges over the results takes the items, one after the
// other, as it asks for results. So in may be endless, and need not be safe for
// use by other goroutines. At most 2 × n or n + 32 items, whichever is more,
// are accepted and not yet yielded, where n is the most workers that p may
// have. Map yields the results that are there before it takes another item;
// while in blocks, it yields none.
//
// If the loop is left early, the contexts of items that run are cancelled, the
// others do not start, and Map waits until none runs any more. If ctx ends or p
// is closed, Map takes no more items, and the last pair has the error. A nil
// argument yields one pair with an error: [ErrClosed] for p, [ErrNilTask] for
// f, [ErrConfig] for ctx or in.
//
// In a task of p that ranges with its context, Map runs items itself where it
// would wait for them. If f calls [runtime.Goexit] there, it ends that
// goroutine.
func Map[In, Out any](ctx context.Context, p *Pool, in iter.Seq[In], f func(context.Context, In) (Out, error)) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		mapItems(ctx, p, in, f, true, yield)
	}
}

// MapUnordered is [Map], but yields each result when it is there. So the pair
// with the error of ctx, or of a closed pool, need not be the last one.
func MapUnordered[In, Out any](ctx context.Context, p *Pool, in iter.Seq[In], f func(context.Context, In) (Out, error)) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		mapItems(ctx, p, in, f, false, yield)
	}
}

// ForEach runs f for every item of in, on p, and returns when all have ended.
// It takes the items as [Map] does, with the same bound. An item that fails
// does not end the others. The result is all errors, joined by [errors.Join] in
// the order of the items. If ctx ends or p is closed, the result has that error
// once. To stop at the first error, use a [Group]. The errors about nil arguments
// are those of Map.
func ForEach[T any](ctx context.Context, p *Pool, in iter.Seq[T], f func(context.Context, T) error) error {
	if f == nil {
		return errNilFunc
	}
	var errs []error
	said := make(map[error]bool)
	mapItems(ctx, p, in, func(ctx context.Context, v T) (struct{}, error) { return struct{}{}, f(ctx, v) }, true,
		func(_ struct{}, err error) bool {
			ended := err == ErrClosed || err == ErrDropped || ctx != nil && err == ctx.Err()
			if err != nil && !(ended && said[err]) {
				errs = append(errs, err)
				if ended { // errors of the user need not be comparable
					said[err] = true
				}
			}
			return true
		})
	return errors.Join(errs...)
}

// ForEachSlice is [ForEach] over a slice. It runs f for every item of in, on p
// and on the calling goroutine, and returns when all have ended. An item that
// fails, panics or calls [runtime.Goexit] does not end the others. The result
// is all errors, joined by [errors.Join] in the order of the items. If ctx ends
// or p is closed, not all items have run, and the result has that error once. To
// stop at the first error, use [MapSlice] or [Range].
//
// The participants are those of Range: the caller does not count against the
// maximum of p, unless it is a task of p. No item waits behind another one while
// a participant is idle. ForEachSlice returns [ErrClosed] if p is closed, ctx's
// error if ctx ends, [ErrNilTask] for a nil f, and [ErrConfig] for a nil ctx.
func ForEachSlice[T any](ctx context.Context, p *Pool, in []T, f func(context.Context, T) error) error {
	if f == nil {
		return errNilFunc
	}
	return p.loop(ctx, len(in), func(ctx context.Context, lo, hi int) error {
		return f(ctx, in[lo])
	}, loopOptions{most: 1, errs: new(loopErrors)})
}

// MapSlice runs f for every item of in, on p and on the calling goroutine, and
// returns the results in the order of the items. The first error ends the loop,
// as in [Range]. With [CollectErrors] every item is run, and all errors are
// returned, joined by [errors.Join] in the order of the items. [Limit] bounds
// the number of participants, the caller included.
//
// There is a result for every item, also if there is an error: what f returned,
// or the zero value if f did not run or did not return.
//
// The participants are those of Range: the caller does not count against the
// maximum of p, unless it is a task of p. No item waits behind another one while
// a participant is idle. MapSlice returns [ErrClosed] if p is closed, ctx's
// error if ctx ends, [ErrNilTask] for a nil f, and [ErrConfig] for a nil ctx or
// an invalid option.
func MapSlice[In, Out any](ctx context.Context, p *Pool, in []In, f func(context.Context, In) (Out, error), opts ...GroupOption) ([]Out, error) {
	if f == nil {
		return nil, errNilFunc
	}
	o := loopOptions{most: 1}
	if len(opts) > 0 {
		var g Group
		g.apply(opts)
		if g.invalid != nil {
			return nil, g.invalid
		}
		if g.collect {
			o.errs = new(loopErrors)
		}
		if g.limit != nil {
			o.limit = g.limit.n
		}
	}
	out := make([]Out, len(in))
	err := p.loop(ctx, len(in), func(ctx context.Context, lo, hi int) (err error) {
		out[lo], err = f(ctx, in[lo])
		return err
	}, o)
	return out, err
}

// A mapping is one range over the results of a Map. Its fields belong to the
// goroutine that ranges, unless they say otherwise.
type mapping[In, Out any] struct {
	ctx     context.Context // of the items
	p       *Pool
	f       func(context.Context, In) (Out, error)
	ordered bool
	open    fifo[*mapTask[In, Out]] // accepted, not yielded; where that matters in order

	mu      sy.Mutex // guards what follows, and what belongs to tasks
	ready   fifo[*mapTask[In, Out]]
	waiting bool
	woken   sy.Event
}

// A mapTask is one item.
type mapTask[In, Out any] struct {
	contextCall
	m        *mapping[In, Out]
	in       In
	out      Out
	err      error
	at       int  // in open, where the order does not matter; -1: it is not there
	resolved bool // guarded by mapping.mu
}

func mapItems[In, Out any](ctx context.Context, p *Pool, in iter.Seq[In], f func(context.Context, In) (Out, error), ordered bool,
	yield func(Out, error) bool) {
	var none Out
	switch {
	case ctx == nil:
		yield(none, errNilContext)
		return
	case p == nil:
		yield(none, ErrClosed)
		return
	case in == nil:
		yield(none, errNilIterator)
		return
	case f == nil:
		yield(none, errNilFunc)
		return
	}
	ctx, cancel := sy.WithCancelCause(ctx)
	m := &mapping[In, Out]{ctx: ctx, p: p, f: f, ordered: ordered, woken: sy.MakeEvent()}
	defer m.end(cancel)
	limit := p.lookAhead()
	for v := range in {
		for m.open.len() > 0 && (m.open.len() >= limit || m.isReady()) {
			if t := m.next(); !yield(t.out, t.err) {
				return
			}
		}
		if err := m.submit(v); err == ErrClosed || err != nil && err == ctx.Err() {
			break
		}
	}
	for m.open.len() > 0 {
		if t := m.next(); !yield(t.out, t.err) {
			return
		}
	}
}

// minAhead is how many items wait beside those that run, at least, so that
// workers with short tasks need not be woken for each of them.
const minAhead = 32

// lookAhead is how many items are accepted and not yet yielded: no more than fit
// into the pool if there is nothing else.
func (p *Pool) lookAhead() int {
	most := p.lane.Max()
	return most + min(max(most, minAhead), p.capacity)
}

// submit has the pool run f for v.
func (m *mapping[In, Out]) submit(v In) error {
	t := &mapTask[In, Out]{m: m, in: v, at: -1}
	t.bind(t, m.ctx, m.p)
	err := m.p.submitCall(&t.contextCall, m.p.policy, "Map")
	if err != nil {
		t.Body.Over(err)
		t.Resolve(err)
	}
	// Not before it is certain: f may end the goroutine, run here. Then there is a result,
	// and nobody to yield it.
	t.at = m.open.len()
	m.open.push(t)
	return err
}

// isReady reports whether next would not wait.
func (m *mapping[In, Out]) isReady() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isReadyLocked()
}

func (m *mapping[In, Out]) isReadyLocked() bool {
	if m.ordered {
		return m.open.all()[0].resolved
	}
	return m.ready.len() > 0
}

// next is the next item to yield. It waits for it, or runs it.
func (m *mapping[In, Out]) next() (t *mapTask[In, Out]) {
	for !m.isReady() {
		said := false // that somebody waits
		switch m.help(nil) {
		case kernel.Ran:
			continue
		case kernel.NoPlace:
			m.mu.Lock()
			m.waiting, said = true, true // before it may be nudged
			m.mu.Unlock()
			if m.help(m) == kernel.Ran {
				m.unwait()
				continue
			}
		}
		m.mu.Lock()
		if m.isReadyLocked() {
			m.mu.Unlock()
			if said {
				m.unwait()
			}
			break
		}
		if !said {
			m.waiting = true
		}
		m.mu.Unlock()
		m.woken.Wait()
	}
	if m.ordered {
		return m.open.pop()
	}
	m.mu.Lock()
	t = m.ready.pop()
	m.mu.Unlock()
	if t.at < 0 {
		return t
	}
	open := m.open.all()
	last := open[len(open)-1]
	open[t.at], last.at = last, t.at
	m.open.unpush()
	return t
}

// help runs an item that has to be waited for, if there is one that has not
// started and the caller is a task of the pool.
func (m *mapping[In, Out]) help(n kernel.Nudger) kernel.Outcome {
	outer := helperOf(&m.p.lane, m.ctx)
	if outer.c == nil {
		return kernel.NotClaimed
	}
	open := m.open.all()
	if m.ordered {
		open = open[:1]
	}
	for _, t := range open {
		if got := t.Claim(outer.laneOn(&m.p.lane), n); got != kernel.NotClaimed {
			return got
		}
	}
	return kernel.NotClaimed
}

// Nudge has who waits look again.
func (m *mapping[In, Out]) Nudge() {
	m.mu.Lock()
	waiting := m.waiting
	m.waiting = false
	m.mu.Unlock()
	if waiting {
		m.woken.Set()
	}
}

// unwait takes back that somebody waits.
func (m *mapping[In, Out]) unwait() {
	m.mu.Lock()
	waiting := m.waiting
	m.waiting = false
	m.mu.Unlock()
	if !waiting {
		m.woken.Wait() // somebody has set it, or is about to
	}
}

// end leaves nothing behind.
func (m *mapping[In, Out]) end(cancel context.CancelCauseFunc) {
	cancel(nil)
	m.p.lane.Unstrand(m)
	for _, t := range m.open.all() {
		t.Withdraw(context.Canceled)
	}
	for m.open.len() > 0 {
		m.next()
	}
}

func (t *mapTask[In, Out]) Run() (err error) {
	t.out, err = t.m.f(given(&t.call, &t.contextCall), t.in)
	return err
}

func (t *mapTask[In, Out]) Returns(error) bool { return true }

func (t *mapTask[In, Out]) Resolve(err error) {
	m := t.m
	m.mu.Lock()
	t.err = err
	t.resolved = true
	if !m.ordered {
		m.ready.push(t)
	}
	waiting := m.waiting && m.isReadyLocked()
	if waiting {
		m.waiting = false
	}
	m.mu.Unlock()
	if waiting {
		m.woken.Set()
	}
}

// A loopErrors collects errors.
type loopErrors struct {
	mu  sy.Mutex // guards what follows
	all []groupError
}

func (e *loopErrors) add(i int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, groupError{i, err})
}

// join returns all errors, in the order of the items, and the one that has ended the loop;
// only that where e is nil.
func (e *loopErrors) join(ended error) error {
	if e == nil {
		return ended
	}
	return errors.Join(append(inOrder(e.all), ended)...)
}
