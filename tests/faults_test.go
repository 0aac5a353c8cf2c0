package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// Every fault is put into every place where the pool runs a function of the
// user's, alone, and then in random pairs. After any of them the pool
// runs 100 more tasks exactly once, the counters agree, Shutdown returns nil
// and no goroutine is left. The numbers of the faults are those of the
// project's list.

// A place is where the pool runs a function of the user's.
type place int

const (
	inTask        place = iota // of Submit
	inContextTask              // of SubmitContext
	inWaitedTask               // of SubmitWait
	inStartHook
	inStopHook
	inPanicHandler
	inSizer
	places
)

func (p place) String() string {
	return [...]string{"task", "SubmitContext", "SubmitWait", "start hook", "stop hook", "panic handler", "sizer"}[p]
}

// A fault is something a function of the user's does.
type fault struct {
	id   int
	name string
	do   func(e *faulty)
	not  []place // where the documentation excludes it
	ends bool    // it ends the pool
}

// An injection is a fault in a place, or one from outside.
type injection struct {
	fault
	place place
}

func (i injection) String() string { return fmt.Sprintf("%02d %s in %v", i.id, i.name, i.place) }

// A faulty is a pool with injections, and what these may use.
type faulty struct {
	t    *testing.T
	pool *shoal.Pool
	gate chan struct{} // closed when what blocks may go on
	more sync.WaitGroup

	mu      sync.Mutex
	pending [places][]fault
	ended   bool // a fault that ends the pool happened
}

// fire does the next fault that waits for its place, if any. A fault happens
// once.
func (e *faulty) fire(p place) {
	e.mu.Lock()
	q := e.pending[p]
	if len(q) == 0 {
		e.mu.Unlock()
		return
	}
	e.pending[p] = q[1:]
	e.ended = e.ended || q[0].ends
	e.mu.Unlock()
	q[0].do(e)
}

func (e *faulty) waiting(p place) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.pending[p]) > 0
}

// Grow makes e the pool's Sizer.
func (e *faulty) Grow(shoal.Sizing) bool { e.fire(inSizer); return true }

// A bomb cannot be printed.
type bomb struct{ how func() }

func (b bomb) Error() string  { b.how(); return "unreachable" }
func (b bomb) String() string { b.how(); return "unreachable" }

// dig uses that many KiB of stack.
func dig(kib int) byte {
	var frame [1024]byte
	frame[kib%1024] = byte(kib)
	if kib == 0 {
		return frame[0]
	}
	return dig(kib-1) + frame[(kib+1)%1024]
}

var (
	faultSink   []byte
	faultSinkMu sync.Mutex
)

// The pool must not wait for what a Sizer does, and a Sizer must not wait for
// the pool: see Sizer.
var notInSizer = []place{inSizer}

// A panic handler that panics or calls runtime.Goexit ends the process: see
// TestH24_APanicHandlerThatFailsEndsTheProcess.
var notInHandler = []place{inPanicHandler}

