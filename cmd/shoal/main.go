// Command shoal has what goes with the library.
//
//	shoal demo       pools at work, and a page to watch them
//	shoal bench      measure shoal beside other pools, on this machine
//	shoal enqueue    put jobs into a durable queue
//	shoal work       run the jobs of a durable queue
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal/internal/race"
)

const usage = `usage: shoal demo|bench|enqueue|work [flags]

demo      pools at work, and a page to watch them
bench     measure shoal beside other pools, on this machine
enqueue   put the lines of the standard input as jobs into a durable queue
work      run a command for each job of a durable queue

shoal demo -h and so on list the flags.
`

// errUsage is an error of whoever typed the command.
type errUsage struct{ error }

func main() {
	bench.Metronome()
	race.Child() // neither returns in a process that was started for it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status(err, os.Stderr))
}

// status says what went wrong, in a line, and returns the exit status.
func status(err error, stderr io.Writer) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &errUsage{}):
		fmt.Fprintln(stderr, "shoal:", err)
		return 2
	default:
		fmt.Fprintln(stderr, "shoal:", err)
		return 1
	}
}

func run(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	if len(args) == 0 {
		return errUsage{errors.New("which command? There are: demo, bench, enqueue, work")}
	}
	switch args[0] {
	case "bench":
		return benchCommand(ctx, args[1:], stdout, stderr)
	case "demo":
		return demoCommand(ctx, args[1:], stdout, stderr)
	case "enqueue":
		return enqueueCommand(ctx, args[1:], os.Stdin, stdout, stderr)
	case "work":
		return workCommand(ctx, args[1:], stdout, stderr)
	case "help", "-h", "-help", "--help":
		_, err := io.WriteString(stdout, usage)
		return err
	default:
		return errUsage{fmt.Errorf("unknown command %q; there are: demo, bench, enqueue, work", args[0])}
	}
}
