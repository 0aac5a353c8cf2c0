package tests

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// This file is what these tests share, beside package testpool. None of it sleeps,
// retries or reads a clock.

// inBubble is [testpool.InBubble].
func inBubble(t *testing.T, f func(t *testing.T)) { t.Helper(); testpool.InBubble(t, f) }

// ----- accounting -----

// A tally has one word per task: whether it was accepted and how often it ran.
type tally struct {
	words  []atomic.Uint32
	sealed atomic.Bool
	late   atomic.Int32
}

const tallyAccepted = 1 << 16

func newTally(n int) *tally { return &tally{words: make([]atomic.Uint32, n)} }

// task is task i: it notes that it ran.
func (y *tally) task(i int) func() { return func() { y.hit(i) } }

// taskCtx is task with a context.
func (y *tally) taskCtx(i int) func(context.Context) { return func(context.Context) { y.hit(i) } }

// hit notes that task i ran.
func (y *tally) hit(i int) {
	if y.sealed.Load() {
		y.late.Add(1)
	}
	y.words[i].Add(1)
}

// seal says that no task may run from now on.
func (y *tally) seal() { y.sealed.Store(true) }

// accept notes that the pool accepted task i.
func (y *tally) accept(i int) { y.words[i].Add(tallyAccepted) }

// note is accept if err is nil; it returns err.
func (y *tally) note(i int, err error) error {
	if err == nil {
		y.accept(i)
	}
	return err
}

// ran is how often task i ran.
func (y *tally) ran(i int) int { return int(y.words[i].Load() & (tallyAccepted - 1)) }

// accepted reports whether task i was accepted.
func (y *tally) accepted(i int) bool { return y.words[i].Load() >= tallyAccepted }

// check fails the test unless every task ran exactly once.
func (y *tally) check(t testing.TB) {
	t.Helper()
	y.checkLate(t)
	for i := range y.words {
		if n := y.ran(i); n != 1 {
			t.Errorf("task %d of %d ran %d times, want once", i, len(y.words), n)
			return
		}
	}
}

// checkAccepted fails the test unless every accepted task ran exactly once, and
// every other one never. It returns how many were accepted.
func (y *tally) checkAccepted(t testing.TB) (accepted int) {
	t.Helper()
	return y.checkDropped(t, 0)
}

// checkDropped fails the test unless every accepted task ran exactly once, but
// for as many as dropped, which never ran; and every other one never. It
// returns how many were accepted.
func (y *tally) checkDropped(t testing.TB, dropped uint64) (accepted int) {
	t.Helper()
	y.checkLate(t)
	var missing uint64
	first := -1
	for i := range y.words {
		n, ok := y.ran(i), y.accepted(i)
		if ok {
			accepted++
		}
		switch {
		case n > 1:
			t.Errorf("task %d of %d ran %d times", i, len(y.words), n)
		case n == 1 && !ok:
			t.Errorf("task %d of %d ran but was refused", i, len(y.words))
		case n == 0 && ok:
			missing++
			if first < 0 {
				first = i
			}
		}
	}
	if missing != dropped {
		t.Errorf("%d accepted tasks did not run (the first: %d), want %d", missing, first, dropped)
	}
	return accepted
}

func (y *tally) checkLate(t testing.TB) {
	t.Helper()
	if n := y.late.Load(); n != 0 {
		t.Errorf("%d tasks ran when all was over", n)
	}
}

// checkNoneTwice fails the test if a task ran more than once.
func (y *tally) checkNoneTwice(t testing.TB, round int) {
	t.Helper()
	for i := range y.words {
		if n := y.ran(i); n > 1 {
			t.Errorf("round %d: task %d ran %d times", round, i, n)
		}
	}
}

// checkOver ends the test unless p, of that round, adds up with nothing in
// flight.
func checkOver(t testing.TB, p *shoal.Pool, round int) {
	t.Helper()
	s := p.Stats()
	checkIdentity(t, s)
	if s.InFlight != 0 {
		t.Fatalf("round %d: %+v", round, s)
	}
}

