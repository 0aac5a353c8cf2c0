//go:build poolsim

package kernel

import (
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// snapshotModels take snapshots beside everything else.
func snapshotModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "snapshots/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	to := func(max, capacity int) LaneConfig { return LaneConfig{Max: max, Capacity: capacity} }
	add("snapshots beside withdraw, DropOldest and a claim", 2, []string{"withdraw", "displace", "claim"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 2))
		s.left.Store(100)
		b, c := s.record(0, 1, nil), s.record(0, 2, nil)
		s.give(0, 0, s.loose(0, 0, func() {
			if s.giveRecord(b, Reject) == nil && s.giveRecord(c, Reject) == nil {
				s.Go("withdrawer", func() { b.Withdraw(errTask) })
				s.await(c, s.root)
			}
		}), Block, nil)
		s.Go("looks", func() { s.looks(0) })
		s.give(0, 3, s.loose(0, 3, nil), DropOldest, nil)
		s.give(0, 4, s.loose(0, 4, nil), DropOldest, nil)
		s.shutdown(0)
	})
	add("snapshots beside tombstones that are compacted, and a strand that gets a new ticket, and Wait", 2, []string{"compact"}, func(s *sim) {
		s.pool(7, of(1, 4))
		a := s.sub(0, to(1, 0))
		st := s.strand(a)
		s.lanes[a].Pause()
		e := sy.MakeEvent()
		s.Go("looks", func() { e.Wait(); s.looks(0, a) })
		s.and(0, 0, func() {
			st.submit(5)
			st.submit(6)
			e.Set()
			for i := 1; i < 5; i++ {
				b := s.record(a, i, nil)
				s.giveRecord(b, Block)
				s.await(b, s.root)
			}
			s.lanes[a].Resume()
		})
		s.done.Wait()
		s.wait(a)
		s.hasRun("Wait returned", 1, 2, 3, 4, 5, 6)
		s.close(0)
	})
	add("snapshots of three levels beside guests", 2, []string{"claim"}, func(s *sim) {
		s.pool(4, of(2, 4))
		m := s.sub(0, to(1, 4))
		a := s.sub(m, to(1, 4))
		c := s.record(a, 2, nil)
		b := s.record(m, 1, func() error { s.giveRecord(c, Block); s.await(c, s.lanes[m]); return nil })
		s.Go("looks", func() { s.looks(m, 0, a) })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(a, 3)
		s.end()
	})
	add("snapshots of three levels beside guests, one of which must not begin", 2, []string{"claim"}, func(s *sim) {
		s.drops = true
		s.pool(4, of(2, 4))
		m := s.sub(0, to(1, 4))
		a := s.sub(m, to(1, 4))
		c := s.record(a, 2, nil)
		c.refused = errTask
		b := s.record(m, 1, func() error { s.giveRecord(c, Block); s.await(c, s.lanes[m]); return nil })
		s.Go("looks", func() { s.looks(m, 0, a) })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(a, 3)
		s.end()
	})
	add("snapshots beside a strand without the lock, Reserve and Close", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 3))
		s.left.Store(100)
		st := s.strand(0)
		st.fast = true
		s.block(0, 0, nil)
		s.Go("looks", func() { s.looks(0) })
		s.Go("reserver", func() { s.tryReserved(0, 4) })
		s.Go("other", func() { st.give(1, Block, nil); st.give(2, CallerRuns, nil); st.give(3, Block, nil) })
		sy.Yield()
		s.close(0)
	})
	add("snapshots of the lane above beside a task that must not begin, and one that is withdrawn", 2, []string{"withdraw"}, func(s *sim) {
		s.drops = true
		s.pool(4, of(1, 4))
		a := s.sub(0, to(1, 4))
		b, c := s.record(a, 0, nil), s.record(a, 1, nil)
		b.refused = errTask
		s.giveRecord(b, Block)
		s.Go("looks", func() { s.looks(0, a) })
		s.giveRecord(c, Block)
		c.Withdraw(errTask)
		s.submit(a, 2)
		s.submit(0, 3)
		s.end()
	})
	add("the figures of a snapshot are of one moment", 2, nil, func(s *sim) {
		s.pool(2, of(2, 4))
		s.Go("looks", func() {
			for range 2 {
				if n := s.root.Snapshot(); n.Busy != n.WorkersIn { // nothing runs inline
					s.Failf("%d are busy, and %d are workers: %+v", n.Busy, n.WorkersIn, n)
				}
			}
		})
		s.submit(0, 0)
		s.submit(0, 1)
		s.end()
	})
	add("a worker passes a tombstone, then begins a task: a watchdog sees that", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(2, conf{Max: 1, Capacity: 4})
		b := s.record(0, 0, nil)
		e := sy.MakeLatch()
		s.root.Pause()
		s.giveRecord(b, Block)
		s.left.Add(1)
		s.and(0, 1, e.Wait)
		s.submit(0, 2)
		b.Withdraw(errTask)
		s.Go("watchdog", func() {
			var last Snapshot
			var at uint64
			for range 2 {
				n, now := s.root.Snapshot(), ticketOf(sy.Peek(&s.root.head)) // no step between the two
				if n.Busy == 1 && n.Moves == last.Moves && now != at {
					s.Failf("a task has begun, and moves is the same: %+v, then %+v", last, n)
				}
				last, at = n, now
			}
			e.Open()
		})
		s.root.Resume()
		s.end()
	})
	return ms
}
