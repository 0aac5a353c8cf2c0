package shoalshims

import (
	"context"

	"github.com/shoal-go/shoal"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

// Temporal is an interceptor that has a pool run the activities of a worker. pick
// chooses the pool, by the activity's type, task queue or priority; where it returns
// nil the activity runs without one. Workflows are none of its business: they hold no
// resources, and must not wait for any.
//
//	worker.New(client, "orders", worker.Options{
//		MaxConcurrentActivityExecutionSize: 8,
//		Interceptors: []interceptor.WorkerInterceptor{
//			shoalshims.Temporal(func(a activity.Info) *shoal.Pool {
//				if a.IsLocalActivity {
//					return nil
//				}
//				return orders
//			}),
//		},
//	})
//
// Results, errors and heartbeats pass through as they are. To a workflow a panic is a
// *temporal.PanicError, as it is without a pool, but without the stack: that is in the
// pool's log. Local activities hold up
// the task of their workflow while they wait: better have no pool for them, as
// here. Have none either for the type internalSessionCreationActivity, where a worker has
// EnableSessionWorker: that one runs for as long as its session.
//
// For the server an activity has started when the SDK has it, so its timeouts must
// leave time for the wait for a worker.
func Temporal(pick func(activity.Info) *shoal.Pool) interceptor.WorkerInterceptor {
	return &temporalWorker{pick: pick}
}

type temporalWorker struct {
	interceptor.WorkerInterceptorBase
	pick func(activity.Info) *shoal.Pool
}

func (w *temporalWorker) InterceptActivity(ctx context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	a := &temporalActivity{pick: w.pick}
	a.Next = next
	return a
}

type temporalActivity struct {
	interceptor.ActivityInboundInterceptorBase
	pick func(activity.Info) *shoal.Pool
}

func (a *temporalActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	p := a.pick(activity.GetInfo(ctx))
	if p == nil {
		return a.Next.ExecuteActivity(ctx, in)
	}
	f := shoal.Go(ctx, p, func(ctx context.Context) (any, error) {
		return a.Next.ExecuteActivity(ctx, in)
	})
	// If ctx ends before a worker has begun, the activity does not run. If one has, wait
	// for it: the result counts, as that of one that was cancelled and cleans up.
	defer context.AfterFunc(ctx, func() { f.Cancel() })()
	return f.Wait(context.WithoutCancel(ctx))
}
