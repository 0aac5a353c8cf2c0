package tests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// Tasks whose context ends before they start do not run; the others keep their order.
func TestKeyedOrderIsKeptBesideTasksThatAreCancelled(t *testing.T) {
	for _, workers := range []int{1, 2, 8} { // with more than one turns are left
		for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn, shoal.CallerRuns, shoal.DropOldest} {
			for _, capacity := range []int{0, shoal.Unbounded} {
				if capacity == 0 && (policy == shoal.Block || policy == shoal.DropOldest) {
					continue // the tasks of a held key would wait for room, or be refused
				}
				t.Run(fmt.Sprintf("%d workers, %v, capacity %d", workers, policy, capacity), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						const n = 100
						p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy))
						k := shoal.NewKeyed[string](p)
						gate := make(chan struct{})
						must(t, k.Submit("key", func() { <-gate }))
						synctest.Wait()
						var ran []int // in order: the tasks of a key do not run beside each other
						var futures []*shoal.Future[int]
						var want []int
						for i := range n {
							ctx, cancel := context.WithCancel(bg)
							run := func(ctx context.Context) {
								if ctx.Err() != nil {
									t.Errorf("task %d: its context has ended", i)
								}
								ran = append(ran, i)
							}
							switch i % 3 {
							case 0:
								must(t, k.Submit("key", func() { run(bg) }))
							case 1:
								must(t, k.SubmitContext(ctx, "key", run))
							case 2:
								futures = append(futures, shoal.GoKeyed(ctx, k, "key", func(ctx context.Context) (int, error) { run(ctx); return i, nil }))
							}
							if i%3 != 0 && i%2 == 0 {
								defer func() { _ = cancel }()
								if i%4 == 0 || i%3 == 1 {
									cancel()
								} else if !futures[len(futures)-1].Cancel() {
									t.Errorf("Cancel of task %d: false", i)
								}
								continue
							}
							defer cancel()
							want = append(want, i)
						}
						synctest.Wait()
						if len(ran) != 0 {
							t.Errorf("%d tasks ran beside another one of their key", len(ran))
						}
						close(gate)
						for j, f := range futures {
							i := 3*j + 2
							v, err := f.Wait(bg)
							if cancelled := i%2 == 0; cancelled && err != context.Canceled || !cancelled && (v != i || err != nil) {
								t.Errorf("the result of task %d: %v, %v", i, v, err)
							}
						}
						p.Wait()
						if !slices.Equal(ran, want) {
							t.Errorf("ran %v, want %v", ran, want)
						}
						s := p.Stats()
						checkIdentity(t, s)
						if int(s.Completed) != 1+len(want) || int(s.Canceled) != n-len(want) || s.Failed != 0 {
							t.Errorf("%d tasks, %d cancelled: %+v", n+1, n-len(want), s)
						}
						shutClean(t, p)
					})
				})
			}
		}
	}
}

func TestGoKeyedResults(t *testing.T) {
	noLog(t)
	for _, workers := range []int{1, 3} {
		for _, held := range []bool{false, true} { // then the turns are left, with three workers
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(workers)...)
				k := shoal.NewKeyed[int](p)
				gate := make(chan struct{})
				if !held {
					close(gate)
				}
				must(t, k.Submit(1, func() { <-gate }))
				f := func(end func() (int, error)) *shoal.Future[int] {
					return shoal.GoKeyed(bg, k, 1, func(context.Context) (int, error) { return end() })
				}
				value := f(func() (int, error) { return 4, nil })
				fails := f(func() (int, error) { return 5, errBoom })
				panics := f(func() (int, error) { panic(errBoom) })
				exits := f(func() (int, error) { runtime.Goexit(); return 0, nil })
				last := f(func() (int, error) { return 6, nil })
				short, cancel := context.WithTimeout(bg, time.Second)
				defer cancel()
				if held {
					if _, err := value.Wait(short); err != context.DeadlineExceeded {
						t.Errorf("its turn has not come: %v", err)
					}
					close(gate)
				}
				if v, err := value.Wait(bg); v != 4 || err != nil {
					t.Errorf("%v, %v", v, err)
				}
				if v, err := fails.Wait(bg); v != 5 || err != errBoom {
					t.Errorf("%v, %v", v, err)
				}
				_, err := panics.Wait(bg)
				checkPanicError(t, err, errBoom)
				_, err = exits.Wait(bg)
				wantErr(t, "Goexit", err, shoal.ErrGoexit)
				// Told after they were counted.
				if s := p.Stats(); s.Failed != 3 {
					t.Errorf("3 have failed: %+v", s)
				}
				if v, err := last.Wait(bg); v != 6 || err != nil {
					t.Errorf("after Goexit: %v, %v", v, err)
				}
				if last.Cancel() {
					t.Error("Cancel of a task that has run: true")
				}
				shutClean(t, p)
			})
		}
	}
}

