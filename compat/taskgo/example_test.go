package taskgo_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shoal-go/shoal/compat/taskgo"
)

func Example() {
	q := taskgo.New(
		taskgo.WithConcurrency(1),
		taskgo.WithMaxIdle(time.Second),
	)
	for i := range 3 {
		q.Push(func() { fmt.Println("task", i) })
	}
	fmt.Println(q.Stop(context.Background()))
	// Output:
	// task 0
	// task 1
	// task 2
	// <nil>
}

func ExampleNewTask() {
	square := func(n int) { fmt.Println(n * n) }
	q := taskgo.NewTask(square, taskgo.WithConcurrency(1), taskgo.WithMaxPending(100))
	q.Push(2)
	fmt.Println(q.SubmitBatch([]int{3, 4}), "accepted")
	q.Stop(context.Background())
	// Unordered output:
	// 2 accepted
	// 4
	// 9
	// 16
}
