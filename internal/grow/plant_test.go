//go:build !poolsim

package grow

import (
	"flag"
	"fmt"
	"testing"
)

var table = flag.Bool("grow.table", false, "print all rows of the plant, for 1, 2, 8 and 64 CPUs")

// on runs a row on the plant. always: without the rule, as an eager pool. trace is called at
// each look, with the time and what came of it.
func on(name string, procs int, always bool, trace func(r Rule, s Sight, start bool)) result {
	return onWithout(omit{}, name, procs, always, trace)
}

func onWithout(leave omit, name string, procs int, always bool, trace func(r Rule, s Sight, start bool)) result {
	for _, r := range rows {
		if r.name == name {
			s := newSim(procs, 1)
			p := newPool(s, r.max*procs)
			p.always, p.leave, p.trace = always, leave, trace
			return r.run(p)
		}
	}
	panic("no row " + name)
}

// TestTable prints what the rows look like beside an eager pool, to try a change on.
func TestTable(t *testing.T) {
	if !*table {
		t.Skip("only with -grow.table")
	}
	for _, procs := range []int{1, 2, 8, 64} {
		fmt.Printf("\n%-18s %30s %30s\n", fmt.Sprintf("%d CPUs", procs), "eager", "rule")
		for _, r := range rows {
			fmt.Printf("%-18s %30v %30v\n", r.name, on(r.name, procs, true, nil), on(r.name, procs, false, nil))
		}
	}
}

func (r result) String() string {
	if r.p99 > 0 {
		return fmt.Sprintf("%d/%d µs, crowd %d", r.p50/us, r.p99/us, r.crowd)
	}
	return fmt.Sprintf("%.4g ms, %d workers", float64(r.took)/float64(ms), r.workers)
}

// Rows are pinned on two CPUs: a change of the rule that makes one worse than this has to say
// why. 0 means that the figure says nothing about the row.
var pins = []struct {
	row      string
	took     int64
	p50, p99 int64
	crowd    int
	perTask  float64
}{
	{row: "S3", took: 900 * ms},
	{row: "S4", took: 1150 * ms},
	{row: "S4 polite", took: 50 * ms},
	{row: "S4 late", took: 1900 * ms},
	{row: "L", p50: 100 * us, p99: 81 * ms},
	{row: "wait", took: 17 * ms},
	{row: "L wait", p50: 100 * us, p99: 100 * us, took: 860 * ms},
	{row: "H31", took: 100 * ms},
	{row: "spinning", took: 7_500 * ms},
	{row: "spinning polite", took: 4 * ms},
	{row: "block", took: 2 * ms},
	{row: "mix", took: 400 * ms},
	{row: "mutex", took: 210 * ms},
	{row: "alternate", took: 1100 * ms},
	{row: "beside spinning", took: 700 * ms},
	{row: "N", p99: 200 * us, crowd: 6, perTask: 1.05},
	{row: "N 5 ms", p99: 10 * ms, crowd: 4, perTask: 1.05},
	{row: "N 50 ms", p99: 30 * ms, crowd: 40, perTask: 1.05},
	{row: "N 250 ms", p99: 40 * ms, crowd: 450},
	{row: "N mix", p99: 300 * us, crowd: 45, perTask: 1.05},
	{row: "N bursts", p99: 200 * us, crowd: 6, perTask: 1.3},
	{row: "N after sleepers", p99: 200 * us, crowd: 6, perTask: 1.05},
	{row: "N two pools", p99: 200 * us, crowd: 6},
	{row: "N stolen", crowd: 35},
}

func TestEachRowKeepsToItsPins(t *testing.T) {
	for _, pin := range pins {
		t.Run(pin.row, func(t *testing.T) {
			r := on(pin.row, 2, false, nil)
			most := func(what string, got, most float64) {
				if most > 0 && got > most {
					t.Errorf("%s: %.4g, at most %.4g", what, got, most)
				}
			}
			most("ms in all", float64(r.took)/float64(ms), float64(pin.took)/float64(ms))
			most("µs late, p50", float64(r.p50)/float64(us), float64(pin.p50)/float64(us))
			most("µs late, p99", float64(r.p99)/float64(us), float64(pin.p99)/float64(us))
			most("own runnable workers", float64(r.crowd), float64(pin.crowd))
			most("CPU time per task", r.perTask, pin.perTask)
		})
	}
}

// TestEveryRowHasPins: a row that nothing is said about proves nothing.
func TestEveryRowHasPins(t *testing.T) {
	for i, r := range rows {
		if i >= len(pins) || pins[i].row != r.name {
			t.Errorf("row %q has no pins in its place", r.name)
		}
	}
}

// TestEachMannerIsForARow: without it, the row suffers.
func TestEachMannerIsForARow(t *testing.T) {
	p50 := func(r result) int64 { return r.p50 }
	took := func(r result) int64 { return r.took }
	for _, m := range []struct {
		what   string
		leave  omit
		row    string
		figure func(result) int64
		times  float64
	}{
		{"the quota's yields", omit{quota: true}, "N", p50, 100},
		{"going on beside long turns", omit{goOn: true}, "beside spinning", took, 2.5},
		{"yields before parking", omit{rest: true}, "wait", took, 1.1},
		{"none of them beside long turns", omit{shun: true}, "L wait", took, 20},
	} {
		with, without := figureOf(m.row, omit{}, m.figure), figureOf(m.row, m.leave, m.figure)
		if float64(without) < m.times*float64(with) {
			t.Errorf("%s: row %s has %d µs with it, %d µs without", m.what, m.row, with/us, without/us)
		}
	}
}

func figureOf(name string, leave omit, figure func(result) int64) int64 {
	return figure(onWithout(leave, name, 2, false, nil))
}

