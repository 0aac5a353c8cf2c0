//go:build !unix

package tests

import (
	"runtime"
	"time"
)

var started = time.Now()

// cpuTime is how much time on a CPU the process has had, if it had all of them: what it
// really had is not to be known here.
func cpuTime() time.Duration {
	return time.Since(started) * time.Duration(runtime.GOMAXPROCS(0))
}
