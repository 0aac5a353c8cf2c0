package shoalasynq_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/shoal-go/shoal"
	shoalasynq "github.com/shoal-go/shoal/contrib/asynq"
	"github.com/shoal-go/shoal/internal/handlertest"
	"github.com/shoal-go/shoal/jobs"
)

func TestContract(t *testing.T) {
	handlertest.Contract(t, func(ctx context.Context, p *shoal.Pool, f func(context.Context) error) error {
		h := asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return f(ctx) })
		return shoalasynq.Handler(p, h).ProcessTask(ctx, asynq.NewTask("mail", nil))
	}, true)
}

// anAsynq is a server without tasks, and what it takes to give it some.
type anAsynq struct {
	*asynq.Client
	*asynq.Inspector
	server *asynq.Server
}

func startAsynq(t testing.TB, h asynq.Handler, cfg asynq.Config) anAsynq {
	t.Helper()
	opt := asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	cfg.TaskCheckInterval = 5 * time.Millisecond
	cfg.DelayedTaskCheckInterval = 5 * time.Millisecond
	cfg.LogLevel = asynq.FatalLevel
	cfg.ShutdownTimeout = cmp.Or(cfg.ShutdownTimeout, 5*time.Second)
	srv := asynq.NewServer(opt, cfg)
	if err := srv.Start(h); err != nil {
		t.Fatal(err)
	}
	a := anAsynq{asynq.NewClient(opt), asynq.NewInspector(opt), srv}
	t.Cleanup(func() {
		srv.Shutdown()
		a.Client.Close()
		a.Inspector.Close()
	})
	return a
}

// add enqueues a task and returns its ID.
func (a anAsynq) add(t testing.TB, kind string, opts ...asynq.Option) string {
	t.Helper()
	info, err := a.Enqueue(asynq.NewTask(kind, nil), append(opts, asynq.Retention(time.Hour))...)
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// await waits until a task is in a state.
func (a anAsynq) await(t testing.TB, id string, state asynq.TaskState) *asynq.TaskInfo {
	t.Helper()
	var info *asynq.TaskInfo
	handlertest.WaitFor(t, fmt.Sprintf("task %s to be %v", id, state), func() bool {
		var err error
		if info, err = a.GetTaskInfo("default", id); err != nil {
			t.Fatal(err)
		}
		return info.State == state
	})
	return info
}

// The engine may run 50 at a time, the pool 4.
func TestServerBound(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(4))
	var g handlertest.Gauge
	mux := asynq.NewServeMux()
	mux.Use(func(h asynq.Handler) asynq.Handler { return shoalasynq.Handler(p, h) })
	mux.HandleFunc("mail", func(ctx context.Context, task *asynq.Task) error {
		if id, ok := asynq.GetTaskID(ctx); !ok || id != task.ResultWriter().TaskID() {
			t.Errorf("task ID %q, %v; want %q", id, ok, task.ResultWriter().TaskID())
		}
		g.Visit(handlertest.Nap)
		return nil
	})
	a := startAsynq(t, mux, asynq.Config{Concurrency: 50})
	for range 50 {
		a.add(t, "mail")
	}
	handlertest.WaitFor(t, "50 tasks", func() bool { return g.All() == 50 })
	p.Wait()
	if n := g.Most(); n > 4 {
		t.Errorf("%d tasks at a time, want at most 4", n)
	}
	if s := p.Stats(); s.Completed != 50 || s.PeakWorkers > 4 {
		t.Errorf("pool has completed %d with %d workers, want 50 with at most 4", s.Completed, s.PeakWorkers)
	}
}

func TestServerErrors(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
	var seen atomic.Value
	mux := asynq.NewServeMux()
	handle := func(kind string, f func() error) {
		mux.Handle(kind, shoalasynq.Handler(p, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return f() })))
	}
	handle("skip", func() error { return fmt.Errorf("no such order: %w", asynq.SkipRetry) })
	handle("panic", func() error { panic("index 7 of 3") })
	a := startAsynq(t, mux, asynq.Config{Concurrency: 2, ErrorHandler: asynq.ErrorHandlerFunc(
		func(_ context.Context, task *asynq.Task, err error) {
			if task.Type() == "panic" {
				seen.Store(err)
			}
		})})

	if info := a.await(t, a.add(t, "skip"), asynq.TaskStateArchived); info.Retried != 0 {
		t.Errorf("tried again %d times, want 0", info.Retried)
	}
	info := a.await(t, a.add(t, "panic"), asynq.TaskStateRetry)
	if want := `shoal: task of pool "work" panicked: index 7 of 3`; info.LastErr != want {
		t.Errorf("last error %q, want %q", info.LastErr, want)
	}
	err := seen.Load().(error)
	if pe, ok := errors.AsType[*shoal.PanicError](err); !ok || len(pe.Stack) == 0 {
		t.Errorf("the error handler was given %v, want a PanicError with a stack", err)
	}
	if asynq.IsPanicError(err) {
		t.Errorf("asynq.IsPanicError(%v) is true: the documentation says otherwise", err)
	}
}

