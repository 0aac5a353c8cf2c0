package work

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shoal-go/shoal/jobs"
)

type sinkFunc func(context.Context) error

func (f sinkFunc) Enqueue(ctx context.Context, ms ...jobs.Message) error { return f(ctx) }

// TestAnEnqueueThatMayHaveFailed says which lines it was about, and what to do. If an interrupt
// was the cause, the status is that of the signal.
func TestAnEnqueueThatMayHaveFailed(t *testing.T) {
	broken := errors.New("broken")
	for _, once := range []bool{false, true} {
		for _, signal := range []os.Signal{nil, os.Interrupt} {
			synctest.Test(t, func(t *testing.T) { // so that the lines come in one batch
				ctx, cancel := context.WithCancelCause(t.Context())
				q := &Queue{Sink: sinkFunc(func(ctx context.Context) error {
					if signal == nil {
						return broken
					}
					cancel(&Interrupted{Signal: signal})
					<-ctx.Done()
					return ctx.Err()
				})}
				n, err := Enqueue{Once: once}.lines(ctx, q, strings.NewReader("a\nb\nc\n"))
				in := (*Interrupted)(nil)
				switch {
				case n != 0 || err == nil || !strings.Contains(err.Error(), "lines 1 to 3 may not all be enqueued; enqueue again from line 1"):
					t.Errorf("%d lines, %v", n, err)
				case once != strings.Contains(err.Error(), "-once"), once == strings.Contains(err.Error(), "lines 1 to 3 may then run twice"):
					t.Errorf("once %v: %v", once, err)
				case signal == nil && !errors.Is(err, broken), (signal != nil) != errors.As(err, &in), in != nil && in.Status() != 130:
					t.Errorf("signal %v: %v", signal, err)
				}
				cancel(nil)
			})
		}
	}
}

// TestOneLineThatMayHaveFailed is one.
func TestOneLineThatMayHaveFailed(t *testing.T) {
	q := &Queue{Sink: sinkFunc(func(context.Context) error { return errors.New("broken") })}
	_, err := Enqueue{}.lines(t.Context(), q, strings.NewReader("a\n"))
	if want := "line 1 may not be enqueued; enqueue again from line 1; line 1 may then run twice: broken"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestWhereALineEnds: at a line feed, and a carriage return before it. One without it is a part of the
// line.
func TestWhereALineEnds(t *testing.T) {
	lines := make(chan []byte, 9)
	if err := readLines(t.Context(), strings.NewReader("a\r\nb\rc\n\n\r\nd\r"), lines); err != nil {
		t.Fatal(err)
	}
	close(lines)
	var got []string
	for l := range lines {
		got = append(got, string(l))
	}
	if want := []string{"a", "b\rc", "", "", "d\r"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
