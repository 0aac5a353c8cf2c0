package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

var silent = jobs.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// TestStatsKnowTheOldestJob: jobs end in any order, and the oldest of the others is known.
func TestStatsKnowTheOldestJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
		defer p.Close()
		q := jobstest.NewQueue(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		end := make(map[string]chan struct{})
		for _, id := range []string{"a", "b", "c", "d"} {
			end[id] = make(chan struct{})
		}
		go func() {
			done <- jobs.Serve(ctx, p, q, func(ctx context.Context, j *jobs.Job) error {
				id := j.ID
				j.ID, j.Header[jobs.TypeHeader] = "another", "another" // a handler may do that
				<-end[id]
				return nil
			}, silent)
		}()
		synctest.Wait()
		begin := time.Now()
		for _, id := range []string{"a", "b", "c", "d"} {
			if err := q.Enqueue(ctx, jobs.Message{ID: id, Header: jobs.Header{jobs.TypeHeader: "type " + id}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		for _, c := range []struct{ ends, oldest string }{{"", "a"}, {"b", "a"}, {"a", "c"}, {"d", "c"}, {"c", ""}} {
			if c.ends != "" {
				close(end[c.ends])
			}
			synctest.Wait()
			want := jobs.RunningJob{}
			if c.oldest != "" {
				want = jobs.RunningJob{ID: c.oldest, Type: "type " + c.oldest, Since: begin.Add(time.Duration(c.oldest[0]-'a') * time.Minute)}
			}
			if o := jobs.Of(p)[0].Oldest; o.ID != want.ID || o.Type != want.Type || !o.Since.Equal(want.Since) {
				t.Errorf("after the end of %q the oldest is %+v; want %+v", c.ends, o, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestTotalKeepsWhatEndedCallsHaveCounted: what one call of two has counted stays when the call ends.
// What it held does not.
func TestTotalKeepsWhatEndedCallsHaveCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(8)))
		defer p.Close()
		check := func(calls int, want jobs.Stats) {
			t.Helper()
			synctest.Wait()
			if n := len(jobs.Of(p)); n != calls {
				t.Errorf("%d calls, want %d", n, calls)
			}
			got, served := jobs.Total(p)
			if !served {
				t.Error("there was no call")
			}
			got.Oldest, got.LastFailure = jobs.RunningJob{}, jobs.JobFailure{}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		if _, served := jobs.Total(p); served {
			t.Error("there was a call")
		}
		serve := func(acks int) (end func()) {
			q := jobstest.NewQueue(time.Hour)
			for i := range acks + 1 {
				if err := q.Enqueue(t.Context(), jobs.Message{ID: fmt.Sprint(i), Data: []byte{byte(acks - i)}}); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- jobs.Serve(ctx, p, q, func(ctx context.Context, j *jobs.Job) error {
					if j.Data[0] > 0 {
						return nil
					}
					<-ctx.Done() // the last one
					return ctx.Err()
				}, silent, jobs.WithDrain(0))
			}()
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		endFirst := serve(30)
		check(1, jobs.Stats{Held: 1, Running: 1, Leased: 31, Acked: 30})
		endSecond := serve(20)
		time.Sleep(time.Minute) // they share the pool
		check(2, jobs.Stats{Held: 2, Running: 2, Leased: 52, Acked: 50})
		endFirst()
		check(1, jobs.Stats{Held: 1, Running: 1, Leased: 52, Acked: 50, Retried: 1})
		endSecond()
		check(0, jobs.Stats{Leased: 52, Acked: 50, Retried: 2})
	})
}

// TestTotalKeepsNoPool: a pool that nobody has any more is collected, though calls have ended on it.
func TestTotalKeepsNoPool(t *testing.T) {
	p := shoal.Must(shoal.New())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := jobs.Serve(ctx, p, jobstest.NewQueue(time.Hour), func(context.Context, *jobs.Job) error { return nil }, silent); err != nil {
		t.Fatal(err)
	}
	if _, served := jobs.Total(p); !served {
		t.Error("there was no call")
	}
	p.Close()
	collected := make(chan struct{})
	runtime.AddCleanup(p, func(c chan struct{}) { close(c) }, collected)
	p = nil
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		runtime.GC()
		select {
		case <-collected:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("the pool is not collected")
}

// TestMergeAddsUp: each count, also one that will be added.
func TestMergeAddsUp(t *testing.T) {
	at := time.Now()
	a := jobs.Stats{Source: "a", Lease: time.Minute,
		LastError: "late", LastErrorAt: at.Add(1), Oldest: jobs.RunningJob{ID: "young", Since: at.Add(1)}, LastFailure: jobs.JobFailure{ID: "early", At: at}}
	b := jobs.Stats{Source: "b", Lease: time.Hour,
		LastError: "early", LastErrorAt: at, Oldest: jobs.RunningJob{ID: "old", Since: at}, LastFailure: jobs.JobFailure{ID: "late", At: at.Add(1)}}
	want := jobs.Stats{Source: "a", Lease: time.Minute,
		LastError: "late", LastErrorAt: at.Add(1), Oldest: b.Oldest, LastFailure: b.LastFailure}
	va, vb, vw := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem(), reflect.ValueOf(&want).Elem()
	for i := range va.NumField() {
		switch n := uint64(i + 1); va.Field(i).Interface().(type) {
		case uint64:
			va.Field(i).SetUint(n)
			vb.Field(i).SetUint(100 * n)
			vw.Field(i).SetUint(101 * n)
		case int:
			va.Field(i).SetInt(int64(n))
			vb.Field(i).SetInt(int64(100 * n))
			vw.Field(i).SetInt(int64(101 * n))
		}
	}
	if got := a.Merge(b); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	b.Source, b.Lease, want.Source, want.Lease = "", 0, "", 0
	if got := b.Merge(jobs.Stats{}); got != b {
		t.Errorf("got %+v, want %+v", got, b)
	}
	if got := (jobs.Stats{}).Merge(b); got != b {
		t.Errorf("got %+v, want %+v", got, b)
	}
}

// unsayable is an error without a text.
type unsayable struct{}

func (unsayable) Error() string { panic("no text") }

func TestStatsKnowTheLastFailure(t *testing.T) {
	long := strings.Repeat("0123456789", 1000)
	for name, c := range map[string]struct {
		handler jobs.Handler
		want    string
	}{
		"an error":       {func(context.Context, *jobs.Job) error { return errors.New("no\nroute") }, "no; route"},
		"a long one":     {func(context.Context, *jobs.Job) error { return errors.New(long) }, long[:1<<10] + "…"},
		"with an output": {func(context.Context, *jobs.Job) error { return jobs.WithOutput(errors.New("bad"), []byte("a")) }, "bad"},
		"of Poison":      {func(context.Context, *jobs.Job) error { return jobs.Poison(errors.New("bad")) }, "bad"},
		"of Retry":       {func(context.Context, *jobs.Job) error { return jobs.Retry(time.Minute) }, ""},
		"none":           {func(context.Context, *jobs.Job) error { return nil }, ""},
		"no text":        {func(context.Context, *jobs.Job) error { return unsayable{} }, "%!v(PANIC=Error method: no text)"},
		"Goexit":         {func(context.Context, *jobs.Job) error { runtime.Goexit(); return nil }, shoal.ErrGoexit.Error()},
		"a panic":        {func(context.Context, *jobs.Job) error { panic("oh") }, "panic: oh"},
		"stopped": {func() jobs.Handler {
			var runs atomic.Int64
			return func(context.Context, *jobs.Job) error {
				if runs.Add(1) > 1 { // it is leased again at once
					return nil
				}
				return fmt.Errorf("by hand: %w", jobs.ErrStopped)
			}
		}(), ""},
		"a lost lease": {func(ctx context.Context, j *jobs.Job) error {
			if err := j.Delivery().Nak(ctx, 24*time.Hour); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := shoal.Must(shoal.New(shoal.WithPanicHandler(func(*shoal.PanicError) {})))
				defer p.Close()
				q := jobstest.NewQueue(time.Hour)
				if err := q.Enqueue(t.Context(), jobs.Message{ID: "a", Header: jobs.Header{jobs.TypeHeader: "mail"}}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- jobs.Serve(ctx, p, q, c.handler, jobs.WithDrain(0), silent) }()
				synctest.Wait()
				if name == "a lost lease" { // Serve learns of it when it extends it
					time.Sleep(time.Hour)
				}
				s := jobs.Of(p)[0]
				if s.Running > 0 || (s.LeasesLost > 0) != (name == "a lost lease") {
					t.Fatalf("%+v", s)
				}
				got := s.LastFailure
				want := jobs.JobFailure{}
				if c.want != "" {
					want = jobs.JobFailure{ID: "a", Type: "mail", Error: c.want, At: time.Now()}
				}
				if got != want {
					t.Errorf("%+v; want %+v", got, want)
				}
				cancel()
				if err := <-done; err != nil && !errors.Is(err, shoal.ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// TestStatsKnowAnErrorThatIsBroken: that of a Pull, whose text panics or asks for the statistics.
func TestStatsKnowAnErrorThatIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		err  func(p *shoal.Pool) error
		want string
	}{
		"a panic":         {func(*shoal.Pool) error { return unsayable{} }, "%!v(PANIC=Error method: no text)"},
		"no text at all":  {func(*shoal.Pool) error { return selfError{} }, "the error of the source cannot be read"},
		"asks":            {func(p *shoal.Pool) error { return asksError{p} }, "asks"},
		"asks and panics": {func(p *shoal.Pool) error { return errors.Join(asksError{p}, unsayable{}) }, "%!v(PANIC=Error method: no text)"},
	} {
		t.Run(name, func(t *testing.T) { // in no bubble, in which a deadlock of mutexes is not seen
			p := shoal.Must(shoal.New())
			s := newSpy()
			s.failPull = c.err(p)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			log := jobs.WithLogger(slog.New(hears(func(slog.Record) { cancel() })))
			ended := make(chan error, 1)
			go func() {
				ended <- jobs.Serve(ctx, p, s, func(context.Context, *jobs.Job) error { return nil }, log)
			}()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("Serve hangs")
			}
			if all, _ := jobs.Total(p); all.PullErrors != 1 || all.LastError != c.want {
				t.Errorf("%+v", all)
			}
			p.Close()
		})
	}
}

// An asksError asks for the statistics when it is read.
type asksError struct{ p *shoal.Pool }

func (e asksError) Error() string { jobs.Of(e.p); return "asks" }

// What hangs, and why jobs fail, has names.
func ExampleOf() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()
	queue := jobstest.NewQueue(time.Minute) // in a program: one of contrib/sql or contrib/nats
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for id, kind := range map[string]string{"41": "mail", "42": "resize"} {
		if err := queue.Enqueue(ctx, jobs.Message{ID: id, Header: jobs.Header{jobs.TypeHeader: kind}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	go jobs.Serve(ctx, pool, queue, func(ctx context.Context, j *jobs.Job) error {
		if j.Type() == "mail" {
			return jobs.Poison(errors.New("no such address"))
		}
		<-ctx.Done() // it hangs
		return ctx.Err()
	}, silent)

	for {
		time.Sleep(time.Millisecond)
		for _, s := range jobs.Of(pool) {
			if s.Dead == 0 || s.Running == 0 {
				continue
			}
			fmt.Printf("job %s of type %s has run for less than an hour: %v\n", s.Oldest.ID, s.Oldest.Type, time.Since(s.Oldest.Since) < time.Hour)
			fmt.Printf("job %s of type %s failed last: %s\n", s.LastFailure.ID, s.LastFailure.Type, s.LastFailure.Error)
			return
		}
	}
	// Output:
	// job 42 of type resize has run for less than an hour: true
	// job 41 of type mail failed last: no such address
}
