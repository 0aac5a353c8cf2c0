// Package flock has the API that the page of github.com/tahsin716/flock
// documents, on the engine of shoal. A program that uses it changes its import
// path,
//
//	import "github.com/shoal-go/shoal/compat/flock"
//
// and nothing else. That page holds, with these differences.
//
// What it documents is kept: a fixed number of workers that are started at once,
// a queue of NumWorkers times QueueSizePerWorker tasks, the three strategies for a
// full queue, the hooks, the errors, the statistics, options that are checked.
//
// What is broken there is not kept:
//
//   - A task that calls [runtime.Goexit], as t.FailNow does, ends like any other,
//     and the stop hook of its worker is called. There Wait and Shutdown hang.
//   - Submit while Shutdown runs, Shutdown(false) while Shutdown(true) runs, and
//     Wait while others submit, do not panic. All calls of Shutdown wait for the end.
//   - Every task that was accepted runs, unless Shutdown(false) drops it; tasks that
//     were given a goroutine of their own, too.
//   - No task waits behind another one while a worker is idle, and none waits for an
//     idle worker to look: workers are woken. MaxParkTime is checked and not used.
//   - A submitter that waits for room is parked. If it is a task of the pool it runs
//     the new task itself, at once: do not hold a lock then that the new task takes.
//   - The counters add up: Submitted = Completed + Dropped + Rejected + InFlight at
//     any quiet moment. FallbackExecuted counts what was given a goroutine of its own.
//   - A panic handler that panics is not the end of the process.
//   - Wait and Shutdown that a task calls return, as they cannot wait for it; there
//     they hang.
//
// Docs: docs/migrate.md of shoal says how to go on to shoal's own API.
package flock

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shoal-go/shoal"
)

// A PoolError is an error of this package.
type PoolError struct {
	msg string
	err error
}

// Error describes the error.
func (e *PoolError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("workerpool: %s: %v", e.msg, e.err)
	}
	return "workerpool: " + e.msg
}

// Unwrap is the cause, if there is one.
func (e *PoolError) Unwrap() error { return e.err }

// The errors of this package. (They are variables of type error, so that a
// switch compares them.)
var (
	ErrPoolShutdown error = &PoolError{msg: "pool is shutdown"} // submitted after Shutdown
	ErrQueueFull    error = &PoolError{msg: "queue is full"}    // with ErrorWhenQueueFull
	ErrTimeout      error = &PoolError{msg: "operation timed out"}
	ErrNilTask      error = &PoolError{msg: "task is nil"}
)

// A BlockingStrategy is what Submit does while the queue is full.
type BlockingStrategy int

const (
	BlockWhenQueueFull     BlockingStrategy = iota // Submit waits for room
	ErrorWhenQueueFull                             // Submit returns ErrQueueFull
	NewThreadWhenQueueFull                         // the task gets a goroutine of its own
)

// Config is what the options set.
type Config struct {
	NumWorkers         int                // 0: runtime.NumCPU()
	QueueSizePerWorker int                // a power of 2; 256 by default
	BlockingStrategy   BlockingStrategy   // BlockWhenQueueFull by default
	PanicHandler       func(interface{})  // nil: panics are printed
	OnWorkerStart      func(workerID int) // on the worker, before its first task
	OnWorkerStop       func(workerID int) // on the worker, after its last task
	PinWorkerThreads   bool               // each worker has an OS thread
	MaxParkTime        time.Duration      // 10 ms by default; not used
	SpinCount          int                // 30 by default
}

// An Option configures a pool.
type Option func(*Config)

// WithNumWorkers sets the number of workers.
func WithNumWorkers(n int) Option { return func(c *Config) { c.NumWorkers = n } }

// WithQueueSizePerWorker sets how many tasks may be queued for each worker.
func WithQueueSizePerWorker(size int) Option {
	return func(c *Config) { c.QueueSizePerWorker = size }
}

// WithBlockingStrategy sets what Submit does while the queue is full.
func WithBlockingStrategy(s BlockingStrategy) Option {
	return func(c *Config) { c.BlockingStrategy = s }
}

