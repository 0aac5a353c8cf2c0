package work

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// A shrinking queue shrinks by five jobs a second, until it has twenty left.
type shrinking struct{ start time.Time }

func (s shrinking) Depth(context.Context) (jobs.Depth, error) {
	return jobs.Depth{Ready: max(20, 100-5*int64(time.Since(s.start)/time.Second))}, nil
}

// TestTheTimeLeft is not said of a queue that shrinks no more, though it has shrunk before.
func TestTheTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := depths{q: shrinking{time.Now()}}
		for i := range 20 {
			known, _ := d.look(t.Context(), time.Hour)
			if want := i > 0 && i <= 8; (known.Left != nil) != want {
				t.Errorf("look %d: the time left is told: %v, want %v", i, known.Left != nil, want)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// TestALongRunIsNamed, with its process, once it is long.
func TestALongRunIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reporter{}
		go r.handler(func(_ context.Context, j *jobs.Job) error {
			r.started(j, 77)
			time.Sleep(time.Minute)
			return nil
		})(t.Context(), &jobs.Job{ID: "hung", Attempt: 2})
		time.Sleep(longRun - time.Second)
		if l := r.longest(); l != nil {
			t.Errorf("%+v is told too early", l)
		}
		time.Sleep(21 * time.Second)
		p := progress{Longest: r.longest()}
		if s := p.String(); !strings.HasSuffix(s, "; job hung, attempt 2, has run for 30s as process 77") {
			t.Error(s)
		}
		time.Sleep(time.Minute)
		if l := r.longest(); l != nil {
			t.Errorf("%+v has ended", l)
		}
	})
}

// A given delivery is given back.
type given struct{ jobs.Delivery }

func (given) ID() string                               { return "a" }
func (given) Attempt() int                             { return 3 }
func (given) Header() jobs.Header                      { return jobs.Header{jobs.TypeHeader: "mail"} }
func (given) Nak(context.Context, time.Duration) error { return nil }

// TestTheLastFailureIsTold once. A run that was interrupted is none.
func TestTheLastFailureIsTold(t *testing.T) {
	var said bytes.Buffer
	r := &reporter{err: &said}
	d := &toldDelivery{given{}, r, newResult(given{})}
	d.result.err = "no\x1bway"
	for _, after := range []time.Duration{0, time.Second} {
		if err := d.Nak(t.Context(), after); err != nil {
			t.Fatal(err)
		}
	}
	r.sayFailure()
	r.sayFailure()
	if want := "work: the last failure: job a of type mail, attempt 3: no\\x1bway\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
	if n := r.now(); n.Back != 2 || n.Failed != 1 {
		t.Errorf("%+v", n)
	}
}

// A one source has one job. It takes its result at once, and says so after takes.
type one struct {
	jobs.Delivery
	left  int
	takes time.Duration
}

func (*one) Lease() time.Duration { return time.Second }
func (*one) ID() string           { return "a" }
func (*one) Data() []byte         { return nil }
func (*one) Header() jobs.Header  { return nil }
func (*one) Attempt() int         { return 3 }

func (s *one) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	if s.left == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.left--
	return []jobs.Delivery{s}, nil
}

func (s *one) Ack(context.Context) error                { time.Sleep(s.takes); return nil }
func (s *one) Nak(context.Context, time.Duration) error { return nil }
func (s *one) Term(context.Context, string) error       { return nil }

// TestAResultThatComesLateCounts, and the run is not lost, but for as long as the result is not known.
func TestAResultThatComesLateCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := &reporter{json: true, out: &out, fatal: func(err error) { t.Error(err) }}
		p := shoal.Must(shoal.New())
		defer p.Close()
		src := toldSource{&one{left: 1, takes: time.Minute}, r}
		ctx, cancel := context.WithCancel(t.Context())
		w := Work{Place: Place{Lease: src.Lease()}, JSON: true}
		var both sync.WaitGroup
		both.Go(func() { w.watch(ctx, p, &Queue{Source: src, Depther: shrinking{time.Now()}}, r, cancel) })
		both.Go(func() {
			if err := jobs.Serve(ctx, p, src, r.handler(func(context.Context, *jobs.Job) error { return nil })); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(2 * time.Minute)
		cancel()
		both.Wait()
		synctest.Wait() // for what is said: the Ack whose time is over does not wait for that
		if lost, n := r.lose(), r.now(); len(lost) != 0 || n != (Tally{Done: 1}) {
			t.Errorf("%+v, %d lost", n, len(lost))
		}
		if s := out.String(); strings.Count(s, `"result":`) != 1 || !strings.Contains(s, `"result":"done"`) || !strings.Contains(s, `"lost":1,`) {
			t.Error(s)
		}
	})
}

