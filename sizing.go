package shoal

import (
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// A Sizer decides when to add a worker. The pool asks it when a task waits, no
// worker is idle and the maximum is not reached.
//
// The answer decides when a new worker begins, not whether it does. After true
// the new worker takes a task as soon as it gets a CPU. After false it first
// yields to the workers there are. The pool asks again each time it has yielded
// once. If no task starts meanwhile, the worker takes one after a few yields,
// whatever Grow says. So a Sizer can hold growth back while the
// workers keep up, but it cannot leave a task behind workers that block.
//
// Grow is called without a lock of the pool, and may call methods of the pool
// that do not wait. Until it returns no other worker is added, but parked
// workers are woken as usual.
type Sizer interface {
	Grow(s Sizing) bool
}

// Sizing is what a [Sizer] decides by.
type Sizing struct {
	Workers  int // live, the one in question not counted
	Idle     int // of these, not inside a task
	Min, Max int
	Queued   int // accepted, not started
}

// auto is recognized by the pool, which knows more than a Sizing can tell: see
// worker.giveWay.
type auto struct{}

// Auto keeps as many runnable workers as there are CPUs, and adds more only
// while workers block. It is the default.
//
// The pool asks it before it wakes parked workers too. So a pool that once
// needed many workers for tasks that block does not wake all of them for tasks
// that compute. If tasks are so short that one worker alone finishes more of
// them than several do, which the pool measures, the others yield for a
// millisecond at a time.
func Auto() Sizer { return auto{} }

func (auto) Grow(s Sizing) bool { return s.Workers-s.Idle < sy.Procs() }

// rated says yes to the first of every n questions.
type rated struct {
	n     int
	asked sy.Uint64
}

// Rated adds a worker for one of every n tasks that find no idle worker,
// beginning with the first. n must be at least 1. It follows pond's resizing
// strategies, as do [Eager], [Balanced] and [Lazy]. A Rated counts, so give
// each pool its own.
func Rated(n int) Sizer { return &rated{n: n} }

func (r *rated) Grow(s Sizing) bool {
	if s.Workers == 0 || r.n <= 1 {
		return true
	}
	return (r.asked.Add(1)-1)%uint64(r.n) == 0
}

// Eager adds a worker for every task that finds no idle one.
func Eager() Sizer { return Rated(1) }

// Balanced is Rated(GOMAXPROCS/2), and at least Rated(1).
func Balanced() Sizer { return Rated(max(1, sy.Procs()/2)) }

// Lazy is Rated(GOMAXPROCS).
func Lazy() Sizer { return Rated(sy.Procs()) }

const (
	// A worker that may not grow the pool yet holds back for that long while no
	// worker starts a task: by the clock, or in rounds of the scheduler. (In a
	// testing/synctest bubble the clock stands still while somebody runs.)
	giveWayFor    = 10 * time.Millisecond
	giveWayRounds = 8 >> sy.Shorter

	// So many runnable goroutines are a crowd; one that stays for longer is
	// not waited for.
	crowd    = 128
	crowdFor = 500 * time.Millisecond

	// For how long the pool may keep to its share of the CPUs; see claimShare.
	shareFor  = time.Second
	longRound = 2 * time.Millisecond // of the scheduler: somebody did not yield
	mostShare = 14                   // for each CPU
	shareTick = 1024                 // nanoseconds
	shareBits = 8

	slice   = 10 * time.Millisecond // Go's scheduler takes the CPU from who has had it for that long
	rushFor = slice                 // for how long it is believed that tasks block; see rushes

	// Where so many times more workers are inside tasks than there are CPUs, most of them
	// block, or compute for longer than a slice.
	mostBlock = 8
	mostYield = 4 // for each CPU: so many workers let others run only if their tasks compute
)

// givingWay counts the workers of all pools that are in giveWay: to each
// other they look like goroutines that need a CPU.
var givingWay sy.Int64

// giveWay holds a worker on standby back while the CPUs have enough to do
// (Auto), or while the Sizer says no. It is what keeps a backlog of tasks that
// compute from turning every preemption into one more worker.
//
// For Auto the question is whether the busy workers are all running or
// runnable, so that one more would only add to the crowd. The runtime tells
// how many goroutines are runnable, but not whose they are. This worker holds
// one CPU, so if more workers are busy than there are runnable goroutines and
// other CPUs, then some of them are blocked, and a task can start. Yet where a
// crowd is runnable and, from round to round, many tasks are submitted or
// started, that crowd is mostly the pool's own submitters and workers. They
// keep the CPUs busy as it is, and one more worker would only be in their way,
// so this one then gives way for giveWayFor even so.
//
// And where the workers were found to hinder each other (worker.crowded), this
// one stays away while another one is busy and gets on.
//
// Foreign goroutines can hide blocked workers that way. So there are bounds.
// After giveWayFor or giveWayRounds in which no worker took a task, this one
// does: growth may be delayed, never denied. And where tasks are taken, but
// others' goroutines keep the CPUs busy, in turns so long that they do not yield, the
// pool claims its share: it grows until it has as many workers for them to
// compete with as they are, and more. If its tasks compute it stays there; if they
// block, more of its workers are busy than goroutines runnable, and nothing is
// hidden. It claims none for the shortest tasks, which more workers would not
// speed up. Where submitters will soon have to wait for room, a pool whose tasks block
// grows beside the crowd that they are: see looks.rushes.
//
// It is called by main, where the stack is not deep: with what [sy.Runnable] needs, 0.9 KB,
// it fits on a stack of 2 KB.
func (w *worker) giveWay() {
	w.gentle = false
	p := w.p
	h := p.head.Load()
	if p.auto && p.active() < int(p.procs.Load()) && p.soloUntil.Load() == 0 {
		return
	}
	givingWay.Add(1)
	defer givingWay.Add(-1)
	var l looks
	for l.begin(p, h); ; l.rounds++ {
		h := p.head.Load()
		l.front, l.back = headTicket(h), p.tail.Load()&ticketMask
		if l.front == l.back && p.wanted.Load() == 0 || h&attention != 0 && p.stopsTaking() {
			return // nothing to take
		}
		solo := false
		if p.auto {
			busy := p.active()
			if solo = l.solo(p, busy); !solo && l.canGrow(p, busy, sy.Runnable()) && l.canGrow(p, p.active(), sy.Runnable()) {
				return
			}
		} else if l.rounds > 0 && w.askSizer() {
			return
		}
		if !l.moves(p) {
			return
		}
		sy.Yield()
		for i := 0; solo && i < soloYields && p.now()-l.now < int64(soloLook); i++ {
			sy.Yield() // a look has the busy worker lose its cache line
		}
		l.round = p.now() - l.now
		l.now += l.round
	}
}

// looks are what a worker that gives way has seen.
type looks struct {
	start, now      int64
	rounds          int    // of the scheduler
	round           int64  // how long the last one was
	front, back     uint64 // tickets taken, and given out
	ticket, tail    uint64 // as of the look before
	came            bool   // many tickets were given out since a worker gave way last
	foreign, before int64  // runnable goroutines that cannot be the pool's, at the last two looks

	since         int64 // when a task was taken last
	still         int   // rounds since then
	ticket0, gone uint64
	most          int64 // tickets taken by workers since ticket0, the most seen
	lent          int64 // Pool.lentAt
}

func (l *looks) begin(p *Pool, h uint64) {
	l.start = p.now()
	l.now, l.since = l.start, l.start
	l.ticket, l.tail = headTicket(h), p.tail.Load()&ticketMask
	l.came = ahead(l.tail, p.crowdTail.Swap(l.tail)&ticketMask) >= crowd/2
	l.ticket0, l.gone, l.lent = l.ticket, p.displaced.Load(), p.lentAt.Load()
}

// solo reports whether the busy worker is to work alone.
func (l *looks) solo(p *Pool, busy int) bool {
	until := p.soloUntil.Load()
	if until != 0 && l.now >= until {
		p.soloUntil.CompareAndSwap(until, 0) // so that none need look at the clock
	}
	return l.now < until && busy > 0 && l.still <= soloRounds
}

// canGrow reports whether one more worker may begin to work beside busy ones, by
// their number and that of goroutines that are runnable.
func (l *looks) canGrow(p *Pool, busy int, runnable uint64) bool {
	procs := int(p.procs.Load())
	others := int64(runnable) - (givingWay.Load() - 1)
	took := ahead(l.front, l.ticket)
	early := l.now-l.start < int64(giveWayFor)
	ours := (l.rounds == 0 && l.came || took+ahead(l.back, l.tail) >= crowd/2) && early && p.crowded(others, l.now)
	extra := int64(busy - procs)
	if extra < 0 || others <= extra && !ours || extra <= p.shareAt(l.now) {
		return true
	}
	// This worker was on a CPU when it looked, so of the busy ones at least extra+1 were not.
	l.foreign, l.before = others-extra-1, l.foreign
	if l.rushes(p, took) {
		return true
	}
	foreign := min(l.foreign, l.before)
	return foreign > 0 && !early && l.round > int64(longRound) &&
		int64(took)*int64(longStep) <= l.round*int64(min(busy, procs)) &&
		!p.crowded(others, l.now) && extra <= p.claimShare(foreign, l.now)
}

// rushes reports whether one more worker may begin although a crowd is runnable that is
// not the pool's workers. That is so where tasks wait that block, and there is less room
// than they take. The crowd is mostly submitters then, and soon each of them would have to
// park, and to be woken, which takes longer than a worker, and more memory. If some tasks
// compute, their workers let others run most of the time, and there are not to be more.
func (l *looks) rushes(p *Pool, took uint64) bool {
	procs, yielding := p.procs.Load(), p.yielding.Load()
	if l.foreign < crowd || yielding > mostYield*procs {
		return false
	}
	if tasksBlock(int64(headBusy(p.head.Load())), yielding, took, procs, l.round) {
		p.rushUntil.Store(l.now + int64(rushFor))
	}
	return l.now < p.rushUntil.Load() && p.shortOfRoom()
}

// tasksBlock reports whether most tasks block, by how many run, how many workers let
// others run between two, and how many tasks began in the last round of the scheduler. Of
// tasks that compute for less than a slice hardly more have begun and not ended than there
// are CPUs, and those that compute for longer begin at one a CPU and slice. Where some
// tasks block and others compute, the workers of the others yield.
func tasksBlock(run, yielding int64, began uint64, procs, round int64) bool {
	return round > 0 && run >= max(mostBlock*procs, 2*yielding) && int64(began)*int64(slice) >= 4*procs*round
}

// shortOfRoom reports whether there is less room than tasks that wait.
func (p *Pool) shortOfRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.head.Load() // first: tail is never behind it
	t := p.tail.Load()
	return p.roomAt(t, h) < int64(ahead(t, headTicket(h)))
}

