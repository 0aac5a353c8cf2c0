//go:build poolsim

package models

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
	"github.com/shoal-go/shoal/internal/testpool"
)

// These are the models of tasks that wait across three pools, of panics that go on, and of calls of
// Close and Wait in unusual places.

// below makes another sub-pool of up, of at most n workers, which has ended at the end.
func (s *sim) below(up *shoal.Pool, n int) *shoal.Pool {
	sub, err := up.Sub(shoal.WithMaxWorkers(n), shoal.WithTiming(shoal.TimingOff))
	if err != nil {
		s.Failf("Sub: %v", err)
	}
	s.After(func() {
		if st := sub.Stats(); st.State != shoal.Closed || st.InFlight != 0 || st.Workers != 0 || st.Submitted != st.Completed+st.Dropped+st.Canceled || st.Blocked != 0 || st.Reserved != 0 {
			s.Failf("at the end: %+v", st)
		}
	})
	return sub
}

// group runs tasks in a group of ctx on p and returns the error of Wait.
func group(ctx context.Context, p *shoal.Pool, tasks ...func(context.Context) error) error {
	g := p.Group(ctx)
	for _, f := range tasks {
		g.Go(f)
	}
	return g.Wait()
}

// recovers demands that f panics with v.
func (s *sim) recovers(v any, f func()) {
	defer func() {
		if r := recover(); r != v {
			s.Failf("recovered %v", r)
		}
	}()
	f()
}

