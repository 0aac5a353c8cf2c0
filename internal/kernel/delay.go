package kernel

import (
	"time"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Delayed is a task that is yet to be submitted: its timer, or the end of its lane, decides what
// becomes of it, unless Stop comes first. Each takes the task, and the first one has it. Guarded by
// the lock of the family.
//
// Invariant: it keeps its lane from the end until the timer was stopped, or due has run.
type Delayed struct {
	l     *Lane
	it    queue.Item // zero: it was taken
	timer *sy.Timer
}

// SubmitAfter admits task it after d, or now if d ≤ 0, whatever the policy. If there is no free capacity
// then, the task waits for some. SubmitAfter does not wait.
func (l *Lane) SubmitAfter(d time.Duration, it queue.Item) (*Delayed, error) {
	if !l.enterOpen() {
		return nil, ErrClosed
	}
	defer l.crew.leave()
	t := &Delayed{l: l, it: it}
	l.retain()
	insert(&l.delayed, t)
	if d > 0 {
		t.timer = sy.AfterFunc(d, t.due)
	} else {
		t.submit()
	}
	return t, nil
}

// take takes the task of t; it is zero if it was taken before. Locked.
func (t *Delayed) take() (it queue.Item) {
	it, t.it = t.it, queue.Item{} // so that a goroutine that keeps t does not keep the task in memory
	if delete(t.l.delayed, t); len(t.l.delayed) == 0 {
		t.l.delayed = nil // frees a map that was large
	}
	return it
}

func (t *Delayed) due() {
	t.l.crew.enter()
	defer t.l.crew.leave()
	t.submit()
}

// submit admits the task, unless it was taken. Locked.
func (t *Delayed) submit() {
	if it := t.take(); !it.IsZero() {
		t.l.enlist(&waiter{it: it})
	}
	t.l.release()
}

// Stop prevents the task from being admitted, and reports whether it did.
func (t *Delayed) Stop() bool {
	t.l.crew.enter()
	defer t.l.crew.leave()
	return t.stop()
}

// stop is Stop. Locked.
func (t *Delayed) stop() bool {
	stopped := !t.take().IsZero()
	if stopped && t.timer.Stop() { // else due is about to run
		t.l.release()
	}
	return stopped
}

// dropDelayed drops the tasks that are not due. Locked.
func (l *Lane) dropDelayed() {
	for t := range l.delayed {
		l.drop(t.it)
		t.stop()
	}
}

// drop counts delayed task it, which has no permit, as accepted and dropped. Locked.
func (l *Lane) drop(it queue.Item) {
	l.extra++
	l.dropped++
	l.later(func() { discard(it, ErrDropped) })
}
