package tests

import (
	"fmt"
	"maps"
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
)

// A journal notes for each key which tasks ran, and that they did so one at a
// time.
type journal struct {
	running []atomic.Int32
	ran     [][]int // guarded by the key's being alone
	bad     atomic.Int32
}

func newJournal(keys int) *journal {
	return &journal{running: make([]atomic.Int32, keys), ran: make([][]int, keys)}
}

// task is task i of the key.
func (j *journal) task(key, i int, during func()) func() {
	return func() {
		if j.running[key].Add(1) != 1 {
			j.bad.Add(1)
		}
		defer j.running[key].Add(-1)
		j.ran[key] = append(j.ran[key], i)
		during()
	}
}

// checkOrder fails the test unless of each key the tasks 0 … n-1 ran, one after
// the other, in that order.
func (j *journal) checkOrder(t *testing.T, n int) {
	t.Helper()
	if j.bad.Load() != 0 {
		t.Errorf("%d tasks ran beside another one of their key", j.bad.Load())
	}
	for key, ran := range j.ran {
		if len(ran) != n {
			t.Errorf("of key %d %d of %d tasks ran", key, len(ran), n)
			return
		}
		for i, id := range ran {
			if i != id {
				t.Errorf("task %d of key %d ran as number %d", id, key, i)
				return
			}
		}
	}
}

func TestKeyedKeepsTheOrderOfEachKey(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		for _, capacity := range []int{0, 1, 10, shoal.Unbounded} {
			for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn, shoal.CallerRuns} {
				t.Run(fmt.Sprintf("%d workers, capacity %d, %v", workers, capacity, policy), func(t *testing.T) {
					const keys = 5
					n := rounds(400)
					p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy))
					k := shoal.NewKeyed[int](p)
					j := newJournal(keys)
					var wg sync.WaitGroup
					for key := range keys {
						wg.Go(func() {
							for i := range n {
								must(t, k.Submit(key, j.task(key, i, func() {
									if i%7 == key {
										runtime.Gosched()
									}
								})))
							}
						})
					}
					wg.Wait()
					p.Wait()
					j.checkOrder(t, n)
					s := p.Stats()
					checkIdentity(t, s)
					if s.Completed != uint64(keys*n) || s.Queued != 0 || s.Running != 0 {
						t.Errorf("%d tasks: %+v", keys*n, s)
					}
					shutClean(t, p)
				})
			}
		}
	}
}

func TestKeyedBlockedKeyBlocksOnlyItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		k := shoal.NewKeyed[string](p)
		gate := make(chan struct{})
		j := newJournal(2)
		must(t, k.Submit("blocked", j.task(0, 0, func() { <-gate })))
		for i := 1; i < 1000; i++ {
			must(t, k.Submit("blocked", j.task(0, i, func() {})))
		}
		for i := range 1000 {
			must(t, k.Submit("free", j.task(1, i, func() {})))
		}
		synctest.Wait()
		if n := len(j.ran[1]); n != 1000 {
			t.Errorf("%d of 1000 tasks of the other key ran", n)
		}
		if n := len(j.ran[0]); n != 1 {
			t.Errorf("%d tasks of the blocked key ran", n)
		}
		s := p.Stats()
		checkIdentity(t, s)
		if s.Queued != 999 || p.Queued() != 999 || s.InFlight != 1000 || s.Running != 1 || s.Completed != 1000 {
			t.Errorf("999 tasks wait for their key: %+v, Queued %d", s, p.Queued())
		}
		close(gate)
		p.Wait()
		j.checkOrder(t, 1000)
		shutClean(t, p)
	})
}

func TestKeyedTasksThatWaitForTheirKeyCountAgainstTheCapacity(t *testing.T) {
	for _, policy := range []shoal.FullPolicy{shoal.Reject, shoal.DropOldest} {
		inBubble(t, func(t *testing.T) {
			const capacity, workers = 5, 3
			p := newPool(t, fixed(workers, shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy))...)
			k := shoal.NewKeyed[int](p)
			gate := make(chan struct{})
			accepted := 0
			for range 20 {
				if err := k.Submit(1, func() { <-gate }); err == nil {
					accepted++
				} else {
					wantErr(t, "no room", err, shoal.ErrQueueFull)
				}
				synctest.Wait()
			}
			// One runs, and two workers are free for others.
			if want := workers + capacity; accepted != want {
				t.Errorf("%v: %d accepted, want %d", policy, accepted, want)
			}
			close(gate)
			p.Wait()
			if s := p.Stats(); s.Completed != uint64(accepted) || s.Rejected != uint64(20-accepted) {
				t.Errorf("%v: %+v", policy, s)
			}
			shutClean(t, p)
		})
	}
}

