package sqltest

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
)

// suiteLease is for a suite whose every answer waits for the disk. For that reason too the
// suites are not run at the same time.
const suiteLease = 6 * time.Second

func TestSQLitePassesTheSuite(t *testing.T) {
	suite(t, func(t testing.TB) place { return sqlite(t) })
}

func TestPostgresPassesTheSuite(t *testing.T) {
	p := postgres(t)
	suite(t, func(testing.TB) place { return p })
}

func suite(t *testing.T, at func(t testing.TB) place) {
	var n atomic.Int64
	jobstest.Run(t, func(t *testing.T) jobstest.Subject {
		p := at(t)
		name := fmt.Sprint("q", n.Add(1))
		q := open(t, p.open(t), p.d, name, shoalsql.WithLease(suiteLease))
		return jobstest.Subject{
			Sink: q,
			Consumer: func(t testing.TB) jobs.Source {
				return open(t, p.open(t), p.d, name, shoalsql.WithLease(suiteLease), shoalsql.WithExisting())
			},
			Dead: func(t testing.TB) []jobs.DeadLetter {
				all, err := q.DeadLetters(context.Background(), jobs.DeadFilter{})
				if err != nil {
					t.Error(err)
				}
				return all
			},
		}
	})
}

// TestAckTxMakesEffectsExactlyOnce: leases are lost at random, handlers fail before and
// after, and each job has its effect once.
func TestAckTxMakesEffectsExactlyOnce(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		const n, machines = 150, 3
		ctx := limit(t, 90*time.Second)
		db := p.open(t)
		run(t, db, `CREATE TABLE effects (job text NOT NULL, attempt integer NOT NULL)`)
		q := open(t, db, p.d, "money", shoalsql.WithLease(2*time.Second), shoalsql.WithPoll(20*time.Millisecond))
		ms := make([]jobs.Message, n)
		for i := range ms {
			ms[i].ID = fmt.Sprint("job ", i)
		}
		must(t, q.Enqueue(ctx, ms...))
		var lost, failed, committed atomic.Int64
		var stops []func()
		for range machines {
			mdb := p.open(t)
			q := open(t, mdb, p.d, "money", shoalsql.WithLease(2*time.Second), shoalsql.WithPoll(20*time.Millisecond))
			_, stop := serve(t, q, func(_ context.Context, j *jobs.Job) error {
				k := committed.Load() + failed.Load() + lost.Load()
				time.Sleep(time.Duration(k%7) * time.Millisecond)
				tx, err := mdb.BeginTx(ctx, nil) // of a context that does not end with the lease
				if err != nil {
					return err
				}
				defer tx.Rollback()
				first := k%2 == 0
				if first {
					err = q.AckTx(ctx, tx, j)
				}
				if _, e := tx.ExecContext(ctx, `INSERT INTO effects (job, attempt) VALUES ($1, $2)`, j.ID, j.Attempt); e != nil {
					return errors.Join(err, e)
				}
				if !first {
					err = q.AckTx(ctx, tx, j)
				}
				switch {
				case errors.Is(err, jobs.ErrLeaseLost):
					lost.Add(1)
					return err
				case err != nil:
					return err
				case k%5 == 4:
					failed.Add(1)
					return errors.New("rolled back")
				}
				if err := tx.Commit(); err != nil {
					return err
				}
				if committed.Add(1)%5 == 0 {
					return errors.New("failed after the commit")
				}
				return nil
			}, jobs.WithBackoff(func(int) time.Duration { return 0 }), jobs.WithMaxAttempts(0), jobs.WithLogger(slog.New(slog.DiscardHandler)))
			stops = append(stops, stop)
		}
		for ctx.Err() == nil && count(t, db, `SELECT count(*) FROM shoal_jobs`) > 0 {
			// As if those who have the leases were too slow.
			end := `UPDATE shoal_jobs SET ready = clock_timestamp() WHERE leased AND seq % 3 = $1`
			if p.d == shoalsql.SQLite {
				end = `UPDATE shoal_jobs SET ready = 0 WHERE leased AND seq % 3 = $1`
			}
			run(t, db, end, time.Now().UnixMilli()%3)
			time.Sleep(5 * time.Millisecond)
		}
		for _, stop := range stops {
			stop()
		}
		once := count(t, db, `SELECT count(*) FROM (SELECT job FROM effects GROUP BY job HAVING count(*) = 1) x`)
		all := count(t, db, `SELECT count(*) FROM effects`)
		left := count(t, db, `SELECT count(*) FROM shoal_jobs`) + count(t, db, `SELECT count(*) FROM shoal_dead`)
		if once != n || all != n || left != 0 || committed.Load() != n {
			t.Errorf("%d jobs: %d with one effect, %d effects, %d left, %d commits", n, once, all, left, committed.Load())
		}
		if lost.Load() == 0 || failed.Load() == 0 {
			t.Errorf("nothing was tried: %d leases lost, %d handlers failed", lost.Load(), failed.Load())
		}
		t.Logf("%d leases lost, %d rolled back", lost.Load(), failed.Load())
	})
}

func TestAckTxOfAnOldAttemptIsRefused(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(10*time.Millisecond))
		must(t, q.Enqueue(context.Background(), jobs.Message{ID: "a"}))
		began, taken := make(chan struct{}), make(chan struct{})
		results := make(chan error, 2) // of attempt 1, then of attempt 2
		first := make(chan struct{})
		ackTx := func(j *jobs.Job) error {
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := q.AckTx(context.Background(), tx, j); err != nil {
				return err
			}
			return tx.Commit()
		}
		serve(t, q, func(_ context.Context, j *jobs.Job) error {
			if j.Attempt == 1 {
				defer close(first)
				close(began)
				<-taken
			} else {
				close(taken)
				<-first
			}
			err := ackTx(j)
			results <- err
			return err
		}, jobs.WithLogger(slog.New(slog.DiscardHandler)))
		<-began
		end := `UPDATE shoal_jobs SET ready = clock_timestamp()`
		if p.d == shoalsql.SQLite {
			end = `UPDATE shoal_jobs SET ready = 0`
		}
		run(t, db, end)
		if err := <-results; !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("AckTx of attempt 1, when attempt 2 has the lease: %v", err)
		}
		if err := <-results; err != nil {
			t.Errorf("AckTx of attempt 2: %v", err)
		}
	})
}

// settled waits until n jobs were leased and none is held, and is what Serve counts then.
func settled(p *shoal.Pool, n uint64) (st []jobs.Stats) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if st = jobs.Of(p); len(st) == 1 && st[0].Leased >= n && st[0].Held == 0 {
			break
		}
	}
	return st
}

// A machine that stands still for a lease loses it, as it must. Then there is nothing to
// see, and it is tried again with a longer one.
func TestAckAfterAckTxIsQuiet(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		for lease := 2 * time.Second; ; lease *= 4 {
			faults := ackAfterAckTx(t, p, lease)
			if faults == "" {
				return
			}
			if lease > 30*time.Second || !strings.Contains(faults, context.DeadlineExceeded.Error()) {
				t.Fatal(faults)
			}
			t.Logf("a lease of %v is too short here: %s", lease, faults)
		}
	})
}

