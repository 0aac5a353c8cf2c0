package shoal

import (
	"context"
	"hash/maphash"
	"maps"

	"github.com/shoal-go/shoal/internal/kernel"
	"github.com/shoal-go/shoal/internal/queue"
	"github.com/shoal-go/shoal/internal/sy"
)

// A key that has tasks is a strand (a serial executor): a queue of its own, and one activation,
// which is in the queue of the pool, or runs, while the strand has tasks. The worker that takes the
// activation runs the first task, and goes on with those that wait behind it. After 32 of these it
// submits the activation again, so that other tasks that were queued by then run first. A task that
// waits behind others in its strand has a permit, and no ticket in the pool's queue.

// A Keyed runs tasks on a pool. Those of one key run one after the other, in
// the order in which they were accepted; those of different keys run side by
// side. It is made by [NewKeyed], and any number of goroutines may use it.
//
// A key whose task takes long holds no worker but its own. Its waiting tasks
// count against the pool's capacity: when they fill the queue, submitters of
// other keys wait too. A key without tasks takes no memory. For a key with a bound
// of its own use a sub-pool with WithMaxWorkers(1), WithQueueCapacity and a
// [FullPolicy]; see [Pool.Sub].
//
// However many tasks a key has, only its first one is in the queue of the pool. A
// worker that has run that task may go on with the next ones of the key. After 32
// of them, or earlier, the key goes to the end of the queue. So no order is
// promised between tasks of different keys, or between those and tasks without a
// key.
//
// As in a map, a key that cannot be hashed, such as a slice in an interface,
// panics, and each NaN is a key of its own.
type Keyed[K comparable] struct {
	p      *Pool
	seed   maphash.Seed
	shards [keyShards]keyShard[K]
}

const keyShards = 64 >> (2 * sy.Shorter) // one in models, because the hash differs in each run

type keyShard[K comparable] struct {
	mu      sy.Mutex // guards what follows, and the strands; no pool's lock is taken while it is held
	strands map[K]*strand[K]
	most    int        // in strands since it was made: if few are left, a smaller one replaces it
	spare   *strand[K] // one to be reused
	_       [128 - 40]byte
}

