package shoalotel

import (
	"errors"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"go.opentelemetry.io/otel/metric"
)

// A reading is what the values of metrics are taken from.
type reading struct {
	shoal.Stats
	waited, ran shoal.Histogram // since the previous reading
	work        work
}

// A work is what is done of the durable queues that pools work off, by package jobs, in sum.
type work struct {
	jobs.Stats
	served bool // there is, or was, such a queue
}

// add adds what [jobs.Total] returns of a pool.
func (w *work) add(s jobs.Stats, served bool) {
	w.Stats = w.Stats.Merge(s)
	w.served = w.served || served
}

// An instrument is a metric. A negative value is none.
type instrument[N int64 | float64] struct {
	name, unit, help string
	value            func(*reading) N
}

// Each table has the instruments of one kind; README.md says what they are for, and
// where the names are from. In Prometheus they are those of contrib/prom where both have one,
// so a unit of 1, which adds _ratio to a name, is for ratios only.

var counters = []instrument[int64]{
	{"shoal.pool.task.submitted", "{task}", "Tasks that were accepted.",
		func(r *reading) int64 { return int64(r.Submitted) }},
	{"shoal.pool.task.completed", "{task}", "Tasks that have ended, whether they failed or not.",
		func(r *reading) int64 { return int64(r.Completed) }},
	{"shoal.pool.task.failed", "{task}", "Tasks that panicked, called runtime.Goexit, or returned an error.",
		func(r *reading) int64 { return int64(r.Failed) }},
	{"shoal.pool.task.panicked", "{task}", "Failed tasks that panicked.",
		func(r *reading) int64 { return int64(r.Panicked) }},
	{"shoal.pool.task.rejected", "{task}", "Tasks that were refused because the queue was full.",
		func(r *reading) int64 { return int64(r.Rejected) }},
	{"shoal.pool.task.dropped", "{task}", "Tasks that were accepted and discarded before they started.",
		func(r *reading) int64 { return int64(r.Dropped) }},
	{"shoal.pool.task.canceled", "{task}", "Tasks that were accepted and did not start, because their context had ended.",
		func(r *reading) int64 { return int64(r.Canceled) }},
	{"shoal.pool.task.spawned", "{task}", "Tasks that ran on a goroutine of their own because the queue was full.",
		func(r *reading) int64 { return int64(r.Spawned) }},
	{"shoal.pool.task.slow", "{task}", "Tasks that ran longer than the limit of shoal.WithSlowTask.",
		func(r *reading) int64 { return int64(r.SlowTasks) }},
	{"shoal.pool.stalls", "{stall}", "Stalls that lasted longer than the limit of shoal.WithStallAfter.",
		func(r *reading) int64 { return int64(r.Stalls) }},
	{"shoal.pool.task.wait.measured", "{task}", "Tasks whose wait was measured.",
		func(r *reading) int64 { return int64(r.WaitTime.Count) }},
	{"shoal.pool.task.run.measured", "{task}", "Tasks whose run was measured.",
		func(r *reading) int64 { return int64(r.RunTime.Count) }},
	{"shoal.jobs.leased", "{job}", "Jobs that were leased. Absent if the pool never had a durable queue.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.Leased) })},
	{"shoal.jobs.acked", "{job}", "Jobs that are done.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.Acked) })},
	{"shoal.jobs.retried", "{job}", "Jobs that were given back.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.Retried) })},
	{"shoal.jobs.dead", "{job}", "Jobs that became dead letters.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.Dead) })},
	{"shoal.jobs.leases_lost", "{lease}", "Leases that were lost; the jobs may have run elsewhere.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.LeasesLost) })},
	{"shoal.jobs.untold", "{job}", "Jobs whose result did not reach the queue in time; they may run again.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.Untold) })},
	{"shoal.jobs.leases_extended", "{lease}", "Leases that were extended.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.Extended) })},
	{"shoal.jobs.timed_out", "{run}", "Runs of jobs that exceeded their time limit.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.TimedOut) })},
	{"shoal.jobs.source_errors", "{error}", "Pulls that failed, and jobs that are untold.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.PullErrors + s.Untold) })},
}

var sums = []instrument[float64]{
	{"shoal.pool.worker.busy.time", "s", "Time for which workers have been busy, all together. Absent for sub-pools, and until a worker has run.",
		func(r *reading) float64 {
			if r.BusyTime == 0 {
				return -1
			}
			return r.BusyTime.Seconds()
		}},
	{"shoal.pool.task.wait.time", "s", "Total time that the measured tasks waited for a worker.",
		func(r *reading) float64 { return r.WaitTime.Seconds() }},
	{"shoal.pool.task.run.time", "s", "Total time that the measured tasks ran.",
		func(r *reading) float64 { return r.RunTime.Seconds() }},
}

var levels = []instrument[int64]{
	{"shoal.pool.task.in_flight", "{task}", "Tasks that were accepted and have not ended.",
		func(r *reading) int64 { return int64(r.InFlight) }},
	{"shoal.pool.queue.size", "{task}", "Tasks that wait for a worker.",
		func(r *reading) int64 { return int64(r.Queued) }},
	{"shoal.pool.queue.capacity", "{task}", "Number of tasks that may wait. Absent if there is no bound.",
		func(r *reading) int64 {
			if r.QueueCapacity == shoal.Unbounded {
				return -1
			}
			return int64(r.QueueCapacity)
		}},
	{"shoal.pool.submitter.blocked", "{submitter}", "Submitters that wait for free capacity.",
		func(r *reading) int64 { return int64(r.Blocked) }},
	{"shoal.pool.worker.core", "{worker}", "Minimum number of workers, which stay when they are idle.",
		func(r *reading) int64 { return int64(r.MinWorkers) }},
	{"shoal.pool.worker.limit", "{worker}", "Maximum number of workers.",
		func(r *reading) int64 { return int64(r.MaxWorkers) }},
	{"shoal.pool.worker.reserved", "{worker}", "Free workers that are reserved for tasks to come.",
		func(r *reading) int64 { return int64(r.Reserved) }},
	{"shoal.jobs.held", "{job}", "Jobs that are leased and not settled. Absent if the pool never had a durable queue.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.Held) })},
	{"shoal.jobs.running", "{job}", "Jobs that are inside the handler, also those that were given back. Absent if the pool never had a durable queue.",
		ofJobs(func(s *jobs.Stats) int64 { return int64(s.Running) })},
}

// workerStates are the values of shoal.pool.worker.count.
var workerStates = [...]struct {
	state string
	value func(*reading) int64
}{
	{"active", func(r *reading) int64 { return int64(r.Running) }},
	{"idle", func(r *reading) int64 { return int64(r.Idle) }},
}

// ofJobs is a value that is there once a pool has worked off a durable queue.
func ofJobs[N int64 | float64](value func(*jobs.Stats) N) func(*reading) N {
	return func(r *reading) N {
		if !r.work.served {
			return -1
		}
		return value(&r.work.Stats)
	}
}

var gauges = []instrument[float64]{
	{"shoal.pool.queue.utilization", "1", "Tasks that wait, divided by the capacity of the queue. Absent if there is no bound.",
		func(r *reading) float64 {
			if r.QueueCapacity == shoal.Unbounded {
				return -1
			}
			return r.QueueFill()
		}},
	{"shoal.pool.stalled", "s", "Time for which all workers have been inside tasks, no task has ended, and each look has found tasks that wait.",
		func(r *reading) float64 { return r.Stalled.Seconds() }},
	{"shoal.jobs.oldest_running", "s", "Time for which the job that has been inside the handler for longest has been there. None is: 0. Absent if the pool never had a durable queue.",
		ofJobs(func(s *jobs.Stats) float64 {
			if s.Oldest.Since.IsZero() {
				return 0
			}
			return time.Since(s.Oldest.Since).Seconds()
		})},
	{"shoal.pool.paused", "{pool}", "1 if the pool is paused and starts no tasks, else 0.",
		inState(shoal.Paused)},
	{"shoal.pool.draining", "{pool}", "1 if the pool is shutting down: it accepts no more tasks and ends soon; else 0.",
		inState(shoal.Draining)},
	{"shoal.pool.closed", "{pool}", "1 if the pool has ended, else 0.",
		inState(shoal.Closed)},
	{"shoal.pool.task.wait.p50", "s", "Median wait since the previous collection. Absent if none was measured.",
		func(r *reading) float64 { return quantile(r.waited, 0.5) }},
	{"shoal.pool.task.wait.p99", "s", "99th percentile of the wait since the previous collection. Absent if none was measured.",
		func(r *reading) float64 { return quantile(r.waited, 0.99) }},
	{"shoal.pool.task.wait.max", "s", "Longest wait since the previous collection. Absent if none was measured.",
		func(r *reading) float64 { return quantile(r.waited, 1) }},
	{"shoal.pool.task.run.p50", "s", "Median run since the previous collection. Absent if none was measured.",
		func(r *reading) float64 { return quantile(r.ran, 0.5) }},
	{"shoal.pool.task.run.p99", "s", "99th percentile of the run since the previous collection. Absent if none was measured.",
		func(r *reading) float64 { return quantile(r.ran, 0.99) }},
	{"shoal.pool.task.run.max", "s", "Longest run since the previous collection. Absent if none was measured.",
		func(r *reading) float64 { return quantile(r.ran, 1) }},
}

func inState(state shoal.State) func(*reading) float64 {
	return func(r *reading) float64 {
		if r.State == state {
			return 1
		}
		return 0
	}
}

func quantile(h shoal.Histogram, q float64) float64 {
	if h.Count == 0 {
		return -1
	}
	return h.Quantile(q).Seconds()
}

// instruments are what a meter made of the tables, in their order.
type instruments struct {
	counters, levels []metric.Int64Observable
	sums, gauges     []metric.Float64Observable
	workers          metric.Int64Observable
}

// makeInstruments returns them, and all in one list too.
func makeInstruments(m metric.Meter) (made instruments, all []metric.Observable, err error) {
	var errs []error
	ints := func(to *[]metric.Int64Observable, i metric.Int64Observable, err error) {
		*to, all, errs = append(*to, i), append(all, i), append(errs, err)
	}
	floats := func(to *[]metric.Float64Observable, i metric.Float64Observable, err error) {
		*to, all, errs = append(*to, i), append(all, i), append(errs, err)
	}
	for _, i := range counters {
		o, err := m.Int64ObservableCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		ints(&made.counters, o, err)
	}
	for _, i := range levels {
		o, err := m.Int64ObservableUpDownCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		ints(&made.levels, o, err)
	}
	for _, i := range sums {
		o, err := m.Float64ObservableCounter(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		floats(&made.sums, o, err)
	}
	for _, i := range gauges {
		o, err := m.Float64ObservableGauge(i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		floats(&made.gauges, o, err)
	}
	workers, err := m.Int64ObservableUpDownCounter("shoal.pool.worker.count", metric.WithUnit("{worker}"),
		metric.WithDescription("Workers that exist: active ones are inside a task of the pool or of a sub-pool, idle ones have no task."))
	made.workers, all, errs = workers, append(all, workers), append(errs, err)
	return made, all, errors.Join(errs...)
}

// report reports r under a name, and workers by their state.
func (made *instruments) report(to metric.Observer, r *reading, name metric.MeasurementOption, states []metric.MeasurementOption) {
	ints := func(table []instrument[int64], made []metric.Int64Observable) {
		for n, i := range table {
			if v := i.value(r); v >= 0 {
				to.ObserveInt64(made[n], v, name)
			}
		}
	}
	floats := func(table []instrument[float64], made []metric.Float64Observable) {
		for n, i := range table {
			if v := i.value(r); v >= 0 {
				to.ObserveFloat64(made[n], v, name)
			}
		}
	}
	ints(counters, made.counters)
	ints(levels, made.levels)
	for n, w := range workerStates {
		to.ObserveInt64(made.workers, w.value(r), states[n])
	}
	floats(sums, made.sums)
	floats(gauges, made.gauges)
}

// plus is what two pools that are reported as one do.
func plus(a, b shoal.Stats) shoal.Stats {
	a.Submitted += b.Submitted
	a.Completed += b.Completed
	a.Failed += b.Failed
	a.Panicked += b.Panicked
	a.Rejected += b.Rejected
	a.Dropped += b.Dropped
	a.Canceled += b.Canceled
	a.Spawned += b.Spawned
	a.Stalls += b.Stalls
	a.SlowTasks += b.SlowTasks
	a.InFlight += b.InFlight
	a.Queued += b.Queued
	if a.QueueCapacity == shoal.Unbounded || b.QueueCapacity == shoal.Unbounded {
		a.QueueCapacity = shoal.Unbounded
	} else {
		a.QueueCapacity += b.QueueCapacity
	}
	a.Blocked += b.Blocked
	a.State = min(a.State, b.State)
	a.Running += b.Running
	a.Idle += b.Idle
	a.MinWorkers += b.MinWorkers
	a.MaxWorkers += b.MaxWorkers
	a.Reserved += b.Reserved
	a.Stalled = max(a.Stalled, b.Stalled)
	a.BusyTime += b.BusyTime
	a.WaitTime = a.WaitTime.Merge(b.WaitTime)
	a.RunTime = a.RunTime.Merge(b.RunTime)
	return a
}

// left is what remains of a pool that has ended: what it did.
func left(s shoal.Stats) shoal.Stats {
	s.InFlight, s.Queued, s.QueueCapacity, s.Blocked = 0, 0, 0, 0
	s.Running, s.Idle, s.MinWorkers, s.MaxWorkers, s.Reserved = 0, 0, 0, 0, 0
	s.Stalled = 0
	return s
}
