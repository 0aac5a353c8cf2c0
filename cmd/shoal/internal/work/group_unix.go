//go:build unix

package work

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// inGroup is for a command in the process group of this number, or in a new one if it is 0.
func inGroup(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

// signalGroup sends a signal to c and to what it has started.
func signalGroup(c *exec.Cmd, s syscall.Signal) error {
	err := syscall.Kill(-c.SysProcAttr.Pgid, s)
	if err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return err
}

// wholeInput is a pipe that holds b, or a file if b is too large for one. A pipe needs no disk.
func wholeInput(b []byte) (*os.File, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	n := 0
	c, err := in.SyscallConn()
	if err == nil {
		err = c.Write(func(fd uintptr) bool {
			// A pipe may hold 64 KiB, or less if the user has many: what does not fit is not waited for.
			if syscall.SetNonblock(int(fd), true) == nil {
				n, _ = syscall.Write(int(fd), b)
			}
			return true
		})
	}
	if err == nil && n == len(b) {
		return out, nil
	}
	out.Close()
	return inFile(b)
}

// inFile is a file without a name that holds b, and cannot be written. Unlike a pipe it begins anew
// for a command that opens /dev/stdin.
func inFile(b []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "shoal-job-")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := os.Open(f.Name())
	if err = errors.Join(err, os.Remove(f.Name())); err == nil {
		_, err = f.Write(b)
	}
	if err != nil {
		in.Close() // nil is fine
		return nil, err
	}
	return in, nil
}

// A guard is a process that kills the commands, by their process groups, when this process has
// ended without doing so, as by SIGKILL. A parent-death signal, which Linux alone has, would
// reach the command and nothing that the command has started, such as what a shell runs.
//
// The guard knows a group before a command is in it, so none escapes: a process that is forked holds
// the other end of the guard's pipe until it is in its group and is the command.
type guard struct {
	leader string        // a program that ends at once
	waits  time.Duration // for the guard to read
	kill   func() error
	over   chan struct{} // closed when it has ended

	mu      sync.Mutex // one tells it at a time, so that none gives another one more time
	in      *os.File
	leaders []*exec.Cmd // of all groups
	free    []int       // the groups without a command
}

// guardFor is how long the guard may read nothing, once the pipe to it is full.
const guardFor = 5 * time.Second

// GuardCommand is the argument with which this program is a guard; see Guard.
const GuardCommand = "guard-the-commands-of-work"

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &guard{leader: self, waits: guardFor, over: make(chan struct{})}
	if path, err := exec.LookPath("true"); err == nil {
		g.leader = path // starts sooner
	}
	c := exec.Command(self, GuardCommand)
	c.SysProcAttr = inGroup(0)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c.Stdin, g.in = out, in
	if err := c.Start(); err != nil {
		in.Close()
		return nil, err
	}
	g.kill = c.Process.Kill
	go func() {
		defer close(g.over)
		c.Wait()
	}()
	return g, nil
}

// take returns the number of a process group with no command in it, which the guard knows. The first
// process of the group has ended, and is waited for in close: until then no other process and no
// other group can have that number.
func (g *guard) take() (group int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.free); n > 0 {
		group, g.free = g.free[n-1], g.free[:n-1]
		return group, nil
	}
	c := exec.Command(g.leader, GuardCommand)
	c.SysProcAttr = inGroup(0)
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("no process group can be made: %v", err)
	}
	g.leaders = append(g.leaders, c)
	// A guard that does not read is killed, as it was stopped. No command would start before it goes on.
	_ = g.in.SetWriteDeadline(time.Now().Add(g.waits)) // a test may have a file without one
	if _, err := fmt.Fprintln(g.in, c.Process.Pid); errors.Is(err, os.ErrDeadlineExceeded) {
		_ = g.kill()
	}
	return c.Process.Pid, nil
}

// give gives back a group with no command in it any more.
func (g *guard) give(group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = append(g.free, group)
}

// close ends the guard when no command is left. It is killed, as it may have been stopped.
func (g *guard) close() {
	g.in.Close()
	_ = g.kill()
	<-g.over
	for _, c := range g.leaders {
		_ = c.Wait()
	}
}

// Guard reads the numbers of process groups, one a line, until that ends, which it does when the
// other end has ended, and kills these groups.
func Guard(in io.Reader) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // the work takes longer to end
	var groups []int
	for sc := bufio.NewScanner(in); sc.Scan(); {
		if n, _ := strconv.Atoi(sc.Text()); n > 1 {
			groups = append(groups, n)
		}
	}
	for _, n := range groups {
		_ = syscall.Kill(-n, syscall.SIGKILL)
	}
}
