package flock_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/compat/flock"
	"github.com/shoal-go/shoal/compat/internal/expect"
	"github.com/shoal-go/shoal/internal/testpool"
)

// Every exported name of the page, with its type.
var (
	_ = []*flock.PoolError{flock.ErrPoolShutdown, flock.ErrQueueFull, flock.ErrNilTask, flock.ErrTimeout}
	_ = []flock.BlockingStrategy{flock.BlockWhenQueueFull, flock.ErrorWhenQueueFull, flock.NewThreadWhenQueueFull, flock.BlockingStrategy(int32(0))}
	_ = [4]int{flock.StateRunning: 0, flock.StateSpinning: 1, flock.StateParked: 2, flock.StateShutdown: 3}
	_ = flock.PoolState(uint32(0))

	_ func(int) flock.Option                     = flock.WithNumWorkers
	_ func(int) flock.Option                     = flock.WithQueueSizePerWorker
	_ func(flock.BlockingStrategy) flock.Option  = flock.WithBlockingStrategy
	_ func(time.Duration) flock.Option           = flock.WithMaxParkTime
	_ func(int) flock.Option                     = flock.WithSpinCount
	_ func(bool) flock.Option                    = flock.WithPinWorkerThreads
	_ func(func(interface{})) flock.Option       = flock.WithPanicHandler
	_ func(func(int), func(int)) flock.Option    = flock.WithWorkerHooks
	_ func(...flock.Option) (*flock.Pool, error) = flock.NewPool
	_ interface {
		Submit(func()) error
		Wait()
		Shutdown(bool)
		Stats() flock.Stats
		IsShutdown() bool
		NumWorkers() int
	} = (*flock.Pool)(nil)
)

func newPool(t *testing.T, opts ...flock.Option) *flock.Pool {
	t.Helper()
	p, err := flock.NewPool(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The complete example of the page, with shorter tasks and less output.
func TestThePage(t *testing.T) {
	log.SetOutput(&strings.Builder{})
	pool, err := flock.NewPool(
		flock.WithNumWorkers(runtime.NumCPU()*2),
		flock.WithQueueSizePerWorker(1024),
		flock.WithBlockingStrategy(flock.ErrorWhenQueueFull),
		flock.WithPanicHandler(func(r interface{}) {
			log.Printf("Task panicked: %v", r)
		}),
		flock.WithWorkerHooks(
			func(id int) { log.Printf("Worker %d started", id) },
			func(id int) { log.Printf("Worker %d stopped", id) },
		),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Shutdown(true)

	var ran atomic.Int64
	for i := 0; i < 10000; i++ {
		err := pool.Submit(func() { ran.Add(1) })
		if err == flock.ErrQueueFull {
			runtime.Gosched()
			i-- // Retry
		} else if err != nil {
			log.Printf("Submit error: %v", err)
		}
	}
	pool.Wait()

	stats := pool.Stats()
	text := fmt.Sprintf("%d %d %d %v %v %.2f %d", stats.Submitted-stats.Rejected, stats.Completed, stats.InFlight, stats.LatencyAvg <= stats.LatencyMax, stats.LatencyMax > 0, stats.Utilization, stats.Dropped)
	expect.Equal(t, "the statistics", text, "10000 10000 0 true true 0.00 0")
	for _, ws := range stats.WorkerStats {
		_ = fmt.Sprintf("Worker %d: %d executed, %d failed, state=%s\n",
			ws.WorkerID, ws.TasksExecuted, ws.TasksFailed, ws.State)
	}
	expect.Equal(t, "workers", len(stats.WorkerStats), runtime.NumCPU()*2)
	expect.Equal(t, "tasks that ran", ran.Load(), 10000)
}

func TestDefaults(t *testing.T) {
	p := newPool(t, nil)
	s := p.Stats()
	expect.Equal(t, "workers", p.NumWorkers(), runtime.NumCPU())
	expect.Equal(t, "workers", s.NumWorkers, runtime.NumCPU())
	own := 256 * runtime.NumCPU()
	expect.Equal(t, "capacity", s.TotalQueueCapacity, own+max(256, own/4))
	expect.Equal(t, "Submit(nil)", p.Submit(nil), error(flock.ErrNilTask))
	expect.Equal(t, "IsShutdown", p.IsShutdown(), false)
	p.Shutdown(true)
	expect.Equal(t, "IsShutdown", p.IsShutdown(), true)
	expect.Equal(t, "Submit", p.Submit(func() {}), error(flock.ErrPoolShutdown))
}

func TestOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]flock.Option{
		"NumWorkers is -1":                        flock.WithNumWorkers(-1),
		"NumWorkers is 0":                         flock.WithNumWorkers(0),
		"NumWorkers is 10001":                     flock.WithNumWorkers(10001),
		"QueueSizePerWorker is 0":                 flock.WithQueueSizePerWorker(0),
		"QueueSizePerWorker is 100: want a power": flock.WithQueueSizePerWorker(100),
		"BlockingStrategy is 3":                   flock.WithBlockingStrategy(3),
		"MaxParkTime is 0s":                       flock.WithMaxParkTime(0),
		"MaxParkTime is 2m0s":                     flock.WithMaxParkTime(2 * time.Minute),
		"SpinCount is -1":                         flock.WithSpinCount(-1),
	} {
		p, err := flock.NewPool(o)
		var e *flock.PoolError
		if p != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	newPool(t, flock.WithPinWorkerThreads(true), flock.WithNumWorkers(1)).Shutdown(false)
}

func TestStrategies(t *testing.T) {
	const own, shared = 4, 256 // places in the queue
	for s, want := range map[flock.BlockingStrategy]string{
		flock.BlockWhenQueueFull:     "262 submitted, 0 rejected, 257 fallback, waited 1s",
		flock.ErrorWhenQueueFull:     "262 submitted, 1 rejected, 256 fallback, waited 0s",
		flock.NewThreadWhenQueueFull: "262 submitted, 0 rejected, 257 fallback, waited 0s",
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, flock.WithNumWorkers(1), flock.WithQueueSizePerWorker(own), flock.WithBlockingStrategy(s))
			p.Submit(func() { time.Sleep(time.Second) })
			synctest.Wait()
			start := time.Now()
			for i := range own + shared + 1 {
				err := p.Submit(func() { time.Sleep(time.Second) })
				if full := s == flock.ErrorWhenQueueFull && i == own+shared; full != (err == flock.ErrQueueFull) {
					t.Errorf("Submit %d = %v", i, err)
				}
			}
			st := p.Stats()
			expect.Equal(t, "counters", fmt.Sprintf("%d submitted, %d rejected, %d fallback, waited %v", st.Submitted, st.Rejected, st.FallbackExecuted, time.Since(start)), want)
			expect.Equal(t, "utilization", st.Utilization, 100)
			expect.Equal(t, "depth", st.TotalQueueDepth, own+shared)
			expect.Equal(t, "capacity", st.TotalQueueCapacity, own+shared)
			expect.Equal(t, "capacity of the worker", st.WorkerStats[0].Capacity, own)
			p.Wait()
			st = p.Stats()
			expect.Equal(t, "in flight", st.InFlight, 0) // H10
			expect.Equal(t, "the identity", st.Submitted, st.Completed+st.Dropped+st.Rejected)
			expect.Equal(t, "latency", st.LatencyMax >= time.Second, true)
			p.Shutdown(true)
		})
	}
}

