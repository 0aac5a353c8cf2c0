package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/testpool"
)

// This file gives pools a past: their tickets are about to wrap.

// newAt is newPool for a pool whose first ticket is first.
func newAt(t testing.TB, first uint64, opts ...shoal.Option) (p *shoal.Pool) {
	t.Helper()
	testpool.FirstTicket(first, func() { p = newPool(t, opts...) })
	return p
}

// Tickets are numbers of 38 bits. A pool of any age works as a new one does.
func TestPoolsOfEveryAgeWorkAlike(t *testing.T) {
	const wrap = 1 << queue.TicketBits
	for _, workers := range []int{1, 4} {
		for _, first := range []uint64{wrap - 1, wrap - 2, wrap - 64, wrap - 513, wrap - 5000, wrap/2 - 1, wrap / 2, wrap/2 + 1, wrap/2 + 1000, wrap * 3 / 4} {
			t.Run(fmt.Sprintf("workers=%d/first=%#x", workers, first), func(t *testing.T) {
				testpool.InBubble(t, func(t *testing.T) {
					p := newAt(t, first, shoal.WithMaxWorkers(workers), shoal.WithMinWorkers(workers),
						shoal.WithQueueCapacity(3000), shoal.WithTiming(shoal.TimingFull))
					submitted := first // by the pool's counters
					check := func(when string, queued, running int) {
						t.Helper()
						synctest.Wait()
						s := p.Stats()
						if s.Submitted != submitted || s.Queued != queued || p.Queued() != queued || s.InFlight != queued+running ||
							s.Running != running || s.Completed != submitted-uint64(queued+running) || s.Workers != workers {
							t.Fatalf("%s: submitted %#x, completed %#x, queued %d, Queued() %d, in flight %d, running %d, workers %d; want %#x, %d queued, %d running",
								when, s.Submitted, s.Completed, s.Queued, p.Queued(), s.InFlight, s.Running, s.Workers, submitted, queued, running)
						}
						if fault := identityFault(s); fault != "" {
							t.Errorf("%s: %s: %+v", when, fault, s)
						}
					}
					check("new", 0, 0)
					p.Wait() // quiet

					// One by one: a worker looks at an empty queue after each.
					for range 200 {
						done := make(chan struct{})
						must(t, p.Submit(func() { close(done) }))
						<-done
						submitted++
						check("one by one", 0, 0)
					}

					// Many at once, in order, with a full queue in between.
					for range 3 {
						var order []int
						var mu sync.Mutex
						release := hold(t, p, workers)
						submitted += uint64(workers)
						for i := range 3000 {
							must(t, p.TrySubmit(func() { mu.Lock(); order = append(order, i); mu.Unlock() }))
						}
						submitted += 3000
						check("full", 3000, workers)
						if err := p.TrySubmit(func() {}); !errors.Is(err, shoal.ErrQueueFull) {
							t.Errorf("TrySubmit on a full queue: %v, want %v", err, shoal.ErrQueueFull)
						}
						release()
						p.Wait()
						check("drained", 0, 0)
						if workers == 1 && !slices.IsSorted(order) || len(order) != 3000 {
							t.Errorf("%d of 3000 tasks ran, in order: %t", len(order), slices.IsSorted(order))
						}
					}

					// A batch, tasks with results, and a fresh worker.
					batch := slices.Repeat([]func(){func() {}}, 1000)
					n, err := p.SubmitBatch(batch)
					if n != 1000 || err != nil {
						t.Fatalf("SubmitBatch = %d, %v", n, err)
					}
					must(t, p.Submit(runtime.Goexit))
					submitted += 1001
					p.Wait()
					for range 100 {
						must(t, p.SubmitWait(t.Context(), func(context.Context) error { return nil }))
						submitted++
					}
					check("after a Goexit", 0, 0)

					// Dropping what is queued.
					release := hold(t, p, workers)
					for range 1500 {
						must(t, p.Submit(func() { t.Error("a dropped task ran") }))
					}
					ended := inBackground(func() { must(t, p.Close()) })
					synctest.Wait()
					release()
					<-ended
					if s := p.Stats(); s.Dropped != 1500 || s.InFlight != 0 {
						t.Errorf("dropped %d, in flight %d, want 1500, 0", s.Dropped, s.InFlight)
					}
				})
			})
		}
	}
}

// In a pool that is about to wrap, tasks go on exactly once under load.
func TestTicketsWrapUnderLoad(t *testing.T) {
	const users, each = 4, 20_000
	p := newAt(t, 1<<queue.TicketBits-users*each/2, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(700))
	check := sample(t, p, 4)
	y := newTally(users * each)
	var all sync.WaitGroup
	for u := range users {
		all.Go(func() {
			for i := range each {
				i := u*each + i
				err := p.Submit(y.task(i))
				y.note(i, err)
				must(t, err)
			}
		})
	}
	all.Wait()
	p.Wait()
	y.check(t)
	check()
	shutClean(t, p)
}

