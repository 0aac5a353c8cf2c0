package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/again"
)

// A hookLog has hooks that check each other, and tasks that check the hooks.
type hookLog struct {
	mu      sync.Mutex
	live    map[int]int64  // goroutine, by worker id
	ran     map[int64]int  // tasks, by goroutine
	stopped map[int64]bool // goroutines whose stop hook was called
	faults  []string       // what went wrong
	starts  int
	stops   int
	most    int // workers between start and stop, at once
}

func newHookLog() *hookLog {
	return &hookLog{live: map[int]int64{}, ran: map[int64]int{}, stopped: map[int64]bool{}}
}

func (l *hookLog) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *hookLog) start(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g, ok := l.live[id]; ok {
		l.fault("worker %d started on goroutine %d while one with that id lives on %d", id, selfID(), g)
	}
	if l.ran[selfID()] > 0 {
		l.fault("the start hook of worker %d came after a task", id)
	}
	l.live[id] = selfID()
	l.starts++
	l.most = max(l.most, len(l.live))
}

func (l *hookLog) stop(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g, ok := l.live[id]; !ok || g != selfID() {
		l.fault("worker %d stopped on goroutine %d, but started on %d (%t)", id, selfID(), g, ok)
	}
	delete(l.live, id)
	l.stopped[selfID()] = true
	l.stops++
}

// task notes that a task runs on the calling goroutine, which must be between
// its hooks.
func (l *hookLog) task() {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := selfID()
	if l.stopped[g] {
		l.fault("a task came after the stop hook")
	}
	for _, w := range l.live {
		if w == g {
			l.ran[g]++
			return
		}
	}
	l.fault("a task ran on a goroutine whose start hook was not called")
}

// counts are how often the hooks were called.
func (l *hookLog) counts() (starts, stops int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts, l.stops
}

func (l *hookLog) want(t testing.TB, when string, starts, stops int) {
	t.Helper()
	if gotStarts, gotStops := l.counts(); gotStarts != starts || gotStops != stops {
		t.Errorf("%s: %d starts, %d stops; want %d, %d", when, gotStarts, gotStops, starts, stops)
	}
}

// check fails the test unless hooks and tasks were called in their order. All
// workers must be gone.
func (l *hookLog) check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error(f)
	}
	if l.starts != l.stops || len(l.live) != 0 {
		t.Errorf("%d starts, %d stops, live %v", l.starts, l.stops, l.live)
	}
	if l.starts == 0 {
		t.Error("the hooks were not called")
	}
}

func (l *hookLog) option() shoal.Option { return shoal.WithWorkerHooks(l.start, l.stop) }

