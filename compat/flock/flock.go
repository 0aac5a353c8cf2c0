// Package flock has the API of github.com/tahsin716/flock on the engine of shoal.
// To move a program, change its import path,
//
//	import "github.com/shoal-go/shoal/compat/flock"
//
// and nothing else. Flock's documentation holds. The differences: nothing that was
// accepted is lost, no task waits behind another one while a worker is idle, workers
// are woken instead of polling, the counters add up, and Submit, Wait and Shutdown may
// be called at the same time, in any order, also by tasks.
//
// What Flock documents is kept: a fixed number of workers, which start at once; the
// three strategies for a full queue; the hooks; the errors; the statistics; options
// that are checked. The queue has the capacity of Flock's: NumWorkers times
// QueueSizePerWorker tasks, and a quarter of that, at least 256 tasks, more.
//
// What is broken in Flock is not kept:
//
//   - A task that calls [runtime.Goexit], as t.FailNow does, ends like any other,
//     and the stop hook of its worker is called. In Flock, Wait and Shutdown hang.
//   - Submit during Shutdown, Shutdown(false) during Shutdown(true), and Wait during
//     Submit do not panic. Every call of Shutdown waits for the end; in Flock only
//     the first one does.
//   - Every task that was accepted runs, unless Shutdown(false) drops it. That holds
//     for tasks with a goroutine of their own, too.
//   - There is one queue, so no task waits behind another one while a worker is idle.
//     Workers are woken when there is a task, so MaxParkTime is checked and not used.
//   - A submitter that waits because the queue is full is parked; in Flock it burns a
//     CPU. If it is a task of the pool, it runs the new task itself, at once: do not
//     hold a lock that the new task takes, and the new task must not wait for what its
//     submitter does later.
//   - With [BlockWhenQueueFull], and room for more than 32,768 tasks: while more wait than
//     that plus 500 for each task that runs, a goroutine that submits without pause parks
//     now and then after its task was accepted, for a few milliseconds as a rule and at
//     most for about 100, so that the workers get the CPUs. Tasks of the pool do not park.
//   - Submitted = Completed + Dropped + Rejected + InFlight holds while no task is
//     submitted or ends.
//     A task whose Submit waits is not counted yet; in Flock it is.
//   - A hook that panics does not end the process, as it does in Flock: the panic handler gets
//     the panic, and the worker goes on. If OnWorkerStart calls [runtime.Goexit], later workers
//     have no hooks.
//   - A panic handler that panics ends the process, as in Flock, but its task counts as
//     completed before. One that calls [runtime.Goexit] ends the process too.
//   - If a task calls Wait or Shutdown, the call returns, because it cannot wait for
//     that task. In Flock it hangs.
//   - The error of NewPool names all invalid options, not the first one only.
//
// To go on to shoal's own API, see docs/migrate.md.
package flock

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// The errors of this package.
var (
	ErrPoolShutdown = &PoolError{msg: "pool is shutdown"}    // submitted after Shutdown
	ErrQueueFull    = &PoolError{msg: "queue is full"}       // with ErrorWhenQueueFull
	ErrTimeout      = &PoolError{msg: "operation timed out"} // is never returned
	ErrNilTask      = &PoolError{msg: "task is nil"}
)

// A PoolState is the type that Flock has for the state of a pool. It exports no
// value of it; see [Pool.IsShutdown].
type PoolState uint32

type workerState int32

// The states of a worker. [WorkerStats].State has their names: RUNNING, SPINNING,
// PARKED, SHUTDOWN.
const (
	StateRunning  workerState = iota // it runs a task
	StateSpinning                    // it looks for a task
	StateParked                      // it sleeps until there is a task
	StateShutdown                    // it has left, with its pool
)

func (s workerState) string() string {
	return [...]string{"RUNNING", "SPINNING", "PARKED", "SHUTDOWN"}[s]
}

// A BlockingStrategy is what Submit does while the queue is full.
type BlockingStrategy int32

