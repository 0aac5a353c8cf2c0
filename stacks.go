package shoal

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file finds the stacks of running tasks. Go gives a goroutine no name that
// another one could ask for, so all stacks of the process are printed, as a crash
// prints them, and searched: whose goroutine it is tells the address of the worker,
// which is the argument of worker.loop. Nothing is noted per task or per worker for
// that, and a task that hangs already can be found.

// A RunningTask is a task that runs on a worker.
type RunningTask struct {
	Worker int
	Age    time.Duration // as [WorkerStats].TaskAge
	// Stack is the goroutine's stack as Go prints it, from the task's innermost
	// call to its first function. It is empty if the process had too many
	// goroutines, or if the task has ended meanwhile.
	Stack string
}

// maxStacks is with how many goroutines in the process stacks are looked for. To
// print 100,000 short ones takes 0.15 s, and 20 MB.
const maxStacks = 100_000

// OldestTasks returns the n tasks that have been running longest, oldest first,
// with their stacks. It shows why a pool is stuck.
//
// To print the stacks the whole process stops, as for the profile
// /debug/pprof/goroutine?debug=2: about 1 ms for each 1,000 goroutines. In a
// process with more than 100,000 goroutines the stacks are left out.
func (p *Pool) OldestTasks(n int) []RunningTask {
	all := p.running()
	return withStacks(all[:max(0, min(n, len(all)))])
}

// running is the workers that are inside tasks, the oldest first.
func (p *Pool) running() []kernel.WorkerView {
	all := slices.DeleteFunc(p.lane.Workers(), func(w kernel.WorkerView) bool { return !w.InTask })
	slices.SortStableFunc(all, func(a, b kernel.WorkerView) int { return cmp.Compare(b.Age, a.Age) })
	return all
}

// withStacks looks for the stacks of what is running in these workers.
func withStacks(all []kernel.WorkerView) []RunningTask {
	tasks := make([]RunningTask, len(all))
	at := make(map[string]int, len(all))
	for i, w := range all {
		tasks[i] = RunningTask{Worker: w.ID, Age: w.Age}
		at[w.Address()] = i
	}
	if len(all) == 0 {
		return tasks
	}
	for g := range bytes.SplitSeq(sy.Stacks(maxStacks), []byte("\n\n")) {
		worker, stack := taskStack(string(g))
		if i, ok := at[worker]; ok && all[i].Same() {
			tasks[i].Stack = stack
		}
	}
	return tasks
}

// The names of functions in stacks.
const (
	inPackage = "github.com/shoal-go/shoal."
	inCaller  = "github.com/shoal-go/shoal/internal/caller."
	inKernel  = "github.com/shoal-go/shoal/internal/kernel."
	inLoop    = inKernel + "(*Worker).loop("
)

// taskStack returns the part of a goroutine's stack that is the task of a worker, and the address
// of that worker. It returns nothing if the goroutine is no worker's.
func taskStack(g string) (worker, stack string) {
	lines := strings.Split(strings.TrimSuffix(g, "\n"), "\n")
	end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, inLoop) })
	if end < 0 {
		return "", ""
	}
	worker, _, _ = strings.Cut(strings.TrimPrefix(lines[end], inLoop), ")")
	for end >= 3 && begins(lines[end-2], inPackage, inCaller, inKernel, "runtime/trace.") { // two lines per frame, after the heading
		end -= 2
	}
	return strings.TrimSuffix(worker, "?"), strings.Join(lines[:end], "\n")
}
