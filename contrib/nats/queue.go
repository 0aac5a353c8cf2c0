// Package shoalnats is a queue for package jobs of shoal on NATS JetStream. It needs
// nats-server 2.12 or later.
//
// A [Queue] consists of a stream of jobs, a durable consumer that all machines share, and a
// stream of dead letters. [Open] creates what is missing, and returns an error if something
// exists with other settings. Without a NATS server, use contrib/sql.
//
// # Guarantees and costs
//
// Jobs are pulled only for workers that are free. Ack, Nak and Term wait until the server
// has confirmed them, and so does Extend: each costs one round trip. A dead letter is
// published before its job ends. So a crash between the two leaves both, never neither.
//
// JetStream counts the deliveries of a job, and takes none back. So an attempt that was
// interrupted, as by the end of [jobs.Serve], counts like one that has failed: allow for some
// with [jobs.WithMaxAttempts].
//
// When JetStream gets an answer, it does not distinguish the attempts of a job: the answer
// of an earlier holder counts like that of the present one. So a delivery keeps track of
// its lease by its own clock. It counts from the earliest moment at which the server can
// have begun the lease, and ends it a tenth early, but at most a second. After that it
// returns [jobs.ErrLeaseLost] without asking the server. An answer that is under way while
// the lease ends may still count for the next attempt, which then has run in vain.
//
// No answer is sent while the connection is down. But the client may keep one that was sent
// just before, and deliver it however late. To prevent that, connect with
// [nats.ReconnectBufSize](-1).
//
// JetStream rounds schedules to whole seconds. So a [jobs.Message] with a Delay is available
// up to a second late, and never early. The delay of a job that was given back is exact to
// the millisecond.
//
// The queue remembers the ID of a job for the time of [WithDuplicates], 2 minutes by
// default.
package shoalnats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/shoal-go/shoal/jobs"
)

// Headers of messages. Others are those of the job.
const (
	idHeader      = "Shoal-Id"
	reasonHeader  = "Shoal-Reason"
	attemptHeader = "Shoal-Attempt"
	cutHeader     = "Shoal-Cut" // of a dead letter that lacks the payload or headers
)

// consumerName is the name of the consumer of the stream of work.
const consumerName = "workers"

const (
	api = "$JS.API" // the prefix of the subjects of JetStream

	defaultLease      = 30 * time.Second
	defaultDuplicates = 2 * time.Minute
	pullFor           = 5 * time.Second            // how long the server waits for a job on our behalf
	mostBeat          = pullFor / 3                // between two heartbeats of one that does
	beatPart          = 6                          // of the lease, after which there is one
	mostBytes         = 8 << 20                    // of what is asked for at once: it has to come within a lease
	confirmIn         = 10 * time.Second           // in which the server has to confirm what was sent to it
	mostWaiting       = 1 << 14                    // machines that wait for a job at the same time
	mostDelay         = 100 * 365 * 24 * time.Hour // the server counts nanoseconds, from 1970 to 2262
	mostSending       = 1 << 10                    // messages of Enqueue: the client allows no number of them
	moreStatuses      = 16                         // than heartbeats, in answer to a pull
)

// An Option configures [Open]: what it creates, and what it expects to exist.
type Option func(*config)

type config struct {
	lease      time.Duration
	replicas   int
	duplicates time.Duration
	deadAge    time.Duration
	existing   bool
	memory     bool
}

// WithLease sets how long a job is leased. The default is 30 s, the minimum 100 ms.
func WithLease(d time.Duration) Option { return func(c *config) { c.lease = d } }

// WithReplicas sets the number of servers of a cluster that store each job, from 1 to 5. The
// default is 1. An even number tolerates no more failures than the odd one below it.
func WithReplicas(n int) Option { return func(c *config) { c.replicas = n } }

// WithDuplicates sets how long the queue remembers the ID of a job and ignores other jobs
// with it. The default is 2 minutes, the minimum 100 ms.
func WithDuplicates(d time.Duration) Option { return func(c *config) { c.duplicates = d } }

// WithDeadAge sets how long dead letters are kept. The default is 0: they are kept for ever.
func WithDeadAge(d time.Duration) Option { return func(c *config) { c.deadAge = d } }

// WithExisting makes [Open] create nothing: it returns an error if something is missing.
func WithExisting() Option { return func(c *config) { c.existing = true } }

// WithMemory keeps the jobs in the server's memory. They are lost when the server ends.
func WithMemory() Option { return func(c *config) { c.memory = true } }

