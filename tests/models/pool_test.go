//go:build poolsim

package models

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
	"github.com/shoal-go/shoal/internal/testpool"
)

// These are the models that `make explore` runs: small programs around the
// real engine, each under every schedule (see package explore), or, where
// those are too many, under all with a bounded number of preemptions.
//
// Most of them demand that what was accepted runs before the pool is closed:
// closing wakes everybody, and so would hide a lost wake-up.

// A sim is what a model works with.
type sim struct {
	*explore.M
	p        *shoal.Pool
	accepted [8]bool
	refused  [8]error
	runs     [8]sy.Object
	ran      [8]int
	left     sy.Int64 // tasks that have to run until done is opened
	done     sy.Latch
	workers  int  // the most there may be
	drops    bool // accepted tasks may be dropped
	others   bool // there may be goroutines that are not the pool's

	sub    *shoal.Pool
	keys   *shoal.Keyed[string]
	alone  sy.Object
	inside int // tasks of one key that run
}

// pool makes the pool of the model, for n tasks after which done is opened.
func (s *sim) pool(n int, opts ...shoal.Option) *shoal.Pool {
	return s.poolAt(0, n, opts...)
}

// poolAt is pool, for one whose first ticket is first.
func (s *sim) poolAt(first uint64, n int, opts ...shoal.Option) *shoal.Pool {
	s.left.Store(int64(n))
	s.done = sy.MakeLatch()
	all := append([]shoal.Option{
		shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.TimingOff), shoal.WithIdleTimeout(shoal.Forever), shoal.WithSpin(0),
		shoal.WithSizing(shoal.Eager()), // Auto has workers yield: every task would be an access to the same words
	}, opts...)
	testpool.FirstTicket(first, func() { s.p = shoal.Must(shoal.New(all...)) })
	if s.workers == 0 {
		s.workers = testpool.Lane(s.p).Max()
	}
	s.After(s.check)
	return s.p
}

// watch makes a pool with option o, and submits a task that waits for an alarm of the
// watchdog. It calls what[0] before it submits the task, and what[1] after that.
func (s *sim) watch(o shoal.Option, what ...func()) {
	s.Timed()
	began, told := sy.MakeEvent(), sy.MakeEvent()
	s.pool(0, o, shoal.WithTiming(shoal.TimingSampled), shoal.WithLogger(slog.New(slog.DiscardHandler)), shoal.WithAlarmHandler(func(shoal.Alarm) { told.Set() }))
	if len(what) > 0 && what[0] != nil {
		what[0]()
	}
	if err := s.p.Submit(func() { began.Set(); told.Wait() }); err != nil {
		s.Failf("%v", err)
	}
	if len(what) > 1 {
		what[1]()
	}
	s.Go("time", func() { began.Wait(); s.Advance(5 * time.Second) })
	s.p.Wait()
	s.close()
}

// check is what must hold at the end of every run.
func (s *sim) check() {
	p := s.p
	st := p.Stats()
	switch {
	case st.State != shoal.Closed:
		s.Failf("at the end the pool is %v", st.State)
	case st.InFlight != 0 || st.Queued != 0 || st.Running != 0 || st.Workers != 0:
		s.Failf("at the end: %+v", st)
	case st.Submitted != st.Completed+st.Dropped+st.Canceled:
		s.Failf("submitted %d = completed %d + dropped %d + canceled %d", st.Submitted, st.Completed, st.Dropped, st.Canceled)
	case st.PeakWorkers > s.workers:
		s.Failf("%d workers, of at most %d", st.PeakWorkers, s.workers)
	case st.Blocked != 0 || st.Reserved != 0:
		s.Failf("at the end %d are blocked, %d places reserved", st.Blocked, st.Reserved)
	}
	dropped := 0
	for i := range s.ran {
		switch {
		case s.ran[i] > 1:
			s.Failf("task %d ran %d times", i, s.ran[i])
		case s.ran[i] == 1 && !s.accepted[i]:
			s.Failf("task %d was refused (%v) and ran", i, s.refused[i])
		case s.ran[i] == 0 && s.accepted[i]:
			dropped++
		}
	}
	if s.sub != nil {
		of := s.sub.Stats()
		st.Dropped += of.Dropped
		st.Canceled += of.Canceled
	}
	if dropped > int(st.Dropped+st.Canceled) {
		s.Failf("%d accepted tasks did not run, %d were dropped, %d canceled", dropped, st.Dropped, st.Canceled)
	}
	if dropped > 0 && !s.drops {
		s.Failf("%d accepted tasks did not run", dropped)
	}
}

