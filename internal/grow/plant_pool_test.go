package grow

// The pool of the plant: one queue, a stack of parked workers, and a chain of searching workers
// that a submitter starts and that each task's taker passes on. The Rule under test says
// whether a searching worker may take a task.

// spawnCost is the CPU time, in nanoseconds, of starting a goroutine.
const spawnCost = 700

type stepKind uint8

const (
	stepRun stepKind = iota
	stepSleep
	stepLock
	stepUnlock
	stepWait // until all have come
)

type step struct {
	kind stepKind
	d    int64
}

type task struct {
	at    int64 // submitted
	steps []step
	began func(late int64)
	ended func()
}

type workerState uint8

const (
	looking workerState = iota
	inTask
	yielded
	heldBack
	parked
)

type worker struct {
	p         *pool
	g         *G
	t         task
	pc        int
	state     workerState
	searching bool
	asks      bool // the Rule before it takes a task
	look      Look
	seq       uint32 // tasks so far
	old       bool   // its last task began a slice ago or longer
	rested    bool   // need not yield until
	until     int64
	back      int64 // when it last let others run
	yieldAt   int64
}

// A starts is one begin of a task.
type starts struct {
	w   *worker
	seq uint32
	at  int64
}

type pool struct {
	s      *Sim
	procs  int
	max    int
	rule   Rule
	always bool // without the rule: eager

	q         ring[task]
	stack     []*worker
	live      int
	searching int
	inTask    int
	yielding  int
	old       int // workers with an old task: in it, or yielding
	oldIn     int // of these, in it
	starts    ring[starts]
	began     uint64
	ended     uint64
	peak      int
	lastP     *P
	quotaWin  int64
	quotaN    int
	locked    bool
	lockers   ring[*G]
	waitFor   int
	waiters   []*G
	extra     int64 // CPU time of starting workers, charged to the next take
	trace     func(r Rule, s Sight, start bool, more int)
}

func newPool(s *Sim, max int) *pool { return &pool{s: s, procs: len(s.ps), max: max} }

func (p *pool) newWorker() *worker {
	w := &worker{p: p}
	w.g = &G{own: true, fn: w.step}
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

// startMore starts a worker that the rule need not be asked about.
func (p *pool) startMore() {
	if w, _ := p.next(); w != nil {
		p.searching++
		w.searching, w.asks = true, false
		p.s.ready(p.s.cp, w.g, false)
	}
}

func (p *pool) next() (w *worker, fresh bool) {
	if n := len(p.stack); n > 0 {
		w = p.stack[n-1]
		p.stack = p.stack[:n-1]
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
	now := p.s.now
	for p.starts.n > 0 && p.starts.at(0).at <= now-slice {
		a := p.starts.pop()
		if w := a.w; w.seq == a.seq && (w.state == inTask || w.state == yielded) {
			w.old = true
			p.old++
			if w.state == inTask {
				p.oldIn++
			}
		}
	}
	if p.always {
		return true
	}
	sight := Sight{
		Now: now, Procs: p.procs, InTask: p.inTask, Yielding: p.yielding,
		Fresh: p.inTask + p.yielding - p.old, Young: p.inTask - p.oldIn,
		Runnable: p.s.runnable - p.s.held, Began: p.began, Ended: p.ended,
	}
	start, more := p.rule.Ask(&w.look, sight)
	if p.trace != nil {
		p.trace(p.rule, sight, start, more)
	}
	for range min(more, p.q.n-1) {
		p.startMore()
	}
	return start
}

// step is a worker's goroutine.
func (w *worker) step() op {
	p, s := w.p, w.p.s
	for {
		switch w.state {
		case parked:
			w.rested, w.until = true, 0
			w.state = looking
		case heldBack:
			s.held--
			w.state = looking
		case looking:
			if p.q.n == 0 {
				w.asks, w.look = false, Look{}
				w.isYoung()
				if w.searching {
					w.searching = false
					p.searching--
				}
				w.state = parked
				p.stack = append(p.stack, w)
				return op{k: opBlock}
			}
			if w.asks && !p.mayTake(w) {
				w.state = heldBack
				s.held++
				return op{k: opYield}
			}
			w.asks, w.look = false, Look{}
			w.t = p.q.pop()
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
				}
				continue
			}
			p.inTask--
			p.ended++
			w.state = looking
			if w.old {
				p.oldIn--
			}
			if w.t.ended != nil {
				w.t.ended()
			}
			w.t = task{}
			if p.q.n > 0 && w.yields() {
				w.state = yielded
				p.yielding++
				w.yieldAt = s.now
				return op{k: opYield}
			}
		case yielded:
			p.yielding--
			w.afterYield()
			w.state = looking
		}
	}
}

func (w *worker) begin() op {
	p, s := w.p, w.p.s
	cost := int64(30)
	if p.lastP != s.cp {
		cost, p.lastP = 130, s.cp // the queue's cache line has moved
	}
	w.seq++
	w.isYoung()
	cost += p.extra
	p.extra = 0
	p.began++
	p.inTask++
	w.state, w.pc = inTask, 0
	p.starts.push(starts{w, w.seq, s.now})
	if p.starts.n > 4*(p.live+64) { // forget the ended ones
		for range p.starts.n {
			if a := p.starts.pop(); a.w.seq == a.seq {
				p.starts.push(a)
			}
		}
	}
	if w.t.began != nil {
		w.t.began(s.now - w.t.at)
	}
	if len(w.t.steps) > 0 && w.t.steps[0].kind == stepRun {
		w.pc = 1
		return op{opRun, cost + w.t.steps[0].d}
	}
	return op{opRun, cost}
}

func (w *worker) isYoung() {
	if w.old {
		w.old = false
		w.p.old--
	}
}

// window is the time in which the pool's workers yield once per CPU.
const window = 100 * us

func (w *worker) yields() bool {
	p, s := w.p, w.p.s
	if w.rested {
		if w.until == 0 {
			w.until, w.back = s.now+window, s.now
		}
		if w.rested = s.now < w.until; w.rested {
			return false
		}
	}
	if win := s.now / window; win != p.quotaWin {
		p.quotaWin, p.quotaN = win, 0
	}
	if p.quotaN >= p.procs {
		return false
	}
	p.quotaN++
	return s.idle == 0
}

// afterYield lets a worker go on for as long as goroutines that do not yield had the CPUs.
func (w *worker) afterYield() {
	p, s := w.p, w.p.s
	ran := w.yieldAt - w.back
	w.back = s.now
	away := s.now - w.yieldAt
	if away <= 5*ms {
		return
	}
	others, procs := int64(p.yielding), int64(p.procs)
	foreign := away*procs - others*min(ran, 5*ms)
	n := int64(s.runnable-s.held) - others
	if n < 1 || foreign < 5*ms*procs || foreign < n*ms {
		return
	}
	w.rested, w.until = true, s.now+min(foreign/(procs+others), 5*ms)
}
