// Package jobs works off a durable queue, on as many machines as there are, with the
// workers of a pool.
//
// A program that has outgrown one machine enqueues what it submitted before, and
// has each of its processes Serve the queue:
//
//	err := jobs.Serve(ctx, pool, source, jobs.Handle(func(ctx context.Context, m Mail) error {
//		return send(ctx, m)
//	}))
//
// The queue is somebody else's: a [Source] says how jobs are leased from it. There are
// sources for NATS JetStream (contrib/nats) and for SQL databases (contrib/sql);
// package jobstest has one in memory, for tests, and the conformance suite that every
// source passes.
//
// # What is promised
//
// A job runs at least once: it may run again when its process dies, when its lease runs
// out because the process was cut off, or when the answer that it is done is lost. What
// must happen only once has to be made so, by the job's ID or by what the source offers
// (contrib/sql can acknowledge in the transaction of the effect).
//
// Serve is a polite consumer. It leases a job only for a worker that it has reserved
// ([shoal.Pool.Reserve]), so it never holds more than the pool can run and the rest is
// there for other machines. It extends the lease of what runs for long, every third of
// it, several at the same time; a short job costs no extension. When it ends it stops
// pulling, lets what runs finish for a while ([WithDrain]), then cancels the rest and
// gives it back at once, so that another machine need not wait for the lease.
//
// # The result of a job
//
//	nil                          it is acknowledged, and gone
//	Retry(d)                     given back, for not before d has passed
//	Poison(err)                  to the dead letters, at once
//	another error, a panic,
//	runtime.Goexit               given back for a while that grows ([WithBackoff]);
//	                             after [WithMaxAttempts] to the dead letters
//	none, as the process died,   leased again when the lease is over; after
//	  or the lease was lost      [WithMaxLeases], if given, to the dead letters
//	any error after the end      given back, for now
//	  of Serve or of the pool
//	  was seen
//
// When a lease is lost, as the source says or because it could not be extended in
// time, the context of the job ends with the cause [ErrLeaseLost]: another machine may
// have the job. An error of it counts for nothing then.
//
// A panic reaches the pool's panic handler as that of any task.
package jobs
