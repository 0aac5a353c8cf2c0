package shoalotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shoal-go/shoal"
	shoalotel "github.com/shoal-go/shoal/contrib/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// A tracing is a provider, and what it has exported.
type tracing struct {
	t *testing.T
	*sdktrace.TracerProvider
	exported *tracetest.InMemoryExporter
	tracer   trace.Tracer // of the program
}

func newTracing(t *testing.T, opts ...sdktrace.TracerProviderOption) *tracing {
	exported := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(exported))...)
	return &tracing{t, tp, exported, tp.Tracer("program")}
}

// tasks are the spans of tasks that have ended, in the order of their ends.
func (tr *tracing) tasks() (tasks tracetest.SpanStubs) {
	for _, s := range tr.exported.GetSpans() {
		if s.InstrumentationScope.Name == "github.com/shoal-go/shoal/contrib/otel" {
			tasks = append(tasks, s)
		}
	}
	return tasks
}

// task is the span of the only task.
func (tr *tracing) task() tracetest.SpanStub {
	tr.t.Helper()
	tasks := tr.tasks()
	if len(tasks) != 1 {
		tr.t.Fatalf("got %d spans of tasks, want 1: %v", len(tasks), tasks)
	}
	return tasks[0]
}

// named is the only span of that name.
func (tr *tracing) named(name string) (span tracetest.SpanStub) {
	tr.t.Helper()
	n := 0
	for _, s := range tr.exported.GetSpans() {
		if s.Name == name {
			span = s
			n++
		}
	}
	if n != 1 {
		tr.t.Fatalf("got %d spans %q, want 1", n, name)
	}
	return span
}

