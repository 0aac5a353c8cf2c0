//go:build poolsim

package kernel

import (
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// treeModels are about lanes below lanes.
func treeModels() (ms []suite.Model) {
	for _, spin := range []int{0, 1} {
		pre := map[int]string{0: "", 1: "spin: "}[spin]
		add := func(name string, bound int, reach []string, run func(s *sim)) {
			ms = append(ms, suite.Model{Name: "tree/" + pre + name, Bound: bound, Reach: reach, Run: on(run)})
		}
		of := func(max int) conf { return conf{Max: max, Capacity: 4, Config: Config{Spin: spin}} }
		to := func(max int) LaneConfig { return LaneConfig{Max: max, Capacity: 4} }
		add("one task, two levels", 3, nil, func(s *sim) {
			s.pool(1, of(1))
			a := s.sub(s.sub(0, to(1)), to(1))
			s.Go("closer", s.end)
			s.submit(a, 0)
		})
		add("two lanes of one below one of one", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			m := s.sub(0, to(1))
			a, b := s.sub(m, to(1)), s.sub(m, to(1))
			s.submit(a, 0)
			s.Go("other", func() { s.submit(b, 1); s.submit(b, 2) })
			s.submit(a, 3)
			s.end()
		})
		add("the inner lane's own tasks and those below", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			m := s.sub(0, to(1))
			a := s.sub(m, to(1))
			s.submit(m, 0)
			s.Go("other", func() { s.submit(a, 1); s.submit(m, 2) })
			s.submit(a, 3)
			s.end()
		})
		add("an inner lane at its maximum, the root has what it waits for", 2, nil, func(s *sim) {
			s.pool(3, of(2))
			m := s.sub(0, to(1))
			a, b := s.sub(m, to(1)), s.sub(m, to(1))
			e := sy.MakeEvent()
			s.and(a, 0, e.Wait)
			s.submit(b, 1)
			s.and(0, 2, e.Set)
			s.end()
		})
		add("two below one of two wait for each other", 2, nil, func(s *sim) {
			s.pool(3, of(2))
			m := s.sub(0, to(2))
			a, b := s.sub(m, to(2)), s.sub(m, to(1))
			e := sy.MakeEvent()
			s.and(a, 0, e.Wait)
			s.and(b, 1, e.Set)
			s.submit(m, 2)
			s.end()
		})
		add("three levels, a maximum at each", 2, nil, func(s *sim) {
			s.pool(4, of(3))
			m := s.sub(0, to(2))
			n := s.sub(m, to(1))
			a, b := s.sub(n, to(1)), s.sub(n, to(2))
			s.submit(a, 0)
			s.Go("other", func() { s.submit(b, 1); s.submit(m, 2) })
			s.submit(b, 3)
			s.end()
		})
		add("Sub below a lane in which workers are", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			m := s.sub(0, to(1))
			s.submit(m, 0)
			made := sy.MakeEvent()
			s.Go("other", func() { s.submit(s.sub(m, to(1)), 1); made.Set() })
			s.submit(m, 2)
			s.submit(m, 3)
			made.Wait()
			s.end()
		})
		add("Sub below a lane that is muted", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			m := s.sub(0, to(1))
			e := sy.MakeEvent()
			s.and(m, 0, e.Wait)
			s.submit(m, 1)
			s.submit(0, 2)
			s.submit(s.sub(m, to(1)), 3)
			e.Set()
			s.end()
		})
		add("Pause and Resume of an inner lane", 2, nil, func(s *sim) {
			s.pool(3, of(1))
			m := s.sub(0, to(1))
			a := s.sub(m, to(1))
			s.submit(a, 0)
			s.Go("other", func() { s.submit(0, 1); s.submit(a, 2) })
			s.lanes[m].Pause()
			s.lanes[m].Resume()
			s.end()
		})
		add("Pause of an inner lane withholds what is below", 2, nil, func(s *sim) {
			s.pool(3, of(1))
			m := s.sub(0, to(1))
			a := s.sub(m, to(1))
			s.lanes[m].Pause()
			s.submit(a, 0)
			e := sy.MakeEvent()
			s.Go("other", func() { s.and(0, 1, e.Set) })
			s.submit(m, 2)
			e.Wait()
			sy.Access(&s.alone, sy.Read)
			if s.ran[0]+s.ran[2] != 0 {
				s.Failf("ran in a pause")
			}
			s.lanes[m].Resume()
			s.end()
		})
		add("Resize of an inner lane down and up", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			m := s.sub(0, to(2))
			a := s.sub(m, to(2))
			s.Go("other", func() { s.resize(m, 1); s.resize(m, 2) })
			s.submit(a, 0)
			s.submit(a, 1)
			s.submit(m, 2)
			s.submit(0, 3)
			s.end()
		})
		add("Shutdown of an inner lane runs what is below", 2, nil, func(s *sim) {
			s.pool(0, of(2))
			m := s.sub(0, to(1))
			a := s.sub(m, to(1))
			s.submit(a, 0)
			s.Go("other", func() { s.block(a, 1, nil); s.block(0, 2, nil) })
			s.shutdown(m)
			s.hasRun("Shutdown returned", 0)
			s.shutdown(0)
		})
		add("Close of an inner lane", 2, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(1))
			m := s.sub(0, to(1))
			a := s.sub(m, to(1))
			s.block(a, 0, nil)
			s.Go("other", func() { s.block(a, 1, nil); s.block(m, 2, nil) })
			s.block(0, 3, nil)
			s.close(m)
			s.shutdown(0)
			s.hasRun("Shutdown returned", 3)
		})
		add("a lane below ends, the inner one goes on", 2, nil, func(s *sim) {
			s.pool(4, of(1))
			m := s.sub(0, to(1))
			a := s.sub(m, to(1))
			s.submit(a, 0)
			s.submit(m, 1)
			s.Go("other", func() { s.shutdown(a); s.submit(m, 2) })
			s.submit(m, 3)
			s.end()
		})
		add("the inner lane closes beside a Shutdown below and one above", 2, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(1))
			m := s.sub(0, to(1))
			a := s.sub(m, to(1))
			s.block(a, 0, nil)
			s.Go("below", func() { s.shutdown(a) })
			s.Go("above", func() { s.shutdown(0) })
			s.close(m)
		})
		add("Wait of an inner lane is about its own tasks", 2, nil, func(s *sim) {
			s.pool(3, of(2))
			m := s.sub(0, to(2))
			a := s.sub(m, to(1))
			e := sy.MakeEvent()
			s.and(a, 0, e.Wait)
			s.submit(m, 1)
			s.submit(m, 2)
			s.wait(m)
			s.hasRun("Wait returned", 1, 2)
			e.Set()
			s.end()
		})
		add("priorities below the root, whatever they are below", 2, nil, func(s *sim) {
			s.pool(4, of(1))
			lo, hi := s.sub(0, to(1)), s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: 1})
			a, b := s.sub(lo, LaneConfig{Max: 1, Capacity: 4, Priority: 5}), s.sub(hi, to(1))
			s.and(a, 0, func() { s.submit(b, 1); s.submit(a, 2) })
			s.submit(a, 3)
			s.end()
			s.follows(1, 0)
		})
		add("five lanes, cells are dropped", 1, nil, func(s *sim) {
			s.pool(6, of(1))
			m := s.sub(0, to(1))
			a, b, c := s.sub(m, to(1)), s.sub(m, to(1)), s.sub(0, to(1))
			for i, k := range []int{a, b, c, m, a, b} {
				s.submit(k, i)
				if i == 2 {
					s.wait(a)
				}
			}
			s.end()
		})
		add("Pause of the root, and a worker that has a turn in a lane", 2, nil, func(s *sim) {
			s.pool(5, of(1))
			a, b := s.sub(0, to(1)), s.sub(0, to(1))
			hold, began, e := sy.MakeEvent(), sy.MakeEvent(), sy.MakeLatch()
			s.and(0, 0, hold.Wait)
			s.and(a, 1, func() { began.Set(); e.Wait() })
			s.submit(a, 2)
			s.and(b, 3, func() { began.Set(); e.Wait() })
			s.submit(b, 4)
			hold.Set()
			began.Wait()
			s.root.Pause()
			e.Open()
			sy.Yield()
			sy.Access(&s.alone, sy.Read)
			if len(s.order) > 2 {
				s.Failf("ran in a pause of the root: %v", s.order)
			}
			s.root.Resume()
			s.end()
		})
		add("Pause of the root, a worker has a turn in a lane, and DropOldest", 2, []string{"displace"}, func(s *sim) {
			s.drops = true
			s.pool(4, of(1))
			a, b := s.sub(0, LaneConfig{Max: 1, Capacity: 2}), s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: -1})
			hold, began, e := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
			s.and(0, 0, hold.Wait)
			s.and(a, 1, func() { began.Set(); e.Wait() })
			s.give(a, 2, s.loose(a, 2, nil), Block, nil)
			s.submit(a, 3)
			s.submit(b, 4)
			hold.Set()
			began.Wait()
			s.root.Pause()
			s.give(a, 5, s.loose(a, 5, nil), DropOldest, nil) // moves the ticket of head
			e.Set()
			sy.Yield()
			sy.Access(&s.alone, sy.Read)
			if len(s.order) > 2 {
				s.Failf("ran in a pause of the root: %v", s.order)
			}
			s.root.Resume()
			s.end()
		})
	}
	return ms
}
