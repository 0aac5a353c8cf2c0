package sqltest

import (
	"context"
	"database/sql"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/shoal-go/shoal"
	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	"github.com/shoal-go/shoal/jobs"
)

var closers []func()

func TestMain(m *testing.M) {
	if path := os.Getenv("SHOAL_ENQUEUE_UNTIL_KILLED"); path != "" {
		enqueueUntilKilled(path)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // they wait, most of the time
		panic(err)
	}
	code := m.Run()
	for _, f := range closers {
		f()
	}
	os.Exit(code)
}

// A place is an empty database.
type place struct {
	d    shoalsql.Dialect
	dsn  func(role string) string   // of Postgres
	open func(t testing.TB) *sql.DB // a handle of its own
}

func connect(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	if driver != "sqlite" {
		db.SetMaxOpenConns(20) // so that tests side by side do not take all that the server has
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func sqlite(t testing.TB) place {
	path := filepath.Join(t.TempDir(), "queue ä?#%.db")
	return place{d: shoalsql.SQLite, open: func(t testing.TB) *sql.DB {
		return connect(t, "sqlite", shoalsql.SQLiteDSN(path))
	}}
}

// each runs the test with a database of each kind.
func each(t *testing.T, f func(t *testing.T, p place)) {
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); f(t, sqlite(t)) })
	t.Run("Postgres", func(t *testing.T) { t.Parallel(); f(t, postgres(t)) })
}

func open(t testing.TB, db *sql.DB, d shoalsql.Dialect, name string, opts ...shoalsql.Option) *shoalsql.Queue {
	t.Helper()
	q, err := shoalsql.Open(context.Background(), db, d, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, db *sql.DB, s string, args ...any) {
	t.Helper()
	_, err := db.Exec(s, args...)
	must(t, err)
}

// count is the number that a query returns.
func count(t testing.TB, db *sql.DB, s string) (n int) {
	t.Helper()
	must(t, db.QueryRow(s).Scan(&n))
	return n
}

func limit(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func pull(t testing.TB, q *shoalsql.Queue, n int) []jobs.Delivery {
	t.Helper()
	ds, err := q.Pull(limit(t, 20*time.Second), n)
	must(t, err)
	return ds
}

// none demands that nothing can be leased.
func none(t testing.TB, q *shoalsql.Queue) {
	t.Helper()
	if ds, _ := q.Pull(limit(t, 100*time.Millisecond), 10); len(ds) > 0 {
		t.Fatalf("job %q is leased, and should not be", ds[0].ID())
	}
}

// serve has a machine serve the queue until stop is called, or the test ends.
func serve(t testing.TB, q jobs.Source, h jobs.Handler, opts ...jobs.Option) (p *shoal.Pool, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	p = shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer p.Close()
		if err := jobs.Serve(ctx, p, q, h, opts...); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return p, stop
}
