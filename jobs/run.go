package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shoal-go/shoal"
)

// This file is what happens around a handler: its context and time limit, panics, and jobs that are
// interrupted again and again.

// run is the task of j.
func (s *server) run(ctx context.Context, j *Job) (err error) {
	own, cancel := context.WithCancelCause(NewContext(ctx, j))
	defer cancel(nil)
	begun := time.Now()
	s.mu.Lock()
	if j.state != waiting { // it was given back, or its lease was lost
		s.mu.Unlock()
		return nil
	}
	j.state, j.cancel, j.as.Since = running, cancel, begun
	j.inside = s.inside.PushBack(j)
	s.mu.Unlock()
	v := verdict{err: errUnread, text: errUnread.Error()}
	defer func() { s.settle(own, j, v) }() // also if the panic of the handler goes on, below
	returned := false
	defer func() {
		var r any
		if !returned {
			// What panics goes on to panic below, on top of its own stack.
			if r = recover(); r == nil {
				err = shoal.ErrGoexit
			} else {
				err = fmt.Errorf("panic: %v", r)
			}
		}
		v = judge(err)
		if v.stopped {
			s.restIfOften(own, j)
		}
		if err = v.err; v.retry || v.stopped {
			err = nil // that is no failure
		}
		if r != nil {
			panic(r)
		}
	}()
	timed := own
	limit := s.limitOf(j)
	if limit > 0 {
		var cancel context.CancelFunc
		timed, cancel = context.WithTimeoutCause(own, limit, ErrTimeLimit)
		defer cancel()
		stop := context.AfterFunc(timed, func() { s.overdue(timed, j, limit) })
		defer func() {
			if stop() { // it has not been called, though the time may be over
				s.overdue(timed, j, limit)
			}
		}()
	}
	jctx := timed
	if s.context != nil {
		jctx = s.context(timed, j)
	}
	if s.maxLeases > 0 && j.attempt > s.maxLeases { // as of a job that kills its process each time
		err = errSpent
	} else if err = s.h(jctx, j); err != nil && context.Cause(timed) == ErrTimeLimit {
		err = overLimit(limit, err)
	}
	returned = true
	return err
}

// overLimit is the error of a handler that has returned err after its time limit.
func overLimit(limit time.Duration, err error) error {
	if err == ErrTimeLimit { // the cause of its context, which is named once
		return fmt.Errorf("%w: it is %v", ErrTimeLimit, limit)
	}
	return fmt.Errorf("%w: it is %v: %w", ErrTimeLimit, limit, err)
}

// A verdict is what the error of a handler says. It is found out once, in judge, because the methods
// of the error may panic.
type verdict struct {
	err     error
	text    string // of err
	output  string // of WithOutput
	after   time.Duration
	retry   bool
	poison  bool
	stopped bool // the job was interrupted
}

// errUnread stands for the error of a handler while that is not known.
var errUnread = errors.New("the result of the handler cannot be read")

// judge finds out what err says. If a method of err panics, that is a failure like any other.
func judge(err error) (v verdict) {
	if err == nil {
		return v
	}
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("panic in the error of the handler: %v", r)
			v = verdict{err: err, text: err.Error()}
		}
	}()
	v.err, v.text = err, fmt.Sprint(err) // fmt survives most panics of Error
	v.after, v.retry = RetryAfter(err)
	v.poison = IsPoison(err)
	// A job whose time limit is over has failed, even if err also wraps ErrStopped. Otherwise it
	// would be run again for ever.
	v.stopped = errors.Is(err, ErrStopped) && !errors.Is(err, ErrTimeLimit) && !v.retry && !v.poison
	var o *outputError
	if errors.As(err, &o) {
		v.output = o.output
	}
	return v
}

// restIfOften keeps the worker of j for a while if handlers often say that they were interrupted
// though nothing ends. Such jobs may run again at once, so without the pause they would run again
// and again. ctx is that of the job.
func (s *server) restIfOften(ctx context.Context, j *Job) {
	select {
	case <-ctx.Done():
		return
	case <-s.told:
		return
	default:
	}
	s.mu.Lock()
	if now := time.Now(); now.Sub(s.stopsFrom) >= stopPause {
		s.stops, s.stopsFrom = 0, now
	}
	s.stops++
	often := s.stops > mostStops
	s.mu.Unlock()
	if !often {
		return
	}
	s.log.Warn("jobs: handlers return ErrStopped again and again, and nothing stops their jobs; this one is given back after a pause",
		"job", j.as.ID, "type", j.as.Type, "attempt", j.attempt, "pause", stopPause)
	select {
	case <-ctx.Done():
	case <-s.told:
	case <-time.After(stopPause):
	}
}

// overdue notes that the time limit of j is over, if that is why ctx has ended.
func (s *server) overdue(ctx context.Context, j *Job, limit time.Duration) {
	if context.Cause(ctx) != ErrTimeLimit {
		return
	}
	s.count(&s.stats.TimedOut)
	s.log.Warn("jobs: a job has exceeded its time limit; its context has ended", "job", j.as.ID, "type", j.as.Type, "attempt", j.attempt, "limit", limit)
}
