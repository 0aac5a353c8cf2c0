package explore

// This file is the reduction: which events could have come the other way round with another effect.
// For each of them a decision is marked, so that a later run takes it otherwise.

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
