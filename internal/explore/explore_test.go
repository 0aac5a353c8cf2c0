package explore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// cell is an atomic number, as package sy has them.
type cell struct {
	o      Object
	v      int
	given  bool
	parked *signal // of the thread that waits until it is given
}

func (c *cell) load() int   { Access(&c.o, Read, "load"); return c.v }
func (c *cell) store(v int) { Access(&c.o, Write, "store"); c.v = v }
func (c *cell) add(d int) int {
	Access(&c.o, Write, "add")
	c.v += d
	return c.v
}

type mutex struct {
	o    Object
	held bool
}

func (m *mutex) lock()   { Lock(&m.o, &m.held) }
func (m *mutex) unlock() { Unlock(&m.o, &m.held) }

type signal struct {
	o   Object
	set Flag
}

func (e *signal) send() { Access(&e.o, Write, "set"); e.set.Set() }
func (e *signal) wait() { Wait(&e.o, Write, &e.set, nil, "wait"); e.set.Clear() }

func mustFail(t *testing.T, model func(*M), mode Mode, why string) *Failure {
	t.Helper()
	rep := Explore(model, mode, Limits{})
	if rep.Failure == nil {
		t.Fatalf("%v: no failure in %d schedules", mode, rep.Schedules)
	}
	if !strings.Contains(rep.Failure.Why, why) {
		t.Fatalf("%v: it fails with %q, want %q", mode, rep.Failure.Why, why)
	}
	again, err := Replay(model, rep.Failure.Replay)
	if err != nil || again.Why != rep.Failure.Why {
		t.Fatalf("replay %q: %v, %v", rep.Failure.Replay, again, err)
	}
	return again
}

// everyMode are the ways to find a fault.
var everyMode = []Mode{All(), Bound(2), Random(1000, 1), PCT(1000, 3, 1), {kind: naive, bound: -1}}

func TestLostUpdate(t *testing.T) {
	model := func(m *M) {
		x, n := new(cell), 0
		for range 2 {
			m.Go("adder", func() { x.store(x.load() + 1); n++ })
		}
		m.After(func() {
			if x.v != n {
				m.Failf("%d of %d", x.v, n)
			}
		})
	}
	for _, mode := range everyMode {
		f := mustFail(t, model, mode, "1 of 2")
		for _, want := range []string{"adder", "load", "store", "explore_test.go", "Access(&c.o, Write"} {
			if !strings.Contains(f.Trace, want) {
				t.Errorf("no %q in the trace:\n%s", want, f.Trace)
			}
		}
	}
}

func TestDeadlock(t *testing.T) {
	model := func(m *M) {
		a, b := new(mutex), new(mutex)
		m.Go("ab", func() { a.lock(); b.lock(); b.unlock(); a.unlock() })
		m.Go("ba", func() { b.lock(); a.lock(); a.unlock(); b.unlock() })
	}
	for _, mode := range everyMode {
		f := mustFail(t, model, mode, "nobody can go on")
		if !strings.Contains(f.Why, "ab") || !strings.Contains(f.Why, "ba") {
			t.Errorf("it does not say who is stuck: %s", f.Why)
		}
	}
}

// TestLostWakeUp is the classical one: look, then park, without looking again.
func TestLostWakeUp(t *testing.T) {
	model := func(announceFirst bool) func(m *M) {
		return func(m *M) {
			queued, parked, e := new(cell), new(cell), new(signal)
			m.Go("worker", func() {
				if announceFirst {
					parked.store(1)
					if queued.load() == 0 {
						e.wait()
					}
					return
				}
				if queued.load() == 0 {
					parked.store(1)
					e.wait()
				}
			})
			m.Go("submitter", func() {
				queued.store(1)
				if parked.load() == 1 {
					e.send()
				}
			})
		}
	}
	for _, mode := range everyMode {
		mustFail(t, model(false), mode, "nobody can go on")
		if rep := Explore(model(true), mode, Limits{}); rep.Failure != nil || !rep.Complete {
			t.Errorf("%v: the right protocol: %+v", mode, rep)
		}
	}
}

