//go:build unix

// Command chaos runs processes of shoal work that share a queue, and one more process that
// serves this queue and a second one on one pool. It does to them, in an order made by a seed,
// what can happen: it kills them with SIGKILL; it ends them with SIGINT or SIGTERM to their whole
// group, as Ctrl-C does; it stops them with SIGSTOP for longer than a lease; it kills the engine
// under load and starts it again, and makes it unreachable for a while. Some jobs hang until their
// process ends. It counts what became of the jobs, and ends with
//
//	chaos: J jobs, K kills, 0 lost, D ran twice; at most B may: …
//
// It fails if a job was lost, if more than B ran twice, or if a process that was told to end
// did not end in order.
//
// B is how many jobs can have been under way when something failed. That is the number of
// jobs that a process runs at once, for each kill and for each stop; and the number that all
// processes run at once, for each failure of the engine. An end in order adds nothing.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type config struct {
	binary    string
	engine    string
	jobs      int
	kills     int
	ends      int
	stops     int
	hang      int
	restarts  int
	processes int
	slots     int
	every     time.Duration
	away      time.Duration
	lease     time.Duration
	limit     time.Duration
	seed      uint64
}

func main() {
	var c config
	flag.StringVar(&c.binary, "shoal", "", "the shoal `command` to test (default: build it)")
	flag.StringVar(&c.engine, "engine", "sqlite", "the `engine` of the queue: sqlite, postgres or nats")
	flag.IntVar(&c.jobs, "jobs", 20_000, "number of jobs, at least 1")
	flag.IntVar(&c.kills, "kills", 100, "number of kills")
	flag.IntVar(&c.ends, "ends", 20, "number of times that a process is told to end")
	flag.IntVar(&c.stops, "stops", 5, "number of times that a process is stopped for one and a half leases")
	flag.IntVar(&c.hang, "hang", 3, "number of jobs that hang until their process ends, fewer than -slots")
	flag.IntVar(&c.restarts, "restarts", 10, "number of times that the engine fails and starts again, if it is a server")
	flag.IntVar(&c.processes, "processes", 3, "number of processes of shoal work, beside the one with two queues")
	flag.IntVar(&c.slots, "slots", 8, "number of jobs that each process runs at once")
	flag.DurationVar(&c.every, "every", 300*time.Millisecond, "average time between two kills or failures")
	flag.DurationVar(&c.away, "away", 30*time.Second, "stop the engine once for this time; 0: never")
	flag.DurationVar(&c.lease, "lease", 2*time.Second, "the lease of a job")
	flag.DurationVar(&c.limit, "limit", 15*time.Minute, "give up after this time")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "the seed of the random choices")
	serve := flag.Bool("serve", false, "for internal use")
	flag.Parse()
	if *serve {
		if err := serveTwo(flag.Args(), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "chaos -serve:", err)
			os.Exit(1)
		}
		return
	}
	if err := c.check(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func (c config) check() error {
	for name, n := range map[string]int{"-jobs": c.jobs, "-processes": c.processes, "-slots": c.slots} {
		if n < 1 {
			return fmt.Errorf("%s %d must be at least 1", name, n)
		}
	}
	for name, n := range map[string]int{"-kills": c.kills, "-ends": c.ends, "-stops": c.stops, "-hang": c.hang, "-restarts": c.restarts} {
		if n < 0 {
			return fmt.Errorf("%s %d must be at least 0", name, n)
		}
	}
	if c.hang >= c.slots {
		return fmt.Errorf("-hang %d must be less than -slots %d", c.hang, c.slots)
	}
	return nil
}

func run(c config) (err error) {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if c.binary == "" {
		c.binary = filepath.Join(dir, "shoal")
		if out, err := exec.Command("go", "build", "-o", c.binary, ".").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	if c.engine == "sqlite" {
		c.restarts = 0 // there is no process that could fail but those that work
	}
	e, err := newEngine(c.engine, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // the processes have groups of their own
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	fmt.Printf("chaos: %s, %d processes and one with two queues, with %d jobs at once each, seed %d\n", c.engine, c.processes, c.slots, c.seed)
	f := &field{config: c, engine: e, rand: rand.New(rand.NewPCG(c.seed, 0)), dir: dir, runs: filepath.Join(dir, "runs")}
	defer f.stopAll()
	for range c.processes + 1 {
		if err := f.start(len(f.procs)); err != nil {
			return err
		}
	}
	var enqueuing sync.WaitGroup
	enqueuing.Go(func() { f.enqueue(ctx) })
	err = f.faults(ctx)
	enqueuing.Wait()
	if err != nil {
		return err
	}
	return f.count(ctx)
}

// faults makes everything fail that is to fail, in an order that the seed makes.
func (f *field) faults(ctx context.Context) error {
	const (
		kill = iota
		end
		stop
		restart
		away
	)
	faults := slices.Concat(slices.Repeat([]int{kill}, f.kills), slices.Repeat([]int{end}, f.ends),
		slices.Repeat([]int{stop}, f.stops), slices.Repeat([]int{restart}, f.restarts))
	f.rand.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	if f.away > 0 {
		faults = slices.Insert(faults, len(faults)/2, away)
	}
	for _, fault := range faults {
		if !sleep(ctx, time.Duration(float64(f.every)*(0.2+1.6*f.rand.Float64()))) {
			return errOutOfTime
		}
		i := f.rand.IntN(len(f.procs))
		var err error
		switch fault {
		case kill:
			f.killed++
			err = f.replace(i)
		case end:
			err = f.end(ctx, i, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[f.rand.IntN(2)])
		case stop:
			f.stopped++
			err = f.stop(ctx, i)
		case restart:
			f.failed++
			if err = f.ready(ctx); err == nil {
				err = f.engine.restart(ctx, f)
			}
		case away:
			f.failed++
			if err = f.ready(ctx); err != nil {
				break
			}
			fmt.Printf("chaos: after %d kills the engine is away for %v\n", f.killed, f.config.away)
			err = f.engine.away(ctx, f, f.config.away)
		}
		if err != nil {
			return err
		}
	}
	// With the end of their process the jobs that hang are given back. The next attempt of
	// them does not hang.
	if err := f.allHang(ctx); err != nil {
		return err
	}
	return f.end(ctx, f.processes, syscall.SIGTERM)
}

var errOutOfTime = errors.New("out of time, or interrupted")

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// A field is where it happens.
type field struct {
	config
	engine engine
	rand   *rand.Rand
	dir    string
	runs   string // the file to which each run of a job adds a line
	procs  []process
	begun  int // processes

	killed, stopped int // processes
	failed          int // times that the engine did
}

// bound is how many jobs may run twice: those that can have been under way when something
// failed.
func (f *field) bound() int {
	return f.slots*(f.killed+f.stopped) + f.slots*(f.processes+1)*f.failed
}

func (f *field) args(command, queue string, more ...string) []string {
	return slices.Concat([]string{command, "-lease", f.lease.String(), "-queue", queue}, f.engine.place(), more)
}

// A process is one that works.
type process struct {
	cmd *exec.Cmd
	log string // the file of what it says
}

// start starts process i.
func (f *field) start(i int) error {
	out, err := os.OpenFile(f.runs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer out.Close()
	f.begun++
	log, err := os.Create(filepath.Join(f.dir, fmt.Sprint("log", f.begun)))
	if err != nil {
		return err
	}
	defer log.Close()
	what := []string{"-workers", strconv.Itoa(f.slots)}
	binary := f.binary
	switch i {
	case f.processes: // two queues on one pool
		if binary, err = os.Executable(); err != nil {
			return err
		}
		what = slices.Concat([]string{"-serve", "--", strconv.Itoa(f.slots), f.lease.String()}, f.engine.place())
	case 0: // a command for each job
		what = f.args("work", queues[0], append(what, "--", "sh", "-c", "sleep 0.01; cat")...)
	default:
		what = f.args("work", queues[0], append(what, "-do", "print")...)
	}
	c := exec.Command(binary, what...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell begins it
	c.Stdout, c.Stderr = out, log
	if err := c.Start(); err != nil {
		return err
	}
	if i == len(f.procs) {
		f.procs = append(f.procs, process{})
	}
	f.procs[i] = process{c, log.Name()}
	return nil
}

// ready waits until all processes have opened the queue: one that finds the engine away
// when it begins is right to end.
func (f *field) ready(ctx context.Context) error {
	for _, p := range f.procs {
		for {
			log, err := os.ReadFile(p.log)
			if err != nil {
				return err
			}
			if strings.Contains(string(log), "work: ") {
				break
			}
			if !sleep(ctx, 20*time.Millisecond) {
				return errOutOfTime
			}
		}
	}
	return nil
}

// replace kills process i and starts it again. One that has ended by itself was at fault.
func (f *field) replace(i int) error {
	p := f.procs[i]
	_ = p.cmd.Process.Kill()
	err := p.cmd.Wait()
	if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		log, _ := os.ReadFile(p.log)
		return fmt.Errorf("a process has ended by itself: %v\n%s", err, log[max(0, len(log)-2000):])
	}
	return f.start(i)
}

// end tells process i to end, by a signal to its whole group, and starts it again. It must
// end in order, and soon.
func (f *field) end(ctx context.Context, i int, s syscall.Signal) error {
	if err := f.ready(ctx); err != nil {
		return err
	}
	p := f.procs[i]
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil {
		return err
	}
	late := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	err := p.cmd.Wait()
	if !late.Stop() {
		err = errors.New("it did not end within a minute")
	}
	if err != nil {
		log, _ := os.ReadFile(p.log)
		return fmt.Errorf("a process was told to end by the signal %v: %w\n%s", s, err, log[max(0, len(log)-2000):])
	}
	return f.start(i)
}

// stop makes process i stand still for longer than a lease.
func (f *field) stop(ctx context.Context, i int) error {
	if err := f.ready(ctx); err != nil {
		return err
	}
	p := f.procs[i].cmd.Process
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, f.lease*3/2)
	return p.Signal(syscall.SIGCONT)
}

// allHang waits until each job that is to hang has begun to, or has run.
func (f *field) allHang(ctx context.Context) error {
	for {
		ran, err := f.ran()
		if err != nil {
			return err
		}
		n := 0
		for i := range f.hang {
			if ran[fmt.Sprint("hang ", i)]+ran[fmt.Sprint(hangs, "hang ", i)] > 0 {
				n++
			}
		}
		if n == f.hang {
			return nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%w: %d of %d jobs hang", errOutOfTime, n, f.hang)
		}
	}
}

func (f *field) stopAll() {
	for _, p := range f.procs {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	f.procs = nil
}

// enqueue enqueues the jobs, in steps, each until it is confirmed: first those that hang, into
// the second queue, as every fifth of the others. The steps are spread over the faults.
func (f *field) enqueue(ctx context.Context) {
	const step = 100
	pause := f.every * time.Duration(f.kills+f.ends+f.stops+f.restarts) / time.Duration(1+f.jobs/step)
	var lines [len(queues)]strings.Builder
	for i := range f.hang {
		fmt.Fprintf(&lines[1], "hang %d\n", i)
	}
	for from := 0; from < f.jobs; from += step {
		for i := from; i < min(from+step, f.jobs); i++ {
			q := 0
			if i%5 == 0 {
				q = 1
			}
			fmt.Fprintf(&lines[q], "job %d\n", i)
		}
		for q, name := range queues {
			for ctx.Err() == nil && lines[q].Len() > 0 {
				c := exec.CommandContext(ctx, f.binary, f.args("enqueue", name, "-once")...)
				c.Stdin = strings.NewReader(lines[q].String())
				if c.Run() == nil {
					break
				}
				sleep(ctx, 100*time.Millisecond)
			}
			lines[q].Reset()
		}
		sleep(ctx, pause)
	}
}

// ran is how often each job ran.
func (f *field) ran() (map[string]int, error) {
	file, err := os.Open(f.runs)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ran := make(map[string]int)
	for sc := bufio.NewScanner(file); sc.Scan(); {
		ran[sc.Text()]++
	}
	return ran, nil
}

// count waits until each job has run, and no more comes, and says how it was.
func (f *field) count(ctx context.Context) error {
	var all []string
	for i := range f.hang {
		all = append(all, fmt.Sprint("hang ", i))
	}
	for i := range f.jobs {
		all = append(all, fmt.Sprint("job ", i))
	}
	var ran map[string]int
	still := time.Now()
	total := 0
	for ctx.Err() == nil {
		var err error
		if ran, err = f.ran(); err != nil {
			return err
		}
		maps.DeleteFunc(ran, func(line string, _ int) bool { return strings.HasPrefix(line, hangs) })
		now := 0
		for _, n := range ran {
			now += n
		}
		if now != total {
			total, still = now, time.Now()
		}
		// What a killed process held is there again after a lease.
		if len(ran) == len(all) && time.Since(still) > 2*f.lease || time.Since(still) > 30*time.Second+10*f.lease {
			break
		}
		sleep(ctx, 200*time.Millisecond)
	}
	f.stopAll()
	lost, twice := 0, 0
	for _, job := range all {
		n := ran[job]
		if n == 0 {
			lost++
		}
		twice += max(0, n-1)
	}
	fmt.Printf("chaos: %d jobs, %d kills, %d lost, %d ran twice; at most %d may: %d for each of %d kills and %d stops, %d for each of %d failures of the engine, none for %d ends\n",
		f.jobs, f.killed, lost, twice, f.bound(), f.slots, f.killed, f.stopped, f.slots*(f.processes+1), f.failed, f.ends+1)
	switch {
	case lost > 0:
		return fmt.Errorf("%d jobs were lost", lost)
	case twice > f.bound():
		return fmt.Errorf("%d jobs ran twice: at most %d were under way when something failed", twice, f.bound())
	case len(ran) != len(all):
		return fmt.Errorf("%d jobs that nobody has enqueued", len(ran)-len(all)+lost)
	}
	return nil
}
