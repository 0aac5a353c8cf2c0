package show

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
)

// Amount writes three digits of v, and times and sizes in the unit that suits
// them.
func Amount(v float64, unit string) string {
	if math.IsNaN(v) {
		return "–"
	}
	name := unit
	switch {
	case strings.HasPrefix(unit, "ns/"):
		name = scale(&v, 1000, "ns", "µs", "ms", "s") + strings.TrimPrefix(unit, "ns")
	case strings.HasSuffix(unit, "-µs"):
		v *= 1000
		name = scale(&v, 1000, "ns", "µs", "ms", "s")
	case strings.HasPrefix(unit, "B/"):
		name = scale(&v, 1024, "B", "KiB", "MiB")
	case unit == "max-goroutines":
		name = "goroutines"
	case unit == "undone-%":
		name = "%"
	case unit == "MB-heap":
		name = "MB"
	case strings.HasSuffix(unit, ":ideal"):
		name = "× ideal"
	}
	name = strings.TrimSuffix(name, "/op")
	return digits(v) + " " + name
}

// scale divides v by step until it is below, and returns the name for that.
func scale(v *float64, step float64, names ...string) string {
	i := 0
	for i < len(names)-1 && math.Abs(*v) >= step {
		*v /= step
		i++
	}
	return names[i]
}

func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// Figure writes a median.
func Figure(f race.Figure, unit string) string {
	if !f.OK() {
		return "–"
	}
	return Amount(f.Median, unit)
}

// Ratio writes shoal's figure to that of another.
func Ratio(r float64) string {
	if math.IsNaN(r) {
		return "–"
	}
	return strconv.FormatFloat(r, 'f', 2, 64)
}

// Percent writes a share.
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// Spread writes how far the rounds were from their median.
func Spread(f race.Figure) string {
	if f.N < 2 || f.Median == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f–%.2f", f.Low/f.Median, f.High/f.Median)
}

// What labels a unit in a table of rows.
func What(unit string) string {
	switch unit {
	case "ns/op":
		return "time"
	case "ns/task":
		return "time a task"
	case "B/submit":
		return "memory a task"
	case "B/worker":
		return "memory a worker"
	case "B/pool":
		return "memory a pool"
	case "max-goroutines":
		return "most goroutines"
	case "undone-%":
		return "left undone"
	case "MB-heap":
		return "largest heap"
	}
	if q, ok := strings.CutSuffix(unit, ":ideal"); ok {
		return q + " beside the ideal"
	}
	if q, ok := strings.CutSuffix(unit, "-late-µs"); ok {
		return q + " late"
	}
	return strings.TrimSuffix(unit, "-µs")
}

func newTable(w io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Options.DrawBorder = false
	t.Style().Format.Header = text.FormatDefault
	return t
}

// Table prints how shoal did, losses first.
func Table(to io.Writer, r *race.Results, colours bool) error {
	w := new(bytes.Buffer) // so that there is one write that can fail
	if colours {
		text.EnableColors()
	} else {
		text.DisableColors()
	}
	standings := r.Standings()
	slices.SortStableFunc(standings, func(a, b race.Standing) int {
		return cmp.Or(cmp.Compare(a.Verdict(), b.Verdict()), cmp.Compare(-a.Ratio, -b.Ratio))
	})
	t := newTable(w)
	several := r.SeveralProcs()
	t.AppendHeader(table.Row{"workload", "shoal", "spread", "best other", "", "shoal : best", "baseline"})
	right := table.ColumnConfig{Align: text.AlignRight}
	var configs []table.ColumnConfig
	for _, n := range []int{2, 4, 6, 7} {
		right.Number = n
		configs = append(configs, right)
	}
	t.SetColumnConfigs(configs)
	var notes []string
	for _, s := range standings {
		name := s.Row.Name
		if several {
			name = s.Row.Key()
		}
		if s.Unit != "ns/op" {
			name += ", " + What(s.Unit)
		}
		t.AppendRow(table.Row{
			name, Figure(s.Shoal, s.Unit), Spread(s.Shoal), Figure(s.Best, s.Unit), s.Peer,
			colour(s.Verdict()).Sprint(Ratio(s.Ratio)), Figure(s.Baseline, s.Unit),
		})
		for _, l := range s.Losers {
			notes = append(notes, name+", "+l)
		}
	}
	t.Render()
	fmt.Fprintln(w)
	for _, n := range notes {
		fmt.Fprintln(w, text.FgRed.Sprint("failed: ")+n)
	}
	count := map[race.Verdict]int{}
	for _, s := range standings {
		count[s.Verdict()]++
	}
	fmt.Fprintf(w, "%s, %s, %s. Less is better everywhere; medians of %d; the baseline is the same work without a pool.\n",
		text.FgGreen.Sprintf("%d won", count[race.Win]), text.FgYellow.Sprintf("%d level", count[race.Level]),
		text.FgRed.Sprintf("%d lost", count[race.Loss]), r.Rounds)
	m := r.Machine
	fmt.Fprintf(w, "%s, %d CPUs, %s, %s/%s", m.CPU, m.CPUs, m.Go, m.OS, m.Arch)
	if !r.SeveralProcs() && len(r.Rows) > 0 && r.Rows[0].Procs != m.CPUs {
		fmt.Fprintf(w, ", GOMAXPROCS %d", r.Rows[0].Procs)
	}
	for _, s := range r.Subjects {
		if s.Module != "" {
			fmt.Fprintf(w, "; %s %s", s.Name, s.Version)
		}
	}
	fmt.Fprintln(w)
	if m.Noisy() {
		fmt.Fprintln(w, text.FgYellow.Sprint(Noise(m)))
	}
	_, err := w.WriteTo(to)
	return err
}

// Noise is the warning about a machine that was busy.
func Noise(m race.Machine) string {
	share := func(busy float64) string {
		if busy < 0 {
			return "an unknown share"
		}
		return Percent(busy / 100)
	}
	return fmt.Sprintf("The machine was not quiet: other programs used %s of its CPUs before the measurements and %s after them. Do not trust single figures.",
		share(m.BusyBefore), share(m.BusyAfter))
}

func colour(v race.Verdict) text.Color {
	switch v {
	case race.Loss:
		return text.FgRed
	case race.Level:
		return text.FgYellow
	case race.Win:
		return text.FgGreen
	default:
		return text.Reset
	}
}

// List prints the workloads and the subjects of a plan.
func List(to io.Writer, r *race.Results) error {
	w := new(bytes.Buffer)
	t := newTable(w)
	t.AppendHeader(table.Row{"workload", "from", "what"})
	for _, row := range r.Rows {
		t.AppendRow(table.Row{row.Name, row.Source, row.What})
	}
	t.Render()
	fmt.Fprintln(w, "\nwhat a user would notice:")
	feel := ""
	for _, row := range r.Rows {
		if row.Feel != feel {
			feel = row.Feel
			fmt.Fprintf(w, "  %-24s %s\n", row.Name, feel)
		}
	}
	fmt.Fprintln(w, "\nsubjects:")
	for _, s := range r.Subjects {
		fmt.Fprintf(w, "  %-16s %s\n", s.Name, strings.TrimSpace(s.Module+" "+s.Version))
	}
	fmt.Fprintln(w, "  baseline         the same work without a pool")
	_, err := w.WriteTo(to)
	return err
}
