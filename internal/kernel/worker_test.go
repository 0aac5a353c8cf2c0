//go:build !poolsim

package kernel

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestAWorkerThatIsHiredNotToAskParksOnlyAfterItsTask(t *testing.T) {
	l := family(LaneConfig{Max: 1, Capacity: 8}, Config{Eager: true, Sizer: func(Sizing) bool { return true }})
	parked := false
	l.do(func() { parked = !l.crew.staff.all[0].wakeup.IsZero() })
	l.quiesce()
	if parked {
		t.Error("parked before its first task")
	}
	l.shut()
}

// If it parked, it would be told to ask when it is woken.
func TestTheReplacementOfAWorkerDoesNotAsk(t *testing.T) {
	l := family(LaneConfig{Max: 1, Capacity: 8}, Config{TasksPerWorker: 1})
	var parked [4]bool
	l.Pause()
	for i := range parked {
		l.do(func() { parked[i] = !l.crew.staff.all[0].wakeup.IsZero() })
	}
	l.Resume()
	l.quiesce()
	for _, p := range parked[1:] {
		if p {
			t.Error("the replacement parked, so it asked")
		}
	}
	l.shut()
}

func TestNobodyParksAfterAPanicThoughATaskWaits(t *testing.T) {
	l := family(LaneConfig{Max: 1, Capacity: 8}, Config{})
	parked := false
	l.Pause()
	l.do(func() { panic(1) })
	l.do(func() { parked = !l.crew.staff.all[0].wakeup.IsZero() })
	l.Resume()
	l.quiesce()
	if parked {
		t.Error("parked after a panic, though a task waited")
	}
	l.shut()
}

// Where workers do not spin, one that parked after each panic would count as having let others run.
func TestAWorkerWhoseTasksPanicYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l := family(LaneConfig{Max: 1, Capacity: 1000}, Config{})
	l.Pause()
	for range 500 {
		l.do(func() {
			for e := time.Now().Add(150 * time.Microsecond); time.Now().Before(e); {
			}
			panic(1)
		})
	}
	var stop atomic.Bool
	turns := 0
	done := make(chan bool)
	go func() {
		for !stop.Load() {
			turns++
			runtime.Gosched()
		}
		close(done)
	}()
	l.Resume()
	l.quiesce()
	stop.Store(true)
	<-done
	if turns < 100 { // it yields after each; Go's own preemption gives it about 8
		t.Errorf("beside 500 tasks another goroutine had %d turns", turns)
	}
	l.shut()
}

// TestOneTaskWakesOneWorker: a second one that was woken would have parked again, later.
func TestOneTaskWakesOneWorker(t *testing.T) {
	l := newLane(2, 8, 2)
	defer l.shut()
	c := l.crew
	parked := func(n int) (at []int64) {
		for len(at) != n {
			runtime.Gosched()
			at = nil
			c.read(func() {
				for _, w := range c.idle {
					at = append(at, w.parkedAt)
				}
			})
		}
		return at
	}
	for range 20 {
		before := parked(2)
		end, began := make(chan struct{}), make(chan struct{})
		if err := l.give(func() { close(began); <-end }, Block); err != nil {
			t.Fatal(err)
		}
		<-began
		if at := parked(1)[0]; at != before[0] {
			t.Errorf("the other worker parked at %d, and again at %d", before[0], at)
		}
		close(end)
		l.quiesce()
	}
}
