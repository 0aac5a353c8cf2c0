package jobs

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
)

// A keeper extends the leases of the jobs that are held, every third of the lease. It is
// one timer, which is set while jobs are held, and for those that end sooner never
// touched again: its function runs at most once in a third of a lease, plus once for
// each job that is to be extended.
type keeper struct {
	s     *server
	lease time.Duration

	// What follows is guarded by server.mu.
	held    list.List // *Job, by the time when they are due
	timer   *time.Timer
	armed   bool // the timer is set, or its function runs
	stopped bool
	running sync.WaitGroup // one while armed
}

// A lease is what the keeper knows of a job. Guarded by server.mu.
type lease struct {
	due  time.Time // to be extended
	ends time.Time
	at   *list.Element // its place in keeper.held; nil if it has none
}

const (
	keepPart  = 3  // of the lease, after which it is extended
	callPart  = 8  // of the lease, for which an Extend may take
	retryPart = 12 // of the lease, after which it is tried again
)

// addLocked notes that j was leased just now.
func (k *keeper) addLocked(j *Job) { k.extendedLocked(j, time.Now()) }

// extendedLocked notes that the lease of j began anew, at now or later.
func (k *keeper) extendedLocked(j *Job, now time.Time) {
	j.lease.ends = now.Add(k.lease)
	k.insertLocked(j, now.Add(k.lease/keepPart))
}

func (k *keeper) insertLocked(j *Job, due time.Time) {
	j.lease.due = due
	after := k.held.Back()
	for after != nil && after.Value.(*Job).lease.due.After(due) { // only where an Extend has failed
		after = after.Prev()
	}
	if after == nil {
		j.lease.at = k.held.PushFront(j)
	} else {
		j.lease.at = k.held.InsertAfter(j, after)
	}
	if k.armed || k.stopped {
		return
	}
	k.armed = true
	k.running.Add(1)
	if d := time.Until(due); k.timer == nil {
		k.timer = time.AfterFunc(d, k.look)
	} else {
		k.timer.Reset(d)
	}
}

func (k *keeper) removeLocked(j *Job) {
	if j.lease.at != nil {
		k.held.Remove(j.lease.at)
		j.lease.at = nil
	}
}

// look extends what is due. It is the timer's function.
func (k *keeper) look() {
	s := k.s
	for {
		s.mu.Lock()
		front := k.held.Front()
		if front == nil || k.stopped {
			k.armed = false
			s.mu.Unlock()
			k.running.Done()
			return
		}
		j := front.Value.(*Job)
		if d := time.Until(j.lease.due); d > 0 {
			k.timer.Reset(d)
			s.mu.Unlock()
			return
		}
		k.removeLocked(j)
		idle := j.state == waiting
		ends := j.lease.ends
		s.mu.Unlock()
		if idle && s.p.State() == shoal.Paused {
			s.giveBack(s.base, j, waiting) // who knows for how long
			continue
		}
		k.extend(j, ends)
	}
}

func (k *keeper) extend(j *Job, ends time.Time) {
	s := k.s
	ctx, cancel := context.WithTimeout(s.base, min(k.lease/callPart, mostCall)) // others wait for their turn
	now := time.Now()
	err := j.d.Extend(ctx)
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case j.state == over, errors.Is(err, ErrAcked): // the answer to its Ack is on its way, or was lost
	case err == nil:
		s.stats.Extended++
		k.extendedLocked(j, now)
	case errors.Is(err, ErrLeaseLost), !time.Now().Before(ends):
		s.loseLocked(j, err)
	default:
		due := time.Now().Add(k.lease / retryPart)
		if due.After(ends) {
			due = ends
		}
		k.insertLocked(j, due)
	}
}

// stop ends the keeper.
func (k *keeper) stop() {
	s := k.s
	s.mu.Lock()
	k.stopped = true
	if k.armed && k.timer.Stop() {
		k.armed = false
		k.running.Done()
	}
	s.mu.Unlock()
	k.running.Wait()
}
