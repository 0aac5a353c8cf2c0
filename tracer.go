package shoal

import (
	"context"
	"runtime/trace"
)

// This file is what follows tasks from their submission to their end: a Tracer of
// the user, and runtime/trace while that is on. Both stand between the engine and
// the body of a call, so the engine knows nothing of them.

// A Tracer follows tasks that have a context, from their submission to their end:
// those of [Pool.SubmitContext], [Pool.SubmitWait], [Group], [Future] and [Map] and
// its kin. See [WithTracer]. Its methods are called by any number of goroutines,
// must not wait for the pool, and get as kind the name of what submitted the task:
// "SubmitContext", "SubmitWait", "Group", "Future" or "Map".
//
// Submitted is called by who submits, before the task is accepted, with the context
// of the call. What it returns takes that one's place: the task's context is derived
// from it.
//
// Started is called on the task's goroutine right before it, with a context derived
// from what Submitted returned. The task is given what it returns, which must be
// derived from ctx. After the task, before anybody who waits for it is told, end is
// called with its error: nil, what it returned, a [*PanicError], or [ErrGoexit]. A
// panic in Started is one of the task.
//
// Refused is called instead of Started where a task that was submitted does not run:
// it was not accepted, was dropped or canceled. err says why.
//
// For each call of Submitted there is one of end or of Refused, unless the task never
// ends, or the process does.
type Tracer interface {
	Submitted(ctx context.Context, kind string) context.Context
	Started(ctx context.Context, kind string) (task context.Context, end func(err error))
	Refused(ctx context.Context, kind string, err error)
}

// WithTracer has t follow the pool's tasks that have a context. The default, also
// for nil, is none.
func WithTracer(t Tracer) Option { return option(func(c *config) { c.tracer = t }) }

// traced is the body of a call that is followed.
type traced struct {
	body  // the call's own
	p     *Pool
	kind  string          // what submitted it
	own   context.Context // what the task would be given otherwise
	given context.Context // what the task is given; nil: it has not started
	ended func(error)     // from Tracer.Started
	task  *trace.Task     // nil: runtime/trace was off
}

// trace has c followed, if anybody wants that, and returns its new body. It is for
// who submits c, just before.
func (c *contextCall) trace(kind string) *traced {
	if !c.pool.traces() {
		return nil
	}
	t := &traced{body: c.body, p: c.pool, kind: kind, own: c}
	c.parent = t.submitted(c.parent)
	c.body = t
	return t
}

// trace is contextCall.trace for the task of a group, whose context is that of the
// group's other tasks.
func (t *groupTask) trace() *traced {
	if !t.pool.traces() {
		return nil
	}
	b := &traced{body: t.body, p: t.pool, kind: "Group"}
	b.own = groupTaskContext{b.submitted(t.r), t}
	t.body = b
	return b
}

// A groupTaskContext is the context of a task of a group that is followed.
type groupTaskContext struct {
	context.Context
	t *groupTask
}

// Value is the one of the task where that matters to the pool.
func (c groupTaskContext) Value(key any) any {
	if _, ok := key.(inTaskKey); ok {
		return c.t.Value(key)
	}
	return c.Context.Value(key)
}

func (p *Pool) traces() bool { return p.tracer != nil || trace.IsEnabled() }

// submitted returns the context that takes the place of ctx.
func (t *traced) submitted(ctx context.Context) context.Context {
	if tr := t.p.tracer; tr != nil {
		if c := tr.Submitted(ctx, t.kind); c != nil {
			ctx = c
		}
	}
	if trace.IsEnabled() {
		ctx, t.task = trace.NewTask(ctx, t.p.traceName())
	}
	return ctx
}

func (t *traced) run() error {
	ctx := t.own
	if tr := t.p.tracer; tr != nil {
		t.given = ctx // whatever becomes of Started: it was called
		var c context.Context
		if c, t.ended = tr.Started(ctx, t.kind); c != nil {
			ctx = c
		}
	}
	t.given = ctx
	return t.body.run()
}

func (t *traced) resolve(err error) {
	t.over(err)
	t.body.resolve(err)
}

// refuse is called if the task was not accepted. t may be nil.
func (t *traced) refuse(err error) {
	if t != nil {
		t.over(err)
	}
}

func (t *traced) over(err error) {
	switch tr := t.p.tracer; {
	case t.ended != nil:
		t.p.guard(func() { t.ended(err) })
	case tr != nil && t.given == nil:
		t.p.guard(func() { tr.Refused(t.own, t.kind, err) })
	}
	if t.task != nil {
		t.task.End()
	}
}

// given is the context that the task of c is given; own if c is not followed.
func (c *call) given(own context.Context) context.Context {
	if t, ok := c.body.(*traced); ok {
		return t.given
	}
	return own
}

// traceName is what the pool's tasks are called in traces of the runtime.
func (p *Pool) traceName() string {
	if p.name == "" {
		return "shoal"
	}
	return "shoal:" + p.name
}

// inRegion is f, as a region of runtime/trace while that is on.
func (p *Pool) inRegion(f func()) func() {
	if !trace.IsEnabled() {
		return f
	}
	return func() {
		defer trace.StartRegion(context.Background(), p.traceName()).End()
		f()
	}
}

// runBody runs the task of c, as a region of runtime/trace while that is on.
func (c *call) runBody() error {
	if trace.IsEnabled() {
		ctx := context.Background()
		if t, ok := c.body.(*traced); ok {
			ctx = t.own // it knows the task there
		}
		defer trace.StartRegion(ctx, c.pool.traceName()).End()
	}
	return c.body.run()
}
