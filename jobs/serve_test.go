package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

const lease = 30 * time.Second

// A spy is a queue that counts, and fails where it is told to.
type spy struct {
	*jobstest.Queue
	mu                             sync.Mutex
	held, most                     int // leased and not settled
	pulls, acks, naks, terms, exts int
	lastNak                        time.Duration
	failPull, failAck, failExtend  error
	failNak                        error
	hangAck, hangNak               bool
	slow                           time.Duration                              // before each Pull
	slowNak                        time.Duration                              // before a job is given back
	extend                         func(ctx context.Context, id string) error // before the extension
	pulled                         []int                                      // what each Pull asked for
	extended                       []time.Time
}

func newSpy() *spy { return &spy{Queue: jobstest.NewQueue(lease)} }

func (s *spy) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	s.mu.Lock()
	s.pulls++
	s.pulled = append(s.pulled, n)
	err, slow := s.failPull, s.slow
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	// Not with a delay of 0: in a bubble a timer that is due when select looks at it is run there and then. If
	// two goroutines do so at once under the race detector, Go 1.26 uses one context of it twice, and crashes.
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ds, err := s.Queue.Pull(ctx, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range ds {
		ds[i] = &spied{Delivery: d, s: s}
	}
	s.held += len(ds)
	s.most = max(s.most, s.held)
	return ds, err
}

type spied struct {
	jobs.Delivery
	s    *spy
	once sync.Once
}

func (d *spied) settled(n *int) {
	d.s.mu.Lock()
	*n++
	d.s.mu.Unlock()
	d.once.Do(func() { d.s.mu.Lock(); d.s.held--; d.s.mu.Unlock() })
}

func (d *spied) Ack(ctx context.Context) error {
	d.s.mu.Lock()
	err, hang := d.s.failAck, d.s.hangAck
	d.s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	d.settled(&d.s.acks)
	return d.Delivery.Ack(ctx)
}

func (d *spied) Nak(ctx context.Context, after time.Duration) error {
	return d.back(ctx, after, func(ctx context.Context) error { return d.Delivery.Nak(ctx, after) })
}

func (d *spied) back(ctx context.Context, after time.Duration, f func(context.Context) error) error {
	d.settled(&d.s.naks)
	d.s.mu.Lock()
	d.s.lastNak = after
	err, hang, slow := d.s.failNak, d.s.hangNak, d.s.slowNak
	d.s.mu.Unlock()
	time.Sleep(slow)
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return f(ctx)
}

func (d *spied) Release(ctx context.Context) error {
	return d.back(ctx, 0, d.Delivery.Release)
}

func (d *spied) Term(ctx context.Context, reason string) error {
	d.settled(&d.s.terms)
	return d.Delivery.Term(ctx, reason)
}

func (d *spied) Extend(ctx context.Context) error {
	d.s.mu.Lock()
	d.s.exts++
	d.s.extended = append(d.s.extended, time.Now())
	err, extend := d.s.failExtend, d.s.extend
	d.s.mu.Unlock()
	if err == nil && extend != nil {
		err = extend(ctx, d.ID())
	}
	if err != nil {
		return err
	}
	return d.Delivery.Extend(ctx)
}

func (s *spy) set(f func()) { s.mu.Lock(); f(); s.mu.Unlock() }

// A world is a bubble with a pool, a queue, and Serve on them.
type world struct {
	*testing.T
	s      *spy
	p      *shoal.Pool
	ctx    context.Context
	cancel context.CancelFunc
	err    chan error
	start  time.Time
}

var quietly = jobs.WithLogger(slog.New(slog.DiscardHandler))

func inWorld(t *testing.T, workers int, h jobs.Handler, f func(w *world), opts ...jobs.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, s: newSpy(), err: make(chan error, 1), start: time.Now()}
		w.p = shoal.Must(shoal.New(shoal.WithMaxWorkers(workers), shoal.WithPanicHandler(func(*shoal.PanicError) {})))
		w.ctx, w.cancel = context.WithCancel(context.Background())
		go func() { w.err <- jobs.Serve(w.ctx, w.p, w.s, h, append([]jobs.Option{quietly}, opts...)...) }()
		synctest.Wait()
		f(w)
		w.cancel()
		synctest.Wait()
		w.p.Close()
	})
}

func (w *world) put(payloads ...string) {
	w.Helper()
	for _, s := range payloads {
		if err := w.s.Enqueue(context.Background(), jobs.Message{ID: s, Data: []byte(s)}); err != nil {
			w.Fatal(err)
		}
	}
	synctest.Wait()
}

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stops demands that Serve ends, within d, with an error that matches want.
func (w *world) stops(d time.Duration, want error) {
	w.Helper()
	start := time.Now()
	err := <-w.err
	if took := time.Since(start); took > d {
		w.Errorf("Serve took %v to end, want %v at most", took, d)
	}
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		w.Errorf("Serve: %v, want %v", err, want)
	}
	if len(jobs.Of(w.p)) != 0 {
		w.Error("a Serve that has ended is still listed")
	}
}

func (w *world) stats() jobs.Stats {
	w.Helper()
	all := jobs.Of(w.p)
	if len(all) != 1 {
		w.Fatalf("%d calls of Serve", len(all))
	}
	s := all[0]
	if s.Leased < uint64(s.Held)+s.Retried+s.Dead+s.Untold {
		w.Errorf("it does not add up: %+v", s)
	}
	return s
}

