package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
)

// This file is how jobs are leased. Serve reserves places in the pool, asks the source for as many
// jobs, and submits them.

// pull leases jobs until ctx ends.
func (s *server) pull(ctx context.Context) error {
	var pause, rest time.Duration
	var pulled time.Duration // for how long Pulls have run since the last one that failed
	for {
		r, err := s.reserve(ctx)
		switch {
		case ctx.Err() != nil:
			if r != nil {
				r.Release()
			}
			return nil
		case err != nil:
			return err
		}
		began := time.Now()
		got, err := s.pullFor(ctx, r)
		pulled += time.Since(began)
		s.idle = got == 0
		wait := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			return nil
		case endsServe(err):
			return fmt.Errorf("jobs: source %s: %w", s.name, err)
		case err == errAsked:
			rest = s.restTime(rest)
			wait = rest
		case err == nil:
			if pause > 0 {
				s.log.Info("jobs: the source works again")
			}
			pause, rest = 0, 0
			continue
		default:
			if pulled >= apart { // the source has worked meanwhile, so this is another failure
				pause = 0
			}
			s.failed(err, pause == 0)
			pulled = 0
			pause = min(max(firstPause, 2*pause), mostPause)
			wait = pause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// pullFor leases at most as many jobs as r has places, submits them, and gives back the other
// places. Its error is that of the source, or errAsked if no job came and the places are needed
// elsewhere.
func (s *server) pullFor(ctx context.Context, r *shoal.Reservation) (got int, err error) {
	defer r.Release() // also if the source panics
	n := r.Len()
	if n == 0 { // of a pool that was shut down
		return 0, nil
	}
	pctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	look := s.lookTime(s.crowd())
	if s.turns%patientAt == patientAt-1 {
		look = lookMost
	}
	start := time.Now()
	over := make(chan struct{})
	returned := sync.OnceFunc(func() { close(over) })
	defer returned() // also if the source panics
	go s.mind(pctx, r, look, cancel, over)
	ds, err := s.src.Pull(pctx, n)
	returned() // what follows may take long
	took := time.Since(start)
	asked := context.Cause(pctx) == errAsked
	switch {
	case pctx.Err() != nil:
		err = nil // it was told to stop
	case err == nil && len(ds) == 0:
		err = errNothing
	}
	if len(ds) > n {
		s.log.Error("jobs: the source has leased more jobs than requested; the rest is given back", "got", len(ds), "want", n)
	}
	wanted := pctx.Err() == nil || asked
	var back []*Job
	for _, j := range s.holdAll(ds) {
		if !wanted || !s.submit(r, j) {
			back = append(back, j)
		}
	}
	switch {
	case len(ds) < n:
		s.places = s.spare
	case !s.bare && took <= lookMost: // else a Pull with more places would be ended before it brings jobs
		s.places = min(2*s.places, shoal.MaxWorkers)
	}
	r.Release() // others need not wait until the source has taken back jobs
	if len(ds) < n {
		s.stopAsking()
	}
	if len(back) > 0 {
		select {
		case <-s.giveAllBack(back, waiting):
		case <-ctx.Done(): // end waits for it
		}
	}
	switch {
	case asked && len(ds) == 0:
		s.turns++
		err = errAsked
	case len(ds) > 0:
		s.turns = 0
		if took <= look { // else part of it may have been a wait for a job
			s.needs = min(2*took, lookMost)
		}
	}
	return len(ds), err
}

// errNothing is the failure of a Pull that does not wait for a job.
var errNothing = errors.New("jobs: Pull returned neither a job nor an error")

// endsServe is IsPermanent for an error of the source, whose methods may panic.
func endsServe(err error) (is bool) {
	defer func() { recover() }()
	return IsPermanent(err)
}

func (s *server) failed(err error, first bool) {
	text := textOf(err) // not under the lock
	s.mu.Lock()
	s.stats.PullErrors++
	s.stats.LastError, s.stats.LastErrorAt = text, time.Now()
	s.mu.Unlock()
	if first {
		s.log.Warn("jobs: leasing jobs from the source failed; trying again", "err", err)
	}
}

// textOf is the text of an error of the source, or of what it has panicked with. Its methods may
// panic.
func textOf(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = "the error of the source cannot be read"
		}
	}()
	return fmt.Sprint(v) // fmt survives most panics of Error
}

// holdAll notes that the jobs of ds are leased. If a method of one of them panics, the others are
// noted all the same, so that end gives them back.
func (s *server) holdAll(ds []Delivery) []*Job {
	js := make([]*Job, 0, len(ds))
	defer func() {
		if n := len(js); n < len(ds) {
			s.holdAll(ds[n+1:])
		}
	}()
	for _, d := range ds {
		js = append(js, s.hold(d))
	}
	return js
}

// hold notes that the job of d is leased.
func (s *server) hold(d Delivery) *Job {
	j := &Job{ID: d.ID(), Data: d.Data(), Header: d.Header(), Attempt: d.Attempt(), d: d}
	j.attempt, j.as = j.Attempt, RunningJob{ID: j.ID, Type: j.Type()}
	leased := leasedAt(d)
	s.mu.Lock()
	s.jobs[j] = struct{}{}
	s.stats.Leased++
	s.keep.addLocked(j, leased)
	s.mu.Unlock()
	return j
}

// leasedAt is when the job of d was leased, which is now if d does not know it.
func leasedAt(d Delivery) time.Time {
	now := time.Now()
	for {
		switch v := d.(type) {
		case interface{ Leased() time.Time }:
			if at := v.Leased(); !at.IsZero() && at.Before(now) {
				return at
			}
			return now
		case interface{ Unwrap() Delivery }:
			d = v.Unwrap()
		default:
			return now
		}
	}
}

// submit uses a place of r to run j. It reports whether the pool has accepted j.
func (s *server) submit(r *shoal.Reservation, j *Job) bool {
	return nil == r.Submit(s.base, func(ctx context.Context) error { return s.run(ctx, j) }, func(error) {
		go s.giveBack(s.base, j, waiting) // the pool has discarded it
	})
}
