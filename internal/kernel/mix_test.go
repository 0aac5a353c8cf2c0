//go:build !poolsim

package kernel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal/internal/queue"
)

// A mix is a family under everything at once: all policies, records that are awaited, claimed and
// withdrawn, strands, reservations, Wait, Pause, Resize, lanes that come and go.
type mix struct {
	t     *testing.T
	name  string
	lanes []*Lane
	ran   atomic.Int64 // tasks of any kind
	ok    atomic.Int64 // accepted
	open  atomic.Int64 // results that are yet to come
	fault atomic.Pointer[string]
	sizes bool // maxima change
	in    []atomic.Int64
	most  []atomic.Int64
}

func (m *mix) failf(format string, args ...any) {
	s := m.name + ": " + fmt.Sprintf(format, args...)
	m.fault.CompareAndSwap(nil, &s)
}

var errNo = errors.New("a task's error")

// A job is a record. It counts what is called.
type job struct {
	Record
	m         *mix
	k         int
	f         func(j *job)
	began     atomic.Int32
	over, res atomic.Int32
	err       error
	done      chan bool
	nudge     chan bool
	ctx       context.Context
}

func (m *mix) job(k int, f func(j *job)) *job {
	j := &job{m: m, k: k, f: f, done: make(chan bool), nudge: make(chan bool, 1)}
	j.Init(j, m.lanes[k])
	m.open.Add(1)
	return j
}

func (j *job) Refused() error { return nil }
func (j *job) Run() error {
	if j.began.Add(1) != 1 {
		j.m.failf("a job runs twice")
	}
	j.m.ran.Add(1)
	if j.f != nil {
		j.f(j)
	}
	return j.err
}
func (j *job) Over(err error) {
	if j.over.Add(1) != 1 {
		j.m.failf("a job is over twice")
	}
}
func (j *job) Cut(cause error)        {}
func (j *job) Returns(err error) bool { return true }
func (j *job) Resolve(err error) {
	if j.over.Load() != 1 || j.res.Add(1) != 1 {
		j.m.failf("a job is over %d times, resolved %d times", j.over.Load(), j.res.Load())
	}
	j.m.open.Add(-1)
	close(j.done)
}
func (j *job) Outer() context.Context { return j.ctx }
func (j *job) Nudge() {
	select {
	case j.nudge <- true:
	default:
	}
}

// give submits j, and takes its result back if it is refused.
func (j *job) give(p Policy) bool {
	l, it := j.m.lanes[j.k], queue.Record(&j.Record)
	if !l.Submit(it) {
		if err := l.SubmitSlow(it, p, context.Background()); err != nil {
			j.m.open.Add(-1)
			return false
		}
	}
	j.m.ok.Add(1)
	return true
}

// await waits for j on a goroutine that is in lane in.
func (j *job) await(in *Lane) {
	stay := j.Lane
	for !in.IsBelow(stay) {
		stay = stay.up
	}
	for {
		switch j.Claim(stay, j) {
		case NoPlace:
			select {
			case <-j.nudge:
				continue
			case <-j.done:
			}
		}
		<-j.done
		j.Lane.ForgetNudger(j)
		return
	}
}

// A chain is a strand, and a link one of its tasks.
type chain struct {
	Record
	m      *mix
	k      int
	mu     sync.Mutex
	links  []*link
	active bool
	in     atomic.Int32
}

type link struct {
	Record
	c         *chain
	over, res int
	began     bool
	fails     bool
}

func (t *link) Join() *Record {
	c := t.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.links = append(c.links, t)
	if c.active {
		return nil
	}
	c.active = true
	c.Again()
	return &c.Record
}
func (t *link) Refused() error         { return nil }
func (t *link) Run() error             { panic("not joined") }
func (t *link) Over(err error)         { t.over++ }
func (t *link) Cut(cause error)        {}
func (t *link) Returns(err error) bool { return true }
func (t *link) Resolve(err error) {
	if t.res++; t.over != 1 || t.res != 1 {
		t.c.m.failf("a link is over %d times, resolved %d times", t.over, t.res)
	}
	t.c.m.open.Add(-1)
}
func (t *link) Outer() context.Context { return nil }

