package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/testpool"
)

// TestReserveKeepsItsBooks runs random programs of submissions, tasks of keys, delayed ones,
// reservations and changes of the pool. Whenever everything has come to rest the books add up, and
// no call waits for a place, or for capacity, while some is free. At the end nothing is lost.
func TestReserveKeepsItsBooks(t *testing.T) {
	for seed := range uint64(testpool.Reps(4000, 400, 150)) {
		inBubble(t, func(t *testing.T) {
			r := &reserveProgram{t: t, rnd: rand.New(rand.NewPCG(seed, 5)), granted: make(chan *shoal.Reservation, 1000)}
			r.play()
		})
		if t.Failed() {
			t.Fatalf("program %d", seed)
		}
	}
}

type reserveProgram struct {
	t   *testing.T
	rnd *rand.Rand
	p   *shoal.Pool // a pool, or a sub-pool
	log []string

	policy        shoal.FullPolicy
	capacity, max int
	paused        bool

	gates    []chan struct{} // of tasks that are held
	cancels  []context.CancelFunc
	granted  chan *shoal.Reservation
	places   []*shoal.Reservation
	reserves atomic.Int32 // calls of Reserve that wait

	put, lost, ran atomic.Int64 // by reservations
	accepted, did  atomic.Int64 // by Submit and Keyed
}

func (r *reserveProgram) errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("%s\n%v, capacity %d, at most %d workers, after %v", fmt.Sprintf(format, args...), r.policy, r.capacity, r.max, r.log)
}

// work is what a task does: nothing, or it waits for the program.
func (r *reserveProgram) work() func() {
	if r.rnd.IntN(3) == 0 {
		return func() {}
	}
	gate := make(chan struct{})
	r.gates = append(r.gates, gate)
	return func() { <-gate }
}

func (r *reserveProgram) context() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancels = append(r.cancels, cancel)
	return ctx
}

// pick takes one of s, if there is one.
func pick[T any](rnd *rand.Rand, s *[]T) (x T, ok bool) {
	if len(*s) == 0 {
		return x, false
	}
	i := rnd.IntN(len(*s))
	x = (*s)[i]
	*s = append((*s)[:i], (*s)[i+1:]...)
	return x, true
}

func (r *reserveProgram) play() {
	rnd := r.rnd
	r.policy = allPolicies[rnd.IntN(len(allPolicies))]
	r.capacity, r.max = rnd.IntN(4), 1+rnd.IntN(4)
	options := func() []shoal.Option {
		return []shoal.Option{shoal.WithMaxWorkers(r.max), shoal.WithQueueCapacity(r.capacity), shoal.WithFullPolicy(r.policy)}
	}
	root := newPool(r.t, options()...)
	r.p = root
	if rnd.IntN(3) == 0 {
		r.capacity, r.max = rnd.IntN(4), 1+rnd.IntN(4)
		r.p = newSub(r.t, root, options()...)
	}
	k := shoal.NewKeyed[int](r.p)
	for range 60 {
		r.step(k)
		if rnd.IntN(3) > 0 {
			r.rest()
		}
		if r.t.Failed() {
			break
		}
	}
	r.p.Resume()
	for _, gate := range r.gates {
		close(gate)
	}
	r.paused = false
	r.rest()
	for len(r.places) > 0 || len(r.granted) > 0 {
		for _, places := range r.places {
			places.Release()
		}
		r.places = nil
		r.rest()
	}
	if n := r.reserves.Load(); n != 0 {
		r.errorf("%d wait for places of a pool in which nothing runs", n)
	}
	if rnd.IntN(2) == 0 {
		r.p.Wait()
		r.balance()
	}
	closeAll(r.t, root)
	synctest.Wait()
	r.balance()
	if s := r.p.Stats(); s.InFlight != 0 || s.Reserved != 0 || s.Blocked != 0 {
		r.errorf("at the end: %+v", s)
	}
	for _, cancel := range r.cancels {
		cancel()
	}
}

