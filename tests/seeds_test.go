package tests

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/shoal-go/shoal"
)

// Every feature of the three seeds has a test. docs/seeds.md says which. Here
// are those of the features that no other file is about, and a check that
// docs/seeds.md tells the truth.

// seedRows are the rows of docs/seeds.md, from the list of the seeds' features.
// Numbers that are missing were merged into others or name no feature.
var seedRows = strings.Fields(`
	P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11 P12 P13 P14 P15 P16 P17 P18 P19 P20 P21 P22 P24 P25
	F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 F13 F14 F15 F16 F19 F20 F21 F22 F23
	F25 F26 F27 F28 F29 F30 F31 F32 F34 F36
	T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12 T13 T14 T16 T17
	T18 T19 T20 T21 T22`)

// A seedRow is a line of the table.
type seedRow struct{ id, what, tests, note string }

func readSeedRows(t *testing.T) (rows []seedRow) {
	text, err := os.ReadFile("../docs/seeds.md")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if id := cells[1]; id != "id" && !strings.HasPrefix(id, "---") {
			rows = append(rows, seedRow{id, cells[2], cells[3], cells[4]})
		}
	}
	return rows
}

// testFuncs are the names of all tests, examples and fuzz targets of the module.
func testFuncs(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, pattern := range []string{"../*_test.go", "*_test.go", "../internal/*/*_test.go", "../compat/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			must(t, err)
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && regexp.MustCompile(`^(Test|Fuzz|Example)`).MatchString(d.Name.Name) {
					names[d.Name.Name] = true
				}
			}
		}
	}
	return names
}

func TestSeedsDocNamesATestForEveryRow(t *testing.T) {
	exist := testFuncs(t)
	var ids []string
	named := map[string]bool{}
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, r := range readSeedRows(t) {
		ids = append(ids, r.id)
		refs := quoted.FindAllStringSubmatch(r.tests, -1)
		if r.what == "" {
			t.Errorf("%s says nothing", r.id)
		}
		if len(refs) == 0 && !strings.Contains(r.note, "not there yet") {
			t.Errorf("%s names no test and does not say that it is not there yet", r.id)
		}
		if len(refs) > 0 && strings.Contains(r.note, "not there yet") {
			t.Errorf("%s names a test of what is not there yet", r.id)
		}
		for _, ref := range refs {
			switch name := ref[1]; {
			case strings.HasPrefix(name, "bench/"):
				if _, err := os.Stat("../bench"); err == nil { // it is a module of its own
					if _, err := os.Stat("../" + name); err != nil {
						t.Errorf("%s: %v", r.id, err)
					}
				}
			case !exist[name]:
				t.Errorf("%s names %s, which does not exist", r.id, name)
			default:
				named[name] = true
			}
		}
	}
	for _, id := range seedRows {
		if n := len(slices.DeleteFunc(slices.Clone(ids), func(o string) bool { return o != id })); n != 1 {
			t.Errorf("%s has %d rows, want one", id, n)
		}
	}
	for _, id := range ids {
		if !slices.Contains(seedRows, id) {
			t.Errorf("%s is no feature of a seed", id)
		}
	}
	for name := range exist {
		if strings.HasPrefix(name, "TestSeed") && !strings.HasPrefix(name, "TestSeedsDoc") && !named[name] {
			t.Errorf("%s is in no row", name)
		}
	}
}

// ----- pond -----

func TestSeedP1_MaxWorkersAndCapacityBoundWhatThePoolHolds(t *testing.T) {
	for _, capacity := range []int{0, 1, 7} {
		const workers = 3
		p := openPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity))
		release := hold(t, p, workers)
		for i := range capacity {
			if err := p.TrySubmit(nothing); err != nil {
				t.Errorf("capacity %d: task %d beyond the workers: %v", capacity, i, err)
			}
		}
		wantErr(t, "TrySubmit", p.TrySubmit(nothing), shoal.ErrQueueFull)
		if s := p.Stats(); s.InFlight != workers+capacity || s.Running != workers {
			t.Errorf("capacity %d: in flight %d, running %d", capacity, s.InFlight, s.Running)
		}
		release()
	}
}