// moves ends a look. It reports whether tasks have been taken lately.
func (l *looks) moves(p *Pool) bool {
	l.now = p.now()
	// A drop moves head first and is noted then, so this may be too much for
	// a moment; but no drop is taken for progress twice.
	all, lent := int64(ahead(l.front, l.ticket0))-int64(p.displaced.Load()-l.gone), p.lentAt.Load()
	l.ticket, l.tail = l.front, l.back
	if all > l.most || lent != l.lent && !p.starves() {
		l.most, l.lent = max(all, l.most), lent
		l.since, l.still = l.now, 0
		return true
	}
	l.still++
	return l.now-l.since < int64(giveWayFor) && l.still <= giveWayRounds
}

// claimShare lets the pool have, for shareFor, more busy workers than CPUs: twice as
// many as there are runnable goroutines that cannot be its own, foreign, and CPUs. A
// pool that falls short of them by a few would never know that its tasks block.
// Other pools may be foreign; that none has the other grow without end, there is a
// most.
func (p *Pool) claimShare(foreign, now int64) (share int64) {
	procs := p.procs.Load()
	share = min(2*(foreign+procs), mostShare*procs, 1<<shareBits-1)
	p.share.Store(uint64(now+int64(shareFor))/shareTick<<shareBits | uint64(share))
	return share
}

