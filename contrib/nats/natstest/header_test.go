package natstest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	shoalnats "github.com/shoal-go/shoal/contrib/nats"
	"github.com/shoal-go/shoal/jobs"
)

// bury makes the next job a dead letter, and returns that.
func bury(ctx context.Context, t *testing.T, q *shoalnats.Queue, reason string) jobs.DeadLetter {
	t.Helper()
	ds, err := q.Pull(ctx, 1)
	if err != nil || len(ds) != 1 {
		t.Fatalf("%d jobs, %v", len(ds), err)
	}
	if err := ds[0].Term(ctx, reason); err != nil {
		t.Fatal(err)
	}
	all, err := q.DeadLetters(ctx, jobs.DeadFilter{Newest: true, Limit: 1})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d dead letters, %v", len(all), err)
	}
	return all[0]
}

// TestLargeHeadersFitADeadLetter: the server bounds them, also where the message is small.
func TestLargeHeadersFitADeadLetter(t *testing.T) {
	q := open(t, connect(t, start(t, t.TempDir())), "q")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	output := "\n" + strings.Repeat("o", 8<<10)
	for _, delay := range []time.Duration{0, time.Nanosecond} { // it costs headers, too
		id := delay.String()
		put := func(size int) (jobs.Header, error) {
			h := jobs.Header{"baggage": strings.Repeat("v", size)}
			return h, q.Enqueue(ctx, jobs.Message{ID: id, Data: []byte("x"), Header: h, Delay: delay})
		}
		const bound = 1<<16 - 1
		most := bound
		h, err := put(most)
		if !errors.Is(err, jobs.ErrConfig) || !strings.Contains(err.Error(), fmt.Sprint("at most ", bound)) || !strings.Contains(err.Error(), "message 0 of 1") {
			t.Fatalf("%d bytes: %.300v", most, err)
		}
		for ; errors.Is(err, jobs.ErrConfig); h, err = put(most) {
			most--
		}
		if err != nil || most < bound-400 {
			t.Fatalf("%d bytes: %.300v", most, err)
		}
		for range 2 {
			l := bury(ctx, t, q, strings.Repeat("r", 1<<10)+output)
			if l.ID != id || string(l.Data) != "x" || !maps.Equal(l.Header, h) || l.Reason != "…" {
				t.Errorf("ID %q, %d bytes, %d headers, reason %.100q", l.ID, len(l.Data), len(l.Header), l.Reason)
			}
			if n, err := q.RetryDead(ctx, jobs.DeadFilter{}); n != 1 || err != nil {
				t.Errorf("%d were retried, %v", n, err)
			}
		}
		ds, err := q.Pull(ctx, 1)
		if err != nil || len(ds) != 1 || !maps.Equal(ds[0].Header(), h) {
			t.Fatalf("%d jobs, %v", len(ds), err)
		}
		if err := ds[0].Ack(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := q.Enqueue(ctx, jobs.Message{Header: jobs.Header{"baggage": strings.Repeat("v", 60_000)}}); err != nil {
		t.Fatal(err)
	}
	if l := bury(ctx, t, q, "because"+output); l.Reason != "because" {
		t.Errorf("with room for a reason, and not for the output, the reason is %.100q", l.Reason)
	}
}

// TestHeadersOfOtherPrograms: whatever they are, the job can become a dead letter.
func TestHeadersOfOtherPrograms(t *testing.T) {
	s := start(t, t.TempDir())
	nc := connect(t, s)
	q := open(t, nc, "q")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	put := func(h nats.Header) {
		t.Helper()
		if _, err := js.PublishMsg(ctx, &nats.Msg{Subject: "shoal.q.now", Data: []byte("x"), Header: h}); err != nil {
			t.Fatal(err)
		}
	}
	retry := func() int {
		n, err := q.RetryDead(ctx, jobs.DeadFilter{})
		if err != nil && !strings.Contains(err.Error(), "lacks a part of its job") {
			t.Error(err)
		}
		return n
	}

	put(nats.Header{"Shoal-Cut": {"0"}, "Shoal-Reason": {"mine"}, "Shoal-Attempt": {"7"}, "k": {"v"}})
	for range 2 {
		l := bury(ctx, t, q, "because")
		if l.Reason != "because" || l.Attempt != 1 || !maps.Equal(l.Header, jobs.Header{"k": "v"}) {
			t.Errorf("reason %q, attempt %d, headers %v", l.Reason, l.Attempt, l.Header)
		}
		if n := retry(); n != 1 {
			t.Errorf("%d were retried", n)
		}
	}
	bury(ctx, t, q, "because")
	if n, err := q.DeleteDead(ctx, jobs.DeadFilter{}); n != 1 || err != nil {
		t.Errorf("%d were deleted, %v", n, err)
	}

	put(nats.Header{"baggage": {strings.Repeat("v", 65_500)}})
	if l := bury(ctx, t, q, "because"); string(l.Data) != "x" || len(l.Header) != 0 || !strings.HasPrefix(l.Reason, "because (") {
		t.Errorf("large headers: %d bytes, %d headers, reason %q", len(l.Data), len(l.Header), l.Reason)
	}
	s.publish(t, "shoal.q.now", "NATS/1.0\r\na/b: v\r\n\r\n", "x") // our client does not send that key
	if l := bury(ctx, t, q, "because"); string(l.Data) != "x" || len(l.Header) != 0 || !strings.HasPrefix(l.Reason, "because (") {
		t.Errorf("the header a/b: %d bytes, %d headers, reason %q", len(l.Data), len(l.Header), l.Reason)
	}
	if n := retry(); n != 0 {
		t.Errorf("%d were retried without their headers", n)
	}
}

// publish publishes a message as it is, without a client.
func (n *natsServer) publish(t *testing.T, subject, header, data string) {
	t.Helper()
	c, err := n.s.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	said := bufio.NewScanner(c)
	said.Scan() // INFO
	fmt.Fprintf(c, "CONNECT {\"headers\":true,\"verbose\":false}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(header), len(header)+len(data), header, data)
	for said.Scan() {
		if said.Text() == "PONG" {
			return
		}
	}
	t.Fatalf("the server said %q, %v", said.Text(), said.Err())
}
