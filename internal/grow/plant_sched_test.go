//go:build !poolsim

package grow

// The plant: a deterministic simulation of Go's scheduler, event by event. It has what decides
// how a pool's growth feels: run queues with a slot for the goroutine that was readied last and
// inherits the time slice, the global queue, stealing, timers of each P, sysmon, and how long an
// idle CPU takes to wake up. Where all goroutines compute, sysmon looks every 10 ms, and takes
// the CPU of one that it has seen there at two looks: so it has the CPU for up to two slices, or
// for one if it inherits that. Against real runs, orders and ratios fit; times are right within
// a factor of one and a half, lateness within four.

import "math/rand/v2"

const (
	forever  = int64(1) << 60
	switchC  = 200     // context switch
	wakeLat  = 6 * us  // an idle P's thread wakes up
	timerLat = 50 * us // epoll with a timeout is late by that
	stealLag = 50 * us // a thief waits that long before it takes runnext
	localMax = 256
)

type opKind uint8

const (
	opRun opKind = iota
	opSleep
	opBlock
	opYield
	opExit
)

type op struct {
	k opKind
	d int64
}

type gstate uint8

const (
	gRunnable gstate = iota
	gRunning
	gWaiting
	gDead
)

// G is a goroutine: fn is called when it is on a CPU and its last op is done.
type G struct {
	fn    func() op
	rem   int64
	state gstate
	own   bool // a worker of the pool
	net   bool // woken to the tail of the run queue, as by the network poller
}

type timer struct {
	at int64
	g  *G
	n  int64
}

type P struct {
	id       int
	q        ring[*G]
	runnext  *G
	nextAt   int64
	cur      *G
	end      int64 // of cur's op; 0: it is switching
	ver      uint32
	idle     bool
	spinning bool
	tick     uint32
	seenTick uint32
	seenAt   int64
	timers   heap[timer]
	retried  bool
}

type ring[T any] struct {
	a       []T
	head, n int
}

func (r *ring[T]) push(x T) {
	if r.n == len(r.a) {
		b := make([]T, max(16, 2*r.n))
		for i := range r.n {
			b[i] = r.a[(r.head+i)%len(r.a)]
		}
		r.a, r.head = b, 0
	}
	r.a[(r.head+r.n)%len(r.a)] = x
	r.n++
}

func (r *ring[T]) pop() T {
	var zero T
	x := r.a[r.head]
	r.a[r.head] = zero
	r.head = (r.head + 1) % len(r.a)
	r.n--
	return x
}

func (r *ring[T]) at(i int) T { return r.a[(r.head+i)%len(r.a)] }

func (r *ring[T]) first() *T { return &r.a[r.head] }

type evKind uint8

const (
	evOp    evKind = iota // the op of p's goroutine ends, or it has been switched to
	evWake                // p, which was idle, looks for work
	evTimer               // a timer is due: an idle P may see to it
	evSysmon
	evCall
)

type event struct {
	at  int64
	n   int64
	k   evKind
	p   int32
	ver uint32
	f   func()
}

func (a event) less(b event) bool { return a.at < b.at || a.at == b.at && a.n < b.n }
func (a timer) less(b timer) bool { return a.at < b.at || a.at == b.at && a.n < b.n }

type lesser[T any] interface{ less(T) bool }

type heap[T lesser[T]] struct{ a []T }

func (h *heap[T]) push(x T) {
	h.a = append(h.a, x)
	for i := len(h.a) - 1; i > 0; {
		p := (i - 1) / 2
		if !h.a[i].less(h.a[p]) {
			break
		}
		h.a[i], h.a[p] = h.a[p], h.a[i]
		i = p
	}
}

func (h *heap[T]) pop() T {
	x, n := h.a[0], len(h.a)-1
	h.a[0] = h.a[n]
	h.a = h.a[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h.a[c+1].less(h.a[c]) {
			c++
		}
		if !h.a[c].less(h.a[i]) {
			break
		}
		h.a[i], h.a[c] = h.a[c], h.a[i]
		i = c
	}
	return x
}

