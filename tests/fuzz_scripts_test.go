package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// FuzzMetamorphic is TestOneProgramHasOneResultInEveryConfiguration for
// programs that the fuzzer finds.
func FuzzMetamorphic(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}, uint(0), uint(7))
	f.Add([]byte("several tasks that submit tasks, and a Wait"), uint(3), uint(30))
	f.Fuzz(func(t *testing.T, script []byte, a, b uint) {
		configs := metaConfigs()
		ca, cb := configs[a%uint(len(configs))], configs[b%uint(len(configs))]
		ops := metaScript(script)
		ra, rb := runMeta(t, ops, ca.opts), runMeta(t, ops, cb.opts)
		if !ra.equal(rb) {
			t.Errorf("%s has %+v;\n%s has %+v\nof the program %v", ca.name, ra, cb.name, rb, ops)
		}
	})
}

// A delayedModel says what must have become of each task of SubmitAfter.
type delayedModel struct {
	due     []time.Duration
	stopped []bool
	ran     []bool
}

// FuzzDelayed follows a script of SubmitAfter, stop, and time that passes.
func FuzzDelayed(f *testing.F) {
	f.Add([]byte{0, 8, 0, 4, 2, 9, 1, 0, 2, 4})
	f.Add([]byte{0, 0, 1, 0, 0, 20, 1, 1, 2, 200, 3, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			script = script[:200]
		}
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(2))
			start := time.Now()
			var m delayedModel
			var stops []func() bool
			count := func() (n int) {
				for i := range m.due {
					if !m.stopped[i] && m.due[i] <= time.Since(start) {
						n++
					}
				}
				return n
			}
			for len(script) >= 2 {
				op, arg := script[0]%3, script[1]
				script = script[2:]
				switch op {
				case 0: // an odd due time, while the others are even: no ties
					d := 2*time.Duration(arg)*time.Millisecond + time.Millisecond
					i := len(m.due)
					m.due, m.stopped, m.ran = append(m.due, time.Since(start)+d), append(m.stopped, false), append(m.ran, false)
					stop, err := p.SubmitAfter(d, func() {
						if m.ran[i] {
							t.Errorf("task %d ran twice", i)
						}
						m.ran[i] = true
					})
					if err != nil {
						t.Errorf("SubmitAfter: %v", err)
					}
					stops = append(stops, stop)
				case 1:
					if len(stops) == 0 {
						break
					}
					i := int(arg) % len(stops)
					want := !m.stopped[i] && m.due[i] > time.Since(start)
					if got := stops[i](); got != want {
						t.Errorf("stop of task %d at %v, due at %v, stopped before %t: %t", i, time.Since(start), m.due[i], m.stopped[i], got)
					}
					m.stopped[i] = m.stopped[i] || want
				case 2:
					time.Sleep(2 * time.Duration(arg) * time.Millisecond)
				}
				synctest.Wait()
				for i := range m.due {
					if want := !m.stopped[i] && m.due[i] <= time.Since(start); m.ran[i] != want {
						t.Errorf("at %v task %d, due at %v, stopped %t, has run: %t", time.Since(start), i, m.due[i], m.stopped[i], m.ran[i])
					}
				}
				if s := p.Stats(); s.Completed != uint64(count()) || s.Dropped != 0 {
					t.Errorf("completed %d, want %d; dropped %d", s.Completed, count(), s.Dropped)
				}
				if t.Failed() {
					break
				}
			}
			ran, stopped := count(), 0
			for _, s := range m.stopped {
				if s {
					stopped++
				}
			}
			closeAll(t, p)
			if s := p.Stats(); s.Dropped != uint64(len(m.due)-ran-stopped) {
				t.Errorf("dropped %d of %d tasks, of which %d ran and %d were stopped", s.Dropped, len(m.due), ran, stopped)
			}
		})
	})
}

// An endEvent is what happens to a pool of one worker at some time.
type endEvent struct {
	at       time.Duration
	kind     string // Shutdown, Close, deadline
	shutdown int    // which one, of Shutdown and deadline
}

// endsModel is a worker that goes through tasks that take known times, and how
// it is ended.
type endsModel struct {
	takes    []time.Duration
	cut      time.Duration // when what waited was dropped; -1: never
	ends     time.Duration // when the worker is gone; -1: never
	dropped  int
	outcome  string           // of all Shutdowns
	returned map[int]returned // by number of the Shutdown
}

type returned struct {
	at  time.Duration
	err string
}

// at is what the worker does: how many tasks have begun, and until when it is
// busy with the latest.
func (m *endsModel) at(now time.Duration) (begun int, until time.Duration) {
	for begun < len(m.takes) && until <= now {
		until += m.takes[begun]
		begun++
	}
	return begun, until
}

