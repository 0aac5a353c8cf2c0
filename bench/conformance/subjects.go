package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/alitto/pond"
	pondv2 "github.com/alitto/pond/v2"
	"github.com/gammazero/workerpool"
	"github.com/panjf2000/ants/v2"
	concpool "github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"

	"github.com/shoal-go/shoal"
	compatants "github.com/shoal-go/shoal/compat/ants"
	compatpond "github.com/shoal-go/shoal/compat/pond"
	compatworkerpool "github.com/shoal-go/shoal/compat/workerpool"
)

// A spec is the pool that a case wants.
type spec struct {
	workers  int
	min      int
	capacity int           // tasks that may wait; 0: as the pool likes
	idle     time.Duration // 0: as the pool likes
	onPanic  func(any)
}

// A pool is what a subject offers; what is nil it does not.
type pool struct {
	submit    func(task func()) error // may wait for free capacity
	bounded   bool                    // capacity is a bound
	handsOver bool                    // has no queue
	keeps     bool                    // idle workers stay, or leave one every two seconds
	try       func(task func()) error // does not wait
	submitCtx func(ctx context.Context, task func()) error
	call      func(task func() error) error // waits for the task and returns its error
	stop      func()                        // runs what was accepted; returns when all of it is over
	stopNow   func()                        // drops what waits; returns when all is over
	stopCtx   func(ctx context.Context) error
	wait      func() // until nothing waits or runs; the pool can be used after it
	resize    func(n int) error
	pause     func()
	resume    func()
	onPanic   bool
	workers   func() int
	waiting   func() int
	completed func() int
	failed    func() int
	// group makes a group of tasks under ctx: start adds one, which is given the
	// group's context, and wait returns when all have ended.
	group func(ctx context.Context) group
}

type group struct {
	start func(task func(context.Context) error)
	wait  func() error
}

type subject struct {
	name, module string
	make         func(spec) pool
}

var errRefused = errors.New("refused")

var subjects = []subject{
	{"shoal", "github.com/shoal-go/shoal", newShoal},
	{"pond", "github.com/alitto/pond", newPond},
	{"pond-v2", "github.com/alitto/pond/v2", newPondV2},
	{"ants", "github.com/panjf2000/ants/v2", newAnts},
	{"workerpool", "github.com/gammazero/workerpool", newWorkerpool},
	{"conc", "github.com/sourcegraph/conc", newConc},
	{"errgroup", "golang.org/x/sync", newErrgroup},
	{"channel", "", newChannel},
	// The facades are asked only where -pools names them.
	{"pond" + onShoal, "github.com/shoal-go/shoal", newPondOnShoal},
	{"ants" + onShoal, "github.com/shoal-go/shoal", newAntsOnShoal},
	{"workerpool" + onShoal, "github.com/shoal-go/shoal", newWorkerpoolOnShoal},
}

const onShoal = "-on-shoal"

func newShoal(s spec) pool {
	opts := []shoal.Option{shoal.WithMaxWorkers(s.workers), shoal.WithMinWorkers(s.min)}
	if s.capacity > 0 {
		opts = append(opts, shoal.WithQueueCapacity(s.capacity))
	}
	if s.idle > 0 {
		opts = append(opts, shoal.WithIdleTimeout(s.idle))
	}
	if s.onPanic != nil {
		opts = append(opts, shoal.WithPanicHandler(func(e *shoal.PanicError) { s.onPanic(e.Value) }))
	}
	p, err := shoal.New(opts...)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	return pool{
		submit: p.Submit, bounded: true, try: p.TrySubmit,
		submitCtx: func(ctx context.Context, task func()) error {
			return p.SubmitContext(ctx, func(context.Context) { task() })
		},
		call:    func(f func() error) error { return p.SubmitWait(ctx, func(context.Context) error { return f() }) },
		stop:    func() { _ = p.Shutdown(ctx) },
		stopNow: func() { _ = p.Close() }, stopCtx: p.Shutdown, wait: p.Wait,
		resize: func(n int) error { return p.Resize(0, n) }, pause: p.Pause, resume: p.Resume, onPanic: true,
		workers: func() int { return p.Stats().Workers }, waiting: p.Queued,
		completed: func() int { return int(p.Stats().Completed) }, failed: func() int { return int(p.Stats().Failed) },
		group: func(ctx context.Context) group {
			g := p.Group(ctx)
			return group{g.Go, g.Wait}
		},
	}
}

