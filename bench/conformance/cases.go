package main

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What pools without an end of their own say: submitting and waiting for the
// end at once, and submitting after it, is for the caller to avoid.
var joins = []string{"conc", "errgroup", "channel"}

// Pools that let a panic of a task through, and say so.
var panics = []string{"conc", "errgroup", "channel"}

func one(c *check) pool { return c.s.make(spec{workers: 1}) }
func two(c *check) pool { return c.s.make(spec{workers: 2}) }

// must submits a task that cannot be refused.
func (c *check) must(p pool, f func()) {
	if err := p.submit(f); err != nil {
		c.failf("submit: %v", err)
	}
}

// hold occupies n workers until release.
func (c *check) hold(p pool, n int) (release func()) {
	gate := make(chan struct{})
	var began sync.WaitGroup
	began.Add(n)
	for range n {
		c.must(p, func() { began.Done(); <-gate })
	}
	began.Wait()
	return sync.OnceFunc(func() { close(gate) })
}

// within fails the case if f takes longer than d, which is generous.
func (c *check) within(d time.Duration, what string, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		c.failf("%s: no end after %v", what, d)
		return false
	}
}

// counted runs n tasks from some goroutines, stops the pool, and checks that
// each ran once.
func (c *check) counted(s spec, goroutines, n int) {
	p := c.s.make(s)
	ran := make([]atomic.Int32, n)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				c.must(p, func() { ran[i].Add(1) })
			}
		})
	}
	wg.Wait()
	p.stop()
	for i := range ran {
		if k := ran[i].Load(); k != 1 {
			c.failf("task %d of %d ran %d times", i, n, k)
		}
	}
}

// goesOn checks that the pool runs n more tasks, and stops.
func (c *check) goesOn(p pool, n int) {
	var ran atomic.Int32
	if c.within(3*time.Second, "tasks after it", func() {
		var wg sync.WaitGroup
		wg.Add(n)
		for range n {
			c.must(p, func() { ran.Add(1); wg.Done() })
		}
		wg.Wait()
	}) {
		c.within(3*time.Second, "stop after it", p.stop)
	}
}

// storm submits from 8 goroutines while the pool is stopped, and checks at the
// moment of its return that what was accepted has run.
func (c *check) storm() {
	for round := range 300 {
		p := c.s.make(spec{workers: 4})
		var accepted, ran, late atomic.Int64
		var over atomic.Bool
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 200 {
					if p.submit(func() {
						if over.Load() {
							late.Add(1)
						}
						ran.Add(1)
					}) != nil {
						return
					}
					accepted.Add(1)
				}
			})
		}
		for range round % 20 {
			runtime.Gosched()
		}
		p.stop()
		over.Store(true)
		n := ran.Load()
		wg.Wait()
		if a := accepted.Load(); n < a || late.Load() > 0 {
			c.failf("round %d: %d accepted, %d had run when stop returned, %d ran later", round, a, n, late.Load())
			return
		}
	}
}

// meet has 64 tasks that wait for each other.
func (c *check) meet(p pool, d time.Duration) {
	c.within(d, "64 tasks that meet", func() {
		var all, wg sync.WaitGroup
		all.Add(64)
		wg.Add(64)
		for range 64 {
			c.must(p, func() { all.Done(); all.Wait(); wg.Done() })
		}
		wg.Wait()
	})
}

// atMost runs n tasks, which do work and then end, and checks that no more than
// limit are at work at once.
func (c *check) atMost(p pool, limit int32, n int, work, end func()) {
	var now atomic.Int32
	for range n {
		c.must(p, func() {
			if n := now.Add(1); n > limit {
				c.failf("%d at once", n)
			}
			work()
			now.Add(-1)
			end()
		})
	}
	p.stop()
}

// between runs tasks and checks that meanwhile what count says is from 0 to
// most.
func (c *check) between(p pool, what string, most int, count func() int) {
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !over.Load() {
			if n := count(); n < 0 || n > most {
				c.failf("%s: %d, of at most %d", what, n, most)
				return
			}
		}
	})
	for range 20_000 {
		c.must(p, func() {})
	}
	p.stop()
	over.Store(true)
	wg.Wait()
}

type badError struct{}

func (badError) Error() string { panic("this error cannot be printed") }

