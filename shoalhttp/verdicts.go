package shoalhttp

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shoal-go/shoal"
)

// The levels of a [Verdict].
const (
	worthKnowing = 1 + iota
	problem
	stuck
)

const (
	// window is the time that "in the last minute" is about.
	window = time.Minute
	// manyFailures is the share of tasks that must fail in it to be a problem.
	manyFailures = 0.1
	// mostSaid is how many bytes of the error of a job are in a sentence.
	mostSaid = 200
	// A task hangs if it has run for hangsFor, and for hangsTimes as long as 99 of 100 tasks. If no
	// task was measured so far, it is not known what is usual: it hangs after hangsUnknown.
	hangsFor     = 10 * time.Second
	hangsTimes   = 10
	hangsUnknown = 30 * time.Second
	// A pool whose workers are all busy is stalled if nothing has ended for twice as long as 99 of
	// 100 tasks take, but not sooner than the first of these and not later than the second. If no
	// task was measured so far, the third is what counts.
	stallsFrom, stallsTo, stallsUnknown = 2 * time.Second, time.Minute, 5 * time.Second
)

// judgeLocked sets the verdicts of t, by its last look and its past. All pools were looked at.
func (h *Page) judgeLocked(t *tracked, now time.Time) {
	r := &t.row
	r.Verdicts = nil
	held := t.since
	t.since = make(map[string]time.Time)
	// lasted notes that what a rule is about was found, and says for how long it has been.
	lasted := func(rule string) string {
		since, ok := held[rule]
		if !ok {
			since = now
		}
		t.since[rule] = since
		return lasting(now.Sub(since))
	}
	add := func(level int, label, format string, args ...any) *Verdict {
		r.Verdicts = append(r.Verdicts, Verdict{Level: level, Label: label, Text: fmt.Sprintf(format, args...)})
		return &r.Verdicts[len(r.Verdicts)-1]
	}
	if r.State == shoal.Closed.String() {
		return
	}
	usual := t.stats.RunTime.Quantile(0.99)
	measured := t.stats.RunTime.Count > 0

	// Nothing gets done.
	allBusy := r.full()
	busy := fmt.Sprintf("all %s workers busy", count(r.Running))
	if r.Running == 1 {
		busy = "the only worker is busy"
	}
	switch n := r.Below.Running; {
	case n > 0 && n >= r.Running:
		busy += ", all in tasks of sub-pools"
	case n > 0:
		busy += fmt.Sprintf(", %s in tasks of sub-pools", count(n))
	}
	stall := t.stats.Stalled
	if n := len(t.ages); stall > 0 && n > 0 && n >= r.MaxWorkers {
		stall = max(stall, t.ages[n-1]) // no worker has had another task since
	}
	patience := stallsUnknown
	if measured {
		patience = min(max(2*usual, stallsFrom), stallsTo)
	}
	stalled := stall >= patience
	if stalled {
		waits := some(r.Queued, "task", "tasks") + " queued"
		switch {
		case r.Queued > 0:
		case r.Blocked > 0:
			waits = some(r.Blocked, "submitter waits", "submitters wait")
		case r.Below.Queued > 0:
			waits = some(r.Below.Queued, "task", "tasks") + " queued in sub-pools"
		default:
			waits = "others wait" // tasks beyond the capacity, or submitters of sub-pools
		}
		text := fmt.Sprintf("%s, %s, nothing finished%s", busy, waits, lasting(stall))
		if j := r.oldest(now, patience); j != nil {
			text += fmt.Sprintf("; %s has run for %s", j.name(), span(j.since(now)))
		}
		add(stuck, "stalled", "%s", text).Stacks = true
	}
	limit := hangsUnknown
	if measured {
		limit = max(hangsFor, hangsTimes*usual)
	}
	if old := t.hanging(limit); len(old) > 0 && !stalled {
		text, job := "", r.oldest(now, limit)
		switch n := len(old); {
		case job != nil && job.since(now) > old[0]-time.Second:
			text = fmt.Sprintf("%s has run for %s, %s of %s %s", job.name(), span(job.since(now)), count(n), some(r.MaxWorkers, "worker", "workers"), map[bool]string{true: "hangs", false: "hang"}[n == 1])
			job = nil
		case n == 1:
			text = fmt.Sprintf("1 of %s has run%s", some(r.Running, "running task", "running tasks"), lasting(old[0]))
		default:
			text = fmt.Sprintf("%s of %s have run%s each", count(n), some(r.Running, "running task", "running tasks"), lasting(old[n-1]))
			if span(old[0]) != span(old[n-1]) {
				text += ", the oldest" + lasting(old[0])
			}
		}
		if job != nil { // what hangs for longer is no job
			text += fmt.Sprintf("; %s has run for %s", job.name(), span(job.since(now)))
		}
		if measured {
			text += fmt.Sprintf("; 99 of 100 tasks take at most %s", duration(usual.Seconds()))
		} else {
			text += "; how long tasks usually take was not measured yet"
		}
		add(problem, "hanging", "%s", text).Stacks = true
	}

	// What failed or was refused, in the last minute.
	was, d := h.agoLocked(t, now, window)
	in := "in the last " + span(d)
	if d >= window {
		in = "in the last minute"
	}
	diff := func(is, was uint64) int { return int(is - min(was, is)) }
	ended, failed := diff(r.Completed, was.completed), diff(r.Failed, was.failed)
	if failed > 0 {
		level, label := worthKnowing, "failures"
		if float64(failed) >= manyFailures*float64(ended) {
			level, label = problem, "failing"
		}
		text := fmt.Sprintf("%s of %s (%s) failed %s", count(failed), some(ended, "task", "tasks"), percent(failed, ended), in)
		if j := r.lastFailure(now, window); j != nil {
			text += fmt.Sprintf("; the last: %s: %s", j.name(), clip(j.Error, mostSaid))
		}
		add(level, label, "%s", text)
	}
	if n := diff(t.lost.timedOut, was.lost.timedOut); n > 0 {
		add(problem, "time limit", "%s a time limit %s", some(n, "run of a job exceeded", "runs of jobs exceeded"), in)
	}
	if n := diff(t.lost.dead, was.lost.dead); n > 0 {
		add(problem, "dead letters", "%s %s", some(n, "job became a dead letter", "jobs became dead letters"), in)
	}
	if n := diff(r.Rejected, was.rejected); n > 0 {
		add(problem, "rejecting", "%s rejected %s", some(n, "task was", "tasks were"), in)
	}
	if n := diff(r.Dropped, was.dropped); n > 0 {
		add(problem, "dropping", "%s dropped %s", some(n, "task was", "tasks were"), in)
	}
	if n := diff(r.SlowTasks, was.slow); n > 0 {
		add(problem, "slow tasks", "%s reported as slow %s", some(n, "task was", "tasks were"), in).Stacks = true
	}
	if n := diff(r.Stalls, was.stalls); n > 0 && !stalled {
		add(problem, "stalled before", "it was stalled %s %s", some(n, "time", "times"), in)
	}
	for _, q := range r.Sources {
		if q.Failing {
			add(problem, "queue away", "a Pull of the queue %s failed %s ago: %s", q.Name, ago(time.Duration((unix(now)-q.LastErrorAt)*float64(time.Second))), q.LastError)
		}
	}

	// What waits for somebody.
	waiting := r.waiting()
	full := r.QueueCapacity > 0 && r.Queued >= r.QueueCapacity
	waiters := some(r.Blocked, "submitter waits", "submitters wait")
	switch {
	case full && r.Blocked > 0:
		add(problem, "queue full", "its queue of %s is full%s: %s", count(r.QueueCapacity), lasted("queue full"), waiters)
	case full:
		add(problem, "queue full", "its queue of %s is full%s", count(r.QueueCapacity), lasted("queue full"))
	case r.Blocked > 0 && r.QueueCapacity == 0:
		add(problem, "submitters wait", "no queue and no free worker%s: %s", lasted("submitters wait"), waiters)
	case r.Blocked > 0:
		add(problem, "submitters wait", "%s for free capacity%s", waiters, lasted("submitters wait"))
	}
	switch {
	case r.paused() && waiting+r.Blocked+r.Below.Queued > 0:
		add(problem, "Paused", "paused%s: %s for somebody to resume it", lasted("Paused"), some(waiting+r.Blocked+r.Below.Queued, "task waits", "tasks wait"))
	case r.paused():
		add(worthKnowing, "Paused", "paused%s: it takes tasks and starts none", lasted("Paused"))
	case r.State == shoal.Draining.String():
		add(worthKnowing, "Draining", "draining%s: it refuses new tasks, %s left", lasted("Draining"), some(r.InFlight, "task is", "tasks are"))
	}
	pausing, using := t.above((*PoolRow).paused), t.above((*PoolRow).full)
	switch {
	case r.paused():
	case pausing != nil && waiting+r.Blocked > 0:
		add(problem, "Paused", "%s for somebody to resume %s, which is paused%s", some(waiting+r.Blocked, "task waits", "tasks wait"), pausing.name, lasted("Paused above"))
	case r.State == shoal.Draining.String() || waiting == 0 || stalled:
	case allBusy && r.Queued > 0:
		text := fmt.Sprintf("%s, %s queued", busy, some(r.Queued, "task", "tasks"))
		if r.Wait.Count > 0 && r.Run.Count > 0 {
			text += fmt.Sprintf(", tasks wait %s and run %s (p50)", duration(r.Wait.P50), duration(r.Run.P50))
		}
		add(worthKnowing, "busy", "%s", text).Stacks = r.Stalled >= 1
	case using != nil && !allBusy:
		add(worthKnowing, "waits", "%s for the workers of %s, which are all busy", some(waiting, "task waits", "tasks wait"), using.name)
	}
	if before, d := h.agoLocked(t, now, window/2); d >= window/2 && !full && r.SubmitRate > r.CompleteRate {
		if n := int(before.queued); r.Queued > n+max(10, n/2) {
			add(worthKnowing, "queue grows", "%s queued, %s were %s ago", some(r.Queued, "task is", "tasks are"), count(n), span(d))
		}
	}
	// What was long ago is not wrong any more, but nobody may have seen it.
	if n := int(r.Failed); failed == 0 && float64(n) >= manyFailures*float64(r.Completed) && n > 0 {
		add(worthKnowing, "failures before", "%s of %s (%s) failed since the pool was made, none %s", count(n), some(int(r.Completed), "task", "tasks"), percent(n, int(r.Completed)), in)
	}
	if known := h.ofQueuesLocked(r, now); t.lost.dead > 0 && !known && !has(r.Verdicts, "dead letters") {
		add(worthKnowing, "dead letters", "%s of queues that it has served", some(int(t.lost.dead), "job became a dead letter", "jobs became dead letters"))
	}
	slices.SortStableFunc(r.Verdicts, func(a, b Verdict) int { return cmp.Compare(b.Level, a.Level) })
}

