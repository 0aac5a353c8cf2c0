package tests

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

func TestFuncRunsOncePerValue(t *testing.T) {
	for _, capacity := range []int{0, 5, shoal.Unbounded} {
		for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn, shoal.CallerRuns} {
			p := newPool(t, shoal.WithMaxWorkers(3), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy))
			n := rounds(10_000)
			y := newTally(3 * n)
			f := shoal.NewFunc(p, y.hit)
			var wg sync.WaitGroup
			for g := range 3 {
				wg.Go(func() {
					for i := range n {
						must(t, f.Submit(3*i+g))
					}
				})
			}
			wg.Wait()
			p.Wait()
			y.check(t)
			shutClean(t, p)
		}
	}
}

func TestFuncRunsValuesInOrder(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(1))
	var got []int
	f := shoal.NewFunc(p, func(i int) { got = append(got, i) })
	for i := range 1000 {
		must(t, f.Submit(i))
	}
	shutClean(t, p)
	if len(got) != 1000 {
		t.Errorf("%d of 1000 values", len(got))
	}
	for i, v := range got {
		if i != v {
			t.Fatalf("value %d comes as number %d", v, i)
		}
	}
}

func TestFuncOfABadCallSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))...)
		ran := 0
		f := shoal.NewFunc(p, func(i int) { ran += i })
		wantErr(t, "nil function", shoal.NewFunc[int](p, nil).Submit(1), shoal.ErrNilTask)
		wantErr(t, "nil pool", shoal.NewFunc(nil, func(int) {}).Submit(1), shoal.ErrClosed)
		release := hold(t, p, 1)
		wantErr(t, "no room", f.Submit(1), shoal.ErrQueueFull)
		release()
		synctest.Wait()
		must(t, f.Submit(10))
		shutClean(t, p)
		wantErr(t, "after the end", f.Submit(100), shoal.ErrClosed)
		if ran != 10 {
			t.Errorf("ran with %d", ran)
		}
	})
}

func TestFuncKeepsNoValue(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1))
	f := shoal.NewFunc(p, func(*[1 << 20]byte) {})
	before := heapInUse()
	for range 10 {
		must(t, f.Submit(new([1 << 20]byte)))
	}
	p.Wait()
	if grown := heapInUse() - before; grown > 1<<19 {
		t.Errorf("%d bytes are kept", grown)
	}
}

func TestFuncAllocatesNothing(t *testing.T) {
	if testpool.Race {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	p := openPool(t, shoal.WithMaxWorkers(2))
	done := make(chan [4]int, 1)
	f := shoal.NewFunc(p, func(v [4]int) { done <- v })
	if n := testing.AllocsPerRun(20_000, func() { f.Submit([4]int{1, 2, 3, 4}); <-done }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
