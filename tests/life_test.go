package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// ----- Submit while the pool ends -----

// endings are the ways to end a pool after which all is over.
var endings = []struct {
	name string
	end  func(p *shoal.Pool) error
}{
	{"Shutdown", shutdown},
	{"Close", (*shoal.Pool).Close},
}

// Whatever the moment, a Submit is either accepted, and then the task has run
// (or was dropped, and counted) when the pool has ended; or it is refused.
func TestSubmitRacingTheEnd(t *testing.T) {
	submitContext := func(p *shoal.Pool, y *tally, id int) error {
		return p.SubmitContext(context.Background(), y.taskCtx(id))
	}
	tiny := func(policy shoal.FullPolicy) []shoal.Option {
		return fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy))
	}
	type submitFunc = func(p *shoal.Pool, y *tally, id int) error
	for _, c := range []struct {
		name   string
		opts   []shoal.Option
		submit submitFunc
	}{
		{"default", nil, submitPlain},
		{"two workers", fixed(2), submitPlain},
		{"Block", tiny(shoal.Block), submitPlain},
		{"hand-off", fixed(2, shoal.WithQueueCapacity(0)), submitPlain},
		{"Reject", tiny(shoal.Reject), submitPlain},
		{"Spawn", tiny(shoal.Spawn), submitPlain},
		{"CallerRuns", tiny(shoal.CallerRuns), submitPlain},
		{"DropOldest", tiny(shoal.DropOldest), submitPlain},
		{"idle timeout 0", []shoal.Option{shoal.WithMaxWorkers(2), shoal.WithIdleTimeout(0)}, submitPlain},
		{"one task per worker", fixed(2, shoal.WithMaxTasksPerWorker(1)), submitPlain},
		{"SubmitContext", tiny(shoal.Block), submitContext},
		{"SubmitContext Spawn", tiny(shoal.Spawn), submitContext},
		{"SubmitContext CallerRuns", tiny(shoal.CallerRuns), submitContext},
		{"SubmitWait", fixed(2, shoal.WithQueueCapacity(1)), func(p *shoal.Pool, y *tally, id int) error {
			err := p.SubmitWait(context.Background(), func(context.Context) error { y.hit(id); return nil })
			if errors.Is(err, shoal.ErrDropped) {
				err = nil // it had been accepted
			}
			return err
		}},
		{"SubmitBatch", fixed(2, shoal.WithQueueCapacity(3)), func(p *shoal.Pool, y *tally, id int) error {
			_, err := p.SubmitBatch([]func(){y.task(id)})
			return err
		}},
		{"SubmitAfter", tiny(shoal.Block), func(p *shoal.Pool, y *tally, id int) error {
			_, err := p.SubmitAfter(time.Duration(id%3)*5*time.Microsecond, y.task(id))
			return err
		}},
		{"SubmitAfter DropOldest", tiny(shoal.DropOldest), func(p *shoal.Pool, y *tally, id int) error {
			_, err := p.SubmitAfter(time.Duration(id%3)*5*time.Microsecond, y.task(id))
			return err
		}},
		{"a task that submits", fixed(2, shoal.WithQueueCapacity(1)), func(p *shoal.Pool, y *tally, id int) error {
			return p.Submit(func() {
				y.hit(id)
				y.note(raceTasks+id, p.Submit(y.task(raceTasks+id)))
			})
		}},
	} {
		for _, e := range endings {
			t.Run(c.name+"/"+e.name, func(t *testing.T) {
				n := testpool.Reps(50, 25, 10)
				if c.opts == nil {
					n = testpool.Reps(300, 300, 30)
				}
				for round := range n {
					raceEnd(t, c.opts, raceEach, c.submit, e.name, e.end, strings.HasPrefix(c.name, "SubmitAfter") || strings.HasSuffix(c.name, "DropOldest"))
					if t.Failed() {
						t.Fatalf("in round %d", round)
					}
				}
			})
		}
	}
}

const (
	raceSubmitters = 8
	raceEach       = 12
	raceTasks      = raceSubmitters * raceEach
)

// submitPlain is how most races submit.
func submitPlain(p *shoal.Pool, y *tally, id int) error { return p.Submit(y.task(id)) }

// raceEnd has 8 submitters submit each tasks, or until they are refused for
// good, and ends the pool at a random moment meanwhile. It returns how many
// tasks were accepted.
func raceEnd(t *testing.T, opts []shoal.Option, each int, submit func(p *shoal.Pool, y *tally, id int) error,
	name string, end func(p *shoal.Pool) error, drops bool) (accepted int) {
	p := newPool(t, opts...)
	y := newTally(2 * raceSubmitters * each)
	var tried atomic.Int32
	var wg sync.WaitGroup
	for s := range raceSubmitters {
		wg.Go(func() {
			for i := range each {
				tried.Add(1)
				switch err := y.note(s*each+i, submit(p, y, s*each+i)); {
				case err == nil:
				case errors.Is(err, shoal.ErrClosed):
					return
				case !errors.Is(err, shoal.ErrQueueFull):
					t.Errorf("submit: %v", err)
				}
			}
		})
	}
	for when := rand.Int32N(int32(raceSubmitters * each)); tried.Load() < when; {
		runtime.Gosched()
	}
	err := end(p)
	y.seal()
	testpool.NoGoroutines(t, "after "+name)
	s := p.Stats()
	wg.Wait()
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if now := p.Stats(); now.Submitted != s.Submitted || now.Completed != s.Completed || now.Dropped != s.Dropped {
		t.Errorf("the counters moved after the end:\n%+v\n%+v", s, now)
	}
	checkEnded(t, p)
	if accepted = y.checkDropped(t, s.Dropped); uint64(accepted) != s.Submitted {
		t.Errorf("%d accepted, Submitted %d", accepted, s.Submitted)
	}
	if name == "Shutdown" && !drops && s.Dropped != 0 {
		t.Errorf("a graceful end dropped %d", s.Dropped)
	}
	return accepted
}

