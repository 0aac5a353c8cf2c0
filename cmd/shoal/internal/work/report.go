package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/shoal-go/shoal/jobs"
)

// DeadError is the error of Run if all went well, but for jobs that became dead letters.
type DeadError struct{ N int }

func (e *DeadError) Error() string {
	return fmt.Sprintf("%d jobs became dead letters; shoal dead list, with the flags of this queue, shows them", e.N)
}

// A Tally is how many jobs came to what.
type Tally struct {
	Done     int `json:"done"`
	Back     int `json:"back"`   // given back, to be run again
	Failed   int `json:"failed"` // of these, the runs that failed, or had to be put off
	Dead     int `json:"dead"`
	Lost     int `json:"lost"`      // runs whose result the queue has not taken
	TimedOut int `json:"timed_out"` // runs that were too long
}

// A reporter says what becomes of the jobs, for people or in JSON.
type reporter struct {
	json  bool
	quiet bool
	err   io.Writer // for people
	fatal func(error)

	mu  sync.Mutex // is held as long as a write waits for its reader
	out io.Writer  // what commands write, or JSON

	tallyMu sync.Mutex
	tally   Tally
	failure string                 // the last failure that was not shown yet
	runs    map[*jobs.Job]*aRun    // those that go on
	untold  map[*aResult]time.Time // of which the queue is not told, and when they ended; zero if they go on
}

// A run of a job that goes on.
type aRun struct {
	since   time.Time
	process int // of the command; 0 if there is none
}

// longRun is from when on a run is worth a word.
const longRun = 10 * time.Second

// A long is the run that has gone on for longest.
type long struct {
	Job     string  `json:"job"`
	Type    string  `json:"type,omitempty"`
	Attempt int     `json:"attempt"`
	Seconds float64 `json:"seconds"`
	Process int     `json:"process,omitempty"`
}

// longest returns the run that has gone on for longest, if that is long.
func (r *reporter) longest() (l *long) {
	r.tallyMu.Lock()
	defer r.tallyMu.Unlock()
	for j, run := range r.runs {
		if d := time.Since(run.since); d >= longRun && (l == nil || d.Seconds() > l.Seconds) {
			l = &long{j.ID, j.Type(), j.Attempt, d.Seconds(), run.process}
		}
	}
	return l
}

// started notes the process that runs j.
func (r *reporter) started(j *jobs.Job, process int) {
	r.tallyMu.Lock()
	defer r.tallyMu.Unlock()
	if run := r.runs[j]; run != nil {
		run.process = process
	}
}

// sayFailure tells people of the last failure, once.
func (r *reporter) sayFailure() {
	r.tallyMu.Lock()
	f := r.failure
	r.failure = ""
	r.tallyMu.Unlock()
	if f != "" {
		r.say("the last failure: %s", f)
	}
}

// aJob is how people call an attempt of a job.
func aJob(id, kind string, attempt int) string {
	if kind != "" {
		kind = " of type " + kind
	}
	return fmt.Sprintf("job %s%s, attempt %d", id, kind, attempt)
}

// say tells people of the progress.
func (r *reporter) say(format string, args ...any) {
	if !r.quiet && !r.json {
		fmt.Fprintf(r.err, "work: "+format+"\n", args...)
	}
}

// event writes one line of JSON.
func (r *reporter) event(v any) error {
	r.mu.Lock() // also one after the other, as a line may be large
	defer r.mu.Unlock()
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = r.out.Write(append(b, '\n'))
	return err
}

// output writes what the job has written, in one piece. If it cannot be written, the job has
// failed. But if its reader is gone, the work ends, and the job is given back.
func (r *reporter) output(j *jobs.Job, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	var err error
	if r.json {
		text, rest := string(b), []byte(nil)
		if !utf8.Valid(b) {
			text, rest = "", b
		}
		err = r.event(struct {
			Event  string `json:"event"`
			Job    string `json:"job"`
			Output string `json:"output,omitempty"`
			Base64 []byte `json:"output_base64,omitempty"` // if it is no UTF-8
		}{"output", j.ID, text, rest})
	} else {
		r.mu.Lock()
		_, err = r.out.Write(b)
		r.mu.Unlock()
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the output of the job cannot be written: %w", err)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) { // that of a terminal that is closed
		r.fatal(err) // no other job would do better
		return jobs.ErrStopped
	}
	return err
}

// A jobEvent says what has become of a run of a job, once the queue knows.
type jobEvent struct {
	Event   string  `json:"event"` // job
	Job     string  `json:"job"`
	Type    string  `json:"type,omitempty"`
	Attempt int     `json:"attempt"`
	Result  string  `json:"result"` // done, back, dead or, at the end of the work, lost
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// A told source wraps a source; its deliveries report their results to r.
type toldSource struct {
	jobs.Source
	r *reporter
}

func (s toldSource) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := s.Source.Pull(ctx, n)
	for i, d := range ds {
		ds[i] = &toldDelivery{Delivery: d, r: s.r, result: newResult(d)}
	}
	return ds, err
}

type toldDelivery struct {
	jobs.Delivery
	r      *reporter
	result *aResult
}

