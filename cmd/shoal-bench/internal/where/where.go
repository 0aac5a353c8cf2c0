// Package where tells from a CPU profile where the time of a measurement of
// shoal went.
package where

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// Parts are what the time is divided into, in the order of tables.
var Parts = []Part{Task, Submitter, Pool, Scheduler, Memory, Other}

// A Part is a kind of work.
type Part string

// The parts. A sample belongs to the first that fits, from the bottom of this
// list up.
const (
	Other     Part = "other"     // the harness
	Task      Part = "tasks"     // the tasks themselves
	Submitter Part = "submitter" // what submits them, without Submit
	Pool      Part = "pool"      // shoal's own code
	Scheduler Part = "scheduler" // Go's: switching, parking, waking, timers
	Memory    Part = "memory"    // allocating, growing stacks, collecting
)

// A Profile sums up where the time went.
type Profile struct {
	Samples int              `json:"samples"`
	Busy    float64          `json:"busy"`   // the share of the CPUs' time that was used
	Shares  map[Part]float64 `json:"shares"` // of the time used
}

// Read sums up the CPU profile in file, taken with that GOMAXPROCS.
func Read(file string, procs int) (*Profile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return sum(p, procs)
}

func sum(p *profile.Profile, procs int) (*Profile, error) {
	if len(p.SampleType) != 2 || p.SampleType[1].Type != "cpu" || p.SampleType[1].Unit != "nanoseconds" {
		return nil, fmt.Errorf("not a CPU profile of Go")
	}
	var total int64
	part := map[Part]int64{}
	r := &Profile{Shares: map[Part]float64{}}
	for _, s := range p.Sample {
		r.Samples += int(s.Value[0])
		total += s.Value[1]
		part[classify(stack(s))] += s.Value[1]
	}
	if total == 0 {
		return r, nil
	}
	for k, v := range part {
		r.Shares[k] = float64(v) / float64(total)
	}
	if d := time.Duration(p.DurationNanos); d > 0 && procs > 0 {
		r.Busy = float64(total) / float64(d) / float64(procs)
	}
	return r, nil
}

// stack is the functions of a sample, the innermost first.
func stack(s *profile.Sample) (names []string) {
	for _, l := range s.Location {
		for _, line := range l.Line { // inlined functions come before their callers
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

const (
	module = "github.com/shoal-go/shoal"
	cutOff = 64 // deeper stacks have lost their outer end; only tasks are so deep
)

var (
	runTasks = []string{module + "/internal/kernel.(*Worker).loop", module + "/internal/kernel.(*Lane).runHere"}
	memory   = []string{
		"runtime.mallocgc", "runtime.newobject", "runtime.growslice", "runtime.makeslice", "runtime.gcBgMarkWorker",
		"runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcWriteBarrier",
		"runtime.wbBufFlush", "runtime.newstack", "runtime.copystack", "runtime.morestack", "runtime.GC",
	}
	scheduler = []string{
		"runtime.schedule", "runtime.findRunnable", "runtime.park_m", "runtime.mstart", "runtime.goschedImpl", "runtime.gopreempt_m",
		"runtime.goexit0", "runtime.gdestroy", "runtime.chansend", "runtime.chanrecv", "runtime.selectgo", "runtime.selectnbrecv",
		"runtime.goready", "runtime.ready", "runtime.newproc", "runtime.gopark", "runtime.sysmon", "runtime.mcall", "runtime.Gosched",
		"runtime.semacquire", "runtime.semrelease", "runtime.resetForSleep", "runtime.timeSleep", "time.Sleep", "runtime.(*timer)",
		"sync.runtime_Semacquire", "sync.runtime_Semrelease", "internal/sync.runtime_Semacquire", "internal/sync.runtime_Semrelease",
	}
)

// classify says what a stack was doing.
func classify(names []string) Part {
	switch {
	case contains(names, memory):
		return Memory
	case contains(names, scheduler):
		return Scheduler
	}
	for _, n := range names {
		rest, ours := strings.CutPrefix(n, module)
		switch {
		case !ours:
		case strings.HasPrefix(rest, "."), strings.HasPrefix(rest, "/internal/"):
			return Pool
		case strings.HasPrefix(rest, "/bench.") && (len(names) >= cutOff || contains(names, runTasks)):
			return Task
		case strings.HasPrefix(rest, "/bench."):
			return Submitter
		}
	}
	return Other
}

func contains(names, prefixes []string) bool {
	for _, n := range names {
		for _, p := range prefixes {
			if strings.HasPrefix(n, p) {
				return true
			}
		}
	}
	return false
}
