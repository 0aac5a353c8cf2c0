package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// newSub is p.Sub; an error ends the test.
func newSub(t testing.TB, p *shoal.Pool, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	s, err := p.Sub(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSubRunsItsTasksOnTheParentsWorkers(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		for _, limit := range []int{1, 3} {
			for _, capacity := range []int{0, 4, shoal.Unbounded} {
				p := newPool(t, shoal.WithMaxWorkers(workers))
				s := newSub(t, p, shoal.WithMaxWorkers(limit), shoal.WithQueueCapacity(capacity))
				n := rounds(2000)
				y := newTally(2 * n)
				var all, subs gauge
				var wg sync.WaitGroup
				for g := range 2 {
					wg.Go(func() {
						for i := range n {
							must(t, s.Submit(func() {
								all.enter()
								subs.pass()
								all.n.Add(-1)
								y.hit(2*i + g)
							}))
							if i%10 == 0 {
								must(t, p.Submit(all.pass))
							}
						}
					})
				}
				wg.Wait()
				s.Wait()
				y.check(t)
				p.Wait()
				if m := subs.most.Load(); m > int64(limit) {
					t.Errorf("limit %d: %d at once", limit, m)
				}
				if m := all.most.Load(); m > int64(workers) {
					t.Errorf("%d workers: %d at once", workers, m)
				}
				checkIdentity(t, s.Stats())
				checkIdentity(t, p.Stats())
				if c := s.Stats().Completed; c != uint64(2*n) {
					t.Errorf("the sub-pool has done %d of %d", c, 2*n)
				}
				if c := p.Stats().Completed; c != uint64(2*((n+9)/10)) {
					t.Errorf("the parent has done %d of its own %d", c, 2*((n+9)/10))
				}
				must(t, s.Shutdown(bg))
				if st := s.State(); st != shoal.Closed {
					t.Errorf("the sub-pool is %v", st)
				}
				runsMore(t, p, 10)
				shutClean(t, p)
				checkEnded(t, s)
			}
		}
	}
}

func TestSubBoundIsExact(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(3)...)
		s := newSub(t, p, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(5))
		gate := make(chan struct{})
		n := 0
		for s.TrySubmit(func() { <-gate }) == nil {
			n++
			synctest.Wait()
		}
		if n != 7 {
			t.Errorf("%d accepted, want 2 workers and 5 in the queue", n)
		}
		ran := false
		must(t, p.SubmitWait(bg, func(context.Context) error { ran = true; return nil })) // the third worker is free
		if st := p.Stats(); !ran || st.Running != 2 || st.Completed != 1 || st.InFlight != 0 {
			t.Errorf("the parent: %+v", st)
		}
		if st := s.Stats(); st.Running != 2 || st.Queued != 5 || st.Workers != 2 || st.Rejected != 1 {
			t.Errorf("the sub-pool: %+v", st)
		}
		close(gate)
		s.Wait()
		shutClean(t, p)
	})
}

// Each pool of a family counts its own tasks alone: a parent whose workers a sub-pool has
// accepts as many tasks as without.
func TestSubTakesNoRoomFromItsParent(t *testing.T) {
	for _, capacity := range []int{0, 3} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2, shoal.WithQueueCapacity(capacity))...)
			s := newSub(t, p)
			must(t, p.Submit(nothing)) // so that there is an old lease
			synctest.Wait()
			release := hold(t, s, 2)
			var ran atomic.Int32
			room := 2 + capacity
			for range room {
				must(t, p.TrySubmit(func() { ran.Add(1) }))
			}
			wantErr(t, "the task beyond the bound", p.TrySubmit(nothing), shoal.ErrQueueFull)
			synctest.Wait()
			if st := p.Stats(); ran.Load() != 0 || st.InFlight != room || st.Queued != capacity || st.Running != 2 {
				t.Errorf("%d ran while the sub-pool has both workers: %+v", ran.Load(), st)
			}
			release()
			synctest.Wait()
			if n := int(ran.Load()); n != room {
				t.Errorf("%d of %d ran", n, room)
			}
			must(t, p.TrySubmit(nothing))
			shutClean(t, p)
		})
	}
}

func TestSubOfHigherPriorityComesFirst(t *testing.T) {
	for _, floodsParent := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			const workers = 2
			p := newPool(t, fixed(workers)...)
			high := newSub(t, p, shoal.WithPriority(1), shoal.WithName("high"))
			low := newSub(t, p, shoal.WithPriority(-1), shoal.WithName("low"))
			flooded := low
			if floodsParent {
				flooded = p
			}
			var lowRan atomic.Int32
			for range 20_000 {
				must(t, flooded.Submit(func() { time.Sleep(time.Millisecond); lowRan.Add(1) }))
			}
			time.Sleep(10*time.Millisecond + 500*time.Microsecond)
			for range 100 {
				before := lowRan.Load()
				start := time.Now()
				must(t, high.SubmitWait(bg, func(context.Context) error { return nil }))
				if d := time.Since(start); d > time.Millisecond {
					t.Errorf("a high task waited for %v", d)
				}
				if n := lowRan.Load() - before; n > workers {
					t.Errorf("%d low tasks ended while a high one waited", n)
				}
				time.Sleep(1700 * time.Microsecond)
			}
			must(t, p.Close())
		})
	}
}

func TestSubsShareByWeight(t *testing.T) {
	for _, weights := range [][]int{{1, 1}, {1, 3}, {5, 3, 2}} {
		for _, times := range [][]time.Duration{
			{time.Millisecond, time.Millisecond, time.Millisecond},
			{time.Millisecond, 7 * time.Millisecond, 300 * time.Microsecond},
		} {
			for _, workers := range []int{1, 4} {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(workers)...)
					used := make([]time.Duration, len(weights))
					var mu sync.Mutex
					total := 0
					for i, w := range weights {
						total += w
						s := newSub(t, p, shoal.WithWeight(w))
						var task func()
						task = func() {
							time.Sleep(times[i])
							mu.Lock()
							used[i] += times[i]
							mu.Unlock()
							s.Submit(task)
						}
						for range 2 * workers {
							must(t, s.Submit(task))
						}
					}
					length := time.Duration(testpool.Reps(10, 3, 3)) * time.Second
					time.Sleep(length)
					mu.Lock()
					for i, w := range weights {
						want := float64(w) / float64(total)
						got := float64(used[i]) / float64(length*time.Duration(workers))
						if got < want*0.95 || got > want*1.05 {
							t.Errorf("weights %v, tasks of %v, %d workers: number %d has %.3f, want %.3f", weights, times[:len(weights)], workers, i, got, want)
						}
					}
					mu.Unlock()
					p.Close()
				})
			}
		}
	}
}

