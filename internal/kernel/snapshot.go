package kernel

import (
	"fmt"
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// This file is what clients see of a lane, read under the lock. It changes nothing but what readers
// keep: the most workers that were seen at once, and the mark by which a reader tells the task that
// it saw from later ones. It also forgets lanes that were collected.

// A Snapshot is a lane at one moment.
type Snapshot struct {
	Count
	Dropped, Canceled, Failed, Spawned, Rejected uint64
	Blocked, Reserved                            int
	Live, Peak, Min, Max                         int
	WorkersIn                                    int    // workers busy here, and in the lanes below
	Moves                                        uint64 // see moves; of the lanes below too
	Open, Paused, Ended                          bool
	Full                                         bool // all workers that it may have are in tasks, and neither it nor a lane above is paused
	WaitsBelow                                   bool // a task or a submitter in a lane below waits for one of its workers
}

// Snapshot takes one.
func (l *Lane) Snapshot() (s Snapshot) {
	s.Ended = true // if there is nothing to read
	l.crew.read(func() { l.snapshot(&s) })
	return s
}

func (l *Lane) snapshot(s *Snapshot) {
	c := l.crew
	below := c.under(l) // first: it may forget lanes, whose moves are those of l then
	s.Count = l.count()
	s.Dropped, s.Canceled, s.Failed, s.Spawned, s.Rejected = l.dropped, l.canceled, l.failed, l.spawned, l.rejected
	s.Blocked, s.Reserved = l.blocked.Len(), l.reserved
	s.Live, s.Peak, s.Max = c.live, c.staff.peak, l.max()
	if l.up == nil {
		s.Min = c.Min
	}
	s.WorkersIn, s.Moves = s.Busy-l.inline-int(l.hosts), l.moves(s.Count)+l.stirred
	for _, b := range below {
		s.WorkersIn += b.workersIn() - int(b.hosts)
		n := b.count()
		s.WaitsBelow = s.WaitsBelow || (n.Waiting > 0 || b.blocked.Len() > 0) && b.freeUpTo(l)
		b.place.moves = b.moves(n)
		s.Moves += b.place.moves
	}
	if l.up != nil {
		l.most = max(l.most, int32(s.WorkersIn))
		s.Live, s.Peak = s.WorkersIn, int(l.most)
	}
	least, paused := l.max(), false
	for a := l; a != nil; a = a.up {
		least, paused = min(least, a.max()), paused || a.paused
	}
	s.Full = s.WorkersIn >= least && !paused
	s.Open, s.Paused, s.Ended = l.phase == open, l.paused, l.done.IsOpen()
}

// Stage is what a Snapshot says of l's life. It looks at no other lane.
func (l *Lane) Stage() (isOpen, paused, ended bool) {
	ended = true // if there is nothing to read
	l.crew.read(func() { isOpen, paused, ended = l.phase == open, l.paused, l.done.IsOpen() })
	return isOpen, paused, ended
}

// BusyTime is for how many nanoseconds workers were not parked, all of them together; 0 if l is not the root. It
// never falls, though a worker may have parked since now. It looks at each worker: so it is no part of a Snapshot.
func (l *Lane) BusyTime() (seen int64) {
	if c := l.crew; l.up == nil {
		c.read(func() {
			now, n := c.clock.Now(), c.staff.busy
			for _, w := range c.staff.all {
				if w != nil {
					n += w.busyFor(now)
				}
			}
			seen = max(c.staff.seenBusy, n)
			c.staff.seenBusy = seen
		})
	}
	return seen
}

// Now is the time in nanoseconds since the family was made; 0 if it never was.
func (l *Lane) Now() int64 {
	if l.epoch == nil {
		return 0
	}
	return sy.Since(*l.epoch)
}

// Queued is how many tasks have not started.
func (l *Lane) Queued() (n int) {
	l.crew.read(func() { n = int(l.count().Waiting) })
	return n
}

// A WorkerView is a worker at one moment. Executed and Failed are exact while it is idle.
type WorkerView struct {
	ID               int
	Executed, Failed uint64
	Parked, InTask   bool
	Age              time.Duration // of the task it is in, at least; never too large
	Began            int64         // a number that tells the task from others
	Lane             *Lane         // the lane in whose name its loop runs, or ran last; the root if it has rested since
	exact            bool
	w                *Worker
}

// Same reports whether the worker is still in that task.
func (v *WorkerView) Same() bool {
	if v.exact {
		return v.w.status.Load()&exactBit != 0 && v.w.since.Load() == v.Began
	}
	return v.w.watched.Load() && v.w.status.Load()&idleBit == 0
}

// Address is where the worker is in memory, as stacks have it.
func (v *WorkerView) Address() string { return fmt.Sprintf("%p", v.w) }

// Workers is the workers of l's family or, if l is not the root, those in l and below it: those with the
// numbers from first on, n numbers at most, in the order of these.
func (l *Lane) Workers(first, n int) (views []WorkerView) {
	l.crew.read(func() {
		now, all := l.crew.clock.Now(), l.crew.staff.all
		all = all[min(uint(first), uint(len(all))):] // none if first is negative
		for _, w := range all[:min(n, len(all))] {
			if w != nil && (l.up == nil || w.named.Load().IsBelow(l)) {
				views = append(views, w.view(now))
			}
		}
	})
	return views
}

// view is w at a moment that is not before now. Locked.
func (w *Worker) view(now int64) WorkerView {
	s := w.status.Load()
	v := WorkerView{
		ID: w.ID, Executed: s >> statusBits, Failed: w.failed, Parked: w.parked, Lane: w.named.Load(),
		InTask: !w.parked && s&idleBit == 0, exact: s&exactBit != 0, w: w,
	}
	if v.InTask {
		v.Age, v.Began = w.age(s, now)
	}
	return v
}

// age is for how long w, whose status is s, has been inside its task, as far as is known, and when
// the task is known to have begun. If that is unknown, age marks w, which removes the mark before
// the next task, and the task counts from the mark on. Locked.
func (w *Worker) age(s uint64, now int64) (age time.Duration, began int64) {
	switch {
	case s&exactBit != 0:
		began = w.since.Load()
	case w.watched.Load():
		began = w.watchedAt
	default:
		w.watched.Store(true)
		began = w.crew.clock.Now() // not now, which may be before the task that is marked
		w.watchedAt = began
	}
	return time.Duration(max(0, now-began)), began
}
