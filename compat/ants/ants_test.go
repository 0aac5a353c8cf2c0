package ants_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/compat/ants"
	"github.com/shoal-go/shoal/compat/internal/expect"
)

// common is what the pools of ants v2.12 have in common.
type common interface {
	Cap() int
	Free() int
	IsClosed() bool
	Reboot()
	ReleaseContext(context.Context) error
	ReleaseTimeout(time.Duration) error
	Running() int
	Tune(int)
	Waiting() int
}

// multi is what its multi-pools have beside.
type multi interface {
	common
	FreeByIndex(int) (int, error)
	RunningByIndex(int) (int, error)
	WaitingByIndex(int) (int, error)
}

// Every exported name of ants v2.12, with its type.
var (
	_               = [...]int{ants.DefaultAntsPoolSize, ants.OPENED, ants.CLOSED}
	_ time.Duration = ants.DefaultCleanIntervalTime
	_               = []error{ants.ErrLackPoolFunc, ants.ErrInvalidPoolExpiry, ants.ErrPoolClosed, ants.ErrPoolOverload,
		ants.ErrInvalidPreAllocSize, ants.ErrTimeout, ants.ErrInvalidPoolIndex,
		ants.ErrInvalidLoadBalancingStrategy, ants.ErrInvalidMultiPoolSize}
	_                                     = []ants.LoadBalancingStrategy{ants.RoundRobin, ants.LeastTasks}
	_                                     = ants.Options{ExpiryDuration: 0, PreAlloc: false, MaxBlockingTasks: 0, Nonblocking: false, PanicHandler: nil, Logger: nil, DisablePurge: false}
	_ interface{ Printf(string, ...any) } = ants.Logger(nil)

	_ func(func()) error              = ants.Submit
	_ func() int                      = ants.Running
	_ func() int                      = ants.Cap
	_ func() int                      = ants.Free
	_ func()                          = ants.Release
	_ func(time.Duration) error       = ants.ReleaseTimeout
	_ func(context.Context) error     = ants.ReleaseContext
	_ func()                          = ants.Reboot
	_ func(ants.Options) ants.Option  = ants.WithOptions
	_ func(time.Duration) ants.Option = ants.WithExpiryDuration
	_ func(bool) ants.Option          = ants.WithPreAlloc
	_ func(int) ants.Option           = ants.WithMaxBlockingTasks
	_ func(bool) ants.Option          = ants.WithNonblocking
	_ func(func(any)) ants.Option     = ants.WithPanicHandler
	_ func(ants.Logger) ants.Option   = ants.WithLogger
	_ func(bool) ants.Option          = ants.WithDisablePurge

	_ func(int, ...ants.Option) (*ants.Pool, error)                                                                      = ants.NewPool
	_ func(int, func(any), ...ants.Option) (*ants.PoolWithFunc, error)                                                   = ants.NewPoolWithFunc
	_ func(int, func(int), ...ants.Option) (*ants.PoolWithFuncGeneric[int], error)                                       = ants.NewPoolWithFuncGeneric[int]
	_ func(int, int, ants.LoadBalancingStrategy, ...ants.Option) (*ants.MultiPool, error)                                = ants.NewMultiPool
	_ func(int, int, func(any), ants.LoadBalancingStrategy, ...ants.Option) (*ants.MultiPoolWithFunc, error)             = ants.NewMultiPoolWithFunc
	_ func(int, int, func(int), ants.LoadBalancingStrategy, ...ants.Option) (*ants.MultiPoolWithFuncGeneric[int], error) = ants.NewMultiPoolWithFuncGeneric[int]

	_ interface {
		common
		Release()
		Submit(func()) error
	} = (*ants.Pool)(nil)
	_ interface {
		common
		Release()
		Invoke(any) error
	} = (*ants.PoolWithFunc)(nil)
	_ interface {
		common
		Release()
		Invoke(int) error
	} = (*ants.PoolWithFuncGeneric[int])(nil)
	_ interface {
		multi
		Submit(func()) error
	} = (*ants.MultiPool)(nil)
	_ interface {
		multi
		Invoke(any) error
	} = (*ants.MultiPoolWithFunc)(nil)
	_ interface {
		multi
		Invoke(int) error
	} = (*ants.MultiPoolWithFuncGeneric[int])(nil)
)

