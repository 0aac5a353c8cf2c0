package shoaltemporal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	shoaltemporal "github.com/shoal-go/shoal/contrib/temporal"
	"github.com/shoal-go/shoal/internal/handlertest"
	"github.com/shoal-go/shoal/jobs"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// options are those of a worker whose activities run on what pick says, and whose
// contexts derive from ctx.
func options(ctx context.Context, pick func(activity.Info) *shoal.Pool) worker.Options {
	return worker.Options{
		BackgroundActivityContext: ctx,
		Interceptors:              []interceptor.WorkerInterceptor{shoaltemporal.Interceptor(pick)},
	}
}

func onPool(p *shoal.Pool) func(activity.Info) *shoal.Pool {
	return func(activity.Info) *shoal.Pool { return p }
}

func newSuite() *testsuite.WorkflowTestSuite {
	s := &testsuite.WorkflowTestSuite{}
	s.SetLogger(log.NewStructuredLogger(handlertest.Quiet()))
	return s
}

func TestContract(t *testing.T) {
	handlertest.Contract(t, func(ctx context.Context, p *shoal.Pool, f func(context.Context) error) error {
		env := newSuite().NewTestActivityEnvironment()
		env.SetWorkerOptions(options(ctx, onPool(p)))
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: "charge"})
		_, err := env.ExecuteActivity("charge")
		if _, ok := errors.AsType[*temporal.CanceledError](err); ok && ctx.Err() == nil {
			t.Errorf("got %v: Temporal would not try again what was not cancelled", err)
		}
		return err
	}, false)
}

func TestWithoutPool(t *testing.T) {
	env := newSuite().NewTestActivityEnvironment()
	env.SetWorkerOptions(options(context.Background(), onPool(nil)))
	env.RegisterActivityWithOptions(func(context.Context) (int, error) { return 42, nil }, activity.RegisterOptions{Name: "charge"})
	var n int
	if v, err := env.ExecuteActivity("charge"); err != nil || v.Get(&n) != nil || n != 42 {
		t.Errorf("got %d, error %v; want 42", n, err)
	}
}

// Results, the kinds of errors and heartbeats pass through.
func TestActivity(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
	var beats sync.Map
	charge := func(ctx context.Context, cents int) (string, error) {
		activity.RecordHeartbeat(ctx, cents)
		switch {
		case cents < 0:
			return "", temporal.NewNonRetryableApplicationError("no money", "Refused", nil, cents)
		case cents == 0:
			return "", activity.ErrResultPending
		case cents == 13:
			panic("index 7 of 3")
		}
		return fmt.Sprintf("%s: %d cents", activity.GetInfo(ctx).ActivityType.Name, cents), nil
	}
	newEnv := func() *testsuite.TestActivityEnvironment {
		env := newSuite().NewTestActivityEnvironment()
		env.SetWorkerOptions(options(context.Background(), onPool(p)))
		env.RegisterActivityWithOptions(charge, activity.RegisterOptions{Name: "charge"})
		env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
			var n int
			if details.Get(&n) == nil {
				beats.Store(n, true)
			}
		})
		return env
	}

	var s string
	v, err := newEnv().ExecuteActivity("charge", 250)
	if err != nil || v.Get(&s) != nil || s != "charge: 250 cents" {
		t.Errorf("got %q, error %v", s, err)
	}
	handlertest.WaitFor(t, "the heartbeat", func() bool { _, ok := beats.Load(250); return ok })

	_, err = newEnv().ExecuteActivity("charge", -1)
	if ae, ok := errors.AsType[*temporal.ApplicationError](err); !ok || !ae.NonRetryable() || ae.Type() != "Refused" {
		t.Errorf("got error %v, want one of type Refused that is not tried again", err)
	}
	if _, err = newEnv().ExecuteActivity("charge", 0); err != activity.ErrResultPending {
		t.Errorf("got error %v, want %v", err, activity.ErrResultPending)
	}
	_, err = newEnv().ExecuteActivity("charge", 13)
	if pe, ok := errors.AsType[*temporal.PanicError](err); !ok || pe.StackTrace() != "" {
		t.Errorf("got error %v, want a PanicError of Temporal without a stack", err)
	}
	if s := p.Stats(); s.Completed != 4 || s.Failed != 2 {
		t.Errorf("pool has completed %d, failed %d; want 4, 2: what is pending has not failed", s.Completed, s.Failed)
	}
}

