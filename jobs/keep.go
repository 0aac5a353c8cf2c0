package jobs

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
)

// A keeper extends the leases of the jobs that are held, every third of the lease, and
// notes which are lost. It has one timer, which is set while jobs are held. A job that ends
// before it is due does not touch the timer again. Extensions are made beside each other, so one that
// takes long does not hold up the others.
type keeper struct {
	s     *server
	lease time.Duration

	// What follows is guarded by server.mu.
	held      list.List           // *Job, by the time when they are due
	extending map[*Job]*extension // those whose Extend is under way; they are not in held
	timer     *time.Timer
	next      time.Time // for which the timer is set; zero if it is not
	stopped   bool
	running   sync.WaitGroup // calls of Extend
}

// A lease is what the keeper knows of a job. Guarded by server.mu.
type lease struct {
	due  time.Time // to be extended
	ends time.Time
	at   *list.Element // its place in keeper.held; nil if it has none
	done bool          // it is no more extended
}

// A loss is a lease that was lost, and is to be logged.
type loss struct {
	j   *Job
	err error
}

// An extension is a call of Extend that is under way.
type extension struct {
	cancel context.CancelFunc
	over   chan struct{} // closed when it has returned
}

const (
	keepPart  = 3  // of the lease, after which it is extended
	callPart  = 8  // of the lease, for which an Extend may take
	retryPart = 12 // of the lease, after which it is tried again
)

// addLocked notes that j is held, and was leased then. The source may have begun the lease later than
// that, so it is not called lost before the latest time at which it may end.
func (k *keeper) addLocked(j *Job, leased time.Time) {
	j.lease.ends = time.Now().Add(k.lease)
	k.insertLocked(j, leased.Add(k.lease/keepPart))
	if k.next.IsZero() || j.lease.due.Before(k.next) {
		k.setLocked(j.lease.due)
	}
}

func (k *keeper) insertLocked(j *Job, due time.Time) {
	j.lease.due = due
	after := k.held.Back()
	for after != nil && after.Value.(*Job).lease.due.After(due) { // only where an Extend has failed, or a call of the source took long
		after = after.Prev()
	}
	if after == nil {
		j.lease.at = k.held.PushFront(j)
	} else {
		j.lease.at = k.held.InsertAfter(j, after)
	}
}

func (k *keeper) removeLocked(j *Job) {
	if j.lease.at != nil {
		k.held.Remove(j.lease.at)
		j.lease.at = nil
	}
}

// releaseLocked ends the extensions of j, because its answer is about to be sent. An extension
// after the answer could undo it, for example if the job is given back for a while. wait waits for
// an extension that is under way, for mostExtend at most.
func (k *keeper) releaseLocked(j *Job) (wait func()) {
	k.removeLocked(j)
	j.lease.done = true
	x := k.extending[j]
	if x == nil {
		return func() {}
	}
	x.cancel()
	return func() {
		select {
		case <-x.over:
		case <-time.After(k.mostExtend()):
		}
	}
}

// mostExtend is how long an Extend may take. It is short, because others may wait for it.
func (k *keeper) mostExtend() time.Duration { return min(k.lease/callPart, mostCall) }

// setLocked sets the timer.
func (k *keeper) setLocked(next time.Time) {
	if k.stopped {
		return
	}
	k.next = next
	if d := time.Until(next); k.timer == nil {
		k.timer = time.AfterFunc(d, k.look)
	} else {
		k.timer.Reset(d)
	}
}

// look is the timer's function.
func (k *keeper) look() {
	k.s.mu.Lock()
	defer k.s.unlock()
	k.lookLocked()
}

