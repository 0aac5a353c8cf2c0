package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/shoal-go/shoal/cmd/shoal/internal/work"
)

// TestAKilledGuardEndsTheWork: without it the commands would outlive a kill.
func TestAKilledGuardEndsTheWork(t *testing.T) {
	w := startWorker(t, 2, "trap 'exit 0' TERM; "+begin+forEver, "-drain", "100ms")
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, dir := range all {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		status, _ := os.ReadFile(filepath.Join(dir, "status"))
		if !bytes.HasSuffix(args, []byte("\x00"+work.GuardCommand+"\x00")) || !bytes.Contains(status, fmt.Appendf(nil, "PPid:\t%d\n", w.Process.Pid)) {
			continue
		}
		process, _ := strconv.Atoi(filepath.Base(dir))
		p, err := os.FindProcess(process)
		if err == nil {
			err = p.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
		killed++
	}
	if killed != 1 {
		t.Fatalf("%d guards", killed)
	}
	w.await("the guard to be missed", func() bool { return strings.Contains(w.said(), "the process has ended, or was stopped") })
	if err := w.Wait(); w.ProcessState.ExitCode() != 1 || !strings.Contains(w.said(), ": 2 done") {
		t.Errorf("shoal work: %v\n%s", err, w.said())
	}
}
