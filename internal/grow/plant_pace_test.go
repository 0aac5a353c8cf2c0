//go:build !poolsim

package grow

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
)

// This file tries on the plant how submitters that are far ahead of the workers let them follow. The
// rule is pace.go of internal/kernel. It is about the words and the lock of a lane, which the plant does
// not have. So the plant has a copy of it, function by function. The workers' Seat, whose tick calls
// follow, is the real one.
//
// What the plant says of the figures, on one CPU and two:
//
//	farAhead   A quarter of it does for short tasks. Long tasks hold the submitters up once more, for
//	           10 ms. Four times as much takes four times the memory, and a producer is parked for four
//	           times as long. On one CPU tasks of 1 µs are then taken for long ones.
//	wake one   If one is woken at a time also where fewer than mostLease tasks wait, workers are idle while
//	           producers of few tasks are parked. If as many are woken as bring half of what is missing
//	           to half of farAhead, by what those woken last have brought, it is as good here. On a
//	           real machine it cost 3 to 18 % of Rand and Submitters. If all are woken, 256
//	           producers park 38 times as often.
//	no lease   If a submitter that is far ahead got a lease for as many tasks as submitters are parked,
//	           it would use that itself, and not park meanwhile. So n submitters would bring n²/2 tasks
//	           before all are parked: the queue of 4,000 would grow without end.
//	perTask    Without it, tasks that sleep take up to 1.2 times as long, and with an eighth of it
//	           those that sleep for 60 µs take 1.1 times as long.
//	the alarm  If it wakes as few as a worker does, they take 1.2 to 2 times as long.
//	far x 4    With twice the queue, submitters of long tasks lose 10 ms for each doubling. If parking
//	           were never in vain, they would wait for the workers.
//
// The plant also shows where the rule fails: see TestWhereThePaceIsLost.
//
// What the plant cannot show: it has no cache lines, and no garbage collector. On a real machine two
// CPUs that submit hinder each other, and the queue is to fit into the caches. On the plant two are twice
// as fast as one, and a long queue costs nothing. So pace gains memory here, and no time, and the plant
// cannot tell which farAhead is the best. Nor does a visit to the lock cost more if others come too.

// The figures of the kernel: see TestThePaceIsTheKernels.
const (
	farAhead  = 1 << 15
	paceTime  = 10 * ms
	firstTime = paceTime / 40
	mostSlow  = 10
	mostTime  = 10 * paceTime
	mostLease = 1 << 12
	perTask   = uint64(paceTime / ShortStep)
)

// The CPU time, in nanoseconds, of a submit by the lease, and of one that comes to the lock.
const (
	submitCost = 20
	lockCost   = 100
)

// A paceRule is what may be varied.
type paceRule struct {
	far  uint64                                    // farAhead
	task uint64                                    // perTask
	wake func(p *pacing, n, brought uint64) uint64 // how many to wake
	vain uint64                                    // after parking in vain far is so many times the queue; 0: it never is in vain

	// What the kernel does not have: the alarm wakes only as many as a worker does, a submitter that is
	// far ahead gets a lease of at most ahead tasks, and parking is not in vain before a round of the
	// scheduler is over.
	next  bool
	ahead uint64
	round bool
}

var (
	kernelPace = paceRule{far: farAhead, task: perTask, wake: wakeSome, vain: 4}
	noPace     = paceRule{far: 1 << 62}
)

// but is the kernel's rule with a change.
func but(change func(r *paceRule)) paceRule {
	r := kernelPace
	change(&r)
	return r
}

// The variations that are tried.
var (
	quarterAhead = but(func(r *paceRule) { r.far /= 4 })
	timesAhead   = but(func(r *paceRule) { r.far *= 4 })
	oneWoken     = but(func(r *paceRule) { r.wake = wakeOne })
	halfWoken    = but(func(r *paceRule) { r.wake = wakeHalf })
	allWoken     = but(func(r *paceRule) { r.wake = wakeAll })
	eighthATask  = but(func(r *paceRule) { r.task /= 8 })
	noneATask    = but(func(r *paceRule) { r.task = 0 })
	alarmNext    = but(func(r *paceRule) { r.next = true })
	vainTwice    = but(func(r *paceRule) { r.vain = 2 })
	neverVain    = but(func(r *paceRule) { r.vain = 0 })
	aheadLease   = but(func(r *paceRule) { r.ahead = farAhead / 8 })
	afterRound   = but(func(r *paceRule) { r.round = true })
)

