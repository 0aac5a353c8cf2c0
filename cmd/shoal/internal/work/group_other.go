//go:build !unix

package work

import (
	"io"
	"os"
	"syscall"
)

// Here a command has no process group. It is ended, and what it has started is not.
func ownGroup() *syscall.SysProcAttr { return nil }

func signalGroup(p *os.Process, _ syscall.Signal) error { return p.Kill() }

func input(b []byte) (jobInput, error) { return inFile(b) }

type guard struct{}

// GuardCommand is of no use here.
const GuardCommand = "guard-the-commands-of-work"

func startGuard() (*guard, error) { return &guard{}, nil }
func (*guard) add(int)            {}
func (*guard) remove(int)         {}
func (*guard) close()             {}

// Guard does nothing.
func Guard(io.Reader) {}
