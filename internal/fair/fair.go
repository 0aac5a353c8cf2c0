// Package fair decides whose turn it is: strict priorities first, then shares of the workers'
// time in proportion to weights. It sees numbers and no pool.
//
// It is start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996). Each [Item] has a virtual
// time, which grows by the time that it has used divided by its weight. The item with the
// smallest virtual time comes first. An item that was out of the queue begins anew at the virtual
// time of its class: it has saved nothing, and owes nothing that others have caught up with.
//
// The queue is a heap. A step costs O(log n) of the items in the queue; items with nothing to do
// are not in it, and cost nothing.
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

// An Item is something that may have something to do.
type Item[T any] struct {
	Of     T
	prio   int64
	weight int64
	pos    int // place in the heap, from 1; 0: not in it
	v      int64
	class  *class
}

// A class is the items of one priority in one queue.
type class struct {
	v      int64 // virtual time of the item that was served last
	queued int   // items in the queue
	served int   // workers that serve one of its items
}

// A Queue is the items that may have something to do. Its zero value is empty.
type Queue[T any] struct {
	heap    []*Item[T]
	classes map[int64]*class
}

// Init makes it an item of q, not in the queue, that stands for of.
func (q *Queue[T]) Init(it *Item[T], of T, prio, weight int64) {
	it.Of, it.prio, it.weight = of, prio, max(1, weight)
	if it.class = q.classes[prio]; it.class == nil {
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

// Queued reports whether it is in a queue.
func (it *Item[T]) Queued() bool { return it.pos != 0 }

// Len is the number of items in q.
func (q *Queue[T]) Len() int { return len(q.heap) }

// First is the item whose turn it is; nil if there is none.
func (q *Queue[T]) First() *Item[T] {
	if len(q.heap) == 0 {
		return nil
	}
	return q.heap[0]
}

// Put puts it into q, unless it is there.
func (q *Queue[T]) Put(it *Item[T]) {
	if it.pos != 0 {
		return
	}
	if it.v-it.class.v < 0 {
		it.v = it.class.v
	}
	it.class.queued++
	q.heap = append(q.heap, it)
	it.pos = len(q.heap)
	q.fix(it.pos - 1)
}

// Remove takes it out of q, if it is there.
func (q *Queue[T]) Remove(it *Item[T]) {
	i := it.pos - 1
	if i < 0 {
		return
	}
	it.class.queued--
	last := len(q.heap) - 1
	q.swap(i, last)
	it.pos = 0
	q.heap[last] = nil
	if q.heap = q.heap[:last]; i < last {
		q.fix(i)
	}
}

// Begin is called when a worker begins to serve it: others that come now begin at its virtual
// time. End is called when the worker ceases to.
func (q *Queue[T]) Begin(it *Item[T]) {
	it.class.served++
	if it.class.v-it.v < 0 {
		it.class.v = it.v
	}
}

func (q *Queue[T]) End(it *Item[T]) { it.class.served-- }

// Starves reports whether items of some priority wait and none of them is served. Those of equal
// priority take turns; but workers that serve a higher priority do not come to a lower one.
func (q *Queue[T]) Starves() bool {
	for _, c := range q.classes {
		if c.queued > 0 && c.served == 0 {
			return true
		}
	}
	return false
}

// Charge adds ns nanoseconds of a worker's time to it. A negative ns gives back what was charged
// beforehand.
func (q *Queue[T]) Charge(it *Item[T], ns int64) {
	it.v += min(max(ns, -most), most) * scale / it.weight
	if it.pos != 0 {
		q.fix(it.pos - 1)
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
	for i, it := range q.heap {
		if it.pos != i+1 || i > 0 && it.before(q.heap[(i-1)/2]) {
			return false
		}
	}
	return true
}
