package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
)

// These benchmarks are of shoal alone: they are what docs/tuning.md rests on.
//
//	go test -run '^$' -bench Tuning -benchtime 300ms -count 2 .

// rounds runs task n times per iteration on a pool with opts, and waits.
func rounds(b *testing.B, n int, gap time.Duration, task func(), opts ...shoal.Option) {
	p := shoal.Must(shoal.New(opts...))
	defer p.Shutdown(context.Background())
	var wg sync.WaitGroup
	work := func() { task(); wg.Done() }
	var asleep time.Duration
	for b.Loop() {
		wg.Add(n)
		for range n {
			if err := p.Submit(work); err != nil {
				b.Fatal(err)
			}
		}
		wg.Wait()
		if gap > 0 {
			start := time.Now()
			time.Sleep(gap)
			asleep += time.Since(start)
		}
	}
	b.ReportMetric(float64(b.Elapsed()-asleep)/float64(b.N)/float64(n), "ns/task")
	b.ReportMetric(float64(p.Stats().PeakWorkers), "workers")
}

func compute(d time.Duration) func() {
	return func() {
		for start := time.Now(); time.Since(start) < d; {
		}
	}
}

// computeAlone is compute, but what takes d where a CPU has nothing else to do takes
// longer where it is shared.
func computeAlone(d time.Duration) func() {
	const some = 1 << 20
	rounds := func(n int) (x uint64) {
		for i := range n {
			x = x*6364136223846793005 + uint64(i)
		}
		return x
	}
	start := time.Now()
	sink.Store(rounds(some))
	n := int(float64(some) * float64(d) / float64(time.Since(start)))
	return func() { sink.Store(rounds(n)) }
}

var sink atomic.Uint64 // so that no loop is left out

func BenchmarkTuningWorkers(b *testing.B) {
	for _, kind := range []struct {
		name string
		task func()
	}{{"compute-20us", compute(20 * time.Microsecond)}, {"block-1ms", func() { time.Sleep(time.Millisecond) }}} {
		for _, factor := range []int{1, 2, 4, 16, 64} {
			b.Run(fmt.Sprintf("task=%s/workers=%dxCPU", kind.name, factor), func(b *testing.B) {
				rounds(b, 1000, 0, kind.task, shoal.WithMaxWorkers(factor*runtime.GOMAXPROCS(0)))
			})
		}
	}
}

func BenchmarkTuningSizing(b *testing.B) {
	for _, s := range []struct {
		name string
		make func() shoal.Sizer
	}{{"auto", shoal.Auto}, {"eager", shoal.Eager}, {"balanced", shoal.Balanced}, {"lazy", shoal.Lazy}} {
		b.Run("task=compute-20us/sizing="+s.name, func(b *testing.B) {
			rounds(b, 1000, 0, compute(20*time.Microsecond), shoal.WithMaxWorkers(1000), shoal.WithSizing(s.make()))
		})
		b.Run("task=block-1ms/sizing="+s.name, func(b *testing.B) {
			rounds(b, 1000, 0, func() { time.Sleep(time.Millisecond) }, shoal.WithMaxWorkers(1000), shoal.WithSizing(s.make()))
		})
	}
}

func BenchmarkTuningCapacity(b *testing.B) {
	for _, n := range []int{0, 1, 16, 64, 256, 1024, 1 << 20} {
		b.Run(fmt.Sprintf("task=empty/capacity=%d", n), func(b *testing.B) {
			rounds(b, 10_000, 0, empty, shoal.WithQueueCapacity(n))
		})
	}
}

func BenchmarkTuningIdleTimeout(b *testing.B) {
	for _, d := range []time.Duration{0, time.Millisecond, 5 * time.Second} {
		b.Run(fmt.Sprintf("task=deep/burst=48/gap=2ms/idle=%v", d), func(b *testing.B) {
			rounds(b, 48, 2*time.Millisecond, func() { descend(256) }, shoal.WithMaxWorkers(48), shoal.WithIdleTimeout(d))
		})
	}
}

