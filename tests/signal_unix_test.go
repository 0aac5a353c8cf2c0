//go:build unix

package tests

import (
	"os"
	"syscall"
	"testing"
	"time"
)

const canStop = true

// stopAndContinue stops a process for d.
func stopAndContinue(t *testing.T, p *os.Process, d time.Duration) {
	if p.Signal(syscall.SIGSTOP) != nil {
		return // it has ended
	}
	time.Sleep(d)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Errorf("SIGCONT: %v", err)
	}
}
