//go:build !unix

package work

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Here a command has no process group. It is ended, and what it has started is not.
func inGroup(int) *syscall.SysProcAttr { return nil }

func signalGroup(c *exec.Cmd, _ syscall.Signal) error { return c.Process.Kill() }

// wholeInput is of no use where a command outlives a kill of this process anyway.
func wholeInput([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }

type guard struct{ over chan struct{} }

// GuardCommand is of no use here.
const GuardCommand = "guard-the-commands-of-work"

func startGuard() (*guard, error) { return &guard{}, nil }
func (*guard) take() (int, error) { return 0, nil }
func (*guard) give(int)           {}
func (*guard) close()             {}

// Guard does nothing.
func Guard(io.Reader) {}
