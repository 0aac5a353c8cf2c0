package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
)

// An alarmLog keeps alarms, and when they came.
type alarmLog struct {
	start time.Time
	mu    sync.Mutex
	all   []shoal.Alarm
	at    []time.Duration
}

func newAlarmLog() *alarmLog { return &alarmLog{start: time.Now()} }

// openWatched opens a pool of two workers that reports stalls of a second to the log, and nowhere else.
func openWatched(t *testing.T) (*shoal.Pool, *alarmLog) {
	noLog(t)
	l := newAlarmLog()
	return openPool(t, shoal.WithMaxWorkers(2), shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add)), l
}

// longAndMany submits a task of ten seconds, and 40 of d.
func longAndMany(t *testing.T, p *shoal.Pool, d time.Duration) {
	t.Helper()
	must(t, p.Submit(sleep(10*time.Second)))
	for range 40 {
		must(t, p.Submit(sleep(d)))
	}
}

func (l *alarmLog) add(a shoal.Alarm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, a)
	l.at = append(l.at, time.Since(l.start))
}

// lines describes the alarms: when, what, for how long, how many.
func (l *alarmLog) lines() (lines []string) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, a := range l.all {
		lines = append(lines, fmt.Sprintf("%v: %v for %v, %d", l.at[i], a.Kind, a.For, a.Count))
	}
	return lines
}

func (l *alarmLog) want(t *testing.T, want ...string) {
	t.Helper()
	if got := l.lines(); !slices.Equal(got, want) {
		t.Errorf("alarms:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantSlow is want for tasks of which it is not certain whether the pool knows when they began:
// they have run for at least d, and are reported at most d/4 late.
func (l *alarmLog) wantSlow(t *testing.T, d time.Duration, at ...time.Duration) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.at, at) {
		t.Errorf("alarms at %v, want %v", l.at, at)
	}
	for _, a := range l.all {
		if a.Kind != shoal.AlarmSlowTask || a.Count != 1 || a.For < d || a.For > d+d/4 {
			t.Errorf("%v for %v, %d", a.Kind, a.For, a.Count)
		}
	}
}

func sleep(d time.Duration) func() { return func() { time.Sleep(d) } }

func hangHere(gate <-chan struct{}) { <-gate }

func TestSlowTaskIsToldOfExactlyThen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newAlarmLog()
		noLog(t)
		p := openPool(t, shoal.WithMaxWorkers(4), shoal.WithIdleTimeout(shoal.Forever), shoal.WithSlowTask(time.Second), shoal.WithAlarmHandler(l.add))
		must(t, p.Submit(sleep(900*time.Millisecond)))
		must(t, p.Submit(sleep(1700*time.Millisecond)))
		time.Sleep(950 * time.Millisecond)
		must(t, p.Submit(sleep(5*time.Second))) // on a worker that slept
		time.Sleep(2 * time.Second)
		// They are seen at 0.25 s and at 1 s.
		l.want(t, "1.25s: slow task for 1s, 1", "2s: slow task for 1s, 1")
		if n := p.Stats().SlowTasks; n != 2 {
			t.Errorf("SlowTasks is %d, want 2", n)
		}
		p.Wait()
		time.Sleep(time.Hour) // an idle pool has no timer that would keep a bubble going: this ends
		must(t, p.Submit(sleep(1500*time.Millisecond)))
		p.Wait()
		l.want(t, "1.25s: slow task for 1s, 1", "2s: slow task for 1s, 1", "1h0m7.2s: slow task for 1s, 1")
	})
}

func TestSlowTasksInAFloodAreToldOfTogether(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newAlarmLog()
		noLog(t)
		p := openPool(t, fixed(100, shoal.WithSlowTask(8*time.Second), shoal.WithAlarmHandler(l.add))...)
		for range 100 {
			must(t, p.Submit(sleep(time.Minute)))
			time.Sleep(10 * time.Millisecond)
		}
		p.Wait()
		// Two are timed, the first one and the 65th: their age is known from the start. The
		// others are seen at 2 s.
		l.want(t, "8s: slow task for 8s, 1", "10s: slow task for 9.36s, 99")
		if len(l.all) != 2 {
			return
		}
		if a := l.all[1]; len(a.Tasks) != 10 || a.Tasks[0].Age != 9360*time.Millisecond || a.Tasks[9].Age != 8*time.Second {
			t.Errorf("the tasks named are %v", a.Tasks)
		}
	})
}

