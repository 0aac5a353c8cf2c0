package shoal_test

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

// A Sizer that takes its time keeps nobody from submitting, and no worker from
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

var sink atomic.Uint64

// A CPU that the machine takes away for a while looks like a worker that
// blocks, so the rule is about the pool that was disturbed least. If each was, what is
// promised must hold still: 16 for each CPU.
func TestAutoKeepsWorkersNearTheNumberOfCPUsForTasksThatCompute(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
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
// a worker gives way, beside goroutines of other tests.
func TestAutoGrowsInABubbleBesideBusyGoroutinesOutside(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	var stop atomic.Bool
	var outlasted atomic.Int32
	var spinners sync.WaitGroup
	for range 4 * procs {
		spinners.Go(func() {
			for range 2_000_000 / procs { // bounded, so that the test ends
				if stop.Load() {
					return
				}
				runtime.Gosched()
			}
			outlasted.Add(1)
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

// Workers that run dry together are all on standby for a moment. If each of them, when it gets a
// task, had another worker take its place there, the pool would grow by their number again and again.
func TestWorkersThatRunDryTogetherDoNotHaveThePoolGrow(t *testing.T) {
	const n = 4000
	rounds, sum := 8, 0
	if raceEnabled {
		rounds = 2
	}
	for range rounds {
		p := openPool(t, shoal.WithMaxWorkers(100_000))
		release := hold(t, p, n)
		release()
		for shoal.Standby(p) < n/4 && p.Stats().Running > 0 {
			runtime.Gosched()
		}
		for range 100_000 {
			must(t, p.Submit(func() { time.Sleep(time.Millisecond) }))
		}
		p.Wait()
		sum += p.Stats().PeakWorkers
		p.Close()
	}
	if peak := sum / rounds; peak > 2*n {
		t.Errorf("%d workers ran dry, and then there were %d on average", n, peak)
	}
}

// A pool yields, but not all that it has to those who never do. A part that is 5 to 35 %
// here was under 1 % when workers yielded as often as if nobody else computed.
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

func TestNobodyYieldsAfterALongTaskWhereTasksBlock(t *testing.T) {
	many := 8 * runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		workers int
		task    time.Duration
		want    bool
	}{
		{many, 10 * time.Millisecond, false}, {many, time.Hour, false},
		{many, time.Millisecond, true}, {many, 9 * time.Millisecond, true},
		{many - 1, 10 * time.Millisecond, true}, {1, time.Hour, true},
	} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(c.workers))
			for range 3 * c.workers {
				must(t, p.Submit(func() { time.Sleep(c.task) }))
			}
			time.Sleep(2*c.task + c.task/2) // no worker has run dry yet
			synctest.Wait()
			if got := p.Yields(); got != c.want {
				t.Errorf("%d workers, tasks that take %v: yields: %v, want %v", c.workers, c.task, got, c.want)
			}
			shutClean(t, p)
		})
	}
}

