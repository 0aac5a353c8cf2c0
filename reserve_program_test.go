package shoal

import (
	"context"
	"fmt"
	"math/rand"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/internal/testpool"
)

// TestReserveKeepsItsBooks runs random programs of submissions, tasks of keys, delayed
// ones, reservations and changes of the pool. Whenever everything has settled nobody
// waits for a place while there is one, and the places add up; at the end so does all.
func TestReserveKeepsItsBooks(t *testing.T) {
	programs := testpool.Reps(4000, 400, 150)
	for seed := int64(1); seed <= int64(programs) && !t.Failed(); seed++ {
		reserveProgram(t, seed)
	}
}

func reserveProgram(t *testing.T, seed int64) {
	rnd := rand.New(rand.NewSource(seed))
	synctest.Test(t, func(t *testing.T) {
		pol := []FullPolicy{Block, Reject, DropOldest, CallerRuns, Spawn}[rnd.Intn(5)]
		root, _ := New(WithMaxWorkers(1+rnd.Intn(4)), WithQueueCapacity(rnd.Intn(4)), WithFullPolicy(pol))
		p := root
		if rnd.Intn(3) == 0 {
			p, _ = root.Sub(WithMaxWorkers(1+rnd.Intn(4)), WithQueueCapacity(rnd.Intn(4)), WithFullPolicy(pol))
		}
		k := NewKeyed[int](p)
		var chans []chan struct{}
		var cancels []func()
		var rs []*Reservation
		var log []string
		mk := func() func() {
			if rnd.Intn(3) == 0 {
				return func() {}
			}
			c := make(chan struct{})
			chans = append(chans, c)
			return func() { <-c }
		}
		var lost, ran atomic.Int64
		put := 0
		granted := make(chan *Reservation, 1000)
		for i := 0; i < 60; i++ {
			op := rnd.Intn(14)
			log = append(log, fmt.Sprint(op))
			switch op {
			case 0, 1:
				f := mk()
				go p.Submit(f)
			case 2, 3:
				f := mk()
				key := rnd.Intn(2)
				go k.Submit(key, f)
			case 4:
				f := mk()
				ctx, c := context.WithCancel(context.Background())
				cancels = append(cancels, c)
				go p.SubmitContext(ctx, func(context.Context) { f() })
			case 5:
				if len(cancels) > 0 {
					j := rnd.Intn(len(cancels))
					cancels[j]()
					cancels = append(cancels[:j], cancels[j+1:]...)
				}
			case 6, 7, 8:
				if len(chans) > 0 {
					j := rnd.Intn(len(chans))
					close(chans[j])
					chans = append(chans[:j], chans[j+1:]...)
				}
			case 9:
				n := 1 + rnd.Intn(3)
				ctx, c := context.WithCancel(context.Background())
				cancels = append(cancels, c)
				go func() {
					if r, err := p.Reserve(ctx, n); err == nil {
						granted <- r
					}
				}()
			case 10:
				if len(rs) > 0 {
					j := rnd.Intn(len(rs))
					f := mk()
					ctx, c := context.WithCancel(context.Background())
					cancels = append(cancels, c)
					if rs[j].Submit(ctx, func(context.Context) error { ran.Add(1); f(); return nil }, func(error) { lost.Add(1) }) == nil {
						put++
					}
				}
			case 11:
				if len(rs) > 0 {
					j := rnd.Intn(len(rs))
					rs[j].Release()
					rs = append(rs[:j], rs[j+1:]...)
				}
			case 12:
				if rnd.Intn(2) == 0 {
					p.Resize(0, 1+rnd.Intn(4))
				} else {
					go p.SubmitAfter(time.Duration(rnd.Intn(2)), mk())
				}
			case 13:
				p.Pause()
				if rnd.Intn(2) == 0 {
					synctest.Wait()
				}
				if rnd.Intn(3) > 0 {
					p.Resume()
				}
			}
			if rnd.Intn(3) > 0 {
				time.Sleep(10 * time.Nanosecond)
				synctest.Wait()
				for len(granted) > 0 {
					rs = append(rs, <-granted)
				}
				p.mu.Lock()
				sum := 0
				for r := range p.reservations.m {
					sum += r.n
				}
				if sum != p.reserved {
					t.Errorf("seed %d: reserved %d, sum %d", seed, p.reserved, sum)
				}
				if free := p.freeLocked(); len(p.reservers) > 0 && free > 0 {
					t.Errorf("seed %d op %d %v: %d wait, %d free (pol %v cap %d max %d sub %v)", seed, i, log, len(p.reservers), free, pol, p.capacity, p.max, p.up != nil)
				}
				want := p.stopsTakingLocked() || !p.room.empty() || len(p.reservers) > 0 || p.wanted.Load() > 0 || p.owesLocked()
				if have := p.head.Load()&attention != 0; have != want {
					t.Errorf("seed %d op %d %v: attention is %v, want %v", seed, i, log, have, want)
				}
				p.mu.Unlock()
				if t.Failed() {
					break
				}
			}
		}
		p.Resume()
		for _, c := range chans {
			close(c)
		}
		chans = nil
		time.Sleep(10 * time.Nanosecond)
		synctest.Wait()
		for len(granted) > 0 {
			rs = append(rs, <-granted)
		}
		for _, r := range rs {
			r.Release()
		}
		time.Sleep(10 * time.Nanosecond)
		synctest.Wait()
		for len(granted) > 0 {
			(<-granted).Release()
			time.Sleep(10 * time.Nanosecond)
			synctest.Wait()
		}
		if rnd.Intn(2) == 0 {
			p.Wait()
			if !t.Failed() && int(lost.Load()+ran.Load()) != put {
				t.Errorf("seed %d: put %d, ran %d, lost %d", seed, put, ran.Load(), lost.Load())
			}
		}
		root.Close()
		synctest.Wait()
		if !t.Failed() && int(lost.Load()+ran.Load()) != put {
			t.Errorf("seed %d: put %d, ran %d, lost %d", seed, put, ran.Load(), lost.Load())
		}
		p.mu.Lock()
		if p.reserved != 0 || len(p.reservers) != 0 || p.waiting.Load() != 0 || p.turning != 0 {
			t.Errorf("seed %d: end %d %d %d", seed, p.reserved, len(p.reservers), p.waiting.Load())
		}
		p.mu.Unlock()
	})
}
