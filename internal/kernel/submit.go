package kernel

import (
	"context"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how a task is admitted. The fast path is one load and one compare-and-swap on tail.
// A submitter that finds no lease there comes to the lock. There a policy says what becomes of a
// task for which there is no free capacity; [Lane.SubmitSlow] alone looks at the policy.
//
// A blocked submitter is served fairly, not strictly in order. Others may take free capacity before
// it until it has waited for a millisecond; then it is served in turn. That is the idea of
// sync.Mutex: a goroutine that runs can use capacity at once, and one that is woken needs
// microseconds to come. With a fifth of that time, empty tasks of 100 submitters take 2.5 times as
// long (Full of the benchmarks).
//
// settle restores invariant R, that nobody waits for capacity that is free. A submitter lists
// itself, so that settle sets the slow-path flag; after that, settle looks for free capacity.
// Workers free capacity by a step on the word that has the flag. If the step is before the flag,
// settle sees the capacity; if it is after, the worker sees the flag.
//
// The list of waiters is guarded by the lock of the family. A goroutine that takes another one's
// waiter off the list writes its err, then sets its woken. If the waiter was called, woken is set
// already: the waiter comes to the lock, and reads err there.

// A Policy says what becomes of a task for which there is no free capacity.
type Policy int

// The policies. Those before Offer have the numbers of shoal.FullPolicy, which is converted to them.
const (
	Block Policy = iota
	Reject
	Spawn
	CallerRuns
	DropOldest
	Offer // Reject, but not counted as rejected
)

const (
	maxNesting   = 64          // tasks of one lane that may run inside each other because there was no free capacity
	submitYields = 4           // times a submitter yields before it waits
	barge        = int64(1e6)  // ns for which others may take capacity before the first waiter
	mostCalls    = 64          // or calls of that waiter in vain, where the clock stands still
	batchStep    = 64          // tickets that a submitter takes at once: workers wait at a cell until it is filled
	mostInline   = numMask / 2 // tasks that run inline at once
)

// Submit admits task it, if that can be done without the lock.
func (l *Lane) Submit(it queue.Item) bool {
	t, ok := l.offer(it)
	if ok && t&flag == 0 {
		l.crew.look()
	}
	return ok
}

// Try is Submit, but if it returns true in mustLook, the caller must call Look.
func (l *Lane) Try(it queue.Item) (ok, mustLook bool) {
	t, ok := l.offer(it)
	return ok, ok && t&flag == 0
}

// Look looks for a worker after Try.
func (l *Lane) Look() { l.crew.look() }

// HasSpare reports whether there are workers that are parked or may be started.
func (l *Lane) HasSpare() bool { return l.crew.wake.Load()>>availBit != 0 }

// SubmitSome admits a prefix of tasks, as far as that can be done without the lock.
func (l *Lane) SubmitSome(tasks []func()) int {
	t, n := l.offerSome(tasks, batchStep)
	if n > 0 && t&flag == 0 {
		l.crew.look()
	}
	return n
}

// SubmitSlow admits task it under the lock, or does what policy says. ctx bounds the wait of
// Block.
func (l *Lane) SubmitSlow(it queue.Item, policy Policy, ctx context.Context) error {
	c, depth := l.crew, -1 // -1: not known, or it does not matter
	var cancel <-chan struct{}
	for yields := 0; ; {
		if !l.enterOpen() {
			return ErrClosed
		}
		if policy != Block && l.blocked.Len()+len(l.reservers) > 0 {
			c.touch(l)
			c.settle() // waiters go first; under Block this submitter may be one of them
		}
		free := (l.blocked.Len() == 0 || !l.strict()) && l.findCapacity() > 0
		ahead := free && l.isFarAhead()
		switch {
		case policy != Block || free && !ahead: // it does not wait
		case !free && l.blocked.Len() == 0 && yields < sy.Times(submitYields) && c.Spin > 0:
			yields++
			l.leaveAndYield()
			continue
		case depth < 0:
			c.leave() // finding out takes a while, and calls functions of the user
			if depth = l.Nesting(ctx); depth == 0 {
				cancel = ctx.Done()
			}
			continue
		}
		// A task of this lane must not wait: it could be what keeps capacity from being freed. If it cannot run the
		// new task itself either, that is accepted beyond the capacity.
		if free || depth > maxNesting || depth > 0 && l.inline >= mostInline {
			l.accept(it)
			if ahead && depth == 0 { // and there is no lease: others are to come here too
				w := l.pace()
				c.leave()
				l.awaitWorkers(w, cancel)
				return nil
			}
			if ahead {
				sy.PeekPointer(&l.pacing).far = 2 * l.backlog()
			}
			if free {
				l.openLease()
			}
			c.leave()
			return nil
		}
		switch policy {
		case Block, Spawn, CallerRuns:
			switch {
			case depth == 0:
				return l.waitForCapacity(it, ctx, cancel)
			case l.inline < mostInline:
				return l.runInline(it, policy == Spawn, depth+1)
			}
		case DropOldest:
			if l.displace(it) {
				return nil
			}
			if l.findCapacity() > 0 { // since the look above a worker has taken what waited
				c.leave()
				continue
			}
		}
		if policy != Offer {
			sy.Reach("full")
			l.rejected++
		}
		c.leave()
		return ErrQueueFull
	}
}

// accept admits task it by a new permit, and makes l ready. A task that joins a busy strand has no
// ticket: the strand runs it. Locked.
func (l *Lane) accept(it queue.Item) {
	if it, own := l.join(it); own {
		l.permits(1)
		l.putLocked(it)
		l.crew.list(l)
	}
}

// displace discards the oldest task, and admits task it instead. It returns false if there was
// none; otherwise it has released the lock. Under the lock nobody else can claim the oldest task.
func (l *Lane) displace(it queue.Item) bool {
	for l.capacity > 0 {
		seg, t, ok := l.takeLocked(numMask)
		if !ok {
			break
		}
		old, _ := l.fetch(seg, t) // its putter may be slow, but needs no lock
		r := recordOf(old)
		if r != nil && !r.Take() {
			l.tombstones(-1)
			l.exit()
			l.crew.touch(l) // a worker that saw this goroutine busy may have finished the last task
			continue
		}
		sy.Reach("displace")
		l.widen(+1) // the caller stays busy until the strand has gone on; else the lane would be quiescent meanwhile
		l.accept(it)
		l.retain()
		l.crew.leave()
		r.end(ErrDropped, func() {
			l.crew.enter()
			l.dropped++
			l.exitTo(l)
			l.crew.leave()
		})
		l.Release()
		return true
	}
	return false
}

// waitForCapacity parks until task it is admitted, or refused, or ctx, whose Done is cancel, ends. The caller
// holds the lock, which is released.
func (l *Lane) waitForCapacity(it queue.Item, ctx context.Context, cancel <-chan struct{}) error {
	c := l.crew
	w := &waiter{it: it, woken: sy.MakeEvent(), since: c.clock.Now()}
	l.enlist(w)
	c.leave() // announces the waiter, and looks for free capacity once more
	sy.Reach("wait for capacity")
	for {
		woken := w.woken.WaitOr(cancel)
		if woken && !w.called {
			return w.err
		}
		c.enter()
		c.touch(l)
		switch {
		case w.place == nil: // admitted or refused before the end of ctx was noticed
		case !woken:
			l.unlist(w, nil)
			c.leave()
			return ctx.Err() // without the lock, and not listed: it is a function of the user
		case l.findCapacity() > 0:
			l.unlist(w, nil)
			l.accept(it)
		default:
			w.call(false)
			w.calls++
			c.leave()
			continue
		}
		c.leave() // calls the next waiter, if more capacity is free
		return w.err
	}
}

// refuse ends all waits for capacity. Locked.
func (l *Lane) refuse() {
	for w := l.firstBlocked(); w != nil; w = l.firstBlocked() {
		if l.unlist(w, ErrClosed); w.woken.IsZero() { // no goroutine waits
			l.drop(w.it)
		}
	}
}
