//go:build unix

package work

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
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
	ps := &processes{running: make(map[*exec.Cmd]struct{}), ending: make(chan struct{})}
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
