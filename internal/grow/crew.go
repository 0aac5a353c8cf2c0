package grow

import (
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

const (
	// epochLen is the unit, in nanoseconds, in which workers note when their last task began.
	// A finer one has them write to shared memory more often, a coarser one tells a slice
	// less well.
	epochLen = slice / 4

	// freshFor epochs, between one slice and a quarter more, make a worker's last task fresh.
	freshFor = 5

	// buckets are more than freshFor, so that one that is reused is not looked at.
	buckets = 8

	// countBits of a word count workers or yields. The others say of which epoch or window.
	countBits = 24
	countMask = 1<<countBits - 1
)

// Of all crews: workers that are held back, and workers that yield between two tasks.
var holding, yielders sy.Int64

// A Crew is what the workers of a pool, and of its sub-pools, share. It must be initialized
// before use.
//
// A bucket is a word of an epoch and a count: the workers that began their last task in that
// epoch, and have not parked since. Its epoch only rises. So a bucket with an older epoch than
// the one that is looked for counts as empty, and nothing has to clear it in time.
type Crew struct {
	_ [64]byte // read by every worker before each task, and seldom written:

	epoch     sy.Int64 // as of the last reading of the clock
	procs     sy.Int64 // CPUs that Go uses, as of then
	soloUntil sy.Int64 // one worker is to work alone until then; 0: no
	start     time.Time

	_ [64]byte

	began    [buckets]sy.Uint64 // epoch │ count
	yielding sy.Int64           // workers between two tasks
	quota    sy.Uint64          // window │ yields in it
	shun     sy.Int64           // no yields before parking until then
	soloTime sy.Int64           // nanoseconds for each task where one worker was alone; 0: unknown
	soloAt   sy.Int64           // as of then
	rule     Rule               // guarded by there being one searching worker that asks
}

// Init makes c ready. Its time begins at epoch, which must not be in the future.
func (c *Crew) Init(epoch time.Time) {
	c.start = epoch
	c.Now()
}

// Now is the time in nanoseconds since the time that Init was given, and a bit more: it is
// never 0. The workers that only look at the epoch see it then.
func (c *Crew) Now() int64 {
	now := sy.Since(c.start) + buckets*epochLen
	if e := now / epochLen; e > c.epoch.Load() {
		c.advance(e, sy.Procs())
	}
	return now
}

// advance begins an epoch. A late caller may set it back until the clock is read again: then
// some workers count for an epoch less.
func (c *Crew) advance(e int64, procs int) {
	c.epoch.Store(e)
	c.procs.Store(int64(procs))
}

// Procs is the number of CPUs that Go uses.
func (c *Crew) Procs() int { return int(c.procs.Load()) }

// count adds d, 1 or -1, to the bucket of epoch e. If the bucket has been reused already,
// nobody looks for e any more. What was added is then gone, and must not be subtracted either.
func (c *Crew) count(e int64, d uint64) {
	b := &c.began[e%buckets]
	for {
		was := b.Load()
		at := int64(was >> countBits)
		if at > e {
			return
		}
		next := was + d
		if at < e { // so d is 1
			next = uint64(e)<<countBits | 1
		}
		if b.CompareAndSwap(was, next) {
			return
		}
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
	w := uint64(now / window)
	for {
		q := c.quota.Load()
		next := q + 1
		if q>>countBits != w {
			next = w<<countBits | 1
		} else if q&countMask >= uint64(c.procs.Load()) {
			return false
		}
		if c.quota.CompareAndSwap(q, next) {
			return true
		}
	}
}

// runnable is how many goroutines of the process are runnable, without workers that are held
// back.
func runnable() int64 { return int64(sy.Runnable()) - holding.Load() }

// Ask reports whether a searching worker, which has a CPU and sees a task, may take the task,
// and how many more workers may start at the same time without asking. If it may not, it is to
// call Hold and to ask again. inTask workers are inside tasks; began and ended tasks, in all,
// count modulo 1<<38. One worker of a crew at a time may ask.
func (l *Look) Ask(c *Crew, inTask int, began, ended uint64) (start bool, more int) {
	if inTask+int(c.yielding.Load()) < c.Procs() && c.soloUntil.Load() == 0 {
		return true, 0 // the rule's answer, without a look at the clock and the scheduler
	}
	return l.ask(c, c.Now(), int(runnable()), inTask, began, ended)
}

// ask is Ask at a given time.
func (l *Look) ask(c *Crew, now int64, runnable, inTask int, began, ended uint64) (start bool, more int) {
	solo := c.soloUntil.Load()
	if solo != 0 && now >= solo {
		c.soloUntil.CompareAndSwap(solo, 0) // so that nobody need look at the clock for it
	}
	fresh := c.fresh(now)
	return c.rule.Ask(l, Sight{
		Now: now, Procs: c.Procs(), InTask: inTask, Yielding: int(c.yielding.Load()),
		Fresh: fresh, Young: min(fresh, inTask), Runnable: max(0, runnable),
		Began: began, Ended: ended, Solo: now < solo,
	})
}

// Hold yields. A worker that waits because another one works alone does so several times: each
// look at how that one gets on takes a cache line away from it.
func (l *Look) Hold(c *Crew) {
	holding.Add(1)
	sy.Yield()
	for i := 0; l.solo && i < soloYields && c.Now()-l.at < soloLook; i++ {
		sy.Yield()
	}
	holding.Add(-1)
}