func TestSubAndItsParentShareByWeight(t *testing.T) {
	for _, test := range []struct {
		perWorker int
		panics    [2]bool // the parent's tasks, the sub-pool's
		time      time.Duration
	}{
		{time: time.Millisecond},
		{time: time.Millisecond, perWorker: 1},
		{time: 10 * time.Microsecond},
		{time: 10 * time.Microsecond, panics: [2]bool{true, false}},
		{time: 10 * time.Microsecond, panics: [2]bool{false, true}},
	} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2, shoal.WithMaxTasksPerWorker(test.perWorker), shoal.WithPanicHandler(func(*shoal.PanicError) {}))...)
			s := newSub(t, p, shoal.WithWeight(3))
			var ran [2]atomic.Int32
			for i, pool := range []*shoal.Pool{p, s} {
				var task func()
				task = func() {
					time.Sleep(test.time)
					ran[i].Add(1)
					pool.Submit(task)
					if test.panics[i] {
						panic("boom")
					}
				}
				for range 5 {
					must(t, pool.Submit(task))
				}
			}
			time.Sleep(time.Duration(testpool.Reps(10_000, 3000, 3000)) * test.time)
			if got := float64(ran[1].Load()) / float64(ran[0].Load()+ran[1].Load()); got < 0.75*0.95 || got > 0.75*1.05 {
				t.Errorf("%+v: the sub-pool of weight 3 has %.3f of the time", test, got)
			}
			p.Close()
		})
	}
}

func TestIdleTimeIsNobodysTurn(t *testing.T) {
	for _, depth := range []int{1, 2} {
		inBubble(t, func(t *testing.T) {
			root := newPool(t, fixed(1)...)
			p := root
			if depth == 2 {
				p = newSub(t, root) // whose workers count their turns too
			}
			s := newSub(t, p)
			must(t, s.SubmitWait(bg, func(context.Context) error { return nil }))
			time.Sleep(time.Hour)
			release := make(chan struct{})
			must(t, p.Submit(func() { <-release }))
			synctest.Wait()
			for range 3000 {
				must(t, s.Submit(func() { time.Sleep(time.Millisecond) }))
			}
			var first uint64
			for range 5 {
				must(t, p.Submit(func() { first = max(first, 1+s.Stats().Completed); time.Sleep(time.Millisecond) }))
			}
			close(release)
			p.Wait()
			if first == 0 || first > 20 {
				t.Errorf("depth %d: the pool's five tasks had started after %d of its sub-pool", depth, first)
			}
			must(t, root.Close())
		})
	}
}

func TestSubIsWorkConserving(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(4)...)
		a := newSub(t, p, shoal.WithWeight(1))
		newSub(t, p, shoal.WithWeight(1000)) // has nothing to do
		start := time.Now()
		for range 400 {
			must(t, a.Submit(func() { time.Sleep(time.Second) }))
		}
		a.Wait()
		if d := time.Since(start); d != 100*time.Second {
			t.Errorf("400 tasks of 1 s on 4 workers took %v", d)
		}
		shutClean(t, p)
	})
}

func TestSubCloseLeavesTheParentOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		for _, end := range []func(*shoal.Pool) error{(*shoal.Pool).Close, shutdown} {
			s := newSub(t, p)
			must(t, end(s)) // the parent's worker is busy: nothing to wait for
			wantErr(t, "Submit", s.Submit(nothing), shoal.ErrClosed)
		}
		s := newSub(t, p)
		must(t, s.Submit(nothing))
		must(t, s.Close()) // what waits for a worker of the parent is dropped at once
		if st := s.Stats(); st.Dropped != 1 {
			t.Errorf("%+v", st)
		}
		release()
		runsMore(t, p, 10)
		shutClean(t, p)
	})
}

func TestSubEndsWithItsParent(t *testing.T) {
	inBubble(t, func(t *testing.T) { // gracefully
		p := newPool(t, fixed(2)...)
		s := newSub(t, p)
		deep := newSub(t, s)
		y := newTally(90)
		for i := range 30 {
			for k, pool := range []*shoal.Pool{p, s, deep} {
				must(t, pool.Submit(func() { time.Sleep(time.Second); y.hit(3*i + k) }))
			}
		}
		shutClean(t, p)
		y.check(t)
		checkEnded(t, s)
		checkEnded(t, deep)
		if _, err := p.Sub(); err != shoal.ErrClosed {
			t.Errorf("Sub of a closed pool: %v", err)
		}
	})
	inBubble(t, func(t *testing.T) { // at once
		p := newPool(t, fixed(1)...)
		s := newSub(t, p)
		f := shoal.Go(bg, s, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) })
		synctest.Wait()
		g := shoal.Go(bg, s, one)
		closeAll(t, p)
		wantResult(t, "running", f, 0, shoal.ErrClosed)
		wantResult(t, "queued", g, 0, shoal.ErrDropped)
		checkEnded(t, s)
	})
	inBubble(t, func(t *testing.T) { // when the parent's context ends, or its own
		ctx, cancel := context.WithCancel(bg)
		p := newPool(t, fixed(1)...)
		s := newSub(t, p, shoal.WithContext(ctx))
		cancel()
		<-s.Done()
		runsMore(t, p, 1)
		shutClean(t, p)
	})
}

func TestSubPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		s := newSub(t, p)
		var ran atomic.Int32
		task := func() { time.Sleep(time.Second); ran.Add(1) }
		for range 100 {
			must(t, s.Submit(task))
		}
		time.Sleep(1500 * time.Millisecond)
		s.Pause()
		time.Sleep(10 * time.Second)
		if n := ran.Load(); n != 4 || s.State() != shoal.Paused {
			t.Errorf("paused, and %d have run, want 4", n)
		}
		runsMore(t, p, 10)
		s.Resume()
		time.Sleep(1500 * time.Millisecond)
		p.Pause() // calls the workers back
		time.Sleep(10 * time.Second)
		if n := ran.Load(); n != 8 {
			t.Errorf("the parent is paused, and %d have run, want 8", n)
		}
		p.Resume()
		must(t, p.Resize(0, 1))
		time.Sleep(20 * time.Second)
		if st := p.Stats(); st.Workers != 1 {
			t.Errorf("the parent is to have one worker: %+v", st)
		}
		must(t, s.Resize(0, 5))
		must(t, p.Resize(5, 5))
		s.Wait()
		if n := ran.Load(); n != 100 {
			t.Errorf("%d of 100 have run", n)
		}
		shutClean(t, p)
	})
}

// TestAPriorityCountsAmongThePoolsOfOneParent: that of a sub-pool of a sub-pool means nothing to the root's other
// sub-pools, whose turn is at the next task.
func TestAPriorityCountsAmongThePoolsOfOneParent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		inner := newSub(t, newSub(t, p, shoal.WithPriority(1)), shoal.WithPriority(7))
		other := newSub(t, p, shoal.WithPriority(5))
		n, then := 0, 0
		p.Pause()
		must(t, p.Submit(nothing)) // so that the worker takes turns
		for range 100 {
			must(t, inner.Submit(func() {
				if n++; n == 10 {
					must(t, other.Submit(func() { then = n }))
				}
			}))
		}
		p.Resume()
		inner.Wait()
		other.Wait()
		shutClean(t, p)
		if then != 10 {
			t.Errorf("the task of the pool of priority 5 ran after %d of those of priority 1, and not after 10", then)
		}
	})
}

func TestSubOptions(t *testing.T) {
	p := newPool(t)
	for name, o := range map[string]shoal.Option{
		"WithMinWorkers":        shoal.WithMinWorkers(1),
		"WithSizing":            shoal.WithSizing(shoal.Eager()),
		"WithIdleTimeout":       shoal.WithIdleTimeout(time.Second),
		"WithSpin":              shoal.WithSpin(3),
		"WithMaxTasksPerWorker": shoal.WithMaxTasksPerWorker(1),
		"WithThreadPinning":     shoal.WithThreadPinning(),
		"WithWorkerHooks":       shoal.WithWorkerHooks(func(int) {}, nil),
		"WithCrashOnPanic":      shoal.WithCrashOnPanic(),
		"WithWeight(0)":         shoal.WithWeight(0),
		"WithPriority(2097152)": shoal.WithPriority(1 << 21),
		"WithMaxWorkers(0)":     shoal.WithMaxWorkers(0),
	} {
		if _, err := p.Sub(o); !errors.Is(err, shoal.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []shoal.Option{shoal.WithPriority(1), shoal.WithWeight(2)} {
		if _, err := shoal.New(o); !errors.Is(err, shoal.ErrConfig) {
			t.Errorf("New: %v", err)
		}
	}
	var none *shoal.Pool
	for _, bad := range []*shoal.Pool{none, new(shoal.Pool)} {
		if _, err := bad.Sub(); err != shoal.ErrClosed {
			t.Errorf("Sub of no pool: %v", err)
		}
	}
	s := newSub(t, p, shoal.WithName("tenant"))
	if st := s.Stats(); st.Name != "tenant" || st.MaxWorkers != p.Stats().MaxWorkers {
		t.Errorf("%+v", st)
	}
	wantErr(t, "Resize", s.Resize(1, 2), shoal.ErrConfig)
	shutClean(t, p)
}

func TestSubFaults(t *testing.T) {
	noLog(t)
	for _, workers := range []int{1, 3} {
		var reported atomic.Int32
		p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithPanicHandler(func(*shoal.PanicError) { reported.Add(1) }))
		s := newSub(t, p)
		n := rounds(300)
		y := newTally(3 * n)
		for i := range n {
			must(t, s.Submit(func() { y.hit(3 * i); panic(errBoom) }))
			must(t, s.Submit(func() { y.hit(3*i + 1); runtime.Goexit() }))
			must(t, s.Submit(y.task(3*i+2)))
		}
		s.Wait()
		y.check(t)
		if st := s.Stats(); st.Failed != uint64(2*n) || st.Completed != uint64(3*n) {
			t.Errorf("the sub-pool: %+v", st)
		}
		if st := p.Stats(); st.Failed != 0 || st.Completed != 0 || reported.Load() != int32(n) {
			t.Errorf("the parent: %+v, %d panics reported", st, reported.Load())
		}
		runsMore(t, p, 10)
		shutClean(t, p)
	}
}

func TestSubTasksThatWaitForEachOtherNeedOneWorker(t *testing.T) {
	for _, limit := range []int{1, 2} {
		for workers := 1; workers <= 2; workers++ {
			p := newPool(t, shoal.WithMaxWorkers(workers))
			// A task waits only for pools that come later, and a task of a sub-pool of a
			// sub-pool counts against the maximum of both. So no tasks wait in a circle.
			mid := newSub(t, p, shoal.WithMaxWorkers(limit))
			pools := []*shoal.Pool{p, mid, newSub(t, mid, shoal.WithMaxWorkers(limit)), newSub(t, p, shoal.WithMaxWorkers(limit), shoal.WithQueueCapacity(1))}
			var running gauge
			var family func(depth, from int) func(context.Context) (int, error)
			family = func(depth, from int) func(context.Context) (int, error) {
				return func(ctx context.Context) (int, error) {
					if depth == 0 {
						running.pass()
						return 1, nil
					}
					n := 0
					var fs []*shoal.Future[int]
					for i, q := range pools {
						if limit < workers && i < from {
							continue // tasks that wait for each other's place wait for ever
						}
						fs = append(fs, shoal.Go(ctx, q, family(depth-1, i)))
					}
					for _, f := range fs {
						v, err := f.Wait(ctx)
						if err != nil {
							return n, err
						}
						n += v
					}
					return n, nil
				}
			}
			for _, q := range pools {
				n, err := shoal.Go(bg, q, family(5, 0)).Wait(bg)
				if err != nil || n < 10 || limit >= workers && n != 1<<10 {
					t.Errorf("limit %d, %d workers: %d, %v", limit, workers, n, err)
				}
			}
			if m := running.most.Load(); m > int64(workers) {
				t.Errorf("limit %d, %d workers: %d leaves at once", limit, workers, m)
			}
			shutClean(t, p)
		}
	}
}

func TestSubOfLimitOneNeverRunsTwo(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(4))
	serial := newSub(t, p, shoal.WithMaxWorkers(1))
	var running atomic.Int32
	g := p.Group(bg)
	for range rounds(2000) {
		g.Go(func(ctx context.Context) error {
			_, err := shoal.Go(ctx, serial, func(context.Context) (int, error) {
				if running.Add(1) != 1 {
					t.Error("two at once")
				}
				runtime.Gosched()
				running.Add(-1)
				return 0, nil
			}).Wait(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	shutClean(t, p)
}

func TestSubWaitInATaskOfTheFamily(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		s := newSub(t, p)
		must(t, s.SubmitWait(bg, func(ctx context.Context) error {
			wantErr(t, "the parent's WaitContext", p.WaitContext(ctx), shoal.ErrWouldDeadlock)
			must(t, p.Submit(nothing)) // there is something to wait for
			wantErr(t, "the parent's WaitContext, without the context", p.WaitContext(bg), shoal.ErrWouldDeadlock)
			wantErr(t, "the parent's Shutdown", p.Shutdown(ctx), shoal.ErrWouldDeadlock)
			wantErr(t, "its own WaitContext", s.WaitContext(ctx), shoal.ErrWouldDeadlock)
			return nil
		}))
		// A task of the parent does not wait for free capacity of a sub-pool.
		tight := newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0))
		n := 0
		must(t, p.SubmitWait(bg, func(ctx context.Context) error {
			for range 5 {
				must(t, tight.Submit(func() { n++ }))
			}
			return nil
		}))
		tight.Wait()
		if n != 5 {
			t.Errorf("%d of 5 ran", n)
		}
		shutClean(t, p)
	})
}

