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
// runs, what waits, and what failed. The folder examples/river of the repository has a
// program with a periodic and a unique job, and with River UI beside the live page.
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
// # One attempt at a time
//
// River tries a job again while an attempt of it runs in one case: it rescues jobs that were
// taken RescueStuckJobsAfter ago (an hour by default), or their Timeout ago if that is
// longer. It does not ask whether the process that has the job is alive. Two middlewares
// keep the attempts apart:
//
//	river.Config{
//		JobTimeout:           20 * time.Minute,
//		RescueStuckJobsAfter: time.Hour,
//		Middleware: []rivertype.Middleware{
//			shoalriver.Within(50 * time.Minute), // before Middleware
//			shoalriver.Middleware(pick),
//		},
//	}
//
// [Within] ends the context of an attempt, its wait for a worker included, before River may
// rescue the job. [Middleware] returns to River when the handler has returned, not before,
// whatever ended its context. If a handler ignores the end of its context until the job is
// rescued, Middleware does not run the next attempt in the same process; it snoozes it.
//
// What remains is a handler that ignores the end of its context while another process has
// the next attempt, and a process that was stopped for so long. [CompleteTx] makes that
// harmless for effects in the database of River.
//
// # Recovery
//
// If a process is killed, its jobs run again after RescueStuckJobsAfter, or their Timeout if
// that is longer, up to 35 s more, and then the delay of the RetryPolicy, which is 1 s for the
// first failure: one client, the leader, looks every 30 s for such jobs, and every 5 s for those
// that are due. If the leader was killed, another one has to be elected. The attempt that was
// killed counts. A job whose Timeout is -1 is never rescued.
//
// # Errors
//
// Handlers may return the errors of [github.com/shoal-go/shoal/jobs]. jobs.Retry(d) becomes
// river.JobSnooze(d): it costs no attempt. jobs.Poison(err) becomes river.JobCancel(err): the
// job is not tried again. [Work] makes a River worker of a jobs.Handler.
//
// jobs.ErrStopped says that the job was interrupted. It becomes river.JobSnooze(0) if the job's
// context has ended, as when the client stops. That costs no attempt. After the job's time is
// over (JobTimeout, [Within]) it is a failure like others. If nothing has ended the context, a
// handler made by [Work] is snoozed for a second, at no cost. From other handlers it is a failure
// then: River does not show a middleware whether JobTimeout is over.
//
// Other errors reach River unchanged, so river.JobCancel and river.JobSnooze work. A job
// that is snoozed has not failed, for the pool. A panic reaches River as a
// [*shoal.PanicError] with the stack, and runtime.Goexit as [shoal.ErrGoexit]: River calls
// HandleError for both, and HandlePanic for neither.
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
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivertype"
	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
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
// returned, and returns its result. So River never starts the next attempt because this
// one's time is over.
//
// If River has rescued a job whose attempt still runs in this process, the middleware does
// not run the next attempt. It snoozes the job for 10 s, and again until that attempt has
// returned. An attempt is recognized if both went through the same middleware: give all
// clients of the process the value that one call of Middleware has returned. If the
// client has the middleware and a worker has it too, an attempt runs on the pool once.
//
// The job's context is derived from River's: it ends with it, and when the pool is closed.
// River's values are found in it, so river.ClientFromContext and river.RecordOutput work.
//
// Middleware panics if pick is nil.
func Middleware(pick func(*rivertype.JobRow) *shoal.Pool) river.WorkerMiddlewareFunc {
	if pick == nil {
		panic("shoalriver: Middleware(nil): want a function")
	}
	var running sync.Map // of identity
	return func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		if job.ID != 0 { // as in a test, without a database
			key := identity{&running, job.ID, job.CreatedAt.UnixNano()}
			if ctx.Value(key) != nil {
				return work(ctx) // this attempt has been here
			}
			if _, beside := running.LoadOrStore(key, true); beside {
				return river.JobSnooze(besidePause)
			}
			defer running.Delete(key)
			ctx = context.WithValue(ctx, key, true)
		}
		p := pick(job)
		if p == nil {
			return result(ctx, work(ctx), false)
		}
		began := false
		var snooze error
		// SubmitWait returns when work does not run any more; otherwise River would try the job
		// again beside this attempt.
		err := p.SubmitWait(ctx, func(ctx context.Context) error {
			began = true
			err := result(ctx, work(ctx), false)
			if _, ok := errors.AsType[*river.JobSnoozeError](err); ok {
				snooze = err // that is no failure
				return nil
			}
			return err
		})
		switch {
		case err == nil:
			return snooze
		case !began && errors.Is(context.Cause(ctx), errOverdue):
			return river.JobSnooze(0) // it has not run, so this was no attempt
		}
		return err
	}
}

// An identity is that of a job which runs on a middleware, and the key of a value in its context.
// An ID is unique in one database, and clients may work those of several.
type identity struct {
	running     *sync.Map // the middleware's
	id, created int64
}

// besidePause is how long a job is snoozed while an earlier attempt of it still runs.
const besidePause = 10 * time.Second

// stopPause is how long a job is snoozed that says it was interrupted, though nothing stops it.
const stopPause = time.Second

// result is what is returned to River if a handler returned err. ctx is the handler's, and timed says
// whether it ends with JobTimeout. The context of a middleware does not.
func result(ctx context.Context, err error, timed bool) error {
	d, retry := jobs.RetryAfter(err)
	_, canceled := errors.AsType[*river.JobCancelError](err)
	switch {
	case retry:
		return river.JobSnooze(d)
	case canceled:
		return err
	case jobs.IsPoison(err):
		return river.JobCancel(err)
	case !errors.Is(err, jobs.ErrStopped) || errors.Is(err, jobs.ErrTimeLimit) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return err
	case ctx.Err() != nil:
		return river.JobSnooze(0)
	case timed:
		return river.JobSnooze(stopPause)
	}
	// The time may be over. If such a job were snoozed, it would run again and again.
	return err
}

