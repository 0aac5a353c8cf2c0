package shoalriver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/shoal-go/shoal"
	shoalriver "github.com/shoal-go/shoal/contrib/river"
	"github.com/shoal-go/shoal/internal/handlertest"
	_ "modernc.org/sqlite"
)

func on(p *shoal.Pool) func(*rivertype.JobRow) *shoal.Pool {
	return func(*rivertype.JobRow) *shoal.Pool { return p }
}

func TestContract(t *testing.T) {
	handlertest.Contract(t, func(ctx context.Context, p *shoal.Pool, f func(context.Context) error) error {
		return shoalriver.Middleware(on(p)).Work(ctx, &rivertype.JobRow{Kind: "mail"}, f)
	}, true)
}

func TestWithoutPool(t *testing.T) {
	err := shoalriver.Middleware(on(nil)).Work(context.Background(), &rivertype.JobRow{}, func(context.Context) error { return handlertest.ErrFailed })
	if err != handlertest.ErrFailed {
		t.Errorf("got error %v, want %v", err, handlertest.ErrFailed)
	}
}

type Mail struct {
	To string `json:"to"`
}

func (Mail) Kind() string { return "mail" }

// openRiver makes a database with River's tables.
func openRiver(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // as riversqlite advises
	m, err := rivermigrate.New(riversqlite.New(db), &rivermigrate.Config{Logger: handlertest.Quiet()})
	if err == nil {
		_, err = m.Migrate(context.Background(), rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

type aRiver struct {
	*river.Client[*sql.Tx]
	events <-chan *river.Event
}

// startRiver starts a client that works mails.
func startRiver(t testing.TB, work func(context.Context, *river.Job[Mail]) error, cfg river.Config, middleware ...rivertype.Middleware) aRiver {
	t.Helper()
	db, err := openRiver(filepath.Join(t.TempDir(), "river.db"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Workers = river.NewWorkers()
	river.AddWorker(cfg.Workers, river.WorkFunc(work))
	cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 50}}
	cfg.FetchCooldown, cfg.FetchPollInterval = 5*time.Millisecond, 5*time.Millisecond
	cfg.Logger = handlertest.Quiet()
	cfg.Middleware = middleware
	cfg.TestOnly = true
	c, err := river.NewClient(riversqlite.New(db), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	events, stop := c.SubscribeConfig(&river.SubscribeConfig{ChanSize: 1000, Kinds: []river.EventKind{
		river.EventKindJobCompleted, river.EventKindJobFailed, river.EventKindJobCancelled, river.EventKindJobSnoozed,
	}})
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), handlertest.Patience)
		defer cancel()
		if err := c.StopAndCancel(ctx); err != nil {
			t.Errorf("stop of the client: %v", err)
		}
		stop()
		db.Close()
	})
	return aRiver{c, events}
}

func (r aRiver) add(t testing.TB, opts *river.InsertOpts) int64 {
	t.Helper()
	res, err := r.Insert(context.Background(), Mail{To: "ann"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return res.Job.ID
}

// next is the job that had the next event.
func (r aRiver) next(t testing.TB) (river.EventKind, *rivertype.JobRow) {
	t.Helper()
	select {
	case e := <-r.events:
		return e.Kind, e.Job
	case <-time.After(handlertest.Patience):
		t.Fatal("waited in vain for an event of River")
		return "", nil
	}
}

// The engine may run 50 at a time, the pool 4.
func TestClientBound(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(4))
	var g handlertest.Gauge
	r := startRiver(t, func(ctx context.Context, job *river.Job[Mail]) error {
		if _, err := river.ClientFromContextSafely[*sql.Tx](ctx); err != nil {
			t.Error(err)
		}
		g.Visit(handlertest.Nap)
		return river.RecordOutput(ctx, job.ID)
	}, river.Config{}, shoalriver.Middleware(on(p)))
	jobs := make([]river.InsertManyParams, 50)
	for i := range jobs {
		jobs[i].Args = Mail{To: fmt.Sprint(i)}
	}
	if _, err := r.InsertMany(context.Background(), jobs); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		kind, job := r.next(t)
		if kind != river.EventKindJobCompleted || string(job.Output()) != fmt.Sprint(job.ID) {
			t.Errorf("job %d: %s, output %s; want it completed, with its ID", job.ID, kind, job.Output())
		}
	}
	p.Wait()
	if n := g.Most(); n > 4 {
		t.Errorf("%d jobs at a time, want at most 4", n)
	}
	if s := p.Stats(); s.Completed != 50 || s.PeakWorkers > 4 {
		t.Errorf("pool has completed %d with %d workers, want 50 with at most 4", s.Completed, s.PeakWorkers)
	}
}