func TestHooksArePairedOnEveryExit(t *testing.T) {
	quiet := shoal.WithPanicHandler(func(*shoal.PanicError) {})
	for name, c := range map[string]struct {
		opts []shoal.Option
		run  func(t *testing.T, p *shoal.Pool, l *hookLog) // in a bubble
	}{
		"idle timeout": {[]shoal.Option{shoal.WithIdleTimeout(time.Second)}, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			hold(t, p, 4)()
			time.Sleep(time.Second - 1)
			synctest.Wait()
			l.want(t, "just before the timeout", 4, 0)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			l.want(t, "at the timeout", 4, 4)
		}},
		"idle timeout zero": {[]shoal.Option{shoal.WithIdleTimeout(0)}, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			hold(t, p, 4)()
			synctest.Wait()
			l.want(t, "when the queue is empty", 4, 4)
		}},
		"tasks per worker": {[]shoal.Option{shoal.WithMaxTasksPerWorker(1)}, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			for range 10 {
				must(t, p.Submit(l.task))
			}
			synctest.Wait()
			if starts, stops := l.counts(); stops != 10 || starts < 10 || starts > 13 { // some may have come too late for a task
				t.Errorf("after ten tasks, one each: %d starts, %d stops; want 10, and perhaps some idle", starts, stops)
			}
		}},
		"Goexit": {nil, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			for range 5 {
				must(t, p.Submit(func() { l.task(); runtime.Goexit() }))
				synctest.Wait()
			}
			l.want(t, "after five times Goexit", 5, 5)
		}},
		"panic": {nil, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			for range 5 {
				must(t, p.Submit(func() { l.task(); panic("the worker stays") }))
				synctest.Wait()
			}
			l.want(t, "after five panics", 1, 0)
		}},
		"Resize of parked workers": {nil, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			hold(t, p, 4)()
			synctest.Wait()
			must(t, p.Resize(0, 1))
			synctest.Wait()
			l.want(t, "after Resize", 4, 3)
		}},
		"Resize of busy workers": {nil, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			release := occupyEach(t, p, 4)
			must(t, p.Resize(0, 1))
			for i := range 3 {
				l.want(t, "as tasks end", 4, i)
				release()
				synctest.Wait()
			}
			l.want(t, "as tasks end", 4, 3)
			release()
			synctest.Wait()
			l.want(t, "the last one stays", 4, 3)
		}},
		"Resize up": {nil, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			must(t, p.Resize(3, 4))
			synctest.Wait()
			l.want(t, "after Resize", 3, 0)
		}},
		"Shutdown of busy workers": {nil, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			release := hold(t, p, 4)
			ended := inBackground(func() { must(t, p.Shutdown(context.Background())) })
			synctest.Wait()
			l.want(t, "while tasks run", 4, 0)
			release()
			<-ended
			l.want(t, "after Shutdown", 4, 4)
		}},
		"Close of parked workers": {[]shoal.Option{shoal.WithMinWorkers(4)}, func(t *testing.T, p *shoal.Pool, l *hookLog) {
			synctest.Wait()
			l.want(t, "workers without a task", 4, 0)
			must(t, p.Close())
			l.want(t, "after Close", 4, 4)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newHookLog()
				p := openPool(t, append([]shoal.Option{shoal.WithMaxWorkers(4), shoal.WithSizing(shoal.Eager()),
					shoal.WithIdleTimeout(shoal.Forever), l.option(), quiet}, c.opts...)...)
				c.run(t, p, l)
				must(t, p.Close())
				l.check(t)
			})
		})
	}
}

func TestHooksArePairedInAStorm(t *testing.T) {
	for _, policy := range allPolicies {
		t.Run(policy.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const maxWorkers = 5
				l := newHookLog()
				s := openStorm(t, policy, maxWorkers, 8, l.option(), shoal.WithMaxTasksPerWorker(3))
				s.rage(4, 300, maxWorkers)
				must(t, s.p.Shutdown(context.Background()))
				l.check(t)
				if l.most > maxWorkers {
					t.Errorf("%d workers at once between their hooks, the maximum is %d", l.most, maxWorkers)
				}
			})
		})
	}
}

func TestTasksRunBetweenTheHooksOfTheirWorker(t *testing.T) {
	l := newHookLog()
	p := openPool(t, shoal.WithMaxWorkers(4), shoal.WithMaxTasksPerWorker(50), shoal.WithIdleTimeout(0), l.option())
	for i := range 4000 {
		must(t, p.Submit(func() {
			l.task()
			if i%97 == 0 {
				runtime.Goexit()
			}
		}))
		if i%100 == 0 {
			p.Wait()
		}
	}
	must(t, p.Shutdown(t.Context()))
	l.check(t)
	if l.most > 4 {
		t.Errorf("%d workers at once between their hooks, the maximum is 4", l.most)
	}
}

func TestHookIDsAreBelowTheMaximumAndReused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var ids []int
		var mu sync.Mutex
		p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithSizing(shoal.Eager()), shoal.WithIdleTimeout(0),
			shoal.WithWorkerHooks(func(id int) { mu.Lock(); ids = append(ids, id); mu.Unlock() }, nil))
		for range 10 {
			hold(t, p, 3)()
			wantWorkers(t, p, 0)
		}
		if len(ids) < 30 { // one may come for a task that another has taken
			t.Fatalf("%d starts, want 30", len(ids))
		}
		for _, id := range ids {
			if id < 0 || id > 2 {
				t.Errorf("a worker of three had the id %d", id)
			}
		}
	})
}

func TestHookIDsAreThoseOfWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newHookLog()
		p := openPool(t, shoal.WithMinWorkers(3), shoal.WithMaxWorkers(3), l.option())
		synctest.Wait()
		ids := workerIDs(p)
		if len(ids) != 3 {
			t.Errorf("Workers has %v, want three", ids)
		}
		for _, id := range ids {
			if l.live[id] == 0 {
				t.Errorf("Workers has id %d, the hooks have %v", id, l.live)
			}
		}
		if len(l.live) != 3 {
			t.Errorf("hooks were called for %v, want three workers", l.live)
		}
	})
}

// A start hook that takes long holds up its own worker, not those that are
// ready.
func TestSlowStartHookHoldsUpItsOwnWorkerOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		start := time.Now()
		p := openPool(t, shoal.WithMaxWorkers(4), shoal.WithSizing(shoal.Eager()),
			shoal.WithWorkerHooks(func(id int) { time.Sleep(time.Duration(id) * time.Minute) }, nil))
		var slowest time.Duration
		for range 50 { // worker 0 is ready at once
			must(t, p.Submit(func() { slowest = max(slowest, time.Since(start)) }))
		}
		synctest.Wait()
		if s := p.Stats(); s.Completed != 50 || slowest != 0 {
			t.Errorf("%d of 50 tasks ran, the last after %v", s.Completed, slowest)
		}
		must(t, p.Shutdown(context.Background()))
	})
}

// A start hook holds up its own worker only, also if each other task is in a sub-pool of its own,
// wherever that is in the family.
func TestStartHookHoldsUpNoOtherWorkerForSubPools(t *testing.T) {
	for depth := range 3 {
		inBubble(t, func(t *testing.T) {
			gate := make(chan struct{})
			var first, ran atomic.Int64
			p := openPool(t, shoal.WithMaxWorkers(8), shoal.WithWorkerHooks(func(int) {
				if first.Add(1) == 1 {
					<-gate
				}
			}, nil))
			up := p
			for range depth {
				up = newSub(t, up)
			}
			for range 4 {
				must(t, newSub(t, up).Submit(func() { ran.Add(1) }))
			}
			synctest.Wait()
			if n := ran.Load(); n != 4 {
				t.Errorf("sub-pools at depth %d: %d of 4 tasks ran beside a start hook", depth+1, n)
			}
			close(gate)
			must(t, p.Shutdown(context.Background()))
		})
	}
}

// The tasks of all sub-pools count: two start hooks hold up two workers, and not those for the other tasks.
func TestStartHookHoldsUpNoOtherWorkerForSubPoolsWithManyTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		var first, ran atomic.Int64
		p := openPool(t, shoal.WithMaxWorkers(8), shoal.WithWorkerHooks(func(int) {
			if first.Add(1) <= 2 {
				<-gate
			}
		}, nil))
		a, b := newSub(t, p), newSub(t, p)
		must(t, a.Submit(func() { ran.Add(1) }))
		for range 5 {
			must(t, b.Submit(func() { ran.Add(1) }))
		}
		synctest.Wait()
		if n := ran.Load(); n != 6 {
			t.Errorf("%d of 6 tasks ran beside two start hooks", n)
		}
		close(gate)
		must(t, p.Shutdown(context.Background()))
	})
}

// A Shutdown that returns nil has left no goroutine behind, not even one in a
// stop hook.
func TestShutdownIsNotCleanWhileAStopHookRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := openPool(t, shoal.WithMinWorkers(1), shoal.WithMaxWorkers(1), shoal.WithWorkerHooks(nil, func(int) { <-gate }))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := p.Shutdown(ctx)
		if err == nil && !isClosed(p.Done()) {
			t.Error("Shutdown returned nil, but a worker is in its stop hook")
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown = %v, want deadline exceeded", err)
		}
		close(gate)
		<-p.Done()
	})
}

