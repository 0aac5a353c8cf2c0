//go:build !linux

package postgres

import (
	"fmt"
	"syscall"
)

func own(string) error { return fmt.Errorf("%w (on Linux only)", ErrNone) }

func attributes() *syscall.SysProcAttr { return nil }
