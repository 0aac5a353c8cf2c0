package work

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	Once  bool          // skip a line that was enqueued lately
}

const (
	batch    = 256
	mostLine = 1 << 20
)

// Run enqueues the lines of in, and writes their number to stderr.
func (e Enqueue) Run(ctx context.Context, in io.Reader, stderr io.Writer) error {
	q, err := Open(ctx, e.Place)
	if err != nil {
		return err
	}
	start := time.Now()
	n, err := e.lines(ctx, q, in)
	took := time.Since(start)
	fmt.Fprintf(stderr, "enqueued %d jobs in %v into queue %s at %s\n", n, took.Round(time.Millisecond), e.Queue, q.Where)
	return errors.Join(err, q.Close())
}

// lines enqueues lines, and returns how many were confirmed.
func (e Enqueue) lines(ctx context.Context, q *Queue, in io.Reader) (n int, err error) {
	var ms []jobs.Message
	flush := func() error {
		if len(ms) == 0 {
			return nil
		}
		if err := q.Enqueue(ctx, ms...); err != nil {
			return fmt.Errorf("lines %d to %d may not all be enqueued; with -once the input can be enqueued again: %w", n+1, n+len(ms), err)
		}
		n += len(ms)
		ms = ms[:0]
		return nil
	}
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 0, 64<<10), mostLine)
	for sc.Scan() {
		m := jobs.Message{Data: append([]byte(nil), sc.Bytes()...), Delay: e.Delay}
		if e.Once {
			sum := sha256.Sum256(m.Data)
			m.ID = hex.EncodeToString(sum[:])
		}
		if ms = append(ms, m); len(ms) == batch {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	if err := flush(); err != nil {
		return n, err
	}
	if err := sc.Err(); err != nil {
		return n, fmt.Errorf("reading line %d, which may have at most %d bytes: %w", n+1, mostLine, err)
	}
	return n, nil
}
