package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// A resource knows whose it is, and whether it is in use or closed.
type resource struct {
	worker int
	open   atomic.Bool
	busy   atomic.Bool
	uses   int
}

type resources struct {
	opened, closed atomic.Int32
	fail           atomic.Bool
}

func (r *resources) open(worker int) (*resource, error) {
	if r.fail.Load() {
		return nil, errBoom
	}
	r.opened.Add(1)
	s := &resource{worker: worker}
	s.open.Store(true)
	return s, nil
}

func (r *resources) close(s *resource) {
	if !s.open.CompareAndSwap(true, false) {
		panic("closed twice")
	}
	r.closed.Add(1)
}

func TestLocalIsOnePerWorkerAndClosedWithIt(t *testing.T) {
	const workers = 4
	p := newPool(t, fixed(workers)...)
	var r resources
	l := shoal.NewLocal(p, r.open, r.close)
	g := p.Group(bg)
	for range rounds(20_000) {
		g.Go(func(ctx context.Context) error {
			s, err := l.Get(ctx)
			if err != nil {
				return err
			}
			if !s.open.Load() || !s.busy.CompareAndSwap(false, true) {
				t.Error("a resource is closed, or two tasks have it")
			}
			again, _ := l.Get(ctx)
			if again != s || s.worker < 0 || s.worker >= workers {
				t.Error("the next time it is another one")
			}
			s.uses++
			s.busy.Store(false)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := r.opened.Load(); n < 1 || n > workers || r.closed.Load() != 0 {
		t.Errorf("%d opened, %d closed", n, r.closed.Load())
	}
	shutClean(t, p)
	if r.closed.Load() != r.opened.Load() {
		t.Errorf("%d opened, %d closed", r.opened.Load(), r.closed.Load())
	}
}

func TestLocalIsClosedOnEveryWayOut(t *testing.T) {
	noLog(t)
	get := func(l *shoal.Local[*resource], then func()) func(context.Context) error {
		return func(ctx context.Context) error { _, err := l.Get(ctx); then(); return err }
	}
	for name, c := range map[string]struct {
		opts []shoal.Option
		then func()
	}{
		"idle":         {[]shoal.Option{shoal.WithIdleTimeout(time.Second)}, func() {}},
		"at once":      {[]shoal.Option{shoal.WithIdleTimeout(0)}, func() {}},
		"life is over": {[]shoal.Option{shoal.WithMaxTasksPerWorker(1), shoal.WithIdleTimeout(shoal.Forever)}, func() {}},
		"Goexit":       {[]shoal.Option{shoal.WithIdleTimeout(shoal.Forever)}, runtime.Goexit},
	} {
		inBubble(t, func(t *testing.T) {
			var r resources
			var stopped atomic.Int32
			p := newPool(t, append(c.opts, shoal.WithMaxWorkers(2), shoal.WithWorkerHooks(nil, func(int) {
				if stopped.Add(1); r.closed.Load() < stopped.Load() {
					t.Errorf("%s: the stop hook runs before the resource is closed", name)
				}
			}))...)
			l := shoal.NewLocal(p, r.open, r.close)
			for i := range int32(5) {
				err := p.SubmitWait(bg, get(l, c.then))
				if err != nil && err != shoal.ErrGoexit {
					t.Error(err)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if r.opened.Load() != i+1 || r.closed.Load() != i+1 {
					t.Errorf("%s: %d opened, %d closed, want %d", name, r.opened.Load(), r.closed.Load(), i+1)
				}
			}
			closeAll(t, p)
		})
	}
}

func TestLocalClosesAllLatestFirst(t *testing.T) {
	noLog(t)
	inBubble(t, func(t *testing.T) {
		var order []string
		p := newPool(t, fixed(1)...)
		local := func(name string, then func()) *shoal.Local[string] {
			return shoal.NewLocal(p, func(int) (string, error) { return name, nil },
				func(s string) { order = append(order, s); then() })
		}
		a, b, c := local("a", func() {}), local("b", func() { panic("closing") }), local("c", runtime.Goexit)
		d := shoal.NewLocal(p, func(int) (error, error) { return nil, nil }, nil) // a nil interface is a resource too
		if err := p.SubmitWait(bg, func(ctx context.Context) error {
			for _, l := range []*shoal.Local[string]{a, b, c} {
				if _, err := l.Get(ctx); err != nil {
					return err
				}
			}
			_, err := d.Get(ctx)
			return err
		}); err != nil {
			t.Error(err)
		}
		closeAll(t, p)
		if len(order) != 3 || order[0] != "c" || order[1] != "b" || order[2] != "a" {
			t.Errorf("closed in the order %v", order)
		}
	})
}

func TestLocalThatCannotBeOpened(t *testing.T) {
	noLog(t)
	inBubble(t, func(t *testing.T) {
		var r resources
		p := newPool(t, fixed(1)...)
		l := shoal.NewLocal(p, r.open, r.close)
		get := func(ctx context.Context) error { _, err := l.Get(ctx); return err }
		r.fail.Store(true)
		wantErr(t, "Get", p.SubmitWait(bg, get), errBoom)
		r.fail.Store(false)
		wantErr(t, "Get, the next time", p.SubmitWait(bg, get), nil)
		bad := shoal.NewLocal(p, func(int) (int, error) { panic(errBoom) }, func(int) { t.Error("closed, never opened") })
		wantErr(t, "open panics", p.SubmitWait(bg, func(ctx context.Context) error { _, err := bad.Get(ctx); return err }), errBoom)
		wantErr(t, "nil open", p.SubmitWait(bg, func(ctx context.Context) error {
			_, err := shoal.NewLocal[int](p, nil, nil).Get(ctx)
			return err
		}), shoal.ErrNilTask)
		shutClean(t, p)
		if r.opened.Load() != 1 || r.closed.Load() != 1 {
			t.Errorf("%d opened, %d closed", r.opened.Load(), r.closed.Load())
		}
	})
}

func TestLocalOfAForeignContext(t *testing.T) {
	p, other := newPool(t, fixed(1)...), newPool(t, fixed(1)...)
	var r resources
	l := shoal.NewLocal(p, r.open, r.close)
	get := func(ctx context.Context) error { _, err := l.Get(ctx); return err }
	var none context.Context
	wantErr(t, "no task", get(bg), shoal.ErrNotInTask)
	wantErr(t, "nil", get(none), shoal.ErrNotInTask)
	wantErr(t, "another pool", other.SubmitWait(bg, get), shoal.ErrNotInTask)
	var kept context.Context
	must(t, p.SubmitWait(bg, func(ctx context.Context) error { kept = ctx; return nil }))
	p.Wait()
	wantErr(t, "a task that has ended", get(kept), shoal.ErrNotInTask)
	if _, err := shoal.NewLocal(nil, r.open, r.close).Get(bg); err == nil {
		t.Error("nil pool: no error")
	}
	must(t, other.Shutdown(bg))
	shutClean(t, p)
}

func TestLocalOfATaskOutsideOfTheWorkers(t *testing.T) {
	for _, policy := range []shoal.FullPolicy{shoal.Spawn, shoal.CallerRuns} {
		p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))...)
		release := hold(t, p, 1)
		var r resources
		l := shoal.NewLocal(p, r.open, r.close)
		must(t, p.SubmitWait(bg, func(ctx context.Context) error {
			s, err := l.Get(ctx)
			if err == nil && s.worker != -1 {
				err = errors.New("it has a worker's")
			}
			return err
		}))
		if r.opened.Load() != 1 || r.closed.Load() != 1 {
			t.Errorf("%v: %d opened, %d closed", policy, r.opened.Load(), r.closed.Load())
		}
		release()
		shutClean(t, p)
	}
}

func TestLocalOfATaskThatTheWaiterRunsIsAnother(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		var r resources
		l := shoal.NewLocal(p, r.open, r.close)
		must(t, p.SubmitWait(bg, func(ctx context.Context) error {
			mine, err := l.Get(ctx)
			if err != nil {
				return err
			}
			theirs, err := shoal.Go(ctx, p, l.Get).Wait(ctx)
			if theirs == mine || theirs.worker != -1 || theirs.open.Load() || !mine.open.Load() {
				t.Error("the task inside of this one has the same resource, or it is not closed")
			}
			return err
		}))
		shutClean(t, p)
		if r.opened.Load() != 2 || r.closed.Load() != 2 {
			t.Errorf("%d opened, %d closed", r.opened.Load(), r.closed.Load())
		}
	})
}

