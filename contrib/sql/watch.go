package shoalsql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

// While a Pull waits, something watches the database for what other processes do, so that
// the Pull looks at once and not only when its poll is due: on SQLite one watcher for all
// queues of a database handle, which looks at the version of the database when the system says
// that its log is written, or else every few milliseconds; on Postgres a Listener for each
// queue. What they miss the poll finds.

// A Listener listens on a channel of Postgres, on a connection of its own. It sends LISTEN,
// calls notify once when that has succeeded, and then for each notification. It returns when
// ctx ends, or when the connection is lost. The module contrib/sql/pgx has one.
type Listener func(ctx context.Context, channel string, notify func()) error

// WithListener makes a Pull that waits look for jobs as soon as another process has enqueued or
// given back one, instead of after the time of [WithPoll]. It is for Postgres; on SQLite a
// Queue sees that by itself. It works with PgBouncer if l connects to Postgres directly.
//
// l runs while a Pull waits, and for 10 s after that. If it returns, it is called again after
// a second at least, and the Pull polls meanwhile.
func WithListener(l Listener) Option { return func(c *config) { c.listener = &l } }

const (
	watchEvery = 5 * time.Millisecond // between two looks at the version of a SQLite database
	watchConns = 4                    // connections that a handle must be allowed, if one is to watch
	listenFor  = 10 * time.Second     // after the last Pull
	watchAgain = time.Second          // after a watcher has failed
	tellEvery  = 5 * time.Millisecond // between two notifications of Postgres
	mostRest   = 20 * time.Millisecond
)

// watches are those under way, by the handle or the queue that they are for.
var watches struct {
	mu sync.Mutex
	m  map[any]*watch
}

// A watch tells the queues that have Pulls which wait that something has happened.
type watch struct {
	pulls  map[*Queue]int // that wait
	cancel context.CancelFunc
	end    *time.Timer   // of one that nobody needs now
	done   chan struct{} // closed when it has given back its connection
}

// watch has the queue told of what happens until leave is called. What happened before, after
// the Pull has looked, is unknown, so it is told at once.
func (q *Queue) watch() (leave func()) {
	key, run, linger := any(q.db), q.watchFile, time.Duration(0)
	switch most := q.db.Stats().MaxOpenConnections; {
	case q.d == Postgres && q.listener == nil:
		return func() {}
	case q.d == Postgres:
		key, run, linger = q, q.listen, listenFor
	case q.poll <= watchEvery || most > 0 && most < watchConns: // it would need one for itself
		return func() {}
	}
	watches.mu.Lock()
	defer watches.mu.Unlock()
	w := watches.m[key]
	if w == nil {
		ctx, cancel := context.WithCancel(context.Background())
		w = &watch{pulls: make(map[*Queue]int), cancel: cancel, done: make(chan struct{})}
		if watches.m == nil {
			watches.m = make(map[any]*watch)
		}
		watches.m[key] = w
		go func() {
			defer close(w.done)
			for ctx.Err() == nil {
				run(ctx, w.tell)
				select {
				case <-ctx.Done():
				case <-time.After(watchAgain):
				}
			}
		}()
	}
	if w.end != nil {
		w.end.Stop()
		w.end = nil
	}
	w.pulls[q]++
	q.told()
	over := func() {
		w.cancel()
		delete(watches.m, key)
	}
	// last takes the Pull away, and reports whether it was the last one.
	last := func() bool {
		watches.mu.Lock()
		defer watches.mu.Unlock()
		if w.pulls[q]--; w.pulls[q] > 0 {
			return false
		}
		if delete(w.pulls, q); len(w.pulls) > 0 {
			return false
		}
		if linger == 0 {
			over()
			return true
		}
		var end *time.Timer
		end = time.AfterFunc(linger, func() {
			watches.mu.Lock()
			defer watches.mu.Unlock()
			if w.end == end { // or a Pull has come meanwhile
				over()
			}
		})
		w.end = end
		return true
	}
	return func() {
		if !last() || linger > 0 {
			return
		}
		// Who closes the database now closes all of its connections.
		select {
		case <-w.done:
		case <-time.After(endFor):
		}
	}
}

