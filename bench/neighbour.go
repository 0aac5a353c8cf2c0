package bench

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// neighbourRows ask what a saturated pool does to the rest of the program.
var neighbourRows = rows("Neighbour", "shoal", Workload{
	What:  "a pool full of 100 µs tasks that compute, and a timer of somebody else's: how late it fires",
	Units: []string{"p99-late-µs", "p50-late-µs", "max-goroutines", "ns/op"}, Benchtime: "1x", Takes: 3 * time.Second, Quick: true,
	run: func(b *testing.B, s Subject) {
		measure(b, s, Config{MaxWorkers: 1000, Capacity: 1 << 20}, func(p Pool) { neighbour(b, p) })
	},
	baseline: func(b *testing.B) {
		p := newPolite(runtime.GOMAXPROCS(0))
		neighbour(b, p)
		p.Close()
	},
})

// newPolite is the least that has manners: a goroutine per CPU that yields
// after every task.
func newPolite(workers int) Pool {
	return newChan(workers, 1<<20, runtime.Gosched)
}

func neighbour(b *testing.B, p Pool) {
	const (
		length  = 2 * time.Second
		task    = 100 * time.Microsecond
		nap     = time.Millisecond
		backlog = 20_000 // the same for all, also for those that would take any number
	)
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
		b.ReportMetric(quantile(all, .5), "p50-late-µs")
		b.ReportMetric(quantile(all, .99), "p99-late-µs")
		b.ReportMetric(float64(n), "max-goroutines")
		<-finished
		for range backlog { // the window is free again when the last task is done
			window <- struct{}{}
		}
	}
}
