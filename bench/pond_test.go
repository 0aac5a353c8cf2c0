package bench

import (
	"math/rand"
	"testing"
	"time"
)

// pondRows are the ten workloads of pond's own page: a million tasks, from one
// user to a million users, for at most 200,000 workers. As on that page making
// the pool is timed; closing it is not.
var pondRows = func() (rows []row) {
	for _, task := range []struct {
		family string
		run    func()
	}{
		{"Rand", func() { rand.Float64() }},
		{"Sleep", func() { time.Sleep(10 * time.Millisecond) }},
	} {
		for _, load := range []struct {
			name  string
			users int
		}{
			{"1u-1Mt", 1}, {"100u-10Kt", 100}, {"1Ku-1Kt", 1000}, {"10Ku-100t", 10_000}, {"1Mu-1t", 1_000_000},
		} {
			rows = append(rows, row{
				family: task.family, load: "load=" + load.name, benchtime: "1x",
				run: func(b *testing.B, s Subject) {
					for range b.N {
						p := s.New(Config{MaxWorkers: 200_000, Capacity: 1_000_000, IdleTimeout: 10 * time.Second})
						submitFrom(p, load.users, 1_000_000, task.run)
						b.StopTimer()
						p.Close()
						b.StartTimer()
					}
				},
			})
		}
	}
	return rows
}()