func TestSeedP12_SubmitBlocksWhileFullAndF5_IsParkedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1))
		release := occupyEach(t, p, 1)
		must(t, p.Submit(nothing))
		ran := false
		submitted := inBackground(func() { must(t, p.Submit(func() { ran = true })) })
		synctest.Wait() // returns when everybody is parked: nobody spins
		if isClosed(submitted) || ran {
			t.Error("Submit returned though there is no room")
		}
		time.Sleep(time.Hour) // and it does not give up
		synctest.Wait()
		if isClosed(submitted) {
			t.Error("Submit returned though there is no room")
		}
		release()
		<-submitted
		p.Wait()
		if !ran {
			t.Error("the task that waited for room did not run")
		}
	})
}

func TestSeedP13_TrySubmitNeverWaits(t *testing.T) {
	for _, policy := range allPolicies {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy))
		release := hold(t, p, 1)
		must(t, p.TrySubmit(nothing))
		wantErr(t, policy.String(), p.TrySubmit(nothing), shoal.ErrQueueFull)
		release()
		p.Wait()
		must(t, p.TrySubmit(nothing))
	}
}

func TestSeedP14_SubmitWaitReturnsWhenTheTaskHasEnded(t *testing.T) {
	p := openPool(t)
	for i := range 1000 {
		done := false
		if err := p.SubmitWait(t.Context(), func(context.Context) error { runtime.Gosched(); done = true; return nil }); err != nil || !done {
			t.Fatalf("%d: SubmitWait = %v, done: %t", i, err, done)
		}
	}
}

func TestSeedP18_CloseStopsNowAndF21_CountsWhatItDrops(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1))
	interrupted := make(chan struct{})
	must(t, p.SubmitContext(t.Context(), func(ctx context.Context) { <-ctx.Done(); close(interrupted) }))
	for range 100 {
		must(t, p.Submit(func() { t.Error("a queued task ran") }))
	}
	for p.Stats().Running == 0 {
		runtime.Gosched()
	}
	closeAll(t, p)
	if !isClosed(interrupted) {
		t.Error("the task's context did not end")
	}
	if s := p.Stats(); s.Dropped != 100 || s.Completed != 1 {
		t.Errorf("dropped %d, completed %d, want 100, 1", s.Dropped, s.Completed)
	}
}

func TestSeedP19_ShutdownDrainsAndAllItsCallersWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithSizing(shoal.Eager()))
		for range 10 {
			must(t, p.Submit(func() { time.Sleep(time.Second) }))
		}
		start := time.Now()
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				must(t, p.Shutdown(context.Background()))
				if d := time.Since(start); d != 5*time.Second {
					t.Errorf("a Shutdown returned after %v, want 5s", d)
				}
			})
		}
		callers.Wait()
		if s := p.Stats(); s.Completed != 10 || s.Dropped != 0 {
			t.Errorf("completed %d, dropped %d, want 10, 0", s.Completed, s.Dropped)
		}
	})
}

func TestSeedP21_F23_StateSaysWhereThePoolStands(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1))
		want := func(s shoal.State) {
			t.Helper()
			synctest.Wait()
			if p.State() != s || p.Stats().State != s {
				t.Errorf("state %v, want %v", p.State(), s)
			}
		}
		want(shoal.Open)
		p.Pause()
		want(shoal.Paused)
		p.Resume()
		want(shoal.Open)
		release := hold(t, p, 1)
		want(shoal.Open)
		ended := inBackground(func() { must(t, p.Shutdown(context.Background())) })
		want(shoal.Draining)
		release()
		<-ended
		want(shoal.Closed)
	})
}

