// Package taskgo has the API that the page of github.com/limpo1989/taskgo
// documents, on the engine of shoal. A program that uses it changes its import
// path,
//
//	import "github.com/shoal-go/shoal/compat/taskgo"
//
// and nothing else. That page holds, with these differences.
//
// What it documents is kept: Push never blocks, ignores nil, and drops what comes
// after Stop; there are never more goroutines than the concurrency; the worker
// that was parked last is woken first; without a handler a panic crashes the
// process; options out of range get their defaults. What is left when Stop gives
// up waiting goes on.
//
// What is broken there is not kept:
//
//   - A task that calls [runtime.Goexit], as t.FailNow does, ends like any other.
//   - All calls of Stop wait for the end, and none looks for it every 100 ms. There a
//     second call returns nil at once.
//   - The tasks of WithMaxJobs are counted over a worker's life. There the count
//     begins anew at each park.
//   - No task waits behind another one for a worker that has claimed both.
//   - When Stop has returned nil no goroutine of the queue is left. A Stop that a
//     task calls begins and returns [shoal.ErrWouldDeadlock].
//   - The memory of a burst is given back.
//
// Docs: docs/migrate.md of shoal says how to go on to shoal's own API.
package taskgo

import (
	"context"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/internal/settle"
)

const (
	defaultConcurrency = 8
	defaultTimeout     = 30 * time.Second
)

// A Job is a task.
type Job func()

type options struct {
	concurrency int
	maxIdle     time.Duration
	maxJobs     int
	timeout     time.Duration
	handler     func(v any)
}

// An Option configures a queue.
type Option func(o *options)

// WithConcurrency sets the maximum of workers. The default is 8.
func WithConcurrency(n int) Option { return func(o *options) { o.concurrency = n } }

// WithMaxIdle sets for how long an idle worker stays parked, with the stack that
// it has grown. By default it leaves when the queue is empty.
func WithMaxIdle(d time.Duration) Option { return func(o *options) { o.maxIdle = d } }

// WithMaxJobs has a worker replaced after n tasks. By default it is not.
func WithMaxJobs(n int) Option { return func(o *options) { o.maxJobs = n } }

// WithTimeout sets for how long Stop waits. The default is 30 s.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithPanicHandler has panics of tasks recovered, and fn called with their value.
func WithPanicHandler(fn func(v any)) Option { return func(o *options) { o.handler = fn } }

// A Queue runs tasks. It is made by [New].
type Queue struct {
	pool    *shoal.Pool
	timeout time.Duration
}

// New makes a queue.
func New(opts ...Option) *Queue {
	o := options{concurrency: defaultConcurrency, timeout: defaultTimeout}
	for _, f := range opts {
		if f != nil {
			f(&o)
		}
	}
	if o.concurrency <= 0 {
		o.concurrency = defaultConcurrency
	}
	if o.timeout <= 0 {
		o.timeout = defaultTimeout
	}
	panics := shoal.WithCrashOnPanic()
	if o.handler != nil {
		panics = shoal.WithPanicHandler(func(e *shoal.PanicError) { o.handler(e.Value) })
	}
	return &Queue{
		pool: shoal.Must(shoal.New( // all of it is in range
			shoal.WithMaxWorkers(min(o.concurrency, shoal.MaxWorkers)),
			shoal.WithQueueCapacity(shoal.Unbounded),
			shoal.WithIdleTimeout(max(0, o.maxIdle)),
			shoal.WithMaxTasksPerWorker(max(0, o.maxJobs)),
			shoal.WithTiming(shoal.TimingOff),
			panics,
		)),
		timeout: o.timeout,
	}
}

// Push queues job. A nil one is ignored, and so is one that comes after Stop.
func (q *Queue) Push(job Job) {
	q.pool.Submit(job) // the errors are those two
}

// Len is the number of tasks that are queued: that no worker is free to take.
func (q *Queue) Len() int { return settle.Backlog(q.pool.Stats()) }

// Stop refuses new tasks and waits until all that were accepted have ended, or ctx
// ends, or the timeout of the queue has passed; then it returns the reason, and the
// tasks go on.
func (q *Queue) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	return settle.Drain(ctx, q.pool)
}
