//go:build poolsim

package models

import (
	"context"
	"runtime"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// These are the models of two pools of one worker each whose tasks wait for each other, with their
// contexts, and of inputs of Map that fail.

// another makes a second pool, which the function that it returns shuts down.
func (s *sim) another() (q *shoal.Pool, end func()) {
	q = shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithTiming(shoal.TimingOff),
		shoal.WithIdleTimeout(shoal.Forever), shoal.WithSpin(0), shoal.WithSizing(shoal.Eager())))
	s.others = true
	return q, func() {
		if err := q.Shutdown(context.Background()); err != nil {
			s.Failf("Shutdown: %v", err)
		}
		s.others = false
		if st := q.Stats(); st.InFlight != 0 || st.Workers != 0 || st.Submitted != st.Completed+st.Dropped+st.Canceled {
			s.Failf("at the end: %+v", st)
		}
	}
}

// through is a task of the pool that waits for one of q, which does f.
func (s *sim) through(q *shoal.Pool, f func(ctx context.Context) error) {
	err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error { return q.SubmitWait(ctx, f) })
	if err != nil {
		s.Failf("%v", err)
	}
}

var crossPools = []suite.Model{
	{Name: "cross/a task waits for one of another pool, which waits for a group of the first", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1))
		q, end := s.another()
		s.through(q, func(ctx context.Context) error {
			return group(ctx, s.p, s.does(0, nothing), s.does(1, func(ctx context.Context) error {
				return q.SubmitWait(ctx, s.does(2, nothing))
			}))
		})
		for i := range 3 {
			s.hasRun(i, "Wait")
		}
		end()
		s.quiet()
	})},
	{Name: "cross/a task waits for one of another pool, which ranges over a Map of the first", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		q, end := s.another()
		s.through(q, func(ctx context.Context) error {
			for _, err := range shoal.Map(ctx, s.p, s.items(2), s.item) {
				if err != nil {
					return err
				}
			}
			return shoal.Range(ctx, s.p, 2, func(ctx context.Context, lo, hi int) error {
				for ; lo < hi; lo++ {
					s.item(ctx, lo+2)
				}
				return q.SubmitWait(ctx, nothing)
			})
		})
		for i := range 4 {
			s.hasRun(i, "the loop")
		}
		end()
		s.quiet()
	})},
	{Name: "cross/two pools wait for each other, and a Local of the first", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		q, end := s.another()
		d := s.drawer(s.p)
		wait := s.beside("other", func() {
			q.SubmitWait(context.Background(), func(ctx context.Context) error {
				return s.p.SubmitWait(ctx, func(ctx context.Context) error { d.use(s, ctx, func() {}); return nil })
			})
		})
		err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
			c := d.use(s, ctx, func() {})
			f := shoal.Go(ctx, s.p, func(ctx context.Context) (int, error) { d.use(s, ctx, func() {}); return 0, nil })
			if _, err := f.Wait(ctx); err != nil {
				return err
			}
			if d.use(s, ctx, func() {}) != c {
				s.Failf("a worker has two")
			}
			return nil
		})
		if err != nil {
			s.Failf("%v", err)
		}
		wait()
		end()
		s.quiet()
	})},
	{Name: "cross/Close of the first pool beside a task of another that waits for its Future", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		q, end := s.another()
		wait := s.beside("stopper", s.close)
		err := q.SubmitWait(context.Background(), func(ctx context.Context) error {
			_, err := shoal.Go(ctx, s.p, func(ctx context.Context) (int, error) {
				s.item(ctx, 0)
				return 0, q.SubmitWait(ctx, nothing)
			}).Wait(ctx)
			return err
		})
		if err != nil && !stopped(err) || err == nil && s.times(0) != 1 {
			s.Failf("ran %d: %v", s.times(0), err)
		}
		wait()
		end()
	})},
	{Name: "cross/the input of a Map panics or ends its goroutine, in a task", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		for n, end := range []func(){func() { panic("oops") }, runtime.Goexit} {
			c := scope{s: s}
			err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
				defer c.ends()
				in := func(yield func(int) bool) {
					if yield(0) {
						end()
					}
				}
				for range shoal.Map(ctx, s.p, in, func(context.Context, int) (int, error) { c.inside(func() {}); return 0, nil }) {
				}
				return nil
			})
			if (err == shoal.ErrGoexit) != (n == 1) || err == nil {
				s.Failf("%v", err)
			}
		}
		s.quiet()
	})},
	{Name: "cross/a Local that uses another one, whose close panics, and Goexit of the task", Bound: 2, Run: onPool(func(s *sim) {
		var told sy.Int64
		s.pool(0, shoal.WithPanicHandler(func(*shoal.PanicError) { told.Add(1) }))
		d := s.drawer(s.p)
		var opened, closed sy.Int64
		upper := shoal.NewLocal(s.p, func(int) (*content, error) {
			opened.Add(1)
			return nil, nil
		}, func(*content) {
			if closed.Add(1); d.open.Load() == 0 {
				s.Failf("what was opened first is closed first")
			}
			panic("oops")
		})
		err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
			d.use(s, ctx, func() {})
			upper.Get(ctx)
			runtime.Goexit()
			return nil
		})
		if err != shoal.ErrGoexit {
			s.Failf("%v", err)
		}
		s.submit(0)
		s.quiet()
		if opened.Load() != 1 || closed.Load() != 1 || told.Load() != 1 {
			s.Failf("%d opened, %d closed, the handler was told of %d", opened.Load(), closed.Load(), told.Load())
		}
	})},
	{Name: "cross/a group without its context in the body of a range over a Map, one worker", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		s.inTask(0, func(ctx context.Context) {
			for i, err := range shoal.MapUnordered(ctx, s.p, s.items(2), func(_ context.Context, i int) (int, error) { s.item(context.Background(), i+1); return i, nil }) {
				if err != nil {
					s.Failf("%v", err)
				}
				if err := group(context.Background(), s.p, s.does(3+2*i, nothing), s.does(4+2*i, nothing)); err != nil {
					s.Failf("%v", err)
				}
				s.hasRun(3+2*i, "Wait")
				s.hasRun(4+2*i, "Wait")
			}
		})
		s.quiet()
	})},
	{Name: "cross/a group of two goroutines at the limit, in a task whose context ends", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		err := s.p.SubmitWait(ctx, func(ctx context.Context) error {
			g := s.p.Group(ctx, shoal.Limit(1))
			wait := s.beside("other", func() { g.Go(s.does(0, nothing)) })
			g.Go(s.does(1, nothing))
			wait()
			err := g.Wait()
			s.fate(err, 0, 1)
			return err
		})
		if err != nil && err != context.Canceled {
			s.Failf("%v", err)
		}
		s.quiet()
	})},
}
