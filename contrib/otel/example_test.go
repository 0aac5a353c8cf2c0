package shoalotel_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shoal-go/shoal"
	shoalotel "github.com/shoal-go/shoal/contrib/otel"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A request submits a task that it waits for, and one that it does not.
func ExampleTracer() {
	exporter := tracetest.NewInMemoryExporter() // in a program, that of OTLP
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	pool := shoal.Must(shoal.New(shoal.WithName("jobs"), shoal.WithMaxWorkers(1),
		shoal.WithTracer(shoalotel.Tracer(tp))))

	ctx, request := tp.Tracer("shop").Start(context.Background(), "GET /cart")
	pool.SubmitWait(ctx, func(ctx context.Context) error {
		_, query := tp.Tracer("shop").Start(ctx, "SELECT")
		query.End()
		return nil
	})
	pool.SubmitContext(context.WithoutCancel(ctx), func(ctx context.Context) {
		_, mail := tp.Tracer("shop").Start(ctx, "send mail")
		mail.End()
	})
	request.End()
	pool.Shutdown(context.Background())

	names := map[string]string{}
	for _, s := range exporter.GetSpans() {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, s := range exporter.GetSpans() {
		fmt.Printf("%s", s.Name)
		if s.Parent.IsValid() {
			fmt.Printf(" in %q", names[s.Parent.SpanID().String()])
		}
		for _, l := range s.Links {
			fmt.Printf(", linked to %q", names[l.SpanContext.SpanID().String()])
		}
		fmt.Println()
	}
	// Unordered output:
	// SELECT in "run jobs"
	// run jobs in "GET /cart"
	// GET /cart
	// send mail in "run jobs"
	// run jobs, linked to "GET /cart"
}

// The trace of a request goes with the job that it enqueues, to the machine that does it.
func Example_jobs() {
	exporter := tracetest.NewInMemoryExporter() // in a program, that of OTLP
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	tracer := tp.Tracer("shop")
	headers := propagation.TraceContext{}
	queue := jobstest.NewQueue(time.Minute) // in a program, one that lasts
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	// The one machine.
	ctx, request := tracer.Start(context.Background(), "POST /order")
	h := jobs.Header{}
	headers.Inject(ctx, propagation.MapCarrier(h))
	if err := queue.Enqueue(ctx, jobs.Message{Data: []byte("4711"), Header: h}); err != nil {
		fmt.Println(err)
	}
	request.End()

	// The other.
	ctx, stop := context.WithCancel(context.Background())
	err := jobs.Serve(ctx, pool, queue, func(ctx context.Context, j *jobs.Job) error {
		_, span := tracer.Start(ctx, "send order")
		defer span.End()
		defer stop()
		return nil
	}, jobs.WithJobContext(func(ctx context.Context, j *jobs.Job) context.Context {
		return headers.Extract(ctx, propagation.MapCarrier(j.Header))
	}))
	if err != nil {
		fmt.Println(err)
	}
	spans := exporter.GetSpans()
	fmt.Println(spans[1].Name, "in", spans[0].Name, spans[1].Parent.SpanID() == spans[0].SpanContext.SpanID())
	// Output: send order in POST /order true
}

func ExampleRegister() {
	reader := sdkmetric.NewManualReader() // in a program, a periodic one, or Prometheus's
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	pool := shoal.Must(shoal.New(shoal.WithName("jobs"), shoal.WithMaxWorkers(4)))
	registration, err := shoalotel.Register(mp, pool)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer registration.Unregister()
	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithMaxWorkers(2)))
	defer mails.Close() // a sub-pool that nobody refers to any more is collected, and not seen

	mails.Submit(func() {})
	pool.Submit(func() {})
	pool.Submit(func() {})
	mails.Wait()
	pool.Wait()

	var rm metricdata.ResourceMetrics
	reader.Collect(context.Background(), &rm)
	for _, m := range rm.ScopeMetrics[0].Metrics {
		switch m.Name {
		case "shoal.pool.task.completed", "shoal.pool.worker.limit":
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				name, _ := p.Attributes.Value("shoal.pool.name")
				fmt.Println(m.Name, name.AsString(), p.Value)
			}
		}
	}
	pool.Close()
	// Unordered output:
	// shoal.pool.task.completed jobs 2
	// shoal.pool.task.completed jobs/mails 1
	// shoal.pool.worker.limit jobs 4
	// shoal.pool.worker.limit jobs/mails 2
}
