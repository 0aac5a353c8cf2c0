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

// emptyAfter is how long work waits for q to be empty for d, when it has nothing to do itself.
func emptyAfter(t *testing.T, q jobs.Depther, d time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	from := &Queue{Source: &one{}, Depther: q}
	p := shoal.Must(shoal.New())
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go jobs.Serve(ctx, p, from, func(context.Context, *jobs.Job) error { return nil })
	if empty := (Work{Empty: d, Quiet: true}).watch(ctx, p, from, &reporter{}, cancel); empty == nil || empty.jobs() != 0 {
		t.Errorf("the work has seen %v at its end", empty)
	}
	return time.Since(start)
}

// TestAQueueHasToBeEmptyForTheTime: it begins anew when the queue has jobs, also elsewhere, or does
// not answer.
func TestAQueueHasToBeEmptyForTheTime(t *testing.T) {
	const d = 10 * time.Second
	for name, c := range map[string]struct {
		from, to time.Duration // when it is not empty
		depth    jobs.Depth
		err      error
	}{
		"leased at first":   {0, time.Minute, jobs.Depth{Leased: 1}, nil},
		"delayed at first":  {0, time.Minute, jobs.Depth{Delayed: 1}, nil},
		"broken at first":   {0, time.Minute, jobs.Depth{}, errors.New("broken")},
		"leased meanwhile":  {d / 2, d, jobs.Depth{Leased: 1}, nil},
		"broken meanwhile":  {d / 2, d, jobs.Depth{}, errors.New("broken")},
		"leased at the end": {d - time.Second, 2 * d, jobs.Depth{Leased: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				took := emptyAfter(t, depthFunc(func() (jobs.Depth, error) {
					if at := time.Since(start); at >= c.from && at < c.to {
						return c.depth, c.err
					}
					return jobs.Depth{}, nil
				}), d)
				if least, most := c.to+d, c.to+d+d/emptyLooks+2*tickEvery; took < least || took > most {
					t.Errorf("the work has ended after %v, want %v to %v", took, least, most)
				}
			})
		})
	}
}

// TestAnEmptyQueueIsAskedSeldom, and it is enough that it was empty for the time once.
func TestAnEmptyQueueIsAskedSeldom(t *testing.T) {
	for _, c := range []struct {
		d, takes time.Duration // takes: to answer
		most     int           // how often it is asked
	}{
		{100 * time.Millisecond, 0, 2},
		{time.Second, 0, 5},
		{10 * time.Second, 0, 5},
		{10 * time.Second, 2 * time.Second, 3},
		{time.Minute, 0, 13},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			took := emptyAfter(t, depthFunc(func() (jobs.Depth, error) {
				asked++
				time.Sleep(c.takes)
				return jobs.Depth{}, nil
			}), c.d)
			if most := c.d + 2*tickEvery + 2*c.takes; took < c.d || took > most || asked > c.most {
				t.Errorf("%v, which takes %v to answer: the work has ended after %v, want at most %v; the queue was asked %d times, want at most %d", c.d, c.takes, took, most, asked, c.most)
			}
		})
	}
}

// TestAQueueThatIsNotEmptyIsAskedSeldom too.
func TestAQueueThatIsNotEmptyIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, asked := time.Now(), 0
		emptyAfter(t, depthFunc(func() (jobs.Depth, error) {
			asked++
			if time.Since(start) < time.Hour {
				return jobs.Depth{Leased: 1}, nil
			}
			return jobs.Depth{}, nil
		}), time.Minute)
		if most := int((time.Hour+time.Minute)/emptyRest) + 2; asked > most {
			t.Errorf("it was asked %d times, want at most %d", asked, most)
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
