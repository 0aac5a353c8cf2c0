package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/shoal-go/shoal"
)

// BenchmarkFullNested is a Submit by a task whose queue is full, so that it runs the new task itself. It is
// nested in that many tasks that were run so.
func BenchmarkFullNested(b *testing.B) {
	for _, depth := range []int{0, 1, 4, 16, 62} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			p := shoal.Must(shoal.New(shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(0)))
			defer p.Close()
			var nest func(n int)
			nest = func(n int) {
				if n > 0 {
					p.Submit(func() { nest(n - 1) })
					return
				}
				for b.Loop() {
					p.Submit(empty)
				}
			}
			p.SubmitWait(context.Background(), func(context.Context) error {
				nest(depth)
				return nil
			})
		})
	}
}

// BenchmarkCrawl is tasks that submit tasks, 88,573 in all, on two workers. By hand means that the task runs
// the new one itself if TrySubmit says that the queue is full.
func BenchmarkCrawl(b *testing.B) {
	for _, capacity := range []int{0, 64, 1000, shoal.Unbounded} {
		for _, by := range []string{"Submit", "Group", "hand"} {
			b.Run(fmt.Sprintf("capacity=%d/by=%s", capacity, by), func(b *testing.B) {
				for b.Loop() {
					p := shoal.Must(shoal.New(shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(capacity)))
					g := p.Group(context.Background())
					var visit func(level int)
					visit = func(level int) {
						if level == 0 {
							return
						}
						for range 3 {
							next := func() { visit(level - 1) }
							switch {
							case by == "Group":
								g.Go(func(context.Context) error { next(); return nil })
							case by == "Submit":
								p.Submit(next)
							case p.TrySubmit(next) != nil:
								next()
							}
						}
					}
					p.Submit(func() { visit(10) })
					p.Wait()
					g.Wait()
					p.Close()
				}
			})
		}
	}
}
