package shoalotel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	shoalotel "github.com/shoal-go/shoal/contrib/otel"
	"github.com/shoal-go/shoal/internal/servetest"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func newMetrics() (*sdkmetric.ManualReader, *sdkmetric.MeterProvider) {
	r := sdkmetric.NewManualReader()
	return r, sdkmetric.NewMeterProvider(sdkmetric.WithReader(r))
}

func register(t *testing.T, mp metric.MeterProvider, p *shoal.Pool) metric.Registration {
	t.Helper()
	r, err := shoalotel.Register(mp, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Unregister() })
	return r
}

// collect returns the metrics of the package by their names.
func collect(t *testing.T, r *sdkmetric.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]metricdata.Metrics)
	for _, s := range rm.ScopeMetrics {
		if s.Scope.Name != "github.com/shoal-go/shoal/contrib/otel" {
			t.Errorf("got scope %q", s.Scope.Name)
		}
		for _, m := range s.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// values are the values of m by pool, and of the number of workers by pool and state, as
// "jobs idle". It checks that there is no other attribute, and each value once.
func values(t *testing.T, m metricdata.Metrics) map[string]float64 {
	t.Helper()
	got := make(map[string]float64)
	add := func(set attribute.Set, v float64) {
		t.Helper()
		pool, ok := set.Value("shoal.pool.name")
		name := pool.AsString()
		want := 1
		if m.Name == "shoal.pool.worker.count" {
			state, _ := set.Value("shoal.pool.worker.state")
			name += " " + state.AsString()
			want = 2
		}
		if !ok || set.Len() != want {
			t.Errorf("%s: got attributes %v", m.Name, set)
		}
		if _, twice := got[name]; twice {
			t.Errorf("%s: pool %q is there twice", m.Name, name)
		}
		got[name] = v
	}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, float64(p.Value))
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, p.Value)
		}
	case nil:
	default:
		t.Errorf("%s: got %T", m.Name, d)
	}
	return got
}

// pools are the names of the pools in metric m.
func pools(t *testing.T, m metricdata.Metrics) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(values(t, m)))
}

// kindOf is "counter", "updowncounter" or "gauge".
func kindOf(m metricdata.Metrics) string {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		if !d.IsMonotonic {
			return "updowncounter"
		}
		return "counter"
	case metricdata.Sum[float64]:
		if !d.IsMonotonic {
			return "updowncounter"
		}
		return "counter"
	case metricdata.Gauge[int64], metricdata.Gauge[float64]:
		return "gauge"
	}
	return fmt.Sprintf("%T", m.Data)
}

