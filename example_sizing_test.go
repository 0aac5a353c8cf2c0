package shoal_test

import (
	"fmt"

	"github.com/shoal-go/shoal"
)

// backlog is a Sizer: another worker for every ten tasks that wait.
type backlog struct{}

func (backlog) Grow(s shoal.Sizing) bool { return s.Queued >= 10*s.Workers }

// A Sizer of one's own. It may hold growth back while the workers keep up, but
// no task is left waiting behind workers that are blocked.
func ExampleSizer() {
	fmt.Println("2 workers, 5 waiting: ", backlog{}.Grow(shoal.Sizing{Workers: 2, Queued: 5}))
	fmt.Println("2 workers, 50 waiting:", backlog{}.Grow(shoal.Sizing{Workers: 2, Queued: 50}))

	pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(100), shoal.WithSizing(backlog{})))
	defer pool.Close()
	answer := make(chan int)
	pool.Submit(func() { fmt.Println("the answer is", <-answer) }) // blocks until
	pool.Submit(func() { answer <- 42 })                           // this one runs
	pool.Wait()
	// Output:
	// 2 workers, 5 waiting:  false
	// 2 workers, 50 waiting: true
	// the answer is 42
}

// The Sizers that come with the package.
func ExampleWithSizing() {
	for name, sizer := range map[string]shoal.Sizer{
		"Auto":     shoal.Auto(),     // as many as the CPUs can use, more while workers block; the default
		"Eager":    shoal.Eager(),    // one for every task that finds no idle worker
		"Balanced": shoal.Balanced(), // one for every GOMAXPROCS/2 of them
		"Lazy":     shoal.Lazy(),     // one for every GOMAXPROCS of them
		"Rated":    shoal.Rated(20),  // one for every 20 of them
	} {
		pool := shoal.Must(shoal.New(shoal.WithMaxWorkers(50), shoal.WithSizing(sizer)))
		for range 1000 {
			pool.Submit(func() {})
		}
		pool.Wait()
		fmt.Println(name, pool.Stats().Completed)
		pool.Close()
	}
	// Unordered output:
	// Auto 1000
	// Eager 1000
	// Balanced 1000
	// Lazy 1000
	// Rated 1000
}