// TestSchedules counts those that are different.
func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  int
		model func(m *M)
	}{
		{"independent", 1, func(m *M) {
			for range 3 {
				x := new(cell)
				m.Go("", func() { x.store(1); x.store(2) })
			}
		}},
		{"readers", 1, func(m *M) {
			x := new(cell)
			for range 3 {
				m.Go("", func() { x.load(); x.load() })
			}
		}},
		{"two writers", 2, func(m *M) {
			x := new(cell)
			for i := range 2 {
				m.Go("", func() { x.store(i) })
			}
		}},
		{"three writers", 6, func(m *M) {
			x := new(cell)
			for i := range 3 {
				m.Go("", func() { x.store(i) })
			}
		}},
		{"three under a lock", 6, func(m *M) {
			l, x := new(mutex), new(cell)
			for i := range 3 {
				m.Go("", func() { l.lock(); x.store(i); l.unlock() })
			}
		}},
		// The last of the papers' examples: a write, and n readers of their own
		// cell before it.
		{"lastzero(2)", 3, func(m *M) {
			a := [3]cell{}
			m.Go("", func() {
				for i := 2; i > 0 && a[i].load() != 0; i-- {
				}
			})
			for i := 1; i < 3; i++ {
				m.Go("", func() { a[i].store(a[i-1].load() + 1) })
			}
		}},
		{"choices", 6, func(m *M) { Choose(2); Choose(3) }},
	} {
		rep := Explore(c.model, All(), Limits{})
		full := Explore(c.model, Mode{kind: naive, bound: -1}, Limits{})
		t.Logf("%s: %d schedules, %d cut; %d without reduction", c.name, rep.Schedules, rep.Cut, full.Schedules)
		if !rep.Complete || rep.Failure != nil || c.name != "lastzero(2)" && rep.Schedules != c.want {
			t.Errorf("%s: %+v, want %d schedules", c.name, rep, c.want)
		}
		if rep.Schedules > full.Schedules {
			t.Errorf("%s: %d schedules are more than the %d there are", c.name, rep.Schedules, full.Schedules)
		}
	}
}

// ----- the reduction loses nothing -----

// An instr is a step of a random program.
type instr struct {
	kind string
	on   int
}

// program draws threads of a few steps each. Locks are released, and taken in
// order, but whoever waits for an event may wait in vain.
func program(r *rand.Rand) (threads [][]instr) {
	kinds := []string{"load", "load", "store", "add", "lock", "set", "cancel", "choose", "branch", "spawn", "yield", "swap", "timer", "advance", "give", "wait", "waitor", "await"}
	if r.IntN(2) == 0 {
		kinds = kinds[:15] // nobody waits
	}
	for range 2 + r.IntN(2) {
		var steps []instr
		for range 1 + r.IntN(4) {
			steps = append(steps, instr{kinds[r.IntN(len(kinds))], r.IntN(2)})
		}
		threads = append(threads, steps)
	}
	return threads
}

// runProgram runs it, and writes down what each thread saw.
func runProgram(threads [][]instr, outcome func(string)) func(m *M) {
	return func(m *M) {
		var (
			cells  [2]cell
			locks  [2]mutex
			events [2]signal
			ctx    = NewContext()
			saw    = make([][]int, len(threads))
		)
		m.Timed()
		for id, steps := range threads {
			m.Go(fmt.Sprint(id), func() {
				see := func(v int) { saw[id] = append(saw[id], v) }
				for i, s := range steps {
					v := 10*id + i + 1
					c, e := &cells[s.on], &events[s.on]
					switch s.kind {
					case "load":
						see(c.load())
					case "store":
						c.store(v)
					case "add":
						see(c.add(v))
					case "lock":
						locks[s.on].lock()
						x := cells[0].load()
						cells[1].store(x + v)
						locks[s.on].unlock()
						see(x)
					case "set":
						e.send()
					case "yield":
						Yield()
					case "swap": // it sees what it replaces
						Access(&c.o, Write, "swap")
						see(c.v)
						c.v = v
					case "timer": // some time, whether it has fired or not
						tm := AfterFunc(time.Duration(s.on), func() { c.add(1000) })
						see(c.load())
						if !tm.Stop() {
							see(-1)
						}
					case "advance":
						m.Advance(1)
					case "wait":
						e.wait()
						see(v)
					case "waitor":
						if Wait(&e.o, Write, &e.set, ctx, "waitor") {
							e.set.Clear()
							see(1)
						} else {
							see(2)
						}
					case "cancel":
						ctx.Cancel()
					case "choose":
						see(Choose(2))
					case "branch":
						if c.load() > 0 {
							cells[1-s.on].store(v)
						}
					case "spawn":
						Go(func() { c.add(100) })
					case "await": // for give
						Access(&c.o, Write, "await")
						if c.parked == nil && !c.given {
							c.parked = new(signal)
							c.parked.wait()
						}
						see(v)
					case "give":
						Access(&c.o, Write, "give")
						c.given = true
						if e := c.parked; e != nil {
							c.parked = nil
							e.send()
						}
					}
				}
			})
		}
		m.After(func() { outcome(fmt.Sprint(saw, cells[0].v, cells[1].v, events[0].set.On(), events[1].set.On())) })
	}
}

