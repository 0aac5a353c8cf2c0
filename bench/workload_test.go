package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// row is one workload. Its benchmark is Benchmark<family>/<load>/pool=<subject>.
type row struct {
	family    string
	load      string // benchstat keys, may be empty
	benchtime string // "1x" where one iteration is long enough to be a sample
	run       func(b *testing.B, s Subject)
	without   func(s Subject) bool // subjects left out; may be nil
}

var rows = slices.Concat(pondRows, taskgoRows, latencyRows, flockRows, neighbourRows, memoryRows)

func (r row) subjects() []Subject {
	if r.without == nil {
		return Subjects
	}
	return slices.DeleteFunc(slices.Clone(Subjects), r.without)
}

func BenchmarkRand(b *testing.B)       { benchFamily(b, "Rand") }
func BenchmarkSleep(b *testing.B)      { benchFamily(b, "Sleep") }
func BenchmarkBurst(b *testing.B)      { benchFamily(b, "Burst") }
func BenchmarkSaturated(b *testing.B)  { benchFamily(b, "Saturated") }
func BenchmarkLimit10k(b *testing.B)   { benchFamily(b, "Limit10k") }
func BenchmarkSubmitWait(b *testing.B) { benchFamily(b, "SubmitWait") }
func BenchmarkSubmitters(b *testing.B) { benchFamily(b, "Submitters") }
func BenchmarkFanOut(b *testing.B)     { benchFamily(b, "FanOut") }
func BenchmarkFlock(b *testing.B)      { benchFamily(b, "Flock") }
func BenchmarkNeighbour(b *testing.B)  { benchFamily(b, "Neighbour") }
func BenchmarkMemory(b *testing.B)     { benchFamily(b, "Memory") }
func BenchmarkStartup(b *testing.B)    { benchFamily(b, "Startup") }

func benchFamily(b *testing.B, family string) {
	for _, r := range rows {
		if r.family != family {
			continue
		}
		for _, s := range r.subjects() {
			b.Run(path.Join(r.load, "pool="+s.Name), func(b *testing.B) {
				b.ReportAllocs()
				runtime.GC() // what came before is not this subject's garbage
				b.ResetTimer()
				r.run(b, s)
			})
		}
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(PlanEnv) == "" {
		os.Exit(m.Run())
	}
	var plan []Workload
	for _, r := range rows {
		w := Workload{Name: path.Join(r.family, r.load), Benchtime: r.benchtime}
		for _, s := range r.subjects() {
			w.Pools = append(w.Pools, s.Name)
		}
		plan = append(plan, w)
	}
	if err := json.NewEncoder(os.Stdout).Encode(plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// submitFrom shares n tasks among users goroutines that submit them, and waits
// until all have run.
func submitFrom(p Pool, users, n int, task func()) {
	var wg sync.WaitGroup
	wg.Add(n)
	run := func() {
		task()
		wg.Done()
	}
	for u := range users {
		share := n / users
		if u < n%users {
			share++
		}
		go func() {
			for range share {
				p.Submit(run)
			}
		}()
	}
	wg.Wait()
}

// submitAll submits n tasks from here and waits until all have run.
func submitAll(p Pool, n int, task func()) {
	var wg sync.WaitGroup
	wg.Add(n)
	run := func() {
		task()
		wg.Done()
	}
	for range n {
		p.Submit(run)
	}
	wg.Wait()
}

// measure times body with a pool that is there before and after.
func measure(b *testing.B, s Subject, c Config, body func(p Pool)) {
	b.StopTimer()
	p := s.New(c)
	b.StartTimer()
	body(p)
	b.StopTimer()
	p.Close()
}

// bursts times rounds of size tasks with a pause after each. The pause is
// nobody's work, and stopping the benchmark's timer stops the world, so the
// rounds are timed here and replace ns/op.
func bursts(b *testing.B, p Pool, rounds, size int, task func()) {
	var busy time.Duration
	for range b.N * rounds {
		start := time.Now()
		submitAll(p, size, task)
		busy += time.Since(start)
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(busy.Nanoseconds())/float64(b.N), "ns/op")
}

// spin keeps a CPU busy for d.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

func empty() {}