func TestSeedP22_PondsGaugesAndCountersAreInStats(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMinWorkers(2), shoal.WithMaxWorkers(4), shoal.WithSizing(shoal.Eager()),
			shoal.WithQueueCapacity(10), shoal.WithPanicHandler(func(*shoal.PanicError) {}))
		release := occupyEach(t, p, 4)
		must(t, p.Submit(func() { panic("failed") }))
		must(t, p.Submit(nothing))
		must(t, p.Submit(nothing))
		type gauges struct {
			running, idle, min, max, capacity, waiting    int
			submitted, successful, failed, completedTasks uint64
		}
		got := func() gauges {
			synctest.Wait()
			s := p.Stats()
			return gauges{s.Running, s.Idle, s.MinWorkers, s.MaxWorkers, s.QueueCapacity, s.Queued,
				s.Submitted, s.Completed - s.Failed, s.Failed, s.Completed}
		}
		if g, want := got(), (gauges{4, 0, 2, 4, 10, 3, 7, 0, 0, 0}); g != want {
			t.Errorf("busy: %+v, want %+v", g, want)
		}
		release()
		if g, want := got(), (gauges{3, 1, 2, 4, 10, 0, 7, 3, 1, 4}); g != want {
			t.Errorf("one released: %+v, want %+v", g, want)
		}
		for range 3 {
			release()
		}
		if g, want := got(), (gauges{0, 4, 2, 4, 10, 0, 7, 6, 1, 7}); g != want {
			t.Errorf("all released: %+v, want %+v", g, want)
		}
	})
}

// ----- Flock -----

func TestSeedF1_EveryInvalidOptionIsNamedAtOnce(t *testing.T) {
	_, err := shoal.New(shoal.WithMaxWorkers(0), shoal.WithMinWorkers(-1), shoal.WithQueueCapacity(-1),
		shoal.WithFullPolicy(9), shoal.WithIdleTimeout(-1), shoal.WithMaxTasksPerWorker(-1), shoal.WithSpin(-1),
		shoal.WithSizing(nil), shoal.WithContext(noContext), shoal.WithTiming(9))
	wantErr(t, "New", err, shoal.ErrConfig)
	for _, name := range strings.Fields("WithMaxWorkers WithMinWorkers WithQueueCapacity WithFullPolicy WithIdleTimeout " +
		"WithMaxTasksPerWorker WithSpin WithSizing WithContext WithTiming") {
		if err == nil || !strings.Contains(err.Error(), name+"(") {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestSeedF2_FixedWorkersAreThereFromTheStartToTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newHookLog()
		p := openPool(t, fixed(3, l.option(), shoal.WithIdleTimeout(time.Second))...)
		wantWorkers(t, p, 3)
		for range 100 {
			must(t, p.Submit(l.task))
			time.Sleep(time.Minute)
		}
		wantWorkers(t, p, 3)
		l.want(t, "after a hundred minutes", 3, 0)
		must(t, p.Close())
		l.check(t)
	})
}

// Flock has a queue per worker and a shared one behind them. What two tiers
// cannot promise, one queue does: any free worker takes the task that waits longest.
func TestSeedF4_WhicheverWorkerIsFreeTakesTheTaskThatWaitsLongest(t *testing.T) {
	const workers = 4
	p := openPool(t, fixed(workers)...)
	release := hold(t, p, workers-1) // one worker is left
	var order []int
	for i := range 1000 {
		must(t, p.Submit(func() { order = append(order, i) }))
	}
	done := make(chan struct{})
	must(t, p.Submit(func() { close(done) }))
	<-done
	if len(order) != 1000 || !slices.IsSorted(order) {
		t.Errorf("%d of 1000 tasks ran on the free worker, in order: %t", len(order), slices.IsSorted(order))
	}
	release()
}

func TestSeedF6_RejectReturnsAnErrorWhileFull(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.Reject))
	release := hold(t, p, 1)
	must(t, p.Submit(nothing))
	must(t, p.Submit(nothing))
	wantErr(t, "Submit", p.Submit(nothing), shoal.ErrQueueFull)
	wantErr(t, "SubmitContext", p.SubmitContext(t.Context(), func(context.Context) {}), shoal.ErrQueueFull)
	wantErr(t, "SubmitWait", p.SubmitWait(t.Context(), func(context.Context) error { return nil }), shoal.ErrQueueFull)
	n, err := p.SubmitBatch([]func(){nothing})
	wantErr(t, "SubmitBatch", err, shoal.ErrQueueFull)
	if s := p.Stats(); n != 0 || s.Rejected != 4 || s.Submitted != 3 {
		t.Errorf("%d of the batch accepted, rejected %d, submitted %d; want 0, 4, 3", n, s.Rejected, s.Submitted)
	}
	release()
}

