package queue_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"weak"

	"github.com/shoal-go/shoal/internal/queue"
)

// segment is the number of cells in the longest segments, found by looking.
var segment = func() uint64 {
	var a, b queue.End
	queue.Init(&a, &b, 0, false)
	n, last := uint64(0), uint64(0)
	for s, t := a.Load(), uint64(0); n == 0 || n > last; s = s.Extend() {
		last, n = n, 0
		for s.Holds(t) {
			t++
			n++
		}
	}
	return n
}()

// A line is a queue made of an array and the simplest of counters: one putting
// and one taking side, each handed out by fetch-and-add.
type line struct {
	front, back queue.End
	head, tail  atomic.Uint64
}

func newLine(first uint64, stampAll bool) *line {
	l := new(line)
	queue.Init(&l.front, &l.back, first&queue.TicketMask, stampAll)
	l.head.Store(first)
	l.tail.Store(first)
	return l
}

// cell finds the cell of ticket t from seg, as the pool does.
func cell(e *queue.End, seg *queue.Segment, t uint64) *queue.Segment {
	if !seg.Holds(t) {
		seg = e.Seek(seg, t)
	}
	return seg
}

// reserve is the first half of put: it takes a ticket.
func (l *line) reserve() (put func(queue.Item)) {
	seg := l.back.Load()
	t := (l.tail.Add(1) - 1) & queue.TicketMask
	return func(it queue.Item) { cell(&l.back, seg, t).Cell(t).Put(it).Wake() }
}

func (l *line) put(it queue.Item) { l.reserve()(it) }

// take takes the next item. The caller knows that there is one, or will be.
func (l *line) take() queue.Item {
	seg := l.front.Load()
	t := (l.head.Add(1) - 1) & queue.TicketMask
	return cell(&l.front, seg, t).Take(t)
}

// tryTake takes the next item if its ticket was given out.
func (l *line) tryTake() (queue.Item, bool) {
	for {
		seg := l.front.Load()
		h := l.head.Load()
		if h == l.tail.Load() {
			return queue.Item{}, false
		}
		if l.head.CompareAndSwap(h, h+1) {
			t := h & queue.TicketMask
			return cell(&l.front, seg, t).Take(t), true
		}
	}
}

// A record is something that an Item points to.
type record struct{ by, seq int }

func item(by, seq int) queue.Item { return queue.Record(&record{by, seq}) }

// firsts are tickets to begin with: around multiples of a segment's size, and where tickets wrap,
// in the first segment or a later one.
func firsts() map[string]uint64 {
	return map[string]uint64{
		"zero":                  0,
		"second segment":        segment,
		"before the second one": segment - 1,
		"before the fourth one": 3*segment - 2,
		"wrap":                  queue.TicketMask - 1,
		"wrap, segments later":  queue.TicketMask - 2*segment + 1,
		"half":                  queue.TicketMask/2 - 1,
	}
}

func TestFIFOAtEveryFillLevelAcrossSegmentsAndTheWrap(t *testing.T) {
	for name, first := range firsts() {
		for _, stampAll := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stampAll=%t", name, stampAll), func(t *testing.T) {
				l := newLine(first, stampAll)
				put, taken := 0, 0
				// Fill to every level from 0 to a bit over two segments, then drain.
				for level := 0; level <= int(2*segment)+3; level += 1 + level/7 {
					for range level {
						l.put(item(0, put))
						put++
					}
					for range level {
						if got := queue.As[record](l.take()); got.seq != taken {
							t.Fatalf("level %d: took %d, want %d", level, got.seq, taken)
						}
						taken++
					}
					if _, ok := l.tryTake(); ok {
						t.Fatalf("level %d: something is left", level)
					}
				}
				// Stay at one level while everything moves on.
				for _, level := range []int{1, int(segment) - 1, int(segment), int(segment) + 1} {
					for range level {
						l.put(item(0, put))
						put++
					}
					for range 3 * segment {
						l.put(item(0, put))
						put++
						if got := queue.As[record](l.take()); got.seq != taken {
							t.Fatalf("steady level %d: took %d, want %d", level, got.seq, taken)
						}
						taken++
					}
					for range level {
						l.take()
						taken++
					}
				}
			})
		}
	}
}

