// Package pace says how far submitters may be ahead of the workers. It sees numbers and no pool.
//
// To submit a task takes a few nanoseconds, and workers yield so that other goroutines have their
// turn. So submitters that never pause would keep the workers from the CPUs: the queue grows,
// leaves the caches, and the garbage collector reads it again and again. Therefore submitters come
// to the lock once in [Step] tasks. Whoever comes there while many more wait lets the workers
// follow: it sleeps until they have taken most of what waits then. The others go on. So with n
// submitters that never pause about n steps of tasks wait, and the workers have the CPUs.
//
// That helps only where workers are short of CPUs, or take tasks quickly. A submitter does not wait
// for tasks that block or take long: it yields once, or sleeps once, and goes on.
//
// Invariant: a submitter sleeps at most [mostNaps] times, for at most that many milliseconds each,
// whatever others do.
//
// The figures beside the constants are of two CPUs. Submitters that never pause submit empty tasks
// to an unbounded queue for two seconds. Without this package 4 % of the tasks of 32 submitters are
// done when they stop, and with it more than 99 %.
package pace

import (
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

const (
	// Step is how many tasks may be submitted before somebody looks how many wait. With 1<<14, 76 %
	// of the tasks of 256 submitters are done when they stop, instead of 96 %.
	Step = 1 << 12 >> (10 * sy.Shorter / 3)

	// nap is for how long a submitter sleeps first. With 4 ms the tasks of one submitter are 0.83 as
	// many, because the workers have nothing to do before it ends.
	nap = time.Millisecond

	// Where more than many tasks wait, the workers have enough to do for a nap. With 4 steps the
	// tasks of one submitter are 0.64 as many.
	many = 16 * Step >> sy.Shorter

	// mostNaps bounds the number of naps, and how long one is, in naps. With 4, 28 % of the tasks of
	// 256 submitters are done.
	mostNaps = 16

	// A nap in which busy workers took fewer than few tasks was in vain: to queue tasks that long
	// costs little. With Step/16 a million tasks that sleep take 5 % longer.
	few = Step / 4

	mask = 1<<38 - 1 // numbers of tasks wrap
)

// A Pace is what one submitter remembers while it lets the workers follow.
type Pace struct {
	left  uint64 // tasks to be taken until it goes on
	taken uint64 // as of the last look
	naps  int
	nap   time.Duration // the last one
}

// Begin is for a submitter that has come to the lock when taken tasks had been taken, modulo 1<<38,
// and waiting ones wait. When a submitter came there before, seen had been taken.
func Begin(seen, taken, waiting uint64) (p Pace) {
	if waiting > many {
		p = Pace{left: (taken-seen)&mask + waiting - many/2, taken: seen}
	}
	return p
}

// Follows reports whether the submitter is to let the workers follow. If so it yields once, and asks
// Next.
func (p *Pace) Follows() bool { return p.left > 0 }

// Next says for how long the submitter is to sleep before it asks again; 0: it goes on. busy says that
// workers are inside tasks. If none is, and tasks wait, they have no CPU.
func (p *Pace) Next(taken uint64, busy bool) time.Duration {
	took, enough := (taken-p.taken)&mask, uint64(1)
	if p.naps > 0 {
		enough = few
	}
	if took >= p.left || busy && took < enough || p.naps == mostNaps {
		return 0
	}
	p.left, p.taken = p.left-took, taken
	p.naps++
	// Half of the time that the workers need, by what they did in the last nap.
	p.nap = min(max(nap, time.Duration(uint64(p.nap)*p.left/(2*took+1))), mostNaps*nap)
	return p.nap
}
