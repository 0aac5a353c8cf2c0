package shoal

import (
	"context"
	"runtime/pprof"

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
	manner
	watch   *watchdog // nil: there is nothing to watch
	foreign bool      // its goroutines run functions of the user that are no tasks
	kept    *sy.Bool  // there are Locals in the family

	wtime, rtime sy.Pointer[recorder]

	mu      sy.Mutex // guards what follows
	delayed map[*delayed]struct{}
	sealed  bool // no more tasks of SubmitAfter
	stall   stall
}

// New makes a pool. Its error matches [ErrConfig] and names every invalid
// option.
//
// End a pool with [Pool.Shutdown] or [Pool.Close]. A pool that is dropped
// without either runs what it has accepted. Then its workers leave, each after
// the idle timeout, and the garbage collector takes the pool. It stays for ever
// if it has a minimum of workers, the idle timeout [Forever], or tasks that do
// not end.
func New(opts ...Option) (*Pool, error) { return defaults().pool(opts) }

// pool makes a pool of c and opts.
func (c *config) pool(opts []Option) (*Pool, error) {
	for _, o := range opts {
		if o != nil {
			o.apply(c)
		}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := &Pool{manner: c.manner, kept: new(sy.Bool)}
	c.lane.Owner = (*owner)(p)
	if w := c.watch; min(w.stallAfter, w.slowTask) != Forever {
		p.watch, w.p, p.foreign = &w, p, true
		c.lane.Sample, c.lane.Every = w.look, w.period()
	}
	if c.up != nil {
		p.kept = c.up.kept
		if err := c.up.lane.Sub(&p.lane, c.lane); err != nil {
			return nil, err
		}
	} else {
		c.start(p)
	}
	if c.parent != context.Background() {
		p.follow(c.parent)
	}
	return p, nil
}

// start makes p's lane the root of a family, with a crew.
func (c *config) start(p *Pool) {
	w, sizer := c.crew, c.sizer
	_, isAuto := sizer.(auto)
	r, isRated := sizer.(*rated)
	if !isAuto {
		w.Sizer = func(s kernel.Sizing) bool { return sizer.Grow(Sizing(s)) }
	}
	w.Eager = isRated && r.n <= 1
	w.Crash, w.Keeps, w.Labels = p.crash, p.kept, context.Background()
	if p.name != "" {
		w.Labels = pprof.WithLabels(w.Labels, pprof.Labels("pool", p.name))
	}
	p.foreign = p.foreign || w.Start != nil || w.Stop != nil || !isAuto && !isRated
	kernel.New(&p.lane, c.lane, w)
}

// Must returns p, or panics with err if that is not nil. It is for package
// variables and examples: shoal.Must(shoal.New(…)).
func Must(p *Pool, err error) *Pool {
	if err != nil {
		panic(err)
	}
	return p
}

// made reports whether p was made by New.
func (p *Pool) made() bool { return p.kept != nil }
