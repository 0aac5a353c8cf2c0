// Package shoalsql is a queue for package jobs of shoal in a SQL database: Postgres 11 or
// later, or SQLite 3.42 or later. It links no driver: the program opens the database with
// a driver of its choice.
//
// A [Queue] is a set of rows in tables that all queues of a database share. [Open] creates
// the tables if they are missing, and brings those of an older version of this package to the
// present one; [Migrations] returns the statements that do so. An older version refuses to open
// tables that are newer than it knows.
//
// # Guarantees and costs
//
// Once Enqueue, Ack, Nak, Release or Term has returned nil, the database has committed it.
//
// Leases are measured by the clock of the database, so the clocks of the machines do not
// matter. An answer counts only if the job is still leased for the same attempt; otherwise
// it is an error that matches [jobs.ErrLeaseLost]. An answer that is repeated because the
// first one was not confirmed succeeds if the first one had its effect.
//
// Jobs come in the order in which they became ready: when they arrived, when their delay had
// passed, when they were given back, or when their lease ended. They never come early. A Queue
// sees its own new jobs at once, and those of other processes within milliseconds: on SQLite
// because it watches the file, on Postgres with [WithListener]. Without that, and where it
// fails, they come up to [WithPoll] late; so do those of a process that ends without
// [Queue.Flush].
//
// The effect of a job on the same database can happen exactly once: [Queue.AckTx]
// acknowledges the job in the transaction of the effect. [Queue.EnqueueTx] enqueues a job in
// the transaction that the job is about.
//
// An ID is unique in a queue while its job or its dead letter exists, and for a while after
// the job was acknowledged ([WithRemember]).
//
// # Postgres
//
// A Pull is one statement, which skips rows that others have locked. A Queue may run several
// queries at the same time, so it needs connections in addition to those of the handlers. A
// [Listener] has one of its own.
// Transactions should be READ COMMITTED, which is the default. At higher levels AckTx may
// fail with a serialization failure; then its transaction has to be tried again.
//
// # SQLite
//
// Open the database with [SQLiteDSN], or with the same settings in the words of another
// driver:
//
//   - journal_mode WAL: readers and the writer do not wait for each other;
//   - synchronous FULL: what was confirmed survives a power failure;
//   - a busy_timeout;
//   - transactions that begin IMMEDIATE: otherwise a transaction that reads before it writes
//     fails if another one has written in between.
//
// SQLite has one writer at a time, so no lease can be extended while a transaction writes.
// So a transaction that writes must be much shorter than a lease.
//
// Set SetMaxOpenConns to at least 4, and to at least three more than the number of
// transactions that handlers hold at the same time. One connection is for watching the file
// while Pulls wait; with less than 4 they poll instead. With 1, a handler with an open
// transaction that calls Enqueue waits for itself.
//
// On Linux the kernel says when the log of the database is written (inotify). On a machine with
// two busy CPUs, a job of another process started 4 ms after it was enqueued (median), and after 9
// to 12 ms in one case of 100. An idle process took 0.25 to 0.35 % of a CPU with polls 500 ms
// apart, and 0.1 % with polls 2 s apart, as in the command shoal work. On other systems, and where
// the kernel refuses because other programs watch too much, the Queue asks the database 200 times
// a second whether it has changed, which takes 1 to 4 % of a CPU.
//
// Each lease and each extension rewrites the row with its payload, so keep large payloads
// elsewhere. A database in memory cannot be used: each connection would have one of its own.
package shoalsql

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/shoal-go/shoal/jobs"
)

const (
	defaultLease    = 30 * time.Second
	defaultPoll     = 500 * time.Millisecond
	defaultRemember = 2 * time.Minute

	callFor    = 10 * time.Second     // how long a Pull waits for the database
	leastPause = 5 * time.Millisecond // between two looks at a queue where jobs are due one after the other
	endFor     = time.Second          // and how long after the end of its context

	mostPull  = 1000    // jobs
	mostRows  = 512     // of a statement that inserts; a power of 2
	mostBytes = 8 << 20 // of payloads in one
	mostID    = 1000    // bytes: an index takes no more than 2700 or so

	sweepEvery = 10 * time.Second
	sweepRows  = 1000
	mostSweeps = 20
)

// An Option configures [Open].
type Option func(*config)

type config struct {
	lease    time.Duration
	poll     time.Duration
	remember time.Duration
	existing bool
	listener *Listener
}

// WithLease sets how long this Queue leases a job. The default is 30 s, the minimum 100 ms.
func WithLease(d time.Duration) Option { return func(c *config) { c.lease = d } }

// WithPoll sets the time after which a Pull that has found no job looks again for jobs that
// other processes have enqueued and of which it was not notified. The time is shortened at random
// by up to a quarter. Pull looks at once when this Queue enqueues or gives back a job, when the
// delay or the lease of a job that it knows of ends, when a [Listener] is notified, and within
// milliseconds of a change to a SQLite database. The default is 500 ms, the minimum 1 ms.
func WithPoll(d time.Duration) Option { return func(c *config) { c.poll = d } }

// WithRemember sets how long the database remembers the ID of a job that this Queue has
// acknowledged, and ignores other jobs with it. The default is 2 minutes, the minimum 100 ms.
func WithRemember(d time.Duration) Option { return func(c *config) { c.remember = d } }

