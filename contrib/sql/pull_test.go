package shoalsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// A slowDB is a database that brings up to so many jobs in time.
type slowDB struct {
	most  int64
	takes time.Duration // for each answer
	asked []int64
}

func (db *slowDB) Connect(context.Context) (driver.Conn, error) { return slowConn{db}, nil }
func (db *slowDB) Driver() driver.Driver                        { return nil }

type slowConn struct{ *slowDB }

func (c slowConn) Prepare(string) (driver.Stmt, error) { return nil, errOdd }
func (c slowConn) Begin() (driver.Tx, error)           { return nil, errOdd }
func (c slowConn) Close() error                        { return nil }

func (c slowConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	n, ok := args[1].Value.(int64)
	if !ok {
		return nil, fmt.Errorf("%w: %s", errOdd, query)
	}
	c.asked = append(c.asked, n)
	if n > c.most {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(c.takes)
	return &slowRows{left: n}, nil
}

type slowRows struct{ left int64 }

func (r *slowRows) Columns() []string { return strings.Fields("seq id data header attempt") }
func (r *slowRows) Close() error      { return nil }

func (r *slowRows) Next(dest []driver.Value) error {
	if r.left == 0 {
		return io.EOF
	}
	dest[0], dest[1], dest[2], dest[3], dest[4] = r.left, "id", []byte{}, nil, int64(1)
	r.left--
	return nil
}

// TestPullAsksForFewerWhereTheyAreLate: else it would ask for the same again, for ever.
func TestPullAsksForFewerWhereTheyAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowDB{most: 3}
		db := sql.OpenDB(slow)
		defer db.Close()
		q := &Queue{config: config{lease: time.Minute, poll: time.Second}, name: "q", db: db, d: Postgres,
			sql: statementsOf(Postgres), changed: make(chan struct{}), swept: time.Now(), most: mostPull}
		pull := func(n, want int) {
			t.Helper()
			ds, err := q.Pull(t.Context(), n)
			if len(ds) != want || (want == 0) != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Pull(%d): %d jobs, %v; want %d", n, len(ds), err, want)
			}
		}
		pull(16, 0)
		pull(16, 0)
		pull(16, 0)
		pull(16, 2)
		pull(1, 1)
		pull(16, 0)
		slow.most = 100
		for _, want := range []int{2, 4, 8, 16, 16} {
			pull(16, want)
		}
		if want := "[16 8 4 2 1 4 2 4 8 16 16]"; fmt.Sprint(slow.asked) != want {
			t.Errorf("asked for %v, want %s", slow.asked, want)
		}
	})
}

// TestADeliveryKnowsWhenItWasLeased: its lease begins before the answer of the database comes.
func TestADeliveryKnowsWhenItWasLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := sql.OpenDB(&slowDB{most: 3, takes: 5 * time.Second})
		defer db.Close()
		q := &Queue{config: config{lease: time.Minute, poll: time.Second}, name: "q", db: db, d: Postgres,
			sql: statementsOf(Postgres), changed: make(chan struct{}), swept: time.Now(), most: mostPull}
		asked := time.Now()
		ds, err := q.Pull(t.Context(), 3)
		if err != nil || len(ds) != 3 || time.Since(asked) != 5*time.Second {
			t.Fatalf("%d jobs, %v, after %v", len(ds), err, time.Since(asked))
		}
		for _, d := range ds {
			if at := d.(interface{ Leased() time.Time }).Leased(); !at.Equal(asked) {
				t.Errorf("leased %v after it was asked for", at.Sub(asked))
			}
		}
	})
}

// A deafDB is a database without jobs. It does not answer the second look, nor the one who watches it,
// until goOn is closed, whatever ends.
type deafDB struct {
	looks atomic.Int64
	goOn  chan struct{}
}

func (db *deafDB) Connect(context.Context) (driver.Conn, error) { return deafConn{db}, nil }
func (db *deafDB) Driver() driver.Driver                        { return nil }

type deafConn struct{ *deafDB }

func (c deafConn) Prepare(string) (driver.Stmt, error) { <-c.goOn; return nil, errOdd }
func (c deafConn) Begin() (driver.Tx, error)           { return nil, errOdd }
func (c deafConn) Close() error                        { return nil }

func (c deafConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	if c.looks.Add(1) > 1 {
		<-c.goOn
	}
	return &noNext{}, nil
}

// A noNext says that there is no job.
type noNext struct{ said bool }

func (r *noNext) Columns() []string { return []string{"next"} }
func (r *noNext) Close() error      { return nil }

func (r *noNext) Next(dest []driver.Value) error {
	if r.said {
		return io.EOF
	}
	r.said, dest[0] = true, nil
	return nil
}

// TestServeHasPatienceWithAPull: a Pull that waits for the database, and then for the one who watches
// it, returns before Serve says that it heeds nothing.
func TestServeHasPatienceWithAPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := &deafDB{goOn: make(chan struct{})}
		db := sql.OpenDB(deaf)
		defer db.Close()
		q := &Queue{config: config{lease: time.Minute, poll: 100 * time.Millisecond, remember: time.Hour}, name: "q", db: db, d: SQLite,
			sql: statementsOf(SQLite), changed: make(chan struct{}), heard: make(chan struct{}), swept: time.Now(), most: mostPull}
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
		defer p.Close()
		var log strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = jobs.Serve(ctx, p, q, func(context.Context, *jobs.Job) error { return nil },
			jobs.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))))
		close(deaf.goOn)
		synctest.Wait()
		if n := deaf.looks.Load(); n != 2 {
			t.Errorf("%d looks, want 2", n)
		}
		if log.Len() > 0 {
			t.Errorf("Serve has logged %s", &log)
		}
	})
}
