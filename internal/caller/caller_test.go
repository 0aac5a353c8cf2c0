package caller_test

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/shoal-go/shoal/internal/caller"
)

func TestStacksCanBeRead(t *testing.T) {
	if !caller.HasSites() {
		t.Error("return addresses are not known")
	}
}

func want(t *testing.T, what string, id caller.ID, depth int) {
	t.Helper()
	if got := id.Depth(math.MaxInt); got != depth {
		t.Errorf("%s: inside %d calls of %#x, want %d", what, got, id, depth)
	}
	if got := id.Inside(); got != (depth > 0) {
		t.Errorf("%s: inside of a call of %#x: %v, want %v", what, id, got, !got)
	}
}

// within calls f with that many frames between.
func within(frames int, f func()) {
	if frames == 0 {
		f()
		return
	}
	within(frames-1, f)
}

func TestIDsAreNeverGivenTwice(t *testing.T) {
	var wg sync.WaitGroup
	got := make([][]caller.ID, 8)
	for i := range got {
		wg.Go(func() {
			for range 1000 {
				got[i] = append(got[i], caller.NewID())
			}
		})
	}
	wg.Wait()
	all := slices.Concat(got...)
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 8000 || all[0] == 0 {
		t.Errorf("%d different ones of 8000, the first is %d", n, all[0])
	}
}

// numbers are IDs of all lengths, with all digits at all places.
func numbers() (ids []caller.ID) {
	for place := range 16 {
		for digit := range 16 {
			bit := caller.ID(digit) << (4 * place)
			ids = append(ids, bit, bit|1, bit|1<<60, ^bit)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		ids = append(ids, caller.ID(r.Uint64()>>r.IntN(64)))
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids, func(id caller.ID) bool { return id == 0 })
}

func TestACallIsKnown(t *testing.T) {
	for _, id := range numbers() {
		want(t, "before", id, 0)
		called := false
		id.Call(func() {
			called = true
			want(t, "in the call", id, 1)
			for _, o := range []caller.ID{id + 1, id - 1, id << 4, id >> 4, id ^ 1<<63, ^id} {
				want(t, "in another's call", o, 0)
			}
		})
		if !called {
			t.Errorf("%#x: not called", id)
		}
		want(t, "after", id, 0)
	}
}

func TestCallsInsideEachOtherAreCounted(t *testing.T) {
	ids := numbers()
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var few []caller.ID
		for range 4 {
			few = append(few, ids[r.IntN(len(ids))])
		}
		depth := make(map[caller.ID]int)
		var down func(n int)
		down = func(n int) {
			for _, id := range few {
				want(t, fmt.Sprintf("%d calls deep", n), id, depth[id])
			}
			if n == 12 {
				return
			}
			id := few[r.IntN(len(few))]
			was := depth[id]
			next := func() { within(r.IntN(20), func() { down(n + 1) }) }
			switch told := r.IntN(8); {
			case told == 1:
				depth[id]++
				id.Call(next)
			case told == 0 || id >= 1<<57: // the number would be too large
				depth[id]++
				id.CallAt(told, next)
			default:
				depth[id] = told
				id.CallAt(told, next)
			}
			depth[id] = was
		}
		down(0)
	}
}

// A depth that is told is believed, and what is further out is not looked at.
func TestADepthThatIsTold(t *testing.T) {
	id, other := caller.ID(7), caller.ID(12)
	for _, depth := range []int{1, 2, 9, 10, 65, 99} {
		id.Call(func() {
			id.CallAt(depth, func() {
				want(t, "in the call", id, depth)
				want(t, "in another's call", other, 0)
				other.Call(func() {
					want(t, "in a call inside of it", id, depth)
					want(t, "in a call inside of it", other, 1)
					id.Call(func() { want(t, "one deeper", id, depth+1) })
				})
			})
		})
	}
}

