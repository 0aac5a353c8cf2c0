package tests

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
)

// A branch is a pool of a family that is tortured.
type branch struct {
	*shoal.Pool
	up      *branch
	most    int   // tasks that may run in it and below it at once; 0: that changes all the time
	running gauge // those that run
}

// newBranch makes a sub-pool of up.
func newBranch(up *branch, most int, opts ...shoal.Option) (*branch, error) {
	p, err := up.Sub(append(opts, shoal.WithMaxWorkers(most))...)
	return &branch{Pool: p, up: up, most: most}, err
}

// within reports whether b is a, or below it.
func (b *branch) within(a *branch) bool {
	for b != nil && b != a {
		b = b.up
	}
	return b != nil
}

// enter counts a task as running in b and in the branches above, up to the
// first where the task of from that submitted it runs: that may run it itself.
// A task that no task has submitted is from nil.
func (b *branch) enter(from *branch) {
	for ; b != nil && !from.within(b); b = b.up {
		b.running.enter()
	}
}

// leave undoes enter.
func (b *branch) leave(from *branch) {
	for ; b != nil && !from.within(b); b = b.up {
		b.running.n.Add(-1)
	}
}

// checkMost fails the test if more tasks ran in b at once than its maximum.
func (b *branch) checkMost(t *testing.T) {
	t.Helper()
	if n := b.running.most.Load(); b.most > 0 && n > int64(b.most) {
		t.Errorf("%d tasks ran at once in a pool whose maximum is %d", n, b.most)
	}
}

// A familyTorture is a family with what its tasks note.
type familyTorture struct {
	*testing.T
	y       *tally
	all     []*branch // tasks wait for tasks of later branches only
	ending  bool      // tasks may find the pools closed
	dropped atomic.Uint64
}

// task is task i, of b, submitted by a task of from, or by none.
func (f *familyTorture) task(b *branch, i int, from *branch) func() {
	return func() {
		b.enter(from)
		f.y.hit(i)
		b.leave(from)
	}
}

// note notes that task i, of b, was accepted, if err is nil. A task that a task
// of from has submitted may have been refused.
func (f *familyTorture) note(i int, err error, from *branch) {
	if f.y.note(i, err) != nil && (from == nil || !f.ending || !errors.Is(err, shoal.ErrClosed)) {
		f.Errorf("task %d: %v", i, err)
	}
}

// brief makes a sub-pool of b for tasks lo to hi, and ends it while they wait
// or when they have ended, or leaves it to the collector. It is called by a task
// of from, or by none. A task cannot wait for a sub-pool: it closes it.
func (f *familyTorture) brief(b *branch, x, lo, hi int, from *branch) {
	s, err := newBranch(b, 1+x%3, shoal.WithWeight(1+x%4), shoal.WithPriority(x%3-1))
	if err != nil {
		if from == nil || !f.ending || !errors.Is(err, shoal.ErrClosed) {
			f.Errorf("Sub: %v", err)
		}
		return
	}
	for i := lo; i < hi; i++ {
		f.note(i, s.Submit(f.task(s, i, from)), from)
	}
	switch end := x / 3 % 4; {
	case from != nil || end == 0:
		err = s.Close()
	case end == 1:
		err = s.Shutdown(bg)
	case end == 2:
		s.Wait()
		err = s.Close()
	default:
		s.Wait()
		s.checkMost(f.T)
		return
	}
	if err != nil {
		f.Errorf("the end of a sub-pool: %v", err)
	}
	checkEnded(f, s.Pool)
	s.checkMost(f.T)
	f.dropped.Add(s.Stats().Dropped)
}

