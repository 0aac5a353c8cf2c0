package shoalotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shoal-go/shoal"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// The attributes of spans, and of the event for a task that did not run.
const (
	taskKind   = attribute.Key("shoal.task.kind")
	taskWait   = attribute.Key("shoal.task.wait")
	errorType  = attribute.Key("error.type")
	errorText  = attribute.Key("error.message")
	panicStack = attribute.Key("exception.stacktrace")
)

// refusedEvent is the name of that event.
const refusedEvent = "shoal.task.refused"

// A TracerOption configures what [Tracer] returns.
type TracerOption interface{ apply(*tracer) }

type tracerOption func(*tracer)

func (o tracerOption) apply(t *tracer) { o(t) }

// Children has every span be a child of the one that its task was submitted in,
// those of [shoal.Pool.SubmitContext] too.
func Children() TracerOption {
	return tracerOption(func(t *tracer) { t.linked = func(string) bool { return false } })
}

// Links has every span begin a trace of its own, with a link to the span that its
// task was submitted in.
func Links() TracerOption {
	return tracerOption(func(t *tracer) { t.linked = func(string) bool { return true } })
}

// Tracer is for [shoal.WithTracer], of any number of pools: it has tp trace the tasks that are submitted in
// a sampled span, or in one that is recording. A nil tp is the global one.
//
// Each has a span from its start to its end. A task that somebody waits for, of
// [shoal.Pool.SubmitWait], [shoal.Group], [shoal.Go] or [shoal.Map], is part of
// what that one does: its span is a child of the one that it was submitted in (of
// a group, the one that the group was made in). One of [shoal.Pool.SubmitContext]
// may outlive the other by any time: its span begins a trace of its own, with a
// link to it. [Children] and [Links] make all the same.
//
// The span is in the task's context: what the task starts becomes its child, and
// the task may rename it and add to it. The attributes are shoal.pool.name, where the
// pool has one, shoal.task.kind, and shoal.task.wait, which is how long the task
// waited from the call that submitted it to its start, in seconds. An error, a
// panic, with its stack, and [runtime.Goexit] are recorded, and are the span's
// status.
//
// A task that does not run has no span. There is an event, shoal.task.refused,
// in the one that it was submitted in. If that has ended there is a span after
// all, of no length, that has failed.
func Tracer(tp trace.TracerProvider, opts ...TracerOption) shoal.Tracer {
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	t := &tracer{spans: tp.Tracer(scope), linked: func(kind string) bool { return kind == "SubmitContext" }}
	for _, o := range opts {
		if o != nil {
			o.apply(t)
		}
	}
	return t
}

type tracer struct {
	spans  trace.Tracer
	linked func(kind string) bool
}

// A submission is the context that a task is submitted with.
type submission struct {
	context.Context
	span trace.Span // the current one
	at   time.Time
}

type submissionKey struct{}

func (s *submission) Value(key any) any {
	if key == (submissionKey{}) {
		return s
	}
	return s.Context.Value(key)
}

// submissionOf returns the submission of the task that ctx is about.
func submissionOf(ctx context.Context) *submission {
	return ctx.Value(submissionKey{}).(*submission)
}

// Submitted notes when and where the task was submitted, if that is sampled.
func (t *tracer) Submitted(ctx context.Context, _ *shoal.Pool, _ string) context.Context {
	span := trace.SpanFromContext(ctx)
	if !span.SpanContext().IsSampled() && !span.IsRecording() {
		return nil
	}
	return &submission{ctx, span, time.Now()}
}

// Started starts the task's span.
func (t *tracer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	ctx, span := t.start(ctx, submissionOf(ctx), p, kind)
	return ctx, func(err error) {
		if err != nil {
			fail(span, err)
		}
		span.End()
	}
}

// Refused says so where the task was submitted, or if that is over, in a span.
func (t *tracer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	s := submissionOf(ctx)
	if s.span.IsRecording() {
		s.span.AddEvent(refusedEvent, trace.WithAttributes(append(attributes(s, p, kind), errorText.String(err.Error()))...))
		return
	}
	_, span := t.start(ctx, s, p, kind)
	fail(span, err)
	span.End()
}

func (t *tracer) start(ctx context.Context, s *submission, p *shoal.Pool, kind string) (context.Context, trace.Span) {
	name := "run task"
	if p.Name() != "" {
		name = "run " + p.Name()
	}
	attributes := trace.WithAttributes(attributes(s, p, kind)...)
	if !t.linked(kind) {
		return t.spans.Start(ctx, name, attributes)
	}
	return t.spans.Start(ctx, name, attributes, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: s.span.SpanContext()}))
}

func attributes(s *submission, p *shoal.Pool, kind string) []attribute.KeyValue {
	kv := make([]attribute.KeyValue, 0, 4)
	kv = append(kv, taskKind.String(kind), taskWait.Float64(time.Since(s.at).Seconds()))
	if p.Name() != "" {
		kv = append(kv, poolName.String(p.Name()))
	}
	return kv
}

func fail(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	var stack []attribute.KeyValue
	var p *shoal.PanicError
	if errors.As(err, &p) {
		stack = append(stack, panicStack.String(string(p.Stack)))
	}
	span.RecordError(err, trace.WithAttributes(stack...))
	span.SetAttributes(errorType.String(fmt.Sprintf("%T", err)))
	span.SetStatus(codes.Error, err.Error())
}
