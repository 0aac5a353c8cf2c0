// Package shoalriver works the jobs of River (github.com/riverqueue/river) on a pool of
// shoal.
//
//	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(16)))
//	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithWeight(3)))
//	reports := shoal.Must(pool.Sub(shoal.WithName("reports"), shoal.WithMaxWorkers(4)))
//	pools := map[string]*shoal.Pool{"mail": mails, "report": reports}
//
//	river.Config{Middleware: []rivertype.Middleware{
//		shoalriver.Middleware(func(job *rivertype.JobRow) *shoal.Pool { return pools[job.Kind] }),
//	}}
//
// River limits how many jobs of a queue it works at once. A pool bounds all queues of the
// process together, and whatever else the process runs on it. Its sub-pools share the
// workers by weight and priority. Its statistics, its live page and its metrics show what
// runs, what waits, and what failed.
//
// # Package jobs instead
//
// River takes a job from its table before it asks the pool for a worker. While all workers
// are busy, the job waits in this process, and no other machine can work it.
// [github.com/shoal-go/shoal/jobs] reserves a worker first, and takes a job then. Use jobs
// if the program has no job engine yet. Use this package if it has River already, or needs
// what River does beyond jobs: unique and periodic jobs, workflows, a user interface.
//
// # Limits and times
//
// MaxWorkers of a queue should be at least the maximum of the pool that works its jobs;
// otherwise the pool is never full. It should not be much more: what exceeds the maximum
// waits in this process.
//
// JobTimeout begins when a worker of the pool does. RescueStuckJobsAfter begins when River
// takes the job, so it should be longer than the wait for a worker and JobTimeout together.
// [shoal.Stats].WaitTime has the wait.
//
// # Errors
//
// A worker's error reaches River unchanged, so river.JobCancel and river.JobSnooze work. A
// panic reaches it as a [*shoal.PanicError] with the stack, and runtime.Goexit as
// [shoal.ErrGoexit]: River calls HandleError for both, and HandlePanic for neither.
//
// Use the policy [shoal.Block] for a full queue, the default. With [shoal.Reject] a full
// queue costs the job an attempt; [shoal.Spawn] and [shoal.CallerRuns] exceed the maximum.
// A worker must not wait for another job of the same pool: the pool recognizes only waits
// for its own tasks.
//
// # Shutdown
//
// Stop the client first, then shut the pool down. While the pool is closed, jobs fail with
// [shoal.ErrClosed] or [shoal.ErrDropped]. Such a failure counts as an attempt, unless a
// middleware before this one snoozes the job:
//
//	river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
//		err := work(ctx)
//		if errors.Is(err, shoal.ErrClosed) || errors.Is(err, shoal.ErrDropped) {
//			return river.JobSnooze(time.Second)
//		}
//		return err
//	})
package shoalriver

import (
	"context"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/shoal-go/shoal"
)

// Middleware returns a River middleware that works each job on a pool.
//
// For every attempt it calls pick, which chooses the pool, for example by the job's kind,
// queue or priority. If pick returns nil, River works the job without a pool. pick must be
// safe for concurrent use.
//
// The middleware blocks until the attempt is over. If the job's context ends before a
// worker has begun, the job does not run, and the middleware returns the context's error
// at once. If the context ends while the job runs, the middleware waits until the job has
// returned, and returns its result. So River never starts the next attempt while this
// one runs.
//
// The job's context is derived from River's: it ends with it, and when the pool is closed.
// River's values are found in it, so river.ClientFromContext and river.RecordOutput work.
func Middleware(pick func(*rivertype.JobRow) *shoal.Pool) river.WorkerMiddlewareFunc {
	return func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		p := pick(job)
		if p == nil {
			return work(ctx)
		}
		// SubmitWait returns when work does not run any more; otherwise River would try the job
		// again beside this attempt.
		return p.SubmitWait(ctx, work)
	}
}
