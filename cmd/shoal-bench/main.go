// Command shoal-bench measures shoal beside other worker pools, on this machine.
//
//	shoal-bench -quick           a first impression, in under two minutes
//	shoal-bench -out figures     all workloads, and a report in the folder figures
//
// shoal-bench -h lists the flags.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/report"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/show"
)

// errUsage is an error in what the user typed.
type errUsage struct{ error }

func main() {
	bench.Metronome()
	race.Child() // neither returns in a process that was started for it
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status(err, os.Stderr))
}

// status prints err in one line, if it is one, and returns the exit status.
func status(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "shoal-bench:", err)
	if errors.As(err, &errUsage{}) {
		return 2
	}
	return 1
}

type flags struct {
	race.Config
	list, json, profile bool
	out, from           string
}

// run measures, or reads what was measured, and shows it.
func run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	c, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if c.from != "" {
		r, err := race.Read(c.from)
		if err == nil {
			err = r.Only(c.Run, c.Pools)
		}
		if err == nil && c.out != "" && c.Run.String()+c.Pools.String() != "" && same(c.from, filepath.Join(c.out, "results.json")) {
			err = errors.New("-out would replace it by what -run and -pools select; name another folder")
		}
		if err != nil {
			return errUsage{fmt.Errorf("-from: %w", err)}
		}
		return present(r, c, stdout, stderr)
	}
	r, err := race.Plan(c.Config)
	if err != nil {
		return errUsage{err}
	}
	if c.list {
		return show.List(stdout, r)
	}
	if c.out != "" { // now, not after an hour
		if err := writable(c.out); err != nil {
			return errUsage{err}
		}
	}
	ran := r.Run(ctx, c.Config, show.Progress(stderr, c.Rounds))
	if len(r.Measurements) == 0 {
		c.out = "" // an earlier report there is worth more than an empty one
	}
	if err := present(r, c, stdout, stderr); err != nil {
		return err
	}
	switch n := r.Failed(); {
	case errors.Is(ran, context.Canceled):
		return errors.New("interrupted; the table has what was measured before that")
	case ran != nil:
		return ran
	case n > 0:
		return fmt.Errorf("%d of %d measurements failed; the table names them", n, len(r.Measurements))
	}
	return nil
}

// present writes r's files and shows it. The files come first: Ctrl-C also ends a program that reads the
// table, and then this one dies as it prints.
func present(r *race.Results, c flags, stdout io.Writer, stderr *os.File) error {
	err := files(r, c, stderr)
	if c.json {
		return cmp.Or(err, r.WriteJSON(stdout))
	}
	f, ok := stdout.(*os.File)
	return cmp.Or(err, show.Table(stdout, r, ok && show.Terminal(f) && os.Getenv("NO_COLOR") == ""))
}

// files writes what -out asks for.
func files(r *race.Results, c flags, stderr *os.File) error {
	if c.out == "" {
		return nil
	}
	if err := writable(c.out); err != nil {
		return errUsage{err}
	}
	if err := report.Write(c.out, r); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "the report is in", filepath.Join(c.out, "report.html"))
	return nil
}

// same reports whether both are one file.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// writable makes the folder and a file in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	f, err := os.CreateTemp(dir, ".shoal-*")
	if err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	f.Close()
	return os.Remove(f.Name())
}

func parse(args []string, help io.Writer) (c flags, err error) {
	fs := flag.NewFlagSet("shoal-bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // main prints the error, in one line
	pattern := func(to **regexp.Regexp, name, usage string) {
		*to = regexp.MustCompile("")
		fs.Func(name, usage, func(s string) (err error) {
			*to, err = regexp.Compile(s)
			return err
		})
	}
	pattern(&c.Run, "run", "run only the workloads whose name matches this `regexp`")
	pattern(&c.Pools, "pools", "measure only the subjects whose name matches this `regexp`")
	fs.IntVar(&c.Rounds, "count", 5, "measure everything this often, from 1 to 1000; the figures are medians (with -quick: 1)")
	fs.BoolVar(&c.Quick, "quick", false, "measure a few workloads and subjects once, in under two minutes")
	fs.Func("procs", "run all workloads at each GOMAXPROCS of this comma-separated `list`, from 1 to 1024 (default: GOMAXPROCS of this process)",
		func(s string) error {
			for _, text := range strings.Split(s, ",") {
				n, err := strconv.Atoi(strings.TrimSpace(text))
				if err != nil || n < 1 || n > 1024 {
					return fmt.Errorf("%q must be a number from 1 to 1024", text)
				}
				if slices.Contains(c.Procs, n) {
					return fmt.Errorf("%d is there twice", n)
				}
				c.Procs = append(c.Procs, n)
			}
			return nil
		})
	fs.DurationVar(&c.Timeout, "timeout", 2*time.Minute, "end a measurement that takes longer, and count it as failed")
	fs.BoolVar(&c.list, "list", false, "list the workloads and the subjects; measure nothing")
	fs.BoolVar(&c.json, "json", false, "print results.json instead of a table")
	fs.StringVar(&c.out, "out", "", "write results.json, results.txt (for benchstat), tables.md, plots and report.html to this `folder`")
	fs.BoolVar(&c.profile, "profile", false, "at the end, run shoal once more in each workload with a CPU profile, and report where its time went (needs -out)")
	fs.StringVar(&c.from, "from", "", "show the results.json in this `file`, or what -run and -pools select of it; measure nothing")
	err = fs.Parse(args)
	counted, empty, measures := false, "", ""
	fs.Visit(func(f *flag.Flag) {
		counted = counted || f.Name == "count"
		if !slices.Contains([]string{"from", "run", "pools", "json", "out"}, f.Name) {
			measures = f.Name
		}
		if (f.Name == "from" || f.Name == "out") && f.Value.String() == "" {
			empty = f.Name
		}
	})
	if c.Quick && !counted {
		c.Rounds = 1
	}
	if c.profile {
		c.Profiles = filepath.Join(c.out, "profiles")
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		var b bytes.Buffer
		b.WriteString(usage)
		fs.SetOutput(&b)
		fs.PrintDefaults()
		if _, e := b.WriteTo(help); e != nil {
			err = e
		}
	case err != nil:
		err = errUsage{fmt.Errorf("%w; shoal-bench -h lists the flags", err)}
	case fs.NArg() > 0:
		err = errUsage{fmt.Errorf("%q is not a flag; shoal-bench -h lists the flags", fs.Arg(0))}
	case empty != "": // as of a variable that is not set; it would measure for an hour, or write no report
		err = errUsage{fmt.Errorf("-%s is empty; give it a value, or leave it out", empty)}
	case c.from != "" && measures != "":
		err = errUsage{fmt.Errorf("-from measures nothing; leave out -%s", measures)}
	case c.Rounds < 1 || c.Rounds > 1000:
		err = errUsage{fmt.Errorf("-count %d must be from 1 to 1000", c.Rounds)}
	case c.profile && c.out == "":
		err = errUsage{errors.New("-profile also needs -out, the folder for the profiles")}
	case c.Timeout <= 0:
		err = errUsage{fmt.Errorf("-timeout %v must be more than 0s", c.Timeout)}
	}
	return c, err
}

const usage = `usage: shoal-bench [flags]

Measure shoal beside other worker pools. Each measurement is a process of its own;
the subjects take turns. In all tables less is better.

A complete run takes about an hour. To begin with, try

	shoal-bench -quick

`
