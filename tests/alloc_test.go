package tests

import (
	"context"
	"math/bits"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/again"
	"github.com/shoal-go/shoal/internal/testpool"
)

// nothing is a task that captures nothing.
func nothing() {}

// heapInUse is how many bytes are reachable.
func heapInUse() int64 {
	var m runtime.MemStats
	for range 3 { // whatever a finalizer or a pool of the runtime keeps for a round
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// allocated is how many bytes were ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestSubmitAllocatesNothing(t *testing.T) {
	for _, timing := range []shoal.Timing{shoal.TimingOff, shoal.TimingSampled} {
		p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithTiming(timing))
		for name, submit := range map[string]func(func()) error{"Submit": p.Submit, "TrySubmit": p.TrySubmit} {
			if n := testing.AllocsPerRun(20_000, func() { submit(nothing) }); n != 0 {
				t.Errorf("timing %d: %s makes %v allocations", timing, name, n)
			}
		}
		batch := make([]func(), 64)
		for i := range batch {
			batch[i] = nothing
		}
		// A segment of the queue holds 512 tasks: one allocation for eight batches.
		if n := testing.AllocsPerRun(2000, func() { p.SubmitBatch(batch) }); n != 0 {
			t.Errorf("timing %d: SubmitBatch makes %v allocations", timing, n)
		}
		p.Wait()
		if n := p.Stats().Completed; n < 2*20_000+64*2000 {
			t.Errorf("timing %d: only %d tasks ran", timing, n)
		}
	}
}

func TestSubmitCostsNoMoreThan16BytesATask(t *testing.T) {
	weighs(t)
	const n = many
	for name, opts := range map[string][]shoal.Option{
		"fast":     {shoal.WithTiming(shoal.TimingOff)},
		"sampled":  nil,
		"bounded":  {shoal.WithTiming(shoal.TimingOff), shoal.WithQueueCapacity(1000)},
		"reserved": {shoal.WithTiming(shoal.TimingOff), shoal.WithMinWorkers(2)},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPool(t, append([]shoal.Option{shoal.WithMaxWorkers(2)}, opts...)...)
			before := allocated()
			for range n {
				for p.TrySubmit(nothing) != nil {
					runtime.Gosched()
				}
			}
			p.Wait()
			if perTask := float64(allocated()-before) / n; perTask > 16 {
				t.Errorf("%.1f bytes a task, want at most 16", perTask)
			}
		})
	}
}

func TestSubmitOfABacklogCostsNoMoreThan16BytesATask(t *testing.T) {
	weighs(t)
	const n = many
	p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.TimingOff))
	release := hold(t, p, 1)
	before, inUse := allocated(), heapInUse()
	for range n {
		must(t, p.Submit(nothing))
	}
	if perTask := float64(allocated()-before) / n; perTask > 16 {
		t.Errorf("%.1f bytes a task, want at most 16", perTask)
	}
	if perTask := float64(heapInUse()-inUse) / n; perTask > 16 {
		t.Errorf("a task that waits holds %.1f bytes, want at most 16", perTask)
	}
	release()
	p.Wait()
}

func TestTaskWithAContextCostsOneAllocationBesideItsClosure(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.TimingOff))
	ctx, task := context.Background(), func(context.Context) {}
	if n := testing.AllocsPerRun(10_000, func() { p.SubmitContext(ctx, task) }); n > 1 {
		t.Errorf("SubmitContext makes %v allocations, want 1", n)
	}
	p.Wait()
	if n := p.Stats().Completed; n < 10_000 {
		t.Errorf("only %d tasks ran", n)
	}
}

func TestStatsAllocatesNothingWithoutTiming(t *testing.T) {
	p := openPool(t, shoal.WithTiming(shoal.TimingOff))
	if n := testing.AllocsPerRun(1000, func() { p.Stats(); p.Queued(); p.State() }); n != 0 {
		t.Errorf("a snapshot makes %v allocations", n)
	}
}

// many is how many tasks are enough to see what each of them costs.
const many = 1_000_000

// weighs is for tests that measure memory, again and again: the race detector has
// memory of its own, makes each task long, and other tests show it more. In an
// emulator the garbage collector alone takes minutes.
func weighs(t *testing.T) {
	t.Helper()
	switch {
	case testpool.Race:
		t.Skip("the race detector has memory of its own")
	case os.Getenv(again.RunWith) != "":
		t.Skip("an emulator is too slow")
	}
}

// slack is what may differ between two looks at the heap: much more than the
// noise of a test process, much less than what a leak of the sizes below
// keeps.
const slack = 1 << 20