// wakeOne, wakeSome, wakeHalf and wakeAll say how many parked submitters a worker wakes that sees
// n tasks wait. Those that were woken last have brought some since.
func wakeOne(*pacing, uint64, uint64) uint64 { return 1 }
func wakeSome(_ *pacing, n, _ uint64) uint64 {
	if n < mostLease {
		return farAhead / mostLease
	}
	return 1
}

func wakeAll(p *pacing, _, _ uint64) uint64 { return uint64(len(p.parked)) }
func wakeHalf(p *pacing, n, brought uint64) uint64 {
	if half := p.rule.far / 2; p.woken > 0 && n < half {
		return max(1, (half-n)*uint64(p.woken)/(2*max(1, brought)))
	}
	return 1
}

// A pacing is a lane's queue as submitters see it, and its pace. The first fields are those of the
// kernel's, but for waits and set.
type pacing struct {
	far    uint64
	parked []pacer
	wakeAt uint64
	waits  bool // wakeAt is set
	alarm  bool
	slow   int
	head   uint64
	tail   uint64
	set    int64 // when the alarm was set

	sent  uint64 // given when some were last woken, and how many: for wakeHalf
	woken int

	rule  paceRule
	pool  *pool
	lease uint64
	given uint64 // tasks submitted

	length  int64  // producers stop then; 0: never
	left    int    // producers that have not stopped
	longest uint64 // the most tasks that waited
	parks   int
	parkMax int64 // for how long a producer was parked, at most
}

type pacer struct {
	g     *G
	since int64
}

func (p *pacing) backlog() uint64 { return p.given - p.pool.began }

func (p *pacing) isFarAhead() bool {
	n := p.backlog()
	if n <= p.rule.far/2 {
		p.far = p.rule.far
	}
	return n > p.far+p.rule.task*uint64(p.pool.inTask)
}

func (p *pacing) leaseFor(ahead bool) {
	n := p.rule.far / 8
	if ahead {
		n = min(n, p.rule.ahead, uint64(len(p.parked)))
	}
	p.lease = max(p.lease, n)
}

func (p *pacing) park(g *G) {
	p.parks++
	if p.parked = append(p.parked, pacer{g, p.pool.s.now}); len(p.parked) == 1 {
		p.woken = 0
		p.wakeAtHalf()
		if !p.alarm {
			p.slow = 0
			p.setAlarm(firstTime)
		}
	}
}

func (p *pacing) wakeAtHalf() { p.wakeAt, p.waits = p.pool.began+min(p.backlog(), p.rule.far)/2, true }

func (p *pacing) wake(n int) {
	s := p.pool.s
	for _, w := range p.parked[:n] {
		p.parkMax = max(p.parkMax, s.now-w.since)
		p.pool.extra += wakeCost
		s.ready(s.cp, w.g, true)
	}
	if p.parked = p.parked[n:]; len(p.parked) == 0 {
		p.parked, p.waits = nil, false
	}
}

// isTime is the kernel's mayWake.
func (p *pacing) isTime() bool { return p.waits && p.pool.began >= p.wakeAt }

func (p *pacing) follow() {
	if p.isTime() {
		p.wakeNext(p.rule.wake(p, p.backlog(), p.given-p.sent))
	}
}

func (p *pacing) wakeNext(wake uint64) {
	if !p.isTime() {
		return
	}
	p.far = p.rule.far
	p.woken, p.sent = int(min(wake, uint64(len(p.parked)))), p.given
	p.wakeAtHalf()
	p.wake(p.woken)
}

// setAlarm makes the alarm ring after d.
func (p *pacing) setAlarm(d int64) {
	p.head, p.tail, p.set = p.pool.began, p.given, p.pool.s.now
	p.startAlarm(d)
}

