package shoal

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/peek"
	"github.com/shoal-go/shoal/internal/sy"
)

// Stats is a snapshot of a pool. In every snapshot
//
//	Submitted = Completed + Dropped + Canceled + InFlight
//
// holds exactly, no counter is smaller than in an earlier snapshot, and Failed
// ≤ Completed. Workers ≤ MaxWorkers holds too, except after [Pool.Resize] has
// lowered the maximum, until the tasks beyond it have ended and their workers have left.
//
// A task that is not accepted because its context has ended, or because the pool is
// closed, counts nowhere.
//
// A loop of [Range], [MapSlice] or [ForEachSlice] that returns an error counts as one
// failed task, and as none if it is part of a task; another participant that calls
// [runtime.Goexit] counts as failed too. Errors and panics of its function do not
// count otherwise. The panics reach the handler of [WithPanicHandler].
type Stats struct {
	Name  string
	State State

	Submitted uint64 // accepted
	Completed uint64 // started and ended, in whatever way
	Failed    uint64 // of the completed: panicked, called runtime.Goexit, or returned an error
	Panicked  uint64 // of the failed: panicked; not in a loop
	Rejected  uint64 // refused with ErrQueueFull; a Reservation that is used up does not count
	Dropped   uint64 // accepted, but discarded before they started
	Canceled  uint64 // accepted, but canceled before they started
	Spawned   uint64 // of the submitted: run on a goroutine of their own, by the policy Spawn
	Stalls    uint64 // alarms of [WithStallAfter]
	SlowTasks uint64 // tasks that [WithSlowTask] found slow

	InFlight      int // accepted, and neither ended nor discarded; for a moment also those that [DropOldest] displaces
	Queued        int // of these, waiting; at most QueueCapacity, even if more wait (see [WithQueueCapacity])
	QueueCapacity int // Unbounded if there is no bound
	Blocked       int // calls, and due tasks of SubmitAfter, that wait for free capacity; they are not accepted yet
	Reserved      int // places that [Pool.Reserve] has given out and that are not used yet

	Workers     int // live
	Running     int // of these, inside a task
	Idle        int // the others
	PeakWorkers int // the largest Workers so far; of a sub-pool, the largest that was noticed
	MinWorkers  int
	MaxWorkers  int

	// Stalled is how long the pool has been stalled, and 0 if it is not: see
	// [WithStallAfter]. In a busy pool that is well it is less than the time between the
	// ends of two tasks. The time counts from the first look that finds the pool stalled. A
	// look is a call of Stats, or one of the watchdog, which looks four times or more in its
	// smallest threshold.
	Stalled time.Duration

	// BusyTime is the time in which workers were not parked, summed over all workers
	// since the pool was made. A worker whose task blocks is not parked: see
	// [WorkerParked]. BusyTime never falls. The difference between two snapshots,
	// divided by the time between them and by MaxWorkers, is the utilization of the
	// workers. BusyTime includes the moments in which workers look for tasks, and the
	// tasks of sub-pools. It is 0 for a sub-pool, which has no workers of its own.
	BusyTime time.Duration

	// WaitTime is how long tasks waited between being accepted and started,
	// RunTime how long they ran. One task in 64 is measured, with [TimingFull]
	// every task, and with [TimingOff] none. Tasks that run on no worker are not measured.
	WaitTime, RunTime Histogram
}

// Utilization is the share of MaxWorkers that is inside tasks: 0 … 1. A sub-pool
// does not come to 1 if its maximum is above that of its parent.
func (s Stats) Utilization() float64 { return share(s.Running, s.MaxWorkers) }

// QueueFill is Queued / QueueCapacity: 0 … 1. It is 0 for an unbounded queue,
// and at capacity 0.
func (s Stats) QueueFill() float64 { return share(s.Queued, s.QueueCapacity) }

