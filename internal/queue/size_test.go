//go:build !poolsim

package queue

import (
	"testing"
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