var faults = []fault{
	{id: 1, name: "panic(string)", not: notInHandler, do: func(*faulty) { panic("on purpose") }},
	{id: 2, name: "panic(error)", not: notInHandler, do: func(*faulty) { panic(errors.ErrUnsupported) }},
	{id: 3, name: "panic(nil)", not: notInHandler, do: func(*faulty) { panic(nil) }},
	{id: 4, name: "nil map", not: notInHandler, do: func(*faulty) { var m *map[int]int; _ = (*m)[0] }},
	{id: 4, name: "index out of range", not: notInHandler, do: func(e *faulty) { _ = []int{}[len(e.gate)] }},
	{id: 5, name: "panic in a defer after a panic", not: notInHandler, do: func(*faulty) {
		defer func() { panic("second") }()
		panic("first")
	}},
	{id: 5, name: "Goexit in a defer after a panic", not: notInHandler, do: func(*faulty) {
		defer runtime.Goexit()
		panic("first")
	}},
	{id: 5, name: "panic in a defer after Goexit", not: notInHandler, do: func(*faulty) {
		defer func() { panic("second") }()
		runtime.Goexit()
	}},
	{id: 6, name: "Goexit", not: notInHandler, do: func(*faulty) { runtime.Goexit() }},
	{id: 7, name: "t.FailNow", not: notInHandler, do: func(*faulty) { new(testing.T).FailNow() }},
	{id: 8, name: "blocks", do: func(e *faulty) { <-e.gate }},
	{id: 9, name: "deep stack", do: func(*faulty) { dig(1 << 14) }}, // 16 MiB and more
	{id: 10, name: "LockOSThread", do: func(*faulty) { runtime.LockOSThread() }},
	{id: 10, name: "LockOSThread, Goexit", not: notInHandler, do: func(*faulty) { runtime.LockOSThread(); runtime.Goexit() }},
	{id: 11, name: "labels", do: func(*faulty) {
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("fault", "labels")))
	}},
	{id: 12, name: "huge allocation", do: func(*faulty) {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(32 << 20))
		b := make([]byte, 24<<20)
		faultSinkMu.Lock()
		faultSink = b
		faultSink = nil
		faultSinkMu.Unlock()
	}},
	{id: 13, name: "blocks in a system call", do: func(e *faulty) {
		r, w, err := os.Pipe()
		if err != nil {
			e.t.Error(err)
			return
		}
		r.Fd() // so that Read blocks the thread
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 {
				runtime.Gosched()
			}
			w.Write([]byte{1})
			w.Close()
		}()
		if _, err := r.Read(make([]byte, 1)); err != nil {
			e.t.Error(err)
		}
		<-done
		r.Close()
	}},
	{id: 14, name: "busy loop", do: func(*faulty) {
		x := uint64(1)
		for range 1 << 20 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		if x == 0 {
			panic("unreachable")
		}
	}},
	{id: 15, name: "goroutines that outlive it", do: func(e *faulty) {
		for range 5 {
			e.more.Go(func() { <-e.gate })
		}
	}},
	{id: 16, name: "Submit, queue full", not: notInSizer, do: func(e *faulty) {
		e.pool.Pause()
		defer e.pool.Resume()
		for e.pool.TrySubmit(func() {}) == nil {
		}
		for range 3 {
			if err := e.pool.Submit(func() {}); err != nil && !errors.Is(err, shoal.ErrClosed) {
				e.t.Errorf("Submit: %v", err)
			}
		}
	}},
	{id: 17, name: "SubmitWait", not: notInSizer, do: func(e *faulty) {
		err := e.pool.SubmitWait(context.Background(), func(context.Context) error { return nil })
		if err != nil && !errors.Is(err, shoal.ErrWouldDeadlock) && !errors.Is(err, shoal.ErrClosed) && !errors.Is(err, shoal.ErrDropped) {
			e.t.Errorf("SubmitWait: %v", err)
		}
	}},
	{id: 18, name: "Wait", not: append(notInSizer, inPanicHandler), do: func(e *faulty) { e.pool.Wait() }}, // it panics
	{id: 18, name: "WaitContext", not: notInSizer, do: func(e *faulty) {
		if err := e.pool.WaitContext(context.Background()); err != nil {
			wantErr(e.t, "WaitContext", err, shoal.ErrWouldDeadlock)
		}
	}},
	{id: 19, name: "Close", ends: true, do: func(e *faulty) {
		if err := e.pool.Close(); err != nil {
			wantErr(e.t, "Close", err, shoal.ErrWouldDeadlock)
		}
	}},
	{id: 19, name: "Shutdown", ends: true, do: func(e *faulty) {
		if err := e.pool.Shutdown(context.Background()); err != nil && !errors.As(err, new(*shoal.ShutdownError)) {
			wantErr(e.t, "Shutdown", err, shoal.ErrWouldDeadlock)
		}
	}},
	{id: 20, name: "Resize", do: func(e *faulty) {
		for _, max := range []int{1, 7, 4} {
			if err := e.pool.Resize(0, max); err != nil && !errors.Is(err, shoal.ErrClosed) {
				e.t.Errorf("Resize: %v", err)
			}
		}
	}},
	{id: 21, name: "panic(value whose Error panics)", not: notInHandler, do: func(*faulty) { panic(bomb{func() { panic("in Error") }}) }},
	{id: 21, name: "panic(value whose Error calls Goexit)", not: notInHandler, do: func(*faulty) { panic(bomb{runtime.Goexit}) }},
	{id: 24, name: "Submit", do: func(e *faulty) {
		for range 3 {
			if err := e.pool.TrySubmit(func() {}); err != nil && !errors.Is(err, shoal.ErrQueueFull) && !errors.Is(err, shoal.ErrClosed) {
				e.t.Errorf("TrySubmit: %v", err)
			}
		}
	}},
	{id: 26, name: "looks and toggles", do: func(e *faulty) {
		checkIdentity(e.t, e.pool.Stats())
		for range e.pool.Workers() {
		}
		e.pool.Queued()
		e.pool.Pause()
		e.pool.State()
		e.pool.Resume()
		if stop, err := e.pool.SubmitAfter(time.Hour, func() {}); err == nil {
			stop()
		}
	}},
}

