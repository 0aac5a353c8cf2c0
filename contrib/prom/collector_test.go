package prom_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/contrib/prom"
	"github.com/shoal-go/shoal/internal/servetest"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

// busyPool is a pool at a quiet moment of which no count is 0, of those that one
// pool can have. Only where time stands still does its busy time.
func busyPool(t testing.TB, name string) *shoal.Pool {
	p := newPool(t, name,
		shoal.WithMaxWorkers(2), shoal.WithMinWorkers(1), shoal.WithQueueCapacity(3),
		shoal.WithFullPolicy(shoal.DropOldest), shoal.WithTiming(shoal.TimingFull))
	ctx, cancel := context.WithCancel(context.Background())
	finish := make(chan struct{})
	for range 2 { // occupy the workers
		started := make(chan struct{})
		p.Submit(func() { close(started); <-finish })
		<-started
	}
	p.SubmitContext(ctx, func(context.Context) { t.Error("a cancelled task ran") })
	p.Submit(func() { panic("failed") })
	p.Submit(func() { time.Sleep(time.Millisecond) })
	p.TrySubmit(func() {}) // rejected
	cancel()
	close(finish)
	p.Wait()
	for range 10 {
		p.SubmitWait(context.Background(), func(context.Context) error { return errors.New("failed") })
	}

	// And now at rest with something in each place.
	p.Pause()
	for range 2 + 3 + 1 { // the workers, the capacity, and one more
		p.Submit(func() {}) // the first one is dropped
	}
	return p
}

// wantValues are the values of all counters and gauges, written once more.
func wantValues(s shoal.Stats) map[string]float64 {
	state := func(x shoal.State) float64 { return map[bool]float64{true: 1}[s.State == x] }
	want := map[string]float64{
		"shoal_pool_task_submitted_total": float64(s.Submitted),
		"shoal_pool_task_completed_total": float64(s.Completed),
		"shoal_pool_task_failed_total":    float64(s.Failed),
		"shoal_pool_task_panicked_total":  float64(s.Panicked),
		"shoal_pool_task_rejected_total":  float64(s.Rejected),
		"shoal_pool_task_dropped_total":   float64(s.Dropped),
		"shoal_pool_task_canceled_total":  float64(s.Canceled),
		"shoal_pool_task_spawned_total":   float64(s.Spawned),
		"shoal_pool_task_slow_total":      float64(s.SlowTasks),
		"shoal_pool_stalls_total":         float64(s.Stalls),
		"shoal_pool_stalled_seconds":      s.Stalled.Seconds(),
		"shoal_pool_task_in_flight":       float64(s.InFlight),
		"shoal_pool_queue_size":           float64(s.Queued),
		"shoal_pool_submitter_blocked":    float64(s.Blocked),
		"active shoal_pool_worker_count":  float64(s.Running),
		"idle shoal_pool_worker_count":    float64(s.Idle),
		"shoal_pool_worker_peak":          float64(s.PeakWorkers),
		"shoal_pool_worker_core":          float64(s.MinWorkers),
		"shoal_pool_worker_limit":         float64(s.MaxWorkers),
		"shoal_pool_worker_reserved":      float64(s.Reserved),
		"shoal_pool_paused":               state(shoal.Paused),
		"shoal_pool_draining":             state(shoal.Draining),
		"shoal_pool_closed":               state(shoal.Closed),
	}
	if s.QueueCapacity != shoal.Unbounded {
		want["shoal_pool_queue_capacity"] = float64(s.QueueCapacity)
	}
	if s.BusyTime > 0 {
		want["shoal_pool_worker_busy_time_seconds_total"] = s.BusyTime.Seconds()
	}
	return want
}

func check(t *testing.T, got map[string]*dto.Metric, s shoal.Stats) {
	t.Helper()
	want := wantValues(s)
	for name, v := range want {
		if got[name] == nil {
			t.Errorf("%s: no %s", s.Name, name)
		} else if n := number(t, got[name]); n != v {
			t.Errorf("%s: %s is %v, want %v", s.Name, name, n, v)
		}
	}
	for name, h := range map[string]shoal.Histogram{"shoal_pool_task_wait_duration_seconds": s.WaitTime, "shoal_pool_task_run_duration_seconds": s.RunTime} {
		g := got[name].GetHistogram()
		if g.GetSampleCount() != h.Count || g.GetSampleSum() != h.Seconds() {
			t.Errorf("%s: %s has count %d and sum %v, want %d and %v",
				s.Name, name, g.GetSampleCount(), g.GetSampleSum(), h.Count, h.Seconds())
		}
	}
	if len(got) != len(want)+2 {
		t.Errorf("%s: %d metrics, want %d", s.Name, len(got), len(want)+2)
	}
}