// Errors of package jobs mean what Temporal can do.
func TestErrorsOfJobs(t *testing.T) {
	for _, bare := range []bool{false, true} { // without a pool
		p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
		pool := p
		if bare {
			pool = nil
		}
		do := func(err error) *temporal.ApplicationError {
			env := newSuite().NewTestActivityEnvironment()
			env.SetWorkerOptions(options(context.Background(), onPool(pool)))
			env.RegisterActivityWithOptions(func(context.Context) error { return err }, activity.RegisterOptions{Name: "charge"})
			_, err = env.ExecuteActivity("charge")
			ae, ok := errors.AsType[*temporal.ApplicationError](err)
			if !ok {
				t.Fatalf("got %v, want an application error", err)
			}
			return ae
		}
		for d, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: time.Millisecond} {
			if ae := do(fmt.Errorf("the bank is closed: %w", jobs.Retry(d))); ae.NonRetryable() || ae.Type() != "Retry" ||
				ae.NextRetryDelay() != want || ae.Category() != temporal.ApplicationErrorCategoryBenign {
				t.Errorf("Retry(%v): %v, again in %v; want a benign error of type Retry, again in %v", d, ae, ae.NextRetryDelay(), want)
			}
		}
		if ae := do(fmt.Errorf("ann: %w", jobs.Poison(handlertest.ErrFailed))); !ae.NonRetryable() || ae.Type() != "Poison" {
			t.Errorf("Poison: %v, want an error of type Poison that is not tried again", ae)
		}
		if ae := do(fmt.Errorf("by hand: %w", jobs.ErrStopped)); ae.NonRetryable() || ae.Type() != "Stopped" ||
			ae.NextRetryDelay() != time.Second || ae.Category() != temporal.ApplicationErrorCategoryBenign {
			t.Errorf("ErrStopped: %v, again in %v; want a benign error of type Stopped, again in 1s", ae, ae.NextRetryDelay())
		}
		late := fmt.Errorf("%w: %w", jobs.ErrTimeLimit, jobs.ErrStopped)
		if ae := do(late); ae.Type() == "Stopped" || ae.Category() == temporal.ApplicationErrorCategoryBenign {
			t.Errorf("ErrTimeLimit and ErrStopped: %v of type %s, want a failure", ae, ae.Type())
		}
		if s := p.Stats(); !bare && (s.Completed != 5 || s.Failed != 2) {
			t.Errorf("pool has completed %d, failed %d; want 5, 2: what is put off has not failed", s.Completed, s.Failed)
		}
	}
}

// An activity that is stopped because its workflow has cancelled it is cancelled, for Temporal. One
// that is stopped with its worker runs again.
func TestStopped(t *testing.T) {
	for _, bare := range []bool{false, true} { // without a pool
		p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
		pool := p
		if bare {
			pool = nil
		}
		do := func(cause error) error {
			ctx, cancel := context.WithCancelCause(context.Background())
			env := newSuite().NewTestActivityEnvironment()
			env.SetWorkerOptions(options(ctx, onPool(pool)))
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				cancel(cause) // as the SDK does
				<-ctx.Done()
				return fmt.Errorf("halfway: %w", jobs.ErrStopped)
			}, activity.RegisterOptions{Name: "charge"})
			_, err := env.ExecuteActivity("charge")
			return err
		}
		if err := do(temporal.NewCanceledError()); !temporal.IsCanceledError(err) {
			t.Errorf("cancelled by the workflow: %v, want a CanceledError", err)
		}
		if ae, ok := errors.AsType[*temporal.ApplicationError](do(worker.ErrWorkerShutdown)); !ok || ae.Type() != "Stopped" || ae.NextRetryDelay() != time.Millisecond {
			t.Errorf("stopped with the worker: %v, want an error of type Stopped, again at once", ae)
		}
		p.Wait()
		if s := p.Stats(); !bare && (s.Completed != 2 || s.Failed != 0) {
			t.Errorf("pool has completed %d, failed %d; want 2, 0: what is stopped has not failed", s.Completed, s.Failed)
		}
	}
}

