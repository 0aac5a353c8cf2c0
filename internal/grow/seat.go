package grow

import (
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// The manners: when a worker yields, or parks although tasks wait. A worker reads the clock
// between two tasks, at a tick, to decide about them. Rows are those of the plant, unless they
// are said to be of the real machine.

const (
	// maxStep tasks are the most between two ticks. A tick costs about as much as one of the
	// shortest tasks.
	maxStep = 64

	// A step of less than shortStep nanoseconds may grow, and a step of more than longStep
	// shrinks. So a tick comes at least about once in a window.
	shortStep = int64(20 * time.Microsecond)
	longStep  = int64(40 * time.Microsecond)

	// window is the time, in nanoseconds, in which the workers of a crew yield once for each
	// CPU. Go's scheduler lets a goroutine compute for a slice, and looks at timers between
	// two goroutines only. Without these yields a timer is late by as long (N).
	window = int64(100 * time.Microsecond)

	// A yield of at least longYield nanoseconds, in which the turns of others were at least
	// longTurn on average, was taken by goroutines that do not yield themselves. Afterwards a
	// worker goes on, for at most goOnFor (beside spinning).
	longYield = int64(5 * time.Millisecond)
	longTurn  = int64(time.Millisecond)
	goOnFor   = int64(5 * time.Millisecond)

	// shunFor times as long as such a yield took, no worker yields before it parks (L).
	shunFor = 100

	// After a yield before parking that brought a task, a worker makes goodLuck+1 more. If they
	// all are in vain, it makes one each -badLuck+1 times. (Submit and wait, on the real machine.)
	goodLuck = 3
	badLuck  = -7

	// timedRests is how many yields before parking there are for one that is timed, where the
	// tasks are short.
	timedRests = 8
)

// Contention throttling: where tasks are so short that workers hinder each other on the cache
// lines of the queue, one works alone. It cannot be shown on the plant, which knows no cache
// lines. On the real machine tasks of 100 ns from 100, 1,000 and 10,000 submitters (Rand) take
// 1.2 to 1.5 times as long without it.
const (
	soloStep   = 16                            // tasks in a step; where there are fewer, tasks are long
	soloFresh  = int64(100 * time.Millisecond) // for how long a measurement of one worker alone is good
	soloTrial  = int64(50 * time.Microsecond)  // for how long one works alone to be measured
	soloFor    = int64(time.Millisecond)       // and for how long because that was better
	soloLook   = int64(4 * time.Microsecond)   // how often the searching worker looks at how it gets on,
	soloYields = 64 >> sy.Shorter              // or after how many yields
	taskBits   = 38                            // of a number of tasks
)

// A Seat is what one worker remembers. Its zero value is ready. It is the worker's own.
type Seat struct {
	epoch int64 // in which its last task began; 0: it has parked since, or has had none
	left  int64 // tasks until the next tick
	step  int64 // tasks between two
	ends  int64 // tasks of its life when left is 0
	last  int64 // time of the last tick

	until  int64  // it need not yield before; 0: before a window after the next tick
	back   int64  // when it came back from its last yield
	mark   uint64 // tasks begun in all at the last tick
	marked bool   // mark is set, and the worker has only run tasks since
	luck   int8   // of yields before parking
	rests  uint8  // such yields so far
}

// Stale reports whether Begin has something to do. It is inlined; with Begin in it, it would not
// be.
func (s *Seat) Stale(c *Crew) bool { return c.epoch.Load() != s.epoch }

// Begin is called before each task, while the worker still counts as searching if it does.
func (s *Seat) Begin(c *Crew) {
	if e := c.epoch.Load(); e != s.epoch {
		s.move(c, e)
	}
}

// Away is called when the worker has no task, before it parks or leaves.
func (s *Seat) Away(c *Crew) {
	s.move(c, 0)
	s.until = 0
}

// move moves the worker to another bucket.
func (s *Seat) move(c *Crew, e int64) {
	if s.epoch != 0 {
		c.count(s.epoch, ^uint64(0))
	}
	if s.epoch = e; e != 0 {
		c.count(e, 1)
	}
}

// Ended is called after each task. It reports whether a tick is due.
func (s *Seat) Ended() bool { s.left--; return s.left <= 0 }

// Done is how many tasks the worker has run.
func (s *Seat) Done() int64 { return s.ends - s.left }

// Now is the time of the last tick, or of the return from a yield after it.
func (s *Seat) Now() int64 { return s.last }

// EachTask reports whether a tick comes after every task.
func (s *Seat) EachTask() bool { return s.step <= 1 }

// Tick is called when a tick is due. It reports whether the worker is to yield, or to park
// although tasks wait. inTask and began are as for [Look.Ask].
func (s *Seat) Tick(c *Crew, inTask int, began uint64) (yield, aside bool) {
	return s.tick(c, c.Now(), inTask, began)
}

func (s *Seat) tick(c *Crew, now int64, inTask int, began uint64) (yield, aside bool) {
	took := now - s.last
	aside = s.contended(c, now, took, inTask, began)
	if s.until == 0 { // others ran while it was parked (L)
		s.until, s.back = now+window, now
	}
	done := s.Done()
	s.step = nextStep(s.step, took)
	s.left, s.ends, s.last = s.step, done+s.step, now
	return !aside && now >= s.until && c.due(now), aside
}

// nextStep is the number of tasks between two ticks after n of them took so long. It is small
// for long tasks, where no tick should be missed.
func nextStep(n, took int64) int64 {
	switch {
	case took < shortStep && n <= maxStep/2:
		n *= 2
	case took > longStep:
		n /= 2
	}
	return max(1, n)
}

// contended reports whether workers hinder each other, so that one alone would get more done.
// How much that is depends on the machine and the hour. So it compares what one worker alone
// did in a step with what all did in this worker's step. If the first is unknown, that is reason
// enough to try.
func (s *Seat) contended(c *Crew, now, took int64, inTask int, began uint64) bool {
	taken := int64((began - s.mark) & (1<<taskBits - 1))
	known := s.marked && s.step >= soloStep && took < longStep && taken >= s.step
	s.mark, s.marked = began, true
	switch {
	case !known:
		return false
	case taken < s.step+s.step/8: // it was alone
		c.soloTime.Store(took / s.step)
		c.soloAt.Store(now)
		return false
	case inTask < 2:
		return false
	}
	solo, together := c.soloTime.Load(), took/taken
	switch {
	case solo == 0 || now-c.soloAt.Load() > soloFresh:
		c.soloUntil.Store(now + soloTrial)
	case solo < together-together/8:
		c.soloUntil.Store(now + soloFor)
	default:
		return false
	}
	s.marked = false
	return true
}

// Yields is called when the worker has left its task and is to yield, before anything else.
func (s *Seat) Yields(c *Crew) { c.yielding.Add(1) }

// Yield follows Yields, and yields.
func (s *Seat) Yield(c *Crew) {
	yielders.Add(1)
	sy.Yield()
	others := yielders.Add(-1)
	c.yielding.Add(-1)
	now := c.Now()
	s.yielded(c, now, others, waiting(now-s.last, others))
}

// yielded is called after a yield since the last tick. others workers still yield, and n other
// goroutines are runnable.
func (s *Seat) yielded(c *Crew, now, others, n int64) {
	d := c.goOn(now, now-s.last, s.last-s.back, others, n)
	s.last, s.back, s.until, s.marked = now, now, now+d, false
}

// Rest yields before the worker parks, now and then: the goroutine that submits next may be
// waiting for this CPU.
func (s *Seat) Rest(c *Crew) {
	yield, timed := s.mayRest(c)
	if !yield {
		return
	}
	from := s.last
	if timed && !s.EachTask() {
		from = c.Now()
	}
	sy.Yield()
	if timed {
		now := c.Now()
		c.goOn(now, now-from, 0, 0, waiting(now-from, 0))
	}
}

// mayRest reports whether the worker is to yield before it parks, and whether that is timed. A
// yield in vain costs more than it looks, and the worker counts as searching meanwhile. So the
// worker yields while that pays, and not beside goroutines that keep a CPU for long.
func (s *Seat) mayRest(c *Crew) (yield, timed bool) {
	s.marked = false
	if s.luck--; s.luck < badLuck {
		s.luck = 0
	}
	if s.luck < 0 || c.epoch.Load()*epochLen < c.shun.Load() {
		return false, false
	}
	s.rests++
	return true, s.EachTask() || s.rests%timedRests == 0
}

// Found is called when a yield before parking brought a task.
func (s *Seat) Found() { s.luck = goodLuck }

// waiting is how many goroutines are runnable, without others, after a yield that took away. It
// asks the scheduler only where the answer matters.
func waiting(away, others int64) int64 {
	if away < longYield {
		return 0
	}
	return runnable() - others
}

// goOn is for how long a worker need not yield again that yielded for away, and had run for ran
// before. others workers still yield, and n other goroutines are runnable.
//
// A goroutine that computes and does not yield keeps a CPU for a slice. Workers that gave it
// back after a window each time would have a hundredth of the CPUs, and nobody would be less
// late for that. So workers that take turns go on until they have together what foreign
// goroutines had, which are still there, and whose turns are long. Each of the other workers may
// have had what this one had, and that is subtracted. Else workers would take each other for
// foreign ones.
func (c *Crew) goOn(now, away, ran, others, n int64) int64 {
	procs := c.procs.Load()
	foreign := away*procs - others*min(ran, goOnFor)
	if away < longYield || n < 1 || foreign < longYield*procs || foreign < n*longTurn {
		return 0
	}
	c.shun.Store(now + shunFor*away)
	return min(foreign/(procs+others), goOnFor)
}
