package shoal

import (
	"context"
	"runtime/pprof"
	"time"

	"github.com/shoal-go/shoal/internal/caller"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A Pool runs tasks on a bounded number of goroutines, its workers. It is made
// by [New], and any number of goroutines may use it. The zero Pool is closed.
//
// In the terminology of the Go memory model, a call of Submit synchronizes
// before the start of its task, and the end of a task synchronizes before the
// return of a Wait, SubmitWait, Shutdown or Close that waited for it.
type Pool struct {
	// Constant after New.
	config
	epoch     time.Time       // zero of the pool's clock
	labels    context.Context // pprof labels of every worker
	stampMask uint64          // a ticket with none of these bits is timed
	auto      bool            // the sizer is Auto
	hooked    bool            // there are worker hooks
	foreign   bool            // workers run functions of the user that are no tasks
	up        *Pool           // of a sub-pool, its parent
	lane      *lane           // of a sub-pool, its lane there
	watch     *watchdog       // nil: there is nothing to watch
	id        caller.ID       // in whose name its tasks are called; see whose.go

	_    cacheLine
	tail sy.Uint64 // tickets given out, and sealedBit; see word.go
	// limit is a lower bound of the tickets that may be given out, as of the
	// last look at head. Written under mu. It keeps submitters away from the
	// cache line of head: they look there only when the limit is reached.
	limit sy.Uint64
	back  queue.End // submitters' place in the queue

	_     cacheLine
	head  sy.Uint64 // tickets taken, attention, busy workers; see word.go
	front queue.End // workers' place in the queue

	_       cacheLine
	wake    sy.Uint64 // available and standby workers; see word.go
	woken   sy.Uint64 // the tickets given out when a submitter last woke a worker; a hint
	waiting sy.Int64  // goroutines in Wait; pairs with head: see quiet

	_     cacheLine
	kept  sy.Bool   // there are Locals
	quota sy.Uint64 // the yields spent in this window; see worker.yieldDue
	procs sy.Int64  // GOMAXPROCS as last seen
	// yielding is how many workers let others run between two tasks.
	yielding sy.Int64
	// What a worker alone can do; see worker.crowded.
	soloTime  sy.Int64 // what a task took it, in nanoseconds
	soloAt    sy.Int64 // when that was measured, by the pool's clock
	soloUntil sy.Int64 // until when one is to work alone

	displaced  sy.Uint64 // tickets that DropOldest took, not a worker
	rushUntil  sy.Int64  // until when it may grow beside a crowd, by the pool's clock
	crowdTail  sy.Uint64 // tail when a worker gave way last
	crowdSince sy.Int64  // since when a crowd has been runnable, by the pool's clock; 0: there is none
	share      sy.Uint64 // until when, above shareBits of how many workers may be busy beside the CPUs
	lentAt     sy.Int64  // when a task of a sub-pool ended last, to within a window
	wanted     sy.Int64  // workers of sub-pools in lanes; written under mu
	lends      sy.Bool   // there were sub-pools
	wtime      sy.Pointer[recorder]
	rtime      sy.Pointer[recorder]

	_  cacheLine
	mu sy.Mutex // guards what follows. Never held while anything blocks or a function of the user runs.

	phase      phase
	paused     bool
	min, max   int
	live       int       // workers that exist, from before their start to after their stop hook
	starting   int       // of these, the ones in their start hook
	asking     int       // of these, the ones in a Sizer of the user
	departing  int       // of these, the ones told to leave
	peak       int       // the most there ever were
	avail      int       // as published in wake
	idle       idleList  // parked workers, the latest on top
	workers    []*worker // by id; nil where the id is free
	freeIDs    []int     // ids to use again, the latest last
	room       waitList  // submitters that wait for room, first come first served
	roomLuck   int8      // whether to let others run before waiting; see yieldForRoomLocked
	quieters   []*quieter
	hookBroken bool // a start hook ended its goroutine: later workers go without

	lanes    []*lane             // of the sub-pools, and own; nil where there never was one
	own      *lane               // stands for p's own tasks
	lent     int                 // busy workers that serve sub-pools
	stranded map[nudger]struct{} // those who wait for a place among the workers
	guests   int                 // tasks that run on goroutines of others of the family, under the maximum of workers
	inside   int                 // of these, the ones that have claimed their task
	shells   int                 // the husks of such tasks, which count as busy, not as what waits

	canceling   sy.Bool    // task contexts are being cancelled: only false to true
	outside     int        // accepted tasks that run on goroutines that are no workers
	outCalls    set[*call] // of these, the ones with a context, which are told when the pool is closed
	outTotal    uint64     // tasks ever accepted to run outside
	outDone     uint64     // of these, ended
	outCanceled uint64     // of these, not run because their context had ended
	outDropped  uint64     // of these, discarded without having been run
	delayed     set[*delayed]

	dropped, canceled, failed, spawned uint64
	passed                             uint64                  // tickets taken of tasks that others had claimed: husks
	husks                              sy.Uint64               // such tickets that nobody has taken yet; written under mu
	huskAt                             burstMap[uint64, *call] // of these, the ones that have tickets with others before them
	late                               set[uint64]             // tickets that DropOldest took before they were put
	parked                             sy.Int64                // tasks in outside that wait for their turn; written under mu
	outLeft                            sy.Uint64               // how often outside became less; written under mu
	turning                            int                     // workers that run the tasks of a key, one after the other, which count in outside
	reserved                           int                     // places of reservations
	reservations                       set[*Reservation]       // that have some left
	reservers                          []*reserver
	stall                              stall
	rejected                           sy.Uint64

	reclaim    *sy.Timer      // wakes the reclaimer; nil until first needed
	reclaimAt  int64          // when it is due, by the pool's clock; 0: not armed
	helpers    int            // goroutines of the pool that are no workers, and the armed reclaimer
	stopParent func() bool    // lets go of the parent context; nil where there is nothing to let go of
	outcome    *ShutdownError // what a Shutdown has to report; set once
	done       sy.Latch       // opened by the last goroutine to leave, as its last act
	ending     bool           // decided: somebody is about to open done
}

// A phase is where a pool stands in its life. It only moves forward.
type phase uint8

const (
	phaseZero     phase = iota // not made by New
	phaseOpen                  // accepts tasks
	phaseDraining              // refuses; runs what it accepted
	phaseStopping              // refuses; dropped what had not started
)

// New makes a pool. Its error matches [ErrConfig] and names every invalid
// option.
//
// End a pool with [Pool.Shutdown] or [Pool.Close]. A pool that is dropped
// without either runs what it has accepted. Then its workers leave, each after
// the idle timeout, and the garbage collector takes the pool. It stays for ever
// if it has a minimum of workers, the idle timeout [Forever], or tasks that do
// not end.
func New(opts ...Option) (*Pool, error) {
	c := defaults()
	for _, o := range opts {
		if o != nil {
			o.apply(&c)
		}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := newPool(c, 0)
	if c.parent != nil {
		p.follow(c.parent)
	}
	return p, nil
}

// newPool makes a pool of a valid config whose first ticket is first.
func newPool(c config, first uint64) *Pool {
	if c.watches() {
		c.timing = TimingFull
	}
	p := &Pool{
		config:   c,
		epoch:    time.Now(),
		labels:   context.Background(),
		hooked:   c.onStart != nil || c.onStop != nil,
		phase:    phaseOpen,
		min:      c.minWorkers,
		max:      c.maxWorkers,
		done:     sy.MakeLatch(),
		roomLuck: goodLuck,
		id:       caller.NewID(),
	}
	if c.name != "" {
		p.labels = pprof.WithLabels(p.labels, pprof.Labels("pool", c.name))
	}
	switch c.timing {
	case TimingSampled:
		p.stampMask = queue.StampEvery - 1
	case TimingOff:
		p.stampMask = ticketMask
	}
	_, p.auto = c.sizer.(auto)
	_, rated := c.sizer.(*rated)
	p.watch = newWatchdog(p, c)
	p.foreign = p.hooked || p.watch != nil || !p.auto && !rated
	p.procs.Store(int64(sy.Procs()))
	p.soloAt.Store(-int64(soloFresh)) // never
	queue.Init(&p.front, &p.back, first, c.timing == TimingFull)
	p.tail.Store(first)
	if p.watch != nil {
		p.watch.stamped.Store(first)
	}
	p.head.Store(first << ticketBit)
	p.limit.Store(first)

	p.mu.Lock()
	p.setAvailLocked(0)
	fresh := p.fillLocked()
	p.mu.Unlock()
	startAll(fresh)
	return p
}

// Must returns p, or panics with err if that is not nil. It is for package
// variables and examples: shoal.Must(shoal.New(…)).
func Must(p *Pool, err error) *Pool {
	if err != nil {
		panic(err)
	}
	return p
}

// now is the pool's clock: nanoseconds since it was made.
func (p *Pool) now() int64 { return sy.Since(p.epoch) }