// A Queue is a [jobs.Source] and a [jobs.Sink], made by [Open]. A process needs one Queue for
// each queue that it uses; queues may share a connection. Its methods may be called by
// several goroutines. It need not be closed.
type Queue struct {
	name  string
	nc    *nats.Conn
	js    jetstream.JetStream
	lease time.Duration
	next  string // the subject of the API to pull by

	sending chan struct{} // holds the messages of Enqueue that are sent and not confirmed
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// Open opens the queue with the given name, and creates what is missing. A name has 1 to 100
// letters, digits, underscores and hyphens. Open blocks until the server has answered or ctx
// ends.
//
// The caller closes the connection. It should be made with [nats.ReconnectBufSize](-1), and
// with [nats.MaxReconnects](-1) if it is to outlive a restart of the server.
//
// If an argument or option is invalid, the error matches [jobs.ErrConfig] and names it. So
// does the error if the queue exists with other settings than those that are asked for. Open
// changes no settings: change them on the server, or use another name.
func Open(ctx context.Context, nc *nats.Conn, name string, opts ...Option) (*Queue, error) {
	c := config{lease: defaultLease, replicas: 1, duplicates: defaultDuplicates}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("%w: option %d is nil", jobs.ErrConfig, i)
		}
		o(&c)
	}
	switch {
	case nc == nil:
		return nil, fmt.Errorf("%w: nil connection", jobs.ErrConfig)
	case !validName.MatchString(name):
		return nil, fmt.Errorf("%w: the name %q of a queue: want 1 to 100 letters, digits, _ or -", jobs.ErrConfig, name)
	case c.lease < 100*time.Millisecond:
		return nil, fmt.Errorf("%w: WithLease(%v): want at least 100ms", jobs.ErrConfig, c.lease)
	case c.duplicates < 100*time.Millisecond:
		return nil, fmt.Errorf("%w: WithDuplicates(%v): want at least 100ms", jobs.ErrConfig, c.duplicates)
	case c.replicas < 1 || c.replicas > 5:
		return nil, fmt.Errorf("%w: WithReplicas(%d): want 1 to 5", jobs.ErrConfig, c.replicas)
	case c.deadAge < 0:
		return nil, fmt.Errorf("%w: WithDeadAge(%v): want 0 or more", jobs.ErrConfig, c.deadAge)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4*mostSending), jetstream.WithPublishAsyncTimeout(confirmIn))
	if err != nil {
		return nil, err
	}
	q := &Queue{name: name, nc: nc, js: js, lease: c.lease, sending: make(chan struct{}, mostSending)}
	q.next = fmt.Sprintf("%s.CONSUMER.MSG.NEXT.%s.%s", api, q.stream(), consumerName)
	if err := q.stand(ctx, c); err != nil {
		return nil, fmt.Errorf("shoalnats: queue %s: %w", name, err)
	}
	return q, nil
}

func (q *Queue) stream() string   { return "SHOAL_" + q.name }
func (q *Queue) dead() string     { return "SHOAL_" + q.name + "_DEAD" }
func (q *Queue) now() string      { return "shoal." + q.name + ".now" }
func (q *Queue) buried() string   { return "shoal." + q.name + ".dead" }
func (q *Queue) schedule() string { return "shoal." + q.name + ".later." }

// stand makes the streams and the consumer, or compares what is there.
func (q *Queue) stand(ctx context.Context, c config) error {
	storage := jetstream.FileStorage
	if c.memory {
		storage = jetstream.MemoryStorage
	}
	work := jetstream.StreamConfig{
		Name: q.stream(), Subjects: []string{q.now(), q.schedule() + "*"},
		Retention: jetstream.WorkQueuePolicy, Storage: storage, Replicas: c.replicas,
		Duplicates: c.duplicates, AllowMsgSchedules: true,
	}
	dead := jetstream.StreamConfig{
		Name: q.dead(), Subjects: []string{q.buried()},
		Retention: jetstream.LimitsPolicy, Storage: storage, Replicas: c.replicas,
		Duplicates: c.duplicates, MaxAge: c.deadAge,
	}
	if c.deadAge > 0 {
		dead.Duplicates = min(c.duplicates, c.deadAge)
	}
	workers := jetstream.ConsumerConfig{
		Durable: consumerName, FilterSubject: q.now(), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: c.lease, MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: mostWaiting,
	}
	for _, want := range []jetstream.StreamConfig{work, dead} {
		s, err := q.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) && !c.existing {
			s, err = q.js.CreateStream(ctx, want)
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another machine was faster
				s, err = q.js.Stream(ctx, want.Name)
			}
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", want.Name, err)
		}
		have := s.CachedInfo().Config
		err = differs("stream "+want.Name,
			"subjects", strings.Join(have.Subjects, " "), strings.Join(want.Subjects, " "),
			"retention", have.Retention, want.Retention,
			"storage", have.Storage, want.Storage,
			"replicas", have.Replicas, want.Replicas,
			"duplicates", have.Duplicates, want.Duplicates,
			"maximum age", have.MaxAge, want.MaxAge,
			"maximum of messages", have.MaxMsgs, int64(-1),
			"maximum of bytes", have.MaxBytes, int64(-1),
			"schedules", have.AllowMsgSchedules, want.AllowMsgSchedules)
		if err != nil {
			return err
		}
	}
	w, err := q.js.Consumer(ctx, q.stream(), consumerName)
	if errors.Is(err, jetstream.ErrConsumerNotFound) && !c.existing {
		w, err = q.js.CreateConsumer(ctx, q.stream(), workers)
		if errors.Is(err, jetstream.ErrConsumerExists) {
			w, err = q.js.Consumer(ctx, q.stream(), consumerName)
		}
	}
	if err != nil {
		return fmt.Errorf("consumer %s: %w", consumerName, err)
	}
	have := w.CachedInfo().Config
	return differs("consumer "+consumerName,
		"filter", have.FilterSubject, workers.FilterSubject,
		"acknowledgements", have.AckPolicy, workers.AckPolicy,
		"lease", have.AckWait, workers.AckWait,
		"maximum of attempts", have.MaxDeliver, workers.MaxDeliver,
		"maximum of leases", have.MaxAckPending, workers.MaxAckPending,
		"maximum of pulls", have.MaxWaiting, workers.MaxWaiting)
}