// TestWhatIsLostStaysSo: a result that the queue takes after the end counts as nothing, nor as a
// failure.
func TestWhatIsLostStaysSo(t *testing.T) {
	var said bytes.Buffer
	d := &toldDelivery{Delivery: given{}, result: newResult(given{})}
	d.result.err = "no way"
	d.r = &reporter{err: &said, untold: map[*aResult]time.Time{d.result: time.Now()}}
	d.r.lose()
	if err := d.Nak(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	d.r.sayFailure()
	if n := d.r.now(); n != (Tally{Lost: 1}) || said.Len() > 0 {
		t.Errorf("%+v, %s", n, said.String())
	}
}

// A lateJob is a source of one job, whose lease is lost before the job is done.
type lateJob struct {
	*one
	pulled atomic.Bool
}

func (s *lateJob) Ack(context.Context) error { return jobs.ErrLeaseLost }

func (s *lateJob) Pull(ctx context.Context, _ int) ([]jobs.Delivery, error) {
	if s.pulled.Swap(true) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []jobs.Delivery{s}, nil
}

// TestALostRunHoldsNoJob: what is known of it stays until the end, its payload does not.
func TestALostRunHoldsNoJob(t *testing.T) {
	r := &reporter{err: io.Discard}
	var job weak.Pointer[lateJob]
	func() {
		p := shoal.Must(shoal.New())
		defer p.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &lateJob{one: new(one)}
		job = weak.Make(s)
		err := jobs.Serve(ctx, p, toldSource{s, r}, r.handler(func(context.Context, *jobs.Job) error {
			cancel()
			return nil
		}))
		if err != nil {
			t.Error(err)
		}
	}()
	for end := time.Now().Add(10 * time.Second); job.Value() != nil && time.Now().Before(end); {
		runtime.GC()
	}
	if job.Value() != nil {
		t.Error("the job is in memory")
	}
	if lost := r.lose(); len(lost) != 1 || lost[0].id != "a" || lost[0].attempt != 3 {
		t.Errorf("%d runs are lost: %+v", len(lost), lost)
	}
}

// TestADeadLetterThatWasNotRun has its reason in JSON, without the output of a command.
func TestADeadLetterThatWasNotRun(t *testing.T) {
	var out bytes.Buffer
	d := &toldDelivery{&one{}, &reporter{json: true, out: &out}, newResult(&one{})}
	if err := d.Term(t.Context(), "lease 3 of 2: not run\noutput"); err != nil {
		t.Fatal(err)
	}
	if want := `{"event":"job","job":"a","attempt":3,"result":"dead","seconds":0,"error":"lease 3 of 2: not run"}` + "\n"; out.String() != want {
		t.Errorf("%s, want %s", out.String(), want)
	}
}

// TestProgressSaysWhatIsInTheQueue: also the dead letters of others, which are not those of this
// process.
func TestProgressSaysWhatIsInTheQueue(t *testing.T) {
	p := progress{Workers: 2, Longest: &long{"a", "mail", 3, 61, 4711}, depth: &depth{Ready: 5, Leased: 1, Dead: 35, Oldest: 7}}
	want := "0 jobs done (0/s), 0 failed, to be tried again, 0 given back, 0 dead letters, 0 of 2 workers busy; " +
		"in the queue 5 ready, the oldest for 7s, 1 leased, 35 dead letters in all; " +
		"job a of type mail, attempt 3, has run for 1m1s as process 4711"
	if p.String() != want {
		t.Errorf("%q, want %q", p, want)
	}
}

// TestOutputThatIsNoUTF8 is in JSON as it is.
func TestOutputThatIsNoUTF8(t *testing.T) {
	var out bytes.Buffer
	r := &reporter{json: true, out: &out}
	for _, s := range []string{"\xff\n", "x\n"} {
		if err := r.output(&jobs.Job{ID: "a"}, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if want := `{"event":"output","job":"a","output_base64":"/wo="}` + "\n" + `{"event":"output","job":"a","output":"x\n"}` + "\n"; out.String() != want {
		t.Errorf("%s, want %s", out.String(), want)
	}
}
