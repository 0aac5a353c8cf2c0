//go:build !poolsim

package grow

import "slices"

// The rows: programs on the plant.

// A result is what came of a row. Times are in nanoseconds of the plant's clock.
type result struct {
	took     int64   // until all that count had ended
	p50, p99 int64   // how late: a task's start, or a neighbour's timer
	crowd    int     // the most own workers that were runnable at once
	workers  int     // the most there were
	perTask  float64 // CPU time per task, relative to the task's own
}

func (p *pool) result() result {
	return result{took: p.s.now, crowd: p.s.ownMax, workers: p.peak}
}

func (r *result) late(ds []int64) {
	ds = slices.Clone(ds)
	slices.Sort(ds)
	if n := len(ds); n > 0 {
		r.p50, r.p99 = ds[(n-1)/2], ds[int(.99*float64(n-1))]
	}
}

func compute(d int64) []step { return []step{{stepRun, d}} }
func sleep(d int64) []step   { return []step{{stepSleep, d}} }

// alternating tasks compute and sleep, 1 ms each, five times.
func alternating() (steps []step) {
	for range 5 {
		steps = append(steps, step{stepRun, ms}, step{stepSleep, ms})
	}
	return steps
}

// spin starts n foreign goroutines that compute for ever.
func (s *Sim) spin(n int) {
	for range n {
		s.ready(nil, &G{fn: func() op { return op{opRun, forever} }}, false)
	}
}

// foreign starts n foreign goroutines that compute d and sleep until the next multiple of gap,
// or yield if gap is 0, over and over.
func (s *Sim) foreign(n int, d, gap int64) {
	for range n {
		run := false
		s.ready(nil, &G{fn: func() op {
			if run = !run; run {
				return op{opRun, d}
			}
			if gap == 0 {
				return op{k: opYield}
			}
			return op{opSleep, gap - s.now%gap}
		}}, false)
	}
}

// user starts a goroutine that calls f n times, with a pause of gap after each. A call costs
// cost.
func (s *Sim) user(n int, cost, gap int64, f func(i int)) {
	i, called := 0, true
	s.ready(nil, &G{fn: func() op {
		for {
			if called {
				if i == n {
					return op{k: opExit}
				}
				called = false
				return op{opRun, cost}
			}
			f(i)
			i++
			called = true
			if gap > 0 {
				return op{opSleep, gap}
			}
		}
	}}, false)
}

// submits starts a user that submits n tasks, as fast as it can.
func (p *pool) submits(n int, f func(i int) task) {
	p.s.user(n, 150, 0, func(i int) { p.submit(f(i)) })
}

// asks starts a user that submits n tasks of that CPU time, each after the one before has ended,
// and adds to late how late they begin.
func (p *pool) asks(n int, d int64, late *[]int64, end func()) {
	s, i, called := p.s, 0, true
	g := new(G)
	g.fn = func() op {
		if called = !called; !called {
			return op{opRun, 150}
		}
		if i++; i > n {
			end()
			return op{k: opExit}
		}
		p.submit(task{steps: compute(d), began: func(l int64) { *late = append(*late, l) }, ended: func() { s.ready(s.cp, g, true) }})
		return op{k: opBlock}
	}
	s.ready(nil, g, false)
}

// theft takes each CPU from the process for d, about once in every: the machine is shared.
func (s *Sim) theft(d, every int64) {
	for _, p := range s.ps {
		var f func()
		f = func() {
			if p.cur != nil && p.end > s.now {
				p.end += d
				p.ver++
				s.add(event{at: p.end, k: evOp, p: int32(p.id), ver: p.ver})
			}
			s.after(every/2+s.rng.Int64N(every), f)
		}
		s.after(s.rng.Int64N(every), f)
	}
}

// until runs the plant until n tasks have called the function that it returns first.
func (s *Sim) counter(n int) func() {
	return func() {
		if n--; n == 0 {
			s.stop = true
		}
	}
}

const longest = 30_000 * ms

// mixed submits n tasks, and runs until counted of them have called end.
func mixed(p *pool, n, counted int, f func(i int, end func()) task) result {
	end := p.s.counter(counted)
	p.submits(n, func(i int) task { return f(i, end) })
	p.s.run(longest)
	return p.result()
}

// neighbour keeps the pool full of tasks of the given mean CPU time, and tells how late a
// timer of 1 ms fires beside it.
func neighbour(p *pool, mean int64, f func(end func()) task) result {
	s := p.s
	var again func()
	again = func() { p.submit(f(again)) }
	late := s.timers()
	s.run(s.now + ms/2)
	p.submits(20_000, func(int) task { return f(again) })
	s.run(s.now + 100*ms)
	*late, s.ownMax = nil, max(s.ownRun, 0)
	from, T := p.ended, 2000*ms
	if mean >= 10*ms {
		T = 5000 * ms
	}
	if mean >= 50*ms {
		T = 20_000 * ms
	}
	s.run(s.now + T)
	s.atEnd()
	r := p.result()
	r.late(*late)
	r.perTask = float64(T) * float64(p.procs) / float64(mean) / max(1, float64(p.ended-from))
	return r
}

