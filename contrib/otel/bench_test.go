package shoalotel_test

import (
	"context"
	"testing"

	"github.com/shoal-go/shoal"
	shoalotel "github.com/shoal-go/shoal/contrib/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// BenchmarkTask is a task without a tracer; with one, where there is no span, one of a
// provider that does nothing, or one that is not sampled; and where it is sampled, up
// to the exporter.
func BenchmarkTask(b *testing.B) {
	sampled := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discard{}))
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	nothing := noop.NewTracerProvider()
	none := context.Background()
	unsampled, _ := never.Tracer("").Start(none, "request")
	inNothing, _ := nothing.Tracer("").Start(none, "request")
	request, _ := sampled.Tracer("").Start(none, "request")
	submits := []struct {
		name string
		run  func(b *testing.B, p *shoal.Pool, ctx context.Context)
	}{
		{"SubmitContext", func(b *testing.B, p *shoal.Pool, ctx context.Context) {
			task := func(context.Context) {}
			for b.Loop() {
				if err := p.SubmitContext(ctx, task); err != nil {
					b.Fatal(err)
				}
			}
			p.Wait()
		}},
		{"Group", func(b *testing.B, p *shoal.Pool, ctx context.Context) {
			g := p.Group(ctx)
			for b.Loop() {
				g.Go(nop)
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
		}},
		{"SubmitWait", func(b *testing.B, p *shoal.Pool, ctx context.Context) {
			for b.Loop() {
				if err := p.SubmitWait(ctx, nop); err != nil {
					b.Fatal(err)
				}
			}
		}},
	}
	for _, s := range submits {
		for _, c := range []struct {
			name   string
			ctx    context.Context
			tracer shoal.Tracer
		}{
			{"off", none, nil},
			{"no-span", none, shoalotel.Tracer(sampled)},
			{"noop", inNothing, shoalotel.Tracer(nothing)},
			{"unsampled", unsampled, shoalotel.Tracer(never)},
			{"sampled", request, shoalotel.Tracer(sampled)},
		} {
			b.Run("submit="+s.name+"/tracer="+c.name, func(b *testing.B) {
				p, err := shoal.New(shoal.WithTracer(c.tracer), shoal.WithQueueCapacity(1024))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				s.run(b, p, c.ctx)
				p.Close()
			})
		}
	}
}

// discard is where an exporter would be.
type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }

// BenchmarkHooks is what the tracer itself takes for a task.
func BenchmarkHooks(b *testing.B) {
	sampled := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discard{}))
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	none := context.Background()
	unsampled, _ := never.Tracer("").Start(none, "request")
	request, _ := sampled.Tracer("").Start(none, "request")
	tracer := shoalotel.Tracer(sampled)
	p := shoal.Must(shoal.New(shoal.WithName("jobs")))
	defer p.Close()
	for name, ctx := range map[string]context.Context{"no-span": none, "unsampled": unsampled, "sampled": request} {
		b.Run("ctx="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				task := tracer.Submitted(ctx, p, "Group")
				if task == nil {
					continue
				}
				if _, end := tracer.Started(task, p, "Group"); end != nil {
					end(nil)
				}
			}
		})
	}
}

// BenchmarkCollect is a collection of one pool, which has measured some tasks.
func BenchmarkCollect(b *testing.B) {
	reader := sdkmetric.NewManualReader()
	p := shoal.Must(shoal.New(shoal.WithName("jobs"), shoal.WithTiming(shoal.TimingFull)))
	defer p.Close()
	for range 1000 {
		p.Submit(func() {})
	}
	p.Wait()
	r, err := shoalotel.Register(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), p)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Unregister()
	var rm metricdata.ResourceMetrics
	b.ReportAllocs()
	for b.Loop() {
		if err := reader.Collect(context.Background(), &rm); err != nil {
			b.Fatal(err)
		}
	}
}
