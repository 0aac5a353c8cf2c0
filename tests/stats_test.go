package tests

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// A sampler takes snapshots of a pool, one after the other, and checks each by
// itself and against the one before.
type sampler struct {
	p          *shoal.Pool
	maxWorkers int // no more than that were ever allowed
	stop       atomic.Bool
	ended      <-chan struct{}
	failure    string
}

func startSampler(p *shoal.Pool, maxWorkers int) *sampler {
	m := &sampler{p: p, maxWorkers: maxWorkers}
	m.ended = inBackground(func() {
		var last shoal.Stats
		for range 100_000 { // bounded: in a bubble whoever spins hides a deadlock
			if m.stop.Load() {
				return
			}
			s := p.Stats()
			if m.failure = m.fault(last, s); m.failure != "" {
				m.failure += fmt.Sprintf("\nbefore: %+v\nthen:   %+v", last, s)
				return
			}
			last = s
			runtime.Gosched()
		}
	})
	return m
}

// fault names a promise of Stats that s breaks, coming after last.
func (m *sampler) fault(last, s shoal.Stats) string {
	switch {
	case s.InFlight < 0 || s.Queued < 0 || s.Workers < 0 || s.Running < 0 || s.Idle < 0:
		return "a gauge is negative"
	case s.Submitted != s.Completed+s.Dropped+s.Canceled+uint64(s.InFlight):
		return "Submitted ≠ Completed + Dropped + Canceled + InFlight"
	case s.Panicked > s.Failed:
		return "Panicked > Failed"
	case s.Failed > s.Completed:
		return "Failed > Completed"
	case s.Spawned > s.Submitted:
		return "Spawned > Submitted"
	case s.Submitted < last.Submitted || s.Completed < last.Completed || s.Failed < last.Failed || s.Panicked < last.Panicked || s.BusyTime < last.BusyTime ||
		s.Rejected < last.Rejected || s.Dropped < last.Dropped || s.Canceled < last.Canceled ||
		s.Spawned < last.Spawned || s.PeakWorkers < last.PeakWorkers:
		return "a counter went back"
	case s.RunTime.Count < last.RunTime.Count || s.WaitTime.Count < last.WaitTime.Count:
		return "a histogram lost something"
	case s.Queued > s.QueueCapacity:
		return "Queued > QueueCapacity"
	case s.Queued > s.InFlight:
		return "Queued > InFlight"
	case s.Workers > m.maxWorkers || s.PeakWorkers > m.maxWorkers || s.Workers > s.PeakWorkers:
		return fmt.Sprintf("more workers than the maximum of %d, or than the peak", m.maxWorkers)
	case s.Running > s.Workers || s.Idle > s.Workers:
		return "more running or idle workers than workers"
	case s.MinWorkers > s.MaxWorkers || s.MaxWorkers > m.maxWorkers:
		return "MinWorkers > MaxWorkers, or a maximum that was never set"
	case s.Utilization() < 0 || s.Utilization() > 1 || s.QueueFill() < 0 || s.QueueFill() > 1:
		return fmt.Sprintf("Utilization %v, QueueFill %v", s.Utilization(), s.QueueFill())
	}
	if n := m.p.Queued(); n < 0 || n > s.QueueCapacity {
		return fmt.Sprintf("Queued() = %d", n)
	}
	return ""
}

// check stops the sampler and fails the test if a snapshot was wrong.
func (m *sampler) check(t testing.TB) {
	t.Helper()
	m.stop.Store(true)
	<-m.ended
	if m.failure != "" {
		t.Error(m.failure)
	}
}

// A storm submits tasks in every way there is, to every end there is, and
// counts on its own.
type storm struct {
	p                           *shoal.Pool
	accepted, ran, failed, full atomic.Uint64
}

// accept counts one submission by its error. It reports whether the task was
// accepted.
func (s *storm) accept(err error) bool {
	switch {
	case err == nil:
		s.accepted.Add(1)
		return true
	case errors.Is(err, shoal.ErrQueueFull):
		s.full.Add(1)
	}
	return false
}

