package work

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// Builtins are what work can do without a program, and what for.
var Builtins = map[string]string{
	"print":  "print the job",
	"sha256": "hash the file that the job names",
	"sleep":  "sleep for as long as the job says",
}

func (w Work) builtin(r *reporter) jobs.Handler {
	return func(ctx context.Context, j *jobs.Job) error {
		switch w.Do {
		case "print":
			return r.output(j, fmt.Appendf(nil, "%s\n", j.Data))
		case "sha256":
			sum, err := sumOf(ctx, string(j.Data))
			if err != nil {
				return err
			}
			return r.output(j, fmt.Appendf(nil, "%x  %s\n", sum, j.Data))
		case "sleep":
			d, err := time.ParseDuration(string(j.Data))
			if err != nil {
				return jobs.Poison(err)
			}
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return fmt.Errorf("there is no work %q", w.Do)
	}
}

// sumOf hashes a file, until ctx ends.
func sumOf(ctx context.Context, file string) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // else a named pipe may take for ever
	if err != nil {
		return nil, jobs.Poison(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, jobs.Poison(err)
	}
	if !info.Mode().IsRegular() { // a device may have no end
		return nil, jobs.Poison(fmt.Errorf("%s is no regular file", file))
	}
	h := sha256.New()
	if _, err := io.Copy(h, ctxReader{ctx, f}); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// A ctxReader reads until its context ends.
type ctxReader struct {
	ctx context.Context
	io.Reader
}

func (r ctxReader) Read(b []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(b)
}
