package jobs

import (
	"context"
	"sync"
	"time"
)

// This file is how Serve lets go of jobs: it gives back those that are not done, and it ends when it
// holds none, or has waited long enough.

// giveBack gives j back, if it is in state from.
func (s *server) giveBack(ctx context.Context, j *Job, from state) {
	s.mu.Lock()
	if j.state != from {
		s.mu.Unlock()
		return
	}
	s.withdrawLocked(j)
	s.mu.Unlock()
	s.back(ctx, j)
}

// withdrawLocked takes j from its handler, so that it can be given back by back. Until then its lease
// is extended.
func (s *server) withdrawLocked(j *Job) {
	if j.state = settling; j.cancel != nil {
		j.cancel(ErrStopped)
	}
}

// back gives back j, which was withdrawn.
func (s *server) back(ctx context.Context, j *Job) {
	defer s.done(j)
	s.mu.Lock()
	wait := s.keep.releaseLocked(j)
	s.mu.Unlock()
	wait()
	s.mu.Lock()
	fine, lost := j.fine, j.lost
	s.mu.Unlock()
	switch {
	case fine:
		s.ack(ctx, j)
	case !lost:
		s.release(ctx, j)
	}
}

func (s *server) done(j *Job) {
	s.mu.Lock()
	s.doneLocked(j)
	s.mu.Unlock()
}

// doneLocked lets go of j. It may be called more than once.
func (s *server) doneLocked(j *Job) {
	if j.state != over {
		j.state = over
		s.keep.removeLocked(j)
		delete(s.jobs, j)
	}
	s.lookQuietLocked()
}

// lookQuietLocked tells end when there is nothing left to wait for.
func (s *server) lookQuietLocked() {
	if s.ending && len(s.jobs) == 0 && s.inside.Len() == 0 && s.quiet != nil {
		close(s.quiet)
		s.quiet = nil
	}
}

// inState are the jobs in a state, in any order.
func (s *server) inState(is state) (js []*Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for j := range s.jobs {
		if j.state == is {
			js = append(js, j)
		}
	}
	return js
}

// end lets what runs finish, for a while, and gives back the rest.
func (s *server) end() error {
	s.stopAsking() // pull may have panicked, and the drain may be long
	s.mu.Lock()
	s.ending = true
	quiet := s.quiet
	s.lookQuietLocked()
	s.mu.Unlock()
	defer s.keep.stop()

	drained := time.After(s.drain)
	s.giveAllBack(s.inState(waiting), waiting)
	select {
	case <-quiet:
		return nil
	case <-drained:
	}
	s.giveAllBack(s.inState(running), running)
	s.giving.Wait()
	select {
	case <-quiet:
		return nil
	case <-time.After(s.grace):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside.Len() == 0 {
		return nil // the source is slow to hear of the last
	}
	return &AbandonedError{Running: s.inside.Len()}
}

// atOnce is how many jobs are given back at the same time, or extended.
const atOnce = 16

// giveAllBack takes those of js that are in a state from their handlers, all at once, and begins to
// give them back, in the order of js; the lease of a job whose turn has not come is extended. given is
// closed when that is over, or mostCall and mostDeaf have passed; s.giving waits for that. If the source
// does not take a job back in that time, or in that of its lease, the job is leased again when its lease
// has ended.
func (s *server) giveAllBack(js []*Job, is state) (given <-chan struct{}) {
	ctx, cancel := context.WithTimeout(s.base, mostCall)
	var backs []func()
	s.mu.Lock()
	for _, j := range js {
		if j.state == is {
			s.withdrawLocked(j)
			backs = append(backs, func() { s.back(ctx, j) })
		}
	}
	s.mu.Unlock()
	taken, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer cancel()
		defer close(taken)
		var wg sync.WaitGroup
		places := make(chan struct{}, atOnce)
		for _, back := range backs {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				back()
			})
		}
		wg.Wait()
	}()
	s.giving.Go(func() {
		defer close(over)
		await(taken, ctx.Done())
	})
	return over
}

// await waits for done. Once ended is closed, it waits for mostDeaf at most, because a source may
// ignore the end of its context.
func await(done, ended <-chan struct{}) {
	select {
	case <-done:
		return
	case <-ended:
	}
	select {
	case <-done:
	case <-time.After(mostDeaf):
	}
}
