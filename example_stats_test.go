package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shoal-go/shoal"
)

// One call for all there is to watch.
func ExamplePool_Stats() {
	pool := shoal.Must(shoal.New(
		shoal.WithName("resize-images"),
		shoal.WithMaxWorkers(1),
		shoal.WithQueueCapacity(4),
		shoal.WithFullPolicy(shoal.Reject),
	))
	defer pool.Close()

	started, finish := make(chan struct{}), make(chan struct{})
	pool.Submit(func() { close(started); <-finish })
	<-started
	for range 5 {
		pool.Submit(func() {})
	}

	s := pool.Stats()
	fmt.Printf("%s: %d of %d workers busy, %d waiting, queue %.0f %% full, %d rejected\n",
		s.Name, s.Running, s.MaxWorkers, s.Queued, 100*s.QueueFill(), s.Rejected)

	close(finish)
	pool.Wait()
	s = pool.Stats()
	fmt.Printf("%d submitted = %d completed + %d dropped + %d canceled + %d in flight\n",
		s.Submitted, s.Completed, s.Dropped, s.Canceled, s.InFlight)
	// Output:
	// resize-images: 1 of 1 workers busy, 4 waiting, queue 100 % full, 1 rejected
	// 5 submitted = 5 completed + 0 dropped + 0 canceled + 0 in flight
}

// How long tasks wait and run. One task in 64 is measured, unless all are to
// be.
func ExampleWithTiming() {
	pool := shoal.Must(shoal.New(shoal.WithTiming(shoal.TimingFull)))
	defer pool.Close()

	for range 100 {
		pool.Submit(func() {})
	}
	pool.Wait()
	run := pool.Stats().RunTime
	fmt.Println("measured:", run.Count)
	fmt.Println("median below the maximum:", run.Quantile(0.5) <= run.Max())
	fmt.Println("99 % took less than a minute:", run.Quantile(0.99) < time.Minute)
	// Output:
	// measured: 100
	// median below the maximum: true
	// 99 % took less than a minute: true
}

// Who is busy, and since when.
func ExamplePool_Workers() {
	pool := shoal.Must(shoal.New(
		shoal.WithMinWorkers(1),
		shoal.WithMaxWorkers(1),
		shoal.WithIdleTimeout(shoal.Forever),
	))
	defer pool.Close()

	ctx := context.Background()
	for i := range 3 {
		pool.SubmitWait(ctx, func(context.Context) error {
			if i == 1 {
				return errors.New("no such host")
			}
			return nil
		})
	}
	started, finish := make(chan struct{}), make(chan struct{})
	pool.Submit(func() { close(started); <-finish })
	<-started
	for w := range pool.Workers() {
		fmt.Printf("worker %d is %v, busy for less than an hour: %t\n", w.ID, w.State, w.TaskAge < time.Hour)
	}
	close(finish)
	pool.Wait()
	for w := range pool.Workers() {
		fmt.Printf("worker %d has executed %d, of which %d failed\n", w.ID, w.Executed, w.Failed)
	}
	// Output:
	// worker 0 is running, busy for less than an hour: true
	// worker 0 has executed 4, of which 1 failed
}
