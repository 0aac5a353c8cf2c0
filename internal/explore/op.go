package explore

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// A Kind is how something shared is accessed. Reads do not depend on each
// other; everything else on one object does.
type Kind uint8

// The kinds of access.
const (
	Read Kind = iota
	Write
	lock
)

// An Object is something shared. It lives in what it stands for.
type Object struct {
	epoch uint64 // of the run that what follows belongs to
	id    int16  // in the order of first access
	write int16  // the event that wrote it last, or unlocked it; or -1
	lock  int16  // the event that locked it last; or -1
	reads clock  // the last read of each thread since write; or -1

	readBy, writtenBy clock // the last access of each thread; or -1
}

// in prepares o for a run.
func (o *Object) in(r *run) *Object {
	if o.epoch != r.epoch {
		*o = Object{epoch: r.epoch, id: r.objects, write: -1, lock: -1, reads: none, readBy: none, writtenBy: none}
		r.objects++
	}
	return o
}

type access struct {
	o    *Object
	kind Kind
}

// An op is what a thread is about to do: one access or two, perhaps only when
// a condition holds.
type op struct {
	a     [2]access
	n     int
	held  *bool // can go on if this is false
	flag  *Flag // can go on if this is set
	or    *Flag // or this
	yield bool
	what  string
	where runtime.Frame // for the trace
}

func (o *op) enabled() bool {
	switch {
	case o.held != nil:
		return !*o.held
	case o.flag != nil:
		return o.flag.on || o.or != nil && o.or.on
	}
	return true
}

// A Flag is what a thread waits for.
type Flag struct {
	on  bool
	met int16 // the event that set it; or -1
}

// On reports whether it is set.
func (f *Flag) On() bool { return f.on }

// Set sets it. The thread that does has just announced a Write of the object
// that the others wait for.
func (f *Flag) Set() {
	if f.on {
		return
	}
	f.on, f.met = true, -1
	if now != nil {
		f.met = int16(len(now.events) - 1)
	}
}

// Clear undoes Set.
func (f *Flag) Clear() { f.on = false }

// waits reports whether it waits for an act of another thread, not just for
// a mutex.
func (o *op) waits() bool { return o.flag != nil }

func (o *op) depends(p *op) bool {
	for _, a := range o.a[:o.n] {
		for _, b := range p.a[:p.n] {
			if a.o == b.o && (a.kind != Read || b.kind != Read) {
				return true
			}
		}
	}
	return false
}

// The run and thread that go on now; nil outside of an exploration, where the
// functions below do what they say for a program of one goroutine.
var now *run

// Access announces an access to o, called what in traces.
func Access(o *Object, kind Kind, what string) {
	if r := now; r != nil {
		r.current.do(op{a: [2]access{{o.in(r), kind}}, n: 1, what: what})
	}
}

// Lock waits until *held is false, and sets it.
func Lock(o *Object, held *bool) {
	if r := now; r != nil {
		r.current.do(op{a: [2]access{{o.in(r), lock}}, n: 1, held: held, what: "Lock"})
	}
	*held = true
}

// Unlock undoes Lock. It is no access of its own: no thread can tell whether it
// comes right after what the thread did before, or later. Only the thread that
// called Lock may call it: runs in which another one came first would be missed.
func Unlock(o *Object, held *bool) {
	*held = false
	if r := now; r != nil && !r.current.kill {
		if o := o.in(r); o.lock >= 0 && r.events[o.lock].thread != int8(r.current.id) {
			panic("explore: Unlock by a thread that has not locked")
		}
		o.write = r.current.clock[r.current.id]
	}
}

// Wait waits until set is. With an end, it also goes on when that has come, and
// reports whether it was set.
func Wait(o *Object, kind Kind, set *Flag, end *Context, what string) bool {
	r := now
	if r == nil {
		if !set.on && (end == nil || !end.ended.on) {
			panic("explore: a wait without end")
		}
		return set.on
	}
	w := op{a: [2]access{{o.in(r), kind}}, n: 1, flag: set, what: what}
	if end != nil {
		w.a[1] = access{end.o.in(r), Read}
		w.n, w.or = 2, &end.ended
	}
	r.current.do(w)
	if set.on && end != nil && end.ended.on {
		return Choose(2) == 0 // as select does
	}
	return set.on
}

// Yield lets other threads run. It depends on nothing. But if another thread goes
// on then, that is no preemption.
func Yield() {
	if r := now; r != nil {
		r.current.do(op{yield: true, what: "Yield"})
	}
}

// Choose returns a number below n: each of them in some run.
func Choose(n int) int {
	if r := now; r != nil {
		return r.choose(n)
	}
	return 0
}

// Go starts a thread that the code under test asked for.
func Go(f func()) {
	r := now
	if r == nil {
		panic("explore: Go outside of a model")
	}
	if r.current.kill {
		return
	}
	r.spawned++
	r.start(fmt.Sprintf("go%d", r.spawned), r.current, f).asked = true
}