func newPond(s spec) pool {
	opts := []pond.Option{pond.MinWorkers(s.min)}
	if s.idle > 0 {
		opts = append(opts, pond.IdleTimeout(s.idle))
	}
	if s.onPanic != nil {
		opts = append(opts, pond.PanicHandler(s.onPanic))
	}
	capacity := s.capacity
	if capacity == 0 {
		capacity = 1 << 20
	}
	p := pond.New(s.workers, capacity, opts...)
	return pondPool(p, pond.ErrSubmitOnStoppedPool, func(ctx context.Context) group {
		g, ctx := p.GroupContext(ctx)
		return group{func(f func(context.Context) error) { g.Submit(func() error { return f(ctx) }) }, g.Wait}
	})
}

func newPondOnShoal(s spec) pool {
	opts := []compatpond.Option{compatpond.MinWorkers(s.min)}
	if s.idle > 0 {
		opts = append(opts, compatpond.IdleTimeout(s.idle))
	}
	if s.onPanic != nil {
		opts = append(opts, compatpond.PanicHandler(s.onPanic))
	}
	capacity := s.capacity
	if capacity == 0 {
		capacity = 1 << 20
	}
	p := compatpond.New(s.workers, capacity, opts...)
	return pondPool(p, compatpond.ErrSubmitOnStoppedPool, func(ctx context.Context) group {
		g, ctx := p.GroupContext(ctx)
		return group{func(f func(context.Context) error) { g.Submit(func() error { return f(ctx) }) }, g.Wait}
	})
}

// pondPool is pond, or the facade that stands for it.
func pondPool(p interface {
	Submit(func())
	TrySubmit(func()) bool
	Stop() context.Context
	StopAndWait()
	RunningWorkers() int
	WaitingTasks() uint64
	CompletedTasks() uint64
	FailedTasks() uint64
}, stopped error, newGroup func(context.Context) group) pool {
	// On a stopped pool Submit panics with ErrSubmitOnStoppedPool, as documented.
	guard := func(f func() error) (err error) {
		defer func() {
			if v := recover(); v == stopped {
				err = stopped
			} else if v != nil {
				panic(v)
			}
		}()
		return f()
	}
	return pool{
		submit:  func(f func()) error { return guard(func() error { p.Submit(f); return nil }) },
		bounded: true,
		try: func(f func()) error {
			return guard(func() error {
				if !p.TrySubmit(f) {
					return errRefused
				}
				return nil
			})
		},
		stop: p.StopAndWait, stopNow: func() { <-p.Stop().Done() }, onPanic: true,
		group:   newGroup,
		workers: p.RunningWorkers, waiting: func() int { return int(p.WaitingTasks()) },
		completed: func() int { return int(p.CompletedTasks()) }, failed: func() int { return int(p.FailedTasks()) },
	}
}

func newPondV2(s spec) pool {
	var opts []pondv2.Option
	if s.capacity > 0 {
		opts = append(opts, pondv2.WithQueueSize(s.capacity))
	}
	p := pondv2.NewPool(s.workers, opts...)
	return pool{
		submit: p.Go, bounded: true,
		try: func(f func()) error {
			if _, ok := p.TrySubmit(f); !ok {
				return errRefused
			}
			return nil
		},
		call: func(f func() error) error { return p.SubmitErr(f).Wait() },
		stop: p.StopAndWait, resize: func(n int) error { p.Resize(n); return nil },
		group: func(ctx context.Context) group {
			g := p.NewGroupContext(ctx)
			return group{func(f func(context.Context) error) { g.SubmitErr(func() error { return f(g.Context()) }) }, g.Wait}
		},
		workers: func() int { return int(p.RunningWorkers()) }, waiting: func() int { return int(p.WaitingTasks()) },
		completed: func() int { return int(p.CompletedTasks()) }, failed: func() int { return int(p.FailedTasks()) },
	}
}

func newAnts(s spec) pool {
	var opts []ants.Option
	if s.idle > 0 {
		opts = append(opts, ants.WithExpiryDuration(s.idle))
	}
	if s.onPanic != nil {
		opts = append(opts, ants.WithPanicHandler(s.onPanic))
	}
	p, err := ants.NewPool(s.workers, opts...)
	if err != nil {
		panic(err)
	}
	return antsPool(p)
}