// A task that was claimed by the one that waits for it, or canceled, keeps its place in the
// queue as a tombstone until a worker comes to it. There are about as many tombstones as the
// pool accepts tasks, and no more. So the memory of a task that submits and waits for ever is
// bounded by the capacity, however many rounds it does.
func TestTasksThatSubmitAndWaitForeverHoldOnToNoMoreThanTheCapacity(t *testing.T) {
	weighs(t)
	const rounds, capacity = 20_000, 64
	nop := func(context.Context) (int, error) { return 0, nil }
	for name, round := range map[string]func(ctx context.Context, p *shoal.Pool){
		"future":   func(ctx context.Context, p *shoal.Pool) { shoal.Go(ctx, p, nop).Wait(ctx) },
		"canceled": func(ctx context.Context, p *shoal.Pool) { shoal.Go(ctx, p, nop).Cancel() },
		"futures": func(ctx context.Context, p *shoal.Pool) {
			first, second := shoal.Go(ctx, p, nop), shoal.Go(ctx, p, nop)
			second.Wait(ctx)
			first.Wait(ctx)
		},
		"group": func(ctx context.Context, p *shoal.Pool) {
			g := p.Group(ctx)
			for range 2 {
				g.Go(func(context.Context) error { return nil })
			}
			g.Wait()
		},
		"map": func(ctx context.Context, p *shoal.Pool) {
			for range shoal.Map(ctx, p, slices.Values([]int{1, 2}), func(_ context.Context, i int) (int, error) { return i, nil }) {
			}
		},
	} {
		for _, in := range []string{"its own pool", "its own pool, as the tickets wrap", "a sub-pool", "a sub-pool in which a task waits"} {
			first := uint64(0)
			if in == "its own pool, as the tickets wrap" {
				first = 1<<queue.TicketBits - rounds/2
			}
			root := newAt(t, first, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(capacity))
			defer root.Close()
			begun := root.Stats().Submitted // not 0 if the tickets are to wrap
			p := root
			if strings.HasPrefix(in, "a sub-pool") {
				var err error
				p, err = root.Sub(shoal.WithQueueCapacity(capacity))
				must(t, err)
			}
			var before, after int64
			_, err := shoal.Go(context.Background(), root, func(ctx context.Context) (int, error) {
				if in == "a sub-pool in which a task waits" {
					must(t, p.Submit(func() {}))
				}
				before = heapInUse()
				for range rounds {
					round(ctx, p)
				}
				after = heapInUse()
				return 0, nil
			}).Wait(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if n := p.Stats().Submitted - begun; n < rounds {
				t.Errorf("%s, in %s: only %d tasks were accepted in %d rounds", name, in, n, rounds)
			}
			if grown := after - before; grown > rounds*8 {
				t.Errorf("%s, in %s: %d bytes more for each of %d rounds", name, in, grown/rounds, rounds)
			}
		}
	}
}

// identityFault names what Stats promises for every moment and s contradicts.
func identityFault(s shoal.Stats) string {
	switch {
	case s.InFlight < 0 || s.Queued < 0 || s.Idle < 0 || s.Running < 0 || s.Workers < 0:
		return "a negative gauge"
	case s.Submitted != s.Completed+s.Dropped+s.Canceled+uint64(s.InFlight):
		return "Submitted ≠ Completed + Dropped + Canceled + InFlight"
	case s.Failed > s.Completed:
		return "Failed > Completed"
	}
	return ""
}

// sample takes snapshots of p until the returned func is called, which fails the
// test if one contradicts what Stats promises, or the one before.
func sample(t testing.TB, p *shoal.Pool, maxWorkers int) (check func()) {
	var stop atomic.Bool
	var before, s shoal.Stats
	fault := ""
	ended := inBackground(func() {
		for !stop.Load() {
			s = p.Stats()
			switch fault = identityFault(s); {
			case fault != "":
			case s.Submitted < before.Submitted || s.Completed < before.Completed || s.Failed < before.Failed ||
				s.Rejected < before.Rejected || s.Dropped < before.Dropped || s.Canceled < before.Canceled ||
				s.Spawned < before.Spawned || s.PeakWorkers < before.PeakWorkers:
				fault = "a counter went back"
			case s.RunTime.Count < before.RunTime.Count || s.WaitTime.Count < before.WaitTime.Count:
				fault = "a histogram lost something"
			case s.Spawned > s.Submitted || s.Queued > s.QueueCapacity || s.Queued > s.InFlight:
				fault = "more spawned than submitted, or more queued than there may be"
			case s.Workers > maxWorkers || s.PeakWorkers > maxWorkers || s.Workers > s.PeakWorkers || s.Running > s.Workers || s.Idle > s.Workers:
				fault = "more workers than there may be"
			case p.Queued() < 0 || p.Queued() > s.QueueCapacity:
				fault = "Queued is beyond the capacity"
			}
			if fault != "" {
				return
			}
			before = s
			runtime.Gosched()
		}
	})
	return func() {
		t.Helper()
		stop.Store(true)
		<-ended
		if fault != "" {
			t.Errorf("%s\nbefore: %+v\nthen:   %+v", fault, before, s)
		}
	}
}
