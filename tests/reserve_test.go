package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
)

func TestReserveRefusesBadInput(t *testing.T) {
	p := newPool(t)
	ctx := context.Background()
	var none context.Context
	for _, n := range []int{0, -1} {
		if _, err := p.Reserve(ctx, n); !errors.Is(err, shoal.ErrConfig) || !strings.Contains(err.Error(), fmt.Sprintf("Reserve(%d)", n)) {
			t.Errorf("Reserve(%d): %v", n, err)
		}
	}
	if _, err := p.Reserve(none, 1); err == nil {
		t.Error("a nil context was accepted")
	}
	if _, err := p.Reserve(canceledContext(), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := new(shoal.Pool).Reserve(ctx, 1); !errors.Is(err, shoal.ErrClosed) {
		t.Errorf("in the zero Pool: %v", err)
	}
	err := p.SubmitWait(ctx, func(ctx context.Context) error {
		_, err := p.Reserve(ctx, 1)
		return err
	})
	if !errors.Is(err, shoal.ErrWouldDeadlock) {
		t.Errorf("in a task: %v", err)
	}
	r, err := p.Reserve(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Submit(ctx, nil, nil); !errors.Is(err, shoal.ErrNilTask) {
		t.Errorf("a nil task: %v", err)
	}
	if err := r.Submit(none, func(context.Context) error { return nil }, nil); err == nil {
		t.Error("a nil context was accepted")
	}
	if err := r.Submit(canceledContext(), func(context.Context) error { return nil }, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if r.Len() != 1 {
		t.Errorf("%d places after submissions that were refused", r.Len())
	}
	shutClean(t, p)
	if err := r.Submit(ctx, func(context.Context) error { return nil }, nil); !errors.Is(err, shoal.ErrClosed) {
		t.Errorf("after Shutdown: %v", err)
	}
	r.Release()
	if _, err := p.Reserve(ctx, 1); !errors.Is(err, shoal.ErrClosed) {
		t.Errorf("Reserve after Shutdown: %v", err)
	}
}

// TestReservationThatWasNotMade: Release is deferred before the error is looked at, for example.
func TestReservationThatWasNotMade(t *testing.T) {
	for _, r := range []*shoal.Reservation{nil, {}} {
		r.Release()
		if r.Len() != 0 || r.Revoked() != nil {
			t.Errorf("%d places, revoked %v", r.Len(), r.Revoked())
		}
		wantErr(t, "Submit", r.Submit(bg, func(context.Context) error { return nil }, nil), shoal.ErrClosed)
	}
}

func TestReserveTakesWhatIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(4), shoal.WithQueueCapacity(0), shoal.WithFullPolicy(shoal.Reject))
		ctx := context.Background()
		release := make(chan struct{})
		if err := p.Submit(func() { <-release }); err != nil {
			t.Fatal(err)
		}
		a, err := p.Reserve(ctx, 2)
		if err != nil || a.Len() != 2 {
			t.Fatalf("%v places, %v", a.Len(), err)
		}
		b, err := p.Reserve(ctx, 100)
		if err != nil || b.Len() != 1 {
			t.Fatalf("%v places of the one that is left, %v", b.Len(), err)
		}
		if s := p.Stats(); s.Reserved != 3 || s.InFlight != 1 {
			t.Errorf("%d reserved, %d in flight", s.Reserved, s.InFlight)
		}
		if err := p.Submit(func() {}); !errors.Is(err, shoal.ErrQueueFull) {
			t.Errorf("a place that is reserved was given to others: %v", err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := p.Reserve(short, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a place that is reserved was reserved again: %v", err)
		}
		ran := 0
		for range 2 {
			if err := a.Submit(ctx, func(context.Context) error { ran++; <-release; return nil }, nil); err != nil {
				t.Error(err)
			}
			synctest.Wait() // in turn, and at once
		}
		if ran != 2 || a.Len() != 0 {
			t.Errorf("%d of 2 ran, %d places left", ran, a.Len())
		}
		if err := a.Submit(ctx, func(context.Context) error { return nil }, nil); !errors.Is(err, shoal.ErrQueueFull) {
			t.Errorf("a third task in two places: %v", err)
		}
		b.Release()
		b.Release()
		if err := p.Submit(func() { ran++ }); err != nil {
			t.Errorf("a place that was given back is not free: %v", err)
		}
		close(release)
		p.Wait()
		c, err := p.Reserve(ctx, 100)
		if err != nil || c.Len() != 4 || ran != 3 {
			t.Errorf("%d places at the end, %v, %d ran", c.Len(), err, ran)
		}
		shutClean(t, p)
	})
}

// TestReserveTellsOfTheLost: lost is called once for each task that was accepted and does not run.
func TestReserveTellsOfTheLost(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *shoal.Pool, cancel func())
		want error
	}{
		"the context ends": {func(p *shoal.Pool, cancel func()) { cancel(); p.Resume(); p.Wait() }, context.Canceled},
		"Close":            {func(p *shoal.Pool, cancel func()) { p.Close() }, shoal.ErrDropped},
		"DropOldest":       {func(p *shoal.Pool, cancel func()) { p.Submit(func() {}) }, shoal.ErrDropped},
		"it runs":          {func(p *shoal.Pool, cancel func()) { p.Resume(); p.Wait() }, nil},
		"it panics":        {func(p *shoal.Pool, cancel func()) { p.Resume(); p.Wait() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(1), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest),
				shoal.WithPanicHandler(func(*shoal.PanicError) {}))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r, err := p.Reserve(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			p.Pause()
			ran := false
			var lost []error
			if err := r.Submit(ctx, func(context.Context) error {
				if ran = true; name == "it panics" {
					panic("on purpose")
				}
				return errors.New("on purpose")
			}, func(err error) {
				lost = append(lost, err)
				if name == "Close" {
					panic("on purpose")
				}
			}); err != nil {
				t.Fatal(err)
			}
			c.end(p, cancel)
			closeAll(t, p) // lost is told after the task was counted
			if c.want == nil {
				if !ran || len(lost) != 0 || p.Stats().Failed != 1 {
					t.Errorf("ran: %v, lost: %v, failed: %d", ran, lost, p.Stats().Failed)
				}
			} else if ran || len(lost) != 1 || lost[0] != c.want {
				t.Errorf("ran: %v, lost: %v, want %v once", ran, lost, c.want)
			}
		})
	}
}

