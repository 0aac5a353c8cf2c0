package prom_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/contrib/prom"
)

// overflow is the first duration that a pool tells only from those below it.
const overflow = time.Duration(1 << 42)

// lastOf is the largest duration of the bucket of a pool that d falls into.
func lastOf(d time.Duration) time.Duration {
	if d < 16 {
		return d
	}
	if d >= overflow {
		return overflow
	}
	width := time.Duration(1) << (bits.Len64(uint64(d)) - 5)
	return d - d%width + width - 1
}

// measured is the histogram, as exported, of a pool whose tasks ran for the given
// durations, exactly.
func measured(t *testing.T, ds []time.Duration) (h *dto.Histogram) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := shoal.Must(shoal.New(shoal.WithName("p"), shoal.WithMaxWorkers(len(ds)+1), shoal.WithTiming(shoal.TimingFull)))
		for _, d := range ds {
			if err := p.Submit(func() { time.Sleep(d) }); err != nil {
				t.Fatal(err)
			}
		}
		p.Wait()
		_, reg := register(t, p)
		h = byPool(t, gather(t, reg))["p"]["shoal_pool_task_run_duration_seconds"].GetHistogram()
		p.Close()
	})
	return h
}

// samples makes durations of all magnitudes, and such at the ends of buckets.
func samples(seed uint64, n int) []time.Duration {
	r := rand.New(rand.NewPCG(seed, 0))
	top := 1 + r.Float64()*43
	ds := make([]time.Duration, n)
	for i := range ds {
		d := time.Duration(math.Exp2(r.Float64() * top))
		switch r.IntN(4) {
		case 0:
			d = 1<<(bits.Len64(uint64(d))-1) + time.Duration(r.IntN(3)) - 1
		case 1:
			d = lastOf(d) + time.Duration(r.IntN(2))
		case 2:
			if i > 0 {
				d = ds[r.IntN(i)]
			}
		}
		ds[i] = d
	}
	return ds
}

// A native bucket has the durations from lower, without it, to upper.
type bucket struct {
	lower, upper float64
	n            int64
}

func nativeBuckets(h *dto.Histogram) (bs []bucket) {
	base := math.Exp2(math.Exp2(-float64(h.GetSchema())))
	i, n, delta := 0, int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		i += int(span.GetOffset())
		for range span.GetLength() {
			n += h.GetPositiveDelta()[delta]
			delta++
			bs = append(bs, bucket{math.Pow(base, float64(i-1)), math.Pow(base, float64(i)), n})
			i++
		}
	}
	return bs
}

// addsUp checks what must hold for every histogram.
func addsUp(t *testing.T, h *dto.Histogram) {
	t.Helper()
	last := uint64(0)
	bound := math.Inf(-1)
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() <= bound || b.GetCumulativeCount() < last {
			t.Errorf("classic buckets do not ascend: %v", h.GetBucket())
		}
		bound, last = b.GetUpperBound(), b.GetCumulativeCount()
	}
	if last > h.GetSampleCount() {
		t.Errorf("%d in classic buckets, of %d", last, h.GetSampleCount())
	}
	sum := h.GetZeroCount()
	for _, b := range nativeBuckets(h) {
		if b.n < 0 {
			t.Errorf("native bucket %v", b)
		}
		sum += uint64(b.n)
	}
	if sum != h.GetSampleCount() {
		t.Errorf("%d in native buckets, want %d", sum, h.GetSampleCount())
	}
	var length uint32
	for i, s := range h.GetPositiveSpan() {
		length += s.GetLength()
		if i > 0 && s.GetOffset() <= 0 {
			t.Errorf("span %d has the offset %d", i, s.GetOffset())
		}
	}
	if int(length) != len(h.GetPositiveDelta()) {
		t.Errorf("spans of %d, but %d deltas", length, len(h.GetPositiveDelta()))
	}
}

