package bench

import (
	"math/rand"
	"testing"
	"time"
)

// flockRows are the families of Flock's page; ns/op is per task, except for
// the burst. Its 1 µs and 10 µs tasks are work here, not sleeps: the shortest
// sleep is many times longer than that, and would measure the runtime's timers.
var flockRows = []row{
	flock("instant", 1, empty),
	flock("1us", 1, func() { spin(time.Microsecond) }),
	flock("10us", 1, func() { spin(10 * time.Microsecond) }),
	flock("cpu", 1, func() { _ = crunch(1000) }),
	flock("gc", 1, func() { _ = garbage(1024) }),
	flock("submitters", 100, func() { spin(time.Microsecond) }),
	{family: "Flock", load: "task=mixed", benchtime: "300ms", run: func(b *testing.B, s Subject) {
		// 1000 workers, so that the sleepers never use up the limit.
		measure(b, s, Config{MaxWorkers: 1000, Capacity: 1 << 20}, func(p Pool) {
			submitFrom(p, 100, b.N, func() {
				if rand.Intn(10) == 0 {
					time.Sleep(100 * time.Microsecond)
				}
			})
		})
	}},
	{family: "Flock", load: "task=burst", benchtime: "300ms", run: func(b *testing.B, s Subject) {
		measure(b, s, perCPU(), func(p Pool) { bursts(b, p, 1, 100, empty) })
	}},
}

func flock(name string, submitters int, task func()) row {
	return row{family: "Flock", load: "task=" + name, benchtime: "300ms", run: func(b *testing.B, s Subject) {
		measure(b, s, perCPU(), func(p Pool) { submitFrom(p, submitters, b.N, task) })
	}}
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
