package shoal

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// The watchdog reports when a pool gets nothing done, and when a task takes too long. While a
// worker is awake, the watchdog takes a few samples of the pool in the smallest threshold. That a
// task runs, or that none has ended, has lasted at least since the sample that saw it first. So a
// report is up to a quarter of the threshold late, and never too early. Tasks are not slower for it.

// minAlarm is the least threshold of the watchdog.
const minAlarm = time.Millisecond

// maxAlarmTasks is how many tasks an [Alarm] names.
const maxAlarmTasks = 10

// WithStallAfter makes the pool report when it has been stalled for d. A pool
// is stalled while it is not paused, all workers that it may have are inside tasks,
// no task ends, and each look finds that other tasks or submitters wait for them: as when
// tasks wait for tasks that are queued behind them, or all wait for one lock. There are at
// least four looks in d. They need not find the same tasks: clients that come and give up
// do not hide a stall if one waits at each look. Those that wait in a sub-pool count,
// unless that, or one between, is paused, or at a maximum lower than the pool's. A stall
// ends, too, when a waiting task of the pool itself is run by its waiter. A sub-pool whose
// workers are held by tasks of others is not stalled: then the pool above it is. So set it
// for the pool that has the workers too. d must be at least 1 ms.
//
// Each stall is reported once: by a warning in the log with the stacks of the
// oldest tasks (see [Pool.OldestTasks] for what these cost), in [Stats].Stalls,
// and to the function of [WithAlarmHandler]. The report comes between d and
// 1.25 d after the stall began, plus the delays of the timer; never before.
//
// With this option the pool has one timer while any worker of its family is awake.
// The timer fires four times in d. If [WithSlowTask] is set to another duration, it
// fires eight times in the smaller of the two. Tasks cost no more.
func WithStallAfter(d time.Duration) Option {
	return option(func(c *config) { c.watch.stallAfter = d })
}

// WithSlowTask makes the pool report a task that has been running for d, once,
// in [Stats].SlowTasks and otherwise as [WithStallAfter] does, and at the same
// cost. The report comes between d and 1.25 d after the task began, plus the
// delays of the timer; never before. A task that ends sooner may go unreported.
// One report is about all tasks that have become slow since the last look and
// still run. Tasks that do not run on a worker are not watched, nor are those of
// sub-pools: set it there too. d must be at least 1 ms.
func WithSlowTask(d time.Duration) Option { return option(func(c *config) { c.watch.slowTask = d }) }

// WithAlarmHandler sets a function that is called with every alarm of
// [WithStallAfter] and [WithSlowTask], after the warning in the log. It runs on
// a goroutine of the pool, one call at a time; Shutdown and Close wait for it.
// A panic of f is reported like that of a task. A call of [runtime.Goexit] in f
// is a bug, which ends the process.
func WithAlarmHandler(f func(Alarm)) Option { return option(func(c *config) { c.watch.onAlarm = f }) }

// An AlarmKind says what an [Alarm] is about.
type AlarmKind uint8

// The two kinds.
const (
	AlarmStall    AlarmKind = iota // see [WithStallAfter]
	AlarmSlowTask                  // see [WithSlowTask]
)

// String is "stall" or "slow task".
func (k AlarmKind) String() string { return nameOf(int(k), "AlarmKind", "stall", "slow task") }

// An Alarm is a report of [WithStallAfter] or [WithSlowTask].
type Alarm struct {
	Kind  AlarmKind
	For   time.Duration // how long the pool has been stalled, or the oldest slow task has been running, as far as is known
	Count int           // the number of running tasks if it is a stall, otherwise of tasks that have become slow
	Tasks []RunningTask // the oldest of these, up to 10, oldest first
	Stats Stats         // of the pool at that time
}

// A watchdog belongs to a pool. Pool.mu guards its second half.
type watchdog struct {
	stallAfter, slowTask time.Duration // Forever: not watched for
	onAlarm              func(Alarm)

	since             int64         // when a stall was noticed first, by the pool's clock, plus 1; 0: there is none
	moves             uint64        // see [kernel.Snapshot], at that time
	told              int64         // since of the stall that was reported last
	slow              map[int]int64 // the tasks that were reported as slow, by worker
	stalls, slowTasks uint64
}

