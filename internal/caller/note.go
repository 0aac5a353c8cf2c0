package caller

import (
	"fmt"
	"runtime"
	"sync"
)

// This file is for programs in which the stack cannot be read: calls are noted
// under the number of the goroutine, which is in the heading of the stack as Go
// prints it. That takes a few microseconds a call, and a lock.

// notes is how many calls each goroutine is inside of, in each name.
var notes = struct {
	mu    sync.Mutex
	calls map[note]int
}{calls: map[note]int{}}

type note struct {
	goroutine uint64 // its number; 0: it has none
	id        ID
}

// note is the key under which the calling goroutine notes calls in the name of id.
func (id ID) note() (n note) {
	n.id = id
	var heading [64]byte // goroutine 7 [running]:
	fmt.Sscanf(string(heading[:runtime.Stack(heading[:], false)]), "goroutine %d", &n.goroutine)
	return n
}

// during calls f, and notes the call while f runs.
func (n note) during(f func()) {
	n.add(+1)
	defer n.add(-1)
	f()
}

// add adds d calls, and returns how many there are. If the goroutine has no number
// there is nothing to note: the answer is none.
func (n note) add(d int) (calls int) {
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if calls = notes.calls[n] + d; calls == 0 || n.goroutine == 0 {
		delete(notes.calls, n)
		return 0
	}
	notes.calls[n] = calls
	return calls
}
