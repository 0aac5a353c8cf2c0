// Package handlertest tests modules that run the handlers of another job engine on a pool:
// [Contract] has what each of them promises. The other functions help their tests.
package handlertest

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
)

// Patience is how long a test waits for what must happen.
const Patience = 20 * time.Second

// NewPool makes a pool named work, which ignores panics and is closed with the test.
func NewPool(t testing.TB, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	opts = append([]shoal.Option{shoal.WithName("work"), shoal.WithPanicHandler(func(*shoal.PanicError) {})}, opts...)
	p, err := shoal.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// ClosedPool makes a pool that accepts no tasks.
func ClosedPool(t testing.TB) *shoal.Pool {
	p := NewPool(t, shoal.WithMaxWorkers(1))
	p.Close()
	return p
}

// Occupy keeps p's only worker busy until release is called.
func Occupy(t testing.TB, p *shoal.Pool) (release func()) {
	t.Helper()
	end, begun := make(chan struct{}), make(chan struct{})
	if err := p.Submit(func() { close(begun); <-end }); err != nil {
		t.Fatal(err)
	}
	<-begun
	return func() { close(end) }
}

// WaitFor waits until ok returns true. It looks again and again: an engine's state gives
// no signal. The test fails after [Patience].
func WaitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > Patience {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// A Gauge counts visits, and how many there were at the same time.
type Gauge struct{ now, most, all atomic.Int64 }

// Visit calls f.
func (g *Gauge) Visit(f func()) {
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	f()
	g.now.Add(-1)
	g.all.Add(1)
}

// Most is the largest number of visits at the same time.
func (g *Gauge) Most() int64 { return g.most.Load() }

// All is the number of visits that have ended.
func (g *Gauge) All() int64 { return g.all.Load() }

// Nap lasts long enough that visits of several goroutines meet.
func Nap() { time.Sleep(2 * time.Millisecond) }

// Quiet returns a logger that writes nothing.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// ErrFailed is an error of a handler.
var ErrFailed = errors.New("no such mailbox: 4711")

// A Runner runs f as a job of an engine, through the module under test, and returns the
// error that the engine sees.
type Runner func(ctx context.Context, p *shoal.Pool, f func(context.Context) error) error

// Contract tests what each of these modules promises. If is is set, errors must pass through
// as they are; otherwise the engine's test environment makes errors of its own of them, of
// the same text.
func Contract(t *testing.T, run Runner, is bool) {
	same := func(t *testing.T, got, want error) {
		t.Helper()
		if is && !errors.Is(got, want) || got == nil || !strings.Contains(got.Error(), want.Error()) {
			t.Errorf("got error %v, want %v", got, want)
		}
	}
	ctx := context.Background()

	t.Run("result", func(t *testing.T) {
		p := NewPool(t, shoal.WithMaxWorkers(1))
		if err := run(ctx, p, func(context.Context) error { return nil }); err != nil {
			t.Errorf("got error %v, want none", err)
		}
		same(t, run(ctx, p, func(context.Context) error { return ErrFailed }), ErrFailed)
		p.Wait()
		if s := p.Stats(); s.Completed != 2 || s.Failed != 1 {
			t.Errorf("pool has completed %d, failed %d; want 2, 1", s.Completed, s.Failed)
		}
	})
	t.Run("panic", func(t *testing.T) {
		p := NewPool(t, shoal.WithMaxWorkers(1))
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
		p := NewPool(t, shoal.WithMaxWorkers(1))
		same(t, run(ctx, p, func(context.Context) error { runtime.Goexit(); return nil }), shoal.ErrGoexit)
	})
	t.Run("cancelled while it runs", func(t *testing.T) {
		p := NewPool(t, shoal.WithMaxWorkers(1))
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
		same(t, err, returned)
		if !cleaned.Load() {
			t.Error("the engine went on before the handler had returned")
		}
		p.Wait()
	})
	t.Run("cancelled while it waits", func(t *testing.T) {
		p := NewPool(t, shoal.WithMaxWorkers(1))
		release := Occupy(t, p)
		defer release()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var ran atomic.Bool
		got := make(chan error, 1)
		go func() {
			got <- run(ctx, p, func(context.Context) error { ran.Store(true); return nil })
		}()
		WaitFor(t, "the job to wait for a worker", func() bool { return p.Queued() == 1 })
		cancel()
		select {
		case err := <-got:
			same(t, err, context.Canceled)
		case <-time.After(Patience):
			t.Error("still waits for a worker")
		}
		if ran.Load() {
			t.Error("the job ran")
		}
	})
	t.Run("pool is closed", func(t *testing.T) {
		same(t, run(ctx, ClosedPool(t), func(context.Context) error {
			t.Error("the job ran")
			return nil
		}), shoal.ErrClosed)
	})
	t.Run("pool closes while it waits", func(t *testing.T) {
		p := NewPool(t, shoal.WithMaxWorkers(1))
		release := Occupy(t, p)
		got := make(chan error, 1)
		go func() { got <- run(ctx, p, func(context.Context) error { return nil }) }()
		WaitFor(t, "the job to wait for a worker", func() bool { return p.Queued() == 1 })
		go p.Close()
		same(t, <-got, shoal.ErrDropped)
		release()
	})
	t.Run("pool closes while it runs", func(t *testing.T) {
		p := NewPool(t, shoal.WithMaxWorkers(1))
		same(t, run(ctx, p, func(ctx context.Context) error {
			go p.Close()
			<-ctx.Done()
			return ctx.Err()
		}), context.Canceled)
	})
	t.Run("50 at once", func(t *testing.T) {
		p := NewPool(t, shoal.WithMaxWorkers(4))
		sub := shoal.Must(p.Sub(shoal.WithName("sub"), shoal.WithMaxWorkers(3)))
		var all, ofSub Gauge
		errs := make(chan error)
		for i := range 50 {
			go func() {
				switch i % 3 {
				case 0:
					errs <- run(ctx, p, func(context.Context) error { all.Visit(Nap); return nil })
				case 1:
					errs <- run(ctx, sub, func(context.Context) error {
						all.Visit(func() { ofSub.Visit(Nap) })
						return nil
					})
				default: // what else the process does
					errs <- p.SubmitWait(ctx, func(context.Context) error { all.Visit(Nap); return nil })
				}
			}()
		}
		for range 50 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if n := all.Most(); n > 4 {
			t.Errorf("%d jobs at a time, want at most 4", n)
		}
		if n := ofSub.Most(); n > 3 {
			t.Errorf("%d jobs of the sub-pool at a time, want at most 3", n)
		}
		if n := p.Stats().PeakWorkers; n > 4 {
			t.Errorf("%d workers, want at most 4", n)
		}
	})
}
