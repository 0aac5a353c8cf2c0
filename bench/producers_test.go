package bench

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkProducers has goroutines submit small tasks without pause for two seconds. How much of that is
// done when they stop, and how large was the heap? The queues of shoal and workerpool have no bound that
// is reached, that of the channel is of 1,000 tasks.
func BenchmarkProducers(b *testing.B) {
	for _, producers := range []int{1, 8, 32, 256} {
		for _, s := range Subjects {
			capacity, ok := map[string]int{"shoal": 1 << 24, "workerpool": 1 << 24, "chan-buffered": 1000}[s.Name]
			if !ok {
				continue
			}
			b.Run(fmt.Sprintf("producers=%d/pool=%s", producers, s.Name), func(b *testing.B) {
				p := s.New(Config{MaxWorkers: runtime.GOMAXPROCS(0), Capacity: capacity})
				var submitted, done atomic.Int64
				var stop atomic.Bool
				var wg sync.WaitGroup
				for range producers {
					wg.Go(func() {
						for !stop.Load() {
							x := new([64]byte)
							p.Submit(func() { x[0]++; done.Add(1) })
							submitted.Add(1)
						}
					})
				}
				heap := uint64(0)
				for range 100 {
					time.Sleep(20 * time.Millisecond)
					heap = max(heap, memStats().HeapAlloc)
				}
				all, ran := submitted.Load(), done.Load()
				stop.Store(true)
				wg.Wait()
				p.Close()
				b.ReportMetric(100*float64(ran)/float64(all), "%-done")
				b.ReportMetric(float64(heap)/(1<<20), "MB-heap")
				b.ReportMetric(float64(ran)/2e6, "M-tasks/s")
			})
		}
	}
}
