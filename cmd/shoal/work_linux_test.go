package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/shoal-go/shoal/internal/smalldisk"
)

// TestWorkOutlivesAFullDisk: enqueue fails and says why; when there is room, all goes on, and
// what was confirmed is done.
func TestWorkOutlivesAFullDisk(t *testing.T) {
	const size = 16 << 20
	dir, _ := smalldisk.New(t, size)
	place := []string{"-dir", filepath.Join(dir, "queue"), "-lease", "2s"}
	enqueue(t, "first\n", place...) // and so the engine is there
	ctx, cancel := context.WithCancel(context.Background())
	var out, said bytes.Buffer
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	working.Go(func() {
		if err := workCommand(ctx, append([]string{"-do", "print"}, place...), &out, &said); err != nil {
			t.Errorf("shoal work: %v", err)
		}
	})
	others := filepath.Join(dir, "others")
	var lines strings.Builder
	for i := range 50 {
		fmt.Fprintln(&lines, i, strings.Repeat("x", 100<<10))
	}
	put := func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return enqueueCommand(ctx, append([]string{"-once"}, place...), strings.NewReader(lines.String()), &bytes.Buffer{}, &bytes.Buffer{})
	}
	var err error
	for {
		if err := os.WriteFile(others, make([]byte, size), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
		if err = put(); err != nil {
			break
		}
	}
	t.Logf("shoal enqueue: %v", err)
	if !strings.Contains(err.Error(), "may not all be enqueued") || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("shoal enqueue: %v", err)
	}
	if err := os.Remove(others); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		if err = put(); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("there is room, but: %v", err)
		}
	}
	more, _ := doWork(t, append([]string{"-do", "print"}, place...)...) // until there is nothing left
	cancel()
	working.Wait()
	done := make(map[string]bool)
	for _, l := range sortedLines(out.String() + more) {
		word, _, _ := strings.Cut(l, " ")
		done[word] = true
	}
	for i := range 50 {
		if !done[fmt.Sprint(i)] {
			t.Errorf("job %d is lost", i)
		}
	}
	if !done["first"] {
		t.Error("the first job is lost")
	}
}
