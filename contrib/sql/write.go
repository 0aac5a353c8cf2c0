package shoalsql

import (
	"context"
	"database/sql"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// This file is how this package writes: in a transaction, in turn, and again if others were in the way.

// inTx calls f in a transaction.
func (q *Queue) inTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	if err := tx.Commit(); err != nil {
		_ = tx.Rollback()
		return err
	}
	return nil
}

const (
	busyFor    = 10 * time.Second
	firstPause = 2 * time.Millisecond
	mostPause  = 100 * time.Millisecond
)

// write calls f, which writes, and repeats it as again does. SQLite has one writer at a time, and
// the others sleep and try again, in no order. So for SQLite write makes the writers of one process
// wait for each other, one after the other.
func (q *Queue) write(ctx context.Context, f func() error) error {
	if q.turn == nil {
		return q.again(ctx, f)
	}
	return q.again(ctx, func() error {
		select {
		case q.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-q.turn }()
		return f()
	})
}

// turns are those of the SQLite databases that were opened, by their files.
var turns sync.Map

func turnOf(file string) chan struct{} {
	t, _ := turns.LoadOrStore(file, make(chan struct{}, 1))
	return t.(chan struct{})
}

// again calls f until it does not fail because of others that use the database.
func (q *Queue) again(ctx context.Context, f func() error) error {
	begin := time.Now()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := f()
		if err == nil || !q.d.busy(err) || time.Since(begin) > busyFor {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + mathrand.N(pause)):
		}
	}
}
