package bench

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// This file is what workloads are made of: how tasks are submitted, and how
// the same tasks are run without a pool.

// perCPU is a pool for tasks that compute.
func perCPU() Config {
	return Config{MaxWorkers: runtime.GOMAXPROCS(0), Capacity: 1 << 20}
}

// submitFrom shares n tasks among users goroutines that submit them, and waits
// until all have run.
func submitFrom(p Pool, users, n int, task func()) {
	var wg sync.WaitGroup
	wg.Add(n)
	run := func() {
		task()
		wg.Done()
	}
	share(users, n, func() { p.Submit(run) })
	wg.Wait()
}

// submitAll submits n tasks from here and waits until all have run.
func submitAll(p Pool, n int, task func()) {
	var wg sync.WaitGroup
	wg.Add(n)
	run := func() {
		task()
		wg.Done()
	}
	for range n {
		p.Submit(run)
	}
	wg.Wait()
}

// share starts users goroutines that call f n times in all.
func share(users, n int, f func()) {
	for u := range users {
		times := n / users
		if u < n%users {
			times++
		}
		go func() {
			for range times {
				f()
			}
		}()
	}
}

// baselineFrom is submitFrom without a pool: the users run the tasks themselves.
func baselineFrom(users, n int, task func()) {
	var wg sync.WaitGroup
	wg.Add(n)
	share(users, n, func() {
		task()
		wg.Done()
	})
	wg.Wait()
}

// baselinePerCPU runs n tasks in one goroutine per CPU.
func baselinePerCPU(n int, task func()) { baselineFrom(runtime.GOMAXPROCS(0), n, task) }

// baselineTurns runs n tasks in the given number of goroutines, which draw them
// from a counter: for tasks that sleep, where it is not known which goroutine is free next.
// The users are started too, and do nothing.
func baselineTurns(users, goroutines, n int, task func()) {
	var (
		wg    sync.WaitGroup
		taken atomic.Int64
	)
	wg.Add(n)
	share(users, users, func() {})
	share(goroutines, goroutines, func() {
		for taken.Add(1) <= int64(n) {
			task()
			wg.Done()
		}
	})
	wg.Wait()
}

// measure times body with a pool that is there before and after.
func measure(b *testing.B, s Subject, c Config, body func(p Pool)) {
	b.StopTimer()
	p := s.New(c)
	b.StartTimer()
	body(p)
	b.StopTimer()
	p.Close()
}

// bursts times rounds of size tasks, run by burst, with a pause after each. The
// pause is no work, and stopping the benchmark's timer stops the world,
// so the rounds are timed here and replace ns/op.
func bursts(b *testing.B, rounds int, burst func()) {
	var busy time.Duration
	for range b.N * rounds {
		start := time.Now()
		burst()
		busy += time.Since(start)
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(busy.Nanoseconds())/float64(b.N), "ns/op")
}

// inline is a pool that is none: the submitter runs the task.
var inline Pool = funcs{submit: func(task func()) { task() }, close: func() {}}

// spin keeps a CPU busy for d.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

func empty() {}
