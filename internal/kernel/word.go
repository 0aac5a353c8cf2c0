// Package kernel is the engine of a pool: lanes, which are queues with a bound, and a crew of workers
// that serves them. docs/engine.md has the glossary and the proofs.
//
//	word      the three words that change without the lock
//	line      a queue, which knows no pool
//	account   permits: no more than capacity + max are out, with exceptions that it lists
//	lane      ready, idle, muted; whose turn it is
//	crew      the workers: how many there are, and who is parked
//	wait      the lists of waiters and reservations: what waits for capacity
//	gate      the lock and its exits: the usual one restores invariants R, W and L, and wakes or hires workers
//	submit    how a task is admitted
//	pace      how submitters that are far ahead let the workers follow
//	take      how a worker takes a task, and ceases to be busy
//	worker    a worker's loop; when it parks, and asks package grow whether to add workers
//	run       what happens around a task; inline and detached execution
//	keep      what clients keep on a worker until it leaves
//	record    tasks with a context, strands, claiming
//	quiet     quiescence
//	life      pause, resize, the end
//	reserve   reservations: places of free workers
//	delay     tasks that are yet to be submitted
//	sample    a timer that runs while a worker is awake
//	snapshot  what readers see of a lane
//	audit     what must hold when the lock is released, for models
package kernel

import (
	// Package sy gives the atomics other names. In a package that does not import sync/atomic
	// itself, the compiler calls their methods instead of inlining them.
	_ "sync/atomic"

	"github.com/shoal-go/shoal/internal/queue"
)

// Three words are changed without the lock. Each is updated atomically, so a load of it shows one
// moment.
//
// Two of them belong to a line. Both have a ticket in bits 63 to 26, a flag in bit 25 and a
// number in bits 24 to 0:
//
//	tail: tickets given out │ muted          │ lease: how many more may be given out
//	head: tickets taken     │ slow-path flag │ busy: taken and not finished
//
// Tickets are counted modulo 1<<38. A submitter adds a ticket and takes one from the lease in one
// step. A worker that comes from idleness adds a ticket and one to busy, one that goes on from task
// to task adds a ticket, one that stops subtracts one from busy. A task that runs on another
// goroutine than a worker counts as busy too.
//
// The third, wake, belongs to a crew. It says how many workers could run a task that is not taken:
//
//	wake: available workers: parked, or yet to be started │ submitter │ searching workers │ coming
//
// A searching worker is awake, or is being woken, and has no task. The flag submitter is set while a
// submitter without capacity yields: it looks for tasks after that, as a searching worker does. The
// flag coming is set while a worker is on its way and a second one may be needed: see wantsSecond.
const (
	numMask   = 1<<25 - 1
	flag      = 1 << 25
	ticketBit = 26
	ticketOne = 1 << ticketBit
	mask      = queue.TicketMask

	availBit   = 32
	availOne   = 1 << availBit
	submitter  = 1 << 31
	searchOne  = 1 << 1
	searchMask = 1<<31 - searchOne
	coming     = 1
)

func ticketOf(w uint64) uint64 { return w >> ticketBit }
func numOf(w uint64) uint64    { return w & numMask }

// reached reports whether ticket t is at, or after it.
func reached(t, at uint64) bool { return (t-at)&mask < 1<<37 }
