package shoalotel

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
)

// The attributes: all metrics have the name, and the number of workers has the state.
const (
	poolName    = attribute.Key("shoal.pool.name")
	workerState = attribute.Key("shoal.pool.worker.state")
)

// Register registers pool with mp: mp reports the metrics of pool and of its sub-pools
// until Unregister is called on the returned registration. README.md lists the metrics. If
// mp is nil, Register uses the global provider.
//
// Each collection calls [shoal.Pool.Stats] once for each pool; between collections
// nothing is done, and 10 KB are kept for each pool that has worked. The metrics have the
// attribute shoal.pool.name: the pool's name, or, for a sub-pool, the names from pool
// down to it, joined with "/". Sub-pools with the same attribute, such as those without a
// name, are reported as one, with the sum of their figures. A pool that has ended is
// still reported, with its last figures, until it is unregistered.
//
// Register returns an error if pool is nil, or has no name ([shoal.WithName]) or one that is
// not UTF-8, and if mp is a nil pointer. It returns one too if a pool with the same name, the same
// pool, one of its parents or one of its sub-pools is registered with mp already, or by a call at the
// same time, even if that fails.
func Register(mp metric.MeterProvider, pool *shoal.Pool) (metric.Registration, error) {
	if pool == nil {
		return nil, errors.New("shoalotel: nil pool")
	}
	name := pool.Name()
	if name == "" {
		return nil, errors.New(`shoalotel: pool name "": want a name, by shoal.WithName`)
	}
	if !utf8.ValidString(name) { // of which exporters report nothing at all
		return nil, fmt.Errorf("shoalotel: pool name %q: want UTF-8", name)
	}
	mp, err := provider(mp)
	if err != nil {
		return nil, err
	}
	r := &registration{mp: mp, name: name, pool: pool, series: make(map[string]*series)}
	ok := false
	defer func() {
		if !ok {
			r.release()
		}
	}()
	if err := r.claim(); err != nil {
		return nil, err
	}
	meter := mp.Meter(scope)
	made, all, err := makeInstruments(meter)
	if err == nil {
		r.made = made
		r.inner, err = meter.RegisterCallback(r.collect, all...)
	}
	if err != nil {
		return nil, fmt.Errorf("shoalotel: pool %q: %w", name, err)
	}
	ok = true
	return r, nil
}

// provider is mp, or the global one.
func provider(mp metric.MeterProvider) (metric.MeterProvider, error) {
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	if isNil(mp) {
		return nil, fmt.Errorf("shoalotel: nil %T", mp)
	}
	return mp, nil
}

// isNil reports whether v is nil, or a pointer that is.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}

// A registration is a pool that is reported to a provider.
type registration struct {
	embedded.Registration
	mp    metric.MeterProvider
	name  string
	pool  *shoal.Pool
	made  instruments
	inner metric.Registration

	mu     sync.Mutex // guards series: several readers may collect at once
	series map[string]*series
	seen   sync.Map // the weak pointers of the pools that were reported, also of those that have ended
}

// A series is what is reported under one name.
type series struct {
	name   metric.MeasurementOption
	states []metric.MeasurementOption // the name with each of workerStates
	pools  []kept                     // as of the previous collection
	ended  shoal.Stats                // what those that have ended did, so that no counter goes back
	worked work                       // what those did of durable queues
	last   shoal.Stats                // what was reported
}

// A kept is what a pool had done at a collection. It does not keep the pool: a sub-pool that nobody
// refers to is to be collected.
type kept struct {
	pool weak.Pointer[shoal.Pool]
	did  shoal.Stats
	work work
}

func keep(m member) kept {
	k := kept{pool: weak.Make(m.pool), did: left(m.stats)}
	k.did.Completed += uint64(m.stats.InFlight) // if it is collected before the next collection, nothing tells how they have ended
	k.work.add(jobs.Total(m.pool))
	return k
}

func newSeries(name string) *series {
	s := &series{name: metric.WithAttributeSet(attribute.NewSet(poolName.String(name)))}
	for _, w := range workerStates {
		set := attribute.NewSet(poolName.String(name), workerState.String(w.state))
		s.states = append(s.states, metric.WithAttributeSet(set))
	}
	return s
}

// registered are the live registrations. Of two callbacks that report under one
// name, an SDK takes the sum, or whichever comes last.
var registered struct {
	sync.Mutex
	pools  []*registration
	queues []*queueRegistration
}

