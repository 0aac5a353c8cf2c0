package bench

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/shoal-go/shoal"
	conciter "github.com/sourcegraph/conc/iter"
	concpool "github.com/sourcegraph/conc/pool"
	"golang.org/x/sync/errgroup"
)

// What docs/migrate.md says of errgroup and conc holds for these versions of them.

// While n tasks run, the next Go of errgroup waits, and so does that of a group with
// shoal.Limit(n). A pool of n workers alone takes it.
func TestMigrateSetLimitIsLimit(t *testing.T) {
	const n = 2
	pool := newTestPool(t, shoal.WithMaxWorkers(n))
	wide := newTestPool(t, shoal.WithMaxWorkers(4*n))
	for name, c := range map[string]struct {
		start func() (submit func(func()), wait func() error)
		waits bool
	}{
		"errgroup": {func() (func(func()), func() error) {
			g := new(errgroup.Group)
			g.SetLimit(n)
			return func(f func()) { g.Go(func() error { f(); return nil }) }, g.Wait
		}, true},
		"shoal.Limit": {func() (func(func()), func() error) {
			g := wide.Group(t.Context(), shoal.Limit(n))
			return func(f func()) { g.Go(func(context.Context) error { f(); return nil }) }, g.Wait
		}, true},
		"a pool with the default queue": {func() (func(func()), func() error) {
			g := pool.Group(t.Context())
			return func(f func()) { g.Go(func(context.Context) error { f(); return nil }) }, g.Wait
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			submit, wait := c.start()
			var ended atomic.Int32
			release := make(chan struct{})
			task := func() { <-release; ended.Add(1) }
			for range n {
				submit(task)
			}
			if !c.waits {
				submit(task) // returns, though all tasks wait for what follows
				close(release)
			} else {
				go close(release)
				submit(task)
				if ended.Load() == 0 {
					t.Error("it took one more while no task had ended")
				}
			}
			if err := wait(); err != nil || ended.Load() != n+1 {
				t.Error(err, ended.Load())
			}
		})
	}
}

// conc's loops are given pointers to the items; shoal.Range has the slice at hand.
func TestMigrateIterPassesPointers(t *testing.T) {
	in := []int{1, 2, 3}
	conciter.ForEach(in, func(v *int) { *v *= 10 })
	if want := []int{10, 20, 30}; !slices.Equal(in, want) {
		t.Errorf("conc: %v, want %v", in, want)
	}
}

// conc's Wait panics again with a value that has the first one; shoal's returns it.
func TestMigratePanics(t *testing.T) {
	boom := errors.New("boom")
	again := func(wait func()) (v any) {
		defer func() { v = recover() }()
		wait()
		return nil
	}
	if v := again(func() {
		p := concpool.New()
		p.Go(func() { panic(boom) })
		p.Wait()
	}); v == nil {
		t.Error("conc does not panic again")
	}
	pool := newTestPool(t)
	g := pool.Group(t.Context())
	g.Go(func(context.Context) error { panic(boom) })
	v := again(func() {
		err := g.Wait()
		if p := (*shoal.PanicError)(nil); errors.As(err, &p) { // as on the page
			panic(p)
		}
	})
	if p, ok := v.(*shoal.PanicError); !ok || p.Value != boom {
		t.Errorf("shoal: %v", v)
	}
}

func newTestPool(t *testing.T, opts ...shoal.Option) *shoal.Pool {
	p := shoal.Must(shoal.New(opts...))
	t.Cleanup(func() { p.Close() })
	return p
}
