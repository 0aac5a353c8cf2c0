package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
)

// A recordingTracer keeps what it is told, one line each.
type recordingTracer struct {
	mu    sync.Mutex
	n     int
	lines []string
}

type spanKey struct{}
type runKey struct{}

func (r *recordingTracer) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recordingTracer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	r.mu.Lock()
	r.n++
	n := r.n
	r.mu.Unlock()
	r.note("%d submitted by %s", n, kind)
	return context.WithValue(ctx, spanKey{}, n)
}

func (r *recordingTracer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	n := ctx.Value(spanKey{})
	r.note("%v started by %s", n, kind)
	return context.WithValue(ctx, runKey{}, n), func(err error) { r.note("%v ended: %v", n, errorName(err)) }
}

func (r *recordingTracer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	r.note("%v refused by %s: %v", ctx.Value(spanKey{}), kind, errorName(err))
}

func errorName(err error) string {
	if e := (*shoal.PanicError)(nil); errors.As(err, &e) {
		return "panic"
	}
	return fmt.Sprint(err)
}

// take returns the lines so far, sorted, and forgets them.
func (r *recordingTracer) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lines
	r.lines, r.n = nil, 0
	slices.Sort(l)
	return l
}

func (r *recordingTracer) want(t *testing.T, want ...string) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTracerFollowsEveryKindOfTask(t *testing.T) {
	r := new(recordingTracer)
	noLog(t)
	p := openPool(t, fixed(1, shoal.WithTracer(r))...)
	inRun := func(ctx context.Context) error {
		if n := ctx.Value(runKey{}); n != 1 {
			return fmt.Errorf("in task %v", n)
		}
		return nil
	}
	ctx := t.Context()

	must(t, p.SubmitContext(ctx, func(ctx context.Context) {
		if err := inRun(ctx); err != nil {
			t.Error(err)
		}
	}))
	p.Wait()
	r.want(t, "1 ended: <nil>", "1 started by SubmitContext", "1 submitted by SubmitContext")

	must(t, p.SubmitWait(ctx, inRun))
	r.want(t, "1 ended: <nil>", "1 started by SubmitWait", "1 submitted by SubmitWait")

	g := p.Group(ctx)
	g.Go(inRun)
	must(t, g.Wait())
	r.want(t, "1 ended: <nil>", "1 started by Group", "1 submitted by Group")

	_, err := shoal.Go(ctx, p, func(ctx context.Context) (int, error) { return 0, inRun(ctx) }).Wait(ctx)
	must(t, err)
	r.want(t, "1 ended: <nil>", "1 started by Future", "1 submitted by Future")

	for _, err := range shoal.Map(ctx, p, slices.Values([]int{7}), func(ctx context.Context, _ int) (int, error) { return 0, inRun(ctx) }) {
		must(t, err)
	}
	r.want(t, "1 ended: <nil>", "1 started by Map", "1 submitted by Map")

	must(t, shoal.Range(ctx, p, 1, func(ctx context.Context, lo, hi int) error { return inRun(ctx) }))
	r.want(t, "1 ended: <nil>", "1 started by Range", "1 submitted by Range")

	v, err := p.Reserve(ctx, 1)
	must(t, err)
	must(t, v.Submit(ctx, inRun, nil))
	p.Wait()
	r.want(t, "1 ended: <nil>", "1 started by Reservation", "1 submitted by Reservation")

	must(t, shoal.NewKeyed[int](p).SubmitContext(ctx, 1, func(ctx context.Context) {
		if err := inRun(ctx); err != nil {
			t.Error(err)
		}
	}))
	p.Wait()
	r.want(t, "1 ended: <nil>", "1 started by SubmitContext", "1 submitted by SubmitContext")

	must(t, p.Submit(func() {}))
	must(t, shoal.NewKeyed[int](p).Submit(1, func() {}))
	p.Wait()
	r.want(t)
}

