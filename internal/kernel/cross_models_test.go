//go:build poolsim

package kernel

import (
	"context"
	"runtime"
	"time"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// crossModels mix features.
func crossModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "cross/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	to := func(max, capacity int) LaneConfig { return LaneConfig{Max: max, Capacity: capacity} }
	add("a sub ends while a submitter is blocked beside it, and the root is resized", 2, nil, func(s *sim) {
		s.pool(3, of(2, 4))
		a, b := s.sub(0, to(1, 0)), s.sub(0, to(1, 0))
		s.submit(a, 0)
		s.Go("ender", func() { s.shutdown(a); s.hasRun("Shutdown returned", 0) })
		s.Go("sizer", func() { s.resize(0, 1); s.resize(0, 2) })
		s.submit(b, 1)
		s.submit(b, 2)
		s.end()
	})
	add("Reserve beside DropOldest beside Pause", 2, []string{"displace", "grant"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.Go("reserver", func() { s.tryReserved(0, 0) })
		s.Go("dropper", func() {
			for i := 1; i < 4; i++ {
				s.give(0, i, s.loose(0, i, nil), DropOldest, nil)
			}
		})
		s.root.Pause()
		s.root.Resume()
		s.wait(0)
		s.shutdown(0)
	})
	for _, stop := range []bool{false, true} {
		name := map[bool]string{false: "Shutdown", true: "Close"}[stop]
		add("a delayed task is due beside "+name+" of its full sub, and one beside it", 2, nil, func(s *sim) {
			s.Timed()
			s.drops = true
			s.pool(0, of(1, 4))
			a, b := s.sub(0, to(1, 0)), s.sub(0, to(1, 0))
			s.ok[0], s.ok[1] = true, true
			s.lanes[a].SubmitAfter(time.Second, s.record(a, 0, nil).item())
			s.lanes[b].SubmitAfter(time.Second, s.loose(b, 1, nil))
			s.block(a, 2, nil)
			s.Go("time", func() { s.Advance(time.Second) })
			s.Go("other", func() { s.block(b, 3, nil) })
			if stop {
				s.close(a)
			} else {
				s.shutdown(a)
				s.hasRun("Shutdown returned", 2)
			}
			s.shutdown(0)
		})
	}
	add("Resize of the middle of three levels, beside a guest at the lowest", 2, []string{"no place", "nudged"}, func(s *sim) {
		s.pool(4, of(2, 4))
		m := s.sub(0, to(2, 4))
		n := s.sub(m, to(2, 4))
		a := s.sub(n, to(1, 4))
		b := s.record(a, 1, nil)
		s.Go("sizer", func() { s.resize(n, 1); s.resize(m, 1); s.resize(n, 2) })
		s.submit(n, 2)
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(m, 3)
		s.end()
	})
	add("a strand's task ends by Goexit in a pause, a submitter is blocked, another joins", 2, nil, func(s *sim) {
		s.failed = 1
		s.pool(4, of(1, 1))
		st := s.strand(0)
		e, began := sy.MakeEvent(), sy.MakeEvent()
		st.and(0, func() { began.Set(); e.Wait(); runtime.Goexit() })
		began.Wait()
		s.root.Pause()
		s.Go("other", func() { s.submit(0, 2) })
		s.Go("third", func() { st.submit(1) })
		s.Go("fourth", func() { s.submit(0, 3) })
		e.Set()
		sy.Yield()
		s.root.Resume()
		s.end()
	})
	add("tombstones are compacted beside Reserve", 2, []string{"compact", "grant"}, func(s *sim) {
		s.pool(6, of(2, 4))
		a := s.sub(0, to(1, 0))
		s.Go("reserver", func() {
			r := s.reserve(a, 1)
			s.reserved(a, r, 5, nil)
			r.Release()
		})
		s.and(0, 0, func() {
			for i := 1; i < 5; i++ {
				b := s.record(a, i, nil)
				s.giveRecord(b, Block)
				s.await(b, s.root)
			}
		})
		s.wait(a)
		s.end()
	})
	add("workers that leave at once beside Resize of the minimum", 3, nil, func(s *sim) {
		s.pool(3, of(2, 4))
		s.root.crew.Idle = 0
		s.Go("sizer", func() { s.root.Resize(2, 2); s.root.Resize(0, 1); s.root.Resize(1, 2) })
		s.submit(0, 0)
		s.wait(0)
		s.hasRun("Wait returned", 0)
		e := sy.MakeEvent()
		s.Go("other", func() { s.and(0, 1, nil) })
		s.and(0, 2, e.Set)
		e.Wait()
		s.end()
	})
	add("a worker's tasks are limited, a strand carries on", 2, []string{"carry on"}, func(s *sim) {
		s.pool(5, conf{Max: 2, Capacity: 8, Config: Config{TasksPerWorker: 2}})
		st := s.strand(0)
		st.fast = true
		st.submit(0)
		st.submit(1)
		st.submit(2)
		s.Go("other", func() { s.submit(0, 3); st.submit(4) })
		s.wait(0)
		s.hasRun("Wait returned", 0, 1, 2)
		s.end()
	})
	add("withdraw beside DropOldest, and a submitter is blocked", 2, []string{"withdraw", "displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.left.Store(100)
		b := s.record(0, 1, nil)
		e, began := sy.MakeLatch(), sy.MakeEvent()
		s.and(0, 0, func() { began.Set(); e.Wait() })
		began.Wait()
		s.giveRecord(b, Block)
		s.Go("withdrawer", func() { b.Withdraw(errTask) })
		s.Go("other", func() { s.block(0, 3, nil) })
		s.give(0, 2, s.loose(0, 2, nil), DropOldest, nil)
		s.Go("opener", e.Open)
		s.wait(0)
		s.hasRun("Wait returned", 0)
		s.shutdown(0)
	})
	for _, stop := range []bool{false, true} {
		name := map[bool]string{false: "Shutdown", true: "Close"}[stop]
		add("Wait of a lane beside "+name+" of the one above", 2, nil, func(s *sim) {
			s.drops = stop
			s.pool(0, of(1, 4))
			m := s.sub(0, to(1, 4))
			a := s.sub(m, to(1, 4))
			s.block(a, 0, nil)
			s.block(a, 1, nil)
			s.block(m, 2, nil)
			s.Go("closer", func() {
				if stop {
					s.close(m)
				} else {
					s.shutdown(m)
				}
			})
			s.wait(a)
			if n := s.lanes[a].Snapshot(); n.InFlight != 0 {
				s.Failf("Wait returned, %+v", n)
			}
			s.shutdown(0)
		})
	}
	add("a guest has a guest below, beside Pause of the lane between", 2, []string{"claim"}, func(s *sim) {
		s.pool(4, of(2, 4))
		m := s.sub(0, to(1, 4))
		a := s.sub(m, to(1, 4))
		c := s.record(a, 2, nil)
		b := s.record(m, 1, func() error { s.giveRecord(c, Block); s.await(c, s.lanes[m]); return nil })
		s.Go("pauser", func() { s.lanes[m].Pause(); s.lanes[m].Resume() })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(a, 3)
		s.end()
	})
	add("samplers of a sub and the root beside their ends", 2, nil, func(s *sim) {
		s.Timed()
		s.pool(0, of(1, 4))
		n := 0
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 4, Every: time.Second, Sample: func() { sy.Access(&s.alone, sy.Write); n++ }})
		s.block(a, 0, nil)
		s.Go("time", func() { s.Advance(2 * time.Second); s.Advance(2 * time.Second) })
		s.shutdown(a)
		s.shutdown(0)
	})
	add("samplers rest and are woken beside a dismissal", 2, nil, func(s *sim) {
		s.Timed()
		s.pool(2, conf{Max: 1, Capacity: 4, Config: Config{Idle: time.Second}})
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 4, Every: time.Second, Sample: func() { sy.Access(&s.alone, sy.Write) }})
		s.submit(a, 0)
		s.Go("time", func() { s.Advance(2 * time.Second) })
		s.wait(a)
		s.hasRun("Wait", 0)
		s.submit(a, 1)
		s.done.Wait()
		s.shutdown(a)
		s.shutdown(0)
	})
	ahead := func(s *sim, n int, f func()) {
		s.Hurries()
		s.pool(n, conf{Max: 1, Capacity: 100})
		s.root.pacing.Store(&pacing{far: farAhead})
		s.root.Pause()
		s.and(0, 0, f)
		for i := 1; i < 5; i++ {
			s.submit(0, i)
		}
	}
	add("a submitter is ahead beside Resume, Pause and Resize", 2, []string{"ahead"}, func(s *sim) {
		ahead(s, 6, nil)
		s.most[0] = 2
		s.Go("sizer", func() { s.resize(0, 2); s.resize(0, 1) })
		s.Go("pauser", func() { s.root.Resume(); s.root.Pause(); s.root.Resume() })
		s.submit(0, 5)
		s.end()
	})
	add("a submitter of a strand is ahead beside Close", 2, []string{"ahead"}, func(s *sim) {
		s.drops = true
		ahead(s, 0, nil)
		s.left.Store(100)
		st := s.strand(0)
		s.Go("closer", func() { s.close(0) })
		s.Go("pauser", func() { s.root.Resume() })
		st.give(5, Block, nil)
		st.give(6, Block, nil)
		s.root.done.Wait()
	})
	add("Wait of a lane beside a claim there, its own tasks, and Wait of the root", 2, []string{"claim"}, func(s *sim) {
		s.pool(4, of(2, 4))
		a := s.sub(0, to(2, 4))
		b := s.record(a, 1, nil)
		c := s.record(a, 3, nil)
		s.and(0, 0, func() {
			s.giveRecord(b, Block)
			s.giveRecord(c, Block)
			s.await(c, s.root)
			s.await(b, s.root)
		})
		s.submit(a, 2)
		s.Go("waiter", func() { s.wait(0); s.hasRun("Wait of the root returned", 0, 1, 3) })
		s.wait(a)
		s.hasRun("Wait returned", 2)
		s.end()
	})
	add("a guest in a lane of low priority beside tasks of a high one, and Pause of that", 2, nil, func(s *sim) {
		s.pool(5, of(2, 4))
		lo, hi := s.sub(0, to(1, 4)), s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: 1})
		b := s.record(lo, 1, nil)
		s.submit(hi, 2)
		s.submit(lo, 3)
		s.Go("pauser", func() { s.lanes[hi].Pause(); s.lanes[hi].Resume() })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(hi, 4)
		s.end()
	})
	add("Wait beside Spawn that claims, and a strand", 2, []string{"spawn"}, func(s *sim) {
		s.pool(4, of(1, 1))
		b := s.record(0, 2, nil)
		st := s.strand(0)
		st.submit(0)
		st.submit(3)
		s.Go("other", func() {
			s.give(0, 1, s.inlineTask(0, 1, func() { s.giveRecord(b, Block); s.await(b, s.root) }), Spawn, nil)
		})
		s.wait(0)
		s.hasRun("Wait returned", 0, 3)
		s.end()
	})
	add("Reserve in a lane beside Resize of the root and a guest in it", 2, []string{"grant"}, func(s *sim) {
		s.pool(4, of(2, 4))
		a := s.sub(0, to(1, 1))
		b := s.record(a, 1, nil)
		s.Go("sizer", func() { s.resize(0, 1); s.resize(0, 2) })
		s.Go("reserver", func() { r := s.reserve(a, 1); s.reserved(a, r, 2, nil); r.Release() })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(a, 3)
		s.end()
	})
	add("an inline task of the root claims below, and the lane is closed", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 0))
		s.left.Store(100)
		a := s.sub(0, to(1, 1))
		b := s.record(a, 1, nil)
		s.give(a, 2, s.loose(a, 2, nil), Block, nil)
		s.Go("other", func() {
			s.give(0, 0, s.inlineTask(0, 0, func() {
				if s.giveRecord(b, Block) == nil {
					s.await(b, s.root)
				}
			}), CallerRuns, nil)
		})
		s.try(0, 3, nil)
		s.close(a)
		s.shutdown(0)
	})
	add("DropOldest in a lane at its maximum, a submitter blocked, and Shutdown", 2, []string{"displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4))
		s.left.Store(100)
		a := s.sub(0, to(1, 1))
		s.block(a, 0, nil)
		s.block(0, 4, nil)
		s.give(a, 1, s.loose(a, 1, nil), DropOldest, nil)
		s.Go("other", func() { s.block(a, 3, nil) })
		s.Go("dropper", func() { s.give(a, 2, s.loose(a, 2, nil), DropOldest, nil) })
		s.shutdown(a)
		s.shutdown(0)
	})
	add("a delayed task waits for capacity beside Reserve and Pause", 2, []string{"grant", "admit"}, func(s *sim) {
		s.pool(4, of(1, 0))
		s.submit(0, 0)
		s.Go("reserver", func() { r := s.reserve(0, 1); s.reserved(0, r, 1, nil); r.Release() })
		s.Go("pauser", func() { s.root.Pause(); s.root.Resume() })
		s.ok[2] = true
		s.root.SubmitAfter(0, s.task(0, 2, nil))
		s.submit(0, 3)
		s.end()
	})
	add("a submitter yields beside the end of a lane and Resize", 2, []string{"submitter yields"}, func(s *sim) {
		s.pool(3, conf{Max: 2, Capacity: 4, Config: Config{Spin: 1}})
		a, b := s.sub(0, to(1, 0)), s.sub(0, to(1, 0))
		s.submit(a, 0)
		s.Go("ender", func() { s.shutdown(a) })
		s.Go("sizer", func() { s.resize(0, 1); s.resize(0, 2) })
		s.submit(b, 1)
		s.submit(b, 2)
		s.end()
	})
	add("Sub below a paused lane with a guest", 2, nil, func(s *sim) {
		s.pool(4, of(2, 4))
		m := s.sub(0, to(1, 4))
		b := s.record(m, 1, nil)
		s.lanes[m].Pause()
		s.submit(m, 2)
		made := sy.MakeEvent()
		s.Go("other", func() { s.submit(s.sub(m, to(1, 4)), 3); s.lanes[m].Resume(); made.Set() })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		made.Wait()
		s.end()
	})
	add("a worker's tasks are limited, a claim, a minimum, and Resize", 2, nil, func(s *sim) {
		s.pool(3, conf{Max: 1, Capacity: 4, Config: Config{TasksPerWorker: 1, Min: 1}})
		s.most[0] = 2
		b := s.record(0, 1, nil)
		s.Go("sizer", func() { s.root.Resize(2, 2); s.root.Resize(0, 1) })
		s.and(0, 0, func() { s.giveRecord(b, Block); s.await(b, s.root) })
		s.submit(0, 2)
		s.wait(0)
		s.hasRun("Wait returned", 0, 1, 2)
		s.end()
	})
	add("a start hook ends its goroutine, a submitter is blocked, and Resize", 2, nil, func(s *sim) {
		s.pool(3, of(1, 0))
		s.root.crew.Start = func(int) { runtime.Goexit() }
		s.most[0] = 2
		s.Go("sizer", func() { s.resize(0, 2); s.resize(0, 1) })
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.submit(0, 2)
		s.end()
	})
	add("a Sizer is asked in a pause, a submitter is blocked", 2, nil, func(s *sim) {
		n := 0
		s.pool(4, conf{Max: 2, Config: Config{Sizer: func(z Sizing) bool { sy.Access(&s.alone, sy.Write); n++; return n%2 == 0 }}})
		s.Go("pauser", func() { s.root.Pause(); s.root.Resume() })
		s.Go("other", func() { s.submit(0, 1); s.submit(0, 3) })
		s.submit(0, 0)
		s.submit(0, 2)
		s.end()
	})
	add("Reserve in a middle lane, Resize revokes, a submitter blocked below", 2, []string{"revoke"}, func(s *sim) {
		s.pool(4, of(2, 4))
		m := s.sub(0, to(2, 1))
		a := s.sub(m, to(1, 0))
		r := s.reserve(m, 2)
		s.Go("sizer", func() { s.resize(m, 1) })
		s.Go("other", func() { s.submit(a, 0); s.submit(a, 1) })
		s.Go("third", func() { s.submit(m, 2) })
		r.revoked.Wait()
		if r.Len() > 0 {
			s.reserved(m, r, 3, nil)
		} else {
			s.submit(m, 3)
		}
		r.Release()
		s.end()
	})
	add("strands of two lanes of one, a displaced first, and Close above", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4))
		s.left.Store(100)
		m := s.sub(0, to(1, 4))
		a := s.sub(m, to(1, 1))
		st := s.strand(a)
		st.give(0, Block, nil)
		st.give(1, Block, nil)
		s.Go("dropper", func() { s.give(a, 2, s.loose(a, 2, nil), DropOldest, nil); st.give(3, Block, nil) })
		s.block(m, 4, nil)
		s.close(m)
		s.shutdown(0)
	})
	add("a context of a blocked submitter ends beside Resize down, and Reserve behind it", 2, nil, func(s *sim) {
		s.pool(3, of(2, 0))
		ctx := explore.NewContext()
		e := sy.MakeLatch()
		s.and(0, 0, e.Wait)
		s.submit(0, 1)
		s.Go("blocked", func() { s.give(0, 3, s.loose(0, 3, nil), Block, ctx) })
		s.Go("reserver", func() { r := s.reserve(0, 1); s.reserved(0, r, 2, nil); r.Release() })
		s.Go("sizer", func() { s.resize(0, 1); s.resize(0, 2) })
		s.Go("cancel", func() { ctx.Cancel(); e.Open() })
		s.done.Wait()
		s.wait(0)
		s.shutdown(0)
	})
	add("a place in an idle lane whose cells are dropped, Wait, and Sub below it", 2, []string{"drop cells", "submit reserved"}, func(s *sim) {
		s.pool(4, of(1, 4))
		a := s.sub(0, to(2, 1))
		s.submit(a, 0)
		s.wait(a)
		s.hasRun("Wait", 0)
		r := s.reserve(a, 1)
		s.submit(0, 1)
		made := sy.MakeEvent()
		s.Go("other", func() { s.submit(s.sub(a, to(1, 0)), 2); made.Set() })
		s.reserved(a, r, 3, nil)
		r.Release()
		s.wait(a)
		s.hasRun("Wait", 3)
		made.Wait()
		s.end()
	})
	add("a guest ends by Goexit and takes its host with it, a submitter is blocked, and Wait", 2, []string{"claim"}, func(s *sim) {
		s.pool(0, of(1, 0))
		s.left.Store(100)
		a := s.sub(0, to(1, 1))
		fails := func(n int) { sy.Access(&s.alone, sy.Write); s.failed += n }
		b := s.record(a, 1, func() error { fails(+1); runtime.Goexit(); return nil })
		s.give(0, 0, s.loose(0, 0, func() {
			s.giveRecord(b, Block)
			fails(+1)
			s.await(b, s.root)
			fails(-1)
		}), Block, nil)
		two := sy.MakeEvent()
		s.Go("other", func() { s.submit(0, 2); s.submit(a, 3); two.Set() })
		s.submit(0, 4)
		s.wait(0)
		s.hasRun("Wait returned", 0, 1, 4)
		two.Wait()
		s.shutdown(0)
	})
	for _, stop := range []bool{false, true} {
		name := map[bool]string{false: "Shutdown", true: "Close"}[stop]
		add("a guest two levels down beside "+name+" of its lane, then of the middle", 2, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(2, 4))
			s.left.Store(100)
			m := s.sub(0, to(1, 4))
			a := s.sub(m, to(1, 4))
			b := s.record(a, 1, nil)
			s.give(0, 0, s.loose(0, 0, func() {
				if s.giveRecord(b, Block) == nil {
					s.await(b, s.root)
				}
			}), Block, nil)
			s.block(m, 2, nil)
			s.Go("closer", func() { s.lanes[m].End(stop, ErrClosed) })
			if stop {
				s.close(a)
			} else {
				s.shutdown(a)
			}
			sy.Access(&s.runs[1], sy.Read)
			if !stop && s.ok[1] && s.ran[1] == 0 && !s.lanes[a].done.IsOpen() {
				s.Failf("it has ended before its task")
			}
			if n := s.lanes[a].Snapshot(); n.InFlight != 0 || n.Busy != 0 || !n.Ended {
				s.Failf("ended: %+v", n)
			}
			s.shutdown(0)
		})
	}
	add("a sub's context ends beside Wait, Shutdown of the parent, and a delayed task of a strand", 2, nil, func(s *sim) {
		s.Timed()
		s.drops = true
		s.pool(0, of(1, 4))
		s.left.Store(100)
		a := s.sub(0, to(1, 0))
		ctx := explore.NewContext()
		s.lanes[a].Follow(ctx, func() { s.lanes[a].End(true, ErrClosed) })
		s.block(a, 0, nil)
		st := s.strand(a)
		t := &keyed{st: st, i: 1}
		t.Init(t, s.lanes[a])
		s.lane[1], s.ok[1] = a, true
		s.lanes[a].SubmitAfter(time.Second, queue.Record(&t.Record))
		s.Go("time", func() { s.Advance(time.Second) })
		s.Go("canceler", ctx.Cancel)
		st.give(2, Block, nil)
		s.wait(a)
		s.shutdown(0)
	})
	add("tasks in a batch beside Pause, DropOldest and Wait", 2, []string{"displace"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 3))
		s.left.Store(100)
		a := s.sub(0, to(1, 2))
		s.block(a, 0, nil)
		s.Go("batch", func() {
			fs := []func(){}
			for i := 1; i < 3; i++ {
				s.lane[i], s.ok[i] = a, true
				fs = append(fs, s.loose(a, i, nil).Func())
			}
			n := s.lanes[a].SubmitSome(fs)
			for i := 1 + n; i < 3; i++ {
				s.ok[i] = false
			}
		})
		s.Go("pauser", func() { s.lanes[a].Pause(); s.lanes[a].Resume() })
		s.give(a, 3, s.loose(a, 3, nil), DropOldest, nil)
		s.give(a, 4, s.loose(a, 4, nil), DropOldest, nil)
		s.wait(a)
		s.hasRun("Wait returned", 4)
		s.shutdown(0)
	})
	add("a delayed task is due while a submitter is ahead, and Shutdown", 1, []string{"ahead"}, func(s *sim) {
		ahead(s, 0, nil)
		s.left.Store(100)
		s.ok[6] = true
		s.root.SubmitAfter(time.Second, s.loose(0, 6, nil))
		s.drops = true
		s.Go("closer", func() { s.root.Resume(); s.shutdown(0) })
		s.block(0, 5, nil)
		s.root.done.Wait()
	})
	add("inline in a lane beside Resize of it, of the root, and a lane of higher priority", 2, nil, func(s *sim) {
		s.pool(4, of(2, 4))
		lo, hi := s.sub(0, to(2, 4)), s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: 1})
		s.ok[3] = true
		s.submit(lo, 0)
		s.Go("inline", func() { s.lanes[lo].RunInline(s.inlineTask(lo, 3, func() { s.submit(hi, 2) }), 0) })
		s.Go("sizer", func() { s.resize(lo, 1); s.resize(0, 1); s.resize(lo, 2) })
		s.submit(lo, 1)
		s.wait(lo)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	return ms
}

// tryReserved reserves a place of lane k and uses it for task i, if the lane lets it.
func (s *sim) tryReserved(k, i int) {
	if r, err := s.lanes[k].Reserve(context.Background(), 1); err == nil {
		it := s.loose(k, i, nil)
		s.ok[i] = true
		s.ok[i], _ = r.Submit(it)
		r.Release()
	}
}
