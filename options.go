package shoal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// Limits and special values of options.
const (
	// MaxWorkers is the largest value [WithMaxWorkers] takes.
	MaxWorkers = 1 << 24
	// Unbounded is the capacity of a queue that only memory bounds.
	Unbounded = math.MaxInt
	// Forever is the idle timeout of workers that stay.
	Forever = time.Duration(math.MaxInt64)

	// DefaultQueueCapacity is the capacity without [WithQueueCapacity].
	DefaultQueueCapacity = 1 << 20
	// DefaultIdleTimeout is the idle timeout without [WithIdleTimeout].
	DefaultIdleTimeout = 5 * time.Second
	// DefaultSpin is how many times a worker looks at the queue before it parks,
	// without [WithSpin].
	DefaultSpin = 30

	maxCapacity = 1 << 36 // queue.TicketBits are enough for that and the workers
	maxSpin     = 1 << 20
	maxWeight   = 1 << 20
)

// A FullPolicy says what [Pool.Submit] does if there is no free capacity. See
// [WithFullPolicy].
type FullPolicy int

// The five policies.
const (
	// Block waits until there is free capacity. The goroutine yields a few times,
	// then parks. Submitters that wait are served fairly, and the tasks of each in
	// the order of their submission.
	Block FullPolicy = iota
	// Reject returns [ErrQueueFull].
	Reject
	// Spawn runs the task on a goroutine of its own, beyond the limit of
	// workers.
	Spawn
	// CallerRuns runs the task on the goroutine that submits it. If the task calls
	// [runtime.Goexit], it ends that goroutine.
	CallerRuns
	// DropOldest discards the task that is first in the queue, and accepts the
	// new one instead: one for one. That may be a task for which a worker is on its
	// way. At capacity 0, or if no task is in the queue, it returns [ErrQueueFull]. For
	// tasks of a key see [Keyed.Submit].
	DropOldest
)

// String is the policy's name.
func (p FullPolicy) String() string {
	return nameOf(int(p), "FullPolicy", "Block", "Reject", "Spawn", "CallerRuns", "DropOldest")
}

// Timing says for which tasks the pool measures [Stats].WaitTime and RunTime.
type Timing int

// The three amounts of timing.
const (
	// TimingSampled times one task in 64. It is the default.
	TimingSampled Timing = iota
	// TimingOff times no task.
	TimingOff
	// TimingFull times every task that a worker takes from the queue. Of tasks of a
	// key that run one after the other only the first is timed, and the time behind
	// others of the key is left out. It costs about three readings of the clock and 8
	// bytes for each task.
	TimingFull
)

// An Option configures a [Pool]. Without any, a pool has up to GOMAXPROCS
// workers and a queue of 1<<20 tasks, and Submit waits while that is full.
//
// Most programs need a few of these only:
//
//   - [WithMaxWorkers] bounds how many tasks run, [WithQueueCapacity] how many wait.
//   - [WithFullPolicy] says what Submit does when the queue is full.
//   - [WithName] is for logs, metrics and profiles.
//   - [WithPanicHandler] sets a function that gets every panic.
//   - [WithContext] closes the pool when a context ends.
//   - [WithStallAfter] and [WithSlowTask] report a pool that is stuck.
//
// About workers: [WithMinWorkers], [WithSizing], [WithIdleTimeout],
// [WithMaxTasksPerWorker], [WithWorkerHooks], [WithThreadPinning], [WithSpin].
//
// About what is seen: [WithLogger], [WithAlarmHandler], [WithTiming],
// [WithTracer], [WithCrashOnPanic].
//
// Of sub-pools only: [WithPriority], [WithWeight].
type Option interface{ apply(*config) }

// apply applies opts, in their order, to c. Those that are nil do nothing.
func apply[C any, O interface{ apply(*C) }](c *C, opts []O) {
	for _, o := range opts {
		if any(o) != nil {
			o.apply(c)
		}
	}
}

type option func(*config)

func (o option) apply(c *config) { o(c) }

