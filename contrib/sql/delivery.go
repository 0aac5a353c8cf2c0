package shoalsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// A delivery is one leased job. The row and the attempt are its token: an ID may be that
// of another job, later. A job that is released has the attempt back, and so it moves to
// another row.
type delivery struct {
	q       *Queue
	seq     int64
	id      string
	data    []byte
	header  jobs.Header
	bad     error // what is wrong with the header
	attempt int
	leased  time.Time   // when the lease was asked for
	inTx    atomic.Bool // AckTx was called, and has not failed
	acked   atomic.Bool // Ack has succeeded
}

func (d *delivery) ID() string          { return d.id }
func (d *delivery) Data() []byte        { return d.data }
func (d *delivery) Header() jobs.Header { return d.header }
func (d *delivery) Attempt() int        { return d.attempt }

// Leased is when the lease was asked for, as [jobs.Delivery] describes.
func (d *delivery) Leased() time.Time { return d.leased }

// A runner is a database or a transaction.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ackOn acknowledges the job, if it is still leased to d. In SQLite that takes two
// statements, and r is a transaction.
func (d *delivery) ackOn(ctx context.Context, r runner) (bool, error) {
	done, err := affected(r.ExecContext(ctx, d.q.sql.ack, d.seq, d.attempt, d.q.d.units(d.q.remember)))
	if done && d.q.d == SQLite {
		_, err = r.ExecContext(ctx, d.q.sql.remove, d.seq)
	}
	return done && err == nil, err
}

func (d *delivery) termOn(ctx context.Context, r runner, reason string) (bool, error) {
	done, err := affected(r.ExecContext(ctx, d.q.sql.term, d.seq, d.attempt, reason))
	if done && d.q.d == SQLite {
		_, err = r.ExecContext(ctx, d.q.sql.remove, d.seq)
	}
	return done && err == nil, err
}

func affected(res sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// settle makes a call that ends the lease. If the job is not leased to d any more, the call
// succeeds if the fate of the job shows that the same call had its effect before.
func (d *delivery) settle(ctx context.Context, f func(r runner) (bool, error), confirms func(fate string) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := false
	fate := ""
	err := d.q.write(ctx, func() (err error) {
		if d.q.d == SQLite {
			err = d.q.inTx(ctx, func(tx *sql.Tx) (err error) {
				done, err = f(tx)
				return err
			})
		} else {
			done, err = f(d.q.db)
		}
		if err != nil || done {
			return err
		}
		fate, err = d.fate(ctx)
		return err
	})
	switch {
	case err != nil:
		return d.failed(ctx, err)
	case done || confirms(fate):
		return nil
	}
	return d.lost(fate)
}

// What can have become of the job, for d.
const (
	fateDone    = "done"    // acknowledged at this attempt
	fateDead    = "dead"    // buried at this attempt
	fateBack    = "back"    // given back at this attempt
	fateHeld    = "held"    // it is leased to d
	fateExpired = "expired" // it was; the lease is over, and nobody else has it
	fateLost    = "lost"    // another attempt had it, or has it
	fateGone    = "gone"    // there is nothing about it

	// It is not leased, in another row and as before this attempt: d may have released it.
	fateReleased = "released"
)

func (d *delivery) fate(ctx context.Context) (fate string, err error) {
	err = d.q.db.QueryRowContext(ctx, d.q.sql.fate, d.seq, d.attempt, d.q.name, d.id).Scan(&fate)
	return fate, err
}

func (d *delivery) lost(fate string) error {
	if d.acknowledged(fate) {
		return fmt.Errorf("%w: attempt %d of job %q", jobs.ErrAcked, d.attempt, d.id)
	}
	what := "is another's, or over"
	switch fate {
	case fateDead:
		what = "is over: it was buried"
	case fateBack, fateReleased:
		what = "is over: it was given back"
	case fateExpired:
		what = "is over"
	}
	return fmt.Errorf("%w: that of attempt %d of job %q %s", jobs.ErrLeaseLost, d.attempt, d.id, what)
}

func (d *delivery) failed(ctx context.Context, err error) error {
	return d.q.failed(ctx, fmt.Errorf("job %q: %w", d.id, err))
}

// acknowledged reports whether the job with that fate was acknowledged by d. What was, and since
// then forgotten, is gone, or another one.
func (d *delivery) acknowledged(fate string) bool {
	return fate == fateDone || d.acked.Load() || fate == fateGone && d.inTx.Load()
}

func (d *delivery) Ack(ctx context.Context) error {
	err := d.ack(ctx)
	if err == nil {
		d.acked.Store(true)
	}
	return err
}

// ack acknowledges the job, together with others that are acknowledged meanwhile.
func (d *delivery) ack(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.inTx.Load() { // a transaction may have the row for long
		return d.ackAlone(ctx)
	}
	switch err := d.q.acks.do(ctx, d); err {
	case nil:
		return nil
	case errAlone:
		return d.ackAlone(ctx)
	default:
		return d.failed(ctx, err)
	}
}

func (d *delivery) ackAlone(ctx context.Context) error {
	return d.settle(ctx, func(r runner) (bool, error) { return d.ackOn(ctx, r) }, d.acknowledged)
}

func (d *delivery) Nak(ctx context.Context, delay time.Duration) error {
	err := d.settle(ctx, func(r runner) (bool, error) {
		return affected(r.ExecContext(ctx, d.q.sql.nak, d.seq, d.attempt, d.q.d.delay(delay)))
	}, func(fate string) bool { return fate == fateBack })
	if err == nil {
		d.q.Wake()
	}
	return err
}

func (d *delivery) Release(ctx context.Context) error {
	err := d.settle(ctx, func(r runner) (bool, error) {
		if d.q.d == SQLite {
			if _, err := r.ExecContext(ctx, d.q.sql.newRow); err != nil {
				return false, err
			}
		}
		return affected(r.ExecContext(ctx, d.q.sql.release, d.seq, d.attempt))
	}, func(fate string) bool { return fate == fateReleased })
	if err == nil {
		d.q.Wake()
	}
	return err
}

func (d *delivery) Term(ctx context.Context, reason string) error {
	reason = strings.ReplaceAll(strings.ToValidUTF8(reason, "\uFFFD"), "\x00", "\uFFFD")
	return d.settle(ctx, func(r runner) (bool, error) { return d.termOn(ctx, r, reason) },
		func(fate string) bool { return fate == fateDead })
}

// Extend does not wait for a transaction that AckTx was called in. While that transaction has
// the row, no other delivery can lease the job.
func (d *delivery) Extend(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fate := fateHeld
	err := d.q.write(ctx, func() error {
		done, err := affected(d.q.db.ExecContext(ctx, d.q.sql.extend, d.seq, d.attempt, d.q.d.units(d.q.lease)))
		if err != nil || done {
			return err
		}
		if fate, err = d.fate(ctx); err != nil || fate != fateExpired || d.q.d == SQLite || !d.inTx.Load() {
			return err
		}
		var one int
		err = d.q.db.QueryRowContext(ctx, d.q.sql.free, d.seq).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			fate, err = fateHeld, nil
		}
		return err
	})
	switch {
	case err != nil:
		return d.failed(ctx, err)
	case fate == fateHeld, d.inTx.Load() && d.acknowledged(fate):
		return nil
	}
	return d.lost(fate)
}

