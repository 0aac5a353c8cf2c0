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
// CPUs, except where one of them is to work alone. It never holds one back for more than
// [mostLooks] looks in a row in which no task began. So growth may be delayed, but it is never
// denied.
//
// The tests run the rule on a simulated scheduler, the plant: see plant_test.go. A change of the
// rule is tried there first.
package grow

import (
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

const (
	// slice is the time after which Go's scheduler takes the CPU from a goroutine.
	slice = int64(10 * time.Millisecond)

	// perCPU own runnable workers for each CPU are no crowd. With 4, tasks that compute and
	// then tasks that sleep (plant: S3) take half as long again; with 16, the neighbour of
	// tasks of 20 ms (N20) finds twice the crowd.
	perCPU = 8

	// mostLooks looks of one worker in which no task began end its wait. Without a bound a
	// pool in a synctest bubble, where the clock stands still, could wait for ever.
	mostLooks = 8 >> sy.Shorter

	// soloLooks looks in which no task began are the most for which a worker waits because
	// another one works alone.
	soloLooks = 2 >> sy.Shorter
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
	Runnable int   // runnable goroutines of the process, without workers that are held back

	Began, Ended uint64 // tasks that have begun and ended, in all, modulo 1<<taskBits
	Solo         bool   // one worker is to work alone
}

// A Rule is what is remembered for one crew. Its zero value is ready. One worker at a time may
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
	looks int    // so far
	still int    // of the last ones, looks in which no task began
	at    int64  // time of the last one
	began uint64 // tasks that had begun then
	slow  bool   // since the one before, more time passed than two slices
	solo  bool   // it waits because another worker works alone
	held  bool   // it had to wait for another reason
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

	l.see(s)
	if l.solo = s.Solo && s.InTask > 0 && l.still <= soloLooks; l.solo {
		return false, 0
	}
	if s.InTask+s.Yielding < s.Procs || l.still >= mostLooks {
		return true, 0 // so few are no crowd; or nothing moves
	}
	if !r.allows(l, s, own) {
		l.held = true
		return false, 0
	}
	r.since, r.ended = s.Now, s.Ended
	if l.held { // make up for it
		more = max(0, min(perCPU*s.Procs, r.limit-own)-1)
	}
	return true, more
}

// see notes what is compared with the next look.
func (l *Look) see(s Sight) {
	if l.looks++; l.looks == 1 || s.Began != l.began {
		l.still = 0
	} else {
		l.still++
	}
	l.slow = l.looks > 1 && s.Now-l.at > 2*slice
	l.at, l.began = s.Now, s.Began
}

// allows reports whether one more worker may start beside own runnable ones, where the CPUs
// can all be in use.
func (r *Rule) allows(l *Look, s Sight, own int) bool {
	fresh, old := s.Fresh, s.InTask-s.Young
	if l.slow {
		fresh = s.Young // in so slow a round a worker that yields waits as long
	}

	// This worker has one of the CPUs. Young workers without a CPU gave theirs up. If there
	// are more of them than own ones can be runnable, some are blocked.
	blocked := s.Young-(s.Procs-1) > max(0, own-s.Yielding-old)
	if fresh >= s.Procs && !blocked {
		return false // the CPUs are in use, and progress is made
	}

	// Tasks longer than a slice look the same whether they will end or not. So grow freely
	// up to a small crowd, then by one step for each round of the scheduler, and only while
	// rounds end no tasks.
	step := perCPU * s.Procs
	r.limit = max(step, s.InTask/2, min(r.limit, own+step))
	if own <= r.limit {
		return true
	}
	if s.Now-r.since < int64(s.Runnable)*slice/int64(s.Procs) {
		return false // the round is not over
	}
	if (s.Ended-r.ended)&(1<<taskBits-1) < uint64(s.Procs) {
		r.limit = own + step
	}
	r.since, r.ended = s.Now, s.Ended
	return own <= r.limit
}
