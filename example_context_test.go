package shoal_test

import (
	"context"
	"fmt"

	"github.com/shoal-go/shoal"
)

// The pool ends with the context of the service it belongs to.
func ExampleWithContext() {
	service, stop := context.WithCancel(context.Background())
	pool := shoal.Must(shoal.New(shoal.WithContext(service)))

	started := make(chan struct{})
	pool.SubmitContext(context.Background(), func(ctx context.Context) {
		close(started)
		<-ctx.Done()
		fmt.Println("the task is told to stop")
	})
	<-started

	stop()
	<-pool.Done()
	fmt.Println(pool.State())
	fmt.Println(pool.Submit(func() {}))
	// Output:
	// the task is told to stop
	// Closed
	// shoal: pool closed
}
