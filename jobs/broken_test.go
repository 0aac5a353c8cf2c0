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

// This file is the tests with sources that are slow to take jobs back, or that break their contract.

// A lately source brings jobs at once in its first Pull, and in later ones when their context ends.
type lately struct {
	*spy
	again bool
}

func (s *lately) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if !s.again {
		s.again = true
		return s.spy.Pull(ctx, n)
	}
	<-ctx.Done()
	if err := s.Enqueue(context.Background(), jobs.Message{}, jobs.Message{}); err != nil {
		return nil, err
	}
	return s.spy.Pull(context.WithoutCancel(ctx), n)
}

// stages ends a Pull, which brings jobs that are not wanted any more.
var stages = map[string]func(p *shoal.Pool, cancel func()){
	"ends":   func(_ *shoal.Pool, cancel func()) { cancel() },
	"pauses": func(p *shoal.Pool, _ func()) { p.Pause(); synctest.Wait(); p.Resume() },
}

// inLately runs Serve with a source that is lately, and takes nothing back. One job runs.
func inLately(t *testing.T, h jobs.Handler, f func(t *testing.T, p *shoal.Pool, cancel func(), ended <-chan error)) {
	synctest.Test(t, func(t *testing.T) {
		s := &lately{spy: newSpy()}
		fill(t, s.spy, 1)
		s.hangNak = true
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(3)))
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- jobs.Serve(ctx, p, s, h, quietly, jobs.WithDrain(0)) }()
		synctest.Wait()
		f(t, p, cancel, ended)
		p.Close()
	})
}

// TestServeKeepsNoPlacesWhileItGivesBack: other tasks need not wait for the source.
func TestServeKeepsNoPlacesWhileItGivesBack(t *testing.T) {
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) {
			inLately(t, untilEnd, func(t *testing.T, p *shoal.Pool, cancel func(), ended <-chan error) {
				stage(p, cancel)
				synctest.Wait()
				if st := p.Stats(); st.Reserved != 0 {
					t.Errorf("%d places are reserved", st.Reserved)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestTheDrainBeginsThoughServeGivesBack what the last Pull has brought. Serve waits for that too.
func TestTheDrainBeginsThoughServeGivesBack(t *testing.T) {
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) {
			var c causes
			inLately(t, c.handler, func(t *testing.T, p *shoal.Pool, cancel func(), ended <-chan error) {
				stage(p, cancel)
				synctest.Wait()
				begin := time.Now()
				cancel()
				synctest.Wait()
				if all, _ := c.all(); len(all) != 1 || all[0] != jobs.ErrStopped {
					t.Errorf("the handler that runs was told %v", all)
				}
				err := <-ended
				if all, _ := jobs.Total(p); err != nil || all.Leased != 3 || all.Untold != 3 || all.Held != 0 {
					t.Errorf("%v, %+v", err, all)
				}
				if took := time.Since(begin); took > 11*time.Second {
					t.Errorf("Serve took %v to end", took)
				}
			})
		})
	}
}

// TestServeAcknowledgesWhatIsDoneBeforeItsTurn to be given back has come.
func TestServeAcknowledgesWhatIsDoneBeforeItsTurn(t *testing.T) {
	const n, together = 40, 16
	inWorld(t, n, func(ctx context.Context, _ *jobs.Job) error { <-ctx.Done(); return nil }, func(w *world) {
		w.s.set(func() { w.s.slowNak = time.Second })
		fill(w.T, w.s, n)
		synctest.Wait()
		w.cancel()
		err := <-w.err
		all, _ := jobs.Total(w.p)
		if err != nil || all.Acked < n-together || all.Acked+all.Retried != n || w.s.Len() != int(all.Retried) {
			w.Errorf("%v, %d are left, %+v", err, w.s.Len(), all)
		}
	}, jobs.WithDrain(0))
}

// A breaking source calls release before it takes a job back.
type breaking struct {
	*spy
	release func()
}

type breaks struct {
	jobs.Delivery
	release func()
}

func (s breaking) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := s.spy.Pull(ctx, n)
	for i, d := range ds {
		ds[i] = breaks{d, s.release}
	}
	return ds, err
}