func TestLocalFromGoroutinesOfATask(t *testing.T) {
	p := newPool(t, fixed(1)...)
	var r resources
	l := shoal.NewLocal(p, r.open, r.close)
	must(t, p.SubmitWait(bg, func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := l.Get(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return nil
	}))
	shutClean(t, p)
	if r.opened.Load() != 1 || r.closed.Load() != 1 {
		t.Errorf("%d opened, %d closed", r.opened.Load(), r.closed.Load())
	}
}

// S8: what an open has got from another Local it may use until its own is closed.
func TestS8_LocalOpenedInsideAnOpenIsClosedAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		var order []string
		var ctx context.Context
		note := func(what string) func(string) { return func(string) { order = append(order, what) } }
		inner := shoal.NewLocal(p, func(int) (string, error) { return "connection", nil }, note("inner"))
		outer := shoal.NewLocal(p, func(int) (string, error) {
			c, err := inner.Get(ctx)
			return "statement of " + c, err
		}, note("outer"))
		first := shoal.NewLocal(p, func(int) (string, error) { return "", nil }, note("first"))
		must(t, p.SubmitWait(bg, func(own context.Context) error {
			ctx = own
			if _, err := first.Get(ctx); err != nil {
				return err
			}
			s, err := outer.Get(ctx)
			if s != "statement of connection" {
				t.Errorf("%q", s)
			}
			return err
		}))
		shutClean(t, p)
		if got := fmt.Sprint(order); got != "[outer inner first]" {
			t.Errorf("closed in the order %v, want outer, inner, first", got)
		}
	})
}