func TestServeRefusesBadInput(t *testing.T) {
	p := shoal.Must(shoal.New())
	defer p.Close()
	q := jobstest.NewQueue(lease)
	h := func(context.Context, *jobs.Job) error { return nil }
	ctx := context.Background()
	var none context.Context
	for name, f := range map[string]func() error{
		"nil context":        func() error { return jobs.Serve(none, p, q, h) },
		"nil pool":           func() error { return jobs.Serve(ctx, nil, q, h) },
		"nil source":         func() error { return jobs.Serve(ctx, p, nil, h) },
		"nil handler":        func() error { return jobs.Serve(ctx, p, q, nil) },
		"lease":              func() error { return jobs.Serve(ctx, p, jobstest.NewQueue(0), h) },
		"option 0 is nil":    func() error { return jobs.Serve(ctx, p, q, h, nil) },
		"WithMaxAttempts(":   func() error { return jobs.Serve(ctx, p, q, h, jobs.WithMaxAttempts(-1)) },
		"WithMaxLeases(":     func() error { return jobs.Serve(ctx, p, q, h, jobs.WithMaxLeases(-1)) },
		"WithBackoff(nil)":   func() error { return jobs.Serve(ctx, p, q, h, jobs.WithBackoff(nil)) },
		"WithDrain(-1s)":     func() error { return jobs.Serve(ctx, p, q, h, jobs.WithDrain(-time.Second)) },
		"WithTimeLimit(-1s)": func() error { return jobs.Serve(ctx, p, q, h, jobs.WithTimeLimit(-time.Second)) },
		`WithTimeLimit(-1s, "b")`: func() error {
			return jobs.Serve(ctx, p, q, h, jobs.WithTimeLimit(time.Second, "a"), jobs.WithTimeLimit(-time.Second, "b"))
		},
		"WithLogger(nil)": func() error { return jobs.Serve(ctx, p, q, h, jobs.WithLogger(nil)) },
	} {
		if err := f(); !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := p.SubmitWait(ctx, func(ctx context.Context) error { return jobs.Serve(ctx, p, q, h) })
	if !errors.Is(err, shoal.ErrWouldDeadlock) {
		t.Errorf("in a task of the pool: %v", err)
	}
}

func TestServeHoldsNoMoreThanThePoolHasSlots(t *testing.T) {
	inWorld(t, 3, func(ctx context.Context, j *jobs.Job) error { time.Sleep(time.Second); return nil }, func(w *world) {
		for i := range 20 {
			w.put(fmt.Sprint(i))
		}
		if s := w.stats(); s.Held != 3 || s.Running != 3 {
			w.Errorf("%d held, %d running", s.Held, s.Running)
		}
		w.p.Resize(0, 1)
		w.after(1500 * time.Millisecond)
		if s := w.stats(); s.Held != 1 {
			w.Errorf("%d held after Resize", s.Held)
		}
		w.p.Resize(0, 5)
		w.after(0)
		if s := w.stats(); s.Held != 5 {
			w.Errorf("%d held after Resize to more", s.Held)
		}
		w.after(time.Minute)
		if s := w.stats(); s.Held != 0 || s.Acked != 20 || s.Leased != 20 || w.s.most > 5 || w.s.exts != 0 {
			w.Errorf("%+v, most %d, %d extensions", s, w.s.most, w.s.exts)
		}
		w.cancel()
		w.stops(0, nil)
	})
}

func TestServeStopsPullingWhilePaused(t *testing.T) {
	inWorld(t, 2, func(ctx context.Context, j *jobs.Job) error { return nil }, func(w *world) {
		w.p.Pause() // Pull waits, and must end
		w.after(0)
		w.put("a", "b")
		w.after(time.Hour)
		if w.s.most != 0 || w.s.acks != 0 {
			w.Errorf("a paused pool has leased %d", w.s.most)
		}
		w.p.Resume()
		w.after(0)
		if w.s.acks != 2 {
			w.Errorf("%d of 2 done after Resume", w.s.acks)
		}
	})
}

func TestServeMapsResults(t *testing.T) {
	backoff := func(attempt int) time.Duration { return time.Duration(attempt) * time.Minute }
	stops := 0
	for _, c := range []struct {
		name            string
		h               jobs.Handler
		acks, naks, bad int
		after           time.Duration
		reason          string
	}{
		{"nil", func(context.Context, *jobs.Job) error { return nil }, 1, 0, 0, 0, ""},
		{"Retry", func(context.Context, *jobs.Job) error { return jobs.Retry(7 * time.Second) }, 0, 1, 0, 7 * time.Second, ""},
		{"Retry of less than nothing", func(_ context.Context, j *jobs.Job) error {
			if j.Attempt > 1 {
				return nil
			}
			return jobs.Retry(-1)
		}, 1, 1, 0, 0, ""},
		{"Retry, wrapped", func(context.Context, *jobs.Job) error { return fmt.Errorf("busy: %w", jobs.Retry(time.Second)) }, 0, 1, 0, time.Second, ""},
		{"ErrStopped", func(_ context.Context, j *jobs.Job) error {
			if stops++; stops <= 5 && j.Attempt == 1 {
				return fmt.Errorf("the program ends: %w", jobs.ErrStopped)
			}
			return nil
		}, 1, 5, 0, 0, ""},
		{"Poison", func(context.Context, *jobs.Job) error { return jobs.Poison(errors.New("no good")) }, 0, 0, 1, 0, "no good"},
		{"Poison of nil", func(context.Context, *jobs.Job) error { return jobs.Poison(nil) }, 0, 0, 1, 0, "poison"},
		{"Poison of an error that panics", func(context.Context, *jobs.Job) error { return jobs.Poison((*brokenError)(nil)) }, 0, 0, 1, 0, "PANIC"},
		{"Poison, wrapped", func(context.Context, *jobs.Job) error { return fmt.Errorf("why: %w", jobs.Poison(errors.New("x"))) }, 0, 0, 1, 0, "why: x"},
		{"an error", func(context.Context, *jobs.Job) error { return errors.New("failed") }, 0, 1, 0, time.Minute, ""},
		{"a panic", func(context.Context, *jobs.Job) error { panic("at the disco") }, 0, 1, 0, time.Minute, ""},
		{"a panic of nil", func(context.Context, *jobs.Job) error { panic(nil) }, 0, 1, 0, time.Minute, ""},
		{"Goexit", func(context.Context, *jobs.Job) error { runtime.Goexit(); return nil }, 0, 1, 0, time.Minute, ""},
		{"a payload that is none", jobs.Handle(func(context.Context, struct{ A int }) error { return nil }), 0, 0, 1, 0, "no struct { A int }"},
		{"a type that is none", jobs.Mux{"x": nil}.Handle, 0, 0, 1, 0, `no handler for type ""`},
		{"an error that is long", func(context.Context, *jobs.Job) error {
			return jobs.Poison(errors.New("x" + strings.Repeat("ä", 10_000)))
		}, 0, 0, 1, 0, "xää"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 1, c.h, func(w *world) {
				w.put("payload")
				if w.s.acks != c.acks || w.s.naks != c.naks || w.s.terms != c.bad || w.s.lastNak != c.after {
					w.Errorf("%d acknowledged, %d given back (for %v), %d buried", w.s.acks, w.s.naks, w.s.lastNak, w.s.terms)
				}
				if c.bad > 0 {
					if d := w.s.Dead(); len(d) != 1 || !strings.Contains(d[0].Reason, c.reason) || len(d[0].Reason) > 2000 || !utf8.ValidString(d[0].Reason) {
						w.Errorf("%+v", d)
					}
				}
				if s := w.stats(); s.Held != 0 || s.Running != 0 {
					w.Errorf("%+v", s)
				}
			}, jobs.WithBackoff(backoff))
		})
	}
}

type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

// TestServeSettlesAJobWhoseErrorIsBroken: the handler returns an error with a method that panics, for
// example because it is a nil pointer.
func TestServeSettlesAJobWhoseErrorIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		h      func() error
		reason string
	}{
		"Unwrap of a nil pointer": {func() error { return (*wrapError)(nil) }, "panic in the error of the handler: runtime error: invalid memory address"},
		"Is":                      {func() error { return isError(func() { panic("oh") }) }, "panic in the error of the handler: oh"},
		"As":                      {func() error { return asError(func() { panic("oh") }) }, "panic in the error of the handler: oh"},
		"wrapped":                 {func() error { return jobs.Poison((*wrapError)(nil)) }, "panic in the error of the handler: runtime error"},
		"Goexit":                  {func() error { return asError(runtime.Goexit) }, "the result of the handler cannot be read"},
		"no text":                 {func() error { return selfError{} }, "the result of the handler cannot be read"},
		"a panic without a text":  {func() error { panic(selfError{}) }, "the result of the handler cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(context.Context, *jobs.Job) error { return c.h() }, func(w *world) {
				w.put("a")
				s := w.stats()
				if s.Held != 0 || s.Running != 0 || s.Dead != 1 || w.p.Stats().Failed != 1 || !strings.Contains(s.LastFailure.Error, c.reason) {
					w.Errorf("%+v", s)
				}
				if d := w.s.Dead(); len(d) != 1 || !strings.Contains(d[0].Reason, "attempt 1 of 1: "+c.reason) {
					w.Errorf("%+v", d)
				}
				w.cancel()
				w.stops(0, nil)
			}, jobs.WithMaxAttempts(1))
		})
	}
}

type wrapError struct{ err error }

func (e *wrapError) Error() string { return "wrapped" }
func (e *wrapError) Unwrap() error { return e.err }

type isError func()

func (f isError) Error() string   { return "is" }
func (f isError) Is(e error) bool { f(); return false }

type asError func()

func (f asError) Error() string { return "as" }
func (f asError) As(e any) bool { f(); return false }

// A selfError cannot even be printed by package fmt.
type selfError struct{}

func (e selfError) Error() string { panic(e) }

// TestServeSettlesAJobThoughTheLoggerPanics, before the result is told. What it logs about happens.
func TestServeSettlesAJobThoughTheLoggerPanics(t *testing.T) {
	var runs atomic.Int64
	inWorld(t, 1, func(context.Context, *jobs.Job) error {
		if runs.Add(1) <= 11 { // more than 10 a second are logged
			return jobs.ErrStopped
		}
		return nil
	}, func(w *world) {
		w.put("a")
		w.after(time.Second - 1)
		if s := w.stats(); runs.Load() != 11 || s.Held != 1 {
			w.Errorf("before the pause is over: %d runs, %+v", runs.Load(), s)
		}
		w.after(1)
		if s := w.stats(); runs.Load() != 12 || s.Acked != 1 || s.Held != 0 {
			w.Errorf("%d runs, %+v", runs.Load(), s)
		}
	}, jobs.WithLogger(slog.New(panicking{slog.DiscardHandler})))
}

