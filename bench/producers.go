package bench

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// producerRows have goroutines submit small tasks without pause for two seconds, to a queue without a
// bound where a subject has one.
var producerRows = func() (all []Workload) {
	for _, producers := range []int{1, 8, 32, 256} {
		run := func(b *testing.B, p Pool) { produce(b, p, producers) }
		all = append(all, Workload{
			Name:  fmt.Sprintf("producers=%d", producers),
			What:  fmt.Sprintf("%d goroutines submit tiny tasks without pause for 2 s: time for each that is done when they stop, share that is not, largest heap", producers),
			Units: []string{"ns/task", "undone-%", "MB-heap"}, Benchtime: "1x", Takes: 3 * time.Second,
			run: func(b *testing.B, s Subject) {
				measure(b, s, Config{MaxWorkers: runtime.GOMAXPROCS(0), Capacity: 1000, Unbounded: true}, func(p Pool) { run(b, p) })
			},
			baseline: func(b *testing.B) { run(b, inline) },
			without:  func(s Subject) bool { return s.Name == "goroutines" }, // they may take all memory
		})
	}
	return rows("Producers", "shoal", all...)
}()

func produce(b *testing.B, p Pool, producers int) {
	const length = 2 * time.Second
	for range b.N {
		var (
			submitted, done atomic.Int64
			stop            atomic.Bool
			wg              sync.WaitGroup
			heap            uint64
		)
		for range producers {
			wg.Go(func() {
				for !stop.Load() {
					x := new([64]byte)
					p.Submit(func() { x[0]++; done.Add(1) })
					submitted.Add(1)
				}
			})
		}
		start := time.Now()
		for time.Since(start) < length {
			time.Sleep(20 * time.Millisecond)
			heap = max(heap, memStats().HeapAlloc)
		}
		all, ran := submitted.Load(), done.Load()
		took := time.Since(start)
		stop.Store(true)
		wg.Wait()
		b.ReportMetric(0, "ns/op") // the length is given
		b.ReportMetric(float64(took.Nanoseconds())/float64(ran), "ns/task")
		b.ReportMetric(100*float64(max(0, all-ran))/float64(all), "undone-%")
		b.ReportMetric(float64(heap)/(1<<20), "MB-heap")
	}
}
