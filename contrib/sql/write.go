package shoalsql

import (
	"context"
	"database/sql"
	"fmt"
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

var errBusy = fmt.Errorf("the database was busy for %v", busyFor)

// write calls f, which writes, and repeats it as again does. SQLite has one writer at a time, and
// the others sleep and try again, in no order. So for SQLite write makes the writers of one process
// wait for each other, one after the other. While another program writes, each of them would wait
// for it anew. So write fails if none of them has written for busyFor.
func (q *Queue) write(ctx context.Context, f func() error) error {
	if q.turn == nil {
		return q.again(ctx, f)
	}
	begin := time.Now()
	return q.again(ctx, func() (err error) {
		var wrote time.Time
		select {
		case wrote = <-q.turn:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { q.turn <- wrote }()
		if time.Since(begin) >= busyFor && time.Since(wrote) >= busyFor {
			return errBusy
		}
		if err = f(); err == nil || !q.d.busy(err) && ctx.Err() == nil {
			wrote = time.Now()
		}
		return err
	})
}

// turns are those of the SQLite databases that were opened, by their files.
var turns sync.Map

func turnOf(file string) chan time.Time {
	t, _ := turns.LoadOrStore(file, newTurn())
	return t.(chan time.Time)
}

func newTurn() chan time.Time {
	t := make(chan time.Time, 1)
	t <- time.Time{}
	return t
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
