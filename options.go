package shoal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// Limits and special values of options.
const (
	// MaxWorkers is the largest value [WithMaxWorkers] takes.
	MaxWorkers = 1 << 24
	// Unbounded is a queue capacity: no bound but memory.
	Unbounded = math.MaxInt
	// Forever is an idle timeout: idle workers stay.
	Forever = time.Duration(math.MaxInt64)

	// DefaultQueueCapacity is how many tasks may wait where
	// [WithQueueCapacity] was not given.
	DefaultQueueCapacity = 1 << 20
	// DefaultIdleTimeout is used where [WithIdleTimeout] was not given.
	DefaultIdleTimeout = 5 * time.Second
	// DefaultSpin is used where [WithSpin] was not given.
	DefaultSpin = 30

	maxCapacity = 1 << 36 // queue.TicketBits, with room for the workers
	maxSpin     = 1 << 20
)

// A FullPolicy says what [Pool.Submit] does while there is no room. See
// [WithFullPolicy].
type FullPolicy int

// The five policies.
const (
	// Block waits for room. The goroutine is parked, after it has let others run a
	// few times; those that are parked are served first come first served.
	Block FullPolicy = iota
	// Reject returns [ErrQueueFull].
	Reject
	// Spawn runs the task on a goroutine of its own, beyond the limit of
	// workers.
	Spawn
	// CallerRuns runs the task on the goroutine that submits it.
	CallerRuns
	// DropOldest discards the task that has waited longest, or as many as it
	// takes where there are more than the bound, after Pause or Resize, or where
	// tasks of SubmitAfter that are due wait for room before the new one. At capacity 0
	// none waits, and it rejects.
	DropOldest
)

var policyNames = [...]string{"Block", "Reject", "Spawn", "CallerRuns", "DropOldest"}

// String is the policy's name.
func (p FullPolicy) String() string {
	if p < 0 || int(p) >= len(policyNames) {
		return fmt.Sprintf("FullPolicy(%d)", int(p))
	}
	return policyNames[p]
}

// Timing says how often the pool reads the clock for [Stats].WaitTime and
// RunTime.
type Timing int

// The three amounts of timing.
const (
	// TimingSampled times one task in 64. The default.
	TimingSampled Timing = iota
	// TimingOff times none.
	TimingOff
	// TimingFull times every task, for about three readings of the clock and
	// 8 bytes each.
	TimingFull
)

// An Option configures a [Pool]. The With functions make them.
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

type config struct {
	name            string
	maxWorkers      int
	minWorkers      int
	sizer           Sizer
	capacity        int
	policy          FullPolicy
	idle            time.Duration
	tasksPerWorker  int
	spin            int
	pin             bool
	parent          context.Context
	onPanic         func(*PanicError)
	crash           bool
	onStart, onStop func(id int)
	timing          Timing
	parentNil       bool
	logger          *slog.Logger
	tracer          Tracer
	stallAfter      time.Duration
	slowTask        time.Duration
	stallGiven      bool
	slowGiven       bool
	onAlarm         func(Alarm)
	sub             bool // of a sub-pool
	priority        int
	weight          int
	prioritized     bool // one of these two was given
}

func defaults() config {
	return config{
		maxWorkers: sy.Procs(),
		sizer:      Auto(),
		capacity:   DefaultQueueCapacity,
		idle:       DefaultIdleTimeout,
		spin:       DefaultSpin,
		weight:     1,
	}
}

// validate names every problem at once.
func (c *config) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
	}
	badMax := c.maxWorkers < 1 || c.maxWorkers > MaxWorkers
	if badMax {
		bad("WithMaxWorkers(%d): want 1 … %d", c.maxWorkers, MaxWorkers)
	}
	switch {
	case c.sub:
	case c.minWorkers < 0:
		bad("WithMinWorkers(%d): want at least 0", c.minWorkers)
	case !badMax && c.minWorkers > c.maxWorkers:
		bad("WithMinWorkers(%d): want at most the maximum of %d workers", c.minWorkers, c.maxWorkers)
	}
	if c.sizer == nil && !c.sub {
		bad("WithSizing(nil): want a Sizer")
	} else if r, ok := c.sizer.(*rated); ok && r.n < 1 {
		bad("Rated(%d): want at least 1", r.n)
	}
	if c.capacity != Unbounded && (c.capacity < 0 || uint64(c.capacity) > maxCapacity) {
		bad("WithQueueCapacity(%d): want 0 … %d, or Unbounded", c.capacity, uint64(maxCapacity))
	}
	if c.policy < Block || c.policy > DropOldest {
		bad("WithFullPolicy(%d): want Block, Reject, Spawn, CallerRuns or DropOldest", int(c.policy))
	}
	if c.idle < 0 && !(c.sub && c.idle == notGiven) {
		bad("WithIdleTimeout(%v): want at least 0", c.idle)
	}
	if c.tasksPerWorker < 0 {
		bad("WithMaxTasksPerWorker(%d): want at least 0", c.tasksPerWorker)
	}
	if (c.spin < 0 || c.spin > maxSpin) && !(c.sub && c.spin == notGiven) {
		bad("WithSpin(%d): want 0 … %d", c.spin, maxSpin)
	}
	if c.parentNil {
		bad("WithContext(nil): want a context")
	}
	c.validateSub(bad)
	c.validateWatch(bad)
	if c.timing < TimingSampled || c.timing > TimingFull {
		bad("WithTiming(%d): want TimingOff, TimingSampled or TimingFull", int(c.timing))
	}
	return errors.Join(errs...)
}

