//go:build unix

package work

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
)

// ownGroup is for a command in a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to p and to what it has started.
func signalGroup(p *os.Process, s syscall.Signal) error { return syscall.Kill(-p.Pid, s) }

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

// inFile is a file without a name that holds b.
func inFile(b []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "shoal-job-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// A guard is a process that kills the process groups of the commands when this process has
// ended without doing so, as by SIGKILL. A parent-death signal, which Linux alone has, would
// reach the command and nothing that the command has started, such as what a shell runs.
type guard struct {
	c  *exec.Cmd
	in io.WriteCloser
}

// GuardCommand is the argument with which this program is a guard; see Guard.
const GuardCommand = "guard-the-commands-of-work"

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &guard{c: exec.Command(self, GuardCommand)}
	g.c.SysProcAttr = ownGroup()
	if g.in, err = g.c.StdinPipe(); err != nil {
		return nil, err
	}
	return g, g.c.Start()
}

func (g *guard) add(group int)    { fmt.Fprintf(g.in, "+%d\n", group) }
func (g *guard) remove(group int) { fmt.Fprintf(g.in, "-%d\n", group) }

func (g *guard) close() {
	g.in.Close()
	g.c.Wait()
}

// Guard reads which process groups there are, +N and -N, one a line, until that ends, which
// it does when the other end has ended, and kills those that are left.
func Guard(in io.Reader) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // the work takes longer to end
	groups := make(map[int]bool)
	for sc := bufio.NewScanner(in); sc.Scan(); {
		switch n, _ := strconv.Atoi(sc.Text()); { // +N is N, and -N less than 0
		case n > 1:
			groups[n] = true
		case n < -1:
			delete(groups, -n)
		}
	}
	for n := range groups {
		_ = syscall.Kill(-n, syscall.SIGKILL)
	}
}
