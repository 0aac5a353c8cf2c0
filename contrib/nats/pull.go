package shoalnats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/shoal-go/shoal/jobs"
)

// This file is how jobs are leased: requests to the consumer, and what the server answers to them,
// jobs and statuses.

// Pull implements [jobs.Source]. It leases at most 1000 jobs. An error is permanent
// ([jobs.IsPermanent]) if the queue was deleted, if Pull asks for more than the consumer was
// configured to allow in one request, or if the connection is closed: by the caller, or because
// it has tried to reconnect too often ([nats.MaxReconnects]).
func (q *Queue) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: Pull(%d): want at least 1", jobs.ErrConfig, n)
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	ds, err := q.pull(ctx, min(n, mostPull))
	if err != nil && ctx.Err() == nil && q.nc.IsClosed() {
		err = jobs.Permanent(fmt.Errorf("shoalnats: queue %s: %w", q.name, nats.ErrConnectionClosed))
	}
	return ds, err
}

func (q *Queue) pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// First ask for jobs that are ready: the server says when it has sent them.
		ds, err := q.request(ctx, pullRequest{Batch: n, MaxBytes: mostBytes, NoWait: true})
		if len(ds) > 0 || err != nil {
			return ds, err
		}
		// Then one, however large: with that the request is over, so nothing can come later.
		ds, err = q.request(ctx, pullRequest{Batch: 1, Expires: pullFor, Heartbeat: min(mostBeat, q.lease/beatPart)})
		if len(ds) > 0 || err != nil {
			return ds, err
		}
	}
}

type pullRequest struct {
	Batch     int           `json:"batch"`
	NoWait    bool          `json:"no_wait,omitempty"`
	MaxBytes  int           `json:"max_bytes,omitempty"`
	Expires   time.Duration `json:"expires,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
}

// request makes one request for jobs, and returns those that came until it was over.
func (q *Queue) request(ctx context.Context, r pullRequest) ([]jobs.Delivery, error) {
	ds, err := q.ask(ctx, r)
	return slices.DeleteFunc(ds, func(d jobs.Delivery) bool { return d.(*delivery).late() }), err
}

func (q *Queue) ask(ctx context.Context, r pullRequest) (ds []jobs.Delivery, err error) {
	if err := q.away(); err != nil {
		return nil, err
	}
	// A channel, as NextMsg of a subscription takes some messages for statuses by their headers.
	room := r.Batch + moreStatuses // what comes when there is none is lost
	if r.Heartbeat > 0 {
		room += int(r.Expires / r.Heartbeat)
	}
	came := make(chan *nats.Msg, room)
	sub, err := q.nc.ChanSubscribe(q.nc.NewInbox(), came)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	// What comes was leased after this. A process that was stopped may read it much later.
	since := time.Now()
	if err := q.nc.PublishRequest(q.next, sub.Subject, body); err != nil {
		return nil, errors.Join(err, sub.Unsubscribe())
	}
	for want := r.Batch; len(ds) < want; {
		// A server that is there says something at least every heartbeat.
		silence, cancel := context.WithTimeout(ctx, max(r.Expires, pullFor))
		if r.Heartbeat > 0 {
			cancel()
			silence, cancel = context.WithTimeout(ctx, 2*mostBeat)
		}
		var m *nats.Msg
		select {
		case m = <-came:
		case <-silence.Done():
			err = silence.Err()
		}
		cancel()
		if err != nil {
			ds = append(ds, q.rest(sub, came, since)...)
			switch {
			case len(ds) > 0:
				return ds, nil
			case ctx.Err() != nil:
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("shoalnats: queue %s: the server did not answer a pull: %w", q.name, err)
		}
		if n, ok := without(m); ok {
			want -= n
			continue
		}
		if !isJob(m) {
			over, err := q.status(m)
			if !over && err == nil { // a heartbeat; they are at least so far apart, over there
				since = since.Add(r.Heartbeat)
				continue
			}
			_ = sub.Unsubscribe()
			if len(ds) > 0 {
				return ds, nil
			}
			return nil, err
		}
		ds = append(ds, q.delivery(m, since))
	}
	_ = sub.Unsubscribe()
	return ds, nil
}

// isJob reports whether m is a job, and no status of the server: only a job is to be
// answered. Its headers and its payload prove nothing: the sender of the job has chosen them.
func isJob(m *nats.Msg) bool { return m.Reply != "" }

// without is how many jobs fewer than were asked for come, when m is the status that says
// so of a request with a bound in bytes. A cluster sends it before those that do come.
func without(m *nats.Msg) (n int, ok bool) {
	if text := m.Header.Get("Description"); isJob(m) || !strings.Contains(text, "Exceeds MaxBytes") && text != "Batch Completed" {
		return 0, false
	}
	n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	return max(0, n), err == nil
}

// status is what a status of the server means for the request.
func (q *Queue) status(m *nats.Msg) (over bool, err error) {
	switch code, text := m.Header.Get("Status"), m.Header.Get("Description"); {
	case code == "100": // a heartbeat
		return false, nil
	case code == "404", code == "408": // nothing there; expired
		return true, nil
	case code == "503":
		return true, q.gone(fmt.Errorf("shoalnats: queue %s: no server answers a pull: %w", q.name, nats.ErrNoResponders))
	default:
		if strings.Contains(text, "Consumer Deleted") {
			return true, q.gone(fmt.Errorf("shoalnats: queue %s: %s %s", q.name, code, text))
		}
		// "Exceeded MaxWaiting" is no limit of the request, and passes.
		if code == "409" && strings.Contains(strings.ToLower(text), "exceeded maxrequest") {
			return true, jobs.Permanent(fmt.Errorf("shoalnats: queue %s: %s %s", q.name, code, text))
		}
		return true, fmt.Errorf("shoalnats: queue %s: %s %s", q.name, code, text)
	}
}

// gone is err, made permanent where the queue is not there any more.
func (q *Queue) gone(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), pullFor)
	defer cancel()
	_, e := q.js.Consumer(ctx, q.stream(), consumerName)
	if errors.Is(e, jetstream.ErrConsumerNotFound) || errors.Is(e, jetstream.ErrStreamNotFound) {
		return jobs.Permanent(errors.Join(err, e))
	}
	return err
}

// rest ends the subscription, and returns what the server had sent before it knew.
func (q *Queue) rest(sub *nats.Subscription, came <-chan *nats.Msg, since time.Time) (ds []jobs.Delivery) {
	// What the server sent before it processed the unsubscribe arrives before the answer to
	// the flush. Without a connection nothing arrives, and a flush would wait for the next one.
	if q.away() != nil {
		_ = sub.Unsubscribe()
	} else if sub.Drain() == nil {
		_ = q.nc.FlushTimeout(pullFor)
	}
	for {
		select {
		case m := <-came:
			if isJob(m) {
				ds = append(ds, q.delivery(m, since))
			}
		default:
			return ds
		}
	}
}