// S8: if open gets its own resource, also by way of another Local, Get returns ErrWouldDeadlock.
func TestS8_LocalOpenThatGetsItself(t *testing.T) {
	for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Spawn} { // on a worker, and elsewhere
		inBubble(t, func(t *testing.T) {
			p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(policy))...)
			release := func() {}
			var ctx context.Context
			var a, b *shoal.Local[int]
			again := false
			a = shoal.NewLocal(p, func(int) (int, error) {
				if again {
					return 4, nil
				}
				return b.Get(ctx)
			}, func(int) {})
			b = shoal.NewLocal(p, func(int) (int, error) { return a.Get(ctx) }, func(int) { t.Error("it was never opened") })
			if policy == shoal.Spawn {
				release = hold(t, p, 1)
			}
			must(t, p.SubmitWait(bg, func(own context.Context) error {
				ctx = own
				_, err := a.Get(ctx)
				wantErr(t, "Get", err, shoal.ErrWouldDeadlock)
				again = true
				v, err := a.Get(ctx)
				if v != 4 {
					t.Errorf("the next time: %v", v)
				}
				return err
			}))
			release()
			shutClean(t, p)
		})
	}
}

// Another goroutine that gets the resource while it is being opened waits for it.
func TestLocalIsOpenedOnceForTheGoroutinesOfATask(t *testing.T) {
	p := newPool(t, fixed(1)...)
	opened := 0
	asking := make(chan struct{}, 3)
	l := shoal.NewLocal(p, func(int) (int, error) {
		opened++
		for range 3 {
			<-asking
		}
		runtime.Gosched() // most likely they wait by now
		return 4, nil
	}, nil)
	must(t, p.SubmitWait(bg, func(ctx context.Context) error {
		var wg sync.WaitGroup
		get := func() {
			if v, err := l.Get(ctx); v != 4 || err != nil {
				t.Errorf("%v, %v", v, err)
			}
		}
		for range 3 {
			wg.Go(func() { asking <- struct{}{}; get() })
		}
		get()
		wg.Wait()
		return nil
	}))
	if opened != 1 {
		t.Errorf("opened %d times", opened)
	}
	shutClean(t, p)
}

