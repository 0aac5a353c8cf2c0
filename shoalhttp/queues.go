package shoalhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

const (
	// A queue is measured at most this often, and at most for a tenth of the time. A client that
	// asks every two seconds gets a new measurement each time.
	measureEvery = 2*time.Second - 100*time.Millisecond
	measureShare = 10
	// measureFor is how long a queue may take to answer.
	measureFor = 5 * time.Second
	// A request waits so long for queues that are being measured.
	measureWait = 500 * time.Millisecond
	// pageWait is the same for the page itself, and only for queues of which nothing is known that
	// is younger than measureOld.
	pageWait   = 250 * time.Millisecond
	measureOld = 10 * time.Second

	// A job that has waited for so long is a problem: if nobody works the queue, and if somebody does.
	waitsAlone = 10 * time.Second
	waitsLong  = time.Minute
)

// WithQueue adds a durable queue to the page, as [Page.AddQueue] does.
func WithQueue(name string, q jobs.Depther) Option {
	return option(func(h *Page) error { return h.AddQueue(name, q) })
}

// A watched is a queue that the page shows.
type watched struct {
	name string // as it is shown
	q    jobs.Depther

	mu      sync.Mutex
	asked   time.Time     // when the measurement began that is under way
	done    chan struct{} // closed when it has ended; nil if none is under way
	next    time.Time     // when the next one may begin
	at      time.Time     // when depth was measured; zero: never
	depth   jobs.Depth
	alone   bool      // nobody worked it at the measurement before either
	fault   string    // why the last measurement failed; empty if it did not
	faultAt time.Time // since when the queue cannot be reached
}

// AddQueue adds a durable queue to the page, which shows what it holds and says what is wrong
// with it. The page asks the queue only while somebody looks at the page, about every 2
// seconds at most, and does not wait for an answer that is late. If the queue is also a
// [jobs.DeadStore], viewers who know the token of [WithControls] can read, retry and delete its
// dead letters.
//
// If name is empty or that of another queue of the page, or if q is nil, AddQueue returns an
// error and adds nothing.
func (h *Page) AddQueue(name string, q jobs.Depther) error {
	if name == "" {
		return errors.New("shoalhttp: a queue has no name: want one that differs from those of the other queues")
	}
	if q == nil {
		return fmt.Errorf("shoalhttp: the queue %q is nil", name)
	}
	h.queuesMu.Lock()
	defer h.queuesMu.Unlock()
	if h.queueLocked(visible(name)) != nil {
		return fmt.Errorf("shoalhttp: two queues are named %q: want names that differ", name)
	}
	h.queues = append(h.queues, &watched{name: visible(name), q: q})
	return nil
}

// RemoveQueue removes the queue of that name from the page. It ignores a name of none.
func (h *Page) RemoveQueue(name string) {
	h.queuesMu.Lock()
	defer h.queuesMu.Unlock()
	h.queues = slices.DeleteFunc(h.queues, func(w *watched) bool { return w.name == visible(name) })
}

func (h *Page) queueLocked(shown string) *watched {
	if i := slices.IndexFunc(h.queues, func(w *watched) bool { return w.name == shown }); i >= 0 {
		return h.queues[i]
	}
	return nil
}

func (h *Page) queueCount() int {
	h.queuesMu.Lock()
	defer h.queuesMu.Unlock()
	return len(h.queues)
}

