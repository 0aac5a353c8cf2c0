package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
)

// place adds the flags that say where the queue is.
func place(fs *flag.FlagSet, p *work.Place) {
	fs.StringVar(&p.Dir, "dir", "shoal-queue", "keep the queue in this `folder`; processes that name the same one share it")
	fs.BoolVar(&p.Fast, "lose-writes-on-power-failure", false, "with -dir: do not wait for the disk")
	fs.StringVar(&p.NATS, "nats", "", "instead, have it at the NATS server of this `address`")
	fs.StringVar(&p.SQL, "sql", "", "instead, have it in this database: postgres://… or the `file` of an SQLite one")
	fs.StringVar(&p.Queue, "queue", "default", "the `name` of the queue")
	fs.DurationVar(&p.Lease, "lease", 30*time.Second, "for how long a job is leased; the same for all who use the queue")
}

// parsePlace parses args, and checks what place has added.
func parsePlace(fs *flag.FlagSet, p *work.Place, args []string, help io.Writer, usage string) error {
	fs.SetOutput(io.Discard) // an error is one line, printed by main
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(help, usage+"\n\n")
		fs.SetOutput(help)
		fs.PrintDefaults()
		return err
	case err != nil:
		return errUsage{err}
	case p.Lease < 100*time.Millisecond:
		return errUsage{fmt.Errorf("-lease %v: want at least 100ms", p.Lease)}
	case p.NATS != "" && p.SQL != "":
		return errUsage{errors.New("-nats and -sql: want one of them")}
	case p.Dir == "":
		return errUsage{errors.New("-dir: want a folder")}
	}
	return nil
}

// enqueueCommand puts lines into a queue.
func enqueueCommand(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var e work.Enqueue
	fs := flag.NewFlagSet("shoal enqueue", flag.ContinueOnError)
	place(fs, &e.Place)
	fs.DurationVar(&e.Delay, "delay", 0, "the jobs are not to be run before this time has passed")
	fs.BoolVar(&e.Once, "once", false, "ignore a line that was enqueued in the last two minutes")
	err := parsePlace(fs, &e.Place, args, stdout, "usage: shoal enqueue [flags] <file\n\nPut each line of the standard input as a job into a durable queue, for shoal work.")
	switch {
	case err != nil:
		return err
	case fs.NArg() > 0:
		return errUsage{fmt.Errorf("shoal enqueue takes no argument, but there is %q", fs.Arg(0))}
	case e.Delay < 0:
		return errUsage{fmt.Errorf("-delay %v: want at least 0", e.Delay)}
	}
	return e.Run(ctx, stdin, stderr)
}

// workCommand runs the jobs of a queue.
func workCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var w work.Work
	fs := flag.NewFlagSet("shoal work", flag.ContinueOnError)
	place(fs, &w.Place)
	names := slices.Sorted(maps.Keys(work.Builtins))
	fs.IntVar(&w.Workers, "workers", runtime.GOMAXPROCS(0), "run so many jobs at once")
	fs.IntVar(&w.MaxAttempts, "attempts", 10, "after so many attempts a job goes to the dead letters; 0: never")
	fs.DurationVar(&w.Drain, "drain", 10*time.Second, "how long jobs may go on at the end")
	fs.DurationVar(&w.Empty, "empty", 0, "end when there was no job for this time (default when interrupted)")
	fs.StringVar(&w.Listen, "listen", "", "serve the live page at this `address`; who reaches it sees it")
	fs.BoolVar(&w.Quiet, "q", false, "do not tell of progress")
	fs.StringVar(&w.Do, "do", "", "instead of a command: "+strings.Join(names, ", "))
	err := parsePlace(fs, &w.Place, args, stdout, "usage: shoal work [flags] [--] command [argument ...]\n\n"+
		"Run the command for each job of a durable queue. The job is its standard input;\nSHOAL_JOB and SHOAL_ATTEMPT are in its environment. Exit status 0: the job is done;\n"+
		"65: it never can be; 75: try again in 5 s; another: it failed, try again later.")
	_, known := work.Builtins[w.Do]
	switch {
	case err != nil:
		return err
	case w.Do == "" && fs.NArg() == 0:
		return errUsage{fmt.Errorf("shoal work: which command? Or -do %s", strings.Join(names, ", "))}
	case w.Do != "" && fs.NArg() > 0:
		return errUsage{fmt.Errorf("-do %s and the command %q: want one of them", w.Do, fs.Arg(0))}
	case w.Do != "" && !known:
		return errUsage{fmt.Errorf("-do %q: want one of %s", w.Do, strings.Join(names, ", "))}
	case w.Workers < 1 || w.Workers > shoal.MaxWorkers:
		return errUsage{fmt.Errorf("-workers %d: want 1 to %d", w.Workers, shoal.MaxWorkers)}
	case w.MaxAttempts < 0:
		return errUsage{fmt.Errorf("-attempts %d: want at least 0", w.MaxAttempts)}
	case w.Drain < 0:
		return errUsage{fmt.Errorf("-drain %v: want at least 0", w.Drain)}
	case w.Empty < 0:
		return errUsage{fmt.Errorf("-empty %v: want at least 0", w.Empty)}
	}
	w.Command = fs.Args()
	w.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{ReplaceAttr: withoutStacks}))
	return w.Run(ctx, stdout, stderr)
}
