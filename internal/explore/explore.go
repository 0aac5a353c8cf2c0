package explore

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A Mode says which schedules are explored.
type Mode struct {
	kind  modeKind
	n     int
	bound int
	seed  uint64
}

type modeKind uint8

const (
	all modeKind = iota
	bounded
	random
	pct
	replay
	naive // every schedule, without reduction; bound < 0: all, else as bounded. For tests.
)

// All explores every schedule, or one of each class of equivalent ones.
func All() Mode { return Mode{kind: all} }

// Bound explores the schedules with at most n preemptions: a preemption is that a thread
// could go on and another one does.
func Bound(n int) Mode { return Mode{kind: bounded, bound: n} }

// Random draws n schedules, each decision by itself.
func Random(n int, seed uint64) Mode { return Mode{kind: random, n: n, seed: seed} }

// PCT draws n schedules by priorities, which change at depth-1 places.
func PCT(n, depth int, seed uint64) Mode { return Mode{kind: pct, n: n, bound: depth, seed: seed} }

func (m Mode) String() string {
	switch m.kind {
	case all:
		return "all"
	case bounded:
		return fmt.Sprintf("up to %d preemptions", m.bound)
	case random:
		return fmt.Sprintf("%d at random, seed %d", m.n, m.seed)
	case pct:
		return fmt.Sprintf("%d by PCT, depth %d, seed %d", m.n, m.bound, m.seed)
	}
	return "a replay"
}

// Limits end an exploration early.
type Limits struct {
	Schedules int           // 0: none
	Time      time.Duration // 0: none
}

// A Report is what an exploration found.
type Report struct {
	Schedules int // runs that came to an end
	Cut       int // runs that were given up because another one is equivalent
	Longest   int // accesses in the longest run
	Threads   int // threads of the run with the most of them
	Complete  bool
	Reached   map[string]int // how often, in all runs
	Failure   *Failure
}

// A Failure is a run that went wrong.
type Failure struct {
	Why    string
	Replay string // for Replay
	Trace  string // what each thread did; only from Replay
}

func (f *Failure) Error() string { return f.Why + "\nreplay: " + f.Replay + "\n" + f.Trace }

// An explorer holds what outlives a run.
type explorer struct {
	model   func(*M)
	mode    Mode
	stack   []node // the decisions of the current run, with what else could have been decided
	idle    []*coro
	spare   run // what the last run has left, to be used again
	reached map[string]int
	rand    *rand.Rand
	length  int        // of the longest run, for PCT
	ended   func(*run) // for tests: called after every run; failures do not end the exploration then
}

// Explore runs the model under the schedules of mode, until they are all run,
// one fails, or a limit is reached.
func Explore(model func(*M), mode Mode, limits Limits) Report {
	x := &explorer{model: model, mode: mode, reached: map[string]int{}, length: 1}
	return x.explore(limits)
}

func (x *explorer) explore(limits Limits) Report {
	mode := x.mode
	rep := Report{Reached: x.reached}
	begun := time.Now()
	defer x.bury()
	for i := 0; ; i++ {
		x.rand = rand.New(rand.NewPCG(mode.seed, uint64(i)))
		r := x.newRun()
		r.execute()
		rep.Longest = max(rep.Longest, len(r.events))
		rep.Threads = max(rep.Threads, len(r.threads))
		x.length = rep.Longest
		if r.cut {
			rep.Cut++
		} else {
			rep.Schedules++
		}
		if x.ended != nil {
			x.ended(r)
		} else if r.failure != "" {
			rep.Failure = &Failure{Why: r.failure, Replay: encode(r.decisions)}
			return rep
		}
		switch mode.kind {
		case all, bounded, naive:
			if !x.advance() {
				rep.Complete = true
				return rep
			}
		case random, pct:
			if i+1 == mode.n {
				rep.Complete = true
				return rep
			}
		default:
			return rep
		}
		if limits.Schedules > 0 && rep.Schedules >= limits.Schedules ||
			limits.Time > 0 && i%64 == 0 && time.Since(begun) > limits.Time {
			return rep
		}
	}
}

// bury ends the coroutines.
func (x *explorer) bury() {
	for _, c := range x.idle {
		c.stop()
	}
}
