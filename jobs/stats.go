package jobs

import (
	"time"

	"github.com/shoal-go/shoal"
)

// Stats are the statistics of one call of [Serve].
//
// While no job is being settled, Leased = Held + Acked + Retried + Dead + LeasesLost +
// Untold. A job whose lease was lost may count as acknowledged too.
type Stats struct {
	Source  string        // the name of the source
	Lease   time.Duration // how long a job is leased
	Held    int           // jobs that are leased and not settled
	Running int           // held jobs that are inside the handler

	Leased     uint64 // jobs that were leased
	Acked      uint64 // jobs that are done
	Retried    uint64 // jobs that were given back
	Dead       uint64 // jobs that became dead letters
	LeasesLost uint64 // jobs whose lease was lost
	Untold     uint64 // jobs whose result did not reach the source before the lease ended
	TimedOut   uint64 // runs of a job that exceeded its time limit; the job counts above too
	Extended   uint64 // extensions of leases

	PullErrors  uint64    // calls of Pull that failed
	LastError   string    // the error of the last of these; "" if there was none
	LastErrorAt time.Time // when that was
}

// Of returns the statistics of each call of [Serve] that currently runs on p.
func Of(p *shoal.Pool) (all []Stats) {
	servers.mu.Lock()
	var l []*server
	if h := servers.m[p]; h != nil {
		l = h.all
	}
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
