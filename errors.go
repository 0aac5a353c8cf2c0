package shoal

import (
	"errors"
	"fmt"

	"github.com/shoal-go/shoal/internal/kernel"
)

// Errors that the methods of a [Pool] return. A context's own error is
// returned as it is.
var (
	// ErrConfig is matched by every error about an invalid value: an option of
	// [New], an argument of [Pool.Resize] or of another call, a nil context.
	ErrConfig = errors.New("shoal: invalid configuration")
	// ErrNilTask means that the task was nil.
	ErrNilTask = errors.New("shoal: nil task")
	// ErrQueueFull means that there was no room, and that the call does not wait.
	ErrQueueFull = kernel.ErrQueueFull
	// ErrClosed means that the pool accepts no more tasks.
	ErrClosed = kernel.ErrClosed
	// ErrDropped is the result of an accepted task that was discarded before
	// it started: by [Pool.Close], by a [Pool.Shutdown] whose context ended,
	// or by the policy [DropOldest].
	ErrDropped = kernel.ErrDropped
	// ErrGoexit is the result of a task that ended its goroutine with
	// [runtime.Goexit], as t.FailNow does.
	ErrGoexit = kernel.ErrGoexit
	// ErrWouldDeadlock means that a task asked its own pool for something that
	// cannot happen before the task ends.
	ErrWouldDeadlock = errors.New("shoal: called from a task of the same pool, would wait for itself")
)

// A PanicError is a panic that the pool has recovered, of a task or of a
// function that the pool was given.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // the stack of the goroutine when it panicked, from the function that did
	Pool  string // the pool's name
}

// Error describes the panic, without the stack.
func (e *PanicError) Error() string {
	if e.Pool == "" {
		return fmt.Sprintf("shoal: task panicked: %v", e.Value) // also if a method of Value's panics
	}
	return fmt.Sprintf("shoal: task of pool %q panicked: %v", e.Pool, e.Value)
}

// Unwrap returns Value if that is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// A ShutdownError is what [Pool.Shutdown] returns if its context ended, or
// [Pool.Close] was called, before every accepted task had run to its end. If
// both counts are 0, every task had ended, and only callbacks were still
// running: worker hooks, handlers, a Sizer.
type ShutdownError struct {
	Dropped int   // accepted tasks that were discarded before they started
	Running int   // tasks that were still running when the pool stopped waiting
	Cause   error // why the pool stopped waiting: the context's error, or ErrClosed after Close
}

// Error says how many tasks were left, and why.
func (e *ShutdownError) Error() string {
	return fmt.Sprintf("shoal: shutdown incomplete: %d dropped, %d running: %v", e.Dropped, e.Running, e.Cause)
}

// Unwrap returns Cause.
func (e *ShutdownError) Unwrap() error { return e.Cause }
