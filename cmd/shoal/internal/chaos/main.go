// Command chaos has processes of shoal work share a queue, kills them over and over with
// SIGKILL, and counts what became of the jobs. It ends with
//
//	chaos: J jobs, K kills, 0 lost, D ran twice
//
// and fails if a job was lost, or more ran twice than the killed processes can have had
// under way. On the embedded engine the server is in one of the processes: to kill that
// one is to kill the engine under load.
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type config struct {
	binary    string
	sql       string
	jobs      int
	kills     int
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
	flag.StringVar(&c.binary, "shoal", "", "the shoal `command` to try (default: built for it)")
	flag.StringVar(&c.sql, "sql", "", "the database, as of shoal work; embedded engine where it is not given")
	flag.IntVar(&c.jobs, "jobs", 20_000, "jobs")
	flag.IntVar(&c.kills, "kills", 100, "kills")
	flag.IntVar(&c.processes, "processes", 3, "processes at work")
	flag.IntVar(&c.slots, "slots", 8, "jobs at once, in each")
	flag.DurationVar(&c.every, "every", 300*time.Millisecond, "a kill, on average")
	flag.DurationVar(&c.away, "away", 30*time.Second, "once, all are killed, and away for this time")
	flag.DurationVar(&c.lease, "lease", 2*time.Second, "the lease")
	flag.DurationVar(&c.limit, "limit", 10*time.Minute, "give up after this time")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "whom to kill, and when")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(c config) error {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("chaos: seed %d\n", c.seed)
	if c.binary == "" {
		c.binary = filepath.Join(dir, "shoal")
		if out, err := exec.Command("go", "build", "-o", c.binary, ".").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	defer cancel()
	f := &field{config: c, rand: rand.New(rand.NewPCG(c.seed, 0)), dir: dir, runs: filepath.Join(dir, "runs")}
	defer f.killAll()
	for i := range c.processes {
		if err := f.start(i); err != nil {
			return err
		}
	}
	var enqueued atomic.Bool
	var enqueuing sync.WaitGroup
	enqueuing.Go(func() {
		f.enqueue(ctx)
		enqueued.Store(true)
	})
	for kill := range c.kills {
		pause := time.Duration(float64(c.every) * (0.2 + 1.6*f.rand.Float64()))
		if kill == c.kills/2 && c.away > 0 {
			f.killAll()
			fmt.Printf("chaos: after %d kills all are away for %v\n", kill, c.away)
			if !sleep(ctx, c.away) {
				return errors.New("out of time")
			}
		} else if !sleep(ctx, pause) {
			return errors.New("out of time")
		}
		for i := range f.procs {
			if kill == c.kills/2 || i == f.rand.IntN(len(f.procs)) {
				f.kill(i)
				if err := f.start(i); err != nil {
					return err
				}
			}
		}
	}
	enqueuing.Wait()
	if !enqueued.Load() || ctx.Err() != nil {
		return errors.New("out of time: not all jobs were enqueued")
	}
	return f.count(ctx)
}

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
	rand  *rand.Rand
	dir   string
	runs  string // the file to which each run of a job adds a line
	procs []*exec.Cmd
	kills int
}

func (f *field) place() []string {
	if f.sql != "" {
		return []string{"-sql", f.sql, "-lease", f.lease.String()}
	}
	return []string{"-dir", filepath.Join(f.dir, "queue"), "-lease", f.lease.String()}
}

func (f *field) start(i int) error {
	out, err := os.OpenFile(f.runs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer out.Close()
	log, err := os.OpenFile(filepath.Join(f.dir, fmt.Sprint("log", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command(f.binary, append(append([]string{"work"}, f.place()...), "-q", "-workers", strconv.Itoa(f.slots), "-do", "print")...)
	c.Stdout, c.Stderr = out, log
	if err := c.Start(); err != nil {
		return err
	}
	if i == len(f.procs) {
		f.procs = append(f.procs, nil)
	}
	f.procs[i] = c
	return nil
}

func (f *field) kill(i int) {
	if c := f.procs[i]; c != nil {
		if c.Process.Kill() == nil {
			f.kills++
		}
		c.Wait()
		f.procs[i] = nil
	}
}

func (f *field) killAll() {
	for i := range f.procs {
		f.kill(i)
	}
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
			c := exec.CommandContext(ctx, f.binary, append(append([]string{"enqueue"}, f.place()...), "-once")...)
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
	f.killAll()
	lost, twice := 0, 0
	for i := range f.jobs {
		n := ran["job "+strconv.Itoa(i)]
		if n == 0 {
			lost++
		}
		twice += max(0, n-1)
	}
	kills := f.kills - f.processes // those of the end do not count
	fmt.Printf("chaos: %d jobs, %d kills, %d lost, %d ran twice\n", f.jobs, kills, lost, twice)
	switch {
	case lost > 0:
		return fmt.Errorf("%d jobs were lost", lost)
	case twice > kills*f.slots:
		return fmt.Errorf("%d jobs ran twice: more than %d kills × %d", twice, kills, f.slots)
	case len(ran) != f.jobs:
		return fmt.Errorf("%d jobs that nobody has enqueued", len(ran)-f.jobs+lost)
	}
	return nil
}
