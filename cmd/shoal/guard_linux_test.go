package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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
		if !bytes.Contains(args, []byte(work.GuardCommand)) || !bytes.Contains(status, fmt.Appendf(nil, "PPid:\t%d\n", w.Process.Pid)) {
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

// TestAGuardFindsCommandsOfWhichItWasNotTold, as the work was killed too soon, but none of another work,
// nor one that has a session of its own.
func TestAGuardFindsCommandsOfWhichItWasNotTold(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(attr syscall.SysProcAttr, env string) *exec.Cmd {
		t.Helper()
		c := exec.Command("sleep", "300")
		c.SysProcAttr, c.Env = &attr, append(os.Environ(), env)
		if err := c.Start(); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c
	}
	const env = "SHOAL_GUARD=of this test"
	ownGroup, ownSession := syscall.SysProcAttr{Setpgid: true}, syscall.SysProcAttr{Setsid: true}
	untold := start(ownGroup, env)
	others := []*exec.Cmd{start(ownGroup, env+"s"), start(ownGroup, "X"+env), start(ownSession, env)}
	guard := exec.Command(self, work.GuardCommand)
	guard.SysProcAttr, guard.Env = &syscall.SysProcAttr{Setpgid: true}, append(os.Environ(), env)
	if out, err := guard.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := untold.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the command: %v", err)
	}
	for _, c := range others {
		var status syscall.WaitStatus
		if n, err := syscall.Wait4(c.Process.Pid, &status, syscall.WNOHANG, nil); n != 0 || err != nil {
			t.Errorf("%v %v was killed: %v, %v", c.Env[len(c.Env)-1], c.SysProcAttr, status, err)
		}
	}
}