func newAntsOnShoal(s spec) pool {
	var opts []compatants.Option
	if s.idle > 0 {
		opts = append(opts, compatants.WithExpiryDuration(s.idle))
	}
	if s.onPanic != nil {
		opts = append(opts, compatants.WithPanicHandler(s.onPanic))
	}
	p, err := compatants.NewPool(s.workers, opts...)
	if err != nil {
		panic(err)
	}
	return antsPool(p)
}

// antsPool is ants, or the facade that stands for it.
func antsPool(p interface {
	Submit(func()) error
	ReleaseTimeout(time.Duration) error
	ReleaseContext(context.Context) error
	Tune(int)
	Running() int
	Waiting() int
}) pool {
	return pool{
		submit: p.Submit, handsOver: true,
		stop: func() { _ = p.ReleaseTimeout(time.Minute) },
		stopCtx: func(ctx context.Context) error {
			return p.ReleaseContext(ctx)
		},
		resize: func(n int) error { p.Tune(n); return nil }, onPanic: true,
		workers: p.Running, waiting: p.Waiting,
	}
}

func newWorkerpool(s spec) pool { return workerpoolPool(workerpool.New(s.workers)) }

func newWorkerpoolOnShoal(s spec) pool {
	return workerpoolPool(compatworkerpool.New(s.workers))
}

// workerpoolPool is workerpool, or the facade that stands for it.
func workerpoolPool(p interface {
	Do(func()) error
	DoWait(func()) error
	Stop()
	StopWait()
	Pause(context.Context)
	WaitingQueueSize() int
}) pool {
	var resume context.CancelFunc
	return pool{
		keeps:  true,
		submit: p.Do, // Submit, which tells whether the task was accepted
		call: func(f func() error) (err error) {
			if e := p.DoWait(func() { err = f() }); e != nil {
				return e
			}
			return err
		},
		stop: p.StopWait, stopNow: p.Stop,
		pause: func() {
			var ctx context.Context
			ctx, resume = context.WithCancel(context.Background())
			p.Pause(ctx)
		},
		resume:  func() { resume() },
		waiting: p.WaitingQueueSize,
	}
}

func newConc(s spec) pool {
	p := concpool.New().WithMaxGoroutines(s.workers)
	return pool{
		submit: func(f func()) error { p.Go(f); return nil }, handsOver: true,
		// Wait panics again with what a task panicked with, as documented.
		stop: func() {
			defer func() { _ = recover() }()
			p.Wait()
		},
		group: func(ctx context.Context) group {
			g := concpool.New().WithMaxGoroutines(s.workers).WithContext(ctx).WithCancelOnError().WithFirstError()
			return group{g.Go, g.Wait}
		},
	}
}

func newErrgroup(s spec) pool {
	var g errgroup.Group
	g.SetLimit(s.workers)
	wait := func() { _ = g.Wait() }
	return pool{
		submit: func(f func()) error { g.Go(func() error { f(); return nil }); return nil }, handsOver: true,
		try: func(f func()) error {
			if !g.TryGo(func() error { f(); return nil }) {
				return errRefused
			}
			return nil
		},
		stop: wait, wait: wait,
		group: func(ctx context.Context) group {
			g, ctx := errgroup.WithContext(ctx)
			g.SetLimit(s.workers)
			return group{func(f func(context.Context) error) { g.Go(func() error { return f(ctx) }) }, g.Wait}
		},
	}
}

// newChannel is the pool that people write by hand.
func newChannel(s spec) pool {
	capacity := s.capacity
	if capacity == 0 {
		capacity = 1 << 20
	}
	tasks := make(chan func(), capacity)
	var wg sync.WaitGroup
	for range s.workers {
		wg.Go(func() {
			for f := range tasks {
				f()
			}
		})
	}
	return pool{
		submit: func(f func()) error { tasks <- f; return nil }, bounded: true, keeps: true,
		try: func(f func()) error {
			select {
			case tasks <- f:
				return nil
			default:
				return errRefused
			}
		},
		stop: func() { close(tasks); wg.Wait() },
	}
}