func TestTracerIsToldHowTasksEnd(t *testing.T) {
	r := new(recordingTracer)
	noLog(t)
	p := openPool(t, fixed(1, shoal.WithTracer(r), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.Reject))...)
	ctx := t.Context()
	failed := errors.New("failed")
	for want, f := range map[string]func(context.Context) error{
		"1 ended: failed":                     func(context.Context) error { return failed },
		"1 ended: panic":                      func(context.Context) error { panic("boom") },
		"1 ended: " + shoal.ErrGoexit.Error(): func(context.Context) error { runtime.Goexit(); return nil },
	} {
		p.SubmitWait(ctx, f)
		r.want(t, want, "1 started by SubmitWait", "1 submitted by SubmitWait")
		g := p.Group(ctx)
		g.Go(f)
		g.Wait()
		r.want(t, want, "1 started by Group", "1 submitted by Group")
	}

	release := hold(t, p, 1)
	future := shoal.Go(ctx, p, func(context.Context) (int, error) { return 0, nil })
	future.Cancel()
	r.want(t, "1 refused by Future: context canceled", "1 submitted by Future")
	release()
	p.Wait()

	release = hold(t, p, 1)
	canceled, cancel := context.WithCancel(ctx)
	must(t, p.SubmitContext(canceled, func(context.Context) { t.Error("ran") }))
	wantErr(t, "SubmitContext", p.SubmitContext(ctx, func(context.Context) { t.Error("ran") }), shoal.ErrQueueFull)
	g := p.Group(ctx)
	g.Go(func(context.Context) error { t.Error("ran"); return nil })
	wantErr(t, "Wait", g.Wait(), shoal.ErrQueueFull)
	cancel()
	release()
	p.Wait()
	r.want(t, "1 refused by SubmitContext: context canceled", "1 submitted by SubmitContext",
		"2 refused by SubmitContext: "+shoal.ErrQueueFull.Error(), "2 submitted by SubmitContext",
		"3 refused by Group: "+shoal.ErrQueueFull.Error(), "3 submitted by Group")

	release = hold(t, p, 1)
	future = shoal.Go(ctx, p, func(context.Context) (int, error) { return 0, nil })
	closed := inBackground(func() { p.Close() })
	<-future.Done()
	release()
	<-closed
	r.want(t, "1 refused by Future: "+shoal.ErrDropped.Error(), "1 submitted by Future")
	shoal.Go(ctx, p, func(context.Context) (int, error) { return 0, nil })
	wantErr(t, "SubmitWait", p.SubmitWait(ctx, func(context.Context) error { return nil }), shoal.ErrClosed)
	r.want(t, "1 refused by Future: "+shoal.ErrClosed.Error(), "1 submitted by Future",
		"2 refused by SubmitWait: "+shoal.ErrClosed.Error(), "2 submitted by SubmitWait")
}

func TestTracerIsToldOfACallWhoseContextHasEnded(t *testing.T) {
	r := new(recordingTracer)
	p := openPool(t, fixed(1, shoal.WithTracer(r))...)
	v, err := p.Reserve(t.Context(), 1)
	must(t, err)
	defer v.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := func(context.Context) error { t.Error("ran"); return nil }
	plain := func(context.Context) { t.Error("ran") }
	value := func(context.Context) (int, error) { t.Error("ran"); return 0, nil }
	item := func(context.Context, int) (int, error) { t.Error("ran"); return 0, nil }
	for name, c := range map[string]struct {
		kind string
		call func() error
	}{
		"SubmitContext":       {"SubmitContext", func() error { return p.SubmitContext(ctx, plain) }},
		"Keyed.SubmitContext": {"SubmitContext", func() error { return shoal.NewKeyed[int](p).SubmitContext(ctx, 1, plain) }},
		"SubmitWait":          {"SubmitWait", func() error { return p.SubmitWait(ctx, f) }},
		"Go":                  {"Future", func() error { _, err := shoal.Go(ctx, p, value).Wait(t.Context()); return err }},
		"Group":               {"Group", func() error { g := p.Group(ctx); g.Go(f); return g.Wait() }},
		"Reservation":         {"Reservation", func() error { return v.Submit(ctx, f, nil) }},
		"Map": {"Map", func() (err error) {
			for _, err = range shoal.Map(ctx, p, slices.Values([]int{7}), item) {
			}
			return err
		}},
		"Range": {"Range", func() error { return shoal.Range(ctx, p, 1, func(context.Context, int, int) error { return f(ctx) }) }},
	} {
		t.Run(name, func(t *testing.T) {
			wantErr(t, name, c.call(), context.Canceled)
			r.want(t, "1 refused by "+c.kind+": context canceled", "1 submitted by "+c.kind)
		})
	}
}

