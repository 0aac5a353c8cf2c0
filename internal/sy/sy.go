//go:build !poolsim

package sy

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// Atomics and the mutex. All of Go's atomics are sequentially consistent; the
// proofs in docs/engine.md rely on that.
type (
	Bool           = atomic.Bool
	Int64          = atomic.Int64
	Uint32         = atomic.Uint32
	Uint64         = atomic.Uint64
	Pointer[T any] = atomic.Pointer[T]
	Mutex          = sync.Mutex
	Timer          = time.Timer
	AccessKind     bool
)

// Read and Write tell [Access] what an access by other means does.
const (
	Read  AccessKind = false
	Write AccessKind = true
)

// An Object stands for shared memory that is not of a type of this package. In
// a normal build it is nothing. It must not be the last field of a struct: there
// it would take memory.
type Object struct{}

// Access announces an access to o. In a normal build it is nothing.
func Access(o *Object, k AccessKind) {}

// Reach marks a place that explorations must come to. In a normal build it is
// nothing.
func Reach(place string) {}

// Shorter is by how many bits loops that give up are shorter in models.
const Shorter = 0

// Go starts f on a goroutine of its own.
func Go(f func()) { go f() }

// Yield lets other goroutines run.
func Yield() { runtime.Gosched() }

func Sleep(d time.Duration) { time.Sleep(d) }

// Since is the time since start, in nanoseconds, by the monotonic clock.
func Since(start time.Time) int64 { return int64(time.Since(start)) }

// AfterFunc calls f on a goroutine of its own after d.
func AfterFunc(d time.Duration, f func()) *Timer { return time.AfterFunc(d, f) }

// AfterDone calls f on a goroutine of its own when ctx is done.
func AfterDone(ctx context.Context, f func()) (stop func() bool) { return context.AfterFunc(ctx, f) }

// WithCancelCause is [context.WithCancelCause].
func WithCancelCause(parent context.Context) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(parent)
}

// Stacks is what Go prints for all goroutines of the process; nothing if there are
// more than most.
func Stacks(most int) []byte {
	n := runtime.NumGoroutine()
	if n > most {
		return nil
	}
	buf := make([]byte, 64<<10+n<<10)
	for {
		got := runtime.Stack(buf, true)
		if got < len(buf) {
			return buf[:got]
		}
		buf = make([]byte, 2*len(buf))
	}
}

// Times is n: how often something is repeated. Models do with less.
func Times(n int) int { return n }

// Procs is the number of CPUs that Go code may use at once.
func Procs() int { return runtime.GOMAXPROCS(0) }

// load is what [Runnable] and [FreeCPU] read.
type load [3]metrics.Sample

var loads = sync.Pool{New: func() any {
	return &load{
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/running:goroutines"},
		{Name: "/sched/goroutines/not-in-go:goroutines"},
	}
}}

// Runnable reports how many goroutines of the process could run but wait for a
// CPU. It costs about as much as reading the clock. It has no defer, so as to need little
// stack: what calls it runs on stacks of 2 KB.
func Runnable() uint64 {
	l := loads.Get().(*load)
	metrics.Read(l[:1])
	n := l.value(0)
	loads.Put(l)
	return n
}

// FreeCPU reports whether no goroutine waits for a CPU and fewer are running,
// or in system calls, than may. Then the runtime has a thread at hand that
// looks after timers and the network. It costs about as much as reading the
// clock.
func FreeCPU() bool {
	l := loads.Get().(*load)
	metrics.Read(l[:])
	free := l.value(0) == 0 && l.value(1)+l.value(2) < uint64(Procs())
	for i := range l {
		free = free && l[i].Value.Kind() == metrics.KindUint64 // else a runtime without the metric
	}
	loads.Put(l)
	return free
}

func (l *load) value(i int) uint64 {
	if l[i].Value.Kind() != metrics.KindUint64 {
		return 0 // a runtime without the metric: growth is then not held back
	}
	return l[i].Value.Uint64()
}

// An Event parks one goroutine until another one wakes it. It holds at most
// one signal. It must be made by [MakeEvent], in the goroutine's own
// testing/synctest bubble if there is one.
type Event struct{ c chan struct{} }

// MakeEvent makes an Event.
func MakeEvent() Event { return Event{make(chan struct{}, 1)} }

// IsZero reports whether e was not made yet.
func (e Event) IsZero() bool { return e.c == nil }

// Set wakes the waiter, now or when it comes. There must be no second Set
// before the signal was consumed.
func (e Event) Set() { e.c <- struct{}{} }

// Wait parks until Set.
func (e Event) Wait() { <-e.c }

// WaitOr parks until Set or until cancel is closed, and reports whether it
// was Set.
func (e Event) WaitOr(cancel <-chan struct{}) bool {
	if cancel == nil {
		<-e.c
		return true
	}
	select {
	case <-e.c:
		return true
	case <-cancel:
		return false
	}
}

// A Latch is closed once and lets every waiter through from then on.
type Latch struct{ c chan struct{} }

// MakeLatch makes a Latch.
func MakeLatch() Latch { return Latch{make(chan struct{})} }

// IsZero reports whether l was not made yet.
func (l Latch) IsZero() bool { return l.c == nil }

// Open lets all waiters through, those that come later too. Once only.
func (l Latch) Open() { close(l.c) }

// IsOpen reports whether Open was called.
func (l Latch) IsOpen() bool {
	select {
	case <-l.c:
		return true
	default:
		return false
	}
}

// C is closed by Open.
func (l Latch) C() <-chan struct{} { return l.c }

// Wait parks until Open.
func (l Latch) Wait() { <-l.c }

// WaitOr parks until Open or until cancel is closed, and reports whether the
// latch is open.
func (l Latch) WaitOr(cancel <-chan struct{}) bool {
	if cancel == nil {
		<-l.c
		return true
	}
	select {
	case <-l.c:
		return true
	case <-cancel:
		return l.IsOpen()
	}
}

// A Gate lets every waiter through until it is shut, and again from when it is
// opened. It is for goroutines that wait for nothing else, and needs no allocation.
// If the goroutines that wait and the one that opens it are in a testing/synctest
// bubble, it must be shut there too. It must not be copied.
type Gate struct{ wg sync.WaitGroup }

// Shut makes later calls of Wait park. Once only.
func (g *Gate) Shut() { g.wg.Add(1) }

// Open lets all waiters through. Once only, after Shut.
func (g *Gate) Open() { g.wg.Done() }

// Wait parks while g is shut.
func (g *Gate) Wait() { g.wg.Wait() }

// A Door is a Gate for one goroutine, which shuts it, and waits until another one has
// opened it. Within a testing/synctest bubble no time passes meanwhile, and the other one
// may be outside: it is a lock.
type Door struct{ mu sync.Mutex }

// Shut makes Wait park. Once only.
func (d *Door) Shut() { d.mu.Lock() }

// Open lets the goroutine through. Once only, after Shut.
func (d *Door) Open() { d.mu.Unlock() }

// Wait parks until Open. Once only.
func (d *Door) Wait() { d.mu.Lock() }

// Peek is the value of x. In models it is no access: it is for checks, and for what is not written
// while the caller holds a lock.
func Peek(x *Uint64) uint64 { return x.Load() }

// PeekPointer is Peek for pointers.
func PeekPointer[T any](x *Pointer[T]) *T { return x.Load() }
