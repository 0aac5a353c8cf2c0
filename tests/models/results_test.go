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
	"github.com/shoal-go/shoal/internal/testpool"
)

// These are the models of what is built on the pool: tasks that wait for tasks,
// groups, keys and sub-pools.

// begin submits task i, whose body is f, and which must be accepted.
func (s *sim) begin(ctx context.Context, i int, f func(ctx context.Context) error) *shoal.Future[int] {
	s.accepted[i] = true
	return shoal.Go(ctx, s.p, func(ctx context.Context) (int, error) {
		s.did(i)
		return i, f(ctx)
	})
}

// result demands that u, of task i, has its result, and that the task has run.
func (s *sim) result(ctx context.Context, i int, u *shoal.Future[int]) {
	if v, err := u.Wait(ctx); v != i || err != nil {
		s.Failf("the result of task %d is %d, %v", i, v, err)
	}
	s.hasRun(i, "Wait for it")
}

func nothing(context.Context) error { return nil }

// roundOf tells the rounds of g apart.
func roundOf(g *shoal.Group) uintptr { return testpool.Field(g, "round").FieldByName("p").Pointer() }

// strands is how many keys have tasks.
func (s *sim) strands() int {
	return testpool.Field(s.keys, "shards").Index(0).FieldByName("strands").Len()
}

// in has g run task i, whose body is f.
func (s *sim) in(g *shoal.Group, i int, f func(ctx context.Context) error) {
	s.accepted[i] = true
	g.Go(func(ctx context.Context) error {
		s.did(i)
		return f(ctx)
	})
}

// ended waits for g, and demands that error, and that the tasks have run.
func (s *sim) ended(g *shoal.Group, want error, tasks ...int) {
	if err := g.Wait(); err != want {
		s.Failf("Wait = %v", err)
	}
	for _, i := range tasks {
		s.hasRun(i, "Wait")
	}
}

// related makes a pool and a sub-pool of it.
func (s *sim) related(n int, of []shoal.Option, opts ...shoal.Option) {
	s.pool(n, opts...)
	sub, err := s.p.Sub(append([]shoal.Option{shoal.WithTiming(shoal.TimingOff)}, of...)...)
	if err != nil {
		s.Failf("Sub: %v", err)
	}
	s.sub = sub
	s.After(func() {
		st := sub.Stats()
		if st.State != shoal.Closed || st.InFlight != 0 || st.Workers != 0 || st.Submitted != st.Completed+st.Dropped+st.Canceled || st.Blocked != 0 || len(s.p.Subs()) != 0 {
			s.Failf("at the end: %+v, %d sub-pools", st, len(s.p.Subs()))
		}
	})
}

// family is related, and has the parent closed when n tasks have run.
func (s *sim) family(n int, of []shoal.Option, opts ...shoal.Option) {
	s.related(n, of, opts...)
	s.closer()
}

// to submits task i, which also does f, to p.
func (s *sim) to(p *shoal.Pool, i int, f func()) {
	s.accepted[i] = true
	if err := p.Submit(func() { s.did(i); s.finished(); f() }); err != nil {
		s.Failf("Submit of task %d: %v", i, err)
	}
}

// oneGivesUp makes two goroutines of a task of the parent wait for what begin submits to a
// sub-pool, whose maximum of 1 is reached. The sub-pool is below its maximum again when the one whose
// context ends has returned.
func (s *sim) oneGivesUp(begin func(ctx context.Context) (wait func(), impatient func(short context.Context))) {
	s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)})
	s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
		began, gate, gone := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		x := shoal.Go(ctx, s.sub, func(context.Context) (int, error) { began.Set(); gate.Wait(); return 0, nil })
		s.Go("place", func() { x.Wait(ctx); gone.Set() })
		began.Wait()
		wait, impatient := begin(ctx)
		short, cancel := sy.WithCancelCause(ctx)
		s.Go("canceler", func() { cancel(nil) })
		s.Go("impatient", func() { impatient(short); gate.Set() })
		wait()
		gone.Wait()
		return nil
	}))
	s.shutdown()
}

// inline makes a pool on which the submitters run their tasks.
func (s *sim) inline() {
	s.pool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
	s.fill()
}

// fill pauses the pool, of one worker and capacity 0, and submits a task that takes the one permit.
func (s *sim) fill() {
	s.p.Pause()
	if err := s.p.Submit(func() {}); err != nil {
		s.Failf("Submit: %v", err)
	}
}

// keyed makes a pool for n tasks of keys, and has it closed when they have run.
func (s *sim) keyed(n int, opts ...shoal.Option) {
	s.keyedPool(n, opts...)
	s.closer()
}

// keyedPool makes a pool and s.keys on it.
func (s *sim) keyedPool(n int, opts ...shoal.Option) {
	s.pool(n, opts...)
	s.keys = shoal.NewKeyed[string](s.p)
}

// waitAndEnd waits for the pool, whose workers are all free then, and ends it.
func (s *sim) waitAndEnd() {
	s.p.Wait()
	if st := s.p.Stats(); st.Running != 0 {
		s.Failf("after Wait %d workers run", st.Running)
	}
	s.shutdown()
}

// keepFuture is keep for a task that has a result.
func (s *sim) keepFuture(ctx context.Context, i int) *shoal.Future[int] {
	s.accepted[i] = true
	return shoal.GoKeyed(ctx, s.keys, "key", func(context.Context) (int, error) { s.did(i); return i, nil })
}

// endsWithThePool submits task i under the one key, and closes the pool: then the context of
// the task ends, if it runs.
func (s *sim) endsWithThePool(i int) {
	closing := sy.MakeLatch()
	s.accepted[i] = true
	f := shoal.GoKeyed(context.Background(), s.keys, "key", func(ctx context.Context) (int, error) {
		s.did(i)
		closing.Wait()
		if ctx.Err() == nil {
			s.Failf("the pool was closed, and the context has not ended")
		}
		return i, nil
	})
	testpool.Lane(s.p).End(true, shoal.ErrClosed) // as Close does, before it waits
	closing.Open()
	s.close()
	s.gets(f, i, shoal.ErrDropped)
}

// gets reports whether the result of task i is its own. Else it must be lost, and the
// task has not run.
func (s *sim) gets(f *shoal.Future[int], i int, lost error) bool {
	switch v, err := f.Wait(context.Background()); {
	case err == nil && v == i && s.times(i) == 1:
		return true
	case !errors.Is(err, lost) || s.times(i) != 0:
		s.Failf("ran %d, the result is %v, %v", s.times(i), v, err)
	}
	return false
}

// keep submits task i under the one key.
func (s *sim) keep(i int) { s.keepAs("key", i, func() {}) }

// keepOrFull submits task i under the one key. It may be refused because the pool is full.
func (s *sim) keepOrFull(i int) bool {
	s.accepted[i] = true
	ok := s.took(i, s.keys.Submit("key", func() { s.did(i) }))
	if !ok && s.refused[i] != shoal.ErrQueueFull {
		s.Failf("Submit of task %d: %v", i, s.refused[i])
	}
	return ok
}

// keepAs submits task i, which also does f, under a key. Of one key one task
// runs at a time, and in order where one goroutine submits them.
func (s *sim) keepAs(key string, i int, f func()) {
	s.accepted[i] = true
	if err := s.keys.Submit(key, func() {
		sy.Access(&s.alone, sy.Write)
		if key == "key" {
			if s.inside++; s.inside > 1 {
				s.Failf("two tasks of a key at once")
			}
			defer func() {
				sy.Access(&s.alone, sy.Write)
				s.inside--
			}()
		}
		s.did(i)
		s.finished()
		f()
	}); err != nil {
		s.Failf("Submit of task %d: %v", i, err)
	}
}