func TestStallIsToldOfOnceAndExactlyThen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, l := openWatched(t)
		must(t, p.Submit(sleep(10*time.Second)))
		time.Sleep(300 * time.Millisecond)
		must(t, p.Submit(sleep(20*time.Second))) // all busy, none waits
		time.Sleep(2 * time.Second)
		must(t, p.Submit(func() {})) // from 2.3 s on
		time.Sleep(500 * time.Millisecond)
		must(t, p.Submit(sleep(5*time.Second)))
		if s := p.Stats(); s.Stalled != 300*time.Millisecond || s.Stalls != 0 { // it is seen at 2.5 s
			t.Errorf("stalled for %v, %d told of", s.Stalled, s.Stalls)
		}
		l.want(t)
		// At 10 s one ends, the empty one too, the next one begins; none waits.
		time.Sleep(10 * time.Second)
		l.want(t, "3.5s: stall for 1s, 2")
		must(t, p.Submit(func() {})) // at 12.8 s
		time.Sleep(time.Hour)
		l.want(t, "3.5s: stall for 1s, 2", "14s: stall for 1s, 2")
		if s := p.Stats(); s.Stalled != 0 || s.Stalls != 2 {
			t.Errorf("stalled for %v, %d told of", s.Stalled, s.Stalls)
		}
	})
}

func TestStallWhileTasksAreDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, capacity := range []int{1, 2} {
			l := newAlarmLog()
			noLog(t)
			p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(shoal.DropOldest),
				shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
			must(t, p.Submit(sleep(time.Minute)))
			for range 30 { // more often than that
				must(t, p.Submit(func() {}))
				time.Sleep(100 * time.Millisecond)
			}
			l.want(t, "1.25s: stall for 1s, 1")
		}
	})
}

// TestStallWhileASubPoolLosesTasks: no worker has moved because of that.
func TestStallWhileASubPoolLosesTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newAlarmLog()
		noLog(t)
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
		sub, err := p.Sub()
		must(t, err)
		must(t, p.Submit(sleep(time.Minute)))
		must(t, p.Submit(func() {}))
		for range 30 {
			sub.Pause()
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
			wantErr(t, "SubmitWait", sub.SubmitWait(ctx, func(context.Context) error { return nil }), context.DeadlineExceeded)
			cancel()
			sub.Resume()
			time.Sleep(40 * time.Millisecond)
		}
		l.want(t, "1.25s: stall for 1s, 1")
	})
}

func TestNoStallWhileTasksEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, l := openWatched(t)
		must(t, p.Submit(sleep(time.Minute)))
		for range 80 {
			must(t, p.Submit(sleep(990*time.Millisecond)))
		}
		p.Wait()
		l.want(t)

		// Tasks that a task runs while it waits end too, though no worker's does.
		q := openPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
		must(t, q.SubmitContext(t.Context(), func(ctx context.Context) {
			for range 10 {
				q.SubmitWait(ctx, func(context.Context) error { time.Sleep(900 * time.Millisecond); return nil })
			}
		}))
		must(t, q.Submit(func() {}))
		q.Wait()
		l.want(t)

		// Nor is a pool stalled that is paused, or whose workers serve a sub-pool.
		r := openPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
		sub, err := r.Sub(shoal.WithPriority(1))
		must(t, err)
		for range 10 {
			must(t, sub.Submit(sleep(400*time.Millisecond)))
		}
		must(t, r.Submit(func() {}))
		sub.Wait()
		r.Wait()
		must(t, r.Submit(sleep(10*time.Second)))
		time.Sleep(time.Millisecond)
		r.Pause()
		must(t, r.Submit(func() {}))
		time.Sleep(5 * time.Second)
		l.want(t)
		r.Resume()
	})
}

func TestStallOfAPoolWhoseWorkersHangInASubPool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newAlarmLog()
		noLog(t)
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
		sub, err := p.Sub(shoal.WithStallAfter(3*time.Second), shoal.WithAlarmHandler(l.add))
		must(t, err)
		must(t, sub.Submit(func() { time.Sleep(10 * time.Second) })) // of sleep, Go 1.27 would not name the test
		synctest.Wait()
		must(t, p.Submit(func() {}))
		must(t, sub.Submit(func() {}))
		p.Wait()
		sub.Wait()
		l.want(t, "1.25s: stall for 1s, 1", "3.75s: stall for 3s, 1")
		if s := l.all[0].Tasks[0].Stack; !strings.Contains(s, "tests.TestStallOf") {
			t.Errorf("the parent's alarm has the stack\n%s", s)
		}
	})
}

func TestAlarmNamesTheTaskThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newAlarmLog()
		p := openPool(t, fixed(2, shoal.WithName("images"), shoal.WithStallAfter(time.Minute), shoal.WithAlarmHandler(l.add),
			shoal.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
		gate := make(chan struct{})
		must(t, p.SubmitContext(t.Context(), func(context.Context) { hangHere(gate) }))
		synctest.Wait()
		time.Sleep(time.Second)
		must(t, p.Submit(func() { hangHere(gate) }))
		must(t, p.Submit(func() {}))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(l.all) != 1 {
			t.Fatalf("%d alarms, want 1", len(l.all))
		}
		a := l.all[0]
		if a.Kind != shoal.AlarmStall || a.Count != 2 || len(a.Tasks) != 2 || a.Stats.Name != "images" || a.Stats.Queued != 1 || a.Stats.Stalls != 1 {
			t.Errorf("the alarm is %+v", a)
		}
		for i, task := range a.Tasks {
			// The first one is timed. The second one and the stall are seen after 15 s.
			if want := []time.Duration{time.Minute + 15*time.Second, time.Minute}[i]; task.Age != want {
				t.Errorf("task %d is %v old, want %v", i, task.Age, want)
			}
			checkHangStack(t, task.Stack)
		}
		for _, want := range []string{"level=WARN", "stalled", "pool=images", "for=1m0s", "queued=1", "hangHere", "task2.worker="} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no %q in the log:\n%s", want, log.String())
			}
		}
		close(gate)
	})
}

// checkHangStack checks that s is the stack of a task in hangHere, and no more.
func checkHangStack(t *testing.T, s string) {
	t.Helper()
	lines := strings.Split(s, "\n")
	switch {
	case len(lines) < 3, !strings.HasPrefix(lines[0], "goroutine "), !strings.Contains(lines[0], "chan receive"),
		!strings.HasPrefix(lines[1], "github.com/shoal-go/shoal/tests.hangHere("),
		strings.Contains(s, "(*worker)"):
		t.Errorf("the stack is\n%s", s)
	}
}

func TestOldestTasks(t *testing.T) {
	p := openPool(t, fixed(3)...)
	sub, err := p.Sub()
	must(t, err)
	if got := p.OldestTasks(10); len(got) != 0 {
		t.Errorf("an idle pool has %v", got)
	}
	gate, started := make(chan struct{}), make(chan struct{})
	defer close(gate)
	for _, q := range []*shoal.Pool{p, sub} {
		must(t, q.Submit(func() { started <- struct{}{}; hangHere(gate) }))
		<-started
	}
	must(t, p.SubmitContext(t.Context(), func(context.Context) { started <- struct{}{}; hangHere(gate) }))
	<-started
	for _, q := range []*shoal.Pool{p, sub} {
		q.OldestTasks(1) // from here on the ages are known
	}
	all := p.OldestTasks(10)
	if len(all) != 3 {
		t.Fatalf("%d tasks, want 3: its own, and that of the worker that serves the sub-pool", len(all))
	}
	if !slices.IsSortedFunc(all, func(a, b shoal.RunningTask) int { return int(b.Age - a.Age) }) {
		t.Errorf("not oldest first: %v", all)
	}
	for _, task := range append(all, sub.OldestTasks(10)...) {
		// Each has reached hangHere, or is just about to.
		if !strings.Contains(task.Stack, "tests.TestOldestTasks") && !strings.Contains(task.Stack, "hangHere") || strings.Contains(task.Stack, "(*worker)") {
			t.Errorf("the stack is\n%s", task.Stack)
		}
	}
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 2, 3: 3, 1 << 20: 3} {
		if got := len(p.OldestTasks(n)); got != want {
			t.Errorf("OldestTasks(%d) has %d", n, got)
		}
	}
	if got := new(shoal.Pool).OldestTasks(1); len(got) != 0 {
		t.Errorf("the zero pool has %v", got)
	}
}