func (c *chain) first() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links[0]
}
func (c *chain) Refused() error { return nil }
func (c *chain) Run() error {
	if c.in.Add(1) != 1 {
		c.m.failf("two links of a chain run")
	}
	defer c.in.Add(-1)
	t := c.first()
	if t.began {
		c.m.failf("a link runs twice")
	}
	t.began = true
	c.m.ran.Add(1)
	if t.fails {
		return errNo
	}
	return nil
}
func (c *chain) Over(err error)         { c.first().Over(err) }
func (c *chain) Cut(cause error)        {}
func (c *chain) Returns(err error) bool { return true }
func (c *chain) Resolve(err error)      { c.m.failf("a chain is resolved") }
func (c *chain) Outer() context.Context { return nil }
func (c *chain) Next() (*Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.links[0]
	c.links = c.links[1:]
	c.active = len(c.links) > 0
	return &t.Record, c.active
}

func (c *chain) give(p Policy, fails bool) {
	t := &link{c: c, fails: fails}
	t.Init(t, c.m.lanes[c.k])
	c.m.open.Add(1)
	if c.m.lanes[c.k].SubmitSlow(queue.Record(&t.Record), p, context.Background()) != nil {
		c.m.open.Add(-1)
		return
	}
	c.m.ok.Add(1)
}

// worker's task: it counts, in its lane and those above.
func (m *mix) task(k int, r *rand.Rand, inline bool) func() {
	sleep := r.IntN(200) == 0
	fails := r.IntN(100) == 0
	return func() {
		m.ran.Add(1)
		if !inline {
			up(&m.in[k], &m.most[k])
		}
		if sleep {
			time.Sleep(50 * time.Microsecond)
		}
		if !inline {
			m.in[k].Add(-1)
		}
		if fails {
			panic("x")
		}
	}
}

func (m *mix) step(r *rand.Rand, chains []*chain) {
	k := r.IntN(len(m.lanes))
	l := m.lanes[k]
	policy := Policy(r.IntN(5))
	switch r.IntN(14) {
	default:
		if l.give(m.task(k, r, policy == Spawn || policy == CallerRuns || policy == DropOldest), policy) == nil {
			m.ok.Add(1)
		}
	case 0:
		j := m.job(k, nil)
		if r.IntN(5) == 0 {
			j.err = errNo
		}
		if j.give(policy) && r.IntN(2) == 0 {
			if r.IntN(2) == 0 {
				j.Withdraw(errNo)
			}
			<-j.done
		}
	case 1: // a task waits for another one, of its lane or one below: nobody waits in a circle
		k2 := r.IntN(len(m.lanes))
		if !m.lanes[k2].IsBelow(l) {
			k2 = k
		}
		var d func(j *job)
		if r.IntN(3) == 0 {
			d = func(j *job) { runtime.Gosched() }
		}
		p2 := []Policy{Reject, DropOldest, Spawn}[r.IntN(3)]
		j := m.job(k, func(*job) {
			b := m.job(k2, d)
			if b.give(p2) {
				b.await(l)
			}
		})
		j.give(policy)
	case 2, 3, 4:
		chains[r.IntN(len(chains))].give(policy, r.IntN(20) == 0)
	case 5:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(300))*time.Microsecond)
		if res, err := l.Reserve(ctx, 1+r.IntN(2)); err == nil {
			for range r.IntN(3) {
				if ok, _ := res.Submit(queue.Func(m.task(k, r, true))); ok {
					m.ok.Add(1)
				}
			}
			res.Release()
		}
		cancel()
	case 6:
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Microsecond)
		l.Wait(ctx, func() bool { return false })
		cancel()
	case 7:
		if r.IntN(10) == 0 {
			l.Pause()
			time.Sleep(time.Duration(r.IntN(50)) * time.Microsecond)
			l.Resume()
		}
	case 8:
		if m.sizes && r.IntN(10) == 0 {
			l.Resize(0, 1+r.IntN(4))
		}
	case 9:
		if r.IntN(10) == 0 {
			s := new(Lane)
			if l.Sub(s, LaneConfig{Max: 1 + r.IntN(2), Capacity: r.IntN(3), Owner: owner{}}) == nil {
				for range r.IntN(4) {
					s.do(func() { runtime.Gosched() })
				}
				if r.IntN(2) == 0 {
					s.shut()
				} else {
					s.close()
				}
				if n := s.Snapshot(); n.InFlight != 0 || !n.Ended {
					m.failf("a lane after its end: %+v", n)
				}
			}
		}
	case 10:
		if _, err := l.SubmitAfter(0, queue.Func(m.task(k, r, true))); err == nil {
			m.ok.Add(1)
		}
	}
}

