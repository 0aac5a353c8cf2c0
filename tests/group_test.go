package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

var errBoom = errors.New("boom")

func fine(context.Context) error { return nil }

func TestGroupWaitsForAllItsTasks(t *testing.T) {
	for _, opts := range [][]shoal.GroupOption{nil, {shoal.Limit(1)}, {shoal.Limit(3)}, {shoal.CollectErrors()}} {
		p := newPool(t, shoal.WithMaxWorkers(3))
		g := p.Group(bg, opts...)
		for n := range 100 {
			y := newTally(n)
			for i := range n {
				g.Go(func(context.Context) error { y.hit(i); return nil })
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			y.check(t)
		}
		shutClean(t, p)
	}
}

// Once the context of a group has ended, Wait does not wait until a worker comes to the tasks that have
// not begun: neither behind other tasks, nor in a paused pool.
func TestGroupWaitDoesNotWaitForWhatWillNotStart(t *testing.T) {
	early := errors.New("early")
	type group = *shoal.Group
	for _, c := range []struct {
		name  string
		fails error                                                // of the first task, after a second
		end   func(g *shoal.Group, cancel context.CancelCauseFunc) // after a second
		want  error
		cause error // of the group's context
		opts  []shoal.GroupOption
	}{
		{name: "a task fails", fails: errBoom, want: errBoom, cause: errBoom},
		{name: "the parent ends", end: func(_ group, cancel context.CancelCauseFunc) { cancel(early) }, want: context.Canceled, cause: early},
		{name: "the parent ends, all errors", end: func(_ group, cancel context.CancelCauseFunc) { cancel(early) },
			want: context.Canceled, cause: early, opts: []shoal.GroupOption{shoal.CollectErrors()}},
		{name: "Stop", end: func(g group, _ context.CancelCauseFunc) { g.Stop() }, want: context.Canceled, cause: context.Canceled},
	} {
		for _, paused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, paused %v", c.name, paused), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(1)...)
					ctx, cancel := context.WithCancelCause(bg)
					defer cancel(nil)
					g := p.Group(ctx, c.opts...)
					g.Go(func(context.Context) error { time.Sleep(time.Second); return c.fails })
					must(t, p.Submit(func() { time.Sleep(time.Hour) }))
					for range 10 {
						g.Go(func(context.Context) error { t.Error("a task starts"); return nil })
					}
					synctest.Wait()
					if paused {
						p.Pause()
					}
					if c.end != nil {
						time.AfterFunc(time.Second-1, func() { c.end(g, cancel) })
					}
					begin := time.Now()
					wantErr(t, "Wait", g.Wait(), c.want)
					if d := time.Since(begin); d != time.Second {
						t.Errorf("Wait took %v, want 1s", d)
					}
					if s := p.Stats(); s.Canceled != 10 || s.InFlight != 1 {
						t.Errorf("%d tasks are canceled, %d in flight, want 10 and 1", s.Canceled, s.InFlight)
					}
					if cause := context.Cause(g.Context()); cause != c.cause {
						t.Errorf("the cause is %v, want %v", cause, c.cause)
					}
					g.Go(fine) // of the next round
					p.Resume()
					if err := g.Wait(); c.cause != early {
						must(t, err)
					}
					shutClean(t, p)
				})
			})
		}
	}
}

// So it is in a task that would have to run the group's tasks itself, and may not: their pool is at its maximum.
func TestGroupWaitInATaskDoesNotWaitForWhatWillNotStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(4)...)
		sub := newSub(t, p, shoal.WithMaxWorkers(1))
		must(t, sub.Submit(func() { time.Sleep(time.Hour) }))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		begin := time.Now()
		err := p.SubmitWait(ctx, func(ctx context.Context) error {
			g := sub.Group(ctx)
			g.Go(func(context.Context) error { t.Error("a task starts"); return nil })
			return g.Wait()
		})
		wantErr(t, "Wait", err, context.DeadlineExceeded)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("Wait took %v, want 1s", d)
		}
		shutClean(t, p)
	})
}

