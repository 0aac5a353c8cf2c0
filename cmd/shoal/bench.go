package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/shoal-go/shoal/cmd/shoal/internal/race"
	"github.com/shoal-go/shoal/cmd/shoal/internal/report"
	"github.com/shoal-go/shoal/cmd/shoal/internal/show"
)

type benchFlags struct {
	race.Config
	list, json, profile bool
	out, from           string
}

// benchCommand measures, or reads what was measured, and shows it.
func benchCommand(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	c, err := parseBench(args, stdout)
	if err != nil {
		return err
	}
	if c.from != "" {
		r, err := race.Read(c.from)
		if err != nil {
			return errUsage{err}
		}
		return present(r, c, stdout, stderr)
	}
	r, err := race.Plan(c.Config)
	if err != nil {
		return errUsage{err}
	}
	if c.list {
		show.List(stdout, r)
		return nil
	}
	if c.out != "" { // now, not after an hour
		if err := writable(c.out); err != nil {
			return errUsage{err}
		}
	}
	err = r.Run(ctx, c.Config, show.Progress(stderr, c.Rounds))
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	interrupted := err
	if err := present(r, c, stdout, stderr); err != nil {
		return err
	}
	if interrupted != nil {
		return errors.New("interrupted; what was measured is shown")
	}
	if n := r.Failed(); n > 0 {
		return fmt.Errorf("%d of %d measurements failed", n, len(r.Measurements))
	}
	return nil
}

// present shows r and writes its files.
func present(r *race.Results, c benchFlags, stdout io.Writer, stderr *os.File) error {
	if c.json {
		if err := r.WriteJSON(stdout); err != nil {
			return err
		}
	} else {
		f, ok := stdout.(*os.File)
		show.Table(stdout, r, ok && show.Terminal(f) && os.Getenv("NO_COLOR") == "")
	}
	if c.out == "" {
		return nil
	}
	if err := writable(c.out); err != nil {
		return errUsage{err}
	}
	if err := report.Write(c.out, r); err != nil {
		return err
	}
	fmt.Fprintln(stderr, "the report:", filepath.Join(c.out, "report.html"))
	return nil
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

func parseBench(args []string, help io.Writer) (c benchFlags, err error) {
	fs := flag.NewFlagSet("shoal bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // an error is one line, printed by main
	pattern := func(to **regexp.Regexp, name, usage string) {
		*to = regexp.MustCompile("")
		fs.Func(name, usage, func(s string) (err error) {
			*to, err = regexp.Compile(s)
			return err
		})
	}
	pattern(&c.Run, "run", "only workloads whose name matches this `regexp`")
	pattern(&c.Pools, "pools", "only subjects whose name matches this `regexp`")
	fs.IntVar(&c.Rounds, "count", 5, "rounds; figures are medians of them (with -quick 1)")
	fs.BoolVar(&c.Quick, "quick", false, "a first impression: few workloads and subjects, under two minutes")
	fs.Func("procs", "GOMAXPROCS of the measurements, a comma-separated `list`, each for all workloads (default what it is)",
		func(s string) error {
			for _, text := range strings.Split(s, ",") {
				n, err := strconv.Atoi(strings.TrimSpace(text))
				if err != nil || n < 1 || n > 1024 {
					return fmt.Errorf("%q is not a number from 1 to 1024", text)
				}
				c.Procs = append(c.Procs, n)
			}
			return nil
		})
	fs.DurationVar(&c.Timeout, "timeout", 2*time.Minute, "for one measurement")
	fs.BoolVar(&c.list, "list", false, "only name the workloads and subjects")
	fs.BoolVar(&c.json, "json", false, "print results.json instead of a table")
	fs.StringVar(&c.out, "out", "", "write results.json, results.txt (for benchstat), tables.md, plots and report.html to this `folder`")
	fs.BoolVar(&c.profile, "profile", false, "after the race, run shoal once more in each row with a CPU profile, and say where its time went (needs -out)")
	fs.StringVar(&c.from, "from", "", "measure nothing; show the results.json in this `file`")
	err = fs.Parse(args)
	counted := false
	fs.Visit(func(f *flag.Flag) { counted = counted || f.Name == "count" })
	if c.Quick && !counted {
		c.Rounds = 1
	}
	if c.profile {
		c.Profiles = filepath.Join(c.out, "profiles")
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(help, "usage: shoal bench [flags]\n\nMeasures shoal beside other pools: each measurement in a process of its own,\nsubjects in turn. Less is better everywhere.\n\n")
		fs.SetOutput(help)
		fs.PrintDefaults()
	case err != nil:
		err = errUsage{err}
	case fs.NArg() > 0:
		err = errUsage{fmt.Errorf("unexpected argument %q", fs.Arg(0))}
	case c.Rounds < 1 || c.Rounds > 1000:
		err = errUsage{fmt.Errorf("-count %d: must be from 1 to 1000", c.Rounds)}
	case c.profile && c.out == "":
		err = errUsage{errors.New("-profile needs -out, for the profiles")}
	case c.Timeout <= 0:
		err = errUsage{fmt.Errorf("-timeout %v: must be positive", c.Timeout)}
	}
	return c, err
}
