package sqltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	shoalsql "github.com/shoal-go/shoal/contrib/sql"
	"github.com/shoal-go/shoal/jobs"
)

// TestManyDeadLetters: more than one statement reads or changes, and some at the same time.
func TestManyDeadLetters(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 2*time.Minute)
		db := p.open(t)
		q := open(t, db, p.d, "q")
		const n = 1000
		ids := make([]string, n)
		tx, err := db.Begin()
		must(t, err)
		for i := range n {
			ids[i] = fmt.Sprintf("%04d", i)
			header := fmt.Sprintf(`{"shoal-type": "%d"}`, i%3)
			at := fmt.Sprint(i / 300 * 1000) // many at the same time
			if p.d == shoalsql.Postgres {
				at = fmt.Sprintf("timestamptz 'epoch' + %d * interval '1 second'", i/300)
			}
			_, err := tx.Exec(fmt.Sprintf(`INSERT INTO shoal_dead (seq, queue, id, data, header, attempt, reason, at)
				VALUES (%d, 'q', '%s', '', '%s', 1, 'bad', %s)`, 10_000+i, ids[i], header, at))
			must(t, err)
		}
		must(t, tx.Commit())
		must(t, open(t, db, p.d, "other").Enqueue(ctx, jobs.Message{ID: "0007"}))

		reversed := slices.Clone(ids)
		slices.Reverse(reversed)
		var ones []string
		for i := 1; i < n; i += 3 {
			ones = append(ones, ids[i])
		}
		for name, c := range map[string]struct {
			f    jobs.DeadFilter
			want []string
		}{
			"all":                 {jobs.DeadFilter{}, ids},
			"the newest first":    {jobs.DeadFilter{Newest: true}, reversed},
			"some":                {jobs.DeadFilter{Limit: 700}, ids[:700]},
			"the newest":          {jobs.DeadFilter{Limit: 700, Newest: true}, reversed[:700]},
			"of a type":           {jobs.DeadFilter{Type: "1"}, ones},
			"some of a type":      {jobs.DeadFilter{Type: "1", Limit: 299}, ones[:299]},
			"of many IDs":         {jobs.DeadFilter{IDs: reversed[:600]}, ids[400:]},
			"of a few IDs":        {jobs.DeadFilter{IDs: reversed[:100]}, ids[900:]},
			"of many IDs, a type": {jobs.DeadFilter{IDs: ids[:600], Type: "1"}, ones[:200]},
		} {
			all, err := q.DeadLetters(ctx, c.f)
			must(t, err)
			var have []string
			for _, l := range all {
				have = append(have, l.ID)
			}
			if !slices.Equal(have, c.want) {
				t.Errorf("%s: %d dead letters, %q, want %d", name, len(have), have, len(c.want))
			}
		}
		for _, newest := range []bool{false, true} {
			var have []string
			for f := (jobs.DeadFilter{Limit: 100, Newest: newest}); ; {
				page, err := q.DeadLetters(ctx, f)
				must(t, err)
				for _, l := range page {
					have, f.After = append(have, l.ID), l.Place
				}
				if len(page) < f.Limit {
					break
				}
			}
			if want := map[bool][]string{false: ids, true: reversed}[newest]; !slices.Equal(have, want) {
				t.Errorf("page by page: %d dead letters, %q, want %d", len(have), have, len(want))
			}
		}
		if all, err := q.DeadLetters(ctx, jobs.DeadFilter{Within: time.Hour}); err != nil || len(all) > 0 {
			t.Errorf("of the last hour: %d, %v", len(all), err)
		}
		change := func(f func(context.Context, jobs.DeadFilter) (int, error), filter jobs.DeadFilter, want int) {
			t.Helper()
			if have, err := f(ctx, filter); err != nil || have != want {
				t.Errorf("%+v: %d, %v; want %d", filter, have, err, want)
			}
		}
		change(q.DeleteDead, jobs.DeadFilter{IDs: ones[:300]}, 300)
		change(q.DeleteDead, jobs.DeadFilter{Type: "1"}, len(ones)-300)
		change(q.RetryDead, jobs.DeadFilter{Limit: 400}, 400)
		ds := pull(t, q, 1000)
		for i, d := range ds {
			if want := ids[i/2*3+i%2*2]; d.ID() != want {
				t.Fatalf("job %d is %s, want %s", i, d.ID(), want)
			}
		}
		if len(ds) != 400 {
			t.Errorf("%d jobs", len(ds))
		}
		if left := count(t, db, `SELECT count(*) FROM shoal_dead`); left != n-len(ones)-400 {
			t.Errorf("%d dead letters are left", left)
		}
	})
}

