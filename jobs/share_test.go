package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/jobs"
)

// shared runs Serve for each of n queues, on one pool, in a bubble.
func shared(t *testing.T, workers, n int, takes time.Duration, f func(t *testing.T, p *shoal.Pool, qs []*spy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(workers)))
		ctx, cancel := context.WithCancel(context.Background())
		qs := make([]*spy, n)
		ended := make(chan error, n)
		for i := range qs {
			qs[i] = newSpy()
			go func() {
				ended <- jobs.Serve(ctx, p, qs[i], func(context.Context, *jobs.Job) error { time.Sleep(takes); return nil }, quietly)
			}()
			synctest.Wait() // so the first has all places
		}
		f(t, p, qs)
		cancel()
		for range qs {
			if err := <-ended; err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
		if all := jobs.Of(p); len(all) != 0 {
			t.Errorf("%d calls of Serve are still listed", len(all))
		}
		p.Close()
	})
}

func fill(t *testing.T, q *spy, n int) {
	t.Helper()
	for range n {
		if err := q.Enqueue(context.Background(), jobs.Message{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *spy) acked() int { s.mu.Lock(); defer s.mu.Unlock(); return s.acks }

// TestAnIdleServeLeavesThePoolToABusyOne: 1,000 jobs of 10 ms take no more than a tenth
// longer than they would without two others on the pool, whose queues are empty.
func TestAnIdleServeLeavesThePoolToABusyOne(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			const n, takes = 1000, 10 * time.Millisecond
			shared(t, workers, 3, takes, func(t *testing.T, p *shoal.Pool, qs []*spy) {
				begin := time.Now()
				fill(t, qs[1], n)
				for qs[1].acked() < n && time.Since(begin) < time.Hour {
					time.Sleep(takes)
				}
				least := n * takes / time.Duration(workers)
				if took := time.Since(begin); took > least+least/4+time.Second {
					t.Errorf("took %v, want about %v", took, least)
				}
				if qs[1].most > workers {
					t.Errorf("%d jobs were leased at once", qs[1].most)
				}
			})
		})
	}
}

// heavy skips a test in which millions of things happen in an instant. The race detector of Go
// 1.26 fails on so many now and then, by a check of its own.
func heavy(t *testing.T) {
	if testing.Short() {
		t.Skip("too much for the race detector")
	}
}

// TestAJobOfAnIdleServeStartsSoon: while another keeps the pool busy, and among others that
// are idle, with fewer places than there are calls of Serve.
func TestAJobOfAnIdleServeStartsSoon(t *testing.T) {
	times := 5
	if testing.Short() { // under the race detector each second of a busy pool takes one
		times = 2
	}
	for _, busy := range []bool{false, true} {
		for _, workers := range []int{1, 2, 5} {
			t.Run(fmt.Sprint(workers, " workers, busy ", busy), func(t *testing.T) {
				shared(t, workers, 4, 10*time.Millisecond, func(t *testing.T, p *shoal.Pool, qs []*spy) {
					if busy {
						fill(t, qs[0], 6*times*100*workers) // for 6 s each
					}
					for i := range times {
						time.Sleep(5 * time.Second)
						q := qs[1+i%3]
						before, begin := q.acked(), time.Now()
						fill(t, q, 1)
						for q.acked() == before && time.Since(begin) < time.Minute {
							time.Sleep(time.Millisecond)
						}
						if took := time.Since(begin); took > time.Second {
							t.Errorf("job %d was done after %v", i, took)
						}
					}
				})
			})
		}
	}
}

// TestIdleServesRest: they do not take turns all the time.
func TestIdleServesRest(t *testing.T) {
	for workers, most := range map[int]int{1: 3000, 3: 0} { // of those with a place each none asks
		shared(t, workers, 3, 0, func(t *testing.T, p *shoal.Pool, qs []*spy) {
			time.Sleep(time.Minute)
			before := make([]int, len(qs))
			for i, q := range qs {
				q.set(func() { before[i] = q.pulls })
			}
			time.Sleep(10 * time.Minute)
			for i, q := range qs {
				q.set(func() {
					if n := q.pulls - before[i]; n > most {
						t.Errorf("%d workers: %d pulls in 10 minutes, want at most %d", workers, n, most)
					}
				})
			}
		})
	}
}

