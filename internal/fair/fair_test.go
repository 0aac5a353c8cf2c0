package fair

import (
	"math"
	"math/rand/v2"
	"testing"
)

// turn ends a turn of ns nanoseconds, which is charged at its end.
func (it *Item[T]) turn(ns int64) {
	it.Charge(ns, 1)
	it.End(ns)
}

// serve serves n turns, one at a time. ns says how long one takes. It returns the time that each item had.
func serve(q *Queue[string], n int, ns func(of string) int64) map[string]int64 {
	used := map[string]int64{}
	for range n {
		it := q.First()
		for it.below != nil {
			it = it.below.First()
		}
		it.Begin()
		it.turn(ns(it.Of))
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

// TestAHigherPriorityComesFirst: always; and what is below it knows who is ahead.
func TestAHigherPriorityComesFirst(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1})
	high := &Item[string]{Of: "high"}
	q.Init(high, 1, 1)
	high.Put()
	if used := serve(q, 100, func(string) int64 { return 1000 }); used["high"] != 100_000 {
		t.Errorf("it had %d ns of 100,000", used["high"])
	}
	high.Begin()
	most := map[string]int{"a": 8, "b": 8, "c": 8, "d": 8, "high": 3, "low": 8}
	ahead := func(workers, served int, turns uint64) {
		t.Helper()
		s, n := q.Ahead(workers, func(of string) int { return most[of] })
		if s != served || n != turns {
			t.Errorf("of %d workers %d serve what is ahead, in %d turns; want %d, %d", workers, s, n, served, turns)
		}
	}
	ahead(8, 1, 101) // a and b wait, and high has 3 workers at most
	ahead(3, 0, 0)   // high may have all three: it waits itself
	items["a"].Begin()
	ahead(8, 1, 101)
	low := &Item[string]{Of: "low"}
	q.Init(low, -1, 1)
	low.Put()
	ahead(8, 1, 101) // a may have all that high may not have
	most["a"], most["b"] = 2, 2
	ahead(8, 2, 102) // now low waits, and a worker of a does not come to it
	ahead(7, 1, 101)
	low.Remove()
	ahead(8, 1, 101)
	high.Hold()
	ahead(8, 1, 101)
	high.End(1000)
	ahead(8, 0, 101)
	below := &Item[string]{Of: "low"}
	items["b"].below.Init(below, -1, 1)
	below.Put()
	most["b"], most["c"], most["d"] = 8, 3, 4
	items["a"].Remove()
	items["c"].Begin()
	ahead(8, 1, 102) // below b waits what c and d leave
	most["b"] = 7
	ahead(8, 0, 101)
	high.Free()
	items["a"].Put()
	inner := high.Split(new(Queue[string]))
	first := &Item[string]{Of: "first"}
	inner.Init(first, 1, 1)
	first.Put()
	most["first"] = 1
	high.Begin()
	first.Begin()
	ahead(8, 2, 103) // a and b wait: what is below high is ahead once, not twice
	most["b"], most["c"], most["d"], most["high"] = 7, 3, 3, 3
	for _, name := range []string{"a", "b", "a"} { // it becomes the first of the two
		for _, other := range []string{"a", "b"} {
			if other != name {
				items[other].Charge(1e9, 1)
			}
		}
		ahead(8, 2, 103) // high leaves 5, and c and d may have these
		if name == "a" {
			ahead(10, 2, 103)
		} else {
			ahead(10, 3, 104) // c and d leave one of 7
		}
	}
}

// TestWhatIsHeldKeepsItsWorkers: these are not left for what is of lower priority.
func TestWhatIsHeldKeepsItsWorkers(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	x, y, low := &Item[string]{Of: "x"}, &Item[string]{Of: "y"}, &Item[string]{Of: "low"}
	for it, prio := range map[*Item[string]]int64{x: 1, y: 1, low: 0} {
		q.Init(it, prio, 1)
		it.Put()
	}
	most := map[string]int{"x": 3, "y": 5, "low": 8}
	for range 3 {
		x.Begin()
	}
	x.Hold()
	for served := range 3 { // of y
		for workers, ahead := range map[int]int{8: 0, 9: 3 + served} {
			if n, _ := q.Ahead(workers, func(of string) int { return most[of] }); n != ahead {
				t.Errorf("of %d workers %d are ahead, want %d", workers, n, ahead)
			}
		}
		y.Begin()
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
		serve(q, rounds, func(string) int64 { return 1 << 60 })
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
	items["a"].Remove()                                  // and leaves before the others
	serve(q, 1, equal)
	items["c"].Remove()
	items["d"].Remove()
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
	items["c"].Begin()
	items["c"].Begin()
	items["c"].Remove()
	check("c is served", 5, 12)
	items["c"].turn(0)
	check("by one", 5, 12)
	items["d"].Remove()
	check("only c is left below b", 5, 5)
	items["c"].turn(0)
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
	for i := range items { // each moves it by a tenth of a nanosecond
		items[i].Begin()
		items[i].turn(100_000_000)
	}
	if moved := q.class.v - before; moved != 95 {
		t.Errorf("the virtual time has moved by %d ns, want 95", moved)
	}
}

// TestTimeAlone: while one item is the only one in the queue, it gets back what it is behind by, and what another
// one has had in advance is forgotten.
func TestTimeAlone(t *testing.T) {
	for _, test := range []struct {
		alone   int64
		workers int
		want    int64
	}{{0, 1, 10_000}, {6000, 1, 4000}, {3000, 2, 4000}, {10_000, 1, 0}, {1 << 62, 1 << 20, 0}, {1 << 62, 1, 0}} {
		q := new(Item[string]).Split(new(Queue[string]))
		items := tree(q, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1})
		items["a"].Begin()
		items["a"].turn(10_000) // while b waits
		items["a"].Remove()
		items["b"].Charge(test.alone, test.workers)
		items["a"].Put()
		// In want ns b makes up for it; after that they share.
		used := serve(q, int(test.want+10_000)/100, func(string) int64 { return 100 })
		if got := used["c"] + used["d"] - used["a"]; got < test.want-200 || got > test.want+200 {
			t.Errorf("after %d ns alone: it has %d ns more than the other, want %d", test.alone, got, test.want)
		}
	}
}

