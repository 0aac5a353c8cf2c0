//go:build !poolsim

package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// TestLaneStress is TestStress for a tree of lanes: no lane's maximum is exceeded, nor that of one
// above it.
func TestLaneStress(t *testing.T) {
	for round := range rounds(40) {
		top, spin := 1+rand.IntN(4), []int{0, 30}[rand.IntN(2)]
		root := family(LaneConfig{Max: top, Capacity: rand.IntN(6), First: mask - 100}, Config{Spin: spin, Min: rand.IntN(top + 1), Eager: true})
		lanes, above := []*Lane{root}, []int{-1}
		name := fmt.Sprintf("max=%d,spin=%d,capacity=%d", top, spin, root.capacity)
		for range rand.IntN(6) {
			up := rand.IntN(len(lanes))
			c := LaneConfig{Max: 1 + rand.IntN(top), Capacity: rand.IntN(6), Priority: rand.IntN(2) * rand.IntN(2), Weight: 1 + rand.IntN(3), First: mask - 1000}
			lanes, above = append(lanes, lanes[up].sub(t, c)), append(above, up)
			name += fmt.Sprintf(" %d:{max %d, capacity %d, priority %d}", up, c.Max, c.Capacity, c.Priority)
		}
		const subs, each = 6, 1500
		ran := make([]atomic.Int32, subs*each)
		accepted := make([]atomic.Bool, subs*each)
		running, most := make([]atomic.Int64, len(lanes)), make([]atomic.Int64, len(lanes))
		var wg sync.WaitGroup
		closed := -1
		if len(lanes) > 2 && round%3 == 0 {
			closed = len(lanes) - 1 // nothing is below it
		}
		for s := range subs {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(s), uint64(round)))
				mine := make([][]int, len(lanes)) // submitted since the last Wait
				for i := range each {
					id, k := s*each+i, r.IntN(len(lanes))
					if s == 0 {
						k = 0
					}
					f := func() {
						for a := k; a >= 0; a = above[a] {
							up(&running[a], &most[a])
						}
						ran[id].Add(1)
						if id%64 == 0 {
							runtime.Gosched()
						}
						if id%1000 == 0 {
							time.Sleep(100 * time.Microsecond)
						}
						for a := k; a >= 0; a = above[a] {
							running[a].Add(-1)
						}
						if id%777 == 0 {
							panic("x")
						}
					}
					var err error
					if i%3 == 0 {
						err = lanes[k].try(f)
					} else {
						err = lanes[k].do(f)
					}
					if err == nil {
						accepted[id].Store(true)
						mine[k] = append(mine[k], id)
					} else if err == ErrClosed && k != closed {
						t.Errorf("%s: refused", name)
					}
					if i%200 == 199 {
						lanes[k].quiesce()
						if n := lanes[k].Snapshot(); n.InFlight > lanes[k].capacity+uint64(lanes[k].max()) {
							t.Errorf("%s: lane %d %+v", name, k, n)
						}
						for _, id := range mine[k] {
							if ran[id].Load() != 1 && k != closed {
								t.Errorf("%s: lane %d: Wait returned before %d", name, k, id)
							}
						}
						mine[k] = mine[k][:0]
						root.sound(t, name)
					}
					if closed > 0 && s == 1 && i == each/2 {
						lanes[closed].close()
					}
				}
			})
		}
		within(t, name, root, func() {
			wg.Wait()
			for _, l := range lanes {
				l.quiesce()
			}
			root.shut()
		})
		lost, dropped := 0, 0
		for i := range ran {
			if v := ran[i].Load(); v > 1 || v == 1 && !accepted[i].Load() {
				t.Fatalf("%s: task %d ran %d times", name, i, v)
			} else if v == 0 && accepted[i].Load() {
				lost++
			}
		}
		for k, l := range lanes {
			dropped += int(l.dropped)
			if most[k].Load() > int64(l.max()) {
				t.Fatalf("%s: %d ran at once in lane %d", name, most[k].Load(), k)
			}
		}
		if lost != dropped || dropped > 0 && closed < 0 {
			t.Fatalf("%s: %d did not run, %d dropped", name, lost, dropped)
		}
	}
}

