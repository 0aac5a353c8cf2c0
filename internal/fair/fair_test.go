package fair

import (
	"math"
	"testing"
)

// serve serves n turns, one at a time. ns says how long one takes. It returns the time that each item had.
func serve(q *Queue[string], n int, ns func(of string) int64) map[string]int64 {
	used := map[string]int64{}
	for range n {
		it := q.First()
		for it.below != nil {
			it = it.below.First()
		}
		it.Begin(0)
		it.End(0, ns(it.Of))
		used[it.Of] += ns(it.Of)
	}
	return used
}

// tree is a queue of a, and of b, below which are c and d; all are in their queues.
func tree(q *Queue[string], weights map[string]int64) map[string]*Item[string] {
	items := map[string]*Item[string]{}
	for _, name := range []string{"a", "b"} {
		items[name] = &Item[string]{Of: name}
		q.Init(items[name], 0, weights[name])
	}
	below := items["b"].Split(new(Queue[string]))
	for _, name := range []string{"c", "d"} {
		items[name] = &Item[string]{Of: name}
		below.Init(items[name], 0, weights[name])
	}
	for _, name := range []string{"a", "c", "d"} {
		items[name].Put()
	}
	return items
}

// TestSharesAreInProportionAtEachLevel: however long the turns are.
func TestSharesAreInProportionAtEachLevel(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	tree(q, map[string]int64{"a": 1, "b": 3, "c": 1, "d": 2})
	turn := map[string]int64{"a": 1000, "c": 300, "d": 70}
	used := serve(q, 50_000, func(of string) int64 { return turn[of] })
	sum := float64(used["a"] + used["c"] + used["d"])
	for name, want := range map[string]float64{"a": 1. / 4, "c": 3. / 4 * 1 / 3, "d": 3. / 4 * 2 / 3} {
		if got := float64(used[name]) / sum; math.Abs(got-want) > 0.005 {
			t.Errorf("%s had %.3f of the time, want %.3f", name, got, want)
		}
	}
}

// TestWhoWasAwayHasSavedNothing: it begins anew at the virtual time of those who were served.
func TestWhoWasAwayHasSavedNothing(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1})
	equal := func(string) int64 { return 1000 }
	items["a"].Remove()
	serve(q, 1000, equal)
	items["a"].Put()
	if used := serve(q, 100, equal); used["a"] < 49_000 || used["a"] > 51_000 {
		t.Errorf("it had %d of 100,000 ns, want half", used["a"])
	}
}

// TestAHigherPriorityComesFirst: always; and one below it that waits meanwhile starves, unless a worker
// serves its priority.
func TestAHigherPriorityComesFirst(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1})
	high := &Item[string]{Of: "high"}
	q.Init(high, 1, 1)
	high.Put()
	if used := serve(q, 100, func(string) int64 { return 1000 }); used["high"] != 100_000 {
		t.Errorf("it had %d ns of 100,000", used["high"])
	}
	high.Begin(0)
	if !q.Starves() {
		t.Error("nobody serves the lower priority, and it does not starve")
	}
	items["c"].Begin(0)
	if q.Starves() {
		t.Error("a worker serves each priority, and one starves")
	}
	high.End(0, 0)
	high.Remove()
	if q.Starves() {
		t.Error("a priority of which nothing waits starves")
	}
}

// TestHeld: what is held is out of its queue, with all that is below it, until it is free.
func TestHeld(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1})
	items["b"].Hold()
	items["c"].Remove()
	items["c"].Put()
	if items["b"].Queued() || q.Len() != 1 || !q.Sound() {
		t.Error("it is in its queue")
	}
	items["b"].Free()
	if !items["b"].Queued() || q.Len() != 2 || !q.Sound() || !items["b"].below.Sound() {
		t.Error("it is not in its queue")
	}
	items["c"].Remove()
	items["d"].Remove()
	if items["b"].Queued() {
		t.Error("it stands for an empty queue, and is in its own")
	}
	items["b"].Hold()
	if items["b"].Free(); items["b"].Queued() {
		t.Error("nothing is below it, and it is in its queue")
	}
}

func TestSum(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	tree(q, nil)
	for enough, want := range map[int]int{0: 0, 1: 2, 2: 2, 3: 4, 5: 6, 7: 6} {
		if n := q.Sum(enough, func(string) int { return 2 }); n != want {
			t.Errorf("Sum(%d) = %d, want %d", enough, n, want)
		}
	}
}

// TestAwayForLong: virtual times wrap. An item that was away for that long is not taken for one that is ahead.
func TestAwayForLong(t *testing.T) {
	for rounds := range 64 {
		q := new(Item[string]).Split(new(Queue[string]))
		items := tree(q, nil)
		items["a"].Remove()
		serve(q, rounds, func(string) int64 { return most })
		items["a"].Put()
		if used := serve(q, 100, func(string) int64 { return 1000 }); used["a"] < 49_000 || used["a"] > 51_000 {
			t.Errorf("after %d rounds: it had %d of 100,000 ns, want half", rounds, used["a"])
		}
	}
}

// TestWhatWasIsForgotten: what an item had while others were active too does not count once none was.
func TestWhatWasIsForgotten(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, nil)
	equal := func(string) int64 { return 1000 }
	serve(q, 1, func(string) int64 { return 1_000_000 }) // a is far ahead
	items["c"].Remove()
	items["d"].Remove()
	items["a"].Remove()
	for _, name := range []string{"a", "c", "d"} {
		items[name].Put()
	}
	if used := serve(q, 100, equal); used["a"] < 49_000 || used["a"] > 51_000 {
		t.Errorf("it had %d of 100,000 ns, want half", used["a"])
	}
}

// TestWeightsOfWhatIsActive: items that are queued or served count, each once.
func TestWeightsOfWhatIsActive(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, map[string]int64{"a": 2, "b": 3, "c": 5, "d": 7})
	below := items["b"].below
	check := func(what string, want, wantBelow int64) {
		t.Helper()
		if got, gotBelow := q.class.weight, below.class.weight; got != want || gotBelow != wantBelow {
			t.Errorf("%s: the weights are %d and %d, want %d and %d", what, got, gotBelow, want, wantBelow)
		}
	}
	check("all are queued", 5, 12)
	items["c"].Begin(0)
	items["c"].Begin(0)
	items["c"].Remove()
	check("c is served", 5, 12)
	items["c"].End(0, 0)
	check("by one", 5, 12)
	items["d"].Remove()
	check("only c is left below b", 5, 5)
	items["c"].End(0, 0)
	check("none is", 2, 0)
	items["a"].Hold()
	check("a is held", 0, 0)
	items["a"].Free()
	items["c"].Put()
	check("a and c are queued", 5, 5)
}

// TestManyHeavyItems: what is too little to move the virtual time of a class adds up.
func TestManyHeavyItems(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := make([]Item[string], 1000)
	for i := range items {
		q.Init(&items[i], 0, 1<<20)
		items[i].Put()
	}
	before := q.class.v
	for i := range items { // 10 µs each are 625 units of its own time
		items[i].Begin(0)
		items[i].End(0, 10_000)
	}
	if moved := q.class.v - before; moved < 624 || moved > 626 {
		t.Errorf("the virtual time has moved by %d, want 625", moved)
	}
}