type panicking struct{ slog.Handler }

func (h panicking) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (panicking) Enabled(context.Context, slog.Level) bool { panic("no log") }

// TestServeGivesBackThoughTheBackoffDoesNotReturn: after the time of Backoff.
func TestServeGivesBackThoughTheBackoffDoesNotReturn(t *testing.T) {
	for name, f := range map[string]func(){
		"panic":  func() { panic("no time") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(_ context.Context, j *jobs.Job) error {
				if j.Attempt == 1 {
					return errors.New("fails once")
				}
				return nil
			}, func(w *world) {
				w.put("a")
				if s := w.stats(); s.Held != 0 || s.Retried != 1 || w.s.lastNak > time.Second || w.s.lastNak < 800*time.Millisecond || w.p.Stats().Failed != 1 {
					w.Errorf("given back for %v, %+v", w.s.lastNak, s)
				}
				w.after(time.Second)
				if s := w.stats(); s.Acked != 1 || s.Leased != 2 {
					w.Errorf("%+v", s)
				}
			}, jobs.WithBackoff(func(int) time.Duration { f(); return time.Hour }))
		})
	}
}

// TestAHandlerMayChangeItsJob: also while its time limit passes, or its lease is lost. Run with
// -race. The attempt that counts is that of the source.
func TestAHandlerMayChangeItsJob(t *testing.T) {
	runs := 0
	inWorld(t, 1, func(ctx context.Context, j *jobs.Job) error {
		runs++
		for ctx.Err() == nil {
			j.ID, j.Attempt, j.Header = "mine", 0, jobs.Header{jobs.TypeHeader: "mine"}
			time.Sleep(100 * time.Millisecond)
		}
		j.Attempt = 0
		return ctx.Err()
	}, func(w *world) {
		w.put("a")
		w.after(time.Minute)
		if s := w.stats(); s.Dead != 1 || s.TimedOut != 2 || runs != 2 {
			w.Errorf("%d runs, %+v", runs, s)
		}
	}, jobs.WithTimeLimit(time.Second), jobs.WithMaxAttempts(2), jobs.WithBackoff(func(int) time.Duration { return 0 }))
}

// TestServeEndsJobsAtTheirTimeLimit: by type, and at each attempt.
func TestServeEndsJobsAtTheirTimeLimit(t *testing.T) {
	h := func(ctx context.Context, j *jobs.Job) error {
		switch string(j.Data) {
		case "short":
			time.Sleep(59 * time.Second)
			return nil
		case "deaf":
			time.Sleep(time.Hour)
			return nil
		case "put off":
			<-ctx.Done()
			return jobs.Retry(24 * time.Hour)
		case "free": // until the pool is closed
			<-ctx.Done()
			return nil
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); cause != jobs.ErrTimeLimit {
			t.Errorf("job %s: the cause is %v", j.ID, cause)
		}
		return ctx.Err()
	}
	inWorld(t, 8, h, func(w *world) {
		typed := func(id, kind string) {
			m := jobs.Message{ID: id, Data: []byte(id), Header: jobs.Header{jobs.TypeHeader: kind}}
			if err := w.s.Enqueue(w.ctx, m); err != nil {
				t.Fatal(err)
			}
		}
		w.put("short", "deaf", "put off", "hangs")
		typed("report", "report")
		typed("free", "free")
		want := func(held int, timedOut, dead uint64) {
			t.Helper()
			if s := w.stats(); s.Held != held || s.TimedOut != timedOut || s.Dead != dead {
				t.Errorf("%v: %d held, %d timed out, %d dead; want %d, %d, %d", time.Since(w.start), s.Held, s.TimedOut, s.Dead, held, timedOut, dead)
			}
		}
		w.after(time.Minute - 1)
		want(5, 0, 0)
		w.after(1)
		want(3, 3, 0) // deaf, put off, and hangs, which comes again after a second
		w.after(time.Minute + time.Second)
		want(3, 4, 1)
		w.after(8 * time.Minute)
		want(3, 5, 1) // report, which runs again
		w.after(time.Hour)
		want(1, 6, 2)
		dead, err := w.s.DeadLetters(w.ctx, jobs.DeadFilter{IDs: []string{"hangs"}})
		if err != nil || len(dead) != 1 || !strings.Contains(dead[0].Reason, "time limit exceeded: it is 1m0s") {
			t.Errorf("%v, %v", dead, err)
		}
	}, jobs.WithTimeLimit(time.Minute), jobs.WithTimeLimit(10*time.Minute, "report", "export"), jobs.WithTimeLimit(0, "free"),
		jobs.WithMaxAttempts(2), jobs.WithBackoff(func(int) time.Duration { return time.Second }))
}

// TestATimeLimitIsNamedOnce: also if the handler returns the cause of its context.
func TestATimeLimitIsNamedOnce(t *testing.T) {
	for want, result := range map[string]func(cause error) error{
		"jobs: time limit exceeded: it is 50ms":                                   func(cause error) error { return cause },
		"jobs: time limit exceeded: it is 50ms: fetch: jobs: time limit exceeded": func(cause error) error { return fmt.Errorf("fetch: %w", cause) },
		"jobs: time limit exceeded: it is 50ms: context deadline exceeded":        func(error) error { return context.DeadlineExceeded },
		"jobs: time limit exceeded: it is 50ms: jobs: stopped":                    func(error) error { return jobs.ErrStopped },
	} {
		inWorld(t, 1, func(ctx context.Context, _ *jobs.Job) error {
			<-ctx.Done()
			return result(context.Cause(ctx))
		}, func(w *world) {
			w.put("a")
			w.after(time.Second)
			if have := w.stats().LastFailure.Error; have != want {
				w.Errorf("%q, want %q", have, want)
			}
		}, jobs.WithTimeLimit(50*time.Millisecond))
	}
}

func TestServeBuriesAfterMaxAttempts(t *testing.T) {
	for _, most := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			ran := 0
			inWorld(t, 1, func(context.Context, *jobs.Job) error { ran++; panic("again") }, func(w *world) {
				w.put("a")
				w.after(24 * time.Hour)
				if most == 0 {
					if len(w.s.Dead()) != 0 || ran < 100 {
						w.Errorf("%d attempts, %d dead letters without a limit", ran, len(w.s.Dead()))
					}
					return
				}
				d := w.s.Dead()
				if ran != most || len(d) != 1 || d[0].Attempt != most || !strings.Contains(d[0].Reason, fmt.Sprintf("attempt %d of %d: panic: again", most, most)) {
					w.Errorf("%d attempts, %+v", ran, d)
				}
			}, jobs.WithMaxAttempts(most))
		})
	}
}

