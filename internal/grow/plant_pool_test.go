//go:build !poolsim

package grow

import "time"

// The pool of the plant: one queue, a stack of parked workers, and a chain of searching workers
// that a submitter starts and that each task's taker passes on. The code under test says
// whether a searching worker may take a task, and when a worker yields: the plant calls the same
// functions as a pool, except the few lines that yield and read the clock themselves.

// The CPU time, in nanoseconds, of starting a goroutine, and of waking a parked one.
const (
	spawnCost = 700
	wakeCost  = 300
)

type stepKind uint8

const (
	stepRun stepKind = iota
	stepSleep
	stepLock
	stepUnlock
	stepWait // until all have come
	stepSpin // until all have come: it computes meanwhile, or if d is not 0 yields each time it has computed for d
)

type step struct {
	kind stepKind
	d    int64
}

type task struct {
	at    int64 // submitted
	steps []step
	many  int // it stands for so many tasks that compute steps[0] each; 0: it is one
	began func(late int64)
	ended func()
}

// n is how many tasks t stands for.
func (t *task) n() int { return max(1, t.many) }

type workerState uint8

const (
	looking workerState = iota
	inTask
	yielded
	rested
	heldBack
	asleep
	parked
)

type worker struct {
	p         *pool
	g         *G
	t         task
	pc        int
	state     workerState
	searching bool
	parkedAt  int64
	asks      bool // the Rule before it takes a task
	look      Look
	seat      Seat
	from      int64 // what rests said
	spins     int   // looks while it spins
}

type pool struct {
	s      *Sim
	procs  int
	max    int
	crew   Crew
	always bool // without the rule: eager
	leave  omit

	q         ring[task]
	stack     []*worker
	live      int
	searching int
	inTask    int
	began     uint64
	ended     uint64
	peak      int
	lastP     *P
	locked    bool
	lockers   ring[*G]
	waitFor   int
	waiters   []*G
	extra     int64 // CPU time of starting workers, charged to the next take
	trace     func(r Rule, s Sight, start bool)
	pace      *pacing // nil: submitters do not park
}

// An omit says which manners a pool leaves out, to show what they are for.
type omit struct{ quota, goOn, rest, shun bool }

func newPool(s *Sim, max int) *pool {
	p := &pool{s: s, procs: len(s.ps), max: max}
	p.crew.clock = func(time.Time) int64 { return s.now }
	p.crew.cpus = func() int { return p.procs }
	p.crew.load = func() uint64 { return uint64(s.runnable) }
	p.crew.Now()
	return p
}

func (p *pool) newWorker() *worker {
	w := &worker{p: p}
	w.g = &G{own: true, fn: w.step}
	p.crew.Now() // the kernel notes when it starts a worker
	p.live++
	p.peak = max(p.peak, p.live)
	return w
}

// submit is called by a goroutine that has a CPU.
func (p *pool) submit(t task) {
	t.at = p.s.now
	p.q.push(t)
	if p.searching == 0 || p.searching < p.procs && len(p.stack) > 0 && p.q.n > p.searching {
		p.searching++
		p.notify()
	}
}

// notify passes the search on to a parked worker or a new one, if there may be one.
func (p *pool) notify() {
	w, fresh := p.next()
	if w == nil {
		p.searching--
		return
	}
	w.searching, w.asks = true, true
	if fresh {
		p.s.spawn(w.g)
	} else {
		p.s.ready(p.s.cp, w.g, true)
	}
}

func (p *pool) next() (w *worker, fresh bool) {
	if n := len(p.stack); n > 0 {
		w = p.stack[n-1]
		p.stack = p.stack[:n-1]
		p.extra += wakeCost
		return w, false
	}
	if p.live == p.max {
		return nil, false
	}
	p.extra += spawnCost
	return p.newWorker(), true
}

// mayTake asks the rule.
func (p *pool) mayTake(w *worker) bool {
	if p.always {
		return true
	}
	start := w.look.Ask(&p.crew, p.inTask, p.began, p.ended)
	if p.trace != nil {
		p.trace(p.crew.rule, Sight{
			Now: p.s.now, Procs: p.procs, InTask: p.inTask, Runnable: int(p.crew.Runnable()), Began: p.began, Ended: p.ended,
		}, start)
	}
	return start
}

