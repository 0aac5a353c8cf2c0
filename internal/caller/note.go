package caller

import (
	"bytes"
	"runtime"
	"strconv"
	"sync"
)

// This file is what is done where the stack cannot be read: calls are noted under
// the number of the goroutine, which is in the heading of the stack as Go prints it.
// That takes a microsecond a call, and a lock.

// notes is how many calls each goroutine is inside of, in each name.
var notes struct {
	mu    sync.Mutex
	calls map[note]int
}

type note struct {
	goroutine uint64
	id        ID
}

func (n note) add(d int) {
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if notes.calls == nil {
		notes.calls = make(map[note]int)
	}
	if notes.calls[n] += d; notes.calls[n] == 0 {
		delete(notes.calls, n)
	}
}

// note calls f, and notes that meanwhile. Where the goroutine has no number there
// is nothing to note: the answer is no.
func (id ID) note(f func()) {
	if g := goroutine(); g != 0 {
		n := note{g, id}
		n.add(+1)
		defer n.add(-1)
	}
	f()
}

// noted is Depth by what was noted.
func (id ID) noted() int {
	n := note{goroutine(), id}
	notes.mu.Lock()
	defer notes.mu.Unlock()
	return notes.calls[n]
}

// goroutine is the number of the calling goroutine, or 0.
func goroutine() uint64 {
	var buf [64]byte
	heading := bytes.Fields(buf[:runtime.Stack(buf[:], false)]) // goroutine 7 [running]:
	if len(heading) < 2 {
		return 0
	}
	n, err := strconv.ParseUint(string(heading[1]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
