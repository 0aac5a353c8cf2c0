package tests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// What two reviewers found when they set out to break groups, helping, keys and
// sub-pools: each of these failed before it was mended.

func TestReviewDebtAfterAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		a := newSub(t, p)
		b := newSub(t, p)
		var na, nb atomic.Int64
		for range 30_000 {
			must(t, a.Submit(func() { time.Sleep(time.Millisecond); na.Add(1) }))
		}
		time.Sleep(10*time.Second + time.Microsecond)
		for range 30_000 {
			must(t, b.Submit(func() { time.Sleep(time.Millisecond); nb.Add(1) }))
		}
		a0 := na.Load()
		time.Sleep(5 * time.Second)
		t.Logf("alone 10s: a=%d; then in 5 s: a %d, b %d", a0, na.Load()-a0, nb.Load())
		if x := na.Load() - a0; x < 2000 {
			t.Errorf("a, of the same weight, got %d of 5000", x)
		}
		p.Close()
	})
}

func TestReviewOwnChargedForIdle2(t *testing.T) {
	for _, idle := range []time.Duration{0, 100 * time.Second} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
			s := newSub(t, p)
			ms := func() { time.Sleep(time.Millisecond) }
			for range 20 { // the submitter waits for room
				must(t, p.Submit(ms))
			}
			p.Wait()
			time.Sleep(idle) // nothing to do
			var np, ns atomic.Int64
			var stop atomic.Bool
			go func() {
				for !stop.Load() {
					p.Submit(func() { ms(); np.Add(1) })
				}
			}()
			synctest.Wait()
			for range 30_000 {
				must(t, s.Submit(func() { ms(); ns.Add(1) }))
			}
			time.Sleep(5 * time.Second)
			stop.Store(true)
			if np.Load() < 2200 || ns.Load() < 2200 {
				t.Errorf("idle %v: shares: p %d, s %d", idle, np.Load(), ns.Load())
			}
			p.Close()
		})
	}
}

func TestReviewRoomWaiterOfParentStarves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		s := newSub(t, p, shoal.WithPriority(-1))
		for range 100_000 {
			must(t, s.Submit(func() { time.Sleep(time.Millisecond) }))
		}
		time.Sleep(time.Millisecond / 2)
		start := time.Now()
		must(t, p.Submit(nothing))
		if d := time.Since(start); d > time.Second {
			t.Errorf("Submit of the parent, of higher priority, waited %v", d)
		}
		p.Close()
	})
}

func TestReviewPauseDoesNotStopTurns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		var ran int
		for range 100 {
			must(t, k.Submit(1, func() { <-gate; ran++ }))
		}
		synctest.Wait()
		p.Pause()
		q := p.Stats().Queued
		close(gate)
		synctest.Wait()
		if ran != 1 {
			t.Errorf("paused with %d queued and 1 running: %d ran; %+v", q, ran, p.Stats().Queued)
		}
		p.Close()
	})
}

func TestReviewPriorityWaitsForTurns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		low := newSub(t, p, shoal.WithPriority(-1))
		high := newSub(t, p, shoal.WithPriority(1))
		k := shoal.NewKeyed[int](low)
		for range 1000 {
			must(t, k.Submit(1, func() { time.Sleep(time.Millisecond) }))
		}
		synctest.Wait()
		release := hold(t, high, 1)
		start := time.Now()
		must(t, high.SubmitWait(bg, func(context.Context) error { return nil }))
		if d := time.Since(start); d > 2*time.Millisecond {
			t.Errorf("a high task waited %v for tasks of 1 ms", d)
		}
		release()
		p.Close()
	})
}

func TestReviewSubmitWaitBreaksLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(4)...)
		s := newSub(t, p, shoal.WithMaxWorkers(1))
		var n, most atomic.Int64
		for range 4 {
			must(t, p.SubmitContext(bg, func(ctx context.Context) {
				must(t, s.SubmitWait(ctx, func(context.Context) error {
					if m := n.Add(1); m > most.Load() {
						most.Store(m)
					}
					time.Sleep(time.Second)
					n.Add(-1)
					return nil
				}))
			}))
		}
		p.Wait()
		if most.Load() != 1 {
			t.Errorf("SubmitWait: %d at once in a sub-pool of limit 1", most.Load())
		}
		p.Close()
	})
}

func TestReviewBlockFullBreaksLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(4)...)
		s := newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1))
		var n, most atomic.Int64
		for range 4 {
			must(t, p.Submit(func() {
				must(t, s.Submit(func() {
					if m := n.Add(1); m > most.Load() {
						most.Store(m)
					}
					time.Sleep(time.Second)
					n.Add(-1)
				}))
			}))
		}
		p.Wait()
		s.Wait()
		if most.Load() != 1 {
			t.Errorf("Submit: %d at once in a sub-pool of limit 1", most.Load())
		}
		p.Close()
	})
}

func TestReviewHelperBreaksMiddleLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		mid := newSub(t, p, shoal.WithMaxWorkers(1))
		low := newSub(t, mid, shoal.WithMaxWorkers(1))
		release := hold(t, mid, 1) // mid has its one worker
		ran := false
		c := make(chan struct{})
		must(t, p.SubmitContext(bg, func(ctx context.Context) {
			defer close(c)
			shoal.Go(ctx, low, func(context.Context) (int, error) { ran = true; return 0, nil }).Wait(ctx)
		}))
		synctest.Wait()
		if ran {
			t.Errorf("a task of low ran while the only worker of mid was busy")
		}
		release()
		<-c
		p.Close()
	})
}

func TestReviewNaNKeysLeak(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	k := shoal.NewKeyed[float64](p)
	nan := 0.0
	nan = nan / nan
	before := heapInUse()
	for range 100_000 {
		must(t, k.Submit(nan, nothing))
	}
	p.Wait()
	if g := heapInUse() - before; g > 200<<10 {
		t.Errorf("NaN keys without tasks keep %d bytes", g)
	}
	runtime.KeepAlive(k)
}

func TestReviewLocalOfSubSpawn(t *testing.T) {
	p := newPool(t, fixed(1)...)
	s := newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
	l := shoal.NewLocal(s, func(int) (int, error) { return 1, nil }, nil)
	release := hold(t, s, 1)
	done := make(chan error, 1)
	must(t, s.SubmitContext(bg, func(ctx context.Context) { _, err := l.Get(ctx); done <- err }))
	if err := <-done; err != nil {
		t.Errorf("Local of a sub-pool under Spawn: %v", err)
	}
	release()
	shutClean(t, p)
}

func TestReviewCloseOfParentInSubsSpawned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		s := newSub(t, p, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))
		release := hold(t, s, 1)
		done := false
		must(t, s.Submit(func() { t.Log(p.Close()); done = true }))
		release()
		synctest.Wait()
		if !done {
			t.Errorf("Close of the parent in a task of a sub-pool waits for itself")
		}
	})
}

func TestReviewDropOldestSpins(t *testing.T) {
	p := newPool(t, fixed(2, shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest))...)
	s := newSub(t, p, shoal.WithMaxWorkers(2))
	k := shoal.NewKeyed[int](p)
	gate := make(chan struct{})
	started := make(chan struct{})
	must(t, k.Submit(1, func() { close(started); <-gate }))
	<-started
	for range 2 {
		must(t, k.Submit(1, nothing))
	}
	for p.Stats().Running > 1 || p.Stats().Queued < 2 {
		runtime.Gosched()
	}
	time.Sleep(10 * time.Millisecond)
	release := hold(t, s, 1)   // the other worker
	must(t, s.Submit(nothing)) // a worker of s is in the lane
	time.Sleep(10 * time.Millisecond)
	done := inBackground(func() { t.Log(p.Submit(nothing)) })
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Errorf("Submit under DropOldest has not returned for a minute: %+v", p.Stats())
	}
	release()
	close(gate)
	<-done
	p.Close()
}

func TestReviewRunningOverWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))...)
		k := shoal.NewKeyed[int](p)
		release := hold(t, p, 1)
		g1, g2 := make(chan struct{}), make(chan struct{})
		must(t, k.Submit(1, func() { <-g1 })) // spawned
		synctest.Wait()
		must(t, k.Submit(1, func() { <-g2 })) // spawned, parked
		synctest.Wait()
		close(g1)
		synctest.Wait()
		if s := p.Stats(); s.Running > s.Workers {
			t.Errorf("Running %d of %d workers", s.Running, s.Workers)
		}
		release()
		close(g2)
		p.Close()
	})
}

func TestReviewMaxTasksPerWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithMaxTasksPerWorker(2))
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		by := map[string]int{}
		most := 0
		for range 100 {
			must(t, k.Submit(1, func() { <-gate; g := goid(); by[g]++; most = max(most, by[g]) }))
		}
		synctest.Wait()
		close(gate)
		p.Wait()
		if most > 2 {
			t.Errorf("WithMaxTasksPerWorker(2): one worker ran %d", most)
		}
		shutClean(t, p)
	})
}

func TestReviewResizeDoesNotStopTurns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(3))
		k := shoal.NewKeyed[int](p)
		for range 1000 {
			must(t, k.Submit(1, func() { time.Sleep(time.Second) }))
			must(t, k.Submit(2, func() { time.Sleep(time.Second) }))
		}
		time.Sleep(500 * time.Millisecond)
		must(t, p.Resize(0, 1))
		time.Sleep(10 * time.Second)
		if s := p.Stats(); s.Workers > 1 {
			t.Errorf("10 tasks after Resize(0, 1): %d workers, %d running, queued %d", s.Workers, s.Running, s.Queued)
		}
		p.Close()
	})
}

func TestReviewParentPauseDoesNotStopTurnsOfSub(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		s := newSub(t, p)
		k := shoal.NewKeyed[int](s)
		var n atomic.Int32
		for range 1000 {
			must(t, k.Submit(1, func() { n.Add(1); time.Sleep(time.Second) }))
		}
		time.Sleep(500 * time.Millisecond)
		p.Pause()
		time.Sleep(10 * time.Second)
		if n := n.Load(); n > 1 {
			t.Errorf("10 s after Pause of the parent %d tasks of the sub-pool have run", n)
		}
		p.Close()
	})
}

