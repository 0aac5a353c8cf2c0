package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// terminal opens a pseudo terminal: what a person types at, and what a process reads from.
func terminal(t *testing.T) (person, process *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { person.Close() })
	control := func(request uintptr, n *int32) {
		if _, _, err := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(n))); err != 0 {
			t.Skip(err)
		}
	}
	var locked, number int32
	control(syscall.TIOCSPTLCK, &locked)
	control(syscall.TIOCGPTN, &number)
	process, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { process.Close() })
	return person, process
}

// onTerminal makes c the leader of the session of a terminal.
func onTerminal(c *exec.Cmd, process *os.File) {
	c.Stdin, c.SysProcAttr = process, &syscall.SysProcAttr{Setsid: true, Setctty: true}
}

// TestCtrlCAtATerminal: it does not reach the commands by itself, and the third one kills them.
func TestCtrlCAtATerminal(t *testing.T) {
	person, process := terminal(t)
	w := startWorkerAs(t, func(c *exec.Cmd) { onTerminal(c, process) }, 2,
		"trap 'echo told >>$DIR/told$job' INT; trap '' TERM; "+begin+forEver, "-attempts", "1", "-drain", "1h")
	for i, says := range []string{"stopping; 2 jobs run", "passing the signal on", "killing what runs"} {
		if n := len(w.files("told*")); n > 0 && i < 2 {
			t.Errorf("%d commands were told before the second Ctrl-C", n)
		}
		if _, err := person.WriteString("\x03"); err != nil {
			t.Fatal(err)
		}
		w.await(says, func() bool { return strings.Contains(w.said(), says) })
		if i == 1 {
			w.await("the commands to be told", func() bool { return len(w.files("told*")) == 2 })
		}
	}
	w.ends(2)
	for _, f := range w.files("told*") {
		if b, err := os.ReadFile(f); err != nil || string(b) != "told\n" {
			t.Errorf("a command was told %q: %v", b, err)
		}
	}
}

// TestEnqueueAtATerminal says that it waits for lines.
func TestEnqueueAtATerminal(t *testing.T) {
	person, process := terminal(t)
	if _, err := person.WriteString("a job\n\x04"); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := enqueueCommand(t.Context(), []string{"-dir", t.TempDir()}, process, io.Discard, &said); err != nil {
		t.Fatal(err)
	}
	if s := said.String(); !strings.Contains(s, "Ctrl-D ends it\n") || !strings.Contains(s, "enqueued 1 lines") {
		t.Error(s)
	}
}

// TestEnqueueFromTheNullDevice does not say that it waits for lines: nobody types there.
func TestEnqueueFromTheNullDevice(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var said bytes.Buffer
	if err := enqueueCommand(t.Context(), []string{"-dir", t.TempDir()}, null, io.Discard, &said); err != nil {
		t.Fatal(err)
	}
	if s := said.String(); !strings.HasPrefix(s, "enqueued 0 lines") {
		t.Error(s)
	}
}

// TestATerminalThatIsClosed lets the commands end.
func TestATerminalThatIsClosed(t *testing.T) {
	person, process := terminal(t)
	w := startWorkerAs(t, func(c *exec.Cmd) { onTerminal(c, process) }, 2,
		begin+"while [ ! -e $DIR/go ]; do sleep 0.05; done; : >$DIR/done$job", "-attempts", "1")
	process.Close()
	if err := person.Close(); err != nil {
		t.Fatal(err)
	}
	w.await("the hangup", func() bool { return strings.Contains(w.said(), "stopping; 2 jobs run") })
	w.letGo()
	w.ends(0)
	if n := len(w.files("done*")); n != 2 {
		t.Errorf("%d jobs were done, want 2", n)
	}
}
