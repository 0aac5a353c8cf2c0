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
// # Errors
//
// Results, errors and heartbeats reach Temporal unchanged. A panic reaches the workflow as a
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

	"github.com/shoal-go/shoal"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
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
// activity has returned, and returns its result.
//
// The activity's context is derived from Temporal's: it ends with it, and when the pool is
// closed. Temporal's values are found in it, so activity.RecordHeartbeat works.
func Interceptor(pick func(activity.Info) *shoal.Pool) interceptor.WorkerInterceptor {
	return &workerInterceptor{pick: pick}
}

type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	pick func(activity.Info) *shoal.Pool
}

func (w *workerInterceptor) InterceptActivity(ctx context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	a := &activityInterceptor{pick: w.pick}
	a.Next = next
	return a
}

type activityInterceptor struct {
	interceptor.ActivityInboundInterceptorBase
	pick func(activity.Info) *shoal.Pool
}

func (a *activityInterceptor) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (result any, err error) {
	p := a.pick(activity.GetInfo(ctx))
	if p == nil {
		return a.Next.ExecuteActivity(ctx, in)
	}
	err = p.SubmitWait(ctx, func(ctx context.Context) (err error) {
		result, err = a.Next.ExecuteActivity(ctx, in)
		return err
	})
	return result, err
}
