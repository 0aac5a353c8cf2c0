package shoalhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/shoalhttp"
)

// BenchmarkSubmit is what a task costs, with the page open in a browser, which reads
// the events and asks for the workers each second, and without. Run it for at least
// some seconds: -benchtime 5s -count 5.
func BenchmarkSubmit(b *testing.B) {
	for _, page := range []string{"closed", "open"} {
		b.Run("page="+page, func(b *testing.B) {
			p := newPool(b, shoal.WithName("a"))
			if page == "open" {
				watch(b, p)
			}
			task := func() {}
			for b.Loop() {
				p.Submit(task)
			}
			p.Wait()
		})
	}
}

// watch does what the page does in a browser, until the benchmark ends.
func watch(b *testing.B, p *shoal.Pool) {
	url := serve(b, shoalhttp.Handler(p))
	read := func(path string) {
		r, err := http.NewRequestWithContext(b.Context(), "GET", url+path, nil)
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	go read("events")
	go func() {
		for b.Context().Err() == nil {
			read("workers.json?pool=1&limit=100")
			time.Sleep(time.Second)
		}
	}()
}

// BenchmarkSnapshot is what the page takes once a second for pools pools.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("pools=", n), func(b *testing.B) {
			h := newPage(b)
			for i := range n {
				p := newPool(b, shoal.WithName(fmt.Sprint(i)), shoal.WithTiming(shoal.TimingFull))
				p.SubmitWait(b.Context(), nop)
				if err := h.Add(p); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				shoalhttp.Take(h)
			}
		})
	}
}

// BenchmarkStream is how much a viewer is sent each second, by the two streams, plain and
// compressed. It is no matter of time.
func BenchmarkStream(b *testing.B) {
	for _, n := range []int{1, 1000} {
		for _, busy := range []bool{false, true} {
			b.Run(fmt.Sprintf("pools=%d/busy=%v", n, busy), func(b *testing.B) {
				h := newPage(b)
				pools := make([]*shoal.Pool, n)
				for i := range pools {
					pools[i] = newPool(b, shoal.WithName(fmt.Sprint("pool-", i)), shoal.WithTiming(shoal.TimingFull))
				}
				if err := h.Add(pools...); err != nil {
					b.Fatal(err)
				}
				work := func() {
					for i, p := range pools {
						for range 1 + i%10 {
							p.SubmitWait(b.Context(), nop)
						}
					}
				}
				work()
				shoalhttp.Stream(h)
				var sent [4][]byte
				for b.Loop() {
					if busy {
						work()
					}
					time.Sleep(300 * time.Millisecond) // else it would not be looked at
					sent = shoalhttp.Stream(h)
				}
				for i, kind := range []string{"events", "events-gzip", "changes", "changes-gzip"} {
					b.ReportMetric(float64(len(sent[i])), kind+"-B/s")
				}
			})
		}
	}
}

func nop(context.Context) error { return nil }
