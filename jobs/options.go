package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// An Option configures [Serve].
type Option func(*config)

type config struct {
	name        string
	maxAttempts int
	maxLeases   int
	backoff     func(attempt int) time.Duration
	drain       time.Duration
	grace       time.Duration
	limit       time.Duration            // for a job's handler; 0: none
	limits      map[string]time.Duration // by type, instead of limit
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
		errs = append(errs, fmt.Errorf("%w: WithBackoff(nil): want a function", ErrConfig))
	}
	if c.drain < 0 {
		errs = append(errs, fmt.Errorf("%w: WithDrain(%v): want 0 or more", ErrConfig, c.drain))
	}
	for _, t := range slices.Sorted(maps.Keys(c.limits)) {
		if d := c.limits[t]; d < 0 {
			errs = append(errs, fmt.Errorf("%w: WithTimeLimit(%v, %q): want 0 (no limit) or more", ErrConfig, d, t))
		}
	}
	if c.limit < 0 {
		errs = append(errs, fmt.Errorf("%w: WithTimeLimit(%v): want 0 (no limit) or more", ErrConfig, c.limit))
	}
	if c.log == nil {
		errs = append(errs, fmt.Errorf("%w: WithLogger(nil): want a logger", ErrConfig))
	}
	return c, errors.Join(errs...)
}

// WithName sets the name of the source in logs and statistics. The default is the source's
// Go type.
func WithName(name string) Option { return func(c *config) { c.name = name } }

// WithMaxAttempts sets the number of attempts after which a job that fails becomes a dead
// letter. The default is 10; 0 means that there is no limit. Every lease counts as an
// attempt, also one that has run out or that [Retry] has ended, but not one in which the job
// was interrupted (see the package's documentation).
func WithMaxAttempts(n int) Option { return func(c *config) { c.maxAttempts = n } }

// WithMaxLeases sets the number of leases after which a job becomes a dead letter without
// running once more. The default is 0: there is no limit.
//
// It is meant for jobs that kill their process: of these a source knows only that they
// were leased. Other jobs are leased more than once as well: those that [Retry] put off. So n
// should be well above the number of such leases, and above [WithMaxAttempts]. Leases in which
// the job was interrupted do not count.
func WithMaxLeases(n int) Option { return func(c *config) { c.maxLeases = n } }

// WithBackoff sets the time after which a job that has failed may run again. f is called
// with the number of the attempt that failed: 1, 2, …. The default is [Backoff]. A negative
// result counts as 0. If f panics, the time is that of [Backoff], and the panic reaches the pool's
// panic handler.
func WithBackoff(f func(attempt int) time.Duration) Option {
	return func(c *config) { c.backoff = f }
}

// WithDrain sets how long [Serve] lets running jobs finish when its context has ended. Then
// it cancels them and gives them back. The default is 10 s; with 0 they are cancelled at once.
func WithDrain(d time.Duration) Option { return func(c *config) { c.drain = d } }

// WithTimeLimit sets how long the handler of a job may run, each time that the job is run. The
// default is 0: there is no limit. With types the limit is that of the jobs of these types
// ([TypeHeader]), whatever the limit of the others is.
//
// When the time is over, the context of the handler ends with the cause [ErrTimeLimit], and
// the job counts in [Stats].TimedOut. An error that the handler returns after that, unless it
// is that of [Retry], is a failure of the job, whose text names the limit. A handler that
// ignores the end of its context keeps its worker and its lease: nothing can interrupt it.
func WithTimeLimit(d time.Duration, types ...string) Option {
	return func(c *config) {
		if len(types) == 0 {
			c.limit = d
		}
		for _, t := range types {
			if c.limits == nil {
				c.limits = make(map[string]time.Duration)
			}
			c.limits[t] = d
		}
	}
}

// limitOf is the time limit of j.
func (c *config) limitOf(j *Job) time.Duration {
	if d, ok := c.limits[j.Type()]; ok {
		return d
	}
	return c.limit
}

// WithLogger sets the logger of [Serve]. It logs lost leases, dead letters, jobs that exceed
// their time limit, and errors of the source. The default is [slog.Default]. If the logger
// panics, what it was to log is lost.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithJobContext sets a function that derives the context of each job, for example with
// the trace that [Job].Header names. f is called on the worker, just before the handler; the
// context that it returns must be derived from ctx.
func WithJobContext(f func(ctx context.Context, j *Job) context.Context) Option {
	return func(c *config) { c.context = f }
}

// Backoff is the default of [WithBackoff]. It returns 1 s after the first attempt and twice
// as much after each further one, up to 5 minutes. Each time is shortened at random by up to
// a fifth, so that jobs that failed together do not all run again at the same time.
func Backoff(attempt int) time.Duration {
	d := mostBackoff
	if n := attempt - 1; n < 9 { // 1 s << 9 is more than 5 min
		d = firstBackoff << max(0, n)
	}
	d = min(d, mostBackoff)
	return d - rand.N(d/5)
}