func forSamples(t *testing.T, f func(t *testing.T, ds []time.Duration, h *dto.Histogram)) {
	for seed := range uint64(20) {
		ds := samples(seed, 1+int(seed*seed))
		h := measured(t, ds)
		addsUp(t, h)
		if h.GetSampleCount() != uint64(len(ds)) {
			t.Fatalf("count %d, want %d", h.GetSampleCount(), len(ds))
		}
		slices.Sort(ds)
		f(t, ds, h)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestClassicBucketsAreExact(t *testing.T) {
	forSamples(t, func(t *testing.T, ds []time.Duration, h *dto.Histogram) {
		var sum time.Duration
		for _, d := range ds {
			sum += d
		}
		if h.GetSampleSum() != sum.Seconds() {
			t.Errorf("sum %v, want %v", h.GetSampleSum(), sum.Seconds())
		}
		bounds := prom.Bounds()
		for i, b := range h.GetBucket() {
			if b.GetUpperBound() != bounds[i].Seconds() {
				t.Fatalf("bound %v, want %v", b.GetUpperBound(), bounds[i])
			}
			n := sort.Search(len(ds), func(j int) bool { return ds[j].Seconds() > b.GetUpperBound() })
			if b.GetCumulativeCount() != uint64(n) {
				t.Errorf("%d up to %v, want %d", b.GetCumulativeCount(), bounds[i], n)
			}
		}
	})
}

// Every recorded duration is in the native bucket of its rank, but for the
// documented error: it may be below that by 1/16 of its own value. So every
// quantile is too, however it is interpolated.
func TestNativeBucketsAreWithinTheError(t *testing.T) {
	step := math.Exp2(1.0 / 16)
	forSamples(t, func(t *testing.T, ds []time.Duration, h *dto.Histogram) {
		rest := ds
		for range h.GetZeroCount() {
			if rest[0] != 0 {
				t.Errorf("%v in the zero bucket", rest[0])
			}
			rest = rest[1:]
		}
		for _, b := range nativeBuckets(h) {
			for _, d := range rest[:b.n] {
				s := min(d, overflow).Seconds()
				if s > b.upper*(1+1e-12) || s*17/16 < b.lower {
					t.Errorf("%v is in (%v, %v]", d, b.lower, b.upper)
				}
				if b.lower < s/step*(1-1e-12) || b.upper > s*step*17/16*(1+1e-12) {
					t.Errorf("an estimate of %v may be anything in (%v, %v]", d, b.lower, b.upper)
				}
			}
			rest = rest[b.n:]
		}
	})
}

// What is exported is what the client library's own histogram has when it observes
// the durations that the pool can tell from each other.
func TestHistogramIsThatOfTheLibrary(t *testing.T) {
	var bounds []float64
	for _, b := range prom.Bounds() {
		bounds = append(bounds, b.Seconds())
	}
	forSamples(t, func(t *testing.T, ds []time.Duration, h *dto.Histogram) {
		lib := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "h", Help: "h", Buckets: bounds, NativeHistogramBucketFactor: 1.05,
		})
		for _, d := range ds {
			lib.Observe(lastOf(d).Seconds())
		}
		var m dto.Metric
		if err := lib.Write(&m); err != nil {
			t.Fatal(err)
		}
		want := m.GetHistogram()
		want.CreatedTimestamp = nil
		want.SampleSum = h.SampleSum
		if got := h.String(); got != want.String() {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

func TestEmptyHistogramIsNativeToo(t *testing.T) {
	_, reg := register(t, newPool(t, "p"))
	h := byPool(t, gather(t, reg))["p"]["shoal_pool_task_run_duration_seconds"].GetHistogram()
	addsUp(t, h)
	// What scrapers know a native histogram by.
	if h.GetZeroThreshold() == 0 && len(h.GetPositiveSpan()) == 0 {
		t.Errorf("got %v", h)
	}
	if len(h.GetBucket()) != len(prom.Bounds()) {
		t.Errorf("%d classic buckets", len(h.GetBucket()))
	}
}
