package shoal

import (
	"context"
	"math"
)

// Range runs f for all of [0, n), in chunks, on p and on the calling goroutine,
// and returns when f runs nowhere any more. The chunks [lo, hi) do not overlap,
// and together they are [0, n). Use it for items that may be too short to be a
// task each:
//
//	err := shoal.Range(ctx, p, len(v), func(_ context.Context, lo, hi int) error {
//		for i := lo; i < hi; i++ {
//			v[i] = math.Sqrt(v[i])
//		}
//		return nil
//	})
//
// The caller begins at once and is one of the participants; the others are
// tasks of p. There are at most as many participants as p may have workers when
// Range is called. The caller does not count against that maximum, unless it is
// a task of p. So k goroutines that call Range at the same time may add k calls
// of f to it. Use a [Group] or [ForEach] if the maximum protects something that
// f uses. Others join while p has workers to spare and there is
// something left to share; of a Range in a Range, the outer one comes first.
// Range never waits for room in p's queue, and never for a task that has not
// started. So a Range in a Range, to any depth, needs one worker, and on a pool
// that is busy or paused the caller does everything itself.
//
// A participant begins with chunks of one item, and takes more at a time only
// while its chunks take less than 5 µs, and fewer towards the end. So if items
// take longer than 5 µs, no participant is idle while an item waits. An item
// that takes unexpectedly long delays only the rest of its own chunk.
// [ForEachSlice] and [MapSlice] have no chunks.
//
// The first error that f returns ends the loop: no further chunk begins, the
// context that f is given ends, and Range returns the error. A panic of f
// counts as a [*PanicError], [runtime.Goexit] as [ErrGoexit]. A panic on the
// caller's own goroutine is returned too; Goexit ends that goroutine, and under
// [WithCrashOnPanic] the panic goes on, after the other participants have ended. If ctx ends, no further chunk begins, and
// Range returns ctx's error unless all items were done. If p is closed, Range
// returns [ErrClosed]. [Pool.Shutdown] waits until the loop has ended.
//
// f is given a context derived from ctx, which ends when the loop does. Pass it
// on to a Range, a Group or a Future inside f: it tells that they are in a task
// of p.
//
// If ctx is that of a task of p, Range is a part of that task. Otherwise the
// caller's share counts as a task, as under [CallerRuns]. Each other
// participant counts as a task, and as canceled if it comes too late.
//
// Errors about the arguments: [ErrConfig] for a negative n or a nil ctx,
// [ErrNilTask] for a nil f, and [ErrClosed] for a pool that is closed, or that is shut down unless
// ctx is that of one of its tasks.
func Range(ctx context.Context, p *Pool, n int, f func(ctx context.Context, lo, hi int) error) error {
	return p.loop(ctx, n, f, loopOptions{most: math.MaxUint32})
}
