package bench

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// manyRows are about several pools in one program, and about tasks that wait for tasks.
var manyRows = append(rows("Pools", "shoal", Workload{
	Name: "pools=10", What: "ten pools beside each other, each fed 20,000 tasks of 1 µs by a goroutine",
	Benchtime: "1x", Takes: time.Second,
	run: func(b *testing.B, s Subject) {
		b.StopTimer()
		var pools []Pool
		for range 10 {
			pools = append(pools, s.New(perCPU()))
		}
		b.StartTimer()
		for range b.N {
			tenPools(func(i int) Pool { return pools[i] })
		}
		b.StopTimer()
		for _, p := range pools {
			p.Close()
		}
	},
	baseline: func(b *testing.B) {
		for range b.N {
			baselinePerCPU(10*20_000, func() { spin(time.Microsecond) })
		}
	},
}, Workload{
	Name: "pools=10000", What: "10,000 pools, one for each tenant (of shoal: sub-pools of one pool), a task to each in turn: the time, and the memory that a pool holds",
	Units: []string{"ns/op", "B/pool"}, Benchtime: "100ms", Takes: 2 * time.Second,
	run: func(b *testing.B, s Subject) {
		tenants(b, func(n int) ([]Pool, func()) {
			c := Config{MaxWorkers: runtime.GOMAXPROCS(0), Capacity: 100}
			if s.Many != nil {
				return s.Many(n, c)
			}
			var pools []Pool
			for range n {
				pools = append(pools, s.New(c))
			}
			return pools, func() {} // to close 10,000 of some takes minutes
		})
	},
	baseline: func(b *testing.B) {
		tenants(b, func(n int) ([]Pool, func()) {
			pools := make([]Pool, n)
			for i := range pools {
				pools[i] = inline
			}
			return pools, func() {}
		})
	},
	without: func(s Subject) bool { return s.Name == "goroutines" }, // they have no limit that a tenant could have
}), rows("Nested", "shoal", Workload{
	Name: "leaves=4096", What: "a tree of 4,096 leaves of 1 µs, 16 below each node, which waits for them",
	Benchtime: "300ms", Takes: time.Second,
	run: func(b *testing.B, s Subject) {
		measure(b, s, perCPU(), func(p Pool) {
			for range b.N {
				grow(context.Background(), func(ctx context.Context) group { return s.Group(ctx, p) }, 3)
			}
		})
	},
	baseline: func(b *testing.B) {
		for range b.N {
			baselinePerCPU(16*16*16, func() { spin(time.Microsecond) })
		}
	},
	without: func(s Subject) bool { return s.Group == nil }, // a task that waits for another deadlocks there
})...)

func tenPools(pool func(i int) Pool) {
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() { submitAll(pool(i), 20_000, func() { spin(time.Microsecond) }) })
	}
	wg.Wait()
}

func tenants(b *testing.B, pools func(n int) (all []Pool, closeAll func())) {
	const n = 10_000
	b.StopTimer()
	before := inUse()
	all, closeAll := pools(n)
	round := func() {
		var wg sync.WaitGroup
		wg.Add(n)
		for _, p := range all {
			p.Submit(wg.Done)
		}
		wg.Wait()
	}
	round() // a pool that starts workers late has started them now

	time.Sleep(100 * time.Millisecond) // they park
	bytes := inUse() - before
	b.StartTimer()
	for range b.N {
		round()
	}
	b.StopTimer()
	b.ReportMetric(float64(max(0, bytes))/n, "B/pool")
	closeAll()
}

func grow(ctx context.Context, newGroup func(context.Context) group, depth int) {
	if depth == 0 {
		spin(time.Microsecond)
		return
	}
	g := newGroup(ctx)
	for range 16 {
		g.run(func(ctx context.Context) { grow(ctx, newGroup, depth-1) })
	}
	g.wait()
}

// loopRows are loops whose iterations are shared out. A subject without loops is given four chunks
// for each CPU, as one writes it by hand.
var loopRows = rows("Range", "shoal",
	loop("items=1000000", "a loop over 1,000,000 items of 1 ns", 1_000_000, func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 >> 7 }),
	loop("items=10000", "a loop over 10,000 items of 100 ns, of which ten in a row of each thousand take 100 µs", 10_000, func(i int) uint64 {
		d := 100 * time.Nanosecond
		if i%1000 < 10 {
			d = 100 * time.Microsecond
		}
		spin(d)
		return uint64(i)
	}),
)

func loop(name, what string, n int, item func(i int) uint64) Workload {
	part := func(sum *atomic.Uint64) func(lo, hi int) {
		return func(lo, hi int) {
			s := uint64(0)
			for i := lo; i < hi; i++ {
				s += item(i)
			}
			sum.Add(s)
		}
	}
	return Workload{
		Name: name, What: what, Benchtime: "300ms", Takes: time.Second,
		run: func(b *testing.B, s Subject) {
			measure(b, s, perCPU(), func(p Pool) {
				for range b.N {
					var sum atomic.Uint64
					f := part(&sum)
					if s.Range != nil {
						s.Range(p, n, f)
						continue
					}
					var wg sync.WaitGroup
					for lo, step := 0, n/(4*runtime.GOMAXPROCS(0)); lo < n; lo += step {
						wg.Add(1)
						p.Submit(func() { f(lo, min(lo+step, n)); wg.Done() })
					}
					wg.Wait()
				}
			})
		},
		baseline: func(b *testing.B) { // one goroutine for each CPU takes item after item of its own
			for range b.N {
				var sum atomic.Uint64
				f := part(&sum)
				var wg sync.WaitGroup
				for cpu, cpus := 0, runtime.GOMAXPROCS(0); cpu < cpus; cpu++ {
					wg.Go(func() { f(n*cpu/cpus, n*(cpu+1)/cpus) })
				}
				wg.Wait()
			}
		},
	}
}
