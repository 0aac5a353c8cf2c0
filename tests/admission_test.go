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

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// A shape is what the bound depends on.
type shape struct {
	policy            shoal.FullPolicy
	capacity, workers int
}

func (s shape) options(more ...shoal.Option) []shoal.Option {
	return append([]shoal.Option{
		shoal.WithFullPolicy(s.policy), shoal.WithQueueCapacity(s.capacity), shoal.WithMaxWorkers(s.workers),
	}, more...)
}

// eachShape runs f in a bubble for every policy and many bounds.
func eachShape(t *testing.T, f func(t *testing.T, s shape)) {
	for _, policy := range allPolicies {
		for _, capacity := range []int{0, 1, 2, 64} {
			for _, workers := range []int{1, 2, 8} {
				t.Run(fmt.Sprintf("%v/capacity=%d/workers=%d", policy, capacity, workers), func(t *testing.T) {
					inBubble(t, func(t *testing.T) { f(t, shape{policy, capacity, workers}) })
				})
			}
		}
	}
}

// fillQueue submits tasks 0 … n-1 of y to p, which must accept them without
// waiting. Then it submits task n, which p must refuse and count as rejected.
func fillQueue(t *testing.T, p *shoal.Pool, y *tally, n int) {
	t.Helper()
	fillMore(t, p, y, 0, n)
}

// fillMore is fillQueue if tasks 0 … first-1 of y wait already.
func fillMore(t *testing.T, p *shoal.Pool, y *tally, first, n int) {
	t.Helper()
	was := p.Stats()
	for i := first; i < n; i++ {
		if err := y.note(i, p.TrySubmit(y.task(i))); err != nil {
			t.Fatalf("task %d of the %d there is room for: %v", i+1, n, err)
		}
	}
	wantErr(t, "the task beyond the bound", y.note(n, p.TrySubmit(y.task(n))), shoal.ErrQueueFull)
	s := p.Stats()
	checkIdentity(t, s)
	queued := min(n, s.QueueCapacity) // as Stats.Queued says, if more wait
	if p.Queued() != queued || s.Queued != queued || s.InFlight != was.InFlight+n-first ||
		s.Rejected != was.Rejected+1 || s.Submitted != was.Submitted+uint64(n-first) {
		t.Errorf("with %d that wait: Queued %d, %+v", n, p.Queued(), s)
	}
}

// submitBeyond calls Submit with task n of y, while p has no free capacity and
// tasks 0 … n-2 of y wait, and checks that p follows its policy. The func that it
// returns checks the rest, once there was free capacity.
func submitBeyond(t *testing.T, p *shoal.Pool, y *tally, s shape, n int) (later func()) {
	t.Helper()
	was := p.Stats()
	want := was
	want.Submitted++
	task := y.task(n)
	var own atomic.Bool // does the caller run it?
	if s.policy == shoal.CallerRuns {
		self := goid()
		task = func() { y.hit(n); own.Store(goid() == self) }
	}
	later = func() {}
	switch s.policy {
	case shoal.Block:
		returned := inBackground(func() {
			if err := y.note(n, p.Submit(task)); err != nil {
				t.Errorf("Submit that waited for room: %v", err)
			}
		})
		synctest.Wait()
		if isClosed(returned) {
			t.Error("Submit did not wait")
		}
		want.Submitted--
		later = func() {
			if !isClosed(returned) {
				t.Error("Submit still waits")
			}
		}
	case shoal.Reject:
		wantErr(t, "Submit", y.note(n, p.Submit(task)), shoal.ErrQueueFull)
		want.Submitted--
		want.Rejected++
	case shoal.Spawn:
		if err := y.note(n, p.Submit(task)); err != nil {
			t.Errorf("Submit: %v", err)
		}
		synctest.Wait()
		if y.ran(n) != 1 {
			t.Error("the spawned task did not run")
		}
		want.Spawned++
		want.Completed++
	case shoal.CallerRuns:
		if err := y.note(n, p.Submit(task)); err != nil {
			t.Errorf("Submit: %v", err)
		}
		if y.ran(n) != 1 || !own.Load() {
			t.Error("the caller did not run it")
		}
		want.Completed++
	case shoal.DropOldest:
		err := y.note(n, p.Submit(task))
		if s.capacity == 0 {
			wantErr(t, "Submit", err, shoal.ErrQueueFull)
			want.Submitted--
			want.Rejected++
			break
		}
		if err != nil {
			t.Errorf("Submit: %v", err)
		}
		want.Dropped++
		later = func() {
			if y.ran(0) != 0 {
				t.Error("the oldest task was not the one to be dropped")
			}
		}
	}
	got := p.Stats()
	checkIdentity(t, got)
	if got.Submitted != want.Submitted || got.Completed != want.Completed || got.Rejected != want.Rejected ||
		got.Dropped != want.Dropped || got.Spawned != want.Spawned || got.Queued != s.capacity {
		t.Errorf("beyond the bound:\n%+v\nwas:\n%+v", got, was)
	}
	return later
}

func TestBoundIsExactWhileEveryWorkerIsBusy(t *testing.T) {
	eachShape(t, func(t *testing.T, s shape) {
		p := newPool(t, s.options()...)
		release := hold(t, p, s.workers)
		for range 2 { // the second time with a history
			y := newTally(s.capacity + 2)
			was := p.Stats()
			fillQueue(t, p, y, s.capacity)
			later := submitBeyond(t, p, y, s, s.capacity+1)
			release()
			synctest.Wait()
			later()
			y.checkDropped(t, p.Stats().Dropped-was.Dropped)
			release = hold(t, p, s.workers)
		}
		release()
		shutClean(t, p)
	})
}