// ----- many ends -----

// ends are calls that end a pool, for TestEndsInEveryOrder.
var ends = []struct {
	name string
	end  func(p *shoal.Pool) error
}{
	{"Shutdown", shutdown},
	{"Close", (*shoal.Pool).Close},
	{"expired Shutdown", func(p *shoal.Pool) error { return p.Shutdown(canceledContext()) }},
}

var orders = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {0, 0, 0}, {1, 1, 1}, {2, 2, 2}}

func TestEndsInEveryOrderHaveOneOutcome(t *testing.T) {
	for _, queued := range []int{0, 3} {
		for _, running := range []int{0, 1, 2} {
			for _, order := range orders {
				name := fmt.Sprintf("queued=%d/running=%d", queued, running)
				for _, i := range order {
					name += "/" + ends[i].name
				}
				t.Run(name, func(t *testing.T) {
					inBubble(t, func(t *testing.T) { endInOrder(t, queued, running, order) })
				})
			}
		}
	}
}

func endInOrder(t *testing.T, queued, running int, order []int) {
	p := newPool(t, fixed(2)...)
	release := hold(t, p, running)
	y := newTally(queued)
	drained := running < 2 // a worker is free
	for i := range queued {
		y.note(i, p.Submit(y.task(i)))
	}
	synctest.Wait()
	var results [3]error
	var returned [3]<-chan struct{}
	for k, i := range order {
		returned[k] = inBackground(func() { results[k] = ends[i].end(p) })
		synctest.Wait()
		if waits := running > 0 && i != 2; isClosed(returned[k]) == waits && !(k > 0 && i == 0) {
			t.Errorf("%s, the call number %d, with %d tasks running: returned %v", ends[i].name, k+1, running, !waits)
		}
	}
	release()
	for k := range order {
		<-returned[k]
	}
	<-p.Done()
	testpool.NoGoroutines(t)
	checkEnded(t, p)

	final := p.Shutdown(context.Background())
	stopped := slices.Contains(order, 1) || slices.Contains(order, 2)
	for k, i := range order {
		switch {
		case i == 1:
			if results[k] != nil {
				t.Errorf("Close: %v", results[k])
			}
		case results[k] != final:
			t.Errorf("%s, number %d: %v, but later %v", ends[i].name, k+1, results[k], final)
		}
	}
	dropped := queued
	if drained || !stopped {
		dropped = 0
	}
	y.checkDropped(t, uint64(dropped))
	if s := p.Stats(); s.Dropped != uint64(dropped) {
		t.Errorf("%+v", s)
	}
	var inc *shoal.ShutdownError
	switch {
	case dropped > 0 || slices.Contains(order, 2) && running > 0:
		if !errors.As(final, &inc) || inc.Dropped != dropped {
			t.Errorf("outcome %v, want %d dropped", final, dropped)
		}
	case final != nil:
		t.Errorf("outcome %v, want nil", final)
	}
}

func TestEndsAtOnceHaveOneOutcome(t *testing.T) {
	for round := range 200 {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2, shoal.WithQueueCapacity(8))...)
			release := hold(t, p, round%3)
			y := newTally(8)
			for i := range 8 {
				y.note(i, p.Submit(y.task(i)))
			}
			var results [12]error
			var wg sync.WaitGroup
			for k := range results {
				wg.Go(func() { results[k] = ends[k%3].end(p) })
			}
			wg.Go(release)
			wg.Wait()
			<-p.Done()
			final := p.Shutdown(context.Background())
			for k, err := range results {
				if k%3 == 1 && err != nil || k%3 != 1 && err != final {
					t.Errorf("%s: %v, but at last %v", ends[k%3].name, err, final)
				}
			}
			checkEnded(t, p)
			y.checkDropped(t, p.Stats().Dropped)
			testpool.NoGoroutines(t)
		})
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// ----- Shutdown -----

func TestShutdownThatRunsOutOfTimeSaysWhatIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		release := hold(t, p, 2)
		y := newTally(3)
		for i := range 3 {
			y.note(i, p.Submit(y.task(i)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		err := p.Shutdown(ctx)
		if d := time.Since(begin); d != time.Minute {
			t.Errorf("it returned after %v", d)
		}
		var inc *shoal.ShutdownError
		if !errors.As(err, &inc) || inc.Dropped != 3 || inc.Running != 2 || inc.Cause != context.DeadlineExceeded {
			t.Errorf("%+v, want 3 dropped, 2 running", err)
		}
		wantErr(t, "unwrapped", err, context.DeadlineExceeded)
		if errors.Unwrap(err) != context.DeadlineExceeded {
			t.Errorf("Unwrap: %v", errors.Unwrap(err))
		}
		for _, part := range []string{"shoal: ", "3 dropped", "2 running", context.DeadlineExceeded.Error()} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if p.State() != shoal.Draining || isClosed(p.Done()) {
			t.Errorf("%v while tasks run", p.State())
		}
		release()
		<-p.Done()
		testpool.NoGoroutines(t)
		y.checkDropped(t, 3)
		checkEnded(t, p)
		if again := p.Shutdown(t.Context()); again != err {
			t.Errorf("again: %v", again)
		}
	})
}

func TestShutdownResumesAPausedPool(t *testing.T) {
	for _, capacity := range []int{0, 1, 64} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
			p.Pause()
			room := capacity + 1 // of the worker
			y := newTally(room + 1)
			fillQueue(t, p, y, room)
			waiter := make(chan error, 1)
			go func() { waiter <- p.Submit(func() { t.Error("a refused task ran") }) }()
			synctest.Wait()
			shutClean(t, p)
			wantErr(t, "a Submit that waited for room", <-waiter, shoal.ErrClosed)
			if n := y.checkAccepted(t); n != room {
				t.Errorf("%d", n)
			}
		})
	}
}

