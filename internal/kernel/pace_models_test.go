//go:build poolsim

package kernel

import (
	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

// paceModels are about submitters that are far ahead of the workers.
func paceModels() (ms []suite.Model) {
	add := func(name string, bound int, reach []string, run func(s *sim)) {
		ms = append(ms, suite.Model{Name: "pace/" + name, Bound: bound, Reach: reach, Run: on(run)})
	}
	// open makes a pool of n tasks. Five of them wait, of which the first calls f, and the lease is used
	// up. So whoever submits next is far ahead, if no worker has come meanwhile.
	open := func(s *sim, n int, f func()) {
		s.Hurries()
		s.pool(n, conf{Max: 1, Capacity: 100})
		s.root.pacing.Store(&pacing{far: farAhead})
		s.root.Pause()
		s.and(0, 0, f)
		for i := 1; i < 5; i++ {
			s.submit(0, i)
		}
	}
	add("a worker wakes the submitter, or the alarm", 2, []string{"ahead", "follow"}, func(s *sim) {
		open(s, 7, nil)
		s.root.Resume()
		s.submit(0, 5)
		s.submit(0, 6)
		s.end()
	})
	add("the worker waits for the submitter", 2, []string{"ahead", "in vain"}, func(s *sim) {
		e := sy.MakeEvent()
		open(s, 7, e.Wait)
		s.root.Resume()
		s.submit(0, 5)
		p := s.root.pacing.Load()
		parked, far := p.tail != 0, p.far
		s.submit(0, 6)
		if parked && (far <= farAhead || p.far != far) {
			s.Failf("it has parked in vain, and is to do so again: far %d, then %d", far, p.far)
		}
		e.Set()
		s.end()
	})
	add("in a pause", 2, []string{"in vain"}, func(s *sim) {
		open(s, 6, nil)
		s.submit(0, 5)
		s.root.Resume()
		s.end()
	})
	add("two submitters", 1, []string{"ahead", "follow"}, func(s *sim) {
		open(s, 8, nil)
		s.Go("other", func() { s.submit(0, 5); s.submit(0, 7) })
		s.root.Resume()
		s.submit(0, 6)
		s.end()
	})
	add("two submitters wait, and the worker for both", 1, []string{"ahead"}, func(s *sim) {
		e, f := sy.MakeEvent(), sy.MakeEvent()
		open(s, 7, func() { e.Wait(); f.Wait() })
		s.root.Resume()
		s.Go("other", func() { s.submit(0, 5); e.Set() })
		s.submit(0, 6)
		f.Set()
		s.end()
	})
	add("and Close", 2, []string{"ahead"}, func(s *sim) {
		s.drops = true
		open(s, 0, nil)
		s.Go("closer", func() { s.close(0) })
		s.block(0, 5, nil)
		s.root.done.Wait()
	})
	add("a task, and Close", 2, nil, func(s *sim) {
		s.drops = true
		open(s, 0, func() { s.block(0, 5, nil) })
		s.root.pacing.Load().far = 1
		s.Go("closer", func() { s.close(0) })
		s.root.Resume()
		s.root.done.Wait()
	})
	add("an alarm rings late, and another submitter comes", 2, []string{"ahead"}, func(s *sim) {
		e := sy.MakeLatch()
		open(s, 8, e.Wait)
		s.root.Resume()
		s.Go("other", func() { s.submit(0, 5); s.submit(0, 7) })
		s.submit(0, 6)
		e.Open()
		s.end()
	})
	add("and Shutdown", 2, []string{"ahead"}, func(s *sim) {
		open(s, 0, nil)
		s.root.Resume()
		s.Go("closer", func() { s.shutdown(0) })
		s.block(0, 5, nil)
		s.root.done.Wait()
	})
	add("and its context ends", 2, []string{"ahead", "no longer ahead"}, func(s *sim) {
		open(s, 6, nil)
		ctx := explore.NewContext()
		s.Go("canceler", ctx.Cancel)
		if err := s.give(0, 5, s.task(0, 5, nil), Block, ctx); err != nil {
			s.Failf("Submit: %v", err)
		}
		if n := len(s.root.pacing.Load().parked); n != 0 {
			s.Failf("%d wait, after it has returned", n)
		}
		s.root.Resume()
		s.end()
	})
	add("a task does not park", 2, nil, func(s *sim) {
		open(s, 6, func() { s.submit(0, 5) })
		s.root.pacing.Load().far = 1
		s.root.Resume()
		s.end()
		if s.root.pacing.Load().tail != 0 {
			s.Failf("it has parked")
		}
	})
	add("TrySubmit does not park", 1, nil, func(s *sim) {
		open(s, 6, nil)
		if !s.try(0, 5, nil) {
			s.Failf("refused")
		}
		if s.root.pacing.Load().tail != 0 {
			s.Failf("it has parked")
		}
		s.root.Resume()
		s.end()
	})
	add("in a lane that is closed and one beside it", 1, []string{"ahead"}, func(s *sim) {
		s.drops = true
		s.Hurries()
		s.pool(0, conf{Max: 1, Capacity: 100})
		a := s.sub(0, LaneConfig{Max: 1, Capacity: 100})
		s.lanes[a].pacing.Store(&pacing{far: farAhead})
		s.root.Pause()
		for i := range 5 {
			s.submit(a, i)
		}
		s.Go("closer", func() { s.root.Resume(); s.close(a) })
		s.block(a, 5, nil)
		s.try(0, 6, nil)
		s.close(0)
	})
	return ms
}