func TestSegmentHoldsItsOwnTicketsOnly(t *testing.T) {
	for name, first := range firsts() {
		var a, b queue.End
		queue.Init(&a, &b, first, false)
		if a.Load() != b.Load() {
			t.Errorf("%s: the ends do not meet", name)
		}
		long := a.Load()
		if !long.Holds(first) || long.Holds((first-1)&queue.TicketMask) {
			t.Errorf("%s: the first segment does not begin there", name)
		}
		for !long.Holds((first + segment - 1) & queue.TicketMask) { // until one is as long as that
			for long.Holds(first) {
				first = (first + 1) & queue.TicketMask
			}
			long = long.Extend()
		}
		for _, c := range []struct {
			t    uint64
			want bool
		}{
			{first, true}, {first + 1, true}, {first + segment - 1, true},
			{first - 1, false}, {first + segment, false}, {first + queue.TicketMask/2, false},
		} {
			if got := long.Holds(c.t & queue.TicketMask); got != c.want {
				t.Errorf("%s: Holds(%#x) = %t, want %t", name, c.t&queue.TicketMask, got, c.want)
			}
		}
	}
}

func TestSeekMovesItsEndForwardOnly(t *testing.T) {
	var front, back queue.End
	queue.Init(&front, &back, 0, false)
	start := back.Load()
	far := back.Seek(start, 5*segment)
	if back.Load() != far || !far.Holds(5*segment) {
		t.Fatal("Seek did not take its end along")
	}
	if front.Load() != start {
		t.Error("Seek moved the other end")
	}
	// A slow one, which loaded the end long ago, finds its segment and does not
	// move the end back.
	mid := back.Seek(start, 2*segment)
	if !mid.Holds(2*segment) || back.Load() != far {
		t.Error("a slow Seek moved the end back, or found the wrong segment")
	}
	// Both sides see the same segments.
	if front.Seek(front.Load(), 2*segment) != mid || front.Seek(front.Load(), 5*segment) != far {
		t.Error("the two ends see different segments")
	}
}

func TestSeekFromManyGoroutinesBuildsOneChain(t *testing.T) {
	for range 50 {
		var front, back queue.End
		queue.Init(&front, &back, 0, false)
		const n, segments = 8, 20
		start := back.Load()
		found := make([][]*queue.Segment, n)
		var all sync.WaitGroup
		for g := range n {
			all.Go(func() {
				e, s := &back, start
				if g%2 == 0 {
					e = &front
				}
				for i := range uint64(segments) {
					s = e.Seek(s, i*segment)
					found[g] = append(found[g], s)
					runtime.Gosched()
				}
			})
		}
		all.Wait()
		for g := range n {
			if !slices.Equal(found[g], found[0]) {
				t.Fatalf("goroutine %d saw another chain", g)
			}
		}
		if front.Load() != back.Load() || !front.Load().Holds((segments-1)*segment) {
			t.Fatal("the ends did not arrive at the last segment")
		}
	}
}

func TestTakerWaitsForItsSlowPutterAndNobodyElseDoes(t *testing.T) {
	for name, first := range firsts() {
		t.Run(name, func(t *testing.T) {
			l := newLine(first, false)
			slow := l.reserve() // has its ticket, has not put
			const n = 1500
			for i := range n {
				l.put(item(1, i))
			}
			got := make(chan *record)
			waiting := make(chan struct{})
			go func() {
				seg := l.front.Load()
				t := (l.head.Add(1) - 1) & queue.TicketMask
				close(waiting)
				got <- queue.As[record](cell(&l.front, seg, t).Take(t))
			}()
			<-waiting
			for i := range n { // those behind it are not held up
				if r := queue.As[record](l.take()); *r != (record{1, i}) {
					t.Fatalf("took %v, want %d", *r, i)
				}
			}
			select {
			case r := <-got:
				t.Fatalf("the taker of the slow putter's ticket got %v", *r)
			default:
			}
			slow(item(0, 42))
			if r := <-got; *r != (record{0, 42}) {
				t.Errorf("the taker got %v, want what the slow putter put", *r)
			}
		})
	}
}

