package pace

import (
	"math/rand/v2"
	"testing"
	"time"
)

// looks asks until the submitter goes on. take is how many tasks are taken in a nap; that of 0 is the yield.
func looks(p Pace, busy bool, take func(nap time.Duration) uint64) (naps []time.Duration) {
	taken, d := p.taken, time.Duration(0)
	for {
		taken = (taken + take(d)) & mask
		if d = p.Next(taken, busy); d == 0 || len(naps) > 2*mostNaps {
			return naps
		}
		naps = append(naps, d)
	}
}

func none(time.Duration) uint64 { return 0 }

// rate is a take of n tasks each millisecond, and of one while the submitter yields.
func rate(n uint64) func(time.Duration) uint64 {
	return func(d time.Duration) uint64 { return max(1, n*uint64(d/time.Millisecond)) }
}

func TestWhoIsNotFarAheadGoesOn(t *testing.T) {
	for _, waiting := range []uint64{0, Step, many} {
		if p := Begin(0, 10, waiting); p.Follows() {
			t.Errorf("with %d tasks that wait it is to follow", waiting)
		}
	}
	if p := Begin(0, 10, many+1); !p.Follows() {
		t.Error("with more than many it is not")
	}
}

func TestNobodyWaitsForTasksThatBlockOrTakeLong(t *testing.T) {
	p := Begin(7, 7, 100*many)
	if naps := looks(p, true, none); len(naps) != 0 {
		t.Errorf("workers are busy and take nothing: naps %v", naps)
	}
	if naps := looks(p, true, rate(few-1)); len(naps) != 1 || naps[0] != nap {
		t.Errorf("they take too few: naps %v", naps)
	}
}

func TestItFollowsToHalfOfMany(t *testing.T) {
	for _, start := range []uint64{0, mask - 3*many} { // numbers wrap
		for _, perNap := range []uint64{few, Step, 4 * Step, 16 * Step} {
			waiting := 3 * uint64(many)
			var took uint64
			take := rate(perNap)
			naps := looks(Begin(start, start, waiting), true, func(d time.Duration) uint64 {
				n := take(d)
				took += n
				return n
			})
			left := int64(waiting) - int64(took)
			if left > many/2 || left < many/2-int64(perNap) {
				t.Errorf("from %d, %d tasks a nap: it goes on when %d of %d wait; naps %v", start, perNap, left, waiting, naps)
			}
		}
	}
}

// What was taken since another submitter came counts: workers that are quick are waited for.
func TestWhatWasTakenBeforeCounts(t *testing.T) {
	p := Begin(0, 5, many+1)
	if d := p.Next(5, true); d != nap {
		t.Errorf("five were taken: it sleeps %v", d)
	}
}

func TestWhereWorkersHaveNoCPUItSleepsLonger(t *testing.T) {
	naps := looks(Begin(0, 0, 10*many), false, none)
	if len(naps) != mostNaps || naps[0] != nap || naps[1] != mostNaps*nap {
		t.Errorf("naps %v", naps)
	}
}

func TestItIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		p := Begin(r.Uint64()&mask, r.Uint64()&mask, r.Uint64()&mask)
		naps := looks(p, r.IntN(2) == 0, func(time.Duration) uint64 { return r.Uint64() >> r.IntN(64) & mask })
		if len(naps) > mostNaps {
			t.Fatalf("%d naps", len(naps))
		}
		for _, d := range naps {
			if d < nap || d > mostNaps*nap {
				t.Fatalf("a nap of %v", d)
			}
		}
	}
}