// TestServeAloneReservesAllAgain when the others have ended.
func TestServeAloneReservesAllAgain(t *testing.T) {
	shared(t, 4, 1, time.Millisecond, func(t *testing.T, p *shoal.Pool, qs []*spy) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		other := newSpy()
		go func() {
			ended <- jobs.Serve(ctx, p, other, func(context.Context, *jobs.Job) error { return nil }, quietly)
		}()
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		fill(t, qs[0], 1)
		time.Sleep(time.Minute)
		qs[0].set(func() {
			if last := qs[0].pulled[len(qs[0].pulled)-1]; last < 3 { // one place had a job
				t.Errorf("the last Pull asked for %d jobs, want 3 or 4", last)
			}
		})
	})
}

// TestAnIdleServeLeavesThePoolToShortJobs: of those that are idle each has a place at first,
// and the busy one, which has one place, never waits for long.
func TestAnIdleServeLeavesThePoolToShortJobs(t *testing.T) {
	heavy(t)
	const workers, n, takes = 8, 8000, time.Millisecond
	shared(t, workers, workers, takes, func(t *testing.T, p *shoal.Pool, qs []*spy) {
		time.Sleep(time.Minute)
		begin := time.Now()
		fill(t, qs[3], n)
		for qs[3].acked() < n && time.Since(begin) < time.Hour {
			time.Sleep(takes)
		}
		if took, least := time.Since(begin), n*takes/workers; took > least+least/2+time.Second/2 {
			t.Errorf("took %v, want about %v", took, least)
		}
	})
}

// TestManyIdleServes cost a busy one no more than a part of the pool.
func TestManyIdleServes(t *testing.T) {
	heavy(t)
	const workers, n, takes = 4, 4000, 10 * time.Millisecond
	shared(t, workers, 100, takes, func(t *testing.T, p *shoal.Pool, qs []*spy) {
		time.Sleep(time.Minute)
		begin := time.Now()
		fill(t, qs[3], n)
		for qs[3].acked() < n && time.Since(begin) < time.Hour {
			time.Sleep(takes)
		}
		if took, least := time.Since(begin), n*takes/workers; took > least+least/4+2*time.Second {
			t.Errorf("took %v, want about %v", took, least)
		}
	})
}

