package shoal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// Map runs f for every item of in, on p, and yields the results in the order of
// the items. An item whose f fails, panics or is discarded yields its error, as
// described at [Go], and does not end the others.
//
// The goroutine that ranges over the results takes the items, one after the
// other, as it asks for results. So in may be endless, and need not be safe for
// use by other goroutines. But it must not wait for what the loop body does, such as
// the release of a semaphore. Map yields the results that are there before it takes
// another item. It yields none while it waits for the next item of in, and the end
// of ctx does not interrupt that. If in reads from something that may block, let
// ctx close it: context.AfterFunc(ctx, func() { r.Close() }).
//
// At most 2 × n or n + 32 items, whichever is more, are accepted and not yet
// yielded, and at most n + c, where n is the most workers that p may have when the
// loop begins, and c is the capacity of its queue. One more item may have been taken
// from in. So for large items use a sub-pool with a small queue. A Map may be the
// input of another one, as in the example of a pipeline.
//
// Use it on a pool with the policy [Block]. Under [Reject] and [DropOldest] items are
// lost as soon as other tasks use the queue.
//
// Each item is a task. Each loop over the result takes all items anew. If f takes less
// than a microsecond, let an item be a slice of some hundred values; but first measure
// the plain loop.
//
// If the loop is left early, the contexts of items that run are cancelled, the
// others do not start, and Map waits until none runs any more. A panic of in or of
// the loop body does the same, and then goes on. If ctx ends or p is closed, Map
// takes one more item at most. That item has the error of ctx or [ErrClosed]; those
// that have not started have ctx's error or [ErrDropped]. A nil argument yields one
// pair with an error: [ErrClosed] for p, [ErrNilTask] for f, [ErrConfig] for ctx or in.
//
// If a task of p ranges with its context, Map runs items in that task where it
// would otherwise wait for them. If f calls [runtime.Goexit] there, it ends that
// goroutine.
func Map[In, Out any](ctx context.Context, p *Pool, in iter.Seq[In], f func(context.Context, In) (Out, error)) iter.Seq2[Out, error] {
	return mapItems(ctx, p, in, f, true)
}

// MapUnordered is [Map], but yields the results in the order in which they come, also
// none while it waits for the next item. So the item that has the error of ctx, or of a
// closed pool, need not be the last one.
func MapUnordered[In, Out any](ctx context.Context, p *Pool, in iter.Seq[In], f func(context.Context, In) (Out, error)) iter.Seq2[Out, error] {
	return mapItems(ctx, p, in, f, false)
}

