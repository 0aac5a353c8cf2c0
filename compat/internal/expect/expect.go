// Package expect is what the tests of the facades share.
package expect

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/shoal-go/shoal/internal/again"
)

// Equal fails the test if got is not want.
func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Panic returns what f panics with.
func Panic(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// AtMost fails the test if there are more goroutines than that; those that have
// ended, also of other tests, may take a moment to go, and on a busy machine a long one.
// (It cannot sleep: in a bubble of synctest no time would pass.)
func AtMost(t *testing.T, what string, most int) {
	t.Helper()
	n := runtime.NumGoroutine()
	for i := 0; i < 5_000_000 && n > most; i++ {
		runtime.Gosched()
		n = runtime.NumGoroutine()
	}
	if n > most {
		t.Errorf("%s: %d, want %d at most", what, n, most)
	}
}

// Crash fails the test unless a process that runs f dies of a panic with that
// text. The process is the test's own program, started again; it calls Crash, too.
func Crash(t *testing.T, text string, f func()) {
	t.Helper()
	const env = "EXPECT_CRASH"
	if os.Getenv(env) != "" {
		f()
		os.Exit(0)
	}
	c := again.Command("-test.run=^" + t.Name() + "$")
	c.Env = append(c.Env, env+"=1")
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: "+text) {
		t.Errorf("%v\n%s", err, out)
	}
}
