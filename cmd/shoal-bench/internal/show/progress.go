// Package show is what a person sees in the terminal.
package show

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
)

// Terminal says whether f is one.
func Terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Progress returns a watcher that writes to f: a bar with what runs now and the
// time left in a terminal, plain lines elsewhere.
func Progress(f *os.File, rounds int) race.Watcher {
	if Terminal(f) {
		return &bar{clock: clock{w: f, rounds: rounds}}
	}
	return &lines{clock{w: f, rounds: rounds}}
}

// clock is what both watchers have: it knows how much time is left.
type clock struct {
	w           io.Writer
	rounds      int
	begun       time.Time
	total, done time.Duration
}

func (c *clock) Checking() { fmt.Fprintln(c.w, "measuring for a second how busy this machine is") }

func (c *clock) begin(total time.Duration) { c.begun, c.total, c.done = time.Now(), total, 0 }

// left goes by what was planned, until it knows better.
func (c *clock) left() time.Duration {
	if c.done < c.total/50 {
		return c.total - c.done
	}
	return time.Duration(float64(time.Since(c.begun)) * float64(c.total-c.done) / float64(c.done))
}

// turn says which round s belongs to.
func (c *clock) turn(s race.Step) string {
	if s.Round > c.rounds {
		return "profiles"
	}
	return fmt.Sprintf("round %d of %d", s.Round, c.rounds)
}

type bar struct {
	clock
	bar *progressbar.ProgressBar
}

func (b *bar) Begin(total time.Duration) {
	b.begin(total)
	b.bar = progressbar.NewOptions64(total.Milliseconds(),
		progressbar.OptionSetWriter(b.w),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░", BarStart: "", BarEnd: ""}),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
}

func (b *bar) Next(s race.Step) {
	b.bar.Describe(fmt.Sprintf("%s left, %s: %s, %s", roundly(b.left()), b.turn(s), s.Row.Name, s.Subject))
}

func (b *bar) Done(s race.Step, m race.Measurement, takes time.Duration) {
	if m.Failure != "" {
		b.bar.Clear()
		fmt.Fprintf(b.w, "%s, %s: %s\n", s.Row.Name, s.Subject, m.Failure)
	}
	b.done += takes
	b.bar.Add64(takes.Milliseconds())
}

func (b *bar) End() { b.bar.Finish() }

type lines struct{ clock }

func (l *lines) Begin(total time.Duration) {
	l.begin(total)
	fmt.Fprintf(l.w, "this takes about %s\n", roundly(total))
}

func (l *lines) Next(race.Step) {}

func (l *lines) Done(s race.Step, m race.Measurement, takes time.Duration) {
	l.done += takes
	said := m.Failure
	if said == "" {
		unit := s.Row.Units[0]
		said = Amount(m.Values[unit], unit)
	}
	fmt.Fprintf(l.w, "%s, %s left: %s, %s: %s\n", l.turn(s), roundly(l.left()), s.Row.Name, s.Subject, said)
}

func (l *lines) End() {}

// roundly writes a time as a person would say it.
func roundly(d time.Duration) string {
	if d > 2*time.Minute {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
