package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// upTo yields 0 … n-1; forever for a negative n.
func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; n < 0 || i < n; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func double(_ context.Context, i int) (int, error) { return 2 * i, nil }

// mappers are Map and MapUnordered.
var mappers = map[string]func(context.Context, *shoal.Pool, iter.Seq[int], func(context.Context, int) (int, error)) iter.Seq2[int, error]{
	"Map":          shoal.Map[int, int],
	"MapUnordered": shoal.MapUnordered[int, int],
}

func TestMapYieldsEveryResultOnce(t *testing.T) {
	for name, mapOf := range mappers {
		for _, workers := range []int{1, 2, 7} {
			for _, capacity := range []int{0, 1, 100} {
				p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity))
				for n := range 50 {
					var got []int
					seq := mapOf(bg, p, upTo(n), func(_ context.Context, i int) (int, error) {
						for range (i * 7) % 5 {
							runtime.Gosched()
						}
						return 2 * i, nil
					})
					for range 2 { // a Seq2 may be ranged over again
						got = nil
						for v, err := range seq {
							if err != nil {
								t.Fatal(err)
							}
							got = append(got, v)
						}
					}
					if name == "MapUnordered" {
						slices.Sort(got)
					}
					want := slices.Collect(func(yield func(int) bool) {
						for i := range n {
							if !yield(2 * i) {
								return
							}
						}
					})
					if !slices.Equal(got, want) {
						t.Errorf("%s, %d workers, capacity %d: %v", name, workers, capacity, got)
					}
				}
				shutClean(t, p)
			}
		}
	}
}

func TestMapUnorderedYieldsAsTheyCome(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4))
		slow := func(_ context.Context, i int) (int, error) {
			time.Sleep(time.Duration(10-i) * time.Second)
			return i, nil
		}
		var got []int
		for v := range shoal.MapUnordered(bg, p, upTo(4), slow) {
			got = append(got, v)
		}
		if !slices.Equal(got, []int{3, 2, 1, 0}) {
			t.Errorf("they come as %v", got)
		}
		shutClean(t, p)
	})
}

func TestMapAnErrorDoesNotEndTheOthers(t *testing.T) {
	noLog(t)
	for name, mapOf := range mappers {
		p := newPool(t, shoal.WithMaxWorkers(3))
		good, bad := 0, 0
		for _, err := range mapOf(bg, p, upTo(100), func(_ context.Context, i int) (int, error) {
			switch i % 4 {
			case 1:
				return 0, errBoom
			case 2:
				panic(errBoom)
			}
			return i, nil
		}) {
			switch {
			case err == nil:
				good++
			case errors.Is(err, errBoom):
				bad++
			default:
				t.Error(err)
			}
		}
		if good != 50 || bad != 50 {
			t.Errorf("%s: %d good ones and %d bad ones", name, good, bad)
		}
		shutClean(t, p)
	}
}

func TestMapOfAnEndlessInputLooksAheadByABoundAndBreakLeavesNothing(t *testing.T) {
	for name, mapOf := range mappers {
		inBubble(t, func(t *testing.T) {
			const workers = 3
			p := newPool(t, shoal.WithMaxWorkers(workers))
			taken, yielded, most := 0, 0, 0
			input := func(yield func(int) bool) {
				for i := 0; ; i++ {
					taken++
					most = max(most, taken-yielded)
					if !yield(i) {
						return
					}
				}
			}
			var running atomic.Int32
			for _, err := range mapOf(bg, p, input, func(ctx context.Context, i int) (int, error) {
				running.Add(1)
				defer running.Add(-1)
				if i < 20 {
					return i, nil
				}
				<-ctx.Done()
				time.Sleep(time.Second) // it takes a while to give up
				return 0, ctx.Err()
			}) {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if yielded++; yielded == 20 {
					break
				}
			}
			if n := running.Load(); n != 0 {
				t.Errorf("%s: %d run after break", name, n)
			}
			if most > workers+32+1 { // and the one that has just been taken
				t.Errorf("%s: looked ahead by %d", name, most)
			}
			if s := p.Stats(); s.InFlight != 0 {
				t.Errorf("%s: %+v", name, s)
			}
			p.Wait()
			shutClean(t, p)
		})
	}
}

func TestMapWhoseLoopPanics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		var ended atomic.Int32
		began := make(chan struct{}) // with another one than the first, which is yielded at once
		func() {
			defer func() { recover() }()
			for range shoal.Map(bg, p, upTo(-1), func(ctx context.Context, i int) (int, error) {
				switch i {
				case 0:
					<-began
					return i, nil
				case 1:
					close(began)
				}
				<-ctx.Done()
				ended.Add(1)
				return i, nil
			}) {
				time.Sleep(time.Second)
				panic("in the loop")
			}
		}()
		if ended.Load() == 0 {
			t.Error("the others go on")
		}
		shutClean(t, p)
	})
}