// reserveOne has a goroutine reserve a worker and give it back, and tells whether it has.
// It returns when that waits, or is over.
func reserveOne(t *testing.T, p *shoal.Pool) (got *bool) {
	got = new(bool)
	go func() {
		r, err := p.Reserve(context.Background(), 1)
		if err != nil {
			t.Error(err)
			return
		}
		*got = true
		r.Release()
	}()
	synctest.Wait()
	return got
}

func TestReserveWaitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(1))
		first, err := p.Reserve(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		for i := range 4 {
			go func() {
				r, err := p.Reserve(context.Background(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i)
				r.Release()
			}()
			synctest.Wait()
		}
		first.Release()
		synctest.Wait()
		if fmt.Sprint(order) != "[0 1 2 3]" {
			t.Errorf("served in the order %v", order)
		}
		shutClean(t, p)
	})
}

func TestReserveIsRevoked(t *testing.T) {
	revoked := func(r *shoal.Reservation) bool {
		select {
		case <-r.Revoked():
			return true
		default:
			return false
		}
	}
	for name, what := range map[string]func(p *shoal.Pool){
		"Pause":        func(p *shoal.Pool) { p.Pause() },
		"fewer":        func(p *shoal.Pool) { p.Resize(0, 2) },
		"Drain":        func(p *shoal.Pool) { p.Drain() },
		"Close":        func(p *shoal.Pool) { p.Close() },
		"not by more":  func(p *shoal.Pool) { p.Resize(0, 8) },
		"not by tasks": func(p *shoal.Pool) { p.Submit(func() {}); p.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, shoal.WithMaxWorkers(4))
			r, err := p.Reserve(t.Context(), 2)
			if err != nil || revoked(r) {
				t.Fatalf("%v, or revoked at once", err)
			}
			what(p)
			what(p)
			if revoked(r) == strings.HasPrefix(name, "not") {
				t.Errorf("revoked: %v", revoked(r))
			}
			closeAll(t, p)
			if !revoked(r) || r.Len() != 0 || p.Stats().Reserved != 0 {
				t.Errorf("after Close: revoked %v, %d places, %d reserved", revoked(r), r.Len(), p.Stats().Reserved)
			}
		})
	}
}

func TestReserveInAPausedPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2))
		p.Pause()
		got := reserveOne(t, p)
		if *got {
			t.Error("a paused pool has free workers")
		}
		p.Resume()
		synctest.Wait()
		if !*got {
			t.Error("a pool that was resumed has none")
		}
		shutClean(t, p)
	})
}