// TrySubmit refuses where Submit would wait, run the task, or displace another one.
func TestKeyedTrySubmit(t *testing.T) {
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Reject, shoal.Spawn, shoal.CallerRuns, shoal.DropOldest} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(2), shoal.WithFullPolicy(policy))...)
			k := shoal.NewKeyed[string](p)
			gate := make(chan struct{})
			var order []int
			task := func(i int) func() {
				return func() {
					<-gate
					order = append(order, i)
				}
			}
			must(t, k.TrySubmit("a", task(0)))
			synctest.Wait()
			must(t, k.TrySubmit("a", task(1)))
			must(t, k.Submit("b", task(2)))
			wantErr(t, "a busy key", k.TrySubmit("a", task(3)), shoal.ErrQueueFull)
			wantErr(t, "a key without tasks", k.TrySubmit("c", task(3)), shoal.ErrQueueFull)
			wantErr(t, "no task", k.TrySubmit("a", nil), shoal.ErrNilTask)
			close(gate)
			p.Wait()
			must(t, k.TrySubmit("c", task(3)))
			shutClean(t, p)
			wantErr(t, "a closed pool", k.TrySubmit("a", task(4)), shoal.ErrClosed)
			if s := p.Stats(); s.Completed != 4 || s.Rejected != 2 || s.Dropped != 0 || order[0] != 0 || order[3] != 3 {
				t.Errorf("%v: %v, %+v", policy, order, s)
			}
		})
	}
	wantErr(t, "no pool", shoal.NewKeyed[int](nil).TrySubmit(1, func() {}), shoal.ErrClosed)
}

func TestKeyedUnderDropOldest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(3), shoal.WithFullPolicy(shoal.DropOldest))...)
		k := shoal.NewKeyed[int](p)
		release := hold(t, p, 1)
		var ran []int
		for i := range 10 {
			must(t, k.Submit(i%2, func() { ran = append(ran, i) }))
		}
		release()
		p.Wait()
		if s := slices.Sorted(slices.Values(ran)); !slices.Equal(s, []int{7, 8, 9}) || slices.Index(ran, 7) > slices.Index(ran, 9) {
			t.Errorf("the last three run, those of a key in order, not %v", ran)
		}
		if s := p.Stats(); s.Dropped != 7 || s.Completed != 4 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	})
}

// A key has one activation in the queue. So DropOldest displaces the first task of the key whose
// activation is the oldest, and that key is the youngest then. Tasks that wait behind others of
// their key cannot be displaced before those.
func TestKeyedDropOldestDisplacesTheFirstTaskOfTheOldestKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(4), shoal.WithFullPolicy(shoal.DropOldest))...)
		k := shoal.NewKeyed[int](p)
		release := hold(t, p, 1)
		ran := map[string]bool{}
		task := func(name string) func() { return func() { ran[name] = true } }
		must(t, k.Submit(1, task("1a")))
		must(t, k.Submit(2, task("2a")))
		must(t, k.Submit(1, task("1b")))
		must(t, k.Submit(1, task("1c")))
		must(t, p.Submit(task("x"))) // displaces 1a; 1b is behind 2a then, and behind x
		must(t, p.Submit(task("y"))) // displaces 2a
		must(t, p.Submit(task("z"))) // displaces x
		release()
		p.Wait()
		if want := map[string]bool{"1b": true, "1c": true, "y": true, "z": true}; !maps.Equal(ran, want) {
			t.Errorf("%v ran, want %v", ran, want)
		}
		if s := p.Stats(); s.Dropped != 3 || s.Completed != 5 {
			t.Errorf("%+v", s)
		}
		shutClean(t, p)
	})
}