// The first look at the stack, and the later ones, may end in the middle of a number.
func TestACallIsKnownFromAnyDepth(t *testing.T) {
	depths := []int{1000, 1020, 5000, 100_000}
	for n := range 160 {
		depths = append(depths, n)
	}
	id, other := caller.ID(0x12345678), caller.ID(0x1234567)
	for _, n := range depths {
		within(n, func() { want(t, "outside", id, 0) })
		id.Call(func() {
			within(n, func() {
				want(t, fmt.Sprintf("%d frames deep", n), id, 1)
				want(t, fmt.Sprintf("%d frames deep", n), other, 0)
				id.Call(func() { within(n, func() { want(t, fmt.Sprintf("%d frames deep, again", n), id, 2) }) })
				id.CallAt(98, func() { within(n, func() { want(t, fmt.Sprintf("%d frames deep, told", n), id, 98) }) })
			})
		})
	}
}

func TestNobodysCall(t *testing.T) {
	want(t, "nowhere", 0, 0)
}

// A call is over when f has panicked or ended the goroutine, and is not while
// deferred functions run because of that.
func TestACallThatDoesNotReturn(t *testing.T) {
	id := caller.NewID()
	func() {
		defer func() {
			if r := recover(); r != "no" {
				t.Errorf("recovered %v", r)
			}
		}()
		id.Call(func() {
			defer func() { want(t, "in a panic", id, 1) }()
			panic("no")
		})
	}()
	want(t, "after a panic", id, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		id.Call(func() {
			defer func() { want(t, "in Goexit", id, 1) }()
			runtime.Goexit()
		})
	}()
	<-done
}

// Other goroutines, and coroutines, have stacks of their own.
func TestOtherStacks(t *testing.T) {
	id := caller.NewID()
	id.Call(func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			want(t, "in another goroutine", id, 0)
			id.Call(func() { want(t, "in its call", id, 1) })
		}()
		<-done
		next, stop := iter.Pull(func(yield func(int) bool) {
			want(t, "in a coroutine", id, 0)
			id.Call(func() {
				want(t, "in its call", id, 1)
				yield(1)
				want(t, "in its call, later", id, 1)
			})
		})
		next()
		want(t, "while the coroutine is inside", id, 1)
		next()
		stop()
	})
}

func TestManyGoroutinesAsk(t *testing.T) {
	var wg sync.WaitGroup
	for range 100 {
		mine, others := caller.NewID(), caller.NewID()
		wg.Go(func() {
			for range 20 {
				mine.Call(func() {
					runtime.Gosched()
					want(t, "its own", mine, 1)
					want(t, "another's", others, 0)
				})
			}
		})
	}
	wg.Wait()
}

// Where a compiler has merged two of the calls that spell, addresses tell nothing.
func TestMergedCallsAreNoticed(t *testing.T) {
	for i := range caller.Sites {
		for j := range caller.Sites {
			if got := caller.Tells(i, j); got != (i == j) {
				t.Errorf("with address %d where %d is: %v", j, i, got)
			}
		}
	}
}

func TestACallAllocatesNothing(t *testing.T) {
	id, n := caller.NewID(), 0
	if a := testing.AllocsPerRun(100, func() { id.Call(func() { n += id.Depth(math.MaxInt) }) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func BenchmarkCall(b *testing.B) {
	for _, id := range []caller.ID{0xf, 0xff, 0xfff, 1 << 32, 1 << 63} {
		b.Run(fmt.Sprintf("%#x", id), func(b *testing.B) {
			n := 0
			for b.Loop() {
				id.Call(func() { n++ })
			}
		})
	}
}

func BenchmarkDepth(b *testing.B) {
	caller.NewID()
	id := caller.ID(0xff)
	for _, frames := range []int{0, 10, 100} {
		b.Run(fmt.Sprintf("frames=%d", frames), func(b *testing.B) {
			id.Call(func() {
				within(frames, func() {
					for b.Loop() {
						id.Depth(math.MaxInt)
					}
				})
			})
		})
	}
}