// WithPanicHandler sets what is called with the value of a panic.
func WithPanicHandler(handler func(interface{})) Option {
	return func(c *Config) { c.PanicHandler = handler }
}

// WithWorkerHooks sets what workers call when they begin and when they end.
func WithWorkerHooks(onStart, onStop func(workerID int)) Option {
	return func(c *Config) { c.OnWorkerStart, c.OnWorkerStop = onStart, onStop }
}

// WithPinWorkerThreads has each worker keep an OS thread.
func WithPinWorkerThreads(enabled bool) Option {
	return func(c *Config) { c.PinWorkerThreads = enabled }
}

// WithMaxParkTime sets how long a worker sleeps. Workers of this package are woken
// when there is something to do.
func WithMaxParkTime(d time.Duration) Option { return func(c *Config) { c.MaxParkTime = d } }

// WithSpinCount sets how many times a worker looks for a task before it parks.
func WithSpinCount(n int) Option { return func(c *Config) { c.SpinCount = n } }

func (c *Config) validate() error {
	var problems []string
	check := func(name string, n, least, most int) {
		if n < least || n > most {
			problems = append(problems, fmt.Sprintf("%s is %d: want %d … %d", name, n, least, most))
		}
	}
	check("NumWorkers", c.NumWorkers, 0, 10_000)
	check("QueueSizePerWorker", c.QueueSizePerWorker, 1, 100_000)
	if n := c.QueueSizePerWorker; n > 0 && n&(n-1) != 0 {
		problems = append(problems, fmt.Sprintf("QueueSizePerWorker is %d: want a power of 2", n))
	}
	check("BlockingStrategy", int(c.BlockingStrategy), 0, int(NewThreadWhenQueueFull))
	if d := c.MaxParkTime; d <= 0 || d > time.Minute {
		problems = append(problems, fmt.Sprintf("MaxParkTime is %v: want more than 0 and up to 1m", d))
	}
	check("SpinCount", c.SpinCount, 0, 10_000)
	if problems != nil {
		return &PoolError{msg: "invalid config: " + strings.Join(problems, "; ")}
	}
	return nil
}

// A Pool is a pool of workers. It is made by [NewPool].
type Pool struct {
	pool    *shoal.Pool
	workers int
	queue   int // tasks for each worker

	mu   sync.Mutex
	past []WorkerStats // of workers that have left, by id
	gone []bool        // the last one with that id has left, though it may be listed
}

// NewPool makes a pool. The error, a [*PoolError], names all invalid options.
func NewPool(opts ...Option) (*Pool, error) {
	c := Config{QueueSizePerWorker: 256, MaxParkTime: 10 * time.Millisecond, SpinCount: 30}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.NumWorkers == 0 {
		c.NumWorkers = runtime.NumCPU()
	}
	options := []shoal.Option{
		shoal.WithMinWorkers(c.NumWorkers),
		shoal.WithMaxWorkers(c.NumWorkers),
		shoal.WithQueueCapacity(c.NumWorkers * c.QueueSizePerWorker),
		shoal.WithFullPolicy([]shoal.FullPolicy{shoal.Block, shoal.Reject, shoal.Spawn}[c.BlockingStrategy]),
		shoal.WithSpin(c.SpinCount),
		shoal.WithTiming(shoal.TimingFull), // LatencyMax is that of any task
		shoal.WithPanicHandler(func(e *shoal.PanicError) {
			if c.PanicHandler != nil {
				c.PanicHandler(e.Value)
				return
			}
			fmt.Printf("[flock error] workerpool: a task panicked: %v\n%s\n", e.Value, e.Stack)
		}),
	}
	p := &Pool{
		workers: c.NumWorkers,
		queue:   c.QueueSizePerWorker,
		past:    make([]WorkerStats, c.NumWorkers),
		gone:    make([]bool, c.NumWorkers),
	}
	options = append(options, shoal.WithWorkerHooks(
		func(id int) {
			p.mu.Lock()
			p.gone[id] = false
			p.mu.Unlock()
			if c.OnWorkerStart != nil {
				c.OnWorkerStart(id)
			}
		},
		func(id int) {
			p.left(id)
			if c.OnWorkerStop != nil {
				c.OnWorkerStop(id)
			}
		}))
	if c.PinWorkerThreads {
		options = append(options, shoal.WithThreadPinning())
	}
	var err error
	if p.pool, err = shoal.New(options...); err != nil {
		return nil, &PoolError{msg: "invalid config", err: err}
	}
	return p, nil
}

