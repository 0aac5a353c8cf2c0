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
var taskgoRows = func() (rows []row) {
	add := func(family, load, benchtime string, limit int, body func(b *testing.B, p Pool, task func())) {
		for _, t := range []struct {
			name string
			task func()
		}{
			{"deep", func() { descend(256) }},
			{"shallow", func() { _ = fib(10) }},
		} {
			rows = append(rows, row{
				family: family, load: path.Join("stack="+t.name, load), benchtime: benchtime,
				run: func(b *testing.B, s Subject) {
					measure(b, s, Config{MaxWorkers: limit, Capacity: 1 << 20, IdleTimeout: time.Second},
						func(p Pool) { body(b, p, t.task) })
				},
			})
		}
	}
	add("Burst", "", "1x", 48, func(b *testing.B, p Pool, task func()) { bursts(b, p, 2000, 48, task) })
	add("Saturated", "", "300ms", 48, func(b *testing.B, p Pool, task func()) {
		for range b.N {
			submitAll(p, 100_000, task)
		}
	})
	for _, n := range []int{1000, 10_000, 50_000, 100_000, 500_000} {
		add("Limit10k", fmt.Sprintf("tasks=%d", n), "300ms", 10_000, func(b *testing.B, p Pool, task func()) {
			for range b.N {
				submitAll(p, n, task)
			}
		})
	}
	return rows
}()

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
