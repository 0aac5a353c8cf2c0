// Package workerpool has the API of github.com/gammazero/workerpool v1.3 on the
// engine of shoal. To move a program, change its import path,
//
//	import "github.com/shoal-go/shoal/compat/workerpool"
//
// and nothing else. Its documentation holds. The differences: a task may call
// [runtime.Goexit], wait for other tasks, and stop its own pool; there is no
// dispatcher goroutine; idle workers leave by age.
//
// What it documents is kept. The queue has no bound, so Do does not wait for free
// capacity. A nil task is ignored. Submit and SubmitWait panic with [ErrStopped] after a stop. A task
// that panics crashes the program. Pause waits its turn behind the tasks that are
// queued.
//
// While more tasks wait than 32,768 plus 500 for each task that runs, a goroutine that
// submits without pause parks now and then after its task was accepted, for a few
// milliseconds as a rule and at most for about 100, so that the workers get the CPUs. Tasks
// of the pool do not park.
//
// If tasks compute and all CPUs are busy, workers start one after the other, and fewer
// than the maximum: more would share the same CPUs.
//
// What is broken in it is not kept:
//
//   - A task that calls [runtime.Goexit], as t.FailNow does, ends like any other.
//     In the original the worker is lost, and a stop hangs.
//   - If a task calls DoWait or SubmitWait, it runs the new task itself. In
//     the original such tasks wait for ever once every worker does so. A panic of the
//     new task passes through the outer one, which may recover it, and so does Goexit.
//   - There is no dispatcher goroutine, so a pool that is forgotten costs nothing
//     when its workers have left. Idle workers leave by age, all that are due; the
//     original ends one in each timeout.
//   - If a task calls Stop or StopWait of its own pool, the stop begins and does not
//     wait; in the original it hangs.
//
// To go on to shoal's own API, see docs/migrate.md.
package workerpool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/internal/settle"
	"github.com/shoal-go/shoal/internal/peek"
)

// DefaultIdleTimeout is how long a worker may be idle before it leaves, if
// [WithIdleTimeout] says nothing else.
const DefaultIdleTimeout = 2 * time.Second

// ErrStopped is returned when the pool has been stopped.
var ErrStopped = errors.New("submitting work to stopped workerpool")

type config struct{ idleTimeout time.Duration }

// An Option configures a pool.
type Option func(*config)

// WithIdleTimeout sets how long a worker may be idle before it leaves. With a
// negative value workers stay; 0 changes nothing. The default is
// [DefaultIdleTimeout].
func WithIdleTimeout(timeout time.Duration) Option {
	return func(c *config) {
		if timeout != 0 {
			c.idleTimeout = timeout
		}
	}
}

// A WorkerPool is a pool of workers with a queue that has no bound. It is made by
// [New].
type WorkerPool struct {
	pool       *shoal.Pool
	maxWorkers int
	pausing    sync.Mutex    // held by Pause
	stopping   chan struct{} // closed when the pool is stopped: workers do not wait any more
	once       sync.Once
}

// New makes a pool of up to maxWorkers workers, at least 1.
func New(maxWorkers int, options ...Option) *WorkerPool {
	var c config
	for _, o := range options {
		if o != nil {
			o(&c)
		}
	}
	switch {
	case c.idleTimeout == 0:
		c.idleTimeout = DefaultIdleTimeout
	case c.idleTimeout < 0:
		c.idleTimeout = shoal.Forever
	}
	maxWorkers = max(1, maxWorkers)
	return &WorkerPool{
		pool: shoal.Must(shoal.New( // all of it is in range
			shoal.WithMaxWorkers(min(maxWorkers, shoal.MaxWorkers)),
			shoal.WithQueueCapacity(shoal.Unbounded),
			shoal.WithIdleTimeout(c.idleTimeout),
			shoal.WithTiming(shoal.TimingOff),
			shoal.WithCrashOnPanic(),
		)),
		maxWorkers: maxWorkers,
		stopping:   make(chan struct{}),
	}
}

// Size is the maximum of workers.
func (p *WorkerPool) Size() int { return p.maxWorkers }

// Stop makes the pool accept no more tasks, abandons those that are queued, and
// waits for those that run. If a task of the pool calls it, it does not wait.
func (p *WorkerPool) Stop() {
	p.stop(func() { settle.Stop(p.pool, false) })
}

// StopWait makes the pool accept no more tasks, and waits until all that were
// accepted have run. If a task of the pool calls it, it does not wait.
func (p *WorkerPool) StopWait() { p.stop(p.pool.Drain) }

// stop stops the pool in the way of the first call. All calls wait for the end.
func (p *WorkerPool) stop(begin func()) {
	p.once.Do(func() {
		close(p.stopping)
		begin()
	})
	p.pool.Shutdown(context.Background())
}

// Stopped reports whether the pool has been stopped.
func (p *WorkerPool) Stopped() bool {
	select {
	case <-p.stopping:
		return true
	default:
		return false
	}
}

// Do queues task and does not wait for free capacity. It returns [ErrStopped] if the
// pool has been stopped. A nil task is ignored.
func (p *WorkerPool) Do(task func()) error {
	switch {
	case task == nil:
	case p.Stopped(): // while Stop waits for tasks that are about to start the engine would accept it
		return ErrStopped
	case p.pool.Submit(task) != nil:
		return ErrStopped
	}
	return nil
}

// DoWait is Do, and waits until the task has ended. It returns [ErrStopped] if the
// pool is stopped before the task has started.
func (p *WorkerPool) DoWait(task func()) error {
	switch {
	case task == nil:
		return nil
	case p.Stopped():
		return ErrStopped
	}
	switch err := p.pool.SubmitWait(context.Background(), func(context.Context) error {
		task()
		return nil
	}); err {
	case shoal.ErrClosed, shoal.ErrDropped:
		return ErrStopped
	default: // it has ended, perhaps by Goexit
		return nil
	}
}

// Submit is [WorkerPool.Do], but panics instead of returning [ErrStopped].
func (p *WorkerPool) Submit(task func()) {
	if err := p.Do(task); err != nil {
		panic(err)
	}
}

// SubmitWait is [WorkerPool.DoWait], but panics instead of returning [ErrStopped].
func (p *WorkerPool) SubmitWait(task func()) {
	if err := p.DoWait(task); err != nil {
		panic(err)
	}
}

// WaitingQueueSize is the number of tasks that no worker is free to take or, after
// Stop, that were abandoned. The original gives a task to a free worker, or to a new one,
// when it is submitted, so a task whose worker is on its way is not counted.
func (p *WorkerPool) WaitingQueueSize() int {
	s := peek.Snapshot(p.pool)
	if p.Stopped() {
		return int(s.Waiting + s.Dropped)
	}
	return max(0, int(s.Waiting)-(s.Max-s.WorkersIn))
}

// Pause makes all workers wait until ctx ends or the pool is stopped. It blocks until
// they wait; the tasks that were queued before run first. If the pool is paused
// already, the earlier pauses must end first.
func (p *WorkerPool) Pause(ctx context.Context) {
	done := ctx.Done()
	p.pausing.Lock()
	defer p.pausing.Unlock()
	left := int64(p.pool.Stats().MaxWorkers)
	ready := make(chan struct{})
	var arrived atomic.Int64
	for range left {
		if p.pool.Submit(func() {
			if arrived.Add(1) == left {
				close(ready)
			}
			select {
			case <-done:
			case <-p.stopping:
			}
		}) != nil {
			return
		}
	}
	select {
	case <-ready:
	case <-p.stopping:
	}
}