func TestCleanEndAtAnExpiredContextIsNil(t *testing.T) {
	for name, opts := range map[string][]shoal.Option{
		"never started": {},
		"workers":       fixed(3),
		"one worker":    fixed(1),
	} {
		for _, use := range []bool{false, true} {
			for _, parked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/used=%v/parked=%v", name, use, parked), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						p := newPool(t, opts...)
						if use {
							runsMore(t, p, 10)
						}
						if parked {
							synctest.Wait()
						}
						if err := p.Shutdown(canceledContext()); err != nil {
							t.Errorf("Shutdown: %v", err)
						}
						testpool.NoGoroutines(t)
						checkEnded(t, p)
					})
				})
			}
		}
	}
}

// With hooks a Shutdown that has no time may say that it did not see the end;
// but nil means that nothing runs any more.
func TestShutdownWithHooksReturnsNilOnlyWhenAllIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := newPool(t, fixed(2, shoal.WithWorkerHooks(nil, func(int) { <-gate }), shoal.WithWorkerHooks(func(int) {}, func(int) { <-gate }))...)
		runsMore(t, p, 10)
		synctest.Wait()
		var err error
		returned := inBackground(func() { err = p.Shutdown(canceledContext()) })
		synctest.Wait()
		if !isClosed(returned) {
			t.Error("a Shutdown without time waits for a hook")
		} else if err == nil {
			t.Error("Shutdown returned nil while stop hooks run")
		} else {
			wantErr(t, "Shutdown", err, context.Canceled)
		}
		close(gate)
		<-returned
		<-p.Done()
		closeAll(t, p)
	})
}

func TestCleanEndJustBeforeTheDeadlineIsNil(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		time.AfterFunc(time.Minute-1, release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		checkEnded(t, p)
	})
}

func TestShutdownDropsTasksThatAreNotYetDue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		stop, err := p.SubmitAfter(time.Hour, func() { t.Error("it ran") })
		if err != nil {
			t.Fatal(err)
		}
		shutClean(t, p)
		if s := p.Stats(); s.Dropped != 1 || s.Submitted != 1 {
			t.Errorf("%+v", s)
		}
		if stop() {
			t.Error("stopped after it was dropped")
		}
		<-time.After(2 * time.Hour)
	})
}

// ----- contexts -----

func TestCloseCancelsTaskContexts(t *testing.T) {
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn, shoal.CallerRuns} {
		for name, end := range map[string]func(p *shoal.Pool){
			"Close":            func(p *shoal.Pool) { p.Close() },
			"expired Shutdown": func(p *shoal.Pool) { p.Shutdown(canceledContext()) },
		} {
			t.Run(policy.String()+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))...)
					n := 3
					if policy == shoal.Block {
						n = 1
					}
					y := newTally(n)
					var wg sync.WaitGroup
					for i := range n {
						wg.Go(func() {
							y.note(i, p.SubmitContext(context.Background(), func(ctx context.Context) {
								if ctx.Err() != nil {
									t.Errorf("at its start: %v", ctx.Err())
								}
								child, cancel := context.WithTimeout(ctx, time.Hour)
								defer cancel()
								<-child.Done()
								if ctx.Err() != context.Canceled || !errors.Is(context.Cause(ctx), shoal.ErrClosed) ||
									!errors.Is(context.Cause(child), shoal.ErrClosed) {
									t.Errorf("err %v, cause %v", ctx.Err(), context.Cause(ctx))
								}
								y.hit(i)
							}))
						})
					}
					synctest.Wait()
					end(p)
					wg.Wait()
					<-p.Done()
					if got := y.checkAccepted(t); got != n {
						t.Errorf("%d of %d tasks ran", got, n)
					}
					closeAll(t, p)
				})
			})
		}
	}
}

func TestCloseCancelsATaskThatNeverLookedBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		started, gate := make(chan struct{}), make(chan struct{})
		p.SubmitContext(t.Context(), func(ctx context.Context) {
			close(started)
			<-gate
			if ctx.Err() != context.Canceled || !isClosed(ctx.Done()) || !errors.Is(context.Cause(ctx), shoal.ErrClosed) {
				t.Errorf("err %v, cause %v", ctx.Err(), context.Cause(ctx))
			}
		})
		<-started
		closed := inBackground(func() { p.Close() })
		synctest.Wait()
		if isClosed(closed) {
			t.Error("Close returned while a task ran")
		}
		close(gate)
		<-closed
		checkEnded(t, p)
	})
}

// foreign is a context of a type that package context does not know.
type foreign struct{ context.Context }

func (f foreign) Done() <-chan struct{} { return f.Context.Done() }
func (f foreign) Value(key any) any     { return nil }

func TestAPoolFollowsItsContextAsClose(t *testing.T) {
	for _, strange := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			parent, cancel := context.WithCancel(context.Background())
			defer cancel()
			given := parent
			if strange {
				given = foreign{parent}
			}
			p := newPool(t, fixed(1, shoal.WithContext(given))...)
			y := newTally(6)
			release := hold(t, p, 1)
			for i := range 3 {
				y.note(i, p.Submit(y.task(i)))
			}
			waiter := make(chan error, 1)
			go func() {
				waiter <- p.SubmitWait(context.Background(), func(context.Context) error { y.hit(3); return nil })
			}()
			synctest.Wait()
			cancel()
			wantErr(t, "who waits for a task", <-waiter, shoal.ErrDropped)
			y.accept(3)
			synctest.Wait()
			if p.State() != shoal.Draining || p.Queued() != 0 {
				t.Errorf("%v, Queued %d", p.State(), p.Queued())
			}
			checkRefusesAll(t, p)
			release()
			<-p.Done()
			y.checkDropped(t, 4)
			closeAll(t, p)
		})
	}
}

