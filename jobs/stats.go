package jobs

import (
	"fmt"
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

	Oldest      RunningJob // the job that has been inside the handler for longest; zero if none is
	LastFailure JobFailure // the last failure of a job; zero if there was none
}

// A RunningJob is a job that is inside its handler.
type RunningJob struct {
	ID, Type string
	Since    time.Time // when the handler was called
}

// A JobFailure is a run of a job that failed: its handler returned an error other than that of
// [Retry] or [ErrStopped], panicked or called [runtime.Goexit], or was not called as the leases
// were used up. A run that was cut short because its lease was lost, or because [Serve] or the
// pool ended, is no failure.
type JobFailure struct {
	ID, Type string
	Error    string    // in one line; of more than 1 KiB the beginning
	At       time.Time // when the handler returned
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
		st.Held, st.Running = len(s.jobs), s.inside.Len()
		if e := s.inside.Front(); e != nil {
			st.Oldest = e.Value.(*Job).as
		}
		s.mu.Unlock()
		all = append(all, st)
	}
	return all
}

// fail notes that j has failed with err.
func (s *server) fail(j *Job, err error) {
	f := JobFailure{j.as.ID, j.as.Type, reasonOf(fmt.Sprint(err), nil), time.Now()} // fmt survives an Error that panics
	s.mu.Lock()
	s.stats.LastFailure = f
	s.mu.Unlock()
}

func (s *server) count(n *uint64) {
	s.mu.Lock()
	*n++
	s.mu.Unlock()
}

// tally counts j in n, unless j counts as a lost lease already: the end of the lease may have been
// noted during the call.
func (s *server) tally(j *Job, n *uint64) {
	s.mu.Lock()
	if !j.lost {
		*n++
	}
	s.mu.Unlock()
}
