package bench

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// neighbourRows ask what a saturated pool does to the rest of the program.
var neighbourRows = []row{{family: "Neighbour", benchtime: "1x", run: neighbour}}

func neighbour(b *testing.B, s Subject) {
	const (
		length  = 2 * time.Second
		task    = 100 * time.Microsecond
		nap     = time.Millisecond
		backlog = 20_000 // the same for all, also for those that would take any number
	)
	measure(b, s, Config{MaxWorkers: 1000, Capacity: 1 << 20}, func(p Pool) {
		for range b.N {
			var (
				start    = time.Now()
				over     = func() bool { return time.Since(start) > length }
				ran      atomic.Int64
				window   = make(chan struct{}, backlog)
				finished = make(chan struct{})
				most     = make(chan int)
				late     = make(chan []time.Duration)
			)
			go func() { // the pool's only user
				for !over() {
					window <- struct{}{}
					p.Submit(func() {
						spin(task)
						ran.Add(1)
						<-window
					})
				}
				close(finished)
			}()
			go func() { // counts goroutines
				n := 0
				for !over() {
					n = max(n, runtime.NumGoroutine())
					time.Sleep(nap)
				}
				most <- n
			}()
			go func() { // the neighbour
				var all []time.Duration
				for !over() {
					asleep := time.Now()
					time.Sleep(nap)
					all = append(all, time.Since(asleep)-nap)
				}
				late <- all
			}()
			all, n := <-late, <-most
			b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(ran.Load()), "ns/op")
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1000, "p50-late-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1000, "p99-late-µs")
			b.ReportMetric(float64(n), "max-goroutines")
			<-finished
			for range backlog { // the window is free again when the last task is done
				window <- struct{}{}
			}
		}
	})
}
