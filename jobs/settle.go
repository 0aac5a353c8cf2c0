package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shoal-go/shoal"
)

// This file is what becomes of a job when its handler has ended, and how the source is told.

// errSpent is the result of a job that is not run, as its leases are used up.
var errSpent = errors.New("not run: no attempt before has settled the job")

// settle tells the source the result of j, whose handler has ended with v.
func (s *server) settle(ctx context.Context, j *Job, v verdict) {
	s.mu.Lock()
	s.inside.Remove(j.inside)
	if j.state != running { // it was given back, and its result comes too late
		s.lookQuietLocked()
		s.mu.Unlock()
		return
	}
	j.state = settling
	wait := s.keep.releaseLocked(j)
	lost, closed := j.lost, errors.Is(context.Cause(ctx), shoal.ErrClosed)
	s.mu.Unlock()
	defer s.done(j) // whatever the source does
	wait()

	stopped := closed || v.stopped
	if v.err != nil && !lost && !stopped && !v.retry {
		s.fail(j, v.text)
	}
	switch {
	case v.err == nil:
		if s.call(s.base, j, "ack", j.d.Ack) {
			s.count(&s.stats.Acked)
		}
	case lost:
	case stopped:
		s.release(s.base, j)
	case v.retry:
		s.nak(s.base, j, v.after)
	case v.poison:
		s.term(j, v.text, v.output)
	case v.err == errSpent:
		s.term(j, ofMost("lease", j.d.Attempt(), s.maxLeases)+": "+v.text, "")
	case s.maxAttempts > 0 && j.d.Attempt() >= s.maxAttempts:
		s.term(j, ofMost("attempt", j.d.Attempt(), s.maxAttempts)+": "+v.text, v.output)
	default:
		after := Backoff(j.d.Attempt())
		defer func() { s.nak(s.base, j, max(0, after)) }() // also if backoff panics
		after = s.backoff(j.d.Attempt())
	}
}

// ofMost says that a job has had n of something, of which most is the limit. It may have had
// more: leases that have run out count, and the limit may have been lowered.
func ofMost(what string, n, most int) string {
	if n > most {
		return fmt.Sprintf("%s %d, over the limit of %d", what, n, most)
	}
	return fmt.Sprintf("%s %d of %d", what, n, most)
}

func (s *server) nak(ctx context.Context, j *Job, after time.Duration) {
	if s.call(ctx, j, "give back", func(ctx context.Context) error { return j.d.Nak(ctx, after) }) {
		s.tally(j, &s.stats.Retried)
	}
}

// release gives back j, which was not run or was interrupted.
func (s *server) release(ctx context.Context, j *Job) {
	if s.call(ctx, j, "give back", j.d.Release) {
		s.tally(j, &s.stats.Retried)
	}
}

// term buries j, whose last error has that text. Its handler has written output.
func (s *server) term(j *Job, text, output string) {
	reason := reasonOf(text, output)
	if s.call(s.base, j, "bury", func(ctx context.Context) error { return j.d.Term(ctx, reason) }) {
		s.tally(j, &s.stats.Dead)
		s.log.Warn("jobs: a job became a dead letter", "job", j.d.ID(), "type", j.as.Type, "attempt", j.d.Attempt(), "reason", reasonOf(text, "")) // without the output, which may be long
	}
}

// call calls f, a method of the source that settles j. While it is not known whether f had its
// effect, call repeats it, but only until ctx ends or the lease is over: after that it might concern
// the next attempt. call reports whether f had its effect.
func (s *server) call(ctx context.Context, j *Job, what string, f func(context.Context) error) bool {
	s.mu.Lock()
	ends := j.lease.ends
	s.mu.Unlock()
	again, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	pause := firstPause
	for {
		once, cancel := context.WithTimeout(ctx, min(mostCall, s.keep.lease/4)) // an answer may be lost
		err := f(once)
		cancel()
		switch {
		case err == nil:
			return true
		case errors.Is(err, ErrAcked):
			s.count(&s.stats.Acked)
			s.log.Warn("jobs: a handler failed after its job was acknowledged; the job counts as done", "job", j.d.ID(), "attempt", j.d.Attempt(), "call", what)
			return false
		case errors.Is(err, ErrLeaseLost):
			s.lose(j, err)
			return false
		}
		select {
		case <-time.After(pause):
		case <-again.Done():
		}
		if again.Err() == nil {
			pause *= 2
			continue
		}
		s.tally(j, &s.stats.Untold)
		s.log.Error("jobs: settling a job failed until its lease, or the time to give it back, was over; the job will run again",
			"job", j.d.ID(), "call", what, "err", err)
		return false
	}
}
