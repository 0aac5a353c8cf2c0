package tests

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// These tests measure in virtual time how many workers each sub-pool of a tree has, and set that beside what filling
// with water gives: its share by weight, but no more than its maximum; the others share what is left.

// A node is a sub-pool: a leaf, which always has tasks, or the pools below it.
type node struct {
	name   string
	weight int
	most   int // its maximum; 0: none of its own
	long   []time.Duration
	below  []*node

	used atomic.Int64
	want float64 // workers
}

func (b *node) String() string {
	most := ""
	if b.most > 0 {
		most = fmt.Sprintf(", maximum %d", b.most)
	}
	if len(b.below) == 0 {
		return fmt.Sprintf("%s (weight %d%s, tasks of %v)", b.name, b.weight, most, b.long)
	}
	var all []string
	for _, c := range b.below {
		all = append(all, c.String())
	}
	return fmt.Sprintf("%s (weight %d%s, below it %s)", b.name, b.weight, most, strings.Join(all, ", "))
}

// leaf is a leaf whose tasks take that long in turn.
func leaf(name string, weight, most int, long ...time.Duration) *node {
	return &node{name: name, weight: weight, most: most, long: long}
}

func inner(name string, weight, most int, below ...*node) *node {
	return &node{name: name, weight: weight, most: most, below: below}
}

// needs is how many of the workers it can use.
func (b *node) needs(workers float64) (n float64) {
	if n = workers; len(b.below) > 0 {
		n = 0
		for _, c := range b.below {
			n += c.needs(workers)
		}
	}
	if b.most > 0 {
		n = min(n, float64(b.most))
	}
	return min(n, workers)
}

// fillWithWater sets want of all below b, which has have of the workers.
func (b *node) fillWithWater(have, workers float64) {
	left, open := have, b.below
	for again := true; again; {
		again = false
		sum, rest := 0.0, left
		for _, c := range open {
			sum += float64(c.weight)
		}
		var others []*node
		for _, c := range open {
			c.want = rest * float64(c.weight) / sum
			if n := c.needs(workers); n <= c.want {
				c.want, again = n, true
				left -= n
			} else {
				others = append(others, c)
			}
		}
		open = others
	}
	for _, c := range b.below {
		c.fillWithWater(c.want, workers)
	}
}

// leaves calls f for each leaf.
func (b *node) leaves(f func(*node)) {
	if len(b.below) == 0 {
		f(b)
	}
	for _, c := range b.below {
		c.leaves(f)
	}
}

// run has a pool work for the tree: first for a second, then for d, in which it measures. Each task takes up to
// a tenth more or less than its length, so that no two of them end at the same time for ever.
func (b *node) run(t *testing.T, workers int, d time.Duration) {
	b.fillWithWater(float64(workers), float64(workers))
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(workers)...)
		var from, to time.Time
		var over atomic.Bool
		leaves := uint64(0)
		var add func(up *shoal.Pool, b *node)
		add = func(up *shoal.Pool, b *node) {
			options := []shoal.Option{shoal.WithWeight(b.weight)}
			if b.most > 0 {
				options = append(options, shoal.WithMaxWorkers(b.most))
			}
			s := newSub(t, up, options...)
			for _, c := range b.below {
				add(s, c)
			}
			if len(b.below) > 0 {
				return
			}
			leaves++
			number := leaves // of the leaf: with that of the task it is a seed, so that a test can be had again
			var began atomic.Uint64
			var task func()
			task = func() {
				if over.Load() {
					return
				}
				must(t, s.Submit(task))
				n := began.Add(1)
				long := float64(b.long[n%uint64(len(b.long))])
				begin := time.Now()
				time.Sleep(time.Duration(long * (0.9 + 0.2*rand.New(rand.NewPCG(number, n)).Float64())))
				end := time.Now()
				if begin.Before(from) {
					begin = from
				}
				if end.After(to) {
					end = to
				}
				b.used.Add(max(0, int64(end.Sub(begin))))
			}
			for range workers + 2 {
				must(t, s.Submit(task))
			}
		}
		p.Pause()
		for _, c := range b.below {
			add(p, c)
		}
		from = time.Now().Add(time.Second)
		to = from.Add(d)
		p.Resume()
		time.Sleep(time.Until(to))
		over.Store(true)
		p.Close()
	})
	b.leaves(func(l *node) { l.used.Store(int64(float64(l.used.Load()) / d.Seconds() / 1e6)) }) // thousandths of a worker
}