// innermost is the delivery of this package that d is, or wraps; nil if there is none.
func innermost(d jobs.Delivery) *delivery {
	for {
		switch v := d.(type) {
		case *delivery:
			return v
		case interface{ Unwrap() jobs.Delivery }:
			d = v.Unwrap()
		default:
			return nil
		}
	}
}

// AckTx acknowledges j in tx, a transaction of the caller on the queue's database, in which
// the job has its effect. If AckTx returns nil and the transaction is committed, the job is
// done, and the effect has happened exactly once: no other attempt of the job can be
// acknowledged, before or after. The handler then returns nil.
//
// After an error, the handler rolls the transaction back and returns the error. An error that
// matches [jobs.ErrLeaseLost] means that another machine may have the job, or has done it.
//
// The job is locked from AckTx on until the transaction ends; in Postgres its lease cannot
// be lost meanwhile, but is not extended. So if a transaction that took more than a third of the lease
// is rolled back, the lease may be over, or may end before [jobs.Serve] tries to extend it again. Then
// the job may be leased again, whatever the handler returns. If a handler rolls the transaction back
// before that and returns nil, its job is acknowledged without the effect.
func (q *Queue) AckTx(ctx context.Context, tx *sql.Tx, j *jobs.Job) error {
	if tx == nil {
		return fmt.Errorf("%w: nil transaction", jobs.ErrConfig)
	}
	if j == nil {
		return fmt.Errorf("%w: nil job", jobs.ErrConfig)
	}
	d := innermost(j.Delivery())
	if d == nil || d.q.name != q.name {
		return fmt.Errorf("%w: job %q is not of queue %s", jobs.ErrConfig, j.ID, q.name)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	before := d.inTx.Swap(true) // an Extend may see that the job is gone before this returns
	done, err := d.ackOn(ctx, tx)
	if err == nil && done {
		return nil
	}
	d.inTx.Store(before)
	if err != nil {
		return d.failed(ctx, err)
	}
	return d.lost(fateLost)
}
