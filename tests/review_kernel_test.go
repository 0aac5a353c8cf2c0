package tests

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
)

// slowRefused is a Tracer whose Refused takes a while.
type slowRefused struct{ in, out chan bool }

func (slowRefused) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	return ctx
}
func (slowRefused) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	return ctx, nil
}
func (s slowRefused) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	s.in <- true
	<-s.out
}

// TestWaitBesideDropOldestAndAKey: when Wait returns, all tasks that were accepted before the call have
// ended; also one that waits behind a task of its key which DropOldest displaces.
func TestWaitBesideDropOldestAndAKey(t *testing.T) {
	tr := slowRefused{make(chan bool, 9), make(chan bool)}
	p, err := shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(2), shoal.WithFullPolicy(shoal.DropOldest), shoal.WithTracer(tr))
	if err != nil {
		t.Fatal(err)
	}
	k := shoal.NewKeyed[string](p)
	began, end := make(chan bool), make(chan bool)
	p.Submit(func() { close(began); <-end })
	<-began
	var second atomic.Bool
	none := func(context.Context) {}
	k.SubmitContext(context.Background(), "a", none)
	k.SubmitContext(context.Background(), "a", func(context.Context) { second.Store(true) })
	displaced := make(chan bool)
	go func() { p.Submit(func() {}); close(displaced) }()
	<-tr.in // the first task of the key was displaced, and its Tracer is being told
	waited := make(chan bool)
	go func() {
		p.Wait()
		waited <- second.Load()
	}()
	time.Sleep(50 * time.Millisecond) // Wait is listed
	close(end)
	select {
	case ran := <-waited:
		if !ran {
			t.Errorf("Wait has returned, and a task that was accepted before has not run: %d queued", p.Stats().Queued)
		}
	case <-time.After(300 * time.Millisecond):
	}
	close(tr.out)
	<-displaced
	p.Close()
}

// TestPauseOfAParentEndsTurnsInSubPools: after Pause no worker takes a task, also not one of a sub-pool in which it
// has a turn.
func TestPauseOfAParentEndsTurnsInSubPools(t *testing.T) {
	p, err := shoal.New(shoal.WithMaxWorkers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	hold, held := make(chan bool), make(chan bool)
	p.Submit(func() { close(held); <-hold })
	<-held
	began, end := make(chan bool, 100), make(chan bool)
	var paused atomic.Bool
	var ran atomic.Int64
	for range 2 {
		s, err := p.Sub(shoal.WithMaxWorkers(1))
		if err != nil {
			t.Fatal(err)
		}
		s.Submit(func() { began <- true; <-end })
		for range 20 {
			s.Submit(func() {
				if paused.Load() {
					ran.Add(1)
				}
			})
		}
	}
	close(hold)
	<-began
	p.Pause()
	paused.Store(true)
	close(end)
	time.Sleep(50 * time.Millisecond)
	if n := ran.Load(); n > 0 {
		t.Errorf("%d tasks were taken after Pause had returned", n)
	}
	paused.Store(false)
	p.Resume()
	p.Wait()
}
