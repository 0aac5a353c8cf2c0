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
	"github.com/shoal-go/shoal/internal/testpool"
)

// These are the models of keys, Locals, reservations, Tracers and hooks that meet the end of a pool
// or of a context.

// quiet waits for the pool, which holds nothing then, and ends it. A worker that passes a tombstone
// may still count as running.
func (s *sim) quiet() {
	s.p.Wait()
	if st := s.p.Stats(); st.InFlight != 0 || st.Queued != 0 || st.Blocked != 0 || st.Reserved != 0 {
		s.Failf("after Wait: %+v", st)
	}
	s.shutdown()
}

// A follower is a Tracer that counts, and calls the pool.
type follower struct {
	s                                   *sim
	submitted, started, refused, ended_ sy.Int64
	panics                              bool
}

func (f *follower) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	f.submitted.Add(1)
	p.Stats()
	p.TrySubmit(func() {})
	return ctx
}

func (f *follower) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	f.started.Add(1)
	if f.panics {
		panic("Started")
	}
	p.TrySubmit(func() {})
	return ctx, func(error) { f.ended_.Add(1); p.Queued() }
}

func (f *follower) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	f.refused.Add(1)
	if err == nil {
		f.s.Failf("refused without an error")
	}
	p.TrySubmit(func() {})
}

// follow makes a Tracer. At the end each task that it was told of has started or was refused.
func (s *sim) follow(panics bool) shoal.Option {
	f := &follower{s: s, panics: panics}
	s.After(func() {
		sub, st, ref, end := f.submitted.Load(), f.started.Load(), f.refused.Load(), f.ended_.Load()
		if sub != st+ref || end != st && !panics {
			s.Failf("%d submitted, %d started, %d refused, %d ended", sub, st, ref, end)
		}
	})
	return shoal.WithTracer(f)
}

// A drawer is a Local that counts: at the end all that was opened is closed, once, and nothing was
// used after that.
type drawer struct {
	*shoal.Local[*content]
	open sy.Int64
}

type content struct {
	o      sy.Object
	worker int
	closed bool
	inUse  bool
}

func (s *sim) drawer(p *shoal.Pool) *drawer {
	d := &drawer{}
	d.Local = shoal.NewLocal(p, func(id int) (*content, error) { d.open.Add(1); return &content{worker: id}, nil }, func(c *content) {
		sy.Access(&c.o, sy.Write)
		if c.closed || c.inUse {
			s.Failf("closed %v, in use %v", c.closed, c.inUse)
		}
		c.closed = true
		d.open.Add(-1)
	})
	s.After(func() {
		if n := d.open.Load(); n != 0 {
			s.Failf("at the end %d are open", n)
		}
	})
	return d
}

// use uses what the worker of ctx has, while it does f.
func (d *drawer) use(s *sim, ctx context.Context, f func()) *content {
	c, err := d.Get(ctx)
	if err != nil {
		s.Failf("Get: %v", err)
	}
	set := func(v bool) {
		sy.Access(&c.o, sy.Write)
		if c.closed || c.inUse == v {
			s.Failf("closed %v, in use %v", c.closed, c.inUse)
		}
		c.inUse = v
	}
	set(true)
	defer set(false)
	f()
	return c
}