func TestStacksAreLeftOutWhereGoroutinesAreTooMany(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 goroutines")
	}
	p := openPool(t, fixed(1)...)
	gate := make(chan struct{})
	must(t, p.Submit(func() { <-gate }))
	others := make(chan struct{})
	var wg sync.WaitGroup
	for range 100_001 {
		wg.Go(func() { <-others })
	}
	for len(p.OldestTasks(1)) == 0 {
		runtime.Gosched()
	}
	if s := p.OldestTasks(1)[0].Stack; s != "" {
		t.Errorf("the stack is\n%s", s)
	}
	close(others)
	wg.Wait()
	close(gate)
}

func TestCloseWaitsForTheAlarmHandlerAndNotForTheTimer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		start := time.Now()
		p, err := shoal.New(fixed(1, shoal.WithSlowTask(time.Hour))...)
		must(t, err)
		must(t, p.Submit(sleep(time.Second)))
		must(t, p.Shutdown(t.Context()))
		if d := time.Since(start); d != time.Second {
			t.Errorf("Shutdown took %v, want 1s", d)
		}
		var q *shoal.Pool
		var inHandler, inTask error
		q, err = shoal.New(fixed(1, shoal.WithSlowTask(time.Second), shoal.WithAlarmHandler(func(shoal.Alarm) {
			inHandler = q.Close()
			time.Sleep(time.Minute)
		}))...)
		must(t, err)
		must(t, q.Submit(sleep(2*time.Second)))
		start = time.Now()
		time.Sleep(1500 * time.Millisecond)
		inTask = q.Close()
		if d := time.Since(start); d != time.Minute+time.Second || inTask != nil {
			t.Errorf("Close took %v and returned %v, want 1m1s", d, inTask)
		}
		wantErr(t, "Close in the handler", inHandler, shoal.ErrWouldDeadlock)
	})
}

func TestAlarmHandlerThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		p := openPool(t, fixed(1, shoal.WithSlowTask(time.Second), shoal.WithAlarmHandler(func(a shoal.Alarm) {
			l.add(a)
			if len(l.all) == 1 {
				panic("handler")
			}
		}))...)
		for range 4 {
			must(t, p.Submit(sleep(1400*time.Millisecond)))
		}
		p.Wait()
		// The first one is timed, the others are seen at 1.5 s, 3 s and 4.25 s.
		l.wantSlow(t, time.Second, time.Second, 2500*time.Millisecond, 4*time.Second, 5250*time.Millisecond)
	})
}

func TestWatchdogWhileDraining(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		p := openPool(t, fixed(1, shoal.WithSlowTask(time.Second), shoal.WithAlarmHandler(l.add))...)
		must(t, p.Submit(sleep(400*time.Millisecond)))
		must(t, p.Submit(sleep(2*time.Second))) // it begins after Shutdown, and is seen at 0.5 s
		must(t, p.Shutdown(t.Context()))
		l.wantSlow(t, time.Second, 1500*time.Millisecond)
	})
}

func TestWatchdogOptions(t *testing.T) {
	for _, c := range []struct {
		opts []shoal.Option
		want string
	}{
		{[]shoal.Option{shoal.WithStallAfter(0)}, "WithStallAfter(0s): want at least 1ms"},
		{[]shoal.Option{shoal.WithSlowTask(-time.Second)}, "WithSlowTask(-1s): want at least 1ms"},
		{[]shoal.Option{shoal.WithSlowTask(time.Microsecond)}, "WithSlowTask(1µs): want at least 1ms"},
	} {
		_, err := shoal.New(c.opts...)
		if !errors.Is(err, shoal.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestTheWatchdogTimesNoTasks(t *testing.T) {
	for _, opts := range [][]shoal.Option{nil, {shoal.WithStallAfter(time.Hour)}, {shoal.WithSlowTask(time.Hour)}} {
		p := openPool(t, fixed(1, append(opts, shoal.WithAlarmHandler(func(shoal.Alarm) { t.Error("alarm") }))...)...)
		for range 1000 {
			must(t, p.Submit(func() {}))
		}
		p.Wait()
		if n := p.Stats().RunTime.Count; n > 1000/32 {
			t.Errorf("%d of 1000 tasks were timed", n)
		}
	}
}

func TestTheWatchdogNeedsNoTiming(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		p := openPool(t, fixed(1, shoal.WithTiming(shoal.TimingOff), shoal.WithSlowTask(time.Second), shoal.WithAlarmHandler(l.add))...)
		must(t, p.Submit(sleep(3*time.Second)))
		p.Wait()
		l.want(t, "1.25s: slow task for 1s, 1")
	})
}

func TestLogger(t *testing.T) {
	var log bytes.Buffer
	p := openPool(t, fixed(1, shoal.WithName("images"), shoal.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
		shoal.WithWorkerHooks(func(int) { runtime.Goexit() }, nil))...)
	must(t, p.Submit(func() { panic("boom") }))
	p.Wait()
	for _, want := range []string{"boom", "images", "runtime.Goexit"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, log.String())
		}
	}
}