func newPool(t *testing.T, size int, opts ...ants.Option) *ants.Pool {
	t.Helper()
	p, err := ants.NewPool(size, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// From ants' README: the default pool, and a pool with a function.
func Example() {
	defer ants.Release()

	var sum atomic.Int32
	runTimes := 1000
	var wg sync.WaitGroup
	for i := 0; i < runTimes; i++ {
		wg.Add(1)
		_ = ants.Submit(func() {
			sum.Add(1)
			wg.Done()
		})
	}
	wg.Wait()
	fmt.Println("finish all tasks,", sum.Load())

	p, _ := ants.NewPoolWithFunc(10, func(i any) {
		sum.Add(i.(int32))
		wg.Done()
	})
	defer p.Release()
	for i := 0; i < runTimes; i++ {
		wg.Add(1)
		_ = p.Invoke(int32(1))
	}
	wg.Wait()
	fmt.Println("finish all tasks, result is", sum.Load())
	// Output:
	// finish all tasks, 1000
	// finish all tasks, result is 2000
}

func TestSubmitBlocksWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2)
		counts := func() [4]int { return [4]int{p.Running(), p.Free(), p.Waiting(), p.Cap()} }
		expect.Equal(t, "at first", counts(), [4]int{0, 2, 0, 2})
		for range 2 {
			expect.Equal(t, "Submit", p.Submit(func() { time.Sleep(time.Second) }), nil)
		}
		expect.Equal(t, "full", counts(), [4]int{2, 0, 0, 2})
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { expect.Equal(t, "Submit", p.Submit(func() {}), nil) })
		synctest.Wait()
		expect.Equal(t, "with a submitter", counts(), [4]int{2, 0, 1, 2})
		wg.Wait()
		expect.Equal(t, "it waited", time.Since(start), time.Second)
		expect.Equal(t, "Submit(nil)", p.Submit(nil), nil)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		expect.Equal(t, "idle", counts(), [4]int{0, 2, 0, 2}) // by ExpiryDuration
		p.Release()
		expect.Equal(t, "Submit", p.Submit(func() {}), ants.ErrPoolClosed)
		expect.Equal(t, "Submit(nil)", p.Submit(nil), ants.ErrPoolClosed)
	})
}

func TestNonblockingAndMaxBlockingTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1, ants.WithNonblocking(true))
		expect.Equal(t, "Submit", p.Submit(func() { time.Sleep(time.Second) }), nil)
		expect.Equal(t, "Submit", p.Submit(func() {}), ants.ErrPoolOverload)
		expect.Equal(t, "Submit(nil)", p.Submit(nil), ants.ErrPoolOverload)
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)

		p = newPool(t, 1, ants.WithMaxBlockingTasks(2))
		expect.Equal(t, "Submit", p.Submit(func() { time.Sleep(time.Second) }), nil)
		var overload atomic.Int32
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if p.Submit(func() {}) == ants.ErrPoolOverload {
					overload.Add(1)
				}
			})
		}
		synctest.Wait()
		expect.Equal(t, "waiting", p.Waiting(), 2)
		expect.Equal(t, "refused", overload.Load(), 8)
		wg.Wait()
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
	})
}

func TestReleaseAndReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2)
		p.Reboot() // of an open pool: nothing
		var ran atomic.Int32
		for range 2 {
			p.Submit(func() { time.Sleep(time.Second); ran.Add(1) })
		}
		var wg sync.WaitGroup
		wg.Go(func() { expect.Equal(t, "a submitter that waits", p.Submit(func() {}), ants.ErrPoolClosed) })
		synctest.Wait()
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Millisecond), ants.ErrTimeout)
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Millisecond), ants.ErrPoolClosed)
		expect.Equal(t, "IsClosed", p.IsClosed(), true)
		wg.Wait()
		p.Reboot() // it waits
		expect.Equal(t, "tasks that ran", ran.Load(), 2)
		expect.Equal(t, "IsClosed", p.IsClosed(), false)
		expect.Equal(t, "Submit", p.Submit(func() { ran.Add(1) }), nil)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.ReleaseContext(ctx); err == nil { // the task had ended
			expect.Equal(t, "tasks that ran", ran.Load(), 3)
		} else {
			expect.Equal(t, "ReleaseContext", err, context.Canceled)
		}
		p.Release()
		p.Reboot()
		expect.Equal(t, "ReleaseContext(nil)", p.ReleaseContext(nil), nil) //lint:ignore SA1012 as documented
		expect.Equal(t, "tasks that ran", ran.Load(), 3)
	})
}

func TestTasksOfAPoolThatIsRebooted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 2)
		p.Submit(func() { time.Sleep(time.Second); p.Tune(5); p.Release() })
		p.Release()
		done := make(chan struct{})
		go func() { p.Reboot(); close(done) }()
		synctest.Wait()
		expect.Equal(t, "ReleaseTimeout meanwhile", p.ReleaseTimeout(time.Millisecond), ants.ErrPoolClosed)
		<-done
		expect.Equal(t, "Cap", p.Cap(), 5)
		expect.Equal(t, "IsClosed", p.IsClosed(), false)
		p.Release()
	})
}

// TestRebootByThePool: a task and the panic handler do not wait for their own end.
func TestRebootByThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reboot := make(chan struct{}, 2)
		var p *ants.Pool
		again := func() { p.Release(); p.Reboot(); reboot <- struct{}{} }
		p = newPool(t, 1, ants.WithPanicHandler(func(any) { again() }))
		p.Submit(again)
		<-reboot
		expect.Equal(t, "Submit after Reboot in a task", p.Submit(func() { panic("for the handler") }), nil)
		<-reboot
		expect.Equal(t, "IsClosed after Reboot in the handler", p.IsClosed(), false)
		p.Release()
	})
}

// TestManyReboots: one that comes while another one reopens the pool neither waits for the end of the pool that
// is open by then, nor reopens that after its end.
func TestManyReboots(t *testing.T) {
	p := newPool(t, 2)
	var wg sync.WaitGroup
	for range 30_000 {
		p.Release()
		for range 4 {
			wg.Go(p.Reboot)
		}
		wg.Wait()
	}
	p.Release()
}

func TestTune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1)
		release := make(chan struct{})
		task := func() { <-release }
		p.Submit(task)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { p.Submit(task) })
		}
		synctest.Wait()
		expect.Equal(t, "waiting", p.Waiting(), 2)
		p.Tune(3)
		wg.Wait()
		expect.Equal(t, "running", p.Running(), 3)
		synctest.Wait() // the third one has started
		expect.Equal(t, "Cap", p.Cap(), 3)
		p.Tune(0)
		p.Tune(-1)
		expect.Equal(t, "Cap", p.Cap(), 3)
		p.Tune(1)
		expect.Equal(t, "Free", p.Free(), -2) // as there, until tasks end
		close(release)
		synctest.Wait()
		expect.Equal(t, "running", p.Running(), 1)
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
		p.Tune(2)
		p.Reboot()
		expect.Equal(t, "Free", p.Free(), 2)
		p.Release()

		for _, p := range []*ants.Pool{newPool(t, 0), newPool(t, 5, ants.WithPreAlloc(true))} {
			n := p.Cap()
			p.Tune(7)
			expect.Equal(t, "Cap", p.Cap(), n)
			p.Release()
		}
	})
}

func TestUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, -1, ants.WithDisablePurge(true))
		expect.Equal(t, "Cap", p.Cap(), -1)
		expect.Equal(t, "Free", p.Free(), -1)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Add(1)
			p.Submit(func() { time.Sleep(time.Second); wg.Done() })
		}
		start := time.Now()
		wg.Wait()
		expect.Equal(t, "1000 tasks of 1 s took", time.Since(start), time.Second)
		time.Sleep(time.Hour)
		expect.Equal(t, "running", p.Running(), 1000) // not purged
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Second), nil)
	})
}

func TestErrors(t *testing.T) {
	_, err := ants.NewPool(-1, ants.WithPreAlloc(true))
	expect.Equal(t, "error", err, ants.ErrInvalidPreAllocSize)
	_, err = ants.NewPool(1, ants.WithExpiryDuration(-1))
	expect.Equal(t, "error", err, ants.ErrInvalidPoolExpiry)
	_, err = ants.NewPoolWithFunc(1, nil)
	expect.Equal(t, "error", err, ants.ErrLackPoolFunc)
	_, err = ants.NewPoolWithFuncGeneric[int](1, nil)
	expect.Equal(t, "error", err, ants.ErrLackPoolFunc)
	_, err = ants.NewMultiPool(0, 1, ants.RoundRobin)
	expect.Equal(t, "error", err, ants.ErrInvalidMultiPoolSize)
	_, err = ants.NewMultiPool(1, 1, 8)
	expect.Equal(t, "error", err, ants.ErrInvalidLoadBalancingStrategy)
	_, err = ants.NewMultiPool(2, 1, ants.RoundRobin, ants.WithExpiryDuration(-1))
	expect.Equal(t, "error", err, ants.ErrInvalidPoolExpiry)
	_, err = ants.NewMultiPoolWithFunc(2, 1, nil, ants.RoundRobin)
	expect.Equal(t, "error", err, ants.ErrLackPoolFunc)
}

type lines struct {
	sync.Mutex
	text strings.Builder
}

func (l *lines) Printf(format string, args ...any) {
	l.Lock()
	defer l.Unlock()
	fmt.Fprintf(&l.text, format, args...)
}

func TestPanicsAndGoexit(t *testing.T) {
	var l lines
	p := newPool(t, 1, ants.WithLogger(&l))
	p.Submit(func() { panic("so") })
	p.Submit(runtime.Goexit)
	expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
	if s := l.text.String(); !strings.HasPrefix(s, "worker exits from panic: so\ngoroutine") {
		t.Errorf("logged %q", s)
	}
	got := make(chan any, 1)
	p = newPool(t, 1, ants.WithOptions(ants.Options{PanicHandler: func(v any) { got <- v }}))
	p.Submit(func() { panic(7) })
	expect.Equal(t, "the handler got", <-got, any(7))
	p.Release()
}

func TestPoolsWithAFunction(t *testing.T) {
	var sum atomic.Int64
	p, err := ants.NewPoolWithFuncGeneric(2, func(n int) { sum.Add(int64(n)) })
	expect.Equal(t, "error", err, nil)
	for range 2 {
		for i := range 101 {
			expect.Equal(t, "Invoke", p.Invoke(i), nil)
		}
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
		expect.Equal(t, "Invoke", p.Invoke(1), ants.ErrPoolClosed)
		p.Reboot()
	}
	p.Release()
	expect.Equal(t, "sum", sum.Load(), 2*5050)
	q, _ := ants.NewPoolWithFunc(1, func(v any) { sum.Add(int64(v.(int))) })
	expect.Equal(t, "Invoke(nil)", q.Invoke(nil), nil)
	q.Release()
	expect.Equal(t, "Invoke(nil)", q.Invoke(nil), ants.ErrPoolClosed)
	if n := testing.AllocsPerRun(100, func() { p.Invoke(1) }); n != 0 {
		t.Errorf("Invoke of a closed pool makes %v allocations", n)
	}
}

func TestATaskSubmitsToItsFullPool(t *testing.T) { // H2: it waits for ever there
	p := newPool(t, 1)
	done := make(chan struct{})
	p.Submit(func() {
		for range 3 {
			p.Submit(func() { p.Submit(func() {}) })
		}
		close(done)
	})
	<-done
	expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
}

