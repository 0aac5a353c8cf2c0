package kernel

import (
	"maps"
	"slices"
	"time"
	"weak"

	"github.com/shoal-go/shoal/internal/sy"
)

// A sampler calls a function of a client now and then while a worker of the family is awake. It
// is in one of three states, and changes between them under the lock:
//
//	rests    no worker is awake: whoever wakes or starts one arms it
//	armed    its timer is set, or the timer's function is about to come to the lock
//	samples  its function runs, on a goroutine of its own, which keeps the lane from its end
//
// The timer does not keep a lane from its end: settleQuiet stops it.
type sampler struct {
	every  time.Duration
	sample func() // nil: there is none
	timer  *sy.Timer
	armed  bool
}

// nextSample arms l's sampler, or has it rest. Locked.
func (l *Lane) nextSample() {
	s, c := &l.sampler, l.crew
	switch {
	case s.sample == nil || l.ended:
	case c.live == len(c.idle):
		if c.resting == nil {
			c.resting = map[uint64]weak.Pointer[Lane]{}
		}
		c.resting[l.number] = weak.Make(l) // it does not keep a lane in memory that was dropped
	default:
		s.armed = true
		if s.timer == nil {
			s.timer = sy.AfterFunc(s.every, l.runSample)
		} else {
			s.timer.Reset(s.every)
		}
	}
}

// wakeSamplers arms the samplers that rest, if a worker is awake. Locked.
func (c *Crew) wakeSamplers() {
	if len(c.resting) == 0 || c.live == len(c.idle) {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(c.resting)) {
		l := c.resting[n].Value()
		delete(c.resting, n)
		if l != nil {
			l.nextSample()
		}
	}
}

// stopSampler reports whether the sampler does not sample any more. If not, its timer's function
// is about to come to the lock. Locked.
func (l *Lane) stopSampler() bool {
	if s := &l.sampler; s.armed && s.timer.Stop() {
		s.armed = false
	}
	return !l.sampler.armed
}

// runSample is what the timer calls.
func (l *Lane) runSample() {
	c := l.crew
	c.enter()
	sy.Reach("sample")
	l.sampler.armed = false
	l.retain()
	c.leave()
	l.sampler.sample()
	c.enter()
	l.nextSample()
	l.release()
	c.leave()
}
