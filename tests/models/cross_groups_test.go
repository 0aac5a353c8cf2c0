//go:build poolsim

package models

import (
	"context"
	"errors"
	"runtime"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// These are the models of groups that meet other parts of the library: sub-pools that close,
// pauses, policies, keys, and tasks that end their goroutine.

// does is a task that notes that i runs, and does f. It needs no note before it is submitted: the
// caller says itself whether i may be lost.
func (s *sim) does(i int, f func(ctx context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		s.accepted[i] = true
		s.did(i)
		return f(ctx)
	}
}

// A scope is a call after whose return nothing that it has begun may run.
type scope struct {
	s    *sim
	o    sy.Object
	n    int
	over bool
}

// inside is a task of the scope.
func (c *scope) inside(f func()) {
	c.look(+1)
	defer c.look(-1)
	f()
}

func (c *scope) look(d int) {
	sy.Access(&c.o, sy.Write)
	if c.n += d; c.over {
		c.s.Failf("a task runs after the return of the call that waits for it")
	}
}

// ends says that the call has returned, or is being left.
func (c *scope) ends() {
	sy.Access(&c.o, sy.Write)
	if c.over = true; c.n != 0 {
		c.s.Failf("%d tasks run when the call returns", c.n)
	}
}

// stopped reports whether err says that a pool has ended.
func stopped(err error) bool {
	return errors.Is(err, shoal.ErrClosed) || errors.Is(err, shoal.ErrDropped) || errors.Is(err, context.Canceled)
}

// fate demands that err is nil and tasks first … last have run, or that a pool has ended and not all have.
func (s *sim) fate(err error, first, last int) {
	ran := 0
	for i := first; i <= last; i++ {
		ran += s.times(i)
	}
	if all := ran == last-first+1; err == nil && !all || err != nil && (all || !stopped(err)) {
		s.Failf("of tasks %d to %d %d ran: %v", first, last, ran, err)
	}
}

// beside starts a thread that does f. The function that it returns waits for its end.
func (s *sim) beside(name string, f func()) (wait func()) {
	e := sy.MakeEvent()
	s.Go(name, func() { f(); e.Set() })
	return e.Wait
}

// task of the parent that does f, and whose result is nil.
func (s *sim) inTask(i int, f func(ctx context.Context)) {
	s.result(context.Background(), i, s.begin(context.Background(), i, func(ctx context.Context) error { f(ctx); return nil }))
}

var crossGroups = []suite.Model{
	{Name: "cross/a group with a limit in a sub-pool, and Close of that", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)})
		s.drops = true
		wait := s.beside("stopper", func() { s.sub.Close() })
		g := s.sub.Group(context.Background(), shoal.Limit(1))
		c := scope{s: s}
		for i := range 2 {
			g.Go(s.does(i, func(context.Context) error { c.inside(func() {}); return nil }))
		}
		err := g.Wait()
		c.ends()
		s.fate(err, 0, 1)
		wait()
		s.close()
	})},
	{Name: "cross/a task makes a group with a limit in a sub-pool, and Close of that", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)})
		s.drops = true
		wait := s.beside("stopper", func() { s.sub.Close() })
		s.inTask(0, func(ctx context.Context) {
			g := s.sub.Group(ctx, shoal.Limit(1))
			g.Go(s.does(1, nothing))
			g.Go(s.does(2, nothing))
			s.fate(g.Wait(), 1, 2)
		})
		wait()
		s.close()
	})},
	{Name: "cross/a group that collects, and Shutdown of the parent", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)})
		wait := s.beside("stopper", s.shutdown)
		g := s.sub.Group(context.Background(), shoal.Limit(1), shoal.CollectErrors())
		g.Go(s.does(0, func(context.Context) error { return errItem }))
		g.Go(s.does(1, func(context.Context) error { return errItem }))
		err := g.Wait()
		n := 0
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range all.Unwrap() {
				if n++; e != errItem && e != shoal.ErrClosed {
					s.Failf("%v", e)
				}
			}
		}
		if n != 2 {
			s.Failf("two tasks failed, or were refused: %v", err)
		}
		wait()
	})},
	{Name: "cross/Wait of groups in the items of a Map, one worker", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1))
		for i, err := range shoal.Map(context.Background(), s.p, s.items(2), func(ctx context.Context, i int) (int, error) {
			g := s.p.Group(ctx, shoal.Limit(1))
			g.Go(s.does(2*i, nothing))
			g.Go(s.does(2*i+1, nothing))
			err := g.Wait()
			s.hasRun(2*i, "Wait")
			s.hasRun(2*i+1, "Wait")
			return i, err
		}) {
			if err != nil {
				s.Failf("item %d: %v", i, err)
			}
		}
		s.shutdown()
	})},
	{Name: "cross/a task of a group ends the goroutine of the task that waits", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.pool(0)
		c := scope{s: s}
		u := shoal.Go(context.Background(), s.p, func(ctx context.Context) (int, error) {
			g := s.p.Group(ctx)
			defer c.ends()
			defer g.Stop()
			for range 2 {
				g.Go(func(context.Context) error { c.inside(runtime.Goexit); return nil })
			}
			return 0, g.Wait()
		})
		if _, err := u.Wait(context.Background()); err != shoal.ErrGoexit {
			s.Failf("Wait = %v", err)
		}
		s.p.Wait()
		s.submit(0) // a worker is there again
		s.shutdown()
	})},
	{Name: "cross/a task fails while Go waits for room", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		s.drops = true
		g := s.p.Group(context.Background())
		g.Go(s.does(0, func(context.Context) error { return errItem }))
		wait := s.beside("other", func() { g.Go(s.does(1, nothing)) })
		g.Go(s.does(2, nothing))
		wait()
		if err := g.Wait(); err != errItem && s.times(0)+s.times(1)+s.times(2) != 3 {
			s.Failf("Wait = %v", err)
		}
		s.shutdown()
	})},
	{Name: "cross/a group waits in a task while the pool is paused", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		done := sy.MakeEvent()
		u := s.begin(context.Background(), 0, func(ctx context.Context) error {
			g := s.p.Group(ctx)
			s.in(g, 1, nothing)
			s.in(g, 2, nothing)
			s.ended(g, nil, 1, 2) // the pause must not keep it
			done.Set()
			return nil
		})
		wait := s.beside("pauser", func() { s.p.Pause() })
		wait()
		if s.times(0) == 0 {
			s.p.Resume()
		}
		done.Wait()
		s.p.Resume()
		s.result(context.Background(), 0, u)
		s.shutdown()
	})},
	{Name: "cross/Stop while Go waits at the limit", Bound: 2, Reach: []string{"limit"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		g := s.p.Group(context.Background(), shoal.Limit(1))
		gate := sy.MakeLatch()
		g.Go(s.does(0, func(ctx context.Context) error { gate.Wait(); return nil }))
		wait := s.beside("other", func() { g.Go(s.does(1, nothing)) })
		wait2 := s.beside("stop", func() { g.Stop() })
		gate.Open()
		wait()
		wait2()
		g.Wait()
		s.shutdown()
	})},
	{Name: "cross/WaitContext gives up, Go goes on, and Close", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		g := s.p.Group(context.Background())
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		wait := s.beside("stopper", s.close)
		g.Go(s.does(0, nothing))
		g.WaitContext(ctx)
		g.Go(s.does(1, nothing))
		err := g.Wait()
		if err == nil {
			s.hasRun(1, "Wait")
		} else if !stopped(err) {
			s.Failf("Wait = %v", err)
		}
		wait()
	})},
	{Name: "cross/a group in a group of a sub-pool of one", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		s.inTask(0, func(ctx context.Context) {
			g := s.sub.Group(ctx)
			for i := 1; i < 3; i++ {
				g.Go(s.does(i, func(ctx context.Context) error {
					in := s.p.Group(ctx) // on the parent
					in.Go(s.does(2*i+1, nothing))
					in.Go(s.does(2*i+2, nothing))
					return in.Wait()
				}))
			}
			if err := g.Wait(); err != nil {
				s.Failf("%v", err)
			}
			for i := 1; i < 7; i++ {
				s.hasRun(i, "Wait")
			}
		})
		s.shutdown()
	})},
	{Name: "cross/a group at its limit under Spawn, in a task", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		s.inTask(0, func(ctx context.Context) {
			g := s.p.Group(ctx, shoal.Limit(1))
			s.in(g, 1, nothing)
			s.in(g, 2, nothing)
			s.in(g, 3, nothing)
			s.ended(g, nil, 1, 2, 3)
		})
		s.quiet()
	})},
	{Name: "cross/DropOldest displaces a task of a group at its limit", Bound: 2, Reach: []string{"displace"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		s.fill()
		g := s.p.Group(context.Background(), shoal.Limit(1), shoal.CollectErrors())
		g.Go(s.does(0, nothing))
		wait := s.beside("other", func() { s.try(2) })
		s.Go("resumer", s.p.Resume)
		g.Go(s.does(1, nothing)) // waits at the limit until task 0 has run, or was dropped
		err := g.Wait()
		if (err == nil) != (s.times(0)+s.times(1) == 2) || err != nil && !errors.Is(err, shoal.ErrDropped) {
			s.Failf("%d, %d: %v", s.times(0), s.times(1), err)
		}
		wait()
		s.p.Resume()
		s.shutdown()
	})},
	{Name: "cross/Reject of a task of a group gives its place to the next", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))
		g := s.p.Group(context.Background(), shoal.Limit(2), shoal.CollectErrors())
		wait := s.beside("other", func() { g.Go(s.does(0, nothing)); g.Go(s.does(1, nothing)) })
		g.Go(s.does(2, nothing))
		g.Go(s.does(3, nothing))
		wait()
		g.Wait()
		st := s.p.Stats()
		ran := s.times(0) + s.times(1) + s.times(2) + s.times(3)
		if ran+int(st.Rejected) != 4 || st.InFlight != 0 {
			s.Failf("%d ran, %d were rejected, %d are in flight", ran, st.Rejected, st.InFlight)
		}
		s.shutdown()
	})},
	{Name: "cross/a task of a key waits for its group, one worker", Bound: 3, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(1))
		f := shoal.GoKeyed(context.Background(), s.keys, "key", func(ctx context.Context) (int, error) {
			g := s.p.Group(ctx)
			g.Go(s.does(0, nothing))
			g.Go(s.does(1, func(context.Context) error { s.keepAs("other", 2, func() {}); return nil }))
			return 0, g.Wait()
		})
		s.keep(3)
		if _, err := f.Wait(context.Background()); err != nil {
			s.Failf("%v", err)
		}
		s.hasRun(0, "Wait")
		s.hasRun(1, "Wait")
		s.quiet()
		s.hasRun(2, "Wait")
		s.hasRun(3, "Wait")
	})},
	{Name: "cross/Stop of a group in a paused pool, beside Go", Bound: 3, Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.p.Pause()
		g := s.p.Group(context.Background())
		wait := s.beside("stopper", func() { g.Stop() }) // the pause must not keep it
		g.Go(s.does(0, nothing))
		wait()
		s.p.Resume()
		g.Wait()
		s.shutdown()
	})},
	{Name: "cross/the parent of a group ends, in a paused pool", Bound: 3, Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.p.Pause()
		ctx := explore.NewContext()
		g := s.p.Group(ctx)
		g.Go(s.does(0, nothing))
		g.Go(s.does(1, nothing))
		s.Go("canceler", ctx.Cancel)
		if err := g.Wait(); err != context.Canceled { // the pause must not keep it
			s.Failf("Wait = %v", err)
		}
		s.p.Resume()
		s.shutdown()
	})},
	{Name: "cross/the parent of a group ends while a task of it begins, and another one waits", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		ctx := explore.NewContext()
		g := s.p.Group(ctx, shoal.CollectErrors())
		g.Go(s.does(0, nothing))
		g.Go(s.does(1, nothing))
		s.Go("canceler", ctx.Cancel)
		if err := g.Wait(); (err == nil) != (s.times(0)+s.times(1) == 2) {
			s.Failf("%d, %d: %v", s.times(0), s.times(1), err)
		}
		s.shutdown()
	})},
	{Name: "cross/the parent of a group ends in a task that has no place in the group's sub-pool", Bound: 2, Reach: []string{"no place"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		s.drops = true
		gate := sy.MakeLatch()
		ctx := explore.NewContext()
		u := s.begin(ctx, 0, func(ctx context.Context) error {
			g := s.sub.Group(ctx)
			g.Go(s.does(1, nothing))
			g.Wait() // the task of the sub-pool must not keep it
			gate.Open()
			return nil
		})
		s.sub.Submit(func() { gate.Wait() })
		s.Go("canceler", ctx.Cancel)
		u.Wait(context.Background())
		if s.times(0) == 0 {
			gate.Open()
		}
		s.shutdown()
	})},
	{Name: "cross/a task of a group comes, and has no place, when its waiter has seen none", Bound: 2, Night: 3, Reach: []string{"no place"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithPriority(-1)}, shoal.WithMaxWorkers(2))
		over := sy.MakeLatch()
		u := s.begin(context.Background(), 0, func(ctx context.Context) error {
			g := s.sub.Group(ctx)
			g.Go(s.does(1, func(context.Context) error {
				s.p.Submit(func() { over.Wait() }) // for the worker that runs this
				g.Go(s.does(2, nothing))
				return nil
			}))
			err := g.Wait()
			over.Open()
			return err
		})
		s.result(context.Background(), 0, u)
		s.hasRun(2, "Wait")
		s.shutdown()
	})},
	{Name: "cross/an error of a group and a task on two workers", Bound: 3, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		g := s.p.Group(context.Background())
		g.Go(func(context.Context) error { return errors.New("x") })
		g.Go(s.does(1, nothing))
		s.shutdown()
	})},
	{Name: "cross/Stop from aside while the pool is shut down", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		g := s.p.Group(context.Background())
		g.Go(s.does(0, nothing))
		wait := s.beside("stopper", func() { g.Stop() })
		s.shutdown()
		wait()
		s.gone("Stop")
	})},
	{Name: "cross/the context of a Future ends in a paused pool", Bound: 3, Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.p.Pause()
		ctx := explore.NewContext()
		u := s.begin(ctx, 0, nothing)
		s.Go("canceler", ctx.Cancel)
		if _, err := u.Wait(context.Background()); err != context.Canceled { // the pause must not keep it
			s.Failf("Wait = %v", err)
		}
		s.p.Resume()
		s.shutdown()
	})},
	{Name: "cross/the context of a Future ends while a worker comes to it, and another one waits", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		ctx := explore.NewContext()
		u, v := s.begin(ctx, 0, nothing), s.begin(context.Background(), 1, nothing)
		s.Go("canceler", ctx.Cancel)
		if _, err := u.Wait(context.Background()); (err == nil) != (s.times(0) == 1) {
			s.Failf("%d: %v", s.times(0), err)
		}
		s.result(context.Background(), 1, v)
		s.shutdown()
	})},
	{Name: "cross/the context of a Map ends in a paused pool", Bound: 2, Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.p.Pause()
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		for _, err := range shoal.MapUnordered(ctx, s.p, s.items(2), func(context.Context, int) (int, error) { return 0, nil }) {
			if err != context.Canceled { // the pause must not keep it
				s.Failf("%v", err)
			}
		}
		s.p.Resume()
		s.shutdown()
	})},
	{Name: "cross/TryGo and Go of a task at the limit, while another one waits", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		g := s.p.Group(context.Background(), shoal.Limit(1))
		s.in(g, 0, func(context.Context) error {
			s.in(g, 1, nothing) // here, beyond the limit
			g.TryGo(s.does(2, nothing))
			return nil
		})
		s.in(g, 3, nothing)
		s.ended(g, nil, 0, 1, 3)
		s.shutdown()
	})},
}
