package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Source is a durable queue to lease jobs from. Its methods are called by several
// goroutines.
type Source interface {
	// Pull leases up to n jobs, n ≥ 1. It waits until there is at least one, and does
	// not wait for more. When ctx ends it returns soon, with what it has leased, or
	// ctx's error; nothing stays leased that it does not return. An error that
	// [Permanent] has made ends [Serve]; after another one Serve calls again, later.
	Pull(ctx context.Context, n int) ([]Delivery, error)
	// Lease is for how long a job is leased, from its Pull or its last Extend on.
	Lease() time.Duration
}

// A Delivery is one leased job. Of Ack, Nak and Term one is called, once it succeeded
// no more; each ends the lease. When the lease is another's by then, they and Extend
// return an error that matches [ErrLeaseLost]. An error of another kind says that it
// is not known whether the call had its effect: it may be made again.
//
// A delivery that wraps another one has a method Unwrap() Delivery, for those who look
// for what only the inner one can do.
type Delivery interface {
	// ID tells the job from others; it is the same at each attempt.
	ID() string
	// Data is the payload. It must not be changed.
	Data() []byte
	// Header is what was sent with the payload, as by a tracer. It may be nil.
	Header() Header
	// Attempt is how often the job was leased, this time included: 1, 2, ….
	Attempt() int
	// Ack says that the job is done. When it has returned nil, the job is not leased
	// again, whatever fails after that.
	Ack(ctx context.Context) error
	// Nak gives the job back, for not before delay has passed.
	Nak(ctx context.Context, delay time.Duration) error
	// Term puts the job to the dead letters, with the reason.
	Term(ctx context.Context, reason string) error
	// Extend begins the lease anew.
	Extend(ctx context.Context) error
}

// A Header goes with a payload. Keys are compared as they are. It has the type that
// OpenTelemetry's propagation.MapCarrier and others can be converted from.
type Header map[string]string

// A Message is a job to be enqueued.
type Message struct {
	// ID tells the job from others. If it is empty one is made. A source ignores a
	// message whose ID it has seen, for as long as it says.
	ID string
	// Data is the payload.
	Data []byte
	// Header goes with it. It may be nil.
	Header Header
	// Delay is for how long the job must not be leased yet.
	Delay time.Duration
}

// A DeadLetter is a job that was given up: what a queue has of it.
type DeadLetter struct {
	ID      string
	Data    []byte
	Header  Header
	Attempt int // the one after which it was
	Reason  string
	At      time.Time // when, by the clock of the queue
}

// A Sink is a durable queue to put jobs into.
type Sink interface {
	// Enqueue puts all messages into the queue, in this order. When it has returned
	// nil they are as safe as the queue makes them. After an error some may be in it;
	// with IDs of their own they can be sent again.
	Enqueue(ctx context.Context, m ...Message) error
}

// TypeHeader is the key of the header by which a [Mux] chooses the handler.
const TypeHeader = "shoal-type"

// Errors.
var (
	// ErrLeaseLost is the cause of the end of a job's context when its lease is lost,
	// and what a [Delivery] returns then.
	ErrLeaseLost = errors.New("jobs: lease lost")
	// ErrAcked is what a [Delivery] may return of Nak, Term and Extend when the job was
	// acknowledged by this very attempt, as in a transaction of the handler's.
	ErrAcked = errors.New("jobs: acknowledged already")
	// ErrStopped is the cause of the end of a job's context when [Serve] does not
	// wait for it any longer.
	ErrStopped = errors.New("jobs: stopped")
	// ErrConfig is matched by errors about options and sources that cannot work.
	ErrConfig = errors.New("jobs: invalid configuration")
)

// A permanentError ends Serve.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err as one that calling again does not help against, as wrong
// credentials or a queue that is not there. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err is, or wraps, one that [Permanent] has made.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

type retryError struct{ after time.Duration }

func (e *retryError) Error() string { return fmt.Sprintf("jobs: retry after %v", e.after) }

// Retry is returned by a handler to have the job again when d has passed, however
// often it was tried before (but see [WithMaxLeases]): it could not be done now, as when a
// rate is exhausted. A negative d is 0.
func Retry(d time.Duration) error { return &retryError{max(0, d)} }

type poisonError struct{ err error }

func (e *poisonError) Error() string { return e.err.Error() }
func (e *poisonError) Unwrap() error { return e.err }

// Poison is returned by a handler for a job that cannot be done, now or later: it goes
// to the dead letters with err as the reason. Poison(nil) says nothing more.
func Poison(err error) error {
	if err == nil {
		err = errors.New("poison")
	}
	return &poisonError{err}
}
