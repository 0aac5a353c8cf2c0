package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/shoal-go/shoal"
)

// A task that panics does not take the process, or even its worker, along.
func ExampleWithPanicHandler() {
	pool := shoal.Must(shoal.New(
		shoal.WithName("mail"),
		shoal.WithPanicHandler(func(e *shoal.PanicError) {
			fmt.Println(e) // e.Stack is where it happened
		}),
	))
	defer pool.Close()

	pool.Submit(func() {
		var inbox []string
		fmt.Println(inbox[3])
	})
	pool.Wait()
	fmt.Println("failed:", pool.Stats().Failed)
	// Output:
	// shoal: task of pool "mail" panicked: runtime error: index out of range [3] with length 0
	// failed: 1
}

// Whoever waits for a task gets its panic as an error.
func ExamplePanicError() {
	pool := shoal.Must(shoal.New(shoal.WithPanicHandler(func(*shoal.PanicError) {})))
	defer pool.Close()

	err := pool.SubmitWait(context.Background(), func(context.Context) error {
		panic(fmt.Errorf("reading: %w", io.ErrUnexpectedEOF))
	})
	var pe *shoal.PanicError
	fmt.Println(errors.As(err, &pe), pe.Value)
	fmt.Println(errors.Is(err, io.ErrUnexpectedEOF))
	// Output:
	// true reading: unexpected EOF
	// true
}