// While a task of a key runs, the tasks that wait behind it are not in the queue. If no others
// wait, there is nothing to displace.
func TestKeyedDropOldestRefusesIfAllWaitForTheirKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest))...)
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		must(t, k.Submit(1, func() { <-gate }))
		synctest.Wait()
		ran := 0
		for range 2 {
			must(t, k.Submit(1, func() { ran++ }))
		}
		wantErr(t, "of the key", k.Submit(1, nothing), shoal.ErrQueueFull)
		wantErr(t, "of another key", k.Submit(2, nothing), shoal.ErrQueueFull)
		wantErr(t, "of no key", p.Submit(nothing), shoal.ErrQueueFull)
		close(gate)
		p.Wait()
		if s := p.Stats(); ran != 2 || s.Dropped != 0 || s.Rejected != 3 || s.Completed != 3 {
			t.Errorf("%d ran: %+v", ran, s)
		}
		shutClean(t, p)
	})
}

func TestKeyedFaultsDoNotStopTheKey(t *testing.T) {
	noLog(t)
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn, shoal.CallerRuns} {
		for _, workers := range []int{1, 2, 4} {
			p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(3), shoal.WithFullPolicy(policy))
			k := shoal.NewKeyed[int](p)
			n := rounds(600)
			j := newJournal(3)
			failed := uint64(0)
			for i := range n {
				for key := range 3 {
					fault := func() {}
					switch {
					case i%5 == key:
						failed++
						fault = func() { panic(errBoom) }
					case i%5 == key+1 && policy != shoal.CallerRuns: // it would end this goroutine
						failed++
						fault = runtime.Goexit
					}
					must(t, k.Submit(key, j.task(key, i, fault)))
				}
			}
			p.Wait()
			j.checkOrder(t, n)
			s := p.Stats()
			checkIdentity(t, s)
			if s.Failed != failed || s.Completed != uint64(3*n) {
				t.Errorf("%v, %d workers: %d fail: %+v", policy, workers, failed, s)
			}
			shutClean(t, p)
		}
	}
}

func TestKeyedTaskSubmitsToItsOwnKey(t *testing.T) {
	for _, capacity := range []int{0, 1, 10} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(capacity))...)
			k := shoal.NewKeyed[string](p)
			j := newJournal(1)
			var step func(i int) func()
			step = func(i int) func() {
				return j.task(0, i, func() {
					if i < 100 {
						must(t, k.Submit("key", step(i+1)))
					}
				})
			}
			must(t, k.Submit("key", step(0)))
			p.Wait()
			j.checkOrder(t, 101)
			shutClean(t, p)
		})
	}
}

func TestKeyedEndOfThePool(t *testing.T) {
	inBubble(t, func(t *testing.T) { // a graceful end runs all, also those that wait for their key
		p := newPool(t, fixed(2)...)
		k := shoal.NewKeyed[int](p)
		j := newJournal(2)
		for i := range 10 {
			for key := range 2 {
				must(t, k.Submit(key, j.task(key, i, func() { time.Sleep(time.Second) })))
			}
		}
		shutClean(t, p)
		j.checkOrder(t, 10)
		wantErr(t, "after the end", k.Submit(1, nothing), shoal.ErrClosed)
	})
	inBubble(t, func(t *testing.T) { // Close drops those, and counts them
		p := newPool(t, fixed(2)...)
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		ran := 0
		for range 10 {
			must(t, k.Submit(1, func() { ran++; <-gate }))
		}
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(gate) }()
		closeAll(t, p)
		if s := p.Stats(); ran != 1 || s.Dropped != 9 || s.Completed != 1 {
			t.Errorf("%d ran: %+v", ran, s)
		}
	})
	inBubble(t, func(t *testing.T) { // a Shutdown that is cut short tells how many
		p := newPool(t, fixed(2)...)
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		for range 10 {
			must(t, k.Submit(1, func() { <-gate }))
		}
		synctest.Wait()
		err := p.Shutdown(canceledContext())
		if e, ok := err.(*shoal.ShutdownError); !ok || e.Dropped != 9 || e.Running != 1 {
			t.Errorf("Shutdown = %v", err)
		}
		close(gate)
		<-p.Done()
		checkEnded(t, p)
	})
}

