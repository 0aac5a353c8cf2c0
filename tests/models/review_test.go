//go:build poolsim

package models

import (
	"context"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/explore/suite"
)

// reviewModels are what readers found.
var reviewModels = []suite.Model{
	{Name: "group/a task goes beyond the limit while another waits there", Bound: 2, Run: onPool(func(s *sim) {
		s.pool(0, shoal.WithMaxWorkers(2))
		g := s.p.Group(context.Background(), shoal.Limit(1))
		inside := false
		s.in(g, 0, func(context.Context) error {
			inside = true
			s.in(g, 1, nothing) // here, beyond the limit
			s.p.Queued()        // others may run
			inside = false
			return nil
		})
		s.in(g, 2, func(context.Context) error {
			if inside {
				s.Failf("task 2 was let in while task 0 runs, the limit is 1")
			}
			return nil
		})
		s.ended(g, nil, 0, 1, 2)
		s.shutdown()
	})},
	{Name: "keyed/a strand that is used again, detached, ends with the pool", Bound: 3, Run: onPool(func(s *sim) {
		s.keyedPool(0, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		s.fill()
		s.drops = true
		s.Go("other", func() { s.keepOrSpawn(0) })
		s.endsWithThePool(1)
	})},
}

func (s *sim) keepOrSpawn(i int) {
	s.accepted[i] = true
	s.took(i, s.keys.Submit("key", func() { s.did(i) }))
}