// The error of a task that runs says more than that of the context for those that do not start.
func TestGroupStopReturnsTheErrorOfATaskThatRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		g := p.Group(bg)
		g.Go(func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return errBoom })
		g.Go(fine)
		synctest.Wait()
		wantErr(t, "Stop", g.Stop(), errBoom)
		g.Go(fine)
		must(t, g.Wait())
		g.Go(func(ctx context.Context) error { <-ctx.Done(); return nil })
		g.Go(fine)
		synctest.Wait()
		wantErr(t, "Stop", g.Stop(), context.Canceled)
		shutClean(t, p)
	})
}

// A bigTracer puts a big value into the context of each task.
type bigTracer struct {
	shoal.Tracer
	refs []weak.Pointer[[1 << 16]byte]
}

func (b *bigTracer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	v := new([1 << 16]byte)
	b.refs = append(b.refs, weak.Make(v))
	return context.WithValue(b.Tracer.Submitted(ctx, p, kind), runKey{}, v)
}

// alive is how many of refs are in memory. It runs the collector until these are no more than most,
// for a minute at most: what ends may be held for a moment longer by the goroutine that it ran on.
// In a bubble that minute is virtual.
func alive[T any](most int, refs ...weak.Pointer[T]) (n int) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		n = 0
		for _, r := range refs {
			if r.Value() != nil {
				n++
			}
		}
		if n <= most || time.Now().After(end) {
			return n
		}
	}
}

// What was withdrawn holds nothing of the caller's, though no worker has come to its ticket.
func TestWhatWasWithdrawnHoldsNothing(t *testing.T) {
	type block = [1 << 16]byte
	p := newPool(t, fixed(2)...)
	release := hold(t, p, 2)
	for name, call := range map[string]func(v *block){
		"SubmitWait": func(v *block) {
			ctx, cancel := context.WithCancel(bg)
			time.AfterFunc(time.Millisecond, cancel)
			p.SubmitWait(ctx, func(context.Context) error { v[0]++; return nil })
		},
		"Range": func(v *block) {
			must(t, shoal.Range(bg, p, 2, func(_ context.Context, lo, _ int) error { v[lo]++; return nil }))
		},
		"Go": func(v *block) {
			shoal.Go(bg, p, func(context.Context) (int, error) { v[0]++; return 0, nil }).Cancel()
		},
		"Group": func(v *block) {
			g := p.Group(bg)
			g.Go(func(context.Context) error { v[0]++; return nil })
			g.Stop()
		},
		"Map": func(v *block) {
			ctx, cancel := context.WithCancel(bg)
			in := func(yield func(*block) bool) { yield(v); cancel() }
			for range shoal.Map(ctx, p, in, func(_ context.Context, v *block) (int, error) { v[0]++; return 0, nil }) {
			}
		},
	} {
		var refs []weak.Pointer[block]
		for range 10 {
			v := new(block)
			refs = append(refs, weak.Make(v))
			call(v)
		}
		if n := alive(0, refs...); n > 0 {
			t.Errorf("%s: %d of 10 are in memory", name, n)
		}
	}
	release()
	shutClean(t, p)
}

// A group holds nothing of a task that has ended, though others have not.
func TestGroupHoldsNoTaskThatHasEnded(t *testing.T) {
	b := &bigTracer{Tracer: new(recordingTracer)}
	p := newPool(t, fixed(2, shoal.WithTracer(b))...)
	g := p.Group(bg)
	gate := make(chan struct{})
	g.Go(func(context.Context) error { <-gate; return nil })
	release := hold(t, p, 1)
	for range 10 {
		g.Go(fine)
	}
	release()
	for p.Stats().InFlight > 1 {
		time.Sleep(time.Millisecond)
	}
	if len(b.refs) < 11 {
		t.Fatalf("the Tracer was called for %d tasks", len(b.refs))
	}
	if n := alive(2, b.refs...); n > 2 { // that of the worker may be the last one
		t.Errorf("of 10 tasks that have ended and one that runs %d are in memory", n)
	}
	close(gate)
	must(t, g.Wait())
	shutClean(t, p)
}

func TestGroupFirstErrorCancelsTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2))
		g := p.Group(bg)
		g.Go(func(ctx context.Context) error {
			<-ctx.Done()
			if context.Cause(ctx) != errBoom || ctx.Err() != context.Canceled {
				t.Errorf("the context of a task: %v because of %v", ctx.Err(), context.Cause(ctx))
			}
			return errors.New("later")
		})
		g.Go(func(context.Context) error { time.Sleep(time.Second); return errBoom })
		for range 10 {
			g.Go(func(context.Context) error { t.Error("a task starts after the error"); return nil })
		}
		if err := g.Context().Err(); err != nil {
			t.Errorf("the group's context before the error: %v", err)
		}
		if err := g.Wait(); err != errBoom {
			t.Errorf("Wait = %v", err)
		}
		if ctx := g.Context(); ctx.Err() == nil || context.Cause(ctx) != errBoom {
			t.Errorf("the group's context: %v because of %v", ctx.Err(), context.Cause(ctx))
		}
		if s := p.Stats(); s.Canceled != 10 || s.Completed != 2 {
			t.Errorf("2 ran and 10 did not start: %+v", s)
		}
		shutClean(t, p)
	})
}

func TestGroupCanBeUsedAgainAfterWait(t *testing.T) {
	p := newPool(t)
	g := p.Group(bg)
	for round := range 5 {
		fails := round%2 == 0
		g.Go(func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("round %d begins with a context that has ended", round)
			}
			if fails {
				return errBoom
			}
			return nil
		})
		for range 2 { // as often as one likes
			if err := g.Wait(); (err == errBoom) != fails {
				t.Errorf("round %d: %v", round, err)
			}
			if g.Context().Err() == nil {
				t.Errorf("round %d is over, its context is not", round)
			}
		}
	}
	shutClean(t, p)
}

func TestGroupThatNeverRanAnything(t *testing.T) {
	p := newPool(t)
	g := p.Group(bg)
	if err := g.Context().Err(); err != nil {
		t.Error(err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	shutClean(t, p)
}

func TestGroupGoWhileOthersWait(t *testing.T) { // H22
	p := newPool(t, shoal.WithMaxWorkers(2))
	g := p.Group(bg)
	n := rounds(20_000)
	y := newTally(n)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 3 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				g.Go(func(context.Context) error { y.hit(int(i)); return nil })
				if i%3 == 0 {
					if err := g.Wait(); err != nil {
						t.Error(err)
					}
					if y.ran(int(i)) != 1 {
						t.Errorf("Wait has returned, task %d has run %d times", i, y.ran(int(i)))
					}
				}
			}
		})
	}
	wg.Wait()
	g.Wait()
	y.check(t)
	shutClean(t, p)
}

func TestGroupLimit(t *testing.T) {
	for _, limit := range []int{1, 2, 7} {
		p := newPool(t, shoal.WithMaxWorkers(10))
		g := p.Group(bg, shoal.Limit(limit))
		var running gauge
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range rounds(1000) {
					g.Go(func(context.Context) error { running.pass(); return nil })
				}
			})
		}
		wg.Wait()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if m := running.most.Load(); m > int64(limit) {
			t.Errorf("%d at once, the limit is %d", m, limit)
		}
		if s := p.Stats(); s.Submitted != uint64(4*rounds(1000)) {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	}
}

