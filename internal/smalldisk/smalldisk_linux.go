// Package smalldisk makes small file systems, for tests of what happens when they are full.
package smalldisk

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// New is the folder of a file system of that many bytes, which goes with the test, and
// what gives it another size. The test is skipped where it is not run by root.
func New(t testing.TB, size int) (dir string, resize func(size int)) {
	t.Helper()
	dir = t.TempDir()
	mount := func(flags uintptr, size int) error {
		return syscall.Mount("tmpfs", dir, "tmpfs", flags, fmt.Sprint("size=", size))
	}
	err := mount(0, size)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root may make a small file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func(size int) {
		t.Helper()
		if err := mount(syscall.MS_REMOUNT, size); err != nil {
			t.Fatal(err)
		}
	}
}
