//go:build poolsim

package models

import (
	"context"
	"errors"
	"iter"
	"runtime"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// These are the models of Map, ForEach and Range that meet other parts of the library.

// ranges is a Range over n items from i on, in ctx on p. Nothing of it runs after its return.
func (s *sim) ranges(ctx context.Context, p *shoal.Pool, i, n int, f func(ctx context.Context, i int) error) error {
	c := scope{s: s}
	defer c.ends() // also in Goexit
	return shoal.Range(ctx, p, n, func(ctx context.Context, lo, hi int) (err error) {
		c.inside(func() {
			for ; lo < hi && err == nil; lo++ {
				s.accepted[i+lo] = true
				s.did(i + lo)
				err = f(ctx, i+lo)
			}
		})
		return err
	})
}

var crossLoops = []suite.Model{
	{Name: "cross/ForEach beside Close says once that the pool was closed", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		wait := s.beside("stopper", s.close)
		err := shoal.ForEach(context.Background(), s.p, s.items(3), func(ctx context.Context, i int) error {
			s.item(ctx, i)
			return ctx.Err()
		})
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			if es := all.Unwrap(); len(es) != 1 || es[0] != shoal.ErrClosed {
				s.Failf("the errors are %v, want ErrClosed once", es)
			}
		}
		wait()
	})},
	{Name: "cross/a Map is left while an item calls Goexit", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		c := scope{s: s}
		for _, err := range shoal.MapUnordered(context.Background(), s.p, s.items(3), func(ctx context.Context, i int) (int, error) {
			c.inside(func() {
				s.item(ctx, i)
				if i == 1 {
					runtime.Goexit()
				}
			})
			return i, nil
		}) {
			if err != nil && err != shoal.ErrGoexit {
				s.Failf("%v", err)
			}
			break
		}
		c.ends()
		s.quiet()
	})},
	{Name: "cross/an item of a Map ends the goroutine of the task that ranges", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		c := scope{s: s}
		u := shoal.Go(context.Background(), s.p, func(ctx context.Context) (int, error) {
			defer c.ends()
			for _, err := range shoal.Map(ctx, s.p, s.items(3), func(ctx context.Context, i int) (int, error) {
				c.inside(func() { s.item(ctx, i); runtime.Goexit() })
				return i, nil
			}) {
				if err != shoal.ErrGoexit {
					s.Failf("%v", err)
				}
			}
			return 0, nil
		})
		if _, err := u.Wait(context.Background()); err != nil && err != shoal.ErrGoexit {
			s.Failf("%v", err)
		}
		s.quiet()
	})},
	{Name: "cross/the body of a range over a Map panics, in a task", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		c := scope{s: s}
		err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
			defer c.ends()
			for range shoal.MapUnordered(ctx, s.p, s.items(3), func(ctx context.Context, i int) (int, error) {
				c.inside(func() { s.item(ctx, i) })
				return i, nil
			}) {
				panic("oops")
			}
			return nil
		})
		var p *shoal.PanicError
		if !errors.As(err, &p) || p.Value != "oops" {
			s.Failf("%v", err)
		}
		s.quiet()
	})},
	{Name: "cross/a Map on a pool where callers run, and its context ends", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
		s.drops = true
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		ran, failed, next := 0, false, 0
		for v, err := range shoal.Map(ctx, s.p, s.items(3), s.item) {
			switch {
			case err == nil && (v != next || s.times(v) != 1):
				s.Failf("item %d is %d, ran %d", next, v, s.times(v))
			case err == nil:
				ran++
			case err != context.Canceled:
				s.Failf("%v", err)
			default:
				failed = true
			}
			next++
		}
		if !failed && ran != 3 {
			s.Failf("%d items, and no error", ran)
		}
		s.quiet()
	})},
	{Name: "cross/an item that is not yielded panics, and the handler gets it", Bound: 2, Run: onPool(func(s *sim) {
		var told sy.Int64
		s.pool(0, shoal.WithMaxWorkers(2), shoal.WithPanicHandler(func(*shoal.PanicError) { told.Add(1) }))
		s.drops = true
		for range shoal.Map(context.Background(), s.p, s.items(2), func(ctx context.Context, i int) (int, error) {
			s.item(ctx, i)
			panic("oops")
		}) {
			break
		}
		if n := s.times(0) + s.times(1); told.Load() != int64(n) {
			s.Failf("%d items panicked, the handler was told of %d", n, told.Load())
		}
		s.quiet()
	})},
	{Name: "cross/the input of ForEach submits to the pool and waits", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		s.fromPool(context.Background())
		s.quiet()
	})},
	{Name: "cross/the input of ForEach submits to the pool and waits, in a task", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		if err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error { s.fromPool(ctx); return nil }); err != nil {
			s.Failf("%v", err)
		}
		s.quiet()
	})},
	{Name: "cross/a Map is the input of a Map, in a task of a sub-pool", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1)}, shoal.WithMaxWorkers(2))
		u := shoal.Go(context.Background(), s.sub, func(ctx context.Context) (int, error) {
			first := func(yield func(int) bool) {
				for v, err := range shoal.Map(ctx, s.sub, s.items(2), s.item) {
					if err != nil || !yield(v+4) {
						return
					}
				}
			}
			n := 0
			for _, err := range shoal.Map(ctx, s.p, first, s.item) {
				if n++; err != nil {
					s.Failf("%v", err)
				}
			}
			return n, nil
		})
		if n, err := u.Wait(context.Background()); n != 2 || err != nil {
			s.Failf("%d, %v", n, err)
		}
		s.shutdown()
	})},
	{Name: "cross/a Map in a Map, one worker and no queue", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		n := 0
		for _, err := range shoal.MapUnordered(context.Background(), s.p, s.items(2), func(ctx context.Context, i int) (int, error) {
			for _, err := range shoal.MapUnordered(ctx, s.p, s.items(2), func(ctx context.Context, k int) (int, error) { return s.item(ctx, 2*i+k) }) {
				if err != nil {
					s.Failf("%v", err)
				}
			}
			return i, nil
		}) {
			if n++; err != nil {
				s.Failf("%v", err)
			}
		}
		for i := range 4 {
			s.hasRun(i, "MapUnordered")
		}
		if n != 2 {
			s.Failf("%d results", n)
		}
		s.quiet()
	})},
	{Name: "cross/a Map in a sub-pool, and Close of that", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1)})
		s.drops = true
		wait := s.beside("stopper", func() { s.sub.Close() })
		c := scope{s: s}
		n, bad := 0, 0
		for _, err := range shoal.Map(context.Background(), s.sub, s.items(3), func(ctx context.Context, i int) (int, error) {
			c.inside(func() { s.item(ctx, i) })
			return i, nil
		}) {
			if n++; err != nil {
				if bad++; !stopped(err) {
					s.Failf("%v", err)
				}
			}
		}
		c.ends()
		if bad == 0 && n != 3 {
			s.Failf("%d results, none with an error", n)
		}
		wait()
		s.close()
	})},
	{Name: "cross/a Range in a Range, in a task of a full sub-pool of one", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0)}, shoal.WithMaxWorkers(2))
		s.to(s.sub, 7, func() {})
		u := shoal.Go(context.Background(), s.sub, func(ctx context.Context) (int, error) {
			return 0, s.ranges(ctx, s.sub, 0, 2, func(ctx context.Context, i int) error {
				return s.ranges(ctx, s.p, 2+2*i, 2, item)
			})
		})
		if _, err := u.Wait(context.Background()); err != nil {
			s.Failf("%v", err)
		}
		for i := range 6 {
			s.hasRun(i, "Range")
		}
		s.shutdown()
	})},
	{Name: "cross/a Range on a sub-pool from a task of its parent, and Close of the sub-pool", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(2)}, shoal.WithMaxWorkers(2))
		s.drops = true
		wait := s.beside("stopper", func() { s.sub.Close() })
		s.inTask(0, func(ctx context.Context) {
			err := s.ranges(ctx, s.sub, 1, 3, item)
			if n := s.times(1) + s.times(2) + s.times(3); err == nil && n != 3 || err != nil && err != shoal.ErrClosed {
				s.Failf("%d items, %v", n, err)
			}
		})
		wait()
		s.close()
	})},
	{Name: "cross/a Range on a sub-pool, and Shutdown of the parent", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(2)}, shoal.WithMaxWorkers(2))
		wait := s.beside("stopper", s.shutdown)
		err := s.ranges(context.Background(), s.sub, 0, 3, item)
		if n := s.times(0) + s.times(1) + s.times(2); n != 3 && n != 0 || (err == nil) != (n == 3) || err != nil && err != shoal.ErrClosed {
			s.Failf("%d items, %v", n, err)
		}
		wait()
	})},
	{Name: "cross/Goexit on the caller of a Range, in a task", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		u := shoal.Go(context.Background(), s.p, func(ctx context.Context) (int, error) {
			s.ranges(ctx, s.p, 0, 3, func(context.Context, int) error { runtime.Goexit(); return nil })
			return 0, nil
		})
		if _, err := u.Wait(context.Background()); err != nil && err != shoal.ErrGoexit {
			s.Failf("%v", err)
		}
		s.quiet()
	})},
	{Name: "cross/a Range in a task of a group that fails", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		g := s.p.Group(context.Background())
		g.Go(func(ctx context.Context) error {
			err := s.ranges(ctx, s.p, 0, 3, item)
			if n := s.times(0) + s.times(1) + s.times(2); (err == nil) != (n == 3) || err != nil && err != context.Canceled {
				s.Failf("%d items, %v", n, err)
			}
			return err
		})
		g.Go(func(context.Context) error { return errItem })
		if err := g.Wait(); err != errItem {
			s.Failf("Wait = %v", err)
		}
		s.quiet()
	})},
	{Name: "cross/a Range in a task of a key, with a turn left", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1))
		f := shoal.GoKeyed(context.Background(), s.keys, "key", func(ctx context.Context) (int, error) {
			s.enter()
			defer s.exit()
			return 0, s.ranges(ctx, s.p, 0, 2, item)
		})
		s.keep(2)
		if _, err := f.Wait(context.Background()); err != nil {
			s.Failf("%v", err)
		}
		s.p.Wait()
		for i := range 3 {
			s.hasRun(i, "Wait")
		}
		s.shutdown()
	})},
	{Name: "cross/a Range, Resize, and its context ends", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(3))
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		wait := s.beside("resizer", func() { s.p.Resize(0, 1); s.p.Resize(0, 2) })
		err := s.ranges(ctx, s.p, 0, 3, item)
		if n := s.times(0) + s.times(1) + s.times(2); (err == nil) != (n == 3) || err != nil && err != context.Canceled {
			s.Failf("%d items, %v", n, err)
		}
		wait()
		s.quiet()
	})},
	{Name: "cross/a SubmitWait in a Range in a SubmitWait, and the pool drains", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		began := sy.MakeEvent()
		wait := s.beside("drain", func() { began.Wait(); s.p.Drain() })
		err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
			began.Set()
			return s.ranges(ctx, s.p, 0, 2, func(ctx context.Context, i int) error {
				if err := s.p.SubmitWait(ctx, func(context.Context) error { return nil }); err != nil && err != shoal.ErrClosed {
					s.Failf("%v", err)
				}
				return nil
			})
		})
		if err != nil || s.times(0)+s.times(1) != 2 {
			s.Failf("%d items, %v", s.times(0)+s.times(1), err)
		}
		wait()
		s.shutdown()
	})},
}

// fromPool is a ForEach whose items come from tasks of the pool.
func (s *sim) fromPool(ctx context.Context) {
	var in iter.Seq[int] = func(yield func(int) bool) {
		for i := range 2 {
			if err := s.p.SubmitWait(ctx, s.does(i, nothing)); err != nil {
				s.Failf("%v", err)
			}
			if !yield(i + 2) {
				return
			}
		}
	}
	if err := shoal.ForEach(ctx, s.p, in, func(ctx context.Context, i int) error { s.item(ctx, i); return nil }); err != nil {
		s.Failf("%v", err)
	}
	for i := range 4 {
		s.hasRun(i, "ForEach")
	}
}