// TestServeSaysThatAJobHadMoreAttempts than the limit: those that did not settle it count too.
func TestServeSaysThatAJobHadMoreAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newSpy(), t.Context()
		s.Enqueue(ctx, jobs.Message{ID: "a"})
		for range 2 {
			ds, err := s.Queue.Pull(ctx, 1)
			if err != nil || len(ds) != 1 {
				t.Fatal(ds, err)
			}
		}
		p := shoal.Must(shoal.New())
		defer p.Close()
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error)
		go func() {
			ended <- jobs.Serve(ctx, p, s, func(context.Context, *jobs.Job) error { return errors.New("no") }, quietly, jobs.WithMaxAttempts(2))
		}()
		time.Sleep(lease + time.Second)
		if d := s.Dead(); len(d) != 1 || d[0].Reason != "attempt 3, over the limit of 2: no" {
			t.Errorf("%+v", d)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestServeBuriesWhatItsLeasesDidNotSettle: a job that kills its process leaves no
// result, only leases that are over.
func TestServeBuriesWhatItsLeasesDidNotSettle(t *testing.T) {
	for most, want := range map[int]int{0: 1, 3: 0, 4: 1} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, ctx, ran := newSpy(), t.Context(), 0
				s.Enqueue(ctx, jobs.Message{ID: "a"})
				for range 3 {
					if ds, err := s.Queue.Pull(ctx, 1); err != nil || len(ds) != 1 {
						t.Fatal(ds, err)
					}
				}
				p := shoal.Must(shoal.New())
				defer p.Close()
				ctx, cancel := context.WithCancel(ctx)
				ended := make(chan error)
				go func() {
					ended <- jobs.Serve(ctx, p, s, func(context.Context, *jobs.Job) error { ran++; return nil }, quietly, jobs.WithMaxAttempts(1), jobs.WithMaxLeases(most))
				}()
				time.Sleep(lease + time.Second)
				synctest.Wait()
				dead := s.Dead()
				if ran != want || len(dead) != 1-want || s.Len() != 0 {
					t.Errorf("lease 4 with at most %d: ran %d times, dead letters %+v", most, ran, dead)
				}
				if want == 0 && len(dead) == 1 && (dead[0].Attempt != 4 || !strings.Contains(dead[0].Reason, "lease 4, over the limit of 3: not run")) {
					t.Errorf("%+v", dead)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestServeCountsFailures(t *testing.T) {
	inWorld(t, 1, func(_ context.Context, j *jobs.Job) error {
		switch string(j.Data) {
		case "panic":
			panic("x")
		case "error":
			return errors.New("x")
		case "retry":
			return jobs.Retry(time.Hour)
		}
		return nil
	}, func(w *world) {
		w.put("fine", "panic", "error", "retry")
		if s := w.p.Stats(); s.Failed != 2 || s.Completed != 4 {
			w.Errorf("%d of %d failed", s.Failed, s.Completed)
		}
	})
}

func TestServeExtendsEveryThird(t *testing.T) {
	inWorld(t, 2, func(ctx context.Context, j *jobs.Job) error {
		time.Sleep(5*lease - time.Second)
		return context.Cause(ctx)
	}, func(w *world) {
		w.put("a")
		w.after(5*lease + time.Second)
		if w.s.acks != 1 {
			w.Errorf("it was not done: %+v", w.stats())
		}
		for i, at := range w.s.extended {
			if d, want := at.Sub(w.start), time.Duration(i+1)*lease/3; d != want {
				w.Errorf("extension %d after %v, want %v", i, d, want)
			}
		}
		if n := len(w.s.extended); n != 14 {
			w.Errorf("%d extensions", n)
		}
	})
}

// A distant source leases jobs, and its answer takes long.
type distant struct {
	*spy
	takes time.Duration
	wrap  func(jobs.Delivery) jobs.Delivery
}

func (s distant) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := s.spy.Pull(ctx, n)
	leased := time.Now()
	for i, d := range ds {
		ds[i] = s.wrap(dated{d, leased})
	}
	if len(ds) > 0 {
		time.Sleep(s.takes)
	}
	return ds, err
}

type dated struct {
	jobs.Delivery
	leased time.Time
}

func (d dated) Leased() time.Time { return d.leased }

type outer struct{ jobs.Delivery }

func (d outer) Unwrap() jobs.Delivery { return d.Delivery }

// TestServeExtendsWhatCameLate: before its lease is over, which has begun before the Pull has returned.
func TestServeExtendsWhatCameLate(t *testing.T) {
	for name, wrap := range map[string]func(jobs.Delivery) jobs.Delivery{
		"plain":   func(d jobs.Delivery) jobs.Delivery { return d },
		"wrapped": func(d jobs.Delivery) jobs.Delivery { return outer{outer{d}} },
	} {
		for takes, first := range map[time.Duration]time.Duration{lease / 4: lease / 3, lease * 3 / 4: lease * 3 / 4} {
			t.Run(fmt.Sprint(name, " ", takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := shoal.Must(shoal.New())
					defer p.Close()
					s := newSpy()
					fill(t, s, 1)
					begin := time.Now()
					ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
					defer cancel()
					err := jobs.Serve(ctx, p, distant{s, takes, wrap}, func(ctx context.Context, j *jobs.Job) error {
						time.Sleep(lease / 2)
						if ctx.Err() != nil || j.Attempt != 1 {
							t.Errorf("attempt %d: %v", j.Attempt, context.Cause(ctx))
						}
						return nil
					}, quietly)
					if err != nil || s.acks != 1 {
						t.Errorf("%v, %d acknowledged", err, s.acks)
					}
					if len(s.extended) == 0 || s.extended[0].Sub(begin) != first {
						t.Errorf("extended at %v, want %v after the beginning", s.extended, first)
					}
				})
			})
		}
	}
}

func TestServeExtendsWhatNeedsItOnly(t *testing.T) {
	inWorld(t, 2, func(ctx context.Context, j *jobs.Job) error {
		if string(j.Data) == "long" {
			time.Sleep(lease / 2)
		}
		return nil
	}, func(w *world) {
		w.put("1", "2", "long", "3")
		w.after(lease/3 - time.Second)
		for i := range 100 {
			w.put(fmt.Sprint("short ", i))
		}
		w.after(lease)
		if w.s.exts != 1 || w.s.acks != 104 {
			w.Errorf("%d extensions, %d done", w.s.exts, w.s.acks)
		}
	})
}

// causes are why the contexts of jobs ended that wait for that.
type causes struct {
	mu   sync.Mutex
	list []error
	at   time.Time // of the last
}

func (c *causes) handler(ctx context.Context, j *jobs.Job) error {
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list, c.at = append(c.list, context.Cause(ctx)), time.Now()
	return ctx.Err()
}

func (c *causes) all() ([]error, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list), c.at
}

func TestServeCancelsWhenTheLeaseIsLost(t *testing.T) {
	var c causes
	h := c.handler
	t.Run("as the source says", func(t *testing.T) {
		inWorld(t, 1, h, func(w *world) {
			w.s.set(func() { w.s.failExtend = fmt.Errorf("gone: %w", jobs.ErrLeaseLost) })
			w.put("a")
			w.after(lease/3 + time.Second)
			if all, at := c.all(); len(all) != 1 || all[0] != jobs.ErrLeaseLost || at.Sub(w.start) != lease/3 {
				w.Errorf("%v after %v", all, at.Sub(w.start))
			}
			if s := w.stats(); s.LeasesLost != 1 || s.Held != 0 || w.s.naks+w.s.acks+w.s.terms != 0 {
				w.Errorf("%+v", s)
			}
		})
	})
	t.Run("as the source cannot be reached", func(t *testing.T) {
		inWorld(t, 1, h, func(w *world) {
			c.list = nil
			w.s.set(func() { w.s.failExtend = errors.New("no route to host") })
			w.put("a")
			w.after(lease - time.Second)
			if all, at := c.all(); len(all) != 0 {
				w.Errorf("given up after %v", at.Sub(w.start))
			}
			w.after(2 * time.Second)
			if all, at := c.all(); len(all) != 1 || all[0] != jobs.ErrLeaseLost || at.Sub(w.start) != lease {
				w.Errorf("%v after %v", all, at.Sub(w.start))
			}
			if w.s.exts < 4 {
				w.Errorf("tried %d times", w.s.exts)
			}
		})
	})
}

