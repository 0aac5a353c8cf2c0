package prom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shoal-go/shoal/jobs"
)

// A QueueCollector is a [prometheus.Collector] of what durable queues hold. It must be made by
// [NewQueueCollector]. Its methods may be called by several goroutines.
//
// Its metrics have one label, shoal_queue_name. They are about the queue and not about this process: if
// several processes report a queue, take the maximum and not the sum.
type QueueCollector struct {
	queues map[string]*queue
	up     *prometheus.Desc
	depth  []*prometheus.Desc // as in the variable depthNumbers
}

// depthFor is how long a scrape waits for the queues.
const depthFor = 5 * time.Second

const (
	upName = "shoal_jobs_queue_up"
	upHelp = "1 if the queue has told within 5 s what it holds, else 0; then the other metrics of the queue are absent."
)

var depthNumbers = [...]number[jobs.Depth]{
	{"shoal_jobs_queue_dead", gauge, "Dead letters of the queue.",
		func(d *jobs.Depth) float64 { return float64(d.Dead) }},
	{"shoal_jobs_queue_delayed", gauge, "Jobs of the queue that wait for the end of a delay.",
		func(d *jobs.Depth) float64 { return float64(d.Delayed) }},
	{"shoal_jobs_queue_leased", gauge, "Jobs of the queue that are leased, by any process.",
		func(d *jobs.Depth) float64 { return float64(d.Leased) }},
	{"shoal_jobs_queue_oldest_seconds", gauge, "Lag of the queue: time for which the oldest ready job has waited to be leased. None is ready: 0.",
		func(d *jobs.Depth) float64 { return d.Oldest.Seconds() }},
	{"shoal_jobs_queue_ready", gauge, "Jobs of the queue that may be leased at once.",
		func(d *jobs.Depth) float64 { return float64(d.Ready) }},
}

// NewQueueCollector returns a collector of the given queues, by the names that they are to be
// reported under. It returns an error that names each queue that is nil, and each name that is
// empty or no UTF-8. The queues of contrib/sql and contrib/nats are [jobs.Depther]s.
//
// Each scrape calls Depth of all queues at the same time, and waits for them up to 5 s. A queue
// is not asked again before its call of Depth has returned. If Depth panics, the
// queue has not told what it holds.
func NewQueueCollector(queues map[string]jobs.Depther) (*QueueCollector, error) {
	c := &QueueCollector{queues: make(map[string]*queue, len(queues))}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		q := queues[name]
		switch v := reflect.ValueOf(q); {
		case name == "":
			errs = append(errs, errors.New(`prom: a queue is named "": want a name`))
		case !utf8.ValidString(name):
			errs = append(errs, fmt.Errorf("prom: a queue is named %q: want UTF-8", name))
		case q == nil, v.Kind() == reflect.Pointer && v.IsNil():
			errs = append(errs, fmt.Errorf("prom: queue %q is nil", name))
		default:
			c.queues[name] = &queue{Depther: q}
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{queueLabel}, nil)
	}
	c.up = desc(upName, upHelp)
	for _, n := range depthNumbers {
		c.depth = append(c.depth, desc(n.name, n.help))
	}
	return c, nil
}

// Describe implements [prometheus.Collector].
func (c *QueueCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	for _, d := range c.depth {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *QueueCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), depthFor)
	defer cancel()
	var all sync.WaitGroup
	for name, q := range c.queues {
		all.Go(func() {
			d, ok := q.depth(ctx)
			if !ok {
				ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 0, name)
				return
			}
			ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, 1, name)
			for i, n := range depthNumbers {
				ch <- prometheus.MustNewConstMetric(c.depth[i], n.kind, n.of(&d), name)
			}
		})
	}
	all.Wait()
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