// startAlarm starts a timer of the P on which it is called.
func (p *pacing) startAlarm(d int64) {
	s := p.pool.s
	p.alarm = true
	s.seq++
	s.cp.timers.push(timer{s.now + d, &G{state: gWaiting, fn: func() op {
		p.check(d)
		return op{k: opExit}
	}}, s.seq})
	s.add(event{at: s.now + d + timerLat, k: evTimer})
}

func (p *pacing) check(d int64) {
	s := p.pool.s
	p.alarm = false
	had := len(p.parked) > 0
	if p.rule.next {
		p.follow()
	} else {
		p.wakeNext(min(uint64(p.pool.live), p.rule.far/2))
	}
	taken, enough := p.pool.began-p.head, p.rule.far/8
	moved := taken + p.given - p.tail
	if p.slow++; taken >= enough {
		p.slow = 0
	}
	switch {
	case !had:
	case p.rule.round && moved < enough && s.now-p.set < int64(s.runnable)*slice/int64(len(s.ps)):
		p.startAlarm(paceTime)
	case len(p.parked) > 0 && p.rule.vain > 0 && (moved == 0 || d == paceTime && moved < enough || p.slow > mostSlow):
		p.far = p.rule.vain * p.backlog()
		p.wake(len(p.parked))
	default:
		long := 0
		for long < len(p.parked) && s.now-p.parked[long].since >= mostTime {
			long++
		}
		p.wake(long)
		p.setAlarm(paceTime)
	}
}

// submitMany is [pool.submit] for n tasks.
func (p *pacing) submitMany(n uint64, t task) {
	if n == 0 {
		return
	}
	t.many = int(n)
	p.given += n
	p.longest = max(p.longest, p.backlog())
	if t.steps[0].kind != stepSleep {
		p.pool.submit(t)
		return
	}
	t.many = 0
	for range n {
		p.pool.submit(t)
	}
}

// produce starts a producer of n tasks like t, which pauses after each burst of them.
func (p *pacing) produce(n, burst uint64, pause int64, t task) {
	const chunk = 256 // tasks that are simulated at once
	s, g := p.pool.s, new(G)
	var sent, step uint64 // sent: in this burst
	p.left++
	g.fn = func() op {
		p.submitMany(step, t)
		sent, n = sent+step, n-step
		step = 0
		if n == 0 || p.length > 0 && s.now >= p.length {
			p.left--
			return op{k: opExit}
		}
		if sent == burst {
			sent = 0
			return op{opSleep, pause}
		}
		cost := int64(0)
		if p.lease == 0 {
			ahead := p.isFarAhead()
			p.submitMany(1, t)
			sent, n = sent+1, n-1
			p.leaseFor(ahead)
			if ahead {
				p.park(g)
				return op{k: opBlock}
			}
			cost = lockCost
		}
		step = min(p.lease, chunk, n, burst-sent)
		p.lease -= step
		return op{opRun, cost + int64(step)*submitCost}
	}
	s.ready(nil, g, false)
}

// A paceRow is a program of producers. Each of their tasks takes each nanoseconds.
type paceRow struct {
	name, what string
	producers  int
	length     int64  // until they stop; or
	tasks      uint64 // how many they submit in all
	each       int64
	asleep     bool   // for each nanoseconds
	most       int    // workers; 0: as many as CPUs
	burst      uint64 // between two pauses; 0: they never pause
	pause      int64
	drain      bool // until all is done
	beside     func(s *Sim)
	pins       [2]pacePin // on one CPU and on two
}

// A pacePin is what a row is to keep to. 0 means that nothing is said.
type pacePin struct {
	done    float64 // per cent, at least
	mb      float64 // of the queue, at most
	lost    float64 // time in all as against no pace, at most
	park    float64 // ms for which a producer is parked, at most
	without float64 // per cent done without pace, at most: what the row is for
}

const endless = 200 * ms

