package bench

import (
	"context"

	"github.com/shoal-go/shoal"
)

// newShoal leaves everything but the two sizes at its default, also the idle
// timeout: what is measured is what people get.
func newShoal(c Config) Pool {
	capacity := c.Capacity
	if c.Unbounded {
		capacity = shoal.Unbounded
	}
	return shoalPool(shoal.Must(shoal.New(shoal.WithMaxWorkers(c.MaxWorkers), shoal.WithQueueCapacity(capacity))))
}

func shoalPool(p *shoal.Pool) Pool {
	return funcs{
		submit: func(task func()) { must(p.Submit(task)) },
		close:  func() { must(p.Shutdown(context.Background())) },
		of:     p,
	}
}

// manyShoal makes sub-pools of one pool.
func manyShoal(n int, c Config) (pools []Pool, closeAll func()) {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(c.MaxWorkers)))
	for range n {
		pools = append(pools, shoalPool(shoal.Must(p.Sub(shoal.WithQueueCapacity(c.Capacity)))))
	}
	return pools, func() { must(p.Shutdown(context.Background())) }
}

func groupShoal(ctx context.Context, p Pool) group {
	g := p.(funcs).of.(*shoal.Pool).Group(ctx)
	return group{func(task func(context.Context)) { g.Go(func(ctx context.Context) error { task(ctx); return nil }) }, func() { must(g.Wait()) }}
}

func rangeShoal(p Pool, n int, f func(lo, hi int)) {
	must(shoal.Range(context.Background(), p.(funcs).of.(*shoal.Pool), n, func(_ context.Context, lo, hi int) error {
		f(lo, hi)
		return nil
	}))
}
