// Package taskgo has the API of github.com/limpo1989/taskgo on the engine of shoal.
// To move a program, change its import path,
//
//	import "github.com/shoal-go/shoal/compat/taskgo"
//
// and nothing else. Taskgo's documentation holds. The differences: every call of Stop
// waits for the end, WithMaxJobs counts over the whole life of a worker, a task may
// call [runtime.Goexit], and a worker claims no task before it runs it, so none waits
// for a busy worker while another one is idle.
//
// What taskgo documents is kept. Push and Submit do not wait for free capacity, ignore a
// nil job, and refuse what comes after Stop. There are never more goroutines than the
// concurrency. The worker that was parked last is woken first. Without a
// handler a panic crashes the process. Options out of range get their defaults. If
// Stop gives up waiting, the tasks that are left go on.
//
// While more tasks wait than 32,768 plus 500 for each task that runs, a goroutine that
// submits without pause parks now and then after its task was accepted, for a few
// milliseconds as a rule and at most for about 100, so that the workers get the CPUs. Tasks
// of the queue do not park.
//
// If tasks compute and all CPUs are busy, workers start one after the other, and fewer
// than the maximum: more would share the same CPUs.
//
// What is broken in taskgo is not kept:
//
//   - A task that calls [runtime.Goexit], as t.FailNow does, ends like any other.
//     In taskgo its place is lost, and Stop waits for it until the timeout.
//   - All calls of Stop wait for the end. In taskgo a second call returns nil at
//     once, and the first one looks for the end every 100 ms.
//   - The tasks of WithMaxJobs are counted over the life of a worker. In taskgo the
//     count begins anew at each park.
//   - When Stop has returned nil, no goroutine of the queue is left. If a task calls
//     Stop, the stop begins, and the call returns [shoal.ErrWouldDeadlock].
//   - A batch is accepted as a whole, or up to the limit, also if Stop is called at
//     the same time.
//   - The memory of a burst is given back.
//
// To go on to shoal's own API, see docs/migrate.md.
package taskgo

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/internal/settle"
)

const (
	defaultConcurrency = 8
	defaultTimeout     = 30 * time.Second
)

// A Job is a task of a [Queue].
type Job func()

type options struct {
	concurrency int
	maxIdle     time.Duration
	maxJobs     int
	maxPending  int
	timeout     time.Duration
	handler     func(v any)
}

// An Option configures a [Queue] or a [Task].
type Option func(o *options)

// WithConcurrency sets the maximum of workers. The default, also for n < 1, is 8.
func WithConcurrency(n int) Option { return func(o *options) { o.concurrency = n } }

// WithMaxIdle sets for how long an idle worker stays parked, with the stack that
// it has grown. The default, also for d < 0, is 0: a worker leaves when the queue is
// empty.
func WithMaxIdle(d time.Duration) Option { return func(o *options) { o.maxIdle = d } }

// WithMaxJobs sets after how many tasks a worker is replaced. The default, also
// for n < 0, is 0: it is not.
func WithMaxJobs(n int) Option { return func(o *options) { o.maxJobs = n } }

// WithMaxPending sets how many tasks that Submit, SubmitBatch and TrySubmitBatch have
// accepted may be queued or running at a time. The default, also for n < 0, is
// 0: there is no limit. Push and PushBatch do not count, and are not limited.
func WithMaxPending(n int) Option { return func(o *options) { o.maxPending = n } }

// WithMaxBatchSize sets how many tasks a worker of taskgo claims at a time. Here a worker
// claims no task before it runs it, so that none waits for a busy worker while another
// one is idle. So n may be any number, and is not used.
func WithMaxBatchSize(n int) Option { return func(*options) {} }

// WithTimeout sets for how long Stop waits. The default, also for d <= 0, is 30 s.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithPanicHandler sets the function that is called with the value of a panic in a task.
// Without it a panic crashes the process. If fn panics, or calls
// [runtime.Goexit], the process ends too.
func WithPanicHandler(fn func(v any)) Option { return func(o *options) { o.handler = fn } }