// S8: that it is open itself that gets the resource is known wherever it runs, and that
// it is not too, also of other tasks of the pool.
func TestS8_LocalOpenIsKnownWhereverItRuns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(2)...)
		var ctx context.Context
		var l *shoal.Local[int]
		l = shoal.NewLocal(p, func(int) (int, error) { return l.Get(ctx) }, nil)
		must(t, p.SubmitWait(bg, func(own context.Context) error {
			ctx = own
			got := make(chan error)
			go func() { _, err := l.Get(ctx); got <- err }()
			wantErr(t, "Get on a goroutine of the task", <-got, shoal.ErrWouldDeadlock)
			return nil
		}))

		for range 20 { // Locals
			opening, release := make(chan struct{}), make(chan struct{})
			slow := shoal.NewLocal(p, func(int) (int, error) { close(opening); <-release; return 4, nil }, nil)
			must(t, p.SubmitWait(bg, func(ctx context.Context) error {
				got := make(chan error, 1)
				must(t, p.Submit(func() {
					<-opening
					go close(release) // most likely this task waits by then
					_, err := slow.Get(ctx)
					got <- err
				}))
				_, err := slow.Get(ctx)
				must(t, err)
				return <-got
			}))
		}
		shutClean(t, p)
	})
}

// S8: what was opened for a Local that is not referenced any more is closed with its worker.
func TestS8_LocalThatIsAbandonedIsClosedWithItsWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1)...)
		closed := 0
		for range 3 {
			l := shoal.NewLocal(p, func(int) (int, error) { return 0, nil }, func(int) { closed++ })
			must(t, p.SubmitWait(bg, func(ctx context.Context) error { _, err := l.Get(ctx); return err }))
		}
		runtime.GC()
		if closed != 0 {
			t.Errorf("%d closed while the worker lives", closed)
		}
		shutClean(t, p)
		if closed != 3 {
			t.Errorf("%d of 3 closed", closed)
		}
	})
}

// A resource that was opened when its worker had left is closed at once.
func TestLocalOpenedTooLateIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithMaxTasksPerWorker(1))...)
		var closed atomic.Int32
		l := shoal.NewLocal(p, func(int) (int, error) { time.Sleep(time.Second); return 0, nil }, func(int) { closed.Add(1) })
		late := make(chan error, 1)
		must(t, p.SubmitWait(bg, func(ctx context.Context) error {
			go func() { _, err := l.Get(ctx); late <- err }()
			time.Sleep(time.Millisecond)
			return nil
		}))
		wantErr(t, "Get", <-late, shoal.ErrNotInTask)
		if closed.Load() != 1 {
			t.Errorf("closed %d times", closed.Load())
		}
		shutClean(t, p)
	})
}

// An endTracer calls its function when a task has ended, before that is counted.
type endTracer struct{ end func(ctx context.Context) }

func (e endTracer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	return ctx
}
func (e endTracer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	return ctx, func(error) { e.end(ctx) }
}
func (e endTracer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {}

// The resources of a task that runs on no worker are closed before its Tracer hears of its end. A task that has
// had none until then gets none there: nobody would close it.
func TestLocalOpenedByATracerAfterATaskWithoutAny(t *testing.T) {
	var l *shoal.Local[int]
	var opened, closed, gets int
	p := newPool(t, fixed(1, shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.CallerRuns), shoal.WithTracer(endTracer{func(ctx context.Context) {
		gets++
		if _, err := l.Get(ctx); !errors.Is(err, shoal.ErrNotInTask) {
			t.Errorf("Get: %v", err)
		}
	}}))...)
	l = shoal.NewLocal(p, func(int) (int, error) { opened++; return 0, nil }, func(int) { closed++ })
	release := occupyEach(t, p, 1)
	must(t, p.Submit(func() {}))
	must(t, p.SubmitContext(bg, func(context.Context) {})) // the caller runs it
	release()
	shutClean(t, p)
	if gets != 1 || opened != closed {
		t.Errorf("%d calls, %d opened, %d closed", gets, opened, closed)
	}
}