// A paused pool accepts as an idle one does: as many tasks as it may have workers, and its
// capacity.
func TestBoundIsExactWhilePaused(t *testing.T) {
	eachShape(t, func(t *testing.T, s shape) {
		for _, warm := range []int{0, s.workers} {
			p := newPool(t, s.options()...)
			hold(t, p, warm)()
			synctest.Wait()
			for range 2 {
				p.Pause()
				room := s.capacity + s.workers
				y := newTally(room + 2)
				was := p.Stats()
				fillQueue(t, p, y, room)
				later := submitBeyond(t, p, y, s, room+1)
				p.Resume()
				synctest.Wait()
				later()
				y.checkDropped(t, p.Stats().Dropped-was.Dropped)
			}
			shutClean(t, p)
		}
	})
}

func TestBoundIsExactWhilePausedWithRunningTasks(t *testing.T) {
	eachShape(t, func(t *testing.T, s shape) {
		p := newPool(t, s.options()...)
		release := hold(t, p, s.workers)
		p.Pause()
		room := s.capacity + s.workers
		y := newTally(room + 2)
		fillQueue(t, p, y, s.capacity)
		release() // which makes room for as many as have ended
		synctest.Wait()
		fillMore(t, p, y, s.capacity, room)
		later := submitBeyond(t, p, y, s, room+1)
		p.Resume()
		synctest.Wait()
		later()
		y.checkDropped(t, p.Stats().Dropped)
		shutClean(t, p)
	})
}

// An idle pool accepts as many tasks as it has workers and capacity, whether
// its workers run, are parked, or were never started.
func TestBoundIsExactOnAnIdlePool(t *testing.T) {
	eachShape(t, func(t *testing.T, s shape) {
		for _, min := range []int{0, s.workers} {
			for _, warm := range []int{0, 1, s.workers} {
				p := newPool(t, s.options(shoal.WithMinWorkers(min))...)
				if warm > 0 {
					hold(t, p, warm)()
					synctest.Wait()
				}
				submit := p.TrySubmit
				if s.policy == shoal.Reject && warm%2 == 0 {
					submit = p.Submit
				}
				room := s.workers + s.capacity
				y := newTally(room + 1)
				gate := make(chan struct{})
				for i := range room {
					if err := y.note(i, submit(func() { y.hit(i); <-gate })); err != nil {
						t.Errorf("task %d of the %d there is room for: %v", i+1, room, err)
					}
				}
				wantErr(t, "the task beyond the bound", submit(y.task(room)), shoal.ErrQueueFull)
				synctest.Wait()
				if s := p.Stats(); s.Running != s.MaxWorkers || s.Queued != s.QueueCapacity {
					t.Errorf("not all workers run: %+v", s)
				}
				wantErr(t, "the task beyond the bound", submit(y.task(room)), shoal.ErrQueueFull)
				close(gate)
				p.Wait()
				if n := y.checkAccepted(t); n != room {
					t.Errorf("%d accepted, want %d", n, room)
				}
				shutClean(t, p)
			}
		}
	})
}

// The same for SubmitBatch, where tickets are taken by the handful.
func TestBoundIsExactForBatches(t *testing.T) {
	eachShape(t, func(t *testing.T, s shape) {
		if s.policy != shoal.Reject {
			return
		}
		p := newPool(t, s.options()...)
		room := s.workers + s.capacity
		y := newTally(2 * room)
		gate := make(chan struct{})
		var batch []func()
		for i := range 2 * room {
			batch = append(batch, func() { y.hit(i); <-gate })
		}
		n, err := p.SubmitBatch(batch)
		wantErr(t, "SubmitBatch", err, shoal.ErrQueueFull)
		if n != room {
			t.Errorf("%d accepted, want %d", n, room)
		}
		for i := range n {
			y.accept(i)
		}
		close(gate)
		p.Wait()
		y.checkAccepted(t)
		if s := p.Stats(); s.Submitted != uint64(room) || s.Rejected != 1 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	})
}

func TestHandOffAcceptsWhatAFreeWorkerCanTake(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))
			step := make(chan struct{})
			y := newTally(workers + 100)
			task := func(i int) func() { return func() { y.hit(i); <-step } }
			for i := range workers {
				if err := y.note(i, p.Submit(task(i))); err != nil {
					t.Fatal(err)
				}
			}
			for i := workers; i < workers+100; i++ {
				wantErr(t, "no worker is free", p.Submit(task(i)), shoal.ErrQueueFull)
				step <- struct{}{}
				synctest.Wait() // one is
				if err := y.note(i, p.Submit(task(i))); err != nil {
					t.Fatalf("a worker is free: %v", err)
				}
				if p.Queued() != 0 {
					t.Errorf("Queued %d", p.Queued())
				}
			}
			close(step)
			p.Wait()
			y.checkAccepted(t)
			shutClean(t, p)
		})
	}
}

// At capacity 0 nobody waits, so nobody is displaced: what was accepted runs.
func TestDropOldestAtCapacityZeroDropsNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the worker starts when we let it
	for range 100 {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.DropOldest))...)
		y := newTally(3)
		for i := range 3 {
			if err := y.note(i, p.Submit(y.task(i))); err != nil {
				wantErr(t, "Submit", err, shoal.ErrQueueFull)
			}
		}
		p.Wait()
		if y.checkAccepted(t) == 0 {
			t.Error("nothing was accepted")
		}
		shutClean(t, p)
		if t.Failed() {
			return
		}
	}
}

func TestDropOldestDropsInOrderOfAge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, capacity := range []int{1, 2, 7} {
			const n = 30
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(shoal.DropOldest))...)
			release := hold(t, p, 1)
			var ran []int
			for i := range n {
				if err := p.Submit(func() { ran = append(ran, i) }); err != nil {
					t.Fatal(err)
				}
				if d := p.Stats().Dropped; d != uint64(max(0, i+1-capacity)) {
					t.Fatalf("%d dropped after %d tasks", d, i+1)
				}
			}
			release()
			p.Wait()
			var want []int
			for i := n - capacity; i < n; i++ {
				want = append(want, i)
			}
			if !slices.Equal(ran, want) {
				t.Errorf("ran %v, want %v", ran, want)
			}
			shutClean(t, p)
		}
	})
}

func TestSpawnRunsBeyondTheWorkersOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.Spawn))...)
		release := hold(t, p, 2)
		gate := make(chan struct{})
		y := newTally(11)
		for i := range 11 {
			if err := p.Submit(func() { y.hit(i); <-gate }); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if s := p.Stats(); s.Spawned != 10 || s.InFlight != 13 || s.Queued != 1 || s.Workers != 2 || s.Running != 2 || y.ran(0) != 0 {
			t.Errorf("%+v", s)
		}
		waits := inBackground(p.Wait)
		release()
		synctest.Wait()
		if isClosed(waits) {
			t.Error("Wait did not wait for the spawned tasks")
		}
		close(gate)
		<-waits
		y.check(t)
		shutClean(t, p)
	})
}

// ----- waiting for room -----

// waitingKinds are the calls that wait for room.
var waitingKinds = map[string]func(p *shoal.Pool, task func()) error{
	"Submit": func(p *shoal.Pool, task func()) error { return p.Submit(task) },
	"SubmitContext": func(p *shoal.Pool, task func()) error {
		return p.SubmitContext(context.Background(), func(context.Context) { task() })
	},
	"SubmitWait": func(p *shoal.Pool, task func()) error {
		return p.SubmitWait(context.Background(), func(context.Context) error { task(); return nil })
	},
	"SubmitBatch": func(p *shoal.Pool, task func()) error {
		_, err := p.SubmitBatch([]func(){task})
		return err
	},
}

func TestWaitingSubmittersAreServedInOrder(t *testing.T) {
	kinds := []string{"Submit", "SubmitContext", "SubmitWait", "SubmitBatch"}
	for _, capacity := range []int{0, 1, 5} {
		t.Run(fmt.Sprintf("capacity=%d", capacity), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const n = 40
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
				release := hold(t, p, 1)
				var order []int
				var want []int
				returned := make(map[int]<-chan struct{})
				for i := range n {
					want = append(want, i)
					returned[i] = inBackground(func() {
						if err := waitingKinds[kinds[i%4]](p, func() { order = append(order, i) }); err != nil {
							t.Errorf("%d: %v", i, err)
						}
					})
					synctest.Wait()
					if waits := i >= capacity || kinds[i%4] == "SubmitWait"; isClosed(returned[i]) == waits {
						t.Errorf("submitter %d (%s): returned %v", i, kinds[i%4], !waits)
					}
				}
				release()
				p.Wait()
				synctest.Wait()
				if !slices.Equal(order, want) {
					t.Errorf("started in the order %v", order)
				}
				for i := range n {
					<-returned[i]
				}
				shutClean(t, p)
			})
		})
	}
}

// If there is free capacity for exactly those submitters that wait, they get it,
// however hard others try.
func TestNobodyOvertakesWaitingSubmitters(t *testing.T) {
	for round := range testpool.Reps(300, 50, 50) {
		inBubble(t, func(t *testing.T) {
			const n = 16
			p := newPool(t, shoal.WithMaxWorkers(n), shoal.WithQueueCapacity(0))
			p.Pause()
			gate := make(chan struct{})
			var waiters atomic.Int32
			for range n {
				go func() {
					if err := p.Submit(func() { <-gate }); err != nil {
						t.Errorf("Submit: %v", err)
					}
					waiters.Add(1)
				}()
			}
			synctest.Wait()
			var stop atomic.Bool
			var overtook atomic.Int32
			var done []<-chan struct{}
			for range 3 {
				done = append(done, inBackground(func() {
					for !stop.Load() {
						if p.TrySubmit(func() { <-gate }) == nil {
							overtook.Add(1)
						}
						runtime.Gosched()
					}
				}))
			}
			runtime.Gosched()
			p.Resume() // room for all who wait, and for nobody else
			stop.Store(true)
			for _, d := range done {
				<-d
			}
			synctest.Wait()
			if w, o := waiters.Load(), overtook.Load(); w != n || o != 0 {
				t.Errorf("round %d: %d of %d waiters were let in, %d others", round, w, n, o)
			}
			close(gate)
			p.Wait()
			shutClean(t, p)
		})
	}
}

// One place at a time: each finished task lets exactly one waiter in.
func TestEachFreePlaceAdmitsOneWaiter(t *testing.T) {
	for _, capacity := range []int{0, 1, 3} {
		inBubble(t, func(t *testing.T) {
			const n = 10
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
			step := make(chan struct{})
			y := newTally(1 + capacity + n)
			task := func(i int) func() { return func() { y.hit(i); <-step } }
			for i := range 1 + capacity {
				if err := y.note(i, p.Submit(task(i))); err != nil {
					t.Fatal(err)
				}
			}
			var admitted atomic.Int32
			for i := 1 + capacity; i < 1+capacity+n; i++ {
				go func() {
					y.note(i, p.Submit(task(i)))
					admitted.Add(1)
				}()
				synctest.Wait()
			}
			for i := range int32(n) {
				if got := admitted.Load(); got != i {
					t.Fatalf("capacity %d: %d waiters admitted by %d free places", capacity, got, i)
				}
				step <- struct{}{}
				synctest.Wait()
			}
			close(step)
			p.Wait()
			y.checkAccepted(t)
			shutClean(t, p)
		})
	}
}

func TestACancelledWaiterLosesNoPlace(t *testing.T) {
	for _, capacity := range []int{0, 1, 4} {
		for cancelled := range 3 {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
				release := hold(t, p, 1)
				y := newTally(capacity + 1 + 3)
				fillQueue(t, p, y, capacity)
				why := errors.New("why")
				var cancel [3]context.CancelCauseFunc
				var returned [3]<-chan struct{}
				for i := range 3 {
					var ctx context.Context
					ctx, cancel[i] = context.WithCancelCause(t.Context())
					returned[i] = inBackground(func() {
						id := capacity + 1 + i
						err := y.note(id, p.SubmitContext(ctx, y.taskCtx(id)))
						if i == cancelled {
							wantErr(t, "cancelled while it waited", err, context.Canceled)
						} else if err != nil {
							t.Errorf("waiter %d: %v", i, err)
						}
					})
					synctest.Wait()
				}
				cancel[cancelled](why)
				synctest.Wait()
				for i, c := range returned {
					if isClosed(c) != (i == cancelled) {
						t.Errorf("waiter %d returned: %v", i, isClosed(c))
					}
				}
				release()
				synctest.Wait() // nobody has to do anything else
				for i, c := range returned {
					if !isClosed(c) {
						t.Errorf("waiter %d still waits", i)
					}
				}
				p.Wait()
				if n := y.checkAccepted(t); n != capacity+2 {
					t.Errorf("%d accepted", n)
				}
				if s := p.Stats(); s.Canceled != 0 || s.Rejected != 1 || s.Submitted != uint64(1+capacity+2) {
					t.Errorf("%+v", s)
				}
				for _, c := range cancel {
					c(nil)
				}
				shutClean(t, p)
			})
		}
	}
}