func TestManySubmittersOfASmallPool(t *testing.T) {
	const submitters, each = 32, 200
	p := newPool(t, 2)
	f, err := ants.NewPoolWithFuncGeneric(2, func(task func()) { task() })
	expect.Equal(t, "error", err, nil)
	for name, submit := range map[string]func(func()) error{"Submit": p.Submit, "Invoke": f.Invoke} {
		var ran atomic.Int32
		var wg sync.WaitGroup
		for range submitters {
			wg.Go(func() {
				for i := range each {
					err := submit(func() {
						ran.Add(1)
						if i%8 == 0 { // both workers may do so while others wait for one
							expect.Equal(t, name+": error within a task", submit(func() { ran.Add(1) }), nil)
						}
					})
					expect.Equal(t, name+": error", err, nil)
				}
			})
		}
		for i := range 100 {
			p.Tune(1 + i%3)
			f.Tune(1 + i%3)
			runtime.Gosched()
		}
		wg.Wait()
		for ran.Load() < submitters*each*9/8 { // all that were accepted run
			runtime.Gosched()
		}
		expect.Equal(t, name+": waiting", p.Waiting()+f.Waiting(), 0)
	}
	expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
	expect.Equal(t, "ReleaseTimeout", f.ReleaseTimeout(time.Minute), nil)
}

func TestWhoWaitsIsNotLeftBehind(t *testing.T) {
	p := newPool(t, 1)
	var served atomic.Bool
	var busy, wg sync.WaitGroup
	for range 2 {
		busy.Go(func() { // there is hardly ever a moment with a worker free
			for !served.Load() {
				expect.Equal(t, "Submit", p.Submit(func() {}), nil)
			}
		})
	}
	for range 8 {
		wg.Go(func() {
			for range 100 {
				expect.Equal(t, "Submit", p.Submit(func() {}), nil)
			}
		})
	}
	wg.Wait()
	served.Store(true)
	busy.Wait()
	expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
}

func TestNobodyMayWait(t *testing.T) {
	p := newPool(t, 1, ants.WithMaxBlockingTasks(-1))
	gate := make(chan struct{})
	expect.Equal(t, "Submit", p.Submit(func() { <-gate }), nil)
	expect.Equal(t, "Submit", p.Submit(func() {}), ants.ErrPoolOverload)
	close(gate)
	expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
}

func TestWhoseTaskRunsDoesNotWait(t *testing.T) {
	for range 100 {
		p, q := newPool(t, 1), newPool(t, 1, ants.WithMaxBlockingTasks(1))
		for _, p := range []*ants.Pool{p, q} {
			gate, done := make(chan struct{}), make(chan error, 1)
			expect.Equal(t, "Submit", p.Submit(func() { <-gate }), nil)
			var wg sync.WaitGroup
			wg.Go(func() {
				p.Submit(func() {
					expect.Equal(t, "waiting", p.Waiting(), 0)
					go func() { done <- p.Submit(func() {}) }() // one may
					for p.Waiting() == 0 && len(done) == 0 {
						runtime.Gosched()
					}
				})
			})
			for p.Waiting() == 0 {
				runtime.Gosched()
			}
			close(gate)
			expect.Equal(t, "Submit", <-done, nil)
			wg.Wait()
			expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
		}
	}
}

func TestAPoolMadeOutsideABubble(t *testing.T) {
	p := newPool(t, 1)
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { expect.Equal(t, "Submit", p.Submit(func() { time.Sleep(time.Second) }), nil) })
		}
		wg.Wait()
		p.Release() // and its worker goes
		time.Sleep(time.Second)
	})
}

