package tests

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// histogramOf is the Histogram of ds, as a pool records them.
func histogramOf(ds ...time.Duration) shoal.Histogram {
	p := shoal.Must(shoal.New())
	record := testpool.Lane(p).Owner().Timed
	for _, d := range ds {
		record(0, int64(d))
	}
	return p.Stats().RunTime
}

// sampleSets are durations of every shape: the ones that have a bucket each,
// powers of two and their neighbours, the range of real tasks, and the last
// bucket.
func sampleSets() map[string][]time.Duration {
	rng := rand.New(rand.NewPCG(5, 6))
	sets := map[string][]time.Duration{
		"one":     {12345},
		"zero":    {0, 0, 0},
		"small":   nil,
		"edges":   nil,
		"uniform": nil,
		"log":     nil,
		"equal":   slices.Repeat([]time.Duration{time.Millisecond}, 1000),
		"beyond":  {time.Hour, 2 * time.Hour, 1000 * time.Hour, 365 * 24 * time.Hour},
	}
	for d := range time.Duration(200) {
		sets["small"] = append(sets["small"], d)
	}
	for e := range 50 {
		for _, around := range []int64{-1, 0, 1} {
			sets["edges"] = append(sets["edges"], time.Duration(max(0, int64(1)<<e+around)))
		}
	}
	for range 5000 {
		sets["uniform"] = append(sets["uniform"], time.Duration(rng.Int64N(int64(time.Second))))
		sets["log"] = append(sets["log"], time.Duration(math.Exp(rng.Float64()*math.Log(float64(time.Hour)))))
	}
	for _, s := range sets {
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	}
	return sets
}

// quantileOf is the smallest of the sorted samples that a share of q of all
// does not exceed.
func quantileOf(sorted []time.Duration, q float64) time.Duration {
	q = min(max(q, 0), 1)
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(i, 0)]
}

var quantiles = []float64{0, 1e-9, 0.001, 0.01, 0.1, 0.25, 1.0 / 3, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.999999, 1}

// checkHistogram fails the test unless h is a histogram of samples.
func checkHistogram(t testing.TB, h shoal.Histogram, samples []time.Duration) {
	t.Helper()
	n := uint64(len(samples))
	if n == 0 {
		if h.Count != 0 || h.Sum() != 0 || h.Mean() != 0 || h.Max() != 0 || h.Quantile(0.5) != 0 {
			t.Errorf("of nothing: %+v", h)
		}
		for range h.Buckets() {
			t.Error("of nothing, but it has a bucket")
		}
		return
	}
	sorted := slices.Sorted(slices.Values(samples))
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	if h.Count != n || h.Sum() != sum || h.Mean() != sum/time.Duration(n) || h.Max() != sorted[n-1] {
		t.Errorf("count %d, sum %v, mean %v, max %v; want %d, %v, %v, %v",
			h.Count, h.Sum(), h.Mean(), h.Max(), n, sum, sum/time.Duration(n), sorted[n-1])
	}
	last := time.Duration(-1)
	for _, q := range quantiles {
		got, want := h.Quantile(q), quantileOf(sorted, q)
		// What is longer than 73 minutes is known by the longest only.
		if !inBucketOf(got, want) && !(want >= 1<<42 && got == h.Max()) {
			t.Errorf("quantile %v is %v, want %v or up to 1/16 more", q, got, want)
		}
		if got < last {
			t.Errorf("quantile %v is %v, less than that of a smaller share, %v", q, got, last)
		}
		last = got
	}
	if q := h.Quantile(1); q != h.Max() {
		t.Errorf("quantile 1 is %v, Max is %v", q, h.Max())
	}
	var total uint64
	var prev time.Duration
	i := 0
	for end, count := range h.Buckets() {
		if end <= prev || count == 0 {
			t.Errorf("bucket up to %v with %d follows the one up to %v", end, count, prev)
		}
		total += count
		prev = end
		for ; uint64(i) < total && i < len(sorted); i++ { // the samples that lie in it
			if d := sorted[i]; d >= end || end != shoal.Forever && d < end-1-end/16 {
				t.Errorf("%v was counted in the bucket up to %v", d, end)
			}
		}
	}
	if total != n {
		t.Errorf("buckets sum to %d, want %d", total, n)
	}
}

func TestHistogramQuantilesAreWithinASixteenth(t *testing.T) {
	for name, samples := range sampleSets() {
		t.Run(name, func(t *testing.T) { checkHistogram(t, histogramOf(samples...), samples) })
	}
}

func TestHistogramMergeIsRecordingAll(t *testing.T) {
	sets := sampleSets()
	sets["none"] = nil
	for n1, s1 := range sets {
		for n2, s2 := range sets {
			merged := histogramOf(s1...).Merge(histogramOf(s2...))
			all := append(slices.Clone(s1), s2...)
			if !equalHistograms(merged, histogramOf(all...)) {
				t.Errorf("merging %s and %s is not recording both", n1, n2)
			}
		}
	}
}

