//go:build unix

package work

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
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
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	w := Work{Command: []string{"sh", "-c", script}, Place: Place{Log: slog.New(slog.DiscardHandler)}}
	ps := &processes{guard: &guard{in: null}, running: make(map[*exec.Cmd]struct{}), ending: make(chan struct{})}
	return w.command(path, ps, &reporter{}), ps
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

// stopped is a guard that does not read, behind a full pipe.
func stopped(t *testing.T) *guard {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); in.Close() })
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
	return &guard{in: in, waits: time.Hour, kill: out.Close}
}

// TestAStoppedGuard keeps commands from their start, but no signal from those that run.
func TestAStoppedGuard(t *testing.T) {
	h, ps := sh(t, "sleep 60")
	ps.guard = stopped(t)
	ended := make(chan error, 1)
	go func() { ended <- h(t.Context(), &jobs.Job{}) }()
	for i, runs := 0, false; !runs; i++ {
		if ps.mu.TryLock() {
			runs = len(ps.running) > 0
			ps.mu.Unlock()
		}
		if i == 3000 {
			t.Fatal("no signal can be passed on")
		}
		time.Sleep(10 * time.Millisecond)
	}
	ps.tell(syscall.SIGKILL)
	ps.guard.in.Close() // as guard.close does
	if err := <-ended; !errors.Is(err, jobs.ErrStopped) {
		t.Error(err)
	}
}

// TestAGuardThatStaysStopped is killed, which ends the work, and the commands end as they should.
func TestAGuardThatStaysStopped(t *testing.T) {
	h, ps := sh(t, "exit 7")
	ps.guard = stopped(t)
	ps.guard.waits = time.Millisecond
	killed, kill := 0, ps.guard.kill
	ps.guard.kill = func() error { killed++; return kill() }
	if err := h(t.Context(), &jobs.Job{}); err == nil || err.Error() != "exit status 7" || killed != 1 {
		t.Errorf("%v; the guard was killed %d times", err, killed)
	}
}