func TestAContextThatEndedBeforeNew(t *testing.T) {
	for _, strange := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			given := canceledContext()
			if strange {
				given = foreign{given}
			}
			p := newPool(t, fixed(3, shoal.WithContext(given))...)
			checkRefusesAll(t, p)
			<-p.Done()
			testpool.NoGoroutines(t)
			closeAll(t, p)
			if err := p.Shutdown(t.Context()); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

func TestThePoolsContextEndsDuringADrain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.Background())
		p := newPool(t, fixed(1, shoal.WithContext(parent))...)
		release := hold(t, p, 1)
		y := newTally(3)
		for i := range 3 {
			y.note(i, p.Submit(y.task(i)))
		}
		var err error
		down := inBackground(func() { err = p.Shutdown(context.Background()) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if p.Queued() != 0 || isClosed(down) {
			t.Errorf("Queued %d, Shutdown returned: %v", p.Queued(), isClosed(down))
		}
		release()
		<-down
		var inc *shoal.ShutdownError
		if !errors.As(err, &inc) || inc.Dropped != 3 {
			t.Errorf("Shutdown: %v, want 3 dropped", err)
		}
		y.checkDropped(t, 3)
		checkEnded(t, p)
		testpool.NoGoroutines(t)
	})
}

func TestAPoolThatEndedLetsGoOfItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(context.Background())
		for i := range 10 {
			p := newPool(t, shoal.WithContext(foreign{parent}))
			runsMore(t, p, 1)
			if i%2 == 0 {
				shutClean(t, p)
			} else {
				closeAll(t, p)
			}
		}
		synctest.Wait()
		buf := make([]byte, 1<<20)
		if all := string(buf[:runtime.Stack(buf, true)]); strings.Contains(all, "propagateCancel") {
			t.Errorf("a goroutine still watches the parent:\n%s", all)
		}
		cancel()
		synctest.Wait()
	})
}

func TestParentEndRacingShutdown(t *testing.T) {
	for round := range 300 {
		inBubble(t, func(t *testing.T) {
			parent, cancel := context.WithCancel(context.Background())
			p := newPool(t, fixed(2, shoal.WithContext(parent))...)
			y := newTally(10)
			for i := range 10 {
				y.note(i, p.Submit(y.task(i)))
			}
			go cancel()
			err := p.Shutdown(context.Background())
			y.seal()
			testpool.NoGoroutines(t)
			checkEnded(t, p)
			s := p.Stats()
			y.checkDropped(t, s.Dropped)
			if (err == nil) != (s.Dropped == 0) {
				t.Errorf("%v with %d dropped", err, s.Dropped)
			}
		})
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// ----- state -----

func TestStates(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		want := func(s shoal.State) {
			t.Helper()
			if got := p.State(); got != s || p.Stats().State != s {
				t.Errorf("State %v, Stats().State %v, want %v", got, p.Stats().State, s)
			}
			if isClosed(p.Done()) != (s == shoal.Closed) {
				t.Errorf("%v, but Done is closed: %v", s, isClosed(p.Done()))
			}
		}
		want(shoal.Open)
		p.Resume()
		want(shoal.Open)
		p.Pause()
		want(shoal.Paused)
		p.Pause()
		want(shoal.Paused)
		p.Resume()
		want(shoal.Open)
		release := hold(t, p, 1)
		p.Pause()
		want(shoal.Paused)
		down := inBackground(func() { p.Shutdown(context.Background()) })
		synctest.Wait()
		want(shoal.Draining)
		p.Pause()
		want(shoal.Draining)
		p.Resume()
		want(shoal.Draining)
		release()
		<-down
		want(shoal.Closed)
		p.Pause()
		p.Resume()
		want(shoal.Closed)
		for s, name := range map[shoal.State]string{shoal.Open: "Open", shoal.Paused: "Paused", shoal.Draining: "Draining", shoal.Closed: "Closed", 9: "State(9)"} {
			if s.String() != name {
				t.Errorf("%v, want %s", s, name)
			}
		}
	})
}

// Done is closed by the end and not before, whoever ends the pool.
func TestDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		release := hold(t, p, 1)
		p.Shutdown(canceledContext())
		synctest.Wait()
		if isClosed(p.Done()) {
			t.Error("Done is closed while a task runs")
		}
		release()
		<-p.Done()
		if s := p.State(); s != shoal.Closed {
			t.Errorf("Done, but %v", s)
		}
		closeAll(t, p)
	})
}

func TestErrClosedEverywhereAfterTheEnd(t *testing.T) {
	for _, e := range endings {
		for _, policy := range allPolicies {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, shoal.WithFullPolicy(policy), shoal.WithQueueCapacity(0))
				runsMore(t, p, 1)
				if err := e.end(p); err != nil {
					t.Errorf("%s: %v", e.name, err)
				}
				was := p.Stats()
				checkRefusesAll(t, p)
				if s := p.Stats(); s.Submitted != was.Submitted || s.Rejected != 0 {
					t.Errorf("%+v", s)
				}
				p.Wait()
				if err := p.WaitContext(t.Context()); err != nil {
					t.Errorf("WaitContext: %v", err)
				}
			})
		}
	}
}

func TestNilTasksEverywhere(t *testing.T) {
	p := newPool(t, fixed(1)...)
	check := func() {
		t.Helper()
		wantErr(t, "Submit", p.Submit(nil), shoal.ErrNilTask)
		wantErr(t, "TrySubmit", p.TrySubmit(nil), shoal.ErrNilTask)
		wantErr(t, "SubmitContext", p.SubmitContext(t.Context(), nil), shoal.ErrNilTask)
		wantErr(t, "SubmitWait", p.SubmitWait(t.Context(), nil), shoal.ErrNilTask)
		n, err := p.SubmitBatch([]func(){nil})
		wantErr(t, "SubmitBatch", err, shoal.ErrNilTask)
		stop, err := p.SubmitAfter(0, nil)
		wantErr(t, "SubmitAfter", err, shoal.ErrNilTask)
		if n != 0 || stop != nil {
			t.Errorf("%d accepted, or there is something to stop", n)
		}
	}
	check()
	runsMore(t, p, 10)
	shutClean(t, p)
	check()
	if s := p.Stats(); s.Submitted != 10 {
		t.Errorf("%+v", s)
	}
}

