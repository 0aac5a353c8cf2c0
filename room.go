package shoal

import (
	"context"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how a submitter waits for room.
//
// A submitter that finds no room puts its task on a list, under the lock, and
// parks. It does not compete for room later: whoever makes room moves the task
// from the list into the queue on the submitter's behalf and wakes it. So
// those who wait are served in order, nobody overtakes them, and a worker
// that frees a place can run the task at once.
//
// Nobody who makes room can miss the list. Room is made by workers through the
// head word, and the submitter sets the attention bit in that very word before
// it looks for room a last time: a worker's step is either before that, and
// the submitter sees the room, or after it, and the worker sees the bit. The
// others that make room (Resize, Resume) hold the lock.

// A waiter is a submitter without room.
type waiter struct {
	it         queue.Item
	woken      sy.Event // not made for a task of SubmitAfter: nobody waits
	err        error    // why it was not admitted; written before woken is set
	listed     bool     // guarded by mu
	prev, next *waiter
}

// A waitList is a list of waiters in order of arrival, guarded by mu.
type waitList struct {
	first, last *waiter
	n           int
}

func (l *waitList) empty() bool { return l.first == nil }

func (l *waitList) push(w *waiter) {
	l.n++
	w.listed = true
	w.prev = l.last
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

func (l *waitList) remove(w *waiter) {
	l.n--
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
}

// waitForRoom parks until it was admitted, or refused. The caller holds mu,
// found no room, and finds it unlocked on return.
func (p *Pool) waitForRoom(it queue.Item, ctx context.Context) error {
	w := &waiter{it: it, woken: sy.MakeEvent()}
	if p.enlistLocked(w) {
		p.mu.Unlock()
		p.published()
		return nil
	}
	p.mu.Unlock()
	sy.Reach("wait for room")
	var cancel <-chan struct{}
	if ctx != nil {
		cancel = ctx.Done()
	}
	if w.woken.WaitOr(cancel) {
		return w.err
	}
	p.mu.Lock()
	listed := w.listed
	if listed {
		p.room.remove(w)
		p.setAttentionLocked()
		p.grantLocked() // with tasks that wait for their keys there may be workers, and no room
	}
	p.mu.Unlock()
	if !listed {
		// It was admitted, or refused, before the context's end was noticed.
		w.woken.Wait()
		return w.err
	}
	return ctx.Err()
}

// enlistLocked lists w, unless there is room after all: then it admits w's
// task and returns true, and the caller must call published.
func (p *Pool) enlistLocked(w *waiter) bool {
	if p.capacity == 0 && p.room.empty() {
		p.watch.waitsFromNow()
	}
	p.room.push(w)
	p.setAttentionLocked() // before the last look for room
	if w != p.room.first || !p.admitLocked(w.it) {
		return false
	}
	p.room.remove(w)
	p.setAttentionLocked()
	return true
}

// promoteLocked gives the room that there is to those who wait: to submitters, and then
// the workers that are free to those who reserve. It reports whether it has admitted
// tasks: then the caller must call published, after unlocking.
func (p *Pool) promoteLocked() bool {
	any := p.admitWaitersLocked()
	p.grantLocked()
	return any
}

// admitWaitersLocked admits tasks from the list while there is room, and reports
// whether it did.
func (p *Pool) admitWaitersLocked() bool {
	any := false
	for w := p.room.first; w != nil && p.admitLocked(w.it); w = p.room.first {
		p.room.remove(w)
		if !w.woken.IsZero() {
			w.woken.Set()
		}
		any = true
		sy.Reach("promote")
	}
	if any {
		p.setAttentionLocked()
	}
	return any
}

// refuseLocked ends all waits for room with ErrClosed. It returns the tasks
// nobody waits for, for the caller to discard after unlocking.
func (p *Pool) refuseLocked() (orphans []queue.Item) {
	for w := p.room.first; w != nil; w = p.room.first {
		p.room.remove(w)
		if w.woken.IsZero() {
			orphans = append(orphans, w.it)
			continue
		}
		w.err = ErrClosed
		w.woken.Set()
	}
	return orphans
}

// promote is promoteLocked for a worker that made room and saw the attention
// bit.
func (p *Pool) promote() {
	p.mu.Lock()
	p.promoteAndUnlock()
}

// promoteAndUnlock is the end of a critical section that has made room.
func (p *Pool) promoteAndUnlock() {
	promoted := p.promoteLocked()
	p.mu.Unlock()
	if promoted {
		p.published()
	}
}

// setAttentionLocked makes the attention bit tell the truth: whether workers
// must look at the locked state before they take a task.
func (p *Pool) setAttentionLocked() {
	want := p.stopsTakingLocked() || !p.room.empty() || len(p.reservers) > 0 || p.wanted.Load() > 0 || p.owesLocked()
	if have := p.head.Load()&attention != 0; have == want {
		return
	}
	if want {
		p.head.Or(attention)
	} else {
		p.head.And(^uint64(attention))
	}
}
