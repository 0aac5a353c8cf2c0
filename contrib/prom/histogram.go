package prom

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/shoal-go/shoal"
)

// A pool's histogram knows of a duration which of its buckets it fell into; no two
// ends of these are further apart than 1/16. Here each counts as the largest
// duration of its bucket, as in [shoal.Histogram.Quantile].
//
// In the classic buckets, whose ends are ends of the pool's buckets too, that is no
// loss: their counts are exact. A native bucket has the counts of those of the
// pool's buckets that end in it. So no count is lost, none is above its duration by
// more than one step of each of the two scales, 17/16 · 2^(1/16), and none is below
// it by more than one step of the native one.

// schema is that of the native buckets: 16 for every power of two, as in the pool's
// histograms.
const schema = 4

// overflow is the first duration that falls into the last of the pool's buckets,
// which has no end.
const overflow = time.Duration(1 << 42)

// bounds are the ends of the classic buckets: powers of two nanoseconds, every one
// from 1 ms to 69 s, every other one beyond, from 1 µs to 73 minutes. A bound is the
// largest duration of its bucket, so the power of two itself belongs to the next.
var bounds = [...]time.Duration{
	1<<10 - 1, 1<<12 - 1, 1<<14 - 1, 1<<16 - 1, 1<<18 - 1,
	1<<20 - 1, 1<<21 - 1, 1<<22 - 1, 1<<23 - 1, 1<<24 - 1, 1<<25 - 1, 1<<26 - 1, 1<<27 - 1, 1<<28 - 1,
	1<<29 - 1, 1<<30 - 1, 1<<31 - 1, 1<<32 - 1, 1<<33 - 1, 1<<34 - 1, 1<<35 - 1, 1<<36 - 1,
	1<<38 - 1, 1<<40 - 1, overflow - 1,
}

// A histogram is a metric with classic and native buckets, of which the scraper
// takes its pick. The client library has no constant histogram with both.
type histogram struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	h      shoal.Histogram
}

func newHistogram(desc *prometheus.Desc, h shoal.Histogram, label string) histogram {
	return histogram{desc, prometheus.MakeLabelPairs(desc, []string{label}), h}
}

// Desc implements [prometheus.Metric].
func (m histogram) Desc() *prometheus.Desc { return m.desc }

// Write implements [prometheus.Metric].
func (m histogram) Write(out *dto.Metric) error {
	w := &dto.Histogram{
		SampleCount:   new(m.h.Count),
		SampleSum:     new(m.h.Seconds()),
		Bucket:        make([]*dto.Bucket, len(bounds)),
		Schema:        new(int32(schema)),
		ZeroThreshold: new(prometheus.DefNativeHistogramZeroThreshold),
	}
	var (
		native sparse
		zeros  uint64
		seen   uint64
		next   int // classic bucket
	)
	closeBefore := func(d time.Duration) {
		for ; next < len(bounds) && bounds[next] < d; next++ {
			w.Bucket[next] = &dto.Bucket{UpperBound: new(bounds[next].Seconds()), CumulativeCount: new(seen)}
		}
	}
	for end, n := range m.h.Buckets() {
		last := end - 1
		if end == shoal.Forever {
			last = overflow
		}
		closeBefore(last)
		seen += n
		if last == 0 {
			zeros = n
		} else {
			native.add(nativeBucket(last), n)
		}
	}
	closeBefore(shoal.Forever)
	w.ZeroCount = new(zeros)
	w.PositiveSpan, w.PositiveDelta = native.spans, native.deltas
	out.Histogram = w
	out.Label = m.labels
	return nil
}

// nativeBucket is the index of the native bucket that d > 0 falls into. The one of
// index i is that from 2^((i-1)/2^schema) to 2^(i/2^schema) seconds, with its upper
// end.
func nativeBucket(d time.Duration) int {
	return int(math.Ceil(math.Log2(d.Seconds()) * (1 << schema)))
}

// A sparse is a row of buckets as native histograms have it: each as the difference
// to the one before, with long gaps left out.
type sparse struct {
	spans  []*dto.BucketSpan
	deltas []int64
	next   int   // the index after the last one
	last   int64 // the count of the last one
}

// maxGap is how many empty buckets are written rather than left out.
const maxGap = 2

// add adds n to bucket i, which is not before the last one that was added to.
func (s *sparse) add(i int, n uint64) {
	switch gap := i - s.next; {
	case len(s.spans) > 0 && gap < 0: // the last one again
		s.last += int64(n)
		s.deltas[len(s.deltas)-1] += int64(n)
		return
	case len(s.spans) == 0 || gap > maxGap:
		s.spans = append(s.spans, &dto.BucketSpan{Offset: new(int32(gap)), Length: new(uint32(0))})
	default:
		for range gap {
			s.put(0)
		}
	}
	s.put(int64(n))
	s.next = i + 1
}

func (s *sparse) put(n int64) {
	*s.spans[len(s.spans)-1].Length++
	s.deltas = append(s.deltas, n-s.last)
	s.last = n
}