func TestSubKeyedAndLocal(t *testing.T) {
	p := newPool(t, fixed(3)...)
	s := newSub(t, p)
	k := shoal.NewKeyed[int](s)
	j := newJournal(3)
	for i := range rounds(500) {
		for key := range 3 {
			must(t, k.Submit(key, j.task(key, i, func() {})))
		}
	}
	s.Wait()
	j.checkOrder(t, rounds(500))
	var r resources
	l := shoal.NewLocal(p, r.open, r.close)
	g := s.Group(bg)
	for range 1000 {
		g.Go(func(ctx context.Context) error { _, err := l.Get(ctx); return err })
	}
	must(t, g.Wait())
	if n := r.opened.Load(); n > 3 || r.closed.Load() != 0 {
		t.Errorf("3 workers: %d opened, %d closed", n, r.closed.Load())
	}
	shutClean(t, p)
	if r.opened.Load() != r.closed.Load() {
		t.Errorf("%d opened, %d closed", r.opened.Load(), r.closed.Load())
	}
}

func TestSubsWhateverHappens(t *testing.T) {
	noLog(t)
	for round := range rounds(300) {
		r := rand.New(rand.NewPCG(uint64(round), 6))
		p := newPool(t, shoal.WithMaxWorkers(1+r.IntN(3)), shoal.WithQueueCapacity(r.IntN(5)), shoal.WithIdleTimeout([]time.Duration{0, shoal.Forever}[r.IntN(2)]))
		pools := []*shoal.Pool{p}
		for range 1 + r.IntN(3) {
			pools = append(pools, newSub(t, pools[r.IntN(len(pools))], shoal.WithMaxWorkers(1+r.IntN(3)), shoal.WithQueueCapacity(r.IntN(5)),
				shoal.WithFullPolicy(allPolicies[r.IntN(len(allPolicies))]), shoal.WithPriority(r.IntN(3)), shoal.WithWeight(1+r.IntN(3))))
		}
		tallies := make([]*tally, len(pools))
		for i := range tallies {
			tallies[i] = newTally(300)
		}
		var wg sync.WaitGroup
		for g := range 3 {
			seed := r.Uint64()
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 7))
				for i := range 100 {
					k, id, fault := r.IntN(len(pools)), 100*g+i, r.IntN(20)
					q, y := pools[k], tallies[k]
					other := pools[r.IntN(len(pools))]
					err := q.Submit(func() {
						y.hit(id)
						switch fault {
						case 0:
							panic(errBoom)
						case 1:
							shoal.Go(bg, other, one)
						case 2, 3:
							runtime.Gosched()
						}
					})
					y.note(id, err)
				}
			})
		}
		end := r.IntN(5)
		victim := pools[r.IntN(len(pools))]
		wg.Go(func() {
			runtime.Gosched()
			switch end {
			case 0:
				victim.Close()
			case 1:
				victim.Pause()
				runtime.Gosched()
				victim.Resume()
			case 2:
				victim.Resize(0, 1+round%3)
			case 3:
				victim.Shutdown(bg)
			}
		})
		wg.Wait()
		p.Shutdown(bg)
		testpool.NoGoroutines(t, "after Shutdown")
		for k, q := range pools {
			s := q.Stats()
			checkIdentity(t, s)
			if s.InFlight != 0 || s.Running != 0 || s.Workers != 0 {
				t.Errorf("round %d: pool %d: %+v", round, k, s)
			}
			for i := range tallies[k].words {
				if n := tallies[k].ran(i); n > 1 || n == 1 && !tallies[k].accepted(i) {
					t.Errorf("round %d: task %d of pool %d ran %d times", round, i, k, n)
				} else if n == 0 && tallies[k].accepted(i) && s.Dropped == 0 {
					t.Errorf("round %d: task %d of pool %d is lost", round, i, k)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

func TestSubWhoWaitsForAPlaceIsToldOfOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		s := newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithPriority(-1))
		must(t, s.Submit(func() { time.Sleep(time.Second) })) // it has the one place
		synctest.Wait()
		b := shoal.Go(bg, p, func(ctx context.Context) (int, error) { return shoal.Go(ctx, s, one).Wait(ctx) })
		synctest.Wait()
		// The worker of the sub-pool is called back for c, which waits for b.
		c := shoal.Go(bg, p, func(ctx context.Context) (int, error) { return b.Wait(ctx) })
		wantResult(t, "c", c, 1, nil)
		shutClean(t, p)
	})
	inBubble(t, func(t *testing.T) { // while the sub-pool is paused no worker takes its tasks
		p := newPool(t, fixed(2)...)
		s := newSub(t, p, shoal.WithMaxWorkers(1))
		must(t, s.Submit(func() { time.Sleep(time.Second) }))
		synctest.Wait()
		b := shoal.Go(bg, p, func(ctx context.Context) (int, error) { return shoal.Go(ctx, s, one).Wait(ctx) })
		synctest.Wait()
		s.Pause()
		wantResult(t, "b", b, 1, nil)
		shutClean(t, p)
	})
	inBubble(t, func(t *testing.T) { // the same with groups, and with maps
		for _, wait := range []func(ctx context.Context, s *shoal.Pool) error{
			func(ctx context.Context, s *shoal.Pool) error {
				g := s.Group(ctx)
				g.Go(fine)
				return g.Wait()
			},
			func(ctx context.Context, s *shoal.Pool) error {
				return shoal.ForEach(ctx, s, upTo(3), func(context.Context, int) error { return nil })
			},
		} {
			p := newPool(t, fixed(2)...)
			s := newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithPriority(-1))
			must(t, s.Submit(func() { time.Sleep(time.Second) }))
			synctest.Wait()
			b := shoal.Go(bg, p, func(ctx context.Context) (int, error) { return 1, wait(ctx, s) })
			synctest.Wait()
			c := shoal.Go(bg, p, func(ctx context.Context) (int, error) { return b.Wait(ctx) })
			wantResult(t, "c", c, 1, nil)
			shutClean(t, p)
		}
	})
}

func TestSubOfASubPoolLeavesItsParentItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		q := newSub(t, p, shoal.WithMaxWorkers(3))
		s, sibling := newSub(t, q), newSub(t, q)
		var task func()
		task = func() { time.Sleep(time.Millisecond); s.Submit(task) }
		must(t, s.Submit(task))
		must(t, s.Submit(task))
		time.Sleep(10 * time.Millisecond)
		for _, pool := range []*shoal.Pool{q, sibling} {
			start := time.Now()
			must(t, pool.SubmitWait(bg, func(context.Context) error { return nil }))
			if d := time.Since(start); d > 5*time.Millisecond {
				t.Errorf("a task waited for %v", d)
			}
		}
		must(t, p.Close())
	})
}

func TestSubEndsWithoutItsParentsWorkers(t *testing.T) {
	ended := func(t *testing.T, q *shoal.Pool) {
		t.Helper()
		select {
		case <-q.Done():
		case <-time.After(time.Hour):
			t.Error("a sub-pool with nothing to do waits for a worker of its parent")
		}
	}
	for name, run := range map[string]func(t *testing.T, ctx context.Context, q, s *shoal.Pool){
		"a task helps": func(t *testing.T, ctx context.Context, q, s *shoal.Pool) {
			f := shoal.Go(ctx, s, func(context.Context) (int, error) { return 0, nil })
			q.Drain()
			f.Wait(ctx)
			ended(t, q)
		},
		"a task is canceled": func(t *testing.T, ctx context.Context, q, s *shoal.Pool) {
			f := shoal.Go(ctx, s, func(context.Context) (int, error) { return 0, nil })
			q.Drain()
			f.Cancel()
			ended(t, q)
		},
		"the lower one is closed": func(t *testing.T, _ context.Context, q, s *shoal.Pool) {
			must(t, s.Submit(func() {}))
			q.Drain()
			must(t, s.Close())
			ended(t, q)
		},
		"the upper one drains": func(t *testing.T, _ context.Context, q, s *shoal.Pool) {
			must(t, s.Submit(func() {}))
			must(t, s.Close())
			q.Drain()
			ended(t, q)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1)...)
				q := newSub(t, p, shoal.WithMaxWorkers(2))
				s := newSub(t, q, shoal.WithMaxWorkers(2))
				must(t, p.SubmitWait(bg, func(ctx context.Context) error { run(t, ctx, q, s); return nil }))
				must(t, p.Close())
			})
		})
	}
}

func TestSubAndFewLongTasksOfItsParentShare(t *testing.T) {
	for _, test := range []struct {
		pause time.Duration // between the parent's tasks
		least float64
	}{
		{0, 0.5 * 0.95},
		// None of the parent's tasks waits when a turn of its own ends: what it owes for
		// that it keeps as long as another one runs, and only so long.
		{time.Microsecond, 0.25},
	} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2)...)
			s := newSub(t, p)
			const short, long = 100 * time.Microsecond, 10 * time.Millisecond
			length := time.Duration(testpool.Reps(10, 2, 2)) * time.Second
			var used atomic.Int64
			var task func()
			task = func() { time.Sleep(short); used.Add(int64(short)); s.Submit(task) }
			for range 4 {
				must(t, s.Submit(task))
			}
			ctx, cancel := context.WithCancel(bg)
			var submitters sync.WaitGroup
			for i := range 2 {
				submitters.Go(func() {
					time.Sleep(time.Duration(i) * long / 2)
					for ctx.Err() == nil {
						p.SubmitWait(bg, func(context.Context) error { time.Sleep(long); return nil })
						time.Sleep(test.pause)
					}
				})
			}
			time.Sleep(length)
			if got := float64(used.Load()) / float64(2*length); got < test.least {
				t.Errorf("with pauses of %v, the sub-pool has %.3f of the time, want %.3f", test.pause, got, test.least)
			}
			cancel()
			submitters.Wait()
			p.Close()
		})
	}
}

