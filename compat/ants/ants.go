// Package ants has the API of github.com/panjf2000/ants/v2 (v2.12) on the engine of
// shoal. To move a program, change its import path,
//
//	import "github.com/shoal-go/shoal/compat/ants"
//
// and nothing else. Ants' documentation holds. The differences: a task that submits to
// its own full pool runs the new task instead of waiting for itself; a pool has no
// goroutines but its workers; workers start when the CPUs can use them; a
// worker survives a panic; MaxBlockingTasks is exact.
//
// What ants documents is kept. There is no queue: a task is accepted if a worker is
// free or may be started. Else Submit blocks, or returns [ErrPoolOverload]. Sizes
// below 1 mean no limit. Release lets running tasks go on, and a released pool can
// be rebooted. A panic is given to the handler or logged, and the pool goes on. A nil
// task waits for a worker like any other, and does nothing.
//
// What is broken in ants is not kept:
//
//   - If a task submits to its own pool while that is full, it runs the new task
//     itself, at once, and goes on when that has ended, even if a worker gets free
//     meanwhile. So do not hold a lock that the new task takes, and the new task must not
//     wait for what the outer one does after Submit: that would last for ever, while in
//     ants another worker may come. An accept loop that submits what it accepts belongs on
//     a goroutine of its own. If the new task calls [runtime.Goexit], the outer one ends
//     too. In ants the outer task waits, for ever if all workers do. If the outer task is
//     nested in 64 others, the new one is accepted beyond the size instead, and waits for a
//     worker. With [WithNonblocking] the outer task always gets ErrPoolOverload, as in ants.
//   - If a task calls ReleaseTimeout or ReleaseContext of its own pool, it gets
//     [shoal.ErrWouldDeadlock] at once, because it cannot wait for itself. Those of a
//     multi-pool wait, as in ants.
//   - [WithMaxBlockingTasks] is exact; in ants more submitters may wait for a moment.
//     A task that submits to its own full pool does not count, because it does not
//     wait.
//   - Submitters that wait when a pool is released get [ErrPoolClosed], even if the
//     pool is rebooted before they run.
//   - A pool has no goroutines but its workers, and none at all when it has been
//     idle for the expiry duration. Ants has two more for each pool. Importing this
//     package starts none: the default pool is made at its first use.
//   - Reboot waits for the end of what runs, and may be called at any time. If a task or
//     the panic handler calls it, it does not wait; that of a multi-pool waits for the
//     tasks of its other pools.
//
// What else differs:
//
//   - A worker starts when the CPUs can use it: tasks that only compute share few
//     workers, and tasks that block get more at once. Running counts the tasks that have
//     been accepted, so while they run it is what ants reports. After tasks that only
//     compute it is smaller, and Free larger: ants has kept a worker for each.
//   - There are at most [shoal.MaxWorkers] workers, even if the size has no limit.
//   - A worker survives a panic, so Running does not go down by one. The panic handler is
//     a part of its task, while in ants the worker has given up its place by then. So if
//     the pool is full, a task that the handler submits runs in the handler or, with
//     WithNonblocking, is refused with ErrPoolOverload; and ReleaseTimeout and
//     ReleaseContext return [shoal.ErrWouldDeadlock] there, and do not wait for the other
//     tasks. A goroutine that the handler starts may wait.
//   - A panic handler that panics ends the process, as in ants. One that calls
//     [runtime.Goexit] does so too; in ants only its worker ends.
//   - WithPreAlloc allocates nothing, but has its other effects.
//   - If no task runs, ReleaseContext returns nil, also with a context that has ended.
//     Ants still waits for its goroutines then, and as a rule returns the context's error.
//
// To go on to shoal's own API, see docs/migrate.md.
package ants

import (
	"context"
	"errors"
	"log"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/compat/internal/settle"
	"github.com/shoal-go/shoal/internal/peek"
)

