package kernel

import (
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// An account is a line with a bound. It gives out permits: one for each task that is accepted
// and has not ended. A permit is leased to submitters, is used for a ticket, or is held for what
// is accepted and not in the line: a task that waits in its strand, or a reserved place.
//
// Invariant: permits that are out never exceed capacity + max, except that what runs inline, and
// what must not wait, is accepted beyond. So with h the head word,
//
//	free capacity = capacity + max + inline + tombstones − (granted − tickets taken + busy)
//
// with one load of h, and the lease counts as out. It can only be too low: others only take
// tickets and finish. A tombstone takes no capacity; but of the cells that they take, no more
// than capacity + max are free, so the memory of a line is bounded.
//
// granted is a plain 64-bit number, so nothing hangs on the 38 bits of a ticket. Guarded by the
// owner's lock, as is everything here; only Hold and offer of the line take permits without.
type account struct {
	line
	muted    bool // what tail is flagged with; written by mark, as is slow
	slow     bool // what head is flagged with
	capacity uint64
	max      int       // workers that may be busy here
	granted  uint64    // permits ever given out, less those that came back unused or without a ticket
	extra    uint64    // accepted tasks that granted does not count (run inline, or in a strand), less tickets that were skipped
	inline   int       // tasks that run on goroutines that do not count against max
	limit    sy.Uint64 // max, published. Without inline: one that comes and goes again must leave no trace
	reserved int       // permits held for reservations
	tombs    uint64    // tombstones: tickets whose task was claimed by others, and that are not passed yet
}

func (a *account) init(first uint64, capacity, max int) {
	a.tail.Store(first << ticketBit)
	a.head.Store(first << ticketBit)
	a.granted, a.capacity = first, uint64(capacity)
	a.bound(max, 0)
}

// bound sets how many goroutines may be busy.
func (a *account) bound(max, inline int) {
	a.max, a.inline = max, inline
	a.limit.Store(uint64(max))
}

// mark publishes the flags. Locked.
func (a *account) mark(muted, slow bool) {
	if muted != a.muted {
		a.muted = muted
		setFlag(&a.tail, muted)
	}
	if slow != a.slow {
		a.slow = slow
		setFlag(&a.head, slow)
	}
}

func setFlag(w *sy.Uint64, on bool) {
	if on {
		w.Or(flag)
	} else {
		w.And(^uint64(flag))
	}
}

// permits gives out n permits that neither are leased nor have a ticket; or, if n is less than
// none, has them back.
func (a *account) permits(n int) { a.granted += uint64(n) }

// tombstones says that there are n more of them.
func (a *account) tombstones(n int) { a.tombs += uint64(n) }

// freeCapacity is how many permits may still be given out.
func (a *account) freeCapacity() int64 {
	h := a.head.Load()
	all := int64(a.capacity) + int64(a.max)
	return all + int64(a.inline) + min(int64(a.tombs), all) - int64((a.granted-ticketOf(h)+numOf(h))&mask)
}

// findCapacity is freeCapacity, after the lease was recalled if there is none without.
func (a *account) findCapacity() int64 {
	if r := a.freeCapacity(); r > 0 {
		return r
	}
	a.recall()
	return a.freeCapacity()
}

// lease lets submitters have what capacity is free, for up to n tasks. Others may have come here since
// the caller saw that there is no lease.
func (a *account) lease(n int64) {
	if n = min(a.freeCapacity(), n-int64(numOf(a.tail.Load()))); n > 0 {
		a.granted += uint64(n)
		a.tail.Add(uint64(n))
	}
}

// recall takes the lease back.
func (a *account) recall() {
	if numOf(a.tail.Load()) != 0 {
		a.granted -= numOf(a.tail.And(^uint64(numMask)))
	}
}

// parked is how many permits are held for tasks that wait in strands: those that are out, and
// neither leased nor reserved nor tickets.
func (a *account) parked() uint64 { return a.parkedAt(a.tail.Load()) }

// parkedAt is parked when tail is t.
func (a *account) parkedAt(t uint64) uint64 {
	return (a.granted - uint64(a.reserved) - numOf(t) - ticketOf(t)) & mask
}

// giveBack returns n permits of tasks in strands, which are accepted and have ended, or have
// begun on a goroutine that is busy already.
func (a *account) giveBack(n uint64) {
	a.permits(-int(n))
	a.extra += n
}

// skip notes that n tickets were given out and taken without a task.
func (a *account) skip(n uint64) { a.giveBack(-n) }

// dropCells gives back the memory of a line in which nobody is and that has no lease. It skips a ticket,
// so whoever has loaded a word and then an end before it fails to change that word. Locked.
func (a *account) dropCells() {
	queue.Drop(&a.front, &a.back)
	a.head.Add(ticketOne) // first: a head word that still is what it was had its tail's ticket
	a.tail.Add(ticketOne)
	a.skip(1)
}

// workersIn is how many workers are busy here.
func (a *account) workersIn() int { return int(numOf(a.head.Load())) - a.inline }

// unclaimed is how many workers nobody has a task for.
func (a *account) unclaimed() int64 {
	h := a.head.Load() // first: tail is never behind it
	waiting := (ticketOf(a.tail.Load())-ticketOf(h))&mask - a.tombs
	return int64(a.max+a.inline) - int64(numOf(h)) - int64(waiting) - int64(a.reserved)
}

// A Count is what the account says of one moment. Completed is the rest:
// submitted = completed + dropped + canceled + in flight.
type Count struct {
	Submitted uint64 // accepted
	InFlight  uint64 // of these, neither ended nor discarded
	Waiting   uint64 // of these, not started
	Busy      int    // goroutines inside tasks
}

func (a *account) count() (c Count) {
	h := a.head.Load() // first: tail is never behind it
	t := a.tail.Load()
	c.Submitted = a.granted + a.extra - numOf(t) - uint64(a.reserved)
	c.Waiting = (ticketOf(t)-ticketOf(h))&mask + a.parkedAt(t)
	c.InFlight = c.Waiting + numOf(h) - a.tombs
	c.Waiting -= min(a.tombs, c.Waiting)
	c.Busy = int(numOf(h))
	return c
}
