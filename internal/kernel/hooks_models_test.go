//go:build poolsim

package kernel

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// hooksModels mix hooks, ends, tombstones, yields and tickets that wrap with the rest.
func hooksModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "hooks/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	to := func(max, capacity int) LaneConfig { return LaneConfig{Max: max, Capacity: capacity} }

	// Hooks and Sizers.
	add("a Sizer that ends its goroutine before the start hook or later, beside Resize", 2, nil, func(s *sim) {
		n := 0
		s.pool(3, conf{Max: 2, Capacity: 4, Config: Config{Sizer: func(Sizing) bool {
			sy.Access(&s.alone, sy.Write)
			if n++; n == 2 || n == 3 {
				runtime.Goexit()
			}
			return false
		}}})
		a := s.sub(0, to(1, 0))
		s.Go("sizer", func() { s.root.Resize(1, 2); s.root.Resize(0, 1); s.root.Resize(0, 2) })
		s.submit(a, 0)
		s.submit(0, 1)
		s.submit(a, 2)
		s.end()
	})
	for _, how := range []string{"panics", "ends its goroutine"} {
		bad := func() {
			if how == "panics" {
				panic("x")
			}
			runtime.Goexit()
		}
		add("idle time 0: each stop hook "+how+", and a submitter is blocked in a lane", 2, nil, func(s *sim) {
			s.hurried(4, conf{Max: 1, Capacity: 1, Config: Config{Start: func(int) {}, Stop: func(int) { bad() }}})
			a := s.sub(0, to(1, 0))
			s.Go("other", func() { s.submit(a, 1); s.submit(a, 3) })
			s.submit(a, 0)
			s.submit(0, 2)
			s.end()
		})
		add("the first start hook "+how+", beside Close of a lane with a guest, and Idle time 0", 2, nil, func(s *sim) {
			s.drops = true
			n := 0
			s.hurried(0, conf{Max: 2, Capacity: 4, Config: Config{Start: func(int) {
				sy.Access(&s.alone, sy.Write)
				if n++; n == 1 {
					bad()
				}
			}}})
			s.left.Store(100)
			a := s.sub(0, to(1, 4))
			b := s.record(a, 1, nil)
			s.give(0, 0, s.loose(0, 0, func() {
				if s.giveRecord(b, Block) == nil {
					s.await(b, s.root)
				}
			}), Block, nil)
			s.Go("other", func() { s.block(a, 2, nil) })
			s.close(a)
			s.shutdown(0)
		})
	}
	add("hooks call methods of the pool that do not wait", 2, nil, func(s *sim) {
		s.drops = true
		n := 0
		s.pool(0, conf{Max: 2, Capacity: 4, Config: Config{
			Start: func(int) {
				sy.Access(&s.alone, sy.Write)
				if n++; n == 1 {
					s.root.Pause()
					s.root.Resize(0, 1)
					s.root.Resume()
				}
			},
			Stop: func(int) { s.root.Resize(0, 2); s.lanes[1].End(true, ErrClosed); s.root.Snapshot() },
		}})
		s.left.Store(100)
		a := s.sub(0, to(1, 1))
		s.block(a, 0, nil)
		s.Go("other", func() { s.block(a, 1, nil); s.block(0, 2, nil) })
		s.block(0, 3, nil)
		s.shutdown(0)
	})
	add("a start hook waits until its pool is closed, another worker works, and Reserve", 2, nil, func(s *sim) {
		s.drops = true
		e := sy.MakeLatch()
		s.pool(0, conf{Max: 2, Capacity: 1, Config: Config{Start: func(id int) {
			if id == 0 {
				e.Wait()
			}
		}}})
		s.left.Store(100)
		a := s.sub(0, to(1, 0))
		s.block(0, 0, nil)
		s.Go("other", func() { s.block(a, 1, nil); s.tryReserved(a, 2) })
		s.root.End(true, ErrClosed)
		e.Open()
		s.root.done.Wait()
	})

	// A shutdown with a deadline.
	add("Shutdown whose deadline passes, beside a blocked submitter, Wait, a guest and snapshots", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 1))
		s.left.Store(100)
		a := s.sub(0, to(1, 1))
		b := s.record(a, 1, nil)
		s.give(0, 0, s.loose(0, 0, func() {
			if s.giveRecord(b, Reject) == nil {
				s.await(b, s.root)
			}
		}), Block, nil)
		s.block(a, 2, nil)
		s.Go("blocked", func() { s.block(a, 3, nil) })
		s.Go("waiter", func() { s.wait(a) })
		s.Go("looks", func() { s.looks(a, 0) })
		s.root.End(false, nil)
		if !s.root.done.IsOpen() {
			s.root.End(true, context.DeadlineExceeded)
		}
		dropped := uint64(0)
		if o := s.root.Outcome(true, context.DeadlineExceeded); o != nil {
			dropped = uint64(o.Dropped)
		}
		s.root.done.Wait()
		if n := s.root.dropped + s.lanes[a].dropped; n != dropped {
			s.Failf("%d were dropped, and it says %d", n, dropped)
		}
	})
	add("two deadlines of Shutdown of a lane and of its parent, a strand, and a paused lane between", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4))
		s.left.Store(100)
		m := s.sub(0, to(2, 4))
		a := s.sub(m, to(1, 2))
		st := s.strand(a)
		s.lanes[m].Pause()
		st.give(0, Block, nil)
		st.give(1, Block, nil)
		s.Go("other", func() { st.give(2, Block, nil); s.block(a, 3, nil) })
		s.Go("below", func() {
			s.lanes[a].End(false, nil)
			s.lanes[a].End(true, context.DeadlineExceeded)
			s.lanes[a].done.Wait()
		})
		s.root.End(false, nil)
		s.root.End(true, context.Canceled)
		s.root.done.Wait()
		if !s.lanes[a].done.IsOpen() || !s.lanes[m].done.IsOpen() {
			s.Failf("the root has ended before what is below it")
		}
	})

	// Tombstones, and tickets that wrap. In models a segment has one or two cells.
	for _, first := range []uint64{0, mask - 2, mask - 1} {
		add(fmt.Sprintf("canceled tasks at the ends of segments, from ticket %x on, DropOldest and Wait", first), 1, []string{"withdraw"}, func(s *sim) {
			s.drops = true
			s.pool(0, conf{Max: 2, Capacity: 4, First: first})
			s.left.Store(100)
			a := s.sub(0, LaneConfig{Max: 1, Capacity: 4, First: first})
			e := sy.MakeEvent()
			s.give(a, 0, s.loose(a, 0, e.Wait), Block, nil)
			var rs []*body
			for i := 1; i < 4; i++ {
				rs = append(rs, s.record(a, i, nil))
				s.giveRecord(rs[i-1], Block)
			}
			s.block(a, 5, nil)
			s.Go("canceler", func() { rs[0].Withdraw(errTask); rs[1].Withdraw(errTask); rs[2].Withdraw(errTask) })
			s.Go("looks", func() { s.looks(a, 0) })
			e.Set()
			s.give(a, 6, s.loose(a, 6, nil), DropOldest, nil)
			s.wait(a)
			s.hasRun("Wait returned", 6)
			s.shutdown(0)
		})
		add(fmt.Sprintf("claims and compacted tombstones in a lane, from ticket %x on, beside Resize, and cells that are dropped", first), 1, []string{"compact", "drop cells"}, func(s *sim) {
			s.pool(7, conf{Max: 2, Capacity: 4, First: first})
			a, b := s.sub(0, LaneConfig{Max: 1, First: first}), s.sub(0, LaneConfig{Max: 1, Capacity: 4, First: first})
			s.Go("sizer", func() { s.resize(a, 2); s.resize(a, 1) })
			s.most[a] = 2
			s.and(0, 0, func() {
				for i := 1; i < 6; i++ {
					r := s.record(a, i, nil)
					s.giveRecord(r, Block)
					s.await(r, s.root)
				}
			})
			s.submit(b, 6)
			s.wait(a)
			s.wait(b)
			s.hasRun("Wait returned", 6)
			s.end()
		})
	}

	// A worker yields between two tasks, and keeps its place in a lane meanwhile. The last tasks run beside what
	// changes the lane.
	yields := func(name string, reach []string, change func(s *sim, a, b int)) {
		add("a worker yields between two tasks of a lane: "+name, 1, append(reach, "yield"), func(s *sim) {
			s.Timed()
			s.drops = true
			s.pool(0, of(2, 8))
			s.left.Store(100)
			a, b := s.sub(0, to(1, 8)), s.sub(0, to(1, 8))
			s.root.Pause()
			for i := range 4 {
				s.give(a, i, s.loose(a, i, func() { s.Advance(200 * time.Microsecond) }), Block, nil)
			}
			s.give(b, 4, s.loose(b, 4, nil), Block, nil)
			s.give(b, 5, s.loose(b, 5, nil), Block, nil)
			s.root.Resume()
			change(s, a, b)
			s.shutdown(0)
		})
	}
	yields("Resize of it, and a submitter", nil, func(s *sim, a, b int) {
		s.most[a] = 2
		s.Go("sizer", func() { s.resize(a, 2); s.resize(a, 1) })
		s.block(a, 6, nil)
	})
	yields("Shutdown of it, and snapshots", nil, func(s *sim, a, b int) {
		s.Go("looks", func() { s.looks(a, 0) })
		s.shutdown(a)
		s.hasRun("Shutdown returned", 0, 1, 2, 3)
	})
	yields("Close of it, and Wait", nil, func(s *sim, a, b int) {
		s.Go("waiter", func() { s.wait(a) })
		s.close(a)
	})
	yields("Resize of the root, and a lane below it", nil, func(s *sim, a, b int) {
		s.Go("sizer", func() { s.resize(0, 1); s.resize(0, 2) })
		k := s.sub(a, to(1, 4))
		s.block(k, 6, nil)
		s.wait(k)
		s.hasRun("Wait returned", 6)
	})
	yields("a guest waits for its place, and Pause", nil, func(s *sim, a, b int) {
		r := s.record(a, 6, nil)
		s.give(0, 7, s.loose(0, 7, func() {
			if s.giveRecord(r, Block) == nil {
				s.await(r, s.root)
			}
		}), Block, nil)
		s.lanes[a].Pause()
		s.lanes[a].Resume()
	})
	yields("Reserve of it, and workers that leave at once", nil, func(s *sim, a, b int) {
		s.root.Resize(0, 2)
		s.Go("reserver", func() { s.tryReserved(a, 6) })
		s.Go("hurry", func() { s.root.crew.read(func() { s.root.crew.Idle = 0 }) })
		s.wait(a)
	})

	// Priorities, and lanes that come while tasks wait.
	add("lanes of other priorities come while tasks wait, Pause of one, and a submitter blocked in the last", 2, nil, func(s *sim) {
		s.pool(6, of(1, 4))
		lo := s.sub(0, LaneConfig{Max: 1, Capacity: 4, Priority: -1})
		s.submit(lo, 0)
		s.submit(lo, 1)
		made := sy.MakeEvent()
		s.Go("other", func() {
			hi := s.sub(0, LaneConfig{Max: 1, Priority: 2})
			s.lanes[lo].Pause()
			s.submit(hi, 2)
			s.submit(hi, 3)
			s.lanes[lo].Resume()
			s.submit(s.sub(lo, LaneConfig{Max: 1, Capacity: 1, Priority: 7}), 4)
			made.Set()
		})
		s.submit(0, 5)
		made.Wait()
		s.wait(lo)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})

	// Snapshots beside all of that.
	add("snapshots beside Spawn of a task that has a guest below, Resize to fewer, and Close", 2, []string{"spawn"}, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 0))
		s.left.Store(100)
		a := s.sub(0, to(2, 1))
		b := s.record(a, 1, nil)
		s.try(0, 2, nil)
		s.try(0, 3, nil)
		s.Go("looks", func() { s.looks(0, a) })
		s.give(0, 0, s.inlineLoose(0, 0, func() {
			if s.giveRecord(b, Block) == nil {
				s.await(b, s.root)
			}
		}), Spawn, nil)
		s.resize(a, 1)
		s.resize(0, 1)
		s.close(0)
	})
	add("snapshots beside a context that ends, a lane below with a delayed task, and Reserve of the lane above", 2, nil, func(s *sim) {
		s.Timed()
		s.drops = true
		s.pool(0, of(2, 1))
		s.left.Store(100)
		m := s.sub(0, to(1, 1))
		a := s.sub(m, to(1, 0))
		ctx := explore.NewContext()
		s.lanes[m].Follow(ctx, func() { s.lanes[m].End(true, ErrClosed) })
		it := s.loose(a, 0, nil)
		_, err := s.lanes[a].SubmitAfter(time.Second, it)
		s.ok[0] = err == nil
		s.Go("time", func() { s.Advance(time.Second) })
		s.Go("canceler", ctx.Cancel)
		s.Go("looks", func() { s.looks(a, m) })
		s.tryReserved(m, 1)
		s.block(a, 2, nil)
		s.shutdown(0)
	})
	return ms
}

// inlineLoose is inlineTask for one that done does not wait for.
func (s *sim) inlineLoose(k, i int, f func()) queue.Item {
	s.left.Add(1)
	return s.inlineTask(k, i, f)
}