const (
	// DefaultAntsPoolSize is the size of the default pool.
	DefaultAntsPoolSize = math.MaxInt32
	// DefaultCleanIntervalTime is the default of [Options].ExpiryDuration.
	DefaultCleanIntervalTime = time.Second
)

// The states of a pool.
const (
	OPENED = iota
	CLOSED
)

// The errors of this package.
var (
	ErrLackPoolFunc                 = errors.New("must provide function for pool")
	ErrInvalidPoolExpiry            = errors.New("invalid expiry for pool")
	ErrPoolClosed                   = errors.New("this pool has been closed")
	ErrPoolOverload                 = errors.New("too many goroutines blocked on submit or Nonblocking is set")
	ErrInvalidPreAllocSize          = errors.New("can not set up a negative capacity under PreAlloc mode")
	ErrTimeout                      = errors.New("operation timed out")
	ErrInvalidPoolIndex             = errors.New("invalid pool index")
	ErrInvalidLoadBalancingStrategy = errors.New("invalid load-balancing strategy")
	ErrInvalidMultiPoolSize         = errors.New("invalid size for multiple pool")
)

// A Logger writes about panics.
type Logger interface {
	Printf(format string, args ...any)
}

// Options is what the options set.
type Options struct {
	// ExpiryDuration is how long a worker may be idle before it leaves. 0 means
	// DefaultCleanIntervalTime; a negative value is an error.
	ExpiryDuration time.Duration
	// PreAlloc makes Tune do nothing, and makes a size below 1 an error.
	PreAlloc bool
	// MaxBlockingTasks is how many submitters may wait at a time; one more gets
	// ErrPoolOverload. 0 means no limit.
	MaxBlockingTasks int
	// Nonblocking makes Submit and Invoke return ErrPoolOverload instead of waiting.
	Nonblocking bool
	// PanicHandler is called with the value of a panic. If it is nil, the value and
	// the stack go to Logger.
	PanicHandler func(any)
	// Logger is by default one that writes to standard error.
	Logger Logger
	// DisablePurge makes idle workers stay.
	DisablePurge bool
}

// An Option configures a pool.
type Option func(opts *Options)

// WithOptions sets all options.
func WithOptions(options Options) Option { return func(o *Options) { *o = options } }

// WithExpiryDuration sets Options.ExpiryDuration.
func WithExpiryDuration(expiryDuration time.Duration) Option {
	return func(o *Options) { o.ExpiryDuration = expiryDuration }
}

// WithPreAlloc sets Options.PreAlloc.
func WithPreAlloc(preAlloc bool) Option { return func(o *Options) { o.PreAlloc = preAlloc } }

// WithMaxBlockingTasks sets Options.MaxBlockingTasks.
func WithMaxBlockingTasks(maxBlockingTasks int) Option {
	return func(o *Options) { o.MaxBlockingTasks = maxBlockingTasks }
}

// WithNonblocking sets Options.Nonblocking.
func WithNonblocking(nonblocking bool) Option {
	return func(o *Options) { o.Nonblocking = nonblocking }
}

// WithPanicHandler sets Options.PanicHandler.
func WithPanicHandler(panicHandler func(any)) Option {
	return func(o *Options) { o.PanicHandler = panicHandler }
}

// WithLogger sets Options.Logger.
func WithLogger(logger Logger) Option { return func(o *Options) { o.Logger = logger } }

// WithDisablePurge sets Options.DisablePurge.
func WithDisablePurge(disable bool) Option { return func(o *Options) { o.DisablePurge = disable } }

// common is what all kinds of pools have.
type common struct {
	size    atomic.Int64 // -1: no limit
	options Options
	blocked atomic.Int64 // submitters that wait, if their number is limited
	boot    func() error // makes the engine
	mu      sync.Mutex   // held while the engine is changed
	engine  atomic.Pointer[engine]
	closed  atomic.Bool
}

// An engine is what Reboot replaces.
type engine struct {
	*shoal.Pool
	turn turn // of the submitter that waits in the Pool
}

