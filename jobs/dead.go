package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A DeadLetter is a job that was given up, as the queue keeps it.
type DeadLetter struct {
	ID      string
	Data    []byte
	Header  Header
	Attempt int       // the last attempt
	Reason  string    // why the job was given up; see Split
	At      time.Time // when it was given up, by the clock of the queue
	Place   string    // where it is in the order of the queue, for DeadFilter.After; only the queue knows how to read it
}

// Type returns the type of the job: the value of its header [TypeHeader], or "".
func (l DeadLetter) Type() string { return l.Header[TypeHeader] }

// Split returns the two parts of the reason: its first line, which is the last error of the
// job, and the lines after it, which are the output of its last attempt ([WithOutput]). The
// output may be empty.
func (l DeadLetter) Split() (reason, output string) {
	reason, output, _ = strings.Cut(l.Reason, "\n")
	return reason, output
}

// A DeadStore is a queue whose dead letters can be read, retried and deleted. The queues of
// contrib/sql and contrib/nats are DeadStores, and so is that of package jobstest. Its methods
// must be safe for concurrent use. They block until the queue has answered or ctx ends. An
// invalid filter is an error that matches [ErrConfig].
type DeadStore interface {
	// DeadLetters returns the dead letters that f selects, in the order in which they were
	// given up, and leaves them where they are. After an error it may also return some.
	DeadLetters(ctx context.Context, f DeadFilter) ([]DeadLetter, error)
	// RetryDead makes the dead letters that f selects jobs again, in the order of
	// DeadLetters. They keep their ID, payload and header, their attempts count from 1, and
	// they may run at once. RetryDead returns how many there were. After an error it may
	// have retried that many; the others are still dead letters.
	//
	// A dead letter is retried once, even if several calls select it. One that was given up
	// after the call began is not selected, so a job that fails again is not retried again.
	RetryDead(ctx context.Context, f DeadFilter) (int, error)
	// DeleteDead deletes the dead letters that f selects for ever, and returns how many
	// there were. After an error it may have deleted that many.
	DeleteDead(ctx context.Context, f DeadFilter) (int, error)
}

// A DeadFilter selects dead letters. A dead letter is selected if it meets each condition
// that is set. The zero value selects all.
type DeadFilter struct {
	IDs    []string      // it has one of these IDs; an empty ID is an error
	Type   string        // it has this type ([DeadLetter.Type])
	Age    time.Duration // it was given up at least so long ago; a negative one is an error
	Within time.Duration // it was given up at most so long ago; 0: whenever; a negative one is an error
	// After is the Place of a dead letter, and selects those that come after it in the order
	// of the filter. So a call with a Limit continues where the one before ended, also if
	// that dead letter is gone. A text that is no Place of the queue is an error.
	After  string
	Limit  int  // it is one of the first so many that meet the others; a negative one is an error
	Newest bool // the order is reversed: that which was given up last comes first
}

// Check returns an error that matches [ErrConfig] if f is invalid. It is for implementations
// of [DeadStore].
func (f DeadFilter) Check() error {
	switch {
	case slices.Contains(f.IDs, ""):
		return fmt.Errorf("%w: dead letters: an empty ID: want the ID of a job", ErrConfig)
	case f.Age < 0:
		return fmt.Errorf("%w: dead letters: the age %v: want 0 or more", ErrConfig, f.Age)
	case f.Within < 0:
		return fmt.Errorf("%w: dead letters: within %v: want 0 (whenever) or more", ErrConfig, f.Within)
	case f.Limit < 0:
		return fmt.Errorf("%w: dead letters: the limit %d: want 0 or more", ErrConfig, f.Limit)
	}
	return nil
}

// Match reports whether l meets the conditions of f, but for After and Limit, at the time now.
// It is for implementations of [DeadStore].
func (f DeadFilter) Match(l DeadLetter, now time.Time) bool {
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, l.ID)) &&
		(f.Type == "" || f.Type == l.Type()) &&
		!l.At.After(now.Add(-f.Age)) &&
		(f.Within == 0 || !l.At.Before(now.Add(-f.Within)))
}

// PlaceError returns the error for an After that is no Place. It is for implementations of
// [DeadStore].
func (f DeadFilter) PlaceError() error {
	return fmt.Errorf("%w: dead letters: after %q: want the Place of a dead letter of this queue", ErrConfig, f.After)
}

const (
	mostReason = 1 << 10 // bytes of the first line of a reason
	mostOutput = 8 << 10 // bytes of an output
)

type outputError struct {
	err    error
	output string
}

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// WithOutput returns an error for a handler to return if its job has written output, for example
// to the standard error of a command. If the job becomes a dead letter, the output is
// kept with it ([DeadLetter.Split]). Of more than 8 KiB the end is kept. The error reads as err
// does, and wraps it. If err is nil, so is the result. WithOutput(Poison(err), output) and
// Poison(WithOutput(err, output)) do the same.
func WithOutput(err error, output []byte) error {
	if err == nil {
		return nil
	}
	if len(output) > mostOutput {
		output = append([]byte("…"), output[len(output)-mostOutput:]...)
	}
	return &outputError{err, strings.ToValidUTF8(string(output), "\uFFFD")}
}

// reasonOf is the reason of a dead letter: the text of an error, and the output that came
// with it.
func reasonOf(text, output string) string {
	if strings.ContainsAny(text, "\n\r") {
		text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	}
	if len(text) > mostReason {
		text = strings.ToValidUTF8(text[:mostReason], "") + "…"
	}
	if output != "" {
		text += "\n" + output
	}
	return text
}

// A Depth is what a queue holds at one moment. Each job is counted once.
type Depth struct {
	Ready   int64 // jobs that may be leased at once
	Delayed int64 // jobs that wait for the end of their delay, or of the time that Nak was called with
	Leased  int64 // jobs that are leased
	Dead    int64 // dead letters
	// Oldest is the lag of the queue: the time for which the job that has been ready longest
	// has waited to be leased; 0 if none is ready. A queue whose workers keep up has an Oldest
	// near 0.
	Oldest time.Duration
}

// A Depther is a queue that can be measured. The queues of contrib/sql and contrib/nats are
// Depthers, and so is that of package jobstest.
type Depther interface {
	// Depth returns what the queue holds. It blocks until the queue has answered or ctx
	// ends. It may be called by several goroutines.
	Depth(ctx context.Context) (Depth, error)
}
