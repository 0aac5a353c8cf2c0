package shoal

import "github.com/shoal-go/shoal/internal/queue"

// The engine's state that is changed without a lock is three words. Each lives
// on a cache line of its own, and each is written by compare-and-swap or add,
// so that every question about it has one answer at one moment.
//
// tail: the number of tickets given out, which is the number of tasks accepted
// into the queue. Submitters move it forward. The top bit seals it: a sealed
// pool admits nobody, because no limit is that high and no compare-and-swap
// from an unsealed value succeeds.
//
// head: what the workers did with them, in one word:
//
//	bits 63…26  ticket: the next one to be taken, modulo 1<<38
//	bit  25     attention: workers must look at the locked state before they take
//	bits 24…0   busy: workers that took a ticket and have not finished with it
//
// A worker that goes on from task to task adds one to the ticket; one that
// comes from idleness adds one to both fields at once; one that runs out of
// tasks subtracts one from busy. Therefore, with one load of each word:
//
//	tasks waiting    = tail - ticket
//	tasks in flight  = tail - ticket + busy
//	tasks finished   = ticket - busy
//	room             = capacity + (max workers - busy) - waiting
//
// and room never shrinks but by a submitter's own move of tail, which is what
// makes admission exact (docs/engine.md, A1 … A3).
//
// wake: who could run a task that nobody has taken yet:
//
//	bits 63…32  avail: workers that are parked or may still be started
//	bits 31…0   standby: workers that are awake, or being woken, without a task
const (
	sealedBit = 1 << 63

	busyOne    = 1
	busyMask   = 1<<25 - 1
	attention  = 1 << 25
	ticketBit  = 26
	ticketOne  = 1 << ticketBit
	ticketMask = queue.TicketMask

	standbyOne  = 1
	standbyMask = 1<<32 - 1
	availBit    = 32
	availOne    = 1 << availBit
)

// headTicket is the ticket in a head word.
func headTicket(h uint64) uint64 { return h >> ticketBit }

// headBusy is the number of busy workers in a head word.
func headBusy(h uint64) int { return int(h & busyMask) }

// ahead is how many tickets a is ahead of b, where both may have wrapped.
func ahead(a, b uint64) uint64 { return (a - b) & ticketMask }

// cacheLine keeps words apart: two lines of 64 bytes, since some CPUs fetch
// them in pairs.
type cacheLine struct{ _ [128]byte }