func TestMapWhenTheContextEnds(t *testing.T) {
	for name, mapOf := range mappers {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(2))
			ctx, cancel := context.WithTimeout(bg, 10*time.Second)
			defer cancel()
			var last error
			n := 0
			for _, err := range mapOf(ctx, p, upTo(-1), func(ctx context.Context, i int) (int, error) {
				select {
				case <-time.After(time.Second):
					return i, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}) {
				if err == nil {
					n++
				}
				if name == "Map" || err != nil { // as they come, it need not be the last
					last = err
				}
			}
			if last != context.DeadlineExceeded || n < 18 || n > 20 {
				t.Errorf("%s: %d results, and then %v", name, n, last)
			}
			shutClean(t, p)
		})
	}
}

func TestMapWhenThePoolIsClosed(t *testing.T) {
	for name, mapOf := range mappers {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(2))
			go func() { time.Sleep(10 * time.Second); p.Close() }()
			var last, closed error
			for _, err := range mapOf(bg, p, upTo(-1), func(ctx context.Context, i int) (int, error) {
				time.Sleep(time.Second)
				return i, nil
			}) {
				if last = err; errors.Is(err, shoal.ErrClosed) {
					closed = err
				}
			}
			if name == "MapUnordered" {
				last = closed
			}
			if !errors.Is(last, shoal.ErrClosed) {
				t.Errorf("%s: %v", name, last)
			}
			<-p.Done()
		})
	}
}

func TestMapOfABadCallSaysWhy(t *testing.T) {
	p := newPool(t)
	closed := newPool(t)
	closed.Close()
	var none context.Context
	for name, mapOf := range mappers {
		for what, seq := range map[string]iter.Seq2[int, error]{
			"nil context":  mapOf(none, p, upTo(3), double),
			"nil pool":     mapOf(bg, nil, upTo(3), double),
			"zero pool":    mapOf(bg, new(shoal.Pool), upTo(3), double),
			"closed pool":  mapOf(bg, closed, upTo(-1), double),
			"nil iterator": mapOf(bg, p, nil, double),
			"nil function": mapOf(bg, p, upTo(3), nil),
			"ended":        mapOf(canceledContext(), p, upTo(-1), double),
		} {
			n := 0
			for _, err := range seq {
				if n++; err == nil {
					t.Errorf("%s, %s: no error", name, what)
				}
			}
			if n != 1 {
				t.Errorf("%s, %s: %d pairs", name, what, n)
			}
		}
	}
	if err := shoal.ForEach[int](bg, p, upTo(3), nil); !errors.Is(err, shoal.ErrNilTask) {
		t.Error(err)
	}
	if err := shoal.ForEach(bg, p, nil, func(context.Context, int) error { return nil }); err == nil {
		t.Error("ForEach of a nil iterator: no error")
	}
	if err := shoal.ForEach(none, p, upTo(3), func(context.Context, int) error { return nil }); err == nil {
		t.Error("ForEach with a nil context: no error")
	}
	shutClean(t, p)
}

func TestMapOnAPoolThatRejectsDoesNotRejectItsOwnItems(t *testing.T) {
	for name, mapOf := range mappers {
		for _, capacity := range []int{0, 1, 5} {
			p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(shoal.Reject))
			n := 0
			for _, err := range mapOf(bg, p, upTo(1000), double) {
				n++
				if err != nil && capacity > 0 {
					t.Errorf("%s, capacity %d: %v", name, capacity, err)
					break
				}
			}
			if n == 0 || n != 1000 && capacity > 0 {
				t.Errorf("%s, capacity %d: %d pairs", name, capacity, n)
			}
			shutClean(t, p)
		}
	}
}

// A submittedTracer calls f in Submitted.
type submittedTracer struct {
	refusingTracer
	f func()
}

func (s submittedTracer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	s.f()
	return ctx
}

