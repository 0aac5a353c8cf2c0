package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// An Option changes how [Serve] works.
type Option func(*config)

type config struct {
	name        string
	maxAttempts int
	maxLeases   int
	backoff     func(attempt int) time.Duration
	drain       time.Duration
	grace       time.Duration
	log         *slog.Logger
	context     func(ctx context.Context, j *Job) context.Context
}

const (
	defaultMaxAttempts = 10
	defaultDrain       = 10 * time.Second
	defaultGrace       = time.Second
	firstBackoff       = time.Second
	mostBackoff        = 5 * time.Minute
)

func newConfig(opts []Option) (c config, err error) {
	c = config{maxAttempts: defaultMaxAttempts, backoff: Backoff, drain: defaultDrain, grace: defaultGrace, log: slog.Default()}
	var errs []error
	for i, o := range opts {
		if o == nil {
			errs = append(errs, fmt.Errorf("%w: option %d is nil", ErrConfig, i))
			continue
		}
		o(&c)
	}
	if c.maxAttempts < 0 {
		errs = append(errs, fmt.Errorf("%w: WithMaxAttempts(%d): want 0 (no limit) or more", ErrConfig, c.maxAttempts))
	}
	if c.maxLeases < 0 {
		errs = append(errs, fmt.Errorf("%w: WithMaxLeases(%d): want 0 (no limit) or more", ErrConfig, c.maxLeases))
	}
	if c.backoff == nil {
		errs = append(errs, fmt.Errorf("%w: WithBackoff(nil)", ErrConfig))
	}
	if c.drain < 0 {
		errs = append(errs, fmt.Errorf("%w: WithDrain(%v): want 0 or more", ErrConfig, c.drain))
	}
	if c.log == nil {
		errs = append(errs, fmt.Errorf("%w: WithLogger(nil)", ErrConfig))
	}
	return c, errors.Join(errs...)
}

// WithName names the source in logs and statistics. The default is its type.
func WithName(name string) Option { return func(c *config) { c.name = name } }

// WithMaxAttempts sets after how many attempts a job that fails goes to the dead
// letters; 0: never. The default is 10. An attempt is a lease, for whatever reason the
// one before ended.
func WithMaxAttempts(n int) Option { return func(c *config) { c.maxAttempts = n } }

// WithMaxLeases sets after how many leases a job goes to the dead letters without being
// run once more; 0, the default: never. It is for jobs that kill their process, of which a
// source knows nothing but that they were leased. That holds as well for jobs that
// were put off by [Retry], or given back unrun when a Serve ended or its pool was paused;
// so n should be well above all that, and above [WithMaxAttempts].
func WithMaxLeases(n int) Option { return func(c *config) { c.maxLeases = n } }

// WithBackoff sets how long a job rests that has failed at the given attempt, 1, 2, ….
// The default is [Backoff]. Less than 0 is 0.
func WithBackoff(f func(attempt int) time.Duration) Option {
	return func(c *config) { c.backoff = f }
}

// WithDrain sets for how long [Serve] lets jobs run on after its end was asked for,
// before it cancels them and gives them back. The default is 10 s.
func WithDrain(d time.Duration) Option { return func(c *config) { c.drain = d } }

// WithLogger sets where Serve logs: leases that were lost, dead letters and a source
// that fails. The default is [slog.Default].
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithJobContext has f derive each job's context, as to have a tracer take the trace
// that [Job].Header tells of. f is called on the worker, before the handler.
func WithJobContext(f func(ctx context.Context, j *Job) context.Context) Option {
	return func(c *config) { c.context = f }
}

// Backoff is 1 s after the first attempt, doubles with each, up to 5 min, and is
// shortened at random by up to a fifth, so that jobs that failed together do not
// come back together.
func Backoff(attempt int) time.Duration {
	d := mostBackoff
	if n := attempt - 1; n < 9 { // 1 s << 9 is more than 5 min
		d = firstBackoff << max(0, n)
	}
	d = min(d, mostBackoff)
	return d - rand.N(d/5)
}
