package bench

import (
	"fmt"
	"testing"
)

// scaleRows show how the cost of a task grows with their number.
var scaleRows = func() []Workload {
	var all []Workload
	for n := 1; n <= 10_000_000; n *= 10 {
		w := Workload{
			Name: fmt.Sprintf("tasks=%d", n), What: Thousands(n) + " empty tasks from 1 submitter, waited for",
			Units: []string{"ns/task"}, Benchtime: "200ms",
		}
		if n >= 1_000_000 {
			w.Benchtime = "1x"
		}
		perTask := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
		}
		w.run = func(b *testing.B, s Subject) {
			measure(b, s, perCPU(), func(p Pool) {
				for range b.N {
					submitAll(p, n, empty)
				}
				perTask(b)
			})
		}
		w.baseline = func(b *testing.B) {
			for range b.N {
				submitAll(inline, n, empty)
			}
			perTask(b)
		}
		all = append(all, w)
	}
	return rows("Scale", "shoal", all...)
}()