// share is n / of, at most 1: a maximum may have been lowered below what there
// is. It is 0 if of is 0, or Unbounded.
func share(n, of int) float64 {
	if of <= 0 || of == Unbounded {
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
	var wait, run Histogram
	if t := p.times.Load(); t != nil {
		wait, run = t.wait.snapshot(), t.run.snapshot()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.statsLocked()
	s.WaitTime, s.RunTime = wait, run
	return s
}

func init() { peek.Snapshot = func(p any) kernel.Snapshot { return p.(*Pool).lane.Snapshot() } }

// statsLocked is all of Stats but the histograms. It is locked by p.mu, so that stalls are noticed
// in the order of the snapshots.
func (p *Pool) statsLocked() Stats {
	before, panics := p.lane.Now(), p.panics.Load()
	k := p.lane.Snapshot()
	s := Stats{
		Name: p.name, State: stateOf(k.Open, k.Paused, k.Ended),
		Submitted: k.Submitted, Completed: k.Submitted - k.InFlight - k.Dropped - k.Canceled,
		Failed: k.Failed, Panicked: min(panics, k.Failed), Rejected: k.Rejected, Dropped: k.Dropped, Canceled: k.Canceled, Spawned: k.Spawned,
		InFlight: int(k.InFlight), Queued: min(int(k.Waiting), p.capacity), QueueCapacity: p.capacity,
		Blocked: k.Blocked, Reserved: k.Reserved,
		Workers: k.Live, PeakWorkers: k.Peak, MinWorkers: k.Min, MaxWorkers: k.Max,
		Running: k.WorkersIn, Idle: max(0, k.Live-k.WorkersIn), BusyTime: time.Duration(p.lane.BusyTime()),
		Stalls: p.watch.stalls, SlowTasks: p.watch.slowTasks,
	}
	// A pool is stuck while all workers that it may have are inside tasks, and other tasks or submitters
	// wait for them.
	stuck := k.Full && (k.Waiting > 0 || k.WaitsBelow || k.Blocked > 0)
	switch d := &p.watch; {
	case !stuck:
		d.since = 0
	case d.since == 0 || d.moves != k.Moves:
		d.moves, d.since = k.Moves, p.lane.Now()+1
	default:
		s.Stalled = time.Duration(max(0, before+1-d.since))
	}
	return s
}

// Queued is the number of accepted tasks that have not started, or the capacity
// of the queue if that is less; see [WithQueueCapacity].
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
	return nameOf(int(s), "WorkerState", "running", "spinning", "parked")
}

// WorkerStats describes one worker. Executed and Failed are exact while the
// worker is idle. While it runs a task, Executed may be up to 64 tasks behind.
type WorkerStats struct {
	ID       int
	State    WorkerState
	Executed uint64 // tasks, without those that it ran inside another one: see [Pool.Submit] and [Pool.SubmitWait]
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
		for _, w := range p.lane.Workers(0, MaxWorkers) {
			if !yield(workerStats(w)) {
				return
			}
		}
	}
}

// Worker describes the worker with that id, and reports whether it is among those of
// [Pool.Workers]. A worker is among them until its stop hook has returned, so the hook
// can ask what its worker has done. The call takes as long however many workers there are.
func (p *Pool) Worker(id int) (w WorkerStats, ok bool) {
	for _, v := range p.lane.Workers(id, 1) {
		w, ok = workerStats(v), true
	}
	return w, ok
}

func workerStats(w kernel.WorkerView) WorkerStats {
	s := WorkerStats{ID: w.ID, Executed: w.Executed, Failed: w.Failed, TaskAge: w.Age}
	switch {
	case w.Parked:
		s.State = WorkerParked
	case !w.InTask:
		s.State = WorkerSpinning
	}
	return s
}

// Histograms are log-linear, as HdrHistogram's: every power of two is cut into
// subBuckets equal parts, so a bucket is at most 1/subBuckets of its value
// wide. Values below subBuckets nanoseconds have a bucket each.
const (
	subBits    = 4
	subBuckets = 1 << subBits
	topBit     = 42 // values from 2^42 ns, 73 minutes, on share the last bucket
	numBuckets = (topBit-subBits+1)*subBuckets + 1
)

// bucketOf is the index of the bucket that ns belongs to.
func bucketOf(ns int64) int {
	if ns < subBuckets {
		return int(max(ns, 0))
	}
	if ns >= 1<<topBit {
		return numBuckets - 1
	}
	e := bits.Len64(uint64(ns)) - 1 - subBits // how far beyond the linear part
	return e*subBuckets + int(ns>>e)
}

// bucketEnd is the first value beyond bucket i.
func bucketEnd(i int) time.Duration {
	switch e := i/subBuckets - 1; {
	case i == numBuckets-1:
		return Forever
	case e < 0:
		return time.Duration(i) + 1
	default:
		return time.Duration(i%subBuckets+subBuckets+1) << e
	}
}

// A recorder is a histogram that many goroutines write to. The buckets of a power
// of two are made at first use, because most never get a value, and a pool may
// live for one task.
type recorder struct {
	rows [(numBuckets + subBuckets - 1) / subBuckets]sy.Pointer[[subBuckets]sy.Uint64]
	// The sum of all is sum + over<<64: a thousand workers fill 63 bits in months.
	sum  sy.Uint64
	over sy.Uint64
	max  sy.Int64
}

