package shoalotel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	shoalotel "github.com/shoal-go/shoal/contrib/otel"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A depther is a queue that holds what the function returns.
type depther func(ctx context.Context) (jobs.Depth, error)

func (f depther) Depth(ctx context.Context) (jobs.Depth, error) { return f(ctx) }

// TestQueuesAreReported: those that answer, beside one that has an error and one that is slow.
func TestQueuesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, mp := newMetrics()
		r, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{
			"mails": depther(func(context.Context) (jobs.Depth, error) {
				return jobs.Depth{Ready: 1, Delayed: 2, Leased: 3, Dead: 4, Oldest: 1500 * time.Millisecond}, nil
			}),
			"away": depther(func(context.Context) (jobs.Depth, error) { return jobs.Depth{Ready: 9}, errors.New("away") }),
			"slow": depther(func(ctx context.Context) (jobs.Depth, error) { <-ctx.Done(); return jobs.Depth{}, ctx.Err() }),
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got := collect(t, reader)
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("a slow queue holds a collection up for %v", d)
		}
		for name, want := range map[string]map[string]float64{
			"shoal.jobs.queue.ready":   {"mails": 1},
			"shoal.jobs.queue.delayed": {"mails": 2},
			"shoal.jobs.queue.leased":  {"mails": 3},
			"shoal.jobs.queue.dead":    {"mails": 4},
			"shoal.jobs.queue.oldest":  {"mails": 1.5},
			"shoal.jobs.queue.up":      {"mails": 1, "away": 0, "slow": 0},
		} {
			if have := ofQueues(got[name]); !maps.Equal(have, want) {
				t.Errorf("%s: %v, want %v", name, have, want)
			}
		}
		if err := r.Unregister(); err != nil {
			t.Error(err)
		}
		if got := collect(t, reader); len(got) > 0 {
			t.Errorf("%d metrics are left", len(got))
		}
	})
}

// A collection waits for 5 s also if a queue does not heed its context. Then the queue is not asked
// again until it has answered.
func TestDeafQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, mp := newMetrics()
		hold, asked := make(chan struct{}), 0
		deaf := depther(func(context.Context) (jobs.Depth, error) {
			asked++
			<-hold
			return jobs.Depth{}, nil
		})
		r, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{"deaf": deaf})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Unregister()
		check := func(up float64, takes time.Duration, calls int) {
			t.Helper()
			began := time.Now()
			if got := ofQueues(collect(t, reader)["shoal.jobs.queue.up"]); !maps.Equal(got, map[string]float64{"deaf": up}) {
				t.Errorf("got %v, want %v", got, up)
			}
			if d := time.Since(began); d != takes {
				t.Errorf("the collection has taken %v, want %v", d, takes)
			}
			synctest.Wait()
			if asked != calls {
				t.Errorf("the queue was asked %d times, want %d", asked, calls)
			}
		}
		check(0, 5*time.Second, 1)
		check(0, 5*time.Second, 1)
		close(hold)
		synctest.Wait()
		check(1, 0, 2)
	})
}

// An answer that comes after its 5 s is none, also for a collection that has begun meanwhile.
func TestQueueThatAnswersTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, mp := newMetrics()
		late := depther(func(context.Context) (jobs.Depth, error) {
			time.Sleep(6 * time.Second)
			return jobs.Depth{}, nil
		})
		r, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{"late": late})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Unregister()
		for range 2 {
			if got := ofQueues(collect(t, reader)["shoal.jobs.queue.up"]); !maps.Equal(got, map[string]float64{"late": 0}) {
				t.Errorf("got %v", got)
			}
		}
	})
}

