package shoalhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// A tracked is a pool that the page shows.
type tracked struct {
	id     int
	parent *tracked // nil: it was added
	pool   *shoal.Pool
	name   string
	seen   bool // in this snapshot
	stats  shoal.Stats
	row    PoolRow
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
			taken[t.pool.Name()] = true
		}
	}
	var errs []error
	for i, p := range pools {
		switch {
		case p == nil:
			errs = append(errs, fmt.Errorf("shoalhttp: pools[%d] is nil", i))
		case taken[p.Name()]:
			errs = append(errs, fmt.Errorf("shoalhttp: pools[%d] is named %q, as another pool: want names that differ, by shoal.WithName", i, p.Name()))
		default:
			taken[p.Name()] = true
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	for _, p := range pools {
		h.trackLocked(nil, p, p.Name())
	}
	h.sample = sample{}
	return nil
}

func (h *Page) trackLocked(parent *tracked, p *shoal.Pool, name string) *tracked {
	h.lastID++
	if name == "" {
		name = "(no name)"
	}
	t := &tracked{id: h.lastID, parent: parent, pool: p, name: name}
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
		return slices.Contains(pools, t.pool)
	})
	h.sample = sample{}
}

func (h *Page) find(id int) *tracked {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.pools {
		if t.id == id {
			return t
		}
	}
	return nil
}

// A sample is the latest snapshot.
type sample struct {
	at       time.Time
	snapshot *Snapshot
	data     []byte // as JSON
}

const (
	// A snapshot that is younger is not taken anew.
	fresh = 250 * time.Millisecond
	// One that is older is too old to tell rates by.
	stale = time.Minute
)

// latest is the latest snapshot, which is no older than fresh.
func (h *Page) latest() (*Snapshot, []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sample.snapshot == nil || time.Since(h.sample.at) >= fresh {
		h.takeLocked()
	}
	return h.sample.snapshot, h.sample.data
}

// takeLocked takes a snapshot of all pools.
func (h *Page) takeLocked() {
	now := time.Now()
	interval := now.Sub(h.sample.at)
	if h.sample.snapshot == nil || interval > stale {
		interval = 0
	}
	for _, t := range h.pools {
		t.seen = false
	}
	s := &Snapshot{
		Time:       float64(now.UnixMilli()) / 1000,
		Interval:   interval.Seconds(),
		Started:    h.started,
		GoVersion:  runtime.Version(),
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Goroutines: runtime.NumGoroutine(),
		Controls:   h.controls,
		Pools:      make([]PoolRow, 0, len(h.pools)),
	}
	children := make(map[*tracked]map[*shoal.Pool]*tracked)
	var roots []*tracked
	for _, t := range h.pools {
		if t.parent == nil {
			roots = append(roots, t)
			continue
		}
		if children[t.parent] == nil {
			children[t.parent] = make(map[*shoal.Pool]*tracked)
		}
		children[t.parent][t.pool] = t
	}
	var visit func(t *tracked)
	visit = func(t *tracked) {
		t.seen = true
		t.look(interval)
		s.Pools = append(s.Pools, t.row)
		used := make(map[string]bool)
		for _, c := range children[t] {
			used[c.name] = true
		}
		last := make(map[string]int) // the number of the last one of that name
		for _, p := range t.pool.Subs() {
			c := children[t][p]
			if c == nil {
				c = h.trackLocked(t, p, p.Name())
				for name := c.name; used[c.name]; {
					last[name]++
					c.name = fmt.Sprintf("%s #%d", name, last[name]+1)
				}
				used[c.name] = true
			}
			visit(c)
		}
	}
	for _, t := range roots {
		visit(t)
	}
	h.pools = slices.DeleteFunc(h.pools, func(t *tracked) bool { return !t.seen })
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers and strings can be marshaled
	}
	h.sample = sample{now, s, data}
}

// look takes the statistics of the pool; the last ones are of interval ago.
func (t *tracked) look(interval time.Duration) {
	was, s := t.stats, t.pool.Stats()
	first := t.row.ID == 0 || interval == 0
	t.stats = s
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
	for _, q := range jobs.Of(t.pool) {
		row := SourceRow{
			Name: q.Source, Lease: q.Lease.Seconds(), Held: q.Held, Running: q.Running, Leased: q.Leased, Acked: q.Acked,
			Retried: q.Retried, Dead: q.Dead, LeasesLost: q.LeasesLost, Untold: q.Untold, Extended: q.Extended,
			PullErrors: q.PullErrors, LastError: q.LastError,
		}
		if !q.LastErrorAt.IsZero() {
			row.LastErrorAt = float64(q.LastErrorAt.UnixMilli()) / 1000
			row.Failing = time.Since(q.LastErrorAt) < 10*time.Second // it is called every 5 s at least
		}
		r.Sources = append(r.Sources, row)
	}
	if first {
		return
	}
	rate := func(now, was uint64) float64 { return float64(now-was) / interval.Seconds() }
	r.SubmitRate = rate(s.Submitted, was.Submitted)
	r.CompleteRate = rate(s.Completed, was.Completed)
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
