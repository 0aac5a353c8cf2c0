package prom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

const (
	workerName = "shoal_pool_worker_count"
	workerHelp = "Workers that exist: active ones are inside a task of the pool or of a sub-pool, idle ones have no task."

	oldestName = "shoal_jobs_oldest_running_seconds"
	oldestHelp = "Time for which the job that has been inside the handler for longest has been there. None is: 0."

	waitName = "shoal_pool_task_wait_duration_seconds"
	waitHelp = "How long tasks waited from being accepted to their start. Measured for one task in 64, or for every task with shoal.TimingFull; none of those that run on no worker, as by Spawn and CallerRuns."
	runName  = "shoal_pool_task_run_duration_seconds"
	runHelp  = "How long tasks ran. Measured for one task in 64, or for every task with shoal.TimingFull; none of those that run on no worker, as by Spawn and CallerRuns."
)

// The labels, and the names of the metrics, are those that contrib/otel's have in Prometheus, so
// that one query does for both.
const (
	poolLabel  = "shoal_pool_name"
	stateLabel = "shoal_pool_worker_state"
	queueLabel = "shoal_queue_name"
)

// A number is a metric that is a counter or a gauge, of statistics S. A negative value is none.
type number[S any] struct {
	name string
	kind prometheus.ValueType
	help string
	of   func(*S) float64
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var numbers = [...]number[shoal.Stats]{
	{"shoal_pool_task_submitted_total", counter, "Tasks that were accepted.",
		func(s *shoal.Stats) float64 { return float64(s.Submitted) }},
	{"shoal_pool_task_completed_total", counter, "Tasks that have ended, whether they failed or not.",
		func(s *shoal.Stats) float64 { return float64(s.Completed) }},
	{"shoal_pool_task_failed_total", counter, "Completed tasks that panicked, called runtime.Goexit, or returned an error.",
		func(s *shoal.Stats) float64 { return float64(s.Failed) }},
	{"shoal_pool_task_panicked_total", counter, "Failed tasks that panicked.",
		func(s *shoal.Stats) float64 { return float64(s.Panicked) }},
	{"shoal_pool_task_rejected_total", counter, "Tasks that were refused because the queue was full.",
		func(s *shoal.Stats) float64 { return float64(s.Rejected) }},
	{"shoal_pool_task_dropped_total", counter, "Accepted tasks that were discarded before they started.",
		func(s *shoal.Stats) float64 { return float64(s.Dropped) }},
	{"shoal_pool_task_canceled_total", counter, "Accepted tasks that did not start because their context had ended.",
		func(s *shoal.Stats) float64 { return float64(s.Canceled) }},
	{"shoal_pool_task_spawned_total", counter, "Submitted tasks that ran on a goroutine of their own because the queue was full.",
		func(s *shoal.Stats) float64 { return float64(s.Spawned) }},
	{"shoal_pool_task_slow_total", counter, "Tasks that ran longer than the limit of shoal.WithSlowTask. Without it: 0.",
		func(s *shoal.Stats) float64 { return float64(s.SlowTasks) }},
	{"shoal_pool_stalls_total", counter, "Stalls that lasted longer than the limit of shoal.WithStallAfter. Without it: 0.",
		func(s *shoal.Stats) float64 { return float64(s.Stalls) }},
	{"shoal_pool_stalled_seconds", gauge, "Time for which all workers have been inside tasks, no task has ended, and each look has found tasks that wait. Not stalled: 0.",
		func(s *shoal.Stats) float64 { return s.Stalled.Seconds() }},
	{"shoal_pool_task_in_flight", gauge, "Accepted tasks that have neither ended nor been discarded.",
		func(s *shoal.Stats) float64 { return float64(s.InFlight) }},
	{"shoal_pool_queue_size", gauge, "Tasks in flight that wait for a worker.",
		func(s *shoal.Stats) float64 { return float64(s.Queued) }},
	{"shoal_pool_queue_capacity", gauge, "Number of tasks that may wait. Absent if there is no bound.",
		func(s *shoal.Stats) float64 {
			if s.QueueCapacity == shoal.Unbounded {
				return -1
			}
			return float64(s.QueueCapacity)
		}},
	{"shoal_pool_submitter_blocked", gauge, "Calls of Submit and similar methods that wait for free capacity.",
		func(s *shoal.Stats) float64 { return float64(s.Blocked) }},
	{"shoal_pool_worker_busy_time_seconds_total", counter, "Time for which workers have been busy, all together. Absent for sub-pools, whose tasks are in that of the pool, and until a worker has run.",
		func(s *shoal.Stats) float64 {
			if s.BusyTime == 0 {
				return -1
			}
			return s.BusyTime.Seconds()
		}},
	{"shoal_pool_worker_peak", gauge, "Largest number of workers so far.",
		func(s *shoal.Stats) float64 { return float64(s.PeakWorkers) }},
	{"shoal_pool_worker_core", gauge, "Minimum number of workers, which stay when they are idle.",
		func(s *shoal.Stats) float64 { return float64(s.MinWorkers) }},
	{"shoal_pool_worker_limit", gauge, "Maximum number of workers.",
		func(s *shoal.Stats) float64 { return float64(s.MaxWorkers) }},
	{"shoal_pool_worker_reserved", gauge, "Free workers that are reserved for tasks to come.",
		func(s *shoal.Stats) float64 { return float64(s.Reserved) }},
	{"shoal_pool_paused", gauge, "1 if the pool is paused and starts no tasks, else 0.",
		func(s *shoal.Stats) float64 { return flag(s, shoal.Paused) }},
	{"shoal_pool_draining", gauge, "1 if the pool is shutting down: it accepts no more tasks and ends soon; else 0.",
		func(s *shoal.Stats) float64 { return flag(s, shoal.Draining) }},
	{"shoal_pool_closed", gauge, "1 if the pool has ended, else 0.",
		func(s *shoal.Stats) float64 { return flag(s, shoal.Closed) }},
}

// workers are the values of the metric workerName, by state.
var workers = [...]struct {
	state string
	of    func(*shoal.Stats) float64
}{
	{"active", func(s *shoal.Stats) float64 { return float64(s.Running) }},
	{"idle", func(s *shoal.Stats) float64 { return float64(s.Idle) }},
}

// jobNumbers are of the durable queues that a pool works off, by package jobs, in sum.
// A pool that never had one has none. What a call of jobs.Serve has counted stays when it ends.
var jobNumbers = [...]number[jobs.Stats]{
	{"shoal_jobs_held", gauge, "Jobs that are leased and not settled.", func(s *jobs.Stats) float64 { return float64(s.Held) }},
	{"shoal_jobs_running", gauge, "Jobs that are inside the handler, also those that were given back.", func(s *jobs.Stats) float64 { return float64(s.Running) }},
	{"shoal_jobs_leased_total", counter, "Jobs that were leased.", func(s *jobs.Stats) float64 { return float64(s.Leased) }},
	{"shoal_jobs_acked_total", counter, "Jobs that are done.", func(s *jobs.Stats) float64 { return float64(s.Acked) }},
	{"shoal_jobs_retried_total", counter, "Jobs that were given back.", func(s *jobs.Stats) float64 { return float64(s.Retried) }},
	{"shoal_jobs_dead_total", counter, "Jobs that became dead letters.", func(s *jobs.Stats) float64 { return float64(s.Dead) }},
	{"shoal_jobs_leases_lost_total", counter, "Leases that were lost; the jobs may have run elsewhere.", func(s *jobs.Stats) float64 { return float64(s.LeasesLost) }},
	{"shoal_jobs_untold_total", counter, "Jobs whose result did not reach the queue in time; they may run again.", func(s *jobs.Stats) float64 { return float64(s.Untold) }},
	{"shoal_jobs_leases_extended_total", counter, "Leases that were extended.", func(s *jobs.Stats) float64 { return float64(s.Extended) }},
	{"shoal_jobs_timed_out_total", counter, "Runs of jobs that exceeded their time limit.", func(s *jobs.Stats) float64 { return float64(s.TimedOut) }},
	{"shoal_jobs_source_errors_total", counter, "Pulls that failed, and jobs that are untold.", func(s *jobs.Stats) float64 { return float64(s.PullErrors + s.Untold) }},
}

// oldest is the value of the metric oldestName: for how long the oldest job has run.
func oldest(s jobs.Stats) time.Duration {
	if s.Oldest.Since.IsZero() {
		return 0
	}
	return time.Since(s.Oldest.Since)
}

func flag(s *shoal.Stats, state shoal.State) float64 {
	if s.State == state {
		return 1
	}
	return 0
}