// submit submits tasks lo to hi in many ways, in turn to all branches, so many
// times in a row to each.
func (f *familyTorture) submit(lo, hi, row int) {
	for x, i := 0, lo; i < hi; x++ {
		at := x / row % len(f.all)
		b, next, i0 := f.all[at], min(i+2, hi), i
		switch x / len(f.all) % 16 {
		case 0: // not blocking, until it is accepted
			err := b.TrySubmit(f.task(b, i, nil))
			for errors.Is(err, shoal.ErrQueueFull) {
				runtime.Gosched()
				err = b.TrySubmit(f.task(b, i, nil))
			}
			f.note(i, err, nil)
			next = i + 1
		case 1: // two in a batch
			var tasks []func()
			for j := i; j < next; j++ {
				tasks = append(tasks, f.task(b, j, nil))
				f.y.accept(j)
			}
			if k, err := b.SubmitBatch(tasks); k != len(tasks) || err != nil {
				f.Errorf("SubmitBatch = %d, %v", k, err)
			}
		case 2, 3: // from a task, to any branch
			to := f.all[x/16%len(f.all)]
			f.note(i, b.Submit(func() {
				b.enter(nil)
				f.y.hit(i0)
				for j := i0 + 1; j < next; j++ {
					f.note(j, to.Submit(f.task(to, j, b)), b)
				}
				b.leave(nil)
			}), nil)
		case 4: // from a task that waits for it, to the same branch or a later one
			to := f.all[at+x/16%(len(f.all)-at)]
			f.note(i, b.SubmitContext(bg, func(ctx context.Context) {
				b.enter(nil)
				f.y.hit(i0)
				for j := i0 + 1; j < next; j++ {
					run := f.task(to, j, b)
					f.note(j, to.SubmitWait(ctx, func(context.Context) error { run(); return nil }), b)
				}
				b.leave(nil)
			}), nil)
		case 5: // from outside the family, and wait
			run := f.task(b, i, nil)
			f.note(i, b.SubmitWait(bg, func(context.Context) error { run(); return nil }), nil)
			next = i + 1
		case 6: // to a sub-pool that ends soon
			next = min(i+8, hi)
			if x%2 == 0 {
				f.brief(b, x/2, i, next, nil)
				break
			}
			f.note(i, b.Submit(func() {
				b.enter(nil)
				f.y.hit(i0)
				f.brief(b, x/2, i0+1, next, b)
				b.leave(nil)
			}), nil)
		case 7:
			bad := x/len(f.all)/16%8 == 0 // a panic costs as much as twenty tasks
			run := f.task(b, i, nil)
			f.note(i, b.Submit(func() {
				run()
				if bad {
					panic("torture")
				}
			}), nil)
			next = i + 1
		default:
			f.note(i, b.Submit(f.task(b, i, nil)), nil)
			next = i + 1
		}
		i = next
	}
}

// wait waits until all branches have nothing to do. A task may submit one more,
// to a branch that was looked at before.
func (f *familyTorture) wait() {
	for range 2 {
		for _, b := range f.all {
			b.Wait()
		}
	}
}

// tortureFamily is torture with sub-pools that have maximums, weights and
// priorities of their own: one below another one, one that is paused now and
// then, one whose maximum changes all the time, and many that end soon. Tasks
// submit to other pools of the family, and wait for tasks there.
func tortureFamily(t *testing.T, s tortureShape, n, round int) {
	stop := keepProcs(s.gomaxprocs)
	defer stop()
	p := newPool(t, shoal.WithMaxWorkers(s.workers), shoal.WithQueueCapacity(s.capacity), shoal.WithIdleTimeout(s.idle),
		shoal.WithPanicHandler(func(*shoal.PanicError) {}))
	sub := func(up *branch, most int, opts ...shoal.Option) *branch {
		b, err := newBranch(up, max(most, 1), append(opts, shoal.WithQueueCapacity(s.capacity))...)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	root := &branch{Pool: p, most: s.workers}
	equal := sub(root, s.workers, shoal.WithPriority(1))
	lower := sub(root, s.workers/2, shoal.WithWeight(3))
	nested := sub(lower, s.workers/4, shoal.WithWeight(2))
	paused := sub(root, (s.workers+1)/2, shoal.WithPriority(-1))
	resized := sub(root, 1)
	resized.most = 0
	f := &familyTorture{T: t, y: newTally(n), ending: round%3 == 1, all: []*branch{root, equal, lower, nested, paused, resized}}

	over := make(chan struct{})
	meddler := inBackground(func() {
		defer paused.Resume()
		for x := 0; ; x++ {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Microsecond):
			}
			if err := resized.Resize(0, 1+x%(s.workers+1)); err != nil && !errors.Is(err, shoal.ErrClosed) {
				t.Errorf("Resize: %v", err)
			}
			switch x % 16 {
			case 0:
				paused.Pause()
			case 1:
				paused.Resume()
			}
		}
	})
	var wg sync.WaitGroup
	const submitters = 4
	row := []int{1, 256}[round%2] // with many in a row, one pool is often the only one with tasks
	for u := range submitters {
		wg.Go(func() { f.submit(n*u/submitters, n*(u+1)/submitters, row) })
	}
	switch round % 3 {
	case 0: // the usual way
		wg.Wait()
		f.wait()
	case 1: // what is queued is run
		wg.Wait()
	case 2: // Wait all the time, and end the sub-pools first
		done := make(chan struct{})
		waiter := inBackground(func() {
			for !isClosed(done) {
				f.wait()
				runtime.Gosched() // it returns at once while nothing runs
			}
		})
		wg.Wait()
		close(done)
		<-waiter
		f.wait()
		for _, b := range f.all[1:] {
			if err := b.Shutdown(bg); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		}
	}
	if !f.ending {
		f.y.seal()
	}
	shutClean(t, p)
	f.y.seal()
	close(over)
	<-meddler
	for _, b := range f.all {
		checkEnded(t, b.Pool)
		b.checkMost(t)
	}
	if k := f.y.checkDropped(t, f.dropped.Load()); k != n && !f.ending {
		t.Errorf("%d of %d tasks were accepted", k, n)
	}
}