func TestValuesAreThoseOfStats(t *testing.T) { synctest.Test(t, testValuesAreThoseOfStats) }

func testValuesAreThoseOfStats(t *testing.T) {
	busy := busyPool(t, "busy")
	spawning := newPool(t, "spawning", shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
	finish := make(chan struct{})
	for range 3 {
		spawning.Submit(func() { <-finish })
	}
	close(finish)
	spawning.Wait()
	unbounded := newPool(t, "unbounded", shoal.WithQueueCapacity(shoal.Unbounded))
	draining := newPool(t, "draining", shoal.WithMaxWorkers(1))
	hold := make(chan struct{})
	defer close(hold)
	draining.Submit(func() { <-hold })
	draining.Drain()
	closed := busyPool(t, "closed")
	closed.Close()

	pools := []*shoal.Pool{busy, spawning, unbounded, draining, closed}
	_, reg := register(t, pools...)
	for range 2 { // a scrape changes nothing
		got := byPool(t, gather(t, reg))
		if len(got) != len(pools) {
			t.Fatalf("%d pools, want %d", len(got), len(pools))
		}
		for _, p := range pools {
			s := p.Stats()
			check(t, got[s.Name], s)
		}
	}

	// The cases are what they are meant to be.
	s := busy.Stats()
	if s.State != shoal.Paused || s.Failed == 0 || s.Rejected == 0 || s.Dropped == 0 || s.Canceled == 0 ||
		s.Panicked == 0 || s.BusyTime == 0 || s.Queued == 0 || s.WaitTime.Count == 0 || s.RunTime.Count == 0 {
		t.Errorf("busy: %+v", s)
	}
	if s := spawning.Stats(); s.Spawned == 0 {
		t.Errorf("spawning: %+v", s)
	}
	if s := draining.Stats(); s.State != shoal.Draining || s.Running != 1 {
		t.Errorf("draining: %+v", s)
	}
}

// A pool whose only worker is inside a task for an hour, while others wait.
func TestStalledPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, "stalled", shoal.WithMaxWorkers(1),
			shoal.WithStallAfter(time.Minute), shoal.WithSlowTask(time.Minute), shoal.WithAlarmHandler(func(shoal.Alarm) {}))
		_, reg := register(t, p)
		for range 2 {
			p.Submit(func() { time.Sleep(time.Hour) })
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		s := p.Stats()
		got := byPool(t, gather(t, reg))["stalled"]
		check(t, got, s)
		if s.Stalls != 1 || s.SlowTasks != 1 || s.Stalled != 30*time.Minute-15*time.Second { // it is seen after a quarter of a minute
			t.Errorf("%d stalls, %d slow tasks, stalled for %v", s.Stalls, s.SlowTasks, s.Stalled)
		}
		p.Wait()
		check(t, byPool(t, gather(t, reg))["stalled"], p.Stats())
		p.Close()
	})
}

// Each field of Stats has a metric of its own, also those that will be added.
func TestEveryFieldOfStatsIsReported(t *testing.T) {
	var s shoal.Stats
	want := map[float64]string{}
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		n, name := int64(i+2), v.Type().Field(i).Name
		switch f := v.Field(i); {
		case name == "Workers": // those in the two states, in sum
		case name == "Stalled", name == "BusyTime":
			n *= 1e9
			f.SetInt(n)
			want[float64(n/1e9)] = name
		case f.Kind() == reflect.Int:
			f.SetInt(n)
			want[float64(n)] = name
		case f.Kind() == reflect.Uint64:
			f.SetUint(uint64(n))
			want[float64(n)] = name
		case name == "Name", name == "State", name == "WaitTime", name == "RunTime":
		default:
			t.Errorf("Stats.%s: this test does not know the type %v", name, f.Type())
		}
	}
	for _, v := range prom.Values(s) {
		delete(want, v)
	}
	for _, name := range want {
		t.Errorf("no metric reports Stats.%s", name)
	}
}

