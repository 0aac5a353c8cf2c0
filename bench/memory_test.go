package bench

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// memoryRows are about what a waiting task and an idle worker cost, and about
// pools that live for one task.
var memoryRows = []row{{
	family: "Memory", load: "of=backlog", benchtime: "1x", run: backlogMemory,
	// Those have nowhere to put a backlog.
	without: func(s Subject) bool { return s.HandOff || s.Name == "goroutines" },
}, {
	family: "Memory", load: "of=worker", benchtime: "1x", run: workerMemory,
	// Those keep no idle worker.
	without: func(s Subject) bool { return slices.Contains([]string{"goroutines", "errgroup", "pond-v2"}, s.Name) },
}, {
	family: "Startup", benchtime: "300ms",
	run: func(b *testing.B, s Subject) {
		for range b.N {
			p := s.New(Config{MaxWorkers: runtime.GOMAXPROCS(0), Capacity: 1000})
			submitAll(p, 1, empty)
			p.Close()
		}
	},
}}

// backlogMemory makes a pool and fills its queue behind one blocked worker.
func backlogMemory(b *testing.B, s Subject) {
	const tasks = 1_000_000
	var bytes uint64
	for range b.N {
		before := memStats().TotalAlloc
		p := s.New(Config{MaxWorkers: 1, Capacity: 1 << 20})
		release := make(chan struct{})
		p.Submit(func() { <-release })
		for range tasks {
			p.Submit(empty)
		}
		bytes += memStats().TotalAlloc - before
		b.StopTimer()
		close(release)
		p.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(bytes)/float64(b.N)/tasks, "B/submit")
}

// workerMemory makes a thousand workers busy and then idle. A pool may have
// started fewer, so what it holds is divided by the goroutines it kept.
func workerMemory(b *testing.B, s Subject) {
	held := func() (bytes, goroutines int) {
		runtime.GC()
		runtime.GC() // the first one shrinks stacks and empties sync.Pools halfway
		m := memStats()
		return int(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
	}
	for range b.N {
		bytes, goroutines := held()
		p := s.New(Config{MaxWorkers: 1000, Capacity: 1000, IdleTimeout: time.Minute})
		submitAll(p, 1000, func() { time.Sleep(50 * time.Millisecond) })
		time.Sleep(100 * time.Millisecond) // they park
		bytesNow, goroutinesNow := held()
		p.Close()
		if kept := goroutinesNow - goroutines; kept > 0 {
			b.ReportMetric(float64(bytesNow-bytes)/float64(kept), "B/worker")
		}
	}
	b.ReportMetric(0, "ns/op") // nothing is timed here
}

func memStats() *runtime.MemStats {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &m
}
