//go:build !poolsim

package kernel

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/shoal-go/shoal/internal/sy"
)

// TestTheAlarmWakesASubmitterForEachWorker: workers whose tasks are long wake none themselves.
func TestTheAlarmWakesASubmitterForEachWorker(t *testing.T) {
	const workers = farAhead/mostLease + 1 // workers with short tasks wake fewer
	l := family(LaneConfig{Max: workers, Capacity: 1 << 20}, Config{Eager: true})
	open := make(chan struct{})
	for i := range uint64(workers) {
		l.do(func() { <-open })
		for numOf(l.head.Load()) <= i {
			runtime.Gosched()
		}
	}
	left := 0
	for range 100 { // the next alarm, 10 ms later, wakes the rest: parking is in vain
		p := &pacing{far: farAhead}
		for range workers + 1 {
			p.parked = append(p.parked, &waiter{woken: sy.MakeEvent(), since: l.crew.clock.Now()})
		}
		l.crew.read(func() { l.pacing.Store(p) })
		p.wakeAt.Store(ticketOf(l.head.Load())<<ticketBit | 1) // it is time
		l.ring(&l.paces, nothing, func() { l.checkPace(p, firstTime) })
		l.crew.read(func() {
			left = len(p.parked)
			l.paces.stopped()
		})
		if left > 0 {
			break
		}
	}
	if left != 1 {
		t.Errorf("%d of %d are parked, want 1", left, workers+1)
	}
	close(open)
	l.quiesce()
	l.shut()
}

// TestATaskThatRunsLetsMoreWait: else workers whose tasks sleep would have none until the alarm rings.
func TestATaskThatRunsLetsMoreWait(t *testing.T) {
	l := newLane(1, 1<<20, 0)
	open := make(chan struct{})
	l.do(func() { <-open })
	for numOf(l.head.Load()) == 0 {
		runtime.Gosched()
	}
	l.pacing.Store(&pacing{far: farAhead})
	for i := uint64(1); i <= farAhead+perTask+1; i++ {
		l.do(func() {})
		ahead := false
		if l.crew.read(func() { ahead = l.isFarAhead() }); ahead != (i > farAhead+perTask) {
			t.Fatalf("with %d tasks that wait and one that runs: far ahead: %v", i, ahead)
		}
	}
	close(open)
	l.quiesce()
	l.shut()
}

// TestASubmitterFarAheadGetsNoLease: with a lease it would bring many more tasks before it parks. If
// thousands of submitters did that, the queue would grow without end.
func TestASubmitterFarAheadGetsNoLease(t *testing.T) {
	l := newLane(1, 1<<20, 0)
	open := make(chan struct{})
	l.do(func() { <-open })
	var n atomic.Int64
	for range farAhead {
		l.do(func() { n.Add(1) })
	}
	for numOf(l.tail.Load()) > 0 {
		l.do(func() { n.Add(1) })
	}
	l.crew.read(func() { l.pacing.Store(&pacing{far: 1}) })
	l.do(func() { n.Add(1) }) // it parks until the alarm says that this is in vain
	if lease := numOf(l.tail.Load()); lease != 0 {
		t.Errorf("a lease for %d tasks", lease)
	}
	close(open)
	l.quiesce()
	l.shut()
	if n.Load() <= farAhead {
		t.Errorf("%d tasks ran", n.Load())
	}
}
