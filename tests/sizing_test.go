package tests

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// answers are what s says to n questions about a pool that has workers.
func answers(s shoal.Sizer, n int) (yes []int) {
	for i := range n {
		if s.Grow(shoal.Sizing{Workers: 1, Max: math.MaxInt, Queued: 1}) {
			yes = append(yes, i)
		}
	}
	return yes
}

// everyNth are the multiples of n below limit.
func everyNth(n, limit int) (is []int) {
	for i := 0; i < limit; i += n {
		is = append(is, i)
	}
	return is
}

func TestRatedSaysYesToTheFirstOfEveryN(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		name string
		s    shoal.Sizer
		n    int
	}{
		{"Rated(1)", shoal.Rated(1), 1},
		{"Rated(2)", shoal.Rated(2), 2},
		{"Rated(7)", shoal.Rated(7), 7},
		{"Rated(1000)", shoal.Rated(1000), 1000},
		{"Eager", shoal.Eager(), 1},
		{"Balanced", shoal.Balanced(), max(1, procs/2)},
		{"Lazy", shoal.Lazy(), procs},
	} {
		if got, want := answers(c.s, 100), everyNth(c.n, 100); !slices.Equal(got, want) {
			t.Errorf("%s says yes to questions %v of 100, want %v", c.name, got, want)
		}
	}
}

func TestBalancedAndLazyFollowGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, c := range []struct{ procs, balanced, lazy int }{{1, 1, 1}, {2, 1, 2}, {3, 1, 3}, {6, 3, 6}} {
		runtime.GOMAXPROCS(c.procs)
		if got, want := answers(shoal.Balanced(), 60), everyNth(c.balanced, 60); !slices.Equal(got, want) {
			t.Errorf("GOMAXPROCS %d: Balanced says yes to %v, want every %dth", c.procs, got, c.balanced)
		}
		if got, want := answers(shoal.Lazy(), 60), everyNth(c.lazy, 60); !slices.Equal(got, want) {
			t.Errorf("GOMAXPROCS %d: Lazy says yes to %v, want every %dth", c.procs, got, c.lazy)
		}
	}
}

func TestRatedNeverLeavesAPoolWithoutAWorker(t *testing.T) {
	s := shoal.Rated(1000)
	for range 10 {
		if !s.Grow(shoal.Sizing{Workers: 0, Max: 10, Queued: 1}) {
			t.Fatal("no, to a pool without a worker")
		}
	}
}

func TestRatedCountsAnswersFromManyGoroutines(t *testing.T) {
	s := shoal.Rated(4)
	var yes atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { yes.Add(int32(len(answers(s, 500)))) })
	}
	all.Wait()
	if yes.Load() != 1000 {
		t.Errorf("%d times yes of 4000, want one in 4", yes.Load())
	}
}

func TestAutoSaysYesWhileFewerWorkersRunThanThereAreCPUs(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		workers, idle int
		want          bool
	}{
		{0, 0, true}, {procs - 1, 0, true}, {procs, 0, false}, {procs + 1, 0, false},
		{procs + 1, 2, true}, {100 * procs, 100 * procs, true}, {100 * procs, 0, false},
	} {
		if got := shoal.Auto().Grow(shoal.Sizing{Workers: c.workers, Idle: c.idle, Max: 1000, Queued: 1}); got != c.want {
			t.Errorf("%d workers, %d idle, %d CPUs: %t, want %t", c.workers, c.idle, procs, got, c.want)
		}
	}
}

// sizerFunc is a user's own Sizer.
type sizerFunc func(shoal.Sizing) bool

func (f sizerFunc) Grow(s shoal.Sizing) bool { return f(s) }

// bothAnswers runs f as a subtest, in a bubble, for a Sizer that always says
// yes and one that always says no.
func bothAnswers(t *testing.T, f func(t *testing.T, answer bool)) {
	for _, answer := range []bool{true, false} {
		t.Run(fmt.Sprint("answer=", answer), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { f(t, answer) })
		})
	}
}

