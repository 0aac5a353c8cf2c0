package race

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/where"
	"github.com/shoal-go/shoal/internal/testpool"
)

func TestMain(m *testing.M) {
	bench.Metronome()
	Child()
	os.Exit(m.Run())
}

// recorder is a watcher that keeps what it is told.
type recorder struct {
	steps []string
	next  func(Step) // may be nil
}

func (r *recorder) Checking()           {}
func (r *recorder) Begin(time.Duration) {}
func (r *recorder) End()                {}
func (r *recorder) Next(s Step) {
	r.steps = append(r.steps, fmt.Sprintf("%d %s", s.Round, s))
	if r.next != nil {
		r.next(s)
	}
}
func (r *recorder) Done(Step, Measurement, time.Duration) {}

func config(run, pools string) Config {
	return Config{Rounds: 1, Run: regexp.MustCompile(run), Pools: regexp.MustCompile(pools), Timeout: time.Minute}
}

func plan(t *testing.T, c Config) *Results {
	t.Helper()
	r, err := Plan(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSubjectsTakeTurns(t *testing.T) {
	c := config("^SubmitWait$", "^(shoal|goroutines|baseline)$")
	c.Rounds = 4
	r, w := plan(t, c), new(recorder)
	if err := r.Run(context.Background(), c, w); err != nil {
		t.Fatal(err)
	}
	orders := map[string]bool{}
	for round := range c.Rounds {
		steps := w.steps[3*round : 3*round+3]
		orders[strings.ReplaceAll(strings.Join(steps, ","), fmt.Sprint(round+1, " "), "")] = true
		want := []string{"baseline", "goroutines", "shoal"}
		for i := range want {
			want[i] = fmt.Sprintf("%d SubmitWait %s", round+1, want[i])
		}
		if got := slices.Sorted(slices.Values(steps)); !slices.Equal(got, want) {
			t.Errorf("measured %q, want %q", got, want)
		}
	}
	if len(w.steps) != 3*c.Rounds || len(orders) < 2 {
		t.Errorf("%d steps, always in the order %v", len(w.steps), orders)
	}
	if f := r.Figure(r.Rows[0], "shoal", "ns/op"); f.N != 4 || f.Median <= 0 || f.Low > f.Median || f.High < f.Median {
		t.Errorf("shoal's figure is %+v", f)
	}
	if len(r.Subjects) != 2 || r.Subjects[0].Version == "" || r.Subjects[1].Version != runtime.Version() {
		t.Errorf("the subjects are %+v", r.Subjects)
	}
}

// TestProfiles: they come after the last round and count for nothing.
func TestProfiles(t *testing.T) {
	c := config("^(SubmitWait|Scale/tasks=1000|Flock/task=1us)$", "^(shoal|goroutines)$")
	c.Profiles = filepath.Join(t.TempDir(), "profiles")
	r, w := plan(t, c), new(recorder)
	if err := r.Run(context.Background(), c, w); err != nil {
		t.Fatal(err)
	}
	if len(r.Measurements) != 6 || len(w.steps) != 9 {
		t.Errorf("%d measurements, steps %q; want 6 and 9", len(r.Measurements), w.steps)
	}
	for _, row := range r.Rows {
		p := row.Profile
		if p == nil {
			t.Fatalf("%s has no profile", row.Key())
		}
		part := where.Pool
		if row.Name == "Flock/task=1us" {
			part = where.Task
		}
		// The race detector is neither the pool nor the task.
		if p.Samples == 0 || p.Busy <= 0 || p.Shares[part] <= 0 || p.Shares[where.Other] > 0.5 && !testpool.Race {
			t.Errorf("%s: %+v", row.Key(), p)
		}
	}
}

func TestProcs(t *testing.T) {
	c := config("^SubmitWait$", "^shoal$")
	c.Procs = []int{1, 3}
	r := plan(t, c)
	if err := r.Run(context.Background(), c, new(recorder)); err != nil {
		t.Fatal(err)
	}
	for i, n := range c.Procs {
		if m := r.Measurements[i]; m.Procs != n || m.Failure != "" {
			t.Errorf("measurement %d is %+v", i, m)
		}
	}
}

// TestHangAndCrash: they are reported in their row, and the race goes on.
func TestHangAndCrash(t *testing.T) {
	failure := func(c Config, r *Results) string {
		if err := r.Run(context.Background(), c, new(recorder)); err != nil {
			t.Fatal(err)
		}
		if r.Failed() != 1 {
			t.Errorf("%d measurements failed, want 1", r.Failed())
		}
		return r.Measurements[0].Failure
	}
	c := config("^Neighbour$", "^shoal$")
	c.Timeout = time.Second // it takes two
	if got := failure(c, plan(t, c)); got != "it did not end within 1s" {
		t.Errorf("the hang is reported as %q", got)
	}
	c = config("^SubmitWait$", "^shoal$")
	r := plan(t, c)
	r.Rows[0].Subjects = []string{"nobody"}
	if got := failure(c, r); !strings.Contains(got, "exit status 1") || !strings.Contains(got, "nobody") {
		t.Errorf("the crash is reported as %q", got)
	}
}

func TestCtrlCKeepsWhatIsFinished(t *testing.T) {
	c := config("^(SubmitWait|Neighbour)$", "^shoal$")
	r := plan(t, c)
	slices.SortFunc(r.Rows, func(a, b Row) int { return strings.Compare(b.Name, a.Name) }) // SubmitWait first
	ctx, cancel := context.WithCancel(context.Background())
	w := &recorder{next: func(s Step) {
		if s.Row.Name == "Neighbour" {
			cancel()
		}
	}}
	if err := r.Run(ctx, c, w); err != context.Canceled {
		t.Errorf("Run = %v", err)
	}
	if len(r.Measurements) != 1 || r.Measurements[0].Row != "SubmitWait" || !r.Interrupted {
		t.Errorf("interrupted: %t, kept %+v", r.Interrupted, r.Measurements)
	}
}

// made are results as if three rounds had been run.
func made() *Results {
	r := &Results{
		Rounds:  3,
		Machine: Machine{CPU: "a CPU", CPUs: 2, OS: "linux", Arch: "amd64", Go: "go1.26", BusyBefore: 1, BusyAfter: 1},
		Rows: []Row{
			{Name: "Rand/load=1u-1Mt", Units: []string{"ns/op"}, Procs: 2, Subjects: []string{"shoal", "ants", "pond-v2", bench.Baseline}},
			{Name: "FanOut/leaves=65536", Units: []string{"ns/op"}, Procs: 2, Subjects: []string{"shoal", "ants"}},
		},
	}
	for row, subjects := range map[string]map[string][]float64{
		"Rand/load=1u-1Mt":    {"shoal": {30, 20, 10}, "ants": {100, 300, 200}, "pond-v2": {400, 500, 600}, bench.Baseline: {5, 5, 5}},
		"FanOut/leaves=65536": {"shoal": {30, 20, 40}, "ants": {10, 11, 12}},
	} {
		for s, values := range subjects {
			for i, v := range values {
				r.Measurements = append(r.Measurements, Measurement{
					Row: row, Procs: 2, Subject: s, Round: i + 1, Iterations: 1, Values: map[string]float64{"ns/op": v},
				})
			}
		}
	}
	return r
}

func TestStanding(t *testing.T) {
	r := made()
	s := r.Standing(r.Rows[0], "ns/op")
	if s.Peer != "ants" || s.Ratio != 0.1 || s.Baseline.Median != 5 || s.Verdict() != Win {
		t.Errorf("%+v, verdict %v", s, s.Verdict())
	}
	if s := r.Standing(r.Rows[1], "ns/op"); s.Verdict() != Loss || math.Abs(s.Ratio-30.0/11) > 1e-9 {
		t.Errorf("%+v, verdict %v", s, s.Verdict())
	}
	if s := r.Standing(r.Rows[1], "B/op"); s.Verdict() != Unknown {
		t.Errorf("nothing measured, verdict %v", s.Verdict())
	}
	for _, c := range []struct {
		shoal, best Figure
		ratio       float64
		want        Verdict
	}{
		{Figure{Low: 9, High: 11, N: 5}, Figure{Low: 10, High: 12, N: 5}, 0.95, Level},
		{Figure{Low: 9, High: 9.5, N: 5}, Figure{Low: 10, High: 12, N: 5}, 0.95, Win},
		{Figure{Low: 9, High: 11, N: 5}, Figure{Low: 10, High: 12, N: 5}, 0.8, Win},
		{Figure{Low: 9, High: 11, N: 5}, Figure{Low: 8, High: 12, N: 5}, 1.2, Loss},
		{Figure{Low: 9, High: 9, N: 1}, Figure{Low: 9.5, High: 9.5, N: 1}, 0.95, Level},
	} {
		if got := (Standing{Shoal: c.shoal, Best: c.best, Ratio: c.ratio}).Verdict(); got != c.want {
			t.Errorf("%+v: verdict %v, want %v", c, got, c.want)
		}
	}
}

func TestJSONComesBack(t *testing.T) {
	r := made()
	file := filepath.Join(t.TempDir(), "results.json")
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, r) {
		t.Errorf("read %+v, wrote %+v", got, r)
	}
}

func TestResultsForBenchstat(t *testing.T) {
	r := made()
	var b bytes.Buffer
	if err := r.WriteBench(&b); err != nil {
		t.Fatal(err)
	}
	n := 0
	for rd := benchfmt.NewReader(&b, "results.txt"); rd.Scan(); {
		res, ok := rd.Result().(*benchfmt.Result)
		if !ok {
			t.Fatalf("%v", rd.Result())
		}
		if _, ok := res.Value("sec/op"); !ok || res.GetConfig("cpu") != "a CPU" {
			t.Errorf("%s: %+v", res.Name, res)
		}
		n++
	}
	if n != len(r.Measurements) {
		t.Errorf("benchstat reads %d results of %d", n, len(r.Measurements))
	}
}

// TestReadSaysWhatIsMissing: a file may be of something else.
func TestReadSaysWhatIsMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	for text, want := range map[string]string{
		"{}": file + " has no rows", "null": file + " has no rows", `{"measurements":[{}]}`: file + " has no rows",
		`{"rows":[{}]}`: `row 1, "", has no unit or no GOMAXPROCS`,
		`{"rows":[{"name":"a","units":["ns/op"],"procs":1,"subjects":["shoal"]},{"name":"b","units":["ns/op"],"procs":1}]}`: `row 2, "b", has no subjects`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