// equalHistograms compares what can be seen of a and b.
func equalHistograms(a, b shoal.Histogram) bool {
	text := func(h shoal.Histogram) string {
		s := fmt.Sprint(h.Count, h.Sum(), h.Mean(), h.Max())
		for end, n := range h.Buckets() {
			s += fmt.Sprint(" ", int64(end), ":", n)
		}
		for _, q := range quantiles {
			s += fmt.Sprint(" ", h.Quantile(q))
		}
		return s
	}
	return text(a) == text(b)
}

func TestHistogramMergeLeavesBothAsTheyWere(t *testing.T) {
	a, b := histogramOf(1, 2, 3), histogramOf(1000, 2000)
	m := a.Merge(b)
	m = m.Merge(m)
	if m.Count != 10 || !equalHistograms(a, histogramOf(1, 2, 3)) || !equalHistograms(b, histogramOf(1000, 2000)) {
		t.Errorf("after merging: %+v, %+v into %+v", a, b, m)
	}
}

func TestZeroHistogramIsEmpty(t *testing.T) {
	checkHistogram(t, shoal.Histogram{}, nil)
	if m := (shoal.Histogram{}).Merge(shoal.Histogram{}); m.Count != 0 || m.Quantile(1) != 0 {
		t.Errorf("two empty ones merged: %+v", m)
	}
	one := histogramOf(7)
	if !equalHistograms(one.Merge(shoal.Histogram{}), one) || !equalHistograms(shoal.Histogram{}.Merge(one), one) {
		t.Error("merging with an empty one changes it")
	}
}

func TestHistogramQuantileTakesAnyShare(t *testing.T) {
	h := histogramOf(1*time.Second, 2*time.Second, 3*time.Second)
	lowest, highest := h.Quantile(0), h.Max()
	if !inBucketOf(lowest, time.Second) {
		t.Errorf("quantile 0 is %v, want 1s", lowest)
	}
	for q, want := range map[float64]time.Duration{
		-1: lowest, -1e300: lowest, math.Inf(-1): lowest, math.Copysign(0, -1): lowest, math.SmallestNonzeroFloat64: lowest,
		1.0000001: highest, 2: highest, 1e9: highest, 1e18: highest, 1 << 63: highest, 1 << 64: highest,
		1e300: highest, math.MaxFloat64: highest, math.Inf(1): highest,
	} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := h.Quantile(math.NaN()); got < lowest || got > highest {
		t.Errorf("quantile NaN is %v", got)
	}
}

func TestHistogramTakesANegativeDurationForZero(t *testing.T) {
	checkHistogram(t, histogramOf(-1, math.MinInt64, 5), []time.Duration{0, 0, 5})
}

func TestHistogramLastBucketHasNoEnd(t *testing.T) {
	h := histogramOf(1<<42-1, 1<<42, math.MaxInt64/4)
	var ends []time.Duration
	for end := range h.Buckets() {
		ends = append(ends, end)
	}
	if want := []time.Duration{1 << 42, shoal.Forever}; !slices.Equal(ends, want) {
		t.Errorf("buckets end at %d, want %d", ends, want)
	}
	if h.Quantile(0.9) != math.MaxInt64/4 || h.Max() != math.MaxInt64/4 {
		t.Errorf("quantile 0.9 is %d, max %d", h.Quantile(0.9), h.Max())
	}
}

func TestHistogramBucketsCanBeLeftEarly(t *testing.T) {
	n := 0
	for range histogramOf(1, 10, 100).Buckets() {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("saw %d buckets, want to stop after 2", n)
	}
}

func TestHistogramOfMoreThan292Years(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	years := float64(most) / 1e9
	h := histogramOf(most, most)
	if h.Sum() != most || h.Mean() != most || math.Abs(h.Seconds()/years-2) > 1e-9 {
		t.Errorf("two: sum %v, mean %v, %v s", h.Sum(), h.Mean(), h.Seconds())
	}
	five := histogramOf(most, most, most, most, most) // beyond 64 bits
	if five.Sum() != most || five.Mean() != most || math.Abs(five.Seconds()/years-5) > 1e-9 {
		t.Errorf("five: sum %v, mean %v, %v s", five.Sum(), five.Mean(), five.Seconds())
	}
	if d := five.Since(h); d.Mean() != most || math.Abs(d.Seconds()/years-3) > 1e-9 {
		t.Errorf("five since two: mean %v, %v s", d.Mean(), d.Seconds())
	}
	if m := five.Merge(h); m.Count != 7 || m.Mean() != most || math.Abs(m.Seconds()/years-7) > 1e-9 {
		t.Errorf("five and two: mean %v, %v s", m.Mean(), m.Seconds())
	}
	if h := histogramOf(1500 * time.Millisecond); h.Seconds() != 1.5 || h.Sum() != 1500*time.Millisecond {
		t.Errorf("%v, %v s", h.Sum(), h.Seconds())
	}
}

