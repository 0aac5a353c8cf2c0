package shoal_test

import (
	"fmt"

	"github.com/shoal-go/shoal"
)

// Hold the tasks back while their database is being migrated.
func ExamplePool_Pause() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	pool.Pause()
	for i := range 3 {
		pool.Submit(func() { fmt.Println("order", i) })
	}
	fmt.Println(pool.State(), "with", pool.Queued(), "orders waiting")

	pool.Resume()
	pool.Wait()
	fmt.Println(pool.State(), "with", pool.Queued(), "orders waiting")
	// Output:
	// Paused with 3 orders waiting
	// order 0
	// order 1
	// order 2
	// Open with 0 orders waiting
}