func (s *storm) plain() { s.ran.Add(1) }

func (s *storm) faulty(fault func()) func() {
	return func() { s.ran.Add(1); s.failed.Add(1); fault() }
}

// apart calls f on a goroutine of its own, which it may end, and waits for it.
func apart(f func()) { <-inBackground(f) }

// storms are the ways to submit.
var storms = []func(s *storm){
	func(s *storm) { s.accept(s.p.Submit(s.plain)) },
	func(s *storm) { s.accept(s.p.TrySubmit(s.plain)) },
	func(s *storm) { s.accept(s.p.Submit(func() { s.plain(); runtime.Gosched() })) },
	func(s *storm) { s.accept(s.p.Submit(s.faulty(func() { panic("storm") }))) },
	func(s *storm) { // under CallerRuns it ends the goroutine that submits
		s.accepted.Add(1)
		apart(func() {
			if err := s.p.Submit(s.faulty(runtime.Goexit)); err != nil {
				s.accepted.Add(^uint64(0))
				s.accept(err)
			}
		})
	},
	func(s *storm) { // a task that submits a task
		s.accept(s.p.Submit(func() { s.plain(); s.accept(s.p.Submit(s.plain)) }))
	},
	func(s *storm) {
		s.accept(s.p.SubmitContext(context.Background(), func(context.Context) { s.plain() }))
	},
	func(s *storm) { // cancelled while it is queued, or runs, or waits for room
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		s.accept(s.p.SubmitContext(ctx, func(context.Context) { s.plain() }))
	},
	func(s *storm) { s.wait(nil) },
	func(s *storm) { s.wait(errors.ErrUnsupported) },
	func(s *storm) {
		n, err := s.p.SubmitBatch([]func(){s.plain, s.plain, s.plain, s.plain, s.plain})
		s.accepted.Add(uint64(n))
		if err != nil {
			s.accept(err)
		}
	},
	func(s *storm) { // counted as accepted already: nothing but the end of the pool keeps it out
		if _, err := s.p.SubmitAfter(0, s.plain); err == nil {
			s.accepted.Add(1)
		}
	},
	func(s *storm) {
		if stop, err := s.p.SubmitAfter(time.Hour, s.plain); err == nil && !stop() {
			s.accepted.Add(1)
		}
	},
}

func (s *storm) wait(result error) {
	var ran bool
	err := s.p.SubmitWait(context.Background(), func(context.Context) error {
		s.plain()
		ran = true
		if result != nil {
			s.failed.Add(1)
		}
		return result
	})
	switch {
	case ran:
		s.accepted.Add(1)
		if err != result {
			panic(fmt.Sprintf("SubmitWait = %v, want %v", err, result))
		}
	case errors.Is(err, shoal.ErrDropped):
		s.accepted.Add(1)
	default:
		s.accept(err)
	}
}

// rage makes n goroutines submit ops tasks each, while another one pauses,
// resumes and resizes the pool. It leaves the pool open and running.
func (s *storm) rage(n, ops, maxWorkers int) {
	var users sync.WaitGroup
	for u := range n {
		users.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(u), 7))
			for range ops {
				storms[rng.IntN(len(storms))](s)
			}
		})
	}
	var over atomic.Bool
	changed := inBackground(func() {
		rng := rand.New(rand.NewPCG(3, 7))
		for range 10_000 { // bounded: in a bubble whoever spins hides a deadlock
			if over.Load() {
				return
			}
			switch rng.IntN(3) {
			case 0:
				s.p.Pause()
				runtime.Gosched()
				s.p.Resume()
			case 1:
				m := 1 + rng.IntN(maxWorkers)
				s.p.Resize(rng.IntN(m+1), m)
			}
			for range 30 {
				runtime.Gosched()
			}
		}
	})
	users.Wait()
	over.Store(true)
	<-changed
}

func openStorm(t testing.TB, policy shoal.FullPolicy, maxWorkers, capacity int, more ...shoal.Option) *storm {
	return &storm{p: openPool(t, append([]shoal.Option{
		shoal.WithMaxWorkers(maxWorkers), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy),
		shoal.WithMaxTasksPerWorker(100), shoal.WithTiming(shoal.TimingFull),
		shoal.WithPanicHandler(func(*shoal.PanicError) {}),
	}, more...)...)}
}

