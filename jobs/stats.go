package jobs

import (
	"runtime"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
)

// Stats are the statistics of one call of [Serve].
//
// While no job is being settled, Leased = Held + Acked + Retried + Dead + LeasesLost +
// Untold. A job whose lease was lost may count as acknowledged too.
//
// A job counts as Untold if the source did not take its result before the lease ended. A job that
// [Serve] gives back at its end, or because it was leased too late, is also Untold if the source did
// not take it within 10 s.
type Stats struct {
	Source  string        // the name of the source
	Lease   time.Duration // how long a job is leased
	Held    int           // jobs that are leased and not settled
	Running int           // jobs inside the handler, also those given back

	Leased     uint64 // jobs that were leased
	Acked      uint64 // jobs that are done
	Retried    uint64 // jobs that were given back
	Dead       uint64 // jobs that became dead letters
	LeasesLost uint64 // jobs whose lease was lost
	Untold     uint64 // jobs whose result did not reach the source in time
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
	At       time.Time // when it was noted, just before the source was told
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
		all = append(all, s.now())
	}
	return all
}

// ended are the sums of what calls of [Serve] that have ended have counted, by their pool. They do
// not keep the pool. Guarded by servers.mu.
var ended = make(map[weak.Pointer[shoal.Pool]]Stats)

// Total returns the sum of the statistics of all calls of [Serve] on p, with those that have ended.
// So its counts do not go back when a call ends. A job that is settled after its call has ended
// does not count as settled. Source and Lease are not set. Total returns false if Serve was never
// called on p.
func Total(p *shoal.Pool) (sum Stats, served bool) {
	var l []*server
	servers.mu.Lock()
	sum, served = ended[weak.Make(p)]
	if h := servers.m[p]; h != nil {
		l, served = h.all, true
	}
	servers.mu.Unlock() // a logger may hold up one of them
	for _, s := range l {
		sum = sum.Merge(s.now()) // also if it ends meanwhile: it is not in ended
	}
	return sum, served
}

// freeze returns what s has counted. From then on that does not change, and s holds nothing.
func (s *server) freeze() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	final := s.stats
	s.final = &final
	return final
}

// endLocked adds final to what the calls that have ended have counted. It needs servers.mu.
func (s *server) endLocked(final Stats) {
	p := weak.Make(s.p)
	sum, known := ended[p]
	if !known {
		runtime.AddCleanup(s.p, func(p weak.Pointer[shoal.Pool]) {
			servers.mu.Lock()
			delete(ended, p)
			servers.mu.Unlock()
		}, p)
	}
	ended[p] = sum.Merge(final)
}

// now are the statistics of s.
func (s *server) now() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final != nil {
		return *s.final
	}
	st := s.stats
	st.Held, st.Running = len(s.jobs), s.inside.Len()
	if e := s.inside.Front(); e != nil {
		st.Oldest = e.Value.(*Job).as
	}
	return st
}

// Merge returns the sum of s and o. Its oldest job is the older of theirs, and its last error and
// its last failure are the later ones. Source and Lease are those of s.
func (s Stats) Merge(o Stats) Stats {
	s.Held += o.Held
	s.Running += o.Running
	s.Leased += o.Leased
	s.Acked += o.Acked
	s.Retried += o.Retried
	s.Dead += o.Dead
	s.LeasesLost += o.LeasesLost
	s.Untold += o.Untold
	s.TimedOut += o.TimedOut
	s.Extended += o.Extended
	s.PullErrors += o.PullErrors
	if o.LastErrorAt.After(s.LastErrorAt) {
		s.LastError, s.LastErrorAt = o.LastError, o.LastErrorAt
	}
	if since := o.Oldest.Since; !since.IsZero() && (s.Oldest.Since.IsZero() || since.Before(s.Oldest.Since)) {
		s.Oldest = o.Oldest
	}
	if o.LastFailure.At.After(s.LastFailure.At) {
		s.LastFailure = o.LastFailure
	}
	return s
}

// fail notes that j has failed with an error of that text.
func (s *server) fail(j *Job, text string) {
	f := JobFailure{j.as.ID, j.as.Type, reasonOf(text, ""), time.Now()}
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