func TestSeedF7_SpawnRunsOnANewGoroutineWhileFull(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
	var worker, spawned atomic.Int64
	release := hold(t, p, 1)
	done := make(chan struct{})
	must(t, p.Submit(func() { spawned.Store(selfID()); close(done) }))
	<-done // while the only worker is busy
	release()
	p.Wait()
	must(t, p.SubmitWait(t.Context(), func(context.Context) error { worker.Store(selfID()); return nil }))
	if spawned.Load() == worker.Load() || spawned.Load() == selfID() {
		t.Error("the task ran on the worker, or on the caller")
	}
	if s := p.Stats(); s.Spawned != 1 || s.PeakWorkers != 1 {
		t.Errorf("spawned %d, peak %d workers, want 1, 1", s.Spawned, s.PeakWorkers)
	}
}

func TestSeedF13_SubmitAndItsErrors(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))
	wantErr(t, "nil task", p.Submit(nil), shoal.ErrNilTask)
	release := hold(t, p, 1)
	wantErr(t, "full", p.Submit(nothing), shoal.ErrQueueFull)
	release()
	p.Wait()
	must(t, p.Submit(nothing))
	must(t, p.Shutdown(t.Context()))
	wantErr(t, "after Shutdown", p.Submit(nothing), shoal.ErrClosed)
	wantErr(t, "nil task after Shutdown", p.Submit(nil), shoal.ErrNilTask)
	if s := p.Stats(); s.Submitted != 2 || s.Rejected != 1 {
		t.Errorf("submitted %d, rejected %d, want 2, 1", s.Submitted, s.Rejected)
	}
}