// An item may be refused for lack of capacity while the context ends. Then the next one has the context's error.
func TestMapOnAPoolThatRejectsWhoseContextEnds(t *testing.T) {
	for name, loop := range map[string]func(context.Context, *shoal.Pool) []error{
		"Map": func(ctx context.Context, p *shoal.Pool) (errs []error) {
			for _, err := range shoal.Map(ctx, p, upTo(-1), double) {
				errs = append(errs, err)
			}
			return errs
		},
		"MapUnordered": func(ctx context.Context, p *shoal.Pool) (errs []error) {
			for _, err := range shoal.MapUnordered(ctx, p, upTo(-1), double) {
				errs = append(errs, err)
			}
			return errs
		},
		"ForEach": func(ctx context.Context, p *shoal.Pool) []error {
			err := shoal.ForEach(ctx, p, upTo(-1), func(context.Context, int) error { return nil })
			return err.(interface{ Unwrap() []error }).Unwrap()
		},
	} {
		ctx, cancel := context.WithCancel(bg)
		submitted := 0
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject), shoal.WithTracer(submittedTracer{
			refusingTracer{func(error) {}},
			func() { // between the look at the context and that at the capacity
				if submitted++; submitted == 3 {
					cancel()
				}
			}}))...)
		release := hold(t, p, 1)
		got := loop(ctx, p)
		if want := []error{shoal.ErrQueueFull, shoal.ErrQueueFull, shoal.ErrQueueFull, context.Canceled}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		release()
		shutClean(t, p)
	}
}

func TestMapInTasksNeedsOneWorker(t *testing.T) {
	for name, mapOf := range mappers {
		for workers := 1; workers <= 3; workers++ {
			p := newPool(t, shoal.WithMaxWorkers(workers))
			var running gauge
			var sum func(depth int) func(context.Context, int) (int, error)
			sum = func(depth int) func(context.Context, int) (int, error) {
				return func(ctx context.Context, _ int) (int, error) {
					if depth == 0 {
						running.pass()
						return 1, nil
					}
					n := 0
					for v, err := range mapOf(ctx, p, upTo(4), sum(depth-1)) {
						if err != nil {
							return n, err
						}
						n += v
					}
					return n, nil
				}
			}
			n := 0
			for v, err := range mapOf(bg, p, upTo(4), sum(4)) {
				if n += v; err != nil {
					t.Fatal(err)
				}
			}
			if n != 4<<8 || running.most.Load() > int64(workers) {
				t.Errorf("%s, %d workers: %d leaves, %d at once", name, workers, n, running.most.Load())
			}
			shutClean(t, p)
		}
	}
}

func TestMapPulled(t *testing.T) {
	p := newPool(t)
	next, stop := iter.Pull2(shoal.Map(bg, p, upTo(-1), double))
	for i := range 10 {
		if v, err, ok := next(); v != 2*i || err != nil || !ok {
			t.Errorf("%d: %d, %v, %v", i, v, err, ok)
		}
	}
	stop()
	p.Wait()
	shutClean(t, p)
}

func TestForEachRunsAllAndJoinsTheErrors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(3))
		y := newTally(100)
		err := shoal.ForEach(bg, p, upTo(100), func(_ context.Context, i int) error {
			y.hit(i)
			if i%40 == 7 {
				return fmt.Errorf("item %d", i)
			}
			return nil
		})
		y.check(t)
		if err == nil || err.Error() != "item 7\nitem 47\nitem 87" {
			t.Errorf("ForEach = %v", err)
		}
		if err := shoal.ForEach(bg, p, upTo(10), func(context.Context, int) error { return nil }); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(bg)
		err = shoal.ForEach(ctx, p, upTo(-1), func(ctx context.Context, i int) error {
			if i == 10 {
				cancel()
			}
			return nil
		})
		if err == nil || err.Error() != "context canceled" {
			t.Errorf("ForEach whose context ends = %v", err)
		}
		shutClean(t, p)
	})
}

func TestMapMakesOneAllocationAnItem(t *testing.T) {
	if testpool.Race {
		t.Skip("sync.Pool forgets at random under the race detector")
	}
	p := openPool(t, shoal.WithMaxWorkers(2))
	const n = 10_000
	got := testing.AllocsPerRun(5, func() {
		pairs := 0
		for _, err := range shoal.Map(bg, p, upTo(n), double) {
			must(t, err)
			pairs++
		}
		if pairs != n {
			t.Errorf("%d pairs", pairs)
		}
	})
	if got > 1.1*n {
		t.Errorf("%v allocations for %d items", got, n)
	}
}

