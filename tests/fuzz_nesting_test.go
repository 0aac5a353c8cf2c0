package tests

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/shoal-go/shoal"
)

// A nest is a task that waits for others: a program for FuzzNesting, read from a
// script of bytes.
type nest struct {
	op       byte
	pool     byte
	children []*nest
}

const nestOps = 9

// readNest reads a task and those below it. At its end a script has leaves only.
func readNest(script *[]byte, depth int, left *int) *nest {
	next := func() (b byte) {
		if len(*script) > 0 {
			b, *script = (*script)[0], (*script)[1:]
		}
		return b
	}
	*left--
	n := &nest{op: next() % nestOps, pool: next()}
	if depth == 0 || *left <= 0 {
		n.op = 0
	}
	if n.op == 0 {
		return n
	}
	for range 1 + next()%3 {
		if *left > 0 {
			n.children = append(n.children, readNest(script, depth-1, left))
		}
	}
	return n
}

func (n *nest) size() int {
	sum := 1
	for _, c := range n.children {
		sum += c.size()
	}
	return sum
}

// A nesting runs nests on a family of pools.
type nesting struct {
	pools []*shoal.Pool
	keys  []*shoal.Keyed[byte]
	ran   atomic.Int64
}

// task is n as a task.
func (s *nesting) task(n *nest) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		s.ran.Add(1)
		p := s.pools[int(n.pool)%len(s.pools)]
		sum := 1
		switch n.op {
		case 1: // one future after the other
			for _, c := range n.children {
				v, err := shoal.Go(ctx, p, s.task(c)).Wait(ctx)
				if err != nil {
					return sum, err
				}
				sum += v
			}
		case 2: // futures side by side
			var all []*shoal.Future[int]
			for i, c := range n.children {
				all = append(all, shoal.Go(ctx, s.pools[(int(n.pool)+i)%len(s.pools)], s.task(c)))
			}
			for _, f := range all {
				v, err := f.Wait(ctx)
				if err != nil {
					return sum, err
				}
				sum += v
			}
		case 3, 4: // a group, of one task at a time or not
			opts := []shoal.GroupOption{shoal.CollectErrors()}
			if n.op == 4 {
				opts = append(opts, shoal.Limit(1))
			}
			g := p.Group(ctx, opts...)
			var got atomic.Int64
			for _, c := range n.children {
				g.Go(func(ctx context.Context) error {
					v, err := s.task(c)(ctx)
					got.Add(int64(v))
					return err
				})
			}
			if err := g.Wait(); err != nil {
				return sum, err
			}
			sum += int(got.Load())
		case 5, 6: // a map
			mapOf := shoal.Map[*nest, int]
			if n.op == 6 {
				mapOf = shoal.MapUnordered[*nest, int]
			}
			for v, err := range mapOf(ctx, p, slices.Values(n.children), func(ctx context.Context, c *nest) (int, error) { return s.task(c)(ctx) }) {
				if err != nil {
					return sum, err
				}
				sum += v
			}
		case 7: // wait for results, and leave something behind
			for _, c := range n.children {
				if err := p.SubmitWait(ctx, func(ctx context.Context) error {
					v, err := s.task(c)(ctx)
					sum += v
					return err
				}); err != nil {
					return sum, err
				}
				if err := s.keys[int(n.pool)%len(s.keys)].Submit(c.pool%2, func() {}); err != nil {
					return sum, err
				}
			}
		case 8: // a task that panics, and the waiter goes on
			for _, c := range n.children {
				_, err := shoal.Go(ctx, p, func(ctx context.Context) (int, error) {
					v, err := s.task(c)(ctx)
					sum += v
					if err == nil {
						panic(errBoom)
					}
					return 0, err
				}).Wait(ctx)
				if !errors.Is(err, errBoom) {
					return sum, err
				}
			}
		}
		runtime.Gosched()
		return sum, nil
	}
}

// FuzzNesting has tasks wait for tasks in every way there is, across a pool, its
// sub-pools and theirs, on one worker or a few. All must end, without more
// workers than allowed; in a bubble a deadlock is seen.
func FuzzNesting(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 2, 1, 1, 3, 2, 2, 5, 1, 1, 0, 0})
	f.Add([]byte{1, 1, 2, 3, 1, 2, 7, 0, 2, 6, 1, 1, 8, 2, 1, 4, 0, 2})
	f.Add([]byte{2, 3, 5, 2, 2, 4, 1, 2, 2, 0, 2, 1, 2, 2, 3, 1, 1, 6, 0, 1, 7, 1, 0, 8, 2, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) < 2 || len(script) > 300 {
			return
		}
		noLog(t)
		inBubble(t, func(t *testing.T) {
			workers, capacity := 1+int(script[0]%3), int(script[1]%4)
			rest := script[2:]
			left := 120
			n := readNest(&rest, 6, &left)
			opts := []shoal.Option{shoal.WithQueueCapacity(capacity)}
			if script[0]&4 != 0 {
				opts = append(opts, shoal.WithFullPolicy(shoal.CallerRuns))
			}
			p := newPool(t, append(opts, shoal.WithMaxWorkers(workers))...)
			// A limit below the number of workers could be waited for in a circle.
			a := newSub(t, p, append(opts, shoal.WithMaxWorkers(workers))...)
			b := newSub(t, p, append(opts, shoal.WithMaxWorkers(workers), shoal.WithPriority(1))...)
			c := newSub(t, a, append(opts, shoal.WithMaxWorkers(workers), shoal.WithWeight(3))...)
			s := &nesting{pools: []*shoal.Pool{p, a, b, c}}
			for _, q := range s.pools {
				s.keys = append(s.keys, shoal.NewKeyed[byte](q))
			}
			v, err := shoal.Go(bg, s.pools[script[1]/4%4], s.task(n)).Wait(bg)
			if want := n.size(); err != nil || v != want || s.ran.Load() != int64(want) {
				t.Errorf("%d, %v, and %d tasks ran, want %d", v, err, s.ran.Load(), want)
			}
			shutClean(t, p)
			for _, q := range s.pools {
				if st := q.Stats(); st.PeakWorkers > workers || st.Completed != st.Submitted {
					t.Errorf("%d workers: %+v", workers, st)
				}
				checkEnded(t, q)
			}
		})
	})
}
