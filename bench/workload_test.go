package bench

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Metronome()
	os.Exit(m.Run())
}

func BenchmarkRand(b *testing.B)       { benchFamily(b, "Rand") }
func BenchmarkSleep(b *testing.B)      { benchFamily(b, "Sleep") }
func BenchmarkBurst(b *testing.B)      { benchFamily(b, "Burst") }
func BenchmarkSaturated(b *testing.B)  { benchFamily(b, "Saturated") }
func BenchmarkLimit10k(b *testing.B)   { benchFamily(b, "Limit10k") }
func BenchmarkFlock(b *testing.B)      { benchFamily(b, "Flock") }
func BenchmarkSubmitWait(b *testing.B) { benchFamily(b, "SubmitWait") }
func BenchmarkSubmitters(b *testing.B) { benchFamily(b, "Submitters") }
func BenchmarkFanOut(b *testing.B)     { benchFamily(b, "FanOut") }
func BenchmarkLatency(b *testing.B)    { benchFamily(b, "Latency") }
func BenchmarkMixed(b *testing.B)      { benchFamily(b, "Mixed") }
func BenchmarkProducers(b *testing.B)  { benchFamily(b, "Producers") }
func BenchmarkPools(b *testing.B)      { benchFamily(b, "Pools") }
func BenchmarkNested(b *testing.B)     { benchFamily(b, "Nested") }
func BenchmarkRange(b *testing.B)      { benchFamily(b, "Range") }
func BenchmarkNeighbour(b *testing.B)  { benchFamily(b, "Neighbour") }
func BenchmarkScale(b *testing.B)      { benchFamily(b, "Scale") }
func BenchmarkMemory(b *testing.B)     { benchFamily(b, "Memory") }
func BenchmarkStartup(b *testing.B)    { benchFamily(b, "Startup") }

var families = []string{"Rand", "Sleep", "Burst", "Saturated", "Limit10k", "Flock", "SubmitWait", "Submitters",
	"FanOut", "Latency", "Mixed", "Producers", "Neighbour", "Pools", "Nested", "Range", "Scale", "Memory", "Startup"}

func benchFamily(b *testing.B, family string) {
	for _, w := range Workloads {
		if w.Family() != family {
			continue
		}
		for _, s := range w.Subjects() {
			name := strings.TrimPrefix(strings.TrimPrefix(w.Name, family)+"/pool="+s, "/")
			b.Run(name, func(b *testing.B) { w.Run(b, s) })
		}
	}
}

// TestEveryFamilyIsABenchmark: a family without one would only be in the race.
func TestEveryFamilyIsABenchmark(t *testing.T) {
	var seen []string
	for _, w := range Workloads {
		if !slices.Contains(seen, w.Family()) {
			seen = append(seen, w.Family())
		}
	}
	slices.Sort(seen)
	if want := slices.Sorted(slices.Values(families)); !slices.Equal(seen, want) {
		t.Errorf("the workloads are of %v, the benchmarks of %v", seen, want)
	}
}

func TestWorkloadNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range Workloads {
		if seen[w.Name] {
			t.Errorf("two workloads are called %s", w.Name)
		}
		seen[w.Name] = true
	}
}

// TestWorkloads runs every row with shoal, and one of each family with its baseline: each must end, and
// report all its units. Of families whose rows differ by numbers only it runs one.
func TestWorkloads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	was := flag.Lookup("test.benchtime").Value.String()
	defer flag.Set("test.benchtime", was)
	if err := flag.Set("test.benchtime", "1x"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, w := range Workloads {
		family, _, _ := strings.Cut(w.Name, "/")
		if seen[family] && slices.Contains([]string{"Rand", "Sleep", "Limit10k", "Scale", "Latency", "Producers"}, family) {
			continue
		}
		subjects := []string{"shoal"}
		if !seen[family] { // of the baseline's rows only the numbers differ
			subjects = append(subjects, Baseline)
		}
		seen[family] = true
		for _, subject := range subjects {
			t.Run(w.Name+"/pool="+subject, func(t *testing.T) {
				r := testing.Benchmark(func(b *testing.B) { w.Run(b, subject) })
				if r.N == 0 {
					t.Fatal("it failed")
				}
				for _, u := range w.Units {
					if _, ok := r.Extra[u]; !ok && u != "ns/op" {
						t.Errorf("no figure for %s, only %v", u, r.Extra)
					}
				}
			})
		}
	}
}