// The one problem is the name that OpenTelemetry's draft gives.
func TestLint(t *testing.T) {
	want := []promlint.Problem{{Metric: "shoal_pool_worker_count", Text: `non-histogram and non-summary metrics should not have "_count" suffix`}}
	p := busyPool(t, "busy")
	newSub(t, p, "sub")
	c, reg := register(t, p)
	for range 2 {
		problems, err := testutil.GatherAndLint(reg)
		if err != nil || !slices.Equal(problems, want) {
			t.Errorf("%v, %v", problems, err)
		}
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || !slices.Equal(problems, want) {
		t.Errorf("%v, %v", problems, err)
	}
}

// A scraper gets the same from both formats, but for the native buckets, which text
// cannot have.
func TestFormats(t *testing.T) { synctest.Test(t, testFormats) }

func testFormats(t *testing.T) {
	p := busyPool(t, "a \"pool\"\n\\ of ünusual name")
	newSub(t, p, "sub")
	_, reg := register(t, p)
	want := gather(t, reg)
	handler := promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true})
	get := func(accept expfmt.Format) []byte {
		req := httptest.NewRequest("GET", "/metrics", nil)
		req.Header.Set("Accept", string(accept))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if w.Code != 200 {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		return w.Body.Bytes()
	}

	text := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := text.TextToMetricFamilies(bytes.NewReader(get(expfmt.NewFormat(expfmt.TypeTextPlain))))
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed) != len(want) {
		t.Errorf("%d families in text, want %d", len(parsed), len(want))
	}
	for _, f := range want {
		g := parsed[f.GetName()]
		if g.GetHelp() != f.GetHelp() || g.GetType() != f.GetType() || len(g.GetMetric()) != len(f.GetMetric()) {
			t.Errorf("text has %v, want %v", g, f)
			continue
		}
		for i, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				sameClassic(t, g.GetMetric()[i].GetHistogram(), h)
			} else if got, want := number(t, g.GetMetric()[i]), number(t, m); got != want {
				t.Errorf("%s is %v in text, want %v", f.GetName(), got, want)
			}
		}
	}

	dec := expfmt.NewDecoder(bytes.NewReader(get(expfmt.NewFormat(expfmt.TypeProtoDelim))), expfmt.NewFormat(expfmt.TypeProtoDelim))
	var decoded []*dto.MetricFamily
	for {
		f := new(dto.MetricFamily)
		if err := dec.Decode(f); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		decoded = append(decoded, f)
	}
	if got, want := fmt.Sprint(decoded), fmt.Sprint(want); got != want {
		t.Errorf("protobuf has\n%s\nwant\n%s", got, want)
	}
}

// sameClassic compares what text has of a histogram.
func sameClassic(t *testing.T, got, want *dto.Histogram) {
	t.Helper()
	if got.GetSampleCount() != want.GetSampleCount() || got.GetSampleSum() != want.GetSampleSum() {
		t.Errorf("got count %d, sum %v; want %d, %v", got.GetSampleCount(), got.GetSampleSum(), want.GetSampleCount(), want.GetSampleSum())
	}
	buckets := got.GetBucket()
	if n := len(want.GetBucket()); len(buckets) != n+1 || !math.IsInf(buckets[n].GetUpperBound(), 1) || buckets[n].GetCumulativeCount() != want.GetSampleCount() {
		t.Fatalf("got %v, want %d buckets and +Inf", buckets, n)
	}
	for i, b := range want.GetBucket() {
		if g := buckets[i]; g.GetUpperBound() != b.GetUpperBound() || g.GetCumulativeCount() != b.GetCumulativeCount() {
			t.Errorf("got %v, want %v", g, b)
		}
	}
}

func TestAddNamesWhatIsWrong(t *testing.T) {
	a, alsoA := newPool(t, "a"), newPool(t, "a")
	b := newPool(t, "b")
	for _, c := range []struct {
		pools []*shoal.Pool
		want  []string
	}{
		{[]*shoal.Pool{nil}, []string{"prom: pools[0] is nil"}},
		{[]*shoal.Pool{b, newPool(t, "")}, []string{"prom: pools[1] has no name: want shoal.WithName"}},
		{[]*shoal.Pool{new(shoal.Pool)}, []string{"prom: pools[0] has no name: want shoal.WithName"}},
		{[]*shoal.Pool{newPool(t, "\xff")}, []string{`prom: pools[0] is named "\xff": want UTF-8`}},
		{[]*shoal.Pool{alsoA}, []string{`prom: pools[0] is named "a", as another pool: want names that differ`}},
		{[]*shoal.Pool{a}, []string{`prom: pools[0], "a", was added before`}},
		{[]*shoal.Pool{b, b}, []string{`prom: pools[1], "b", was added before`}},
		{[]*shoal.Pool{b, nil, alsoA}, []string{`prom: pools[1] is nil`, `prom: pools[2] is named "a", as another pool: want names that differ`}},
	} {
		collector, reg := register(t, a)
		err := collector.Add(c.pools...)
		if want := strings.Join(c.want, "\n"); err == nil || err.Error() != want {
			t.Errorf("Add returned\n%v\nwant\n%s", err, want)
		}
		if got := labels(t, reg); !slices.Equal(got, []string{"a"}) {
			t.Errorf("after a failed Add: %q", got)
		}
		// NewCollector says the same.
		if new, err := prom.NewCollector(append(c.pools, nil)...); err == nil || new != nil {
			t.Errorf("NewCollector returned %v, %v", new, err)
		}
	}
}

