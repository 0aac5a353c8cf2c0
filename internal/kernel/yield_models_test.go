//go:build poolsim

package kernel

import (
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// waitsForOther submits two tasks, and waits for their end. The first waits for one of another submitter.
func waitsForOther(s *sim) {
	e := sy.MakeEvent()
	s.Go("other", func() { s.and(0, 1, e.Set) })
	s.and(0, 0, e.Wait)
	s.submit(0, 2)
	s.end()
}

// yieldModels are about submitters that yield before a full queue, and say so in wake.
func yieldModels() (ms []suite.Model) {
	add := func(name string, bound int, run func(s *sim), reach ...string) {
		ms = append(ms, suite.Model{Name: "yield/" + name, Bound: bound, Reach: append(reach, "submitter yields"), Run: on(run)})
	}
	spin := Config{Spin: 1}
	add("first waits for second", 3, func(s *sim) {
		s.pool(3, conf{Max: 2, Config: spin})
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.submit(0, 2)
		s.end()
	})
	add("two yield, one worker", 3, func(s *sim) {
		s.pool(3, conf{Max: 1, Config: spin})
		s.Go("closer", s.end)
		for i := range 2 {
			s.Go("other", func() { s.submit(0, i) })
		}
		s.submit(0, 2)
	}, "wait for capacity")
	add("two yield, two workers, the third task waits for the fourth", 2, func(s *sim) {
		s.pool(4, conf{Max: 2, Config: spin})
		e := sy.MakeEvent()
		s.Go("other", func() { s.and(0, 2, e.Wait); s.and(0, 3, e.Set) })
		s.submit(0, 0)
		s.submit(0, 1)
		s.end()
	})
	add("capacity, first waits for third", 3, func(s *sim) {
		s.pool(3, conf{Max: 2, Capacity: 1, Config: spin})
		waitsForOther(s)
	})
	add("Pause and Resume", 2, func(s *sim) {
		s.pool(3, conf{Max: 1, Config: spin})
		s.Go("pauser", func() { s.root.Pause(); s.root.Resume() })
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.submit(0, 2)
		s.end()
	})
	add("Close", 2, func(s *sim) {
		s.drops = true
		s.pool(0, conf{Max: 1, Config: spin})
		s.Go("other", func() { s.block(0, 1, nil) })
		s.Go("third", func() { s.block(0, 2, nil) })
		s.block(0, 0, nil)
		s.close(0)
	})
	add("Resize", 2, func(s *sim) {
		s.pool(3, conf{Max: 1, Config: spin})
		s.most[0] = 2
		s.Go("sizer", func() { s.resize(0, 2); s.resize(0, 1) })
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.submit(0, 2)
		s.end()
	})
	add("a sub-pool is full, the parent has tasks", 2, func(s *sim) {
		s.pool(4, conf{Max: 2, Capacity: 4, Config: spin})
		a := s.sub(0, LaneConfig{Max: 1})
		e := sy.MakeEvent()
		s.Go("other", func() { s.submit(a, 1); s.submit(a, 2) })
		s.and(a, 0, e.Wait)
		s.and(0, 3, e.Set)
		s.end()
	})
	add("two sub-pools are full", 2, func(s *sim) {
		s.pool(4, conf{Max: 2, Capacity: 4, Config: spin})
		a := s.sub(0, LaneConfig{Max: 1})
		b := s.sub(0, LaneConfig{Max: 1})
		s.Go("other", func() { s.submit(a, 0); s.submit(a, 1) })
		s.submit(b, 2)
		s.submit(b, 3)
		s.end()
	})
	add("a start hook", 2, func(s *sim) {
		s.pool(3, conf{Max: 2, Config: Config{Spin: 1, Start: func(int) {}}})
		waitsForOther(s)
	})
	add("a Sizer", 2, func(s *sim) {
		s.pool(3, conf{Max: 2, Config: Config{Spin: 1, Sizer: func(Sizing) bool { return true }}})
		waitsForOther(s)
	})
	add("the rule of growth", 2, func(s *sim) {
		s.pool(3, conf{Max: 2, Config: spin})
		s.root.crew.Eager = false
		waitsForOther(s)
	})
	add("a worker that has run short tasks", 2, func(s *sim) {
		s.pool(5, conf{Max: 2, Config: spin})
		e := sy.MakeEvent()
		s.submit(0, 0)
		s.wait(0)
		s.and(0, 1, nil)
		s.and(0, 2, e.Wait)
		s.and(0, 3, e.Set)
		s.submit(0, 4)
		s.end()
	})
	return ms
}