// TestMix: whatever is done at once, every task that is accepted runs once or is dropped, every
// result comes once, no maximum is exceeded, nothing hangs, and the invariants hold.
func TestMix(t *testing.T) {
	for round := range rounds(mixRounds) {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		top, spin := 1+r.IntN(4), []int{0, 30}[r.IntN(2)]
		cc := Config{Spin: spin, Min: r.IntN(top + 1), Eager: r.IntN(2) == 0, TasksPerWorker: r.IntN(2) * 50, Idle: []time.Duration{Forever, time.Millisecond}[r.IntN(2)]}
		if r.IntN(3) == 0 {
			cc.Start = func(int) { runtime.Gosched() }
		}
		if r.IntN(4) == 0 {
			cc.Sizer = func(s Sizing) bool { return s.Queued > 2 }
		}
		m := &mix{t: t, sizes: r.IntN(2) == 0}
		m.name = fmt.Sprintf("round %d, seed %d, max=%d,spin=%d,sizes=%v", round, seed, top, spin, m.sizes)
		root := family(LaneConfig{Max: top, Capacity: r.IntN(6), First: mask - 100}, cc)
		m.lanes = []*Lane{root}
		for range r.IntN(5) {
			up := m.lanes[r.IntN(len(m.lanes))]
			c := LaneConfig{Max: 1 + r.IntN(top), Capacity: r.IntN(6), Priority: r.IntN(2) * r.IntN(2), Weight: 1 + r.IntN(3), First: mask - 50}
			m.lanes = append(m.lanes, up.sub(t, c))
			m.name += fmt.Sprintf(" {max %d, capacity %d, priority %d}", c.Max, c.Capacity, c.Priority)
		}
		m.in, m.most = make([]atomic.Int64, len(m.lanes)), make([]atomic.Int64, len(m.lanes))
		var chains []*chain
		for range 3 {
			c := &chain{m: m, k: r.IntN(len(m.lanes))}
			c.Init(c, m.lanes[c.k])
			chains = append(chains, c)
		}
		var wg sync.WaitGroup
		for s := range 6 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(1+s)))
				for i := range 300 {
					m.step(r, chains)
					if i%50 == 49 {
						root.sound(t, m.name)
					}
				}
			})
		}
		end := r.IntN(3)
		within(t, m.name, root, func() {
			if end == 0 { // beside all that
				time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
				root.close()
			}
			wg.Wait()
			if end == 1 {
				for _, l := range m.lanes {
					l.quiesce()
				}
			}
			root.shut()
		})
		if f := m.fault.Load(); f != nil {
			t.Fatal(*f)
		}
		for k, l := range m.lanes {
			n := l.Snapshot()
			if n.InFlight != 0 || n.Waiting != 0 || n.Busy != 0 || !n.Ended || l.tombs != 0 || l.below != 0 || l.inline != 0 {
				t.Fatalf("%s: lane %d at the end: %+v", m.name, k, n)
			}
			if !m.sizes && m.most[k].Load() > int64(l.max()) {
				t.Fatalf("%s: %d ran at once in lane %d", m.name, m.most[k].Load(), k)
			}
		}
		var submitted, gone uint64
		for k, l := range m.lanes {
			n := l.Snapshot()
			submitted += n.Submitted - mask + 100 // less the first ticket
			if k > 0 {
				submitted -= 50
			}
			gone += n.Dropped + n.Canceled
		}
		if uint64(m.ok.Load()) > submitted || uint64(m.ran.Load())+gone != submitted || m.open.Load() != 0 {
			t.Fatalf("%s: accepted %d, counted %d, ran %d, dropped or canceled %d; %d results are missing", m.name, m.ok.Load(), submitted, m.ran.Load(), gone, m.open.Load())
		}
		if c := root.crew; c.live != 0 {
			t.Fatalf("%s: %d workers are left", m.name, c.live)
		}
	}
}

// mixRounds is how often; more for those who look for something.
var mixRounds = 40
