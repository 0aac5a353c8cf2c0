package shoal_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// This file asks what only the engine knows of itself, by export_test.go. What can be seen
// of a pool from outside is tested in folder tests.

// TestTasksSubmittedTogetherWakeAWorkerPerCPU: where nobody can begin yet, the
// first submitted tasks wake one worker each, up to the number of CPUs. (If
// only one were woken, it would wake the next when it runs, and the runtime
// would let another CPU have that one only late.)
func TestTasksSubmittedTogetherWakeAWorkerPerCPU(t *testing.T) {
	for _, c := range []struct{ cpus, tasks, want int }{{1, 3, 1}, {2, 1, 1}, {2, 2, 2}, {2, 5, 2}, {3, 5, 3}, {8, 4, 4}, {8, 6, 5}} {
		for try := 0; ; try++ {
			got := standbyAfter(t, c.cpus, c.tasks)
			if got == c.want {
				break
			}
			// The test may be interrupted in between, and a worker begin.
			if got > c.want || try == 20 {
				t.Fatalf("%d CPUs, %d tasks: %d workers on standby, want %d", c.cpus, c.tasks, got, c.want)
			}
		}
	}
}

// standbyAfter submits tasks to a pool of 5 parked workers and returns how
// many of them it has woken.
func standbyAfter(t *testing.T, cpus, tasks int) int {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(5), shoal.WithMinWorkers(5)))
	defer p.Close()
	for shoal.Standby(p) > 0 { // until they are all parked
		runtime.Gosched()
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // they begin when we let them
	shoal.BelieveInCPUs(p, cpus)
	var wg sync.WaitGroup
	wg.Add(tasks)
	for range tasks {
		must(t, p.Submit(wg.Done))
	}
	n := shoal.Standby(p)
	wg.Wait()
	return n
}

func TestTheClockIsReadRarelyAmongShortTasksAndAlwaysAmongLongOnes(t *testing.T) {
	n := 1
	for range 20 {
		n = shoal.NextStep(n, time.Microsecond)
	}
	if n != shoal.MaxStep {
		t.Errorf("after many short steps one has %d tasks, want %d", n, shoal.MaxStep)
	}
	if got := shoal.NextStep(n, 30*time.Microsecond); got != n {
		t.Errorf("after a middling step of %d one has %d", n, got)
	}
	for range 20 {
		n = shoal.NextStep(n, time.Millisecond)
	}
	if n != 1 {
		t.Errorf("after many long steps one has %d tasks, want 1", n)
	}
	if got := shoal.NextStep(0, 30*time.Microsecond); got != 1 {
		t.Errorf("a step of %d follows one of none", got)
	}
}

// TestWorkersThatStepAsideLeaveNoTaskBehind runs tiny tasks on workers that
// believe that one of them alone would be faster, so that they step aside as
// often as they may. Now and then a task waits for the one behind it, so that
// the tasks end only if somebody comes back for them in time.
func TestWorkersThatStepAsideLeaveNoTaskBehind(t *testing.T) {
	for _, workers := range []int{2, 3, 8} {
		p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(1<<20))
		var stop atomic.Bool
		believed := inBackground(func() {
			for !stop.Load() {
				p.BelieveInSolo()
				runtime.Gosched()
			}
		})
		n := testpool.Reps(300_000, 60_000, 60_000)
		y := newTally(n)
		const submitters = 4
		var all sync.WaitGroup
		for s := range submitters {
			all.Go(func() {
				var behind chan struct{} // closed by the next task
				for i := s; i < n; i += submitters {
					task := y.task(i)
					switch {
					case behind != nil:
						c := behind
						behind, task = nil, func() { y.hit(i); close(c) }
					case i/submitters%1000 == 0 && i+submitters < n && s < workers-1:
						c := make(chan struct{})
						behind, task = c, func() { y.hit(i); <-c }
					}
					y.note(i, p.Submit(task))
				}
			})
		}
		all.Wait()
		p.Wait()
		y.check(t)
		stop.Store(true)
		<-believed
		shutClean(t, p)
	}
}

