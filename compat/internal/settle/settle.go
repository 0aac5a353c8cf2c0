// Package settle is for facades of pools in which a task that finds a worker free,
// or not started, has one when it is submitted. In shoal that worker is then on its
// way to it.
package settle

import (
	"context"
	"runtime"
	"time"

	"github.com/shoal-go/shoal"
)

// Wait gives the workers that are about to take a task a moment to do so. If the
// pool's Sizer may say no, that is sure only of the first worker.
func Wait(p *shoal.Pool, mayRefuse bool) {
	s := p.Stats()
	want := started(s) + min(Waiting(s), uint64(max(0, s.MaxWorkers-s.Running)))
	for n := 0; n < 300 && started(s) < want && (!mayRefuse || s.Workers == 0); n++ {
		if n < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond) // a CPU is busy with something else
		}
		s = p.Stats()
	}
}

// Drop ends the pool and drops what is queued. It does not wait; a task of the pool
// may call it.
func Drop(p *shoal.Pool) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if p.Shutdown(ctx) == shoal.ErrWouldDeadlock {
		go p.Shutdown(ctx)
	}
}

// Waiting is the number of tasks that have not started.
func Waiting(s shoal.Stats) uint64 { return uint64(max(0, s.InFlight-s.Running)) }

func started(s shoal.Stats) uint64 { return s.Submitted - s.Dropped - Waiting(s) }