// Cancelling races with being let in. Either the error is the context's and
// the task never runs, or it is nil and the task was accepted; and no place is
// lost, nor gained.
func TestCancelRacingAdmissionLosesNoPlace(t *testing.T) {
	for _, capacity := range []int{0, 1} {
		for _, workers := range []int{1, 2} {
			t.Run(fmt.Sprintf("capacity=%d/workers=%d", capacity, workers), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					const rounds, waiters = 300, 4
					p := newPool(t, fixed(workers, shoal.WithQueueCapacity(capacity))...)
					for round := range rounds {
						release := hold(t, p, workers)
						y := newTally(capacity + 1 + waiters)
						fillQueue(t, p, y, capacity)
						was := p.Stats()
						ctx, cancel := context.WithCancel(context.Background())
						var wg sync.WaitGroup
						for i := range waiters {
							wg.Go(func() {
								id, mine := capacity+1+i, ctx
								if i == waiters-1 {
									mine = context.Background() // this one is not cancelled
								}
								if err := y.note(id, p.SubmitContext(mine, y.taskCtx(id))); err != nil {
									wantErr(t, "SubmitContext", err, context.Canceled)
								}
							})
						}
						if round%2 == 0 {
							synctest.Wait()
						}
						go cancel()
						go release()
						wg.Wait()
						p.Wait()
						s := p.Stats()
						checkIdentity(t, s)
						y.checkDropped(t, s.Canceled-was.Canceled)
						if y.ran(capacity+waiters) != 1 {
							t.Error("the one that was not cancelled did not run")
						}
						synctest.Wait()
						if t.Failed() {
							t.Fatalf("in round %d", round)
						}
					}
					shutClean(t, p)
				})
			})
		}
	}
}

func TestAContextThatIsDoneIsRefusedBeforeAnythingIsCounted(t *testing.T) {
	for _, full := range []bool{false, true} {
		for _, policy := range allPolicies {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy))...)
				release := func() {}
				if full {
					release = hold(t, p, 1)
					if err := p.Submit(func() {}); err != nil {
						t.Fatal(err)
					}
				}
				was := p.Stats()
				expired, cancel := context.WithTimeout(t.Context(), 0)
				defer cancel()
				for ctx, want := range map[context.Context]error{canceledContext(): context.Canceled, expired: context.DeadlineExceeded} {
					wantErr(t, "SubmitContext", p.SubmitContext(ctx, func(context.Context) { t.Error("it ran") }), want)
					wantErr(t, "SubmitWait", p.SubmitWait(ctx, func(context.Context) error { t.Error("it ran"); return nil }), want)
				}
				if s := p.Stats(); s.Submitted != was.Submitted || s.Canceled != 0 || s.Rejected != was.Rejected || s.Dropped != 0 {
					t.Errorf("%+v", s)
				}
				release()
				shutClean(t, p)
			})
		}
	}
}

func TestALateStartIsCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		release := hold(t, p, 1)
		ctx, cancel := context.WithCancel(t.Context())
		soon, cancelSoon := context.WithTimeout(t.Context(), time.Second)
		defer cancelSoon()
		y := newTally(20)
		for i := range 20 {
			c := []context.Context{ctx, soon, t.Context(), t.Context()}[i%4]
			if err := y.note(i, p.SubmitContext(c, y.taskCtx(i))); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		<-soon.Done()
		if s := p.Stats(); s.Canceled != 0 || s.Queued != 20 {
			t.Errorf("before a worker came to them: %+v", s)
		}
		release()
		p.Wait()
		for i := range 20 {
			if y.ran(i) != i%4/2 {
				t.Errorf("task %d ran %d times", i, y.ran(i))
			}
		}
		if s := p.Stats(); s.Canceled != 10 || s.Completed != 11 || s.Failed != 0 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	})
}

func TestALateStartOnASpawnedGoroutineIsCancelled(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the goroutine starts when we let it
	const n = 50
	p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))...)
	release := hold(t, p, 1)
	y := newTally(n)
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		if err := y.note(i, p.SubmitContext(ctx, y.taskCtx(i))); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	release()
	p.Wait()
	s := p.Stats()
	if s.Canceled == 0 { // a preempted test can lose some of the n races, not all
		t.Errorf("%d tasks whose context had ended before they could start, none was cancelled: %+v", n, s)
	}
	y.checkDropped(t, s.Canceled)
	shutClean(t, p)
}

func TestTaskContextFollowsTheCallers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type key struct{}
		p := newPool(t, fixed(1)...)
		why := errors.New("why")
		parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		bounded, cancelBounded := context.WithTimeout(parent, time.Hour)
		defer cancelBounded()
		var kept context.Context
		err := p.SubmitWait(bounded, func(ctx context.Context) error {
			kept = ctx
			if ctx.Value(key{}) != "value" || ctx.Err() != nil {
				t.Errorf("value %v, err %v", ctx.Value(key{}), ctx.Err())
			}
			got, _ := ctx.Deadline()
			want, _ := bounded.Deadline()
			if !got.Equal(want) {
				t.Errorf("deadline %v, want %v", got, want)
			}
			return nil
		})
		if err != nil || !isClosed(kept.Done()) || !errors.Is(kept.Err(), context.Canceled) {
			t.Errorf("%v; after the task has returned its context is %v", err, kept.Err())
		}
		running := make(chan struct{})
		if err := p.SubmitContext(parent, func(ctx context.Context) {
			close(running)
			<-ctx.Done()
			if ctx.Err() != context.Canceled || context.Cause(ctx) != why {
				t.Errorf("err %v, cause %v", ctx.Err(), context.Cause(ctx))
			}
		}); err != nil {
			t.Fatal(err)
		}
		<-running
		cancel(why)
		p.Wait()
		shutClean(t, p)
	})
}

