package bench

import (
	"runtime"
	"sync"
	"testing"
)

// latencyRows are about handing over a task, with as many workers as CPUs.
var latencyRows = []row{{
	family: "SubmitWait", benchtime: "300ms",
	run: func(b *testing.B, s Subject) {
		measure(b, s, perCPU(), func(p Pool) {
			done := make(chan struct{}, 1)
			task := func() { done <- struct{}{} }
			for range b.N {
				p.Submit(task)
				<-done
			}
		})
	},
}, {
	family: "Submitters", load: "submitters=100", benchtime: "1x",
	run: func(b *testing.B, s Subject) {
		measure(b, s, perCPU(), func(p Pool) {
			for range b.N {
				submitFrom(p, 100, 1_000_000, empty)
			}
		})
	},
}, {
	family: "FanOut", load: "leaves=65536", benchtime: "300ms", run: fanOut,
	// In a pool without a queue a task that submits waits for a worker, and all
	// workers are inside such tasks. Those pools get a limit that they never
	// reach; here that would be a million goroutines before the first task.
	without: func(s Subject) bool { return s.Name == "chan-unbuffered" },
}}

func perCPU() Config {
	return Config{MaxWorkers: runtime.GOMAXPROCS(0), Capacity: 1 << 20}
}

// fanOut grows a binary tree: every task but the leaves submits two more.
func fanOut(b *testing.B, s Subject) {
	const depth = 16
	c := perCPU()
	if s.HandOff {
		c.MaxWorkers = 1 << 20 // see above
	}
	measure(b, s, c, func(p Pool) {
		var wg sync.WaitGroup
		tasks := [depth + 1]func(){wg.Done}
		for d := 1; d <= depth; d++ {
			tasks[d] = func() {
				p.Submit(tasks[d-1])
				p.Submit(tasks[d-1])
			}
		}
		for range b.N {
			wg.Add(1 << depth)
			p.Submit(tasks[depth])
			wg.Wait()
		}
	})
}
