package shoalsql

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var errOdd = errors.New("odd")

func TestGathererDoesEachOnce(t *testing.T) {
	var running, runs, most atomic.Int64
	var mu sync.Mutex
	seen := make(map[int]int)
	g := &gatherer[int]{size: func(int) int { return 3 }, run: func(all []*asked[int]) {
		if running.Add(1) > 1 {
			t.Error("two runs at once")
		}
		defer running.Add(-1)
		runs.Add(1)
		most.Store(max(most.Load(), int64(len(all))))
		mu.Lock()
		defer mu.Unlock()
		for _, a := range all {
			if seen[a.what]++; a.what%2 == 1 {
				a.err = errOdd
			}
		}
	}}
	var wg sync.WaitGroup
	const n = 5000
	for i := range n {
		wg.Go(func() {
			if err := g.do(context.Background(), i); (i%2 == 1) != (err == errOdd) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i := range n {
		if seen[i] != 1 {
			t.Errorf("%d was done %d times", i, seen[i])
		}
	}
	if most.Load() > mostGathered/3 {
		t.Errorf("%d at once, want up to %d", most.Load(), mostGathered/3)
	}
	t.Logf("%d runs, up to %d at once", runs.Load(), most.Load())
}

func TestGathererGathersWhatComesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan bool)
		var sizes []int
		g := &gatherer[int]{size: func(n int) int { return n }, run: func(all []*asked[int]) {
			sizes = append(sizes, len(all))
			<-gate
		}}
		var wg sync.WaitGroup
		ask := func(ctx context.Context, n int, want error) {
			wg.Go(func() {
				if err := g.do(ctx, n); err != want {
					t.Errorf("%v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(context.Background())
		ask(context.Background(), 1, nil) // runs
		ask(context.Background(), 1, nil)
		ask(ctx, 1, context.Canceled) // ends before its turn: it is not done
		ask(context.Background(), 1, nil)
		ask(context.Background(), 1000, nil) // alone
		ask(context.Background(), 1, nil)
		cancel()
		synctest.Wait()
		close(gate)
		wg.Wait()
		synctest.Wait()
		if len(sizes) != 4 || sizes[0] != 1 || sizes[1] != 2 || sizes[2] != 1 || sizes[3] != 1 {
			t.Errorf("%v at once, want 1, 2, 1, 1", sizes)
		}
		// One that runs is left alone when the context ends.
		gate = make(chan bool)
		ctx, cancel = context.WithCancel(context.Background())
		ask(ctx, 1, context.Canceled)
		cancel()
		synctest.Wait()
		wg.Wait()
		close(gate)
		ask(context.Background(), 1, nil)
		wg.Wait()
	})
}