// balance says that each task of a reservation has run, or was told to be lost; and so have those
// of others, but for the ones that were dropped or canceled.
func (r *reserveProgram) balance() {
	if put, ran, lost := r.put.Load(), r.ran.Load(), r.lost.Load(); ran+lost != put {
		r.errorf("%d tasks of reservations: %d ran and %d are lost", put, ran, lost)
	}
	s := r.p.Stats()
	checkIdentity(r.t, s)
	if all, ran := r.accepted.Load()+r.put.Load(), r.did.Load()+r.ran.Load(); uint64(all) != s.Submitted || uint64(ran) != s.Completed ||
		uint64(all-ran) != s.Dropped+s.Canceled {
		r.errorf("%d accepted and %d ran: %+v", all, ran, s)
	}
}

// submit submits in the background.
func (r *reserveProgram) submit(f func(task func()) error) {
	work := r.work()
	go func() {
		if f(func() { r.did.Add(1); work() }) == nil {
			r.accepted.Add(1)
		}
	}()
}

func (r *reserveProgram) step(k *shoal.Keyed[int]) {
	op := r.rnd.IntN(14)
	r.log = append(r.log, []string{"submit", "submit", "key", "key", "context", "cancel", "release", "release", "release",
		"reserve", "put", "give back", "resize or later", "pause"}[op])
	p := r.p
	switch op {
	case 0, 1:
		r.submit(p.Submit)
	case 2, 3:
		key := r.rnd.IntN(2)
		r.submit(func(task func()) error { return k.Submit(key, task) })
	case 4:
		ctx := r.context()
		r.submit(func(task func()) error { return p.SubmitContext(ctx, func(context.Context) { task() }) })
	case 5:
		if cancel, ok := pick(r.rnd, &r.cancels); ok {
			cancel()
		}
	case 6, 7, 8:
		if gate, ok := pick(r.rnd, &r.gates); ok {
			close(gate)
		}
	case 9:
		n, ctx := 1+r.rnd.IntN(3), r.context()
		r.reserves.Add(1)
		go func() {
			places, err := p.Reserve(ctx, n)
			r.reserves.Add(-1)
			if err == nil {
				r.granted <- places
			}
		}()
	case 10:
		if len(r.places) > 0 {
			places, work := r.places[r.rnd.IntN(len(r.places))], r.work()
			if places.Submit(r.context(), func(context.Context) error { r.ran.Add(1); work(); return nil }, func(error) { r.lost.Add(1) }) == nil {
				r.put.Add(1)
			}
		}
	case 11:
		if places, ok := pick(r.rnd, &r.places); ok {
			places.Release()
		}
	case 12:
		if r.rnd.IntN(2) == 0 {
			r.max = 1 + r.rnd.IntN(4)
			must(r.t, p.Resize(0, r.max))
			break
		}
		work := r.work()
		if _, err := p.SubmitAfter(time.Duration(r.rnd.IntN(2)), func() { r.did.Add(1); work() }); err == nil {
			r.accepted.Add(1) // it is due before the pool ends
		}
	case 13:
		p.Pause()
		r.paused = true
		if r.rnd.IntN(2) == 0 {
			synctest.Wait()
		}
		if r.rnd.IntN(3) > 0 {
			p.Resume()
			r.paused = false
		}
	}
}

// rest waits until everything has come to rest and looks at the books.
func (r *reserveProgram) rest() {
	time.Sleep(10 * time.Nanosecond)
	synctest.Wait()
	for len(r.granted) > 0 {
		r.places = append(r.places, <-r.granted)
	}
	s := r.p.Stats()
	checkIdentity(r.t, s)
	places := 0
	for _, p := range r.places {
		places += p.Len()
	}
	if places != s.Reserved {
		r.errorf("%d places are out, Reserved is %d", places, s.Reserved)
	}
	// Tasks that run inline, and those that Keyed accepts beyond the capacity, need no room.
	exact := r.policy == shoal.Block || r.policy == shoal.Reject || r.policy == shoal.DropOldest
	room := r.capacity + r.max - s.InFlight - s.Reserved
	if exact && s.Blocked > 0 && room > 0 {
		r.errorf("%d wait for room, and there is room for %d: %+v", s.Blocked, room, s)
	}
	if free := r.max - s.InFlight - s.Reserved; exact && !r.paused && s.Blocked == 0 && r.reserves.Load() > 0 && free > 0 {
		r.errorf("%d wait for places, and there are %d: %+v", r.reserves.Load(), free, s)
	}
	if exact && !r.paused && s.InFlight > 0 && s.Running == 0 {
		r.errorf("tasks wait, and none runs: %+v", s)
	}
}
