package shoal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

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

func (r *recordingTracer) Submitted(ctx context.Context, kind string) context.Context {
	r.mu.Lock()
	r.n++
	n := r.n
	r.mu.Unlock()
	r.note("%d submitted by %s", n, kind)
	return context.WithValue(ctx, spanKey{}, n)
}

func (r *recordingTracer) Started(ctx context.Context, kind string) (context.Context, func(error)) {
	n := ctx.Value(spanKey{})
	r.note("%v started by %s", n, kind)
	return context.WithValue(ctx, runKey{}, n), func(err error) { r.note("%v ended: %v", n, errorName(err)) }
}

func (r *recordingTracer) Refused(ctx context.Context, kind string, err error) {
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

// A panickingTracer panics wherever it is told to.
type panickingTracer struct{ in string }

func (t panickingTracer) Submitted(ctx context.Context, kind string) context.Context { return nil }
func (t panickingTracer) Started(ctx context.Context, kind string) (context.Context, func(error)) {
	if t.in == "Started" {
		panic(t.in)
	}
	if t.in == "nil" {
		return nil, nil
	}
	return nil, func(error) { panic("end") }
}
func (t panickingTracer) Refused(ctx context.Context, kind string, err error) { panic("Refused") }

func TestTracerThatPanicsOrReturnsNil(t *testing.T) {
	for _, in := range []string{"Started", "end", "nil"} {
		var panics atomic.Int32
		p := openPool(t, fixed(1, shoal.WithTracer(panickingTracer{in}), shoal.WithPanicHandler(func(*shoal.PanicError) { panics.Add(1) }))...)
		err := p.SubmitWait(t.Context(), func(ctx context.Context) error { return ctx.Err() })
		if got := errorName(err); got != map[string]string{"Started": "panic", "end": "<nil>", "nil": "<nil>"}[in] {
			t.Errorf("%s: %s", in, got)
		}
		p.Wait()
		want := int32(1)
		if in == "nil" {
			want = 0
		}
		if n := panics.Load(); n != want {
			t.Errorf("%s: %d panics, want %d", in, n, want)
		}
		p.Close()
		p.SubmitContext(t.Context(), func(context.Context) {}) // Refused
		if n := panics.Load(); n != want+1 {
			t.Errorf("%s: %d panics, want %d", in, n, want+1)
		}
	}
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