var paceRows = []paceRow{
	{name: "1 endless", what: "a producer submits tasks of 50 ns without pause for 200 ms", producers: 1, length: endless, each: 50, drain: true,
		pins: [2]pacePin{{98, .4, 1.01, 2, 8}, {99, .4, 1.01, 1, 26}}},
	{name: "8 endless", what: "the same, eight producers", producers: 8, length: endless, each: 50, drain: true,
		pins: [2]pacePin{{done: 98, mb: .4, park: 10, without: 1}, {done: 99, mb: .4, park: 6, without: 2}}},
	{name: "32 endless", what: "the same, 32 producers", producers: 32, length: endless, each: 50, drain: true,
		pins: [2]pacePin{{done: 98, mb: .4, park: 40, without: .1}, {done: 99, mb: .4, park: 22, without: .1}}},
	{name: "256 endless", what: "the same, 256 producers", producers: 256, length: endless, each: 50, drain: true,
		pins: [2]pacePin{{98, .4, 1.1, 111, .1}, {99, .4, 1.06, 111, .1}}},
	{name: "4,000 endless", what: "the same, 4,000 producers", producers: 4000, length: endless, each: 50,
		pins: [2]pacePin{{done: 98, mb: .4, park: 111, without: .1}, {done: 99, mb: .4, park: 111, without: .1}}},
	{name: "burst", what: "a producer submits 100,000 tasks of 50 ns; until all are done", producers: 1, tasks: 100_000, each: 50, drain: true,
		pins: [2]pacePin{{lost: 1.01, park: 2}, {lost: 1.01, park: 1}}},
	{name: "pauses", what: "256 producers submit bursts of 1,000 tasks of 50 ns, with pauses of 5 ms, for 200 ms", producers: 256, length: endless, each: 50, burst: 1000, pause: 5 * ms, drain: true,
		pins: [2]pacePin{{98, .4, 1.1, 111, 1}, {99, .4, 1.05, 111, 24}}},
	{name: "few", what: "4,000 producers submit bursts of 40 tasks of 50 ns, with pauses of 5 ms, for 200 ms", producers: 4000, length: endless, each: 50, burst: 40, pause: 5 * ms,
		pins: [2]pacePin{{done: 98, mb: .4, park: 111, without: 8}, {done: 99, mb: .4, park: 111, without: 46}}},
	{name: "crowd", what: "10,000 producers submit 100 tasks of 50 ns each; until all are done", producers: 10_000, tasks: 1_000_000, each: 50, drain: true,
		pins: [2]pacePin{{done: 99, mb: .4, lost: 1.06, park: 111, without: 1}, {done: 99, mb: .4, lost: 1.07, park: 60, without: 1}}},
	{name: "1 µs", what: "eight producers submit tasks of 1 µs without pause for 200 ms", producers: 8, length: endless, each: us,
		pins: [2]pacePin{{mb: .4, park: 111}, {mb: .4, park: 60}}},
	{name: "3 µs", what: "the same, 3 µs: on one CPU they are long", producers: 8, length: endless, each: 3 * us,
		pins: [2]pacePin{{park: 16}, {mb: .4, park: 111}}},
	{name: "long", what: "eight producers submit a million tasks of 100 µs; until all are submitted", producers: 8, tasks: 1_000_000, each: 100 * us,
		pins: [2]pacePin{{lost: 2.6, park: 11}, {lost: 4.1, park: 11}}},
	{name: "asleep", what: "1,000 producers submit 200 tasks each that sleep 1 ms, to 5,000 workers; until all are done", producers: 1000, tasks: 200_000, each: ms, asleep: true, most: 5000, drain: true,
		pins: [2]pacePin{{lost: 1.07, park: 11}, {lost: 1.01, park: 11}}},
	{name: "asleep 60 µs", what: "1,000 producers submit 1,000 tasks each that sleep 60 µs, to 400 workers; until all are done", producers: 1000, tasks: 1_000_000, each: 60 * us, asleep: true, most: 400, drain: true,
		pins: [2]pacePin{{mb: 2.1, lost: 1.05, park: 32}, {mb: 2.1, lost: 1.05, park: 31}}},
	{name: "stolen", what: "eight endless producers, on a machine that takes each CPU away half of the time, for 8 ms", producers: 8, length: endless, each: 50, beside: func(s *Sim) { s.theft(8*ms, 16*ms) },
		pins: [2]pacePin{{done: 97, mb: .4, park: 26, without: 2}, {done: 98, mb: .4, park: 21, without: 4}}},
	{name: "beside spinning", what: "eight endless producers beside 4 P foreign goroutines that spin", producers: 8, length: endless, each: 50, beside: func(s *Sim) { s.spin(4 * len(s.ps)) }},
	{name: "beside polite", what: "the same, the foreign ones yield every 100 µs", producers: 8, length: endless, each: 50, beside: func(s *Sim) { s.foreign(4*len(s.ps), 100*us, 0) },
		pins: [2]pacePin{{done: 94, mb: .4, park: 42, without: 1}, {done: 97, mb: .4, park: 22, without: 2}}},
}

