//go:build poolsim

package grow

import (
	"testing"
	"time"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/sy"
)

func newCrew(m *explore.M, procs int) *Crew {
	m.Procs, m.Runnable = procs, 9
	c := new(Crew)
	c.Init(time.Time{})
	return c
}

// fits demands that the buckets count the seats that are not away, and only these.
func (c *Crew) fits(m *explore.M, seats ...*Seat) {
	m.After(func() {
		want := map[int64]uint64{}
		for _, s := range seats {
			if s.epoch != 0 {
				want[s.epoch]++
			}
		}
		for i := range c.began {
			b := c.began[i].Load()
			e, n := int64(b>>countBits), b&countMask
			if n > want[e] {
				m.Failf("epoch %d counts %d of %d workers", e, n, want[e])
			}
			if n < want[e] {
				m.Failf("epoch %d counts only %d of %d workers", e, n, want[e])
			}
			delete(want, e)
		}
		for e, n := range want { // the bucket was reused: it must have been long ago
			if last := c.Now() / epochLen; e+freshFor > last {
				m.Failf("epoch %d of %d is gone, with %d workers", e, last, n)
			}
		}
	})
}

func TestExplore(t *testing.T) {
	suite.Test(t, []suite.Model{
		{Name: "grow/workers begin and park while the epoch changes", Run: func(m *explore.M) {
			c := newCrew(m, 2)
			m.Timed()
			var a, b Seat
			c.fits(m, &a, &b)
			m.Go("clock", func() { m.Advance(time.Duration(epochLen)); c.Now() })
			m.Go("a", func() { a.Begin(c); a.Begin(c) })
			b.Begin(c)
			b.Away(c)
		}},
		{Name: "grow/a bucket is reused", Run: func(m *explore.M) {
			c := newCrew(m, 2)
			m.Timed()
			var a, b Seat
			a.Begin(c)
			c.fits(m, &a, &b)
			m.Go("clock", func() { m.Advance(time.Duration(buckets * epochLen)); c.Now() })
			m.Go("a", func() { a.Away(c) })
			b.Begin(c)
			b.Begin(c)
		}},
		{Name: "grow/late readers set the epoch back", Run: func(m *explore.M) {
			c := newCrew(m, 2)
			m.Timed()
			var a Seat
			c.fits(m, &a)
			for range 2 {
				m.Go("reader", func() { m.Advance(time.Duration(epochLen)); c.Now() })
			}
			a.Begin(c)
			a.Begin(c)
		}},
		{Name: "grow/the quota", Run: func(m *explore.M) {
			c := newCrew(m, 2)
			now := c.Now()
			var yields [4]bool
			for i := range 3 {
				m.Go("", func() { yields[i] = c.due(now) })
			}
			m.After(func() {
				n := 0
				for range 3 { // what was left of it
					for _, y := range yields {
						if y {
							n++
						}
					}
					yields = [4]bool{c.due(now)}
				}
				if n != 2 {
					m.Failf("%d yields in a window, 2 CPUs", n)
				}
			})
		}},
		{Name: "grow/yields are counted and taken back", Run: func(m *explore.M) {
			c := newCrew(m, 2)
			var l Look
			for range 2 {
				m.Go("worker", func() {
					var s Seat
					s.Yields(c)
					sy.Yield()
					s.Yielded(c)
					s.Rest(c)
				})
			}
			for start := false; !start; {
				if start = l.Ask(c, 2, 0, 0); !start {
					l.Hold(c)
				}
			}
			m.After(func() {
				if c.yielding.Load() != 0 || yielders.Load() != 0 || holding.Load() != 0 {
					m.Failf("%d yield, %d in all, %d are held back", c.yielding.Load(), yielders.Load(), holding.Load())
				}
			})
		}},
		{Name: "grow/no worker counts twice", Run: func(m *explore.M) {
			c := newCrew(m, 2)
			c.soloUntil.Store(1) // long ago: the rule is asked in any case
			var inTask sy.Int64
			inTask.Store(1)
			m.Go("worker", func() {
				var s Seat
				inTask.Add(-1)
				s.Yields(c)
				sy.Yield()
				s.Yielded(c)
				inTask.Add(1)
			})
			l := Look{still: 1}
			l.Hold(c)
			in := inTask.Load()
			l.Ask(c, int(in)+1, 0, 0)       // the other one is in its task
			if f := c.rule.foreign; f < 7 { // of 9 runnable goroutines
				m.Failf("%d workers count as %d", 2, 9-f)
			}
		}},
		{Name: "grow/one works alone", Run: func(m *explore.M) {
			c := newCrew(m, 2)
			c.soloUntil.Store(c.Now() + soloFor)
			var l Look
			for start := false; !start; { // the clock stands still
				if start = l.Ask(c, 1, 0, 0); !start {
					l.Hold(c)
				}
			}
			if l.still != soloLooks+1 || holding.Load() != 0 {
				m.Failf("it starts at look %d, and %d are held back", l.still, holding.Load())
			}
		}},
	})
}
