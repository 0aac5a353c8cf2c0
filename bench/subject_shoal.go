package bench

import (
	"context"

	"github.com/shoal-go/shoal"
)

// newShoal leaves everything but the two sizes at its default, also the idle
// timeout: what is measured is what people get.
func newShoal(c Config) Pool {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(c.MaxWorkers), shoal.WithQueueCapacity(c.Capacity)))
	return funcs{
		submit: func(task func()) { must(p.Submit(task)) },
		close:  func() { must(p.Shutdown(context.Background())) },
	}
}
