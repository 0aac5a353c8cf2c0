//go:build !unix

package work

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// Here a command has no process group. It is ended, and what it has started is not.
func ownGroup() *syscall.SysProcAttr { return nil }

func signalGroup(p *os.Process, _ syscall.Signal) error { return p.Kill() }

// wholeInput is of no use where a command outlives a kill of this process anyway.
func wholeInput([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }

type guard struct {
	env  string
	over chan struct{}
}

// GuardCommand is of no use here.
const GuardCommand = "guard-the-commands-of-work"

func startGuard() (*guard, error) { return &guard{env: "SHOAL_GUARD="}, nil }
func (*guard) add(int)            {}
func (*guard) remove(int)         {}
func (*guard) close()             {}

// Guard does nothing.
func Guard(io.Reader) {}
