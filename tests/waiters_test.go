package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// TestNobodyWaitsInVain runs random rounds of calls that wait: for capacity, for places, for
// results, for the pool. Beside them others free capacity and take it away, on a pool and a
// sub-pool of few workers. In each round all calls must return without a further call.
func TestNobodyWaitsInVain(t *testing.T) {
	for seed := range testpool.Reps(750, 100, 100) {
		if !roundsOfWaiters(t, uint64(seed)) {
			return
		}
	}
}

func roundsOfWaiters(t *testing.T, seed uint64) bool {
	r := rand.New(rand.NewPCG(seed, 1))
	policy := []shoal.FullPolicy{shoal.Block, shoal.Block, shoal.Block, shoal.DropOldest, shoal.Reject, shoal.Spawn}[r.IntN(6)]
	opts := []shoal.Option{shoal.WithMaxWorkers(1 + r.IntN(3)), shoal.WithQueueCapacity(r.IntN(3)), shoal.WithFullPolicy(policy),
		shoal.WithPanicHandler(func(*shoal.PanicError) {})}
	if r.IntN(3) == 0 {
		opts = append(opts, shoal.WithMaxTasksPerWorker(1+r.IntN(3)))
	}
	if r.IntN(2) == 0 {
		opts = append(opts, shoal.WithSizing(shoal.Eager()))
	}
	p := shoal.Must(shoal.New(opts...))
	defer p.Close()
	pools := [2]*shoal.Pool{p, p}
	if r.IntN(2) == 0 {
		pools[1] = shoal.Must(p.Sub(shoal.WithMaxWorkers(1+r.IntN(2)), shoal.WithQueueCapacity(r.IntN(2)),
			shoal.WithFullPolicy(policy), shoal.WithPriority(r.IntN(3)-1)))
	}
	keys := [2]*shoal.Keyed[int]{shoal.NewKeyed[int](pools[0]), shoal.NewKeyed[int](pools[1])}
	for round := range 20 {
		var calls sync.WaitGroup
		said := ""
		for range 2 + r.IntN(7) {
			q, kind, a, b := r.IntN(2), r.IntN(14), r.IntN(4), r.IntN(6)
			said += fmt.Sprintf(" %d:%d(%d,%d)", q, kind, a, b)
			calls.Go(func() {
				pause(b)
				oneThatWaits(pools, keys, q, kind, a, b)
			})
		}
		back := make(chan struct{})
		go func() {
			defer close(back)
			calls.Wait()
			for _, p := range pools { // a delayed task is none yet
				for p.Stats().InFlight > 0 {
					p.Wait()
				}
			}
		}()
		select {
		case <-back:
		case <-time.After(30 * time.Second):
			stacks := make([]byte, 1<<18)
			t.Errorf("seed %d, round %d:%s\n%+v\n%s", seed, round, said, p.Stats(), stacks[:runtime.Stack(stacks, true)])
			return false
		}
	}
	return true
}

func pause(n int) {
	for range n {
		runtime.Gosched()
	}
}

// oneThatWaits makes a call of a kind, on pool q.
func oneThatWaits(pools [2]*shoal.Pool, keys [2]*shoal.Keyed[int], q, kind, a, b int) {
	p, task := pools[q], func() { pause(a) }
	short := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), time.Duration(b)*20*time.Microsecond)
	}
	switch kind {
	default:
		p.Submit(task)
	case 3:
		p.Submit(runtime.Goexit)
	case 4:
		p.Submit(func() { panic("a task") })
	case 5:
		p.TrySubmit(task)
	case 6:
		ctx, cancel := short()
		defer cancel()
		p.SubmitContext(ctx, func(context.Context) { task() })
	case 7:
		p.SubmitAfter(time.Duration(b)*10*time.Microsecond, task)
	case 8:
		for range 1 + a {
			keys[q].Submit(a&1, func() {
				task()
				if b == 5 {
					runtime.Goexit()
				}
			})
		}
	case 9:
		p.Resize(0, 1+a%3)
	case 10:
		p.Pause()
		pause(b)
		p.Resume()
	case 11:
		r, err := p.Reserve(context.Background(), 1+a)
		if err != nil {
			return
		}
		pause(b)
		if a&1 == 0 {
			r.Submit(context.Background(), func(context.Context) error { task(); return nil }, nil)
		}
		pause(b)
		r.Release()
	case 12:
		ctx, cancel := short()
		defer cancel()
		if r, err := p.Reserve(ctx, 1); err == nil {
			r.Release()
		}
	case 13:
		p.SubmitContext(context.Background(), func(ctx context.Context) {
			f := shoal.Go(ctx, pools[b&1], func(context.Context) (int, error) { task(); return 1, nil })
			if b&1 == q || q == 1 && a == 0 { // not one of the sub-pool for one of the parent: these may wait for each other
				f.Wait(ctx)
			} else if a == 1 {
				f.Cancel()
			}
		})
	}
}
