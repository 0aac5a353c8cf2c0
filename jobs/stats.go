package jobs

import (
	"slices"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
)

// Stats says what a call of [Serve] has done. At every moment, of the jobs that were
// leased, Leased = Held + those that were acknowledged, given back, buried, lost or
// could not be settled; one whose lease was lost may count as acknowledged too.
type Stats struct {
	Source  string        // the name of the source
	Lease   time.Duration // for how long a job is leased
	Held    int           // jobs leased and not settled
	Running int           // of these, inside the handler

	Leased     uint64 // jobs
	Acked      uint64 // done
	Retried    uint64 // given back
	Dead       uint64 // put to the dead letters
	LeasesLost uint64
	Untold     uint64 // jobs of which the source could not be told the end
	Extended   uint64 // leases that were extended

	PullErrors  uint64
	LastError   string // of the last Pull that failed
	LastErrorAt time.Time
}

// servers are the calls of Serve that are under way.
var servers struct {
	mu sync.Mutex
	m  map[*shoal.Pool][]*server
}

func register(s *server) {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	if servers.m == nil {
		servers.m = make(map[*shoal.Pool][]*server)
	}
	servers.m[s.p] = append(servers.m[s.p], s)
}

func unregister(s *server) {
	servers.mu.Lock()
	defer servers.mu.Unlock()
	l := slices.DeleteFunc(slices.Clone(servers.m[s.p]), func(o *server) bool { return o == s })
	if len(l) == 0 {
		delete(servers.m, s.p)
		return
	}
	servers.m[s.p] = l
}

// Of returns the statistics of each call of [Serve] that is under way on p.
func Of(p *shoal.Pool) (all []Stats) {
	servers.mu.Lock()
	l := servers.m[p]
	servers.mu.Unlock()
	for _, s := range l {
		s.mu.Lock()
		st := s.stats
		st.Held, st.Running = len(s.jobs), s.running
		s.mu.Unlock()
		all = append(all, st)
	}
	return all
}
