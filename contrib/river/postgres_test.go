package shoalriver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/shoal-go/shoal"
	shoalriver "github.com/shoal-go/shoal/contrib/river"
	"github.com/shoal-go/shoal/internal/handlertest"
	"github.com/shoal-go/shoal/internal/postgres/pgtest"
	"github.com/shoal-go/shoal/jobs"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var made int

// postgres is a new database with River's tables, and a table of effects. Without Postgres
// the test is skipped, or fails where that is required.
func postgres(t testing.TB) *pgxpool.Pool {
	t.Helper()
	c, err := pgtest.Shared()
	pgtest.Need(t, err)
	made++
	name := fmt.Sprint("t", made)
	admin := connect(t, c.DSN("postgres", "postgres"))
	run(t, admin, "CREATE DATABASE "+name)
	db := connect(t, c.DSN("postgres", name))
	m, err := rivermigrate.New(riverpgxv5.New(db), &rivermigrate.Config{Logger: handlertest.Quiet()})
	if err == nil {
		_, err = m.Migrate(context.Background(), rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, "CREATE TABLE effect (job bigint, attempt int)")
	return db
}

func connect(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func run(t testing.TB, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB, db *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// startPgx starts a client, as another process would: it shares no middleware with others.
func startPgx(t testing.TB, db *pgxpool.Pool, cfg river.Config, work func(context.Context, *river.Job[Mail]) error) *river.Client[pgx.Tx] {
	t.Helper()
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(4))
	cfg.Workers = river.NewWorkers()
	river.AddWorker(cfg.Workers, river.WorkFunc(work))
	if cfg.Queues == nil {
		cfg.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}
	}
	cfg.FetchCooldown, cfg.FetchPollInterval = 5*time.Millisecond, 5*time.Millisecond
	cfg.Logger = handlertest.Quiet()
	cfg.Middleware = append(cfg.Middleware, shoalriver.Middleware(on(p)))
	cfg.RetryPolicy = now{}
	cfg.TestOnly = true
	c, err := river.NewClient(riverpgxv5.New(db), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), handlertest.Patience)
		defer cancel()
		if err := c.StopAndCancel(ctx); err != nil {
			t.Errorf("stop of the client: %v", err)
		}
	})
	return c
}

