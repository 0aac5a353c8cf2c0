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
	// behind them. Without [WithStallAfter] the time counts from the first call
	// of Stats that finds it so.
	Stalled time.Duration

	// WaitTime is how long tasks waited between being accepted and started,
	// RunTime how long they ran. One task in 64 is measured, or every task with
	// [TimingFull], [WithStallAfter] or [WithSlowTask]. Tasks that run on no
	// worker are not measured.
	WaitTime, RunTime Histogram
}

// Utilization is the share of MaxWorkers that is inside tasks: 0 … 1.
func (s Stats) Utilization() float64 {
	return share(s.Running, s.MaxWorkers)
}

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
	if p.watch != nil {
		p.watch.lookBelow(p.now())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.statsLocked()
	s.WaitTime, s.RunTime = wait, run
	if d := p.watch; d != nil {
		s.Stalls, s.SlowTasks = d.stalls, d.slowTasks
		s.Stalled = max(0, d.stallAgeLocked(p.now(), s))
	} else {
		s.Stalled = p.stall.look(p, s)
	}
	return s
}

// statsLocked is the part of Stats that needs no look at the clock.
func (p *Pool) statsLocked() (s Stats) {
	s.Name, s.QueueCapacity = p.name, p.capacity
	h := p.head.Load() // first: tail is never behind it
	tail := p.tail.Load() &^ sealedBit
	waiting := ahead(tail, headTicket(h))
	busy := headBusy(h)
	s.State = p.stateLocked()
	s.Submitted = tail + p.outTotal
	// Finished tickets, less those that were finished without a task having
	// run; and the tasks that ran outside.
	s.Completed = tail - waiting - uint64(busy-p.lent) - p.passed - (p.dropped - p.outDropped) - (p.canceled - p.outCanceled) + p.outDone
	s.Failed = p.failed
	s.Rejected = p.rejected.Load()
	s.Dropped = p.dropped
	s.Canceled = p.canceled
	s.Spawned = p.spawned
	s.InFlight = int(waiting) + busy - p.lent + p.outside - int(p.husks.Load())
	s.Queued = p.queued(tail, h)
	s.Blocked = p.room.n
	s.Reserved = p.reserved
	s.Workers = p.live
	s.Running = busy + p.turning
	s.Idle = max(0, p.live-s.Running)
	s.PeakWorkers = p.peak
	s.MinWorkers, s.MaxWorkers = p.min, p.max
	return s
}

// queued is the number of tasks that wait. With a free worker for it a task is
// accepted beyond the capacity; it counts as being handed over then.
func (p *Pool) queued(tail, h uint64) int {
	waiting := int(ahead(tail, headTicket(h))) - int(p.husks.Load()) + int(p.parked.Load())
	return max(0, min(waiting, p.capacity))
}

// stuck reports whether all workers that p may have are inside tasks, and others
// wait, or at capacity 0 submitters.
func (p *Pool) stuck(s Stats) bool {
	return s.Running >= s.MaxWorkers && (s.Queued > 0 || p.capacity == 0 && s.Blocked > 0) && !p.paused
}

// A stall is what Stats remembers to notice one. Guarded by mu.
type stall struct {
	ended uint64 // tasks that had ended, when that was noticed first
	since int64  // when, by the pool's clock, plus 1; 0: there is none
}

func (l *stall) look(p *Pool, s Stats) time.Duration {
	if !p.stuck(s) {
		l.since = 0
		return 0
	}
	now := p.now()
	if l.since == 0 || l.ended != s.Completed {
		l.ended, l.since = s.Completed, now+1
	}
	return time.Duration(now + 1 - l.since)
}

// Queued is the number of accepted tasks that have not started. It takes no
// lock.
func (p *Pool) Queued() int {
	h := p.head.Load() // first: tail is never behind it
	return p.queued(p.tail.Load(), h)
}

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
		for _, ws := range p.workerStats() {
			if !yield(ws) {
				return
			}
		}
	}
}

func (p *Pool) workerStats() []WorkerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows := make([]WorkerStats, 0, p.live)
	var now int64
	if p.live > 0 {
		now = p.now()
	}
	for _, w := range p.workers {
		if w == nil {
			continue
		}
		status := w.status.Load()
		r := WorkerStats{ID: w.id, Executed: status >> statusBits, Failed: w.faults}
		switch {
		case w.parked:
			r.State = WorkerParked
		case status&idleBit != 0:
			r.State = WorkerSpinning
		default:
			r.TaskAge = w.ageLocked(status, now)
		}
		rows = append(rows, r)
	}
	return rows
}

// ageLocked is for how long w, whose status says that it is inside a task, has
// been inside it.
func (w *worker) ageLocked(status uint64, now int64) time.Duration {
	switch {
	case status&exactBit != 0:
		return time.Duration(max(0, now-w.since.Load()))
	case w.watched.Load():
		return time.Duration(max(0, now-w.watchedAt))
	}
	w.watchedAt = now
	w.watched.Store(true)
	return 0
}

// eachRunningLocked calls f for every worker that is inside a task, or serves a
// sub-pool.
func (p *Pool) eachRunningLocked(now int64, f func(w *worker, status uint64, age time.Duration)) {
	for _, w := range p.workers {
		if w == nil || w.parked {
			continue
		}
		if status := w.status.Load(); status&idleBit == 0 {
			f(w, status, w.ageLocked(status, now))
		}
	}
}
