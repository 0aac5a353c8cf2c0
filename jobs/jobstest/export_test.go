package jobstest

import (
	"testing"
	"testing/synctest"
)

// RunInBubbles is [Run] for a queue in memory: in synctest's time, which no other process
// on the machine can make pass.
func RunInBubbles(t *testing.T, make func(t *testing.T) Subject) { runEach(t, make, synctest.Test) }
