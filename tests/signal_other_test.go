//go:build !unix

package tests

import (
	"os"
	"testing"
	"time"
)

const canStop = false

func stopAndContinue(*testing.T, *os.Process, time.Duration) {}
