package jobs

import (
	"context"
	"encoding/json"
	"fmt"
)

// A Handler does a job. What its result means is said in the package's documentation.
// ctx ends when the lease is lost, when [Serve] waits no longer, when the pool is
// closed, and when the handler returns.
type Handler func(ctx context.Context, j *Job) error

// A Job is what a [Handler] is given.
type Job struct {
	ID      string
	Data    []byte
	Header  Header
	Attempt int // how often it was leased, this time included

	d Delivery

	// What follows is guarded by server.mu.
	state  state
	cancel context.CancelCauseFunc // nil until it runs
	lost   bool                    // its lease is
	lease  lease
}

// Delivery is the source's own view of the job, for what only this source can do. Who
// settles the job by it returns nil from the handler.
func (j *Job) Delivery() Delivery { return j.d }

type jobKey struct{}

// From returns the job that ctx, the context of its handler or one derived from it,
// belongs to; nil if there is none.
func From(ctx context.Context) *Job {
	j, _ := ctx.Value(jobKey{}).(*Job)
	return j
}

// A Codec turns values into payloads and back.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// JSON is the [Codec] that is used where none is given.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

// Handle is a [Handler] for payloads that are a T in JSON. One that is not goes to the
// dead letters. f finds the job itself, if it needs that, by [From].
func Handle[T any](f func(ctx context.Context, v T) error) Handler {
	return HandleCodec(JSON, f)
}

// HandleCodec is [Handle] for payloads of another encoding.
func HandleCodec[T any](c Codec, f func(ctx context.Context, v T) error) Handler {
	return func(ctx context.Context, j *Job) error {
		var v T
		if err := c.Unmarshal(j.Data, &v); err != nil {
			return Poison(fmt.Errorf("jobs: payload of job %q is no %T: %w", j.ID, v, err))
		}
		return f(ctx, v)
	}
}

// Encode is the [Message] for [Handle], with v in JSON as its payload.
func Encode[T any](v T) (Message, error) { return EncodeCodec(JSON, v) }

// EncodeCodec is [Encode] for [HandleCodec].
func EncodeCodec[T any](c Codec, v T) (Message, error) {
	data, err := c.Marshal(v)
	if err != nil {
		return Message{}, fmt.Errorf("jobs: encode %T: %w", v, err)
	}
	return Message{Data: data}, nil
}

// A Mux has a handler for each type of job, by [TypeHeader].
type Mux map[string]Handler

// Handle is the [Handler]. A job of a type that is not in the Mux goes to the dead
// letters.
func (m Mux) Handle(ctx context.Context, j *Job) error {
	t := j.Header[TypeHeader]
	h, ok := m[t]
	if !ok {
		return Poison(fmt.Errorf("jobs: no handler for type %q of job %q", t, j.ID))
	}
	return h(ctx, j)
}