// tell tells the queues that something has happened.
func (w *watch) tell() {
	watches.mu.Lock()
	defer watches.mu.Unlock()
	for q := range w.pulls {
		q.told()
	}
}

// told makes the Pulls of this Queue look for what others may have done.
func (q *Queue) told() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.heard)
	q.heard = make(chan struct{})
}

// watchFile tells when a SQLite database has changed.
func (q *Queue) watchFile(ctx context.Context, tell func()) {
	conn, err := q.db.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	// It is a number of this connection's, which changes when another one has committed.
	stmt, err := conn.PrepareContext(ctx, `PRAGMA data_version`)
	if err != nil {
		return
	}
	defer stmt.Close()
	var w *waiter
	for last := int64(-1); ; {
		var version int64
		// It reads shared memory, and waits for nothing. A context would cost more than that.
		if err := stmt.QueryRow().Scan(&version); err != nil {
			return
		}
		changed := version != last
		if last = version; changed {
			tell()
		}
		if w == nil { // the log is there since the first look
			if w, err = untilWritten(ctx, q.file+"-wal"); err != nil {
				w = byTheClock(ctx)
			}
			defer w.close()
		}
		if !w.wait(changed) {
			return
		}
	}
}

// A waiter waits until it is time to look at a database again.
type waiter struct {
	// wait is told whether the last look has found a change. It returns false if there is to be
	// no other look.
	wait  func(changed bool) bool
	close func()
}

// byTheClock is for where the system does not tell when a file is written.
func byTheClock(ctx context.Context) *waiter {
	tick := time.NewTicker(watchEvery)
	return &waiter{close: tick.Stop, wait: func(bool) bool {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			return true
		}
	}}
}

// listen tells of notifications of Postgres.
func (q *Queue) listen(ctx context.Context, tell func()) {
	_ = (*q.listener)(ctx, q.channel(), tell)
}

// channel is where the queues of this name are told of jobs. Postgres takes up to 63 bytes.
func (q *Queue) channel() string {
	const prefix = "shoal_"
	if len(prefix)+len(q.name) > 63 {
		sum := sha256.Sum256([]byte(q.name))
		return prefix + hex.EncodeToString(sum[:16])
	}
	return prefix + q.name
}

// notify tells other processes to look, if there is a way to. It is a transaction of its own,
// and calls that come meanwhile share the next one: Postgres commits those that notify one
// after the other. Nothing depends on it, so it waits for no disk.
func (q *Queue) notify() {
	if q.d != Postgres {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked++
	if q.telling {
		return
	}
	q.telling = true
	go func() {
		for {
			q.mu.Lock()
			asked := q.asked
			q.telling = q.said < asked
			more := q.telling
			q.mu.Unlock()
			if !more {
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), callFor)
			// If it fails, the poll finds what it was about.
			_, _ = q.db.ExecContext(ctx, `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, '')`, q.channel())
			cancel()
			q.mu.Lock()
			q.said = asked
			close(q.tells)
			q.tells = make(chan struct{})
			q.mu.Unlock()
			time.Sleep(tellEvery)
		}
	}()
}

// Flush blocks until other processes that have a [Listener] have been told of what this Queue has
// enqueued and given back before the call, or ctx ends; then it returns the cause. Enqueue does
// not wait for that. So call Flush in a process that ends soon after it has enqueued something,
// before the database is closed: otherwise others may see it as late as without a Listener. If
// telling them fails, they do, and Flush returns nil: nothing is lost. On SQLite there is nothing
// to wait for.
func (q *Queue) Flush(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for asked := q.asked; q.said < asked; {
		tells := q.tells
		q.mu.Unlock()
		select {
		case <-tells:
			q.mu.Lock()
		case <-ctx.Done():
			q.mu.Lock()
			return context.Cause(ctx)
		}
	}
	return nil
}