func TestPoolsComeAndGo(t *testing.T) {
	c, reg := register(t)
	want := func(ls ...string) {
		t.Helper()
		if got := labels(t, reg); !slices.Equal(got, ls) {
			t.Errorf("got %q, want %q", got, ls)
		}
	}
	want()
	a, b := newPool(t, "a"), newPool(t, "b")
	if err := c.Add(a, b); err != nil {
		t.Fatal(err)
	}
	want("a", "b")
	a.Submit(func() {})
	a.Shutdown(context.Background())
	want("a", "b") // with its last counts
	if n := number(t, byPool(t, gather(t, reg))["a"]["shoal_pool_task_completed_total"]); n != 1 {
		t.Errorf("completed %v", n)
	}
	again := newPool(t, "a")
	if err := c.Add(again); err == nil {
		t.Error("the name of a closed pool that was not removed is free")
	}
	c.Remove(a, a, nil, again)
	want("b")
	if err := c.Add(again); err != nil {
		t.Error(err)
	}
	want("a", "b")
	c.Remove(again, b)
	want()
}

func TestSubPoolsAreReportedWithTheirRoot(t *testing.T) {
	root := newPool(t, "root")
	c, reg := register(t, root)
	want := func(ls ...string) {
		t.Helper()
		slices.Sort(ls)
		if got := labels(t, reg); !slices.Equal(got, ls) {
			t.Errorf("got %q, want %q", got, ls)
		}
	}
	web := newSub(t, root, "web")
	search := newSub(t, web, "search")
	want("root", "root/web", "root/web/search")

	search.SubmitWait(context.Background(), func(context.Context) error { return nil })
	got := byPool(t, gather(t, reg))
	for _, p := range []*shoal.Pool{root, web, search} {
		s := p.Stats()
		if n := number(t, got[map[string]string{"root": "root", "web": "root/web", "search": "root/web/search"}[s.Name]]["shoal_pool_task_completed_total"]); n != float64(s.Completed) {
			t.Errorf("%s completed %v, want %d", s.Name, n, s.Completed)
		}
	}

	// Added itself it goes by its name, and its own sub-pools by that.
	if err := c.Add(web); err != nil {
		t.Fatal(err)
	}
	want("root", "web", "web/search")
	web.Close()
	want("root", "web") // as every pool that was added, until it is removed
	c.Remove(web)
	want("root")
	newSub(t, root, "web")
	want("root", "root/web")
	c.Remove(root)
	want()
}

