package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// One random program of operations, run by pools of every configuration, must
// have the same results and the same counts (the idea is that of Pebble's
// metamorphic tests). Nothing in a program depends on when something happens.

// A metaOp is one operation of a program.
type metaOp struct {
	kind string
	arg  int
}

var metaKinds = []string{
	"submit", "submit", "submit", "submit", "context", "batch", "wait for result", "an error as result",
	"panic", "nested", "nested deep", "try", "later", "canceled before", "reserve",
	"Wait", "pause and resume", "resize", "Stats", "yield",
}

func metaProgram(r *rand.Rand) (ops []metaOp) {
	for range 20 + r.IntN(200) {
		ops = append(ops, metaOp{metaKinds[r.IntN(len(metaKinds))], r.IntN(8)})
	}
	return ops
}

// metaScript is the program that a script stands for.
func metaScript(script []byte) (ops []metaOp) {
	for _, b := range script[:min(len(script), 300)] {
		ops = append(ops, metaOp{metaKinds[int(b)%len(metaKinds)], int(b) / len(metaKinds) % 8})
	}
	return ops
}

// metaResult is what a program has as its result.
type metaResult struct {
	values map[int]int // by the number of the operation: how often it ran
	counts struct{ submitted, completed, failed, dropped, canceled uint64 }
	errs   []string // of the calls, in order
}

func (m *metaResult) equal(o *metaResult) bool {
	return maps.Equal(m.values, o.values) && m.counts == o.counts && slices.Equal(m.errs, o.errs)
}

// runMeta runs a program. Each task notes that it ran.
func runMeta(t *testing.T, ops []metaOp, opts []shoal.Option) *metaResult {
	res := &metaResult{values: map[int]int{}}
	var mu sync.Mutex
	p := newPool(t, append(opts, shoal.WithPanicHandler(func(*shoal.PanicError) {}))...)
	note := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		res.values[i]++
	}
	ctx := context.Background()
	for n, op := range ops {
		i := 1000 * n
		var err error
		switch op.kind {
		case "submit":
			err = p.Submit(func() { note(i) })
		case "context":
			err = p.SubmitContext(ctx, func(context.Context) { note(i) })
		case "batch":
			var tasks []func()
			for k := range op.arg {
				tasks = append(tasks, func() { note(i + k) })
			}
			var accepted int
			if accepted, err = p.SubmitBatch(tasks); accepted != len(tasks) {
				t.Errorf("%d of a batch of %d", accepted, len(tasks))
			}
		case "wait for result":
			err = p.SubmitWait(ctx, func(context.Context) error { note(i); return nil })
		case "an error as result":
			err = p.SubmitWait(ctx, func(context.Context) error { note(i); return fmt.Errorf("error %d", i) })
		case "panic":
			err = p.Submit(func() { note(i); panic(i) })
		case "nested":
			err = p.Submit(func() {
				note(i)
				for k := range op.arg {
					if p.Submit(func() { note(i + k + 1) }) != nil {
						t.Error("a nested Submit failed")
					}
				}
			})
		case "nested deep":
			var down func(k int) func()
			down = func(k int) func() {
				return func() {
					note(i + k)
					if k < 4*op.arg {
						if p.Submit(down(k+1)) != nil {
							t.Error("a nested Submit failed")
						}
					}
				}
			}
			err = p.Submit(down(0))
		case "try":
			for {
				if err = p.TrySubmit(func() { note(i) }); !errors.Is(err, shoal.ErrQueueFull) {
					break
				}
				runtime.Gosched()
			}
		case "later":
			fired := make(chan struct{})
			_, err = p.SubmitAfter(0, func() { note(i); close(fired) })
			<-fired
		case "canceled before":
			err = p.SubmitContext(canceledContext(), func(context.Context) { note(i) })
		case "reserve":
			var r *shoal.Reservation
			if r, err = p.Reserve(ctx, 1+op.arg); err == nil {
				err = r.Submit(ctx, func(context.Context) error { note(i); return nil }, nil)
				r.Release()
			}
		case "Wait":
			p.Wait()
		case "pause and resume":
			p.Pause()
			p.Resume()
		case "resize":
			s := p.Stats()
			if err = p.Resize(min(s.MinWorkers, s.MaxWorkers), s.MaxWorkers); err == nil && op.arg > 3 {
				err = p.Resize(0, max(1, s.MaxWorkers))
			}
		case "Stats":
			checkIdentity(t, p.Stats())
		case "yield":
			runtime.Gosched()
		}
		if err != nil {
			res.errs = append(res.errs, fmt.Sprintf("%d: %v", n, err))
		}
	}
	p.Wait() // tasks submit tasks
	shutClean(t, p)
	s := p.Stats()
	res.counts.submitted, res.counts.completed, res.counts.failed = s.Submitted, s.Completed, s.Failed
	res.counts.dropped, res.counts.canceled = s.Dropped, s.Canceled
	return res
}

// metaConfigs are the configurations.
func metaConfigs() (all []struct {
	name string
	opts []shoal.Option
}) {
	for _, workers := range []int{1, 2, 16} {
		for i, capacity := range []int{0, 1, 64, shoal.Unbounded} {
			for j, policy := range []shoal.FullPolicy{shoal.Block, shoal.CallerRuns, shoal.Spawn} {
				sizer := []func() shoal.Sizer{shoal.Auto, shoal.Eager, shoal.Lazy, func() shoal.Sizer { return shoal.Rated(3) }}[(i+j)%4]
				idle := []time.Duration{0, time.Minute, shoal.Forever}[(i+j+workers)%3]
				life := []int{0, 1, 7}[(i+2*j)%3]
				least := []int{0, 1, workers}[(i*j)%3]
				timing := []shoal.Timing{shoal.TimingSampled, shoal.TimingOff, shoal.TimingFull}[(j+workers)%3]
				all = append(all, struct {
					name string
					opts []shoal.Option
				}{
					fmt.Sprintf("workers %d…%d, capacity %d, %v, idle %v, %d tasks a life", least, workers, capacity, policy, idle, life),
					[]shoal.Option{
						shoal.WithMaxWorkers(workers), shoal.WithMinWorkers(least), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy),
						shoal.WithSizing(sizer()), shoal.WithIdleTimeout(idle), shoal.WithMaxTasksPerWorker(life), shoal.WithTiming(timing),
					},
				})
			}
		}
	}
	return all
}

func TestOneProgramHasOneResultInEveryConfiguration(t *testing.T) {
	programs := testpool.Reps(20, 8, 8)
	configs := metaConfigs()
	if len(configs) < 24 {
		t.Fatalf("%d configurations", len(configs))
	}
	for seed := range programs {
		ops := metaProgram(rand.New(rand.NewPCG(uint64(seed), 1)))
		var first *metaResult
		for _, c := range configs {
			got := runMeta(t, ops, c.opts)
			if first == nil {
				first = got
			}
			if !got.equal(first) || t.Failed() {
				t.Fatalf("program %d: %s has %+v, %v;\n%s has %+v, %v\nof the program %v", seed,
					c.name, got.counts, got.errs, configs[0].name, first.counts, first.errs, ops)
			}
		}
		for i, n := range first.values {
			if n != 1 || ops[i/1000].kind == "canceled before" {
				t.Fatalf("program %d: task %d (%s) ran %d times", seed, i, ops[i/1000].kind, n)
			}
		}
	}
	t.Logf("%d programs in %d configurations", programs, len(configs))
}
