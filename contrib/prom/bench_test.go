package prom_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/contrib/prom"
)

// BenchmarkScrape is a scrape of pools with full histograms: what the collector
// does, and all that the exporter does until the page is written.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{1, 100} {
		var pools []*shoal.Pool
		for i := range n {
			pools = append(pools, measuredPool(b, fmt.Sprint("pool-", i)))
		}
		c, err := prom.NewCollector(pools...)
		if err != nil {
			b.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		reg.MustRegister(c)
		b.Run(fmt.Sprintf("part=collect/pools=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			ch := make(chan prometheus.Metric, 100*n)
			for b.Loop() {
				c.Collect(ch)
				for len(ch) > 0 {
					<-ch
				}
			}
		})
		for _, format := range []expfmt.FormatType{expfmt.TypeTextPlain, expfmt.TypeProtoDelim} {
			name := map[expfmt.FormatType]string{expfmt.TypeTextPlain: "text", expfmt.TypeProtoDelim: "protobuf"}[format]
			b.Run(fmt.Sprintf("part=all/format=%s/pools=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				handler := promhttp.HandlerFor(reg, promhttp.HandlerOpts{DisableCompression: true})
				req := httptest.NewRequest("GET", "/metrics", nil)
				req.Header.Set("Accept", string(expfmt.NewFormat(format)))
				var page counter
				for b.Loop() {
					page = counter{header: http.Header{}}
					handler.ServeHTTP(&page, req)
				}
				b.ReportMetric(float64(page.n), "page-bytes")
			})
		}
	}
}

// A counter is a response that is counted and thrown away.
type counter struct {
	header http.Header
	n      int
}

func (c *counter) Header() http.Header         { return c.header }
func (c *counter) WriteHeader(int)             {}
func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

// measuredPool is a pool whose tasks ran for 100 ns to 100 µs.
func measuredPool(b *testing.B, name string) *shoal.Pool {
	p := newPool(b, name, shoal.WithTiming(shoal.TimingFull))
	r := rand.New(rand.NewPCG(1, 0))
	for range 300 {
		d := time.Duration(100 * math.Pow(1000, r.Float64()))
		p.Submit(func() {
			for began := time.Now(); time.Since(began) < d; {
			}
		})
	}
	p.Wait()
	return p
}