// A pool that is closed costs an attempt, unless IsFailure says otherwise.
func TestServerPoolClosed(t *testing.T) {
	for _, charged := range []bool{true, false} {
		closed, open := handlertest.ClosedPool(t), handlertest.NewPool(t, shoal.WithMaxWorkers(1))
		var tries atomic.Int64
		h := asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			p := open
			if tries.Add(1) == 1 {
				p = closed
			}
			return shoalasynq.Handler(p, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })).ProcessTask(ctx, task)
		})
		a := startAsynq(t, h, asynq.Config{
			Concurrency:    1,
			RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
			IsFailure: func(err error) bool {
				return charged || !errors.Is(err, shoal.ErrClosed) && !errors.Is(err, shoal.ErrDropped)
			},
		})
		info := a.await(t, a.add(t, "mail", asynq.MaxRetry(1)), asynq.TaskStateCompleted)
		if n := tries.Load(); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		if (info.Retried == 1) != charged {
			t.Errorf("charged with %d attempts, want that to be 1: %v", info.Retried, charged)
		}
	}
}

// Errors of package jobs mean in asynq what they mean in jobs.Serve.
func TestServerErrorsOfJobs(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
	var again atomic.Bool
	mux := asynq.NewServeMux()
	mux.Use(func(h asynq.Handler) asynq.Handler { return shoalasynq.Handler(p, h) })
	mux.Handle("busy", shoalasynq.Work(func(ctx context.Context, j *jobs.Job) error {
		if jobs.From(ctx) != j || j.ID == "" || j.Attempt != 1 || string(j.Data) != "" {
			t.Errorf("job %+v, want the task", j)
		}
		return fmt.Errorf("the server is busy: %w", jobs.Retry(time.Hour))
	}))
	mux.Handle("poison", shoalasynq.Work(func(context.Context, *jobs.Job) error {
		return fmt.Errorf("ann: %w", jobs.Poison(handlertest.ErrFailed))
	}))
	mux.Handle("stopped", shoalasynq.Work(func(ctx context.Context, _ *jobs.Job) error {
		if n, _ := asynq.GetRetryCount(ctx); n > 0 {
			return handlertest.ErrFailed
		}
		if !again.CompareAndSwap(false, true) {
			return nil
		}
		return fmt.Errorf("by hand: %w", jobs.ErrStopped)
	}))
	mux.HandleFunc("fails", func(context.Context, *asynq.Task) error { return handlertest.ErrFailed })
	a := startAsynq(t, mux, asynq.Config{
		Concurrency:    2,
		RetryDelayFunc: shoalasynq.RetryDelay(func(int, error, *asynq.Task) time.Duration { return 2 * time.Hour }),
		IsFailure:      shoalasynq.IsFailure,
	})
	for _, c := range []struct {
		kind    string
		state   asynq.TaskState
		retried int
		after   time.Duration
	}{
		{"busy", asynq.TaskStateRetry, 0, time.Hour},
		{"fails", asynq.TaskStateRetry, 1, 2 * time.Hour},
		{"poison", asynq.TaskStateArchived, 0, 0},
		{"stopped", asynq.TaskStateCompleted, 0, 0},
	} {
		info := a.await(t, a.add(t, c.kind), c.state)
		if info.Retried != c.retried {
			t.Errorf("%s: %d attempts were charged, want %d", c.kind, info.Retried, c.retried)
		}
		// Up to a second more, as Redis has whole seconds.
		if d := time.Until(info.NextProcessAt); c.after > 0 && (d > c.after+time.Second || d < c.after-time.Minute) {
			t.Errorf("%s: again in %v, want %v", c.kind, d, c.after)
		}
	}
	p.Wait()
	if s := p.Stats(); s.Completed != 5 || s.Failed != 2 {
		t.Errorf("pool has completed %d, failed %d; want 5, 2: what is put off has not failed", s.Completed, s.Failed)
	}
	if d := shoalasynq.RetryDelay(nil)(0, handlertest.ErrFailed, nil); d <= 0 {
		t.Errorf("the default delay is %v", d)
	}
	if d := shoalasynq.RetryDelay(nil)(0, fmt.Errorf("by hand: %w", jobs.ErrStopped), nil); d != time.Second {
		t.Errorf("the delay of a task that is stopped is %v, want 1s", d)
	}
	late := fmt.Errorf("%w: %w", jobs.ErrTimeLimit, jobs.ErrStopped)
	if !shoalasynq.IsFailure(late) {
		t.Errorf("IsFailure(%v) is false", late)
	}
	next := shoalasynq.RetryDelay(func(int, error, *asynq.Task) time.Duration { return time.Hour })
	if d := next(0, late, nil); d != time.Hour {
		t.Errorf("the delay after a time limit is %v, want that of other errors", d)
	}
	for _, err := range []error{shoal.ErrClosed, shoal.ErrDropped, jobs.ErrStopped} {
		if shoalasynq.IsFailure(err) {
			t.Errorf("IsFailure(%v) is true", err)
		}
	}
}