func TestSubs(t *testing.T) {
	p := openPool(t)
	a, _ := p.Sub(shoal.WithName("a"))
	b, _ := p.Sub(shoal.WithName("b"))
	c, _ := b.Sub(shoal.WithName("c"))
	if got := p.Subs(); !slices.Equal(got, []*shoal.Pool{a, b}) {
		t.Errorf("%v", got)
	}
	if got := b.Subs(); !slices.Equal(got, []*shoal.Pool{c}) {
		t.Errorf("%v", got)
	}
	a.Close()
	if got := p.Subs(); !slices.Equal(got, []*shoal.Pool{b}) {
		t.Errorf("%v", got)
	}
	if got := new(shoal.Pool).Subs(); got != nil {
		t.Errorf("%v", got)
	}
}

// What follows was found by a reviewer who wrote tests to attack the watchdog.

func TestNoSlowTaskWhereAWorkerIsInNone(t *testing.T) { // but in its stop hook, after a task that failed or left its turn
	inBubble(t, func(t *testing.T) {
		noLog(t)
		for _, first := range []func(p *shoal.Pool){
			func(p *shoal.Pool) {
				for range 2 {
					shoal.Go(t.Context(), p, func(context.Context) (int, error) { time.Sleep(time.Millisecond); return 0, errors.New("failed") })
				}
			},
			func(p *shoal.Pool) {
				k := shoal.NewKeyed[int](p)
				must(t, k.Submit(1, sleep(time.Millisecond)))
				synctest.Wait()
				must(t, k.Submit(1, sleep(time.Millisecond)))
			},
		} {
			l := newAlarmLog()
			p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithSlowTask(2*time.Second), shoal.WithAlarmHandler(l.add),
				shoal.WithIdleTimeout(10*time.Second), shoal.WithWorkerHooks(nil, func(int) { time.Sleep(1900 * time.Millisecond) }))
			first(p)
			p.Wait()
			for range 30 {
				must(t, p.Submit(sleep(100*time.Millisecond)))
				time.Sleep(1070 * time.Millisecond)
			}
			l.want(t)
			p.Close()
		}
	})
}

func TestStallCountsFromTheEndOfATaskWhoseWorkerHasLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, l := openWatched(t)
		longAndMany(t, p, 510*time.Millisecond)
		time.Sleep(5200 * time.Millisecond)
		must(t, p.Resize(1, 1)) // at 5.61 s the second worker ends its task, and leaves
		time.Sleep(time.Minute)
		l.want(t, "6.75s: stall for 1s, 1")
	})
}

// The end of a sub-pool hides no progress, though its last task has ended since the last look.
func TestStallCountsFromTheEndOfASubPool(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, l := openWatched(t)
		sub, err := p.Sub(shoal.WithPriority(1), shoal.WithMaxWorkers(1))
		must(t, err)
		longAndMany(t, p, 510*time.Millisecond)
		time.Sleep(4900 * time.Millisecond)
		must(t, sub.Submit(sleep(510*time.Millisecond))) // from 5.1 s to 5.61 s
		time.Sleep(300 * time.Millisecond)
		sub.Drain()
		must(t, p.Resize(1, 1))
		time.Sleep(time.Minute)
		l.want(t, "6.75s: stall for 1s, 1")
	})
}

func TestNoStallWhenAWorkerIsLentAfterATask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, l := openWatched(t)
		sub, err := p.Sub(shoal.WithPriority(1), shoal.WithMaxWorkers(1))
		must(t, err)
		longAndMany(t, p, 500*time.Millisecond)
		time.Sleep(5200 * time.Millisecond)
		must(t, sub.Submit(sleep(900*time.Millisecond))) // from 5.5 to 6.4 s
		time.Sleep(1250 * time.Millisecond)
		l.want(t)
	})
}

