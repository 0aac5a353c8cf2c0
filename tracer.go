package shoal

import (
	"context"
	"runtime/trace"

	"github.com/shoal-go/shoal/internal/kernel"
)

// This file traces tasks from their submission to their end, for a Tracer of the
// user, and for runtime/trace while that is on. It puts a body between the engine
// and the body of a call, so the engine does not depend on tracing.

// A Tracer follows tasks that have a context, from their submission to their
// end. See [WithTracer]. These are the tasks of [Pool.SubmitContext],
// [Pool.SubmitWait], [Group], [Future], [Map], [MapUnordered] and [ForEach], those of
// [Keyed.SubmitContext] and [Reservation.Submit], and the caller's share of
// [Range], [ForEachSlice] and [MapSlice] where that is a task of its own. The other
// participants of such a loop are not followed.
//
// Any number of goroutines call its methods, which must not wait for the pool.
// p is the pool of the task, which may be a sub-pool. kind says what submitted
// the task: "SubmitContext", "SubmitWait", "Group", "Future", "Map", "Range" or
// "Reservation". A panic in a method is reported like that of a task; in Started it counts as
// a panic of the task. A call of [runtime.Goexit] in them is a bug, which ends
// the process.
//
// Submitted is called by the submitting goroutine with the context of the call,
// before the task is accepted. It is not called for a nil task or context. The
// context that it returns replaces the caller's, but SubmitWait waits for
// capacity by the caller's, and a Group by its own. If it returns nil, the task
// keeps the caller's context and is not followed any further.
//
// Started is called on the task's goroutine right before the task, with a
// context derived from what Submitted returned. The task is given the context
// that Started returns, which must be derived from ctx. If end is not nil, it
// is called after the task, with the task's error: nil, what the task returned,
// a [*PanicError], or [ErrGoexit]. Only then does the task count as completed,
// and do its waiters get the result.
//
// Refused is called instead of Started if a submitted task does not run:
// because it was not accepted, dropped or canceled, also if its context had ended
// before the call. err says why. If Close
// dropped it, other goroutines may see the pool closed a moment earlier.
//
// Each call of Submitted that does not return nil is followed by one call of
// Started or of Refused, and each end that Started returns is called once,
// unless the process dies.
type Tracer interface {
	Submitted(ctx context.Context, p *Pool, kind string) context.Context
	Started(ctx context.Context, p *Pool, kind string) (task context.Context, end func(err error))
	Refused(ctx context.Context, p *Pool, kind string, err error)
}

// WithTracer sets a Tracer for the pool's tasks that have a context, and for
// those of its sub-pools that have no Tracer of their own. The default, and
// nil, is none.
func WithTracer(t Tracer) Option { return option(func(c *config) { c.tracer = t }) }

// traced is the body of a call that is traced.
type traced struct {
	kernel.Body // the call's own
	p           *Pool
	kind        string          // what submitted it
	given       context.Context // what the task is given
	tracer      Tracer          // nil: none, or it is not called any more
	ended       func(error)     // from Tracer.Started
	task        *trace.Task     // nil: runtime/trace was off
}

// follows reports whether p's calls may have to be traced.
func (p *Pool) follows() bool { return p.tracer != nil || trace.IsEnabled() }

// trace makes c a traced call, if p's calls are to be traced. Its caller is about to submit c; kind says
// by which call of the API. own is the context that the task would be given otherwise. up is the
// context that own is derived from, which trace may replace.
func (p *Pool) trace(c *call, own context.Context, up *context.Context, kind string) {
	if !p.follows() {
		return
	}
	t := &traced{Body: c.Body, p: p, kind: kind, given: own}
	if p.tracer != nil {
		p.callback("Tracer.Submitted", func() {
			if told := p.tracer.Submitted(*up, p, kind); told != nil {
				t.tracer, *up = p.tracer, told
			}
		})
	}
	if trace.IsEnabled() {
		*up, t.task = trace.NewTask(*up, p.traceName())
	}
	if t.tracer != nil || t.task != nil {
		c.Body = t
	}
}

func (t *traced) Run() error {
	if tr := t.tracer; tr != nil {
		t.tracer = nil // the task is not refused, even if Started panics
		var ctx context.Context
		t.p.noGoexit("Tracer.Started", func() { ctx, t.ended = tr.Started(t.given, t.p, t.kind) })
		if ctx != nil {
			t.given = ctx
		}
	}
	return t.Body.Run()
}

// Over is called when the task has ended, or is known not to run. It may be called again.
func (t *traced) Over(err error) {
	tr, ended, task := t.tracer, t.ended, t.task
	t.tracer, t.ended, t.task = nil, nil, nil
	switch {
	case ended != nil:
		t.p.callback("the end function of a Tracer", func() { ended(err) })
	case tr != nil:
		t.p.callback("Tracer.Refused", func() { tr.Refused(t.given, t.p, t.kind, err) })
	}
	if task != nil {
		task.End()
	}
	t.Body.Over(err)
}

// given is the context that the task of c is given; own if c is not traced.
func given(c *call, own context.Context) context.Context {
	if t, ok := c.Body.(*traced); ok {
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

// Region begins a region of runtime/trace for a task, that of c unless that is nil.
func (o *owner) Region(c *call) (end func()) {
	ctx := context.Background()
	if c != nil {
		ctx = given(c, ctx) // it has the trace's task
	}
	return trace.StartRegion(ctx, (*Pool)(o).traceName()).End
}