// inTask reports whether a task of e, or its panic handler, calls it.
func (e *engine) inTask() bool { return e.WaitContext(ended) == shoal.ErrWouldDeadlock }

// A turn is a lock that goroutines get in the order of their arrival. They wait on a Cond and
// not for a Mutex, because to testing/synctest a goroutine that waits for a mutex is not
// durably blocked.
type turn struct {
	mu      sync.Mutex
	passed  sync.Cond
	taken   bool
	waiting int
}

func (t *turn) take() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken {
		t.waiting++
		t.passed.Wait() // only pass ends it
	}
	t.taken = true
}

// pass gives the turn to the goroutine that has waited longest. The turn stays taken until that
// goroutine runs.
func (t *turn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == 0 {
		t.taken = false
		return
	}
	t.waiting--
	t.passed.Signal()
}

func (t *turn) waiters() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting
}

// newCommon makes a pool. It calls made with each engine.
func newCommon(size int, options []Option, made func(*engine)) (*common, error) {
	c := new(common)
	for _, o := range options {
		if o != nil {
			o(&c.options)
		}
	}
	o := &c.options
	if size <= 0 {
		size = -1
	}
	idle := o.ExpiryDuration
	switch {
	case o.DisablePurge:
		idle = shoal.Forever
	case idle < 0:
		return nil, ErrInvalidPoolExpiry
	case idle == 0:
		idle = DefaultCleanIntervalTime
		o.ExpiryDuration = idle
	}
	if o.PreAlloc && size == -1 {
		return nil, ErrInvalidPreAllocSize
	}
	if o.Logger == nil {
		o.Logger = log.New(os.Stderr, "[ants]: ", log.LstdFlags|log.Lmsgprefix|log.Lmicroseconds)
	}
	c.size.Store(int64(size))
	c.boot = func() error {
		p, err := shoal.New(
			shoal.WithMaxWorkers(workers(c.Cap())),
			shoal.WithQueueCapacity(0),
			shoal.WithIdleTimeout(idle),
			shoal.WithTiming(shoal.TimingOff),
			shoal.WithPanicHandler(c.panicked),
		)
		if err != nil {
			return err
		}
		e := &engine{Pool: p}
		e.turn.passed.L = &e.turn.mu
		made(e)
		c.engine.Store(e)
		return nil
	}
	return c, c.boot()
}

// workers is the maximum of workers of a pool of that size.
func workers(size int) int {
	if size < 0 {
		return shoal.MaxWorkers
	}
	return min(size, shoal.MaxWorkers)
}

func (c *common) panicked(e *shoal.PanicError) {
	if c.options.PanicHandler != nil {
		c.options.PanicHandler(e.Value)
		return
	}
	c.options.Logger.Printf("worker exits from panic: %v\n%s\n", e.Value, e.Stack)
}

// refused handles a task that e did not take because of err. If e is full and the options
// allow it, it submits the task by wait. If begins is not nil, wait must call it when the task
// begins.
//
// Only one submitter at a time waits in e, which gives it the next free capacity. If all
// waited there, a new submitter would find no free capacity as long as another one waits, and
// each submitter would have to park for each task. So a submitter that was served goes on
// submitting, and the others wait for the turn. If the number of waiting submitters is limited,
// all of them wait in e, and are counted exactly.
func (c *common) refused(e *engine, err error, wait func(begins func()) error) error {
	if err != shoal.ErrQueueFull || c.options.Nonblocking {
		return known(err)
	}
	if e.inTask() { // a task of the pool runs it itself, which is no wait
		return known(wait(nil))
	}
	if c.options.MaxBlockingTasks == 0 {
		e.turn.take()
		defer e.turn.pass()
		return known(wait(nil))
	}
	for {
		n := c.blocked.Load()
		if n >= int64(c.options.MaxBlockingTasks) {
			return ErrPoolOverload
		}
		if c.blocked.CompareAndSwap(n, n+1) {
			break
		}
	}
	var once sync.Once
	unblock := func() { once.Do(func() { c.blocked.Add(-1) }) }
	defer unblock()
	return known(wait(unblock))
}