// exact compares the pool's counters with the storm's own.
func (s *storm) exact(t testing.TB) {
	t.Helper()
	st := s.p.Stats()
	checkIdentity(t, st)
	if st.InFlight != 0 || st.Queued != 0 || st.Running != 0 || s.p.Queued() != 0 {
		t.Errorf("quiet, but in flight %d, queued %d, running %d, Queued() = %d", st.InFlight, st.Queued, st.Running, s.p.Queued())
	}
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"Submitted", st.Submitted, s.accepted.Load()},
		{"Completed", st.Completed, s.ran.Load()},
		{"Failed", st.Failed, s.failed.Load()},
		{"Rejected", st.Rejected, s.full.Load()},
	} {
		if c.got != c.want {
			t.Errorf("%s = %d, want %d", c.name, c.got, c.want)
		}
	}
}

// The storms rage in bubbles, where a task, a result or a wake-up that is lost
// is a deadlock, and seen at once.
func TestStatsHoldInEverySnapshotOfAStormAndAreExactAfterIt(t *testing.T) {
	for _, policy := range allPolicies {
		for _, capacity := range []int{0, 1, 16} {
			t.Run(fmt.Sprintf("%v/capacity=%d", policy, capacity), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					const maxWorkers = 6
					s := openStorm(t, policy, maxWorkers, capacity)
					m := startSampler(s.p, maxWorkers)
					s.rage(4, 1000, maxWorkers)
					m.check(t)
					time.Sleep(time.Minute) // tasks of SubmitAfter that are due, and wait for room
					s.p.Wait()
					s.exact(t)
					must(t, s.p.Shutdown(context.Background()))
					s.exact(t)
				})
			})
		}
	}
}

func TestStatsHoldWhileAStormIsCutOffByClose(t *testing.T) {
	for _, policy := range allPolicies {
		t.Run(policy.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const maxWorkers = 3
				s := openStorm(t, policy, maxWorkers, 8)
				m := startSampler(s.p, maxWorkers)
				raging := inBackground(func() { s.rage(4, 600, maxWorkers) })
				for range 100_000 {
					if s.p.Stats().Completed >= 500 || isClosed(raging) {
						break
					}
					runtime.Gosched()
				}
				must(t, s.p.Close())
				<-raging
				m.check(t)
				s.exact(t)
			})
		})
	}
}