func TestKeyedContextOfNothing(t *testing.T) {
	open, closed := openPool(t), newPool(t)
	closed.Close()
	no := func(context.Context) { t.Error("it ran") }
	noInt := func(context.Context) (int, error) { t.Error("it ran"); return 0, nil }
	none := func(k *shoal.Keyed[int], ctx context.Context, want error) {
		t.Helper()
		if k != nil {
			wantErr(t, "SubmitContext", k.SubmitContext(ctx, 1, no), want)
		}
		_, err := shoal.GoKeyed(ctx, k, 1, noInt).Wait(bg)
		wantErr(t, "GoKeyed", err, want)
	}
	k := shoal.NewKeyed[int](open)
	none(nil, bg, shoal.ErrClosed)
	none(shoal.NewKeyed[int](nil), bg, shoal.ErrClosed)
	none(shoal.NewKeyed[int](new(shoal.Pool)), bg, shoal.ErrClosed)
	none(shoal.NewKeyed[int](closed), bg, shoal.ErrClosed)
	none(k, canceledContext(), context.Canceled)
	var null context.Context
	if err := k.SubmitContext(null, 1, no); err == nil {
		t.Error("SubmitContext with a nil context: no error")
	}
	if _, err := shoal.GoKeyed(null, k, 1, noInt).Wait(bg); err == nil {
		t.Error("GoKeyed with a nil context: no error")
	}
	wantErr(t, "SubmitContext(nil)", k.SubmitContext(bg, 1, nil), shoal.ErrNilTask)
	_, err := shoal.GoKeyed[int, int](bg, k, 1, nil).Wait(bg)
	wantErr(t, "GoKeyed(nil)", err, shoal.ErrNilTask)
	open.Wait()
}

// ctx bounds the wait for free capacity, and a task that was refused is not in the strand.
func TestKeyedContextEndsTheWaitForRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0))...)
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		must(t, k.Submit(1, func() { <-gate }))
		begin := time.Now()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		wantErr(t, "SubmitContext", k.SubmitContext(ctx, 1, func(context.Context) { t.Error("it ran") }), context.DeadlineExceeded)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("waited for %v", d)
		}
		close(gate)
		ran := false
		must(t, k.SubmitContext(bg, 1, func(context.Context) { ran = true }))
		p.Wait()
		if s := p.Stats(); !ran || s.Submitted != 2 || s.Completed != 2 {
			t.Errorf("ran %v, %+v", ran, s)
		}
		shutClean(t, p)
	})
}

