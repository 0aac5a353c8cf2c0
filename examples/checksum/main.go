// Command checksum prints the SHA-256 of every regular file under a directory,
// in the format of coreutils' sha256sum, whose option -c accepts it:
//
//	checksum [-q] [-workers N] DIR > sums
//	sha256sum -c sums
//
// The files are read by a [shoal.Pool], N at a time or as many as there are
// CPUs. Progress goes to standard error, unless -q is given. Each line is
// printed as soon as its file and all those before it are read, and only so
// many files are read ahead. So what is held in memory does not depend on how
// many files there are, but for the names in the directory that is being
// walked and in those above it.
//
// The order is that of a walk: directory by directory, the names of each in
// the order of their bytes. That is the order of the paths if the separator
// counts as less than any other byte: a/b comes before a.txt, where LC_ALL=C
// sort would put it after. Paths begin with DIR as it was given. Symbolic
// links below DIR are not followed.
//
// What cannot be read is named on standard error, and the rest is done. The
// exit status is 0, 1 if a file could not be read or written, 2 for bad usage
// or a bad DIR, 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/shoal-go/shoal"
)

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell reports a program that SIGINT ended

	usage = "usage: checksum [-q] [-workers N] DIR"
)

// patience is how long the program goes on after an interrupt at most.
const patience = time.Second

func main() {
	// Else a write to a closed pipe would kill the program without a word.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, func() {
		// Normally run returns at once. But a read from a server that has gone
		// away and a write to a pipe that nobody empties cannot be cancelled.
		stop() // where even the next line blocks, a second interrupt kills
		time.Sleep(patience)
		fmt.Fprintln(os.Stderr, "checksum: interrupted")
		os.Exit(exitInterrupted)
	})
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program. It returns the exit status, after every goroutine it
// started has ended.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, usage)
		return 0
	}
	var pool *shoal.Pool
	if err == nil {
		// A panic would be a bug here, and a checksum missing without a word.
		pool, err = shoal.New(append(o.pool, shoal.WithName("checksum"), shoal.WithCrashOnPanic())...)
	}
	if err != nil {
		fmt.Fprintln(stderr, "checksum:", oneLine(err))
		return exitUsage
	}
	r := newReport(stdout, stderr, o.quiet)
	failed, err := sumAll(ctx, pool, o.dir, r, stdout)
	pool.Close() // first, so that what is said next is the last word
	switch {
	case err != nil && ctx.Err() != nil:
		r.say("interrupted")
		return exitInterrupted
	case err != nil:
		r.say(oneLine(err))
		return exitFailed
	}
	r.last()
	if failed {
		return exitFailed
	}
	return 0
}

type options struct {
	dir   root
	quiet bool
	pool  []shoal.Option
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("checksum", flag.ContinueOnError)
	f.SetOutput(io.Discard) // it would add the usage to each error
	f.BoolVar(&o.quiet, "q", false, "")
	f.Func("workers", "", func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > shoal.MaxWorkers {
			return fmt.Errorf("want a number from 1 to %d", shoal.MaxWorkers)
		}
		o.pool = []shoal.Option{shoal.WithMaxWorkers(n)}
		return nil
	})
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch f.NArg() {
	case 0:
		return o, fmt.Errorf("no DIR given; %s", usage)
	case 1:
		o.dir, err = openRoot(f.Arg(0))
		return o, err
	}
	return o, fmt.Errorf("more than one DIR given: %q; %s", f.Args(), usage)
}

// A root is the directory to walk.
type root struct {
	given string // what the paths printed begin with
	real  string // the same without symbolic links
}

func openRoot(given string) (root, error) {
	info, err := os.Stat(given)
	if err != nil {
		return root{}, err
	}
	if !info.IsDir() {
		return root{}, &os.PathError{Op: "open", Path: given, Err: syscall.ENOTDIR}
	}
	// WalkDir does not enter a link, and cleans paths, which takes link/.. for
	// the directory that holds the link.
	real, err := filepath.EvalSymlinks(given)
	return root{given: given, real: real}, err
}

// path is what to print, and to open, for a path that the walk of d.real came
// to.
func (d root) path(walked string) string {
	rel, err := filepath.Rel(d.real, walked)
	switch {
	case err != nil: // not for a path below d.real
		return walked
	case rel == ".":
		return d.given
	case os.IsPathSeparator(d.given[len(d.given)-1]):
		return d.given + rel
	}
	return d.given + string(filepath.Separator) + rel
}