func ackAfterAckTx(t *testing.T, p place, lease time.Duration) (faults string) {
	db := p.open(t)
	q := open(t, db, p.d, fmt.Sprintf("q%v", lease), shoalsql.WithLease(lease), shoalsql.WithRemember(100*time.Millisecond))
	for _, s := range []string{`DROP TABLE IF EXISTS effects`, `DELETE FROM shoal_jobs`, `CREATE TABLE effects (job text)`} {
		run(t, db, s)
	}
	ctx := context.Background()
	must(t, q.Enqueue(ctx, jobs.Message{ID: "commit"}, jobs.Message{ID: "forgotten"}, jobs.Message{ID: "rollback"}, jobs.Message{ID: "none"}))
	var log bytes.Buffer
	var ran, again sync.Map
	all := make(chan string, 100)
	pool, stop := serve(t, q, func(ctx context.Context, j *jobs.Job) error {
		defer func() { all <- j.ID }()
		if _, ok := ran.LoadOrStore(j.ID, true); ok {
			again.Store(j.ID, true)
		}
		if j.ID == "none" {
			return nil
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, `INSERT INTO effects (job) VALUES ($1)`, j.ID); err != nil {
			return err
		}
		if err := q.AckTx(ctx, tx, j); err != nil {
			return err
		}
		if j.ID == "rollback" {
			return nil
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		if j.ID == "forgotten" { // and its lease is extended some times
			time.Sleep(lease * 3 / 4)
			_, err := db.Exec(`DELETE FROM shoal_done`)
			return errors.Join(err, context.Cause(ctx))
		}
		return nil
	}, jobs.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	for range 4 {
		<-all
	}
	st := settled(pool, 4)
	stop()
	if len(st) != 1 || st[0].Acked != 4 || st[0].LeasesLost != 0 || st[0].Retried != 0 || log.Len() > 0 {
		faults = fmt.Sprintf("%+v\n%s\n", st, &log)
	}
	again.Range(func(id, _ any) bool {
		faults += fmt.Sprintf("job %v runs again\n", id)
		return true
	})
	if n := count(t, db, `SELECT count(*) FROM shoal_jobs`); n != 0 {
		faults += fmt.Sprintf("%d jobs are left\n", n)
	}
	if n := count(t, db, `SELECT count(*) FROM effects`); n != 2 {
		faults += fmt.Sprintf("%d effects, want 2\n", n)
	}
	return faults
}

// TestWhatIsEnqueuedTogetherFailsAlone: a message that the database refuses takes none
// with it of those that others enqueue at the same time.
func TestWhatIsEnqueuedTogetherFailsAlone(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q")
		if p.d == shoalsql.Postgres {
			run(t, db, `ALTER TABLE shoal_jobs ADD CHECK (data <> 'bad'::bytea)`)
		} else {
			run(t, db, `CREATE TRIGGER bad BEFORE INSERT ON shoal_jobs WHEN new.data = CAST('bad' AS BLOB) BEGIN SELECT RAISE(ABORT, 'bad'); END`)
		}
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				for range 3 {
					data := []byte("good")
					if i%10 == 0 {
						data = []byte("bad")
					}
					err := q.Enqueue(context.Background(), jobs.Message{Data: data}, jobs.Message{})
					if (err != nil) != (i%10 == 0) {
						t.Errorf("%s: %v", data, err)
					}
				}
			})
		}
		wg.Wait()
		if n := count(t, db, `SELECT count(*) FROM shoal_jobs`); n != 2*3*90 {
			t.Errorf("%d jobs, want %d", n, 2*3*90)
		}
	})
}

