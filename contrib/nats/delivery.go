package shoalnats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"github.com/shoal-go/shoal/jobs"
)

// A delivery is one leased job.
type delivery struct {
	q       *Queue
	m       *nats.Msg
	id      string
	header  jobs.Header
	attempt int
	seq     uint64 // its place in the stream; 0 if it is not known

	mu      sync.Mutex
	ends    time.Time // when its lease is over, by the clocks of this machine
	settled bool
	acked   bool // by Ack
}

const mostMargin = time.Second

// begin notes that the lease began at now or later.
func (d *delivery) begin(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends = now.Add(d.q.lease - min(d.q.lease/10, mostMargin))
}

// over reports whether the lease is over, by the monotonic clock, or by that on the wall,
// which alone goes on while the machine sleeps.
func (d *delivery) over(now time.Time) bool {
	return !now.Before(d.ends) || !now.Round(0).Before(d.ends.Round(0))
}

func (d *delivery) ID() string          { return d.id }
func (d *delivery) Data() []byte        { return d.m.Data }
func (d *delivery) Header() jobs.Header { return d.header }
func (d *delivery) Attempt() int        { return d.attempt }

// late reports whether so much of the lease may be over when the job is read that the job
// should not be begun, for example because the process was stopped or the server is slow to
// answer. If so, late tries to give the job back, and ignores whether that succeeds.
func (d *delivery) late() bool {
	now := time.Now()
	if !d.over(now.Add(d.q.lease / 2)) {
		return false
	}
	if !d.over(now) && d.q.away() == nil {
		_ = d.q.nc.Publish(d.m.Reply, []byte("-NAK"))
	}
	return true
}

// mine returns an error if the job is not leased to d any more.
func (d *delivery) mine() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.acked {
		return fmt.Errorf("%w: attempt %d of job %q", jobs.ErrAcked, d.attempt, d.id)
	}
	if d.settled {
		return fmt.Errorf("%w: attempt %d of job %q was settled already", jobs.ErrLeaseLost, d.attempt, d.id)
	}
	if d.over(time.Now()) {
		return fmt.Errorf("%w: the lease of attempt %d of job %q has ended", jobs.ErrLeaseLost, d.attempt, d.id)
	}
	return nil
}

// tell sends an answer, and waits until the server has confirmed it.
func (d *delivery) tell(ctx context.Context, answer string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := d.mine(); err != nil {
		return err
	}
	// What is sent without a connection may be kept until there is one, and count for the next attempt.
	if err := d.q.away(); err != nil {
		return fmt.Errorf("job %q: %w", d.id, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.q.lease)
		defer cancel()
	}
	_, err := d.q.nc.RequestWithContext(ctx, d.m.Reply, []byte(answer))
	if err != nil {
		return fmt.Errorf("shoalnats: queue %s: job %q: %w", d.q.name, d.id, err)
	}
	return nil
}

// settle is tell for an answer that ends the lease.
func (d *delivery) settle(ctx context.Context, answer string) error {
	if err := d.tell(ctx, answer); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settled, d.acked = true, d.acked || answer == "+ACK"
	return nil
}

func (d *delivery) Ack(ctx context.Context) error {
	err := d.settle(ctx, "+ACK")
	if errors.Is(err, jobs.ErrAcked) {
		return nil
	}
	return err
}

func (d *delivery) Nak(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return d.settle(ctx, "-NAK")
	}
	body, err := json.Marshal(struct {
		Delay time.Duration `json:"delay"`
	}{min(delay, mostDelay)})
	if err != nil {
		return err
	}
	return d.settle(ctx, "-NAK "+string(body))
}

// Release is Nak, and the attempt counts: the server counts deliveries.
func (d *delivery) Release(ctx context.Context) error { return d.Nak(ctx, 0) }

func (d *delivery) Extend(ctx context.Context) error {
	now := time.Now()
	if err := d.tell(ctx, "+WPI"); err != nil {
		return err
	}
	// If the lease has ended since, what was renewed may be that of the next attempt.
	if err := d.mine(); err != nil {
		return err
	}
	d.begin(now)
	return nil
}