// period is the time between two samples. It is so short that a report is at most a quarter of its
// threshold late. What is to be reported is first seen at most a period late. Then the threshold must
// pass, which takes whole periods.
func (d *watchdog) period() time.Duration {
	least, most := min(d.stallAfter, d.slowTask), max(d.stallAfter, d.slowTask)
	if least == most || most == Forever {
		return least/4 + (least%4+3)/4 // four periods are not less than the threshold
	}
	return least / 8 // the other threshold may not be a whole number of periods
}

// sample takes a sample, and reports what it finds. The kernel calls it, one call at a time.
func (p *Pool) sample() {
	d := &p.watch
	p.mu.Lock()
	s := p.statsLocked()
	all := p.running()
	late := p.lateLocked(all)
	stalled := s.Stalled >= d.stallAfter && d.told != d.since
	if stalled {
		d.told = d.since
		d.stalls++
	}
	d.slowTasks += uint64(len(late))
	p.mu.Unlock()
	if stalled {
		p.tell(AlarmStall, "the pool is stalled: all workers are inside tasks, others wait, none has ended", s.Stalled, all)
	}
	if len(late) > 0 {
		sy.Reach("slow task")
		p.tell(AlarmSlowTask, "tasks have become slow", late[0].Age, late)
	}
}

// lateLocked is those of all that have become slow and were not reported yet, the oldest first.
func (p *Pool) lateLocked(all []kernel.WorkerView) []kernel.WorkerView {
	was := p.watch.slow
	p.watch.slow = map[int]int64{}
	return slices.DeleteFunc(slices.Clone(all), func(w kernel.WorkerView) bool {
		if w.Age < p.watch.slowTask || w.Lane != &p.lane {
			return true
		}
		p.watch.slow[w.ID] = w.Began
		return was[w.ID] == w.Began
	})
}

// tell reports to the log and to the handler.
func (p *Pool) tell(kind AlarmKind, what string, age time.Duration, tasks []kernel.WorkerView) {
	a := Alarm{kind, age, len(tasks), withStacks(tasks[:min(len(tasks), maxAlarmTasks)]), p.Stats()}
	attrs := []any{
		"pool", p.name, "for", a.For, "tasks", a.Count,
		"running", a.Stats.Running, "max", a.Stats.MaxWorkers, "queued", a.Stats.Queued,
	}
	for i, t := range a.Tasks {
		attrs = append(attrs, slog.Group(fmt.Sprint("task", i+1), "worker", t.Worker, "age", t.Age, "stack", t.Stack))
	}
	p.callback("the log", func() { p.log().Warn("shoal: "+what, attrs...) })
	if f := p.watch.onAlarm; f != nil {
		p.callback("the alarm handler", func() { f(a) })
	}
}

// The rest of this file finds the stacks of running tasks. Go gives a goroutine no name by which
// another goroutine could ask for its stack. So all stacks of the process are printed, as a crash
// prints them, and searched. A worker's goroutine is found by the address of the worker, which is the
// argument of Worker.loop. Nothing is recorded per task or per worker for that, and a task that hangs
// already can be found.

// A RunningTask is a task that runs on a worker.
type RunningTask struct {
	Worker int
	Age    time.Duration // as [WorkerStats].TaskAge
	// Stack is the goroutine's stack as Go prints it, from the task's innermost
	// call to its first function. It is empty if the process had too many
	// goroutines, or if the task has ended meanwhile.
	Stack string
}

// maxStacks is the most goroutines that a process may have for stacks to be looked
// for. To print 100,000 short stacks takes 0.15 s and 20 MB.
const maxStacks = 100_000

// OldestTasks returns the n tasks that have been running longest, oldest first,
// with their stacks. It shows why a pool is stuck. Tasks of sub-pools are among them.
//
// To print the stacks the whole process stops, as for the profile
// /debug/pprof/goroutine?debug=2: about 1 ms for each 1,000 goroutines. In a
// process with more than 100,000 goroutines the stacks are left out.
func (p *Pool) OldestTasks(n int) []RunningTask {
	all := p.running()
	return withStacks(all[:max(0, min(n, len(all)))])
}

// running is the workers that are inside tasks, the oldest task first.
func (p *Pool) running() []kernel.WorkerView {
	all := slices.DeleteFunc(p.lane.Workers(0, MaxWorkers), func(w kernel.WorkerView) bool { return !w.InTask })
	slices.SortStableFunc(all, func(a, b kernel.WorkerView) int { return cmp.Compare(b.Age, a.Age) })
	return all
}

// withStacks is the tasks that run in these workers, with their stacks as far as they are found.
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
