package shoal

import "context"

// This file answers one question: does the calling goroutine run a task of
// this pool? A context tells (inTask), but Wait, Close and Submit have none. So
// the loop of a worker is called in the name of its pool (worker.main), and so is
// a task that runs on another goroutine (asTask): the stack tells, however many
// pools there are (package caller). A loop is named once, so that costs a task
// nothing. To ask takes microseconds, and only calls that are about to park ask.
//
// The answer is no for goroutines that a task has started, and in iterators that
// iter.Pull runs: these have stacks of their own.

// onOwnWorker reports whether the calling goroutine runs a task of p.
func (p *Pool) onOwnWorker() bool { return p.id.Depth() > 0 }

// maxNesting is how many tasks of a pool may run inside each other because
// there was no room.
const maxNesting = 64

// nesting is how many tasks of p the calling goroutine is in, one inside the
// other, as far as its stack and ctx tell.
func (p *Pool) nesting(ctx context.Context) int {
	switch n := p.id.Depth(); {
	case n > 0:
		return n
	case p.inTask(ctx):
		return 1
	case p.up != nil && p.root().nesting(ctx) > 0:
		// A task of another pool of the family. It must not wait for p, but has no
		// worker of p's either.
		return maxNesting + 1
	}
	return 0
}
