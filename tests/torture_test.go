package tests

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shoal-go/shoal"
	"github.com/shoal-go/shoal/internal/again"
	"github.com/shoal-go/shoal/internal/testpool"
)

// Torture: very many tasks, each of which has one word that must have been
// written exactly once, through pools of every shape, in every environment.

var tortureTasks = flag.Int("torture.tasks", 0, "tasks of TestTorture (default 10,000,000; with -short, or under the race detector, fewer)")

// A tortureShape is a pool to be tortured.
type tortureShape struct {
	workers, capacity int
	idle              time.Duration
	gomaxprocs        int // 0: it changes all the time
	family            bool
}

func (s tortureShape) String() string {
	procs := fmt.Sprint(s.gomaxprocs)
	if s.gomaxprocs == 0 {
		procs = "changing"
	}
	kind := ""
	if s.family {
		kind = "family,"
	}
	return fmt.Sprintf("%sworkers=%d,capacity=%d,idle=%v,GOMAXPROCS=%s", kind, s.workers, s.capacity, s.idle, procs)
}

func shapes() (all []tortureShape) {
	for _, workers := range []int{1, 2, 64} {
		for i, capacity := range []int{0, 1, 64, 1 << 16} {
			for j, idle := range []time.Duration{0, time.Minute} {
				all = append(all, tortureShape{workers, capacity, idle, []int{1, 2, 8, 0}[(i+2*j+workers)%4], false})
			}
		}
	}
	return all
}

// families are the shapes of pools with sub-pools.
func families() (all []tortureShape) {
	for i, workers := range []int{1, 2, 8, 64} {
		for j, capacity := range []int{[]int{1, 0, 64, 1}[i], 1 << 16} {
			idle := []time.Duration{0, time.Minute}[(i/2+j)%2]
			all = append(all, tortureShape{workers, capacity, idle, []int{2, 1, 0, 8}[(i+2*j)%4], true})
		}
	}
	return all
}

// tortureRound is how many tasks one pool is given before it is closed.
const tortureRound = 50_000

func TestTorture(t *testing.T) {
	n := *tortureTasks
	switch {
	case n > 0:
	case runtime.GOARCH == "386":
		n = testpool.Reps(3_000_000, 500_000, 500_000)
	default:
		n = testpool.Reps(10_000_000, 500_000, 500_000)
	}
	done := 0
	all := append(shapes(), families()...)
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			want := max(n/len(all), 1)
			for round, left := 0, want; left > 0 && !t.Failed(); round++ {
				k := min(left, tortureRound)
				if s.family {
					tortureFamily(t, s, k, round)
				} else {
					torture(t, s, k, round)
				}
				left -= k
				done += k
			}
		})
	}
	t.Logf("%d tasks in pools of %d shapes, each ran exactly once, or was dropped by Close", done, len(all))
}

// torture gives a pool n tasks in every way there is, from several goroutines
// and from tasks, and ends it in one of three ways.
func torture(t *testing.T, s tortureShape, n, round int) {
	stop := keepProcs(s.gomaxprocs)
	defer stop()
	p := newPool(t, shoal.WithMaxWorkers(s.workers), shoal.WithQueueCapacity(s.capacity), shoal.WithIdleTimeout(s.idle),
		shoal.WithPanicHandler(func(*shoal.PanicError) {}))
	y := newTally(n)
	ctx := context.Background()
	ending := round%3 == 1 // tasks may find the pool closed
	var wg sync.WaitGroup
	const submitters = 4
	for u := range submitters {
		wg.Go(func() {
			for i := u; i < n; i += submitters {
				switch i / submitters % 16 {
				case 0: // not blocking, until it is accepted
					for {
						err := p.TrySubmit(y.task(i))
						if y.note(i, err) == nil {
							break
						} else if !errors.Is(err, shoal.ErrQueueFull) {
							t.Errorf("TrySubmit: %v", err)
							return
						}
						runtime.Gosched()
					}
				case 1:
					if y.note(i, p.SubmitContext(ctx, y.taskCtx(i))) != nil {
						t.Error("SubmitContext failed")
					}
				case 2: // two in a batch
					tasks := []func(){y.task(i)}
					j := i + submitters
					if j < n {
						tasks = append(tasks, y.task(j))
					}
					if k, err := p.SubmitBatch(tasks); k != len(tasks) || err != nil {
						t.Errorf("SubmitBatch = %d, %v", k, err)
					}
					y.accept(i)
					if j < n {
						y.accept(j)
						i = j
					}
				case 4: // from a task
					k, j := i, i+submitters
					err := p.Submit(func() {
						y.hit(k)
						if j >= n {
							return
						}
						if err := y.note(j, p.Submit(y.task(j))); err != nil && (!ending || err != shoal.ErrClosed) {
							t.Errorf("Submit from a task: %v", err)
						}
					})
					if y.note(k, err) != nil {
						t.Errorf("Submit: %v", err)
					}
					i = j
				case 6:
					bad := i/submitters/16%8 == 0 // a panic costs as much as twenty tasks
					if y.note(i, p.Submit(func() {
						y.hit(i)
						if bad {
							panic("torture")
						}
					})) != nil {
						t.Error("Submit failed")
					}
				case 7:
					if i%128 < 64 {
						if y.note(i, p.SubmitWait(ctx, func(context.Context) error { y.hit(i); return nil })) != nil {
							t.Error("SubmitWait failed")
						}
						continue
					}
					fallthrough
				default:
					if y.note(i, p.Submit(y.task(i))) != nil {
						t.Error("Submit failed")
					}
				}
			}
		})
	}
	switch round % 3 {
	case 0: // the usual way
		wg.Wait()
		p.Wait()
		y.seal()
		shutClean(t, p)
	case 1: // what is queued is run
		wg.Wait()
		shutClean(t, p)
		y.seal()
	case 2: // Wait all the time
		over := make(chan struct{})
		waiter := inBackground(func() {
			for {
				select {
				case <-over:
					return
				default:
					p.Wait()
					runtime.Gosched() // it returns at once while nothing runs
				}
			}
		})
		wg.Wait()
		close(over)
		<-waiter
		p.Wait()
		y.seal()
		shutClean(t, p)
	}
	if k := y.checkAccepted(t); k != n && !ending {
		t.Errorf("%d of %d tasks were accepted", k, n)
	}
}