// differs compares settings: triples of a name, what is there, and what is wanted.
func differs(what string, settings ...any) error {
	var errs []error
	for i := 0; i < len(settings); i += 3 {
		if settings[i+1] != settings[i+2] {
			errs = append(errs, fmt.Errorf("%w: %s exists with another setting: %v is %v, want %v",
				jobs.ErrConfig, what, settings[i], settings[i+1], settings[i+2]))
		}
	}
	return errors.Join(errs...)
}

// Lease returns how long a job is leased.
func (q *Queue) Lease() time.Duration { return q.lease }

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// ErrFull is matched by the error of [Queue.Enqueue] if the server has no room for the job,
// because a limit is reached or the disk is full.
var ErrFull = errors.New("the server has no room")

// Enqueue implements [jobs.Sink]. It blocks until the server has confirmed all messages, ctx
// ends, or 10 s have passed. In the last two cases, messages that were not confirmed may be
// in the queue all the same.
//
// If a payload is larger than the server accepts, or a header cannot be sent, Enqueue returns
// an error and sends nothing.
//
// Once a write to its disk has failed, for example because the disk is full, a server
// confirms nothing more until it is restarted. Then it has all jobs that it had confirmed.
func (q *Queue) Enqueue(ctx context.Context, ms ...jobs.Message) error {
	if err := ctx.Err(); err != nil {
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

// Errors of JetStream that mean that there is no room.
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

func (q *Queue) message(m jobs.Message) (*nats.Msg, error) {
	if most := q.nc.MaxPayload(); int64(len(m.Data)) > most {
		return nil, fmt.Errorf("a payload of %d bytes: want at most %d, the limit of the server: %w", len(m.Data), most, nats.ErrMaxPayload)
	}
	n := nats.NewMsg(q.now())
	n.Data = bytes.Clone(m.Data) // it may be sent again when Enqueue has returned
	for k, v := range m.Header {
		switch {
		case k == "" || strings.ContainsAny(k, ": \r\n\t"):
			return nil, fmt.Errorf("%w: the header %q: want a name without colons and white space", jobs.ErrConfig, k)
		case strings.HasPrefix(strings.ToLower(k), "nats-"), k == idHeader:
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
	if most := q.nc.MaxPayload(); int64(n.Size()+letterRoom) > most {
		return nil, fmt.Errorf("a payload of %d bytes, with its headers and %d bytes for the headers of a dead letter: want at most %d in all, the limit of the server: %w",
			len(m.Data), letterRoom, most, nats.ErrMaxPayload)
	}
	return n, nil
}

// Pull implements [jobs.Source]. An error is permanent ([jobs.IsPermanent]) if the queue was
// deleted, or if the connection is closed: by the caller, or because it has tried to
// reconnect too often ([nats.MaxReconnects]).
func (q *Queue) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if n < 1 {
		return nil, fmt.Errorf("%w: Pull(%d): want at least 1", jobs.ErrConfig, n)
	}
	ds, err := q.pull(ctx, n)
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
		// What is there, first: the server says when it has sent that.
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

// away returns an error if there is no connection.
func (q *Queue) away() error {
	if s := q.nc.Status(); s != nats.CONNECTED {
		return fmt.Errorf("shoalnats: queue %s: the connection to the server is %v", q.name, s)
	}
	return nil
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
		if code == "409" && strings.Contains(strings.ToLower(text), "exceeded max") {
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
	// What was sent until the server had seen the end of the interest comes before the
	// answer to the flush.
	if sub.Drain() == nil {
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
		if len(v) > 0 && k != idHeader && !strings.HasPrefix(k, "Nats-") {
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
