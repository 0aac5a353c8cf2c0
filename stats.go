package shoal

import (
	"iter"
	"time"
)

// Stats is a snapshot of a pool. In every snapshot
//
//	Submitted = Completed + Dropped + Canceled + InFlight
//
// holds exactly, no counter is smaller than in an earlier snapshot, and Failed
// ≤ Completed. Workers ≤ MaxWorkers holds too, except after [Pool.Resize] has
// lowered the maximum, until the tasks beyond it have ended.
type Stats struct {
	Name  string
	State State

	Submitted uint64 // accepted
	Completed uint64 // started and ended, in whatever way
	Failed    uint64 // of the completed: panicked, called runtime.Goexit, or returned an error
	Rejected  uint64 // refused with ErrQueueFull
	Dropped   uint64 // accepted, but discarded before they started
	Canceled  uint64 // accepted, but not started because their context had ended
	Spawned   uint64 // of the submitted: run on a goroutine of their own, by the policy Spawn
	Stalls    uint64 // alarms of [WithStallAfter]
	SlowTasks uint64 // tasks that [WithSlowTask] found slow

	InFlight      int // accepted, and neither ended nor discarded
	Queued        int // of these, waiting; the capacity, if more wait (see [WithQueueCapacity])
	QueueCapacity int // Unbounded if there is no bound
	Blocked       int // calls that wait for room; their tasks are not accepted yet
	Reserved      int // places that [Pool.Reserve] has given out and that are not used yet

	Workers     int // live
	Running     int // of these, inside a task
	Idle        int // the others
	PeakWorkers int // the largest Workers so far
	MinWorkers  int
	MaxWorkers  int

	// Stalled is how long the pool has been stalled, and 0 if it is not. A pool
	// is stalled while all workers that it may have are inside tasks, other
	// tasks wait, and no task ends: as when tasks wait for tasks that are queued
	// behind them. The time is never too large. It counts from the first call of
	// Stats that finds the pool so, or from the first look of the watchdog, which
	// comes at most a quarter of its smallest threshold late; see [WithStallAfter].
	Stalled time.Duration

	// WaitTime is how long tasks waited between being accepted and started,
	// RunTime how long they ran. One task in 64 is measured, or every task with
	// [TimingFull]. Tasks that run on no worker are not measured.
	WaitTime, RunTime Histogram
}

// Utilization is the share of MaxWorkers that is inside tasks: 0 … 1.
func (s Stats) Utilization() float64 { return share(s.Running, s.MaxWorkers) }

// QueueFill is Queued / QueueCapacity: 0 … 1. It is 0 for an unbounded queue,
// and at capacity 0.
func (s Stats) QueueFill() float64 {
	if s.QueueCapacity == Unbounded {
		return 0
	}
	return share(s.Queued, s.QueueCapacity)
}

// share is n / of, at most 1: a maximum may have been lowered below what there
// is. It is 0 if of is 0.
func share(n, of int) float64 {
	if of <= 0 {
		return 0
	}
	return min(1, float64(n)/float64(of))
}

// Name is the pool's name; see [WithName].
func (p *Pool) Name() string { return p.name }

// Stats takes a snapshot of p alone: what was submitted to its sub-pools counts in
// theirs. But Workers and Running include the workers that run tasks of sub-pools
// at that moment. Stats holds the pool's lock for a moment, so it is for
// monitoring, not for decisions per task.
func (p *Pool) Stats() Stats {
	wait, run := p.wtime.Load().snapshot(), p.rtime.Load().snapshot()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.statsLocked()
	s.WaitTime, s.RunTime = wait, run
	return s
}

// statsLocked is all of Stats but the histograms. It is locked by p.mu, so that stalls are noticed
// in the order of the snapshots.
func (p *Pool) statsLocked() Stats {
	before := p.lane.Now()
	k := p.lane.Snapshot()
	s := Stats{
		Name: p.name, State: stateOf(k),
		Submitted: k.Submitted, Completed: k.Submitted - k.InFlight - k.Dropped - k.Canceled,
		Failed: k.Failed, Rejected: k.Rejected, Dropped: k.Dropped, Canceled: k.Canceled, Spawned: k.Spawned,
		InFlight: int(k.InFlight), Queued: min(int(k.Waiting), p.capacity), QueueCapacity: p.capacity,
		Blocked: k.Blocked, Reserved: k.Reserved,
		Workers: k.Live, PeakWorkers: k.Peak, MinWorkers: k.Min, MaxWorkers: k.Max,
		Running: k.WorkersIn, Idle: max(0, k.Live-k.WorkersIn),
	}
	if d := p.watch; d != nil {
		s.Stalls, s.SlowTasks = d.stalls, d.slowTasks
	}
	s.Stalled = p.stall.look(p, s, k.Moves, before)
	return s
}

// A stall is what is remembered to notice one. Guarded by Pool.mu.
type stall struct {
	moves uint64 // see [kernel.Snapshot], when that was noticed first
	since int64  // when, by the pool's clock, plus 1; 0: there is none
}

// look is for how long p has been stalled, at least. s and moves are of a moment after before. A
// pool is stuck while all workers that it may have are inside tasks, and others wait, or at
// capacity 0 submitters.
func (l *stall) look(p *Pool, s Stats, moves uint64, before int64) time.Duration {
	stuck := s.Running >= s.MaxWorkers && (s.Queued > 0 || p.capacity == 0 && s.Blocked > 0) && s.State != Paused
	switch {
	case !stuck:
		l.since = 0
	case l.since == 0 || l.moves != moves:
		l.moves, l.since = moves, p.lane.Now()+1
	default:
		return time.Duration(max(0, before+1-l.since))
	}
	return 0
}

// Queued is the number of accepted tasks that have not started.
func (p *Pool) Queued() int { return min(p.lane.Queued(), p.capacity) }

// A WorkerState says what a worker does.
type WorkerState uint8

// The three states of a worker.
const (
	WorkerRunning  WorkerState = iota // inside a task
	WorkerSpinning                    // awake, without a task
	WorkerParked                      // asleep until there is a task
)

// String is the state's name, in lower case.
func (s WorkerState) String() string {
	return [...]string{"running", "spinning", "parked"}[min(s, WorkerParked)]
}

// WorkerStats describes one worker. Executed and Failed are exact while the
// worker is idle. While it runs a task, Executed may be up to 64 tasks behind.
type WorkerStats struct {
	ID       int
	State    WorkerState
	Executed uint64
	Failed   uint64 // of the executed
	// TaskAge is how long the current task has been running, and 0 if there is
	// none. It is never too large. The pool reads the clock rarely: if it does
	// not know when the task began, the age counts from the first call of
	// [Pool.Workers] that found the task.
	TaskAge time.Duration
}

// Workers iterates over the workers that are live when the iteration begins, in
// the order of their ids.
func (p *Pool) Workers() iter.Seq[WorkerStats] {
	return func(yield func(WorkerStats) bool) {
		for _, w := range p.lane.Workers() {
			s := WorkerStats{ID: w.ID, Executed: w.Executed, Failed: w.Failed}
			switch {
			case w.Parked:
				s.State = WorkerParked
			case !w.InTask:
				s.State = WorkerSpinning
			default:
				s.TaskAge = w.Age
			}
			if !yield(s) {
				return
			}
		}
	}
}