// complete has the effect of a job, and completes it in the same transaction. Before the
// commit it calls between.
func complete(ctx context.Context, db *pgxpool.Pool, job *river.Job[Mail], between func(pgx.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "INSERT INTO effect VALUES ($1, $2)", job.ID, job.Attempt); err != nil {
		return err
	}
	if err := shoalriver.CompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	if between != nil {
		if err := between(tx); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func insert(t testing.TB, c *river.Client[pgx.Tx]) int64 {
	t.Helper()
	res, err := c.Insert(context.Background(), Mail{To: "ann"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.Job.ID
}

func await(t testing.TB, c *river.Client[pgx.Tx], id int64, want rivertype.JobState) *rivertype.JobRow {
	t.Helper()
	var job *rivertype.JobRow
	handlertest.WaitFor(t, fmt.Sprintf("job %d to be %s", id, want), func() bool {
		var err error
		if job, err = c.JobGet(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		return job.State == want
	})
	return job
}

func TestCompleteTx(t *testing.T) {
	db := postgres(t)
	c := startPgx(t, db, river.Config{}, func(ctx context.Context, job *river.Job[Mail]) error {
		if err := river.RecordOutput(ctx, "sent"); err != nil {
			return err
		}
		return complete(ctx, db, job, func(tx pgx.Tx) error {
			if job.Attempt == 1 {
				return handlertest.ErrFailed // so all is rolled back
			}
			if err := shoalriver.CompleteTx[*riverpgxv5.Driver](ctx, tx, job); !errors.Is(err, jobs.ErrLeaseLost) {
				t.Errorf("completed twice: %v, want ErrLeaseLost", err)
			}
			return nil
		})
	})
	id := insert(t, c)
	job := await(t, c, id, rivertype.JobStateCompleted)
	if job.Attempt != 2 || string(job.Output()) != `"sent"` {
		t.Errorf("completed in attempt %d with output %s, want attempt 2 and \"sent\"", job.Attempt, job.Output())
	}
	if n := count(t, db, "SELECT count(*) FROM effect"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	if err := shoalriver.CompleteTx[*riverpgxv5.Driver](context.Background(), nil, &river.Job[Mail]{JobRow: job}); err == nil {
		t.Error("no error outside of a worker")
	}
}

// What became of a job while an attempt of it ran makes the attempt fail.
func TestCompleteTxOfAJobThatIsLost(t *testing.T) {
	for name, change := range map[string]string{
		"rescued":                   `UPDATE river_job SET state = 'retryable', scheduled_at = now() + interval '1 hour' WHERE id = $1`,
		"in another attempt":        `UPDATE river_job SET attempt = attempt + 1 WHERE id = $1`,
		"counted back by a snooze":  `UPDATE river_job SET attempted_at = attempted_at + interval '1 second' WHERE id = $1`,
		"completed by another":      `UPDATE river_job SET state = 'completed', finalized_at = now() WHERE id = $1`,
		"cancelled while rescued":   `UPDATE river_job SET state = 'cancelled', finalized_at = now() WHERE id = $1`,
		"deleted, whoever did that": `DELETE FROM river_job WHERE id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			db := postgres(t)
			got := make(chan error, 1)
			c := startPgx(t, db, river.Config{}, func(ctx context.Context, job *river.Job[Mail]) error {
				run(t, db, change, job.ID)
				got <- complete(ctx, db, job, nil)
				return nil
			})
			insert(t, c)
			if err := <-got; !errors.Is(err, jobs.ErrLeaseLost) {
				t.Errorf("got error %v, want ErrLeaseLost", err)
			}
			if n := count(t, db, "SELECT count(*) FROM effect"); n != 0 {
				t.Errorf("%d effects, want 0", n)
			}
		})
	}
}

// oneJob is of a client that takes no second job while it works one.
var oneJob = river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}}

// Two processes have an attempt each of the same job, since River has rescued it. The second
// completes it while the first is about to: one effect is committed.
func TestTwoAttemptsCommitOnce(t *testing.T) {
	db := postgres(t)
	first, second := make(chan error, 1), make(chan error, 1)
	begun, locked, release := make(chan bool), make(chan bool), make(chan bool)
	c := startPgx(t, db, oneJob, func(ctx context.Context, job *river.Job[Mail]) error {
		close(begun)
		<-locked
		err := complete(ctx, db, job, nil) // waits for the other one
		first <- err
		return err
	})
	id := insert(t, c)
	<-begun
	startPgx(t, db, oneJob, func(ctx context.Context, job *river.Job[Mail]) error {
		err := complete(ctx, db, job, func(pgx.Tx) error { close(locked); <-release; return nil })
		second <- err
		return err
	})
	run(t, db, `UPDATE river_job SET state = 'available' WHERE id = $1`, id) // the rescue
	handlertest.WaitFor(t, "the first attempt to wait for the second", func() bool {
		return count(t, db, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	close(release)
	if err := <-second; err != nil {
		t.Errorf("the attempt that has the job: %v", err)
	}
	if err := <-first; !errors.Is(err, jobs.ErrLeaseLost) {
		t.Errorf("the attempt that has lost the job: %v, want ErrLeaseLost", err)
	}
	await(t, c, id, rivertype.JobStateCompleted)
	if n := count(t, db, "SELECT count(*) FROM effect WHERE attempt = 2"); n != 1 {
		t.Errorf("%d effects of the second attempt, want 1", n)
	}
	if n := count(t, db, "SELECT count(*) FROM effect"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// River records the error of the attempt that has lost the job against the one that has it:
// that one is refused too, and a third one has the effect.
func TestALostAttemptDisturbsTheNext(t *testing.T) {
	db := postgres(t)
	begun, second := make(chan bool), make(chan bool)
	errs := make(chan error, 3)
	work := func(ctx context.Context, job *river.Job[Mail]) error {
		switch job.Attempt {
		case 1:
			close(begun)
			<-second
		case 2:
			close(second)
			handlertest.WaitFor(t, "River to record the failure of the first", func() bool {
				return count(t, db, "SELECT count(*) FROM river_job WHERE state <> 'running' OR attempt > 2") > 0
			})
		}
		err := complete(ctx, db, job, nil)
		errs <- err
		return err
	}
	c := startPgx(t, db, oneJob, work)
	id := insert(t, c)
	<-begun
	startPgx(t, db, oneJob, work)
	run(t, db, `UPDATE river_job SET state = 'available' WHERE id = $1`, id) // the rescue
	await(t, c, id, rivertype.JobStateCompleted)
	lost := 0
	for range 3 {
		if err := <-errs; errors.Is(err, jobs.ErrLeaseLost) {
			lost++
		} else if err != nil {
			t.Error(err)
		}
	}
	if lost != 2 {
		t.Errorf("%d attempts were refused, want 2", lost)
	}
	if n := count(t, db, "SELECT count(*) FROM effect"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// River itself rescues a job whose handler ignores the end of its context; the next attempt
// waits until that one has returned.
func TestRescueBesideTheAttempt(t *testing.T) {
	db := postgres(t)
	deaf, rescued := make(chan bool), make(chan bool)
	var running handlertest.Gauge
	cause := make(chan error, 1)
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(4))
	middleware := []rivertype.Middleware{shoalriver.Within(100 * time.Millisecond), shoalriver.Middleware(on(p))}
	cfg := river.Config{Middleware: middleware, JobTimeout: time.Hour, RescueStuckJobsAfter: time.Hour}
	c := startPgx(t, db, cfg, func(ctx context.Context, job *river.Job[Mail]) (err error) {
		running.Visit(func() {
			if job.Attempt == 1 {
				<-ctx.Done()
				cause <- context.Cause(ctx)
				<-deaf
			}
		})
		return nil
	})
	events, stop := c.Subscribe(river.EventKindJobSnoozed)
	defer stop()
	id := insert(t, c)
	if err := <-cause; !errors.Is(err, jobs.ErrLeaseLost) {
		t.Errorf("the context ended with %v, want ErrLeaseLost", err)
	}
	go func() { <-events; close(rescued) }()
	run(t, db, `UPDATE river_job SET state = 'available' WHERE id = $1`, id) // the rescue
	select {
	case <-rescued:
	case <-time.After(handlertest.Patience):
		t.Fatal("the second attempt was not snoozed")
	}
	close(deaf)
	p.Wait()
	run(t, db, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE id = $1`, id) // sooner than in 10 s
	await(t, c, id, rivertype.JobStateCompleted)
	if n := running.Most(); n != 1 {
		t.Errorf("%d attempts at a time, want 1", n)
	}
	if n := running.All(); n != 2 {
		t.Errorf("%d attempts have run, want 2", n)
	}
}