// submittedAreAccepted demands that in the end the pool has counted no task that was refused.
func (s *sim) submittedAreAccepted() {
	s.After(func() {
		n := uint64(0)
		for _, ok := range s.accepted {
			if ok {
				n++
			}
		}
		if got := s.p.Stats().Submitted; got != n {
			s.Failf("of %d tasks Submit returned nil, and %d are counted as submitted", n, got)
		}
	})
}

// task is the task of number i.
func (s *sim) task(i int) func() { return s.and(i, func() {}) }

// and is task i, which also does f.
func (s *sim) and(i int, f func()) func() {
	return func() {
		s.did(i)
		f()
		s.finished()
	}
}

// did notes that task i runs. What a model asks about while it runs must be
// announced like everything else that is shared.
func (s *sim) did(i int) {
	sy.Access(&s.runs[i], sy.Write)
	s.ran[i]++
}

// times is how often task i ran.
func (s *sim) times(i int) int {
	sy.Access(&s.runs[i], sy.Read)
	return s.ran[i]
}

// hasRun demands that task i has run when what returns.
func (s *sim) hasRun(i int, what string) {
	if s.times(i) != 1 {
		s.Failf("%s returned before task %d ran", what, i)
	}
}

// finished counts one of the tasks that done waits for.
func (s *sim) finished() {
	if s.left.Add(-1) == 0 {
		s.done.Open()
	}
}

// took notes what became of the submission of task i.
func (s *sim) took(i int, err error) bool {
	s.accepted[i], s.refused[i] = err == nil, err
	return err == nil
}

// noStall makes a pool that must not be said to be stalled, which it is after a second.
// One task is inside until release is set.
func (s *sim) noStall(opts ...shoal.Option) (release sy.Event) {
	s.Timed()
	s.pool(0, append(opts, shoal.WithStallAfter(time.Second), shoal.WithTiming(shoal.TimingSampled), shoal.WithLogger(slog.New(slog.DiscardHandler)),
		shoal.WithAlarmHandler(func(a shoal.Alarm) { s.Failf("stall for %v", a.For) }))...)
	began, release := sy.MakeEvent(), sy.MakeEvent()
	s.p.Submit(func() { began.Set(); release.Wait() })
	began.Wait()
	return release
}

// submit submits task i, which must be accepted.
func (s *sim) submit(i int) { s.submitTask(i, s.task(i)) }

func (s *sim) submitTask(i int, f func()) {
	s.accepted[i] = true // before: it may run first
	if err := s.p.Submit(f); err != nil {
		s.Failf("Submit of task %d: %v", i, err)
	}
}

// try submits task i, which may be refused.
func (s *sim) try(i int) bool { return s.took(i, s.p.Submit(s.task(i))) }

// reserve is Reserve, which must succeed.
func (s *sim) reserve(n int) *shoal.Reservation {
	r, err := s.p.Reserve(context.Background(), n)
	if err != nil {
		s.Failf("Reserve: %v", err)
	}
	return r
}

// reserved submits task i for a place of r, and gives the others back.
func (s *sim) reserved(r *shoal.Reservation, i int) {
	s.accepted[i] = true
	if err := r.Submit(context.Background(), func(context.Context) error { s.did(i); return nil }, nil); err != nil {
		s.Failf("Submit of task %d for a reserved place: %v", i, err)
	}
	r.Release()
}

// enter and exit enclose what only one thread may do at a time.
func (s *sim) enter() {
	sy.Access(&s.alone, sy.Write)
	if s.inside++; s.inside > 1 {
		s.Failf("%d hold one place", s.inside)
	}
}

func (s *sim) exit() {
	sy.Access(&s.alone, sy.Write)
	s.inside--
}

// closer starts a thread that closes the pool when all tasks have run.
func (s *sim) closer() {
	s.Go("closer", func() {
		s.end()
	})
}

// end closes the pool when all tasks have run. It is cheaper than closer, which tries
// Close beside the last of what the others do.
func (s *sim) end() {
	s.done.Wait()
	s.close()
}

func (s *sim) close() {
	if err := s.p.Close(); err != nil {
		s.Failf("Close: %v", err)
	}
	s.gone("Close")
}

