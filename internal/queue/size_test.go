//go:build !poolsim

package queue

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// TestSegmentsFillTheirSizeClasses: a cell more, or a field, would take the next larger class. An object
// of more than 512 bytes that has pointers takes a word more than its size.
func TestSegmentsFillTheirSizeClasses(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the fields are of other sizes")
	}
	if got := unsafe.Sizeof(long{}) + 8; got != 2048 {
		t.Errorf("a long segment takes %d bytes", got)
	}
	if got := unsafe.Sizeof(short{}); got != 224 {
		t.Errorf("a short segment takes %d bytes", got)
	}
}

// TestTakeSleepsWhileThePutterIsInterrupted: a taker that only yields keeps the CPU on which the putter is to go on. In a
// bubble time passes only while all sleep.
func TestTakeSleepsWhileThePutterIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShort(0, false)
		ran := false
		go func() {
			time.Sleep(time.Millisecond) // the putter has its ticket, and is interrupted
			s.Cell(0).Put(Func(func() { ran = true }))
		}()
		s.Take(0).Func()()
		if !ran {
			t.Error("it has taken another task")
		}
	})
}