func TestMaxTasksPerWorkerIsExactOverALifeAcrossParks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 7
		l := newHookLog()
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithMaxTasksPerWorker(n), shoal.WithIdleTimeout(shoal.Forever), l.option())
		for i := range 10 * n { // parked before each
			synctest.Wait()
			l.want(t, fmt.Sprintf("before task %d", i), (i+n-1)/n, i/n)
			must(t, p.Submit(l.task))
		}
		must(t, p.Shutdown(context.Background()))
		l.check(t)
		for g, ran := range l.ran {
			if ran != n {
				t.Errorf("the worker on goroutine %d ran %d tasks, want %d", g, ran, n)
			}
		}
	})
}

func TestMaxTasksPerWorkerIsExactUnderABacklogOfEveryEnd(t *testing.T) {
	for _, n := range []int{1, 2, 63, 64, 65, 1000} {
		t.Run(fmt.Sprint("n=", n), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newHookLog()
				p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithMaxTasksPerWorker(n), shoal.WithIdleTimeout(shoal.Forever),
					l.option(), shoal.WithPanicHandler(func(*shoal.PanicError) {}))
				total := 3*n + n/2
				p.Pause()
				for i := range total {
					switch i % 3 {
					case 0:
						must(t, p.Submit(l.task))
					case 1:
						must(t, p.Submit(func() { l.task(); panic("a task like any other") }))
					case 2:
						must(t, p.SubmitContext(t.Context(), func(context.Context) { l.task() }))
					}
				}
				p.Resume()
				p.Wait()
				synctest.Wait()
				full, rest := 0, 0
				for _, ran := range l.ran {
					if ran == n {
						full++
					} else {
						rest += ran
					}
				}
				if full != total/n || rest != total%n {
					t.Errorf("%d workers ran %d tasks each, one %d; want %d, %d", full, n, rest, total/n, total%n)
				}
				must(t, p.Close())
				l.check(t)
			})
		})
	}
}

// The worker that is replaced is gone before the next one starts: the maximum
// holds from start hook to stop hook.
func TestReplacedWorkersNeverExceedTheMaximum(t *testing.T) {
	l := newHookLog()
	p := openPool(t, shoal.WithMaxWorkers(3), shoal.WithMaxTasksPerWorker(1), l.option())
	m := startSampler(p, 3)
	for range 5000 {
		must(t, p.Submit(func() {}))
	}
	p.Wait()
	m.check(t)
	must(t, p.Close())
	l.check(t)
	if l.most > 3 || l.starts < 5000 || l.starts > 5003 {
		t.Errorf("%d workers at once, %d in all; want at most 3, and one for each of 5000 tasks", l.most, l.starts)
	}
}

func TestThreadPinningLocksWorkersToTheirThreads(t *testing.T) {
	locked := func() bool {
		b := make([]byte, 1<<10)
		head, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), "\n")
		return strings.Contains(head, "locked to thread")
	}
	for _, pinned := range []bool{true, false} {
		opts := []shoal.Option{shoal.WithMaxWorkers(4)}
		var hookLocked atomic.Int32
		if pinned {
			opts = append(opts, shoal.WithThreadPinning())
		}
		opts = append(opts, shoal.WithWorkerHooks(
			func(int) {
				if locked() {
					hookLocked.Add(1)
				}
			}, nil))
		p := openPool(t, opts...)
		hold(t, p, 4)()
		for range 100 {
			got := false
			must(t, p.SubmitWait(t.Context(), func(context.Context) error { got = locked(); return nil }))
			if got != pinned {
				t.Fatalf("pinned %t, but a task runs locked to its thread: %t", pinned, got)
			}
		}
		must(t, p.Close())
		if want := map[bool]int32{true: 4}[pinned]; hookLocked.Load() < want || !pinned && hookLocked.Load() != 0 {
			t.Errorf("pinned %t, but %d start hooks ran locked to their thread", pinned, hookLocked.Load())
		}
	}
}

