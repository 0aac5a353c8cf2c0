// Package shoalshims shows how handlers of three job engines, asynq, River and
// Temporal, run their work on a pool of shoal.
//
// It is a set of examples, one file for each engine, to be copied: who imports the
// package has all three engines among its dependencies.
//
//   - asynq.go: [Asynq] is a handler around a handler, and a middleware.
//   - river.go: [River] is a worker middleware.
//   - temporal.go: [Temporal] is a worker interceptor, for activities.
//
// # What it is good for
//
// Each engine has a limit of its own for how much it runs at the same time, and none
// knows of the others, nor of what else the process does. With a pool that they share
// there is one bound for all, and sub-pools say who comes first while there is more to
// do than workers:
//
//	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(16)))
//	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithWeight(3)))
//	reports := shoal.Must(pool.Sub(shoal.WithName("reports"), shoal.WithMaxWorkers(4)))
//	payments := shoal.Must(pool.Sub(shoal.WithName("payments"), shoal.WithPriority(1)))
//
//	mux.Handle("mail:", shoalshims.Asynq(mails, mailHandler))
//
// Panics and runtime.Goexit come back to the engine as errors, and the page and the
// metrics of the pool show what runs, for how long, what waits, and what failed.
//
// # When package jobs is better
//
// An engine takes a job from its queue before it asks the pool for a worker. While all
// workers are busy the job waits in this process, leased, and no other machine can have
// it. [github.com/shoal-go/shoal/jobs] with contrib/nats or contrib/sql reserves the
// worker first, so a process never holds more jobs than it runs. Take that where there
// is no engine yet, and jobs are all that is needed. Take a shim where the engine is
// there already, or where it does what jobs does not: workflows, unique jobs, schedules,
// a user interface.
//
// # What to mind
//
//   - The engine's own limit (asynq's Concurrency, River's MaxWorkers of a queue,
//     Temporal's MaxConcurrentActivityExecutionSize) should be at least the maximum of the
//     pool that it uses, or the pool is never full; and not much more, as all
//     above that is leased and waits.
//   - Leases, rescues, retries and timeouts stay the engine's. Of a job that waits for a
//     worker asynq extends the lease, and its Timeout runs; River's JobTimeout begins when
//     a worker does; Temporal's StartToCloseTimeout runs, and a HeartbeatTimeout too, while
//     nothing sends heartbeats. The wait is in [shoal.Stats].WaitTime.
//   - The handler is given a context derived from the engine's: it ends with that and when
//     the pool is closed, and values are found in it, so asynq.GetTaskID,
//     river.ClientFromContext and activity.RecordHeartbeat work.
//   - A job whose context ends while it waits for a worker does not run. For one that runs,
//     [River] and [Temporal] wait until it has returned, as these engines do themselves,
//     and pass its result on. asynq leaves a handler whose context has ended alone; it
//     keeps its worker until it returns.
//   - A panic is an error to the engine: [*shoal.PanicError], with the stack. The hooks that
//     engines have for panics (asynq.IsPanicError, River's HandlePanic) do not see it;
//     errors.As finds it where hooks are given the error.
//   - Use the policy Block, the default. Under Reject a full queue costs the job
//     an attempt, and Spawn and CallerRuns go beyond the bound.
//   - End the engine first, then the pool. With a pool that is closed jobs fail with
//     [shoal.ErrClosed] or [shoal.ErrDropped], and the engine tries them again, which counts
//     as an attempt unless the engine is told otherwise: see [Asynq] and [River].
//   - No handler may wait for another job of an engine on the same pool: the pool sees
//     only waits for its own tasks.
package shoalshims