// same is neighbour's f for tasks of one kind.
func same(steps []step) func(end func()) task {
	return func(end func()) task { return task{steps: steps, ended: end} }
}

// timers starts a foreign goroutine that sleeps for 1 ms in a loop, and notes how late it is.
func (s *Sim) timers() *[]int64 {
	var late []int64
	asleep := int64(-1)
	s.ends = append(s.ends, func() { // it may wait still
		if d := s.now - asleep - ms; d > 0 {
			late = append(late, d)
		}
	})
	run := false
	s.ready(nil, &G{fn: func() op {
		if run {
			run = false
			asleep = s.now
			return op{opSleep, ms}
		}
		if asleep >= 0 {
			late = append(late, s.now-asleep-ms)
		}
		run = true
		return op{opRun, us}
	}}, false)
	return &late
}

func (s *Sim) atEnd() {
	for _, f := range s.ends {
		f()
	}
}

// A row is a program, for P CPUs and a pool of at most max(P) workers.
type row struct {
	name, what string
	max        int // for each CPU
	run        func(p *pool) result
}

var rows = []row{
	{"S3", "20 P tasks compute 250 ms, then 50 P sleep 10 ms; until the sleepers have ended", 150, func(p *pool) result {
		return mixed(p, 70*p.procs, 50*p.procs, func(i int, end func()) task {
			if i < 20*p.procs {
				return task{steps: compute(250 * ms)}
			}
			return task{steps: sleep(10 * ms), ended: end}
		})
	}},
	{"S4", "500 P tasks sleep 10 ms beside 20 P foreign goroutines that spin", 150, func(p *pool) result {
		p.s.spin(20 * p.procs)
		return mixed(p, 500*p.procs, 500*p.procs, func(i int, end func()) task { return task{steps: sleep(10 * ms), ended: end} })
	}},
	{"S4 polite", "the same, the foreign ones yield every 100 µs", 150, func(p *pool) result {
		p.s.foreign(20*p.procs, 100*us, 0)
		return mixed(p, 500*p.procs, 500*p.procs, func(i int, end func()) task { return task{steps: sleep(10 * ms), ended: end} })
	}},
	{"S4 late", "100 P workers' tasks sleep 10 ms all the time, then 20 P spinning goroutines come, then 500 P tasks more that sleep 50 ms", 150, func(p *pool) result {
		s := p.s
		var again func()
		again = func() { p.submit(task{steps: sleep(10 * ms), ended: again}) }
		p.submits(100*p.procs, func(int) task { return task{steps: sleep(10 * ms), ended: again} })
		s.run(100 * ms)
		s.spin(20 * p.procs)
		s.run(200 * ms)
		end := s.counter(500 * p.procs)
		p.submits(500*p.procs, func(int) task { return task{steps: sleep(50 * ms), ended: end} })
		s.run(longest)
		r := p.result()
		r.took -= 200 * ms
		return r
	}},
	{"L", "50 P tasks a second of 100 µs beside 6 P of the pool's that compute without end: how late they start", 150, func(p *pool) result {
		s := p.s
		var late []int64
		p.submits(6*p.procs, func(int) task { return task{steps: compute(forever)} })
		s.after(2000*ms, func() {
			s.user(100*p.procs, 150, 20*ms/int64(p.procs), func(int) {
				p.submit(task{steps: compute(100 * us), began: func(l int64) { late = append(late, l) }})
			})
		})
		s.run(4000 * ms)
		for i := range p.q.n { // never begun
			late = append(late, s.now-p.q.at(i).at)
		}
		r := p.result()
		r.late(late)
		return r
	}},
	{"wait", "a user submits a task of 1 µs and waits for it, 10,000 times", 150, func(p *pool) result {
		var late []int64
		p.asks(10_000, us, &late, p.s.counter(1))
		p.s.run(longest)
		return p.result()
	}},
	{"L wait", "as wait, 1,000 times, then 6 P foreign goroutines come that spin, and the user goes on, 1,000 times", 150, func(p *pool) result {
		s := p.s
		var late []int64
		warm, from := false, int64(0)
		p.asks(1000, us, &late, func() { warm = true })
		for !warm {
			s.run(s.now + ms)
		}
		s.spin(6 * p.procs)
		late, from = nil, s.now
		p.asks(1000, us, &late, s.counter(1))
		s.run(longest)
		r := p.result()
		r.took -= from
		r.late(late)
		return r
	}},
	{"H31", "32 P tasks wait for the last of them beside 4 P goroutines that spin", 150, func(p *pool) result {
		n := 32 * p.procs
		p.waitFor = n
		p.s.spin(4 * p.procs)
		return mixed(p, n, n, func(i int, end func()) task { return task{steps: []step{{stepWait, 0}}, ended: end} })
	}},
	{"spinning", "125 P tasks compute until the last of them has begun", 150, func(p *pool) result {
		n := 125 * p.procs
		p.waitFor = n
		return mixed(p, n, n, func(i int, end func()) task { return task{steps: []step{{stepSpin, 0}}, ended: end} })
	}},
	{"spinning polite", "the same, but a task yields each time it has computed for 1 µs", 150, func(p *pool) result {
		n := 125 * p.procs
		p.waitFor = n
		return mixed(p, n, n, func(i int, end func()) task { return task{steps: []step{{stepSpin, us}}, ended: end} })
	}},
	{"block", "500 P tasks that block, on an idle machine, until all have begun", 500, func(p *pool) result {
		end := p.s.counter(500 * p.procs)
		p.submits(500*p.procs, func(int) task {
			return task{steps: sleep(10_000 * ms), began: func(int64) { end() }}
		})
		p.s.run(longest)
		return p.result()
	}},
	{"mix", "4,000 P tasks: 10 % sleep 20 ms, 90 % compute 100 µs", 500, func(p *pool) result {
		n := 4000 * p.procs
		return mixed(p, n, n, func(i int, end func()) task {
			if i%10 == 0 {
				return task{steps: sleep(20 * ms), ended: end}
			}
			return task{steps: compute(100 * us), ended: end}
		})
	}},
	{"mutex", "2,000 tasks: 50 µs under a lock, 50 µs beside it", 500, func(p *pool) result {
		steps := []step{{stepLock, 0}, {stepRun, 50 * us}, {stepUnlock, 0}, {stepRun, 50 * us}}
		return mixed(p, 2000, 2000, func(i int, end func()) task { return task{steps: steps, ended: end} })
	}},
	{"alternate", "200 P tasks: 1 ms compute, 1 ms sleep, five times", 500, func(p *pool) result {
		n := 200 * p.procs
		return mixed(p, n, n, func(i int, end func()) task { return task{steps: alternating(), ended: end} })
	}},
	{"beside spinning", "2,000 P tasks of 100 µs beside 2 P goroutines that spin", 500, func(p *pool) result {
		p.s.spin(2 * p.procs)
		n := 2000 * p.procs
		return mixed(p, n, n, func(i int, end func()) task { return task{steps: compute(100 * us), ended: end} })
	}},
	{"N", "a neighbour of tasks of 100 µs", 500, func(p *pool) result { return neighbour(p, 100*us, same(compute(100*us))) }},
	{"N 5 ms", "a neighbour of tasks of 5 ms", 500, func(p *pool) result { return neighbour(p, 5*ms, same(compute(5*ms))) }},
	{"N 50 ms", "a neighbour of tasks of 50 ms", 500, func(p *pool) result { return neighbour(p, 50*ms, same(compute(50*ms))) }},
	{"N 250 ms", "a neighbour of tasks of 250 ms", 500, func(p *pool) result { return neighbour(p, 250*ms, same(compute(250*ms))) }},
	{"N mix", "a neighbour of tasks of which 10 % sleep 20 ms and 90 % compute 100 µs", 500, func(p *pool) result {
		i := 0
		return neighbour(p, 90*us, func(end func()) task {
			if i++; i%10 == 0 {
				return task{steps: sleep(20 * ms), ended: end}
			}
			return task{steps: compute(100 * us), ended: end}
		})
	}},
	{"N bursts", "as N, beside bursts: every 20 ms 20 P foreign goroutines compute 100 µs", 500, func(p *pool) result {
		p.s.foreign(20*p.procs, 100*us, 20*ms)
		return neighbour(p, 100*us, same(compute(100*us)))
	}},
	{"N after sleepers", "1,000 tasks sleep 10 ms, then as N", 500, func(p *pool) result {
		p.submits(1000, func(int) task { return task{steps: sleep(10 * ms)} })
		p.s.run(60 * ms)
		return neighbour(p, 100*us, same(compute(100*us)))
	}},
	{"N two pools", "as N, two pools", 500, func(p *pool) result {
		o := newPool(p.s, p.max)
		o.always = p.always
		var again func()
		again = func() { o.submit(task{steps: compute(100 * us), ended: again}) }
		o.submits(20_000, func(int) task { return task{steps: compute(100 * us), ended: again} })
		return neighbour(p, 100*us, same(compute(100*us)))
	}},
	{"N stolen", "as N, on a machine that takes each CPU away half of the time, for 8 ms", 500, func(p *pool) result {
		p.s.theft(8*ms, 16*ms)
		return neighbour(p, 100*us, same(compute(100*us)))
	}},
}