// injections are all faults in all places.
func injections() (all []injection) {
	for _, f := range faults {
		for p := range places {
			excluded := false
			for _, q := range f.not {
				excluded = excluded || p == q
			}
			if !excluded {
				all = append(all, injection{f, p})
			}
		}
	}
	return all
}

// inject makes a pool with the injections, has all of them happen, and checks
// what is left.
func inject(t *testing.T, is ...injection) {
	e := &faulty{t: t, gate: make(chan struct{})}
	besides, hookless := true, false
	for _, i := range is {
		e.pending[i.place] = append(e.pending[i.place], i.fault)
		if i.name == "blocks" {
			// The handler may be called for a panic of the other two. These have
			// a test of their own: TestATaskStartsBesideABlockedStartHookOrSizer.
			besides = besides && i.place != inSizer && i.place != inStartHook && (i.place != inPanicHandler || len(is) == 1)
		}
		if i.place == inStartHook {
			hookless = true // a start hook that calls Goexit is the last hook that is called
		}
	}
	e.pool = newPool(t,
		shoal.WithMaxWorkers(4), // so that one is free beside two that block
		shoal.WithQueueCapacity(8),
		shoal.WithMaxTasksPerWorker(3), // so that hooks are called often
		shoal.WithIdleTimeout(0),
		shoal.WithSizing(e),
		shoal.WithWorkerHooks(func(int) { e.fire(inStartHook) }, func(int) { e.fire(inStopHook) }),
		shoal.WithPanicHandler(func(*shoal.PanicError) { e.fire(inPanicHandler) }))
	p := e.pool

	// Tasks that let it happen. Each from a goroutine of its own, because the
	// call may block; and everything after a place has been seen to is harmless.
	call := map[place]func(){
		inTask: func() { p.Submit(func() { e.fire(inTask) }) },
		inContextTask: func() {
			p.SubmitContext(context.Background(), func(context.Context) { e.fire(inContextTask) })
		},
		inWaitedTask: func() {
			p.SubmitWait(context.Background(), func(context.Context) error { e.fire(inWaitedTask); return nil })
		},
		inPanicHandler: func() { p.Submit(func() { panic("to call the handler") }) },
	}
	provoke := func() {
		for _, i := range is {
			for range 20 {
				if !e.waiting(i.place) || p.State() != shoal.Open {
					break
				}
				f := call[i.place]
				if f == nil {
					f = func() { p.Submit(func() {}) }
				}
				e.more.Go(f)
				synctest.Wait()
			}
		}
	}
	provoke()

	// While something blocks, others go on.
	if besides && p.State() == shoal.Open {
		y := newTally(20)
		for i := range 20 {
			e.more.Go(func() { y.note(i, p.Submit(y.task(i))) })
			synctest.Wait()
		}
		y.check(t)
	}
	close(e.gate)
	e.more.Wait()
	provoke()
	e.more.Wait()
	synctest.Wait()

	for _, i := range is {
		excused := hookless && len(is) > 1 && (i.place == inStartHook || i.place == inStopHook)
		if e.waiting(i.place) && p.State() == shoal.Open && !excused {
			t.Errorf("%v: it did not happen", i)
		}
	}
	if e.ended {
		wantErr(t, "Submit", p.Submit(func() { t.Error("a refused task ran") }), shoal.ErrClosed)
		closeAll(t, p)
		return
	}
	runsMore(t, p, 100)
	checkIdentity(t, p.Stats())
	shutClean(t, p)
}

