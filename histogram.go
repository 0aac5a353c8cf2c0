package shoal

import (
	"iter"
	"math"
	"math/bits"
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
func bucketEnd(i int) int64 {
	if i < subBuckets {
		return int64(i) + 1
	}
	e := i/subBuckets - 1
	return int64(i%subBuckets+subBuckets+1) << e
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

// record adds ns to the recorder at r, making it at first use.
func record(r *sy.Pointer[recorder], ns int64) {
	h := r.Load()
	if h == nil {
		r.CompareAndSwap(nil, new(recorder))
		h = r.Load()
	}
	ns = max(ns, 0)
	if h.sum.Add(uint64(ns)) < uint64(ns) {
		h.over.Add(1)
	}
	for m := h.max.Load(); ns > m && !h.max.CompareAndSwap(m, ns); m = h.max.Load() {
	}
	i := bucketOf(ns)
	at := &h.rows[i/subBuckets]
	row := at.Load()
	if row == nil {
		at.CompareAndSwap(nil, new([subBuckets]sy.Uint64))
		row = at.Load()
	}
	row[i%subBuckets].Add(1)
}

func (r *recorder) snapshot() (h Histogram) {
	if r == nil {
		return h
	}
	for i := range r.rows {
		row := r.rows[i].Load()
		if row == nil {
			continue
		}
		if h.buckets == nil {
			h.buckets = make([]uint64, numBuckets)
		}
		for j := range row {
			if n := row[j].Load(); n != 0 {
				h.buckets[i*subBuckets+j] = n
				h.Count += n
			}
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
	rank := uint64(1)
	if r := min(q, 1) * float64(h.Count); r > 1 { // false if q is not a number
		rank = min(uint64(r), h.Count)
		if float64(rank) < r && rank < h.Count {
			rank++
		}
	}
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; seen >= rank {
			if i == numBuckets-1 {
				break
			}
			return time.Duration(min(bucketEnd(i)-1, h.max))
		}
	}
	return h.Max()
}

// Merge returns the histogram of the durations of h and o together.
func (h Histogram) Merge(o Histogram) Histogram {
	if o.Count == 0 || o.buckets == nil { // the latter: it was made by somebody else
		return h
	}
	if h.Count == 0 || h.buckets == nil {
		return o
	}
	m := Histogram{Count: h.Count + o.Count, max: max(h.max, o.max)}
	var carry uint64
	m.sum, carry = bits.Add64(h.sum, o.sum, 0)
	m.over = h.over + o.over + carry
	m.buckets = make([]uint64, numBuckets)
	for i := range m.buckets {
		m.buckets[i] = h.buckets[i] + o.buckets[i]
	}
	return m
}

// Since returns the histogram of the durations that were recorded after
// earlier, which must be an earlier snapshot of the same histogram. Its Max is
// still that of h.
func (h Histogram) Since(earlier Histogram) Histogram {
	if earlier.Count == 0 || h.Count < earlier.Count || earlier.buckets == nil || h.buckets == nil {
		return h
	}
	d := Histogram{max: h.max}
	var borrow uint64
	d.sum, borrow = bits.Sub64(h.sum, earlier.sum, 0)
	d.over = h.over - earlier.over - borrow
	d.buckets = make([]uint64, numBuckets)
	for i := range d.buckets {
		if n, was := h.buckets[i], earlier.buckets[i]; n > was {
			d.buckets[i] = n - was
			d.Count += n - was
		}
	}
	if d.Count == 0 {
		return Histogram{}
	}
	return d
}

// Buckets iterates over the buckets that are not empty, in ascending order. It
// yields the upper end of a bucket, which is not part of it, and the number of
// durations in it.
func (h Histogram) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range h.buckets {
			if n == 0 {
				continue
			}
			end := time.Duration(bucketEnd(i))
			if i == numBuckets-1 {
				end = Forever
			}
			if !yield(end, n) {
				return
			}
		}
	}
}