func TestStatsAreExactWhenQuiet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithName("exact"), shoal.WithMinWorkers(1), shoal.WithMaxWorkers(3), shoal.WithSizing(shoal.Eager()),
			shoal.WithQueueCapacity(4), shoal.WithFullPolicy(shoal.Reject), shoal.WithPanicHandler(func(*shoal.PanicError) {}))
		want := shoal.Stats{Name: "exact", QueueCapacity: 4, Workers: 1, Idle: 1, PeakWorkers: 1, MinWorkers: 1, MaxWorkers: 3}
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			got := p.Stats()
			got.WaitTime, got.RunTime, got.BusyTime = shoal.Histogram{}, shoal.Histogram{}, 0
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Fatalf("%s:\ngot  %+v\nwant %+v", when, got, want)
			}
			if p.Queued() != want.Queued {
				t.Fatalf("%s: Queued() = %d, want %d", when, p.Queued(), want.Queued)
			}
		}
		check("new")

		release := hold(t, p, 3)
		want.Submitted, want.InFlight = 3, 3
		want.Workers, want.Running, want.Idle, want.PeakWorkers = 3, 3, 0, 3
		check("three run")

		ctx, cancel := context.WithCancel(t.Context())
		must(t, p.SubmitContext(ctx, func(context.Context) { t.Error("ran") }))
		must(t, p.Submit(func() { panic("counted") }))
		must(t, p.Submit(func() { runtime.Goexit() }))
		must(t, p.Submit(func() {}))
		want.Submitted, want.InFlight, want.Queued = 7, 7, 4
		check("four wait")
		if s := p.Stats(); s.QueueFill() != 1 || s.Utilization() != 1 {
			t.Errorf("all workers busy, the queue full: Utilization %v, QueueFill %v, want 1, 1", s.Utilization(), s.QueueFill())
		}

		wantErr(t, "Submit", p.Submit(func() {}), shoal.ErrQueueFull)
		wantErr(t, "TrySubmit", p.TrySubmit(func() {}), shoal.ErrQueueFull)
		wantErr(t, "Submit(nil)", p.Submit(nil), shoal.ErrNilTask)
		want.Rejected = 2
		check("two refused")

		cancel()
		p.Pause()
		want.State = shoal.Paused
		check("paused")
		release()
		want.Completed, want.InFlight, want.Running, want.Idle = 3, 4, 0, 3
		check("released")
		p.Resume()
		want.State = shoal.Open
		want.Completed, want.Failed, want.Panicked, want.Canceled, want.InFlight, want.Queued = 6, 2, 1, 1, 0, 0
		synctest.Wait()
		want.Workers = p.Stats().Workers // Goexit took one
		want.Idle = want.Workers
		check("all done")
		if want.Workers < 1 || want.Workers > 2 {
			t.Errorf("%d workers after one of three was lost, want 1 or 2", want.Workers)
		}

		must(t, p.Close())
		want.State, want.Workers, want.Idle = shoal.Closed, 0, 0
		check("closed")
		wantErr(t, "Submit", p.Submit(func() {}), shoal.ErrClosed)
		check("closed, and refused once more")
	})
}

// A worker is busy while it is not parked. Time passes in the bubble only while all sleep.
func TestBusyTimeIsExact(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(5*time.Second))
		sub := shoal.Must(p.Sub())
		want := time.Duration(0)
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			if got := p.Stats().BusyTime; got != want {
				t.Errorf("%s: busy for %v, want %v", when, got, want)
			}
		}
		check("new")
		for _, long := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			must(t, sub.Submit(func() { time.Sleep(long) }))
		}
		time.Sleep(1500 * time.Millisecond)
		want = time.Second + 2*1500*time.Millisecond
		check("two run, one is parked")
		sub.Wait()
		want = 7 * time.Second
		check("all are parked")
		time.Sleep(4 * time.Second)
		check("one has left")
		must(t, p.Submit(func() { time.Sleep(time.Second) }))
		p.Wait()
		want += time.Second
		check("one has run again")
		time.Sleep(time.Minute)
		check("all have left")
		must(t, p.SubmitWait(t.Context(), func(context.Context) error { time.Sleep(time.Second); return nil }))
		want += time.Second
		check("there is one again")
		if got := sub.Stats().BusyTime; got != 0 {
			t.Errorf("a sub-pool was busy for %v, want 0", got)
		}
		must(t, p.Close())
		check("closed")
	})
}

func TestDroppedAndSpawnedAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(3), shoal.WithFullPolicy(shoal.DropOldest))
		release := hold(t, p, 1)
		for range 10 {
			must(t, p.Submit(func() {}))
		}
		if s := p.Stats(); s.Dropped != 7 || s.Submitted != 11 || s.InFlight != 4 || s.Completed != 0 {
			t.Errorf("DropOldest: dropped %d, submitted %d, in flight %d, completed %d; want 7, 11, 4, 0",
				s.Dropped, s.Submitted, s.InFlight, s.Completed)
		}
		release()

		p = openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(3), shoal.WithFullPolicy(shoal.Spawn))
		release = hold(t, p, 1)
		for range 3 {
			must(t, p.Submit(func() {}))
		}
		if s := p.Stats(); s.Spawned != 0 {
			t.Errorf("Spawn: spawned %d before the queue was full", s.Spawned)
		}
		releaseSpawned := hold(t, p, 5) // returns: they all run
		if s := p.Stats(); s.Spawned != 5 || s.InFlight != 9 || s.Queued != 3 || s.Workers != 1 || s.Running != 1 {
			t.Errorf("Spawn: spawned %d, in flight %d, queued %d, %d of %d workers running; want 5, 9, 3, 1 of 1",
				s.Spawned, s.InFlight, s.Queued, s.Running, s.Workers)
		}
		releaseSpawned()
		release()
		p.Wait()
		if s := p.Stats(); s.Spawned != 5 || s.Completed != 9 || s.InFlight != 0 {
			t.Errorf("Spawn: spawned %d, completed %d, in flight %d; want 5, 9, 0", s.Spawned, s.Completed, s.InFlight)
		}
	})
}

func TestRunningCountsWorkersInsideATaskOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(5), shoal.WithSizing(shoal.Eager()))
		release := occupyEach(t, p, 5)
		for n := 5; n >= 0; n-- {
			synctest.Wait()
			s := p.Stats()
			if s.Running != n || s.Idle != 5-n || s.Workers != 5 {
				t.Errorf("running %d, idle %d of %d workers, want %d, %d of 5", s.Running, s.Idle, s.Workers, n, 5-n)
			}
			states := map[shoal.WorkerState]int{}
			for w := range p.Workers() {
				states[w.State]++
			}
			if states[shoal.WorkerRunning] != n || states[shoal.WorkerParked] != 5-n {
				t.Errorf("worker states %v, want %d running, %d parked", states, n, 5-n)
			}
			if n > 0 {
				release()
			}
		}
	})
}

func TestQueueFillIsTheShareOfTheCapacityThatIsTaken(t *testing.T) {
	for _, c := range []struct {
		queued, capacity int
		want             float64
	}{
		{0, 10, 0}, {1, 10, 0.1}, {5, 10, 0.5}, {10, 10, 1}, {1, 3, 1.0 / 3},
		{0, 0, 0}, {5, shoal.Unbounded, 0}, {1 << 20, 1 << 20, 1}, {11, 10, 1},
	} {
		// The workers have no part in it.
		s := shoal.Stats{Queued: c.queued, QueueCapacity: c.capacity, Workers: 2, Running: 1, MaxWorkers: 4}
		if got := s.QueueFill(); got != c.want {
			t.Errorf("%d of %d queued: %v, want %v", c.queued, c.capacity, got, c.want)
		}
	}
	if got := (shoal.Stats{}).QueueFill(); got != 0 {
		t.Errorf("zero Stats: %v", got)
	}
}

func TestUtilizationIsTheShareOfTheMaximumInsideTasks(t *testing.T) {
	for _, c := range []struct {
		running, workers, max int
		want                  float64
	}{
		{0, 0, 4, 0}, {0, 4, 4, 0}, {1, 1, 4, 0.25}, {1, 4, 4, 0.25}, {4, 4, 4, 1},
		{3, 3, 2, 1}, // after Resize
	} {
		// The queue has no part in it.
		s := shoal.Stats{Running: c.running, Workers: c.workers, MaxWorkers: c.max, Queued: 5, QueueCapacity: 5}
		if got := s.Utilization(); got != c.want {
			t.Errorf("%d of %d workers running: %v, want %v", c.running, c.max, got, c.want)
		}
	}
	if got := (shoal.Stats{}).Utilization(); got != 0 {
		t.Errorf("zero Stats: %v", got)
	}
}

func TestQueuedNeverExceedsTheCapacityWhileHandingOver(t *testing.T) {
	// At capacity 0 a task is always on its way to a worker, never queued.
	p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithQueueCapacity(0))
	m := startSampler(p, 3)
	for range 20_000 {
		must(t, p.Submit(func() {}))
		if n := p.Queued(); n != 0 {
			t.Fatalf("Queued() = %d at capacity 0", n)
		}
	}
	p.Wait()
	m.check(t)
}