// Workers that run dry together are all on standby for a moment. If each of them, when it gets a
// task, had another worker take its place there, the pool would grow by their number again and again.
func TestWorkersThatRunDryTogetherDoNotHaveThePoolGrow(t *testing.T) {
	const n = 4000
	rounds, sum := 8, 0
	if testpool.Race {
		rounds = 2
	}
	for range rounds {
		p := openPool(t, shoal.WithMaxWorkers(100_000))
		release := hold(t, p, n)
		release()
		for shoal.Standby(p) < n/4 && p.Stats().Running > 0 {
			runtime.Gosched()
		}
		for range 100_000 {
			must(t, p.Submit(func() { time.Sleep(time.Millisecond) }))
		}
		p.Wait()
		sum += p.Stats().PeakWorkers
		p.Close()
	}
	if peak := sum / rounds; peak > 2*n {
		t.Errorf("%d workers ran dry, and then there were %d on average", n, peak)
	}
}

func TestNobodyYieldsAfterALongTaskWhereTasksBlock(t *testing.T) {
	many := 8 * runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		workers int
		task    time.Duration
		want    bool
	}{
		{many, 10 * time.Millisecond, false}, {many, time.Hour, false},
		{many, time.Millisecond, true}, {many, 9 * time.Millisecond, true},
		{many - 1, 10 * time.Millisecond, true}, {1, time.Hour, true},
	} {
		testpool.InBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(c.workers))
			for range 3 * c.workers {
				must(t, p.Submit(func() { time.Sleep(c.task) }))
			}
			time.Sleep(2*c.task + c.task/2) // no worker has run dry yet
			synctest.Wait()
			if got := p.Yields(); got != c.want {
				t.Errorf("%d workers, tasks that take %v: yields: %v, want %v", c.workers, c.task, got, c.want)
			}
			shutClean(t, p)
		})
	}
}

func TestWhatShowsThatTasksBlock(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name                        string
		run, yielding, began, procs int
		round                       time.Duration
		want                        bool
	}{
		{"ten thousand sleep for 10 ms beside a crowd", 10_000, 3, 8_000, 2, 26 * ms, true},
		{"a thousand, on many CPUs", 1000, 0, 1000, 64, 10 * ms, true},
		{"just enough run and began", 16, 8, 8, 2, 10 * ms, true},
		{"one too few run", 15, 0, 8, 2, 10 * ms, false},
		{"one too few began", 16, 0, 7, 2, 10 * ms, false},
		{"too many let others run", 16, 9, 8, 2, 10 * ms, false},
		{"sixteen block beside tasks that compute", 18, 10, 1000, 2, 26 * ms, false},
		{"tasks of 100 µs compute", 2, 10, 200, 2, 10 * ms, false},
		{"and the host took CPUs away", 6, 0, 200, 2, 10 * ms, false},
		{"a hundred that compute for 15 ms", 100, 0, 70, 2, 500 * ms, false},
		{"those that compute for 10 ms", 100, 0, 100, 2, 500 * ms, false},
		{"all sleep for long", 10_000, 0, 0, 2, 10 * ms, false},
		{"no time has passed, in a bubble", 10_000, 0, 100, 2, 0, false},
	} {
		if got := shoal.TasksBlock(c.run, c.yielding, c.began, c.procs, c.round); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestGrowsBesideACrowdOnlyIfThereIsLittleRoomAndTasksBlock(t *testing.T) {
	const ms = time.Millisecond
	const workers, capacity = 8, 10
	for waiting := range capacity + 1 {
		p := openPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity))
		release := hold(t, p, workers)
		for range waiting {
			must(t, p.Submit(func() {}))
		}
		shoal.BelieveInCPUs(p, 1)
		little := waiting > capacity/2
		for _, c := range []struct {
			foreign, began, yielding int
			round, after             time.Duration
			want                     bool
		}{
			{1000, 0, 0, 10 * ms, 0, false},       // nothing is known yet
			{1000, 3, 0, 10 * ms, 0, false},       // too few began
			{127, 1000, 0, 10 * ms, 0, false},     // no crowd
			{1000, 1000, 5, 10 * ms, 0, false},    // many let others run
			{128, 4, 0, 10 * ms, 0, little},       // tasks block
			{128, 0, 0, 0, 10*ms - 1, little},     // that is known for a while
			{128, 0, 4, 0, 10*ms - 1, little},     //
			{1000, 0, 5, 0, 10*ms - 1, false},     // many let others run
			{127, 0, 0, 0, 10*ms - 1, false},      // no crowd
			{1000, 0, 0, 0, 10 * ms, false},       // not any more
			{1000, 3, 0, 10 * ms, 10 * ms, false}, //
		} {
			if got := p.Grows(c.foreign, c.began, c.yielding, c.round, c.after); got != c.want {
				t.Errorf("%d of %d wait, %+v: %v", waiting, capacity, c, got)
			}
		}
		release()
		p.Close()
	}
}