// refill makes p always have n tasks of 1 ms, until over is set. used counts those that have run.
func refill(t *testing.T, p *shoal.Pool, n int, used *atomic.Int64, over *atomic.Bool) {
	var task func()
	task = func() {
		time.Sleep(time.Millisecond)
		if used.Add(1); !over.Load() {
			must(t, p.Submit(task))
		}
	}
	for range n {
		must(t, p.Submit(task))
	}
}

// off is by which part l has more or less than it should have.
func (b *node) off() float64 { return float64(b.used.Load())/1000/b.want - 1 }

// TestSharesOfTrees: sub-pools have their shares, also at their maximums, and also if their parent has few workers or
// all of what is below it is at its maximum.
func TestSharesOfTrees(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	type tree struct {
		workers int
		below   []*node
	}
	var trees []tree
	add := func(workers int, below ...*node) { trees = append(trees, tree{workers, below}) }
	for _, long := range []time.Duration{100 * us, 5 * ms} {
		add(2, leaf("a", 1, 0, 20*ms), inner("p", 1, 0, leaf("c", 1, 1, long)))
		add(2, leaf("a", 3, 0, 20*ms), inner("p", 2, 0, leaf("c", 1, 1, long)))
		add(4, leaf("a", 1, 0, 20*ms), inner("p", 1, 0, leaf("c", 1, 1, long), leaf("d", 1, 1, long)))
		add(4, leaf("a", 1, 0, 20*ms), inner("p", 8, 2, leaf("c", 1, 0, long)))
		add(4, leaf("x", 16, 0, ms), inner("p", 1, 0, leaf("c", 1, 0, long, 20*ms), leaf("d", 1, 1, ms)))
	}
	for _, long := range []time.Duration{ms, 21 * ms} {
		add(2, leaf("a", 3, 0, ms), leaf("b", 2, 1, long)) // while b is at its maximum a is alone
		add(4, leaf("a", 3, 0, long), leaf("b", 2, 2, 5*ms))
		add(4, leaf("a", 6, 0, long), leaf("b", 1, 1, 37*ms))
	}
	mix := []time.Duration{200 * ms}
	for range 100 {
		mix = append(mix, ms)
	}
	add(4, leaf("a", 1, 0, mix...), leaf("b", 1, 2, 20*ms)) // a is alone now and then while its long tasks run
	add(1, leaf("a", 1<<20, 0, 10*us), leaf("b", 1<<17, 0, 10*us))
	add(1, inner("p", 1, 0, leaf("a", 9000, 0, 10*us), leaf("b", 6000, 0, 10*us)))
	for i, tree := range trees {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			root := inner("root", 1, 0, tree.below...)
			d := 10 * time.Second
			if testing.Short() {
				d /= 4
			}
			if tree.workers == 1 {
				d /= 20 // very many tasks
			}
			root.run(t, tree.workers, d)
			root.leaves(func(l *node) {
				if off := l.off(); math.Abs(off) > 0.05 {
					t.Errorf("%d workers, %v: %s is off by %+.1f %%", tree.workers, root, l.name, 100*off)
				}
			})
		})
	}
}