// An aResult is what is known of a run. It does not hold the job, whose payload may be large: that of
// a run that is lost is kept until the end.
type aResult struct {
	id, kind string
	attempt  int

	mu   sync.Mutex
	took time.Duration
	err  string // why the run has failed
	lost bool   // guarded by tallyMu of the reporter
}

func newResult(d jobs.Delivery) *aResult {
	return &aResult{id: d.ID(), kind: d.Header()[jobs.TypeHeader], attempt: d.Attempt()}
}

func (d *toldDelivery) Unwrap() jobs.Delivery { return d.Delivery }

func (d *toldDelivery) Ack(ctx context.Context) error {
	return d.told(ctx, d.Delivery.Ack(ctx), "done", &d.r.tally.Done, "")
}

func (d *toldDelivery) Nak(ctx context.Context, after time.Duration) error {
	err := d.Delivery.Nak(ctx, after)
	failure := ""
	if after > 0 { // else it was interrupted
		d.result.mu.Lock()
		failure = d.result.err
		d.result.mu.Unlock()
	}
	return d.told(ctx, err, "back", &d.r.tally.Back, failure)
}

func (d *toldDelivery) Release(ctx context.Context) error {
	return d.told(ctx, d.Delivery.Release(ctx), "back", &d.r.tally.Back, "")
}

func (d *toldDelivery) Term(ctx context.Context, reason string) error {
	d.result.mu.Lock()
	if d.result.err == "" { // it was not run, or panicked
		d.result.err, _, _ = strings.Cut(reason, "\n")
	}
	d.result.mu.Unlock()
	return d.told(ctx, d.Delivery.Term(ctx, reason), "dead", &d.r.tally.Dead, "")
}

// told says what has become of the job, if the queue has confirmed it. If failure is not empty, it is
// why the run has failed. If what told says is not read, told waits until ctx ends.
func (d *toldDelivery) told(ctx context.Context, err error, result string, n *int, failure string) error {
	if err != nil {
		return err
	}
	d.r.tallyMu.Lock()
	lost := d.result.lost
	if !lost {
		*n++
		delete(d.r.untold, d.result)
		if failure != "" {
			d.r.tally.Failed++
			d.r.failure = printable(aJob(d.result.id, d.result.kind, d.result.attempt)+": "+failure, false)
		}
	}
	d.r.tallyMu.Unlock()
	if lost || !d.r.json {
		return nil
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		d.r.sayResult(d.result, result)
	}()
	select {
	case <-said:
	case <-ctx.Done():
	}
	return nil
}

// sayResult says in JSON what has become of the job.
func (r *reporter) sayResult(of *aResult, result string) {
	of.mu.Lock()
	e := jobEvent{"job", of.id, of.kind, of.attempt, result, of.took.Seconds(), ""}
	if result != "done" {
		e.Error = of.err
	}
	of.mu.Unlock()
	if err := r.event(e); err != nil {
		r.fatal(err)
	}
}

// late is what has become of the jobs so far. Runs that ended before a time, and whose result the
// queue has not taken, are lost as far as is known: it may still take it, as after a SIGSTOP.
func (r *reporter) late(before time.Time) Tally {
	r.tallyMu.Lock()
	defer r.tallyMu.Unlock()
	n := r.tally
	for _, ended := range r.untold {
		if !ended.IsZero() && ended.Before(before) {
			n.Lost++
		}
	}
	return n
}

// lose counts, at the end, the runs whose result the queue has not taken. From then on none of these
// counts as anything else.
func (r *reporter) lose() (lost []*aResult) {
	r.tallyMu.Lock()
	defer r.tallyMu.Unlock()
	for of := range r.untold {
		delete(r.untold, of)
		of.lost = true
		lost = append(lost, of)
	}
	r.tally.Lost += len(lost)
	return lost
}

// sayLost says in JSON what lose has returned.
func (r *reporter) sayLost(lost []*aResult) {
	if r.json {
		for _, of := range lost {
			r.sayResult(of, "lost")
		}
	}
}

// lost says it to people, after something else; "" if there are none.
func (n Tally) lost() string {
	if n.Lost == 0 {
		return ""
	}
	return fmt.Sprintf(", %d whose result is not known, and whose jobs may run again", n.Lost)
}

// handler is h, whose results are known to the deliveries.
func (r *reporter) handler(h jobs.Handler) jobs.Handler {
	return func(ctx context.Context, j *jobs.Job) error {
		start := time.Now()
		r.tallyMu.Lock()
		if r.runs == nil {
			r.runs, r.untold = make(map[*jobs.Job]*aRun), make(map[*aResult]time.Time)
		}
		r.runs[j] = &aRun{since: start}
		var of *aResult // nil: none is reported
		if d, ok := j.Delivery().(*toldDelivery); ok {
			of = d.result
			r.untold[of] = time.Time{}
		}
		r.tallyMu.Unlock()
		defer func() {
			r.tallyMu.Lock()
			delete(r.runs, j)
			if _, still := r.untold[of]; still {
				r.untold[of] = time.Now()
			}
			r.tallyMu.Unlock()
		}()
		err := h(ctx, j)
		why := err
		if context.Cause(ctx) == jobs.ErrTimeLimit {
			r.tallyMu.Lock()
			r.tally.TimedOut++
			r.tallyMu.Unlock()
			if err != nil {
				why = fmt.Errorf("%w: %w", jobs.ErrTimeLimit, err)
			}
		}
		if of != nil {
			of.mu.Lock()
			of.took = time.Since(start)
			if why != nil {
				of.err = why.Error()
			}
			of.mu.Unlock()
		}
		return err
	}
}

