package seeds

import (
	"math"
	"slices"
	"testing"

	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
)

func TestPondsPageIsReadWhole(t *testing.T) {
	page := readPond()
	if len(page) != 120 { // 8 subjects, 5 loads, Rand at 8 CPUs and Sleep at 8 and at 4
		t.Errorf("%d results on pond's page, want 120", len(page))
	}
	if got := page["AllSleep10ms/1u-1Mt/Pond-Eager-8"]; math.Abs(got-0.658233743) > 1e-9 {
		t.Errorf("Pond-Eager's first figure is %v s", got)
	}
}

func TestTables(t *testing.T) {
	r := &race.Results{Rounds: 1}
	add := func(row, subject string, ns float64) {
		r.Measurements = append(r.Measurements, race.Measurement{Row: row, Procs: 2, Subject: subject, Values: map[string]float64{"ns/op": ns}})
	}
	if got := Tables(r); len(got) != 0 {
		t.Errorf("nothing was measured, and there are %d tables", len(got))
	}
	subjects := []string{"shoal", "goroutines", "pond-lazy"}
	for _, name := range []string{"Rand/load=1u-1Mt", "Flock/task=gc", "Burst/stack=deep"} {
		r.Rows = append(r.Rows, race.Row{Name: name, Units: []string{"ns/op"}, Procs: 2, Subjects: subjects})
		add(name, "shoal", 10)
		add(name, "goroutines", 40)
		add(name, "pond-lazy", 20)
	}
	got := Tables(r)
	if len(got) != 3 {
		t.Fatalf("%d tables, want those of pond, Flock and taskgo", len(got))
	}
	rand := got[0].Rows[0].Ratios
	for i, want := range []float64{206112267.0 / 255098957, math.NaN(), 0.5, 0.5, 0.25} {
		if math.IsNaN(want) != math.IsNaN(rand[i]) || math.Abs(want-rand[i]) > 1e-9 {
			t.Errorf("pond's first row, %s: %v, want %v", got[0].Columns[i], rand[i], want)
		}
	}
	for _, table := range got {
		for _, row := range table.Rows {
			if len(row.Ratios) != len(table.Columns) {
				t.Errorf("%s, %s: %d figures in %d columns", table.Page, row.Name, len(row.Ratios), len(table.Columns))
			}
		}
	}
	gc := got[1].Rows[len(got[1].Rows)-1].Ratios
	if gc[1] != 0.25 {
		t.Errorf("Flock, gc: %v", gc)
	}
	if deep := got[2].Rows[0].Ratios; deep[1] != 0.5 {
		t.Errorf("taskgo, burst deep: %v", deep)
	}
	r.Measurements = slices.DeleteFunc(r.Measurements, func(m race.Measurement) bool { return m.Subject == "goroutines" })
	if got := Tables(r); len(got) != 2 || got[0].Page != "pond" || got[1].Page != "taskgo" {
		t.Errorf("without goroutines: %d tables, want those of pond and taskgo", len(got))
	}
}