func TestWorkerRowsAddUpToWhatWasCompleted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 4
		p := openPool(t, fixed(n, shoal.WithIdleTimeout(shoal.Forever), shoal.WithPanicHandler(func(*shoal.PanicError) {}))...)
		for i := range 5000 {
			switch i % 10 {
			case 0:
				must(t, p.Submit(func() { panic("row") }))
			case 1:
				must(t, p.SubmitContext(t.Context(), func(context.Context) {}))
			case 2:
				if err := p.SubmitWait(t.Context(), func(context.Context) error { return errors.ErrUnsupported }); err == nil {
					t.Fatal("no error")
				}
			default:
				must(t, p.Submit(func() { runtime.Gosched() }))
			}
		}
		p.Wait()
		synctest.Wait()
		checkRows(t, p, n)
		if s := p.Stats(); s.Completed != 5000 || s.Failed != 1000 {
			t.Errorf("completed %d, failed %d, want 5000, 1000", s.Completed, s.Failed)
		}
	})
}

// Worker is the row of one worker, also while its stop hook runs.
func TestWorkerIsOneRow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 3
		var p *shoal.Pool
		var executed, failed atomic.Uint64
		p = openPool(t, fixed(n, shoal.WithPanicHandler(func(*shoal.PanicError) {}), shoal.WithWorkerHooks(nil, func(id int) {
			w, ok := p.Worker(id)
			if !ok || w.ID != id || w.State == shoal.WorkerRunning {
				t.Errorf("in the stop hook of worker %d: %+v, %v", id, w, ok)
			}
			executed.Add(w.Executed)
			failed.Add(w.Failed)
		}))...)
		for range 100 {
			must(t, p.Submit(func() {}))
			must(t, p.Submit(func() { panic("row") }))
		}
		p.Wait()
		synctest.Wait()
		if len(workerIDs(p)) == 0 {
			t.Error("no workers")
		}
		for want := range p.Workers() {
			if w, ok := p.Worker(want.ID); !ok || w != want {
				t.Errorf("worker %d is %+v, %v, want %+v", want.ID, w, ok, want)
			}
		}
		for _, id := range []int{math.MinInt, -1, n, math.MaxInt} {
			if w, ok := p.Worker(id); ok {
				t.Errorf("worker %d is %+v", id, w)
			}
		}
		must(t, p.Shutdown(t.Context()))
		if executed.Load() != 200 || failed.Load() != 100 {
			t.Errorf("executed %d, failed %d, want 200, 100", executed.Load(), failed.Load())
		}
		if w, ok := p.Worker(0); ok {
			t.Errorf("after Shutdown worker 0 is %+v", w)
		}
	})
}

// A task whose context had ended was not executed.
func TestCanceledTaskIsInNoWorkersRow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, fixed(2, shoal.WithIdleTimeout(shoal.Forever))...)
		release := hold(t, p, 2)
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			must(t, p.SubmitContext(ctx, func(context.Context) {}))
			must(t, p.Submit(func() {}))
		}
		cancel()
		release()
		p.Wait()
		synctest.Wait()
		checkRows(t, p, 2)
	})
}

// checkRows checks the rows of a quiet pool of n workers that stay.
func checkRows(t *testing.T, p *shoal.Pool, n int) {
	t.Helper()
	var executed, failed uint64
	last, rows := -1, 0
	for w := range p.Workers() {
		if w.ID <= last || w.ID >= n {
			t.Errorf("worker id %d after %d, want ascending, below %d", w.ID, last, n)
		}
		if w.State != shoal.WorkerParked || w.TaskAge != 0 {
			t.Errorf("worker %d: %v, age %v, want parked", w.ID, w.State, w.TaskAge)
		}
		if w.Failed > w.Executed {
			t.Errorf("worker %d: failed %d of %d", w.ID, w.Failed, w.Executed)
		}
		last = w.ID
		rows++
		executed += w.Executed
		failed += w.Failed
	}
	s := p.Stats()
	if rows != n || executed != s.Completed || failed != s.Failed {
		t.Errorf("%d rows with %d executed and %d failed; want %d rows, %d, %d", rows, executed, failed, n, s.Completed, s.Failed)
	}
}

