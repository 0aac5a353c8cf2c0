package show

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/race"
)

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		v          float64
		unit, want string
	}{
		{0, "ns/op", "0.00 ns"},
		{272.4, "ns/op", "272 ns"},
		{1234, "ns/op", "1.23 µs"},
		{56.78e6, "ns/op", "56.8 ms"},
		{1.5e9, "ns/op", "1.50 s"},
		{7e12, "ns/op", "7000 s"},
		{31.5, "ns/task", "31.5 ns/task"},
		{0.9, "p99-µs", "900 ns"},
		{109, "p99-late-µs", "109 µs"},
		{2048, "B/worker", "2.00 KiB"},
		{8.5, "B/submit", "8.50 B"},
		{13, "max-goroutines", "13.0 goroutines"},
		{math.NaN(), "ns/op", "–"},
	} {
		if got := Amount(c.v, c.unit); got != c.want {
			t.Errorf("Amount(%v, %q) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// TestTable: losses come first, then what is level, then wins; failures are
// named.
func TestTable(t *testing.T) {
	r := &race.Results{Rounds: 1}
	row := func(name string, shoal, other float64) {
		r.Rows = append(r.Rows, race.Row{Name: name, Units: []string{"ns/op"}, Procs: 2, Subjects: []string{"shoal", "ants", "conc"}})
		for s, v := range map[string]float64{"shoal": shoal, "ants": other} {
			r.Measurements = append(r.Measurements, race.Measurement{Row: name, Procs: 2, Subject: s, Values: map[string]float64{"ns/op": v}})
		}
	}
	row("won", 10, 20)
	row("level", 20, 20)
	row("lost", 30, 20)
	row("lost-most", 60, 20)
	r.Measurements = append(r.Measurements, race.Measurement{Row: "won", Procs: 2, Subject: "conc", Failure: "it did not end within 2m0s"})
	r.Machine.BusyBefore = 40
	var b bytes.Buffer
	if err := Table(&b, r, false); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	at := -1
	for _, want := range []string{"lost-most", "3.00", "lost ", "1.50", "level", "won", "0.50", "won, conc: it did not end within 2m0s",
		"1 won, 1 level, 2 lost", "not quiet"} {
		i := strings.Index(text, want)
		if i < at {
			t.Errorf("%q is missing, or too early, in\n%s", want, text)
		}
		at = i
	}
	if strings.Contains(text, "\x1b") {
		t.Error("colours without a terminal")
	}
	if s := Noise(race.Machine{BusyBefore: 40, BusyAfter: -1}); !strings.Contains(s, "40 %") || strings.Contains(s, "0 % after") {
		t.Error(s)
	}
}
