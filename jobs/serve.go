package jobs

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
)

// Serve leases jobs from src and runs h for each of them on p, until ctx ends. Then it
// gives back the jobs that are not done; the package's documentation describes how.
//
// Serve occupies no worker itself. The pool may run other tasks. Several calls of Serve may
// share a pool. A call whose queue is empty leaves its workers to the others while they need them.
// It then looks for jobs about twice a second, or less often if more than ten calls of Serve share
// a worker. Pause and Resize of the pool take effect at once: Serve leases no job that the pool
// may not run. On a sub-pool only its own limits count: a leased job may have to wait for a worker
// of the parent, and its lease is extended meanwhile.
//
// On a pool without a queue (capacity 0) Serve reserves one worker at a time, and waits for a job
// with it. It soon gives that worker back if a submitter waits. If the pool has only one worker,
// [shoal.Pool.TrySubmit] returns [shoal.ErrQueueFull] while Serve waits.
//
// Serve blocks until ctx has ended, the pool has been shut down, or the source has
// returned a permanent error ([Permanent]). After another error of the source it
// tries again, after 100 ms at first and after 5 s at most.
//
// If ctx has ended and no handler runs any more, Serve returns nil. If handlers still run,
// because they ignore the end of their context, it returns an [*AbandonedError], 1 s
// after it has cancelled them. If the pool was shut down, it returns [shoal.ErrClosed]. If
// the source returned a permanent error, Serve returns an error that wraps that one. An
// invalid argument is an error that matches [ErrConfig]; then nothing was leased.
func Serve(ctx context.Context, p *shoal.Pool, src Source, h Handler, opts ...Option) error {
	c, err := newConfig(opts)
	switch {
	case ctx == nil:
		err = errors.Join(err, fmt.Errorf("%w: nil context", ErrConfig))
	case p == nil:
		err = errors.Join(err, fmt.Errorf("%w: nil pool", ErrConfig))
	case src == nil:
		err = errors.Join(err, fmt.Errorf("%w: nil source", ErrConfig))
	case h == nil:
		err = errors.Join(err, fmt.Errorf("%w: nil handler", ErrConfig))
	case src.Lease() <= 0:
		err = errors.Join(err, fmt.Errorf("%w: the lease of %T is %v: want more than 0", ErrConfig, src, src.Lease()))
	}
	if err != nil {
		return err
	}
	if c.name == "" {
		c.name = fmt.Sprintf("%T", src)
	}
	s := &server{
		config: c, p: p, src: src, h: h,
		base:  context.WithoutCancel(ctx),
		told:  ctx.Done(),
		jobs:  make(map[*Job]struct{}),
		keep:  keeper{lease: src.Lease(), extending: make(map[*Job]*extension)},
		quiet: make(chan struct{}),
		bare:  p.Stats().QueueCapacity == 0,
		stats: Stats{Source: c.name, Lease: src.Lease()},
	}
	s.keep.s = s
	s.log = c.log.With("source", c.name)
	register(s)
	defer unregister(s)
	err = s.pull(ctx)
	return errors.Join(err, s.end())
}

// AbandonedError is the error of [Serve] if handlers still run when it returns, because they
// ignore the end of their context. Their jobs were given back.
type AbandonedError struct {
	Running int // number of these handlers
}

// Error implements the error interface.
func (e *AbandonedError) Error() string {
	return fmt.Sprintf("jobs: %d handlers still run after the end of their context; their jobs were given back", e.Running)
}

// A server is one call of Serve.
type server struct {
	config
	p    *shoal.Pool
	src  Source
	h    Handler
	base context.Context // has the values of Serve's, and does not end
	told <-chan struct{} // closed when Serve is to end

	// What follows is of pull alone, but ask and asks, which servers.mu guards.
	bare    bool          // p has no queue
	idle    bool          // the last Pull brought nothing
	needs   time.Duration // what a Pull needs to bring jobs that are there, as far as is known
	turns   int           // Pulls since the last job that ended because another Serve asked
	sharers *sharers      // the calls of Serve that share p, this one included
	ask     *time.Timer   // until it asks; nil if it has no need to
	asks    bool          // it has asked

	mu     sync.Mutex // guards what follows, and the parts of jobs that say so
	jobs   map[*Job]struct{}
	inside list.List // of *Job: inside the handler, in the order in which it was called
	ending bool
	quiet  chan struct{} // closed when ending and no job is held
	keep   keeper
	stats  Stats

	stops     int // since stopsFrom; see restIfOften
	stopsFrom time.Time
}

