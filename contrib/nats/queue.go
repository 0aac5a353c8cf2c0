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
// has confirmed them, and so does Extend: each costs one round trip, Term two. A dead letter is
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
// up to a second late, and never early. This machine computes the time, and the server waits
// for it by its own clock: if the two clocks differ, the job is early or late by as much. The
// delay of a job that was given back is exact to the millisecond.
//
// The queue remembers the ID of a job for the time of [WithDuplicates], 2 minutes by
// default.
package shoalnats

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	mostPull          = 1000                       // jobs that are asked for at once
	mostBytes         = 8 << 20                    // of what is asked for at once: it has to come within a lease
	confirmIn         = 10 * time.Second           // in which the server has to confirm what was sent to it
	mostWaiting       = 1 << 14                    // machines that wait for a job at the same time
	mostHeader        = 1<<16 - 1                  // bytes of the headers of a message: the server accepts no more
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

// WithLease sets how long a job is leased. The default is 30 s, the minimum 100 ms. All processes
// of a queue need the same: the server has it, and [Open] fails with another one.
func WithLease(d time.Duration) Option { return func(c *config) { c.lease = d } }

// WithReplicas sets the number of servers of a cluster that store each job, from 1 to 5. The
// default is 1. An even number tolerates no more failures than the odd one below it.
func WithReplicas(n int) Option { return func(c *config) { c.replicas = n } }

// WithDuplicates sets how long the queue remembers the ID of a job and ignores other jobs
// with it. The default is 2 minutes, the minimum 100 ms.
func WithDuplicates(d time.Duration) Option { return func(c *config) { c.duplicates = d } }

// WithDeadAge sets how long dead letters are kept. The default is 0: they are kept for ever.
// Otherwise, the minimum is 100 ms.
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
	case ctx == nil:
		return nil, errNilContext
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
	case c.deadAge != 0 && c.deadAge < 100*time.Millisecond:
		return nil, fmt.Errorf("%w: WithDeadAge(%v): want 0, or at least 100ms", jobs.ErrConfig, c.deadAge)
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

var errNilContext = fmt.Errorf("%w: nil context", jobs.ErrConfig)

// ended returns an error if ctx has ended, or is nil.
func ended(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	return ctx.Err()
}

// away returns an error if there is no connection.
func (q *Queue) away() error {
	if s := q.nc.Status(); s != nats.CONNECTED {
		return fmt.Errorf("shoalnats: queue %s: the connection to the server is %v", q.name, s)
	}
	return nil
}
