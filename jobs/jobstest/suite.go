package jobstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// A Subject is a new, empty queue for the suite to test.
type Subject struct {
	// Sink enqueues jobs. If it is a [jobs.DeadStore] or a [jobs.Depther] too, the suite
	// tests that as well; otherwise these cases are skipped.
	Sink jobs.Sink
	// Consumer returns one more consumer of the queue, as another machine would have.
	Consumer func(t testing.TB) jobs.Source
	// Dead returns the dead letters.
	Dead func(t testing.TB) []jobs.DeadLetter
	// Largest is the size of the largest payload that the queue accepts, in bytes; 0 means
	// that there is no limit.
	Largest int
	// CountsReleased says that the queue counts a lease that was released as an attempt.
	CountsReleased bool
}

// Cases returns the names of the suite's cases, in order.
func Cases() (names []string) {
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

// Run runs the suite: each case is a parallel subtest with a Subject that make returns. The
// lease should be a few seconds. Some cases wait for its end; others acknowledge 20 jobs within
// one lease, on a machine that may stand still for a second or two.
func Run(t *testing.T, make func(t *testing.T) Subject) {
	runEach(t, make, func(t *testing.T, test func(*testing.T)) {
		t.Parallel()
		test(t)
	})
}

// runEach runs each case by in.
func runEach(t *testing.T, make func(t *testing.T) Subject, in func(*testing.T, func(*testing.T))) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				t.Cleanup(cancel)
				c.run(&trial{TB: t, Subject: make(t), ctx: ctx})
			})
		})
	}
}

type trial struct {
	testing.TB
	Subject
	ctx context.Context
}

// short is long enough for what is there, and no more.
const short = 300 * time.Millisecond

func (t *trial) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *trial) enqueue(ms ...jobs.Message) {
	t.Helper()
	t.must(t.Sink.Enqueue(t.ctx, ms...))
}

// put enqueues a job with each of the payloads.
func (t *trial) put(payloads ...string) {
	t.Helper()
	for _, s := range payloads {
		t.enqueue(jobs.Message{Data: []byte(s)})
	}
}

// pull leases one job.
func (t *trial) pull(s jobs.Source) jobs.Delivery {
	t.Helper()
	ds, err := s.Pull(t.ctx, 1)
	if err != nil || len(ds) != 1 {
		t.Fatalf("Pull(1): %d jobs, %v", len(ds), err)
	}
	return ds[0]
}

// none demands that there is no job to lease for a while.
func (t *trial) none(s jobs.Source, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, wait)
	defer cancel()
	ds, err := s.Pull(ctx, 10)
	if len(ds) > 0 {
		t.Fatalf("job %q (%q, attempt %d) is leased, and should not be", ds[0].ID(), ds[0].Data(), ds[0].Attempt())
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Pull without a job: %v", err)
	}
}

func (t *trial) is(d jobs.Delivery, data string, attempt int) {
	t.Helper()
	if string(d.Data()) != data || d.Attempt() != attempt {
		t.Fatalf("job %q, attempt %d: want %q, %d", d.Data(), d.Attempt(), data, attempt)
	}
}

// lost demands that each call says that the lease is.
func (t *trial) lost(d jobs.Delivery) {
	t.Helper()
	for what, err := range map[string]error{
		"Extend": d.Extend(t.ctx), "Nak": d.Nak(t.ctx, 0), "Release": d.Release(t.ctx), "Term": d.Term(t.ctx, "no"), "Ack": d.Ack(t.ctx),
	} {
		if !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("%s when the lease is lost: %v", what, err)
		}
	}
}

// goneFor demands that there is nothing to lease, now and when a lease would be over.
func (t *trial) goneFor(s jobs.Source) {
	t.Helper()
	t.none(s, s.Lease()+short)
}