// TestServeExtendsBesideEachOther: an extension that takes long holds up neither those of
// other jobs, nor the news that a lease is over.
func TestServeExtendsBesideEachOther(t *testing.T) {
	hang := func(ctx context.Context, id string) error {
		if strings.HasPrefix(id, "slow") {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	t.Run("one is in time", func(t *testing.T) {
		inWorld(t, 11, func(ctx context.Context, j *jobs.Job) error {
			if j.ID != "fine" {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(3 * lease)
			return context.Cause(ctx)
		}, func(w *world) {
			w.s.set(func() { w.s.extend = hang })
			for i := range 10 {
				w.put(fmt.Sprint("slow ", i))
			}
			w.put("fine")
			w.after(3*lease + time.Second)
			if s := w.stats(); s.Acked != 1 || s.LeasesLost < 10 {
				w.Errorf("%+v", s)
			}
		}, jobs.WithMaxAttempts(1))
	})
	t.Run("all are lost in time", func(t *testing.T) {
		const n = 40
		var c causes
		inWorld(t, n, c.handler, func(w *world) {
			w.s.set(func() { w.s.extend = hang })
			for i := range n {
				w.put(fmt.Sprint("slow ", i))
			}
			w.after(lease - 1)
			if all, at := c.all(); len(all) != 0 {
				w.Errorf("given up after %v", at.Sub(w.start))
			}
			w.after(1)
			all, at := c.all()
			if len(all) != n || at.Sub(w.start) != lease {
				w.Errorf("%d lost, the last after %v", len(all), at.Sub(w.start))
			}
			for _, err := range all {
				if err != jobs.ErrLeaseLost {
					w.Error(err)
				}
			}
		}, jobs.WithMaxAttempts(1))
	})
}

// TestServeNotesTheEndOfALeaseDuringItsExtension: of a source that does not heed contexts.
func TestServeNotesTheEndOfALeaseDuringItsExtension(t *testing.T) {
	var c causes
	inWorld(t, 1, func(ctx context.Context, j *jobs.Job) error {
		if j.Attempt > 1 {
			return nil
		}
		return c.handler(ctx, j)
	}, func(w *world) {
		w.s.set(func() { w.s.extend = func(context.Context, string) error { time.Sleep(2 * lease); return nil } })
		w.put("a")
		w.after(lease)
		if all, at := c.all(); len(all) != 1 || at.Sub(w.start) != lease {
			w.Errorf("%v after %v", all, at.Sub(w.start))
		}
		w.after(2 * lease)
		if s := w.stats(); s.Extended != 0 || s.LeasesLost != 1 || s.Acked != 1 {
			w.Errorf("%+v", s)
		}
	})
}

// TestServeCountsALostLeaseOnce, also if its end is noted while the result is told.
func TestServeCountsALostLeaseOnce(t *testing.T) {
	inWorld(t, 1, func(_ context.Context, j *jobs.Job) error {
		if j.Attempt > 1 {
			return nil
		}
		time.Sleep(lease - time.Second)
		return errors.New("failed")
	}, func(w *world) {
		w.s.set(func() {
			w.s.extend = func(context.Context, string) error { time.Sleep(2 * lease); return nil }
			w.s.failNak = errors.New("the queue is away")
		})
		w.put("a")
		w.after(4 * lease)
		if s := w.stats(); s.LeasesLost != 1 || s.Acked != 1 || s.Leased != uint64(s.Held)+s.Acked+s.Retried+s.Dead+s.LeasesLost+s.Untold {
			w.Errorf("it does not add up: %+v", s)
		}
	})
}

// TestServeSlowsDownWhatIsStoppedByNothing: otherwise such a job would run again and again, without a
// pause and without a warning.
func TestServeSlowsDownWhatIsStoppedByNothing(t *testing.T) {
	var runs atomic.Int64
	var log strings.Builder
	inWorld(t, 1, func(_ context.Context, j *jobs.Job) error {
		if runs.Add(1); j.Attempt != 1 {
			t.Errorf("attempt %d", j.Attempt)
		}
		return fmt.Errorf("by hand: %w", jobs.ErrStopped)
	}, func(w *world) {
		w.put("a")
		w.after(9500 * time.Millisecond)
		if n := runs.Load(); n != 110 {
			w.Errorf("%d runs in 9.5 s, want 11 each second", n)
		}
		if s := w.stats(); s.Leased != 110 || s.Retried != 109 || s.Held != 1 || s.LastFailure.ID != "" {
			w.Errorf("%+v", s)
		}
		w.cancel()
		w.stops(0, nil)
		if n := strings.Count(log.String(), "nothing stops their jobs"); n != 10 {
			w.Errorf("it was told %d times, want 10: %s", n, log.String())
		}
	}, jobs.WithMaxAttempts(1), jobs.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
}

// TestServeTellsWhatIsStoppedAtOnce, if something stops it.
func TestServeTellsWhatIsStoppedAtOnce(t *testing.T) {
	for name, stop := range map[string]func(*world){
		"Serve ends": func(w *world) { w.cancel() },
		"its pool":   func(w *world) { go w.p.Close(); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			const workers = 16
			var end chan struct{}
			inWorld(t, workers, func(context.Context, *jobs.Job) error {
				<-end
				return jobs.ErrStopped
			}, func(w *world) {
				end = make(chan struct{})
				for i := range workers {
					w.put(fmt.Sprint(i))
				}
				stop(w)
				close(end)
				synctest.Wait()
				if w.s.naks != workers || w.s.held != 0 {
					w.Errorf("%d are held, %d were given back", w.s.held, w.s.naks)
				}
			})
		})
	}
}

// TestServeCountsAStopAfterTheTimeLimit as a failure: a handler that returns ErrStopped whenever
// its context ends would run for ever.
func TestServeCountsAStopAfterTheTimeLimit(t *testing.T) {
	inWorld(t, 1, func(ctx context.Context, _ *jobs.Job) error {
		<-ctx.Done()
		return jobs.ErrStopped
	}, func(w *world) {
		w.put("a")
		w.after(time.Minute)
		if s := w.stats(); s.Dead != 1 || s.TimedOut != 2 || !strings.Contains(s.LastFailure.Error, "time limit") {
			w.Errorf("%+v", s)
		}
		if s := w.p.Stats(); s.Failed != 2 {
			w.Errorf("the pool counts %d failures, want 2", s.Failed)
		}
	}, jobs.WithTimeLimit(time.Second), jobs.WithMaxAttempts(2), jobs.WithBackoff(func(int) time.Duration { return 0 }))
}

// TestServeExtendsNothingOnceItAnswers: an extension after the answer could undo it.
func TestServeExtendsNothingOnceItAnswers(t *testing.T) {
	t.Run("while it tries again", func(t *testing.T) {
		inWorld(t, 1, func(context.Context, *jobs.Job) error {
			time.Sleep(lease/3 - time.Second)
			return jobs.Retry(time.Hour)
		}, func(w *world) {
			w.s.set(func() { w.s.failNak = errors.New("no answer") })
			w.put("a")
			w.after(lease - time.Second)
			if w.s.exts != 0 || w.s.naks < 3 {
				w.Errorf("%d extensions, %d calls to give it back", w.s.exts, w.s.naks)
			}
		})
	})
	t.Run("and waits for one that is under way", func(t *testing.T) {
		inWorld(t, 1, func(context.Context, *jobs.Job) error {
			time.Sleep(lease/3 + time.Second)
			return jobs.Retry(time.Hour)
		}, func(w *world) {
			early := 0
			w.s.set(func() {
				w.s.extend = func(context.Context, string) error {
					time.Sleep(2 * time.Second)
					w.s.set(func() { early += w.s.naks })
					return nil
				}
			})
			w.put("a")
			w.after(lease - time.Second)
			if early != 0 || w.s.exts != 1 || w.s.naks != 1 {
				w.Errorf("%d extensions, given back %d times, %d during an extension", w.s.exts, w.s.naks, early)
			}
		})
	})
}

// TestServeTellsUntilTheLeaseIsOver: after that an answer might concern the next attempt.
func TestServeTellsUntilTheLeaseIsOver(t *testing.T) {
	inWorld(t, 1, func(context.Context, *jobs.Job) error { time.Sleep(lease/3 - time.Second); return nil }, func(w *world) {
		w.s.set(func() { w.s.failAck = errors.New("no route to host") })
		w.put("a")
		w.after(lease - 1)
		if s := w.stats(); s.Untold != 0 {
			w.Errorf("%+v", s)
		}
		w.after(1)
		if s := w.stats(); s.Untold != 1 {
			w.Errorf("%+v", s)
		}
	})
}

// TestServeExtendsWhileItGivesBack: a job that is given back to a source that is slow to
// take it does not hold up the extension of one that runs.
func TestServeExtendsWhileItGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpy()
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		var ran atomic.Int64
		go func() {
			ended <- jobs.Serve(ctx, p, pausing{s, p, "waits"}, func(ctx context.Context, j *jobs.Job) error {
				if ran.Add(1); j.ID == "runs" {
					time.Sleep(3 * lease)
				}
				return context.Cause(ctx)
			}, quietly)
		}()
		s.Enqueue(ctx, jobs.Message{ID: "runs"})
		synctest.Wait()
		s.set(func() { s.hangNak = true })
		s.Enqueue(ctx, jobs.Message{ID: "waits"})
		synctest.Wait() // leased, and waits in a paused pool
		time.Sleep(3*lease + time.Second)
		synctest.Wait()
		if s.acks != 1 {
			t.Errorf("%d acknowledged, %+v", s.acks, jobs.Of(p))
		}
		s.set(func() { s.hangNak = false })
		p.Resume()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		p.Close()
	})
}