func TestWhatShowsThatTasksBlock(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name                        string
		run, yielding, began, procs int
		round                       time.Duration
		want                        bool
	}{
		{"ten thousand sleep for 10 ms beside a crowd", 10_000, 3, 8_000, 2, 26 * ms, true},
		{"a thousand, on many CPUs", 1000, 0, 1000, 64, 10 * ms, true},
		{"just enough run and began", 16, 8, 8, 2, 10 * ms, true},
		{"one too few run", 15, 0, 8, 2, 10 * ms, false},
		{"one too few began", 16, 0, 7, 2, 10 * ms, false},
		{"too many let others run", 16, 9, 8, 2, 10 * ms, false},
		{"sixteen block beside tasks that compute", 18, 10, 1000, 2, 26 * ms, false},
		{"tasks of 100 µs compute", 2, 10, 200, 2, 10 * ms, false},
		{"and the host took CPUs away", 6, 0, 200, 2, 10 * ms, false},
		{"a hundred that compute for 15 ms", 100, 0, 70, 2, 500 * ms, false},
		{"those that compute for 10 ms", 100, 0, 100, 2, 500 * ms, false},
		{"all sleep for long", 10_000, 0, 0, 2, 10 * ms, false},
		{"no time has passed, in a bubble", 10_000, 0, 100, 2, 0, false},
	} {
		if got := shoal.TasksBlock(c.run, c.yielding, c.began, c.procs, c.round); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestGrowsBesideACrowdOnlyIfThereIsLittleRoomAndTasksBlock(t *testing.T) {
	const ms = time.Millisecond
	const workers, capacity = 8, 10
	for waiting := range capacity + 1 {
		p := openPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity))
		release := hold(t, p, workers)
		for range waiting {
			must(t, p.Submit(func() {}))
		}
		shoal.BelieveInCPUs(p, 1)
		little := waiting > capacity/2
		for _, c := range []struct {
			foreign, began, yielding int
			round, after             time.Duration
			want                     bool
		}{
			{1000, 0, 0, 10 * ms, 0, false},       // nothing is known yet
			{1000, 3, 0, 10 * ms, 0, false},       // too few began
			{127, 1000, 0, 10 * ms, 0, false},     // no crowd
			{1000, 1000, 5, 10 * ms, 0, false},    // many let others run
			{128, 4, 0, 10 * ms, 0, little},       // tasks block
			{128, 0, 0, 0, 10*ms - 1, little},     // that is known for a while
			{128, 0, 4, 0, 10*ms - 1, little},     //
			{1000, 0, 5, 0, 10*ms - 1, false},     // many let others run
			{127, 0, 0, 0, 10*ms - 1, false},      // no crowd
			{1000, 0, 0, 0, 10 * ms, false},       // not any more
			{1000, 3, 0, 10 * ms, 10 * ms, false}, //
		} {
			if got := p.Grows(c.foreign, c.began, c.yielding, c.round, c.after); got != c.want {
				t.Errorf("%d of %d wait, %+v: %v", waiting, capacity, c, got)
			}
		}
		release()
		p.Close()
	}
}

func TestWhoGoesOnAfterALongYield(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name                    string
		away, ran               time.Duration
		others, procs, runnable int
		least, most             time.Duration
	}{
		{"four compute beside 14 workers", 20 * ms, ms / 10, 12, 2, 16, 2 * ms, 3 * ms},
		{"and the workers went on", 38 * ms, 2800 * time.Microsecond, 12, 2, 16, 2 * ms, 4 * ms},
		{"and they have gone", 18 * ms, 2800 * time.Microsecond, 12, 2, 12, 0, 0},
		{"one has come back", 18 * ms, 2800 * time.Microsecond, 12, 2, 13, 0, 0},
		{"twenty beside two workers", 100 * ms, ms / 10, 1, 2, 21, 5 * ms, 5 * ms},
		{"640 beside 128 workers", 100 * ms, ms / 10, 64, 64, 640, 5 * ms, 5 * ms},
		{"the machine was away", 50 * ms, ms / 10, 12, 2, 12, 0, 0},
		{"three pools of 14 workers", 3 * ms, ms / 10, 40, 2, 41, 0, 0},
		{"a thousand workers", 50 * ms, ms / 10, 998, 2, 999, 0, 0},
		{"a crowd of short ones", 20 * ms, ms / 10, 12, 2, 1000, 0, 0},
		{"a server", 2 * ms, ms / 10, 12, 2, 14, 0, 0},
		{"tasks that are longer than a turn", 100 * ms, time.Hour, 12, 2, 30, 5 * ms, 5 * ms},
		{"no time has passed", 0, 0, 12, 2, 16, 0, 0},
	} {
		if d := shoal.GoOn(c.away, c.ran, c.others, c.procs, c.runnable); d < c.least || d > c.most {
			t.Errorf("%s: %v, want %v to %v", c.name, d, c.least, c.most)
		}
	}
}

