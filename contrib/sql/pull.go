package shoalsql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// This file is how jobs are leased, and how a Pull waits when there are none. Each Pull also sees to
// it that IDs are forgotten which need no longer be remembered.

// Pull implements [jobs.Source]. It leases at most 1000 jobs, and fewer for a while if the
// database could not return as many within 10 s, for example because they are large. An
// error is permanent ([jobs.IsPermanent]) if a table is missing, or if the database denies
// access.
func (q *Queue) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: Pull(%d): want at least 1", jobs.ErrConfig, n)
	}
	n = min(n, mostPull)
	var soon time.Duration // the last pause, if a job was due and not there
	var rest time.Duration // after a look that found nothing, notifications start no look for this long
	var leave func()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		changed, heard := q.change()
		looked := time.Now()
		ds, next, err := q.pull(ctx, n)
		if len(ds) > 0 {
			return ds, nil
		}
		if err != nil {
			if err = q.failed(ctx, err); hopeless(err) {
				err = jobs.Permanent(err)
			}
			return nil, err
		}
		if leave == nil {
			leave = q.watch()
			defer leave()
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(q.pause(ctx, next, &soon)):
		case <-heard:
			// The change may not concern this queue, or other processes were faster. If that
			// happens often, the Pull looks less often.
			wait := rest - time.Since(looked)
			if rest = min(max(2*rest, leastPause), mostRest); wait < -mostRest {
				rest = 0
			}
			if wait > 0 {
				select {
				case <-ctx.Done():
				case <-changed:
				case <-time.After(wait):
				}
			}
		}
	}
}

// pause is how long to wait when nothing is there: until the next job is due or the next lease
// ends, so that both are seen in time, but not for longer than WithPoll says. If next is nil, pause
// calls [Queue.next].
func (q *Queue) pause(ctx context.Context, next *sql.NullInt64, soon *time.Duration) time.Duration {
	most := q.poll - mathrand.N(q.poll/4+1)
	if most <= leastPause {
		return most
	}
	if next == nil {
		ctx, cancel := context.WithTimeout(ctx, callFor)
		defer cancel()
		var err error
		if next, err = q.next(ctx); err != nil {
			return most
		}
	}
	if !next.Valid {
		return most
	}
	if next.Int64 <= 0 {
		// The job has become due since the look; or another one has locked it, as a transaction
		// with AckTx does, and may take long.
		*soon = max(min(2*(*soon), most/8), leastPause)
		return *soon
	}
	*soon = 0
	// Machines that are idle need not all look in the same moment.
	return min(max(time.Duration(min(next.Int64, q.d.units(most)))*q.d.unit(), leastPause)+mathrand.N(leastPause), most)
}

// next is how long it is until a job may be leased, in the units of the dialect. It is not valid if
// there is no job.
func (q *Queue) next(ctx context.Context) (next *sql.NullInt64, err error) {
	next = new(sql.NullInt64)
	return next, q.db.QueryRowContext(ctx, q.sql.next, q.name).Scan(next)
}

// pull leases the jobs that are there. If there are none, it may return what next would return. Its
// statement does not end with ctx, because then it would not be known what the statement has leased.
// If the database is slow to answer after the end of ctx, pull returns, and jobs that the statement
// brings later are given back.
func (q *Queue) pull(ctx context.Context, n int) ([]jobs.Delivery, *sql.NullInt64, error) {
	type result struct {
		ds   []jobs.Delivery
		next *sql.NullInt64
		err  error
	}
	came := make(chan result, 1)
	go func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), callFor)
		defer cancel()
		q.sweep(own)
		n := q.atMost(n)
		ds, next, err := q.lookAndLease(own, n)
		if len(ds) == 0 && err != nil && own.Err() != nil {
			err = fmt.Errorf("the database did not answer within %v: %w", callFor, err)
			q.bound(n, n/2) // they may be large
		} else if len(ds) == n {
			q.bound(n, 2*n)
		}
		came <- result{ds, next, err}
	}()
	select {
	case r := <-came:
		return r.ds, r.next, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-came:
		return r.ds, r.next, r.err
	case <-time.After(endFor):
	}
	go func() {
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*callFor)
		defer cancel()
		for _, d := range (<-came).ds {
			_ = d.Release(own) // else its lease ends
		}
	}()
	return nil, nil, ctx.Err()
}

