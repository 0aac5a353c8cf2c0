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
//   - One that waits for a place for longer than askAfter asks. Those that wait inside Pull
//     then have lookFor to find a job. If they find none they give their places back.
//   - Who has given back rests before it reserves again, longer each time, up to mostRest.
//
// So an idle Serve costs a busy one a place for lookFor in mostRest at most, and only while
// the busy one has no other place; and the jobs of the idle one wait for about mostRest and
// for the place, which is granted in the order of asking. Serve never pulls more than it has
// places for, and one that has the pool for itself does none of this.
const (
	askAfter  = 5 * time.Millisecond
	lookFor   = 50 * time.Millisecond
	firstRest = 10 * time.Millisecond
	mostRest  = 500 * time.Millisecond
)

// errAsked is why a Pull was ended: somebody else waits for a place.
var errAsked = errors.New("another Serve needs the places")

// servers are the calls of Serve that are under way.
var servers = struct {
	mu sync.Mutex
	m  map[*shoal.Pool]*sharers
}{m: make(map[*shoal.Pool]*sharers)}

// sharers are those that share a pool. Guarded by servers.mu.
type sharers struct {
	all     []*server     // replaced, and not changed
	waiting int           // those that have asked, and have no place yet
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
	servers.mu.Lock()
	alone := len(s.sharers.all) == 1
	servers.mu.Unlock()
	if alone {
		// One that begins meanwhile asks; then this one holds all places for lookFor once.
		return s.p.Reserve(ctx, shoal.MaxWorkers)
	}
	n := shoal.MaxWorkers
	if s.idle {
		n = 1
	}
	var asks, over bool // guarded by servers.mu
	t := time.AfterFunc(askAfter, func() {
		servers.mu.Lock()
		defer servers.mu.Unlock()
		if asks = !over; asks {
			s.sharers.askLocked(1)
		}
	})
	r, err := s.p.Reserve(ctx, n)
	t.Stop()
	servers.mu.Lock()
	defer servers.mu.Unlock()
	if over = true; asks {
		s.sharers.askLocked(-1)
	}
	return r, err
}

// askLocked changes the number of those that wait.
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

// whenAsked is closed while somebody waits for a place.
func (h *sharers) whenAsked() <-chan struct{} {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	return h.asked
}

// mind ends a Pull with places of r, by cancel: when the pool takes the places back, or when
// another Serve has no place and lookFor has not brought a job.
func (s *server) mind(ctx context.Context, r *shoal.Reservation, cancel context.CancelCauseFunc) {
	asked := s.sharers.whenAsked()
	var looked <-chan time.Time // nil until somebody has asked
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Revoked():
			cancel(nil)
			return
		case <-asked:
			asked, looked = nil, time.After(lookFor)
		case <-looked:
			asked, looked = s.sharers.whenAsked(), nil
			select {
			case <-asked: // and still waits, or another one does
				cancel(errAsked)
				return
			default:
			}
		}
	}
}