// ----- batches -----

func batchOf(y *tally, from, to int) (batch []func()) {
	for i := from; i < to; i++ {
		batch = append(batch, y.task(i))
	}
	return batch
}

func TestSubmitBatchFollowsThePolicy(t *testing.T) {
	const capacity, n = 3, 5
	for _, test := range []struct {
		policy   shoal.FullPolicy
		accepted int
		err      error
		queued   []int // in order
		dropped  uint64
	}{
		{shoal.Reject, 3, shoal.ErrQueueFull, []int{0, 1, 2}, 0},
		{shoal.Spawn, 5, nil, []int{0, 1, 2}, 0},
		{shoal.CallerRuns, 5, nil, []int{0, 1, 2}, 0},
		{shoal.DropOldest, 5, nil, []int{2, 3, 4}, 2},
		{shoal.Block, 5, nil, []int{0, 1, 2, 3, 4}, 0},
	} {
		t.Run(test.policy.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(test.policy))...)
				release := hold(t, p, 1)
				y := newTally(n)
				var released atomic.Bool
				var onWorker []int
				var batch []func()
				for i := range n {
					batch = append(batch, func() {
						y.hit(i)
						if released.Load() {
							onWorker = append(onWorker, i)
						}
					})
				}
				returned := inBackground(func() {
					got, err := p.SubmitBatch(batch)
					if got != test.accepted || !errors.Is(err, test.err) {
						t.Errorf("SubmitBatch: %d, %v; want %d, %v", got, err, test.accepted, test.err)
					}
					for i := range got {
						y.accept(i)
					}
				})
				synctest.Wait()
				if waits := test.policy == shoal.Block; isClosed(returned) == waits {
					t.Errorf("returned: %v", !waits)
				}
				if s := p.Stats(); s.Queued != capacity || s.Dropped != test.dropped {
					t.Errorf("%+v", s)
				}
				released.Store(true)
				release()
				<-returned // first: the pool may be quiet between two of the batch
				p.Wait()
				y.checkDropped(t, test.dropped)
				if !slices.Equal(onWorker, test.queued) {
					t.Errorf("the worker ran %v, want %v", onWorker, test.queued)
				}
				shutClean(t, p)
			})
		})
	}
}

func TestSubmitBatchWithANilElementAcceptsNone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		task := func() { t.Error("it ran") }
		for _, batch := range [][]func(){{nil}, {nil, task}, {task, nil}, {task, task, nil, task}} {
			n, err := p.SubmitBatch(batch)
			wantErr(t, "SubmitBatch", err, shoal.ErrNilTask)
			if n != 0 {
				t.Errorf("%d accepted", n)
			}
		}
		for _, batch := range [][]func(){nil, {}} {
			if n, err := p.SubmitBatch(batch); n != 0 || err != nil {
				t.Errorf("an empty batch: %d, %v", n, err)
			}
		}
		if s := p.Stats(); s.Submitted != 0 || s.Rejected != 0 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	})
}

func TestSubmitBatchOfAnySizeRunsEachOnceInOrder(t *testing.T) {
	for _, capacity := range []int{0, 1, 64, 1000, shoal.Unbounded} {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
		for _, n := range []int{1, 2, 63, 64, 65, 511, 512, 513, 2000} {
			y := newTally(n)
			next := 0
			var batch []func()
			for i := range n {
				batch = append(batch, func() {
					y.hit(i)
					if i != next {
						t.Errorf("task %d started before task %d", i, next)
					}
					next = i + 1
				})
			}
			if got, err := p.SubmitBatch(batch); got != n || err != nil {
				t.Errorf("capacity %d: %d of %d, %v", capacity, got, n, err)
			}
			p.Wait()
			y.check(t)
		}
		shutClean(t, p)
	}
}

func TestSubmitBatchInterruptedByCloseReportsThePrefix(t *testing.T) {
	for name, end := range map[string]func(*shoal.Pool){
		"Close":    func(p *shoal.Pool) { p.Close() },
		"Shutdown": func(p *shoal.Pool) { p.Shutdown(context.Background()) },
	} {
		inBubble(t, func(t *testing.T) {
			const capacity = 3
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
			release := hold(t, p, 1)
			y := newTally(10)
			returned := inBackground(func() {
				n, err := p.SubmitBatch(batchOf(y, 0, 10))
				wantErr(t, "SubmitBatch", err, shoal.ErrClosed)
				if n != capacity {
					t.Errorf("%d accepted, want %d", n, capacity)
				}
				for i := range n {
					y.accept(i)
				}
			})
			synctest.Wait()
			ended := inBackground(func() { end(p) })
			<-returned
			release()
			<-ended
			y.checkDropped(t, map[string]uint64{"Close": capacity}[name])
			checkEnded(t, p)
		})
	}
}

// ----- SubmitWait -----