// TestAWholeCrewOfLongTasks: an item that has had many workers for long leaves the others all of them for as long.
func TestAWholeCrewOfLongTasks(t *testing.T) {
	const workers, hour = 1000, int64(3600e9)
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, nil)
	items["c"].Remove()
	items["d"].Remove()
	for range workers {
		q.First().Begin()
	}
	items["c"].Put()
	served := map[string]int{}
	for range workers {
		items["a"].turn(5 * hour)
		it := q.First()
		for it.below != nil {
			it = it.below.First()
		}
		it.Begin()
		served[it.Of]++
	}
	if served["c"] != workers {
		t.Errorf("%v: the other one has not had all workers", served)
	}
}

// TestRandomSteps: whatever is done, weights of active items are counted exactly.
func TestRandomSteps(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		root := new(Item[int]).Split(new(Queue[int]))
		queues, items := []*Queue[int]{root}, []*Item[int]{}
		leaf := func(it *Item[int]) *Item[int] {
			if it.below != nil {
				return &it.below.Own
			}
			return it
		}
		var served []*Item[int] // their turns have not ended
		for step := range 200 {
			var it *Item[int]
			if len(items) > 0 {
				it = items[r.IntN(len(items))]
			}
			switch k := r.IntN(12); {
			case k < 2 || it == nil:
				q := root
				if it != nil && r.IntN(2) == 0 {
					if it.below == nil {
						queues = append(queues, it.Split(new(Queue[int])))
					}
					q = it.below
				}
				added := &Item[int]{Of: step}
				q.Init(added, int64(r.IntN(3)-1), int64(r.IntN(1000)))
				items = append(items, added)
			case k < 5:
				leaf(it).Put()
			case k < 6:
				leaf(it).Remove()
			case k < 7:
				it.Hold()
			case k < 8:
				it.Free()
			case k < 10:
				first := root.First()
				for first != nil && first.below != nil {
					first = first.below.First()
				}
				for _, it := range items {
					if first != nil && leaf(it) == first {
						first.Begin()
						served = append(served, it)
					}
				}
			case len(served) > 0:
				i := r.IntN(len(served))
				it = leaf(served[i])
				served = append(served[:i], served[i+1:]...)
				it.turn(r.Int64N(1e9))
			}
			for _, q := range queues {
				want := map[*class]int64{&q.class: 0}
				for _, it := range append(items, &q.Own) {
					if it.q == q && (it.pos > 0 || it.served > 0) {
						want[it.class] += int64(it.weight)
					}
				}
				for c, w := range want {
					if c.weight != w {
						t.Fatalf("seed %d, step %d: the weight is %d, want %d", seed, step, c.weight, w)
					}
				}
				if !q.Sound() {
					t.Fatalf("seed %d, step %d: the queue is not sound", seed, step)
				}
			}
		}
	}
}

// TestManyWorkersAtOnce: workers that come at the same time are shared by weight too, though nobody knows yet what
// they will use.
func TestManyWorkersAtOnce(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	for name, weight := range map[string]int64{"a": 2, "b": 1} {
		it := &Item[string]{Of: name}
		q.Init(it, 0, weight)
		it.Put()
	}
	got := map[string]int{}
	for range 60 {
		it := q.First()
		it.Begin()
		got[it.Of]++
	}
	if got["b"] < 19 || got["b"] > 21 {
		t.Errorf("%v, want two thirds and one", got)
	}
}

