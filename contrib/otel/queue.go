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
// Each collection calls Depth of all queues at the same time, and waits for them up to 5 s.
//
// RegisterQueues returns an error that names each queue that is nil, and each name that is
// empty or no UTF-8.
func RegisterQueues(mp metric.MeterProvider, queues map[string]jobs.Depther) (metric.Registration, error) {
	queues = maps.Clone(queues)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		switch {
		case name == "":
			errs = append(errs, errors.New(`shoalotel: queue name "": want a name`))
		case !utf8.ValidString(name):
			errs = append(errs, fmt.Errorf("shoalotel: queue name %q: want UTF-8", name))
		case queues[name] == nil:
			errs = append(errs, fmt.Errorf("shoalotel: queue %q is nil", name))
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	meter := provider(mp).Meter(scope)
	var all []metric.Observable
	var levels []metric.Int64ObservableGauge
	gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		all, errs = append(all, g), append(errs, err)
		return g
	}
	for _, l := range depthLevels {
		levels = append(levels, gauge(l.name, "{job}", l.help))
	}
	up := gauge("shoal.jobs.queue.up", "{queue}", "1 if the queue has told within 5 s what it holds, else 0.")
	oldest, err := meter.Float64ObservableGauge("shoal.jobs.queue.oldest", metric.WithUnit("s"),
		metric.WithDescription("Lag of the queue: time for which the oldest ready job has waited to be leased."))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("shoalotel: %w", err)
	}
	// It returns no error, which would spoil what others report.
	r, err := meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, depthFor)
		defer cancel()
		var asked sync.WaitGroup
		var mu sync.Mutex
		depths := make(map[string]jobs.Depth)
		for name, q := range queues {
			asked.Go(func() {
				if d, err := q.Depth(ctx); err == nil {
					mu.Lock()
					depths[name] = d
					mu.Unlock()
				}
			})
		}
		asked.Wait()
		for name := range queues {
			as := metric.WithAttributeSet(attribute.NewSet(queueName.String(name)))
			d, ok := depths[name]
			if !ok {
				to.ObserveInt64(up, 0, as)
				continue
			}
			to.ObserveInt64(up, 1, as)
			for i, l := range depthLevels {
				to.ObserveInt64(levels[i], l.value(d), as)
			}
			to.ObserveFloat64(oldest, d.Oldest.Seconds(), as)
		}
		return nil
	}, append(all, oldest)...)
	if err != nil {
		return nil, fmt.Errorf("shoalotel: %w", err)
	}
	return r, nil
}
