package where

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/pprof/profile"
)

// Stacks, the innermost function first, and the part that they belong to.
var stacks = []struct {
	name string
	want Part
	fns  []string
}{
	{"a task", Task, []string{"runtime.nanotime1", "time.Since", module + "/bench.spin", module + "/bench.glob..func1", module + "/internal/kernel.(*Worker).loop", module + "/internal/caller.spell"}},
	{"a task on no worker", Task, []string{module + "/bench.spin", module + "/internal/caller.spell", module + "/internal/kernel.(*Lane).runHere", module + "/bench.submitAll"}},
	{"a task that allocates", Memory, []string{"runtime.nextFreeFast", "runtime.mallocgcSmallNoscan", module + "/bench.garbage", module + "/internal/kernel.(*Worker).loop"}},
	{"a task that sleeps", Scheduler, []string{"runtime.gopark", "time.Sleep", module + "/bench.pond.func1", module + "/internal/kernel.(*Worker).loop"}},
	{"Submit", Pool, []string{"internal/runtime/atomic.(*Uint64).CompareAndSwap", "sync/atomic.(*Uint64).CompareAndSwap", module + "/internal/kernel.(*Lane).Submit", module + ".(*Pool).Submit", module + "/bench.share.func1"}},
	{"the queue", Pool, []string{module + "/internal/queue.(*Segment).Take", module + "/internal/kernel.(*Worker).fetch"}},
	{"a submitter", Submitter, []string{module + "/bench.submitAll"}},
	{"a worker that parks", Scheduler, []string{"runtime.lock2", "runtime.chanrecv", "runtime.chanrecv1", module + "/internal/sy.Event.Wait", module + "/internal/kernel.(*Worker).sleep"}},
	{"the scheduler itself", Scheduler, []string{"runtime.futex", "runtime.futexsleep", "runtime.notesleep", "runtime.stopm", "runtime.findRunnable", "runtime.schedule", "runtime.park_m", "runtime.mcall"}},
	{"the collector", Memory, []string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker.func2", "runtime.systemstack"}},
	{"a deep task, cut off", Task, slices.Repeat([]string{module + "/bench.descend"}, cutOff)},
	{"the harness", Other, []string{"testing.(*B).run1"}},
	{"nothing", Other, nil},
}

func TestClassify(t *testing.T) {
	for _, s := range stacks {
		if got := classify(s.fns); got != s.want {
			t.Errorf("%s: %s, want %s", s.name, got, s.want)
		}
	}
}

// fake is a profile with a sample of 10 ms for each of the stacks.
func fake() *profile.Profile {
	p := &profile.Profile{
		SampleType:    []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		DurationNanos: int64(len(stacks)) * 10e6,
	}
	for _, s := range stacks {
		sample := &profile.Sample{Value: []int64{1, 10e6}}
		for _, fn := range s.fns {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: fn}
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			sample.Location = append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.pprof")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := fake().Write(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	p, err := Read(file, 2)
	if err != nil {
		t.Fatal(err)
	}
	if p.Samples != len(stacks) || math.Abs(p.Busy-0.5) > 0.01 {
		t.Errorf("%d samples, busy %v; want %d, 0.5", p.Samples, p.Busy, len(stacks))
	}
	sum := 0.0
	for _, part := range Parts {
		sum += p.Shares[part]
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the shares add up to %v", sum)
	}
	if want := 3.0 / float64(len(stacks)); math.Abs(p.Shares[Scheduler]-want) > 1e-9 {
		t.Errorf("scheduler: %v, want %v", p.Shares[Scheduler], want)
	}
}

func TestReadBadFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no profile"), 0o666); err != nil {
		t.Fatal(err)
	}
	heap := fake()
	heap.SampleType[1].Type = "inuse_space"
	other := filepath.Join(dir, "other")
	f, err := os.Create(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := heap.Write(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, file := range []string{text, other, filepath.Join(dir, "missing")} {
		if p, err := Read(file, 2); err == nil {
			t.Errorf("Read(%s) = %v, want an error", file, p)
		}
	}
}