// left remembers what the worker has done, which is about to leave.
func (p *Pool) left(id int) {
	for _, w := range slices.Collect(p.pool.Workers()) {
		if w.ID == id {
			p.mu.Lock()
			p.past[id].TasksExecuted += w.Executed
			p.past[id].TasksFailed += w.Failed
			p.gone[id] = true
			p.mu.Unlock()
		}
	}
}

// Submit queues task, and follows the pool's strategy if there is no room. The
// error is [ErrNilTask], [ErrPoolShutdown] or [ErrQueueFull].
func (p *Pool) Submit(task func()) error {
	switch err := p.pool.Submit(task); err {
	case nil:
		return nil
	case shoal.ErrNilTask:
		return ErrNilTask
	case shoal.ErrQueueFull:
		return ErrQueueFull
	default:
		return ErrPoolShutdown
	}
}

// Wait waits until all tasks have ended, also those that tasks submit. The pool
// stays open.
func (p *Pool) Wait() {
	p.pool.WaitContext(context.Background()) // the error is that a task cannot wait for itself
}

// Shutdown ends the pool and waits until no worker is left. If graceful is set the
// queued tasks run first; else they are dropped.
func (p *Pool) Shutdown(graceful bool) {
	if graceful {
		p.pool.Shutdown(context.Background())
	} else {
		p.pool.Close()
	}
}

// IsShutdown reports whether the pool has been shut down.
func (p *Pool) IsShutdown() bool { return p.pool.State() >= shoal.Draining }

// NumWorkers is the number of workers.
func (p *Pool) NumWorkers() int { return p.workers }

// Stats describes a pool.
type Stats struct {
	Submitted          uint64        // accepted or refused for want of room
	Completed          uint64        // ended, also by a panic
	Dropped            uint64        // accepted, and not run because of Shutdown(false)
	Rejected           uint64        // refused with ErrQueueFull
	FallbackExecuted   uint64        // given a goroutine of their own
	InFlight           uint64        // queued or running
	Utilization        float64       // how full the queue is, in percent
	WorkerStats        []WorkerStats // in the order of their ids
	NumWorkers         int
	TotalQueueDepth    int           // tasks that are queued
	TotalQueueCapacity int           // that may be
	LatencyAvg         time.Duration // of the execution of a task
	LatencyMax         time.Duration // the longest
}

// WorkerStats describes a worker.
type WorkerStats struct {
	WorkerID      int
	TasksExecuted uint64
	TasksFailed   uint64 // of these: panicked
	Capacity      int    // its share of the queue
	State         string // running, spinning or parked
}

// Stats returns a snapshot.
func (p *Pool) Stats() Stats {
	s := p.pool.Stats()
	stats := Stats{
		Submitted:          s.Submitted + s.Rejected,
		Completed:          s.Completed,
		Dropped:            s.Dropped,
		Rejected:           s.Rejected,
		FallbackExecuted:   s.Spawned,
		InFlight:           uint64(s.InFlight),
		Utilization:        100 * s.QueueFill(),
		NumWorkers:         p.workers,
		TotalQueueDepth:    s.Queued,
		TotalQueueCapacity: s.QueueCapacity,
		LatencyAvg:         s.RunTime.Mean(),
		LatencyMax:         s.RunTime.Max(),
	}
	live := slices.Collect(p.pool.Workers())
	p.mu.Lock()
	defer p.mu.Unlock()
	stats.WorkerStats = slices.Clone(p.past)
	for id := range stats.WorkerStats {
		w := &stats.WorkerStats[id]
		w.WorkerID, w.Capacity, w.State = id, p.queue, shoal.WorkerParked.String()
	}
	for _, l := range live {
		if !p.gone[l.ID] {
			w := &stats.WorkerStats[l.ID]
			w.TasksExecuted += l.Executed
			w.TasksFailed += l.Failed
			w.State = l.State.String()
		}
	}
	return stats
}
