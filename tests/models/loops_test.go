//go:build poolsim

package models

import (
	"context"
	"errors"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// These are the models of loops. Most of them demand that items meet: that is where a call
// of a helper that gets lost shows, which otherwise only makes a loop slower.

// each runs a loop with ctx that calls f for n items from i on. It demands that the loop returns
// want and, if it returns nil, that each item has run.
func (s *sim) each(ctx context.Context, i, n int, want error, f func(ctx context.Context, i int) error) {
	in := make([]int, n)
	for k := range in {
		in[k] = i + k
	}
	_, err := shoal.MapSlice(ctx, s.p, in, func(ctx context.Context, i int) (int, error) {
		s.accepted[i] = true
		s.did(i)
		return i, f(ctx, i)
	})
	if err != want {
		s.Failf("the loop from %d on: %v", i, err)
	}
	if err == nil {
		for k := range n {
			s.hasRun(i+k, "the loop")
		}
	}
}

// meet is a function of items of which n wait for each other.
func meet(n int) func(context.Context, int) error {
	var left sy.Int64
	left.Store(int64(n))
	all := sy.MakeLatch()
	return func(context.Context, int) error {
		if left.Add(-1) == 0 {
			all.Open()
		}
		all.Wait()
		return nil
	}
}

func item(context.Context, int) error { return nil }

var errItem = errors.New("an item fails")

var loopModels = []suite.Model{
	{Name: "loop/three items", Bound: 2, Night: 3, Reach: []string{"wait for a helper", "withdraw"}, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.each(context.Background(), 0, 3, nil, item)
		if st := s.p.Stats(); st.InFlight != 0 {
			s.Failf("a task is left: %+v", st)
		}
		s.close()
	})},
	{Name: "loop/a helper calls another one as the loop ends", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(3))
		s.each(context.Background(), 0, 3, nil, item)
		if st := s.p.Stats(); st.InFlight != 0 {
			s.Failf("a task is left: %+v", st)
		}
		s.close()
	})},
	{Name: "loop/two items that meet", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.each(context.Background(), 0, 2, nil, meet(2))
		s.close()
	})},
	{Name: "loop/three items that meet", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(3))
		s.each(context.Background(), 0, 3, nil, meet(3))
		s.close()
	})},
	{Name: "loop/items that meet, on a hand-off pool", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0))
		s.each(context.Background(), 0, 2, nil, meet(2))
		s.close()
	})},
	{Name: "loop/items of a loop in a loop meet", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		begun, below := sy.MakeEvent(), meet(2)
		s.each(context.Background(), 0, 2, nil, func(ctx context.Context, i int) error {
			if i == 0 {
				begun.Wait() // the other one is a helper's
				return nil
			}
			begun.Set()
			s.each(ctx, 2, 2, nil, below)
			return nil
		})
		s.close()
	})},
	{Name: "loop/a loop in a loop", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.each(context.Background(), 0, 2, nil, func(ctx context.Context, i int) error {
			if i == 0 {
				s.each(ctx, 2, 2, nil, item)
			}
			return nil
		})
		s.close()
	})},
	{Name: "loop/the pool is paused in the middle", Bound: 2, Night: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(3))
		held := sy.MakeEvent()
		s.submitTask(3, func() { held.Wait(); s.did(3) })
		s.Go("pause", func() { s.p.Pause() })
		s.each(context.Background(), 0, 3, nil, item) // a helper that waits in the queue is taken back
		s.p.Resume()
		held.Set()
		s.shutdown()
	})},
	{Name: "loop/in a task of a pool of one worker", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0)
		s.accepted[0] = true
		err := s.p.SubmitWait(context.Background(), func(ctx context.Context) error {
			s.did(0)
			s.each(ctx, 1, 2, nil, func(ctx context.Context, i int) error {
				s.each(ctx, 1+2*i, 2, nil, item)
				return nil
			})
			return nil
		})
		if err != nil {
			s.Failf("%v", err)
		}
		s.close()
	})},
	{Name: "loop/two loops at once", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		over := sy.MakeEvent()
		s.Go("other", func() { s.each(context.Background(), 0, 2, nil, item); over.Set() })
		s.each(context.Background(), 2, 2, nil, item)
		over.Wait()
		s.close()
	})},
	{Name: "loop/an error", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.each(context.Background(), 0, 3, errItem, func(ctx context.Context, i int) error {
			if i == 2 {
				return errItem
			}
			return nil
		})
		s.close()
	})},
	{Name: "loop/a panic of the item of a helper", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.accepted[0], s.accepted[1] = true, true
		both := meet(2)
		_, err := shoal.MapSlice(context.Background(), s.p, []int{0, 1}, func(ctx context.Context, i int) (int, error) {
			s.did(i)
			both(ctx, i)
			panic("oops")
		}, shoal.CollectErrors())
		if all, ok := err.(interface{ Unwrap() []error }); !ok || len(all.Unwrap()) != 2 {
			s.Failf("%v", err)
		}
		s.close()
	})},
	{Name: "loop/Close in the middle", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		s.Go("close", s.close)
		ran := 0
		err := shoal.Range(context.Background(), s.p, 2, func(_ context.Context, lo, hi int) error {
			for ; lo < hi; lo++ {
				s.accepted[lo] = true
				s.did(lo)
			}
			return nil
		})
		for i := range 2 {
			ran += s.times(i)
		}
		if err != nil && err != shoal.ErrClosed || err == nil && ran != 2 {
			s.Failf("%v, and %d items have run", err, ran)
		}
	})},
	{Name: "loop/Shutdown in the middle", Bound: 3, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		begun, both := sy.MakeEvent(), meet(2)
		s.Go("shut", func() { begun.Wait(); s.shutdown() })
		s.each(context.Background(), 0, 2, nil, func(ctx context.Context, i int) error {
			both(ctx, i)
			if i == 0 {
				begun.Set()
			}
			return nil
		})
	})},
}
