//go:build poolsim

package kernel

import (
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// A helper waits for a task that it may run itself.
type helper struct {
	mu  sy.Mutex
	set bool
	e   sy.Event
}

func (h *helper) Nudge() {
	h.mu.Lock()
	if !h.set {
		h.set = true
		h.e.Set()
	}
	h.mu.Unlock()
}

// await waits for b, or runs it, on a goroutine that is in lane stay.
func (s *sim) await(b *body, stay *Lane) {
	h := &helper{e: sy.MakeEvent()}
	b.waiter = stay
	b.also = h.Nudge
	for {
		switch b.Claim(stay, h) {
		case Ran:
			s.Reach("ran")
		case NotClaimed:
			b.resolved.Wait()
		case NoPlace:
			s.Reach("nudged")
			h.e.Wait()
			h.mu.Lock()
			h.set = false
			h.mu.Unlock()
			if !b.IsOver() {
				continue
			}
		}
		b.Lane.ForgetNudger(h)
		s.root.crew.read(func() {
			for a := b.Lane; a != nil; a = a.up {
				if _, ok := a.nudgers[h]; ok {
					s.Failf("a lane would nudge a helper that does not wait any more")
				}
			}
		})
		b.resolved.Wait()
		return
	}
}

// recordModels are about tasks that somebody waits for.
func recordModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "records/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	to := func(max int) LaneConfig { return LaneConfig{Max: max, Capacity: 4} }
	submit := func(s *sim, b *body) {
		if err := s.giveRecord(b, Block); err != nil {
			s.Failf("Submit: %v", err)
		}
	}
	add("a task is counted before it is resolved", 3, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		b := s.record(0, 0, nil)
		b.also = func() {
			if n := s.root.Snapshot(); n.InFlight > 1 {
				s.Failf("resolved and %+v", n)
			}
		}
		submit(s, b)
		c := s.record(0, 1, func() error { return errTask })
		c.also = func() {
			if n := s.root.Snapshot(); n.InFlight > 0 || n.Failed != 1 || n.Submitted != 2 {
				s.Failf("resolved and %+v", n)
			}
		}
		s.failed = 1
		submit(s, c)
		s.end()
	})
	add("a task waits for one that it submitted, one worker", 3, []string{"claim"}, func(s *sim) {
		s.pool(2, of(1, 4))
		b := s.record(0, 1, nil)
		s.and(0, 0, func() {
			submit(s, b)
			s.await(b, s.root)
			if n := s.root.Snapshot(); n.InFlight != 1 || n.Waiting != 0 {
				s.Failf("one is in flight: %+v", n.Count)
			}
		})
		s.end()
	})
	add("a task waits for one that it submitted, two workers", 3, []string{"claim", "tombstone"}, func(s *sim) {
		s.pool(3, of(2, 4))
		b := s.record(0, 1, nil)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.submit(0, 2)
		s.end()
	})
	add("a worker passes two tombstones at once, beside another one", 2, []string{"claim", "tombstone", "another tombstone"}, func(s *sim) {
		s.pool(4, of(3, 4))
		b, c := s.record(0, 1, nil), s.record(0, 2, nil)
		s.and(0, 0, func() {
			submit(s, b)
			submit(s, c)
			s.submit(0, 3)
			s.await(b, s.root)
			s.await(c, s.root)
		})
		s.end()
	})
	twoTombstones := func(s *sim, k int) {
		b, c := s.record(k, 1, nil), s.record(k, 2, nil)
		s.give(k, 0, s.loose(k, 0, func() {
			if s.giveRecord(b, Block) != nil || s.giveRecord(c, Block) != nil {
				return
			}
			s.try(k, 3, nil)
			s.await(b, s.lanes[k])
			s.await(c, s.lanes[k])
		}), Block, nil)
	}
	add("a worker passes two tombstones at once, and Close", 2, []string{"another tombstone"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4))
		s.left.Store(100)
		twoTombstones(s, 0)
		s.close(0)
	})
	add("a worker passes two tombstones of a lane at once, beside another lane", 2, []string{"another tombstone"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(3, 4))
		s.left.Store(100)
		a := s.sub(0, LaneConfig{Max: 2, Capacity: 4})
		twoTombstones(s, a)
		s.give(0, 4, s.loose(0, 4, nil), Block, nil)
		s.wait(a)
		s.shutdown(0)
	})
	add("a worker passes two tombstones at once, beside DropOldest", 2, []string{"another tombstone"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 2))
		s.left.Store(100)
		twoTombstones(s, 0)
		s.give(0, 4, s.loose(0, 4, nil), DropOldest, nil)
		s.shutdown(0)
	})
	add("claim, and Wait", 2, []string{"claim"}, func(s *sim) {
		s.pool(2, of(2, 4))
		b := s.record(0, 1, nil)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	add("claim, and Close", 3, []string{"claim"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4))
		s.left.Store(100)
		b, c := s.record(0, 1, nil), s.record(0, 2, nil)
		s.give(0, 0, s.loose(0, 0, func() {
			if s.giveRecord(b, Block) == nil && s.giveRecord(c, Block) == nil {
				s.await(b, s.root)
			}
		}), Block, nil)
		s.close(0)
	})
	add("claim, and Shutdown", 3, nil, func(s *sim) {
		s.pool(0, of(1, 4))
		s.left.Store(100)
		b := s.record(0, 1, nil)
		s.give(0, 0, s.loose(0, 0, func() {
			if s.giveRecord(b, Block) == nil {
				s.await(b, s.root)
			}
		}), Block, nil)
		s.shutdown(0)
	})
	add("claim beside DropOldest", 3, []string{"claim", "displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.left.Store(100)
		b := s.record(0, 1, nil)
		s.give(0, 0, s.loose(0, 0, func() {
			if s.giveRecord(b, Reject) == nil {
				s.await(b, s.root)
			}
		}), Block, nil)
		s.give(0, 2, s.loose(0, 2, nil), DropOldest, nil)
		s.give(0, 3, s.loose(0, 3, nil), DropOldest, nil)
		s.shutdown(0)
	})
	add("the bound holds beside a tombstone", 2, []string{"claim"}, func(s *sim) {
		s.pool(4, of(1, 1))
		b := s.record(0, 1, nil)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.Go("other", func() { s.submit(0, 2) })
		s.submit(0, 3)
		s.end()
	})
	add("a tombstone takes no capacity", 2, nil, func(s *sim) {
		s.pool(3, of(1, 1))
		b := s.record(0, 1, nil)
		s.and(0, 0, func() {
			submit(s, b)
			s.await(b, s.root)
			if !s.try(0, 2, nil) {
				s.Failf("the place of a task that was claimed is not free")
			}
		})
		s.end()
	})
	add("in a pause a tombstone does not delay Wait", 2, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		b := s.record(0, 1, nil)
		e, began := sy.MakeEvent(), sy.MakeEvent()
		s.and(0, 0, func() { submit(s, b); began.Set(); e.Wait(); s.await(b, s.root) })
		began.Wait()
		s.root.Pause()
		e.Set()
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.root.Resume()
		s.end()
	})
	add("tombstones beyond the capacity", 2, []string{"compact"}, func(s *sim) {
		s.pool(6, of(2, 4))
		a := s.sub(0, LaneConfig{Max: 1})
		e := sy.MakeLatch()
		s.and(0, 0, func() {
			for i := 1; i < 5; i++ {
				b := s.record(a, i, nil)
				submit(s, b)
				s.await(b, s.root)
				s.root.crew.enter()
				if n := s.lanes[a].tombs; n > 2 {
					s.Failf("%d tombstones in a lane of one", n)
				}
				s.root.crew.leave()
			}
			e.Open()
		})
		s.and(0, 5, e.Wait) // so that few workers come by
		s.wait(a)
		s.end()
	})
	add("places of withdrawn tasks come back, however many", 3, []string{"compact"}, func(s *sim) {
		s.drops = true
		s.pool(6, of(1, 1))
		e := s.held(0, 0)
		for i := 1; i < 6; i++ {
			s.withdrawn(i)
		}
		e.Set()
		s.end()
	})
	add("a submitter waits for the place of a task that is withdrawn, after many", 2, []string{"compact", "wait for capacity"}, func(s *sim) {
		s.drops = true
		s.pool(5, of(1, 1))
		e := s.held(0, 0)
		for i := 1; i < 3; i++ {
			s.withdrawn(i)
		}
		b := s.record(0, 3, nil)
		s.giveRecord(b, Block)
		came := sy.MakeLatch()
		s.Go("submitter", func() { s.submit(0, 4); came.Open() })
		b.Withdraw(errTask)
		came.Wait() // while the only worker is inside its task
		e.Set()
		s.end()
	})
	add("tombstones are freed as the worker finishes, and Wait", 3, []string{"compact"}, func(s *sim) {
		s.drops = true
		s.pool(6, of(1, 2))
		e := s.held(0, 0)
		for i := 2; i < 5; i++ {
			s.withdrawn(i)
		}
		s.submit(0, 1)
		b := s.record(0, 5, nil)
		s.giveRecord(b, Reject)
		s.Go("waiter", func() { s.wait(0); s.hasRun("Wait returned", 0, 1) })
		e.Set()
		b.Withdraw(errTask)
		s.end()
	})
	add("withdraw beside a worker", 3, []string{"withdraw"}, func(s *sim) {
		s.drops = true
		s.pool(2, of(1, 4))
		b := s.record(0, 0, nil)
		submit(s, b)
		s.Go("other", func() { b.Withdraw(errTask) })
		s.submit(0, 1)
		s.end()
	})
	add("withdraw, and Close", 3, []string{"withdraw"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4))
		s.left.Store(100)
		b := s.record(0, 0, nil)
		s.giveRecord(b, Block)
		s.Go("other", func() { b.Withdraw(errTask) })
		s.close(0)
	})
	add("withdraw, and Shutdown", 3, []string{"withdraw"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4))
		s.left.Store(100)
		b := s.record(0, 0, nil)
		s.giveRecord(b, Block)
		s.Go("other", func() { b.Withdraw(errTask) })
		s.shutdown(0)
	})
	add("withdraw, DropOldest", 3, []string{"withdraw", "displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.left.Store(100)
		b := s.record(0, 1, nil)
		e, began := sy.MakeLatch(), sy.MakeEvent()
		s.and(0, 0, func() { began.Set(); e.Wait() })
		began.Wait()
		s.giveRecord(b, Block)
		s.Go("other", func() { b.Withdraw(errTask) })
		s.give(0, 2, s.loose(0, 2, nil), DropOldest, nil)
		s.Go("opener", e.Open)
		s.shutdown(0)
		s.hasRun("Shutdown returned", 0, 2)
	})
	add("withdraw, claim and a worker", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(2, of(2, 4))
		b := s.record(0, 1, nil)
		s.and(0, 0, func() {
			submit(s, b)
			s.Go("other", func() { b.Withdraw(errTask) })
			s.await(b, s.root)
		})
		s.end()
	})
	add("withdraw, and a submitter waits for capacity", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(3, of(1, 0))
		b := s.record(0, 1, nil)
		s.submit(0, 0)
		submit(s, b)
		s.Go("other", func() { b.Withdraw(errTask) })
		s.submit(0, 2)
		s.end()
	})
	add("a task waits for one in a lane below", 2, []string{"ran"}, func(s *sim) {
		s.pool(2, of(1, 4))
		a := s.sub(0, to(1))
		b := s.record(a, 1, nil)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.end()
	})
	add("a task waits for one in a lane beside", 2, []string{"ran"}, func(s *sim) {
		s.pool(3, of(1, 4))
		a, c := s.sub(0, to(1)), s.sub(0, to(1))
		b := s.record(c, 1, nil)
		s.and(a, 0, func() { submit(s, b); s.await(b, s.root) })
		s.submit(c, 2)
		s.end()
	})
	add("a guest in a lane at its maximum is nudged", 2, []string{"no place", "nudged"}, func(s *sim) {
		s.pool(3, of(2, 4))
		a := s.sub(0, to(1))
		b := s.record(a, 1, nil)
		s.submit(a, 2)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.end()
	})
	add("a guest is nudged where no worker comes", 2, []string{"nudged"}, func(s *sim) {
		// The worker that leaves the lane takes a task of a higher priority, which waits for the guest.
		s.pool(4, of(2, 4))
		a, hi := s.sub(0, to(1)), s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: 1})
		e, waits, began := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		b := s.record(a, 1, nil)
		s.and(a, 2, func() { began.Set(); waits.Wait(); s.and(hi, 3, e.Wait) })
		began.Wait()
		s.and(0, 0, func() { submit(s, b); waits.Set(); s.await(b, s.root); e.Set() })
		s.end()
	})
	add("a guest and a worker come at once, one place", 2, nil, func(s *sim) {
		s.pool(5, conf{Max: 2, Capacity: 4, Config: Config{Min: 2}})
		a := s.sub(0, to(1))
		b := s.record(a, 1, nil)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.Go("other", func() { s.submit(a, 2); s.submit(a, 3) })
		s.submit(a, 4)
		s.end()
	})
	add("two guests, one place", 2, []string{"no place"}, func(s *sim) {
		s.pool(4, of(2, 4))
		a := s.sub(0, to(1))
		b, c := s.record(a, 1, nil), s.record(a, 3, nil)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.and(0, 2, func() { submit(s, c); s.await(c, s.root) })
		s.end()
	})
	add("a guest below an inner lane at its maximum", 2, []string{"no place", "nudged"}, func(s *sim) {
		s.pool(3, of(2, 4))
		m := s.sub(0, to(1))
		a, o := s.sub(m, to(1)), s.sub(m, to(1))
		b := s.record(a, 1, nil)
		s.submit(o, 2)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.end()
	})
	add("a guest from the inner lane itself", 2, []string{"claim"}, func(s *sim) {
		s.pool(3, of(1, 4))
		m := s.sub(0, to(1))
		a := s.sub(m, to(1))
		b := s.record(a, 1, nil)
		s.and(m, 0, func() { submit(s, b); s.await(b, s.lanes[m]) })
		s.submit(a, 2)
		s.end()
	})
	add("a guest, and Close of the lane", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4))
		s.left.Store(100)
		a := s.sub(0, to(1))
		b := s.record(a, 1, nil)
		s.give(a, 2, s.loose(a, 2, nil), Block, nil)
		s.give(0, 0, s.loose(0, 0, func() {
			if s.giveRecord(b, Block) == nil {
				s.await(b, s.root)
			}
		}), Block, nil)
		s.close(a)
		s.shutdown(0)
	})
	add("a guest, and the lane's own worker waits for it", 2, nil, func(s *sim) {
		s.pool(3, of(2, 4))
		a := s.sub(0, to(2))
		e := sy.MakeEvent()
		b := s.record(a, 1, func() error { e.Set(); return nil })
		s.and(a, 2, e.Wait)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.end()
	})
	add("Refused: its context has ended", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(2, of(1, 4))
		b := s.record(0, 0, nil)
		b.refused = errTask
		submit(s, b)
		s.Go("other", func() { s.submit(0, 1) })
		s.wait(0)
		s.end()
	})
	add("Refused where it was claimed", 2, []string{"claim"}, func(s *sim) {
		s.drops = true
		s.pool(2, of(1, 4))
		b := s.record(0, 1, nil)
		b.refused = errTask
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.end()
	})
	add("errors, panics", 2, nil, func(s *sim) {
		s.pool(3, of(1, 4))
		s.failed = 2
		a := s.record(0, 0, func() error { return errTask })
		b := s.record(0, 1, func() error { panic("x") })
		submit(s, a)
		s.Go("other", func() { submit(s, b) })
		s.submit(0, 2)
		s.wait(0)
		s.end()
	})
	add("claim of one that panics", 2, []string{"claim"}, func(s *sim) {
		s.pool(2, of(1, 4))
		s.failed = 1
		b := s.record(0, 1, func() error { panic("x") })
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.end()
	})
	add("claim while the lane is paused, Resume", 2, []string{"claim"}, func(s *sim) {
		s.pool(2, of(1, 4))
		b := s.record(0, 1, nil)
		s.and(0, 0, func() { submit(s, b); s.await(b, s.root) })
		s.root.Pause()
		s.root.Resume()
		s.end()
	})
	return ms
}