var crossLife = []suite.Model{
	// ----- keys -----

	{Name: "cross/a task of a key, its context ends, and Close", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		s.others = true // that of the context, until Wait returns
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		wait := s.beside("stopper", s.close)
		a := shoal.GoKeyed(ctx, s.keys, "key", func(context.Context) (int, error) { s.item(context.Background(), 0); return 0, nil })
		b := shoal.GoKeyed(context.Background(), s.keys, "key", func(context.Context) (int, error) { s.item(context.Background(), 1); return 0, nil })
		for i, f := range []*shoal.Future[int]{a, b} {
			_, err := f.Wait(context.Background())
			s.fate(err, i, i)
			if i == 1 && errors.Is(err, context.Canceled) {
				s.Failf("the context of another task ended this one")
			}
		}
		wait()
		if n := s.strands(); n != 0 {
			s.Failf("%d keys have tasks", n)
		}
	})},
	{Name: "cross/a task of a key submits under its own key to the full pool", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0))
		s.keepAs("key", 0, func() {
			s.keep(1)
			s.keep(2)
			if s.times(1)+s.times(2) != 0 {
				s.Failf("a later task of the key began inside of this one")
			}
		})
		wait := s.beside("other", func() { s.keep(3) })
		wait()
		s.p.Wait()
		for i := range 4 {
			s.hasRun(i, "Wait")
		}
		s.quiet()
	})},
	{Name: "cross/a task waits for one of its own key, and is told", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		var in *shoal.Future[int]
		out := shoal.GoKeyed(context.Background(), s.keys, "key", func(ctx context.Context) (int, error) {
			in = s.keepFuture(ctx, 1)
			if _, err := in.Wait(ctx); err != shoal.ErrWouldDeadlock {
				s.Failf("Wait = %v", err)
			}
			return 0, nil
		})
		if _, err := out.Wait(context.Background()); err != nil {
			s.Failf("%v", err)
		}
		s.drops = true
		if !s.gets(in, 1, context.Canceled) { // the context of its submitter has ended
			s.p.Wait()
		}
		s.quiet()
	})},
	{Name: "cross/keys in a sub-pool that closes beside a task of the parent", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1)})
		s.keys = shoal.NewKeyed[string](s.sub)
		s.drops = true
		wait := s.beside("stopper", func() { s.sub.Close() })
		f := shoal.GoKeyed(context.Background(), s.keys, "key", func(context.Context) (int, error) { s.item(context.Background(), 0); return 0, nil })
		g := shoal.GoKeyed(context.Background(), s.keys, "key", func(context.Context) (int, error) { s.item(context.Background(), 1); return 0, nil })
		s.submit(2)
		_, err := f.Wait(context.Background())
		s.fate(err, 0, 0)
		_, err = g.Wait(context.Background())
		s.fate(err, 1, 1)
		wait()
		s.p.Wait()
		s.hasRun(2, "Wait")
		s.close()
	})},
	{Name: "cross/a turn waits for room, its context ends, and the key is busy", Bound: 2, Reach: []string{"gave up"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0))
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		s.keep(0)
		wait := s.beside("other", func() { s.keep(2) })
		err := s.keys.SubmitContext(ctx, "key", func(context.Context) { s.item(context.Background(), 1) })
		if err != nil {
			explore.Reach("gave up")
		}
		wait()
		s.p.Wait()
		s.hasRun(0, "Wait")
		s.hasRun(2, "Wait")
		if st := s.p.Stats(); err == nil && s.times(1) == 0 && st.Canceled != 1 {
			s.Failf("accepted, and not run: %+v", st)
		}
		s.quiet()
	})},
	{Name: "cross/a reservation beside a key with a turn left", Bound: 2, Reach: []string{"grant"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0))
		gate := sy.MakeEvent()
		s.keepAs("key", 0, gate.Wait)
		s.keep(1)
		r := s.reserve(1) // the turn needs no worker yet
		s.reserved(r, 2)
		gate.Set()
		s.p.Wait()
		for i := range 3 {
			s.hasRun(i, "Wait")
		}
		s.quiet()
	})},
	{Name: "cross/SubmitWait in a task of a key calls Goexit, with a turn left", Bound: 2, Run: onPool(func(s *sim) {
		s.keyedPool(0)
		f := shoal.GoKeyed(context.Background(), s.keys, "key", func(ctx context.Context) (int, error) {
			s.keep(1)
			return 0, s.p.SubmitWait(ctx, func(context.Context) error { runtime.Goexit(); return nil })
		})
		s.keep(2)
		if _, err := f.Wait(context.Background()); err != shoal.ErrGoexit {
			s.Failf("%v", err)
		}
		s.p.Wait()
		s.hasRun(1, "Wait")
		s.hasRun(2, "Wait")
		s.quiet()
	})},

	// ----- results at the end of a pool -----

	{Name: "cross/TryGo on a full pool that is shut down", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		s.submit(0)
		wait := s.beside("stopper", s.shutdown)
		f, err := shoal.TryGo(context.Background(), s.p, func(context.Context) (int, error) { s.item(context.Background(), 1); return 1, nil })
		switch {
		case err == nil:
			s.result(context.Background(), 1, f)
		case f != nil || err != shoal.ErrQueueFull && err != shoal.ErrClosed || s.times(1) != 0:
			s.Failf("TryGo = %v, %v", f, err)
		}
		wait()
	})},
	{Name: "cross/the context of Shutdown ends beside SubmitWait", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		var down error
		wait := s.beside("stopper", func() { down = s.p.Shutdown(ctx) })
		err := s.p.SubmitWait(context.Background(), s.does(0, func(ctx context.Context) error { return ctx.Err() }))
		switch {
		case err == nil:
			s.hasRun(0, "SubmitWait")
		case errors.Is(err, context.Canceled) && s.times(0) == 1: // it ran, and was cut
		case (err == shoal.ErrClosed || errors.Is(err, shoal.ErrDropped)) && s.times(0) == 0:
		default:
			s.Failf("ran %d: %v", s.times(0), err)
		}
		wait()
		var cut *shoal.ShutdownError
		if dropped := errors.Is(err, shoal.ErrDropped); errors.As(down, &cut) {
			if (cut.Dropped == 1) != dropped {
				s.Failf("SubmitWait = %v, Shutdown: %v", err, down)
			}
		} else if down != nil || dropped {
			s.Failf("SubmitWait = %v, Shutdown: %v", err, down)
		}
		testpool.Lane(s.p).Done().Wait()
	})},
	{Name: "cross/the context of Shutdown ends beside a group of a sub-pool", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)})
		s.drops = true
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		wait := s.beside("stopper", func() { s.p.Shutdown(ctx) })
		g := s.sub.Group(context.Background())
		g.Go(s.does(0, nothing))
		g.Go(s.does(1, nothing))
		s.fate(g.Wait(), 0, 1)
		wait()
		testpool.Lane(s.p).Done().Wait()
	})},
	{Name: "cross/a panic handler submits and closes the pool", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithPanicHandler(func(*shoal.PanicError) {
			s.took(1, s.p.Submit(func() { s.item(context.Background(), 1) }))
			if err := s.p.Close(); err != nil && err != shoal.ErrWouldDeadlock {
				s.Failf("Close: %v", err)
			}
		}))
		s.drops = true
		f := shoal.Go(context.Background(), s.p, func(context.Context) (int, error) { panic("oops") })
		var p *shoal.PanicError
		if _, err := f.Wait(context.Background()); !errors.As(err, &p) {
			s.Failf("Wait = %v", err)
		}
		s.close()
	})},

	// ----- Locals -----

	{Name: "cross/a Local in what the submitter runs", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns), shoal.WithIdleTimeout(0))
		d := s.drawer(s.p)
		f := shoal.Go(context.Background(), s.p, func(ctx context.Context) (int, error) { d.use(s, ctx, func() {}); return 0, nil })
		s.p.SubmitWait(context.Background(), func(ctx context.Context) error { d.use(s, ctx, func() {}); return nil })
		f.Wait(context.Background())
		s.quiet()
	})},
	{Name: "cross/a Local in a task inside a task, which ends its goroutine", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0)
		d := s.drawer(s.p)
		f := shoal.Go(context.Background(), s.p, func(ctx context.Context) (int, error) {
			var mine *content
			defer func() {
				if sy.Access(&mine.o, sy.Read); mine.closed {
					s.Failf("closed while the task of its worker runs")
				}
			}()
			mine = d.use(s, ctx, func() {})
			d.use(s, ctx, func() {
				s.p.SubmitWait(ctx, func(in context.Context) error {
					if c := d.use(s, in, func() {}); c == mine || c.worker != -1 {
						s.Failf("it has what belongs to the task around it")
					}
					runtime.Goexit()
					return nil
				})
			})
			return 0, nil
		})
		if _, err := f.Wait(context.Background()); err != shoal.ErrGoexit {
			s.Failf("%v", err)
		}
		s.quiet()
	})},
	{Name: "cross/a Local of the parent in a sub-pool that closes", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, nil, shoal.WithIdleTimeout(0))
		s.drops = true
		d := s.drawer(s.p)
		wait := s.beside("stopper", func() { s.sub.Close() })
		s.sub.SubmitContext(context.Background(), func(ctx context.Context) { d.use(s, ctx, func() {}) })
		s.p.SubmitContext(context.Background(), func(ctx context.Context) { d.use(s, ctx, func() {}) })
		wait()
		s.quiet()
	})},
	{Name: "cross/Get of another goroutine beside the end of the task and its worker", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithIdleTimeout(0))
		d := s.drawer(s.p)
		var wait func()
		s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
			wait = s.beside("late", func() {
				if _, err := d.Get(ctx); err != nil && err != shoal.ErrNotInTask {
					s.Failf("Get: %v", err)
				}
			})
			return nil
		})
		s.p.Wait()
		wait()
		s.quiet()
	})},
	{Name: "cross/a Local in a Range, on the caller and on a helper", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		d := s.drawer(s.p)
		err := s.ranges(context.Background(), s.p, 0, 3, func(ctx context.Context, i int) error {
			d.use(s, ctx, func() {})
			return s.ranges(ctx, s.p, 3+i, 1, func(ctx context.Context, i int) error { d.use(s, ctx, func() {}); return nil })
		})
		if err != nil {
			s.Failf("%v", err)
		}
		s.quiet()
	})},
}
