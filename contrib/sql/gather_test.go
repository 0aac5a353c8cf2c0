package shoalsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

var errOdd = errors.New("odd")

func TestGathererDoesEachOnce(t *testing.T) {
	var running, runs, most atomic.Int64
	var mu sync.Mutex
	seen := make(map[int]int)
	g := &gatherer[int]{size: func(int) int { return 3 }, run: func(all []*asked[int]) {
		if running.Add(1) > 1 {
			t.Error("two runs at once")
		}
		defer running.Add(-1)
		runs.Add(1)
		most.Store(max(most.Load(), int64(len(all))))
		mu.Lock()
		defer mu.Unlock()
		for _, a := range all {
			if seen[a.what]++; a.what%2 == 1 {
				a.err = errOdd
			}
		}
	}}
	var wg sync.WaitGroup
	const n = 5000
	for i := range n {
		wg.Go(func() {
			if err := g.do(context.Background(), i); (i%2 == 1) != (err == errOdd) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i := range n {
		if seen[i] != 1 {
			t.Errorf("%d was done %d times", i, seen[i])
		}
	}
	if most.Load() > mostGathered/3 {
		t.Errorf("%d at once, want up to %d", most.Load(), mostGathered/3)
	}
	t.Logf("%d runs, up to %d at once", runs.Load(), most.Load())
}

func TestGathererGathersWhatComesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan bool)
		var sizes []int
		g := &gatherer[int]{size: func(n int) int { return n }, run: func(all []*asked[int]) {
			sizes = append(sizes, len(all))
			<-gate
		}}
		var wg sync.WaitGroup
		ask := func(ctx context.Context, n int, want error) {
			wg.Go(func() {
				if err := g.do(ctx, n); err != want {
					t.Errorf("%v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(context.Background())
		ask(context.Background(), 1, nil) // runs
		ask(context.Background(), 1, nil)
		ask(ctx, 1, context.Canceled) // ends before its turn: it is not done
		ask(context.Background(), 1, nil)
		ask(context.Background(), 1000, nil) // alone
		ask(context.Background(), 1, nil)
		cancel()
		synctest.Wait()
		close(gate)
		wg.Wait()
		synctest.Wait()
		if len(sizes) != 4 || sizes[0] != 1 || sizes[1] != 2 || sizes[2] != 1 || sizes[3] != 1 {
			t.Errorf("%v at once, want 1, 2, 1, 1", sizes)
		}
		// One that runs is left alone when the context ends.
		gate = make(chan bool)
		ctx, cancel = context.WithCancel(context.Background())
		ask(ctx, 1, context.Canceled)
		cancel()
		synctest.Wait()
		wg.Wait()
		close(gate)
		ask(context.Background(), 1, nil)
		wg.Wait()
	})
}

// A busyDB is a SQLite database in which another transaction writes, for ever.
type busyDB struct{ begun int }

func (db *busyDB) Connect(context.Context) (driver.Conn, error) { return busyConn{db}, nil }
func (db *busyDB) Driver() driver.Driver                        { return nil }

type busyConn struct{ *busyDB }

func (c busyConn) Prepare(string) (driver.Stmt, error) { return nil, errOdd }
func (c busyConn) Begin() (driver.Tx, error)           { return nil, errOdd }
func (c busyConn) Close() error                        { return nil }

func (c busyConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	c.begun++
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(10 * time.Second): // as SQLiteDSN says
		return nil, errors.New("database is locked (5) (SQLITE_BUSY)")
	}
}

// TestWhatWasBusyIsNotDoneAlone: it would hold up all who write, as long again.
func TestWhatWasBusyIsNotDoneAlone(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, q *Queue) error{
		"Enqueue": func(ctx context.Context, q *Queue) error { return q.Enqueue(ctx, jobs.Message{}) },
		"Ack":     func(ctx context.Context, q *Queue) error { return (&delivery{q: q}).Ack(ctx) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy := new(busyDB)
				db := sql.OpenDB(busy)
				defer db.Close()
				q := &Queue{name: "q", db: db, d: SQLite, sql: statementsOf(SQLite), turn: newTurn()}
				q.puts = gatherer[[]row]{size: sizeOf, run: q.putAll}
				q.acks = gatherer[*delivery]{size: func(*delivery) int { return 1 }, run: q.ackAll}
				if err := call(t.Context(), q); err == nil || busy.begun != 1 {
					t.Errorf("%v, after %d transactions", err, busy.begun)
				}
			})
		})
	}
}

// TestWritersWaitForAnotherProgramTogether: each of them alone would wait for it anew, one after the
// other.
func TestWritersWaitForAnotherProgramTogether(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, q *Queue) error{
		"Enqueue": func(ctx context.Context, q *Queue) error { return q.Enqueue(ctx, jobs.Message{ID: "own"}) },
		"Nak":     func(ctx context.Context, q *Queue) error { return (&delivery{q: q}).Nak(ctx, 0) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				busy := new(busyDB)
				db := sql.OpenDB(busy)
				defer db.Close()
				q := &Queue{name: "q", db: db, d: SQLite, sql: statementsOf(SQLite), turn: newTurn()}
				var all sync.WaitGroup
				fail := func() {
					began := time.Now()
					err := call(t.Context(), q)
					if took := time.Since(began); err == nil || took < 10*time.Second || took > 20*time.Second {
						t.Errorf("%v, after %v", err, took)
					}
				}
				for range 4 {
					all.Go(fail)
				}
				time.Sleep(5 * time.Second)
				for range 4 { // they wait for another 10 s, as the other program may be done then
					all.Go(fail)
				}
				all.Wait()
				if busy.begun != 2 {
					t.Errorf("%d transactions, want 2", busy.begun)
				}
			})
		})
	}
}

// TestAWriterThatFailsIsNotAnotherProgram: those behind it write, however long it took.
func TestAWriterThatFailsIsNotAnotherProgram(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context) error{
		"canceled": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"panics":   func(ctx context.Context) error { <-ctx.Done(); panic("so") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &Queue{d: SQLite, turn: newTurn()}
				ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
				defer cancel()
				go func() {
					defer func() { recover() }()
					q.write(ctx, func() error { return end(ctx) })
				}()
				synctest.Wait()
				wrote := false
				if err := q.write(t.Context(), func() error { wrote = true; return nil }); err != nil || !wrote {
					t.Errorf("the writer behind it: %v", err)
				}
			})
		})
	}
}

// TestAWriterTriesAgainAfterALongWait: the other program may have begun only now.
func TestAWriterTriesAgainAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{d: SQLite, turn: newTurn()}
		go q.write(t.Context(), func() error { time.Sleep(12 * time.Second); return nil })
		synctest.Wait()
		calls := 0
		err := q.write(t.Context(), func() error {
			if calls++; calls == 1 {
				return errors.New("database is locked (5) (SQLITE_BUSY)")
			}
			return nil
		})
		if err != nil || calls != 2 {
			t.Errorf("%v, after %d calls", err, calls)
		}
	})
}

// TestWritersOfAProcessAreNotBusy: they wait for each other for as long as it takes.
func TestWritersOfAProcessAreNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{d: SQLite, turn: newTurn()}
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				err := q.write(t.Context(), func() error {
					time.Sleep(12 * time.Second)
					if i%2 == 0 {
						return errOdd
					}
					return nil
				})
				if i%2 == 0 && err != errOdd || i%2 > 0 && err != nil {
					t.Errorf("writer %d: %v", i, err)
				}
			})
		}
		all.Wait()
	})
}
