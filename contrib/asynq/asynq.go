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
// # Errors
//
// A handler's error reaches asynq unchanged, so asynq.SkipRetry and asynq.RevokeTask work.
// A panic reaches it as a [*shoal.PanicError] with the stack, and runtime.Goexit as
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
// failure counts as an attempt, unless the server is configured otherwise:
//
//	asynq.Config{IsFailure: func(err error) bool {
//		return !errors.Is(err, shoal.ErrClosed) && !errors.Is(err, shoal.ErrDropped)
//	}}
//
// asynq archives a task that has no attempts left whatever IsFailure returns.
package shoalasynq

import (
	"context"

	"github.com/hibiken/asynq"
	"github.com/shoal-go/shoal"
)

// Handler returns a handler that runs h on p. To run all handlers of a server on one pool,
// use it as a middleware:
//
//	mux.Use(func(h asynq.Handler) asynq.Handler { return shoalasynq.Handler(pool, h) })
//
// ProcessTask of the handler blocks until h does not run any more, and returns h's error.
// If the task's context ends before a worker has begun, h does not run, and ProcessTask
// returns the context's error at once.
//
// asynq itself does not wait for ProcessTask when the context of a task has ended: it
// tries the task again as its retry policy says. So h should return soon after the end of
// its context; until then it keeps its worker.
//
// h's context is derived from asynq's: it ends with it, and when the pool is closed.
// asynq's values are found in it, so asynq.GetTaskID and asynq.GetRetryCount work.
func Handler(p *shoal.Pool, h asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return p.SubmitWait(ctx, func(ctx context.Context) error { return h.ProcessTask(ctx, t) })
	})
}