// TestSharesOfRandomTrees: no leaf is off by more than a tenth. Where one below a pool has a maximum, it can lose what it
// could have used while its parent had no worker; these trees have maximums on the first level only.
func TestSharesOfRandomTrees(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		pick := func(of ...int) int { return of[r.IntN(len(of))] }
		workers := pick(1, 2, 3, 4, 8)
		random := func(name string) *node {
			b := leaf(name, pick(1, 1, 2, 3, 10, 100), 0)
			for range 1 + r.IntN(2) {
				b.long = append(b.long, time.Duration(pick(100, 200, 1000, 5000, 20000))*time.Microsecond)
			}
			return b
		}
		root := inner("root", 1, 0)
		for i := range 2 + r.IntN(3) {
			b := random(fmt.Sprint(i))
			if r.IntN(2) == 0 {
				for j := range 1 + r.IntN(3) {
					b.below = append(b.below, random(fmt.Sprintf("%d.%d", i, j)))
				}
			}
			if r.IntN(3) == 0 {
				b.most = 1 + r.IntN(workers)
			}
			root.below = append(root.below, b)
		}
		root.run(t, workers, 6*time.Second)
		root.leaves(func(l *node) {
			if off := l.off(); math.Abs(off) > 0.1+0.04/l.want {
				t.Errorf("seed %d, %d workers, %v: %s is off by %+.1f %%", seed, workers, root, l.name, 100*off)
			}
		})
	}
}

// TestTimeAloneIsThatOfItsWorkers: a sub-pool that is owed time, and then is alone for a while, has made up for as much
// as its workers have used. Neither workers that come and leave, nor a pause, nor a sub-pool below it, change that.
func TestTimeAloneIsThatOfItsWorkers(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		workers int // that are busy meanwhile
		then    string
		want    time.Duration // for how long the other one waits then
	}{{1, "", 2700 * ms}, {2, "", 1400 * ms}, {2, "pause", 1400 * ms}, {2, "sub", 1400 * ms}} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2)...)
			a, b := newSub(t, p), newSub(t, p, shoal.WithWeight(10))
			for range 2 {
				must(t, b.Submit(func() { time.Sleep(20 * ms) }))
			}
			synctest.Wait()
			for range 2 {
				must(t, a.Submit(func() { time.Sleep(400 * ms) })) // so b is owed 8 s of work
			}
			for range test.workers {
				n := 0
				var task func()
				task = func() {
					time.Sleep(ms)
					if n++; n < 2650 {
						must(t, b.Submit(task))
					}
				}
				must(t, b.Submit(task))
			}
			time.Sleep(20*ms + 400*ms + 2600*ms + ms/2) // in the midst of tasks
			if test.then == "pause" {
				b.Pause()
				synctest.Wait()
				b.Resume()
			}
			for range 30_000 {
				must(t, b.Submit(func() { time.Sleep(ms) }))
			}
			synctest.Wait()
			if test.then == "sub" {
				newSub(t, b)
			}
			since := time.Now()
			must(t, a.SubmitWait(bg, func(context.Context) error { return nil }))
			if got := time.Since(since); got < test.want-100*ms || got > test.want+100*ms {
				t.Errorf("%d workers, %q: it waited for %v, want %v", test.workers, test.then, got, test.want)
			}
			p.Close()
		})
	}
}

// TestTimeAloneIsChargedOnce: a task that began beside another sub-pool, and goes on while its own one is alone, is
// charged for that time once.
func TestTimeAloneIsChargedOnce(t *testing.T) {
	const ms = time.Millisecond
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		a, b := newSub(t, p), newSub(t, p)
		var used [2]atomic.Int64
		submit := func(to *shoal.Pool, of, n int, long time.Duration) {
			for range n {
				must(t, to.Submit(func() {
					time.Sleep(long)
					used[of].Add(int64(long))
				}))
			}
		}
		p.Pause()
		submit(a, 0, 1, ms)
		submit(b, 1, 1, 1000*ms)
		submit(b, 1, 3000, ms)
		p.Resume()
		time.Sleep(900*ms + ms/2)
		submit(a, 0, 3000, ms) // b is alone no more
		time.Sleep(100 * ms)   // its long task ends
		used[0].Store(0)
		used[1].Store(0)
		time.Sleep(500 * ms)
		if n := time.Duration(used[1].Load()); n < 400*ms || n > 600*ms {
			t.Errorf("the one that was alone had %v of 1s, want half", n)
		}
		p.Close()
	})
}