func (d breaks) Release(ctx context.Context) error {
	d.release()
	return d.Delivery.Release(ctx)
}

// TestServeBearsASourceThatBreaks: what its methods, or their errors, do ends no process. An Extend is
// made again, and each job is counted.
func TestServeBearsASourceThatBreaks(t *testing.T) {
	oh := func() { panic("oh") }
	extend := func(f func() error) func(*breaking) {
		return func(s *breaking) { s.extend = func(context.Context, string) error { return f() } }
	}
	for name, c := range map[string]struct {
		set    func(s *breaking)
		panics bool
		want   jobs.Stats
	}{
		"Extend panics":           {extend(func() error { panic("oh") }), true, jobs.Stats{LeasesLost: 1}},
		"Extend ends":             {extend(func() error { runtime.Goexit(); return nil }), false, jobs.Stats{LeasesLost: 1}},
		"the error of Extend":     {extend(func() error { return isError(oh) }), true, jobs.Stats{LeasesLost: 1}},
		"Extend panics with that": {extend(func() error { panic(selfError{}) }), true, jobs.Stats{LeasesLost: 1}},
		"Release panics":          {func(s *breaking) { s.release = oh }, true, jobs.Stats{Untold: 1}},
		"Release ends":            {func(s *breaking) { s.release = runtime.Goexit }, false, jobs.Stats{Untold: 1}},
		"the error of Release":    {func(s *breaking) { s.failNak = isError(oh) }, true, jobs.Stats{Untold: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := breaking{newSpy(), func() {}}
				c.set(&s)
				fill(t, s.spy, 1)
				p := shoal.Must(shoal.New())
				defer p.Close()
				var told atomic.Int64
				log := jobs.WithLogger(slog.New(hears(func(r slog.Record) {
					if r.Message == "jobs: the source has panicked" {
						told.Add(1)
					}
				})))
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- jobs.Serve(ctx, p, &oneOf{Source: s}, untilEnd, log, jobs.WithDrain(0)) }()
				if c.want.LeasesLost > 0 {
					time.Sleep(2 * lease)
				}
				synctest.Wait()
				if c.want.LeasesLost > 0 && s.exts < 3 {
					t.Errorf("%d extensions", s.exts)
				}
				cancel()
				err := <-ended
				all, _ := jobs.Total(p)
				if c.want.Leased = 1; err != nil || all != c.want || told.Load() > 0 != c.panics {
					t.Errorf("%v, %d panics are logged, %+v; want %+v", err, told.Load(), all, c.want)
				}
			})
		})
	}
}

// A oneOf source leases jobs in its first Pull only.
type oneOf struct {
	jobs.Source
	again bool
}

func (s *oneOf) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if s.again {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.again = true
	return s.Source.Pull(ctx, n)
}

// TestServePullsAgain after an error that cannot be read, and when a Pull has not waited for a job,
// but after a while.
func TestServePullsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"an error that panics": {asError(func() { panic("oh") }), "as"},
		"neither":              {nil, "neither a job nor an error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := shoal.Must(shoal.New())
				defer p.Close()
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				s := &failing{Queue: jobstest.NewQueue(lease), err: c.err, most: 100, cancel: cancel}
				err := jobs.Serve(ctx, p, s, untilEnd, quietly)
				all, _ := jobs.Total(p)
				if err != nil || s.pulls < 10 || s.pulls > 20 || all.PullErrors != uint64(s.pulls) || !strings.Contains(all.LastError, c.want) {
					t.Errorf("%v, %d pulls, %+v", err, s.pulls, all)
				}
			})
		})
	}
}

// A failing source has nothing but its error. It ends Serve after so many Pulls.
type failing struct {
	*jobstest.Queue
	err    error
	pulls  int
	most   int
	cancel func()
}

func (s *failing) Pull(context.Context, int) ([]jobs.Delivery, error) {
	if s.pulls++; s.pulls > s.most {
		s.cancel()
	}
	return nil, s.err
}

