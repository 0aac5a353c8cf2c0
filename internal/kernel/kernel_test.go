//go:build !poolsim

package kernel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

var errPanicked = errors.New("a task panicked")

// owner is the owner of the tests' lanes.
type owner struct{}

func (owner) Panicked(v any, r *Record, uncounted func(error)) error { return errPanicked }
func (owner) Guard(f func())                                         { f() }
func (owner) Region(r *Record) func()                                { return func() {} }
func (owner) Timed(waited, ran int64)                                {}
func (owner) HookBroken()                                            {}

// family makes a root.
func family(lc LaneConfig, cc Config) *Lane {
	l := new(Lane)
	lc.Owner = owner{}
	cc.Labels, cc.Keeps = context.Background(), new(sy.Bool)
	if cc.Idle == 0 {
		cc.Idle = time.Second
	}
	New(l, lc, cc)
	return l
}

func newLane(max, capacity, min int) *Lane {
	return family(LaneConfig{Max: max, Capacity: capacity}, Config{Min: min, Spin: 30})
}

func (l *Lane) sub(t testing.TB, lc LaneConfig) *Lane {
	s := new(Lane)
	lc.Owner = owner{}
	if err := l.Sub(s, lc); err != nil {
		t.Fatalf("Sub: %v", err)
	}
	return s
}

func (l *Lane) give(f func(), p Policy) error {
	it := queue.Func(f)
	if l.Submit(it) {
		return nil
	}
	return l.SubmitSlow(it, p, context.Background())
}

func (l *Lane) do(f func()) error  { return l.give(f, Block) }
func (l *Lane) try(f func()) error { return l.give(f, Reject) }
func (l *Lane) quiesce()           { l.Wait(context.Background(), func() bool { return false }) }
func (l *Lane) shut()              { l.End(false, nil); l.done.Wait() }
func (l *Lane) close()             { l.End(true, ErrClosed); l.done.Wait() }

// sound fails the test if something does not hold in l's family.
func (l *Lane) sound(t testing.TB, name string) {
	t.Helper()
	l.crew.enter()
	l.crew.restore()
	fault := l.crew.audit()
	l.crew.leave()
	if fault != "" {
		t.Errorf("%s: %s", name, fault)
	}
}

// within fails the test if f has not returned after a minute.
func within(t testing.TB, name string, l *Lane, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		state := ""
		l.crew.enter()
		for _, b := range append(l.crew.under(l), l) {
			state += fmt.Sprintf("%+v prio %d max %d capacity %d inline %d below %d muted %v paused %v slow %v lease %d blocked %d called %v reservers %d granted %d tombs %d\n",
				b.count(), b.turn.Prio(), b.max(), b.capacity, b.inline, b.below, b.isMuted(), b.paused, b.isSlow(), numOf(b.tail.Load()), b.blocked.Len(), b.firstBlocked() != nil && b.firstBlocked().called, len(b.reservers), b.granted, b.tombs)
		}
		fault := l.crew.audit()
		l.crew.leave()
		buf := make([]byte, 1<<20)
		t.Fatalf("%s: hangs: %s\n%s\n%s", name, fault, state, buf[:runtime.Stack(buf, true)])
	}
}

// up counts one more, and notes the most there were.
func up(c, m *atomic.Int64) {
	v := c.Add(1)
	for {
		o := m.Load()
		if v <= o || m.CompareAndSwap(o, v) {
			return
		}
	}
}

func rounds(n int) int {
	if testing.Short() {
		return max(1, n/5)
	}
	return n
}

