package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	shoalpgx "github.com/shoal-go/shoal/contrib/sql/pgx"
	"github.com/shoal-go/shoal/jobs"
)

// listener returns a Listener of Postgres.
func listener(t testing.TB, p place) shoalsql.Listener {
	l, err := shoalpgx.Listener(p.dsn("postgres"))
	must(t, err)
	return l
}

// listening are the options of a queue that sees at once what others do.
func listening(t testing.TB, p place) []shoalsql.Option {
	o := []shoalsql.Option{shoalsql.WithPoll(time.Hour)}
	if p.d == shoalsql.Postgres {
		o = append(o, shoalsql.WithListener(listener(t, p)))
	}
	return o
}

// TestWhatOthersDoIsSeenAtOnce: the poll is an hour away.
func TestWhatOthersDoIsSeenAtOnce(t *testing.T) {
	for _, name := range []string{"q", strings.Repeat("long", 25)} {
		t.Run(fmt.Sprint(len(name)), func(t *testing.T) {
			each(t, func(t *testing.T, p place) {
				ctx := context.Background()
				q := open(t, p.open(t), p.d, name, listening(t, p)...)
				db := p.open(t)
				other := open(t, db, p.d, name, shoalsql.WithPoll(time.Hour))
				for what, do := range map[string]func(){
					"Enqueue": func() { must(t, other.Enqueue(ctx, jobs.Message{})) },
					"EnqueueTx": func() {
						tx, err := db.BeginTx(ctx, nil)
						must(t, err)
						must(t, other.EnqueueTx(ctx, tx, jobs.Message{}))
						must(t, tx.Commit())
						other.Wake()
					},
					"Nak": func() {
						must(t, other.Enqueue(ctx, jobs.Message{ID: "back", Delay: 50 * time.Millisecond}))
						must(t, pull(t, q, 1)[0].Nak(ctx, time.Hour)) // so that only other has it
						run(t, db, map[shoalsql.Dialect]string{
							shoalsql.Postgres: `UPDATE shoal_jobs SET ready = now()`, shoalsql.SQLite: `UPDATE shoal_jobs SET ready = 0`,
						}[p.d])
						must(t, pull(t, other, 1)[0].Nak(ctx, 0))
					},
					"RetryDead": func() {
						must(t, other.Enqueue(ctx, jobs.Message{ID: "dead"}))
						must(t, pull(t, q, 1)[0].Term(ctx, "bad"))
						n, err := other.RetryDead(ctx, jobs.DeadFilter{})
						if err != nil || n != 1 {
							t.Errorf("RetryDead: %d, %v", n, err)
						}
					},
				} {
					got := make(chan []jobs.Delivery, 1)
					if what == "Enqueue" || what == "EnqueueTx" { // with a Pull that waits already
						go func() { got <- pull(t, q, 1) }()
						time.Sleep(50 * time.Millisecond)
						do()
					} else {
						do()
						got <- pull(t, q, 1)
					}
					must(t, (<-got)[0].Ack(ctx))
				}
			})
		})
	}
}

// TestAListenerThatFailsIsCalledAgain: and what was enqueued meanwhile is seen then.
func TestAListenerThatFailsIsCalledAgain(t *testing.T) {
	p := postgres(t)
	var calls atomic.Int64
	failed := make(chan struct{})
	listen := listener(t, p)
	q := open(t, p.open(t), p.d, "q", shoalsql.WithPoll(time.Hour), shoalsql.WithListener(
		func(ctx context.Context, channel string, notify func()) error {
			if calls.Add(1) == 1 {
				close(failed)
				return errors.New("the connection is lost")
			}
			return listen(ctx, channel, notify)
		}))
	got := make(chan []jobs.Delivery, 1)
	go func() { got <- pull(t, q, 1) }()
	<-failed
	time.Sleep(50 * time.Millisecond) // the Pull waits
	must(t, open(t, p.open(t), p.d, "q").Enqueue(context.Background(), jobs.Message{}))
	must(t, (<-got)[0].Ack(context.Background()))
	if calls.Load() != 2 {
		t.Errorf("%d calls", calls.Load())
	}
}

// TestAFewConnectionsAreEnough: nothing watches a SQLite database whose handle may have so few,
// and the poll finds what there is.
func TestAFewConnectionsAreEnough(t *testing.T) {
	p := sqlite(t)
	for n := 1; n < 6; n++ {
		db := p.open(t)
		db.SetMaxOpenConns(n)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(50*time.Millisecond))
		got := make(chan []jobs.Delivery, 1)
		go func() { got <- pull(t, q, 1) }()
		time.Sleep(100 * time.Millisecond)
		must(t, q.Enqueue(context.Background(), jobs.Message{}))
		must(t, (<-got)[0].Ack(context.Background()))
		if n < 4 && db.Stats().InUse > 0 {
			t.Errorf("of %d connections %d are in use", n, db.Stats().InUse)
		}
	}
}

// TestPullsThatWaitWatchOnce: many queues of a database handle need one connection for that,
// and give it back.
func TestPullsThatWaitWatchOnce(t *testing.T) {
	p := sqlite(t)
	db := p.open(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	const pulls = 8
	for i := range pulls {
		q := open(t, db, p.d, fmt.Sprint("q", i), shoalsql.WithPoll(time.Hour))
		go func() {
			_, _ = q.Pull(ctx, 1)
			done <- struct{}{}
		}()
	}
	inUse := func(want int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			have := db.Stats().InUse
			switch {
			case have == want:
				return
			case time.Now().After(end):
				t.Fatalf("%d connections are in use, want %d", have, want)
			}
		}
	}
	time.Sleep(100 * time.Millisecond)
	inUse(1)
	cancel()
	for range pulls {
		<-done
	}
	inUse(0)
}

// TestNothingIsOpenAfterClose: who closes the database after the last Pull has the whole of it in
// its file.
func TestNothingIsOpenAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	for i := range 20 {
		db, err := sql.Open("sqlite", shoalsql.SQLiteDSN(path))
		must(t, err)
		q := open(t, db, shoalsql.SQLite, "q")
		must(t, q.Enqueue(context.Background(), jobs.Message{Delay: time.Hour}))
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
		_, err = q.Pull(ctx, 1)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		must(t, db.Close())
		if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("after %d ms: the log is still there: %v", i, err)
		}
	}
}

// TestFlush: what a process has enqueued that ends at once is seen at once.
func TestFlush(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		q := open(t, p.open(t), p.d, "q", listening(t, p)...)
		for range 5 {
			got := make(chan []jobs.Delivery, 1)
			go func() { got <- pull(t, q, 1) }()
			time.Sleep(50 * time.Millisecond) // the Pull waits
			db := p.open(t)
			other := open(t, db, p.d, "q")
			must(t, other.Enqueue(ctx, jobs.Message{}))
			must(t, other.Flush(ctx))
			must(t, db.Close())
			select {
			case d := <-got:
				must(t, d[0].Ack(ctx))
			case <-ctx.Done():
				t.Fatal("the job is not seen")
			}
		}
	})
}

// TestFlushEndsWithItsContext: while no connection is free to tell others.
func TestFlushEndsWithItsContext(t *testing.T) {
	p := postgres(t)
	ctx := limit(t, 30*time.Second)
	db := p.open(t)
	q := open(t, db, p.d, "q")
	must(t, q.Flush(ctx)) // there is nothing to tell
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	must(t, err)
	q.Wake()
	once, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := q.Flush(once); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("have %v, want that its time is over", err)
	}
	must(t, conn.Close())
	must(t, q.Flush(ctx))
}
