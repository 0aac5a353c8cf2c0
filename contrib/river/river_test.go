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
	"github.com/shoal-go/shoal/jobs"
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

// Errors of package jobs mean in River what they mean in jobs.Serve, but for ErrStopped from a
// handler that is not one of Work.
func TestClientErrorsOfJobs(t *testing.T) {
	for i := range 4 {
		bare, raw := i%2 > 0, i/2 > 0 // on no pool, and without Work
		p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
		pool := p
		if bare {
			pool = nil
		}
		var f atomic.Value
		work := shoalriver.Work[Mail](func(context.Context, *jobs.Job) error { return f.Load().(func() error)() }).Work
		if raw {
			work = func(context.Context, *river.Job[Mail]) error { return f.Load().(func() error)() }
		}
		r := startRiver(t, work, river.Config{}, shoalriver.Middleware(on(pool)))

		f.Store(func() error { return fmt.Errorf("the server is busy: %w", jobs.Retry(time.Hour)) })
		r.add(t, nil)
		if kind, job := r.next(t); kind != river.EventKindJobSnoozed || job.Attempt != 0 || time.Until(job.ScheduledAt) < 59*time.Minute {
			t.Errorf("%s, attempt %d, until %v; want it snoozed for an hour, at no cost", kind, job.Attempt, job.ScheduledAt)
		}
		f.Store(func() error { return fmt.Errorf("ann: %w", jobs.Poison(jobs.ErrStopped)) })
		r.add(t, nil)
		want := "JobCancelError: ann: " + jobs.ErrStopped.Error()
		if kind, job := r.next(t); kind != river.EventKindJobCancelled || len(job.Errors) != 1 || job.Errors[0].Error != want {
			t.Errorf("%s with %v, want it cancelled with %s", kind, job.Errors, want)
		}
		f.Store(func() error { return fmt.Errorf("by hand: %w", jobs.ErrStopped) })
		r.add(t, &river.InsertOpts{MaxAttempts: 1})
		failed := uint64(1)
		if kind, job := r.next(t); raw {
			failed = 2
			if kind != river.EventKindJobFailed || job.State != rivertype.JobStateDiscarded {
				t.Errorf("without Work: %s, %s; want it failed, and discarded", kind, job.State)
			}
		} else if kind != river.EventKindJobSnoozed || job.Attempt != 0 || len(job.Errors) > 0 {
			t.Errorf("%s, attempt %d, with %v; want it snoozed, at no cost", kind, job.Attempt, job.Errors)
		}
		p.Wait()
		if s := p.Stats(); !bare && (s.Completed != 3 || s.Failed != failed) {
			t.Errorf("pool has completed %d, failed %d; want 3, %d: what is put off has not failed", s.Completed, s.Failed, failed)
		}
	}
}

// A job that says it was stopped when its JobTimeout is over has failed, whatever its handler is.
// Else it would run again for ever: the middleware does not see that timeout.
func TestClientStoppedByTimeout(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	stopped := func(ctx context.Context) error { <-ctx.Done(); return jobs.ErrStopped }
	for name, work := range map[string]func(context.Context, *river.Job[Mail]) error{
		"raw":  func(ctx context.Context, _ *river.Job[Mail]) error { return stopped(ctx) },
		"Work": shoalriver.Work[Mail](func(ctx context.Context, _ *jobs.Job) error { return stopped(ctx) }).Work,
	} {
		r := startRiver(t, work, river.Config{JobTimeout: 10 * time.Millisecond}, shoalriver.Middleware(on(p)))
		r.add(t, &river.InsertOpts{MaxAttempts: 1})
		if kind, job := r.next(t); kind != river.EventKindJobFailed || job.State != rivertype.JobStateDiscarded {
			t.Errorf("%s: %s, %s, attempt %d; want it failed, and discarded", name, kind, job.State, job.Attempt)
		}
	}
}

