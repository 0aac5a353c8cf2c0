package kernel

import (
	"context"
	"slices"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Reservation is permits that are held for tasks that are yet to come: places of free workers.
// While it waits for places it is listed, like a submitter without capacity, and workers see the
// slow-path flag. The lock of the family guards it, except woken and revoked.
//
// Invariant: reserved of the account is the sum of n over the lane's reservations.
type Reservation struct {
	l       *Lane
	want    int
	n       int
	woken   sy.Event // the wait is over: it has places, or gets none
	revoked sy.Latch
}

// Reserve parks until a worker is free, and holds the places of all that are, up to n.
func (l *Lane) Reserve(ctx context.Context, n int) (*Reservation, error) {
	cancel := ctx.Done() // not listed yet: it is a function of the user
	if !l.enterOpen() {
		return nil, ErrClosed
	}
	r := &Reservation{l: l, want: n, woken: sy.MakeEvent(), revoked: sy.MakeLatch()}
	l.reserve(r)
	l.crew.leave() // announces the reservation, and looks for places
	if !r.woken.WaitOr(cancel) {
		r.Release() // also if it got places meanwhile
		return nil, ctx.Err()
	}
	if r.Len() == 0 {
		return nil, ErrClosed
	}
	return r, nil
}

// grantReservations gives free places to the reservations that wait. Locked.
func (l *Lane) grantReservations() {
	for len(l.reservers) > 0 && !l.paused && l.phase == open && l.blocked.Len() == 0 && l.unclaimed() > 0 {
		l.recall() // from here on submitters come to the lock; but look once more
		r := l.reservers[0]
		n := min(r.want, int(l.unclaimed()))
		if n <= 0 {
			return
		}
		sy.Reach("grant")
		l.unreserve(r)
		insert(&l.reserves, r)
		l.permits(n)
		r.give(-n)
		r.woken.Set()
	}
}

// give takes n places from r; their permits are used, or come back. If n is negative, r gets −n
// places. Locked.
func (r *Reservation) give(n int) {
	r.n -= n
	r.l.reserved -= n
	if r.n == 0 {
		delete(r.l.reserves, r)
	}
	r.l.crew.touch(r.l) // also: the slow-path flag may go
}

// Len is the number of places left.
func (r *Reservation) Len() (n int) {
	if r.l != nil { // else it was not made by Reserve
		r.l.crew.read(func() { n = r.n })
	}
	return n
}

// Submit uses a place for task it. It returns false if no place is left.
func (r *Reservation) Submit(it queue.Item) (ok bool, err error) {
	l := r.l
	if !l.enterOpen() {
		return false, ErrClosed
	}
	defer l.crew.leave()
	if r.n == 0 {
		return false, nil
	}
	sy.Reach("submit reserved")
	r.give(1)
	l.putLocked(it)
	l.crew.list(l)
	return true, nil
}

// Release gives back the places that are left, and ends the wait for places.
func (r *Reservation) Release() {
	if r.l != nil {
		r.l.crew.enter()
		r.l.unreserve(r)
		r.giveBack()
		r.l.crew.leave()
	}
}

func (r *Reservation) giveBack() {
	r.l.permits(-r.n)
	r.give(r.n)
}

// Revoked is opened when the places are not wanted any more.
func (r *Reservation) Revoked() sy.Latch { return r.revoked }

// revoke tells the holders of places that these are not wanted any more. Locked.
func (l *Lane) revoke() {
	for r := range l.reserves {
		if !r.revoked.IsOpen() {
			sy.Reach("revoke")
			r.revoked.Open()
		}
	}
}

// endReservations ends all waits for places, and takes all places away. Locked.
func (l *Lane) endReservations() {
	for _, r := range slices.Clone(l.reservers) {
		l.unreserve(r)
		r.woken.Set()
	}
	l.revoke()
	for r := range l.reserves {
		r.giveBack()
	}
}