// TestReserveHoldsNoMoreThanThereIs: consumers that reserve, and submit, under
// everything that a pool has to bear besides.
func TestReserveHoldsNoMoreThanThereIs(t *testing.T) {
	const most = 3
	for _, capacity := range []int{0, 1, 64} {
		for _, policy := range []shoal.FullPolicy{shoal.Block, shoal.Reject, shoal.DropOldest} {
			t.Run(fmt.Sprintf("capacity %d, %v", capacity, policy), func(t *testing.T) {
				p := newPool(t, shoal.WithMaxWorkers(most), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(policy), shoal.WithIdleTimeout(0))
				var held, done, dropped atomic.Int64
				ctx, cancel := context.WithCancel(context.Background())
				var consumers, others sync.WaitGroup
				for i := range 3 {
					consumers.Go(func() {
						for n := 0; n < 200; {
							r, err := p.Reserve(context.Background(), 1+i)
							if err != nil {
								t.Error(err)
								return
							}
							// When lost is called for a dropped task, another one may have its permit already.
							if now := held.Add(int64(r.Len())); now > most && policy != shoal.DropOldest {
								t.Errorf("%d places are held, of %d", now, most)
							}
							if n := p.Stats().Reserved; n > most {
								t.Errorf("%d places are reserved, of %d", n, most)
							}
							k := r.Len()
							if n%5 == 4 {
								k-- // somebody else has it
							}
							for range k {
								if err := r.Submit(context.Background(), func(context.Context) error {
									held.Add(-1)
									done.Add(1)
									return nil
								}, func(error) { held.Add(-1); dropped.Add(1) }); err != nil {
									t.Error(err)
								}
							}
							held.Add(-int64(r.Len()))
							r.Release()
							n += max(1, k)
						}
					})
				}
				others.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						short, cancel := context.WithTimeout(ctx, 10*time.Microsecond)
						switch i % 5 {
						case 0, 1:
							p.TrySubmit(func() {})
						case 2:
							p.SubmitContext(short, func(context.Context) {})
						case 3:
							p.Pause()
							p.Resume()
						case 4:
							if r, err := p.Reserve(short, 1); err == nil {
								r.Release()
							}
						}
						cancel()
					}
				})
				consumers.Wait()
				cancel()
				others.Wait()
				p.Wait()
				if held.Load() != 0 || done.Load()+dropped.Load() < 600-3*200/5 || dropped.Load() > 0 && policy != shoal.DropOldest {
					t.Errorf("%d are still held, %d are done, %d dropped", held.Load(), done.Load(), dropped.Load())
				}
				if s := p.Stats(); s.Reserved != 0 {
					t.Errorf("%d places are still reserved", s.Reserved)
				}
				shutClean(t, p)
			})
		}
	}
}

// reserveNever is a Sizer that starts no worker beyond the minimum.
type reserveNever struct{}

func (reserveNever) Grow(shoal.Sizing) bool { return false }

// What follows is what a hostile reader of reserve.go has found.

// TestReserveSeesAWorkerGoOn: a worker that goes on to the next task frees a place, and is as busy as before.
func TestReserveSeesAWorkerGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithMinWorkers(1), shoal.WithSizing(reserveNever{}))
		a, b := make(chan struct{}), make(chan struct{})
		for range 20 { // spend the yields of this window: one would hide it
			p.Submit(func() {})
		}
		p.Wait()
		p.Submit(func() { <-a })
		synctest.Wait()
		p.Submit(func() { <-b })
		synctest.Wait()
		got := reserveOne(t, p)
		close(a)
		synctest.Wait()
		s := p.Stats()
		if !*got {
			t.Errorf("InFlight %d, MaxWorkers %d, Reserved %d: Reserve still waits", s.InFlight, s.MaxWorkers, s.Reserved)
			if r, err := p.Reserve(context.Background(), 1); err == nil {
				t.Errorf("a second Reserve is served at once; the first too now")
				r.Release()
			}
		}
		close(b)
		shutClean(t, p)
	})
}

// TestReserveSeesAWorkerGoOnInASubPool: the same, where the parent has one worker.
func TestReserveSeesAWorkerGoOnInASubPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		par := newPool(t, shoal.WithMaxWorkers(1))
		p, _ := par.Sub(shoal.WithMaxWorkers(2))
		a, b := make(chan struct{}), make(chan struct{})
		p.Submit(func() { <-a })
		p.Submit(func() { <-b })
		synctest.Wait()
		got := reserveOne(t, p)
		close(a)
		synctest.Wait()
		s := p.Stats()
		if !*got {
			t.Errorf("InFlight %d, MaxWorkers %d, Reserved %d: Reserve still waits", s.InFlight, s.MaxWorkers, s.Reserved)
		}
		close(b)
		shutClean(t, par)
	})
}

