//go:build !unix

package shoal_test

import (
	"os"
	"testing"
	"time"
)

const canStop = false

func stopAndContinue(*testing.T, *os.Process, time.Duration) {}
