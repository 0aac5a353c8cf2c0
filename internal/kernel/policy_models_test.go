//go:build poolsim

package kernel

import (
	"context"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// policyModels are about what becomes of a task for which there is no free capacity.
func policyModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "full/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	for _, p := range []Policy{CallerRuns, Spawn} {
		name := map[Policy]string{CallerRuns: "CallerRuns", Spawn: "Spawn"}[p]
		place := map[Policy]string{CallerRuns: "run here", Spawn: "spawn"}[p]
		add(name+" beside a worker", 3, []string{place}, func(s *sim) {
			s.pool(3, of(1, 0))
			s.Go("other", func() { s.give(0, 2, s.inlineTask(0, 2, nil), p, nil) })
			s.submit(0, 0)
			s.give(0, 1, s.inlineTask(0, 1, nil), p, nil)
			s.end()
		})
		add(name+" and Wait", 3, []string{place}, func(s *sim) {
			s.pool(3, of(1, 0))
			e := sy.MakeLatch()
			s.and(0, 0, e.Wait)
			s.Go("opener", e.Open)
			s.Go("other", func() { s.give(0, 2, s.inlineTask(0, 2, nil), p, nil) })
			s.give(0, 1, s.inlineTask(0, 1, nil), p, nil)
			s.wait(0)
			s.hasRun("Wait returned", 0, 1)
			s.end()
		})
		add(name+" begins when the worker is free, and Wait", 3, []string{place}, func(s *sim) {
			s.pool(2, of(1, 0))
			s.submit(0, 0)
			s.give(0, 1, s.inlineTask(0, 1, nil), p, nil)
			s.wait(0)
			s.hasRun("Wait returned", 0, 1)
			s.end()
		})
		add(name+" and Close", 3, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(1, 0))
			s.Go("other", func() { s.give(0, 1, s.inlineTask(0, 1, nil), p, nil) })
			s.Go("third", func() { s.give(0, 2, s.inlineTask(0, 2, nil), p, nil) })
			s.try(0, 0, nil)
			s.close(0)
		})
		add(name+" and Shutdown, inside the task another is submitted", 2, nil, func(s *sim) {
			s.pool(0, of(1, 0))
			s.Go("other", func() {
				s.give(0, 1, s.inlineTask(0, 1, func() { s.give(0, 2, s.inlineTask(0, 2, nil), p, nil) }), p, nil)
			})
			s.try(0, 0, nil)
			s.shutdown(0)
		})
		add(name+" in a lane, another has tasks", 2, nil, func(s *sim) {
			s.pool(4, of(2, 4))
			a := s.sub(0, LaneConfig{Max: 1})
			s.submit(0, 3)
			s.Go("other", func() { s.give(a, 2, s.inlineTask(a, 2, nil), p, nil) })
			s.submit(a, 0)
			s.give(a, 1, s.inlineTask(a, 1, nil), p, nil)
			s.wait(a)
			s.hasRun("Wait returned", 0, 1)
			s.end()
		})
		add(name+": a record, and it panics", 2, nil, func(s *sim) {
			s.pool(3, of(1, 0))
			s.failed = 1
			b := s.record(0, 1, func() error { panic("x") })
			s.root.Pause()
			s.try(0, 0, nil)
			s.Go("other", func() { s.giveRecord(b, p) })
			s.Go("third", func() { s.give(0, 2, s.inlineTask(0, 2, nil), p, nil) })
			s.root.Resume()
			s.end()
		})
		add(name+", Pause, Resume and Resize", 2, nil, func(s *sim) {
			s.pool(3, of(1, 0))
			s.most[0] = 2
			s.Go("pauser", func() { s.root.Pause(); s.root.Resume() })
			s.Go("sizer", func() { s.resize(0, 2); s.resize(0, 1) })
			s.give(0, 0, s.inlineTask(0, 0, nil), p, nil)
			s.give(0, 1, s.inlineTask(0, 1, nil), p, nil)
			s.give(0, 2, s.inlineTask(0, 2, nil), p, nil)
			s.end()
		})
		add(name+": an inline task waits for one that needs its own place", 2, nil, func(s *sim) {
			s.pool(3, of(1, 0))
			e, x, began := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
			s.and(0, 0, e.Wait)
			s.Go("other", func() { s.give(0, 1, s.inlineTask(0, 1, func() { began.Set(); x.Wait() }), p, nil) })
			began.Wait()
			s.Go("setter", e.Set)
			s.and(0, 2, x.Set)
			s.end()
		})
		add(name+" while another is blocked", 2, nil, func(s *sim) {
			s.pool(4, of(1, 1))
			s.Go("other", func() { s.submit(0, 2) })
			s.submit(0, 0)
			s.submit(0, 1)
			s.give(0, 3, s.inlineTask(0, 3, nil), p, nil)
			s.end()
		})
	}
	add("the first two submitters come at once, and a task waits for the other's return", 2, nil, func(s *sim) {
		s.pool(2, of(1, 1))
		e := sy.MakeEvent()
		s.Go("other", func() { s.submit(0, 1); e.Set() })
		s.and(0, 0, e.Wait)
		s.end()
	})
	add("DropOldest beside a worker", 3, []string{"displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.give(0, 0, s.loose(0, 0, nil), DropOldest, nil)
		s.give(0, 1, s.loose(0, 1, nil), DropOldest, nil)
		s.give(0, 2, s.loose(0, 2, nil), DropOldest, nil)
		s.shutdown(0)
	})
	add("DropOldest: the latest runs, and Wait", 3, []string{"displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		e := sy.MakeLatch()
		s.give(0, 0, s.loose(0, 0, e.Wait), DropOldest, nil)
		s.give(0, 1, s.loose(0, 1, nil), DropOldest, nil)
		s.give(0, 2, s.loose(0, 2, nil), DropOldest, nil)
		s.Go("opener", e.Open)
		s.wait(0)
		s.hasRun("Wait returned", 2)
		s.shutdown(0)
	})
	add("two DropOldest, one place", 2, []string{"displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.Go("other", func() {
			s.give(0, 1, s.loose(0, 1, nil), DropOldest, nil)
			s.give(0, 3, s.loose(0, 3, nil), DropOldest, nil)
		})
		s.give(0, 0, s.loose(0, 0, nil), DropOldest, nil)
		s.give(0, 2, s.loose(0, 2, nil), DropOldest, nil)
		s.shutdown(0)
	})
	add("DropOldest and Close", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.Go("other", func() {
			s.give(0, 2, s.loose(0, 2, nil), DropOldest, nil)
			s.give(0, 3, s.loose(0, 3, nil), DropOldest, nil)
		})
		s.give(0, 0, s.loose(0, 0, nil), DropOldest, nil)
		s.give(0, 1, s.loose(0, 1, nil), DropOldest, nil)
		s.close(0)
	})
	add("DropOldest of records, and Close", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		a, b, c := s.record(0, 0, nil), s.record(0, 1, nil), s.record(0, 2, nil)
		s.left.Store(100)
		s.Go("other", func() { s.giveRecord(c, DropOldest) })
		s.giveRecord(a, DropOldest)
		s.giveRecord(b, DropOldest)
		s.close(0)
	})
	add("DropOldest in a lane at its maximum", 2, []string{"displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4))
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 1})
		e := sy.MakeLatch()
		s.give(a, 0, s.loose(a, 0, e.Wait), DropOldest, nil)
		s.give(a, 1, s.loose(a, 1, nil), DropOldest, nil)
		s.Go("opener", e.Open)
		s.give(a, 2, s.loose(a, 2, nil), DropOldest, nil)
		s.give(0, 3, s.loose(0, 3, nil), DropOldest, nil)
		s.wait(a)
		s.hasRun("Wait returned", 2)
		s.shutdown(0)
	})
	add("DropOldest while it is paused, Resume", 2, []string{"displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.root.Pause()
		s.Go("resumer", func() { s.root.Resume() })
		for i := range 4 {
			s.give(0, i, s.loose(0, i, nil), DropOldest, nil)
		}
		s.wait(0)
		s.hasRun("Wait returned", 3)
		s.shutdown(0)
	})
	add("a task submits to its own full lane", 3, []string{"run here"}, func(s *sim) {
		s.pool(3, of(1, 0))
		s.and(0, 0, func() { s.give(0, 1, s.inlineTask(0, 1, nil), Block, nil) })
		s.submit(0, 2)
		s.end()
	})
	add("a task of a lane submits to the full lane above", 2, nil, func(s *sim) {
		s.pool(3, of(1, 0))
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 1})
		s.and(a, 0, func() { s.give(0, 1, s.inlineTask(0, 1, nil), Block, nil) })
		s.give(0, 2, s.inlineTask(0, 2, nil), Block, nil)
		s.end()
	})
	add("a task submits to a full lane beside its own", 2, nil, func(s *sim) {
		s.pool(3, of(1, 1))
		a, b := s.sub(0, LaneConfig{Max: 1}), s.sub(0, LaneConfig{Max: 1})
		s.and(a, 0, func() { s.submit(b, 1); s.submit(b, 2) })
		s.end()
	})
	add("accepted later", 3, []string{"admit"}, func(s *sim) {
		s.pool(3, of(1, 0))
		s.Go("other", func() { s.submit(0, 2) })
		s.submit(0, 0)
		s.ok[1] = true
		if _, err := s.root.SubmitAfter(0, s.task(0, 1, nil)); err != nil {
			s.Failf("SubmitAfter: %v", err)
		}
		s.end()
	})
	add("accepted later, and Close", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 0))
		b := s.record(0, 1, nil)
		s.left.Store(100)
		s.Go("other", func() {
			_, err := s.root.SubmitAfter(0, b.item())
			s.ok[1] = err == nil
		})
		s.try(0, 0, nil)
		s.close(0)
	})
	add("accepted later, and Shutdown", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 0))
		s.ok[1] = true
		b := s.record(0, 1, nil)
		s.left.Store(100)
		s.try(0, 0, nil)
		s.root.SubmitAfter(0, b.item())
		s.shutdown(0)
	})
	add("batches", 2, nil, func(s *sim) {
		s.pool(6, of(1, 4))
		some := func(is ...int) {
			var fs []func()
			for _, i := range is {
				it := s.task(0, i, nil)
				s.ok[i] = true
				fs = append(fs, it.Func())
			}
			for len(fs) > 0 {
				if n := s.root.SubmitSome(fs); n > 0 {
					fs = fs[n:]
				} else if err := s.root.SubmitSlow(queue.Func(fs[0]), Block, context.Background()); err != nil {
					s.Failf("SubmitSlow: %v", err)
				} else {
					fs = fs[1:]
				}
			}
		}
		s.Go("other", func() { some(3, 4, 5) })
		some(0, 1, 2)
		s.end()
	})
	add("nobody waits for ever: those who come later are bounded", 1, nil, func(s *sim) {
		// The first waits; two others submit again and again. With the clock at a stand it may be
		// called mostCalls times in vain, then it is served in turn.
		s.pool(7, of(1, 0))
		s.submit(0, 0)
		first := 0
		s.Go("first", func() {
			s.submit(0, 1)
			sy.Access(&s.alone, sy.Write)
			first = len(s.order)
		})
		for k := range 1 {
			s.Go("other", func() {
				for i := range 5 {
					s.submit(0, 2+5*k+i)
				}
			})
		}
		_ = first
		s.end()
	})
	add("in turn those who waited longer come first", 2, []string{"waits"}, func(s *sim) {
		s.Timed()
		s.pool(4, of(1, 0))
		e := sy.MakeLatch()
		s.and(0, 0, e.Wait)
		s.Go("first", func() { s.submit(0, 1) })
		sy.Yield()
		waits := s.blocked(0) == 1
		s.Advance(2e6)
		if waits {
			s.Reach("waits")
		}
		s.Go("second", func() { s.submit(0, 2) })
		s.Go("opener", e.Open)
		s.submit(0, 3)
		s.end()
		if waits && s.at(1) != 1 {
			s.Failf("order %v", s.order)
		}
	})
	add("a blocked Submit whose context ends as it is admitted, Close", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 0))
		ctx := explore.NewContext()
		s.give(0, 0, s.loose(0, 0, nil), Block, nil)
		s.Go("first", func() { s.give(0, 1, s.loose(0, 1, nil), Block, ctx) })
		s.Go("cancel", ctx.Cancel)
		s.close(0)
	})
	add("DropOldest passes a tombstone as the last task ends, and Wait", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(4, 2))
		e, began, claim, claimed := sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent(), sy.MakeEvent()
		b := s.record(0, 1, nil)
		b.waiter = s.root
		s.and(0, 0, func() {
			began.Set()
			claim.Wait()
			if b.Claim(s.root, nil) != Ran {
				s.Failf("not claimed")
			}
			claimed.Set()
			e.Wait()
		})
		began.Wait()
		if r, err := s.root.Reserve(context.Background(), 3); err != nil || r.Len() != 3 {
			s.Failf("Reserve")
		}
		s.root.Pause()
		s.give(0, 3, s.loose(0, 3, nil), Reject, nil) // before it: the look of its worker is not an old one
		if err := s.giveRecord(b, Reject); err != nil {
			s.Failf("%v", err)
		}
		claim.Set()
		claimed.Wait()
		s.resize(0, 1)
		s.root.Resume()
		s.most[0] = 4
		s.Go("displacer", func() { s.give(0, 2, s.loose(0, 2, nil), DropOldest, nil) })
		s.Go("opener", e.Set)
		s.wait(0)
		s.shutdown(0)
	})
	return ms
}

// blocked is how many wait for capacity in lane k.
func (s *sim) blocked(k int) int {
	l := s.lanes[k]
	l.crew.enter()
	n := l.blocked.Len()
	l.crew.leave()
	return n
}
