//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
	"github.com/shoal-go/shoal/jobs"
)

// queues are their names. Every process serves the first one, and that of serveTwo both.
var queues = [...]string{"default", "second"}

// hangs is what is written before the name of a job when it begins to hang.
const hangs = "begun: "

// serveTwo serves both queues on one pool until it is told to end. args are the number of
// workers, the lease, and where the queues are. A job writes its payload as a line; one
// called hang does so in its second attempt, and in its first one it does not end by itself.
func serveTwo(args []string, stdout, stderr io.Writer) (err error) {
	if len(args) < 2 {
		return fmt.Errorf("got %q, want the number of workers, the lease, and the place", args)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	workers, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	place := work.Place{Log: slog.New(slog.NewTextHandler(stderr, nil))}
	if place.Lease, err = time.ParseDuration(args[1]); err != nil {
		return err
	}
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.StringVar(&place.Dir, "dir", "", "")
	fs.StringVar(&place.SQL, "sql", "", "")
	fs.StringVar(&place.NATS, "nats", "", "")
	if err := fs.Parse(args[2:]); err != nil {
		return err
	}
	p, err := shoal.New(shoal.WithMaxWorkers(workers))
	if err != nil {
		return err
	}
	defer p.Close()
	var write sync.Mutex
	h := func(ctx context.Context, j *jobs.Job) error {
		line := string(j.Data)
		hang := j.Attempt == 1 && strings.HasPrefix(line, "hang ")
		if hang {
			line = hangs + line
		}
		time.Sleep(rand.N(20 * time.Millisecond)) // so that a signal finds it under way
		write.Lock()
		_, err := fmt.Fprintln(stdout, line)
		write.Unlock()
		if hang {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return err
	}
	errs := make([]error, len(queues))
	var serving sync.WaitGroup
	for i, name := range queues {
		place.Queue = name
		q, err := work.Open(ctx, place)
		if err != nil {
			return err
		}
		defer q.Close()
		serving.Go(func() {
			errs[i] = jobs.Serve(ctx, p, q.Source, h, jobs.WithName(name), jobs.WithDrain(time.Second), jobs.WithLogger(place.Log))
		})
	}
	fmt.Fprintln(stderr, "work: serving both queues")
	serving.Wait()
	return errors.Join(errs...)
}
