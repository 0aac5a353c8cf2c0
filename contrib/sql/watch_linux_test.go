package shoalsql

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAFileThatIsGoneIsNotWaitedFor: nobody writes to it any more.
func TestAFileThatIsGoneIsNotWaitedFor(t *testing.T) {
	for name, lose := range map[string]func(file string) error{
		"removed": os.Remove,
		"moved":   func(file string) error { return os.Rename(file, file+"2") },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "jobs.db-wal")
			log, err := os.Create(file) // and it stays open
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			w, err := untilWritten(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			if err := lose(file); err != nil {
				t.Fatal(err)
			}
			for w.wait(false) { // for ever, if it is not told
			}
		})
	}
}

// TestAQuietFileIsNotLookedAt: there is a number of looks after a write, and then none until the
// next one.
func TestAQuietFileIsNotLookedAt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db-wal")
	if _, err := untilWritten(t.Context(), file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a file that is not there: %v", err)
	}
	write := func() {
		if err := os.WriteFile(file, []byte("a commit"), 0o600); err != nil {
			t.Error(err)
		}
	}
	write()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := untilWritten(ctx, file)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	looks := make(chan bool)
	go func() {
		for w.wait(false) {
			looks <- true
		}
		close(looks)
	}()
	for pause := firstLook; pause < lastLook; pause += pause / 2 {
		<-looks
	}
	select {
	case <-looks:
		t.Error("one more look than there is reason for")
	case <-time.After(2 * lastLook):
	}
	write()
	<-looks // as it was written
	<-looks // as the commit may not have been there
	cancel()
	for range looks {
	}
}