// measureQueues begins to measure all queues that are due, and waits a moment for them. If first is
// set, it waits only for those of which nothing recent is known.
func (h *Page) measureQueues(ctx context.Context, wait time.Duration, first bool) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var measured []<-chan struct{}
	for _, w := range h.watched() {
		if done, known := w.measure(); done != nil && !(first && known) {
			measured = append(measured, done)
		}
	}
	for _, done := range measured {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

func (h *Page) watched() []*watched {
	h.queuesMu.Lock()
	defer h.queuesMu.Unlock()
	return slices.Clone(h.queues)
}

// queueRows is what is known of the queues, and of these pools that serve them.
func (h *Page) queueRows(pools []PoolRow) []QueueRow {
	rows := []QueueRow{}
	for _, w := range h.watched() {
		var serving []PoolRow
		for _, r := range pools {
			if r.serves(w.name) {
				serving = append(serving, r)
			}
		}
		row := w.row(time.Now(), serving)
		row.ofPools(serving)
		rows = append(rows, row)
	}
	return rows
}

// measure begins a measurement, if one is due. It returns what is closed at the end of that
// under way, and whether the outcome of one that was recent is known.
func (w *watched) measure() (done <-chan struct{}, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	start := time.Now()
	known = w.fault != "" || !w.at.IsZero() && start.Sub(w.at) < measureOld
	if w.done != nil || start.Before(w.next) {
		return w.done, known
	}
	ended := make(chan struct{})
	w.asked, w.done = start, ended
	go func() {
		defer close(ended)
		d, fault := jobs.Depth{}, gone
		defer func() { w.measured(start, d, fault) }()
		d, fault = w.ask()
	}()
	return ended, known
}

// gone is the fault of a queue that ends the goroutine which asks it.
const gone = "Depth has called runtime.Goexit"

// measured notes the outcome of the measurement that began at start.
func (w *watched) measured(start time.Time, d jobs.Depth, fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.done = nil
	w.next = start.Add(max(measureEvery, measureShare*now.Sub(start)))
	if fault != "" {
		if w.fault == "" {
			w.faultAt = start
		}
		w.fault, w.next = fault, now.Add(measureEvery) // so that it is soon known when it is back
		return
	}
	w.alone = w.at.IsZero() || w.depth.Leased == 0
	w.fault, w.at, w.depth = "", now, d
}

// ask measures the queue. The fault says why that failed, and is empty if it did not. It is a text
// because Error of an error of others may panic or wait, which only ask can bear.
func (w *watched) ask() (d jobs.Depth, fault string) {
	ctx, cancel := context.WithTimeout(context.Background(), measureFor)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			fault = panicText(v)
		}
		fault = clip(visible(fault), mostText)
	}()
	d, err := w.q.Depth(ctx)
	switch {
	case err == nil:
		return d, ""
	case ctx.Err() != nil:
		return d, fmt.Sprintf("no answer within %v", measureFor)
	}
	return d, cmp.Or(err.Error(), "the error has no text")
}

// panicText says with what value something panicked. To write the value may panic too.
func panicText(v any) (s string) {
	defer func() {
		if recover() != nil {
			s = fmt.Sprintf("panic: %T", v)
		}
	}()
	return fmt.Sprintf("panic: %v", v)
}

// current reports whether what is known of the queue is about now.
func (w *watched) current(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return now.Before(w.next.Add(measureOld)) || w.deaf(now)
}

// deaf reports whether the queue heeds no context: it has not answered, nor failed, in time.
func (w *watched) deaf(now time.Time) bool {
	return w.done != nil && now.Sub(w.asked) > measureFor
}

// again lets the next measurement begin at once.
func (w *watched) again() {
	w.mu.Lock()
	w.next = time.Now()
	w.mu.Unlock()
}

// row is what is known of the queue, whose jobs run on these pools of the page.
func (w *watched) row(now time.Time, serving []PoolRow) QueueRow {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.depth
	r := QueueRow{Name: w.name, Ready: d.Ready, Delayed: d.Delayed, Leased: d.Leased, Dead: d.Dead, Oldest: d.Oldest.Seconds()}
	_, r.DeadLetters = w.q.(jobs.DeadStore)
	if !w.at.IsZero() {
		r.Measured = unix(w.at)
	}
	add := func(level int, label, format string, args ...any) {
		r.Verdicts = append(r.Verdicts, Verdict{Level: level, Label: label, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case w.deaf(now):
		r.Error = fmt.Sprintf("no answer for %s", span(now.Sub(w.asked)))
		add(problem, "queue away", "it cannot be reached: %s", r.Error)
	case w.fault != "":
		r.Error = w.fault
		add(problem, "queue away", "it cannot be reached%s: %s", lasting(now.Sub(w.faultAt)), r.Error)
	}
	if r.Error != "" || w.at.IsZero() {
		return r // what was measured may be true no more
	}
	switch {
	case d.Ready > 0 && d.Oldest >= waitsAlone && d.Leased == 0 && w.alone:
		who := "nobody works the queue"
		if len(serving) > 0 {
			who = fmt.Sprintf("pool %s serves the queue, and none is leased", serving[0].Name)
		}
		add(stuck, "not worked", "the oldest ready job has waited for %s; %s", span(d.Oldest), who)
	case d.Ready > 0 && d.Oldest >= waitsLong:
		add(problem, "behind", "the oldest ready job has waited for %s; %s, %s leased", span(d.Oldest), some(int(d.Ready), "job is ready", "jobs are ready"), count(d.Leased))
	}
	if d.Dead > 0 {
		add(problem, "dead letters", "%s", some(int(d.Dead), "job is a dead letter", "jobs are dead letters"))
	}
	return r
}

func (h *Page) serveQueues(w http.ResponseWriter, r *http.Request) {
	h.measureQueues(r.Context(), measureWait, false)
	snapshot, _ := h.latest()
	writeJSON(w, Queues{Queues: h.queueRows(snapshot.Pools)})
}
