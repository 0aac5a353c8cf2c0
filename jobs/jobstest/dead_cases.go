package jobstest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// This file is the cases of dead letters: they can be read, retried and deleted. A queue that is no
// jobs.DeadStore skips them.

var deadCases = []testCase{
	{"dead letters can be read", func(t *trial) {
		q := t.deadStore()
		t.bury("a", "mail", "one")
		t.bury("b", "", "two")
		t.bury("c", "mail", "three\nits output\nä\n")
		for want, f := range map[string]jobs.DeadFilter{
			"a b c": {},
			"c b a": {Newest: true},
			"a b":   {Limit: 2},
			"c b":   {Limit: 2, Newest: true},
			"a c":   {Type: "mail"},
			"c":     {Type: "mail", Limit: 1, Newest: true},
			"b c":   {IDs: []string{"c", "none", "b"}},
			"a":     {IDs: []string{"a", "b"}, Type: "mail"},
			" ":     {Age: time.Hour},
			"":      {IDs: []string{"none"}},
			"b c ":  {Within: time.Hour, IDs: []string{"b", "c"}},
		} {
			t.dead(q, f, strings.TrimSpace(want))
		}
		all, err := q.DeadLetters(t.ctx, jobs.DeadFilter{IDs: []string{"c"}})
		t.must(err)
		l := all[0]
		reason, output := l.Split()
		if string(l.Data) != "payload of c" || l.Attempt != 1 || l.Type() != "mail" || len(l.Header) != 1 ||
			reason != "three" || output != "its output\nä\n" || time.Since(l.At).Abs() > time.Minute {
			t.Errorf("%+v", l)
		}
		time.Sleep(2 * short)
		t.dead(q, jobs.DeadFilter{Age: short}, "a b c")
		t.dead(q, jobs.DeadFilter{Within: short}, "")
		t.goneFor(t.Consumer(t))
	}},
	{"dead letters can be read page by page", func(t *trial) {
		q := t.deadStore()
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			t.bury(id, map[bool]string{true: "mail"}[id != "c"], "bad")
		}
		// pages reads them two at a time, and has gone deleted after the first page.
		pages := func(f jobs.DeadFilter, gone, want string) {
			t.Helper()
			f.Limit = 2
			var ids []string
			for {
				page, err := q.DeadLetters(t.ctx, f)
				t.must(err)
				for _, l := range page {
					ids = append(ids, l.ID)
					f.After = l.Place
				}
				if len(page) < f.Limit {
					break
				}
				if gone != "" {
					t.deleted(q, jobs.DeadFilter{IDs: []string{gone}}, 1)
					gone = ""
				}
			}
			if have := strings.Join(ids, " "); have != want {
				t.Errorf("%+v: %q; want %q", f, have, want)
			}
		}
		pages(jobs.DeadFilter{}, "", "a b c d e")
		pages(jobs.DeadFilter{Newest: true}, "", "e d c b a")
		pages(jobs.DeadFilter{Type: "mail"}, "", "a b d e")
		pages(jobs.DeadFilter{Newest: true}, "d", "e d c b a") // the last one of the page
		pages(jobs.DeadFilter{}, "a", "a b c e")
		rest, err := q.DeadLetters(t.ctx, jobs.DeadFilter{Limit: 1})
		t.must(err)
		t.retried(q, jobs.DeadFilter{After: rest[0].Place}, 2)
		t.dead(q, jobs.DeadFilter{}, "b")
	}},
	{"dead letters can be retried", func(t *trial) {
		q := t.deadStore()
		for _, id := range []string{"a", "b", "c", "d"} {
			t.bury(id, "type "+id, "bad")
		}
		s := t.Consumer(t)
		t.retried(q, jobs.DeadFilter{IDs: []string{"none"}}, 0)
		t.retried(q, jobs.DeadFilter{Age: time.Hour}, 0)
		t.none(s, short)
		t.retried(q, jobs.DeadFilter{Type: "type b"}, 1)
		t.retried(q, jobs.DeadFilter{Type: "type b"}, 0)
		d := t.pull(s)
		t.is(d, "payload of b", 1)
		if d.ID() != "b" || d.Header()[jobs.TypeHeader] != "type b" || len(d.Header()) != 1 {
			t.Errorf("id %q, header %q", d.ID(), d.Header())
		}
		t.must(d.Term(t.ctx, "again")) // and it can be given up again
		t.dead(q, jobs.DeadFilter{}, "a c d b")
		t.retried(q, jobs.DeadFilter{Limit: 2}, 2)
		t.retried(q, jobs.DeadFilter{}, 2)
		for _, id := range []string{"a", "c", "d", "b"} {
			d := t.pull(s)
			t.is(d, "payload of "+id, 1)
			t.must(d.Ack(t.ctx))
		}
		t.dead(q, jobs.DeadFilter{}, "")
		t.goneFor(s)
	}},
	{"the newest dead letters are retried first", func(t *trial) {
		q := t.deadStore()
		for _, id := range []string{"a", "b", "c", "d"} {
			t.bury(id, "", "bad")
		}
		s := t.Consumer(t)
		t.retried(q, jobs.DeadFilter{Newest: true, Limit: 3}, 3)
		t.dead(q, jobs.DeadFilter{}, "a")
		for _, id := range []string{"d", "c", "b"} {
			d := t.pull(s)
			t.is(d, "payload of "+id, 1)
			t.must(d.Ack(t.ctx))
		}
	}},
	{"a dead letter is retried once", func(t *trial) {
		q := t.deadStore()
		const letters, calls = 10, 4
		for i := range letters {
			t.bury(fmt.Sprint(i), "", "bad")
		}
		var wg sync.WaitGroup
		var sum atomic.Int64
		for range calls {
			wg.Go(func() {
				n, err := q.RetryDead(t.ctx, jobs.DeadFilter{})
				if err != nil {
					t.Error(err)
				}
				sum.Add(int64(n))
			})
		}
		wg.Wait()
		s := t.Consumer(t)
		for range letters {
			t.must(t.pull(s).Ack(t.ctx))
		}
		t.goneFor(s)
		if sum.Load() != letters {
			t.Errorf("%d were retried, want %d", sum.Load(), letters)
		}
	}},
	{"dead letters can be deleted", func(t *trial) {
		q := t.deadStore()
		for _, id := range []string{"a", "b", "c", "d"} {
			t.bury(id, "type "+id, "bad")
		}
		t.deleted(q, jobs.DeadFilter{IDs: []string{"none"}}, 0)
		t.deleted(q, jobs.DeadFilter{Age: time.Hour}, 0)
		t.deleted(q, jobs.DeadFilter{IDs: []string{"b", "d"}}, 2)
		t.deleted(q, jobs.DeadFilter{IDs: []string{"b", "d"}}, 0)
		t.dead(q, jobs.DeadFilter{}, "a c")
		t.deleted(q, jobs.DeadFilter{Limit: 1, Newest: true}, 1)
		t.dead(q, jobs.DeadFilter{}, "a")
		t.deleted(q, jobs.DeadFilter{}, 1)
		t.dead(q, jobs.DeadFilter{}, "")
		t.goneFor(t.Consumer(t))
	}},
	{"a filter of dead letters that is invalid", func(t *trial) {
		q := t.deadStore()
		t.bury("a", "", "bad")
		for want, f := range map[string]jobs.DeadFilter{
			"-1s":      {Age: -time.Second},
			"-1":       {Limit: -1},
			"-2s":      {Within: -2 * time.Second},
			`"x y"`:    {After: "x y"},
			`"0"`:      {After: "0"},
			`"-5"`:     {After: "-5"},
			`"+1"`:     {After: "+1"},
			`"007"`:    {After: "007"},
			"empty ID": {IDs: []string{"a", ""}},
		} {
			_, err := q.DeadLetters(t.ctx, f)
			_, rerr := q.RetryDead(t.ctx, f)
			_, derr := q.DeleteDead(t.ctx, f)
			for _, err := range []error{err, rerr, derr} {
				if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), want) {
					t.Errorf("want an error with %q, have %v", want, err)
				}
			}
		}
		t.dead(q, jobs.DeadFilter{}, "a")
	}},
}