func TestSubmittersOfAPoolThatIsRebooted(t *testing.T) {
	p := newPool(t, 2)
	f, err := ants.NewPoolWithFuncGeneric(2, func(task func()) { task() })
	expect.Equal(t, "error", err, nil)
	var accepted, ran atomic.Int64
	var over atomic.Bool
	var wg sync.WaitGroup
	count := func(err error) {
		if err == nil {
			accepted.Add(1)
		} else {
			expect.Equal(t, "error", err, ants.ErrPoolClosed)
			runtime.Gosched()
		}
	}
	for i := range 10 {
		submit := []func(func()) error{p.Submit, f.Invoke}[i%2]
		wg.Go(func() {
			for !over.Load() {
				count(submit(func() {
					ran.Add(1)
					count(submit(func() { ran.Add(1) }))
				}))
			}
		})
	}
	for range 200 {
		for range 20 {
			runtime.Gosched()
		}
		p.Release()
		f.Release()
		p.Reboot()
		f.Reboot()
	}
	over.Store(true)
	wg.Wait()
	expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
	expect.Equal(t, "ReleaseTimeout", f.ReleaseTimeout(time.Minute), nil)
	expect.Equal(t, "waiting", p.Waiting()+f.Waiting(), 0)
	expect.Equal(t, "tasks that ran", ran.Load(), accepted.Load())
}

func TestReleaseRefusesAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, 1)
		expect.Equal(t, "Submit", p.Submit(func() { time.Sleep(time.Second) }), nil)
		var refused atomic.Int32
		for range 100 {
			go func() {
				if p.Submit(func() { t.Error("a task of a pool that is released") }) == ants.ErrPoolClosed {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		expect.Equal(t, "waiting", p.Waiting(), 100)
		p.Release()
		synctest.Wait() // before the task has ended
		expect.Equal(t, "refused", refused.Load(), 100)
		expect.Equal(t, "waiting", p.Waiting(), 0)
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(0), ants.ErrPoolClosed)
		time.Sleep(time.Second)
	})
}

func TestNoGoroutinesOfAnIdlePool(t *testing.T) { // H23
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		p := newPool(t, 5)
		expect.AtMost(t, "goroutines", before)
		p.Release()
	})
}

func TestSubmitRacingRelease(t *testing.T) { // H3
	for range 200 {
		p := newPool(t, 2)
		var accepted, ran atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for p.Submit(func() { ran.Add(1) }) == nil {
					accepted.Add(1)
				}
			})
		}
		runtime.Gosched()
		expect.Equal(t, "ReleaseTimeout", p.ReleaseTimeout(time.Minute), nil)
		wg.Wait()
		expect.Equal(t, "tasks that ran", ran.Load(), accepted.Load())
	}
}

func TestMultiPools(t *testing.T) {
	for _, lbs := range []ants.LoadBalancingStrategy{ants.RoundRobin, ants.LeastTasks} {
		synctest.Test(t, func(t *testing.T) {
			m, err := ants.NewMultiPool(5, 2, lbs, ants.WithNonblocking(true))
			expect.Equal(t, "error", err, nil)
			for range 2 {
				release := make(chan struct{})
				for range 10 {
					expect.Equal(t, "Submit", m.Submit(func() { <-release }), nil)
				}
				expect.Equal(t, "Submit", m.Submit(func() {}), ants.ErrPoolOverload)
				expect.Equal(t, "counts", [4]int{m.Running(), m.Free(), m.Waiting(), m.Cap()}, [4]int{10, 0, 0, 10})
				for i := range 5 {
					n, err := m.RunningByIndex(i)
					expect.Equal(t, "RunningByIndex", n, 2)
					expect.Equal(t, "error", err, nil)
				}
				n, err := m.FreeByIndex(5)
				expect.Equal(t, "FreeByIndex", n, -1)
				expect.Equal(t, "error", err, ants.ErrInvalidPoolIndex)
				_, err = m.WaitingByIndex(-1)
				expect.Equal(t, "error", err, ants.ErrInvalidPoolIndex)
				err = m.ReleaseTimeout(time.Millisecond)
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "pool 0: context deadline exceeded | pool 1: ") {
					t.Errorf("ReleaseTimeout = %v", err)
				}
				expect.Equal(t, "ReleaseTimeout", m.ReleaseTimeout(0), ants.ErrPoolClosed)
				expect.Equal(t, "Submit", m.Submit(func() {}), ants.ErrPoolClosed)
				close(release)
				m.Reboot()
				m.Reboot()
			}
			m.Tune(3)
			expect.Equal(t, "Cap", m.Cap(), 15)
			expect.Equal(t, "ReleaseContext", m.ReleaseContext(context.Background()), nil)
			expect.Equal(t, "IsClosed", m.IsClosed(), true)
		})
	}
	var sum atomic.Int64
	f, _ := ants.NewMultiPoolWithFunc(3, 2, func(v any) { sum.Add(int64(v.(int))) }, ants.RoundRobin)
	g, _ := ants.NewMultiPoolWithFuncGeneric(3, 2, func(v int) { sum.Add(int64(v)) }, ants.LeastTasks)
	for i := range 101 {
		expect.Equal(t, "Invoke", f.Invoke(i), nil)
		expect.Equal(t, "Invoke", g.Invoke(i), nil)
	}
	expect.Equal(t, "ReleaseTimeout", f.ReleaseTimeout(time.Minute), nil)
	expect.Equal(t, "ReleaseTimeout", g.ReleaseTimeout(time.Minute), nil)
	expect.Equal(t, "sum", sum.Load(), 2*5050)
}

