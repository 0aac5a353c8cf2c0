//go:build poolsim

package kernel

import (
	"context"
	"testing"
	"time"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// TestShares: the time that lanes get is in proportion to their weights, whatever their tasks
// take, at each level of the tree; and a lane's own tasks have a share beside those below it. The
// clock is the model's.
func TestShares(t *testing.T) {
	type leaf struct {
		l      *Lane
		weight float64
		task   time.Duration
		used   time.Duration
	}
	var leaves []*leaf
	rep := explore.Explore(on(func(s *sim) {
		s.Timed()
		s.unnumbered = true
		s.pool(0, conf{Max: 1, Capacity: 10})
		lane := func(up, weight int) int { return s.sub(up, LaneConfig{Max: 1, Capacity: 10, Weight: weight}) }
		inner := lane(0, 4)
		leaves = []*leaf{
			{l: s.root, weight: 1. / 8, task: 80 * time.Microsecond},
			{l: s.lanes[lane(0, 3)], weight: 3. / 8, task: 30 * time.Microsecond},
			{l: s.lanes[inner], weight: 4. / 8 * 1 / 4, task: 150 * time.Microsecond},
			{l: s.lanes[lane(inner, 3)], weight: 4. / 8 * 3 / 4, task: 300 * time.Microsecond},
		}
		var total time.Duration
		stop := sy.MakeLatch()
		s.root.Pause()
		for _, f := range leaves {
			var task func()
			task = func() {
				s.Advance(f.task)
				f.used += f.task
				if total += f.task; total < 15*time.Millisecond {
					f.l.give(task)
				} else if !stop.IsOpen() {
					stop.Open()
				}
			}
			f.l.give(task)
			f.l.give(task)
		}
		s.root.Resume()
		stop.Wait()
		s.root.End(true, ErrClosed)
	}), explore.PCT(5, 1, 1), explore.Limits{})
	if f := rep.Failure; f != nil {
		t.Fatal(f.Why)
	}
	sum := time.Duration(0)
	for _, f := range leaves {
		sum += f.used
	}
	for i, f := range leaves {
		share := float64(f.used) / float64(sum)
		t.Logf("lane %d: %.3f of the time, %.3f by its weight", i, share, f.weight)
		if share < f.weight*0.9 || share > f.weight*1.1 {
			t.Errorf("lane %d: %.3f of the time, %.3f by its weight", i, share, f.weight)
		}
	}
}

func (l *Lane) give(f func()) {
	if it := queue.Func(f); !l.Submit(it) {
		l.SubmitSlow(it, Block, context.Background())
	}
}
