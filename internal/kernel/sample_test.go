//go:build !poolsim

package kernel

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

func sampledLane(up *Lane, sample func()) *Lane {
	l := new(Lane)
	c := LaneConfig{Max: 2, Capacity: 10, Weight: 1, Owner: owner{}, Sample: sample, Every: time.Second}
	if up == nil {
		New(l, c, Config{Idle: Forever, Labels: context.Background(), Keeps: new(sy.Bool)})
	} else if err := up.Sub(l, c); err != nil {
		panic(err)
	}
	return l
}

func (c *Crew) samplers() (armed, resting int) {
	c.enter()
	defer c.leave()
	for _, l := range append(c.under(c.root), c.root) {
		if l.sampler.stop != nil {
			armed++
		}
	}
	return armed, len(c.resting)
}

func wantSamplers(t *testing.T, l *Lane, armed, resting int) {
	t.Helper()
	if a, r := l.crew.samplers(); a != armed || r != resting {
		t.Errorf("%d samplers are armed and %d rest, want %d and %d", a, r, armed, resting)
	}
}

// Samples are taken while a worker is awake, and no timer is set otherwise.
func TestSamplesWhileAWorkerIsAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n, below atomic.Int64
		l := sampledLane(nil, func() { n.Add(1) })
		s := sampledLane(l, func() { below.Add(1) })
		wantSamplers(t, l, 0, 2)
		time.Sleep(time.Hour)
		for i := range int64(3) {
			l.do(func() { time.Sleep(4500 * time.Millisecond) })
			l.quiesce()
			wantSamplers(t, l, 2, 0)
			time.Sleep(time.Hour)
			wantSamplers(t, l, 0, 2)
			if got, want := n.Load(), 5*(i+1); got != want || below.Load() != want {
				t.Fatalf("%d and %d samples, want %d", got, below.Load(), want)
			}
		}
		// One that comes while a worker is awake need not wait until one is woken.
		l.do(func() { time.Sleep(10500 * time.Millisecond) })
		synctest.Wait()
		late := sampledLane(l, func() { below.Add(-1) })
		before := below.Load()
		l.quiesce()
		if got := below.Load() - before; got != 0 {
			t.Errorf("one lane has been sampled %d times more often than the other", got)
		}
		late.shut()
		s.shut()
		wantSamplers(t, l, 1, 0)
		l.shut()
		wantSamplers(t, l, 0, 0)
	})
}

// A lane that ends, or is dropped, leaves nothing behind.
func TestSamplersOfLanesThatEnd(t *testing.T) {
	l := sampledLane(nil, func() {})
	for range 100 {
		sampledLane(l, func() {}).shut()
	}
	wantSamplers(t, l, 0, 1)
	for range 100 {
		sampledLane(l, func() {})
	}
	for {
		runtime.GC()
		if _, resting := l.crew.samplers(); resting == 1 {
			break
		}
	}
	l.shut()
}

// A lane is sampled until it ends. A sample that has begun is waited for, a timer is not.
func TestTheEndOfALaneThatIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		l := sampledLane(nil, func() {
			if n.Add(1) == 5 {
				time.Sleep(time.Minute)
			}
		})
		begun := time.Now()
		l.do(func() { time.Sleep(5500 * time.Millisecond) })
		time.Sleep(time.Second / 2)
		l.shut()
		if d := time.Since(begun); n.Load() != 5 || d != time.Minute+5*time.Second {
			t.Errorf("%d samples, and the end came after %v", n.Load(), d)
		}
		q := sampledLane(nil, func() { t.Error("a sample") })
		begun = time.Now()
		q.do(func() { time.Sleep(time.Second / 2) })
		q.shut()
		if d := time.Since(begun); d != time.Second/2 {
			t.Errorf("the end came after %v", d)
		}
		time.Sleep(time.Hour)
		wantSamplers(t, q, 0, 0)
	})
}

// TestALaneThatHasEndedFollowsNoContext, and lets go of it.
func TestALaneThatHasEndedFollowsNoContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sampledLane(nil, func() {})
		l.shut()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		l.Follow(ctx, func() { t.Error("it follows") })
		synctest.Wait()
		if l.letGo != nil {
			t.Error("it has not let go")
		}
	})
}