// A paceResult is what came of a row.
type paceResult struct {
	done  float64 // share of tasks that were done when the producers stopped; in per cent
	mb    float64 // of the longest queue
	took  float64 // nanoseconds for a task, until the row was over
	parks int
	park  float64 // ms for which a producer was parked, at most
}

func (r paceResult) String() string {
	return fmt.Sprintf("%6.1f%% %7.1f MB %7.1f ns %6d parks, to %5.1f ms", r.done, r.mb, r.took, r.parks, r.park)
}

func (row paceRow) run(procs int, rule paceRule) (r paceResult) {
	const taskBytes, most = 8.5, 2000 * ms
	s := newSim(procs, 1)
	p := newPool(s, cmp.Or(row.most, procs))
	pace := &pacing{rule: rule, pool: p, far: rule.far, length: row.length}
	p.pace = pace
	if row.beside != nil {
		row.beside(s)
	}
	steps := compute(row.each)
	if row.asleep {
		steps = sleep(row.each)
	}
	n, burst := uint64(forever), uint64(forever)
	if row.length == 0 {
		n = row.tasks / uint64(row.producers)
	}
	if row.burst > 0 {
		burst = row.burst
	}
	for range row.producers {
		pace.produce(n, burst, row.pause, task{steps: steps})
	}
	s.run(row.length)
	for row.length == 0 && pace.left > 0 && s.now < most {
		s.run(s.now + 10*us)
	}
	r.done = 100 * float64(p.ended) / float64(pace.given)
	over := s.now
	for row.drain && (pace.left > 0 || p.ended < pace.given) && s.now < most {
		s.run(s.now + 10*us)
		over = s.now
	}
	r.took = float64(over) / float64(pace.given)
	r.mb = float64(pace.longest) * taskBytes / 1e6
	r.parks, r.park = pace.parks, float64(pace.parkMax)/float64(ms)
	return r
}

func paceOn(name string, procs int, rule paceRule) paceResult {
	for _, row := range paceRows {
		if row.name == name {
			return row.run(procs, rule)
		}
	}
	panic("no row " + name)
}

// TestPaceTable prints what the rows are with each variation.
func TestPaceTable(t *testing.T) {
	if !*table {
		t.Skip("only with -grow.table")
	}
	for _, procs := range []int{1, 2, 8} {
		for _, row := range paceRows {
			fmt.Printf("\n%s, %d CPUs: %s\n", row.name, procs, row.what)
			for _, v := range []struct {
				name string
				rule paceRule
			}{
				{"no pace", noPace}, {"the rule", kernelPace},
				{"farAhead / 4", quarterAhead}, {"farAhead x 4", timesAhead},
				{"wake one", oneWoken}, {"wake half", halfWoken}, {"wake all", allWoken},
				{"perTask / 8", eighthATask}, {"none a task", noneATask}, {"alarm: next", alarmNext}, {"far 2x", vainTwice}, {"never in vain", neverVain}, {"a lease", aheadLease}, {"after a round", afterRound},
			} {
				fmt.Printf("  %-14s %v\n", v.name, row.run(procs, v.rule))
			}
		}
	}
}

// TestThePaceIsTheKernels: the copy has the figures of the kernel.
func TestThePaceIsTheKernels(t *testing.T) {
	text, err := os.ReadFile("../kernel/pace.go")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(string(text)), " ")
	for _, want := range []string{
		"farAhead = 1 << 15 >>", "// farAhead / 8", "paceTime = 10 * time.Millisecond", "firstTime = paceTime / 40", "mostSlow = 10 >>", "mostTime = 10 * paceTime",
		"p.far = 4 * l.backlog()", "mostLease = 1 << 12 >>", "if l.backlog() < mostLease { wake = farAhead / mostLease",
		"perTask = uint64(int64(paceTime)/grow.ShortStep) >>", "n > p.far+perTask*numOf(l.head.Load())", "l.wakeNext(p, min(l.crew.live, farAhead/2))",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("pace.go has no %q: change the copy too", want)
		}
	}
}

