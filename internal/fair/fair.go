// Package fair decides which item is served next: strict priorities first, then shares of the workers'
// time in proportion to weights. It sees numbers and no pool.
//
// Each [Item] has a virtual time, which grows by the time that it has used divided by its weight. The
// item with the smallest virtual time comes first. The items of one priority are a class, which has a
// virtual time too: it grows by the time that they have used divided by the weights of all that are
// active, so it is where an item would be that always had its share. An item that becomes active has
// at least the virtual time of its class: it gains nothing by having been out, and does not come before
// those that have waited for their share (WF2Q+: Bennett and Zhang, IEEE/ACM ToN 1997).
//
// In start-time fair queueing the time of a class is that of the item that is served. That was tried.
// It stands still while items come that have one task each, and the others starve.
//
// The owner tells how long workers have served an item: at the end of a turn at the latest. Until the end each of them
// counts also as if it served it for as long as others did lately. So an item that comes is ahead of one whose tasks
// have run for hours by a part of what these have used.
//
// The queue is a heap. A step costs O(log n) of the items in the queue; items with nothing to do
// are not in it, and cost nothing. Queues form a tree: an item may stand for a queue below it.
//
// Invariants: for i > 0, no item comes before its parent (i-1)/2, and q.heap[i].pos = i+1. The weight
// of a class is that of its active items. The owner's lock guards it all.
//
// Virtual times are in nanoseconds at weight 1. They may wrap, after 292 years of worker's time, so
// they are compared by their difference.
package fair

import (
	"maps"
	"math"
)

const (
	// Turn is for how long, in nanoseconds, a worker is thought to serve an item, until it is known.
	Turn = int64(100_000)
	// mostOwed is how many of the longest tasks lately, on all workers, an item at its maximum may be owed for: with
	// fewer it does not have its share if that is just below the maximum; with more it hinders the others for long
	// once it may have more. forgets is after how many times its length such a task is forgotten.
	mostOwed, forgets = 4, 256
	// longest is the longest turn that is thought to last as long next time: that for 1<<24 workers
	// does not wrap.
	longest = 1 << 38
)

// An Item is something that workers serve. It is in its queue while it may have something to do, and
// active while it is in its queue or is served.
type Item[T any] struct {
	Of     T
	q      *Queue[T] // nil: it is the top of a tree of queues
	below  *Queue[T] // the queue that it stands for; nil: it stands for itself alone
	prio   int32
	weight int32
	v      int64 // its virtual time
	lift   int64 // what was added to v while it was served, and its turns have yet to use
	mean   int64 // how long its turns took lately
	seq    int64 // which of those with equal virtual times is first
	pos    int32 // place in the heap, from 1; 0: not in it
	served int32 // workers that serve it, or what is below it
	held   bool  // see Hold
	owed   bool  // it left its queue because it, or all of what is below it, was held
	rest   int32 // what was charged and was too little to move v
	class  *class
}

// A class is the items of one priority in one queue. The items that are active have it in common; one that is not
// active may have another one until it is.
type class struct {
	v      int64  // its virtual time
	latest int64  // the largest of it and of those of its items
	rest   int64  // what was charged and was too little to move v
	long   int64  // how long the longest turns took lately
	weight int64  // of its active items
	served int    // workers that serve one of its items
	turns  uint64 // that have begun
	queued int    // items in the queue
}

// A Queue is the items that may have something to do. An item in the queue above, if there is one,
// stands for this queue: it is queued there while this one is not empty, unless it is held.
type Queue[T any] struct {
	Own     Item[T] // what the item above stood for before this queue was below that item
	above   *Item[T]
	heap    []*Item[T]
	seq     int64
	class   class            // of priority 0
	classes map[int32]*class // by priority: it, and others, with active items and some without; nil: it alone
	keeps   int              // from how many more than keepClasses on those without are dropped
}

// Split makes q, which is zero, a queue below item it.
func (it *Item[T]) Split(q *Queue[T]) *Queue[T] {
	q.above, it.below, q.Own.Of = it, q, it.Of
	q.Init(&q.Own, 0, 1)
	q.Own.become(0, it.served)
	if it.pos != 0 || it.held {
		q.Own.Put()
	}
	return q
}

// Init makes it an item of q that is not in the queue yet. It gets the class of its priority when it is
// first put there, so it must not be served before.
func (q *Queue[T]) Init(it *Item[T], prio, weight int64) {
	it.q, it.class, it.prio, it.weight, it.mean = q, &q.class, int32(prio), int32(max(1, weight)), Turn
}

// Prio is the item's priority.
func (it *Item[T]) Prio() int64 { return int64(it.prio) }

// Queued reports whether it is in its queue.
func (it *Item[T]) Queued() bool { return it.pos != 0 }

// Below is the queue that it stands for; nil: it stands for itself alone.
func (it *Item[T]) Below() *Queue[T] { return it.below }

