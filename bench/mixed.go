package bench

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// mixedRows are about tasks of different kinds, and about tasks beside goroutines that compute: what a pool
// that adds workers by a rule of its own may get wrong.
var mixedRows = rows("Mixed", "shoal", Workload{
	Name: "behind=computing", What: "40 tasks compute for 100 ms each, then 100 sleep 10 ms, of a pool that may have 300 workers: until these are done",
	Benchtime: "1x", Takes: 3 * time.Second,
	run: func(b *testing.B, s Subject) {
		measure(b, s, Config{MaxWorkers: 300, Capacity: 1 << 20}, func(p Pool) { behind(b, p) })
	},
	baseline: func(b *testing.B) { behind(b, newGoroutines(Config{})) },
}, Workload{
	Name: "beside=spinning", What: "1,000 tasks sleep 10 ms, on up to 300 workers, beside 40 goroutines that compute",
	Benchtime: "1x", Takes: 2 * time.Second,
	run: func(b *testing.B, s Subject) {
		measure(b, s, Config{MaxWorkers: 300, Capacity: 1 << 20}, func(p Pool) { beside(b, p) })
	},
	baseline: func(b *testing.B) { beside(b, newChan(300, 1<<20, nil)) },
}, Workload{
	Name: "beside=endless", What: "100 short tasks a second beside 12 that compute without end, on up to 300 workers: from submitted to started",
	Units: []string{"p50-µs", "p99-µs"}, Benchtime: "1x", Takes: 3 * time.Second,
	run: func(b *testing.B, s Subject) {
		measure(b, s, Config{MaxWorkers: 300, Capacity: 1 << 20}, func(p Pool) { besideEndless(b, p) })
	},
	baseline: func(b *testing.B) { besideEndless(b, newGoroutines(Config{})) },
})

func behind(b *testing.B, p Pool) {
	for range b.N {
		var computing sync.WaitGroup
		computing.Add(40)
		for range 40 {
			p.Submit(func() { spin(100 * time.Millisecond); computing.Done() })
		}
		submitAll(p, 100, func() { time.Sleep(10 * time.Millisecond) })
		b.StopTimer()
		computing.Wait()
		b.StartTimer()
	}
}

func beside(b *testing.B, p Pool) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			for !stop.Load() {
			}
		})
	}
	b.ResetTimer()
	for range b.N {
		submitAll(p, 1000, func() { time.Sleep(10 * time.Millisecond) })
	}
	b.StopTimer()
	stop.Store(true)
	wg.Wait()
}

func besideEndless(b *testing.B, p Pool) {
	const tasks, apart = 200, 10 * time.Millisecond
	for range b.N {
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Add(12 + tasks)
		for range 12 {
			p.Submit(func() {
				for !stop.Load() {
				}
				wg.Done()
			})
		}
		late := make([]time.Duration, tasks)
		start := time.Now().Add(100 * time.Millisecond)
		for i := range late {
			due := start.Add(time.Duration(i) * apart)
			time.Sleep(time.Until(due))
			asked := time.Now() // when this goroutine has a CPU again, which no pool can help
			p.Submit(func() {
				late[i] = time.Since(asked)
				wg.Done()
			})
		}
		stop.Store(true)
		wg.Wait()
		slices.Sort(late)
		b.ReportMetric(0, "ns/op") // the length is given
		b.ReportMetric(quantile(late, .5), "p50-µs")
		b.ReportMetric(quantile(late, .99), "p99-µs")
	}
}
