package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/shoal-go/shoal"
)

// lookAhead is how many files the walk may be ahead of the output. It bounds
// the memory and the files open at a time, and how much can be read while a
// large file holds up the output.
const lookAhead = 1024

// A file goes two ways at once: into the pool to be read, and down a channel
// that keeps the order.
type file struct {
	path string
	done chan struct{} // closed when sum and err are final
	sum  [sha256.Size]byte
	err  error
}

// sumAll prints a line for every file under dir. It reports whether any file
// failed (r has the errors), or returns the error that ended it early: that of
// ctx, or of a write to out.
func sumAll(ctx context.Context, pool *shoal.Pool, dir root, r *report, out io.Writer) (failed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	order := make(chan *file, lookAhead)
	go func() {
		defer close(order)
		walk(ctx, pool, dir, r, order)
	}()
	defer func() {
		cancel()
		for range order { // until the walk has ended
		}
	}()

	var next *file // to print; nil: not known yet
	for ctx.Err() == nil {
		known, done := order, (chan struct{})(nil)
		if next != nil {
			known, done = nil, next.done
		}
		select {
		case f, ok := <-known:
			if !ok {
				return failed, ctx.Err()
			}
			next = f
		case <-done:
			switch {
			case ctx.Err() != nil: // perhaps the reason of next.err
			case next.err != nil:
				failed = true
				r.say(oneLine(next.err))
			default:
				// One write each: nobody sees a part of a line, nor waits for
				// lines that are known.
				if _, err := io.WriteString(out, line(next.path, next.sum[:])); err != nil {
					return failed, err
				}
			}
			next = nil
		case <-r.tick:
			r.progress()
		case <-ctx.Done():
		}
	}
	return failed, ctx.Err()
}

// walk sends all files under dir to order and submits them to the pool. It
// returns early when ctx ends.
func walk(ctx context.Context, pool *shoal.Pool, dir root, r *report, order chan<- *file) {
	// The error is ctx's, or is with the file that it stopped at.
	_ = filepath.WalkDir(dir.real, func(walked string, d fs.DirEntry, err error) error {
		if err == nil && !d.Type().IsRegular() {
			return nil
		}
		f := &file{path: dir.path(walked), done: make(chan struct{})}
		select {
		case order <- f: // first, so that the order bounds what is submitted
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil { // f is a directory
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				err = &fs.PathError{Op: e.Op, Path: f.path, Err: e.Err}
			}
			f.err = err
			close(f.done)
			return nil
		}
		err = pool.SubmitContext(ctx, func(ctx context.Context) {
			f.err = f.read(ctx, r)
			close(f.done)
		})
		if err != nil {
			f.err = err
			close(f.done)
		}
		return err
	})
}

// A reader is what it takes to read a file, kept for the next one.
type reader struct {
	hash hash.Hash
	buf  [128 << 10]byte
}

var readers = sync.Pool{New: func() any { return &reader{hash: sha256.New()} }}

// read sets f.sum. It is written out because io.CopyBuffer does not use its
// buffer for an os.File, and would neither look at ctx nor count.
func (f *file) read(ctx context.Context, r *report) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	rd := readers.Get().(*reader)
	defer readers.Put(rd)
	rd.hash.Reset()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := in.Read(rd.buf[:])
		rd.hash.Write(rd.buf[:n])
		r.bytes.Add(int64(n))
		switch {
		case err == io.EOF:
			rd.hash.Sum(f.sum[:0])
			r.files.Add(1)
			return nil
		case err != nil:
			return err
		}
	}
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)

// line is what sha256sum prints. A backslash in front says that the path had
// to be escaped.
func line(path string, sum []byte) string {
	mark := ""
	escaped := escape.Replace(path)
	if escaped != path {
		mark = `\`
	}
	return mark + hex.EncodeToString(sum) + "  " + escaped + "\n"
}
