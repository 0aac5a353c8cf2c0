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
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"github.com/shoal-go/shoal/shoalhttp"
)

// flaky is a source some of whose calls of Pull fail: the first one is call 1.
type flaky struct {
	*jobstest.Queue
	fails func(call int) error
	pulls int
}

func (f *flaky) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	f.pulls++
	if err := f.fails(f.pulls); err != nil {
		return nil, err
	}
	return f.Queue.Pull(ctx, n)
}

// serveOn serves q on p under the name mail, until end is called.
func serveOn(t *testing.T, p *shoal.Pool, q jobs.Source, handle jobs.Handler) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- jobs.Serve(ctx, p, q, handle, jobs.WithName("mail"), jobs.WithMaxAttempts(1), jobs.WithDrain(0), jobs.WithLogger(slog.New(slog.DiscardHandler)))
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func afterTheFirst(call int) error {
	if call == 1 {
		return nil
	}
	return errors.New("no route to host")
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
		done <- jobs.Serve(ctx, p, &flaky{Queue: q, fails: afterTheFirst}, func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() },
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

// One Pull that failed does not say that the queue fails still.
func TestVerdictOnAPullThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("jobs"))
		h := newPage(t, shoalhttp.WithPools(p))
		long := strings.Repeat("no route to host ", 1000)
		q := &flaky{Queue: jobstest.NewQueue(time.Minute), fails: func(call int) error {
			if call == 1 {
				return errors.New(long)
			}
			return nil
		}}
		end := serveOn(t, p, q, func(context.Context, *jobs.Job) error { return nil })
		defer end()
		synctest.Wait()
		cut := long[:1<<10] + "…"
		read(t, h, "stats.json", new(shoalhttp.Snapshot))
		for _, ago := range []string{"1s", "3s", "5s", "7s"} {
			r := rows(t, h)["jobs"]
			says(t, r, "queue away", 2, "a Pull of the queue mail failed "+ago+" ago: "+cut)
			if got := r.Sources[0].LastError; got != cut {
				t.Errorf("the error has %d bytes, want %d", len(got), len(cut))
			}
			if err := q.Enqueue(t.Context(), jobs.Message{}); err != nil { // and the queue works
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(11 * time.Second)
		silent(t, rows(t, h)["jobs"])
		if s, _ := jobs.Total(p); s.Acked != 4 || s.PullErrors != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A queue is away until it is back, also while a Pull takes its time to fail.
func TestVerdictOnPullsThatFailSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("jobs"))
		h := newPage(t, shoalhttp.WithPools(p))
		q := &flaky{Queue: jobstest.NewQueue(time.Minute), fails: func(int) error {
			time.Sleep(10 * time.Second)
			return errors.New("no answer")
		}}
		end := serveOn(t, p, q, func(context.Context, *jobs.Job) error { return nil })
		defer end()
		time.Sleep(12 * time.Second) // the first one has failed
		for range 180 {              // in the end there are 5 s between two
			r := rows(t, h)["jobs"]
			if !r.Sources[0].Failing || len(r.Verdicts) != 1 || r.Verdicts[0].Label != "queue away" {
				t.Fatalf("after %d calls: %+v, %+v", q.pulls, r.Sources[0], r.Verdicts)
			}
		}
	})
}

// What a call of Serve counted stays when it ends, and when another one begins.
func TestVerdictOnJobsOfCallsThatHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithName("jobs"))
		h := newPage(t, shoalhttp.WithPools(p))
		q := jobstest.NewQueue(time.Minute)
		serve := func(n int) (end func()) {
			for range n {
				if err := q.Enqueue(t.Context(), jobs.Message{}); err != nil {
					t.Fatal(err)
				}
			}
			end = serveOn(t, p, q, func(context.Context, *jobs.Job) error { return errors.New("no") })
			synctest.Wait()
			return end
		}
		lost := func(level int, text string) {
			t.Helper()
			says(t, rows(t, h)["jobs"], "dead letters", level, text)
		}
		end := serve(5)
		lost(2, "5 jobs became dead letters in the last 1s")
		end()
		lost(2, "5 jobs became dead letters in the last 2s")
		time.Sleep(2 * time.Minute)
		lost(1, "5 jobs became dead letters of queues that it has served")
		end = serve(3)
		lost(2, "3 jobs became dead letters in the last minute")
		end()
		time.Sleep(time.Minute)
		h = newPage(t, shoalhttp.WithPools(p)) // these were before it
		lost(1, "8 jobs became dead letters of queues that it has served")
	})
}
