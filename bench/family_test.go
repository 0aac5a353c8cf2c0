package bench

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
)

// These benchmarks are about families of pools: what a sub-pool costs, alone and among thousands.

const manySubs = 10_000

func newSub(p *shoal.Pool, opts ...shoal.Option) *shoal.Pool { return shoal.Must(p.Sub(opts...)) }

func BenchmarkFamilySubmitWait(b *testing.B) {
	for _, row := range []struct {
		name string
		of   func(p *shoal.Pool) *shoal.Pool
	}{
		{"of=pool", func(p *shoal.Pool) *shoal.Pool { return p }},
		{"of=sub-pool", func(p *shoal.Pool) *shoal.Pool { return newSub(p) }},
		{"of=sub-pool/beside=10000-idle", func(p *shoal.Pool) *shoal.Pool {
			for range manySubs {
				s := newSub(p)
				must(s.Submit(empty)) // it was used, and is idle again
			}
			return newSub(p)
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			p := row.of(newPool(b))
			ctx := context.Background()
			task := func(context.Context) error { return nil }
			for b.Loop() {
				must(p.SubmitWait(ctx, task))
			}
		})
	}
}

// A round makes 10,000 sub-pools, and closes them.
func BenchmarkFamilyMakeAndClose(b *testing.B) {
	var making, closing time.Duration
	for b.Loop() {
		p := shoal.Must(shoal.New())
		subs := make([]*shoal.Pool, manySubs)
		t := time.Now()
		for i := range subs {
			subs[i] = newSub(p)
		}
		making += time.Since(t)
		t = time.Now()
		for _, s := range subs {
			must(s.Close())
		}
		closing += time.Since(t)
		must(p.Close())
	}
	b.ReportMetric(making.Seconds()*1e3/float64(b.N), "ms/make")
	b.ReportMetric(closing.Seconds()*1e3/float64(b.N), "ms/close")
}

// A round is a million empty tasks that wait in one pool, or in a thousand sub-pools, and are run.
func BenchmarkFamilyBacklog(b *testing.B) {
	const tasks = 1_000_000
	for _, row := range []struct {
		name  string
		pools func(p *shoal.Pool) []*shoal.Pool
	}{
		{"in=pool", func(p *shoal.Pool) []*shoal.Pool { return []*shoal.Pool{p} }},
		{"in=1000-sub-pools", func(p *shoal.Pool) (subs []*shoal.Pool) {
			for range 1000 {
				subs = append(subs, newSub(p))
			}
			return subs
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				p := shoal.Must(shoal.New())
				p.Pause()
				pools := row.pools(p)
				var left sync.WaitGroup
				left.Add(tasks)
				for i := range tasks {
					must(pools[i*len(pools)/tasks].Submit(left.Done))
				}
				t := time.Now()
				p.Resume()
				left.Wait()
				took += time.Since(t)
				must(p.Close())
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/tasks, "ns/task")
		})
	}
}

// A round is a second in which the parent and two sub-pools, of the weights 1, 1 and 3, always
// have tasks of 20 µs that wait. How far is a share from what it should be, at most, in percent of
// the whole?
func BenchmarkFamilyShares(b *testing.B) {
	off := 0.0
	for b.Loop() {
		p := shoal.Must(shoal.New())
		pools := []*shoal.Pool{p, newSub(p), newSub(p, shoal.WithWeight(3))}
		weights := []float64{1, 1, 3}
		ran := make([]atomic.Int64, len(pools))
		var over atomic.Bool
		for i, q := range pools {
			var task func()
			task = func() {
				spin(20 * time.Microsecond)
				ran[i].Add(1)
				if !over.Load() {
					q.TrySubmit(task) // refused, if at all, because p is closed
				}
			}
			for range 64 {
				must(q.Submit(task))
			}
		}
		time.Sleep(time.Second)
		var got [3]float64
		sum := 0.0
		for i := range ran {
			got[i] = float64(ran[i].Load())
			sum += got[i]
		}
		over.Store(true)
		must(p.Close())
		for i, w := range weights {
			off = max(off, math.Abs(got[i]/sum-w/5)*100)
		}
	}
	b.ReportMetric(off, "%-off")
}
