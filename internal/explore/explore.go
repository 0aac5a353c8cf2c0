package explore

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
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

// maxSteps bounds a run: one that is longer does not end.
const maxSteps = 20_000

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
	ended   func(*run) // for tests: told of every run; failures do not end the exploration
}

// A node is a decision.
type node struct {
	enabled   uint16 // threads that could go on
	sleep     uint16 // of these, those that need not be tried: another run is equivalent
	backtrack uint16 // those to be tried
	done      uint16 // those that were
	chosen    int8   // the one that goes on now, or the number that was chosen
	choices   int8   // of a number; 0: of a thread
	before    int8   // the thread that went on before, if it could have, else -1
	preempted int8   // preemptions before this decision
	pending   uint32 // what all threads were about to do, in short
	thread    int8   // the one that goes on from here
	yielded   bool   // it has yielded since first, without another going on
	first     int32  // the decision since which it goes on
}

// epochs tells runs apart, over all explorations.
var epochs uint64

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

// advance moves the stack to the next run's decisions, if there is one.
func (x *explorer) advance() bool {
	for len(x.stack) > 0 {
		n := &x.stack[len(x.stack)-1]
		if n.choices > 0 {
			if n.chosen++; n.chosen < n.choices {
				return true
			}
		} else {
			n.done |= 1 << n.chosen
			for rest := n.backtrack & n.enabled &^ n.done &^ n.sleep; rest != 0; rest &= rest - 1 {
				t := int8(bits.TrailingZeros16(rest))
				if x.mode.kind == all || x.mode.bound < 0 || n.cost(t) <= x.mode.bound {
					n.chosen = t
					x.begin()
					return true
				}
			}
		}
		x.stack = x.stack[:len(x.stack)-1]
	}
	return false
}

// push adds a decision to the stack.
func (x *explorer) push(n node) {
	if d := len(x.stack); d > 0 {
		p := &x.stack[d-1]
		if n.preempted = p.preempted; p.choices == 0 {
			n.preempted = int8(p.cost(p.chosen))
		}
	}
	x.stack = append(x.stack, n)
	x.begin()
}

// begin notes since when the thread that the last decision is for goes on.
func (x *explorer) begin() {
	d := len(x.stack) - 1
	n := &x.stack[d]
	n.thread, n.first, n.yielded = n.chosen, int32(d), false
	if d == 0 {
		return
	}
	p := &x.stack[d-1]
	if n.choices > 0 {
		n.thread = p.thread
	}
	if n.thread == p.thread {
		n.first = p.first
		n.yielded = p.yielded || n.choices == 0 && n.before < 0
	}
}

// cost is the number of preemptions up to the decision for t, with it.
func (n *node) cost(t int8) int {
	if n.before >= 0 && n.before != t {
		return int(n.preempted) + 1
	}
	return int(n.preempted)
}

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

// pick decides which of the enabled threads goes on.
func (r *run) pick(t *thread, enabled uint16, pending uint32) (id int8, ok bool) {
	x := r.x
	switch x.mode.kind {
	case random:
		return r.draw(enabled), true
	case pct:
		return r.highest(t, enabled), true
	}
	before := int8(-1)
	if !t.ended && enabled&(1<<t.id) != 0 && !t.next.yield {
		before = int8(t.id)
	}
	if r.depth == len(x.stack) {
		if x.mode.kind == replay {
			r.cut = true
			return 0, false // the end of what is to be repeated
		}
		n := node{enabled: enabled, sleep: r.sleep, before: before, pending: pending}
		free := enabled &^ n.sleep
		if free == 0 {
			r.cut = true
			return 0, false
		}
		switch {
		case before >= 0 && free&(1<<before) != 0:
			n.chosen = before
		default:
			n.chosen = int8(bits.TrailingZeros16(free))
		}
		n.backtrack = 1 << n.chosen
		if x.mode.kind == naive {
			n.backtrack = enabled
		}
		x.push(n)
	}
	n := &x.stack[r.depth]
	if n.choices != 0 || enabled&(1<<n.chosen) == 0 || x.mode.kind != replay && (n.enabled != enabled || n.pending != pending) {
		panic(fmt.Sprintf("explore: the model is not deterministic: at decision %d the threads are about to do something else now", r.depth))
	}
	r.depth++
	r.sleep = 0
	if x.mode.kind == all {
		chosen := &r.threads[n.chosen].next
		for s := (n.sleep | n.done) &^ (1 << n.chosen); s != 0; s &= s - 1 {
			u := r.threads[bits.TrailingZeros16(s)]
			if !u.next.depends(chosen) {
				r.sleep |= 1 << u.id
			}
		}
	}
	return n.chosen, true
}

// draw picks one of a set.
func (r *run) draw(set uint16) int8 {
	for skip := r.x.rand.IntN(bits.OnesCount16(set)); skip > 0; skip-- {
		set &= set - 1
	}
	return int8(bits.TrailingZeros16(set))
}

// highest picks the thread of the highest priority.
func (r *run) highest(t *thread, enabled uint16) int8 {
	for i, at := range r.changes {
		if at == len(r.events) && !t.ended {
			r.priorities[t.id] = i
		}
	}
	if !t.ended && t.next.yield {
		r.priorities[t.id] = -len(r.events) // behind all others
	}
	best := int8(-1)
	for s := enabled; s != 0; s &= s - 1 {
		if id := int8(bits.TrailingZeros16(s)); best < 0 || r.priorities[id] > r.priorities[best] {
			best = id
		}
	}
	return best
}

