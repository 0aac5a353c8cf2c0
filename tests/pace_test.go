package tests

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

// Submitters that never pause kept workers from the CPUs: 4 to 22 % of what 32 of them
// submitted to an unbounded queue had been done when they stopped.
func TestS5_SubmittersThatNeverPauseLetTheWorkersFollow(t *testing.T) {
	if testing.Short() {
		t.Skip("the share depends on the machine where each step takes long, as in an emulator")
	}
	const submitters, each = 32, 150_000
	p := shoal.Must(shoal.New(shoal.WithQueueCapacity(shoal.Unbounded)))
	defer p.Close()
	var wg sync.WaitGroup
	for range submitters {
		wg.Go(func() {
			for range each {
				if err := p.Submit(func() {}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	// Some 200,000 wait at most where the workers have their share of the CPUs; all but some
	// 100,000 did before.
	if waiting := p.Stats().Queued; waiting > submitters*each/2 {
		t.Errorf("%d of %d tasks wait when all are submitted", waiting, submitters*each)
	}
}

// In a synctest bubble time passes only while somebody sleeps: here nobody does.
func TestNobodySleepsForWorkersThatTakeNothing(t *testing.T) {
	const many = 200_000
	fill := func(t *testing.T, submit func(func()) error) {
		t.Helper()
		begun := time.Now()
		for range many {
			if err := submit(func() {}); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(begun); d != 0 {
			t.Errorf("submitters slept for %v", d)
		}
	}
	pool := func() *shoal.Pool {
		return shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(shoal.Unbounded)))
	}
	t.Run("in a pause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool()
			defer p.Close()
			p.Pause()
			fill(t, p.Submit)
		})
	})
	t.Run("in a pause of the parent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool()
			defer p.Close()
			s := shoal.Must(p.Sub(shoal.WithQueueCapacity(shoal.Unbounded)))
			p.Pause()
			fill(t, s.Submit)
		})
	})
	t.Run("a task that blocks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool()
			gate, begun := make(chan struct{}), make(chan struct{})
			if err := p.Submit(func() { close(begun); <-gate }); err != nil {
				t.Fatal(err)
			}
			<-begun
			fill(t, p.Submit)
			close(gate)
			p.Close()
		})
	})
	t.Run("TrySubmit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool()
			defer p.Close()
			fill(t, p.TrySubmit)
		})
	})
	t.Run("a task submits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := pool()
			defer p.Close()
			if err := p.SubmitWait(t.Context(), func(context.Context) error { fill(t, p.Submit); return nil }); err != nil && !errors.Is(err, shoal.ErrDropped) {
				t.Error(err)
			}
		})
	})
}