func TestNameIsInThePprofLabelsOfWorkersAndSpawnedGoroutines(t *testing.T) {
	labelled := func(name string) bool {
		var b bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
			t.Error(err)
		}
		return strings.Contains(b.String(), fmt.Sprintf("labels: {%q:%q}", "pool", name))
	}
	p := openPool(t, shoal.WithName("labelled worker"), shoal.WithMaxWorkers(1))
	release := hold(t, p, 1)
	if !labelled("labelled worker") {
		t.Error("no goroutine has the pool's name")
	}
	release()
	must(t, p.Close())
	if labelled("labelled worker") {
		t.Error("a goroutine has the name of a pool that is closed")
	}

	p = openPool(t, shoal.WithName("labelled spawn"), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
	release = hold(t, p, 1)
	must(t, p.Resize(0, 1))
	releaseSpawned := hold(t, p, 1)
	release()
	for p.Stats().Running != 0 { // the worker is done, the spawned goroutine is not
		runtime.Gosched()
	}
	if !labelled("labelled spawn") {
		t.Error("no spawned goroutine has the pool's name")
	}
	releaseSpawned()
}

func TestNameIsInStatsAndErrors(t *testing.T) {
	var got *shoal.PanicError
	p := openPool(t, shoal.WithName("mailer"), shoal.WithPanicHandler(func(e *shoal.PanicError) { got = e }))
	err := p.SubmitWait(t.Context(), func(context.Context) error { panic("boom") })
	var pe *shoal.PanicError
	if !errors.As(err, &pe) || pe != got || pe.Pool != "mailer" || pe.Error() != `shoal: task of pool "mailer" panicked: boom` {
		t.Errorf("SubmitWait = %v", err)
	}
	if s := p.Stats(); s.Name != "mailer" {
		t.Errorf("Stats.Name = %q", s.Name)
	}
	if e := (&shoal.PanicError{Value: 7}).Error(); e != "shoal: task panicked: 7" {
		t.Errorf("without a name: %q", e)
	}
}

// explode is a name to find in a stack.
//
//go:noinline
func explode(value any) { panic(value) }

func TestPanicHandlerGetsEveryPanicWithItsStackOnItsGoroutineBeforeItCounts(t *testing.T) {
	values := []any{"text", 42, errors.New("error"), fmt.Errorf("wrapped: %w", io.EOF), struct{ a int }{1}, nil}
	var p *shoal.Pool
	var task int64
	var handled []*shoal.PanicError
	p = openPool(t, shoal.WithMaxWorkers(1), shoal.WithPanicHandler(func(e *shoal.PanicError) {
		if selfID() != task {
			t.Error("the handler was called on another goroutine")
		}
		if s := p.Stats(); s.Failed != uint64(len(handled)) || s.Completed != uint64(len(handled)) || s.InFlight != 1 {
			t.Errorf("in the handler, after %d: failed %d, completed %d, in flight %d", len(handled), s.Failed, s.Completed, s.InFlight)
		}
		handled = append(handled, e)
	}))
	worker := int64(0)
	for i, v := range values {
		must(t, p.Submit(func() { task = selfID(); explode(v) }))
		p.Wait()
		if len(handled) != i+1 {
			t.Fatalf("%d panics handled after %d", len(handled), i+1)
		}
		if worker != 0 && task != worker {
			t.Error("the worker did not survive the panic")
		}
		worker = task
		e := handled[i]
		if !strings.Contains(string(e.Stack), "tests.explode(") {
			t.Errorf("the stack does not show where it panicked:\n%s", e.Stack)
		}
		if nilError := new(runtime.PanicNilError); v == nil && !errors.As(e, &nilError) || v != nil && e.Value != v {
			t.Errorf("value %v, want %v", e.Value, v)
		}
		if want, ok := v.(error); ok && !errors.Is(e, want) || !ok && v != nil && e.Unwrap() != nil {
			t.Errorf("value %v unwraps to %v", v, e.Unwrap())
		}
	}
	if !errors.Is(handled[3], io.EOF) {
		t.Error("a wrapped error is not found")
	}
	if s := p.Stats(); s.Failed != uint64(len(values)) || s.Completed != s.Failed {
		t.Errorf("failed %d, completed %d, want %d", s.Failed, s.Completed, len(values))
	}
}

