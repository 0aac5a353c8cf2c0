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
	Source string // who published it first: "pond", "flock", "taskgo" or "shoal"
	// Units are those of its figures, the one that matters most first. In all
	// of them less is better.
	Units     []string
	Benchtime string        // as for go test; "1x" where one iteration is a sample
	Takes     time.Duration // one measurement, roughly
	Quick     bool          // one of the few that give a first impression

	run     func(b *testing.B, s Subject)
	floor   func(b *testing.B)   // the same work without a pool
	without func(s Subject) bool // subjects left out; may be nil
}

// Floor is the name under which a workload's floor is measured: the same work
// done without any pool, by goroutines that share it out beforehand or by the
// submitters themselves. It is no contestant.
const Floor = "floor"

// Workloads are all rows, in the order of the tables.
var Workloads = slices.Concat(pondRows, taskgoRows, flockRows, latencyRows, openLoopRows, neighbourRows, scaleRows, memoryRows)

// Family is the first part of the name.
func (w Workload) Family() string {
	family, _, _ := strings.Cut(w.Name, "/")
	return family
}

// Subjects are the names of those that take part, with Floor last.
func (w Workload) Subjects() []string {
	var names []string
	for _, s := range Subjects {
		if w.without == nil || !w.without(s) {
			names = append(names, s.Name)
		}
	}
	return append(names, Floor)
}

// Run measures w with the subject of that name, as a benchmark.
func (w Workload) Run(b *testing.B, subject string) {
	b.ReportAllocs()
	runtime.GC() // what came before is not this subject's garbage
	b.ResetTimer()
	if subject == Floor {
		w.floor(b)
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
		if w.What == "" || w.run == nil || w.floor == nil || w.Benchtime == "" {
			panic(fmt.Sprintf("workload %s is incomplete", w.Name))
		}
	}
	return all
}