// ----- SubmitAfter -----

// TestSubmitAfterWithoutADelaySubmitsAtOnce: so it counts, and Wait and Shutdown wait for it.
func TestSubmitAfterWithoutADelaySubmitsAtOnce(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -time.Hour} {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		ran := false
		stop, err := p.SubmitAfter(d, func() { ran = true })
		if err != nil || p.Stats().Queued != 1 || stop() {
			t.Errorf("%v: %v, %d tasks wait, or it could be stopped", d, err, p.Stats().Queued)
		}
		release()
		if p.Wait(); !ran {
			t.Errorf("%v: Wait did not wait for it", d)
		}
		shutClean(t, p)
	}
}

// ----- Pause -----

func TestPauseStopsTheQueueAndResumeRunsIt(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(workers))
			release := hold(t, p, workers)
			y := newTally(100)
			for i := range 50 {
				y.note(i, p.Submit(y.task(i)))
			}
			p.Pause()
			release() // tasks that run go on
			synctest.Wait()
			for i := 50; i < 100; i++ {
				y.note(i, p.Submit(y.task(i)))
			}
			synctest.Wait()
			if s := p.Stats(); s.Running != 0 || s.Queued != 100 || s.Completed != uint64(workers) {
				t.Errorf("%+v", s)
			}
			for i := range 100 {
				if y.ran(i) != 0 {
					t.Errorf("task %d ran while the pool was paused", i)
				}
			}
			waits := inBackground(p.Wait)
			synctest.Wait()
			if isClosed(waits) {
				t.Error("Wait returned with tasks in the queue")
			}
			p.Resume()
			<-waits
			y.check(t)
			shutClean(t, p)
		})
	}
}

// After Pause has returned no worker takes a task from the queue, whatever it
// was doing. (One that was taken before may be about to begin.)
func TestNoTaskLeavesTheQueueAfterPause(t *testing.T) {
	p := newPool(t, fixed(3)...)
	const n = 3000
	y := newTally(n)
	submitted := inBackground(func() {
		for i := range n {
			y.note(i, p.Submit(y.task(i)))
		}
	})
	for round := 0; !isClosed(submitted) || p.Queued() > 0; round++ {
		p.Pause()
		was := p.Stats()
		for range 20 {
			runtime.Gosched()
		}
		if now := p.Stats(); now.Completed+uint64(now.Running) > was.Completed+uint64(was.Running) {
			t.Fatalf("round %d: a task was taken while the pool was paused:\n%+v\n%+v", round, was, now)
		}
		p.Resume()
		runtime.Gosched()
	}
	p.Wait()
	y.check(t)
	shutClean(t, p)
}

func TestPauseAndResumeUnderLoad(t *testing.T) {
	for _, capacity := range []int{0, 1, 64} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(capacity))
			var stop atomic.Bool
			toggled := inBackground(func() {
				for !stop.Load() {
					p.Pause()
					runtime.Gosched()
					p.Resume()
					runtime.Gosched()
				}
			})
			y := submitStorm(t, p, 4, 500, func(_ *rand.Rand, y *tally, id int) {
				if y.note(id, p.Submit(y.task(id))) != nil {
					t.Error("refused")
				}
			})
			stop.Store(true)
			<-toggled
			y.check(t)
			shutClean(t, p)
		})
	}
}

// ----- Resize -----

func TestResizeUpWakesWaitingSubmitters(t *testing.T) {
	for _, capacity := range []int{0, 2} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(capacity))
			release := hold(t, p, 2)
			gate := make(chan struct{})
			const n = 10
			y := newTally(capacity + n)
			var returned atomic.Int32
			for i := range capacity + n {
				go func() {
					y.note(i, p.Submit(func() { y.hit(i); <-gate }))
					returned.Add(1)
				}()
				synctest.Wait()
			}
			if got := int(returned.Load()); got != capacity {
				t.Errorf("%d submitters returned, want %d", got, capacity)
			}
			for _, max := range []int{3, 4, 9} {
				if err := p.Resize(0, max); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := int(returned.Load()); got != capacity+max-2 {
					t.Errorf("Resize to %d: %d submitters returned, want %d", max, got, capacity+max-2)
				}
				if s := p.Stats(); s.Workers != max || s.MaxWorkers != max || s.Running != max {
					t.Errorf("Resize to %d: %+v", max, s)
				}
			}
			close(gate)
			release()
			p.Wait()
			synctest.Wait()
			y.check(t)
			shutClean(t, p)
		})
	}
}

func TestResizeDownConvergesAsTasksEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 8
		p := newPool(t, fixed(n)...)
		steps := make([]chan struct{}, n)
		var wg sync.WaitGroup
		wg.Add(n)
		for i := range n {
			steps[i] = make(chan struct{})
			if err := p.Submit(func() { wg.Done(); <-steps[i] }); err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		y := newTally(20)
		gate := make(chan struct{})
		for i := range 20 {
			y.note(i, p.Submit(func() { <-gate; y.hit(i) }))
		}
		if err := p.Resize(1, 3); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := p.Stats(); s.Running != n || s.MaxWorkers != 3 || s.MinWorkers != 1 {
			t.Errorf("Resize interrupted a task: %+v", s)
		}
		for i := range n {
			close(steps[i])
			synctest.Wait()
			want := max(3, n-i-1)
			if s := p.Stats(); s.Workers != want || s.Running != want {
				t.Errorf("after %d tasks ended: %d workers, %d running, want %d", i+1, s.Workers, s.Running, want)
			}
		}
		close(gate)
		p.Wait()
		y.check(t)
		shutClean(t, p)
	})
}