func TestEachPaceRowKeepsToItsPins(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds, and is the same on each machine")
	}
	for _, row := range paceRows {
		for i, pin := range row.pins {
			if pin == (pacePin{}) {
				continue // see TestWhereThePaceIsLost
			}
			procs := i + 1
			row.drain = pin.lost > 0 && row.drain
			t.Run(fmt.Sprintf("%s on %d", row.name, procs), func(t *testing.T) {
				r, none := row.run(procs, kernelPace), paceResult{}
				if pin.lost > 0 || pin.without > 0 {
					none = row.run(procs, noPace)
				}
				if r.done < pin.done || pin.mb > 0 && r.mb > pin.mb || pin.lost > 0 && r.took > pin.lost*none.took || r.park > pin.park {
					t.Errorf("%v, pinned at %+v; without pace %v", r, pin, none)
				}
				if pin.without > 0 && none.done > pin.without {
					t.Errorf("without pace %v, pinned at %+v", none, pin)
				}
			})
		}
	}
}

// TestEachFigureOfThePaceIsForARow: with another one, the row suffers.
func TestEachFigureOfThePaceIsForARow(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds, and is the same on each machine")
	}
	took := func(r paceResult) float64 { return r.took }
	mb := func(r paceResult) float64 { return r.mb }
	park := func(r paceResult) float64 { return r.park }
	parks := func(r paceResult) float64 { return float64(r.parks) }
	for _, v := range []struct {
		what   string
		rule   paceRule
		row    string
		procs  int
		figure func(paceResult) float64
		times  float64
	}{
		{"a quarter of farAhead", quarterAhead, "long", 2, took, 1.2},
		{"four times farAhead", timesAhead, "8 endless", 1, mb, 3.5},
		{"four times farAhead", timesAhead, "8 endless", 1, park, 3.5},
		{"four times farAhead", timesAhead, "1 µs", 1, mb, 50},
		{"one is woken, however few wait", oneWoken, "few", 8, took, 1.1},
		{"all are woken", allWoken, "256 endless", 2, parks, 30},
		{"an eighth of perTask", eighthATask, "asleep 60 µs", 2, took, 1.1},
		{"no more for each task", noneATask, "asleep", 2, took, 1.15},
		{"the alarm wakes the next", alarmNext, "asleep 60 µs", 2, took, 2},
		{"far grows to twice the queue", vainTwice, "long", 2, took, 1.4},
		{"parking is never in vain", neverVain, "long", 2, took, 100},
		{"a lease far ahead", aheadLease, "4,000 endless", 1, mb, 10},
	} {
		is, would := v.figure(paceOn(v.row, v.procs, kernelPace)), v.figure(paceOn(v.row, v.procs, v.rule))
		if would < v.times*is {
			t.Errorf("%s: row %s has %.4g, and %.4g with the kernel's figure", v.what, v.row, would, is)
		}
	}
}

// TestWhereThePaceIsLost: in this row the queue grows without end, and with a change of the rule it does
// not. The alarm cannot tell long tasks from workers that wait for a CPU. Foreign goroutines that spin keep
// the workers from it for longer than the alarm waits. So parking looks in vain. A round of the scheduler
// takes a slice for each runnable goroutine, over the CPUs.
//
// The kernel does not wait for a round nevertheless. On a real machine the queue was as short as here, and
// the pool got only 0.4 to 0.8 of the work done: submitters that park leave their turns to the foreign
// goroutines, and workers that find no task do too. The capacity of the queue bounds it.
func TestWhereThePaceIsLost(t *testing.T) {
	const most = 5 // MB
	for _, v := range []struct {
		row  string
		rule paceRule
	}{
		{"beside spinning", afterRound},
	} {
		for procs := 1; procs <= 2; procs++ {
			is, would := paceOn(v.row, procs, kernelPace), paceOn(v.row, procs, v.rule)
			if is.mb <= most || would.mb > most {
				t.Errorf("%s on %d: %v, and %v with the change", v.row, procs, is, would)
			}
		}
	}
}