func TestReviewLocalRace(t *testing.T) {
	p := newPool(t, fixed(2)...)
	l := shoal.NewLocal(p, func(w int) (*int, error) { return new(int), nil }, nil)
	gc := make(chan *shoal.Group)
	begun := make(chan bool)
	t2 := shoal.Go(bg, p, func(ctx context.Context) (int, error) { g := <-gc; return 0, g.Wait() })
	var counts [2]int
	t1 := shoal.Go(bg, p, func(ctx context.Context) (int, error) {
		mine, err := l.Get(ctx)
		if err != nil {
			return 0, err
		}
		g := p.Group(ctx)
		g.Go(func(ctx context.Context) error {
			r, err := l.Get(ctx)
			close(begun)
			if err != nil {
				return err
			}
			for range 1000 {
				*r++
			}
			counts[1] = *r
			return nil
		})
		gc <- g
		<-begun
		for range 1000 {
			*mine++
		}
		counts[0] = *mine
		return 0, nil
	})
	for _, f := range []*shoal.Future[int]{t1, t2} {
		if _, err := f.Wait(bg); err != nil {
			t.Error(err)
		}
	}
	if counts != [2]int{1000, 1000} {
		t.Errorf("the two tasks counted to %v, each with a resource of its own", counts)
	}
	closeAll(t, p)
}

func TestReviewMapSilentTruncation(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
	release := hold(t, p, 1)
	defer func() { release(); closeAll(t, p) }()
	ctx, cancel := context.WithCancel(bg)
	ran := 0
	in := func(yield func(int) bool) {
		for i := 0; i < 10 && yield(i); i++ {
		}
	}
	err := shoal.ForEach(ctx, p, in, func(_ context.Context, i int) error {
		ran++
		if i == 2 {
			cancel() // or: ctx's deadline passes while f runs
		}
		return nil
	})
	if ran < 10 && err == nil {
		t.Errorf("ForEach ran %d of 10 items and returned nil", ran)
	}
}

func TestReviewWaitWhenPausedAndCanceled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		p.Pause()
		f := shoal.Go(bg, p, one)
		f.Cancel()
		ctx, cancel := context.WithTimeout(bg, 200*time.Millisecond)
		defer cancel()
		if err := p.WaitContext(ctx); err != nil {
			t.Errorf("nothing is queued or running (%+v), and WaitContext = %v", p.Stats().InFlight, err)
		}
		closeAll(t, p)
	})
}

func TestReviewErrChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		parent, cancel := context.WithTimeout(bg, 50*time.Millisecond)
		defer cancel()
		var kept context.Context
		must(t, p.SubmitContext(parent, func(ctx context.Context) { kept = ctx }))
		p.Wait()
		first := kept.Err()
		<-parent.Done()
		kept.Done()
		if second := kept.Err(); first != second {
			t.Errorf("Err was %v, and is %v", first, second)
		}
		closeAll(t, p)
	})
}

func TestReviewFutureRetains(t *testing.T) {
	for _, how := range []string{"ctx", "closed"} {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		ctx, cancel := context.WithCancel(bg)
		freed := make(chan struct{})
		mk := func() *shoal.Future[int] {
			big := new([1 << 20]byte)
			runtime.AddCleanup(big, func(int) { close(freed) }, 0)
			return shoal.Go(ctx, p, func(context.Context) (int, error) { return int(big[0]), nil })
		}
		f := mk()
		if how == "ctx" {
			cancel()
			release()
			p.Wait()
		} else {
			closed := inBackground(func() { p.Close() })
			<-f.Done()
			release()
			<-closed
		}
		f.Wait(bg)
		closeAll(t, p)
		collect(freed) // that it is kept is seen by this not ending
		runtime.KeepAlive(f)
		cancel()
	}
}

func TestReviewGroupRetains(t *testing.T) {
	for _, how := range []string{"ran", "refused"} {
		p := newPool(t, append(fixed(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))...)
		release := func() {}
		if how == "refused" {
			release = hold(t, p, 1)
		}
		g := p.Group(bg)
		freed := make(chan struct{})
		func() {
			big := new([1 << 20]byte)
			runtime.AddCleanup(big, func(int) { close(freed) }, 0)
			g.Go(func(context.Context) error { _ = big[0]; return nil })
		}()
		if err := g.Wait(); (err != nil) != (how == "refused") {
			t.Errorf("%s: Wait = %v", how, err)
		}
		release()
		collect(freed) // that it is kept is seen by this not ending
		runtime.KeepAlive(g)
		closeAll(t, p)
	}
}

func TestReviewRoundWithoutAWaitEndsItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		g := p.Group(bg)
		gate := make(chan struct{})
		g.Go(func(context.Context) error { <-gate; return nil })
		first := g.Context()
		first.Done()
		wantErr(t, "WaitContext", g.WaitContext(canceledContext()), context.Canceled)
		close(gate)
		synctest.Wait() // that round is over
		g.Go(fine)
		must(t, g.Wait())
		if first.Err() == nil {
			t.Error("the context of the first round never ends")
		}
		g.Go(fine)
		if err := g.WaitContext(g.Context()); err != nil { // which ends because the round is over
			t.Errorf("WaitContext with the group's own context: %v", err)
		}
		closeAll(t, p)
	})
}

func TestReviewGroupOutlivesItsTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		var g *shoal.Group
		shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			g = p.Group(context.WithoutCancel(ctx))
			return 0, nil
		}).Wait(bg)
		p.Pause()
		var ran atomic.Bool
		g.Go(func(context.Context) error { ran.Store(true); return nil })
		done := inBackground(func() { g.Wait() })
		synctest.Wait()
		if ran.Load() {
			t.Error("a paused pool ran a task, on a goroutine that is in none")
		}
		p.Resume()
		<-done
		closeAll(t, p)
	})
}

func TestReviewErrorsAreCollectedInTheOrderOfGo(t *testing.T) {
	p := newPool(t, fixed(1)...)
	g := p.Group(bg, shoal.CollectErrors())
	boom := errors.New("boom")
	g.Go(func(context.Context) error { return boom })
	g.Go(nil)
	g.Go(func(context.Context) error { return boom })
	if got, want := g.Wait().Error(), errors.Join(boom, shoal.ErrNilTask, boom).Error(); got != want {
		t.Errorf("Wait = %q, want %q", got, want)
	}
	closeAll(t, p)
}

func TestReviewLocalNeverClosed(t *testing.T) {
	p := newPool(t, append(fixed(1), shoal.WithMaxTasksPerWorker(1))...)
	var opened, closed atomic.Int32
	l := shoal.NewLocal(p, func(w int) (int, error) { opened.Add(1); return w, nil }, func(int) { closed.Add(1) })
	begun, goOn := make(chan bool), make(chan bool)
	var child *shoal.Future[int]
	shoal.Go(bg, p, func(ctx context.Context) (int, error) {
		child = shoal.Go(bg, p, func(ctx context.Context) (int, error) {
			begun <- true
			<-goOn
			return l.Get(ctx)
		})
		go func() { child.Wait(ctx) }()
		<-begun
		return 0, nil
	}).Wait(bg)
	for range 2 { // the tombstone, and one after it
		p.SubmitWait(bg, func(context.Context) error { return nil })
	}
	goOn <- true
	_, err := child.Wait(bg)
	closeAll(t, p)
	if opened.Load() != closed.Load() {
		t.Errorf("opened %d, closed %d (%v)", opened.Load(), closed.Load(), err)
	}
}

func TestReviewMapWhoseFunctionExitsInsideItsSubmission(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))
	release, began := make(chan struct{}), make(chan struct{})
	must(t, p.Submit(func() { close(began); <-release }))
	<-began
	done := make(chan struct{})
	go func() {
		defer close(done)
		items := func(yield func(int) bool) {
			defer func() { time.AfterFunc(time.Millisecond, func() { close(release) }) }()
			for i := range 3 {
				if !yield(i) {
					return
				}
			}
		}
		for range shoal.MapUnordered(bg, p, items, func(_ context.Context, i int) (int, error) {
			if i == 0 {
				<-release
				return i, nil
			}
			runtime.Goexit()
			return 0, nil
		}) {
		}
	}()
	<-done
	p.Wait()
}

func TestReviewWaitWithAContextThatHasEndedRunsNothing(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(1))
	ran := false
	f := shoal.Go(bg, p, func(ctx context.Context) (int, error) {
		over, cancel := context.WithCancel(ctx)
		cancel()
		u := shoal.Go(bg, p, func(context.Context) (int, error) { ran = true; return 0, nil })
		if _, err := u.Wait(over); err != context.Canceled || ran {
			t.Errorf("Wait with a context that has ended: %v, the task ran: %v", err, ran)
		}
		return 1, nil
	})
	if n, err := f.Wait(bg); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestReviewContextsCanBePrinted(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	print := func(ctx context.Context) {
		done := make(chan struct{})
		go func() { ctx.Done(); close(done) }()
		if s := fmt.Sprintf("%v", ctx); !strings.Contains(s, "context.Background.WithTask") {
			t.Errorf("the context is %q", s)
		}
		<-done
	}
	must(t, p.SubmitContext(bg, print))
	must(t, p.SubmitWait(bg, func(ctx context.Context) error { print(ctx); return nil }))
	g := p.Group(bg)
	g.Go(func(ctx context.Context) error { print(ctx); return nil })
	print(g.Context())
	must(t, g.Wait())
	p.Wait()
}

func TestReviewResizeReclaimsWhereNobodyMayIdle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMinWorkers(8), shoal.WithMaxWorkers(8), shoal.WithIdleTimeout(0))
		synctest.Wait() // all are parked
		must(t, p.Resize(2, 8))
		synctest.Wait()
		if n := p.Stats().Workers; n != 2 {
			t.Errorf("%d workers, of which 2 need stay", n)
		}
		must(t, p.Close())
	})
}