// ended is a context to ask with, and not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (c *common) submitFunc(task func()) error {
	e := c.engine.Load()
	err := e.TrySubmit(task)
	if err == nil {
		return nil
	}
	return c.refused(e, err, func(begins func()) error {
		if begins == nil {
			return e.Submit(task)
		}
		return e.Submit(func() { begins(); task() })
	})
}

// known is the error of this package for err.
func known(err error) error {
	switch err {
	case nil:
		return nil
	case shoal.ErrQueueFull:
		return ErrPoolOverload
	}
	return ErrPoolClosed
}

// Running is the number of workers that are live or about to start.
func (c *common) Running() int {
	s := peek.Snapshot(c.engine.Load().Pool)
	return max(s.Live, min(int(s.InFlight), s.Max))
}

// Free is how many more workers there may be, -1 if there is no limit.
func (c *common) Free() int {
	size := c.Cap()
	if size < 0 {
		return -1
	}
	return size - c.Running()
}

// Waiting is the number of submitters that wait.
func (c *common) Waiting() int {
	e := c.engine.Load()
	return e.turn.waiters() + peek.Snapshot(e.Pool).Blocked
}

// Cap is the pool's size, -1 if there is no limit.
func (c *common) Cap() int { return int(c.size.Load()) }

// Tune changes the pool's size, unless there is no limit or PreAlloc is set.
func (c *common) Tune(size int) {
	if c.Cap() == -1 || size <= 0 || c.options.PreAlloc {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size.Store(int64(size))
	c.engine.Load().Resize(0, workers(size)) // it fails if the pool is closed: Reboot uses the size
}

// IsClosed reports whether the pool has been released.
func (c *common) IsClosed() bool { return c.closed.Load() }

// Release closes the pool and does not wait: it accepts no more tasks, and those
// that it has accepted run.
func (c *common) Release() { c.release() }

func (c *common) release() (p *shoal.Pool, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p = c.engine.Load().Pool
	if first = !c.closed.Swap(true); first {
		p.Drain()
	}
	return p, first
}

// ReleaseTimeout is Release, and waits until no worker is left. After timeout it
// returns [ErrTimeout]. Of a pool that is closed it returns [ErrPoolClosed].
func (c *common) ReleaseTimeout(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := c.ReleaseContext(ctx); err != context.DeadlineExceeded {
		return err
	}
	return ErrTimeout
}

// ReleaseContext is Release, and waits until no worker is left. If ctx ends first
// it returns ctx's error; if ctx is nil it does not wait. Of a pool that is closed
// it returns [ErrPoolClosed]. If a task of the pool calls it, it returns
// [shoal.ErrWouldDeadlock], because a task cannot wait for itself.
func (c *common) ReleaseContext(ctx context.Context) error {
	p, first := c.release()
	switch {
	case !first:
		return ErrPoolClosed
	case ctx == nil:
		return nil
	}
	return settle.Drain(ctx, p)
}

// Reboot opens a closed pool again. It waits until no worker is left. If a task of the pool,
// or the panic handler, calls it, it does not wait, and what still runs does not count
// against the size.
func (c *common) Reboot() {
	c.mu.Lock()
	e, closed := c.engine.Load(), c.closed.Load() // of one moment: another Reboot changes both
	c.mu.Unlock()
	if !closed {
		return
	}
	if !e.inTask() {
		<-e.Done() // without the lock: tasks may want it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine.Load() == e && c.closed.Load() && c.boot() == nil { // it was made before
		c.closed.Store(false)
	}
}

// A Pool runs tasks. It is made by [NewPool].
type Pool struct{ *common }

// NewPool makes a pool of up to size workers; if size is below 1 there is no
// limit.
func NewPool(size int, options ...Option) (*Pool, error) {
	c, err := newCommon(size, options, func(*engine) {})
	if err != nil {
		return nil, err
	}
	return &Pool{c}, nil
}

// Submit gives task to a worker. It blocks while no worker is free, unless the
// options forbid that. The error is [ErrPoolClosed] or [ErrPoolOverload].
func (p *Pool) Submit(task func()) error {
	if task == nil {
		task = nothing
	}
	return p.submitFunc(task)
}

func nothing() {}

// A PoolWithFuncGeneric runs one function with many arguments. It is made by
// [NewPoolWithFuncGeneric].
type PoolWithFuncGeneric[T any] struct {
	*common
	pf   func(T)
	call atomic.Pointer[call[T]]
}

// A call is the function, as it is called on an engine.
type call[T any] struct {
	*shoal.Func[T]
	on *engine
}

// NewPoolWithFuncGeneric makes a pool of up to size workers that call pf; if size
// is below 1 there is no limit.
func NewPoolWithFuncGeneric[T any](size int, pf func(T), options ...Option) (*PoolWithFuncGeneric[T], error) {
	if pf == nil {
		return nil, ErrLackPoolFunc
	}
	p := &PoolWithFuncGeneric[T]{pf: pf}
	var err error
	p.common, err = newCommon(size, options, func(e *engine) { p.call.Store(&call[T]{shoal.NewFunc(e.Pool, pf), e}) })
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Invoke lets a worker call the function with arg. It blocks while no worker is
// free, unless the options forbid that. The error is [ErrPoolClosed] or
// [ErrPoolOverload].
func (p *PoolWithFuncGeneric[T]) Invoke(arg T) error {
	f := p.call.Load()
	err := f.TrySubmit(arg)
	if err == nil {
		return nil
	}
	return p.refused(f.on, err, func(begins func()) error {
		if begins == nil {
			return f.Submit(arg)
		}
		return f.on.Submit(func() { begins(); p.pf(arg) })
	})
}

// A PoolWithFunc is a [PoolWithFuncGeneric] of any.
type PoolWithFunc struct{ *PoolWithFuncGeneric[any] }

// Invoke is [PoolWithFuncGeneric.Invoke], but if arg is nil, the worker does
// nothing.
func (p *PoolWithFunc) Invoke(arg any) error {
	if arg == nil {
		return p.submitFunc(nothing)
	}
	return p.PoolWithFuncGeneric.Invoke(arg)
}

// NewPoolWithFunc makes a pool of up to size workers that call pf; if size is
// below 1 there is no limit.
func NewPoolWithFunc(size int, pf func(any), options ...Option) (*PoolWithFunc, error) {
	p, err := NewPoolWithFuncGeneric(size, pf, options...)
	if err != nil {
		return nil, err
	}
	return &PoolWithFunc{p}, nil
}

// defaultPool is made at its first use.
var defaultPool = sync.OnceValue(func() *Pool {
	p, err := NewPool(DefaultAntsPoolSize)
	if err != nil {
		panic(err)
	}
	return p
})

// Submit is [Pool.Submit] of the default pool, whose size is [DefaultAntsPoolSize].
func Submit(task func()) error { return defaultPool().Submit(task) }

// Running is the method Running of the default pool.
func Running() int { return defaultPool().Running() }

// Cap is the method Cap of the default pool.
func Cap() int { return defaultPool().Cap() }

// Free is the method Free of the default pool.
func Free() int { return defaultPool().Free() }

// Release is the method Release of the default pool.
func Release() { defaultPool().Release() }

// ReleaseTimeout is the method ReleaseTimeout of the default pool.
func ReleaseTimeout(timeout time.Duration) error { return defaultPool().ReleaseTimeout(timeout) }

// ReleaseContext is the method ReleaseContext of the default pool.
func ReleaseContext(ctx context.Context) error { return defaultPool().ReleaseContext(ctx) }

// Reboot is the method Reboot of the default pool.
func Reboot() { defaultPool().Reboot() }
