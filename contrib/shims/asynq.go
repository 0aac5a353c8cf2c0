package shoalshims

import (
	"context"

	"github.com/hibiken/asynq"
	"github.com/shoal-go/shoal"
)

// Asynq is a handler that has p run h, and returns h's error, so asynq.SkipRetry and
// asynq.RevokeTask work. Give each kind of task a sub-pool of its own:
//
//	mux.Handle("mail:", shoalshims.Asynq(mails, mailHandler))
//	mux.Handle("report:", shoalshims.Asynq(reports, reportHandler))
//
// or all of them one pool:
//
//	mux.Use(func(h asynq.Handler) asynq.Handler { return shoalshims.Asynq(pool, h) })
//
// The task's Timeout and Deadline hold for the wait for a worker too. A task that has
// attempts left is not charged for a pool that was closed with
//
//	asynq.Config{IsFailure: func(err error) bool {
//		return !errors.Is(err, shoal.ErrClosed) && !errors.Is(err, shoal.ErrDropped)
//	}}
//
// When its ShutdownTimeout has passed, Server.Shutdown gives the tasks of handlers that
// still run back, ends their contexts, and does not wait for them. [shoal.Pool.Shutdown]
// does.
func Asynq(p *shoal.Pool, h asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return p.SubmitWait(ctx, func(ctx context.Context) error {
			return h.ProcessTask(ctx, t)
		})
	})
}