// Tickets are numbers of 38 bits. A pool of any age works as a new one does.
func TestPoolsOfEveryAgeWorkAlike(t *testing.T) {
	const wrap = 1 << shoal.TicketBits
	for _, workers := range []int{1, 4} {
		for _, first := range []uint64{wrap - 1, wrap - 2, wrap - 64, wrap - 513, wrap - 5000, wrap/2 - 1, wrap / 2, wrap/2 + 1, wrap/2 + 1000, wrap * 3 / 4} {
			t.Run(fmt.Sprintf("workers=%d/first=%#x", workers, first), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := shoal.NewAt(first, shoal.WithMaxWorkers(workers), shoal.WithMinWorkers(workers),
						shoal.WithQueueCapacity(3000), shoal.WithTiming(shoal.TimingFull))
					submitted := first // by the pool's counters
					check := func(when string, queued, running int) {
						t.Helper()
						synctest.Wait()
						s := p.Stats()
						if s.Submitted != submitted || s.Queued != queued || p.Queued() != queued || s.InFlight != queued+running ||
							s.Running != running || s.Completed != submitted-uint64(queued+running) || s.Workers != workers {
							t.Fatalf("%s: submitted %#x, completed %#x, queued %d, Queued() %d, in flight %d, running %d, workers %d; want %#x, %d queued, %d running",
								when, s.Submitted, s.Completed, s.Queued, p.Queued(), s.InFlight, s.Running, s.Workers, submitted, queued, running)
						}
						checkIdentity(t, s)
					}
					check("new", 0, 0)
					p.Wait() // quiet

					// One by one: a worker looks at an empty queue after each.
					for range 200 {
						done := make(chan struct{})
						must(t, p.Submit(func() { close(done) }))
						<-done
						submitted++
						check("one by one", 0, 0)
					}

					// Many at once, in order, with a full queue in between.
					for range 3 {
						var order []int
						var mu sync.Mutex
						release := hold(t, p, workers)
						submitted += uint64(workers)
						for i := range 3000 {
							must(t, p.TrySubmit(func() { mu.Lock(); order = append(order, i); mu.Unlock() }))
						}
						submitted += 3000
						check("full", 3000, workers)
						wantErr(t, "TrySubmit on a full queue", p.TrySubmit(func() {}), shoal.ErrQueueFull)
						release()
						p.Wait()
						check("drained", 0, 0)
						if workers == 1 && !slices.IsSorted(order) || len(order) != 3000 {
							t.Errorf("%d of 3000 tasks ran, in order: %t", len(order), slices.IsSorted(order))
						}
					}

					// A batch, tasks with results, and a fresh worker.
					batch := slices.Repeat([]func(){func() {}}, 1000)
					n, err := p.SubmitBatch(batch)
					if n != 1000 || err != nil {
						t.Fatalf("SubmitBatch = %d, %v", n, err)
					}
					must(t, p.Submit(runtime.Goexit))
					submitted += 1001
					p.Wait()
					for range 100 {
						must(t, p.SubmitWait(t.Context(), func(context.Context) error { return nil }))
						submitted++
					}
					check("after a Goexit", 0, 0)

					// Dropping what is queued.
					release := hold(t, p, workers)
					for range 1500 {
						must(t, p.Submit(func() { t.Error("a dropped task ran") }))
					}
					ended := inBackground(func() { must(t, p.Close()) })
					synctest.Wait()
					release()
					<-ended
					if s := p.Stats(); s.Dropped != 1500 || s.InFlight != 0 {
						t.Errorf("dropped %d, in flight %d, want 1500, 0", s.Dropped, s.InFlight)
					}
				})
			})
		}
	}
}

// In a pool that is about to wrap, tasks go on exactly once under load.
func TestTicketsWrapUnderLoad(t *testing.T) {
	const users, each = 4, 20_000
	p := shoal.NewAt(1<<shoal.TicketBits-users*each/2, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(700))
	m := startSampler(p, 4)
	y := newTally(users * each)
	var all sync.WaitGroup
	for u := range users {
		all.Go(func() {
			for i := range each {
				must(t, p.Submit(y.task(u*each+i)))
			}
		})
	}
	all.Wait()
	p.Wait()
	y.check(t)
	m.check(t)
	shutClean(t, p)
}
