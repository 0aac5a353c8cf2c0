//go:build poolsim

package kernel

import (
	"slices"
	"time"

	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// laneModels are about several lanes on one crew.
func laneModels() (ms []suite.Model) {
	for _, spin := range []int{0, 1} {
		pre := map[int]string{0: "", 1: "spin: "}[spin]
		add := func(name string, bound int, reach []string, run func(s *sim)) {
			ms = append(ms, suite.Model{Name: "lanes/" + pre + name, Bound: bound, Reach: reach, Run: on(run)})
		}
		of := func(max int) conf { return conf{Max: max, Capacity: 4, Config: Config{Spin: spin}} }
		to := func(max, capacity int) LaneConfig { return LaneConfig{Max: max, Capacity: capacity} }
		// In one of five tasks of a lane, a task of another one comes.
		comes := func(at int) func(s *sim) {
			return func(s *sim) {
				s.Timed()
				s.Procs = 0 // nobody yields
				s.pool(6, conf{Max: 1, Capacity: 8, Config: Config{Spin: spin}})
				a, b := s.sub(0, to(1, 8)), s.sub(0, to(1, 8))
				s.root.Pause()
				for i := range 5 {
					s.and(a, i, func() {
						if i == at {
							s.submit(b, 5)
						}
						s.Advance(60 * time.Microsecond)
					})
				}
				s.root.Resume()
				s.end()
				if slices.Index(s.order, 5) > 3 {
					s.Failf("the other lane waited for too long: %v", s.order)
				}
			}
		}
		add("a turn ends", 1, nil, comes(0))
		add("a worker that was alone has seen tasks, another lane is ready", 1, nil, comes(1))
		add("one task", 3, nil, func(s *sim) {
			s.pool(1, of(1))
			a := s.sub(0, to(1, 4))
			s.Go("closer", s.end)
			s.submit(a, 0)
		})
		add("two tasks of a lane, two submitters, one worker", 3, nil, func(s *sim) {
			s.pool(2, of(1))
			a := s.sub(0, to(1, 4))
			s.Go("other", func() { s.submit(a, 1) })
			s.submit(a, 0)
			s.end()
		})
		add("at its maximum with backlog, another idle", 2, []string{"mute", "unmute"}, func(s *sim) {
			s.pool(3, of(2))
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(2, 4))
			e := sy.MakeEvent()
			s.and(a, 0, e.Wait)
			s.submit(a, 1)
			s.and(b, 2, e.Set)
			s.end()
		})
		add("the last task at the maximum ends while a submitter puts", 3, []string{"mute", "unmute"}, func(s *sim) {
			s.pool(2, of(2))
			a := s.sub(0, to(1, 4))
			s.Go("other", func() { s.submit(a, 1) })
			s.submit(a, 0)
			s.end()
		})
		add("three tasks on a lane of one, two workers", 2, []string{"mute", "unmute"}, func(s *sim) {
			s.pool(3, of(2))
			a := s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.submit(a, 1)
			s.submit(a, 2)
			s.end()
		})
		add("three workers and a lane of two, all come", 2, nil, func(s *sim) {
			s.pool(4, conf{Max: 3, Capacity: 4, Config: Config{Min: 3, Spin: spin}})
			a := s.sub(0, to(2, 4))
			s.Go("other", func() { s.submit(a, 2); s.submit(a, 3) })
			s.submit(a, 0)
			s.submit(a, 1)
			s.end()
		})
		add("a worker comes from another lane under the lock, another without, one place", 2, nil, func(s *sim) {
			s.pool(3, conf{Max: 2, Capacity: 4, Config: Config{Min: 2, Spin: spin}})
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			e, f := sy.MakeEvent(), sy.MakeEvent()
			s.and(a, 0, func() { e.Set(); f.Wait() })
			e.Wait() // a worker is in a, which is not ready any more: b is to be the only one that is
			s.submit(b, 1)
			s.submit(b, 2)
			f.Set()
			s.end()
		})
		add("goes idle while a submitter puts by the lease", 2, []string{"not idle"}, func(s *sim) {
			s.pool(3, of(1))
			a := s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.Go("other", func() { s.submit(a, 1) })
			s.submit(s.sub(0, to(1, 4)), 2)
			s.end()
		})
		add("a worker looks at a lane, whose cells are dropped and made anew", 3, []string{"drop cells"}, func(s *sim) {
			s.pool(4, of(2))
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.submit(a, 1)
			s.submit(b, 2)
			s.shutdown(b)
			s.submit(a, 3)
			s.end()
		})
		add("a worker has looked at an empty lane, whose cells are dropped and made anew", 2, []string{"drop cells"}, func(s *sim) {
			c := of(2)
			c.Spin = 1
			s.pool(4, c)
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			began, e, f, g := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
			s.and(0, 0, func() { began.Set(); e.Wait() })
			began.Wait()
			s.and(a, 1, f.Set) // one worker comes for it from the root, the other is started
			e.Set()
			f.Wait()
			s.and(b, 2, g.Set)
			g.Wait()
			s.submit(a, 3)
			s.end()
		})
		add("the cells of a lane that is to end are dropped as its last task ends", 3, []string{"drop cells"}, func(s *sim) {
			s.pool(3, of(2))
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			e := sy.MakeEvent()
			s.and(a, 0, e.Wait)
			s.submit(a, 1)
			s.and(b, 2, e.Set)
			s.shutdown(b)
			s.end()
		})
		add("a worker comes to a lane and leaves it, another looks whether it is at its maximum", 2, []string{"mute"}, func(s *sim) {
			s.pool(4, of(2))
			a, b := s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: -1}), s.sub(0, to(1, 4)) // b is looked at first, and muted
			e, f := sy.MakeEvent(), sy.MakeEvent()
			s.submit(b, 0)
			s.and(a, 1, func() { e.Set(); f.Wait() })
			e.Wait()
			f.Set()
			s.submit(0, 2) // takes the lock, and so waits for who has it
			s.submit(a, 3)
			s.end()
		})
		add("first of a lane waits for second, its own maximum 2", 2, nil, func(s *sim) {
			s.pool(2, of(2))
			a := s.sub(0, to(2, 4))
			e := sy.MakeEvent()
			s.and(a, 0, e.Wait)
			s.and(a, 1, e.Set)
			s.end()
		})
		add("a lane's task waits for the parent's, that for another lane's", 2, nil, func(s *sim) {
			s.pool(3, of(3))
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			x, y := sy.MakeEvent(), sy.MakeEvent()
			s.and(a, 0, x.Wait)
			s.and(0, 1, func() { y.Wait(); x.Set() })
			s.and(b, 2, y.Set)
			s.end()
		})
		add("Sub while the parent runs", 2, nil, func(s *sim) {
			s.pool(3, of(1))
			made := sy.MakeEvent()
			s.submit(0, 0)
			s.Go("other", func() { s.submit(s.sub(0, to(1, 4)), 1); made.Set() })
			s.submit(0, 2)
			made.Wait()
			s.end()
		})
		add("the last lane ends while the parent has a backlog", 2, nil, func(s *sim) {
			s.pool(3, of(1))
			a := s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.Go("other", func() { s.shutdown(a) })
			s.submit(0, 1)
			s.submit(0, 2)
			s.end()
		})
		add("Wait of a lane", 2, nil, func(s *sim) {
			s.pool(3, of(2))
			a := s.sub(0, to(1, 4))
			e := sy.MakeEvent()
			s.and(0, 0, e.Wait)
			s.submit(a, 1)
			s.submit(a, 2)
			s.wait(a)
			s.hasRun("Wait returned", 1, 2)
			e.Set()
			s.end()
		})
		add("Wait of a lane and its submitter", 3, nil, func(s *sim) {
			s.pool(2, of(1))
			a := s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.Go("other", func() { s.submit(a, 1) })
			s.wait(a)
			s.hasRun("Wait returned", 0)
			s.end()
		})
		add("Close of a lane with backlog", 2, nil, func(s *sim) {
			s.drops = true
			s.pool(1, of(2))
			a := s.sub(0, to(1, 4))
			s.give(a, 1, s.loose(a, 1, nil), Block, nil)
			e := sy.MakeEvent()
			s.Go("other", func() { s.submit(0, 0); e.Set() })
			s.give(a, 2, s.loose(a, 2, nil), Block, nil)
			s.close(a)
			e.Wait()
			if s.block(a, 3, nil) {
				s.Failf("accepted after Close")
			}
			s.shutdown(0)
		})
		add("Close of a lane and a submitter", 3, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(1))
			a := s.sub(0, to(1, 0))
			s.Go("other", func() { s.block(a, 0, nil) })
			s.close(a)
			s.close(0)
		})
		add("Shutdown of a lane turned into Close of the parent", 2, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(1))
			a := s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.submit(a, 1)
			s.Go("other", func() { s.shutdown(a) })
			s.close(0)
		})
		add("Shutdown of the parent runs what lanes have", 2, []string{"closing"}, func(s *sim) {
			s.pool(0, of(1))
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.submit(b, 1)
			s.Go("other", func() { s.block(0, 2, nil) })
			s.shutdown(0)
		})
		add("full lane, blocked submitter, the parent's task runs", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			a := s.sub(0, to(1, 0))
			s.Go("other", func() { s.submit(a, 1) })
			s.submit(a, 0)
			s.submit(0, 2)
			s.submit(a, 3)
			s.end()
		})
		add("full lane, two blocked submitters", 2, []string{"call"}, func(s *sim) {
			s.pool(3, of(1))
			a := s.sub(0, to(1, 0))
			s.Go("other", func() { s.submit(a, 1) })
			s.submit(a, 0)
			s.submit(a, 2)
			s.end()
		})
		add("two lanes of one, two tasks each, two workers", 2, []string{"mute", "unmute"}, func(s *sim) {
			s.pool(4, of(2))
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.Go("other", func() { s.submit(b, 2); s.submit(b, 3) })
			s.submit(a, 1)
			s.end()
		})
		add("two workers come into a lane of one", 3, nil, func(s *sim) {
			s.pool(2, conf{Max: 2, Capacity: 4, Config: Config{Min: 2, Spin: spin}})
			a := s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.submit(a, 1)
			s.end()
		})
		add("cells are dropped and made again", 2, nil, func(s *sim) {
			s.pool(4, of(1))
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.Go("other", func() { s.submit(a, 3) })
			s.submit(b, 1)
			s.submit(a, 2)
			s.end()
		})
		add("one worker, a task of a lane waits for the return of Submit to another", 2, nil, func(s *sim) {
			s.pool(3, of(1))
			a, b := s.sub(0, to(1, 1)), s.sub(0, to(1, 1))
			e := sy.MakeEvent()
			s.and(a, 0, e.Wait)
			s.submit(b, 1)
			s.submit(a, 2)
			e.Set()
			s.end()
		})
		add("Resize down and up with a lane", 2, nil, func(s *sim) {
			s.pool(3, of(2))
			a := s.sub(0, to(2, 4))
			s.Go("other", func() { s.resize(0, 1); s.resize(0, 2) })
			s.submit(a, 0)
			s.submit(0, 1)
			s.submit(a, 2)
			s.end()
		})
		add("Resize of a lane down and up", 2, nil, func(s *sim) {
			s.pool(3, of(2))
			a := s.sub(0, to(2, 4))
			s.Go("other", func() { s.resize(a, 1); s.resize(a, 2) })
			s.submit(a, 0)
			s.submit(0, 1)
			s.submit(a, 2)
			s.end()
		})
		add("after Resize of a lane down no more than that begin", 2, nil, func(s *sim) {
			s.pool(3, of(2))
			a := s.sub(0, to(2, 4))
			e := sy.MakeLatch()
			s.and(a, 0, e.Wait)
			s.resize(a, 1)
			s.submit(a, 1)
			s.submit(0, 2)
			sy.Yield()
			if n := numOf(sy.Peek(&s.lanes[a].head)); n > 1 {
				s.Failf("%d in a lane of 1", n)
			}
			s.Go("opener", e.Open)
			s.end()
		})
		add("Pause and Resume of a lane, another has tasks", 2, nil, func(s *sim) {
			s.pool(3, of(1))
			a := s.sub(0, to(1, 4))
			s.submit(a, 0)
			s.Go("other", func() { s.submit(0, 1); s.submit(a, 2) })
			s.lanes[a].Pause()
			s.lanes[a].Resume()
			s.end()
		})
		add("a paused lane takes nothing, others go on", 2, nil, func(s *sim) {
			s.pool(3, of(1))
			a := s.sub(0, to(1, 4))
			s.lanes[a].Pause()
			s.submit(a, 0)
			e := sy.MakeEvent()
			s.and(0, 1, e.Set)
			s.Go("other", func() { s.submit(a, 2) })
			e.Wait()
			sy.Access(&s.runs[0], sy.Read)
			if s.ran[0] != 0 {
				s.Failf("a paused lane's task ran")
			}
			s.lanes[a].Resume()
			s.end()
		})
		add("Pause of the root withholds a lane's tasks", 2, nil, func(s *sim) {
			s.pool(2, of(1))
			a := s.sub(0, to(1, 4))
			s.root.Pause()
			s.Go("other", func() { s.submit(a, 1) })
			s.submit(a, 0)
			sy.Yield()
			sy.Access(&s.alone, sy.Read)
			if s.ran[0]+s.ran[1] > 0 {
				s.Failf("ran in a pause of the root")
			}
			s.root.Resume()
			s.end()
		})
		add("Pause of the root while a worker is alone in a lane", 2, nil, func(s *sim) {
			s.pool(2, of(1))
			a := s.sub(0, to(1, 4))
			e, began := sy.MakeEvent(), sy.MakeEvent()
			s.and(a, 0, func() { began.Set(); e.Wait() })
			s.submit(a, 1)
			began.Wait()
			s.root.Pause()
			e.Set()
			sy.Yield()
			sy.Access(&s.alone, sy.Read)
			if s.ran[1] > 0 {
				s.Failf("ran in a pause of the root")
			}
			s.root.Resume()
			s.end()
		})
		add("two places at once, one waits, one comes", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			a := s.sub(0, to(2, 0))
			s.Go("first", func() { s.submit(a, 2) })
			s.Go("second", func() { s.submit(a, 3) })
			s.submit(a, 0)
			s.submit(a, 1)
			s.end()
		})
		add("workers that are too many leave a lane that was made smaller", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			a := s.sub(0, to(2, 4))
			e := sy.MakeLatch()
			b0, b1 := sy.MakeEvent(), sy.MakeEvent()
			s.and(a, 0, func() { b0.Set(); e.Wait() })
			s.and(a, 1, func() { b1.Set(); e.Wait() })
			b0.Wait()
			b1.Wait()
			n := 0
			alone := func() {
				sy.Access(&s.alone, sy.Write)
				if n++; n > 1 {
					s.Failf("two run in a lane of one")
				}
				sy.Access(&s.alone, sy.Write)
				n--
			}
			s.and(a, 2, alone)
			s.and(a, 3, alone)
			s.resize(a, 1)
			e.Open()
			s.end()
		})
		add("the end of a segment, under the lock", 2, nil, func(s *sim) {
			s.pool(5, conf{Max: 2, Capacity: 4, First: 3, Config: Config{Min: 2, Spin: spin}})
			a := s.sub(0, LaneConfig{Max: 2, Capacity: 4, First: 2})
			s.submit(a, 0)
			s.submit(a, 1)
			s.Go("other", func() { s.submit(0, 2); s.submit(0, 3) })
			s.submit(a, 4)
			s.end()
		})
		add("cells are dropped at the end of a segment", 2, nil, func(s *sim) {
			s.pool(4, of(2))
			a := s.sub(0, LaneConfig{Max: 2, Capacity: 4, First: 2})
			s.submit(a, 0)
			s.Go("other", func() { s.submit(a, 2) })
			s.submit(0, 1)
			s.submit(a, 3)
			s.end()
		})
		add("alone is not ended by another", 2, nil, func(s *sim) {
			// A worker is alone in a lane with a backlog when another lane gets a task. That has its
			// turn when the first lane has had a turn's time, not when it is empty.
			s.Timed()
			s.pool(5, of(1))
			a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			s.and(a, 0, func() {
				s.and(a, 1, func() { s.Advance(time.Duration(2 * turnTime)) })
				s.submit(a, 3)
				s.submit(a, 4)
				s.submit(b, 2)
			})
			s.end()
			if n := s.at(2); n == 4 {
				s.Failf("order %v", s.order)
			}
		})
		add("priority, among others of the lower", 2, nil, func(s *sim) {
			s.pool(6, of(1))
			lo, lo2 := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
			hi := s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: 1})
			s.and(0, 5, func() {
				s.submit(lo, 0)
				s.and(lo, 1, func() { s.submit(hi, 2) })
				s.submit(lo, 3)
				s.submit(lo2, 4)
			})
			s.end()
			s.follows(2, 1)
		})
		add("priority", 2, nil, func(s *sim) {
			s.pool(4, of(1))
			lo, hi := s.sub(0, to(1, 4)), s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: 1})
			s.and(lo, 0, func() { s.submit(hi, 2); s.submit(lo, 1) })
			s.submit(lo, 3)
			s.end()
			s.follows(2, 0)
		})
	}
	return ms
}

// at is how many tasks began before task i.
func (s *sim) at(i int) int {
	for n, t := range s.order {
		if t == i {
			return n
		}
	}
	return -1
}

// follows demands that task i began right after task j.
func (s *sim) follows(i, j int) {
	for n, t := range s.order {
		if t == i && (n == 0 || s.order[n-1] != j) {
			s.Failf("order %v: %d does not follow %d", s.order, i, j)
		}
	}
}