func TestReviewCollectedErrorsOfWhoGivesUpAtTheLimitComeInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2))
		ctx, cancel := context.WithCancel(bg)
		boom, release := errors.New("boom"), make(chan struct{})
		g := p.Group(ctx, shoal.CollectErrors(), shoal.Limit(1))
		g.Go(func(context.Context) error { <-release; return boom })
		go g.Go(func(context.Context) error { return nil })
		synctest.Wait() // it is at the limit
		cancel()
		synctest.Wait()
		close(release)
		if got := fmt.Sprint(g.Wait()); got != "boom\ncontext canceled" {
			t.Errorf("Wait = %q", got)
		}
		must(t, p.Close())
	})
}

// A task of a sub-pool that waits with the context of the task around it, which tells of
// no worker of the sub-pool's, has one all the same.
func TestReviewWaitWithTheContextOfTheTaskAround(t *testing.T) {
	one := func(context.Context) (int, error) { return 1, nil }
	for name, wait := range map[string]func(ctx context.Context, p *shoal.Pool) error{
		"Future": func(ctx context.Context, p *shoal.Pool) error {
			_, err := shoal.Go(ctx, p, one).Wait(ctx)
			return err
		},
		"Group": func(ctx context.Context, p *shoal.Pool) error {
			g := p.Group(ctx)
			g.Go(fine)
			return g.Wait()
		},
		"ForEach": func(ctx context.Context, p *shoal.Pool) error {
			return shoal.ForEach(ctx, p, upTo(3), func(context.Context, int) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, shoal.WithMaxWorkers(2))
				sub := newSub(t, p, shoal.WithMaxWorkers(1))
				done := make(chan error, 1)
				shoal.Go(bg, p, func(ctx context.Context) (int, error) {
					_, err := shoal.Go(ctx, sub, func(context.Context) (int, error) { return 0, wait(ctx, sub) }).Wait(ctx)
					done <- err
					return 0, nil
				})
				select {
				case err := <-done:
					wantErr(t, "waiting", err, nil)
				case <-time.After(time.Hour):
					t.Errorf("it hangs: %+v", sub.Stats())
					sub.Close()
				}
				shutClean(t, p)
			})
		})
	}
}

// If a task of one pool has submitted a task to another pool, and has ended, the second
// task has no worker of the first pool.
func TestReviewTheContextOfATaskThatHasEndedIsNoPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4))
		a := newSub(t, p, shoal.WithMaxWorkers(1))
		b := newSub(t, p, shoal.WithMaxWorkers(1))
		var now, most atomic.Int64
		second := func(context.Context) (int, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			return int(now.Add(-1)), nil
		}
		var f *shoal.Future[int]
		shoal.Go(bg, a, func(ctx context.Context) (int, error) {
			f = shoal.Go(context.WithoutCancel(ctx), b, func(ctx context.Context) (int, error) {
				time.Sleep(time.Second) // the task of a has ended
				x, y := shoal.Go(ctx, a, second), shoal.Go(ctx, a, second)
				time.Sleep(time.Millisecond) // x has begun
				y.Wait(ctx)
				return x.Wait(ctx)
			})
			return 0, nil
		}).Wait(bg)
		f.Wait(bg)
		if most.Load() != 1 {
			t.Errorf("%d tasks of a sub-pool of one worker at once", most.Load())
		}
		shutClean(t, p)
	})
}

// A task of the parent that submits to the sub-pool and waits, again and again, does not fill the queue
// with tombstones, though the first task there is never taken.
func TestReviewGuestsDoNotFillTheQueue(t *testing.T) {
	p := newPool(t, shoal.WithMaxWorkers(1))
	sub := newSub(t, p, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.Reject))
	err := p.SubmitWait(bg, func(ctx context.Context) error {
		must(t, sub.Submit(func() {})) // p's only worker is here
		for range 100_000 {
			if _, err := shoal.Go(ctx, sub, func(context.Context) (int, error) { return 0, nil }).Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	wantErr(t, "waiting for 100,000 tasks", err, nil)
	shutClean(t, p)
}

// A task that its waiter runs counts as one that has ended. So the watchdog reports a stall at the
// same time wherever that task lies in the queue.
func TestReviewAWaitThatRunsItsTaskIsNoStall(t *testing.T) {
	noLog(t)
	for _, front := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			begun := time.Now()
			told := make(chan time.Duration, 10)
			p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(10*time.Second), shoal.WithAlarmHandler(func(shoal.Alarm) {
				told <- time.Since(begun)
			}))
			f := shoal.Go(bg, p, func(ctx context.Context) (int, error) {
				if !front {
					must(t, p.Submit(nothing))
				}
				x := shoal.Go(ctx, p, func(context.Context) (int, error) { time.Sleep(20 * time.Second); return 0, nil })
				if front {
					must(t, p.Submit(nothing))
				}
				time.Sleep(6 * time.Second)
				return x.Wait(ctx)
			})
			f.Wait(bg)
			shutClean(t, p)
			if d := <-told; d != 17500*time.Millisecond { // the end is at 6 s, and is seen at 7.5 s
				t.Errorf("at the front %v: told of a stall after %v", front, d)
			}
			if len(told) != 0 {
				t.Error("told twice")
			}
		})
	}
}

func TestReviewWaitContextInATaskEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		must(t, p.SubmitWait(bg, func(ctx context.Context) error {
			g := p.Group(ctx)
			for range 10 {
				g.Go(func(context.Context) error { time.Sleep(time.Second); return nil })
			}
			short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			begun := time.Now()
			wantErr(t, "WaitContext", g.WaitContext(short), context.DeadlineExceeded)
			if d := time.Since(begun); d != time.Second {
				t.Errorf("it took %v, and a task a second", d)
			}
			return g.Wait()
		}))
		shutClean(t, p)
	})
}

// A group that is made in a task, and adds tasks at the limit or to a full pool, runs them
// itself and keeps none of them.
func TestReviewGroupKeepsNoTaskThatRanInItsGo(t *testing.T) {
	for name, opts := range map[string][]shoal.GroupOption{"full": nil, "limit": {shoal.Limit(1)}} {
		p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1))
		must(t, p.SubmitWait(bg, func(ctx context.Context) error {
			g := p.Group(ctx, opts...)
			for range 1000 {
				g.Go(fine)
			}
			before := heapInUse()
			for range 50_000 {
				g.Go(fine)
			}
			if grown := heapInUse() - before; grown > 1<<20 {
				t.Errorf("%s: %d bytes are kept", name, grown)
			}
			return g.Wait()
		}))
		shutClean(t, p)
	}
}

// When the worker of a key has stopped, the activation of the key is in the queue again. Then its
// waiting tasks can be displaced, the first one first.
func TestReviewDropOldestDisplacesWhatWaitsBehindATaskThatHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(3, shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest))...)
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		must(t, k.Submit(1, func() { <-gate }))
		n, ran := 0, []int(nil)
		for i := 0; k.Submit(1, func() { ran = append(ran, i) }) == nil; i++ { // the two free workers are room too
			synctest.Wait()
			n++
		}
		p.Pause()
		close(gate) // which makes room for one
		synctest.Wait()
		var late atomic.Int32
		must(t, p.Submit(func() { late.Add(1) }))
		if got := p.Stats().Dropped; n != 4 || got != 0 {
			t.Errorf("of %d tasks that waited for their key %d were dropped while there was room", n, got)
		}
		must(t, p.Submit(func() { late.Add(1) }))
		if got := p.Stats().Dropped; got != 1 {
			t.Errorf("of %d tasks that waited for their key %d were dropped, want one for one", n, got)
		}
		p.Resume()
		p.Wait()
		if late.Load() != 2 || !slices.Equal(ran, []int{1, 2, 3}) {
			t.Errorf("tasks %v of the key ran, want all but the first, 0, in order; and %d others", ran, late.Load())
		}
		shutClean(t, p)
	})
}

func TestReviewDroppingATurnIsNoEndOfAStall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2, shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest),
			shoal.WithStallAfter(10*time.Second), shoal.WithLogger(slog.New(slog.DiscardHandler)))...)
		k := shoal.NewKeyed[int](p)
		gate, long := make(chan struct{}), make(chan struct{})
		must(t, k.Submit(1, func() { <-gate }))
		synctest.Wait()
		for range 2 {
			must(t, k.Submit(1, nothing))
		}
		synctest.Wait()
		must(t, p.Submit(func() { <-long }))
		synctest.Wait()
		must(t, p.Resize(0, 1))
		close(gate)
		synctest.Wait()
		time.Sleep(6 * time.Second)
		must(t, p.Submit(nothing))
		if got := p.Stats(); got.Stalled != 3500*time.Millisecond || got.Dropped != 1 { // it is seen after 2.5 s
			t.Errorf("stalled for %v with %d dropped, want 3.5s and 1", got.Stalled, got.Dropped)
		}
		time.Sleep(7 * time.Second)
		if got := p.Stats().Stalls; got != 1 {
			t.Errorf("%d stalls, want 1", got)
		}
		close(long)
		p.Wait()
		shutClean(t, p)
	})
}

// A pause is no part of a stall, though no task ends meanwhile. Nor is that of the sub-pool whose tasks wait.
func TestReviewAStallBeforeAPauseIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		sub := newSub(t, p)
		must(t, p.Submit(func() { time.Sleep(time.Hour) }))
		synctest.Wait()
		must(t, sub.Submit(func() {}))
		stalled := func(what string, want time.Duration) {
			t.Helper()
			if s := p.Stats(); s.Stalled != want {
				t.Errorf("%s: stalled for %v, want %v", what, s.Stalled, want)
			}
		}
		time.Sleep(time.Minute)
		stalled("at the first look", 0)
		time.Sleep(time.Minute)
		stalled("a minute later", time.Minute)
		for _, paused := range []*shoal.Pool{p, sub} {
			paused.Pause()
			stalled("while it is paused", 0)
			time.Sleep(time.Minute)
			paused.Resume()
			stalled("after the pause", 0)
			time.Sleep(time.Minute)
			stalled("a minute after it", time.Minute)
		}
		shutClean(t, p)
	})
}

// Submitters wait too, while nothing is queued.
func TestReviewAStallOfSubmittersOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		must(t, p.Submit(func() { time.Sleep(time.Hour) }))
		go p.Submit(func() {})
		synctest.Wait()
		p.Stats()
		time.Sleep(time.Minute)
		if s := p.Stats(); s.Stalled != time.Minute || s.Blocked != 1 || s.Queued != 0 {
			t.Errorf("stalled for %v, %d blocked, %d queued, want 1m, 1, 0", s.Stalled, s.Blocked, s.Queued)
		}
		shutClean(t, p)
	})
}

