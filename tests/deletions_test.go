package tests

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// This file is tests of promises that no other test would have missed: without one of them, a
// statement of the root package or of the kernel could be taken out.

// A context that counts what is registered with it: see context.AfterFunc.
type countingContext struct {
	context.Context
	mu         sync.Mutex
	registered int
}

func (c *countingContext) AfterFunc(f func()) func() bool {
	stop := context.AfterFunc(c.Context, f)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered++
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.registered--
		return stop()
	}
}

// Value keeps package context from registering with the context inside.
func (c *countingContext) Value(any) any { return nil }

func (c *countingContext) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered
}

// A Wait leaves nothing registered with the context of what it waits for.
func TestAWaitLeavesNothingInTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(bg)
		defer cancel()
		own := &countingContext{Context: parent}
		p := openPool(t, fixed(1)...)
		defer hold(t, p, 1)()
		f := shoal.Go(own, p, func(context.Context) (int, error) { return 1, nil })
		ctx, giveUp := context.WithCancel(bg)
		waited := make(chan error)
		go func() {
			_, err := f.Wait(ctx)
			waited <- err
		}()
		synctest.Wait()
		if own.left() == 0 {
			t.Error("it does not wait for the end of the context")
		}
		giveUp()
		if err := <-waited; err != context.Canceled {
			t.Error(err)
		}
		if n := own.left(); n != 0 {
			t.Errorf("%d functions wait for the end of the context", n)
		}
	})
}

func TestTheZeroFuture(t *testing.T) {
	var f shoal.Future[int]
	ctx, cancel := context.WithTimeout(bg, time.Millisecond)
	defer cancel()
	for range 2 { // the second with a context that has ended
		if _, err := f.Wait(ctx); err != context.DeadlineExceeded {
			t.Error(err)
		}
	}
	select {
	case <-f.Done():
		t.Error("it has a result")
	default:
	}
	if f.Cancel() {
		t.Error("it was canceled")
	}
}

func TestMustPanics(t *testing.T) {
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, shoal.ErrConfig) {
			t.Error(err)
		}
	}()
	shoal.Must(shoal.New(shoal.WithMaxWorkers(-1)))
}

// If the context of WaitContext ends first, and the errors of the group are collected, it returns
// the error of the context alone: not all of the others are there.
func TestWaitContextOfCollectedErrors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, fixed(2)...)
		g := p.Group(bg, shoal.CollectErrors())
		gate := make(chan struct{})
		mine := errors.New("mine")
		g.Go(func(context.Context) error { return mine })
		g.Go(func(context.Context) error { <-gate; return nil })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, time.Millisecond)
		defer cancel()
		if err := g.WaitContext(ctx); err != context.DeadlineExceeded {
			t.Error(err)
		}
		close(gate)
		if err := g.Wait(); !errors.Is(err, mine) {
			t.Error(err)
		}
	})
}

// Of tasks that are canceled, on tickets that are timed, no time counts, and none for the task after them.
func TestCanceledTasksAreNotTimed(t *testing.T) {
	for name, submit := range map[string]func(p *shoal.Pool, ctx context.Context) (cancel func()){
		"by Cancel": func(p *shoal.Pool, _ context.Context) func() {
			f := shoal.Go(bg, p, func(context.Context) (int, error) { return 0, nil })
			return func() { f.Cancel() }
		},
		"by a context": func(p *shoal.Pool, ctx context.Context) func() {
			p.SubmitContext(ctx, func(context.Context) {})
			return func() {}
		},
	} {
		p := openPool(t, fixed(1)...)
		release := hold(t, p, 1)
		ctx, cancel := context.WithCancel(bg)
		cancels := []func(){cancel}
		for range 63 { // one in 64 is timed: that which holds the worker, and the first that is canceled
			must(t, p.Submit(func() {}))
		}
		for range 2*64 + 1 {
			cancels = append(cancels, submit(p, ctx))
		}
		for _, cancel := range cancels {
			cancel()
		}
		must(t, p.Submit(func() {}))
		release()
		p.Wait()
		if s := p.Stats(); s.RunTime.Count != 1 || s.Canceled != 2*64+1 {
			t.Errorf("%s: %d tasks timed, %d canceled", name, s.RunTime.Count, s.Canceled)
		}
	}
}

