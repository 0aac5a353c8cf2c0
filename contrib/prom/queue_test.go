package prom_test

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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/shoal-go/shoal/contrib/prom"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

// A depther is a queue that holds what the function returns.
type depther func(ctx context.Context) (jobs.Depth, error)

func (f depther) Depth(ctx context.Context) (jobs.Depth, error) { return f(ctx) }

// TestQueuesAreReported: those that answer, beside one that has an error and one that is slow.
func TestQueuesAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := prom.NewQueueCollector(map[string]jobs.Depther{
			"mails": depther(func(context.Context) (jobs.Depth, error) {
				return jobs.Depth{Ready: 1, Delayed: 2, Leased: 3, Dead: 4, Oldest: 1500 * time.Millisecond}, nil
			}),
			"away": depther(func(context.Context) (jobs.Depth, error) { return jobs.Depth{Ready: 9}, errors.New("away") }),
			"slow": depther(func(ctx context.Context) (jobs.Depth, error) { <-ctx.Done(); return jobs.Depth{}, ctx.Err() }),
		})
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(c)
		began := time.Now()
		var want strings.Builder
		for _, f := range gather(t, reg) {
			fmt.Fprintf(&want, "# HELP %s %s\n# TYPE %[1]s gauge\n", f.GetName(), f.GetHelp())
			want.WriteString(map[string]string{
				"shoal_jobs_queue_dead":           "shoal_jobs_queue_dead{shoal_queue_name=\"mails\"} 4\n",
				"shoal_jobs_queue_delayed":        "shoal_jobs_queue_delayed{shoal_queue_name=\"mails\"} 2\n",
				"shoal_jobs_queue_leased":         "shoal_jobs_queue_leased{shoal_queue_name=\"mails\"} 3\n",
				"shoal_jobs_queue_oldest_seconds": "shoal_jobs_queue_oldest_seconds{shoal_queue_name=\"mails\"} 1.5\n",
				"shoal_jobs_queue_ready":          "shoal_jobs_queue_ready{shoal_queue_name=\"mails\"} 1\n",
				"shoal_jobs_queue_up":             "shoal_jobs_queue_up{shoal_queue_name=\"away\"} 0\nshoal_jobs_queue_up{shoal_queue_name=\"mails\"} 1\nshoal_jobs_queue_up{shoal_queue_name=\"slow\"} 0\n",
			}[f.GetName()])
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("a slow queue holds a scrape up for %v", d)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want.String())); err != nil {
			t.Error(err)
		}
	})
}

// ups are the values of shoal_jobs_queue_up.
func ups(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	got := make(map[string]float64)
	for _, f := range gather(t, reg) {
		if f.GetName() == "shoal_jobs_queue_up" {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return got
}

// A scrape waits for 5 s also if a queue does not heed its context. Then the queue is not asked again
// until it has answered.
func TestDeafQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, asked := make(chan struct{}), 0
		c, err := prom.NewQueueCollector(map[string]jobs.Depther{"deaf": depther(func(context.Context) (jobs.Depth, error) {
			asked++
			<-hold
			return jobs.Depth{}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(c)
		check := func(up float64, takes time.Duration, calls int) {
			t.Helper()
			began := time.Now()
			if got := ups(t, reg); !maps.Equal(got, map[string]float64{"deaf": up}) {
				t.Errorf("got %v, want %v", got, up)
			}
			if d := time.Since(began); d != takes {
				t.Errorf("the scrape has taken %v, want %v", d, takes)
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

// An answer that comes after its 5 s is none, also for a scrape that has begun meanwhile.
func TestQueueThatAnswersTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := prom.NewQueueCollector(map[string]jobs.Depther{"late": depther(func(context.Context) (jobs.Depth, error) {
			time.Sleep(6 * time.Second)
			return jobs.Depth{}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(c)
		for range 2 {
			if got := ups(t, reg); !maps.Equal(got, map[string]float64{"late": 0}) {
				t.Errorf("got %v", got)
			}
		}
	})
}

// Scrapes at the same time get the answer of one call, though the later one has less than its time left.
func TestScrapesOfASlowQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c, err := prom.NewQueueCollector(map[string]jobs.Depther{"slow": depther(func(context.Context) (jobs.Depth, error) {
			asked++
			time.Sleep(3 * time.Second)
			return jobs.Depth{}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(c)
		up := func() {
			if got := ups(t, reg); !maps.Equal(got, map[string]float64{"slow": 1}) {
				t.Errorf("got %v", got)
			}
		}
		go up()
		time.Sleep(2 * time.Second)
		up()
		synctest.Wait()
		if asked != 1 {
			t.Errorf("the queue was asked %d times", asked)
		}
	})
}

// A queue that panics has not told what it holds, and neither has one that ends its goroutine.
func TestQueueThatPanics(t *testing.T) {
	c, err := prom.NewQueueCollector(map[string]jobs.Depther{
		"good":   jobstest.NewQueue(time.Minute),
		"panics": depther(func(context.Context) (jobs.Depth, error) { panic("a bad queue") }),
		"exits":  depther(func(context.Context) (jobs.Depth, error) { runtime.Goexit(); return jobs.Depth{}, nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	if got, want := ups(t, reg), map[string]float64{"good": 1, "panics": 0, "exits": 0}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A registry takes one collector of queues, so that no name is there twice.
func TestTwoQueueCollectors(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for i, wants := range []bool{true, false} {
		c, err := prom.NewQueueCollector(map[string]jobs.Depther{fmt.Sprint(i): jobstest.NewQueue(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		if err := reg.Register(c); (err == nil) != wants {
			t.Errorf("collector %d: got %v", i, err)
		}
	}
}

func TestNewQueueCollectorRefusesBadInput(t *testing.T) {
	q := jobstest.NewQueue(time.Minute)
	_, err := prom.NewQueueCollector(map[string]jobs.Depther{"": q, "a\xff": q, "none": nil, "typed": (*jobstest.Queue)(nil), "good": q})
	for _, want := range []string{`a queue is named ""`, `"a\xff": want UTF-8`, `queue "none" is nil`, `queue "typed" is nil`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, have %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "good") {
		t.Error(err)
	}
}

func ExampleNewQueueCollector() {
	ctx := context.Background()
	queue := jobstest.NewQueue(time.Minute) // in a program, one of contrib/sql or contrib/nats
	queues, err := prom.NewQueueCollector(map[string]jobs.Depther{"mails": queue})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry() // or prometheus.MustRegister(queues)
	registry.MustRegister(queues)

	if err := queue.Enqueue(ctx, jobs.Message{}, jobs.Message{}, jobs.Message{Delay: time.Hour}); err != nil {
		fmt.Println(err)
	}
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		if f.GetName() != "shoal_jobs_queue_oldest_seconds" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output:
	// shoal_jobs_queue_dead 0
	// shoal_jobs_queue_delayed 1
	// shoal_jobs_queue_leased 0
	// shoal_jobs_queue_ready 2
	// shoal_jobs_queue_up 1
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
		p := newPool(t, "a")
		_, reg := register(t, p)
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
		got := byPool(t, gather(t, reg))["a"]
		for name, want := range map[string]float64{
			"shoal_jobs_leased_total": 2, "shoal_jobs_held": 1, "shoal_jobs_acked_total": 0, "shoal_jobs_retried_total": 0,
			"shoal_jobs_dead_total": 0, "shoal_jobs_leases_lost_total": 0, "shoal_jobs_untold_total": 1,
		} {
			if m := got[name]; m == nil || number(t, m) != want {
				t.Errorf("%s is %v, want %v", name, m, want)
			}
		}
		cancel()
		<-done
	})
}
