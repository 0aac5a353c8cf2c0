package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// A task of the group goes to the limit itself, and runs its child beyond it. When the child has
// ended, the limit is still reached: a Go that waits there must go on waiting.
func TestReviewGroupLimitIsKeptWhenATaskGoesBeyondIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(16))
		g := p.Group(bg, shoal.Limit(1))
		gate := make(chan struct{})
		var others, most atomic.Int64
		g.Go(func(context.Context) error {
			<-gate
			for range 10 {
				g.Go(fine) // runs here, beyond the limit, and has ended then
			}
			time.Sleep(time.Second) // of the bubble: whoever can go on does
			t.Logf("while the one task runs that the limit allows, %d others run", others.Load())
			if n := others.Load(); n > 0 {
				t.Errorf("%d tasks run beyond the limit", n)
			}
			return nil
		})
		inside := make(chan struct{})
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				g.Go(func(context.Context) error {
					n := others.Add(1)
					most.Store(max(most.Load(), n))
					<-inside
					others.Add(-1)
					return nil
				})
			})
		}
		synctest.Wait()
		close(gate)
		time.Sleep(2 * time.Second)
		close(inside)
		must(t, g.Wait())
		calls.Wait() // a task may end before the call of Go that has submitted it
		if m := most.Load(); m > 1 {
			t.Errorf("%d at once that are not nested, the limit is 1", m)
		}
		shutClean(t, p)
	})
}

// While all workers are busy, one helper waits in the queue, of all the loops that are nested on the
// caller's goroutine: also if the loop is followed.
func TestReviewNestedLoopsThatAreFollowedCallOneHelper(t *testing.T) {
	for _, how := range []string{"not followed", "Tracer", "runtime/trace"} {
		opts := fixed(2)
		switch how {
		case "Tracer":
			opts = append(opts, shoal.WithTracer(refusingTracer{func(error) {}}))
		case "runtime/trace":
			if trace.IsEnabled() {
				t.Skip()
			}
			must(t, trace.Start(io.Discard))
		}
		p := openPool(t, opts...)
		gate := make(chan struct{})
		began := make(chan struct{})
		for range 2 {
			must(t, p.Submit(func() { began <- struct{}{}; <-gate }))
		}
		<-began
		<-began
		must(t, shoal.Range(bg, p, 100, func(ctx context.Context, lo, hi int) error {
			for range hi - lo {
				if err := shoal.Range(ctx, p, 10, func(context.Context, int, int) error { return nil }); err != nil {
					return err
				}
			}
			return nil
		}))
		s := p.Stats()
		close(gate)
		if how == "runtime/trace" {
			trace.Stop()
		}
		t.Logf("%s: %d submitted, %d canceled", how, s.Submitted, s.Canceled)
		if s.Canceled > 1 {
			t.Errorf("%s: %d helpers were called and withdrawn, want 1", how, s.Canceled)
		}
	}
}

// If the loop over a Map is left early, items that have not begun are given back at once, also if an
// item before them runs on: they must not keep others out of the queue meanwhile.
func TestReviewMapThatIsLeftGivesItsRoomBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(4))...)
		began, gate := make(chan struct{}), make(chan struct{})
		in := func(yield func(int) bool) {
			for i := range 100 {
				if i == 5 {
					<-began
				}
				if !yield(i) {
					return
				}
			}
		}
		left := inBackground(func() {
			for range shoal.Map(bg, p, in, func(_ context.Context, i int) (int, error) {
				if i == 1 {
					close(began)
					<-gate
				}
				return i, nil
			}) {
				break
			}
		})
		synctest.Wait()
		if n := p.Queued(); n > 0 {
			t.Errorf("the loop was left, and %d of its items wait in the queue", n)
		}
		for i := range 4 {
			if err := p.TrySubmit(func() {}); err != nil {
				t.Errorf("TrySubmit %d: %v", i, err)
			}
		}
		close(gate)
		<-left
		shutClean(t, p)
	})
}

// Each item that others displace has its error.
func TestReviewForEachReturnsTheErrorOfEachDisplacedItem(t *testing.T) {
	p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))...)
	release := hold(t, p, 1)
	err := shoal.ForEach(bg, p, func(yield func(int) bool) {
		for i := range 3 {
			yield(i)
			p.Submit(func() {}) // displaces the item
		}
		release()
	}, func(context.Context, int) error { return nil })
	if all, ok := err.(interface{ Unwrap() []error }); !ok || len(all.Unwrap()) != 3 {
		t.Errorf("%v, want ErrDropped three times", err)
	}
	shutClean(t, p)
}