func TestGroupAtItsLimitHeedsTheContext(t *testing.T) { // H21
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4))
		ctx, cancel := context.WithCancel(bg)
		g := p.Group(ctx, shoal.Limit(1))
		gate := make(chan struct{})
		g.Go(func(context.Context) error { <-gate; return nil })
		done := inBackground(func() {
			g.Go(func(context.Context) error { t.Error("it runs beyond the limit"); return nil })
		})
		synctest.Wait()
		if isClosed(done) {
			t.Error("Go did not wait at the limit")
		}
		cancel()
		<-done
		close(gate)
		if err := g.Wait(); err != context.Canceled {
			t.Errorf("Wait = %v", err)
		}
		// conc#88: the one that fails ends the waits of the others.
		g = p.Group(bg, shoal.Limit(2))
		g.Go(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		g.Go(func(context.Context) error { time.Sleep(time.Second); return errBoom })
		for range 10 {
			g.Go(fine)
		}
		if err := g.Wait(); err != errBoom {
			t.Errorf("Wait = %v", err)
		}
		shutClean(t, p)
	})
}

func TestGroupTaskAtTheLimitRunsItsChildItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		g := p.Group(bg, shoal.Limit(1))
		depth := 0
		var task func(context.Context) error
		task = func(context.Context) error {
			if depth++; depth < 20 {
				g.Go(task)
			}
			return nil
		}
		g.Go(task)
		if err := g.Wait(); err != nil || depth != 20 {
			t.Errorf("%v, depth %d", err, depth)
		}
		shutClean(t, p)
	})
}

func TestGroupCollectErrors(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(4))
	g := p.Group(bg, shoal.CollectErrors())
	var want []error
	for i := range 100 {
		err := fmt.Errorf("error %d", i)
		if i%3 == 0 {
			err = nil
		} else {
			want = append(want, err)
		}
		g.Go(func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("task %d: an error has ended the context", i)
			}
			return err
		})
	}
	err := g.Wait()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !slices.Equal(joined.Unwrap(), want) {
		t.Errorf("Wait = %v\nwant %v", err, want)
	}
	g.Go(fine)
	if err := g.Wait(); err != nil {
		t.Errorf("the next round: %v", err)
	}
	shutClean(t, p)
}

func TestGroupCollectErrorsSaysOnceThatTheContextHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		ctx, cancel := context.WithCancel(bg)
		g := p.Group(ctx, shoal.CollectErrors())
		g.Go(func(context.Context) error { time.Sleep(time.Second); cancel(); return errBoom })
		for range 10 {
			g.Go(func(context.Context) error { t.Error("it starts although the context has ended"); return nil })
		}
		err := g.Wait()
		if all := err.(interface{ Unwrap() []error }).Unwrap(); len(all) != 2 || all[0] != errBoom || all[1] != context.Canceled {
			t.Errorf("Wait = %v", all)
		}
		shutClean(t, p)
	})
}

func TestGroupFaults(t *testing.T) {
	noLog(t)
	p := newPool(t, shoal.WithMaxWorkers(2))
	for _, c := range []struct {
		name string
		task func(context.Context) error
		want error
	}{
		{"nil", nil, shoal.ErrNilTask},
		{"panic", func(context.Context) error { panic(errBoom) }, errBoom},
		{"Goexit", func(context.Context) error { runtime.Goexit(); return nil }, shoal.ErrGoexit},
		{"panic(nil)", func(context.Context) error { panic(nil) }, new(runtime.PanicNilError)},
	} {
		g := p.Group(bg)
		g.Go(c.task)
		if err := g.Wait(); !errors.Is(err, c.want) && !errors.As(err, new(*runtime.PanicNilError)) {
			t.Errorf("%s: Wait = %v, want %v", c.name, err, c.want)
		}
		if g.Context().Err() == nil {
			t.Errorf("%s: the context goes on", c.name)
		}
	}
	runsMore(t, p, 100)
	shutClean(t, p)
	g := p.Group(bg)
	g.Go(fine)
	wantErr(t, "on a closed pool", g.Wait(), shoal.ErrClosed)
}

