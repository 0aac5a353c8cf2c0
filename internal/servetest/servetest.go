// Package servetest makes pools work off durable queues, for tests of what shows that.
package servetest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

// Start makes p work off a queue of five jobs, until the test ends. It returns when the
// jobs that p has workers for are leased.
func Start(t testing.TB, p *shoal.Pool, h jobs.Handler) {
	t.Helper()
	q := jobstest.NewQueue(time.Minute)
	for range 5 {
		if err := q.Enqueue(context.Background(), jobs.Message{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		jobs.Serve(ctx, p, q, h, jobs.WithDrain(0), jobs.WithLogger(slog.New(slog.DiscardHandler)))
	}()
	t.Cleanup(func() { cancel(); <-done })
	for len(jobs.Of(p)) == 0 || jobs.Of(p)[0].Leased == 0 {
		time.Sleep(time.Millisecond)
	}
}
