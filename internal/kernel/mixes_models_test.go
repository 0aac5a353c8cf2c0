//go:build poolsim

package kernel

import (
	"time"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// looks takes snapshots of lanes: no counter goes back or is less than 0, and the counts add up.
func (s *sim) looks(ks ...int) {
	last := map[int]Snapshot{}
	for range 3 {
		for _, k := range ks {
			n, was := s.lanes[k].Snapshot(), last[k]
			done := func(n Snapshot) uint64 { return n.Submitted - n.InFlight - n.Dropped - n.Canceled }
			switch {
			case done(n) < done(was) || n.Submitted < was.Submitted || n.Moves < was.Moves || n.Peak < was.Peak:
				s.Failf("lane %d: a counter went back: %+v, then %+v", k, was, n)
			case n.Dropped < was.Dropped || n.Canceled < was.Canceled || n.Failed < was.Failed || n.Spawned < was.Spawned || n.Rejected < was.Rejected:
				s.Failf("lane %d: a counter went back: %+v, then %+v", k, was, n)
			case done(n) > n.Submitted || int(n.InFlight) < 0 || n.Waiting > n.InFlight || n.Busy < 0 || n.Reserved < 0 || n.Blocked < 0:
				s.Failf("lane %d: less than nothing: %+v", k, n)
			case n.WorkersIn < 0 || n.WorkersIn > s.most[k] || n.Live > s.most[0] || n.Ended && n.InFlight != 0:
				s.Failf("lane %d: %+v", k, n)
			}
			last[k] = n
		}
	}
}

// hurried makes the family, whose workers leave at once when they are idle.
func (s *sim) hurried(n int, c conf) {
	s.pool(n, c)
	s.root.crew.Idle = 0
}

// useReserved uses a place of r for task i of lane k, if there is one and the lane is open.
func (s *sim) useReserved(k int, r *Reservation, i int) {
	it := s.loose(k, i, nil)
	s.ok[i] = true
	s.ok[i], _ = r.Submit(it)
}

// mixesModels mix what crossModels do not.
func mixesModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "mixes/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	to := func(max, capacity int) LaneConfig { return LaneConfig{Max: max, Capacity: capacity} }

	// Workers that leave at once.
	add("idle time 0: Pause of the root and of a lane, a submitter blocked", 2, nil, func(s *sim) {
		s.hurried(5, of(2, 1))
		a := s.sub(0, to(1, 0))
		s.submit(a, 0)
		s.Go("pauser", func() { s.root.Pause(); s.root.Resume() })
		s.Go("other", func() { s.lanes[a].Pause(); s.submit(0, 1); s.lanes[a].Resume(); s.submit(0, 3) })
		s.submit(a, 2)
		s.submit(a, 4)
		s.end()
	})
	add("idle time 0: Resize of the minimum and of a lane, and Reserve", 2, []string{"grant"}, func(s *sim) {
		s.hurried(4, of(2, 4))
		a := s.sub(0, to(1, 1))
		s.most[a] = 2
		s.Go("sizer", func() { s.root.Resize(1, 2); s.resize(a, 2); s.root.Resize(0, 1); s.resize(a, 1); s.root.Resize(0, 2) })
		s.submit(a, 0)
		r := s.reserve(a, 1)
		s.submit(0, 1)
		s.reserved(a, r, 2, nil)
		r.Release()
		s.submit(a, 3)
		s.wait(a)
		s.hasRun("Wait returned", 0, 2, 3)
		s.end()
	})
	add("idle time 0: strands of two lanes, longer than a turn, and snapshots", 1, []string{"activate again"}, func(s *sim) {
		s.hurried(8, of(2, 8))
		a := s.sub(0, to(1, 8))
		st, su := s.strand(a), s.strand(0)
		s.Go("other", func() { su.submit(5); su.submit(6); su.submit(7) })
		s.Go("looks", func() { s.looks(0, a) })
		for i := range 5 {
			st.submit(i)
		}
		s.wait(a)
		s.hasRun("Wait returned", 0, 1, 2, 3, 4)
		s.end()
	})
	add("idle time 0: a guest waits for a place, and the root is made smaller", 2, []string{"nudged"}, func(s *sim) {
		s.hurried(4, of(2, 4))
		a := s.sub(0, to(1, 4))
		b := s.record(a, 1, nil)
		s.submit(a, 2)
		s.Go("sizer", func() { s.resize(0, 1); s.resize(0, 2) })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(a, 3)
		s.end()
	})
	add("idle time 0: a worker runs one task, a minimum, lanes, and Close of one", 2, nil, func(s *sim) {
		s.drops = true
		s.hurried(0, conf{Max: 2, Capacity: 4, Config: Config{TasksPerWorker: 1, Min: 1}})
		a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
		s.left.Store(100)
		s.block(a, 0, nil)
		s.block(a, 1, nil)
		s.Go("other", func() { s.block(b, 2, nil); s.root.Resize(0, 1) })
		s.close(a)
		s.block(b, 3, nil)
		s.wait(b)
		s.hasRun("Wait returned", 3)
		s.shutdown(0)
	})
	add("idle time 0: a delayed task, a place, and Shutdown", 2, nil, func(s *sim) {
		s.Timed()
		s.drops = true
		s.hurried(0, of(1, 1))
		a := s.sub(0, to(1, 0))
		s.left.Store(100)
		s.ok[0] = true
		s.lanes[a].SubmitAfter(time.Second, s.loose(a, 0, nil))
		s.Go("time", func() { s.Advance(time.Second) })
		s.Go("reserver", func() { s.tryReserved(a, 1) })
		s.block(0, 2, nil)
		s.shutdown(0)
	})

	// A maximum is lowered.
	add("Resize of a lane to fewer than are in it and below it", 1, nil, func(s *sim) { s.inAndBelow(false) })
	add("Resize of a lane to fewer while a guest in it runs a task inline, and snapshots", 2, []string{"claim"}, func(s *sim) {
		s.pool(5, of(2, 4))
		a := s.sub(0, to(2, 4))
		c := s.record(a, 2, nil)
		b := s.record(a, 1, func() error { s.giveRecord(c, Block); s.await(c, s.lanes[a]); return nil })
		s.Go("sizer", func() { s.resize(a, 1); s.resize(0, 1); s.resize(a, 2) })
		s.Go("looks", func() { s.looks(a, 0) })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(a, 3)
		s.submit(a, 4)
		s.end()
	})
	add("Resize of the middle to fewer while a task of each level waits for one below", 2, []string{"claim"}, func(s *sim) {
		s.pool(4, of(3, 4))
		m := s.sub(0, to(2, 4))
		a := s.sub(m, to(2, 4))
		b, c := s.record(a, 1, nil), s.record(a, 3, nil)
		s.Go("sizer", func() { s.resize(m, 1); s.resize(a, 1) })
		s.and(m, 0, func() { s.giveRecord(b, Block); s.await(b, s.lanes[m]) })
		s.and(0, 2, func() { s.giveRecord(c, Block); s.await(c, s.root) })
		s.end()
	})

	// Lanes are closed while others help.
	for _, stop := range []bool{false, true} {
		name := map[bool]string{false: "Shutdown", true: "Close"}[stop]
		add(name+" of a lane of one in which two tasks of its parent help, and a submitter blocked", 2, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(2, 4))
			s.left.Store(100)
			a := s.sub(0, to(1, 1))
			b, c := s.record(a, 1, nil), s.record(a, 3, nil)
			help := func(b *body) func() {
				return func() {
					if s.giveRecord(b, Block) == nil {
						s.await(b, s.root)
					}
				}
			}
			s.give(0, 0, s.loose(0, 0, help(b)), Block, nil)
			s.give(0, 2, s.loose(0, 2, help(c)), Block, nil)
			s.Go("other", func() { s.block(a, 4, nil) })
			s.Go("looks", func() { s.looks(a, 0) })
			if stop {
				s.close(a)
			} else {
				s.shutdown(a)
			}
			s.shutdown(0)
		})
	}
	add("a task closes its own lane, then its pool, and waits for one of another lane", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4))
		s.left.Store(100)
		a, o := s.sub(0, to(1, 1)), s.sub(0, to(1, 4))
		b := s.record(o, 1, nil)
		s.Go("other", func() { s.block(a, 2, nil); s.block(a, 3, nil) })
		s.give(a, 0, s.loose(a, 0, func() {
			s.lanes[a].End(true, ErrClosed)
			ok := s.giveRecord(b, Block) == nil
			s.root.End(true, ErrClosed)
			if ok {
				s.await(b, s.root)
			}
			if n := s.lanes[a].Snapshot(); n.Ended || n.InFlight != 1 || n.Waiting != 0 {
				s.Failf("a lane in its last task: %+v", n)
			}
		}), Block, nil)
		s.root.done.Wait()
		s.hasRun("it has ended", 0)
	})
	add("a task drains its own lane, and then waits for one of that lane that it submitted before", 2, nil, func(s *sim) {
		s.pool(0, of(1, 4))
		s.left.Store(100)
		a := s.sub(0, to(1, 2))
		b := s.record(a, 1, nil)
		s.and(a, 0, func() {
			s.giveRecord(b, Block)
			s.lanes[a].End(false, nil)
			s.await(b, s.lanes[a])
		})
		s.Go("other", func() { s.block(a, 2, nil) })
		s.Go("waiter", func() { s.wait(a); s.hasRun("Wait returned", 0, 1) })
		s.lanes[a].done.Wait()
		s.hasRun("it has ended", 0, 1)
		s.shutdown(0)
	})

	// Places of several lanes.
	add("places of a lane and of its parent at once, submitters blocked in both", 2, []string{"grant"}, func(s *sim) {
		s.pool(5, of(2, 0))
		a := s.sub(0, to(1, 0))
		r := s.reserve(0, 2)
		t := s.reserve(a, 1)
		s.Go("other", func() { s.submit(a, 0); s.submit(a, 3) })
		s.Go("third", func() { s.submit(0, 1) })
		s.reserved(0, r, 2, nil)
		s.reserved(a, t, 4, nil)
		r.Release()
		t.Release()
		s.wait(a)
		s.hasRun("Wait returned", 4)
		s.end()
	})
	add("places of three levels, Release beside Close of the middle, and snapshots", 2, []string{"grant"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 1))
		s.left.Store(100)
		m := s.sub(0, to(2, 0))
		a := s.sub(m, to(1, 0))
		r, t, u := s.reserve(0, 1), s.reserve(m, 2), s.reserve(a, 1)
		s.Go("releaser", func() { s.useReserved(a, u, 0); s.useReserved(m, t, 1); t.Release(); u.Release() })
		s.Go("other", func() { s.block(m, 2, nil); s.block(0, 3, nil) })
		s.Go("looks", func() { s.looks(0, m, a) })
		s.close(m)
		s.useReserved(0, r, 4)
		r.Release()
		s.shutdown(0)
	})

	// Submitters are blocked.
	for _, how := range []string{"Resume", "Close of the lane", "Shutdown of the parent"} {
		add("a submitter is blocked in a full lane whose parent is paused, its context ends, and "+how, 2, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(2, 4))
			s.left.Store(100)
			m := s.sub(0, to(2, 4))
			a := s.sub(m, to(1, 0))
			s.lanes[m].Pause()
			s.block(a, 0, nil)
			ctx := explore.NewContext()
			s.Go("blocked", func() { s.give(a, 1, s.loose(a, 1, nil), Block, ctx) })
			s.Go("other", func() { s.block(a, 2, nil) })
			s.Go("cancel", ctx.Cancel)
			switch how {
			case "Resume":
				s.lanes[m].Resume()
			case "Close of the lane":
				s.close(a)
			default:
				s.shutdown(m)
				if s.ok[0] {
					s.hasRun("Shutdown returned", 0)
				}
			}
			s.shutdown(0)
		})
	}
	add("a full lane: TrySubmit, a context that ends and a worker come at once", 3, nil, func(s *sim) {
		s.pool(0, of(1, 0))
		s.left.Store(100)
		a := s.sub(0, to(1, 0))
		s.submit(a, 0)
		ctx := explore.NewContext()
		s.Go("blocked", func() { s.give(a, 1, s.loose(a, 1, nil), Block, ctx) })
		s.Go("cancel", ctx.Cancel)
		s.try(a, 2, nil)
		s.wait(a)
		s.shutdown(0)
	})
	add("CallerRuns in a full lane below a paused one, a strand, and Wait of both", 2, []string{"run here"}, func(s *sim) {
		s.pool(4, of(2, 4))
		m := s.sub(0, to(2, 4))
		a := s.sub(m, to(1, 0))
		s.lanes[m].Pause()
		st := s.strand(a)
		s.submit(a, 0)
		s.Go("inline", func() { st.give(1, CallerRuns, nil); st.give(2, CallerRuns, nil) })
		s.Go("waiter", func() { s.wait(a); s.hasRun("Wait returned", 0) })
		s.submit(m, 3)
		s.lanes[m].Resume()
		s.wait(m)
		s.hasRun("Wait returned", 3)
		s.end()
	})

	// Quiescence.
	add("Wait of a lane whose strand waits for a task of another lane, which joins the strand", 2, nil, func(s *sim) {
		s.pool(5, of(2, 4))
		a, b := s.sub(0, to(1, 4)), s.sub(0, to(1, 4))
		st := s.strand(a)
		e := sy.MakeEvent()
		st.and(0, e.Wait)
		st.submit(1)
		s.Go("other", func() { s.and(b, 2, func() { st.submit(3); e.Set() }) })
		s.submit(b, 4)
		s.wait(a)
		s.hasRun("Wait returned", 0, 1, 3)
		s.end()
	})
	add("Wait of nested lanes whose tasks submit to each other", 2, nil, func(s *sim) {
		s.pool(5, of(2, 4))
		m := s.sub(0, to(2, 4))
		a, b := s.sub(m, to(1, 4)), s.sub(m, to(1, 4))
		s.and(a, 0, func() { s.and(b, 1, func() { s.and(a, 2, func() { s.submit(m, 3) }) }) })
		s.Go("waiter", func() { s.wait(m) })
		s.Go("second", func() { s.wait(b) })
		s.submit(b, 4)
		s.wait(a)
		s.hasRun("Wait returned", 0)
		s.done.Wait()
		s.wait(m)
		s.hasRun("Wait returned", 0, 1, 2, 3)
		s.end()
	})
	return ms
}

