package shoal

import (
	"context"
	"runtime/pprof"
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// This file is how workers sleep and are woken. docs/engine.md has the two
// protocols and the proof that no wake-up is lost; the numbers W1 … W5 in
// comments refer to it. In one sentence: whoever adds a task looks for a
// worker afterwards, and whoever stops being available, or stops being on
// standby, looks for tasks afterwards.

// After a yield that brought a task a worker yields up to goodLuck + 1 times
// before it parks; once they were in vain, only every -badLuck + 2 times.
const (
	goodLuck = 3
	badLuck  = -7
)

// rest is called by a worker that found no task. It returns true when there
// may be one, and false when the worker is to leave.
func (w *worker) rest() bool {
	p := w.p
	w.fresh, w.marked = false, false
	if p.spin > 0 {
		if !w.standby {
			w.standby = true
			p.wake.Add(standbyOne) // submitters need wake nobody meanwhile
		}
		for i := range p.spin {
			h := p.head.Load()
			if h&attention != 0 {
				break
			}
			if p.tail.Load()&ticketMask != headTicket(h) {
				if i > 0 {
					w.luck = goodLuck
				}
				sy.Reach("rest found a task")
				return true
			}
			// Whoever would submit next may be waiting for this CPU. If not, a yield costs more
			// than it looks: the runtime wakes another CPU to look for work, and meanwhile this
			// worker is on standby, so that submitters wake nobody. Where tasks are long a look
			// at who waits is cheap; else yields are made while they bring tasks. (The look has no
			// function of its own: it needs what is left of a stack of 2 KB.)
			if i == 0 && (w.step == 1 && sy.Runnable() > 0 || w.step != 1 && w.isLucky()) {
				sy.Yield()
			}
		}
	}
	return w.park()
}

// isLucky reports whether w yields before it parks, by what became of the last times.
func (w *worker) isLucky() bool {
	if w.luck--; w.luck < badLuck {
		w.luck = 0
	}
	return w.luck >= 0
}

// park parks the worker until it is woken, unless there is a task or a reason
// to leave. It returns as rest does.
func (w *worker) park() bool {
	p := w.p
	var now int64
	if p.config.idle > 0 && p.config.idle != Forever {
		now = p.now()
	}
	p.mu.Lock()
	// First announce, then look (W3).
	p.idle.push(w)
	p.setAvailLocked(-w.dropStandby())
	// With another worker on standby, that looks when it leaves it, one may
	// park although tasks wait (W7).
	aside := w.aside && p.phase == phaseOpen && p.config.idle > 0 && p.wake.Load()&standbyMask != 0
	w.aside = false
	switch {
	case p.phase == phaseStopping, p.tooManyLocked():
		p.idle.remove(w)
		p.departLocked(w)
		p.mu.Unlock()
		return false
	case !p.paused && !aside && p.backlog():
		sy.Reach("park saw a task")
		p.idle.remove(w)
		w.standby = true
		p.setAvailLocked(+1)
		p.mu.Unlock()
		return true
	case p.phase == phaseDraining,
		p.config.idle == 0 && p.live-p.departing > p.min:
		p.idle.remove(w)
		p.departLocked(w)
		p.mu.Unlock()
		return false
	}
	sy.Reach("park")
	w.parked = true
	w.watched.Store(false) // whoever set it looked at the last task; mu is held, as it is then
	w.parkedAt = now
	p.armReclaimLocked(now)
	if w.wakeup.IsZero() {
		w.wakeup = sy.MakeEvent()
	}
	p.mu.Unlock()

	w.wakeup.Wait()
	w.fresh, w.rested, w.until = false, true, 0
	if w.turn.lane != nil {
		w.turn.began, w.turn.ended = p.now(), 0 // nobody pays for this
	}
	return !w.leaving
}

// dropStandby makes w not be on standby and returns by how much that lowers
// the count, which is for the caller to do.
func (w *worker) dropStandby() int {
	if !w.standby {
		return 0
	}
	w.standby = false
	return 1
}

// departLocked tells w to leave. If w was on standby the caller owes a rearm.
func (p *Pool) departLocked(w *worker) {
	sy.Reach("depart")
	if !w.leaving {
		w.leaving = true
		p.departing++
	}
	p.setAvailLocked(-w.dropStandby())
	p.setAttentionLocked()
}

// setAvailLocked makes wake tell the truth about available workers, and adds
// to the number on standby, in one step.
func (p *Pool) setAvailLocked(standby int) {
	avail := 0
	if !p.paused && !p.ending && (p.phase == phaseOpen || p.phase == phaseDraining) {
		avail = p.idle.n + max(0, p.max-p.live-p.guests)
	}
	if d := int64(avail-p.avail)<<availBit + int64(standby); d != 0 {
		p.wake.Add(uint64(d))
		p.avail = avail
	}
}

// arm puts one more worker on standby, parked or new. With units = 1 the
// caller passes on its own standby: if nobody is available it is given up,
// under the lock, so that a worker that parks later sees it given up and looks
// (W4). With units = 0 it does nothing if a worker is on standby already.
func (p *Pool) arm(units int) {
	p.mu.Lock()
	if units == 0 && p.wake.Load()&standbyMask != 0 {
		p.mu.Unlock()
		return
	}
	w, fresh := p.armLocked(units)
	p.mu.Unlock()
	w.resume(fresh)
}

// armBeside puts a parked worker on standby beside others, if more tasks wait
// than there are of these, and there is a CPU for it. It need not: any of those
// on standby would see to the tasks (W1).
func (p *Pool) armBeside(next uint64) {
	p.mu.Lock()
	w := p.idle.top
	standby := int(p.wake.Load() & standbyMask)
	if w == nil || p.avail == 0 || standby >= int(p.procs.Load()) || p.waitingTasks() <= standby {
		p.mu.Unlock()
		return
	}
	sy.Reach("arm beside")
	p.rouseLocked(w, 1)
	w.gentle = p.auto
	p.mu.Unlock()
	p.woken.Store(next)
	w.resume(false)
}

// armLocked is the part of arm under the lock. The caller must call resume on
// what it returns, after unlocking.
func (p *Pool) armLocked(units int) (w *worker, fresh bool) {
	switch w := p.idle.top; {
	case p.avail == 0:
	case w != nil:
		sy.Reach("arm parked")
		p.rouseLocked(w, 1-units)
		w.gentle = p.auto
		return w, false
	case p.asking > 0, p.starting > 0 && p.waitingTasks() <= p.starting:
		// Whether to grow is being decided, or enough workers are in their
		// start hooks. They look for tasks when that is done, or when they
		// leave instead.
	default:
		sy.Reach("arm new")
		w := p.newWorkerLocked()
		w.gentle, w.asks = p.auto, !p.auto
		p.setAvailLocked(1 - units)
		return w, true
	}
	p.setAvailLocked(-units)
	return nil, false
}

// resume has w, if there is one, begin, or go on.
func (w *worker) resume(fresh bool) {
	switch {
	case w == nil:
	case fresh:
		w.p.launch(w)
	default:
		w.wakeup.Set()
	}
}

// waitingTasks is the number of tickets given out and not taken.
func (p *Pool) waitingTasks() int {
	h := p.head.Load() // first: tail is never behind it
	return int(ahead(p.tail.Load(), headTicket(h))) + int(p.wanted.Load())
}

// rearm arms a worker if tasks wait and nobody is on standby. It is the look
// at the queue that whoever became available, or ceased to be on standby,
// owes.
func (p *Pool) rearm() {
	if w := p.wake.Load(); w&standbyMask == 0 && w >= availOne && p.backlog() {
		p.arm(0)
	}
}

// rouseLocked takes w off the idle list and puts it on standby. The caller
// must set w.wakeup after unlocking.
func (p *Pool) rouseLocked(w *worker, standby int) {
	p.idle.remove(w)
	w.parked = false
	w.standby = true
	w.gentle = false
	p.setAvailLocked(standby)
	p.watch.armLocked()
}

// newWorkerLocked makes a worker on standby. The caller adjusts wake and
// starts it, after unlocking.
func (p *Pool) newWorkerLocked() *worker {
	w := &worker{p: p, standby: true, step: 1, left: 1, timed: -1}
	w.cycle = func() { w.again = w.loop() }
	w.status.Store(idleBit)
	if n := len(p.freeIDs); n > 0 {
		w.id = p.freeIDs[n-1]
		p.freeIDs = p.freeIDs[:n-1]
		p.workers[w.id] = w
	} else {
		w.id = len(p.workers)
		p.workers = append(p.workers, w)
	}
	p.live++
	p.peak = max(p.peak, p.live)
	p.watch.armLocked()
	return w
}

// fillLocked makes the workers that are missing to the minimum. The caller
// starts them, after unlocking.
func (p *Pool) fillLocked() (fresh []*worker) {
	for p.phase == phaseOpen && p.live-p.departing < p.min && p.live < p.max {
		fresh = append(fresh, p.newWorkerLocked())
	}
	p.setAvailLocked(len(fresh))
	return fresh
}

func startAll(fresh []*worker) {
	for _, w := range fresh {
		w.p.launch(w)
	}
}

// leave ends the worker's life, also after runtime.Goexit.
func (w *worker) leave() {
	if w.inTask {
		return // a panic that is not recovered: the process is about to die
	}
	defer w.gone() // whatever the hook does
	p := w.p
	if w.inHook { // the start hook has ended the goroutine
		p.mu.Lock()
		p.hookBroken = true // the next one would end the same way, without end
		p.mu.Unlock()
		p.logHookGoexit("start")
	}
	defer w.stopHook() // whatever closing does
	w.kept.closeAll(p)
}

func (w *worker) stopHook() {
	p := w.p
	if w.hooked && p.onStop != nil {
		p.guard(func() { p.onStop(w.id) })
	}
}

// gone is the last thing a worker does.
func (w *worker) gone() {
	// Who looks at this goroutine in its last moment sees no pool's name.
	pprof.SetGoroutineLabels(context.Background())
	w.countOut()
}

// countOut counts w out: it is no worker any more, or never began.
func (w *worker) countOut() {
	p := w.p
	p.mu.Lock()
	p.live--
	if w.apartIn != nil {
		*w.apartIn--
	}
	w.endTurnLocked()
	if w.leaving {
		p.departing--
	}
	p.workers[w.id] = nil
	if p.watch != nil {
		p.watch.outAt = max(p.watch.outAt, w.since.Load())
	}
	p.freeIDs = append(p.freeIDs, w.id)
	if p.live == 0 {
		p.workers, p.freeIDs = nil, nil // memory returns after a burst
	}
	fresh := p.fillLocked()
	p.setAvailLocked(-w.dropStandby())
	p.setAttentionLocked()
	// The look for tasks that who becomes available owes. It is done here and
	// not by rearm, so that after this section nothing is left to do that the
	// end of the pool would have to wait for.
	var next *worker
	var isFresh bool
	if p.wake.Load()&standbyMask == 0 && p.backlog() {
		next, isFresh = p.armLocked(0)
		if isFresh {
			next.asks = false // it replaces this one
		}
	}
	last := p.endLocked()
	strand := len(p.stranded) > 0
	tidy := p.up != nil && p.phase != phaseOpen
	p.mu.Unlock()
	startAll(fresh)
	next.resume(isFresh)
	if last {
		p.finish()
	} else if tidy {
		p.tidyLane()
	}
	if strand {
		p.nudge()
	}
}

// An idleList is a list of parked workers, the latest on top, so that the
// hottest stack is used first and the bottom has been idle for longest.
type idleList struct {
	top, bottom *worker
	n           int
}

func (l *idleList) push(w *worker) {
	w.next = l.top
	if l.top == nil {
		l.bottom = w
	} else {
		l.top.prev = w
	}
	l.top = w
	l.n++
}

func (l *idleList) remove(w *worker) {
	if w.prev == nil {
		l.top = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.bottom = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	l.n--
}

// armReclaimLocked sets the timer of the reclaimer, if it is needed and not
// set. One timer serves the pool: it is due when the bottom of the idle list
// is.
func (p *Pool) armReclaimLocked(now int64) {
	d := p.config.idle
	if d == 0 || d == Forever || p.reclaimAt != 0 || p.phase != phaseOpen ||
		p.idle.n == 0 || p.live-p.departing <= p.min {
		return
	}
	p.reclaimAt = p.idle.bottom.parkedAt + int64(d)
	wait := time.Duration(p.reclaimAt - now)
	p.helpers++
	if p.reclaim == nil {
		p.reclaim = sy.AfterFunc(wait, p.reclaimIdle)
	} else {
		p.reclaim.Reset(wait)
	}
}

// reclaimIdle sends all workers away that have been idle for long enough, and
// sets the timer for the next one.
func (p *Pool) reclaimIdle() {
	now := p.now()
	var due []*worker
	p.mu.Lock()
	p.reclaimAt = 0
	for p.phase == phaseOpen && p.live-p.departing > p.min {
		w := p.idle.bottom
		if w == nil || w.parkedAt+int64(p.config.idle) > now {
			break
		}
		p.idle.remove(w)
		w.parked = false
		sy.Reach("reclaim")
		p.departLocked(w)
		due = append(due, w)
	}
	p.armReclaimLocked(now)
	p.mu.Unlock()
	for _, w := range due {
		w.wakeup.Set()
	}
	p.helperDone()
}

// helperDone is the last thing a goroutine of the pool does that is no worker.
func (p *Pool) helperDone() {
	p.mu.Lock()
	p.helpers--
	p.unlockEnding()
}

// unlockEnding unlocks, as the last act of one of the pool's goroutines.
func (p *Pool) unlockEnding() {
	last := p.endLocked()
	p.mu.Unlock()
	if last {
		p.finish()
	}
}