func TestEachFaultInEachPlace(t *testing.T) {
	noLog(t)
	for _, i := range injections() {
		t.Run(i.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { inject(t, i) })
		})
	}
}

// waitsInSizer reports whether b may have the panic handler wait for the pool
// on behalf of a Sizer, in which a panics. A Sizer must not.
func waitsInSizer(a, b injection) bool {
	return a.place == inSizer && b.place == inPanicHandler && slices.Contains(b.not, inSizer)
}

// faultSeed is the seed of the random pairs: that of the environment variable
// SHOAL_FAULT_SEED, or a new one.
func faultSeed(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("SHOAL_FAULT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SHOAL_FAULT_SEED=%d", seed)
	return seed
}

func TestRandomPairsOfFaults(t *testing.T) {
	noLog(t)
	r := rand.New(rand.NewPCG(faultSeed(t), 0))
	all := injections()
	for range 200 {
		a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
		for waitsInSizer(a, b) || waitsInSizer(b, a) {
			b = all[r.IntN(len(all))]
		}
		t.Run(fmt.Sprintf("%v and %v", a, b), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { inject(t, a, b) })
		})
	}
}

// What blocks for ever cannot be helped; but a Shutdown returns when its
// context ends.
func TestShutdownObeysItsContextWhateverBlocks(t *testing.T) {
	for p := range places {
		t.Run(p.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				e := &faulty{t: t, gate: make(chan struct{})}
				e.pending[p] = []fault{{do: func(e *faulty) { <-e.gate }}}
				opts := []shoal.Option{shoal.WithMaxWorkers(2), shoal.WithSizing(e), shoal.WithIdleTimeout(0)}
				switch p { // hooks only where they are needed
				case inStartHook:
					opts = append(opts, shoal.WithWorkerHooks(func(int) { e.fire(p) }, nil))
				case inStopHook:
					opts = append(opts, shoal.WithWorkerHooks(nil, func(int) { e.fire(p) }))
				case inPanicHandler:
					opts = append(opts, shoal.WithPanicHandler(func(*shoal.PanicError) { e.fire(p) }))
				}
				e.pool = newPool(t, opts...)
				y := newTally(3)
				for i := range 3 {
					e.more.Go(func() {
						switch {
						case p == inPanicHandler && i == 0:
							y.note(i, e.pool.Submit(func() { y.hit(i); panic("to call the handler") }))
						case p == inTask && i == 0:
							y.note(i, e.pool.Submit(func() { y.hit(i); e.fire(p) }))
						case p == inContextTask && i == 0:
							y.note(i, e.pool.SubmitContext(context.Background(), func(context.Context) { y.hit(i); e.fire(p) }))
						case p == inWaitedTask && i == 0:
							y.note(i, e.pool.SubmitWait(context.Background(), func(context.Context) error { y.hit(i); e.fire(p); return nil }))
						default:
							y.note(i, e.pool.Submit(y.task(i)))
						}
					})
					synctest.Wait()
				}
				if e.waiting(p) {
					t.Error("nothing blocks")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begin := time.Now()
				var err error
				returned := inBackground(func() { err = e.pool.Shutdown(ctx) })
				<-ctx.Done()
				synctest.Wait()
				if !isClosed(returned) {
					t.Error("Shutdown does not obey its context")
				} else {
					wantErr(t, "Shutdown", err, context.DeadlineExceeded)
				}
				if d := time.Since(begin); d != time.Minute {
					t.Errorf("it took %v", d)
				}
				close(e.gate)
				e.more.Wait()
				<-returned
				<-e.pool.Done()
				closeAll(t, e.pool)
				y.checkDropped(t, e.pool.Stats().Dropped)
			})
		})
	}
}

