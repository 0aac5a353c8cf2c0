package prom

import (
	"strings"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// A series is what a pool that was added has under one label, with its sub-pools. A registry refuses
// the whole scrape if two metrics are the same, so the series of a label are reported as one. It keeps
// no pool: a sub-pool that nobody refers to is to be collected.
type series struct {
	pools map[pointer]figures // as of the last scrape: what they had counted by then
	moved map[pointer]figures // of those that now have another label: likewise
	ended figures             // what those have counted that have ended
}

type pointer = weak.Pointer[shoal.Pool]

// A place is where a series is.
type place struct {
	root  *shoal.Pool // that was added
	label string
}

// figures are the sum of what is known of some pools.
type figures struct {
	shoal.Stats
	jobs   jobs.Stats
	served bool // they work off durable queues, or have done that
}

// figuresOf are those of p, which has the statistics now.
func figuresOf(p *shoal.Pool, now shoal.Stats) (f figures) {
	f.Stats = now
	f.addJobs(jobs.Total(p))
	return f
}

// counted are f without what the pools have and do at present.
func (f figures) counted() figures {
	f.Stats = counted(f.Stats)
	f.jobs.Held, f.jobs.Running, f.jobs.Oldest = 0, 0, jobs.RunningJob{}
	return f
}

// add adds what other pools have counted.
func (f *figures) add(o figures) {
	f.Stats = plus(o.Stats, f.Stats)
	f.addJobs(o.jobs, o.served)
}

// addJobs adds what [jobs.Total] returns.
func (f *figures) addJobs(s jobs.Stats, served bool) {
	f.jobs = f.jobs.Merge(s)
	f.served = f.served || served
}

// look takes the statistics of all pools, and those of their durable queues. They are by
// label.
func (c *Collector) look() map[string]*figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.series
	c.series = make(map[place]*series, len(before))
	all := make(map[string]*figures, len(before))
	seen := make(map[*shoal.Pool]bool, len(before))
	for p, name := range c.added {
		c.visit(all, seen, p, p, p.Stats(), name)
	}
	for at, b := range before {
		sum := all[at.label]
		if sum == nil {
			continue // no pool has the label any more
		}
		s := c.at(at)
		s.ended, s.moved = b.ended, b.moved
		for w, last := range b.pools {
			_, there := s.pools[w]
			switch p := w.Value(); {
			case p == nil: // it was collected
				s.ended.add(last)
			case there:
			case seen[p]:
				s.moved[w] = figuresOf(p, p.Stats()).counted()
			case len(jobs.Of(p)) > 0: // p has ended, but a call of jobs.Serve has not
				f := figuresOf(p, p.Stats())
				f.Stats = counted(f.Stats)
				sum.add(f)
				s.pools[w] = f.counted()
			default:
				s.ended.add(figuresOf(p, p.Stats()).counted())
			}
		}
		for w, f := range s.moved {
			_, there := s.pools[w]
			switch p := w.Value(); {
			case there: // it is back, with all that it has counted
				delete(s.moved, w)
			case p == nil || !seen[p] && p.State() == shoal.Closed: // it does not come back
				delete(s.moved, w)
				s.ended.add(f)
			default:
				sum.add(f)
			}
		}
		sum.add(s.ended)
	}
	return all
}

// at returns the series of a place.
func (c *Collector) at(at place) *series {
	s := c.series[at]
	if s == nil {
		s = &series{pools: make(map[pointer]figures), moved: make(map[pointer]figures)}
		c.series[at] = s
	}
	return s
}

// visit adds p, which has the statistics now, and its sub-pools to what is reported.
func (c *Collector) visit(all map[string]*figures, seen map[*shoal.Pool]bool, root, p *shoal.Pool, now shoal.Stats, label string) {
	f := figuresOf(p, now)
	last := f.counted()
	last.Completed += uint64(now.InFlight) // if p is collected before the next scrape, nothing tells how they have ended
	c.at(place{root, label}).pools[weak.Make(p)] = last
	if sum := all[label]; sum == nil {
		all[label] = &f
	} else {
		now.State = min(now.State, sum.State)
		sum.Stats = plus(sum.Stats, now)
		sum.addJobs(f.jobs, f.served)
	}
	seen[p] = true
	for _, sub := range p.Subs() {
		if _, own := c.added[sub]; !own {
			now := sub.Stats()
			c.visit(all, seen, root, sub, now, label+"/"+strings.ToValidUTF8(now.Name, "\uFFFD"))
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