// A job that is stopped with the client costs no attempt, whatever its handler is.
func TestClientStopped(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	begun := make(chan bool)
	stopped := func(ctx context.Context) error { begun <- true; <-ctx.Done(); return jobs.ErrStopped }
	for name, work := range map[string]func(context.Context, *river.Job[Mail]) error{
		"raw":  func(ctx context.Context, _ *river.Job[Mail]) error { return stopped(ctx) },
		"Work": shoalriver.Work[Mail](func(ctx context.Context, _ *jobs.Job) error { return stopped(ctx) }).Work,
	} {
		r := startRiver(t, work, river.Config{}, shoalriver.Middleware(on(p)))
		r.add(t, &river.InsertOpts{MaxAttempts: 1})
		<-begun
		ctx, cancel := context.WithTimeout(context.Background(), handlertest.Patience)
		defer cancel()
		if err := r.StopAndCancel(ctx); err != nil {
			t.Fatal(err)
		}
		if kind, job := r.next(t); kind != river.EventKindJobSnoozed || job.Attempt != 0 {
			t.Errorf("%s: %s, attempt %d; want it snoozed, at no cost", name, kind, job.Attempt)
		}
	}
}

// A handler of package jobs works the jobs of River.
func TestWork(t *testing.T) {
	w := shoalriver.Work[Mail](jobs.Handle(func(ctx context.Context, m Mail) error {
		j := jobs.From(ctx)
		if j.ID != "4711" || j.Attempt != 3 || m.To != "ann" {
			t.Errorf("job %q, attempt %d, to %s; want 4711, 3, ann", j.ID, j.Attempt, m.To)
		}
		return jobs.Retry(time.Minute)
	}))
	do := func(args string) error {
		return w.Work(context.Background(), &river.Job[Mail]{JobRow: &rivertype.JobRow{ID: 4711, Attempt: 3, EncodedArgs: []byte(args)}})
	}
	if se, ok := errors.AsType[*river.JobSnoozeError](do(`{"to":"ann"}`)); !ok || se.Duration != time.Minute {
		t.Errorf("got %v, want it snoozed for a minute", se)
	}
	if _, ok := errors.AsType[*river.JobCancelError](do(`{"to":7}`)); !ok {
		t.Error("a payload that cannot be decoded is not cancelled")
	}
}

// A job that is stopped is there for others at once, and one that nothing stops after a while.
// After the end of its time it has failed: else it would be tried for ever.
func TestStopped(t *testing.T) {
	w := shoalriver.Work[Mail](func(context.Context, *jobs.Job) error { return jobs.ErrStopped })
	job := &river.Job[Mail]{JobRow: &rivertype.JobRow{}}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	for ctx, want := range map[context.Context]time.Duration{stopped: 0, context.Background(): time.Second} {
		if se, ok := errors.AsType[*river.JobSnoozeError](w.Work(ctx, job)); !ok || se.Duration != want {
			t.Errorf("got %v, want it snoozed for %v", se, want)
		}
	}
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	if err := w.Work(late, job); err != jobs.ErrStopped {
		t.Errorf("after the end of its time: %v, want %v", err, jobs.ErrStopped)
	}
	own := fmt.Errorf("%w: %w", jobs.ErrTimeLimit, jobs.ErrStopped)
	w = shoalriver.Work[Mail](func(context.Context, *jobs.Job) error { return own })
	for _, ctx := range []context.Context{stopped, context.Background(), late} {
		if err := w.Work(ctx, job); err != own {
			t.Errorf("after the end of a time of its own: %v, want %v", err, own)
		}
	}
}

// A job that waits for a worker until its time is over has not begun, and costs no attempt.
func TestWithin(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	release := handlertest.Occupy(t, p)
	r := startRiver(t, func(context.Context, *river.Job[Mail]) error { return nil },
		river.Config{}, shoalriver.Within(50*time.Millisecond), shoalriver.Middleware(on(p)))
	r.add(t, nil)
	kind, job := r.next(t)
	if kind != river.EventKindJobSnoozed || job.Attempt != 0 {
		t.Errorf("%s, attempt %d; want it snoozed, at no cost", kind, job.Attempt)
	}
	release()
	for kind == river.EventKindJobSnoozed { // as often as it takes
		kind, job = r.next(t)
	}
	if kind != river.EventKindJobCompleted || job.Attempt != 1 {
		t.Errorf("%s, attempt %d; want it completed in its first", kind, job.Attempt)
	}
	defer func() {
		if r := recover(); r != "shoalriver: Within(-1s): want more than 0" {
			t.Errorf("Within(-1s) says %v", r)
		}
	}()
	shoalriver.Within(-time.Second)
}

