package work

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/shoalhttp"
)

// Work is what the command work does.
type Work struct {
	Place
	Workers     int
	MaxAttempts int
	MaxLeases   int
	Drain       time.Duration
	Limit       time.Duration            // for a job; 0: none
	Limits      map[string]time.Duration // for jobs of a type, instead of Limit
	Empty       time.Duration            // end when the queue was empty for this time; 0: never
	Listen      string                   // where the page is; "": nowhere
	Quiet       bool                     // no progress
	JSON        bool                     // say all in JSON, on the standard output
	Do          string                   // a name in Builtins, or
	Command     []string                 // a program and its arguments
}

// Run works until ctx ends. Of signals it takes Signals: at the first one it leases no more
// jobs, the second one it passes on to the commands, and at the third one it kills them. A
// SIGHUP after another signal does nothing: a terminal that is closed may send two.
//
// Writes to stderr, and by w.Log, should not wait for a reader: a Sayer sees to that.
//
// If it was to end when the queue is empty, and a signal came before, the error is an
// *Interrupted.
func (w Work) Run(ctx context.Context, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, Signals()...)
	defer signal.Stop(signals)
	notifyPipe()
	path := ""
	if w.Do == "" {
		var err error
		if path, err = lookUp(w.Command[0]); err != nil {
			return err
		}
	}
	q, err := Open(ctx, w.Place)
	switch s := interrupted(ctx); {
	case err != nil && s != nil:
		return &Interrupted{Signal: s}
	case err != nil:
		return err
	}
	defer q.Close()
	p, err := shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(w.Workers), shoal.WithLogger(w.Log))
	if err != nil {
		return err
	}
	defer func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		p.Shutdown(over) // and waits for no task: one may write what nobody reads
	}()
	if w.Listen != "" {
		stop, err := w.page(p, q, stderr)
		if err != nil {
			return err
		}
		defer stop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(nil) }
	defer stop()
	faults := make(chan error, 1) // why no other job could be done either
	ps := &processes{running: make(map[*exec.Cmd]struct{}), ending: make(chan struct{})}
	r := &reporter{json: w.JSON, quiet: w.Quiet, out: stdout, err: stderr, fatal: func(err error) {
		select {
		case faults <- err:
		default:
		}
		stop()
	}}
	h := w.builtin(r)
	if w.Do == "" {
		if ps.guard, err = startGuard(); err != nil {
			return err
		}
		defer ps.guard.close()
		defer ps.tell(syscall.SIGKILL)
		h = w.command(path, ps, r)
	}
	drain := w.Drain
	if w.Do == "" { // the commands are ended before their jobs are
		drain = max(drain, drain+endFor) // or more than there is
	}
	if !w.Quiet && !w.JSON {
		r.say("running up to %d jobs at once from queue %s at %s%v", w.Workers, w.Queue, q.Where, look(ctx, q, nil))
	}
	var empty *depth // what watch saw when it ended the work
	var watching sync.WaitGroup
	watching.Go(func() { empty = w.watch(ctx, p, q, r, stop) })
	served := make(chan struct{})
	watching.Go(func() { w.heed(signals, served, p, ps, r, cancel) })
	watching.Go(func() {
		<-ctx.Done()
		close(ps.ending)
		ps.end(w.Drain, served)
	})
	if ps.guard != nil {
		watching.Go(func() {
			select {
			case <-ps.guard.over:
				r.fatal(errGuard)
			case <-served:
			}
		})
	}
	opts := []jobs.Option{jobs.WithName(w.Queue), jobs.WithMaxAttempts(w.MaxAttempts), jobs.WithMaxLeases(w.MaxLeases),
		jobs.WithDrain(drain), jobs.WithLogger(w.Log), jobs.WithTimeLimit(w.Limit)}
	for t, d := range w.Limits {
		opts = append(opts, jobs.WithTimeLimit(d, t))
	}
	start := time.Now()
	err = jobs.Serve(ctx, p, toldSource{q.Source, r}, r.handler(h), opts...)
	select {
	case f := <-faults:
		err = errors.Join(f, err)
	default:
	}
	stop()
	close(served)
	lost := r.lose()
	took, n := time.Since(start), r.now()
	by := ""
	if s := interrupted(ctx); s != nil {
		by = s.String()
	}
	r.sayFailure()
	var left *depth // once it is said
	said := make(chan error, 1)
	go func() {
		watching.Wait()
		r.sayLost(lost)
		left = look(context.Background(), q, empty)
		if w.JSON {
			said <- r.event(struct {
				Event string `json:"event"`
				Tally
				Seconds     float64 `json:"seconds"`
				Interrupted string  `json:"interrupted,omitempty"` // by this signal
				*depth
			}{"end", n, took.Seconds(), by, left})
			return
		}
		fmt.Fprintf(stderr, "work: %d runs of jobs in %v: %d done, %d failed, to be tried again, %d given back, %d dead letters%s%v\n", n.Done+n.Back+n.Dead+n.Lost, took.Round(time.Millisecond), n.Done, n.Failed, n.Back-n.Failed, n.Dead, n.lost(), left)
		said <- nil
	}()
	select {
	case e := <-said:
		if err == nil {
			err = e
		}
		if err == nil {
			err = w.result(ctx, n, left)
		}
	case <-time.After(mostSay):
		err = errors.Join(err, errors.New("nobody reads the output"))
	}
	return err
}

