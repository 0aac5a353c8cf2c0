package natstest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	shoalnats "github.com/shoal-go/shoal/contrib/nats"
	"github.com/shoal-go/shoal/jobs"
)

// BenchmarkServe is how many empty jobs one process does a second, each acknowledged
// durably; BenchmarkEnqueue how many it takes, in batches.
func BenchmarkServe(b *testing.B) {
	for _, mode := range []struct {
		name string
		opts []serverOption
	}{{"sync=always", nil}, {"sync=no", []serverOption{withoutSync()}}} {
		for _, workers := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%s/workers=%d", mode.name, workers), func(b *testing.B) {
				s := start(b, b.TempDir(), mode.opts...)
				q := open(b, connect(b, s), "bench", shoalnats.WithLease(30*time.Second))
				fill(b, q, b.N, 256)
				p := shoal.Must(shoal.New(shoal.WithMaxWorkers(workers)))
				defer p.Close()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				done := make(chan struct{}, b.N)
				served := make(chan error, 1)
				b.ResetTimer()
				go func() {
					served <- jobs.Serve(ctx, p, q, func(context.Context, *jobs.Job) error { done <- struct{}{}; return nil })
				}()
				for range b.N {
					<-done
				}
				cancel()
				if err := <-served; err != nil {
					b.Error(err)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}

func BenchmarkEnqueue(b *testing.B) {
	for _, batch := range []int{1, 256} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			q := open(b, connect(b, start(b, b.TempDir())), "bench")
			b.ResetTimer()
			fill(b, q, b.N, batch)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

func fill(b *testing.B, q jobs.Sink, n, batch int) {
	for n > 0 {
		ms := make([]jobs.Message, min(n, batch))
		for i := range ms {
			ms[i].Data = []byte("a payload of thirty-two bytes...")
		}
		if err := q.Enqueue(context.Background(), ms...); err != nil {
			b.Fatal(err)
		}
		n -= len(ms)
	}
}
