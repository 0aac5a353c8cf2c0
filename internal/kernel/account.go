package kernel

import (
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// An account is a line with a bound. It gives out permits: one for each task that is accepted and
// has not ended. A permit is leased to submitters, is used by a ticket, or is held without a
// ticket: for a task that waits in its strand, or for a reserved place.
//
// Invariant: no more than capacity + max permits are out, except that tasks that run inline, and
// tasks whose submitter must not wait, are accepted beyond that; so are reservations while tasks wait in
// strands; and Resize may have lowered max. So, with h the head word,
//
//	free capacity = capacity + max + inline + tombstones − (granted − tickets taken + busy)
//
// with one load of h. The lease counts as given out. The result can only be too low: without the
// lock, others only take tickets and finish. A tombstone takes no capacity, but it keeps a cell until a
// worker passes it, or compact frees it.
//
// granted is a 64-bit number, so counts of tasks do not wrap like the 38 bits of a ticket.
// Everything here is guarded by the owner's lock; only offer, offerSome and Hold of the line take
// permits without it.
type account struct {
	line
	capacity uint64
	granted  uint64    // permits ever given out, less those that came back unused or without a ticket
	extra    uint64    // accepted tasks that granted does not count (inline, in a strand, delayed and dropped), less tickets that were skipped
	inline   int       // tasks that run on goroutines that do not count against max
	limit    sy.Uint64 // workers that may be busy here; inline is not included, so that an inline task does not change it
	reserved int       // permits held for reservations
	tombs    uint64    // tombstones: tickets whose task was claimed, and that no worker has passed yet
}

func (a *account) init(first uint64, capacity, max int) {
	a.tail.Store(first << ticketBit)
	a.head.Store(first << ticketBit)
	a.granted, a.capacity = first, uint64(capacity)
	a.setMax(max)
}

// max is how many workers may be busy. Locked.
func (a *account) max() int     { return int(sy.Peek(&a.limit)) }
func (a *account) setMax(n int) { a.limit.Store(uint64(n)) }

// mark publishes the flags: in tail that the lane is muted, in head that workers are to take the slow path. Locked.
func (a *account) mark(muted, slow bool) {
	setFlag(&a.tail, muted)
	setFlag(&a.head, slow)
}

func (a *account) isMuted() bool { return sy.Peek(&a.tail)&flag != 0 }
func (a *account) isSlow() bool  { return sy.Peek(&a.head)&flag != 0 }

func setFlag(w *sy.Uint64, on bool) {
	if is := sy.Peek(w)&flag != 0; on && !is {
		w.Or(flag)
	} else if is && !on {
		w.And(^uint64(flag))
	}
}

// permits gives out n permits that have neither lease nor ticket. If n is negative it takes −n of
// them back.
func (a *account) permits(n int) { a.granted += uint64(n) }

// tombstones adds n to the number of tombstones.
func (a *account) tombstones(n int) { a.tombs += uint64(n) }

// freeCapacity is how many permits may still be given out.
func (a *account) freeCapacity() int64 {
	h := a.head.Load()
	return int64(a.capacity) + int64(a.max()+a.inline) + int64(a.tombs) - int64((a.granted-ticketOf(h)+numOf(h))&mask)
}

// findCapacity is freeCapacity. If there is none it recalls the lease, and looks again. Not before: each
// submitter that then finds no lease would come to the lock too, and recall the next one.
func (a *account) findCapacity() int64 {
	if r := a.freeCapacity(); r > 0 {
		return r
	}
	a.recall()
	return a.freeCapacity()
}

// lease raises the lease to n permits, as far as capacity is free. It may find a lease: other
// submitters may have come here since the caller saw that there is none.
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

// inStrands is the number of permits that are held for tasks that wait in strands: those that are out,
// and neither leased nor reserved nor used by tickets.
func (a *account) inStrands() uint64 { return a.inStrandsAt(a.tail.Load()) }

// inStrandsAt is inStrands when tail is t.
func (a *account) inStrandsAt(t uint64) uint64 {
	return (a.granted - uint64(a.reserved) - numOf(t) - ticketOf(t)) & mask
}

// giveBack returns the permits of n tasks in strands. The tasks stay accepted: they have ended, or
// have begun on a goroutine that is busy already.
func (a *account) giveBack(n uint64) {
	a.permits(-int(n))
	a.extra += n
}

// skip notes that n tickets were given out and taken without a task.
func (a *account) skip(n uint64) { a.giveBack(-n) }

// dropCells frees the cells of a line that has no task and no lease. It skips a ticket, so a
// goroutine that loaded a word and then an end before that fails to change the word. Locked.
func (a *account) dropCells() {
	queue.Drop(&a.front, &a.back)
	a.head.Add(ticketOne) // first: a head word that still is what it was had its tail's ticket
	a.tail.Add(ticketOne)
	a.skip(1)
}

// workersIn is how many workers are busy here.
func (a *account) workersIn() int { return int(numOf(a.head.Load())) - a.inline }

// unclaimed is the number of workers that may be busy here, less those that are busy, needed for a
// waiting task, or reserved.
func (a *account) unclaimed() int64 {
	h := a.head.Load() // first: tail is never behind it
	waiting := (ticketOf(a.tail.Load())-ticketOf(h))&mask - a.tombs
	return int64(a.max()+a.inline) - int64(numOf(h)) - int64(waiting) - int64(a.reserved)
}

// A Count is the account at one moment. Completed tasks are the rest:
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
	c.Waiting = (ticketOf(t)-ticketOf(h))&mask + a.inStrandsAt(t)
	c.InFlight = c.Waiting + numOf(h) - a.tombs
	c.Waiting -= min(a.tombs, c.Waiting)
	c.Busy = int(numOf(h))
	return c
}
