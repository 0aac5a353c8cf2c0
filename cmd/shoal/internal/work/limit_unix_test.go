//go:build unix

package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// sh is a handler that runs a shell script, and the processes of it.
func sh(t *testing.T, script string) (jobs.Handler, *processes) {
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	w := Work{Command: []string{"sh", "-c", script}, Place: Place{Log: slog.New(slog.DiscardHandler)}}
	ps := alone(t)
	return w.command(path, ps, &reporter{}), ps
}

// alone are processes that no guard knows, though it is told.
func alone(t *testing.T) *processes {
	g := &guard{waits: time.Hour, kill: func() error { return nil }, over: make(chan struct{})}
	var err error
	if g.leader, err = exec.LookPath("true"); err != nil {
		t.Skip(err)
	}
	if g.in, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	close(g.over)
	t.Cleanup(g.close)
	return &processes{guard: g, running: make(map[*exec.Cmd]struct{}), ending: make(chan struct{})}
}

// TestACommandThatASignalHasEndedInTime has not exceeded its time limit, though it is not known for a
// while who sent the signal. The clock stands still while the command runs.
func TestACommandThatASignalHasEndedInTime(t *testing.T) {
	for _, limit := range []time.Duration{time.Nanosecond, time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := sh(t, "exit 143")
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, jobs.ErrTimeLimit)
			defer cancel()
			start := time.Now()
			err := h(ctx, &jobs.Job{})
			if context.Cause(ctx) != nil || err == nil || err.Error() != "exit status 143" {
				t.Errorf("limit %v: %v, %v", limit, err, context.Cause(ctx))
			}
			if d := time.Since(start); d > signalApart || limit > signalApart*2 && d != signalApart {
				t.Errorf("limit %v: it has waited for %v", limit, d)
			}
		})
	}
}

// TestAJobThatHasEndedBeforeItsCommand starts has failed by that. It was tried again for ever.
func TestAJobThatHasEndedBeforeItsCommand(t *testing.T) {
	h, _ := sh(t, ":")
	for _, cause := range []error{jobs.ErrTimeLimit, jobs.ErrStopped, jobs.ErrLeaseLost} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := h(ctx, &jobs.Job{})
		if _, again := jobs.RetryAfter(err); again || !errors.Is(err, cause) {
			t.Errorf("%v, want %v", err, cause)
		}
	}
}

// TestANamedPipeIsNotSummed: to open it would wait for its writer.
func TestANamedPipeIsNotSummed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := sumOf(t.Context(), file); !jobs.IsPoison(err) {
		t.Error(err)
	}
}

// TestAMissingCommandSaysWhy, also if the reason wraps nothing.
func TestAMissingCommandSaysWhy(t *testing.T) {
	for want, err := range map[string]error{
		`the command "x" cannot be run: broken`:            errors.New("broken"),
		`the command "x" cannot be run: permission denied`: &os.PathError{Op: "open", Path: "x", Err: syscall.EACCES},
	} {
		if s := (&Missing{"x", err}).Error(); s != want {
			t.Errorf("%s, want %s", s, want)
		}
	}
}

// stop puts a full pipe between ps and its guard.
func stop(t *testing.T, ps *processes) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	for b := make([]byte, 64<<10); err == nil; { // what fits, down to a byte
		err = in.SetWriteDeadline(time.Now().Add(time.Millisecond))
		if err == nil {
			_, err = in.Write(b)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && len(b) > 1 {
			b, err = b[:1], nil
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	ps.guard.in.Close()
	ps.guard.in, ps.guard.waits, ps.guard.kill = in, time.Hour, out.Close
}

// TestAStoppedGuard keeps commands from their start, but no signal from those that run.
func TestAStoppedGuard(t *testing.T) {
	h, ps := sh(t, "sleep 60")
	ended := make(chan error, 2)
	handle := func() { ended <- h(t.Context(), &jobs.Job{}) }
	await := func(what string, there func() bool) {
		t.Helper()
		for range 3000 {
			if there() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("waited in vain for %s", what)
	}
	go handle()
	await("the first command", func() bool {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		return len(ps.running) == 1
	})
	stop(t, ps)
	go handle()
	await("the second one to tell the guard", func() bool {
		if ps.guard.mu.TryLock() {
			ps.guard.mu.Unlock()
			return false
		}
		return true
	})
	ps.tell(syscall.SIGKILL)
	ps.guard.in.Close() // as guard.close does
	for range 2 {
		if err := <-ended; !errors.Is(err, jobs.ErrStopped) {
			t.Error(err)
		}
	}
}

// TestAGuardThatStaysStopped is killed, which ends the work, and the commands end as they should.
func TestAGuardThatStaysStopped(t *testing.T) {
	h, ps := sh(t, "exit 7")
	stop(t, ps)
	ps.guard.waits = time.Millisecond
	killed, kill := 0, ps.guard.kill
	ps.guard.kill = func() error { killed++; return kill() }
	if err := h(t.Context(), &jobs.Job{}); err == nil || err.Error() != "exit status 7" || killed != 1 {
		t.Errorf("%v; the guard was killed %d times", err, killed)
	}
}

// TestAGroupIsOneCommandsAtATime: a second command at once has another one, and one after it the same.
// It is no other process's before the work ends.
func TestAGroupIsOneCommandsAtATime(t *testing.T) {
	g := alone(t).guard
	take := func() int {
		t.Helper()
		group, err := g.take()
		if err != nil {
			t.Fatal(err)
		}
		return group
	}
	a, b := take(), take()
	if a == b {
		t.Errorf("both are in group %d", a)
	}
	g.give(a)
	if c := take(); c != a {
		t.Errorf("%d is new, want %d", c, a)
	}
	g.leader = filepath.Join(t.TempDir(), "missing")
	g.give(b)
	take()
	if _, err := g.take(); err == nil || !strings.HasPrefix(err.Error(), "no process group can be made: ") || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, which would be taken for a missing command", err)
	}
	for _, group := range []int{a, b} {
		if !slices.ContainsFunc(g.leaders, func(c *exec.Cmd) bool { return c.Process.Pid == group && c.ProcessState == nil }) {
			t.Errorf("group %d is not held", group)
		}
	}
}

// TestTheGuardKnowsTheGroupFirst: whenever this process is killed, none of its commands escapes. So the
// guard knows the group of one that did not even start.
func TestTheGuardKnowsTheGroupFirst(t *testing.T) {
	ps := alone(t)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ps.guard.in.Close()
	ps.guard.in = in
	c := exec.CommandContext(t.Context(), filepath.Join(t.TempDir(), "missing"))
	if _, err := ps.run(t.Context(), c, func(int) {}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	_ = out.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := out.Read(b)
	if want := fmt.Sprintln(c.SysProcAttr.Pgid); err != nil || c.SysProcAttr.Pgid <= 1 || string(b[:n]) != want {
		t.Errorf("the guard knows %q (%v), want %q", b[:n], err, want)
	}
}
