// Command queues measures durable queues beside each other on one machine: package jobs
// of shoal on its engines, asynq on Redis, and River on Postgres. It prints a table.
//
//	go run . -runs 3
//
// It needs the programs redis-server and postgres, of Debian's packages redis-server and
// postgresql. Each measurement has an engine of its own, and processes of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type config struct {
	jobs    int
	workers int
	runs    int
	drips   int
	kills   int
	only    string
	model   bool
	sleep   time.Duration

	child   string
	subject string
	place   string
}

func main() {
	var c config
	flag.IntVar(&c.jobs, "jobs", 10_000, "number of jobs in the throughput measurement, at least 1")
	flag.IntVar(&c.workers, "workers", 64, "number of producers, and then of workers, in that measurement, at least 1")
	flag.IntVar(&c.runs, "runs", 3, "measure this often, at least once; the table has medians")
	flag.IntVar(&c.drips, "drips", 100, "number of jobs that are put at a low rate, about five a second, in each run, at least 1")
	flag.IntVar(&c.kills, "kills", 1, "kill a worker this often; each time can take minutes")
	flag.StringVar(&c.only, "run", "", "measure only the subjects whose name matches this `regexp`")
	flag.BoolVar(&c.model, "model", false, "check the capacity model of docs/beyond-one-machine.md instead")
	flag.DurationVar(&c.sleep, "sleep", 0, "for internal use: how long a job takes")
	flag.StringVar(&c.child, "child", "", "for internal use")
	flag.StringVar(&c.subject, "subject", "", "for internal use")
	flag.StringVar(&c.place, "place", "", "for internal use")
	flag.Parse()
	run := measure
	if c.child != "" {
		run = child
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "queues:", err)
		os.Exit(1)
	}
}

// ----- the children -----

// A result is what a child has measured, in one line of JSON.
type result struct {
	Put, Done float64   // jobs a second
	Process   int64     // bytes
	Late      []float64 // seconds
}

func child(ctx context.Context, c config) error {
	if c.child == "nats" {
		return natsServer(c.place, c.subject == "nats-always")
	}
	i := slices.IndexFunc(subjects, func(s subject) bool { return s.name == c.subject })
	if i < 0 {
		return fmt.Errorf("there is no subject %q", c.subject)
	}
	q, err := subjects[i].open(ctx, c.place)
	if err != nil {
		return err
	}
	switch c.child {
	case "flow":
		err = flow(ctx, c, q)
	case "retry":
		err = retry(ctx, q)
	case "listen":
		err = listen(ctx, c, q)
	case "drip":
		err = drip(ctx, c, q)
	case "hang":
		err = hang(ctx, q)
	case "rescue":
		err = rescue(ctx, q)
	case "capacity":
		err = capacity(ctx, c, q)
	default:
		err = fmt.Errorf("there is no child %q", c.child)
	}
	return errors.Join(err, q.close())
}

