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
// first one was not confirmed succeeds if the database still shows the effect of the first one.
// That of an Ack is shown while the ID is remembered ([WithRemember]), and that of a Term while the
// dead letter exists. After Nak and Release the job is in the queue again, and it is shown until
// the next lease.
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
// [Listener] has one of its own. The role of the connections needs SELECT, INSERT, UPDATE and
// DELETE on the tables.
//
// Transactions should be READ COMMITTED, which is the default. At higher levels AckTx and
// EnqueueTx may fail with a serialization failure; then the transaction has to be tried again.
// There EnqueueTx does not know what others have committed since the first statement of the
// transaction. So it does not recognise the ID of a job that has ended since then, and that job
// runs again.
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
// So a transaction that writes must be much shorter than a lease. Each extension is such a
// transaction, and a job is extended three times in a lease: with one of 30 s and a disk that
// syncs in 5 ms, fewer than 2,000 jobs may run for long at once.
//
// Set SetMaxOpenConns to at least 4, and to at least three more than the number of
// transactions that handlers hold at the same time. That is for each [sql.DB], however many queues
// use it. One connection is for watching the file while Pulls wait; with less than 4 they poll
// instead.
//
// A handler with an open transaction must use EnqueueTx: Enqueue would wait for that transaction,
// with any number of connections, and fail. Meanwhile no other job could be enqueued, leased or
// acknowledged.
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
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

const (
	defaultLease    = 30 * time.Second
	defaultPoll     = 500 * time.Millisecond
	defaultRemember = 2 * time.Minute

	callFor    = 10 * time.Second     // how long a Pull waits for the database
	leastPause = 5 * time.Millisecond // between two looks at a queue where jobs are due one after the other

	// endFor is how long a Pull waits for its statement after the end of its context, and leaveFor how
	// long it then waits for the watcher. jobs.Serve waits for both for 1 s.
	endFor   = 700 * time.Millisecond
	leaveFor = 200 * time.Millisecond

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

// WithLease sets how long this Queue leases a job. The default is 30 s, the minimum 100 ms. Other
// processes may choose another time.
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
	file string    // of SQLite
	turn chan turn // of SQLite: holds the turn while no goroutine of this process writes
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
	case ctx == nil:
		return nil, fmt.Errorf("%w: nil context", jobs.ErrConfig)
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

// failed names the queue, and the end of ctx where the driver does not.
func (q *Queue) failed(ctx context.Context, err error) error {
	if e := ctx.Err(); e != nil && !errors.Is(err, e) {
		err = fmt.Errorf("%w: %w", e, err)
	}
	return fmt.Errorf("shoalsql: queue %s: %w", q.name, err)
}
