package shoalhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/jobs"
	"github.com/shoal-go/shoal/jobs/jobstest"
	"github.com/shoal-go/shoal/shoalhttp"
)

// A depther is a queue whose Depth is a function, and is counted.
type depther struct {
	calls atomic.Int64
	f     func(context.Context) (jobs.Depth, error)
}

func (d *depther) Depth(ctx context.Context) (jobs.Depth, error) {
	d.calls.Add(1)
	return d.f(ctx)
}

func queuesOf(t *testing.T, h http.Handler) []shoalhttp.QueueRow {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/debug/shoal/queues.json", nil))
	var q shoalhttp.Queues
	if err := json.Unmarshal(rec.Body.Bytes(), &q); err != nil || q.Queues == nil {
		t.Fatal(err, rec.Body)
	}
	return q.Queues
}

func pageOf(t *testing.T, opts ...shoalhttp.Option) *shoalhttp.Page {
	t.Helper()
	h, err := shoalhttp.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func said(r shoalhttp.QueueRow) []string { return saidOf(r.Verdicts) }

func saidOf(verdicts []shoalhttp.Verdict) (texts []string) {
	for _, v := range verdicts {
		texts = append(texts, fmt.Sprintf("%d %s: %s", v.Level, v.Label, v.Text))
	}
	return texts
}

func TestQueuesAreMeasuredWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depther{f: func(context.Context) (jobs.Depth, error) { return jobs.Depth{Ready: 3}, nil }}
		h := pageOf(t, shoalhttp.WithQueue("mails", d))
		time.Sleep(time.Hour)
		if d.calls.Load() != 0 {
			t.Fatalf("nobody looked, and the queue was asked %d times", d.calls.Load())
		}
		for range 20 {
			if r := queuesOf(t, h); r[0].Ready != 3 || r[0].Measured == 0 || r[0].DeadLetters || len(r[0].Verdicts) != 0 {
				t.Fatalf("%+v", r)
			}
		}
		if d.calls.Load() != 1 {
			t.Errorf("20 looks at once: the queue was asked %d times", d.calls.Load())
		}
		time.Sleep(2 * time.Second)
		queuesOf(t, h)
		if d.calls.Load() != 2 {
			t.Errorf("after 2 s: the queue was asked %d times", d.calls.Load())
		}
	})
}

func TestASlowQueueIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depther{f: func(context.Context) (jobs.Depth, error) { time.Sleep(time.Second); return jobs.Depth{Ready: 1}, nil }}
		h := pageOf(t, shoalhttp.WithQueue("mails", d))
		start := time.Now()
		if r := queuesOf(t, h); r[0].Measured != 0 || len(r[0].Verdicts) != 0 || time.Since(start) != 500*time.Millisecond {
			t.Errorf("%+v after %v", r, time.Since(start))
		}
		time.Sleep(time.Second)
		for range 9 {
			if r := queuesOf(t, h); r[0].Ready != 1 {
				t.Errorf("%+v", r)
			}
			time.Sleep(time.Second)
		}
		if d.calls.Load() != 1 {
			t.Errorf("in ten seconds it was asked %d times", d.calls.Load())
		}
	})
}

func TestVerdictsOnQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		q := jobstest.NewQueue(time.Hour)
		h := pageOf(t, shoalhttp.WithQueue("mails", q))
		want := func(texts ...string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			if got := said(queuesOf(t, h)[0]); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", texts) {
				t.Errorf("%q: want %q", got, texts)
			}
		}
		want()
		if err := q.Enqueue(ctx, make([]jobs.Message, 4)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(230 * time.Second)
		want("3 not worked: the oldest ready job has waited for 4m00s; nobody works the queue")
		ds, err := q.Pull(ctx, 2)
		if err != nil {
			t.Fatal(err)
		}
		want("2 behind: the oldest ready job has waited for 4m10s; 2 jobs are ready, 2 leased")
		for _, d := range ds {
			if err := d.Term(ctx, "no such address"); err != nil {
				t.Fatal(err)
			}
		}
		// That nobody works it is said if nobody did before either.
		want("2 behind: the oldest ready job has waited for 4m20s; 2 jobs are ready, 0 leased", "2 dead letters: 2 jobs are dead letters")
		want("3 not worked: the oldest ready job has waited for 4m30s; nobody works the queue", "2 dead letters: 2 jobs are dead letters")
	})
}

// A panicky error panics with another one when it is asked for its text.
type panicky int

func (p panicky) Error() string {
	if p == 0 {
		return "zero"
	}
	panic(p - 1)
}

func TestAPanicThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &depther{f: func(context.Context) (jobs.Depth, error) { return jobs.Depth{}, panicky(3) }}
		h := pageOf(t, shoalhttp.WithQueue("q", q))
		want := "2 queue away: it cannot be reached: panic: shoalhttp_test.panicky"
		if got := strings.Join(said(queuesOf(t, h)[0]), "|"); got != want {
			t.Errorf("%q: want %q", got, want)
		}
	})
}

// TestAQueueThatEndsItsGoroutine is asked again, and known to be back when it is.
func TestAQueueThatEndsItsGoroutine(t *testing.T) {
	ends := func() string { runtime.Goexit(); return "" }
	for name, f := range map[string]func() error{
		"Depth": func() error { return errors.New(ends()) },
		"Error": func() error { return text(ends) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &depther{}
				q.f = func(context.Context) (jobs.Depth, error) {
					if q.calls.Load() > 1 {
						return jobs.Depth{Ready: 2}, nil
					}
					return jobs.Depth{}, f()
				}
				h := pageOf(t, shoalhttp.WithQueue("q", q))
				want := "2 queue away: it cannot be reached: Depth has called runtime.Goexit"
				if got := strings.Join(said(queuesOf(t, h)[0]), "|"); got != want {
					t.Errorf("%q: want %q", got, want)
				}
				time.Sleep(2 * time.Second)
				if r := queuesOf(t, h)[0]; r.Ready != 2 || r.Error != "" {
					t.Errorf("it is back: %+v", r)
				}
			})
		})
	}
}

func TestQueuesThatCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &depther{f: func(context.Context) (jobs.Depth, error) { return jobs.Depth{}, errors.New("no route\nto host") }}
		panics := &depther{f: func(context.Context) (jobs.Depth, error) { panic("oh") }}
		var back atomic.Bool
		slow := &depther{f: func(ctx context.Context) (jobs.Depth, error) {
			if back.Load() {
				return jobs.Depth{Ready: 2}, nil
			}
			<-ctx.Done()
			return jobs.Depth{}, ctx.Err()
		}}
		release := make(chan struct{})
		deaf := &depther{f: func(context.Context) (jobs.Depth, error) { <-release; return jobs.Depth{Ready: 1}, nil }}
		h := pageOf(t, shoalhttp.WithQueue("away", away), shoalhttp.WithQueue("panics", panics), shoalhttp.WithQueue("slow", slow), shoalhttp.WithQueue("deaf", deaf))
		queuesOf(t, h)
		time.Sleep(12 * time.Second)
		start := time.Now()
		rows := queuesOf(t, h)
		if took := time.Since(start); took != 500*time.Millisecond {
			t.Errorf("the page waited for %v", took)
		}
		for i, want := range []string{
			`2 queue away: it cannot be reached for at least 13s: no route\nto host`,
			"2 queue away: it cannot be reached for at least 13s: panic: oh",
			"2 queue away: it cannot be reached for at least 13s: no answer within 5s",
			"2 queue away: it cannot be reached: no answer for 13s",
		} {
			if got := strings.Join(said(rows[i]), "|"); got != want {
				t.Errorf("%s: %q: want %q", rows[i].Name, got, want)
			}
		}
		if deaf.calls.Load() != 1 {
			t.Errorf("a queue that does not answer was asked %d times", deaf.calls.Load())
		}
		close(release)
		synctest.Wait()
		if r := queuesOf(t, h)[3]; r.Ready != 1 || r.Error != "" || len(r.Verdicts) != 0 {
			t.Errorf("it answers again: %+v", r)
		}
		// One that is back is known to be back soon, however long it took to fail.
		back.Store(true)
		time.Sleep(7 * time.Second)
		if r := queuesOf(t, h)[2]; r.Ready != 2 || r.Error != "" {
			t.Errorf("it is back: %+v", r)
		}
	})
}

