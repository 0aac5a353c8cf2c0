package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// A report is what standard error gets to see: complaints, and how far things
// are. Only the counts are for use by several goroutines.
type report struct {
	files, bytes atomic.Int64

	w     io.Writer
	quiet bool
	live  bool             // w is a terminal: progress is one line, drawn again and again
	tick  <-chan time.Time // when to call progress; nil for never
	began time.Time
	drawn int // length of the line that is drawn; 0: none
}

func newReport(stdout, stderr io.Writer, quiet bool) *report {
	r := &report{w: stderr, quiet: quiet, began: time.Now()}
	sums, self := stat(stdout), stat(stderr)
	r.live = self != nil && self.Mode()&os.ModeCharDevice != 0
	switch {
	case quiet:
	case r.live && sums != nil && os.SameFile(sums, self):
		// The lines with the sums share the terminal; they are progress
		// enough, and would be torn.
		r.live = false
	case r.live:
		r.tick = time.Tick(100 * time.Millisecond)
	default:
		r.tick = time.Tick(2 * time.Second)
	}
	return r
}

// stat is nil for what is no file.
func stat(w io.Writer) os.FileInfo {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return info
}

func (r *report) String() string {
	files, mb := r.files.Load(), float64(r.bytes.Load())/1e6
	noun := "files"
	if files == 1 {
		noun = "file"
	}
	seconds := max(time.Since(r.began).Seconds(), 1e-3)
	return fmt.Sprintf("%d %s, %.1f MB, %.1f MB/s", files, noun, mb, mb/seconds)
}

// say prints a line.
func (r *report) say(s string) {
	if r.drawn > 0 {
		fmt.Fprintf(r.w, "\r%*s\r", r.drawn, "")
		r.drawn = 0
	}
	fmt.Fprintln(r.w, "checksum:", s)
}

func (r *report) progress() {
	if !r.live {
		r.say(r.String())
		return
	}
	s := r.String()
	fmt.Fprintf(r.w, "\r%-*s", r.drawn, s)
	r.drawn = len(s)
}

// last prints how far things got in the end.
func (r *report) last() {
	if !r.quiet {
		r.say(r.String())
	}
}

// oneLine is the text of err. The name of a file may hold anything, newlines
// and escape sequences of a terminal included; such a name is quoted.
func oneLine(err error) string {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err.Error()
	}
	path := e.Path
	if q := strconv.Quote(path); path == "" || len(q) != len(path)+len(`""`) {
		path = q
	}
	return fmt.Sprintf("%s %s: %v", e.Op, path, e.Err)
}
