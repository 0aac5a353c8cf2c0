package tests

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// This file tests whether a pool recognizes its tasks where no context shows them.

// asks makes the calls that a task of p may make without its ctx, and checks their results. p has
// one worker and a queue of capacity 1. The error says what is wrong; the last call ends the pool.
func asks(p *shoal.Pool, closes bool) error {
	ran := 0
	task := func(context.Context) error { ran++; return nil }
	check := func(what string, err error, want error) error {
		if !errors.Is(err, want) || want == nil && ran != 1 {
			return fmt.Errorf("%s: %v, want %v; %d tasks have run", what, err, want, ran)
		}
		ran = 0
		return nil
	}
	_, err := shoal.Go(bg, p, func(ctx context.Context) (int, error) { return 0, task(ctx) }).Wait(bg)
	if err := check("Future.Wait", err, nil); err != nil {
		return err
	}
	g := p.Group(bg)
	g.Go(task)
	if err := check("Group.Wait", g.Wait(), nil); err != nil {
		return err
	}
	if err := check("SubmitWait", p.SubmitWait(bg, task), nil); err != nil {
		return err
	}
	for p.TrySubmit(func() {}) == nil {
	}
	if err := check("Submit", p.Submit(func() { ran++ }), nil); err != nil {
		return err
	}
	if err := check("SubmitContext", p.SubmitContext(bg, func(context.Context) { ran++ }), nil); err != nil {
		return err
	}
	if err := panics(p.Wait); err == nil {
		return errors.New("Wait has returned")
	}
	if err := check("WaitContext", p.WaitContext(bg), shoal.ErrWouldDeadlock); err != nil {
		return err
	}
	if closes {
		return check("Close", p.Close(), shoal.ErrWouldDeadlock)
	}
	return check("Shutdown", p.Shutdown(bg), shoal.ErrWouldDeadlock)
}

// panics is the value of the panic of f, or nil.
func panics(f func()) (r any) {
	defer func() { r = recover() }()
	f()
	return nil
}

// checkAsks checks what comes of it in a task of p. The caller is in a bubble.
func checkAsks(t *testing.T, what string, p *shoal.Pool, closes bool) {
	t.Helper()
	asked := make(chan error, 1)
	must(t, p.Submit(func() { asked <- asks(p, closes) }))
	synctest.Wait()
	select {
	case err := <-asked:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	default:
		t.Fatalf("%s: it hangs", what)
	}
	<-p.Done()
}

func tiny() []shoal.Option {
	return []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithIdleTimeout(shoal.Forever)}
}

// crowdOf makes n pools, which have a worker each, or none, or are sub-pools of
// others or of sub-pools, and returns those to be closed.
func crowdOf(t *testing.T, n int) (pools []*shoal.Pool) {
	t.Helper()
	var up *shoal.Pool
	for i := range n {
		var p *shoal.Pool
		switch {
		case i%4 < 2:
			p = newPool(t, tiny()...)
			up = p
		default: // of the pool before it, then of that sub-pool
			sub, err := up.Sub(shoal.WithQueueCapacity(1))
			must(t, err)
			p, up = sub, sub
		}
		if i%3 == 0 {
			must(t, p.SubmitWait(bg, func(context.Context) error { return nil }))
		}
		pools = append(pools, p)
	}
	return pools
}

var crowds = []int{1, 255, 300, 3000}

func TestS1_ATaskIsKnownHoweverManyPoolsThereAre(t *testing.T) {
	for _, n := range crowds {
		t.Run(fmt.Sprintf("pools=%d", n), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				crowd := crowdOf(t, n)
				for i := range 4 {
					checkAsks(t, "a pool made last", newPool(t, tiny()...), i%2 == 0)
				}
				for i, p := range crowd {
					if p.State() == shoal.Open && (i%97 == 0 || i == n-1) {
						for _, s := range p.Subs() {
							must(t, s.Close())
						}
						checkAsks(t, fmt.Sprintf("pool %d", i), p, i%2 == 0)
					}
				}
				for _, p := range crowd {
					must(t, p.Close())
				}
				testpool.NoGoroutines(t)
			})
		})
	}
}

func TestS1_ATaskIsKnownAfterManyPoolsHaveEnded(t *testing.T) {
	for _, n := range crowds {
		t.Run(fmt.Sprintf("pools=%d", n), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				crowd := crowdOf(t, n)
				for _, p := range crowd[:n-n/10] {
					must(t, p.Close())
				}
				for i := range 4 {
					checkAsks(t, "a pool made after that", newPool(t, tiny()...), i%2 == 0)
				}
				root := newPool(t, tiny()...)
				for i := range 4 {
					sub, err := root.Sub(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1))
					must(t, err)
					checkAsks(t, "a sub-pool made after that", sub, i%2 == 0)
				}
				must(t, root.Close())
				for _, p := range crowd {
					must(t, p.Close())
				}
			})
		})
	}
}