func TestWhoGoesOnAfterALongYield(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name                    string
		away, ran               time.Duration
		others, procs, runnable int
		least, most             time.Duration
	}{
		{"four compute beside 14 workers", 20 * ms, ms / 10, 12, 2, 16, 2 * ms, 3 * ms},
		{"and the workers went on", 38 * ms, 2800 * time.Microsecond, 12, 2, 16, 2 * ms, 4 * ms},
		{"and they have gone", 18 * ms, 2800 * time.Microsecond, 12, 2, 12, 0, 0},
		{"one has come back", 18 * ms, 2800 * time.Microsecond, 12, 2, 13, 0, 0},
		{"twenty beside two workers", 100 * ms, ms / 10, 1, 2, 21, 5 * ms, 5 * ms},
		{"640 beside 128 workers", 100 * ms, ms / 10, 64, 64, 640, 5 * ms, 5 * ms},
		{"the machine was away", 50 * ms, ms / 10, 12, 2, 12, 0, 0},
		{"three pools of 14 workers", 3 * ms, ms / 10, 40, 2, 41, 0, 0},
		{"a thousand workers", 50 * ms, ms / 10, 998, 2, 999, 0, 0},
		{"a crowd of short ones", 20 * ms, ms / 10, 12, 2, 1000, 0, 0},
		{"a server", 2 * ms, ms / 10, 12, 2, 14, 0, 0},
		{"tasks that are longer than a turn", 100 * ms, time.Hour, 12, 2, 30, 5 * ms, 5 * ms},
		{"no time has passed", 0, 0, 12, 2, 16, 0, 0},
	} {
		if d := shoal.GoOn(c.away, c.ran, c.others, c.procs, c.runnable); d < c.least || d > c.most {
			t.Errorf("%s: %v, want %v to %v", c.name, d, c.least, c.most)
		}
	}
}

func TestChunksGrowOnlyWhileTheyAreQuick(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		n    uint64
		took time.Duration
		want uint64
	}{
		{1, 0, 2}, {1, 2 * us, 2}, {1, 3 * us, 1}, {1, 5 * us, 1}, {1, 9 * us, 1}, {1, time.Hour, 1},
		{64, us / 10, 128}, {64, 2 * us, 128}, {64, 5 * us, 64}, {64, 10 * us, 32}, {64, time.Second, 1},
		{1 << 31, 0, math.MaxUint32},
	} {
		if got := shoal.NextChunk(c.n, c.took, math.MaxUint32); got != c.want {
			t.Errorf("after %d items in %v come %d, want %d", c.n, c.took, got, c.want)
		}
	}
}

func TestReviewAWorkerRunsMoreThan32BitsOfTasks(t *testing.T) {
	p := openPool(t, shoal.WithMinWorkers(1), shoal.WithMaxWorkers(1), shoal.WithSpin(0))
	must(t, p.SubmitWait(bg, func(context.Context) error { return nil }))
	p.Wait()
	for p.Stats().Idle != 1 || !shoal.Executed(p, 1<<32-2) {
		runtime.Gosched()
	}
	for range 5 {
		must(t, p.SubmitWait(bg, func(context.Context) error { return nil }))
	}
	p.Wait()
	for w := range p.Workers() {
		if w.Executed < 1<<32 || w.Executed > 1<<32+64 {
			t.Errorf("executed %d", w.Executed)
		}
	}
}