func TestGroupOfABadCallSaysWhy(t *testing.T) {
	p := newPool(t)
	var none context.Context
	var noPool *shoal.Pool
	never := func(context.Context) error { t.Error("it runs"); return nil }
	for name, c := range map[string]struct {
		g    *shoal.Group
		want error
	}{
		"Limit(0)":    {p.Group(bg, shoal.Limit(0)), shoal.ErrConfig},
		"Limit(-1)":   {p.Group(bg, nil, shoal.Limit(-1)), shoal.ErrConfig},
		"nil context": {p.Group(none), nil},
		"nil pool":    {noPool.Group(bg), shoal.ErrClosed},
		"zero pool":   {new(shoal.Pool).Group(bg), shoal.ErrClosed},
		"zero group":  {new(shoal.Group), shoal.ErrClosed},
	} {
		c.g.Go(never)
		if ctx := c.g.Context(); ctx.Err() == nil || c.want != nil && name != "zero group" && !errors.Is(context.Cause(ctx), c.want) {
			t.Errorf("%s: its context: %v, because of %v", name, ctx.Err(), context.Cause(ctx))
		}
		for _, err := range []error{c.g.Wait(), c.g.Stop()} {
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
	shutClean(t, p)
}

func TestGroupWhoseTasksAreDiscarded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))...)
		release := hold(t, p, 1)
		g := p.Group(bg, shoal.CollectErrors())
		for range 3 {
			g.Go(fine)
		}
		release()
		if err := g.Wait(); !errors.Is(err, shoal.ErrDropped) {
			t.Errorf("Wait = %v", err)
		}
		shutClean(t, p)
	})
	inBubble(t, func(t *testing.T) { // pond#138
		p := newPool(t, fixed(1)...)
		g := p.Group(bg)
		g.Go(func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		synctest.Wait()
		g.Go(fine)
		closeAll(t, p)
		if err := g.Wait(); !errors.Is(err, shoal.ErrClosed) && !errors.Is(err, shoal.ErrDropped) {
			t.Errorf("Wait = %v", err)
		}
	})
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))...)
		release := hold(t, p, 1)
		g := p.Group(bg)
		g.Go(fine)
		wantErr(t, "no room", g.Wait(), shoal.ErrQueueFull)
		release()
		shutClean(t, p)
	})
}

func TestGroupStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		ended := false
		func() {
			g := p.Group(bg)
			defer g.Stop()
			g.Go(func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); ended = true; return nil })
			synctest.Wait()
			g.Go(func(context.Context) error { t.Error("it starts after Stop"); return nil })
		}()
		if !ended {
			t.Error("Stop did not wait")
		}
		shutClean(t, p)
	})
}

// groups runs 2^depth leaves, with a group at each node.
func groups(p *shoal.Pool, leaf func(), depth int) func(context.Context) error {
	return func(ctx context.Context) error {
		if depth == 0 {
			leaf()
			return nil
		}
		g := p.Group(ctx)
		g.Go(groups(p, leaf, depth-1))
		g.Go(groups(p, leaf, depth-1))
		return g.Wait()
	}
}

func TestGroupsInGroupsNeedOneWorker(t *testing.T) {
	for workers := 1; workers <= 3; workers++ {
		for _, capacity := range []int{0, 2, shoal.Unbounded} {
			p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity))
			var running gauge
			var leaves atomic.Int64
			g := p.Group(bg)
			g.Go(groups(p, func() { running.pass(); leaves.Add(1) }, 10))
			if err := g.Wait(); err != nil || leaves.Load() != 1<<10 {
				t.Errorf("%d workers, capacity %d: %v, %d leaves", workers, capacity, err, leaves.Load())
			}
			if m := running.most.Load(); m > int64(workers) {
				t.Errorf("%d workers: %d leaves at once", workers, m)
			}
			p.Wait()
			if s := p.Stats(); s.PeakWorkers > workers || s.Submitted != 1<<11-1 || s.Completed != s.Submitted {
				t.Errorf("%d workers: %+v", workers, s)
			}
			shutClean(t, p)
		}
	}
}

func TestGroupsNestFifteenDeepOnOneWorker(t *testing.T) {
	depth := testpool.Reps(15, 11, 11)
	p := newPool(t, shoal.WithMaxWorkers(1))
	n := 0
	g := p.Group(bg)
	g.Go(groups(p, func() { n++ }, depth))
	if err := g.Wait(); err != nil || n != 1<<depth {
		t.Errorf("%v, %d leaves", err, n)
	}
	shutClean(t, p)
}

