package shoalsql

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"time"
)

const (
	firstLook = time.Millisecond       // after a write
	lastLook  = 500 * time.Millisecond // about, if nothing else was written
)

// untilWritten returns a waiter that waits until a file is written. A write to the log of a
// database becomes a commit only when the disk has it. So after a write the looks go on, and each
// pause is half as long again as the one before. A commit is seen late by at most half of the time
// that it took, and while nothing is written there are no looks. If the file is moved or deleted,
// the waiter ends, because the log may be another file then.
func untilWritten(ctx context.Context, file string) (*waiter, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	end := func() { go f.Close() }                         // which takes the kernel some 10 ms
	if err := f.SetReadDeadline(time.Time{}); err != nil { // the system takes no more to be polled
		end()
		return nil, err
	}
	if _, err := syscall.InotifyAddWatch(fd, file, syscall.IN_MODIFY|syscall.IN_ATTRIB|syscall.IN_MOVE_SELF); err != nil {
		end()
		return nil, &os.PathError{Op: "inotify_add_watch", Path: file, Err: err}
	}
	events := make([]byte, 4096)
	pause := firstLook
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	return &waiter{close: func() { stop(); end() }, wait: func(changed bool) bool {
		var until time.Time // for ever
		if changed {
			pause = firstLook
		}
		if pause < lastLook {
			until = time.Now().Add(pause)
		}
		if f.SetReadDeadline(until) != nil || ctx.Err() != nil {
			return false
		}
		switch n, err := f.Read(events); {
		case errors.Is(err, os.ErrDeadlineExceeded):
			pause += pause / 2
		case err != nil, moved(events[:n]):
			return false
		default:
			pause = firstLook
			time.Sleep(firstLook) // one look for all that is written meanwhile
		}
		return ctx.Err() == nil
	}}, nil
}

// moved reports whether one of events says more than that the file was written, or that events
// were lost: as long as the watch lasts, that is a change of its attributes, such as its links.
func moved(events []byte) bool {
	for len(events) >= syscall.SizeofInotifyEvent {
		if binary.NativeEndian.Uint32(events[4:])&^(syscall.IN_MODIFY|syscall.IN_Q_OVERFLOW) != 0 {
			return true
		}
		name := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(len(events), syscall.SizeofInotifyEvent+name):]
	}
	return false
}