// outcomes of all runs of a program in a mode. One that gets stuck is an
// outcome too.
func outcomes(threads [][]instr, mode Mode, limits Limits) (map[string]bool, Report) {
	all := map[string]bool{}
	x := &explorer{mode: mode, reached: map[string]int{}, length: 1}
	x.model = runProgram(threads, func(s string) { all[s] = true })
	x.ended = func(r *run) {
		if r.failure != "" {
			all["stuck"] = true
		}
	}
	return all, x.explore(limits)
}

func TestReductionLosesNothing(t *testing.T) {
	programs := uint64(500)
	if testing.Short() { // also where a goroutine is dear: under the race detector
		programs = 20
	}
	var compared, stuck, saved, total int
	for seed := range programs {
		c := compare(t, seed)
		if t.Failed() {
			return
		}
		if c.full > 0 {
			compared++
			total += c.full
			saved += c.reduced
		}
		if c.stuck {
			stuck++
		}
	}
	t.Logf("%d programs of %d, %d of them can get stuck; %d schedules instead of %d", compared, programs, stuck, saved, total)
	if compared < int(programs)/2 || stuck == 0 || stuck == compared || saved >= total {
		t.Error("these programs show nothing")
	}
}

type comparison struct {
	full, reduced int // schedules; 0: too many
	stuck         bool
}

// compare runs a random program without and with reduction.
func compare(t *testing.T, seed uint64) (c comparison) {
	threads := program(rand.New(rand.NewPCG(seed, 7)))
	want, full := outcomes(threads, Mode{kind: naive, bound: -1}, Limits{Schedules: 20_000})
	if !full.Complete {
		return c
	}
	got, rep := outcomes(threads, All(), Limits{})
	c = comparison{full.Schedules, rep.Schedules, want["stuck"]}
	switch {
	case want["stuck"] != got["stuck"]:
		t.Errorf("program %d, %v: it can get stuck: %t, found: %t", seed, threads, want["stuck"], got["stuck"])
	case !want["stuck"] && !maps.Equal(got, want):
		t.Errorf("program %d, %v:\n%d outcomes of %d: missing %v", seed, threads, len(got), len(want), missing(want, got))
	case rep.Schedules < len(got):
		t.Errorf("program %d: %d schedules, %d outcomes", seed, rep.Schedules, len(got))
	}
	for bound := range 3 {
		want, full := outcomes(threads, Mode{kind: naive, bound: bound}, Limits{})
		got, _ := outcomes(threads, Bound(bound), Limits{})
		if want["stuck"] != got["stuck"] || !want["stuck"] && !maps.Equal(got, want) {
			t.Errorf("program %d, bound %d of %d, %v:\n%d outcomes of %d: missing %v", seed, bound, full.Schedules, threads, len(got), len(want), missing(want, got))
		}
	}
	return c
}

func missing(want, got map[string]bool) (list []string) {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if !got[k] {
			list = append(list, k)
		}
	}
	return list
}

// ----- threads that end in other ways -----