// An interceptor that is listed twice runs the activity, and once on the pool.
func TestInterceptorTwice(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	o := options(context.Background(), onPool(p))
	o.Interceptors = append(o.Interceptors, o.Interceptors...)
	env := newSuite().NewTestActivityEnvironment()
	env.SetWorkerOptions(o)
	env.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "charge"})
	if _, err := env.ExecuteActivity("charge"); err != nil {
		t.Error(err)
	}
	p.Wait()
	if s := p.Stats(); s.Completed != 1 {
		t.Errorf("pool has completed %d, want 1", s.Completed)
	}
}

// Nil is refused when the interceptor is made, and not in each activity.
func TestNil(t *testing.T) {
	defer func() {
		if r := recover(); r != "shoaltemporal: Interceptor(nil): want a function" {
			t.Errorf("panic with %v", r)
		}
	}()
	shoaltemporal.Interceptor(nil)
}

// An attempt that Temporal has given up still runs: the next one does not run beside it.
func TestOneAttemptAtATime(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
	o := options(context.Background(), onPool(p))
	begun, end, first := make(chan bool), make(chan bool), make(chan error)
	do := func(f func(context.Context) error) error { // an environment has one activity, of the same ID
		env := newSuite().NewTestActivityEnvironment()
		env.SetWorkerOptions(o)
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: "charge"})
		_, err := env.ExecuteActivity("charge")
		return err
	}
	go func() { first <- do(func(context.Context) error { close(begun); <-end; return nil }) }()
	<-begun
	second := func(context.Context) error { return nil }
	if ae, ok := errors.AsType[*temporal.ApplicationError](do(second)); !ok || ae.NextRetryDelay() != 10*time.Second {
		t.Errorf("the second attempt: %v, want it again in 10 s", ae)
	}
	close(end)
	if err := <-first; err != nil {
		t.Errorf("the first attempt: %v", err)
	}
	if err := do(second); err != nil {
		t.Errorf("the second attempt, when the first has returned: %v", err)
	}
}

// A runID is an interceptor that gives activities a run ID, as Temporal's server does.
type runID struct {
	interceptor.WorkerInterceptorBase
	id string
}

func (r *runID) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &runIDInbound{id: r.id}
	in.Next = next
	return in
}

type runIDInbound struct {
	interceptor.ActivityInboundInterceptorBase
	id string
}

func (in *runIDInbound) Init(next interceptor.ActivityOutboundInterceptor) error {
	out := &runIDOutbound{id: in.id}
	out.Next = next
	return in.Next.Init(out)
}

type runIDOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	id string
}

func (out *runIDOutbound) GetInfo(ctx context.Context) activity.Info {
	info := out.Next.GetInfo(ctx)
	info.ActivityRunID = out.id
	return info
}

// Activities without a workflow that have the same ID are no attempts of one if their run IDs differ.
func TestTwoRunsOfAnID(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(2))
	o := options(context.Background(), onPool(p))
	do := func(run string, f func(context.Context) error) error {
		o := o
		o.Interceptors = append([]interceptor.WorkerInterceptor{&runID{id: run}}, o.Interceptors...)
		env := newSuite().NewTestActivityEnvironment().SetExecuteActivitiesInWorkflow(false)
		env.SetWorkerOptions(o)
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: "charge"})
		_, err := env.ExecuteActivity("charge")
		return err
	}
	begun, end, first := make(chan bool), make(chan bool), make(chan error)
	go func() { first <- do("one", func(context.Context) error { close(begun); <-end; return nil }) }()
	<-begun
	second := func(context.Context) error { return nil }
	if err := do("two", second); err != nil {
		t.Errorf("another run beside the first: %v", err)
	}
	if err := do("one", second); err == nil {
		t.Error("an attempt of the first run ran beside it")
	}
	close(end)
	if err := <-first; err != nil {
		t.Errorf("the first run: %v", err)
	}
}

