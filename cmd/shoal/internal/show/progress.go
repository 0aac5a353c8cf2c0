// Package show is what a person sees in the terminal.
package show

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/shoal-go/shoal/cmd/shoal/internal/race"
)

// Terminal says whether f is one.
func Terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Progress returns a watcher that writes to f: a bar with what runs now and the
// time left in a terminal, plain lines elsewhere.
func Progress(f *os.File, rounds int) race.Watcher {
	if Terminal(f) {
		return &bar{w: f, rounds: rounds}
	}
	return &lines{w: f, rounds: rounds}
}

type bar struct {
	w      io.Writer
	rounds int
	bar    *progressbar.ProgressBar
}

func (b *bar) Checking() { fmt.Fprintln(b.w, "watching how busy this machine is, for a second") }

func (b *bar) Begin(total time.Duration) {
	b.bar = progressbar.NewOptions64(total.Milliseconds(),
		progressbar.OptionSetWriter(b.w),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetTheme(progressbar.ThemeUnicode),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
}

func (b *bar) Next(s race.Step) {
	b.bar.Describe(fmt.Sprintf("round %d of %d: %s, %s", s.Round, b.rounds, s.Row.Name, s.Subject))
}

func (b *bar) Done(s race.Step, m race.Measurement, takes time.Duration) {
	if m.Failure != "" {
		b.bar.Clear()
		fmt.Fprintf(b.w, "%s, %s: %s\n", s.Row.Name, s.Subject, m.Failure)
	}
	b.bar.Add64(takes.Milliseconds())
}

func (b *bar) End() { b.bar.Finish() }

type lines struct {
	w           io.Writer
	rounds      int
	begun       time.Time
	total, done time.Duration
}

func (l *lines) Checking() { fmt.Fprintln(l.w, "watching how busy this machine is, for a second") }

func (l *lines) Begin(total time.Duration) {
	l.begun, l.total = time.Now(), total
	fmt.Fprintf(l.w, "about %s to go\n", roundly(total))
}

func (l *lines) Next(race.Step) {}

func (l *lines) Done(s race.Step, m race.Measurement, takes time.Duration) {
	l.done += takes
	left := time.Duration(float64(time.Since(l.begun)) * float64(l.total-l.done) / float64(l.done))
	said := m.Failure
	if said == "" {
		unit := s.Row.Units[0]
		said = Amount(m.Values[unit], unit)
	}
	fmt.Fprintf(l.w, "round %d of %d, %s left: %s, %s: %s\n", s.Round, l.rounds, roundly(left), s.Row.Name, s.Subject, said)
}

func (l *lines) End() {}

// roundly writes a time as a person would say it.
func roundly(d time.Duration) string {
	if d > 2*time.Minute {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