func TestTracedTasksStillHelp(t *testing.T) { // their contexts tell the pool from inside the tracer's
	r := new(recordingTracer)
	p := openPool(t, fixed(1, shoal.WithTracer(r))...)
	var sum func(ctx context.Context, n int) (int, error)
	sum = func(ctx context.Context, n int) (int, error) {
		if n == 0 {
			return 1, nil
		}
		a := shoal.Go(ctx, p, func(ctx context.Context) (int, error) { return sum(ctx, n-1) })
		g := p.Group(ctx)
		var b int
		g.Go(func(ctx context.Context) (err error) {
			return p.SubmitWait(ctx, func(ctx context.Context) (err error) { b, err = sum(ctx, n-1); return err })
		})
		if err := g.Wait(); err != nil {
			return 0, err
		}
		v, err := a.Wait(ctx)
		return v + b, err
	}
	n, err := shoal.Go(t.Context(), p, func(ctx context.Context) (int, error) { return sum(ctx, 6) }).Wait(t.Context())
	if n != 64 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	lines := r.take()
	count := func(what string) (n int) {
		for _, l := range lines {
			if strings.Contains(l, what) {
				n++
			}
		}
		return n
	}
	if s, b, e := count("submitted"), count("started"), count("ended"); s != 1+3*63 || b != s || e != s {
		t.Errorf("%d submitted, %d started, %d ended", s, b, e)
	}
}

// An oddTracer panics or returns nil in one of its methods.
type oddTracer struct{ in string }

func (t oddTracer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	switch t.in {
	case "panic in Submitted":
		panic(t.in)
	case "nil of Submitted":
		return nil
	}
	return ctx
}

func (t oddTracer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	switch t.in {
	case "panic in Started":
		panic(t.in)
	case "panic in end":
		return ctx, func(error) { panic("end") }
	case "nil of Started":
		return nil, nil
	}
	return ctx, func(error) {}
}

func (t oddTracer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	if t.in == "panic in Refused" {
		panic(t.in)
	}
}

// A key that cannot be hashed panics before the Tracer is told of the task: else it would be told
// neither that the task starts nor that it does not.
func TestTracerIsNotToldOfAKeyThatCannotBeHashed(t *testing.T) {
	r := new(recordingTracer)
	p := openPool(t, fixed(1, shoal.WithTracer(r))...)
	k := shoal.NewKeyed[any](p)
	for what, submit := range map[string]func(){
		"SubmitContext": func() { k.SubmitContext(t.Context(), []int{1}, func(context.Context) {}) },
		"GoKeyed": func() {
			shoal.GoKeyed(t.Context(), k, any([]int{1}), func(context.Context) (int, error) { return 1, nil })
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", what)
				}
			}()
			submit()
		}()
		r.want(t)
	}
}

func TestTracerThatPanicsOrReturnsNil(t *testing.T) {
	for _, c := range []struct {
		in     string
		err    string
		panics int32 // for a task that runs, and one that does not
	}{
		{"panic in Submitted", "<nil>", 5},
		{"panic in Started", "panic", 3},
		{"panic in end", "<nil>", 3},
		{"panic in Refused", "<nil>", 2},
		{"nil of Submitted", "<nil>", 0},
		{"nil of Started", "<nil>", 0},
	} {
		var panics atomic.Int32
		p := openPool(t, fixed(1, shoal.WithTracer(oddTracer{c.in}), shoal.WithPanicHandler(func(*shoal.PanicError) { panics.Add(1) }))...)
		if err := p.SubmitWait(t.Context(), func(ctx context.Context) error { return ctx.Err() }); errorName(err) != c.err {
			t.Errorf("%s: SubmitWait: %v", c.in, err)
		}
		g := p.Group(t.Context())
		g.Go(func(ctx context.Context) error { return ctx.Err() })
		if err := g.Wait(); errorName(err) != c.err {
			t.Errorf("%s: Wait: %v", c.in, err)
		}
		v, err := p.Reserve(t.Context(), 1)
		must(t, err)
		var lost error
		must(t, v.Submit(t.Context(), func(context.Context) error { return nil }, func(err error) { lost = err }))
		p.Wait()
		p.Close() // lost may be called after Wait has returned
		if errorName(lost) != c.err {
			t.Errorf("%s: lost: %v", c.in, lost)
		}
		wantErr(t, c.in, p.SubmitContext(t.Context(), func(context.Context) {}), shoal.ErrClosed)
		g = p.Group(t.Context())
		g.Go(func(ctx context.Context) error { return nil })
		wantErr(t, c.in, g.Wait(), shoal.ErrClosed)
		if n := panics.Load(); n != c.panics {
			t.Errorf("%s: %d panics, want %d", c.in, n, c.panics)
		}
	}
}