// A workflow runs 50 activities at once, the pool 4 at a time.
func TestWorkflowBound(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(4))
	var g handlertest.Gauge
	env := newSuite().NewTestWorkflowEnvironment()
	env.SetWorkerOptions(options(context.Background(), onPool(p)))
	env.RegisterActivityWithOptions(func(context.Context) error { g.Visit(handlertest.Nap); return nil }, activity.RegisterOptions{Name: "charge"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour})
		var futures []workflow.Future
		for range 50 {
			futures = append(futures, workflow.ExecuteActivity(ctx, "charge"))
		}
		for _, f := range futures {
			if err := f.Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if n := g.Most(); n > 4 {
		t.Errorf("%d activities at a time, want at most 4", n)
	}
	if s := p.Stats(); s.Completed != 50 || s.PeakWorkers > 4 {
		t.Errorf("pool has completed %d with %d workers, want 50 with at most 4", s.Completed, s.PeakWorkers)
	}
}

// Temporal tries again what failed because the pool was closed, before it began and
// while it ran.
func TestWorkflowPoolClosed(t *testing.T) {
	open := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	closes := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	pools := []*shoal.Pool{handlertest.ClosedPool(t), closes, open}
	env := newSuite().NewTestWorkflowEnvironment()
	env.SetWorkerOptions(options(context.Background(), func(a activity.Info) *shoal.Pool { return pools[a.Attempt-1] }))
	env.RegisterActivityWithOptions(func(ctx context.Context) (int32, error) {
		n := activity.GetInfo(ctx).Attempt
		if n == 2 {
			go closes.Close()
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return n, nil
	}, activity.RegisterOptions{Name: "charge"})
	env.ExecuteWorkflow(func(ctx workflow.Context) (n int32, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour})
		err = workflow.ExecuteActivity(ctx, "charge").Get(ctx, &n)
		return n, err
	})
	var n int32
	if err := env.GetWorkflowResult(&n); err != nil || n != 3 {
		t.Errorf("got %d, error %v; want the third attempt", n, err)
	}
}

// The documentation says which activities pick is asked for that are better without a pool.
func TestPick(t *testing.T) {
	p := handlertest.NewPool(t, shoal.WithMaxWorkers(1))
	var local, session atomic.Int64
	env := newSuite().NewTestWorkflowEnvironment()
	o := options(context.Background(), func(a activity.Info) *shoal.Pool {
		if a.IsLocalActivity {
			local.Add(1)
			return nil
		}
		if a.ActivityType.Name == "internalSessionCreationActivity" {
			session.Add(1)
			return nil
		}
		return p
	})
	o.EnableSessionWorker = true
	env.SetWorkerOptions(o)
	env.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "charge"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Minute})
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
		if err := workflow.ExecuteLocalActivity(ctx, func(context.Context) error { return nil }).Get(ctx, nil); err != nil {
			return err
		}
		sctx, err := workflow.CreateSession(ctx, &workflow.SessionOptions{CreationTimeout: time.Minute, ExecutionTimeout: time.Minute})
		if err != nil {
			return err
		}
		defer workflow.CompleteSession(sctx)
		return workflow.ExecuteActivity(sctx, "charge").Get(sctx, nil)
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if local.Load() == 0 || session.Load() == 0 {
		t.Errorf("asked for %d local activities and %d sessions, want some of both", local.Load(), session.Load())
	}
}

// Activities of one worker on a pool of two. In a program, the options are given to
// worker.New.
func ExampleInterceptor() {
	pool := shoal.Must(shoal.New(shoal.WithName("work"), shoal.WithMaxWorkers(4)))
	payments := shoal.Must(pool.Sub(shoal.WithName("payments"), shoal.WithMaxWorkers(2), shoal.WithPriority(1)))

	env := newSuite().NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{
		MaxConcurrentActivityExecutionSize: 4,
		Interceptors: []interceptor.WorkerInterceptor{
			shoaltemporal.Interceptor(func(activity.Info) *shoal.Pool { return payments }),
		},
	})
	charge := func(ctx context.Context, cents int) (string, error) {
		activity.RecordHeartbeat(ctx, "asked the bank")
		return fmt.Sprintf("charged %d cents", cents), nil
	}
	env.RegisterActivity(charge)
	v, err := env.ExecuteActivity(charge, 250)
	if err != nil {
		fmt.Println(err)
		return
	}
	var s string
	v.Get(&s)
	fmt.Println(s)

	pool.Shutdown(context.Background())
	fmt.Printf("%s: %d completed\n", payments.Name(), payments.Stats().Completed)
	// Output:
	// charged 250 cents
	// payments: 1 completed
}
