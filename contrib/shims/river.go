package shoalshims

import (
	"context"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/shoal-go/shoal"
)

// River is a middleware that has a pool work each job. pick chooses the pool, by
// the job's kind, queue or priority; where it returns nil the job is worked by
// River alone. It is called for every attempt.
//
//	river.Config{Middleware: []rivertype.Middleware{
//		shoalshims.River(func(job *rivertype.JobRow) *shoal.Pool { return pools[job.Kind] }),
//	}}
//
// Errors pass through as they are, so river.JobCancel and river.JobSnooze work. The
// timeout of a job begins when a worker of the pool does. RescueStuckJobsAfter is
// counted from when River took the job: it should be more than the wait and the timeout
// together.
//
// An attempt that failed because the pool was closed costs none if a middleware before
// this one has the job snoozed:
//
//	river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
//		err := work(ctx)
//		if errors.Is(err, shoal.ErrClosed) || errors.Is(err, shoal.ErrDropped) {
//			return river.JobSnooze(time.Second)
//		}
//		return err
//	})
func River(pick func(*rivertype.JobRow) *shoal.Pool) river.WorkerMiddlewareFunc {
	return func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		p := pick(job)
		if p == nil {
			return work(ctx)
		}
		f := shoal.Go(ctx, p, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, work(ctx)
		})
		// If ctx ends before a worker has begun, the job does not run. If one has, wait for
		// it: the result counts, and River must not stop, nor try again, beside it.
		defer context.AfterFunc(ctx, func() { f.Cancel() })()
		_, err := f.Wait(context.WithoutCancel(ctx))
		return err
	}
}