// ofRoot is an option that sub-pools do not take.
func ofRoot(name string, set option) Option {
	return option(func(c *config) {
		if c.up != nil {
			c.bad("%s: a sub-pool borrows the workers of its parent; set it there", name)
		}
		set(c)
	})
}

// A config is a pool that is being made, and the configuration of its lane and its crew.
type config struct {
	*Pool
	up     *Pool // the parent; nil: it is not a sub-pool
	lane   kernel.LaneConfig
	crew   kernel.Config // not used for a sub-pool
	sizer  Sizer
	parent context.Context
	faults []error
}

func defaults() *config {
	return &config{
		Pool: &Pool{
			capacity: DefaultQueueCapacity,
			watch:    watchdog{stallAfter: Forever, slowTask: Forever},
			kept:     new(sy.Bool),
			foreign:  new(sy.Bool),
		},
		lane:   kernel.LaneConfig{Max: sy.Procs(), Weight: 1},
		crew:   kernel.Config{Spin: DefaultSpin, Idle: DefaultIdleTimeout},
		sizer:  Auto(),
		parent: context.Background(),
	}
}

func (c *config) bad(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
}

// check demands a value of least … most; want, if not empty, says so in other words.
func check[T int | time.Duration](c *config, option string, value, least, most T, want string) {
	if value < least || value > most {
		c.bad("%s(%v): want %s", option, value, cmp.Or(want, fmt.Sprintf("%v … %v", least, most)))
	}
}

// validate names every problem at once.
func (c *config) validate() error {
	l, w := &c.lane, &c.crew
	check(c, "WithMaxWorkers", l.Max, 1, MaxWorkers, "")
	most := l.Max
	if most < 1 || most > MaxWorkers {
		most = MaxWorkers
	}
	if w.Min < 0 || w.Min > most {
		c.bad("WithMinWorkers(%d): want 0 … %d, the maximum of workers", w.Min, most)
	}
	if c.sizer == nil {
		c.bad("WithSizing(nil): want a Sizer")
	} else if r, ok := c.sizer.(*rated); ok {
		check(c, "Rated", r.n, 1, math.MaxInt, "at least 1")
	}
	l.Capacity = int(min(uint64(c.capacity), maxCapacity)) // the latter is no int of 32 bits
	if l.Capacity != c.capacity && c.capacity != Unbounded {
		c.bad("WithQueueCapacity(%d): want 0 … %d, or Unbounded", c.capacity, uint64(maxCapacity))
	}
	check(c, "WithFullPolicy", int(c.policy), int(Block), int(DropOldest), "Block, Reject, Spawn, CallerRuns or DropOldest")
	check(c, "WithIdleTimeout", w.Idle, 0, Forever, "at least 0")
	check(c, "WithMaxTasksPerWorker", w.TasksPerWorker, 0, math.MaxInt, "at least 0")
	check(c, "WithSpin", w.Spin, 0, maxSpin, "")
	if c.parent == nil {
		c.bad("WithContext(nil): want a context")
	}
	if c.up == nil && (l.Priority != 0 || l.Weight != 1) {
		c.bad("WithPriority(%d) and WithWeight(%d): they are for sub-pools", l.Priority, l.Weight)
	}
	check(c, "WithPriority", l.Priority, -maxWeight, maxWeight, "")
	check(c, "WithWeight", l.Weight, 1, maxWeight, "")
	check(c, "WithStallAfter", c.watch.stallAfter, minAlarm, Forever, "at least 1ms")
	check(c, "WithSlowTask", c.watch.slowTask, minAlarm, Forever, "at least 1ms")
	check(c, "WithTiming", int(l.Timing), int(TimingSampled), int(TimingFull), "TimingOff, TimingSampled or TimingFull")
	return errors.Join(c.faults...)
}

// WithName sets the name of the pool in a [PanicError], logs, statistics, traces and
// pprof labels. The label of a task in a sub-pool is the name of the pool that has the
// workers. The default is no name.
func WithName(name string) Option { return option(func(c *config) { c.name = name }) }