func TestMemoryReturnsAfterABurst(t *testing.T) {
	weighs(t)
	const n = many
	p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithTiming(shoal.TimingOff))
	p.Submit(nothing)
	p.Wait()
	before := heapInUse()
	p.Pause()
	for range n {
		must(t, p.Submit(nothing))
	}
	if grown := heapInUse() - before; grown < int64(n)*bits.UintSize/8 {
		t.Errorf("%d tasks wait in %d bytes: the test measures nothing", n, grown)
	}
	p.Resume()
	p.Wait()
	if grown := heapInUse() - before; grown > slack {
		t.Errorf("%d bytes are still held after a burst of %d tasks", grown, n)
	}
	runtime.KeepAlive(p)
}

func TestMemoryReturnsAfterABurstOfWorkers(t *testing.T) {
	weighs(t)
	const n = 20_000
	// The runtime keeps what it needs for the most goroutines there were. So
	// first have as many.
	var all sync.WaitGroup
	gate := make(chan struct{})
	for range n + 1000 {
		all.Go(func() { <-gate })
	}
	close(gate)
	all.Wait()

	p := openPool(t, shoal.WithMaxWorkers(n), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(0))
	before := heapInUse()
	hold(t, p, n)()
	p.Wait()
	for p.Stats().Workers != 0 {
		runtime.Gosched()
	}
	if grown := heapInUse() - before; grown > slack {
		t.Errorf("%d bytes are still held after a burst of %d workers", grown, n)
	}
	runtime.KeepAlive(p)
}

// A worker that yields looks at what is runnable. That needs nearly all of a stack of
// 2 KB; one call deeper and each worker that is woken moves to one of 4 KB.
func TestAWorkerThatIsWokenStaysOnItsSmallStack(t *testing.T) {
	weighs(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector halves stacks
	const n = 5000
	stacks := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.StackInuse)
	}
	p := openPool(t, shoal.WithMaxWorkers(n), shoal.WithIdleTimeout(shoal.Forever))
	hold(t, p, n)()
	asleep := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	for metrics.Read(asleep); p.Stats().Idle < n || asleep[0].Value.Uint64() < n; metrics.Read(asleep) {
		runtime.Gosched()
	}
	before := stacks()
	release := hold(t, p, n)
	grown := stacks() - before
	release()
	p.Wait()
	if grown > 500*n {
		t.Errorf("%d woken workers have %d bytes of stack more than when they were new", n, grown)
	}
}

func TestMemoryReturnsAfterABurstOfDelayedTasks(t *testing.T) {
	weighs(t)
	const n = 200_000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the runtime has a heap of timers for each
	p := openPool(t, shoal.WithMaxWorkers(1))
	stops := make([]func() bool, n)
	before := heapInUse()
	for i := range stops {
		stop, err := p.SubmitAfter(time.Hour, nothing)
		must(t, err)
		stops[i] = stop
	}
	for i, stop := range stops {
		stop()
		stops[i] = nil
	}
	if grown := heapInUse() - before; grown > slack+16*n { // the runtime keeps 16 bytes for as many timers
		t.Errorf("%d bytes are still held after a burst of %d delayed tasks", grown, n)
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(stops)
}

// The segments of the queue are linked: a reference to an old one keeps all that
// come after it. So a worker that has been in one task, or asleep, for many tasks
// must not refer to the segment where it was.
func TestAWorkerInALongTaskHoldsOnToNothing(t *testing.T) {
	weighs(t)
	const n = many
	for name, submit := range map[string]func(p *shoal.Pool, task func()) error{
		"Submit": (*shoal.Pool).Submit,
		"SubmitContext": func(p *shoal.Pool, task func()) error {
			return p.SubmitContext(context.Background(), func(context.Context) { task() })
		},
		"SubmitBatch": func(p *shoal.Pool, task func()) error {
			_, err := p.SubmitBatch([]func(){nothing, task, nothing})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithTiming(shoal.TimingOff))
			started, gate := make(chan struct{}), make(chan struct{})
			must(t, submit(p, func() { close(started); <-gate }))
			<-started
			before := heapInUse()
			for range n {
				must(t, p.Submit(nothing))
			}
			for p.Stats().InFlight != 1 {
				runtime.Gosched()
			}
			if grown := heapInUse() - before; grown > slack {
				t.Errorf("%d bytes are held beside one long task after %d short ones", grown, n)
			}
			close(gate)
			p.Wait()
		})
	}
}

func TestAParkedWorkerHoldsOnToNothing(t *testing.T) {
	weighs(t)
	const n = many
	p := openPool(t, fixed(8, shoal.WithTiming(shoal.TimingOff), shoal.WithIdleTimeout(shoal.Forever))...)
	hold(t, p, 8)() // all have taken a task
	p.Wait()
	before := heapInUse()
	var running atomic.Int32
	for range n / 100 { // few at a time: the same few workers run them, the others sleep
		for range 100 {
			must(t, p.Submit(func() { running.Add(1) }))
		}
		p.Wait()
	}
	if grown := heapInUse() - before; grown > slack {
		t.Errorf("%d bytes are held by sleeping workers after %d tasks of others", grown, running.Load())
	}
	runtime.KeepAlive(p)
}

