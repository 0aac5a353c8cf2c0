package jobstest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// A Subject is a new, empty queue for the suite to test.
type Subject struct {
	// Sink enqueues jobs. If it is a [jobs.DeadStore] or a [jobs.Depther] too, the suite
	// tests that as well; otherwise these cases are skipped.
	Sink jobs.Sink
	// Consumer returns one more consumer of the queue, as another machine would have.
	Consumer func(t testing.TB) jobs.Source
	// Dead returns the dead letters.
	Dead func(t testing.TB) []jobs.DeadLetter
	// Largest is the size of the largest payload that the queue accepts, in bytes; 0 means
	// that there is no limit.
	Largest int
	// CountsReleased says that the queue counts a lease that was released as an attempt.
	CountsReleased bool
}

// A testCase is one case of the suite.
type testCase struct {
	name string
	run  func(t *trial)
}

var cases = slices.Concat(pullCases, leaseCases, serveCases, deadCases, depthCases)

// Cases returns the names of the suite's cases, in order.
func Cases() (names []string) {
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

// Run runs the suite: each case is a parallel subtest with a Subject that make returns. The
// lease should be a few seconds. Some cases wait for its end; others acknowledge 20 jobs within
// one lease, on a machine that may stand still for a second or two. A case that fails may take a
// minute, until its context ends.
func Run(t *testing.T, make func(t *testing.T) Subject) {
	runEach(t, make, func(t *testing.T, test func(*testing.T)) {
		t.Parallel()
		test(t)
	})
}

// runEach runs each case by in.
func runEach(t *testing.T, make func(t *testing.T) Subject, in func(*testing.T, func(*testing.T))) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				t.Cleanup(cancel)
				c.run(&trial{TB: t, Subject: make(t), ctx: ctx})
			})
		})
	}
}

type trial struct {
	testing.TB
	Subject
	ctx context.Context
}

// short is long enough for what is there, and no more.
const short = 300 * time.Millisecond

func (t *trial) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *trial) enqueue(ms ...jobs.Message) {
	t.Helper()
	t.must(t.Sink.Enqueue(t.ctx, ms...))
}

// put enqueues a job with each of the payloads.
func (t *trial) put(payloads ...string) {
	t.Helper()
	for _, s := range payloads {
		t.enqueue(jobs.Message{Data: []byte(s)})
	}
}

// pull leases one job.
func (t *trial) pull(s jobs.Source) jobs.Delivery {
	t.Helper()
	ds, err := s.Pull(t.ctx, 1)
	if err != nil || len(ds) != 1 {
		t.Fatalf("Pull(1): %d jobs, %v", len(ds), err)
	}
	return ds[0]
}

// none demands that there is no job to lease for a while.
func (t *trial) none(s jobs.Source, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, wait)
	defer cancel()
	ds, err := s.Pull(ctx, 10)
	if len(ds) > 0 {
		t.Fatalf("job %q (%q, attempt %d) is leased, and should not be", ds[0].ID(), ds[0].Data(), ds[0].Attempt())
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Pull without a job: %v", err)
	}
}

func (t *trial) is(d jobs.Delivery, data string, attempt int) {
	t.Helper()
	if string(d.Data()) != data || d.Attempt() != attempt {
		t.Fatalf("job %q, attempt %d: want %q, %d", d.Data(), d.Attempt(), data, attempt)
	}
}

// lost demands that each call returns ErrLeaseLost.
func (t *trial) lost(d jobs.Delivery) {
	t.Helper()
	for what, err := range map[string]error{
		"Extend": d.Extend(t.ctx), "Nak": d.Nak(t.ctx, 0), "Release": d.Release(t.ctx), "Term": d.Term(t.ctx, "no"), "Ack": d.Ack(t.ctx),
	} {
		if !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("%s when the lease is lost: %v", what, err)
		}
	}
}

// goneFor demands that there is nothing to lease, now and when a lease would be over.
func (t *trial) goneFor(s jobs.Source) {
	t.Helper()
	t.none(s, s.Lease()+short)
}