func TestKeyedOfABadCallSaysWhy(t *testing.T) {
	p := newPool(t)
	wantErr(t, "nil task", shoal.NewKeyed[int](p).Submit(1, nil), shoal.ErrNilTask)
	wantErr(t, "nil pool", shoal.NewKeyed[int](nil).Submit(1, nothing), shoal.ErrClosed)
	wantErr(t, "zero pool", shoal.NewKeyed[int](new(shoal.Pool)).Submit(1, nothing), shoal.ErrClosed)
	shutClean(t, p)
}

func TestKeyedIdleKeysCostNoMemory(t *testing.T) {
	weighs(t)
	const n = many
	p := openPool(t, shoal.WithMaxWorkers(2))
	k := shoal.NewKeyed[int](p)
	before := heapInUse()
	var sum atomic.Int64
	for i := range n {
		must(t, k.Submit(i, func() { sum.Add(1) }))
	}
	p.Wait()
	if sum.Load() != n {
		t.Errorf("%d of %d tasks ran", sum.Load(), n)
	}
	if grown := heapInUse() - before; grown > 100<<10 {
		t.Errorf("%d keys without tasks keep %d bytes", n, grown)
	}
	runtime.KeepAlive(k)
}

// A key with a long line costs each of its tasks no more than one with a short line,
// whatever has its worker stop between them.
func TestKeyedLongLineCostsNoMoreATask(t *testing.T) {
	noLog(t)
	const n, most = 8000, 4 << 10 // tasks, bytes a task: a worker for each, and a ticket
	for name, test := range map[string]struct {
		end  func()
		opts []shoal.Option
	}{
		"many turns":           {nothing, nil},
		"one task of a worker": {nothing, []shoal.Option{shoal.WithMaxTasksPerWorker(1)}},
		"Goexit after each":    {runtime.Goexit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, append([]shoal.Option{shoal.WithMaxWorkers(2)}, test.opts...)...)
			k := shoal.NewKeyed[int](p)
			j := newJournal(1)
			gate := make(chan struct{})
			during := func() {
				passed := make(chan struct{})
				must(t, p.Submit(func() { close(passed) }))
				<-passed // and with it whatever was given back: the other worker has been there
				test.end()
			}
			must(t, k.Submit(0, j.task(0, 0, func() { <-gate })))
			for i := range n - 1 {
				must(t, k.Submit(0, j.task(0, 1+i, during)))
			}
			must(t, p.SubmitWait(bg, fine)) // all before it have left their turns
			before := allocated()
			close(gate)
			p.Wait()
			if got := (allocated() - before) / n; got > most {
				t.Errorf("%d bytes a task, want at most %d", got, most)
			}
			j.checkOrder(t, n)
			shutClean(t, p)
		})
	}
}

func TestKeyedWhateverHappens(t *testing.T) {
	noLog(t)
	for round := range rounds(400) {
		r := rand.New(rand.NewPCG(uint64(round), 4))
		policy := allPolicies[r.IntN(len(allPolicies))]
		p := newPool(t, shoal.WithMaxWorkers(1+r.IntN(4)), shoal.WithQueueCapacity(r.IntN(6)), shoal.WithFullPolicy(policy),
			shoal.WithMaxTasksPerWorker(r.IntN(3)))
		k := shoal.NewKeyed[int](p)
		keys := 1 + r.IntN(3)
		y := newTally(4 * 100)
		running := make([]atomic.Int32, keys)
		var wg sync.WaitGroup
		for g := range 4 {
			seed := r.Uint64()
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 5))
				for i := range 100 {
					id, key, fault := 100*g+i, r.IntN(keys), r.IntN(20)
					err := k.Submit(key, func() {
						if running[key].Add(1) != 1 {
							t.Errorf("round %d: two tasks of a key at once", round)
						}
						defer running[key].Add(-1)
						y.hit(id)
						switch {
						case fault == 0:
							panic(errBoom)
						case fault == 1 && policy != shoal.CallerRuns && policy != shoal.Block:
							runtime.Goexit()
						case fault < 5:
							runtime.Gosched()
						}
					})
					if err == nil {
						y.accept(id)
					}
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
				p.Pause()
				runtime.Gosched()
				p.Resume()
			case 2:
				p.Resize(0, 1+round%3)
			}
		})
		wg.Wait()
		p.Shutdown(bg)
		s := p.Stats()
		y.checkDropped(t, s.Dropped)
		checkIdentity(t, s)
		if s.InFlight != 0 || s.Queued != 0 || s.Running != 0 || t.Failed() {
			t.Fatalf("round %d, %v: %+v", round, policy, s)
		}
	}
}

func TestTaskAgeOfATurnIsNotTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		k := shoal.NewKeyed[int](p)
		for range 2 {
			must(t, k.Submit(1, func() { time.Sleep(time.Second) }))
		}
		time.Sleep(500 * time.Millisecond)
		for range p.Workers() { // has the worker note when a task begins
		}
		time.Sleep(time.Second)
		seen, most := 0, time.Duration(0)
		for w := range p.Workers() {
			seen++
			most = max(most, w.TaskAge)
		}
		if seen != 2 || most != 500*time.Millisecond {
			t.Errorf("%d workers, and a task that began half a second ago is %v old", seen, most)
		}
		shutClean(t, p)
	})
}

func TestFailedTurnsCountForTheirWorker(t *testing.T) {
	noLog(t)
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		k := shoal.NewKeyed[int](p)
		for range 3 {
			must(t, k.Submit(1, func() { time.Sleep(time.Second); panic("boom") }))
		}
		p.Wait()
		var failed uint64
		for w := range p.Workers() {
			failed += w.Failed
		}
		if failed != 3 || p.Stats().Failed != 3 {
			t.Errorf("of the workers' tasks %d have failed, of the pool's %d; want 3", failed, p.Stats().Failed)
		}
		shutClean(t, p)
	})
}

func TestManyTurnsWhileDraining(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		must(t, k.Submit(1, func() { <-gate }))
		synctest.Wait()
		ran := 0
		for i := range 200 {
			must(t, k.Submit(1, func() {
				if ran++; ran != i+1 {
					t.Errorf("task %d is the %d. to run", i, ran)
				}
				for w := range p.Workers() {
					if w.Executed > 201 {
						t.Errorf("turn %d: %d executed", i, w.Executed)
					}
				}
			}))
		}
		synctest.Wait()
		p.Drain()
		close(gate)
		<-p.Done()
		if ran != 200 {
			t.Errorf("%d of 200 ran", ran)
		}
	})
}

// TestKeyedGivesBackWhatALongLineTook: also while the Keyed lives.
func TestKeyedGivesBackWhatALongLineTook(t *testing.T) {
	const tasks, most = 1 << 18, 256 << 10 // bytes; 8 for each task would be 2 MB
	p := newPool(t, fixed(1)...)
	k := shoal.NewKeyed[int](p)
	must(t, k.Submit(2, func() {}))
	p.Wait()
	before := heapInUse()
	in, gate := make(chan struct{}), make(chan struct{})
	must(t, k.Submit(1, func() { close(in); <-gate }))
	<-in
	for range tasks {
		must(t, k.Submit(1, func() {}))
	}
	close(gate)
	p.Wait()
	if grown := heapInUse() - before; grown > most {
		t.Errorf("%d bytes more after %d tasks of a key", grown, tasks)
	}
	runtime.KeepAlive(k)
	shutClean(t, p)
}

// A shard with many keys that are busy forgets one that is idle, and no other.
func TestKeyedKeepsTheOrderOfManyKeysWhileOthersGoIdle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const keys = 3000
		p := newPool(t, shoal.WithMaxWorkers(keys+1))
		k := shoal.NewKeyed[int](p)
		var runs [keys]atomic.Int32
		task := func(key int) func() {
			return func() {
				if runs[key].Add(1) > 1 {
					t.Errorf("key %d: two tasks run at once", key)
				}
				time.Sleep(time.Duration(1+key%2) * time.Minute) // the even keys are idle first
				runs[key].Add(-1)
			}
		}
		for key := range keys {
			must(t, k.Submit(key, task(key)))
		}
		time.Sleep(time.Minute + time.Second)
		for key := range keys {
			must(t, k.Submit(key, task(key)))
		}
		shutClean(t, p)
	})
}