// TestStress: every accepted task runs exactly once, never more than the bound are in flight nor
// more than the maximum run, Wait returns only when all has run, and nothing hangs. Tickets wrap.
func TestStress(t *testing.T) {
	for range rounds(40) {
		max, capacity, spin := 1+rand.IntN(4), rand.IntN(6), []int{0, 30}[rand.IntN(2)]
		name := fmt.Sprintf("max=%d,capacity=%d,spin=%d", max, capacity, spin)
		l := family(LaneConfig{Max: max, Capacity: capacity, First: mask - 100, Timing: Timing(rand.IntN(3))},
			Config{Spin: spin, Min: rand.IntN(max + 1), Eager: rand.IntN(2) == 0, TasksPerWorker: rand.IntN(2) * 100})
		const subs, each = 6, 2000
		ran := make([]atomic.Int32, subs*each)
		var running, most atomic.Int64
		var wg sync.WaitGroup
		for s := range subs {
			wg.Go(func() {
				for i := range each {
					id := s*each + i
					f := func() {
						up(&running, &most)
						ran[id].Add(1)
						if id%64 == 0 {
							runtime.Gosched()
						}
						if id%1000 == 0 {
							time.Sleep(100 * time.Microsecond)
						}
						running.Add(-1)
						if id%777 == 0 {
							panic("x")
						}
					}
					var err error
					if i%3 == 0 {
						err = l.try(f)
					} else {
						err = l.do(f)
					}
					if err != nil {
						ran[id].Store(1)
					}
					if i%500 == 499 {
						l.quiesce()
						if n := l.Snapshot(); n.InFlight > uint64(capacity+max) {
							t.Errorf("%s: %+v", name, n)
						}
						l.sound(t, name)
					}
				}
			})
		}
		within(t, name, l, func() { wg.Wait(); l.quiesce(); l.shut() })
		for i := range ran {
			if ran[i].Load() != 1 {
				t.Fatalf("%s: task %d ran %d times", name, i, ran[i].Load())
			}
		}
		if most.Load() > int64(max) {
			t.Fatalf("%s: %d ran at once", name, most.Load())
		}
	}
}

// acceptsAtOnce is how many of 40 tasks f that 8 goroutines try to submit are accepted.
func (l *Lane) acceptsAtOnce(f func()) int64 {
	var ok atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if l.try(f) == nil {
					ok.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return ok.Load()
}

// TestBound: with every worker blocked exactly capacity + max are accepted.
func TestBound(t *testing.T) {
	for range 100 {
		l := newLane(3, 5, 0)
		block := make(chan bool)
		if n := l.acceptsAtOnce(func() { <-block }); n != 8 {
			t.Fatalf("accepted %d of a bound of 8", n)
		}
		close(block)
		l.shut()
	}
}

func TestClose(t *testing.T) {
	for range 200 {
		l := newLane(2, 50, 0)
		var ran, ok atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					if l.do(func() { ran.Add(1) }) == nil {
						ok.Add(1)
					}
				}
			})
		}
		runtime.Gosched()
		l.close()
		wg.Wait()
		if n := l.Snapshot(); uint64(ok.Load()) != n.Submitted || uint64(ran.Load())+n.Dropped != n.Submitted || n.InFlight != 0 {
			t.Fatalf("accepted %d, ran %d: %+v", ok.Load(), ran.Load(), n)
		}
	}
}

// TestOrder: one worker runs the tasks of a submitter in the order in which they were submitted.
func TestOrder(t *testing.T) {
	l := family(LaneConfig{Max: 1, Capacity: 100, First: mask - 1000}, Config{Spin: 30})
	at := 0
	for i := range 5000 {
		l.do(func() {
			if at != i {
				t.Errorf("task %d after %d", i, at)
			}
			at++
		})
	}
	l.shut()
}

// A task that runs inline because the queue is full is one deeper than the one that has submitted it. It
// tells that, so to ask takes no look at the whole stack, which needs memory for its addresses.
func TestAnInlineTaskIsDeeper(t *testing.T) {
	root := newLane(1, 0, 0)
	defer root.End(true, ErrClosed)
	for _, l := range []*Lane{root, root.sub(t, LaneConfig{Max: 1})} {
		out, in := make(chan struct{}), make(chan struct{})
		if err := l.give(func() { close(in); <-out }, Block); err != nil {
			t.Fatal(err)
		}
		<-in
		for depth := 1; depth <= maxNesting; depth++ {
			ask := func() {
				if n := l.Nesting(context.Background()); n != depth+1 {
					t.Errorf("the task is nested %d deep, want %d", n, depth+1)
				}
				if n := testing.AllocsPerRun(1, func() { l.Nesting(context.Background()) }); n > 0 && l == root {
					t.Errorf("to ask takes %v allocations, want none", n)
				}
			}
			l.callAt(depth, func() {
				below(100, func() {
					if err := l.give(ask, Block); err != nil {
						t.Error(err)
					}
				})
			})
		}
		close(out)
		l.Wait(context.Background(), func() bool { return false })
	}
}

// below calls f with that many frames between.
func below(frames int, f func()) {
	if frames == 0 {
		f()
		return
	}
	below(frames-1, f)
}
