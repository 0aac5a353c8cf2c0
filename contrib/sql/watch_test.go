package shoalsql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// TestAListenerEndsWhenNobodyWaits: after a while, in which it is used again.
func TestAListenerEndsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began, ended atomic.Int64
		q := &Queue{db: sql.OpenDB(&slowDB{}), d: Postgres, name: "q", heard: make(chan struct{})}
		defer q.db.Close()
		WithListener(func(ctx context.Context, channel string, notify func()) error {
			if channel != "shoal_q" {
				t.Errorf("channel %q", channel)
			}
			began.Add(1)
			notify()
			<-ctx.Done()
			ended.Add(1)
			return ctx.Err()
		})(&q.config)
		is := func(b, e int64) {
			t.Helper()
			synctest.Wait()
			if began.Load() != b || ended.Load() != e {
				t.Errorf("it has begun %d times and ended %d times, want %d and %d", began.Load(), ended.Load(), b, e)
			}
		}
		first, second := q.watch(), q.watch()
		is(1, 0)
		first()
		time.Sleep(2 * listenFor)
		is(1, 0)
		second()
		time.Sleep(listenFor / 2)
		third := q.watch()
		time.Sleep(listenFor)
		third()
		time.Sleep(listenFor - time.Millisecond)
		is(1, 0)
		time.Sleep(2 * time.Millisecond)
		is(1, 1)
		q.watch()()
		is(2, 1)
		time.Sleep(listenFor + time.Millisecond)
		is(2, 2)
		if len(watches.m) > 0 {
			t.Errorf("%d watches are left", len(watches.m))
		}
	})
}

func TestAListenerIsOfPostgres(t *testing.T) {
	db := sql.OpenDB(&slowDB{})
	defer db.Close()
	listen := func(context.Context, string, func()) error { return nil }
	for want, err := range map[string]error{
		"WithListener(nil)":      second(Open(t.Context(), db, Postgres, "q", WithListener(nil))),
		"WithListener: want Pos": second(Open(t.Context(), db, SQLite, "q", WithListener(listen))),
	} {
		if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, have %v", want, err)
		}
	}
}

func second(_ *Queue, err error) error { return err }
