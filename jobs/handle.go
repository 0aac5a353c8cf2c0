package jobs

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
)

// A Handler does a job. The package's documentation lists what its result means.
//
// ctx ends when the lease is lost, when [Serve] gives the job back at its end, when the time
// limit of the job is over, when the pool is closed, and when the handler has returned.
// [context.Cause] tells these apart: [ErrLeaseLost], [ErrStopped], [ErrTimeLimit] or
// [shoal.ErrClosed].
type Handler func(ctx context.Context, j *Job) error

// A Job is one job of a queue, as a [Handler] gets it.
type Job struct {
	ID      string // the same at each attempt
	Data    []byte // the payload; it must not be changed
	Header  Header // what was sent with the payload; nil if nothing was
	Attempt int    // 1, 2, …: number of times that the job was leased, without those that were interrupted

	d Delivery

	// What follows is guarded by server.mu.
	state  state
	cancel context.CancelCauseFunc // nil until it runs
	lost   bool                    // its lease is
	acked  bool                    // its handler has acknowledged it: Extend has said so
	fine   bool                    // its handler has returned nil, though it was withdrawn
	lease  lease

	as      RunningJob    // constant once it runs, as d is. The handler may change the fields above d
	attempt int           // as the source says; constant
	inside  *list.Element // of server.inside
}

// Type returns the type of the job: the value of its header [TypeHeader], or "".
func (j *Job) Type() string { return j.Header[TypeHeader] }

// Delivery returns the source's own view of the job, for what only that source can do. A
// handler that acknowledges the job through it returns nil. A handler must not call Nak, Release
// or Term: to give up the job it returns an error, such as that of [Retry] or [Poison]. Otherwise
// the job counts as one whose lease was lost. Delivery is nil if the job is not one that [Serve]
// has leased.
func (j *Job) Delivery() Delivery { return j.d }

type jobKey struct{}

// From returns the job that ctx belongs to. ctx is the context of a handler, or derived
// from one; for any other context From returns nil.
func From(ctx context.Context) *Job {
	j, _ := ctx.Value(jobKey{}).(*Job)
	return j
}

// NewContext returns a context derived from ctx for which [From] returns j. [Serve] makes
// such contexts itself. NewContext is for tests of handlers, and for code that runs handlers
// for another engine.
func NewContext(ctx context.Context, j *Job) context.Context {
	return context.WithValue(ctx, jobKey{}, j)
}

// A Codec turns values into payloads, and payloads into values.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// JSON is the [Codec] of [Handle] and [Encode]. It uses encoding/json.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// Handle returns a [Handler] that decodes the payload of each job as a T in JSON and calls
// f with it. A job whose payload cannot be decoded becomes a dead letter. If f needs the
// job itself, it calls [From].
func Handle[T any](f func(ctx context.Context, v T) error) Handler {
	return HandleCodec(JSON, f)
}

// HandleCodec is like [Handle], for payloads that c encodes.
func HandleCodec[T any](c Codec, f func(ctx context.Context, v T) error) Handler {
	return func(ctx context.Context, j *Job) error {
		var v T
		if err := c.Unmarshal(j.Data, &v); err != nil {
			return Poison(fmt.Errorf("jobs: payload of job %q is no %T: %w", j.ID, v, err))
		}
		return f(ctx, v)
	}
}

// Encode returns a [Message] whose payload is v in JSON, for a handler made by [Handle].
func Encode[T any](v T) (Message, error) { return EncodeCodec(JSON, v) }

// EncodeCodec is like [Encode], for a handler made by [HandleCodec].
func EncodeCodec[T any](c Codec, v T) (Message, error) {
	data, err := c.Marshal(v)
	if err != nil {
		return Message{}, fmt.Errorf("jobs: encoding a %T: %w", v, err)
	}
	return Message{Data: data}, nil
}

// A Mux has a handler for each type of job, which the function [Handle] can make. The method
// [Mux.Handle] is the handler for [Serve]: it chooses among them. The type of a job is the value of
// its header [TypeHeader].
type Mux map[string]Handler

// Handle is a [Handler] that calls the handler for the type of j. If m has none, the job
// becomes a dead letter.
func (m Mux) Handle(ctx context.Context, j *Job) error {
	t := j.Type()
	h, ok := m[t]
	if !ok {
		return Poison(fmt.Errorf("jobs: no handler for type %q of job %q", t, j.ID))
	}
	return h(ctx, j)
}
