// Package shoaltemporal runs the activities of Temporal (go.temporal.io/sdk) on a pool of
// shoal.
//
//	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(16)))
//	orders := shoal.Must(pool.Sub(shoal.WithName("orders"), shoal.WithMaxWorkers(4)))
//
//	worker.New(client, "orders", worker.Options{
//		MaxConcurrentActivityExecutionSize: 8,
//		Interceptors: []interceptor.WorkerInterceptor{
//			shoaltemporal.Interceptor(func(a activity.Info) *shoal.Pool {
//				if a.IsLocalActivity {
//					return nil
//				}
//				return orders
//			}),
//		},
//	})
//
// Temporal limits how many activities a worker runs at once. A pool bounds all workers of
// the process together, and whatever else the process runs on it. Its sub-pools share the
// workers by weight and priority. Its statistics, its live page and its metrics show what
// runs, what waits, and what failed.
//
// Workflows do not run on the pool: they hold no resources, and must not wait for any.
//
// # Package jobs instead
//
// Temporal takes an activity from its server before it asks the pool for a worker. While
// all workers are busy, the activity waits in this process, and no other machine can run
// it. [github.com/shoal-go/shoal/jobs] reserves a worker first, and takes a job then. Use
// jobs if the program has no job engine yet and needs no workflows.
//
// # Limits and times
//
// MaxConcurrentActivityExecutionSize should be at least the maximum of the pool; otherwise
// the pool is never full. It should not be much more: what exceeds the maximum waits in
// this process.
//
// For Temporal's server an activity has started when the SDK has it. So StartToCloseTimeout
// includes the wait for a worker, which [shoal.Stats].WaitTime has, and so does
// HeartbeatTimeout, as nothing sends heartbeats during the wait.
//
// Local activities hold up the task of their workflow while they wait. Run them without a
// pool, as above. With EnableSessionWorker, also run the activity type
// internalSessionCreationActivity without one: it runs as long as its session.
//
// # One attempt at a time
//
// When an attempt has missed its StartToCloseTimeout or its HeartbeatTimeout, Temporal's
// server tries the activity again, whether or not it still runs. If it runs in this
// process, the interceptor does not run the next attempt beside it. That one fails with an
// error that asks for another attempt 10 s later, and again until the first one has
// returned.
//
// After the last attempt Temporal would give the activity up. So the last attempt of a RetryPolicy
// with MaximumAttempts waits until the one before has returned. So does an attempt that has 11 s or
// less of its ScheduleToCloseTimeout left, as Temporal would not begin another one 10 s later. That
// wait is part of the attempt's timeouts, and of its HeartbeatTimeout too, as nothing sends
// heartbeats during the wait. If one of these is over first, or if the worker stops, Temporal gives
// the activity up, and the last attempt has not run. Of a local activity it is not known how much
// of its ScheduleToCloseTimeout is left, so only MaximumAttempts counts.
//
// Another worker process may run the next attempt, and the result of the one before is ignored. So
// activities should record heartbeats, return soon after the end of their context, and tolerate
// that their effect is made twice.
//
// # Errors
//
// Activities may return the errors of [github.com/shoal-go/shoal/jobs]. jobs.Retry(d) becomes an
// application error of type Retry with a NextRetryDelay of d, at least 1 ms; it is benign, so
// the SDK does not count it as a failure. It costs an attempt: Temporal has nothing else.
// jobs.Poison(err) becomes an application error of type Poison that is not retryable.
//
// jobs.ErrStopped says that the activity was interrupted. If the activity's context has ended
// because Temporal's server asks for its cancellation, the error becomes a
// *temporal.CanceledError, and the activity is cancelled for its workflow. Otherwise it becomes a
// benign application error of type Stopped. The next attempt begins at once if the context has
// ended, as when the worker stops, and a second later otherwise. That costs an attempt too. After
// the activity's time is over it is an error like others.
//
// For the pool, an activity has not failed if it returns jobs.Retry, activity.ErrResultPending,
// or within its time jobs.ErrStopped.
//
// Results, other errors and heartbeats reach Temporal unchanged. A panic reaches the workflow as a
// *temporal.PanicError, as it does without a pool, but without the stack. A panic handler of
// the pool ([shoal.WithPanicHandler]) gets the stack. runtime.Goexit reaches the workflow as
// [shoal.ErrGoexit].
//
// Use the policy [shoal.Block] for a full queue, the default. With [shoal.Reject] a full
// queue costs the activity an attempt; [shoal.Spawn] and [shoal.CallerRuns] exceed the
// maximum. An activity must not wait for another activity on the same pool: the pool
// recognizes only waits for its own tasks.
//
// # Shutdown
//
// Stop the worker first, then shut the pool down. While the pool is closed, activities fail
// with [shoal.ErrClosed] or [shoal.ErrDropped], and Temporal tries them again as their retry
// policy says.
package shoaltemporal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// Interceptor returns a Temporal interceptor that runs each activity of a worker on a pool.
//
// For every attempt it calls pick, which chooses the pool, for example by the activity's
// type or task queue. If pick returns nil, the activity runs without a pool. pick must be
// safe for concurrent use.
//
// The interceptor blocks until the attempt is over. If the activity's context ends before a
// worker has begun, the activity does not run, and the context's error is returned at
// once. If the context ends while the activity runs, the interceptor waits until the
// activity has returned, and returns its result. If an attempt of the same activity still
// runs on this interceptor, the next one does not run. If the interceptor is listed twice, an
// attempt runs on the pool once.
//
// The activity's context is derived from Temporal's: it ends with it, and when the pool is
// closed. Temporal's values are found in it, so activity.RecordHeartbeat works.
//
// Interceptor panics if pick is nil.
func Interceptor(pick func(activity.Info) *shoal.Pool) interceptor.WorkerInterceptor {
	if pick == nil {
		panic("shoaltemporal: Interceptor(nil): want a function")
	}
	return &workerInterceptor{pick: pick}
}