// choose decides about a number below n.
func (r *run) choose(n int) int {
	x := r.x
	var chosen int8
	switch x.mode.kind {
	case random, pct:
		chosen = int8(x.rand.IntN(n))
	default:
		if r.depth == len(x.stack) {
			if x.mode.kind == replay {
				return 0
			}
			x.push(node{choices: int8(n)})
		}
		if x.mode.kind == replay {
			x.stack[r.depth].choices = int8(n)
		}
		if int(x.stack[r.depth].choices) != n {
			panic(fmt.Sprintf("explore: the model is not deterministic: at decision %d it chooses a number", r.depth))
		}
		chosen = x.stack[r.depth].chosen
		r.depth++
	}
	r.decisions = append(r.decisions, -1-chosen)
	if r.trace != nil {
		r.trace.chose(r.current, int(chosen))
	}
	return int(chosen)
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
			for _, u := range r.threads {
				if u.next.await && u.next.met < 0 && u.next.a[0].o == a.o {
					u.next.met = i
				}
			}
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

// reverseRaces finds the events that what t does now, which has the clock c,
// races with.
func (r *run) reverseRaces(t *thread, o *op, c *clock) {
	rivals := r.rivals[:0]
	for _, a := range o.a[:o.n] {
		switch a.kind {
		case lock:
			if a.o.lock >= 0 {
				rivals = append(rivals, a.o.lock)
			}
		case Write:
			for _, e := range a.o.reads {
				if e >= 0 {
					rivals = append(rivals, e)
				}
			}
			fallthrough
		case Read:
			for e := a.o.write; e >= 0; e = r.events[e].before(a.o) {
				rivals = append(rivals, e)
				if !o.waits() || r.before(e, &t.clock) {
					break
				}
			}
		}
	}
	r.rivals = rivals
	for _, e := range rivals {
		if r.races(e, t, o, rivals) {
			r.reverse(e, t, c, o.held != nil)
		}
	}
}

// races reports whether event e and what t does now, on objects where the
// events rivals were, could have come the other way round, with nothing in
// between.
func (r *run) races(e int16, t *thread, o *op, rivals []int16) bool {
	if r.before(e, &t.clock) || r.enabled(e, o) {
		return false
	}
	// What it waits for may have been there before, and consumed: then all
	// that happened to it counts.
	if o.waits() {
		return true
	}
	for _, d := range rivals {
		if d != e && r.before(e, &r.events[d].clock) {
			return false // e, then d, then this
		}
	}
	return true
}

// enabled reports whether o waited for event e and for nothing else, so that it
// could not have come right before e.
func (r *run) enabled(e int16, o *op) bool {
	mine, other := false, false
	enabler := func(by int16) {
		switch {
		case by == e:
			mine = true
		case by < 0 || !r.before(e, &r.events[by].clock):
			other = true
		}
	}
	if o.await {
		enabler(o.met)
	}
	for _, f := range [...]*Flag{o.flag, o.or} {
		if f != nil && f.on {
			enabler(f.met)
		}
	}
	return mine && !other
}

// reverse makes a later run take another decision at event e, so that what t
// does now comes before it.
func (r *run) reverse(e int16, t *thread, c *clock, locks bool) {
	x := r.x
	n := &x.stack[r.events[e].node]
	// The events after e that do not come after it, and then this one, could
	// have been without e. Which threads could have begun with that?
	first := none // their first event of each thread
	var initials uint16
	isInitial := func(id int, c *clock) bool {
		for u := range r.threads {
			if u != id && first[u] >= 0 && c[u] >= first[u] {
				return false
			}
		}
		return true
	}
	for k := int(e) + 1; k < len(r.events); k++ {
		ev := &r.events[k]
		id := int(ev.thread)
		if first[id] >= 0 || r.before(e, &ev.clock) {
			continue
		}
		if isInitial(id, &ev.clock) {
			initials |= 1 << id
		}
		first[id] = int16(k)
	}
	if first[t.id] < 0 {
		clock := c
		if locks {
			clock = &t.clock // the mutex is free where e locked it
		}
		if isInitial(t.id, clock) {
			initials |= 1 << t.id
		}
	}
	initials &= n.enabled
	switch {
	case initials == 0: // cannot be
		n.backtrack |= n.enabled
	case n.backtrack&initials != 0: // one of them is tried anyway
	case initials&(1<<t.id) != 0:
		n.backtrack |= 1 << t.id
	default:
		n.backtrack |= initials & -initials
	}
}

// reverseBounded is reverse for a bounded exploration. There it matters where
// the preemptions are, so it reverses more: with the last access of every other
// thread, whether or not one was because of the other; and where that thread was
// chosen before: to switch there is no more preemption than was made anyway.
func (r *run) reverseBounded(t *thread, o *op) {
	x := r.x
	reverse := func(e int16) {
		j := r.events[e].node
		n := &x.stack[j]
		r.addBounded(j, t)
		if n.yielded {
			for k := n.first + 1; k < j; k++ {
				if x.stack[k].choices == 0 && x.stack[k].before < 0 {
					r.addBounded(k, t)
				}
			}
		}
		for j = n.first; x.stack[j].choices > 0; j++ {
		}
		r.addBounded(j, t)
	}
	for _, a := range o.a[:o.n] {
		if o.waits() { // what it waits for may have been there and was consumed
			for e := a.o.write; e >= 0; e = r.events[e].before(a.o) {
				if int(r.events[e].thread) != t.id {
					reverse(e)
				}
			}
		}
		for id := range r.threads {
			if id == t.id {
				continue
			}
			e := a.o.writtenBy[id]
			if a.kind != Read {
				e = max(e, a.o.readBy[id])
			}
			if e >= 0 {
				reverse(e)
			}
		}
	}
}

func (r *run) addBounded(depth int32, t *thread) {
	n := &r.x.stack[depth]
	if n.enabled&(1<<t.id) != 0 {
		n.backtrack |= 1 << t.id
	} else {
		n.backtrack |= n.enabled
	}
}