// A job that its own handler has acknowledged, as in a transaction, is done, whatever the
// handler returns after that, and its lease is no more to be extended.
func TestServeKnowsWhatTheHandlerHasAcknowledged(t *testing.T) {
	inWorld(t, 2, func(ctx context.Context, j *jobs.Job) error {
		if err := j.Delivery().Ack(ctx); err != nil {
			return err
		}
		time.Sleep(2 * lease)
		if err := context.Cause(ctx); err != nil {
			t.Errorf("its context has ended: %v", err)
		}
		return errors.New("late")
	}, func(w *world) {
		w.s.set(func() {
			w.s.failExtend = fmt.Errorf("job: %w", jobs.ErrAcked)
			w.s.failNak = fmt.Errorf("job: %w", jobs.ErrAcked)
		})
		w.put("a", "b")
		w.after(2*lease + time.Second)
		if s := w.stats(); s.Acked != 2 || s.LeasesLost != 0 || s.Retried != 0 || s.Extended != 0 || s.Held != 0 || w.s.exts != 2 {
			w.Errorf("%d extensions, %+v", w.s.exts, s)
		}
	})
}

func TestServeTriesToTellAgain(t *testing.T) {
	inWorld(t, 1, func(context.Context, *jobs.Job) error { return nil }, func(w *world) {
		w.s.set(func() { w.s.failAck = errors.New("no route to host") })
		w.put("a")
		w.after(3 * time.Second)
		w.s.set(func() { w.s.failAck = nil })
		w.after(10 * time.Second)
		if w.s.acks != 1 || w.s.Len() != 0 {
			w.Errorf("%d acknowledged, %d left", w.s.acks, w.s.Len())
		}
		w.s.set(func() { w.s.hangAck = true })
		w.put("b")
		w.after(2 * lease)
		if s := w.stats(); s.Untold != 1 {
			w.Errorf("%+v", s)
		}
	})
}

func TestServeDrains(t *testing.T) {
	inWorld(t, 3, func(ctx context.Context, j *jobs.Job) error { time.Sleep(5 * time.Second); return nil }, func(w *world) {
		w.put("a", "b", "c", "d")
		w.cancel()
		w.stops(5*time.Second, nil)
		if w.s.acks != 3 || w.s.naks != 0 || w.s.most != 3 {
			w.Errorf("%d acknowledged, %d given back, at most %d held", w.s.acks, w.s.naks, w.s.most)
		}
	})
}

func TestServeGivesBackAfterTheDrain(t *testing.T) {
	var c causes
	inWorld(t, 1, c.handler, func(w *world) {
		w.put("a")
		w.cancel()
		w.after(10*time.Second - 1)
		if all, _ := c.all(); len(all) != 0 {
			w.Errorf("cancelled before the drain was over: %v", all)
		}
		w.stops(2*time.Second, nil)
		if all, _ := c.all(); w.s.naks != 1 || w.s.lastNak != 0 || len(all) != 1 || all[0] != jobs.ErrStopped {
			w.Errorf("%d given back, for %v; %v", w.s.naks, w.s.lastNak, all)
		}
		ds, err := w.s.Queue.Pull(context.Background(), 1)
		if err != nil || len(ds) != 1 || time.Since(w.start) > 12*time.Second {
			w.Errorf("another machine has %d jobs, %v, after %v", len(ds), err, time.Since(w.start))
		}
	})
}

// TestServeGivesBackTogether: what a Pull brings when it is not wanted any more goes back
// within one deadline, though the source takes nothing.
func TestServeGivesBackTogether(t *testing.T) {
	const n = 40
	synctest.Test(t, func(t *testing.T) {
		s := newSpy()
		s.hangNak = true
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(n)))
		ctx, cancel := context.WithCancel(t.Context())
		for i := range n {
			s.Enqueue(ctx, jobs.Message{ID: fmt.Sprint(i)})
		}
		start := time.Now()
		err := jobs.Serve(ctx, p, ending{s, cancel}, func(context.Context, *jobs.Job) error { return nil }, quietly, jobs.WithDrain(time.Second))
		if took := time.Since(start); took > lease {
			t.Errorf("Serve took %v to end", took)
		}
		if err != nil || s.acks != 0 || s.naks == 0 {
			t.Errorf("%v, %d acknowledged, %d calls to give back", err, s.acks, s.naks)
		}
		p.Close()
	})
}

// ending ends Serve when a Pull has jobs.
type ending struct {
	*spy
	end func()
}

func (s ending) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := s.spy.Pull(ctx, n)
	if len(ds) > 0 {
		s.end()
	}
	return ds, err
}

func TestServeDoesNotWaitForDeafHandlers(t *testing.T) {
	inWorld(t, 2, func(ctx context.Context, j *jobs.Job) error { time.Sleep(time.Hour); return nil }, func(w *world) {
		w.put("a", "b")
		w.cancel()
		err := <-w.err
		var a *jobs.AbandonedError
		if !errors.As(err, &a) || a.Running != 2 || w.s.naks != 2 {
			w.Errorf("Serve: %v, %d given back", err, w.s.naks)
		}
		if d := time.Since(w.start); d > 12*time.Second {
			w.Errorf("after %v", d)
		}
		w.after(2 * time.Hour)
		if w.s.acks != 0 {
			w.Error("what was given back was acknowledged")
		}
	})
}

// TestServeCancelsAllAtOnce, also if the source is slow to take jobs back.
func TestServeCancelsAllAtOnce(t *testing.T) {
	const n = 40
	var c causes
	inWorld(t, n, c.handler, func(w *world) {
		w.s.set(func() { w.s.hangNak = true })
		for i := range n {
			w.put(fmt.Sprint(i))
		}
		begin := time.Now()
		w.cancel()
		w.after(0)
		if all, at := c.all(); len(all) != n || !at.Equal(begin) {
			w.Errorf("%d of %d are cancelled, the last after %v", len(all), n, at.Sub(begin))
		}
		w.s.set(func() { w.s.hangNak = false })
		w.stops(lease, nil)
		if w.s.Len() != n || w.s.acks != 0 {
			w.Errorf("%d left, %d acknowledged", w.s.Len(), w.s.acks)
		}
	}, jobs.WithDrain(0))
}

// TestServeCancelsAtOnceThoughItGivesBack a job that did not start, to a source that is slow.
func TestServeCancelsAtOnceThoughItGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpy()
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		var c causes
		go func() {
			ended <- jobs.Serve(ctx, p, pausing{s, p, "waits"}, c.handler, quietly, jobs.WithDrain(0))
		}()
		for _, id := range []string{"runs", "waits"} {
			s.Enqueue(ctx, jobs.Message{ID: id})
			synctest.Wait()
		}
		s.set(func() { s.hangNak = true })
		begin := time.Now()
		cancel()
		synctest.Wait()
		if all, _ := c.all(); len(all) != 1 || all[0] != jobs.ErrStopped {
			t.Errorf("after %v: %v", time.Since(begin), all)
		}
		err := <-ended
		if all, _ := jobs.Total(p); err != nil || all.Untold != 2 || all.Held != 0 {
			t.Errorf("%v, %+v", err, all)
		}
		p.Resume()
		p.Close()
	})
}

