package fair

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The plant is a simulation of workers that serve items, as package kernel does: an item without tasks
// leaves the queue at the end of a turn, or when it comes to the top; one at its maximum is held when it comes
// to the top, until a worker has left it. Time is in nanoseconds, and nothing is random but by a seed.

const ms = 1_000_000

// A source is an item with tasks.
type source struct {
	item  Item[*source]
	name  string
	waits []task
	long  int64  // how long a task takes
	over  func() // called at the end of a task
	most  int    // workers that may serve it
}

// A task is one that waits.
type task struct {
	came, long int64
	over       func()
}

// A plant has a number of workers, and a queue of sources.
type plant struct {
	q       *Queue[*source]
	now     int64
	workers int
	free    int // workers without a task
	ends    ends
	used    map[string]int64 // time that the sources of each name had
	late    map[string]int64 // the longest wait of a task
}

type end struct {
	at int64
	f  func()
}

type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newPlant(workers int) *plant {
	return &plant{q: new(Item[*source]).Split(new(Queue[*source])), workers: workers, free: workers, used: map[string]int64{}, late: map[string]int64{}}
}

func (p *plant) source(name string, weight, long int64) *source {
	s := &source{name: name, long: long, most: p.workers}
	s.item.Of = s
	p.q.Init(&s.item, 0, weight)
	return s
}

// backlog makes s always have tasks.
func (p *plant) backlog(s *source) *source {
	s.over = func() { p.submit(s) }
	for range 2 + p.workers {
		p.submit(s)
	}
	return s
}

func (p *plant) submit(s *source) { p.submitTask(s, task{p.now, s.long, s.over}) }

func (p *plant) submitTask(s *source, t task) {
	s.waits = append(s.waits, t)
	s.item.Put()
}

func (p *plant) after(d int64, f func()) { heap.Push(&p.ends, end{p.now + d, f}) }

// run serves until the time is at.
func (p *plant) run(at int64) {
	for {
		for it := p.q.First(); it != nil && p.free > 0; it = p.q.First() {
			switch s := it.Of; {
			case int(s.item.served) == s.most:
				it.Hold()
			case len(s.waits) > 0:
				p.serve(s)
			default:
				it.Remove()
			}
		}
		if len(p.ends) == 0 || p.ends[0].at > at {
			p.now = at
			return
		}
		e := heap.Pop(&p.ends).(end)
		p.now = e.at
		e.f()
	}
}

func (p *plant) serve(s *source) {
	p.free--
	t := s.waits[0]
	p.late[s.name] = max(p.late[s.name], p.now-t.came)
	s.waits = s.waits[1:]
	s.item.Begin()
	p.after(t.long, func() {
		p.free++
		p.used[s.name] += t.long
		s.item.turn(t.long)
		if s.item.held {
			s.item.Free()
		}
		if len(s.waits) == 0 {
			s.item.Remove()
		}
		if t.over != nil {
			t.over()
		}
	})
}

// share is the part of the workers' time in the next d that the sources of name get.
func (p *plant) share(d int64, name string) float64 {
	before, sum := p.used[name], 0.0
	for _, ns := range p.used {
		sum -= float64(ns)
	}
	p.run(p.now + d)
	for _, ns := range p.used {
		sum += float64(ns)
	}
	for _, it := range p.q.heap {
		if s := it.Of; len(s.waits) > 0 {
			p.late[s.name] = max(p.late[s.name], p.now-s.waits[0].came)
		}
	}
	return float64(p.used[name]-before) / sum
}

// fresh keeps n sources of one task each in the queue. Each is a new one.
func (p *plant) fresh(n int, long int64) {
	var next func()
	next = func() {
		s := p.source("fresh", 1, long)
		s.over = next
		p.submit(s)
	}
	for range n {
		next()
	}
}

// inTurn is fresh, but there are all sources, which are used in turn.
func (p *plant) inTurn(all, n int, long int64) {
	sources := make([]*source, all)
	i := 0
	next := func() {
		p.submit(sources[i%all])
		i++
	}
	for i := range sources {
		sources[i] = p.source("in turn", 1, long)
		sources[i].over = next
	}
	for range n {
		next()
	}
}