// Where a task runs on no worker of its pool: its own goroutine, that of its submitter,
// or, in a task, the stack of another task of its pool or of a pool of the family.
func TestS1_ATaskIsKnownWhereverItRuns(t *testing.T) {
	for _, n := range []int{1, 300} {
		t.Run(fmt.Sprintf("pools=%d", n), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				crowd := crowdOf(t, n)
				wait := func(what string, p *shoal.Pool) {
					if panics(p.Wait) == nil {
						t.Errorf("%s: Wait has returned", what)
					}
				}
				for _, policy := range []shoal.FullPolicy{shoal.Spawn, shoal.CallerRuns} {
					root := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))...)
					sub, err := root.Sub(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))
					must(t, err)
					release := hold(t, root, 1)
					must(t, root.Submit(func() { wait(policy.String(), root) }))
					synctest.Wait()
					release()
					root.Wait()
					release = hold(t, sub, 1)
					must(t, sub.Submit(func() { wait(policy.String()+" of a sub-pool", sub) }))
					synctest.Wait()
					release()
					sub.Wait()
					must(t, root.Close())
				}

				root := newPool(t, tiny()...)
				a, err := root.Sub(shoal.WithQueueCapacity(4))
				must(t, err)
				b, err := root.Sub(shoal.WithQueueCapacity(4))
				must(t, err)
				done := make(chan struct{})
				must(t, a.Submit(func() {
					defer close(done)
					wait("a task of a", a)
					err := b.SubmitContext(bg, func(context.Context) { wait("a task of b", b) })
					must(t, err)
					must(t, a.SubmitWait(bg, func(ctx context.Context) error { // here
						f := shoal.Go(ctx, b, func(context.Context) (int, error) { // and this too
							wait("a task of b inside of one of a, b", b)
							wait("a task of b inside of one of a, a", a)
							return 0, nil
						})
						_, err := f.Wait(ctx)
						return err
					}))
				}))
				synctest.Wait()
				if !isClosed(done) {
					t.Fatal("it hangs")
				}
				must(t, root.Shutdown(bg))
				for _, p := range crowd {
					must(t, p.Close())
				}
			})
		})
	}
}

// Pools that nobody ends take nothing from later ones.
func TestS1_ATaskIsKnownAfterManyPoolsThatNobodyEnds(t *testing.T) {
	for range 600 {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithIdleTimeout(0)))
		must(t, p.SubmitWait(bg, func(context.Context) error { return nil }))
	}
	runtime.GC()
	inBubble(t, func(t *testing.T) {
		for i := range 10 {
			checkAsks(t, "a later pool", newPool(t, tiny()...), i%2 == 0)
		}
	})
}

// A task that is not of the pool is not taken for one, whatever the pools' numbers.
func TestS1_OthersTasksAreNotKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var pools []*shoal.Pool
		gate := make(chan struct{})
		for range 300 {
			p := newPool(t, shoal.WithMaxWorkers(2))
			must(t, p.Submit(func() { <-gate }))
			pools = append(pools, p)
		}
		for i, p := range pools {
			must(t, p.SubmitWait(bg, func(context.Context) error {
				wantErr(t, "WaitContext of its own pool", p.WaitContext(canceledContext()), shoal.ErrWouldDeadlock)
				for _, d := range []int{1, 16, 17, 32, 33, 256} {
					j := (i + d) % len(pools)
					if err := pools[j].WaitContext(canceledContext()); !errors.Is(err, context.Canceled) {
						t.Errorf("a task of pool %d in WaitContext of pool %d: %v", i, j, err)
					}
				}
				return nil
			}))
		}
		close(gate)
		for _, p := range pools {
			must(t, p.Close())
		}
	})
}

// An iterator that iter.Pull runs has a stack of its own. There the task's ctx tells.
func TestS2_InACoroutineTheContextTells(t *testing.T) {
	for _, sub := range []bool{false, true} {
		t.Run(fmt.Sprintf("sub=%v", sub), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, tiny()...)
				root := p
				if sub {
					var err error
					p, err = root.Sub(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1))
					must(t, err)
				}
				done := make(chan struct{})
				must(t, p.SubmitContext(bg, func(ctx context.Context) {
					defer close(done)
					next, stop := iter.Pull(func(yield func(error) bool) {
						ran := 0
						task := func(context.Context) error { ran++; return nil }
						_, err := shoal.Go(ctx, p, func(ctx context.Context) (int, error) { return 0, task(ctx) }).Wait(ctx)
						yield(err)
						g := p.Group(ctx)
						g.Go(task)
						yield(g.Wait())
						yield(p.SubmitWait(ctx, task))
						for p.TrySubmit(func() {}) == nil {
						}
						yield(p.SubmitContext(ctx, func(ctx context.Context) { task(ctx) }))
						yield(shoal.ForEach(ctx, p, upTo(3), func(ctx context.Context, _ int) error { return task(ctx) }))
						if ran != 7 {
							t.Errorf("%d tasks have run, want 7", ran)
						}
						if err := p.WaitContext(ctx); !errors.Is(err, shoal.ErrWouldDeadlock) {
							t.Errorf("WaitContext: %v", err)
						}
						if err := p.Shutdown(ctx); !errors.Is(err, shoal.ErrWouldDeadlock) {
							t.Errorf("Shutdown: %v", err)
						}
					})
					defer stop()
					for i := 1; ; i++ {
						err, ok := next()
						if !ok {
							break
						}
						if err != nil {
							t.Errorf("call %d: %v", i, err)
						}
					}
				}))
				synctest.Wait()
				if !isClosed(done) {
					t.Fatal("it hangs")
				}
				p.Wait()
				shutClean(t, root)
			})
		})
	}
}
