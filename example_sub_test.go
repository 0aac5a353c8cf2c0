package shoal_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/shoal-go/shoal"
)

// One pool for all tenants of a server. Each has a share of the workers while
// all are busy, and what one leaves unused the others have; a health check comes
// before all of them.
func ExamplePool_Sub() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4), shoal.WithName("server")))
	defer pool.Close()
	tenant := func(name string, weight int) *shoal.Pool {
		return shoal.Must(pool.Sub(
			shoal.WithName(name),
			shoal.WithWeight(weight),
			shoal.WithMaxWorkers(3),         // never more than that at once
			shoal.WithQueueCapacity(10_000), // what it may have waiting
		))
	}
	free, paying := tenant("free", 1), tenant("paying", 5)
	health := shoal.Must(pool.Sub(shoal.WithName("health"), shoal.WithPriority(10)))

	var done atomic.Int32
	for range 1000 {
		for _, t := range []*shoal.Pool{free, paying} {
			if err := t.Submit(func() { done.Add(1) }); err != nil {
				fmt.Println(err)
			}
		}
	}
	err := health.SubmitWait(context.Background(), func(context.Context) error { return nil })
	fmt.Println("healthy:", err == nil)

	free.Close() // the tenant has left; what it had waiting is dropped
	paying.Wait()
	s, f := paying.Stats(), free.Stats()
	fmt.Println(s.Completed, f.Completed+f.Dropped)
	// Output:
	// healthy: true
	// 1000 1000
}