// A queue is what [Queue] and [Task] have in common.
type queue struct {
	pool    *shoal.Pool
	timeout time.Duration

	handles    bool  // there is a panic handler
	maxPending int64 // 0: no limit
	pending    atomic.Int64

	stopped  atomic.Bool  // Stop was called
	mu       sync.RWMutex // held by batches, so that the pool refuses nothing of one that has begun
	draining sync.Once    // of a Stop that came meanwhile
	drained  chan struct{}
}

func (q *queue) init(opts []Option) {
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
		q.handles = true
		panics = shoal.WithPanicHandler(func(e *shoal.PanicError) {
			if p, ok := e.Value.(pendingPanic); ok {
				defer q.release(1)
				e.Value = p.value
			}
			o.handler(e.Value)
		})
	}
	q.timeout = o.timeout
	q.drained = make(chan struct{})
	q.maxPending = int64(max(0, o.maxPending))
	q.pool = shoal.Must(shoal.New( // all of it is in range
		shoal.WithMaxWorkers(min(o.concurrency, shoal.MaxWorkers)),
		shoal.WithQueueCapacity(shoal.Unbounded),
		shoal.WithIdleTimeout(max(0, o.maxIdle)),
		shoal.WithMaxTasksPerWorker(max(0, o.maxJobs)),
		shoal.WithTiming(shoal.TimingOff),
		panics,
	))
}

// Len returns the number of tasks that are queued and have not started.
func (q *queue) Len() int { return q.pool.Queued() }

