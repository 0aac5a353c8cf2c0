// Package seeds has what the pages of pond, Flock and taskgo say of their own
// speed, and sets it beside what was measured here.
package seeds

import (
	"bytes"
	_ "embed"
	"math"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
)

// pondPage are the lines of results on pond's page, unchanged.
//
//go:embed pond.txt
var pondPage []byte

// A Table sets one page beside today. All figures are ratios of times within
// one source: below 1 the first is faster.
type Table struct {
	Page    string // whose
	Note    string // what to know before comparing
	Columns []string
	Rows    []Row
}

// Row is one workload. A NaN is a figure that nobody has.
type Row struct {
	Name   string
	Ratios []float64
}

// Tables are those with at least one row that r measured.
func Tables(r *race.Results) []Table {
	var kept []Table
	for _, t := range []Table{pond(r), flock(r), taskgo(r)} {
		measured := false
		for _, row := range t.Rows {
			for i, v := range row.Ratios {
				measured = measured || strings.HasPrefix(t.Columns[i], "here") && !math.IsNaN(v)
			}
		}
		if measured {
			kept = append(kept, t)
		}
	}
	return kept
}

// today is the best of some subjects to the best of others, in the first row
// of that name.
func today(r *race.Results, name, unit string, some, others []string) float64 {
	row, _ := r.Row(name)
	_, one := r.Best(row, unit, some...)
	_, other := r.Best(row, unit, others...)
	if !one.OK() || !other.OK() {
		return math.NaN()
	}
	return one.Median / other.Median
}

var (
	shoal      = []string{"shoal"}
	goroutines = []string{"goroutines"}
	ponds      = []string{"pond-eager", "pond-balanced", "pond-lazy"}
)

func pond(r *race.Results) Table {
	t := Table{
		Page: "pond",
		Note: "pond is the best of its three strategies. The page says that users of 1Ku-1Kt and 10Ku-100t pause 10 ms " +
			"between tasks; its own figures exclude that, because 1,000 tasks with 10 ms between them take ten seconds and the " +
			"page shows less than one. So nobody pauses here.",
		Columns: []string{"page, 8 CPUs: pond : goroutines", "page, 4 CPUs: pond : goroutines", "here: pond : goroutines",
			"here: shoal : pond", "here: shoal : goroutines"},
	}
	page := readPond()
	for _, kind := range []struct{ ours, theirs string }{{"Rand", "AllRandFloat64"}, {"Sleep", "AllSleep10ms"}} {
		for _, load := range []string{"1u-1Mt", "100u-10Kt", "1Ku-1Kt", "10Ku-100t", "1Mu-1t"} {
			published := func(cpus string) float64 {
				best := math.NaN()
				for _, s := range []string{"Pond-Eager", "Pond-Balanced", "Pond-Lazy"} {
					if v, ok := page[kind.theirs+"/"+load+"/"+s+cpus]; ok && !(v >= best) {
						best = v
					}
				}
				if g, ok := page[kind.theirs+"/"+load+"/Goroutines"+cpus]; ok {
					return best / g
				}
				return math.NaN()
			}
			name := kind.ours + "/load=" + load
			t.Rows = append(t.Rows, Row{kind.ours + " " + load, []float64{
				published("-8"), published("-4"),
				today(r, name, "ns/op", ponds, goroutines),
				today(r, name, "ns/op", shoal, ponds),
				today(r, name, "ns/op", shoal, goroutines),
			}})
		}
	}
	return t
}

// readPond returns the times of pond's page by name.
func readPond() map[string]float64 {
	times := map[string]float64{}
	reader := benchfmt.NewReader(bytes.NewReader(pondPage), "pond.txt")
	for reader.Scan() {
		switch rec := reader.Result().(type) {
		case *benchfmt.Result:
			if v, ok := rec.Value("sec/op"); ok {
				times[string(rec.Name)] = v
			}
		case *benchfmt.SyntaxError:
			panic(rec) // a test reads them all
		}
	}
	return times
}

func flock(r *race.Results) Table {
	t := Table{
		Page: "Flock",
		Note: "Time a task. The page's tasks of 1 and 10 µs are as quick as its instant ones, so they cannot have taken that long; " +
			"here they compute for that time. Flock itself is not among the subjects.",
		Columns: []string{"page: Flock : goroutines", "here: shoal : goroutines"},
	}
	for _, row := range []struct {
		name, load string
		published  float64
	}{
		{"instant", "instant", 4.0 / 5.6}, // tasks a second, so upside down
		{"1 µs", "1us", 3.5 / 5.4},
		{"10 µs", "10us", 3.2 / 5.0},
		{"CPU-bound", "cpu", 188.9 / 262.6},
		{"mixed, 10 % slow", "mixed", 362.4 / 725.2},
		{"burst of 100", "burst", 273.8 / 1198.9},
		{"100 submitters", "submitters", 309.5 / 1433},
		{"GC pressure", "gc", 189.1 / 250.3},
	} {
		t.Rows = append(t.Rows, Row{row.name, []float64{
			row.published, today(r, "Flock/task="+row.load, "ns/op", shoal, goroutines),
		}})
	}
	return t
}

func taskgo(r *race.Results) Table {
	t := Table{
		Page: "taskgo",
		Note: "taskgo-Reuse keeps its workers, the other two on its page do not. taskgo itself is not among the subjects, so shoal is set " +
			"beside the best other here.",
		Columns: []string{"page: taskgo-Reuse : best of its others", "here: shoal : best other"},
	}
	for _, row := range []struct {
		name                string
		reuse, noReuse, lxz float64 // milliseconds
	}{
		{"Burst/stack=deep", 81, 462, 457},
		{"Burst/stack=shallow", 40, 35, 28},
		{"Saturated/stack=deep", 61, 59, 61},
		{"Saturated/stack=shallow", 53, 48, 42},
		{"Limit10k/stack=deep/tasks=1000", 3.1, 5.3, 8.2},
		{"Limit10k/stack=deep/tasks=10000", 37.5, 45.8, 49.3},
		{"Limit10k/stack=deep/tasks=100000", 100.9, 350.8, 360.9},
		{"Limit10k/stack=deep/tasks=500000", 431.3, 1692.1, 1732.4},
		{"Limit10k/stack=shallow/tasks=1000", 0.6, 0.7, 1.0},
		{"Limit10k/stack=shallow/tasks=10000", 5.9, 7.0, 7.9},
		{"Limit10k/stack=shallow/tasks=100000", 57.9, 51.3, 44.8},
		{"Limit10k/stack=shallow/tasks=500000", 303.1, 254.2, 242.9},
	} {
		here := math.NaN()
		if measured, ok := r.Row(row.name); ok {
			here = r.Standing(measured, "ns/op").Ratio
		}
		name := strings.NewReplacer("/stack=", ", ", "/tasks=", ", ").Replace(row.name)
		t.Rows = append(t.Rows, Row{name, []float64{row.reuse / min(row.noReuse, row.lxz), here}})
	}
	return t
}
