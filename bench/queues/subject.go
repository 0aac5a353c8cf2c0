package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of Postgres
	"github.com/nats-io/nats.go"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	_ "modernc.org/sqlite" // the driver of SQLite

	"github.com/shoal-go/shoal"
	shoalnats "github.com/shoal-go/shoal/contrib/nats"
	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	shoalpgx "github.com/shoal-go/shoal/contrib/sql/pgx"
	"github.com/shoal-go/shoal/jobs"
)

// A subject is a queue with the processes that work it off.
type subject struct {
	name   string
	engine string
	note   string // how durable a job is when it was confirmed
	open   func(ctx context.Context, place string) (queue, error)
}

// errAgain is what a handler returns so that the job runs again after again.
var errAgain = errors.New("again")

const (
	again = 2 * time.Second
	lease = 5 * time.Second // where a subject lets one choose
)

// A queue is an open queue.
type queue interface {
	put(ctx context.Context, id int) error
	// work runs h for jobs, up to workers at once, until ctx ends.
	work(ctx context.Context, workers int, h func(ctx context.Context, id int) error) error
	close() error
}

var subjects = []subject{
	{"shoal, NATS", "nats-always", "each job synced", openNATS},
	{"shoal, NATS, unsynced", "nats", "synced every 2 minutes", openNATS},
	{"shoal, Postgres", "postgres", "each commit synced", func(ctx context.Context, dsn string) (queue, error) {
		return openSQL(ctx, "pgx", dsn, shoalsql.Postgres)
	}},
	{"shoal, SQLite", "folder", "each commit synced", func(ctx context.Context, file string) (queue, error) {
		return openSQL(ctx, "sqlite", shoalsql.SQLiteDSN(file), shoalsql.SQLite)
	}},
	{"River, Postgres", "postgres", "each commit synced", openRiver},
	{"asynq, Redis", "redis-always", "each write synced", openAsynq},
	{"asynq, Redis, unsynced", "redis-everysec", "synced every second", openAsynq},
}

// ----- shoal -----

type shoalQueue struct {
	source jobs.Source
	sink   jobs.Sink
	ends   []func() error
}

func openNATS(ctx context.Context, url string) (queue, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
	if err != nil {
		return nil, err
	}
	n, err := shoalnats.Open(ctx, nc, "bench", shoalnats.WithLease(lease))
	return &shoalQueue{source: n, sink: n, ends: []func() error{func() error { nc.Close(); return nil }}}, err
}

func openSQL(ctx context.Context, driver, dsn string, d shoalsql.Dialect) (queue, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	opts := []shoalsql.Option{shoalsql.WithLease(lease)}
	if d == shoalsql.Postgres {
		listener, err := shoalpgx.Listener(dsn)
		if err != nil {
			return nil, err
		}
		opts = append(opts, shoalsql.WithListener(listener))
	}
	n, err := shoalsql.Open(ctx, db, d, "bench", opts...)
	return &shoalQueue{source: n, sink: n, ends: []func() error{db.Close}}, err
}

func (q *shoalQueue) put(ctx context.Context, id int) error {
	return q.sink.Enqueue(ctx, jobs.Message{Data: strconv.AppendInt(nil, int64(id), 10)})
}

func (q *shoalQueue) work(ctx context.Context, workers int, h func(context.Context, int) error) error {
	p, err := shoal.New(shoal.WithMaxWorkers(workers))
	if err != nil {
		return err
	}
	defer p.Close()
	return jobs.Serve(ctx, p, q.source, func(ctx context.Context, j *jobs.Job) error {
		id, err := strconv.Atoi(string(j.Data))
		if err != nil {
			return jobs.Poison(err)
		}
		if err = h(ctx, id); errors.Is(err, errAgain) {
			return jobs.Retry(again)
		}
		return err
	}, jobs.WithLogger(quiet))
}

func (q *shoalQueue) close() (err error) {
	for i := len(q.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, q.ends[i]())
	}
	return err
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// ----- River -----

type jobArgs struct {
	ID int `json:"id"`
}

func (jobArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[jobArgs]
	h func(context.Context, int) error
}

func (w *riverWorker) Work(ctx context.Context, j *river.Job[jobArgs]) error {
	return w.h(ctx, j.Args.ID)
}

// NextRetry implements river.Worker.
func (*riverWorker) NextRetry(*river.Job[jobArgs]) time.Time { return time.Now().Add(again) }

type riverQueue struct {
	db     *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

func openRiver(ctx context.Context, dsn string) (queue, error) {
	db, err := pgxpool.New(ctx, dsn+" pool_max_conns=16")
	if err != nil {
		return nil, err
	}
	m, err := rivermigrate.New(riverpgxv5.New(db), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	c, err := river.NewClient(riverpgxv5.New(db), &river.Config{Logger: quiet})
	return &riverQueue{db: db, client: c}, err
}

func (q *riverQueue) put(ctx context.Context, id int) error {
	_, err := q.client.Insert(ctx, jobArgs{id}, nil)
	return err
}

func (q *riverQueue) work(ctx context.Context, workers int, h func(context.Context, int) error) error {
	all := river.NewWorkers()
	river.AddWorker(all, &riverWorker{h: h})
	c, err := river.NewClient(riverpgxv5.New(q.db), &river.Config{
		Logger: quiet, Workers: all,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		// With the default of 100 ms so many workers can do ten times their number a second.
		FetchCooldown:        time.Millisecond,
		JobTimeout:           lease - time.Second,
		RescueStuckJobsAfter: lease,
		ErrorHandler:         riverErrors{},
	})
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	<-c.Stopped()
	return nil
}

func (q *riverQueue) close() error { q.db.Close(); return nil }

type riverErrors struct{}

func (riverErrors) HandleError(context.Context, *rivertype.JobRow, error) *river.ErrorHandlerResult {
	return nil
}
func (riverErrors) HandlePanic(context.Context, *rivertype.JobRow, any, string) *river.ErrorHandlerResult {
	return nil
}

// ----- asynq -----

type asynqQueue struct {
	place  asynq.RedisClientOpt
	client *asynq.Client
}

func openAsynq(_ context.Context, socket string) (queue, error) {
	place := asynq.RedisClientOpt{Network: "unix", Addr: socket, PoolSize: 64}
	return &asynqQueue{place: place, client: asynq.NewClient(place)}, nil
}

func (q *asynqQueue) put(ctx context.Context, id int) error {
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask("bench", strconv.AppendInt(nil, int64(id), 10)))
	return err
}

func (q *asynqQueue) work(ctx context.Context, workers int, h func(context.Context, int) error) error {
	s := asynq.NewServer(q.place, asynq.Config{
		Concurrency: workers, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return again },
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc("bench", func(ctx context.Context, t *asynq.Task) error {
		id, err := strconv.Atoi(string(t.Payload()))
		if err != nil {
			return err
		}
		return h(ctx, id)
	})
	if err := s.Start(mux); err != nil {
		return err
	}
	<-ctx.Done()
	s.Shutdown()
	return nil
}

func (q *asynqQueue) close() error { return q.client.Close() }