func TestGoexitAndPanic(t *testing.T) {
	x := new(cell)
	deferred := 0
	model := func(m *M) {
		x = new(cell)
		for range 2 {
			m.Go("", func() {
				defer func() { deferred++; x.add(1) }()
				x.add(1)
				runtime.Goexit()
			})
		}
		m.After(func() {
			if x.v != 4 {
				m.Failf("the deferred functions did not run: %d", x.v)
			}
		})
	}
	rep := Explore(model, All(), Limits{})
	if rep.Failure != nil || !rep.Complete || deferred == 0 {
		t.Errorf("Goexit: %+v", rep)
	}
	mustFail(t, func(m *M) {
		m.Go("breaker", func() { panic("broken") })
	}, All(), "breaker panics: broken")
	mustFail(t, func(m *M) { m.Failf("as told: %d", 7) }, All(), "as told: 7")
	mustFail(t, func(m *M) {
		y := new(cell)
		m.Go("", func() {
			for {
				y.add(1)
			}
		})
	}, All(), "no end")
	mustFail(t, func(m *M) {
		for range maxThreads {
			m.Go("", func() {})
		}
	}, All(), "threads")
}

// A lock that another thread opens is an event: as a lock, the reduction would miss runs.
func TestOnlyWhoLockedUnlocks(t *testing.T) {
	for _, mode := range everyMode {
		mustFail(t, func(m *M) {
			var l mutex
			l.lock()
			m.Go("other", l.unlock)
			l.lock()
		}, mode, "has not locked")
	}
}

func TestTimers(t *testing.T) {
	fired, stopped := 0, 0
	model := func(m *M) {
		m.Timed()
		ran := false
		tm := AfterFunc(time.Second, func() { ran = true })
		m.Go("time", func() { m.Advance(time.Second) })
		was := tm.Stop()
		m.After(func() {
			if was == ran {
				m.Failf("stopped %t, ran %t", was, ran)
			}
			if ran {
				fired++
			} else {
				stopped++
			}
		})
	}
	if rep := Explore(model, All(), Limits{}); rep.Failure != nil || fired == 0 || stopped == 0 {
		t.Errorf("%+v, fired in %d, stopped in %d", rep, fired, stopped)
	}
	mustFail(t, func(m *M) { AfterFunc(time.Second, func() {}) }, All(), "a timer is armed")

	fired, stopped = 0, 0
	hurries := func(m *M) {
		m.Hurries()
		tm := AfterFunc(time.Hour, func() { fired++ })
		if tm.Stop() {
			stopped++
		}
	}
	if rep := Explore(hurries, All(), Limits{}); rep.Failure != nil || fired == 0 || stopped == 0 {
		t.Errorf("with no time between: %+v, fired in %d, stopped in %d", rep, fired, stopped)
	}
}

func TestReplayStrings(t *testing.T) {
	for _, s := range []string{"", "0", "0*3 1 c2 1*12"} {
		d, err := decode(s)
		if err != nil || encode(d) != s {
			t.Errorf("%q: %v, %v, %q", s, d, err, encode(d))
		}
	}
	for _, s := range []string{"x", "1*", "1*x", "99", "-1", "c", "c-1", "*2"} {
		if d, err := decode(s); err == nil {
			t.Errorf("decode(%q) = %v, want an error", s, d)
		}
		if f, err := Replay(func(*M) {}, s); err == nil {
			t.Errorf("Replay(%q) = %v, want an error", s, f)
		}
	}
}

// FuzzReduction is TestReductionLosesNothing for programs that the fuzzer
// finds.
func FuzzReduction(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		compare(t, seed)
	})
}

func FuzzReplayString(f *testing.F) {
	f.Add("0*3 1 c2 1*12")
	f.Add("15*65535")
	f.Add("5*65535 5") // two words, not one that is too long
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 100 {
			return // a number may stand for 65,535 decisions
		}
		d, err := decode(s)
		if err != nil {
			return
		}
		again, err := decode(encode(d))
		if err != nil || !slices.Equal(d, again) {
			t.Errorf("%q is %v, which is written as %q, which is %v, %v", s, d, encode(d), again, err)
		}
	})
}