// H2, H30: if a task waits for one of a key that has no result yet, Wait returns ErrWouldDeadlock,
// and the pool does not stop.
func TestGoKeyedIsNotWaitedForInATask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		s, err := p.Sub(shoal.WithMaxWorkers(1))
		must(t, err)
		for _, q := range []*shoal.Pool{p, s} {
			for _, of := range []*shoal.Pool{p, s} {
				k := shoal.NewKeyed[int](of)
				f := new(shoal.Future[int])
				must(t, q.SubmitWait(bg, func(ctx context.Context) error {
					f = shoal.GoKeyed(ctx, k, 1, func(context.Context) (int, error) { return 4, nil })
					_, err := f.Wait(ctx)
					wantErr(t, "Wait", err, shoal.ErrWouldDeadlock)
					_, err = f.Wait(bg)
					wantErr(t, "Wait without the task's context", err, shoal.ErrWouldDeadlock)
					return nil
				}))
				if _, err := f.Wait(bg); err != nil { // its context has ended, or not
					wantErr(t, "Wait", err, context.Canceled)
				}
				f = shoal.GoKeyed(bg, k, 1, func(context.Context) (int, error) { return 4, nil })
				<-f.Done()
				must(t, q.SubmitWait(bg, func(ctx context.Context) error {
					v, err := f.Wait(ctx)
					if v != 4 {
						t.Errorf("there is a result: %v, %v", v, err)
					}
					return err
				}))
			}
		}
		shutClean(t, p)
	})
}

// A refusingTracer calls refused in Refused.
type refusingTracer struct{ refused func(err error) }

func (r refusingTracer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	return ctx
}

func (r refusingTracer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	return ctx, nil
}

func (r refusingTracer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	r.refused(err)
}

// The goroutine that cancels a task of a key tells its end, and then its result, also if its
// turn comes meanwhile.
func TestGoKeyedIsCancelledWhileItsTurnComes(t *testing.T) {
	for workers, turn := range map[int]string{1: "by its ticket", 2: "left to another"} {
		t.Run(turn, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				var f *shoal.Future[int]
				refused := 0
				p := newPool(t, fixed(workers, shoal.WithTracer(refusingTracer{func(err error) {
					refused++
					wantErr(t, "Refused", err, context.Canceled)
					close(gate)
					synctest.Wait() // its turn has come
					select {
					case <-f.Done():
						t.Error("there is a result before the Tracer knows")
					default:
					}
				}}))...)
				k := shoal.NewKeyed[int](p)
				must(t, k.Submit(1, func() { <-gate }))
				f = shoal.GoKeyed(bg, k, 1, func(context.Context) (int, error) { t.Error("it ran"); return 0, nil })
				synctest.Wait()
				if !f.Cancel() {
					t.Error("Cancel = false")
				}
				_, err := f.Wait(bg)
				wantErr(t, "Wait", err, context.Canceled)
				p.Wait()
				if st := p.Stats(); st.Canceled != 1 || refused != 1 {
					t.Errorf("refused %d times, %+v", refused, st)
				}
				shutClean(t, p)
			})
		})
	}
}

// A task of a key that was cancelled and is discarded before its turn comes counts once.
func TestGoKeyedIsCancelledAndDropped(t *testing.T) {
	for name, discard := range map[string]func(p *shoal.Pool, k *shoal.Keyed[int]){
		"by Close":      func(p *shoal.Pool, k *shoal.Keyed[int]) { p.Close() },
		"by DropOldest": func(p *shoal.Pool, k *shoal.Keyed[int]) { must(t, k.Submit(2, func() {})) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))...)
				k := shoal.NewKeyed[int](p)
				release := hold(t, p, 1)
				f := shoal.GoKeyed(bg, k, 1, func(context.Context) (int, error) { t.Error("it ran"); return 0, nil })
				if !f.Cancel() {
					t.Error("Cancel = false")
				}
				done := make(chan struct{})
				go func() { defer close(done); discard(p, k) }()
				synctest.Wait()
				release()
				<-done
				p.Close()
				_, err := f.Wait(bg)
				wantErr(t, "Wait", err, context.Canceled)
				if st := p.Stats(); st.Dropped < 1 || st.Canceled != 0 || st.Submitted != st.Completed+st.Dropped {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// Close ends the contexts of the tasks of keys that run, wherever they do, and drops
// the others of their keys, which are told.
func TestCloseCancelsTheTasksOfKeys(t *testing.T) {
	for how, c := range map[string]struct {
		workers int
		policy  shoal.FullPolicy
		turns   bool
	}{
		"on a worker":        {1, shoal.Block, false},
		"in a turn":          {2, shoal.Block, true},
		"on a goroutine":     {1, shoal.Spawn, false},
		"on the submitter's": {1, shoal.CallerRuns, false},
	} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				capacity := 10
				if c.policy == shoal.Spawn || c.policy == shoal.CallerRuns {
					capacity = 0
				}
				p := newPool(t, fixed(c.workers, shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(c.policy))...)
				k := shoal.NewKeyed[int](p)
				gate := make(chan struct{})
				if capacity == 0 {
					must(t, p.Submit(func() { <-gate })) // the worker
				}
				if c.turns {
					must(t, k.Submit(1, func() { <-gate }))
				}
				var cause error
				running := make(chan *shoal.Future[int], 1)
				go func() {
					running <- shoal.GoKeyed(bg, k, 1, func(ctx context.Context) (int, error) {
						<-ctx.Done()
						cause = context.Cause(ctx)
						return 0, ctx.Err()
					})
				}()
				synctest.Wait()
				var next []*shoal.Future[int]
				for range 3 {
					next = append(next, shoal.GoKeyed(bg, k, 1, func(context.Context) (int, error) { t.Error("it ran"); return 0, nil }))
				}
				synctest.Wait()
				if c.turns {
					close(gate)
					synctest.Wait()
				}
				closed := inBackground(func() { p.Close() })
				synctest.Wait()
				if capacity == 0 {
					close(gate)
				}
				<-closed
				_, err := (<-running).Wait(bg)
				if err != context.Canceled || cause != shoal.ErrClosed {
					t.Errorf("the task that ran: %v, %v", err, cause)
				}
				for _, f := range next {
					_, err := f.Wait(bg)
					wantErr(t, "one that did not", err, shoal.ErrDropped)
				}
				checkEnded(t, p)
			})
		})
	}
}

