package kernel

import "errors"

// The errors of package shoal that the kernel returns.
var (
	ErrClosed    = errors.New("shoal: pool closed")
	ErrQueueFull = errors.New("shoal: queue full")
	ErrDropped   = errors.New("shoal: task dropped")
	ErrGoexit    = errors.New("shoal: task called runtime.Goexit")
)
