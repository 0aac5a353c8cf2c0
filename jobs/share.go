package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
)

// Several calls of Serve may share a pool. A source can say that it has jobs only by leasing
// some, so each of them pulls with places reserved, and one whose queue is empty would hold
// its places while it waits: all of them, as long as nobody puts a job in. So those that
// share a pool take turns:
//
//   - One whose last Pull brought nothing reserves one place, not all.
//   - One that waits for a place for longer than askAfter asks, and so does one whose queue had
//     jobs for all its places for so long. Those that wait inside Pull then have lookFor to find
//     a job, or less where many share the pool. If they find none they give their places back.
//   - Who has given back rests before it reserves again, longer each time, up to mostRest; but
//     at least so long that those that look hold no more than a fifth of the pool.
//   - A source whose Pull takes longer than that would never bring a job. So each patientAt-th
//     time it has lookMost, and when it brings jobs, it has twice the time from then on.
//
// So an idle Serve costs a busy one a place for lookFor in mostRest at most, and all of them
// cost a fifth of the pool; and the jobs of an idle one wait for its rest and for the place,
// which is granted in the order of asking. Serve never pulls more than it has places for,
// and one that has the pool for itself does none of this.
//
// A pool without a queue takes other tasks only while it has a place for them. So on such a pool
// Serve reserves one place at a time, and gives that back when it sees a submitter that waits.
const (
	askAfter  = 5 * time.Millisecond
	lookFor   = 50 * time.Millisecond
	lookLeast = 10 * time.Millisecond
	lookMost  = time.Second
	patientAt = 32
	firstRest = 10 * time.Millisecond
	mostRest  = 500 * time.Millisecond
	restPart  = 4 // times as long as they look the idle ones rest, if all places are counted
)

// errAsked is why a Pull was ended: somebody else needs a place.
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
	servers.mu.Lock()
	defer servers.mu.Unlock()
	s.stopAskingLocked()
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
	n := shoal.MaxWorkers
	if s.bare {
		n = 1
	}
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

// lookTime is how long the next Pull may look for a job when another Serve asks. So many may
// share the pool that all of them, one after the other, would take too long.
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

// whenAsked is closed while somebody asks.
func (h *sharers) whenAsked() <-chan struct{} {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	return h.asked
}

// mind ends a Pull with places of r, by cancel: when the pool takes the places back, or when
// another Serve needs a place and a Pull of that long has not brought a job. over is closed when
// the Pull has ended. If it has not long after its context, because the source ignores that, the
// places are given back: what it brings after that is given back too.
func (s *server) mind(ctx context.Context, r *shoal.Reservation, look time.Duration, cancel context.CancelCauseFunc, over <-chan struct{}) {
	defer func() {
		select {
		case <-over:
		case <-time.After(mostDeaf):
			s.log.Error("jobs: the source does not heed the end of the context of its Pull; its places are given back")
			r.Release()
		}
	}()
	asked := s.sharers.whenAsked()
	var looked <-chan time.Time // nil until somebody has asked
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
