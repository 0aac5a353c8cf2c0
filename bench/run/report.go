package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shoal-go/shoal/bench"
)

// measurement is what one process said.
type measurement struct {
	units   []string // in the order printed
	values  map[string]float64
	cpu     string
	lines   string // for benchstat
	failure string
}

func (m measurement) String() string {
	if m.failure != "" {
		return m.failure
	}
	var s []string
	for _, u := range m.units {
		s = append(s, format(m.values[u], u))
	}
	return strings.Join(s, ", ")
}

// parseResult reads the output of a benchmark: "key: value" lines and a line
// of a name, the iterations, and pairs of a value and its unit.
func parseResult(output string) measurement {
	m := measurement{values: map[string]float64{}}
	for line := range strings.Lines(output) {
		if cpu, ok := strings.CutPrefix(line, "cpu: "); ok {
			m.cpu = strings.TrimSpace(cpu)
		}
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "PASS" {
			continue
		}
		m.lines += line
		if !strings.HasPrefix(line, "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				m.units = append(m.units, fields[i+1])
				m.values[fields[i+1]] = v
			}
		}
	}
	return m
}

type figure struct{ workload, unit, pool string }

type report struct {
	workloads []bench.Workload
	units     map[string][]string // of each workload
	values    map[figure][]float64
	failed    map[figure]int // the unit is empty
	failures  []string
	cpu       string
}

func newReport(w []bench.Workload) *report {
	return &report{workloads: w, units: map[string][]string{}, values: map[figure][]float64{}, failed: map[figure]int{}}
}

func (r *report) add(workload, pool string, m measurement) {
	if m.failure != "" {
		r.failed[figure{workload, "", pool}]++
		r.failures = append(r.failures, fmt.Sprintf("%s, %s: %s", workload, pool, m.failure))
		return
	}
	r.cpu = m.cpu
	for _, u := range m.units {
		if u == "B/op" || u == "allocs/op" { // in the raw results
			continue
		}
		if !slices.Contains(r.units[workload], u) {
			r.units[workload] = append(r.units[workload], u)
		}
		f := figure{workload, u, pool}
		r.values[f] = append(r.values[f], m.values[u])
	}
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "- CPU %s, GOMAXPROCS %d\n- %s %s/%s\n- %s\n", r.cpu, runtime.GOMAXPROCS(0),
		runtime.Version(), runtime.GOOS, runtime.GOARCH, time.Now().Format(time.DateOnly))
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Replace == nil { // shoal is the one beside this module
				fmt.Fprintf(w, "- %s %s\n", dep.Path, dep.Version)
			}
		}
	}
	family := ""
	for _, wl := range r.workloads {
		name, load, _ := strings.Cut(wl.Name, "/")
		if name != family {
			family = name
			fmt.Fprintf(w, "\n### %s\n\n| workload | shoal | best peer | goroutines | shoal : best |\n|---|---|---|---|---|\n", family)
		}
		units := r.units[wl.Name]
		if len(units) == 0 { // all failed: the row says so
			units = []string{"ns/op"}
		}
		for _, unit := range units {
			label := strings.TrimSpace(load + " " + unit)
			if unit == "ns/op" {
				label = cmp.Or(load, "time")
			}
			fmt.Fprintf(w, "| %s | %s |\n", label, strings.Join(r.cells(wl, unit), " | "))
		}
	}
	for i, f := range slices.Compact(slices.Sorted(slices.Values(r.failures))) {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, "- failed:", f)
	}
}

// cells are the medians of one row: shoal, the best of the other pools,
// goroutines, and shoal to the best of all others.
func (r *report) cells(wl bench.Workload, unit string) []string {
	show := func(v float64) string { return strings.TrimSuffix(format(v, unit), " "+unit) }
	shoal, goroutines, peer, best := "–", "–", "–", "–"
	mine, others, peers := -1.0, -1.0, -1.0
	var failed []string
	for _, pool := range wl.Pools {
		if n := r.failed[figure{wl.Name, "", pool}]; n > 0 {
			failed = append(failed, fmt.Sprintf("%s failed %d×", pool, n))
		}
		values := r.values[figure{wl.Name, unit, pool}]
		if len(values) == 0 {
			continue
		}
		m := median(values)
		if pool == "shoal" {
			mine, shoal = m, show(m)
			continue
		}
		if others < 0 || m < others {
			others = m
		}
		if pool == "goroutines" {
			goroutines = show(m)
		} else if peers < 0 || m < peers {
			peers, peer = m, pool+" "+show(m)
		}
	}
	if mine >= 0 && others > 0 {
		best = fmt.Sprintf("%.2f", mine/others)
	}
	if len(failed) > 0 {
		best += " (" + strings.Join(failed, ", ") + ")"
	}
	return []string{shoal, peer, goroutines, best}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// format shows three digits, and times in the unit that suits them.
func format(v float64, unit string) string {
	name := unit
	if unit == "ns/op" {
		name = "ns"
		for _, u := range []string{"µs", "ms", "s"} {
			if v < 1000 {
				break
			}
			v, name = v/1000, u
		}
	}
	verb, digits := byte('g'), 3
	if v >= 100 { // where 'g' would turn to exponents
		verb, digits = 'f', 0
	}
	return strconv.FormatFloat(v, verb, digits, 64) + " " + name
}
