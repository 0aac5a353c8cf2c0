package shoal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/shoal-go/shoal"
)

// The items are too short to be tasks of their own: f is given many at once.
func ExampleRange() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	var sum atomic.Int64
	err := shoal.Range(context.Background(), pool, 1_000_001, func(_ context.Context, lo, hi int) error {
		part := int64(0)
		for i := lo; i < hi; i++ {
			part += int64(i)
		}
		sum.Add(part) // once a chunk
		return nil
	})
	fmt.Println(sum.Load(), err)
	// Output: 500000500000 <nil>
}

// Loops in loops share the workers of the pool. Pass the inner loop the context that the outer
// one gives.
func ExampleRange_nested() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	const rows, columns = 30, 40
	var table [rows][columns]int
	err := shoal.Range(context.Background(), pool, rows, func(ctx context.Context, lo, hi int) error {
		for y := lo; y < hi; y++ {
			if err := shoal.Range(ctx, pool, columns, func(_ context.Context, lo, hi int) error {
				for x := lo; x < hi; x++ {
					table[y][x] = x * y
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	fmt.Println(table[29][39], err)
	// Output: 1131 <nil>
}

func ExampleMapSlice() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()
	ctx := context.Background()

	atoi := func(_ context.Context, s string) (int, error) { return strconv.Atoi(s) }
	fmt.Println(shoal.MapSlice(ctx, pool, []string{"1", "2", "3"}, atoi))

	numbers, err := shoal.MapSlice(ctx, pool, []string{"4", "five", "6", ""}, atoi, shoal.CollectErrors())
	fmt.Println(numbers)
	fmt.Println(err)
	// Output:
	// [1 2 3] <nil>
	// [4 0 6 0]
	// strconv.Atoi: parsing "five": invalid syntax
	// strconv.Atoi: parsing "": invalid syntax
}

// All items run, whatever becomes of the others.
func ExampleForEachSlice() {
	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(4)))
	defer pool.Close()

	err := shoal.ForEachSlice(context.Background(), pool, []string{".", "no such file", "example_range_test.go"},
		func(_ context.Context, name string) error {
			_, err := os.Stat(name)
			return err
		})
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output: true
}
