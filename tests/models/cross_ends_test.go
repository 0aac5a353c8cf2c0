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
	"github.com/shoal-go/shoal/internal/testpool"
)

// These are the models of functions of the user that close the pool, of batches, policies and
// timers, beside groups, loops and keys.

// shut calls Close where that cannot wait.
func (s *sim) shut() {
	if err := s.p.Close(); err != nil && err != shoal.ErrWouldDeadlock {
		s.Failf("Close: %v", err)
	}
}

// A closing closes the pool when it is told of a task that does not run.
type closing struct{ s *sim }

func (c closing) Submitted(ctx context.Context, _ *shoal.Pool, _ string) context.Context { return ctx }
func (c closing) Started(ctx context.Context, _ *shoal.Pool, _ string) (context.Context, func(error)) {
	return ctx, func(error) { c.s.shut() }
}
func (c closing) Refused(context.Context, *shoal.Pool, string, error) { c.s.shut() }

var crossEnds = []suite.Model{
	{Name: "cross/the close of a Local, and a stop hook, close the pool", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithIdleTimeout(0), shoal.WithWorkerHooks(nil, func(int) { s.shut() }))
		s.drops = true
		l := shoal.NewLocal(s.p, func(int) (int, error) { return 0, nil }, func(int) { s.shut() })
		s.p.SubmitWait(context.Background(), func(ctx context.Context) error { l.Get(ctx); return nil })
		s.try(0)
		testpool.Lane(s.p).Done().Wait()
	})},
	{Name: "cross/a Tracer closes the pool, beside a group in a task", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithTracer(closing{s}))
		s.drops = true
		err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
			err := group(ctx, s.p, s.does(0, nothing), s.does(1, nothing))
			s.fate(err, 0, 1)
			return err
		})
		if err != nil && !stopped(err) {
			s.Failf("%v", err)
		}
		testpool.Lane(s.p).Done().Wait()
	})},
	{Name: "cross/the lost function of a reservation closes the pool and submits", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		ctx := explore.NewContext()
		r := s.reserve(2)
		lost := func(error) { s.shut(); s.p.Submit(func() { s.Failf("a closed pool runs a task") }) }
		s.Go("canceler", ctx.Cancel)
		r.Submit(ctx, func(context.Context) error { return nil }, lost)
		r.Submit(ctx, func(context.Context) error { return nil }, lost)
		r.Release()
		s.close()
	})},
	{Name: "cross/SubmitBatch in a task of a full pool, and Close", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1))
		s.drops = true
		wait := s.beside("stopper", s.close)
		n, began := 0, false
		s.p.SubmitWait(context.Background(), func(context.Context) error {
			began = true
			f := func(i int) func() { return func() { s.item(context.Background(), i) } }
			n, _ = s.p.SubmitBatch([]func(){f(0), f(1), f(2)})
			return nil
		})
		wait()
		if st := s.p.Stats(); began && int(st.Submitted) != n+1 || !began && s.times(0) != 0 {
			s.Failf("%d accepted: %+v", n, st)
		}
		for i := range 3 {
			if i >= n && s.times(i) != 0 {
				s.Failf("%d were accepted, and task %d ran", n, i)
			}
		}
	})},
	{Name: "cross/two calls of Shutdown, of one the context ends, and a task that helps", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		u := s.begin(context.Background(), 0, func(ctx context.Context) error {
			_, err := shoal.Go(ctx, s.p, func(context.Context) (int, error) { s.item(context.Background(), 1); return 0, nil }).Wait(ctx)
			s.fate(err, 1, 1)
			return nil
		})
		var a error
		wait := s.beside("stopper", func() { a = s.p.Shutdown(ctx) })
		b := s.p.Shutdown(context.Background())
		s.gone("Shutdown")
		wait()
		var x, y *shoal.ShutdownError
		if errors.As(a, &x) != errors.As(b, &y) || x != nil && (x.Dropped != y.Dropped || x.Running != y.Running) {
			s.Failf("all calls return the same: %v, %v", a, b)
		}
		_, err := u.Wait(context.Background())
		s.fate(err, 0, 0)
	})},
	{Name: "cross/a spawned task uses a Local and a group, and Close", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		s.drops = true
		d := s.drawer(s.p)
		s.fill()
		wait := s.beside("stopper", s.close)
		err := s.p.SubmitWait(context.Background(), s.does(0, func(ctx context.Context) (err error) {
			d.use(s, ctx, func() { err = group(ctx, s.p, s.does(1, nothing)); s.fate(err, 1, 1) })
			return nil
		}))
		s.fate(err, 0, 0)
		wait()
	})},
	{Name: "cross/a helper ends its goroutine in a loop that collects", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		d := shoal.NewLocal(s.p, func(id int) (int, error) { return id, nil }, nil) // tells the caller, -1, from a worker
		_, err := shoal.MapSlice(context.Background(), s.p, []int{0, 1, 2}, func(ctx context.Context, i int) (int, error) {
			s.item(ctx, i)
			if id, err := d.Get(ctx); err != nil {
				s.Failf("Get: %v", err)
			} else if id >= 0 {
				runtime.Goexit()
			}
			return i, nil
		}, shoal.CollectErrors())
		for i := range 3 {
			s.hasRun(i, "MapSlice")
		}
		if err != nil && !errors.Is(err, shoal.ErrGoexit) {
			s.Failf("%v", err)
		}
		s.quiet()
	})},
	{Name: "cross/Map on a pool that drops its oldest, beside others", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		wait := s.beside("other", func() { s.try(4); s.try(5) })
		next := 0
		for v, err := range shoal.Map(context.Background(), s.p, s.items(3), s.item) {
			if err == nil && v != next || (err == nil) != (s.times(next) == 1) || err != nil && !errors.Is(err, shoal.ErrDropped) && err != shoal.ErrQueueFull {
				s.Failf("item %d: %d, %v", next, v, err)
			}
			next++
		}
		if next != 3 {
			s.Failf("%d results", next)
		}
		wait()
		s.quiet()
	})},
	{Name: "cross/MapUnordered on a pool that rejects, in a task of it", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject), shoal.WithMaxWorkers(2))
		s.inTask(0, func(ctx context.Context) {
			n, ran := 0, 0
			for _, err := range shoal.MapUnordered(ctx, s.p, s.items(3), func(ctx context.Context, i int) (int, error) { return s.item(ctx, i+1) }) {
				if n++; err == nil {
					ran++
				} else if err != shoal.ErrQueueFull {
					s.Failf("%v", err)
				}
			}
			if n != 3 || ran != s.times(1)+s.times(2)+s.times(3) {
				s.Failf("%d results, %d without an error", n, ran)
			}
		})
		s.quiet()
	})},
	{Name: "cross/Resize beside keys of a sub-pool that wait for room", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0)}, shoal.WithMaxWorkers(2))
		s.keys = shoal.NewKeyed[string](s.sub)
		wait := s.beside("resizer", func() { s.sub.Resize(0, 1); s.p.Resize(0, 1); s.sub.Resize(0, 2) })
		s.keep(0)
		s.keep(1)
		s.keepAs("other", 2, func() {})
		wait()
		s.sub.Wait()
		for i := range 3 {
			s.hasRun(i, "Wait")
		}
		s.shutdown()
	})},
	{Name: "cross/workers time out beside a group with a limit", Bound: 2, Run: onPool(func(s *sim) {
		s.Timed()
		s.pool(0, shoal.WithIdleTimeout(time.Second))
		wait := s.beside("time", func() { s.Advance(2 * time.Second) })
		g := s.p.Group(context.Background(), shoal.Limit(1))
		s.in(g, 0, nothing)
		s.in(g, 1, nothing)
		s.ended(g, nil, 0, 1)
		wait()
		s.quiet()
	})},
	{Name: "cross/stop of a delayed task beside Shutdown and a group", Bound: 2, Run: onPool(func(s *sim) {
		s.Timed()
		s.pool(0)
		stop, err := s.p.SubmitAfter(time.Second, func() { s.item(context.Background(), 0) })
		if err != nil {
			s.Failf("%v", err)
		}
		wait := s.beside("time", func() { s.Advance(time.Second) })
		wait2 := s.beside("stopper", s.shutdown)
		s.fate(group(context.Background(), s.p, s.does(1, nothing)), 1, 1)
		stopped := stop()
		wait()
		wait2()
		if st := s.p.Stats(); stopped && s.times(0)+int(st.Dropped) != 0 || !stopped && s.times(0)+int(st.Dropped) != 1 {
			s.Failf("stopped %v, ran %d, dropped %d", stopped, s.times(0), st.Dropped)
		}
	})},
	{Name: "cross/Pause of a sub-pool, its Shutdown, and a task of the parent that waits for its group", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		wait := s.beside("pauser", func() { s.sub.Pause(); s.sub.Shutdown(context.Background()) })
		s.inTask(0, func(ctx context.Context) {
			err := group(ctx, s.sub, s.does(1, nothing), s.does(2, nothing))
			if n := s.times(1) + s.times(2); (err == nil) != (n == 2) || err != nil && err != shoal.ErrClosed {
				s.Failf("%d ran: %v", n, err)
			}
		})
		wait()
		s.shutdown()
	})},
	{Name: "cross/a Func, a key and a Range share a pool of one that blocks", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0))
		f := shoal.NewFunc(s.p, func(i int) { s.item(context.Background(), i) })
		wait := s.beside("func", func() {
			if err := f.Submit(0); err != nil {
				s.Failf("%v", err)
			}
		})
		wait2 := s.beside("key", func() { s.keep(1) })
		if err := s.ranges(context.Background(), s.p, 2, 3, item); err != nil {
			s.Failf("%v", err)
		}
		wait()
		wait2()
		s.p.Wait()
		for i := range 5 {
			s.hasRun(i, "Wait")
		}
		s.quiet()
	})},
}
