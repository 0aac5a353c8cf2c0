package shoal

import (
	"context"
	"hash/maphash"

	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// How a Keyed works: a task that is accepted stands in two lines, that of the pool,
// by a ticket, and that of its key. A worker that comes to the ticket runs
// whatever is first in the line of that key; if a task of the key is running it
// leaves its turn to whoever runs that, and goes on. So there is a ticket, or a
// turn that was left, for every task in a line. A turn that was left is taken
// before the next ticket: its task has been waiting for longer. After 32 of them
// the tasks of others that are queued by then have their turn.

// A Keyed runs tasks on a pool. Those of one key run one after the other, in
// the order in which they were accepted; those of different keys run side by
// side. It is made by [NewKeyed], and any number of goroutines may use it.
//
// A key whose task takes long holds no worker but its own. Its waiting tasks
// count against the pool's capacity: when they fill the queue, submitters of
// other keys wait too. A key without tasks takes no memory.
type Keyed[K comparable] struct {
	p      *Pool
	seed   maphash.Seed
	shards [keyShards]keyShard[K]
}

const keyShards = 64 >> (2 * sy.Shorter) // in models one: the hash is another one in each run

type keyShard[K comparable] struct {
	mu    sy.Mutex // guards lines and what is in them; Pool.mu may be held, and must not be taken
	lines burstMap[K, *keyLine[K]]
	spare *keyLine[K] // one that was in the map, to be used again
	_     [128 - 32]byte
}

// A keyLine is a key that has tasks.
type keyLine[K comparable] struct {
	first, last *keyedTask[K]
	running     bool // one of its tasks is
	left        int  // turns left to whoever runs it; changed with Pool.mu held too
}

// A keyedTask is a task of a Keyed, and also its ticket, or another's.
type keyedTask[K comparable] struct {
	call
	s    *keyShard[K]
	key  K
	line *keyLine[K]   // once it is accepted
	task queue.Item    // a func(), or a call that is kept; zero: it is only a ticket
	turn queue.Item    // the task that runs in the turn of this ticket; written with s.mu held
	gone []queue.Item  // tasks that are dropped with this ticket, and were not told yet
	succ *keyedTask[K] // in the line
	ran  bool          // its ticket has had its turn, or was discarded
}

// NewKeyed makes a Keyed on p.
func NewKeyed[K comparable](p *Pool) *Keyed[K] {
	return &Keyed[K]{p: p, seed: maphash.MakeSeed()}
}

// Submit submits task, to be run when the tasks that were submitted before it
// with the same key have ended. It follows the rules of [Pool.Submit] and
// returns its errors; that of a nil pool is [ErrClosed].
//
// A task that waits for its key counts as queued and against the capacity, so a
// key that is blocked can fill the queue. [DropOldest] then drops the oldest
// task of the key that came first. If every task in the queue waits for its
// key, Submit returns [ErrQueueFull].
//
// Under [CallerRuns] and [Spawn], and in a task that submits to the full queue
// of its own pool, a task whose key has others cannot run at once. It is
// accepted beyond the capacity.
//
// A task must not wait for a later one of its own key.
func (k *Keyed[K]) Submit(key K, task func()) error {
	switch {
	case task == nil:
		return ErrNilTask
	case k.p == nil:
		return ErrClosed
	}
	return k.submit(key, queue.Func(task), nil)
}

// SubmitContext is [Keyed.Submit] with a context, by the rules of
// [Pool.SubmitContext]. If ctx ends before there is room, it returns ctx's
// error. If ctx ends after the task was accepted and before its turn comes, the
// task does not run, and counts in [Stats].Canceled; tasks that were submitted
// after it keep their order. A task that starts is given a context derived from
// ctx, which ends with ctx, when the task returns, and when the pool is closed.
func (k *Keyed[K]) SubmitContext(ctx context.Context, key K, task func(context.Context)) error {
	switch {
	case task == nil:
		return ErrNilTask
	case k.p == nil:
		return ErrClosed
	case ctx == nil:
		return errNilContext
	}
	c := &contextTask{f: task}
	c.bind(c, ctx, k.p)
	return k.submitCall(&c.contextCall, key, "SubmitContext")
}

// GoKeyed is [Go] for a task of a key. It submits f by the rules of
// [Keyed.SubmitContext] and returns the Future of its result. The error of a
// nil k is [ErrClosed].
//
// [Future.Cancel] prevents f from running while its turn has not come. When it
// comes, the task counts in [Stats].Canceled, and its place in the queue
// becomes free. If the pool discards it before, because the pool is closed or
// by [DropOldest], it counts in Dropped instead; the Future's result is
// [context.Canceled] all the same.
//
// A task of the pool, or of its family (see [Pool.Sub]), must not wait for the
// Future. To run f in place of the waiting task could break the order of the
// key, and to wait could stop the pool. So [Future.Wait] returns
// [ErrWouldDeadlock] there, unless there is a result.
func GoKeyed[K comparable, T any](ctx context.Context, k *Keyed[K], key K, f func(context.Context) (T, error)) *Future[T] {
	u := &Future[T]{futureTask[T]{f: f}}
	var p *Pool
	if k != nil {
		p = k.p
	}
	err := u.t.make(ctx, p)
	if err == nil {
		err = k.submitCall(&u.t.contextCall, key, "Future")
	}
	if err != nil {
		u.t.fail(err)
	}
	return u
}

// submitCall submits c as a task of key. kind is for those who trace it.
func (k *Keyed[K]) submitCall(c *contextCall, key K, kind string) error {
	if err := c.parent.Err(); err != nil {
		return err
	}
	c.kept = true
	t := c.trace(kind)
	err := k.submit(key, queue.Record(&c.call), c.parent)
	if err != nil {
		t.refuse(err)
	}
	return err
}

// submit submits a task of key. ctx, if not nil, bounds the wait for room.
func (k *Keyed[K]) submit(key K, task queue.Item, ctx context.Context) error {
	s := k.shard(key)
	t := &keyedTask[K]{s: s, key: key, task: task}
	t.body, t.pool, t.turns = t, k.p, true
	it := queue.Record(&t.call)
	seg := k.p.back.Load() // before the ticket: queue, Q3
	s.mu.Lock()            // whoever comes to the ticket finds the task in the line
	ticket, ok := k.p.takeTicket()
	if ok {
		t.acceptedLocked(s)
		k.p.put(seg, ticket, it)
	}
	s.mu.Unlock()
	if !ok {
		return k.p.pushSlow(it, k.p.policy, ctx)
	}
	k.p.pushed(ticket + 1)
	return nil
}

func (k *Keyed[K]) shard(key K) *keyShard[K] {
	return &k.shards[maphash.Comparable(k.seed, key)%keyShards]
}

// accepted puts t in the line of its key.
func (t *keyedTask[K]) accepted() {
	s := t.s
	s.mu.Lock()
	t.acceptedLocked(s)
	s.mu.Unlock()
}

func (t *keyedTask[K]) acceptedLocked(s *keyShard[K]) {
	if t.line != nil {
		return // a ticket for a turn that was given back: its task is in the line
	}
	l := s.lines.m[t.key]
	if l == nil {
		if l = s.spare; l == nil {
			l = new(keyLine[K])
		}
		s.spare = nil
		if t.key == t.key { // else, as for NaN, every task has a line of its own
			s.lines.put(t.key, l)
		}
	}
	t.line = l
	if l.first == nil {
		l.first = t
	} else {
		l.last.succ = t
	}
	l.last = t
}

// popLocked takes the first task out of the line.
func (l *keyLine[K]) popLocked() (task queue.Item) {
	t := l.first
	l.first, t.succ = t.succ, nil
	task, t.task = t.task, queue.Item{}
	return task
}

// forgetLocked forgets the line of key if there is nothing in it.
func (s *keyShard[K]) forgetLocked(key K, l *keyLine[K]) {
	if l.first != nil || l.running {
		return
	}
	if key == key {
		s.lines.remove(key)
	}
	*l = keyLine[K]{}
	s.spare = l
}

func (t *keyedTask[K]) takeFirst() bool {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines.m[t.key] != nil {
		return false
	}
	t.acceptedLocked(s)
	t.line.running = true
	t.turn = t.line.popLocked()
	return true
}

func (t *keyedTask[K]) takeTurn() bool {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.turn.IsZero() {
		return true // by takeFirst
	}
	if t.line.running {
		return false
	}
	t.line.running = true
	t.turn = t.line.popLocked()
	return true
}

func (t *keyedTask[K]) leaveTurn() bool {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.line.running {
		return false
	}
	t.line.left++
	return true
}

func (t *keyedTask[K]) free() bool {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.line.left > 0 {
		return false
	}
	t.line.running = false
	s.forgetLocked(t.key, t.line)
	return true
}

func (t *keyedTask[K]) next() queue.Item {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	t.line.left--
	return t.line.popLocked()
}

// inner is the task that has its turn, if that has a context of its own.
func (t *keyedTask[K]) inner() *call {
	if t.turn.IsRecord() {
		return queue.As[call](t.turn)
	}
	return nil
}

func (t *keyedTask[K]) run() error {
	t.ran = true
	if c := t.inner(); c != nil {
		c.w = t.w
		return c.runBody()
	}
	t.turn.Func()()
	return nil
}

func (t *keyedTask[K]) giveBack(most int) (tickets []*call) {
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	l := t.line
	for ; l.left > 0 && len(tickets) < most; l.left-- {
		o := &keyedTask[K]{s: s, key: t.key, line: l}
		o.body, o.pool, o.turns = o, t.pool, true
		tickets = append(tickets, &o.call)
	}
	l.running = false
	return tickets // there are others, or left turns, for the tasks in the line, so it stays
}

func (t *keyedTask[K]) goes() {
	t.ran = true
	s, l := t.s, t.line
	s.mu.Lock()
	defer s.mu.Unlock()
	t.gone = append(t.gone, l.popLocked())
	if !l.running {
		for ; l.left > 0; l.left-- { // in a pool that stops: they count as dropped
			t.gone = append(t.gone, l.popLocked())
		}
	}
	s.forgetLocked(t.key, l)
}

// resolve is called when the ticket has had its turn, or is discarded.
func (t *keyedTask[K]) resolve(err error) {
	if !t.ran && t.turn.IsZero() {
		t.goes()
	}
	gone := t.gone
	t.gone = nil
	for _, it := range gone {
		dropKept(it)
	}
	if c := t.inner(); c != nil {
		c.body.resolve(err)
	}
}

func (t *keyedTask[K]) overTurn(err error) {
	if c := t.inner(); c != nil {
		c.over(err)
	}
}

func (t *keyedTask[K]) refused() error {
	if c := t.inner(); c != nil {
		return c.body.refused()
	}
	return nil
}

func (t *keyedTask[K]) returned(e *PanicError) bool {
	c := t.inner()
	return c.returns(e)
}

func (t *keyedTask[K]) outer() context.Context { return nil }

// end ends the context of the task that has its turn. That it has returned is told to
// overTurn.
func (t *keyedTask[K]) end(cause error) {
	if cause == context.Canceled {
		return
	}
	t.s.mu.Lock()
	c := t.inner()
	t.s.mu.Unlock()
	if c != nil {
		c.body.end(cause)
	}
}