func TestSizerIsAskedOnlyWhenNoWorkerIsIdle(t *testing.T) {
	bothAnswers(t, func(t *testing.T, answer bool) {
		const n = 5
		var asked []shoal.Sizing
		var mu sync.Mutex
		p := openPool(t, shoal.WithMaxWorkers(n), shoal.WithIdleTimeout(shoal.Forever), shoal.WithSizing(sizerFunc(func(s shoal.Sizing) bool {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, s)
			return answer
		})))
		gate := make(chan struct{})
		task := func() { <-gate }
		for i := range n { // each finds i workers, all of them busy
			must(t, p.Submit(task))
			synctest.Wait()
			if len(asked) == 0 {
				t.Fatalf("task %d found no idle worker, but the Sizer was not asked", i)
			}
			for _, s := range asked {
				if want := (shoal.Sizing{Workers: i, Max: n, Queued: 1}); s != want {
					t.Errorf("task %d: asked about %+v, want %+v", i, s, want)
				}
			}
			asked = nil
		}
		must(t, p.Submit(task)) // at the maximum there is nothing to ask
		synctest.Wait()
		if len(asked) != 0 {
			t.Errorf("asked about %+v at the maximum", asked)
		}
		for range n + 1 {
			gate <- struct{}{}
		}
		synctest.Wait()
		for range n { // and with idle workers neither
			must(t, p.Submit(task))
			synctest.Wait()
		}
		if len(asked) != 0 {
			t.Errorf("asked about %+v while workers were idle", asked)
		}
		close(gate)
	})
}

func TestMinimumIsStartedWithoutAsking(t *testing.T) {
	p := openPool(t, shoal.WithMinWorkers(4), shoal.WithMaxWorkers(4), shoal.WithSizing(sizerFunc(func(s shoal.Sizing) bool {
		t.Errorf("asked about %+v", s)
		return false
	})))
	if s := p.Stats(); s.Workers != 4 {
		t.Errorf("%d workers when New returns, want 4", s.Workers)
	}
	hold(t, p, 4)()
}

// no never wants a worker.
func no(shoal.Sizing) bool { return false }

// The pool may wait for a better answer, but a task does not wait behind
// blocked ones while more workers may be started.
func TestSizerCanDelayGrowthButNotStrandATask(t *testing.T) {
	for name, s := range map[string]shoal.Sizer{
		"never": sizerFunc(no), "Auto": shoal.Auto(), "Eager": shoal.Eager(), "Balanced": shoal.Balanced(),
		"Lazy": shoal.Lazy(), "Rated(1000)": shoal.Rated(1000),
	} {
		t.Run(name, func(t *testing.T) {
			const n = 40
			p := openPool(t, shoal.WithMaxWorkers(n), shoal.WithSizing(s))
			release := hold(t, p, n) // returns: all of them run at once
			if s := p.Stats(); s.Workers != n || s.Running != n {
				t.Errorf("%d workers, %d running, want %d", s.Workers, s.Running, n)
			}
			release()
		})
	}
}

func TestSizerThatPanicsHasSaidYes(t *testing.T) {
	var reports atomic.Int32
	p := openPool(t, shoal.WithMaxWorkers(8), shoal.WithName("sized"),
		shoal.WithSizing(sizerFunc(func(shoal.Sizing) bool { panic("cannot say") })),
		shoal.WithPanicHandler(func(e *shoal.PanicError) {
			if e.Value == "cannot say" && e.Pool == "sized" {
				reports.Add(1)
			}
		}))
	hold(t, p, 8)()
	must(t, p.Shutdown(t.Context()))
	s := p.Stats()
	if s.PeakWorkers != 8 || s.Failed != 0 || s.Completed != 8 {
		t.Errorf("peak %d, failed %d, completed %d; want 8, 0, 8", s.PeakWorkers, s.Failed, s.Completed)
	}
	if reports.Load() != 8 {
		t.Errorf("%d panics were reported, want 8", reports.Load())
	}
}

func TestSizerThatCallsTheSnapshotsOfItsPool(t *testing.T) {
	var p *shoal.Pool
	ready := make(chan struct{})
	var asked atomic.Int32
	p = openPool(t, shoal.WithMaxWorkers(6), shoal.WithSizing(sizerFunc(func(s shoal.Sizing) bool {
		<-ready
		asked.Add(1)
		st := p.Stats()
		for range p.Workers() {
		}
		if st.Workers > st.MaxWorkers || p.Queued() < 0 || p.State() == shoal.Closed {
			t.Errorf("asked about %+v: %+v", s, st)
		}
		p.TrySubmit(func() {})
		return st.Workers%2 == 0
	})))
	close(ready)
	hold(t, p, 6)()
	p.Wait()
	if asked.Load() == 0 {
		t.Error("not asked")
	}
}

// A Sizer that takes its time keeps no goroutine from submitting, and no worker from
// running tasks.
func TestSizerThatBlocksHoldsUpNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		asked := make(chan struct{}, 100)
		p := openPool(t, shoal.WithMinWorkers(1), shoal.WithMaxWorkers(8), shoal.WithSizing(sizerFunc(func(shoal.Sizing) bool {
			asked <- struct{}{}
			<-gate
			return true
		})))
		release := hold(t, p, 1)
		var ran atomic.Int32
		must(t, p.Submit(func() { ran.Add(1) }))
		<-asked // a second worker is being decided on
		for range 1000 {
			must(t, p.Submit(func() { ran.Add(1) }))
		}
		release() // the first worker runs them all meanwhile
		synctest.Wait()
		if ran.Load() != 1001 {
			t.Errorf("%d tasks ran while the Sizer was thinking, want 1001", ran.Load())
		}
		if s := p.Stats(); s.Workers != 2 || s.PeakWorkers != 2 || len(asked) != 0 {
			t.Errorf("%d workers, peak %d, asked %d more times; want 2, 2, 0", s.Workers, s.PeakWorkers, len(asked))
		}
		close(gate)
		p.Wait()
		hold(t, p, 8)()
	})
}

