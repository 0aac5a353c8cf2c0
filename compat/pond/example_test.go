package pond_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/shoal-go/shoal/compat/pond"
)

// From pond's README: a pool, a group, a group with a context.
func Example() {
	pool := pond.New(100, 1000)
	var n atomic.Int32
	for i := 0; i < 1000; i++ {
		pool.Submit(func() { n.Add(1) })
	}
	group := pool.Group()
	for i := 0; i < 20; i++ {
		group.Submit(func() { n.Add(1) })
	}
	group.Wait()

	failing, _ := pool.GroupContext(context.Background())
	failing.Submit(func() error { return fmt.Errorf("failed to fetch") })
	fmt.Println(failing.Wait())

	pool.StopAndWait()
	fmt.Println(n.Load())
	// Output:
	// failed to fetch
	// 1020
}