func (m *endsModel) run(events []endEvent) {
	m.cut, m.ends, m.returned = -1, -1, map[int]returned{}
	total := time.Duration(0)
	for _, d := range m.takes {
		total += d
	}
	cut := func(e endEvent, by string) {
		if m.cut >= 0 {
			return
		}
		m.cut = e.at
		begun, until := m.at(e.at)
		m.dropped = len(m.takes) - begun
		m.ends = max(until, e.at)
		running := 0
		if until > e.at {
			running = 1
		}
		if m.dropped > 0 || running > 0 && by != "Close" {
			m.outcome = fmt.Sprintf("%d dropped, %d running", m.dropped, running)
		}
	}
	for _, e := range events {
		over := m.ends >= 0 && e.at >= m.ends
		switch e.kind {
		case "Shutdown":
			if m.ends < 0 {
				m.ends = max(e.at, total)
			}
		case "Close":
			if !over {
				cut(e, "Close")
			}
		case "deadline":
			if over {
				break
			}
			cut(e, "deadline")
			if m.outcome == "" && m.ends > e.at {
				m.outcome = "0 dropped, 1 running"
			}
			m.returned[e.shutdown] = returned{e.at, m.outcome}
		}
	}
	called := map[int]time.Duration{}
	for _, e := range events {
		if e.kind == "Shutdown" {
			called[e.shutdown] = e.at
		}
	}
	for i, at := range called {
		if _, ok := m.returned[i]; !ok {
			m.returned[i] = returned{max(at, m.ends), m.outcome}
		}
	}
}

// FuzzEnds follows a script of tasks, Shutdowns with deadlines, and Closes, all
// at known times.
func FuzzEnds(f *testing.F) {
	f.Add([]byte{10, 10, 10}, []byte{0, 5, 100, 1, 12, 0})
	f.Add([]byte{4}, []byte{1, 1, 0, 0, 2, 1, 0, 9, 9})
	f.Add([]byte{1, 2, 3, 4}, []byte{0, 0, 4, 0, 3, 60, 1, 50, 0})
	f.Fuzz(func(t *testing.T, takes, script []byte) {
		takes, script = takes[:min(len(takes), 20)], script[:min(len(script), 30)]
		inBubble(t, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(1))
			start := time.Now()
			ran := 0
			var m endsModel
			for _, b := range takes {
				d := 4 * time.Duration(b%32+1) * time.Millisecond // ends at multiples of 4 ms
				m.takes = append(m.takes, d)
				if err := p.Submit(func() { ran++; time.Sleep(d) }); err != nil {
					t.Fatal(err)
				}
			}
			var events []endEvent
			used := map[time.Duration]bool{}
			unique := func(d time.Duration) time.Duration { // at no multiple of 4 ms, and one at a time
				d = d.Truncate(4*time.Millisecond) + time.Millisecond
				for used[d] {
					d += 4 * time.Millisecond
				}
				used[d] = true
				return d
			}
			type result struct {
				at  time.Duration
				err error
			}
			results := map[int]*result{}
			var calls sync.WaitGroup
			for n := 0; len(script) >= 3; n++ {
				at := unique(4 * time.Duration(script[1]) * time.Millisecond)
				if script[0]%2 == 0 {
					deadline := unique(at + 4*time.Duration(script[2]+1)*time.Millisecond)
					events = append(events, endEvent{at, "Shutdown", n}, endEvent{deadline, "deadline", n})
					res := new(result)
					results[n] = res
					calls.Go(func() {
						time.Sleep(at)
						ctx, cancel := context.WithDeadline(context.Background(), start.Add(deadline))
						defer cancel()
						res.err = p.Shutdown(ctx)
						res.at = time.Since(start)
					})
				} else {
					events = append(events, endEvent{at, "Close", n})
					calls.Go(func() {
						time.Sleep(at)
						if err := p.Close(); err != nil {
							t.Errorf("Close: %v", err)
						}
					})
				}
				script = script[3:]
			}
			slices.SortFunc(events, func(a, b endEvent) int { return int(a.at - b.at) })
			m.run(events)
			calls.Wait()
			if len(events) == 0 {
				closeAll(t, p)
				return
			}
			<-p.Done()
			checkEnded(t, p)
			if s := p.Stats(); ran != len(takes)-m.dropped || s.Dropped != uint64(m.dropped) {
				t.Errorf("%d of %d ran, %d dropped, want %d dropped; events %v, takes %v", ran, len(takes), s.Dropped, m.dropped, events, m.takes)
			}
			for n, r := range results {
				var inc *shoal.ShutdownError
				got := ""
				if errors.As(r.err, &inc) {
					got = fmt.Sprintf("%d dropped, %d running", inc.Dropped, inc.Running)
				} else if r.err != nil {
					t.Errorf("Shutdown %d: %v", n, r.err)
				}
				if want := m.returned[n]; r.at != want.at || got != want.err {
					t.Errorf("Shutdown %d returned at %v, %q; want %v, %q; events %v, takes %v", n, r.at, got, want.at, want.err, events, m.takes)
				}
			}
		})
	})
}
