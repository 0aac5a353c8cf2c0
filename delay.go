package shoal

import (
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A delayed is a task of SubmitAfter that is not yet due. Guarded by mu.
type delayed struct {
	task    func()
	timer   *sy.Timer
	stopped bool // its function runs but has nothing to do
	joined  bool // counted in helpers
}

// SubmitAfter submits task after d has passed, or at once if d ≤ 0. It does not
// block. Its error is [ErrNilTask] or [ErrClosed]. A call of stop prevents the
// task from being submitted, and reports whether it did. It returns false if
// the task was submitted, dropped or stopped before.
//
// A task that is not due yet counts nowhere, and [Pool.Wait] does not wait for
// it. When it is due, it takes its place in the queue. If there is no room it
// waits for some, whatever the [FullPolicy]. If the pool is shut down first,
// the task is dropped and counted in [Stats].Dropped.
func (p *Pool) SubmitAfter(d time.Duration, task func()) (stop func() bool, err error) {
	if task == nil {
		return nil, ErrNilTask
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase != phaseOpen {
		return nil, ErrClosed
	}
	t := &delayed{task: task}
	p.delayed.add(t)
	t.timer = sy.AfterFunc(d, func() { p.due(t) })
	return func() bool { return p.stopDelayed(t) }, nil
}

func (p *Pool) stopDelayed(t *delayed) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.delayed.has(t) || t.stopped {
		return false
	}
	if t.timer.Stop() {
		p.delayed.remove(t)
	}
	t.stopped, t.task = true, nil
	return true
}

// due submits t. It runs on the timer's goroutine.
func (p *Pool) due(t *delayed) {
	p.mu.Lock()
	if !t.joined {
		p.helpers++
	}
	p.delayed.remove(t)
	it := t.task
	t.task = nil // whoever keeps the stop function does not keep the task
	switch {
	case t.stopped:
	case p.phase != phaseOpen:
		p.dropOutsideLocked(1)
	default:
		it := queue.Func(it)
		if !p.room.empty() || !p.admitLocked(it) {
			p.enlistLocked(&waiter{it: it})
		}
	}
	p.mu.Unlock()
	p.published()
	p.helperDone()
}

// dropDelayedLocked drops all tasks that are not yet due.
func (p *Pool) dropDelayedLocked() {
	for t := range p.delayed.m {
		if t.timer.Stop() {
			p.delayed.remove(t)
			t.task = nil
			p.dropOutsideLocked(1)
		} else if !t.joined {
			t.joined = true // its function runs, or is about to: see due
			p.helpers++
		}
	}
}

// dropOutsideLocked counts n tasks that were accepted and discarded without
// ever having been in the queue.
func (p *Pool) dropOutsideLocked(n int) {
	p.outTotal += uint64(n)
	p.outDropped += uint64(n)
	p.dropped += uint64(n)
}
