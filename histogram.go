package shoal

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/shoal-go/shoal/internal/sy"
)

// Histograms are log-linear, as HdrHistogram's: every power of two is cut into
// subBuckets equal parts, so a bucket is at most 1/subBuckets of its value
// wide. Values below subBuckets nanoseconds have a bucket each.
const (
	subBits    = 4
	subBuckets = 1 << subBits
	topBit     = 42 // values from 2^42 ns, 73 minutes, on share the last bucket
	numBuckets = (topBit-subBits+1)*subBuckets + 1
)

// bucketOf is the index of the bucket that ns belongs to.
func bucketOf(ns int64) int {
	if ns < subBuckets {
		return int(max(ns, 0))
	}
	if ns >= 1<<topBit {
		return numBuckets - 1
	}
	e := bits.Len64(uint64(ns)) - 1 - subBits // how far beyond the linear part
	return e*subBuckets + int(ns>>e)
}

// bucketEnd is the first value beyond bucket i.
func bucketEnd(i int) time.Duration {
	switch e := i/subBuckets - 1; {
	case i == numBuckets-1:
		return Forever
	case e < 0:
		return time.Duration(i) + 1
	default:
		return time.Duration(i%subBuckets+subBuckets+1) << e
	}
}

// A recorder is a histogram that is being written to by many goroutines. Each
// power of two has its buckets made at first use: most of them never see a
// value, and a pool may live for one task.
type recorder struct {
	rows [(numBuckets + subBuckets - 1) / subBuckets]sy.Pointer[[subBuckets]sy.Uint64]
	// The sum of all is sum + over<<64: a thousand workers fill 63 bits in months.
	sum  sy.Uint64
	over sy.Uint64
	max  sy.Int64
}

// record adds ns to the recorder at r.
func record(r *sy.Pointer[recorder], ns int64) {
	h := made(r)
	ns = max(ns, 0)
	if h.sum.Add(uint64(ns)) < uint64(ns) {
		h.over.Add(1)
	}
	for m := h.max.Load(); ns > m && !h.max.CompareAndSwap(m, ns); m = h.max.Load() {
	}
	i := bucketOf(ns)
	made(&h.rows[i/subBuckets])[i%subBuckets].Add(1)
}

// made is what is at p. It is made at first use.
func made[T any](p *sy.Pointer[T]) *T {
	if p.Load() == nil {
		p.CompareAndSwap(nil, new(T))
	}
	return p.Load()
}

func (r *recorder) snapshot() (h Histogram) {
	if r == nil {
		return h
	}
	h.buckets = make([]uint64, numBuckets)
	for i := range h.buckets {
		if row := r.rows[i/subBuckets].Load(); row != nil {
			h.buckets[i] = row[i%subBuckets].Load()
			h.Count += h.buckets[i]
		}
	}
	h.over = r.over.Load()
	h.sum = r.sum.Load()
	if over := r.over.Load(); over != h.over { // sum may be of before or after
		h.over, h.sum = over, 0
	}
	h.max = r.max.Load()
	return h
}

// A Histogram is a distribution of durations. It is a value and does not
// change. The zero Histogram is empty.
type Histogram struct {
	// Count is how many durations were recorded. With [TimingSampled] that is
	// about one in 64 of those that occurred.
	Count     uint64
	sum, over uint64 // of all: sum + over<<64
	max       int64
	buckets   []uint64
}

// Mean is the mean of the durations, and 0 if there are none.
func (h Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	mean, _ := bits.Div64(h.over%h.Count, h.sum, h.Count)
	return time.Duration(min(mean, math.MaxInt64))
}

// Sum is the total of the durations, or the largest Duration, 292 years, if
// that is less. See [Histogram.Seconds].
func (h Histogram) Sum() time.Duration {
	if h.over > 0 || h.sum > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(h.sum)
}

// Seconds is the total of the durations, in seconds.
func (h Histogram) Seconds() float64 {
	return (float64(h.sum) + math.Ldexp(float64(h.over), 64)) / float64(time.Second)
}

// Max is the longest duration. It is exact.
func (h Histogram) Max() time.Duration { return time.Duration(h.max) }

// Quantile is the duration that a share q of all durations does not exceed:
// Quantile(0.99) is the 99th percentile. The result is at most 1/16 too large,
// and never too small. A q below 0 counts as 0, above 1 as 1. The quantiles of
// an empty histogram are 0.
func (h Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(max(1, math.Ceil(min(max(q, 0), 1)*float64(h.Count))))
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; seen >= max(1, rank) && i < numBuckets-1 { // a q that is not a number has no rank
			return min(bucketEnd(i)-1, h.Max())
		}
	}
	return h.Max()
}

// Merge returns the histogram of the durations of h and o together.
func (h Histogram) Merge(o Histogram) Histogram {
	if o.buckets == nil { // it is empty, or was made by somebody else
		return h
	}
	if h.buckets == nil {
		return o
	}
	var carry uint64
	h.sum, carry = bits.Add64(h.sum, o.sum, 0)
	h.over += o.over + carry
	h.max = max(h.max, o.max)
	h.Count += o.Count
	h.buckets = slices.Clone(h.buckets)
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	return h
}

// Since returns the histogram of the durations that were recorded after
// earlier, which must be an earlier snapshot of the same histogram. Its Max is
// still that of h.
func (h Histogram) Since(earlier Histogram) Histogram {
	if earlier.buckets == nil || h.buckets == nil || h.Count < earlier.Count {
		return h
	}
	if h.Count == earlier.Count {
		return Histogram{}
	}
	var borrow uint64
	h.sum, borrow = bits.Sub64(h.sum, earlier.sum, 0)
	h.over -= earlier.over + borrow
	h.Count -= earlier.Count
	h.buckets = slices.Clone(h.buckets)
	for i, n := range earlier.buckets {
		h.buckets[i] -= n
	}
	return h
}

// Buckets iterates over the buckets that are not empty, in ascending order. It
// yields the upper end of a bucket, which is not part of it, and the number of
// durations in it.
func (h Histogram) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range h.buckets {
			if n > 0 && !yield(bucketEnd(i), n) {
				return
			}
		}
	}
}
