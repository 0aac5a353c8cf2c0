package shoalhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"github.com/shoal-go/shoal/shoalhttp"
)

// flaky is a source that fails after its first jobs.
type flaky struct {
	*jobstest.Queue
	pulls int
}

func (f *flaky) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if f.pulls++; f.pulls > 1 {
		return nil, errors.New("no route to host")
	}
	return f.Queue.Pull(ctx, n)
}

func TestStatsShowDurableQueues(t *testing.T) {
	p := shoal.Must(shoal.New(shoal.WithName("jobs"), shoal.WithMaxWorkers(2)))
	defer p.Close()
	q := jobstest.NewQueue(time.Minute)
	if err := q.Enqueue(context.Background(), jobs.Message{Data: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- jobs.Serve(ctx, p, &flaky{Queue: q}, func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() },
			jobs.WithName("mail"), jobs.WithDrain(0), jobs.WithLogger(slog.New(slog.DiscardHandler)))
	}()
	for jobs.Of(p) == nil || jobs.Of(p)[0].PullErrors == 0 || jobs.Of(p)[0].Running == 0 {
		time.Sleep(time.Millisecond)
	}
	rec := httptest.NewRecorder()
	shoalhttp.Handler(p).ServeHTTP(rec, httptest.NewRequest("GET", "http://localhost/debug/shoal/stats.json", nil))
	var s shoalhttp.Snapshot
	if err := json.Unmarshal(rec.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	rows := s.Pools[0].Sources
	if len(rows) != 1 || rows[0].Name != "mail" || rows[0].Held != 1 || rows[0].Running != 1 || rows[0].Leased != 1 || rows[0].Lease != 60 ||
		rows[0].PullErrors == 0 || !rows[0].Failing || rows[0].LastError != "no route to host" || rows[0].LastErrorAt == 0 {
		t.Errorf("%+v", rows)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestVerdictOnJobs(t *testing.T) {
	p := shoal.Must(shoal.New(shoal.WithName("jobs"), shoal.WithMaxWorkers(2)))
	defer p.Close()
	h := newPage(t, shoalhttp.WithPools(p))
	q := jobstest.NewQueue(time.Minute)
	for range 3 {
		if err := q.Enqueue(context.Background(), jobs.Message{Data: []byte("a")}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- jobs.Serve(ctx, p, q, func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() },
			jobs.WithMaxAttempts(1), jobs.WithTimeLimit(10*time.Millisecond), jobs.WithDrain(0), jobs.WithLogger(slog.New(slog.DiscardHandler)))
	}()
	for jobs.Of(p) == nil || jobs.Of(p)[0].Dead < 3 || p.Stats().Failed < 3 {
		time.Sleep(time.Millisecond)
	}
	r := rows(t, h)["jobs"]
	for label, text := range map[string]string{
		"failing":      "3 of 3 tasks (100%) failed in the last ",
		"dead letters": "3 jobs became dead letters in the last ",
		"time limit":   "3 runs of jobs exceeded a time limit in the last ",
	} {
		if !slices.ContainsFunc(r.Verdicts, func(v shoalhttp.Verdict) bool {
			return v.Label == label && v.Level == 2 && strings.HasPrefix(v.Text, text)
		}) {
			t.Errorf("no %q in %+v", text, r.Verdicts)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
