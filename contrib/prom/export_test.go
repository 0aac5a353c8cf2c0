package prom

import (
	"time"

	"github.com/shoal-go/shoal"
)

// Bounds are the ends of the classic buckets.
func Bounds() []time.Duration { return bounds[:] }

// Values are the counters and gauges of a pool with the statistics s, by name. The state of
// workers is in front of it.
func Values(s shoal.Stats) map[string]float64 {
	v := make(map[string]float64, len(numbers))
	for _, n := range numbers {
		v[n.name] = n.of(&s)
	}
	for _, w := range workers {
		v[w.state+" "+workerName] = w.of(&s)
	}
	return v
}

// Moved is how many pools are kept that have another label than they had.
func (c *Collector) Moved() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.series {
		n += len(s.moved)
	}
	return n
}

// Plus and Counted are what several pools of one label are reported by.
var (
	Plus    = plus
	Counted = counted
)
