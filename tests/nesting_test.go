package tests

import (
	"context"
	"testing"

	"github.com/shoal-go/shoal"
)

// However tasks run inside each other because queues are full, there are no more than some 64 of them.
// Otherwise a program that goes on like that would exhaust the stack.
func TestNestingIsBounded(t *testing.T) {
	const n = 500
	for name, again := range map[string]func(p, sub *shoal.Pool, i int, f func()) error{
		"Submit": func(p, _ *shoal.Pool, _ int, f func()) error { return p.Submit(f) },
		"Range": func(p, _ *shoal.Pool, _ int, f func()) error {
			return shoal.Range(bg, p, 1, func(context.Context, int, int) error { return p.Submit(f) })
		},
		"ForEachSlice": func(p, _ *shoal.Pool, _ int, f func()) error {
			return shoal.ForEachSlice(bg, p, []int{0}, func(context.Context, int) error { return p.Submit(f) })
		},
		"a group's limit": func(p, _ *shoal.Pool, _ int, f func()) error {
			g := p.Group(bg, shoal.Limit(1))
			for range 2 {
				g.Go(func(context.Context) error { return p.Submit(f) })
			}
			return g.Wait()
		},
		"a sub-pool by turns": func(p, sub *shoal.Pool, i int, f func()) error {
			if i%2 == 0 {
				return sub.Submit(f)
			}
			return p.Submit(f)
		},
		"a sub-pool now and then": func(p, sub *shoal.Pool, i int, f func()) error {
			if i%63 == 0 {
				return sub.Submit(f)
			}
			return p.Submit(f)
		},
	} {
		for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.CallerRuns} {
			t.Run(name+", "+policy.String(), func(t *testing.T) {
				p := newPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
				sub := shoal.Must(p.Sub(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(policy)))
				left, now, most := n, 0, 0
				done := make(chan struct{})
				var f func()
				f = func() {
					now++
					most = max(most, now)
					defer func() { now-- }()
					switch left--; {
					case left == 0:
						close(done)
					case left > 0:
						for _, q := range []*shoal.Pool{p, sub} { // both are full
							q.TrySubmit(func() {})
						}
						if err := again(p, sub, left, f); err != nil && left > 0 {
							t.Error(err)
						}
					}
				}
				must(t, p.Submit(f))
				<-done
				must(t, p.Close()) // tasks that were queued still count when done is closed
				if most > 66 {
					t.Errorf("%d tasks ran inside each other, want 64 or so", most)
				}
			})
		}
	}
}

// With the task's context SubmitWait nests as deep as the program does, whatever the policy.
func TestSubmitWaitWithItsContextNestsToAnyDepth(t *testing.T) {
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Reject, shoal.Spawn, shoal.CallerRuns, shoal.DropOldest} {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy)))
		deepest := 0
		var down func(ctx context.Context) error
		down = func(ctx context.Context) error {
			if deepest++; deepest == 300 {
				return nil
			}
			return p.SubmitWait(ctx, down)
		}
		if err := p.SubmitWait(bg, down); err != nil || deepest != 300 {
			t.Errorf("%v: %v at depth %d", policy, err, deepest)
		}
		must(t, p.Close())
	}
}

// A task of a pool that waits for one of a sub-pool, with its context, asks no stack; where its context is that of
// another task, and the queue is full, it does.
func TestSubmitWaitToASubPool(t *testing.T) {
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Reject} {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
		s := shoal.Must(p.Sub(shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy)))
		ran := 0
		count := func(context.Context) error {
			ran++
			return nil
		}
		must(t, p.SubmitWait(bg, func(outer context.Context) error {
			must(t, s.SubmitWait(outer, count))
			return s.SubmitWait(outer, func(context.Context) error {
				return s.SubmitWait(outer, count) // s is full, and the context is that of the outer task
			})
		}))
		if ran != 2 {
			t.Errorf("%v: %d tasks ran, want 2", policy, ran)
		}
		must(t, p.Close())
	}
}
