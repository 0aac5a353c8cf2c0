package natstest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	shoalnats "github.com/shoal-go/shoal/contrib/nats"
	"github.com/shoal-go/shoal/internal/smalldisk"
	"github.com/shoal-go/shoal/jobs"
)

const smallDisk = 16 << 20

// fillUp enqueues jobs until that fails, and returns how many were confirmed, and why no
// more were. Each is n bytes.
func fillUp(t *testing.T, q *shoalnats.Queue, n int) (confirmed int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for confirmed < 4*smallDisk/n {
		if err := q.Enqueue(ctx, jobs.Message{ID: fmt.Sprint(confirmed), Data: bytes.Repeat([]byte{byte(confirmed)}, n)}); err != nil {
			return confirmed, err
		}
		confirmed++
	}
	t.Fatalf("%d jobs of %d bytes are on a disk of %d", confirmed, n, smallDisk)
	return
}

// workOff leases and acknowledges jobs until the first n were seen.
func workOff(t *testing.T, q *shoalnats.Queue, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	missing := make(map[string]bool, n)
	for i := range n {
		missing[fmt.Sprint(i)] = true
	}
	for len(missing) > 0 {
		ds, err := q.Pull(ctx, 100)
		if err != nil {
			t.Fatalf("%d of %d jobs that were confirmed are missing: %v", len(missing), n, err)
		}
		for _, d := range ds {
			var id int
			fmt.Sscan(d.ID(), &id)
			if data := d.Data(); len(data) == 0 || len(bytes.Trim(data, string([]byte{byte(id)}))) > 0 {
				t.Errorf("job %d has other data", id)
			}
			if err := d.Ack(ctx); err != nil {
				t.Errorf("Ack of job %s: %v", d.ID(), err)
			}
			delete(missing, d.ID())
		}
	}
}

// TestAFullDiskIsAnError: by its own jobs. The server keeps a quarter of the disk free,
// and what is there can be worked off: then there is room again.
func TestAFullDiskIsAnError(t *testing.T) {
	dir, _ := smalldisk.New(t, smallDisk)
	s := start(t, dir)
	q := open(t, connect(t, s), "q")
	n, err := fillUp(t, q, 32<<10)
	t.Logf("%d jobs, then: %v", n, err)
	if !errors.Is(err, shoalnats.ErrFull) {
		t.Errorf("%v", err)
	}
	if n < smallDisk/(32<<10)/4 {
		t.Errorf("only %d jobs fit", n)
	}
	workOff(t, q, n)
	if err := q.Enqueue(context.Background(), jobs.Message{ID: "again", Data: make([]byte, 32<<10)}); err != nil {
		t.Errorf("when there is room: %v", err)
	}
}

// TestADiskThatOthersFill: writes fail, whatever the server has reckoned with.
func TestADiskThatOthersFill(t *testing.T) {
	dir, resize := smalldisk.New(t, smallDisk)
	ctx := context.Background()
	s := start(t, filepath.Join(dir, "queue"), withMaxStore(1<<30))
	nc := connect(t, s)
	q := open(t, nc, "q", shoalnats.WithLease(2*time.Second))
	n, err := fillUp(t, q, 32<<10)
	t.Logf("%d jobs, then: %v; %s", n, err, s.writeError())
	if !strings.Contains(err.Error(), "whose disk is full") {
		t.Errorf("%v", err)
	}
	if said := s.writeError(); !strings.Contains(said, "no space left") {
		t.Errorf("the server says %q", said)
	}
	if err := os.WriteFile(filepath.Join(dir, "others"), make([]byte, smallDisk), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the disk is not full: %v", err)
	}
	if err := q.Enqueue(ctx, jobs.Message{Data: []byte("small")}); err == nil {
		t.Error("a job is confirmed that is nowhere")
	}
	nc.Close()
	s.Close()
	// When there is room again, a server that is started anew has all that was confirmed.
	resize(8 * smallDisk)
	s = start(t, filepath.Join(dir, "queue"), withMaxStore(1<<30))
	q = open(t, connect(t, s), "q", shoalnats.WithLease(2*time.Second))
	if err := q.Enqueue(ctx, jobs.Message{ID: "again", Data: []byte{0}}); err != nil || s.writeError() != "" {
		t.Errorf("when there is room: %v, %s", err, s.writeError())
	}
	workOff(t, q, n)
}
