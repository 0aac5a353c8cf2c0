// Package jobstest helps to test programs and queues that use package jobs: it has a queue
// in memory, and the conformance tests that every [jobs.Source] passes.
package jobstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// A Queue is a [jobs.Sink], a [jobs.Source], a [jobs.DeadStore] and a [jobs.Depther] in
// memory, made by [NewQueue]. It loses its jobs when the process ends. It can be used inside a
// testing/synctest bubble. Its methods may be called by several goroutines.
type Queue struct {
	lease time.Duration

	mu      sync.Mutex
	entries []*entry // in the order of their arrival
	ids     map[string]bool
	made    int
	dead    []jobs.DeadLetter
	buried  int           // dead letters so far: the last one's place
	changed chan struct{} // closed, and made anew, when something may be leased
}

type entry struct {
	id      string
	data    []byte
	header  jobs.Header
	attempt int
	lease   int       // the number of the last one
	leased  bool      // and not given back
	ready   time.Time // when it may be leased: its delay is over, or its lease
}

// NewQueue returns an empty queue that leases each job for the time lease.
func NewQueue(lease time.Duration) *Queue {
	return &Queue{lease: lease, ids: make(map[string]bool), changed: make(chan struct{})}
}

// Lease implements [jobs.Source].
func (q *Queue) Lease() time.Duration { return q.lease }

// Enqueue implements [jobs.Sink]. The queue remembers every ID for ever.
func (q *Queue) Enqueue(ctx context.Context, ms ...jobs.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range ms {
		if m.ID == "" {
			m.ID = q.newIDLocked()
		}
		if q.ids[m.ID] {
			continue
		}
		q.ids[m.ID] = true
		q.entries = append(q.entries, &entry{
			id: m.ID, data: slices.Clone(m.Data), header: maps.Clone(m.Header), ready: time.Now().Add(max(0, m.Delay)),
		})
	}
	q.changedLocked()
	return nil
}

// newIDLocked makes an ID that no job has had, whatever IDs the program makes itself.
func (q *Queue) newIDLocked() string {
	for {
		q.made++
		if id := fmt.Sprintf("job-%d", q.made); !q.ids[id] {
			return id
		}
	}
}

func (q *Queue) changedLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Pull implements [jobs.Source].
func (q *Queue) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if n < 1 {
		return nil, fmt.Errorf("jobstest: Pull(%d): want at least 1", n)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		now := time.Now()
		var ds []jobs.Delivery
		var next time.Time
		for _, e := range q.entries {
			switch {
			case e.ready.After(now):
				if next.IsZero() || e.ready.Before(next) {
					next = e.ready
				}
			case len(ds) < n:
				e.attempt++
				e.lease++
				e.leased = true
				e.ready = now.Add(q.lease)
				ds = append(ds, &delivery{q: q, e: e, attempt: e.attempt, lease: e.lease})
			}
		}
		changed := q.changed
		q.mu.Unlock()
		if len(ds) > 0 {
			return ds, nil
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(next.Sub(now))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
		}
	}
}

// deadLocked are the dead letters that f selects, in its order.
func (q *Queue) deadLocked(ctx context.Context, f jobs.DeadFilter) (some []jobs.DeadLetter, err error) {
	if err := cmp.Or(f.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	after := 0
	if f.After != "" {
		if after, err = strconv.Atoi(f.After); err != nil || after < 1 || strconv.Itoa(after) != f.After {
			return nil, f.PlaceError()
		}
	}
	now := time.Now()
	for _, l := range q.dead {
		place, _ := strconv.Atoi(l.Place)
		if f.Match(l, now) && (f.After == "" || place > after != f.Newest && place != after) {
			some = append(some, l)
		}
	}
	if f.Newest {
		slices.Reverse(some)
	}
	if f.Limit > 0 && len(some) > f.Limit {
		some = some[:f.Limit]
	}
	return some, nil
}

// takeDead takes those that f selects from the dead letters, and calls each with them.
func (q *Queue) takeDead(ctx context.Context, f jobs.DeadFilter, each func(jobs.DeadLetter)) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	some, err := q.deadLocked(ctx, f)
	for _, l := range some {
		q.dead = slices.DeleteFunc(q.dead, func(o jobs.DeadLetter) bool { return o.Place == l.Place })
		each(l)
	}
	q.changedLocked()
	return len(some), err
}