// TestSharesAmongSourcesThatCome: a source with a backlog gets its share beside others that come with
// one task each.
func TestSharesAmongSourcesThatCome(t *testing.T) {
	for _, workers := range []int{1, 8} {
		for _, weight := range []int64{1, 10, 100} {
			for name, come := range map[string]func(p *plant){
				"fresh":   func(p *plant) { p.fresh(20+workers, ms) },
				"in turn": func(p *plant) { p.inTurn(1000, 20+workers, ms) },
				"two":     func(p *plant) { p.inTurn(100, 20+workers, ms); p.fresh(20, ms) },
			} {
				t.Run(fmt.Sprintf("%s/weight=%d/workers=%d", name, weight, workers), func(t *testing.T) {
					p := newPlant(workers)
					come(p)
					p.backlog(p.source("backlog", weight, ms))
					p.run(100 * ms)
					got := p.share(10_000*ms, "backlog")
					others := 20 + float64(workers)
					if name == "two" {
						others += 20
					}
					want := float64(weight) / (float64(weight) + others)
					if math.Abs(got-want) > 0.02*want {
						t.Errorf("it has %.4f of the time, want %.4f", got, want)
					}
					if most := int64(float64(ms) * (others + float64(weight)) / float64(workers) * 1.2); p.late["fresh"] > most || p.late["in turn"] > most {
						t.Errorf("others waited for up to %v ns, want %d at most", p.late, most)
					}
				})
			}
		}
	}
}

// TestNobodyWaitsForSourcesThatComeLater: with equal sources of one task each, the order is that of their coming.
func TestNobodyWaitsForSourcesThatComeLater(t *testing.T) {
	for _, workers := range []int{1, 8} {
		p := newPlant(workers)
		p.fresh(100+workers, ms)
		p.share(5_000*ms, "")
		if most := int64(101/workers+2) * ms; p.late["fresh"] > most {
			t.Errorf("%d workers: a source waited for %d ms, want %d at most", workers, p.late["fresh"]/ms, most/ms)
		}
	}
}

// TestALongTask: a source whose tasks take long has its share, and sources that come wait for no longer than one
// of these tasks.
func TestALongTask(t *testing.T) {
	p := newPlant(1)
	p.backlog(p.source("long", 1, 500*ms))
	for i := range 9 {
		p.backlog(p.source(fmt.Sprint("short ", i), 1, ms))
	}
	var come func()
	come = func() {
		p.submit(p.source("new", 1, ms))
		p.after(37*ms, come)
	}
	come()
	got := p.share(100_000*ms, "long")
	if want := (1 - 1./37) / 10; math.Abs(got-want) > 0.05*want {
		t.Errorf("it has %.4f of the time, want %.4f", got, want)
	}
	if p.late["new"] > 550*ms {
		t.Errorf("a new source waited for %d ms", p.late["new"]/ms)
	}
}

// TestAMaximumBelowTheShare: a source that may not have its share leaves it to the others. They are not ahead of
// sources that come because of that, nor behind.
func TestAMaximumBelowTheShare(t *testing.T) {
	p := newPlant(8)
	bounded := p.backlog(p.source("bounded", 100, ms))
	bounded.most = 1
	p.backlog(p.source("other", 1, ms))
	p.run(1000 * ms)
	if got := p.share(1000*ms, "bounded"); math.Abs(got-1./8) > 0.002 {
		t.Errorf("the bounded source has %.4f of the time, want one worker of eight", got)
	}
	p.backlog(p.source("new", 1, ms))
	if got := p.share(1000*ms, "new"); math.Abs(got-7./16) > 0.01 {
		t.Errorf("a new source has %.4f of the time, want %.4f", got, 7./16)
	}
}

// TestAHigherMaximum: a source that could not have its share for long is not owed that: neither by sources that come,
// nor when it may have more.
func TestAHigherMaximum(t *testing.T) {
	for _, long := range []int64{ms, 100 * ms} {
		p := newPlant(8)
		bounded := p.backlog(p.source("bounded", 1, ms))
		bounded.most = 1
		p.backlog(p.source("other", 1, long))
		p.run(20_000 * ms)
		for i := range 14 {
			p.backlog(p.source(fmt.Sprint("new ", i), 1, ms))
		}
		if got := p.share(2000*ms, "bounded"); got > 1.3/16 {
			t.Errorf("beside tasks of %d ms: beside 15 others it has %.4f of the time, want a sixteenth", long/ms, got)
		}
		bounded.most = 8
		for range 8 {
			p.submit(bounded)
		}
		if got := p.share(2000*ms, "bounded"); got > 1.3/16 {
			t.Errorf("beside tasks of %d ms: with a higher maximum it has %.4f of the time, want a sixteenth", long/ms, got)
		}
	}
}