func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, flock.WithNumWorkers(2))
		states := func() string {
			synctest.Wait()
			w := p.Stats().WorkerStats
			return fmt.Sprintf("%s %s %v", w[0].State, w[1].State, p.IsShutdown())
		}
		expect.Equal(t, "idle", states(), "PARKED PARKED false")
		release := make(chan struct{})
		for range 2 {
			p.Submit(func() { <-release })
		}
		expect.Equal(t, "busy", states(), "RUNNING RUNNING false")
		var wg sync.WaitGroup
		wg.Go(func() { p.Shutdown(true) })
		expect.Equal(t, "draining", states(), "RUNNING RUNNING false")
		expect.Equal(t, "Submit", p.Submit(func() {}), error(flock.ErrPoolShutdown))
		close(release)
		wg.Wait()
		expect.Equal(t, "shut down", states(), "SHUTDOWN SHUTDOWN true")

		p = newPool(t, flock.WithNumWorkers(2))
		release = make(chan struct{})
		p.Submit(func() { <-release })
		wg.Go(func() { p.Shutdown(false) })
		synctest.Wait()
		expect.Equal(t, "IsShutdown while a task runs on", p.IsShutdown(), true)
		close(release)
		wg.Wait()
	})
}

func TestShutdownInAnyOrder(t *testing.T) { // H4
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, flock.WithNumWorkers(1))
		for range 5 {
			p.Submit(func() { time.Sleep(time.Second) })
		}
		var wg sync.WaitGroup
		wg.Go(func() { p.Shutdown(true) })
		time.Sleep(1500 * time.Millisecond)
		p.Shutdown(false)
		wg.Wait()
		s := p.Stats()
		expect.Equal(t, "completed", s.Completed, 2)
		expect.Equal(t, "dropped", s.Dropped, 3)
		p.Shutdown(true)
	})
}