// A panicHook says which of River's hooks is told of a panic.
type panicHook struct{ errs, panics atomic.Int64 }

func (h *panicHook) HandleError(_ context.Context, _ *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	if _, ok := errors.AsType[*shoal.PanicError](err); ok {
		h.errs.Add(1)
	}
	return nil
}

func (h *panicHook) HandlePanic(context.Context, *rivertype.JobRow, any, string) *river.ErrorHandlerResult {
	h.panics.Add(1)
	return nil
}

func TestClientErrors(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
	var f atomic.Value
	hook := &panicHook{}
	r := startRiver(t, func(ctx context.Context, job *river.Job[Mail]) error {
		return f.Load().(func() error)()
	}, river.Config{ErrorHandler: hook}, shoalriver.Middleware(on(p)))

	f.Store(func() error { return river.JobCancel(handlertest.ErrFailed) })
	r.add(t, nil)
	if kind, job := r.next(t); kind != river.EventKindJobCancelled || !strings.Contains(job.Errors[0].Error, handlertest.ErrFailed.Error()) {
		t.Errorf("%s with %v, want it cancelled with %v", kind, job.Errors, handlertest.ErrFailed)
	}
	f.Store(func() error { return river.JobSnooze(time.Hour) })
	r.add(t, nil)
	if kind, _ := r.next(t); kind != river.EventKindJobSnoozed {
		t.Errorf("%s, want it snoozed", kind)
	}
	f.Store(func() error { panic("index 7 of 3") })
	r.add(t, nil)
	want := `shoal: task of pool "work" panicked: index 7 of 3`
	if kind, job := r.next(t); kind != river.EventKindJobFailed || job.State == rivertype.JobStateDiscarded || job.Errors[0].Error != want {
		t.Errorf("%s, %s with %v, want it failed, to be tried again, with %s", kind, job.State, job.Errors, want)
	}
	if hook.errs.Load() != 1 || hook.panics.Load() != 0 {
		t.Errorf("HandleError saw %d panics, HandlePanic %d; want 1, 0", hook.errs.Load(), hook.panics.Load())
	}
}

type now struct{}

func (now) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// River tries again what failed because the pool was closed; with the middleware of the
// documentation that is no attempt.
func TestClientPoolClosed(t *testing.T) {
	snooze := river.WorkerMiddlewareFunc(func(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
		err := work(ctx)
		if errors.Is(err, shoal.ErrClosed) || errors.Is(err, shoal.ErrDropped) {
			return river.JobSnooze(time.Millisecond)
		}
		return err
	})
	for _, snoozes := range []bool{false, true} {
		closed, open := handlertest.ClosedPool(t), handlertest.NewPool(t, shoal.WithMaxWorkers(1))
		var tries atomic.Int64
		middleware := []rivertype.Middleware{shoalriver.Middleware(func(*rivertype.JobRow) *shoal.Pool {
			if tries.Add(1) == 1 {
				return closed
			}
			return open
		})}
		first, attempt := river.EventKindJobFailed, 2
		if snoozes {
			middleware = append([]rivertype.Middleware{snooze}, middleware...)
			first, attempt = river.EventKindJobSnoozed, 1
		}
		r := startRiver(t, func(context.Context, *river.Job[Mail]) error { return nil },
			river.Config{RetryPolicy: now{}}, middleware...)
		r.add(t, nil)
		kind, job := r.next(t)
		if kind != first {
			t.Errorf("snoozes %v: first %s, want %s", snoozes, kind, first)
		}
		if !snoozes && !strings.Contains(job.Errors[0].Error, shoal.ErrClosed.Error()) {
			t.Errorf("error %q, want %v", job.Errors[0].Error, shoal.ErrClosed)
		}
		if kind, job := r.next(t); kind != river.EventKindJobCompleted || job.Attempt != attempt {
			t.Errorf("snoozes %v: then %s at attempt %d, want it completed at attempt %d", snoozes, kind, job.Attempt, attempt)
		}
	}
}

