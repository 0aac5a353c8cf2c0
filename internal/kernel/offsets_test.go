//go:build !poolsim

package kernel

import (
	"testing"
	"unsafe"

	"github.com/shoal-go/shoal/internal/sy"
)

// TestWorkersHotPartIsTwoCacheLines: what each task touches is in the first two, if a worker begins
// with one. It does if its size is a multiple of that, and a size of the allocator.
func TestWorkersHotPartIsTwoCacheLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("lines are for 64 bits")
	}
	var w Worker
	if end := unsafe.Offsetof(w.watched) + unsafe.Sizeof(w.watched); end > 128 {
		t.Errorf("what each task touches ends at %d", end)
	}
	if size := unsafe.Sizeof(w); size%64 != 0 {
		t.Errorf("a worker has %d bytes", size)
	}
}

// TestWordsHaveCacheLinesOfTheirOwn: what submitters write, what workers write, and what all of
// them read but seldom write are a line apart or more.
func TestWordsHaveCacheLinesOfTheirOwn(t *testing.T) {
	const apart = sy.CacheLine
	var l Lane
	var c Crew
	for _, w := range []struct {
		name          string
		before, after uintptr // the end of what comes before, the begin of what comes after
		begin, end    uintptr
	}{
		{"tail", unsafe.Offsetof(l.epoch) + unsafe.Sizeof(l.epoch), unsafe.Offsetof(l.head),
			unsafe.Offsetof(l.tail), unsafe.Offsetof(l.back) + unsafe.Sizeof(l.back)},
		{"head", unsafe.Offsetof(l.back) + unsafe.Sizeof(l.back), unsafe.Offsetof(l.capacity),
			unsafe.Offsetof(l.head), unsafe.Offsetof(l.front) + unsafe.Sizeof(l.front)},
		{"wake", unsafe.Offsetof(c.branched) + unsafe.Sizeof(c.branched), unsafe.Offsetof(c.mu),
			unsafe.Offsetof(c.wake), unsafe.Offsetof(c.wake) + unsafe.Sizeof(c.wake)},
		{"solo and urgent", unsafe.Offsetof(c.clock) + unsafe.Sizeof(c.clock), unsafe.Offsetof(c.wake),
			unsafe.Offsetof(c.solo), unsafe.Offsetof(c.branched) + unsafe.Sizeof(c.branched)},
	} {
		if w.begin < w.before+apart || w.after < w.end+apart {
			t.Errorf("%s is at %d to %d, between %d and %d", w.name, w.begin, w.end, w.before, w.after)
		}
	}
}
