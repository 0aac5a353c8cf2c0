package shoalnats

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/shoal-go/shoal/jobs"
)

// This file is how messages are checked and published, and what the errors of the server mean then.

// ErrFull is matched by the error of [Queue.Enqueue] if the server cannot store the job,
// because a limit is reached or the disk is full.
var ErrFull = errors.New("the server has no room")

// Enqueue implements [jobs.Sink]. It blocks until the server has confirmed all messages, ctx
// ends, or one of them was sent 10 s ago and is not confirmed. In the last two cases, messages that
// were not confirmed may be in the queue all the same.
//
// If a payload is larger than the server accepts, or a header or an ID cannot be sent, Enqueue
// returns an error and sends nothing. The key of a header consists of letters, digits and the
// characters !#$%&'*+-.^_`|~. The keys Shoal-Id, Shoal-Reason, Shoal-Attempt and Shoal-Cut, and
// those that begin with Nats-, belong to the queue. The headers and the ID, which is sent
// twice, have 64 KiB together, less what the headers of a dead letter need.
//
// Once a write to its disk has failed, for example because the disk is full, a server
// confirms nothing more until it is restarted. Then it has all jobs that it had confirmed.
func (q *Queue) Enqueue(ctx context.Context, ms ...jobs.Message) error {
	if err := ended(ctx); err != nil {
		return err
	}
	msgs := make([]*nats.Msg, len(ms))
	for i, m := range ms {
		var err error
		if msgs[i], err = q.message(m); err != nil {
			return fmt.Errorf("shoalnats: queue %s: message %d of %d: %w", q.name, i, len(ms), err)
		}
	}
	var acks []jetstream.PubAckFuture // of those that are sent and not yet known to be confirmed
	var failed error
	done := 0
	// confirm waits for the answer to the first of them, and removes it from acks and sending.
	confirm := func() {
		select {
		case <-acks[0].Ok():
			done++
		case err := <-acks[0].Err():
			failed = cmp.Or(failed, err) // the others say the same
		case <-ctx.Done():
			failed = cmp.Or(failed, ctx.Err())
		}
		acks = acks[1:]
		<-q.sending
	}
	for len(msgs) > 0 && failed == nil {
		if len(acks) > 0 {
			select {
			case q.sending <- struct{}{}:
			default:
				confirm()
				continue
			}
		} else {
			select {
			case q.sending <- struct{}{}:
			case <-ctx.Done():
				failed = ctx.Err()
				continue
			}
		}
		a, err := q.js.PublishMsgAsync(msgs[0])
		if err != nil {
			failed = err
			<-q.sending
			break
		}
		acks, msgs = append(acks, a), msgs[1:]
	}
	for len(acks) > 0 {
		confirm()
	}
	if failed != nil {
		return fmt.Errorf("shoalnats: queue %s: %d of %d messages are confirmed: %w", q.name, done, len(ms), why(failed))
	}
	return nil
}

// Errors of JetStream that mean that it cannot store the job.
const (
	noResources jetstream.ErrorCode = 10023
	noMemory    jetstream.ErrorCode = 10028
	noStorage   jetstream.ErrorCode = 10047
)

// why adds to the error of a publish what is behind it.
func why(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case noResources, noMemory, noStorage:
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	if errors.Is(err, jetstream.ErrAsyncPublishTimeout) || errors.Is(err, jetstream.ErrNoStreamResponse) {
		return fmt.Errorf("%w (the server may be down, or one whose disk is full)", err)
	}
	return err
}

// validKey reports whether the client sends a header with that key. It demands a token of HTTP.
func validKey(k string) bool {
	return k != "" && !strings.ContainsFunc(k, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// ours reports whether a header with that key is one of the queue or of JetStream, and not one
// of the job.
func ours(k string) bool {
	switch k {
	case idHeader, reasonHeader, attemptHeader, cutHeader:
		return true
	}
	return strings.HasPrefix(strings.ToLower(k), "nats-")
}

// headerSize returns how many bytes the headers of a message take that has no reply subject.
func headerSize(n *nats.Msg) int { return n.Size() - len(n.Subject) - len(n.Data) }

func (q *Queue) message(m jobs.Message) (*nats.Msg, error) {
	if most := q.nc.MaxPayload(); int64(len(m.Data)) > most {
		return nil, fmt.Errorf("a payload of %d bytes: want at most %d, the limit of the server: %w", len(m.Data), most, nats.ErrMaxPayload)
	}
	n := nats.NewMsg(q.now())
	n.Data = bytes.Clone(m.Data) // it may be sent again when Enqueue has returned
	for k, v := range m.Header {
		switch {
		case !validKey(k):
			return nil, fmt.Errorf("%w: the header %q: want a name of letters, digits and !#$%%&'*+-.^_`|~", jobs.ErrConfig, k)
		case ours(k):
			return nil, fmt.Errorf("%w: the header %q: want another name, as the queue uses this one", jobs.ErrConfig, k)
		case strings.ContainsAny(v, "\r\n") || strings.TrimSpace(v) != v:
			return nil, fmt.Errorf("%w: the value %q of header %s: want one line, without white space at its ends", jobs.ErrConfig, v, k)
		}
		n.Header[k] = []string{v}
	}
	id := m.ID
	switch {
	case id == "":
		id = nuid.Next()
	case strings.ContainsAny(id, "\r\n") || strings.TrimSpace(id) != id:
		return nil, fmt.Errorf("%w: the ID %q: want one line, without white space at its ends", jobs.ErrConfig, id)
	}
	n.Header[idHeader] = []string{id}
	n.Header[nats.MsgIdHdr] = []string{id}
	if m.Delay > 0 {
		n.Subject = q.schedule() + nuid.Next()
		at := time.Now().Add(min(m.Delay, mostDelay) + time.Second - 1).Truncate(time.Second)
		n.Header["Nats-Schedule"] = []string{"@at " + at.UTC().Format(time.RFC3339)}
		n.Header["Nats-Schedule-Target"] = []string{q.now()}
	}
	if size := headerSize(n); size+letterRoom > mostHeader {
		return nil, fmt.Errorf("%w: headers of %d bytes, with the ID, and %d bytes for the headers of a dead letter: want at most %d in all, the limit of the server",
			jobs.ErrConfig, size, letterRoom, mostHeader)
	}
	if most := q.nc.MaxPayload(); int64(n.Size()+letterRoom) > most {
		return nil, fmt.Errorf("a payload of %d bytes, with its headers and %d bytes for the headers of a dead letter: want at most %d in all, the limit of the server: %w",
			len(m.Data), letterRoom, most, nats.ErrMaxPayload)
	}
	return n, nil
}
