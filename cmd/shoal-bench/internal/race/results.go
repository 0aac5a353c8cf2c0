// Package race measures every workload with every subject, each measurement
// in a process of its own.
package race

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchmath"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/where"
)

// Results are all that one run of the race found, as they are kept in
// results.json.
type Results struct {
	Started      time.Time     `json:"started"`
	Finished     time.Time     `json:"finished"`
	Interrupted  bool          `json:"interrupted"`
	Rounds       int           `json:"rounds"`
	Machine      Machine       `json:"machine"`
	Subjects     []Subject     `json:"subjects"`
	Rows         []Row         `json:"rows"`
	Measurements []Measurement `json:"measurements"`
}

// Machine is where it ran.
type Machine struct {
	CPU  string `json:"cpu"`
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	Go   string `json:"go"`
	// BusyBefore and BusyAfter are the share of all CPUs, in percent, that
	// others used in the second before the first and after the last
	// measurement; -1 if that could not be found out.
	BusyBefore float64 `json:"busy_before_percent"`
	BusyAfter  float64 `json:"busy_after_percent"`
}

// NoisyPercent is how busy a machine may be with other things before a race.
const NoisyPercent = 5

// Noisy says whether the machine was busy with something else.
func (m Machine) Noisy() bool { return m.BusyBefore > NoisyPercent || m.BusyAfter > NoisyPercent }

// Subject is a contestant, with the version that was measured.
type Subject struct {
	Name    string `json:"name"`
	Module  string `json:"module,omitempty"`
	Version string `json:"version"`
}

// Row is a workload at one GOMAXPROCS.
type Row struct {
	Name     string   `json:"name"`
	What     string   `json:"what"`
	Feel     string   `json:"feel"` // what a user would notice
	Source   string   `json:"source"`
	Units    []string `json:"units"`
	Procs    int      `json:"procs"`
	Subjects []string `json:"subjects"` // that take part; the baseline is the last

	Profile *where.Profile `json:"profile,omitempty"` // of shoal

	workload bench.Workload
}

// Key tells rows apart.
func (r Row) Key() string { return fmt.Sprintf("%s-%d", r.Name, r.Procs) }

// FileName is what a file about the row with that key, or about a family, is
// called.
func FileName(key string) string { return strings.NewReplacer("/", "-", "=", "-").Replace(key) }

// Family is the first part of the name.
func (r Row) Family() string { return bench.Workload{Name: r.Name}.Family() }

// Measurement is what one process said.
type Measurement struct {
	Row        string             `json:"row"` // its name
	Procs      int                `json:"procs"`
	Subject    string             `json:"subject"`
	Round      int                `json:"round"` // from 1
	Iterations int                `json:"iterations,omitempty"`
	Values     map[string]float64 `json:"values,omitempty"` // by unit
	Failure    string             `json:"failure,omitempty"`
}

// Figure is the median of what several rounds found.
type Figure struct {
	Median, Low, High float64
	N                 int
	Failures          []string
}

// OK says whether there is a figure at all.
func (f Figure) OK() bool { return f.N > 0 }

// Figure sums up one row, subject and unit.
func (r *Results) Figure(row Row, subject, unit string) Figure {
	var f Figure
	var values []float64
	for _, m := range r.Measurements {
		if m.Row != row.Name || m.Procs != row.Procs || m.Subject != subject {
			continue
		}
		if m.Failure != "" {
			f.Failures = append(f.Failures, m.Failure)
		} else if v, ok := m.Values[unit]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return f
	}
	sample := benchmath.NewSample(values, &benchmath.DefaultThresholds)
	f.Median = benchmath.AssumeNothing.Summary(sample, 0.95).Center
	f.Low, f.High, f.N = slices.Min(values), slices.Max(values), len(values)
	return f
}

// Best is the subject with the lowest median, the first of equals, and its
// figure. The name is empty if there is no figure.
func (r *Results) Best(row Row, unit string, subjects ...string) (name string, best Figure) {
	for _, s := range subjects {
		if f := r.Figure(row, s, unit); f.OK() && (!best.OK() || f.Median < best.Median) {
			name, best = s, f
		}
	}
	return name, best
}

// Row finds the first row of that name.
func (r *Results) Row(name string) (row Row, ok bool) {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Name == name })
	if i < 0 {
		return row, false
	}
	return r.Rows[i], true
}

// SeveralProcs says whether rows were measured at different GOMAXPROCS.
func (r *Results) SeveralProcs() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Procs != r.Rows[0].Procs })
}

