package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Source is a durable queue from which jobs are leased. Its methods must be safe for
// concurrent use.
type Source interface {
	// Pull leases up to n jobs, n ≥ 1. It blocks until there is at least one, and does
	// not wait for more. When ctx ends, it soon returns the jobs that it has leased, or
	// ctx's error. Jobs that it does not return must not stay leased. An error made by
	// [Permanent] ends [Serve]; after another error Serve calls Pull again, later. A Pull that
	// returns neither a job nor an error before ctx ends has failed too.
	Pull(ctx context.Context, n int) ([]Delivery, error)
	// Lease returns how long a job is leased, counted from its Pull or its last Extend.
	Lease() time.Duration
}

// A Delivery is one leased job.
//
// Ack, Nak, Release and Term each end the lease. Once one of them has succeeded, [Serve] calls none
// of them again. But a handler may have called Ack, see [Job.Delivery], and Serve does not know that.
// So once Ack has returned nil, it does so again, and the others and Extend return an error that
// matches [ErrAcked].
//
// If the lease has been lost, these methods and Extend return an error that matches [ErrLeaseLost].
// Any other error means that the effect of the call is not known; the call may be made again. A panic
// counts as such an error, and is logged. All of these methods block until the queue has confirmed the
// call or ctx ends.
//
// A delivery may have a method Leased() time.Time, which returns when the lease was asked for. Serve
// extends the lease for the first time a third of it after that. Without the method it counts from the
// return of Pull, which is too late if the answer of the queue takes long.
//
// A delivery that wraps another one has a method Unwrap() Delivery, which returns the inner
// one.
type Delivery interface {
	// ID returns the job's ID, which is unique in the queue and the same at each attempt.
	ID() string
	// Data returns the payload, which must not be changed.
	Data() []byte
	// Header returns what was sent with the payload, for example by a tracer. It may be nil.
	Header() Header
	// Attempt returns the number of times that the job was leased, this time included, without
	// the leases that Release has ended: 1, 2, …. A lease that has run out counts, as the job
	// may be what has killed its process.
	Attempt() int
	// Ack marks the job as done. Once it has returned nil, the job is never leased again,
	// whatever fails after that.
	Ack(ctx context.Context) error
	// Nak gives the job back. It is leased again after delay at the earliest. The attempt
	// counts, also if delay is 0.
	Nak(ctx context.Context, delay time.Duration) error
	// Release gives back a job that was not run, or that was interrupted: it may be leased
	// again at once, and this lease is no attempt. A queue that cannot take the attempt back,
	// as its server counts them, says so in its documentation, and Release is Nak(ctx, 0).
	// The next lease may have the same Attempt. Even so, this Delivery cannot end it.
	Release(ctx context.Context) error
	// Term makes the job a dead letter, with that reason.
	Term(ctx context.Context, reason string) error
	// Extend renews the lease: it lasts for [Source].Lease from now on.
	Extend(ctx context.Context) error
}

// A Header goes with a payload. Keys are case-sensitive. A Header can be converted to
// OpenTelemetry's propagation.MapCarrier and to similar types.
type Header map[string]string

// A Message is a job to enqueue.
type Message struct {
	// ID identifies the job. If it is empty, the queue makes one. A queue ignores a message
	// whose ID it already knows; for how long it remembers an ID depends on the queue.
	ID string
	// Data is the payload.
	Data []byte
	// Header goes with the payload. It may be nil.
	Header Header
	// Delay is the time before which the job is not leased; 0 means at once.
	Delay time.Duration
}

// A Sink is a durable queue into which jobs are put.
type Sink interface {
	// Enqueue puts all messages into the queue, in this order. It blocks until the queue
	// has confirmed them, or ctx ends; once it has returned nil, they are as safe as
	// the queue can make them. After an error some of them may be in the queue; messages
	// with an ID can be sent again. Once Enqueue has returned, with an error too, the caller
	// may change Data and Header of the messages.
	Enqueue(ctx context.Context, m ...Message) error
}

// TypeHeader is the key of the header that has the type of a job; see [Mux].
const TypeHeader = "shoal-type"

var (
	// ErrLeaseLost is the cause with which a job's context ends when its lease is lost.
	// The methods of its [Delivery] return errors that match it from then on.
	ErrLeaseLost = errors.New("jobs: lease lost")
	// ErrAcked is matched by the errors of a [Delivery]'s Nak, Release, Term and Extend if this
	// very attempt has already acknowledged the job. The job counts as done, whatever its handler
	// returns.
	ErrAcked = errors.New("jobs: acknowledged already")
	// ErrStopped is the cause with which a job's context ends when [Serve] gives the job
	// back at its end. A handler may return it, or an error that wraps it, to say that the job
	// was interrupted: it is given back, may run again at once, and this is no attempt. If
	// handlers of a Serve return it more than 10 times a second though neither Serve nor the
	// pool ends, each keeps its worker for 1 s more, and a warning is logged. If the error also
	// wraps one of [Retry] or [Poison], it counts as that one. If it wraps [ErrTimeLimit], it is a
	// failure.
	ErrStopped = errors.New("jobs: stopped")
	// ErrTimeLimit is the cause with which a job's context ends when its time limit is over
	// ([WithTimeLimit]).
	ErrTimeLimit = errors.New("jobs: time limit exceeded")
	// ErrConfig is matched by errors about invalid options and arguments.
	ErrConfig = errors.New("jobs: invalid configuration")
)

// A permanentError ends Serve.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err as permanent: calling again does not help, as with wrong credentials
// or a queue that does not exist. It is for implementations of [Source]. Permanent(nil) is
// nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err is, or wraps, an error made by [Permanent].
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

type retryError struct{ after time.Duration }

func (e *retryError) Error() string { return fmt.Sprintf("jobs: retry after %v", e.after) }

// Retry returns an error for a handler to return if the job cannot be done now, for example
// because a rate limit is exhausted. The job runs again after d at the earliest, whatever
// its number of attempts ([WithMaxLeases] alone bounds them). A negative d counts as 0.
func Retry(d time.Duration) error { return &retryError{max(0, d)} }

// RetryAfter returns the d of an error that [Retry] made, and whether err is, or wraps, such
// an error. It is for code that runs handlers for another engine than [Serve].
func RetryAfter(err error) (d time.Duration, ok bool) {
	var r *retryError
	if !errors.As(err, &r) {
		return 0, false
	}
	return r.after, true
}

type poisonError struct{ err error }

func (e *poisonError) Error() string { return e.err.Error() }
func (e *poisonError) Unwrap() error { return e.err }

// Poison returns an error for a handler to return if the job can never be done. The job
// becomes a dead letter, with err as the reason. If err is nil, the reason is "poison".
func Poison(err error) error {
	if err == nil {
		err = errors.New("poison")
	}
	return &poisonError{err}
}

// IsPoison reports whether err is, or wraps, an error made by [Poison]. It is for code that
// runs handlers for another engine than [Serve].
func IsPoison(err error) bool {
	var p *poisonError
	return errors.As(err, &p)
}