// TestAnIdleServeLeavesAPoolWithoutAQueue to other tasks: all places but one, and that one to a
// submitter that waits. Its jobs still get all workers.
func TestAnIdleServeLeavesAPoolWithoutAQueue(t *testing.T) {
	for _, workers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			p := shoal.Must(shoal.New(shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(0)))
			defer p.Close()
			ctx, cancel := context.WithCancel(context.Background())
			s := newSpy()
			ended := make(chan error, 1)
			go func() {
				ended <- jobs.Serve(ctx, p, s, func(context.Context, *jobs.Job) error { time.Sleep(time.Minute); return nil }, quietly)
			}()
			for range 3 {
				fill(t, s, 2*workers)
				time.Sleep(time.Second)
				if n := p.Stats().Running; n != workers {
					t.Errorf("%d of %d workers run jobs", n, workers)
				}
				time.Sleep(time.Hour)
				if n := s.Len(); n != 0 {
					t.Errorf("%d jobs are not done", n)
				}
				rest := make(chan struct{})
				for i := range workers - 1 {
					if err := p.TrySubmit(func() { <-rest }); err != nil {
						t.Errorf("task %d of a pool with %d workers: %v", i+1, workers, err)
					}
				}
				begin := time.Now()
				if err := p.SubmitContext(t.Context(), func(context.Context) {}); err != nil || time.Since(begin) > time.Second {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
				close(rest)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// short runs Serve on a pool whose queue has fewer places than there are workers, in a bubble.
func short(t *testing.T, workers, capacity int, h jobs.Handler, f func(t *testing.T, p *shoal.Pool, s *spy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := shoal.Must(shoal.New(shoal.WithMaxWorkers(workers), shoal.WithQueueCapacity(capacity)))
		defer p.Close()
		ctx, cancel := context.WithCancel(context.Background())
		s := newSpy()
		ended := make(chan error, 1)
		go func() { ended <- jobs.Serve(ctx, p, s, h, quietly) }()
		synctest.Wait()
		f(t, p, s)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// together puts n jobs into the queue at once, so that a Pull finds all of them.
func together(t *testing.T, s *spy, n int) {
	t.Helper()
	if err := s.Enqueue(context.Background(), make([]jobs.Message, n)...); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// takes demands that p runs n more tasks, side by side.
func takes(t *testing.T, p *shoal.Pool, n int) {
	t.Helper()
	release := make(chan struct{})
	for i := range n {
		if err := p.TrySubmit(func() { <-release }); err != nil {
			t.Errorf("task %d of %d: %v; %d places are reserved", i+1, n, err, p.Stats().Reserved)
		}
		synctest.Wait()
	}
	close(release)
	synctest.Wait()
}

// TestAnIdleServeLeavesAShortQueue: others can use all workers, at first, and when the jobs that came
// are done.
func TestAnIdleServeLeavesAShortQueue(t *testing.T) {
	const workers = 8
	for _, capacity := range []int{1, 3, 7} {
		t.Run(fmt.Sprint("capacity ", capacity), func(t *testing.T) {
			short(t, workers, capacity, func(context.Context, *jobs.Job) error { return nil }, func(t *testing.T, p *shoal.Pool, s *spy) {
				takes(t, p, workers)
				for _, n := range []int{1, 2, capacity, 50} {
					together(t, s, n)
					time.Sleep(2 * time.Second)
					if n := s.Len(); n != 0 {
						t.Errorf("%d jobs are not done", n)
					}
					takes(t, p, workers)
				}
			})
		})
	}
}

// TestServeReservesMoreThanAShortQueueHas while jobs come. What it has when no more come it gives back
// in a second.
func TestServeReservesMoreThanAShortQueueHas(t *testing.T) {
	const workers, n = 16, 1 + 2 + 4
	short(t, workers, 1, func(context.Context, *jobs.Job) error { time.Sleep(time.Minute); return nil }, func(t *testing.T, p *shoal.Pool, s *spy) {
		together(t, s, n)
		if st := p.Stats(); st.Running != n || st.Reserved != 8 {
			t.Errorf("%d jobs run, and %d places are reserved; want %d and 8", st.Running, st.Reserved, n)
		}
		time.Sleep(2 * time.Second)
		if st := p.Stats(); st.Reserved != 1 {
			t.Errorf("%d places are reserved after the last job, want 1", st.Reserved)
		}
		takes(t, p, workers-n)
		together(t, s, 100)
		if st := p.Stats(); st.Running != workers {
			t.Errorf("%d jobs run, want %d", st.Running, workers)
		}
		time.Sleep(time.Hour)
		if s.acked() != n+100 {
			t.Errorf("%d jobs are done, want %d", s.acked(), n+100)
		}
	})
}

// TestASlowPullBringsItsJobs, though others wait for the places: the source needs longer than
// an idle Serve is given to look.
func TestASlowPullBringsItsJobs(t *testing.T) {
	for _, slow := range []time.Duration{80 * time.Millisecond, 400 * time.Millisecond} {
		for _, workers := range []int{1, 4} {
			shared(t, workers, 2, time.Second, func(t *testing.T, p *shoal.Pool, qs []*spy) {
				qs[1].set(func() { qs[1].slow = slow })
				fill(t, qs[0], 300*workers)
				time.Sleep(5 * time.Second)
				fill(t, qs[1], 50*workers)
				time.Sleep(150 * time.Second)
				if n := qs[1].acked(); n < 10*workers {
					t.Errorf("%d workers, a Pull takes %v: %d jobs were done, and %d of the other Serve", workers, slow, n, qs[0].acked())
				}
			})
		}
	}
}

// TestAPullThatPanics leaves no place reserved.
func TestAPullThatPanics(t *testing.T) {
	shared(t, 2, 1, 0, func(t *testing.T, p *shoal.Pool, qs []*spy) {
		func() {
			defer func() {
				if r := recover(); r != "pull" {
					t.Errorf("%v", r)
				}
			}()
			jobs.Serve(context.Background(), p, panics{newSpy()}, func(context.Context, *jobs.Job) error { return nil }, quietly)
		}()
		fill(t, qs[0], 4)
		time.Sleep(time.Minute)
		if n := qs[0].acked(); n != 4 {
			t.Errorf("%d jobs were done, want 4", n)
		}
	})
}

// TestAPullThatPanicsAsksNoMore for places, though a job still runs.
func TestAPullThatPanicsAsksNoMore(t *testing.T) {
	shared(t, 8, 1, 0, func(t *testing.T, p *shoal.Pool, qs []*spy) {
		src := &onceThen{spy: newSpy(), then: func(context.Context) {
			synctest.Wait() // the job runs
			panic("pull")
		}}
		fill(t, src.spy, 1)
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			jobs.Serve(context.Background(), p, src, func(context.Context, *jobs.Job) error { time.Sleep(8 * time.Second); return nil }, quietly)
		}()
		pulls := func() (n int) { qs[0].set(func() { n = qs[0].pulls }); return n }
		time.Sleep(2 * time.Second)
		before := pulls()
		time.Sleep(5 * time.Second)
		if n := pulls() - before; n != 0 || len(jobs.Of(p)) != 2 {
			t.Errorf("the other Serve had to pull %d times, of %d", n, len(jobs.Of(p)))
		}
		if r := <-ended; r != "pull" {
			t.Errorf("%v", r)
		}
	})
}

type panics struct{ *spy }

func (panics) Pull(context.Context, int) ([]jobs.Delivery, error) { panic("pull") }

// TestADeafPullKeepsNoPlaces: nor those of a Serve that ought to have ended.
func TestADeafPullKeepsNoPlaces(t *testing.T) {
	for _, ends := range []bool{false, true} {
		shared(t, 2, 1, 0, func(t *testing.T, p *shoal.Pool, qs []*spy) {
			d := deaf{newSpy(), make(chan struct{})}
			fill(t, d.spy, 1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- jobs.Serve(ctx, p, d, func(context.Context, *jobs.Job) error { return nil }, quietly)
			}()
			time.Sleep(time.Minute)
			if ends {
				cancel()
			}
			fill(t, qs[0], 100)
			time.Sleep(time.Minute)
			if n := qs[0].acked(); n != 100 {
				t.Errorf("%d jobs were done, want 100", n)
			}
			close(d.until)
			time.Sleep(time.Minute)
			if n := held(d.spy); n != 0 {
				t.Errorf("%d jobs of the deaf one are held", n)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func held(s *spy) (n int) { s.set(func() { n = s.held }); return n }

// TestAPullThatHeedsIsNotCalledDeaf, though the source takes long to take back what it brings.
func TestAPullThatHeedsIsNotCalledDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := shoal.Must(shoal.New())
		defer p.Close()
		s := newSpy()
		s.slowNak = 5 * time.Second
		fill(t, s, 1)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		log := jobs.WithLogger(slog.New(hears(func(r slog.Record) { t.Errorf("logged: %s", r.Message) })))
		go func() {
			ended <- jobs.Serve(ctx, p, late{s}, func(context.Context, *jobs.Job) error { return nil }, log)
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || s.naks != 1 {
			t.Errorf("%v, %d given back", err, s.naks)
		}
	})
}

// A late source brings its jobs when the context of the Pull ends.
type late struct{ *spy }

func (s late) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	<-ctx.Done()
	return s.spy.Pull(context.WithoutCancel(ctx), n)
}

// A deaf source ignores the context of its Pull.
type deaf struct {
	*spy
	until chan struct{}
}

func (d deaf) Pull(ctx context.Context, n int) ([]jobs.Delivery, error) {
	<-d.until
	if ctx.Err() != nil { // it brings a job even so
		ctx = context.WithoutCancel(ctx)
	}
	return d.spy.Pull(ctx, n)
}
