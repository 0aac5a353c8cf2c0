package shoal

import (
	"context"
	"math"
)

// Range runs f for all of [0, n), in chunks, on p and on the calling goroutine,
// and returns when f runs nowhere any more. The calls of f are for chunks
// [lo, hi) that do not overlap and together are [0, n). It is meant for items that
// may be too short to be a task each:
//
//	err := shoal.Range(ctx, p, len(v), func(_ context.Context, lo, hi int) error {
//		for i := lo; i < hi; i++ {
//			v[i] = math.Sqrt(v[i])
//		}
//		return nil
//	})
//
// The caller begins at once and is one of the participants; the others are tasks of
// p. There are at most as many participants as p may have workers when Range is
// called. Others join while p has workers to spare and there is something left to
// share; Range never waits for room in p's queue, and never for a task that has
// not begun. So a Range in a Range, to any depth, needs one worker, and on a pool
// that is busy or paused the caller does everything itself.
//
// A participant begins with chunks of one item, and takes more at a time only while
// its chunks take less than 2 µs. Whoever has nothing left takes half of what
// another participant has left, down to a single item. So where items take longer than that,
// no participant is idle while an item waits. Only what f was given together
// stays together: an item that takes unexpectedly long delays the rest of its chunk.
// ForEachSlice and MapSlice have no chunks.
//
// The first error that f returns ends the loop: no further chunk begins,
// the context that f is given ends, and Range returns the error. A panic of f
// counts as a [*PanicError], [runtime.Goexit] as [ErrGoexit]; on the caller's own
// goroutine the panic is returned too, and Goexit ends the goroutine, after the other
// participants have ended. When ctx ends, no further chunk begins, and Range returns
// ctx's error unless all items were done. When p is closed in the middle, Range returns
// [ErrClosed]; [Pool.Shutdown] lets it come to its end.
//
// f is given a context derived from ctx. It ends when the loop does. Pass
// it on to a Range, a Group or a Future inside f: by it they know that they are in a task of p.
//
// The errors about arguments are [ErrClosed] for a pool that is closed, or shut
// down and ctx is not that of one of its tasks, [ErrNilTask] for a nil f, and
// [ErrConfig] for a negative n. Called with the context of a task of p, Range is part of that
// task. Else the caller's share counts as a task, as under [CallerRuns]. Every
// other participant counts as a task, and as canceled if it comes too late.
func Range(ctx context.Context, p *Pool, n int, f func(ctx context.Context, lo, hi int) error) error {
	return p.loop(ctx, n, f, loopOptions{most: math.MaxUint32})
}
