package shoal

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is the watchdog: it tells when a pool gets nothing done, and when a task takes too
// long. It looks at the pool a few times in the smallest threshold, while a worker is awake. What it
// sees has lasted at least since the sample that saw it first. So it tells up to a quarter of
// the threshold late, and never too early. Tasks are not slower for it.

// minAlarm is the least threshold of the watchdog.
const minAlarm = time.Millisecond

// maxAlarmTasks is how many tasks an [Alarm] names.
const maxAlarmTasks = 10

// WithStallAfter makes the pool report when it has been stalled for d. A pool
// is stalled while all its workers are inside tasks, other tasks wait, and no
// task ends: as when tasks wait for tasks that are queued behind them, or all
// wait for one lock. A waiting task that is cancelled, or that its waiter runs,
// counts as one that has ended. d must be at least 1 ms.
//
// Each stall is reported once: by a warning in the log with the stacks of the
// oldest tasks (see [Pool.OldestTasks] for what these cost), in [Stats].Stalls,
// and to the function of [WithAlarmHandler]. The report comes between d and
// 1.25 d after the stall began, plus the delays of the timer; never before.
//
// With this option the pool has one timer while a worker is awake, also if that
// is awake for another pool of the family. It is due four times in d. With
// WithSlowTask and another duration there, it is due eight times in the smaller
// of the two. Tasks cost no more.
func WithStallAfter(d time.Duration) Option {
	return option(func(c *config) { c.stallAfter, c.stallGiven = d, true })
}

// WithSlowTask makes the pool report a task that has been running for d, once,
// in [Stats].SlowTasks and otherwise as [WithStallAfter] does, and at the same
// cost. The report comes between d and 1.25 d after the task began, plus the
// delays of the timer; never before. A task that ends sooner may go unreported.
// One report is about all tasks that have become slow since the last look and
// still run. Tasks that do not run on a worker are not watched. d must be at
// least 1 ms.
func WithSlowTask(d time.Duration) Option {
	return option(func(c *config) { c.slowTask, c.slowGiven = d, true })
}

// WithAlarmHandler sets a function that is called with every alarm of
// [WithStallAfter] and [WithSlowTask], after the warning in the log. It runs on
// a goroutine of the pool, one call at a time; Shutdown and Close wait for it.
// A panic of f is reported like that of a task. A call of [runtime.Goexit] in f
// is a bug, which ends the process.
func WithAlarmHandler(f func(Alarm)) Option { return option(func(c *config) { c.onAlarm = f }) }

// An AlarmKind says what an [Alarm] is about.
type AlarmKind uint8

// The two kinds.
const (
	AlarmStall    AlarmKind = iota // see [WithStallAfter]
	AlarmSlowTask                  // see [WithSlowTask]
)

// String is "stall" or "slow task".
func (k AlarmKind) String() string {
	if k == AlarmStall {
		return "stall"
	}
	return "slow task"
}

// An Alarm is a report of [WithStallAfter] or [WithSlowTask].
type Alarm struct {
	Kind  AlarmKind
	For   time.Duration // how long the pool has been stalled, or the oldest slow task has been running, as far as is known
	Count int           // the number of running tasks if it is a stall, otherwise of tasks that have become slow
	Tasks []RunningTask // the oldest of these, up to 10, oldest first
	Stats Stats         // of the pool at that time
}

// A watchdog belongs to a pool. Its fields are guarded by Pool.mu.
type watchdog struct {
	p                 *Pool
	told              int64         // since when the pool was said to be stalled, as in stall
	slow              map[int]int64 // the tasks that were said to be slow, by worker
	stalls, slowTasks uint64
}

func (c *config) watches() bool { return c.stallGiven || c.slowGiven }

func (c *config) validateWatch(bad func(format string, args ...any)) {
	if c.stallGiven && c.stallAfter < minAlarm {
		bad("WithStallAfter(%v): want at least %v", c.stallAfter, minAlarm)
	}
	if c.slowGiven && c.slowTask < minAlarm {
		bad("WithSlowTask(%v): want at least %v", c.slowTask, minAlarm)
	}
}

// newWatchdog makes the watchdog of p; nil if there is nothing to watch.
func newWatchdog(p *Pool) *watchdog {
	if !p.watches() {
		return nil
	}
	return &watchdog{p: p, slow: map[int]int64{}}
}

// period is the time between two samples. It is such that a quarter of a threshold passes, at
// most, between the time when something is due and the sample that tells: first of all it must be
// seen, at most a period late, and then the threshold must pass, which takes whole periods.
func (d *watchdog) period() time.Duration {
	p := d.p
	switch {
	case !p.slowGiven:
		return (p.stallAfter + 3) / 4 // four of them are not less than it
	case !p.stallGiven:
		return (p.slowTask + 3) / 4
	case p.stallAfter == p.slowTask:
		return (p.stallAfter + 3) / 4
	}
	return min(p.stallAfter, p.slowTask) / 8 // one of the two may take a fraction of a period
}

// look takes a sample, and tells what it finds. It is called by the kernel, one call at a time.
func (d *watchdog) look() {
	p := d.p
	var stall, slow *Alarm
	var late []*kernel.WorkerView
	p.mu.Lock()
	s := p.statsLocked()
	all := p.running()
	if p.stallGiven && s.Stalled >= p.stallAfter && d.told != p.stall.since {
		d.told = p.stall.since
		d.stalls++
		stall = &Alarm{Kind: AlarmStall, For: s.Stalled, Count: len(all)}
	}
	if p.slowGiven {
		late = d.lateLocked(all)
	}
	if len(late) > 0 {
		d.slowTasks += uint64(len(late))
		slow = &Alarm{Kind: AlarmSlowTask, For: late[0].Age, Count: len(late)}
	}
	p.mu.Unlock()
	if stall != nil {
		sy.Reach("stall")
		d.tell(stall, all)
	}
	if slow != nil {
		sy.Reach("slow task")
		d.tell(slow, late)
	}
}

// lateLocked is those of all that have become slow and were not said to be, the oldest first.
func (d *watchdog) lateLocked(all []*kernel.WorkerView) (late []*kernel.WorkerView) {
	was := d.slow
	d.slow = map[int]int64{}
	for _, w := range all {
		switch {
		case w.Age < d.p.slowTask || w.Lane != &d.p.lane:
			continue
		case was[w.ID] != w.Began:
			late = append(late, w)
		}
		d.slow[w.ID] = w.Began
	}
	return late
}

// tell tells the log and the handler.
func (d *watchdog) tell(a *Alarm, tasks []*kernel.WorkerView) {
	p := d.p
	a.Tasks = withStacks(tasks[:min(len(tasks), maxAlarmTasks)])
	a.Stats = p.Stats()
	msg := "shoal: the pool is stalled: all workers are inside tasks, others wait, none has ended"
	if a.Kind == AlarmSlowTask {
		msg = "shoal: tasks have become slow"
	}
	attrs := []any{
		"pool", p.name, "for", a.For, "tasks", a.Count,
		"running", a.Stats.Running, "max", a.Stats.MaxWorkers, "queued", a.Stats.Queued,
	}
	for i, t := range a.Tasks {
		attrs = append(attrs, slog.Group(fmt.Sprint("task", i+1), "worker", t.Worker, "age", t.Age, "stack", t.Stack))
	}
	p.guard(func() { p.noGoexit("the log", func() { p.log().Warn(msg, attrs...) }) })
	if p.onAlarm != nil {
		p.guard(func() { p.noGoexit("the alarm handler", func() { p.onAlarm(*a) }) })
	}
}
