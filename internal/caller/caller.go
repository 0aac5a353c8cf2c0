// Package caller tells whether the calling goroutine is inside a function that was
// called in the name of an [ID]. Go has no
// goroutine-local storage, but every goroutine has a stack, and the return
// addresses on it can be read. So a call is made from nested call instructions that
// spell a number, one digit each. [ID.Depth] walks the stack, from the inside, and reads the number.
//
// A call costs about two nanoseconds and 24 bytes of stack per decimal digit of the
// number; numbers are given out in order, from 1. Asking takes microseconds, and
// more on a deep stack. The walk ends at the innermost call that spells how deep it is.
//
// Only the stack of the calling goroutine counts. Goroutines that the function has
// started, and iterators that [iter.Pull] runs, have stacks of their own, and are
// inside nothing.
package caller

import (
	"runtime"
	"slices"
	"sync/atomic"
)

// An ID is the name in which calls are made. No call is made in the name of the zero ID.
//
// It is a number that is never used again: a 64-bit count does not wrap. So the
// answer is never about another ID, and nothing has to be given back.
type ID uint64

// lastID is no business of the schedule explorer: nothing depends on its value.
var lastID atomic.Uint64

// NewID returns an ID that was never returned before.
func NewID() ID { return ID(lastID.Add(1)) }

// Call calls f in the name of id. It returns, panics and exits as f does. Its
// frame is where the number begins.
//
//go:noinline
func (id ID) Call(f func()) {
	s := speller{uint64(id), f}
	s.spell()
}

// CallAt is Call by a caller who knows that [ID.Depth] is depth inside of the call. So it spells id and depth,
// which must be less than depths. Depth 0 is not known.
//
//go:noinline
func (id ID) CallAt(depth int, f func()) {
	if depth == 0 || id >= 1<<57 { // such IDs are never given out, and the number would not fit
		id.Call(f)
		return
	}
	s := speller{uint64(id)*depths + uint64(depth), f}
	s.spell()
}

const depths = 100

// Inside reports whether the calling goroutine is inside of a call in the name of id.
func (id ID) Inside() bool { return id.Depth(1) > 0 }

// Depth is how many calls in the name of id the calling goroutine is inside of, or any number from enough on
// if there are so many: the walk ends there.
func (id ID) Depth(enough int) (depth int) {
	// The caller is often a goroutine on a new stack of 2 KB that is about to park.
	// An array for few frames lets it keep that stack: moving to a larger one costs
	// more than the walk, and doubles its memory.
	var few [24]uintptr
	for pcs := few[:]; ; pcs = make([]uintptr, 8*len(pcs)) {
		got := runtime.Callers(2, pcs) // from the top: it skips no frames of C, but may return some
		n := uint64(0)                 // the number that the digits inside of the next address spell
		depth = 0
		for _, pc := range pcs[:got] { // the innermost first
			switch i := slices.Index(sites[:], pc); {
			case 1 <= i && i <= base:
				n = n*base + uint64(i-1)
				continue
			case i == 0 && n == uint64(id):
				if depth++; depth >= enough {
					return depth
				}
			case i == atSite && n/depths == uint64(id):
				return depth + int(n%depths)
			}
			n = 0
		}
		if got < len(pcs) {
			return depth
		}
	}
}

// A speller calls f after it has spelled n. The nested calls share it, so that each
// of them needs no more than 24 bytes of stack.
type speller struct {
	n uint64 // what is yet to be spelled
	f func()
}

// base is the base of the digits.
const base = 10

// spell calls f after it has spelled n, the lowest digit first. Each case is a call
// instruction, whose return address stands for the digit. The end of the number
// needs no mark: what follows is no digit.
//
//go:noinline
func (s *speller) spell() {
	if s.n == 0 {
		s.f()
		return
	}
	digit := s.n % base
	s.n /= base
	switch digit {
	case 0:
		s.spell()
	case 1:
		s.spell()
	case 2:
		s.spell()
	case 3:
		s.spell()
	case 4:
		s.spell()
	case 5:
		s.spell()
	case 6:
		s.spell()
	case 7:
		s.spell()
	case 8:
		s.spell()
	case 9:
		s.spell()
	}
}

// A table is the return address of the call in Call, then those of the digits,
// then those of the call of f and of the call in CallAt.
type table [1 + base + 2]uintptr

const atSite = 1 + base + 1

// sites is the table. All of it is 0 if the program cannot read stacks: then no goroutine is inside
// any call, as far as is known.
var sites = learn()

func learn() (t table) {
	for d := range uint64(base) {
		ID(d + base).Call(func() { // the digit d, then 1
			pcs := returns()
			t[0], t[1+d], t[1+base] = pcs[3], pcs[2], pcs[0]
		})
	}
	ID(0).CallAt(1, func() { t[atSite] = returns()[2] })
	if !t.tells() {
		panic("shoal: this compiler has merged calls that look alike, so tasks cannot be told apart")
	}
	return t
}

// returns are the return addresses around the function that calls it, the innermost first.
//
//go:noinline
func returns() (pcs [4]uintptr) {
	runtime.Callers(3, pcs[:])
	return pcs
}

// tells reports whether the addresses that are known are all different.
func (t *table) tells() bool {
	for i, pc := range t {
		if pc != 0 && slices.Contains(t[:i], pc) {
			return false
		}
	}
	return true
}
