package kernel

import (
	"context"
	"time"
	"weak"

	"github.com/shoal-go/shoal/internal/sy"
)

// An alarm calls a function of a lane later, on a goroutine of its own: when its timer is due, or a
// context ends. While it is set it does not keep the lane from its end: settleQuiet stops it then.
// The function does, while it runs. Guarded by the lock of the family.
type alarm struct {
	stop func() bool // nil: it is not set
}

// stopped stops a, and reports whether its function will not be called any more. If it returns
// false, the function is about to come to the lock. Locked.
func (a *alarm) stopped() bool {
	if a.stop != nil && a.stop() {
		a.stop = nil
	}
	return a.stop == nil
}

// ring calls f, for which a was set.
func (l *Lane) ring(a *alarm, f func()) {
	l.crew.read(func() {
		a.stop = nil
		l.retain()
	})
	f()
	l.Release()
}

// Follow makes an alarm call f when ctx has ended, unless l ends before. The methods of ctx may be the user's,
// and come to the lock themselves, and setting or stopping an alarm for ctx calls them. So the
// alarm is set for a context below ctx, which is made and canceled without the lock.
func (l *Lane) Follow(ctx context.Context, f func()) {
	a := &l.follows
	below, cancel := sy.WithCancelCause(ctx)
	ended := false
	l.crew.read(func() {
		if ended = l.ended; !ended {
			a.stop = sy.AfterDone(below, func() { l.ring(a, f) })
			l.letGo = func() { cancel(nil) }
		}
	})
	if ended {
		cancel(nil)
	}
}

// A sampler calls a function of a client now and then while a worker of the family is awake. While
// none is, the sampler rests; the goroutine that wakes or starts a worker sets it again.
type sampler struct {
	alarm
	every  time.Duration
	sample func()
}

// nextSample sets l's sampler, or lets it rest. Locked.
func (l *Lane) nextSample() {
	s, c := l.sampler, l.crew
	switch {
	case s == nil || l.ended:
	case c.live == len(c.idle):
		c.resting = append(c.resting, weak.Make(l)) // weak, to keep no lane in memory that was dropped
	default:
		s.stop = sy.AfterFunc(s.every, func() {
			l.ring(&s.alarm, func() {
				s.sample()
				c.read(l.nextSample)
			})
		}).Stop
	}
}

// wakeSamplers sets the samplers that rest, if a worker is awake. Locked.
func (c *Crew) wakeSamplers() {
	if c.live == len(c.idle) {
		return
	}
	for _, p := range c.resting {
		if l := p.Value(); l != nil {
			l.nextSample()
		}
	}
	c.resting = c.resting[:0]
}