// WithMaxWorkers sets the maximum of live workers, whether they run a task or
// not: 1 … 1<<24. The pool never has more, except after [Pool.Resize] has
// lowered the maximum, until the tasks beyond it have ended and their workers have
// left. The default is GOMAXPROCS at the time of [New].
//
// Tasks that [Spawn] and [CallerRuns] run, and the caller's share of [Range],
// [ForEachSlice] and [MapSlice], run on no worker and do not count.
//
// A task that waits for a task that already runs keeps its worker. So in a recursion
// that waits, such as a quicksort whose tasks wait for their halves, CPUs may have
// nothing to do at the default. Set a maximum of several times GOMAXPROCS, or let
// nothing wait: tasks of one [Group] may call its Go, as in the example of [Group.Go].
func WithMaxWorkers(n int) Option { return option(func(c *config) { c.lane.Max = n }) }

// WithMinWorkers sets the minimum of workers: 0 … the maximum, which is GOMAXPROCS
// unless [WithMaxWorkers] sets it. [New] starts as many, and the idle timeout
// leaves as many. The default is 0.
func WithMinWorkers(n int) Option {
	return ofRoot("WithMinWorkers", func(c *config) { c.crew.Min = n })
}

// WithSizing sets the rule for adding workers between the minimum and the
// maximum. The default is [Auto].
func WithSizing(s Sizer) Option { return ofRoot("WithSizing", func(c *config) { c.sizer = s }) }

// WithQueueCapacity sets how many accepted tasks may wait while all workers
// that the pool may have are busy. So the workers and the queue of an open pool
// hold at most its maximum of workers and n tasks more, whether or not the
// workers have started, and whether or not the pool is paused. With 0 a task is
// accepted only if a worker is idle or may be started. With [Unbounded] there is
// no bound. The default is 1<<20. The memory of the queue grows with the tasks
// that wait, and is given back.
//
// A task that waits keeps its place in the queue until a worker comes to it. One that
// its waiter runs, or that [Future.Cancel] cancels, gives its place back at once. So
// does a task whose context ends while [Pool.SubmitWait], [Future.Wait], [Group.Wait] or
// [Map] waits for it and runs no other one itself. If the context of another task ends,
// or if a task of a key is cancelled, the place is kept. So for requests whose client may
// leave use SubmitWait, a Group, or Go and Cancel: else clients that have left may
// keep the queue full.
//
// Four kinds of tasks are accepted beyond the capacity, because to wait could
// stop the pool:
//
//   - Under [Block], tasks that a task submits to its own pool, or to one above it,
//     while it is nested in 64 others. Nothing bounds how many: if each task of a
//     crawler submits several, most of them may wait at once.
//   - Under [Block], tasks that a task submits to a pool of its family that is neither
//     its own nor above it (see [Pool.Sub]).
//   - Tasks of a [Keyed] that [Spawn], [CallerRuns] or the submitting task would
//     run at once, while their key is busy. Nothing bounds how many.
//   - Tasks of a [Reservation] that was made while tasks waited for others of their
//     key.
//
// n must be at most 1<<36, or Unbounded.
func WithQueueCapacity(n int) Option { return option(func(c *config) { c.capacity = n }) }

// WithFullPolicy sets what [Pool.Submit] does if there is no free capacity. The
// default is [Block].
func WithFullPolicy(p FullPolicy) Option { return option(func(c *config) { c.policy = p }) }

// WithIdleTimeout sets how long a worker stays without a task before it leaves.
// With 0 it leaves as soon as it finds the queue empty; with [Forever] it
// stays. The default is 5 s. The pool has one timer for this, and only while
// workers are idle.
func WithIdleTimeout(d time.Duration) Option {
	return ofRoot("WithIdleTimeout", func(c *config) { c.crew.Idle = d })
}

// WithMaxTasksPerWorker replaces a worker by a fresh one after it has run n
// tasks in its life, those of sub-pools among them. The default, 0, sets no
// limit.
func WithMaxTasksPerWorker(n int) Option {
	return ofRoot("WithMaxTasksPerWorker", func(c *config) { c.crew.TasksPerWorker = n })
}

