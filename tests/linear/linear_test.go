package linear

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shoal-go/shoal"
)

var (
	histories = flag.Int("histories", 20_000, "how many are recorded and checked")
	seed      = flag.Uint64("seed", 1, "of the histories")
)

// An input is an operation, of a task if it has one.
type input struct {
	op   string // submit, start, end, wait, close
	task int8
}

// state is that of the simple queue. It is a value that can be compared.
type state struct {
	queue   [16]int8 // tasks that wait, in order
	n       int8
	running uint16 // a bit for each
	busy    int8
	closed  bool
}

// model is a queue of a bound with some workers.
func model(workers, capacity int8) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, in, out any) (bool, any) {
			st, i := s.(state), in.(input)
			switch i.op {
			case "submit":
				switch err, _ := out.(error); {
				case errors.Is(err, shoal.ErrClosed):
					return st.closed, st
				case errors.Is(err, shoal.ErrQueueFull):
					return !st.closed && st.n+st.busy >= workers+capacity, st
				}
				if st.closed || st.n+st.busy >= workers+capacity {
					return false, st
				}
				st.queue[st.n] = i.task
				st.n++
			case "start":
				if st.n == 0 || st.queue[0] != i.task || st.busy >= workers {
					return false, st
				}
				copy(st.queue[:], st.queue[1:])
				st.n--
				st.queue[st.n] = 0
				st.running |= 1 << i.task
				st.busy++
			case "end":
				if st.running&(1<<i.task) == 0 {
					return false, st
				}
				st.running &^= 1 << i.task
				st.busy--
			case "wait":
				return st.n == 0 && st.busy == 0, st
			case "close":
				st.closed = true
			}
			return true, st
		},
		DescribeOperation: func(in, out any) string {
			i := in.(input)
			if err, ok := out.(error); ok {
				return fmt.Sprintf("%s(%d): %v", i.op, i.task, err)
			}
			return fmt.Sprintf("%s(%d)", i.op, i.task)
		},
	}
}

// A recorder writes down a history. Its clock is a counter.
type recorder struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (r *recorder) now() int64 { return r.clock.Add(1) }

func (r *recorder) add(client int, in input, call int64, out any, ret int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: ret})
}

// tasks of one history.
const tasks = 12

// record runs a pool for a moment: goroutines that submit tasks without
// waiting for capacity, one that waits for them, and one that ends the pool.
func record(rng *rand.Rand, workers, capacity int) []porcupine.Operation {
	p := shoal.Must(shoal.New(shoal.WithMaxWorkers(workers), shoal.WithMinWorkers(rng.IntN(workers+1)),
		shoal.WithQueueCapacity(capacity), shoal.WithFullPolicy(shoal.Reject), shoal.WithTiming(shoal.TimingOff)))
	r := new(recorder)
	var wg sync.WaitGroup
	const submitters = 3
	pauses := make([]int, tasks)
	for i := range pauses {
		pauses[i] = rng.IntN(4)
	}
	early := rng.IntN(2) == 0
	for u := range submitters {
		wg.Go(func() {
			for i := u; i < tasks; i += submitters {
				task := int8(i)
				for range pauses[i] {
					runtime.Gosched()
				}
				call := r.now()
				err := p.Submit(func() {
					began := r.now()
					r.add(100+i, input{"start", task}, call, nil, began)
					for range pauses[tasks-1-i] {
						runtime.Gosched()
					}
					// When its place is free again nobody outside can tell.
					r.add(200+i, input{"end", task}, r.now(), nil, math.MaxInt64)
				})
				r.add(u, input{"submit", task}, call, err, r.now())
			}
		})
	}
	wg.Go(func() {
		for range 2 {
			call := r.now()
			p.Wait()
			r.add(50, input{"wait", 0}, call, nil, r.now())
		}
	})
	shut := func() {
		call := r.now()
		err := p.Shutdown(context.Background())
		r.add(51, input{"close", 0}, call, err, r.now())
	}
	if early {
		wg.Go(shut)
		wg.Wait()
	} else {
		wg.Wait()
		shut()
	}
	last := r.now()
	for i := range r.ops {
		r.ops[i].Return = min(r.ops[i].Return, last)
	}
	return r.ops
}

func check(t *testing.T, workers, capacity int, ops []porcupine.Operation) porcupine.CheckResult {
	t.Helper()
	return porcupine.CheckOperationsTimeout(model(int8(workers), int8(capacity)), ops, 20*time.Second)
}

func TestHistoriesAreLinearizable(t *testing.T) {
	unknown, refused, closed, ops := 0, 0, 0, 0
	for i := range *histories {
		rng := rand.New(rand.NewPCG(*seed, uint64(i)))
		workers, capacity := 1+rng.IntN(3), rng.IntN(4)
		h := record(rng, workers, capacity)
		ops += len(h)
		for _, o := range h {
			switch err, _ := o.Output.(error); {
			case errors.Is(err, shoal.ErrQueueFull):
				refused++
			case errors.Is(err, shoal.ErrClosed):
				closed++
			}
		}
		switch check(t, workers, capacity, h) {
		case porcupine.Illegal:
			slices.SortFunc(h, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			t.Fatalf("history %d of seed %d, %d workers, capacity %d: there is no order of\n%v", i, *seed, workers, capacity, h)
		case porcupine.Unknown:
			unknown++
		}
	}
	t.Logf("seed %d: %d histories, %d operations (%d refused, %d after the end), %d too hard to check", *seed, *histories, ops, refused, closed, unknown)
	if refused == 0 || closed == 0 || unknown > *histories/100 {
		t.Error("these histories show nothing")
	}
}

// TestBrokenHistoriesAreNot: the check can fail.
func TestBrokenHistoriesAreNot(t *testing.T) {
	op := func(op string, task int8, out error, call, ret int64) porcupine.Operation {
		return porcupine.Operation{Input: input{op, task}, Call: call, Output: out, Return: ret}
	}
	for name, h := range map[string][]porcupine.Operation{
		"one too many": {
			op("submit", 0, nil, 1, 2), op("submit", 1, nil, 3, 4), op("submit", 2, nil, 5, 6),
			op("start", 0, nil, 7, 8), op("end", 0, nil, 9, 10),
		},
		"one too few": {op("submit", 0, nil, 1, 2), op("submit", 1, shoal.ErrQueueFull, 3, 4)},
		"out of turn": {
			op("submit", 0, nil, 1, 2), op("submit", 1, nil, 3, 4), op("start", 1, nil, 3, 5), op("end", 1, nil, 6, 9), op("start", 0, nil, 1, 8),
		},
		"run twice": {
			op("submit", 0, nil, 1, 2), op("start", 0, nil, 1, 3), op("end", 0, nil, 4, 9), op("start", 0, nil, 1, 6),
		},
		"accepted after the end": {op("close", 0, nil, 1, 2), op("submit", 0, nil, 3, 4)},
		"two at once on one worker": {
			op("submit", 0, nil, 1, 2), op("submit", 1, nil, 3, 4), op("start", 0, nil, 5, 6), op("start", 1, nil, 7, 8),
			op("end", 0, nil, 9, 20), op("end", 1, nil, 10, 20),
		},
		"Wait too early": {op("submit", 0, nil, 1, 2), op("wait", 0, nil, 3, 4), op("start", 0, nil, 1, 5), op("end", 0, nil, 6, 9)},
	} {
		if got := check(t, 1, 1, h); got != porcupine.Illegal {
			t.Errorf("%s: %v", name, got)
		}
	}
}