// The timeout of a job begins when a worker of the pool does.
func TestClientTimeout(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	release := handlertest.Occupy(t, p)
	const timeout = 500 * time.Millisecond
	r := startRiver(t, func(ctx context.Context, _ *river.Job[Mail]) error { return ctx.Err() },
		river.Config{JobTimeout: timeout}, shoalriver.Middleware(on(p)))
	r.add(t, nil)
	handlertest.WaitFor(t, "the job to wait for a worker", func() bool { return p.Queued() == 1 })
	time.Sleep(timeout + timeout/4)
	release()
	if kind, job := r.next(t); kind != river.EventKindJobCompleted {
		t.Errorf("%s with %v, want it completed", kind, job.Errors)
	}
}

// When the client ends the context of an attempt, it goes on when the attempt has returned,
// not before: or it would be tried again beside itself.
func TestClientWaitsForTheAttempt(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
	begun := make(chan struct{})
	var returned atomic.Bool
	r := startRiver(t, func(ctx context.Context, job *river.Job[Mail]) error {
		close(begun)
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // a client that does not wait has stopped by then
		returned.Store(true)
		return handlertest.ErrFailed
	}, river.Config{}, shoalriver.Middleware(on(p)))
	r.add(t, nil)
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), handlertest.Patience)
	defer cancel()
	if err := r.StopAndCancel(ctx); err != nil {
		t.Fatal(err)
	}
	if !returned.Load() {
		t.Error("the client has stopped while an attempt runs")
	}
	if kind, job := r.next(t); kind != river.EventKindJobFailed || job.Errors[0].Error != handlertest.ErrFailed.Error() {
		t.Errorf("%s with %v, want it failed with %v", kind, job.Errors, handlertest.ErrFailed)
	}
}

// A job that is cancelled in River ends, whether it runs or waits for a worker.
func TestClientCancel(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	r := startRiver(t, func(ctx context.Context, _ *river.Job[Mail]) error {
		<-ctx.Done()
		return ctx.Err()
	}, river.Config{}, shoalriver.Middleware(on(p)))
	r.add(t, nil)
	r.add(t, nil)
	handlertest.WaitFor(t, "one job to run and one to wait", func() bool { s := p.Stats(); return s.Running == 1 && s.Queued == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), handlertest.Patience)
	defer cancel()
	if err := r.StopAndCancel(ctx); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if s := p.Stats(); s.Completed != 1 || s.Canceled != 1 {
		t.Errorf("pool has completed %d and cancelled %d, want 1 and 1", s.Completed, s.Canceled)
	}
}

// The pool is chosen by the kind of job.
func ExampleMiddleware() {
	db, err := openRiver(":memory:") // in a program, Postgres
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(4)))
	pools := map[string]*shoal.Pool{
		"mail": shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithMaxWorkers(2))),
	}

	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[Mail]) error {
		fmt.Println("mail to", job.Args.To)
		return nil
	}))
	client, err := river.NewClient(riversqlite.New(db), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers: workers,
		Middleware: []rivertype.Middleware{
			shoalriver.Middleware(func(job *rivertype.JobRow) *shoal.Pool { return pools[job.Kind] }),
		},
		Logger: handlertest.Quiet(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	completed, stop := client.Subscribe(river.EventKindJobCompleted)
	defer stop()
	if err := client.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	client.Insert(context.Background(), Mail{To: "ann"}, nil)
	<-completed

	client.Stop(context.Background()) // the engine first
	pool.Shutdown(context.Background())
	s := pools["mail"].Stats()
	fmt.Printf("%s: %d completed\n", s.Name, s.Completed)
	// Output:
	// mail to ann
	// mails: 1 completed
}