var contract = []testCase{
	// ----- each once -----
	{name: "once/one task", run: func(c *check) { c.counted(spec{workers: 1}, 1, 1) }},
	{name: "once/10,000 tasks, one worker", run: func(c *check) { c.counted(spec{workers: 1}, 1, 10_000) }},
	{name: "once/10,000 tasks, 8 workers", run: func(c *check) { c.counted(spec{workers: 8}, 1, 10_000) }},
	{name: "once/16 submitters, one worker", run: func(c *check) { c.counted(spec{workers: 1}, 16, 16_000) }},
	{name: "once/16 submitters, 8 workers", run: func(c *check) { c.counted(spec{workers: 8}, 16, 100_000) }},
	{name: "once/1000 submitters", run: func(c *check) { c.counted(spec{workers: 4}, 1000, 20_000) }},
	{name: "once/more workers than tasks", run: func(c *check) { c.counted(spec{workers: 1000}, 1, 10) }},
	{name: "once/a queue of one", run: func(c *check) { c.counted(spec{workers: 2, capacity: 1}, 8, 20_000) }},
	{name: "once/GOMAXPROCS 1", run: func(c *check) {
		runtime.GOMAXPROCS(1)
		c.counted(spec{workers: 8}, 8, 20_000)
	}},
	{name: "once/GOMAXPROCS changes", run: func(c *check) {
		stop := make(chan struct{})
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					runtime.GOMAXPROCS(1 + i%4)
					time.Sleep(100 * time.Microsecond)
				}
			}
		}()
		c.counted(spec{workers: 8}, 8, 20_000)
		close(stop)
	}},
	{name: "once/the collector never rests", run: func(c *check) {
		debug.SetGCPercent(1)
		c.counted(spec{workers: 4}, 8, 20_000)
	}},
	{name: "once/20,000 single tasks, each after the last", run: func(c *check) {
		p := two(c)
		done := make(chan struct{}, 1)
		for range 20_000 {
			c.must(p, func() { done <- struct{}{} })
			<-done
		}
		p.stop()
	}},

	// ----- order and memory -----
	{name: "order/one worker, one submitter: as submitted", run: func(c *check) {
		p := one(c)
		var got []int
		for i := range 1000 {
			c.must(p, func() { got = append(got, i) })
		}
		p.stop()
		if !slices.IsSorted(got) || len(got) != 1000 {
			c.failf("%d tasks, in another order", len(got))
		}
	}, mayMiss: []string{"ants", "conc", "errgroup"}},
	{name: "order/what tasks wrote is seen after stop", run: func(c *check) {
		p := c.s.make(spec{workers: 4})
		words := make([]int, 10_000) // no atomics
		for i := range words {
			c.must(p, func() { words[i]++ })
		}
		p.stop()
		for i, w := range words {
			if w != 1 {
				c.failf("word %d is %d", i, w)
			}
		}
	}},
	{name: "order/what the submitter wrote is seen by the task", run: func(c *check) {
		p := c.s.make(spec{workers: 4})
		for i := range 10_000 {
			word := new(int)
			*word = i
			c.must(p, func() {
				if *word != i {
					c.failf("%d instead of %d", *word, i)
				}
			})
		}
		p.stop()
	}},
	{name: "order/nobody waits behind one slow task", run: func(c *check) {
		p := c.s.make(spec{workers: 4})
		release := c.hold(p, 1)
		defer release()
		c.within(3*time.Second, "200 tasks beside a slow one", func() {
			var wg sync.WaitGroup
			wg.Add(200)
			for range 200 {
				c.must(p, wg.Done)
			}
			wg.Wait()
		})
	}},
	{name: "order/tasks that wait for later ones, within the bound", run: func(c *check) {
		p := c.s.make(spec{workers: 64})
		c.meet(p, 3*time.Second)
	}},
	{name: "order/the same beside goroutines that keep all CPUs busy", run: func(c *check) {
		var over atomic.Bool
		for range 4 * runtime.GOMAXPROCS(0) {
			go func() {
				for !over.Load() {
				}
			}()
		}
		defer over.Store(true)
		p := c.s.make(spec{workers: 64})
		c.meet(p, 8*time.Second)
	}},

	// ----- the bounds -----
	{name: "bound/never more at once than workers", run: func(c *check) {
		p := c.s.make(spec{workers: 3})
		c.atMost(p, 3, 300, func() { time.Sleep(50 * time.Microsecond) }, func() {})
	}},
	{name: "bound/as many at once as workers", run: func(c *check) {
		p := c.s.make(spec{workers: 7})
		c.within(3*time.Second, "7 at once", func() { c.hold(p, 7)() })
		p.stop()
	}},
	{name: "bound/never more goroutines than workers and one", run: func(c *check) {
		base := runtime.NumGoroutine()
		p := c.s.make(spec{workers: 5})
		most := 0
		var mu sync.Mutex
		for range 2000 {
			c.must(p, func() {
				mu.Lock()
				most = max(most, runtime.NumGoroutine()-base)
				mu.Unlock()
			})
		}
		p.stop()
		if most > 6 {
			c.failf("%d goroutines for 5 workers", most)
		}
	}},
	{name: "bound/the queue holds exactly its capacity", run: func(c *check) {
		p := c.s.make(spec{workers: 2, capacity: 5})
		c.need(p.bounded, p.try != nil)
		release := c.hold(p, 2)
		n := 0
		for range 20 {
			if p.try(func() {}) == nil {
				n++
			}
		}
		if n != 5 {
			c.failf("%d were accepted, with a capacity of 5", n)
		}
		release()
		p.stop()
	}},
	{name: "bound/a try with idle workers is accepted", run: func(c *check) {
		p := c.s.make(spec{workers: 2, capacity: 1})
		c.need(p.try != nil)
		if err := p.try(func() {}); err != nil {
			c.failf("refused: %v", err)
		}
		p.stop()
	}},
	{name: "bound/8 goroutines for one place", run: func(c *check) {
		for range 200 {
			p := c.s.make(spec{workers: 1, capacity: 1})
			c.need(p.bounded, p.try != nil)
			release := c.hold(p, 1)
			var got atomic.Int32
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if p.try(func() {}) == nil {
						got.Add(1)
					}
				})
			}
			wg.Wait()
			release()
			p.stop()
			if got.Load() != 1 {
				c.failf("%d were accepted", got.Load())
				return
			}
		}
	}},
	{name: "bound/a submitter waits while there is no free capacity", run: func(c *check) {
		p := c.s.make(spec{workers: 1, capacity: 1})
		c.need(p.bounded)
		release := c.hold(p, 1)
		c.must(p, func() {})
		done := make(chan struct{})
		go func() { c.must(p, func() {}); close(done) }()
		select {
		case <-done:
			c.failf("accepted beyond the capacity")
		case <-time.After(50 * time.Millisecond):
		}
		release()
		c.within(3*time.Second, "the submitter", func() { <-done })
		p.stop()
	}},
	{name: "bound/all that wait for free capacity get it", run: func(c *check) {
		p := c.s.make(spec{workers: 1, capacity: 1})
		c.need(p.bounded)
		release := c.hold(p, 1)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { c.must(p, func() {}) })
		}
		time.Sleep(10 * time.Millisecond)
		release()
		c.within(3*time.Second, "100 submitters", wg.Wait)
		p.stop()
	}},
	{name: "bound/still after panics", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		c.atMost(p, 2, 200, runtime.Gosched, func() { panic("on purpose") })
	}, mayMiss: panics},

	// ----- tasks that submit -----
	{name: "nested/a task submits a task, one worker", run: func(c *check) {
		p := one(c)
		done := make(chan struct{})
		c.must(p, func() { c.must(p, func() { close(done) }) })
		c.within(3*time.Second, "the inner task", func() { <-done })
	}},
	{name: "nested/the queue is full", run: func(c *check) {
		p := c.s.make(spec{workers: 1, capacity: 1})
		var wg sync.WaitGroup
		wg.Add(11)
		c.must(p, func() {
			defer wg.Done()
			for range 10 {
				c.must(p, wg.Done)
			}
		})
		c.within(3*time.Second, "10 tasks of a task", wg.Wait)
	}},
	{name: "nested/a tree of 1024 leaves, two workers", run: func(c *check) {
		p := two(c)
		var wg sync.WaitGroup
		wg.Add(1024)
		var grow func(n int)
		grow = func(n int) {
			if n == 1 {
				wg.Done()
				return
			}
			c.must(p, func() { grow(n / 2) })
			c.must(p, func() { grow(n / 2) })
		}
		c.must(p, func() { grow(1024) })
		c.within(3*time.Second, "the tree", wg.Wait)
	}},
	{name: "nested/100 tasks from one task", run: func(c *check) {
		p := two(c)
		var wg sync.WaitGroup
		wg.Add(100)
		c.must(p, func() {
			for range 100 {
				c.must(p, wg.Done)
			}
		})
		c.within(3*time.Second, "100 tasks", wg.Wait)
	}},
	{name: "nested/from a deferred function while panicking", run: func(c *check) {
		p := c.s.make(spec{workers: 1, onPanic: func(any) {}})
		done := make(chan struct{})
		c.must(p, func() {
			defer func() { c.must(p, func() { close(done) }) }()
			panic("on purpose")
		})
		c.within(3*time.Second, "the task", func() { <-done })
	}, mayMiss: panics},
	{name: "nested/all workers submit to a full queue at once", run: func(c *check) {
		p := c.s.make(spec{workers: 4, capacity: 1})
		var wg sync.WaitGroup
		wg.Add(4 * 21)
		for range 4 {
			c.must(p, func() {
				defer wg.Done()
				for range 20 {
					c.must(p, wg.Done)
				}
			})
		}
		c.within(3*time.Second, "84 tasks", wg.Wait)
	}},

	// ----- results -----
	{name: "call/returns the task's error", run: func(c *check) {
		p := one(c)
		c.need(p.call != nil)
		want := errors.New("a result")
		if err := p.call(func() error { return want }); !errors.Is(err, want) {
			c.failf("returned %v", err)
		}
	}},
	{name: "call/a panic does not hang it", run: func(c *check) {
		p := c.s.make(spec{workers: 1, onPanic: func(any) {}})
		c.need(p.call != nil)
		c.within(3*time.Second, "call", func() {
			if err := p.call(func() error { panic("on purpose") }); err == nil {
				c.failf("no error after a panic")
			}
		})
	}},
	{name: "call/Goexit does not hang it", run: func(c *check) {
		p := one(c)
		c.need(p.call != nil)
		c.within(3*time.Second, "call", func() {
			if err := p.call(func() error { runtime.Goexit(); return nil }); err == nil {
				c.failf("no error after Goexit")
			}
		})
	}},
	{name: "call/stopping now does not hang it", run: func(c *check) {
		p := one(c)
		c.need(p.call != nil, p.stopNow != nil)
		release := c.hold(p, 1)
		result := make(chan error, 1)
		go func() { result <- p.call(func() error { return nil }) }()
		time.Sleep(20 * time.Millisecond) // it waits in the queue
		go p.stopNow()
		time.Sleep(20 * time.Millisecond)
		release()
		c.within(3*time.Second, "call", func() {
			if err := <-result; err == nil {
				c.failf("no error for a task that was dropped")
			}
		})
	}},
	{name: "call/10,000 from 16 goroutines", run: func(c *check) {
		p := two(c)
		c.need(p.call != nil)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := range 625 {
					got := -1
					if err := p.call(func() error { got = i; return nil }); err != nil || got != i {
						c.failf("%v, %d instead of %d", err, got, i)
						return
					}
				}
			})
		}
		c.within(8*time.Second, "10,000 calls", wg.Wait)
	}},

	// ----- groups -----
	{name: "group/Wait returns when all its tasks have ended", run: func(c *check) {
		p := two(c)
		c.need(p.group != nil)
		for range 20 {
			g := p.group(context.Background())
			var n atomic.Int32
			for range 500 {
				g.start(func(context.Context) error { n.Add(1); return nil })
			}
			if err := g.wait(); err != nil || n.Load() != 500 {
				c.failf("Wait = %v after %d of 500", err, n.Load())
			}
		}
	}},
	{name: "group/Wait returns the first error", run: func(c *check) {
		p := two(c)
		c.need(p.group != nil)
		g := p.group(context.Background())
		want := errors.New("a result")
		for i := range 10 {
			g.start(func(ctx context.Context) error {
				if i == 3 {
					return want
				}
				return nil
			})
		}
		if err := g.wait(); !errors.Is(err, want) {
			c.failf("Wait = %v", err)
		}
	}},
	{name: "group/the first error ends the context of the others", run: func(c *check) {
		p := two(c)
		c.need(p.group != nil)
		g := p.group(context.Background())
		want := errors.New("a result")
		g.start(func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
				c.failf("the context goes on")
			}
			return nil
		})
		g.start(func(context.Context) error { return want })
		if err := g.wait(); !errors.Is(err, want) {
			c.failf("Wait = %v", err)
		}
	}},
	{name: "group/after an error no task begins", run: func(c *check) {
		p := one(c)
		c.need(p.group != nil)
		g := p.group(context.Background())
		began, gate := make(chan struct{}), make(chan struct{})
		var late atomic.Int32
		g.start(func(context.Context) error { close(began); <-gate; return errors.New("a result") })
		<-began
		go func() { time.Sleep(50 * time.Millisecond); close(gate) }()
		for range 5 {
			g.start(func(context.Context) error { late.Add(1); return nil })
		}
		c.within(3*time.Second, "Wait", func() { _ = g.wait() })
		if n := late.Load(); n != 0 {
			c.failf("%d began", n)
		}
	}, mayMiss: []string{"conc", "errgroup"}}, // there a task is to look at its context
	{name: "group/a panic of a task is seen by Wait", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		c.need(p.group != nil)
		g := p.group(context.Background())
		g.start(func(context.Context) error { panic("on purpose") })
		c.within(3*time.Second, "Wait", func() {
			defer func() { _ = recover() }() // some panic again there
			if err := g.wait(); err == nil {
				c.failf("Wait = nil")
			}
		})
	}, mayMiss: panics},
	{name: "group/Goexit of a task does not hang Wait", run: func(c *check) {
		p := two(c)
		c.need(p.group != nil)
		g := p.group(context.Background())
		g.start(func(context.Context) error { runtime.Goexit(); return nil })
		c.within(3*time.Second, "Wait", func() { _ = g.wait() })
	}},
	{name: "group/a task of a group waits for a group, one worker", run: func(c *check) {
		p := one(c)
		c.need(p.group != nil)
		g := p.group(context.Background())
		g.start(func(ctx context.Context) error {
			inner := p.group(ctx)
			inner.start(func(context.Context) error { return nil })
			return inner.wait()
		})
		c.within(3*time.Second, "Wait", func() {
			if err := g.wait(); err != nil {
				c.failf("Wait = %v", err)
			}
		})
	}},
	{name: "group/stopping the pool now does not hang Wait", run: func(c *check) {
		p := one(c)
		c.need(p.group != nil, p.stopNow != nil)
		g := p.group(context.Background())
		began, gate := make(chan struct{}), make(chan struct{})
		g.start(func(context.Context) error { close(began); <-gate; return nil })
		<-began
		g.start(func(context.Context) error { return nil })
		go p.stopNow()
		time.Sleep(20 * time.Millisecond)
		close(gate)
		c.within(3*time.Second, "Wait", func() { _ = g.wait() })
	}},

	// ----- panics -----
	{name: "panic/the pool goes on", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		c.must(p, func() { panic("on purpose") })
		c.goesOn(p, 100)
	}, mayMiss: panics},
	{name: "panic/without a handler the process lives", run: func(c *check) {
		p := two(c)
		c.must(p, func() { panic("on purpose") })
		c.goesOn(p, 100)
	}, mayMiss: panics},
	{name: "panic/each of 1000", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		for range 1000 {
			c.must(p, func() { panic("on purpose") })
		}
		c.goesOn(p, 100)
	}, mayMiss: panics},
	{name: "panic/the handler gets the value, once", run: func(c *check) {
		var got []any
		var mu sync.Mutex
		p := c.s.make(spec{workers: 2, onPanic: func(v any) { mu.Lock(); got = append(got, v); mu.Unlock() }})
		c.need(p.onPanic)
		c.must(p, func() { panic("the value") })
		p.stop()
		if len(got) != 1 || got[0] != "the value" {
			c.failf("the handler got %v", got)
		}
	}},
	{name: "panic/nil", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		c.must(p, func() { panic(nil) }) //nolint: on purpose
		c.goesOn(p, 100)
	}, mayMiss: panics},
	{name: "panic/a runtime error", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		c.must(p, func() {
			var none []int
			none[len(none)]++
		})
		c.goesOn(p, 100)
	}, mayMiss: panics},
	{name: "panic/an error that cannot be printed", run: func(c *check) {
		p := two(c)
		c.must(p, func() { panic(badError{}) })
		c.goesOn(p, 100)
	}, mayMiss: panics},
	{name: "panic/in a deferred function, after a panic", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		c.must(p, func() {
			defer func() { panic("second") }()
			panic("first")
		})
		c.goesOn(p, 100)
	}, mayMiss: panics},
	{name: "panic/the handler panics, which ends the process", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) { panic("in the handler") }})
		c.need(p.onPanic)
		c.must(p, func() { panic("on purpose") })
		c.goesOn(p, 100)
		c.failf("the pool goes on")
	}, end: "in the handler"},
	{name: "panic/the handler ends its goroutine: the pool goes on, or the process says why it ends", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) { runtime.Goexit() }})
		c.need(p.onPanic)
		for range 4 {
			c.must(p, func() { panic("on purpose") })
		}
		c.goesOn(p, 100)
	}, end: "runtime.Goexit"},
	{name: "panic/the handler submits", run: func(c *check) {
		var p pool
		done := make(chan struct{})
		p = c.s.make(spec{workers: 1, onPanic: func(any) { c.must(p, func() { close(done) }) }})
		c.need(p.onPanic)
		c.must(p, func() { panic("on purpose") })
		c.within(3*time.Second, "the task of the handler", func() { <-done })
	}},
	{name: "panic/size 1, five that panic, no pause between", run: func(c *check) { // ants#146
		p := c.s.make(spec{workers: 1, onPanic: func(any) {}})
		c.within(3*time.Second, "five tasks", func() {
			var wg sync.WaitGroup
			wg.Add(5)
			for range 5 {
				c.must(p, func() { defer wg.Done(); panic("on purpose") })
			}
			wg.Wait()
		})
	}, mayMiss: panics},

	// ----- runtime.Goexit, as t.FailNow does -----
	{name: "goexit/the pool goes on", run: func(c *check) {
		p := two(c)
		c.must(p, runtime.Goexit)
		c.goesOn(p, 100)
	}},
	{name: "goexit/more often than there are workers", run: func(c *check) {
		p := two(c)
		for range 20 {
			c.must(p, runtime.Goexit)
		}
		c.goesOn(p, 100)
	}},
	{name: "goexit/of the only worker, with tasks waiting", run: func(c *check) {
		p := one(c)
		release := c.hold(p, 1)
		var wg sync.WaitGroup
		wg.Add(2)
		c.within(3*time.Second, "two tasks after it", func() {
			go func() {
				c.must(p, runtime.Goexit)
				c.must(p, wg.Done)
				c.must(p, wg.Done)
			}()
			time.Sleep(10 * time.Millisecond)
			release()
			wg.Wait()
		})
	}},
	{name: "goexit/in a deferred function", run: func(c *check) {
		p := two(c)
		c.must(p, func() { defer runtime.Goexit() })
		c.goesOn(p, 100)
	}},
	{name: "goexit/while panicking", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		c.must(p, func() {
			defer runtime.Goexit()
			panic("on purpose")
		})
		c.goesOn(p, 100)
	}},

	// ----- stopping -----
	{name: "stop/runs all that was accepted", run: func(c *check) {
		p := two(c)
		var ran atomic.Int32
		for range 1000 {
			c.must(p, func() { time.Sleep(10 * time.Microsecond); ran.Add(1) })
		}
		p.stop()
		if n := ran.Load(); n != 1000 {
			c.failf("%d of 1000 had run when stop returned", n)
		}
	}},
	{name: "stop/nothing of the pool is left", run: func(c *check) {
		base := runtime.NumGoroutine()
		p := c.s.make(spec{workers: 16})
		for range 1000 {
			c.must(p, func() {})
		}
		p.stop()
		if n := settle(base); n > 0 {
			c.failf("%d goroutines", n)
		}
	}},
	{name: "stop/1000 pools", run: func(c *check) {
		base := runtime.NumGoroutine()
		for range 1000 {
			p := two(c)
			c.must(p, func() {})
			p.stop()
		}
		if n := settle(base); n > 0 {
			c.failf("%d goroutines after 1000 pools", n)
		}
	}},
	{name: "stop/a pool that was never used", run: func(c *check) {
		p := two(c)
		c.within(3*time.Second, "stop", p.stop)
	}},
	{name: "stop/twice", run: func(c *check) {
		p := two(c)
		c.must(p, func() {})
		p.stop()
		c.within(3*time.Second, "the second stop", p.stop)
	}, mayMiss: []string{"channel"}},
	{name: "stop/four at once, 100 times", run: func(c *check) {
		for range 100 {
			p := two(c)
			c.must(p, func() {})
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(p.stop)
			}
			if !c.within(3*time.Second, "four stops", wg.Wait) {
				return
			}
		}
	}, mayMiss: joins},
	{name: "stop/every one of two waits for the end", run: func(c *check) {
		p := two(c)
		release := c.hold(p, 1)
		first := make(chan struct{})
		go func() { p.stop(); close(first) }()
		time.Sleep(20 * time.Millisecond)
		second := make(chan struct{})
		go func() { p.stop(); close(second) }()
		select {
		case <-second:
			c.failf("the second stop returned while a task ran")
		case <-time.After(50 * time.Millisecond):
		}
		release()
		c.within(3*time.Second, "both", func() { <-first; <-second })
	}, mayMiss: []string{"channel"}},
	{name: "stop/afterwards submit is refused and nothing runs", run: func(c *check) {
		p := two(c)
		p.stop()
		var ran atomic.Bool
		if err := p.submit(func() { ran.Store(true) }); err == nil {
			c.failf("accepted")
		}
		time.Sleep(20 * time.Millisecond)
		if ran.Load() {
			c.failf("it ran")
		}
	}, mayMiss: joins},
	{name: "stop/afterwards try is refused", run: func(c *check) {
		p := two(c)
		c.need(p.try != nil)
		p.stop()
		if p.try(func() {}) == nil {
			c.failf("accepted")
		}
	}, mayMiss: joins},
	{name: "stop/while 8 goroutines submit: accepted is run", run: func(c *check) {
		c.storm()
	}, mayMiss: joins},
	{name: "stop/while a submitter waits for free capacity", run: func(c *check) {
		p := c.s.make(spec{workers: 1, capacity: 1})
		c.need(p.bounded)
		release := c.hold(p, 1)
		c.must(p, func() {})
		var ran atomic.Bool
		result := make(chan error, 1)
		go func() { result <- p.submit(func() { ran.Store(true) }) }()
		time.Sleep(20 * time.Millisecond)
		stopped := make(chan struct{})
		go func() { p.stop(); close(stopped) }()
		time.Sleep(20 * time.Millisecond)
		release()
		c.within(3*time.Second, "stop and the submitter", func() {
			<-stopped
			if err := <-result; (err == nil) != ran.Load() {
				c.failf("submit returned %v, ran: %t", err, ran.Load())
			}
		})
	}, mayMiss: joins},
	{name: "stop/a task submits meanwhile: run or refused", run: func(c *check) {
		for range 100 {
			p := one(c)
			release := c.hold(p, 1)
			var accepted, ran atomic.Int32
			go func() {
				if p.submit(func() {
					if p.submit(func() { ran.Add(1) }) == nil {
						accepted.Add(1)
					}
				}) != nil {
					return
				}
			}()
			runtime.Gosched()
			go func() { time.Sleep(time.Millisecond); release() }()
			p.stop()
			if a, r := accepted.Load(), ran.Load(); a != r {
				c.failf("%d accepted, %d ran", a, r)
				return
			}
		}
	}, mayMiss: joins},
	{name: "stop/from one of its own tasks does not hang", run: func(c *check) {
		p := two(c)
		done := make(chan struct{})
		c.must(p, func() {
			defer close(done)
			defer func() { _ = recover() }() // a clear panic is an answer too
			p.stop()
		})
		c.within(3*time.Second, "stop in a task", func() { <-done })
	}},
	{name: "stop/a task that panics meanwhile", run: func(c *check) {
		p := c.s.make(spec{workers: 1, onPanic: func(any) {}})
		release := c.hold(p, 1)
		go func() {
			time.Sleep(10 * time.Millisecond)
			release()
		}()
		go func() { _ = p.submit(func() { panic("on purpose") }) }()
		time.Sleep(time.Millisecond)
		c.within(3*time.Second, "stop", p.stop)
	}, mayMiss: panics},
	{name: "stop/nothing runs after it", run: func(c *check) {
		for range 100 {
			p := c.s.make(spec{workers: 4})
			var over atomic.Bool
			for range 100 {
				c.must(p, func() {
					if over.Load() {
						c.failf("a task ran after stop")
					}
				})
			}
			p.stop()
			over.Store(true)
		}
		time.Sleep(10 * time.Millisecond)
	}},
	{name: "stop/now, drops what waits", run: func(c *check) {
		p := one(c)
		c.need(p.stopNow != nil)
		gate := make(chan struct{})
		began := make(chan struct{})
		c.must(p, func() { close(began); <-gate })
		<-began
		var ran atomic.Int32
		for range 100 {
			c.must(p, func() { ran.Add(1) })
		}
		done := make(chan struct{})
		go func() { p.stopNow(); close(done) }()
		time.Sleep(20 * time.Millisecond)
		close(gate)
		c.within(3*time.Second, "it", func() { <-done })
		if n := ran.Load(); n == 100 {
			c.failf("all of them ran")
		}
	}},
	{name: "stop/now, while it drains", run: func(c *check) {
		p := one(c)
		c.need(p.stopNow != nil)
		release := c.hold(p, 1)
		for range 100 {
			c.must(p, func() { time.Sleep(time.Millisecond) })
		}
		done := make(chan struct{}, 2)
		go func() { p.stop(); done <- struct{}{} }()
		time.Sleep(10 * time.Millisecond)
		go func() { p.stopNow(); done <- struct{}{} }()
		time.Sleep(10 * time.Millisecond)
		release()
		c.within(5*time.Second, "both", func() { <-done; <-done })
	}},
	{name: "stop/now, while 8 goroutines submit", run: func(c *check) {
		for round := range 100 {
			p := c.s.make(spec{workers: 4})
			c.need(p.stopNow != nil)
			var over atomic.Bool
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 100 {
						if p.submit(func() {
							if over.Load() {
								c.failf("a task ran after it")
							}
						}) != nil {
							return
						}
					}
				})
			}
			for range round % 20 {
				runtime.Gosched()
			}
			p.stopNow()
			over.Store(true)
			if !c.within(3*time.Second, "the submitters", wg.Wait) {
				return
			}
		}
	}},
	{name: "stop/with a deadline and a task that does not end", run: func(c *check) {
		p := one(c)
		c.need(p.stopCtx != nil)
		release := c.hold(p, 1)
		defer release()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		c.within(3*time.Second, "it", func() {
			if err := p.stopCtx(ctx); !errors.Is(err, context.DeadlineExceeded) {
				c.failf("it returned %v", err)
			}
		})
	}},
	{name: "stop/with a deadline leaves nothing behind", run: func(c *check) {
		base := runtime.NumGoroutine()
		for range 20 {
			p := one(c)
			c.need(p.stopCtx != nil)
			release := c.hold(p, 1)
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			_ = p.stopCtx(ctx)
			cancel()
			release()
		}
		if n := settle(base); n > 0 {
			c.failf("%d goroutines", n)
		}
	}},
	{name: "stop/with a context that is done, of an idle pool", run: func(c *check) {
		p := one(c)
		c.need(p.stopCtx != nil)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.within(3*time.Second, "it", func() { _ = p.stopCtx(ctx) })
	}},

	// ----- waiting -----
	{name: "wait/for all that was submitted", run: func(c *check) {
		p := two(c)
		c.need(p.wait != nil)
		var ran atomic.Int32
		for round := range 100 {
			for range 100 {
				c.must(p, func() { ran.Add(1) })
			}
			p.wait()
			if n := ran.Load(); n != int32(100*(round+1)) {
				c.failf("%d of %d had run", n, 100*(round+1))
				return
			}
		}
	}},
	{name: "wait/while others submit", run: func(c *check) {
		p := two(c)
		c.need(p.wait != nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 500 {
					c.must(p, func() {})
				}
			})
		}
		for range 50 {
			p.wait()
		}
		wg.Wait()
		c.within(3*time.Second, "the last wait", p.wait)
	}, mayMiss: []string{"errgroup"}},
	{name: "wait/for tasks that tasks submit", run: func(c *check) {
		p := two(c)
		c.need(p.wait != nil)
		var ran atomic.Int32
		c.must(p, func() {
			time.Sleep(5 * time.Millisecond)
			c.must(p, func() { ran.Add(1) })
		})
		p.wait()
		if ran.Load() != 1 {
			c.failf("it did not wait for the inner task")
		}
	}},
	{name: "wait/of an idle pool", run: func(c *check) {
		p := two(c)
		c.need(p.wait != nil)
		c.within(3*time.Second, "wait", p.wait)
	}},
	{name: "wait/after Goexit", run: func(c *check) {
		p := two(c)
		c.need(p.wait != nil)
		c.must(p, runtime.Goexit)
		c.within(3*time.Second, "wait", p.wait)
	}},

	// ----- resizing -----
	{name: "resize/up lets a submitter in that waits", run: func(c *check) { // ants#205
		p := c.s.make(spec{workers: 2, capacity: 1})
		c.need(p.resize != nil)
		release := c.hold(p, 2)
		defer release()
		done := make(chan struct{})
		go func() {
			c.must(p, func() {})
			c.must(p, func() { close(done) })
		}()
		time.Sleep(20 * time.Millisecond)
		_ = p.resize(3)
		c.within(3*time.Second, "the third task", func() { <-done })
	}},
	{name: "resize/up runs more at once", run: func(c *check) {
		p := one(c)
		c.need(p.resize != nil)
		_ = p.resize(5)
		c.within(3*time.Second, "5 at once", func() { c.hold(p, 5)() })
	}},
	{name: "resize/down runs fewer at once", run: func(c *check) {
		p := c.s.make(spec{workers: 8})
		c.need(p.resize != nil)
		c.hold(p, 8)()
		_ = p.resize(2)
		time.Sleep(20 * time.Millisecond)
		c.atMost(p, 2, 200, func() { time.Sleep(50 * time.Microsecond) }, func() {})
	}},
	{name: "resize/down interrupts nothing", run: func(c *check) {
		p := c.s.make(spec{workers: 8})
		c.need(p.resize != nil)
		var ended atomic.Int32
		gate := make(chan struct{})
		var began sync.WaitGroup
		began.Add(8)
		for range 8 {
			c.must(p, func() { began.Done(); <-gate; ended.Add(1) })
		}
		began.Wait()
		_ = p.resize(1)
		close(gate)
		p.stop()
		if n := ended.Load(); n != 8 {
			c.failf("%d of 8 ended", n)
		}
	}},
	{name: "resize/all the time, each task once", run: func(c *check) {
		p := c.s.make(spec{workers: 8})
		c.need(p.resize != nil)
		var over atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				_ = p.resize(1 + i%8)
				runtime.Gosched()
			}
		})
		var ran atomic.Int32
		for range 20_000 {
			c.must(p, func() { ran.Add(1) })
		}
		over.Store(true)
		wg.Wait()
		p.stop()
		if n := ran.Load(); n != 20_000 {
			c.failf("%d of 20,000 ran", n)
		}
	}},
	{name: "resize/0 and -1 break nothing", run: func(c *check) {
		p := two(c)
		c.need(p.resize != nil)
		for _, n := range []int{0, -1} {
			func() {
				defer func() { _ = recover() }() // a clear panic is an answer
				_ = p.resize(n)
			}()
		}
		c.goesOn(p, 100)
	}},

	// ----- pausing -----
	{name: "pause/nothing starts", run: func(c *check) {
		p := two(c)
		c.need(p.pause != nil)
		p.pause()
		var ran atomic.Int32
		for range 10 {
			c.must(p, func() { ran.Add(1) })
		}
		time.Sleep(20 * time.Millisecond)
		if ran.Load() != 0 {
			c.failf("%d ran", ran.Load())
		}
		p.resume()
		c.within(3*time.Second, "stop", p.stop)
		if ran.Load() != 10 {
			c.failf("%d of 10 ran", ran.Load())
		}
	}},
	{name: "pause/while tasks run", run: func(c *check) {
		p := two(c)
		c.need(p.pause != nil)
		release := c.hold(p, 2)
		c.within(3*time.Second, "pause", p.pause)
		release()
		p.resume()
		c.goesOn(p, 100)
	}, mayMiss: []string{"workerpool"}}, // Pause waits for running tasks
	{name: "pause/two at once", run: func(c *check) {
		p := two(c)
		c.need(p.pause != nil)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { p.pause() })
		}
		c.within(3*time.Second, "two pauses", wg.Wait)
		p.resume()
		c.goesOn(p, 100)
	}, mayMiss: []string{"workerpool"}}, // pauses nest: the second waits for the first to end
	{name: "pause/stop ends it", run: func(c *check) {
		p := two(c)
		c.need(p.pause != nil)
		p.pause()
		var ran atomic.Bool
		c.must(p, func() { ran.Store(true) })
		c.within(3*time.Second, "stop", p.stop)
		if !ran.Load() {
			c.failf("the task did not run")
		}
	}},

	// ----- contexts -----
	{name: "context/one that is done is refused", run: func(c *check) {
		p := two(c)
		c.need(p.submitCtx != nil)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.submitCtx(ctx, func() { c.failf("it ran") }); !errors.Is(err, context.Canceled) {
			c.failf("submit returned %v", err)
		}
		p.stop()
	}},
	{name: "context/it ends while the submitter waits", run: func(c *check) {
		p := c.s.make(spec{workers: 1, capacity: 1})
		c.need(p.submitCtx != nil)
		release := c.hold(p, 1)
		c.must(p, func() {})
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		c.within(3*time.Second, "submit", func() {
			if err := p.submitCtx(ctx, func() { c.failf("it ran") }); !errors.Is(err, context.DeadlineExceeded) {
				c.failf("submit returned %v", err)
			}
		})
		release()
		p.stop()
	}},
	{name: "context/who gave up leaves its place to the next", run: func(c *check) { // golang/go#37852
		p := c.s.make(spec{workers: 1, capacity: 1})
		c.need(p.submitCtx != nil)
		release := c.hold(p, 1)
		c.must(p, func() {})
		ctx, cancel := context.WithCancel(context.Background())
		gaveUp := make(chan struct{})
		go func() {
			_ = p.submitCtx(ctx, func() {})
			close(gaveUp)
		}()
		time.Sleep(10 * time.Millisecond)
		next := make(chan struct{})
		go func() { c.must(p, func() {}); close(next) }()
		time.Sleep(10 * time.Millisecond)
		cancel()
		<-gaveUp
		release()
		c.within(3*time.Second, "the next submitter", func() { <-next })
		p.stop()
	}},

	// ----- memory and goroutines -----
	{name: "memory/an idle pool holds no task", run: func(c *check) {
		p := two(c)
		freed := make(chan struct{})
		done := make(chan struct{})
		func() {
			big := new([1 << 20]byte)
			runtime.AddCleanup(big, func(struct{}) { close(freed) }, struct{}{})
			c.must(p, func() { big[0]++; close(done) })
		}()
		<-done
		// The next tasks run on the same workers.
		c.within(5*time.Second, "the collector", func() {
			for {
				runtime.GC()
				select {
				case <-freed:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
		runtime.KeepAlive(p.submit)
	}},
	{name: "memory/a burst is given back", run: func(c *check) {
		p := c.s.make(spec{workers: 2, capacity: 1 << 20})
		c.need(!p.handsOver)
		measure := func() uint64 {
			for range 3 {
				runtime.GC()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		release := c.hold(p, 2)
		before := measure()
		var wg sync.WaitGroup
		wg.Add(500_000)
		for range 500_000 {
			c.must(p, wg.Done)
		}
		release()
		wg.Wait()
		if after := measure(); after > before+2<<20 {
			c.failf("%d KiB more than before 500,000 tasks", (after-before)>>10)
		}
		runtime.KeepAlive(p.submit)
	}, mayMiss: []string{"channel"}},
	{name: "memory/an idle pool has its workers and no other goroutine", run: func(c *check) {
		base := runtime.NumGoroutine()
		p := c.s.make(spec{workers: 4})
		c.hold(p, 4)()
		time.Sleep(50 * time.Millisecond)
		if n := runtime.NumGoroutine() - base; n > 4 {
			c.failf("%d goroutines for 4 idle workers", n)
		}
		runtime.KeepAlive(p.submit)
	}},
	{name: "memory/idle workers leave", run: func(c *check) {
		base := runtime.NumGoroutine()
		p := c.s.make(spec{workers: 100, idle: 50 * time.Millisecond})
		c.need(!p.keeps)
		c.hold(p, 100)()
		time.Sleep(600 * time.Millisecond)
		if n := runtime.NumGoroutine() - base; n > 2 {
			c.failf("%d goroutines, 12 idle timeouts after 100 workers had no work", n)
		}
		runtime.KeepAlive(p.submit)
	}},
	{name: "memory/a label of one task does not reach the next", run: func(c *check) {
		p := one(c)
		c.must(p, func() { pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("leak", "yes"))) })
		done := make(chan struct{})
		c.must(p, func() {
			defer close(done)
			var b strings.Builder
			if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
				c.failf("%v", err)
			}
			if strings.Contains(b.String(), `"leak":"yes"`) {
				c.failf("it does")
			}
		})
		<-done
		p.stop()
	}},

	// ----- counters -----
	{name: "count/completed is all", run: func(c *check) {
		p := two(c)
		c.need(p.completed != nil)
		for range 1000 {
			c.must(p, func() {})
		}
		p.stop()
		if n := p.completed(); n != 1000 {
			c.failf("%d of 1000", n)
		}
	}},
	{name: "count/failed is those that panicked", run: func(c *check) {
		p := c.s.make(spec{workers: 2, onPanic: func(any) {}})
		c.need(p.failed != nil)
		for i := range 1000 {
			c.must(p, func() {
				if i%10 == 0 {
					panic("on purpose")
				}
			})
		}
		p.stop()
		if n := p.failed(); n != 100 {
			c.failf("%d of 100", n)
		}
	}},
	{name: "count/Goexit too", run: func(c *check) {
		p := two(c)
		c.need(p.completed != nil)
		for i := range 100 {
			c.must(p, func() {
				if i%10 == 0 {
					runtime.Goexit()
				}
			})
		}
		c.within(3*time.Second, "stop", p.stop)
		if n := p.completed(); n != 100 {
			c.failf("%d of 100", n)
		}
	}},
	{name: "count/waiting is 0 in the end, and never less", run: func(c *check) {
		p := two(c)
		c.need(p.waiting != nil)
		c.between(p, "waiting", 1<<21, p.waiting)
		if n := p.waiting(); n != 0 {
			c.failf("%d in the end", n)
		}
	}},
	{name: "count/workers never exceed their number", run: func(c *check) {
		p := c.s.make(spec{workers: 3})
		c.need(p.workers != nil)
		c.between(p, "workers", 3, p.workers)
	}},

	// ----- odd input, odd places -----
	{name: "odd/a nil task is refused where it is submitted", run: func(c *check) {
		p := two(c)
		refused := false
		func() {
			defer func() {
				if recover() != nil {
					refused = true
				}
			}()
			refused = p.submit(nil) != nil
		}()
		time.Sleep(20 * time.Millisecond)
		if !refused {
			c.failf("it was accepted")
		}
		c.goesOn(p, 10)
	}},
	{name: "odd/tasks that lock their thread", run: func(c *check) {
		p := two(c)
		for range 20 {
			c.must(p, runtime.LockOSThread)
		}
		c.goesOn(p, 100)
	}},
	{name: "odd/a very deep stack", run: func(c *check) {
		p := two(c)
		c.must(p, func() { _ = deep(100_000) })
		c.goesOn(p, 100)
	}},
	{name: "odd/a task that never ends holds up nobody else", run: func(c *check) {
		p := two(c)
		c.must(p, func() { select {} })
		done := make(chan struct{})
		c.must(p, func() { close(done) })
		c.within(3*time.Second, "the other task", func() { <-done })
	}},
	{name: "odd/submit from time.AfterFunc", run: func(c *check) {
		p := two(c)
		done := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() { c.must(p, func() { close(done) }) })
		c.within(3*time.Second, "the task", func() { <-done })
		p.stop()
	}},
	{name: "odd/in a testing/synctest bubble", run: func(c *check) {
		inBubble(c, func() {
			p := two(c)
			n := 0
			for range 10 {
				c.must(p, func() { time.Sleep(time.Hour); _ = n })
			}
			p.stop()
		})
	}},
	{name: "odd/in two bubbles, one after the other", run: func(c *check) {
		for range 2 {
			inBubble(c, func() {
				p := two(c)
				if p.call != nil {
					if err := p.call(func() error { return nil }); err != nil {
						c.failf("call: %v", err)
					}
				}
				c.must(p, func() {})
				p.stop()
			})
		}
	}},
	{name: "odd/100,000 goroutines submit at once", run: func(c *check) {
		p := c.s.make(spec{workers: 4})
		var ran atomic.Int32
		var wg sync.WaitGroup
		for range 100_000 {
			wg.Go(func() { c.must(p, func() { ran.Add(1) }) })
		}
		wg.Wait()
		p.stop()
		if n := ran.Load(); n != 100_000 {
			c.failf("%d of 100,000 ran", n)
		}
	}},
}

// inBubble runs f in a testing/synctest bubble, which takes a test.
func inBubble(c *check, f func()) {
	testing.Init()
	ok := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "bubble",
		F:    func(t *testing.T) { synctest.Test(t, func(*testing.T) { f() }) },
	}})
	if !ok {
		c.failf("it does not work in a bubble")
	}
}

//go:noinline
func deep(n int) int {
	var frame [16]int
	if n == 0 {
		return 0
	}
	frame[n%16] = n
	return deep(n-1) + frame[n%16]
}
