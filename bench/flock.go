package bench

import (
	"math/rand"
	"testing"
	"time"
)

// flockRows are the families of Flock's page; ns/op is per task, except for
// the burst. Its 1 µs and 10 µs tasks are work here, not sleeps: the shortest
// sleep is many times longer than that, and would measure the runtime's timers.
var flockRows = rows("Flock", "flock",
	flock("instant", "1 submitter, empty tasks", 1, empty),
	flock("1us", "1 submitter, tasks of 1 µs of work", 1, func() { spin(time.Microsecond) }),
	flock("10us", "1 submitter, tasks of 10 µs of work", 1, func() { spin(10 * time.Microsecond) }),
	flock("cpu", "1 submitter, tasks that compute (a loop of 1,000 steps)", 1, func() { _ = crunch(1000) }),
	flock("gc", "1 submitter, tasks that allocate 1 KB", 1, func() { _ = garbage(1024) }),
	flock("submitters", "100 submitters, tasks of 1 µs of work", 100, func() { spin(time.Microsecond) }),
	Workload{
		Name: "task=mixed", What: "100 submitters, one task in ten sleeps 100 µs", Benchtime: "300ms", Quick: true,
		run: func(b *testing.B, s Subject) {
			// 1000 workers, so that the sleepers never use up the limit.
			measure(b, s, Config{MaxWorkers: 1000, Capacity: 1 << 20}, func(p Pool) { submitFrom(p, 100, b.N, mixed) })
		},
		baseline: func(b *testing.B) { baselineTurns(100, 1000, b.N, mixed) },
	},
	Workload{
		Name: "task=burst", What: "100 empty tasks at once, then 1 ms of rest", Benchtime: "300ms",
		run: func(b *testing.B, s Subject) {
			measure(b, s, perCPU(), func(p Pool) { bursts(b, 1, func() { submitAll(p, 100, empty) }) })
		},
		baseline: func(b *testing.B) { bursts(b, 1, func() { submitAll(inline, 100, empty) }) },
	},
)

func flock(name, what string, submitters int, task func()) Workload {
	return Workload{
		Name: "task=" + name, What: what, Benchtime: "300ms", Quick: name == "1us",
		run: func(b *testing.B, s Subject) {
			measure(b, s, perCPU(), func(p Pool) { submitFrom(p, submitters, b.N, task) })
		},
		baseline: func(b *testing.B) { baselinePerCPU(b.N, task) },
	}
}

func mixed() {
	if rand.Intn(10) == 0 {
		time.Sleep(100 * time.Microsecond)
	}
}

//go:noinline
func crunch(n int) (x int) {
	for i := range n {
		x = x*31 + i
	}
	return x
}

//go:noinline
func garbage(n int) []byte { return make([]byte, n) }
