package work

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoal-go/shoal/jobs"
)

// TestWhatCannotBeSummed: a device may have no end, and a job whose time is over is not read on.
func TestWhatCannotBeSummed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := Work{Do: "sha256"}.builtin(&reporter{out: new(bytes.Buffer)})
	for _, name := range []string{dir, os.DevNull, filepath.Join(dir, "none")} {
		if err := h(t.Context(), &jobs.Job{Data: []byte(name)}); !jobs.IsPoison(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := h(ctx, &jobs.Job{Data: []byte(file)}); err != nil {
		t.Error(err)
	}
	cancel(jobs.ErrTimeLimit)
	if err := h(ctx, &jobs.Job{Data: []byte(file)}); !errors.Is(err, jobs.ErrTimeLimit) || jobs.IsPoison(err) {
		t.Errorf("after the time limit: %v", err)
	}
}
