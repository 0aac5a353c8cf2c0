// Package queue is the store under a pool's line of tasks: an array without an
// end, addressed by tickets, in which every cell is used once.
//
// It is half of a queue. The other half, two counters that hand out tickets on
// either side, belongs to the caller, since there a ticket means more: the step
// that takes it also admits a task, or counts it. The idea of turning a queue
// into fetch-and-add over an infinite array is from Morrison and Afek (LCRQ,
// PPoPP 2013) and Yang and Mellor-Crummey (PPoPP 2016); the linked segments are
// those of Ramalhete's FAA array queue and crossbeam's SegQueue.
//
// Invariants:
//
//	Q1  A ticket is given to one putter and one taker. So a cell is filled
//	    by one goroutine, once, and emptied by one goroutine, once. If the
//	    taker comes first it may leave a [Taker] there, which Put replaces.
//	Q2  Segments are linked in the order of their tickets, without gaps. A
//	    link goes from nil to a segment and does not change again.
//	Q3  An [End] only moves forward. Loaded before its side's ticket is taken,
//	    it is never beyond that ticket: it moved to a segment only because an
//	    earlier ticket of the same side lay there.
//	Q4  A segment that both ends have left is garbage once the last slow
//	    putter or taker is done with it. Nothing is reused, so there is no ABA.
//
// Tried and dropped: poisoning a cell whose putter is slow, so that the putter
// takes another ticket (LCRQ). It makes the taker wait-free, but needs a
// compare-and-swap and a swap per task instead of a swap and a load, and
// tickets are no counts of tasks then. Here the taker waits for the putter of
// its own cell only; other takers go on with the cells behind it.
package queue

import "github.com/shoal-go/shoal/internal/sy"

const (
	// TicketBits is the width of a ticket. Tickets are compared modulo
	// 1<<TicketBits, so no more than half of that may be in the array.
	TicketBits = 38
	// TicketMask cuts a number down to a ticket.
	TicketMask = 1<<TicketBits - 1
)

// A Segment is a run of cells. The first one of an array is short: most lines of a family with thousands
// of them hold a few tasks.
type Segment struct {
	base  uint64 // ticket of the first cell; constant
	cells []Cell // in the same object; constant
	next  sy.Pointer[Segment]
	full  []int64                                        // time stamps of all tickets; nil: only some have one
	some  [(segSize + StampEvery - 1) / StampEvery]int64 // time stamps of these
}

type (
	short struct {
		Segment
		array [firstSize]Cell
	}
	long struct {
		Segment
		array [segSize]Cell
	}
)

func newShort(base uint64, stampAll bool) *Segment {
	s := new(short)
	return s.init(base, s.array[:], stampAll)
}

func newLong(base uint64, stampAll bool) *Segment {
	s := new(long)
	return s.init(base, s.array[:], stampAll)
}

func (s *Segment) init(base uint64, cells []Cell, stampAll bool) *Segment {
	s.base, s.cells = base&TicketMask, cells
	if stampAll {
		s.full = make([]int64, len(cells))
	}
	return s
}

// at is the index of ticket t in s, if s holds it.
func (s *Segment) at(t uint64) uint64 { return (t - s.base) & TicketMask }

// Holds reports whether the cell of ticket t is in s.
func (s *Segment) Holds(t uint64) bool { return s.at(t) < uint64(len(s.cells)) }

// Cell is the cell of ticket t, which s must hold.
func (s *Segment) Cell(t uint64) *Cell { return &s.cells[s.at(t)] }

// Stamp is a place for a number that goes with the cell of ticket t: written
// before Put, read after Take. t must be a multiple of [StampEvery], unless
// the array stamps all.
func (s *Segment) Stamp(t uint64) *int64 {
	if s.full != nil {
		return &s.full[s.at(t)]
	}
	return &s.some[s.at(t)/StampEvery]
}

// An End is the segment that one side, putters or takers, has come to.
type End struct{ seg sy.Pointer[Segment] }

// Init makes a, b the two ends of a new array whose first ticket is first.
func Init(a, b *End, first uint64, stampAll bool) {
	s := newShort(first, stampAll)
	a.seg.Store(s)
	b.seg.Store(s)
}

// Load is the segment the end is at. To find the cell of a ticket, it must be
// loaded before the ticket is taken (Q3).
func (e *End) Load() *Segment { return e.seg.Load() }

// Seek walks from s, which was loaded before ticket t was taken, to the
// segment that holds t, and takes the end along. It adds the segments that are
// missing, so either side may come first.
func (e *End) Seek(s *Segment, t uint64) *Segment {
	for !s.Holds(t) {
		next := s.Extend()
		// Only from s to its successor: the end never moves back (Q3).
		e.seg.CompareAndSwap(s, next)
		s = next
	}
	return s
}

// Extend makes sure that s has a successor, and returns the successor. Seek
// calls it where it must. A putter calls it for the ticket in the middle of a
// segment ([Segment.Middle]), so that several putters do not allocate the same
// successor at once.
func (s *Segment) Extend() *Segment {
	if next := s.next.Load(); next != nil {
		return next
	}
	fresh := newLong(s.base+uint64(len(s.cells)), s.full != nil)
	if s.next.CompareAndSwap(nil, fresh) {
		sy.Reach("extend")
		return fresh
	}
	return s.next.Load()
}

// Middle reports whether t, which s must hold, is the ticket in the middle of s.
func (s *Segment) Middle(t uint64) bool { return s.at(t) == uint64(len(s.cells)/2) }

// Take empties the cell of ticket t. If the putter has its ticket but was
// interrupted before it could put, Take waits for it.
func (s *Segment) Take(t uint64) Item {
	c := s.Cell(t)
	for i := range patience { // mostly at once, or soon
		if it := c.TryTake(); !it.IsZero() {
			return it
		}
		if i >= patience/2 {
			sy.Yield()
		}
	}
	return c.await()
}

// Drop forgets the cells. Nobody may hold a ticket, or take one by an end that was loaded before.
func Drop(a, b *End) {
	a.seg.Store(nil)
	b.seg.Store(nil)
}