// TestNobodyIsChargedForTheTimeBefore: a sub-pool that is alone, or the root when the first sub-pool is made, is charged
// for what its workers have used since then, and not for the age of the pool. Else it starves for as long.
func TestNobodyIsChargedForTheTimeBefore(t *testing.T) {
	const ms = time.Millisecond
	// after reports how long task of p waits beside other, which always has tasks.
	after := func(t *testing.T, p, other *shoal.Pool) time.Duration {
		var used atomic.Int64
		var over atomic.Bool
		refill(t, other, 10, &used, &over)
		time.Sleep(10 * ms)
		since := time.Now()
		done := make(chan time.Time, 1)
		must(t, p.Submit(func() { done <- time.Now() }))
		at := since.Add(time.Hour)
		select {
		case at = <-done:
		case <-time.After(10 * time.Second):
		}
		over.Store(true)
		return at.Sub(since)
	}
	t.Run("sub-pool", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(3, shoal.WithSpin(1<<20))...)
			stop := make(chan struct{})
			must(t, newSub(t, p, shoal.WithMaxWorkers(1)).Submit(func() { <-stop }))
			for range 10 {
				time.Sleep(time.Hour)
				x, b, other := newSub(t, p), newSub(t, p, shoal.WithMaxWorkers(1)), newSub(t, p)
				must(t, x.SubmitWait(bg, func(context.Context) error { return nil }))
				must(t, x.Close())
				must(t, b.Submit(func() { time.Sleep(10 * ms) })) // a worker that looks for tasks comes without the lock
				for b.Stats().Running == 0 && b.Queued() > 0 {
					runtime.Gosched()
				}
				must(t, b.Submit(func() { time.Sleep(10 * ms) })) // b is at its maximum
				time.Sleep(15 * ms)
				if d := after(t, b, other); d > 100*ms {
					t.Fatalf("a task of it waited for %v", d)
				}
				must(t, b.Close())
				must(t, other.Close())
			}
			close(stop)
			p.Close()
		})
	})
	t.Run("root", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(2)...)
			time.Sleep(time.Hour)
			for range 2 {
				must(t, p.Submit(func() { time.Sleep(10 * ms) }))
			}
			time.Sleep(ms)
			p.Pause()
			s := newSub(t, p)
			must(t, s.Submit(func() { time.Sleep(100 * ms) }))
			must(t, s.Submit(func() { time.Sleep(100 * ms) }))
			time.Sleep(20 * ms)
			p.Resume()
			if d := after(t, p, s); d > 200*ms {
				t.Errorf("a task of the root waited for %v", d)
			}
			p.Close()
		})
	})
}

// TestIdleTimeMakesUp: what another one has had is forgotten while nobody has anything to do, also by the root.
func TestIdleTimeMakesUp(t *testing.T) {
	const ms = time.Millisecond
	for _, root := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1)...)
			a, b := newSub(t, p), p
			if !root {
				b = newSub(t, p)
			}
			must(t, b.Submit(func() { time.Sleep(20 * ms) }))
			synctest.Wait()
			must(t, a.Submit(func() { time.Sleep(400 * ms) })) // so b is owed 400 ms
			for range 10 {
				must(t, b.Submit(func() { time.Sleep(ms) }))
			}
			time.Sleep(10 * time.Second) // all are idle for most of it
			for range 1000 {
				must(t, b.Submit(func() { time.Sleep(ms) }))
			}
			synctest.Wait()
			since := time.Now()
			must(t, a.SubmitWait(bg, func(context.Context) error { return nil }))
			if d := time.Since(since); d > 10*ms {
				t.Errorf("root %v: it waited for %v", root, d)
			}
			p.Close()
		})
	}
}

