//go:build poolsim

package kernel

import (
	"context"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// oneModels are about one lane: wake-ups, capacity, quiescence, the end.
func oneModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "one/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	add("one task", 0, []string{"hire"}, func(s *sim) {
		s.pool(1, of(1, 4))
		s.Go("closer", s.end)
		s.submit(0, 0)
	})
	add("one task hires one worker", 2, nil, func(s *sim) {
		s.pool(1, of(3, 4))
		s.submit(0, 0)
		s.end()
		if n := s.root.Snapshot().Peak; n != 1 {
			s.Failf("%d workers were started for one task", n)
		}
	})
	add("two tasks wake both workers", 2, []string{"second"}, func(s *sim) {
		s.pool(2, conf{Max: 2, Capacity: 4, Config: Config{Min: 2}})
		s.submit(0, 0)
		s.submit(0, 1)
		s.end()
	})
	add("while others wait for a CPU no second worker is woken", 2, nil, func(s *sim) {
		explore.Env().Runnable = 2
		s.pool(2, of(2, 4))
		e := sy.MakeLatch()
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Wait)
		if n := s.root.crew.searching(); n > 1 {
			s.Failf("%d workers search", n)
		}
		e.Open()
		s.end()
	})
	add("two tasks start two workers, and the Sizer is asked for each", 2, nil, func(s *sim) {
		asked := 0
		s.pool(2, conf{Max: 2, Capacity: 4, Config: Config{Sizer: func(Sizing) bool {
			sy.Access(&s.alone, sy.Write)
			asked++
			return true
		}}})
		s.submit(0, 0)
		s.submit(0, 1)
		s.end()
		if n := s.root.Snapshot().Peak; n > asked {
			s.Failf("%d workers were started, and the Sizer was asked %d times", n, asked)
		}
	})
	add("two tasks, one worker", 4, []string{"hire", "rouse"}, func(s *sim) {
		s.pool(2, of(1, 4))
		s.Go("closer", s.end)
		s.submit(0, 0)
		s.submit(0, 1)
	})
	add("two submitters, one worker", 3, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.end()
	})
	add("first waits for second, two workers", 3, nil, func(s *sim) {
		s.pool(2, of(2, 4))
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.end()
	})
	add("first waits for second of another submitter, parked", 2, nil, func(s *sim) {
		s.pool(2, conf{Max: 2, Capacity: 4, Config: Config{Min: 2}})
		e := sy.MakeEvent()
		s.Go("other", func() { s.and(0, 1, e.Set) })
		s.and(0, 0, e.Wait)
		s.end()
	})
	add("three that wait for each other", 2, nil, func(s *sim) {
		s.pool(3, of(3, 4))
		a, b := sy.MakeEvent(), sy.MakeEvent()
		s.and(0, 0, a.Wait)
		s.and(0, 1, func() { b.Wait(); a.Set() })
		s.and(0, 2, b.Set)
		s.end()
	})
	add("tickets wrap", 2, nil, func(s *sim) {
		s.pool(4, conf{Max: 2, Capacity: 4, First: mask - 1})
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.submit(0, 2)
		s.Go("other", func() { s.and(0, 1, e.Set) })
		s.submit(0, 3)
		s.wait(0)
		s.hasRun("Wait returned", 0, 2, 3)
		s.end()
	})
	for _, barge := range []bool{false, true} {
		// While the clock stands still, a waiter is served in turn only after two calls in vain, which few
		// models reach. So in the models "in turn" a thread advances the clock by 10 ms. A waiter that has
		// waited for 1 ms is served in turn.
		pre := map[bool]string{false: "", true: "in turn: "}[barge]
		open := func(s *sim, n int, c conf) {
			if barge {
				s.Timed()
			}
			s.pool(n, c)
			if barge {
				s.Go("time", func() { s.Advance(10 * 1e6) })
			}
		}
		add(pre+"hand-off: no free capacity, blocked submitter", 3, nil, func(s *sim) {
			open(s, 3, of(1, 0))
			s.Go("other", func() { s.submit(0, 2) })
			s.submit(0, 0)
			s.submit(0, 1)
			s.end()
		})
		add(pre+"three submitters, one place", 2, nil, func(s *sim) {
			open(s, 4, of(1, 0))
			s.Go("other", func() { s.submit(0, 2) })
			s.Go("third", func() { s.submit(0, 3) })
			s.submit(0, 0)
			s.submit(0, 1)
			s.end()
		})
		add(pre+"first waits for second, Resize gives capacity", 3, nil, func(s *sim) {
			open(s, 3, of(1, 0))
			s.most[0] = 3
			e := sy.MakeEvent()
			s.and(0, 0, e.Wait)
			s.Go("other", func() { s.resize(0, 3) })
			s.Go("third", func() { s.submit(0, 2) })
			s.and(0, 1, e.Set)
			s.end()
		})
		add(pre+"a task waits for the return of a blocked Submit", 3, nil, func(s *sim) {
			open(s, 3, of(1, 1))
			a, b := sy.MakeEvent(), sy.MakeEvent()
			s.and(0, 0, a.Wait)
			s.and(0, 1, b.Wait) // takes its place in the queue, then that of the worker
			s.Go("other", func() { s.submit(0, 2); b.Set() })
			a.Set()
			s.end()
		})
		add(pre+"blocked Submit and Close", 3, nil, func(s *sim) {
			s.drops = true
			open(s, 0, of(1, 0))
			for i := range 3 {
				s.Go("other", func() { s.block(0, i, nil) })
			}
			s.close(0)
		})
		add(pre+"a blocked Submit whose context ends, another waits behind", 2, nil, func(s *sim) {
			s.drops = true
			open(s, 2, of(1, 0))
			ctx := explore.NewContext()
			e := sy.MakeEvent()
			s.and(0, 0, e.Wait)
			s.Go("first", func() {
				if err := s.give(0, 1, s.loose(0, 1, nil), Block, ctx); err != nil && err != ErrClosed && err != ctx.Err() {
					s.Failf("Submit: %v", err)
				}
			})
			s.Go("second", func() { s.submit(0, 2) })
			s.Go("cancel", ctx.Cancel)
			e.Set()
			s.end()
		})
	}
	add("bound of 2, three try", 3, nil, func(s *sim) {
		s.pool(2, of(1, 1))
		e := sy.MakeLatch()
		n := 0
		var o sy.Object
		s.and(0, 0, e.Wait)
		x := sy.MakeEvent()
		s.Go("other", func() {
			if s.try(0, 1, e.Wait) {
				sy.Access(&o, sy.Write)
				n++
			}
			x.Set()
		})
		if s.try(0, 2, e.Wait) {
			sy.Access(&o, sy.Write)
			n++
		}
		x.Wait()
		if n != 1 {
			s.Failf("%d of one place", n)
		}
		e.Open()
		s.end()
	})
	add("Wait and a submitter", 3, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		s.submit(0, 0)
		s.Go("other", func() { s.submit(0, 1) })
		s.wait(0)
		s.hasRun("Wait returned", 0)
		s.end()
	})
	add("Wait for what a task submits", 3, nil, func(s *sim) {
		s.pool(2, of(2, 4))
		s.and(0, 0, func() { s.submit(0, 1) })
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	add("Wait for what a task submits by a lease", 2, nil, func(s *sim) {
		s.pool(5, of(1, 40))
		s.submit(0, 0)
		s.submit(0, 1)
		s.and(0, 2, func() { s.submit(0, 3); s.submit(0, 4) })
		s.wait(0)
		s.hasRun("Wait returned", 0, 1, 2, 3, 4)
		s.end()
	})
	add("Wait beside a submitter that waits for its task", 2, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		e := sy.MakeEvent()
		s.Go("waiter", func() { s.wait(0); s.hasRun("Wait returned") })
		s.and(0, 0, e.Set)
		e.Wait()
		s.submit(0, 1)
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	for _, more := range []bool{false, true} {
		add("Wait returns after a moment of quiet, whatever comes then"+map[bool]string{true: ", and there is another lane"}[more], 2, nil, func(s *sim) {
			s.pool(3, of(1, 4))
			if more {
				s.submit(s.sub(0, LaneConfig{Max: 1, Capacity: 4}), 2)
			} else {
				s.submit(0, 2)
			}
			e, waited := sy.MakeEvent(), sy.MakeLatch()
			b := s.record(0, 0, func() error { e.Wait(); return nil })
			s.giveRecord(b, Block)
			s.Go("waiter", func() { s.wait(0); waited.Open() })
			s.root.crew.enter()
			waits := len(s.root.quietWaiters) == 1
			s.root.crew.leave()
			e.Set()
			b.resolved.Wait() // it was counted: that was the moment
			s.and(0, 1, func() {
				if waits {
					s.Reach("waits")
					waited.Wait()
				}
			})
			s.end()
		})
	}
	add("a moment of quiet before a wait began does not end it when what ran inline has ended", 2, nil, func(s *sim) {
		s.pool(3, of(1, 4))
		s.Go("early waiter", func() { s.wait(0) }) // so that the worker notes the moment when task 0 has ended
		s.submit(0, 0)
		s.ok[1] = true
		s.root.RunInline(s.inlineTask(0, 1, func() {
			began := sy.MakeEvent()
			s.Go("late waiter", func() {
				s.root.Wait(context.Background(), func() bool { began.Set(); return false })
				s.hasRun("Wait returned", 1, 2)
			})
			began.Wait()
			s.submit(0, 2)
		}), 0)
		s.end()
	})
	add("Resize down: workers that are too many leave at their next task", 2, nil, func(s *sim) {
		s.pool(4, of(2, 4))
		e := sy.MakeLatch()
		b0, b1 := sy.MakeEvent(), sy.MakeEvent()
		s.and(0, 0, func() { b0.Set(); e.Wait() })
		s.and(0, 1, func() { b1.Set(); e.Wait() })
		b0.Wait()
		b1.Wait()
		n := 0
		alone := func() {
			sy.Access(&s.alone, sy.Write)
			if n++; n > 1 {
				s.Failf("two run in a pool of one")
			}
			sy.Access(&s.alone, sy.Write)
			n--
		}
		s.and(0, 2, alone)
		s.and(0, 3, alone)
		s.resize(0, 1)
		e.Open()
		s.end()
	})
	add("Submit and Shutdown", 3, nil, func(s *sim) {
		s.pool(0, of(1, 4))
		s.Go("other", func() { s.block(0, 1, nil) })
		s.submit(0, 0)
		s.shutdown(0)
	})
	add("Submit, blocked Submit and Close", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 0))
		for i := range 2 {
			s.Go("other", func() { s.block(0, i, nil) })
		}
		s.close(0)
	})
	add("spin", 3, nil, func(s *sim) {
		s.pool(2, conf{Max: 1, Capacity: 4, Config: Config{Spin: 1}})
		s.Go("closer", s.end)
		s.submit(0, 0)
		s.submit(0, 1)
	})
	add("spin, two workers, first waits for second", 2, nil, func(s *sim) {
		s.pool(2, conf{Max: 2, Capacity: 4, Config: Config{Spin: 1, Min: 1}})
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.end()
	})
	add("Resize up gives capacity", 3, nil, func(s *sim) {
		s.pool(2, of(1, 0))
		s.most[0] = 2
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.Go("other", func() { s.resize(0, 2) })
		s.and(0, 1, e.Set)
		s.end()
	})
	add("Resize down", 3, nil, func(s *sim) {
		s.pool(3, of(2, 4))
		s.Go("other", func() { s.resize(0, 1) })
		s.submit(0, 0)
		s.submit(0, 1)
		s.submit(0, 2)
		s.end()
	})
	add("Resize down and up", 2, nil, func(s *sim) {
		s.pool(3, of(2, 4))
		e := sy.MakeEvent()
		s.Go("other", func() { s.resize(0, 1); s.resize(0, 2) })
		s.submit(0, 2)
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.end()
	})
	add("Pause and Resume", 3, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		s.submit(0, 0)
		s.Go("other", func() { s.submit(0, 1) })
		s.root.Pause()
		s.root.Resume()
		s.end()
	})
	add("while it is paused nothing begins", 3, nil, func(s *sim) {
		s.pool(2, of(1, 4))
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.root.Pause()
		sy.Access(&s.alone, sy.Read)
		begun := int(numOf(sy.Peek(&s.root.head))) + int(ticketOf(sy.Peek(&s.root.head)))
		sy.Yield()
		if now := int(numOf(sy.Peek(&s.root.head))) + int(ticketOf(sy.Peek(&s.root.head))); now > begun {
			s.Failf("a task began in a pause")
		}
		s.root.Resume()
		s.end()
	})
	add("Pause, Close", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4))
		s.Go("other", func() { s.root.Pause() })
		s.submit(0, 0)
		s.close(0)
	})
	add("Pause, Shutdown runs what waits", 3, nil, func(s *sim) {
		s.pool(0, of(1, 4))
		s.root.Pause()
		s.submit(0, 0)
		s.Go("other", func() { s.root.Resume() })
		s.shutdown(0)
		s.hasRun("Shutdown returned", 0)
	})
	add("Pause, Resume and Resize beside a blocked Submit", 2, nil, func(s *sim) {
		s.pool(3, of(1, 0))
		s.most[0] = 2
		s.Go("pauser", func() { s.root.Pause(); s.root.Resume() })
		s.Go("sizer", func() { s.resize(0, 2) })
		s.submit(0, 0)
		s.submit(0, 1)
		s.submit(0, 2)
		s.end()
	})
	add("panics", 3, nil, func(s *sim) {
		s.failed = 1
		s.pool(2, of(1, 4))
		s.and(0, 0, func() { s.finished(); panic("x") })
		s.submit(0, 1)
		s.end()
	})
	return ms
}