func TestMaxBlockingTasksCountsThoseThatWait(t *testing.T) {
	p, err := ants.NewPool(1, ants.WithMaxBlockingTasks(1))
	if err != nil {
		t.Fatal(err)
	}
	f, err := ants.NewPoolWithFunc(1, func(f any) { f.(func())() }, ants.WithMaxBlockingTasks(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, submit := range map[string]func(func()) error{
		"Pool":         p.Submit,
		"PoolWithFunc": func(task func()) error { return f.Invoke(task) },
	} {
		var inner error
		done := make(chan struct{})
		submit(func() {
			submit(func() { // there is no worker: it runs here
				inner = submit(func() {})
				close(done)
			})
		})
		<-done
		if inner != nil {
			t.Errorf("%s: a task within a task, of which none waits: %v", name, inner)
		}
	}
	p.Release()
	f.Release()
}

// TestMaxBlockingTasksDoesNotCountTasks: a task that finds its own pool full runs the new task, also while as many
// others wait as may.
func TestMaxBlockingTasksDoesNotCountTasks(t *testing.T) {
	p := newPool(t, 1, ants.WithMaxBlockingTasks(1))
	began, waits, over := make(chan struct{}), make(chan struct{}), make(chan error)
	p.Submit(func() {
		close(began)
		<-waits
		over <- p.Submit(func() {})
	})
	<-began
	go func() { over <- p.Submit(func() {}) }()
	for p.Waiting() == 0 {
		runtime.Gosched()
	}
	close(waits)
	for range 2 {
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

func TestPanicHandlerThatPanicsEndsTheProcess(t *testing.T) {
	expect.Crash(t, "shoal: task panicked: so; the panic handler panicked: the handler too", func() {
		p := newPool(t, 1, ants.WithPanicHandler(func(any) { panic("the handler too") }))
		p.Submit(func() { panic("so") })
		p.Submit(func() { os.Exit(0) }) // the worker goes on
		select {}
	})
}

// TestARebootedMultiPoolBeginsWithPool1, as in ants: a new one begins with pool 0.
func TestARebootedMultiPoolBeginsWithPool1(t *testing.T) {
	m, err := ants.NewMultiPool(2, 1, ants.RoundRobin)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.ReleaseTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	m.Reboot()
	gate, began := make(chan struct{}), make(chan struct{})
	if err := m.Submit(func() { close(began); <-gate }); err != nil {
		t.Fatal(err)
	}
	<-began
	if n, _ := m.RunningByIndex(1); n != 1 {
		t.Errorf("pool 1 runs %d tasks, want 1 as in ants", n)
	}
	close(gate)
	if err := m.ReleaseTimeout(time.Minute); err != nil {
		t.Error(err)
	}
}