func TestPanicHandlerThatPanicsEndsTheProcess(t *testing.T) { // H24
	expect.Crash(t, "shoal: task panicked: so; the panic handler panicked: the handler too", func() {
		p, err := flock.NewPool(flock.WithNumWorkers(1), flock.WithPanicHandler(func(any) { panic("the handler too") }))
		if err != nil {
			t.Fatal(err)
		}
		p.Submit(func() { panic("so") })
		p.Submit(func() { os.Exit(0) }) // the worker goes on
		select {}
	})
}

func TestHooksAndFaults(t *testing.T) { // H1
	var mu sync.Mutex
	started, stopped := make(map[int]int), make(map[int]int)
	note := func(m map[int]int) func(int) {
		return func(id int) { mu.Lock(); m[id]++; mu.Unlock() }
	}
	var handled atomic.Int32
	p := newPool(t, flock.WithNumWorkers(2), flock.WithWorkerHooks(note(started), note(stopped)),
		flock.WithPanicHandler(func(r interface{}) { handled.Add(1) }))
	for range 10 {
		p.Submit(runtime.Goexit)
		p.Submit(func() { panic("so") })
		p.Submit(func() {})
	}
	p.Wait()
	p.Shutdown(true)
	s := p.Stats()
	expect.Equal(t, "completed", s.Completed, 30)
	expect.Equal(t, "panics", handled.Load(), 10)
	n, m := 0, 0
	for id := range started {
		n, m = n+started[id], m+stopped[id]
	}
	expect.Equal(t, "stop hooks", m, n)
	expect.Equal(t, "start hooks of both workers", n >= 2, true)
	var executed, failed uint64
	for i, w := range s.WorkerStats { // also after Shutdown
		expect.Equal(t, "worker id", w.WorkerID, i)
		executed += w.TasksExecuted
		failed += w.TasksFailed
	}
	expect.Equal(t, "workers", len(s.WorkerStats), 2)
	expect.Equal(t, "tasks of the workers", executed, 30)
	expect.Equal(t, "failed tasks of the workers", failed, 20)
}

func TestSubmitWhileShutdownAndWaitRun(t *testing.T) { // H3, H5, H8
	for i := range 60 {
		p := newPool(t, flock.WithNumWorkers(2), flock.WithQueueSizePerWorker(4), flock.WithBlockingStrategy(flock.BlockingStrategy(i%3)))
		var accepted, ran atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					switch p.Submit(func() { ran.Add(1) }) {
					case nil:
						accepted.Add(1)
					case flock.ErrPoolShutdown:
						return
					}
				}
			})
			wg.Go(p.Wait)
		}
		runtime.Gosched()
		p.Shutdown(true)
		wg.Wait()
		expect.Equal(t, "tasks that ran", ran.Load(), accepted.Load())
	}
}

func TestNoTaskWaitsBehindATask(t *testing.T) { // H7, H9
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, flock.WithNumWorkers(2))
		release := make(chan struct{})
		p.Submit(func() { <-release })
		start := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Add(1)
			p.Submit(wg.Done)
		}
		wg.Wait()
		expect.Equal(t, "it took", time.Since(start), 0)
		close(release)
		p.Submit(func() { p.Wait(); p.Shutdown(true) }) // H30
		p.Shutdown(true)
	})
}

func TestFullPoolOfSubmitters(t *testing.T) { // H11
	p := newPool(t, flock.WithNumWorkers(2), flock.WithQueueSizePerWorker(1))
	var ran atomic.Int32
	for range 10 {
		p.Submit(func() {
			for range 10 {
				p.Submit(func() { ran.Add(1) })
			}
		})
	}
	p.Wait()
	expect.Equal(t, "tasks that ran", ran.Load(), 100)
	p.Shutdown(true)
}

// A worker that leaves looks at its own row alone, so the work of Shutdown grows with the
// workers. Copies of all rows would take gigabytes.
func TestShutdownOfManyWorkersCopiesNoRows(t *testing.T) {
	n := 10_000
	if testpool.Race {
		n = 1000 // the race detector allows 8,128 goroutines
	}
	p := newPool(t, flock.WithNumWorkers(n))
	started, release := make(chan struct{}), make(chan struct{})
	for range n {
		p.Submit(func() { started <- struct{}{}; <-release })
	}
	for range n {
		<-started
	}
	close(release)
	p.Wait()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.Shutdown(true)
	runtime.ReadMemStats(&after)
	expect.Equal(t, "bytes for each worker are few", (after.TotalAlloc-before.TotalAlloc)/uint64(n) < 10_000, true)
	for _, w := range p.Stats().WorkerStats {
		if w.TasksExecuted != 1 || w.State != "SHUTDOWN" {
			t.Fatalf("%+v", w)
		}
	}
}