// What is reported while nothing happens, exactly. Time stands still but where a
// task sleeps.
func TestMetricsAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, mp := newMetrics()
		p := newPool(t, shoal.WithName("jobs"), shoal.WithMaxWorkers(2), shoal.WithMinWorkers(1), shoal.WithQueueCapacity(4),
			shoal.WithFullPolicy(shoal.Reject), shoal.WithTiming(shoal.TimingFull), shoal.WithIdleTimeout(shoal.Forever))
		r := register(t, mp, p)

		for range 5 { // 5 that sleep, one after the other
			if err := p.SubmitWait(t.Context(), func(context.Context) error { time.Sleep(time.Second); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		p.SubmitWait(t.Context(), func(context.Context) error { return errors.New("boom") })
		p.Wait()
		hold := make(chan struct{})
		for range 2 {
			p.Submit(func() { <-hold })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		p.SubmitContext(ctx, mustNotRun(t))
		cancel()
		f := shoal.Go(t.Context(), p, func(context.Context) (int, error) { return 0, nil })
		f.Cancel()
		for range 3 { // the canceled future takes no room
			p.Submit(func() {})
		}
		if err := p.Submit(func() {}); err != shoal.ErrQueueFull {
			t.Fatalf("got %v", err)
		}

		type row struct {
			kind, unit string
			value      float64
		}
		const never = -1
		want := map[string]row{
			"shoal.pool.task.submitted":     {"counter", "{task}", 13},
			"shoal.pool.task.completed":     {"counter", "{task}", 6},
			"shoal.pool.task.failed":        {"counter", "{task}", 1},
			"shoal.pool.task.rejected":      {"counter", "{task}", 1},
			"shoal.pool.task.dropped":       {"counter", "{task}", 0},
			"shoal.pool.task.canceled":      {"counter", "{task}", 1},
			"shoal.pool.task.spawned":       {"counter", "{task}", 0},
			"shoal.pool.task.slow":          {"counter", "{task}", 0},
			"shoal.pool.stalls":             {"counter", "{stall}", 0},
			"shoal.pool.task.wait.measured": {"counter", "{task}", 6},
			"shoal.pool.task.run.measured":  {"counter", "{task}", 6},
			"shoal.pool.task.wait.time":     {"counter", "s", 0},
			"shoal.pool.task.run.time":      {"counter", "s", 5},
			"shoal.pool.task.in_flight":     {"updowncounter", "{task}", 6},
			"shoal.pool.queue.size":         {"updowncounter", "{task}", 4},
			"shoal.pool.queue.capacity":     {"updowncounter", "{task}", 4},
			"shoal.pool.submitter.blocked":  {"updowncounter", "{submitter}", 0},
			"shoal.pool.paused":             {"gauge", "{pool}", 0},
			"shoal.pool.draining":           {"gauge", "{pool}", 0},
			"shoal.pool.closed":             {"gauge", "{pool}", 0},
			"shoal.pool.worker.busy.time":   {"counter", "s", 5},
			"shoal.pool.worker.count":       {"updowncounter", "{worker}", 2}, // active, and no others
			"shoal.pool.task.panicked":      {"counter", "{task}", 0},
			"shoal.pool.worker.core":        {"updowncounter", "{worker}", 1},
			"shoal.pool.worker.limit":       {"updowncounter", "{worker}", 2},
			"shoal.pool.worker.reserved":    {"updowncounter", "{worker}", 0},
			"shoal.pool.queue.utilization":  {"gauge", "1", 1},
			"shoal.pool.stalled":            {"gauge", "s", 0},
			"shoal.pool.task.wait.p50":      {"gauge", "s", 0},
			"shoal.pool.task.wait.p99":      {"gauge", "s", 0},
			"shoal.pool.task.wait.max":      {"gauge", "s", 0},
			"shoal.pool.task.run.p50":       {"gauge", "s", 1},
			"shoal.pool.task.run.p99":       {"gauge", "s", 1},
			"shoal.pool.task.run.max":       {"gauge", "s", 1},
		}
		check := func() {
			t.Helper()
			got := collect(t, reader)
			for name, w := range want {
				m, ok := got[name]
				switch {
				case w.value == never && ok:
					t.Errorf("%s: got %v, want none", name, m.Data)
				case w.value == never:
				case !ok:
					t.Errorf("%s: got none", name)
				default:
					if k := kindOf(m); k != w.kind || m.Unit != w.unit || m.Description == "" {
						t.Errorf("%s: got %s in %q, %q", name, k, m.Unit, m.Description)
					}
					v, all := values(t, m), map[string]float64{"jobs": w.value}
					if name == "shoal.pool.worker.count" {
						all = map[string]float64{"jobs active": w.value, "jobs idle": 2 - w.value}
					}
					if !maps.Equal(v, all) {
						t.Errorf("%s: got %v, want %v", name, v, w.value)
					}
				}
			}
			for name := range got {
				if _, ok := want[name]; !ok {
					t.Errorf("got %s too", name)
				}
			}
		}
		set := func(values map[string]float64) {
			for name, v := range values {
				w := want[name]
				w.value = v
				want[name] = w
			}
		}
		check()

		// Nothing was measured since. All are busy, and have been for a while.
		time.Sleep(3 * time.Second)
		set(map[string]float64{
			"shoal.pool.task.wait.p50": never, "shoal.pool.task.wait.p99": never, "shoal.pool.task.wait.max": never,
			"shoal.pool.task.run.p50": never, "shoal.pool.task.run.p99": never, "shoal.pool.task.run.max": never,
			"shoal.pool.stalled": 3, "shoal.pool.worker.busy.time": 5 + 2*3,
		})
		check()

		// Two ran for 3 s, and three waited as long; one is canceled in place.
		close(hold)
		p.Wait()
		set(map[string]float64{
			"shoal.pool.task.completed": 11, "shoal.pool.task.canceled": 2, "shoal.pool.task.in_flight": 0, "shoal.pool.queue.size": 0,
			"shoal.pool.task.wait.measured": 11, "shoal.pool.task.run.measured": 11, "shoal.pool.task.wait.time": 9, "shoal.pool.task.run.time": 11,
			"shoal.pool.worker.count": 0, "shoal.pool.queue.utilization": 0, "shoal.pool.stalled": 0,
			"shoal.pool.task.wait.p50": 3, "shoal.pool.task.wait.p99": 3, "shoal.pool.task.wait.max": 3,
			"shoal.pool.task.run.p50": 0, "shoal.pool.task.run.p99": 3, "shoal.pool.task.run.max": 3,
		})
		check()

		time.Sleep(time.Hour) // parked, which counts as nothing
		p.SubmitWait(t.Context(), func(context.Context) error { panic("boom") })
		p.Pause()
		got := collect(t, reader)
		for name, want := range map[string]float64{"shoal.pool.task.panicked": 1, "shoal.pool.task.failed": 2, "shoal.pool.worker.busy.time": 11, "shoal.pool.paused": 1} {
			if v := values(t, got[name])["jobs"]; v != want {
				t.Errorf("%s: got %v, want %v", name, v, want)
			}
		}
		p.Resume()
		p.Drain()
		<-p.Done()
		if v := values(t, collect(t, reader)["shoal.pool.closed"])["jobs"]; v != 1 {
			t.Errorf("shoal.pool.closed: got %v", v)
		}

		if err := r.Unregister(); err != nil {
			t.Fatal(err)
		}
		if got := collect(t, reader); len(got) > 0 {
			t.Errorf("got %v after Unregister", got)
		}
		p.Close()
	})
}

func TestMetricsOfStallsAndSlowTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, mp := newMetrics()
		p := newPool(t, shoal.WithName("jobs"), shoal.WithStallAfter(time.Second), shoal.WithSlowTask(time.Second), shoal.WithLogger(slog.New(slog.DiscardHandler)))
		register(t, mp, p)
		for range 2 {
			p.Submit(func() { time.Sleep(1500 * time.Millisecond) })
		}
		p.Wait()
		got := collect(t, reader)
		for name, want := range map[string]float64{"shoal.pool.stalls": 1, "shoal.pool.task.slow": 2} {
			if v := values(t, got[name])["jobs"]; v != want {
				t.Errorf("%s: got %v, want %v", name, v, want)
			}
		}
		p.Close()
	})
}

