package bench

import (
	"syscall"
	"time"
)

// sleep is precise to some 50 µs. time.Sleep is not on an idle CPU: Go then
// waits in epoll, which counts milliseconds.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	syscall.Nanosleep(&t, nil) // the caller looks at the clock again
}