// A strand is a key that has tasks, and the body of its activation. As a body it does what its current
// task does.
type strand[K comparable] struct {
	rec         call
	kernel.Body       // of the task that has begun, or was dropped; nil: none
	inner       *call // of that task; nil: a func, or withdrawn
	s           *keyShard[K]
	key         K
	tasks       fifo[queue.Item] // that wait: funcs, and calls with InStrand set
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
// key that is blocked can fill the queue. [DropOldest] displaces what is first in
// the queue. If that is a key, its first task is dropped, and if the key has more
// tasks, it goes to the end of the queue. While a task of a key runs, the key's
// other tasks are not in the queue and are not displaced. If only such tasks wait,
// Submit returns [ErrQueueFull].
//
// Under [CallerRuns] and [Spawn], and in a task that submits to the full queue
// of its own pool, a task whose key has others cannot run at once. It is
// accepted beyond the capacity. So if tasks submit to busy keys, as in a crawler
// with a key per host, nothing bounds how many tasks wait.
//
// A task must not wait for a later one of its own key.
func (k *Keyed[K]) Submit(key K, task func()) error {
	return k.submitFunc(key, task, false)
}

// TrySubmit is [Keyed.Submit] by the rules of [Pool.TrySubmit]: it never waits.
func (k *Keyed[K]) TrySubmit(key K, task func()) error {
	return k.submitFunc(key, task, true)
}

func (k *Keyed[K]) submitFunc(key K, task func(), try bool) error {
	if err := checkArgs(context.Background(), k.p, task != nil); err != nil {
		return err
	}
	policy := k.p.policy
	if try {
		policy = Reject
	}
	return k.submit(k.shard(key), key, queue.Func(task), policy, context.Background())
}

// SubmitContext is [Keyed.Submit] with a context, by the rules of
// [Pool.SubmitContext]. If ctx ends before there is free capacity, it returns
// ctx's error. If ctx ends after the task was accepted and before it starts, the
// task does not run, and counts in [Stats].Canceled. Tasks that were submitted
// after it keep their order. A task that starts is given a context derived from
// ctx, which ends with ctx, when the task returns, and when the pool is closed.
func (k *Keyed[K]) SubmitContext(ctx context.Context, key K, task func(context.Context)) error {
	s := k.shard(key) // a key that cannot be hashed panics here, before a Tracer follows c
	c := &contextTask{f: task}
	return c.submit(c, ctx, k.p, task != nil, "SubmitContext", func(it queue.Item, ctx context.Context) error {
		return k.submit(s, key, it, k.p.policy, ctx)
	})
}

// GoKeyed is [Go] for a task of a key. It submits f by the rules of
// [Keyed.SubmitContext] and returns the Future of its result. The error of a
// nil k is [ErrClosed].
//
// [Future.Cancel] prevents f from running if it has not started. The task counts
// in [Stats].Canceled, and frees its capacity, when a worker comes to it. If the
// pool is closed before that, or [DropOldest] displaces the task, it counts in
// Dropped instead. The Future's result is [context.Canceled] in both cases.
//
// A task of the pool, or of its family (see [Pool.Sub]), must not wait for the
// Future. To run f in place of the waiting task could break the order of the
// key, and to wait could stop the pool. If such a task calls [Future.Wait] with
// its context before there is a result, Wait returns [ErrWouldDeadlock]. If the
// task calls Wait with another context, Wait returns that error only if no worker that
// may run f is idle: each is inside a task, a hook or a Sizer, or between two tasks, even
// if one of these tasks is f, or is about to end. Otherwise it parks.
func GoKeyed[K comparable, T any](ctx context.Context, k *Keyed[K], key K, f func(context.Context) (T, error)) *Future[T] {
	if k == nil {
		k = NewKeyed[K](nil) // is closed
	}
	s := k.shard(key) // as in SubmitContext
	u, _ := start(ctx, k.p, f, func(it queue.Item, ctx context.Context) error { return k.submit(s, key, it, k.p.policy, ctx) })
	return u
}

// submit submits a task of key, whose shard is s. ctx bounds the wait for free capacity.
func (k *Keyed[K]) submit(s *keyShard[K], key K, task queue.Item, policy FullPolicy, ctx context.Context) error {
	if task.IsRecord() {
		queue.As[call](task).InStrand = true
	}
	s.mu.Lock()
	t, idle := s.of(k.p, key)
	l, ok, mustLook := &k.p.lane, false, false
	if idle {
		ok, mustLook = l.Try(queue.Record(&t.rec))
	} else {
		ok = l.Hold()
	}
	if ok {
		t.tasks.push(task) // no worker has looked for it yet: that takes the lock
	} else if idle {
		s.forget(t)
	}
	s.mu.Unlock()
	if mustLook {
		l.Look()
	}
	if ok {
		return nil
	}
	j := &joining[K]{k: k, key: key, task: task}
	j.rec.Init(j, l)
	return l.SubmitSlow(queue.Record(&j.rec), kernel.Policy(policy), ctx)
}

func (k *Keyed[K]) shard(key K) *keyShard[K] {
	return &k.shards[maphash.Comparable(k.seed, key)%keyShards]
}

// of is the strand of key, and whether it is idle. If it is, its activation is to be submitted.
// Locked, as all methods of a keyShard.
func (s *keyShard[K]) of(p *Pool, key K) (t *strand[K], idle bool) {
	if t = s.strands[key]; t != nil {
		return t, false
	}
	if t = s.spare; t == nil {
		t = &strand[K]{s: s}
		t.rec.Init(t, &p.lane)
	}
	s.spare = nil
	t.key = key
	t.rec.Again()
	if key == key { // else, as for NaN, every task has a strand of its own
		if s.strands == nil {
			s.strands = map[K]*strand[K]{}
		}
		s.strands[key] = t
		s.most = max(s.most, len(s.strands))
	}
	return t, true
}

// forget removes t, which becomes idle.
func (s *keyShard[K]) forget(t *strand[K]) {
	delete(s.strands, t.key)
	if len(s.strands) < s.most/4 && s.most > 16 {
		s.strands, s.most = maps.Collect(maps.All(s.strands)), len(s.strands)
	}
	t.key = *new(K)
	s.spare = t
}

// A joining is a task of a key that waits for free capacity; see [kernel.Joiner].
type joining[K comparable] struct {
	rec         call
	kernel.Body // none: it is never run
	k           *Keyed[K]
	key         K
	task        queue.Item
}

func (j *joining[K]) Join() *call {
	s := j.k.shard(j.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	t, idle := s.of(j.k.p, j.key)
	t.tasks.push(j.task)
	if idle {
		return &t.rec
	}
	return nil
}

// begin makes the first waiting task the current one, unless there is a current one. It returns the
// body of the current task.
func (t *strand[K]) begin() kernel.Body {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if t.Body == nil {
		t.Body = t.bodyOf(t.tasks.pop())
	}
	return t.Body
}

// bodyOf is what task does on the goroutine that runs t.
func (t *strand[K]) bodyOf(task queue.Item) kernel.Body {
	if !task.IsRecord() {
		return funcBody(task.Func())
	}
	c := queue.As[call](task)
	if !c.Take() {
		return funcBody(nil)
	}
	c.Keep = t.rec.Keep
	t.inner = c
	return c.Body
}

func (t *strand[K]) Next() (first *call, more bool) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	first, t.inner, t.Body = t.inner, nil, nil
	if more = t.tasks.len() > 0; !more {
		t.s.forget(t)
	}
	return first, more
}

func (t *strand[K]) Refused() error { return t.begin().Refused() }
func (t *strand[K]) Over(err error) { t.begin().Over(err) }

func (t *strand[K]) Cut(cause error) {
	t.s.mu.Lock()
	b := t.Body
	t.s.mu.Unlock()
	if b != nil {
		b.Cut(cause)
	}
}

// A funcBody is a task of a key, without a waiter. It is nil for a task that was withdrawn: the
// goroutine that withdrew the task ends and resolves it.
type funcBody func()

func (f funcBody) Run() error {
	f()
	return nil
}

func (f funcBody) Refused() error {
	if f == nil {
		return context.Canceled
	}
	return nil
}

func (funcBody) Over(error)             {}
func (funcBody) Cut(error)              {}
func (funcBody) Returns(error) bool     { return false }
func (funcBody) Resolve(error)          {}
func (funcBody) Outer() context.Context { return nil }

// keepItems is for how many items an empty fifo may keep the memory. More than half as many were there at once
// since it had none, so it allocates seldom.
const keepItems = 1024

// A fifo is a queue for one goroutine at a time. It keeps the memory for the most items that were in it until
// it is empty, and then for keepItems.
type fifo[T any] struct {
	buf  []T
	head int
}

func (q *fifo[T]) len() int { return len(q.buf) - q.head }

// first is the oldest, which must exist.
func (q *fifo[T]) first() T { return q.buf[q.head] }

func (q *fifo[T]) push(v T) {
	if len(q.buf) == cap(q.buf) && q.head > len(q.buf)/2 {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
	q.buf = append(q.buf, v)
}

// pop takes the oldest, which must exist.
func (q *fifo[T]) pop() (v T) {
	v, q.buf[q.head] = q.buf[q.head], v
	if q.head++; q.len() == 0 && cap(q.buf) > keepItems {
		*q = fifo[T]{}
	}
	return v
}
