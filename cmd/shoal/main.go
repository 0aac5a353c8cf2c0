// Command shoal runs jobs of a durable queue on a pool, and shows pools at work.
//
//	shoal dead       look at the jobs that were given up, retry or delete them
//	shoal demo       run pools, and serve a page to watch them
//	shoal enqueue    put jobs into a durable queue
//	shoal work       run the jobs of a durable queue
//	shoal version    print the version
//
// To measure shoal beside other pools is a command of its own, shoal-bench.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
)

const usage = `usage: shoal dead|demo|enqueue|work|version [flags]

dead      look at the jobs that were given up, retry or delete them
demo      run pools, and serve a page to watch them
enqueue   put each line of the standard input as a job into a durable queue
work      run a command for each job of a durable queue
version   print the version of this command, the version of Go, and the platform

shoal demo -h, or shoal help demo, and so on, lists the flags of a command. For example:

	ls *.md | shoal enqueue -type doc          each name is a job
	shoal work -empty 1s sh -c 'wc ./"$(cat)"'
	                                           run them; end when none is left
	shoal dead list                            why did some fail?
	shoal dead retry -type doc                 mend it, run them again
`

const commands = "dead, demo, enqueue, work and version"

// errUsage is an error in what the user typed.
type errUsage struct{ error }

func main() {
	if len(os.Args) == 2 && os.Args[1] == work.GuardCommand {
		work.Guard(os.Stdin)
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, work.Signals()...)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // a terminal that is closed may send two
	}
	go func() {
		s := <-signals
		signal.Stop(signals) // a second one ends the process, unless the command takes it
		cancel(&work.Interrupted{Signal: s})
	}()
	os.Exit(status(run(ctx, os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

// oneLine joins the lines of an error, as those of errors.Join and of pgx, which names each server.
var oneLine = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")

// status prints err in one line, if it is one, and returns the exit status.
func status(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	said := &work.Sayer{To: stderr}
	defer said.Close()
	fmt.Fprintln(said, "shoal:", oneLine.Replace(strings.TrimSpace(err.Error())))
	if dead := (*work.DeadError)(nil); errors.As(err, &dead) {
		return 3
	}
	if in := (*work.Interrupted)(nil); errors.As(err, &in) {
		return in.Status()
	}
	if missing := (*work.Missing)(nil); errors.As(err, &errUsage{}) || errors.As(err, &missing) {
		return 2
	}
	return 1
}

func run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	if len(args) == 0 {
		return errUsage{errors.New("a command is missing; the commands are " + commands)}
	}
	switch args[0] {
	case "bench":
		return errUsage{errors.New("bench is a command of its own: go run github.com/shoal-go/shoal/cmd/shoal-bench@latest -quick")}
	case "demo":
		return demoCommand(ctx, args[1:], stdout, stderr)
	case "dead":
		return deadCommand(ctx, args[1:], stdout, stderr)
	case "enqueue":
		return enqueueCommand(ctx, args[1:], os.Stdin, stdout, stderr)
	case "work":
		said := &work.Sayer{To: stderr}
		defer said.Close()
		return workCommand(ctx, args[1:], stdout, said)
	case "version":
		return versionCommand(args[1:], stdout)
	case "help", "-h", "-help", "--help":
		if len(args) > 1 && args[0] == "help" && args[1] != "help" && !strings.HasPrefix(args[1], "-") {
			return run(ctx, []string{args[1], "-h"}, stdout, stderr)
		}
		_, err := io.WriteString(stdout, usage)
		return err
	default:
		return errUsage{fmt.Errorf("unknown command %q; the commands are %s", args[0], commands)}
	}
}