// TestRetryIsNeverEarly: asynq cuts the time to whole seconds. Without a delay there is nothing to cut.
func TestRetryIsNeverEarly(t *testing.T) {
	delay := shoalasynq.RetryDelay(nil)
	for _, d := range []time.Duration{1, time.Millisecond, time.Second - 1, time.Second, time.Hour + 1, math.MaxInt64 - time.Second} {
		got := delay(0, fmt.Errorf("busy: %w", jobs.Retry(d)), nil)
		if got >= d+time.Second {
			t.Errorf("Retry(%v): again in %v, want less than a second more", d, got)
		}
		for _, now := range []time.Time{time.Unix(1e9, 0), time.Unix(1e9, 1), time.Unix(1e9, 500e6), time.Unix(1e9, 999999999)} {
			if at := time.Unix(now.Add(got).Unix(), 0); at.Before(now.Add(d)) {
				t.Errorf("Retry(%v) at %v: again %v early", d, now, now.Add(d).Sub(at))
			}
		}
	}
	if d := delay(0, jobs.Retry(0), nil); d != 0 {
		t.Errorf("Retry(0): again in %v", d)
	}
	if d := delay(0, jobs.Retry(math.MaxInt64), nil); d != math.MaxInt64 {
		t.Errorf("Retry for ever: again in %v", d)
	}
}

// asynq tries a task again whose context has ended, while its handler runs on. The next
// attempt does not run beside it, and is not charged.
func TestServerOneAttemptAtATime(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
	var g handlertest.Gauge
	deaf, refused := make(chan bool), make(chan error, 100)
	mux := asynq.NewServeMux()
	mux.Use(func(h asynq.Handler) asynq.Handler {
		h = shoalasynq.Handler(p, h)
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := h.ProcessTask(ctx, task)
			if _, ok := jobs.RetryAfter(err); ok {
				refused <- err
			}
			return err
		})
	})
	mux.HandleFunc("mail", func(ctx context.Context, _ *asynq.Task) error {
		g.Visit(func() {
			if g.All() == 0 {
				<-ctx.Done()
				<-deaf
			}
		})
		return nil
	})
	a := startAsynq(t, mux, asynq.Config{
		Concurrency:    2,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 },
		IsFailure:      shoalasynq.IsFailure,
	})
	id := a.add(t, "mail", asynq.Timeout(time.Second))
	<-refused
	close(deaf)
	info := a.await(t, id, asynq.TaskStateCompleted)
	if info.Retried != 1 {
		t.Errorf("%d attempts were charged, want 1: that whose time was over", info.Retried)
	}
	if n := g.Most(); n != 1 {
		t.Errorf("%d attempts at a time, want 1", n)
	}
}

// taskContext is the context of a task with opts, without its end.
func taskContext(t *testing.T, opts ...asynq.Option) context.Context {
	t.Helper()
	got := make(chan context.Context, 1)
	a := startAsynq(t, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		got <- context.WithoutCancel(ctx)
		return nil
	}), asynq.Config{Concurrency: 1})
	a.add(t, "mail", opts...)
	return <-got
}

