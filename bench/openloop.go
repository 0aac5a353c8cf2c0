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
// write to a server; whoever reads them submits. A task is late from the moment
// it was due: what a slow Submit or a busy CPU holds up counts, so nothing is
// omitted because the pool was slow.
var openLoopRows = rows("Latency", "shoal", openLoop(50), openLoop(80), openLoop(95))

const openLoopTask = 250 * time.Microsecond

func openLoop(percent int) Workload {
	return Workload{
		Name:      fmt.Sprintf("load=%d", percent),
		What:      fmt.Sprintf("250 µs of work arrives at random, %d %% of what the CPUs can do: from due to started", percent),
		Units:     []string{"p50-µs", "p99-µs", "p99.9-µs"},
		Benchtime: "1x", Takes: 3 * time.Second, Quick: percent == 80,
		run: func(b *testing.B, s Subject) {
			measure(b, s, perCPU(), func(p Pool) { arrive(b, p, percent, func() { spin(openLoopTask) }) })
		},
		// How late they are submitted, when there is nothing else to do.
		floor: func(b *testing.B) { arrive(b, inline, percent, empty) },
	}
}

// timetable says when tasks are due.
type timetable struct {
	Start  time.Time
	Rate   float64 // a second
	Length time.Duration
}

func (t timetable) arrivals() []time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	var due []time.Duration
	for at := 0.0; at < t.Length.Seconds(); at += random.ExpFloat64() / t.Rate {
		due = append(due, time.Duration(at*float64(time.Second)))
	}
	return due
}

// arrive submits work when it is due, for two seconds.
func arrive(b *testing.B, p Pool, percent int, work func()) {
	var late []time.Duration
	for range b.N {
		t := timetable{
			Start:  time.Now().Add(100 * time.Millisecond), // for the metronome to come up
			Rate:   float64(percent) / 100 * float64(runtime.GOMAXPROCS(0)) / openLoopTask.Seconds(),
			Length: 2 * time.Second,
		}
		ticks, stop := startMetronome(b, t)
		due := t.arrivals()
		late = make([]time.Duration, len(due))
		var wg sync.WaitGroup
		wg.Add(len(due))
		ticked, buf := 0, make([]byte, 4096)
		for ticked < len(due) {
			n, err := ticks.Read(buf)
			for i := ticked; i < ticked+n; i++ {
				p.Submit(func() {
					late[i] = time.Since(t.Start) - due[i]
					work()
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
	}
	slices.Sort(late)
	b.ReportMetric(0, "ns/op") // the length is given
	b.ReportMetric(quantile(late, .5), "p50-µs")
	b.ReportMetric(quantile(late, .99), "p99-µs")
	b.ReportMetric(quantile(late, .999), "p99.9-µs")
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