// A key that is idle is not kept in memory.
func TestKeyedHoldsNoKeyThatIsIdle(t *testing.T) {
	p := newPool(t, fixed(2)...)
	k := shoal.NewKeyed[*[1 << 16]byte](p)
	var refs []weak.Pointer[[1 << 16]byte]
	for range 100 {
		key := new([1 << 16]byte)
		refs = append(refs, weak.Make(key))
		must(t, k.Submit(key, func() {}))
	}
	p.Wait()
	if n := alive(0, refs...); n > 0 {
		t.Errorf("%d of 100 idle keys are in memory", n)
	}
	runtime.KeepAlive(k)
	shutClean(t, p)
}

// A key whose tasks never run out has memory for those that wait, and holds none that has run.
func TestKeyedHoldsOnlyTasksThatWait(t *testing.T) {
	p := newPool(t, fixed(1)...)
	k := shoal.NewKeyed[int](p)
	gate := make(chan struct{})
	task := func() { <-gate }
	for range 3 {
		must(t, k.Submit(1, task))
	}
	before := heapInUse()
	for range 200_000 {
		must(t, k.Submit(1, task))
		gate <- struct{}{}
	}
	if grown := heapInUse() - before; grown > 1<<20 {
		t.Errorf("%d bytes more after 200000 tasks, of which 3 wait at a time", grown)
	}
	for range 3 {
		gate <- struct{}{}
	}
	p.Wait()
	for n := 1; n <= 20; n++ {
		k := shoal.NewKeyed[int](p)
		var refs []weak.Pointer[[1 << 16]byte]
		submit := func() {
			v := new([1 << 16]byte)
			refs = append(refs, weak.Make(v))
			must(t, k.Submit(1, func() { <-gate; v[0]++ }))
		}
		for range n {
			submit()
		}
		for range n/2 + 1 {
			gate <- struct{}{}
		}
		submit() // moves those that wait to the front
		for range n - n/2 {
			gate <- struct{}{}
		}
		p.Wait()
		must(t, p.SubmitWait(bg, fine)) // so that the worker holds the last task no more
		if n := alive(0, refs...); n > 0 {
			t.Errorf("of %d tasks that have run, %d are in memory", len(refs), n)
		}
		runtime.KeepAlive(k)
	}
	shutClean(t, p)
}

// TestReviewKeysOfABurstTakeNoMemory, although no shard is without keys meanwhile.
func TestReviewKeysOfABurstTakeNoMemory(t *testing.T) {
	const resident, burst = 2000, 1 << 17 // resident keys: some in each shard, whatever the seed
	p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(shoal.Unbounded))
	k := shoal.NewKeyed[int](p)
	begun, gate := make(chan struct{}), make(chan struct{})
	before := heapInUse()
	p.Pause()
	for i := range burst {
		must(t, k.Submit(i, func() {}))
	}
	must(t, p.Submit(func() {
		close(begun)
		<-gate
	}))
	for i := range resident {
		must(t, k.Submit(-1-i, func() {}))
	}
	p.Resume()
	<-begun
	if grown := heapInUse() - before; grown > 2<<20 {
		t.Errorf("%d keys without tasks keep %d bytes", burst, grown)
	}
	close(gate)
	p.Close()
	runtime.KeepAlive(k)
}

// TestReviewABusyKeyOutlastsABurst of others, after which its shard has few keys.
func TestReviewABusyKeyOutlastsABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2))
		k := shoal.NewKeyed[int](p)
		var first, second, early atomic.Bool
		must(t, k.Submit(-1, func() {
			time.Sleep(time.Second)
			first.Store(true)
		}))
		for i := range 1 << 13 {
			must(t, k.Submit(i, func() {}))
		}
		synctest.Wait()
		must(t, k.Submit(-1, func() {
			early.Store(!first.Load())
			second.Store(true)
		}))
		p.Wait()
		if early.Load() {
			t.Error("two tasks of a key at once")
		}
		if !second.Load() {
			t.Error("the second task of the key did not run")
		}
		p.Close()
	})
}