// A start hook and a Sizer are called by a worker that was started for a task.
// While it blocks there, other workers, parked or new, run the tasks that come.
// (Not new ones beside a Sizer: whether there may be more is what it is asked.)
func TestATaskStartsBesideABlockedStartHookOrSizer(t *testing.T) {
	for _, place := range []place{inStartHook, inSizer} {
		for _, parked := range []bool{true, false} {
			if place == inSizer && !parked {
				continue
			}
			t.Run(fmt.Sprintf("%v/parked=%v", place, parked), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					e := &faulty{t: t, gate: make(chan struct{})}
					opts := []shoal.Option{shoal.WithMaxWorkers(3)}
					if place == inSizer {
						opts = append(opts, shoal.WithSizing(e))
					} else {
						opts = append(opts, shoal.WithWorkerHooks(func(int) { e.fire(place) }, nil))
					}
					e.pool = newPool(t, opts...)
					release := func() {}
					if parked {
						release = hold(t, e.pool, 1)
					}
					e.pending[place] = []fault{{do: func(e *faulty) { <-e.gate }}}
					y := newTally(2)
					y.note(0, e.pool.Submit(y.task(0))) // for this one a worker is started, and blocks
					synctest.Wait()
					if e.waiting(place) {
						t.Error("nothing blocks")
					}
					release() // that worker runs the task, and parks
					synctest.Wait()
					y.note(1, e.pool.Submit(y.task(1)))
					synctest.Wait()
					for i := range 2 {
						if y.ran(i) != 1 {
							t.Errorf("task %d is stuck: %+v", i, e.pool.Stats())
						}
					}
					close(e.gate)
					e.pool.Wait()
					y.check(t)
					shutClean(t, e.pool)
				})
			})
		}
	}
}

// Hooks that do the same to every worker, for ever.
func TestHooksThatAlwaysFail(t *testing.T) {
	noLog(t)
	hows := map[string]func(){
		"panic":  func() { panic("on purpose") },
		"Goexit": runtime.Goexit,
		"both": func() {
			if rand.IntN(2) == 0 {
				panic("on purpose")
			}
			runtime.Goexit()
		},
	}
	for name, how := range hows {
		for _, broken := range []place{inStartHook, inStopHook, inSizer} {
			t.Run(name+" in the "+broken.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					at := func(p place) {
						if p == broken {
							how()
						}
					}
					p := newPool(t, shoal.WithMaxWorkers(3), shoal.WithMinWorkers(1), shoal.WithMaxTasksPerWorker(4),
						shoal.WithIdleTimeout(0),
						shoal.WithWorkerHooks(func(int) { at(inStartHook) }, func(int) { at(inStopHook) }),
						shoal.WithSizing(sizerCalling(func() { at(inSizer) })))
					y := newTally(100)
					for i := range 100 {
						task := y.task(i)
						if i%5 == 0 {
							task = func() { y.hit(i); panic("on purpose") }
						}
						<-inBackground(func() { y.note(i, p.Submit(task)) })
					}
					p.Wait()
					y.check(t)
					hold(t, p, 3)()
					s := p.Stats()
					checkIdentity(t, s)
					if s.Workers > 3 || s.Failed != 20 {
						t.Errorf("%+v", s)
					}
					shutClean(t, p)
				})
			})
		}
	}
}