const (
	BlockWhenQueueFull     BlockingStrategy = iota // Submit waits for free capacity
	ErrorWhenQueueFull                             // Submit returns ErrQueueFull
	NewThreadWhenQueueFull                         // the task gets a goroutine of its own
)

// Config is what the options set.
type Config struct {
	NumWorkers         int                // 1 to 10,000; runtime.NumCPU() by default
	QueueSizePerWorker int                // a power of 2 up to 65,536; 256 by default
	BlockingStrategy   BlockingStrategy   // BlockWhenQueueFull by default
	PanicHandler       func(interface{})  // nil: panics are printed
	OnWorkerStart      func(workerID int) // called on the worker, before its first task
	OnWorkerStop       func(workerID int) // called on the worker, after its last task
	PinWorkerThreads   bool               // each worker is locked to an OS thread
	MaxParkTime        time.Duration      // more than 0, up to a minute; 10 ms by default; not used
	SpinCount          int                // 0 to 10,000; 30 by default
}

// An Option configures a pool.
type Option func(*Config)

// WithNumWorkers sets the number of workers, 1 to 10,000. The default is
// [runtime.NumCPU].
func WithNumWorkers(n int) Option { return func(c *Config) { c.NumWorkers = n } }

// WithQueueSizePerWorker sets how many tasks may be queued for each worker, a power
// of 2 up to 65,536. The default is 256. All workers take from one queue. Its
// capacity is a quarter larger than that, and at least 256 tasks larger.
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

// WithPinWorkerThreads sets whether each worker is locked to an OS thread of its own.
func WithPinWorkerThreads(enabled bool) Option {
	return func(c *Config) { c.PinWorkerThreads = enabled }
}

// WithMaxParkTime sets for how long a worker of Flock sleeps before it looks for a
// task. Here workers are woken when there is a task, so the value, more than 0 and up
// to a minute, is checked and not used.
func WithMaxParkTime(d time.Duration) Option { return func(c *Config) { c.MaxParkTime = d } }

// WithSpinCount sets how many times a worker looks for a task before it parks, 0 to
// 10,000. The default is 30.
func WithSpinCount(n int) Option { return func(c *Config) { c.SpinCount = n } }

func (c *Config) validate() error {
	var problems []string
	check := func(name string, n, least, most int) {
		if n < least || n > most {
			problems = append(problems, fmt.Sprintf("%s is %d: want %d … %d", name, n, least, most))
		}
	}
	check("NumWorkers", c.NumWorkers, 1, 10_000)
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
	pool     *shoal.Pool
	workers  int
	queue    int           // tasks for each worker
	overflow atomic.Uint64 // tasks that found the queues of all workers full
	now      atomic.Bool   // Shutdown(false) was called

	mu   sync.Mutex
	past []WorkerStats // of workers that have left, by id
	gone []bool        // the last one with that id has left, though it may be listed
}

