package shoal

// Sub makes a sub-pool of p: a pool with a limit, a queue, a policy, statistics
// and a life of its own, whose tasks run on the workers of p. It has no
// goroutines. Its maximum is that of p unless [WithMaxWorkers] sets another. A
// sub-pool may have sub-pools. A family is a pool, its sub-pools, and theirs.
//
// While there are too few workers for all pools of a family, those with the
// highest [WithPriority] come first, and those of equal priority share the
// workers' time by their [WithWeight]. The tasks of p itself have priority 0
// and weight 1. No worker is idle while a pool of the family could use it.
//
// Closing a sub-pool leaves p open. Shutting p down shuts its sub-pools down in
// the same way and waits for them. Pausing p, or lowering its maximum, takes
// workers from sub-pools as their tasks end.
//
// The statistics of p, its Wait, and the tasks that its Shutdown reports are
// those that were submitted to p itself. But a worker that runs a task of a
// sub-pool counts as running in p too.
//
// Each pool of a family counts its own tasks alone against its capacity. A worker
// that runs a task of a sub-pool takes none of p's: p accepts as many tasks as if
// that worker were idle, also at capacity 0, and they wait for a worker.
//
// When the Wait or the Shutdown of a sub-pool returns, its last worker is p's
// again only a moment later.
//
// A sub-pool takes no options about goroutines: [WithMinWorkers], [WithSizing],
// [WithIdleTimeout], [WithMaxTasksPerWorker], [WithSpin], [WithThreadPinning]
// and [WithWorkerHooks]. It has the panic handler, the logger and the [Tracer]
// of p unless it is given its own.
//
// Errors: [ErrConfig] for an invalid option, [ErrClosed] if p is shut down.
//
// # Deadlocks
//
// Under [Block] a task of the family never waits for room in a sub-pool. A task
// that submits to its own pool, which is full, runs the new task itself, as
// [Pool.Submit] says. If it submits to another pool of the family, the new task
// is accepted beyond the capacity.
//
// A task may wait for the Future or the Group of any pool of the family. As in
// [Future.Wait] it runs the awaited tasks itself where that is possible, within
// the limits of their pools and of the pools between. A task counts as a part
// of the one from whose context its own is derived. Two rules follow:
//
//   - If two sub-pools are at their limits, their tasks must not wait for tasks
//     of each other that have not started.
//   - A task that waits for a whole sub-pool, by its Wait or Shutdown, keeps its
//     worker meanwhile. If that is the only one, it waits for ever.
//
// A task of a sub-pool that runs on no worker, by [Spawn] or [CallerRuns], is
// outside the limits of the pools above it. It runs what it waits for itself,
// beside their workers.
func (p *Pool) Sub(opts ...Option) (*Pool, error) {
	if p == nil || !p.made() {
		return nil, ErrClosed
	}
	c := defaults()
	c.up = p
	c.lane.Max = p.lane.Max()
	c.onPanic, c.crash, c.logger, c.tracer = p.onPanic, p.crash, p.logger, p.tracer
	return c.pool(opts)
}

// WithPriority sets the priority of a sub-pool: -1<<20 … 1<<20, by default 0.
// While there are too few workers, pools of higher priority come first,
// whatever that means for the others. A worker that runs a task of lower
// priority changes over when the task has ended. See [Pool.Sub].
func WithPriority(n int) Option {
	return ofSub("WithPriority", func(c *config) { c.lane.Priority = n })
}

// WithWeight sets the weight of a sub-pool: 1 … 1<<20, by default 1. While
// there are too few workers, pools of the same priority share the workers' time
// in proportion to their weights. See [Pool.Sub].
func WithWeight(n int) Option { return ofSub("WithWeight", func(c *config) { c.lane.Weight = n }) }

// Subs returns the sub-pools of p that have not ended, in the order in which they
// were made.
func (p *Pool) Subs() []*Pool {
	var subs []*Pool
	for _, l := range p.lane.Below() {
		subs = append(subs, (*Pool)(l.Owner().(*owner)))
	}
	return subs
}
