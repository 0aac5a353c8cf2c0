package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
)

// Several calls of Serve may share a pool. A source can say that it has jobs only by leasing
// some, so each Serve reserves places before it pulls: workers, see [shoal.Reservation]. If its
// queue is empty, it would hold all of them until a job is put in. So calls of Serve that share
// a pool take turns:
//
//   - A Serve whose last Pull brought nothing reserves one place, not all.
//   - A Serve asks the others for places if it has waited for one for longer than askAfter, or if
//     its queue has had jobs for all its places for so long. A Pull that waits then has lookFor to
//     find a job, or less if many share the pool. If it finds none, its places are given back.
//   - A Serve that has given its places back rests before it reserves again. Each rest is longer
//     than the one before, up to mostRest. But it is at least so long that the Pulls that look
//     hold no more than a fifth of the pool.
//   - A source whose Pull takes longer than lookFor would never bring a job. So one Pull in
//     patientAt has lookMost. If it brings jobs, later ones have twice the time that it took.
//
// So an idle Serve costs a busy one a place for at most lookFor in mostRest, and all idle ones
// together cost a fifth of the pool. The jobs of an idle Serve wait for the end of its rest, and
// then for the place, which is granted in the order of asking. Serve never pulls more jobs than it
// has places for. A Serve that has the pool for itself does none of this.
//
// A place counts as an accepted task. So if a Pull waits with more places than the pool's queue has,
// others cannot use all workers. Serve reserves so many only while jobs come: the number doubles each
// time that a Pull has brought a job for every place. Such a Pull has lookMost to find a job.
//
// A pool without a queue accepts a task only while a worker is free for it. So on such a pool
// Serve reserves one place at a time, and gives it back when it sees a submitter that waits.
const (
	askAfter  = 5 * time.Millisecond
	lookFor   = 50 * time.Millisecond
	lookLeast = 10 * time.Millisecond
	lookMost  = time.Second
	patientAt = 32
	firstRest = 10 * time.Millisecond
	mostRest  = 500 * time.Millisecond
	restPart  = 4 // idle ones rest at least so many times as long as they look, in sum over all places
)

// errAsked is why a Pull was ended: another Serve, or a submitter, needs a place, or may need one.
var errAsked = errors.New("another Serve needs the places")

// servers are the calls of Serve that are under way.
var servers = struct {
	mu sync.Mutex
	m  map[*shoal.Pool]*sharers
}{m: make(map[*shoal.Pool]*sharers)}

// sharers are those that share a pool. Guarded by servers.mu.
type sharers struct {
	all     []*server     // replaced, and not changed
	waiting int           // those that ask
	asked   chan struct{} // closed while there are any
}

func register(s *server) {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	h := servers.m[s.p]
	if h == nil {
		h = &sharers{asked: make(chan struct{})}
		servers.m[s.p] = h
	}
	h.all = append(h.all[:len(h.all):len(h.all)], s)
	s.sharers = h
}

func unregister(s *server) {
	final := s.freeze()
	servers.mu.Lock()
	defer servers.mu.Unlock()
	s.stopAskingLocked()
	s.endLocked(final)
	h := s.sharers
	var rest []*server
	for _, o := range h.all {
		if o != s {
			rest = append(rest, o)
		}
	}
	if h.all = rest; len(rest) == 0 {
		delete(servers.m, s.p)
	}
}

// reserve reserves the places for the next Pull.
func (s *server) reserve(ctx context.Context) (*shoal.Reservation, error) {
	n := s.places
	servers.mu.Lock()
	if len(s.sharers.all) > 1 { // one that begins meanwhile asks
		if s.idle {
			n = 1
		}
		if s.ask == nil {
			var t *time.Timer
			t = time.AfterFunc(askAfter, func() {
				servers.mu.Lock()
				defer servers.mu.Unlock()
				if s.ask == t {
					s.asks = true
					s.sharers.askLocked(1)
				}
			})
			s.ask = t
		}
	}
	servers.mu.Unlock()
	r, err := s.p.Reserve(ctx, n)
	if s.idle || err != nil {
		s.stopAsking()
	}
	return r, err
}

// stopAsking notes that s needs no place of the others.
func (s *server) stopAsking() {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	s.stopAskingLocked()
}

func (s *server) stopAskingLocked() {
	if s.ask != nil {
		s.ask.Stop()
		s.ask = nil
	}
	if s.asks {
		s.asks = false
		s.sharers.askLocked(-1)
	}
}

// crowd is how many others share the pool, for each of its workers.
func (s *server) crowd() float64 {
	servers.mu.Lock()
	others := len(s.sharers.all) - 1
	servers.mu.Unlock()
	if others == 0 {
		return 0
	}
	return float64(others) / float64(s.p.Stats().MaxWorkers)
}

// lookTime is how long the next Pull may look for a job when another Serve asks. It is shorter if
// so many share the pool that all of them, one after the other, would take too long.
func (s *server) lookTime(crowd float64) time.Duration {
	look := min(lookFor, time.Duration(float64(mostRest)/(restPart*max(crowd, 1))))
	return max(s.needs, lookLeast, look)
}

// restTime is how long s rests after it has given back its places, after a rest of last.
func (s *server) restTime(last time.Duration) time.Duration {
	crowd := s.crowd()
	least := time.Duration(restPart * crowd * float64(s.lookTime(crowd)))
	return max(least, min(max(firstRest, 2*last), mostRest))
}

// askLocked changes the number of those that ask.
func (h *sharers) askLocked(by int) {
	before := h.waiting
	h.waiting += by
	switch {
	case before == 0:
		close(h.asked)
	case h.waiting == 0:
		h.asked = make(chan struct{})
	}
}

// whenAsked returns a channel that is closed while a Serve asks.
func (h *sharers) whenAsked() <-chan struct{} {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	return h.asked
}

// mind watches a Pull that has the places of r. It calls cancel if the pool revokes the places, or
// if another Serve needs a place and the Pull has not brought a job within look after that. If r has
// more places than others can do without, it calls cancel after lookMost at the latest. over is closed
// when the Pull has returned. If the source ignores the end of the context, mind gives the places back
// after mostDeaf, and jobs that the Pull brings later are given back too.
func (s *server) mind(ctx context.Context, r *shoal.Reservation, look time.Duration, cancel context.CancelCauseFunc, over <-chan struct{}) {
	defer func() {
		select {
		case <-over:
		case <-time.After(mostDeaf):
			r.Release()
			s.log.Error("jobs: the source does not heed the end of the context of its Pull; its places are given back")
		}
	}()
	asked := s.sharers.whenAsked()
	var looked <-chan time.Time // nil until somebody has asked
	var large <-chan time.Time
	if r.Len() > s.spare {
		large = time.After(lookMost)
	}
	var bare <-chan time.Time
	if s.bare {
		t := time.NewTicker(lookFor)
		defer t.Stop()
		bare = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Revoked():
			cancel(nil)
			return
		case <-large:
			cancel(errAsked)
			return
		case <-bare:
			if s.p.Stats().Blocked > 0 {
				cancel(errAsked)
				return
			}
		case <-asked:
			asked, looked = nil, time.After(look)
		case <-looked:
			s.stopAsking() // it was perhaps this one, which has no jobs after all
			asked, looked = s.sharers.whenAsked(), nil
			select {
			case <-asked: // and still asks, or another one does
				cancel(errAsked)
				return
			default:
			}
		}
	}
}