// TestTheSameRunAgainIsTheSame: the plant has no clock and no chance of its own.
func TestTheSameRunAgainIsTheSame(t *testing.T) {
	if a, b := on("N mix", 2, false, nil), on("N mix", 2, false, nil); a != b {
		t.Errorf("%+v, then %+v", a, b)
	}
}

// TestOneCPUBesideSpinningGoroutines: on one CPU a worker that yields waits as long as the
// foreign goroutines compute, and is no sign of progress.
func TestOneCPUBesideSpinningGoroutines(t *testing.T) {
	if rule, eager := on("beside spinning", 1, false, nil), on("beside spinning", 1, true, nil); rule.took > 2*eager.took {
		t.Errorf("%d ms, an eager pool %d ms", rule.took/ms, eager.took/ms)
	}
}

// TestManyCPUs: workers that start at once wait in the run queue of one CPU, so they must be few
// even where there are many CPUs.
func TestManyCPUs(t *testing.T) {
	if rule, eager := on("S3", 64, false, nil), on("S3", 64, true, nil); rule.took > 2*eager.took {
		t.Errorf("S3 on 64 CPUs: %d ms, an eager pool %d ms", rule.took/ms, eager.took/ms)
	}
	for _, row := range []string{"N 50 ms", "N stolen"} {
		if r := on(row, 16, false, nil); r.crowd > 32*16 {
			t.Errorf("%s on 16 CPUs: %d own runnable workers", row, r.crowd)
		}
	}
}

// An eager pool shows what the pins of the neighbour's rows are worth, and a pool that never
// grows beyond the CPUs would show it for the others.
func TestAnEagerPoolBreaksThePinsOfTheNeighbour(t *testing.T) {
	for _, pin := range pins {
		if pin.crowd > 0 {
			if r := on(pin.row, 2, true, nil); r.crowd <= pin.crowd {
				t.Errorf("%s: %d own runnable workers without a rule", pin.row, r.crowd)
			}
		}
	}
}

// TestS3GrowsAStepARound: while tasks compute for longer than a slice, the pool has a small
// crowd, and its limit rises by a step for each round of the scheduler.
func TestS3GrowsAStepARound(t *testing.T) {
	const step = 2 * perCPU
	var at20, plateau, limit, rises int
	var raised int64
	on("S3", 2, false, func(r Rule, s Sight, start bool) {
		if s.Now <= 20*ms {
			at20 = s.InTask
		}
		if s.Now < 200*ms {
			plateau = max(plateau, s.InTask)
		}
		if r.limit > max(limit, step) && s.InTask < 2*r.limit {
			rises++
			if raised > 0 && s.Now-raised < int64(s.Runnable)*slice/2 {
				t.Errorf("%d ms: the limit rises %d ms after the last time, with %d runnable", s.Now/ms, (s.Now-raised)/ms, s.Runnable)
			}
			if own := s.Runnable - r.foreign; r.limit > own+step {
				t.Errorf("%d ms: a limit of %d, with %d own runnable workers", s.Now/ms, r.limit, own)
			}
			raised = s.Now
		}
		limit = r.limit
	})
	if at20 > 4 || plateau > step+2 || rises < 1 {
		t.Errorf("%d workers after 20 ms, %d after 200 ms, %d steps", at20, plateau, rises)
	}
}

// TestLongTasksThatEndLetTheCrowdBe: tasks of 50 ms look like tasks without end, but rounds
// bring ends, and then the limit stays.
func TestLongTasksThatEndLetTheCrowdBe(t *testing.T) {
	var was Rule
	rises := 0
	on("N 50 ms", 2, false, func(r Rule, s Sight, start bool) {
		if was.limit > 0 && r.limit > max(was.limit, s.InTask/2) {
			rises++
			if ended := s.Ended - was.ended; ended >= 2 {
				t.Errorf("%d ms: the limit rises to %d in a round that ended %d tasks", s.Now/ms, r.limit, ended)
			}
		}
		was = r
	})
	if rises == 0 {
		t.Error("the limit never rose")
	}
}

// TestGrowthIsNeverDenied: whatever is seen, the rule lets a worker start while there are CPUs
// without one, and after mostLooks looks in which no task began; in a crowd, after a round too.
func TestGrowthIsNeverDenied(t *testing.T) {
	sights := []Sight{
		{Procs: 2, InTask: 1, Fresh: 1, Runnable: 1 << 20},
		{Procs: 2, Yielding: 1, Fresh: 1, Runnable: 0},
	}
	for _, s := range sights {
		var r Rule
		var l Look
		if start := r.Ask(&l, s); !start {
			t.Errorf("%+v: no start with a CPU to spare", s)
		}
	}
	for _, s := range []Sight{
		{Procs: 2, InTask: 2, Fresh: 2, Runnable: 2},                    // the CPUs are in use
		{Procs: 2, InTask: 1000, Runnable: 900},                         // a crowd
		{Procs: 2, InTask: 2, Yielding: 500, Fresh: 502, Runnable: 502}, // all yield
	} {
		for _, step := range []int64{0, slice} { // the clock stands still; looks take long
			var r Rule
			var l Look
			looks := 0
			for start := false; !start && looks < 1000; looks++ {
				start = r.Ask(&l, s)
				s.Now += step
			}
			most := mostLooks + 1
			if step > 0 && s.Fresh == 0 { // in a crowd it sleeps for a round, one nap a look
				most += int(int64(s.Runnable) * slice / int64(s.Procs) / step)
			}
			if looks < 2 || looks > most {
				t.Errorf("%+v: %d looks, %d ms apart", s, looks, step/ms)
			}
		}
	}
}
