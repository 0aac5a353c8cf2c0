package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	pondv2 "github.com/alitto/pond/v2"
	"github.com/destel/rill"
	"github.com/shoal-go/shoal"
	conciter "github.com/sourcegraph/conc/iter"
	concpool "github.com/sourcegraph/conc/pool"
	concstream "github.com/sourcegraph/conc/stream"
	"golang.org/x/sync/errgroup"
)

// These benchmarks are about what is built on a pool: groups, maps and keys. An
// operation is a whole fan-out and join, a whole map, or one task of a key. The
// limit is GOMAXPROCS everywhere; pools are made beforehand where the library
// has any. scripts/structure measures them in fresh processes.

func tenMicroseconds() { spin(10 * time.Microsecond) }

var works = []struct {
	name string
	do   func()
}{{"empty", empty}, {"10us", tenMicroseconds}}

func newPool(b *testing.B, opts ...shoal.Option) *shoal.Pool {
	p := shoal.Must(shoal.New(opts...))
	b.Cleanup(func() { must(p.Close()) })
	return p
}

// repeat measures what once returns.
func repeat(b *testing.B, name string, once func(b *testing.B) func()) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		f := once(b)
		for b.Loop() {
			f()
		}
	})
}

func BenchmarkGroup(b *testing.B) {
	ctx, limit := context.Background(), runtime.GOMAXPROCS(0)
	for _, work := range works {
		task := func(context.Context) error { work.do(); return nil }
		plain := func() error { work.do(); return nil }
		for _, n := range []int{1, 10, 1000, 100_000} {
			run := func(lib string, once func(b *testing.B) func()) {
				repeat(b, fmt.Sprintf("work=%s/tasks=%d/lib=%s", work.name, n, lib), once)
			}
			run("shoal", func(b *testing.B) func() {
				p := newPool(b)
				return func() {
					g := p.Group(ctx)
					for range n {
						g.Go(task)
					}
					must(g.Wait())
				}
			})
			run("errgroup", func(b *testing.B) func() {
				return func() {
					g, _ := errgroup.WithContext(ctx)
					g.SetLimit(limit)
					for range n {
						g.Go(plain)
					}
					must(g.Wait())
				}
			})
			run("conc", func(b *testing.B) func() {
				return func() {
					g := concpool.New().WithErrors().WithContext(ctx).WithMaxGoroutines(limit)
					for range n {
						g.Go(task)
					}
					must(g.Wait())
				}
			})
			run("pond-v2", func(b *testing.B) func() {
				p := pondv2.NewPool(limit)
				b.Cleanup(p.StopAndWait)
				return func() {
					g := p.NewGroupContext(ctx)
					for range n {
						g.SubmitErr(plain)
					}
					must(g.Wait())
				}
			})
			run("goroutines", func(b *testing.B) func() { // no limit, no errors, no context
				return func() {
					var wg sync.WaitGroup
					for range n {
						wg.Go(work.do)
					}
					wg.Wait()
				}
			})
		}
	}
}

func BenchmarkMap(b *testing.B) {
	ctx, limit := context.Background(), runtime.GOMAXPROCS(0)
	const n = 10_000
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	for _, work := range works {
		one := func(i int) int { work.do(); return i }
		check := func(i, v int) {
			if i != v {
				panic(fmt.Sprintf("result %d is %d", i, v))
			}
		}
		run := func(lib string, once func(b *testing.B) func()) {
			repeat(b, fmt.Sprintf("work=%s/items=%d/lib=%s", work.name, n, lib), once)
		}
		run("shoal", func(b *testing.B) func() {
			p := newPool(b)
			return func() {
				i := 0
				for v, err := range shoal.Map(ctx, p, slices.Values(items), func(_ context.Context, i int) (int, error) { return one(i), nil }) {
					must(err)
					check(i, v)
					i++
				}
			}
		})
		run("conc-iter", func(b *testing.B) func() { // a slice in, a slice out
			m := conciter.Mapper[int, int]{MaxGoroutines: limit}
			return func() {
				for i, v := range m.Map(items, func(i *int) int { return one(*i) }) {
					check(i, v)
				}
			}
		})
		run("conc-stream", func(b *testing.B) func() {
			return func() {
				s := concstream.New().WithMaxGoroutines(limit)
				next := 0
				for _, i := range items {
					s.Go(func() concstream.Callback {
						v := one(i)
						return func() { check(next, v); next++ }
					})
				}
				s.Wait()
			}
		})
		run("rill", func(b *testing.B) func() {
			return func() {
				in := rill.FromSlice(items, nil)
				out := rill.OrderedMap(in, limit, func(i int) (int, error) { return one(i), nil })
				i := 0
				for v, err := range rill.ToSeq2(out) {
					must(err)
					check(i, v)
					i++
				}
			}
		})
	}
}

func BenchmarkKeyed(b *testing.B) {
	for _, work := range works {
		for _, keys := range []int{1, 10, 10_000} {
			run := func(lib string, submit func(b *testing.B) func(key int)) {
				b.Run(fmt.Sprintf("work=%s/keys=%d/lib=%s", work.name, keys, lib), func(b *testing.B) {
					b.ReportAllocs()
					f := submit(b)
					i := 0
					for b.Loop() {
						f(i % keys)
						i++
					}
				})
			}
			run("shoal", func(b *testing.B) func(int) {
				p := newPool(b, shoal.WithQueueCapacity(1000))
				b.Cleanup(p.Wait)
				k := shoal.NewKeyed[int](p)
				return func(key int) { must(k.Submit(key, work.do)) }
			})
			// A mutex per key, which keeps the tasks of a key apart, but not in
			// order, and holds up workers.
			run("mutex", func(b *testing.B) func(int) {
				p := newPool(b, shoal.WithQueueCapacity(1000))
				b.Cleanup(p.Wait)
				locks := make([]sync.Mutex, keys)
				return func(key int) {
					must(p.Submit(func() {
						locks[key].Lock()
						defer locks[key].Unlock()
						work.do()
					}))
				}
			})
		}
	}
}

func BenchmarkFuture(b *testing.B) {
	ctx := context.Background()
	p := newPool(b)
	b.ReportAllocs()
	for b.Loop() {
		_, err := shoal.Go(ctx, p, func(context.Context) (int, error) { return 1, nil }).Wait(ctx)
		must(err)
	}
}
