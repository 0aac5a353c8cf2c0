//go:build poolsim

package models

import (
	"context"
	"errors"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// These are the models of reservations, Tracers and hooks that meet other parts of the library.

// counted submits task i for a place of r. At the end it has run, or lost was called once, or
// neither, if it was refused.
func (s *sim) counted(r *shoal.Reservation, ctx context.Context, i int) error {
	var lost sy.Int64
	err := r.Submit(ctx, s.does(i, nothing), func(error) { lost.Add(1) })
	s.After(func() {
		if n := s.ran[i] + int(lost.Load()); err == nil && n != 1 || err != nil && n != 0 {
			s.Failf("task %d ran %d, lost %d: %v", i, s.ran[i], lost.Load(), err)
		}
	})
	return err
}

var crossPlaces = []suite.Model{
	{Name: "cross/a reservation beside a group, Pause and Resize", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0))
		wait := s.beside("pauser", func() { s.p.Pause(); s.p.Resize(0, 1); s.p.Resume(); s.p.Resize(0, 2) })
		wait2 := s.beside("group", func() {
			g := s.p.Group(context.Background(), shoal.Limit(1))
			s.in(g, 0, nothing)
			s.in(g, 1, nothing)
			s.ended(g, nil, 0, 1)
		})
		r := s.reserve(2)
		if err := s.counted(r, context.Background(), 2); err != nil {
			s.Failf("%v", err)
		}
		r.Release()
		wait()
		wait2()
		s.quiet()
	})},
	{Name: "cross/a reserved task, its context ends, and Close", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		ctx := explore.NewContext()
		r := s.reserve(1)
		s.Go("canceler", ctx.Cancel)
		wait := s.beside("stopper", s.close)
		s.counted(r, ctx, 0)
		r.Release()
		wait()
	})},
	{Name: "cross/a reservation of a sub-pool, and Close of the parent", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0)})
		s.drops = true
		wait := s.beside("stopper", s.close)
		if r, err := s.sub.Reserve(context.Background(), 1); err == nil {
			if err := s.counted(r, context.Background(), 0); err != nil && !errors.Is(err, shoal.ErrClosed) {
				s.Failf("%v", err)
			}
			r.Release()
		} else if err != shoal.ErrClosed {
			s.Failf("%v", err)
		}
		wait()
	})},
	{Name: "cross/Reserve gives up beside Shutdown", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		ctx := explore.NewContext()
		s.submit(0)
		s.Go("canceler", ctx.Cancel)
		wait := s.beside("stopper", s.shutdown)
		r, err := s.p.Reserve(ctx, 1)
		switch {
		case err == nil:
			if err := s.counted(r, context.Background(), 1); err != nil && !errors.Is(err, shoal.ErrClosed) {
				s.Failf("%v", err)
			}
		case err != shoal.ErrClosed && err != context.Canceled:
			s.Failf("%v", err)
		}
		wait() // a place that nobody gives back must not keep it
	})},
	{Name: "cross/two reserved places, Resize, and a waiter for room", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0))
		r := s.reserve(2)
		if r.Len() != 2 {
			s.Failf("%d places of a pool without tasks", r.Len())
		}
		wait := s.beside("resizer", func() { s.p.Resize(0, 1) })
		wait2 := s.beside("other", func() { s.submit(2) })
		for i := range 2 {
			if err := s.counted(r, context.Background(), i); err != nil {
				s.Failf("%v", err)
			}
		}
		wait()
		wait2()
		s.p.Wait()
		s.hasRun(2, "Wait")
		s.quiet()
	})},
	{Name: "cross/a reservation under DropOldest beside a key", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		wait := s.beside("other", func() { s.keepOrFull(0); s.keepOrFull(1); s.keepOrFull(2) })
		r := s.reserve(1)
		s.counted(r, context.Background(), 3)
		r.Release()
		wait()
		s.p.Wait()
		s.reserve(1).Release()
		s.quiet()
	})},

	// ----- Tracers -----

	{Name: "cross/a Tracer that submits, a group, and Close", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(2), s.follow(false))
		s.drops = true
		wait := s.beside("stopper", s.close)
		g := s.p.Group(context.Background())
		g.Go(s.does(0, nothing))
		g.Go(s.does(1, nothing))
		s.fate(g.Wait(), 0, 1)
		wait()
	})},
	{Name: "cross/a Tracer that submits, a task of a key that is cancelled, and Close", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2), s.follow(false))
		s.drops = true
		wait := s.beside("stopper", s.close)
		a := shoal.GoKeyed(context.Background(), s.keys, "key", func(context.Context) (int, error) { s.item(context.Background(), 0); return 0, nil })
		b := shoal.GoKeyed(context.Background(), s.keys, "key", func(context.Context) (int, error) { s.item(context.Background(), 1); return 0, nil })
		b.Cancel()
		_, err := b.Wait(context.Background())
		s.fate(err, 1, 1)
		_, err = a.Wait(context.Background())
		s.fate(err, 0, 0)
		wait()
	})},
	{Name: "cross/a Tracer that submits, and a Map that is left", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2), s.follow(false))
		s.drops = true
		for range shoal.Map(context.Background(), s.p, s.items(3), s.item) {
			break
		}
		s.quiet()
	})},
	{Name: "cross/a Tracer whose Started panics, and a reservation and a group", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, s.follow(true))
		s.drops = true
		r := s.reserve(1)
		s.counted(r, context.Background(), 0)
		g := s.p.Group(context.Background())
		g.Go(s.does(1, nothing))
		var p *shoal.PanicError
		if err := g.Wait(); !errors.As(err, &p) || p.Value != "Started" {
			s.Failf("Wait = %v", err)
		}
		s.quiet()
	})},
	{Name: "cross/a Tracer, a Range in a Range, and Close", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2), s.follow(false))
		s.drops = true
		wait := s.beside("stopper", s.close)
		err := s.ranges(context.Background(), s.p, 0, 2, func(ctx context.Context, i int) error {
			return s.ranges(ctx, s.p, 2+2*i, 2, item)
		})
		n := 0
		for i := range 6 {
			n += s.times(i)
		}
		if (err == nil) != (n == 6) || err != nil && err != shoal.ErrClosed {
			s.Failf("%d items, %v", n, err)
		}
		wait()
	})},

	// ----- hooks -----

	{Name: "cross/a stop hook submits a task", Bound: 2, Run: onPool(func(s *sim) {
		first := true
		s.pool(0, shoal.WithIdleTimeout(0), shoal.WithQueueCapacity(0), shoal.WithWorkerHooks(nil, func(int) {
			if sy.Access(&s.alone, sy.Write); first {
				first = false
				s.accepted[1] = true
				s.took(1, s.p.TrySubmit(func() { s.did(1) }))
			}
		}))
		s.submit(0)
		s.p.Wait()
		s.shutdown()
		if s.accepted[1] {
			s.hasRun(1, "Shutdown")
		}
	})},
	{Name: "cross/a start hook submits a task", Bound: 2, Run: onPool(func(s *sim) {
		first := true
		s.pool(0, shoal.WithMaxWorkers(2), shoal.WithWorkerHooks(func(int) {
			if sy.Access(&s.alone, sy.Write); first {
				first = false
				s.took(1, s.p.Submit(func() { s.item(context.Background(), 1) })) // refused after the shutdown
			}
		}, nil))
		s.submit(0)
		s.shutdown()
		s.hasRun(0, "Shutdown")
	})},
	{Name: "cross/the close of a Local submits a task", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithIdleTimeout(0))
		l := shoal.NewLocal(s.p, func(int) (int, error) { return 0, nil }, func(int) {
			if s.times(1) == 0 {
				s.took(1, s.p.TrySubmit(func() { s.item(context.Background(), 1) }))
			}
		})
		s.p.SubmitWait(context.Background(), func(ctx context.Context) error { l.Get(ctx); return nil })
		s.p.Wait()
		s.shutdown()
		if s.accepted[1] {
			s.hasRun(1, "Shutdown")
		}
	})},
	{Name: "cross/a Sizer resizes and pauses the pool", Bound: 2, Run: onPool(func(s *sim) {
		s.workers = 3
		s.pool(0, shoal.WithMaxWorkers(2), shoal.WithSizing(sizer(func() bool {
			s.p.Resize(0, 3)
			s.p.Pause()
			s.p.Stats()
			s.p.Resume()
			return true
		})))
		e := sy.MakeEvent()
		s.submitTask(0, func() { s.did(0); e.Wait() })
		s.submitTask(1, func() { s.did(1); e.Set() })
		s.p.Wait()
		s.quiet()
	})},
	{Name: "cross/the context of the pool ends beside a group in a task", Bound: 2, Run: onPool(func(s *sim) {
		ctx := explore.NewContext()
		s.pool(0, shoal.WithContext(ctx))
		s.drops = true
		s.Go("canceler", ctx.Cancel)
		err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
			g := s.p.Group(ctx)
			g.Go(s.does(0, nothing))
			g.Go(s.does(1, nothing))
			err := g.Wait()
			s.fate(err, 0, 1)
			return err
		})
		if err != nil && !stopped(err) {
			s.Failf("%v", err)
		}
		s.close()
	})},
}

type sizer func() bool

func (f sizer) Grow(shoal.Sizing) bool { return f() }