// look measures the queue once, and returns known if it cannot be measured soon.
func look(ctx context.Context, q jobs.Depther, known *depth) *depth {
	once, cancel := context.WithTimeout(ctx, mostSay/2)
	defer cancel()
	in := depths{q: q, known: known}
	left, _ := in.look(once, 0)
	return left
}

// result is the error of work that went well and came to n, with so much left in the queue.
func (w Work) result(ctx context.Context, n Tally, left *depth) error {
	dead := &DeadError{n.Dead}
	switch s := interrupted(ctx); {
	case s != nil && w.Empty > 0 && (left == nil || left.jobs() > 0):
		in := &Interrupted{s, "before the queue was empty"}
		if left != nil {
			in.left += fmt.Sprintf("; %d jobs are left", left.jobs())
		}
		if n.Dead > 0 {
			in.left += "; " + dead.Error()
		}
		return in
	case s == nil && w.Empty > 0 && (left == nil || n.Lost > 0 && left.jobs() > 0):
		why := "the queue cannot be asked whether it is empty"
		if left != nil {
			why = fmt.Sprintf("the result of %d runs is not known, and %d jobs are left", n.Lost, left.jobs())
		}
		if n.Dead > 0 {
			why += "; " + dead.Error()
		}
		return errors.New(why)
	case n.Dead > 0:
		return dead
	}
	return nil
}

// heed does what signals ask for, until the work has ended.
func (w Work) heed(signals chan os.Signal, served <-chan struct{}, p *shoal.Pool, ps *processes, r *reporter, cancel context.CancelCauseFunc) {
	for n := 0; ; {
		var s os.Signal
		select {
		case <-served:
			return
		case s = <-signals:
		}
		if s == syscall.SIGHUP && n > 0 {
			continue
		}
		switch n++; n {
		case 1:
			running := 0
			if all := jobs.Of(p); len(all) > 0 {
				running = all[0].Running
			}
			cancel(&Interrupted{Signal: s})
			if running == 0 {
				r.say("stopping; no job runs")
			} else {
				r.say("stopping; %d jobs run, and have %v to end; once more passes the signal on to them, a third time kills them", running, w.Drain)
			}
		case 2:
			if s, ok := s.(syscall.Signal); ok {
				ps.tell(s)
			}
			r.say("passing the signal on")
		case 3:
			signal.Stop(signals) // one more ends this process
			ps.tell(syscall.SIGKILL)
			go p.Close() // with it ends what is no command; either way the jobs are given back
			r.say("killing what runs")
		}
	}
}

// TokenEnv names the variable with the token of the page. If it is unset, the token is a new one.
const TokenEnv = "SHOAL_TOKEN"

// CheckToken returns an error if that variable has no token.
func CheckToken() error {
	if n := len(os.Getenv(TokenEnv)); n > 0 && n < 16 {
		return fmt.Errorf("-listen: the token of $%s has %d bytes: want at least 16", TokenEnv, n)
	}
	return nil
}