func TestSeedF19_WaitAlsoForTasksThatTasksSubmitted(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(3))
	var leaves atomic.Int32
	var grow func(depth int) func()
	grow = func(depth int) func() {
		return func() {
			if depth == 0 {
				leaves.Add(1)
				return
			}
			for range 2 {
				if err := p.Submit(grow(depth - 1)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for range 5 {
		leaves.Store(0)
		must(t, p.Submit(grow(10)))
		p.Wait()
		if n := leaves.Load(); n != 1<<10 {
			t.Errorf("Wait returned after %d of %d leaves", n, 1<<10)
		}
	}
}

func TestSeedF20_GracefulShutdownRunsAllThatWasAccepted(t *testing.T) {
	for _, policy := range allPolicies {
		p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithFullPolicy(policy))
		y := newTally(2000)
		for i := range 2000 {
			must(t, p.Submit(y.task(i)))
		}
		must(t, p.Shutdown(t.Context()))
		y.check(t)
	}
}

func TestSeedF22_EndingTwiceIsEndingOnce(t *testing.T) {
	for _, ends := range [][2]func(*shoal.Pool) error{
		{shutdown, shutdown}, {(*shoal.Pool).Close, (*shoal.Pool).Close},
		{shutdown, (*shoal.Pool).Close}, {(*shoal.Pool).Close, shutdown},
	} {
		p := openPool(t)
		must(t, p.Submit(nothing))
		p.Wait()
		before := p.Stats().Completed
		must(t, ends[0](p))
		must(t, ends[1](p))
		if s := p.Stats(); s.State != shoal.Closed || s.Completed != before || s.Dropped != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func shutdown(p *shoal.Pool) error { return p.Shutdown(context.Background()) }

// A guide to tuning tells what to read in Stats. These are the readings of a
// pool that is too small, and of one that is not.
func TestSeedF34_StatsTellAPoolThatIsTooSmall(t *testing.T) {
	load := func(workers int) shoal.Stats {
		var s shoal.Stats
		inBubble(t, func(t *testing.T) {
			p := openPool(t, shoal.WithMaxWorkers(workers), shoal.WithSizing(shoal.Eager()), shoal.WithQueueCapacity(10),
				shoal.WithFullPolicy(shoal.Reject), shoal.WithTiming(shoal.TimingFull))
			for range 15 {
				if err := p.Submit(func() { time.Sleep(time.Second) }); err != nil && !errors.Is(err, shoal.ErrQueueFull) {
					t.Error(err)
				}
				synctest.Wait()
			}
			depth := p.Stats().Queued
			p.Wait()
			synctest.Wait()
			s = p.Stats()
			s.Queued = depth
		})
		return s
	}
	small, enough := load(1), load(15)
	if small.QueueFill() != 1 || small.Rejected != 4 || small.WaitTime.Mean() != 5*time.Second || small.RunTime.Mean() != time.Second {
		t.Errorf("too small: queue fill %v, rejected %d, waits %v, runs %v; want 1, 4, 5s, 1s",
			small.QueueFill(), small.Rejected, small.WaitTime.Mean(), small.RunTime.Mean())
	}
	if enough.QueueFill() != 0 || enough.Rejected != 0 || enough.WaitTime.Max() != 0 || enough.PeakWorkers != 15 {
		t.Errorf("large enough: queue fill %v, rejected %d, waits up to %v, peak %d; want 0, 0, 0s, 15",
			enough.QueueFill(), enough.Rejected, enough.WaitTime.Max(), enough.PeakWorkers)
	}
}

// ----- taskgo -----

// grownStack runs a task that needs a deep stack, and reports whether the
// stack had to grow for it: then it has moved.
//
//go:noinline
func grownStack() bool {
	var here int
	before := uintptr(unsafe.Pointer(&here))
	deep(5000)
	return uintptr(unsafe.Pointer(&here)) != before
}

//go:noinline
func deep(n int) int {
	var pad [16]int
	if n == 0 {
		return 0
	}
	pad[n%16] = deep(n - 1)
	return pad[n%16] + 1
}

func TestSeedT3_AParkedWorkerIsUsedAgainWithItsGrownStack(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector shrinks stacks
	inBubble(t, func(t *testing.T) {
		for _, c := range []struct {
			idle  time.Duration
			reuse bool
		}{{2 * time.Second, true}, {500 * time.Millisecond, false}, {0, false}} {
			p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithIdleTimeout(c.idle))
			var first int64
			grown := 0
			for i := range 10 { // a burst a second
				var id int64
				must(t, p.SubmitWait(t.Context(), func(context.Context) error {
					id = selfID()
					if grownStack() {
						grown++
					}
					return nil
				}))
				if i == 0 {
					first = id
				}
				if (id == first) != (i == 0 || c.reuse) {
					t.Errorf("idle timeout %v, burst %d: on the first worker: %t", c.idle, i, id == first)
				}
				time.Sleep(time.Second)
				synctest.Wait()
			}
			// The runtime may have put off a shrink from a collection before.
			if c.reuse && grown != 1 && grown != 2 || !c.reuse && grown != 10 {
				t.Errorf("idle timeout %v: the stack grew in %d of ten bursts", c.idle, grown)
			}
		}
	})
}

func TestSeedT7_AnUnboundedQueueTakesAllThereIs(t *testing.T) {
	const n = 300_000
	p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(shoal.Unbounded), shoal.WithFullPolicy(shoal.Reject))
	release := hold(t, p, 1)
	ran := 0
	for range n {
		must(t, p.Submit(func() { ran++ }))
	}
	if s := p.Stats(); p.Queued() != n || s.Queued != n || s.QueueCapacity != math.MaxInt || s.QueueFill() != 0 {
		t.Errorf("Queued() = %d, queued %d of %d, queue fill %v", p.Queued(), s.Queued, s.QueueCapacity, s.QueueFill())
	}
	release()
	p.Wait()
	if ran != n {
		t.Errorf("%d of %d tasks ran", ran, n)
	}
}

func TestSeedT8_LastParkedWorkerFirstThenANewOneThenTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(4), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(shoal.Forever))
		gate := make(chan struct{})
		var parked []int64 // goroutines, in the order in which they parked
		for range 3 {
			must(t, p.Submit(func() { <-gate; parked = append(parked, selfID()) }))
		}
		for range 3 {
			synctest.Wait()
			gate <- struct{}{}
		}
		synctest.Wait()
		var used []int64
		hot := make(chan struct{})
		for range 5 {
			must(t, p.Submit(func() { used = append(used, selfID()); <-hot }))
			synctest.Wait()
		}
		slices.Reverse(parked)
		if len(used) != 4 || !slices.Equal(used[:3], parked) || slices.Contains(parked, used[3]) {
			t.Errorf("tasks ran on %v, want %v and then a new worker", used, parked)
		}
		if s := p.Stats(); s.Workers != 4 || p.Queued() != 1 {
			t.Errorf("%d workers, %d queued, want 4, 1", s.Workers, p.Queued())
		}
		close(hot)
	})
}

