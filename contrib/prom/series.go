package prom

import (
	"strings"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// A series is what is reported under one label. A registry refuses the whole scrape
// if two are the same, so there may be several pools in it.
type series struct {
	pools []*shoal.Pool // as of the last scrape
	ended shoal.Stats   // what those have counted that were in it and have ended
}

// look takes the statistics of all pools, and those of their durable queues. They are by
// label.
func (c *Collector) look() (map[string]*shoal.Stats, map[string][]jobs.Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.series
	c.series = make(map[string]*series, len(before))
	all := make(map[string]*shoal.Stats, len(before))
	seen := make(map[*shoal.Pool]bool, len(before))
	for p, name := range c.added {
		c.visit(all, seen, p, p.Stats(), name)
	}
	for label, s := range c.series {
		b := before[label]
		if b == nil {
			continue
		}
		s.ended = b.ended
		for _, p := range b.pools {
			if !seen[p] {
				s.ended = plus(s.ended, counted(p.Stats()))
			}
		}
		*all[label] = plus(s.ended, *all[label])
	}
	sources := make(map[string][]jobs.Stats)
	for label, s := range c.series {
		for _, p := range s.pools {
			if of := jobs.Of(p); len(of) > 0 {
				sources[label] = append(sources[label], of...)
			}
		}
	}
	return all, sources
}

// visit adds p, which has the statistics now, and its sub-pools to what is reported.
func (c *Collector) visit(all map[string]*shoal.Stats, seen map[*shoal.Pool]bool, p *shoal.Pool, now shoal.Stats, label string) {
	seen[p] = true
	if sum := all[label]; sum == nil {
		all[label] = &now
		c.series[label] = new(series)
	} else {
		now.State = min(now.State, sum.State)
		*sum = plus(*sum, now)
	}
	s := c.series[label]
	s.pools = append(s.pools, p)
	for _, sub := range p.Subs() {
		if _, own := c.added[sub]; !own {
			now := sub.Stats()
			c.visit(all, seen, sub, now, label+"/"+strings.ToValidUTF8(now.Name, "\uFFFD"))
		}
	}
}

// counted is what is left of a pool that has ended.
func counted(s shoal.Stats) shoal.Stats {
	return shoal.Stats{
		Submitted: s.Submitted, Completed: s.Completed, Failed: s.Failed, Panicked: s.Panicked, Rejected: s.Rejected,
		Dropped: s.Dropped, Canceled: s.Canceled, Spawned: s.Spawned, SlowTasks: s.SlowTasks, Stalls: s.Stalls,
		BusyTime: s.BusyTime, WaitTime: s.WaitTime, RunTime: s.RunTime,
	}
}

// plus is the sum of a and b, with b's state, and the longer of their stalls.
func plus(a, b shoal.Stats) shoal.Stats {
	b.Submitted += a.Submitted
	b.Completed += a.Completed
	b.Failed += a.Failed
	b.Panicked += a.Panicked
	b.Rejected += a.Rejected
	b.Dropped += a.Dropped
	b.Canceled += a.Canceled
	b.Spawned += a.Spawned
	b.SlowTasks += a.SlowTasks
	b.Stalls += a.Stalls
	b.InFlight += a.InFlight
	b.Queued += a.Queued
	b.QueueCapacity += min(a.QueueCapacity, shoal.Unbounded-b.QueueCapacity)
	b.Blocked += a.Blocked
	b.Workers += a.Workers
	b.Running += a.Running
	b.Idle += a.Idle
	b.PeakWorkers += a.PeakWorkers
	b.MinWorkers += a.MinWorkers
	b.MaxWorkers += a.MaxWorkers
	b.Reserved += a.Reserved
	b.Stalled = max(a.Stalled, b.Stalled)
	b.BusyTime += a.BusyTime
	b.WaitTime = a.WaitTime.Merge(b.WaitTime)
	b.RunTime = a.RunTime.Merge(b.RunTime)
	return b
}