// claim lists r, and returns an error if one that was listed before reports the same. It compares them
// without the lock, because a provider may call Register. So a claim that is refused in the end may
// refuse others that come before it is released.
func (r *registration) claim() error {
	registered.Lock()
	others := slices.Clone(registered.pools)
	registered.pools = append(registered.pools, r)
	registered.Unlock()
	for _, o := range others {
		switch {
		case !identical(r.mp, o.mp):
		case r.name == o.name:
			return fmt.Errorf("shoalotel: a pool %q is registered already: want another name", r.name)
		case strings.HasPrefix(r.name, o.name+"/"), strings.HasPrefix(o.name, r.name+"/"):
			return fmt.Errorf("shoalotel: pools %q and %q: the name of one is that of a sub-pool of the other: want another name", r.name, o.name)
		case isAbove(o.pool, r.pool), isAbove(r.pool, o.pool), o.has(r.pool):
			return fmt.Errorf("shoalotel: pools %q and %q: one is a sub-pool of the other, and is reported with it", r.name, o.name)
		}
	}
	return nil
}

func (r *registration) release() {
	registered.Lock()
	defer registered.Unlock()
	registered.pools = slices.DeleteFunc(registered.pools, func(o *registration) bool { return o == r })
}

// identical reports whether a and b are one. The first global provider passes on to the one that is
// set first: then the meters of both are the same.
func identical(a, b metric.MeterProvider) bool {
	return same(a, b) || same(a.Meter(scope), b.Meter(scope))
}

// same reports whether a and b are one. Providers and meters that are no pointers, as those that do
// nothing, have no identity, and need not be comparable.
func same(a, b any) bool {
	return a != nil && reflect.TypeOf(a).Kind() == reflect.Pointer && a == b
}

// isAbove reports whether q is a sub-pool of p, or of one of its sub-pools.
func isAbove(p, q *shoal.Pool) bool {
	return slices.ContainsFunc(p.Subs(), func(s *shoal.Pool) bool { return s == q || isAbove(s, q) })
}

// has reports whether p is in what r has reported. It does not wait for collect, as an observer may
// call Register.
func (r *registration) has(p *shoal.Pool) bool {
	_, is := r.seen.Load(weak.Make(p))
	return is
}

// Unregister ends the reports. A second call does nothing.
func (r *registration) Unregister() error {
	err := r.inner.Unregister()
	r.release() // now that nothing is reported under the name any more
	return err
}

// A member is a pool and its statistics.
type member struct {
	pool  *shoal.Pool
	stats shoal.Stats
}

// list adds p, which is reported as name, and its sub-pools.
func list(to map[string][]member, name string, p member) {
	to[name] = append(to[name], p)
	for _, s := range p.pool.Subs() {
		m := member{s, s.Stats()}
		list(to, name+"/"+valid(m.stats.Name), m)
	}
}

// valid is s in UTF-8. With anything else exporters fail, and lose what else they have in hand.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// collect is called for every collection. It returns no error: that would spoil
// what others report.
func (r *registration) collect(_ context.Context, to metric.Observer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := make(map[string][]member)
	list(there, r.name, member{r.pool, r.pool.Stats()})
	for p := range r.seen.Range {
		if p.(weak.Pointer[shoal.Pool]).Value() == nil {
			r.seen.Delete(p)
		}
	}
	for name, all := range there {
		if r.series[name] == nil {
			r.series[name] = newSeries(name)
		}
		for _, m := range all {
			r.seen.Store(weak.Make(m.pool), true)
		}
	}
	for name, s := range r.series {
		if there[name] == nil && s.pools == nil {
			delete(r.series, name) // its end was reported the last time
			continue
		}
		now := s.look(there[name])
		worked := s.worked
		for _, k := range s.pools {
			worked.add(k.work.Stats, k.work.served)
		}
		recent := reading{now, now.WaitTime.Since(s.last.WaitTime), now.RunTime.Since(s.last.RunTime), worked}
		r.made.report(to, &recent, s.name, s.states)
		s.last = now
	}
	return nil
}

// look returns the sum of what is in s, now that those pools are there.
func (s *series) look(there []member) (sum shoal.Stats) {
	for _, k := range s.pools {
		switch p := k.pool.Value(); {
		case p == nil: // it was collected
		case slices.ContainsFunc(there, func(m member) bool { return m.pool == p }):
			continue
		case len(jobs.Of(p)) > 0: // p has ended, but a call of jobs.Serve has not
			there = append(there, member{p, left(p.Stats())})
			continue
		default:
			k = keep(member{p, p.Stats()})
		}
		s.ended = plus(s.ended, k.did)
		s.worked.add(k.work.Stats, k.work.served)
		s.worked.Held, s.worked.Running, s.worked.Oldest = 0, 0, jobs.RunningJob{}
	}
	s.pools = nil
	sum = s.ended
	sum.State = shoal.Closed // unless there is one that is not
	for _, m := range there {
		s.pools = append(s.pools, keep(m))
		sum = plus(sum, m.stats)
	}
	return sum
}