// deadStore is the queue, if it is a DeadStore.
func (t *trial) deadStore() jobs.DeadStore {
	q, ok := t.Sink.(jobs.DeadStore)
	if !ok {
		t.Skip("the queue is no jobs.DeadStore")
	}
	return q
}

// bury makes a dead letter.
func (t *trial) bury(id, kind, reason string) {
	t.Helper()
	m := jobs.Message{ID: id, Data: []byte("payload of " + id)}
	if kind != "" {
		m.Header = jobs.Header{jobs.TypeHeader: kind}
	}
	t.enqueue(m)
	d := t.pull(t.Consumer(t))
	if d.ID() != id {
		t.Fatalf("job %q, want %q", d.ID(), id)
	}
	t.must(d.Term(t.ctx, reason))
}

// dead demands that f selects the dead letters with the IDs in want.
func (t *trial) dead(q jobs.DeadStore, f jobs.DeadFilter, want string) {
	t.Helper()
	all, err := q.DeadLetters(t.ctx, f)
	var ids []string
	for _, l := range all {
		ids = append(ids, l.ID)
	}
	if have := strings.Join(ids, " "); err != nil || have != want {
		t.Errorf("dead letters of %+v: %q, %v; want %q", f, have, err, want)
	}
}

func (t *trial) retried(q jobs.DeadStore, f jobs.DeadFilter, want int) {
	t.Helper()
	if n, err := q.RetryDead(t.ctx, f); err != nil || n != want {
		t.Errorf("RetryDead(%+v): %d, %v; want %d", f, n, err, want)
	}
}

func (t *trial) deleted(q jobs.DeadStore, f jobs.DeadFilter, want int) {
	t.Helper()
	if n, err := q.DeleteDead(t.ctx, f); err != nil || n != want {
		t.Errorf("DeleteDead(%+v): %d, %v; want %d", f, n, err, want)
	}
}