// record adds ns to h.
func (h *recorder) record(ns int64) {
	ns = max(ns, 0)
	if h.sum.Add(uint64(ns)) < uint64(ns) {
		h.over.Add(1)
	}
	for m := h.max.Load(); ns > m && !h.max.CompareAndSwap(m, ns); m = h.max.Load() {
	}
	i := bucketOf(ns)
	made(&h.rows[i/subBuckets])[i%subBuckets].Add(1)
}

// made is the value at p, which is made at first use.
func made[T any](p *sy.Pointer[T]) *T {
	if p.Load() == nil {
		p.CompareAndSwap(nil, new(T))
	}
	return p.Load()
}

func (r *recorder) snapshot() (h Histogram) {
	h.buckets = make([]uint64, numBuckets)
	for i := range h.buckets {
		if row := r.rows[i/subBuckets].Load(); row != nil {
			h.buckets[i] = row[i%subBuckets].Load()
			h.Count += h.buckets[i]
		}
	}
	h.over = r.over.Load()
	h.sum = r.sum.Load()
	if over := r.over.Load(); over != h.over { // sum may be from before or after its overflow
		h.over, h.sum = over, 0
	}
	h.max = r.max.Load()
	return h
}

// A Histogram is a distribution of durations. It is a value and does not
// change. The zero Histogram is empty.
type Histogram struct {
	// Count is how many durations were recorded. With [TimingSampled] that is
	// about one in 64 of those that occurred.
	Count     uint64
	sum, over uint64 // of all: sum + over<<64
	max       int64
	buckets   []uint64
}

// Mean is the mean of the durations, and 0 if there are none.
func (h Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	mean, _ := bits.Div64(h.over%h.Count, h.sum, h.Count)
	return time.Duration(min(mean, math.MaxInt64))
}

// Sum is the total of the durations, or the largest Duration, 292 years, if
// that is less. See [Histogram.Seconds].
func (h Histogram) Sum() time.Duration {
	if h.over > 0 || h.sum > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(h.sum)
}

// Seconds is the total of the durations, in seconds.
func (h Histogram) Seconds() float64 {
	return (float64(h.sum) + math.Ldexp(float64(h.over), 64)) / float64(time.Second)
}

// Max is the longest duration. It is exact.
func (h Histogram) Max() time.Duration { return time.Duration(h.max) }

// Quantile is the duration that a share q of all durations does not exceed:
// Quantile(0.99) is the 99th percentile. The result is at most 1/16 too large,
// and never too small. But if the duration is 73 minutes or longer, the result is
// Max. A q below 0 counts as 0, above 1 as 1. The quantiles of an empty histogram
// are 0.
func (h Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 { // its Max may be known already: see record
		return 0
	}
	rank := uint64(max(1, math.Ceil(min(max(q, 0), 1)*float64(h.Count))))
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; seen >= max(1, rank) && i < numBuckets-1 { // a q that is not a number has no rank
			return min(bucketEnd(i)-1, h.Max())
		}
	}
	return h.Max()
}

// Merge returns the histogram of the durations of h and o together.
func (h Histogram) Merge(o Histogram) Histogram {
	if o.buckets == nil { // it is empty, or was not made by a pool
		return h
	}
	if h.buckets == nil {
		return o
	}
	h.max = max(h.max, o.max)
	return h.with(o, bits.Add64)
}

// Since returns the histogram of the durations that were recorded after
// earlier, which must be an earlier snapshot of the same histogram. Its Max is
// still that of h, or 0 if nothing was recorded.
func (h Histogram) Since(earlier Histogram) Histogram {
	if earlier.buckets == nil || h.buckets == nil || h.Count < earlier.Count {
		return h
	}
	if h.Count == earlier.Count {
		return Histogram{}
	}
	return h.with(earlier, bits.Sub64)
}

// with is h after op, an addition or a subtraction, was applied to its counts and sum and those of o.
func (h Histogram) with(o Histogram, op func(x, y, carry uint64) (sum, carryOut uint64)) Histogram {
	var carry uint64
	h.Count, _ = op(h.Count, o.Count, 0)
	h.sum, carry = op(h.sum, o.sum, 0)
	h.over, _ = op(h.over, o.over, carry)
	h.buckets = slices.Clone(h.buckets)
	for i, n := range o.buckets {
		h.buckets[i], _ = op(h.buckets[i], n, 0)
	}
	return h
}

// Buckets iterates over the buckets that are not empty, in ascending order. It
// yields the upper end of a bucket, which is not part of it, and the number of
// durations in it.
func (h Histogram) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range h.buckets {
			if n > 0 && !yield(bucketEnd(i), n) {
				return
			}
		}
	}
}
