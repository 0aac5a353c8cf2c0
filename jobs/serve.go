package jobs

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
// A worker that Serve has reserved counts as a task in the pool's queue. So on a pool whose queue is
// shorter than its number of workers, a Serve that waits for a job reserves no more workers than the
// queue has places. Then other tasks can use all workers, but none can wait in the queue meanwhile.
// Serve reserves more while its queue has jobs, and gives these back within 2 s after the last one. A
// source that needs more than 1 s to lease jobs leases no more at a time than the queue has places.
// Several calls of Serve that wait may together reserve more workers than that.
//
// On a pool without a queue (capacity 0) Serve reserves one worker at a time, and waits for a job
// with it. It soon gives that worker back if a submitter waits. If the pool has only one worker,
// [shoal.Pool.TrySubmit] returns [shoal.ErrQueueFull] while Serve waits.
//
// Serve blocks until ctx has ended, the pool has been shut down, or the source has
// returned a permanent error ([Permanent]). After another error of the source it
// tries again, after 100 ms at first and after 5 s at most. It logs the first of such errors. If Pulls
// have then taken a minute without an error, the next error is a first one again.
//
// If ctx has ended and no handler runs any more, Serve returns nil. If handlers still run,
// because they ignore the end of their context, it returns an [*AbandonedError], 1 s
// after it has given their jobs back, which takes up to 11 s. If the pool was shut down, it returns
// [shoal.ErrClosed]. If the source returned a permanent error, Serve returns an error that wraps
// that one. If it would return one of these two and an [*AbandonedError], it joins them
// ([errors.Join]). An invalid argument is an error that matches [ErrConfig]; then nothing was
// leased. If Pull panics, or a method of a [Delivery] that tells what the job is, Serve ends in the
// same way, and then the panic goes on.
//
// In a task of the pool Serve returns [shoal.ErrWouldDeadlock].
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
		stats: Stats{Source: c.name, Lease: src.Lease()},
	}
	s.keep.s = s
	capacity := p.Stats().QueueCapacity
	s.bare, s.spare = capacity == 0, min(max(1, capacity), shoal.MaxWorkers)
	s.places = s.spare
	s.log = slog.New(careful{c.log.Handler()}).With("source", c.name)
	register(s)
	defer unregister(s)
	var left error
	func() {
		defer func() { left = s.end() }() // also if the source panics
		err = s.pull(ctx)
	}()
	switch {
	case err == nil:
		return left
	case left == nil:
		return err
	}
	return errors.Join(err, left)
}

// AbandonedError is the error of [Serve] if handlers still run when it returns, because they
// ignore the end of their context. Their jobs were given back. Those that the source did not take
// in time, and those whose lease was lost, are leased again when their lease has ended. After it
// the process should exit, and not close the pool: [shoal.Pool.Close] waits for these handlers.
type AbandonedError struct {
	Running int // number of these handlers
}

// Error implements the error interface.
func (e *AbandonedError) Error() string {
	return fmt.Sprintf("jobs: %d handlers still run after the end of their context; their jobs may run elsewhere", e.Running)
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
	bare    bool           // p has no queue
	spare   int            // places for which a Pull may wait for any time: others then lack no worker
	places  int            // for the next Pull to reserve, at most
	idle    bool           // the last Pull brought nothing
	needs   time.Duration  // what a Pull needs to bring jobs that are there, as far as is known
	turns   int            // Pulls that were ended with errAsked since the last job
	sharers *sharers       // the calls of Serve that share p, this one included
	ask     *time.Timer    // until it asks; nil if it has no need to
	asks    bool           // it has asked
	giving  sync.WaitGroup // calls of giveAllBack that are not over; end waits for them

	mu     sync.Mutex // guards what follows, and the parts of jobs that say so
	jobs   map[*Job]struct{}
	inside list.List // of *Job: inside the handler, in the order in which it was called
	ending bool
	quiet  chan struct{} // closed when ending and no job is held
	keep   keeper
	losses []loss // see unlock
	stats  Stats
	final  *Stats // what Total has from it; nil while Serve runs

	stops     int // since stopsFrom; see restIfOften
	stopsFrom time.Time
}

// A careful handler drops the records for which the user's handler panics. Serve logs where a panic
// would end the process, or leave a job that is not settled.
type careful struct{ slog.Handler }

func (h careful) WithAttrs(as []slog.Attr) (with slog.Handler) {
	with = h // if the user's panics
	defer func() { recover() }()
	return careful{h.Handler.WithAttrs(as)}
}

func (h careful) Enabled(ctx context.Context, l slog.Level) (is bool) {
	defer func() { recover() }()
	return h.Handler.Enabled(ctx, l)
}

func (h careful) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() { recover() }()
	return h.Handler.Handle(ctx, r)
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
	apart      = time.Minute            // that Pulls run, until an error is one of another failure; a Pull that fails takes less
	mostPause  = 5 * time.Second
	mostCall   = 10 * time.Second // for a call of the source that settles a job
	mostStops  = 10               // jobs that handlers say were stopped, in stopPause, though nothing ends
	stopPause  = time.Second      // before another one is given back
	mostDeaf   = time.Second      // for a source after it was told to stop
)
