package shoalotel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/shoal-go/shoal/jobs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
)

// queueName is the attribute of the metrics of durable queues.
const queueName = attribute.Key("shoal.queue.name")

// depthFor is how long a collection waits for the queues.
const depthFor = 5 * time.Second

var depthLevels = []struct {
	name, help string
	value      func(jobs.Depth) int64
}{
	{"shoal.jobs.queue.ready", "Jobs of the queue that may be leased at once.",
		func(d jobs.Depth) int64 { return d.Ready }},
	{"shoal.jobs.queue.delayed", "Jobs of the queue that wait for the end of a delay.",
		func(d jobs.Depth) int64 { return d.Delayed }},
	{"shoal.jobs.queue.leased", "Jobs of the queue that are leased, by any process.",
		func(d jobs.Depth) int64 { return d.Leased }},
	{"shoal.jobs.queue.dead", "Dead letters of the queue.",
		func(d jobs.Depth) int64 { return d.Dead }},
}

// RegisterQueues registers durable queues with mp: mp reports what they hold until Unregister
// is called on the returned registration. README.md lists the metrics. If mp is nil,
// RegisterQueues uses the global provider. The queues of contrib/sql and contrib/nats are
// [jobs.Depther]s.
//
// The keys of the map are the names that the queues are reported under, in the attribute
// shoal.queue.name. The metrics are about the queue and not about this process: if several
// processes report a queue, take the maximum and not the sum.
//
// Each collection calls Depth of all queues at the same time, and waits for them up to 5 s. A queue
// is not asked again before its call of Depth has returned. If Depth panics, the
// queue has not told what it holds.
//
// RegisterQueues returns an error that names each queue that is nil, each name that is empty or no
// UTF-8, and each name that a queue is registered under with mp already, or by a call at the same time,
// even if that fails.
func RegisterQueues(mp metric.MeterProvider, queues map[string]jobs.Depther) (metric.Registration, error) {
	var errs []error
	names := slices.Sorted(maps.Keys(queues))
	for _, name := range names {
		switch {
		case name == "":
			errs = append(errs, errors.New(`shoalotel: queue name "": want a name`))
		case !utf8.ValidString(name):
			errs = append(errs, fmt.Errorf("shoalotel: queue name %q: want UTF-8", name))
		case isNil(queues[name]):
			errs = append(errs, fmt.Errorf("shoalotel: queue %q is nil", name))
		}
	}
	mp, err := provider(mp)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	r := &queueRegistration{mp: mp, queues: make(map[string]*queue, len(queues))}
	for _, name := range names {
		r.queues[name] = &queue{Depther: queues[name]}
	}
	ok := false
	defer func() {
		if !ok {
			r.release()
		}
	}()
	if err := r.claim(names); err != nil {
		return nil, err
	}
	if err := r.register(); err != nil {
		return nil, fmt.Errorf("shoalotel: %w", err)
	}
	ok = true
	return r, nil
}

// A queueRegistration is queues that are reported to a provider.
type queueRegistration struct {
	embedded.Registration
	mp     metric.MeterProvider
	queues map[string]*queue
	inner  metric.Registration

	levels []metric.Int64ObservableGauge // of depthLevels
	up     metric.Int64ObservableGauge
	oldest metric.Float64ObservableGauge
}

// claim lists r, and returns an error if one that was listed before reports one of the names. It
// compares them without the lock, as that of a registration does.
func (r *queueRegistration) claim(names []string) error {
	registered.Lock()
	others := slices.Clone(registered.queues)
	registered.queues = append(registered.queues, r)
	registered.Unlock()
	var errs []error
	for _, o := range others {
		if !identical(r.mp, o.mp) {
			continue
		}
		for _, name := range names {
			if o.queues[name] != nil {
				errs = append(errs, fmt.Errorf("shoalotel: a queue %q is registered already: want another name", name))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *queueRegistration) release() {
	registered.Lock()
	defer registered.Unlock()
	registered.queues = slices.DeleteFunc(registered.queues, func(o *queueRegistration) bool { return o == r })
}

func (r *queueRegistration) register() error {
	meter := r.mp.Meter(scope)
	var all []metric.Observable
	var errs []error
	gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		all, errs = append(all, g), append(errs, err)
		return g
	}
	for _, l := range depthLevels {
		r.levels = append(r.levels, gauge(l.name, "{job}", l.help))
	}
	r.up = gauge("shoal.jobs.queue.up", "{queue}", "1 if the queue has told within 5 s what it holds, else 0.")
	var err error
	r.oldest, err = meter.Float64ObservableGauge("shoal.jobs.queue.oldest", metric.WithUnit("s"),
		metric.WithDescription("Lag of the queue: time for which the oldest ready job has waited to be leased."))
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	r.inner, err = meter.RegisterCallback(r.collect, append(all, r.oldest)...)
	return err
}

// Unregister ends the reports. A second call does nothing.
func (r *queueRegistration) Unregister() error {
	err := r.inner.Unregister()
	r.release() // now that nothing is reported under the names any more
	return err
}

// collect is called for every collection. It returns no error: that would spoil
// what others report.
func (r *queueRegistration) collect(ctx context.Context, to metric.Observer) error {
	ctx, cancel := context.WithTimeout(ctx, depthFor)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex
	depths := make(map[string]jobs.Depth)
	for name, q := range r.queues {
		asked.Go(func() {
			if d, ok := q.depth(ctx); ok {
				mu.Lock()
				depths[name] = d
				mu.Unlock()
			}
		})
	}
	asked.Wait()
	for name := range r.queues {
		as := metric.WithAttributeSet(attribute.NewSet(queueName.String(name)))
		d, ok := depths[name]
		if !ok {
			to.ObserveInt64(r.up, 0, as)
			continue
		}
		to.ObserveInt64(r.up, 1, as)
		for i, l := range depthLevels {
			to.ObserveInt64(r.levels[i], l.value(d), as)
		}
		to.ObserveFloat64(r.oldest, d.Oldest.Seconds(), as)
	}
	return nil
}

// A queue is asked by one call of Depth at a time. Those that come meanwhile get the same answer.
type queue struct {
	jobs.Depther
	mu      sync.Mutex // guards pending
	pending *answer    // of the call that runs
}

// An answer is what a call of Depth returns.
type answer struct {
	d    jobs.Depth
	ok   bool
	over chan struct{} // closed when the above is set
}

// depth returns what q holds. It returns false if Depth fails, or has not returned when ctx ends.
func (q *queue) depth(ctx context.Context) (d jobs.Depth, ok bool) {
	q.mu.Lock()
	a := q.pending
	if a == nil {
		a = &answer{over: make(chan struct{})}
		q.pending = a
		go q.ask(context.WithoutCancel(ctx), a) // another collection may want the answer
	}
	q.mu.Unlock()
	select {
	case <-a.over:
		return a.d, a.ok
	case <-ctx.Done(): // Depth may ignore the end of its context
		return d, false
	}
}

func (q *queue) ask(ctx context.Context, a *answer) {
	ctx, cancel := context.WithTimeout(ctx, depthFor)
	defer cancel()
	defer func() {
		recover() // nobody else could
		q.mu.Lock()
		q.pending = nil
		q.mu.Unlock()
		close(a.over)
	}()
	d, err := q.Depth(ctx)
	a.d, a.ok = d, err == nil && ctx.Err() == nil // one that comes late is none
}