// Pools that have the same label are reported as one, whatever they are called, and
// their counters do not go back while there is one.
func TestPoolsWithTheSameLabelAreReportedAsOne(t *testing.T) {
	root := newPool(t, "root", shoal.WithMaxWorkers(2), shoal.WithTiming(shoal.TimingFull))
	c, reg := register(t, root)
	used := 1 // each pool is given twice as many tasks as the one before
	use := func(p *shoal.Pool) *shoal.Pool {
		for range used {
			p.SubmitWait(context.Background(), func(context.Context) error { return nil })
		}
		used *= 2
		return p
	}
	sub := func(up *shoal.Pool, name string, opts ...shoal.Option) *shoal.Pool {
		t.Helper()
		return use(newSub(t, up, name, append(opts, shoal.WithTiming(shoal.TimingFull))...))
	}
	want := func(want map[string]int) {
		t.Helper()
		for range 2 {
			got := map[string]int{}
			for l, ms := range byPool(t, gather(t, reg)) {
				got[l] = int(number(t, ms["shoal_pool_task_completed_total"]))
				addsUp(t, ms["shoal_pool_task_run_duration_seconds"].GetHistogram())
				if n := ms["shoal_pool_task_run_duration_seconds"].GetHistogram().GetSampleCount(); int(n) != got[l] {
					t.Errorf("%s: %d completed, %d measured", l, got[l], n)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	}

	x1, x2 := sub(root, "x"), sub(root, "x", shoal.WithQueueCapacity(shoal.Unbounded))
	y, deep := sub(root, ""), sub(root, "x/z")
	z := sub(x2, "z")
	sub(root, "\xff")
	want(map[string]int{"root": 0, "root/x": 1 + 2, "root/": 4, "root/x/z": 8 + 16, "root/\uFFFD": 32})
	ms := byPool(t, gather(t, reg))["root/x"]
	if m := ms["shoal_pool_queue_capacity"]; m != nil { // one of the two has no bound
		t.Errorf("capacity %v", m)
	}
	if n := number(t, ms["shoal_pool_worker_limit"]); n != 4 {
		t.Errorf("max workers %v", n)
	}
	x1.Pause()
	if n := number(t, byPool(t, gather(t, reg))["root/x"]["shoal_pool_paused"]); n != 0 {
		t.Error("one of two is paused")
	}

	x1.Resume()
	use(x1)
	x1.Close()
	y.Close()
	deep.Close()
	want(map[string]int{"root": 0, "root/x": 1 + 2 + 64, "root/x/z": 8 + 16, "root/\uFFFD": 32})
	sub(root, "") // begins anew
	sub(root, "x")
	z.Close()
	x2.Close()
	want(map[string]int{"root": 0, "root/x": 1 + 2 + 64 + 256, "root/": 128, "root/\uFFFD": 32})

	// A name that is also that of a sub-pool.
	other := use(newPool(t, "root/x", shoal.WithTiming(shoal.TimingFull)))
	if err := c.Add(other); err != nil {
		t.Fatal(err)
	}
	want(map[string]int{"root": 0, "root/x": 1 + 2 + 64 + 256 + 512, "root/": 128, "root/\uFFFD": 32})
	c.Remove(other) // with its counts, and no others
	want(map[string]int{"root": 0, "root/x": 1 + 2 + 64 + 256, "root/": 128, "root/\uFFFD": 32})
}

// completed are the completed tasks by label.
func completed(t *testing.T, reg prometheus.Gatherer) map[string]int {
	t.Helper()
	got := make(map[string]int)
	for l, ms := range byPool(t, gather(t, reg)) {
		got[l] = int(number(t, ms["shoal_pool_task_completed_total"]))
	}
	return got
}

func run(p *shoal.Pool, n int) {
	for range n {
		p.SubmitWait(context.Background(), func(context.Context) error { return nil })
	}
}

// A pool that was removed leaves nothing for the next one of its name, nor do its sub-pools.
func TestRemovedPoolsLeaveNothing(t *testing.T) {
	old := newPool(t, "a")
	c, reg := register(t, old)
	ended, alive := newSub(t, old, "m"), newSub(t, old, "m")
	run(ended, 10)
	run(alive, 100)
	want := func(want map[string]int) {
		t.Helper()
		if got := completed(t, reg); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	want(map[string]int{"a": 0, "a/m": 110})
	ended.Close()
	want(map[string]int{"a": 0, "a/m": 110})
	c.Remove(old)
	next := newPool(t, "a")
	newSub(t, next, "m")
	if err := c.Add(next); err != nil {
		t.Fatal(err)
	}
	want(map[string]int{"a": 0, "a/m": 0})
}

// A sub-pool that is added leaves its counts in the label that it had. They stay there as long as a
// pool has the label, be it one of another family.
func TestCountsStayInTheirLabel(t *testing.T) {
	a := newPool(t, "a")
	c, reg := register(t, a)
	s1, s2 := newSub(t, a, "m"), newSub(t, a, "m")
	run(s1, 100)
	run(s2, 50)
	want := func(want map[string]int) {
		t.Helper()
		for range 2 {
			if got := completed(t, reg); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
	want(map[string]int{"a": 0, "a/m": 150})
	if err := c.Add(s1); err != nil {
		t.Fatal(err)
	}
	want(map[string]int{"a": 0, "a/m": 150, "m": 100})
	run(s1, 1)
	run(s2, 1)
	want(map[string]int{"a": 0, "a/m": 151, "m": 101})
	c.Remove(s1)
	want(map[string]int{"a": 0, "a/m": 152})
	if err := c.Add(s1); err != nil {
		t.Fatal(err)
	}
	want(map[string]int{"a": 0, "a/m": 152, "m": 101})

	other := newPool(t, "a/m")
	if err := c.Add(other); err != nil {
		t.Fatal(err)
	}
	run(other, 1000)
	want(map[string]int{"a": 0, "a/m": 1152, "m": 101})
	s2.Close()
	want(map[string]int{"a": 0, "a/m": 1152, "m": 101})
	c.Remove(a)
	want(map[string]int{"a/m": 1000, "m": 101})
}

// A sub-pool that was added, and has ended, is not kept, and its counts stay.
func TestEndedPoolsAreNotKept(t *testing.T) {
	a := newPool(t, "a")
	c, reg := register(t, a)
	s1, s2 := newSub(t, a, "m"), newSub(t, a, "m")
	run(s1, 100)
	run(s2, 50)
	want := func(moved int, want map[string]int) {
		t.Helper()
		for range 2 {
			if got := completed(t, reg); !reflect.DeepEqual(got, want) || c.Moved() != moved {
				t.Errorf("got %v, and %d pools are kept; want %v, %d", got, c.Moved(), want, moved)
			}
		}
	}
	want(0, map[string]int{"a": 0, "a/m": 150})
	add := func() {
		t.Helper()
		if err := c.Add(s1); err != nil {
			t.Fatal(err)
		}
	}
	add()
	want(1, map[string]int{"a": 0, "a/m": 150, "m": 100})
	run(s1, 1)
	want(1, map[string]int{"a": 0, "a/m": 150, "m": 101})
	s1.Close()
	want(1, map[string]int{"a": 0, "a/m": 150, "m": 101})
	c.Remove(s1)
	want(0, map[string]int{"a": 0, "a/m": 150})
	add()
	want(0, map[string]int{"a": 0, "a/m": 150, "m": 101})
	c.Remove(s1)
	s2.Close()
	want(0, map[string]int{"a": 0})
}

// Each field of Stats goes into a sum, also those that will be added.
func TestEveryFieldOfStatsIsSummed(t *testing.T) {
	var a, b shoal.Stats
	va, vb := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	for i := range va.NumField() {
		switch f := va.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
			vb.Field(i).SetInt(1000)
		case reflect.Uint64:
			f.SetUint(uint64(i + 1))
			vb.Field(i).SetUint(1000)
		}
	}
	busy := busyPool(t, "busy").Stats()
	a.RunTime, b.RunTime = busy.RunTime, busy.RunTime
	a.WaitTime, b.WaitTime = busy.WaitTime, busy.WaitTime
	sum := prom.Plus(a, b)
	for i := range va.NumField() {
		name := va.Type().Field(i).Name
		var got, want uint64
		switch f := reflect.ValueOf(sum).Field(i); {
		case name == "Stalled":
			got, want = uint64(f.Int()), 1000 // the longer one
		case f.Kind() == reflect.Int, name == "BusyTime":
			got, want = uint64(f.Int()), uint64(1000+i+1)
		case f.Kind() == reflect.Uint64:
			got, want = f.Uint(), uint64(1000+i+1)
		case name == "WaitTime":
			got, want = sum.WaitTime.Count, 2*busy.WaitTime.Count
		case name == "RunTime":
			got, want = sum.RunTime.Count, 2*busy.RunTime.Count
		}
		if got != want {
			t.Errorf("Stats.%s: %d, want %d", name, got, want)
		}
	}

	for _, n := range []int{0, 1, shoal.Unbounded - 1, shoal.Unbounded} {
		n, all := shoal.Stats{QueueCapacity: n}, shoal.Stats{QueueCapacity: shoal.Unbounded}
		if got := prom.Plus(n, all).QueueCapacity; got != shoal.Unbounded {
			t.Errorf("%d and no bound is %d", n.QueueCapacity, got)
		}
		if got := prom.Plus(all, n).QueueCapacity; got != shoal.Unbounded {
			t.Errorf("no bound and %d is %d", n.QueueCapacity, got)
		}
	}

	// What has ended counts on, and is nothing else.
	ended := prom.Counted(a)
	for name, v := range prom.Values(ended) {
		if total := strings.HasSuffix(name, "_total"); total != (v != 0) {
			t.Errorf("of a pool that has ended, %s is %v", name, v)
		}
	}
	if ended.RunTime.Count != a.RunTime.Count || ended.WaitTime.Count != a.WaitTime.Count {
		t.Error("the histograms of a pool that has ended are not those it had")
	}
}

// Two collectors in one registry are told apart by a label, or the second one is
// refused.
func TestTwoCollectors(t *testing.T) {
	_, reg := register(t, newPool(t, "a"))
	c, err := prom.NewCollector(newPool(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := reg.Register(c); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Errorf("Register returned %v", err)
	}
	reg = prometheus.NewPedanticRegistry()
	for _, tenant := range []string{"x", "y"} {
		c, err := prom.NewCollector(busyPool(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		prometheus.WrapRegistererWith(prometheus.Labels{"tenant": tenant}, reg).MustRegister(c)
	}
	for _, f := range gather(t, reg) {
		want := 2
		if f.GetName() == "shoal_pool_worker_count" {
			want = 2 * 2 // the states
		}
		if len(f.GetMetric()) != want {
			t.Errorf("%d of %s, want %d", len(f.GetMetric()), f.GetName(), want)
		}
	}
}

// Scrapes while pools are used, made, closed, added and removed. Every scrape
// succeeds, counters of a pool never go back, and every histogram adds up.
func TestScrapeWhileEverythingChanges(t *testing.T) {
	pools := []*shoal.Pool{newPool(t, "a", shoal.WithTiming(shoal.TimingFull)), newPool(t, "b", shoal.WithQueueCapacity(1))}
	c, reg := register(t, pools...)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(f func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					f(i)
					runtime.Gosched()
				}
			}
		})
	}
	for _, p := range pools {
		loop(func(int) { p.Submit(func() {}) })
		loop(func(i int) {
			s, err := p.Sub(shoal.WithName([]string{"x", "y", ""}[i%3]))
			if err != nil {
				t.Error(err)
				return
			}
			s.Submit(func() {})
			if i%2 == 0 {
				s.Shutdown(context.Background())
			} else {
				s.Close()
			}
		})
	}
	loop(func(i int) {
		p, err := shoal.New(shoal.WithName(fmt.Sprintf("%s/x", []string{"a", "b"}[i%2])))
		if err != nil {
			t.Error(err)
			return
		}
		defer p.Close()
		if err := c.Add(p); err != nil {
			t.Error(err)
		}
		p.Submit(func() {})
		runtime.Gosched()
		c.Remove(p)
	})

	var scrapers sync.WaitGroup
	for range 2 {
		scrapers.Go(func() {
			last := map[string]float64{}
			for range 50 {
				fams, err := reg.Gather()
				if err != nil {
					t.Error(err)
					return
				}
				for pool, ms := range byPool(t, fams) {
					for name, m := range ms {
						if h := m.GetHistogram(); h != nil {
							addsUp(t, h)
							continue
						}
						if m.GetCounter() == nil || pool != "a" && pool != "b" {
							continue
						}
						v := number(t, m)
						if v < last[pool+name] {
							t.Errorf("%s of %s went from %v to %v", name, pool, last[pool+name], v)
						}
						last[pool+name] = v
					}
					sub, done, drop, cancel, now := number(t, ms["shoal_pool_task_submitted_total"]), number(t, ms["shoal_pool_task_completed_total"]),
						number(t, ms["shoal_pool_task_dropped_total"]), number(t, ms["shoal_pool_task_canceled_total"]), number(t, ms["shoal_pool_task_in_flight"])
					if sub != done+drop+cancel+now {
						t.Errorf("%s: %v submitted, %v completed, %v dropped, %v canceled, %v in flight", pool, sub, done, drop, cancel, now)
					}
				}
			}
		})
	}
	scrapers.Wait()
	close(stop)
	wg.Wait()
}

func TestThousandPools(t *testing.T) { synctest.Test(t, testThousandPools) }

func testThousandPools(t *testing.T) {
	c, reg := register(t)
	var pools []*shoal.Pool
	for i := range 1000 {
		p := newPool(t, fmt.Sprint("pool-", i), shoal.WithTiming(shoal.TimingFull))
		for range i % 10 {
			p.SubmitWait(context.Background(), func(context.Context) error { return nil })
		}
		pools = append(pools, p)
	}
	if err := c.Add(pools...); err != nil {
		t.Fatal(err)
	}
	got := byPool(t, gather(t, reg))
	if len(got) != len(pools) {
		t.Fatalf("%d pools, want %d", len(got), len(pools))
	}
	for i, p := range pools {
		check(t, got[fmt.Sprint("pool-", i)], p.Stats())
	}
	c.Remove(pools[:999]...)
	if got := labels(t, reg); !slices.Equal(got, []string{"pool-999"}) {
		t.Errorf("got %q", got)
	}
}

func TestDurableQueues(t *testing.T) {
	p, other := newPool(t, "a", shoal.WithMaxWorkers(2)), newPool(t, "b")
	_, reg := register(t, p, other)
	var began sync.WaitGroup
	began.Add(2)
	servetest.Start(t, p, func(ctx context.Context, j *jobs.Job) error {
		began.Done()
		<-ctx.Done()
		return ctx.Err()
	})
	began.Wait()
	got := byPool(t, gather(t, reg))
	for name, want := range map[string]float64{
		"shoal_jobs_held": 2, "shoal_jobs_running": 2, "shoal_jobs_leased_total": 2, "shoal_jobs_acked_total": 0,
		"shoal_jobs_retried_total": 0, "shoal_jobs_dead_total": 0, "shoal_jobs_leases_lost_total": 0, "shoal_jobs_timed_out_total": 0, "shoal_jobs_source_errors_total": 0,
	} {
		if m := got["a"][name]; m == nil || number(t, m) != want {
			t.Errorf("%s is %v, want %v", name, m, want)
		}
		if m := got["b"][name]; m != nil {
			t.Errorf("a pool without a queue has %s", name)
		}
	}
}

// What a call of jobs.Serve has counted stays when it ends, and when its pool ends while another
// one has the label.
func TestCountsOfJobsDoNotGoBack(t *testing.T) {
	p := newPool(t, "a")
	_, reg := register(t, p)
	want := func(label string, acked float64) {
		t.Helper()
		got := byPool(t, gather(t, reg))[label]
		for name, want := range map[string]float64{
			"shoal_jobs_acked_total": acked, "shoal_jobs_running": 0, "shoal_jobs_held": 0, "shoal_jobs_oldest_running_seconds": 0,
		} {
			if m := got[name]; m == nil || number(t, m) != want {
				t.Errorf("%s of %s: got %v, want %v", name, label, m, want)
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
	sub, again := newSub(t, p, "s"), newSub(t, p, "s")
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

// Of two queues under one label, it is the job that has run for longest that counts.
func TestOldestRunningJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, "a", shoal.WithMaxWorkers(2))
		_, reg := register(t, p)
		want := func(age time.Duration) {
			t.Helper()
			synctest.Wait()
			got := byPool(t, gather(t, reg))
			if m := got["a/s"]["shoal_jobs_oldest_running_seconds"]; m == nil || number(t, m) != age.Seconds() {
				t.Errorf("%v, want %v", m, age)
			}
			if m := got["a"]["shoal_jobs_oldest_running_seconds"]; m != nil {
				t.Errorf("a pool without a queue has %v", m)
			}
		}
		var began [2]time.Time
		var release [2]chan struct{}
		for i := range 2 {
			release[i] = make(chan struct{})
			at := make(chan time.Time, 5) // as many as there are jobs
			sub, err := p.Sub(shoal.WithName("s"), shoal.WithMaxWorkers(1))
			if err != nil {
				t.Fatal(err)
			}
			servetest.Start(t, sub, func(context.Context, *jobs.Job) error {
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

// The table in README.md is what is exported, and Describe promises nothing else.
func TestReadmeListsAllMetrics(t *testing.T) {
	p := newPool(t, "a")
	p.SubmitWait(context.Background(), func(context.Context) error { return nil }) // now it has been busy
	c, reg := register(t, p)
	servetest.Start(t, p, func(context.Context, *jobs.Job) error { return nil })
	queues, err := prom.NewQueueCollector(map[string]jobs.Depther{"mails": jobstest.NewQueue(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	reg.MustRegister(queues)
	var table strings.Builder
	names := map[string]bool{}
	for _, f := range gather(t, reg) {
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), f.GetHelp())
		names[f.GetName()] = true
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "| `shoal_") {
			rows.WriteString(line)
		}
	}
	if rows.String() != table.String() {
		t.Errorf("README.md has the table\n%s\nwant\n%s", rows.String(), table.String())
	}

	ch := make(chan *prometheus.Desc, 100)
	c.Describe(ch)
	queues.Describe(ch)
	close(ch)
	described := map[string]bool{}
	for d := range ch {
		described[regexp.MustCompile(`fqName: "([^"]*)"`).FindStringSubmatch(d.String())[1]] = true
	}
	if !reflect.DeepEqual(described, names) {
		t.Errorf("Describe has %v, want %v", described, names)
	}
}

// A sub-pool that nobody refers to is collected, also if it was scraped. What it had counted by then stays.
func TestDroppedSubPoolsAreCollected(t *testing.T) {
	p := newPool(t, "api", shoal.WithMaxWorkers(2))
	newSub(t, p, "request") // stays
	_, reg := register(t, p)
	for range 20 {
		s, err := p.Sub(shoal.WithName("request"))
		if err != nil {
			t.Fatal(err)
		}
		run(s, 1)
		gather(t, reg)
	}
	for end := time.Now().Add(time.Minute); len(p.Subs()) > 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		runtime.GC()
	}
	if n := len(p.Subs()); n > 2 { // the last one may still be on the stack
		t.Errorf("%d of 20 sub-pools that were dropped are in memory", n-1)
	}
	if got := completed(t, reg)["api/request"]; got != 20 {
		t.Errorf("%d tasks are counted, want 20", got)
	}
}
