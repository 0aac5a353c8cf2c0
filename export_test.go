package shoal

import (
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// FromUser is fromUser.
func FromUser(stack []byte) []byte { return fromUser(stack) }

// TicketBits is the width of the tickets that tasks are numbered with.
const TicketBits = queue.TicketBits

// NewAt is Must(New(opts...)) for a pool whose first ticket is first: that is
// how far an old pool has come.
func NewAt(first uint64, opts ...Option) *Pool {
	c := defaults()
	for _, o := range opts {
		o.apply(&c)
	}
	if err := c.validate(); err != nil {
		panic(err)
	}
	return newPool(c, first)
}

// HistogramOf is the Histogram of ds.
func HistogramOf(ds ...time.Duration) Histogram {
	var r sy.Pointer[recorder]
	for _, d := range ds {
		record(&r, int64(d))
	}
	return r.Load().snapshot()
}

// NextStep is nextStep.
func NextStep(n int, took time.Duration) int { return int(nextStep(int8(n), took)) }

// MaxStep is maxStep.
const MaxStep = maxStep

// BelieveInSolo has p's workers believe that one alone would be faster.
func (p *Pool) BelieveInSolo() {
	p.soloTime.Store(-1)
	p.soloAt.Store(p.now())
}

// Grows is looks.canGrow, after has passed since the first call, with one more worker busy
// than there are CPUs, where foreign goroutines are runnable, began tasks have begun in the
// last round of the scheduler, which took round, and so many workers let others run.
func (p *Pool) Grows(foreign, began, yielding int, round, after time.Duration) bool {
	givingWay.Add(1)
	defer givingWay.Add(-1)
	p.yielding.Add(int64(yielding))
	defer p.yielding.Add(-int64(yielding))
	now := int64(time.Hour + after)
	l := looks{start: now, now: now, round: int64(round), front: uint64(began)}
	extra := 1
	return l.canGrow(p, int(p.procs.Load())+extra, uint64(foreign+extra+1))
}

// TasksBlock is tasksBlock.
func TasksBlock(run, yielding, began, procs int, round time.Duration) bool {
	return tasksBlock(int64(run), int64(yielding), uint64(began), int64(procs), int64(round))
}

// Yields reports whether a worker of p has found that others should run.
func (p *Pool) Yields() bool { return p.quota.Load() != 0 }

// BelieveInCPUs makes p act as if n CPUs were there, until it looks again.
func BelieveInCPUs(p *Pool, n int) { p.procs.Store(int64(n)) }

// Standby is how many workers are awake, or being woken, without a task.
func Standby(p *Pool) int { return int(p.wake.Load() & standbyMask) }

// Stranded is how many are on the list of those who wait for a place.
func Stranded(p *Pool) int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.stranded) }

// Parked is how many workers are parked.
func Parked(p *Pool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := p.idle.top; w != nil; w = w.next {
		n++
	}
	return n
}

// Executed has p's first worker, if it is parked, have run n tasks.
func Executed(p *Pool, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[0]
	if !w.parked {
		return false
	}
	w.tasks = n
	w.status.Store(uint64(n)<<statusBits | idleBit)
	return true
}

// Depth is how many tasks of p the calling goroutine is in.
func (p *Pool) Depth() int { return p.id.Depth() }

// GoOn is goOn.
func GoOn(away, ran time.Duration, others, procs, runnable int) time.Duration {
	return time.Duration(goOn(int64(away), int64(ran), int64(others), int64(procs), int64(runnable)))
}

// NextChunk is nextChunk.
func NextChunk(n uint64, took time.Duration, most uint64) uint64 {
	return nextChunk(n, int64(took), most)
}
