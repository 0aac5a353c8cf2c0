package bench

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/samber/lo"
	loparallel "github.com/samber/lo/parallel"
	"github.com/shoal-go/shoal"
	conciter "github.com/sourcegraph/conc/iter"
	"golang.org/x/sync/errgroup"
)

// These benchmarks are about loops: an operation is all items of one, or a whole tree. They
// follow the rules of those of groups and maps.

// mix is one step of work that depends on the one before: about a nanosecond.
func mix(x uint64, i int) uint64 { return (x ^ uint64(i)) * 0x9E3779B97F4A7C15 }

// A loopWork is the items of a loop. The sum of what do returns for all of them is known.
type loopWork struct {
	name string
	n    int
	do   func(i int) uint64
}

func steps(n, i int) (x uint64) {
	for range n {
		x = mix(x, i)
	}
	return x
}

var loopWorks = []loopWork{
	{"1ns", 1_000_000, func(i int) uint64 { return mix(1, i) }},
	{"100ns", 100_000, func(i int) uint64 { return steps(80, i) }},
	{"unequal", 10_000, func(i int) uint64 { // every hundredth takes a thousand times as long, and they come together
		if i%1000 < 10 {
			return steps(80_000, i)
		}
		return steps(80, i)
	}},
}

// sumOf is the sum of the items [lo, hi). It is not inlined, so that all pay for the same loop.
//
//go:noinline
func sumOf(do func(i int) uint64, lo, hi int) (sum uint64) {
	for i := lo; i < hi; i++ {
		sum += do(i)
	}
	return sum
}

func BenchmarkLoop(b *testing.B) {
	ctx, procs := context.Background(), runtime.GOMAXPROCS(0)
	for _, w := range loopWorks {
		want := sumOf(w.do, 0, w.n)
		items := lo.Range(w.n)
		run := func(lib string, once func(b *testing.B) func() uint64) {
			repeat(b, fmt.Sprintf("work=%s/items=%d/lib=%s", w.name, w.n, lib), func(b *testing.B) func() {
				f := once(b)
				return func() {
					if got := f(); got != want {
						panic(fmt.Sprintf("%s, %s: the sum is %d, want %d", lib, w.name, got, want))
					}
				}
			})
		}
		run("shoal", func(b *testing.B) func() uint64 {
			p := newPool(b)
			return func() uint64 {
				var sum atomic.Uint64
				must(shoal.Range(ctx, p, w.n, func(_ context.Context, lo, hi int) error {
					sum.Add(sumOf(w.do, lo, hi))
					return nil
				}))
				return sum.Load()
			}
		})
		run("shoal-slice", func(b *testing.B) func() uint64 {
			p := newPool(b)
			out := make([]uint64, w.n)
			return func() uint64 {
				must(shoal.ForEachSlice(ctx, p, items, func(_ context.Context, i int) error { out[i] = w.do(i); return nil }))
				return lo.Sum(out)
			}
		})
		run("conc-iter", func(b *testing.B) func() uint64 {
			out := make([]uint64, w.n)
			it := conciter.Iterator[int]{MaxGoroutines: procs}
			return func() uint64 {
				it.ForEach(items, func(i *int) { out[*i] = w.do(*i) })
				return lo.Sum(out)
			}
		})
		run("lo-parallel", func(b *testing.B) func() uint64 { // a goroutine per item
			out := make([]uint64, w.n)
			return func() uint64 {
				loparallel.ForEach(items, func(i, _ int) { out[i] = w.do(i) })
				return lo.Sum(out)
			}
		})
		run("errgroup-chunks", func(b *testing.B) func() uint64 { // by hand: four equal chunks per CPU
			return func() uint64 {
				var g errgroup.Group
				g.SetLimit(procs)
				var sum atomic.Uint64
				size := (w.n + 4*procs - 1) / (4 * procs)
				for from := 0; from < w.n; from += size {
					g.Go(func() error { sum.Add(sumOf(w.do, from, min(from+size, w.n))); return nil })
				}
				must(g.Wait())
				return sum.Load()
			}
		})
		run("goroutines", func(b *testing.B) func() uint64 { // the baseline: a plain loop on one goroutine
			return func() uint64 { return sumOf(w.do, 0, w.n) }
		})
	}
	b.Run("start-and-join", func(b *testing.B) {
		p := newPool(b)
		f := func(context.Context, int, int) error { return nil }
		b.ReportAllocs()
		for b.Loop() {
			must(shoal.Range(ctx, p, 4, f))
		}
	})
}