// TestLaneBound: with every worker blocked a lane accepts exactly capacity + max.
func TestLaneBound(t *testing.T) {
	for range 50 {
		root := newLane(3, 5, 0)
		l := root.sub(t, LaneConfig{Max: 2, Capacity: 4})
		block := make(chan bool)
		if n := l.acceptsAtOnce(func() { <-block }); n != 6 {
			t.Fatalf("accepted %d of a bound of 6", n)
		}
		if root.try(func() {}) != nil {
			t.Fatal("the parent refused")
		}
		root.quiesce()
		close(block)
		root.shut()
	}
}

// TestManyLanes: 1,000 lanes with tasks, and each gets its turn.
func TestManyLanes(t *testing.T) {
	root := newLane(4, 10, 0)
	var lanes []*Lane
	up := root
	for i := range 1000 {
		if i%100 == 0 {
			up = root.sub(t, LaneConfig{Max: 3, Capacity: 100, Priority: i % 200 / 100})
			lanes = append(lanes, up)
			continue
		}
		lanes = append(lanes, up.sub(t, LaneConfig{Max: 1 + i%3, Capacity: 100, Weight: 1 + i%7}))
	}
	var n atomic.Int64
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for j := range 20 {
				for i := range lanes {
					lanes[(i*7+g*13)%len(lanes)].do(func() { n.Add(1) })
				}
				if j%5 == 0 {
					root.sound(t, "1,000 lanes")
				}
			}
		})
	}
	within(t, "1,000 lanes", root, func() {
		wg.Wait()
		for _, l := range lanes {
			l.quiesce()
		}
	})
	if n.Load() != 4*20*1000 {
		t.Errorf("%d ran", n.Load())
	}
	// Cells are kept by as many idle lanes as may keep theirs, once the workers have left theirs.
	within(t, "cold lanes", root, func() {
		for keep := keepCold + 1; keep > keepCold; runtime.Gosched() {
			keep = 0
			for _, l := range lanes {
				if l.back.Load() != nil {
					keep++
				}
			}
		}
	})
	root.sound(t, "1,000 lanes")
	root.shut()
	for i, l := range lanes {
		if s := l.Snapshot(); !s.Ended || s.InFlight != 0 || s.Submitted != 80 {
			t.Errorf("lane %d: %+v", i, s)
		}
	}
}

