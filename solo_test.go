package shoal_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
)

func TestTheClockIsReadRarelyAmongShortTasksAndAlwaysAmongLongOnes(t *testing.T) {
	n := 1
	for range 20 {
		n = shoal.NextStep(n, time.Microsecond)
	}
	if n != shoal.MaxStep {
		t.Errorf("after many short steps one has %d tasks, want %d", n, shoal.MaxStep)
	}
	if got := shoal.NextStep(n, 30*time.Microsecond); got != n {
		t.Errorf("after a middling step of %d one has %d", n, got)
	}
	for range 20 {
		n = shoal.NextStep(n, time.Millisecond)
	}
	if n != 1 {
		t.Errorf("after many long steps one has %d tasks, want 1", n)
	}
	if got := shoal.NextStep(0, 30*time.Microsecond); got != 1 {
		t.Errorf("a step of %d follows one of none", got)
	}
}

// TestWorkersThatStepAsideLeaveNoTaskBehind runs tiny tasks on workers that
// believe that one of them alone would be faster, so that they step aside as
// often as they may. Now and then a task waits for the one behind it, so that
// the tasks end only if somebody comes back for them in time.
func TestWorkersThatStepAsideLeaveNoTaskBehind(t *testing.T) {
	for _, workers := range []int{2, 3, 8} {
		p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(1<<20))
		var stop atomic.Bool
		believed := inBackground(func() {
			for !stop.Load() {
				p.BelieveInSolo()
				runtime.Gosched()
			}
		})
		n := shoal.Reps(300_000, 60_000, 60_000)
		y := newTally(n)
		const submitters = 4
		var all sync.WaitGroup
		for s := range submitters {
			all.Go(func() {
				var behind chan struct{} // closed by the next task
				for i := s; i < n; i += submitters {
					task := y.task(i)
					switch {
					case behind != nil:
						c := behind
						behind, task = nil, func() { y.hit(i); close(c) }
					case i/submitters%1000 == 0 && i+submitters < n && s < workers-1:
						c := make(chan struct{})
						behind, task = c, func() { y.hit(i); <-c }
					}
					y.note(i, p.Submit(task))
				}
			})
		}
		all.Wait()
		p.Wait()
		y.checkAccepted(t)
		stop.Store(true)
		<-believed
		shutClean(t, p)
	}
}

// TestDroppingTasksIsNoProgress floods a pool whose workers are blocked with
// tasks that displace each other. Taking the oldest task from the queue to
// drop it must not pass for a worker that gets on: then no worker would be
// added.
func TestDroppingTasksIsNoProgress(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPool(t, shoal.WithMaxWorkers(64), shoal.WithQueueCapacity(4), shoal.WithFullPolicy(shoal.DropOldest))
	release := hold(t, p, 1)
	var ran atomic.Bool
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for !ran.Load() {
				if err := p.Submit(func() { ran.Store(true) }); err != nil {
					return // it is in the nature of DropOldest that a queue is full again
				}
			}
		})
	}
	all.Wait() // hangs if no worker is added
	if !ran.Load() {
		t.Error("the submitters were refused")
	}
	release()
	closeAll(t, p)
}