func say(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// putAll puts all jobs, each by a call of its own.
func putAll(ctx context.Context, c config, q queue) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range c.workers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(c.jobs) && failed.Load() == nil; i = next.Add(1) {
				if err := q.put(ctx, int(i)); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// flow enqueues all jobs, and then works them off.
func flow(ctx context.Context, c config, q queue) error {
	start := time.Now()
	if err := putAll(ctx, c, q); err != nil {
		return err
	}
	put := time.Since(start)

	wctx, stop := context.WithCancel(ctx)
	defer stop()
	var seen sync.Map
	var done atomic.Int64
	all := make(chan time.Time, 1)
	worked := make(chan error, 1)
	start = time.Now()
	go func() {
		worked <- q.work(wctx, c.workers, func(_ context.Context, id int) error {
			if _, again := seen.LoadOrStore(id, true); !again && done.Add(1) == int64(c.jobs) {
				all <- time.Now()
			}
			return nil
		})
	}()
	var end time.Time
	select {
	case end = <-all:
	case err := <-worked:
		return errors.Join(err, fmt.Errorf("%d of %d jobs were done", done.Load(), c.jobs))
	}
	mem, err := memory([]int{os.Getpid()})
	if err != nil {
		return err
	}
	err = say(result{Put: float64(c.jobs) / put.Seconds(), Done: float64(c.jobs) / end.Sub(start).Seconds(), Process: mem})
	_, _ = io.Copy(io.Discard, os.Stdin) // the parent looks at the process
	stop()
	return errors.Join(err, <-worked)
}

// retry has each of some jobs come again after a delay, and says how late they were.
func retry(ctx context.Context, q queue) error {
	const n = 50
	var mu sync.Mutex
	first := make(map[int]time.Time)
	var late []float64
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() {
		worked <- q.work(wctx, n, func(_ context.Context, id int) error {
			mu.Lock()
			defer mu.Unlock()
			if at, ok := first[id]; ok {
				if late = append(late, (time.Since(at) - again).Seconds()); len(late) == n {
					stop()
				}
				return nil
			}
			first[id] = time.Now()
			return errAgain
		})
	}()
	time.Sleep(time.Second) // it is there
	for i := range n {
		if err := q.put(ctx, i); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // spread over a second
	}
	if err := <-worked; err != nil {
		return err
	}
	slices.Sort(late)
	return say(result{Late: late})
}

// drip puts jobs now and then, each with the time as its ID.
func drip(ctx context.Context, c config, q queue) error {
	for range c.jobs {
		time.Sleep(100*time.Millisecond + rand.N(200*time.Millisecond))
		if err := q.put(ctx, int(time.Now().UnixNano())); err != nil {
			return err
		}
	}
	return nil
}

// listen takes the jobs of drip, which is another process, and says how long after the call
// of put each of them began.
func listen(ctx context.Context, c config, q queue) error {
	began := make(chan float64, c.jobs)
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() {
		worked <- q.work(wctx, 4, func(_ context.Context, id int) error {
			began <- time.Since(time.Unix(0, int64(id))).Seconds()
			return nil
		})
	}()
	time.Sleep(time.Second) // it is there
	fmt.Println("ready")
	var late []float64
	for range c.jobs {
		select {
		case d := <-began:
			late = append(late, d)
		case err := <-worked:
			return errors.Join(err, fmt.Errorf("%d of %d jobs began", len(late), c.jobs))
		}
	}
	stop()
	slices.Sort(late)
	return errors.Join(<-worked, say(result{Late: late}))
}

// hang takes a job and does not end.
func hang(ctx context.Context, q queue) error {
	go func() {
		time.Sleep(time.Second)
		if err := q.put(ctx, 0); err != nil {
			fmt.Fprintln(os.Stderr, "queues: put:", err)
		}
	}()
	return q.work(ctx, 1, func(ctx context.Context, _ int) error {
		fmt.Println("began")
		<-make(chan bool)
		return nil
	})
}

// rescue takes the job when it is there again.
func rescue(ctx context.Context, q queue) error {
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return q.work(ctx, 1, func(context.Context, int) error {
		fmt.Println("again")
		stop()
		return nil
	})
}

// capacity works for a while, beside others of its kind, and counts its jobs.
func capacity(ctx context.Context, c config, q queue) error {
	putters := c
	putters.workers = 64
	if err := putAll(ctx, putters, q); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	worked := make(chan error, 1)
	go func() {
		worked <- q.work(ctx, c.workers, func(context.Context, int) error {
			time.Sleep(c.sleep)
			done.Add(1)
			return nil
		})
	}()
	time.Sleep(warm)
	before := done.Load()
	time.Sleep(window)
	n := done.Load() - before
	err := say(result{Done: float64(n) / window.Seconds()})
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	return errors.Join(err, <-worked)
}

const (
	warm   = time.Second
	window = 4 * time.Second
)

// ----- the parent -----

// A row is what was measured of a subject.
type row struct {
	put, done, process, engine, again []float64
	late, delay                       []float64
}

func measure(ctx context.Context, c config) error {
	re, err := regexp.Compile(c.only)
	if err != nil {
		return err
	}
	for name, n := range map[string]int{"-jobs": c.jobs, "-workers": c.workers, "-runs": c.runs, "-drips": c.drips} {
		if n < 1 {
			return fmt.Errorf("%s %d must be at least 1", name, n)
		}
	}
	if c.model {
		return c.checkModel(ctx, re)
	}
	rows := make([]row, len(subjects))
	each := func(what string, times int, f func(ctx context.Context, s subject, r *row) error) error {
		for n := range times {
			for i, s := range subjects { // in turn
				if !re.MatchString(s.name) {
					continue
				}
				fmt.Fprintf(os.Stderr, "%s %d of %d: %s\n", what, n+1, times, s.name)
				once, cancel := context.WithTimeout(ctx, 10*time.Minute)
				err := f(once, s, &rows[i])
				cancel()
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, what, err)
				}
			}
		}
		return nil
	}
	if err := each("jobs a second", c.runs, c.flow); err != nil {
		return err
	}
	if err := each("start at a low rate", c.runs, c.delay); err != nil {
		return err
	}
	if err := each("retry", 1, c.retry); err != nil {
		return err
	}
	if err := each("a worker is killed", c.kills, c.killed); err != nil {
		return err
	}
	fmt.Println("| | durable | enqueued/s | done/s | starts after, p50 and p99 | retry of 2 s is late by | a killed worker's job runs again after | process | engine |")
	fmt.Println("|---|---|---:|---:|---:|---|---:|---:|---:|")
	for i, s := range subjects {
		if r := rows[i]; re.MatchString(s.name) {
			fmt.Printf("| %s | %s | %.0f | %.0f | %s | %s | %s | %.0f MB | %s |\n", s.name, s.note, median(r.put), median(r.done), percentiles(r.delay), spread(r.late),
				seconds(r.again), median(r.process)/1e6, beside(r.engine))
		}
	}
	return nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func seconds(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f s", median(v))
}

// percentiles are the median and what 99 of 100 do not exceed.
func percentiles(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	v = slices.Sorted(slices.Values(v))
	return fmt.Sprintf("%.1f ms, %.0f", 1000*v[len(v)/2], 1000*v[(len(v)*99)/100])
}

// spread is the median and the largest.
func spread(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	early := ""
	if m := slices.Min(v); m < 0 {
		early = fmt.Sprintf(", %.0f ms early at worst", -1000*m)
	}
	return fmt.Sprintf("%.0f ms, at most %.0f%s", 1000*median(v), 1000*slices.Max(v), early)
}

func beside(v []float64) string {
	if m := median(v); m > 0 {
		return fmt.Sprintf("%.0f MB", m/1e6)
	}
	return "in the process"
}

// with starts an engine for s.
func (c config) with(s subject, f func(e *engine) error) (err error) {
	dir, err := os.MkdirTemp("", "queues")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	e, err := engines[s.engine](dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	return f(e)
}

// A proc is a child.
type proc struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (c config) start(ctx context.Context, what string, s subject, e *engine) (*proc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-child", what, "-subject", s.name, "-place", e.place, "-jobs", fmt.Sprint(c.jobs), "-workers", fmt.Sprint(c.workers), "-sleep", c.sleep.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &proc{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (p *proc) result() (r result, err error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(line), &r)
}

func (p *proc) wait(word string) error {
	line, err := p.out.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != word {
		err = fmt.Errorf("%q, want %q", line, word)
	}
	return err
}

func (c config) flow(ctx context.Context, s subject, r *row) error {
	return c.with(s, func(e *engine) error {
		p, err := c.start(ctx, "flow", s, e)
		if err != nil {
			return err
		}
		got, err := p.result()
		if err != nil {
			return errors.Join(err, p.Wait())
		}
		mem, err := memory(e.pids())
		p.in.Close()
		r.put, r.done = append(r.put, got.Put), append(r.done, got.Done)
		r.process, r.engine = append(r.process, float64(got.Process)), append(r.engine, float64(mem))
		return errors.Join(err, p.Wait())
	})
}

func (c config) retry(ctx context.Context, s subject, r *row) error {
	return c.with(s, func(e *engine) error {
		p, err := c.start(ctx, "retry", s, e)
		if err != nil {
			return err
		}
		got, err := p.result()
		r.late = append(r.late, got.Late...)
		return errors.Join(err, p.Wait())
	})
}

// delay has one process put jobs at a low rate, and another one do them.
func (c config) delay(ctx context.Context, s subject, r *row) error {
	c.jobs = c.drips
	return c.with(s, func(e *engine) error {
		worker, err := c.start(ctx, "listen", s, e)
		if err != nil {
			return err
		}
		if err := worker.wait("ready"); err != nil {
			return errors.Join(err, worker.Wait())
		}
		putter, err := c.start(ctx, "drip", s, e)
		if err != nil {
			return err
		}
		got, err := worker.result()
		r.delay = append(r.delay, got.Late...)
		return errors.Join(err, putter.Wait(), worker.Wait())
	})
}

// killed kills a process that has a job, when another one waits for jobs.
func (c config) killed(ctx context.Context, s subject, r *row) error {
	return c.with(s, func(e *engine) error {
		rescuer, err := c.start(ctx, "rescue", s, e)
		if err != nil {
			return err
		}
		if err := rescuer.wait("ready"); err != nil {
			return errors.Join(err, rescuer.Wait())
		}
		victim, err := c.start(ctx, "hang", s, e)
		if err != nil {
			return err
		}
		if err := victim.wait("began"); err != nil {
			return errors.Join(err, victim.Wait())
		}
		if _, err := io.WriteString(rescuer.in, "go\n"); err != nil {
			return err
		}
		time.Sleep(2 * time.Second)
		start := time.Now()
		_ = victim.Process.Kill()
		_ = victim.Wait()
		if err := rescuer.wait("again"); err != nil {
			return errors.Join(err, rescuer.Wait())
		}
		r.again = append(r.again, time.Since(start).Seconds())
		return rescuer.Wait()
	})
}

// A point is what the capacity model is checked at.
type point struct {
	processes, workers int
	takes              time.Duration // a job
}

var points = []point{
	{1, 4, 100 * time.Millisecond}, {1, 16, 100 * time.Millisecond}, {3, 16, 100 * time.Millisecond},
	{1, 4, 10 * time.Millisecond}, {1, 16, 10 * time.Millisecond}, {3, 16, 10 * time.Millisecond}, {3, 64, 10 * time.Millisecond},
}

// checkModel compares min(processes × workers ÷ (a job + overhead), most) with what is
// measured: overhead is what a job of no length takes when there is one worker, and most
// is how many of those a second there can be with many.
func (c config) checkModel(ctx context.Context, only *regexp.Regexp) error {
	fmt.Println("| | processes × workers | a job takes | jobs a second by the model | measured |")
	fmt.Println("|---|---|---|---:|---:|")
	for _, s := range subjects {
		if !only.MatchString(s.name) {
			continue
		}
		one, err := c.at(ctx, s, point{1, 1, 0}, 20_000)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		most, err := c.at(ctx, s, point{3, 64, 0}, 100_000)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for _, p := range points {
			model := min(float64(p.processes*p.workers)/(p.takes.Seconds()+1/one), most)
			got, err := c.at(ctx, s, p, int(1.5*model*(warm+window).Seconds())+100)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Printf("| %s | %d × %d | %v | %.0f | %.0f |\n", s.name, p.processes, p.workers, p.takes, model, got)
		}
		fmt.Printf("| %s | 1 × 1 | nothing | | %.0f |\n| | 3 × 64 | nothing | | %.0f |\n", s.name, one, most)
	}
	return nil
}

// at is how many jobs a second are done at p.
func (c config) at(ctx context.Context, s subject, p point, jobs int) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	c.workers, c.sleep = p.workers, p.takes
	err = c.with(s, func(e *engine) error {
		var all []*proc
		for i := range p.processes {
			c.jobs = 0
			if i == 0 {
				c.jobs = jobs
			}
			w, err := c.start(ctx, "capacity", s, e)
			if err == nil {
				err = w.wait("ready")
			}
			if err != nil {
				return err
			}
			all = append(all, w)
		}
		for _, w := range all {
			if _, err := io.WriteString(w.in, "go\n"); err != nil {
				return err
			}
		}
		for _, w := range all {
			got, err := w.result()
			if err != nil {
				return err
			}
			rate += got.Done
		}
		var errs []error
		for i := len(all) - 1; i >= 0; i-- {
			all[i].in.Close()
			errs = append(errs, all[i].Wait())
		}
		return errors.Join(errs...)
	})
	return rate, err
}
