// Package shoalexpvar publishes the statistics of pools as variables of package expvar,
// at /debug/vars. It is a package of its own because importing expvar registers that
// handler with [net/http.DefaultServeMux].
package shoalexpvar

import (
	"errors"
	"expvar"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/shoal-go/shoal"
)

// publishing is held from the look whether a name is taken to taking it.
var publishing sync.Mutex

// Publish publishes a variable with the given name. Its value is a JSON object that has the
// statistics of each pool under the pool's name ([shoal.WithName]). They are taken with
// [shoal.Pool.Stats] when the variable is read. Durations are in seconds; a queue without a
// bound has the capacity -1. What is not UTF-8 in a name is written as U+FFFD.
//
// If a pool is nil, if two pools have the same name, or if a variable with the given name
// exists already, Publish returns an error that names all of these problems, and publishes
// nothing. expvar cannot remove a variable, so a pool stays in it after it was closed.
func Publish(name string, pools ...*shoal.Pool) error {
	var errs []error
	taken := make(map[string]bool)
	for i, p := range pools {
		switch {
		case p == nil:
			errs = append(errs, fmt.Errorf("shoalexpvar: pools[%d] is nil", i))
		case taken[key(p)]:
			errs = append(errs, fmt.Errorf("shoalexpvar: pools[%d] is named %q, as another pool: want names that differ, by shoal.WithName", i, p.Name()))
		default:
			taken[key(p)] = true
		}
	}
	publishing.Lock()
	defer publishing.Unlock()
	if expvar.Get(name) != nil {
		errs = append(errs, fmt.Errorf("shoalexpvar: there is a variable %q already: want another name", name))
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	pools = slices.Clone(pools) // the caller may change its own
	expvar.Publish(name, expvar.Func(func() any {
		all := make(map[string]variables, len(pools))
		for _, p := range pools {
			all[key(p)] = of(p.Stats())
		}
		return all
	}))
	return nil
}

// key is the name of p as JSON has it.
func key(p *shoal.Pool) string { return strings.ToValidUTF8(p.Name(), "\uFFFD") }

// variables is what is shown of a pool. The counters are as in [shoal.Stats].
type variables struct {
	State                                                                        string
	Submitted, Completed, Failed, Panicked, Rejected, Dropped, Canceled, Spawned uint64
	Stalls, SlowTasks                                                            uint64
	InFlight, Queued, QueueCapacity, Blocked, Reserved                           int // a capacity of -1 is unbounded
	Workers, Running, Idle, PeakWorkers, MinWorkers, MaxWorkers                  int
	StalledSeconds, BusySeconds                                                  float64
	WaitSeconds, RunSeconds                                                      times
}

type times struct {
	Count               uint64
	Mean, P50, P99, Max float64
}

func of(s shoal.Stats) variables {
	capacity := s.QueueCapacity
	if capacity == shoal.Unbounded {
		capacity = -1
	}
	return variables{
		s.State.String(),
		s.Submitted, s.Completed, s.Failed, s.Panicked, s.Rejected, s.Dropped, s.Canceled, s.Spawned,
		s.Stalls, s.SlowTasks,
		s.InFlight, s.Queued, capacity, s.Blocked, s.Reserved,
		s.Workers, s.Running, s.Idle, s.PeakWorkers, s.MinWorkers, s.MaxWorkers,
		s.Stalled.Seconds(), s.BusyTime.Seconds(),
		timesOf(s.WaitTime), timesOf(s.RunTime),
	}
}

func timesOf(h shoal.Histogram) times {
	return times{h.Count, h.Mean().Seconds(), h.Quantile(0.5).Seconds(), h.Quantile(0.99).Seconds(), h.Max().Seconds()}
}