// checkIdentity fails the test if s contradicts what Stats promises for every
// moment.
func checkIdentity(t testing.TB, s shoal.Stats) {
	t.Helper()
	switch {
	case s.InFlight < 0 || s.Queued < 0 || s.Idle < 0 || s.Running < 0:
		t.Errorf("a negative gauge: %+v", s)
	case s.Submitted != s.Completed+s.Dropped+s.Canceled+uint64(s.InFlight):
		t.Errorf("Submitted %d ≠ Completed %d + Dropped %d + Canceled %d + InFlight %d",
			s.Submitted, s.Completed, s.Dropped, s.Canceled, s.InFlight)
	case s.Failed > s.Completed:
		t.Errorf("Failed %d > Completed %d", s.Failed, s.Completed)
	}
}

// ----- pools -----

var allPolicies = []shoal.FullPolicy{shoal.Block, shoal.Reject, shoal.Spawn, shoal.CallerRuns, shoal.DropOldest}

// newPool is shoal.New; an error ends the test.
func newPool(t testing.TB, opts ...shoal.Option) *shoal.Pool {
	t.Helper()
	p, err := shoal.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fixed are the options of a pool of n workers that stay.
func fixed(n int, more ...shoal.Option) []shoal.Option {
	return append([]shoal.Option{shoal.WithMinWorkers(n), shoal.WithMaxWorkers(n)}, more...)
}

// shutClean shuts p down and fails the test unless that is clean: no error, no
// goroutine left, everything accounted for.
func shutClean(t testing.TB, p *shoal.Pool) {
	t.Helper()
	err := p.Shutdown(context.Background())
	testpool.NoGoroutines(t, "after Shutdown")
	if err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	checkEnded(t, p)
}

// closeAll closes p and fails the test unless everything is gone and accounted
// for.
func closeAll(t testing.TB, p *shoal.Pool) {
	t.Helper()
	err := p.Close()
	testpool.NoGoroutines(t, "after Close")
	if err != nil {
		t.Errorf("Close: %v", err)
	}
	checkEnded(t, p)
}

// checkEnded fails the test unless p looks like a pool that has ended.
func checkEnded(t testing.TB, p *shoal.Pool) {
	t.Helper()
	select {
	case <-p.Done():
	default:
		t.Error("ended, but Done is open")
	}
	s := p.Stats()
	checkIdentity(t, s)
	if s.InFlight != 0 || s.Queued != 0 || s.Workers != 0 || s.Running != 0 || s.Idle != 0 || s.State != shoal.Closed || p.Queued() != 0 {
		t.Errorf("ended, but: %+v", s)
	}
}

// hold runs n tasks on p that end when the returned func is called. It returns
// when all of them have started.
func hold(t testing.TB, p *shoal.Pool, n int) (release func()) {
	t.Helper()
	started, gate := make(chan struct{}, n), make(chan struct{})
	for range n {
		if err := p.Submit(func() { started <- struct{}{}; <-gate }); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		<-started
	}
	return sync.OnceFunc(func() { close(gate) })
}

// runsMore fails the test unless p runs n more tasks exactly once.
func runsMore(t testing.TB, p *shoal.Pool, n int) {
	t.Helper()
	y := newTally(n)
	var wg sync.WaitGroup
	wg.Add(n)
	for i := range n {
		if err := p.Submit(func() { y.hit(i); wg.Done() }); err != nil {
			t.Errorf("task %d: %v", i, err)
			wg.Done()
		}
	}
	wg.Wait()
	p.Wait()
	y.check(t)
}

// wantErr fails the test unless errors.Is(got, want).
func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// isClosed reports whether c is closed, or has a value, now.
func isClosed[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// inBackground runs f on a goroutine and returns a channel that is closed when
// it ends, also by runtime.Goexit.
func inBackground(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// canceledContext is a context that is done.
func canceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// noLog throws away what the pools of this test log.
func noLog(t testing.TB) {
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	t.Cleanup(func() { slog.SetDefault(old) })
}

var goroutineID = regexp.MustCompile(`^goroutine (\d+) `)

// goid is the calling goroutine's id, for comparing.
func goid() string {
	var b [64]byte
	return goroutineID.FindStringSubmatch(string(b[:runtime.Stack(b[:], false)]))[1]
}