func TestGroupsInGroupsWithoutContexts(t *testing.T) { // H2, of tasks that are given none
	for workers := 1; workers <= 4; workers++ {
		for _, capacity := range []int{0, 2, shoal.Unbounded} {
			p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity))
			var running gauge
			var leaves atomic.Int64
			var tree func(depth int)
			tree = func(depth int) {
				if depth == 0 {
					running.pass()
					leaves.Add(1)
					return
				}
				g := p.Group(bg)
				for range 2 {
					g.Go(func(context.Context) error { tree(depth - 1); return nil })
				}
				if err := g.Wait(); err != nil {
					t.Error(err)
				}
			}
			must(t, p.Submit(func() { tree(10) }))
			p.Wait()
			if n := leaves.Load(); n != 1<<10 {
				t.Errorf("%d workers, capacity %d: %d leaves", workers, capacity, n)
			}
			if m := running.most.Load(); m > int64(workers) {
				t.Errorf("%d workers: %d leaves at once", workers, m)
			}
			shutClean(t, p)
		}
	}
}

func TestGroupOfATaskIsWaitedForElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		var running gauge
		waited := make(chan error, 1)
		must(t, p.Submit(func() {
			g := p.Group(bg)
			for range 3 {
				g.Go(func(context.Context) error { running.pass(); return nil })
			}
			go func() { waited <- g.Wait() }() // it is not the worker: it runs nothing
			running.enter()
			time.Sleep(time.Second)
			running.n.Add(-1)
		}))
		must(t, <-waited)
		if m := running.most.Load(); m != 1 {
			t.Errorf("%d at once on one worker", m)
		}
		shutClean(t, p)
	})
}

func TestGroupWaitContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		g := p.Group(bg)
		boom := errors.New("boom")
		g.Go(func(context.Context) error { time.Sleep(2 * time.Second); return boom })
		g.Go(func(context.Context) error { time.Sleep(time.Minute); return nil })
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		wantErr(t, "WaitContext", g.WaitContext(ctx), context.DeadlineExceeded)
		if g.Context().Err() != nil {
			t.Error("it has ended the group's context")
		}
		wantErr(t, "WaitContext of the group's context", g.WaitContext(g.Context()), boom)
		wantErr(t, "Wait", g.Wait(), boom)
		g.Go(func(context.Context) error { return nil })
		must(t, g.WaitContext(bg))
		//lint:ignore SA1012 that is the point
		if err := g.WaitContext(nil); err == nil {
			t.Error("a nil context")
		}
		shutClean(t, p)
	})
}

func TestGroupWaitRunsTasksThatComeMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		outer := shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			g := p.Group(ctx)
			g.Go(func(context.Context) error {
				time.Sleep(time.Second) // the other worker waits for the group by now
				late := make(chan int)
				g.Go(func(context.Context) error { close(late); return nil })
				<-late // only the goroutine that waits for the group can run it
				return nil
			})
			time.Sleep(time.Millisecond) // until the other worker has it
			return 0, g.Wait()
		})
		wantResult(t, "the outer one", outer, 0, nil)
		shutClean(t, p)
	})
}

func TestGroupWaitInATaskRunsOnlyTheGroupsTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var order []string
		note := func(s string) func(context.Context) error {
			return func(context.Context) error { order = append(order, s); return nil }
		}
		p := newPool(t, fixed(1)...)
		wantResult(t, "outer", shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			other := p.Group(bg)
			other.Go(note("other"))
			g := p.Group(ctx)
			g.Go(note("first"))
			g.Go(note("second"))
			err := g.Wait()
			order = append(order, "outer")
			return 0, err
		}), 0, nil)
		shutClean(t, p)
		if got := fmt.Sprint(order); got != "[first second outer other]" {
			t.Errorf("they ran in the order %v", got)
		}
	})
}

