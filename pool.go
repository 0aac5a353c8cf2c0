package shoal

import (
	"context"
	"runtime/pprof"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Pool runs tasks on a bounded number of goroutines, its workers. It is made
// by [New], and any number of goroutines may use it. The zero Pool is closed.
//
// In the terminology of the Go memory model, a call of Submit synchronizes
// before the start of its task, and the end of a task synchronizes before the
// return of a Wait, SubmitWait, Shutdown or Close that waited for it.
type Pool struct {
	lane kernel.Lane // the pool, but for what follows: see package kernel

	// Constant after New.
	config
	epoch time.Time // zero of the pool's clock
	up    *Pool     // of a sub-pool, its parent
	watch *watchdog // nil: there is nothing to watch
	kept  *sy.Bool  // there are Locals in the family

	wtime, rtime sy.Pointer[recorder]

	mu       sy.Mutex // guards what follows
	delayed  map[*delayed]struct{}
	sealed   bool // no more tasks of SubmitAfter
	stall    stall
	shutdown *ShutdownError
}

// New makes a pool. Its error matches [ErrConfig] and names every invalid
// option.
//
// End a pool with [Pool.Shutdown] or [Pool.Close]. A pool that is dropped
// without either runs what it has accepted. Then its workers leave, each after
// the idle timeout, and the garbage collector takes the pool. It stays for ever
// if it has a minimum of workers, the idle timeout [Forever], or tasks that do
// not end.
func New(opts ...Option) (*Pool, error) {
	c := defaults()
	for _, o := range opts {
		if o != nil {
			o.apply(&c)
		}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := newPool(c, 0)
	if c.parent != nil {
		p.follow(c.parent)
	}
	return p, nil
}

// newPool makes a pool of a valid config whose first ticket is first.
func newPool(c config, first uint64) *Pool {
	p := &Pool{config: c, epoch: time.Now(), kept: new(sy.Bool)}
	p.watch = newWatchdog(p)
	labels := context.Background()
	if c.name != "" {
		labels = pprof.WithLabels(labels, pprof.Labels("pool", c.name))
	}
	k := kernel.Config{
		Min:            c.minWorkers,
		Spin:           c.spin,
		Idle:           c.idle,
		TasksPerWorker: c.tasksPerWorker,
		Pin:            c.pin,
		Crash:          c.crash,
		Start:          c.onStart,
		Stop:           c.onStop,
		Labels:         labels,
		Keeps:          p.kept,
	}
	if _, ok := c.sizer.(auto); !ok {
		k.Sizer = func(s kernel.Sizing) bool { return c.sizer.Grow(Sizing(s)) }
	}
	if r, ok := c.sizer.(*rated); ok {
		k.Eager = r.n <= 1
	}
	kernel.New(&p.lane, p.laneConfig(first), k)
	return p
}

func (p *Pool) laneConfig(first uint64) kernel.LaneConfig {
	k := kernel.LaneConfig{
		Max:      p.maxWorkers,
		Capacity: int(min(uint64(p.capacity), maxCapacity)), // the latter is no int of 32 bits
		Priority: p.priority,
		Weight:   p.weight,
		Timing:   kernel.Timing(p.timing),
		First:    first,
		Owner:    (*owner)(p),
	}
	if p.watch != nil {
		k.Sample, k.Every = p.watch.look, p.watch.period()
	}
	return k
}

// Must returns p, or panics with err if that is not nil. It is for package
// variables and examples: shoal.Must(shoal.New(…)).
func Must(p *Pool, err error) *Pool {
	if err != nil {
		panic(err)
	}
	return p
}

// made reports whether p was made by New. The zero Pool has no clock.
func (p *Pool) made() bool { return !p.epoch.IsZero() }

// now is the pool's clock: nanoseconds since it was made.
func (p *Pool) now() int64 { return sy.Since(p.epoch) }
