package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// openLoopRows ask how long a task waits when tasks come at a rate of their
// own, not when the last one is done. The moments at which they are due are
// drawn beforehand (a Poisson process, always the same). A second process, the
// metronome, writes a byte to a pipe whenever one is due, as a client would
// write to a server; the goroutine that reads them submits. A task is late from the moment
// it was due: what a slow Submit or a busy CPU holds up counts, so nothing is
// omitted because the pool was slow.
//
// Beside it stands the ideal: one queue for all CPUs, from which each takes the next task as soon as it has
// done one, and nothing costs anything. What it would have done is worked out afterwards, from the
// moments at which this run submitted its tasks and the times that they took in it.
var openLoopRows = rows("Latency", "shoal",
	openLoop("load=50", "250 µs of work arrives at random, 50 % of what the CPUs can do", traffic{percent: 50}),
	openLoop("load=80", "250 µs of work arrives at random, 80 % of what the CPUs can do", traffic{percent: 80}),
	openLoop("load=95", "250 µs of work arrives at random, 95 % of what the CPUs can do", traffic{percent: 95}),
	openLoop("load=80,bursts", "250 µs of work arrives at random, 80 % of what the CPUs can do, all of it in 10 ms of each 20", traffic{percent: 80, bursts: true}),
	openLoop("load=80,long", "work arrives at random, 80 % of what the CPUs can do; one task in ten takes 1.6 ms, the others 100 µs", traffic{percent: 80, long: true}),
)

const openLoopTask = 250 * time.Microsecond // the mean

// traffic is what arrives.
type traffic struct {
	percent int  // of what the CPUs can do
	bursts  bool // all of it in every other 10 ms
	long    bool // one task in ten takes 16 times as long as the others
}

// work is how long the tasks take: the same in each run.
func (t traffic) work(n int) []time.Duration {
	random := rand.New(rand.NewPCG(3, 4))
	all := make([]time.Duration, n)
	for i := range all {
		switch {
		case !t.long:
			all[i] = openLoopTask
		case random.IntN(10) == 0:
			all[i] = 1600 * time.Microsecond
		default:
			all[i] = 100 * time.Microsecond
		}
	}
	return all
}

func openLoop(name, what string, t traffic) Workload {
	return Workload{
		Name:      name,
		What:      what + ": from due to started, and that beside an ideal queue",
		Units:     []string{"p50-µs", "p99-µs", "p99.9-µs", "p50:ideal", "p99:ideal"},
		Benchtime: "1x", Takes: 3 * time.Second, Quick: name == "load=80",
		run: func(b *testing.B, s Subject) {
			measure(b, s, perCPU(), func(p Pool) { arrive(b, p, t, spin, !s.HandOff) })
		},
		// How late they are submitted, when there is nothing else to do.
		baseline: func(b *testing.B) { arrive(b, inline, t, func(time.Duration) {}, true) },
	}
}

// timetable says when tasks are due.
type timetable struct {
	Start  time.Time
	Rate   float64 // a second, on average
	Bursts bool    // twice the rate in 10 ms of each 20, nothing in the others
	Length time.Duration
}

func (t timetable) arrivals() []time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	var due []time.Duration
	for at := 0.0; at < t.Length.Seconds(); at += random.ExpFloat64() / t.Rate {
		d := time.Duration(at * float64(time.Second))
		if t.Bursts { // time is pushed together
			const on = 10 * time.Millisecond
			d = d/(2*on)*(2*on) + d%(2*on)/2
		}
		due = append(due, d)
	}
	return due
}