// Len is the number of items in q.
func (q *Queue[T]) Len() int { return len(q.heap) }

// Sum is the sum of what of returns for the items in q, and in the queues below, that stand for themselves
// alone. It looks at no more of them once it has come to enough.
func (q *Queue[T]) Sum(enough int, of func(T) int) (n int) {
	for i := 0; i < len(q.heap) && n < enough; i++ {
		if it := q.heap[i]; it.below != nil {
			n += it.below.Sum(enough-n, of)
		} else {
			n += of(it.Of)
		}
	}
	return n
}

// First is the item to be served next; nil if there is none.
func (q *Queue[T]) First() *Item[T] {
	if len(q.heap) == 0 {
		return nil
	}
	return q.heap[0]
}

// Put puts it into its queue, and the item that stands for that queue into the one above, and so
// on, up to an item that is there already or is held.
func (it *Item[T]) Put() {
	for ; it.q != nil && it.pos == 0 && !it.held; it = it.q.above {
		c := it.class
		if it.prio != 0 {
			if c = it.q.classOf(it); c != it.class { // in that class nobody knows what it had
				it.class, it.v = c, c.v
			}
		}
		least := c.v
		if it.owed {
			least -= times(c.long, mostOwed*max(1, c.served)) / max(1, c.weight)
		}
		if it.v-least < 0 || it.v-c.latest > 0 { // the latter: the difference has wrapped
			if it.served > 0 {
				it.lift += least - it.v // a turn that lasts is not charged twice
			}
			it.v = least
		}
		c.queued++
		it.q.heap = append(it.q.heap, it)
		it.become(int32(len(it.q.heap)), it.served)
	}
}

// keepClasses is from how many classes on a queue drops those without active items, and again when
// it has 64 more than twice as many as were left. Else it would grow with each new priority.
const keepClasses = 64

// classOf is the class of the priority of it, which is not 0.
func (q *Queue[T]) classOf(it *Item[T]) *class {
	c := q.classes[it.prio]
	if c == nil {
		c = new(class)
		if q.classes == nil {
			q.classes = map[int32]*class{0: &q.class}
		}
		if len(q.classes) > keepClasses+q.keeps {
			maps.DeleteFunc(q.classes, func(prio int32, c *class) bool { return c.weight == 0 && prio != 0 })
			q.keeps = 2 * (len(q.classes) - 1)
		}
		q.classes[it.prio] = c
	}
	return c
}

// last makes it the last one of those with its virtual time.
func (it *Item[T]) last() {
	it.q.seq++
	if it.seq = it.q.seq; it.pos != 0 {
		it.q.fix(int(it.pos) - 1)
	}
}

// Remove takes it out of its queue, if it is there. If that queue is empty then, the item that
// stands for the queue leaves the one above, and so on.
func (it *Item[T]) Remove() { it.remove(false) }

func (it *Item[T]) remove(owed bool) {
	for empty := true; empty && it.pos != 0; it = it.q.above {
		q, i := it.q, int(it.pos)-1
		it.owed = owed
		last := len(q.heap) - 1
		q.swap(i, last)
		it.become(0, it.served)
		it.class.queued--
		q.heap[last] = nil
		if q.heap = q.heap[:last]; i < last {
			q.fix(i)
		}
		empty = last == 0
	}
}

// become notes its place in the heap, and how many workers serve it, and makes it the last one of those with its
// virtual time. When no item of its class is active any more, what they have had is forgotten.
func (it *Item[T]) become(pos, served int32) {
	c := it.class
	c.weight -= it.share()
	c.served += int(served - it.served)
	it.pos, it.served = pos, served
	if c.weight += it.share(); c.weight == 0 {
		c.v = c.latest
	}
	it.last()
}

// Hold keeps it out of its queue until Free. Free puts it back, unless it stands for a queue that
// is empty then. It is as far behind its class as it was, within a bound: so an item that is often at its
// maximum has its share, and one for which its share is too much is not owed more and more. That holds too for an item
// that stands for a queue which is empty meanwhile.
func (it *Item[T]) Hold() {
	it.held = true
	it.remove(true)
}

func (it *Item[T]) Free() {
	if it.held = false; it.below == nil || it.below.Len() > 0 {
		it.Put()
	}
}

// Begin notes that a worker begins to serve it, which is the first of its priority. Until End it counts as if it had had a
// turn, so that another worker looks at the others first.
func (it *Item[T]) Begin() {
	for ; it.q != nil; it = it.q.above {
		c := it.class
		c.v += max(0, it.v-c.v) // all others of its priority have waited for no less
		c.turns++
		it.become(it.pos, it.served+1)
	}
}