// twoTurnsLeft makes a pool where task 0 of the key waits for release while tasks 1 and 2 have left
// their turns to it. Task 3 has none. The first two do what they are given then.
func (s *sim) twoTurnsLeft(zero, one func(), opts ...shoal.Option) (release func()) {
	s.keyedPool(0, append([]shoal.Option{shoal.WithMaxWorkers(2)}, opts...)...)
	began, gate := sy.MakeEvent(), sy.MakeEvent()
	s.keepAs("key", 0, func() { began.Set(); gate.Wait(); zero() })
	began.Wait()
	s.keepAs("key", 1, one)
	s.keep(2)
	s.accepted[3] = true
	if err := s.p.SubmitWait(context.Background(), func(context.Context) error { s.did(3); return nil }); err != nil {
		s.Failf("SubmitWait: %v", err)
	}
	return gate.Set
}

// items are the numbers below n.
func (s *sim) items(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

// item is task i, of a Map.
func (s *sim) item(_ context.Context, i int) (int, error) {
	s.accepted[i] = true
	s.did(i)
	return i, nil
}

// atLimit is a model of two goroutines that are at the limit of a group.
func (s *sim) atLimit(workers int) {
	s.pool(0, shoal.WithMaxWorkers(workers))
	g := s.p.Group(context.Background(), shoal.Limit(1))
	running := 0
	var o sy.Object
	alone := func(context.Context) error {
		sy.Access(&o, sy.Write)
		if running++; running > 1 {
			s.Failf("%d at once", running)
		}
		sy.Access(&o, sy.Write)
		running--
		return nil
	}
	done := sy.MakeEvent()
	s.Go("other", func() {
		s.in(g, 1, alone)
		s.ended(g, nil, 1)
		done.Set()
	})
	s.in(g, 0, alone)
	s.ended(g, nil, 0)
	done.Wait()
	s.shutdown()
}

var resultModels = []suite.Model{
	{Name: "help/a task waits for a task, one worker", Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.result(ctx, 1, s.begin(ctx, 1, nothing))
			return nil
		}))
		s.p.Wait()
		if st := s.p.Stats(); st.Completed != 2 || st.InFlight != 0 {
			s.Failf("after Wait: %+v", st)
		}
		s.close()
	})},
	{Name: "help/a task waits for a task that another worker wants", Bound: 3, Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.result(ctx, 1, s.begin(ctx, 1, nothing))
			return nil
		}))
		s.shutdown()
	})},
	{Name: "help/two tasks wait for the same one", Bound: 3, Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		p := s.p
		p.Pause() // so that all three are there
		shared := s.begin(context.Background(), 2, nothing)
		wait := func(ctx context.Context) error { s.result(ctx, 2, shared); return nil }
		a := s.begin(context.Background(), 0, wait)
		b := s.begin(context.Background(), 1, wait)
		p.Resume()
		s.result(context.Background(), 0, a)
		s.result(context.Background(), 1, b)
		s.shutdown()
	})},
	{Name: "help/a task waits for a task, and Close", Reach: []string{"claim", "dropped"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.Go("stopper", s.close)
		s.accepted[0], s.accepted[1] = true, true
		outer := shoal.Go(context.Background(), s.p, func(ctx context.Context) (int, error) {
			s.did(0)
			_, err := shoal.Go(context.Background(), s.p, func(context.Context) (int, error) { s.did(1); return 0, nil }).Wait(ctx)
			switch {
			case err == nil:
				s.hasRun(1, "Wait for it")
			case errors.Is(err, shoal.ErrDropped):
				explore.Reach("dropped")
			case errors.Is(err, shoal.ErrClosed):
				s.accepted[1] = false
			default:
				s.Failf("Wait = %v", err)
			}
			return 0, nil
		})
		if _, err := outer.Wait(context.Background()); err != nil {
			s.accepted[0] = errors.Is(err, shoal.ErrDropped)
			s.accepted[1] = false
		}
	})},
	{Name: "help/Cancel and a worker", Reach: []string{"withdraw", "too late"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		u := s.begin(context.Background(), 0, nothing)
		canceled := u.Cancel()
		_, err := u.Wait(context.Background())
		switch {
		case canceled && err == context.Canceled && s.times(0) == 0:
		case !canceled && err == nil:
			s.hasRun(0, "Wait for it")
			explore.Reach("too late")
		default:
			s.Failf("Cancel %v, Wait = %v", canceled, err)
		}
		s.p.Wait()
		s.shutdown()
	})},
	{Name: "help/Cancel, a worker, and Close", Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		u := s.begin(context.Background(), 0, nothing)
		s.Go("stopper", s.close)
		canceled := u.Cancel()
		_, err := u.Wait(context.Background())
		if canceled != (err == context.Canceled) {
			s.Failf("Cancel %v, Wait = %v", canceled, err)
		}
		if err != nil && err != context.Canceled && !errors.Is(err, shoal.ErrDropped) {
			s.Failf("Wait = %v", err)
		}
	})},
	{Name: "help/DropOldest meets a tombstone, or makes one", Reach: []string{"displace", "withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		s.p.Pause()
		u := s.begin(context.Background(), 0, nothing)
		s.Go("canceler", func() { u.Cancel() })
		w := s.begin(context.Background(), 2, nothing) // a paused pool accepts a task for its worker too
		v := s.begin(context.Background(), 1, nothing)
		if _, err := u.Wait(context.Background()); err != context.Canceled && !errors.Is(err, shoal.ErrDropped) {
			s.Failf("the oldest: %v", err)
		}
		s.p.Resume()
		s.result(context.Background(), 1, v)
		s.result(context.Background(), 2, w)
		if st := s.p.Stats(); st.Dropped+st.Canceled != 1 || st.Submitted != 3 {
			s.Failf("three were submitted, and one was displaced or canceled: %+v", st)
		}
		s.shutdown()
	})},
	{Name: "help/two helpers, one of the outer tasks waits for the other", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		a := s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.result(ctx, 2, s.begin(ctx, 2, nothing))
			return nil
		})
		b := s.begin(context.Background(), 1, func(ctx context.Context) error {
			s.result(ctx, 0, a)
			return nil
		})
		s.result(context.Background(), 1, b)
		s.shutdown()
	})},

	// ----- found by reviewers -----

	{Name: "reserve/DropOldest in a pause, and Wait", Run: onPool(func(s *sim) {
		s.drops = true
		s.pool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		r := s.reserve(2)
		s.p.Pause()
		s.accepted[0] = true
		r.Submit(context.Background(), func(context.Context) error { s.did(0); return nil }, nil)
		waited := sy.MakeEvent()
		s.Go("waiter", func() { s.p.Wait(); waited.Set() })
		ok := s.try(1)
		dropped := s.p.Stats().Dropped
		r.Release()
		s.p.Resume()
		waited.Wait()
		if !ok && dropped > 0 {
			s.Failf("dropped for one that was refused")
		}
		s.close()
	})},
	{Name: "reserve/DropOldest tells of the lost before the end", Reach: []string{"displace"}, Run: onPool(func(s *sim) {
		s.drops = true
		s.pool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		r := s.reserve(1)
		s.p.Pause()
		var o sy.Object
		told := false
		s.accepted[0] = true
		err := r.Submit(context.Background(), func(context.Context) error { s.did(0); return nil },
			func(error) { sy.Access(&o, sy.Write); told = true })
		if err != nil {
			s.Failf("%v", err)
		}
		s.Go("dropper", func() { s.try(1); s.try(2) })
		s.close()
		if sy.Access(&o, sy.Read); s.times(0) == 0 && !told {
			s.Failf("closed, and lost is yet to come")
		}
	})},
	{Name: "key/DropOldest drops for nobody", Bound: 3, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		gate := sy.MakeEvent()
		s.keepAs("key", 0, gate.Wait)
		s.keep(1)
		s.p.Pause()
		two := s.try(2)
		before := s.p.Stats().Dropped
		if three := s.try(3); two && !three && s.p.Stats().Dropped != before {
			s.Failf("a task was dropped for one that was refused")
		}
		gate.Set()
		s.p.Resume()
		s.shutdown()
	})},
	{Name: "sub/its task waits for another without its context", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(2)})
		s.accepted[0], s.accepted[1] = true, true
		u := shoal.Go(context.Background(), s.sub, func(context.Context) (int, error) {
			s.did(0)
			s.result(context.Background(), 1, shoal.Go(context.Background(), s.sub, func(context.Context) (int, error) { s.did(1); return 1, nil }))
			return 0, nil
		})
		s.result(context.Background(), 0, u)
		s.shutdown()
	})},
	{Name: "sub/a guest waits for another without its context", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		s.accepted[1], s.accepted[2] = true, true
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.result(ctx, 1, shoal.Go(ctx, s.sub, func(context.Context) (int, error) {
				s.did(1)
				s.result(context.Background(), 2, shoal.Go(context.Background(), s.sub, func(context.Context) (int, error) { s.did(2); return 2, nil }))
				return 1, nil
			}))
			return nil
		}))
		s.shutdown()
	})},
	{Name: "help/a tombstone behind another task", Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.submit(2)
			s.result(ctx, 1, s.begin(ctx, 1, nothing))
			return nil
		}))
		s.waitAndEnd()
	})},
	{Name: "help/a tombstone behind another task, and Close", Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		began, helped := sy.MakeEvent(), sy.MakeEvent()
		s.Go("stopper", func() { helped.Wait(); s.close() })
		s.submitTask(0, func() {
			s.did(0)
			began.Wait()
			s.submit(2)
			u := s.begin(context.Background(), 1, func(context.Context) error { helped.Set(); return nil })
			s.result(context.Background(), 1, u)
		})
		began.Set()
		testpool.Lane(s.p).Done().Wait()
	})},
	{Name: "help/who waits for room gets that of a tombstone", Reach: []string{"tombstone", "call"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1))
		began, e := sy.MakeEvent(), sy.MakeEvent()
		s.Go("other", func() { began.Wait(); s.submit(2); e.Set() })
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			u := s.begin(ctx, 1, nothing)
			began.Set()
			s.result(ctx, 1, u)
			e.Wait() // there is room now, and no other worker
			return nil
		}))
		s.shutdown()
	})},
	{Name: "help/two tasks wait for theirs again and again", Bound: 2, Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		ask := func(i int) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				s.result(ctx, i, s.begin(ctx, i, nothing))
				s.result(ctx, i+1, s.begin(ctx, i+1, nothing))
				return nil
			}
		}
		a, b := s.begin(context.Background(), 0, ask(2)), s.begin(context.Background(), 1, ask(4))
		s.result(context.Background(), 0, a)
		s.result(context.Background(), 1, b)
		s.shutdown()
	})},
	{Name: "help/DropOldest while tombstones are swept", Bound: 3, Reach: []string{"tombstone", "displace"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		began := sy.MakeEvent()
		done := sy.MakeEvent()
		s.Go("other", func() { began.Wait(); s.submit(2); done.Set() })
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			u := s.begin(ctx, 1, nothing)
			began.Set()
			if _, err := u.Wait(ctx); (err == nil) != (s.times(1) == 1) || err != nil && !errors.Is(err, shoal.ErrDropped) {
				s.Failf("task 1 ran %d times: %v", s.times(1), err)
			}
			return nil
		}))
		done.Wait()
		s.shutdown()
	})},
	{Name: "sub/room beside a guest", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject)}, shoal.WithMaxWorkers(2))
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.accepted[1] = true
			s.result(ctx, 1, shoal.Go(ctx, s.sub, func(context.Context) (int, error) {
				s.did(1)
				gate := sy.MakeEvent()
				first := s.took(2, s.sub.Submit(func() { s.did(2); gate.Wait() }))
				second := s.took(3, s.sub.Submit(func() { s.did(3) }))
				if !first || second {
					s.Failf("with two workers and one task %v, with two tasks %v", first, second)
				}
				gate.Set()
				return 1, nil
			}))
			return nil
		}))
		s.shutdown()
	})},
	{Name: "sub/the place of a guest", Bound: 1, Reach: []string{"claim", "call"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0)}, shoal.WithMaxWorkers(2))
		began, late := sy.MakeEvent(), sy.MakeEvent()
		s.Go("other", func() {
			began.Wait()
			s.to(s.sub, 2, func() {}) // waits for room until the guest has left
			late.Set()
		})
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.accepted[1] = true
			s.result(ctx, 1, shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.did(1); began.Set(); return 1, nil }))
			late.Wait()
			return nil
		}))
		s.shutdown()
	})},
	{Name: "sub/Cancel of what a guest would run", Bound: 3, Reach: []string{"claim", "withdraw"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2)})
		s.drops = true
		began, done := sy.MakeEvent(), sy.MakeEvent()
		var u *shoal.Future[int]
		s.Go("canceler", func() { began.Wait(); u.Cancel(); done.Set() })
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.accepted[1], s.accepted[2] = true, true
			v := shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.did(1); return 1, nil })
			u = shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.did(2); return 2, nil })
			began.Set()
			if _, err := u.Wait(ctx); (err == nil) != (s.times(2) == 1) || err != nil && err != context.Canceled {
				s.Failf("task 2 ran %d times: %v", s.times(2), err)
			}
			s.result(ctx, 1, v)
			return nil
		}))
		done.Wait()
		s.shutdown()
	})},
	{Name: "sub/Cancel while the sub-pool drains", Bound: 2, Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)})
		s.drops = true
		began, drain, done, gone := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		var u *shoal.Future[int]
		s.Go("canceler", func() { began.Wait(); u.Cancel(); done.Set() })
		s.Go("stopper", func() { drain.Wait(); s.sub.Shutdown(context.Background()); gone.Set() })
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.accepted[1] = true
			u = shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.did(1); return 1, nil })
			began.Set()
			drain.Set()
			u.Wait(ctx)
			done.Wait()
			gone.Wait() // no worker of the parent's is needed for that
			return nil
		}))
		s.shutdown()
	})},
	{Name: "sub/the room of what a guest runs while the sub-pool is paused", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2)})
		began, e := sy.MakeEvent(), sy.MakeEvent()
		s.Go("other", func() { began.Wait(); s.to(s.sub, 3, func() {}); e.Set() })
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.accepted[1], s.accepted[2] = true, true
			s.sub.Pause()
			v := shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.did(1); return 1, nil })
			u := shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.did(2); e.Wait(); return 2, nil })
			began.Set()
			s.result(ctx, 2, u)
			s.sub.Resume()
			s.result(ctx, 1, v)
			return nil
		}))
		s.shutdown()
	})},
	{Name: "sub/DropOldest of what a guest runs, before it is put", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest)})
		s.drops = true
		began, done := sy.MakeEvent(), sy.MakeEvent()
		s.Go("dropper", func() {
			began.Wait()
			s.took(3, s.sub.Submit(func() { s.did(3) }))
			s.took(4, s.sub.Submit(func() { s.did(4) }))
			done.Set()
		})
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.sub.Pause()
			s.accepted[1], s.accepted[2] = true, true
			s.sub.Submit(func() { s.did(1) }) // the next submission is on the fast path
			began.Set()
			shoal.Go(ctx, s.sub, func(context.Context) (int, error) {
				s.did(2)
				s.took(5, s.sub.Submit(func() { s.did(5) }))
				if n := s.sub.Queued(); n > 2 {
					s.Failf("%d wait", n)
				}
				return 2, nil
			}).Wait(ctx)
			done.Wait()
			s.sub.Resume()
			return nil
		}))
		s.shutdown()
	})},
	{Name: "sub/Resize beside a guest", Bound: 1, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(2)}, shoal.WithMaxWorkers(3))
		s.accepted[1] = true
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.result(ctx, 1, shoal.Go(ctx, s.sub, func(context.Context) (int, error) {
				s.did(1)
				began, gate, ends := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
				s.to(s.sub, 2, func() { began.Set(); gate.Wait(); ends.Set() })
				began.Wait()
				s.to(s.sub, 3, func() { s.enter(); s.exit() })
				if err := s.sub.Resize(0, 1); err != nil {
					s.Failf("Resize: %v", err)
				}
				s.enter() // nobody else begins
				gate.Set()
				ends.Wait()
				s.exit()
				return 1, nil
			}))
			return nil
		}))
		s.shutdown()
		s.hasRun(3, "Shutdown")
	})},
	{Name: "sub/Resize with a worker in the lane", Bound: 2, Run: onPool(func(s *sim) {
		s.family(3, []shoal.Option{shoal.WithMaxWorkers(2)})
		gate := sy.MakeEvent()
		s.to(s.p, 0, gate.Wait)
		s.Go("resizer", func() { s.sub.Resize(0, 1); gate.Set() })
		s.to(s.sub, 1, func() {})
		s.to(s.sub, 2, func() {})
	})},
	{Name: "key/on a sub-pool, beside a task of its parent", Bound: 1, Run: onPool(func(s *sim) {
		s.family(3, nil, shoal.WithMaxWorkers(2))
		s.keys = shoal.NewKeyed[string](s.sub)
		s.keep(0)
		s.to(s.p, 1, func() {})
		s.keep(2)
	})},
	{Name: "pause/SubmitBatch", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.Reject))
		done := sy.MakeEvent()
		s.Go("pauser", func() { s.p.Pause(); s.p.Resume(); done.Set() })
		n, err := s.p.SubmitBatch([]func(){s.task(0), s.task(1), s.task(2)})
		for i := range n {
			s.accepted[i] = true
		}
		if n < 1 || (n == 3) != (err == nil) {
			s.Failf("SubmitBatch = %d, %v", n, err)
		}
		done.Wait()
		s.waitAndEnd()
	})},
	{Name: "sub/two wait for one task of a full sub-pool, and one gives up", Bound: 2, Run: onPool(func(s *sim) {
		s.oneGivesUp(func(ctx context.Context) (wait func(), impatient func(context.Context)) {
			u := shoal.Go(ctx, s.sub, func(context.Context) (int, error) { return 0, nil })
			return func() { u.Wait(ctx) }, func(short context.Context) { u.Wait(short) }
		})
	})},
	{Name: "sub/Close of both", Run: onPool(func(s *sim) {
		s.related(0, nil)
		s.Go("other", func() { s.sub.Close() })
		s.close()
		if st := s.sub.State(); st != shoal.Closed {
			s.Failf("the parent is closed, its sub-pool is %v", st)
		}
	})},
	{Name: "close/the context of Shutdown ends while a Local is closed", Run: onPool(func(s *sim) {
		s.pool(0)
		gate, ctx := sy.MakeLatch(), explore.NewContext()
		l := shoal.NewLocal(s.p, func(int) (int, error) { return 0, nil }, func(int) { gate.Wait() })
		s.p.SubmitContext(context.Background(), func(c context.Context) { l.Get(c) })
		s.p.Wait()
		s.Go("canceler", ctx.Cancel)
		s.p.Shutdown(ctx)
		gate.Open()
		testpool.Lane(s.p).Done().Wait()
	})},
	{Name: "help/Err of a context while the one above ends", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.p.SubmitContext(context.Background(), func(above context.Context) {
			above.Done()
			s.p.SubmitContext(above, func(below context.Context) {
				first := below.Err()
				below.Done()
				if first != nil && below.Err() == nil {
					s.Failf("Err was %v and is nil", first)
				}
			})
		})
		s.close()
	})},
	{Name: "key/a task submits behind one that waits for it", Run: onPool(func(s *sim) {
		s.keyed(3, shoal.WithQueueCapacity(1))
		queued, e := sy.MakeEvent(), sy.MakeEvent()
		s.submitTask(0, s.and(0, func() { queued.Wait(); s.keep(2); e.Set() }))
		s.keepAs("key", 1, e.Wait)
		queued.Set()
	})},
	{Name: "key/who submits runs no turns, and Shutdown", Bound: 2, Reach: []string{"run here", "activate again"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
		free, begun, z, e := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		s.submitTask(0, s.and(0, free.Wait)) // the only worker
		s.Go("other", func() { begun.Wait(); s.keepAs("key", 2, e.Wait); s.p.Drain(); z.Set() })
		s.keepAs("key", 1, func() { begun.Set(); free.Set(); z.Wait() }) // here
		e.Set()
		s.shutdown()
		s.hasRun(2, "Shutdown")
	})},
	{Name: "key/a panic that the submitter recovers from", Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns), shoal.WithCrashOnPanic())
		s.fill()
		func() {
			defer func() {
				if v := recover(); v != nil && v != "boom" {
					panic(v)
				}
			}()
			s.keepAs("key", 0, func() { panic("boom") })
		}()
		s.p.Resume()
		s.keep(1)
		s.p.Wait()
		s.hasRun(1, "Wait")
		s.shutdown()
	})},
	{Name: "key/a higher priority calls a worker from its turns", Bound: 2, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithPriority(1)}, shoal.WithMaxWorkers(2))
		s.keys = shoal.NewKeyed[string](s.p)
		gate, begun, high := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		s.keepAs("key", 0, gate.Wait)
		s.keepAs("key", 1, func() { s.hasRun(3, "the turn of a lower priority") })
		s.to(s.sub, 2, func() { begun.Set(); high.Wait() })
		begun.Wait()
		s.to(s.sub, 3, high.Set) // in the lane when Submit returns
		gate.Set()
		s.p.Wait()
		s.sub.Wait()
		s.shutdown()
	})},
	// ----- groups -----

	{Name: "group/two tasks, two workers", Bound: 3, Reach: []string{"wait for a round"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		g := s.p.Group(context.Background())
		s.in(g, 0, nothing)
		s.in(g, 1, nothing)
		s.ended(g, nil, 0, 1)
		s.shutdown()
	})},
	{Name: "group/two wait", Bound: 3, Reach: []string{"wait for a round"}, Run: onPool(func(s *sim) {
		s.pool(0)
		g := s.p.Group(context.Background())
		s.in(g, 0, nothing)
		s.Go("other", func() { s.ended(g, nil, 0) })
		s.ended(g, nil, 0)
		s.shutdown()
	})},
	{Name: "group/Go while another waits", Bound: 2, Night: 3, Reach: []string{"wait for a round", "another round"}, Run: onPool(func(s *sim) {
		s.pool(0)
		g := s.p.Group(context.Background())
		s.in(g, 0, nothing)
		first := roundOf(g)
		s.Go("other", func() { s.ended(g, nil, 0) })
		s.in(g, 1, nothing)
		if roundOf(g) != first {
			explore.Reach("another round")
		}
		s.ended(g, nil, 0, 1)
		s.shutdown()
	})},
	{Name: "group/an error and a task that has not started", Reach: []string{"skipped", "ran"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		g := s.p.Group(context.Background())
		boom := errors.New("boom")
		s.in(g, 0, func(context.Context) error { return boom })
		s.in(g, 1, func(ctx context.Context) error { s.Failf("it starts after the error"); return nil })
		if s.times(1) == 0 && s.p.Stats().Submitted == 1 {
			s.accepted[1] = false // refused by Go
			explore.Reach("skipped")
		} else {
			explore.Reach("ran")
		}
		if err := g.Wait(); err != boom {
			s.Failf("Wait = %v", err)
		}
		if g.Context().Err() == nil {
			s.Failf("the context goes on")
		}
		s.shutdown()
	})},
	{Name: "group/the limit", Bound: 2, Reach: []string{"limit"}, Run: onPool(func(s *sim) { s.atLimit(2) })},
	{Name: "group/the limit, one worker", Bound: 2, Night: 3, Reach: []string{"limit"}, Run: onPool(func(s *sim) { s.atLimit(1) })},
	{Name: "group/the limit, and nobody is in Wait", Reach: []string{"limit"}, Run: onPool(func(s *sim) {
		s.pool(0)
		g := s.p.Group(context.Background(), shoal.Limit(1))
		s.in(g, 0, nothing)
		s.in(g, 1, nothing)
		s.ended(g, nil, 0, 1)
		s.shutdown()
	})},
	{Name: "group/one goes to the limit twice while another waits", Bound: 3, Reach: []string{"limit", "another round"}, Run: onPool(func(s *sim) {
		s.pool(0)
		g := s.p.Group(context.Background(), shoal.Limit(1))
		done := sy.MakeEvent()
		s.Go("other", func() {
			s.in(g, 0, nothing)
			s.in(g, 1, nothing)
			done.Set()
		})
		if err := g.Wait(); err != nil {
			s.Failf("Wait = %v", err)
		}
		if s.times(0) == 0 || s.times(1) == 0 {
			explore.Reach("another round")
		}
		done.Wait()
		s.ended(g, nil, 0, 1)
		s.shutdown()
	})},
	{Name: "group/the context ends while one waits for the limit", Bound: 3, Reach: []string{"limit", "skipped"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		g := s.p.Group(ctx, shoal.Limit(1))
		s.in(g, 0, nothing)
		s.in(g, 1, nothing)
		err := g.Wait()
		if err != nil && err != context.Canceled || err == nil && s.times(0)+s.times(1) != 2 {
			s.Failf("ran %d and %d, Wait = %v", s.times(0), s.times(1), err)
		}
		for i := range 2 {
			if s.times(i) == 0 {
				explore.Reach("skipped")
				s.accepted[i] = false
			}
		}
		s.shutdown()
	})},
	{Name: "group/in a task, one worker", Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			g := s.p.Group(ctx)
			s.in(g, 1, nothing)
			s.in(g, 2, nothing)
			s.ended(g, nil, 1, 2)
			return nil
		}))
		s.shutdown()
	})},
	{Name: "group/in a task without a context, one worker", Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.submitTask(0, func() {
			s.did(0)
			g := s.p.Group(context.Background())
			s.in(g, 1, nothing)
			s.in(g, 2, nothing)
			s.ended(g, nil, 1, 2)
		})
		s.p.Wait()
		s.shutdown()
	})},
	{Name: "group/in a task without a context, and the other worker waits for it", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		ended := sy.MakeLatch()
		s.submitTask(0, func() {
			s.did(0)
			g := s.p.Group(context.Background())
			s.in(g, 2, nothing)
			s.ended(g, nil, 2)
			ended.Open()
		})
		s.submitTask(1, func() { s.did(1); ended.Wait() })
		s.p.Wait()
		s.shutdown()
	})},
	{Name: "group/in two tasks without contexts, two workers", Bound: 2, Reach: []string{"claim", "wait for a group"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		for i := range 2 {
			s.submitTask(i, func() {
				s.did(i)
				g := s.p.Group(context.Background())
				s.in(g, 2+i, nothing)
				s.ended(g, nil, 2+i)
			})
		}
		s.p.Wait()
		s.shutdown()
	})},
	{Name: "group/WaitContext, and the context ends", Bound: 3, Reach: []string{"wait for a group", "gave up"}, Run: onPool(func(s *sim) {
		s.pool(0)
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		g := s.p.Group(context.Background())
		s.in(g, 0, nothing)
		switch err := g.WaitContext(ctx); {
		case err == context.Canceled:
			explore.Reach("gave up")
		case err != nil || s.times(0) != 1:
			s.Failf("ran %d, WaitContext = %v", s.times(0), err)
		}
		s.ended(g, nil, 0)
		s.in(g, 1, nothing)
		s.ended(g, nil, 0, 1)
		s.shutdown()
	})},
	{Name: "group/Wait and WaitContext", Bound: 3, Reach: []string{"wait for a group", "wait for a round"}, Run: onPool(func(s *sim) {
		s.pool(0)
		g := s.p.Group(context.Background())
		s.in(g, 0, nothing)
		s.Go("other", func() {
			if err := g.WaitContext(explore.NewContext()); err != nil {
				s.Failf("WaitContext = %v", err)
			}
			s.hasRun(0, "WaitContext")
		})
		s.ended(g, nil, 0)
		s.shutdown()
	})},
	{Name: "group/in a task, and its task adds one and waits for that", Bound: 2, Reach: []string{"claim", "wait for a group"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			g := s.p.Group(ctx)
			late := sy.MakeEvent()
			s.in(g, 1, func(ctx context.Context) error {
				// Where the outer task runs it itself nobody waits for the group.
				helped := s.p.Stats().Running == 1
				s.in(g, 2, func(context.Context) error { late.Set(); return nil })
				if !helped {
					late.Wait() // who waits for the group has to run it
				}
				return nil
			})
			s.ended(g, nil, 1, 2)
			return nil
		}))
		s.shutdown()
	})},
	{Name: "group/two wait for the place of a full sub-pool, and one gives up", Bound: 2, Run: onPool(func(s *sim) {
		s.oneGivesUp(func(ctx context.Context) (wait func(), impatient func(context.Context)) {
			g := s.sub.Group(ctx)
			g.Go(nothing)
			return func() { g.Wait() }, func(short context.Context) { g.WaitContext(short) }
		})
	})},
	{Name: "group/Close", Bound: 3, Reach: []string{"dropped"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.Go("stopper", s.close)
		g := s.p.Group(context.Background())
		s.in(g, 0, nothing)
		err := g.Wait()
		switch {
		case err == nil:
			s.hasRun(0, "Wait")
		case errors.Is(err, shoal.ErrDropped):
			explore.Reach("dropped")
		case errors.Is(err, shoal.ErrClosed):
			s.accepted[0] = s.times(0) == 1
		default:
			s.Failf("Wait = %v", err)
		}
	})},

	// ----- maps -----

	{Name: "map/one item", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0)
		for _, err := range shoal.Map(context.Background(), s.p, s.items(1), s.item) {
			if err != nil {
				s.Failf("%v", err)
			}
			s.hasRun(0, "Map")
		}
		s.shutdown()
	})},
	{Name: "map/two items, two workers", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		i := 0
		for v, err := range shoal.Map(context.Background(), s.p, s.items(2), s.item) {
			if v != i || err != nil {
				s.Failf("the result of item %d is %d, %v", i, v, err)
			}
			s.hasRun(i, "Map")
			i++
		}
		s.shutdown()
	})},
	{Name: "map/three items, as they come", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0)
		n := 0
		for v, err := range shoal.MapUnordered(context.Background(), s.p, s.items(3), s.item) {
			if err != nil {
				s.Failf("item %d: %v", v, err)
			}
			s.hasRun(v, "MapUnordered")
			n++
		}
		if n != 3 {
			s.Failf("%d results", n)
		}
		s.shutdown()
	})},
	{Name: "map/break", Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		for range shoal.Map(context.Background(), s.p, s.items(2), s.item) {
			break
		}
		ran := [2]int{s.times(0), s.times(1)}
		s.shutdown()
		if ran != [2]int{s.times(0), s.times(1)} {
			s.Failf("items run after break")
		}
		for i := range ran {
			s.accepted[i] = ran[i] > 0
		}
	})},
	{Name: "map/in a task, one worker", Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.result(context.Background(), 7, s.begin(context.Background(), 7, func(ctx context.Context) error {
			n := 0
			for _, err := range shoal.MapUnordered(ctx, s.p, s.items(2), s.item) {
				if err != nil {
					s.Failf("%v", err)
				}
				n++
			}
			if n != 2 {
				s.Failf("%d results", n)
			}
			return nil
		}))
		s.shutdown()
	})},
	{Name: "map/Close", Bound: 2, Night: 3, Reach: []string{"cut short"}, Run: onPool(func(s *sim) {
		s.pool(0)
		s.drops = true
		s.Go("stopper", s.close)
		for _, err := range shoal.MapUnordered(context.Background(), s.p, s.items(2), s.item) {
			if err != nil && !errors.Is(err, shoal.ErrClosed) && !errors.Is(err, shoal.ErrDropped) {
				s.Failf("%v", err)
			}
			if err != nil {
				explore.Reach("cut short")
			}
		}
		for i := range 2 {
			s.accepted[i] = s.times(i) > 0
		}
	})},

	{Name: "group/TryGo at the limit", Bound: 3, Reach: []string{"accepted", "refused"}, Run: onPool(func(s *sim) {
		s.pool(0)
		g := s.p.Group(context.Background(), shoal.Limit(1))
		s.accepted[0] = true
		g.Go(func(context.Context) error { s.did(0); return nil })
		s.accepted[1] = g.TryGo(func(context.Context) error { s.did(1); return nil })
		if s.accepted[1] {
			explore.Reach("accepted")
		} else {
			explore.Reach("refused")
		}
		if err := g.Wait(); err != nil {
			s.Failf("Wait: %v", err)
		}
		s.hasRun(0, "Wait")
		if s.accepted[1] {
			s.hasRun(1, "Wait")
		}
		s.close()
	})},
	{Name: "group/TryGo on a full pool, and others wait", Bound: 2, Reach: []string{"accepted", "full"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(0))
		g := s.p.Group(context.Background())
		waited := sy.MakeEvent()
		s.accepted[0] = true
		g.Go(func(context.Context) error { s.did(0); return nil })
		s.Go("waiter", func() {
			if err := g.Wait(); err != nil {
				s.Failf("Wait: %v", err)
			}
			waited.Set()
		})
		s.accepted[1] = g.TryGo(func(context.Context) error { s.did(1); return nil })
		if s.accepted[1] {
			explore.Reach("accepted")
		}
		waited.Wait()
		s.hasRun(0, "Wait")
		if err := g.Wait(); err != nil {
			s.Failf("Wait: %v", err)
		}
		s.close()
	})},

	// ----- keys -----

	{Name: "key/two tasks of a key, two workers", Bound: 3, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyed(2, shoal.WithMaxWorkers(2))
		s.keep(0)
		s.keep(1)
	})},
	{Name: "key/three tasks of a key, two workers", Bound: 2, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyed(3, shoal.WithMaxWorkers(2))
		s.keep(0)
		s.keep(1)
		s.keep(2)
	})},
	{Name: "key/two submitters, one worker", Run: onPool(func(s *sim) {
		s.keyed(2)
		s.Go("other", func() { s.keep(1) })
		s.keep(0)
	})},
	{Name: "key/two submitters, two workers", Bound: 2, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyed(2, shoal.WithMaxWorkers(2))
		s.Go("other", func() { s.keep(1) })
		s.keep(0)
	})},
	{Name: "key/a blocked key blocks only itself", Bound: 2, Night: 3, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyed(3, shoal.WithMaxWorkers(2))
		free := sy.MakeEvent()
		s.keepAs("blocked", 0, free.Wait)
		s.keepAs("blocked", 1, func() { s.hasRun(0, "its turn came") })
		s.keepAs("free", 2, free.Set)
	})},
	{Name: "key/the capacity counts who waits for its key", Bound: 2, Reach: []string{"wait for capacity", "carry on"}, Run: onPool(func(s *sim) {
		s.keyed(3, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0))
		s.keep(0)
		s.keep(1)
		s.keep(2)
	})},
	// Who comes later may be accepted first: strict order among blocked submitters was cut.
	{Name: "key/one waits for room, another one comes", Bound: 1, Night: 2, Reach: []string{"wait for capacity", "task 2 first"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1))
		s.p.Pause()
		for _, i := range []int{0, 3, 4} { // as many as two workers and the queue take
			s.submitTask(i, func() { s.did(i) })
		}
		s.left.Store(100)
		looked, done, resumed := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		waits := false
		s.Go("waiter", func() { s.keep(1); done.Set() })
		s.Go("resumer", func() {
			waits = s.p.Stats().Blocked == 1
			looked.Set()
			s.p.Resume()
			resumed.Set()
		})
		looked.Wait()
		s.keepAs("key", 2, func() {
			if waits && s.times(1) == 0 {
				explore.Reach("task 2 first")
			}
		})
		done.Wait()
		resumed.Wait()
		s.p.Wait()
		s.hasRun(1, "Wait")
		s.hasRun(2, "Wait")
		s.shutdown()
	})},
	{Name: "key/Goexit with a turn left", Bound: 3, Reach: []string{"activate again"}, Run: onPool(func(s *sim) {
		s.keyed(2, shoal.WithMaxWorkers(2))
		s.keepAs("key", 0, runtime.Goexit)
		s.keep(1)
	})},
	{Name: "key/Shutdown", Bound: 3, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		s.keep(0)
		s.keep(1)
		s.shutdown()
		s.hasRun(0, "Shutdown")
		s.hasRun(1, "Shutdown")
	})},
	{Name: "key/Close", Bound: 3, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		s.keep(0)
		s.keep(1)
		s.close()
	})},
	{Name: "key/DropOldest", Bound: 3, Reach: []string{"displace"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		s.keep(0)
		s.keep(1)
		taken := s.keepOrFull(2)
		s.shutdown()
		if taken && s.times(2) != 1 {
			s.Failf("the latest did not run")
		}
	})},

	{Name: "key/one of three is cancelled, two workers", Bound: 2, Reach: []string{"carry on", "canceled", "not canceled"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		ctx := explore.NewContext()
		s.keep(0)
		s.Go("canceler", ctx.Cancel)
		f := s.keepFuture(ctx, 1)
		s.keep(2)
		if s.gets(f, 1, context.Canceled) {
			explore.Reach("not canceled")
		} else {
			explore.Reach("canceled")
			s.accepted[1] = s.p.Stats().Submitted == 3 // or ctx had ended before
		}
		s.p.Wait()
		s.hasRun(0, "Wait")
		s.hasRun(2, "Wait")
		s.shutdown()
	})},
	{Name: "key/Cancel and a worker", Bound: 3, Reach: []string{"carry on", "withdraw", "too late"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		s.keep(0)
		f := s.keepFuture(context.Background(), 1)
		withdrawn := f.Cancel()
		if !withdrawn {
			explore.Reach("too late")
		}
		if s.gets(f, 1, context.Canceled) == withdrawn {
			s.Failf("Cancel = %v, and the task ran, or not", withdrawn)
		}
		s.p.Wait()
		s.hasRun(0, "Wait")
		if st := s.p.Stats(); withdrawn && st.Canceled != 1 {
			s.Failf("withdrawn, and %+v", st)
		}
		s.shutdown()
	})},
	{Name: "key/Cancel and Close", Bound: 2, Reach: []string{"withdraw", "dropped"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		s.keep(0)
		f := s.keepFuture(context.Background(), 1)
		closed := sy.MakeEvent()
		s.Go("stopper", func() { s.close(); closed.Set() })
		withdrawn := f.Cancel()
		want := shoal.ErrDropped
		if withdrawn {
			want = context.Canceled
		}
		if !s.gets(f, 1, want) && !withdrawn {
			explore.Reach("dropped")
		}
		closed.Wait()
	})},
	{Name: "key/the context of a turn ends with the pool", Bound: 2, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		s.drops = true
		s.keep(0)
		s.endsWithThePool(1)
	})},
	{Name: "key/the context of a spawned task of a key ends with the pool", Bound: 2, Reach: []string{"spawn"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		s.fill()
		s.drops = true
		s.endsWithThePool(1)
	})},
	{Name: "key/DropOldest drops a task that is waited for", Bound: 2, Reach: []string{"displace", "dropped"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		s.keep(0)
		f := s.keepFuture(context.Background(), 1)
		s.keepOrFull(2)
		if !s.gets(f, 1, shoal.ErrDropped) {
			explore.Reach("dropped")
		}
		s.shutdown()
	})},

	// ----- sub-pools -----

	{Name: "sub/one task", Run: onPool(func(s *sim) {
		s.family(1, nil)
		s.to(s.sub, 0, func() {})
	})},
	{Name: "sub/two tasks, one worker", Bound: 3, Run: onPool(func(s *sim) {
		s.family(2, nil)
		s.to(s.sub, 0, func() {})
		s.to(s.sub, 1, func() {})
	})},
	{Name: "sub/the first task waits for the second", Bound: 2, Run: onPool(func(s *sim) {
		s.family(2, nil, shoal.WithMaxWorkers(2))
		e := sy.MakeEvent()
		s.to(s.sub, 0, e.Wait)
		s.to(s.sub, 1, e.Set)
	})},
	{Name: "sub/its task waits for one of its parent", Bound: 2, Run: onPool(func(s *sim) {
		s.family(2, nil, shoal.WithMaxWorkers(2))
		e := sy.MakeEvent()
		s.to(s.sub, 0, e.Wait)
		s.to(s.p, 1, e.Set)
	})},
	{Name: "sub/one task of each, one worker", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.family(2, nil)
		s.Go("other", func() { s.to(s.sub, 1, func() {}) })
		s.to(s.p, 0, func() {})
	})},
	{Name: "sub/a worker that leaves when it is idle", Bound: 3, Run: onPool(func(s *sim) {
		s.family(2, nil, shoal.WithIdleTimeout(0))
		s.to(s.p, 0, func() {})
		s.to(s.sub, 1, func() {})
	})},
	{Name: "sub/a higher priority calls the worker back", Bound: 2, Run: onPool(func(s *sim) {
		s.family(3, []shoal.Option{shoal.WithPriority(-1)})
		s.to(s.sub, 0, func() {})
		s.to(s.sub, 1, func() {})
		s.to(s.p, 2, func() {})
	})},
	{Name: "sub/Goexit", Bound: 3, Run: onPool(func(s *sim) {
		s.family(2, nil)
		s.to(s.sub, 0, runtime.Goexit)
		s.to(s.sub, 1, func() {})
	})},
	{Name: "sub/Close of the sub-pool", Run: onPool(func(s *sim) {
		s.related(0, nil)
		s.drops = true
		s.to(s.sub, 0, func() {})
		if err := s.sub.Close(); err != nil {
			s.Failf("Close: %v", err)
		}
		if s.sub.State() != shoal.Closed || len(s.p.Subs()) != 0 {
			s.Failf("after Close: %v, %d sub-pools", s.sub.State(), len(s.p.Subs()))
		}
		s.close()
	})},
	{Name: "sub/Close of the parent", Bound: 3, Run: onPool(func(s *sim) {
		s.related(0, nil)
		s.drops = true
		s.Go("stopper", s.close)
		s.accepted[0] = s.sub.Submit(func() { s.did(0) }) == nil
	})},
	{Name: "sub/Shutdown of the parent", Bound: 3, Run: onPool(func(s *sim) {
		s.related(0, nil)
		s.Go("stopper", s.shutdown)
		s.accepted[0] = s.sub.Submit(func() { s.did(0) }) == nil
	})},
	{Name: "sub/Shutdown of both", Bound: 3, Run: onPool(func(s *sim) {
		s.related(0, nil)
		s.to(s.sub, 0, func() {})
		s.Go("stopper", s.shutdown)
		if err := s.sub.Shutdown(context.Background()); err != nil {
			s.Failf("Shutdown: %v", err)
		}
		s.hasRun(0, "Shutdown")
	})},
	{Name: "sub/Pause and Resume of the parent", Bound: 2, Run: onPool(func(s *sim) {
		s.family(2, nil)
		s.Go("pauser", func() {
			s.p.Pause()
			s.p.Resume()
		})
		s.to(s.sub, 0, func() {})
		s.to(s.sub, 1, func() {})
	})},
	{Name: "sub/Wait of the parent while it lends", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, nil, shoal.WithMaxWorkers(2))
		e := sy.MakeEvent()
		s.to(s.sub, 1, e.Wait)
		s.to(s.p, 0, func() {})
		s.p.Wait()
		s.hasRun(0, "Wait")
		e.Set()
		s.shutdown()
	})},
	{Name: "sub/a task waits for one of the sub-pool, one worker", Reach: []string{"claim", "tombstone"}, Run: onPool(func(s *sim) {
		s.related(0, nil)
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.accepted[1] = true
			s.result(ctx, 1, shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.did(1); return 1, nil }))
			return nil
		}))
		s.shutdown()
	})},
	{Name: "sub/two wait for tasks of a sub-pool of one worker", Bound: 2, Reach: []string{"claim"}, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)}, shoal.WithMaxWorkers(2))
		ask := func(i int) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				s.accepted[i] = true
				s.result(ctx, i, shoal.Go(ctx, s.sub, func(context.Context) (int, error) {
					sy.Access(&s.alone, sy.Write)
					if s.inside++; s.inside > 1 {
						s.Failf("two tasks of a sub-pool of one worker")
					}
					s.did(i)
					s.inside--
					return i, nil
				}))
				return nil
			}
		}
		a, b := s.begin(context.Background(), 0, ask(2)), s.begin(context.Background(), 1, ask(3))
		s.result(context.Background(), 0, a)
		s.result(context.Background(), 1, b)
		s.shutdown()
	})},

	// ----- found by reviewers -----

	{Name: "group/Wait while Go begins a round", Reach: []string{"another round"}, Run: onPool(func(s *sim) {
		s.inline()
		g := s.p.Group(context.Background())
		first := roundOf(g)
		g.Go(nothing)
		s.ended(g, nil)
		s.Go("waiter", func() { g.Wait() })
		s.in(g, 0, nothing)
		s.ended(g, nil, 0)
		if roundOf(g) != first {
			explore.Reach("another round")
		}
		s.shutdown()
	})},
	{Name: "group/two have waited, and the next round fails", Bound: 3, Run: onPool(func(s *sim) {
		s.inline()
		g := s.p.Group(context.Background())
		a, b := sy.MakeEvent(), sy.MakeEvent()
		s.Go("a", func() { g.Wait(); a.Set() })
		s.Go("b", func() { g.Wait(); b.Set() })
		s.in(g, 0, nothing)
		a.Wait()
		b.Wait()
		boom := errors.New("boom")
		g.Go(func(context.Context) error { return boom })
		g.Go(nothing)
		s.ended(g, boom)
		s.shutdown()
	})},
	{Name: "group/the last task leaves late, and the next round fails", Bound: 3, Night: 4, Run: onPool(func(s *sim) {
		s.inline()
		g := s.p.Group(context.Background())
		w := sy.MakeEvent()
		s.Go("task", func() { g.Go(nothing) })
		s.Go("waiter", func() { g.Wait(); w.Set() })
		g.Wait()
		w.Wait()
		boom := errors.New("boom")
		g.Go(func(context.Context) error { return boom })
		g.Go(nothing)
		if err := g.Wait(); err != boom {
			s.Failf("Wait = %v", err)
		}
		s.shutdown()
	})},
	{Name: "group/at the limit while rounds change", Bound: 3, Run: onPool(func(s *sim) {
		s.inline()
		g := s.p.Group(context.Background(), shoal.Limit(1))
		done := sy.MakeEvent()
		s.Go("other", func() { s.in(g, 0, nothing); done.Set() })
		s.in(g, 1, nothing)
		s.ended(g, nil, 1)
		s.in(g, 2, nothing)
		s.ended(g, nil, 2)
		done.Wait()
		s.ended(g, nil, 0, 1, 2)
		s.shutdown()
	})},
	{Name: "help/DropOldest of a task that is not put yet, and Cancel", Reach: []string{"withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		s.p.Pause()
		s.p.Submit(func() {}) // the next submission is on the fast path
		done := sy.MakeEvent()
		s.Go("canceler", func() {
			u := shoal.Go(context.Background(), s.p, func(context.Context) (int, error) { return 0, nil })
			u.Cancel()
			u.Wait(context.Background())
			done.Set()
		})
		s.p.Submit(func() {})
		s.p.Submit(func() {})
		done.Wait()
		s.p.Resume()
		s.shutdown()
	})},
	{Name: "sub/a helper comes before the worker is lent", Bound: 2, Run: onPool(func(s *sim) {
		s.related(0, []shoal.Option{shoal.WithMaxWorkers(1)})
		s.Go("other", func() {
			s.accepted[2] = true
			if s.sub.Submit(func() { s.did(2) }) != nil {
				s.accepted[2] = false
			}
		})
		s.result(context.Background(), 0, s.begin(context.Background(), 0, func(ctx context.Context) error {
			s.accepted[1] = true
			s.result(ctx, 1, shoal.Go(ctx, s.sub, func(context.Context) (int, error) { s.did(1); return 1, nil }))
			return nil
		}))
		s.shutdown()
	})},
	{Name: "key/Goexit with two turns left", Bound: 2, Night: 3, Reach: []string{"activate again", "carry on"}, Run: onPool(func(s *sim) {
		s.twoTurnsLeft(runtime.Goexit, func() {})()
		s.shutdown()
		for i := range 3 {
			s.hasRun(i, "Shutdown")
		}
	})},
	{Name: "key/Goexit in a turn, with one left", Bound: 2, Reach: []string{"activate again", "carry on"}, Run: onPool(func(s *sim) {
		s.twoTurnsLeft(func() {}, runtime.Goexit)()
		s.shutdown()
		for i := range 3 {
			s.hasRun(i, "Shutdown")
		}
	})},
	{Name: "key/DropOldest drops a turn that was given back", Bound: 2, Night: 3, Reach: []string{"displace", "activate again"}, Run: onPool(func(s *sim) {
		release := s.twoTurnsLeft(func() {}, func() {}, shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		s.p.Pause()
		release()
		took := 2 // the turns
		for _, i := range []int{5, 6, 4} {
			was := s.p.Stats().Dropped
			if s.try(i) {
				took++
			}
			if s.p.Stats().Dropped > was+1 {
				s.Failf("more were dropped than it took")
			}
		}
		s.p.Resume()
		s.shutdown()
		ran := 0
		for _, i := range []int{1, 2, 4, 5, 6} {
			ran += s.times(i)
		}
		if dropped := int(s.p.Stats().Dropped); ran != took-dropped || dropped > 2 {
			s.Failf("of %d tasks %d ran, and %d were dropped", took, ran, dropped)
		}
	})},
	{Name: "key/DropOldest comes before the putter, and turns are given back", Bound: 1, Night: 2, Reach: []string{"activate again"}, Run: onPool(func(s *sim) {
		release := s.twoTurnsLeft(func() {}, func() {}, shoal.WithQueueCapacity(4), shoal.WithFullPolicy(shoal.DropOldest))
		s.drops = true
		s.p.Pause()
		s.try(5)
		began := sy.MakeEvent()
		s.Go("keyed", func() {
			began.Set()
			s.keep(4)
			release()
		})
		began.Wait()
		s.try(6)
		s.try(7)
		s.p.Resume()
		s.p.Wait()
		s.shutdown()
		if n := s.strands(); n != 0 {
			s.Failf("at the end %d keys have tasks", n)
		}
	})},
	{Name: "key/Close when a turn was given back", Bound: 3, Reach: []string{"activate again"}, Run: onPool(func(s *sim) {
		release := s.twoTurnsLeft(func() {}, func() {})
		s.drops = true
		s.p.Pause()
		release()
		s.close()
		if n := s.strands(); n != 0 {
			s.Failf("after Close %d keys have tasks", n)
		}
	})},
	{Name: "key/turns are given back, and Wait", Bound: 2, Reach: []string{"activate again"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		s.keep(0)
		s.keep(1)
		s.keep(2)
		s.p.Wait()
		for i := range 3 {
			s.hasRun(i, "Wait")
		}
		s.shutdown()
	})},
	{Name: "key/Goexit with a turn left, and Wait", Bound: 3, Reach: []string{"activate again"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2))
		s.keepAs("key", 0, runtime.Goexit)
		s.keep(1)
		s.p.Wait()
		s.hasRun(1, "Wait")
		s.shutdown()
	})},
	{Name: "key/Wait, and all workers are free", Bound: 3, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1))
		s.keep(0)
		s.keep(1)
		s.waitAndEnd()
	})},
	{Name: "key/Wait, and another task ends", Bound: 2, Night: 3, Reach: []string{"carry on"}, Run: onPool(func(s *sim) {
		s.keyedPool(1, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1))
		s.keep(1)
		s.keep(2)
		s.submit(0)
		s.waitAndEnd()
	})},
}
