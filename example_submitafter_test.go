package shoal_test

import (
	"fmt"
	"time"

	"github.com/shoal-go/shoal"
)

// Try again later, without a goroutine that sleeps.
func ExamplePool_SubmitAfter() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	delivered := make(chan int)
	var deliver func(attempt int) func()
	deliver = func(attempt int) func() {
		return func() {
			if attempt < 3 { // the receiver does not answer
				pool.SubmitAfter(time.Millisecond<<attempt, deliver(attempt+1))
				return
			}
			delivered <- attempt
		}
	}
	pool.Submit(deliver(1))
	fmt.Println("delivered by attempt", <-delivered)

	stop, err := pool.SubmitAfter(time.Hour, func() { fmt.Println("a reminder") })
	fmt.Println("not needed any more:", stop(), err)
	// Output:
	// delivered by attempt 3
	// not needed any more: true <nil>
}
