package jobs_test

import (
	"context"
	"errors"
	"log/slog"
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

// A hears is a log handler that is called with each record.
type hears func(slog.Record)

func (f hears) Handle(_ context.Context, r slog.Record) error { f(r); return nil }
func (hears) Enabled(context.Context, slog.Level) bool        { return true }
func (f hears) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f hears) WithGroup(string) slog.Handler                 { return f }

func untilEnd(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return ctx.Err() }

// TestServeBearsALoggerThatPanics, wherever it logs: the process goes on, and each job is counted.
func TestServeBearsALoggerThatPanics(t *testing.T) {
	bearsALogger(t, func() { panic("no log") })
}

// TestServeBearsALoggerThatDoesNotReturn, likewise.
func TestServeBearsALoggerThatDoesNotReturn(t *testing.T) { bearsALogger(t, runtime.Goexit) }

func bearsALogger(t *testing.T, ends func()) {
	takes := func(d time.Duration) jobs.Handler {
		return func(context.Context, *jobs.Job) error { time.Sleep(d); return nil }
	}
	fails := func(context.Context, *jobs.Job) error { return errors.New("failed") }
	away := errors.New("no route to host")
	for name, c := range map[string]struct {
		h    jobs.Handler
		set  func(s *onceThen)
		logs string
		want jobs.Stats
	}{
		"a lease runs out":           {untilEnd, func(s *onceThen) { s.failExtend = away }, "a lease was lost", jobs.Stats{LeasesLost: 1}},
		"an extension finds it lost": {untilEnd, func(s *onceThen) { s.failExtend = jobs.ErrLeaseLost }, "a lease was lost", jobs.Stats{LeasesLost: 1}},
		"an answer finds it lost":    {fails, func(s *onceThen) { s.failNak = jobs.ErrLeaseLost }, "a lease was lost", jobs.Stats{LeasesLost: 1}},
		"the handler has settled it": {fails, func(s *onceThen) { s.failNak = jobs.ErrAcked }, "the job counts as done", jobs.Stats{Acked: 1}},
		"the time limit is over":     {takes(lease + 2), func(*onceThen) {}, "exceeded its time limit", jobs.Stats{Acked: 1, TimedOut: 1}},
		"no answer":                  {takes(0), func(s *onceThen) { s.failAck = away }, "settling a job failed", jobs.Stats{Untold: 1}},
		"no answer at the end":       {takes(3 * lease), func(s *onceThen) { s.failNak = away }, "settling a job failed", jobs.Stats{TimedOut: 1, Untold: 1}},
		"a deaf source": {takes(0), func(s *onceThen) {
			s.then = func(ctx context.Context) { <-ctx.Done(); time.Sleep(lease) }
		}, "does not heed", jobs.Stats{Acked: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := shoal.Must(shoal.New())
				s := &onceThen{spy: newSpy(), then: func(ctx context.Context) { <-ctx.Done() }}
				c.set(s)
				fill(t, s.spy, 1)
				var logged atomic.Int64
				log := jobs.WithLogger(slog.New(hears(func(r slog.Record) {
					if strings.Contains(r.Message, c.logs) {
						logged.Add(1)
					}
					ends()
				})))
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() {
					ended <- jobs.Serve(ctx, p, s, c.h, log, jobs.WithDrain(0), jobs.WithTimeLimit(lease+1))
				}()
				time.Sleep(2 * lease)
				cancel()
				if err := <-ended; err != nil && !errors.As(err, new(*jobs.AbandonedError)) {
					t.Error(err)
				}
				got, _ := jobs.Total(p)
				got.Extended, got.LastFailure = 0, jobs.JobFailure{}
				if c.want.Leased = 1; got != c.want || logged.Load() != 1 {
					t.Errorf("logged %d times, %+v; want %+v", logged.Load(), got, c.want)
				}
				p.Close()
			})
		})
	}
}

// TestALoggerMayAskForStatistics, and so may the errors of a source.
func TestALoggerMayAskForStatistics(t *testing.T) {
	for name, c := range map[string]struct {
		h   jobs.Handler
		set func(s *spy, p *shoal.Pool)
	}{
		"a lease runs out":           {untilEnd, func(s *spy, _ *shoal.Pool) { s.failExtend = errors.New("no route to host") }},
		"an extension finds it lost": {untilEnd, func(s *spy, _ *shoal.Pool) { s.failExtend = jobs.ErrLeaseLost }},
		"an extension fails oddly":   {untilEnd, func(s *spy, p *shoal.Pool) { s.failExtend = isError(func() { jobs.Of(p) }) }},
		"an answer finds it lost": {func(context.Context, *jobs.Job) error { return nil }, func(s *spy, _ *shoal.Pool) {
			s.failAck = jobs.ErrLeaseLost
		}},
	} {
		t.Run(name, func(t *testing.T) { // in no bubble, in which a deadlock of mutexes is not seen
			p := shoal.Must(shoal.New())
			s := &spy{Queue: jobstest.NewQueue(100 * time.Millisecond)}
			c.set(s, p)
			fill(t, s, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			log := jobs.WithLogger(slog.New(hears(func(slog.Record) { jobs.Of(p); cancel() })))
			ended := make(chan error, 1)
			go func() {
				ended <- jobs.Serve(ctx, p, &onceThen{spy: s, then: func(ctx context.Context) { <-ctx.Done() }}, c.h, log)
			}()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("Serve hangs")
			}
			if all, _ := jobs.Total(p); all.LeasesLost != 1 {
				t.Errorf("%+v", all)
			}
			p.Close()
		})
	}
}

// TestServeBearsALoggerThatTakesNoAttributes: it logs without the name of the source.
func TestServeBearsALoggerThatTakesNoAttributes(t *testing.T) {
	var logged atomic.Int64
	log := jobs.WithLogger(slog.New(plain{hears(func(slog.Record) { logged.Add(1) })}))
	inWorld(t, 1, func(context.Context, *jobs.Job) error { return jobs.Poison(nil) }, func(w *world) {
		w.put("a")
		if s := w.stats(); s.Dead != 1 || logged.Load() != 1 {
			w.Errorf("logged %d times, %+v", logged.Load(), s)
		}
	}, log)
}

type plain struct{ slog.Handler }

func (plain) WithAttrs([]slog.Attr) slog.Handler { panic("no attributes") }
