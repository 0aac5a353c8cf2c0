package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkTail tells how long single calls take, where a mean hides it: in bursts of empty tasks, of which each is
// waited for, the longest Submit, and how many of a million took more than 1 ms. An operation is a burst.
func BenchmarkTail(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		for _, s := range Subjects {
			if s.HandOff {
				continue // a Submit that waits for a worker is not the same act
			}
			b.Run(fmt.Sprintf("n=%d/pool=%s", n, s.Name), func(b *testing.B) {
				p := s.New(perCPU())
				defer p.Close()
				var wg sync.WaitGroup
				task := wg.Done
				var longest time.Duration
				long := 0
				for b.Loop() {
					wg.Add(n)
					at := time.Now()
					for range n {
						p.Submit(task)
						now := time.Now()
						longest = max(longest, now.Sub(at))
						if now.Sub(at) > time.Millisecond {
							long++
						}
						at = now
					}
					wg.Wait()
				}
				b.ReportMetric(float64(longest)/1e6, "ms-longest")
				b.ReportMetric(float64(long)*1e6/float64(b.N*n), ">1ms/1e6")
			})
		}
	}
}