func TestNoAlarmInAFamilyOfPoolsThatWorks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		watched := []shoal.Option{shoal.WithStallAfter(time.Second), shoal.WithSlowTask(time.Second), shoal.WithAlarmHandler(l.add)}
		p := openPool(t, append(watched, shoal.WithMaxWorkers(2))...)
		s1, err := p.Sub(watched...)
		must(t, err)
		s2, err := s1.Sub(watched...)
		must(t, err)
		for i := range 60 {
			must(t, p.Submit(sleep(time.Duration(700+i)*time.Millisecond)))
			must(t, s1.Submit(sleep(time.Duration(800+i)*time.Millisecond)))
			must(t, s2.Submit(sleep(time.Duration(900+i)*time.Millisecond)))
		}
		p.Wait()
		s1.Wait()
		s2.Wait()
		l.want(t)
	})
}

func TestStalledWhileTasksOfASubPoolEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(time.Hour))
		s, err := p.Sub(shoal.WithPriority(1))
		must(t, err)
		for range 1000 {
			must(t, s.Submit(sleep(time.Second)))
		}
		must(t, p.Submit(func() {}))
		time.Sleep(10*time.Minute + time.Millisecond)
		if st := p.Stats().Stalled; st > time.Second {
			t.Errorf("Stalled is %v though a task ends each second", st)
		}
	})
}

func TestShutdownWaitsForTheAlarmHandlerNoLongerThanItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		gate := make(chan struct{})
		p := openPool(t, fixed(1, shoal.WithSlowTask(time.Second), shoal.WithAlarmHandler(func(shoal.Alarm) { <-gate }))...)
		defer close(gate)
		must(t, p.Submit(sleep(1500*time.Millisecond)))
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		var incomplete *shoal.ShutdownError
		if err := p.Shutdown(ctx); !errors.As(err, &incomplete) || time.Since(start) != time.Second {
			t.Errorf("Shutdown: %v, after %v", err, time.Since(start))
		}
	})
}

func TestAlarmHandlerOfASubPoolClosesTheParent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		p := openPool(t, fixed(1)...)
		closed := make(chan error, 1)
		sub, err := p.Sub(shoal.WithSlowTask(time.Second), shoal.WithAlarmHandler(func(shoal.Alarm) { closed <- p.Close() }))
		must(t, err)
		must(t, sub.Submit(sleep(1500*time.Millisecond)))
		<-p.Done()
		wantErr(t, "Close", <-closed, shoal.ErrWouldDeadlock)
	})
}

func TestStallAtCapacity0(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0), shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
		must(t, p.Submit(sleep(time.Hour)))
		time.Sleep(time.Minute + 100*time.Millisecond)
		go p.Submit(func() {})
		p.Wait()
		l.want(t, "1m1.25s: stall for 1s, 1")
	})
}

func TestNoStallInAPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(2*time.Second), shoal.WithAlarmHandler(l.add))
		must(t, p.Submit(sleep(6500*time.Millisecond)))
		must(t, p.Submit(func() {}))
		time.Sleep(time.Millisecond)
		p.Pause()
		time.Sleep(5 * time.Second)
		p.Resume() // 1.5 s before the end
		p.Wait()
		l.want(t)
	})
}

func TestMoreWorkersThatHangAreAnotherStall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		gate := make(chan struct{})
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
		for range 4 {
			must(t, p.Submit(func() { hangHere(gate) }))
		}
		time.Sleep(5100 * time.Millisecond)
		must(t, p.Resize(0, 2))
		time.Sleep(time.Hour)
		close(gate)
		l.want(t, "1.25s: stall for 1s, 1", "6.25s: stall for 1s, 2")
	})
}

// A badLog panics.
type badLog struct{ slog.Handler }

func (badLog) Enabled(context.Context, slog.Level) bool  { return true }
func (badLog) Handle(context.Context, slog.Record) error { panic("log") }

func TestALogThatPanicsHarmsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, fixed(1, shoal.WithSlowTask(time.Second), shoal.WithLogger(slog.New(badLog{})))...)
		must(t, p.Submit(sleep(2*time.Second)))
		must(t, p.Submit(func() { panic("boom") }))
		p.Wait()
		if s := p.Stats(); s.SlowTasks != 1 || s.Completed != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// Whatever the thresholds are, and whenever something begins, an alarm comes once, not too early,
