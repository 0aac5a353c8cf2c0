package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shoal-go/shoal/jobs"
)

// Exit statuses of a command that say more than that it has failed; those of sysexits.h.
const (
	exitPoison = 65 // the job cannot be done: to the dead letters
	exitRetry  = 75 // it cannot be done now
)

const (
	retryAfter = 5 * time.Second
	killAfter  = 800 * time.Millisecond // from SIGTERM to SIGKILL
	// signalApart is how much later than a command this process may take a signal to both.
	signalApart = time.Second
	mostTail    = 4 << 10  // bytes of what a command says at last, on its standard error
	mostOut     = 64 << 20 // bytes of its standard output, which is kept until it ends
)

// A Missing command is one that cannot be found.
type Missing struct {
	Command string
	Err     error
}

func (e *Missing) Error() string {
	why := errors.Unwrap(e.Err) // without the path
	if why == nil {
		why = e.Err
	}
	s := fmt.Sprintf("the command %q cannot be run: %v", e.Command, why)
	_, there := os.Stat(e.Command)
	switch {
	case errors.Is(e.Err, syscall.ENOEXEC):
		s += "; a script needs a first line such as #!/bin/sh"
	case errors.Is(e.Err, fs.ErrNotExist) && there == nil:
		s += "; the program that its first line names is missing"
	case errors.Is(e.Err, exec.ErrNotFound) && there == nil:
		s += "; to run the file of this name in this folder, write ./" + e.Command
	case strings.ContainsAny(e.Command, " \t"):
		s += "; write it and its arguments as words of their own, or sh -c and a script"
	}
	return s
}

func (e *Missing) Unwrap() error { return e.Err }

// lookUp finds the program of a command before any job is leased: one that is not there
// would fail all of them.
func lookUp(command string) (path string, err error) {
	path, err = exec.LookPath(command)
	if err != nil {
		return "", &Missing{command, err}
	}
	return path, nil
}

// processes are the commands that run, each in a process group of its own: a Ctrl-C of the
// terminal reaches this process and no command, and with a command goes what it has started.
type processes struct {
	guard *guard

	mu      sync.Mutex // is never held while the guard is told, which may have been stopped
	running map[*exec.Cmd]struct{}
	ending  chan struct{} // closed when the work is to end
	told    bool          // and another one was passed on; no command starts after that
}

// errGuard is why the work ends when its guard has ended, as by a SIGKILL.
var errGuard = errors.New("the process has ended, or was stopped, that kills the commands if this one is killed")

// errTold is why a command does not start.
var errTold = errors.New("the work ends")

// run runs c, calls started with its process, and says whether it was told to end: this
// process has passed a signal on to it, or it was killed by one while this process ends, as
// when a service manager sends one to all processes of a service. ctx is that of c.
func (ps *processes) run(ctx context.Context, c *exec.Cmd, started func(process int)) (told bool, err error) {
	if err := ps.start(c); err != nil {
		return errors.Is(err, errTold), err
	}
	ps.guard.add(c.Process.Pid)
	started(c.Process.Pid)
	if err = c.Wait(); c.ProcessState != nil && c.ProcessState.Success() {
		err = nil // though it was told to end, or has left something behind that holds its output open
	}
	signalGroup(c.Process, syscall.SIGKILL) // what it has left behind
	if ctx.Err() == nil && isKilled(c.ProcessState) && !ps.isTold() {
		select {
		case <-ps.ending:
			told = true
		case <-ctx.Done():
		case <-time.After(apart(ctx)): // the signal was for the command alone
		}
	}
	ps.guard.remove(c.Process.Pid)
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.running, c)
	return told || ps.told, err
}

// apart is how long to wait whether this process gets the signal that has ended a command. The time
// limit of the job goes on meanwhile, and must not be over because of that.
func apart(ctx context.Context) time.Duration {
	if limit, ok := ctx.Deadline(); ok {
		return min(signalApart, time.Until(limit)/2)
	}
	return signalApart
}

// isKilled says whether a process was ended by a signal that asks for that, or has such an exit
// status, as of a shell whose command was.
func isKilled(p *os.ProcessState) bool {
	if p == nil {
		return false
	}
	by := syscall.Signal(p.ExitCode() - 128)
	if s, ok := p.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		by = s.Signal()
	}
	return by == syscall.SIGINT || by == syscall.SIGTERM || by == syscall.SIGHUP
}

