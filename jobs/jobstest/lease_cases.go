package jobstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// This file is the cases of how a lease ends, and of when the job comes again, and to whom. A job that
// was sent with a delay is here too, beside one that was given back for a while.

var leaseCases = []testCase{
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
	{"a delivery that was released cannot end the next lease", func(t *trial) {
		t.put("a")
		s := t.Consumer(t)
		old := t.pull(s)
		t.must(old.Release(t.ctx))
		d := t.pull(s) // of the same attempt, unless the queue counts what was released
		t.lost(old)
		t.must(d.Extend(t.ctx))
		t.must(d.Ack(t.ctx))
		t.goneFor(s)
		if dead := t.Dead(t); len(dead) > 0 {
			t.Errorf("dead letters: %+v", dead)
		}
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
		t.none(other, one.Lease()*3/4) // that was for a whole lease
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
	{"a job that was acknowledged says so", func(t *trial) {
		t.put("a")
		d := t.pull(t.Consumer(t))
		for range 2 {
			t.must(d.Ack(t.ctx))
			for what, err := range map[string]error{
				"Extend": d.Extend(t.ctx), "Nak": d.Nak(t.ctx, 0), "Release": d.Release(t.ctx), "Term": d.Term(t.ctx, "no"),
			} {
				if !errors.Is(err, jobs.ErrAcked) {
					t.Errorf("%s after Ack: %v", what, err)
				}
			}
		}
		t.goneFor(t.Consumer(t))
		t.must(d.Ack(t.ctx)) // though the lease would be over
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
}