func TestPanicHandlerIsCalledOnWhateverGoroutineRunsTheTask(t *testing.T) {
	var handled atomic.Int32
	handler := shoal.WithPanicHandler(func(*shoal.PanicError) { handled.Add(1) })
	for _, policy := range []shoal.FullPolicy{shoal.Spawn, shoal.CallerRuns} {
		handled.Store(0)
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy), handler)
		release := hold(t, p, 1)
		must(t, p.Submit(func() { panic("outside") }))
		release()
		must(t, p.Shutdown(t.Context()))
		if s := p.Stats(); handled.Load() != 1 || s.Failed != 1 || s.Completed != 2 {
			t.Errorf("%v: handled %d, failed %d, completed %d; want 1, 1, 2", policy, handled.Load(), s.Failed, s.Completed)
		}
	}
}

func TestPanicWithoutAHandlerIsLoggedOnceWithItsStack(t *testing.T) {
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(old)
	for _, opts := range [][]shoal.Option{{shoal.WithName("logged")}, {shoal.WithName("logged"), shoal.WithPanicHandler(nil)}} {
		log.Reset()
		p := openPool(t, opts...)
		must(t, p.Submit(func() { explode("logged") }))
		must(t, p.Shutdown(t.Context()))
		text := log.String()
		if strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, `of pool \"logged\" panicked: logged`) ||
			!strings.Contains(text, "tests.explode(") {
			t.Errorf("logged:\n%s", text)
		}
	}
}

// A panic that is returned is not logged; a handler gets every one.
func TestPanicThatIsReturnedIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	ctx := t.Context()
	fail := func(context.Context) error { explode("returned"); return nil }
	result := func(context.Context) (int, error) { explode("returned"); return 0, nil }
	for name, c := range map[string]struct {
		run    func(p *shoal.Pool) error
		logged int // of its panics
		all    int
	}{
		"SubmitWait": {run: func(p *shoal.Pool) error { return p.SubmitWait(ctx, fail) }, all: 1},
		"Future": {run: func(p *shoal.Pool) error {
			_, err := shoal.Go(ctx, p, result).Wait(ctx)
			return err
		}, all: 1},
		"Map": {run: func(p *shoal.Pool) (err error) {
			for _, err = range shoal.Map(ctx, p, upTo(2), func(ctx context.Context, _ int) (int, error) { return result(ctx) }) {
			}
			return err
		}, all: 2},
		"ForEach": {run: func(p *shoal.Pool) error {
			return shoal.ForEach(ctx, p, upTo(2), func(ctx context.Context, _ int) error { return fail(ctx) })
		}, all: 2},
		"Group": {run: func(p *shoal.Pool) error {
			g := p.Group(ctx)
			g.Go(fail)
			return g.Wait()
		}, all: 1},
		"Group, the second": {run: func(p *shoal.Pool) error {
			g := p.Group(ctx)
			began, gate := make(chan struct{}), make(chan struct{})
			g.Go(func(ctx context.Context) error { close(began); <-gate; return fail(ctx) })
			<-began
			g.Go(func(ctx context.Context) error { defer close(gate); return fail(ctx) })
			return g.Wait()
		}, logged: 1, all: 2},
		"Group, all": {run: func(p *shoal.Pool) error {
			g := p.Group(ctx, shoal.CollectErrors())
			g.Go(fail)
			g.Go(fail)
			return g.Wait()
		}, all: 2},
		"Range": {run: func(p *shoal.Pool) error {
			return shoal.Range(ctx, p, 1, func(ctx context.Context, _, _ int) error { return fail(ctx) })
		}, all: 1},
		"a task that its waiter runs": {run: func(p *shoal.Pool) error {
			return p.SubmitWait(ctx, func(ctx context.Context) error { return p.SubmitWait(ctx, fail) })
		}, all: 1},
		"SubmitContext": {run: func(p *shoal.Pool) error {
			must(t, p.SubmitContext(ctx, func(ctx context.Context) { fail(ctx) }))
			return &shoal.PanicError{}
		}, logged: 1, all: 1},
		"Keyed": {run: func(p *shoal.Pool) error {
			must(t, shoal.NewKeyed[int](p).Submit(1, func() { fail(ctx) }))
			return &shoal.PanicError{}
		}, logged: 1, all: 1},
	} {
		log.Reset()
		logger := shoal.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
		p := openPool(t, shoal.WithMaxWorkers(2), logger)
		if err := c.run(p); !errors.As(err, new(*shoal.PanicError)) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, p.Shutdown(ctx))
		if n := strings.Count(log.String(), "level=ERROR"); n != c.logged {
			t.Errorf("%s: logged %d times, want %d", name, n, c.logged)
		}
		log.Reset()
		var handled atomic.Int32
		p = openPool(t, shoal.WithMaxWorkers(2), logger, shoal.WithPanicHandler(func(*shoal.PanicError) { handled.Add(1) }))
		c.run(p)
		must(t, p.Shutdown(ctx))
		if n := int(handled.Load()); n != c.all || log.Len() > 0 {
			t.Errorf("%s: the handler got %d, want %d, and the log %q", name, n, c.all, log.String())
		}
	}
	p := openPool(t, shoal.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must(t, p.Submit(runtime.Goexit)) // is no panic
	must(t, p.Shutdown(ctx))
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
}

