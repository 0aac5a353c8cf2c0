package grow

import "github.com/shoal-go/shoal/internal/sy"

// This file is about yields: when a worker yields between two tasks, or before it parks, and when
// it parks although tasks wait. It decides at a tick, where it reads the clock after a task.

const (
	// maxStep tasks are the most between two ticks. A tick costs about as much as one of the
	// shortest tasks.
	maxStep = 64

	// A step that took less than ShortStep doubles, and one that took more than longStep is
	// halved. So a tick comes more than once in a window, unless a task takes longer (N).
	ShortStep = 20 * us
	longStep  = 40 * us

	// window is the time in which the workers of a crew yield at most once for each CPU. Go's
	// scheduler lets a goroutine compute for a slice, and looks at timers between two goroutines only.
	// So without these yields a timer is late by as much as a slice (N).
	window = 100 * us

	// After a yield that took at least longYield, and in which other goroutines had turns of at
	// least longTurn, a worker does not yield for a while, but for at most longYield. Without
	// that, tasks beside goroutines that spin take more than twice as long (beside spinning).
	longYield = 5 * ms
	longTurn  = ms

	// After such a yield no worker yields before it parks, for shunFor times as long as the yield
	// took (L wait).
	shunFor = 100

	// After a yield before parking that brought a task, a worker yields goodLuck times more before
	// it parks, and then once in restEach times (wait). On the real machine submit and wait takes up
	// to 1.9 times as long without these yields. Reading the clock for all of them would cost as
	// much as a short task, so about one in restEach is timed.
	goodLuck = 3
	restEach = 8

	// Contention throttling: if tasks are so short that workers hinder each other on the cache lines
	// of the queue, one works alone for a while. The plant has no cache lines, so no row shows it.
	// On a real machine with two CPUs tasks of 100 ns from 100, 1,000 and 10,000 submitters (Rand)
	// take 1.2 to 1.5 times as long without it.
	soloFresh  = 100 * ms         // for how long a measurement of one worker alone is good
	soloTrial  = 50 * us          // for how long one works alone to be measured
	soloFor    = ms               // and for how long because that was better
	soloLook   = 4 * us           // after that time the searching worker looks at the other one's progress,
	soloYields = 64 >> sy.Shorter // or after so many yields
)

// A Seat is what one worker remembers, and only that worker uses it. Its zero value is ready. It is
// small: during a long task it drops out of the caches, and after the task all of it is used.
type Seat struct {
	epoch int64 // in which its last task began; 0: it has parked since, or has had none
	ends  int64 // tasks of its life when left is 0
	last  int64 // time of the last tick
	until int64 // it need not yield before that; 0: not before a window after the next tick
	back  int64 // when it came back from its last yield

	mark   uint32 // tasks begun in all at the last tick; they may wrap
	marked bool   // mark is set, and the worker has only run tasks since
	left   int8   // tasks until the next tick
	step   int8   // tasks between two; at most maxStep
	luck   int8   // yields before parking that are certain; if negative, how long ago the last one was
}

// Stale reports whether Begin has something to do. It is inlined; with Begin in it, it would not
// be.
func (s *Seat) Stale(c *Crew) bool { return c.epoch.Load() != s.epoch }

// Begin is called before each task for which Stale says so, while the worker still counts as searching
// if it does.
func (s *Seat) Begin(c *Crew) {
	if s.epoch != 0 {
		c.count(s.epoch, ^uint64(0))
	}
	s.epoch = c.epoch.Load()
	c.count(s.epoch, 1)
}

// Away is called when the worker has no task, before it parks or leaves.
func (s *Seat) Away(c *Crew) {
	if s.epoch != 0 {
		c.count(s.epoch, ^uint64(0))
		s.epoch, s.until = 0, 0
	}
}

// Woken is called when the worker was parked for d. That time is no part of a step.
func (s *Seat) Woken(d int64) { s.last, s.marked = s.last+d, false }

// Ended is called after each task. It reports whether a tick is due.
func (s *Seat) Ended() bool { s.left--; return s.left <= 0 }

// Done is how many tasks the worker has run.
func (s *Seat) Done() int64 { return s.ends - int64(s.left) }

// Now is the time of the last tick, or of the return from a yield after it.
func (s *Seat) Now() int64 { return s.last }

// EachTask reports whether a tick comes after every task.
func (s *Seat) EachTask() bool { return s.step <= 1 }

// Short reports whether the last tasks were so short that workers may hinder each other, and that most of
// those that wait are done before another worker has come. In models one task is enough for that.
func (s *Seat) Short() bool { return s.step >= maxStep/4>>(4*sy.Shorter/3) }