func TestSubmitWaitReturnsWhatBecameOfTheTask(t *testing.T) {
	noLog(t)
	cause := errors.New("cause")
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn, shoal.CallerRuns} {
		for _, full := range []bool{false, true} {
			if full && policy == shoal.Block {
				continue
			}
			t.Run(fmt.Sprintf("%v/full=%v", policy, full), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy), shoal.WithName("wait"))...)
					release := func() {}
					if full {
						release = hold(t, p, 1)
					}
					ctx := t.Context()
					if err := p.SubmitWait(ctx, func(context.Context) error { return nil }); err != nil {
						t.Errorf("success: %v", err)
					}
					if err := p.SubmitWait(ctx, func(context.Context) error { return cause }); err != cause {
						t.Errorf("an error: %v", err)
					}
					checkPanicError(t, p.SubmitWait(ctx, func(context.Context) error { panic(cause) }), cause)
					checkPanicError(t, p.SubmitWait(ctx, func(context.Context) error { panic("a string") }), "a string")
					err := p.SubmitWait(ctx, func(context.Context) error { panic(nil) })
					var nilPanic *runtime.PanicNilError
					if !errors.As(err, &nilPanic) {
						t.Errorf("panic(nil): %v", err)
					}
					err = p.SubmitWait(ctx, func(context.Context) error {
						var none []int
						i := len(none)
						none[i] = 1
						return nil
					})
					var re runtime.Error
					if !errors.As(err, &re) {
						t.Errorf("a runtime error: %v", err)
					}
					var e *shoal.PanicError
					if !errors.As(err, &e) || e.Pool != "wait" {
						t.Errorf("%v does not name the pool", err)
					}
					want := uint64(5)
					if !(full && policy == shoal.CallerRuns) {
						wantErr(t, "Goexit", p.SubmitWait(ctx, func(context.Context) error { runtime.Goexit(); return nil }), shoal.ErrGoexit)
						want++
					}
					// When a result is returned, the counters are right.
					if s := p.Stats(); s.Failed != want {
						t.Errorf("Failed %d, want %d", s.Failed, want)
					}
					release()
					shutClean(t, p)
				})
			})
		}
	}
}

func TestSubmitWaitReturnsWhenItsContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		release := hold(t, p, 1)
		wait := func(ctx context.Context, y *tally) (<-chan struct{}, *error) {
			err := new(error)
			return inBackground(func() {
				*err = p.SubmitWait(ctx, func(ctx context.Context) error {
					y.hit(0)
					<-ctx.Done()
					return ctx.Err()
				})
			}), err
		}
		// While it is queued, and while it waits for room.
		for i := range 2 {
			if i == 1 { // the place of the first is free again
				must(t, p.Submit(func() {}))
			}
			ctx, cancel := context.WithCancel(t.Context())
			y := newTally(1)
			returned, err := wait(ctx, y)
			synctest.Wait()
			if isClosed(returned) {
				t.Error("returned early")
			}
			cancel()
			<-returned
			wantErr(t, "SubmitWait", *err, context.Canceled)
			defer func() {
				if y.ran(0) != 0 {
					t.Error("it started although nobody wants it any more")
				}
			}()
		}
		release()
		p.Wait()
		if s := p.Stats(); s.Canceled != 1 || s.Completed != 2 {
			t.Errorf("one queued, one never accepted: %+v", s)
		}
		// While it runs.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		y := newTally(1)
		returned, err := wait(ctx, y)
		synctest.Wait()
		if isClosed(returned) || y.ran(0) != 1 {
			t.Error("it does not run")
		}
		<-returned // by ctx: the task obeys it
		wantErr(t, "SubmitWait", *err, context.DeadlineExceeded)
		p.Wait()
		if s := p.Stats(); s.Failed != 1 || s.Completed != 3 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	})
}

// S14, S7: a task that runs when the context ends goes on writing to what it has
// captured, so SubmitWait returns with the task's own result, when it has returned;
// wherever the task runs.
func TestS14_SubmitWaitReturnsWhenItsTaskDoesNotRunAnyMore(t *testing.T) {
	noLog(t)
	own := errors.New("cleaned up")
	ends := map[string]struct {
		end  func() error
		want error
	}{
		"success": {func() error { return nil }, nil},
		"error":   {func() error { return own }, own},
		"panic":   {func() error { panic(own) }, own},
		"Goexit":  {func() error { runtime.Goexit(); return nil }, shoal.ErrGoexit},
	}
	for where, run := range map[string]func(t *testing.T, p *shoal.Pool, wait func(context.Context) error) error{
		"worker": func(t *testing.T, p *shoal.Pool, wait func(context.Context) error) error { return wait(t.Context()) },
		"spawned": func(t *testing.T, p *shoal.Pool, wait func(context.Context) error) error {
			defer hold(t, p, 1)()
			return wait(t.Context())
		},
		"task": func(t *testing.T, p *shoal.Pool, wait func(context.Context) error) (err error) {
			<-inBackground(func() {
				p.SubmitWait(t.Context(), func(ctx context.Context) error { err = wait(ctx); return nil })
			})
			return err
		},
	} {
		for how, c := range ends {
			if where == "task" && how == "Goexit" {
				continue // which ends the outer task too
			}
			t.Run(where+"/"+how, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Spawn))...)
					var over bool // plain: the race detector watches it too
					err := run(t, p, func(ctx context.Context) error {
						ctx, cancel := context.WithTimeout(ctx, time.Second)
						defer cancel()
						err := p.SubmitWait(ctx, func(ctx context.Context) error {
							<-ctx.Done()
							time.Sleep(time.Second)
							over = true
							return c.end()
						})
						if !over {
							t.Error("SubmitWait returned while its task ran")
						}
						return err
					})
					wantErr(t, "SubmitWait", err, c.want)
					shutClean(t, p)
				})
			})
		}
	}
}

// A task that has not started when the context ends never does, and its caller does
// not wait until a worker comes to it.
func TestS14_SubmitWaitTakesBackWhatHasNotStarted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(10))...)
		release := hold(t, p, 1)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the cause"))
		defer cancel()
		begin := time.Now()
		err := p.SubmitWait(ctx, func(context.Context) error { t.Error("it started"); return nil })
		wantErr(t, "SubmitWait", err, context.DeadlineExceeded)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("returned after %v, want 1s", d)
		}
		if s := p.Stats(); s.Canceled != 1 || s.InFlight != 1 || s.Queued != 0 {
			t.Errorf("taken back: %+v", s)
		}
		release()
		shutClean(t, p)
	})
}

