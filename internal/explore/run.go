package explore

import (
	"fmt"
	"strings"
)

// This file is one execution of the model. One thread goes on at a time. It announces its next access,
// a decision picks who goes on, and that thread's access becomes an event.

// maxSteps bounds a run: one that is longer does not end.
const maxSteps = 20_000

// epochs tells runs apart, over all explorations.
var epochs uint64

// An event is an access that was made.
type event struct {
	clock  clock
	thread int8
	node   int32 // of the decision for it
	a      [2]access
	prev   [2]int16 // what had written these objects before; or -1
}

// before is what had written o before the event.
func (e *event) before(o *Object) int16 {
	for i, a := range e.a {
		if a.o == o {
			return e.prev[i]
		}
	}
	return -1
}

// A run is one execution of the model.
type run struct {
	x         *explorer
	epoch     uint64
	threads   []*thread
	current   *thread   // goes on; nil: the run is over
	starters  []*thread // wait until the thread they started has come to its first access
	depth     int       // decisions made
	decisions []int8
	sleep     uint16 // of the next node
	events    []event
	rivals    []int16 // of the step that is being made
	objects   int16
	cut       bool
	failure   string
	stack     string // of the panic, if it was one

	m        *M
	clock    simClock
	timed    bool
	hurries  bool
	contexts map[<-chan struct{}]*Context
	spawned  int

	priorities []int // PCT
	changes    []int
	trace      *tracer // nil: none
}

func (x *explorer) newRun() *run {
	epochs++
	r := &run{x: x, epoch: epochs, contexts: map[<-chan struct{}]*Context{}}
	r.m = &M{r: r, Procs: 64}
	r.events, r.rivals, r.decisions = x.spare.events[:0], x.spare.rivals[:0], x.spare.decisions[:0]
	if x.mode.kind == pct {
		for range maxThreads {
			r.priorities = append(r.priorities, x.mode.bound+x.rand.IntN(1<<20))
		}
		for range x.mode.bound - 1 {
			r.changes = append(r.changes, x.rand.IntN(x.length))
		}
	}
	return r
}

// execute runs the model to its end.
func (r *run) execute() {
	now = r
	defer func() { now = nil }()
	r.current = r.start("main", nil, func() { r.x.model(r.m) })
	r.loop()
	now = nil
	r.x.spare.events, r.x.spare.rivals, r.x.spare.decisions = r.events, r.rivals, r.decisions
	if r.failure == "" && !r.cut {
		for _, f := range r.m.after {
			f()
			if r.failure != "" {
				break
			}
		}
	}
}

func (r *run) fail(why string) {
	if r.failure == "" {
		r.failure = why
	}
}

// decide picks the thread that goes on, after t has announced what it does
// next, or has ended.
func (r *run) decide(t *thread) {
	r.current = nil
	if r.failure != "" {
		return
	}
	if len(r.events) > maxSteps {
		r.fail(fmt.Sprintf("no end after %d steps", maxSteps))
		return
	}
	var enabled uint16
	left := false
	for _, u := range r.threads {
		if u.ended {
			continue
		}
		if u.next.enabled() {
			enabled |= 1 << u.id
		}
		left = left || !u.timer
	}
	switch {
	case enabled == 0 && left:
		r.fail("nobody can go on: " + r.stuck())
		return
	case enabled == 0:
		for _, u := range r.threads {
			if !u.ended {
				r.fail("a timer is armed at the end")
			}
		}
		return
	}
	id, ok := r.pick(t, enabled, r.pending())
	if !ok {
		return
	}
	r.decisions = append(r.decisions, id)
	r.perform(r.threads[id])
	r.current = r.threads[id]
}

// pending sums up what all threads are about to do, to notice a model that is
// not deterministic.
func (r *run) pending() (sum uint32) {
	if r.x.mode.kind == random || r.x.mode.kind == pct {
		return 0
	}
	for _, t := range r.threads {
		if t.ended {
			continue
		}
		o := &t.next
		sum = sum*31 + uint32(t.id) + uint32(len(o.what))<<8
		for _, a := range o.a[:o.n] {
			sum = sum*31 + uint32(a.o.id) + uint32(a.kind)<<16
		}
	}
	return sum
}

// stuck says what each thread waits for.
func (r *run) stuck() string {
	var list []string
	for _, t := range r.threads {
		if !t.ended {
			list = append(list, t.name+" in "+t.next.what)
		}
	}
	return strings.Join(list, ", ")
}

// perform makes the access that t has announced an event: it finds the events
// that it races with, which are decisions to be taken otherwise in another
// run, and orders it after those it depends on.
func (r *run) perform(t *thread) {
	i := int16(len(r.events))
	o := &t.next
	if r.trace != nil {
		r.trace.step(t, o)
	}
	c := t.clock
	ev := event{thread: int8(t.id), node: int32(r.depth - 1), a: o.a}
	for k, a := range o.a[:o.n] {
		ev.prev[k] = a.o.write
		if r.x.mode.kind == all { // the other modes need not know what came before what
			r.order(&c, a)
		}
	}
	switch r.x.mode.kind {
	case all:
		r.reverseRaces(t, o, &c)
	case bounded:
		r.reverseBounded(t, o)
	}
	c[t.id] = i
	for _, a := range o.a[:o.n] {
		if a.kind == Read {
			a.o.readBy[t.id] = i
		} else {
			a.o.writtenBy[t.id] = i
		}
		switch a.kind {
		case lock:
			a.o.lock, a.o.write = i, i
			a.o.reads = none
		case Read:
			a.o.reads[t.id] = i
		case Write:
			a.o.write = i
			a.o.reads = none
		}
	}
	t.clock = c
	ev.clock = c
	r.events = append(r.events, ev)
}

// order adds to the clock c the events that access a comes after.
func (r *run) order(c *clock, a access) {
	if w := a.o.write; w >= 0 {
		c.join(&r.events[w].clock)
	}
	if a.kind != Read {
		for _, e := range a.o.reads {
			if e >= 0 {
				c.join(&r.events[e].clock)
			}
		}
	}
}

// before reports whether event e comes before whatever has the clock c.
func (r *run) before(e int16, c *clock) bool { return c[r.events[e].thread] >= e }