func TestShutdownCountsTheTurnsOfSubPoolsOnce(t *testing.T) {
	for _, spawns := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2)...)
			release := make(chan struct{})
			if spawns {
				s := newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
				must(t, s.Submit(func() { <-release }))
				must(t, s.Submit(func() { <-release }))
			} else {
				k := shoal.NewKeyed[int](newSub(t, p))
				must(t, k.Submit(1, func() { time.Sleep(time.Second) }))
				must(t, k.Submit(1, func() { <-release }))
				must(t, k.Submit(2, func() { <-release }))
				time.Sleep(2 * time.Second)
			}
			synctest.Wait()
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			var incomplete *shoal.ShutdownError
			if err := p.Shutdown(ctx); !errors.As(err, &incomplete) || incomplete.Running != 2 {
				t.Errorf("spawned %v: two tasks run: %v", spawns, err)
			}
			close(release)
			<-p.Done()
		})
	}
}

func TestTaskAgeAfterASubPoolWasServed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		q := newSub(t, p)
		s := newSub(t, q)
		for range 2 { // the first task of a pool is timed
			must(t, q.SubmitWait(bg, func(context.Context) error { return nil }))
		}
		must(t, s.Submit(func() { time.Sleep(time.Hour) }))
		synctest.Wait()
		for range q.Workers() {
		}
		must(t, q.Submit(func() { time.Sleep(time.Second) })) // by the same worker
		time.Sleep(time.Hour + time.Second/2)
		seen := 0
		for w := range q.Workers() {
			seen++
			if w.TaskAge > time.Second {
				t.Errorf("a task of half a second is %v old", w.TaskAge)
			}
		}
		if seen == 0 {
			t.Error("no workers")
		}
		p.Wait()
		must(t, p.Shutdown(bg))
	})
}

// With Auto a searching worker yields as long as the other workers make progress, but not while a task
// waits in a lane that no worker serves.
func TestNobodyStarvesBesideASubPoolThatKeepsTheCPUsBusy(t *testing.T) {
	const rounds, most = 20, 40_000
	for name, priority := range map[string]int{"of the same priority": 0, "of a higher one, with a limit": 1} {
		for _, procs := range []int{1, runtime.GOMAXPROCS(0)} {
			t.Run(fmt.Sprintf("%s, %d CPUs", name, procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				p := openPool(t, shoal.WithMaxWorkers(1000))
				a, b := newSub(t, p, shoal.WithPriority(priority), shoal.WithMaxWorkers(2*procs+2)), newSub(t, p)
				var n atomic.Int64
				keepFull(t, a, 8*procs, &n, most)
				for range rounds {
					must(t, p.SubmitWait(bg, fine))
					must(t, b.SubmitWait(bg, fine))
				}
				if n := n.Load(); n >= most {
					t.Errorf("the sub-pool did %d tasks before %d of others had their turn", n, 2*rounds)
				}
				n.Store(most)
				a.Wait()
			})
		}
	}
}

// A task behind one that blocks does not wait until a sub-pool of higher priority, which keeps its
// own workers busy, has nothing left to do: what these begin is no progress for it.
func TestNobodyStarvesBehindATaskThatBlocksBelowAHigherPriority(t *testing.T) {
	const most, allowed = 20_000, 4
	for _, name := range []string{"Auto", "a Sizer"} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			sizing := shoal.Auto()
			if name != "Auto" {
				sizing = sizerFunc(func(s shoal.Sizing) bool {
					if s.Workers < allowed {
						return true
					}
					for was := n.Load(); n.Load() == was && was < most; { // it is asked again after a task of the others
						runtime.Gosched()
					}
					return false
				})
			}
			p := openPool(t, shoal.WithMaxWorkers(64), shoal.WithSizing(sizing))
			a := newSub(t, newSub(t, p, shoal.WithPriority(1), shoal.WithMaxWorkers(allowed-1)))
			b := newSub(t, newSub(t, p))
			goOn := hold(t, a, 1)
			defer hold(t, b, 1)()
			keepFull(t, a, 8, &n, most)
			must(t, b.SubmitWait(bg, fine))
			if n := n.Load(); n >= most {
				t.Errorf("the sub-pool of higher priority did %d tasks before the task began", n)
			}
			n.Store(most)
			goOn()
			a.Wait()
		})
	}
}

// A task of lower priority adds no workers where those of higher priority would take them all.
func TestATaskOfLowerPriorityAddsNoWorkersForTheOthers(t *testing.T) {
	const most, allowed = 8_000, 2
	p := openPool(t, shoal.WithMaxWorkers(1000), shoal.WithSizing(sizerFunc(func(s shoal.Sizing) bool { return s.Workers < allowed })))
	low := newSub(t, p, shoal.WithPriority(-1))
	var n atomic.Int64
	keepFull(t, p, 2000, &n, most)
	must(t, low.SubmitWait(bg, func(context.Context) error {
		if s := p.Stats(); n.Load() < most || s.PeakWorkers > 200 {
			t.Errorf("after %d tasks of higher priority there were %d workers; the Sizer wants %d", n.Load(), s.PeakWorkers, allowed)
		}
		return nil
	}))
}

// A task that waits for a place in a sub-pool gets it when a worker leaves, also if cells were freed there meanwhile.
func TestAWaiterGetsItsPlaceAfterCellsWereFreed(t *testing.T) {
	leaving, goOn := make(chan struct{}, 100), make(chan struct{})
	var armed atomic.Bool
	p := newPool(t, fixed(2, shoal.WithMaxTasksPerWorker(1), shoal.WithWorkerHooks(nil, func(int) {
		if armed.Load() {
			leaving <- struct{}{}
			<-goOn
		}
	}))...)
	sub := newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2), shoal.WithPriority(-1))
	start, waiting, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	one := func(context.Context) (int, error) { return 1, nil }
	must(t, p.SubmitContext(bg, func(ctx context.Context) {
		<-start
		u := shoal.Go(ctx, sub, one)
		close(waiting)
		u.Wait(ctx)
		close(done)
	}))
	for range 20 {
		must(t, sub.SubmitWait(bg, fine))
		time.Sleep(2 * time.Millisecond)
	}
	began, gate := make(chan struct{}), make(chan struct{})
	must(t, sub.Submit(func() { close(began); <-gate }))
	<-began
	close(start)
	<-waiting
	time.Sleep(50 * time.Millisecond) // it finds no place
	for range 8 {
		u, err := shoal.TryGo(bg, sub, one)
		must(t, err)
		u.Cancel()
	}
	armed.Store(true)
	close(gate)
	<-leaving // the worker; no other one comes
	giveUp := make(chan struct{})
	must(t, p.Submit(func() {
		select {
		case <-done:
		case <-giveUp:
		}
	}))
	close(goOn)
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("the task waits in vain")
	}
	close(giveUp)
	shutClean(t, p)
}

