// Package caller answers the question who is calling: whether the calling
// goroutine is inside a function that was called in somebody's name. Go has no
// goroutine-local storage, but every goroutine has a stack, and the return
// addresses on it can be read. So a call is made from nested call instructions
// that spell a number, one digit each. Whoever asks walks the stack and reads it.
//
// A call costs about two nanoseconds and 24 bytes of stack per digit, base 32, of
// the number; numbers are given out in order, from 1. Asking takes
// microseconds, and more on a deep stack.
//
// What is asked about is the stack of the calling goroutine. Goroutines that the
// function has started, and iterators that [iter.Pull] runs, have stacks of their
// own, and are inside nothing.
package caller

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// An ID is the name in which calls are made. The zero ID is nobody's.
//
// It is a number that is never used again: a 64-bit count does not wrap. So the
// answer is never about somebody else, and nothing has to be given back.
type ID uint64

// lastID is no business of the schedule explorer: nothing depends on its value.
var lastID atomic.Uint64

// NewID returns an ID that was never returned before.
func NewID() ID {
	learnOnce.Do(learn)
	return ID(lastID.Add(1))
}

// Call calls f in the name of id. It returns, panics and exits as f does. Its
// frame is where the number begins.
//
//go:noinline
func (id ID) Call(f func()) {
	if sites == nil {
		id.note(f)
		return
	}
	s := speller{uint64(id), f}
	s.spell()
}

// Depth is how many calls in the name of id the calling goroutine is inside of.
func (id ID) Depth() int {
	if id == 0 {
		return 0
	}
	if sites == nil {
		return id.noted()
	}
	// The caller is often a goroutine on a new stack of 2 KB that is about to
	// park. Room for few frames lets it stay there: to move it costs more than the
	// walk, and doubles its memory.
	r := reader{id: id}
	var few [24]uintptr
	got := runtime.Callers(2, few[:])
	r.read(few[:got])
	if got == len(few) {
		r.readFrom(2 + 1 + len(few))
	}
	return r.depth
}

// A speller calls f after n. It is what the nested calls share, so that each of
// them needs no more than 24 bytes of stack.
type speller struct {
	n uint64 // what is yet to be spelled
	f func()
}

// base is that of the digits.
const base = 32

// spell calls f after n, lowest digit first. Each case is a call instruction,
// whose return address stands for the digit. That the number is over needs no
// mark: what follows is no digit.
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
	case 10:
		s.spell()
	case 11:
		s.spell()
	case 12:
		s.spell()
	case 13:
		s.spell()
	case 14:
		s.spell()
	case 15:
		s.spell()
	case 16:
		s.spell()
	case 17:
		s.spell()
	case 18:
		s.spell()
	case 19:
		s.spell()
	case 20:
		s.spell()
	case 21:
		s.spell()
	case 22:
		s.spell()
	case 23:
		s.spell()
	case 24:
		s.spell()
	case 25:
		s.spell()
	case 26:
		s.spell()
	case 27:
		s.spell()
	case 28:
		s.spell()
	case 29:
		s.spell()
	case 30:
		s.spell()
	case 31:
		s.spell()
	}
}

// A table is the return address of the call in Call, then those of the digits,
// then that of the call of f.
type table [1 + base + 1]uintptr

// sites is the table, learnt before there is an ID. It is nil where addresses do not
// tell the digits apart, as a compiler could have it that merges equal instructions;
// then calls are noted by goroutine.
var (
	sites     *table
	learnOnce sync.Once
)

func learn() {
	sites = new(table) // so Call spells
	var t table
	t[0] = ID(1).calls()[2]
	for d := range uint64(base) {
		pcs := ID(d + base).calls() // the digit d, then 1
		t[1+d], t[1+base] = pcs[2], pcs[0]
	}
	sites = t.ifDistinct()
}

// calls are the calls around f in the name of id, the innermost first.
func (id ID) calls() (pcs [4]uintptr) {
	id.Call(func() { runtime.Callers(2, pcs[:]) })
	return pcs
}

// ifDistinct returns t if its addresses are there, and all different, else nil.
func (t *table) ifDistinct() *table {
	for i, pc := range t {
		if pc == 0 || slices.Contains(t[:i], pc) {
			return nil
		}
	}
	return t
}

// A reader counts the calls in the name of id in return addresses, which it is
// given innermost first.
type reader struct {
	id    ID
	depth int
	n     uint64 // what the digits spell that lie inside of the next address
}

func (r *reader) read(pcs []uintptr) {
	for _, pc := range pcs {
		switch i := slices.Index(sites[:], pc); {
		case 1 <= i && i <= base:
			r.n = r.n*base + uint64(i-1)
			continue
		case i == 0 && r.n == uint64(r.id):
			r.depth++
		}
		r.n = 0
	}
}

// readFrom reads the stack without the first frames, skip of them as
// [runtime.Callers] counts them here. It is not inlined: its own frame is large.
//
//go:noinline
func (r *reader) readFrom(skip int) {
	pcs := make([]uintptr, 128)
	for {
		got := runtime.Callers(skip, pcs)
		if got < len(pcs) {
			r.read(pcs[:got])
			return
		}
		pcs = make([]uintptr, 8*len(pcs))
	}
}
