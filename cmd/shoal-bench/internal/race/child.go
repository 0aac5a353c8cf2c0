package race

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"syscall"
	"testing"

	"github.com/shoal-go/shoal/bench"
)

// childEnv, when set, makes this program measure one thing, say what it found
// on standard output, and end. Its value is an order.
const childEnv = "SHOAL_BENCH_ORDER"

type order struct {
	Workload, Subject string
	Profile           string // file for a CPU profile; empty: none
}

// Child does what the parent process ordered, if it did. Otherwise it returns
// at once.
func Child() {
	text, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	signal.Ignore(os.Interrupt, syscall.SIGHUP) // the terminal sends them to all; the parent ends this process
	m, err := obey(text)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func obey(text string) (m Measurement, err error) {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return m, fmt.Errorf("%s: %w", childEnv, err)
	}
	i := slices.IndexFunc(bench.Workloads, func(w bench.Workload) bool { return w.Name == o.Workload })
	if i < 0 {
		return m, fmt.Errorf("no workload %q", o.Workload)
	}
	w := bench.Workloads[i]
	testing.Init() // testing's flags, which hold how long a benchmark takes
	if err := flag.Set("test.benchtime", w.Benchtime); err != nil {
		return m, fmt.Errorf("%s: %w", w.Name, err)
	}
	if o.Profile != "" {
		f, err := os.Create(o.Profile)
		if err != nil {
			return m, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return m, err
		}
		defer pprof.StopCPUProfile()
	}
	r := testing.Benchmark(func(b *testing.B) { w.Run(b, o.Subject) })
	if r.N == 0 {
		return m, fmt.Errorf("%s, %s: the benchmark failed", w.Name, o.Subject)
	}
	m.Iterations = r.N
	m.Values = map[string]float64{
		"ns/op":     float64(r.T.Nanoseconds()) / float64(r.N),
		"B/op":      float64(r.AllocedBytesPerOp()),
		"allocs/op": float64(r.AllocsPerOp()),
	}
	maps.Copy(m.Values, r.Extra)
	return m, nil
}