// TestServeExtendsWhatWaitsToBeGivenBack: a source takes back only a few jobs at a time, and takes
// almost a lease for all, or more.
func TestServeExtendsWhatWaitsToBeGivenBack(t *testing.T) {
	t.Run("less than a lease", func(t *testing.T) { extendsWhatWaits(t, 3*time.Second, 400*time.Millisecond) })
	t.Run("more than a lease", func(t *testing.T) { extendsWhatWaits(t, time.Second, 200*time.Millisecond) })
}

func extendsWhatWaits(t *testing.T, lease, slow time.Duration) {
	const n = 100
	synctest.Test(t, func(t *testing.T) {
		s := &spy{Queue: jobstest.NewQueue(lease), slowNak: slow} // for 7 rounds
		fill(t, s, n)
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(n)))
		defer p.Close()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		var c causes
		go func() { ended <- jobs.Serve(ctx, p, s, c.handler, quietly, jobs.WithDrain(0)) }()
		time.Sleep(lease/3 - lease/30) // just before they are extended
		cancel()
		err := <-ended
		if all, _ := jobs.Total(p); err != nil || all.Retried != n || all.LeasesLost != 0 || all.Untold != 0 || s.Len() != n {
			t.Errorf("%v, %d are left, %+v", err, s.Len(), all)
		}
	})
}

// TestServeGivesBackThoughThePullPanics: the handlers are told, and no lease is extended after that.
func TestServeGivesBackThoughThePullPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpy()
		fill(t, s, 1)
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
		defer p.Close()
		var c causes
		func() {
			defer func() {
				if r := recover(); r != "pull" {
					t.Errorf("%v", r)
				}
			}()
			src := &onceThen{spy: s, then: func(context.Context) {
				synctest.Wait() // the job runs
				panic("pull")
			}}
			jobs.Serve(context.Background(), p, src, c.handler, quietly, jobs.WithDrain(0))
		}()
		synctest.Wait()
		if all, _ := c.all(); len(all) != 1 || all[0] != jobs.ErrStopped {
			t.Errorf("the handler was told %v", all)
		}
		time.Sleep(time.Hour)
		if all, _ := jobs.Total(p); all.Leased != 1 || all.Retried != 1 || all.Held != 0 || s.exts != 0 || s.Len() != 1 {
			t.Errorf("%d are left, %d extensions, %+v", s.Len(), s.exts, all)
		}
		if len(jobs.Of(p)) != 0 {
			t.Error("a Serve that has ended is still listed")
		}
	})
}

// A onceThen source leases jobs in its first Pull only. The later ones call then.
type onceThen struct {
	*spy
	again bool
	then  func(ctx context.Context)
}

func (s *onceThen) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if s.again {
		s.then(ctx)
		return nil, ctx.Err()
	}
	s.again = true
	return s.spy.Pull(ctx, n)
}

// TestServeReturnsItsErrorAsItIs, if it is one, and else both.
func TestServeReturnsItsErrorAsItIs(t *testing.T) {
	h := func(_ context.Context, j *jobs.Job) error {
		if j.ID == "deaf" {
			time.Sleep(time.Hour)
		}
		return nil
	}
	t.Run("closed", func(t *testing.T) {
		inWorld(t, 1, h, func(w *world) {
			w.p.Shutdown(context.Background())
			if err := <-w.err; err != shoal.ErrClosed {
				w.Errorf("Serve: %v", err)
			}
		})
	})
	t.Run("abandoned", func(t *testing.T) {
		inWorld(t, 1, h, func(w *world) {
			w.put("deaf")
			w.cancel()
			err := <-w.err
			if a, ok := err.(*jobs.AbandonedError); !ok || a.Running != 1 {
				w.Errorf("Serve: %v", err)
			}
			w.after(time.Hour)
		})
	})
	t.Run("both", func(t *testing.T) {
		inWorld(t, 1, h, func(w *world) {
			w.put("deaf")
			go w.p.Close()
			err := <-w.err
			var a *jobs.AbandonedError
			if !errors.Is(err, shoal.ErrClosed) || !errors.As(err, &a) || a.Running != 1 {
				w.Errorf("Serve: %v", err)
			}
			w.after(time.Hour)
		})
	})
}

// TestServeEndsThoughTheSourceIsDeaf: to the end of the contexts of its answers and extensions.
func TestServeEndsThoughTheSourceIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(40)))
		s := deafAnswers{newSpy(), make(chan struct{})}
		fill(t, s.spy, 40)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- jobs.Serve(ctx, p, s, func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() }, quietly)
		}()
		time.Sleep(lease / 2) // so they are being extended
		begin := time.Now()
		cancel()
		select {
		case err := <-ended:
			t.Logf("ended after %v: %v", time.Since(begin), err)
		case <-time.After(time.Minute):
			t.Error("Serve has not ended after a minute")
		}
		close(s.until)
		p.Close()
	})
}

type deafAnswers struct {
	*spy
	until chan struct{}
}

type deafAnswer struct {
	jobs.Delivery
	until chan struct{}
}

func (s deafAnswers) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := s.spy.Pull(ctx, n)
	for i, d := range ds {
		ds[i] = deafAnswer{d, s.until}
	}
	return ds, err
}

func (d deafAnswer) Release(ctx context.Context) error { <-d.until; return d.Delivery.Release(ctx) }

func (d deafAnswer) Extend(ctx context.Context) error { <-d.until; return d.Delivery.Extend(ctx) }

func TestServeEndsWithThePool(t *testing.T) {
	for name, end := range map[string]func(p *shoal.Pool){
		"Close":    func(p *shoal.Pool) { p.Close() },
		"Shutdown": func(p *shoal.Pool) { p.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(ctx context.Context, j *jobs.Job) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(3 * time.Second):
					return nil
				}
			}, func(w *world) {
				w.put("a", "b", "c")
				end(w.p)
				w.stops(4*time.Second, shoal.ErrClosed)
				if n := w.s.Len(); name == "Close" && (w.s.naks != 2 || w.s.lastNak != 0 || n != 3) || name == "Shutdown" && (w.s.acks != 2 || n != 1) {
					w.Errorf("%d acknowledged, %d given back, %d left", w.s.acks, w.s.naks, n)
				}
			})
		})
	}
}

// TestServeGivesBackWhatDoesNotStart: a job that was leased just before the pool was
// paused goes back when others displace it, or when the lease would have to be extended.
func TestServeGivesBackWhatDoesNotStart(t *testing.T) {
	for name, c := range map[string]struct {
		opts []shoal.Option
		then func(p *shoal.Pool)
	}{
		"discarded": {[]shoal.Option{shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest)}, func(p *shoal.Pool) {
			for range 3 {
				p.Submit(func() {})
			}
		}},
		"paused": {nil, func(p *shoal.Pool) { time.Sleep(lease/3 + time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpy()
				p := shoal.Must(shoal.New(append(c.opts, shoal.WithMaxWorkers(1))...))
				ctx, cancel := context.WithCancel(context.Background())
				err := make(chan error)
				ran := 0
				go func() {
					err <- jobs.Serve(ctx, p, pausing{s, p, ""}, func(context.Context, *jobs.Job) error { ran++; return nil }, quietly)
				}()
				s.Enqueue(ctx, jobs.Message{ID: "a"})
				synctest.Wait() // leased, and waits in a paused pool
				c.then(p)
				synctest.Wait()
				if ran != 0 || s.naks != 1 {
					t.Errorf("ran %d times, given back %d times", ran, s.naks)
				}
				p.Resume()
				synctest.Wait()
				if ran != 1 || s.acks != 1 {
					t.Errorf("ran %d times, acknowledged %d times", ran, s.acks)
				}
				cancel()
				if err := <-err; err != nil {
					t.Error(err)
				}
				p.Close()
			})
		})
	}
}

