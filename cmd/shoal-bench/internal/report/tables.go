package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/seeds"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/show"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/where"
)

// Machine says in Markdown where and when r was measured, and with what.
func Machine(w io.Writer, r *race.Results) error {
	m := r.Machine
	_, err := fmt.Fprintf(w, "%s, %d CPUs, %s/%s, %s, %s; medians of %d", m.CPU, m.CPUs, m.OS, m.Arch, m.Go,
		r.Started.Format("2006-01-02"), r.Rounds)
	var seen []string
	for _, s := range r.Subjects {
		if s.Module == "" || s.Name == "shoal" {
			continue
		}
		if v := s.Module + " " + s.Version; len(seen) == 0 || seen[len(seen)-1] != v {
			seen = append(seen, v)
		}
	}
	for i, v := range seen {
		v = strings.TrimPrefix(v, "github.com/")
		_, err2 := fmt.Fprint(w, map[bool]string{true: "; beside ", false: ", "}[i == 0], v)
		err = cmp.Or(err, err2)
	}
	_, err2 := fmt.Fprintln(w, ".")
	return cmp.Or(err, err2)
}

// libraries are the subjects that are neither goroutines nor written by hand.
func libraries() (names []string) {
	for _, s := range bench.Subjects {
		if s.Module != "" && s.Name != "shoal" {
			names = append(names, s.Name)
		}
	}
	return names
}

// Tables writes rows as a table in Markdown: all rows and units of r, or, with
// fewer columns, those that names has, under the names given there: "row", for its first unit, or
// "row unit".
func Tables(w io.Writer, r *race.Results, names [][2]string) error {
	var b strings.Builder
	if names == nil {
		b.WriteString("| row | shoal | spread | goroutines | channel | best library | shoal : libraries, goroutines | shoal : all | baseline |\n" +
			"|---|---|---|---|---|---|---|---|---|\n")
	} else {
		b.WriteString("| | shoal | goroutines | channel | best library | shoal : best other | baseline |\n|---|---|---|---|---|---|---|\n")
	}
	line := func(row race.Row, unit, name string) {
		shoal := r.Figure(row, "shoal", unit)
		ratio := func(subjects ...string) string {
			_, f := r.Best(row, unit, subjects...)
			if !f.OK() || !shoal.OK() || f.Median == 0 {
				return "–"
			}
			return show.Ratio(shoal.Median / f.Median)
		}
		_, channel := r.Best(row, unit, "chan-buffered", "chan-unbuffered")
		peer, library := r.Best(row, unit, libraries()...)
		all := ratio(append(libraries(), "goroutines", "chan-buffered", "chan-unbuffered")...)
		cells := []string{
			name, show.Figure(shoal, unit), show.Spread(shoal), show.Figure(r.Figure(row, "goroutines", unit), unit),
			show.Figure(channel, unit), strings.TrimSpace(show.Figure(library, unit) + " " + peer),
			ratio(append(libraries(), "goroutines")...), all, show.Figure(r.Figure(row, bench.Baseline, unit), unit),
		}
		if names != nil {
			cells = []string{cells[0], cells[1], cells[3], cells[4], cells[5], "**" + all + "**", cells[8]}
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	if names == nil {
		for _, row := range r.Rows {
			for _, unit := range row.Units {
				name := row.Name
				if row.Procs != r.Rows[0].Procs {
					name = row.Key()
				}
				if len(row.Units) > 1 || unit != "ns/op" {
					name += ", " + show.What(unit)
				}
				line(row, unit, plain(name))
			}
		}
	}
	for _, n := range names {
		name, unit, _ := strings.Cut(n[0], " ")
		if row, ok := r.Row(name); ok {
			line(row, cmp.Or(unit, row.Units[0]), n[1])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// closeTo is the ratio of shoal to the best other above which a row is not
// clearly won: 1.3 times as fast.
const closeTo = 1 / 1.3

// Where writes, as a table in Markdown, where shoal's time went in the rows
// that it has lost or won by little, as far as there are profiles.
func Where(w io.Writer, r *race.Results) error {
	var b strings.Builder
	b.WriteString("| row | shoal : all | shoal : baseline | CPUs busy |")
	for _, p := range where.Parts {
		fmt.Fprintf(&b, " %s |", p)
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", 4+len(where.Parts)))
	for _, row := range r.Rows {
		s := r.Standing(row, row.Units[0])
		if row.Profile == nil || s.Ratio < closeTo {
			continue
		}
		baseline := math.NaN()
		if s.Baseline.OK() && s.Baseline.Median > 0 {
			baseline = s.Shoal.Median / s.Baseline.Median
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", plain(row.Name), show.Ratio(s.Ratio), show.Ratio(baseline), show.Percent(row.Profile.Busy))
		for _, p := range where.Parts {
			fmt.Fprintf(&b, " %s |", show.Percent(row.Profile.Shares[p]))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// plain takes benchstat's keys out of a name.
func plain(name string) string {
	return strings.NewReplacer("load=", "", "stack=", "", "tasks=", "", "submitters=", "", "leaves=", "", "of=", "", "task=", "").Replace(name)
}

// Seeds writes the pages of the seeds beside today as tables in Markdown.
func Seeds(w io.Writer, r *race.Results) error {
	var b strings.Builder
	for _, t := range seeds.Tables(r) {
		fmt.Fprintf(&b, "%s. %s\n\n| %s | %s |\n|---%s|\n", t.Page, t.Note, t.Page, strings.Join(t.Columns, " | "), strings.Repeat("|---", len(t.Columns)))
		for _, row := range t.Rows {
			fmt.Fprintf(&b, "| %s", row.Name)
			for _, v := range row.Ratios {
				fmt.Fprintf(&b, " | %s", show.Ratio(v))
			}
			b.WriteString(" |\n")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}