// sizerCalling is a Sizer that calls itself and says yes.
type sizerCalling func()

func (f sizerCalling) Grow(shoal.Sizing) bool { f(); return true }

// ----- from outside -----

// A circumstance is what the pool is doing when something happens to it.
type circumstance struct {
	name string
	make func(t *testing.T, p *shoal.Pool) (undo func())
}

var circumstances = []circumstance{
	{"new", func(*testing.T, *shoal.Pool) func() { return func() {} }},
	{"idle", func(t *testing.T, p *shoal.Pool) func() {
		hold(t, p, 2)()
		synctest.Wait()
		return func() {}
	}},
	{"busy", func(t *testing.T, p *shoal.Pool) func() { return hold(t, p, 2) }},
	{"full", func(t *testing.T, p *shoal.Pool) func() {
		release := hold(t, p, 2)
		for p.TrySubmit(func() {}) == nil {
		}
		return release
	}},
	{"paused", func(t *testing.T, p *shoal.Pool) func() {
		p.Pause()
		for p.TrySubmit(func() {}) == nil {
		}
		return p.Resume
	}},
	{"crowded", func(t *testing.T, p *shoal.Pool) func() { // full, and others wait
		release := hold(t, p, 2)
		for p.TrySubmit(func() {}) == nil {
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { p.Submit(func() {}) })
		}
		synctest.Wait()
		return func() { release(); wg.Wait() }
	}},
}

