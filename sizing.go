package shoal

import "github.com/shoal-go/shoal/internal/sy"

// A Sizer decides when to add a worker. The pool asks it when a task waits, no
// worker is idle and the maximum is not reached.
//
// The answer decides when a new worker begins, not whether it does. After true
// the new worker takes a task as soon as it gets a CPU. After false it first
// yields to the workers there are. The pool asks again each time it has yielded
// once. If no task starts meanwhile, the worker takes one after a few yields,
// whatever Grow says. So a Sizer can hold growth back while the
// workers keep up, but it cannot leave a task behind workers that block.
//
// Grow is called without a lock of the pool, and may call methods of the pool
// that do not wait. Until it returns no other worker is added, but parked
// workers are woken as usual.
type Sizer interface {
	Grow(s Sizing) bool
}

// Sizing is what a [Sizer] decides by.
type Sizing struct {
	Workers  int // live, the one in question not counted
	Idle     int // of these, not inside a task
	Min, Max int
	Queued   int // accepted, not started
}

// auto is recognized by the pool, which knows more than a Sizing can tell: see
// package grow.
type auto struct{}

// Auto keeps as many runnable workers as there are CPUs, and adds more only
// while workers block. It is the default.
//
// The pool asks it before it wakes parked workers too. So a pool that once
// needed many workers for tasks that block does not wake all of them for tasks
// that compute. If tasks are so short that one worker alone finishes more of
// them than several do, which the pool measures, the others yield for a
// millisecond at a time.
func Auto() Sizer { return auto{} }

func (auto) Grow(s Sizing) bool { return s.Workers-s.Idle < sy.Procs() }

// rated says yes to the first of every n questions.
type rated struct {
	n     int
	asked sy.Uint64
}

// Rated adds a worker for one of every n tasks that find no idle worker,
// beginning with the first. n must be at least 1. It follows pond's resizing
// strategies, as do [Eager], [Balanced] and [Lazy]. A Rated counts, so give
// each pool its own.
func Rated(n int) Sizer { return &rated{n: n} }

func (r *rated) Grow(s Sizing) bool {
	if s.Workers == 0 || r.n <= 1 {
		return true
	}
	return (r.asked.Add(1)-1)%uint64(r.n) == 0
}

// Eager adds a worker for every task that finds no idle one.
func Eager() Sizer { return Rated(1) }

// Balanced is Rated(GOMAXPROCS/2), and at least Rated(1).
func Balanced() Sizer { return Rated(max(1, sy.Procs()/2)) }

// Lazy is Rated(GOMAXPROCS).
func Lazy() Sizer { return Rated(sy.Procs()) }
