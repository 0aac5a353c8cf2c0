// Package fair decides which item is served next: strict priorities first, then shares of the workers'
// time in proportion to weights. It sees numbers and no pool.
//
// It is start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996). Each [Item] has a virtual time,
// which grows by the time that it has used divided by its weight. The item with the smallest virtual
// time comes first. An item that comes back into the queue has at least the virtual time of its
// class: it gains nothing by having been out.
//
// The queue is a heap. A step costs O(log n) of the items in the queue; items with nothing to do
// are not in it, and cost nothing. Queues form a tree: an item may stand for a queue below it.
//
// Invariant: for i > 0, no item comes before its parent (i-1)/2, and q.heap[i].pos = i+1. The
// owner's lock guards it all.
package fair

const (
	// scale is how many units of virtual time a nanosecond at weight 1 is: weights up to 1<<20
	// divide it.
	scale = 1 << 16
	// most is the longest time that is charged at once, in nanoseconds: five hours. So
	// virtual times of items that are in use stay comparable.
	most = int64(1) << 44
)

// An Item is something that workers serve. It is in its queue while it may have something to do.
type Item[T any] struct {
	Of     T
	q      *Queue[T] // nil: it is the top of a tree of queues
	below  *Queue[T] // the queue that it stands for; nil: it stands for itself alone
	prio   int64
	weight int64
	pos    int  // place in the heap, from 1; 0: not in it
	held   bool // see Hold
	served int  // workers that serve it, or what is below it
	v      int64
	class  *class
}

// A class is the items of one priority in one queue.
type class struct {
	v      int64 // virtual time of the item that was served last
	queued int   // items in the queue
	served int   // workers that serve one of its items
}

// A Queue is the items that may have something to do. An item in the queue above, if there is one,
// stands for this queue: it is queued there while this one is not empty, unless it is held.
type Queue[T any] struct {
	Own     Item[T] // what the item above stood for before this queue was below that item
	above   *Item[T]
	heap    []*Item[T]
	class   class // of priority 0
	classes map[int64]*class
}

// Split makes q, which is zero, a queue below item it.
func (it *Item[T]) Split(q *Queue[T]) *Queue[T] {
	q.above, it.below, q.Own.Of = it, q, it.Of
	q.Init(&q.Own, 0, 1)
	q.Own.served, q.Own.class.served = it.served, it.served
	if it.pos != 0 || it.held {
		q.Own.Put()
	}
	return q
}

// Init makes it an item of q that is not in the queue yet.
func (q *Queue[T]) Init(it *Item[T], prio, weight int64) {
	it.q, it.prio, it.weight = q, prio, max(1, weight)
	if it.class = q.classes[prio]; prio == 0 {
		it.class = &q.class
	} else if it.class == nil {
		if q.classes == nil {
			q.classes = map[int64]*class{}
		}
		it.class = new(class)
		q.classes[prio] = it.class
	}
	it.v = it.class.v
}

// Prio is the item's priority.
func (it *Item[T]) Prio() int64 { return it.prio }

// Queued reports whether it is in its queue.
func (it *Item[T]) Queued() bool { return it.pos != 0 }

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
		if it.v-it.class.v < 0 {
			it.v = it.class.v
		}
		it.class.queued++
		it.q.heap = append(it.q.heap, it)
		it.pos = len(it.q.heap)
		it.q.fix(it.pos - 1)
	}
}

// Remove takes it out of its queue, if it is there. If that queue is empty then, the item that
// stands for the queue leaves the one above, and so on.
func (it *Item[T]) Remove() {
	for empty := true; empty && it.pos != 0; it = it.q.above {
		q, i := it.q, it.pos-1
		it.class.queued--
		last := len(q.heap) - 1
		q.swap(i, last)
		it.pos = 0
		q.heap[last] = nil
		if q.heap = q.heap[:last]; i < last {
			q.fix(i)
		}
		empty = last == 0
	}
}

// Hold keeps it out of its queue until Free. Free puts it back, unless it stands for a queue that
// is empty then.
func (it *Item[T]) Hold() {
	it.held = true
	it.Remove()
}

func (it *Item[T]) Free() {
	if it.held = false; it.below == nil || it.below.Len() > 0 {
		it.Put()
	}
}

// Serve notes that d more workers serve it. Items of its priority that are put from then on begin
// at its virtual time at least.
func (it *Item[T]) Serve(d int) {
	for ; it.q != nil; it = it.q.above {
		it.served += d
		it.class.served += d
		if d > 0 && it.class.v-it.v < 0 {
			it.class.v = it.v
		}
	}
}

// Starves reports whether items of some priority wait and none of them is served. Items of equal
// priority take turns; but workers that serve a higher priority do not come to a lower one.
func (q *Queue[T]) Starves() bool {
	starves := q.class.starves()
	for _, c := range q.classes {
		starves = starves || c.starves()
	}
	it := q.First()
	return starves || it != nil && it.below != nil && it.below.Starves()
}

func (c *class) starves() bool { return c.queued > 0 && c.served == 0 }

// Charge adds ns nanoseconds of a worker's time to it, and to the items above that stand for it. A
// negative ns takes off what was charged beforehand.
func (it *Item[T]) Charge(ns int64) {
	for ; it.q != nil; it = it.q.above {
		it.v += min(max(ns, -most), most) * scale / it.weight
		if it.pos != 0 {
			it.q.fix(it.pos - 1)
		}
	}
}

func (it *Item[T]) before(o *Item[T]) bool {
	if it.prio != o.prio {
		return it.prio > o.prio
	}
	return it.v-o.v < 0
}

func (q *Queue[T]) swap(i, j int) {
	h := q.heap
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i+1, j+1
}

// fix moves the item at i, the only one that may be out of place, to where it belongs.
func (q *Queue[T]) fix(i int) {
	for i > 0 && q.heap[i].before(q.heap[(i-1)/2]) {
		q.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		first := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(q.heap); c++ {
			if q.heap[c].before(q.heap[first]) {
				first = c
			}
		}
		if first == i {
			return
		}
		q.swap(i, first)
		i = first
	}
}

// Sound reports whether the invariant holds. It is for checks.
func (q *Queue[T]) Sound() bool {
	if a := q.above; a.q != nil && (a.pos != 0) != (len(q.heap) > 0 && !a.held) {
		return false
	}
	for i, it := range q.heap {
		if it.pos != i+1 || i > 0 && it.before(q.heap[(i-1)/2]) {
			return false
		}
	}
	return true
}
