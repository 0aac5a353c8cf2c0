package shoal_test

import (
	"context"
	"fmt"

	"github.com/shoal-go/shoal"
)

// A name tells pools apart in errors, statistics and goroutine profiles (where
// it is the label "pool").
func ExampleWithName() {
	pool := shoal.Must(shoal.New(
		shoal.WithName("indexer"),
		shoal.WithPanicHandler(func(*shoal.PanicError) {}),
	))
	defer pool.Close()

	err := pool.SubmitWait(context.Background(), func(context.Context) error { panic("bad index") })
	fmt.Println(err)
	fmt.Println(pool.Stats().Name)
	// Output:
	// shoal: task of pool "indexer" panicked: bad index
	// indexer
}
