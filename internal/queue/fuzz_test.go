//go:build !poolsim

package queue

import "testing"

// FuzzQueue follows a script: tickets are given out on both sides, and are
// served in any order. Each taker gets what was put under its ticket.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 2, 2}, uint64(0), false)
	f.Add([]byte{0, 2, 0, 2, 0, 2, 4, 4}, uint64(TicketMask), true)
	f.Add([]byte{3, 3, 0, 1, 2}, uint64(segSize-1), true)
	f.Fuzz(func(t *testing.T, script []byte, first uint64, stampAll bool) {
		first &= TicketMask
		var front, back End
		Init(&front, &back, first, stampAll)
		type ticket struct {
			t   uint64
			seg *Segment
		}
		var (
			head, tail = first, first
			owed       []ticket // to be put
			put        = map[uint64]int{}
			value      int
			got        = -1
		)
		find := func(e *End, k ticket) *Segment {
			if k.seg.Holds(k.t) {
				return k.seg
			}
			return e.Seek(k.seg, k.t)
		}
		takeOne := func() {
			k := ticket{head, front.Load()}
			want, there := put[k.t]
			seg := find(&front, k)
			if !there {
				if it := seg.Cell(k.t).TryTake(); !it.IsZero() {
					t.Fatalf("ticket %d: nothing was put there", k.t)
				}
				return // the ticket is not used up
			}
			if stampAll && *seg.Stamp(k.t) != int64(want) {
				t.Fatalf("ticket %d: stamp %d, want %d", k.t, *seg.Stamp(k.t), want)
			}
			seg.Take(k.t).Func()()
			if got != want {
				t.Fatalf("ticket %d: got %d, want %d", k.t, got, want)
			}
			delete(put, k.t)
			head = (head + 1) & TicketMask
		}
		for _, op := range script {
			switch arg := int(op / 6); op % 6 {
			case 0, 1: // a ticket, and no put yet; some at a time
				for range 1 + arg {
					owed = append(owed, ticket{tail, back.Load()})
					tail = (tail + 1) & TicketMask
				}
			case 2, 3: // one of the puts
				if len(owed) == 0 {
					break
				}
				i := arg % len(owed)
				k := owed[i]
				owed = append(owed[:i], owed[i+1:]...)
				v := value
				value++
				seg := find(&back, k)
				if stampAll {
					*seg.Stamp(k.t) = int64(v)
				}
				seg.Cell(k.t).Put(Func(func() { got = v })).Wake()
				put[k.t] = v
				if seg.Middle(k.t) {
					seg.Extend()
				}
			case 4, 5:
				if head != tail {
					takeOne()
				}
			}
		}
		for _, k := range owed {
			seg := find(&back, k)
			if stampAll {
				*seg.Stamp(k.t) = -2
			}
			seg.Cell(k.t).Put(Func(func() { got = -2 })).Wake()
			put[k.t] = -2
		}
		for head != tail {
			takeOne()
		}
		if len(put) != 0 {
			t.Fatalf("%d are left", len(put))
		}
		// Both ends have come to the same segment, or to the next one.
		if d := (back.Load().base - front.Load().base) & TicketMask; d > segSize && d < TicketMask-segSize+1 {
			t.Fatalf("the ends are %d tickets apart", d)
		}
	})
}