// The context of a group's task that has ended shows no task, though it was kept.
func TestAKeptContextOfAGroup(t *testing.T) {
	p := openPool(t, fixed(2)...)
	g := p.Group(bg)
	var kept atomic.Value
	g.Go(func(ctx context.Context) error { kept.Store(ctx); return nil })
	must(t, g.Wait())
	ctx := context.WithoutCancel(kept.Load().(context.Context))
	if err := p.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// Close ends the context of a group, of whose tasks one runs.
func TestCloseEndsTheContextOfAGroup(t *testing.T) {
	p := openPool(t, fixed(1)...)
	g := p.Group(bg)
	began := make(chan struct{})
	g.Go(func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	<-began
	must(t, p.Close())
	if err := g.Wait(); !errors.Is(err, shoal.ErrClosed) {
		t.Error(err)
	}
}

// The context that a loop gives to its function ends with the loop.
func TestTheContextOfALoopEndsWithIt(t *testing.T) {
	p := openPool(t, fixed(2)...)
	var kept atomic.Value
	loop := func(ctx context.Context) error {
		err := shoal.Range(ctx, p, 1, func(ctx context.Context, _, _ int) error {
			kept.Store(anyContext{ctx})
			return nil
		})
		if err := kept.Load().(anyContext).Err(); err != context.Canceled {
			t.Error(err)
		}
		return err
	}
	must(t, loop(bg))
	must(t, p.SubmitWait(bg, loop))
}

// An anyContext is any context, as one type.
type anyContext struct{ context.Context }

// A loop that Close has ended in its last item says so.
func TestALoopThatCloseHasEndedInItsLastItem(t *testing.T) {
	p := openPool(t, fixed(1)...)
	err := shoal.Range(bg, p, 1, func(ctx context.Context, _, _ int) error {
		go p.Close()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, shoal.ErrClosed) {
		t.Error(err)
	}
}

// A slow task of a sub-pool is not one of the pool above it.
func TestASlowTaskIsThatOfItsPool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		alarms := make(chan shoal.Alarm, 10)
		p := openPool(t, fixed(2, shoal.WithSlowTask(20*time.Millisecond), shoal.WithAlarmHandler(func(a shoal.Alarm) { alarms <- a }))...)
		own := make(chan shoal.Alarm, 10)
		sub := newSub(t, p, shoal.WithSlowTask(20*time.Millisecond), shoal.WithAlarmHandler(func(a shoal.Alarm) { own <- a }))
		defer hold(t, sub, 1)()
		<-own
		time.Sleep(50 * time.Millisecond)
		if len(alarms) > 0 {
			t.Error("the pool above tells it too")
		}
		defer hold(t, p, 1)()
		if a := <-alarms; a.Count != 1 || p.Stats().SlowTasks != 1 || sub.Stats().SlowTasks != 1 {
			t.Errorf("%d tasks in the alarm, %d counted, %d of the sub-pool", a.Count, p.Stats().SlowTasks, sub.Stats().SlowTasks)
		}
	})
}

// The context of a task ends with the task, also if that is traced.
func TestTheContextOfATracedTaskEndsWithIt(t *testing.T) {
	p := openPool(t, fixed(1, shoal.WithTracer(refusingTracer{func(error) {}}))...)
	var kept atomic.Value
	must(t, p.SubmitContext(bg, func(ctx context.Context) { kept.Store(anyContext{ctx}) }))
	p.Wait()
	if err := kept.Load().(anyContext).Err(); err == nil {
		t.Error("it has not ended")
	}
}

// What a context's Err returns stays the same after it has ended, though the parent ends for
// another reason.
func TestTheErrorOfAContextStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, fixed(1)...)
		parent, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		var kept atomic.Value
		began, gate := make(chan struct{}), make(chan struct{})
		must(t, p.SubmitContext(parent, func(ctx context.Context) {
			kept.Store(anyContext{ctx})
			close(began)
			<-gate
		}))
		<-began
		closed := make(chan error)
		go func() { closed <- p.Close() }()
		synctest.Wait()
		ctx := kept.Load().(anyContext)
		was := ctx.Err()
		<-parent.Done()
		close(gate)
		must(t, <-closed)
		if err := ctx.Err(); err != was || err == nil {
			t.Errorf("%v, and then %v", was, err)
		}
	})
}

// A submitter that waits for a place in the queue gets that of a task which is withdrawn.
func TestAWithdrawnTaskLeavesItsPlaceToABlockedSubmitter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		defer hold(t, p, 1)()
		ctx, cancel := context.WithCancel(bg)
		f := shoal.Go(ctx, p, func(context.Context) (int, error) { return 1, nil })
		submitted := make(chan error)
		go func() { submitted <- p.Submit(func() {}) }()
		synctest.Wait()
		cancel()
		if _, err := f.Wait(bg); err != context.Canceled {
			t.Error(err)
		}
		must(t, <-submitted)
	})
}

// It gets that of a task which its waiter runs, too, while that runs.
func TestAClaimedTaskLeavesItsPlaceToABlockedSubmitter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, fixed(1, shoal.WithQueueCapacity(1))...)
		submitted := make(chan error)
		must(t, p.SubmitWait(bg, func(ctx context.Context) error {
			f := shoal.Go(ctx, p, func(context.Context) (int, error) { return 1, <-submitted })
			go func() { submitted <- p.Submit(func() {}) }()
			synctest.Wait()
			_, err := f.Wait(ctx)
			return err
		}))
	})
}