// WithSpin sets how many times a worker that runs out of tasks looks at the
// queue before it parks: 0 … 1<<20. The default is 30, which takes well below a
// microsecond of CPU time each time. With 0, a worker parks at once, and so does
// a submitter if there is no free capacity.
//
// A loop of many parallel steps of less than about 200 µs gains from much more, such as
// 1<<16: then workers stay awake from step to step, and use CPU time between them.
func WithSpin(n int) Option { return ofRoot("WithSpin", func(c *config) { c.crew.Spin = n }) }

// WithThreadPinning locks each worker to an operating system thread of its own
// for its life; see [runtime.LockOSThread].
func WithThreadPinning() Option {
	return ofRoot("WithThreadPinning", func(c *config) { c.crew.Pin = true })
}

// WithContext closes the pool when ctx ends, as [Pool.Close] does, in the
// background: [Pool.Done] shows when it has ended. If ctx has ended already, New
// succeeds, and the pool refuses every task. The contexts of tasks are not
// derived from ctx. While ctx lives it keeps the pool in memory: see [New].
func WithContext(ctx context.Context) Option { return option(func(c *config) { c.parent = ctx }) }

// WithPanicHandler sets the function that gets every panic that the pool recovers:
// those of tasks, also if [Pool.SubmitWait], a [Future], a [Group] or [Map] returns
// the panic too, and those of hooks, of a [Tracer] and of the other functions that
// the pool is given. f runs on the goroutine that panicked, before the task counts
// as finished. It may use the pool as a task may. But [Pool.Wait] panics there, and so
// ends the process.
//
// If f panics, the process ends, and nothing can recover that panic. Before that the
// task counts as finished, and its waiters get its result. A call of
// [runtime.Goexit] in f is a bug, which ends the process in the same way.
//
// Without a handler, a panic that no caller could get is logged, with its stack, as one
// error; see [WithLogger]. What a Future or a Group has for its callers is not logged,
// even if none of them comes. That is the default, also for a nil f.
func WithPanicHandler(f func(*PanicError)) Option {
	return option(func(c *config) { c.onPanic = f })
}

// WithLogger sets where the pool logs what is not reported otherwise: panics that
// neither a handler gets nor a call returns, a start hook that ends its goroutine, and
// the alarms of [WithStallAfter] and [WithSlowTask]. The log must not call
// [runtime.Goexit]. The default, also for nil, is [log/slog.Default] at that time.
func WithLogger(l *slog.Logger) Option { return option(func(c *config) { c.logger = l }) }

// WithCrashOnPanic makes a panic of a task end the process, with the task's own
// stack. The pool then recovers no panic of a task, nor do its sub-pools. If a task
// runs in the goroutine that submits it or waits for it, its panic goes on there; others
// that wait for the task get [ErrGoexit].
func WithCrashOnPanic() Option { return ofRoot("WithCrashOnPanic", func(c *config) { c.crash = true }) }

// WithWorkerHooks sets functions that a worker calls on its goroutine: start
// before its first task, stop after its last one, also if a task ended the
// goroutine with [runtime.Goexit]. Either may be nil. The id is in 0 …
// MaxWorkers-1. No two live workers have the same id; the id of a worker that
// has left is used again. A stop hook can ask [Pool.Worker] what its worker has done.
//
// A hook must not wait for tasks of the pool: its worker runs none meanwhile,
// and may be the only one. A panic of a hook is reported like that of a task. If start
// calls Goexit, later workers have no hooks.
func WithWorkerHooks(start, stop func(id int)) Option {
	return ofRoot("WithWorkerHooks", func(c *config) { c.crew.Start, c.crew.Stop = start, stop })
}

// WithTiming sets which tasks are timed for [Stats].WaitTime and RunTime. The
// default is [TimingSampled].
func WithTiming(t Timing) Option {
	return option(func(c *config) { c.lane.Timing = kernel.Timing(t) })
}

