package shoalotel

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

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

// A TracerOption configures [Tracer].
type TracerOption interface{ apply(*tracer) }

type tracerOption func(*tracer)

func (o tracerOption) apply(t *tracer) { o(t) }

// Children makes every span a child of the span in which its task was submitted, also for
// tasks of [shoal.Pool.SubmitContext].
func Children() TracerOption {
	return tracerOption(func(t *tracer) { t.linked = func(string) bool { return false } })
}

// Links makes every span the root of a trace of its own, with a link to the span in which its
// task was submitted.
func Links() TracerOption {
	return tracerOption(func(t *tracer) { t.linked = func(string) bool { return true } })
}

// Tracer returns a tracer for [shoal.WithTracer], which any number of pools may share. It
// makes spans with tp, or with the global provider if tp is nil. A task is traced if it was
// submitted in a span that is sampled or recording.
//
// The span of a task lasts from its start to its end. The caller waits for a task of
// [shoal.Pool.SubmitWait], [shoal.Group], [shoal.Go], [shoal.Map] and [shoal.Range], so its
// span is a child of the span in which it was submitted; for a group that is the span in
// which the group was made. The span of a task of [shoal.Reservation.Submit] is a child too,
// although its caller does not wait. A task of [shoal.Pool.SubmitContext] may run long after that, so its span
// is the root of a trace of its own, with a link. The options [Children] and [Links] choose
// one of these for all tasks.
//
// The task's context has the span. So spans that the task starts become its children, and
// the task may rename it and add attributes. It has the attributes shoal.pool.name, if the
// pool has a name, shoal.task.kind, and shoal.task.wait: the time from the call that
// submitted the task to its start, in seconds. An error, a panic with its stack, and
// [runtime.Goexit] are recorded, and set the span's status.
//
// A task that does not run has no span. Instead, the span in which it was submitted gets
// an event shoal.task.refused. If that span has ended already, a failed span of zero length
// is made.
//
// In a name or an error's text that is not UTF-8, U+FFFD stands for each run of bad bytes.
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

// Submitted implements [shoal.Tracer]: it notes when and where the task was submitted.
func (t *tracer) Submitted(ctx context.Context, _ *shoal.Pool, _ string) context.Context {
	span := trace.SpanFromContext(ctx)
	if !span.SpanContext().IsSampled() && !span.IsRecording() {
		return nil
	}
	return &submission{ctx, span, time.Now()}
}

// Started implements [shoal.Tracer]: it starts the task's span.
func (t *tracer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	ctx, span := t.start(ctx, submissionOf(ctx), p, kind)
	return ctx, func(err error) {
		defer span.End() // whatever the methods of err do
		if err != nil {
			fail(span, err)
		}
	}
}

// Refused implements [shoal.Tracer]: it adds the event, or makes the span, of a task that
// does not run.
func (t *tracer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	s := submissionOf(ctx)
	if s.span.IsRecording() {
		text, _, _ := describe(err)
		s.span.AddEvent(refusedEvent, trace.WithAttributes(append(attributes(s, p, kind), errorText.String(text))...))
		return
	}
	_, span := t.start(ctx, s, p, kind)
	defer span.End()
	fail(span, err)
}

func (t *tracer) start(ctx context.Context, s *submission, p *shoal.Pool, kind string) (context.Context, trace.Span) {
	name := "run task"
	if p.Name() != "" {
		name = "run " + valid(p.Name())
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
		kv = append(kv, poolName.String(valid(p.Name())))
	}
	return kv
}

func fail(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	text, stack, said := describe(err)
	span.SetAttributes(errorType.String(fmt.Sprintf("%T", err)))
	span.RecordError(said, trace.WithAttributes(stack...))
	span.SetStatus(codes.Error, text)
}

// describe returns the text of err in UTF-8, the stack if err is a panic, and an error with the text.
// That is err itself, unless its text is not UTF-8 or its methods panic. If the value of such a panic
// panics too, the text names the type of err alone.
func describe(err error) (text string, stack []attribute.KeyValue, said error) {
	defer func() {
		if recover() == nil {
			return
		}
		defer func() {
			if recover() != nil {
				text = fmt.Sprintf("panic in the error %T", err)
			}
			said = errors.New(text)
		}()
		text = valid(fmt.Sprint(err)) // fmt survives an Error that panics, unless the value of the panic does so too
	}()
	text, said = err.Error(), err
	if !utf8.ValidString(text) {
		text = valid(text)
		said = errors.New(text)
	}
	var p *shoal.PanicError
	if errors.As(err, &p) {
		stack = append(stack, panicStack.String(string(p.Stack)))
	}
	return text, stack, said
}
