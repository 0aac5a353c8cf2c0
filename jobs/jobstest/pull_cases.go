package jobstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// This file is the cases of what is sent and how it arrives: payloads, IDs, order, and how a Pull waits.

var pullCases = []testCase{
	{"a job arrives as it was sent", func(t *trial) {
		m := jobs.Message{ID: "some id", Data: []byte("payload"), Header: jobs.Header{"traceparent": "00-ab-cd-01", "Some-Key": "ä, \"b\""}}
		t.enqueue(m)
		copy(m.Data, "changed") // which is the caller's again
		clear(m.Header)
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
}
