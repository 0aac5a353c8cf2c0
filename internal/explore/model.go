package explore

import (
	"fmt"
	"time"
)

// M is what a model talks to.
type M struct {
	r     *run
	after []func()

	// What package sy tells the code under test about the machine.
	Procs    int    // CPUs; 64 unless the model says otherwise
	Runnable uint64 // goroutines that wait for one
	FreeCPU  bool
	Looks    int // how often the code under test has asked for Runnable
}

// Env is what the model that runs says about the machine, or nil.
func Env() *M {
	if now == nil {
		return nil
	}
	return now.m
}

// Go starts a thread of the model.
func (m *M) Go(name string, f func()) { m.r.start(name, m.r.current, f) }

// Left is the names of the threads that the code under test has started by [Go], and that have not
// ended. Asking is no access: not every order of it and of the end of a thread is explored.
func (m *M) Left() (names []string) {
	for _, t := range m.r.threads {
		if t.asked && !t.ended {
			names = append(names, t.name)
		}
	}
	return names
}

// After makes f run when all threads have ended. It is for checks.
func (m *M) After(f func()) { m.after = append(m.after, f) }

// Failf ends the run: it has failed.
func (m *M) Failf(format string, args ...any) {
	m.r.fail(fmt.Sprintf(format, args...))
	if m.r.current != nil && now != nil {
		m.r.current.abort()
	}
}

// Reach is [Reach], also for After.
func (m *M) Reach(place string) { m.r.x.reached[place]++ }

// Timed tells the explorer that the model calls Advance, so that reading the
// clock is an access.
func (m *M) Timed() { m.r.timed = true }

// Hurries tells the explorer that a timer may fire as soon as it is set, however long it is set for.
// The clock stands still.
func (m *M) Hurries() { m.r.hurries = true }

// Advance lets d pass.
func (m *M) Advance(d time.Duration) {
	if !m.r.timed {
		panic("explore: Advance in a model that is not Timed")
	}
	c := &m.r.clock
	Access(&c.o, Write, "Advance")
	c.now += d
	for _, t := range c.timers {
		if t.at <= c.now { // stopped or not: its thread decides
			t.due.Set()
		}
	}
}
