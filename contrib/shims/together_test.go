package shoalshims_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/riverqueue/river"
	"github.com/shoal-go/shoal"
	shoalshims "github.com/shoal-go/shoal/contrib/shims"
	"go.temporal.io/sdk/activity"
)

// Three engines, each with 20 jobs and leave to run all of them at once, on one pool of
// 4: the process never runs more than that.
func TestTogether(t *testing.T) {
	const each = 20
	pool := newPool(t, shoal.WithMaxWorkers(4))
	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithWeight(3)))
	reports := shoal.Must(pool.Sub(shoal.WithName("reports"), shoal.WithMaxWorkers(2)))
	payments := shoal.Must(pool.Sub(shoal.WithName("payments"), shoal.WithPriority(1)))
	var all, ofReports gauge

	a := startAsynq(t, shoalshims.Asynq(reports, asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		all.visit(func() { ofReports.visit(nap) })
		return nil
	})), asynq.Config{Concurrency: each})
	r := startRiver(t, func(context.Context, *river.Job[Mail]) error {
		all.visit(nap)
		return nil
	}, river.Config{}, shoalshims.River(on(mails)))
	for range each {
		a.add(t, "report")
		r.add(t, nil)
	}
	var wg sync.WaitGroup
	for range each {
		wg.Go(func() {
			env := newSuite().NewTestActivityEnvironment()
			env.SetWorkerOptions(options(context.Background(), onPool(payments)))
			env.RegisterActivityWithOptions(func(context.Context) error { all.visit(nap); return nil }, activity.RegisterOptions{Name: "charge"})
			if _, err := env.ExecuteActivity("charge"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	waitFor(t, "all jobs", func() bool { return all.all.Load() == 3*each })
	for _, p := range []*shoal.Pool{mails, reports, payments} {
		p.Wait()
		if s := p.Stats(); s.Completed != each || s.Failed != 0 {
			t.Errorf("pool %s has completed %d, failed %d; want %d, 0", s.Name, s.Completed, s.Failed, each)
		}
	}
	if n := all.most.Load(); n > 4 {
		t.Errorf("%d jobs at a time, want at most 4", n)
	}
	if n := ofReports.most.Load(); n > 2 {
		t.Errorf("%d reports at a time, want at most 2", n)
	}
	if n := pool.Stats().PeakWorkers; n > 4 {
		t.Errorf("%d workers, want at most 4", n)
	}
}

// Handlers of two engines on one pool, side by side, and what the pool knows of them.
func Example() {
	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(4),
		shoal.WithPanicHandler(func(*shoal.PanicError) {}))) // else panics are logged
	mails := shoal.Must(pool.Sub(shoal.WithName("mails"), shoal.WithWeight(3)))
	reports := shoal.Must(pool.Sub(shoal.WithName("reports"), shoal.WithMaxWorkers(1)))

	mail := shoalshims.Asynq(mails, asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		return nil
	}))
	report := shoalshims.Asynq(reports, asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		panic("no such month: 13")
	}))

	// What the engine does:
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(mail.ProcessTask(ctx, asynq.NewTask("mail", nil)))
	err := report.ProcessTask(ctx, asynq.NewTask("report", nil))
	fmt.Println(err)
	if pe, ok := errors.AsType[*shoal.PanicError](err); ok {
		fmt.Println("with its stack:", len(pe.Stack) > 0)
	}

	pool.Shutdown(context.Background())
	for _, p := range []*shoal.Pool{mails, reports} {
		s := p.Stats()
		fmt.Printf("%s: %d completed, %d of them failed\n", s.Name, s.Completed, s.Failed)
	}
	// Output:
	// <nil>
	// shoal: task of pool "reports" panicked: no such month: 13
	// with its stack: true
	// mails: 1 completed, 0 of them failed
	// reports: 1 completed, 1 of them failed
}