// step is a worker's goroutine.
func (w *worker) step() op {
	p, s := w.p, w.p.s
	for {
		switch w.state {
		case parked:
			w.seat.Woken(s.now - w.parkedAt)
			w.state = looking
		case heldBack, asleep:
			if w.state == heldBack {
				holding.Add(-1)
			}
			w.look.yielding = int(p.crew.yielding.Load())
			w.state = looking
		case looking:
			if p.q.n == 0 {
				if w.rests() {
					w.state = rested
					return op{k: opYield}
				}
				return w.park()
			}
			if w.asks && !p.mayTake(w) {
				if w.look.waits {
					w.state = asleep
					return op{opSleep, int64(nap)}
				}
				w.state = heldBack
				holding.Add(1)
				return op{k: opYield}
			}
			w.asks, w.look = false, Look{}
			w.t = p.take(w)
			if w.searching {
				w.searching = false
				if p.q.n > 0 && p.searching <= p.procs {
					p.notify()
				} else {
					p.searching--
				}
			}
			return w.begin()
		case inTask:
			if w.pc < len(w.t.steps) {
				st := w.t.steps[w.pc]
				w.pc++
				switch st.kind {
				case stepRun:
					return op{opRun, st.d}
				case stepSleep:
					return op{opSleep, st.d}
				case stepLock:
					if p.locked {
						p.lockers.push(w.g)
						return op{k: opBlock}
					}
					p.locked = true
				case stepUnlock:
					p.locked = false
					if p.lockers.n > 0 { // handed over
						p.locked = true
						s.ready(s.cp, p.lockers.pop(), true)
					}
				case stepWait:
					if p.waitFor--; p.waitFor > 0 {
						p.waiters = append(p.waiters, w.g)
						return op{k: opBlock}
					}
					for _, g := range p.waiters {
						s.ready(s.cp, g, true)
					}
					p.waiters = nil
				case stepSpin:
					if w.spins == 0 {
						p.waitFor--
					}
					if w.spins++; p.waitFor > 0 {
						w.pc--
						switch {
						case st.d == 0:
							return op{opRun, 100 * us}
						case w.spins%2 == 0:
							return op{k: opYield}
						}
						return op{opRun, st.d}
					}
					w.spins = 0
				}
				continue
			}
			p.inTask--
			p.ended += uint64(w.t.n())
			w.seat.left -= int8(w.t.n() - 1)
			w.state = looking
			if w.t.ended != nil {
				w.t.ended()
			}
			w.t = task{}
			if !w.seat.Ended() {
				continue
			}
			if p.pace != nil && !w.seat.EachTask() {
				p.pace.follow()
			}
			switch yield, aside := w.seat.Tick(&p.crew, p.inTask+1, p.began); {
			case aside:
				return w.park()
			case yield && p.q.n > 0 && !p.leave.quota:
				w.state = yielded
				w.seat.Yields(&p.crew)
				return op{k: opYield}
			}
		case yielded:
			w.seat.Yielded(&p.crew)
			if p.leave.goOn {
				w.seat.until = 1
			}
			w.state = looking
		case rested:
			if w.from != 0 {
				p.crew.goOn(w.from, 0, 0)
			}
			if p.q.n == 0 {
				return w.park()
			}
			w.seat.Found()
			w.state = looking
		}
	}
}

// take takes a task. Of one that stands for many it takes as many as there are before the next tick.
func (p *pool) take(w *worker) task {
	if t := p.q.first(); t.many > int(w.seat.left) && t.many > 1 {
		part := *t
		part.many = max(1, int(w.seat.left))
		t.many -= part.many
		return part
	}
	return p.q.pop()
}

// takeCost is the CPU time of taking a task, if the one before was taken on the same CPU.
const takeCost = 30

func (w *worker) begin() op {
	p, s := w.p, w.p.s
	cost := int64(takeCost)
	if p.lastP != s.cp {
		cost, p.lastP = 130, s.cp // the queue's cache line has moved
	}
	w.seat.Begin(&p.crew)
	cost += p.extra
	p.extra = 0
	if n := w.t.n(); n > 1 {
		cost += int64(n-1) * (takeCost + w.t.steps[0].d)
	}
	p.began += uint64(w.t.n())
	p.inTask++
	w.state, w.pc = inTask, 0
	if w.t.began != nil {
		w.t.began(s.now - w.t.at)
	}
	if len(w.t.steps) > 0 && w.t.steps[0].kind == stepRun {
		w.pc = 1
		return op{opRun, cost + w.t.steps[0].d}
	}
	return op{opRun, cost}
}

// rests is Seat.Rest before the yield.
func (w *worker) rests() bool {
	p := w.p
	if !w.searching {
		w.searching = true
		p.searching++
	}
	if p.leave.rest {
		return false
	}
	if p.leave.shun {
		p.crew.shun.Store(0)
	}
	from, ok := w.seat.rests(&p.crew)
	w.from = from
	return ok
}

func (w *worker) park() op {
	p := w.p
	w.asks, w.look = false, Look{}
	w.seat.Away(&p.crew)
	if w.searching {
		w.searching = false
		p.searching--
	}
	w.state, w.parkedAt = parked, p.s.now
	p.stack = append(p.stack, w)
	if p.q.n > 0 && p.searching == 0 { // the last look
		p.searching++
		p.notify()
	}
	return op{k: opBlock}
}