// NewPool makes a pool. The error, a [*PoolError], names all invalid options.
func NewPool(opts ...Option) (*Pool, error) {
	c := Config{NumWorkers: runtime.NumCPU(), QueueSizePerWorker: 256, MaxParkTime: 10 * time.Millisecond, SpinCount: 30}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	own := c.NumWorkers * c.QueueSizePerWorker
	options := []shoal.Option{
		shoal.WithMinWorkers(c.NumWorkers),
		shoal.WithMaxWorkers(c.NumWorkers),
		shoal.WithQueueCapacity(own + max(256, own/4)),
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

// left adds up what the worker with that id has done. The worker is about to leave.
func (p *Pool) left(id int) {
	w, _ := p.pool.Worker(id) // it is listed until this hook has returned
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past[id].TasksExecuted += w.Executed
	p.past[id].TasksFailed += w.Failed
	p.gone[id] = true
}

// Submit queues task, and follows the pool's strategy if the queue is full: it blocks
// only with [BlockWhenQueueFull]. The error is [ErrNilTask], [ErrPoolShutdown] or
// [ErrQueueFull].
func (p *Pool) Submit(task func()) error {
	full := p.pool.Queued() >= p.workers*p.queue
	switch err := p.pool.Submit(task); err {
	case nil:
		if full {
			p.overflow.Add(1)
		}
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
// stays open. If a task of the pool calls Wait, it returns at once.
func (p *Pool) Wait() {
	p.pool.WaitContext(context.Background()) // the error is that a task cannot wait for itself
}

// Shutdown ends the pool and waits until no worker is left. If graceful is set the
// queued tasks run first; else they are dropped. It may be called any number of times.
// If a task of the pool calls Shutdown, the end begins, and the call returns at once.
func (p *Pool) Shutdown(graceful bool) {
	if graceful {
		p.pool.Shutdown(context.Background())
	} else {
		p.now.Store(true)
		p.pool.Close()
	}
}

// IsShutdown reports whether Shutdown(false) has been called, or Shutdown(true) has
// come to its end. While the pool drains it returns false, though Submit already
// returns [ErrPoolShutdown].
func (p *Pool) IsShutdown() bool { return p.now.Load() || p.pool.State() == shoal.Closed }

// NumWorkers is the number of workers.
func (p *Pool) NumWorkers() int { return p.workers }

// Stats describes a pool.
type Stats struct {
	Submitted          uint64        // accepted, or refused because the queue was full
	Completed          uint64        // ended, also by a panic
	Dropped            uint64        // accepted, and not run because of Shutdown(false)
	Rejected           uint64        // refused with ErrQueueFull
	FallbackExecuted   uint64        // found the queues of all workers full: went to the shared part, or got a goroutine of their own
	InFlight           uint64        // queued or running
	Utilization        float64       // how full the queue is, in percent
	WorkerStats        []WorkerStats // in the order of their ids
	NumWorkers         int
	TotalQueueDepth    int           // tasks that are queued
	TotalQueueCapacity int           // that may be queued
	LatencyAvg         time.Duration // of the execution of a task on a worker; not on a goroutine of its own
	LatencyMax         time.Duration // the longest of these
}

// WorkerStats describes a worker.
type WorkerStats struct {
	WorkerID      int
	TasksExecuted uint64
	TasksFailed   uint64 // of these: panicked
	Capacity      int    // its share of the queue
	State         string // RUNNING, SPINNING, PARKED or SHUTDOWN
}

// Stats returns a snapshot.
func (p *Pool) Stats() Stats {
	s := p.pool.Stats()
	stats := Stats{
		Submitted:          s.Submitted + s.Rejected,
		Completed:          s.Completed,
		Dropped:            s.Dropped,
		Rejected:           s.Rejected,
		FallbackExecuted:   max(p.overflow.Load(), s.Spawned),
		InFlight:           uint64(s.InFlight),
		Utilization:        100 * s.QueueFill(),
		NumWorkers:         p.workers,
		TotalQueueDepth:    s.Queued,
		TotalQueueCapacity: s.QueueCapacity,
		LatencyAvg:         s.RunTime.Mean(),
		LatencyMax:         s.RunTime.Max(),
	}
	p.mu.Lock()
	defer p.mu.Unlock() // no worker leaves or starts between its row and the past of its id
	stats.WorkerStats = slices.Clone(p.past)
	away := StateParked // it is about to be replaced
	if s.State >= shoal.Draining {
		away = StateShutdown
	}
	for id := range stats.WorkerStats {
		w := &stats.WorkerStats[id]
		w.WorkerID, w.Capacity, w.State = id, p.queue, away.string()
	}
	for l := range p.pool.Workers() {
		if !p.gone[l.ID] {
			w := &stats.WorkerStats[l.ID]
			w.TasksExecuted += l.Executed
			w.TasksFailed += l.Failed
			w.State = workerState(l.State).string()
		}
	}
	return stats
}