// The parent may have more workers, but has no CPU for them: those that serve the sub-pool
// are to take turns.
func TestOwnTasksHaveTheirShareBesideASubPoolThatKeepsTheCPUsBusy(t *testing.T) {
	const tasks, own = 10_000, 300
	for _, capacity := range []int{0, 1000} {
		p := openPool(t, shoal.WithMaxWorkers(500), shoal.WithQueueCapacity(capacity))
		s := newSub(t, p, shoal.WithQueueCapacity(tasks))
		for range tasks {
			must(t, s.Submit(compute))
		}
		var before, after int64 // tasks of the sub-pool
		var left atomic.Int64
		left.Store(own)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range own / 10 {
					must(t, p.Submit(func() {
						compute()
						if left.Add(-1) == 0 { // here, since the test may have to wait for a CPU
							after = int64(s.Stats().Completed)
						}
					}))
				}
			})
		}
		wg.Wait()
		before = int64(s.Stats().Completed)
		p.Wait()
		if n := after - before; n > tasks/2 {
			t.Errorf("capacity %d: the sub-pool did %d tasks before %d of its parent's were done", capacity, n, own)
		}
		must(t, s.Close())
	}
}

// A task that submits to a full pool of its family, and runs what it waits for itself, does not
// change the order of what waits there, and everything is counted once.
func TestSubKeepsTheOrderOfWhatWaitsAmongTasksThatWereClaimed(t *testing.T) {
	for _, capacity := range []int{0, 1, 16} {
		for _, workers := range []int{1, 3} {
			p := newPool(t, fixed(workers)...)
			s := newSub(t, p, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity), shoal.WithTiming(shoal.TimingFull))
			const users = 3
			n := testpool.Reps(500, 150, 100)
			var orders [users]struct {
				sync.Mutex
				ran []int
			}
			var claimed atomic.Int64
			g := p.Group(bg)
			for u := range users {
				g.Go(func(ctx context.Context) error {
					for i := range n {
						if err := s.Submit(func() {
							if workers == 1 { // else two tasks may run side by side
								orders[u].Lock()
								orders[u].ran = append(orders[u].ran, i)
								orders[u].Unlock()
							}
						}); err != nil {
							return err
						}
						for range 3 {
							if _, err := shoal.Go(ctx, s, func(context.Context) (int, error) { claimed.Add(1); return 0, nil }).Wait(ctx); err != nil {
								return err
							}
						}
						shoal.Go(ctx, s, func(context.Context) (int, error) { return 0, nil }).Cancel()
					}
					return nil
				})
			}
			must(t, g.Wait())
			s.Wait()
			for u := range users {
				if ran := orders[u].ran; workers == 1 && (len(ran) != n || !slices.IsSorted(ran)) {
					t.Errorf("capacity %d: %d of %d tasks ran, in order: %t", capacity, len(ran), n, slices.IsSorted(ran))
				}
			}
			st := s.Stats()
			checkIdentity(t, st)
			if want := uint64(users * n * 5); st.Submitted != want || st.InFlight != 0 || claimed.Load() != int64(users*n*3) {
				t.Errorf("capacity %d, %d workers: %d claimed, want %d submitted: %+v", capacity, workers, claimed.Load(), want, st)
			}
			shutClean(t, p)
		}
	}
}

// The end of a sub-pool takes nothing away from the progress of its parent: here a task of the
// sub-pool ends at the moment in which one of the parent's begins.
func TestTheEndOfASubPoolHidesNoProgress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const ms = time.Millisecond
		p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithStallAfter(30*ms))
		q := newSub(t, p)
		s := newSub(t, q)
		must(t, s.Submit(sleep(30*ms)))
		must(t, p.Submit(sleep(45*ms)))
		synctest.Wait()
		must(t, p.Submit(sleep(100*ms)))
		must(t, p.Submit(sleep(ms)))
		s.Drain()
		q.Drain()
		for range 5 {
			time.Sleep(10 * ms)
			synctest.Wait()
			if st := p.Stats(); st.Stalls > 0 || st.Stalled > 30*ms {
				t.Errorf("stalled for %v, %d times", st.Stalled, st.Stalls)
			}
		}
		shutDown(t, p)
	})
}

// What Shutdown reports is of the sub-pools too: whether or not the pool itself has tasks.
func TestShutdownReportsTheTasksOfSubPools(t *testing.T) {
	for own := range 2 {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(8))
			q := newSub(t, p)
			s := newSub(t, q)
			closed := newSub(t, p)
			release := make(chan struct{})
			for _, in := range []*shoal.Pool{q, s, s, closed} {
				must(t, in.Submit(func() { <-release }))
			}
			if own > 0 {
				must(t, p.Submit(func() { <-release }))
			}
			synctest.Wait()
			s.Pause()
			q.Pause()
			must(t, s.Submit(func() {}))
			must(t, q.Submit(func() {}))
			go closed.Close() // it runs a task still, which counts, but was ended for another reason
			synctest.Wait()
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			want := func(pool string, err error, dropped, running int) {
				var e *shoal.ShutdownError
				if !errors.As(err, &e) || e.Dropped != dropped || e.Running != running {
					t.Errorf("%d tasks of its own, Shutdown of %s: %v", own, pool, err)
				}
			}
			err := p.Shutdown(ctx)
			want("p", err, 0, 4+own)
			close(release)
			synctest.Wait()
			<-p.Done()
			want("p, once more", p.Shutdown(bg), 0, 4+own)
			want("q", q.Shutdown(bg), 0, 3)
			want("s", s.Shutdown(bg), 0, 2)
		})
	}
}