func TestTryTakeFindsNothingBeforePutAndNothingTwice(t *testing.T) {
	var c queue.Cell
	if it := c.TryTake(); !it.IsZero() {
		t.Error("a new cell is not empty")
	}
	c.Put(item(1, 2)).Wake()
	if it := c.TryTake(); it.IsZero() || *queue.As[record](it) != (record{1, 2}) {
		t.Error("TryTake did not find what was put")
	}
	if it := c.TryTake(); !it.IsZero() {
		t.Error("TryTake found it twice")
	}
}

func TestManyPuttersAndTakersMoveEverythingExactlyOnceInEachPuttersOrder(t *testing.T) {
	for name, first := range firsts() {
		for _, c := range []struct{ putters, takers int }{{1, 1}, {1, 4}, {4, 1}, {4, 4}} {
			t.Run(fmt.Sprintf("%s/%d to %d", name, c.putters, c.takers), func(t *testing.T) {
				const each = 4000
				l := newLine(first, false)
				total := c.putters * each
				var putters, takers sync.WaitGroup
				for by := range c.putters {
					putters.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(by), 1))
						for seq := range each {
							put := l.reserve()
							if rng.IntN(50) == 0 {
								runtime.Gosched() // slow, now and then
							}
							put(item(by, seq))
						}
					})
				}
				counts := make([][]atomic.Int32, c.putters)
				for i := range counts {
					counts[i] = make([]atomic.Int32, each)
				}
				var left atomic.Int64
				left.Store(int64(total))
				for range c.takers {
					takers.Go(func() {
						last := slices.Repeat([]int{-1}, c.putters)
						for left.Add(-1) >= 0 { // so there is an item for me, or will be
							r := queue.As[record](l.take())
							counts[r.by][r.seq].Add(1)
							if r.seq <= last[r.by] {
								t.Errorf("took %d of putter %d after %d", r.seq, r.by, last[r.by])
							}
							last[r.by] = r.seq
						}
					})
				}
				putters.Wait()
				takers.Wait()
				for by := range counts {
					for seq := range counts[by] {
						if n := counts[by][seq].Load(); n != 1 {
							t.Fatalf("item %d of putter %d was taken %d times", seq, by, n)
						}
					}
				}
				if _, ok := l.tryTake(); ok {
					t.Error("something is left")
				}
			})
		}
	}
}

// collected runs the collector until w's object is gone, and reports whether
// it went.
func collected[T any](w weak.Pointer[T]) bool {
	for range 20 {
		runtime.GC()
		if w.Value() == nil {
			return true
		}
	}
	return false
}

type big struct{ b [1 << 16]byte }

func TestWhatLiesInACellStaysAlive(t *testing.T) {
	l := newLine(0, false)
	putFunc := func() weak.Pointer[big] {
		x := new(big)
		x.b[7] = 7
		l.put(queue.Func(func() { x.b[7]++ }))
		return weak.Make(x)
	}
	putRecord := func() weak.Pointer[big] {
		x := new(big)
		x.b[7] = 8
		l.put(queue.Record(x))
		return weak.Make(x)
	}
	f, r := putFunc(), putRecord()
	if collected(f) || collected(r) {
		t.Fatal("the collector took what a cell refers to")
	}
	l.take().Func()()
	if x := f.Value(); x == nil || x.b[7] != 8 {
		t.Error("the func in the cell was not the one that was put")
	}
	if x := queue.As[big](l.take()); x != r.Value() || x.b[7] != 8 {
		t.Error("the record in the cell was not the one that was put")
	}
}

func TestATakenCellHoldsOnToNothing(t *testing.T) {
	l := newLine(0, false)
	putFunc := func() weak.Pointer[big] {
		x := new(big)
		l.put(queue.Func(func() { x.b[7]++ }))
		return weak.Make(x)
	}
	putRecord := func() weak.Pointer[big] {
		x := new(big)
		l.put(queue.Record(x))
		return weak.Make(x)
	}
	f, r := putFunc(), putRecord()
	func() { l.take().Func()() }()
	func() { queue.As[big](l.take()).b[0] = 1 }()
	if !collected(f) {
		t.Error("a func is still referred to after it was taken")
	}
	if !collected(r) {
		t.Error("a record is still referred to after it was taken")
	}
	runtime.KeepAlive(l) // the segment itself lives
}