// The last attempt is not refused, as asynq would archive the task. It waits for the one before,
// or for the end of its own context. So does a task of another Redis with the same ID.
func TestLastAttemptWaits(t *testing.T) {
	one, other := taskContext(t, asynq.MaxRetry(0), asynq.TaskID("7")), taskContext(t, asynq.MaxRetry(0), asynq.TaskID("7"))
	for name, ctx := range map[string]context.Context{"the same Redis": one, "another Redis": other} {
		synctest.Test(t, func(t *testing.T) {
			p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
			do := func(ctx context.Context, f func()) <-chan error {
				got := make(chan error, 1)
				h := shoalasynq.Handler(p, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { f(); return nil }))
				go func() { got <- h.ProcessTask(ctx, asynq.NewTask("mail", nil)) }()
				synctest.Wait()
				return got
			}
			end := make(chan bool)
			var ran atomic.Bool
			first := do(one, func() { <-end })
			last := do(ctx, func() { ran.Store(true) })
			late, cancel := context.WithCancel(ctx)
			tooLate := do(late, func() { t.Errorf("%s: the attempt ran whose time was over", name) })
			if n := len(last) + len(tooLate); n > 0 {
				t.Errorf("%s: %d of 2 attempts have returned while the one before runs", name, n)
			}
			cancel()
			if err := <-tooLate; err != context.Canceled {
				t.Errorf("%s: after the end of its context: %v, want %v", name, err, context.Canceled)
			}
			if ran.Load() {
				t.Errorf("%s: two attempts ran at a time", name)
			}
			close(end)
			if err := <-first; err != nil {
				t.Errorf("%s: the first attempt: %v", name, err)
			}
			if err := <-last; err != nil || !ran.Load() {
				t.Errorf("%s: the last attempt: %v, has run: %v", name, err, ran.Load())
			}
		})
	}
}

// A task that goes through two handlers of a pool runs, and once on the pool.
func TestHandlerTwice(t *testing.T) {
	ctx := taskContext(t)
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	mux := asynq.NewServeMux()
	mux.Use(func(h asynq.Handler) asynq.Handler { return shoalasynq.Handler(p, h) })
	mux.Handle("mail", shoalasynq.Handler(p, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return handlertest.ErrFailed })))
	if err := mux.ProcessTask(ctx, asynq.NewTask("mail", nil)); err != handlertest.ErrFailed {
		t.Errorf("got %v, want %v", err, handlertest.ErrFailed)
	}
	p.Wait()
	if s := p.Stats(); s.Completed != 1 {
		t.Errorf("pool has completed %d, want 1", s.Completed)
	}
}

// A pool and a sub-pool of it are two: a task may go through both.
func TestHandlerOfSubPool(t *testing.T) {
	ctx := taskContext(t)
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	mails := shoal.Must(p.Sub(shoal.WithName("mails")))
	h := shoalasynq.Handler(p, shoalasynq.Handler(mails, asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })))
	if err := h.ProcessTask(ctx, asynq.NewTask("mail", nil)); err != nil {
		t.Error(err)
	}
	mails.Wait()
	if s := mails.Stats(); s.Completed != 1 {
		t.Errorf("the sub-pool has completed %d, want 1", s.Completed)
	}
}

// Nil is refused when the handler is made, and not in each task.
func TestNil(t *testing.T) {
	h := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	p := handlertest.NewPool(t)
	for want, f := range map[string]func(){
		"shoalasynq: Handler(nil, h): want a pool":    func() { shoalasynq.Handler(nil, h) },
		"shoalasynq: Handler(p, nil): want a handler": func() { shoalasynq.Handler(p, nil) },
		"shoalasynq: Work(nil): want a handler":       func() { shoalasynq.Work(nil) },
	} {
		func() {
			defer func() {
				if r := recover(); r != want {
					t.Errorf("panic with %v, want %q", r, want)
				}
			}()
			f()
		}()
	}
}

// A task that has no attempts left is archived whatever IsFailure says.
func TestServerLastAttempt(t *testing.T) {
	h := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	a := startAsynq(t, shoalasynq.Handler(handlertest.ClosedPool(t), h), asynq.Config{
		Concurrency: 1,
		IsFailure:   func(err error) bool { return !errors.Is(err, shoal.ErrClosed) },
	})
	a.await(t, a.add(t, "mail", asynq.MaxRetry(0)), asynq.TaskStateArchived)
}

// The timeout of a task holds while it waits for a worker.
func TestServerTimeout(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	release := handlertest.Occupy(t, p)
	defer release()
	h := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		t.Error("the task ran")
		return nil
	})
	a := startAsynq(t, shoalasynq.Handler(p, h), asynq.Config{Concurrency: 1})
	info := a.await(t, a.add(t, "mail", asynq.Timeout(time.Second)), asynq.TaskStateRetry)
	if want := context.DeadlineExceeded.Error(); info.LastErr != want {
		t.Errorf("last error %q, want %q", info.LastErr, want)
	}
}