// The first end that cuts something is what every Shutdown reports, also one that gives up later.
func TestALaterShutdownReportsTheFirstCut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		s := newSub(t, p)
		release := make(chan struct{})
		must(t, s.Submit(func() { <-release }))
		synctest.Wait()
		must(t, s.Submit(func() {}))
		must(t, p.Submit(func() {}))
		go p.Close()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		for _, in := range []*shoal.Pool{p, p, s} {
			var e *shoal.ShutdownError
			if err := in.Shutdown(ctx); !errors.As(err, &e) || e.Running != 1 || e.Cause != shoal.ErrClosed || e.Dropped != map[*shoal.Pool]int{p: 2, s: 1}[in] {
				t.Errorf("Shutdown = %v", err)
			}
		}
		close(release)
		<-p.Done()
	})
}

// A Shutdown that gives up after a Close that dropped nothing reports what runs, in sub-pools too.
func TestAShutdownAfterCloseReportsSubPools(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		release := make(chan struct{})
		must(t, newSub(t, p).Submit(func() { <-release }))
		synctest.Wait()
		go p.Close()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		var e *shoal.ShutdownError
		if err := p.Shutdown(ctx); !errors.As(err, &e) || e.Running != 1 || e.Dropped != 0 || e.Cause != context.DeadlineExceeded {
			t.Errorf("Shutdown = %v", err)
		}
		close(release)
		<-p.Done()
	})
}

// Sub-pools that come with one task each share the time with one that has a backlog, and among
// themselves they are served in the order in which they came.
func TestSubsThatComeShareWithABacklog(t *testing.T) {
	const others = 20 // that wait at a time
	for _, lasting := range []int{0, 500} {
		for _, weight := range []int{1, 100} {
			for _, workers := range []int{1, 4} {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(workers)...)
					var ran, came, begun atomic.Int64
					s := newSub(t, p, shoal.WithWeight(weight))
					var task func()
					task = func() {
						time.Sleep(time.Millisecond)
						ran.Add(1)
						s.Submit(task)
					}
					for range 2 * workers {
						must(t, s.Submit(task))
					}
					var subs []*shoal.Pool
					for range lasting {
						subs = append(subs, newSub(t, p))
					}
					var come func()
					come = func() {
						var q *shoal.Pool
						n := came.Add(1)
						if lasting > 0 {
							q = subs[int(n)%lasting]
						} else if q, _ = p.Sub(); q == nil {
							return // p is closed
						}
						q.Submit(func() {
							// So many may be between their number and Submit, and between their start and here.
							if late := begun.Add(1) - n; max(late, -late) > 2*int64(workers) {
								t.Errorf("number %d came as number %d", n, n-late)
							}
							time.Sleep(time.Millisecond)
							come()
						})
					}
					for range others + workers - 1 {
						come()
					}
					const length = 8 * time.Second // one with weight 100 has its turns 100 at a time, in 120 ms
					time.Sleep(length)
					want := float64(weight) / float64(weight+others+workers) // each that runs has let the next one come
					got := float64(ran.Load()) * float64(time.Millisecond) / float64(length*time.Duration(workers))
					if got < want*0.97 || got > want*1.03 {
						t.Errorf("%d lasting ones, weight %d, %d workers: the backlog has %.3f of the time, want %.3f", lasting, weight, workers, got, want)
					}
					p.Close()
				})
			}
		}
	}
}

// A sub-pool that always has tasks, and is often at its maximum, keeps its share beside others whose tasks take long.
func TestASubAtItsMaximumHasItsShare(t *testing.T) {
	for _, weight := range []int{1, 10, 100} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(4)...)
			var used [3]atomic.Int64
			for i, d := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 40 * time.Millisecond} {
				s := newSub(t, p)
				if i == 0 {
					s = newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithWeight(weight))
				}
				var task func()
				task = func() {
					time.Sleep(d)
					used[i].Add(int64(d))
					s.Submit(task)
				}
				for range 8 {
					must(t, s.Submit(task))
				}
			}
			time.Sleep(2 * time.Second)
			if got := time.Duration(used[0].Load()).Seconds() / 2; got < 0.95 {
				t.Errorf("weight %d: it has had %.3f of its one worker", weight, got)
			}
			p.Close()
		})
	}
}

// A sub-pool that has had more than its share waits until another one has made up for it, also if that is alone meanwhile.
func TestTimeAloneMakesUp(t *testing.T) {
	for _, weight := range []int{1, 10} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1)...)
			a, b := newSub(t, p), newSub(t, p, shoal.WithWeight(weight))
			must(t, b.Submit(func() { time.Sleep(20 * time.Millisecond) }))
			synctest.Wait()
			must(t, a.Submit(func() { time.Sleep(400 * time.Millisecond) })) // in which b is owed weight × 400 ms
			for range 9000 {
				must(t, b.Submit(func() { time.Sleep(time.Millisecond) }))
			}
			time.Sleep(3020 * time.Millisecond) // of which b is alone for 2.6 s
			since := time.Now()
			must(t, a.SubmitWait(bg, func(context.Context) error { return nil }))
			owed := max(0, time.Duration(weight)*400*time.Millisecond-2600*time.Millisecond)
			if late := time.Since(since) - owed; max(late, -late) > 450*time.Millisecond {
				t.Errorf("weight %d: it waited for %v, want about %v", weight, time.Since(since), owed)
			}
			p.Close()
		})
	}
}

// Time that a sub-pool has had alone is not owed to one that comes then.
func TestTimeAloneIsNotOwed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		var used [2]atomic.Int64
		var over atomic.Bool
		for i := range used {
			refill(t, newSub(t, p), 2, &used[i], &over)
			if i == 0 {
				time.Sleep(2*time.Second + time.Millisecond/2) // it is alone, and its worker in a task
				used[0].Store(0)
			}
		}
		time.Sleep(time.Second)
		if n := used[0].Load(); n < 450 || n > 550 {
			t.Errorf("the one that was alone before has had %d of 1000 turns, want half", n)
		}
		over.Store(true)
		p.Close()
	})
}
