package bench

import (
	"fmt"
	"math/rand"
	"testing"
	"time"
)

// pondRows are the ten workloads of pond's own page: a million tasks, from one
// user to a million users, for at most 200,000 workers. As on that page making
// the pool is timed; closing it is not.
var pondRows = func() (all []Workload) {
	const tasks = 1_000_000
	for _, kind := range []struct {
		family, what string
		run          func()
		baseline     func(users int)
		takes        time.Duration
	}{{
		family: "Rand", what: "rand.Float64()", takes: 800 * time.Millisecond,
		run:      func() { rand.Float64() },
		baseline: func(users int) { baselineFrom(users, tasks, func() { rand.Float64() }) },
	}, {
		family: "Sleep", what: "a sleep of 10 ms", takes: 2 * time.Second,
		run:      func() { time.Sleep(10 * time.Millisecond) },
		baseline: func(users int) { baselineTurns(users, 40_000, tasks, func() { time.Sleep(10 * time.Millisecond) }) },
	}} {
		for _, load := range []struct {
			name, who string
			users     int
		}{
			{"1u-1Mt", "1 user submits 1,000,000", 1},
			{"100u-10Kt", "100 users submit 10,000 each", 100},
			{"1Ku-1Kt", "1,000 users submit 1,000 each", 1000},
			{"10Ku-100t", "10,000 users submit 100 each", 10_000},
			{"1Mu-1t", "1,000,000 users submit one each", tasks},
		} {
			all = append(all, rows(kind.family, "pond", Workload{
				Name:      "load=" + load.name,
				What:      fmt.Sprintf("%s: %s", load.who, kind.what),
				Benchtime: "1x", Takes: kind.takes,
				Quick: load.users == 1 || load.users == 10_000 && kind.family == "Rand",
				run: func(b *testing.B, s Subject) {
					for range b.N {
						p := s.New(Config{MaxWorkers: 200_000, Capacity: tasks, IdleTimeout: 10 * time.Second})
						submitFrom(p, load.users, tasks, kind.run)
						b.StopTimer()
						p.Close()
						b.StartTimer()
					}
				},
				baseline: func(b *testing.B) {
					for range b.N {
						kind.baseline(load.users)
					}
				},
			})...)
		}
	}
	return all
}()
