// Command figures puts the figures of a race into README.md and
// docs/performance.md, between the marks that are there for them, and its
// plots into docs/figures. It takes the folder that shoal-bench -out has
// written, and perhaps more, of later runs, whose rows replace those of the
// first, but for rows with shoal alone, of which only the profile is taken;
// and runs in the root of the repository:
//
//	go run ./cmd/shoal-bench/internal/figures figures
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/bench/marks"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/report"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/show"
)

// chief are the rows of the README: a few that are won, and those that show what is
// lost.
var chief = [][2]string{
	{"Rand/load=1u-1Mt", "1 user, 1,000,000 tasks of `rand.Float64`"},
	{"Rand/load=1Mu-1t", "1,000,000 users, one task each"},
	{"Sleep/load=1u-1Mt", "1 user, 1,000,000 sleeps of 10 ms"},
	{"Burst/stack=deep", "bursts of 48, deep stacks"},
	{"Saturated/stack=deep", "48 workers saturated, deep stacks"},
	{"Submitters/submitters=100", "100 submitters, 1,000,000 empty tasks"},
	{"FanOut/leaves=65536", "recursive fan-out, 65,536 leaves"},
	{"SubmitWait", "submit one, wait for it"},
	{"Latency/load=80 p50:ideal", "median wait at 80 % load, beside an ideal queue"},
	{"Startup", "make a pool, run a task, close it"},
	{"Memory/of=backlog", "memory a waiting task"},
	{"Memory/of=worker", "memory an idle worker"},
}

// pictures are the plots that the documents show.
var pictures = []string{"Rand/load=1u-1Mt", "Sleep/load=1u-1Mt", "Latency/load=80", "Neighbour", "Scale"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("name the folder of at least one report, as shoal-bench -out has written it")
	}
	var r *race.Results
	folder := map[string]string{} // where the plot of a row is
	for _, dir := range args {
		later, err := race.Read(filepath.Join(dir, "results.json"))
		if err != nil {
			return err
		}
		for _, row := range later.Rows {
			if r == nil || len(row.Subjects) > 1 {
				folder[row.Key()] = dir
			}
		}
		if r == nil {
			r = later
			continue
		}
		r.Measurements = slices.DeleteFunc(r.Measurements, func(m race.Measurement) bool {
			return folder[race.Row{Name: m.Row, Procs: m.Procs}.Key()] == dir
		})
		for _, m := range later.Measurements {
			if folder[race.Row{Name: m.Row, Procs: m.Procs}.Key()] == dir {
				r.Measurements = append(r.Measurements, m)
			}
		}
		for _, now := range later.Rows {
			i := slices.IndexFunc(r.Rows, func(row race.Row) bool { return row.Key() == now.Key() })
			switch {
			case i < 0:
				r.Rows = append(r.Rows, now)
			case folder[now.Key()] == dir:
				now.Profile = cmp.Or(now.Profile, r.Rows[i].Profile)
				r.Rows[i] = now
			case now.Profile != nil:
				r.Rows[i].Profile = now.Profile
			}
		}
		for _, now := range later.Subjects {
			if !slices.ContainsFunc(r.Subjects, func(s race.Subject) bool { return s.Name == now.Name }) {
				r.Subjects = append(r.Subjects, now)
			}
		}
	}
	place := map[string]int{} // in the order of the list of workloads
	for i, w := range bench.Workloads {
		place[w.Name] = i
	}
	slices.SortStableFunc(r.Rows, func(a, b race.Row) int { return place[a.Name] - place[b.Name] })
	parts := map[string]func(io.Writer) error{
		"machine":   func(w io.Writer) error { return report.Machine(w, r) },
		"chief":     func(w io.Writer) error { return report.Tables(w, r, chief) },
		"rows":      func(w io.Writer) error { return report.Tables(w, r, nil) },
		"where":     func(w io.Writer) error { return report.Where(w, r) },
		"neighbour": func(w io.Writer) error { return neighbour(w, r) },
		"seeds":     func(w io.Writer) error { return report.Seeds(w, r) },
	}
	for _, file := range []string{"README.md", filepath.Join("docs", "performance.md")} {
		if err := marks.Fill(file, "figures", parts); err != nil {
			return err
		}
	}
	dir := filepath.Join("docs", "figures")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, p := range pictures {
		name, from := p, args[0] // a whole family
		if row, ok := r.Row(p); ok {
			name, from = row.Key(), folder[row.Key()]
		}
		data, err := os.ReadFile(filepath.Join(from, "plots", report.PlotFile(name)))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, report.PlotFile(p)), data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// neighbour is the table of manners.
func neighbour(w io.Writer, r *race.Results) error {
	row, ok := r.Row("Neighbour")
	if !ok {
		return fmt.Errorf("the results have no workload Neighbour")
	}
	units := []string{"p50-late-µs", "p99-late-µs", "max-goroutines", "ns/op"}
	fmt.Fprint(w, "| pool | late, p50 | late, p99 | goroutines | time per task |\n|---|---|---|---|---|\n")
	for _, s := range row.Subjects {
		fmt.Fprintf(w, "| %s |", s)
		for _, u := range units {
			f := r.Figure(row, s, u)
			text := show.Figure(f, u)
			if u == "max-goroutines" && f.OK() {
				text = fmt.Sprintf("%.0f", f.Median)
			}
			fmt.Fprintf(w, " %s |", text)
		}
		fmt.Fprintln(w)
	}
	return nil
}
