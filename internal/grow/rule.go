// Package grow decides when a pool adds a worker. It sees numbers and no pool.
//
// Tasks that compute need about as many workers as there are CPUs: more of them fill the
// scheduler's run queues, and everybody else's goroutines wait there. Tasks that block need as
// many workers as the pool may have, at once. Nothing tells a pool in advance which kind its
// tasks are, and a program may mix them.
//
// The rule rests on one fact and one measurement. The fact: Go's scheduler takes the CPU from a
// goroutine that has had it for a time slice, and from no other. So a worker that began its task
// less than a slice ago, and has no CPU, gave it up: it is blocked. The measurement: how many
// goroutines of the process are runnable, which the runtime tells in less than a microsecond.
//
// Invariants. A Rule never holds a worker back while fewer workers are active than there are
// CPUs. It never holds one back for more than [mostLooks] looks in a row in which no task
// began. So growth may be delayed, but it is never denied.
//
// The tests run the rule on a simulated scheduler, the plant: see plant_test.go. A change of the
// rule is tried there first.
package grow

import "time"

const (
	// slice is the time after which Go's scheduler takes the CPU from a goroutine.
	slice = int64(10 * time.Millisecond)

	// perCPU own runnable workers for each CPU are no crowd. With 4, tasks that compute and
	// then tasks that sleep (plant: S3) take half as long again; with 16, the neighbour of
	// tasks of 20 ms (N20) finds twice the crowd.
	perCPU = 8

	// mostLooks looks of one worker in which no task began end its wait. Without a bound a
	// pool in a synctest bubble, where the clock stands still, could wait for ever.
	mostLooks = 8
)

// A Sight is what a pool looks like to a worker that searches for a task, has a CPU, and sees
// a task that waits.
type Sight struct {
	Now      int64 // monotonic time in nanoseconds
	Procs    int   // CPUs that Go uses
	InTask   int   // workers inside a task
	Yielding int   // workers that yield between two tasks
	Fresh    int   // workers that began their last task less than a slice ago: inside it, or yielding
	Young    int   // of these, workers inside it
	Runnable int   // runnable goroutines of the process, without workers that a Rule holds back

	Began, Ended uint64 // tasks that have begun and ended, in all
}

// A Rule is what is remembered for one pool. Its zero value is ready. One worker at a time may
// use it.
type Rule struct {
	limit    int    // own runnable workers up to which the pool grows
	foreign  int    // runnable goroutines that are no workers of this pool, at least
	runnable int    // as of the last look
	since    int64  // start of the present round of the scheduler
	ended    uint64 // tasks that had ended then
}

// A Look is what one searching worker remembers between its looks. Its zero value is ready, and
// is due again when the worker has taken a task or has parked.
type Look struct {
	rounds int    // looks so far
	still  int    // of the last ones, looks in which no task began
	at     int64  // time of the last one
	began  uint64 // tasks that had begun then
}

// Ask reports whether the worker may take the task, and how many more workers may start at the
// same time without asking. If it may not, the worker yields and asks again.
func (r *Rule) Ask(l *Look, s Sight) (start bool, more int) {
	// Foreign runnable goroutines are no more than all runnable ones were at any time, and
	// no fewer than those that cannot be workers. The larger of two readings stands, since a
	// single low one may be an error.
	r.foreign = max(min(r.foreign, max(s.Runnable, r.runnable)), s.Runnable-s.InTask-s.Yielding)
	r.runnable = s.Runnable
	own := s.Runnable - r.foreign
	if s.InTask+s.Yielding < s.Procs {
		return true, 0 // so few are no crowd
	}

	fresh, old := s.Fresh, s.InTask-s.Young
	if l.rounds > 0 && s.Now-l.at > 2*slice {
		fresh = s.Young // in so slow a round a worker that yields waits as long
	}
	if l.rounds++; l.rounds == 1 || s.Began != l.began {
		l.still = 0
	} else {
		l.still++
	}
	l.at, l.began = s.Now, s.Began
	if l.still >= mostLooks {
		return true, 0
	}

	// This worker has one of the CPUs. Young workers without a CPU gave theirs up. If there
	// are more of them than own ones can be runnable, some are blocked.
	blocked := s.Young-(s.Procs-1) > max(0, own-s.Yielding-old)
	if fresh >= s.Procs && !blocked {
		return false, 0 // the CPUs are in use, and progress is made
	}

	// Tasks longer than a slice look the same whether they will end or not. So grow freely
	// up to a small crowd, then by one step for each round of the scheduler, and only while
	// rounds end no tasks.
	step := perCPU * s.Procs
	r.limit = max(step, s.InTask/2, min(r.limit, own+step))
	if own > r.limit {
		if s.Now-r.since < int64(s.Runnable)*slice/int64(s.Procs) {
			return false, 0 // the round is not over
		}
		if s.Ended-r.ended < uint64(s.Procs) {
			r.limit = own + step
		}
		if own > r.limit {
			r.since, r.ended = s.Now, s.Ended
			return false, 0
		}
	}
	r.since, r.ended = s.Now, s.Ended
	if l.rounds > 1 { // it had to wait: make up for it
		more = max(0, min(step, r.limit-own)-1)
	}
	return true, more
}