// inAndBelow lowers the maximum of a lane to fewer than are in it and below it. If displace is set a task
// that waits there is displaced then.
func (s *sim) inAndBelow(displace bool) {
	// A worker has a turn in m, another one is below m. Then m may have one. When the first worker's
	// task has ended it must not begin another one.
	s.Timed()
	s.Procs = 0 // nobody yields
	s.drops = true
	s.pool(0, conf{Max: 2, Capacity: 4})
	s.left.Store(100)
	m, o := s.sub(0, LaneConfig{Max: 2, Capacity: 2}), s.sub(0, LaneConfig{Max: 1, Capacity: 4})
	began, e, f, g := sy.MakeEvent(), sy.MakeEvent(), sy.MakeLatch(), sy.MakeEvent()
	s.root.Pause()
	s.give(0, 0, s.loose(0, 0, g.Wait), Block, nil) // so that one worker serves m
	s.give(0, 1, s.loose(0, 1, nil), Block, nil)    // and so that m is not alone meanwhile
	s.give(m, 2, s.loose(m, 2, func() { began.Set(); e.Wait() }), Block, nil)
	s.give(m, 3, s.loose(m, 3, nil), Block, nil)
	s.give(m, 4, s.loose(m, 4, func() {
		sy.Access(&s.alone, sy.Read)
		if s.in[m] > 1 {
			s.Failf("began beyond a maximum that was lowered before")
		}
	}), Block, nil)
	s.root.Resume()
	began.Wait()
	a := s.sub(m, LaneConfig{Max: 1, Capacity: 4, Priority: 1})
	in := sy.MakeEvent()
	s.give(a, 5, s.loose(a, 5, func() { in.Set(); f.Wait() }), Block, nil)
	g.Set()
	in.Wait()
	s.give(o, 6, s.loose(o, 6, nil), Block, nil)
	s.resize(m, 1)
	if displace {
		s.give(m, 7, s.loose(m, 7, nil), DropOldest, nil) // moves the ticket of head
	}
	e.Set()
	sy.Yield()
	f.Open()
	s.shutdown(0)
}
