// Package bench compares shoal with other ways to run tasks in Go: plain
// goroutines, hand-written channel pools and the well-known libraries.
package bench

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/alitto/pond"
	pondv2 "github.com/alitto/pond/v2"
	"github.com/bytedance/gopkg/util/gopool"
	"github.com/gammazero/workerpool"
	"github.com/panjf2000/ants/v2"
	concpool "github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"
)

// Config is what a workload asks of a pool. A subject that has no such option
// ignores the field.
type Config struct {
	MaxWorkers  int
	Capacity    int           // accepted tasks that wait
	Unbounded   bool          // as many as memory allows, where the library offers that; else Capacity
	IdleTimeout time.Duration // 0: the library's default
}

// Pool is all that the workloads use of a subject. Close drains and stops.
type Pool interface {
	Submit(task func())
	Close()
}

// Subject is one contestant.
type Subject struct {
	Name    string
	Module  string // whose it is; empty: Go's
	HandOff bool   // has no queue: Submit waits until a worker is free
	New     func(cfg Config) Pool

	// What only some offer; nil: not this one.

	Many  func(n int, cfg Config) (pools []Pool, closeAll func()) // cheaper than New n times
	Group func(ctx context.Context, p Pool) group                 // tasks may make groups, and wait for them
	Range func(p Pool, n int, f func(lo, hi int))                 // a parallel loop
}

// A group runs tasks, and waits for them.
type group struct {
	run  func(task func(context.Context))
	wait func()
}

// Subjects are all contestants, shoal first.
var Subjects = []Subject{
	{Name: "shoal", Module: "github.com/shoal-go/shoal", New: newShoal, Many: manyShoal, Group: groupShoal, Range: rangeShoal},
	{Name: "goroutines", New: newGoroutines, Group: groupGoroutines},
	{Name: "chan-unbuffered", HandOff: true, New: func(c Config) Pool { return newChan(c.MaxWorkers, 0, nil) }},
	{Name: "chan-buffered", New: func(c Config) Pool { return newChan(c.MaxWorkers, c.Capacity, nil) }},
	{Name: "pond-eager", Module: "github.com/alitto/pond", New: func(c Config) Pool { return newPond(c, pond.Eager()) }},
	{Name: "pond-balanced", Module: "github.com/alitto/pond", New: func(c Config) Pool { return newPond(c, pond.Balanced()) }},
	{Name: "pond-lazy", Module: "github.com/alitto/pond", New: func(c Config) Pool { return newPond(c, pond.Lazy()) }},
	{Name: "pond-v2", Module: "github.com/alitto/pond/v2", New: newPondV2},
	{Name: "ants", Module: "github.com/panjf2000/ants/v2", HandOff: true, New: newAnts},
	{Name: "workerpool", Module: "github.com/gammazero/workerpool", New: newWorkerpool},
	{Name: "gopool", Module: "github.com/bytedance/gopkg", New: newGopool},
	{Name: "conc", Module: "github.com/sourcegraph/conc", HandOff: true, New: newConc, Group: groupConc},
	{Name: "errgroup", Module: "golang.org/x/sync", HandOff: true, New: newErrgroup, Group: groupErrgroup},
}

// funcs is the one Pool behind every adapter, so that all of them pay the
// same indirection.
type funcs struct {
	submit func(task func())
	close  func()
	of     any // the library's own pool, for what only some offer
}

func (f funcs) Submit(task func()) { f.submit(task) }
func (f funcs) Close()             { f.close() }

// newGoroutines has nothing to drain with: counting the goroutines would slow
// down the baseline, and every workload waits for its own tasks.
func newGoroutines(Config) Pool {
	return funcs{submit: func(task func()) { go task() }, close: func() {}}
}

// newChan is the pool people write by hand, the one pond's page calls
// "inspired by gobyexample": all workers are started at once and share a channel.
// after, if not nil, is what a worker does after each task.
func newChan(workers, buffer int, after func()) Pool {
	tasks := make(chan func(), buffer)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for task := range tasks {
				task()
				if after != nil {
					after()
				}
			}
		})
	}
	return funcs{
		submit: func(task func()) { tasks <- task },
		close:  func() { close(tasks); wg.Wait() },
	}
}

func newPond(c Config, strategy pond.ResizingStrategy) Pool {
	opts := []pond.Option{pond.Strategy(strategy)}
	if c.IdleTimeout > 0 {
		opts = append(opts, pond.IdleTimeout(c.IdleTimeout))
	}
	p := pond.New(c.MaxWorkers, c.Capacity, opts...)
	return funcs{submit: p.Submit, close: p.StopAndWait}
}

func newPondV2(c Config) Pool {
	capacity := c.Capacity
	if c.Unbounded {
		capacity = pondv2.Unbounded
	}
	p := pondv2.NewPool(c.MaxWorkers, pondv2.WithQueueSize(capacity))
	return funcs{
		submit: func(task func()) { must(p.Go(task)) },
		close:  p.StopAndWait,
	}
}

func newAnts(c Config) Pool {
	var opts []ants.Option
	if c.IdleTimeout > 0 {
		opts = append(opts, ants.WithExpiryDuration(c.IdleTimeout))
	}
	p, err := ants.NewPool(c.MaxWorkers, opts...)
	must(err)
	return funcs{
		submit: func(task func()) { must(p.Submit(task)) },
		close:  func() { must(p.ReleaseTimeout(time.Minute)) },
	}
}

func newWorkerpool(c Config) Pool {
	p := workerpool.New(c.MaxWorkers)
	return funcs{submit: p.Submit, close: p.StopWait}
}

// newGopool has nothing to close. Its workers leave when there is nothing to do.
func newGopool(c Config) Pool {
	p := gopool.NewPool("", int32(c.MaxWorkers), gopool.NewConfig())
	return funcs{submit: p.Go, close: func() {
		for p.WorkerCount() > 0 {
			runtime.Gosched()
		}
	}}
}

func newConc(c Config) Pool {
	p := concpool.New().WithMaxGoroutines(c.MaxWorkers)
	return funcs{submit: p.Go, close: p.Wait}
}

func newErrgroup(c Config) Pool {
	var g errgroup.Group
	g.SetLimit(c.MaxWorkers)
	return funcs{
		submit: func(task func()) { g.Go(func() error { task(); return nil }) },
		close:  func() { must(g.Wait()) },
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Groups. A subject whose pool is not for tasks that wait for others makes a group with a limit in each.

func groupGoroutines(ctx context.Context, _ Pool) group {
	var wg sync.WaitGroup
	return group{func(task func(context.Context)) { wg.Go(func() { task(ctx) }) }, wg.Wait}
}

func groupConc(ctx context.Context, _ Pool) group {
	p := concpool.New().WithMaxGoroutines(runtime.GOMAXPROCS(0))
	return group{func(task func(context.Context)) { p.Go(func() { task(ctx) }) }, p.Wait}
}

func groupErrgroup(ctx context.Context, _ Pool) group {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	return group{func(task func(context.Context)) { g.Go(func() error { task(ctx); return nil }) }, func() { must(g.Wait()) }}
}
