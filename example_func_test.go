package shoal_test

import (
	"fmt"
	"sync/atomic"

	"github.com/shoal-go/shoal"
)

// One function for many values, with no closure for each of them.
func ExampleFunc() {
	pool := shoal.Must(shoal.New())
	defer pool.Close()

	var total atomic.Int64
	add := shoal.NewFunc(pool, func(n int64) { total.Add(n) })
	for n := range int64(1000) {
		if err := add.Submit(n); err != nil {
			fmt.Println(err)
		}
	}
	pool.Wait()
	fmt.Println(total.Load())
	// Output: 499500
}