func TestASubmitterThatWaitsForRoomHoldsOnToNoSegment(t *testing.T) {
	weighs(t)
	const n = many
	p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithTiming(shoal.TimingOff))
	p.Pause()
	for range 1 + 1 { // the capacity, and the worker
		must(t, p.Submit(nothing))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := inBackground(func() { p.SubmitContext(ctx, func(context.Context) {}) })
	for p.Stats().Blocked == 0 {
		runtime.Gosched()
	}
	p.Resume()
	<-waiting
	p.Wait()
	before := heapInUse()
	for range n {
		must(t, p.Submit(nothing))
	}
	p.Wait()
	if grown := heapInUse() - before; grown > slack {
		t.Errorf("%d bytes are held after %d tasks", grown, n)
	}
	runtime.KeepAlive(p)
}

// Old pools are garbage when they are closed, whatever they have seen.
func TestClosedPoolsAreCollected(t *testing.T) {
	weighs(t)
	before := heapInUse()
	for range 2000 {
		p := openAndForget(t, shoal.WithMaxWorkers(2))
		must(t, p.Submit(nothing))
		must(t, p.Shutdown(context.Background()))
	}
	if grown := heapInUse() - before; grown > slack {
		t.Errorf("%d bytes are held by 2000 closed pools", grown)
	}
}

// A worker keeps the 2 KB of stack that a goroutine begins with, if its tasks need no more: what it
// does to grow the pool, to yield and to park fits there too.
//
// The runtime starts goroutines with more where those before them needed more, so the test runs in
// a process in which it does not.
func TestWorkersKeepTheStackTheyBeginWith(t *testing.T) {
	if testpool.Race || testing.CoverMode() != "" || runtime.GOARCH != "amd64" {
		t.Skip("frames are larger, or not known")
	}
	const fixed = "adaptivestackstart=0"
	if os.Getenv("GODEBUG") != fixed {
		cmd := again.Command("-test.run=^" + t.Name() + "$")
		cmd.Env = append(cmd.Env, "GODEBUG="+fixed)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	const workers = 2000
	p := openPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(workers))
	stack := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.StackInuse
	}
	before := stack()
	var in, out sync.WaitGroup
	in.Add(workers)
	out.Add(1)
	for range workers {
		must(t, p.Submit(func() { in.Done(); out.Wait() }))
	}
	in.Wait()
	busy := stack()
	out.Done()
	p.Wait()
	for what, now := range map[string]uint64{"inside tasks": busy, "idle": stack()} {
		if each := (now - before) / workers; each >= 3<<10 {
			t.Errorf("%s, a worker has %d bytes of stack", what, each)
		}
	}
}

func TestCallsAllocateWhatTheChoosingPageSays(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	ctx, keyed, n := context.Background(), shoal.NewKeyed[int](p), 0
	task := func(context.Context) error { return nil }
	group := func(tasks int, opts ...shoal.GroupOption) func() {
		return func() {
			g := p.Group(ctx, opts...)
			for range tasks {
				g.Go(task)
			}
			g.Wait()
		}
	}
	subs := make([]*shoal.Pool, 0, 1000)
	for _, c := range []struct {
		name  string
		most  float64
		calls func()
	}{
		{"Wait", 2, func() { p.Submit(nothing); p.Wait() }},
		{"SubmitWait", 2, func() { p.SubmitWait(ctx, task) }},
		{"a Group of 10", 11, group(10)},
		{"a Group of 10 with all errors and a limit", 11 + 2*10, group(10, shoal.CollectErrors(), shoal.Limit(2))},
		{"Keyed.Submit", 0, func() { n++; keyed.Submit(n%7, nothing) }},
		{"GoKeyed", 2, func() {
			n++
			shoal.GoKeyed(ctx, keyed, n%7, func(context.Context) (int, error) { return 1, nil }).Wait(ctx)
		}},
		{"SubmitAfter", 6, func() {
			if stop, err := p.SubmitAfter(time.Hour, nothing); err != nil || !stop() {
				t.Fatal(err)
			}
		}},
		{"Reserve, and a task", 5, func() {
			r, err := p.Reserve(ctx, 1)
			if err != nil || r.Submit(ctx, task, nil) != nil {
				t.Fatal(err)
			}
		}},
		{"Sub", 10, func() { subs = append(subs, shoal.Must(p.Sub())) }},
	} {
		if n := testing.AllocsPerRun(900, c.calls); n > c.most {
			t.Errorf("%s makes %v allocations, want at most %v", c.name, n, c.most)
		}
		p.Wait()
	}
}
