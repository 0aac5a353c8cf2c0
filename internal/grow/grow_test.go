//go:build !poolsim

package grow

import (
	"testing"
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// hand is a machine that is set by hand.
type hand struct{ now, procs, runnable int64 }

func newHand(procs int64) (*Crew, *hand) {
	holding.Store(0) // a run of the plant ends with workers held back
	yielders.Store(0)
	h := &hand{procs: procs}
	c := &Crew{
		clock: func(time.Time) int64 { return h.now },
		cpus:  func() int { return int(h.procs) },
		load:  func() uint64 { return uint64(h.runnable) },
	}
	c.Now()
	return c, h
}

// in sets the clock to epoch n after the first one.
func (h *hand) in(c *Crew, n int64) {
	h.now = n * epochLen
	c.Now()
}

func TestAWorkerIsFreshForASliceOrAQuarterLess(t *testing.T) {
	for off := int64(0); off < 10*epochLen; off += epochLen/3 + 1 {
		for after := int64(0); after < 30*ms; after += ms - 1 {
			c, h := newHand(2)
			var s Seat
			h.now = off
			c.Now()
			s.Begin(c)
			h.now += after
			got := c.fresh(c.Now())
			if after <= slice*3/4 && got != 1 || after >= slice && got != 0 {
				t.Errorf("begun at %d µs: %d fresh after %d µs", off/us, got, after/us)
			}
		}
	}
}

func TestAWorkerCountsOnceHoweverManyTasksItBegins(t *testing.T) {
	c, h := newHand(2)
	var a, b Seat
	for e := range int64(30) {
		h.in(c, e)
		a.Begin(c)
		a.Begin(c)
		if e%3 == 0 {
			b.Begin(c)
		}
		if got := c.fresh(c.Now()); got != 2 {
			t.Errorf("epoch %d: %d fresh workers of 2", e, got)
		}
	}
	a.Away(c)
	a.Away(c)
	if got := c.fresh(c.Now()); got != 1 {
		t.Errorf("%d fresh workers when one of two has parked", got)
	}
}

// TestABucketThatIsReusedForgets: a worker whose task began so long ago that its bucket counts
// another epoch takes nothing away from that.
func TestABucketThatIsReusedForgets(t *testing.T) {
	for e := range int64(4 * buckets) {
		c, h := newHand(2)
		var long, short Seat
		h.in(c, 1)
		long.Begin(c)
		h.in(c, 1+e)
		short.Begin(c)
		if long.Away(c); c.fresh(c.Now()) != 1 {
			t.Errorf("%d epochs later: %d fresh workers, not 1", e, c.fresh(c.Now()))
		}
		if short.Away(c); c.fresh(c.Now()) != 0 {
			t.Errorf("%d epochs later: %d fresh workers, not 0", e, c.fresh(c.Now()))
		}
	}
}

// TestALateReaderSetsTheEpochBack: what a worker adds to a bucket that is reused already is not
// counted, and is not subtracted either.
func TestALateReaderSetsTheEpochBack(t *testing.T) {
	for back := range int64(3 * buckets) {
		c, h := newHand(2)
		var a, b Seat
		h.in(c, 40)
		a.Begin(c)
		c.epoch.Store(c.epoch.Load() - back) // a late one, between its look and its store
		b.Begin(c)
		a.Begin(c)
		c.Now()
		if a.epoch != b.epoch {
			t.Fatal("both saw the same epoch")
		}
		want := 2
		if back >= freshFor {
			want = 0
		}
		if got := c.fresh(c.Now()); got != want {
			t.Errorf("%d epochs back: %d fresh workers, not %d", back, got, want)
		}
		a.Begin(c)
		b.Begin(c)
		if got := c.fresh(c.Now()); got != 2 {
			t.Errorf("%d epochs back, then the next tasks: %d fresh workers", back, got)
		}
		a.Away(c)
		b.Away(c)
		for i := range c.began {
			if n := c.began[i].Load() & countMask; n != 0 {
				t.Errorf("%d epochs back: bucket %d has %d when all are away", back, i, n)
			}
		}
	}
}

func TestTheClockIsNeverZero(t *testing.T) {
	var c Crew
	c.Init(time.Now())
	if now := c.Now(); now < buckets*epochLen {
		t.Errorf("%d", now)
	}
	if c.Procs() < 1 {
		t.Errorf("%d CPUs", c.Procs())
	}
}

// TestTheClockMayBeBeforeTheEpoch: in a testing/synctest bubble it is the year 2000.
func TestTheClockMayBeBeforeTheEpoch(t *testing.T) {
	c, h := newHand(2)
	h.now = -int64(20 * 365 * 24 * time.Hour)
	var s Seat
	s.Begin(c)
	yields := 0
	for range 10 {
		if yield, _ := s.Tick(c, 2, 0); yield {
			yields++
		}
	}
	if n := c.fresh(c.Now()); n != 1 || yields != 0 || c.Now() <= 0 {
		t.Errorf("%d fresh workers, %d yields, now %d", n, yields, c.Now())
	}
	h.now = ms
	if yield, _ := s.Tick(c, 2, 0); !yield {
		t.Error("no yield when time goes on")
	}
}

func TestTheCPUsAreCountedAnewInEachEpoch(t *testing.T) {
	c, h := newHand(2)
	h.procs = 5
	if h.in(c, 1); c.Procs() != 5 {
		t.Errorf("%d CPUs, not 5", c.Procs())
	}
}

// tasks has s run tasks of duration d for n ticks, and returns the steps.
func tasks(c *Crew, h *hand, s *Seat, d int64, ticks int) (steps []int64) {
	for len(steps) < ticks {
		if h.now += d; s.Ended() {
			s.Tick(c, 1, 0)
			steps = append(steps, int64(s.step))
		}
	}
	return steps
}

func TestTheStepFitsTheTasks(t *testing.T) {
	for _, x := range []struct{ d, least, most int64 }{
		{0, maxStep, maxStep},
		{100, maxStep, maxStep},
		{us, 20, 40},
		{10 * us, 2, 4},
		{30 * us, 1, 1},
		{100 * us, 1, 1},
		{10 * ms, 1, 1},
	} {
		c, h := newHand(2)
		var s Seat
		tasks(c, h, &s, x.d, 20)
		for _, step := range tasks(c, h, &s, x.d, 20) {
			if step < x.least || step > x.most {
				t.Errorf("tasks of %d ns: a step of %d tasks, not %d to %d", x.d, step, x.least, x.most)
			}
		}
		if got := s.EachTask(); got != (x.most == 1) {
			t.Errorf("tasks of %d ns: a tick after each task: %v", x.d, got)
		}
	}
}

func TestLongTasksAfterShortOnesAreNoticedInAFewTicks(t *testing.T) {
	c, h := newHand(2)
	var s Seat
	tasks(c, h, &s, 100, 20)
	before := s.Done()
	steps := tasks(c, h, &s, ms, 7)
	if last := steps[len(steps)-1]; last != 1 || s.Done()-before > 2*maxStep {
		t.Errorf("steps %v, %d tasks", steps, s.Done()-before)
	}
}

// TestAPauseIsNoPartOfAStep: short tasks with pauses between them are short.
func TestAPauseIsNoPartOfAStep(t *testing.T) {
	c, h := newHand(2)
	var s Seat
	for range 1000 {
		s.Begin(c)
		if h.now += 100; s.Ended() {
			s.Tick(c, 1, 0)
		}
		s.Away(c)
		h.now += ms
		s.Woken(ms)
	}
	if !s.Short() {
		t.Errorf("a step of %d tasks", s.step)
	}
}

func TestDoneIsExactAfterEachTask(t *testing.T) {
	c, h := newHand(2)
	var s Seat
	for i := range int64(1000) {
		if s.Done() != i {
			t.Fatalf("%d tasks done, not %d", s.Done(), i)
		}
		if h.now += 300 * (i % 400); s.Ended() {
			s.Tick(c, 1, uint64(i))
		}
	}
}

// TestTheQuotaIsOneYieldPerCPUAndWindow: workers of one crew share it.
func TestTheQuotaIsOneYieldPerCPUAndWindow(t *testing.T) {
	const procs, workers, windows = 3, 7, 100
	c, h := newHand(procs)
	var seats [workers]Seat
	yields := 0
	for range windows {
		before := yields
		for range 10 {
			for i := range seats {
				if s := &seats[i]; s.Ended() {
					if yield, _ := s.Tick(c, workers, 0); yield {
						yields++
						s.Yields(c)
						s.Yielded(c)
					}
				}
			}
			h.now += window / 10
		}
		if n := yields - before; n > procs {
			t.Errorf("%d yields in a window, %d CPUs", n, procs)
		}
	}
	if want := procs * (windows - 2); yields < want { // none in the first window of a worker
		t.Errorf("%d yields, not %d", yields, want)
	}
}

func TestAWorkerThatWasParkedDoesNotYieldForAWindow(t *testing.T) {
	c, h := newHand(8)
	var s Seat
	h.now = 50 * ms
	s.Begin(c)
	s.Ended()
	s.Tick(c, 1, 0)
	for h.now < 50*ms+window {
		if yield, _ := s.Tick(c, 1, 0); yield {
			t.Errorf("it yields after %d µs", (h.now-50*ms)/us)
		}
		h.now += 10 * us
	}
	if yield, _ := s.Tick(c, 1, 0); !yield {
		t.Error("it does not yield after a window")
	}
	s.Away(c)
	s.Begin(c)
	if yield, _ := s.Tick(c, 1, 0); yield {
		t.Error("it yields in the first task after it was parked")
	}
}

// yieldsFor has s yield for that long, with that many runnable goroutines afterwards, and
// returns for how long it need not yield.
func yieldsFor(c *Crew, h *hand, s *Seat, away, runnable int64) int64 {
	s.Yields(c)
	h.now += away
	h.runnable = runnable
	s.Yielded(c)
	return s.until - c.Now()
}

func TestAWorkerGoesOnBesideGoroutinesThatDoNotYield(t *testing.T) {
	for _, x := range []struct {
		what           string
		away, runnable int64
		least, most    int64
	}{
		{"a short yield", 100 * us, 10, window, window},
		{"a long one, and nobody is there any more", 20 * ms, 0, window, window},
		{"a long one beside 4 that compute", 20 * ms, 4, ms, longYield},
		{"a long one in a crowd with short turns", 20 * ms, 1000, window, window},
	} {
		c, h := newHand(2)
		var s Seat
		s.Tick(c, 1, 0)
		if d := yieldsFor(c, h, &s, x.away, x.runnable); d < x.least || d > x.most {
			t.Errorf("%s: it goes on for %d µs", x.what, d/us)
		}
		if shuns := c.shun.Load() > c.Now(); shuns != (x.most > window) {
			t.Errorf("%s: no yields before parking: %v", x.what, shuns)
		}
	}
}

// TestWorkersDoNotTakeEachOtherForForeignOnes: where all that run are workers that yield, each
// is away for as long as the others compute, and that is no reason to go on.
func TestWorkersDoNotTakeEachOtherForForeignOnes(t *testing.T) {
	c, h := newHand(2)
	yielders.Store(19) // others
	defer yielders.Store(0)
	var s Seat
	h.now = 5 * ms
	s.Tick(c, 1, 0)
	s.back = s.last - 5*ms // it has run for 5 ms
	if d := yieldsFor(c, h, &s, 45*ms, 20); d != window {
		t.Errorf("it goes on for %d µs", d/us)
	}
}

// TestWorkersShareWhatForeignGoroutinesHad: each goes on for its part of it.
func TestWorkersShareWhatForeignGoroutinesHad(t *testing.T) {
	c, h := newHand(2)
	yielders.Store(8) // others
	defer yielders.Store(0)
	var s Seat
	s.Tick(c, 1, 0)
	s.back = s.last // it has only begun to run
	if d := yieldsFor(c, h, &s, 20*ms, 12); d != 4*ms {
		t.Errorf("10 workers and CPUs share 40 ms: it goes on for %d µs", d/us)
	}
}

func TestYieldsBeforeParkingAreMadeWhileTheyPay(t *testing.T) {
	c, _ := newHand(2)
	var s Seat
	count := func(n int) (yields, timed int) {
		for range n {
			if from, ok := s.rests(c); ok {
				yields++
				if from != 0 {
					timed++
				}
			}
		}
		return
	}
	s.step, s.left = maxStep, maxStep-1 // short tasks
	if yields, timed := count(8 * restEach); yields != 8 || timed != 8 {
		t.Errorf("in vain: %d yields, %d timed", yields, timed)
	}
	s.Found()
	if yields, timed := count(goodLuck); yields != goodLuck || timed != 1 {
		t.Errorf("%d yields after one that brought a task, %d timed", yields, timed)
	}
	if yields, _ := count(restEach - 1); yields != 0 {
		t.Errorf("%d yields after %d in vain", yields, goodLuck)
	}
	c.shun.Store(c.Now() + epochLen)
	s.Found()
	if yields, _ := count(1); yields != 0 {
		t.Error("a yield beside goroutines that keep a CPU for long")
	}
}

// stepOf has the worker run a step of n tasks, all in that time, while all workers took so many.
func stepOf(c *Crew, h *hand, s *Seat, began *uint64, took, taken int64, inTask int) (yield, aside bool) {
	s.step = maxStep
	h.now += took
	*began = (*began + uint64(taken)) & taskMask
	return s.Tick(c, inTask, *began)
}

// TestContentionThrottling: where a worker alone gets more done than several, one works alone.
func TestContentionThrottling(t *testing.T) {
	const step = maxStep
	type run struct {
		took, taken int64
		inTask      int
		aside       bool
	}
	alone := run{10 * us, step, 1, false}
	for _, x := range []struct {
		what string
		runs []run
	}{
		{"alone", []run{alone, alone}},
		{"unknown what one alone does: it is tried", []run{{10 * us, 2 * step, 2, true}}},
		{"one alone is faster", []run{alone, {30 * us, 2 * step, 2, true}}},
		{"one alone is slower", []run{alone, {10 * us, 2 * step, 2, false}}},
		{"long tasks", []run{{50 * us, 2 * step, 2, false}}},
		{"the others have gone", []run{{10 * us, 2 * step, 1, false}}},
		{"the clock stands still", []run{{0, 2 * step, 2, false}}},
		{"a measurement that is old", []run{alone, {soloFresh, 0, 1, false}, {10 * us, 2 * step, 2, true}}},
	} {
		for _, at := range []int64{0, 10 * soloFresh} {
			c, h := newHand(2)
			h.now = at
			var s Seat
			began := uint64(taskMask - 50) // it wraps
			stepOf(c, h, &s, &began, window, 0, 1)
			h.now += window
			stepOf(c, h, &s, &began, window, 0, 1)
			for i, r := range x.runs {
				yield, aside := stepOf(c, h, &s, &began, r.took, r.taken, r.inTask)
				if aside != r.aside || aside && yield {
					t.Errorf("%s, run %d: aside: %v, yield: %v", x.what, i, aside, yield)
				}
				if solo := c.soloUntil.Load() > c.Now(); solo != r.aside {
					t.Errorf("%s, run %d: one is to work alone: %v", x.what, i, solo)
				}
			}
		}
	}
}

// TestAStepWithAYieldInItIsNotCompared: others have run meanwhile.
func TestAStepWithAYieldInItIsNotCompared(t *testing.T) {
	for what, f := range map[string]func(c *Crew, s *Seat){
		"a first step":           func(c *Crew, s *Seat) { *s = Seat{} },
		"a yield":                func(c *Crew, s *Seat) { s.Yields(c); s.Yielded(c) },
		"a yield before parking": func(c *Crew, s *Seat) { s.rests(c) },
	} {
		c, h := newHand(2)
		var s Seat
		var began uint64
		stepOf(c, h, &s, &began, 10*us, 0, 1)
		f(c, &s)
		if _, aside := stepOf(c, h, &s, &began, 10*us, 2*maxStep, 2); aside {
			t.Errorf("%s: compared", what)
		}
		if _, aside := stepOf(c, h, &s, &began, 10*us, 2*maxStep, 2); !aside {
			t.Errorf("%s: the next step is not compared either", what)
		}
		if _, aside := stepOf(c, h, &s, &began, 10*us, 2*maxStep, 2); aside {
			t.Errorf("%s: the step after it was parked is compared", what)
		}
	}
}

// TestTheSearchingWorkerWaitsForTheOneThatWorksAlone: but not for one that stands still, and not
// when it is over.
func TestTheSearchingWorkerWaitsForTheOneThatWorksAlone(t *testing.T) {
	c, h := newHand(2)
	c.soloUntil.Store(c.Now() + soloFor)
	var l Look
	for began := range uint64(5) {
		if start := l.Ask(c, 1, began, began-1); start {
			t.Fatal("it starts beside the one that works alone")
		}
	}
	looks := 0
	for start := false; !start && looks < 100; looks++ {
		start = l.Ask(c, 1, 4, 3)
	}
	if looks != soloLooks {
		t.Errorf("it starts after %d looks at one that stands still", looks)
	}
	if start := new(Look).Ask(c, 0, 4, 4); !start {
		t.Error("it does not start though nobody works")
	}
	h.now += soloFor
	if start := new(Look).Ask(c, 1, 4, 3); !start {
		t.Error("it does not start when the time is over")
	}
	h.in(c, 1)
	if c.soloUntil.Load() != 0 {
		t.Error("in the next epoch it is remembered still")
	}
}

// TestAPoolWithFewerActiveWorkersThanCPUsReadsNoClock: submit and wait must be cheap. So such a pool asks the
// rule at its first look in an epoch only.
func TestAPoolWithFewerActiveWorkersThanCPUsReadsNoClock(t *testing.T) {
	c, h := newHand(2)
	var clocks, loads int
	clock, load := c.clock, c.load
	c.clock = func(since time.Time) int64 { clocks++; return clock(since) }
	c.load = func() uint64 { loads++; return load() }
	for range 3 {
		h.now += epochLen
		c.Now()
		clocks, loads = 0, 0
		for look := 1; look <= 10; look++ {
			if !new(Look).Ask(c, 1, 10, 9) || clocks != 1 || loads != 1 {
				t.Fatalf("look %d: it does not start, or the clock was read %d times, the scheduler %d times", look, clocks, loads)
			}
		}
	}
}

// TestHeldBackWorkersAreNotRunnable: to the others they look like goroutines that need a CPU.
func TestHeldBackWorkersAreNotRunnable(t *testing.T) {
	c, h := newHand(2)
	new(Look).Hold(c)
	h.runnable = 7
	holding.Add(3)
	defer holding.Add(-3)
	if n := c.Runnable(); n != 4 {
		t.Errorf("%d runnable, not 4", n)
	}
	h.runnable = 1
	if n := c.Runnable(); n != 0 {
		t.Errorf("%d runnable, not 0", n)
	}
}

// TestForeignGoroutinesAreForgottenWhenTheyGo: but not for a single low reading.
func TestForeignGoroutinesAreForgottenWhenTheyGo(t *testing.T) {
	var r Rule
	ask := func(inTask, runnable int) int {
		r.Ask(new(Look), Sight{Now: ms, Procs: 2, InTask: inTask, Fresh: inTask, Runnable: runnable})
		return r.foreign
	}
	ask(2, 40)
	if f := ask(2, 40); f != 38 {
		t.Errorf("40 runnable, 2 workers: %d foreign", f)
	}
	ask(300, 0)
	if f := ask(300, 40); f != 38 {
		t.Errorf("after a single low reading: %d foreign", f)
	}
	ask(300, 5)
	if f := ask(300, 5); f != 5 {
		t.Errorf("5 runnable, twice: %d foreign", f)
	}
}

// TestAWorkerThatYieldsIsRunnable: so it is none of those that gave their CPU up.
func TestAWorkerThatYieldsIsRunnable(t *testing.T) {
	for yielding, want := range []bool{false, true} {
		r := Rule{runnable: 1}
		s := Sight{Now: ms, Procs: 2, InTask: 2, Yielding: yielding, Fresh: 2 + yielding, Runnable: 1}
		if start := r.Ask(new(Look), s); start != want {
			t.Errorf("two workers in tasks, one goroutine runnable, %d yield: start %v", yielding, start)
		}
	}
}

// TestTheLimitFallsWithTheCrowd: and then rises by steps again.
func TestTheLimitFallsWithTheCrowd(t *testing.T) {
	r := Rule{limit: 500}
	s := Sight{Now: 1000 * ms, Procs: 2, InTask: 20, Runnable: 10}
	r.Ask(new(Look), s)
	if want := 10 + 2*perCPU; r.limit != want {
		t.Errorf("a limit of %d, not %d", r.limit, want)
	}
}

// TestTaskCountsMayWrap: the rule sees differences only.
func TestTaskCountsMayWrap(t *testing.T) {
	for _, first := range []uint64{0, taskMask - 1, taskMask} {
		var r Rule
		var l Look
		s := Sight{Now: 1000 * ms, Procs: 2, InTask: 40, Runnable: 39, Ended: first, Began: first}
		r.limit, r.since, r.ended = 16, 0, first
		s.Ended = (first + 1) & taskMask
		if start := r.Ask(&l, s); r.limit != 39+16 || !start {
			t.Errorf("from %d: a limit of %d in a round that ended one task", first, r.limit)
		}
		r = Rule{limit: 16, ended: first}
		s.Ended = (first + 2) & taskMask
		if start := r.Ask(new(Look), s); r.limit == 39+16 || start {
			t.Errorf("from %d: a limit of %d in a round that ended two", first, r.limit)
		}
	}
}

func TestTheFastPathsAllocateNothing(t *testing.T) {
	var c Crew
	c.Init(time.Now())
	var s Seat
	var l Look
	if n := testing.AllocsPerRun(100, func() {
		if s.Stale(&c) {
			s.Begin(&c)
		}
		if s.Ended() {
			s.Tick(&c, 1, 1)
		}
		l.Ask(&c, 1<<20, 1, 1)
		l.Hold(&c)
		s.Yields(&c)
		sy.Yield()
		s.Yielded(&c)
		s.Rest(&c)
		s.Away(&c)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTask(b *testing.B) {
	var c Crew
	c.Init(time.Now())
	var s Seat
	for range b.N {
		if s.Stale(&c) {
			s.Begin(&c)
		}
		if s.Ended() {
			s.Tick(&c, 1, 0)
		}
	}
}
