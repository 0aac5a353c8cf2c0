//go:build poolsim

package kernel

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

func TestExplore(t *testing.T) {
	// Between two tasks nobody yields: that would make every task an access to the same words.
	suite.Test(t, slices.Concat(oneModels(), laneModels(), looksModels(), policyModels(), paceModels(), yieldModels(), treeModels(), permitModels(), recordModels(), strandModels(), lifeModels(), crossModels(), snapshotModels(), mixesModels(), hooksModels(), resizeModels()))
}

// A sim is what a model works with: a family, whose lane 0 is the root, and tasks with numbers.
// Every leaving of the lock is audited.
type sim struct {
	*explore.M
	root  *Lane
	lanes []*Lane
	most  []int // tasks that may run at once in each, and below it, on workers
	in    []int
	up    []int
	alone sy.Object
	first []uint64 // tickets of each: those before the first count as tasks

	ran  [8]int
	runs [8]sy.Object
	ok   [8]bool
	lane [8]int

	left  sy.Int64 // tasks that have to run until done is opened
	done  sy.Latch
	order []int // of beginning

	drops  bool // accepted tasks may be dropped or canceled
	failed int  // tasks that end by a panic

	unnumbered bool // tasks have no numbers
}

func on(run func(s *sim)) func(m *explore.M) {
	return func(m *explore.M) { run(&sim{M: m}) }
}

// simOwner is the owner of a model's lanes.
type simOwner struct{ s *sim }

var (
	errTask     = errors.New("a task's error")
	errPanicked = errors.New("a task panicked")
)

func (simOwner) Panicked(v any, r *Record, uncounted func(error)) error {
	if v == nil {
		return ErrGoexit
	}
	return errPanicked
}
func (simOwner) Guard(f func())          { defer func() { recover() }(); f() }
func (simOwner) Region(r *Record) func() { return func() {} }
func (simOwner) Timed(waited, ran int64) {}
func (simOwner) HookBroken()             {}

// A conf is a root's configuration. The rest are defaults.
type conf struct {
	Max, Capacity int
	First         uint64
	Config
}

// pool makes the family, for n tasks after which done is opened.
func (s *sim) pool(n int, c conf) {
	s.left.Store(int64(n))
	s.done = sy.MakeLatch()
	cc := c.Config
	if cc.Idle == 0 {
		cc.Idle = Forever
	}
	if cc.Sizer == nil && cc.Start == nil {
		cc.Eager = true
	}
	cc.Labels, cc.Keeps = context.Background(), new(sy.Bool)
	l := new(Lane)
	s.root = l
	New(l, LaneConfig{Max: c.Max, Capacity: c.Capacity, Timing: TimingOff, First: c.First, Owner: simOwner{s}}, cc)
	s.add(l, c.Max, -1, c.First)
	s.After(s.check)
}

// add gives lane l the next number.
func (s *sim) add(l *Lane, max, up int, first uint64) {
	s.first = append(s.first, first)
	s.lanes = append(s.lanes, l)
	s.up = append(s.up, up)
	s.most = append(s.most, max)
	s.in = append(s.in, 0)
}

// sub makes a lane below up. It returns its number.
func (s *sim) sub(up int, c LaneConfig) int {
	c.Owner, c.Timing = simOwner{s}, TimingOff
	l := new(Lane)
	if err := s.lanes[up].Sub(l, c); err != nil {
		s.Failf("Sub: %v", err)
	}
	s.add(l, c.Max, up, c.First)
	return len(s.lanes) - 1
}