func TestWorkerIDsAreUniqueAndBelowTheMaximumInAStorm(t *testing.T) {
	const maxWorkers = 5
	s := openStorm(t, shoal.Block, maxWorkers, 16)
	var stop atomic.Bool
	looked := inBackground(func() {
		for !stop.Load() {
			last := -1
			for w := range s.p.Workers() {
				if w.ID <= last || w.ID >= maxWorkers || w.Failed > w.Executed+64 || w.TaskAge < 0 || w.State > shoal.WorkerParked {
					t.Errorf("row %+v after id %d", w, last)
					return
				}
				last = w.ID
			}
			runtime.Gosched()
		}
	})
	s.rage(3, 800, maxWorkers)
	stop.Store(true)
	<-looked
}

func TestWorkersCanBeLeftEarlyAndWalkedTwice(t *testing.T) {
	p := openPool(t, fixed(3)...)
	rows := p.Workers()
	for range 2 {
		n := 0
		for range rows {
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("saw %d rows, want to stop after 2", n)
		}
	}
	must(t, p.Close())
	for w := range rows {
		t.Errorf("a closed pool has worker %+v", w)
	}
}

func TestWorkerStatesHaveNames(t *testing.T) {
	for s, want := range map[fmt.Stringer]string{
		shoal.WorkerRunning: "running", shoal.WorkerSpinning: "spinning", shoal.WorkerParked: "parked",
		shoal.Open: "Open", shoal.Paused: "Paused", shoal.Draining: "Draining", shoal.Closed: "Closed", shoal.State(9): "State(9)",
		shoal.Block: "Block", shoal.DropOldest: "DropOldest", shoal.FullPolicy(9): "FullPolicy(9)", shoal.FullPolicy(-1): "FullPolicy(-1)",
	} {
		if got := s.String(); got != want {
			t.Errorf("%T: %q, want %q", s, got, want)
		}
	}
}

func TestQueuedCountsWhatWaits(t *testing.T) {
	for _, capacity := range []int{5, 1000, shoal.Unbounded} {
		p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithSizing(shoal.Eager()), shoal.WithQueueCapacity(capacity))
		release := hold(t, p, 2)
		for i := range 5 {
			if n := p.Queued(); n != i {
				t.Errorf("capacity %d: Queued() = %d, want %d", capacity, n, i)
			}
			must(t, p.Submit(func() {}))
		}
		release()
		p.Wait()
		if n := p.Queued(); n != 0 {
			t.Errorf("capacity %d: Queued() = %d after Wait", capacity, n)
		}
	}
}

func TestTimingOffLeavesTheHistogramsEmpty(t *testing.T) {
	p := openPool(t, shoal.WithTiming(shoal.TimingOff), shoal.WithMaxWorkers(2))
	for range 1000 {
		must(t, p.Submit(func() {}))
	}
	must(t, p.SubmitWait(t.Context(), func(context.Context) error { return nil }))
	must(t, p.Shutdown(t.Context()))
	if s := p.Stats(); s.RunTime.Count != 0 || s.WaitTime.Count != 0 || s.RunTime.Max() != 0 || s.WaitTime.Quantile(1) != 0 {
		t.Errorf("measured: %+v", s)
	}
}

func TestTimingFullMeasuresEveryTask(t *testing.T) {
	p := openPool(t, shoal.WithTiming(shoal.TimingFull), shoal.WithMaxWorkers(4))
	batch := make([]func(), 100)
	for i := range batch {
		batch[i] = func() {}
	}
	for range 2000 {
		must(t, p.Submit(func() {}))
	}
	for range 20 {
		_, err := p.SubmitBatch(batch)
		must(t, err)
	}
	must(t, p.Shutdown(t.Context()))
	s := p.Stats()
	if s.RunTime.Count != 4000 || s.WaitTime.Count != 4000 {
		t.Errorf("measured %d runs and %d waits of 4000", s.RunTime.Count, s.WaitTime.Count)
	}
	if s.RunTime.Max() < s.RunTime.Mean() || s.RunTime.Sum() < s.RunTime.Max() {
		t.Errorf("run times: mean %v, max %v, sum %v", s.RunTime.Mean(), s.RunTime.Max(), s.RunTime.Sum())
	}
}

