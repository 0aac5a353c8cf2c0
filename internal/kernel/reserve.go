package kernel

import (
	"context"
	"slices"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Reservation is permits that are held for tasks that are yet to come: places of free workers.
// Who waits for places is listed, like a submitter without room, and workers see that by the
// slow-path flag. Guarded by the lock of the family, but for revoked.
//
// Invariant: reserved of the account is the sum of n over the lane's reservations.
type Reservation struct {
	l       *Lane
	n       int
	revoked sy.Latch
}

// A Reserver waits for places.
type Reserver struct {
	want  int
	got   *Reservation // written before woken is set
	woken sy.Event
}

// Reserve parks until a worker is free, and holds the places of all that are, up to n.
func (l *Lane) Reserve(ctx context.Context, n int) (*Reservation, error) {
	if !l.enterOpen() {
		return nil, ErrClosed
	}
	q := &Reserver{want: n, woken: sy.MakeEvent()}
	l.reserve(q)
	l.crew.leave() // announces it, and looks
	if !q.woken.WaitOr(ctx.Done()) && l.forgetReserver(q) {
		return nil, ctx.Err()
	}
	if q.got == nil {
		return nil, ErrClosed
	}
	return q.got, nil
}

// forgetReserver takes q off the list, unless it was woken.
func (l *Lane) forgetReserver(q *Reserver) (listed bool) {
	l.crew.enter()
	defer l.crew.leave()
	l.crew.touch(l) // the slow-path flag may go
	return l.unreserve(q)
}

// grantReservations gives free places to those who wait for some. Locked.
func (l *Lane) grantReservations() {
	for len(l.reservers) > 0 && !l.paused && l.phase == open && l.blocked.Len() == 0 && l.unclaimed() > 0 {
		l.recall() // from here on who submits comes to the lock; but look once more
		q := l.reservers[0]
		n := min(int64(q.want), l.unclaimed())
		if n <= 0 {
			return
		}
		sy.Reach("grant")
		l.unreserve(q)
		q.got = &Reservation{l: l, n: int(n), revoked: sy.MakeLatch()}
		if l.reserves == nil {
			l.reserves = map[*Reservation]struct{}{}
		}
		l.reserves[q.got] = struct{}{}
		l.reserved += int(n)
		l.permits(int(n))
		l.crew.touch(l) // the slow-path flag may go
		q.woken.Set()
	}
}

// give takes n places from r, whose permits are used or come back. Locked.
func (r *Reservation) give(n int) {
	r.n -= n
	r.l.reserved -= n
	if r.n == 0 {
		delete(r.l.reserves, r)
	}
	r.l.crew.touch(r.l)
}

// Len is the number of places left.
func (r *Reservation) Len() (n int) {
	r.l.crew.read(func() { n = r.n })
	return n
}

// Submit uses a place for it. It returns false if none is left.
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

// Release gives back what is left.
func (r *Reservation) Release() {
	r.l.crew.enter()
	r.giveBack()
	r.l.crew.leave()
}

func (r *Reservation) giveBack() {
	r.l.permits(-r.n)
	r.give(r.n)
}

// Revoked is opened when the places are not wanted any more.
func (r *Reservation) Revoked() sy.Latch { return r.revoked }

// revoke tells those who hold places that these are not wanted any more. Locked.
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
	for _, q := range slices.Clone(l.reservers) {
		l.unreserve(q)
		q.woken.Set()
	}
	l.revoke()
	for r := range l.reserves {
		r.giveBack()
	}
}