func TestMapsEndWhateverHappens(t *testing.T) {
	noLog(t)
	for round := range rounds(300) {
		r := rand.New(rand.NewPCG(uint64(round), 3))
		policy := allPolicies[r.IntN(len(allPolicies))]
		p := newPool(t, shoal.WithMaxWorkers(1+r.IntN(3)), shoal.WithQueueCapacity(r.IntN(4)), shoal.WithFullPolicy(policy))
		ctx, cancel := context.WithCancel(bg)
		mapOf := mappers["Map"]
		if r.IntN(2) == 0 {
			mapOf = mappers["MapUnordered"]
		}
		y := newTally(200)
		var running atomic.Int32
		breakAt, end, fault := r.IntN(250), r.IntN(4), r.IntN(200)
		done := inBackground(func() {
			n := 0
			for _, err := range mapOf(ctx, p, upTo(len(y.words)), func(_ context.Context, i int) (int, error) {
				running.Add(1)
				defer running.Add(-1)
				y.hit(i)
				switch i - fault {
				case 0:
					panic(errBoom)
				case 1:
					runtime.Goexit()
				case 2:
					return 0, errBoom
				}
				return i, nil
			}) {
				_ = err
				if n++; n == breakAt {
					break
				}
			}
			if k := running.Load(); k != 0 {
				t.Errorf("round %d: the loop is over and %d run", round, k)
			}
		})
		runtime.Gosched()
		switch end {
		case 0:
			p.Close()
		case 1:
			cancel()
		}
		<-done
		cancel()
		p.Shutdown(bg)
		y.checkNoneTwice(t, round)
		checkOver(t, p, round)
	}
}

// An error that f returns is its own, also if it is one that a closed pool gives.
func TestForEachKeepsTheErrorsOfAnotherPool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, closed := newPool(t, shoal.WithMaxWorkers(2)), newPool(t)
		must(t, closed.Close())
		f := func(context.Context, int) error { return closed.Submit(func() {}) }
		all := errors.Join(shoal.ErrClosed, shoal.ErrClosed, shoal.ErrClosed).Error()
		if err := shoal.ForEach(bg, p, upTo(3), f); err == nil || err.Error() != all {
			t.Errorf("ForEach = %q", err)
		}
		if err := shoal.ForEachSlice(bg, p, items(3), f); err == nil || err.Error() != all {
			t.Errorf("ForEachSlice = %q", err)
		}
		shutClean(t, p)
	})
}

// If the context ends, its error is there once, however many items return it.
func TestTheErrorOfTheContextIsThereOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(3))
		loops := map[string]func(context.Context, func(context.Context, int) error) error{
			"ForEach": func(ctx context.Context, f func(context.Context, int) error) error {
				return shoal.ForEach(ctx, p, upTo(10), f)
			},
			"ForEachSlice": func(ctx context.Context, f func(context.Context, int) error) error {
				return shoal.ForEachSlice(ctx, p, items(10), f)
			},
			"MapSlice": func(ctx context.Context, f func(context.Context, int) error) error {
				_, err := shoal.MapSlice(ctx, p, items(10), func(ctx context.Context, i int) (int, error) { return i, f(ctx, i) }, shoal.CollectErrors())
				return err
			},
		}
		for name, loop := range loops {
			ctx, cancel := context.WithTimeout(bg, time.Second)
			err := loop(ctx, func(ctx context.Context, i int) error {
				if i == 0 {
					return io.EOF
				}
				<-ctx.Done()
				return ctx.Err()
			})
			cancel()
			if want := "EOF\ncontext deadline exceeded"; err == nil || err.Error() != want {
				t.Errorf("%s = %q, want %q", name, err, want)
			}
		}
		shutClean(t, p)
	})
}

// A loop without items is done, whatever its context.
func TestLoopsWithoutItems(t *testing.T) {
	p := openPool(t, shoal.WithMaxWorkers(2))
	ended, cancel := context.WithCancel(bg)
	cancel()
	run := func(where string, ctx context.Context) {
		err := shoal.Range(ctx, p, 0, func(context.Context, int, int) error { t.Error("called"); return nil })
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	run("outside", ended)
	must(t, p.SubmitWait(bg, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		run("inside", ctx)
		return nil
	}))
	shutDown(t, p)
	if err := shoal.Range(bg, p, 0, func(context.Context, int, int) error { return nil }); err != shoal.ErrClosed {
		t.Errorf("on a closed pool: %v", err)
	}
}

// Once its context has ended, a Map does not wait until a worker comes to the items that have not
// begun: neither behind other tasks, nor in a paused pool.
func TestMapDoesNotWaitForItemsThatWillNotStart(t *testing.T) {
	for name, mapOf := range mappers {
		for _, paused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, paused %v", name, paused), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					p := newPool(t, fixed(1)...)
					must(t, p.Submit(func() { time.Sleep(time.Hour) }))
					if paused {
						p.Pause()
					}
					ctx, cancel := context.WithTimeout(bg, time.Second)
					defer cancel()
					begin, n := time.Now(), 0
					for _, err := range mapOf(ctx, p, upTo(20), double) {
						wantErr(t, "the loop", err, context.DeadlineExceeded)
						n++
					}
					if d := time.Since(begin); n != 20 || d != time.Second {
						t.Errorf("the loop yielded %d results and took %v, want 20 and 1s", n, d)
					}
					if s := p.Stats(); s.Canceled != 20 || s.InFlight != 1 {
						t.Errorf("%d tasks are canceled, %d in flight, want 20 and 1", s.Canceled, s.InFlight)
					}
					p.Resume()
					shutClean(t, p)
				})
			})
		}
	}
}