// outer are faults from outside. They may block while the circumstance lasts,
// and say whether they ended the pool.
var outer = []struct {
	id   int
	name string
	do   func(t *testing.T, p *shoal.Pool) (ended bool)
}{
	{27, "nil tasks", func(t *testing.T, p *shoal.Pool) bool {
		wantErr(t, "Submit", p.Submit(nil), shoal.ErrNilTask)
		wantErr(t, "TrySubmit", p.TrySubmit(nil), shoal.ErrNilTask)
		wantErr(t, "SubmitContext", p.SubmitContext(t.Context(), nil), shoal.ErrNilTask)
		wantErr(t, "SubmitWait", p.SubmitWait(t.Context(), nil), shoal.ErrNilTask)
		_, err := p.SubmitBatch([]func(){func() { t.Error("it ran") }, nil})
		wantErr(t, "SubmitBatch", err, shoal.ErrNilTask)
		return false
	}},
	{28, "a context that is done", func(t *testing.T, p *shoal.Pool) bool {
		wantErr(t, "SubmitContext", p.SubmitContext(canceledContext(), func(context.Context) { t.Error("it ran") }), context.Canceled)
		return false
	}},
	{29, "a context that ends", func(t *testing.T, p *shoal.Pool) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.SubmitContext(ctx, func(context.Context) {})
		if err != nil {
			wantErr(t, "SubmitContext", err, context.DeadlineExceeded)
		}
		err = p.SubmitWait(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		wantErr(t, "SubmitWait", err, context.DeadlineExceeded)
		return false
	}},
	{30, "a deadline of zero", func(t *testing.T, p *shoal.Pool) bool {
		ctx, cancel := context.WithDeadline(t.Context(), time.Time{})
		defer cancel()
		wantErr(t, "SubmitWait", p.SubmitWait(ctx, func(context.Context) error { t.Error("it ran"); return nil }), context.DeadlineExceeded)
		return false
	}},
	{31, "a crowd", func(t *testing.T, p *shoal.Pool) bool {
		y := newTally(300)
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				if y.note(i, p.Submit(y.task(i))) != nil {
					t.Error("refused")
				}
			})
		}
		wg.Wait()
		p.Wait()
		y.check(t)
		return false
	}},
	{33, "Submit from a timer", func(t *testing.T, p *shoal.Pool) bool {
		y := newTally(1)
		done := make(chan struct{})
		time.AfterFunc(time.Second, func() {
			y.note(0, p.Submit(func() { y.hit(0); close(done) }))
		})
		<-done
		y.check(t)
		return false
	}},
	{34, "Submit during Close", func(t *testing.T, p *shoal.Pool) bool {
		y := newTally(100)
		was := p.Stats()
		closed := inBackground(func() { p.Close() })
		for i := range 100 {
			if err := y.note(i, p.Submit(y.task(i))); err != nil {
				wantErr(t, "Submit", err, shoal.ErrClosed)
			}
		}
		<-closed
		missing := countMissing(y)
		y.checkDropped(t, missing)
		if dropped := p.Stats().Dropped - was.Dropped; missing > dropped || dropped > missing+uint64(was.InFlight) {
			t.Errorf("%d tasks did not run, %d were dropped; before there were %d", missing, dropped, was.InFlight)
		}
		return true
	}},
	{36, "Submit from a defer of a panic", func(t *testing.T, p *shoal.Pool) bool {
		y := newTally(1)
		func() {
			defer func() { recover() }()
			defer func() { y.note(0, p.Submit(y.task(0))) }()
			panic("on purpose")
		}()
		p.Wait()
		y.check(t)
		return false
	}},
	{37, "Close twice at once, and again", func(t *testing.T, p *shoal.Pool) bool {
		a, b := inBackground(func() { p.Close() }), inBackground(func() { p.Close() })
		<-a
		<-b
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		return true
	}},
	{38, "Shutdown with a context that is done", func(t *testing.T, p *shoal.Pool) bool {
		if err := p.Shutdown(canceledContext()); err != nil {
			wantErr(t, "Shutdown", err, context.Canceled)
		}
		<-p.Done()
		return true
	}},
	{39, "Shutdown that runs out of time", func(t *testing.T, p *shoal.Pool) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			wantErr(t, "Shutdown", err, context.DeadlineExceeded)
		}
		<-p.Done()
		return true
	}},
	{41, "use after Close", func(t *testing.T, p *shoal.Pool) bool {
		p.Close()
		checkRefusesAll(t, p)
		p.Wait()
		return true
	}},
	{42, "Resize to what cannot be", func(t *testing.T, p *shoal.Pool) bool {
		for _, max := range []int{0, -1, -1 << 31} {
			wantErr(t, "Resize", p.Resize(0, max), shoal.ErrConfig)
		}
		wantErr(t, "Resize", p.Resize(1<<31-1, 1<<31-1), shoal.ErrConfig)
		s := p.Stats()
		if err := p.Resize(s.MinWorkers, s.MaxWorkers); err != nil {
			t.Errorf("Resize to the same: %v", err)
		}
		return false
	}},
	{43, "Resize during Close", func(t *testing.T, p *shoal.Pool) bool {
		closed := inBackground(func() { p.Close() })
		for i := range 20 {
			if err := p.Resize(i%3, 3); err != nil {
				wantErr(t, "Resize", err, shoal.ErrClosed)
			}
		}
		<-closed
		return true
	}},
}

// countMissing is how many accepted tasks did not run.
func countMissing(y *tally) (n uint64) {
	for i := range y.words {
		if y.accepted(i) && y.ran(i) == 0 {
			n++
		}
	}
	return n
}

func TestEachFaultFromOutsideInEachCircumstance(t *testing.T) {
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn, shoal.CallerRuns} {
		for _, o := range outer {
			for _, c := range circumstances {
				t.Run(fmt.Sprintf("%02d %s while %s, %v", o.id, o.name, c.name, policy), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(4), shoal.WithFullPolicy(policy))
						undo := c.make(t, p)
						var ended bool
						done := inBackground(func() { ended = o.do(t, p) })
						synctest.Wait()
						undo()
						<-done
						if ended {
							closeAll(t, p)
							return
						}
						runsMore(t, p, 100)
						shutClean(t, p)
					})
				})
			}
		}
	}
}