// page serves the live page of the pool and the queue, until stop is called.
func (w Work) page(p *shoal.Pool, q *Queue, stderr io.Writer) (stop func(), err error) {
	token, part := os.Getenv(TokenEnv), ""
	if token == "" {
		token = rand.Text()
		part = "#token=" + token
	}
	h, err := shoalhttp.New(shoalhttp.WithPools(p), shoalhttp.WithControls(token), shoalhttp.WithQueue(w.Queue, q.Depther))
	if err != nil {
		return nil, fmt.Errorf("-listen %s: %w", w.Listen, err)
	}
	l, err := net.Listen("tcp", w.Listen)
	if err != nil {
		return nil, fmt.Errorf("-listen %s: %w", w.Listen, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", h)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go srv.Serve(l)
	fmt.Fprintf(stderr, "work: serving the live page at http://%s/debug/shoal/%s\n", l.Addr(), part)
	return func() { srv.Close() }, nil
}

const (
	tickEvery = 250 * time.Millisecond
	restEvery = time.Second // where nobody waits for the end: an idle process is to sleep
	sayEvery  = 2 * time.Second
	mostSay   = 2 * time.Second // for what is said at last
	emptyRest = 5 * time.Second // at most, until the queue is asked once more whether it is empty
	sayRest   = time.Hour       // and for the progress, how many jobs it has
	// emptyLooks is how many times the queue is asked while it has to stay empty: at most once each
	// tick, and at least every emptyRest unless it is slow to answer.
	emptyLooks = 4
	// endFor is how long commands take to end after the drain: until a SIGKILL, and then as long
	// again while something that has left their group holds their output open.
	endFor = 2*killAfter + time.Second
)

// mostUnsaid is how many bytes of what nobody has read yet are kept.
const mostUnsaid = 1 << 20

// A Sayer writes what is written to it to another writer, and nobody waits for that: a pipe that
// nobody reads must not keep the work from its end. What its reader has left for too long is dropped.
type Sayer struct {
	To io.Writer

	mu      sync.Mutex
	b       []byte        // still to be written
	dropped int           // writes, after b
	written chan struct{} // closed when all is written; nil if it is
}

// Write never waits, and never fails.
func (s *Sayer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped > 0 || len(s.b) > 0 && len(s.b)+len(b) > mostUnsaid {
		s.dropped++
		return len(b), nil
	}
	s.b = append(s.b, b...)
	if s.written == nil {
		s.written = make(chan struct{})
		go s.write()
	}
	return len(b), nil
}

func (s *Sayer) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.b) > 0 {
		b := s.b
		if s.b = nil; s.dropped > 0 {
			b = fmt.Appendf(b, "work: %d lines are missing here, for want of a reader\n", s.dropped)
			s.dropped = 0
		}
		s.mu.Unlock()
		_, _ = s.To.Write(b)
		s.mu.Lock()
	}
	close(s.written)
	s.written = nil
}

// Close waits until all is written, for mostSay at most.
func (s *Sayer) Close() {
	s.mu.Lock()
	written := s.written
	s.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-time.After(mostSay):
	}
}

// whenEmpty measures the queue if it is time. If all measurements of the last w.Empty have found the
// queue empty, whenEmpty returns this one, and else nil. Jobs that come and are done elsewhere between
// two measurements are not noticed.
func (w Work) whenEmpty(ctx context.Context, in *depths) *depth {
	rest := emptyRest
	switch {
	case !in.emptyAt.IsZero() && time.Since(in.emptyAt) >= w.Empty:
		rest = 0 // the last measurement, if it finds no job
	case time.Since(in.ended) < min(w.Empty/emptyLooks, emptyRest):
		return nil
	}
	d, fresh := in.look(ctx, rest)
	if fresh && d.jobs() == 0 && in.at.Sub(in.emptyAt) >= w.Empty {
		return d
	}
	return nil
}

// watch reports the progress, and ends the work when the queue stays empty. Then it returns what it
// has seen, and else nil.
func (w Work) watch(ctx context.Context, p *shoal.Pool, q *Queue, r *reporter, stop func()) (empty *depth) {
	every := tickEvery
	if w.Empty == 0 {
		every = restEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	in := depths{q: q}
	var said jobs.Stats
	var tally Tally
	saidAt := time.Now()
	var leased, failed uint64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		all := jobs.Of(p)
		if len(all) == 0 {
			continue
		}
		s := all[0]
		if s.Leased != leased || s.Held > 0 || s.PullErrors != failed {
			leased, failed, in.emptyAt = s.Leased, s.PullErrors, time.Time{}
		} else if w.Empty > 0 {
			if d := w.whenEmpty(ctx, &in); d != nil {
				stop()
				return d
			}
		}
		if d := time.Since(saidAt); !w.Quiet && (d > sayEvery && s != said || d > longRun && s.Running > 0) {
			now := r.late(time.Now().Add(-w.Lease).Add(-w.Lease)) // what the queue takes, it mostly takes within the lease
			known, _ := in.look(ctx, sayRest)
			e := progress{"progress", now, s.Running, w.Workers, float64(now.Done-tally.Done) / d.Seconds(), r.longest(), known}
			if w.JSON {
				if err := r.event(e); err != nil {
					r.fatal(err)
				}
			} else {
				r.say("%v", e)
				r.sayFailure()
			}
			said, tally, saidAt = s, now, time.Now()
		}
	}
}
