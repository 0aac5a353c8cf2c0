package pond

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/peek"
)

// This file is when workers are started: the strategies, and what makes the pool below follow them.

// A ResizingStrategy decides whether to start another worker when a task comes and
// no worker is idle. A pool makes one call of Resize at a time, except for
// [RatedResizer], [Balanced] and [Lazy].
type ResizingStrategy interface {
	Resize(runningWorkers, minWorkers, maxWorkers int) bool
}

var maxProcs = runtime.GOMAXPROCS(0)

// The strategies that pond comes with.
var (
	// Eager starts a worker whenever none is idle. It is the default.
	Eager = func() ResizingStrategy { return RatedResizer(1) }
	// Balanced starts a worker for one of every GOMAXPROCS/2 tasks that find none
	// idle. If a task waits and no worker takes one, it starts a worker earlier.
	Balanced = func() ResizingStrategy { return presetOf(maxProcs / 2) }
	// Lazy is Balanced with one of every GOMAXPROCS tasks.
	Lazy = func() ResizingStrategy { return presetOf(maxProcs) }
)

// RatedResizer is the strategy that starts a worker for the first of every rate
// tasks that find none idle. A rate below 1 is 1.
func RatedResizer(rate int) ResizingStrategy { return &rated{rate: uint64(max(1, rate))} }

type rated struct {
	rate uint64
	hits atomic.Uint64
}

func (r *rated) Resize(runningWorkers, minWorkers, maxWorkers int) bool {
	return r.rate == 1 || runningWorkers == 0 || r.hits.Add(1)%r.rate == 1
}

// A preset is a strategy whose rate the program did not choose, so it promises no
// bound below the maximum of workers. To shoal it is a Sizer: it may delay a worker,
// but no task waits behind tasks that block.
type preset struct{ ResizingStrategy }

func presetOf(rate int) ResizingStrategy {
	if rate <= 1 {
		return Eager()
	}
	return preset{RatedResizer(rate)}
}

func (s preset) Grow(z shoal.Sizing) bool { return s.Resize(z.Workers, z.Min, z.Max) }

// A holder lets a strategy hold the pool where pond's does. The maximum of workers of
// the pool below is what the strategy has granted: it is raised by one each time the
// strategy says yes, and lowered when idle workers leave. So the pool also accepts as many
// tasks as pond's.
type holder struct {
	p           *WorkerPool
	least, most int // workers

	coming atomic.Int64 // tasks that have been asked for, and have perhaps not been accepted
	mu     sync.Mutex   // one call of the strategy at a time
}

// first asks for the minimum of workers, and returns how many are granted.
func (h *holder) first() (n int) {
	for range h.least {
		if h.p.strategy.Resize(n, h.p.minWorkers, h.p.maxWorkers) {
			n++
		}
	}
	return n
}

// enter asks for a worker if none is idle, then for the task, which the caller submits. The caller calls
// leave when its call of the pool below has returned. The task calls leave too as it begins: it may run
// inside that call.
func (h *holder) enter(ask func() (task func())) (task, leave func()) {
	if h == nil {
		return ask(), func() {}
	}
	h.askStrategy()
	asked := ask()
	leave = sync.OnceFunc(func() { h.coming.Add(-1) })
	return func() {
		leave()
		asked()
	}, leave
}

func (h *holder) askStrategy() {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := peek.Snapshot(h.p.pool)
	tasks := int(s.InFlight) + int(h.coming.Load()) // one that is accepted may count twice: there is no room for more than Max
	running := min(max(s.Live, tasks), s.Max)
	granted := running
	if idle := running > tasks; running < h.most && (!idle || running < h.least) &&
		h.p.strategy.Resize(running, h.p.minWorkers, h.p.maxWorkers) {
		granted++
	}
	h.coming.Add(1) // not before the strategy, which may panic
	if granted = max(1, granted); granted != s.Max {
		h.p.pool.Resize(min(h.least, granted), granted) // the error is that it is stopped
	}
}