func TestLocalOfThePoolThatIsNone(t *testing.T) {
	for _, p := range []*shoal.Pool{nil, {}} {
		l := shoal.NewLocal(p, func(int) (int, error) { return 0, nil }, nil)
		if _, err := l.Get(bg); err == nil {
			t.Error("no error")
		}
	}
}

// A task that began inline before there was any Local has nowhere to keep a resource.
func TestLocalMadeInATaskThatRunsInline(t *testing.T) {
	p := newPool(t, fixed(1, shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.CallerRuns))...)
	release := hold(t, p, 1)
	ran := false
	must(t, p.SubmitContext(bg, func(ctx context.Context) {
		l := shoal.NewLocal(p, func(int) (int, error) { return 1, nil }, nil)
		_, err := l.Get(ctx)
		wantErr(t, "Get", err, shoal.ErrNotInTask)
		ran = true
	}))
	if !ran {
		t.Error("the task was not run by its caller")
	}
	release()
	shutClean(t, p)
}

// A Local without a close function closes nothing, and says nothing.
func TestLocalWithoutClose(t *testing.T) {
	p := newPool(t, fixed(1, shoal.WithPanicHandler(func(e *shoal.PanicError) { t.Error(e) }))...)
	l := shoal.NewLocal(p, func(int) (int, error) { return 1, nil }, nil)
	must(t, p.SubmitWait(bg, func(ctx context.Context) error {
		_, err := l.Get(ctx)
		return err
	}))
	shutClean(t, p)
}

// TestReviewLocalOfASubPoolInsideATaskOfTheParent: that is no task of the sub-pool, although it runs inside of one.
func TestReviewLocalOfASubPoolInsideATaskOfTheParent(t *testing.T) {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	defer p.Close()
	s := shoal.Must(p.Sub())
	l := shoal.NewLocal(s, func(int) (*int, error) { return new(int), nil }, nil)
	if err := s.SubmitWait(bg, func(ctx context.Context) error {
		mine, err := l.Get(ctx)
		if err != nil {
			return err
		}
		return p.SubmitWait(ctx, func(ctx context.Context) error {
			theirs, err := l.Get(ctx)
			if err == nil && theirs == mine {
				t.Error("a task of the parent, which runs inside of the task that waits for it, has the resource of that one")
			}
			if errors.Is(err, shoal.ErrNotInTask) {
				return nil
			}
			return err
		})
	}); err != nil {
		t.Error(err)
	}
}

// TestReviewLocalOfASubPoolInALoopOnTheParent: the participants, which run side by side, do not share one worker's resource.
func TestReviewLocalOfASubPoolInALoopOnTheParent(t *testing.T) {
	p := shoal.Must(shoal.New(shoal.WithMinWorkers(2), shoal.WithMaxWorkers(2)))
	defer p.Close()
	s := shoal.Must(p.Sub())
	l := shoal.NewLocal(s, func(int) (*int, error) { return new(int), nil }, nil)
	var mu sync.Mutex
	users := map[*int]int{}
	var both sync.WaitGroup
	both.Add(2)
	met := make(chan struct{})
	go func() { both.Wait(); close(met) }()
	if err := s.SubmitWait(bg, func(ctx context.Context) error {
		return shoal.Range(ctx, p, 2, func(ctx context.Context, _, _ int) error {
			r, err := l.Get(ctx)
			if err == nil {
				mu.Lock()
				users[r]++
				mu.Unlock()
			}
			both.Done()
			select { // both are inside f at once
			case <-met:
			case <-time.After(time.Minute):
				t.Error("no second participant")
			}
			return nil
		})
	}); err != nil {
		t.Error(err)
	}
	for _, n := range users {
		if n > 1 {
			t.Errorf("%d tasks on different workers have the same resource at the same time", n)
		}
	}
}
