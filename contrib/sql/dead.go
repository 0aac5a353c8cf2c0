package shoalsql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

var (
	_ jobs.DeadStore = (*Queue)(nil)
	_ jobs.Depther   = (*Queue)(nil)
)

// mostAt is a time that Postgres can still compute with, 146,000 years from now.
const mostAt = 1 << 62

// mostDead is how many dead letters are read, retried or deleted by one statement. Other
// writers of SQLite wait for it.
const mostDead = 256

// DeadLetters implements [jobs.DeadStore]. Ages are measured by the clock of the database. With
// a type it reads the headers of all dead letters: of 50,000 in one to three seconds.
func (q *Queue) DeadLetters(ctx context.Context, f jobs.DeadFilter) (all []jobs.DeadLetter, err error) {
	_, err = q.eachDead(ctx, f, func(seqs []any) (int, error) {
		some, err := q.readDead(ctx, seqs)
		all = append(all, some...)
		return len(some), err
	})
	return all, err
}

// RetryDead implements [jobs.DeadStore]. It retries up to 256 dead letters in a transaction.
func (q *Queue) RetryDead(ctx context.Context, f jobs.DeadFilter) (int, error) {
	return q.changeDead(ctx, f, func(n int) []string { return q.d.retryDead(n, f.Newest) })
}

// DeleteDead implements [jobs.DeadStore]. It deletes up to 256 dead letters in a transaction.
func (q *Queue) DeleteDead(ctx context.Context, f jobs.DeadFilter) (int, error) {
	return q.changeDead(ctx, f, q.d.deleteDead)
}