// With a backlog and every worker busy, or one on its way, Submit wakes no worker:
// the workers come back by themselves.
func TestSeedT9_SubmitWakesNobodyWhileThereIsABacklog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newHookLog()
		p := openPool(t, shoal.WithMaxWorkers(8), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(shoal.Forever), l.option())
		hold(t, p, 8)()
		synctest.Wait() // eight are parked
		must(t, p.Resize(0, 2))
		synctest.Wait() // two are
		release := hold(t, p, 2)
		ran := map[int64]int{}
		var mu sync.Mutex
		for range 1000 {
			must(t, p.Submit(func() { mu.Lock(); ran[selfID()]++; mu.Unlock() }))
		}
		synctest.Wait()
		l.want(t, "with a backlog", 8, 6)
		if s := p.Stats(); s.Workers != 2 || s.Queued != 1000 {
			t.Errorf("%d workers, %d queued, want 2, 1000", s.Workers, s.Queued)
		}
		release()
		p.Wait()
		l.want(t, "after it", 8, 6)
		total := 0
		for _, n := range ran {
			total += n
		}
		if total != 1000 || len(ran) > 2 {
			t.Errorf("%d tasks ran, on %d workers; want 1000, on at most 2", total, len(ran))
		}
		must(t, p.Close())
		l.check(t)
	})
}

func TestSeedT11_WorkersAreReclaimedByIdlenessAndByTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newHookLog()
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithIdleTimeout(time.Minute), shoal.WithMaxTasksPerWorker(3), l.option())
		for i, c := range []struct {
			rest          time.Duration
			starts, stops int
		}{
			{0, 1, 0}, {time.Minute - 1, 1, 0}, {0, 1, 1}, // the third task of its life
			{0, 2, 1}, {time.Minute, 2, 2}, // idle
			{0, 3, 2}, {0, 3, 2}, {time.Hour, 3, 3}, // both
		} {
			must(t, p.Submit(l.task))
			time.Sleep(c.rest)
			synctest.Wait()
			if starts, stops := l.counts(); starts != c.starts || stops != c.stops {
				t.Errorf("task %d: %d workers started, %d stopped, want %d, %d", i, starts, stops, c.starts, c.stops)
			}
		}
		must(t, p.Close())
		l.check(t)
	})
}

// What taskgo's guide says about its two knobs, in workers started for ten
// bursts of four tasks, a second apart.
func TestSeedT14_IdleTimeoutBeyondTheBurstIntervalSavesWorkers(t *testing.T) {
	for _, c := range []struct {
		idle      time.Duration
		tasks     int
		started   int
		rationale string
	}{
		{2 * time.Second, 0, 4, "they outlive the pause"},
		{500 * time.Millisecond, 0, 40, "they expire in the pause"},
		{0, 0, 40, "they leave at once"},
		{2 * time.Second, 5, 8, "they are replaced after five bursts"},
		{shoal.Forever, 1000, 4, "a large number of tasks is never reached"},
	} {
		inBubble(t, func(t *testing.T) {
			l := newHookLog()
			p := openPool(t, shoal.WithMaxWorkers(4), shoal.WithSizing(shoal.Eager()),
				shoal.WithIdleTimeout(c.idle), shoal.WithMaxTasksPerWorker(c.tasks), l.option())
			for range 10 {
				hold(t, p, 4)()
				time.Sleep(time.Second)
				synctest.Wait()
			}
			// A worker that comes too late for the task it was started for waits
			// for the next one, if it may wait.
			starts, _ := l.counts()
			if starts < c.started || starts > c.started && c.idle > 0 {
				t.Errorf("idle timeout %v, %d tasks a worker: %d workers started, want %d: %s", c.idle, c.tasks, starts, c.started, c.rationale)
			}
		})
	}
}