// Two attempts of a job do not run beside each other on one middleware; two jobs do.
func TestOneAttemptAtATime(t *testing.T) {
	for _, bare := range []bool{false, true} {
		pool := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
		if bare {
			pool = nil
		}
		m := shoalriver.Middleware(on(pool))
		created := time.Now()
		begun, end, first := make(chan bool), make(chan bool), make(chan error)
		go func() {
			first <- m.Work(context.Background(), &rivertype.JobRow{ID: 1, Attempt: 1, CreatedAt: created}, func(context.Context) error {
				close(begun)
				<-end
				return handlertest.ErrFailed
			})
		}()
		<-begun
		do := func(id int64, created time.Time) error {
			return m.Work(context.Background(), &rivertype.JobRow{ID: id, Attempt: 2, CreatedAt: created}, func(context.Context) error { return nil })
		}
		if se, ok := errors.AsType[*river.JobSnoozeError](do(1, created)); !ok || se.Duration != 10*time.Second {
			t.Errorf("the second attempt of the job: %v, want it snoozed for 10 s", se)
		}
		if err := do(2, created); err != nil {
			t.Errorf("another job: %v", err)
		}
		if err := do(1, created.Add(time.Second)); err != nil {
			t.Errorf("a job of another database: %v", err)
		}
		close(end)
		if err := <-first; err != handlertest.ErrFailed {
			t.Errorf("the first attempt: %v, want %v", err, handlertest.ErrFailed)
		}
		if err := do(1, created); err != nil {
			t.Errorf("the second attempt, when the first has returned: %v", err)
		}
	}
}

// A middleware that is both the client's and the worker's runs the job, and once on the pool.
func TestMiddlewareTwice(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	m := shoalriver.Middleware(on(p))
	job := &rivertype.JobRow{ID: 1, CreatedAt: time.Now()}
	err := m.Work(context.Background(), job, func(ctx context.Context) error {
		return m.Work(ctx, job, func(context.Context) error { return handlertest.ErrFailed })
	})
	if err != handlertest.ErrFailed {
		t.Errorf("got %v, want %v", err, handlertest.ErrFailed)
	}
	p.Wait()
	if s := p.Stats(); s.Completed != 1 {
		t.Errorf("pool has completed %d, want 1", s.Completed)
	}
}

// Nil is refused when the value is made, and not in each job.
func TestNil(t *testing.T) {
	for want, f := range map[string]func(){
		"shoalriver: Middleware(nil): want a function": func() { shoalriver.Middleware(nil) },
		"shoalriver: Work(nil): want a handler":        func() { shoalriver.Work[Mail](nil) },
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

// workOne has a client with one worker do one job.
func workOne(db *sql.DB, w river.Worker[Mail]) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riversqlite.New(db), &river.Config{
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
		Workers:    workers,
		Middleware: []rivertype.Middleware{shoalriver.Within(50 * time.Minute)},
		Logger:     handlertest.Quiet(),
	})
	if err != nil {
		return err
	}
	over, stop := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobCancelled)
	defer stop()
	if err := client.Start(context.Background()); err != nil {
		return err
	}
	if _, err := client.Insert(context.Background(), Mail{To: "ann"}, nil); err != nil {
		return err
	}
	fmt.Println("the job is", (<-over).Job.State)
	return client.Stop(context.Background())
}

// The effect of a job and its completion are one transaction.
func ExampleCompleteTx() {
	db, err := openRiver(":memory:") // in a program, Postgres
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE sent (name TEXT)"); err != nil {
		fmt.Println(err)
		return
	}
	err = workOne(db, river.WorkFunc(func(ctx context.Context, job *river.Job[Mail]) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "INSERT INTO sent VALUES (?)", job.Args.To); err != nil {
			return err
		}
		if err := shoalriver.CompleteTx[*riversqlite.Driver](ctx, tx, job); err != nil {
			return err // River has given the job to another attempt, and tx is rolled back
		}
		return tx.Commit()
	}))
	if err != nil {
		fmt.Println(err)
	}
	// Output: the job is completed
}

// A handler of package jobs works the jobs of River.
func ExampleWork() {
	db, err := openRiver(":memory:") // in a program, Postgres
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	err = workOne(db, shoalriver.Work[Mail](jobs.Handle(func(ctx context.Context, m Mail) error {
		return jobs.Poison(fmt.Errorf("%s has no mailbox", m.To))
	})))
	if err != nil {
		fmt.Println(err)
	}
	// Output: the job is cancelled
}