// A state says what becomes of a job.
type state uint8

const (
	waiting  state = iota // in the pool's queue
	running               // its handler runs
	settling              // its result is being told to the source, or it is being given back
	over                  // there is nothing more to do for it
)

const (
	firstPause = 100 * time.Millisecond // after a failed Pull
	mostPause  = 5 * time.Second
	mostCall   = 10 * time.Second // for a call of the source that settles a job
	mostStops  = 10               // jobs that handlers say were stopped, in stopPause, though nothing ends
	stopPause  = time.Second      // before another one is given back
	mostDeaf   = time.Second      // for a source after it was told to stop
)

// pull leases jobs until ctx ends.
func (s *server) pull(ctx context.Context) error {
	var pause, rest time.Duration
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
		got, err := s.pullFor(ctx, r)
		s.idle = got == 0
		wait := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			return nil
		case IsPermanent(err):
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
			s.failed(err, pause == 0)
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
	defer close(over)
	go s.mind(pctx, r, look, cancel, over)
	ds, err := s.src.Pull(pctx, n)
	took := time.Since(start)
	asked := context.Cause(pctx) == errAsked
	if pctx.Err() != nil {
		err = nil // it was told to stop
	}
	if len(ds) > n {
		s.log.Error("jobs: the source has leased more jobs than requested; the rest is given back", "got", len(ds), "want", n)
	}
	wanted := pctx.Err() == nil || asked
	var back []*Job
	for _, d := range ds {
		if j := s.hold(d); !wanted || !s.submit(r, j) {
			back = append(back, j)
		}
	}
	s.giveAllBack(back, waiting)
	if len(ds) < n {
		s.stopAsking()
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

func (s *server) failed(err error, first bool) {
	s.mu.Lock()
	s.stats.PullErrors++
	s.stats.LastError, s.stats.LastErrorAt = err.Error(), time.Now()
	s.mu.Unlock()
	if first {
		s.log.Warn("jobs: leasing jobs from the source failed; trying again", "err", err)
	}
}

// hold notes that the job of d is leased.
func (s *server) hold(d Delivery) *Job {
	j := &Job{ID: d.ID(), Data: d.Data(), Header: d.Header(), Attempt: d.Attempt(), d: d}
	s.mu.Lock()
	s.jobs[j] = struct{}{}
	s.stats.Leased++
	s.keep.addLocked(j)
	s.mu.Unlock()
	return j
}

// submit uses a place of r to run j. It reports whether the pool has accepted j.
func (s *server) submit(r *shoal.Reservation, j *Job) bool {
	return nil == r.Submit(s.base, func(ctx context.Context) error { return s.run(ctx, j) }, func(error) {
		go s.giveBack(s.base, j, waiting) // the pool has discarded it
	})
}

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
	if s.maxLeases > 0 && j.Attempt > s.maxLeases { // as of a job that kills its process each time
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
		"job", j.ID, "type", j.Type(), "attempt", j.Attempt, "pause", stopPause)
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
	s.log.Warn("jobs: a job has exceeded its time limit; its context has ended", "job", j.ID, "type", j.Type(), "attempt", j.Attempt, "limit", limit)
}

// errSpent is the result of a job that is not run, as its leases are used up.
var errSpent = errors.New("not run: no attempt before has settled the job")

// settle tells the source the result of j, whose handler has ended with err.
func (s *server) settle(ctx context.Context, j *Job, err error) {
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

	var poison *poisonError
	after, retry := RetryAfter(err)
	stopped := closed || interrupted(err)
	if err != nil && !lost && !stopped && !retry {
		s.fail(j, err)
	}
	switch {
	case err == nil:
		if s.call(s.base, j, "ack", j.d.Ack) {
			s.count(&s.stats.Acked)
		}
	case lost:
	case stopped:
		s.release(s.base, j)
	case retry:
		s.nak(s.base, j, after)
	case errors.As(err, &poison):
		s.term(j, err.Error(), err)
	case err == errSpent:
		s.term(j, fmt.Sprintf("%s: %v", ofMost("lease", j.Attempt, s.maxLeases), err), nil)
	case s.maxAttempts > 0 && j.Attempt >= s.maxAttempts:
		s.term(j, fmt.Sprintf("%s: %v", ofMost("attempt", j.Attempt, s.maxAttempts), err), err)
	default:
		s.nak(s.base, j, max(0, s.backoff(j.Attempt)))
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

// term buries j, whose handler has returned err.
func (s *server) term(j *Job, text string, err error) {
	reason := reasonOf(text, err)
	if s.call(s.base, j, "bury", func(ctx context.Context) error { return j.d.Term(ctx, reason) }) {
		s.tally(j, &s.stats.Dead)
		s.log.Warn("jobs: a job became a dead letter", "job", j.ID, "type", j.Type(), "attempt", j.Attempt, "reason", reasonOf(text, nil)) // without the output, which may be long
	}
}

// call calls f, a method of the source that settles j. While it is not known whether f had its
// effect, call repeats it, but only until the lease is over: after that it might concern the next
// attempt. call reports whether f had its effect.
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
			s.log.Warn("jobs: a handler failed after its job was acknowledged; the job counts as done", "job", j.ID, "attempt", j.Attempt, "call", what)
			s.count(&s.stats.Acked)
			return false
		case errors.Is(err, ErrLeaseLost):
			s.mu.Lock()
			s.loseLocked(j, err)
			s.mu.Unlock()
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
		s.log.Error("jobs: settling a job failed until its lease ended; the job will run again",
			"job", j.ID, "call", what, "err", err)
		s.tally(j, &s.stats.Untold)
		return false
	}
}

func (s *server) count(n *uint64) {
	s.mu.Lock()
	*n++
	s.mu.Unlock()
}

// tally counts j in n, unless j counts as a lost lease already: the end of the lease may have been
// noted during the call.
func (s *server) tally(j *Job, n *uint64) {
	s.mu.Lock()
	if !j.lost {
		*n++
	}
	s.mu.Unlock()
}

// loseLocked notes that the lease of j is lost.
func (s *server) loseLocked(j *Job, err error) {
	if j.lost || j.state == over {
		return
	}
	j.lost = true
	s.stats.LeasesLost++
	s.log.Warn("jobs: a lease was lost; the job may run elsewhere", "job", j.ID, "attempt", j.Attempt, "err", err)
	if j.cancel != nil {
		j.cancel(ErrLeaseLost)
	}
	if j.state == waiting {
		s.doneLocked(j)
	}
}

// giveBack gives j back, if it is in state from.
func (s *server) giveBack(ctx context.Context, j *Job, from state) {
	s.mu.Lock()
	if j.state != from {
		s.mu.Unlock()
		return
	}
	wait := s.withdrawLocked(j)
	s.mu.Unlock()
	s.back(ctx, j, wait)
}

// withdrawLocked takes j from its handler, so that it can be given back by back.
func (s *server) withdrawLocked(j *Job) (wait func()) {
	if j.state = settling; j.cancel != nil {
		j.cancel(ErrStopped)
	}
	return s.keep.releaseLocked(j)
}

func (s *server) back(ctx context.Context, j *Job, wait func()) {
	defer s.done(j)
	wait()
	s.mu.Lock()
	lost := j.lost
	s.mu.Unlock()
	if !lost {
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

// inState are the jobs in a state.
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
	s.mu.Lock()
	s.ending = true
	quiet := s.quiet
	s.lookQuietLocked()
	s.mu.Unlock()
	defer s.keep.stop()

	s.giveAllBack(s.inState(waiting), waiting)
	select {
	case <-quiet:
		return nil
	case <-time.After(s.drain):
	}
	s.giveAllBack(s.inState(waiting), waiting) // of a pool that was paused, and resumed
	s.giveAllBack(s.inState(running), running)
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

// giveAllBack gives back those of js that are in a state. If the source does not take a job back in
// time, the job is leased again when its lease has ended.
func (s *server) giveAllBack(js []*Job, is state) {
	if len(js) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.base, min(mostCall, s.keep.lease))
	defer cancel()
	given := make(chan struct{})
	go func() {
		defer close(given)
		var wg sync.WaitGroup
		places := make(chan struct{}, atOnce)
		for _, j := range js {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				s.giveBack(ctx, j, is)
			})
		}
		wg.Wait()
	}()
	await(given, ctx.Done())
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