// Stop refuses new tasks and waits until all that were accepted have ended. If ctx
// ends first, or the timeout of the queue passes, it returns the reason, and the
// tasks go on. A batch that is being queued is accepted as a whole, also if Stop has
// returned before.
func (q *queue) Stop(ctx context.Context) error {
	q.stopped.Store(true)
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	if q.mu.TryLock() {
		q.mu.Unlock() // there is no batch, and there will be none
		return settle.Drain(ctx, q.pool)
	}
	q.draining.Do(func() {
		go func() { // it goes on if ctx ends
			q.mu.Lock() // a batch may take long
			defer q.mu.Unlock()
			q.pool.Drain()
			close(q.drained)
		}()
	})
	select {
	case <-q.drained:
		return settle.Drain(ctx, q.pool)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve takes up to n of the tasks that may be pending, or with all set n or none.
func (q *queue) reserve(n int, all bool) int {
	for {
		p := q.pending.Load()
		k := min(int64(n), q.maxPending-p)
		switch {
		case q.maxPending == 0:
			return n
		case k <= 0 || all && k < int64(n):
			return 0
		case q.pending.CompareAndSwap(p, p+k):
			return int(k)
		}
	}
}

func (q *queue) release(n int) { q.pending.Add(int64(-n)) }

// A pendingPanic is what a task that counts as pending panics with, in place of value. It
// tells the panic handler that the task still counts.
type pendingPanic struct{ value any }

// ended must be deferred by a task that counts as pending. The task does not count any
// more then, unless it panics and there is a handler. Then it counts until that has ended.
func (q *queue) ended() {
	if q.handles {
		if v := recover(); v != nil {
			panic(pendingPanic{v})
		}
	}
	q.release(1)
}

// submit submits a task by push, which reports whether it was accepted.
func (q *queue) submit(push func() bool) bool {
	if q.stopped.Load() || q.reserve(1, true) == 0 {
		return false
	}
	ok := push()
	if !ok {
		q.release(1)
	}
	return ok
}

// batch submits n tasks by push, or as many as may be pending, or with all set n or
// none. It reports how many, and whether these are all. push is not refused.
func (q *queue) batch(n int, limited, all bool, push func(n int)) (int, bool) {
	if q.stopped.Load() {
		return 0, false // a Stop may wait for q.mu, for long
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	k := n
	switch {
	case q.stopped.Load():
		return 0, false
	case limited:
		k = q.reserve(n, all)
	}
	if k > 0 {
		push(k)
	}
	return k, k == n
}

// A Queue runs jobs. It is made by [New].
type Queue struct{ queue }

// New makes a queue.
func New(opts ...Option) *Queue {
	q := new(Queue)
	q.init(opts)
	return q
}

// Push queues job and does not wait for free capacity. A nil job is ignored, and so is
// one that comes after Stop.
func (q *Queue) Push(job Job) {
	if !q.stopped.Load() {
		q.pool.Submit(job) // the errors are those two
	}
}

// PushBatch queues jobs in their order, but for nil ones, and returns their number;
// after Stop that is 0. It does not wait for free capacity.
func (q *Queue) PushBatch(jobs []Job) int {
	n, _ := q.pushAll(jobs, false, false)
	return n
}

// Submit queues job and reports whether it was accepted: not if it is nil, if it
// comes after Stop, or if there are as many as [WithMaxPending] allows. It
// does not wait for free capacity.
func (q *Queue) Submit(job Job) bool {
	if job == nil {
		return false
	}
	return q.submit(func() bool { return q.pool.Submit(q.limited(job)) == nil })
}

// SubmitBatch queues as many of jobs as [WithMaxPending] allows, from the first one on
// and in their order, and returns their number; after Stop that is 0. Nil jobs are
// left out. It does not wait for free capacity.
func (q *Queue) SubmitBatch(jobs []Job) int {
	n, _ := q.pushAll(jobs, true, false)
	return n
}

// TrySubmitBatch is SubmitBatch of all jobs or of none. It reports whether they were
// accepted.
func (q *Queue) TrySubmitBatch(jobs []Job) bool {
	_, ok := q.pushAll(jobs, true, true)
	return ok
}

func (q *Queue) pushAll(jobs []Job, limited, all bool) (int, bool) {
	tasks := make([]func(), 0, len(jobs))
	for _, job := range jobs {
		if job != nil && limited {
			job = q.limited(job)
		}
		if job != nil {
			tasks = append(tasks, job)
		}
	}
	return q.batch(len(tasks), limited, all, func(n int) { q.pool.SubmitBatch(tasks[:n]) })
}

// limited is job for Submit: when it has ended, another one may be pending.
func (q *Queue) limited(job Job) Job {
	if q.maxPending == 0 {
		return job
	}
	return func() {
		defer q.ended()
		job()
	}
}

// A Task is a queue of values for one function. It is made by [NewTask].
type Task[T any] struct {
	queue
	run *shoal.Func[item[T]]
}

// An item is a value. It counts as pending if it is limited.
type item[T any] struct {
	value   T
	limited bool
}

// NewTask makes a queue whose workers call fn with the values that are queued, the zero
// value among them. It panics if fn is nil.
func NewTask[T any](fn func(T), opts ...Option) *Task[T] {
	if fn == nil {
		panic("taskgo: nil task function")
	}
	q := new(Task[T])
	q.init(opts)
	q.run = shoal.NewFunc(q.pool, func(it item[T]) {
		if it.limited {
			defer q.ended()
		}
		fn(it.value)
	})
	return q
}

func (q *Task[T]) push(value T, limited bool) bool {
	return q.run.Submit(item[T]{value, limited && q.maxPending > 0}) == nil
}

// Push queues value and does not wait for free capacity. What comes after Stop is
// ignored. No memory is allocated for each value, if as many values have been queued
// before.
func (q *Task[T]) Push(value T) {
	if !q.stopped.Load() {
		q.push(value, false)
	}
}

// PushBatch queues values in their order and returns their number; after Stop that is
// 0. It does not wait for free capacity.
func (q *Task[T]) PushBatch(values []T) int {
	n, _ := q.pushAll(values, false, false)
	return n
}

// Submit queues value and reports whether it was accepted: not after Stop, nor if
// there are as many as [WithMaxPending] allows. It does not wait for free capacity.
func (q *Task[T]) Submit(value T) bool {
	return q.submit(func() bool { return q.push(value, true) })
}

// SubmitBatch queues as many of values as [WithMaxPending] allows, from the first one on
// and in their order, and returns their number; after Stop that is 0. It does not wait
// for free capacity.
func (q *Task[T]) SubmitBatch(values []T) int {
	n, _ := q.pushAll(values, true, false)
	return n
}

// TrySubmitBatch is SubmitBatch of all values or of none. It reports whether they were
// accepted.
func (q *Task[T]) TrySubmitBatch(values []T) bool {
	_, ok := q.pushAll(values, true, true)
	return ok
}

func (q *Task[T]) pushAll(values []T, limited, all bool) (int, bool) {
	return q.batch(len(values), limited, all, func(n int) {
		for _, v := range values[:n] {
			q.push(v, limited)
		}
	})
}