func (s *sim) shutdown() {
	if err := s.p.Shutdown(context.Background()); err != nil {
		s.Failf("Shutdown: %v", err)
	}
	s.gone("Shutdown")
}

// gone: when Close or Shutdown returns, nothing of the pool is left. (Its last
// goroutine has nothing more to do than to return.)
func (s *sim) gone(what string) {
	if left := s.Left(); len(left) > 0 && !s.others {
		s.Failf("after %s %v are left", what, left)
	}
	if st := s.p.Stats(); st.State != shoal.Closed || st.Workers != 0 || st.InFlight != 0 {
		s.Failf("after %s: %v, %d workers, %d tasks", what, st.State, st.Workers, st.InFlight)
	}
}

// onPool is a model of a pool.
func onPool(run func(s *sim)) func(m *explore.M) {
	return func(m *explore.M) {
		run(&sim{M: m})
	}
}

var models = []suite.Model{
	// ----- the queue under the pool, parking, and waking -----

	// ----- a searching worker has another one called: a second worker for a second task -----

	{Name: "chain/a batch of three", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(3, shoal.WithMaxWorkers(2))
		s.closer()
		s.accepted[0], s.accepted[1], s.accepted[2] = true, true, true
		if n, err := s.p.SubmitBatch([]func(){s.task(0), s.task(1), s.task(2)}); n != 3 || err != nil {
			s.Failf("SubmitBatch = %d, %v", n, err)
		}
	})},
	{Name: "chain/a task submits a task and waits for it", Run: onPool(func(s *sim) {
		s.pool(2, shoal.WithMaxWorkers(2))
		s.closer()
		second := sy.MakeEvent()
		s.submitTask(0, s.and(0, func() {
			s.submitTask(1, s.and(1, func() { second.Set() }))
			second.Wait()
		}))
	})},

	// ----- admission -----

	{Name: "admit/CallerRuns", Reach: []string{"run here"}, Run: onPool(func(s *sim) {
		s.pool(3, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.CallerRuns))
		s.closer()
		s.submit(0)
		s.submit(1)
		s.submit(2)
	})},
	{Name: "admit/Spawn", Reach: []string{"spawn"}, Run: onPool(func(s *sim) {
		s.workers = 2 // the worker, and what Spawn has started
		s.pool(2, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		s.closer()
		s.submit(0)
		s.submit(1)
		s.After(func() {
			if n := s.p.Stats().PeakWorkers; n > 1 {
				s.Failf("%d workers", n)
			}
		})
	})},
	{Name: "admit/a task finds its own pool full", Reach: []string{"run here"}, Run: onPool(func(s *sim) {
		s.pool(3, shoal.WithQueueCapacity(1))
		s.closer()
		s.submitTask(0, s.and(0, func() {
			s.submit(1)
			s.submit(2)
		}))
	})},
	{Name: "admit/the room of one that gave up is the next one's", Bound: 2, Night: 3, Reach: []string{"gave up"}, Run: onPool(func(s *sim) {
		s.pool(2, shoal.WithQueueCapacity(0))
		s.submittedAreAccepted()
		ctx := explore.NewContext()
		s.submitTask(0, s.and(0, ctx.Cancel))
		s.Go("gives up", func() {
			err := s.p.SubmitContext(ctx, func(context.Context) { s.did(1) })
			s.took(1, err)
			s.drops = true
			if err != nil {
				explore.Reach("gave up")
			}
		})
		s.submit(2)
		s.end()
	})},
	{Name: "admit/the context of a submitter that waits ends", Reach: []string{"wait for capacity", "gave up"}, Run: onPool(func(s *sim) {
		s.pool(1, shoal.WithQueueCapacity(0))
		ctx, gate := explore.NewContext(), sy.MakeLatch()
		s.submitTask(0, s.and(0, func() { gate.Wait() }))
		s.Go("canceler", func() { ctx.Cancel(); gate.Open() })
		err := s.p.SubmitContext(ctx, func(context.Context) { s.did(1) })
		s.took(1, err)
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Failf("SubmitContext: %v", err)
		}
		if err != nil {
			explore.Reach("gave up")
		}
		s.drops = true // accepted, then cancelled
		s.done.Wait()
		s.p.Wait()
		s.close()
	})},

	// ----- closing -----

	{Name: "close/Submit and Close", Reach: []string{"refused", "ran", "dropped"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.Go("stopper", s.close)
		ok := s.try(0)
		s.After(func() {
			switch {
			case !ok:
				s.Reach("refused")
			case s.times(0) == 1:
				s.Reach("ran")
			default:
				s.Reach("dropped")
			}
		})
	})},
	{Name: "close/two calls of Shutdown", Run: onPool(func(s *sim) {
		s.pool(0)
		s.submit(0)
		s.Go("stopper", s.shutdown)
		s.shutdown()
		s.hasRun(0, "Shutdown")
	})},
	{Name: "close/Close and Shutdown", Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.submit(0)
		s.Go("stopper", s.close)
		err := s.p.Shutdown(context.Background())
		var inc *shoal.ShutdownError
		if s.times(0) == 1 && err != nil || s.times(0) == 0 && !errors.As(err, &inc) {
			s.Failf("ran %d, Shutdown: %v", s.times(0), err)
		}
		s.gone("Shutdown")
	})},
	{Name: "close/the context of Shutdown ends", Reach: []string{"incomplete", "clean"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		ctx := explore.NewContext()
		s.submit(0)
		s.Go("canceler", ctx.Cancel)
		err := s.p.Shutdown(ctx)
		var inc *shoal.ShutdownError
		switch {
		case err == nil:
			explore.Reach("clean")
			s.hasRun(0, "a clean Shutdown")
			s.gone("Shutdown")
		case errors.As(err, &inc) && inc.Dropped+inc.Running == 1:
			explore.Reach("incomplete")
		default:
			s.Failf("Shutdown: %v", err)
		}
	})},
	{Name: "close/the parent context ends", Reach: []string{"refused", "accepted"}, Run: onPool(func(s *sim) {
		ctx := explore.NewContext()
		s.workers = 2 // the worker, and who closes
		s.pool(0, shoal.WithContext(ctx))
		s.drops = true
		s.Go("canceler", ctx.Cancel)
		if s.try(0) {
			explore.Reach("accepted")
		} else {
			explore.Reach("refused")
		}
		testpool.Lane(s.p).Done().Wait()
		s.gone("the end of the parent")
	})},
	{Name: "close/the context of a task ends", Reach: []string{"ended", "not begun"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		closing := sy.MakeLatch()
		s.accepted[0] = true
		if err := s.p.SubmitContext(context.Background(), func(ctx context.Context) {
			s.did(0)
			closing.Wait()
			if ctx.Err() == nil {
				s.Failf("the pool was closed, and the context has not ended")
			}
			explore.Reach("ended")
		}); err != nil {
			s.Failf("SubmitContext: %v", err)
		}
		testpool.Lane(s.p).End(true, shoal.ErrClosed) // as Close does, before it waits
		closing.Open()
		s.close()
		if s.times(0) == 0 {
			explore.Reach("not begun")
		}
	})},
	{Name: "close/a task submits while Shutdown waits", Reach: []string{"refused", "accepted"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.submitTask(0, s.and(0, func() {
			if s.try(1) {
				explore.Reach("accepted")
			} else {
				explore.Reach("refused")
			}
		}))
		s.shutdown()
	})},

	// ----- sizes -----

	// ----- pausing -----

	// ----- the life of a worker -----

	{Name: "life/panic", Run: onPool(func(s *sim) {
		told := 0
		s.pool(2, shoal.WithPanicHandler(func(*shoal.PanicError) { told++ }))
		s.closer()
		s.submitTask(0, func() { s.did(0); s.finished(); panic("a fault") })
		s.submit(1)
		s.After(func() {
			if n := s.p.Stats().Failed; told != 1 || n != 1 {
				s.Failf("told %d, failed %d", told, n)
			}
		})
	})},

	// ----- the watchdog -----

	{Name: "watch/a slow task is told of", Reach: []string{"slow task"}, Run: onPool(func(s *sim) {
		s.watch(shoal.WithSlowTask(time.Second))
	})},
	{Name: "watch/a task that is only just coming has not waited", Bound: 2, Run: onPool(func(s *sim) {
		s.Timed()
		s.pool(0, shoal.WithStallAfter(time.Second), shoal.WithTiming(shoal.TimingSampled), shoal.WithLogger(slog.New(slog.DiscardHandler)),
			shoal.WithAlarmHandler(func(a shoal.Alarm) { s.Failf("stall for %v, though the first task to wait came now", a.For) }))
		began, release := sy.MakeEvent(), sy.MakeEvent()
		s.p.Submit(func() { began.Set(); release.Wait() })
		began.Wait()
		s.Advance(5 * time.Second)
		s.p.Submit(func() {})
		release.Set()
		s.p.Wait()
		s.close()
	})},
	{Name: "watch/a slow task that others look at is told of once", Bound: 2, Reach: []string{"slow task"}, Run: onPool(func(s *sim) {
		s.Timed()
		told, n := sy.MakeEvent(), 0
		s.pool(0, shoal.WithSlowTask(time.Second), shoal.WithTiming(shoal.TimingSampled), shoal.WithLogger(slog.New(slog.DiscardHandler)),
			shoal.WithAlarmHandler(func(a shoal.Alarm) {
				if n++; n > 1 {
					s.Failf("the one task is told of again, for %v", a.For)
				}
				told.Set()
			}))
		began, release := sy.MakeEvent(), sy.MakeEvent()
		shoal.Go(context.Background(), s.p, func(context.Context) (int, error) {
			began.Set()
			release.Wait()
			return 0, errors.New("failed")
		})
		for range s.p.Workers() {
		}
		s.Advance(time.Millisecond)
		began.Wait()
		s.Advance(time.Second)
		told.Wait()
		s.Advance(5 * time.Second)
		release.Set()
		s.p.Wait()
		s.close()
	})},
	{Name: "watch/a tombstone, and a task that is only just coming", Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		e := s.noStall()
		began, gate := sy.MakeEvent(), sy.MakeEvent()
		s.p.Submit(func() { began.Set(); gate.Wait() })
		shoal.Go(context.Background(), s.p, func(context.Context) (int, error) { return 0, nil }).Cancel()
		e.Set()
		began.Wait() // the tombstone is first
		s.Advance(5 * time.Second)
		s.p.Submit(func() {})
		gate.Set()
		s.p.Wait()
		s.close()
	})},
	{Name: "watch/Cancel while the next one is only just coming", Bound: 2, Night: 3, Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		e := s.noStall()
		f := shoal.Go(context.Background(), s.p, func(context.Context) (int, error) { return 0, nil })
		done := sy.MakeEvent()
		s.Go("canceler", func() { f.Cancel(); done.Set() })
		s.Advance(time.Second - 1)
		s.p.Submit(func() {})
		done.Wait()
		s.Advance(time.Second - 1)
		e.Set()
		s.p.Wait()
		s.close()
	})},
	{Name: "watch/a task goes, and the next one is only just coming", Bound: 2, Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		e := s.noStall()
		f := shoal.Go(context.Background(), s.p, func(context.Context) (int, error) { return 0, nil })
		s.Advance(time.Second - 1)
		s.p.Submit(func() {})
		f.Cancel()
		s.Advance(time.Second - 1)
		e.Set()
		s.p.Wait()
		s.close()
	})},
	{Name: "watch/Drain ends a pause", Run: onPool(func(s *sim) {
		e := s.noStall()
		s.p.Pause()
		s.p.Submit(func() {})
		s.Advance(5 * time.Second)
		s.p.Drain()
		e.Set()
		s.shutdown()
	})},
	{Name: "watch/a delayed task comes due at capacity 0", Bound: 1, Run: onPool(func(s *sim) {
		s.drops = true
		s.workers = 2
		e := s.noStall(shoal.WithQueueCapacity(0))
		s.p.SubmitAfter(5*time.Second, func() {})
		s.Advance(5 * time.Second)
		e.Set()
		s.p.Wait()
		s.close()
	})},
	{Name: "watch/Close and the timer", Run: onPool(func(s *sim) {
		s.Timed()
		s.pool(0, shoal.WithSlowTask(time.Second), shoal.WithTiming(shoal.TimingSampled), shoal.WithLogger(slog.New(slog.DiscardHandler)))
		s.drops = true
		s.submit(0)
		s.Go("time", func() { s.Advance(3 * time.Second) })
		s.close()
	})},

	// ----- waiting -----

	{Name: "wait/for one task", Run: onPool(func(s *sim) {
		s.pool(0)
		s.submit(0)
		s.p.Wait()
		s.hasRun(0, "Wait")
		s.close()
	})},
	{Name: "wait/while another submits", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0)
		other := sy.MakeEvent()
		s.Go("other", func() { s.submit(1); other.Set() })
		s.submit(0)
		s.p.Wait()
		s.hasRun(0, "Wait")
		other.Wait()
		s.p.Wait()
		s.close()
	})},
	{Name: "wait/two wait", Run: onPool(func(s *sim) {
		s.pool(0)
		other := sy.MakeEvent()
		s.submit(0)
		s.Go("other", func() { s.p.Wait(); other.Set() })
		s.p.Wait()
		other.Wait()
		s.hasRun(0, "Wait")
		s.close()
	})},
	{Name: "wait/the context ends", Reach: []string{"gave up", "quiet"}, Run: onPool(func(s *sim) {
		s.pool(0)
		ctx := explore.NewContext()
		s.submit(0)
		s.Go("canceler", ctx.Cancel)
		if err := s.p.WaitContext(ctx); err == nil {
			explore.Reach("quiet")
			s.hasRun(0, "WaitContext")
		} else {
			explore.Reach("gave up")
		}
		s.p.Wait()
		s.close()
	})},
	{Name: "wait/for a task that panics", Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithPanicHandler(func(*shoal.PanicError) {}))
		s.submitTask(0, func() { s.did(0); panic("a fault") })
		s.p.Wait()
		if st := s.p.Stats(); st.Failed != 1 || st.Completed != 1 {
			s.Failf("after Wait: %+v", st)
		}
		s.close()
	})},
	{Name: "wait/for what the caller runs", Run: onPool(func(s *sim) {
		s.pool(2, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
		other := sy.MakeEvent()
		s.submit(0)
		s.Go("other", func() { s.submit(1); other.Set() })
		s.p.Wait()
		s.hasRun(0, "Wait")
		other.Wait()
		s.p.Wait()
		s.close()
	})},
	{Name: "wait/for what a task outside submits", Bound: 3, Reach: []string{"spawn"}, Run: onPool(func(s *sim) {
		s.workers = 2
		s.pool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		s.submit(0)
		s.submitTask(1, func() {
			s.did(1)
			s.submit(2)
		})
		s.p.Wait()
		for i := range 3 {
			s.hasRun(i, "Wait")
		}
		s.close()
	})},
	// ----- reserving -----

	{Name: "reserve/while a task runs", Reach: []string{"grant"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.submit(0)
		r := s.reserve(1)
		s.hasRun(0, "Reserve")
		s.reserved(r, 1)
		s.p.Wait()
		s.hasRun(1, "Wait")
		s.close()
	})},
	{Name: "reserve/while others submit", Bound: 3, Reach: []string{"grant"}, Run: onPool(func(s *sim) {
		s.pool(0)
		other := sy.MakeEvent()
		s.Go("other", func() { s.submit(0); s.submit(1); other.Set() })
		r := s.reserve(1)
		s.reserved(r, 2)
		other.Wait()
		s.p.Wait()
		s.close()
	})},
	{Name: "reserve/at capacity 0 others wait for it to be given back", Reach: []string{"wait for capacity", "call"}, Run: onPool(func(s *sim) {
		s.pool(1, shoal.WithQueueCapacity(0))
		s.closer()
		r := s.reserve(1)
		s.Go("other", func() { s.submit(0) })
		if s.times(0) != 0 {
			s.Failf("a task has run in a place that was reserved")
		}
		r.Release()
	})},
	{Name: "reserve/two want one place", Reach: []string{"grant"}, Run: onPool(func(s *sim) {
		s.pool(0)
		other := sy.MakeEvent()
		hold := func() {
			r := s.reserve(2)
			s.enter()
			s.exit()
			r.Release()
		}
		s.submit(0)
		s.Go("other", func() { hold(); other.Set() })
		hold()
		other.Wait()
		s.p.Wait()
		s.close()
	})},
	{Name: "reserve/a worker goes on to another task", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		e := sy.MakeEvent()
		s.submit(0)
		s.submitTask(1, s.and(1, e.Wait))
		s.reserve(1).Release()
		e.Set()
		s.p.Wait()
		s.close()
	})},
	{Name: "reserve/who submits has no more room than before", Bound: 1, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))
		e, other := sy.MakeLatch(), sy.MakeEvent()
		s.submitTask(0, s.and(0, e.Wait))
		s.submitTask(1, s.and(1, e.Wait))
		ctx := explore.NewContext()
		n := 2 // tasks that have been accepted, of which none ends
		s.Go("other", func() {
			for i := 2; i < 4; i++ {
				s.accepted[i] = true // before: it may run first
				if s.took(i, s.p.Submit(s.and(i, e.Wait))) {
					n++
				}
			}
			ctx.Cancel()
			other.Set()
		})
		held := 0
		r, err := s.p.Reserve(ctx, 4)
		if err == nil {
			held = r.Len()
		}
		other.Wait()
		if n+held > 4+1 { // one that was on its way
			s.Failf("%d accepted one after the other, and %d reserved, of 4", n, held)
		}
		if err == nil {
			r.Release()
		}
		e.Open()
		s.p.Wait()
		s.close()
	})},
	{Name: "reserve/two places, two who want them", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		other := sy.MakeEvent()
		s.Go("other", func() {
			s.reserved(s.reserve(1), 1)
			other.Set()
		})
		s.reserved(s.reserve(1), 0)
		other.Wait()
		s.p.Wait()
		s.hasRun(0, "Wait")
		s.hasRun(1, "Wait")
		s.close()
	})},
	{Name: "reserve/the context ends", Bound: 3, Reach: []string{"gave up", "grant"}, Run: onPool(func(s *sim) {
		s.pool(0)
		ctx := explore.NewContext()
		s.submit(0)
		s.Go("canceler", ctx.Cancel)
		if r, err := s.p.Reserve(ctx, 1); err == nil {
			s.reserved(r, 1)
		} else {
			explore.Reach("gave up")
		}
		s.p.Wait()
		s.reserve(1).Release()
		s.close()
	})},
	{Name: "reserve/Close", Bound: 3, Reach: []string{"refused", "grant"}, Run: onPool(func(s *sim) {
		s.drops = true
		s.pool(0)
		s.submit(0)
		s.Go("closer", s.close)
		if r, err := s.p.Reserve(context.Background(), 1); err != nil {
			explore.Reach("refused")
		} else {
			s.accepted[1] = true
			if s.took(1, r.Submit(context.Background(), func(context.Context) error { s.did(1); return nil }, nil)) {
				return
			}
			select {
			case <-r.Revoked():
			default:
				s.Failf("a reservation outlives its pool")
			}
			if r.Len() != 0 {
				s.Failf("a reservation that outlives its pool has places")
			}
		}
	})},
	{Name: "reserve/Pause and Resume", Reach: []string{"revoke", "grant"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.Go("pauser", func() { s.p.Pause(); s.p.Resume() })
		r := s.reserve(1)
		s.reserved(r, 0)
		s.p.Wait()
		s.hasRun(0, "Wait")
		s.close()
	})},
	{Name: "reserve/Resize", Bound: 2, Run: onPool(func(s *sim) {
		s.workers = 2
		s.pool(0)
		s.Go("resizer", func() {
			if err := s.p.Resize(0, 2); err != nil {
				s.Failf("%v", err)
			}
		})
		a := s.reserve(1)
		b := s.reserve(1) // there is no other place until Resize
		s.reserved(a, 0)
		s.reserved(b, 1)
		s.p.Wait()
		s.close()
	})},
	{Name: "reserve/submitters wait", Bound: 2, Reach: []string{"wait for capacity", "grant"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		other := sy.MakeEvent()
		s.Go("other", func() { s.submit(1); other.Set() })
		s.submit(0)
		s.reserved(s.reserve(1), 2)
		other.Wait()
		s.p.Wait()
		s.close()
	})},
	{Name: "reserve/DropOldest", Bound: 3, Reach: []string{"displace", "grant"}, Run: onPool(func(s *sim) {
		s.drops = true
		s.pool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		other := sy.MakeEvent()
		s.Go("other", func() { s.try(0); s.try(1); s.try(2); other.Set() })
		s.reserve(1).Release()
		other.Wait()
		s.p.Wait()
		s.reserve(1).Release()
		s.close()
	})},
	{Name: "reserve/who waited for room gives up", Reach: []string{"gave up", "grant"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		ctx := explore.NewContext()
		first := s.reserve(1)
		other := sy.MakeEvent()
		s.Go("other", func() {
			if !s.took(1, s.p.SubmitContext(ctx, func(context.Context) { s.did(1) })) {
				explore.Reach("gave up")
			}
			other.Set()
		})
		s.Go("canceler", func() { ctx.Cancel(); first.Release() })
		s.reserve(1).Release()
		other.Wait()
		s.drops = true // not run, as its context had ended
		s.p.Wait()
		s.close()
	})},

	{Name: "wait/for a result", Run: onPool(func(s *sim) {
		s.pool(0)
		want := errors.New("a result")
		s.accepted[0] = true
		if err := s.p.SubmitWait(context.Background(), func(context.Context) error { s.did(0); return want }); err != want {
			s.Failf("SubmitWait = %v", err)
		}
		if st := s.p.Stats(); st.Completed != 1 || st.Failed != 1 {
			s.Failf("after SubmitWait: %+v", st)
		}
		s.close()
	})},
	{Name: "wait/for a result, and the context ends", Reach: []string{"result", "gave up", "withdraw", "outlive the context"}, Run: onPool(func(s *sim) {
		s.pool(0)
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		s.accepted[0], s.drops = true, true
		switch err := s.p.SubmitWait(ctx, func(context.Context) error { s.did(0); return nil }); {
		case err == nil && s.times(0) == 1:
			explore.Reach("result")
		case errors.Is(err, context.Canceled) && s.times(0) == 0:
			explore.Reach("gave up")
			s.accepted[0] = false // nor does it run from here on
		default:
			s.Failf("ran %d, SubmitWait = %v", s.times(0), err)
		}
		s.p.Wait()
		s.close()
	})},
	{Name: "wait/for a result, and the context and the pool end", Bound: 2, Reach: []string{"result", "gave up", "dropped"}, Run: onPool(func(s *sim) {
		s.pool(0)
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		s.Go("stopper", s.close)
		s.drops = true
		s.accepted[0] = true
		switch err := s.p.SubmitWait(ctx, func(context.Context) error { s.did(0); return nil }); {
		case err == nil && s.times(0) == 1:
			explore.Reach("result")
		case errors.Is(err, shoal.ErrDropped) && s.times(0) == 0:
			explore.Reach("dropped")
		case (errors.Is(err, shoal.ErrClosed) || errors.Is(err, context.Canceled)) && s.times(0) == 0:
			explore.Reach("gave up")
			s.accepted[0] = false
		default:
			s.Failf("ran %d, SubmitWait = %v", s.times(0), err)
		}
	})},
	{Name: "wait/for a result, and Close", Reach: []string{"result", "dropped", "refused"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.Go("stopper", s.close)
		s.accepted[0] = true
		switch err := s.p.SubmitWait(context.Background(), func(context.Context) error { s.did(0); return nil }); {
		case err == nil && s.times(0) == 1:
			explore.Reach("result")
		case errors.Is(err, shoal.ErrDropped) && s.times(0) == 0:
			explore.Reach("dropped")
		case errors.Is(err, shoal.ErrClosed) && s.times(0) == 0:
			explore.Reach("refused")
			s.accepted[0] = false
		default:
			s.Failf("ran %d, SubmitWait = %v", s.times(0), err)
		}
	})},

	// ----- tasks for later -----

	{Name: "delay/it is due, and then it runs", Run: onPool(func(s *sim) {
		s.Timed()
		s.workers = 2
		s.pool(1)
		s.closer()
		s.accepted[0] = true
		if _, err := s.p.SubmitAfter(time.Second, s.task(0)); err != nil {
			s.Failf("SubmitAfter: %v", err)
		}
		s.Advance(time.Second)
	})},
	{Name: "delay/it is due, and stopped", Reach: []string{"stopped", "too late"}, Run: onPool(func(s *sim) {
		s.Timed()
		s.pool(0)
		stop, err := s.p.SubmitAfter(time.Second, func() { s.did(0) })
		if err != nil {
			s.Failf("SubmitAfter: %v", err)
		}
		s.Go("time", func() { s.Advance(time.Second) })
		if s.accepted[0] = !stop(); s.accepted[0] {
			explore.Reach("too late")
		} else {
			explore.Reach("stopped")
		}
		s.shutdown()
	})},
	{Name: "delay/it is due, and Close", Run: onPool(func(s *sim) {
		s.Timed()
		s.pool(0)
		s.drops = true
		s.accepted[0] = true
		if _, err := s.p.SubmitAfter(time.Second, func() { s.did(0) }); err != nil {
			s.Failf("SubmitAfter: %v", err)
		}
		s.Go("time", func() { s.Advance(time.Second) })
		s.close()
	})},
}

// TicketBitsMask is the last ticket before they begin again.
const TicketBitsMask = 1<<queue.TicketBits - 1