// 32: the garbage collector's goroutines may submit.
func TestFault32_SubmitFromACleanup(t *testing.T) {
	p := newPool(t, fixed(2, shoal.WithQueueCapacity(1))...)
	const n = 20
	y := newTally(n)
	var wg sync.WaitGroup
	wg.Add(n)
	for i := range n {
		object := new([64]int)
		submit := func(id int) {
			if y.note(id, p.Submit(func() { y.hit(id); wg.Done() })) != nil {
				t.Error("refused")
			}
		}
		if i%2 == 0 {
			runtime.AddCleanup(object, submit, i)
		} else {
			runtime.SetFinalizer(object, func(*[64]int) { submit(i) })
		}
	}
	collect(inBackground(wg.Wait))
	y.check(t)
	shutClean(t, p)
}

// 40: a pool that is dropped without being closed keeps its minimum of workers,
// for everybody to see, and only that.
func TestFault40_APoolThatIsNeverClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		before := len(testpool.Goroutines())
		ref, end := func() (weak.Pointer[shoal.Pool], func()) {
			p := newPool(t, shoal.WithMinWorkers(3), shoal.WithMaxWorkers(9), shoal.WithIdleTimeout(time.Second))
			hold(t, p, 9)()
			return weak.Make(p), func() { p.Close() }
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		if n := len(testpool.Goroutines()) - before; n != 3 {
			t.Errorf("%d goroutines, want the minimum of 3", n)
		}
		runtime.GC()
		if ref.Value() == nil {
			t.Error("a pool with workers was collected")
		}
		end()
	})
	inBubble(t, func(t *testing.T) {
		ref := func() weak.Pointer[shoal.Pool] {
			p := newPool(t, shoal.WithMaxWorkers(9), shoal.WithIdleTimeout(time.Second))
			hold(t, p, 9)()
			return weak.Make(p)
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		testpool.NoGoroutines(t, "an idle pool without a minimum")
		runtime.GC()
		runtime.GC()
		if ref.Value() != nil {
			t.Error("an idle pool without a minimum was not collected")
		}
	})
}

// 44: sizes that cannot be.
func TestFault44_NewWithSizesThatCannotBe(t *testing.T) {
	for _, max := range []int{0, -1, -1 << 31, 1<<31 - 1} {
		p, err := shoal.New(shoal.WithMaxWorkers(max))
		wantErr(t, fmt.Sprint("WithMaxWorkers ", max), err, shoal.ErrConfig)
		if p != nil {
			t.Error("a pool and an error")
		}
	}
	testpool.NoGoroutines(t)
}

// 45: GOMAXPROCS changes under load.
func TestFault45_GOMAXPROCSChangesUnderLoad(t *testing.T) {
	was := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(was)
	p := newPool(t, shoal.WithMaxWorkers(8), shoal.WithQueueCapacity(16))
	var stop atomic.Bool
	changed := inBackground(func() {
		for i := 0; !stop.Load(); i++ {
			runtime.GOMAXPROCS(1 + i%4)
			runtime.Gosched()
		}
	})
	y := submitStorm(t, p, 4, 1000, func(_ *rand.Rand, y *tally, id int) {
		if y.note(id, p.Submit(func() { y.hit(id); runtime.Gosched() })) != nil {
			t.Error("refused")
		}
	})
	stop.Store(true)
	<-changed
	y.check(t)
	shutClean(t, p)
}

// 46: the collector runs all the time.
func TestFault46_GCStorm(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(16))
	var stop atomic.Bool
	collected := inBackground(func() {
		for !stop.Load() {
			runtime.GC()
		}
	})
	y := submitStorm(t, p, 4, 1000, func(_ *rand.Rand, y *tally, id int) {
		b := make([]byte, 512)
		b[0] = byte(id)
		if y.note(id, p.SubmitContext(context.Background(), func(context.Context) {
			if b[0] == byte(id) {
				y.hit(id)
			}
		})) != nil {
			t.Error("refused")
		}
	})
	stop.Store(true)
	<-collected
	y.check(t)
	shutClean(t, p)
}