// TestARetryEnds: jobs that fail at once are given up again while the call is under way, and it
// retries each once.
func TestARetryEnds(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 2*time.Minute)
		q := open(t, p.open(t), p.d, "q", shoalsql.WithPoll(10*time.Millisecond))
		const n = 600
		serve(t, q, func(context.Context, *jobs.Job) error { return jobs.Poison(errors.New("bad")) },
			jobs.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		settled := func() {
			t.Helper()
			for ctx.Err() == nil {
				if d, err := q.Depth(ctx); err == nil && d == (jobs.Depth{Dead: n}) {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Fatal("there are jobs left")
		}
		must(t, q.Enqueue(ctx, make([]jobs.Message, n)...))
		settled()
		if k, err := q.RetryDead(ctx, jobs.DeadFilter{}); err != nil || k != n {
			t.Errorf("%d were retried, %v; want %d", k, err, n)
		}
		settled()
	})
}

// TestADeadLetterBesideItsJob: it is not retried, and stays, while there is a job with its ID.
func TestADeadLetterBesideItsJob(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		db := p.open(t)
		q := open(t, db, p.d, "q")
		for _, id := range []string{"a", "b", "c"} {
			must(t, q.Enqueue(ctx, jobs.Message{ID: id, Data: []byte("dead " + id)}))
			must(t, pull(t, q, 1)[0].Term(ctx, "bad"))
		}
		long := "0" // ago
		if p.d == shoalsql.Postgres {
			long = "timestamptz 'epoch'"
		}
		run(t, db, `INSERT INTO shoal_jobs (queue, id, data, ready) VALUES ('q', 'b', 'live b', `+long+`)`)
		retried := func(f jobs.DeadFilter, want int) {
			t.Helper()
			if n, err := q.RetryDead(ctx, f); err != nil || n != want {
				t.Errorf("%+v: %d were retried, %v; want %d", f, n, err, want)
			}
		}
		retried(jobs.DeadFilter{IDs: []string{"b"}}, 0)
		retried(jobs.DeadFilter{}, 2)
		retried(jobs.DeadFilter{}, 0)
		if all, err := q.DeadLetters(ctx, jobs.DeadFilter{}); err != nil || len(all) != 1 || string(all[0].Data) != "dead b" {
			t.Errorf("dead letters %v, %v; want that of b", all, err)
		}
		var have []string
		for _, d := range pull(t, q, 10) {
			have = append(have, string(d.Data()))
			must(t, d.Ack(ctx))
		}
		if want := []string{"live b", "dead a", "dead c"}; !slices.Equal(have, want) {
			t.Errorf("jobs %q, want %q", have, want)
		}
	})
}

// TestADeadFilterThatNamesNothing: what cannot be a place is an error, and what cannot be an ID
// selects nothing, also where the database could not read it.
func TestADeadFilterThatNamesNothing(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := limit(t, 30*time.Second)
		q := open(t, p.open(t), p.d, "q")
		must(t, q.Enqueue(ctx, jobs.Message{ID: "a"}))
		must(t, pull(t, q, 1)[0].Term(ctx, "bad"))
		for _, after := range []string{
			"9223372036854775807.1", "9223372036854775808.1", "-9223372036854775808.1", "-1.1", "1.-1", "1.", ".1", "+1.1", "1.1.1", "x",
		} {
			if _, err := q.DeadLetters(ctx, jobs.DeadFilter{After: after}); !errors.Is(err, jobs.ErrConfig) {
				t.Errorf("after %q: %v", after, err)
			}
		}
		if all, err := q.DeadLetters(ctx, jobs.DeadFilter{After: "4611686018427387904.1", Newest: true}); len(all) != 1 || err != nil {
			t.Errorf("of a place far away: %d, %v", len(all), err)
		}
		for _, bad := range []string{"a\x00", "\xff"} {
			if n, err := q.RetryDead(ctx, jobs.DeadFilter{IDs: []string{bad}}); n != 0 || err != nil {
				t.Errorf("of the ID %q: %d, %v", bad, n, err)
			}
			ids := []string{bad, "a"}
			if all, err := q.DeadLetters(ctx, jobs.DeadFilter{IDs: ids}); len(all) != 1 || err != nil || ids[0] != bad {
				t.Errorf("of the IDs %q: %d, %v", ids, len(all), err)
			}
		}
	})
}
