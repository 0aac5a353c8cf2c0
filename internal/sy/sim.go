//go:build poolsim

package sy

import (
	"context"
	"time"

	"github.com/shoal-go/shoal/internal/explore"
)

// These are the controlled definitions. Every access to shared memory is
// announced to package explore first, which decides which thread goes on. They are for
// models only: without one that runs, they work for one goroutine.

// AccessKind says what an access does.
type AccessKind = explore.Kind

// Read and Write are the kinds of access.
const (
	Read  = explore.Read
	Write = explore.Write
)

// An Object stands for memory that is not of a type of this package.
type Object = explore.Object

// Access announces an access to o.
func Access(o *Object, k AccessKind) {
	what := "read"
	if k == Write {
		what = "write"
	}
	explore.Access(o, k, what)
}

// Reach notes that a place was reached.
func Reach(place string) { explore.Reach(place) }

// Bool is a controlled atomic.Bool.
type Bool struct {
	o Object
	v bool
}

// Load is as in sync/atomic; so are the others.
func (b *Bool) Load() bool { explore.Access(&b.o, Read, "Load"); return b.v }

// Store stores v.
func (b *Bool) Store(v bool) { explore.Access(&b.o, Write, "Store"); b.v = v }

// Int64 is a controlled atomic.Int64.
type Int64 struct {
	o Object
	v int64
}

// Load loads.
func (x *Int64) Load() int64 {
	explore.Access(&x.o, Read, "Load")
	explore.Note(uint64(x.v))
	return x.v
}

// Store stores v.
func (x *Int64) Store(v int64) { explore.Access(&x.o, Write, "Store"); x.v = v }

// Add adds d.
func (x *Int64) Add(d int64) int64 {
	explore.Access(&x.o, Write, "Add")
	x.v += d
	explore.Note(uint64(x.v))
	return x.v
}

// CompareAndSwap swaps.
func (x *Int64) CompareAndSwap(old, v int64) bool {
	explore.Access(&x.o, Write, "CAS")
	ok := x.v == old
	if ok {
		x.v = v
	}
	explore.Note(uint64(x.v))
	return ok
}

// Uint64 is a controlled atomic.Uint64.
type Uint64 struct {
	o Object
	v uint64
}

// Load loads.
func (x *Uint64) Load() uint64 {
	explore.Access(&x.o, Read, "Load")
	explore.Note(x.v)
	return x.v
}

// Store stores v.
func (x *Uint64) Store(v uint64) {
	explore.Access(&x.o, Write, "Store")
	explore.Note(v)
	x.v = v
}

// Swap swaps.
func (x *Uint64) Swap(v uint64) (old uint64) {
	explore.Access(&x.o, Write, "Swap")
	old, x.v = x.v, v
	explore.Note(v)
	return old
}

// Add adds d.
func (x *Uint64) Add(d uint64) uint64 {
	explore.Access(&x.o, Write, "Add")
	x.v += d
	explore.Note(x.v)
	return x.v
}

// Or sets bits.
func (x *Uint64) Or(mask uint64) (old uint64) {
	explore.Access(&x.o, Write, "Or")
	old = x.v
	x.v |= mask
	explore.Note(x.v)
	return old
}

// And clears bits.
func (x *Uint64) And(mask uint64) (old uint64) {
	explore.Access(&x.o, Write, "And")
	old = x.v
	x.v &= mask
	explore.Note(x.v)
	return old
}

// CompareAndSwap swaps if it finds old.
func (x *Uint64) CompareAndSwap(old, v uint64) bool {
	explore.Access(&x.o, Write, "CAS")
	ok := x.v == old
	if ok {
		x.v = v
	}
	explore.Note(x.v)
	return ok
}

// Uint32 is a controlled atomic.Uint32.
type Uint32 struct{ x Uint64 }

// Load loads.
func (x *Uint32) Load() uint32 { return uint32(x.x.Load()) }

// Store stores v.
func (x *Uint32) Store(v uint32) { x.x.Store(uint64(v)) }

// CompareAndSwap swaps if it finds old.
func (x *Uint32) CompareAndSwap(old, v uint32) bool {
	return x.x.CompareAndSwap(uint64(old), uint64(v))
}

// Pointer is a controlled atomic.Pointer.
type Pointer[T any] struct {
	o Object
	p *T
}

// Load loads.
func (x *Pointer[T]) Load() *T { explore.Access(&x.o, Read, "Load"); return x.p }

// Store stores p.
func (x *Pointer[T]) Store(p *T) { explore.Access(&x.o, Write, "Store"); x.p = p }

// CompareAndSwap swaps if it finds old.
func (x *Pointer[T]) CompareAndSwap(old, p *T) bool {
	explore.Access(&x.o, Write, "CAS")
	if x.p != old {
		return false
	}
	x.p = p
	return true
}

// Mutex is a controlled sync.Mutex.
type Mutex struct {
	o    Object
	held bool
}

// Lock locks.
func (m *Mutex) Lock() { explore.Lock(&m.o, &m.held) }

// Unlock unlocks.
func (m *Mutex) Unlock() {
	if !m.held {
		panic("sy: Unlock of an unlocked Mutex")
	}
	explore.Unlock(&m.o, &m.held)
}

// Timer is a controlled time.Timer.
type Timer = explore.Timer