func TestNestedTasksUnderASizerThatSaysNo(t *testing.T) {
	// Each task waits for the next one, which has to find a worker.
	const n = 30
	p := openPool(t, shoal.WithMaxWorkers(n), shoal.WithSizing(sizerFunc(no)))
	var chain func(i int, done chan struct{}) func()
	chain = func(i int, done chan struct{}) func() {
		return func() {
			defer close(done)
			if i < n-1 {
				next := make(chan struct{})
				if p.Submit(chain(i+1, next)) == nil {
					<-next
				}
			}
		}
	}
	done := make(chan struct{})
	must(t, p.Submit(chain(0, done)))
	<-done
	if s := p.Stats(); s.PeakWorkers != n {
		t.Errorf("peak %d workers, want %d", s.PeakWorkers, n)
	}
}

// compute keeps a CPU busy for a moment.
func compute() {
	x := uint64(1)
	for range 50_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink.Store(x)
}

// keepFull submits that many tasks that compute. Each counts in n, and submits one like it unless n
// has come to most.
func keepFull(t *testing.T, p *shoal.Pool, tasks int, n *atomic.Int64, most int64) {
	t.Helper()
	var again func()
	again = func() {
		compute()
		if n.Add(1) < most {
			must(t, p.Submit(again))
		}
	}
	for range tasks {
		must(t, p.Submit(again))
	}
}

var sink atomic.Uint64

// A CPU that the machine takes away for a while looks like a worker that
// blocks, so the rule is about the pool that was disturbed least. If each was, what is
// promised must hold still: 16 for each CPU.
func TestAutoKeepsWorkersNearTheNumberOfCPUsForTasksThatCompute(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	if procs > runtime.NumCPU() {
		t.Skip("the system takes CPUs from workers, as another process would")
	}
	for name, of := range map[string]func(root *shoal.Pool) *shoal.Pool{
		"a pool":     func(root *shoal.Pool) *shoal.Pool { return root },
		"a sub-pool": func(root *shoal.Pool) *shoal.Pool { return newSub(t, root) },
	} {
		t.Run(name, func(t *testing.T) {
			least, most := math.MaxInt, 16*procs
			for range 32 {
				began, had := time.Now(), cpuTime()
				root := openPool(t, shoal.WithMaxWorkers(1000), shoal.WithIdleTimeout(shoal.Forever))
				p := of(root)
				for range 4000 {
					must(t, p.Submit(compute))
				}
				p.Wait()
				if least = min(least, root.Stats().PeakWorkers); least <= 2*procs+4 {
					return
				}
				if cpuTime()-had >= time.Since(began)*time.Duration(procs)*9/10 {
					most = 2*procs + 4 // this one had the CPUs to itself
				}
				root.Close()
			}
			if least > most {
				t.Errorf("at least %d workers for tasks that compute, on %d CPUs", least, procs)
			}
		})
	}
}

func TestAutoGrowsToTheMaximumForTasksThatBlock(t *testing.T) {
	const most = 500
	p := openPool(t, shoal.WithMaxWorkers(most))
	for range 2 { // with new workers, then with parked ones
		release := hold(t, p, most)
		if s := p.Stats(); s.Workers != most {
			t.Errorf("%d workers, want %d", s.Workers, most)
		}
		release()
		p.Wait()
	}
}

// Auto looks at how busy the process is, but growth has a bound. That bound
// must hold in a testing/synctest bubble too, whose clock stands still while
// a worker yields, beside goroutines of other tests.
func TestAutoGrowsInABubbleBesideBusyGoroutinesOutside(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	var stop atomic.Bool
	var outlasted atomic.Int32
	var spinners sync.WaitGroup
	for range 4 * procs {
		spinners.Go(func() {
			end := time.Now().Add(time.Minute) // bounded, so that the test ends
			for n := 1; !stop.Load(); n++ {
				if n%1024 == 0 && time.Now().After(end) {
					outlasted.Add(1)
					return
				}
				runtime.Gosched()
			}
		})
	}
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(procs+3))
		hold(t, p, procs+3)()
	})
	stop.Store(true)
	spinners.Wait()
	if n := outlasted.Load(); n > 0 {
		t.Errorf("%d of %d busy goroutines came to their end before %d blocking tasks had started", n, 4*procs, procs+3)
	}
}

