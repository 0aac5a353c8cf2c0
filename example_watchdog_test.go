package shoal_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/shoal-go/shoal"
)

// All workers wait for something, and the tasks that would bring it are queued behind
// them: the watchdog tells which tasks those are.
func ExampleWithStallAfter() {
	told := make(chan shoal.Alarm, 1)
	pool := shoal.Must(shoal.New(
		shoal.WithName("orders"),
		shoal.WithMaxWorkers(2),
		shoal.WithStallAfter(10*time.Millisecond), // in a program, rather a minute
		shoal.WithAlarmHandler(func(a shoal.Alarm) { told <- a }),
		shoal.WithLogger(slog.New(slog.DiscardHandler)),
	))
	defer pool.Close()

	paid := make(chan struct{})
	for range 2 {
		pool.Submit(func() { waitForPayment(paid) })
	}
	pool.Submit(func() { close(paid) }) // no worker is left for it

	alarm := <-told
	fmt.Println(alarm.Kind, "of", alarm.Stats.Name, "with", alarm.Count, "running and", alarm.Stats.Queued, "queued")
	fmt.Println("they are in waitForPayment:", strings.Contains(alarm.Tasks[0].Stack, "waitForPayment"))
	pool.Resize(0, 3)
	pool.Wait()
	fmt.Println("told of", pool.Stats().Stalls)
	// Output:
	// stall of orders with 2 running and 1 queued
	// they are in waitForPayment: true
	// told of 1
}

func waitForPayment(paid <-chan struct{}) { <-paid }

// A task that takes too long is told of while it runs.
func ExampleWithSlowTask() {
	told := make(chan struct{})
	pool := shoal.Must(shoal.New(
		shoal.WithName("reports"),
		shoal.WithSlowTask(10*time.Millisecond),
		shoal.WithAlarmHandler(func(shoal.Alarm) { close(told) }),
		shoal.WithLogger(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
			ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr { // what is the same each time
				switch {
				case len(groups) > 0, a.Key == slog.TimeKey, a.Key == "for", a.Key == "max":
					return slog.Attr{}
				}
				return a
			},
		}))),
	))
	defer pool.Close()
	pool.Submit(func() { <-told })
	pool.Wait()
	// Output:
	// level=WARN msg="shoal: tasks have become slow" pool=reports tasks=1 running=1 queued=0
}

// What the workers of a pool that is stuck are doing.
func ExamplePool_OldestTasks() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()
	paid, started := make(chan struct{}), make(chan struct{})
	pool.Submit(func() { close(started); waitForPayment(paid) })
	<-started

	for _, task := range pool.OldestTasks(10) {
		fmt.Println("worker", task.Worker, "is in this example:", strings.Contains(task.Stack, "ExamplePool_OldestTasks"))
	}
	close(paid)
	// Output:
	// worker 0 is in this example: true
}

// A printer is a Tracer that prints.
type printer struct{}

type requestKey struct{}

func (printer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	fmt.Println(ctx.Value(requestKey{}), "submitted to", p.Name(), "by", kind)
	return ctx
}

func (printer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	fmt.Println(ctx.Value(requestKey{}), "started")
	return ctx, func(err error) { fmt.Println(ctx.Value(requestKey{}), "ended:", err) }
}

func (printer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	fmt.Println(ctx.Value(requestKey{}), "refused:", err)
}

// A Tracer sees tasks come and go. For OpenTelemetry's there is contrib/otel.
func ExampleWithTracer() {
	pool := shoal.Must(shoal.New(shoal.WithName("orders"), shoal.WithTracer(printer{})))
	ctx := context.WithValue(context.Background(), requestKey{}, "request 7")

	pool.SubmitWait(ctx, func(context.Context) error { return fmt.Errorf("out of stock") })
	pool.Close()
	pool.SubmitContext(ctx, func(context.Context) {})
	// Output:
	// request 7 submitted to orders by SubmitWait
	// request 7 started
	// request 7 ended: out of stock
	// request 7 submitted to orders by SubmitContext
	// request 7 refused: shoal: pool closed
}