// WithPriority sets the priority of a sub-pool: -1<<20 … 1<<20, by default 0.
// While there are too few workers, pools of higher priority come first,
// whatever that means for the others. A worker that runs a task of lower
// priority changes over when the task has ended. See [Pool.Sub].
//
// While tasks of higher priority make progress, no workers are added for the
// others, unless the maximums of all pools of higher priority together leave some. So
// without such maximums a task may wait for as long as pools of higher priority have tasks.
//
// The priority does not change. To change that of a tenant, make a new sub-pool for
// it, and call [Pool.Drain] of the old one. Until that has ended, each of the two may
// run tasks up to its own maximum.
//
// The priority counts among the pools of one parent. For interactive before
// background over all tenants, make these two classes the children of the root,
// and the tenants theirs.
func WithPriority(n int) Option { return option(func(c *config) { c.lane.Priority = n }) }

// WithWeight sets the weight of a sub-pool: 1 … 1<<20, by default 1. While
// there are too few workers, pools of the same priority and parent share the
// workers' time in proportion to their weights. See [Pool.Sub].
//
// A share counts from when a pool has a task. If a task has run for longer than its
// pool's share, the other pools are first made up for it, so a pool that comes then may
// wait for about as long as that task took.
func WithWeight(n int) Option { return option(func(c *config) { c.lane.Weight = n }) }

// A Sizer decides when to add a worker. The pool asks it when a task waits, no
// worker is idle and the maximum is not reached.
//
// The answer decides when a new worker begins, not whether it does. After true
// the new worker takes a task as soon as it gets a CPU. After false it first
// yields to the other workers. The pool asks again each time the worker has
// yielded once. If no task starts meanwhile, the worker takes one after a few
// yields, whatever Grow says. Tasks of a higher priority than one that waits do not
// count, if the maximums of their pools leave workers for it. So a Sizer can hold growth back while
// the workers keep up, but it cannot make a task wait behind workers that block.
//
// Grow is called without a lock of the pool, and may call methods of the pool
// that do not wait. Until it returns no other worker is added, but parked workers
// are woken as usual. Meanwhile a worker whose start hook has returned may also
// call it. A panic of Grow is reported like that of a task, and counts as true.
type Sizer interface {
	Grow(s Sizing) bool
}

// Sizing is what a [Sizer] decides by.
type Sizing struct {
	Workers  int // live, the one in question not counted
	Idle     int // of these, neither inside a task nor between two
	Min, Max int
	Queued   int // accepted by the pool itself, not by its sub-pools, and not started
}

// auto is recognized by the pool, which decides by more than a Sizing contains:
// see package grow.
type auto struct{}

// Auto keeps as many runnable workers as there are CPUs, and adds more only
// while workers block. It is the default.
//
// The pool asks it before it wakes parked workers too. So a pool that once
// needed many workers for tasks that block does not wake all of them for tasks
// that compute. The pool also measures whether one worker alone finishes more tasks
// than several do, as with very short tasks. If so, the others yield for a
// millisecond at a time.
func Auto() Sizer { return auto{} }

func (auto) Grow(s Sizing) bool { return s.Workers-s.Idle < sy.Procs() }

// rated says yes to the first of every n questions.
type rated struct {
	n     int
	asked sy.Uint64
}

// Rated says yes to one of every n questions, beginning with the first, and to the
// first worker. See [Sizer] for what a no does. n must be at least 1. It follows pond's resizing
// strategies, as do [Eager], [Balanced] and [Lazy]. A Rated counts, so give
// each pool its own.
func Rated(n int) Sizer { return &rated{n: n} }

func (r *rated) Grow(s Sizing) bool {
	return s.Workers == 0 || r.n <= 1 || (r.asked.Add(1)-1)%uint64(r.n) == 0
}

// Eager adds a worker for every task that finds no idle one.
func Eager() Sizer { return Rated(1) }

// Balanced is Rated(GOMAXPROCS/2), and at least Rated(1).
func Balanced() Sizer { return Rated(max(1, sy.Procs()/2)) }

// Lazy is Rated(GOMAXPROCS).
func Lazy() Sizer { return Rated(sy.Procs()) }
