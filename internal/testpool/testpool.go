// Package testpool is what tests of pools share, in whatever package they are. None of it
// sleeps, retries or reads a clock.
package testpool

import (
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/shoal-go/shoal/internal/kernel"
)

// Reps is how often a test is to do something: so often under the race detector, and so
// often with -short.
func Reps(n, race, short int) int {
	switch {
	case testing.Short():
		return short
	case Race:
		return race
	}
	return n
}

// A goroutine belongs to a pool if the function it began in, or the one that
// started it, is of package shoal or of one below internal; no test is.
var (
	beganInPool   = regexp.MustCompile(`^github\.com/shoal-go/shoal(/internal/\w+)?\.`)
	createdByPool = regexp.MustCompile(`(?m)^created by github\.com/shoal-go/shoal(/internal/\w+)?\.`)
	goroutineHead = regexp.MustCompile(`^goroutine (\d+) .*\[(\w+)`)
)

// A goroutine cannot say that it is gone, only that it is about to be: when the
// last act of a worker, to count itself out, has had its effect, a few
// instructions are left, and the world may stop there. Such a goroutine can do
// nothing any more and is no leak. It is told by having, beside the runtime's
// frames, no other than these, and by having begun: a new goroutine's entry
// has no offset.
var (
	departing = regexp.MustCompile(`^(runtime|sync|internal/sync|internal/runtime/\w+)\.` +
		`|^github\.com/shoal-go/shoal/internal/kernel\.\(\*Worker\)\.(main|main-fm|end|end\.func1|end\.deferwrap\d|resume)\(` +
		`|^github\.com/shoal-go/shoal/internal/kernel\.\(\*Crew\)\.leave\(` +
		`|^github\.com/shoal-go/shoal/internal/kernel\.\(\*Lane\)\.(Release|ring|(\w+\.\(\*Lane\)\.)?later\.func1|Follow\.func1|set\.func1|Go\.func\d|Go\.func\d\.deferwrap1)\(` +
		`|^github\.com/shoal-go/shoal/internal/kernel\.\(\*Delayed\)\.(due|due-fm)\(` +
		`|^github\.com/shoal-go/shoal\.follow\.func\d(\.deferwrap\d)?\(` +
		`|^github\.com/shoal-go/shoal/internal/sy\.`)
	offset = regexp.MustCompile(`\+0x[0-9a-f]+$`)
)

var reported struct {
	sync.Mutex
	ids map[string]bool
}

// Goroutines returns the stacks of all goroutines that belong to a pool, by
// id. It stops the world, so it sees one moment.
func Goroutines() map[string]string {
	buf := make([]byte, 1<<16)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	found := make(map[string]string)
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		head := goroutineHead.FindStringSubmatch(stack)
		if head == nil {
			continue
		}
		frames, _, _ := strings.Cut(stack, "\ncreated by ")
		began, at, dead := "", "", false
		gone := head[2] == "runnable" || head[2] == "running" || head[2] == "preempted"
		for _, line := range strings.Split(strings.TrimSpace(frames), "\n")[1:] {
			switch {
			case strings.HasPrefix(line, "runtime.goexit("): // below the first function
			case line[0] == '\t':
				if !strings.Contains(line, "/runtime/asm_") {
					at = line
				}
			default:
				began = line
				dead = dead || strings.HasPrefix(line, "runtime.Goexit(") // what it left
				gone = gone && (dead || departing.MatchString(line))
			}
		}
		if !beganInPool.MatchString(began) && !createdByPool.MatchString(stack) {
			continue
		}
		if gone && offset.MatchString(at) {
			continue
		}
		found[head[1]] = stack
	}
	return found
}

// NoGoroutines fails the test if any goroutine of any pool exists at the
// moment of the call. It neither waits nor looks twice. A goroutine is
// reported once, so that a leak does not fail the tests that come later. Tests
// that use it must not run in parallel with others.
func NoGoroutines(t testing.TB, when ...string) {
	t.Helper()
	for _, stack := range NewGoroutines() {
		t.Errorf("%s: a goroutine of the pool exists:\n%s", strings.Join(append(when, "now"), ", "), stack)
	}
}

// NewGoroutines is Goroutines without those it returned before.
func NewGoroutines() (stacks []string) {
	reported.Lock()
	defer reported.Unlock()
	if reported.ids == nil {
		reported.ids = make(map[string]bool)
	}
	for id, stack := range Goroutines() {
		if !reported.ids[id] {
			reported.ids[id] = true
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// InBubble runs f in a testing/synctest bubble. In there [synctest.Wait] says
// when everybody else is parked, so "it blocks" is something that a test can
// see. A deadlock fails the test, with the stacks of the pool's goroutines,
// instead of ending the process.
func InBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%v\n%s", r, strings.Join(NewGoroutines(), "\n\n"))
		}
	}()
	synctest.Test(t, f)
}

// Lane is the lane of pool, a *shoal.Pool, for tests that look into it.
func Lane(pool any) *kernel.Lane { return (*kernel.Lane)(Field(pool, "lane").Addr().UnsafePointer()) }

// Field is the field of what a pointer points to.
func Field(of any, name string) reflect.Value { return reflect.ValueOf(of).Elem().FieldByName(name) }

// FirstTicket makes the pools that f makes begin with that ticket, as if they had run for long.
func FirstTicket(first uint64, f func()) {
	kernel.FirstTicket = first
	defer func() { kernel.FirstTicket = 0 }()
	f()
}
