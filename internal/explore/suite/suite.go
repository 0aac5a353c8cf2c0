// Package suite runs models as tests. Its flags belong to go test:
//
//	go test -tags poolsim -run TestExplore ./internal/kernel       every schedule of every model
//	go test -tags poolsim -run TestExplore ./internal/kernel -explore.random 100000 -explore.seed 7
//	go test -tags poolsim -run TestExplore ./internal/kernel -explore.most 10000
//	go test -tags poolsim -run 'TestExplore/close/Submit_and_Close' ./internal/kernel -explore.replay '0*31 2*4 1'
package suite

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shoal-go/shoal/internal/explore"
)

var (
	replay = flag.String("explore.replay", "", "repeat this one `schedule` of the model that -run names")
	random = flag.Int("explore.random", 0, "instead of all schedules, this many at random, and as many by PCT")
	seed   = flag.Uint64("explore.seed", 1, "for -explore.random")
	claim  = flag.String("explore.claim", "", "share the models with other processes that are given the same empty `folder`")
	most   = flag.Int("explore.most", 0, "leave a model after this many schedules, and run half as many at random, and by PCT (0: run all)")
	night  = flag.Bool("explore.night", false, "with the Night bound of the models that have one")
	limit  = flag.Duration("explore.time", 0, "leave a model after that time (0: never)")
)

// A Model is a small concurrent program.
type Model struct {
	Name  string
	Bound int      // the most preemptions; 0: all schedules
	Night int      // the same for -explore.night; 0: Bound
	Reach []string // places that some schedule must come to
	Run   func(m *explore.M)
}

// modes are what m is explored by, one after the other. If that may end early, schedules with few
// preemptions come first: most faults need no more, and there are not many of these.
func (m *Model) modes() (all []explore.Mode) {
	if *random > 0 {
		return []explore.Mode{explore.Random(*random, *seed), explore.PCT(*random, 3, *seed)}
	}
	bound, last := m.Bound, explore.All()
	if *night && m.Night > 0 {
		bound = m.Night
	}
	few := 3
	if bound > 0 {
		few, last = bound, explore.Bound(bound)
	}
	if *most > 0 || *limit > 0 {
		for n := 1; n < few; n++ {
			all = append(all, explore.Bound(n))
		}
	}
	return append(all, last)
}

// Test explores all models, each as a subtest, and says at the end how much
// that was.
func Test(t *testing.T, models []Model) {
	schedules, faults, ran, left := 0, 0, 0, 0
	for i := range models {
		m := &models[i]
		if *claim != "" {
			f, err := os.OpenFile(filepath.Join(*claim, fmt.Sprint(i)), os.O_CREATE|os.O_EXCL, 0o666)
			if errors.Is(err, os.ErrExist) {
				continue // another process has it
			} else if err != nil {
				t.Fatalf("-explore.claim: %v", err)
			}
			f.Close()
		}
		t.Run(m.Name, func(t *testing.T) {
			if *replay != "" {
				f, err := explore.Replay(m.Run, *replay)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(f.Error())
				return
			}
			ran++
			n, complete, ok := m.test(t)
			schedules += n
			if !complete {
				left++
			}
			if !ok {
				faults++
			}
		})
	}
	if *replay == "" {
		fmt.Printf("explored: %d models, %d schedules, %d faults\n", ran, schedules, faults)
		fmt.Printf("not to the end: %d models\n", left)
	}
}

// test explores m and reports how many schedules that took, whether they are all
// that modes tells of, and whether none of them failed.
func (m *Model) test(t *testing.T) (schedules int, complete, ok bool) {
	reached := map[string]int{}
	complete = true
	modes := m.modes()
	last := len(modes) - 1 // the one that has all schedules
	if *random > 0 {
		last = -1 // none has
	}
	left := explore.Limits{Schedules: *most, Time: *limit}
	for i := 0; i < len(modes); i++ {
		mode := modes[i]
		begun := time.Now()
		limits := explore.Limits{Time: *limit} // of what is drawn
		if i <= last {
			limits = explore.Limits{Schedules: share(*most, left.Schedules, last-i), Time: share(*limit, left.Time, last-i)}
		}
		r := explore.Explore(m.Run, mode, limits)
		schedules += r.Schedules
		left.Schedules -= r.Schedules
		left.Time -= time.Since(begun)
		if r.Failure != nil {
			f, err := explore.Replay(m.Run, r.Failure.Replay)
			if err != nil || f.Why != r.Failure.Why {
				t.Errorf("the replay differs: %v, %v", f, err)
			}
			t.Errorf("%v: schedule %d fails: %s\nreplay: go test -tags poolsim -run '%s' -explore.replay '%s'\n%s",
				mode, schedules, r.Failure.Why, t.Name(), r.Failure.Replay, f.Trace)
			return schedules, complete, false
		}
		took := time.Since(begun).Round(time.Millisecond)
		switch {
		case r.Complete:
		case i < last: // the next one has these too
		case limits.Schedules > 0 && r.Schedules >= limits.Schedules:
			complete = false
			modes = append(modes, explore.Random(*most/2+1, *seed), explore.PCT(*most/2+1, 3, *seed))
		case limits.Time > 0:
			complete = false // that is no fault: a mutant must not be killed by it
		default:
			t.Errorf("%v: not complete after %d schedules in %v", mode, r.Schedules, took)
		}
		for place, n := range r.Reached {
			reached[place] += n
		}
		if i < last {
			continue
		}
		t.Logf("%v: %d schedules of %d threads and up to %d steps, %d more cut short, %v", mode, r.Schedules, r.Threads, r.Longest, r.Cut, took)
	}
	for _, place := range m.Reach {
		if reached[place] == 0 && complete {
			t.Errorf("no schedule comes to: %s", place)
		}
	}
	return schedules, complete, true
}

// share is what may be used of left, if others come after; without a limit it is 0.
func share[T int | time.Duration](limit, left T, others int) T {
	if limit == 0 {
		return 0
	}
	return max(1, left/T(others+1))
}
