package shoal

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// This file is the watchdog: it tells when a pool gets nothing done, and when a
// task takes too long. It looks now and then, and yet is exact. Whatever it is to
// tell is due a fixed time after something that lies in the past when it looks
// next, provided that it looks at least that often; and then it knows when. So it
// looks once per threshold, and when something is due. It looks only while a worker
// is awake; who wakes one sets its timer. The starts of tasks it has from the
// timing of all tasks, for which it has the pool take the time of each.

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
// and to the function of [WithAlarmHandler]. The report comes d
// after the stall began, plus the delay of the timer.
//
// With this option the pool times every task, as with [TimingFull], and has one
// timer while it runs tasks, due about once in d. Without it and [WithSlowTask]
// there is no cost.
func WithStallAfter(d time.Duration) Option {
	return option(func(c *config) { c.stallAfter, c.stallGiven = d, true })
}

// WithSlowTask makes the pool report a task that has been running for d, once,
// in [Stats].SlowTasks and otherwise as [WithStallAfter] does, and at the same
// cost. After a report the next one comes d/8 later at the earliest. It reports
// all tasks that became slow meanwhile and still run. Tasks that do not run on a worker
// are not watched. d must be at least 1 ms.
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
	For   time.Duration // how long the pool has been stalled, or the oldest slow task has been running
	Count int           // the number of running tasks if it is a stall, otherwise of tasks that have become slow
	Tasks []RunningTask // the oldest of these, up to 10, oldest first
	Stats Stats         // of the pool at that time
}

// A watchdog belongs to a pool. Its fields are guarded by Pool.mu unless they say
// otherwise.
type watchdog struct {
	p           *Pool
	stall, slow time.Duration // the thresholds; 0: none
	onAlarm     func(Alarm)

	timer  *sy.Timer
	armed  bool // the timer is set, or its function is about to begin
	inLook bool // its function runs

	// queuedAt is when a task came to wait in an empty queue. Written by
	// submitters.
	queuedAt sy.Int64
	stamped  sy.Uint64 // tickets whose submitters have come past that
	// outAt is when something began or ended that no worker's since tells of: a task
	// outside of workers ended, one that waited was claimed or withdrawn, a worker was lent
	// or has left, a pause ended.
	outAt   int64
	told    int64  // since when the pool was said to be stalled, plus 1
	below   uint64 // tasks of sub-pools that had ended, as last seen
	belowAt int64  // when that had changed
	slowAt  int64  // when tasks were said to be slow last, plus 1

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
	if c.watches() && c.timing == TimingOff {
		bad("WithTiming(TimingOff): WithStallAfter and WithSlowTask need the time of every task")
	}
}

// newWatchdog makes the watchdog of p; nil if there is nothing to watch.
func newWatchdog(p *Pool, c config) *watchdog {
	if !c.watches() {
		return nil
	}
	return &watchdog{p: p, stall: c.stallAfter, slow: c.slowTask, onAlarm: c.onAlarm}
}

// period is how often it looks at least.
func (d *watchdog) period() time.Duration {
	if d.stall == 0 || d.slow > 0 && d.slow < d.stall {
		return d.slow
	}
	return d.stall
}

// armLocked sets the timer, if it is not set. It is called whenever a worker is
// woken or started, so that it is set while one is awake.
func (d *watchdog) armLocked() {
	if d == nil || d.armed || d.inLook || d.p.ending {
		return
	}
	d.setLocked(d.period())
}

func (d *watchdog) setLocked(wait time.Duration) {
	d.armed = true
	if d.timer == nil {
		d.timer = sy.AfterFunc(wait, d.look)
	} else {
		d.timer.Reset(wait)
	}
}

// stopLocked makes sure that no timer is set. It returns false if its function
// runs, or is about to: that calls endLocked when it has ended.
func (d *watchdog) stopLocked() bool {
	if d == nil || !d.armed && !d.inLook {
		return true
	}
	if d.armed && d.timer.Stop() {
		d.armed = false
		return true
	}
	return false
}

// look tells what is due, and sets the timer for the next time.
func (d *watchdog) look() {
	p := d.p
	p.mu.Lock()
	d.armed, d.inLook = false, true
	p.mu.Unlock()
	now := p.now()
	d.lookBelow(now)
	p.mu.Lock()
	next := now + int64(d.period())
	stalled, at := d.stalledLocked(now)
	if at > 0 {
		next = min(next, at)
	}
	slow, at := d.slowLocked(now)
	if at > 0 {
		next = min(next, at)
	}
	p.mu.Unlock()
	if stalled != nil {
		sy.Reach("stall")
		d.tell(Alarm{Kind: AlarmStall, For: stalled.age, Count: stalled.count}, stalled.tasks)
	}
	if slow != nil {
		sy.Reach("slow task")
		d.tell(Alarm{Kind: AlarmSlowTask, For: slow.age, Count: slow.count}, slow.tasks)
	}
	p.mu.Lock()
	d.inLook = false
	if !p.ending && p.live > p.idle.n {
		d.setLocked(time.Duration(max(next-p.now(), 0)))
	}
	p.unlockEnding()
}

// A finding is what an Alarm is made of, outside of the lock.
type finding struct {
	age   time.Duration
	count int
	tasks []suspect // the oldest
}