// However many tasks are cancelled before a worker comes to them, their places are free.
func TestPlacesOfCanceledTasksComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(4), shoal.WithFullPolicy(shoal.Reject))...)
		free := make(chan struct{})
		must(t, p.Submit(func() { <-free }))
		must(t, p.Submit(func() {}))
		for i := range 100 {
			u, err := shoal.TryGo(bg, p, func(context.Context) (int, error) { return 0, nil })
			must(t, err)
			if i%2 == 0 {
				must(t, p.Submit(func() {})) // among those that are cancelled
			}
			if !u.Cancel() {
				t.Fatal("a task that waits was not cancelled")
			}
			if i%2 == 0 {
				ctx, cancel := context.WithTimeout(bg, time.Second)
				if err := p.SubmitWait(ctx, fine); err != context.DeadlineExceeded {
					t.Fatal(err)
				}
				cancel()
				free <- struct{}{}
				must(t, p.Submit(func() { <-free }))
				synctest.Wait()
			}
		}
		close(free)
		p.Wait()
		if s := p.Stats(); s.Canceled != 150 || s.Completed != 1+1+50+50 {
			t.Errorf("%d cancelled, %d completed", s.Canceled, s.Completed)
		}
		shutClean(t, p)
	})
}

// Tasks of two sub-pools hold all workers of the parent: it is stalled if a task of a sub-pool waits for one
// of them, and not if all that wait are held up in the sub-pool itself.
func TestReviewAStallOfTheParentByTasksOfSubPools(t *testing.T) {
	for _, c := range []struct {
		name    string
		most    int // of each sub-pool
		paused  bool
		stalled time.Duration
	}{
		{"they wait for the parent's workers", 3, false, time.Minute},
		{"they are at their own maximum", 2, false, 0},
		{"they are paused", 3, true, 0},
	} {
		inBubble(t, func(t *testing.T) {
			root := newPool(t, fixed(4)...)
			gate := make(chan struct{})
			for range 2 {
				mid := newSub(t, root)
				sub := newSub(t, mid, shoal.WithMaxWorkers(c.most))
				for range 2 {
					must(t, sub.Submit(func() { <-gate }))
				}
				synctest.Wait()
				if c.paused {
					mid.Pause()
				}
				must(t, sub.Submit(func() {}))
			}
			synctest.Wait()
			root.Stats()
			time.Sleep(time.Minute)
			if s := root.Stats(); s.Stalled != c.stalled {
				t.Errorf("%s: stalled for %v, want %v: %d of %d run", c.name, s.Stalled, c.stalled, s.Running, s.MaxWorkers)
			}
			for _, mid := range root.Subs() {
				mid.Resume()
			}
			close(gate)
			shutClean(t, root)
		})
	}
}

// All workers hang in a sub-pool whose maximum is the default, that of its parent.
func TestReviewAStallOfTheParentByOneSubPool(t *testing.T) {
	for _, capacity := range []int{0, 1} { // at 0 a submitter waits
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2)...)
			sub := newSub(t, p, shoal.WithQueueCapacity(capacity))
			gate := make(chan struct{})
			for range 2 {
				must(t, sub.Submit(func() { <-gate }))
			}
			go sub.Submit(func() {})
			synctest.Wait()
			p.Stats()
			time.Sleep(time.Minute)
			if s := p.Stats(); s.Stalled != time.Minute {
				t.Errorf("capacity %d: stalled for %v, want a minute", capacity, s.Stalled)
			}
			close(gate)
			shutClean(t, p)
		})
	}
}

// How long a task has waited is not forgotten when cells are freed.
func TestReviewWaitTimeWhileClientsGiveUp(t *testing.T) {
	for _, timing := range []shoal.Timing{shoal.TimingFull, shoal.TimingSampled} {
		inBubble(t, func(t *testing.T) {
			// Cells are freed when 156 tasks have given up. Then the others move on by 256 tickets, so that the
			// one in 64 that is timed stays so.
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(154), shoal.WithTiming(timing))...)
			gate := make(chan struct{})
			must(t, p.Submit(func() { <-gate }))
			time.Sleep(time.Hour)
			for range 100 {
				must(t, p.Submit(func() {}))
			}
			time.Sleep(time.Hour)
			for range 1000 {
				u, err := shoal.TryGo(bg, p, func(context.Context) (int, error) { return 1, nil })
				must(t, err)
				u.Cancel()
			}
			close(gate)
			p.Wait()
			long := uint64(0)
			for end, n := range p.Stats().WaitTime.Buckets() {
				if end > time.Hour && end < time.Hour+5*time.Minute {
					long += n
				} else if end > 1 { // the first task has not waited
					t.Errorf("%v: a wait of less than %v, want an hour", timing, end)
				}
			}
			if timing == shoal.TimingFull && long != 100 {
				t.Errorf("%d of 100 waits were measured", long)
			}
			if timing == shoal.TimingSampled && long != 1 {
				t.Errorf("%d waits were measured, want 1", long)
			}
			shutClean(t, p)
		})
	}
}

