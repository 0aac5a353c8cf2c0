package explore

import (
	"fmt"
	"math/bits"
)

// This file is the decisions: how a run takes one, and which one the next run takes otherwise. Modes
// that draw take each decision anew. The others keep the decisions of a run in a stack; the next run
// repeats them up to the last one that is to be taken otherwise. What is to be tried, races.go finds.

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