// Tick is called when a tick is due. It reports whether the worker is to yield, or to park
// although tasks wait. inTask and began are as for [Look.Ask].
func (s *Seat) Tick(c *Crew, inTask int, began uint64) (yield, aside bool) {
	now, done := c.Now(), s.Done()
	took := now - s.last
	aside = s.contended(c, now, took, inTask, began)
	if s.until == 0 { // it was parked, so other goroutines have had their turn (L)
		s.until, s.back = now+window, now
	}
	if took < ShortStep {
		s.step = min(s.step, maxStep/2) * 2
	} else if took > longStep {
		s.step = max(1, s.step/2) // the first tick comes here: last is 0 until then
	}
	s.left, s.ends, s.last = s.step, done+int64(s.step), now
	return !aside && now >= s.until && c.due(now), aside
}

// contended reports whether workers hinder each other, so that one alone would get more done. How
// much more depends on the machine and what else runs on it. So contended compares what one worker
// alone did in a step with what all did in this worker's step. If the former is unknown, that is
// reason enough to try.
func (s *Seat) contended(c *Crew, now, took int64, inTask int, began uint64) bool {
	taken, step, d := int64(uint32(began)-s.mark), int64(s.step), int64(0)
	switch {
	case !s.marked || !s.Short() || taken < step || took == 0 || took > longStep: // unknown
	case taken < step+step/8: // it was alone
		c.soloTime.Store(took / step)
		c.soloAt.Store(now)
	case inTask < 2:
	case now-c.soloAt.Load() > soloFresh:
		d = soloTrial
	case c.soloTime.Load() < took/taken*7/8:
		d = soloFor
	}
	s.mark, s.marked = uint32(began), d == 0
	if d > 0 {
		c.soloUntil.Store(now + d)
	}
	return d > 0
}

// Yields is called when the worker is to yield, as soon as it no longer counts as inside a task,
// and not before: see Ask.
func (s *Seat) Yields(c *Crew) { yielders.Add(1); c.yielding.Add(1) }

// Yielded follows Yields, and the yield, if there was one. The worker had run from back to last. It need
// not yield again for a window: at its next tick it would be too early, beside goroutines that take turns
// (beside polite).
func (s *Seat) Yielded(c *Crew) {
	c.yielding.Add(-1)
	now, until := c.goOn(s.last, s.last-s.back, yielders.Add(-1))
	s.last, s.back, s.until, s.marked = now, now, max(until, now+window), false
}

// Rest yields before the worker parks, now and then: the goroutine that submits next may be waiting
// for this CPU. If tasks are long, Rest first looks whether any goroutine waits: a yield in vain wakes
// another CPU, so that others are late (Latency of the benchmarks), and costs more than the look.
func (s *Seat) Rest(c *Crew) {
	if from, ok := s.rests(c); ok && (!s.EachTask() || c.Runnable() > 0) {
		if sy.Yield(); from != 0 {
			c.goOn(from, 0, 0)
		}
	}
}

// rests reports whether the worker is to yield before it parks, and when the yield began; 0 if it is
// not timed. A yield in vain costs more than it seems, and the worker counts as searching meanwhile.
// So the worker yields while that pays, and not beside goroutines that keep a CPU for long.
func (s *Seat) rests(c *Crew) (from int64, ok bool) {
	s.luck, s.marked = (s.luck-1)%restEach, false
	ok = s.luck >= 0 && c.epoch.Load()*epochLen >= c.shun.Load()
	if ok && (s.luck == 0 || s.EachTask() || s.left%restEach == 0) {
		from = c.Now()
	}
	return from, ok
}

// Found is called when a task came after Rest.
func (s *Seat) Found() { s.luck = goodLuck }

// goOn returns the time, and until when a worker goes on because of goroutines that do not yield. The
// worker has yielded since from, and had run for ran before that; others more workers still yield.
// goOn may set shun.
//
// A goroutine that computes and does not yield keeps a CPU for a slice. If workers gave the CPU
// back after a window each time, they would have a hundredth of the CPUs, and timers would be as
// late as before. So the workers that take turns go on until together they have had as much as
// foreign goroutines, if these are still there, and if their turns are long. Each of the other
// workers may have had as much as this one in the meantime. That is subtracted: otherwise workers
// would take each other for foreign goroutines.
func (c *Crew) goOn(from, ran, others int64) (now, until int64) {
	now = c.Now()
	procs, away := c.procs.Load(), now-from
	foreign := away*procs - others*min(ran, longYield)
	if foreign < longYield*procs {
		return now, now
	}
	if n := c.Runnable() - others; n < 1 || foreign < n*longTurn {
		return now, now
	}
	c.shun.Store(now + shunFor*away)
	return now, now + min(foreign/(procs+others), longYield)
}