// DeadLetters implements [jobs.DeadStore].
func (q *Queue) DeadLetters(ctx context.Context, f jobs.DeadFilter) ([]jobs.DeadLetter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deadLocked(ctx, f)
}

// RetryDead implements [jobs.DeadStore].
func (q *Queue) RetryDead(ctx context.Context, f jobs.DeadFilter) (int, error) {
	return q.takeDead(ctx, f, func(l jobs.DeadLetter) {
		q.entries = append(q.entries, &entry{id: l.ID, data: l.Data, header: l.Header, ready: time.Now()})
	})
}

// DeleteDead implements [jobs.DeadStore].
func (q *Queue) DeleteDead(ctx context.Context, f jobs.DeadFilter) (int, error) {
	return q.takeDead(ctx, f, func(jobs.DeadLetter) {})
}

// Depth implements [jobs.Depther].
func (q *Queue) Depth(ctx context.Context) (d jobs.Depth, err error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	d.Dead = int64(len(q.dead))
	for _, e := range q.entries {
		switch {
		case !e.ready.After(now):
			d.Ready++
			d.Oldest = max(d.Oldest, now.Sub(e.ready))
		case e.leased:
			d.Leased++
		default:
			d.Delayed++
		}
	}
	return d, nil
}

// Len returns the number of jobs that are neither acknowledged nor dead letters.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries)
}

// Dead returns the dead letters, sorted by ID.
func (q *Queue) Dead() []jobs.DeadLetter {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.SortedFunc(slices.Values(q.dead), func(a, b jobs.DeadLetter) int { return cmp.Compare(a.ID, b.ID) })
}

type delivery struct {
	q       *Queue
	e       *entry
	attempt int
	lease   int
	acked   bool // by Ack; guarded by q.mu
}

func (d *delivery) ID() string          { return d.e.id }
func (d *delivery) Data() []byte        { return d.e.data }
func (d *delivery) Header() jobs.Header { return d.e.header }
func (d *delivery) Attempt() int        { return d.attempt }

// mine calls f, with the queue locked, if the job is still leased to d.
func (d *delivery) mine(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	if d.acked {
		return fmt.Errorf("%w: attempt %d of job %q", jobs.ErrAcked, d.attempt, d.e.id)
	}
	if !d.e.leased || d.e.lease != d.lease || !d.e.ready.After(time.Now()) || !slices.Contains(d.q.entries, d.e) {
		return fmt.Errorf("%w: attempt %d of job %q", jobs.ErrLeaseLost, d.attempt, d.e.id)
	}
	f()
	d.q.changedLocked()
	return nil
}

func (d *delivery) Ack(ctx context.Context) error {
	err := d.mine(ctx, func() {
		d.remove()
		d.acked = true
	})
	if errors.Is(err, jobs.ErrAcked) {
		return nil
	}
	return err
}

func (d *delivery) remove() {
	d.q.entries = slices.DeleteFunc(d.q.entries, func(e *entry) bool { return e == d.e })
}

func (d *delivery) Nak(ctx context.Context, delay time.Duration) error {
	return d.mine(ctx, func() {
		d.e.leased, d.e.ready = false, time.Now().Add(max(0, delay))
	})
}

func (d *delivery) Release(ctx context.Context) error {
	return d.mine(ctx, func() {
		d.e.attempt--
		d.e.leased, d.e.ready = false, time.Now()
	})
}

func (d *delivery) Term(ctx context.Context, reason string) error {
	return d.mine(ctx, func() {
		d.remove()
		d.q.buried++
		d.q.dead = append(d.q.dead, jobs.DeadLetter{
			ID: d.e.id, Data: d.e.data, Header: d.e.header, Attempt: d.attempt, Reason: reason, At: time.Now(), Place: strconv.Itoa(d.q.buried),
		})
	})
}

func (d *delivery) Extend(ctx context.Context) error {
	return d.mine(ctx, func() { d.e.ready = time.Now().Add(d.q.lease) })
}