// shareAt is how many more busy workers than CPUs the pool has claimed; -1 if it has
// not, or too long ago.
func (p *Pool) shareAt(now int64) int64 {
	s := p.share.Load()
	if uint64(now)/shareTick >= s>>shareBits {
		return -1
	}
	return int64(s & (1<<shareBits - 1))
}

// crowded reports whether so many runnable goroutines are a crowd, and one that
// will pass: a pool does not wait for longer than crowdFor.
func (p *Pool) crowded(runnable, now int64) bool {
	since := p.crowdSince.Load()
	switch {
	case runnable < crowd:
		if since != 0 {
			p.crowdSince.Store(0)
		}
		return false
	case since == 0:
		p.crowdSince.Store(now)
		return true
	}
	return now-since < int64(crowdFor)
}

// active is the number of workers that are in a task, or let others run between two. One
// that is about to do the other of these is counted under neither: for a moment the number
// may be too low. It is hardly ever too high, which takes a head that changes at each look, or
// is the same again after a yield of the scheduler. If it were, tasks that compute would look
// blocked, now and then, and the pool would grow as long as they last.
func (p *Pool) active() int {
	h := p.head.Load()
	for i := 0; ; i++ {
		y := p.yielding.Load()
		was := h
		if h = p.head.Load(); h == was || i == 3 {
			return headBusy(h) + int(y)
		}
	}
}

// askSizer asks the Sizer. A Sizer that panics has said yes.
func (w *worker) askSizer() (grow bool) {
	p := w.p
	grow = true
	ask := func() { grow = p.sizer.Grow(p.sizing()) }
	if _, ours := p.sizer.(*rated); ours {
		ask()
	} else {
		w.apart(&p.asking, ask)
	}
	return grow
}

// sizing is what a new worker shows the Sizer.
func (p *Pool) sizing() Sizing {
	p.mu.Lock()
	defer p.mu.Unlock()
	others := p.live - 1
	return Sizing{
		Workers: others,
		Idle:    max(0, others-headBusy(p.head.Load())-p.turning),
		Min:     p.min,
		Max:     p.max,
		Queued:  p.waitingTasks(),
	}
}

// stopsTaking reports whether some workers must not take tasks.
func (p *Pool) stopsTaking() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopsTakingLocked()
}

func (p *Pool) stopsTakingLocked() bool {
	return p.paused || p.phase == phaseStopping || p.tooManyLocked()
}

// tooManyLocked reports whether there are more workers and guests than there may be:
// Resize has lowered the maximum.
func (p *Pool) tooManyLocked() bool { return p.live-p.departing+p.guests > p.max }