// check is what must hold at the end of every run.
func (s *sim) check() {
	c := s.root.crew
	if f := c.audit(); f != "" {
		s.Failf("at the end: %s", f)
	}
	switch {
	case c.live != 0 || c.departing != 0 || c.apart != 0 || c.asking != 0 || len(c.idle) != 0 || c.wake.Load()&(submitter|searchMask|coming) != 0:
		s.Failf("at the end: live %d departing %d apart %d asking %d idle %d searching %d", c.live, c.departing, c.apart, c.asking, len(c.idle), c.wake.Load()&(submitter|searchMask))
	case !c.root.ended || !c.root.done.IsOpen() || c.reclaim.stop != nil || s.root.holds != 0:
		s.Failf("at the end: ended %v done %v reclaim %v, held %d times", c.root.ended, c.root.done.IsOpen(), c.reclaim.stop != nil, s.root.holds)
	}
	var accepted, ran [8]int
	for i := range s.ran {
		if s.ran[i] > 1 || s.ran[i] == 1 && !s.ok[i] {
			s.Failf("task %d ran %d times, accepted %v", i, s.ran[i], s.ok[i])
		}
		if s.ok[i] {
			accepted[s.lane[i]]++
		}
		ran[s.lane[i]] += s.ran[i]
	}
	failed := uint64(0)
	if calls := s.root.crew.calls; len(calls.all) != len(calls.free) {
		s.Failf("%d tasks are called at the end", len(calls.all)-len(calls.free))
	}
	for k, l := range s.lanes {
		n := l.count()
		gone := l.dropped + l.canceled
		failed += l.failed
		switch {
		case n.InFlight != 0 || n.Waiting != 0 || n.Busy != 0 || l.tombs != 0 || l.inline != 0 || l.below != 0 || l.reserved != 0:
			s.Failf("lane %d at the end: %+v, tombs %d, inline %d, below %d, reserved %d", k, n, l.tombs, l.inline, l.below, l.reserved)
		case l.phase == open || !l.ended || !l.done.IsOpen() || l.holds != 0:
			s.Failf("lane %d at the end: phase %d, ended %v, holds %d", k, l.phase, l.ended, l.holds)
		case l.blocked.Len() != 0 || len(l.reservers) != 0 || len(l.quietWaiters) != 0 || len(l.nudgers) != 0 || len(l.reserves) != 0 || l.waiting.Load() != 1:
			s.Failf("lane %d at the end: somebody is still on a list", k)
		case s.unnumbered:
		case n.Submitted != uint64(accepted[k])+s.first[k]:
			s.Failf("lane %d: accepted %d, counted %d", k, accepted[k], n.Submitted)
		case gone != uint64(accepted[k]-ran[k]) || gone > 0 && !s.drops:
			s.Failf("lane %d: of %d accepted ran %d, dropped %d, canceled %d", k, accepted[k], ran[k], l.dropped, l.canceled)
		}
	}
	if failed != uint64(s.failed) {
		s.Failf("%d failed, counted %d", s.failed, failed)
	}
}

// inside is what every task of lane k does, around f. The task counts in lane k and the lanes above it,
// up to lane until, in which it does not count. until is -1 on a worker, k if the task runs inline, and
// else the lane of the task that waits for it and runs it.
func (s *sim) inside(k, i, until int, f func()) {
	sy.Access(&s.runs[i], sy.Write)
	s.ran[i]++
	sy.Access(&s.alone, sy.Write)
	s.order = append(s.order, i)
	for a := k; a != until; a = s.up[a] {
		if s.in[a]++; s.in[a] > s.most[a] {
			s.Failf("%d run in lane %d", s.in[a], a)
		}
	}
	defer func() {
		sy.Access(&s.alone, sy.Write)
		for a := k; a != until; a = s.up[a] {
			s.in[a]--
		}
	}()
	if f != nil {
		f()
	}
}

func (s *sim) finished() {
	if s.left.Add(-1) == 0 {
		s.done.Open()
	}
}

// task is task i of lane k.
func (s *sim) task(k, i int, f func()) queue.Item {
	s.lane[i] = k
	return queue.Func(func() { s.inside(k, i, -1, f); s.finished() })
}

// loose is task for one that done does not wait for.
func (s *sim) loose(k, i int, f func()) queue.Item {
	s.lane[i] = k
	return queue.Func(func() { s.inside(k, i, -1, f) })
}

// inlineTask is task for one that may run on the submitter's goroutine, and then does not count.
func (s *sim) inlineTask(k, i int, f func()) queue.Item {
	s.lane[i] = k
	return queue.Func(func() { s.inside(k, i, k, f); s.finished() })
}

// give submits it as task i to lane k, and returns why it was not accepted. If ctx is nil, no context ends
// a wait.
func (s *sim) give(k, i int, it queue.Item, p Policy, ctx context.Context) error {
	l := s.lanes[k]
	s.lane[i], s.ok[i] = k, true // before: it may run first
	if l.Submit(it) {
		return nil
	}
	err := l.SubmitSlow(it, p, cmp.Or(ctx, context.Background()))
	s.ok[i] = err == nil
	return err
}

// submit submits task i to lane k; it must be accepted.
func (s *sim) submit(k, i int) { s.and(k, i, nil) }