// stackTop is the name of a stack's first function, and its first line.
func stackTop(stack []byte) (head, name string) {
	lines := strings.SplitN(string(stack), "\n", 3)
	if len(lines) < 3 {
		return string(stack), ""
	}
	name, _, _ = strings.Cut(lines[1], "(0x")
	name, _, _ = strings.Cut(name, "({")
	return lines[0], strings.TrimSuffix(name, "(...)")
}

func TestStacksBeginAtTheFunctionThatPanicked(t *testing.T) {
	const here = "github.com/shoal-go/shoal/tests."
	var none map[int]int
	var nilPool *struct{ n [1 << 20]int }
	zero := len(none)
	for name, c := range map[string]struct {
		do   func()
		want string
	}{
		"panic":              {func() { explode("x") }, here + "explode"},
		"nil map":            {func() { writeTo(none) }, here + "writeTo"},
		"index out of range": {func() { _ = indexOf([]int{}, zero) }, here + "indexOf"},
		"slice bounds":       {func() { _ = sliceOf([]int{}, zero+1) }, here + "sliceOf"},
		"nil pointer":        {func() { _ = read(&nilPool.n[0]) }, here + "TestStacksBeginAtTheFunctionThatPanicked.func"},
		"nil pointer, read":  {func() { _ = read(nil) }, here + "read"},
		"division":           {func() { _ = divide(1, zero) }, here + "divide"},
		"type assertion":     {func() { _ = assertInt("x") }, here + "assertInt"},
		"in a defer after a panic": {func() {
			defer explode("second")
			panic("first")
		}, here + "explode"},
		"in a defer after Goexit": {func() {
			defer explode("second")
			runtime.Goexit()
		}, here + "explode"},
		"again": {func() {
			defer func() { explode(recover()) }()
			writeTo(none)
		}, here + "explode"},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(how string, stack []byte) {
				t.Helper()
				if head, top := stackTop(stack); !strings.HasPrefix(head, "goroutine ") || !strings.HasPrefix(top, c.want) {
					t.Errorf("%s: begins %q, %q, want %q\n%s", how, head, top, c.want, stack)
				}
			}
			var log bytes.Buffer
			var handled *shoal.PanicError
			p := openPool(t, fixed(1, shoal.WithPanicHandler(func(e *shoal.PanicError) { handled = e }))...)
			var e *shoal.PanicError
			task := func(context.Context) error { c.do(); return nil }
			if err := p.SubmitWait(t.Context(), task); !errors.As(err, &e) || e != handled {
				t.Fatalf("%v", err)
			}
			check("on a worker", e.Stack)
			// In a task that waits for it. (Goexit ends that too.)
			p.SubmitWait(t.Context(), func(ctx context.Context) error { return p.SubmitWait(ctx, task) })
			check("in a task", handled.Stack)
			var stack string
			p = openPool(t, fixed(1, shoal.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == "stack" {
						stack = a.Value.String()
					}
					return a
				},
			}))))...)
			must(t, p.Submit(c.do))
			must(t, p.Shutdown(t.Context()))
			check("in the log", []byte(stack))
		})
	}
}