// TestALongTaskAndShortOnes: a source that has one task that takes long, always, and short ones beside it, has its
// share: the long ones are charged once.
func TestALongTaskAndShortOnes(t *testing.T) {
	for _, long := range []int64{100 * ms, 10_000 * ms} {
		p := newPlant(2)
		p.backlog(p.source("other", 1, ms))
		a := p.source("both", 1, ms)
		var longs func()
		longs = func() { p.submitTask(a, task{p.now, long, longs}) }
		longs()
		var shorts func()
		shorts = func() {
			p.submit(a)
			p.after(5*ms, shorts)
		}
		shorts()
		p.run(2 * long)
		if got := p.share(16*long, "both"); math.Abs(got-0.5) > 0.03 {
			t.Errorf("tasks of %d ms: it has %.4f of the time, want half", long/ms, got)
		}
	}
}

// TestSourcesThatPause: a source that has no tasks now and then has its share while it has some.
func TestSourcesThatPause(t *testing.T) {
	p := newPlant(2)
	p.backlog(p.source("always", 1, ms))
	now := p.source("now and then", 3, ms)
	var burst func()
	burst = func() {
		for range 60 {
			p.submit(now) // 40 ms of the two workers
		}
		p.after(100*ms, burst)
	}
	burst()
	if got := p.share(10_000*ms, "now and then"); math.Abs(got-0.3) > 0.01 {
		t.Errorf("it has %.4f of the time, want all that it asks for: 0.3", got)
	}
	if most := int64(45 * ms); p.late["now and then"] > most {
		t.Errorf("a task of it waited for %d ns, want %d at most", p.late["now and then"], most)
	}
}

// TestAMaximumNearTheShare: a source that is often at its maximum is no newcomer each time that it is below it.
func TestAMaximumNearTheShare(t *testing.T) {
	for _, weight := range []int64{1, 10, 100} {
		p := newPlant(4)
		bounded := p.backlog(p.source("bounded", weight, ms))
		bounded.most = 1
		p.backlog(p.source("short", 1, 2*ms))
		p.backlog(p.source("long", 1, 40*ms))
		p.run(1000 * ms)
		if got := p.share(10_000*ms, "bounded"); math.Abs(got-0.25) > 0.005 {
			t.Errorf("weight %d: it has %.4f of the time, want one worker of four", weight, got)
		}
	}
}

// TestRandomSources: sources that always have tasks have what filling with water gives them: their share by
// weight, but no more than their maximum; the others share what is left.
func TestRandomSources(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		workers := []int{1, 2, 4, 8}[r.IntN(4)]
		p := newPlant(workers)
		var all []*source
		var longest int64
		for i := range 2 + r.IntN(5) {
			s := p.source(fmt.Sprint(i), []int64{1, 2, 10, 100, 1000}[r.IntN(5)], []int64{Turn, ms, 10 * ms}[r.IntN(3)])
			if longest = max(longest, s.long); r.IntN(3) == 0 {
				s.most = 1 + r.IntN(workers)
			}
			all = append(all, p.backlog(s))
		}
		want, left := map[string]float64{}, float64(workers)
		for again := true; again; {
			again = false
			sum, rest := 0.0, left
			for _, s := range all {
				if want[s.name] == 0 {
					sum += float64(s.item.weight)
				}
			}
			for _, s := range all {
				if share := rest * float64(s.item.weight) / sum; want[s.name] == 0 && share >= float64(s.most) {
					want[s.name], again = float64(s.most), true
					left -= want[s.name]
				}
			}
		}
		sum := 0.0
		for _, s := range all {
			if want[s.name] == 0 {
				sum += float64(s.item.weight)
			}
		}
		length := 1000*longest + 1000*ms
		p.run(length)
		for _, s := range all {
			want := want[s.name]
			if want == 0 {
				want = left * float64(s.item.weight) / sum
			}
			got := float64(p.used[s.name]) / float64(length)
			if slack := 0.06*want + 2*float64(longest)/float64(length); math.Abs(got-want) > slack {
				t.Errorf("seed %d: source %s of %d (weight %d, maximum %d, tasks of %d) has %.3f workers of %d, want %.3f", seed, s.name, len(all), s.item.weight, s.most, s.long, got, workers, want)
			}
		}
	}
}
