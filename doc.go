// Package shoal runs tasks on a bounded number of goroutines.
//
// A [Pool] has workers and a queue. [Pool.Submit] puts a function, the task,
// into the queue, and a worker runs it:
//
//	pool, err := shoal.New(shoal.WithMaxWorkers(16))
//	if err != nil {
//		return err
//	}
//	for _, url := range urls {
//		if err := pool.Submit(func() { fetch(url) }); err != nil {
//			break // the pool is closed
//		}
//	}
//	return pool.Shutdown(ctx) // runs what was accepted, then ends
//
// Without options a pool has at most GOMAXPROCS workers and a queue of 1<<20
// tasks, and Submit waits while that is full. It also parks now and then, for
// about 100 ms at most, while more than 32,768 tasks wait; see [Pool.Submit].
// Workers start when tasks need them, and leave after 5 s without work. A
// program needs few pools: one for itself, and one for each dependency that has
// a limit of its own.
//
// # Five calls
//
// Most programs need no more than these:
//
//   - [Pool.Submit] runs a function some time soon.
//   - [Pool.SubmitWait] runs a function on the pool and returns its error.
//   - [Go] runs a function and returns a [Future] for its result.
//   - [Pool.Group] is errgroup on the pool: [Group.Go] adds a task, the first
//     error cancels the others, and [Group.Wait] returns it.
//   - [MapSlice] is a parallel loop over a slice that returns the results in
//     their order.
//
// There are more loops: [Range] over numbers, [ForEachSlice] over a slice, and
// [Map], [MapUnordered] and [ForEach] over sequences.
//
// [Keyed] runs the tasks of one key in order. [Func] takes values instead of
// closures. [Local] gives each worker a resource of its own. [Pool.Sub] makes a
// pool whose tasks run on the workers of another one, with a limit and a share.
// [Pool.SubmitAfter] delays a task.
//
// # Options
//
// Set [WithMaxWorkers] if tasks wait for something outside the process. Set
// [WithQueueCapacity] and [WithFullPolicy] if load can exceed what the pool can
// do. Set [WithName], which logs, metrics and profiles show. Most programs need
// no other option.
//
// # Backpressure
//
// WithMaxWorkers bounds how many tasks run. That protects what they use: a
// database, a disk, the CPUs. WithQueueCapacity bounds how many tasks wait. That
// bounds memory and waiting time, unless tasks submit tasks. A task of a [Keyed] may
// wait longer, for its key. A pool does not limit how many tasks run in a second: for
// that wait on golang.org/x/time/rate before Submit.
//
// MapSlice, ForEachSlice and Range also run f on the goroutine that calls them,
// which is no worker. So k callers at once may add k calls of f. If the maximum
// protects something, use a Group, Map or ForEach.
//
// The full policy says what happens when the queue is full. [Block], the
// default, slows the submitter down, which is right for batch jobs. But what a
// task submits to a pool of its family that is not above its own (see
// [Pool.Sub]) is accepted beyond a full queue: for a pipeline over sub-pools
// chain calls of [Map]. [Reject] returns [ErrQueueFull], so that a server can
// answer at once; [Pool.TrySubmit] does so for one call. [CallerRuns] runs the
// task on the submitting goroutine, [Spawn] on a new one beyond the limit, and
// [DropOldest] discards the task that is first in the queue. Under Block,
// [Pool.SubmitContext] waits for free capacity only until its context ends.
//
// # Tasks that wait for tasks
//
// In most pools, tasks that wait for other tasks of the same pool deadlock as
// soon as every worker waits. Here they do not, if a task passes its context
// on:
//
//	err := pool.SubmitWait(ctx, func(ctx context.Context) error {
//		f := shoal.Go(ctx, pool, child) // ctx is the task's own
//		v, err := f.Wait(ctx)
//		...
//	})
//
// The context tells the pool that one of its workers waits. If child has not
// started, that worker runs it on the spot. So one worker is enough for any
// recursion; to be fast it may need more, see [WithMaxWorkers]. The same holds for
// SubmitWait, loops, and groups that the task has made. A waiting task runs only
// what it waits for. In the same way, a task that submits to its own full pool
// under Block runs the new task itself.
//
// A goroutine that a task starts, and an iterator that it runs by [iter.Pull],
// have stacks of their own. There only the context shows the caller's task: use
// the calls that take one. A task that is to outlive its submitter needs another
// context; see [Pool.SubmitContext].
//
// The pool cannot help a task that waits by a channel or a [sync.WaitGroup] for
// tasks queued behind it. If all workers do so, [WithStallAfter] reports it.
//
// # Errors and panics
//
// If Submit does not accept the task, it returns [ErrNilTask], [ErrClosed] or
// [ErrQueueFull]; SubmitContext may also return its context's error.
//
// A caller that waits for a task gets an answer, whatever becomes of the task:
//
//   - the error that the task returned;
//   - a [*PanicError] with the stack, if the task panicked. A panic ends neither
//     the process nor the worker;
//   - [ErrGoexit], if the task called [runtime.Goexit], as t.FailNow does;
//   - [ErrDropped], or the error of its context, if the task was accepted and
//     did not run.
//
// A task that waits may run the other task itself. If that one calls runtime.Goexit,
// both end, and there is nobody to get the answer.
//
// The handler of [WithPanicHandler] gets every panic. Without a handler, a panic
// that no caller could get is logged: that of Submit's task, but not that of a
// Future that nobody waits for. With [WithCrashOnPanic] a panic ends the
// process instead.
//
// MapSlice, Range and a Group stop at the first error. ForEach and ForEachSlice
// run every item and join the errors.
//
// # Shutdown
//
// A pool ends like a net/http server. [Pool.Shutdown] refuses new tasks and
// runs those that were accepted. If its context ends first, it drops what is
// queued, cancels the contexts of running tasks, and returns a [*ShutdownError]
// that counts both. [Pool.Close] drops what is queued at once, cancels what
// runs, and waits for it. When Close or Shutdown returns nil, no goroutine of
// the pool exists, but for the last instructions of one.
//
// End an http.Server before the pool: it waits for its handlers, which may wait for
// tasks. One context bounds both. If the server uses it up, the pool drops its queue:
//
//	err := errors.Join(server.Shutdown(ctx), pool.Shutdown(ctx))
//
// Shutdown also refuses what accepted tasks submit. If yours do, call
// [Pool.WaitContext] before it.
//
// Whoever makes a pool ends it. A library may also keep one in a package variable,
// and never end it; see [New].
//
// [Pool.Wait] waits until nothing is queued or running, and leaves the pool
// open.
//
// # Testing
//
// A pool that is made inside a bubble of [testing/synctest] works there; close
// it before the bubble ends. A pool with WithMaxWorkers(1) runs tasks one after
// the other, in the order of their submission. docs/testing.md has more.
//
// # Looking inside
//
// [Pool.Stats] returns all counters. [Pool.OldestTasks] returns the stacks of
// what runs. [WithStallAfter] and [WithSlowTask] log a warning when a pool is
// stuck or a task takes too long. Package shoalhttp serves a live page;
// contrib/prom and contrib/otel export metrics and traces.
//
// # What is promised
//
// No task that was accepted is lost. It runs exactly once, unless it is canceled
// first, DropOldest displaces it, or the end of the pool drops it: by Close, by
// WithContext, by a Shutdown whose context ends, or with the pool above.
// Then [Stats] counts it in Canceled or in Dropped.
//
// While a task waits in the queue, and the pool is not paused, a worker that is
// free, or may be started, is on its way to it. No task belongs to a worker before
// it starts, so a task that hangs delays no other while a worker is free. A new
// worker first yields to workers that are making progress (see [Auto]).
//
// The tasks that one goroutine submits are taken from the queue in the order of
// their submission (see [Pool.Submit]). There are never more workers
// than the maximum, unless [Pool.Resize] lowers it while they run tasks.
//
// What happens before a task is submitted is seen by the task, and what the task
// does is seen by the caller that has waited for its end; see [Pool] for the
// terms of the Go memory model.
//
// docs/engine.md has the proofs, docs/conformance.md the whole contract.
package shoal
