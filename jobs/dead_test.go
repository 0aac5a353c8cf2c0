package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

// TestTheOutputOfADeadLetter: it is kept, bounded, and apart from the error.
func TestTheOutputOfADeadLetter(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 2000)
	for name, c := range map[string]struct {
		err            error
		reason, output string
	}{
		"none":         {errors.New("bad"), "bad", ""},
		"some":         {jobs.WithOutput(errors.New("bad"), []byte("a\nb\n")), "bad", "a\nb\n"},
		"empty":        {jobs.WithOutput(errors.New("bad"), nil), "bad", ""},
		"wrapped":      {fmt.Errorf("x: %w", jobs.WithOutput(errors.New("bad"), []byte("a"))), "x: bad", "a"},
		"of Poison":    {jobs.WithOutput(jobs.Poison(errors.New("bad")), []byte("a")), "bad", "a"},
		"in Poison":    {jobs.Poison(jobs.WithOutput(errors.New("bad"), []byte("a"))), "bad", "a"},
		"of two lines": {jobs.WithOutput(errors.New("bad\r\nworse\n"), []byte("a")), "bad; worse", "a"},
		"too long":     {jobs.WithOutput(errors.New(string(long)), long), string(long[:1<<10]) + "…", "…" + string(long[len(long)-8<<10:])},
		"no text":      {jobs.WithOutput(errors.New("bad"), []byte("\xff")), "bad", "\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				q := jobstest.NewQueue(time.Minute)
				if err := q.Enqueue(ctx, jobs.Message{ID: "a"}); err != nil {
					t.Fatal(err)
				}
				p := shoal.Must(shoal.New())
				defer p.Close()
				go func() {
					synctest.Wait()
					cancel()
				}()
				err := jobs.Serve(ctx, p, q, func(context.Context, *jobs.Job) error { return c.err },
					jobs.WithMaxAttempts(1), jobs.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
				if err != nil {
					t.Fatal(err)
				}
				dead := q.Dead()
				if len(dead) != 1 {
					t.Fatalf("%d dead letters", len(dead))
				}
				reason, output := dead[0].Split()
				reason = strings.TrimPrefix(reason, "attempt 1 of 1: ")
				if l := len(c.reason); l > 1<<10 { // the prefix takes a part of the bound
					reason, c.reason = reason[:900], c.reason[:900]
				}
				if reason != c.reason || output != c.output {
					t.Errorf("%q, %q; want %q, %q", reason, output, c.reason, c.output)
				}
			})
		})
	}
	if jobs.WithOutput(nil, long) != nil {
		t.Error("WithOutput(nil) is an error")
	}
}

// An operator looks at what has failed, mends the cause, and has it done after all.
func ExampleDeadStore() {
	ctx := context.Background()
	q := jobstest.NewQueue(time.Minute) // or a queue of contrib/sql or contrib/nats
	bury(ctx, q, "invoice-1", "mail", "connection refused\ndial tcp 192.0.2.1:25\n")
	bury(ctx, q, "invoice-2", "mail", "no such address")
	bury(ctx, q, "photo-1", "resize", "not a photo")

	var s jobs.DeadStore = q
	dead, err := s.DeadLetters(ctx, jobs.DeadFilter{Type: "mail"})
	if err != nil {
		fmt.Println(err)
	}
	for _, l := range dead {
		reason, output := l.Split()
		fmt.Printf("%s: %s (%q)\n", l.ID, reason, output)
	}
	retried, _ := s.RetryDead(ctx, jobs.DeadFilter{IDs: []string{"invoice-1"}})
	deleted, _ := s.DeleteDead(ctx, jobs.DeadFilter{Type: "resize"})
	d, _ := q.Depth(ctx)
	fmt.Println(retried, "retried,", deleted, "deleted,", d.Ready, "ready,", d.Dead, "dead")
	// Output:
	// invoice-1: connection refused ("dial tcp 192.0.2.1:25\n")
	// invoice-2: no such address ("")
	// 1 retried, 1 deleted, 1 ready, 1 dead
}

// bury makes a dead letter.
func bury(ctx context.Context, q *jobstest.Queue, id, kind, reason string) {
	_ = q.Enqueue(ctx, jobs.Message{ID: id, Header: jobs.Header{jobs.TypeHeader: kind}})
	ds, _ := q.Pull(ctx, 1)
	_ = ds[0].Term(ctx, reason)
}

// What a command has written goes with the error of its job.
func ExampleWithOutput() {
	written := []byte("convert: no such file\n")
	err := jobs.WithOutput(errors.New("exit status 1"), written)
	fmt.Println(err)
	// Output: exit status 1
}