// The end of the server gives back the task of a handler that does not return, and ends
// its context, but it is the pool that waits for it.
func TestServerShutdown(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	begun, end := make(chan struct{}), make(chan struct{})
	a := startAsynq(t, shoalasynq.Handler(p, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		close(begun)
		<-ctx.Done()
		<-end
		return ctx.Err()
	})), asynq.Config{Concurrency: 1, ShutdownTimeout: 20 * time.Millisecond})
	id := a.add(t, "mail")
	<-begun
	a.server.Stop()
	a.server.Shutdown()
	a.await(t, id, asynq.TaskStatePending)
	if n := p.Stats().Running; n != 1 {
		t.Errorf("%d handlers run, want 1", n)
	}
	close(end)
	ctx, cancel := context.WithTimeout(context.Background(), handlertest.Patience)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// Two kinds of task on one pool; reports take no more than half of it.
func ExampleHandler() {
	redis := miniredis.NewMiniRedis() // in a program, a Redis
	if err := redis.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer redis.Close()
	opt := asynq.RedisClientOpt{Addr: redis.Addr()}

	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(4)))
	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithWeight(3)))
	reports := shoal.Must(pool.Sub(shoal.WithName("reports"), shoal.WithMaxWorkers(2)))

	done := make(chan struct{})
	mux := asynq.NewServeMux()
	mux.Handle("mail:", shoalasynq.Handler(mails, asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		done <- struct{}{}
		return nil
	})))
	mux.Handle("report:", shoalasynq.Handler(reports, asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		done <- struct{}{}
		return fmt.Errorf("no such month: %s: %w", t.Payload(), asynq.SkipRetry)
	})))
	server := asynq.NewServer(opt, asynq.Config{Concurrency: 6, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel})
	if err := server.Start(mux); err != nil {
		fmt.Println(err)
		return
	}

	client := asynq.NewClient(opt)
	defer client.Close()
	client.Enqueue(asynq.NewTask("mail:welcome", nil))
	client.Enqueue(asynq.NewTask("mail:receipt", nil))
	client.Enqueue(asynq.NewTask("report:month", []byte("2026-13")))
	for range 3 {
		<-done
	}

	server.Shutdown() // the engine first
	pool.Shutdown(context.Background())
	for _, p := range []*shoal.Pool{mails, reports} {
		s := p.Stats()
		fmt.Printf("%s: %d completed, %d of them failed\n", s.Name, s.Completed, s.Failed)
	}
	// Output:
	// mails: 2 completed, 0 of them failed
	// reports: 1 completed, 1 of them failed
}

// A panic is an error to asynq, and the pool counts it.
func ExampleHandler_panic() {
	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(4),
		shoal.WithPanicHandler(func(*shoal.PanicError) {}))) // else panics are logged
	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithWeight(3)))
	reports := shoal.Must(pool.Sub(shoal.WithName("reports"), shoal.WithMaxWorkers(1)))

	mail := shoalasynq.Handler(mails, asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return nil
	}))
	report := shoalasynq.Handler(reports, asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		panic("no such month: 13")
	}))

	// What the engine does:
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(mail.ProcessTask(ctx, asynq.NewTask("mail", nil)))
	err := report.ProcessTask(ctx, asynq.NewTask("report", nil))
	fmt.Println(err)
	if pe, ok := errors.AsType[*shoal.PanicError](err); ok {
		fmt.Println("with its stack:", len(pe.Stack) > 0)
	}

	pool.Shutdown(context.Background())
	for _, p := range []*shoal.Pool{mails, reports} {
		s := p.Stats()
		fmt.Printf("%s: %d completed, %d of them failed\n", s.Name, s.Completed, s.Failed)
	}
	// Output:
	// <nil>
	// shoal: task of pool "reports" panicked: no such month: 13
	// with its stack: true
	// mails: 1 completed, 0 of them failed
	// reports: 1 completed, 1 of them failed
}

// A handler of package jobs works the tasks of asynq.
func ExampleWork() {
	h := shoalasynq.Work(jobs.Handle(func(ctx context.Context, to string) error {
		if to == "" {
			return jobs.Poison(errors.New("nobody to write to"))
		}
		fmt.Println("mail to", to)
		return nil
	}))

	// What the engine does:
	fmt.Println(h.ProcessTask(context.Background(), asynq.NewTask("mail", []byte(`"ann"`))))
	fmt.Println(h.ProcessTask(context.Background(), asynq.NewTask("mail", []byte(`""`))))
	// Output:
	// mail to ann
	// <nil>
	// nobody to write to: skip retry for the task
}
