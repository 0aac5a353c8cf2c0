//go:build poolsim

package kernel

import (
	"context"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// reserve is Reserve, which must succeed.
func (s *sim) reserve(k, n int) *Reservation {
	r, err := s.lanes[k].Reserve(context.Background(), n)
	if err != nil {
		s.Failf("Reserve: %v", err)
	}
	return r
}

// reserved submits task i for a place of r, which must be accepted.
func (s *sim) reserved(k int, r *Reservation, i int, f func()) {
	it := s.task(k, i, f)
	s.ok[i] = true
	if ok, err := r.Submit(it); !ok || err != nil {
		s.Failf("Submit of task %d for a reserved place: %v, %v", i, ok, err)
	}
}

// permitModels are about places that are reserved.
func permitModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "permits/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	add("Reserve and Submit", 3, []string{"grant", "submit reserved"}, func(s *sim) {
		s.pool(2, of(1, 4))
		s.Go("other", func() { s.submit(0, 1) })
		r := s.reserve(0, 1)
		s.reserved(0, r, 0, nil)
		s.end()
	})
	add("a reserved place is nobody else's", 3, nil, func(s *sim) {
		s.pool(1, of(1, 0))
		r := s.reserve(0, 2)
		if r.Len() != 1 {
			s.Failf("%d places of 1", r.Len())
		}
		s.Go("other", func() {
			if s.give(0, 1, s.loose(0, 1, nil), Reject, nil) == nil {
				sy.Access(&s.runs[0], sy.Read)
				if s.ran[0] == 0 {
					s.Failf("the place was taken")
				}
			}
		})
		s.Access()
		s.reserved(0, r, 0, nil)
		s.wait(0)
		s.shutdown(0)
	})
	add("a place is that of a free worker: what waits comes first", 3, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		s.submit(0, 0)
		s.submit(0, 1)
		r := s.reserve(0, 1)
		s.hasRun("Reserve returned", 0, 1)
		r.Release()
		s.end()
	})
	add("a place is reserved once", 3, nil, func(s *sim) {
		s.pool(0, of(1, 4))
		given, e := false, sy.MakeEvent()
		r := s.reserve(0, 1)
		if n := s.root.Snapshot(); n.Submitted != 0 || n.InFlight != 0 || n.Reserved != 1 {
			s.Failf("%+v", n)
		}
		s.Go("other", func() {
			r := s.reserve(0, 1)
			sy.Access(&s.alone, sy.Read)
			if !given {
				s.Failf("two have one place")
			}
			r.Release()
			e.Set()
		})
		sy.Access(&s.alone, sy.Write)
		given = true
		r.Release()
		e.Wait()
		s.wait(0)
		s.shutdown(0)
	})
	add("two reservations, one place", 3, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		s.Go("other", func() { s.reserved(0, s.reserve(0, 1), 1, nil) })
		s.reserved(0, s.reserve(0, 1), 0, nil)
		s.end()
	})
	add("Release gives the place to a waiter", 3, nil, func(s *sim) {
		s.pool(2, of(1, 0))
		r := s.reserve(0, 1)
		s.Go("other", func() { s.submit(0, 0) })
		s.Go("third", func() { s.reserved(0, s.reserve(0, 1), 1, nil) })
		r.Release()
		s.end()
	})
	add("two places, one is used", 2, nil, func(s *sim) {
		s.pool(3, of(2, 1))
		e := sy.MakeEvent()
		r := s.reserve(0, 2)
		s.Go("other", func() { s.and(0, 1, e.Set) })
		if r.Len() == 2 {
			s.reserved(0, r, 0, e.Wait)
			s.submit(0, 2)
		} else {
			s.reserved(0, r, 0, nil)
			s.submit(0, 2)
			e.Wait()
		}
		r.Release()
		s.end()
	})
	add("Reserve and Close", 3, []string{"revoke"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4))
		s.Go("other", func() {
			if r, err := s.root.Reserve(context.Background(), 1); err == nil {
				it := s.loose(0, 0, nil)
				s.ok[0] = true
				s.ok[0], err = r.Submit(it)
				if !s.ok[0] && err != ErrClosed {
					s.Failf("Submit for a reserved place: %v", err)
				}
				r.Release()
			} else if err != ErrClosed {
				s.Failf("Reserve: %v", err)
			}
		})
		s.close(0)
	})
	add("Reserve and Shutdown", 3, nil, func(s *sim) {
		s.pool(0, of(1, 0))
		s.Go("other", func() {
			if r, err := s.root.Reserve(context.Background(), 1); err == nil {
				it := s.loose(0, 0, nil)
				s.ok[0] = true
				s.ok[0], _ = r.Submit(it)
				r.Release()
			}
		})
		s.block(0, 1, nil)
		s.shutdown(0)
	})
	add("Reserve whose context ends, another waits behind", 2, nil, func(s *sim) {
		s.pool(2, of(1, 1))
		ctx := explore.NewContext()
		e := sy.MakeLatch()
		s.and(0, 0, e.Wait)
		s.Go("first", func() {
			if r, err := s.root.Reserve(ctx, 1); err == nil {
				r.Release()
			}
		})
		s.Go("second", func() { s.reserved(0, s.reserve(0, 1), 1, nil) })
		s.Go("cancel", ctx.Cancel)
		e.Open()
		s.end()
	})
	add("Reserve beside blocked submitters", 2, nil, func(s *sim) {
		s.pool(4, of(1, 0))
		s.Go("other", func() { s.submit(0, 1) })
		s.Go("third", func() { s.reserved(0, s.reserve(0, 1), 2, nil) })
		s.submit(0, 0)
		s.submit(0, 3)
		s.end()
	})
	add("Pause revokes, Resume grants", 2, []string{"revoke"}, func(s *sim) {
		s.pool(2, of(1, 4))
		r := s.reserve(0, 1)
		s.Go("pauser", func() { s.root.Pause(); s.root.Resume() })
		s.Go("other", func() { s.reserved(0, s.reserve(0, 1), 1, nil) })
		s.reserved(0, r, 0, nil)
		s.end()
	})
	add("Resize up grants, Resize down revokes", 2, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		s.most[0] = 2
		e := sy.MakeLatch()
		s.and(0, 0, e.Wait)
		s.Go("sizer", func() { s.resize(0, 2); s.resize(0, 1) })
		s.Go("opener", e.Open)
		s.reserved(0, s.reserve(0, 1), 1, nil)
		s.end()
	})
	add("Reserve in a lane, another has tasks", 2, nil, func(s *sim) {
		s.pool(4, of(1, 4))
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 1})
		s.submit(a, 0)
		s.Go("other", func() { s.submit(0, 1); s.submit(a, 2) })
		s.reserved(a, s.reserve(a, 1), 3, nil)
		s.end()
	})
	add("reserved places and Wait", 2, nil, func(s *sim) {
		s.pool(2, of(2, 4))
		r := s.reserve(0, 1)
		s.Go("other", func() { s.wait(0) })
		s.submit(0, 0)
		s.reserved(0, r, 1, nil)
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	add("Reserve beside a strand", 2, nil, func(s *sim) {
		s.pool(3, of(1, 4))
		st := s.strand(0)
		st.submit(0)
		s.Go("other", func() { s.reserved(0, s.reserve(0, 1), 2, nil) })
		st.submit(1)
		s.end()
	})
	add("Reserve beside inline runs", 2, nil, func(s *sim) {
		s.pool(3, of(1, 0))
		s.Go("other", func() { s.reserved(0, s.reserve(0, 1), 2, nil) })
		s.give(0, 0, s.inlineTask(0, 0, nil), CallerRuns, nil)
		s.give(0, 1, s.inlineTask(0, 1, nil), CallerRuns, nil)
		s.end()
	})
	return ms
}

// Access is a step of a model's thread, so that others may come between.
func (s *sim) Access() { sy.Access(&s.alone, sy.Read) }
