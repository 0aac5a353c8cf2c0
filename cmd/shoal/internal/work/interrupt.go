package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Signals are those that end a command in order. SIGHUP, which comes when a terminal is closed,
// is one of them unless it was ignored when the process began, as by nohup.
func Signals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// notifyPipe makes a write that has no reader any more an error. Without it, SIGPIPE would end this
// process before it has done its work, or with a status that says so though it has.
func notifyPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// Interrupted is the cause of a context that ended by a signal, and the error of a command that
// had not done all when it came.
type Interrupted struct {
	Signal os.Signal
	left   string // what is not done; "" if that is not known
}

func (e *Interrupted) Error() string {
	s := fmt.Sprintf("interrupted (%v)", e.Signal)
	if e.left != "" {
		s += " " + e.left
	}
	return s
}

// Status is the exit status of shells for a process that a signal has ended.
func (e *Interrupted) Status() int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 1
}

// interrupted returns the signal that has ended ctx, or nil.
func interrupted(ctx context.Context) os.Signal {
	if in := (*Interrupted)(nil); errors.As(context.Cause(ctx), &in) {
		return in.Signal
	}
	return nil
}
