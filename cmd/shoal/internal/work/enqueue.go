package work

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// Enqueue is what the command enqueue does.
type Enqueue struct {
	Place
	Delay time.Duration // of all jobs
	Type  string        // of all jobs; "": none
	Once  bool          // skip a line whose job the queue knows
	JSON  bool          // say it in JSON
}

// MostLine is how long a line may be, in bytes.
const MostLine = 1 << 20

const (
	batch      = 256                   // lines that are enqueued together
	batchBytes = 4 << 20               // and their bytes, but for the last
	batchFor   = 50 * time.Millisecond // that a line waits for others
)

// Run enqueues the lines of in, and says how many there were: on stdout with JSON, else on
// stderr. It counts lines, not jobs: a queue does not tell which lines it has skipped.
//
// If a signal came before all were enqueued, the error is an *Interrupted.
func (e Enqueue) Run(ctx context.Context, in io.Reader, stdout, stderr io.Writer) error {
	notifyPipe()
	q, err := Open(ctx, e.Place)
	switch s := interrupted(ctx); {
	case err != nil && s != nil:
		return &Interrupted{s, stoppedAfter(0)}
	case err != nil:
		return err
	}
	start := time.Now()
	n, err := e.lines(ctx, q, in)
	took := time.Since(start)
	if e.JSON {
		bad := json.NewEncoder(stdout).Encode(struct {
			Enqueued int     `json:"enqueued"` // lines
			Seconds  float64 `json:"seconds"`
			Queue    string  `json:"queue"`
			At       string  `json:"at"`
		}{n, took.Seconds(), e.Queue, q.Where})
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%d lines are enqueued, but the output cannot be written: %w", n, bad))
		}
	} else {
		did := "enqueued"
		if e.Once {
			did = "enqueued or skipped"
		}
		fmt.Fprintf(stderr, "%s %d lines in %v into queue %s at %s\n", did, n, took.Round(time.Millisecond), e.Queue, q.Where)
	}
	return errors.Join(err, q.Close())
}

func stoppedAfter(n int) string {
	return fmt.Sprintf("after line %d; no line after it is enqueued", n)
}

// lines enqueues lines, and returns how many were confirmed. A line waits for others for
// batchFor at most, so one from a slow pipe is soon a job.
func (e Enqueue) lines(ctx context.Context, q *Queue, in io.Reader) (n int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan []byte)
	var bad error // of the input, once lines is closed
	go func() {   // which may stay in a read when ctx has ended
		defer close(lines)
		bad = readLines(ctx, in, lines)
	}()
	for {
		ms, more := e.gather(ctx, lines)
		if ctx.Err() != nil {
			if s := interrupted(ctx); s != nil {
				return n, &Interrupted{s, stoppedAfter(n)}
			}
			return n, errors.New("interrupted " + stoppedAfter(n))
		}
		if len(ms) > 0 {
			if err := q.Enqueue(ctx, ms...); err != nil {
				what := e.unsure(n+1, n+len(ms))
				if s := interrupted(ctx); s != nil {
					return n, &Interrupted{s, fmt.Sprintf("after line %d; %s", n, what)}
				}
				return n, fmt.Errorf("%s: %w", what, err)
			}
			n += len(ms)
		}
		if !more {
			if bad != nil {
				return n, fmt.Errorf("reading line %d: %w", n+1, bad)
			}
			return n, nil
		}
	}
}

// unsure says what to do about lines of which nobody knows whether they are enqueued.
func (e Enqueue) unsure(first, last int) string {
	which, all := fmt.Sprintf("lines %d to %d", first, last), " all"
	if first == last {
		which, all = fmt.Sprintf("line %d", first), ""
	}
	s := fmt.Sprintf("%s may not%s be enqueued; enqueue again from line %d", which, all, first)
	if e.Once {
		return s + ", with -once, within two minutes"
	}
	return s + fmt.Sprintf("; %s may then run twice", which)
}

// gather returns the lines that come together, as jobs, and whether there may be more.
func (e Enqueue) gather(ctx context.Context, lines <-chan []byte) (ms []jobs.Message, more bool) {
	var over <-chan time.Time // nil until there is a line
	size := 0
	for len(ms) < batch && size < batchBytes {
		select {
		case l, ok := <-lines:
			if !ok {
				return ms, false
			}
			m := jobs.Message{Data: l, Delay: e.Delay}
			if e.Type != "" {
				m.Header = jobs.Header{jobs.TypeHeader: e.Type}
			}
			if e.Once {
				sum := sha256.Sum256(l)
				m.ID = hex.EncodeToString(sum[:])
			}
			ms, size = append(ms, m), size+len(l)
			if over == nil {
				over = time.After(batchFor)
			}
		case <-over:
			return ms, true
		case <-ctx.Done():
			return nil, false
		}
	}
	return ms, true
}

// readLines sends the lines of in, until it ends, or ctx does.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	sc := bufio.NewScanner(in)
	sc.Split(splitLines)
	sc.Buffer(make([]byte, 0, 64<<10), MostLine+len("\r\n")+1)
	for sc.Scan() {
		if len(sc.Bytes()) > MostLine {
			return errLong
		}
		select {
		case lines <- bytes.Clone(sc.Bytes()):
		case <-ctx.Done():
			return nil
		}
	}
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		return errLong
	}
	return sc.Err()
}

// splitLines is bufio.ScanLines, but for a carriage return at the end of the input without a line
// feed: that is a part of the line.
func splitLines(data []byte, atEOF bool) (n int, line []byte, err error) {
	if atEOF && len(data) > 0 && bytes.IndexByte(data, '\n') < 0 {
		return len(data), data, nil
	}
	return bufio.ScanLines(data, atEOF)
}

var errLong = fmt.Errorf("it has more than %d bytes", MostLine)