func TestNestedSubmitWaitHonoursAContextThatIsDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		err := p.SubmitWait(t.Context(), func(ctx context.Context) error {
			done, cancel := context.WithCancel(ctx)
			cancel()
			return p.SubmitWait(done, func(context.Context) error {
				t.Error("it ran although its context had ended")
				return nil
			})
		})
		wantErr(t, "the nested SubmitWait", err, context.Canceled)
		shutClean(t, p)
	})
}

func TestNestedSubmitWaitResults(t *testing.T) {
	noLog(t)
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		cause := errors.New("cause")
		err := p.SubmitWait(t.Context(), func(ctx context.Context) error {
			if err := p.SubmitWait(ctx, func(context.Context) error { return cause }); err != cause {
				t.Errorf("an error: %v", err)
			}
			checkPanicError(t, p.SubmitWait(ctx, func(context.Context) error { panic(cause) }), cause)
			return p.SubmitWait(ctx, func(context.Context) error { return nil })
		})
		if err != nil {
			t.Errorf("the outer task: %v", err)
		}
		if s := p.Stats(); s.Completed != 4 || s.Failed != 2 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	})
}

// What a task submits from a goroutine of its own, with the task's context, is
// the task's too.
func TestSubmitWaitFromGoroutinesOfATask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		const n = 8
		y := newTally(n)
		err := p.SubmitWait(t.Context(), func(ctx context.Context) error {
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					if err := p.SubmitWait(ctx, func(context.Context) error { y.hit(i); return nil }); err != nil {
						t.Errorf("SubmitWait: %v", err)
					}
				})
			}
			wg.Wait()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		y.check(t)
		shutClean(t, p)
	})
}

// ----- from tasks of the pool -----

func TestATaskThatFindsItsQueueFullRunsWhatItSubmits(t *testing.T) {
	kinds := map[string]func(p *shoal.Pool, ctx context.Context, task func()) error{
		"Submit": func(p *shoal.Pool, _ context.Context, task func()) error { return p.Submit(task) },
		"SubmitContext": func(p *shoal.Pool, ctx context.Context, task func()) error {
			return p.SubmitContext(context.WithoutCancel(ctx), func(context.Context) { task() })
		},
		"SubmitBatch": func(p *shoal.Pool, _ context.Context, task func()) error {
			_, err := p.SubmitBatch([]func(){task, func() {}})
			return err
		},
	}
	for name, submit := range kinds {
		for _, capacity := range []int{0, 1, 3} {
			for _, workers := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s/capacity=%d/workers=%d", name, capacity, workers), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						p := newPool(t, fixed(workers, shoal.WithQueueCapacity(capacity))...)
						const n = 20
						y := newTally(workers * n)
						var ready sync.WaitGroup // all workers are busy before any submits
						ready.Add(workers)
						for w := range workers {
							if err := p.SubmitContext(t.Context(), func(ctx context.Context) {
								ready.Done()
								ready.Wait()
								for i := range n {
									if err := submit(p, ctx, y.task(w*n+i)); err != nil {
										t.Errorf("%v", err)
									}
								}
							}); err != nil {
								t.Fatal(err)
							}
						}
						p.Wait()
						y.check(t)
						shutClean(t, p)
					})
				})
			}
		}
	}
}

// Deeply: every task submits the next one, and the queue is always full.
func TestATaskMayRunWhatItSubmitsInDepth(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const depth = 300
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		y := newTally(depth)
		var chain func(i int) func()
		chain = func(i int) func() {
			return func() {
				y.hit(i)
				if i+1 < depth {
					if err := p.Submit(chain(i + 1)); err != nil {
						t.Errorf("%v", err)
					}
				}
			}
		}
		if err := p.Submit(chain(0)); err != nil {
			t.Fatal(err)
		}
		p.Wait()
		y.check(t)
		if s := p.Stats(); s.Completed != depth {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	})
}

// ----- storms -----

// submitStorm makes several goroutines submit the tasks of a tally through submit,
// and waits for them and for the pool, in a bubble so that a hang is found.
func submitStorm(t *testing.T, p *shoal.Pool, submitters, each int, submit func(r *rand.Rand, y *tally, id int)) *tally {
	t.Helper()
	y := newTally(submitters * each)
	var wg sync.WaitGroup
	for s := range submitters {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(s), 1))
			for i := range each {
				submit(r, y, s*each+i)
			}
		})
	}
	wg.Wait()
	p.Wait()
	return y
}

func TestManySubmittersOnePlace(t *testing.T) {
	for name, submit := range waitingKinds {
		for _, capacity := range []int{0, 1} {
			for _, workers := range []int{1, 2, 8} {
				t.Run(fmt.Sprintf("%s/capacity=%d/workers=%d", name, capacity, workers), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity))
						y := submitStorm(t, p, 16, 100, func(_ *rand.Rand, y *tally, id int) {
							if err := y.note(id, submit(p, y.task(id))); err != nil {
								t.Errorf("%v", err)
							}
						})
						y.check(t)
						shutClean(t, p)
					})
				})
			}
		}
	}
}

func TestEveryKindOfSubmitAtOnceExactlyOnce(t *testing.T) {
	for _, policy := range allPolicies {
		for _, capacity := range []int{0, 1, 2, 64} {
			for _, workers := range []int{1, 2} {
				t.Run(fmt.Sprintf("%v/capacity=%d/workers=%d", policy, capacity, workers), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						p := newPool(t, shape{policy, capacity, workers}.options()...)
						y := submitStorm(t, p, 8, 120, func(r *rand.Rand, y *tally, id int) {
							ctx, cancel := context.WithCancel(context.Background())
							var err error
							switch r.IntN(6) {
							case 0:
								err = p.Submit(y.task(id))
							case 1:
								err = p.TrySubmit(y.task(id))
							case 2:
								go cancel()
								err = p.SubmitContext(ctx, y.taskCtx(id))
							case 3:
								err = p.SubmitWait(ctx, func(context.Context) error { y.hit(id); return nil })
								if errors.Is(err, shoal.ErrDropped) {
									err = nil // it was accepted
								}
							case 4:
								var n int
								n, err = p.SubmitBatch([]func(){y.task(id), func() {}})
								if n == 1 {
									err = nil
								}
							case 5:
								err = p.Submit(func() { y.hit(id); p.TrySubmit(func() {}) })
							}
							if y.note(id, err) != nil && !errors.Is(err, shoal.ErrQueueFull) && !errors.Is(err, context.Canceled) {
								t.Errorf("%v", err)
							}
							cancel()
						})
						s := p.Stats()
						checkIdentity(t, s)
						if s.InFlight != 0 || s.Queued != 0 {
							t.Errorf("after Wait: %+v", s)
						}
						if policy == shoal.DropOldest {
							// Tasks that do not belong to the tally may be among the dropped.
							for id := range y.words {
								if y.ran(id) > 1 || y.ran(id) == 1 && !y.accepted(id) {
									t.Errorf("task %d: ran %d times, accepted %v", id, y.ran(id), y.accepted(id))
								}
							}
						} else {
							y.checkDropped(t, s.Canceled)
						}
						shutClean(t, p)
					})
				})
			}
		}
	}
}

