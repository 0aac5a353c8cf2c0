package bench

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// memoryRows are about what a waiting task and an idle worker cost, and about
// pools that live for one task.
var memoryRows = slices.Concat(rows("Memory", "shoal", Workload{
	Name: "of=backlog", What: "1,000,000 tasks wait behind a blocked worker: bytes allocated a task",
	Units: []string{"B/submit", "ns/op"}, Benchtime: "1x",
	run: func(b *testing.B, s Subject) {
		backlog(b, func() Pool { return s.New(Config{MaxWorkers: 1, Capacity: 1 << 20}) })
	},
	baseline: func(b *testing.B) {
		backlog(b, func() Pool {
			list := make([]func(), 0, 1_000_001)
			return funcs{submit: func(task func()) { list = append(list, task) }, close: func() { clear(list) }}
		})
	},
	// Those have nowhere to put a backlog.
	without: func(s Subject) bool { return s.HandOff || s.Name == "goroutines" },
}, Workload{
	Name: "of=worker", What: "1,000 idle workers: heap and stack held by each",
	Units: []string{"B/worker"}, Benchtime: "1x", run: workerMemory, baseline: baselineWorkerMemory,
	// Those keep no idle worker.
	without: func(s Subject) bool {
		return slices.Contains([]string{"goroutines", "errgroup", "pond-v2", "gopool"}, s.Name)
	},
}), rows("Startup", "shoal", Workload{
	What: "make a pool, run one task, close the pool", Benchtime: "300ms", Quick: true,
	run: func(b *testing.B, s Subject) {
		for range b.N {
			p := s.New(Config{MaxWorkers: runtime.GOMAXPROCS(0), Capacity: 1000})
			submitAll(p, 1, empty)
			p.Close()
		}
	},
	baseline: func(b *testing.B) {
		for range b.N {
			baselineFrom(1, 1, empty)
		}
	},
	without: func(s Subject) bool { return s.Name == "goroutines" }, // that is the baseline
}))

// backlog makes a pool and fills its queue behind one blocked worker.
func backlog(b *testing.B, pool func() Pool) {
	const tasks = 1_000_000
	var bytes uint64
	for range b.N {
		before := memStats().TotalAlloc
		p := pool()
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
	for range b.N {
		held(b, func() (release func()) {
			p := s.New(Config{MaxWorkers: 1000, Capacity: 1000, IdleTimeout: time.Minute})
			submitAll(p, 1000, func() { time.Sleep(50 * time.Millisecond) })
			return p.Close
		})
	}
}

// baselineWorkerMemory is a thousand goroutines that wait at one channel.
func baselineWorkerMemory(b *testing.B) {
	for range b.N {
		held(b, func() (release func()) {
			c := make(chan struct{})
			for range 1000 {
				go func() {
					time.Sleep(50 * time.Millisecond)
					<-c
				}()
			}
			return func() { close(c) }
		})
	}
}

// held reports what one of the goroutines holds that are left when keep has
// returned and all has come to rest.
func held(b *testing.B, keep func() (release func())) {
	bytesBefore, goroutinesBefore := inUse(), runtime.NumGoroutine()
	release := keep()
	time.Sleep(100 * time.Millisecond) // they park
	bytes, goroutines := inUse(), runtime.NumGoroutine()
	release()
	if kept := goroutines - goroutinesBefore; kept > 0 {
		b.ReportMetric(float64(bytes-bytesBefore)/float64(kept), "B/worker")
	}
	b.ReportMetric(0, "ns/op") // nothing is timed here
}

// inUse is how much memory is in use, stacks included.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // the first one shrinks stacks and empties sync.Pools halfway
	m := memStats()
	return int64(m.HeapAlloc + m.StackInuse)
}

func memStats() *runtime.MemStats {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return &m
}
