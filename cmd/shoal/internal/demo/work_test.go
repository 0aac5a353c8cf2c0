package demo

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// A counted context counts the contexts that are derived from it and have not ended. It ends when
// done is closed, and leaves them as they are.
type counted struct {
	context.Context
	done    chan struct{}
	derived atomic.Int64
}

func (c *counted) Done() <-chan struct{} { return c.done }

func (c *counted) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// AfterFunc is what package context calls for a derived context. It calls stop when that one ends.
func (c *counted) AfterFunc(func()) (stop func() bool) {
	c.derived.Add(1)
	return func() bool { c.derived.Add(-1); return true }
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCallsOfTheDependencyLeaveNothing behind, whether they succeed, fail or are refused. Those that
// fail count.
func TestCallsOfTheDependencyLeaveNothing(t *testing.T) {
	calls, failed := uint64(0), uint64(0)
	was := http.DefaultTransport
	http.DefaultTransport = transport(func(r *http.Request) (*http.Response, error) {
		calls++
		pause(r.Context(), 50*time.Millisecond)
		if calls%3 > 0 {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}
		failed++
		return nil, errors.New("out of order")
	})
	defer func() { http.DefaultTransport = was }()
	synctest.Test(t, func(t *testing.T) {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.Reject)))
		ctx := &counted{Context: t.Context(), done: make(chan struct{})}
		go callDependency(ctx, p, "http://upstream")
		time.Sleep(10 * time.Second)
		close(ctx.done)
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := ctx.derived.Load(); n != 0 {
			t.Errorf("the contexts of %d calls have not ended", n)
		}
		if s := p.Stats(); failed == 0 || s.Failed != failed || s.Completed < calls || s.Rejected == 0 {
			t.Errorf("%d of %d calls have failed; the pool counts %d of %d, and %d that it has rejected", failed, calls, s.Failed, s.Completed, s.Rejected)
		}
	})
}