// noSubs runs the collector until no lane below l is left, for a minute at most.
func (l *Lane) noSubs(t *testing.T) {
	t.Helper()
	for left, end := 1, time.Now().Add(time.Minute); left > 0; {
		if time.Now().After(end) {
			t.Fatalf("%d are left", left)
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
		l.crew.enter()
		left = l.crew.subs.Len()
		l.crew.leave()
	}
}

// TestLaneCollected: a lane that is dropped without an end goes away when it is idle; one with
// tasks runs these first.
func TestLaneCollected(t *testing.T) {
	root := newLane(2, 5, 0)
	var n atomic.Int64
	func() {
		for i := range 500 {
			l := root.sub(t, LaneConfig{Max: 2, Capacity: 4})
			k := l.sub(t, LaneConfig{Max: 1, Capacity: 1})
			l.do(func() { n.Add(1) })
			k.do(func() { n.Add(1) })
			if i%2 == 0 {
				l.quiesce()
			}
		}
	}()
	root.noSubs(t)
	if n.Load() != 1000 {
		t.Errorf("%d ran", n.Load())
	}
	root.sound(t, "collected")
	root.shut()
}

// TestALaneThatWasMutedIsCollected when it is dropped.
func TestALaneThatWasMutedIsCollected(t *testing.T) {
	root := newLane(2, 5, 0)
	defer root.shut()
	func() {
		l := root.sub(t, LaneConfig{Max: 1, Capacity: 4})
		gate := make(chan struct{})
		l.do(func() { <-gate })
		l.do(func() {})
		for muted := false; !muted; runtime.Gosched() { // a worker comes to the second task
			root.crew.read(func() { muted = l.isMuted() })
		}
		close(gate)
		l.quiesce()
	}()
	root.noSubs(t)
}

// TestAnEndedLaneIsForgottenOnce: also when it is collected later.
func TestAnEndedLaneIsForgottenOnce(t *testing.T) {
	root := newLane(2, 5, 0)
	l, other := root.sub(t, LaneConfig{Max: 2, Capacity: 4}), root.sub(t, LaneConfig{Max: 2, Capacity: 4})
	l.close()
	l.place.collected()
	root.crew.read(func() {
		if root.holds != 1 {
			t.Errorf("%d lanes keep the root from its end, want 1", root.holds)
		}
	})
	other.close()
	root.shut()
}

// TestMovesStayWhenALaneIsCollected: the number that tells whether a lane makes progress does not change,
// neither if the lane below has run tasks nor if it has not.
func TestMovesStayWhenALaneIsCollected(t *testing.T) {
	root := newLane(2, 5, 0)
	for tasks := range 3 {
		l := root.sub(t, LaneConfig{Max: 2, Capacity: 4})
		for range tasks {
			l.do(func() {})
		}
		l.quiesce()
		was := root.Snapshot().Moves
		root.crew.read(func() { root.crew.forget(l.place) })
		if is := root.Snapshot().Moves; is != was {
			t.Errorf("after %d tasks: %d, it was %d", tasks, is, was)
		}
		root.crew.enter()
		root.crew.leave() // as forget releases root
	}
	root.shut()
}

// TestIdleLaneIsSmall: an idle lane takes at most 1 KB: words on cache lines of their own, and
// no cells. A Lane of 760 bytes fills its size class: 8 bytes more take 128.
func TestIdleLaneIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Lane{}); n > 1024 {
		t.Errorf("a Lane takes %d bytes", n)
	}
	root := newLane(2, 5, 0)
	const n = 10_000 // of these 64 keep their cells
	lanes := make([]*Lane, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range lanes {
		lanes[i] = root.sub(t, LaneConfig{Max: 2, Capacity: 100})
		if i%10 == 0 {
			lanes[i].do(func() {})
		}
	}
	root.quiesce()
	for _, l := range lanes {
		l.quiesce()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes for each idle lane; the struct: %d", each, unsafe.Sizeof(Lane{}))
	if each > 1024 {
		t.Errorf("%d bytes for each idle lane", each)
	}
	runtime.KeepAlive(lanes)
	root.shut()
}

// coolOthers has more lanes of root go idle than may keep their cells, and returns them.
func coolOthers(t *testing.T, root *Lane) (lanes []*Lane) {
	for range 2 * keepCold {
		l := root.sub(t, LaneConfig{Max: 2, Capacity: 4})
		l.do(func() {})
		l.quiesce()
		lanes = append(lanes, l)
	}
	return lanes
}

// TestAPausedLaneKeepsItsCells: submitters may have a lease there, by which they put tasks into the
// cells without the lock.
func TestAPausedLaneKeepsItsCells(t *testing.T) {
	root := newLane(2, 5, 0)
	l := root.sub(t, LaneConfig{Max: 2, Capacity: 100})
	begun, release := make(chan bool), make(chan bool)
	l.do(func() { close(begun); <-release })
	<-begun
	l.Pause()
	close(release)
	l.quiesce()
	for muted := false; !muted; {
		root.sound(t, "paused")
		root.crew.read(func() { muted = l.isMuted() })
	}
	if numOf(l.tail.Load()) == 0 {
		t.Fatal("there is no lease")
	}
	root.crew.enter()
	root.crew.touch(l)
	root.crew.leave()
	others := coolOthers(t, root)
	ran := false
	l.do(func() { ran = true })
	l.Resume()
	l.quiesce()
	if !ran {
		t.Error("a task is lost")
	}
	root.sound(t, "resumed")
	runtime.KeepAlive(others)
	root.shut()
}

// TestColdLanesThatAreGone: the list of those that keep their cells may name lanes that were
// collected.
func TestColdLanesThatAreGone(t *testing.T) {
	root := newLane(2, 5, 0)
	coolOthers(t, root)
	for left := 1; left > 0; {
		runtime.GC()
		root.crew.read(func() { left = root.crew.subs.Len() })
	}
	coolOthers(t, root)
	root.sound(t, "others are gone")
	root.shut()
}

// TestALaneIsNotChargedForTheTimeBefore: a worker may come to a lane that is alone without the lock, and later the lane is
// charged for the time since then at most.
func TestALaneIsNotChargedForTheTimeBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := newLane(1, 5, 1)
		busy, alone := root.sub(t, LaneConfig{Max: 1, Capacity: 5}), root.sub(t, LaneConfig{Max: 1, Capacity: 5})
		time.Sleep(time.Hour)
		stop := make(chan struct{})
		root.Pause()
		busy.do(func() { <-stop })
		alone.do(func() {})
		root.Resume()
		synctest.Wait()
		root.crew.read(func() {
			if root.crew.solo.Load() != alone || time.Duration(alone.charged) < time.Hour {
				t.Errorf("it is charged from %v on", time.Duration(alone.charged))
			}
		})
		close(stop)
		root.shut()
	})
}
