package tests

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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
			var began atomic.Int64
			var task func()
			task = func() {
				if over.Load() {
					return
				}
				must(t, s.Submit(task))
				long := float64(b.long[int(began.Add(1))%len(b.long)])
				begin := time.Now()
				time.Sleep(time.Duration(long * (0.9 + 0.2*rand.Float64())))
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
	add(1, leaf("a", 1<<20, 0, 10*us), leaf("b", 1<<17, 0, 10*us))
	add(1, inner("p", 1, 0, leaf("a", 9000, 0, 10*us), leaf("b", 6000, 0, 10*us)))
	for i, tree := range trees {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			root := inner("root", 1, 0, tree.below...)
			d := 10 * time.Second
			if tree.workers == 1 {
				d = 500 * ms // very many tasks
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
// as its workers have used. Neither workers that come and leave, nor a pause, change that.
func TestTimeAloneIsThatOfItsWorkers(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		workers int // that are busy meanwhile
		pause   bool
		want    time.Duration // for how long the other one waits then
	}{{1, false, 2700 * ms}, {2, false, 1400 * ms}, {2, true, 1400 * ms}} {
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
			if test.pause {
				b.Pause()
				synctest.Wait()
				b.Resume()
			}
			for range 30_000 {
				must(t, b.Submit(func() { time.Sleep(ms) }))
			}
			synctest.Wait()
			since := time.Now()
			must(t, a.SubmitWait(bg, func(context.Context) error { return nil }))
			if got := time.Since(since); got < test.want-100*ms || got > test.want+100*ms {
				t.Errorf("%d workers, pause %v: it waited for %v, want %v", test.workers, test.pause, got, test.want)
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