func TestQueueNames(t *testing.T) {
	q := jobstest.NewQueue(time.Minute)
	_, err := shoalhttp.New(shoalhttp.WithQueue("", q), shoalhttp.WithQueue("a", nil), shoalhttp.WithQueue("b\n", q), shoalhttp.WithQueue("b\n", q))
	for _, want := range []string{"a queue has no name", `the queue "a" is nil`, `two queues are named "b\n"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
	}
	h := pageOf(t)
	if err := h.AddQueue("b\n", q); err != nil || queuesOf(t, h)[0].Name != `b\n` {
		t.Error(err)
	}
	h.RemoveQueue("none")
	h.RemoveQueue("b\n")
	if rows := queuesOf(t, h); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

func commandDead(h http.Handler, token, body string) (int, string) {
	r := httptest.NewRequest("POST", "/debug/shoal/dead", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Shoal-Token", token)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

func TestManyDeadLettersOfAllAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		q := jobstest.NewQueue(time.Hour)
		const secret = "a token of 16 bytes"
		h := pageOf(t, shoalhttp.WithQueue("mails", q), shoalhttp.WithControls(secret))
		for i := range 205 { // one a minute, and job-0 first
			if err := q.Enqueue(ctx, jobs.Message{ID: fmt.Sprint("job-", i)}); err != nil {
				t.Fatal(err)
			}
			ds, err := q.Pull(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := ds[0].Term(ctx, "bad"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		list := func(filter, after string) (first, last string, n int, next string) {
			t.Helper()
			status, body := commandDead(h, secret, fmt.Sprintf(`{"queue":"mails","action":"list","after":%q%s}`, after, filter))
			var answer struct {
				Letters []struct{ ID string }
				Next    string
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
				t.Fatal(status, body, err)
			}
			if n = len(answer.Letters); n > 0 {
				first, last = answer.Letters[0].ID, answer.Letters[n-1].ID
			}
			return first, last, n, answer.Next
		}
		for _, c := range []struct {
			filter string
			pages  []string
		}{
			{``, []string{"job-204 job-105 100", "job-104 job-5 100", "job-4 job-0 5"}},
			{`,"newer":"1h30s"`, []string{"job-204 job-145 60"}},
			{`,"older":"2h"`, []string{"job-85 job-0 86"}},
			{`,"older":"2h","newer":"3h"`, []string{"job-85 job-25 61"}},
			{`,"older":"2d"`, []string{"  0"}},
		} {
			after := ""
			for i, want := range c.pages {
				first, last, n, next := list(c.filter, after)
				if got := fmt.Sprint(first, " ", last, " ", n); got != want || (next == "") != (i == len(c.pages)-1) {
					t.Errorf("%s: page %d: %s, next %q; want %s", c.filter, i, got, next, want)
				}
				after = next
			}
		}
		for body, want := range map[string]string{
			`{"queue":"mails","action":"list","older":"2"}`:       `400 shoalhttp: older than "2": want a time such as`,
			`{"queue":"mails","action":"list","newer":"-2m"}`:     `400 shoalhttp: newer than "-2m": want a time such as`,
			`{"queue":"mails","action":"list","newer":"99999d"}`:  `400 shoalhttp: newer than "99999d": want a time such as`,
			`{"queue":"mails","action":"list","after":"x"}`:       `400 shoalhttp: queue "mails": jobs: invalid configuration: dead letters: after "x"`,
			`{"queue":"mails","action":"delete","older":"3h20m"}`: `200 {"jobs":6}`,
			`{"queue":"mails","action":"retry","newer":"10m"}`:    `200 {"jobs":10}`,
		} {
			if status, got := commandDead(h, secret, body); !strings.HasPrefix(fmt.Sprint(status, " ", got), want) {
				t.Errorf("%s: %d %s; want %s", body, status, got, want)
			}
		}
	})
}

func TestTheDeadLettersOfAQueue(t *testing.T) {
	ctx := t.Context()
	q := jobstest.NewQueue(time.Minute)
	const secret = "a token of 16 bytes"
	h := pageOf(t, shoalhttp.WithQueue("mails", q), shoalhttp.WithControls(secret),
		shoalhttp.WithQueue("other", &depther{f: func(context.Context) (jobs.Depth, error) { return jobs.Depth{}, nil }}))
	for i := range 103 {
		m := jobs.Message{ID: fmt.Sprint("job-", i), Data: []byte("to: <b>"), Header: jobs.Header{jobs.TypeHeader: "mail", "by": "me"}}
		if i >= 101 {
			m.Header = nil
		}
		if err := q.Enqueue(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	ds, err := q.Pull(ctx, 103)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		if err := d.Term(ctx, "exit status 1\nno such\n\taddress"); err != nil {
			t.Fatal(err)
		}
	}
	do := func(token, body string) (int, string) { return commandDead(h, token, body) }
	for _, c := range []struct {
		token, body string
		status      int
		want        string
		dead        int // after it
	}{
		{"", `{"queue":"mails","action":"list"}`, 403, "the token is wrong", 103},
		{"a wrong token of some length", `{"queue":"mails","action":"delete","all":true}`, 403, "the token is wrong", 103},
		{secret, `{"queue":"letters","action":"list"}`, 404, "no such queue", 103},
		{secret, `{"queue":"other","action":"list"}`, 404, "keeps no dead letters", 103},
		{secret, `{"queue":"mails","action":"burn"}`, 400, "want list, retry or delete", 103},
		{secret, `{"queue":"mails","action":"delete"}`, 400, "want an id or a type or an age", 103},
		{secret, `{"queue":"mails","action":"list"}`, 200, `"more":true`, 103},
		{secret, `{"queue":"mails","action":"list","id":"job-7"}`, 200, `{"letters":[{"id":"job-7","type":"mail","attempt":1,`, 103},
		{secret, `{"queue":"mails","action":"list","id":"job-7"}`, 200, `"reason":"exit status 1","output":"no such\n\taddress","header":["by: me"],"data":"to: \u003cb\u003e","size":7}],"more":false}`, 103},
		{secret, `{"queue":"mails","action":"retry","id":"job-7"}`, 200, `{"jobs":1}`, 102},
		{secret, `{"queue":"mails","action":"retry","id":"job-7"}`, 200, `{"jobs":0}`, 102},
		{secret, `{"queue":"mails","action":"delete","id":"job-8","type":"other"}`, 200, `{"jobs":0}`, 102},
		{secret, `{"queue":"mails","action":"retry","type":"mail"}`, 200, `{"jobs":100}`, 2},
		{secret, `{"queue":"mails","action":"delete","all":true}`, 200, `{"jobs":2}`, 0},
	} {
		if status, got := do(c.token, c.body); status != c.status || !strings.Contains(got, c.want) || len(q.Dead()) != c.dead {
			t.Errorf("%s: %d %s, then %d dead letters: want %d %s, %d", c.body, status, got, len(q.Dead()), c.status, c.want, c.dead)
		}
	}
	if r := queuesOf(t, h)[0]; r.Ready != 101 || r.Dead != 0 || !r.DeadLetters {
		t.Errorf("%+v", r)
	}
	h = pageOf(t, shoalhttp.WithQueue("mails", q))
	if status, got := do(secret, `{"queue":"mails","action":"list"}`); status != 403 || !strings.Contains(got, "no controls") {
		t.Error(status, got)
	}
}

func TestQueuesWithoutScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := jobstest.NewQueue(time.Minute)
		if err := q.Enqueue(t.Context(), jobs.Message{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h := pageOf(t, shoalhttp.WithQueue("<mails>", q))
		for _, age := range []string{"1m00s", "1h01m"} { // it is no old figure
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequest("GET", "/debug/shoal/", nil))
			for _, want := range []string{"&lt;mails&gt;", "the oldest ready job has waited for " + age + "; nobody works the queue", "<dt>ready</dt><dd>1</dd>"} {
				if !strings.Contains(rec.Body.String(), want) {
					t.Errorf("no %s in %s", want, rec.Body)
				}
			}
			time.Sleep(time.Hour)
		}
	})
}

// A text is an error that takes its text from a function, which may be nil.
type text func() string

func (f text) Error() string { return f() }

// The errors of a queue are what others have made.
func TestErrorsOfQueuesThatAreEvil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		long := strings.Repeat("x", 1<<20)
		var opts []shoalhttp.Option
		for name, err := range map[string]error{
			"panics": text(nil),
			"waits":  text(func() string { <-release; return "late" }),
			"empty":  errors.New(""),
			"long":   errors.New(long),
		} {
			opts = append(opts, shoalhttp.WithQueue(name, &depther{f: func(context.Context) (jobs.Depth, error) { return jobs.Depth{}, err }}))
		}
		h := pageOf(t, opts...)
		look := func() map[string]string {
			all := make(map[string]string)
			for _, r := range queuesOf(t, h) {
				all[r.Name] = strings.Join(said(r), "|")
			}
			return all
		}
		look()
		time.Sleep(12 * time.Second)
		all := look()
		for name, want := range map[string]string{
			"panics": "2 queue away: it cannot be reached for at least 13s: panic: runtime error: invalid memory address or nil pointer dereference",
			"waits":  "2 queue away: it cannot be reached: no answer for 13s",
			"empty":  "2 queue away: it cannot be reached for at least 13s: the error has no text",
			"long":   "2 queue away: it cannot be reached for at least 13s: " + long[:1<<10] + "…",
		} {
			if all[name] != want {
				t.Errorf("%s: %.200q: want %.200q", name, all[name], want)
			}
		}
		close(release)
		synctest.Wait()
		if got := look()["waits"]; got != "2 queue away: it cannot be reached for at least 13s: late" {
			t.Errorf("%q", got)
		}
	})
}