// TestReserveAfterASubmitterGaveUp: while tasks wait for their key, a worker may be free though no capacity is.
func TestReserveAfterASubmitterGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(1))
		k := shoal.NewKeyed[int](p)
		a := make(chan struct{})
		for range 3 { // one runs, two are parked: capacity 1 + the free worker
			k.Submit(1, func() { <-a })
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() { p.SubmitContext(ctx, func(context.Context) {}) }()
		synctest.Wait()
		if p.Stats().Blocked != 1 {
			t.Fatal("not blocked", p.Stats())
		}
		got := reserveOne(t, p)
		if *got {
			t.Fatal("early")
		}
		cancel()
		synctest.Wait()
		if !*got {
			s := p.Stats()
			t.Errorf("Blocked %d, Running %d of %d: Reserve still waits", s.Blocked, s.Running, s.MaxWorkers)
			if r, err := p.Reserve(context.Background(), 1); err == nil {
				t.Errorf("a second Reserve is served at once")
				r.Release()
			}
		}
		close(a)
		shutClean(t, p)
	})
}

// TestReserveBetweenTheTasksOfAKey: a worker that runs the tasks of a key is not free between them.
func TestReserveBetweenTheTasksOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(4))
		k := shoal.NewKeyed[int](p)
		a, b, c := make(chan struct{}), make(chan struct{}), make(chan struct{})
		k.Submit(1, func() { <-a })
		synctest.Wait()
		k.Submit(1, func() { <-b })
		synctest.Wait() // parked
		p.Submit(func() { <-c })
		synctest.Wait() // both workers busy
		var r *shoal.Reservation
		go func() { r, _ = p.Reserve(context.Background(), 1) }()
		synctest.Wait()
		if r != nil {
			t.Fatal("early")
		}
		close(a)
		synctest.Wait()
		if r != nil {
			s := p.Stats()
			t.Errorf("Running %d + Reserved %d > MaxWorkers %d", s.Running, s.Reserved, s.MaxWorkers)
			ran := false
			r.Submit(context.Background(), func(context.Context) error { ran = true; return nil }, nil)
			synctest.Wait()
			if !ran {
				t.Errorf("the task in the reserved place does not start; queued %d", p.Stats().Queued)
			}
		}
		close(b)
		close(c)
		synctest.Wait()
		shutClean(t, p)
	})
}

// TestReserveAfterGoexitInATaskOfAKey: a worker that ends while it runs the tasks of a key
// leaves its place.
func TestReserveAfterGoexitInATaskOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2), shoal.WithQueueCapacity(4))
		k := shoal.NewKeyed[int](p)
		a, c := make(chan struct{}), make(chan struct{})
		k.Submit(1, func() { <-a })
		synctest.Wait()
		k.Submit(1, runtime.Goexit)
		synctest.Wait() // parked
		p.Submit(func() { <-c })
		synctest.Wait()
		got := reserveOne(t, p)
		close(a)
		synctest.Wait()
		if !*got {
			t.Errorf("Reserve still waits: %+v", p.Stats())
		}
		close(c)
		shutClean(t, p)
	})
}

// TestReservedPlacesAreNoRoom: in a pool with a queue, too.
func TestReservedPlacesAreNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, capacity = 2, 1
		p := newPool(t, shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(shoal.Reject))
		r, err := p.Reserve(context.Background(), workers)
		if err != nil || r.Len() != workers {
			t.Fatal(err, r.Len())
		}
		end := make(chan struct{})
		n := 0
		for range 10 {
			if p.TrySubmit(func() { <-end }) == nil {
				n++
			}
			synctest.Wait()
		}
		if n+r.Len() > workers+capacity {
			t.Errorf("%d tasks of others + %d places reserved > %d workers + capacity %d", n, r.Len(), workers, capacity)
		}
		for range workers {
			r.Submit(context.Background(), func(context.Context) error { return nil }, nil)
		}
		synctest.Wait()
		s := p.Stats()
		if s.InFlight-s.Running > capacity {
			t.Errorf("%d tasks wait, capacity %d", s.InFlight-s.Running, capacity)
		}
		close(end)
		shutClean(t, p)
	})
}

