package bench

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// unit is what takes a CPU about 100 µs. It counts by work, not by the clock: beside
// others a task that looks at the clock would take the time that it did not run for work.
func unit() {
	x := uint64(1)
	for range 50_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	besideSink.Store(x)
}

var besideSink atomic.Uint64

// BenchmarkBeside runs tasks beside goroutines that compute and do not yield. Of tasks
// that sleep the time counts; of tasks that compute, the part that they had of
// the CPUs, where neither all nor nothing is good.
func BenchmarkBeside(b *testing.B) {
	for _, perCPU := range []int{2, 10} {
		others := perCPU * runtime.GOMAXPROCS(0)
		for _, task := range []struct {
			name string
			n    int
			run  func()
		}{{"sleep-10ms", 2000, func() { time.Sleep(10 * time.Millisecond) }}, {"compute", 5000, unit}} {
			for _, s := range Subjects {
				b.Run(fmt.Sprintf("others=%d/task=%s/pool=%s", others, task.name, s.Name), func(b *testing.B) {
					var stop atomic.Bool
					var theirs atomic.Int64
					var spinners sync.WaitGroup
					for range others {
						spinners.Go(func() {
							for !stop.Load() {
								unit()
								theirs.Add(1)
							}
						})
					}
					p := s.New(Config{MaxWorkers: 1000, Capacity: 1_000_000})
					var wg sync.WaitGroup
					work := func() { task.run(); wg.Done() }
					before, ours := theirs.Load(), 0
					b.ResetTimer()
					for range b.N {
						wg.Add(task.n)
						for range task.n {
							p.Submit(work)
						}
						wg.Wait()
						ours += task.n
					}
					b.StopTimer()
					if task.name == "compute" {
						b.ReportMetric(100*float64(ours)/float64(int64(ours)+theirs.Load()-before), "%-of-CPUs")
					}
					stop.Store(true)
					spinners.Wait()
					p.Close()
				})
			}
		}
	}
}