func TestSegmentsThatBothEndsHaveLeftAreCollected(t *testing.T) {
	l := newLine(0, true)
	first := weak.Make(l.front.Load())
	for i := range int(3 * segment) {
		l.put(item(0, i))
	}
	if collected(first) {
		t.Fatal("a segment with items in it was collected")
	}
	for range int(3 * segment) {
		l.take()
	}
	if !collected(first) {
		t.Error("a segment that both ends have left is still referred to")
	}
	runtime.KeepAlive(l)
}

type counter struct{ n int }

func (c *counter) add()     { c.n++ }
func (c counter) addValue() { total += c.n }

var total int

func nothingCaptured() { total++ }

func TestFuncItemsRoundTrip(t *testing.T) {
	c := &counter{}
	five := counter{5}
	local := 0
	var words [8]int
	recursive := func() { local += 100 }
	for name, f := range map[string]struct {
		call func()
		done func() bool
	}{
		"non-capturing":       {nothingCaptured, func() bool { return total == 1 }},
		"literal":             {func() { total += 1000 }, func() bool { return total == 1000 }},
		"method value":        {c.add, func() bool { return c.n == 1 }},
		"method value, copy":  {five.addValue, func() bool { return total == 5 }},
		"closure":             {func() { local++ }, func() bool { return local == 1 }},
		"closure, many words": {func() { words[3] += 7; local += words[3]; c.n += 2 }, func() bool { return local == 7 && c.n == 2 }},
		"assigned closure":    {recursive, func() bool { return local == 100 }},
		"instantiated":        {generic[int], func() bool { return total == 64 }},
	} {
		total, local, c.n, words[3] = 0, 0, 0, 0
		it := queue.Func(f.call)
		if it.IsZero() || it.IsRecord() {
			t.Errorf("%s: zero %t, record %t", name, it.IsZero(), it.IsRecord())
		}
		var cell queue.Cell
		cell.Put(it).Wake()
		runtime.GC()
		cell.TryTake().Func()()
		if !f.done() {
			t.Errorf("%s: did not run as it was", name)
		}
	}
}

func generic[T any]() { total += 64 }

func TestRecordItemsRoundTrip(t *testing.T) {
	type two struct{ a, b byte }
	type words struct {
		p *int
		s string
	}
	n := 7
	r, s, w := &record{1, 2}, &two{3, 4}, &words{&n, "eight"}
	for _, it := range []queue.Item{queue.Record(r), queue.Record(s), queue.Record(w)} {
		if it.IsZero() || !it.IsRecord() {
			t.Errorf("zero %t, record %t", it.IsZero(), it.IsRecord())
		}
	}
	var cell queue.Cell
	cell.Put(queue.Record(w)).Wake()
	runtime.GC()
	if got := queue.As[words](cell.TryTake()); got != w || *got.p != 7 || got.s != "eight" {
		t.Errorf("record came back as %v", got)
	}
	if queue.As[record](queue.Record(r)) != r || queue.As[two](queue.Record(s)) != s {
		t.Error("a record came back as another")
	}
	var zero queue.Item
	if !zero.IsZero() || zero.IsRecord() {
		t.Error("the zero Item is not zero")
	}
}

func TestStampsGoWithTheirTickets(t *testing.T) {
	for name, first := range firsts() {
		for _, all := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/all=%t", name, all), func(t *testing.T) {
				every := uint64(queue.StampEvery)
				if all {
					every = 1
				}
				l := newLine(first, all)
				const n = 2000
				seg := l.back.Load()
				for i := range uint64(n) {
					ticket := (first + i) & queue.TicketMask
					seg = cell(&l.back, seg, ticket)
					if ticket%every == 0 {
						*seg.Stamp(ticket) = int64(ticket) + 1
					}
				}
				seg = l.front.Load()
				stamped := 0
				for i := range uint64(n) {
					ticket := (first + i) & queue.TicketMask
					seg = cell(&l.front, seg, ticket)
					if ticket%every != 0 {
						continue
					}
					stamped++
					if got := *seg.Stamp(ticket); got != int64(ticket)+1 {
						t.Fatalf("ticket %#x is stamped %#x", ticket, got)
					}
				}
				if want := n / int(every); stamped < want || stamped > want+1 {
					t.Errorf("%d of %d tickets have a stamp, want %d", stamped, n, want)
				}
			})
		}
	}
}
