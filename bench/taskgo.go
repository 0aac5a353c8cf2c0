package bench

import (
	"fmt"
	"path"
	"testing"
	"time"
)

// taskgoRows are the tables of taskgo's page. A deep task makes a fresh
// goroutine grow its stack several times, a shallow one never does; so they
// show what it is worth to keep a worker.
var taskgoRows = func() (all []Workload) {
	add := func(w Workload, family string, limit int, body func(b *testing.B, p Pool, task func()), baseline func(b *testing.B, task func())) {
		name, what := w.Name, w.What
		for _, t := range []struct {
			name string
			task func()
		}{
			{"deep", func() { descend(256) }},
			{"shallow", func() { _ = fib(10) }},
		} {
			w.Name = path.Join("stack="+t.name, name)
			w.What = what + ", " + t.name + " stacks"
			w.run = func(b *testing.B, s Subject) {
				measure(b, s, Config{MaxWorkers: limit, Capacity: 1 << 20, IdleTimeout: time.Second},
					func(p Pool) { body(b, p, t.task) })
			}
			w.baseline = func(b *testing.B) { baseline(b, t.task) }
			all = append(all, rows(family, "taskgo", w)...)
		}
	}
	add(Workload{What: "bursts of 48 tasks with 1 ms between", Benchtime: "1x", Takes: 4 * time.Second}, "Burst", 48,
		func(b *testing.B, p Pool, task func()) {
			bursts(b, 2000, func() { submitAll(p, 48, task) })
		},
		func(b *testing.B, task func()) { bursts(b, 2000, func() { submitAll(inline, 48, task) }) })
	add(Workload{What: "100,000 tasks at once for 48 workers", Benchtime: "300ms", Quick: true}, "Saturated", 48,
		func(b *testing.B, p Pool, task func()) {
			for range b.N {
				submitAll(p, 100_000, task)
			}
		},
		func(b *testing.B, task func()) {
			for range b.N {
				baselinePerCPU(100_000, task)
			}
		})
	for _, n := range []int{1000, 10_000, 50_000, 100_000, 500_000} {
		w := Workload{
			Name: fmt.Sprintf("tasks=%d", n), What: fmt.Sprintf("%s tasks at once for 10,000 workers", Thousands(n)),
			Benchtime: "300ms",
		}
		add(w, "Limit10k", 10_000,
			func(b *testing.B, p Pool, task func()) {
				for range b.N {
					submitAll(p, n, task)
				}
			},
			func(b *testing.B, task func()) {
				for range b.N {
					baselinePerCPU(n, task)
				}
			})
	}
	return all
}()

// Thousands writes n with commas.
func Thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// descend makes n frames of about 128 bytes.
//
//go:noinline
func descend(n int) int {
	var frame [12]int
	frame[n%len(frame)] = n
	if n > 0 {
		frame[0] += descend(n - 1)
	}
	return frame[n%len(frame)] + frame[0]
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}