// TestWhoWaitsForOthersHoldsUpNobody: a message whose ID another transaction has enqueued
// too, and a job whose row somebody has locked, wait for them alone.
func TestWhoWaitsForOthersHoldsUpNobody(t *testing.T) {
	p := postgres(t)
	db := p.open(t)
	q := open(t, db, p.d, "q", shoalsql.WithLease(time.Minute))
	ctx := limit(t, 20*time.Second)
	for i := range 20 {
		must(t, q.Enqueue(ctx, jobs.Message{ID: fmt.Sprint(i)}))
	}
	leased := pull(t, q, 20)
	tx, err := db.BeginTx(context.Background(), nil)
	must(t, err)
	defer tx.Rollback()
	must(t, q.EnqueueTx(ctx, tx, jobs.Message{ID: "x"}))
	if _, err := tx.Exec(`SELECT 1 FROM shoal_jobs WHERE id = '7' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 2) // of those who have to wait
	go func() { held <- q.Enqueue(context.Background(), jobs.Message{ID: "x"}) }()
	for _, d := range leased {
		if d.ID() == "7" {
			go func() { held <- d.Ack(context.Background()) }()
		}
	}
	waiting := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for count(t, db, waiting) < 2 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	must(t, ctx.Err())
	var wg sync.WaitGroup
	for range 3 {
		for _, d := range leased {
			wg.Go(func() {
				if err := q.Enqueue(ctx, jobs.Message{Data: []byte("free")}); err != nil {
					t.Errorf("Enqueue: %v", err)
				}
				if d.ID() == "7" {
					return
				}
				if err := d.Ack(ctx); err != nil {
					t.Errorf("Ack of job %s: %v", d.ID(), err)
				}
			})
		}
		wg.Wait()
	}
	select {
	case err := <-held:
		t.Errorf("it did not wait for the transaction: %v", err)
	default:
	}
	must(t, tx.Commit())
	for range 2 {
		must(t, <-held)
	}
	if n := count(t, db, `SELECT count(*) FROM shoal_jobs`); n != 61 {
		t.Errorf("%d jobs, want 61", n)
	}
}

// TestThePayloadIsTheCallersAgain when Enqueue has returned, for whatever reason.
func TestThePayloadIsTheCallersAgain(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q")
		lock := `LOCK TABLE shoal_jobs`
		if p.d == shoalsql.SQLite {
			lock = `UPDATE shoal_done SET seq = seq` // a writer keeps others from writing
		}
		tx, err := db.BeginTx(context.Background(), nil)
		must(t, err)
		defer tx.Rollback()
		if _, err := tx.Exec(lock); err != nil {
			t.Fatal(err)
		}
		buf := bytes.Repeat([]byte("a"), 1000)
		if err := q.Enqueue(limit(t, 100*time.Millisecond), jobs.Message{Data: buf}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enqueue: %v", err)
		}
		for i := range buf {
			buf[i] = 'B'
		}
		must(t, tx.Rollback())
		must(t, q.Enqueue(context.Background(), jobs.Message{Data: []byte("last")})) // behind the first, if that is there
		for _, d := range pull(t, q, 10) {
			if string(d.Data()) != "last" && string(d.Data()) != strings.Repeat("a", 1000) {
				t.Errorf("%.10q is enqueued", d.Data())
			}
		}
	})
}

// TestWhatIsAcknowledgedTogether: each answer is its own.
func TestWhatIsAcknowledgedTogether(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		const n = 300
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithLease(time.Minute))
		ms := make([]jobs.Message, n)
		for i := range ms {
			ms[i].ID = fmt.Sprint(i)
		}
		must(t, q.Enqueue(context.Background(), ms...))
		first := pull(t, q, n)
		if len(first) != n {
			t.Fatalf("%d jobs", len(first))
		}
		run(t, db, `UPDATE shoal_jobs SET ready = ready - `+map[shoalsql.Dialect]string{shoalsql.Postgres: `interval '1 hour'`, shoalsql.SQLite: `3600000`}[p.d]+` WHERE id LIKE '%7'`)
		second := pull(t, q, n)
		if len(second) != n/10 {
			t.Fatalf("%d jobs are leased again, want %d", len(second), n/10)
		}
		var wg sync.WaitGroup
		for _, d := range append(first, first...) { // and each twice
			wg.Go(func() {
				err := d.Ack(context.Background())
				if lost := strings.HasSuffix(d.ID(), "7"); lost != errors.Is(err, jobs.ErrLeaseLost) || !lost && err != nil {
					t.Errorf("job %s: %v", d.ID(), err)
				}
			})
		}
		for _, d := range second {
			wg.Go(func() {
				if err := d.Ack(context.Background()); err != nil {
					t.Errorf("attempt 2 of job %s: %v", d.ID(), err)
				}
			})
		}
		wg.Wait()
		if n := count(t, db, `SELECT count(*) FROM shoal_jobs`); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
		if done := count(t, db, `SELECT count(*) FROM shoal_done`); done != n {
			t.Errorf("%d are known to be done, want %d", done, n)
		}
	})
}

// TestAClockThatJumps: that of the database, an hour ahead and back again, over and over.
// Leases end too soon, or late; jobs run twice then, and none is lost.
func TestAClockThatJumps(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		const n = 200
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithLease(time.Second), shoalsql.WithPoll(20*time.Millisecond))
		var ms []jobs.Message
		for i := range n {
			ms = append(ms, jobs.Message{ID: fmt.Sprint(i)})
		}
		must(t, q.Enqueue(context.Background(), ms...))
		var ran sync.Map
		_, stop := serve(t, q, func(ctx context.Context, j *jobs.Job) error {
			ran.Store(j.ID, true)
			select {
			case <-time.After(5 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, jobs.WithLogger(slog.New(slog.DiscardHandler)))
		ahead, back := `UPDATE shoal_jobs SET ready = ready - 3600000`, `UPDATE shoal_jobs SET ready = ready + 3600000`
		if p.d == shoalsql.Postgres {
			ahead, back = `UPDATE shoal_jobs SET ready = ready - interval '1 hour'`, `UPDATE shoal_jobs SET ready = ready + interval '1 hour'`
		}
		for range 8 {
			jump(t, db, ahead)
			time.Sleep(20 * time.Millisecond)
			jump(t, db, back)
			time.Sleep(20 * time.Millisecond)
		}
		for end := time.Now().Add(time.Minute); count(t, db, `SELECT count(*) FROM shoal_jobs`) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%d jobs are left", count(t, db, `SELECT count(*) FROM shoal_jobs`))
				break
			}
		}
		stop()
		for i := range n {
			if _, ok := ran.Load(fmt.Sprint(i)); !ok {
				t.Errorf("job %d is lost", i)
			}
		}
		if n := count(t, db, `SELECT count(*) FROM shoal_dead`); n > 0 {
			t.Errorf("%d dead letters", n)
		}
	})
}

// jump runs a statement that touches all rows: two of these may deadlock with others.
func jump(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := db.Exec(statement)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// wrapping is a source whose deliveries are wrapped, as by one that counts.
type wrapping struct{ jobs.Source }

type wrapped struct{ jobs.Delivery }

func (w wrapped) Unwrap() jobs.Delivery { return w.Delivery }

func (w wrapping) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	ds, err := w.Source.Pull(ctx, n)
	for i, d := range ds {
		ds[i] = wrapped{wrapped{d}}
	}
	return ds, err
}

// TestAHandlerMayFailAfterAckTx: the job is done all the same, and nothing is lost. Here
// its delivery is wrapped, too.
func TestAHandlerMayFailAfterAckTx(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q")
		ctx := context.Background()
		must(t, q.Enqueue(ctx, jobs.Message{ID: "error"}, jobs.Message{ID: "poison"}, jobs.Message{ID: "panic"}))
		var log bytes.Buffer
		pool, stop := serve(t, wrapping{q}, func(ctx context.Context, j *jobs.Job) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := q.AckTx(ctx, tx, j); err != nil {
				return err
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			switch j.ID {
			case "poison":
				return jobs.Poison(errors.New("late"))
			case "panic":
				panic("late")
			}
			return errors.New("late")
		}, jobs.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		st := settled(pool, 3)
		stop()
		if len(st) != 1 || st[0].Acked != 3 || st[0].LeasesLost != 0 || st[0].Retried != 0 || st[0].Dead != 0 {
			t.Errorf("%+v", st)
		}
		if n := strings.Count(log.String(), "after its job was acknowledged"); n != 3 {
			t.Errorf("%d warnings:\n%s", n, &log)
		}
		if n := count(t, db, `SELECT count(*) FROM shoal_jobs`); n != 0 {
			t.Errorf("%d jobs are left", n)
		}
	})
}

// TestALongTransactionKeepsItsJob: one that begins with AckTx and outlives the lease.
func TestALongTransactionKeepsItsJob(t *testing.T) {
	const lease = 4 * time.Second // a machine may stand still for a second or two
	p := postgres(t)
	db := p.open(t)
	ctx := context.Background()
	q := open(t, db, p.d, "q", shoalsql.WithLease(lease), shoalsql.WithPoll(20*time.Millisecond))
	must(t, q.Enqueue(ctx, jobs.Message{ID: "long"}, jobs.Message{ID: "back"}))
	var ran [2]atomic.Int64
	done := make(chan struct{}, 10)
	pool, stop := serve(t, q, func(ctx context.Context, j *jobs.Job) error {
		defer func() { done <- struct{}{} }()
		if j.ID == "back" && j.Attempt > 1 {
			ran[1].Add(1)
			return nil
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := q.AckTx(ctx, tx, j); err != nil {
			return err
		}
		if j.ID == "back" {
			must(t, tx.Rollback())
			<-ctx.Done() // the lease is extended: this ends by the stop of nobody
			return ctx.Err()
		}
		ran[0].Add(1)
		select {
		case <-ctx.Done():
			t.Errorf("its context ended: %v", context.Cause(ctx))
		case <-time.After(2 * lease):
		}
		return tx.Commit()
	}, jobs.WithBackoff(func(int) time.Duration { return 0 }), jobs.WithLogger(slog.New(slog.DiscardHandler)))
	<-done // the long one
	run(t, db, `UPDATE shoal_jobs SET ready = clock_timestamp() - interval '1 second'`)
	<-done // the other loses its lease, and runs again
	<-done
	if st := jobs.Of(pool); len(st) == 1 && st[0].LeasesLost > 1 {
		t.Errorf("%+v", st)
	}
	stop()
	if ran[0].Load() != 1 || ran[1].Load() != 1 || count(t, db, `SELECT count(*) FROM shoal_jobs`) != 0 {
		t.Errorf("they ran %d and %d times, %d are left", ran[0].Load(), ran[1].Load(), count(t, db, `SELECT count(*) FROM shoal_jobs`))
	}
}

func TestEnqueueTx(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(time.Hour))
		tx, err := db.Begin()
		must(t, err)
		must(t, q.EnqueueTx(ctx, tx, make([]jobs.Message, 100)...))
		must(t, tx.Rollback())
		for _, table := range []string{"shoal_jobs", "shoal_dead", "shoal_done"} {
			if n := count(t, db, `SELECT count(*) FROM `+table); n != 0 {
				t.Errorf("%d rows in %s", n, table)
			}
		}
		tx, err = db.Begin()
		must(t, err)
		must(t, q.EnqueueTx(ctx, tx, jobs.Message{ID: "a"}, jobs.Message{ID: "b"}))
		got := make(chan []jobs.Delivery)
		go func() {
			ds, err := q.Pull(limit(t, 20*time.Second), 10)
			if err != nil {
				t.Error(err)
			}
			got <- ds
		}()
		select {
		case ds := <-got:
			t.Errorf("%d jobs before the commit", len(ds))
		case <-time.After(50 * time.Millisecond):
		}
		must(t, tx.Commit())
		q.Wake()
		if ds := <-got; len(ds) != 2 {
			t.Errorf("%d jobs after the commit", len(ds))
		}
	})
}

// TestADeadLetterIsReplaced: a job gets the ID of a dead letter, and is buried too. On Postgres that
// happens to a transaction that does not see the dead letter. On SQLite somebody has to write it by
// hand.
func TestADeadLetterIsReplaced(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		db := p.open(t)
		q := open(t, db, p.d, "q")
		must(t, q.Enqueue(ctx, jobs.Message{ID: "x", Data: []byte("old"), Header: jobs.Header{"k": "v"}}))
		first := pull(t, q, 1)[0]
		if p.d == shoalsql.SQLite {
			must(t, first.Term(ctx, "one"))
			run(t, db, `INSERT INTO shoal_jobs (queue, id, data, ready) VALUES ('q', 'x', CAST('new' AS BLOB), 0)`)
		} else {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			must(t, err)
			defer tx.Rollback()
			_, err = tx.Exec(`SELECT 1 FROM shoal_dead`) // from now on it sees no change
			must(t, err)
			must(t, first.Term(ctx, "one"))
			must(t, q.EnqueueTx(ctx, tx, jobs.Message{ID: "x", Data: []byte("new")}))
			must(t, tx.Commit())
		}
		old, err := q.DeadLetters(ctx, jobs.DeadFilter{})
		must(t, err)
		must(t, pull(t, q, 1)[0].Nak(ctx, 0))
		second := pull(t, q, 1)[0]
		must(t, second.Term(ctx, "two"))
		must(t, second.Term(ctx, "two")) // as if the first one had not been confirmed
		if err := first.Term(ctx, "one"); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("Term of the job that was there before: %v", err)
		}
		dead, err := q.DeadLetters(ctx, jobs.DeadFilter{})
		must(t, err)
		if len(dead) != 1 || len(old) != 1 {
			t.Fatalf("%d dead letters, and then %d", len(old), len(dead))
		}
		if l := dead[0]; string(l.Data) != "new" || len(l.Header) != 0 || l.Attempt != 2 || l.Reason != "two" ||
			l.At.Before(old[0].At) || l.Place == old[0].Place {
			t.Errorf("%+v", l)
		}
		none(t, q)
	})
}

// TestAPullSortsByWhenJobsBecameReady, also those that it leases together.
func TestAPullSortsByWhenJobsBecameReady(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		db := p.open(t)
		q := open(t, db, p.d, "q")
		want := []string{"b", "d", "a", "e", "c"}
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			must(t, q.Enqueue(ctx, jobs.Message{ID: id, Delay: time.Hour}))
		}
		for i, id := range want {
			if p.d == shoalsql.Postgres {
				run(t, db, `UPDATE shoal_jobs SET ready = timestamptz 'epoch' + $1 * interval '1 second' WHERE id = $2`, i, id)
			} else {
				run(t, db, `UPDATE shoal_jobs SET ready = $1 WHERE id = $2`, i, id)
			}
		}
		must(t, q.Enqueue(ctx, jobs.Message{ID: "delayed", Delay: time.Hour}))
		must(t, open(t, db, p.d, "other").Enqueue(ctx, jobs.Message{}))
		var have []string
		for _, n := range []int{2, 4} {
			for _, d := range pull(t, q, n) {
				have = append(have, d.ID())
				must(t, d.Ack(ctx))
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%q, want %q", have, want)
		}
	})
}

func TestWhatTheSameQueueEnqueuesIsSeenAtOnce(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		q := open(t, p.open(t), p.d, "q", shoalsql.WithPoll(time.Hour))
		for range 3 {
			time.AfterFunc(30*time.Millisecond, func() { _ = q.Enqueue(context.Background(), jobs.Message{}) })
			d := pull(t, q, 1)[0]
			time.AfterFunc(30*time.Millisecond, func() { _ = d.Nak(context.Background(), 0) })
			must(t, pull(t, q, 1)[0].Ack(context.Background()))
		}
	})
}

// TestAPullKnowsWhenTheNextJobIsDue: it does not wait for the next poll.
func TestAPullKnowsWhenTheNextJobIsDue(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		q := open(t, p.open(t), p.d, "q", shoalsql.WithPoll(time.Hour), shoalsql.WithLease(2*time.Second))
		other := open(t, p.open(t), p.d, "q", shoalsql.WithPoll(time.Hour), shoalsql.WithLease(2*time.Second))
		must(t, other.Enqueue(ctx, jobs.Message{ID: "delayed", Delay: 200 * time.Millisecond}))
		d := pull(t, q, 1)[0]
		if d.Attempt() != 1 {
			t.Errorf("attempt %d", d.Attempt())
		}
		// Its lease ends, as if its machine had.
		d = pull(t, other, 1)[0]
		if d.ID() != "delayed" || d.Attempt() != 2 {
			t.Errorf("attempt %d of %q", d.Attempt(), d.ID())
		}
		must(t, d.Nak(ctx, 200*time.Millisecond))
		must(t, pull(t, q, 1)[0].Ack(ctx))
	})
}

// A job that is due, but was not there when a consumer looked, is looked for again soon: what
// locks it may be over long before the next poll.
func TestAPullLooksAgainForAJobThatWasLocked(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		if p.d != shoalsql.Postgres {
			t.Skip("it locks no rows")
		}
		ctx := context.Background()
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(time.Hour))
		must(t, q.Enqueue(ctx, jobs.Message{ID: "locked"}))
		tx, err := db.BeginTx(ctx, nil)
		must(t, err)
		_, err = tx.ExecContext(ctx, "SELECT 1 FROM shoal_jobs FOR UPDATE")
		must(t, err)
		time.AfterFunc(300*time.Millisecond, func() { tx.Rollback() })
		must(t, pull(t, q, 1)[0].Ack(ctx))
	})
}

func TestAnAnswerMayBeGivenAgain(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(10*time.Millisecond), shoalsql.WithRemember(200*time.Millisecond))
		must(t, q.Enqueue(ctx, jobs.Message{ID: "a"}))
		first := pull(t, q, 1)[0]
		must(t, first.Nak(ctx, 0))
		must(t, first.Nak(ctx, 0))
		d := pull(t, q, 1)[0]
		if err := first.Nak(ctx, 0); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("Nak when another attempt is leased: %v", err)
		}
		must(t, d.Ack(ctx))
		must(t, d.Ack(ctx))
		if err := first.Ack(ctx); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("Ack of another attempt: %v", err)
		}
		for what, err := range map[string]error{
			"Nak after Ack": d.Nak(ctx, 0), "Term after Ack": d.Term(ctx, "no"), "Extend after Ack": d.Extend(ctx),
		} {
			if !errors.Is(err, jobs.ErrAcked) {
				t.Errorf("%s: %v", what, err)
			}
		}
		// The ID is forgotten, and then that of another job.
		time.Sleep(250 * time.Millisecond)
		must(t, q.Enqueue(ctx, jobs.Message{ID: "a", Data: []byte("another")}))
		other := pull(t, q, 1)[0]
		if other.Attempt() != 1 || string(other.Data()) != "another" {
			t.Errorf("attempt %d of %q", other.Attempt(), other.Data())
		}
		for what, err := range map[string]error{
			"Ack": first.Ack(ctx), "Nak": first.Nak(ctx, 0), "Term": first.Term(ctx, "no"), "Extend": first.Extend(ctx),
		} { // at attempt 1 as well
			if !errors.Is(err, jobs.ErrLeaseLost) {
				t.Errorf("%s of an old job with the ID: %v", what, err)
			}
		}
		must(t, d.Ack(ctx)) // the delivery still knows that
		if err := d.Extend(ctx); !errors.Is(err, jobs.ErrAcked) {
			t.Errorf("Extend after Ack of a job that is forgotten: %v", err)
		}
		must(t, other.Term(ctx, "bad \xff\x00 reason"))
		must(t, other.Term(ctx, "bad reason"))
		none(t, q)
	})
}

// TestAReleasedLeaseIsOver, although the next one has the same attempt.
func TestAReleasedLeaseIsOver(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(10*time.Millisecond))
		must(t, q.Enqueue(ctx, jobs.Message{ID: "a"}))
		first := pull(t, q, 1)[0]
		must(t, first.Release(ctx))
		must(t, first.Release(ctx)) // as if the first one had not been confirmed
		over := func(when string) {
			t.Helper()
			for what, err := range map[string]error{
				"Ack": first.Ack(ctx), "Nak": first.Nak(ctx, 0), "Term": first.Term(ctx, "no"), "Extend": first.Extend(ctx),
			} {
				if !errors.Is(err, jobs.ErrLeaseLost) {
					t.Errorf("%s %s: %v", what, when, err)
				}
			}
		}
		over("of a job that is released")

		// A handler does not heed the end of its context, and the job is released.
		began, leased := make(chan struct{}), make(chan struct{})
		result := make(chan error, 1)
		serving, stop := context.WithCancel(ctx)
		pool := shoal.Must(shoal.New())
		defer pool.Close()
		served := make(chan error, 1)
		go func() {
			served <- jobs.Serve(serving, pool, q, func(_ context.Context, j *jobs.Job) error {
				close(began)
				<-leased
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					result <- err
					return err
				}
				defer tx.Rollback()
				result <- q.AckTx(ctx, tx, j)
				return nil
			}, jobs.WithDrain(0), jobs.WithLogger(slog.New(slog.DiscardHandler)))
		}()
		<-began
		stop()
		second := pull(t, q, 1)[0]
		if second.Attempt() != 1 {
			t.Errorf("attempt %d", second.Attempt())
		}
		over("when the next lease has begun")
		if err := first.Release(ctx); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("Release when the next lease has begun: %v", err)
		}
		close(leased)
		if err := <-result; !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("AckTx when the next lease has begun: %v", err)
		}
		must(t, second.Ack(ctx))
		over("when the job is done")
		if err := <-served; err != nil && !errors.As(err, new(*jobs.AbandonedError)) {
			t.Error(err)
		}
		none(t, q)
	})
}

// TestAReleasedLeaseIsOverAfterAckTx that was rolled back: what another attempt has done is not
// the effect of this one.
func TestAReleasedLeaseIsOverAfterAckTx(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(10*time.Millisecond))
		must(t, q.Enqueue(ctx, jobs.Message{ID: "a"}))
		serving, stop := context.WithCancel(ctx)
		pool := shoal.Must(shoal.New())
		defer pool.Close()
		var first jobs.Delivery
		must(t, jobs.Serve(serving, pool, q, func(ctx context.Context, j *jobs.Job) error {
			defer stop()
			first = j.Delivery()
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if err := errors.Join(q.AckTx(ctx, tx, j), tx.Rollback()); err != nil {
				return err
			}
			return jobs.ErrStopped
		}, jobs.WithLogger(slog.New(slog.DiscardHandler))))
		must(t, pull(t, q, 1)[0].Ack(ctx))
		for what, err := range map[string]error{
			"Ack": first.Ack(ctx), "Extend": first.Extend(ctx), "Nak": first.Nak(ctx, 0), "Release": first.Release(ctx),
		} {
			if !errors.Is(err, jobs.ErrLeaseLost) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestRetryAndRemember(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(10*time.Millisecond), shoalsql.WithRemember(time.Second))
		a := jobs.Message{ID: "a", Data: []byte("x"), Header: jobs.Header{"k": "v\x00"}}
		must(t, q.Enqueue(ctx, a, jobs.Message{ID: "b"}))
		before := time.Now().Add(-time.Second)
		for _, d := range pull(t, q, 2) {
			must(t, d.Term(ctx, "bad "+d.ID()))
		}
		must(t, q.Enqueue(ctx, a)) // while its dead letter exists
		none(t, q)
		dead, err := q.DeadLetters(ctx, jobs.DeadFilter{})
		must(t, err)
		if len(dead) != 2 || dead[0].ID != "a" || dead[0].Header["k"] != "v\x00" || dead[0].Reason != "bad a" ||
			dead[0].At.Before(before) || dead[0].At.After(time.Now().Add(time.Second)) {
			t.Fatalf("%+v", dead)
		}
		for want, ids := range [][]string{{"a", "c"}, {"a"}} {
			if n, err := q.RetryDead(ctx, jobs.DeadFilter{IDs: ids}); err != nil || n != 1-want {
				t.Errorf("RetryDead(%q): %d, %v", ids, n, err)
			}
		}
		d := pull(t, q, 1)[0]
		if d.ID() != "a" || d.Attempt() != 1 || string(d.Data()) != "x" || d.Header()["k"] != "v\x00" {
			t.Errorf("%s, attempt %d, %q %q", d.ID(), d.Attempt(), d.Data(), d.Header())
		}
		acked := time.Now()
		must(t, d.Ack(ctx))
		must(t, q.Enqueue(ctx, a, jobs.Message{ID: "c"}))
		if d := pull(t, q, 5); len(d) != 1 || d[0].ID() != "c" {
			if time.Since(acked) < time.Second {
				t.Errorf("%d jobs, the first %s", len(d), d[0].ID())
			}
		}
		time.Sleep(1100 * time.Millisecond)
		must(t, q.Enqueue(ctx, a))
		if d := pull(t, q, 5)[0]; d.ID() != "a" {
			t.Errorf("when its ID is forgotten: %s", d.ID())
		}
		for i := 0; count(t, db, `SELECT count(*) FROM shoal_done`) > 0; i++ {
			if none(t, q); i > 50 {
				t.Fatal("shoal_done is not swept")
			}
		}
	})
}

// TestWhatCannotBeBuriedHoldsUpNobody: a row whose header is none, and for which there is
// no room among the dead letters.
func TestWhatCannotBeBuriedHoldsUpNobody(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(10*time.Millisecond))
		must(t, q.Enqueue(context.Background(), jobs.Message{ID: "a"}, jobs.Message{ID: "bad"}, jobs.Message{ID: "b"}))
		run(t, db, `UPDATE shoal_jobs SET header = '[1]' WHERE id = 'bad'`)
		if p.d == shoalsql.SQLite {
			run(t, db, `CREATE TRIGGER no BEFORE INSERT ON shoal_dead BEGIN SELECT RAISE(ABORT, 'no room'); END`)
		} else {
			run(t, db, `ALTER TABLE shoal_dead ADD CONSTRAINT no CHECK (false)`)
		}
		ds, err := q.Pull(limit(t, 20*time.Second), 5)
		if err != nil || len(ds) != 2 || ds[0].ID() != "a" || ds[1].ID() != "b" {
			t.Fatalf("%d jobs, %v", len(ds), err)
		}
		for _, d := range ds {
			must(t, d.Ack(context.Background()))
		}
		none(t, q)
	})
}

func TestAHeaderThatIsNoneIsBuried(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q")
		must(t, q.Enqueue(context.Background(), jobs.Message{ID: "bad", Header: jobs.Header{"a": "b"}}, jobs.Message{ID: "good"}))
		run(t, db, `UPDATE shoal_jobs SET header = '[1]' WHERE id = 'bad'`)
		if d := pull(t, q, 1)[0]; d.ID() != "good" {
			t.Errorf("job %s", d.ID())
		}
		if dead, err := q.DeadLetters(context.Background(), jobs.DeadFilter{}); err != nil || len(dead) != 1 || !strings.Contains(dead[0].Reason, "header") {
			t.Errorf("%+v, %v", dead, err)
		}
	})
}

// TestAnIDIsUniqueUnderLoad: an ID is enqueued again and again, while its job is worked
// off; it runs once.
func TestAnIDIsUniqueUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		q := open(t, p.open(t), p.d, "q", shoalsql.WithPoll(5*time.Millisecond))
		const n = 40
		var ran [n]atomic.Int64
		var sent atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for i := range n {
					for range 4 {
						if err := q.Enqueue(ctx, jobs.Message{ID: fmt.Sprint(i)}, jobs.Message{ID: fmt.Sprint((i + 1) % n)}); err != nil {
							t.Error(err)
						}
						sent.Add(1)
					}
				}
			})
		}
		pool, stop := serve(t, q, func(ctx context.Context, j *jobs.Job) error {
			var i int
			fmt.Sscan(j.ID, &i)
			ran[i].Add(1)
			return nil
		})
		wg.Wait()
		settled(pool, n)
		stop()
		none(t, q)
		for i := range ran {
			if k := ran[i].Load(); k != 1 {
				t.Errorf("job %d ran %d times", i, k)
			}
		}
	})
}

// TestAPullThatEndsKeepsNothing: contexts end at all moments.
func TestAPullThatEndsKeepsNothing(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithLease(time.Hour), shoalsql.WithPoll(time.Millisecond))
		const n = 60
		must(t, q.Enqueue(context.Background(), make([]jobs.Message, n)...))
		got := make(map[string]bool)
		for i := 0; len(got) < n; i++ {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%50)*100*time.Microsecond)
			ds, err := q.Pull(ctx, 2)
			cancel()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			for _, d := range ds {
				if got[d.ID()] {
					t.Errorf("%s twice", d.ID())
				}
				got[d.ID()] = true
			}
			if i > 5000 {
				t.Fatalf("%d of %d jobs: the others are leased to nobody", len(got), n)
			}
		}
	})
}

// TestAPullEndsWhenTheDatabaseDoesNotAnswer: it has one connection, which is in use.
func TestAPullEndsWhenTheDatabaseDoesNotAnswer(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithLease(time.Hour))
		must(t, q.Enqueue(context.Background(), jobs.Message{ID: "a"}))
		db.SetMaxOpenConns(1)
		c, err := db.Conn(context.Background())
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		ds, err := q.Pull(ctx, 1)
		if len(ds) > 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d jobs, %v", len(ds), err)
		}
		must(t, c.Close()) // now it leases the job, and gives it back
		if d := pull(t, q, 1)[0]; d.ID() != "a" {
			t.Errorf("job %s", d.ID())
		}
	})
}

func TestManyMachinesOpenAtOnce(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		var wg sync.WaitGroup
		for i := range 8 {
			db := p.open(t)
			wg.Go(func() {
				q, err := shoalsql.Open(context.Background(), db, p.d, "q")
				if err == nil {
					err = q.Enqueue(context.Background(), jobs.Message{ID: fmt.Sprint(i)})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

func TestQueuesOfADatabaseAreApart(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		a, b := open(t, db, p.d, "a"), open(t, db, p.d, "b")
		must(t, a.Enqueue(context.Background(), jobs.Message{ID: "x", Data: []byte("of a")}))
		none(t, b)
		must(t, b.Enqueue(context.Background(), jobs.Message{ID: "x", Data: []byte("of b")}))
		if d := pull(t, b, 5); len(d) != 1 || string(d[0].Data()) != "of b" {
			t.Errorf("%d, %q", len(d), d[0].Data())
		}
	})
}

func TestSchemaIsEnough(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		ctx := context.Background()
		_, err := shoalsql.Open(ctx, db, p.d, "q", shoalsql.WithExisting())
		if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), "no table shoal_jobs") {
			t.Errorf("without tables: %v", err)
		}
		for _, s := range strings.SplitAfter(shoalsql.Schema(p.d), ";\n") {
			if s != "" {
				run(t, db, s)
				run(t, db, s)
			}
		}
		open(t, db, p.d, "q", shoalsql.WithExisting())
		run(t, db, `DROP TABLE shoal_done`)
		_, err = shoalsql.Open(ctx, db, p.d, "q", shoalsql.WithExisting())
		if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), "no table shoal_done") {
			t.Errorf("without one: %v", err)
		}
		run(t, db, `CREATE TABLE shoal_done (queue text)`)
		_, err = shoalsql.Open(ctx, db, p.d, "q")
		if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), "table shoal_done is not that of Schema") {
			t.Errorf("with another: %v", err)
		}
	})
}

func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := p.open(t)
		other := shoalsql.Postgres + shoalsql.SQLite - p.d
		var noContext context.Context
		for want, f := range map[string]func() (*shoalsql.Queue, error){
			"nil context":   func() (*shoalsql.Queue, error) { return shoalsql.Open(noContext, db, p.d, "q") },
			"nil database":  func() (*shoalsql.Queue, error) { return shoalsql.Open(ctx, nil, p.d, "q") },
			"Dialect(0)":    func() (*shoalsql.Queue, error) { return shoalsql.Open(ctx, db, 0, "q") },
			`the name ""`:   func() (*shoalsql.Queue, error) { return shoalsql.Open(ctx, db, p.d, "") },
			`the name "a'"`: func() (*shoalsql.Queue, error) { return shoalsql.Open(ctx, db, p.d, "a'") },
			"it is " + p.d.String(): func() (*shoalsql.Queue, error) {
				return shoalsql.Open(ctx, db, other, "q")
			},
			"WithLease(1ms)": func() (*shoalsql.Queue, error) {
				return shoalsql.Open(ctx, db, p.d, "q", shoalsql.WithLease(time.Millisecond))
			},
			"WithPoll(0s)":     func() (*shoalsql.Queue, error) { return shoalsql.Open(ctx, db, p.d, "q", shoalsql.WithPoll(0)) },
			"WithRemember(0s)": func() (*shoalsql.Queue, error) { return shoalsql.Open(ctx, db, p.d, "q", shoalsql.WithRemember(0)) },
			"option 1 is nil":  func() (*shoalsql.Queue, error) { return shoalsql.Open(ctx, db, p.d, "q", shoalsql.WithExisting(), nil) },
		} {
			if _, err := f(); !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error with %q, have %v", want, err)
			}
		}
		q := open(t, db, p.d, "q")
		tx, err := db.Begin()
		must(t, err)
		for want, m := range map[string]jobs.Message{
			"1001 bytes: want up to 1000": {ID: strings.Repeat("x", 1001)},
			`the ID "a\xff"`:              {ID: "a\xff"},
			`the ID "a\x00"`:              {ID: "a\x00"},
			`the header "k", "\xff"`:      {Header: jobs.Header{"k": "\xff"}},
			`the header "\xff", "v"`:      {Header: jobs.Header{"\xff": "v"}},
		} {
			for _, err := range []error{q.Enqueue(ctx, jobs.Message{}, m), q.EnqueueTx(ctx, tx, jobs.Message{}, m)} {
				if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "message 1 of 2") {
					t.Errorf("want an error with %q, have %v", want, err)
				}
			}
		}
		for want, err := range map[string]error{
			"nil transaction":   q.EnqueueTx(ctx, nil, jobs.Message{}),
			"nil transaction ":  q.AckTx(ctx, nil, &jobs.Job{}),
			"nil job":           q.AckTx(ctx, tx, nil),
			"is not of queue q": q.AckTx(ctx, tx, &jobs.Job{ID: "x"}),
		} {
			if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
				t.Errorf("want an error with %q, have %v", want, err)
			}
		}
		must(t, tx.Commit())
		if _, err := q.Pull(ctx, 0); !errors.Is(err, jobs.ErrConfig) {
			t.Errorf("Pull(0): %v", err)
		}
		must(t, q.Enqueue(ctx))
		must(t, q.Enqueue(ctx, jobs.Message{ID: strings.Repeat("ä", 500), Delay: -time.Hour}))
		must(t, q.Enqueue(ctx, jobs.Message{Delay: 1<<63 - 1}))
		if d := pull(t, q, 10); len(d) != 1 || d[0].ID() != strings.Repeat("ä", 500) {
			t.Errorf("%d jobs", len(d))
		}
	})
}

// ended is how Serve ends, which it should do by itself.
func ended(t testing.TB, q jobs.Source) error {
	t.Helper()
	p := shoal.Must(shoal.New())
	defer p.Close()
	err := jobs.Serve(limit(t, 20*time.Second), p, q, func(context.Context, *jobs.Job) error { return nil })
	if !jobs.IsPermanent(err) {
		t.Errorf("Serve: %v", err)
		return errors.New("")
	}
	return err
}

func TestWhatCannotBeCuredEndsServe(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := p.open(t)
		q := open(t, db, p.d, "q", shoalsql.WithPoll(20*time.Millisecond))
		time.AfterFunc(100*time.Millisecond, func() { run(t, db, `DROP TABLE shoal_jobs`) })
		if err := ended(t, q); !strings.Contains(err.Error(), "queue q") || !strings.Contains(err.Error(), "shoal_jobs") {
			t.Errorf("without the table: %v", err)
		}
		q = open(t, db, p.d, "q", shoalsql.WithPoll(20*time.Millisecond))
		db.Close()
		if err := ended(t, q); !strings.Contains(err.Error(), "closed") {
			t.Errorf("when the database is closed: %v", err)
		}
	})
	t.Run("permissions", func(t *testing.T) {
		p := postgres(t)
		ctx := context.Background()
		db := p.open(t)
		open(t, db, shoalsql.Postgres, "q")
		run(t, db, `DO $$ BEGIN
			IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'reader') THEN CREATE ROLE reader LOGIN; END IF;
			IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'stranger') THEN CREATE ROLE stranger LOGIN PASSWORD 'secret'; END IF;
		END $$`)
		run(t, db, `GRANT SELECT ON shoal_jobs, shoal_dead, shoal_done, shoal_schema TO reader`)
		q := open(t, connect(t, "pgx", p.dsn("reader")), shoalsql.Postgres, "q")
		if err := ended(t, q); !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("without permission: %v", err)
		}
		for want, dsn := range map[string]string{
			"28P01":                     p.dsn("stranger") + " password=wrong",
			"3D000":                     strings.Split(p.dsn("postgres"), " dbname=")[0] + " dbname=nowhere",
			`permission denied for`:     p.dsn("stranger") + " password=secret",
			"dial unix /nowhere/.s.PGS": "host=/nowhere",
		} {
			if _, err := shoalsql.Open(ctx, connect(t, "pgx", dsn), shoalsql.Postgres, "q"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error with %q, have %v", want, err)
			}
		}
	})
}

func TestSQLiteRefusesWhatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	must(t, os.WriteFile(path, bytes.Repeat([]byte("no database "), 100), 0o600))
	_, err := shoalsql.Open(context.Background(), connect(t, "sqlite", shoalsql.SQLiteDSN(path)), shoalsql.SQLite, "q")
	if err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Errorf("a file that is none: %v", err)
	}
}

func TestSQLiteDSN(t *testing.T) {
	p := sqlite(t)
	db := p.open(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000"} {
		var have string
		must(t, db.QueryRow("PRAGMA "+pragma).Scan(&have))
		if have != want {
			t.Errorf("%s is %s, want %s", pragma, have, want)
		}
	}
	var file string
	must(t, db.QueryRow("SELECT file FROM pragma_database_list").Scan(&file))
	if _, err := os.Stat(file); err != nil || filepath.Base(file) != "queue ä?#%.db" {
		t.Errorf("the file is %q, %v", file, err)
	}
}

func TestWhatIsConfirmedIsThereAfterARestart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := sqlite(t)
	db := p.open(t)
	q := open(t, db, p.d, "q", shoalsql.WithLease(4*time.Second))
	for i := range 20 {
		must(t, q.Enqueue(ctx, jobs.Message{ID: fmt.Sprint(i), Delay: time.Duration(i%2) * time.Second}))
	}
	must(t, pull(t, q, 3)[0].Ack(ctx)) // and not the others
	must(t, db.Close())
	q = open(t, p.open(t), p.d, "q", shoalsql.WithLease(4*time.Second), shoalsql.WithExisting())
	must(t, q.Enqueue(ctx, jobs.Message{ID: "0"}))
	seen := make(map[string]bool)
	for len(seen) < 19 {
		for _, d := range pull(t, q, 100) {
			err := d.Ack(ctx)
			if errors.Is(err, jobs.ErrLeaseLost) { // the disk was slow: it comes again
				continue
			}
			must(t, err)
			seen[d.ID()] = true
		}
	}
	if none(t, q); seen["0"] {
		t.Error("what was acknowledged came again")
	}
}

// enqueueUntilKilled says the ID of each job when it is confirmed.
func enqueueUntilKilled(path string) {
	db, err := sql.Open("sqlite", shoalsql.SQLiteDSN(path))
	if err != nil {
		panic(err)
	}
	q, err := shoalsql.Open(context.Background(), db, shoalsql.SQLite, "q")
	for i := 0; err == nil; i++ {
		if err = q.Enqueue(context.Background(), jobs.Message{ID: fmt.Sprint(i)}); err == nil {
			fmt.Println(i)
		}
	}
	panic(err)
}

func TestWhatIsConfirmedSurvivesAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SHOAL_ENQUEUE_UNTIL_KILLED="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said := 0
	for s := bufio.NewScanner(out); s.Scan(); said++ {
		if said == 50 {
			must(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait()
	q := open(t, connect(t, "sqlite", shoalsql.SQLiteDSN(path)), shoalsql.SQLite, "q", shoalsql.WithExisting())
	seen := make(map[string]bool)
	for _, d := range pull(t, q, 1000) {
		seen[d.ID()] = true
	}
	for i := range said {
		if !seen[fmt.Sprint(i)] {
			t.Errorf("job %d of %d is lost", i, said)
		}
	}
}

// TestServeOutlivesACrashOfPostgres: what is confirmed is not lost by it, and what was
// acknowledged does not run again.
func TestServeOutlivesACrashOfPostgres(t *testing.T) {
	t.Parallel()
	p, restart := ownPostgres(t)
	ctx := limit(t, 2*time.Minute)
	db := p.open(t)
	q := open(t, db, shoalsql.Postgres, "q", shoalsql.WithLease(10*time.Second), shoalsql.WithPoll(20*time.Millisecond))
	const n = 100
	var ran [n]atomic.Int64
	var all sync.WaitGroup
	all.Add(n)
	_, stop := serve(t, q, func(ctx context.Context, j *jobs.Job) error {
		var i int
		fmt.Sscan(j.ID, &i)
		if ran[i].Add(1) == 1 {
			all.Done()
		}
		time.Sleep(5 * time.Millisecond)
		return nil
	}, jobs.WithLogger(slog.New(slog.DiscardHandler)))
	crashed := make(chan struct{})
	for i := range n {
		if i == 30 {
			go func() { defer close(crashed); restart() }()
		}
		for q.Enqueue(ctx, jobs.Message{ID: fmt.Sprint(i)}) != nil { // the ID makes that safe
			if ctx.Err() != nil {
				t.Fatal("the server does not come back")
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	all.Wait()
	<-crashed
	for ctx.Err() == nil && count(t, db, `SELECT count(*) FROM shoal_jobs`) > 0 { // whose Ack came too late
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	if k := count(t, db, `SELECT count(*) FROM shoal_jobs`) + count(t, db, `SELECT count(*) FROM shoal_dead`); k != 0 {
		t.Errorf("%d jobs are left", k)
	}
	again := 0
	for i := range ran {
		if ran[i].Load() > 1 {
			again++
		}
	}
	if again > 8 { // those that ran, and those that were leased
		t.Errorf("%d jobs ran again", again)
	}
}

// TestAPullIsOneSearchOfTheIndex: jobs that are not ready are not looked at.
func TestAPullIsOneSearchOfTheIndex(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		if p.d != shoalsql.Postgres {
			t.Skip("the plan is that of Postgres")
		}
		db := p.open(t)
		open(t, db, p.d, "q")
		run(t, db, `INSERT INTO shoal_jobs (queue, id, data, ready) SELECT 'q', 'x' || i, '', now() + interval '1 day' FROM generate_series(1, 20000) i`)
		run(t, db, `ANALYZE shoal_jobs`)
		rows, err := db.Query(`EXPLAIN (ANALYZE, BUFFERS) SELECT seq FROM shoal_jobs WHERE queue = 'q' AND ready <= statement_timestamp()
			ORDER BY ready, seq LIMIT 5 FOR UPDATE SKIP LOCKED`)
		must(t, err)
		defer rows.Close()
		var plan strings.Builder
		for rows.Next() {
			var s string
			must(t, rows.Scan(&s))
			plan.WriteString(s + "\n")
		}
		must(t, rows.Err())
		if s := plan.String(); !strings.Contains(s, "shoal_jobs_ready") || strings.Contains(s, "Rows Removed") {
			t.Error(s)
		}
	})
}