// and at most a quarter late.
func TestAlarmsComeInTime(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		inBubble(t, func(t *testing.T) {
			noLog(t)
			d := [2]time.Duration{}
			opts := []shoal.Option{shoal.WithMaxWorkers(1), shoal.WithTiming(shoal.Timing(rnd.IntN(3)))}
			given := 1 + rnd.IntN(3)
			for i, opt := range []func(time.Duration) shoal.Option{shoal.WithStallAfter, shoal.WithSlowTask} {
				if d[i] = time.Millisecond + time.Duration(rnd.Int64N(1<<(10+rnd.IntN(20)))); given>>i&1 != 0 {
					opts = append(opts, opt(d[i]))
				}
			}
			l := newAlarmLog()
			p := openPool(t, append(opts, shoal.WithAlarmHandler(l.add))...)
			begins := time.Duration(rnd.Int64N(int64(min(d[0], d[1]))))
			must(t, p.Submit(sleep(begins)))
			must(t, p.Submit(sleep(2*(d[0]+d[1])))) // it hangs
			must(t, p.Submit(func() {}))            // it waits
			p.Wait()
			n := [2]int{}
			for i, a := range l.all {
				n[a.Kind]++
				d := d[a.Kind]
				if late := l.at[i] - begins - d; late < 0 || late > d/4+4 || a.For < d || a.For > d+late {
					t.Errorf("a %v, %v after it is due, %v, for %v", a.Kind, late, d, a.For)
				}
			}
			if n != [2]int{given & 1, given >> 1} {
				t.Errorf("%d alarms of the kinds %b", n, given)
			}
		})
	}
}

func TestASubPoolThatIsMadeWhileAWorkerIsAwakeIsWatched(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		p := openPool(t, shoal.WithMaxWorkers(1))
		must(t, p.Submit(sleep(1100*time.Millisecond)))
		time.Sleep(time.Second)
		sub, err := p.Sub(shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
		must(t, err)
		must(t, sub.Submit(sleep(5*time.Second)))
		must(t, sub.Submit(func() {}))
		sub.Wait()
		l.want(t, "2.25s: stall for 1s, 1") // it begins at 1.1 s, and is seen at 1.25 s
	})
}

// A pause ends a stall, also if it is over before the next sample.
func TestAShortPauseIsNoPartOfAStall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		l := newAlarmLog()
		p := openPool(t, shoal.WithMaxWorkers(1), shoal.WithStallAfter(time.Second), shoal.WithAlarmHandler(l.add))
		must(t, p.Submit(sleep(5*time.Second)))
		must(t, p.Submit(func() {}))
		time.Sleep(1100 * time.Millisecond)
		p.Pause()
		time.Sleep(50 * time.Millisecond)
		p.Resume() // at 1.15 s
		p.Wait()
		l.want(t, "2.25s: stall for 1s, 1")
	})
}

func TestAPoolWithAWatchdogThatIsDroppedIsCollected(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		noLog(t)
		watched := []shoal.Option{shoal.WithStallAfter(time.Second), shoal.WithSlowTask(time.Second)}
		p := openPool(t, shoal.WithMaxWorkers(2), shoal.WithIdleTimeout(time.Minute))
		drop := func(q *shoal.Pool, err error) weak.Pointer[shoal.Pool] {
			must(t, err)
			must(t, q.Submit(sleep(900*time.Millisecond)))
			return weak.Make(q)
		}
		refs := []weak.Pointer[shoal.Pool]{
			drop(shoal.New(append(watched, shoal.WithIdleTimeout(time.Minute))...)),
			drop(p.Sub(watched...)),
		}
		time.Sleep(2 * time.Second)
		must(t, p.Submit(func() {})) // the last one of a family that was used may stay
		time.Sleep(time.Hour)
		synctest.Wait()
		runtime.GC()
		runtime.GC()
		for i, r := range refs {
			if r.Value() != nil {
				t.Errorf("pool %d is not collected", i)
			}
		}
	})
}

// TestTheLongestThresholds: four times a quarter of them is more than fits into a Duration.
func TestTheLongestThresholds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPool(t, fixed(1, shoal.WithStallAfter(math.MaxInt64-1), shoal.WithSlowTask(math.MaxInt64-1))...)
		must(t, p.SubmitWait(bg, func(context.Context) error { time.Sleep(time.Hour); return nil }))
		shutClean(t, p)
	})
}