// ForEach runs f for every item of in, on p, and returns when all have ended.
// It takes the items as [Map] does, with the same bound. An item that fails
// does not end the others. The result is all errors, joined by [errors.Join] in
// the order of the items. If ctx ends or p is closed, the result has that error
// once; but under [DropOldest] each item that was dropped has [ErrDropped], and under
// [Reject] each that was refused [ErrQueueFull]. To stop
// at the first error, use a [Group]. The errors about nil arguments are those of Map.
func ForEach[T any](ctx context.Context, p *Pool, in iter.Seq[T], f func(context.Context, T) error) error {
	if f == nil {
		return ErrNilTask
	}
	var errs []error
	run := func(its context.Context, v T) (own bool, err error) {
		if err = f(its, v); err != nil && p.lane.Stops() && same(err, its.Err()) && !same(err, ctx.Err()) { // Close has ended its
			return false, ErrClosed
		}
		return true, err
	}
	for own, err := range Map(ctx, p, in, run) {
		if !own && err == ErrDropped && p.policy != DropOldest { // else another task may have displaced it
			err = ErrClosed
		}
		ended := !own && err == ErrClosed || ctx != nil && same(err, ctx.Err())
		if err != nil && !(ended && slices.ContainsFunc(errs, func(e error) bool { return same(e, err) })) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ForEachSlice is [ForEach] over a slice. It runs f for every item of in, on p
// and on the calling goroutine, and returns when all have ended. An item that
// fails or panics does not end the others, and neither does one that calls
// [runtime.Goexit], except on the calling goroutine: that ends the loop and the
// goroutine. The result is all errors, joined by [errors.Join] in the order of
// the items. If ctx ends or p is closed, not all items have run, and the result
// has that error once, unless all were taken before. To stop at the first error, use [MapSlice] or [Range].
//
// The participants are those of Range: the caller does not count against the
// maximum of p, unless it is a task of p. [Stats] counts participants, not items. No
// item waits behind another one while a participant is idle. ForEachSlice returns
// [ErrClosed] if p is closed, ctx's error if ctx ends, [ErrNilTask] for a nil f, and
// [ErrConfig] for a nil ctx.
func ForEachSlice[T any](ctx context.Context, p *Pool, in []T, f func(context.Context, T) error) error {
	if f == nil {
		return ErrNilTask
	}
	return p.loop(ctx, len(in), func(ctx context.Context, lo, hi int) error {
		return f(ctx, in[lo])
	}, 1, groupConfig{collect: true})
}

// MapSlice runs f for every item of in, on p and on the calling goroutine, and
// returns the results in the order of the items. The first error ends the loop,
// as in [Range]. With [CollectErrors] every item is run, and all errors are
// returned, joined by [errors.Join] in the order of the items. [Limit] bounds
// the number of participants, the caller included.
//
// There is a result for every item, also if there is an error: what f returned,
// or the zero value if f did not run or did not return. There are none if f is
// nil or an option is invalid.
//
// The participants are those of Range: the caller does not count against the
// maximum of p, unless it is a task of p. [Stats] counts participants, not items: to
// show progress, count in f. No item waits behind another one while a participant is
// idle. As in Range, panics that MapSlice does not return are logged; with
// CollectErrors it returns all.
//
// MapSlice returns [ErrClosed] if p is closed, ctx's error if ctx ends,
// [ErrNilTask] for a nil f, and [ErrConfig] for a nil ctx or an invalid option.
func MapSlice[In, Out any](ctx context.Context, p *Pool, in []In, f func(context.Context, In) (Out, error), opts ...GroupOption) ([]Out, error) {
	if f == nil {
		return nil, ErrNilTask
	}
	var c groupConfig
	apply(&c, opts)
	if c.invalid != nil {
		return nil, c.invalid
	}
	out := make([]Out, len(in))
	err := p.loop(ctx, len(in), func(ctx context.Context, lo, hi int) (err error) {
		out[lo], err = f(ctx, in[lo])
		return err
	}, 1, c)
	return out, err
}

// A mapping is one range over the results of a Map.
type mapping[In, Out any] struct {
	awaited                 // the items; its lock guards results
	ctx     context.Context // of the items
	p       *Pool
	f       func(context.Context, In) (Out, error)
	ordered bool
	caller  helper
	left    int                     // accepted, not yielded; only the goroutine that ranges uses it
	results fifo[*mapTask[In, Out]] // to be yielded, the first one next: all items if ordered, else those that are resolved
}

// A mapTask is one item.
type mapTask[In, Out any] struct {
	contextCall
	m        *mapping[In, Out]
	in       In
	out      Out
	err      error
	resolved bool
	panicked *PanicError // what it has panicked with; written before it is resolved
}

func mapItems[In, Out any](ctx context.Context, p *Pool, in iter.Seq[In], f func(context.Context, In) (Out, error), ordered bool) iter.Seq2[Out, error] {
	err := checkArgs(ctx, p, f != nil)
	if err == nil && in == nil {
		err = fmt.Errorf("%w: nil iterator", ErrConfig)
	}
	return func(yield func(Out, error) bool) {
		if err != nil {
			var none Out
			yield(none, err)
			return
		}
		ctx, cancel := sy.WithCancelCause(ctx)
		m := &mapping[In, Out]{ctx: ctx, p: p, f: f, ordered: ordered, caller: callerIn(p, ctx)}
		defer m.end(cancel)
		most := p.lane.Max()
		limit := most + min(max(most, minAhead), p.capacity) // what a pool without other tasks holds
		for v := range in {
			for m.left > 0 && (m.left >= limit || m.is(m.isReady)) {
				if t := m.next(); !yield(take(&t.out), t.err) {
					return
				}
			}
			if err := m.submit(v); err != nil && err != ErrQueueFull { // ErrClosed, or the error of ctx
				break
			}
		}
		for m.left > 0 {
			if t := m.next(); !yield(take(&t.out), t.err) {
				return
			}
		}
	}
}

// minAhead is the least number of items that may wait beside those that run.
// So workers with short tasks need not be woken for each item.
const minAhead = 32

// submit submits a task that runs f for v.
func (m *mapping[In, Out]) submit(v In) error {
	t := &mapTask[In, Out]{m: m, in: v}
	m.left++
	if m.ordered {
		m.mu.Lock()
		m.results.push(t) // before there may be a result
		m.mu.Unlock()
	}
	err := t.contextCall.submit(t, m.ctx, m.p, true, "Map", m.p.byPolicy)
	if err != nil {
		t.Resolve(err)
		return err
	}
	m.list(&t.call, false) // nobody waits now
	return nil
}

// isReady reports whether next would not wait. Locked.
func (m *mapping[In, Out]) isReady() bool {
	return m.results.len() > 0 && m.results.first().resolved
}

// next is the next item to yield. It waits for the item, or runs it.
func (m *mapping[In, Out]) next() *mapTask[In, Out] {
	if m.await(m.ctx, &m.p.lane, m.isReady, m.help, nil) != nil {
		m.withdraw(m.ctx)
		m.await(context.Background(), &m.p.lane, m.isReady, m.help, nil)
	}
	m.left--
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results.pop()
}

// help runs an item that has not begun: if ordered the next one only, else any.
func (m *mapping[In, Out]) help(n kernel.Nudger) kernel.Outcome {
	if m.ordered {
		return m.caller.claim(&m.results.first().call, n)
	}
	return m.caller.help(m.unbegun, n)
}

// end cancels what has not begun, and waits until no item runs. Panics that are not yielded are
// reported.
func (m *mapping[In, Out]) end(cancel context.CancelCauseFunc) {
	cancel(nil) // what has not begun does not begin
	for m.left > 0 {
		if t := m.next(); t.panicked != nil && m.p.onPanic == nil { // else the handler has it
			m.p.report(t.panicked, false, func() {})
		}
	}
}

func (t *mapTask[In, Out]) Run() (err error) {
	t.out, err = t.m.f(t.given(), take(&t.in))
	return err
}

func (t *mapTask[In, Out]) Returns(err error) bool {
	t.panicked, _ = err.(*PanicError)
	return true // or it is reported by end
}

func (t *mapTask[In, Out]) Resolve(err error) {
	m := take(&t.m) // t is in memory until a worker comes to its ticket, also if it did not run
	take(&t.in)
	m.mu.Lock()
	t.err, t.resolved = err, true
	if !m.ordered {
		m.results.push(t)
	}
	m.unlock(m.results.first() == t)
}