// arrive submits work when it is due, for two seconds. Whose Submit waits for a worker is not set beside
// the ideal: it delays the moments at which that would begin.
func arrive(b *testing.B, p Pool, tr traffic, work func(time.Duration), besideIdeal bool) {
	var late, best []time.Duration
	for range b.N {
		t := timetable{
			Start:  time.Now().Add(100 * time.Millisecond), // for the metronome to come up
			Rate:   float64(tr.percent) / 100 * float64(runtime.GOMAXPROCS(0)) / openLoopTask.Seconds(),
			Bursts: tr.bursts,
			Length: 2 * time.Second,
		}
		ticks, stop := startMetronome(b, t)
		due := t.arrivals()
		long := tr.work(len(due))
		late = make([]time.Duration, len(due))
		asked := make([]time.Duration, len(due)) // when it was submitted
		took := make([]time.Duration, len(due))
		var wg sync.WaitGroup
		wg.Add(len(due))
		ticked, buf := 0, make([]byte, 4096)
		for ticked < len(due) {
			n, err := ticks.Read(buf)
			for i := ticked; i < ticked+n; i++ {
				asked[i] = time.Since(t.Start)
				p.Submit(func() {
					start := time.Since(t.Start)
					work(long[i])
					late[i], took[i] = start-due[i], time.Since(t.Start)-start
					wg.Done()
				})
			}
			ticked += n
			if err != nil && ticked < len(due) {
				b.Fatalf("the metronome ended at tick %d of %d: %v", ticked, len(due), err)
			}
		}
		wg.Wait()
		stop()
		best = ideal(due, asked, took)
	}
	slices.Sort(late)
	b.ReportMetric(0, "ns/op") // the length is given
	b.ReportMetric(quantile(late, .5), "p50-µs")
	b.ReportMetric(quantile(late, .99), "p99-µs")
	b.ReportMetric(quantile(late, .999), "p99.9-µs")
	if besideIdeal {
		b.ReportMetric(quantile(late, .5)/quantile(best, .5), "p50:ideal")
		b.ReportMetric(quantile(late, .99)/quantile(best, .99), "p99:ideal")
	}
}

// ideal returns how late tasks would have been started, sorted, had each CPU taken the next one of a single
// queue as soon as it was free.
func ideal(due, asked, took []time.Duration) []time.Duration {
	late := make([]time.Duration, len(due))
	free := make([]time.Duration, runtime.GOMAXPROCS(0)) // when each CPU is
	for i := range due {
		cpu := 0
		for c := range free {
			if free[c] < free[cpu] {
				cpu = c
			}
		}
		start := max(asked[i], free[cpu])
		free[cpu] = start + took[i]
		late[i] = start - due[i]
	}
	slices.Sort(late)
	return late
}

// quantile of sorted durations, in microseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	return float64(sorted[int(q*float64(len(sorted)-1))].Nanoseconds()) / 1000
}

// metronomeEnv, when set, makes this program a metronome.
const metronomeEnv = "SHOAL_BENCH_METRONOME"

// startMetronome starts this program again, to write a byte when a task is due.
func startMetronome(b *testing.B, t timetable) (ticks io.Reader, stop func()) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(t)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), metronomeEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	ticks, err = cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		b.Fatalf("starting the metronome: %v", err)
	}
	return ticks, func() {
		cancel()
		cmd.Wait() // killed, if it had not ended
	}
}

// Metronome makes the process a metronome, and ends it, if a workload has
// started it as one; otherwise it does nothing. A program that runs workloads
// calls it before anything else.
func Metronome() {
	text, ok := os.LookupEnv(metronomeEnv)
	if !ok {
		return
	}
	var t timetable
	if err := json.Unmarshal([]byte(text), &t); err != nil || t.Rate <= 0 {
		fmt.Fprintf(os.Stderr, "%s: not a timetable: %v\n", metronomeEnv, err)
		os.Exit(1)
	}
	if err := tick(os.Stdout, t); err != nil && !errors.Is(err, os.ErrClosed) {
		fmt.Fprintln(os.Stderr, "metronome:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func tick(w io.Writer, t timetable) error {
	runtime.LockOSThread() // it sleeps in the system, without Go's timers
	due := t.arrivals()
	ticks := make([]byte, len(due))
	for i := 0; i < len(due); {
		if wait := time.Until(t.Start.Add(due[i])); wait > 0 {
			sleep(wait)
			continue
		}
		passed := time.Since(t.Start)
		n := 1
		for i+n < len(due) && due[i+n] <= passed {
			n++
		}
		if _, err := w.Write(ticks[:n]); err != nil {
			return err
		}
		i += n
	}
	return nil
}
