//go:build unix

package tests

import (
	"syscall"
	"time"
)

// cpuTime is how much time on a CPU the process has had.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