// A tiring source has no jobs. Its Pulls wait for a while and then fail.
type tiring struct {
	*jobstest.Queue
	after  time.Duration
	failed time.Time
	pauses []time.Duration // from a failure to the next Pull
}

func (s *tiring) Pull(ctx context.Context, _ int) ([]jobs.Delivery, error) {
	if !s.failed.IsZero() {
		s.pauses = append(s.pauses, time.Since(s.failed))
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.after):
		s.failed = time.Now()
		return nil, errors.New("connection reset")
	}
}

// TestServeTellsFailuresApart: one that comes after a long wait is logged, and soon tried again. One that
// lasts is logged once.
func TestServeTellsFailuresApart(t *testing.T) {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	for after, apart := range map[time.Duration]bool{0: false, 10 * time.Second: false, time.Hour: true} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := shoal.Must(shoal.New())
				defer p.Close()
				s := &tiring{Queue: jobstest.NewQueue(lease), after: after}
				warnings := 0
				log := jobs.WithLogger(slog.New(hears(func(r slog.Record) {
					if r.Level == slog.LevelWarn {
						warnings++
					}
				})))
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Hour+time.Minute)
				defer cancel()
				if err := jobs.Serve(ctx, p, s, untilEnd, log); err != nil {
					t.Error(err)
				}
				want, pause := 1, most
				if apart {
					want, pause = 10, first
				}
				if n := len(s.pauses); warnings != want || n < 10 || s.pauses[0] != first || s.pauses[n-1] != pause {
					t.Errorf("%d warnings, want %d; %d pauses %v …", warnings, want, n, s.pauses[:min(n, 10)])
				}
			})
		})
	}
}

// TestServeGivesBackWhatComesWithABrokenJob, before and after it. The panic goes on.
func TestServeGivesBackWhatComesWithABrokenJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpy()
		fill(t, s, 5)
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(5)))
		defer p.Close()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			jobs.Serve(context.Background(), p, without{s}, untilEnd, quietly)
		}()
		d, err := s.Depth(context.Background())
		if all, _ := jobs.Total(p); err != nil || d.Ready != 3 || d.Leased != 2 || all.Leased != 3 || all.Retried != 3 {
			t.Errorf("%v, %+v, %+v", err, d, all)
		}
	})
}

// A without source leaves out two jobs of those that it leases.
type without struct{ *spy }

func (s without) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := s.spy.Pull(ctx, n)
	ds[1], ds[3] = nil, nil
	return ds, err
}

// TestServeCountsEachRunAtItsTimeLimit: also if the handler returns as soon as its context ends. So
// many wait for that end that the handler often returns before all have been told.
func TestServeCountsEachRunAtItsTimeLimit(t *testing.T) {
	const n = 100
	inWorld(t, 1, func(ctx context.Context, _ *jobs.Job) error {
		for range 2000 {
			context.AfterFunc(ctx, func() {})
		}
		<-ctx.Done()
		return nil
	}, func(w *world) {
		fill(w.T, w.s, n)
		w.after(n * time.Second)
		if s := w.stats(); s.TimedOut != n || s.Acked != n {
			w.Errorf("%+v", s)
		}
	}, jobs.WithTimeLimit(time.Second))
}

// TestServeBelievesAnExtendThatSaysAcked, though the source cannot be reached after that, and the
// lease would be over.
func TestServeBelievesAnExtendThatSaysAcked(t *testing.T) {
	for name, result := range map[string]error{"done": nil, "failed": errors.New("failed")} {
		t.Run(name, func(t *testing.T) {
			var s *spy
			inWorld(t, 1, func(ctx context.Context, j *jobs.Job) error {
				if err := j.Delivery().Ack(ctx); err != nil {
					return err
				}
				time.Sleep(2 * lease)
				away := errors.New("no route to host")
				s.set(func() { s.failAck, s.failNak = away, away })
				return result
			}, func(w *world) {
				s = w.s
				w.put("a")
				w.after(3 * lease)
				if st := w.stats(); st.Acked != 1 || st.Untold != 0 || st.LeasesLost != 0 || st.Held != 0 {
					w.Errorf("%+v", st)
				}
			})
		})
	}
}
