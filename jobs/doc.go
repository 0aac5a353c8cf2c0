// Package jobs runs the jobs of a durable queue on the workers of a pool, on one machine
// or on many.
//
// One part of a program puts jobs into the queue. Each process that is to work calls
// [Serve] with a pool of its own:
//
//	err := jobs.Serve(ctx, pool, source, jobs.Handle(func(ctx context.Context, m Mail) error {
//		return send(ctx, m)
//	}))
//
// The queue itself is behind a [Source]. There are sources for NATS JetStream
// (contrib/nats) and for SQL databases (contrib/sql). Package jobstest has a source in
// memory for tests, and the conformance tests that every source passes.
//
// The package has no periodic jobs, no uniqueness beyond a message's ID, and no history. River
// has them, and contrib/river runs its jobs on a pool, with the same handlers. The page
// docs/engines.md of the repository says when to use which engine.
//
// # Guarantees
//
// A job runs at least once. It may run again if its process dies, if its lease ends
// because the process was cut off from the queue, if the confirmation that it is done is
// lost, or if Serve gives it back at its end. If an effect must happen only once, the
// handler has to make sure of that: by the job's ID, or by what the source offers
// (contrib/sql can acknowledge a job in the transaction of its effect).
//
// Serve leases a job only for a worker that it has reserved ([shoal.Pool.Reserve]). So it
// never holds more jobs than the pool can run; other machines can have the rest. It extends
// the lease of a job that runs for long, whenever a third of the lease has passed. A
// job that is shorter than that costs no extension.
//
// When Serve ends, it leases no more jobs and lets the running ones finish for a while
// ([WithDrain]). Then it cancels those that are left and gives them back at once, so that
// another machine need not wait for the end of their leases. It does not wait for their
// handlers, so it may give back a job whose handler is about to return nil: then that
// comes too late.
//
// # The result of a job
//
//	the handler's result         what becomes of the job
//
//	nil                          it is acknowledged, and is done; if Serve has given it back
//	                             before, it runs again
//	Retry(d)                     it is given back; it runs again after d at the earliest
//	Poison(err)                  it becomes a dead letter at once
//	another error, a panic,      it is given back, and runs again after a time that grows
//	  or runtime.Goexit          with each attempt ([WithBackoff]); after
//	                             [WithMaxAttempts] it becomes a dead letter
//	none: the process died,      it is leased again when its lease has ended; after
//	  or the lease was lost      [WithMaxLeases], if set, it becomes a dead letter
//	any error, after Serve has   it was interrupted: it is given back, and may run again
//	  cancelled the job, or        at once
//	  the pool was closed;
//	  or ErrStopped
//
// Every lease counts as an attempt, except one that Serve has given back because the job did not
// begin or was interrupted, as that is no fault of the job ([Delivery].Release). With contrib/nats those count too.
//
// The context of a job that runs for longer than its time limit ([WithTimeLimit]) ends with
// the cause [ErrTimeLimit]. If the handler returns ErrStopped after that, it is a failure.
//
// A lease is lost if the source says so, or if it could not be extended in time. Then the
// context of the job ends with the cause [ErrLeaseLost]: another machine may have the job.
// An error that the handler returns after that has no effect.
//
// A panic of a handler reaches the pool's panic handler, as that of any task.
//
// # Fewer at once
//
// To bound how many jobs of a type run at once, give each type a queue of its own, and serve each
// on a sub-pool: p.Sub(shoal.WithMaxWorkers(n)).
//
// To run one job at a time for each key, such as a customer, the handler of one process calls
// [shoal.GoKeyed] on a second pool, and waits with the job's context. Across processes it locks a
// row in the transaction that acknowledges the job (AckTx of contrib/sql). Or each partition of
// the keys has a queue of its own, and one worker. Retry is not for that: each lease counts as an
// attempt for [WithMaxAttempts].
//
// # Dead letters
//
// A queue keeps its dead letters until somebody retries or deletes them. A queue that is a
// [DeadStore] does so by ID, type or age. Each dead letter has the last error of its job, and
// what the job has written ([WithOutput]). A queue that is a [Depther] tells how many jobs are
// ready, delayed, leased and dead, and for how long the oldest has been ready.
package jobs
