package jobstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// This file is the cases of Serve: what it does with the jobs of a queue.

var serveCases = []testCase{
	{"Serve on two machines does each job once", func(t *trial) {
		const n = 100
		for i := range n {
			t.enqueue(jobs.Message{Data: fmt.Appendf(nil, "%d", i)})
		}
		var ran [n]atomic.Int64
		var all sync.WaitGroup
		all.Add(n)
		stop := t.serve(2, func(ctx context.Context, j *jobs.Job) error {
			var i int
			fmt.Sscan(string(j.Data), &i)
			if ran[i].Add(1) == 1 {
				all.Done()
			}
			return nil
		})
		all.Wait()
		stop()
		for i := range ran {
			if k := ran[i].Load(); k != 1 {
				t.Errorf("job %d ran %d times", i, k)
			}
		}
		t.none(t.Consumer(t), short)
	}},
	{"Serve gives back what it has not done", func(t *trial) {
		t.put("a", "b", "c")
		began := make(chan struct{}, 3)
		stop := t.serve(1, func(ctx context.Context, j *jobs.Job) error {
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}, jobs.WithDrain(0))
		<-began
		stop()
		s := t.Consumer(t)
		start := time.Now()
		for range 3 {
			t.must(t.pull(s).Ack(t.ctx))
		}
		if d := time.Since(start); d > s.Lease()*3/4 {
			t.Errorf("they were leased for %v more", d)
		}
		t.goneFor(s)
	}},
	{"Serve knows what a handler has acknowledged", func(t *trial) {
		t.put("a")
		s := t.Consumer(t)
		p := shoal.Must(shoal.New())
		defer p.Close()
		ctx, cancel := context.WithCancel(t.ctx)
		defer cancel()
		err := jobs.Serve(ctx, p, s, func(ctx context.Context, j *jobs.Job) error {
			defer cancel()
			if err := j.Delivery().Ack(ctx); err != nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
				t.Errorf("its context ended: %v", context.Cause(ctx))
			case <-time.After(s.Lease() * 3 / 2):
			}
			return nil
		})
		if all, _ := jobs.Total(p); err != nil || all.Leased != 1 || all.Acked != 1 || all.LeasesLost != 0 || all.Untold != 0 {
			t.Errorf("%v, %+v", err, all)
		}
		t.none(s, short)
	}},
	{"Serve buries what fails", func(t *trial) {
		t.enqueue(jobs.Message{ID: "x", Data: []byte("bad")})
		var attempts atomic.Int64
		stop := t.serve(1, func(ctx context.Context, j *jobs.Job) error {
			attempts.Add(1)
			return fmt.Errorf("attempt %d failed", j.Attempt)
		}, jobs.WithMaxAttempts(3), jobs.WithBackoff(func(int) time.Duration { return 0 }))
		for len(t.Dead(t)) == 0 && t.ctx.Err() == nil {
			time.Sleep(short / 10)
		}
		stop()
		dead := t.Dead(t)
		if attempts.Load() != 3 || len(dead) != 1 || dead[0].ID != "x" || !strings.Contains(dead[0].Reason, "attempt 3 failed") {
			t.Errorf("%d attempts, dead letters: %+v", attempts.Load(), dead)
		}
		t.goneFor(t.Consumer(t))
	}},
	{"Serve does not bury what was interrupted", func(t *trial) {
		if t.CountsReleased {
			t.Skip("the queue counts what was released")
		}
		t.put("a")
		for range 5 {
			began := make(chan int, 1)
			stop := t.serve(1, func(ctx context.Context, j *jobs.Job) error {
				began <- j.Attempt
				<-ctx.Done()
				return ctx.Err()
			}, jobs.WithMaxAttempts(2), jobs.WithDrain(0))
			if n := <-began; n != 1 {
				t.Errorf("attempt %d", n)
			}
			stop()
		}
		var attempts []int
		done := make(chan struct{})
		stop := t.serve(1, func(ctx context.Context, j *jobs.Job) error {
			if attempts = append(attempts, j.Attempt); len(attempts) == 1 {
				return errors.New("it has failed once")
			}
			close(done)
			return nil
		}, jobs.WithMaxAttempts(2), jobs.WithBackoff(func(int) time.Duration { return 0 }))
		select {
		case <-done:
		case <-t.ctx.Done():
		}
		stop()
		if dead := t.Dead(t); fmt.Sprint(attempts) != "[1 2]" || len(dead) > 0 {
			t.Errorf("attempts %v, dead letters %+v", attempts, dead)
		}
	}},
	{"Serve keeps the lease of a long job", func(t *trial) {
		t.put("long")
		s := t.Consumer(t)
		var ran atomic.Int64
		done := make(chan struct{})
		stop := t.serve(2, func(ctx context.Context, j *jobs.Job) error {
			ran.Add(1)
			select {
			case <-ctx.Done():
				t.Errorf("its context ended: %v", context.Cause(ctx))
			case <-time.After(s.Lease() * 5 / 2):
			}
			close(done)
			return nil
		})
		<-done
		stop()
		if ran.Load() != 1 {
			t.Errorf("it ran %d times", ran.Load())
		}
		t.none(s, short)
	}},
}

// serve runs Serve for each of so many machines. stop ends them.
func (t *trial) serve(machines int, h jobs.Handler, opts ...jobs.Option) (stop func()) {
	ctx, cancel := context.WithCancel(t.ctx)
	var wg sync.WaitGroup
	for range machines {
		s := t.Consumer(t)
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
		wg.Go(func() {
			defer p.Close()
			if err := jobs.Serve(ctx, p, s, h, opts...); err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}