func (ps *processes) start(c *exec.Cmd) error {
	c.SysProcAttr = ownGroup()
	c.Cancel = func() error { return signalGroup(c.Process, syscall.SIGTERM) }
	c.WaitDelay = killAfter
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.told {
		return errTold
	}
	if err := c.Start(); err != nil {
		return err
	}
	ps.running[c] = struct{}{}
	return nil
}

// end ends the commands once the work is to end and has had the time of drain: by SIGTERM, and
// after killAfter by SIGKILL. A job is given back when its command has ended, and not before.
func (ps *processes) end(drain time.Duration, served <-chan struct{}) {
	for _, next := range []struct {
		after time.Duration
		s     syscall.Signal
	}{{drain, syscall.SIGTERM}, {killAfter, syscall.SIGKILL}} {
		select {
		case <-served:
			return
		case <-time.After(next.after):
			ps.tell(next.s)
		}
	}
}

func (ps *processes) isTold() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.told
}

// tell passes a signal on to all commands. One that fails after that has not failed by
// itself: its job is given back.
func (ps *processes) tell(s syscall.Signal) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.told = true
	for c := range ps.running {
		_ = signalGroup(c.Process, s)
	}
}

// command runs a program for each job: the payload and a line feed are its standard input.
func (w Work) command(path string, ps *processes, r *reporter) jobs.Handler {
	return func(ctx context.Context, j *jobs.Job) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		out := output{full: cancel}
		var errs tail
		c := exec.CommandContext(ctx, path, w.Command[1:]...)
		c.Args[0] = w.Command[0]
		// If this process were killed while it still writes the input, the command would find an end, and
		// take a part of the job for all of it. So all of it is there before the command starts, if possible.
		payload := append(slices.Clip(j.Data), '\n')
		c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(payload), &out, &errs
		if in, err := wholeInput(payload); err == nil {
			defer in.Close()
			c.Stdin = in
		}
		env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, TokenEnv+"=") })
		c.Env = append(env, ps.guard.env, "SHOAL_JOB="+j.ID, "SHOAL_ATTEMPT="+strconv.Itoa(j.Attempt), "SHOAL_TYPE="+j.Type())
		told, err := ps.run(ctx, c, func(process int) { r.started(j, process) })
		if c.ProcessState == nil { // it has not run, for which a job is seldom at fault
			if told {
				return jobs.ErrStopped
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, syscall.E2BIG) && len(j.ID)+len(j.Type()) > 4<<10 || strings.ContainsRune(j.ID+j.Type(), 0) {
				return jobs.Poison(fmt.Errorf("its ID or type cannot be passed to a command: %w", err))
			}
			err = &Missing{w.Command[0], err}
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC) {
				r.fatal(err) // no other job would do better
				return jobs.ErrStopped
			}
			w.Log.Error("work: a command did not start; its job is tried again", "job", j.ID, "after", retryAfter, "err", err)
			return jobs.Retry(retryAfter)
		}
		if out.cut {
			err = fmt.Errorf("the command has written more than %d bytes on its standard output, and was ended", mostOut)
			return jobs.WithOutput(err, []byte(errs.String()))
		}
		if e := r.output(j, out.b); e != nil {
			return e
		}
		if err == nil {
			return nil
		}
		if s := errs.String(); s != "" {
			err = jobs.WithOutput(fmt.Errorf("%w: %s", err, s[strings.LastIndexByte(s, '\n')+1:]), []byte(s))
		}
		switch code := c.ProcessState.ExitCode(); {
		case code == exitPoison:
			return jobs.Poison(err)
		case code == exitRetry:
			return fmt.Errorf("%w: %w", jobs.Retry(retryAfter), err)
		case told && context.Cause(ctx) != jobs.ErrTimeLimit:
			return jobs.ErrStopped
		}
		return err
	}
}

// An output keeps what is written to it, up to mostOut: a command that writes for ever would
// take all memory.
type output struct {
	b    []byte
	cut  bool
	full func() // ends the command
}

func (o *output) Write(b []byte) (int, error) {
	if len(o.b)+len(b) > mostOut {
		o.b, o.cut = nil, true
		o.full()
		return 0, io.ErrShortWrite // and so the pipe of the command is closed
	}
	o.b = append(o.b, b...)
	return len(b), nil
}

// A tail keeps the last bytes that are written to it.
type tail struct {
	b   []byte
	cut bool
}

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if n := len(t.b) - mostTail; n > 0 {
		t.b, t.cut = append(t.b[:0], t.b[n:]...), true
	}
	return len(b), nil
}

func (t *tail) String() string {
	s := strings.TrimSpace(strings.ToValidUTF8(string(t.b), ""))
	if t.cut {
		s = "…" + s
	}
	return s
}
