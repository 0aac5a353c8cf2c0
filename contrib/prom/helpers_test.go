package prom_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/contrib/prom"
)

// newPool makes a pool that is closed when the test ends.
func newPool(t testing.TB, name string, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	opts = append([]shoal.Option{shoal.WithName(name), shoal.WithPanicHandler(func(*shoal.PanicError) {})}, opts...)
	p, err := shoal.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func newSub(t testing.TB, p *shoal.Pool, name string, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	s, err := p.Sub(append(opts, shoal.WithName(name))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { runtime.KeepAlive(s) }) // one that is dropped is collected, and not reported any more
	return s
}

// register makes a collector of the pools, in a registry that checks all it can.
func register(t testing.TB, pools ...*shoal.Pool) (*prom.Collector, *prometheus.Registry) {
	t.Helper()
	c, err := prom.NewCollector(pools...)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	return c, reg
}

func gather(t testing.TB, reg prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	fams, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return fams
}

// byPool sorts metrics by their pool and name, having checked that there is no other label
// than the pool, and the state of workers, which is put in front of the name.
func byPool(t testing.TB, fams []*dto.MetricFamily) map[string]map[string]*dto.Metric {
	t.Helper()
	pools := make(map[string]map[string]*dto.Metric)
	for _, f := range fams {
		for _, m := range f.GetMetric() {
			l := m.GetLabel()
			name := f.GetName()
			if name == "shoal_pool_worker_count" && len(l) == 2 && l[1].GetName() == "shoal_pool_worker_state" {
				name = l[1].GetValue() + " " + name
			} else if len(l) != 1 {
				t.Fatalf("%s has the labels %v, want the pool alone", f.GetName(), l)
			}
			if l[0].GetName() != "shoal_pool_name" {
				t.Fatalf("%s has the label %v, want the pool", f.GetName(), l[0])
			}
			pool := l[0].GetValue()
			if pools[pool] == nil {
				pools[pool] = make(map[string]*dto.Metric)
			}
			if pools[pool][name] != nil {
				t.Fatalf("%s of %q occurs twice", name, pool)
			}
			pools[pool][name] = m
		}
	}
	return pools
}

// labels are those of all pools in a scrape, sorted.
func labels(t testing.TB, reg prometheus.Gatherer) []string {
	t.Helper()
	var ls []string
	for l := range byPool(t, gather(t, reg)) {
		ls = append(ls, l)
	}
	slices.Sort(ls)
	return ls
}

// number is the value of a counter or a gauge.
func number(t testing.TB, m *dto.Metric) float64 {
	t.Helper()
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	}
	t.Fatalf("want a counter or a gauge: %v", m)
	return 0
}
