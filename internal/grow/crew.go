package grow

import (
	_ "sync/atomic" // so that the compiler inlines the atomics that package sy gives other names to
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

const (
	// epochLen is the unit in which workers note when their last task began. With a finer one
	// they write to shared memory more often; with a coarser one a slice is less exact.
	epochLen = slice / 4

	// A worker is fresh if its last task began in one of the last freshFor epochs: less than a slice
	// ago, or up to a quarter less. If workers were fresh for longer, a worker that comes after the
	// slice of another one would see no CPU free, and wait for a round (S3 on one CPU).
	freshFor = 4

	// There are more buckets than freshFor, so that none is reused while it is looked at.
	buckets = 8

	// The low countBits of a word count workers or yields. The other bits are the epoch or window of
	// that count.
	countBits = 24
	countMask = 1<<countBits - 1
)

// Numbers over all crews: of workers that are held back, and of those that yield between two tasks.
var holding, yielders sy.Int64

// A Crew is what the workers of a pool, and of its sub-pools, share. It must be initialized
// before use.
//
// A bucket is a word of an epoch and a count: the workers that began their last task in that
// epoch, and have not parked since. Its epoch only rises. A bucket with another epoch than the
// one that is looked for counts as empty, so nothing has to clear it in time.
type Crew struct {
	_ sy.Pad // what follows is read before each task, and seldom written

	epoch     sy.Int64 // as of the last reading of the clock
	procs     sy.Int64 // CPUs that Go uses, as of then
	soloUntil sy.Int64 // one worker is to work alone until then; 0: no

	// The machine: when its time began, nanoseconds since then; CPUs, runnable goroutines.
	Epoch time.Time
	clock func(since time.Time) int64
	cpus  func() int
	load  func() uint64

	_ sy.Pad

	began [buckets]sy.Uint64 // epoch │ count

	_ sy.Pad // what follows is read at each tick

	yielding sy.Int64  // workers between two tasks
	quota    sy.Uint64 // window │ yields in it
	shun     sy.Int64  // no yields before parking until then

	soloTime, soloAt sy.Int64 // nanoseconds per task when one worker was alone, and when that was measured

	rule   Rule  // used only by the one searching worker that asks
	looked int64 // the epoch in which rule was last asked; used like rule
}

// Init makes c ready. Its time begins at epoch.
func (c *Crew) Init(epoch time.Time) {
	c.Epoch, c.clock, c.cpus, c.load = epoch, sy.Since, sy.Procs, sy.Runnable
	c.Now()
}

// Ahead is added to the time since Epoch, so that Now is never 0.
const Ahead = buckets * epochLen

// Now is the time in nanoseconds since the time that Init was given, plus Ahead: it is never 0. It
// begins an epoch if one is due, for the workers that only look at the epoch. A late caller may set
// the epoch back, until the clock is read again. Then some workers are fresh for an epoch less.
func (c *Crew) Now() int64 {
	now := max(0, c.clock(c.Epoch)) + Ahead // in a synctest bubble the clock may be long before Epoch
	if e := now / epochLen; e > c.epoch.Load() {
		c.epoch.Store(e)
		c.procs.Store(int64(c.cpus()))
		c.soloUntil.Store(0) // mostly that time is over by now; then Ask need not read the clock
	}
	return now
}

// Procs is the number of CPUs that Go uses.
func (c *Crew) Procs() int { return int(c.procs.Load()) }

// Yielding is the number of workers that yield between two tasks.
func (c *Crew) Yielding() int { return int(c.yielding.Load()) }

// count adds d, 1 or -1, to the bucket of epoch e. If the bucket has been reused, nobody looks for
// e any more. What was added for e is then gone, and must not be subtracted either.
func (c *Crew) count(e int64, d uint64) {
	b, empty := &c.began[e%buckets], uint64(e)<<countBits
	for was := b.Load(); was>>countBits <= uint64(e) && !b.CompareAndSwap(was, max(was, empty)+d); {
		was = b.Load()
	}
}

// fresh is how many workers began their last task less than about a slice ago.
func (c *Crew) fresh(now int64) (n int) {
	for e, i := now/epochLen, int64(0); i < freshFor; i++ {
		if b := c.began[(e-i)%buckets].Load(); int64(b>>countBits) == e-i {
			n += int(b & countMask)
		}
	}
	return n
}

// due reports whether the crew may yield once more in this window, and counts that yield.
func (c *Crew) due(now int64) bool {
	was := c.quota.Load()
	next := max(was, uint64(now/window)<<countBits) + 1
	return next&countMask <= uint64(c.procs.Load()) && c.quota.CompareAndSwap(was, next)
}

// Runnable is how many goroutines are runnable, without workers that are held back.
func (c *Crew) Runnable() int64 { return max(0, int64(c.load())-holding.Load()) }

// Ask reports whether a searching worker, which has a CPU and sees a task, may take the task. If it
// may not, it is to call Hold and to ask again. inTask workers are inside tasks; began and ended
// tasks, in all, count modulo taskMask+1. One worker of a crew at a time may ask.
//
// A worker that begins to yield, or has yielded, while the caller reads inTask must not count twice:
// tasks that compute would look blocked, now and then, and the pool would grow as long as they last.
// So the number of yielding workers is the lower one of two readings, before inTask was read and now.
func (l *Look) Ask(c *Crew, inTask int, began, ended uint64) (start bool) {
	yielding, solo := c.Yielding(), c.soloUntil.Load()
	if l.still > 0 {
		yielding = min(yielding, l.yielding)
	}
	if inTask+yielding < c.Procs() && solo == 0 && c.epoch.Load() == c.looked {
		// The rule's answer, without a look at the clock and the scheduler. But once in an epoch the rule is asked,
		// so that it knows of foreign goroutines before the CPUs are in use (S4, H31).
		return true
	}
	return l.ask(c, int(c.Runnable()), inTask, yielding, began, ended, solo)
}

// ask is the part of Ask that needs the runtime's metrics. Ask reads them, as that needs much
// stack: on top of this frame it would not fit on a stack of 2 KB.
//
//go:noinline
func (l *Look) ask(c *Crew, runnable, inTask, yielding int, began, ended uint64, solo int64) bool {
	now := c.Now()
	c.looked = now / epochLen
	return c.rule.Ask(l, Sight{
		Now: now, Procs: c.Procs(), InTask: inTask, Yielding: yielding, Fresh: c.fresh(now),
		Runnable: runnable, Began: began, Ended: ended, Solo: now < solo,
	})
}

// Hold yields. A worker that waits because another one works alone does so several times, since
// each look at the other one's progress takes a cache line away from that. A worker that waits for
// the end of a round sleeps, since after a yield all others would have their turn first.
func (l *Look) Hold(c *Crew) {
	if l.waits {
		sy.Sleep(nap)
	} else {
		holding.Add(1)
		for i := 0; i == 0 || l.solo && i < soloYields && c.Now()-l.at < soloLook; i++ {
			sy.Yield()
		}
		holding.Add(-1)
	}
	l.yielding = c.Yielding()
}