// NamesProcs reports whether GOMAXPROCS of row must be named: rows differ in it, or it is not the number of CPUs.
func (r *Results) NamesProcs(row Row) bool { return r.SeveralProcs() || row.Procs != r.Machine.CPUs }

// Only keeps the rows and the subjects whose names match, and what was measured of them. It is an error if
// there are none.
func (r *Results) Only(run, pools *regexp.Regexp) error {
	matched := false
	r.Rows = slices.DeleteFunc(r.Rows, func(row Row) bool {
		if !run.MatchString(row.Name) {
			return true
		}
		matched = true
		return !slices.ContainsFunc(row.Subjects, pools.MatchString)
	})
	if err := nothing(matched, len(r.Rows), run, pools); err != nil {
		return err
	}
	for i := range r.Rows {
		r.Rows[i].Subjects = slices.DeleteFunc(r.Rows[i].Subjects, func(s string) bool { return !pools.MatchString(s) })
	}
	r.Subjects = slices.DeleteFunc(r.Subjects, func(s Subject) bool { return !pools.MatchString(s.Name) })
	r.Measurements = slices.DeleteFunc(r.Measurements, func(m Measurement) bool {
		return !run.MatchString(m.Row) || !pools.MatchString(m.Subject)
	})
	return nil
}

// nothing is the error if no row is left.
func nothing(matched bool, rows int, run, pools *regexp.Regexp) error {
	switch {
	case !matched:
		return fmt.Errorf("no workload matches -run %q; -list names them", run)
	case rows == 0:
		return fmt.Errorf("no subject matches -pools %q; -list names them", pools)
	}
	return nil
}

// Standing is how shoal did in one row and unit.
type Standing struct {
	Row      Row
	Unit     string
	Shoal    Figure
	Peer     string // the best of the others
	Best     Figure // its figure
	Baseline Figure
	Ratio    float64 // shoal : best peer, or NaN
	Losers   []string
}

// Verdict of a standing.
type Verdict int

// The verdicts, the worst first. Level is when the medians are within a tenth, and the rounds of
// shoal and of the best peer overlap or are too few to tell.
const (
	Loss Verdict = iota
	Level
	Win
	Unknown
)

// Verdict says whether shoal is ahead.
func (s Standing) Verdict() Verdict {
	overlap := s.Shoal.N < 3 || s.Best.N < 3 || s.Shoal.Low <= s.Best.High && s.Best.Low <= s.Shoal.High
	switch {
	case math.IsNaN(s.Ratio):
		return Unknown
	case overlap && s.Ratio < 1.1 && s.Ratio > 0.9:
		return Level
	case s.Ratio < 1:
		return Win
	default:
		return Loss
	}
}

// Standing compares shoal with the best of the others, the baseline not among
// them.
func (r *Results) Standing(row Row, unit string) Standing {
	s := Standing{
		Row: row, Unit: unit, Ratio: math.NaN(),
		Shoal: r.Figure(row, "shoal", unit), Baseline: r.Figure(row, bench.Baseline, unit),
	}
	var others []string
	for _, subject := range row.Subjects {
		f := r.Figure(row, subject, unit)
		if subject != "shoal" && subject != bench.Baseline {
			others = append(others, subject)
		}
		for _, why := range slices.Compact(slices.Sorted(slices.Values(f.Failures))) {
			s.Losers = append(s.Losers, subject+": "+why)
		}
	}
	s.Peer, s.Best = r.Best(row, unit, others...)
	if s.Shoal.OK() && s.Best.OK() && s.Best.Median > 0 {
		s.Ratio = s.Shoal.Median / s.Best.Median
	}
	return s
}

// Standings are those of every row, by its first unit.
func (r *Results) Standings() []Standing {
	var all []Standing
	for _, row := range r.Rows {
		all = append(all, r.Standing(row, row.Units[0]))
	}
	return all
}

// Failed counts the measurements that failed.
func (r *Results) Failed() int {
	n := 0
	for _, m := range r.Measurements {
		if m.Failure != "" {
			n++
		}
	}
	return n
}

// WriteJSON writes the results as results.json has them.
func (r *Results) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	return e.Encode(r)
}

// Read reads a results.json.
func Read(file string) (*Results, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Results)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(r.Rows) == 0 {
		return nil, fmt.Errorf("%s has no rows", file)
	}
	for i, row := range r.Rows {
		if len(row.Units) == 0 || row.Procs < 1 {
			return nil, fmt.Errorf("%s: row %d, %q, has no unit or no GOMAXPROCS", file, i+1, row.Name)
		}
		if len(row.Subjects) == 0 {
			return nil, fmt.Errorf("%s: row %d, %q, has no subjects", file, i+1, row.Name)
		}
	}
	return r, nil
}