// A queue that panics has not told what it holds, and neither has one that ends its goroutine.
func TestQueueThatPanics(t *testing.T) {
	reader, mp := newMetrics()
	r, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{
		"good":   jobstest.NewQueue(time.Minute),
		"panics": depther(func(context.Context) (jobs.Depth, error) { panic("a bad queue") }),
		"exits":  depther(func(context.Context) (jobs.Depth, error) { runtime.Goexit(); return jobs.Depth{}, nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Unregister()
	want := map[string]float64{"good": 1, "panics": 0, "exits": 0}
	if got := ofQueues(collect(t, reader)["shoal.jobs.queue.up"]); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A provider reports one queue under a name.
func TestNamesOfQueuesAreTakenOnce(t *testing.T) {
	reader, mp := newMetrics()
	_, other := newMetrics()
	q := jobstest.NewQueue(time.Minute)
	a, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{"a": q, "b": q, "c": q})
	if err != nil {
		t.Fatal(err)
	}
	_, err = shoalotel.RegisterQueues(mp, map[string]jobs.Depther{"b": q, "c": q, "d": q})
	if want := "shoalotel: a queue \"b\" is registered already: want another name\nshoalotel: a queue \"c\" is registered already: want another name"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, c := range []struct {
		mp   metric.MeterProvider
		name string
	}{{mp, "d"}, {other, "a"}} { // "d" was not taken by what was refused
		r, err := shoalotel.RegisterQueues(c.mp, map[string]jobs.Depther{c.name: q})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Unregister()
	}
	for range 2 {
		if err := a.Unregister(); err != nil {
			t.Error(err)
		}
	}
	r, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{"b": q})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Unregister()
	a.Unregister() // of the first one
	if _, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{"b": q}); err == nil {
		t.Error("want an error")
	}
	want := map[string]float64{"b": 1, "d": 1}
	if got := ofQueues(collect(t, reader)["shoal.jobs.queue.up"]); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	boom := errors.New("boom")
	bad := &failing{callbacks: boom}
	for range 2 {
		if _, err := shoalotel.RegisterQueues(bad, map[string]jobs.Depther{"a": q}); !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
	}
}

// ofQueues are the values of a gauge, by queue.
func ofQueues(m metricdata.Metrics) map[string]float64 {
	all := make(map[string]float64)
	switch d := m.Data.(type) {
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			name, _ := p.Attributes.Value("shoal.queue.name")
			all[name.AsString()] = float64(p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			name, _ := p.Attributes.Value("shoal.queue.name")
			all[name.AsString()] = p.Value
		}
	}
	return all
}

func TestRegisterQueuesRefusesBadInput(t *testing.T) {
	q := jobstest.NewQueue(time.Minute)
	_, err := shoalotel.RegisterQueues(nil, map[string]jobs.Depther{"": q, "a\xff": q, "none": nil, "typed": (*jobstest.Queue)(nil), "good": q})
	for _, want := range []string{`queue name ""`, `queue name "a\xff": want UTF-8`, `queue "none" is nil`, `queue "typed" is nil`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, have %v", want, err)
		}
	}
}

func ExampleRegisterQueues() {
	ctx := context.Background()
	reader := sdkmetric.NewManualReader() // in a program, a periodic one, or Prometheus's
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	queue := jobstest.NewQueue(time.Minute) // in a program, one of contrib/sql or contrib/nats
	registration, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{"mails": queue})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer registration.Unregister()
	if err := queue.Enqueue(ctx, jobs.Message{}, jobs.Message{}, jobs.Message{Delay: time.Hour}); err != nil {
		fmt.Println(err)
	}
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &rm); err != nil {
		fmt.Println(err)
	}
	for _, m := range rm.ScopeMetrics[0].Metrics {
		if g, ok := m.Data.(metricdata.Gauge[int64]); ok {
			fmt.Println(m.Name, g.DataPoints[0].Value)
		}
	}
	// Unordered output:
	// shoal.jobs.queue.ready 2
	// shoal.jobs.queue.delayed 1
	// shoal.jobs.queue.leased 0
	// shoal.jobs.queue.dead 0
	// shoal.jobs.queue.up 1
}

// An unanswered queue takes no job as done.
type unanswered struct{ *jobstest.Queue }

type undone struct{ jobs.Delivery }

func (q unanswered) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := q.Queue.Pull(ctx, n)
	for i, d := range ds {
		ds[i] = undone{d}
	}
	return ds, err
}

func (undone) Ack(context.Context) error { return errors.New("no route to host") }

// TestLeasedJobsAddUp, those whose result did not reach the queue included.
func TestLeasedJobsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, mp := newMetrics()
		p := newPool(t, shoal.WithName("a"))
		register(t, mp, p)
		q := unanswered{jobstest.NewQueue(time.Second)}
		if err := q.Enqueue(t.Context(), jobs.Message{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			jobs.Serve(ctx, p, q, func(ctx context.Context, j *jobs.Job) error {
				if j.Attempt > 1 {
					<-ctx.Done()
				}
				return ctx.Err()
			}, jobs.WithDrain(0), jobs.WithLogger(slog.New(slog.DiscardHandler)))
		}()
		time.Sleep(3 * time.Second / 2) // the second lease is under way
		synctest.Wait()
		got := collect(t, reader)
		for name, want := range map[string]float64{
			"shoal.jobs.leased": 2, "shoal.jobs.held": 1, "shoal.jobs.acked": 0, "shoal.jobs.retried": 0,
			"shoal.jobs.dead": 0, "shoal.jobs.leases_lost": 0, "shoal.jobs.untold": 1,
		} {
			if v := values(t, got[name]); !maps.Equal(v, map[string]float64{"a": want}) {
				t.Errorf("%s: got %v, want %v", name, v, want)
			}
		}
		cancel()
		<-done
	})
}
