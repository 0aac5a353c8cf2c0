package shoalhttp

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// A tracked is a pool that the page shows.
type tracked struct {
	id     int
	parent *tracked                 // nil: it was added
	root   *shoal.Pool              // what was added; nil for a sub-pool
	sub    weak.Pointer[shoal.Pool] // a sub-pool that is dropped is collected, though it is shown
	name   string                   // as it is shown
	seen   bool                     // in this snapshot
	stats  shoal.Stats              // at the last look
	looked time.Time                // when that was
	lost   losses
	ages   []time.Duration      // of its running tasks and those of its sub-pools, the oldest first
	own    []time.Duration      // of these, its own
	since  map[string]time.Time // when a look first found what a rule is about
	past   past
	row    PoolRow
}

// pool is nil if it was a sub-pool and was collected.
func (t *tracked) pool() *shoal.Pool {
	if t.root != nil {
		return t.root
	}
	return t.sub.Value()
}

// Add adds pools to the page. Their sub-pools are shown until they end. A pool that was added
// is shown until [Page.Remove] removes it, even after it was closed.
//
// The pools need different names ([shoal.WithName]). If a pool is nil or has the name of
// another pool of the page, Add returns an error that names each such pool, and adds none.
func (h *Page) Add(pools ...*shoal.Pool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := make(map[string]bool)
	for _, t := range h.pools {
		if t.parent == nil {
			taken[t.name] = true
		}
	}
	var errs []error
	for i, p := range pools {
		switch {
		case p == nil:
			errs = append(errs, fmt.Errorf("shoalhttp: pools[%d] is nil", i))
		case taken[shown(p.Name())]:
			errs = append(errs, fmt.Errorf("shoalhttp: pools[%d] is named %q, as another pool: want names that differ, by shoal.WithName", i, p.Name()))
		default:
			taken[shown(p.Name())] = true
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	for _, p := range pools {
		t := h.trackLocked(nil, p)
		t.root = p
		t.past.begin(time.Now(), firstPoint(p))
	}
	h.sample.snapshot = nil
	h.lookOnLocked()
	return nil
}

func (h *Page) trackLocked(parent *tracked, p *shoal.Pool) *tracked {
	h.lastID++
	t := &tracked{id: h.lastID, parent: parent, name: shown(p.Name()), since: make(map[string]time.Time)}
	h.pools = append(h.pools, t)
	return t
}

// Remove removes pools, and their sub-pools, from the page. It ignores pools that were not
// added.
func (h *Page) Remove(pools ...*shoal.Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools = slices.DeleteFunc(h.pools, func(t *tracked) bool {
		for t.parent != nil {
			t = t.parent
		}
		return slices.Contains(pools, t.root)
	})
	h.sample.snapshot = nil
	h.lookOnLocked()
}

// lives reports whether t was not closed at the last look.
func (t *tracked) lives() bool { return t.row.State != shoal.Closed.String() }

// find is the pool of an ID. It returns nil if there is none, or if it was collected.
func (h *Page) find(id int) (*tracked, *shoal.Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.pools {
		if t.id == id {
			if p := t.pool(); p != nil {
				return t, p
			}
		}
	}
	return nil, nil
}

// A sample is the latest snapshot.
type sample struct {
	at       time.Time     // when the pools were looked at
	interval time.Duration // since the look before; 0 if there was none
	snapshot *Snapshot     // nil: it must be made anew, since pools were added or removed
	data     []byte        // as JSON
}

const (
	// A snapshot that is younger is not taken anew.
	fresh = 250 * time.Millisecond
	// One that is older is too old to tell rates by.
	stale = time.Minute
	// A Pull that failed counts for that long. The next one begins up to 5 s later, and those of
	// the queues of this module take up to 10 s to fail.
	failsFor = 20 * time.Second
)

// latest is the latest snapshot, which is no older than fresh.
func (h *Page) latest() (*Snapshot, []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latestLocked()
	return h.sample.snapshot, h.sample.data
}

// judged is the latest snapshot, with verdicts of now.
func (h *Page) judged() *Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takeLocked()
	return h.sample.snapshot
}

func (h *Page) latestLocked() {
	if h.sample.snapshot == nil || time.Since(h.sample.at) >= fresh {
		h.takeLocked()
	}
}

// takeLocked takes a snapshot of all pools. If the last look is younger than fresh, it looks at
// new pools only: rates of so short a time say nothing.
func (h *Page) takeLocked() {
	now, before := time.Now(), h.sample.at
	young := !before.IsZero() && now.Sub(before) < fresh
	if !young {
		h.sample.at, h.sample.interval = now, now.Sub(before)
		if before.IsZero() || h.sample.interval > stale {
			h.sample.interval = 0
		}
	}
	for _, t := range h.pools {
		t.seen = false
	}
	s := &Snapshot{
		Time:       unix(h.sample.at),
		Interval:   h.sample.interval.Seconds(),
		Started:    h.started,
		GoVersion:  runtime.Version(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Goroutines: runtime.NumGoroutine(),
		Controls:   h.controls,
		Queues:     h.queueCount(),
		Pools:      make([]PoolRow, 0, len(h.pools)),
	}
	children := make(map[*tracked]map[weak.Pointer[shoal.Pool]]*tracked)
	var roots []*tracked
	for _, t := range h.pools {
		if t.parent == nil {
			roots = append(roots, t)
			continue
		}
		if children[t.parent] == nil {
			children[t.parent] = make(map[weak.Pointer[shoal.Pool]]*tracked)
		}
		children[t.parent][t.sub] = t
	}
	var all []*tracked // in the order of the rows
	var visit func(t *tracked, p *shoal.Pool)
	visit = func(t *tracked, p *shoal.Pool) {
		t.seen = true
		known := t.row.ID != 0 // since an earlier look
		if !known || !young {
			t.look(p, now, h.sample.interval > 0)
		}
		t.row.Below = Below{}
		all = append(all, t)
		used := make(map[string]bool)
		for _, c := range children[t] {
			used[c.name] = true
		}
		var below []time.Duration
		last := make(map[string]int) // the number of the last one of that name
		for _, p := range p.Subs() {
			c := children[t][weak.Make(p)]
			if c == nil {
				c = h.trackLocked(t, p)
				c.sub = weak.Make(p)
				for name := c.name; used[c.name]; {
					last[name]++
					c.name = fmt.Sprintf("%s #%d", name, last[name]+1)
				}
				used[c.name] = true
				if known {
					c.past.begin(before, point{}) // it was made since then
				} else {
					c.past.begin(now, firstPoint(p))
				}
			}
			visit(c, p)
			t.row.Below.add(&c.row)
			below = append(below, c.ages...)
		}
		slices.SortFunc(below, longer)
		t.own = without(t.ages, below)
	}
	for _, t := range roots {
		visit(t, t.root)
	}
	h.pools = slices.DeleteFunc(h.pools, func(t *tracked) bool { return !t.seen })
	h.noteLocked(all)
	for _, t := range all {
		h.judgeLocked(t, h.sample.at)
		s.Pools = append(s.Pools, t.row)
	}
	h.sample.snapshot, h.sample.data = s, marshal(s)
}

func longer(a, b time.Duration) int { return cmp.Compare(b, a) }

// look takes the statistics of the pool. They have rates if rated is set, and the last look at the
// pool is not so young that rates say nothing, as it is if the pool was added between two looks.
func (t *tracked) look(p *shoal.Pool, now time.Time, rated bool) {
	was, s, interval := t.stats, p.Stats(), now.Sub(t.looked)
	rated = rated && t.row.ID != 0 && interval >= fresh
	t.stats, t.looked = s, now
	t.lost = lossesOf(p)
	t.row = PoolRow{
		ID: t.id, Parent: -1, Name: t.name, State: s.State.String(),
		Submitted: s.Submitted, Completed: s.Completed, Failed: s.Failed, Rejected: s.Rejected, Dropped: s.Dropped,
		Canceled: s.Canceled, Spawned: s.Spawned, Stalls: s.Stalls, SlowTasks: s.SlowTasks,
		InFlight: s.InFlight, Queued: s.Queued, QueueCapacity: s.QueueCapacity, Blocked: s.Blocked, Reserved: s.Reserved,
		Workers: s.Workers, Running: s.Running, Idle: s.Idle, PeakWorkers: s.PeakWorkers,
		MinWorkers: s.MinWorkers, MaxWorkers: s.MaxWorkers,
		Stalled:   s.Stalled.Seconds(),
		WaitTotal: durations(s.WaitTime), RunTotal: durations(s.RunTime),
	}
	r := &t.row
	if t.parent != nil {
		r.Parent, r.Depth = t.parent.id, t.parent.row.Depth+1
	}
	if s.QueueCapacity == shoal.Unbounded {
		r.QueueCapacity = -1
	}
	for _, q := range jobs.Of(p) {
		row := SourceRow{
			Name: visible(q.Source), Lease: q.Lease.Seconds(), Held: q.Held, Running: q.Running, Leased: q.Leased, Acked: q.Acked,
			Retried: q.Retried, Dead: q.Dead, LeasesLost: q.LeasesLost, Untold: q.Untold, TimedOut: q.TimedOut, Extended: q.Extended,
			PullErrors: q.PullErrors, LastError: clip(visible(q.LastError), mostText),
		}
		row.Oldest = sourceJob(q.Oldest.ID, q.Oldest.Type, "", q.Oldest.Since)
		row.LastFailure = sourceJob(q.LastFailure.ID, q.LastFailure.Type, q.LastFailure.Error, q.LastFailure.At)
		if !q.LastErrorAt.IsZero() {
			row.LastErrorAt = unix(q.LastErrorAt)
			row.Failing = time.Since(q.LastErrorAt) < failsFor
		}
		r.Sources = append(r.Sources, row)
	}
	t.ages = t.ages[:0]
	if s.Running > 0 {
		for w := range p.Workers() {
			if w.State == shoal.WorkerRunning {
				t.ages = append(t.ages, w.TaskAge)
			}
		}
		slices.SortFunc(t.ages, longer)
	}
	if !rated {
		return
	}
	rate := func(now, was uint64) float64 { return float64(now-was) / interval.Seconds() }
	r.SubmitRate = rate(s.Submitted, was.Submitted)
	r.CompleteRate = rate(s.Completed, was.Completed)
	r.FailRate = rate(s.Failed, was.Failed)
	r.RejectRate = rate(s.Rejected, was.Rejected)
	r.DropRate = rate(s.Dropped, was.Dropped)
	r.Wait = durations(s.WaitTime.Since(was.WaitTime))
	r.Run = durations(s.RunTime.Since(was.RunTime))
}

func durations(h shoal.Histogram) Durations {
	return Durations{
		Count: h.Count,
		Mean:  h.Mean().Seconds(),
		P50:   h.Quantile(0.5).Seconds(),
		P99:   h.Quantile(0.99).Seconds(),
		Max:   h.Max().Seconds(),
	}
}