func BenchmarkTuningSpin(b *testing.B) {
	for _, n := range []int{0, 30, 1000} {
		b.Run(fmt.Sprintf("task=empty/burst=1/spin=%d", n), func(b *testing.B) {
			rounds(b, 1, 0, empty, shoal.WithSpin(n))
		})
	}
}

func BenchmarkTuningTiming(b *testing.B) {
	for _, t := range []struct {
		name string
		t    shoal.Timing
	}{{"off", shoal.TimingOff}, {"sampled", shoal.TimingSampled}, {"full", shoal.TimingFull}} {
		b.Run("task=empty/timing="+t.name, func(b *testing.B) {
			rounds(b, 10_000, 0, empty, shoal.WithTiming(t.t))
		})
	}
}

func BenchmarkTuningWatchdog(b *testing.B) {
	for name, opts := range map[string][]shoal.Option{
		"off": nil,
		"on":  {shoal.WithStallAfter(time.Minute), shoal.WithSlowTask(time.Minute)},
	} {
		b.Run("task=empty/watchdog="+name, func(b *testing.B) { rounds(b, 10_000, 0, empty, opts...) })
	}
}

func BenchmarkTuningBatch(b *testing.B) {
	for _, batch := range []int{1, 8, 64, 1024} {
		b.Run(fmt.Sprintf("task=empty/batch=%d", batch), func(b *testing.B) {
			p := shoal.Must(shoal.New())
			defer p.Shutdown(context.Background())
			var wg sync.WaitGroup
			tasks := make([]func(), batch)
			for i := range tasks {
				tasks[i] = wg.Done
			}
			for b.Loop() {
				wg.Add(10_240)
				for range 10_240 / batch {
					if _, err := p.SubmitBatch(tasks); err != nil {
						b.Fatal(err)
					}
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/10_240, "ns/task")
		})
	}
}

// Tasks that compute, for half a second in all, and then as many that block for
// 10 ms: the time until those that block are done, and until all are.
func BenchmarkTuningMixed(b *testing.B) {
	const n = 100
	cpus := runtime.GOMAXPROCS(0)
	newPool := func(opts ...shoal.Option) *shoal.Pool {
		return shoal.Must(shoal.New(append(opts, shoal.WithMaxWorkers(300))...))
	}
	sub := func(p *shoal.Pool, opts ...shoal.Option) *shoal.Pool { return shoal.Must(p.Sub(opts...)) }
	for _, way := range []struct {
		name string
		make func() (computing, blocking *shoal.Pool)
	}{
		{"one-pool", func() (c, w *shoal.Pool) { p := newPool(); return p, p }},
		{"one-pool-eager", func() (c, w *shoal.Pool) { p := newPool(shoal.WithSizing(shoal.Eager())); return p, p }},
		{"two-pools", func() (c, w *shoal.Pool) { return shoal.Must(shoal.New()), newPool() }},
		{"sub-pool-to-compute", func() (c, w *shoal.Pool) { p := newPool(); return sub(p, shoal.WithMaxWorkers(cpus)), p }},
		{"sub-pool-first", func() (c, w *shoal.Pool) { p := newPool(); return p, sub(p, shoal.WithPriority(1)) }},
	} {
		for _, long := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
			b.Run(fmt.Sprintf("compute=%v/%s", long, way.name), func(b *testing.B) {
				work, each := computeAlone(long), int(time.Second/2/long)*cpus
				var blocked, all time.Duration
				for b.Loop() {
					computing, blocking := way.make()
					start := time.Now()
					for range each {
						must(computing.Submit(work))
					}
					var wg sync.WaitGroup
					wg.Add(n)
					for range n {
						must(blocking.Submit(func() { time.Sleep(10 * time.Millisecond); wg.Done() }))
					}
					wg.Wait()
					blocked += time.Since(start)
					must(computing.Shutdown(context.Background()))
					must(blocking.Shutdown(context.Background()))
					all += time.Since(start)
				}
				b.ReportMetric(float64(blocked.Milliseconds())/float64(b.N), "ms-until-blocking-done")
				b.ReportMetric(float64(all.Milliseconds())/float64(b.N), "ms-until-all-done")
			})
		}
	}
}