func (d *delivery) Term(ctx context.Context, reason string) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := d.mine(); err != nil {
		return err
	}
	n, err := d.letter(reason)
	if err != nil {
		return err
	}
	if _, err := d.q.js.PublishMsg(ctx, n); err != nil {
		return fmt.Errorf("shoalnats: queue %s: publishing the dead letter of job %q: %w", d.q.name, d.id, err)
	}
	return d.settle(ctx, "+TERM")
}

// letterRoom is what the headers of a dead letter need beside those that a job has already,
// with the shortest reason, in bytes.
const letterRoom = 128

// mostID bounds the ID of a dead letter that would be too large, in bytes.
const mostID = 200

// letter is the dead letter. If that cannot be sent, it lacks the output, the reason, the job's
// headers, the payload, or the last two: that is better than no dead letter. Enqueue accepts
// only jobs that fit into a dead letter without a reason. Other programs that publish to the
// stream do not check that, and may use keys of headers that this client does not send.
func (d *delivery) letter(reason string) (n *nats.Msg, err error) {
	first, _, _ := strings.Cut(reason, "\n") // without the output of the job
	without := fmt.Sprintf("%s (the dead letter cannot hold all of the job, with its payload of %d bytes)", first, len(d.m.Data))
	for _, try := range []struct {
		data, header bool
		reason       string
	}{
		{true, true, reason}, {true, true, first}, {true, true, "…"},
		{true, false, without}, {false, true, without}, {false, false, without}, {false, false, "…"},
	} {
		n = nats.NewMsg(d.q.buried())
		id := d.id
		if try.data {
			n.Data = d.m.Data
		}
		if try.header {
			for k, v := range d.header {
				n.Header[k] = []string{v}
			}
		} else if len(id) > mostID {
			id = strings.ToValidUTF8(id[:mostID], "") + "…"
		}
		quoted, err := json.Marshal(try.reason) // of one line
		if err != nil {
			return nil, err
		}
		n.Header[idHeader] = []string{id}
		n.Header[attemptHeader] = []string{strconv.Itoa(d.attempt)}
		n.Header[reasonHeader] = []string{string(quoted)}
		if !try.data || !try.header {
			n.Header[cutHeader] = []string{"1"}
		}
		// A job that was retried is another message, whose attempts count from 1 again.
		n.Header[nats.MsgIdHdr] = []string{fmt.Sprintf("%s %d %d", id, d.seq, d.attempt)}
		if d.q.fits(n) {
			break
		}
	}
	return n, nil
}

// fits reports whether the client and the server accept the headers and the size of a message.
func (q *Queue) fits(n *nats.Msg) bool {
	for k := range n.Header {
		if !validKey(k) {
			return false
		}
	}
	return headerSize(n) <= mostHeader && int64(n.Size()) <= q.nc.MaxPayload()
}

// delivery is the job m, which was leased at since or later.
func (q *Queue) delivery(m *nats.Msg, since time.Time) jobs.Delivery {
	d := &delivery{q: q, m: m, attempt: 1}
	if meta, err := m.Metadata(); err == nil {
		d.attempt, d.seq = int(meta.NumDelivered), meta.Sequence.Stream
	}
	if d.id = m.Header.Get(idHeader); d.id == "" { // not enqueued by us
		if d.id = m.Header.Get(nats.MsgIdHdr); d.id == "" {
			d.id = ackID(m)
		}
	}
	for k, v := range m.Header {
		if len(v) > 0 && !ours(k) {
			if d.header == nil {
				d.header = make(jobs.Header)
			}
			d.header[k] = v[0]
		}
	}
	d.begin(since)
	return d
}

// ackID is an ID for a message that has none: its place in the stream.
func ackID(m *nats.Msg) string {
	if meta, err := m.Metadata(); err == nil {
		return meta.Stream + "-" + strconv.FormatUint(meta.Sequence.Stream, 10)
	}
	return nuid.Next()
}