// Close drops the items that have not begun. To ForEach that is the end of the pool, once.
func TestForEachSaysOnceThatItsPoolWasClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		time.AfterFunc(time.Second, func() { p.Close() })
		err := shoal.ForEach(bg, p, upTo(20), func(context.Context, int) error { time.Sleep(time.Minute); return nil })
		if err == nil || err.Error() != shoal.ErrClosed.Error() || !errors.Is(err, shoal.ErrClosed) {
			t.Errorf("ForEach returned %v, want ErrClosed once", err)
		}
		if n := p.Stats().Dropped; n == 0 {
			t.Error("no item was dropped")
		}
	})
}

// Errors of f are its own also while the pool closes, whatever they are.
func TestForEachKeepsTheErrorsOfItemsWhileItsPoolCloses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(4)...)
		time.AfterFunc(time.Second, func() { p.Close() })
		err := shoal.ForEach(bg, p, upTo(4), func(ctx context.Context, i int) error {
			<-ctx.Done()
			return []error{errBoom, shoal.ErrDropped, ctx.Err(), ctx.Err()}[i]
		})
		if want := errors.Join(errBoom, shoal.ErrDropped, shoal.ErrClosed); err == nil || err.Error() != want.Error() {
			t.Errorf("ForEach returned %v, want %v", err, want)
		}
	})
}

// A result that is there is yielded before more than one further item is taken.
func TestMapYieldsWhatIsThere(t *testing.T) {
	for name, mapOf := range mappers {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newPool(t, fixed(1)...)
				yielded := 0
				in := func(yield func(int) bool) {
					for i := range 10 {
						synctest.Wait() // all items that were taken have their results
						if yielded < i-1 {
							t.Errorf("item %d is taken, and %d results are yielded", i, yielded)
						}
						if !yield(i) {
							return
						}
					}
				}
				for _, err := range mapOf(bg, p, in, double) {
					must(t, err)
					yielded++
				}
				shutClean(t, p)
			})
		})
	}
}

// In a task, Map runs the next item or none: another one may wait until the loop body has had the next.
func TestMapRunsInItsTaskOnlyTheNextItem(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		var had [10]chan struct{} // closed when the body has had the result
		for i := range had {
			had[i] = make(chan struct{})
		}
		must(t, p.SubmitWait(bg, func(ctx context.Context) error {
			for i, err := range shoal.Map(ctx, p, upTo(len(had)), func(_ context.Context, i int) (int, error) {
				if time.Sleep(time.Second); i > 0 {
					<-had[i-1]
				}
				return i, nil
			}) {
				must(t, err)
				close(had[i])
			}
			return nil
		}))
		shutClean(t, p)
	})
}

// A Map that is over holds no item, though the context of one is kept.
func TestMapHoldsNoItemThatIsOver(t *testing.T) {
	p := newPool(t, fixed(1)...)
	for name, mapOf := range map[string]func(context.Context, *shoal.Pool, iter.Seq[*[1 << 16]byte], func(context.Context, *[1 << 16]byte) (int, error)) iter.Seq2[int, error]{
		"Map": shoal.Map[*[1 << 16]byte, int], "MapUnordered": shoal.MapUnordered[*[1 << 16]byte, int],
	} {
		var refs []weak.Pointer[[1 << 16]byte]
		var kept context.Context
		release := hold(t, p, 1)
		in := func(yield func(*[1 << 16]byte) bool) {
			for range 20 {
				v := new([1 << 16]byte)
				if refs = append(refs, weak.Make(v)); !yield(v) {
					return
				}
			}
			release()
		}
		for _, err := range mapOf(bg, p, in, func(ctx context.Context, _ *[1 << 16]byte) (int, error) {
			if kept == nil {
				kept = ctx
			}
			return 0, nil
		}) {
			must(t, err)
		}
		if n := alive(1, refs...); n > 1 {
			t.Errorf("%s: %d of 20 items are in memory, want that of the context only", name, n)
		}
		runtime.KeepAlive(kept)
	}
	shutClean(t, p)
}