var errOverdue = fmt.Errorf("shoalriver: the time that Within allows is over, and River may rescue the job: %w", jobs.ErrLeaseLost)

// Within returns a River middleware that ends the context of each attempt d after River
// has taken the job. The wait for a worker of the pool is included, unlike in JobTimeout. The
// cause of the end ([context.Cause]) matches [jobs.ErrLeaseLost].
//
// If the time is over before a worker has begun, the job is snoozed, which costs no attempt.
// The middleware must come before [Middleware] in the configuration.
//
// d should be RescueStuckJobsAfter less the time that handlers need to return when their
// context has ended, and less what the clocks of the machines differ: then River rescues no
// job that runs. Within panics if d is not positive.
func Within(d time.Duration) river.WorkerMiddlewareFunc {
	if d <= 0 {
		panic(fmt.Sprintf("shoalriver: Within(%v): want more than 0", d))
	}
	return func(ctx context.Context, _ *rivertype.JobRow, work func(context.Context) error) error {
		ctx, cancel := context.WithTimeoutCause(ctx, d, errOverdue)
		defer cancel()
		return work(ctx)
	}
}

// Work returns a River worker that runs a handler of package jobs, such as one that
// [jobs.Handle] made. The payload that h gets is the job's arguments as River has encoded
// them, in JSON. [jobs.From] finds the job in the context; its ID is River's ID in decimal,
// its Attempt is River's, and its Delivery is nil.
//
// The errors of package jobs mean what the package's documentation says, with or without
// [Middleware]. Other limits of jobs.Serve, such as WithMaxAttempts, are River's here:
// MaxAttempts, RetryPolicy.
//
// Work panics if h is nil.
func Work[T river.JobArgs](h jobs.Handler) river.Worker[T] {
	if h == nil {
		panic("shoalriver: Work(nil): want a handler")
	}
	return river.WorkFunc(func(ctx context.Context, job *river.Job[T]) error {
		j := &jobs.Job{ID: strconv.FormatInt(job.ID, 10), Data: job.EncodedArgs, Attempt: job.Attempt}
		return result(ctx, h(jobs.NewContext(ctx, j), j), true)
	})
}

// CompleteTx marks a job as completed in tx, the transaction of its effect, if the attempt
// of job is still the current one. So the effect and the completion are committed together,
// and by one attempt only. A worker calls it last:
//
//	tx, err := db.Begin(ctx)
//	if err != nil {
//		return err
//	}
//	defer tx.Rollback(ctx)
//	// … the effect, in tx
//	if err := shoalriver.CompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
//		return err
//	}
//	return tx.Commit(ctx)
//
// CompleteTx locks the job's row until tx ends, and looks whether the job is running, and in
// this attempt. If not, it returns an error that matches [jobs.ErrLeaseLost]: then River has
// rescued the job, somebody has deleted it, or it is completed. The caller must roll tx
// back after any error, and return the error. ctx is the worker's, or derived from it.
// CompleteTx blocks while another attempt has locked the row, until its transaction ends or
// ctx does.
//
// river.JobCompleteTx alone does not look: if two attempts of a job run beside each other,
// both commit.
//
// # What it cannot promise
//
// Only what is written in tx is done once. Calls of other services and other transactions
// may be made by each attempt.
//
// River records the result of an attempt by the job's ID alone, whichever attempt runs. If an
// attempt that has lost its job returns an error, River plans the next attempt although
// another one runs; that one's CompleteTx then fails, its work is lost, and the next one does
// it. If it returns nil, River marks the job as completed, and the effect of the other is
// refused. So all workers of a kind should complete their jobs with CompleteTx, and return
// its error. While attempts get in each other's way like this, work is done more than once,
// and attempts are used up.
//
// If somebody retries a job that is completed, for example in River UI, its effect happens
// again.
func CompleteTx[TDriver riverdriver.Driver[TTx], TTx any, TArgs river.JobArgs](ctx context.Context, tx TTx, job *river.Job[TArgs]) error {
	client, err := river.ClientFromContextSafely[TTx](ctx)
	if err != nil {
		return fmt.Errorf("shoalriver: CompleteTx: the context is not that of a worker: %w", err)
	}
	// JobUpdateTx changes nothing but the output of the job, if it has one. It locks the row.
	now, err := client.JobUpdateTx(ctx, tx, job.ID, nil)
	switch {
	case errors.Is(err, rivertype.ErrNotFound):
		return fmt.Errorf("shoalriver: job %d is deleted: %w", job.ID, jobs.ErrLeaseLost)
	case err != nil:
		return fmt.Errorf("shoalriver: job %d: %w", job.ID, err)
	case now.State != rivertype.JobStateRunning:
		return fmt.Errorf("shoalriver: job %d is %s, and not running in attempt %d: %w", job.ID, now.State, job.Attempt, jobs.ErrLeaseLost)
	case now.Attempt != job.Attempt || !sameTime(now.AttemptedAt, job.AttemptedAt): // River counts back when it snoozes
		return fmt.Errorf("shoalriver: job %d runs in attempt %d, begun %v, and not in attempt %d, begun %v: %w",
			job.ID, now.Attempt, now.AttemptedAt, job.Attempt, job.AttemptedAt, jobs.ErrLeaseLost)
	}
	if _, err := river.JobCompleteTx[TDriver](ctx, tx, job); err != nil {
		return fmt.Errorf("shoalriver: job %d: %w", job.ID, err)
	}
	return nil
}

func sameTime(a, b *time.Time) bool { return a != nil && b != nil && a.Equal(*b) }
