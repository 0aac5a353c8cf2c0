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

// A watch notifies the queues that have waiting Pulls when something has happened.
type watch struct {
	pulls  map[*Queue]int // that wait
	cancel context.CancelFunc
	end    *time.Timer   // ends the watch if no Pull waits by then
	done   chan struct{} // closed when it has given back its connection
}

// watch notifies the queue of what happens until leave is called. It is not known what has happened
// between the look of the Pull and this call. So watch also notifies the queue at once.
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
		// If the caller closes the database next, all its connections close.
		select {
		case <-w.done:
		case <-time.After(leaveFor):
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
	// wait blocks until the next look is due. changed says whether the last look found a
	// change. wait returns false if no look is to follow.
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

// channel is the channel on which the queues of this name are notified. Its name has at most 63
// bytes, as Postgres demands.
func (q *Queue) channel() string {
	const prefix = "shoal_"
	if len(prefix)+len(q.name) > 63 {
		sum := sha256.Sum256([]byte(q.name))
		return prefix + hex.EncodeToString(sum[:16])
	}
	return prefix + q.name
}

// notify makes other processes look, if the database is Postgres. It notifies in a transaction of
// its own. Calls during that transaction share the next one, because Postgres commits transactions
// that notify one after the other. Nothing depends on them, so they wait for no disk.
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

// Flush blocks until other processes that have a [Listener] have been notified of all that this
// Queue has enqueued and given back before the call. If ctx ends first, Flush returns its cause.
// Enqueue does not wait for the notification. So if a process ends soon after it has enqueued
// something, it should call Flush before it closes the database: otherwise the others may see the
// jobs as late as without a Listener. The same happens if the notification fails. Then Flush
// returns nil, as nothing is lost. On SQLite there is nothing to wait for.
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