// Go may show what the runtime does between a runtime error and its panic.
func TestStacksAreCutBelowTheRuntime(t *testing.T) {
	const user = "main.f(0x1)\n\t/f.go:1 +0x1\nruntime.goexit({})\n\t/asm.s:1 +0x1\ncreated by main.g in goroutine 1\n\t/g.go:2 +0x2\n"
	const pool = "runtime/debug.Stack()\n\t/stack.go:26 +0x5e\nshoal.fault(0x1)\n\t/run.go:1 +0x1\n"
	const head = "goroutine 7 [running]:\n"
	for _, between := range []string{
		"panic({0x1?, 0x2?})\n\t/panic.go:1 +0x1\n",
		"panic({0x1?, 0x2?})\n\t/panic.go:1 +0x1\nruntime.goPanicIndex(0x1, 0x0)\n\t/panic.go:2 +0x1\nruntime.panicBounds64()\n\t/panic.s:3 +0x1\n",
		"panic({0x1?, 0x2?})\n\t/panic.go:1 +0x1\ninternal/runtime/maps.f(0x1)\n\t/map.go:2 +0x1\nruntime.mapassign_fast64(0x1)\n\t/map.go:2 +0x1\n",
		"runtime.Goexit()\n\t/panic.go:1 +0x1\n",
	} {
		if got := string(shoal.FromUser([]byte(head + pool + between + user))); got != head+user {
			t.Errorf("%s\nof\n%s", got, between)
		}
	}
	if got := string(shoal.FromUser([]byte(head + user))); got != head+user {
		t.Errorf("%s", got)
	}
}

// Whose goroutine it is tells the stack, however deep, which is read in parts.
func TestATaskIsKnownFromAnyDepth(t *testing.T) {
	p := openPool(t, shoal.WithMinWorkers(1), shoal.WithMaxWorkers(1))
	var down func(n int, f func())
	down = func(n int, f func()) {
		if n == 0 {
			f()
			return
		}
		down(n-1, f)
	}
	ask := func(n, want int) {
		down(n, func() {
			if got := p.Depth(); got != want {
				t.Errorf("%d frames deep: in %d tasks of the pool, want %d", n, got, want)
			}
		})
	}
	depths := []int{100, 1000, 5000}
	for n := range 40 {
		depths = append(depths, n)
	}
	for n := 115; n < 145; n++ {
		depths = append(depths, n)
	}
	for _, n := range depths {
		ask(n, 0)
		must(t, p.SubmitWait(bg, func(context.Context) error {
			ask(n, 1)
			var err error
			down(n, func() {
				err = p.SubmitWait(bg, func(context.Context) error { ask(n, 2); return nil })
			})
			return err
		}))
	}
}

// A task of a sub-pool runs on a worker of the root, whatever ran it.
func TestS1_ATaskOfASubPoolIsKnownToTheRoot(t *testing.T) {
	for _, n := range []int{1, 300} {
		t.Run(fmt.Sprintf("pools=%d", n), func(t *testing.T) {
			testpool.InBubble(t, func(t *testing.T) {
				for range n {
					must(t, openPool(t, shoal.WithMaxWorkers(1)).SubmitWait(bg, func(context.Context) error { return nil }))
				}
				inside := func(what string, root *shoal.Pool) {
					if root.Depth() == 0 {
						t.Errorf("%s: not known to be on a worker of the root", what)
					}
				}
				for _, policy := range []shoal.FullPolicy{shoal.Spawn, shoal.CallerRuns} {
					root := newPool(t, shoal.WithMinWorkers(1), shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))
					sub, err := root.Sub(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))
					must(t, err)
					release := hold(t, sub, 1)
					must(t, sub.Submit(func() { inside(policy.String()+" of a sub-pool", root) }))
					synctest.Wait()
					release()
					sub.Wait()
					must(t, root.Close())
				}

				root := newPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithIdleTimeout(shoal.Forever))
				a, err := root.Sub(shoal.WithQueueCapacity(4))
				must(t, err)
				b, err := root.Sub(shoal.WithQueueCapacity(4))
				must(t, err)
				done := make(chan struct{})
				must(t, a.Submit(func() {
					defer close(done)
					inside("a task of a", root)
					must(t, a.SubmitWait(bg, func(ctx context.Context) error { // here
						f := shoal.Go(ctx, b, func(context.Context) (int, error) { // and this too
							inside("a task of b inside of one of a", root)
							return 0, nil
						})
						_, err := f.Wait(ctx)
						return err
					}))
				}))
				<-done
				must(t, root.Shutdown(bg))
			})
		})
	}
}
