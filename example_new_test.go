package shoal_test

import (
	"errors"
	"fmt"

	"github.com/shoal-go/shoal"
)

// New names every invalid option, not just the first.
func ExampleNew() {
	_, err := shoal.New(
		shoal.WithMaxWorkers(0),
		shoal.WithQueueCapacity(-1),
	)
	fmt.Println(errors.Is(err, shoal.ErrConfig))
	fmt.Println(err)
	// Output:
	// true
	// shoal: invalid configuration: WithMaxWorkers(0): want 1 … 16777216
	// shoal: invalid configuration: WithQueueCapacity(-1): want 0 … 68719476736, or Unbounded
}

// For a pool in a package variable.
func ExampleMust() {
	thumbnails := shoal.Must(shoal.New(shoal.WithName("thumbnails"), shoal.WithMaxWorkers(2)))
	defer thumbnails.Close()

	fmt.Println(thumbnails.State())
	// Output: Open
}
