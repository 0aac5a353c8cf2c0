package bench

import (
	"slices"
	"sync"
	"testing"
)

// latencyRows are about handing over a task, with as many workers as CPUs.
var latencyRows = slices.Concat(rows("SubmitWait", "shoal", Workload{
	What: "submit one empty task, wait for it", Benchtime: "300ms", Quick: true,
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
	// A goroutine that is there already, and two channels: to do the work in
	// another goroutine cannot be quicker.
	baseline: func(b *testing.B) {
		ask, answer := make(chan struct{}, 1), make(chan struct{}, 1)
		go func() {
			for range ask {
				answer <- struct{}{}
			}
		}()
		for range b.N {
			ask <- struct{}{}
			<-answer
		}
		close(ask)
	},
}), rows("Submitters", "shoal", Workload{
	Name: "submitters=100", What: "100 submitters, 1,000,000 empty tasks", Benchtime: "1x", Quick: true,
	run: func(b *testing.B, s Subject) {
		measure(b, s, perCPU(), func(p Pool) {
			for range b.N {
				submitFrom(p, 100, 1_000_000, empty)
			}
		})
	},
	baseline: func(b *testing.B) {
		for range b.N {
			baselineFrom(100, 1_000_000, empty)
		}
	},
}), rows("FanOut", "shoal", Workload{
	Name: "leaves=65536", What: "recursive fan-out: every task but 65,536 leaves submits two more",
	Benchtime: "300ms", Quick: true, run: fanOut,
	// A pool without a queue waits for a worker in a task that submits, and all
	// workers are inside such tasks. Those get a limit that they never reach;
	// here that would be a million goroutines before the first task.
	without: func(s Subject) bool { return s.Name == "chan-unbuffered" },
	baseline: func(b *testing.B) {
		for range b.N {
			var wg sync.WaitGroup
			wg.Add(1 << fanOutDepth)
			var descend func(depth int)
			descend = func(depth int) {
				if depth == 0 {
					wg.Done()
					return
				}
				descend(depth - 1)
				descend(depth - 1)
			}
			go descend(fanOutDepth - 1)
			descend(fanOutDepth - 1)
			wg.Wait()
		}
	},
}))

const fanOutDepth = 16

// fanOut grows a binary tree: every task but the leaves submits two more.
func fanOut(b *testing.B, s Subject) {
	c := perCPU()
	if s.HandOff {
		c.MaxWorkers = 1 << 20 // see above
	}
	measure(b, s, c, func(p Pool) {
		var wg sync.WaitGroup
		tasks := [fanOutDepth + 1]func(){wg.Done}
		for d := 1; d <= fanOutDepth; d++ {
			tasks[d] = func() {
				p.Submit(tasks[d-1])
				p.Submit(tasks[d-1])
			}
		}
		for range b.N {
			wg.Add(1 << fanOutDepth)
			p.Submit(tasks[fanOutDepth])
			wg.Wait()
		}
	})
}