type Sim struct {
	now      int64
	seq      int64
	events   heap[event]
	ps       []*P
	glob     ring[*G]
	runnable int // not running
	ownRun   int // of these, the pool's
	idle     int
	spinning int
	rng      *rand.Rand
	cp       *P // on which code runs now; nil: outside
	sysDelay int64
	sysIdle  int
	stop     bool
	nEvents  int64
	ownMax   int
	ends     []func()
}

func newSim(procs int, seed uint64) *Sim {
	holding.Store(0)
	yielders.Store(0)
	s := &Sim{rng: rand.New(rand.NewPCG(seed, 1)), sysDelay: 20 * us}
	for i := range procs {
		s.ps = append(s.ps, &P{id: i, idle: true})
	}
	s.idle = procs
	s.add(event{at: 20 * us, k: evSysmon})
	return s
}

func (s *Sim) add(e event) { s.seq++; e.n = s.seq; s.events.push(e) }

func (s *Sim) after(d int64, f func()) { s.add(event{at: s.now + d, k: evCall, f: f}) }

// run runs until stop or until.
func (s *Sim) run(until int64) {
	for !s.stop && len(s.events.a) > 0 {
		if s.events.a[0].at > until {
			s.now = until
			return
		}
		e := s.events.pop()
		if s.nEvents > 80_000_000 {
			panic("the plant does not come to an end")
		}
		s.now = e.at
		s.nEvents++
		switch e.k {
		case evOp:
			if p := s.ps[e.p]; p.ver == e.ver && p.cur != nil {
				p.cur.rem = max(0, p.cur.rem)
				if p.end == 0 && p.cur.rem > 0 { // switched to
					s.compute(p, p.cur.rem)
				} else {
					p.cur.rem = 0
					s.exec(p)
				}
			}
		case evWake:
			s.schedule(s.ps[e.p])
		case evTimer:
			s.wakep(0)
		case evSysmon:
			s.sysmon()
		case evCall:
			e.f()
		}
	}
}

func (s *Sim) compute(p *P, d int64) {
	p.cur.rem = d
	p.end = s.now + d
	p.ver++
	s.add(event{at: p.end, k: evOp, p: int32(p.id), ver: p.ver})
}

// exec lets the goroutine on p go on.
func (s *Sim) exec(p *P) {
	g := p.cur
	s.cp = p
	o := g.fn()
	s.cp = nil
	switch o.k {
	case opRun:
		s.compute(p, o.d)
		return
	case opSleep:
		g.state = gWaiting
		s.seq++
		p.timers.push(timer{s.now + o.d, g, s.seq})
		s.add(event{at: s.now + o.d + timerLat, k: evTimer})
	case opBlock:
		if g.state == gRunning { // else it was made ready meanwhile: cannot be, here
			g.state = gWaiting
		}
	case opYield:
		s.putGlobal(g)
	case opExit:
		g.state = gDead
	}
	p.cur = nil
	s.schedule(p)
}

func (s *Sim) count(g *G, d int) {
	s.runnable += d
	if g.own {
		s.ownRun += d
		s.ownMax = max(s.ownMax, s.ownRun)
	}
}

func (s *Sim) putGlobal(g *G) {
	g.state = gRunnable
	s.count(g, 1)
	s.glob.push(g)
}

// ready makes g runnable on the current P (or p 0).
func (s *Sim) ready(p *P, g *G, next bool) {
	g.state = gRunnable
	s.count(g, 1)
	if p == nil {
		s.glob.push(g)
	} else {
		if next {
			g, p.runnext = p.runnext, g
			p.nextAt = s.now
		}
		if g != nil {
			p.q.push(g)
			if p.q.n > localMax {
				for range localMax / 2 {
					s.glob.push(p.q.pop())
				}
			}
		}
	}
	s.wakep(wakeLat)
}

// spawn starts a goroutine, as by a go statement on the current P.
func (s *Sim) spawn(g *G) { s.ready(s.cp, g, true) }

