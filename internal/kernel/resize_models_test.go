//go:build poolsim

package kernel

import (
	"fmt"

	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// resizeModels are about looks that are out of date when a maximum is lowered, and about a Sizer's no.
func resizeModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "resize/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	to := func(max, capacity int) LaneConfig { return LaneConfig{Max: max, Capacity: capacity} }
	// The look of a worker at the lane that is ready alone, and the maximum of the root. busy: the worker goes on
	// from task to task there.
	for _, where := range []string{"the root", "a lane"} {
		for busy := 1; busy <= 2; busy++ {
			add(fmt.Sprintf("Resize of the root to fewer, a task waits in %s, %d run there", where, busy), 2, nil, func(s *sim) {
				s.pool(0, conf{Max: 2, Capacity: 4})
				s.left.Store(100)
				a := 0
				if where != "the root" {
					a = s.sub(0, to(2, 4))
				}
				e := sy.MakeLatch()
				small, in := false, 0
				enters := func(last bool) {
					sy.Access(&s.alone, sy.Write)
					if in++; last && small && in > 1 {
						s.Failf("a task began beyond the maximum, which was lowered while it waited")
					}
				}
				leaves := func() { sy.Access(&s.alone, sy.Write); in-- }
				began := sy.MakeEvent()
				s.and(a, 0, func() { enters(false); began.Set(); e.Wait(); leaves() })
				began.Wait()
				if busy == 2 {
					s.and(a, 1, func() { enters(false); leaves() })
				}
				s.and(a, 2, func() { enters(true); leaves() })
				s.resize(0, 1)
				if c := s.lanes[a].Snapshot(); c.Busy == busy && c.Waiting == 1 {
					sy.Access(&s.alone, sy.Write)
					small = true
				}
				s.Go("opener", e.Open)
				s.shutdown(0)
			})
		}
	}
	// The Resize models again, with a task that was taken in a turn.
	add("Resize of the root to fewer, a worker has a turn in a lane, another waits", 2, nil, func(s *sim) {
		s.pool(0, conf{Max: 2, Capacity: 4})
		s.left.Store(100)
		a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
		e, f, began, in := sy.MakeLatch(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		small := false
		s.root.Pause()
		s.and(a, 0, func() { began.Set(); e.Wait() })
		s.submit(b, 1)
		s.and(b, 2, func() { in.Set(); f.Wait() })
		s.and(b, 3, func() {
			sy.Access(&s.alone, sy.Write)
			if small && s.in[a] == 1 {
				s.Failf("a task began beyond the maximum, which was lowered while it waited")
			}
		})
		s.and(a, 4, nil)
		s.root.Resume()
		began.Wait()
		in.Wait()
		f.Set()
		s.resize(0, 1)
		if c := s.lanes[b].Snapshot(); c.Waiting == 1 {
			sy.Access(&s.alone, sy.Write)
			small = true
		}
		s.Go("opener", e.Open)
		s.shutdown(0)
	})
	// The Sizer has said no to a worker that then is in the start hook. It must yield before it takes a task.
	add("a Sizer says no, then a start hook, and another worker searches: the first one yields", 2, nil, func(s *sim) {
		asked := map[int]int{}
		s.pool(3, conf{Max: 2, Capacity: 4, Config: Config{
			Sizer: func(z Sizing) bool { sy.Access(&s.alone, sy.Write); asked[z.Workers]++; return z.Workers == 0 },
			Start: func(int) { sy.Access(&s.alone, sy.Write) },
		}})
		e := sy.MakeEvent()
		s.root.Pause() // so that a task waits all the time
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.submit(0, 2)
		s.root.Resume()
		s.end()
		if asked[0] == 1 && asked[1] == 1 && s.root.crew.staff.peak == 2 {
			s.Failf("a worker began a task that waited for it, and did not yield, although the only answer was no")
		}
	})
	add("a Sizer that says no, and start hooks, two submitters and a lane", 2, nil, func(s *sim) {
		s.pool(3, conf{Max: 2, Capacity: 4, Config: Config{Start: func(int) { sy.Access(&s.alone, sy.Write) }, Sizer: func(Sizing) bool { return false }}})
		a := s.sub(0, to(1, 4))
		s.Go("other", func() { s.submit(a, 1) })
		s.submit(0, 0)
		s.submit(0, 2)
		s.end()
	})
	add("Resize of a lane to fewer than are in it and below it, and a task is displaced", 1, nil, func(s *sim) { s.inAndBelow(true) })
	return ms
}
