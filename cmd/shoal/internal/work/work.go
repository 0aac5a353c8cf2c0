package work

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
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
	Drain       time.Duration
	Empty       time.Duration // end when no job came for this time; 0: never
	Listen      string        // where the page is; "": nowhere
	Quiet       bool          // no progress
	Do          string        // a name in Builtins, or
	Command     []string      // a program and its arguments
}

// Exit statuses of a command that say more than that it has failed; those of sysexits.h.
const (
	exitPoison = 65 // the job cannot be done: to the dead letters
	exitRetry  = 75 // it cannot be done now
)

const retryAfter = 5 * time.Second

// Run works until ctx ends.
func (w Work) Run(ctx context.Context, stdout, stderr io.Writer) error {
	q, err := Open(ctx, w.Place)
	if err != nil {
		return err
	}
	defer q.Close()
	p, err := shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(w.Workers), shoal.WithLogger(w.Log))
	if err != nil {
		return err
	}
	defer p.Close()
	if w.Listen != "" {
		stop, err := w.page(p, stderr)
		if err != nil {
			return err
		}
		defer stop()
	}
	out := &lines{w: stdout}
	h := w.command(out)
	if w.Do != "" {
		h = w.builtin(out)
	}
	if !w.Quiet {
		fmt.Fprintf(stderr, "work: running up to %d jobs at once from queue %s at %s\n", w.Workers, w.Queue, q.Where)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { w.watch(ctx, p, stderr, cancel) })
	start := time.Now()
	err = jobs.Serve(ctx, p, q.Source, h, jobs.WithName(w.Queue+" at "+q.Where), jobs.WithMaxAttempts(w.MaxAttempts), jobs.WithDrain(w.Drain), jobs.WithLogger(w.Log))
	cancel()
	watching.Wait()
	s := p.Stats()
	fmt.Fprintf(stderr, "work: %d jobs run in %v, %d of them failed\n", s.Completed, time.Since(start).Round(time.Millisecond), s.Failed)
	return err
}

// page serves the live page, until stop is called.
func (w Work) page(p *shoal.Pool, stderr io.Writer) (stop func(), err error) {
	h := shoalhttp.Handler(p)
	l, err := net.Listen("tcp", w.Listen)
	if err != nil {
		return nil, fmt.Errorf("-listen %s: %w", w.Listen, err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/shoal/", h)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go srv.Serve(l)
	fmt.Fprintf(stderr, "work: serving the live page at http://%s/debug/shoal/\n", l.Addr())
	return func() { srv.Close() }, nil
}

// watch reports the progress, and ends the work when the queue stays empty.
func (w Work) watch(ctx context.Context, p *shoal.Pool, stderr io.Writer, cancel func()) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var said jobs.Stats
	saidAt, busyAt := time.Now(), time.Now()
	var leased, failed uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all := jobs.Of(p)
		if len(all) == 0 {
			continue
		}
		s := all[0]
		if s.Leased != leased || s.Held > 0 || s.PullErrors != failed { // a queue that fails is not empty
			leased, failed, busyAt = s.Leased, s.PullErrors, time.Now()
		}
		if w.Empty > 0 && time.Since(busyAt) > w.Empty {
			cancel()
			return
		}
		if d := time.Since(saidAt); !w.Quiet && d > 2*time.Second && s != said {
			fmt.Fprintf(stderr, "work: %d jobs done (%.0f/s), %d given back, %d dead letters, %d of %d workers busy\n",
				s.Acked, float64(s.Acked-said.Acked)/d.Seconds(), s.Retried, s.Dead, s.Running, w.Workers)
			said, saidAt = s, time.Now()
		}
	}
}

// lines keeps what several jobs write apart.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// command runs a program for each job: the payload is its standard input.
func (w Work) command(stdout io.Writer) jobs.Handler {
	return func(ctx context.Context, j *jobs.Job) error {
		var out, errs bytes.Buffer
		c := exec.CommandContext(ctx, w.Command[0], w.Command[1:]...)
		c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(append(j.Data, '\n')), &out, &errs
		c.Env = append(os.Environ(), "SHOAL_JOB="+j.ID, "SHOAL_ATTEMPT="+strconv.Itoa(j.Attempt))
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = 3 * time.Second
		err := c.Run()
		stdout.Write(out.Bytes())
		if err == nil {
			return nil
		}
		if s := strings.TrimSpace(errs.String()); s != "" {
			err = fmt.Errorf("%w: %s", err, s)
		}
		switch c.ProcessState.ExitCode() {
		case exitPoison:
			return jobs.Poison(err)
		case exitRetry:
			return jobs.Retry(retryAfter)
		}
		return err
	}
}

// Builtins are what work can do without a program, and what for.
var Builtins = map[string]string{
	"print":  "print the job",
	"sha256": "hash the file that the job names",
	"sleep":  "sleep for as long as the job says",
}

func (w Work) builtin(stdout io.Writer) jobs.Handler {
	return func(ctx context.Context, j *jobs.Job) error {
		switch w.Do {
		case "print":
			_, err := fmt.Fprintf(stdout, "%s\n", j.Data)
			return err
		case "sha256":
			f, err := os.Open(string(j.Data))
			if err != nil {
				return jobs.Poison(err)
			}
			defer f.Close()
			h := sha256.New()
			if _, err := io.Copy(h, f); err != nil {
				return err
			}
			_, err = fmt.Fprintf(stdout, "%x  %s\n", h.Sum(nil), j.Data)
			return err
		case "sleep":
			d, err := time.ParseDuration(string(j.Data))
			if err != nil {
				return jobs.Poison(err)
			}
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return fmt.Errorf("there is no work %q", w.Do)
	}
}