// Reach notes that a model came to a place that it must come to.
func Reach(place string) {
	if r := now; r != nil {
		r.x.reached[place]++
	}
}

// Now is the time since the beginning of the run. It passes only when the
// model says so ([M.Advance]).
func Now() int64 {
	r := now
	if r == nil {
		return 0
	}
	if r.timed {
		Access(&r.clock.o, Read, "Now")
	}
	return int64(r.clock.now)
}

type simClock struct {
	o      Object
	now    time.Duration
	timers []*Timer
}

// A Timer calls a function on a thread of its own.
type Timer struct {
	o       Object
	at      time.Duration
	f       func()
	armed   bool
	stopped Flag // what its thread waits for: this
	due     Flag // or this
}

// AfterFunc is time.AfterFunc.
func AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{f: f}
	if now != nil {
		t.arm(d)
	}
	return t
}

func (t *Timer) arm(d time.Duration) {
	r := now
	if r.timed {
		Access(&r.clock.o, Read, "arm")
	}
	t.at, t.armed = r.clock.now+max(0, d), true
	t.stopped.Clear()
	t.due.Clear()
	if d <= 0 || r.hurries {
		t.due.Set()
	}
	r.clock.timers = append(r.clock.timers, t)
	r.start("timer", r.current, func() {
		r.current.timer = true
		r.current.do(op{
			a: [2]access{{t.o.in(r), Write}, {r.clock.o.in(r), Read}}, n: 2,
			flag: &t.stopped, or: &t.due, what: "fire",
		})
		r.current.timer = false
		if t.stopped.on {
			return
		}
		t.armed = false
		t.f()
	})
}

// Stop is time.Timer.Stop.
func (t *Timer) Stop() bool {
	Access(&t.o, Write, "Timer.Stop")
	was := t.armed
	if was {
		t.armed = false
		t.stopped.Set()
	}
	return was
}

// Reset is time.Timer.Reset, of a timer that has fired or was stopped.
func (t *Timer) Reset(d time.Duration) bool {
	Access(&t.o, Write, "Timer.Reset")
	if t.armed {
		panic("explore: Reset of an armed timer")
	}
	if now != nil {
		t.arm(d)
	}
	return false
}

// A Context ends when the model says so.
type Context struct {
	o        Object
	c        chan struct{}
	ended    Flag
	err      error
	after    []*afterFunc
	parent   context.Context // of one made by NewChild
	children []*Context
}

type afterFunc struct {
	f    func()
	live bool
}

// NewContext makes a context that ends by [Context.Cancel].
func NewContext() *Context {
	c := &Context{c: make(chan struct{})}
	if now != nil {
		now.contexts[c.c] = c
	}
	return c
}

// NewChild makes a context that ends with its parent too, as those of
// [context.WithCancel].
func NewChild(parent context.Context) *Context {
	c := NewContext()
	c.parent = parent
	if p := ContextOf(parent.Done()); p != nil {
		Access(&p.o, Write, "derive a context")
		if p.ended.on {
			c.Cancel()
		} else {
			p.children = append(p.children, c)
		}
	}
	return c
}

// ContextOf is the context whose Done is c; nil if that is nil.
func ContextOf(c <-chan struct{}) *Context {
	if now == nil || c == nil {
		return nil
	}
	ctx := now.contexts[c]
	if ctx == nil {
		panic("explore: a context that ends, and was not made by NewContext or NewChild")
	}
	return ctx
}

var _ context.Context = (*Context)(nil)

// Deadline is none.
func (c *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed when the context has ended.
func (c *Context) Done() <-chan struct{} { return c.c }

// Value is the parent's.
func (c *Context) Value(key any) any {
	if c.parent == nil {
		return nil
	}
	return c.parent.Value(key)
}

// Err is why it has ended.
func (c *Context) Err() error {
	Access(&c.o, Read, "ctx.Err")
	return c.err
}

// Cancel ends the context.
func (c *Context) Cancel() {
	Access(&c.o, Write, "cancel")
	if c.ended.on {
		return
	}
	c.ended.Set()
	c.err = context.Canceled
	close(c.c)
	for _, a := range c.after {
		if a.live {
			a.live = false
			Go(a.f)
		}
	}
	for _, child := range c.children {
		child.Cancel()
	}
}

// AfterFunc runs f on a thread of its own when c has ended. Package context calls
// it.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	Access(&c.o, Write, "AfterFunc")
	if c.ended.on {
		Go(f)
		return func() bool { return false }
	}
	a := &afterFunc{f, true}
	c.after = append(c.after, a)
	return func() bool {
		Access(&c.o, Write, "stop AfterFunc")
		was := a.live
		a.live = false
		return was
	}
}
