//go:build poolsim

package queue

import (
	"slices"
	"testing"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// A line is a queue with counters that give out the tickets, as the pool has
// them. The first segment has one cell here, and the others have two.
type line struct {
	m           *explore.M
	front, back End
	head, tail  sy.Uint64
	first       uint64
	taken       [16]int // by the number of the item
	order       []int   // taken, by ticket
}

func newLine(m *explore.M, first uint64) *line {
	l := &line{m: m, first: first}
	Init(&l.front, &l.back, first&^1, false)
	l.head.Store(first)
	l.tail.Store(first)
	return l
}

func (l *line) put(i int) {
	seg := l.back.Load()
	t := l.tail.Add(1) - 1
	t &= TicketMask
	if !seg.Holds(t) {
		seg = l.back.Seek(seg, t)
	}
	seg.Cell(t).Put(Func(func() { l.taken[i]++; l.order = append(l.order, i) })).Wake()
	if seg.Middle(t) {
		seg.Extend()
	}
}

// take takes an item that is there, or will be.
func (l *line) take() {
	seg := l.front.Load()
	t := l.head.Add(1) - 1
	t &= TicketMask
	if !seg.Holds(t) {
		seg = l.front.Seek(seg, t)
	}
	seg.Take(t).Func()()
}

// check demands that items below n were each taken once.
func (l *line) check(n int) {
	l.m.After(func() {
		for i := range n {
			if l.taken[i] != 1 {
				l.m.Failf("item %d was taken %d times", i, l.taken[i])
			}
		}
	})
}

// chained demands that the segments that can be reached from the front are in
// the order of their tickets, and that both ends are among them.
func (l *line) chained() {
	l.m.After(func() {
		front, back := l.front.seg.Load(), l.back.seg.Load()
		for s := front; s.next.Load() != nil; s = s.next.Load() {
			if s.next.Load().base != (s.base+uint64(len(s.cells)))&TicketMask {
				l.m.Failf("after the segment of %d comes that of %d", s.base, s.next.Load().base)
			}
		}
		if d := (back.base - front.base) & TicketMask; d > 8*segSize && d < TicketMask-8*segSize {
			l.m.Failf("the ends are at %d and %d", front.base, back.base)
		}
	})
}

func TestExplore(t *testing.T) {
	suite.Test(t, []suite.Model{
		{Name: "queue/two putters, one taker", Reach: []string{"early"}, Run: func(m *explore.M) {
			l := newLine(m, 0)
			l.check(2)
			m.Go("putter", func() { l.put(1) })
			m.Go("taker", func() { l.take(); l.take() })
			l.put(0)
		}},
		{Name: "queue/one putter, two takers", Run: func(m *explore.M) {
			l := newLine(m, 0)
			l.check(2)
			m.Go("taker 1", l.take)
			m.Go("taker 2", l.take)
			l.put(0)
			l.put(1)
		}},
		{Name: "queue/two putters and a taker across segments", Reach: []string{"extend"}, Run: func(m *explore.M) {
			l := newLine(m, 2)
			l.check(4)
			l.chained()
			m.Go("putter", func() { l.put(2); l.put(3) })
			m.Go("taker", func() {
				for range 4 {
					l.take()
				}
			})
			l.put(0)
			l.put(1)
		}},
		{Name: "queue/two takers and a putter across segments", Reach: []string{"extend"}, Run: func(m *explore.M) {
			l := newLine(m, 2)
			l.check(4)
			l.chained()
			for range 2 {
				m.Go("taker", func() { l.take(); l.take() })
			}
			for i := range 4 {
				l.put(i)
			}
		}},
		{Name: "queue/the takers come first and build the segments", Reach: []string{"extend"}, Run: func(m *explore.M) {
			l := newLine(m, 3)
			l.check(2)
			l.chained()
			m.Go("taker 1", l.take)
			m.Go("taker 2", l.take)
			l.put(0)
			l.put(1)
		}},
		{Name: "queue/three make the same successor", Reach: []string{"extend"}, Run: func(m *explore.M) {
			l := newLine(m, 0)
			l.chained()
			var got [3]*Segment
			for i := range 3 {
				m.Go("", func() { got[i] = l.back.Load().Extend() })
			}
			m.After(func() {
				if got[0] == nil || got[0] != got[1] || got[1] != got[2] {
					m.Failf("different successors")
				}
			})
		}},
		{Name: "queue/a slow putter holds up its own cell only", Run: func(m *explore.M) {
			l := newLine(m, 0)
			l.check(2)
			gate := sy.MakeLatch()
			seg := l.back.Load()
			t := l.tail.Add(1) - 1 // a ticket, and no put yet
			m.Go("quick", func() {
				l.put(1)
				l.head.Add(1) // somebody took the first ticket
				l.take()      // and this is the second
				if l.taken[1] != 1 {
					m.Failf("the second item is not there")
				}
				gate.Open()
			})
			m.Go("taker of the first", func() { seg.Take(t).Func()() })
			gate.Wait()
			seg.Cell(t).Put(Func(func() { l.taken[0]++ })).Wake()
		}},
		{Name: "queue/the tickets wrap", Reach: []string{"extend"}, Run: func(m *explore.M) {
			l := newLine(m, TicketMask)
			l.check(2)
			l.chained()
			m.Go("putter", func() { l.put(1) })
			m.Go("taker", func() { l.take(); l.take() })
			l.put(0)
		}},
		{Name: "queue/one putter, one taker, three segments, in order", Reach: []string{"extend"}, Run: func(m *explore.M) {
			l := newLine(m, 0)
			l.check(9)
			l.chained()
			m.Go("taker", func() {
				for range 9 {
					l.take()
				}
			})
			for i := range 9 {
				l.put(i)
			}
			m.After(func() {
				if !slices.IsSorted(l.order) {
					m.Failf("taken in the order %v", l.order)
				}
			})
		}},
		{Name: "queue/an end never moves back", Reach: []string{"extend"}, Run: func(m *explore.M) {
			l := newLine(m, 0)
			l.chained()
			var last uint64
			for range 2 {
				m.Go("", func() {
					seg := l.back.Load()
					t := l.tail.Add(segSize) // a ticket of another segment each
					if got := l.back.Seek(seg, t); !got.Holds(t) {
						m.Failf("the segment of %d does not hold %d", got.base, t)
					}
					last = max(last, l.back.Load().base)
				})
			}
			m.After(func() {
				if b := l.back.seg.Load().base; b < last {
					m.Failf("the end went back from %d to %d", last, b)
				}
			})
		}},
	})
}