// An exitingTracer ends the goroutine where it must not.
type exitingTracer struct{ in string }

func (t exitingTracer) exit(in string) {
	if t.in == in {
		runtime.Goexit()
	}
}

func (t exitingTracer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	t.exit("Submitted")
	return ctx
}

func (t exitingTracer) Started(ctx context.Context, p *shoal.Pool, kind string) (context.Context, func(error)) {
	t.exit("Started")
	return ctx, func(error) { t.exit("end") }
}

func (t exitingTracer) Refused(ctx context.Context, p *shoal.Pool, kind string, err error) {
	t.exit("Refused")
}

func TestTracerIsToldBeforeTheTaskCounts(t *testing.T) {
	r := new(recordingTracer)
	noLog(t)
	p := openPool(t, fixed(2, shoal.WithTracer(r))...)
	n := 2000
	for i := range n {
		must(t, p.SubmitContext(t.Context(), func(context.Context) {
			if i%5 == 0 {
				panic("boom")
			}
		}))
		p.Wait()
		r.mu.Lock()
		if len(r.lines) != 3 {
			t.Fatalf("task %d has ended, but the tracer was told %q", i, r.lines)
		}
		r.lines = nil
		r.mu.Unlock()
	}
}

func TestSubPoolsHaveTheTracerAndTheLoggerOfTheirParent(t *testing.T) {
	r := new(recordingTracer)
	var log bytes.Buffer
	p := openPool(t, fixed(1, shoal.WithName("a"), shoal.WithTracer(poolTracer{r}), shoal.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
	sub, err := p.Sub(shoal.WithName("b"))
	must(t, err)
	must(t, sub.SubmitContext(t.Context(), func(context.Context) { panic("boom") }))
	sub.Wait()
	r.want(t, "b")
	if !strings.Contains(log.String(), "boom") {
		t.Errorf("no panic in the parent's log: %s", log.String())
	}
	other := new(recordingTracer)
	sub, err = p.Sub(shoal.WithTracer(poolTracer{other}), shoal.WithName("c"))
	must(t, err)
	must(t, sub.SubmitWait(t.Context(), func(context.Context) error { return nil }))
	r.want(t)
	other.want(t, "c")
	if p.Name() != "a" || sub.Name() != "c" {
		t.Errorf("names %q, %q", p.Name(), sub.Name())
	}
}

// A poolTracer notes the names of pools.
type poolTracer struct{ *recordingTracer }

func (t poolTracer) Submitted(ctx context.Context, p *shoal.Pool, kind string) context.Context {
	t.note("%s", p.Name())
	return nil
}

func TestRuntimeTraceHasTasksAndRegions(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the test is being traced")
	}
	var out bytes.Buffer
	p := openPool(t, fixed(2, shoal.WithName("images"))...)
	work := func() {
		for range 10 {
			must(t, p.Submit(func() { trace.Log(context.Background(), "kind", "plain") }))
		}
		must(t, p.SubmitWait(t.Context(), func(ctx context.Context) error { trace.Log(ctx, "kind", "waited"); return nil }))
		g := p.Group(t.Context())
		g.Go(func(ctx context.Context) error { trace.Log(ctx, "kind", "grouped"); return nil })
		must(t, g.Wait())
		p.SubmitWait(t.Context(), func(ctx context.Context) error { panic("boom") })
		p.Wait()
	}
	noLog(t)
	must(t, trace.Start(&out))
	work()
	trace.Stop()
	work() // and nothing is wrong without
	for _, want := range []string{"shoal:images", "waited", "grouped", "plain"} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("%q is not in the trace", want)
		}
	}
	if dir := os.Getenv("SHOAL_TRACE_DIR"); dir != "" {
		must(t, os.WriteFile(filepath.Join(dir, "shoal.trace"), out.Bytes(), 0o644))
	}
}

// A worker that runs short tasks looks at less between two of them.
func TestRuntimeTraceThatBeginsAmongShortTasks(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the test is being traced")
	}
	for i := range 5 {
		var out bytes.Buffer
		p := openPool(t, fixed(1, shoal.WithName("late"))...)
		p.Pause()
		for range 500 + 7*i {
			must(t, p.Submit(func() {}))
		}
		must(t, p.Submit(func() { must(t, trace.Start(&out)) }))
		for range 5 {
			must(t, p.Submit(func() {}))
		}
		must(t, p.Submit(trace.Stop))
		p.Resume()
		p.Wait()
		if want := "shoal:late"; !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("after %d tasks: %q is not in the trace", 500+7*i, want)
		}
	}
}

