package bench

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkAwake takes bursts after 1 ms of rest apart: the first Submit, the others, and the wait for the last task. It
// does that in a process that rests meanwhile, and in one where another goroutine looks around every millisecond. Such
// a goroutine often keeps a thread awake, so that the first Submit need not wake one. The figures are medians.
func BenchmarkAwake(b *testing.B) {
	for _, row := range []struct {
		task string
		run  func()
		n    int
		cfg  Config
	}{
		{"empty", empty, 100, perCPU()},
		{"shallow", func() { _ = fib(10) }, 48, Config{MaxWorkers: 48, Capacity: 1 << 20, IdleTimeout: time.Second}},
	} {
		for _, looks := range []time.Duration{0, time.Millisecond} {
			for _, s := range Subjects {
				if s.HandOff || s.Name == "goroutines" {
					continue // a Submit that waits for a worker is not the same act
				}
				b.Run(fmt.Sprintf("task=%s/looks=%v/pool=%s", row.task, looks, s.Name), func(b *testing.B) {
					if looks > 0 {
						stop := make(chan struct{})
						defer close(stop)
						go lookAround(looks, stop)
					}
					p := s.New(row.cfg)
					defer p.Close()
					burstsApart(b, 1000, row.n, p, row.run)
				})
			}
		}
	}
}

func lookAround(every time.Duration, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			time.Sleep(every)
		}
	}
}

// burstsApart reports how long the parts of bursts of n tasks take.
func burstsApart(b *testing.B, rounds, n int, p Pool, task func()) {
	parts := []struct {
		name     string
		from, to int
		took     []float64
	}{{"first", 0, 1, nil}, {"others", 1, 2, nil}, {"wait", 2, 3, nil}, {"all", 0, 3, nil}}
	var wg sync.WaitGroup
	run := func() {
		task()
		wg.Done()
	}
	for range b.N * rounds {
		wg.Add(n)
		var at [4]time.Time
		at[0] = time.Now()
		p.Submit(run)
		at[1] = time.Now()
		for range n - 1 {
			p.Submit(run)
		}
		at[2] = time.Now()
		wg.Wait()
		at[3] = time.Now()
		for i := range parts {
			part := &parts[i]
			part.took = append(part.took, float64(at[part.to].Sub(at[part.from]).Nanoseconds()))
		}
		time.Sleep(time.Millisecond)
	}
	for _, part := range parts {
		slices.Sort(part.took)
		b.ReportMetric(part.took[len(part.took)/2], part.name+"-ns")
	}
	b.ReportMetric(0, "ns/op")
}
