// Package prom reports [shoal.Pool]s to Prometheus.
//
//	collector, err := prom.NewCollector(pool)
//	if err != nil {
//		return err
//	}
//	prometheus.MustRegister(collector)
//
// The metrics of a pool have its name in the label shoal_pool_name. Sub-pools are reported with their parent, under the label "name/sub", until they
// end. Each scrape calls [shoal.Pool.Stats] once for each pool; between scrapes nothing
// is done.
package prom

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoal-go/shoal"
)

// A Collector is a [prometheus.Collector] of the statistics of pools. It must be made by
// [NewCollector]. Its methods may be called by several goroutines. One collector is enough
// for all pools of a registry. A registry refuses a second one, unless
// [prometheus.WrapRegistererWith] gives them different labels.
//
// A sub-pool needs no name. Pools with the same label, such as sub-pools of one parent
// without a name, are reported as one pool, with the sum of their figures. The counts of a
// pool that has ended stay in the sum while another one has the label; of a sub-pool that was
// dropped, those of its last scrape. The time for which
// the sum is stalled is the longest of theirs. Its state is the earliest of theirs in the
// order open, paused, draining, closed.
type Collector struct {
	numbers   []*prometheus.Desc // as in the variable numbers
	jobs      []*prometheus.Desc // as in the variable jobNumbers
	workers   *prometheus.Desc   // of the variable workers
	oldest    *prometheus.Desc   // of the function oldest
	wait, run *prometheus.Desc

	mu     sync.Mutex
	added  map[*shoal.Pool]string // what Add was given: the names
	series map[place]*series      // as of the last scrape
}

// NewCollector returns a collector of the given pools, of which there may be none. It
// returns the errors of [Collector.Add].
func NewCollector(pools ...*shoal.Pool) (*Collector, error) {
	c := &Collector{
		numbers: make([]*prometheus.Desc, len(numbers)),
		workers: newDesc(workerName, workerHelp, stateLabel),
		oldest:  newDesc(oldestName, oldestHelp),
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

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{poolLabel}, labels...), nil)
}

// Add adds pools: they and their sub-pools are reported until [Collector.Remove] removes
// them. A closed pool is still reported, so that its last counts are seen.
//
// Each pool needs a name ([shoal.WithName]) of its own. If a pool is nil, has no name, has
// the name of another pool, or was added before, Add returns an error that names each such
// pool, and adds none.
//
// A sub-pool may be added too. Then its label is its name alone, and it is reported until
// it is removed, even after it has ended. If another pool has the label that it had, what it
// has counted stays there too.
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

// Remove removes pools, which are not reported any more. Nor is what they and their sub-pools have
// counted, except sub-pools that were added themselves. It ignores pools that were not added.
func (c *Collector) Remove(pools ...*shoal.Pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range pools {
		delete(c.added, p)
	}
	maps.DeleteFunc(c.series, func(at place, _ *series) bool {
		_, stays := c.added[at.root]
		return !stays // the next pool of that name begins at 0
	})
}

// Describe implements [prometheus.Collector]. It sends the same descriptions whatever
// pools there are.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range slices.Concat(c.numbers, c.jobs) {
		ch <- d
	}
	ch <- c.workers
	ch <- c.oldest
	ch <- c.wait
	ch <- c.run
}

// Collect implements [prometheus.Collector]. It takes the statistics of all pools, one
// after the other, before it sends anything.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for label, f := range c.look() {
		for i, n := range numbers {
			if v := n.of(&f.Stats); v >= 0 {
				ch <- prometheus.MustNewConstMetric(c.numbers[i], n.kind, v, label)
			}
		}
		for _, w := range workers {
			ch <- prometheus.MustNewConstMetric(c.workers, gauge, w.of(&f.Stats), label, w.state)
		}
		if f.served {
			for i, n := range jobNumbers {
				ch <- prometheus.MustNewConstMetric(c.jobs[i], n.kind, n.of(&f.jobs), label)
			}
			ch <- prometheus.MustNewConstMetric(c.oldest, gauge, oldest(f.jobs).Seconds(), label)
		}
		ch <- newHistogram(c.wait, f.WaitTime, label)
		ch <- newHistogram(c.run, f.RunTime, label)
	}
}