// keepProcs sets GOMAXPROCS, or, for 0, changes it all the time, until stop.
func keepProcs(n int) (stop func()) {
	if n > 0 {
		was := runtime.GOMAXPROCS(n)
		return func() { runtime.GOMAXPROCS(was) }
	}
	was := runtime.GOMAXPROCS(0)
	over := make(chan struct{})
	changer := inBackground(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
				runtime.GOMAXPROCS([]int{1, 2, 8, 3}[i%4])
			}
		}
	})
	return func() {
		close(over)
		<-changer
		runtime.GOMAXPROCS(was)
	}
}

// TestTortureAndStops closes pools in the middle of it.
func TestTortureAndStops(t *testing.T) {
	rounds := testpool.Reps(600, 100, 100)
	total := 0
	for round := range rounds {
		s, e := shapes()[round%len(shapes())], endings[round%len(endings)]
		policy := allPolicies[round%len(allPolicies)]
		total += raceEnd(t, []shoal.Option{
			shoal.WithMaxWorkers(s.workers), shoal.WithQueueCapacity(s.capacity), shoal.WithIdleTimeout(s.idle), shoal.WithFullPolicy(policy),
		}, 100, submitPlain, e.name, e.end, policy == shoal.DropOldest)
		if t.Failed() {
			t.Fatalf("in round %d, %v", round, s)
		}
	}
	t.Logf("%d pools closed in the middle of it, %d tasks accepted", rounds, total)
}

// TestTortureEnvironments runs a short torture in processes of their own: with
// a collector that never rests, without asynchronous preemption, and stopped
// and continued by signals.
func TestTortureEnvironments(t *testing.T) {
	if os.Getenv("SHOAL_TORTURE_CHILD") != "" {
		t.Skip("this is the child")
	}
	for _, e := range []struct {
		name string
		env  []string
		stop bool // by SIGSTOP, now and then
	}{
		{"GOGC=1", []string{"GOGC=1"}, false},
		{"asyncpreemptoff", []string{"GODEBUG=asyncpreemptoff=1"}, false},
		{"GOMAXPROCS=1", []string{"GOMAXPROCS=1"}, false},
		{"GOMEMLIMIT", []string{"GOMEMLIMIT=64MiB"}, false},
		{"SIGSTOP", nil, true},
	} {
		t.Run(e.name, func(t *testing.T) {
			if e.stop && !canStop {
				t.Skip("no such signal here")
			}
			n := testpool.Reps(240_000, 24_000, 24_000)
			cmd := again.Command("-test.run=^(TestTorture|TestTortureAndStops)$", "-test.short", fmt.Sprintf("-torture.tasks=%d", n))
			cmd.Env = append(append(cmd.Env, "SHOAL_TORTURE_CHILD=1"), e.env...)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			over := inBackground(func() { cmd.Wait() })
			for i := 0; e.stop && i < 5; i++ {
				select {
				case <-over:
				case <-time.After(20 * time.Millisecond):
					stopAndContinue(t, cmd.Process, 50*time.Millisecond)
				}
			}
			<-over
			if !cmd.ProcessState.Success() || !strings.Contains(out.String(), "PASS") {
				t.Errorf("%v:\n%s", cmd.ProcessState, out.String())
			}
		})
	}
}

// TestHeapAfterManyTasksIsAsAfterAFew: nothing grows with the tasks run.
func TestHeapAfterManyTasksIsAsAfterAFew(t *testing.T) {
	weighs(t)
	p := newPool(t, fixed(2)...)
	defer closeAll(t, p)
	run := func(n int) {
		for range n {
			if p.Submit(func() {}) != nil {
				t.Error("Submit failed")
			}
		}
		p.Wait()
	}
	run(100_000)
	before := heapInUse()
	run(10_000_000) // one byte for nine of them is too much
	if after := heapInUse(); after > before+slack {
		t.Errorf("%d bytes after 10,100,000 tasks, %d after 100,000", after, before)
	}
}