func (s *Sim) wakep(lat int64) {
	if s.idle == 0 || s.spinning > 0 {
		return
	}
	k := s.rng.IntN(len(s.ps))
	for i := range s.ps {
		p := s.ps[(i+k)%len(s.ps)]
		if p.idle {
			p.idle, p.spinning, p.retried = false, true, false
			s.idle--
			s.spinning++
			s.add(event{at: s.now + lat, k: evWake, p: int32(p.id)})
			return
		}
	}
}

// checkTimers makes the goroutines ready whose timers, of p, are due: on by.
func (s *Sim) checkTimers(p, by *P) (any bool) {
	for len(p.timers.a) > 0 && p.timers.a[0].at <= s.now {
		t := p.timers.pop()
		s.ready(by, t.g, !t.g.net)
		any = true
	}
	return
}

func (s *Sim) schedule(p *P) {
	g, inherit := s.find(p)
	if g == nil {
		if p.spinning && !p.retried { // a thief waits before it takes runnext
			for _, o := range s.ps {
				if o != p && o.runnext != nil {
					p.retried = true
					s.add(event{at: s.now + stealLag, k: evWake, p: int32(p.id)})
					return
				}
			}
		}
		if p.spinning {
			p.spinning = false
			s.spinning--
		}
		p.idle = true
		s.idle++
		return
	}
	if p.spinning {
		p.spinning = false
		s.spinning--
		if s.runnable > 1 {
			defer s.wakep(wakeLat)
		}
	}
	s.count(g, -1)
	g.state = gRunning
	p.cur = g
	if !inherit {
		p.tick++
	}
	p.end = 0
	p.ver++
	s.add(event{at: s.now + switchC, k: evOp, p: int32(p.id), ver: p.ver})
}

func (s *Sim) find(p *P) (g *G, inherit bool) {
	s.checkTimers(p, p)
	if p.tick%61 == 0 && s.glob.n > 0 {
		return s.glob.pop(), false
	}
	if g = p.runnext; g != nil {
		p.runnext = nil
		return g, true
	}
	if p.q.n > 0 {
		return p.q.pop(), false
	}
	if s.glob.n > 0 {
		n := min(s.glob.n, s.glob.n/len(s.ps)+1, localMax/2)
		g = s.glob.pop()
		for range n - 1 {
			p.q.push(s.glob.pop())
		}
		return g, false
	}
	k := s.rng.IntN(len(s.ps))
	for pass := range 2 {
		for i := range s.ps {
			o := s.ps[(i+k)%len(s.ps)]
			if o == p {
				continue
			}
			if o.q.n > 0 {
				for range o.q.n - o.q.n/2 {
					p.q.push(o.q.pop())
				}
				return p.q.pop(), false
			}
			if pass == 1 {
				if s.checkTimers(o, p) {
					if g = p.runnext; g != nil {
						p.runnext = nil
						return g, true
					}
					if p.q.n > 0 {
						return p.q.pop(), false
					}
				}
				if g = o.runnext; g != nil && s.now-o.nextAt >= 3*us && (p.retried || o.cur == nil) {
					o.runnext = nil
					return g, false
				}
			}
		}
	}
	return nil, false
}

// sysmon takes CPUs away, as runtime.retake does.
func (s *Sim) sysmon() {
	for _, p := range s.ps {
		if p.cur == nil {
			continue
		}
		if p.seenTick != p.tick {
			p.seenTick, p.seenAt = p.tick, s.now
		} else if p.seenAt+slice <= s.now && p.end > s.now {
			g := p.cur
			g.rem = p.end - s.now
			p.ver++
			s.putGlobal(g)
			p.cur = nil
			s.schedule(p)
		}
	}
	if s.sysIdle++; s.sysIdle > 50 { // nothing that the plant has wakes it up again
		s.sysDelay = min(2*s.sysDelay, 10*ms)
	}
	s.add(event{at: s.now + s.sysDelay + s.rng.Int64N(5*us) + 55*us, k: evSysmon})
}