// A loop whose pool is closed says so, also if f returns the error of its context first.
func TestReviewALoopSaysThatItsPoolWasClosed(t *testing.T) {
	ended := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, loop := range map[string]func(ctx context.Context, p *shoal.Pool) error{
		"Range": func(ctx context.Context, p *shoal.Pool) error {
			return shoal.Range(ctx, p, 10, func(ctx context.Context, lo, hi int) error { return ended(ctx) })
		},
		"MapSlice": func(ctx context.Context, p *shoal.Pool) error {
			_, err := shoal.MapSlice(ctx, p, make([]int, 10), func(ctx context.Context, _ int) (int, error) { return 0, ended(ctx) })
			return err
		},
		"ForEachSlice": func(ctx context.Context, p *shoal.Pool) error {
			err := shoal.ForEachSlice(ctx, p, make([]int, 10), func(ctx context.Context, _ int) error { return ended(ctx) })
			if all, ok := err.(interface{ Unwrap() []error }); ok && len(all.Unwrap()) == 1 {
				return all.Unwrap()[0]
			}
			return err
		},
	} {
		inBubble(t, func(t *testing.T) {
			for range 20 { // the contexts end one after the other
				p := newPool(t, fixed(4)...)
				err := make(chan error)
				go func() { err <- loop(bg, p) }()
				synctest.Wait()
				go p.Close()
				if e := <-err; e != shoal.ErrClosed {
					t.Errorf("%s of a pool that was closed: %v", name, e)
				}
				<-p.Done()
			}
			p := newPool(t, fixed(4)...)
			err := make(chan error, 1)
			must(t, p.SubmitContext(bg, func(ctx context.Context) { err <- loop(ctx, p) }))
			synctest.Wait()
			go p.Close()
			if e := <-err; e != shoal.ErrClosed {
				t.Errorf("%s in a task of a pool that was closed: %v", name, e)
			}
			<-p.Done()
		})
	}
}

// A panic that the caller of Map does not get, as it has left the loop, is logged; one that it gets is not.
// A panic handler gets each once.
func TestReviewAPanicAfterALoopWasLeftIsLogged(t *testing.T) {
	for _, handled := range []bool{false, true} {
		for name, loop := range map[string]func(context.Context, *shoal.Pool, iter.Seq[int], func(context.Context, int) (int, error)) iter.Seq2[int, error]{
			"Map": shoal.Map[int, int], "MapUnordered": shoal.MapUnordered[int, int],
		} {
			inBubble(t, func(t *testing.T) {
				var log bytes.Buffer
				var n atomic.Int64
				opts := fixed(3, shoal.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				if handled {
					opts = append(opts, shoal.WithPanicHandler(func(*shoal.PanicError) { n.Add(1) }))
				}
				p := newPool(t, opts...)
				yielded := 0
				for _, err := range loop(bg, p, slices.Values([]int{0, 1, 2, 3}), func(ctx context.Context, i int) (int, error) {
					time.Sleep(time.Millisecond) // until all items are submitted: one that is ready before is yielded, and may end the loop
					switch i {
					case 1:
						time.Sleep(time.Second)
					case 3: // when the loop is being left
						<-ctx.Done()
					}
					panic(fmt.Sprint("item ", i, "."))
				}) {
					if yielded++; yielded == 1 {
						time.Sleep(time.Minute) // the others have panicked, except the last
						continue
					}
					if err == nil {
						t.Error("no error")
					}
					break
				}
				p.Wait()
				got := strings.Count(log.String(), "panicked: item")
				if handled && (got != 0 || n.Load() != 4) || !handled && got != 2 {
					t.Errorf("%s: %d panics handled, log:\n%s", name, n.Load(), log.String())
				}
				shutClean(t, p)
			})
		}
	}
}

// An item that returns the end of its context has that error, also if the pool is closed later.
func TestReviewForEachTellsWhoEndedTheContext(t *testing.T) {
	for _, closed := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1)...)
			ctx, cancel := context.WithCancel(bg)
			if closed {
				time.AfterFunc(time.Second, func() { p.Close() })
			} else {
				time.AfterFunc(time.Second, cancel)
				time.AfterFunc(2*time.Second, func() { p.Close() })
			}
			err := shoal.ForEach(ctx, p, slices.Values([]int{1}), func(ctx context.Context, _ int) error {
				<-ctx.Done()
				time.Sleep(3 * time.Second)
				return ctx.Err()
			})
			want := map[bool]error{false: context.Canceled, true: shoal.ErrClosed}[closed]
			if !errors.Is(err, want) || err.Error() != want.Error() {
				t.Errorf("closed first: %v: the error is %v, want %v", closed, err, want)
			}
			cancel()
			<-p.Done()
		})
	}
}

