package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/shoal-go/shoal"
)

// Have a result, and the number of tasks bounded.
func ExamplePool_SubmitWait() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(8)))
	defer pool.Close()

	var text []byte
	err := pool.SubmitWait(context.Background(), func(ctx context.Context) (err error) {
		text, err = os.ReadFile("no such file")
		return err
	})
	fmt.Println(len(text), errors.Is(err, fs.ErrNotExist))
	// Output: 0 true
}

// SubmitWait returns when its task has returned, also if ctx ends meanwhile. So the
// task may write to what the caller goes on using.
func ExamplePool_SubmitWait_deadline() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	var cleanedUp bool
	err := pool.SubmitWait(ctx, func(ctx context.Context) error {
		<-ctx.Done() // a request that takes too long
		cleanedUp = true
		return fmt.Errorf("reading the catalogue: %w", ctx.Err())
	})
	fmt.Println(err)
	fmt.Println(cleanedUp)
	// Output:
	// reading the catalogue: context deadline exceeded
	// true
}

// A task that waits for a task of its own pool runs it right there. So even
// one worker is enough for any depth.
func ExamplePool_SubmitWait_nested() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(1)))
	defer pool.Close()

	var factorial func(ctx context.Context, n int) (int, error)
	factorial = func(ctx context.Context, n int) (f int, err error) {
		if n == 0 {
			return 1, nil
		}
		err = pool.SubmitWait(ctx, func(ctx context.Context) error { // the task's own ctx
			f, err = factorial(ctx, n-1)
			return err
		})
		return n * f, err
	}
	fmt.Println(factorial(context.Background(), 10))
	// Output: 3628800 <nil>
}