// hanging is the ages of the tasks of t itself that have run for limit, the oldest first.
func (t *tracked) hanging(limit time.Duration) []time.Duration {
	n := 0
	for n < len(t.own) && t.own[n] >= limit {
		n++
	}
	return t.own[:n]
}

// without is ages without those of below, which were asked for at nearly the same time: both have
// the largest first.
func without(ages, below []time.Duration) (rest []time.Duration) {
	for _, age := range ages {
		if len(below) > 0 && below[0] >= age-fresh {
			below = below[1:]
			continue
		}
		rest = append(rest, age)
	}
	return rest
}

func (r *PoolRow) paused() bool { return r.State == shoal.Paused.String() }

// full reports whether all workers that the pool may have are inside tasks.
func (r *PoolRow) full() bool { return r.Running >= r.MaxWorkers }

// waiting is the number of accepted tasks that have not started. At capacity 0 Queued is 0, though
// tasks wait for a worker. So it is what no worker of the pool is inside, unless tasks may run on
// goroutines of their own. A task that its submitter or another task runs cannot be told from one that
// waits: those beyond MaxWorkers are taken for such tasks, as others are hardly ever accepted.
func (r *PoolRow) waiting() int {
	if r.QueueCapacity != 0 || r.Spawned > 0 {
		return r.Queued
	}
	running := max(0, r.Running-r.Below.Running)
	return max(0, min(r.InFlight, r.MaxWorkers)-running)
}

// above is the nearest pool above t whose row is so, or nil.
func (t *tracked) above(so func(*PoolRow) bool) *tracked {
	for t = t.parent; t != nil && !so(&t.row); t = t.parent {
	}
	return t
}

// lasting writes for how long something has been going on. The pool or the page has seen it for so
// long, and it may have begun before. Of less than a second it says nothing.
func lasting(d time.Duration) string {
	if d < time.Second {
		return ""
	}
	return " for at least " + span(d)
}

// ago writes how long ago something was.
func ago(d time.Duration) string {
	if d < time.Second {
		return "less than a second"
	}
	return span(d)
}

// span writes a time in which something is seen to change: whole seconds.
func span(d time.Duration) string { return duration(max(1, d.Truncate(time.Second).Seconds())) }

// some writes a number of things.
func some(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// percent writes the share of n in of. It is 0% or 100% only if that is exact.
func percent(n, of int) string {
	share := 100 * float64(n) / float64(max(1, of))
	switch {
	case n == of:
		return "100%"
	case share < 0.01:
		return "under 0.01%"
	case share < 1:
		return digits(share) + "%"
	}
	return fmt.Sprintf("%d%%", min(99, int(share+0.5)))
}
