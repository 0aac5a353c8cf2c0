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

// A turn is the right to write. It holds since when all calls that had it have found the database
// busy; zero if the last one has not.
type turn time.Time

var errBusy = fmt.Errorf("the database was busy for %v", busyFor)

// write calls f, which writes, and repeats it as again does. SQLite has one writer at a time, and
// the others sleep and try again, in no order. So for SQLite write makes the writers of one process
// wait for each other, one after the other. While another program writes, each of them would wait
// for it anew. So write fails if all of them have found the database busy for busyFor.
func (q *Queue) write(ctx context.Context, f func() error) error {
	if q.turn == nil {
		return q.again(ctx, f)
	}
	asked := time.Now()
	var first time.Time // turn
	return q.againSince(ctx, &first, func() (err error) {
		var was, is turn
		select {
		case was = <-q.turn:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { q.turn <- is }()
		now := time.Now()
		if first.IsZero() {
			first = now
		}
		if was.busy() && now.Sub(time.Time(was)) >= busyFor && now.Sub(asked) >= busyFor {
			is = was
			return errBusy
		}
		if err = f(); err != nil && q.d.busy(err) {
			if is = was; !was.busy() {
				is = turn(now)
			}
		}
		return err
	})
}

func (t turn) busy() bool { return !time.Time(t).IsZero() }

// turns are those of the SQLite databases that were opened, by their files.
var turns sync.Map

func turnOf(file string) chan turn {
	t, _ := turns.LoadOrStore(file, newTurn())
	return t.(chan turn)
}

func newTurn() chan turn {
	t := make(chan turn, 1)
	t <- turn{}
	return t
}

// again calls f until it does not fail because of others that use the database.
func (q *Queue) again(ctx context.Context, f func() error) error {
	begin := time.Now()
	return q.againSince(ctx, &begin, f)
}

// againSince is again. It gives up busyFor after *begin, which f may set.
func (q *Queue) againSince(ctx context.Context, begin *time.Time, f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := f()
		if err == nil || !q.d.busy(err) || time.Since(*begin) > busyFor {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + mathrand.N(pause)):
		}
	}
}
