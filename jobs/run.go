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
	as := RunningJob{j.ID, j.Type(), time.Now()}
	s.mu.Lock()
	if j.state != waiting { // it was given back, or its lease was lost
		s.mu.Unlock()
		return nil
	}
	j.state, j.cancel, j.as = running, cancel, as
	j.inside = s.inside.PushBack(j)
	s.mu.Unlock()
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
		_, retry := RetryAfter(err)
		stopped := interrupted(err)
		if stopped {
			s.restIfOften(own, j)
		}
		s.settle(own, j, err)
		if retry || stopped {
			err = nil // that is no failure
		}
		if r != nil {
			panic(r)
		}
	}()
	jctx := own
	limit := s.limitOf(j)
	if limit > 0 {
		var cancel context.CancelFunc
		jctx, cancel = context.WithTimeoutCause(own, limit, ErrTimeLimit)
		defer cancel()
		defer context.AfterFunc(jctx, func() { s.overdue(jctx, j, limit) })()
	}
	timed := jctx
	if s.context != nil {
		jctx = s.context(jctx, j)
	}
	if s.maxLeases > 0 && j.d.Attempt() > s.maxLeases { // as of a job that kills its process each time
		err = errSpent
	} else if err = s.h(jctx, j); err != nil && context.Cause(timed) == ErrTimeLimit {
		err = fmt.Errorf("%w: it is %v: %w", ErrTimeLimit, limit, err)
	}
	returned = true
	return err
}

// interrupted reports whether a handler that returned err says that its job was interrupted. A job
// whose time limit is over has failed, even if err also wraps ErrStopped. Otherwise it would be run
// again for ever.
func interrupted(err error) bool {
	_, retry := RetryAfter(err)
	return errors.Is(err, ErrStopped) && !errors.Is(err, ErrTimeLimit) && !retry && !IsPoison(err)
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
		"job", j.d.ID(), "type", j.as.Type, "attempt", j.d.Attempt(), "pause", stopPause)
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
	s.log.Warn("jobs: a job has exceeded its time limit; its context has ended", "job", j.d.ID(), "type", j.as.Type, "attempt", j.d.Attempt(), "limit", limit)
}
