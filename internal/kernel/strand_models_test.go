//go:build poolsim

package kernel

import (
	"context"

	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A strand is the simplest Strand: tasks that run one after the other.
type strand struct {
	Record
	s      *sim
	k      int
	mu     sy.Mutex
	tasks  []*keyed
	active bool
	inside int
	fast   bool // submitters try without the lock of the family
}

// A keyed is a task of a strand.
type keyed struct {
	Record
	st            *strand
	i             int
	f             func() error
	over, results int
	err           error
}

func (s *sim) strand(k int) *strand {
	st := &strand{s: s, k: k}
	st.Init(st, s.lanes[k])
	s.After(func() {
		if len(st.tasks) > 0 || st.active || st.inside > 0 {
			s.Failf("strand at the end: %d tasks, active %v", len(st.tasks), st.active)
		}
	})
	return st
}

// give submits task i of st.
func (st *strand) give(i int, p Policy, f func() error) error {
	s := st.s
	t := &keyed{st: st, i: i, f: f}
	t.Init(t, s.lanes[st.k])
	s.After(func() {
		if n := t.over; n != t.results || n > 1 || s.ok[i] && n != 1 {
			s.Failf("task %d of a strand: over %d times, resolved %d times", i, n, t.results)
		}
		if s.ok[i] && s.ran[i] == 0 && t.err == nil {
			s.Failf("task %d of a strand did not run, and has no error", i)
		}
	})
	s.lane[i], s.ok[i] = st.k, true
	if st.fast && st.giveFast(t) {
		return nil
	}
	err := s.lanes[st.k].SubmitSlow(queue.Record(&t.Record), p, context.Background())
	s.ok[i] = err == nil
	return err
}

// giveFast submits t without the lock of the family, if there is a lease.
func (st *strand) giveFast(t *keyed) (ok bool) {
	l, mustLook := st.s.lanes[st.k], false
	st.mu.Lock()
	if st.active {
		if ok = l.Hold(); ok {
			st.tasks = append(st.tasks, t)
		}
	} else {
		st.tasks = append(st.tasks, t) // before the activation may run
		st.active = true
		st.Again()
		if ok, mustLook = l.Try(queue.Record(&st.Record)); !ok {
			st.tasks = st.tasks[:len(st.tasks)-1]
			st.active = false
		}
	}
	st.mu.Unlock()
	if mustLook {
		l.Look()
	}
	return ok
}

// submit is give for a task that must be accepted.
func (st *strand) submit(i int) { st.and(i, nil) }

func (st *strand) and(i int, f func()) {
	if err := st.give(i, Block, func() error {
		if f != nil {
			f()
		}
		return nil
	}); err != nil {
		st.s.Failf("Submit of task %d: %v", i, err)
	}
}

func (t *keyed) Join() *Record {
	st := t.st
	st.mu.Lock()
	defer st.mu.Unlock()
	st.tasks = append(st.tasks, t)
	if st.active {
		return nil
	}
	st.active = true
	st.Again()
	return &st.Record
}

func (t *keyed) Refused() error         { return nil }
func (t *keyed) Run() error             { panic("run without having joined") }
func (t *keyed) Over(err error)         { t.over++; t.err = err }
func (t *keyed) Cut(cause error)        {}
func (t *keyed) Returns(err error) bool { return true }
func (t *keyed) Resolve(err error)      { t.results++; t.st.s.finished() }
func (t *keyed) Outer() context.Context { return nil }

func (st *strand) first() *keyed {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.tasks[0]
}

func (st *strand) Refused() error { return nil }
func (st *strand) Run() (err error) {
	t := st.first()
	if st.inside++; st.inside > 1 {
		st.s.Failf("two tasks of a strand run")
	}
	defer func() { st.inside-- }()
	until := st.k // inline
	if st.Keep != nil {
		until = -1
	}
	st.s.inside(st.k, t.i, until, func() {
		if t.f != nil {
			err = t.f()
		}
	})
	return err
}
func (st *strand) Over(err error)         { st.first().Over(err) }
func (st *strand) Cut(cause error)        {}
func (st *strand) Returns(err error) bool { return true }
func (st *strand) Resolve(err error)      { panic("a strand was resolved") }
func (st *strand) Outer() context.Context { return nil }

func (st *strand) Next() (first *Record, more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	first, st.tasks = &st.tasks[0].Record, st.tasks[1:]
	st.active = len(st.tasks) > 0
	return first, st.active
}

// strandModels are about tasks that run one after the other.
func strandModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "strands/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	of := func(max, capacity int) conf { return conf{Max: max, Capacity: capacity} }
	add("three tasks", 3, []string{"carry on"}, func(s *sim) {
		s.pool(3, of(2, 4))
		st := s.strand(0)
		st.submit(0)
		st.submit(1)
		st.submit(2)
		s.end()
	})
	add("two submitters", 3, nil, func(s *sim) {
		s.pool(4, of(2, 4))
		st := s.strand(0)
		s.Go("other", func() { st.submit(2); st.submit(3) })
		st.submit(0)
		st.submit(1)
		s.end()
	})
	add("longer than its turn, others wait", 2, []string{"carry on", "activate again"}, func(s *sim) {
		s.pool(6, of(1, 8))
		st := s.strand(0)
		for i := range 5 {
			st.submit(i)
		}
		s.Go("other", func() { s.submit(0, 5) })
		s.end()
	})
	add("in a pause no task begins", 2, nil, func(s *sim) {
		s.pool(3, of(1, 4))
		st := s.strand(0)
		st.submit(0)
		st.submit(1)
		st.submit(2)
		s.root.Pause()
		waits := s.root.Snapshot().Waiting
		sy.Yield()
		if n := s.root.Snapshot().Waiting; n < waits {
			s.Failf("%d wait in a pause, then %d", waits, n)
		}
		s.root.Resume()
		s.end()
	})
	add("what waits in a strand is counted", 2, nil, func(s *sim) {
		s.pool(3, of(1, 4))
		st := s.strand(0)
		s.root.Pause()
		st.submit(0)
		st.submit(1)
		st.submit(2)
		if n := s.root.Snapshot(); n.Waiting != 3 || n.InFlight != 3 || n.Submitted != 3 {
			s.Failf("%+v", n.Count)
		}
		s.root.Resume()
		s.end()
	})
	add("Wait", 3, nil, func(s *sim) {
		s.pool(3, of(1, 4))
		st := s.strand(0)
		st.submit(0)
		s.Go("other", func() { st.submit(2) })
		st.submit(1)
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	add("Wait, and another lane has tasks", 2, nil, func(s *sim) {
		s.pool(3, of(1, 4))
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 4})
		st := s.strand(a)
		st.submit(0)
		s.submit(0, 2)
		st.submit(1)
		s.wait(a)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	add("Wait, tasks fail", 2, nil, func(s *sim) {
		s.failed = 2
		s.pool(3, of(1, 4))
		st := s.strand(0)
		st.give(0, Block, func() error { return errTask })
		s.Go("other", func() { st.submit(2) })
		st.give(1, Block, func() error { panic("x") })
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	add("Wait, the first task panics", 2, nil, func(s *sim) {
		s.failed = 1
		s.pool(2, of(1, 4))
		st := s.strand(0)
		st.give(0, Block, func() error { panic("x") })
		st.submit(1)
		s.wait(0)
		s.hasRun("Wait returned", 0, 1)
		s.end()
	})
	add("after its turn a strand waits for others", 2, nil, func(s *sim) {
		s.pool(6, of(1, 8))
		st := s.strand(0)
		s.root.Pause()
		for i := range 5 {
			st.submit(i)
		}
		s.submit(0, 5)
		s.root.Resume()
		s.end()
		if s.at(5) == 5 {
			s.Failf("order %v", s.order)
		}
	})
	add("Shutdown", 3, nil, func(s *sim) {
		s.pool(0, of(1, 4))
		st := s.strand(0)
		st.submit(0)
		s.Go("other", func() { st.give(2, Block, nil) })
		st.submit(1)
		s.shutdown(0)
	})
	add("Shutdown of a lane, and another has tasks", 2, nil, func(s *sim) {
		s.pool(0, of(2, 4))
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 4})
		st := s.strand(a)
		st.submit(0)
		s.submit(0, 2)
		st.submit(1)
		s.shutdown(a)
		s.shutdown(0)
	})
	add("Close", 3, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4))
		st := s.strand(0)
		st.submit(0)
		s.Go("other", func() { st.give(2, Block, nil); st.give(3, Block, nil) })
		st.submit(1)
		s.close(0)
	})
	add("Close, tasks fail", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4))
		s.After(func() { s.failed = s.ran[0] })
		st := s.strand(0)
		s.Go("other", func() { st.give(0, Block, func() error { s.failed++; return errTask }) })
		st.submit(1)
		st.submit(2)
		s.close(0)
	})
	for _, what := range []string{"Wait", "Shutdown", "Close", "another lane", "full"} {
		add("without the lock: "+what, 2, nil, func(s *sim) {
			room := 4
			if what == "full" {
				room = 1
			}
			s.drops = what == "Close"
			s.pool(5, of(2, room))
			k := 0
			if what == "another lane" {
				k = s.sub(0, LaneConfig{Max: 1, Capacity: 4})
			}
			st := s.strand(k)
			st.fast = true
			s.submit(k, 4) // gives a lease out
			s.Go("other", func() { st.give(2, Block, nil); st.give(3, Block, nil) })
			st.give(0, Block, nil)
			if what == "another lane" {
				s.left.Add(1)
				s.submit(0, 5)
			}
			st.give(1, Block, nil)
			switch what {
			case "Wait":
				s.wait(0)
				s.hasRun("Wait returned", 0, 1, 4)
				s.end()
			case "Shutdown":
				s.shutdown(0)
			case "Close":
				s.close(0)
			default:
				s.wait(k)
				s.hasRun("Wait returned", 0, 1, 4)
				s.end()
			}
		})
	}
	add("full: a task that joins waits for capacity", 3, nil, func(s *sim) {
		s.pool(4, of(1, 1))
		st := s.strand(0)
		s.Go("other", func() { st.submit(2); s.submit(0, 3) })
		st.submit(0)
		st.submit(1)
		s.end()
	})
	add("bound: those that wait in a strand count", 2, nil, func(s *sim) {
		s.pool(3, of(1, 2))
		st := s.strand(0)
		e := sy.MakeLatch()
		st.and(0, e.Wait)
		st.submit(1)
		st.submit(2)
		if s.try(0, 3, nil) {
			s.Failf("a fourth of three")
		}
		s.Go("opener", e.Open)
		s.end()
	})
	add("a task joins in a lane that is idle", 2, nil, func(s *sim) {
		s.pool(4, of(2, 4))
		a := s.sub(0, LaneConfig{Max: 2, Capacity: 4})
		st := s.strand(a)
		e, began := sy.MakeEvent(), sy.MakeEvent()
		st.and(0, func() { began.Set(); e.Wait() })
		began.Wait()
		s.submit(0, 1) // another lane is ready, so that the first goes idle
		st.submit(2)
		s.and(a, 3, e.Set)
		s.end()
	})
	// behind has two tasks of a strand wait behind one that ends when e is opened; the queue is full.
	behind := func(s *sim) (e sy.Latch) {
		s.drops = true
		s.pool(0, of(1, 2))
		e = sy.MakeLatch()
		s.and(0, 0, e.Wait)
		st := s.strand(0)
		st.submit(1)
		st.submit(2)
		return e
	}
	for _, by := range []string{"", ", beside Wait"} {
		add("DropOldest displaces the first of a strand"+by, 2, []string{"displace"}, func(s *sim) {
			e := behind(s)
			displace := func() { s.give(0, 3, s.loose(0, 3, nil), DropOldest, nil) }
			if by == "" {
				displace()
			} else {
				s.Go("displacer", displace)
			}
			s.Go("opener", e.Open)
			s.wait(0)
			s.hasRun("Wait returned", 2)
			s.shutdown(0)
		})
	}
	add("DropOldest and Close", 2, []string{"displace"}, func(s *sim) {
		e := behind(s)
		s.Go("other", func() { s.give(0, 3, s.loose(0, 3, nil), DropOldest, nil) })
		s.Go("opener", e.Open)
		s.close(0)
	})
	for _, p := range []Policy{CallerRuns, Spawn} {
		pre := map[Policy]string{CallerRuns: "CallerRuns: ", Spawn: "Spawn: "}[p]
		add(pre+"a strand that runs inline, and more of it", 2, nil, func(s *sim) {
			s.pool(3, of(1, 0))
			st := s.strand(0)
			e := sy.MakeLatch()
			s.and(0, 0, e.Wait)
			s.Go("other", func() { st.give(1, p, nil) })
			s.Go("third", func() { st.give(2, p, nil) })
			s.Go("opener", e.Open)
			s.wait(0)
			s.hasRun("Wait returned", 0)
			s.end()
		})
		add(pre+"and Close", 2, nil, func(s *sim) {
			s.drops = true
			s.pool(0, of(1, 0))
			st := s.strand(0)
			s.root.Pause()
			s.Go("other", func() { st.give(1, p, nil) })
			s.Go("third", func() { st.give(2, p, nil) })
			s.try(0, 0, nil)
			s.close(0)
		})
	}
	add("RunInline in a lane that never had a ticket, a task joins, Close", 2, nil, func(s *sim) {
		s.drops = true
		s.pool(0, of(1, 4))
		st := s.strand(0)
		e, began := sy.MakeEvent(), sy.MakeEvent()
		s.Go("other", func() {
			t := &keyed{st: st, i: 0, f: func() error { began.Set(); e.Wait(); return nil }}
			t.Init(t, s.root)
			s.ok[0] = true
			s.root.RunInline(queue.Record(&t.Record), 0)
		})
		began.Wait()
		st.submit(1)
		s.Go("setter", e.Set)
		s.close(0)
	})
	return ms
}