func TestResizeDownSendsParkedWorkersAwayAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(10), shoal.WithIdleTimeout(shoal.Forever))
		hold(t, p, 10)()
		synctest.Wait()
		for _, max := range []int{7, 2, 2, 1} {
			if err := p.Resize(0, max); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := p.Stats().Workers; n != max {
				t.Errorf("%d workers, want %d", n, max)
			}
		}
		if err := p.Resize(5, 10); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := p.Stats(); s.Workers != 5 || s.MinWorkers != 5 || s.MaxWorkers != 10 {
			t.Errorf("the minimum is not started at once: %+v", s)
		}
		runsMore(t, p, 100)
		shutClean(t, p)
	})
}

// The bound on what is accepted follows the maximum at once.
func TestResizeMovesTheBound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const capacity = 2
		p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(shoal.Reject))
		for _, max := range []int{1, 5, 2, 64, 3} {
			if err := p.Resize(0, max); err != nil {
				t.Fatal(err)
			}
			gate := make(chan struct{})
			n := 0
			for p.Submit(func() { <-gate }) == nil {
				n++
			}
			if n != max+capacity {
				t.Errorf("max %d: %d accepted, want %d", max, n, max+capacity)
			}
			synctest.Wait()
			if s := p.Stats(); s.Running != max || s.Queued != capacity {
				t.Errorf("max %d: %+v", max, s)
			}
			close(gate)
			p.Wait()
		}
		shutClean(t, p)
	})
}

func TestResizeRefusesBadValues(t *testing.T) {
	p := newPool(t, shoal.WithMinWorkers(1), shoal.WithMaxWorkers(3))
	for _, v := range [][2]int{{0, 0}, {0, -1}, {-1, 1}, {-5, -6}, {2, 1}, {0, shoal.MaxWorkers + 1}, {1 << 30, 1 << 30}, {1, -1 << 31}} {
		err := p.Resize(v[0], v[1])
		wantErr(t, fmt.Sprint("Resize", v), err, shoal.ErrConfig)
		for _, part := range []string{fmt.Sprint(v[0]), fmt.Sprint(v[1]), fmt.Sprint(shoal.MaxWorkers)} {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %s", err, part)
			}
		}
	}
	if s := p.Stats(); s.MinWorkers != 1 || s.MaxWorkers != 3 {
		t.Errorf("a refused Resize changed something: %+v", s)
	}
	for _, v := range [][2]int{{1, 3}, {0, 1}, {1, 1}, {0, shoal.MaxWorkers}} { // the same, and the ends
		if err := p.Resize(v[0], v[1]); err != nil {
			t.Errorf("Resize%v: %v", v, err)
		}
	}
	runsMore(t, p, 10)
	shutClean(t, p)
	wantErr(t, "Resize after the end", p.Resize(1, 1), shoal.ErrClosed)
}

func TestResizeStormExactlyOnce(t *testing.T) {
	for _, capacity := range []int{0, 1, 64} {
		t.Run(fmt.Sprintf("capacity=%d", capacity), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const highest = 8
				p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(capacity), shoal.WithMaxTasksPerWorker(50))
				var stop atomic.Bool
				resized := inBackground(func() {
					r := rand.New(rand.NewPCG(1, 2))
					for !stop.Load() {
						max := 1 + r.IntN(highest)
						if err := p.Resize(r.IntN(max+1), max); err != nil {
							t.Error(err)
						}
						if s := p.Stats(); s.Workers > highest || s.PeakWorkers > highest {
							t.Errorf("%+v", s)
							return
						}
						runtime.Gosched()
					}
				})
				y := submitStorm(t, p, 6, 1000, func(r *rand.Rand, y *tally, id int) {
					var err error
					if r.IntN(2) == 0 {
						err = p.Submit(func() { y.hit(id); runtime.Gosched() })
					} else {
						err = p.SubmitContext(context.Background(), y.taskCtx(id))
					}
					if y.note(id, err) != nil {
						t.Errorf("%v", err)
					}
				})
				stop.Store(true)
				<-resized
				y.check(t)
				if err := p.Resize(0, 1); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if s := p.Stats(); s.Workers > 1 {
					t.Errorf("it does not converge: %+v", s)
				}
				runsMore(t, p, 10)
				shutClean(t, p)
			})
		})
	}
}

func TestResizeRacingTheEnd(t *testing.T) {
	for round := range testpool.Reps(50, 30, 30) {
		e := endings[round%2]
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2)...)
			resized := inBackground(func() {
				for i := 1; ; i++ {
					if err := p.Resize(i%4, 4); err != nil {
						wantErr(t, "Resize", err, shoal.ErrClosed)
						return
					}
				}
			})
			runsMore(t, p, 3)
			if err := e.end(p); err != nil {
				t.Errorf("%s: %v", e.name, err)
			}
			testpool.NoGoroutines(t)
			<-resized
			checkEnded(t, p)
		})
	}
}

// ----- Wait -----

func TestWaitContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		if err := p.WaitContext(canceledContext()); err != nil {
			t.Errorf("a quiet pool: %v", err)
		}
		release := hold(t, p, 1)
		wantErr(t, "with a context that is done", p.WaitContext(canceledContext()), context.Canceled)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		wantErr(t, "with a deadline", p.WaitContext(ctx), context.DeadlineExceeded)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("it took %v", d)
		}
		got := make(chan error, 1)
		go func() { got <- p.WaitContext(t.Context()) }()
		synctest.Wait()
		release()
		if err := <-got; err != nil {
			t.Errorf("WaitContext: %v", err)
		}
		shutClean(t, p)
	})
}

