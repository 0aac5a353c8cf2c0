//go:build unix

package work

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ownGroup is for a command in a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to p and to what it has started.
func signalGroup(p *os.Process, s syscall.Signal) error {
	err := syscall.Kill(-p.Pid, s)
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

// A guard is a process that kills the process groups of the commands when this process has
// ended without doing so, as by SIGKILL. A parent-death signal, which Linux alone has, would
// reach the command and nothing that the command has started, such as what a shell runs.
//
// It is told of a group when the command is there. So a command may have started of which it is not
// told any more. Where there is a Linux /proc, such a command is found by its environment. None is
// missed: what is forked holds the pipe to the guard open until it is the command.
type guard struct {
	env   string     // NAME=VALUE of the commands, and of no other process but the guard
	mu    sync.Mutex // one tells it at a time, so that none gives another one more time
	in    *os.File
	waits time.Duration // for it to read
	kill  func() error
	over  chan struct{} // closed when it has ended
}

// guardFor is how long the guard may read nothing, once the pipe to it is full.
const guardFor = 5 * time.Second

// guardEnv is the variable by which a guard knows commands.
const guardEnv = "SHOAL_GUARD"

// GuardCommand is the argument with which this program is a guard; see Guard.
const GuardCommand = "guard-the-commands-of-work"

func startGuard() (*guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g := &guard{env: guardEnv + "=" + rand.Text(), waits: guardFor, over: make(chan struct{})}
	c := exec.Command(self, GuardCommand)
	c.Env = append(os.Environ(), g.env)
	c.SysProcAttr = ownGroup()
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

func (g *guard) add(group int)    { g.tell("+%d\n", group) }
func (g *guard) remove(group int) { g.tell("-%d\n", group) }

// tell kills a guard that does not read, as it was stopped. No command would start or end before it
// goes on.
func (g *guard) tell(format string, group int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.in.SetWriteDeadline(time.Now().Add(g.waits)) // a test may have a file without one
	if _, err := fmt.Fprintf(g.in, format, group); errors.Is(err, os.ErrDeadlineExceeded) {
		_ = g.kill()
	}
}

// close ends the guard when no command is left. It is killed, as it may have been stopped.
func (g *guard) close() {
	g.in.Close()
	_ = g.kill()
	<-g.over
}

// Guard reads which process groups there are, +N and -N, one a line, until that ends, which
// it does when the other end has ended. Then it kills those that are left, and those that were
// never written there.
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
	for range mostLooks {
		for n := range groups {
			_ = syscall.Kill(-n, syscall.SIGKILL)
		}
		if groups = untold(guardEnv + "=" + os.Getenv(guardEnv)); len(groups) == 0 {
			return
		}
	}
}

// mostLooks is how many times a guard looks for commands, which may change their groups meanwhile.
const mostLooks = 10

// untold returns the groups of the other processes of this session that have env in their environment.
// One that has a session of its own is to outlive the work.
func untold(env string) map[int]bool {
	groups := make(map[int]bool)
	all, _ := filepath.Glob("/proc/[0-9]*")
	self := fmt.Sprint("/proc/", os.Getpid())
	_, session := groupOf(self)
	for _, dir := range all {
		b, _ := os.ReadFile(dir + "/environ") // empty once it has ended
		if dir == self || !slices.Contains(strings.Split(string(b), "\x00"), env) {
			continue
		}
		if g, s := groupOf(dir); g > 1 && s == session {
			groups[g] = true
		}
	}
	return groups
}

// groupOf returns the process group and the session of the process with this folder.
func groupOf(dir string) (group, session int) {
	b, _ := os.ReadFile(dir + "/stat") // as in "12 (its name) S 1 12 10"
	var state string
	var parent int
	_, _ = fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state, &parent, &group, &session)
	return group, session
}