var crossDeep = []suite.Model{
	{Name: "cross/groups on two sub-pools of one, in turn", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		other := s.below(s.p, 1)
		err := group(context.Background(), s.sub, s.does(0, func(ctx context.Context) error {
			return group(ctx, other, s.does(1, func(ctx context.Context) error {
				return group(ctx, s.sub, s.does(2, nothing), s.does(3, nothing))
			}), s.does(4, nothing))
		}), s.does(5, nothing))
		if err != nil {
			s.Failf("%v", err)
		}
		for i := range 6 {
			s.hasRun(i, "Wait")
		}
		s.shutdown()
	})},
	{Name: "cross/a group three pools deep, and Close of the one between", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		low := s.below(s.sub, 1)
		s.drops = true
		wait := s.beside("stopper", func() {
			s.sub.Close()
			if low.State() != shoal.Closed {
				s.Failf("the pool above is closed, this one is %v", low.State())
			}
		})
		ran := 0
		s.inTask(0, func(ctx context.Context) {
			c := scope{s: s}
			f := func(context.Context) error { c.inside(func() { ran++ }); return nil }
			err := group(ctx, low, f, f)
			c.ends()
			if err == nil && ran != 2 || err != nil && !stopped(err) {
				s.Failf("%d ran: %v", ran, err)
			}
		})
		wait()
		s.close()
	})},
	{Name: "cross/two tasks wait for a pool below a full one, which grows", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		low := s.below(s.sub, 2)
		ask := func(i int) func(context.Context) error {
			return func(ctx context.Context) error { return group(ctx, low, s.does(i, nothing), s.does(i+1, nothing)) }
		}
		wait := s.beside("resizer", func() { s.sub.Resize(0, 2); s.sub.Resize(0, 1) })
		a, b := s.begin(context.Background(), 0, ask(2)), s.begin(context.Background(), 1, ask(4))
		s.result(context.Background(), 0, a)
		s.result(context.Background(), 1, b)
		wait()
		for i := range 6 {
			s.hasRun(i, "Wait")
		}
		s.shutdown()
	})},
	{Name: "cross/a task waits with a short context for a full paused sub-pool, and Close of that", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		s.drops = true
		s.sub.Pause()
		short := explore.NewContext()
		s.Go("canceler", short.Cancel)
		wait := s.beside("stopper", func() { s.sub.Close() })
		s.inTask(0, func(ctx context.Context) {
			u := shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.item(context.Background(), 1); return 1, nil })
			v := shoal.Go(short, s.sub, func(context.Context) (int, error) { s.item(context.Background(), 2); return 2, nil })
			_, err := v.Wait(ctx)
			s.fate(err, 2, 2)
			_, err = u.Wait(ctx)
			s.fate(err, 1, 1)
		})
		wait()
		s.close()
	})},
	{Name: "cross/two goroutines of a task wait for its group, and a task of that calls Goexit", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		s.inTask(0, func(ctx context.Context) {
			g := s.p.Group(ctx, shoal.CollectErrors())
			g.Go(s.does(1, func(context.Context) error { runtime.Goexit(); return nil }))
			g.Go(s.does(2, nothing))
			done := sy.MakeLatch()
			s.Go("other", func() { defer done.Open(); g.Wait() })
			done.Wait() // it may end by Goexit, with task 2 left
			if err := g.Wait(); !errors.Is(err, shoal.ErrGoexit) {
				s.Failf("Wait = %v", err)
			}
			s.hasRun(1, "Wait")
			s.hasRun(2, "Wait")
		})
		s.quiet()
	})},
	{Name: "cross/Cancel beside a task that waits, on a pool that drains", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		began := sy.MakeEvent()
		var u *shoal.Future[int]
		wait := s.beside("canceler", func() { began.Wait(); u.Cancel(); s.p.Drain() })
		s.inTask(0, func(ctx context.Context) {
			u = shoal.Go(ctx, s.p, func(context.Context) (int, error) { s.item(context.Background(), 1); return 1, nil })
			began.Set()
			_, err := u.Wait(ctx)
			s.fate(err, 1, 1)
		})
		wait()
		s.shutdown()
	})},

	// ----- panics that go on -----

	{Name: "cross/a panic goes on in what a task submits, and it recovers", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0), shoal.WithCrashOnPanic())
		d := s.drawer(s.p)
		s.inTask(0, func(ctx context.Context) {
			s.recovers("oops", func() {
				s.p.SubmitWait(ctx, func(ctx context.Context) error { d.use(s, ctx, func() {}); panic("oops") })
			})
			g := s.p.Group(ctx, shoal.Limit(1))
			s.recovers("oops", func() { g.Go(func(context.Context) error { panic("oops") }) })
			if g.Wait() == nil {
				s.Failf("no error")
			}
		})
		wait := s.beside("other", func() { s.submit(1) })
		wait()
		s.quiet()
	})},
	{Name: "cross/a panic goes on from an item of a Map, and its task recovers", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithCrashOnPanic())
		s.drops = true
		s.inTask(0, func(ctx context.Context) {
			s.recovers("oops", func() {
				for range shoal.Map(ctx, s.p, s.items(2), func(context.Context, int) (int, error) { panic("oops") }) {
				}
			})
		})
		s.submit(1)
		s.quiet()
	})},

	// ----- Close and Wait in unusual places -----

	{Name: "cross/Close in the caller's share of a Range", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		err := s.ranges(context.Background(), s.p, 0, 3, func(context.Context, int) error {
			if err := s.p.Close(); err != shoal.ErrWouldDeadlock {
				s.Failf("Close: %v", err)
			}
			return nil
		})
		if err != shoal.ErrClosed && s.times(0)+s.times(1)+s.times(2) != 3 {
			s.Failf("%v", err)
		}
		s.close()
	})},
	{Name: "cross/Shutdown by who ranges over a Map", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		n, bad := 0, 0
		for _, err := range shoal.Map(context.Background(), s.p, s.items(3), s.item) {
			if n++; err != nil {
				if bad++; err != shoal.ErrClosed {
					s.Failf("%v", err)
				}
			}
			s.shutdown()
		}
		if ran := s.times(0) + s.times(1) + s.times(2); bad > 1 || ran != n-bad || bad == 0 && n != 3 {
			s.Failf("%d ran, %d results, %d errors", ran, n, bad)
		}
	})},
	{Name: "cross/Wait by the input of a Map", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		in := func(yield func(int) bool) {
			for i := range 2 {
				if i > 0 {
					s.p.Wait()
					s.hasRun(i-1, "Wait")
				}
				if !yield(i) {
					return
				}
			}
		}
		for _, err := range shoal.Map(context.Background(), s.p, in, s.item) {
			if err != nil {
				s.Failf("%v", err)
			}
		}
		s.quiet()
	})},
	{Name: "cross/a task of a key that its submitter runs closes the pool", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
		s.drops = true
		s.fill()
		wait := s.beside("other", func() { s.took(1, s.keys.Submit("key", func() { s.item(context.Background(), 1) })) })
		s.took(0, s.keys.Submit("key", func() {
			s.item(context.Background(), 0)
			if err := s.p.Close(); err != nil && err != shoal.ErrWouldDeadlock {
				s.Failf("Close: %v", err)
			}
		}))
		wait()
		s.p.Resume() // the second one may wait for its key
		testpool.Lane(s.p).Done().Wait()
		if n := s.strands(); n != 0 {
			s.Failf("%d keys have tasks", n)
		}
	})},

	// ----- workers that are replaced, delayed tasks -----

	{Name: "cross/workers of one task each, a Local, and a key with turns left", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxTasksPerWorker(1))
		d := s.drawer(s.p)
		for i := range 2 {
			s.accepted[i] = true
			if err := s.keys.SubmitContext(context.Background(), "key", func(ctx context.Context) { d.use(s, ctx, func() { s.did(i) }) }); err != nil {
				s.Failf("%v", err)
			}
		}
		s.submit(2)
		s.p.Wait()
		for i := range 3 {
			s.hasRun(i, "Wait")
		}
		s.quiet()
	})},
	{Name: "cross/workers of one task each in a sub-pool, and a task that helps", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxTasksPerWorker(1), shoal.WithIdleTimeout(0))
		s.inTask(0, func(ctx context.Context) {
			if err := group(ctx, s.sub, s.does(1, nothing), s.does(2, nothing)); err != nil {
				s.Failf("%v", err)
			}
		})
		s.to(s.sub, 3, func() {})
		s.sub.Wait()
		s.hasRun(3, "Wait")
		s.shutdown()
	})},
	{Name: "cross/a delayed task comes due beside a reservation and a group", Bound: 2, Run: onPool(func(s *sim) {
		s.Timed()
		s.pool(1, shoal.WithQueueCapacity(0))
		s.accepted[0] = true
		if _, err := s.p.SubmitAfter(time.Second, s.task(0)); err != nil {
			s.Failf("%v", err)
		}
		wait := s.beside("time", func() { s.Advance(time.Second) })
		r := s.reserve(1)
		if err := s.counted(r, context.Background(), 1); err != nil {
			s.Failf("%v", err)
		}
		if err := group(context.Background(), s.p, s.does(2, nothing)); err != nil {
			s.Failf("%v", err)
		}
		wait()
		s.done.Wait()
		s.quiet()
	})},
	{Name: "cross/a task adds to a group beside its owner, which gives up, and begins anew", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		ctx := explore.NewContext()
		s.inTask(0, func(own context.Context) {
			g := s.p.Group(own, shoal.Limit(2))
			s.in(g, 1, func(context.Context) error { s.in(g, 2, nothing); return nil })
			s.Go("canceler", ctx.Cancel)
			if err := g.WaitContext(ctx); err != nil && err != context.Canceled {
				s.Failf("%v", err)
			}
			s.in(g, 3, nothing)
			s.ended(g, nil, 1, 2, 3)
			var p *shoal.PanicError
			s.in(g, 4, func(context.Context) error { panic("oops") })
			if err := g.Wait(); !errors.As(err, &p) {
				s.Failf("%v", err)
			}
		})
		s.quiet()
	})},
}