// When Wait returns, what the tasks did is done and counted, deferred calls
// and the panic handler's included. The counter is not atomic on purpose.
func TestWaitReturnsWhenEverythingOfTheTasksIsOver(t *testing.T) {
	effects, handled := 0, 0
	p := newPool(t, fixed(1, shoal.WithPanicHandler(func(*shoal.PanicError) { handled++ }))...)
	for round := 1; round <= 500; round++ {
		if err := p.Submit(func() {
			defer func() { effects++ }()
			if round%2 == 0 {
				panic("on purpose")
			}
		}); err != nil {
			t.Fatal(err)
		}
		p.Wait()
		if s := p.Stats(); effects != round || handled != round/2 || s.Completed != uint64(round) || s.Failed != uint64(round/2) || s.InFlight != 0 {
			t.Fatalf("round %d: %d effects, %d handled, %+v", round, effects, handled, s)
		}
	}
	shutClean(t, p)
}

// ----- New -----

func TestNewNamesEveryProblem(t *testing.T) {
	_, err := shoal.New(
		shoal.WithMaxWorkers(0),
		shoal.WithMinWorkers(-7),
		shoal.WithQueueCapacity(-3),
		shoal.WithFullPolicy(42),
		shoal.WithIdleTimeout(-time.Second),
		shoal.WithMaxTasksPerWorker(-9),
		shoal.WithSpin(-11),
		shoal.WithTiming(77),
		shoal.WithSizing(shoal.Rated(0)),
		shoal.WithContext(nil), //lint:ignore SA1012 that is the test
	)
	wantErr(t, "New", err, shoal.ErrConfig)
	for _, part := range []string{
		"WithMaxWorkers(0)", fmt.Sprintf("1 … %d", shoal.MaxWorkers),
		"WithMinWorkers(-7)", "at least 0",
		"WithQueueCapacity(-3)", "Unbounded",
		"WithFullPolicy(42)", "Block, Reject, Spawn, CallerRuns or DropOldest",
		"WithIdleTimeout(-1s)",
		"WithMaxTasksPerWorker(-9)",
		"WithSpin(-11)",
		"WithTiming(77)", "TimingOff, TimingSampled or TimingFull",
		"Rated(0)", "at least 1",
		"WithContext(nil)",
	} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
	testpool.NoGoroutines(t)
}

func TestNewRefusesEachBadOption(t *testing.T) {
	for name, opts := range map[string][]shoal.Option{
		"max 0":           {shoal.WithMaxWorkers(0)},
		"max -1":          {shoal.WithMaxWorkers(-1)},
		"max too high":    {shoal.WithMaxWorkers(shoal.MaxWorkers + 1)},
		"min -1":          {shoal.WithMinWorkers(-1)},
		"min over max":    {shoal.WithMaxWorkers(2), shoal.WithMinWorkers(3)},
		"min over max, 2": {shoal.WithMinWorkers(3), shoal.WithMaxWorkers(2)},
		"capacity -1":     {shoal.WithQueueCapacity(-1)},
		"policy -1":       {shoal.WithFullPolicy(-1)},
		"policy 5":        {shoal.WithFullPolicy(5)},
		"idle -1":         {shoal.WithIdleTimeout(-1)},
		"tasks -1":        {shoal.WithMaxTasksPerWorker(-1)},
		"spin -1":         {shoal.WithSpin(-1)},
		"spin too high":   {shoal.WithSpin(1 << 30)},
		"timing -1":       {shoal.WithTiming(-1)},
		"timing 3":        {shoal.WithTiming(3)},
		"no sizer":        {shoal.WithSizing(nil)},
		"Rated(-1)":       {shoal.WithSizing(shoal.Rated(-1))},
	} {
		p, err := shoal.New(opts...)
		if p != nil || !errors.Is(err, shoal.ErrConfig) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	testpool.NoGoroutines(t)
	for name, opts := range map[string][]shoal.Option{
		"none":        nil,
		"the lowest":  {shoal.WithMaxWorkers(1), shoal.WithMinWorkers(0), shoal.WithQueueCapacity(0), shoal.WithIdleTimeout(0), shoal.WithMaxTasksPerWorker(0), shoal.WithSpin(0)},
		"the highest": {shoal.WithMaxWorkers(shoal.MaxWorkers), shoal.WithQueueCapacity(shoal.Unbounded), shoal.WithIdleTimeout(shoal.Forever), shoal.WithMaxTasksPerWorker(1 << 30), shoal.WithSpin(1 << 20)},
		"the last":    {shoal.WithMaxWorkers(0), shoal.WithMaxWorkers(3)}, // of several wins
	} {
		p, err := shoal.New(opts...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		runsMore(t, p, 20)
		shutClean(t, p)
	}
}

func TestMinimumIsFilledUpAgain(t *testing.T) {
	for name, c := range map[string]struct {
		opts []shoal.Option
		task func()
	}{
		"after Goexit":          {nil, runtime.Goexit},
		"at the end of a life":  {[]shoal.Option{shoal.WithMaxTasksPerWorker(1)}, func() {}},
		"with no idle time":     {[]shoal.Option{shoal.WithIdleTimeout(0)}, runtime.Goexit},
		"after Goexit and more": {[]shoal.Option{shoal.WithMaxTasksPerWorker(2)}, runtime.Goexit},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, append([]shoal.Option{shoal.WithMinWorkers(3), shoal.WithMaxWorkers(4)}, c.opts...)...)
				for range 5 {
					if err := p.Submit(c.task); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if n := p.Stats().Workers; n < 3 {
					t.Errorf("%d workers, want at least 3", n)
				}
				shutClean(t, p)
			})
		})
	}
}

