//go:build poolsim

package kernel

import (
	"fmt"

	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// looksModels are about looks without the lock that have become old: a worker has looked at the
// lane that is ready alone, and at what bounds it, and takes a task by that look, or leaves by it.
func looksModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "looks/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	to := func(max, capacity int) LaneConfig { return LaneConfig{Max: max, Capacity: capacity} }
	first := LaneConfig{Max: 1, Capacity: 4, Priority: 1}
	for over := 1; over <= 2; over++ {
		add(fmt.Sprintf("Resize of a lane to fewer, %d tasks wait", over), 2, nil, func(s *sim) {
			s.pool(2+over, conf{Max: 2, Capacity: 4})
			a := s.sub(0, to(2, 4))
			e, began := sy.MakeLatch(), sy.MakeEvent()
			small, in, beyond := false, 0, 0
			s.and(a, 0, func() { in++; began.Set(); e.Wait(); sy.Access(&s.alone, sy.Write); in-- })
			began.Wait()
			s.submit(a, 1)
			for i := 2; i < 2+over; i++ {
				s.and(a, i, func() {
					sy.Access(&s.alone, sy.Write)
					if in++; small && in > 1 {
						if beyond++; beyond == over {
							s.Failf("%d tasks began beyond the maximum, which was lowered while they waited", over)
						}
					}
					sy.Access(&s.alone, sy.Write)
					in--
				})
			}
			s.resize(a, 1)
			if c := s.lanes[a].Snapshot(); c.Busy == 1 && int(c.Waiting) >= over {
				sy.Access(&s.alone, sy.Write)
				small = true
			}
			s.Go("opener", e.Open)
			s.end()
		})
	}
	add("what ran inline has ended, and a guest comes", 2, nil, func(s *sim) {
		s.pool(4, conf{Max: 2, Capacity: 4})
		a := s.sub(0, to(1, 4))
		in, out, gone := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		b := s.record(a, 1, nil)
		s.ok[3] = true
		s.Go("inline", func() {
			s.lanes[a].RunInline(s.inlineTask(a, 3, func() { in.Set(); out.Wait() }), 0)
			gone.Set()
		})
		in.Wait()
		s.and(0, 0, func() {
			s.submit(a, 2)
			s.giveRecord(b, Block)
			out.Set()
			gone.Wait()
			s.await(b, s.root)
		})
		s.end()
	})
	add("something comes inline and has ended", 2, nil, func(s *sim) {
		s.pool(3, conf{Max: 2, Capacity: 4, Config: Config{Min: 2}})
		a := s.sub(0, to(1, 4))
		began, e, in, out, gone := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		s.and(a, 0, func() { began.Set(); e.Wait() })
		s.submit(a, 1)
		s.ok[2] = true
		began.Wait()
		s.Go("inline", func() {
			s.lanes[a].RunInline(s.inlineTask(a, 2, func() { in.Set(); out.Wait() }), 0)
			gone.Set()
		})
		in.Wait()
		out.Set()
		gone.Wait()
		e.Set()
		s.end()
	})
	add("a lane has become an inner one", 2, nil, func(s *sim) {
		s.pool(3, conf{Max: 2, Capacity: 4})
		m := s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: -1})
		e := s.held(0, 2)
		s.submit(m, 0)
		s.and(s.sub(m, first), 1, sy.Yield)
		e.Set()
		s.end()
	})
	add("Pause of the root", 2, nil, func(s *sim) {
		s.pool(1, conf{Max: 1, Capacity: 4})
		a := s.sub(0, to(1, 4))
		paused := false
		s.and(a, 0, func() {
			sy.Access(&s.alone, sy.Read)
			if paused {
				s.Failf("a task began in a pause of the root, in which it was seen waiting")
			}
		})
		s.root.Pause()
		if n := s.lanes[a].Snapshot(); n.Waiting == 1 && n.Busy == 0 {
			sy.Access(&s.alone, sy.Write)
			paused = true
		}
		sy.Yield()
		sy.Access(&s.alone, sy.Write)
		paused = false
		s.root.Resume()
		s.end()
	})

	// The fourth task is the first one that is taken without a tick before it.
	for _, of := range []string{"root", "sub-pool"} {
		add("from task to task of a "+of+", and Pause of the root", 2, []string{"plain"}, func(s *sim) {
			s.pool(5, conf{Max: 1, Capacity: 8})
			a := 0
			if of != "root" {
				a = s.sub(0, to(1, 8))
			}
			for i := range 5 {
				s.submit(a, i)
			}
			s.root.Pause()
			begun := ticketOf(sy.Peek(&s.lanes[a].head))
			sy.Yield()
			if now := ticketOf(sy.Peek(&s.lanes[a].head)); now != begun {
				s.Failf("%d tasks began in a pause", now-begun)
			}
			s.root.Resume()
			s.end()
		})
	}

	// A worker leaves a lane and goes where it is needed more. Nobody else comes to what is left.
	leaves := conf{Max: 2, Capacity: 4, Config: Config{TasksPerWorker: 1}}
	for _, what := range []string{"a guest waits for a place", "Wait, and a tombstone is left"} {
		add(what, 3, nil, func(s *sim) {
			s.pool(4, leaves)
			a, b := s.sub(0, to(1, 4)), s.sub(0, first)
			started, proceed, began, waits, e := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeLatch()
			guest := what == "a guest waits for a place"
			if !guest {
				s.resize(a, 2)
				s.most[a] = 2
			}
			r := s.record(a, 1, nil)
			s.and(0, 0, func() {
				started.Set()
				proceed.Wait()
				s.giveRecord(r, Block)
				if guest {
					waits.Set()
					s.await(r, s.root)
					e.Open()
				} else {
					s.await(r, s.root)
					waits.Set()
					e.Wait()
				}
			})
			started.Wait()
			s.and(a, 2, func() { began.Set(); waits.Wait() })
			began.Wait()
			proceed.Set()
			s.Go("other", func() { s.and(b, 3, e.Wait) })
			if !guest {
				s.wait(a)
				e.Open()
			}
			s.end()
		})
	}
	add("a guest waits for a place, and the task before it is displaced", 2, []string{"displace"}, func(s *sim) {
		s.drops = true
		s.pool(5, leaves)
		a, b := s.sub(0, to(1, 2)), s.sub(0, first)
		started, proceed, waits, began, end, e := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeLatch()
		r := s.record(a, 1, nil)
		s.and(0, 0, func() {
			started.Set()
			proceed.Wait()
			s.giveRecord(r, Block)
			waits.Set()
			s.await(r, s.root)
			e.Open()
		})
		started.Wait()
		s.and(a, 2, func() { began.Set(); end.Wait() })
		began.Wait()
		s.give(a, 4, s.loose(a, 4, nil), Block, nil)
		proceed.Set()
		waits.Wait()
		s.give(a, 5, s.task(a, 5, nil), DropOldest, nil)
		s.Go("other", func() { end.Set(); s.and(b, 3, e.Wait) })
		s.end()
	})
	add("Wait, and a canceled task is left", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(3, conf{Max: 1, Capacity: 4, Config: Config{TasksPerWorker: 1}})
		a, b := s.sub(0, to(1, 4)), s.sub(0, first)
		began, waits, e := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		r := s.record(a, 1, nil)
		s.and(a, 0, func() { began.Set(); waits.Wait() })
		began.Wait()
		s.giveRecord(r, Block)
		r.Withdraw(errTask)
		s.Go("other", func() { waits.Set(); s.and(b, 2, e.Wait) })
		s.wait(a)
		e.Set()
		s.end()
	})
	return ms
}