func TestMetricsOfUnboundedQueue(t *testing.T) {
	reader, mp := newMetrics()
	register(t, mp, newPool(t, shoal.WithName("jobs"), shoal.WithQueueCapacity(shoal.Unbounded)))
	got := collect(t, reader)
	for _, name := range []string{"shoal.pool.queue.capacity", "shoal.pool.queue.utilization"} {
		if m, ok := got[name]; ok {
			t.Errorf("got %v", m)
		}
	}
	if _, ok := got["shoal.pool.queue.size"]; !ok {
		t.Error("got no shoal.pool.queue.size")
	}
}

func newSub(t *testing.T, p *shoal.Pool, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	s, err := p.Sub(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// run has p run n tasks.
func run(t *testing.T, p *shoal.Pool, n int) {
	t.Helper()
	for range n {
		if err := p.SubmitWait(t.Context(), nop); err != nil {
			t.Fatal(err)
		}
	}
	p.Wait()
}

// Sub-pools are reported from when they are made until they have ended, by their
// path. Those of one path are reported as one, and no counter ever goes back.
func TestMetricsOfSubPools(t *testing.T) {
	for _, temporality := range []metricdata.Temporality{metricdata.CumulativeTemporality, metricdata.DeltaTemporality} {
		t.Run(temporality.String(), func(t *testing.T) {
			reader := sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(func(sdkmetric.InstrumentKind) metricdata.Temporality { return temporality }))
			p := newPool(t, shoal.WithName("root"))
			register(t, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), p)
			total := map[string]float64{} // as a backend has it
			check := func(want map[string]float64) {
				t.Helper()
				m := collect(t, reader)
				if busy := pools(t, m["shoal.pool.worker.busy.time"]); !slices.Equal(busy, []string{"root"}) {
					t.Errorf("%v have workers of their own", busy)
				}
				got := values(t, m["shoal.pool.task.completed"])
				for name, v := range got {
					if temporality == metricdata.DeltaTemporality {
						if v < 0 {
							t.Errorf("%s went back by %v", name, -v)
						}
						got[name] += total[name]
					}
				}
				if !maps.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				total = got
			}
			run(t, p, 1)
			check(map[string]float64{"root": 1})

			a, below := newSub(t, p, shoal.WithName("a")), (*shoal.Pool)(nil)
			below = newSub(t, a, shoal.WithName("b"))
			run(t, a, 2)
			run(t, below, 3)
			check(map[string]float64{"root": 1, "root/a": 2, "root/a/b": 3})

			again, nameless := newSub(t, p, shoal.WithName("a")), []*shoal.Pool{newSub(t, p), newSub(t, p)}
			run(t, again, 10)
			run(t, nameless[0], 4)
			run(t, nameless[1], 5)
			check(map[string]float64{"root": 1, "root/a": 12, "root/a/b": 3, "root/": 9})

			run(t, below, 1)
			run(t, a, 1)
			a.Close() // and below
			nameless[0].Close()
			check(map[string]float64{"root": 1, "root/a": 13, "root/a/b": 4, "root/": 9}) // for the last time

			again.Close()
			again = newSub(t, p, shoal.WithName("a"))
			run(t, again, 1)
			check(map[string]float64{"root": 1, "root/a": 14, "root/": 9})

			again.Close()
			nameless[1].Close()
			check(map[string]float64{"root": 1, "root/a": 14, "root/": 9}) // for the last time
			check(map[string]float64{"root": 1})

			again = newSub(t, p, shoal.WithName("a"))
			run(t, again, 1)
			check(map[string]float64{"root": 1, "root/a": 1})
			p.Close()
			check(map[string]float64{"root": 1, "root/a": 1})
			check(map[string]float64{"root": 1})
		})
	}
}