//go:noinline
func writeTo(m map[int]int) { m[1] = 1 }

//go:noinline
func indexOf(s []int, i int) int { return s[i] }

//go:noinline
func sliceOf(s []int, i int) []int { return s[:i] }

//go:noinline
func read(n *int) int { return *n }

//go:noinline
func divide(a, b int) int { return a / b }

//go:noinline
func assertInt(v any) int { return v.(int) }

// A crash ends the process, so the test runs itself in another one.
const crashEnv = "SHOAL_TEST_CRASH"

// crashCommand runs the calling test again, alone, to crash in the given way.
func crashCommand(t *testing.T, kind string) *exec.Cmd {
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := again.Command("-test.run=^" + name + "$")
	cmd.Env = append(cmd.Env, crashEnv+"="+kind, "GOTRACEBACK=single")
	return cmd
}

// crash is what the other process does.
func crash(kind string) {
	opts := []shoal.Option{shoal.WithMaxWorkers(2), shoal.WithCrashOnPanic(),
		shoal.WithPanicHandler(func(*shoal.PanicError) { fmt.Println("the handler was called") })}
	if kind == "spawn" || kind == "caller" {
		opts = append(opts, shoal.WithQueueCapacity(0), shoal.WithMaxWorkers(1),
			shoal.WithFullPolicy(map[string]shoal.FullPolicy{"spawn": shoal.Spawn, "caller": shoal.CallerRuns}[kind]))
	}
	p := shoal.Must(shoal.New(opts...))
	if kind == "sub-pool" {
		p = shoal.Must(p.Sub())
	}
	started := make(chan struct{})
	if kind == "spawn" || kind == "caller" {
		p.Submit(func() { close(started); select {} })
		<-started
	}
	switch kind {
	case "task", "spawn", "caller", "sub-pool":
		p.Submit(func() { explode("crash of a " + kind) })
		select {}
	case "wait":
		p.SubmitWait(context.Background(), func(context.Context) error { explode("crash of a wait"); return nil })
		select {}
	case "after goexit":
		p.Submit(func() {
			defer explode("crash " + kind)
			runtime.Goexit()
		})
		select {}
	case "goexit": // is no panic
		p.Submit(func() { runtime.Goexit() })
		p.Wait()
		if s := p.Stats(); s.Failed == 1 && s.Completed == 1 && p.Close() == nil {
			fmt.Println("survived")
		}
	}
}

func TestCrashOnPanicPrintsTheTasksOwnStack(t *testing.T) {
	if kind := os.Getenv(crashEnv); kind != "" {
		go crash(kind)
		select {}
	}
	for _, kind := range []string{"task", "wait", "spawn", "caller", "sub-pool"} {
		t.Run(kind, func(t *testing.T) {
			cmd := crashCommand(t, kind)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("the process ended with %v, want status 2", err)
			}
			text := stderr.String()
			if !strings.Contains(text, "panic: crash of a "+kind) || !strings.Contains(text, "tests.explode(") {
				t.Errorf("it printed:\n%s", text)
			}
			if strings.Contains(text, "[recovered") || strings.Contains(stdout.String(), "handler") {
				t.Errorf("the panic was recovered on its way:\n%s%s", stdout.String(), text)
			}
		})
	}
}

// A panic of a function that runs because of runtime.Goexit is a panic.
func TestCrashOnPanicAfterGoexit(t *testing.T) {
	if kind := os.Getenv(crashEnv); kind != "" {
		crash(kind)
		return
	}
	wantCrash(t, "after goexit", "crash after goexit")
}

func TestCrashOnPanicLeavesGoexitAlone(t *testing.T) {
	if kind := os.Getenv(crashEnv); kind != "" {
		crash(kind)
		return
	}
	out, err := crashCommand(t, "goexit").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "survived\n") {
		t.Errorf("the process ended with %v:\n%s", err, out)
	}
}