// WithExisting makes [Open] create and migrate nothing: it returns an error if a table is
// missing, or if the tables do not have the present version.
func WithExisting() Option { return func(c *config) { c.existing = true } }

// A Queue is a [jobs.Source] and a [jobs.Sink], made by [Open]. A process needs one Queue for
// each queue that it uses. Its methods may be called by several goroutines. It need not be
// closed; see [Queue.Flush] for a process that ends soon after it has enqueued something.
type Queue struct {
	config
	name string
	db   *sql.DB
	d    Dialect
	sql  *statements
	file string        // of SQLite
	turn chan struct{} // of SQLite: holds an element while a goroutine of this process writes
	puts gatherer[[]row]
	acks gatherer[*delivery]

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, when something may be leased
	heard   chan struct{} // and when others may have done something
	telling bool          // notify has a goroutine
	asked   uint64        // how often notify was called
	said    uint64        // and for how many of these calls the others were notified
	tells   chan struct{} // closed, and made anew, when there are more of these
	swept   time.Time     // when shoal_done was, last
	most    int           // jobs that a Pull may ask for
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// Open opens the queue with the given name. A name has 1 to 100 letters, digits, underscores
// and hyphens. Open blocks until the database has answered or ctx ends. The caller closes the
// database.
//
// Open creates the tables if they are missing, and brings older ones to [SchemaVersion], in one
// transaction; other programs that do so at the same time wait for it.
//
// If an argument or option is invalid, a table is not that of [Schema], or the tables have a
// newer version, the error matches [jobs.ErrConfig] and names it.
func Open(ctx context.Context, db *sql.DB, d Dialect, name string, opts ...Option) (*Queue, error) {
	c := config{lease: defaultLease, poll: defaultPoll, remember: defaultRemember}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("%w: option %d is nil", jobs.ErrConfig, i)
		}
		o(&c)
	}
	switch {
	case db == nil:
		return nil, fmt.Errorf("%w: nil database", jobs.ErrConfig)
	case d != Postgres && d != SQLite:
		return nil, fmt.Errorf("%w: the dialect %v: want Postgres or SQLite", jobs.ErrConfig, d)
	case !validName.MatchString(name):
		return nil, fmt.Errorf("%w: the name %q of a queue: want 1 to 100 letters, digits, _ or -", jobs.ErrConfig, name)
	case c.lease < 100*time.Millisecond:
		return nil, fmt.Errorf("%w: WithLease(%v): want at least 100ms", jobs.ErrConfig, c.lease)
	case c.poll < time.Millisecond:
		return nil, fmt.Errorf("%w: WithPoll(%v): want at least 1ms", jobs.ErrConfig, c.poll)
	case c.listener != nil && *c.listener == nil:
		return nil, fmt.Errorf("%w: WithListener(nil)", jobs.ErrConfig)
	case c.listener != nil && d != Postgres:
		return nil, fmt.Errorf("%w: WithListener: want Postgres, which has LISTEN, and not %v", jobs.ErrConfig, d)
	case c.remember < 100*time.Millisecond:
		return nil, fmt.Errorf("%w: WithRemember(%v): want at least 100ms", jobs.ErrConfig, c.remember)
	}
	q := &Queue{config: c, name: name, db: db, d: d, sql: statementsOf(d), changed: make(chan struct{}), heard: make(chan struct{}), tells: make(chan struct{}), swept: time.Now(), most: mostPull}
	q.puts = gatherer[[]row]{size: sizeOf, run: q.putAll}
	q.acks = gatherer[*delivery]{size: func(*delivery) int { return 1 }, run: q.ackAll}
	if err := q.stand(ctx); err != nil {
		return nil, q.failed(ctx, err)
	}
	return q, nil
}

// Lease returns how long a job is leased.
func (q *Queue) Lease() time.Duration { return q.lease }

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Wake makes the Pulls that wait look for jobs at once: those of this Queue, and on Postgres
// those of other processes that have a [Listener]. It does not block. Call it after the commit of
// a transaction with [Queue.EnqueueTx].
func (q *Queue) Wake() {
	q.mu.Lock()
	close(q.changed)
	q.changed = make(chan struct{})
	q.mu.Unlock()
	q.notify()
}

// change returns what is closed when this Queue has changed something, and when others may have.
func (q *Queue) change() (changed, heard <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed, q.heard
}

// Enqueue implements [jobs.Sink]. It blocks until the database has committed all messages
// or ctx ends. If the database returns an error, no message is in the queue. If ctx ends, or
// the connection is lost during the commit, all messages may be in it. A message with a
// known ID is ignored. Calls at the same time are committed together.
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
	case !utf8.ValidString(m.ID) || strings.Contains(m.ID, "\x00"):
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

func (q *Queue) leaseSome(ctx context.Context, n int) (ds []*delivery, err error) {
	rows, err := q.db.QueryContext(ctx, q.sql.pull, q.name, n, q.d.units(q.lease))
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
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	// The database returns them in any order.
	slices.SortFunc(ds, func(a, b *delivery) int { return int(a.seq - b.seq) })
	return ds, nil
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

// failed names the queue, and the end of ctx where the driver does not.
func (q *Queue) failed(ctx context.Context, err error) error {
	if e := ctx.Err(); e != nil && !errors.Is(err, e) {
		err = fmt.Errorf("%w: %w", e, err)
	}
	return fmt.Errorf("shoalsql: queue %s: %w", q.name, err)
}