func TestReviewHistogramsOfOthers(t *testing.T) {
	var h shoal.Histogram
	if err := json.Unmarshal([]byte(`{"Count": 3}`), &h); err != nil {
		t.Fatal(err)
	}
	for _, m := range []shoal.Histogram{h.Merge(h), h.Since(h), h.Since(histogramOf(1)), histogramOf(1).Merge(h), h.Merge(histogramOf(1))} {
		m.Quantile(0.5)
	}
	if a := histogramOf(1, 2, 3, 4); !equalHistograms(a.Since(h), a) || !equalHistograms(a.Merge(h), a) {
		t.Error("a Count without durations counts")
	}
}

func TestHistogramSince(t *testing.T) {
	a := histogramOf(10, 20, 1000)
	b := histogramOf(10, 20, 1000, 20, 5000)
	if d := b.Since(a); d.Count != 2 || d.Sum() != 5020 || d.Mean() != 2510 || d.Max() != 5000 || d.Quantile(0) < 20 || d.Quantile(0) > 21 || d.Quantile(1) != 5000 {
		t.Errorf("%+v", d)
	}
	var none shoal.Histogram
	for _, d := range []shoal.Histogram{b.Since(b), none.Since(none)} {
		if d.Count != 0 || d.Sum() != 0 || d.Quantile(1) != 0 {
			t.Errorf("%+v", d)
		}
	}
	if d := a.Since(none); d.Count != 3 || d.Sum() != 1030 {
		t.Errorf("%+v", d)
	}
}

func durations(b []byte) (ds []time.Duration) {
	for ; len(b) >= 8; b = b[8:] {
		// Shifted, so that all magnitudes come up, and small enough to be summed.
		v := binary.LittleEndian.Uint64(b)
		ds = append(ds, time.Duration(v>>8>>(v&63)))
	}
	return ds
}

func FuzzHistogram(f *testing.F) {
	f.Add([]byte{}, []byte{}, 0.5)
	f.Add(make([]byte, 8), make([]byte, 16), 1.0)
	f.Add([]byte("8 bytes.16 bytes"), []byte("and more of them, 3 x 8."), 0.99)
	f.Add(slices.Repeat([]byte{0xff}, 8*20), slices.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, 80), math.Inf(1))
	f.Add([]byte("negative"), []byte(" shares "), -3.0)
	f.Add([]byte("not a number: the"), []byte(" share "), math.NaN())
	f.Fuzz(func(t *testing.T, a, b []byte, q float64) {
		da, db := durations(a), durations(b)
		ha, hb := histogramOf(da...), histogramOf(db...)
		checkHistogram(t, ha, da)
		all := append(slices.Clone(da), db...)
		h := ha.Merge(hb)
		checkHistogram(t, h, all)
		if !equalHistograms(h, hb.Merge(ha)) {
			t.Error("merging depends on the order")
		}
		got := h.Quantile(q)
		if len(all) == 0 {
			if got != 0 {
				t.Errorf("quantile %v of nothing is %v", q, got)
			}
			return
		}
		sorted := slices.Sorted(slices.Values(all))
		if math.IsNaN(q) {
			if got < sorted[0] || got > h.Max() {
				t.Errorf("quantile NaN is %v", got)
			}
			return
		}
		if want := quantileOf(sorted, q); !inBucketOf(got, want) && !(want >= 1<<42 && got == h.Max()) {
			t.Errorf("quantile %v is %v, want %v or up to 1/16 more", q, got, want)
		}
	})
}

func TestHistogramSinceNothingOrLater(t *testing.T) {
	var zero shoal.Histogram
	one, two := histogramOf(time.Second), histogramOf(time.Second, time.Minute)
	for _, c := range []struct {
		what      string
		got       shoal.Histogram
		count     uint64
		sum, most time.Duration
	}{
		{"since nothing was recorded", two.Since(zero), 2, time.Minute + time.Second, time.Minute},
		{"of nothing", zero.Since(two), 0, 0, 0},
		{"since itself", two.Since(two), 0, 0, 0},
		{"since a later one", one.Since(two), 1, time.Second, time.Second},
	} {
		if c.got.Count != c.count || c.got.Sum() != c.sum || c.got.Max() != c.most {
			t.Errorf("%s: %d durations, %v in all, at most %v; want %d, %v, %v", c.what, c.got.Count, c.got.Sum(), c.got.Max(), c.count, c.sum, c.most)
		}
	}
}
