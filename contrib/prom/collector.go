// Package prom reports [shoal.Pool]s to Prometheus.
//
//	collector, err := prom.NewCollector(pool)
//	if err != nil {
//		return err
//	}
//	prometheus.MustRegister(collector)
//
// Every pool has the same metrics, told apart by one label, pool: its name. Its
// sub-pools are reported with it, as "name/sub", while they live. A pool
// is looked at when it is scraped, by one call of [shoal.Pool.Stats], and not in
// between.
package prom

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoal-go/shoal"
)

// A Collector is a [prometheus.Collector] of the statistics of pools. It is made
// by [NewCollector] and safe for use by any number of goroutines. One is enough for
// all pools of a registry; a second one there is refused, unless
// [prometheus.WrapRegistererWith] tells them apart by a label.
//
// A sub-pool needs no name. Pools whose label is the same, such as sub-pools of one
// parent that have no name, are reported as one, by their sum: those that have ended
// go on counting while there is another one. They are stalled for as long as the one
// that is longest, and paused, draining or closed if all are, or are further on.
type Collector struct {
	numbers   []*prometheus.Desc // as in the variable numbers
	jobs      []*prometheus.Desc // as in the variable jobNumbers
	wait, run *prometheus.Desc

	mu     sync.Mutex
	added  map[*shoal.Pool]string // what Add was given: the names
	series map[string]*series     // by label, as of the last scrape
}

// NewCollector makes a collector of the given pools, if any. The error is that of
// [Collector.Add].
func NewCollector(pools ...*shoal.Pool) (*Collector, error) {
	c := &Collector{
		numbers: make([]*prometheus.Desc, len(numbers)),
		wait:    newDesc(waitName, waitHelp),
		run:     newDesc(runName, runHelp),
		added:   make(map[*shoal.Pool]string),
	}
	for i, n := range numbers {
		c.numbers[i] = newDesc(n.name, n.help)
	}
	for _, n := range jobNumbers {
		c.jobs = append(c.jobs, newDesc(n.name, n.help))
	}
	if err := c.Add(pools...); err != nil {
		return nil, err
	}
	return c, nil
}

func newDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"pool"}, nil)
}

// Add has the pools and their sub-pools reported until [Collector.Remove]; also
// after they were closed, so that the last counts are seen. Pools need names,
// [shoal.WithName], of which no two are the same. The error names every pool that
// is nil, has no name or one that is taken, or was added before; then none is
// added.
//
// A sub-pool may be added itself. Then it goes by its name alone, and is reported
// until it is removed.
func (c *Collector) Add(pools ...*shoal.Pool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := make(map[string]*shoal.Pool, len(c.added)+len(pools))
	for p, name := range c.added {
		taken[name] = p
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("prom: "+format, args...)) }
	for i, p := range pools {
		if p == nil {
			bad("pools[%d] is nil", i)
			continue
		}
		name := p.Name()
		switch other, used := taken[name]; {
		case name == "":
			bad("pools[%d] has no name: want shoal.WithName", i)
		case !utf8.ValidString(name):
			bad("pools[%d] is named %q: want UTF-8", i, name)
		case other == p:
			bad("pools[%d], %q, was added before", i, name)
		case used:
			bad("pools[%d] is named %q, as another pool: want names that differ", i, name)
		default:
			taken[name] = p
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	for name, p := range taken {
		c.added[p] = name
	}
	return nil
}

// Remove ends what [Collector.Add] began. Pools that were not added are passed
// over.
func (c *Collector) Remove(pools ...*shoal.Pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range pools {
		if name, was := c.added[p]; was {
			delete(c.added, p)
			delete(c.series, name) // the next pool of that name begins at 0
		}
	}
}

// Describe implements [prometheus.Collector]. What it sends does not depend on the
// pools.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(c.numbers, c.jobs) {
		ch <- d
	}
	ch <- c.wait
	ch <- c.run
}

// Collect implements [prometheus.Collector]. It looks at all pools, one after the
// other, before it sends anything.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	all, sources := c.look()
	for label, stats := range all {
		for i, n := range numbers {
			ch <- prometheus.MustNewConstMetric(c.numbers[i], n.kind, n.of(stats), label)
		}
		if of := sources[label]; len(of) > 0 {
			for i, n := range jobNumbers {
				sum := 0.0
				for k := range of {
					sum += n.of(&of[k])
				}
				ch <- prometheus.MustNewConstMetric(c.jobs[i], n.kind, sum, label)
			}
		}
		ch <- newHistogram(c.wait, stats.WaitTime, label)
		ch <- newHistogram(c.run, stats.RunTime, label)
	}
}
