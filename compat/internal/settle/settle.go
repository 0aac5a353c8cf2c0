// Package settle ends the pools of the facades, and counts what waits. The originals
// are pools in which a task that finds a worker free, or not started, has that worker
// when it is submitted. In shoal the worker is on its way to the task then.
package settle

import (
	"context"
	"runtime"
	"time"

	"github.com/shoal-go/shoal"
)

// Drain makes p refuse new tasks, and waits until it has ended. If ctx ends first, it
// returns ctx's error, and the tasks go on. If a task of p calls it, it returns
// [shoal.ErrWouldDeadlock].
func Drain(ctx context.Context, p *shoal.Pool) error {
	p.Drain()
	if err := p.WaitContext(ctx); err != nil {
		return err
	}
	return p.Shutdown(context.Background()) // what is left takes no time
}

// Stop ends p and drops what is queued, but for the tasks that workers are about to
// take. If the pool's Sizer may say no, that is sure only of the first worker. Stop
// does not wait for tasks that run; a task of p may call it.
func Stop(p *shoal.Pool, mayRefuse bool) {
	p.Drain()
	await(p, due(p.Stats()), mayRefuse)
	drop(p)
}

// StopSoon is Stop, but does not wait for workers either: they may get at their
// tasks one after the other, for as long as tasks compute and all CPUs are busy.
// What is queued is dropped when they have.
func StopSoon(p *shoal.Pool, mayRefuse bool) {
	p.Drain()
	s := p.Stats()
	n := due(s)
	if started(s) >= n {
		drop(p)
		return
	}
	go func() {
		await(p, n, mayRefuse)
		drop(p)
	}()
}

func drop(p *shoal.Pool) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p.Shutdown(ctx) == shoal.ErrWouldDeadlock {
		go p.Shutdown(ctx)
	}
}

// due is how many tasks will have started when every task for which there is a
// worker, or may be one, has.
func due(s shoal.Stats) uint64 {
	return started(s) + min(Waiting(s), uint64(max(0, s.MaxWorkers-s.Running)))
}

// await gives the workers that are about to take a task a moment to do so, until n
// tasks have started.
func await(p *shoal.Pool, n uint64, mayRefuse bool) {
	s := p.Stats()
	last := started(s)
	for i := 0; i < 300 && last < n && (!mayRefuse || s.Workers == 0); i++ {
		if i < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond) // a CPU is busy with something else
		}
		if s = p.Stats(); started(s) > last {
			last, i = started(s), 0 // they come one after the other
		}
	}
}

// Waiting is the number of tasks that have not started.
func Waiting(s shoal.Stats) uint64 { return uint64(max(0, s.InFlight-s.Running)) }

func started(s shoal.Stats) uint64 { return s.Submitted - s.Dropped - Waiting(s) }
