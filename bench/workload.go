package bench

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Workload is one row of a table: what is done with each subject, and timed.
type Workload struct {
	Name   string // "Rand/load=1u-1Mt": the family, then what benchstat calls keys
	What   string // the same for people, one line
	Feel   string // what a user of such a program would notice, one sentence
	Source string // the project that published it first: "pond", "flock", "taskgo" or "shoal"
	// Units are those of its figures, the one that matters most first. In all
	// of them less is better.
	Units     []string
	Benchtime string        // as for go test; "1x" where one iteration is a sample
	Takes     time.Duration // one measurement, roughly
	Quick     bool          // one of the few that give a first impression

	run      func(b *testing.B, s Subject)
	baseline func(b *testing.B)   // the same work without a pool
	without  func(s Subject) bool // subjects left out; may be nil
}

// Baseline is the name under which a workload's baseline is measured: the same work
// done without any pool, by goroutines that share it out beforehand or by the
// submitters themselves. It is no contestant.
const Baseline = "baseline"

// Workloads are all rows, in the order of the tables.
var Workloads = slices.Concat(pondRows, taskgoRows, flockRows, latencyRows, openLoopRows, mixedRows, producerRows,
	neighbourRows, manyRows, loopRows, scaleRows, memoryRows)

// Family is the first part of the name.
func (w Workload) Family() string {
	family, _, _ := strings.Cut(w.Name, "/")
	return family
}

// Subjects are the names of those that take part, with Baseline last.
func (w Workload) Subjects() []string {
	var names []string
	for _, s := range Subjects {
		if w.without == nil || !w.without(s) {
			names = append(names, s.Name)
		}
	}
	return append(names, Baseline)
}

// Run measures w with the subject of that name, as a benchmark.
func (w Workload) Run(b *testing.B, subject string) {
	b.ReportAllocs()
	runtime.GC() // what came before is not this subject's garbage
	b.ResetTimer()
	if subject == Baseline {
		w.baseline(b)
		return
	}
	i := slices.IndexFunc(Subjects, func(s Subject) bool { return s.Name == subject })
	if i < 0 || !slices.Contains(w.Subjects(), subject) {
		b.Fatalf("%s: no subject %q", w.Name, subject)
	}
	w.run(b, Subjects[i])
}

// rows makes the workloads of a family; each gets the family's name.
func rows(family, source string, all ...Workload) []Workload {
	for i := range all {
		w := &all[i]
		w.Name = path.Join(family, w.Name)
		w.Source = source
		if w.Units == nil {
			w.Units = []string{"ns/op"}
		}
		if w.Takes == 0 {
			w.Takes = time.Second
		}
		w.Feel = feels[family]
		if f, ok := feels[w.Name]; ok {
			w.Feel = f
		}
		if w.What == "" || w.Feel == "" || w.run == nil || w.baseline == nil || w.Benchtime == "" {
			panic(fmt.Sprintf("workload %s is incomplete", w.Name))
		}
	}
	return all
}

// feels has, for a family or a row, what a user would notice.
var feels = map[string]string{
	"Rand":                   "How long a batch of a million tiny tasks takes from the first Submit to the last result.",
	"Sleep":                  "How long a million calls to a slow service take, when 200,000 may be under way.",
	"Burst":                  "How soon a handful of tasks is done that comes after a pause, as with a request that fans out.",
	"Saturated":              "How long a batch takes whose tasks are short and all there at once.",
	"Limit10k":               "The same for a pool whose limit was set very high.",
	"Flock":                  "What each task costs when one goroutine, or many, hand over task after task.",
	"Flock/task=mixed":       "Whether a few slow tasks hold up the many that are quick.",
	"Flock/task=burst":       "How long a request waits for a hundred tiny tasks after a millisecond of rest.",
	"Flock/task=gc":          "What each task costs while the garbage collector works.",
	"SubmitWait":             "How long one waits for the answer of a single quick task.",
	"Submitters":             "Whether many goroutines that submit get in each other's way.",
	"FanOut":                 "How long a crawler or a tree walk takes whose tasks submit more tasks.",
	"Latency":                "How late a request is started in a server with so much to do.",
	"Mixed/behind=computing": "How long quick calls take to a pool that was given long computations just before.",
	"Mixed/beside=spinning":  "How long quick calls take while the rest of the program computes on all CPUs.",
	"Mixed/beside=endless":   "How late a request is started while a few tasks of the same pool never end.",
	"Producers":              "Whether the pool keeps up with goroutines that never stop submitting, and what that costs in memory.",
	"Neighbour":              "How late the rest of the program is while the pool has all hands full.",
	"Pools/pools=10":         "Whether ten parts of a program, each with a pool, get in each other's way.",
	"Pools/pools=10000":      "What it costs to give each of 10,000 tenants a limit of their own.",
	"Nested":                 "How long divide and conquer takes when each part waits for its parts.",
	"Range":                  "How long a loop takes whose iterations are shared among the CPUs.",
	"Scale":                  "What each task costs when there are few, and when there are many.",
	"Memory/of=backlog":      "How much memory a queue takes that has become long.",
	"Memory/of=worker":       "How much memory workers hold that have nothing to do.",
	"Startup":                "What it costs to make a pool for a single call, as one does with errgroup.",
}
