package shoalsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Requests that several goroutines make at the same time are done by one transaction, as
// databases do with their logs (group commit): while one transaction is under way, the requests
// for the next one are gathered. Each goroutine still returns only when its own request is
// committed.
//
// Such a transaction must wait for nothing but the disk. A request that may wait for another
// transaction is done alone, on the goroutine and with the context of its caller. An example is a
// message with an ID of the caller's, which another transaction may have enqueued too.

// mostGathered bounds what is gathered for one transaction: jobs acknowledged, or messages,
// of which a large one counts for several.
const mostGathered = 256

func sizeOf(rs []row) (n int) {
	for _, r := range rs {
		n += 1 + len(r.data)/(8<<10)
	}
	return n
}

// errAlone says that the transaction has not done the request. To try it alone will succeed, or
// will show why it fails.
var errAlone = errors.New("shoalsql: to be done alone")

// A gatherer makes one call of run for all that is asked for while the previous one is
// under way.
type gatherer[T any] struct {
	size func(T) int // of mostGathered
	run  func(all []*asked[T])

	mu      sync.Mutex
	waiting []*asked[T]
	running bool
}

// An asked is one call of do.
type asked[T any] struct {
	ctx  context.Context
	what T
	err  error         // set by run
	done chan struct{} // closed when run has returned
}

// do does what together with other requests. If ctx ends first, it is not known whether what is done.
func (g *gatherer[T]) do(ctx context.Context, what T) error {
	a := &asked[T]{ctx: ctx, what: what, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, a)
	begin := !g.running
	g.running = true
	g.mu.Unlock()
	if begin {
		go g.loop()
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loop runs until nothing waits.
func (g *gatherer[T]) loop() {
	for {
		g.mu.Lock()
		all, size, n := []*asked[T](nil), 0, 0
		for _, a := range g.waiting {
			if size += g.size(a.what); size > mostGathered && len(all) > 0 {
				break
			}
			n++
			if a.err = a.ctx.Err(); a.err != nil {
				close(a.done)
				continue
			}
			all = append(all, a)
		}
		clear(g.waiting[:n])
		g.waiting = g.waiting[n:]
		if n == 0 {
			g.running, g.waiting = false, nil
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		if len(all) == 0 {
			continue
		}
		g.run(all)
		for _, a := range all {
			close(a.done)
		}
	}
}

// alone returns the error of requests whose transaction has failed: errAlone, or on SQLite another
// one if ctx, that of the transaction, has ended. Another transaction has been writing for all this
// time. Each request alone would wait for it again, and hold up the other writers of the process.
func (q *Queue) alone(ctx context.Context, err error) error {
	if q.d == SQLite && ctx.Err() != nil {
		return fmt.Errorf("the database was busy for %v: %v", callFor, err) // not %w: it is not the context of a caller that has ended
	}
	return errAlone
}

// putAll enqueues the rows of several calls.
func (q *Queue) putAll(all []*asked[[]row]) {
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	var rs []row
	for _, a := range all {
		rs = append(rs, a.what...)
	}
	sent, err := q.putNow(ctx, rs)
	if err != nil && !sent { // it may be the fault of one of them
		err = q.alone(ctx, err)
	}
	for _, a := range all {
		a.err = err
	}
}

// A token tells attempts of jobs apart: one transaction may be asked for two of one job.
type token struct {
	seq     int64
	attempt int
}

// ackAll acknowledges several jobs, each as if alone.
func (q *Queue) ackAll(all []*asked[*delivery]) {
	ctx, cancel := context.WithTimeout(context.Background(), callFor)
	defer cancel()
	acked := make(map[token]bool, len(all))
	failed := errAlone
	if err := q.ackSome(ctx, all, acked); err != nil {
		clear(acked)
		failed = q.alone(ctx, err)
	}
	for _, a := range all {
		if !acked[token{a.what.seq, a.what.attempt}] {
			a.err = failed
		}
	}
}

// ackSome adds to acked what it has acknowledged. It skips rows that another transaction has locked.
func (q *Queue) ackSome(ctx context.Context, all []*asked[*delivery], acked map[token]bool) error {
	if q.d == SQLite {
		return q.write(ctx, func() error {
			clear(acked)
			return q.inTx(ctx, func(tx *sql.Tx) error {
				for _, a := range all {
					done, err := a.what.ackOn(ctx, tx)
					if err != nil {
						return err
					}
					if done { // or it is there twice
						acked[token{a.what.seq, a.what.attempt}] = true
					}
				}
				return nil
			})
		})
	}
	var seqs, attempts strings.Builder // literals of arrays, which every driver can send
	for i, a := range all {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		seqs.WriteByte(sep)
		seqs.WriteString(strconv.FormatInt(a.what.seq, 10))
		attempts.WriteByte(sep)
		attempts.WriteString(strconv.Itoa(a.what.attempt))
	}
	seqs.WriteByte('}')
	attempts.WriteByte('}')
	return q.write(ctx, func() error {
		clear(acked)
		rows, err := q.db.QueryContext(ctx, q.sql.ackMany, seqs.String(), attempts.String(), q.d.units(q.remember))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t token
			if err := rows.Scan(&t.seq, &t.attempt); err != nil {
				return err
			}
			acked[t] = true
		}
		return errors.Join(rows.Err(), rows.Close())
	})
}
