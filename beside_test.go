package shoal_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/shoal-go/shoal"
)

// TestTasksSubmittedTogetherWakeAWorkerPerCPU: where nobody can begin yet, the
// first submitted tasks wake one worker each, up to the number of CPUs. (If
// only one were woken, it would wake the next when it runs, and the runtime
// would let another CPU have that one only late.)
func TestTasksSubmittedTogetherWakeAWorkerPerCPU(t *testing.T) {
	for _, c := range []struct{ cpus, tasks, want int }{{1, 3, 1}, {2, 1, 1}, {2, 2, 2}, {2, 5, 2}, {3, 5, 3}, {8, 4, 4}, {8, 6, 5}} {
		for try := 0; ; try++ {
			got := standbyAfter(t, c.cpus, c.tasks)
			if got == c.want {
				break
			}
			// The test may be interrupted in between, and a worker begin.
			if got > c.want || try == 20 {
				t.Fatalf("%d CPUs, %d tasks: %d workers on standby, want %d", c.cpus, c.tasks, got, c.want)
			}
		}
	}
}

// standbyAfter submits tasks to a pool of 5 parked workers and returns how
// many of them it has woken.
func standbyAfter(t *testing.T, cpus, tasks int) int {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(5), shoal.WithMinWorkers(5)))
	defer p.Close()
	for shoal.Standby(p) > 0 { // until they are all parked
		runtime.Gosched()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // they begin when we let them
	shoal.BelieveInCPUs(p, cpus)
	var wg sync.WaitGroup
	wg.Add(tasks)
	for range tasks {
		must(t, p.Submit(wg.Done))
	}
	n := shoal.Standby(p)
	wg.Wait()
	return n
}
