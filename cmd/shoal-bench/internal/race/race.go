package race

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"

	"github.com/shoal-go/shoal/bench"
	"github.com/shoal-go/shoal/cmd/shoal-bench/internal/where"
)

// Config says what to measure.
type Config struct {
	Rounds  int
	Run     *regexp.Regexp // workloads whose name matches
	Pools   *regexp.Regexp // subjects whose name matches
	Procs   []int          // values of GOMAXPROCS; empty: what it is
	Quick   bool           // few workloads and subjects
	Timeout time.Duration  // for each process
	// Profiles, if not empty, is a folder for a CPU profile of shoal in each
	// row, from one more process each after the last round.
	Profiles string
}

// quick are the subjects of a quick race: the best of each kind.
var quick = []string{"shoal", "goroutines", "chan-buffered", "pond-lazy", "pond-v2", "ants", bench.Baseline}

// Plan lists the rows and subjects that c asks for. It is an error if there
// are none.
func Plan(c Config) (*Results, error) {
	r := &Results{
		Rounds: c.Rounds, Rows: []Row{}, Subjects: []Subject{}, Measurements: []Measurement{},
		Machine: Machine{
			CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
			BusyBefore: -1, BusyAfter: -1,
		},
	}
	procs := c.Procs
	if len(procs) == 0 {
		procs = []int{runtime.GOMAXPROCS(0)}
	}
	subjects := map[string]bool{}
	matched := false
	for _, n := range procs {
		for _, w := range bench.Workloads {
			if !c.Run.MatchString(w.Name) || c.Quick && !w.Quick {
				continue
			}
			matched = true
			row := Row{Name: w.Name, What: w.What, Feel: w.Feel, Source: w.Source, Units: w.Units, Procs: n, workload: w}
			for _, s := range w.Subjects() {
				if c.Pools.MatchString(s) && (!c.Quick || slices.Contains(quick, s)) {
					row.Subjects = append(row.Subjects, s)
					subjects[s] = true
				}
			}
			if len(row.Subjects) > 0 {
				r.Rows = append(r.Rows, row)
			}
		}
	}
	if err := nothing(matched, len(r.Rows), c.Run, c.Pools); err != nil {
		return nil, err
	}
	versions := bench.Versions()
	for _, s := range bench.Subjects {
		if subjects[s.Name] {
			v := versions[s.Module]
			switch {
			case s.Module == "":
				v = runtime.Version()
			case v == "":
				v = "unknown"
			}
			r.Subjects = append(r.Subjects, Subject{s.Name, s.Module, v})
		}
	}
	return r, nil
}

// Step is where a race is.
type Step struct {
	Round   int
	Row     Row
	Subject string
}

func (s Step) String() string { return s.Row.Name + " " + s.Subject }

// A Watcher follows the race.
type Watcher interface {
	Checking() // whether other programs use the machine
	Begin(total time.Duration)
	Next(Step)
	Done(Step, Measurement, time.Duration) // what it takes of the total
	End()
}

// Run measures all of r's rows, in turn. When ctx ends, or on an error, r has
// what was measured until then.
func (r *Results) Run(ctx context.Context, c Config, w Watcher) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	r.Started = time.Now().Round(time.Second)
	defer func() {
		r.Finished = time.Now().Round(time.Second)
		r.Interrupted = ctx.Err() != nil
	}()
	w.Checking()
	r.Machine.CPU, r.Machine.BusyBefore = look(ctx)
	var total time.Duration
	for _, row := range r.Rows {
		total += time.Duration(len(row.Subjects)*c.Rounds) * row.workload.Takes
		if c.Profiles != "" && slices.Contains(row.Subjects, profiled) {
			total += row.workload.Takes
		}
	}
	w.Begin(total)
	defer w.End()
	// One round after the other, and within a round the subjects in turn, so
	// that a slow minute of the machine hits all. The order is another one each
	// time: what was measured before leaves its trace (after a baseline that lets
	// the CPUs idle, p99 in the next process was three times as high), and must
	// not always precede the same subject.
	for round := 1; round <= c.Rounds; round++ {
		for n, row := range r.Rows {
			for _, i := range rand.New(rand.NewPCG(uint64(round), uint64(n))).Perm(len(row.Subjects)) {
				s := Step{round, row, row.Subjects[i]}
				w.Next(s)
				m := measure(ctx, exe, c.Timeout, s, "")
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.Measurements = append(r.Measurements, m)
				w.Done(s, m, row.workload.Takes)
			}
		}
	}
	w.Checking()
	_, r.Machine.BusyAfter = look(ctx)
	if c.Profiles != "" {
		return r.profile(ctx, exe, c, w)
	}
	return ctx.Err()
}

// profiled is the subject that profiles are taken of.
const profiled = "shoal"

// profile takes a CPU profile of every row. What is measured meanwhile counts
// for nothing: profiling costs time.
func (r *Results) profile(ctx context.Context, exe string, c Config, w Watcher) error {
	if err := os.MkdirAll(c.Profiles, 0o777); err != nil {
		return err
	}
	for i, row := range r.Rows {
		if !slices.Contains(row.Subjects, profiled) {
			continue
		}
		s := Step{c.Rounds + 1, row, profiled}
		w.Next(s)
		file := filepath.Join(c.Profiles, FileName(row.Key())+".pprof")
		m := measure(ctx, exe, c.Timeout, s, file)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.Done(s, m, row.workload.Takes)
		if m.Failure != "" {
			return fmt.Errorf("profile of %s: %s", row.Key(), m.Failure)
		}
		p, err := where.Read(file, row.Procs)
		if err != nil {
			return err
		}
		r.Rows[i].Profile = p
	}
	return nil
}

// look names the CPU and watches for a second how busy it is.
func look(ctx context.Context) (name string, busy float64) {
	name, busy = "unknown CPU", -1
	if infos, err := cpu.InfoWithContext(ctx); err == nil && len(infos) > 0 {
		name = infos[0].ModelName
	}
	if p, err := cpu.PercentWithContext(ctx, time.Second, false); err == nil && len(p) == 1 {
		busy = p[0]
	}
	return name, busy
}

// measure runs one workload with one subject in a fresh process: what a
// subject leaves behind (dead goroutines, a grown heap) slows down the next.
func measure(ctx context.Context, exe string, timeout time.Duration, s Step, profile string) Measurement {
	m := Measurement{Row: s.Row.Name, Procs: s.Row.Procs, Subject: s.Subject, Round: s.Round}
	text, err := json.Marshal(order{s.Row.Name, s.Subject, profile})
	if err != nil {
		m.Failure = err.Error()
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childEnv+"="+string(text), fmt.Sprintf("GOMAXPROCS=%d", s.Row.Procs))
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		m.Failure = fmt.Sprintf("it did not end within %v", timeout)
	case err != nil:
		m.Failure = strings.TrimSuffix(fmt.Sprintf("%v: %s", err, reason(stderr.String())), ": ")
	default:
		var found Measurement
		if err := json.Unmarshal([]byte(stdout.String()), &found); err != nil {
			m.Failure = fmt.Sprintf("it printed no result: %v", err)
		}
		m.Iterations, m.Values = found.Iterations, found.Values
	}
	return m
}

// reason finds the line that says why a process died.
func reason(output string) string {
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(output), "\n")
	return first
}
