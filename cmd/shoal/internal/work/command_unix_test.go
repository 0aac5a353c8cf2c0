//go:build unix

package work

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/shoal-go/shoal/jobs"
)

// TestAnInputIsThereAtOnce, whatever its size.
func TestAnInputIsThereAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, n := range []int{0, 1, 4 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20} {
		want := strings.Repeat("x", n)
		in, err := wholeInput([]byte(want))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(in); err != nil || string(b) != want {
			t.Errorf("%d bytes of %d: %v", len(b), n, err)
		}
		if _, err := in.Write([]byte("x")); err == nil {
			t.Errorf("%d bytes: the command can write its input", n)
		}
		in.Close()
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestAJobThatNoCommandCanHave is not tried again, as it would be for ever.
func TestAJobThatNoCommandCanHave(t *testing.T) {
	path, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	w := Work{Command: []string{"true"}}
	w.Log = slog.New(slog.DiscardHandler)
	ps := &processes{guard: &guard{}, running: make(map[*exec.Cmd]struct{}), ending: make(chan struct{})}
	for name, j := range map[string]*jobs.Job{
		"long type":   {Header: jobs.Header{jobs.TypeHeader: strings.Repeat("x", 8<<20)}},
		"NUL in type": {Header: jobs.Header{jobs.TypeHeader: "a\x00b"}},
		"NUL in ID":   {ID: "a\x00b"},
	} {
		err := w.command(path, ps, &reporter{})(t.Context(), j)
		if !jobs.IsPoison(err) || !strings.Contains(err.Error(), "its ID or type cannot be passed to a command: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatACommandGets: its input cannot be written, the token of the page is not in its
// environment, and what it says when it cannot do the job now is not lost.
func TestWhatACommandGets(t *testing.T) {
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	t.Setenv(TokenEnv, "a token of 16 bytes")
	w := Work{Command: []string{"sh", "-c", `echo "$SHOAL_JOB $SHOAL_TOKEN-" >&2; exit 75`}}
	ps := &processes{guard: &guard{in: os.Stderr}, running: make(map[*exec.Cmd]struct{}), ending: make(chan struct{})}
	if ps.guard.in, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	defer ps.guard.in.Close()
	err = w.command(path, ps, &reporter{})(t.Context(), &jobs.Job{ID: "a"})
	if after, ok := jobs.RetryAfter(err); !ok || after != retryAfter || !strings.HasSuffix(err.Error(), "exit status 75: a -") {
		t.Error(err)
	}
}

// TestAProcessThatHasEnded is not one that cannot be told.
func TestAProcessThatHasEnded(t *testing.T) {
	c := exec.Command("true")
	c.SysProcAttr = ownGroup()
	if err := c.Run(); err != nil {
		t.Skip(err)
	}
	if err := signalGroup(c.Process, syscall.SIGTERM); err != os.ErrProcessDone {
		t.Error(err)
	}
}
