// Command run measures every workload with every subject, each measurement in
// a process of its own, and prints the tables. Use it in the bench directory:
//
//	go run ./run -run 'Rand|Sleep' -count 3
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shoal-go/shoal/bench"
)

type config struct {
	count      int
	run, pools *regexp.Regexp
	timeout    time.Duration
	out        string
}

// errUsage is an error of whoever typed the command.
type errUsage struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = race(ctx, c)
	}
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "run:", err)
	if errors.As(err, &errUsage{}) {
		os.Exit(2)
	}
	os.Exit(1)
}

func parse(args []string) (c config, err error) {
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // an error is one line, printed by main
	pattern := func(to **regexp.Regexp, name, usage string) {
		*to = regexp.MustCompile("")
		fs.Func(name, usage, func(s string) (err error) {
			*to, err = regexp.Compile(s)
			return err
		})
	}
	fs.IntVar(&c.count, "count", 5, "rounds; the tables show medians")
	pattern(&c.run, "run", "only workloads whose name matches this `regexp`")
	pattern(&c.pools, "pools", "only subjects whose name matches this `regexp`")
	fs.DurationVar(&c.timeout, "timeout", 2*time.Minute, "for each process")
	fs.StringVar(&c.out, "out", "", "also write the raw results, for benchstat, to this `file`")
	err = fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(os.Stderr)
		fs.PrintDefaults()
	case err != nil:
		err = errUsage{err}
	case fs.NArg() > 0:
		err = errUsage{fmt.Errorf("unexpected argument %q", fs.Arg(0))}
	case c.count < 1 || c.timeout <= 0:
		err = errUsage{errors.New("-count and -timeout must be positive")}
	}
	return c, err
}

// race runs all measurements and prints the report, also when it is
// interrupted. A failed measurement does not end it, but is an error.
func race(ctx context.Context, c config) (err error) {
	dir, err := os.MkdirTemp("", "shoal-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "github.com/shoal-go/shoal/bench")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the benchmarks: %w", err)
	}
	workloads, err := plan(ctx, c, binary)
	if err != nil {
		return err
	}
	raw := io.Discard
	if c.out != "" {
		f, err := os.Create(c.out)
		if err != nil {
			return err
		}
		defer f.Close()
		raw = f
	}

	rep := newReport(workloads)
	defer rep.print(os.Stdout)
	// One round after the other, and within a round the subjects in turn, so
	// that a slow minute of the machine hits all of them.
	for round := range c.count {
		for _, w := range workloads {
			for i := range w.Pools {
				pool := w.Pools[(i+round)%len(w.Pools)]
				m := measure(ctx, c.timeout, binary, w, pool)
				if ctx.Err() != nil {
					return errors.New("interrupted; the tables show what was measured")
				}
				fmt.Fprintf(os.Stderr, "round %d of %d: %s, %s: %s\n", round+1, c.count, w.Name, pool, m)
				rep.add(w.Name, pool, m)
				if _, err := io.WriteString(raw, m.lines); err != nil {
					return err
				}
			}
		}
	}
	if n := len(rep.failures); n > 0 {
		return fmt.Errorf("%d measurements failed", n)
	}
	return nil
}

// plan asks the test binary for its workloads and keeps those asked for.
func plan(ctx context.Context, c config, binary string) ([]bench.Workload, error) {
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), bench.PlanEnv+"=1")
	out, err := cmd.Output()
	var all, kept []bench.Workload
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the workloads: %w", err)
	}
	for _, w := range all {
		w.Pools = slices.DeleteFunc(w.Pools, func(p string) bool { return !c.pools.MatchString(p) })
		if c.run.MatchString(w.Name) && len(w.Pools) > 0 {
			kept = append(kept, w)
		}
	}
	if len(kept) == 0 {
		return nil, errUsage{errors.New("nothing matches -run and -pools")}
	}
	return kept, nil
}

// measure runs one workload with one subject in a fresh process: what a
// subject leaves behind (dead goroutines, a grown heap) slows down the next.
func measure(ctx context.Context, timeout time.Duration, binary string, w bench.Workload, pool string) measurement {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	elems := strings.Split("Benchmark"+w.Name+"/pool="+pool, "/")
	for i, e := range elems {
		elems[i] = "^" + regexp.QuoteMeta(e) + "$"
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.timeout=0",
		"-test.bench="+strings.Join(elems, "/"), "-test.benchtime="+w.Benchtime)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch m := parseResult(stdout.String()); {
	case ctx.Err() != nil:
		return measurement{failure: fmt.Sprintf("no end after %v", timeout)}
	case err != nil:
		return measurement{failure: fmt.Sprintf("%v: %s", err, reason(stderr.String()+stdout.String()))}
	case len(m.values) == 0:
		return measurement{failure: "no result"}
	default:
		return m
	}
}

// reason finds the line that says why a process died.
func reason(output string) string {
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(output, "\n")
	return first
}
