//go:build poolsim

package kernel

import (
	"runtime"
	"time"

	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// holdOpen retains l if that is open.
func holdOpen(l *Lane) (held bool) {
	l.crew.read(func() {
		if held = l.phase == open; held {
			l.retain()
		}
	})
	return held
}

// lifeModels are about workers that come and go, and the end.
func lifeModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "life/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int, cc Config) conf { return conf{Max: max, Capacity: capacity, Config: cc} }
	add("a lane does not end while it is retained", 3, nil, func(s *sim) {
		s.pool(1, of(1, 4, Config{}))
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 4})
		s.submit(a, 0)
		held := holdOpen(s.lanes[a])
		s.Go("other", func() {
			sy.Access(&s.alone, sy.Read)
			if s.lanes[a].done.IsOpen() && held {
				s.Failf("ended while it is retained")
			}
			if held {
				s.lanes[a].Release()
			}
		})
		s.shutdown(a)
		s.shutdown(0)
	})
	add("retained beside Shutdown", 3, nil, func(s *sim) {
		s.pool(0, of(1, 4, Config{}))
		s.Go("other", func() {
			if holdOpen(s.root) {
				if s.root.done.IsOpen() {
					s.Failf("ended while it is retained")
				}
				s.root.Release()
			}
		})
		s.shutdown(0)
	})
	add("a delayed task is due, and stopped", 3, []string{"stopped", "too late"}, func(s *sim) {
		s.Timed()
		s.pool(0, of(1, 4, Config{}))
		t, err := s.root.SubmitAfter(time.Second, s.task(0, 0, nil))
		if err != nil {
			s.Failf("SubmitAfter: %v", err)
		}
		s.Go("time", func() { s.Advance(time.Second) })
		if s.ok[0] = !t.Stop(); s.ok[0] {
			sy.Reach("too late")
		} else {
			sy.Reach("stopped")
		}
		if t.Stop() {
			s.Failf("stopped twice")
		}
		s.shutdown(0)
	})
	add("a delayed task is due, and Close", 3, nil, func(s *sim) {
		s.Timed()
		s.drops = true
		s.pool(0, of(1, 4, Config{}))
		s.ok[0] = true
		if _, err := s.root.SubmitAfter(time.Second, s.record(0, 0, nil).item()); err != nil {
			s.Failf("SubmitAfter: %v", err)
		}
		s.Go("time", func() { s.Advance(time.Second) })
		s.close(0)
	})
	add("two Shutdown and a Close", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4, Config{}))
		s.block(0, 0, nil)
		s.Go("other", func() { s.shutdown(0) })
		s.Go("third", func() { s.close(0) })
		s.shutdown(0)
	})
	add("the minimum is there, and leaves", 2, nil, func(s *sim) {
		s.pool(0, of(2, 4, Config{Min: 2}))
		s.shutdown(0)
	})
	add("workers that are idle leave at once", 3, nil, func(s *sim) {
		s.pool(2, of(2, 4, Config{Idle: -1}))
		s.root.crew.Idle = 0
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.end()
	})
	add("a worker that has parked because of a task that another one took leaves too", 2, []string{"reclaim"}, func(s *sim) {
		s.Hurries()
		e := sy.MakeEvent()
		s.pool(2, of(2, 4, Config{Idle: -1, Stop: func(int) { e.Set() }})) // Guard recovers the panic if e is set already
		c := s.root.crew
		c.Idle = 0
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.done.Wait()
		for stay := 1; stay > 0; {
			if c.read(func() { stay = c.live - c.departing }); stay > 0 {
				e.Wait()
			}
		}
		s.close(0)
	})
	add("workers that are idle leave after a while", 2, []string{"reclaim"}, func(s *sim) {
		s.Timed()
		s.pool(3, of(2, 4, Config{Idle: time.Second}))
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.wait(0)
		s.Advance(2 * time.Second)
		s.submit(0, 2)
		s.end()
	})
	add("reclaim beside Shutdown", 2, nil, func(s *sim) {
		s.Timed()
		s.pool(1, of(1, 4, Config{Idle: time.Second}))
		s.submit(0, 0)
		s.Go("time", func() { s.done.Wait(); s.Advance(2 * time.Second) })
		s.wait(0)
		s.shutdown(0)
	})
	add("reclaim beside Submit and Resize", 2, nil, func(s *sim) {
		s.Timed()
		s.pool(2, of(1, 4, Config{Idle: time.Second}))
		s.most[0] = 2
		s.submit(0, 0)
		s.Go("time", func() { s.Advance(2 * time.Second) })
		s.Go("sizer", func() { s.root.Resize(1, 2) })
		s.submit(0, 1)
		s.end()
	})
	add("Resize with a minimum", 2, nil, func(s *sim) {
		s.pool(2, of(1, 4, Config{}))
		s.most[0] = 2
		s.Go("sizer", func() { s.root.Resize(2, 2); s.root.Resize(0, 1) })
		s.submit(0, 0)
		s.submit(0, 1)
		s.end()
	})
	add("a worker runs one task", 3, nil, func(s *sim) {
		s.pool(3, of(1, 4, Config{TasksPerWorker: 1}))
		s.submit(0, 0)
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 2)
		s.end()
	})
	add("a worker runs one task, and Wait, and a minimum", 2, nil, func(s *sim) {
		s.pool(2, of(2, 4, Config{TasksPerWorker: 1, Min: 1}))
		s.submit(0, 0)
		s.submit(0, 1)
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	add("Goexit", 3, nil, func(s *sim) {
		s.failed = 1
		s.pool(2, of(1, 4, Config{}))
		s.and(0, 0, func() { s.finished(); runtime.Goexit() })
		s.submit(0, 1)
		s.end()
	})
	add("Goexit in a record, and Wait", 2, nil, func(s *sim) {
		s.failed = 1
		s.pool(2, of(1, 4, Config{}))
		b := s.record(0, 0, func() error { runtime.Goexit(); return nil })
		s.giveRecord(b, Block)
		s.Go("other", func() { s.submit(0, 1) })
		s.wait(0)
		s.hasRun("Wait returned", 0)
		if b.err != ErrGoexit {
			s.Failf("%v", b.err)
		}
		s.end()
	})
	add("start hook", 3, nil, func(s *sim) {
		n := 0
		s.pool(2, of(2, 4, Config{Eager: true, Start: func(int) { sy.Access(&s.alone, sy.Write); n++ }}))
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.end()
	})
	add("no more are in start hooks than there are tasks", 2, nil, func(s *sim) {
		s.pool(2, of(3, 4, Config{Eager: true, Start: func(int) { sy.Access(&s.alone, sy.Write) }}))
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.end()
		if n := s.root.crew.staff.peak; n > 2 {
			s.Failf("%d workers for 2 tasks", n)
		}
	})
	add("a start hook waits for a task of another worker", 2, nil, func(s *sim) {
		e := sy.MakeLatch()
		s.pool(2, of(2, 4, Config{Eager: true, Start: func(id int) {
			if id == 0 {
				e.Wait()
			}
		}}))
		s.submit(0, 0)
		s.and(0, 1, e.Open)
		s.end()
	})
	add("growth asks, and start hooks", 2, nil, func(s *sim) {
		s.Procs = 1
		s.pool(3, of(3, 4, Config{Start: func(id int) { sy.Access(&s.alone, sy.Write) }}))
		s.root.crew.Eager = false
		s.Go("other", func() { s.submit(0, 2) })
		s.submit(0, 0)
		s.submit(0, 1)
		s.end()
	})
	add("a start hook, a parked worker, and first waits for second", 2, nil, func(s *sim) {
		s.pool(2, of(2, 4, Config{Min: 1, Eager: true, Start: func(id int) { sy.Access(&s.alone, sy.Write) }}))
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.Go("other", func() { s.and(0, 1, e.Set) })
		s.end()
	})
	add("a start hook beside Close", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4, Config{Min: 1, Eager: true, Start: func(id int) { sy.Access(&s.alone, sy.Write) }, Stop: func(id int) { sy.Access(&s.alone, sy.Write) }}))
		s.block(0, 0, nil)
		s.close(0)
	})
	add("a start hook ends its goroutine", 2, nil, func(s *sim) {
		s.pool(2, of(1, 4, Config{Eager: true, Start: func(id int) { runtime.Goexit() }}))
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.end()
	})
	add("a Sizer that says no, first waits for second", 2, nil, func(s *sim) {
		s.pool(2, of(2, 4, Config{Sizer: func(Sizing) bool { return false }}))
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.end()
	})
	add("a Sizer, two submitters", 2, nil, func(s *sim) {
		asking := 0
		s.pool(3, of(2, 4, Config{Sizer: func(z Sizing) bool {
			sy.Access(&s.alone, sy.Write)
			if asking++; asking > 1 {
				s.Failf("two are asked at once")
			}
			sy.Access(&s.alone, sy.Write)
			asking--
			return z.Workers == 0 || z.Queued > 1
		}}))
		s.Go("other", func() { s.submit(0, 1) })
		s.submit(0, 0)
		s.submit(0, 2)
		s.end()
	})
	add("a Sizer and start hooks, and Close", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(2, 4, Config{Start: func(id int) { sy.Access(&s.alone, sy.Write) }, Sizer: func(z Sizing) bool { return true }}))
		s.block(0, 0, nil)
		s.block(0, 1, nil)
		s.close(0)
	})
	add("growth asks: first waits for second", 2, nil, func(s *sim) {
		s.Procs = 1
		s.pool(2, of(2, 4, Config{}))
		s.root.crew.Eager = false
		e := sy.MakeEvent()
		s.and(0, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.end()
	})
	add("growth asks: a lane's task waits for another's", 2, nil, func(s *sim) {
		s.Procs = 1
		s.pool(2, of(2, 4, Config{}))
		s.root.crew.Eager = false
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 4})
		e := sy.MakeEvent()
		s.and(a, 0, e.Wait)
		s.and(0, 1, e.Set)
		s.end()
	})
	add("a sub ends before its parent, which ends before the root", 2, nil, func(s *sim) {
		s.pool(0, of(1, 4, Config{}))
		m := s.sub(0, LaneConfig{Max: 1, Capacity: 4})
		a := s.sub(m, LaneConfig{Max: 1, Capacity: 4})
		s.block(a, 0, nil)
		s.Go("root", func() {
			s.shutdown(0)
			if !s.lanes[m].done.IsOpen() || !s.lanes[a].done.IsOpen() {
				s.Failf("the root has ended before what is below it")
			}
		})
		s.shutdown(m)
		if !s.lanes[a].done.IsOpen() {
			s.Failf("a lane has ended before one below it")
		}
		s.hasRun("Shutdown returned", 0)
	})
	add("Sub beside Shutdown", 3, nil, func(s *sim) {
		s.pool(0, of(1, 4, Config{}))
		s.Go("other", func() {
			l := new(Lane)
			if s.root.Sub(l, LaneConfig{Max: 1, Capacity: 1, Owner: simOwner{s}}) == nil {
				l.End(true, ErrClosed)
				l.done.Wait()
			}
		})
		s.shutdown(0)
	})
	add("a task closes its own pool", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(1, of(2, 4, Config{}))
		s.and(0, 0, func() { s.root.End(true, ErrClosed) })
		s.give(0, 1, s.loose(0, 1, nil), Block, nil)
		s.done.Wait()
		s.root.done.Wait()
	})
	return ms
}
