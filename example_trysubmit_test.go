package shoal_test

import (
	"errors"
	"fmt"

	"github.com/shoal-go/shoal"
)

// A server that would rather say no than let requests wait.
func ExamplePool_TrySubmit() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1)))
	defer pool.Close()

	finish := make(chan struct{})
	request := func() { <-finish }
	for i := range 3 {
		switch err := pool.TrySubmit(request); {
		case errors.Is(err, shoal.ErrQueueFull):
			fmt.Println("request", i, "503 Service Unavailable")
		case err == nil:
			fmt.Println("request", i, "accepted")
		}
	}
	close(finish)
	// Output:
	// request 0 accepted
	// request 1 accepted
	// request 2 503 Service Unavailable
}