// Charge notes that so many workers, one at least, have served it for ns nanoseconds. If no other item of its class is
// active, and it is behind its class, it makes up for that: the time of the class stands still meanwhile.
func (it *Item[T]) Charge(ns int64, workers int) {
	ns = times(ns, workers)
	for ; it.q != nil; it = it.q.above {
		c, weight := it.class, int64(it.weight)
		d := (ns + int64(it.rest)) / weight
		it.rest = int32((ns + int64(it.rest)) % weight)
		lift := min(it.lift, d)
		it.lift -= lift
		it.v += d - lift
		it.last()
		c.rest += ns
		v := c.v + c.rest/max(1, c.weight)
		c.rest %= max(1, c.weight)
		if it.Only() && it.v-v < 0 {
			v = it.v
		}
		c.v += max(0, v-c.v)
		c.latest += max(0, c.v-c.latest, it.v-c.latest)
	}
}

// Only reports whether no other item of its class is active.
func (it *Item[T]) Only() bool { return it.class.weight == it.share() }

// share is its part of the weight of its class.
func (it *Item[T]) share() int64 {
	if it.pos+it.served == 0 {
		return 0 // it is not active
	}
	return int64(it.weight)
}

// End notes that a worker has ceased to serve it, after a turn of ns nanoseconds; 0: that is not known.
func (it *Item[T]) End(ns int64) {
	for ; it.q != nil; it = it.q.above {
		if c := it.class; ns > 0 {
			c.long = max(ns, c.long-ns/forgets)
			it.mean += (min(ns, longest) - it.mean) / 8
		}
		if it.become(it.pos, it.served-1); it.served == 0 {
			it.lift = 0
		}
	}
}

// times is ns for each of n workers, or less if that would wrap.
func times(ns int64, n int) int64 { return min(ns, 1<<62/int64(n)) * int64(n) }

// Ahead is about the workers that do not come to what waits: they serve items of higher priority. It
// is how many they are, and how many turns they have begun. What waits is of the lowest priority that
// would be served too if there were n workers; most is how many of them an item may have.
func (q *Queue[T]) Ahead(n int, most func(T) int) (served int, turns uint64) {
	low := q.First()
	if low == nil {
		return 0, 0
	}
	left, not := n, int32(math.MinInt32) // not: one that would not be served, nor would those below it
	for prio, c := range q.classes {
		if c.queued == 0 || prio <= not || prio >= low.prio {
			continue
		}
		above, _ := q.higher(prio)
		if it, rest := q.behind(0, prio, n-above, most); rest > 0 {
			low, left = it, rest
		} else {
			not = prio
		}
	}
	served, turns = q.higher(low.prio)
	if low.below != nil {
		s, t := low.below.Ahead(min(left, most(low.Of)), most)
		served, turns = served+s, turns+t
	}
	return served, turns
}

// higher is how many workers serve items of higher priority, in the queue or not, and how many
// turns these have begun.
func (q *Queue[T]) higher(prio int32) (served int, turns uint64) {
	for p, c := range q.classes {
		if p > prio {
			served, turns = served+c.served, turns+c.turns
		}
	}
	return served, turns
}

// behind is the first item, from place i of the heap on, that is not of higher priority, and how
// many of n workers those that are leave, beside the workers that they have. If they leave none it
// looks no further.
func (q *Queue[T]) behind(i int, prio int32, n int, most func(T) int) (first *Item[T], left int) {
	if n <= 0 || i >= len(q.heap) {
		return nil, n
	}
	it := q.heap[i]
	if it.prio <= prio {
		return it, n
	}
	first, left = q.behind(2*i+1, prio, n-most(it.Of)+int(it.served), most)
	if it, left = q.behind(2*i+2, prio, left, most); first == nil || it != nil && it.before(first) {
		first = it
	}
	return first, left
}

// at is its virtual time if each worker that serves it does so for as long as others did lately.
func (it *Item[T]) at() int64 { return it.v + int64(it.served)*it.mean/int64(it.weight) }

func (it *Item[T]) before(o *Item[T]) bool {
	if it.prio != o.prio {
		return it.prio > o.prio
	}
	d := it.at() - o.at()
	return d < 0 || d == 0 && it.seq < o.seq
}

func (q *Queue[T]) swap(i, j int) {
	h := q.heap
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = int32(i+1), int32(j+1)
}

// fix moves the item at i, the only one that may be out of place, to where it belongs.
func (q *Queue[T]) fix(i int) {
	for i > 0 && q.heap[i].before(q.heap[(i-1)/2]) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for first := i; ; i = first {
		for c := 2*i + 1; c <= 2*i+2 && c < len(q.heap); c++ {
			if q.heap[c].before(q.heap[first]) {
				first = c
			}
		}
		if first == i {
			return
		}
		q.swap(i, first)
	}
}

// Sound reports whether the invariant holds. It is for checks.
func (q *Queue[T]) Sound() bool {
	if a := q.above; a.q != nil && (a.pos != 0) != (len(q.heap) > 0 && !a.held) {
		return false
	}
	for i, it := range q.heap {
		if int(it.pos) != i+1 || i > 0 && it.before(q.heap[(i-1)/2]) {
			return false
		}
	}
	return true
}
