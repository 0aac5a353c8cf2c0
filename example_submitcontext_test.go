package shoal_test

import (
	"context"
	"fmt"

	"github.com/shoal-go/shoal"
)

// A task whose client has gone before a worker came to it does not start.
func ExamplePool_SubmitContext() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	busy := make(chan struct{})
	pool.Submit(func() { <-busy })

	ctx, hangUp := context.WithCancel(context.Background())
	pool.SubmitContext(ctx, func(context.Context) { fmt.Println("answering nobody") })
	pool.SubmitContext(context.Background(), func(ctx context.Context) { fmt.Println("answering, context:", ctx.Err()) })
	hangUp()
	close(busy)

	pool.Wait()
	fmt.Println("canceled:", pool.Stats().Canceled)
	// Output:
	// answering, context: <nil>
	// canceled: 1
}
