package kernel

import (
	"iter"
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A line is a queue: an admission word (tail), a dispatch word (head), and cells. It knows no pool.
//
// Invariant: a ticket has one putter and one taker. Without the lock of the owner, a goroutine may
// use the lease in tail, add tickets that it takes to head, count itself as busy in the step that
// takes a ticket, and subtract itself from busy. All else in the two words, also the flags and a new
// lease, changes under that lock. Methods that say "Locked" need it.
type line struct {
	stampMask uint64 // ticket t is timed if t&stampMask == stampAt: all are if both are 0
	stampAt   uint64 // see stampMask
	epoch     *time.Time
	pacing    sy.Pointer[pacing] // nil until a submitter found more than farAhead tasks waiting; here, where workers read

	_     sy.Pad
	tail  sy.Uint64
	back  queue.End // the segment that submitters have come to
	_     sy.Pad
	head  sy.Uint64
	front queue.End // the segment that workers have come to
	_     sy.Pad
}

// offer admits task it by the lease, with one load and one compare-and-swap. It returns the tail
// word as it was. If the muted flag was not set there, the caller must look for a worker.
func (l *line) offer(it queue.Item) (t uint64, ok bool) {
	for {
		t = l.tail.Load()
		if numOf(t) == 0 {
			return t, false // full, closed, idle, or the lease is used up
		}
		seg := l.back.Load() // after the load, since dropping cells changes the ticket; before the ticket is taken: queue, Q3
		if l.tail.CompareAndSwap(t, t+ticketOne-1) {
			l.put(seg, ticketOf(t), it)
			return t, true
		}
	}
}

// offerSome is offer for the first n tasks, as many as the lease and step allow: none if the lease is used up.
func (l *line) offerSome(tasks []func(), step uint64) (t uint64, n int) {
	for {
		t = l.tail.Load()
		k := min(numOf(t), uint64(len(tasks)), step)
		seg := l.back.Load()
		if !l.tail.CompareAndSwap(t, t+k*ticketOne-k) {
			continue
		}
		for i := range k {
			seg = l.put(seg, (ticketOf(t)+i)&mask, queue.Func(tasks[i]))
		}
		return t, int(k)
	}
}

// change replaces the value of w by what f makes of it, atomically, unless f returns false. It
// returns the old value, and what f reported.
func change(w *sy.Uint64, f func(was uint64) (is uint64, ok bool)) (was uint64, ok bool) {
	for {
		was = w.Load()
		is, ok := f(was)
		if !ok || w.CompareAndSwap(was, is) {
			return was, ok
		}
	}
}

// Hold takes a permit from the lease without a ticket, for a task that waits in a busy strand.
func (l *line) Hold() bool {
	_, ok := change(&l.tail, func(t uint64) (uint64, bool) { return t - 1, numOf(t) != 0 })
	return ok
}

// put publishes task it under ticket t. seg was loaded from back before t was taken. It returns the
// segment of t too, for the next ticket.
func (l *line) put(seg *queue.Segment, t uint64, it queue.Item) *queue.Segment {
	if !seg.Holds(t) {
		seg = l.back.Seek(seg, t)
	}
	if l.timed(t) {
		*seg.Stamp(t) = sy.Since(*l.epoch)
	}
	seg.Cell(t).Put(it).Wake()
	if seg.Middle(t) {
		seg.Extend()
	}
	return seg
}

// timed reports whether the times are noted at which ticket t is given out and taken.
func (l *line) timed(t uint64) bool { return t&l.stampMask == l.stampAt }

// putLocked gives task it a ticket, and does not use the lease.
func (l *line) putLocked(it queue.Item) {
	seg := l.back.Load()
	if seg == nil { // the first task, or the first after the cells were dropped
		queue.Init(&l.front, &l.back, ticketOf(l.tail.Load()), l.stampMask|l.stampAt == 0)
		seg = l.back.Load()
	}
	l.put(seg, ticketOf(l.tail.Add(ticketOne)-ticketOne), it)
}

// untimed is the stamp of a timed ticket whose task had another one before, which was not timed.
const untimed = -1

// backlog is the number of tickets that wait to be taken. Without the lock it may be huge for a moment, while
// dropCells moves head and then tail.
func (l *line) backlog() uint64 {
	h := l.head.Load() // before tail: others take tickets
	return (ticketOf(l.tail.Load()) - ticketOf(h)) & mask
}

func (l *line) waits() bool { return l.backlog() != 0 }

// fetch empties the cell of ticket t. seg was loaded from front before t was taken. It returns
// the segment of t too, for the next ticket.
func (l *line) fetch(seg *queue.Segment, t uint64) (queue.Item, *queue.Segment) {
	if !seg.Holds(t) {
		seg = l.front.Seek(seg, t)
	}
	return seg.Take(t), seg
}

// takeLocked takes a ticket for a goroutine that becomes busy by that, whatever the slow-path flag.
// It fails if no ticket waits, or if busy has reached most: others may have come without the lock.
func (l *line) takeLocked(most uint64) (seg *queue.Segment, t uint64, ok bool) {
	seg = l.front.Load()
	h, ok := change(&l.head, func(h uint64) (uint64, bool) {
		return h + ticketOne + 1, numOf(h) < most && ticketOf(l.tail.Load()) != ticketOf(h)
	})
	return seg, ticketOf(h), ok
}

// takeManyLocked takes the n tickets that wait, most at most, from t on. The caller is to fetch their tasks
// once, from seg on: see from.
func (l *line) takeManyLocked(most uint64) (seg *queue.Segment, t, n uint64) {
	seg = l.front.Load()
	h, _ := change(&l.head, func(h uint64) (uint64, bool) {
		n = min(most, (ticketOf(l.tail.Load())-ticketOf(h))&mask)
		return h + n<<ticketBit, true
	})
	return seg, ticketOf(h), n
}

// from yields the tasks of n tickets from t on, which the caller has taken. seg was loaded from
// front before they were taken.
func (l *line) from(seg *queue.Segment, t, n uint64) iter.Seq[queue.Item] {
	return func(yield func(queue.Item) bool) {
		for i := range n {
			var it queue.Item
			if it, seg = l.fetch(seg, (t+i)&mask); !yield(it) {
				return
			}
		}
	}
}

// exit subtracts one from busy. It returns the new head word.
func (l *line) exit() uint64 { return l.head.Add(^uint64(0)) }

// enterLocked adds one to busy without a ticket.
func (l *line) enterLocked() { l.head.Add(1) }
