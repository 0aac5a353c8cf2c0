package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alitto/pond"
	compatpond "github.com/shoal-go/shoal/compat/pond"
)

// A pondPool is a pool of pond, or of the facade that stands for it.
type pondPool interface {
	Submit(task func())
	TrySubmit(task func()) bool
	SubmitAndWait(task func())
	RunningWorkers() int
	IdleWorkers() int
	SubmittedTasks() uint64
	WaitingTasks() uint64
	SuccessfulTasks() uint64
	FailedTasks() uint64
	CompletedTasks() uint64
	StopAndWait()
}

// Nobody waits for the group: pond's Wait leaves a goroutine behind if the context ends.
type pondGroup interface{ Submit(task func() error) }

// A pondKind makes the same pool of either package.
type pondKind struct {
	new   func(workers, capacity int, strategy func(running int) bool) pondPool
	group func(p pondPool, ctx context.Context) pondGroup
}

type pondStrategy func(running int) bool

func (s pondStrategy) Resize(running, _, _ int) bool { return s(running) }

var pondKinds = [2]pondKind{{
	func(workers, capacity int, strategy func(int) bool) pondPool {
		return pond.New(workers, capacity, pond.Strategy(pondStrategy(strategy)), pond.PanicHandler(func(any) {}))
	},
	func(p pondPool, ctx context.Context) pondGroup {
		g, _ := p.(*pond.WorkerPool).GroupContext(ctx)
		return g
	},
}, {
	func(workers, capacity int, strategy func(int) bool) pondPool {
		return compatpond.New(workers, capacity, compatpond.Strategy(pondStrategy(strategy)), compatpond.PanicHandler(func(any) {}))
	},
	func(p pondPool, ctx context.Context) pondGroup {
		g, _ := p.(*compatpond.WorkerPool).GroupContext(ctx)
		return g
	},
}}

// TestPondCountsAsPond runs the same program on pond and on its facade, and compares
// what the pools say after each of its steps.
func TestPondCountsAsPond(t *testing.T) {
	boom := errors.New("boom")
	for name, program := range map[string]func(k pondKind, at func(p pondPool, step string, more ...any)){
		"a strategy that bounds": func(k pondKind, at func(pondPool, string, ...any)) {
			var asked []int
			p := k.new(20, 5, func(running int) bool { asked = append(asked, running); return running < 3 })
			for i := range 9 {
				at(p, "TrySubmit", i, p.TrySubmit(func() { time.Sleep(time.Second) }))
			}
			time.Sleep(1500 * time.Millisecond)
			at(p, "later", asked)
			p.SubmitAndWait(func() {})
			at(p, "one more", asked)
			time.Sleep(time.Minute)
			p.SubmitAndWait(func() { panic("so") })
			at(p, "after a minute")
			p.StopAndWait()
			at(p, "stopped")
		},
		"a strategy with a rate": func(k pondKind, at func(pondPool, string, ...any)) {
			n := 0
			p := k.new(20, 20, func(running int) bool { n++; return n%3 == 1 })
			for i := range 20 {
				p.Submit(func() { time.Sleep(time.Hour) })
				at(p, "Submit", i, n)
			}
			p.StopAndWait()
			at(p, "stopped")
		},
		"a group whose context ends": func(k pondKind, at func(pondPool, string, ...any)) {
			p := k.new(1, 10, func(running int) bool { return true })
			ctx, cancel := context.WithCancel(context.Background())
			g := k.group(p, ctx)
			p.Submit(func() { time.Sleep(time.Second) })
			for range 3 {
				g.Submit(func() error { return nil })
			}
			at(p, "queued")
			cancel()
			g.Submit(func() error { return nil })
			at(p, "ended")
			time.Sleep(2 * time.Second)
			at(p, "later")
			p.StopAndWait()
			at(p, "stopped")
		},
		"a group that fails": func(k pondKind, at func(pondPool, string, ...any)) {
			p := k.new(2, 10, func(running int) bool { return true })
			g := k.group(p, context.Background())
			g.Submit(func() error { time.Sleep(time.Second); return boom })
			g.Submit(func() error { time.Sleep(3 * time.Second); return nil })
			for range 3 {
				g.Submit(func() error { time.Sleep(time.Second); return nil })
			}
			time.Sleep(2 * time.Second)
			at(p, "ended")
			g.Submit(func() error { return nil })
			time.Sleep(time.Minute)
			at(p, "later")
			p.StopAndWait()
			at(p, "stopped")
		},
	} {
		t.Run(name, func(t *testing.T) { comparePonds(t, program) })
	}
	for seed := range uint64(200) {
		comparePonds(t, func(k pondKind, at func(pondPool, string, ...any)) {
			anyPondProgram(rand.New(rand.NewPCG(seed, 0)), k, at)
		})
	}
}

// comparePonds runs program on pond and on its facade, and compares what they say.
func comparePonds(t *testing.T, program func(k pondKind, at func(p pondPool, step string, more ...any))) {
	t.Helper()
	var said [len(pondKinds)][]string
	for i, k := range pondKinds {
		synctest.Test(t, func(t *testing.T) {
			program(k, func(p pondPool, step string, more ...any) {
				synctest.Wait()
				said[i] = append(said[i], fmt.Sprintf("%s %v: %d running, %d idle, %d submitted, %d waiting, %d successful, %d failed, %d completed", step, more,
					p.RunningWorkers(), p.IdleWorkers(), p.SubmittedTasks(), p.WaitingTasks(), p.SuccessfulTasks(), p.FailedTasks(), p.CompletedTasks()))
			})
		})
	}
	for i, want := range said[0] {
		if got := said[1][i]; got != want {
			t.Fatalf("%s; pond: %s", got, want)
		}
	}
}

// anyPondProgram submits tasks, some of them of a group, and ends the group's context. The queue
// takes all of them, the program takes less time than idle workers live, and no two tasks end at once.
func anyPondProgram(r *rand.Rand, k pondKind, at func(p pondPool, step string, more ...any)) {
	bound := 1 + r.IntN(5)
	p := k.new(1+r.IntN(6), 100, func(running int) bool { return running < bound })
	ctx, cancel := context.WithCancel(context.Background())
	g := k.group(p, ctx)
	for i := range 25 {
		d := time.Duration(1+r.IntN(50))*time.Millisecond + time.Duration(i)*time.Microsecond
		switch r.IntN(10) {
		case 0, 1:
			at(p, "TrySubmit", p.TrySubmit(func() { time.Sleep(d) }))
		case 2:
			p.Submit(func() { time.Sleep(d); panic("so") })
			at(p, "a panic")
		case 3, 4, 5:
			g.Submit(func() error { time.Sleep(d); return nil })
			at(p, "a task of the group")
		case 6:
			if r.IntN(3) > 0 {
				g.Submit(func() error { time.Sleep(d); return errors.New("boom") })
				at(p, "a task of the group that fails")
				continue
			}
			cancel()
			at(p, "the context ends")
			ctx, cancel = context.WithCancel(context.Background())
			g = k.group(p, ctx)
		default:
			time.Sleep(d)
			at(p, "later", d)
		}
	}
	p.StopAndWait()
	at(p, "stopped")
	cancel()
}