// TestALongTimeAlone: hours alone make up for hours that another item has had.
func TestALongTimeAlone(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, nil)
	items["a"].Begin()
	items["a"].turn(1 << 43) // more than two hours
	items["a"].Remove()
	items["b"].Charge(1<<43, 1)
	items["a"].Put()
	if used := serve(q, 100, func(string) int64 { return 1000 }); used["a"] < 49_000 || used["a"] > 51_000 {
		t.Errorf("it had %d of 100,000 ns, want half", used["a"])
	}
}

// TestWhatWasAddedIsUsedOnce: what Put adds for a turn that lasts is taken off that turn, and off no more.
func TestWhatWasAddedIsUsedOnce(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	a := tree(q, nil)["a"]
	for range 4 { // one serves it still when it is looked at last
		a.Begin()
	}
	a.Remove()
	serve(q, 1, func(string) int64 { return 10_000 }) // of which a's share is half
	a.Put()
	v := a.v
	for _, want := range []int64{0, 3000, 7000} {
		a.turn(4000)
		if got := a.v - v; got != want {
			t.Errorf("its time is %d ns more than when it was put, want %d", got, want)
		}
	}
}

// TestPrioritiesAreForgotten: a queue keeps few classes without active items, and an item that
// comes again is in the class of those that are active.
func TestPrioritiesAreForgotten(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	first, second := &Item[string]{}, &Item[string]{}
	for prio := range int64(1000) {
		for _, it := range []*Item[string]{first, second} {
			*it = Item[string]{}
			q.Init(it, prio, 1)
			it.Put()
			it.Remove()
		}
		second.Put()
		if first.Put(); first.class != second.class || first.class.weight != 2 {
			t.Fatalf("priority %d: two classes", prio)
		}
		first.Remove()
		second.Remove()
	}
	if n := len(q.classes); n > keepClasses+1 {
		t.Errorf("%d classes", n)
	}

	// Looking for classes to forget is not done again and again while many are active.
	for prio := range int64(1000) {
		it := &Item[string]{}
		q.Init(it, -prio, 1)
		it.Put()
	}
	looks, was := 0, 0
	for prio := range int64(2000) {
		it := &Item[string]{}
		q.Init(it, 1+prio, 1)
		it.Put()
		it.Remove()
		if len(q.classes) <= was {
			looks++
		}
		was = len(q.classes)
	}
	if looks > 2 || len(q.classes) > 3*1000+keepClasses {
		t.Errorf("%d looks, %d classes", looks, len(q.classes))
	}
}

// TestLongTurnsOfMany: an item with very many workers, whose turns take very long, is behind the others.
func TestLongTurnsOfMany(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, nil)
	for range 200 { // its turns lasted for a month
		items["a"].Begin()
		items["a"].End(1 << 51)
	}
	for range 1 << 13 {
		items["a"].Begin()
	}
	if q.First() != items["b"] {
		t.Error("it is first")
	}
}

// TestSplitOfWhatIsHeld: what an item stood for is in the new queue, so that it comes back when the
// item is free.
func TestSplitOfWhatIsHeld(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	it := &Item[string]{Of: "it"}
	q.Init(it, 0, 1)
	it.Put()
	it.Hold()
	below := it.Split(new(Queue[string]))
	if it.Free(); q.First() != it || below.First() != &below.Own {
		t.Error("it is not in its queue")
	}
}

// TestWhoWasAwayOfAPriority: an item that had more than its share has that still when it comes
// again, of whatever priority it is.
func TestWhoWasAwayOfAPriority(t *testing.T) {
	for _, prio := range []int64{0, 1} {
		q := new(Item[string]).Split(new(Queue[string]))
		a, b := &Item[string]{Of: "a"}, &Item[string]{Of: "b"}
		q.Init(a, prio, 1)
		q.Init(b, prio, 1)
		a.Put()
		b.Put()
		a.Begin()
		a.turn(1e9)
		a.Remove()
		a.Put()
		if used := serve(q, 1000, func(string) int64 { return 1e6 }); used["a"] > 1e6 {
			t.Errorf("priority %d: it had %d ms", prio, used["a"]/1e6)
		}
	}
}

// TestTheClassOfPriority0: it is not forgotten when nothing of it is active.
func TestTheClassOfPriority0(t *testing.T) {
	q := new(Item[string]).Split(new(Queue[string]))
	items := tree(q, nil)
	items["a"].Remove()
	items["c"].Remove()
	items["d"].Remove()
	for prio := range int64(1000) {
		it := &Item[string]{}
		q.Init(it, 1+prio, 1)
		it.Put()
		it.Remove()
	}
	items["a"].Put()
	low := &Item[string]{}
	q.Init(low, -1, 1)
	low.Put()
	items["a"].Begin()
	if served, turns := q.Ahead(2, func(string) int { return 1 }); served != 1 || turns != 1 {
		t.Errorf("%d serve what is ahead, in %d turns", served, turns)
	}
}
