package shoalsql

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/shoal-go/shoal/jobs"
)

// This file is how messages become rows. Calls of Enqueue at the same time are gathered (gather.go)
// and inserted in one transaction.

// Enqueue implements [jobs.Sink]. It blocks until the database has committed all messages
// or ctx ends. If the database returns an error, no message is in the queue. If ctx ends, or
// the connection is lost during the commit, all messages may be in it. A message with a
// known ID is ignored. Calls at the same time are committed together. On SQLite Enqueue fails if
// another program has been writing for 10 s. A call that waits behind others of this process may
// take up to 20 s to fail, and longer if they write for long or there are hundreds of them.
func (q *Queue) Enqueue(ctx context.Context, ms ...jobs.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	rs, err := q.rows(ms)
	if err != nil || len(rs) == 0 {
		return err
	}
	err = errAlone
	if sizeOf(rs) <= mostGathered && !anyOwn(rs) {
		for i := range rs { // the caller may return before they are sent
			rs[i].data = bytes.Clone(rs[i].data)
		}
		err = q.puts.do(ctx, rs)
	}
	if err == errAlone {
		_, err = q.putNow(ctx, rs)
	}
	if err != nil {
		return q.failed(ctx, err)
	}
	return nil
}

// putNow enqueues rows. After an error nothing is in the queue if they were not all sent.
func (q *Queue) putNow(ctx context.Context, rs []row) (sent bool, err error) {
	err = q.write(ctx, func() error {
		sent = false
		return q.inTx(ctx, func(tx *sql.Tx) error {
			err := q.insert(ctx, tx, rs)
			sent = err == nil
			return err
		})
	})
	if err == nil {
		q.Wake()
	}
	return sent, err
}

// EnqueueTx is like [Queue.Enqueue], in the caller's transaction on the queue's database:
// the messages are in the queue once the transaction is committed. Pulls see them when they
// look next; [Queue.Wake] makes them look at once. After an error, roll the transaction back.
func (q *Queue) EnqueueTx(ctx context.Context, tx *sql.Tx, ms ...jobs.Message) error {
	if tx == nil {
		return fmt.Errorf("%w: nil transaction", jobs.ErrConfig)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	rs, err := q.rows(ms)
	if err != nil || len(rs) == 0 {
		return err
	}
	if err := q.insert(ctx, tx, rs); err != nil {
		return q.failed(ctx, err)
	}
	return nil
}

// A row is a message as it is stored.
type row struct {
	id     string
	own    bool // the ID is the caller's
	data   []byte
	header any // JSON, or nil
	delay  int64
}

func (q *Queue) rows(ms []jobs.Message) ([]row, error) {
	rs := make([]row, len(ms))
	for i, m := range ms {
		var err error
		if rs[i], err = q.row(m); err != nil {
			return nil, fmt.Errorf("shoalsql: queue %s: message %d of %d: %w", q.name, i, len(ms), err)
		}
	}
	return rs, nil
}

func (q *Queue) row(m jobs.Message) (r row, err error) {
	r = row{id: m.ID, own: m.ID != "", data: m.Data, delay: q.d.delay(m.Delay)}
	switch {
	case !r.own:
		r.id = rand.Text()
	case len(m.ID) > mostID:
		return r, fmt.Errorf("%w: an ID of %d bytes: want up to %d", jobs.ErrConfig, len(m.ID), mostID)
	case !isText(m.ID):
		return r, fmt.Errorf("%w: the ID %q: want UTF-8 without a NUL", jobs.ErrConfig, m.ID)
	}
	if r.data == nil {
		r.data = []byte{} // nil would be NULL
	}
	if len(m.Header) > 0 {
		for k, v := range m.Header {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return r, fmt.Errorf("%w: the header %q, %q: want UTF-8", jobs.ErrConfig, k, v)
			}
		}
		b, err := json.Marshal(m.Header)
		if err != nil {
			return r, err
		}
		r.header = string(b)
	}
	return r, nil
}

// isText reports whether Postgres can store s in a column of type text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// insert inserts rows. The number of rows of a statement is a power of 2, so that there
// are few texts of statements to be prepared.
func (q *Queue) insert(ctx context.Context, tx *sql.Tx, rs []row) error {
	for len(rs) > 0 {
		k := mostRows
		for k > 1 && (k > len(rs) || bytesOf(rs[:k]) > mostBytes) {
			k /= 2
		}
		if err := q.insertSome(ctx, tx, rs[:k]); err != nil {
			return err
		}
		rs = rs[k:]
	}
	return nil
}

func anyOwn(rs []row) bool {
	return slices.ContainsFunc(rs, func(r row) bool { return r.own })
}

func bytesOf(rs []row) (n int) {
	for _, r := range rs {
		n += len(r.data)
	}
	return n
}

func (q *Queue) insertSome(ctx context.Context, tx *sql.Tx, rs []row) error {
	args := make([]any, 0, 1+4*len(rs))
	args = append(args, q.name)
	own := false
	for _, r := range rs {
		args = append(args, r.id, r.data, r.header, r.delay)
		own = own || r.own
	}
	res, err := tx.QueryContext(ctx, q.sql.insert(len(rs)), args...)
	if err != nil {
		return err
	}
	defer res.Close()
	inserted := make([]any, 0, len(rs))
	for res.Next() {
		var seq int64
		if err := res.Scan(&seq); err != nil {
			return err
		}
		inserted = append(inserted, seq)
	}
	if err := errors.Join(res.Err(), res.Close()); err != nil {
		return err
	}
	if !own || len(inserted) == 0 {
		return nil
	}
	// Those whose ID belongs to a job that is over go again. This is a statement of its
	// own, and the second: that job may have come to its end while the first one waited
	// for it, and is over only to a statement that begins after that.
	for len(inserted) < len(rs) {
		inserted = append(inserted, int64(0))
	}
	_, err = tx.ExecContext(ctx, q.sql.uninsert(len(rs)), inserted...)
	return err
}