// WithName names the pool in errors, statistics and pprof labels.
func WithName(name string) Option { return option(func(c *config) { c.name = name }) }

// WithMaxWorkers sets the strict cap on live workers, running or not:
// 1 … 1<<24. The default is GOMAXPROCS at the time of [New].
func WithMaxWorkers(n int) Option {
	return option(func(c *config) { c.maxWorkers = n })
}

// WithMinWorkers sets how many workers [New] starts and the idle timeout never
// reclaims. The default is 0.
func WithMinWorkers(n int) Option { return option(func(c *config) { c.minWorkers = n }) }

// WithSizing sets when to add a worker between the minimum and the maximum.
// The default is [Auto].
func WithSizing(s Sizer) Option { return option(func(c *config) { c.sizer = s }) }

// WithQueueCapacity sets how many accepted tasks may wait while every worker
// that the pool may have is busy. So an open pool holds at most its workers
// plus n tasks, whether or not the workers were started yet. 0 is hand-off: a
// task is accepted when a worker is free to take it. [Unbounded] sets no
// bound. The default is 1<<20. The storage grows with the tasks that wait, and
// is given back.
func WithQueueCapacity(n int) Option { return option(func(c *config) { c.capacity = n }) }

// WithFullPolicy sets what [Pool.Submit] does while there is no room. The
// default is [Block].
func WithFullPolicy(p FullPolicy) Option { return option(func(c *config) { c.policy = p }) }

// WithIdleTimeout sets how long a worker stays parked before it leaves. 0: it
// leaves when it finds the queue empty. [Forever]: it stays. The default is
// 5 s. One timer serves all workers of the pool, and only while some are idle.
func WithIdleTimeout(d time.Duration) Option { return option(func(c *config) { c.idle = d }) }

// WithMaxTasksPerWorker has a worker leave, and a fresh one take its place,
// after n tasks of its life. 0, the default, is no limit.
func WithMaxTasksPerWorker(n int) Option { return option(func(c *config) { c.tasksPerWorker = n }) }

// WithSpin sets how many times a worker that runs out of tasks looks at the
// queue again before it parks. The default is 30, which takes well below a
// microsecond. With 0 submitters do not let others run before they wait for room
// either.
func WithSpin(n int) Option { return option(func(c *config) { c.spin = n }) }

// WithThreadPinning locks every worker to an operating system thread of its
// own ([runtime.LockOSThread]) for the worker's life.
func WithThreadPinning() Option { return option(func(c *config) { c.pin = true }) }

// WithContext closes the pool when ctx is done, as [Pool.Close] does.
func WithContext(ctx context.Context) Option {
	return option(func(c *config) { c.parent = ctx; c.parentNil = ctx == nil })
}

// WithPanicHandler has f called for every panic that the pool recovers, on the
// goroutine that panicked, before the task counts as finished. A panic in f
// itself is logged. The default, also for nil, is one error in the log with the
// stack; see [WithLogger].
func WithPanicHandler(f func(*PanicError)) Option { return option(func(c *config) { c.onPanic = f }) }

// WithLogger sets where the pool logs what nobody is told of otherwise: panics
// without a handler, worker hooks that end their goroutine, and the alarms of
// [WithStallAfter] and [WithSlowTask]. The default, also for nil, is
// [log/slog.Default] at that time.
func WithLogger(l *slog.Logger) Option { return option(func(c *config) { c.logger = l }) }

// WithCrashOnPanic has the pool recover nothing from tasks: a panic ends the
// process and prints the task's own stack.
func WithCrashOnPanic() Option { return option(func(c *config) { c.crash = true }) }

// WithWorkerHooks has start called before a worker's first task and stop
// called after its last one, on the worker's goroutine, also where a task
// ended that goroutine with [runtime.Goexit]. Either may be nil. The id is in
// 0 … MaxWorkers-1, unique among live workers, and reused.
func WithWorkerHooks(start, stop func(id int)) Option {
	return option(func(c *config) { c.onStart, c.onStop = start, stop })
}

// WithTiming sets how often the pool reads the clock for its histograms. The
// default is [TimingSampled].
func WithTiming(t Timing) Option { return option(func(c *config) { c.timing = t }) }
