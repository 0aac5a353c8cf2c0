package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkFull keeps the queue full, so that submitters wait for free capacity nearly all the time. A
// round is a second. For empty tasks the time of each is measured. For tasks of 10 µs it is also measured how
// long a Submit takes that has to wait, and how many tasks the slowest submitter has submitted, relative to the mean.
func BenchmarkFull(b *testing.B) {
	for _, row := range []struct {
		task                 string
		run                  func()
		capacity, submitters int
	}{
		{"empty", empty, 16, 1}, {"empty", empty, 1000, 1}, {"empty", empty, 16, 100}, {"empty", empty, 16, 200},
		{"empty", empty, 6400, 200}, {"10us", func() { spin(10 * time.Microsecond) }, 16, 100},
	} {
		for _, s := range append([]Subject{{Name: "mutex-ring", New: newRing}}, Subjects...) {
			if !slices.Contains([]string{"shoal", "chan-buffered", "mutex-ring", "pond-eager", "pond-v2"}, s.Name) {
				continue // the others have no bounded queue
			}
			b.Run(fmt.Sprintf("task=%s/capacity=%d/submitters=%d/pool=%s", row.task, row.capacity, row.submitters, s.Name), func(b *testing.B) {
				c := perCPU()
				c.Capacity = row.capacity
				for range b.N {
					keepFull(b, s.New(c), row.submitters, row.run, row.task != "empty")
				}
			})
		}
	}
}

func keepFull(b *testing.B, p Pool, submitters int, task func(), timed bool) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	each, waits := make([]int, submitters), make([][]time.Duration, submitters)
	start := time.Now()
	for i := range submitters {
		wg.Go(func() {
			for !stop.Load() {
				if timed {
					t := time.Now()
					p.Submit(task)
					waits[i] = append(waits[i], time.Since(t))
				} else {
					p.Submit(task)
				}
				each[i]++
			}
		})
	}
	time.Sleep(time.Second)
	stop.Store(true)
	wg.Wait()
	took := time.Since(start)
	p.Close()
	sum := 0
	for _, n := range each {
		sum += n
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(sum), "ns/task")
	if timed {
		all := slices.Concat(waits...)
		slices.Sort(all)
		b.ReportMetric(quantile(all, .99), "p99-submit-µs")
		b.ReportMetric(float64(slices.Min(each)*submitters)/float64(sum), "slowest:mean")
	}
}

// newRing is a pool of one mutex and a ring, whose waiters are woken in the order in which they came.
func newRing(c Config) Pool {
	var mu sync.Mutex
	notFull, notEmpty := sync.NewCond(&mu), sync.NewCond(&mu)
	ring, first, n, closed := make([]func(), c.Capacity), 0, 0, false
	var workers sync.WaitGroup
	for range c.MaxWorkers {
		workers.Go(func() {
			for {
				mu.Lock()
				for n == 0 && !closed {
					notEmpty.Wait()
				}
				if n == 0 {
					mu.Unlock()
					return
				}
				task := ring[first]
				first, n = (first+1)%len(ring), n-1
				notFull.Signal()
				mu.Unlock()
				task()
			}
		})
	}
	return funcs{
		submit: func(task func()) {
			mu.Lock()
			for n == len(ring) {
				notFull.Wait()
			}
			ring[(first+n)%len(ring)] = task
			n++
			notEmpty.Signal()
			mu.Unlock()
		},
		close: func() {
			mu.Lock()
			closed = true
			notEmpty.Broadcast()
			mu.Unlock()
			workers.Wait()
		},
	}
}
