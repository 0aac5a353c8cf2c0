// Package shoalasynq runs the handlers of asynq (github.com/hibiken/asynq) on a pool of
// shoal.
//
//	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(16)))
//	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithWeight(3)))
//	reports := shoal.Must(pool.Sub(shoal.WithName("reports"), shoal.WithMaxWorkers(4)))
//
//	mux := asynq.NewServeMux()
//	mux.Handle("mail:", shoalasynq.Handler(mails, mailHandler))
//	mux.Handle("report:", shoalasynq.Handler(reports, reportHandler))
//
// asynq limits how many tasks a server runs at once. A pool bounds all servers of the
// process together, and whatever else the process runs on it. Its sub-pools share the
// workers by weight and priority. Its statistics, its live page and its metrics show what
// runs, what waits, and what failed.
//
// # Package jobs instead
//
// asynq takes a task from Redis before it asks the pool for a worker. While all workers
// are busy, the task waits in this process, leased, and no other machine can run it.
// [github.com/shoal-go/shoal/jobs] reserves a worker first, and takes a job then. Use jobs
// if the program has no job engine yet. Use this package if it has asynq already, or needs
// what asynq does beyond jobs: unique and periodic tasks, a user interface.
//
// # Limits and times
//
// The server's Concurrency should be at least the maximum of the pool; otherwise the pool
// is never full. It should not be much more: what exceeds the maximum waits in this
// process. asynq extends the lease of a task that waits. The task's Timeout and Deadline
// include the wait for a worker, which [shoal.Stats].WaitTime has.
//
// # One attempt at a time
//
// When the context of a task ends, by its Timeout or Deadline or because the lease in Redis
// was lost, asynq does not wait for the handler: it tries the task again. So does the end of
// a server after its ShutdownTimeout. If an attempt still runs in this process, [Handler] does
// not run the next one beside it. It returns an error that asks for the task again after 10 s,
// as jobs.Retry does. With the configuration below that costs no attempt; without it, it
// costs one, and asynq chooses the delay.
//
// asynq would archive a task whose last attempt is refused. So the last attempt waits until the
// one before has returned. That wait is part of the task's Timeout and Deadline, and keeps one of
// the places of the server's Concurrency. If the time is over first, asynq archives the task, and
// the last attempt has not run.
//
// asynq has no fencing: another process may run the next attempt, and the result of the one
// before is ignored. So handlers should return soon after the end of their context, and
// effects should tolerate being made twice.
//
// A task is known by its pool, its queue and its ID, as asynq does not tell a handler from which
// Redis a task is. Tasks of two servers or databases with the same queue and ID count as
// attempts of one task, if they run on one pool.
//
// # Errors
//
// Handlers may return the errors of [github.com/shoal-go/shoal/jobs], if the server is
// configured to understand them:
//
//	asynq.Config{
//		RetryDelayFunc: shoalasynq.RetryDelay(asynq.DefaultRetryDelayFunc),
//		IsFailure:      shoalasynq.IsFailure,
//	}
//
// After jobs.Retry(d) the task runs again after d, and that costs no attempt. It is never early. It is
// due up to a second late, as asynq has whole seconds, and asynq looks for tasks that are due only
// every DelayedTaskCheckInterval, 5 s by default. jobs.ErrStopped says that the task was interrupted:
// it runs again about a second later, and that costs no attempt. After the task's Timeout or
// Deadline it is a failure, as asynq does not wait for the handler then. jobs.Poison(err) archives
// the task, with or without that configuration. [Work] makes a handler of asynq of a jobs.Handler.
//
// Other errors reach asynq unchanged, so asynq.SkipRetry and asynq.RevokeTask work. A panic
// reaches it as a [*shoal.PanicError] with the stack, and runtime.Goexit as
// [shoal.ErrGoexit]. asynq.IsPanicError reports false for both; use errors.As.
//
// Use the policy [shoal.Block] for a full queue, the default. With [shoal.Reject] a full
// queue costs the task an attempt; [shoal.Spawn] and [shoal.CallerRuns] exceed the maximum.
// A handler must not wait for another task of asynq on the same pool: the pool recognizes
// only waits for its own tasks.
//
// # Shutdown
//
// Shut the server down first, then the pool. When the server's ShutdownTimeout has passed,
// asynq gives the tasks of the handlers that still run back to Redis, ends their contexts,
// and does not wait for them. [shoal.Pool.Shutdown] does.
//
// While the pool is closed, tasks fail with [shoal.ErrClosed] or [shoal.ErrDropped]. Such a
// failure counts as an attempt, unless the server has [IsFailure].
//
// asynq archives a task that has no attempts left whatever IsFailure returns.
package shoalasynq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// Handler returns a handler that runs h on p. To run all handlers of a server on one pool,
// use it as a middleware:
//
//	mux.Use(func(h asynq.Handler) asynq.Handler { return shoalasynq.Handler(pool, h) })
//
// ProcessTask of the handler blocks until h does not run any more, and returns h's error.
// If the task's context ends before a worker has begun, h does not run, and ProcessTask
// returns the context's error at once. If an attempt of the same task still runs on p, h does
// not run, and ProcessTask returns an error that wraps one of [jobs.Retry]; the last attempt
// waits instead. If a handler of p is inside another one, as with both Use and Handle of a
// mux, a task runs on p once.
//
// asynq itself does not wait for ProcessTask when the context of a task has ended: it
// tries the task again as its retry policy says. So h should return soon after the end of
// its context; until then it keeps its worker.
//
// h's context is derived from asynq's: it ends with it, and when the pool is closed.
// asynq's values are found in it, so asynq.GetTaskID and asynq.GetRetryCount work.
//
// Handler panics if p or h is nil.
func Handler(p *shoal.Pool, h asynq.Handler) asynq.Handler {
	switch {
	case p == nil:
		panic("shoalasynq: Handler(nil, h): want a pool")
	case h == nil:
		panic("shoalasynq: Handler(p, nil): want a handler")
	}
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		if id, ok := asynq.GetTaskID(ctx); ok {
			queue, _ := asynq.GetQueueName(ctx)
			key := identity{p, queue, id}
			if ctx.Value(key) != nil {
				return h.ProcessTask(ctx, t) // this attempt has been here
			}
			end := make(chan struct{})
			for {
				before, beside := running.LoadOrStore(key, end)
				if !beside {
					break
				}
				if !last(ctx) {
					return fmt.Errorf("shoalasynq: an attempt before still runs: %w", jobs.Retry(besidePause))
				}
				select {
				case <-before.(chan struct{}):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			defer close(end)
			defer running.Delete(key)
			ctx = context.WithValue(ctx, key, true)
		}
		var off error
		err := p.SubmitWait(ctx, func(ctx context.Context) error {
			err := result(h.ProcessTask(ctx, t))
			if putOff(err) {
				off = err // that is no failure
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		return off
	})
}

// last reports whether asynq archives a task if the attempt with ctx returns an error.
func last(ctx context.Context) bool {
	n, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return n >= most
}

// An identity is that of a task which runs on a pool, and the key of a value in its context.
// running is of the process, as asynq.ServeMux calls its middlewares anew for every task.
type identity struct {
	p         *shoal.Pool
	queue, id string
}

var running sync.Map // from identity to a channel that is closed when the attempt is over

// besidePause is how long a task is put off while an earlier attempt of it still runs.
const besidePause = 10 * time.Second

// stopPause is how long a task is put off that was interrupted.
const stopPause = time.Second

// putOff reports whether a handler that returned err has not failed: its task is to run again.
func putOff(err error) bool {
	_, retry := jobs.RetryAfter(err)
	return retry || isStop(err) && !errors.Is(err, asynq.SkipRetry) // of Poison, too
}

// isStop reports whether err says that a task was interrupted. The end of a time limit is a failure.
func isStop(err error) bool {
	return errors.Is(err, jobs.ErrStopped) && !errors.Is(err, jobs.ErrTimeLimit)
}

// result is what is returned to asynq if a handler returned err.
func result(err error) error {
	if _, retry := jobs.RetryAfter(err); !retry && jobs.IsPoison(err) && !errors.Is(err, asynq.SkipRetry) {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	return err
}

// RetryDelay returns a function for the field RetryDelayFunc of asynq.Config. It returns the
// d of jobs.Retry(d) and just less than a second more, because asynq cuts the time to whole seconds;
// a second for [jobs.ErrStopped]; and what next returns for other errors. If next is nil, it is
// asynq.DefaultRetryDelayFunc.
func RetryDelay(next asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if next == nil {
		next = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, t *asynq.Task) time.Duration {
		if d, ok := jobs.RetryAfter(err); ok {
			if d > 0 { // asynq cuts the time to whole seconds, so the task would be early
				const more = time.Second - 1
				d = min(d, math.MaxInt64-more) + more
			}
			return d
		}
		if isStop(err) {
			return stopPause
		}
		return next(n, err, t)
	}
}

// IsFailure is for the field IsFailure of asynq.Config. It reports false for errors made by
// [jobs.Retry], for [jobs.ErrStopped], and for those of a pool that is closed. So these cost no
// attempt.
func IsFailure(err error) bool {
	return !putOff(err) && !errors.Is(err, shoal.ErrClosed) && !errors.Is(err, shoal.ErrDropped)
}

// Work returns a handler of asynq that runs a handler of package jobs, such as one that
// [jobs.Handle] made. [jobs.From] finds the job in the context. Its ID, Data and Header are
// the task's, its Attempt is the number of failures and one, and its Delivery is nil.
//
// Limits of jobs.Serve, such as WithMaxAttempts, are asynq's here: MaxRetry, RetryDelayFunc.
//
// Work panics if h is nil.
func Work(h jobs.Handler) asynq.Handler {
	if h == nil {
		panic("shoalasynq: Work(nil): want a handler")
	}
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		failures, _ := asynq.GetRetryCount(ctx)
		j := &jobs.Job{ID: id, Data: t.Payload(), Header: t.Headers(), Attempt: failures + 1}
		return result(h(jobs.NewContext(ctx, j), j))
	})
}