var cases = []struct {
	name string
	run  func(t *trial)
}{
	{"a job arrives as it was sent", func(t *trial) {
		t.enqueue(jobs.Message{ID: "some id", Data: []byte("payload"), Header: jobs.Header{"traceparent": "00-ab-cd-01", "Some-Key": "ä, \"b\""}})
		d := t.pull(t.Consumer(t))
		t.is(d, "payload", 1)
		if d.ID() != "some id" || len(d.Header()) != 2 || d.Header()["traceparent"] != "00-ab-cd-01" || d.Header()["Some-Key"] != "ä, \"b\"" {
			t.Errorf("id %q, header %q", d.ID(), d.Header())
		}
	}},
	{"a job without an ID has one", func(t *trial) {
		t.put("a", "b")
		s := t.Consumer(t)
		a, b := t.pull(s), t.pull(s)
		if a.ID() == "" || a.ID() == b.ID() {
			t.Errorf("ids %q, %q", a.ID(), b.ID())
		}
		if len(a.Header()) != 0 {
			t.Errorf("header %q", a.Header())
		}
	}},
	{"an empty payload", func(t *trial) {
		t.enqueue(jobs.Message{})
		d := t.pull(t.Consumer(t))
		t.is(d, "", 1)
		t.must(d.Ack(t.ctx))
	}},
	{"a payload of all bytes", func(t *trial) {
		data := make([]byte, 1<<16)
		for i := range data {
			data[i] = byte(i)
		}
		t.enqueue(jobs.Message{Data: data})
		if d := t.pull(t.Consumer(t)); !bytes.Equal(d.Data(), data) {
			t.Error("not what was sent")
		}
	}},
	{"a payload of 10 MB arrives, or is refused with the bound", func(t *trial) {
		data := bytes.Repeat([]byte("0123456789"), 1<<20)
		err := t.Sink.Enqueue(t.ctx, jobs.Message{Data: data})
		s := t.Consumer(t)
		if t.Largest == 0 || t.Largest >= len(data) {
			t.must(err)
			if d := t.pull(s); !bytes.Equal(d.Data(), data) {
				t.Error("not what was sent")
			}
			return
		}
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(len(data))) || !strings.Contains(err.Error(), fmt.Sprint(t.Largest)) {
			t.Errorf("the error does not name %d and %d: %v", len(data), t.Largest, err)
		}
		t.none(s, short)
		t.put("the next one")
		t.is(t.pull(s), "the next one", 1)
	}},
	{"jobs come in their order", func(t *trial) {
		var ms []jobs.Message
		for i := range 50 {
			ms = append(ms, jobs.Message{Data: fmt.Appendf(nil, "%d", i)})
		}
		t.enqueue(ms...)
		s := t.Consumer(t)
		for i := range 50 {
			t.is(t.pull(s), fmt.Sprint(i), 1)
		}
	}},
	{"a thousand at once", func(t *trial) {
		ms := make([]jobs.Message, 1000)
		for i := range ms {
			ms[i].Data = fmt.Appendf(nil, "%d", i)
		}
		t.enqueue(ms...)
		s := t.Consumer(t)
		seen := make(map[string]bool)
		for len(seen) < len(ms) {
			ds, err := s.Pull(t.ctx, 20) // few: they are acknowledged one by one, within a lease
			t.must(err)
			for _, d := range ds {
				if seen[string(d.Data())] {
					t.Fatalf("job %s twice", d.Data())
				}
				seen[string(d.Data())] = true
				t.must(d.Ack(t.ctx))
			}
		}
		t.none(s, short)
	}},
	{"an ID that is known is ignored", func(t *trial) {
		t.enqueue(jobs.Message{ID: "a", Data: []byte("first")}, jobs.Message{ID: "a", Data: []byte("second")})
		t.enqueue(jobs.Message{ID: "a", Data: []byte("third")})
		s := t.Consumer(t)
		t.is(t.pull(s), "first", 1)
		t.none(s, short)
	}},
	{"Pull leases no more than it was asked for", func(t *trial) {
		t.put("a", "b", "c", "d", "e")
		s := t.Consumer(t)
		for left := 5; left > 0; {
			ds, err := s.Pull(t.ctx, 2)
			t.must(err)
			if len(ds) < 1 || len(ds) > 2 {
				t.Fatalf("Pull(2): %d jobs", len(ds))
			}
			left -= len(ds)
		}
		t.none(s, short)
	}},
	{"what is not asked for is there for others", func(t *trial) {
		t.put("a", "b", "c")
		one, other := t.Consumer(t), t.Consumer(t)
		t.is(t.pull(one), "a", 1)
		t.is(t.pull(other), "b", 1)
		t.is(t.pull(one), "c", 1)
	}},
	{"Pull waits for a job", func(t *trial) {
		s := t.Consumer(t)
		timer := time.AfterFunc(short, func() { _ = t.Sink.Enqueue(t.ctx, jobs.Message{Data: []byte("late")}) })
		defer timer.Stop()
		t.is(t.pull(s), "late", 1)
	}},
	{"Pull ends with its context, and keeps nothing", func(t *trial) {
		s, other := t.Consumer(t), t.Consumer(t)
		for range 3 {
			ctx, cancel := context.WithCancel(t.ctx)
			time.AfterFunc(short/3, cancel)
			ds, err := s.Pull(ctx, 5)
			if len(ds) > 0 || !errors.Is(err, context.Canceled) {
				t.Fatalf("%d jobs, %v", len(ds), err)
			}
		}
		t.put("a", "b")
		t.is(t.pull(other), "a", 1)
		t.is(t.pull(other), "b", 1)
	}},
	{"Pull with a context that has ended", func(t *trial) {
		t.put("a")
		ctx, cancel := context.WithCancel(t.ctx)
		cancel()
		s := t.Consumer(t)
		if ds, err := s.Pull(ctx, 1); len(ds) > 0 || !errors.Is(err, context.Canceled) {
			t.Fatalf("%d jobs, %v", len(ds), err)
		}
		t.is(t.pull(s), "a", 1)
	}},
	{"what is acknowledged is gone", func(t *trial) {
		t.put("a")
		s := t.Consumer(t)
		t.must(t.pull(s).Ack(t.ctx))
		t.goneFor(t.Consumer(t))
		if dead := t.Dead(t); len(dead) > 0 {
			t.Errorf("dead letters: %+v", dead)
		}
	}},
	{"what is given back comes again", func(t *trial) {
		t.put("a")
		s := t.Consumer(t)
		for i := range 3 {
			d := t.pull(s)
			t.is(d, "a", i+1)
			t.must(d.Nak(t.ctx, 0))
		}
		other := t.Consumer(t)
		d := t.pull(other)
		t.is(d, "a", 4)
		t.must(d.Ack(t.ctx))
		t.none(s, short)
	}},
	{"what is released comes again, and that was no attempt", func(t *trial) {
		t.enqueue(jobs.Message{ID: "a", Data: []byte("payload"), Header: jobs.Header{"key": "value"}})
		s := t.Consumer(t)
		attempt := 1
		for range 3 {
			d := t.pull(s)
			t.is(d, "payload", attempt)
			t.must(d.Release(t.ctx))
			if t.CountsReleased {
				attempt++
			}
		}
		d := t.pull(t.Consumer(t))
		t.is(d, "payload", attempt)
		if d.ID() != "a" || d.Header()["key"] != "value" {
			t.Errorf("id %q, header %q", d.ID(), d.Header())
		}
		t.enqueue(jobs.Message{ID: "a"}) // which is known
		t.none(s, short)
		t.must(d.Nak(t.ctx, 0))
		d = t.pull(s)
		t.is(d, "payload", attempt+1)
		t.must(d.Term(t.ctx, "bad"))
		if dead := t.Dead(t); len(dead) != 1 || dead[0].ID != "a" || dead[0].Attempt != attempt+1 {
			t.Errorf("dead letters: %+v", dead)
		}
		t.goneFor(s)
	}},
	{"what is given back for a while does not come before", func(t *trial) {
		t.put("a")
		s := t.Consumer(t)
		const delay = 1300 * time.Millisecond
		given := time.Now()
		t.must(t.pull(s).Nak(t.ctx, delay))
		t.is(t.pull(s), "a", 2)
		if d := time.Since(given); d < delay {
			t.Errorf("after %v, want %v", d, delay)
		}
	}},
	{"a job with a delay does not come before", func(t *trial) {
		const delay = 1300 * time.Millisecond
		sent := time.Now()
		t.enqueue(jobs.Message{Data: []byte("later"), Delay: delay}, jobs.Message{Data: []byte("now")})
		s := t.Consumer(t)
		first := t.pull(s)
		t.is(first, "now", 1)
		t.must(first.Ack(t.ctx))
		t.is(t.pull(s), "later", 1)
		if d := time.Since(sent); d < delay {
			t.Errorf("after %v, want %v", d, delay)
		}
	}},
	{"a dead letter is gone from the queue, and kept", func(t *trial) {
		t.enqueue(jobs.Message{ID: "bad", Data: []byte("no good")})
		s := t.Consumer(t)
		t.must(t.pull(s).Nak(t.ctx, 0))
		t.must(t.pull(s).Term(t.ctx, "it is no good, \"really\""))
		t.goneFor(s)
		dead := t.Dead(t)
		if len(dead) != 1 || dead[0].ID != "bad" || string(dead[0].Data) != "no good" || dead[0].Attempt != 2 || dead[0].Reason != "it is no good, \"really\"" {
			t.Errorf("dead letters: %+v", dead)
		}
	}},
	{"a lease that is over is another's", func(t *trial) {
		t.put("a")
		one, other := t.Consumer(t), t.Consumer(t)
		d := t.pull(one)
		leased := time.Now()
		again := t.pull(other)
		t.is(again, "a", 2)
		took := time.Since(leased)
		if took < one.Lease()-short {
			t.Errorf("it came again after %v, the lease is %v", took, one.Lease())
		}
		t.Logf("it came again %v after the end of its lease", took-one.Lease())
		t.lost(d)
		t.must(again.Extend(t.ctx))
		t.must(again.Ack(t.ctx))
		t.goneFor(one)
		if dead := t.Dead(t); len(dead) > 0 {
			t.Errorf("dead letters: %+v", dead)
		}
	}},
	{"a lease that is extended is not over", func(t *trial) {
		t.put("a")
		one, other := t.Consumer(t), t.Consumer(t)
		d := t.pull(one)
		for range 10 {
			t.none(other, one.Lease()/4) // a machine may be slow
			t.must(d.Extend(t.ctx))
		}
		t.must(d.Ack(t.ctx))
		t.goneFor(other)
	}},
	{"a call after the job was settled harms nobody", func(t *trial) {
		t.put("a", "b")
		s := t.Consumer(t)
		d := t.pull(s)
		t.must(d.Nak(t.ctx, 0))
		if err := d.Ack(t.ctx); err == nil {
			t.Error("Ack after Nak: no error")
		}
		for want := 2; want > 0; want-- {
			d := t.pull(s)
			t.must(d.Ack(t.ctx))
			_ = d.Ack(t.ctx)
			_ = d.Nak(t.ctx, 0)
			_ = d.Term(t.ctx, "late")
		}
		t.goneFor(s)
		if dead := t.Dead(t); len(dead) > 0 {
			t.Errorf("dead letters: %+v", dead)
		}
	}},
	{"a call whose context has ended says so", func(t *trial) {
		t.put("a")
		s := t.Consumer(t)
		d := t.pull(s)
		ctx, cancel := context.WithCancel(t.ctx)
		cancel()
		for what, err := range map[string]error{
			"Ack": d.Ack(ctx), "Nak": d.Nak(ctx, 0), "Term": d.Term(ctx, "no"), "Extend": d.Extend(ctx),
			"Enqueue": t.Sink.Enqueue(ctx, jobs.Message{}),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
		t.must(d.Ack(t.ctx))
	}},
	{"many consumers, each job once", func(t *trial) {
		const n, consumers = 200, 4
		ms := make([]jobs.Message, n)
		for i := range ms {
			ms[i].Data = fmt.Appendf(nil, "%d", i)
		}
		t.enqueue(ms...)
		var mu sync.Mutex
		seen := make(map[string]int)
		ctx, cancel := context.WithCancel(t.ctx)
		defer cancel()
		var wg sync.WaitGroup
		for range consumers {
			s := t.Consumer(t)
			wg.Go(func() {
				for {
					ds, err := s.Pull(ctx, 3)
					if err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
					if ctx.Err() != nil {
						return
					}
					for _, d := range ds {
						if err := d.Ack(t.ctx); err != nil {
							t.Error(err)
						}
						mu.Lock()
						if seen[string(d.Data())]++; len(seen) == n {
							cancel()
						}
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		for k, v := range seen {
			if v != 1 {
				t.Errorf("job %s was leased %d times", k, v)
			}
		}
		if len(seen) != n {
			t.Errorf("%d of %d jobs", len(seen), n)
		}
	}},
	{"Serve on two machines does each job once", func(t *trial) {
		const n = 100
		for i := range n {
			t.enqueue(jobs.Message{Data: fmt.Appendf(nil, "%d", i)})
		}
		var ran [n]atomic.Int64
		var all sync.WaitGroup
		all.Add(n)
		stop := t.serve(2, func(ctx context.Context, j *jobs.Job) error {
			var i int
			fmt.Sscan(string(j.Data), &i)
			if ran[i].Add(1) == 1 {
				all.Done()
			}
			return nil
		})
		all.Wait()
		stop()
		for i := range ran {
			if k := ran[i].Load(); k != 1 {
				t.Errorf("job %d ran %d times", i, k)
			}
		}
		t.none(t.Consumer(t), short)
	}},
	{"Serve gives back what it has not done", func(t *trial) {
		t.put("a", "b", "c")
		began := make(chan struct{}, 3)
		stop := t.serve(1, func(ctx context.Context, j *jobs.Job) error {
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}, jobs.WithDrain(0))
		<-began
		stop()
		s := t.Consumer(t)
		start := time.Now()
		for range 3 {
			t.must(t.pull(s).Ack(t.ctx))
		}
		if d := time.Since(start); d > s.Lease()*3/4 {
			t.Errorf("they were leased for %v more", d)
		}
		t.goneFor(s)
	}},
	{"Serve buries what fails", func(t *trial) {
		t.enqueue(jobs.Message{ID: "x", Data: []byte("bad")})
		var attempts atomic.Int64
		stop := t.serve(1, func(ctx context.Context, j *jobs.Job) error {
			attempts.Add(1)
			return fmt.Errorf("attempt %d failed", j.Attempt)
		}, jobs.WithMaxAttempts(3), jobs.WithBackoff(func(int) time.Duration { return 0 }))
		for len(t.Dead(t)) == 0 && t.ctx.Err() == nil {
			time.Sleep(short / 10)
		}
		stop()
		dead := t.Dead(t)
		if attempts.Load() != 3 || len(dead) != 1 || dead[0].ID != "x" || !strings.Contains(dead[0].Reason, "attempt 3 failed") {
			t.Errorf("%d attempts, dead letters: %+v", attempts.Load(), dead)
		}
		t.goneFor(t.Consumer(t))
	}},
	{"Serve does not bury what was interrupted", func(t *trial) {
		if t.CountsReleased {
			t.Skip("the queue counts what was released")
		}
		t.put("a")
		for range 5 {
			began := make(chan int, 1)
			stop := t.serve(1, func(ctx context.Context, j *jobs.Job) error {
				began <- j.Attempt
				<-ctx.Done()
				return ctx.Err()
			}, jobs.WithMaxAttempts(2), jobs.WithDrain(0))
			if n := <-began; n != 1 {
				t.Errorf("attempt %d", n)
			}
			stop()
		}
		var attempts []int
		done := make(chan struct{})
		stop := t.serve(1, func(ctx context.Context, j *jobs.Job) error {
			if attempts = append(attempts, j.Attempt); len(attempts) == 1 {
				return errors.New("it has failed once")
			}
			close(done)
			return nil
		}, jobs.WithMaxAttempts(2), jobs.WithBackoff(func(int) time.Duration { return 0 }))
		select {
		case <-done:
		case <-t.ctx.Done():
		}
		stop()
		if dead := t.Dead(t); fmt.Sprint(attempts) != "[1 2]" || len(dead) > 0 {
			t.Errorf("attempts %v, dead letters %+v", attempts, dead)
		}
	}},
	{"Serve keeps the lease of a long job", func(t *trial) {
		t.put("long")
		s := t.Consumer(t)
		var ran atomic.Int64
		done := make(chan struct{})
		stop := t.serve(2, func(ctx context.Context, j *jobs.Job) error {
			ran.Add(1)
			select {
			case <-ctx.Done():
				t.Errorf("its context ended: %v", context.Cause(ctx))
			case <-time.After(s.Lease() * 5 / 2):
			}
			close(done)
			return nil
		})
		<-done
		stop()
		if ran.Load() != 1 {
			t.Errorf("it ran %d times", ran.Load())
		}
		t.none(s, short)
	}},
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
	{"what a queue holds", func(t *trial) {
		q, ok := t.Sink.(jobs.Depther)
		if !ok {
			t.Skip("the queue is no jobs.Depther")
		}
		holds := func(want jobs.Depth) (have jobs.Depth) {
			t.Helper()
			// A queue may count a little later.
			for until := time.Now().Add(5 * time.Second); time.Now().Before(until); time.Sleep(short / 10) {
				var err error
				have, err = q.Depth(t.ctx)
				t.must(err)
				without := have
				if without.Oldest = 0; without == want {
					return have
				}
			}
			t.Errorf("the queue holds %+v, want %+v", have, want)
			return have
		}
		if d := holds(jobs.Depth{}); d.Oldest != 0 {
			t.Errorf("an empty queue: %+v", d)
		}
		t.put("a", "b", "c")
		t.enqueue(jobs.Message{Data: []byte("later"), Delay: time.Hour})
		holds(jobs.Depth{Ready: 3, Delayed: 1})
		s := t.Consumer(t)
		t.must(t.pull(s).Term(t.ctx, "bad"))
		d := t.pull(s)
		time.Sleep(2 * short)
		if d := holds(jobs.Depth{Ready: 1, Delayed: 1, Leased: 1, Dead: 1}); d.Oldest < short || d.Oldest > time.Minute {
			t.Errorf("the oldest has been ready for %v", d.Oldest)
		}
		t.must(d.Ack(t.ctx))
		t.must(t.pull(s).Ack(t.ctx))
		if d := holds(jobs.Depth{Delayed: 1, Dead: 1}); d.Oldest != 0 {
			t.Errorf("nothing is ready: %+v", d)
		}
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

// serve has as many machines serve the queue. stop ends them.
func (t *trial) serve(machines int, h jobs.Handler, opts ...jobs.Option) (stop func()) {
	ctx, cancel := context.WithCancel(t.ctx)
	var wg sync.WaitGroup
	for range machines {
		s := t.Consumer(t)
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
		wg.Go(func() {
			defer p.Close()
			if err := jobs.Serve(ctx, p, s, h, opts...); err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}