// AfterFunc calls f after d.
func AfterFunc(d time.Duration, f func()) *Timer { return explore.AfterFunc(d, f) }

// AfterDone calls f when ctx is done.
func AfterDone(ctx context.Context, f func()) (stop func() bool) {
	if c := explore.ContextOf(ctx.Done()); c != nil {
		return c.AfterFunc(f)
	}
	return func() bool { return true } // one that never ends
}

// WithCancelCause derives a context. Its cause is not kept.
func WithCancelCause(parent context.Context) (context.Context, context.CancelCauseFunc) {
	c := explore.NewChild(parent)
	return c, func(error) { c.Cancel() }
}

// Shorter is by how many bits loops that give up are shorter in models.
const Shorter = 3

// Go starts f.
func Go(f func()) { explore.Go(f) }

// Yield lets others run.
func Yield() { explore.Yield() }

func Sleep(d time.Duration) {
	e := MakeEvent()
	AfterFunc(d, e.Set)
	e.Wait()
}

// Since is the time since the run began.
func Since(time.Time) int64 { return explore.Now() }

// Stacks finds none.
func Stacks(most int) []byte { return nil }

// Times is at most 2.
func Times(n int) int { return min(n, 2) }

// Procs is what the model says.
func Procs() int {
	if m := explore.Env(); m != nil {
		return m.Procs
	}
	return 1
}

// Runnable is what the model says.
func Runnable() uint64 {
	if m := explore.Env(); m != nil {
		m.Looks++
		return m.Runnable
	}
	return 0
}

// FreeCPU is what the model says.
func FreeCPU() bool {
	m := explore.Env()
	return m == nil || m.FreeCPU
}

// An Event parks one goroutine.
type Event struct{ s *signal }

type signal struct {
	o   Object
	set explore.Flag
}

// MakeEvent makes an Event.
func MakeEvent() Event { return Event{new(signal)} }

// IsZero reports whether e was not made yet.
func (e Event) IsZero() bool { return e.s == nil }

// Set wakes the waiter.
func (e Event) Set() {
	explore.Access(&e.s.o, Write, "Event.Set")
	if e.s.set.On() {
		panic("sy: second Set of an Event before the first was consumed")
	}
	e.s.set.Set()
}

// Wait parks until Set.
func (e Event) Wait() {
	explore.Wait(&e.s.o, Write, &e.s.set, nil, "Event.Wait")
	e.s.set.Clear()
}

// WaitOr parks until Set or until cancel is closed.
func (e Event) WaitOr(cancel <-chan struct{}) bool {
	ok := explore.Wait(&e.s.o, Write, &e.s.set, explore.ContextOf(cancel), "Event.WaitOr")
	if ok {
		e.s.set.Clear()
	}
	return ok
}

// A Latch is opened once.
type Latch struct {
	s *signal
	c chan struct{}
}

// MakeLatch makes a Latch.
func MakeLatch() Latch { return Latch{new(signal), make(chan struct{})} }

// IsZero reports whether l was not made yet.
func (l Latch) IsZero() bool { return l.s == nil }

// Open lets all waiters through.
func (l Latch) Open() {
	explore.Access(&l.s.o, Write, "Latch.Open")
	l.s.set.Set()
	close(l.c)
}

// IsOpen reports whether Open was called.
func (l Latch) IsOpen() bool {
	explore.Access(&l.s.o, Read, "Latch.IsOpen")
	return l.s.set.On()
}

// C is closed by Open.
func (l Latch) C() <-chan struct{} { return l.c }

// Wait parks until Open.
func (l Latch) Wait() { explore.Wait(&l.s.o, Read, &l.s.set, nil, "Latch.Wait") }

// WaitOr parks until Open or until cancel is closed.
func (l Latch) WaitOr(cancel <-chan struct{}) bool {
	if explore.Wait(&l.s.o, Read, &l.s.set, explore.ContextOf(cancel), "Latch.WaitOr") {
		return true
	}
	return l.IsOpen()
}

// A Gate is shut once, and opened once.
type Gate struct {
	s    signal
	shut bool
}

// Shut makes later calls of Wait park.
func (g *Gate) Shut() {
	explore.Access(&g.s.o, Write, "Gate.Shut")
	if g.shut {
		panic("sy: second Shut of a Gate")
	}
	g.shut = true
}

// Open lets all waiters through.
func (g *Gate) Open() {
	explore.Access(&g.s.o, Write, "Gate.Open")
	if !g.shut || g.s.set.On() {
		panic("sy: Open of a Gate that is not shut")
	}
	g.s.set.Set()
}

// Wait parks while g is shut.
func (g *Gate) Wait() {
	explore.Access(&g.s.o, Read, "Gate.Wait")
	if g.shut {
		explore.Wait(&g.s.o, Read, &g.s.set, nil, "Gate.Wait")
	}
}

// A Door is a Gate that one goroutine waits for.
type Door struct{ Gate }

// Wait parks until Open.
func (d *Door) Wait() { explore.Wait(&d.s.o, Read, &d.s.set, nil, "Door.Wait") }

// Peek is the value of x, without an access.
func Peek(x *Uint64) uint64 { return x.v }

// PeekPointer is Peek for pointers.
func PeekPointer[T any](x *Pointer[T]) *T { return x.p }