// What a goroutine waits at is made by that goroutine. So a group may be made before
// a bubble is entered in which it is used.
func TestGroupMadeOutsideABubble(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithIdleTimeout(shoal.Forever))
	g := p.Group(bg)
	synctest.Test(t, func(t *testing.T) {
		for range 3 {
			begun := time.Now()
			g.Go(func(context.Context) error { time.Sleep(time.Hour); return nil })
			if err := g.Wait(); err != nil || time.Since(begun) != time.Hour {
				t.Errorf("Wait = %v after %v, want nil after an hour", err, time.Since(begun))
			}
		}
		closeAll(t, p)
	})
	if err := g.Wait(); err != nil {
		t.Errorf("outside, Wait = %v", err)
	}
}

func TestGroupGoMakesOneAllocation(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	g := p.Group(bg)
	if n := testing.AllocsPerRun(20_000, func() { g.Go(fine) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	must(t, g.Wait())
	if n := p.Stats().Completed; n < 20_000 {
		t.Errorf("only %d tasks ran", n)
	}
}

func TestGroupsEndWhateverHappens(t *testing.T) {
	noLog(t)
	for round := range rounds(400) {
		r := rand.New(rand.NewPCG(uint64(round), 2))
		policy := allPolicies[r.IntN(len(allPolicies))]
		p := newPool(t, shoal.WithMaxWorkers(1+r.IntN(3)), shoal.WithQueueCapacity(r.IntN(8)), shoal.WithFullPolicy(policy))
		ctx, cancel := context.WithCancel(bg)
		var opts []shoal.GroupOption
		if r.IntN(2) == 0 {
			opts = append(opts, shoal.Limit(1+r.IntN(4)))
		}
		if r.IntN(2) == 0 {
			opts = append(opts, shoal.CollectErrors())
		}
		g := p.Group(ctx, opts...)
		y := newTally(4 * 16 * 3)
		var open atomic.Int64 // tasks that are running
		var wg sync.WaitGroup
		for k := range 4 {
			fault := r.IntN(6)
			wg.Go(func() {
				for i := range 16 {
					id := 3 * (16*k + i)
					g.Go(func(ctx context.Context) error {
						open.Add(1)
						defer open.Add(-1)
						y.hit(id)
						inner := p.Group(ctx)
						inner.Go(func(context.Context) error { y.hit(id + 1); return nil })
						inner.Go(func(context.Context) error { y.hit(id + 2); return nil })
						inner.Wait()
						switch {
						case i < 15:
						case fault == 0:
							return errBoom
						case fault == 1:
							panic(errBoom)
						case fault == 2:
							runtime.Goexit()
						}
						return nil
					})
				}
			})
		}
		end := r.IntN(4)
		wg.Go(func() {
			runtime.Gosched()
			switch end {
			case 0:
				p.Close()
			case 1:
				cancel()
			case 2:
				g.Stop()
			}
		})
		wg.Wait()
		g.Wait()
		if n := open.Load(); n != 0 {
			t.Fatalf("round %d: Wait has returned and %d tasks run", round, n)
		}
		p.Shutdown(bg)
		cancel()
		y.checkNoneTwice(t, round)
		checkOver(t, p, round)
	}
}

// A nil Group and the zero one are like one of a nil pool.
func TestAGroupThatWasNotMade(t *testing.T) {
	var none *shoal.Pool
	for name, g := range map[string]*shoal.Group{"nil": nil, "zero": {}, "of a nil pool": none.Group(bg)} {
		g.Go(func(context.Context) error {
			t.Error(name, "has run a task")
			return nil
		})
		if g.TryGo(func(context.Context) error { return nil }) {
			t.Error(name, "has accepted a task")
		}
		for what, err := range map[string]error{"Wait": g.Wait(), "WaitContext": g.WaitContext(bg), "Stop": g.Stop()} {
			if err != shoal.ErrClosed {
				t.Errorf("%s: %s = %v", name, what, err)
			}
		}
		if g.Context().Err() == nil {
			t.Error(name, "has a context that has not ended")
		}
	}
}