// Clients that come and give up do not hide a stall: each look finds that one waits. But one that finds none ends it.
func TestReviewAStallWhileClientsGiveUp(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity int
		own      int // other tasks that wait
		below    bool
		want     time.Duration
	}{
		{"nothing else waits", 1, 0, false, 2 * time.Minute},
		{"nothing else waits, capacity 0", 0, 0, false, 2 * time.Minute},
		{"a task waits", 2, 1, false, 2 * time.Minute},
		{"a task waits below", 1, 0, true, 2 * time.Minute},
	} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(c.capacity))...)
			gate := make(chan struct{})
			must(t, p.Submit(func() { <-gate }))
			for range c.own {
				must(t, p.Submit(func() {}))
			}
			if c.below {
				must(t, newSub(t, p).Submit(func() {}))
			}
			synctest.Wait()
			var s shoal.Stats
			for range 61 {
				ctx, cancel := context.WithTimeout(bg, time.Second)
				looked := make(chan struct{})
				time.AfterFunc(time.Second/2, func() { s = p.Stats(); close(looked) })
				wantErr(t, "SubmitWait", p.SubmitWait(ctx, fine), context.DeadlineExceeded)
				cancel()
				<-looked
				time.Sleep(time.Second)
			}
			if s.Stalled != c.want {
				t.Errorf("%s: stalled for %v, want %v", c.name, s.Stalled, c.want)
			}
			if s = p.Stats(); c.own == 0 && !c.below && s.Stalled != 0 {
				t.Errorf("%s: nothing waits, and it is stalled for %v", c.name, s.Stalled)
			}
			close(gate)
			shutClean(t, p)
		})
	}
}

// A pool is stalled if its own tasks use up the maximum of a pool above it, and also if more wait than its
// capacity allows for.
func TestReviewAStallBelowALowerMaximum(t *testing.T) {
	stuck := func(t *testing.T, p *shoal.Pool) {
		gate := make(chan struct{})
		must(t, p.Submit(func() { <-gate }))
		must(t, p.Submit(func() { close(gate) }))
	}
	for name, test := range map[string]func(t *testing.T) (root, stalled *shoal.Pool){
		"a larger maximum": func(t *testing.T) (root, stalled *shoal.Pool) {
			root = newPool(t, fixed(1)...)
			stalled = newSub(t, root, shoal.WithMaxWorkers(2))
			stuck(t, stalled)
			return root, stalled
		},
		"Resize of the parent": func(t *testing.T) (root, stalled *shoal.Pool) {
			root = newPool(t, shoal.WithMaxWorkers(2))
			stalled = newSub(t, root)
			must(t, root.Resize(0, 1))
			stuck(t, stalled)
			return root, stalled
		},
		"capacity 0": func(t *testing.T) (root, stalled *shoal.Pool) {
			p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(0))
			p.Pause()
			stuck(t, p)
			must(t, p.Resize(0, 1))
			p.Resume()
			return p, p
		},
	} {
		inBubble(t, func(t *testing.T) {
			root, p := test(t)
			synctest.Wait()
			p.Stats()
			time.Sleep(time.Minute)
			if s := p.Stats(); s.Stalled != time.Minute {
				t.Errorf("%s: stalled for %v: %d of %d run, %d wait", name, s.Stalled, s.Running, s.MaxWorkers, s.InFlight-s.Running)
			}
			must(t, root.Resize(0, 2))
			shutClean(t, root)
		})
	}
}

// The panic of a Local's close reaches the handler of the Local's pool.
func TestReviewThePanicOfACloseReachesTheHandlerOfItsPool(t *testing.T) {
	var root, sub atomic.Int64
	count := func(n *atomic.Int64) shoal.Option {
		return shoal.WithPanicHandler(func(*shoal.PanicError) { n.Add(1) })
	}
	p := newPool(t, fixed(1, count(&root))...)
	s := newSub(t, p, count(&sub))
	l := shoal.NewLocal(s, func(int) (int, error) { return 1, nil }, func(int) { panic("close") })
	must(t, s.SubmitWait(bg, func(ctx context.Context) error { _, err := l.Get(ctx); return err }))
	shutClean(t, p)
	if root.Load() != 0 || sub.Load() != 1 {
		t.Errorf("%d panics at the root, %d at the sub-pool", root.Load(), sub.Load())
	}
}

// While a pool above is paused, a pool is not stalled, and the time of the pause does not count.
func TestReviewAPauseAboveIsNoStall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		s := newSub(t, p)
		gate := make(chan struct{})
		must(t, s.Submit(func() { <-gate }))
		must(t, s.Submit(func() {}))
		synctest.Wait()
		p.Pause()
		s.Stats()
		time.Sleep(time.Minute)
		if d := s.Stats().Stalled; d != 0 {
			t.Errorf("stalled for %v in a pause", d)
		}
		p.Resume()
		s.Stats()
		time.Sleep(time.Second)
		if d := s.Stats().Stalled; d != time.Second {
			t.Errorf("stalled for %v, a second after a pause", d)
		}
		close(gate)
		shutClean(t, p)
	})
}