// A sub-pool that nobody refers to is collected, also if its metrics were. What it had done by then stays.
func TestDroppedSubPoolsAreCollected(t *testing.T) {
	reader, mp := newMetrics()
	p := newPool(t, shoal.WithName("root"), shoal.WithMaxWorkers(2))
	register(t, mp, p)
	stays := newSub(t, p, shoal.WithName("request"))
	for range 20 {
		s, err := p.Sub(shoal.WithName("request"))
		if err != nil {
			t.Fatal(err)
		}
		run(t, s, 1)
		collect(t, reader)
	}
	for end := time.Now().Add(time.Minute); len(p.Subs()) > 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		runtime.GC()
	}
	if n := len(p.Subs()); n > 2 { // the last one may still be on the stack
		t.Errorf("%d of 20 sub-pools that were dropped are in memory", n-1)
	}
	if got := values(t, collect(t, reader)["shoal.pool.task.completed"])["root/request"]; got != 20 {
		t.Errorf("%v tasks are counted, want 20", got)
	}
	runtime.KeepAlive(stays)
}

// The levels of pools that have ended are not in the sum, and where one is not
// bounded it is not.
func TestMetricsOfSubPoolsAddUp(t *testing.T) {
	reader, mp := newMetrics()
	p := newPool(t, shoal.WithName("root"))
	register(t, mp, p)
	subs := []*shoal.Pool{
		newSub(t, p, shoal.WithName("a"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(4)),
		newSub(t, p, shoal.WithName("a"), shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(4)),
		newSub(t, p, shoal.WithName("a"), shoal.WithMaxWorkers(3), shoal.WithQueueCapacity(shoal.Unbounded)),
	}
	newSub(t, p, shoal.WithName("\xff"))
	if names := pools(t, collect(t, reader)["shoal.pool.task.submitted"]); !slices.Equal(names, []string{"root", "root/a", "root/\uFFFD"}) {
		t.Errorf("got %q", names) // exporters take UTF-8
	}
	subs[1].Pause()
	for range 2 {
		if err := subs[1].Submit(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want map[string]float64) {
		t.Helper()
		got := collect(t, reader)
		for name, w := range want {
			if v, ok := values(t, got[name])["root/a"]; v != w || !ok {
				t.Errorf("%s: got %v, want %v", name, v, w)
			}
		}
		for _, name := range []string{"shoal.pool.queue.capacity", "shoal.pool.queue.utilization"} {
			if _, ok := values(t, got[name])["root/a"]; ok != (want[name] != 0) {
				t.Errorf("%s: is there: %v", name, ok)
			}
		}
	}
	check(map[string]float64{"shoal.pool.paused": 0, "shoal.pool.worker.limit": 6, "shoal.pool.queue.size": 2, "shoal.pool.task.in_flight": 2})
	subs[2].Close()
	check(map[string]float64{"shoal.pool.worker.limit": 3, "shoal.pool.queue.size": 2, "shoal.pool.queue.capacity": 8, "shoal.pool.queue.utilization": 0.25})
	subs[0].Close()
	check(map[string]float64{"shoal.pool.paused": 1, "shoal.pool.worker.limit": 2, "shoal.pool.queue.capacity": 4, "shoal.pool.queue.utilization": 0.5})
}

func TestRegisterRefuses(t *testing.T) {
	reader, mp := newMetrics()
	_, other := newMetrics()
	jobs := newPool(t, shoal.WithName("jobs"))
	sub := newSub(t, newSub(t, jobs, shoal.WithName("a")), shoal.WithName("b"))
	register(t, mp, jobs)
	low := newPool(t, shoal.WithName("x/y"))
	register(t, mp, low)
	alone := newPool(t, shoal.WithName("alone"))
	part := newSub(t, alone, shoal.WithName("part"))
	register(t, mp, part)
	for _, c := range []struct {
		pool *shoal.Pool
		want string
	}{
		{nil, "nil pool"},
		{new(shoal.Pool), `pool name ""`},
		{newPool(t), `pool name ""`},
		{newPool(t, shoal.WithName("a\xff")), `pool name "a\xff": want UTF-8`},
		{newPool(t, shoal.WithName("jobs")), `pool "jobs" is registered already`},
		{jobs, `pool "jobs" is registered already`},
		{newPool(t, shoal.WithName("jobs/a")), `pools "jobs/a" and "jobs": the name of one`},
		{newPool(t, shoal.WithName("x")), `pools "x" and "x/y": the name of one`},
		{sub, `pools "b" and "jobs": one is a sub-pool of the other`},
		{alone, `pools "alone" and "part": one is a sub-pool of the other`},
	} {
		r, err := shoalotel.Register(mp, c.pool)
		if err == nil || !strings.HasPrefix(err.Error(), "shoalotel: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		if r != nil {
			t.Error("got a registration with the error")
		}
	}
	if got, want := pools(t, collect(t, reader)["shoal.pool.task.submitted"]), []string{"jobs", "jobs/a", "jobs/a/b", "part", "x/y"}; !slices.Equal(got, want) {
		t.Errorf("got pools %v, want %v", got, want)
	}
	register(t, other, jobs) // another provider is another matter
	for range 2 {
		register(t, metricnoop.NewMeterProvider(), jobs) // this one reports nothing twice
	}
}

// What a sub-pool has done stays in the report of its parent when it has ended. So it is not reported
// for itself, after any number of collections.
func TestRegisterRefusesSubPoolsThatHaveEnded(t *testing.T) {
	reader, mp := newMetrics()
	p := newPool(t, shoal.WithName("jobs"))
	sub := newSub(t, p, shoal.WithName("part"))
	register(t, mp, p)
	run(t, sub, 3)
	refused := func() {
		t.Helper()
		_, err := shoalotel.Register(mp, sub)
		if want := `pools "part" and "jobs": one is a sub-pool of the other`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	collect(t, reader)
	sub.Close()
	refused()
	for range 3 {
		collect(t, reader)
		refused()
	}
	ended := newPool(t, shoal.WithName("ended")) // of no parent that is registered
	ended.Close()
	register(t, mp, ended)
}

// nesting is a provider whose method Meter calls f, once.
type nesting struct {
	metricnoop.MeterProvider
	f func()
}

func (n *nesting) Meter(name string, opts ...metric.MeterOption) metric.Meter {
	if f := n.f; f != nil {
		n.f = nil
		f()
	}
	return n.MeterProvider.Meter(name, opts...)
}

// A provider may register something itself when it is asked for a meter.
func TestRegisterInMeter(t *testing.T) {
	_, mp := newMetrics()
	q := map[string]jobs.Depther{"a": jobstest.NewQueue(time.Minute)}
	queues := func(mp metric.MeterProvider) {
		r, err := shoalotel.RegisterQueues(mp, q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Unregister() })
	}
	register(t, mp, newPool(t, shoal.WithName("a")))
	queues(mp)
	_, other := newMetrics()
	n := &nesting{f: func() { register(t, other, newPool(t, shoal.WithName("b"))) }}
	register(t, n, newPool(t, shoal.WithName("c")))
	n.f = func() { queues(other) }
	queues(n)
	if n.f != nil {
		t.Error("the provider was not asked for a meter")
	}
}

// observing is a provider that keeps the callback, and an observer that calls f, once.
type observing struct {
	metricnoop.MeterProvider
	metricnoop.Observer
	callback metric.Callback
	f        func()
}

func (o *observing) Meter(string, ...metric.MeterOption) metric.Meter { return observingMeter{o: o} }

type observingMeter struct {
	metricnoop.Meter
	o *observing
}

func (m observingMeter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	if m.o.callback == nil {
		m.o.callback = f
	}
	return metricnoop.Registration{}, nil
}

func (o *observing) ObserveInt64(metric.Int64Observable, int64, ...metric.ObserveOption) {
	if f := o.f; f != nil {
		o.f = nil
		f()
	}
}

// An observer may register something itself.
func TestRegisterInCollect(t *testing.T) {
	mp := &observing{}
	register(t, mp, newPool(t, shoal.WithName("a")))
	mp.f = func() { register(t, mp, newPool(t, shoal.WithName("b"))) }
	collected := make(chan error)
	go func() { collected <- mp.callback(context.Background(), mp) }()
	select {
	case err := <-collected:
		if err != nil || mp.f != nil {
			t.Errorf("%v; asked: %t", err, mp.f == nil)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the collection does not end")
	}
}

func TestUnregister(t *testing.T) {
	reader, mp := newMetrics()
	a, b := newPool(t, shoal.WithName("a")), newPool(t, shoal.WithName("b"))
	ra := register(t, mp, a)
	register(t, mp, b)
	check := func(want ...string) {
		t.Helper()
		if got := pools(t, collect(t, reader)["shoal.pool.task.submitted"]); !slices.Equal(got, want) {
			t.Errorf("got pools %v, want %v", got, want)
		}
	}
	check("a", "b")
	for range 2 {
		if err := ra.Unregister(); err != nil {
			t.Error(err)
		}
		check("b")
	}
	again := newPool(t, shoal.WithName("a"))
	rb := register(t, mp, again)
	check("a", "b")
	if err := ra.Unregister(); err != nil { // of the first one
		t.Error(err)
	}
	check("a", "b")
	if _, err := shoalotel.Register(mp, a); err == nil {
		t.Error("want an error")
	}
	rb.Unregister()
	check("b")
}

// The global provider is one, whether it is called that, nil, or by its own name,
// before and after it was set.
func TestRegisterGlobal(t *testing.T) {
	if globalIsSet {
		t.Skip("the first global provider passes on to one other, for good")
	}
	globalIsSet = true
	before := otel.GetMeterProvider()
	defer otel.SetMeterProvider(before)
	register(t, nil, newPool(t, shoal.WithName("a")))
	register(t, before, newPool(t, shoal.WithName("b")))
	reader, mp := newMetrics()
	register(t, mp, newPool(t, shoal.WithName("c")))
	otel.SetMeterProvider(mp)
	register(t, nil, newPool(t, shoal.WithName("d")))
	for _, name := range []string{"a", "b", "c", "d"} {
		for _, mp := range []metric.MeterProvider{nil, otel.GetMeterProvider()} {
			if _, err := shoalotel.Register(mp, newPool(t, shoal.WithName(name))); err == nil {
				t.Errorf("%s: want an error", name)
			}
		}
	}
	if got, want := pools(t, collect(t, reader)["shoal.pool.task.submitted"]), []string{"a", "b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("got pools %v, want %v", got, want)
	}

	// What was registered with one provider stays there when another one becomes the global one.
	otherReader, other := newMetrics()
	otel.SetMeterProvider(other)
	for _, name := range []string{"a", "b", "c", "d"} {
		for _, mp := range []metric.MeterProvider{before, mp} {
			if _, err := shoalotel.Register(mp, newPool(t, shoal.WithName(name))); err == nil {
				t.Errorf("%s: want an error", name)
			}
		}
	}
	register(t, nil, newPool(t, shoal.WithName("a")))
	register(t, other, newPool(t, shoal.WithName("b")))
	for _, mp := range []metric.MeterProvider{nil, other} {
		for _, name := range []string{"a", "b"} {
			if _, err := shoalotel.Register(mp, newPool(t, shoal.WithName(name))); err == nil {
				t.Errorf("%s: want an error", name)
			}
		}
	}
	if got, want := pools(t, collect(t, otherReader)["shoal.pool.task.submitted"]), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got pools %v, want %v", got, want)
	}
}

var globalIsSet bool

// Where the provider refuses, so does Register, and the name stays free.
func TestRegisterFails(t *testing.T) {
	boom := errors.New("boom")
	p := newPool(t, shoal.WithName("jobs"))
	mp := &failing{instruments: boom}
	for range 2 {
		if _, err := shoalotel.Register(mp, p); !errors.Is(err, boom) || !strings.Contains(err.Error(), `"jobs"`) {
			t.Errorf("got %v", err)
		}
	}
	mp.instruments, mp.callbacks = nil, boom
	if _, err := shoalotel.Register(mp, p); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	mp.callbacks, mp.panics = nil, true
	func() {
		defer func() { recover() }()
		shoalotel.Register(mp, p)
		t.Error("want a panic")
	}()
	mp.panics = false
	register(t, mp, p)
}

// A provider that is a nil pointer is an error, and no claim is left.
func TestNilProvider(t *testing.T) {
	var mp *sdkmetric.MeterProvider
	for range 2 {
		if _, err := shoalotel.Register(mp, newPool(t, shoal.WithName("jobs"))); err == nil || err.Error() != "shoalotel: nil *metric.MeterProvider" {
			t.Errorf("got %v", err)
		}
		if _, err := shoalotel.RegisterQueues(mp, nil); err == nil || err.Error() != "shoalotel: nil *metric.MeterProvider" {
			t.Errorf("got %v", err)
		}
	}
}

// failing is a provider whose meters fail.
type failing struct {
	metricnoop.MeterProvider
	instruments, callbacks error
	panics                 bool
}

func (f *failing) Meter(string, ...metric.MeterOption) metric.Meter {
	if f.panics {
		panic("a bad provider")
	}
	return failingMeter{f: f}
}

type failingMeter struct {
	metricnoop.Meter
	f *failing
}

func (m failingMeter) Float64ObservableGauge(name string, opts ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return metricnoop.Float64ObservableGauge{}, m.f.instruments
}

func (m failingMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	if m.f.callbacks != nil {
		return nil, m.f.callbacks
	}
	return metricnoop.Registration{}, nil
}

// Readers collect while pools come and go: what they get always adds up.
func TestCollectWhilePoolsComeAndGo(t *testing.T) {
	readers := []*sdkmetric.ManualReader{sdkmetric.NewManualReader(), sdkmetric.NewManualReader()}
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(readers[0]), sdkmetric.WithReader(readers[1]))
	p := newPool(t, shoal.WithName("root"), shoal.WithMaxWorkers(4))
	register(t, mp, p)
	stop := make(chan struct{})
	var collecting, working sync.WaitGroup
	for _, r := range readers {
		collecting.Go(func() {
			last := map[string]float64{}
			for {
				m := collect(t, r)
				submitted := values(t, m["shoal.pool.task.submitted"])
				for name, n := range submitted {
					sum := 0.
					for _, part := range []string{"shoal.pool.task.completed", "shoal.pool.task.dropped", "shoal.pool.task.canceled", "shoal.pool.task.in_flight"} {
						sum += values(t, m[part])[name]
					}
					if sum != n {
						t.Errorf("%s: %v tasks submitted, %v accounted for", name, n, sum)
					}
				}
				if now := submitted["root"]; now < last["root"] {
					t.Errorf("got %v after %v", now, last["root"])
				}
				last = submitted
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for g := range 4 {
		working.Go(func() {
			for i := range 20 {
				s, err := p.Sub(shoal.WithName(fmt.Sprint(i % 3)))
				if err != nil {
					t.Error(err)
					return
				}
				for range 10 {
					s.Submit(func() {})
					p.Submit(func() {})
				}
				if (g+i)%2 == 0 {
					s.Shutdown(t.Context())
				} else {
					s.Close()
				}
				extra := newPool(t, shoal.WithName(fmt.Sprint("extra", g)))
				r, err := shoalotel.Register(mp, extra)
				if err != nil {
					t.Error(err)
					return
				}
				r.Unregister()
				extra.Close()
			}
		})
	}
	working.Wait()
	close(stop)
	collecting.Wait()
}

// Two queues of a pool are reported as one, and a pool without has nothing of them.
func TestDurableQueues(t *testing.T) {
	reader, mp := newMetrics()
	p, other := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(4)), newPool(t, shoal.WithName("b"))
	register(t, mp, p)
	register(t, mp, other)
	var began sync.WaitGroup
	began.Add(4)
	hold := func(ctx context.Context, _ *jobs.Job) error {
		began.Done()
		<-ctx.Done()
		return ctx.Err()
	}
	r, err := p.Reserve(t.Context(), 2) // so that each queue has two
	if err != nil {
		t.Fatal(err)
	}
	if v := values(t, collect(t, reader)["shoal.pool.worker.reserved"]); v["a"] != 2 {
		t.Errorf("%v are reserved, want 2", v["a"])
	}
	servetest.Start(t, p, hold)
	r.Release()
	servetest.Start(t, p, hold)
	began.Wait()
	got := collect(t, reader)
	for name, want := range map[string]float64{
		"shoal.jobs.held": 4, "shoal.jobs.running": 4, "shoal.jobs.leased": 4, "shoal.jobs.acked": 0, "shoal.jobs.retried": 0,
		"shoal.jobs.dead": 0, "shoal.jobs.leases_lost": 0, "shoal.jobs.leases_extended": 0, "shoal.jobs.timed_out": 0, "shoal.jobs.source_errors": 0,
	} {
		if v := values(t, got[name]); !maps.Equal(v, map[string]float64{"a": want}) {
			t.Errorf("%s: got %v, want %v", name, v, want)
		}
	}
}

// What a call of jobs.Serve has counted stays when it ends, and when its pool ends while another
// one has the name.
func TestCountsOfJobsDoNotGoBack(t *testing.T) {
	reader, mp := newMetrics()
	p := newPool(t, shoal.WithName("a"))
	register(t, mp, p)
	want := func(pool string, acked float64) {
		t.Helper()
		got := collect(t, reader)
		for name, want := range map[string]float64{"shoal.jobs.acked": acked, "shoal.jobs.running": 0, "shoal.jobs.held": 0, "shoal.jobs.oldest_running": 0} {
			if v, ok := values(t, got[name])[pool]; v != want || !ok {
				t.Errorf("%s of %s: got %v, want %v", name, pool, v, want)
			}
		}
	}
	// serve works off five jobs, and calls f before the call ends.
	serve := func(p *shoal.Pool, f func()) {
		t.Run("", func(t *testing.T) {
			others := len(jobs.Of(p))
			servetest.Start(t, p, func(context.Context, *jobs.Job) error { return nil })
			for all := jobs.Of(p); len(all) == others || all[others].Acked < 5 || all[others].Held > 0; all = jobs.Of(p) {
				time.Sleep(time.Millisecond)
			}
			f()
		})
	}
	sub, again := newSub(t, p, shoal.WithName("s")), newSub(t, p, shoal.WithName("s"))
	serve(p, func() {
		serve(p, func() { want("a", 10) })
		want("a", 10)
		serve(sub, func() { serve(again, func() { want("a/s", 10) }) })
	})
	want("a", 10)
	want("a/s", 10)
	sub.Close()
	want("a/s", 10)
	want("a/s", 10)
	serve(again, func() { want("a/s", 15) })
	want("a/s", 15)
}

// Of two queues under one name, it is the job that has run for longest that counts.
func TestOldestRunningJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, mp := newMetrics()
		p, other := newPool(t, shoal.WithName("a"), shoal.WithMaxWorkers(2)), newPool(t, shoal.WithName("b"))
		register(t, mp, p)
		register(t, mp, other)
		want := func(age time.Duration) {
			t.Helper()
			synctest.Wait()
			if v := values(t, collect(t, reader)["shoal.jobs.oldest_running"]); !maps.Equal(v, map[string]float64{"a/s": age.Seconds()}) {
				t.Errorf("got %v, want %v", v, age)
			}
		}
		var began [2]time.Time
		var release [2]chan struct{}
		for i := range 2 {
			release[i] = make(chan struct{})
			at := make(chan time.Time, 5) // as many as there are jobs
			servetest.Start(t, newSub(t, p, shoal.WithName("s"), shoal.WithMaxWorkers(1)), func(context.Context, *jobs.Job) error {
				at <- time.Now()
				<-release[i]
				return nil
			})
			began[i] = <-at
			time.Sleep(10 * time.Second)
		}
		want(time.Since(began[0]))
		time.Sleep(time.Hour) // the jobs hang
		want(time.Since(began[0]))
		close(release[0])
		want(time.Since(began[1]))
		close(release[1])
		want(0)
	})
}

// README.md lists all instruments, as they are.
func TestReadmeListsInstruments(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(shoal[^`]*)` \\| (.*) \\| `(.*)` \\| ").FindAllStringSubmatch(string(text), -1) {
		listed[row[1]] = row[2] + " in " + row[3]
	}
	reader, mp := newMetrics()
	p := newPool(t, shoal.WithName("jobs"), shoal.WithTiming(shoal.TimingFull))
	register(t, mp, p)
	run(t, p, 1)
	servetest.Start(t, p, func(context.Context, *jobs.Job) error { return nil })
	if _, err := shoalotel.RegisterQueues(mp, map[string]jobs.Depther{"mails": jobstest.NewQueue(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	made := make(map[string]string)
	for name, m := range collect(t, reader) {
		made[name] = kindOf(m) + " in " + m.Unit
	}
	if !maps.Equal(listed, made) {
		t.Errorf("README.md has\n%v\nand there are\n%v", listed, made)
	}
}
