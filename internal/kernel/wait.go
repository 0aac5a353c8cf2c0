package kernel

import (
	"container/list"
	"slices"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// This file is the lists of what waits for capacity: submitters without capacity, and reservations.
// While the first submitter is listed and not called, or a reservation is listed, workers see the
// slow-path flag.

// A waiter is a submitter without capacity, or a delayed task, for which no goroutine waits; or a submitter that is
// far ahead, of which pacing uses woken and since.
type waiter struct {
	it     queue.Item
	place  *list.Element // in the lane's blocked; nil: w does not wait any more
	woken  sy.Event      // not made for a delayed task
	err    error         // why it was not admitted; written under the lock, before woken is set unless it was called
	since  int64         // when it came
	calls  int           // times that it was called in vain
	called bool          // it was called to take capacity itself; only the first is
}

// call calls w to take free capacity itself or, if on is false, notes that w has come.
func (w *waiter) call(on bool) {
	if w.called = on; on {
		w.woken.Set()
	}
}

// firstBlocked is the first waiter; nil: there is none. Locked.
func (l *Lane) firstBlocked() *waiter {
	if e := l.blocked.Front(); e != nil {
		return e.Value.(*waiter)
	}
	return nil
}

func (l *Lane) enlist(w *waiter) {
	w.place = l.blocked.PushBack(w)
	l.crew.touch(l)
}

// unlist takes w off the list; err says why it was not admitted. It wakes the goroutine that waits, unless that
// was called.
func (l *Lane) unlist(w *waiter, err error) {
	l.blocked.Remove(w.place)
	w.place, w.err = nil, err
	if !w.called && !w.woken.IsZero() {
		w.woken.Set()
	}
}

// strict reports whether the first waiter is to be served in turn: no submitter may pass it.
func (l *Lane) strict() bool {
	w := l.firstBlocked()
	return w.woken.IsZero() || w.calls >= mostCalls>>(5*sy.Shorter/3) || l.crew.clock.Now()-w.since >= barge
}

func (l *Lane) reserve(r *Reservation) {
	l.reservers = append(l.reservers, r)
	l.crew.touch(l)
}

func (l *Lane) unreserve(r *Reservation) { remove(&l.reservers, r) }

// insert adds v to set, which is made when it is first needed.
func insert[K comparable](set *map[K]struct{}, v K) {
	if *set == nil {
		*set = map[K]struct{}{}
	}
	(*set)[v] = struct{}{}
}

// remove removes v from list, and reports whether it was there.
func remove[T comparable](list *[]T, v T) bool {
	i := slices.Index(*list, v)
	if i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
	return i >= 0
}