func (r *reporter) now() Tally {
	r.tallyMu.Lock()
	defer r.tallyMu.Unlock()
	return r.tally
}

// A progress is what is known of the work at one moment.
type progress struct {
	Event string `json:"event"` // progress
	Tally
	Running int     `json:"running"`
	Workers int     `json:"workers"`
	Rate    float64 `json:"rate"`              // jobs a second that this process has done, lately
	Longest *long   `json:"longest,omitempty"` // nil: none runs for long
	*depth
}

// A depth is what is in the queue, for all that work on it.
type depth struct {
	Ready   int64    `json:"ready"`
	Delayed int64    `json:"delayed"`
	Leased  int64    `json:"leased"`
	Dead    int64    `json:"dead_letters"` // also those of others, and of before
	Oldest  float64  `json:"oldest_seconds"`
	Left    *float64 `json:"left_seconds,omitempty"` // until the queue is empty, if it goes on so; nil: it does not shrink
}

// depths measures a queue now and then.
type depths struct {
	q     jobs.Depther
	ended time.Time // when it was measured last, and how long that took
	took  time.Duration
	at    time.Time // when the measurement of last began
	last  int64
	speed float64 // by which it shrinks, a second
	known *depth
	// emptyAt is when the first of the latest measurements that have all found it empty had ended;
	// zero if the last one has found jobs, or has failed.
	emptyAt time.Time
}

// look measures the queue if it is time, and returns what is known of it, and whether that is new. A
// measurement that takes long is made seldom: the time between two is twenty times as long, or most.
func (d *depths) look(ctx context.Context, most time.Duration) (known *depth, fresh bool) {
	start := time.Now()
	if start.Sub(d.ended) < min(20*d.took, most) {
		return d.known, false
	}
	once, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now, err := d.q.Depth(once)
	d.ended = time.Now()
	d.took = d.ended.Sub(start)
	all := now.Ready + now.Delayed + now.Leased
	switch {
	case err != nil:
		d.emptyAt = time.Time{}
		return d.known, false
	case all > 0:
		d.emptyAt = time.Time{}
	case d.emptyAt.IsZero():
		d.emptyAt = d.ended
	}
	d.known = &depth{Ready: now.Ready, Delayed: now.Delayed, Leased: now.Leased, Dead: now.Dead, Oldest: now.Oldest.Seconds()}
	if !d.at.IsZero() {
		speed := float64(d.last-all) / start.Sub(d.at).Seconds()
		if d.speed == 0 {
			d.speed = speed
		}
		d.speed = (2*d.speed + speed) / 3 // so that it does not jump
		if d.speed > 0 && speed > 0 {     // else it shrinks no more
			left := float64(all) / d.speed
			d.known.Left = &left
		}
	}
	d.at, d.last = start, all
	return d.known, true
}

func (p progress) String() string {
	s := fmt.Sprintf("%d jobs done (%.0f/s), %d failed, to be tried again, %d given back, %d dead letters, %d of %d workers busy", p.Done, p.Rate, p.Failed, p.Back-p.Failed, p.Tally.Dead, p.Running, p.Workers)
	s += p.lost()
	if p.TimedOut > 0 {
		s += fmt.Sprintf(", %d over the time limit", p.TimedOut)
	}
	s += p.depth.String()
	if p.depth != nil && p.Left != nil && p.Ready > 0 {
		s += fmt.Sprintf("; about %v left", seconds(*p.Left))
	}
	if l := p.Longest; l != nil {
		s += fmt.Sprintf("; %s, has run for %v", printable(aJob(l.Job, l.Type, l.Attempt), false), seconds(l.Seconds))
		if l.Process != 0 {
			s += fmt.Sprintf(" as process %d", l.Process)
		}
	}
	return s
}

// jobs is how many jobs are in the queue.
func (d *depth) jobs() int64 { return d.Ready + d.Delayed + d.Leased }

// String says it to people, after something else; "" if it is not known.
func (d *depth) String() string {
	if d == nil {
		return ""
	}
	s := fmt.Sprintf("; in the queue %d ready", d.Ready)
	if d.Ready > 0 {
		s += fmt.Sprintf(", the oldest for %v", seconds(d.Oldest))
	}
	if d.Delayed > 0 {
		s += fmt.Sprintf(", %d delayed", d.Delayed)
	}
	if d.Leased > 0 {
		s += fmt.Sprintf(", %d leased", d.Leased)
	}
	if d.Dead > 0 {
		s += fmt.Sprintf(", %d dead letters in all", d.Dead)
	}
	return s
}

func seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second)).Round(time.Second)
}