// A panic that a Future returns is not logged as well; one of SubmitContext is.
func TestKeyedPanicsAreLoggedOnce(t *testing.T) {
	for _, workers := range []int{1, 2} { // in the turn of its ticket, and in one that was left
		inBubble(t, func(t *testing.T) {
			var log strings.Builder
			p := newPool(t, fixed(workers, shoal.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
			k := shoal.NewKeyed[int](p)
			gate := make(chan struct{})
			must(t, k.Submit(1, func() { <-gate }))
			f := shoal.GoKeyed(bg, k, 1, func(context.Context) (int, error) { panic("returned") })
			must(t, k.SubmitContext(bg, 1, func(context.Context) { panic("logged") }))
			synctest.Wait()
			close(gate)
			_, err := f.Wait(bg)
			checkPanicError(t, err, "returned")
			p.Wait()
			if s := log.String(); strings.Contains(s, "returned") || strings.Count(s, "panicked: logged") != 1 {
				t.Errorf("the log: %s", s)
			}
			shutClean(t, p)
		})
	}
}

// Each task of a storm has one result, or is counted, whatever becomes of the pool;
// and the tasks of a key run one at a time, in order.
func TestKeyedContextStorm(t *testing.T) {
	noLog(t)
	for _, policy := range policies {
		for _, capacity := range []int{0, 3, shoal.Unbounded} {
			t.Run(fmt.Sprintf("%v, %d", policy, capacity), func(t *testing.T) {
				for round := range rounds(60) {
					const keys = 3
					p := newPool(t, shoal.WithMaxWorkers(1+round%4), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy))
					k := shoal.NewKeyed[int](p)
					var mine [keys][]int
					var running [keys]atomic.Int32
					var wg sync.WaitGroup
					for key := range keys {
						wg.Go(func() {
							rng := rand.New(rand.NewPCG(uint64(round), uint64(key)))
							for i := range 60 {
								task := func(context.Context) (int, error) {
									if running[key].Add(1) != 1 {
										t.Error("two tasks of a key at once")
									}
									defer running[key].Add(-1)
									mine[key] = append(mine[key], i)
									switch rng.IntN(1<<30) % 16 {
									case 0:
										return i, errBoom
									case 1:
										panic(errBoom)
									case 2:
										if policy != shoal.CallerRuns {
											runtime.Goexit()
										}
									case 3:
										runtime.Gosched()
									}
									return i, nil
								}
								ctx, cancel := context.WithCancel(bg)
								switch i % 4 {
								case 0:
									k.Submit(key, func() { task(bg) })
								case 1:
									k.SubmitContext(ctx, key, func(ctx context.Context) { task(ctx) })
								default:
									f := shoal.GoKeyed(ctx, k, key, task)
									wg.Go(func() {
										if i%8 == 3 {
											f.Cancel()
										}
										f.Wait(bg)
									})
								}
								if i%5 == 0 {
									cancel()
								}
								defer cancel()
							}
						})
					}
					if round%3 == 0 {
						runtime.Gosched()
						p.Close()
					} else if round%3 == 1 {
						runtime.Gosched()
						must(t, p.Shutdown(bg))
					}
					wg.Wait()
					p.Close()
					ran := uint64(0)
					for key := range keys {
						ran += uint64(len(mine[key]))
						if !slices.IsSorted(mine[key]) || len(slices.Compact(slices.Clone(mine[key]))) != len(mine[key]) {
							t.Errorf("the tasks of key %d ran in the order %v", key, mine[key])
						}
					}
					if s := p.Stats(); ran != s.Completed || round%3 == 2 && policy != shoal.DropOldest && ran == 0 {
						t.Errorf("%d tasks ran; %+v", ran, s)
					}
					checkEnded(t, p)
					checkIdentity(t, p.Stats())
				}
			})
		}
	}
}

// A task of a key finds its worker's resource, in a turn that was left too.
func TestLocalInTasksOfAKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		l := shoal.NewLocal(p, func(worker int) (int, error) { return worker, nil }, nil)
		k := shoal.NewKeyed[int](p)
		gate := make(chan struct{})
		var ids []int
		for i := range 3 {
			must(t, k.SubmitContext(bg, 1, func(ctx context.Context) {
				if i == 0 {
					<-gate
				}
				id, err := l.Get(ctx)
				must(t, err)
				ids = append(ids, id)
			}))
		}
		synctest.Wait()
		close(gate)
		p.Wait()
		if len(ids) != 3 || slices.Min(ids) < 0 || ids[0] != ids[1] || ids[0] != ids[2] {
			t.Errorf("workers %v, want three times the same", ids)
		}
		shutClean(t, p)
	})
}