// stalledLocked finds out whether the pool has been stalled for long enough, or
// when it will have been; 0 stands for never.
func (d *watchdog) stalledLocked(now int64) (f *finding, at int64) {
	p := d.p
	if d.stall == 0 {
		return nil, 0
	}
	age := d.stallAgeLocked(now, p.statsLocked())
	since := now - int64(age)
	switch {
	case age < 0, d.told == since+1:
		return nil, 0
	case age < d.stall:
		return nil, since + int64(d.stall)
	}
	d.told = since + 1
	d.stalls++
	f = new(finding)
	p.eachRunningLocked(now, func(w *worker, status uint64, age time.Duration) {
		f.add(suspect{w, status, age})
	})
	f.age = age
	return f, 0
}

// stallAgeLocked is for how long all workers that p may have have been inside
// tasks, others have waited, and none has ended; less than 0 if that is not so. s is
// from statsLocked.
func (d *watchdog) stallAgeLocked(now int64, s Stats) time.Duration {
	if !d.p.stuck(s) {
		return -1
	}
	// A submitter may have moved tail and not stored queuedAt yet. stamped is loaded
	// first: if it is tail then, nobody was between the two.
	if n := d.stamped.Load(); (n-d.p.tail.Load())&ticketMask != 0 {
		return 0
	}
	// The last one to end, whichever it was, did so before its worker began with
	// the next one, or noted it in since before it did anything else.
	since := max(d.queuedAt.Load(), d.outAt, d.belowAt)
	for _, w := range d.p.workers {
		if w != nil {
			since = max(since, w.since.Load())
		}
	}
	d.p.eachRunningLocked(now, func(w *worker, status uint64, age time.Duration) {
		if !w.lent {
			since = max(since, now-int64(age))
		}
	})
	return time.Duration(now - since)
}

// waitsFromNow notes that no task has been waiting for longer: it is the first.
func (d *watchdog) waitsFromNow() {
	if d != nil {
		d.queuedAt.Store(d.p.now())
	}
}

// waitingSince is when a task came before which none waited.
func (d *watchdog) waitingSince() int64 {
	if d == nil {
		return 0
	}
	return d.queuedAt.Load()
}

// movedLocked notes that a task that has waited was claimed or withdrawn.
func (d *watchdog) movedLocked() {
	if d != nil {
		d.outAt = d.p.now()
	}
}

// lookBelow notes whether tasks of sub-pools have ended: these keep workers, but
// not for ever.
func (d *watchdog) lookBelow(now int64) {
	if !d.p.lends.Load() {
		return
	}
	n := d.p.endedBelow()
	d.p.mu.Lock()
	if d.below != n {
		d.below, d.belowAt = n, max(now, d.belowAt)
	}
	d.p.mu.Unlock()
}

// endedBelow is how many tasks of p's sub-pools, and of theirs, have ended.
func (p *Pool) endedBelow() (n uint64) {
	for _, s := range p.Subs() {
		n += s.Stats().Completed + s.endedBelow()
	}
	return n
}

// slowLocked finds tasks that have become slow, and when the next one will.
func (d *watchdog) slowLocked(now int64) (f *finding, at int64) {
	if d.slow == 0 {
		return nil, 0
	}
	soonest := int64(0) // a task becomes slow
	found := new(finding)
	d.p.eachRunningLocked(now, func(w *worker, status uint64, age time.Duration) {
		switch began := now - int64(age) + 1; { // plus 1: 0 stands for none
		case w.lent, w.slow == began:
		case age >= d.slow:
			found.add(suspect{w, status, age})
		default:
			if due := now + int64(d.slow-age); soonest == 0 || due < soonest {
				soonest = due
			}
		}
	})
	quiet := int64(0) // until then none is told of
	if d.slowAt > 0 {
		quiet = d.slowAt - 1 + int64(d.slow/8)
	}
	switch {
	case found.count == 0 && soonest == 0:
		return nil, 0
	case found.count == 0:
		return nil, max(soonest, quiet)
	case now < quiet:
		return nil, quiet
	}
	d.slowAt = now + 1
	d.slowTasks += uint64(found.count)
	d.p.eachRunningLocked(now, func(w *worker, status uint64, age time.Duration) {
		if age >= d.slow {
			w.slow = now - int64(age) + 1
		}
	})
	return found, soonest
}

// add counts s, and keeps it if it is one of the oldest.
func (f *finding) add(s suspect) {
	f.count++
	f.age = max(f.age, s.age)
	i := len(f.tasks)
	for i > 0 && f.tasks[i-1].age < s.age {
		i--
	}
	if i == maxAlarmTasks {
		return
	}
	if len(f.tasks) < maxAlarmTasks {
		f.tasks = append(f.tasks, suspect{})
	}
	copy(f.tasks[i+1:], f.tasks[i:])
	f.tasks[i] = s
}

// tell tells the log and the handler.
func (d *watchdog) tell(a Alarm, tasks []suspect) {
	p := d.p
	a.Tasks = p.withStacks(tasks)
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
	if d.onAlarm != nil {
		p.guard(func() { p.noGoexit("the alarm handler", func() { d.onAlarm(a) }) })
	}
}
