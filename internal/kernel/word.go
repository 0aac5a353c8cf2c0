// Package kernel is the engine of a pool: lanes, which are queues with a bound, and a crew of workers
// that serves them. docs/engine.md has the words and the proofs.
//
//	word      the three words that change without the lock
//	line      a queue, which knows no pool
//	account   permits: what is out never exceeds capacity + max, but for what runs inline
//	lane      ready, idle, muted; whose turn it is
//	crew      the workers: how many there are, and who is parked
//	wait      those who wait for capacity
//	gate      the lock and its exits; R, W and L hold whenever it is free
//	submit    how a task is admitted
//	pace      how submitters that are far ahead let the workers follow
//	take      how a worker takes it, and ceases to be busy
//	worker    from task to task; how a worker rests, and asks whether to grow
//	run       what happens around it
//	record    tasks with a context, strands, claiming
//	quiet     quiescence
//	life      pause, resize, the end
//	reserve   places of free workers
//	sample    a timer that runs while a worker is awake
//	snapshot  what is seen from outside
//	audit     what must hold as the lock is left, for models
package kernel

import (
	// In a package that does not import it, the compiler calls the methods of the atomics, to which
	// package sy gives other names, instead of inlining them.
	_ "sync/atomic"

	"github.com/shoal-go/shoal/internal/queue"
)

// What is changed without the lock is three words. Each is written by atomic
// updates, so every question about it has one answer at one moment.
//
// Two of them belong to a line. Both have a ticket in bits 63 to 26, a flag in bit 25 and a
// number in bits 24 to 0:
//
//	tail: tickets given out │ muted          │ lease: how many more may be given out
//	head: tickets taken     │ slow-path flag │ busy: taken and not finished
//
// Tickets are counted modulo 1<<38. A submitter adds a ticket and takes one from the lease in one
// step. A worker that comes from idleness adds a ticket and one to busy, one that goes on from
// task to task adds a ticket, one that stops subtracts one from busy. Tasks that run on other
// goroutines than workers are busy too.
//
// The third, wake, belongs to a crew. It says who could run a task that nobody has taken:
//
//	wake: available workers: parked, or yet to be started │ searching workers
//
// A searching worker is awake, or is being woken, and has no task.
const (
	numMask   = 1<<25 - 1
	flag      = 1 << 25
	ticketBit = 26
	ticketOne = 1 << ticketBit
	mask      = queue.TicketMask

	availBit   = 32
	availOne   = 1 << availBit
	searchMask = 1<<32 - 1
)

func ticketOf(w uint64) uint64 { return w >> ticketBit }
func numOf(w uint64) uint64    { return w & numMask }

// reached reports whether ticket t is at, or after it.
func reached(t, at uint64) bool { return (t-at)&mask < 1<<37 }
