package shoal

import (
	"context"
	"fmt"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// Submit submits task to be run once, on one of the pool's workers. It returns
// nil if the task was accepted. An accepted task runs, unless the pool is
// closed or, under [DropOldest], a newer task displaces it.
//
// Tasks that one goroutine submits start in the order of their submission, if
// they go through the queue. These tasks do not: one that [Spawn] or
// [CallerRuns] runs, one that a task runs itself because the queue of its pool
// is full, and one that a waiting task runs because it waits for it.
//
// If there is no room (see [WithQueueCapacity]), Submit follows the pool's
// [FullPolicy]. Under [Block], the default, it parks until there is room or the
// pool is shut down. Otherwise Submit does not block, and it allocates nothing.
//
// A task may call Submit. If the queue of its own pool is full, under Block,
// the task runs the new task itself, because to wait for room could stop the
// whole pool. At 64 tasks inside each other it does not; the new task is then
// accepted beyond the capacity. The pool knows its tasks by their stacks. A
// goroutine that a task has started, and an iterator under [iter.Pull], have
// stacks of their own: use [Pool.SubmitContext] with the task's context there.
//
// A task that calls [runtime.LockOSThread] should unlock the thread before it
// returns. A worker that stays locked to its thread is slower from then on, by ten
// times with short tasks, and Go offers the pool no way to find out.
//
// Errors: [ErrNilTask], [ErrClosed] and, under [Reject] and DropOldest,
// [ErrQueueFull].
func (p *Pool) Submit(task func()) error {
	if task == nil {
		return ErrNilTask
	}
	it := queue.Func(task)
	if p.push(it) {
		return nil
	}
	return p.pushSlow(it, p.policy, nil)
}

// TrySubmit is [Pool.Submit], but never waits: if there is no room it returns
// [ErrQueueFull], whatever the pool's policy.
func (p *Pool) TrySubmit(task func()) error {
	if task == nil {
		return ErrNilTask
	}
	it := queue.Func(task)
	if p.push(it) {
		return nil
	}
	return p.pushSlow(it, Reject, nil)
}

// SubmitContext is [Pool.Submit] with a context. If ctx ends before there is
// room, it returns ctx's error. If ctx ends after the task was accepted and
// before it starts, the task does not run, and counts in [Stats].Canceled. A
// task that starts is given a context derived from ctx. That context ends with
// ctx, when the task returns, and when the pool is closed.
//
// Nothing reports that an accepted task did not run. Use [Pool.SubmitWait] or
// [Go] for a task whose result matters.
//
// Errors: those of Submit, [ErrConfig] for a nil ctx, and ctx's own error if
// ctx ends before the task is accepted. If ctx has ended before the call, the
// task is not accepted even if there is room.
func (p *Pool) SubmitContext(ctx context.Context, task func(context.Context)) error {
	if task == nil {
		return ErrNilTask
	}
	if ctx == nil {
		return errNilContext
	}
	c := &contextTask{f: task}
	c.bind(c, ctx, p)
	return p.submitCall(&c.contextCall, p.policy, "SubmitContext")
}

// SubmitWait runs task on the pool, waits for it, and returns its error. A
// panic comes back as a [*PanicError], [runtime.Goexit] as [ErrGoexit], a task
// that was discarded as [ErrDropped].
//
// SubmitWait returns when the task does not run any more. If ctx ends before the
// task has started, the task never starts, and SubmitWait returns ctx's error at
// once. If ctx ends while the task runs, the task sees its context end, and
// SubmitWait returns the task's own result when the task has returned. So
// nothing that task captured is written after the call. A caller that wants to
// leave while the task runs uses [Go], and [Future.Wait] with ctx.
//
// Called from one of the pool's own tasks, SubmitWait runs the new task right
// there, so that tasks that wait for tasks cannot use up the workers. (There,
// runtime.Goexit ends the outer task too.) So does a goroutine that a task has
// started, if it calls SubmitWait with the task's context: it runs the new task
// beside its own, beyond the pool's limit.
func (p *Pool) SubmitWait(ctx context.Context, task func(context.Context) error) error {
	if task == nil {
		return ErrNilTask
	}
	if ctx == nil {
		return errNilContext
	}
	c := &resultTask{f: task}
	c.bind(c, ctx, p)
	if n := p.nesting(ctx); n > 0 && n <= maxNesting {
		if err := ctx.Err(); err != nil {
			return err
		}
		t := c.trace("SubmitWait")
		if err := p.runHere(queue.Record(&c.call)); err != nil {
			t.refuse(err)
			return err
		}
		return c.err
	}
	if err := p.submitCall(&c.contextCall, p.policy, "SubmitWait"); err != nil {
		return err
	}
	if err := c.await(ctx); err != nil && !p.withdraw(&c.call, err) {
		sy.Reach("outlive the context")
		c.latch().Wait() // it has begun, or is being dropped
	}
	return c.err
}

// submitCall submits c, whose context also bounds the wait for room. kind is for
// those who trace it.
func (p *Pool) submitCall(c *contextCall, policy FullPolicy, kind string) error {
	if err := c.parent.Err(); err != nil {
		return err
	}
	t := c.trace(kind)
	if p.pushCall(&c.call) {
		return nil
	}
	err := p.pushSlow(queue.Record(&c.call), policy, c.parent)
	if err != nil {
		t.refuse(err)
	}
	return err
}

var errNilContext = fmt.Errorf("%w: nil context", ErrConfig)

// SubmitBatch submits tasks in their order and returns how many were accepted.
// If that is not all of them, the error says why it stopped there. If a task is
// nil, it accepts none and returns [ErrNilTask]. It takes room for up to 64
// tasks in one step, and looks for workers once a step; otherwise it follows
// the rules of [Pool.Submit].
func (p *Pool) SubmitBatch(tasks []func()) (int, error) {
	for i, f := range tasks {
		if f == nil {
			return 0, fmt.Errorf("%w: index %d of %d", ErrNilTask, i, len(tasks))
		}
	}
	n := 0
	for n < len(tasks) {
		if k := p.pushBatch(tasks[n:]); k > 0 {
			n += k
			continue
		}
		if err := p.pushSlow(queue.Func(tasks[n]), p.policy, nil); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// batchStep bounds how many cells a submitter owes at once: workers that come
// to a cell wait for it.
const batchStep = 64

// push admits it if that can be done without a lock. Per task it costs one
// compare-and-swap (the ticket), one store (the cell) and one load (wake).
func (p *Pool) push(it queue.Item) bool {
	seg := p.back.Load() // before the ticket: queue, Q3
	t, ok := p.takeTicket()
	if ok {
		p.put(seg, t, it)
		p.pushed(t + 1)
	}
	return ok
}

// pushCall is push for a call.
func (p *Pool) pushCall(c *call) bool {
	seg := p.back.Load()
	t, ok := p.takeTicket()
	if ok {
		c.at = t & ticketMask
		p.put(seg, t, queue.Record(c))
		p.pushed(t + 1)
	}
	return ok
}

// takeTicket admits a task, if that can be done without a lock. The caller puts
// it, and calls pushed.
func (p *Pool) takeTicket() (ticket uint64, ok bool) {
	for {
		t := p.tail.Load()
		if t >= p.limit.Load() {
			return 0, false // full, sealed, or the limit is stale
		}
		if p.tail.CompareAndSwap(t, t+1) {
			return t, true
		}
	}
}

// pushed is published after ticket next - 1 was put. It does more: if that is
// the task right after one that had a worker woken, and that worker has not
// begun yet, it wakes one more, up to one per CPU. Whoever takes the first task
// would do so too, but the runtime keeps a goroutine that a running one has
// woken at hand for it, and lets another CPU have it only late: a task of 250
// µs often waited for the end of the one before it, beside an idle CPU.
func (p *Pool) pushed(next uint64) {
	w := p.wake.Load()
	switch {
	case w < availOne:
	case w&standbyMask == 0:
		p.arm(0)
		p.woken.Store(next)
	case p.woken.Load() == next-1:
		p.armBeside(next)
	}
}

// pushBatch is push for the first few of tasks; it returns how many.
func (p *Pool) pushBatch(tasks []func()) int {
	seg := p.back.Load()
	for {
		t, limit := p.tail.Load(), p.limit.Load()
		if t >= limit {
			return 0
		}
		k := min(uint64(len(tasks)), limit-t, batchStep)
		if !p.tail.CompareAndSwap(t, t+k) {
			continue
		}
		for i := range k {
			if s := seg; !s.Holds((t + i) & ticketMask) {
				seg = p.back.Seek(s, (t+i)&ticketMask)
			}
			p.put(seg, t+i, queue.Func(tasks[i]))
		}
		p.published()
		return int(k)
	}
}

// put publishes it under ticket t. seg was loaded from back before t was
// taken.
func (p *Pool) put(seg *queue.Segment, t uint64, it queue.Item) {
	t &= ticketMask
	if !seg.Holds(t) {
		seg = p.back.Seek(seg, t)
	}
	if t&p.stampMask == 0 {
		p.stamp(seg, t)
	}
	seg.Cell(t).Put(it)
	if queue.Middle(t) {
		seg.Extend()
	}
}

// stamp notes when ticket t was submitted.
func (p *Pool) stamp(seg *queue.Segment, t uint64) {
	if p.timing == TimingOff {
		return
	}
	now := p.now()
	*seg.Stamp(t) = now
	if d := p.watch; d != nil {
		if ahead(t, headTicket(p.head.Load())) <= p.husks.Load() { // nobody waits before it
			d.queuedAt.Store(now)
		}
		d.stamped.Add(1)
	}
}

// published looks for somebody to run what was just put. If a worker is on
// standby it will see the task: it leaves standby, then looks at the queue
// (worker.leaveStandby), while here the task was put before the look. If
// nobody is available all workers are busy and will come back to the queue:
// they announce that they park, then look (worker.park).
func (p *Pool) published() {
	if w := p.wake.Load(); w&standbyMask == 0 && w >= availOne {
		p.arm(0)
	}
}

// pushSlow admits it under the lock, or does what policy says. ctx, if not
// nil, bounds the wait.
func (p *Pool) pushSlow(it queue.Item, policy FullPolicy, ctx context.Context) error {
	nesting := -1 // not known
	yields := 0
	if policy == Block && p.head.Load()&attention != 0 {
		nesting = p.nesting(ctx) // others wait already, most likely: then so will this one
	}
	p.mu.Lock()
	for {
		if p.phase != phaseOpen {
			p.mu.Unlock()
			return ErrClosed
		}
		// Those who wait go first: there may be room for them that nobody has
		// come to give them yet, and for this one too.
		promoted := p.promoteLocked()
		if p.room.empty() && p.admitLocked(it) {
			if yields > 0 {
				sy.Reach("room after a yield")
				p.roomLuck = goodLuck
			}
			p.unlockPushed(promoted)
			return nil
		}
		if promoted {
			p.mu.Unlock()
			p.published()
			p.mu.Lock()
			continue
		}
		switch policy {
		case Block:
			// A task of this pool must not wait: it could be what keeps room
			// from being made.
			switch {
			case p.room.empty() && p.yieldForRoomLocked(yields):
				yields++
				p.mu.Unlock()
				sy.Yield()
				p.mu.Lock()
				continue
			case nesting < 0:
				p.mu.Unlock() // finding out takes a while
				nesting = p.nesting(ctx)
				p.mu.Lock()
				continue
			case nesting == 0:
				return p.waitForRoom(it, ctx)
			case nesting <= maxNesting:
				p.mu.Unlock()
				return p.runHere(it)
			}
			p.forceLocked(it)
			p.mu.Unlock()
			p.published()
			return nil
		case Spawn:
			p.spawned++
			p.outsideLocked(it)
			p.helpers++
			p.mu.Unlock()
			p.runSpawned(it)
			return nil
		case CallerRuns:
			p.mu.Unlock()
			return p.runHere(it)
		case DropOldest:
			d, enough := p.dropOldestLocked()
			if !enough {
				break // what is in the queue is being handed to a free worker, or all wait for their keys, or are yet to come
			}
			// The place is taken in the same critical section: it must not go to
			// somebody else, nor be lost to the end of the pool.
			since := p.watch.waitingSince()
			promoted := p.admitWaitersLocked() // before those who reserve, who come next time round
			admitted := p.room.empty() && p.admitLocked(it)
			if d.n > 0 && p.watch != nil {
				p.watch.queuedAt.Store(since) // some task has been waiting ever since
			}
			switch {
			case admitted:
				p.unlockPushed(promoted)
			case promoted:
				p.mu.Unlock()
				p.published()
			default:
				p.mu.Unlock()
			}
			p.discardAll(d)
			if admitted {
				return nil
			}
			p.mu.Lock()
			continue
		}
		sy.Reach("full")
		p.rejected.Add(1)
		p.mu.Unlock()
		return ErrQueueFull
	}
}

// yieldForRoomLocked reports whether a submitter for which there is no room should let
// others run before it parks, having done so yields times. Tasks that are short have
// made room by then, and to park, and to be woken, takes longer than such a task. Where
// that was in vain a few times only every -badLuck + 1 times tries it; nobody does while
// others wait, who come first.
func (p *Pool) yieldForRoomLocked(yields int) bool {
	switch {
	case yields == sy.Times(roomYields): // in vain
		if p.roomLuck--; p.roomLuck < 0 {
			p.roomLuck = badLuck
		}
		return false
	case yields > 0:
		return true
	case p.roomLuck < 0:
		p.roomLuck++
		return false
	}
	return p.root().spin > 0
}

// roomYields is how many times in a row. A thousand submitters take turns in most of
// the time that tasks get to run meanwhile.
const roomYields = 16

// unlockPushed unlocks after a task was admitted, and looks for a worker for it
// and, if others were promoted before it, for these.
func (p *Pool) unlockPushed(promoted bool) {
	next := p.tail.Load() &^ sealedBit // or later: it is for a hint
	p.mu.Unlock()
	if promoted {
		p.published()
	}
	p.pushed(next)
}

// admitLocked puts it into the queue if there is room, and raises limit for
// those who come next.
func (p *Pool) admitLocked(it queue.Item) bool {
	seg := p.back.Load()
	for {
		t := p.tail.Load()
		room := p.roomLocked(t)
		if room <= 0 {
			if p.tail.Load() != t {
				continue // the head that was seen may belong to a later tail
			}
			return false
		}
		if p.room.first != p.room.last {
			room = 1 // the rest is for the others on the list
		}
		if p.tail.CompareAndSwap(t, t+1) {
			admitted(it, t) // before others may follow: it is the next of its key
			p.limit.Store(t + uint64(room))
			p.put(seg, t, it)
			return true
		}
	}
}

// forceLocked puts it into the queue without asking for room.
func (p *Pool) forceLocked(it queue.Item) {
	seg := p.back.Load()
	for {
		t := p.tail.Load() // if it is sealed, it stays so: turns are given back while a pool drains
		if p.tail.CompareAndSwap(t, t+1) {
			admitted(it, t)
			p.put(seg, t, it)
			return
		}
	}
}

// roomLocked is how many more tasks may be accepted when tail is t. Later it
// can only be more, until somebody moves tail, pauses or resizes (A2).
func (p *Pool) roomLocked(t uint64) int64 { return p.roomAt(t, p.head.Load()) }

// roomAt is roomLocked when head is h.
func (p *Pool) roomAt(t, h uint64) int64 {
	if p.capacity == Unbounded {
		return maxCapacity - int64(ahead(t, headTicket(h)))
	}
	room := int64(p.capacity) - int64(ahead(t, headTicket(h))) + int64(p.shells) - p.parked.Load() - int64(p.reserved)
	if !p.paused {
		room += int64(max(0, p.max-headBusy(h)-p.turning-p.inside))
	}
	return room
}

// A drop is n tickets that were taken to discard their tasks.
type drop struct {
	seg   *queue.Segment // as for takeCell
	first uint64
	n     uint64
	late  []uint64 // of these tickets the putters were slow
}

// dropOldestLocked takes the tickets of the tasks that wait at the front, as many as it
// takes for there to be room for one more, or none where a worker has made it. It
// takes none either, and says so, where all that wait are not enough. The caller must
// call discardAll, after unlocking.
func (p *Pool) dropOldestLocked() (d drop, enough bool) {
	if p.capacity == 0 {
		return d, false
	}
	d.seg = p.front.Load()
	for {
		t := p.tail.Load()
		h := p.head.Load()
		n := 1 - p.roomAt(t, h)
		if p.tail.Load() != t {
			continue // as in admitLocked
		}
		d.first = headTicket(h)
		if n <= 0 {
			return drop{}, true
		}
		waiting := ahead(t, d.first)
		for d.n = 0; n > 0 && d.n < waiting; d.n++ {
			if p.shells == 0 || !p.isShellLocked((d.first+d.n)&ticketMask) { // else that is no place
				n--
			}
		}
		if n > 0 {
			return drop{}, false
		}
		if p.head.CompareAndSwap(h, h+d.n*ticketOne) {
			break
		}
	}
	sy.Reach("drop oldest")
	p.helpers++ // the pool is not over before somebody was told
	for t := range d.n {
		t = (d.first + t) & ticketMask
		switch husk, put := p.seizeLocked(d.seg, t); {
		case !put: // whether it is claimed is not known yet: it is nobody's meanwhile
			p.passed++
			p.outside++
			d.late = append(d.late, t)
			p.late.add(t)
		case husk != nil:
			p.huskGoneLocked(husk)
			p.passed++
		default:
			p.dropped++
		}
	}
	p.displaced.Add(d.n)
	return d, true
}

// discardAll discards the tasks of d. It empties their cells not under the lock: a putter
// may be slow.
func (p *Pool) discardAll(d drop) {
	if d.n == 0 {
		return
	}
	defer p.helperDone()
	for t := d.first; d.n > 0; d.n-- {
		var it queue.Item
		it, d.seg = p.takeCell(d.seg, t)
		if len(d.late) > 0 && d.late[0] == t {
			d.late = d.late[1:]
			p.seizeLate(it, t)
		}
		discard(it, ErrDropped)
		t = (t + 1) & ticketMask
	}
}

// takeCell empties the cell of ticket t. seg was loaded from front before t
// was taken. It returns t's segment too, for the next ticket.
func (p *Pool) takeCell(seg *queue.Segment, t uint64) (queue.Item, *queue.Segment) {
	if !seg.Holds(t) {
		seg = p.front.Seek(seg, t)
	}
	return seg.Take(t), seg
}