func TestTimingSampledMeasuresOneTaskIn64(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(4))
	for range 64 * 50 {
		must(t, p.Submit(func() {}))
	}
	must(t, p.Shutdown(t.Context()))
	if s := p.Stats(); s.RunTime.Count != 50 || s.WaitTime.Count != 50 {
		t.Errorf("measured %d runs and %d waits of %d, want 50", s.RunTime.Count, s.WaitTime.Count, s.Submitted)
	}
}

// Every task here frees the capacity that another one waits for, at the moment its
// own result is due. If a result or a moment of quiescence is lost, that is a deadlock.
func TestSubmitWaitAndWaitEndWhileOthersWaitForRoom(t *testing.T) {
	for _, capacity := range []int{0, 1} {
		inBubble(t, func(t *testing.T) {
			const users, each = 8, 400
			p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithQueueCapacity(capacity))
			var all sync.WaitGroup
			for range users {
				all.Go(func() {
					for range each {
						must(t, p.SubmitWait(t.Context(), func(context.Context) error { return nil }))
						p.Wait()
					}
				})
			}
			all.Wait()
			if s := p.Stats(); s.Completed != users*each || s.InFlight != 0 {
				t.Errorf("completed %d, in flight %d; want %d, 0", s.Completed, s.InFlight, users*each)
			}
		})
	}
}

// A caller that has waited for a task finds it in the counters and histograms.
func TestSubmitWaitReturnsAfterItsTaskWasCountedAndMeasured(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithTiming(shoal.TimingFull), shoal.WithPanicHandler(func(*shoal.PanicError) {}))
	for i := range uint64(3000) {
		ends := []func() error{
			func() error { return nil },
			func() error { return errors.ErrUnsupported },
			func() error { panic("counted") },
		}
		p.SubmitWait(t.Context(), func(context.Context) error { return ends[i%3]() })
		s := p.Stats()
		if s.Completed != i+1 || s.Failed != i-i/3 || s.InFlight != 0 || s.RunTime.Count != i+1 {
			t.Fatalf("after task %d (end %d): completed %d, failed %d, in flight %d, measured %d",
				i+1, i%3, s.Completed, s.Failed, s.InFlight, s.RunTime.Count)
		}
	}
}

func TestPeakWorkersIsTheMostThereEverWere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(10), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(time.Second))
		for _, c := range []struct{ use, peak int }{{1, 1}, {4, 4}, {2, 4}, {7, 7}, {3, 7}} {
			release := hold(t, p, c.use)
			if s := p.Stats(); s.Workers != c.use || s.PeakWorkers != c.peak {
				t.Errorf("%d workers, peak %d, want %d, %d", s.Workers, s.PeakWorkers, c.use, c.peak)
			}
			release()
			time.Sleep(time.Second)
			wantWorkers(t, p, 0)
		}
		if s := p.Stats(); s.PeakWorkers != 7 {
			t.Errorf("peak %d when all are gone, want 7", s.PeakWorkers)
		}
	})
}

func TestStatsFromInsideATaskSeeThatTask(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1))
	err := p.SubmitWait(t.Context(), func(context.Context) error {
		s := p.Stats()
		if s.Submitted != 1 || s.InFlight != 1 || s.Running != 1 || s.Workers != 1 || s.Completed != 0 {
			return fmt.Errorf("%+v", s)
		}
		seen := 0
		for w := range p.Workers() {
			seen++
			if w.State != shoal.WorkerRunning {
				return fmt.Errorf("%+v", w)
			}
		}
		if seen != 1 {
			return fmt.Errorf("%d workers", seen)
		}
		return nil
	})
	must(t, err)
}

func TestStatsOfTheZeroPoolAreEmptyAndClosed(t *testing.T) {
	var p shoal.Pool
	s := p.Stats()
	if s.State != shoal.Closed || s.Submitted != 0 || s.Workers != 0 || s.Utilization() != 0 || s.QueueFill() != 0 || p.Queued() != 0 {
		t.Errorf("%+v", s)
	}
	for w := range p.Workers() {
		t.Errorf("worker %+v", w)
	}
}
