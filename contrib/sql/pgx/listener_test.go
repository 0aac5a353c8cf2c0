package shoalpgx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"github.com/shoal-go/shoal"
	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	shoalpgx "github.com/shoal-go/shoal/contrib/sql/pgx"
	"github.com/shoal-go/shoal/internal/postgres/pgtest"
	"github.com/shoal-go/shoal/jobs"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// need is how to connect to Postgres.
func need(t *testing.T) (dsn string) {
	t.Helper()
	c, err := pgtest.Shared()
	pgtest.Need(t, err)
	return c.DSN("postgres", "postgres")
}

// A job that another process enqueues starts within milliseconds, and not when the poll of
// half a second is over.
func ExampleListener() {
	dsn := databaseURL() // of Postgres, as in "postgres://localhost/bank"
	if dsn == "" {
		fmt.Println("hello") // there is no Postgres to try it with
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	open := func(opts ...shoalsql.Option) *shoalsql.Queue {
		db, err := sql.Open("pgx", dsn)
		if err != nil {
			panic(err)
		}
		q, err := shoalsql.Open(ctx, db, shoalsql.Postgres, "mails", opts...)
		if err != nil {
			panic(err)
		}
		return q
	}
	listener, err := shoalpgx.Listener(dsn)
	if err != nil {
		panic(err)
	}
	q := open(shoalsql.WithListener(listener))
	go func() { // this would be another process
		if err := open().Enqueue(ctx, jobs.Message{Data: []byte("hello")}); err != nil {
			panic(err)
		}
	}()
	pool := shoal.Must(shoal.New())
	defer pool.Close()
	err = jobs.Serve(ctx, pool, q, func(ctx context.Context, j *jobs.Job) error {
		defer cancel() // the example has one job
		fmt.Println(string(j.Data))
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output: hello
}

// databaseURL is how to connect to Postgres, or "".
func databaseURL() string {
	c, err := pgtest.Shared()
	if err != nil {
		return ""
	}
	return c.DSN("postgres", "postgres")
}

// TestAListenerIsNotified of what is said on its channel, whatever its name, and ends with its
// context.
func TestAListenerIsNotified(t *testing.T) {
	dsn := need(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	say, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer say.Close(ctx)
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for name, listener := range map[string]shoalsql.Listener{
		`shoal_a "Name"; with ä`: second(t)(shoalpgx.Listener(dsn)),
		"shoal_mails":            shoalpgx.ListenerOf(c),
	} {
		notified, ended := make(chan struct{}, 8), make(chan error, 1)
		own, stop := context.WithCancel(ctx)
		go func() { ended <- listener(own, name, func() { notified <- struct{}{} }) }()
		wait := func() {
			t.Helper()
			select {
			case <-notified:
			case err := <-ended:
				t.Fatal(err)
			}
		}
		wait() // when it listens
		for _, channel := range []string{"shoal_another", name} {
			if _, err := say.Exec(ctx, "SELECT pg_notify($1, '')", channel); err != nil {
				t.Fatal(err)
			}
		}
		wait()
		stop()
		if err := <-ended; err == nil || len(notified) > 0 {
			t.Errorf("%v; notified %d times more", err, len(notified))
		}
		// Nothing is left of it.
		for n := 1; n > 0; time.Sleep(10 * time.Millisecond) {
			err := say.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'").Scan(&n)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func second(t *testing.T) func(shoalsql.Listener, error) shoalsql.Listener {
	return func(l shoalsql.Listener, err error) shoalsql.Listener {
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// TestAListenerSaysWhyItEnds: a Queue calls it again later.
func TestAListenerSaysWhyItEnds(t *testing.T) {
	if _, err := shoalpgx.Listener("postgres://localhost:port/"); err == nil || !strings.HasPrefix(err.Error(), "shoalpgx: ") {
		t.Errorf("a string that is none: %v", err)
	}
	dsn := need(t)
	nothing := func() { t.Error("notified") }
	away := second(t)(shoalpgx.Listener("host=" + t.TempDir()))
	if err := away(t.Context(), "c", nothing); err == nil {
		t.Error("no error where there is no server")
	}
	listening := make(chan struct{}, 1)
	ended := make(chan error, 1)
	listener := second(t)(shoalpgx.Listener(dsn + " application_name=to-end"))
	go func() { ended <- listener(t.Context(), "c", func() { listening <- struct{}{} }) }()
	<-listening
	say, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer say.Close(t.Context())
	if _, err := say.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'to-end'"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("no error when the connection is lost")
	}
}

// TestAListenerOfNoConfiguration is refused where it is given to a Queue.
func TestAListenerOfNoConfiguration(t *testing.T) {
	db, err := sql.Open("pgx", "") // which does not connect
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, c := range map[string]*pgx.ConnConfig{"nil": nil, "a literal": {}} {
		_, err := shoalsql.Open(t.Context(), db, shoalsql.Postgres, "q", shoalsql.WithListener(shoalpgx.ListenerOf(c)))
		if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), "WithListener(nil)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