func newPool(t *testing.T, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	p, err := shoal.New(append([]shoal.Option{shoal.WithMaxWorkers(1), shoal.WithPanicHandler(func(*shoal.PanicError) {})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// kinds has, for each kind, how to run one task.
var kinds = map[string]func(p *shoal.Pool, ctx context.Context, task func(context.Context) error) error{
	"SubmitContext": func(p *shoal.Pool, ctx context.Context, task func(context.Context) error) error {
		return p.SubmitContext(ctx, func(ctx context.Context) { task(ctx) })
	},
	"SubmitWait": func(p *shoal.Pool, ctx context.Context, task func(context.Context) error) error {
		return p.SubmitWait(ctx, task)
	},
	"Group": func(p *shoal.Pool, ctx context.Context, task func(context.Context) error) error {
		g := p.Group(ctx)
		g.Go(task)
		return g.Wait()
	},
	"Future": func(p *shoal.Pool, ctx context.Context, task func(context.Context) error) error {
		_, err := shoal.Go(ctx, p, func(ctx context.Context) (int, error) { return 0, task(ctx) }).Wait(context.Background())
		return err
	},
	"Map": func(p *shoal.Pool, ctx context.Context, task func(context.Context) error) error {
		return shoal.ForEach(ctx, p, slices.Values([]int{0}), func(ctx context.Context, _ int) error { return task(ctx) })
	},
	"Range": func(p *shoal.Pool, ctx context.Context, task func(context.Context) error) error {
		return shoal.Range(ctx, p, 1, func(ctx context.Context, _, _ int) error { return task(ctx) })
	},
	"Reservation": func(p *shoal.Pool, ctx context.Context, task func(context.Context) error) error {
		r, err := p.Reserve(ctx, 1)
		if err != nil {
			return err
		}
		return r.Submit(ctx, task, nil)
	},
}

func attributesOf(kv []attribute.KeyValue) map[string]any {
	m := make(map[string]any)
	for _, a := range kv {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// takeWait checks that there is the one attribute that no test can foretell, and
// takes it away.
func takeWait(t *testing.T, m map[string]any) {
	t.Helper()
	if w, ok := m["shoal.task.wait"].(float64); !ok || w < 0 {
		t.Errorf("shoal.task.wait is %v, want seconds", m["shoal.task.wait"])
	}
	delete(m, "shoal.task.wait")
}

func nop(context.Context) error { return nil }

func TestSpanOfEachKind(t *testing.T) {
	options := []struct {
		name   string
		opts   []shoalotel.TracerOption
		linked map[string]bool
	}{
		{"default", nil, map[string]bool{"SubmitContext": true}},
		{"children", []shoalotel.TracerOption{shoalotel.Children()}, nil},
		{"links", []shoalotel.TracerOption{shoalotel.Links()},
			map[string]bool{"SubmitContext": true, "SubmitWait": true, "Group": true, "Future": true, "Map": true, "Range": true, "Reservation": true}},
	}
	for _, o := range options {
		for kind, run := range kinds {
			t.Run(o.name+"/"+kind, func(t *testing.T) {
				tr := newTracing(t)
				p := newPool(t, shoal.WithTracer(shoalotel.Tracer(tr, append(o.opts, nil)...)), shoal.WithName("jobs"))
				ctx, submitting := tr.tracer.Start(context.Background(), "submitting")
				if err := run(p, ctx, nop); err != nil {
					t.Fatal(err)
				}
				if err := p.Shutdown(context.Background()); err != nil {
					t.Fatal(err)
				}
				got, from := tr.task(), submitting.SpanContext()
				if got.Name != "run jobs" || got.SpanKind != trace.SpanKindInternal {
					t.Errorf("got span %q of kind %v", got.Name, got.SpanKind)
				}
				if got.Status != (sdktrace.Status{}) || len(got.Events) > 0 {
					t.Errorf("got status %v and events %v, want none", got.Status, got.Events)
				}
				if o.linked[kind] {
					if got.Parent.IsValid() || got.SpanContext.TraceID() == from.TraceID() {
						t.Error("want a trace of its own")
					}
					if len(got.Links) != 1 || !got.Links[0].SpanContext.Equal(from) {
						t.Errorf("got links %v, want one to the submitting span", got.Links)
					}
				} else {
					if !got.Parent.Equal(from) {
						t.Errorf("got parent %v, want the submitting span", got.Parent)
					}
					if len(got.Links) > 0 {
						t.Errorf("got links %v, want none", got.Links)
					}
				}
				attributes := attributesOf(got.Attributes)
				takeWait(t, attributes)
				want := map[string]any{"shoal.pool.name": "jobs", "shoal.task.kind": kind}
				if !maps.Equal(attributes, want) {
					t.Errorf("got attributes %v, want %v", attributes, want)
				}
			})
		}
	}
}

func TestSpanWithoutPoolName(t *testing.T) {
	tr := newTracing(t)
	p := newPool(t, shoal.WithTracer(shoalotel.Tracer(tr)))
	ctx, _ := tr.tracer.Start(context.Background(), "submitting")
	if err := p.SubmitWait(ctx, nop); err != nil {
		t.Fatal(err)
	}
	got := tr.task()
	attributes := attributesOf(got.Attributes)
	takeWait(t, attributes)
	if want := map[string]any{"shoal.task.kind": "SubmitWait"}; got.Name != "run task" || !maps.Equal(attributes, want) {
		t.Errorf("got span %q, attributes %v", got.Name, attributes)
	}
}

// Exporters lose all spans that they have in hand over one text that is not UTF-8.
func TestSpansAreUTF8(t *testing.T) {
	tr := newTracing(t)
	p := newPool(t, shoal.WithName("a\xff"), shoal.WithTracer(shoalotel.Tracer(tr)))
	ctx, submitting := tr.tracer.Start(context.Background(), "submitting")
	boom := errors.New("b\xff")
	if err := p.SubmitWait(ctx, func(context.Context) error { return boom }); err != boom {
		t.Fatal(err)
	}
	p.Drain()
	if err := p.SubmitWait(ctx, nop); err != shoal.ErrClosed {
		t.Fatal(err)
	}
	submitting.End()

	got := tr.task()
	attributes := attributesOf(got.Attributes)
	takeWait(t, attributes)
	if want := map[string]any{"shoal.task.kind": "SubmitWait", "shoal.pool.name": "a\uFFFD", "error.type": "*errors.errorString"}; got.Name != "run a\uFFFD" || !maps.Equal(attributes, want) {
		t.Errorf("got span %q, attributes %v", got.Name, attributes)
	}
	if want := (sdktrace.Status{Code: codes.Error, Description: "b\uFFFD"}); got.Status != want {
		t.Errorf("got status %v", got.Status)
	}
	if event := attributesOf(got.Events[0].Attributes); event["exception.message"] != "b\uFFFD" {
		t.Errorf("got exception %v", event)
	}
	event := attributesOf(tr.named("submitting").Events[0].Attributes)
	if event["shoal.pool.name"] != "a\uFFFD" {
		t.Errorf("got refusal %q", event)
	}
}

// The stack of a panic is there although its text is not UTF-8.
func TestStackOfPanicThatIsNotUTF8(t *testing.T) {
	tr := newTracing(t)
	p := newPool(t, shoal.WithTracer(shoalotel.Tracer(tr)))
	ctx, _ := tr.tracer.Start(context.Background(), "submitting")
	p.SubmitWait(ctx, func(context.Context) error { panic("b\xff") })
	event := attributesOf(tr.task().Events[0].Attributes)
	text, stack := fmt.Sprint(event["exception.message"]), fmt.Sprint(event["exception.stacktrace"])
	if !strings.HasSuffix(text, "b\uFFFD") || !strings.Contains(stack, "trace_test.go") {
		t.Errorf("got exception %q with stack %q", text, stack)
	}
}

// A task's trouble is the status of its span, and an exception in it, however it
// was submitted.
func TestSpanOfTaskThatFails(t *testing.T) {
	boom := errors.New("boom")
	for _, trouble := range []struct {
		name, text, kind string
		stack            bool
		task             func(context.Context) error
	}{
		{"error", "boom", "*errors.errorString", false, func(context.Context) error { return boom }},
		{"panic", `shoal: task of pool "jobs" panicked: boom`, "*shoal.PanicError", true, func(context.Context) error { panic("boom") }},
		{"goexit", "shoal: task called runtime.Goexit", "*errors.errorString", false, func(context.Context) error { runtime.Goexit(); return nil }},
	} {
		for kind, run := range kinds {
			if kind == "SubmitContext" && trouble.name == "error" {
				continue // there is none
			}
			if kind == "Range" && trouble.name == "goexit" {
				continue // it would end the goroutine of the test
			}
			unheard := kind == "SubmitContext" || kind == "Reservation"
			t.Run(trouble.name+"/"+kind, func(t *testing.T) {
				tr := newTracing(t)
				p := newPool(t, shoal.WithName("jobs"), shoal.WithTracer(shoalotel.Tracer(tr)))
				ctx, _ := tr.tracer.Start(context.Background(), "submitting")
				if err := run(p, ctx, trouble.task); !unheard && err == nil {
					t.Error("want an error")
				}
				if err := p.Shutdown(context.Background()); err != nil {
					t.Fatal(err)
				}
				got := tr.task()
				if want := (sdktrace.Status{Code: codes.Error, Description: trouble.text}); got.Status != want {
					t.Errorf("got status %v, want %v", got.Status, want)
				}
				if a := attributesOf(got.Attributes); a["error.type"] != trouble.kind {
					t.Errorf("got error.type %v, want %v", a["error.type"], trouble.kind)
				}
				if len(got.Events) != 1 || got.Events[0].Name != "exception" {
					t.Fatalf("got events %v, want one exception", got.Events)
				}
				event := attributesOf(got.Events[0].Attributes)
				if event["exception.type"] != trouble.kind || event["exception.message"] != trouble.text {
					t.Errorf("got exception %v", event)
				}
				stack, ok := event["exception.stacktrace"].(string)
				if ok != trouble.stack || ok && !strings.Contains(stack, "trace_test.go") {
					t.Errorf("got stack %q", stack)
				}
			})
		}
	}
}

// mute is an error whose methods need a value.
type mute struct{ why error }

func (m *mute) Error() string { return m.why.Error() }
func (m *mute) Unwrap() error { return m.why }

// blind is an error that has a text, and whose Unwrap needs a value.
type blind struct{ why error }

func (*blind) Error() string   { return "blind" }
func (b *blind) Unwrap() error { return b.why }

// grave is an error whose method panics with itself.
type grave struct{}

func (g *grave) Error() string { panic(g) }

// A span ends although the methods of its error panic.
func TestSpanOfErrorThatPanics(t *testing.T) {
	for _, c := range []struct {
		err        error
		kind, text string
	}{
		{(*mute)(nil), "*shoalotel_test.mute", "<nil>"}, // as fmt says it
		{&mute{}, "*shoalotel_test.mute", "PANIC=Error method: "},
		{(*blind)(nil), "*shoalotel_test.blind", "blind"},
		{new(grave), "*shoalotel_test.grave", "panic in the error *shoalotel_test.grave"},
	} {
		tr := newTracing(t)
		tracer := shoalotel.Tracer(tr)
		p := newPool(t, shoal.WithTracer(tracer), shoal.WithPanicHandler(func(*shoal.PanicError) {}))
		ctx, submitting := tr.tracer.Start(context.Background(), "submitting")
		if err := p.SubmitWait(ctx, func(context.Context) error { return c.err }); err != c.err {
			t.Errorf("got another error")
		}
		refused := func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%T: Refused panics: %v", c.err, r)
				}
			}()
			tracer.Refused(tracer.Submitted(ctx, p, "SubmitWait"), p, "SubmitWait", c.err)
		}
		refused()
		submitting.End()
		refused()

		spans := tr.tasks()
		if len(spans) != 2 {
			t.Errorf("%T: %d spans have ended, want those of a task that ran and of one that did not", c.err, len(spans))
		}
		for _, got := range spans {
			if got.Status.Code != codes.Error || !strings.Contains(got.Status.Description, c.text) {
				t.Errorf("%T: got status %v", c.err, got.Status)
			}
			if a := attributesOf(got.Attributes); a["error.type"] != c.kind {
				t.Errorf("%T: got error.type %v", c.err, a["error.type"])
			}
			if len(got.Events) != 1 || got.Events[0].Name != "exception" {
				t.Errorf("%T: got events %v", c.err, got.Events)
			} else if text := fmt.Sprint(attributesOf(got.Events[0].Attributes)["exception.message"]); !strings.Contains(text, c.text) {
				t.Errorf("%T: got exception %q", c.err, text)
			}
		}
		events := tr.named("submitting").Events
		if len(events) != 1 || !strings.Contains(fmt.Sprint(attributesOf(events[0].Attributes)["error.message"]), c.text) {
			t.Errorf("%T: got refusals %v", c.err, events)
		}
	}
}

// A refusal is a way for a task not to run. The pool has one worker, which is busy,
// and one place; ctx has the submitting span.
type refusal struct {
	kind string
	why  error
	// submit submits the task, and returns what is to be done for it to be refused
	// when it was accepted; nil if it was refused already.
	submit func(t *testing.T, p *shoal.Pool, ctx context.Context, release func()) (refuse func())
}

var refusals = map[string]refusal{
	"no room": {"SubmitContext", shoal.ErrQueueFull, func(t *testing.T, p *shoal.Pool, ctx context.Context, _ func()) func() {
		if err := p.Submit(func() {}); err != nil {
			t.Fatal(err)
		}
		if err := p.SubmitContext(ctx, mustNotRun(t)); err != shoal.ErrQueueFull {
			t.Fatalf("got %v", err)
		}
		return nil
	}},
	"closed": {"SubmitWait", shoal.ErrClosed, func(t *testing.T, p *shoal.Pool, ctx context.Context, _ func()) func() {
		p.Drain()
		if err := p.SubmitWait(ctx, nop); err != shoal.ErrClosed {
			t.Fatalf("got %v", err)
		}
		return nil
	}},
	"canceled": {"SubmitContext", context.Canceled, func(t *testing.T, p *shoal.Pool, ctx context.Context, _ func()) func() {
		ctx, cancel := context.WithCancel(ctx)
		if err := p.SubmitContext(ctx, mustNotRun(t)); err != nil {
			t.Fatal(err)
		}
		return cancel
	}},
	"withdrawn": {"Future", context.Canceled, func(t *testing.T, p *shoal.Pool, ctx context.Context, _ func()) func() {
		f := shoal.Go(ctx, p, func(ctx context.Context) (int, error) { mustNotRun(t)(ctx); return 0, nil })
		return func() {
			if !f.Cancel() {
				t.Error("Cancel says no")
			}
		}
	}},
	"group canceled": {"Group", context.Canceled, func(t *testing.T, p *shoal.Pool, ctx context.Context, _ func()) func() {
		ctx, cancel := context.WithCancel(ctx)
		p.Group(ctx).Go(func(ctx context.Context) error { mustNotRun(t)(ctx); return nil })
		return cancel
	}},
	"dropped by Close": {"SubmitContext", shoal.ErrDropped, func(t *testing.T, p *shoal.Pool, ctx context.Context, release func()) func() {
		if err := p.SubmitContext(ctx, mustNotRun(t)); err != nil {
			t.Fatal(err)
		}
		return func() {
			go func() {
				for p.Stats().Dropped == 0 {
					runtime.Gosched()
				}
				release()
			}()
			p.Close()
		}
	}},
}

func mustNotRun(t *testing.T) func(context.Context) {
	return func(context.Context) { t.Error("the task runs") }
}

// held returns a pool whose one worker is busy until release is called, which also
// waits for the pool's end.
func held(t *testing.T, opts ...shoal.Option) (p *shoal.Pool, release func()) {
	t.Helper()
	p = newPool(t, append([]shoal.Option{shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.Reject)}, opts...)...)
	inside, hold := make(chan struct{}), make(chan struct{})
	if err := p.Submit(func() { close(inside); <-hold }); err != nil {
		t.Fatal(err)
	}
	<-inside
	release = sync.OnceFunc(func() {
		close(hold)
		p.Shutdown(context.Background()) // what was dropped is no news
		<-p.Done()
	})
	t.Cleanup(release)
	return p, release
}

// A task that does not run is an event in the span that it was submitted in.
func TestRefusedWhileSubmitterRuns(t *testing.T) {
	for name, r := range refusals {
		t.Run(name, func(t *testing.T) {
			tr := newTracing(t)
			p, release := held(t, shoal.WithTracer(shoalotel.Tracer(tr)), shoal.WithName("jobs"))
			ctx, submitting := tr.tracer.Start(context.Background(), "submitting")
			if refuse := r.submit(t, p, ctx, release); refuse != nil {
				refuse()
			}
			release()
			submitting.End()
			if tasks := tr.tasks(); len(tasks) > 0 {
				t.Errorf("got spans %v, want none", tasks)
			}
			got := tr.named("submitting")
			if len(got.Events) != 1 || got.Events[0].Name != "shoal.task.refused" {
				t.Fatalf("got events %v", got.Events)
			}
			event := attributesOf(got.Events[0].Attributes)
			takeWait(t, event)
			want := map[string]any{"shoal.pool.name": "jobs", "shoal.task.kind": r.kind, "error.message": r.why.Error()}
			if !maps.Equal(event, want) {
				t.Errorf("got event %v, want %v", event, want)
			}
			if got.Status != (sdktrace.Status{}) {
				t.Errorf("got status %v of the submitting span: that is for who submits to say", got.Status)
			}
		})
	}
}

// Where the submitting span has ended there is a span that has failed.
func TestRefusedAfterSubmitterHasEnded(t *testing.T) {
	for name, r := range refusals {
		t.Run(name, func(t *testing.T) {
			tr := newTracing(t)
			p, release := held(t, shoal.WithTracer(shoalotel.Tracer(tr, shoalotel.Children())))
			ctx, submitting := tr.tracer.Start(context.Background(), "submitting")
			refuse := r.submit(t, p, ctx, release)
			if refuse == nil {
				t.Skip("who submits it is told")
			}
			submitting.End()
			refuse()
			release()
			got := tr.task()
			if !got.Parent.Equal(submitting.SpanContext()) {
				t.Errorf("got parent %v", got.Parent)
			}
			if want := (sdktrace.Status{Code: codes.Error, Description: r.why.Error()}); got.Status != want {
				t.Errorf("got status %v, want %v", got.Status, want)
			}
			attributes := attributesOf(got.Attributes)
			takeWait(t, attributes)
			if attributes["shoal.task.kind"] != r.kind {
				t.Errorf("got attributes %v", attributes)
			}
		})
	}
}

// A task that is displaced is reported in the span in which it was submitted, and not in
// that of the task that displaced it.
func TestDropOldest(t *testing.T) {
	tr := newTracing(t)
	p, release := held(t, shoal.WithFullPolicy(shoal.DropOldest), shoal.WithTracer(shoalotel.Tracer(tr)))
	first, one := tr.tracer.Start(context.Background(), "first")
	second, two := tr.tracer.Start(context.Background(), "second")
	for _, ctx := range []context.Context{first, second} {
		if err := p.SubmitContext(ctx, func(context.Context) {}); err != nil {
			t.Fatal(err)
		}
	}
	release()
	one.End()
	two.End()
	if e := tr.named("first").Events; len(e) != 1 || attributesOf(e[0].Attributes)["error.message"] != shoal.ErrDropped.Error() {
		t.Errorf("got events %v of the first", e)
	}
	if e := tr.named("second").Events; len(e) != 0 {
		t.Errorf("got events %v of the second", e)
	}
}

// What is not sampled has no span, and its context is left alone.
func TestUntraced(t *testing.T) {
	tr := newTracing(t)
	never := newTracing(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	unsampled, _ := never.tracer.Start(context.Background(), "unsampled")
	none, _ := noop.NewTracerProvider().Tracer("").Start(context.Background(), "noop")
	p := newPool(t, shoal.WithTracer(shoalotel.Tracer(tr)))
	for name, ctx := range map[string]context.Context{"no span": context.Background(), "unsampled": unsampled, "noop": none} {
		for kind, run := range kinds {
			want := trace.SpanContextFromContext(ctx)
			err := run(p, ctx, func(ctx context.Context) error {
				if got := trace.SpanContextFromContext(ctx); !got.Equal(want) {
					t.Errorf("%s, %s: got span %v in the task, want %v", name, kind, got, want)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s, %s: %v", name, kind, err)
			}
		}
		if shoalotel.Tracer(tr).Submitted(ctx, p, "Group") != nil {
			t.Errorf("%s: the task is to be followed", name)
		}
	}
	p.Close()
	if got := tr.exported.GetSpans(); len(got) > 0 {
		t.Errorf("got spans %v", got)
	}
}

func TestUntracedAllocatesNothing(t *testing.T) {
	never := newTracing(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	unsampled, _ := never.tracer.Start(context.Background(), "unsampled")
	none, _ := noop.NewTracerProvider().Tracer("").Start(context.Background(), "noop")
	tracer, p := shoalotel.Tracer(never), newPool(t)
	for name, ctx := range map[string]context.Context{"no span": context.Background(), "unsampled": unsampled, "noop": none} {
		if n := testing.AllocsPerRun(100, func() { tracer.Submitted(ctx, p, "Group") }); n > 0 {
			t.Errorf("%s: got %v allocations", name, n)
		}
	}
}

// A task that was not sampled does not take the submission of the one that it was
// submitted in for its own.
func TestUntracedInTraced(t *testing.T) {
	tr := newTracing(t)
	p := newPool(t, shoal.WithTracer(shoalotel.Tracer(tr)))
	ctx, _ := tr.tracer.Start(context.Background(), "submitting")
	err := p.SubmitWait(ctx, func(ctx context.Context) error {
		return p.SubmitWait(trace.ContextWithSpan(ctx, noop.Span{}), nop)
	})
	if err != nil {
		t.Fatal(err)
	}
	tr.task()
}

// A span that is recorded but not sampled, as for a debug page, has spans of tasks.
func TestRecordedOnly(t *testing.T) {
	tr := newTracing(t, sdktrace.WithSampler(recordOnly{}))
	ended := tracetest.NewSpanRecorder()
	tr.RegisterSpanProcessor(ended)
	p := newPool(t, shoal.WithTracer(shoalotel.Tracer(tr)))
	ctx, _ := tr.tracer.Start(context.Background(), "submitting")
	if err := p.SubmitWait(ctx, nop); err != nil {
		t.Fatal(err)
	}
	if n := len(ended.Ended()); n != 1 {
		t.Errorf("got %d spans, want 1", n)
	}
}

type recordOnly struct{}

func (recordOnly) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
}
func (recordOnly) Description() string { return "recordOnly" }

// A request from elsewhere may have no span here.
func TestRemoteParent(t *testing.T) {
	tr := newTracing(t)
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	p := newPool(t, shoal.WithTracer(shoalotel.Tracer(tr)))
	if err := p.SubmitWait(trace.ContextWithRemoteSpanContext(context.Background(), remote), nop); err != nil {
		t.Fatal(err)
	}
	if got := tr.task(); !got.Parent.Equal(remote) {
		t.Errorf("got parent %v", got.Parent)
	}
}

// A trace that a task begins is sampled, or not, for itself.
func TestLinkedTraceIsNotSampled(t *testing.T) {
	program, tasks := newTracing(t), newTracing(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	p := newPool(t, shoal.WithTracer(shoalotel.Tracer(tasks)))
	ctx, _ := program.tracer.Start(context.Background(), "submitting")
	done := make(chan struct{})
	err := p.SubmitContext(ctx, func(ctx context.Context) {
		defer close(done)
		if trace.SpanContextFromContext(ctx).IsSampled() {
			t.Error("the task sees the span it was submitted in")
		}
		if err := p.SubmitWait(ctx, nop); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-done
	p.Close()
	if got := tasks.exported.GetSpans(); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// What a task does is inside of its span, also where tasks of pools run tasks, and
// baggage comes along.
func TestContextFlows(t *testing.T) {
	for kind, run := range kinds {
		t.Run(kind, func(t *testing.T) {
			tr := newTracing(t)
			tracer := shoal.WithTracer(shoalotel.Tracer(tr))
			p, q := newPool(t, tracer), newPool(t) // q is not traced, but passes contexts on
			tenant, err := baggage.NewMember("tenant", "7")
			if err != nil {
				t.Fatal(err)
			}
			bag, err := baggage.New(tenant)
			if err != nil {
				t.Fatal(err)
			}
			ctx, _ := tr.tracer.Start(baggage.ContextWithBaggage(context.Background(), bag), "submitting")
			done := make(chan struct{})
			err = run(p, ctx, func(ctx context.Context) error {
				defer close(done)
				trace.SpanFromContext(ctx).SetName("outer")
				_, child := tr.tracer.Start(ctx, "child")
				child.End()
				if got := baggage.FromContext(ctx).Member("tenant").Value(); got != "7" {
					t.Errorf("got tenant %q", got)
				}
				return q.SubmitWait(ctx, func(ctx context.Context) error {
					return p.SubmitWait(ctx, func(ctx context.Context) error {
						trace.SpanFromContext(ctx).SetName("inner")
						return nil
					})
				})
			})
			if err != nil {
				t.Error(err)
			}
			<-done
			p.Close()
			outer := tr.named("outer").SpanContext
			for _, name := range []string{"child", "inner"} {
				if got := tr.named(name).Parent; !got.Equal(outer) {
					t.Errorf("got parent %v of %s, want %v", got, name, outer)
				}
			}
		})
	}
}

// counted counts what is done to spans.
type counted struct {
	trace.TracerProvider
	started, ended atomic.Int64
	twice          atomic.Int64 // ended again
}

func (c *counted) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	return countedTracer{c.TracerProvider.Tracer(name, opts...), c}
}

type countedTracer struct {
	trace.Tracer
	c *counted
}

func (t countedTracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, span := t.Tracer.Start(ctx, name, opts...)
	t.c.started.Add(1)
	s := &countedSpan{Span: span, c: t.c}
	return trace.ContextWithSpan(ctx, s), s
}

type countedSpan struct {
	trace.Span
	c    *counted
	over atomic.Bool
}

func (s *countedSpan) End(opts ...trace.SpanEndOption) {
	if s.over.Swap(true) {
		s.c.twice.Add(1)
	}
	s.c.ended.Add(1)
	s.Span.End(opts...)
}

// Whatever becomes of tasks, each that was submitted has one span that is ended
// once, or one event.
func TestEverySpanEndsOnce(t *testing.T) {
	const submitters, each = 8, 200
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Reject, shoal.Spawn, shoal.CallerRuns, shoal.DropOldest} {
		t.Run(policy.String(), func(t *testing.T) {
			tr := newTracing(t, sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{EventCountLimit: -1, AttributePerEventCountLimit: -1, AttributeCountLimit: -1, AttributeValueLengthLimit: -1, LinkCountLimit: -1, AttributePerLinkCountLimit: -1}))
			c := &counted{TracerProvider: tr}
			var submitted atomic.Int64
			p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(8), shoal.WithFullPolicy(policy),
				shoal.WithTracer(counting{shoalotel.Tracer(c), &submitted}))
			var all sync.WaitGroup
			ctx, submitting := tr.tracer.Start(context.Background(), "submitting")
			for s := range submitters {
				all.Go(func() {
					for i := range each {
						ctx, cancel := context.WithCancel(ctx)
						task := func(ctx context.Context) error {
							switch (s + i) % 7 {
							case 0:
								panic("boom")
							case 1:
								if policy != shoal.CallerRuns { // there it would end this goroutine
									runtime.Goexit()
								}
							case 2:
								return errors.New("boom")
							case 3:
								return p.Group(ctx).Wait()
							case 4:
								f := shoal.Go(ctx, p, func(context.Context) (int, error) { return 0, nil })
								f.Cancel()
							}
							return nil
						}
						switch i % 5 {
						case 0:
							p.SubmitContext(ctx, func(ctx context.Context) { task(ctx) })
						case 1:
							p.SubmitWait(ctx, task)
						case 2:
							g := p.Group(ctx)
							g.Go(task)
							g.Go(task)
							g.Wait()
						case 3:
							shoal.Go(ctx, p, func(ctx context.Context) (int, error) { return 0, task(ctx) }).Cancel()
						case 4:
							shoal.ForEach(ctx, p, slices.Values([]int{1, 2}), func(ctx context.Context, _ int) error { return task(ctx) })
						}
						if i%3 == 0 {
							cancel()
						} else {
							defer cancel()
						}
						if s == 0 && i == each*3/4 {
							go p.Close()
						}
					}
				})
			}
			all.Wait()
			p.Close()
			submitting.End()
			if c.started.Load() != c.ended.Load() || c.twice.Load() != 0 {
				t.Errorf("%d spans started, %d ended, %d ended again", c.started.Load(), c.ended.Load(), c.twice.Load())
			}
			refused := 0
			for _, s := range tr.exported.GetSpans() {
				for _, e := range s.Events {
					if e.Name == "shoal.task.refused" {
						refused++
					}
				}
			}
			if got := c.started.Load() + int64(refused); got != submitted.Load() {
				t.Errorf("%d tasks submitted; %d have a span and %d an event", submitted.Load(), c.started.Load(), refused)
			}
		})
	}
}

// counting counts what a tracer follows.
type counting struct {
	shoal.Tracer
	n *atomic.Int64
}

func (c counting) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	c.n.Add(1)
	return c.Tracer.Submitted(ctx, p, kind)
}
