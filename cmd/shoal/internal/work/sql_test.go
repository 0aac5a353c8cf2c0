package work

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	shoalpgx "github.com/shoal-go/shoal/contrib/sql/pgx"
	"github.com/shoal-go/shoal/internal/postgres/pgtest"
	"github.com/shoal-go/shoal/jobs"
)

// TestWhoEnqueuesAndEndsIsHeard: by one whose poll is an hour away.
func TestWhoEnqueuesAndEndsIsHeard(t *testing.T) {
	c := pgtest.Start(t, "fsync=off")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	url := c.URL("postgres", "postgres")
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	listener, err := shoalpgx.Listener(url)
	if err != nil {
		t.Fatal(err)
	}
	q, err := shoalsql.Open(ctx, db, shoalsql.Postgres, "q", shoalsql.WithPoll(time.Hour), shoalsql.WithListener(listener))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got := make(chan error, 1)
		go func() {
			ds, err := q.Pull(ctx, 1)
			for _, d := range ds {
				err = errors.Join(err, d.Ack(ctx))
			}
			got <- err
		}()
		time.Sleep(50 * time.Millisecond) // the Pull waits
		other, err := Open(ctx, Place{SQL: url, Queue: "q", Lease: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(other.Enqueue(ctx, jobs.Message{}), other.Close()); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
}