// TestReserveAfterADrop: a Reserve that waits has a worker when there is one, also if a task was dropped meanwhile.
func TestReserveAfterADrop(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(3), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		k := shoal.NewKeyed[int](p)
		a := make(chan struct{})
		for range 3 {
			k.Submit(1, func() { <-a })
			synctest.Wait()
		}
		if err := p.Submit(func() {}); err != nil {
			t.Fatal(err)
		}
		p.Pause()
		p.Resize(0, 2)
		got := reserveOne(t, p)
		p.Resume()
		must(t, p.Submit(func() {})) // drops the one that waits
		synctest.Wait()
		s := p.Stats()
		if s.Dropped != 1 {
			t.Errorf("%d were dropped, want 1", s.Dropped)
		}
		if !*got {
			t.Errorf("running %d of %d, waiting %d, and Reserve still waits", s.Running, s.MaxWorkers, s.Queued)
		}
		close(a)
		shutClean(t, p)
	})
}

// TestReserveTellsOfTheLostBeforeDone: the pool is over when all of its functions are.
func TestReserveTellsOfTheLostBeforeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, shoal.WithMaxWorkers(2))
		p.Submit(func() { time.Sleep(time.Second) })
		r, _ := p.Reserve(context.Background(), 1)
		p.Pause()
		over := false
		r.Submit(context.Background(), func(context.Context) error { return nil }, func(error) { time.Sleep(2 * time.Second); over = true })
		go p.Close()
		synctest.Wait()
		<-p.Done()
		if !over {
			t.Errorf("the pool is done, and lost still runs")
		}
		time.Sleep(3 * time.Second)
	})
}

// A consumer of a queue takes no more jobs from it than it can run at once.
func ExamplePool_Reserve() {
	jobs := make(chan string, 5) // stands for a queue on another machine
	for i := range 5 {
		jobs <- fmt.Sprintf("job %d", i)
	}
	close(jobs)

	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(2)))
	var most, leased, ran atomic.Int64
	ctx := context.Background()
	for more := true; more; {
		places, err := p.Reserve(ctx, 2) // waits until a worker is free
		if err != nil {
			break
		}
		for range places.Len() {
			job, ok := <-jobs
			if !ok {
				more = false
				break
			}
			most.Store(max(most.Load(), leased.Add(1)))
			places.Submit(ctx, func(context.Context) error {
				defer leased.Add(-1)
				_ = job // work on it
				ran.Add(1)
				return nil
			}, nil)
		}
		places.Release() // those that there was no job for
	}
	p.Shutdown(ctx)
	fmt.Println(ran.Load(), "jobs, never more than 2 at once:", most.Load() <= 2)
	// Output: 5 jobs, never more than 2 at once: true
}

// DropOldest is one for one: without free capacity a new task displaces the oldest one that
// waits, and no more than that, also if Resize has left more than the bound.
func TestDropOldestIsOneForOne(t *testing.T) {
	for _, lower := range []bool{false, true} {
		p := newPool(t, shoal.WithMaxWorkers(3), shoal.WithQueueCapacity(1), shoal.WithFullPolicy(shoal.DropOldest))
		r, err := p.Reserve(bg, 3)
		must(t, err)
		p.Pause()
		y := newTally(7)
		var lost []int
		for i := range 3 {
			must(t, y.note(i, r.Submit(bg, func(context.Context) error { y.hit(i); return nil }, func(err error) {
				wantErr(t, "lost", err, shoal.ErrDropped)
				lost = append(lost, i)
			})))
		}
		must(t, y.note(3, p.Submit(y.task(3)))) // there is room for one more
		if s := p.Stats(); len(lost) != 0 || s.Dropped != 0 || s.InFlight != 4 {
			t.Errorf("%v are lost before the bound: %+v", lost, s)
		}
		if lower { // now two wait beyond the bound
			must(t, p.Resize(0, 1))
		}
		for i := range 3 {
			must(t, y.note(4+i, p.Submit(y.task(4+i))))
			if s := p.Stats(); len(lost) != i+1 || lost[i] != i || s.Dropped != uint64(i+1) || s.InFlight != 4 {
				t.Errorf("lowered: %t: after %d tasks beyond the bound %v are lost, want one each, the oldest: %+v", lower, i+1, lost, s)
			}
		}
		p.Resume()
		shutClean(t, p)
		y.checkDropped(t, 3)
	}
}