// A detachingTracer gives each task a context that does not end with the caller's.
type detachingTracer struct{ refused *[]error }

func (t detachingTracer) Submitted(ctx context.Context, _ *shoal.Pool, _ string) context.Context {
	return context.WithoutCancel(ctx)
}

func (t detachingTracer) Started(ctx context.Context, _ *shoal.Pool, _ string) (context.Context, func(error)) {
	return ctx, nil
}

func (t detachingTracer) Refused(_ context.Context, _ *shoal.Pool, _ string, err error) {
	*t.refused = append(*t.refused, err)
}

// What is withdrawn has the error of the context that has ended, also if the task has another one.
func TestItemsWithDetachedContextsAreRefusedWithAnError(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var refused []error
		p := newPool(t, fixed(1, shoal.WithTracer(detachingTracer{&refused}))...)
		must(t, p.Submit(func() { time.Sleep(time.Hour) }))
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		err := shoal.ForEach(ctx, p, slices.Values([]int{0, 1, 2}), func(context.Context, int) error {
			t.Error("an item runs")
			return nil
		})
		wantErr(t, "ForEach", err, context.DeadlineExceeded)
		g := p.Group(bg)
		g.Go(func(context.Context) error { t.Error("a task runs"); return nil })
		wantErr(t, "Stop", g.Stop(), context.Canceled)
		want := []error{context.DeadlineExceeded, context.DeadlineExceeded, context.DeadlineExceeded, context.Canceled}
		if !slices.Equal(refused, want) {
			t.Errorf("refused with %v, want %v", refused, want)
		}
		must(t, p.Close())
	})
}

// A lateTracer gives each task a deadline that is over.
type lateTracer struct{}

func (lateTracer) Submitted(ctx context.Context, _ *shoal.Pool, _ string) context.Context {
	ctx, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	cancel()
	return ctx
}

func (lateTracer) Started(ctx context.Context, _ *shoal.Pool, _ string) (context.Context, func(error)) {
	return ctx, nil
}

func (lateTracer) Refused(context.Context, *shoal.Pool, string, error) {}

// A shortTracer gives each task that starts a millisecond.
type shortTracer struct{ lateTracer }

func (shortTracer) Submitted(ctx context.Context, _ *shoal.Pool, _ string) context.Context {
	return ctx
}

func (shortTracer) Started(ctx context.Context, _ *shoal.Pool, _ string) (context.Context, func(error)) {
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	return ctx, func(error) { cancel() }
}

// TestForEachOfATracersDeadline: it is the error of each item, and no sign that the pool is closed.
func TestForEachOfATracersDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := openPool(t, shoal.WithTracer(shortTracer{}))
		err := shoal.ForEach(bg, p, slices.Values([]int{1, 2, 3}), func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if want := strings.Repeat("\n"+context.DeadlineExceeded.Error(), 3)[1:]; err == nil || err.Error() != want {
			t.Errorf("ForEach: %v, want %v", err, want)
		}
	})
}

// TestReviewTheContextOfTheTracerHasEnded before a task starts: then the task does not run.
func TestReviewTheContextOfTheTracerHasEnded(t *testing.T) {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithTracer(lateTracer{})))
	defer p.Close()
	for name, run := range map[string]func(ran *bool) error{
		"Future": func(ran *bool) error {
			_, err := shoal.Go(bg, p, func(context.Context) (int, error) { *ran = true; return 0, nil }).Wait(bg)
			return err
		},
		"SubmitWait": func(ran *bool) error {
			return p.SubmitWait(bg, func(context.Context) error { *ran = true; return nil })
		},
		"Map": func(ran *bool) error {
			return shoal.ForEach(bg, p, func(yield func(int) bool) { yield(0) }, func(context.Context, int) error { *ran = true; return nil })
		},
		"Group": func(ran *bool) error {
			g := p.Group(bg)
			g.Go(func(context.Context) error { *ran = true; return nil })
			return g.Wait()
		},
	} {
		ran := false
		if err := run(&ran); ran || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: ran = %v, error %v; want a refusal with %v", name, ran, err, context.DeadlineExceeded)
		}
	}
}
