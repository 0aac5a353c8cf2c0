//go:build unix

// Command chaos has processes of shoal work share a queue, kills them over and over with
// SIGKILL, has the engine fail and begin again under load, and has it be away for a while.
// It counts what became of the jobs, and ends with
//
//	chaos: J jobs, K kills, 0 lost, D ran twice
//
// It fails if a job was lost, or more ran twice than the processes can have had under way
// when they were killed or their engine failed.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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
	flag.IntVar(&c.restarts, "restarts", 10, "number of times that the engine fails and starts again")
	flag.IntVar(&c.processes, "processes", 3, "number of processes that work")
	flag.IntVar(&c.slots, "slots", 8, "number of jobs that each process runs at once")
	flag.DurationVar(&c.every, "every", 300*time.Millisecond, "average time between two kills or failures")
	flag.DurationVar(&c.away, "away", 30*time.Second, "stop the engine once for this time; 0: never")
	flag.DurationVar(&c.lease, "lease", 2*time.Second, "the lease of a job")
	flag.DurationVar(&c.limit, "limit", 15*time.Minute, "give up after this time")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "the seed of the random choices")
	flag.Parse()
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
	for name, n := range map[string]int{"-kills": c.kills, "-restarts": c.restarts} {
		if n < 0 {
			return fmt.Errorf("%s %d must be at least 0", name, n)
		}
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
	e, err := newEngine(c.engine, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	defer cancel()
	fmt.Printf("chaos: %s, %d processes with %d jobs at once each, seed %d\n", c.engine, c.processes, c.slots, c.seed)
	f := &field{config: c, engine: e, rand: rand.New(rand.NewPCG(c.seed, 0)), dir: dir, runs: filepath.Join(dir, "runs")}
	defer f.stopAll()
	for range c.processes {
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

// faults has all go wrong that is to, in an order that the seed makes.
func (f *field) faults(ctx context.Context) error {
	const (
		kill = iota
		restart
		away
	)
	faults := slices.Concat(slices.Repeat([]int{kill}, f.kills), slices.Repeat([]int{restart}, f.restarts))
	f.rand.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	if f.away > 0 {
		faults = slices.Insert(faults, len(faults)/2, away)
	}
	for _, fault := range faults {
		if !sleep(ctx, time.Duration(float64(f.every)*(0.2+1.6*f.rand.Float64()))) {
			return errOutOfTime
		}
		var err error
		switch fault {
		case kill:
			f.killed++
			f.held += f.slots
			err = f.replace(f.rand.IntN(len(f.procs)))
		case restart:
			f.held += f.slots * f.processes
			if err = f.ready(ctx); err == nil {
				err = f.engine.restart(ctx, f)
			}
		case away:
			if err = f.ready(ctx); err != nil {
				break
			}
			fmt.Printf("chaos: after %d kills the engine is away for %v\n", f.killed, f.away)
			f.held += f.slots * f.processes
			err = f.engine.away(ctx, f, f.away)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var errOutOfTime = errors.New("out of time")

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
	killed int
	held   int // jobs that may have been under way when something failed
}

func (f *field) args(command string, more ...string) []string {
	return append(append([]string{command, "-lease", f.lease.String()}, f.engine.place()...), more...)
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
	c := exec.Command(f.binary, f.args("work", "-workers", strconv.Itoa(f.slots), "-do", "print")...)
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

func (f *field) stopAll() {
	for _, p := range f.procs {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	f.procs = nil
}

// enqueue enqueues the jobs, in steps, each until it is confirmed.
func (f *field) enqueue(ctx context.Context) {
	const step = 500
	for from := 0; from < f.jobs; from += step {
		var lines strings.Builder
		for i := from; i < min(from+step, f.jobs); i++ {
			fmt.Fprintf(&lines, "job %d\n", i)
		}
		for ctx.Err() == nil {
			c := exec.CommandContext(ctx, f.binary, f.args("enqueue", "-once")...)
			c.Stdin = strings.NewReader(lines.String())
			if c.Run() == nil {
				break
			}
			sleep(ctx, 100*time.Millisecond)
		}
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
	var ran map[string]int
	still := time.Now()
	total := 0
	for ctx.Err() == nil {
		var err error
		if ran, err = f.ran(); err != nil {
			return err
		}
		now := 0
		for _, n := range ran {
			now += n
		}
		if now != total {
			total, still = now, time.Now()
		}
		// What a killed process held is there again after a lease.
		if len(ran) == f.jobs && time.Since(still) > 2*f.lease || time.Since(still) > 30*time.Second+10*f.lease {
			break
		}
		sleep(ctx, 200*time.Millisecond)
	}
	f.stopAll()
	lost, twice := 0, 0
	for i := range f.jobs {
		n := ran["job "+strconv.Itoa(i)]
		if n == 0 {
			lost++
		}
		twice += max(0, n-1)
	}
	fmt.Printf("chaos: %d jobs, %d kills, %d lost, %d ran twice\n", f.jobs, f.killed, lost, twice)
	switch {
	case lost > 0:
		return fmt.Errorf("%d jobs were lost", lost)
	case twice > f.held:
		return fmt.Errorf("%d jobs ran twice: at most %d were under way when something failed", twice, f.held)
	case len(ran) != f.jobs:
		return fmt.Errorf("%d jobs that nobody has enqueued", len(ran)-f.jobs+lost)
	}
	return nil
}
