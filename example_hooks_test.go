package shoal_test

import (
	"fmt"

	"github.com/shoal-go/shoal"
)

// Every worker says when it comes and goes, for instance to open and close a
// connection of its own.
func ExampleWithWorkerHooks() {
	pool := shoal.Must(shoal.New(
		shoal.WithMaxWorkers(1),
		shoal.WithWorkerHooks(
			func(id int) { fmt.Println("worker", id, "connects") },
			func(id int) { fmt.Println("worker", id, "hangs up") },
		),
	))
	pool.Submit(func() { fmt.Println("a query") })
	pool.Submit(func() { fmt.Println("another query") })
	pool.Wait()
	pool.Close()
	// Output:
	// worker 0 connects
	// a query
	// another query
	// worker 0 hangs up
}
