// Package caller answers the question who is calling: whether the calling
// goroutine is inside a function that was called in somebody's name. Go has no
// goroutine-local storage, but every goroutine has a stack, and the return
// addresses on it can be read. So a call is made from nested call instructions
// that spell a number, one digit each. Whoever asks walks the stack and reads it.
//
// A call costs about two nanoseconds and 32 bytes of stack per hexadecimal digit
// of the number; numbers are given out in order, from 1. Asking takes
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
func NewID() ID { return ID(lastID.Add(1)) }

// Call calls f in the name of id. It returns, panics and exits as f does.
func (id ID) Call(f func()) {
	if sites() == nil {
		id.note(f)
		return
	}
	begin(uint64(id), f)
}

// Depth is how many calls in the name of id the calling goroutine is inside of.
func (id ID) Depth() int {
	if id == 0 {
		return 0
	}
	s := sites()
	if s == nil {
		return id.noted()
	}
	// The caller is often a goroutine on a new stack of 2 KB that is about to
	// park. Room for few frames lets it stay there: to move it costs more than the
	// walk, and doubles its memory.
	r := reader{sites: s, id: id}
	var few [24]uintptr
	got := runtime.Callers(2, few[:])
	r.read(few[:got])
	if got == len(few) {
		r.readFrom(2 + 1 + len(few))
	}
	return r.depth
}

// begin calls f after n, which is not 0. Its frame is where the number begins.
//
//go:noinline
func begin(n uint64, f func()) { spell(n, f) }

// spell calls f after n, lowest digit first. Each case is a call instruction,
// whose return address stands for the digit. That the number is over needs no
// mark: what follows is no digit.
//
//go:noinline
func spell(n uint64, f func()) {
	if n == 0 {
		f()
		return
	}
	rest := n / 16
	switch n % 16 {
	case 0:
		spell(rest, f)
	case 1:
		spell(rest, f)
	case 2:
		spell(rest, f)
	case 3:
		spell(rest, f)
	case 4:
		spell(rest, f)
	case 5:
		spell(rest, f)
	case 6:
		spell(rest, f)
	case 7:
		spell(rest, f)
	case 8:
		spell(rest, f)
	case 9:
		spell(rest, f)
	case 10:
		spell(rest, f)
	case 11:
		spell(rest, f)
	case 12:
		spell(rest, f)
	case 13:
		spell(rest, f)
	case 14:
		spell(rest, f)
	case 15:
		spell(rest, f)
	}
}

// A table is the return address of the call in begin, then those of the sixteen
// digits, then that of the call of f.
type table [1 + 16 + 1]uintptr

// sites is the table, learnt at first use. It is nil where addresses do not tell
// the digits apart, as a compiler could have it that merges equal instructions;
// then calls are noted by goroutine.
var sites = sync.OnceValue(func() *table {
	const n = 0xfedcba9876543210 // all digits; the outermost is 0
	var t table
	begin(n, func() { runtime.Callers(2, t[:]) })
	slices.Reverse(t[:])
	return t.ifDistinct()
})

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
	sites *table
	id    ID
	depth int
	n     uint64 // what the digits spell that lie inside of the next address
}

func (r *reader) read(pcs []uintptr) {
	for _, pc := range pcs {
		switch i := slices.Index(r.sites[:], pc); {
		case 1 <= i && i <= 16:
			r.n = r.n*16 + uint64(i-1)
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