func (s *sim) and(k, i int, f func()) {
	if err := s.give(k, i, s.task(k, i, f), Block, nil); err != nil {
		s.Failf("Submit of task %d: %v", i, err)
	}
}

// held submits task i to lane k, and returns when it has begun. It ends when e is set.
func (s *sim) held(k, i int) (e sy.Event) {
	e, began := sy.MakeEvent(), sy.MakeEvent()
	s.and(k, i, func() { began.Set(); e.Wait() })
	began.Wait()
	return e
}

// try submits task i, which may be refused.
func (s *sim) try(k, i int, f func()) bool {
	return s.give(k, i, s.task(k, i, f), Reject, nil) == nil
}

// block is submit for a task that may be refused with ErrClosed.
func (s *sim) block(k, i int, f func()) bool {
	err := s.give(k, i, s.task(k, i, f), Block, nil)
	if err != nil && err != ErrClosed {
		s.Failf("Submit: %v", err)
	}
	return err == nil
}

func (s *sim) hasRun(what string, is ...int) {
	for _, i := range is {
		sy.Access(&s.runs[i], sy.Read)
		if s.ran[i] != 1 {
			s.Failf("%s before task %d ran", what, i)
		}
	}
}

func (s *sim) wait(k int) {
	if quiet, _ := s.lanes[k].Wait(context.Background(), func() bool { return false }); !quiet {
		s.Failf("Wait says it was not quiet")
	}
}

func (s *sim) close(k int)    { s.lanes[k].End(true, ErrClosed); s.lanes[k].done.Wait() }
func (s *sim) shutdown(k int) { s.lanes[k].End(false, nil); s.lanes[k].done.Wait() }

// end closes the family when all tasks have run.
func (s *sim) end() { s.done.Wait(); s.close(0) }

func (s *sim) resize(k, max int) {
	s.lanes[k].Resize(0, max)
}

// A body is a task with a result, and counts what is called.
type body struct {
	Record
	s             *sim
	k, i          int
	f             func() error
	refused       error
	over, results int
	err           error
	resolved      sy.Latch
	also          func() // called when it is resolved
	waiter        *Lane  // of the task that awaits it
}

// record is task i of lane k as a record.
func (s *sim) record(k, i int, f func() error) *body {
	b := &body{s: s, k: k, i: i, f: f, resolved: sy.MakeLatch()}
	s.lane[i] = k
	b.Init(b, s.lanes[k])
	s.After(func() {
		if n := b.over; n > 1 || n != b.results || s.ok[i] && n != 1 {
			s.Failf("record %d: over %d times, resolved %d times", i, n, b.results)
		}
		if s.ran[i] == 0 && s.ok[i] && b.err == nil {
			s.Failf("record %d did not run, and has no error", i)
		}
	})
	return b
}

func (b *body) item() queue.Item { return queue.Record(&b.Record) }

func (b *body) Refused() error { return b.refused }
func (b *body) Run() error {
	var err error
	b.s.inside(b.k, b.i, b.until(), func() {
		if b.f != nil {
			err = b.f()
		}
	})
	return err
}

// until is the lane up to which b counts: see inside. await sets waiter to the lane of the task that waits.
func (b *body) until() int {
	switch {
	case b.Keep != nil:
		return -1
	case b.waiter != nil:
		return slices.Index(b.s.lanes, b.waiter)
	}
	return b.k
}

func (b *body) Over(err error) {
	b.over++
	b.err = err
}
func (b *body) Cut(cause error)        {}
func (b *body) Returns(err error) bool { return true }
func (b *body) Resolve(err error) {
	if b.over != 1 {
		b.s.Failf("record %d is resolved before it is over", b.i)
	}
	b.results++
	b.resolved.Open()
	if b.also != nil {
		b.also()
	}
	b.s.finished()
}
func (b *body) Outer() context.Context { return nil }

// giveRecord submits b.
func (s *sim) giveRecord(b *body, p Policy) error { return s.give(b.k, b.i, b.item(), p, nil) }

// withdrawn submits record i to the first lane, where it gets a place at once, and withdraws it.
func (s *sim) withdrawn(i int) {
	b := s.record(0, i, nil)
	if err := s.giveRecord(b, Reject); err != nil {
		s.Failf("record %d: %v", i, err)
	}
	b.Withdraw(errTask)
}