// changeDead runs statements on the dead letters that f selects. It returns how many rows
// the last one has changed.
func (q *Queue) changeDead(ctx context.Context, f jobs.DeadFilter, statements func(n int) []string) (int, error) {
	return q.eachDead(ctx, f, func(seqs []any) (n int, err error) {
		err = q.write(ctx, func() error {
			return q.inTx(ctx, func(tx *sql.Tx) error {
				for _, s := range statements(len(seqs)) {
					res, err := tx.ExecContext(ctx, s, append([]any{q.name}, seqs...)...)
					if err != nil {
						return err
					}
					k, err := res.RowsAffected()
					if n = int(k); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err != nil {
			return 0, err
		}
		q.Wake()
		return n, nil
	})
}

// eachDead calls do with the rows of the dead letters that f selects, some at a time and in
// the order of f, and returns the sum of the results of do.
func (q *Queue) eachDead(ctx context.Context, f jobs.DeadFilter, do func(seqs []any) (int, error)) (n int, err error) {
	last, err := lastPlace(f)
	if err := cmp.Or(f.Check(), err, ctx.Err()); err != nil {
		return 0, err
	}
	if len(f.IDs) > 0 {
		// No job has an ID that is no text, and Postgres would refuse to look for it.
		f.IDs = slices.DeleteFunc(slices.Clone(f.IDs), func(id string) bool { return !isText(id) })
		if len(f.IDs) == 0 {
			return 0, nil
		}
	}
	defer func() {
		if err != nil {
			err = q.failed(ctx, fmt.Errorf("dead letters: %w", err))
		}
	}()
	// Those that are given up from now on are not selected, so this comes to an end.
	var now int64
	if err := q.db.QueryRowContext(ctx, q.d.say(`SELECT `+q.d.number("{now}"))).Scan(&now); err != nil {
		return 0, err
	}
	match := f
	match.Age, match.Within = 0, 0
	for left, more := f.Limit, true; more && (f.Limit == 0 || left > 0); {
		var some []deadPlace
		if some, err = q.pickDead(ctx, f, now, last); err != nil {
			return n, err
		}
		more = len(some) == mostDead
		var seqs []any
		for i, p := range some {
			last = &some[i]
			if f.Limit > 0 && left == 0 {
				break
			}
			if match.Match(p.letter, time.Time{}) {
				seqs = append(seqs, p.seq)
				left--
			}
		}
		if len(seqs) == 0 {
			continue
		}
		for bits.OnesCount(uint(len(seqs))) > 1 { // so that there are few texts of statements
			seqs = append(seqs, int64(0))
		}
		k, err := do(seqs)
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// A deadPlace is a row of shoal_dead.
type deadPlace struct {
	at, seq int64 // its place in the order
	letter  jobs.DeadLetter
}

// place is p as the Place of a dead letter.
func (p deadPlace) place() string { return fmt.Sprintf("%d.%d", p.at, p.seq) }

// lastPlace is the place that f.After names, or nil.
func lastPlace(f jobs.DeadFilter) (*deadPlace, error) {
	if f.After == "" {
		return nil, nil
	}
	at, seq, _ := strings.Cut(f.After, ".")
	var p deadPlace
	p.at, _ = strconv.ParseInt(at, 10, 64) // of what is no number p.place is not f.After
	p.seq, _ = strconv.ParseInt(seq, 10, 64)
	if p.place() != f.After || p.at < 0 || p.at > mostAt || p.seq < 0 {
		return nil, f.PlaceError()
	}
	return &p, nil
}

// pickDead returns the next rows after last that f may select, in its order.
func (q *Queue) pickDead(ctx context.Context, f jobs.DeadFilter, now int64, last *deadPlace) (some []deadPlace, err error) {
	args := []any{q.name, now - q.d.units(f.Age)}
	where := "queue = $1 AND at <= " + q.d.time("$2")
	arg := func(v any) string {
		args = append(args, v)
		return "$" + strconv.Itoa(len(args))
	}
	if f.Within > 0 {
		where += " AND at >= " + q.d.time(arg(now-q.d.units(f.Within)))
	}
	after := ">"
	if f.Newest {
		after = "<"
	}
	if last != nil {
		where += " AND (at, seq) " + after + " (" + q.d.time(arg(last.at)) + ", " + arg(last.seq) + ")"
	}
	if n := len(f.IDs); n > 0 && n <= mostDead {
		where += " AND id IN (" + places(len(args), n) + ")"
		for _, id := range f.IDs {
			args = append(args, id)
		}
	}
	rows, err := q.db.QueryContext(ctx, q.d.say("SELECT "+q.d.number("at")+", seq, id, header FROM shoal_dead WHERE "+
		where+" ORDER BY "+deadOrder(f.Newest)+" LIMIT "+strconv.Itoa(mostDead)), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p deadPlace
		var header sql.NullString
		if err := rows.Scan(&p.at, &p.seq, &p.letter.ID, &header); err != nil {
			return nil, err
		}
		p.letter.Header, _ = decodeHeader(header)
		some = append(some, p)
	}
	return some, rows.Err()
}

// deadOrder is the order of dead letters.
func deadOrder(newest bool) string {
	if newest {
		return "at DESC, seq DESC"
	}
	return "at, seq"
}

// readDead returns the dead letters in these rows, in this order.
func (q *Queue) readDead(ctx context.Context, seqs []any) ([]jobs.DeadLetter, error) {
	rows, err := q.db.QueryContext(ctx, q.d.say("SELECT seq, id, data, header, attempt, reason, "+q.d.number("at")+
		" FROM shoal_dead WHERE queue = $1 AND seq IN ("+places(1, len(seqs))+")"), append([]any{q.name}, seqs...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make(map[any]jobs.DeadLetter)
	for rows.Next() {
		var l jobs.DeadLetter
		var header sql.NullString
		var seq, at int64
		if err := rows.Scan(&seq, &l.ID, &l.Data, &header, &l.Attempt, &l.Reason, &at); err != nil {
			return nil, err
		}
		l.Header, _ = decodeHeader(header) // of one that is no header the reason tells
		l.Place = deadPlace{at: at, seq: seq}.place()
		l.At = time.UnixMicro(at * int64(q.d.unit()/time.Microsecond))
		found[seq] = l
	}
	var all []jobs.DeadLetter
	for _, seq := range seqs {
		if l, ok := found[seq]; ok {
			all = append(all, l)
		}
	}
	return all, rows.Err()
}

// places are n arguments of a statement, after the first so many.
func places(first, n int) string {
	in := make([]string, n)
	for i := range in {
		in[i] = "$" + strconv.Itoa(first+i+1)
	}
	return strings.Join(in, ", ")
}

// number is a time, of a column or {now}, in the units of the dialect.
func (d Dialect) number(time string) string {
	if d == SQLite {
		return time
	}
	return "(extract(epoch FROM " + time + ") * 1000000)::bigint"
}

// time is the time that an argument has in the units of the dialect.
func (d Dialect) time(arg string) string {
	if d == SQLite {
		return arg
	}
	return "(timestamptz 'epoch' + " + arg + "::bigint * interval '1 microsecond')"
}

// retryDead returns the statements that make the dead letters in n rows jobs again, the newest or
// the oldest first. The arguments are the queue and the rows. The last statement changes a row for
// each of them.
func (d Dialect) retryDead(n int, newest bool) []string {
	order := deadOrder(newest)
	const columns = "queue, id, data, header, "
	these := "queue = $1 AND seq IN (" + places(1, n) + ")"
	if d == SQLite {
		// Until the last statement, the column ready of a job that is back names its dead letter. So
		// another job with the ID of a dead letter is not taken for it.
		return []string{
			d.say("INSERT INTO shoal_jobs (" + columns + "ready) SELECT " + columns + "-seq FROM shoal_dead WHERE " + these +
				" ORDER BY " + order + " ON CONFLICT (queue, id) DO NOTHING"),
			d.say("DELETE FROM shoal_dead WHERE " + these +
				" AND EXISTS (SELECT 1 FROM shoal_jobs j WHERE j.queue = shoal_dead.queue AND j.id = shoal_dead.id AND j.ready = -shoal_dead.seq)"),
			d.say("UPDATE shoal_jobs SET ready = {now} WHERE queue = $1 AND ready < 0 AND ready IN (" +
				strings.ReplaceAll(places(1, n), "$", "-$") + ")"),
		}
	}
	// Another one that retries them waits for the lock, and finds them gone. All take the locks in one
	// order, so that none waits for another for ever.
	return []string{d.say(`WITH these AS (
			SELECT seq, ` + columns + `at FROM shoal_dead WHERE ` + these + ` ORDER BY at, seq FOR UPDATE),
		back AS (
			INSERT INTO shoal_jobs (` + columns + `ready) SELECT ` + columns + `statement_timestamp() FROM these ORDER BY ` + order + `
			ON CONFLICT (queue, id) DO NOTHING RETURNING id)
		DELETE FROM shoal_dead WHERE ` + these + ` AND id IN (SELECT id FROM back)`)}
}

// deleteDead returns the statement that deletes the dead letters in n rows. The arguments are
// those of retryDead.
func (d Dialect) deleteDead(n int) []string {
	return []string{d.say("DELETE FROM shoal_dead WHERE queue = $1 AND seq IN (" + places(1, n) + ")")}
}

// Depth implements [jobs.Depther]. Jobs whose lease has ended are ready. Depth counts rows, so
// it takes longer the more there are: with a million jobs 0.1 s on SQLite and 0.3 s on Postgres.
func (q *Queue) Depth(ctx context.Context) (d jobs.Depth, err error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	if err := q.db.QueryRowContext(ctx, q.sql.depth, q.name).Scan(&d.Ready, &d.Delayed, &d.Leased, &d.Dead, &d.Oldest); err != nil {
		return jobs.Depth{}, q.failed(ctx, fmt.Errorf("depth: %w", err))
	}
	d.Oldest = max(0, d.Oldest*q.d.unit())
	return d, nil
}