// Balance an account: its orders are served one after the other, those of other
// accounts beside them.
func ExampleGoKeyed() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()
	accounts := shoal.NewKeyed[string](pool)
	balance := map[string]*int{"ann": new(int), "bob": new(int)}

	pay := func(who string, amount int) *shoal.Future[int] {
		return shoal.GoKeyed(context.Background(), accounts, who, func(context.Context) (int, error) {
			b := balance[who] // no lock: nobody else has this account now
			if *b+amount < 0 {
				return *b, errors.New("not enough money")
			}
			*b += amount
			return *b, nil
		})
	}
	in, out, much, bob := pay("ann", 100), pay("ann", -30), pay("ann", -80), pay("bob", 5)
	for _, f := range []*shoal.Future[int]{in, out, much, bob} {
		fmt.Println(f.Wait(context.Background()))
	}
	// Output:
	// 100 <nil>
	// 70 <nil>
	// 70 not enough money
	// 5 <nil>
}

// An event that comes too late is left out, and those after it are not held up.
func ExampleKeyed_SubmitContext() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	rooms := shoal.NewKeyed[string](pool)

	late, cancel := context.WithCancel(context.Background())
	say := func(text string) func(context.Context) { return func(context.Context) { fmt.Println(text) } }
	begin := make(chan struct{})
	rooms.Submit("lobby", func() { <-begin })
	rooms.SubmitContext(context.Background(), "lobby", say("hello"))
	rooms.SubmitContext(late, "lobby", say("is anybody there?"))
	rooms.SubmitContext(context.Background(), "lobby", say("goodbye"))
	cancel()
	close(begin)

	pool.Shutdown(context.Background())
	fmt.Println(pool.Stats().Canceled, "left out")
	// Output:
	// hello
	// goodbye
	// 1 left out
}
