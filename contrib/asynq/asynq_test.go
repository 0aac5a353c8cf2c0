package shoalasynq_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/shoal-go/shoal"
	shoalasynq "github.com/shoal-go/shoal/contrib/asynq"
	"github.com/shoal-go/shoal/internal/handlertest"
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
