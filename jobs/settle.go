package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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
	if j.state != running { // it was withdrawn
		j.fine = v.err == nil // back may still see that
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
		s.ack(s.base, j)
	case lost:
	case stopped:
		s.release(s.base, j)
	case v.retry:
		s.nak(s.base, j, v.after)
	case v.poison:
		s.term(j, v.text, v.output)
	case v.err == errSpent:
		s.term(j, ofMost("lease", j.attempt, s.maxLeases)+": "+v.text, "")
	case s.maxAttempts > 0 && j.attempt >= s.maxAttempts:
		s.term(j, ofMost("attempt", j.attempt, s.maxAttempts)+": "+v.text, v.output)
	default:
		after := Backoff(j.attempt)
		defer func() { s.nak(s.base, j, max(0, after)) }() // also if backoff panics
		after = s.backoff(j.attempt)
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

func (s *server) ack(ctx context.Context, j *Job) {
	if s.call(ctx, j, "ack", j.d.Ack) {
		s.count(&s.stats.Acked)
	}
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
		s.log.Warn("jobs: a job became a dead letter", "job", j.as.ID, "type", j.as.Type, "attempt", j.attempt, "reason", reasonOf(text, "")) // without the output, which may be long
	}
}

// call calls f, a method of the source that settles j. While it is not known whether f had its
// effect, call repeats it, but only until ctx ends or the lease is over: after that it might concern
// the next attempt. call reports whether f had its effect.
func (s *server) call(ctx context.Context, j *Job, what string, f func(context.Context) error) bool {
	s.mu.Lock()
	ends := j.lease.ends
	if j.acked { // its lease is extended no more, and nothing is left to tell
		f = func(context.Context) error { return ErrAcked }
	}
	s.mu.Unlock()
	told := false
	defer func() {
		if !told { // also if f has ended the goroutine
			s.tally(j, &s.stats.Untold)
		}
	}()
	again, cancel := context.WithDeadline(ctx, ends)
	defer cancel()
	pause := firstPause
	for {
		once, cancel := context.WithTimeout(ctx, min(mostCall, s.keep.lease/4)) // an answer may be lost
		a := s.answer(once, j, f)
		cancel()
		told = a.err == nil || a.acked || a.lost
		switch {
		case a.err == nil, a.acked && what == "ack":
			return true
		case a.acked:
			s.count(&s.stats.Acked)
			s.log.Warn("jobs: a handler failed after its job was acknowledged; the job counts as done", "job", j.as.ID, "attempt", j.attempt, "call", what)
			return false
		case a.lost:
			s.lose(j, a.err)
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
		s.log.Error("jobs: settling a job failed until its lease, or the time to give it back, was over; the job will run again",
			"job", j.as.ID, "call", what, "err", a.err)
		return false
	}
}

// An answer is what a method of a Delivery has returned. If it is neither nil, acked nor lost, it is
// not known whether the call had its effect.
type answer struct {
	err   error
	acked bool // err is ErrAcked
	lost  bool // err is ErrLeaseLost
}

// answer calls f, a method of the Delivery of j. A panic, of f or of its error, is an error too: it
// would end the process where f is called by a goroutine of Serve.
func (s *server) answer(ctx context.Context, j *Job, f func(context.Context) error) (a answer) {
	defer func() {
		if r := recover(); r != nil {
			a = answer{err: errors.New("panic of the source: " + textOf(r))}
			s.log.Error("jobs: the source has panicked", "job", j.as.ID, "err", a.err, "stack", string(debug.Stack()))
		}
	}()
	err := f(ctx)
	return answer{err, errors.Is(err, ErrAcked), errors.Is(err, ErrLeaseLost)}
}
