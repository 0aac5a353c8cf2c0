package kernel

import (
	"context"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Record is what the line holds of a task that is more than a func(): a task that has a context,
// or a waiter, or a strand. It is the first part of the type that is its body.
//
// One compare-and-swap of state decides which goroutine begins a task. So a task that waits for
// another one of its family may run that one itself, if it has not begun (inline join; Blumofe and
// Leiserson's Cilk, Lea's fork/join framework). It runs nothing else: another task could take a
// lock that the waiting task holds, or take long. The ticket of a claimed task stays in the line as
// a tombstone; a worker that comes to it passes it.
//
// No task waits in vain: a task that has a worker and waits, waits for tasks that have begun, or has
// run them. Tasks that have begun run, or wait themselves for tasks that have begun. So unless tasks
// wait for each other in a circle, one of them runs. This does not hold for a group that no task has made: see
// Pool.Group of package shoal.
//
// Any goroutine may move state from waiting, by compare-and-swap, once r was accepted, so that its
// ticket is in the line. The goroutine that has done so runs the task or gives it its result, and
// alone writes state afterwards. The other fields are written before r is submitted, or by the
// goroutine that runs it, unless they say otherwise.
type Record struct {
	Body     Body
	Lane     *Lane // nil: none yet
	Keep     *Keep // of the goroutine that runs it; nil: it has none
	InStrand bool  // it waits in a strand, and has no ticket of its own
	state    sy.Uint32
	Next     *Record // in the list of its waiter, whose lock guards it
}

const (
	waiting = iota // it has not begun
	begun          // by the owner of its ticket, or by another goroutine: then the ticket is a tombstone
	over           // it has returned, or will not run
)

// A Body is what a record does.
type Body interface {
	Refused() error         // why it must not start: its context has ended; nil: it may start
	Run() error             // the task itself
	Over(err error)         // it has returned err, or will not run because of err: its context ends
	Cut(cause error)        // its context ends now
	Returns(err error) bool // whether a waiter gets err, which is about to be its result
	Resolve(err error)      // gives its waiters its result; once, as its last use. Not for a strand: see Next
	Outer() context.Context // the context of the call that submitted it; nil: none
}

// A Strand is a body whose tasks run one after the other: the tasks of a key. While tasks wait, one
// record, its activation, is in the line, or runs. The lock of the strand may be taken while the
// lock of the family is held.
type Strand interface {
	Body

	// Next ends the first task, and makes the next one, if any, current. It returns the ended task's
	// record, or nil, for the caller to resolve, and whether there is a next task. If there is none,
	// the strand is idle, and its record may be used again at once.
	Next() (first *Record, more bool)
}

// A Joiner is the body of a record that stands for a task of a strand until it is accepted.
type Joiner interface {
	Body
	Join() *Record // the strand's record, if that needs a ticket; else nil: the strand is busy
}

// Init makes r a task of l.
func (r *Record) Init(b Body, l *Lane) { r.Body, r.Lane = b, l }

// Waits reports whether r has not begun, and IsOver whether it has ended or will not run.
func (r *Record) Waits() bool  { return r.state.Load() == waiting }
func (r *Record) IsOver() bool { return r.state.Load() == over }

// Take claims r for the caller, which then runs r or gives it its result. It returns false if r was
// taken before.
func (r *Record) Take() bool { return r.state.CompareAndSwap(waiting, begun) }

// Again makes the record of an idle strand ready to be submitted.
func (r *Record) Again() { r.state.Store(waiting) }

// SetOver is for Over: r has ended, or will not run.
func (r *Record) SetOver() { r.state.Store(over) }

// recordOf is item it as a record; nil if it is none.
func recordOf(it queue.Item) *Record {
	if !it.IsRecord() {
		return nil
	}
	return queue.As[Record](it)
}

// join makes task it join its strand, if it has one, and returns the item that the line is to hold.
// If the strand is busy there is none, and ok is false: the task holds a permit instead. Locked.
func (l *Lane) join(it queue.Item) (own queue.Item, ok bool) {
	if r := recordOf(it); r != nil {
		if j, ok := r.Body.(Joiner); ok {
			if r = j.Join(); r == nil {
				l.permits(1)
				return it, false
			}
			it = queue.Record(r)
		}
	}
	return it, true
}

// manyTombs is how many tombstones a line of large capacity keeps in its cells. What they hold of
// the caller's stays in memory until a worker passes them.
const manyTombs = 1 << 12

// isTombstone reports whether task it was begun or canceled by a goroutine that does not own its ticket.
func isTombstone(it queue.Item) bool {
	r := recordOf(it)
	return r != nil && !r.Waits()
}

// compact frees the cells of tombstones, if they are many, and more than half of what waits. It takes all tickets,
// and gives the tasks that still wait new ones, in their order. The lease is recalled and the lock is held, so no
// other task comes between them. The caller is busy meanwhile, so that the lane is not quiescent, and sets the
// slow-path flag, so that nobody takes a task before it has the stamp of its old ticket. settle computes the flag
// anew. Locked.
func (l *Lane) compact() {
	if l.tombs <= min(l.capacity+uint64(l.max()), manyTombs) || 2*l.tombs <= l.backlog() {
		return
	}
	sy.Reach("compact")
	l.recall()
	l.enterLocked()
	l.mark(l.isMuted(), true)
	seg, t, n := l.takeManyLocked(mask)
	for i := range n {
		it, stamp := queue.Item{}, int64(untimed)
		at := (t + i) & mask
		if it, seg = l.fetch(seg, at); isTombstone(it) {
			l.tombstones(-1)
			continue
		}
		if l.timed(at) {
			stamp = *seg.Stamp(at)
		}
		l.skip(1) // its ticket: the task gets another one
		l.putLocked(it)
		if is := (ticketOf(l.tail.Load()) - 1) & mask; l.timed(is) {
			*l.back.Load().Stamp(is) = stamp
		}
	}
	l.exit()
}

// discard ends task it with err instead of running it, unless it was claimed. The caller owns its
// ticket, if it has one, and has counted it. If it is a strand, the first task of that ends; the
// strand goes on.
func discard(it queue.Item, err error) {
	if r := recordOf(it); r != nil && r.Take() {
		r.end(err, func() {})
	}
}

// end ends the task of r, which may be nil, with err, and calls count to count it. Before that, a
// strand goes on, so that the lane is not quiescent while a task waits in the strand. After that, the
// task's waiters get its result.
func (r *Record) end(err error, count func()) {
	if r == nil {
		count()
		return
	}
	r.Body.Over(err)
	first, more := r.next()
	if more {
		r.Lane.goOn(r, false)
	}
	count()
	first.resolve(err)
}

// next is the record of the task of r, which is over, and whether another one waits in its strand.
func (r *Record) next() (first *Record, more bool) {
	if s, ok := r.Body.(Strand); ok {
		return s.Next()
	}
	return r, false
}

// resolve gives the waiters for r, if r is not nil, its result.
func (r *Record) resolve(err error) {
	if r != nil {
		r.Body.Resolve(err)
	}
}

// goOn goes on with the strand of r, which has a next task. If stays is set, the caller is busy
// with r, and goOn may return true: then the caller is to run the next task, whose permit has come
// back. Otherwise r gets a new ticket by that permit. In a lane that stops, the tasks of the strand
// were counted as dropped, and goOn gives them that result.
func (l *Lane) goOn(r *Record, stays bool) (on bool) {
	c := l.crew
	for more := true; more; {
		c.enter()
		if l.phase != stopping {
			r.Again()
			if on = stays && !l.isSlow() && c.solo.Load() == l; on {
				sy.Reach("carry on")
				l.giveBack(1)
				c.touch(l)
			} else {
				sy.Reach("activate again")
				l.putLocked(queue.Record(r))
				c.list(l)
			}
			c.leave()
			return on
		}
		c.leave()
		var first *Record
		r.Body.Over(ErrDropped)
		first, more = r.next()
		first.resolve(ErrDropped)
	}
	return false
}

// An Outcome says what became of an attempt to claim a task.
type Outcome uint8

const (
	NotClaimed Outcome = iota // it has begun, or will not run
	Ran                       // it was claimed, and has run
	NoPlace                   // its lane, or one above it, is at its maximum
)

// A Nudger waits for a task that it could run itself if the task's lane, and those above it, were
// below their maximums.
type Nudger interface{ Nudge() }

// Claim runs r on the calling goroutine, unless r has begun. stay is the first lane, from r's
// upwards, that the caller is in. In the lanes below stay the caller counts as busy, as a worker
// does. If one of them is at its maximum, n, unless it is nil, is nudged when that may have changed.
func (r *Record) Claim(stay *Lane, n Nudger) Outcome {
	r.Lane.crew.enter()
	place, got := r.claim(stay, n)
	r.Lane.crew.leave()
	if got == Ran {
		r.Lane.runHere(queue.Record(r), place, stay, 0)
	}
	return got
}

// claim is what Claim does before it runs r, which gets a place in calls. Locked.
func (r *Record) claim(stay *Lane, n Nudger) (place int, got Outcome) {
	l := r.Lane
	if l.phase == stopping { // r is about to be dropped. While l is paused r runs: it is part of the task that waits
		return 0, NotClaimed
	}
	if full := l.enterFrom(stay); full != nil {
		if n != nil {
			sy.Reach("no place")
			insert(&full.nudgers, n)
			l.crew.touch(full)
		}
		return 0, NoPlace
	}
	if !r.Take() {
		l.exitTo(stay)
		return 0, NotClaimed
	}
	sy.Reach("claim")
	l.tombstones(+1)
	l.stirred++
	l.crew.touch(l)
	return l.crew.calls.add(r), Ran
}

// ForgetNudger forgets n, in l and in the lanes above it.
func (l *Lane) ForgetNudger(n Nudger) {
	l.crew.read(func() {
		for a := l; a != nil; a = a.up {
			delete(a.nudgers, n)
		}
	})
}

// Withdraw cancels r, unless r has begun or is about to be dropped, and reports whether it did: then
// r resolves with err.
func (r *Record) Withdraw(err error) bool {
	l := r.Lane
	if l == nil || l.crew == nil {
		return false
	}
	l.crew.enter()
	if l.phase == stopping || !r.Take() {
		l.crew.leave()
		return false
	}
	sy.Reach("withdraw")
	l.retain()       // as later does, but that allocates
	if !r.InStrand { // else it is counted when its strand comes to it
		l.tombstones(+1)
		l.canceled++
		l.crew.touch(l)
	}
	l.crew.leave()
	r.Body.Over(err)
	r.Body.Resolve(err)
	l.Release()
	return true
}

// taskKey is the key under which the context of a task of the crew's family has the task, as a *Record.
type taskKey struct{ crew *Crew }

// task is the task of c's family that ctx holds; nil: none. ctx may be nil.
func (c *Crew) task(ctx context.Context) (r *Record) {
	if c != nil && ctx != nil {
		r, _ = ctx.Value(taskKey{c}).(*Record)
	}
	return r
}

// Task is TaskIn for the root of l's family.
func (l *Lane) Task(ctx context.Context) *Record {
	if l.crew == nil {
		return nil
	}
	return l.crew.root.TaskIn(ctx)
}

// Value is the value for key of the context of r, which is derived from parent.
func (r *Record) Value(key any, parent context.Context) any {
	if k, is := key.(taskKey); is && r.Lane != nil && k.crew == r.Lane.crew {
		return r
	}
	return parent.Value(key)
}

// Outer is the task that submitted r, as far as contexts tell.
func (r *Record) Outer() *Record {
	if o := r.Lane.crew.task(r.Body.Outer()); o != r {
		return o
	}
	return nil
}

// IsBelow reports whether l is a, or below a.
func (l *Lane) IsBelow(a *Lane) bool {
	for ; l != nil; l = l.up {
		if l == a {
			return true
		}
	}
	return false
}

// Up is the lane above l; nil: there is none.
func (l *Lane) Up() *Lane { return l.up }

// Call calls f in the name of l, and of the lanes above it.
func (l *Lane) Call(f func()) { l.callAt(0, f) }

// callAt is Call by a caller who knows that Nesting is depth in f; 0: it does not know.
func (l *Lane) callAt(depth int, f func()) {
	if l.up == nil {
		l.id.CallAt(depth, f)
		return
	}
	l.up.Call(func() { l.id.CallAt(depth, f) })
}

// Inside reports whether the calling goroutine is in a task of l.
func (l *Lane) Inside() bool { return l.id.Inside() }

// Nesting is how many nested tasks of l the caller is in, as far as the stack and ctx tell. Any
// number above maxNesting means: more than that, or the caller is in a task of the family that is
// not in l. Such a task must not wait for l, but does not count as busy in l.
func (l *Lane) Nesting(ctx context.Context) (n int) {
	root := l.crew.root
	inFamily := l == root || root.Inside() // a task of l is called in the name of the root too; mostly one look is enough
	if inFamily {
		n = l.id.Depth(maxNesting + 1)
	}
	switch {
	case n == 0 && l.TaskIn(ctx) != nil:
		n = 1
	case n == 0 && l != root && (inFamily || root.TaskIn(ctx) != nil):
		n = maxNesting + 1
	}
	return n
}

// TaskIn is the task of l, or of a lane below it, whose context is ctx, or one that ctx is derived
// from; nil if there is none, or it has returned.
func (l *Lane) TaskIn(ctx context.Context) *Record {
	r := l.crew.task(ctx)
	for r != nil && !r.Lane.IsBelow(l) {
		r = r.Outer()
	}
	if r == nil || r.IsOver() {
		return nil
	}
	return r
}

// MayBeInTask returns false only if no task of l's family runs, so that the caller is in none. It does not see
// functions of the user that are no tasks, or that are called after their task was counted.
func (l *Lane) MayBeInTask() (may bool) {
	c := l.crew
	if c == nil || !c.branched.Load() {
		return numOf(l.head.Load()) > 0
	}
	c.read(func() { may = c.inline > 0 || c.live > len(c.idle)+c.departing+c.searching() })
	return may
}

// AllBusy reports whether no worker that l may have, or that a lane above it may have, is parked, searches or
// is yet to be started. One that yields between two tasks is busy.
func (l *Lane) AllBusy() (all bool) {
	c := l.crew
	c.read(func() {
		for a := l; a.up != nil; a = a.up {
			all = all || a.atMax()
		}
		all = all || c.live-len(c.idle)-c.searching() >= c.root.max()
	})
	return all
}

// Nests reports whether a caller that is inside n nested tasks of a lane is to run one more there.
func Nests(n int) bool { return n > 0 && n <= maxNesting }
