// Package grow decides when a pool adds a worker, and when a worker yields. It sees numbers and
// no pool.
//
// Tasks that compute need about as many workers as there are CPUs: more of them fill the
// scheduler's run queues, and all other goroutines wait there. Tasks that block need as many
// workers as the pool may have, at once. Nothing tells a pool in advance which kind its tasks are,
// and a program may mix them.
//
// The rule rests on one fact and one measurement. The fact: Go's scheduler takes the CPU from a
// goroutine that has had it for a time slice, and from no other. So a worker that began its task
// less than a slice ago, and has no CPU, gave the CPU up: it is blocked. The measurement: how many
// goroutines of the process are runnable, which the runtime reports in less than a microsecond.
//
// Invariants. A Rule never holds a worker back while fewer workers are active than there are
// CPUs, except where one of them is to work alone. It never holds one back for more than
// [mostLooks] looks in a row in which no task began, or, once there is a crowd, for more than one
// round of the scheduler and that many looks. So growth may be delayed, but it is never denied.
//
// A [Rule] is the rule, as numbers. A [Crew], its workers' [Seat], and the [Look] of the one that
// searches collect what the rule needs, and say when a worker yields.
//
// The tests run all of this on a simulated scheduler, the plant: see plant_test.go. A change is
// tried there first. The comments on constants name the rows, which are programs on the plant, that
// need them.
package grow

import (
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

const (
	us, ms = int64(1000), int64(1_000_000) // all times are in nanoseconds

	// slice is the time after which Go's scheduler takes the CPU from a goroutine.
	slice = 10 * ms

	// perCPU own runnable workers for each CPU are no crowd. With 4, tasks that compute and
	// then tasks that sleep (S3) take a third longer, and spinning takes 1.7 times as long. With
	// 16, the crowd of N 250 ms is 1.6 times as large.
	perCPU = 8

	// A crowd grows by one part in stepPart of itself, if that is more than perCPU for each CPU. If
	// it grew by the latter only, the time to a crowd of n would be as n squared: 500 tasks that
	// spin until all have started (spinning) would take 1.6 times as long. With 2, the crowd of
	// N 250 ms is twice as large.
	stepPart = 4

	// nap is how long a worker sleeps that waits for the end of a round. In a crowd it comes to a CPU
	// about once in a slice. With yields instead it would come after all others only: S3 takes 1.5
	// times as long, and spinning 1.8 times. If the crowd ends meanwhile, a task may wait for a nap.
	nap = time.Millisecond

	// A worker's wait ends after mostLooks looks in a row in which no task began. Without a bound a
	// pool in a synctest bubble, where the clock stands still, could wait for ever. With 8, tasks
	// that yield until all have begun (spinning polite) take 1.8 times as long.
	mostLooks = 4 >> (2 * sy.Shorter / 3)

	// While another one works alone, a worker waits for at most soloLooks looks in a row in which no
	// task began.
	soloLooks = 1 + 2>>sy.Shorter

	// taskMask is for differences of numbers of tasks, which may wrap.
	taskMask = 1<<38 - 1
)

// A Sight is what a pool looks like to a worker that searches for a task, has a CPU, and sees
// a task that waits.
type Sight struct {
	Now      int64 // monotonic time in nanoseconds
	Procs    int   // CPUs that Go uses
	InTask   int   // workers inside a task
	Yielding int   // workers that yield between two tasks
	Fresh    int   // workers that began their last task less than a slice ago: inside it, or yielding
	Runnable int   // runnable goroutines of the process, without workers that are held back

	Began, Ended uint64 // tasks that have begun and ended, in all, modulo taskMask+1
	Solo         bool   // one worker is to work alone
}

// A Rule is what is remembered for one crew. Its zero value is ready. Only one worker at a time may
// use it.
type Rule struct {
	limit    int    // own runnable workers up to which the pool grows
	free     int    // and up to which it grows at once, until a task ends
	foreign  int    // runnable goroutines that are no workers of this pool, at least
	runnable int    // as of the last look
	since    int64  // start of the present round of the scheduler
	ended    uint64 // tasks that had ended then
}

// A Look is what one searching worker remembers between its looks. Its zero value is ready. A
// worker that has taken a task or has parked begins with a new one.
type Look struct {
	still       int    // looks since a task began
	at          int64  // time of the last one
	began       uint64 // tasks that had begun then
	yielding    int    // workers that yielded between two tasks at the end of the last Hold
	solo, waits bool   // solo: it waits because another worker works alone; waits: for the end of a round
}

// Ask reports whether the worker may take the task. If it may not, the worker holds and asks
// again.
func (r *Rule) Ask(l *Look, s Sight) (start bool) {
	// Foreign runnable goroutines are no more than all runnable ones were at any time, and
	// no fewer than those that cannot be workers. The larger of two readings stands, since a
	// single low one may be an error.
	r.foreign, r.runnable = max(min(r.foreign, max(s.Runnable, r.runnable)), s.Runnable-s.InTask-s.Yielding), s.Runnable
	own := s.Runnable - r.foreign

	// slow says that the last round of the scheduler took long. If the worker slept, nothing is known
	// of that. A sleep counts as a look only if the clock has stood still: else time ends that wait.
	took := s.Now - l.at
	slow := l.still > 0 && !l.waits && took > 2*slice
	if !l.waits || s.Now == l.at {
		l.still++
	}
	if s.Began != l.began {
		l.still = 1
	}
	l.at, l.began, l.waits = s.Now, s.Began, false
	if l.solo = s.Solo && s.InTask > 0 && l.still <= soloLooks; l.solo {
		return false
	}
	// If nothing moves, and looks follow each other quickly, tasks yield and wait for others: they
	// need more workers than one (spinning polite).
	step := max(perCPU*s.Procs, own/stepPart)
	if l.still > mostLooks && took < slice/mostLooks {
		r.free, r.since, r.ended = own+step, s.Now, s.Ended
	}
	if s.InTask+s.Yielding < s.Procs || l.still > mostLooks || own < r.free && s.Ended == r.ended {
		return true // so few are no crowd; or nothing moves
	}

	// All CPUs can be in use.
	fresh, young := s.Fresh, min(s.Fresh, s.InTask) // at most so many of them are inside a task
	if slow {
		fresh = young // workers that yield wait as long: no progress (beside spinning, one CPU)
	}

	// This worker has one of the CPUs. Young workers without a CPU gave theirs up. If there
	// are more of them than own ones can be runnable, some are blocked.
	blocked := young-(s.Procs-1) > max(0, own-s.Yielding-(s.InTask-young))
	if fresh >= s.Procs && !blocked {
		return false // the CPUs are in use, and progress is made
	}

	// Tasks longer than a slice look the same whether they will end or not. So grow freely
	// up to a small crowd, then by one step for each round of the scheduler, and only while
	// rounds end no tasks.
	r.limit = max(step, s.InTask/2, min(r.limit, own+step))
	if own > r.limit {
		if l.waits = s.Now-r.since < int64(s.Runnable)*slice/int64(s.Procs); l.waits {
			return false
		}
		if (s.Ended-r.ended)&taskMask < uint64(s.Procs) {
			r.limit = own + step
		}
	}
	r.since, r.ended = s.Now, s.Ended
	return own <= r.limit
}