// A worker that finds the queue empty while others wait for free capacity counts
// its last task as finished. The callers that wait for that, in Wait or in
// SubmitWait, must be woken, although no further task comes.
func TestWaitIsToldOfTheLastTaskOfAStorm(t *testing.T) {
	for round := range testpool.Reps(600, 100, 100) {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2, shoal.WithQueueCapacity(round%2))...)
			y := newTally(24)
			var wg sync.WaitGroup
			for s := range 8 {
				wg.Go(func() {
					for i := range 3 {
						y.note(3*s+i, p.Submit(y.task(3*s+i)))
					}
				})
			}
			told := inBackground(func() { wg.Wait(); p.Wait() })
			synctest.Wait()
			if !isClosed(told) {
				t.Errorf("round %d: all is still, Wait has not returned: %+v", round, p.Stats())
				p.Submit(func() {}) // wakes it
			}
			<-told
			y.check(t)
			shutClean(t, p)
		})
	}
}

func TestSubmitWaitIsToldOfTheLastTaskOfAStorm(t *testing.T) {
	for round := range testpool.Reps(600, 100, 100) {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2, shoal.WithQueueCapacity(round%2))...)
			y := newTally(24)
			var wg sync.WaitGroup
			for s := range 8 {
				wg.Go(func() {
					for i := range 3 {
						id := 3*s + i
						if err := p.SubmitWait(context.Background(), func(context.Context) error { y.hit(id); return nil }); err != nil {
							t.Errorf("%v", err)
						}
					}
				})
			}
			told := inBackground(wg.Wait)
			for !isClosed(told) {
				synctest.Wait()
				if !isClosed(told) {
					t.Errorf("round %d: all is still, a SubmitWait has not returned: %+v", round, p.Stats())
					hold(t, p, 2)() // wakes it
				}
			}
			y.check(t)
			shutClean(t, p)
		})
	}
}

func TestOneSubmittersTasksStartInOrder(t *testing.T) {
	for _, capacity := range []int{0, 1, 64, shoal.Unbounded} {
		t.Run(fmt.Sprintf("capacity=%d", capacity), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const submitters, each = 8, 400
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
				var last [submitters]int // touched by the one worker
				y := submitStorm(t, p, submitters, each, func(r *rand.Rand, y *tally, id int) {
					task := func() {
						y.hit(id)
						if s, i := id/each, id%each; last[s] != i {
							t.Errorf("submitter %d: task %d started when %d was due", s, i, last[s])
						} else {
							last[s]++
						}
					}
					var err error
					switch r.IntN(3) {
					case 0:
						err = p.Submit(task)
					case 1:
						err = p.SubmitContext(context.Background(), func(context.Context) { task() })
					case 2:
						_, err = p.SubmitBatch([]func(){task})
					}
					if y.note(id, err) != nil {
						t.Errorf("%v", err)
					}
				})
				y.check(t)
				shutClean(t, p)
			})
		})
	}
}

func TestFiveThousandGoroutinesSubmitAtOnce(t *testing.T) {
	const n = 5000 // the race detector allows 8128 goroutines
	p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(8))
	y := submitStorm(t, p, n, 1, func(_ *rand.Rand, y *tally, id int) {
		if err := y.note(id, p.Submit(y.task(id))); err != nil {
			t.Errorf("%v", err)
		}
	})
	y.check(t)
	shutClean(t, p)
}

// A task's context has ended as soon as its parent has, even if the parent is a context
// of the user's own and no goroutine has noticed its end yet.
func TestATasksContextHasEndedAsSoonAsItsParent(t *testing.T) {
	p := shoal.Must(shoal.New())
	defer p.Close()
	for range 100 {
		parent := &ownContext{Context: context.Background(), done: make(chan struct{})}
		if err := p.SubmitWait(parent, func(ctx context.Context) error {
			done := ctx.Done()
			parent.end()
			if ctx.Err() == nil {
				t.Error("the parent has ended, and the task's context has not")
			}
			<-done
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// An ownContext is a context that package context knows nothing of.
type ownContext struct {
	context.Context
	done  chan struct{}
	ended atomic.Bool
}

func (c *ownContext) Done() <-chan struct{} { return c.done }

func (c *ownContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

func (c *ownContext) end() { c.ended.Store(true); close(c.done) }

// A submitter that is far ahead of a blocked worker waits for it a few times only, and briefly.
func TestASubmitterThatIsFarAheadWaitsForLittle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(shoal.Unbounded))
		gate := make(chan struct{})
		must(t, p.Submit(func() { <-gate }))
		synctest.Wait() // the worker is in it
		start := time.Now()
		ran := submitN(t, p, 300_000)
		if waited := time.Since(start); waited <= 0 || waited > time.Millisecond {
			t.Errorf("it has waited for %v", waited)
		}
		close(gate)
		if err := p.Shutdown(t.Context()); err != nil || ran.Load() != 300_000 {
			t.Errorf("%v, %d have run", err, ran.Load())
		}
	})
}