func TestDrain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		var ran atomic.Int32
		for range 3 {
			must(t, p.Submit(func() { time.Sleep(time.Second); ran.Add(1) }))
		}
		must(t, p.Submit(func() { p.Drain() })) // once more, by a task
		start := time.Now()
		p.Drain()
		if d := time.Since(start); d != 0 {
			t.Errorf("Drain took %v", d)
		}
		wantErr(t, "Submit", p.Submit(nothing), shoal.ErrClosed)
		if s := p.State(); s != shoal.Draining {
			t.Errorf("state %v", s)
		}
		<-p.Done()
		if n := ran.Load(); n != 3 {
			t.Errorf("%d of 3 tasks ran", n)
		}
		testpool.NoGoroutines(t)
		p.Drain()
		must(t, p.Shutdown(bg))
		new(shoal.Pool).Drain()
	})
}

// A pool that is never ended is garbage when it has done what it has accepted and its
// workers have left; one with a minimum of workers is not.
func TestAPoolThatIsDroppedIsCollected(t *testing.T) {
	ran := make(chan int, 3)
	drop := func(opts ...shoal.Option) weak.Pointer[shoal.Pool] {
		p := shoal.Must(shoal.New(opts...))
		must(t, p.Submit(func() { ran <- 1 }))
		return weak.Make(p)
	}
	gone := []weak.Pointer[shoal.Pool]{drop(shoal.WithIdleTimeout(0)), drop(shoal.WithIdleTimeout(time.Millisecond))}
	kept := drop(shoal.WithMinWorkers(1), shoal.WithIdleTimeout(0))
	for range 3 {
		<-ran
	}
	for _, p := range gone {
		for end := time.Now().Add(time.Minute); p.Value() != nil; runtime.GC() {
			if time.Now().After(end) {
				t.Fatal("a pool that was dropped is not collected")
			}
			runtime.Gosched()
		}
	}
	p := kept.Value()
	if p == nil {
		t.Fatal("a pool with a minimum of workers was collected")
	}
	must(t, p.Close())
}

// The end waits for no delay.
func TestDelayedTasksDoNotHoldUpTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, begun := newPool(t), time.Now()
		stop, err := p.SubmitAfter(time.Hour, func() { t.Error("it was stopped") })
		must(t, err)
		_, err = p.SubmitAfter(time.Hour, func() { t.Error("it was dropped") })
		must(t, err)
		if !stop() {
			t.Error("it was not stopped")
		}
		must(t, p.Shutdown(bg))
		if s, d := p.Stats(), time.Since(begun); d != 0 || s.Dropped != 1 || s.Submitted != 1 {
			t.Errorf("after %v: %d submitted, %d dropped", d, s.Submitted, s.Dropped)
		}
	})
}

// The end of a sub-pool ends the contexts of its own tasks, on whatever goroutine they run, and of no others.
func TestCloseEndsTheContextsOfTasksThatSpawnRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		full := []shoal.Option{shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn)}
		p := newPool(t, fixed(1, full...)...)
		sub, err := p.Sub(append(full, shoal.WithMaxWorkers(1))...)
		must(t, err)
		release := hold(t, p, 1)
		must(t, sub.Submit(func() {})) // waits for the worker; now both are full

		spawn := func(p *shoal.Pool) (end func(), canceled *atomic.Bool) {
			gate, c := make(chan struct{}), new(atomic.Bool)
			must(t, p.SubmitContext(bg, func(ctx context.Context) {
				select {
				case <-gate:
				case <-ctx.Done():
					c.Store(true)
				}
			}))
			synctest.Wait()
			return func() { close(gate); synctest.Wait() }, c
		}
		_, first := spawn(sub)
		endOuter, outer := spawn(p)
		endSecond, second := spawn(sub)
		_, third := spawn(sub)
		endSecond()
		_, fourth := spawn(sub)
		must(t, sub.Close())
		synctest.Wait()
		for i, c := range []*atomic.Bool{first, third, fourth} {
			if !c.Load() {
				t.Errorf("the context of task %d did not end", i)
			}
		}
		if outer.Load() || second.Load() {
			t.Error("the context of another pool's task, or of one that had ended, ended")
		}
		endOuter()
		release()
		closeAll(t, p)
	})
}

// A pool that has ended, and is kept for its Stats, keeps no results of tasks that ran as part of others.
func TestAPoolThatHasEndedKeepsNoResults(t *testing.T) {
	type block = [1 << 16]byte
	p := newPool(t, fixed(1)...)
	var refs []weak.Pointer[block]
	ran, draining := make(chan struct{}), make(chan struct{})
	outer := shoal.Go(bg, p, func(ctx context.Context) (int, error) {
		for range 10 {
			inner := shoal.Go(ctx, p, func(context.Context) (*block, error) {
				b := new(block)
				refs = append(refs, weak.Make(b))
				return b, nil
			})
			inner.Wait(ctx)
		}
		close(ran)
		<-draining
		return 0, errBoom // so that no worker comes to the places of the inner tasks
	})
	<-ran
	p.Drain()
	close(draining)
	_, err := outer.Wait(bg)
	wantErr(t, "Wait", err, errBoom)
	must(t, p.Shutdown(bg))
	if n := alive(0, refs...); n > 0 {
		t.Errorf("%d of %d results are in memory", n, len(refs))
	}
	runtime.KeepAlive(p)
}

// Who has the Done of a sub-pool learns of its end, also if nobody has the sub-pool.
func TestDoneOfASubPoolThatNobodyHas(t *testing.T) {
	p := newPool(t, fixed(1)...)
	done := func() <-chan struct{} { return shoal.Must(p.Sub()).Done() }()
	for range 5 {
		runtime.GC()
	}
	must(t, p.Close())
	select {
	case <-done:
	default:
		t.Error("the parent has ended, and Done of the sub-pool is open")
	}
}