type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	pick    func(activity.Info) *shoal.Pool
	running sync.Map // from identity to a channel that is closed when the attempt is over
}

// An identity is that of an activity on an interceptor, the same at each attempt, and the key of a
// value in its context.
type identity struct {
	w                            *workerInterceptor
	namespace, workflow, run, id string
	activityRun                  string // of an activity without a workflow
	local                        bool
}

func (w *workerInterceptor) InterceptActivity(ctx context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	a := &activityInterceptor{w: w}
	a.Next = next
	return a
}

type activityInterceptor struct {
	interceptor.ActivityInboundInterceptorBase
	w *workerInterceptor
}

// besidePause is how long an activity is put off while an earlier attempt of it still runs.
const besidePause = 10 * time.Second

// lateness is how much later than the interceptor Temporal's server may decide, by its own clock.
const lateness = time.Second

func (a *activityInterceptor) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (res any, err error) {
	info := activity.GetInfo(ctx)
	key := identity{a.w, info.Namespace, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID, info.ActivityRunID, info.IsLocalActivity}
	if ctx.Value(key) != nil {
		return a.Next.ExecuteActivity(ctx, in) // this attempt has been here
	}
	end := make(chan struct{})
	for {
		before, beside := a.w.running.LoadOrStore(key, end)
		if !beside {
			break
		}
		if !last(info) {
			return nil, retry("Retry", "shoaltemporal: an attempt before still runs", besidePause, nil)
		}
		select { // Temporal would give the activity up
		case <-before.(chan struct{}):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer close(end)
	defer a.w.running.Delete(key)
	ctx = context.WithValue(ctx, key, true)
	p := a.w.pick(info)
	if p == nil {
		res, err = a.Next.ExecuteActivity(ctx, in)
		err, _ = result(ctx, err)
		return res, err
	}
	var put error
	err = p.SubmitWait(ctx, func(ctx context.Context) (err error) {
		res, err = a.Next.ExecuteActivity(ctx, in)
		err, off := result(ctx, err)
		if off {
			put = err // that is no failure
			return nil
		}
		return err
	})
	if err == nil {
		err = put
	}
	return res, err
}

// last reports whether Temporal gives an activity up if this attempt is refused: it may have no more
// attempts, or its ScheduleToCloseTimeout is over before the next one would begin.
func last(info activity.Info) bool {
	if r := info.RetryPolicy; r != nil && r.MaximumAttempts > 0 && info.Attempt >= r.MaximumAttempts {
		return true
	}
	all := info.ScheduleToCloseTimeout
	if all <= 0 || info.IsLocalActivity { // of a local one ScheduledTime is that of the attempt
		return false
	}
	return time.Until(info.ScheduledTime.Add(all)) <= besidePause+lateness
}

// stopPause is how long an activity is put off that says it was interrupted, though nothing stops it.
const stopPause = time.Second

// result is what the interceptor returns to Temporal if an activity returned err. off reports whether
// the activity has not failed: it is pending, cancelled, or put off. ctx is the activity's.
func result(ctx context.Context, err error) (_ error, off bool) {
	if err == activity.ErrResultPending { // the SDK compares it like this
		return err, true
	}
	if d, ok := jobs.RetryAfter(err); ok {
		return retry("Retry", err.Error(), d, err), true
	}
	if jobs.IsPoison(err) {
		return temporal.NewNonRetryableApplicationError(err.Error(), "Poison", err), false
	}
	// An activity that returns ErrStopped when its time is over has failed.
	if errors.Is(err, jobs.ErrStopped) && !errors.Is(err, jobs.ErrTimeLimit) && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		if temporal.IsCanceledError(context.Cause(ctx)) { // the server asks for that
			return temporal.NewCanceledError(), true
		}
		pause := time.Duration(0)
		if ctx.Err() == nil {
			pause = stopPause
		}
		return retry("Stopped", err.Error(), pause, err), true
	}
	return err, false
}

// retry is an error of type kind. It makes Temporal run the activity again after d.
func retry(kind, message string, d time.Duration, cause error) error {
	return temporal.NewApplicationErrorWithOptions(message, kind, temporal.ApplicationErrorOptions{
		NextRetryDelay: max(d, time.Millisecond), // none means the delay of the policy
		Cause:          cause,
		Category:       temporal.ApplicationErrorCategoryBenign,
	})
}