func BenchmarkMapSlice(b *testing.B) {
	ctx, procs := context.Background(), runtime.GOMAXPROCS(0)
	in := lo.Range(10_000)
	for _, work := range works {
		run := func(lib string, mapper func(b *testing.B) func(f func(i int) (int, error)) ([]int, error)) {
			repeat(b, fmt.Sprintf("work=%s/items=%d/lib=%s", work.name, len(in), lib), func(b *testing.B) func() {
				m := mapper(b)
				return func() {
					out, err := m(func(i int) (int, error) { work.do(); return i, nil })
					must(err)
					for i, v := range out {
						if i != v {
							panic(fmt.Sprintf("result %d is %d", i, v))
						}
					}
				}
			})
		}
		run("shoal", func(b *testing.B) func(f func(i int) (int, error)) ([]int, error) {
			p := newPool(b)
			return func(f func(i int) (int, error)) ([]int, error) {
				return shoal.MapSlice(ctx, p, in, func(_ context.Context, i int) (int, error) { return f(i) })
			}
		})
		run("conc-iter", func(b *testing.B) func(f func(i int) (int, error)) ([]int, error) {
			m := conciter.Mapper[int, int]{MaxGoroutines: procs}
			return func(f func(i int) (int, error)) ([]int, error) {
				return m.MapErr(in, func(i *int) (int, error) { return f(*i) })
			}
		})
	}
}

// BenchmarkForkJoin is a tree of 65,536 leaves whose nodes wait for what is below them.
func BenchmarkForkJoin(b *testing.B) {
	ctx := context.Background()
	const leaves = 1 << 16
	run := func(lib string, once func(b *testing.B, leaf func(n int)) func()) {
		repeat(b, fmt.Sprintf("leaves=%d/lib=%s", leaves, lib), func(b *testing.B) func() {
			var sum atomic.Int64
			f := once(b, func(n int) { sum.Add(int64(n)) })
			return func() {
				sum.Store(0)
				if f(); sum.Load() != leaves {
					panic(fmt.Sprintf("%s: %d leaves", lib, sum.Load()))
				}
			}
		})
	}
	for _, ways := range []int{16, 2} {
		name := "shoal"
		if ways == 2 {
			name = "shoal-binary" // a loop of two for every node
		}
		run(name, func(b *testing.B, leaf func(n int)) func() {
			p := newPool(b)
			// tree[d] has d levels of nodes below it.
			tree := []func(context.Context, int, int) error{func(_ context.Context, lo, hi int) error { leaf(hi - lo); return nil }}
			for n := ways; n <= leaves; n *= ways {
				below := tree[len(tree)-1]
				tree = append(tree, func(ctx context.Context, lo, hi int) error {
					for range hi - lo {
						if err := shoal.Range(ctx, p, ways, below); err != nil {
							return err
						}
					}
					return nil
				})
			}
			return func() { must(tree[len(tree)-1](ctx, 0, 1)) }
		})
	}
	run("shoal-submit", func(b *testing.B, leaf func(n int)) func() { // as in FanOut: nodes do not wait
		p := newPool(b)
		var wg sync.WaitGroup
		tasks := [fanOutDepth + 1]func(){func() { leaf(1); wg.Done() }}
		for d := 1; d <= fanOutDepth; d++ {
			tasks[d] = func() {
				must(p.Submit(tasks[d-1]))
				must(p.Submit(tasks[d-1]))
			}
		}
		return func() {
			wg.Add(leaves)
			must(p.Submit(tasks[fanOutDepth]))
			wg.Wait()
		}
	})
	run("shoal-group", func(b *testing.B, leaf func(n int)) func() { // a group of two tasks for every node
		p := newPool(b)
		trees := []func(context.Context) error{func(context.Context) error { leaf(1); return nil }}
		for range fanOutDepth {
			below := trees[len(trees)-1]
			trees = append(trees, func(ctx context.Context) error {
				g := p.Group(ctx)
				g.Go(below)
				g.Go(below)
				return g.Wait()
			})
		}
		return func() { must(trees[fanOutDepth](ctx)) }
	})
	run("goroutines", func(b *testing.B, leaf func(n int)) func() { // two for every node, no limit
		var tree func(depth int)
		tree = func(depth int) {
			if depth == 0 {
				leaf(1)
				return
			}
			var wg sync.WaitGroup
			wg.Go(func() { tree(depth - 1) })
			tree(depth - 1)
			wg.Wait()
		}
		return func() { tree(fanOutDepth) }
	})
}

// TestLoopRows runs every row once: each checks its own result.
func TestLoopRows(t *testing.T) {
	was := flag.Lookup("test.benchtime").Value.String()
	defer flag.Set("test.benchtime", was)
	must(flag.Set("test.benchtime", "1x"))
	for name, f := range map[string]func(*testing.B){"Loop": BenchmarkLoop, "MapSlice": BenchmarkMapSlice, "ForkJoin": BenchmarkForkJoin} {
		if r := testing.Benchmark(f); r.N == 0 {
			t.Errorf("%s failed", name)
		}
	}
}
