package jobstest

import (
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// This file is the cases of what a queue says it holds. A queue that is no jobs.Depther skips it.

var depthCases = []testCase{
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
	{"a negative delay is none", func(t *trial) {
		q, ok := t.Sink.(jobs.Depther)
		if !ok {
			t.Skip("the queue is no jobs.Depther")
		}
		young := func() {
			t.Helper()
			d, err := q.Depth(t.ctx)
			t.must(err)
			if d.Oldest > time.Minute {
				t.Errorf("the oldest has been ready for %v", d.Oldest)
			}
		}
		t.enqueue(jobs.Message{Data: []byte("a"), Delay: -time.Hour})
		young()
		s := t.Consumer(t)
		t.must(t.pull(s).Nak(t.ctx, -time.Hour))
		young()
		t.is(t.pull(s), "a", 2)
	}},
}