// Close ends the contexts of the items, and the context of the caller ends before they return.
func TestForEachOfAClosedPoolWhoseContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(3)))
		ctx, cancel := context.WithDeadline(bg, time.Now().Add(100*time.Millisecond))
		defer cancel()
		var begun sync.WaitGroup
		begun.Add(3)
		go func() {
			begun.Wait()
			p.Close()
		}()
		err := shoal.ForEach(ctx, p, slices.Values([]int{1, 2, 3}), func(its context.Context, _ int) error {
			begun.Done()
			<-its.Done()
			<-ctx.Done()
			return its.Err()
		})
		if all := err.(interface{ Unwrap() []error }).Unwrap(); len(all) > 2 || errors.Is(err, context.Canceled) {
			t.Errorf("ForEach = %v", all)
		}
	})
}

type errorList []string

func (l errorList) Error() string { return fmt.Sprint([]string(l)) }

// A listContext ends with an error that cannot be compared.
type listContext struct{ context.Context }

func (c listContext) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return errorList{"ended"}
}

func TestContextsWhoseErrorsCannotBeCompared(t *testing.T) {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer p.Close()
	try := func(name string, f func(ctx context.Context, end func()) error) {
		base, cancel := context.WithCancel(bg)
		defer cancel()
		var list errorList
		if err := f(listContext{base}, cancel); !errors.As(err, &list) {
			t.Errorf("%s: %v", name, err)
		}
	}
	try("Group", func(ctx context.Context, end func()) error {
		g := p.Group(ctx)
		g.Go(func(ctx context.Context) error {
			end()
			return ctx.Err()
		})
		return g.Wait()
	})
	try("Range", func(ctx context.Context, end func()) error {
		return shoal.Range(ctx, p, 10, func(context.Context, int, int) error {
			end()
			return ctx.Err()
		})
	})
	endless := func(yield func(int) bool) {
		for yield(0) {
		}
	}
	try("ForEach", func(ctx context.Context, end func()) error {
		return shoal.ForEach(ctx, p, endless, func(context.Context, int) error {
			end()
			return ctx.Err()
		})
	})
}

// In a pause no task is inside a worker from the moment on at which Running is 0, until Resume: of the pool, of
// its sub-pools, of a key.
func TestInAPauseNothingRunsOnceRunningIsZero(t *testing.T) {
	for _, with := range []string{"pool", "sub-pools", "keys", "paused sub-pool"} {
		p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(100))
		paused := p
		submit := func(_ int, f func()) error { return p.Submit(f) }
		switch with {
		case "sub-pools":
			a := shoal.Must(p.Sub(shoal.WithMaxWorkers(2), shoal.WithFullPolicy(shoal.DropOldest), shoal.WithQueueCapacity(50)))
			b := shoal.Must(shoal.Must(p.Sub()).Sub(shoal.WithQueueCapacity(50)))
			submit = func(i int, f func()) error { return []*shoal.Pool{p, a, b}[i%3].Submit(f) }
		case "keys":
			k := shoal.NewKeyed[int](p)
			submit = func(i int, f func()) error { return k.Submit(i%5, f) }
		case "paused sub-pool":
			paused = shoal.Must(p.Sub(shoal.WithQueueCapacity(100)))
			submit = func(_ int, f func()) error { return paused.Submit(f) }
		}
		var began, inside atomic.Int64
		var submitters sync.WaitGroup
		over := make(chan struct{})
		for range 2 {
			submitters.Go(func() {
				for i := 0; !isClosed(over); i++ {
					submit(i, func() {
						began.Add(1)
						inside.Add(1)
						if i%8 == 0 {
							runtime.Gosched()
						}
						inside.Add(-1)
					})
				}
			})
		}
		for began.Load() == 0 { // until tasks run
			runtime.Gosched()
		}
		for range rounds(300) {
			paused.Pause()
			for paused.Stats().Running > 0 {
				runtime.Gosched()
			}
			n := began.Load()
			for range 20 {
				runtime.Gosched()
				if in, now := inside.Load(), began.Load(); in > 0 || now != n {
					t.Fatalf("%s: Running was 0 in a pause, then %d tasks ran, and %d had begun", with, in, now-n)
				}
			}
			paused.Resume()
			runtime.Gosched()
		}
		close(over)
		submitters.Wait()
		shutClean(t, p)
	}
}