// keepBusy has n goroutines keep the CPUs busy until the test ends, and counts how
// often they compute.
func keepBusy(t *testing.T, n int) (rounds *atomic.Int64) {
	t.Helper()
	rounds = new(atomic.Int64)
	var stop atomic.Bool
	var spinners sync.WaitGroup
	for range n {
		spinners.Go(func() {
			for !stop.Load() {
				compute()
				rounds.Add(1)
			}
		})
	}
	t.Cleanup(func() {
		stop.Store(true)
		spinners.Wait()
	})
	return rounds
}

// Goroutines that compute hide that the pool's tasks block. It grows all the same, not
// only when none of its workers gets on any more.
func TestAutoGrowsForTasksThatBlockBesideGoroutinesThatCompute(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	keepBusy(t, 4*procs+8)
	const tasks, most = 400, 100
	p := openPool(t, shoal.WithMaxWorkers(most))
	for range tasks {
		must(t, p.Submit(func() { time.Sleep(2 * time.Millisecond) }))
	}
	p.Wait()
	if n := p.Stats().PeakWorkers; n < most/5 {
		t.Errorf("%d workers of %d for %d tasks that block, beside %d goroutines that compute on %d CPUs", n, most, tasks, 4*procs+8, procs)
	}
}

// A pool yields, but does not leave all CPU time to goroutines that never yield. Its part is 5 to
// 35 % here. It was under 1 % when workers yielded as often as if no other goroutine computed.
func TestTasksThatComputeHaveAPartOfTheCPUsBesideGoroutinesThatCompute(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	others := 10 * procs
	theirs := keepBusy(t, others)
	root := openPool(t, shoal.WithMaxWorkers(1000))
	for name, p := range map[string]*shoal.Pool{"a pool": root, "a sub-pool": newSub(t, root)} {
		tasks, least := 500*int64(procs), int64(math.MaxInt64)
		for range 8 { // the machine may have been busy with something else
			before := theirs.Load()
			for range tasks {
				must(t, p.Submit(compute))
			}
			p.Wait()
			if least = min(least, theirs.Load()-before); least < 40*tasks {
				break
			}
		}
		if least >= 40*tasks {
			t.Errorf("%s did %d tasks while %d goroutines beside it did %d of the same", name, tasks, others, least)
		}
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

func TestSizerKnowsThatWorkersOfASubPoolAreBusy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var last shoal.Sizing
		p := openPool(t, shoal.WithMaxWorkers(5), shoal.WithSizing(sizerFunc(func(s shoal.Sizing) bool { last = s; return true })))
		s, err := p.Sub(shoal.WithMaxWorkers(2))
		must(t, err)
		gate := make(chan struct{})
		for i, pool := range []*shoal.Pool{s, s, p} {
			must(t, pool.Submit(func() { <-gate }))
			synctest.Wait()
			if last.Workers != i || last.Idle != 0 {
				t.Errorf("beside %d workers that are busy, asked about %+v", i, last)
			}
		}
		close(gate)
	})
}

// TestASizerSeesWhatStatsCounts: tasks that were canceled are not queued, those behind their key are, and a worker
// in its stop hook is in no task.
func TestASizerSeesWhatStatsCounts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var asked []shoal.Sizing
		var mu sync.Mutex
		p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithIdleTimeout(time.Millisecond),
			shoal.WithWorkerHooks(nil, func(int) { time.Sleep(time.Second) }),
			shoal.WithSizing(sizerFunc(func(s shoal.Sizing) bool {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, s)
				return true
			})))
		wants := func(what string, want shoal.Sizing) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if want.Max = 3; len(asked) == 0 || asked[0] != want {
				t.Errorf("%s: asked about %+v, want %+v first", what, asked, want)
			}
			asked = nil
		}
		must(t, p.Submit(func() {}))
		wants("the first task", shoal.Sizing{Queued: 1})
		time.Sleep(100 * time.Millisecond) // its worker is in its stop hook
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		must(t, k.Submit(1, func() { <-gate }))
		wants("beside a stop hook", shoal.Sizing{Workers: 1, Idle: 1, Queued: 1})
		time.Sleep(time.Second)
		for range 4 {
			must(t, k.Submit(1, func() {}))
		}
		p.Pause()
		for range 5 {
			shoal.Go(bg, p, func(context.Context) (int, error) { return 0, nil }).Cancel()
		}
		must(t, p.Submit(func() {}))
		p.Resume()
		wants("behind a key and others that were canceled", shoal.Sizing{Workers: 1, Queued: 5})
		close(gate)
	})
}