// TestWhoWaitsIsNotCharged: a sub-pool whose tasks wait for a worker that another one keeps has not had that time.
func TestWhoWaitsIsNotCharged(t *testing.T) {
	const ms = time.Millisecond
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		a, b, x := newSub(t, p), newSub(t, p), newSub(t, p)
		var used [2]atomic.Int64
		submit := func(to *shoal.Pool, of int) {
			for range 2000 {
				must(t, to.Submit(func() {
					time.Sleep(ms)
					used[of].Add(1)
				}))
			}
		}
		p.Pause()
		must(t, a.Submit(func() { time.Sleep(1000 * ms) }))
		submit(b, 0)
		p.Resume()
		time.Sleep(900 * ms)
		submit(x, 1) // so b is not the only one that waits any more
		time.Sleep(600 * ms)
		if n, m := used[0].Load(), used[1].Load(); n < 200 || m < 200 {
			t.Errorf("the one that has waited for longer had %d turns, and the other one %d, want as many", n, m)
		}
		p.Close()
	})
}

// TestATaskInThePlaceOfAWorkerIsNoDebt: a sub-pool of which a waiting task runs a task itself, after hours in which the
// sub-pool had none, has its share after that.
func TestATaskInThePlaceOfAWorkerIsNoDebt(t *testing.T) {
	const ms = time.Millisecond
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		b, c := newSub(t, p), newSub(t, p)
		var used [2]atomic.Int64
		var over atomic.Bool
		time.Sleep(time.Hour)
		keeps := make(chan struct{})
		must(t, c.Submit(func() { <-keeps })) // the other worker
		synctest.Wait()
		must(t, p.SubmitContext(bg, func(ctx context.Context) {
			f := shoal.Go(ctx, b, func(context.Context) (int, error) { time.Sleep(20 * ms); return 1, nil })
			f.Wait(ctx)
		}))
		time.Sleep(5 * ms)
		refill(t, c, 10, &used[0], &over)
		refill(t, b, 10, &used[1], &over)
		close(keeps)
		time.Sleep(1000 * ms)
		over.Store(true)
		if n, m := used[0].Load(), used[1].Load(); n < 900 || m < 900 {
			t.Errorf("they had %d and %d turns, want as many", n, m)
		}
		p.Close()
	})
}

// TestWhoParksWasNotThere: a sub-pool that is alone is not charged for a worker that ends a long task of another one, and
// parks.
func TestWhoParksWasNotThere(t *testing.T) {
	const ms = time.Millisecond
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(4)...)
		x, a, b, c := newSub(t, p), newSub(t, p), newSub(t, p), newSub(t, p)
		stop := make(chan struct{})
		p.Pause()
		must(t, x.Submit(func() { <-stop }))
		must(t, b.Submit(func() { time.Sleep(59 * time.Second) }))
		must(t, a.Submit(func() { time.Sleep(5 * ms) }))
		p.Resume()
		time.Sleep(ms)
		must(t, a.Submit(func() { time.Sleep(59*time.Second + 10*ms) })) // a is alone
		time.Sleep(59*time.Second + 5*ms)
		var over atomic.Bool
		var used [2]atomic.Int64
		refill(t, a, 20, &used[0], &over)
		refill(t, c, 20, &used[1], &over)
		time.Sleep(40 * time.Second)
		over.Store(true)
		close(stop)
		// c makes up for a part of the 59 s that a has had. Were that b's 59 s too, it would be twice as much.
		if n, m := used[0].Load(), used[1].Load(); m-n > 22_000 || n == 0 || m < n {
			t.Errorf("it had %d turns, and another one %d", n, m)
		}
		p.Close()
	})
}