// pausing pauses the pool between the lease of a job, or the one named, and its start.
type pausing struct {
	*spy
	p  *shoal.Pool
	id string
}

func (s pausing) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := s.spy.Pull(ctx, n)
	given := 0
	s.set(func() { given = s.naks })
	if len(ds) > 0 && given == 0 && (s.id == "" || s.id == ds[0].ID()) {
		ds[0] = pauses{ds[0], s.p}
	}
	return ds, err
}

type pauses struct {
	jobs.Delivery
	p *shoal.Pool
}

func (d pauses) ID() string {
	d.p.Pause()
	return d.Delivery.ID()
}

func TestServeBearsASourceThatFails(t *testing.T) {
	inWorld(t, 1, func(context.Context, *jobs.Job) error { return nil }, func(w *world) {
		w.s.set(func() { w.s.failPull = errors.New("no route to host") })
		w.put("a") // the Pull that waits has it
		w.after(time.Minute)
		s := w.stats()
		if s.PullErrors < 10 || s.PullErrors > 20 || s.LastError != "no route to host" || s.LastErrorAt.IsZero() {
			w.Errorf("%+v", s)
		}
		if st := w.p.Stats(); st.Reserved != 0 {
			w.Error("places are kept while the source is away")
		}
		w.s.set(func() { w.s.failPull = nil })
		w.put("b")
		w.after(5 * time.Second)
		if w.s.acks != 2 {
			w.Errorf("%d done", w.s.acks)
		}
		w.s.set(func() { w.s.failPull = jobs.Permanent(errors.New("no such queue")) })
		w.put("c")
		err := <-w.err
		if !jobs.IsPermanent(err) || !strings.Contains(err.Error(), "no such queue") || !strings.Contains(err.Error(), "jobs_test.spy") {
			w.Errorf("Serve: %v", err)
		}
	})
}

func TestHandlersFindTheirJob(t *testing.T) {
	type mail struct{ To string }
	var got []string
	type traceKey struct{}
	key := traceKey{}
	inWorld(t, 1, jobs.Mux{
		"mail": jobs.Handle(func(ctx context.Context, m mail) error {
			j := jobs.From(ctx)
			got = append(got, fmt.Sprint(m.To, " ", j.ID, " ", j.Attempt, " ", j.Delivery() != nil, " ", ctx.Value(key)))
			return nil
		}),
	}.Handle, func(w *world) {
		m, err := jobs.Encode(mail{To: "a@example.com"})
		if err != nil {
			w.Fatal(err)
		}
		m.ID, m.Header = "7", jobs.Header{jobs.TypeHeader: "mail", "trace": "t1"}
		w.s.Enqueue(w.ctx, m)
		w.after(0)
		if want := "[a@example.com 7 1 true t1]"; fmt.Sprint(got) != want {
			w.Errorf("%v, want %s", got, want)
		}
		if jobs.From(w.ctx) != nil {
			w.Error("a job in a context that has none")
		}
	}, jobs.WithJobContext(func(ctx context.Context, j *jobs.Job) context.Context {
		return context.WithValue(ctx, key, j.Header["trace"])
	}))
	if _, err := jobs.Encode(make(chan int)); err == nil {
		t.Error("a channel was encoded")
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	for attempt, most := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1 << 30: 5 * time.Minute} {
		for range 100 {
			if d := jobs.Backoff(attempt); d > most || d < most*4/5 {
				t.Fatalf("after attempt %d: %v, want up to %v", attempt, d, most)
			}
		}
	}
}

// TestServeUnderFire: everything at once, on several machines; no job is lost.
func TestServeUnderFire(t *testing.T) {
	const n, machines = 2000, 3
	q := jobstest.NewQueue(200 * time.Millisecond)
	var done [n]atomic.Int64
	var left atomic.Int64
	left.Store(n)
	finished := make(chan struct{})
	for i := range n {
		if err := q.Enqueue(context.Background(), jobs.Message{Data: fmt.Appendf(nil, "%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	h := func(ctx context.Context, j *jobs.Job) error {
		var i int
		fmt.Sscan(string(j.Data), &i)
		switch {
		case i%7 == j.Attempt:
			return errors.New("fails once")
		case i%11 == j.Attempt:
			panic("once")
		case i%13 == j.Attempt:
			runtime.Goexit()
		case i%17 == j.Attempt:
			return jobs.Retry(time.Millisecond)
		}
		if done[i].Add(1) == 1 && left.Add(-1) == 0 {
			close(finished)
		}
		return nil
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for m := range machines {
		wg.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1+m*3), shoal.WithPanicHandler(func(*shoal.PanicError) {})))
				sctx, stop := context.WithCancel(ctx)
				serving := make(chan struct{})
				go func() {
					defer close(serving)
					err := jobs.Serve(sctx, p, q, h, quietly, jobs.WithDrain(time.Duration(round%3)*time.Millisecond),
						jobs.WithBackoff(func(int) time.Duration { return 0 }), jobs.WithMaxAttempts(0))
					if err != nil && !errors.Is(err, shoal.ErrClosed) {
						t.Errorf("Serve: %v", err)
					}
				}()
				for i := range 20 {
					time.Sleep(time.Millisecond)
					switch i % 5 {
					case 0:
						p.Pause()
					case 1:
						p.Resume()
					case 2:
						p.Resize(0, 1+(round+i)%6)
					}
				}
				p.Resume()
				if round%2 == 0 {
					stop()
					<-serving
					p.Close()
				} else {
					p.Close()
					<-serving
					stop()
				}
			}
		})
	}
	select {
	case <-finished:
	case <-time.After(time.Minute):
		t.Errorf("%d jobs are not done", left.Load())
	}
	cancel()
	wg.Wait()
}

// What Retry and Poison made is known to code outside the package, wrapped or not.
func TestErrorsAreKnown(t *testing.T) {
	late := fmt.Errorf("the bank: %w", jobs.Retry(3*time.Second))
	if d, ok := jobs.RetryAfter(late); !ok || d != 3*time.Second {
		t.Errorf("RetryAfter(%v) is %v, %v; want 3s, true", late, d, ok)
	}
	bad := fmt.Errorf("the bank: %w", jobs.Poison(errors.New("no such account")))
	if !jobs.IsPoison(bad) {
		t.Errorf("IsPoison(%v) is false", bad)
	}
	for _, err := range []error{nil, errors.New("no such account"), bad} {
		if d, ok := jobs.RetryAfter(err); ok || d != 0 {
			t.Errorf("RetryAfter(%v) is %v, %v; want 0, false", err, d, ok)
		}
	}
	for _, err := range []error{nil, errors.New("no such account"), late} {
		if jobs.IsPoison(err) {
			t.Errorf("IsPoison(%v) is true", err)
		}
	}
}

func TestNewContext(t *testing.T) {
	j := &jobs.Job{ID: "7"}
	if got := jobs.From(jobs.NewContext(context.Background(), j)); got != j {
		t.Errorf("From finds %v, want %v", got, j)
	}
	if j.Delivery() != nil {
		t.Errorf("a job that was not leased has a delivery: %v", j.Delivery())
	}
}

// A job that hangs fails when its time is over; reports may take longer than the others.
func ExampleWithTimeLimit() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := shoal.Must(shoal.New())
	defer p.Close()
	q := jobstest.NewQueue(time.Minute)
	_ = q.Enqueue(ctx, jobs.Message{ID: "fetch"})
	err := jobs.Serve(ctx, p, q, func(ctx context.Context, j *jobs.Job) error {
		<-ctx.Done() // a call that heeds ctx, and hangs
		fmt.Println(j.ID, "ended:", context.Cause(ctx))
		cancel()
		return ctx.Err()
	}, jobs.WithTimeLimit(10*time.Millisecond), jobs.WithTimeLimit(time.Hour, "report"), jobs.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
	}
	// Output: fetch ended: jobs: time limit exceeded
}