// lookLocked starts the extensions that are due, notes which leases are over, and sets the timer
// for the next look. It is also called when an Extend ends, because another one may start then.
func (k *keeper) lookLocked() {
	if k.stopped {
		return
	}
	now := time.Now()
	var next time.Time
	until := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for j := range k.extending {
		if now.Before(j.lease.ends) {
			until(j.lease.ends)
		} else {
			k.overLocked(j)
		}
	}
	var following *list.Element
	for e := k.held.Front(); e != nil; e = following {
		following = e.Next()
		j := e.Value.(*Job)
		if j.lease.due.After(now) { // so are all that follow
			until(j.lease.due)
			break
		}
		if !now.Before(j.lease.ends) {
			k.removeLocked(j)
			k.overLocked(j)
			continue
		}
		if j.state == waiting && k.s.p.State() == shoal.Paused { // a pause may last for any time
			k.s.withdrawLocked(j)
			k.removeLocked(j)
			go k.s.back(k.s.base, j)
			continue
		}
		until(j.lease.ends)
		if len(k.extending) < atOnce {
			k.removeLocked(j)
			ctx, cancel := context.WithTimeout(k.s.base, k.mostExtend())
			x := &extension{cancel, make(chan struct{})}
			k.extending[j] = x
			k.running.Go(func() { k.extend(ctx, j, x) })
		}
	}
	k.next = time.Time{}
	if !next.IsZero() {
		k.setLocked(next)
	}
}

// overLocked notes that the lease of j is over.
func (k *keeper) overLocked(j *Job) {
	k.s.loseLocked(j, fmt.Errorf("%w: it was not extended in time", ErrLeaseLost))
}

// errGone is the answer of an Extend that ends its goroutine.
var errGone = errors.New("jobs: Extend has called runtime.Goexit")

func (k *keeper) extend(ctx context.Context, j *Job, x *extension) {
	now := time.Now()
	a := answer{err: errGone}
	defer func() { k.extended(j, x, now, a) }()
	a = k.s.answer(ctx, j, j.d.Extend)
}

// extended notes what the extension x of j, which began then, has brought.
func (k *keeper) extended(j *Job, x *extension, began time.Time, a answer) {
	s := k.s
	s.mu.Lock()
	defer s.unlock()
	x.cancel()
	close(x.over)
	delete(k.extending, j)
	j.acked = j.acked || a.acked
	switch {
	case j.state == over, j.lost, a.acked:
	case a.lost:
		s.loseLocked(j, a.err)
	case a.err == nil:
		s.stats.Extended++
		j.lease.ends = began.Add(k.lease)
		if !j.lease.done {
			k.insertLocked(j, began.Add(k.lease/keepPart))
		}
	case j.lease.done:
	default:
		due := time.Now().Add(k.lease / retryPart)
		if due.After(j.lease.ends) {
			due = j.lease.ends
		}
		k.insertLocked(j, due)
	}
	k.lookLocked()
}

// stop ends the keeper.
func (k *keeper) stop() {
	s := k.s
	s.mu.Lock()
	k.stopped = true
	if k.timer != nil {
		k.timer.Stop()
	}
	for _, x := range k.extending {
		x.cancel()
	}
	s.mu.Unlock()
	over, told := make(chan struct{}), make(chan struct{})
	close(told)
	go func() {
		defer close(over)
		k.running.Wait()
	}()
	await(over, told)
}

// lose notes that the lease of j is lost.
func (s *server) lose(j *Job, err error) {
	s.mu.Lock()
	defer s.unlock()
	s.loseLocked(j, err)
}

// loseLocked notes that the lease of j is lost. s.unlock logs it.
func (s *server) loseLocked(j *Job, err error) {
	if j.lost || j.state == over {
		return
	}
	j.lost = true
	s.stats.LeasesLost++
	if j.cancel != nil {
		j.cancel(ErrLeaseLost)
	}
	if j.state == waiting {
		s.doneLocked(j)
	}
	s.losses = append(s.losses, loss{j, err})
}

// unlock unlocks s.mu, and then logs which leases were lost. It does not do so under the lock, as the
// logger may take long, or ask for the statistics.
func (s *server) unlock() {
	losses := s.losses
	s.losses = nil
	s.mu.Unlock()
	for _, l := range losses {
		s.log.Warn("jobs: a lease was lost; the job may run elsewhere", "job", l.j.as.ID, "attempt", l.j.attempt, "err", l.err)
	}
}