// atMost is how many of n jobs a Pull may ask for.
func (q *Queue) atMost(n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return min(n, q.most)
}

// bound changes what atMost says, after a Pull of n jobs: to less, or from n to more.
func (q *Queue) bound(n, most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if most < n || q.most == n {
		q.most = min(max(1, most), mostPull)
	}
}

func (q *Queue) lookAndLease(ctx context.Context, n int) (ds []jobs.Delivery, next *sql.NullInt64, err error) {
	for {
		if q.d == SQLite { // a look that finds nothing need not wait for the writer
			// A reader hardly waits, so the end of ctx matters little, and would cost more than the look.
			next, err := q.next(context.WithoutCancel(ctx))
			switch {
			case err == nil && (!next.Valid || next.Int64 > 0):
				return nil, next, nil
			case err != nil && !q.d.busy(err):
				return nil, nil, err
			}
		}
		var leased []*delivery
		err := q.write(ctx, func() (err error) {
			leased, err = q.leaseSome(ctx, n)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		for _, d := range leased {
			if d.bad == nil {
				ds = append(ds, d)
			} else if e := d.Term(ctx, fmt.Sprintf("its header is no JSON object of strings: %v", d.bad)); e != nil {
				err = e // it comes again when its lease is over
			}
		}
		switch {
		case len(ds) > 0 || len(leased) == 0:
			return ds, nil, nil
		case err != nil:
			return nil, nil, err
		}
	}
}

// leaseSome leases up to n jobs, and returns them in the order in which they became ready. An
// UPDATE of SQLite cannot return when that was, so there the jobs are read first.
func (q *Queue) leaseSome(ctx context.Context, n int) (ds []*delivery, err error) {
	lease := q.d.units(q.lease)
	var asked time.Time // before the statement that begins the leases
	defer func() {
		for _, d := range ds {
			d.leased = asked
		}
	}()
	if q.d == Postgres {
		asked = time.Now()
		return q.readJobs(q.db.QueryContext(ctx, q.sql.pull, q.name, n, lease))
	}
	err = q.inTx(ctx, func(tx *sql.Tx) (err error) {
		ds, err = q.readJobs(tx.QueryContext(ctx, q.sql.pull, q.name, n))
		if err != nil || len(ds) == 0 {
			return err
		}
		// All up to the last one are leased.
		asked = time.Now()
		_, err = tx.ExecContext(ctx, q.sql.lease, q.name, ds[len(ds)-1].seq, lease)
		return err
	})
	return ds, err
}

// readJobs reads the jobs that a statement returns.
func (q *Queue) readJobs(rows *sql.Rows, err error) (ds []*delivery, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		d := &delivery{q: q}
		var header sql.NullString
		if err := rows.Scan(&d.seq, &d.id, &d.data, &header, &d.attempt); err != nil {
			return nil, err
		}
		d.header, d.bad = decodeHeader(header)
		ds = append(ds, d)
	}
	return ds, errors.Join(rows.Err(), rows.Close())
}

func decodeHeader(s sql.NullString) (h jobs.Header, err error) {
	if s.Valid {
		err = json.Unmarshal([]byte(s.String), &h)
	}
	return h, err
}

// sweep forgets now and then the IDs that need no longer be remembered.
func (q *Queue) sweep(ctx context.Context) {
	q.mu.Lock()
	due := time.Since(q.swept) >= min(sweepEvery, q.remember)
	if due {
		q.swept = time.Now()
	}
	q.mu.Unlock()
	if !due {
		return
	}
	for range mostSweeps {
		n := int64(0)
		err := q.write(ctx, func() error {
			res, err := q.db.ExecContext(ctx, q.sql.sweep, sweepRows)
			if err == nil {
				n, err = res.RowsAffected()
			}
			return err
		})
		if err != nil || n < sweepRows {
			return // of an error the Pull that follows tells
		}
	}
	q.mu.Lock()
	q.swept = time.Time{} // there is more
	q.mu.Unlock()
}
