package work

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

type depthFunc func() (jobs.Depth, error)

func (f depthFunc) Depth(context.Context) (jobs.Depth, error) { return f() }

// TestAQueueThatFailsIsNotEmpty, though none of its Pulls has failed yet.
func TestAQueueThatFailsIsNotEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		failed := 0
		q := &Queue{Source: &one{}, Depther: depthFunc(func() (jobs.Depth, error) {
			if time.Since(start) < time.Minute {
				failed++
				return jobs.Depth{}, errors.New("broken")
			}
			return jobs.Depth{}, nil
		})}
		p := shoal.Must(shoal.New())
		defer p.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go jobs.Serve(ctx, p, q, func(context.Context, *jobs.Job) error { return nil })
		empty := Work{Empty: time.Second}.watch(ctx, p, q, &reporter{quiet: true}, cancel)
		if d := time.Since(start); d < time.Minute || failed == 0 || empty == nil {
			t.Errorf("the work has ended after %v, when the queue had failed %d times; it has seen %v", d, failed, empty)
		}
	})
}

// TestAQueueThatDoesNotAnswer for a while keeps the work from its end for not much longer.
func TestAQueueThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		q := &Queue{Source: &one{}, Depther: depthFunc(func() (jobs.Depth, error) {
			if time.Since(start) < time.Minute {
				time.Sleep(patience)
				return jobs.Depth{}, context.DeadlineExceeded
			}
			return jobs.Depth{}, nil
		})}
		p := shoal.Must(shoal.New())
		defer p.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go jobs.Serve(ctx, p, q, func(context.Context, *jobs.Job) error { return nil })
		w := Work{Empty: time.Second}
		w.watch(ctx, p, q, &reporter{err: io.Discard}, cancel)
		if d, most := time.Since(start), time.Minute+patience+emptyRest+tickEvery; d < time.Minute || d > most {
			t.Errorf("the work has ended after %v, want at most %v", d, most)
		}
	})
}

// TestWhatWasSeenAtTheEnd counts if the queue does not answer once more.
func TestWhatWasSeenAtTheEnd(t *testing.T) {
	var err error
	q := depthFunc(func() (jobs.Depth, error) { return jobs.Depth{Ready: 2}, err })
	if d := look(t.Context(), q, &depth{}); d == nil || d.Ready != 2 {
		t.Errorf("%+v, want what the queue has said", d)
	}
	err = errors.New("broken")
	if d := look(t.Context(), q, &depth{Ready: 1}); d == nil || d.Ready != 1 {
		t.Errorf("%+v, want what was seen", d)
	}
	if d := look(t.Context(), q, nil); d != nil {
		t.Errorf("%+v, want nothing", d)
	}
}

// TestAMeasurementIsFreshOnce: what is remembered, as while the queue fails, says nothing of now.
func TestAMeasurementIsFreshOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		d := depths{q: depthFunc(func() (jobs.Depth, error) {
			time.Sleep(time.Second)
			return jobs.Depth{Delayed: 1}, err
		})}
		for i, want := range []bool{true, false, false, true} {
			err = nil
			switch i {
			case 2:
				err = errors.New("broken")
				fallthrough
			case 3:
				time.Sleep(time.Minute)
			}
			if known, fresh := d.look(t.Context(), time.Hour); fresh != want || known.Delayed != 1 {
				t.Errorf("look %d: fresh is %v, want %v; %+v", i, fresh, want, known)
			}
		}
	})
}

// TestTheResultOfWorkUntilTheQueueIsEmpty is an error if nobody knows whether it is.
func TestTheResultOfWorkUntilTheQueueIsEmpty(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(&Interrupted{Signal: os.Interrupt})
	for name, c := range map[string]struct {
		ctx   context.Context
		empty time.Duration
		n     Tally
		left  *depth
		want  string // "": nil
	}{
		"empty":                {t.Context(), 1, Tally{Done: 1}, &depth{}, ""},
		"not asked":            {t.Context(), 1, Tally{}, nil, "the queue cannot be asked whether it is empty"},
		"not asked, dead":      {t.Context(), 1, Tally{Dead: 2}, nil, "whether it is empty; 2 jobs became dead letters"},
		"lost, and left":       {t.Context(), 1, Tally{Lost: 1}, &depth{Leased: 3}, "the result of 1 runs is not known, and 3 jobs are left"},
		"lost, done by others": {t.Context(), 1, Tally{Lost: 1}, &depth{}, ""},
		"enqueued at the end":  {t.Context(), 1, Tally{Done: 1}, &depth{Ready: 1}, ""},
		"for ever":             {t.Context(), 0, Tally{Lost: 1}, nil, ""},
		"interrupted":          {interrupted, 1, Tally{Lost: 1}, nil, "interrupted (interrupt) before the queue was empty"},
	} {
		err := Work{Empty: c.empty}.result(c.ctx, c.n, c.left)
		if dead := (*DeadError)(nil); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || errors.As(err, &dead) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
