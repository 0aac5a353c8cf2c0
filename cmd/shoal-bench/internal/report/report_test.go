package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/where"
)

// all are results of every workload and subject, each subject a bit slower
// than the one before; conc always fails.
func all() *race.Results {
	r := &race.Results{Rounds: 1, Machine: race.Machine{CPU: "a <CPU>", CPUs: 2, BusyBefore: 50}}
	for _, w := range bench.Workloads {
		row := race.Row{Name: w.Name, What: w.What, Feel: w.Feel, Units: w.Units, Procs: 2, Subjects: w.Subjects()}
		r.Rows = append(r.Rows, row)
		for i, s := range row.Subjects {
			m := race.Measurement{Row: w.Name, Procs: 2, Subject: s, Round: 1, Iterations: 1, Values: map[string]float64{}}
			for _, u := range w.Units {
				m.Values[u] = float64(1000 * (i + 1))
			}
			if s == "conc" {
				m.Values, m.Failure = nil, "fatal error: <all goroutines are asleep>"
			}
			r.Measurements = append(r.Measurements, m)
		}
	}
	for _, s := range bench.Subjects {
		r.Subjects = append(r.Subjects, race.Subject{Name: s.Name, Module: s.Module, Version: "v1.2.3"})
	}
	return r
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	r := all()
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	if !strings.Contains(page, "<h1>Is it faster for my kind of work?</h1>") {
		t.Error("it does not open with the question")
	}
	for _, row := range r.Rows {
		if !strings.Contains(page, ">"+strings.ReplaceAll(row.What, "'", "&#39;")+"<") {
			t.Errorf("the page does not show %s", row.Name)
		}
		if want := "-run &#39;^" + row.Name + "$&#39;"; !strings.Contains(page, want) {
			t.Errorf("the page does not say how to repeat %s (%s)", row.Name, want)
		}
	}
	for _, want := range []string{"conc: fatal error: &lt;all goroutines", "a &lt;CPU&gt;", "not quiet", "10 ms"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	// Whatever it loads would be an attribute with an address.
	if outside := regexp.MustCompile(`(?i)(src|href|url)\s*[=(]\s*["']?(https?:)?//[^\s"')]*`).FindString(page); outside != "" {
		t.Errorf("the page refers to %s", outside)
	}
	plots, err := filepath.Glob(filepath.Join(dir, "plots", "*.svg"))
	if err != nil || len(plots) != len(r.Rows)+1 {
		t.Errorf("%d plots for %d rows and the one of all sizes: %v", len(plots), len(r.Rows), err)
	}
	for _, p := range plots {
		if err := wellFormed(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	r.Machine.CPUs = 4
	row := r.Rows[0]
	if d := newPageData(r).section(row, r.Standing(row, row.Units[0])); !strings.HasSuffix(d.Command, " -procs 2") || !strings.HasSuffix(d.Title, "(GOMAXPROCS 2)") {
		t.Errorf("at GOMAXPROCS 2 of 4 CPUs: %q, %q", d.Title, d.Command)
	}
}

// TestReportOfAnInterruptedRun writes reports of runs that were interrupted, one after each measurement of
// the rows Scale, and before any.
func TestReportOfAnInterruptedRun(t *testing.T) {
	r := all()
	r.Rows = slices.DeleteFunc(r.Rows, func(w race.Row) bool { return !strings.HasPrefix(w.Name, "Scale/") })
	r.Measurements = slices.DeleteFunc(r.Measurements, func(m race.Measurement) bool { return !strings.HasPrefix(m.Row, "Scale/") })
	measured := r.Measurements
	for n := range 2*len(r.Rows[0].Subjects) + 1 {
		r.Measurements = measured[:n]
		if err := Write(t.TempDir(), r); err != nil {
			t.Fatalf("after %d measurements: %v", n, err)
		}
		drawn := n > len(r.Rows[0].Subjects) // something of the second size
		if got := newPageData(r).Kinds[0].Sections[0].Title == "All sizes"; got != drawn {
			t.Errorf("after %d measurements the plot of all sizes is on the page: %t", n, got)
		}
	}
}

// TestReportKeepsTheDataWhenPlotsFail: the figures may have taken an hour.
func TestReportKeepsTheDataWhenPlotsFail(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plots"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, all()); err == nil {
		t.Error("plots is a file, and that is no error")
	}
	if _, err := race.Read(filepath.Join(dir, "results.json")); err != nil {
		t.Error(err)
	}
}

// TestReportReplacesAnEarlierOneWhole: a second name of the earlier file still has what it had.
func TestReportReplacesAnEarlierOneWhole(t *testing.T) {
	dir := t.TempDir()
	file, earlier := filepath.Join(dir, "results.json"), filepath.Join(dir, "earlier")
	if err := os.WriteFile(file, []byte("a report"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(file, earlier); err != nil {
		t.Skip(err)
	}
	if err := Write(dir, all()); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(earlier); string(data) != "a report" {
		t.Errorf("it was overwritten in place: %.20q, %v", data, err)
	}
}

func TestReportWithoutShoal(t *testing.T) {
	r := all()
	r.Rows = r.Rows[:1]
	r.Measurements = slices.DeleteFunc(r.Measurements, func(m race.Measurement) bool { return m.Subject == "shoal" })
	var b bytes.Buffer
	if err := page.Execute(&b, newPageData(r)); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"<td>0.00</td>", "– × "} {
		if strings.Contains(b.String(), wrong) {
			t.Errorf("%q on the page, without a figure of shoal", wrong)
		}
	}
}

func TestScalePlotNamesTheOthers(t *testing.T) {
	r := all()
	r.Rows = slices.DeleteFunc(r.Rows, func(w race.Row) bool { return w.Family() != "Scale" })
	r.Measurements = slices.DeleteFunc(r.Measurements, func(m race.Measurement) bool { return m.Subject == "goroutines" })
	if svg, err := scalePlot(r, r.Rows, true); err != nil || !bytes.Contains(svg, []byte("the others")) {
		t.Errorf("no legend for the others: %v", err)
	}
}

func wellFormed(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for d := xml.NewDecoder(bytes.NewReader(data)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestReportOpensWithLosses(t *testing.T) {
	r := all()
	if p := newPageData(r); len(p.Lost) > 0 {
		t.Errorf("%d losses where there is none", len(p.Lost))
	}
	rows := []race.Row{r.Rows[3], r.Rows[5]}
	for i, m := range r.Measurements {
		if m.Subject == "shoal" && (m.Row == rows[0].Name || m.Row == rows[1].Name) {
			r.Measurements[i].Values = map[string]float64{"ns/op": 1e6}
			if m.Row == rows[1].Name {
				r.Measurements[i].Values["ns/op"] = 1e7
			}
		}
	}
	p := newPageData(r)
	if len(p.Lost) != 2 || p.Lost[0].Title != rows[1].What || p.Lost[1].Title != rows[0].What {
		t.Fatalf("the losses are %+v, want those of %s, then of %s", p.Lost, rows[1].Name, rows[0].Name)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, p); err != nil {
		t.Fatal(err)
	}
	if lost, kinds := strings.Index(b.String(), `<section id="lost">`), strings.Index(b.String(), `<ul class="kinds">`); lost < 0 || lost > kinds {
		t.Errorf("the losses are at %d, the kinds of work at %d", lost, kinds)
	}
}

// TestEveryRowHasAKind: a row without one would not be on the page.
func TestEveryRowHasAKind(t *testing.T) {
	for _, w := range bench.Workloads {
		n := 0
		for _, k := range kinds {
			if k.rows(race.Row{Name: w.Name}) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s belongs to %d kinds of work", w.Name, n)
		}
	}
}

func TestAnswers(t *testing.T) {
	s := func(ratio float64) race.Standing {
		f := race.Figure{Median: 1, Low: 1, High: 1, N: 5}
		return race.Standing{Shoal: f, Best: race.Figure{Median: 1 / ratio, Low: 1 / ratio, High: 1 / ratio, N: 5}, Ratio: ratio}
	}
	for _, c := range []struct {
		ratios []float64
		want   string
	}{
		{nil, "Not measured"},
		{[]float64{0.2, 0.5}, "Yes"},
		{[]float64{0.2, 1}, "Yes"},
		{[]float64{0.2, 0.3, 1.5}, "It depends"},
		{[]float64{0.2, 1.5}, "It depends"},
		{[]float64{1, 1}, "About the same"},
		{[]float64{1.5, 2}, "No"},
	} {
		var all []race.Standing
		for _, r := range c.ratios {
			all = append(all, s(r))
		}
		if got := answerFor(all); got.Word != c.want {
			t.Errorf("%v: %q, want %q (%s)", c.ratios, got.Word, c.want, got.Text)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := Tables(&b, all(), [][2]string{{"SubmitWait", "one, and its answer"}, {"NoSuch", "nothing"}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[2], "| one, and its answer | 1.00 µs |") {
		t.Errorf("the table is\n%s", b.String())
	}
	columns := strings.Count(lines[0], "|")
	for _, l := range lines {
		if strings.Count(l, "|") != columns {
			t.Errorf("not as many columns as the head: %s", l)
		}
	}
}

func TestWhere(t *testing.T) {
	r := all()
	for i, m := range r.Measurements {
		if m.Row == r.Rows[0].Name && m.Subject == "shoal" {
			r.Measurements[i].Values = map[string]float64{r.Rows[0].Units[0]: 1e6} // it loses this one
		}
	}
	won, lost := 0, 0
	for i, row := range r.Rows {
		r.Rows[i].Profile = &where.Profile{Samples: 100, Busy: 0.5, Shares: map[where.Part]float64{where.Task: 0.75, where.Pool: 0.25}}
		if r.Standing(row, row.Units[0]).Ratio >= closeTo {
			lost++
		} else {
			won++
		}
	}
	if won == 0 || lost == 0 {
		t.Fatalf("%d rows are won, %d lost: nothing to tell apart", won, lost)
	}
	var b bytes.Buffer
	if err := Where(&b, r); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2+lost {
		t.Fatalf("%d lines for %d close rows (%d won):\n%s", len(lines), lost, won, b.String())
	}
	for _, l := range lines {
		if strings.Count(l, "|") != strings.Count(lines[0], "|") {
			t.Errorf("not as many columns as the head: %s", l)
		}
	}
	if !strings.Contains(lines[2], " 50 % | 75 % |") {
		t.Errorf("no shares in %s", lines[2])
	}
	row := r.Rows[0]
	if d := newPageData(r).section(row, r.Standing(row, row.Units[0])); d.Where != "tasks 75 %, pool 25 %; CPUs busy 50 %" {
		t.Errorf("the page says %q", d.Where)
	}
	row.Profile = &where.Profile{}
	if d := newPageData(r).section(row, r.Standing(row, row.Units[0])); d.Where != "" {
		t.Errorf("without a sample the page says %q", d.Where)
	}
}
