package shoalshims_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
)

const patience = 20 * time.Second

func newPool(t testing.TB, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	opts = append([]shoal.Option{shoal.WithName("work"), shoal.WithPanicHandler(func(*shoal.PanicError) {})}, opts...)
	p, err := shoal.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// closedPool is a pool that takes no tasks.
func closedPool(t testing.TB) *shoal.Pool {
	p := newPool(t, shoal.WithMaxWorkers(1))
	p.Close()
	return p
}

// occupy fills p's only worker, until the function that it returns is called.
func occupy(t testing.TB, p *shoal.Pool) (release func()) {
	t.Helper()
	end, begun := make(chan struct{}), make(chan struct{})
	if err := p.Submit(func() { close(begun); <-end }); err != nil {
		t.Fatal(err)
	}
	<-begun
	return func() { close(end) }
}

// waitFor waits until ok says so.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A gauge counts who is inside, and how many there were at most.
type gauge struct{ now, most, all atomic.Int64 }

func (g *gauge) visit(f func()) {
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	f()
	g.now.Add(-1)
	g.all.Add(1)
}

func nap() { time.Sleep(2 * time.Millisecond) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// A runner runs f as a job of an engine, through its shim, and returns the error that
// the engine sees.
type runner func(ctx context.Context, p *shoal.Pool, f func(context.Context) error) error

var errFailed = errors.New("no such mailbox: 4711")

// contract is what each shim promises. Where is is set, errors pass through as they are;
// else the engine's test environment has turned them into errors of its own, of
// the same text. waits says whether the shim waits for jobs that run.
func contract(t *testing.T, run runner, is, waits bool) {
	same := func(t *testing.T, got, want error) {
		t.Helper()
		if is && !errors.Is(got, want) || got == nil || !strings.Contains(got.Error(), want.Error()) {
			t.Errorf("got error %v, want %v", got, want)
		}
	}
	ctx := context.Background()

	t.Run("result", func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		if err := run(ctx, p, func(context.Context) error { return nil }); err != nil {
			t.Errorf("got error %v, want none", err)
		}
		same(t, run(ctx, p, func(context.Context) error { return errFailed }), errFailed)
		p.Wait()
		if s := p.Stats(); s.Completed != 2 || s.Failed != 1 {
			t.Errorf("pool has completed %d, failed %d; want 2, 1", s.Completed, s.Failed)
		}
	})
	t.Run("panic", func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		err := run(ctx, p, func(context.Context) error { panic("index 7 of 3") })
		if err == nil || !strings.Contains(err.Error(), "index 7 of 3") || !strings.Contains(err.Error(), `pool "work"`) {
			t.Errorf("got error %v, want one that names the panic and the pool", err)
		}
		if pe, ok := errors.AsType[*shoal.PanicError](err); is && (!ok || pe.Value != "index 7 of 3") {
			t.Errorf("got error %v, want a PanicError", err)
		}
		if err := run(ctx, p, func(context.Context) error { return nil }); err != nil {
			t.Errorf("after the panic: %v", err)
		}
	})
	t.Run("Goexit", func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		same(t, run(ctx, p, func(context.Context) error { runtime.Goexit(); return nil }), shoal.ErrGoexit)
	})
	t.Run("cancelled while it runs", func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		returned := errors.New("cleaned up")
		var cleaned atomic.Bool
		err := run(ctx, p, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond)
			cleaned.Store(true)
			return returned
		})
		if waits {
			same(t, err, returned)
			if !cleaned.Load() {
				t.Error("the engine went on before the handler had returned")
			}
		} else {
			same(t, err, context.Canceled)
		}
		p.Wait()
	})
	t.Run("cancelled while it waits", func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		release := occupy(t, p)
		defer release()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var ran atomic.Bool
		got := make(chan error, 1)
		go func() {
			got <- run(ctx, p, func(context.Context) error { ran.Store(true); return nil })
		}()
		waitFor(t, "the job to wait for a worker", func() bool { return p.Queued() == 1 })
		cancel()
		select {
		case err := <-got:
			same(t, err, context.Canceled)
		case <-time.After(patience):
			t.Error("still waits for a worker")
		}
		if ran.Load() {
			t.Error("the job ran")
		}
	})
	t.Run("pool is closed", func(t *testing.T) {
		same(t, run(ctx, closedPool(t), func(context.Context) error {
			t.Error("the job ran")
			return nil
		}), shoal.ErrClosed)
	})
	t.Run("pool closes while it waits", func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		release := occupy(t, p)
		got := make(chan error, 1)
		go func() { got <- run(ctx, p, func(context.Context) error { return nil }) }()
		waitFor(t, "the job to wait for a worker", func() bool { return p.Queued() == 1 })
		go p.Close()
		same(t, <-got, shoal.ErrDropped)
		release()
	})
	t.Run("pool closes while it runs", func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		same(t, run(ctx, p, func(ctx context.Context) error {
			go p.Close()
			<-ctx.Done()
			return ctx.Err()
		}), context.Canceled)
	})
	t.Run("50 at once", func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4))
		sub := shoal.Must(p.Sub(shoal.WithName("sub"), shoal.WithMaxWorkers(3)))
		var all, ofSub gauge
		errs := make(chan error)
		for i := range 50 {
			go func() {
				if i%2 == 0 {
					errs <- run(ctx, p, func(context.Context) error { all.visit(nap); return nil })
					return
				}
				errs <- run(ctx, sub, func(context.Context) error {
					all.visit(func() { ofSub.visit(nap) })
					return nil
				})
			}()
		}
		for range 50 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if n := all.most.Load(); n > 4 {
			t.Errorf("%d jobs at a time, want at most 4", n)
		}
		if n := ofSub.most.Load(); n > 3 {
			t.Errorf("%d jobs of the sub-pool at a time, want at most 3", n)
		}
		if n := p.Stats().PeakWorkers; n > 4 {
			t.Errorf("%d workers, want at most 4", n)
		}
	})
}
