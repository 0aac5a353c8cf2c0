package kernel

import (
	"context"
	"time"
	"weak"

	"github.com/shoal-go/shoal/internal/sy"
)

// An alarm calls a function of a lane later, on a goroutine of its own: when its timer is due, or a
// context ends. It is set until that function has returned. While it is set and may still be stopped, it does
// not keep the lane from its end: settleQuiet stops it then. Guarded by the lock of the family.
type alarm struct {
	stop func() bool // nil: it is not set
}

// stopped stops a, and reports whether its function does not run, and will not. If it returns
// false, the goroutine of the function is about to come to the lock. Locked.
func (a *alarm) stopped() bool {
	if a.stop != nil && a.stop() {
		a.stop = nil
	}
	return a.stop == nil
}

// set makes a ring after d. Locked.
func (l *Lane) set(a *alarm, d time.Duration, f, again func()) {
	a.stop = sy.AfterFunc(d, func() { l.ring(a, f, again) }).Stop
}

// ring calls f, for which a was set, and then, under the lock, again, which may set a anew.
func (l *Lane) ring(a *alarm, f, again func()) {
	f()
	l.crew.enter()
	a.stop = nil
	again()
	l.crew.touch(l) // its end may wait for that
	l.crew.leave()
}

// Follow makes an alarm call f when ctx has ended, unless l ends before. The methods of ctx may be the user's,
// and come to the lock themselves, and setting or stopping an alarm for ctx calls them. So the
// alarm is set for a context below ctx, which is made and canceled without the lock.
func (l *Lane) Follow(ctx context.Context, f func()) {
	below, cancel := sy.WithCancelCause(ctx)
	l.crew.enter()
	if !l.ended {
		l.follows.stop = sy.AfterDone(below, func() { l.ring(&l.follows, f, nothing) })
	}
	l.letGo = func() { cancel(nil) }
	l.crew.touch(l) // if it has ended meanwhile, settleQuiet lets go of ctx
	l.crew.leave()
}

// A sampler calls a function of a client now and then while a worker of the family is awake. While
// none is, the sampler rests; the goroutine that wakes or starts a worker sets it again.
type sampler struct {
	alarm
	every  time.Duration
	sample func() // nil: there is no sampler
}

// nextSample sets l's sampler, or lets it rest. Locked.
func (l *Lane) nextSample() {
	switch s, c := &l.sampler, l.crew; {
	case s.sample == nil || l.ended:
	case c.live == len(c.idle):
		c.resting = append(c.resting, weak.Make(l)) // weak, to keep no lane in memory that was dropped
	default:
		l.set(&s.alarm, s.every, s.sample, l.nextSample)
	}
}

// wakeSamplers sets the samplers that rest, as a worker is awake. Locked.
func (c *Crew) wakeSamplers() {
	for _, p := range c.resting {
		if l := p.Value(); l != nil {
			l.nextSample()
		}
	}
	c.resting = c.resting[:0]
}
